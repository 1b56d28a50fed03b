"""From file to file: fit, predict, explain and certify tables on disk. Wiring of `tablefiles` and the estimators."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from tqdm import tqdm

from harsanyinet import files, storage
from harsanyinet.certificate import Certificate, verify
from harsanyinet.tablefiles import Place, count_rows, odd_values, read_rows_for, read_table, writing_table
from harsanyinet.tables.bins import code_frame
from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables.frames import UnseenCategoryWarning

Task = Literal["classification", "regression"]
Game = Literal["missing", "marginal"]
TableModel = HarsanyiClassifier | HarsanyiRegressor
Say = Callable[[str], object]

MOST_CLASSES = 20
"""A target of more different whole numbers than this is a quantity."""


@dataclass(frozen=True)
class FitReport:
    """What `fit_file` did."""

    n_rows: int
    n_without_target: int
    n_columns: int
    task: Task
    n_classes: int | None
    n_trees: int
    learning_rate: float
    n_held_out: int
    scores: dict[str, float]
    """Loss, accuracy and so on, by name, of rows held out while the learning rate was looked for; else none."""
    important: tuple[tuple[str, float], ...]
    """The five most important columns and their mean |Shapley value|."""
    seconds: float
    path: Path

    def __str__(self) -> str:
        left_out = f" ({self.n_without_target:,} more without a target)" if self.n_without_target else ""
        classes = f", {self.n_classes} classes" if self.n_classes else ""
        scores = ", ".join(f"{name} {value:.4g}" for name, value in self.scores.items())
        lines = {
            "rows": f"{self.n_rows:,}{left_out}",
            "columns": f"{self.n_columns:,}",
            "task": f"{self.task}{classes}",
            "trees": f"{self.n_trees:,}, learning rate {self.learning_rate:.3g}",
            "on rows held out": f"{scores} ({self.n_held_out:,} rows)" if scores else "nothing was held out",
            "most important": ", ".join(f"{name} {value:.3g}" for name, value in self.important),
            "seconds": f"{self.seconds:.1f}",
            "model": str(self.path),
        }
        return "\n".join(f"{name:<18}{value}" for name, value in lines.items())


def fit_file(
    data: Place,
    target: str,
    out: Place,
    *,
    task: Literal["auto", "classification", "regression"] = "auto",
    missing: Sequence[str] = (),
    drop: Sequence[str] = (),
    say: Say = lambda text: None,
    **settings: Any,
) -> FitReport:
    """Fits an estimator to a table file and saves it.

    Args:
        data: CSV, TSV or Parquet.
        target: The column to predict; rows without it are left out.
        out: The model file.
        task: What to fit; "auto" asks `decide_task`, and takes a `loss` among the settings for regression.
        missing: What stands for a missing value in the file, such as "?".
        drop: Columns to leave out.
        say: Takes remarks, one line each.
        **settings: Of the estimator, such as `max_iter`; None stands for the default.
    """
    start = time.perf_counter()
    settings = {name: value for name, value in settings.items() if value is not None}
    if task == "classification" and (losses := settings.keys() & {"loss", "quantile"}):
        raise ValueError(f"{min(losses)} is a setting of regression, however: the task is classification")
    if "quantile" in settings and settings.get("loss") != "quantile":
        raise ValueError(f"a quantile needs the loss quantile, however: loss={settings.get('loss', 'squared')}")
    files.check_place(out)
    frame = read_table(data, missing=missing, text=settings.get("categorical_features", ()))
    for name in (target, *drop, *settings.get("categorical_features", ())):
        if name not in frame.columns:
            some = ", ".join(map(repr, frame.columns[:12])) + (", ..." if len(frame.columns) > 12 else "")
            raise ValueError(f"{data} has no column {name!r}; it has {some}")
    y = frame[target]
    frame = frame.drop(columns=[target, *drop])
    if not len(frame.columns):
        raise ValueError(f"{data} must have a column besides the target, however: none is left")
    known = y.notna()
    n_without = int((~known).sum())
    if n_without:
        say(f"{n_without:,} of {len(y):,} rows have no {target!r} and are left out")
        frame, y = frame[known].reset_index(drop=True), y[known].reset_index(drop=True)
    if not len(y):
        raise ValueError(f"column {target!r} of {data} must hold something to predict, however: it is empty")
    task = "regression" if "loss" in settings else task
    y = _tidy_target(y, task)
    if task == "auto":
        task, why = decide_task(y)
        say(f"{task}, because {why}; choose the other by --task")
    for name in frame.columns.difference(list(settings.get("categorical_features", ()))):
        if odd := odd_values(frame[name]):
            quoted = ", ".join(map(repr, odd))
            say(f"column {name!r} counts as categories because of {quoted}; if that is missing, say --missing")
    if str(frame.columns[0]).startswith("Unnamed: "):
        say(f"the first column has no name; if it counts rows, leave it out by --drop {str(frame.columns[0])!r}")
    model: TableModel = (HarsanyiClassifier if task == "classification" else HarsanyiRegressor)(**settings)
    model.fit(frame, y)
    model.save(out)
    return _report(model, y, n_without, task, Path(out), time.perf_counter() - start)


def decide_task(y: pd.Series[Any]) -> tuple[Task, str]:
    """Whether a target asks for classes or numbers, and why.

    Examples:
        >>> decide_task(pd.Series([0, 1, 1, 0], name="y"))
        ('classification', "'y' holds 2 different whole numbers")
    """
    if pd.api.types.is_bool_dtype(y.dtype):
        return "classification", f"{y.name!r} holds true and false"
    if not pd.api.types.is_numeric_dtype(y.dtype):
        if odd := odd_values(y):
            raise ValueError(
                f"the target must hold numbers or names of classes, however: {y.name!r} holds numbers and "
                f"{', '.join(map(repr, odd))}; name it as missing, or choose the task"
            )
        return "classification", f"{y.name!r} holds text, {y.nunique()} classes"
    different = y.unique()
    if not np.all(different % 1 == 0):  # also where infinite
        return "regression", f"{y.name!r} holds numbers that are not whole"
    if len(different) <= MOST_CLASSES:
        return "classification", f"{y.name!r} holds {len(different)} different whole numbers"
    return "regression", f"{y.name!r} holds more than {MOST_CLASSES} different whole numbers"


def predict_file(
    model: Place,
    data: Place,
    out: Place | None = None,
    *,
    missing: Sequence[str] = (),
    chunk: int = 5000,
    threads: int | None = None,
    say: Say = lambda text: None,
    progress: bool = True,
) -> int:
    """Predicts the rows of a table file, which may be larger than memory.

    The columns of the result are `prediction`, for a classifier also `probability of <class>` for each class; with
    several targets `prediction of <target>` for each.

    Args:
        model: A model file of an estimator.
        data: CSV, TSV or Parquet, with the columns of the model and any others, in any order.
        out: Where the predictions go, likewise; None for CSV on stdout.
        missing: What stands for a missing value in the file; the same as in `fit_file`.
        chunk: Rows read at a time.
        threads: As in fit if None.
        say: Takes remarks, one line each.
        progress: Shows a bar on stderr when it lasts longer than two seconds.

    Returns:
        The number of rows.
    """
    return _stream(_predicted, model, data, out, missing, chunk, threads, say, progress)


def explain_file(
    model: Place,
    data: Place,
    out: Place | None = None,
    *,
    game: Game = "missing",
    missing: Sequence[str] = (),
    chunk: int = 5000,
    threads: int | None = None,
    say: Say = lambda text: None,
    progress: bool = True,
) -> int:
    """Writes the Shapley values of the rows of a table file, which may be larger than memory.

    The columns of the result are `base value`, one for each column of the model, and `output`: the raw output, to which
    the others of the row add up. With several outputs there is one such group for each, `<output>: <column>`.

    Args:
        model: As for `predict_file`, like all that follow.
        data: The rows.
        out: Where the values go.
        game: What happens to columns outside a coalition: they are missing, or averaged over the training rows.
        missing: What stands for a missing value.
        chunk: Rows read at a time.
        threads: As in fit if None.
        say: Takes remarks.
        progress: Shows a bar.

    Returns:
        The number of rows.
    """
    return _stream(partial(_explained, game=game), model, data, out, missing, chunk, threads, say, progress)


def verify_file(
    model: Place,
    rows: Place,
    *,
    max_rows: int = 10,
    double: bool = False,
    missing: Sequence[str] = (),
    say: Say = lambda text: None,
) -> Certificate:
    """Certifies a model file on the first rows of a file.

    Args:
        model: Of a network or an estimator.
        rows: A table with column names for an estimator; a CSV of plain numbers without names for a network.
        max_rows: How many rows are tried.
        double: Converts a network to float64 first; a table's model computes in float64 anyway.
        missing: What stands for a missing value in a table with names.
        say: Takes remarks.
    """
    loaded = storage.load(model)
    if not isinstance(loaded, TableModel):
        return _verify_network(loaded, model, rows, max_rows, double)
    frame = next(read_rows_for(loaded.columns_, rows, rows=max_rows, missing=missing))
    with _unseen(say):
        code_frame(loaded.columns_, frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenCategoryWarning)  # it is said above, once
        return verify(loaded, _input(loaded, frame), max_rows=max_rows)


# Steps ---------------------------------------------------------------------------------------------------------------


def _verify_network(net: Any, path: Place, rows: Place, max_rows: int, double: bool) -> Certificate:
    import torch

    from harsanyinet.datasets import read_rows
    from harsanyinet.mlp import HarsanyiMLP

    if not isinstance(net, HarsanyiMLP):
        raise ValueError(
            f"{path} must hold a model of a table, however: it holds a {type(net).__name__}; for images there is "
            "harsanyinet.verify(harsanyinet.load(path), images) in Python"
        )
    net = net.double() if double else net
    return verify(net, torch.from_numpy(read_rows(rows, net.n_features)).to(net.baseline.dtype), max_rows=max_rows)


def _tidy_target(y: pd.Series[Any], task: str) -> pd.Series[Any]:
    """Without traces of the missing values that stood in it: whole numbers as integers, booleans as booleans."""
    if isinstance(y.dtype, pd.CategoricalDtype):
        y = y.astype(y.cat.categories.dtype)
    y = y.infer_objects()
    if pd.api.types.is_datetime64_any_dtype(y.dtype):
        raise ValueError(f"the target must hold numbers or names of classes, however: {y.name!r} holds dates")
    if pd.api.types.is_numeric_dtype(y.dtype):
        if np.isinf(y.to_numpy(dtype=np.float64)).any():
            raise ValueError(f"the target must hold finite numbers, however: {y.name!r} contains infinity")
        if pd.api.types.is_float_dtype(y.dtype) and (y % 1 == 0).all() and y.abs().max() < 2**53:
            y = y.astype(np.int64)
        if task == "classification" and not (y % 1 == 0).all():
            example = float(y[y % 1 != 0].iloc[0])
            raise ValueError(f"classes must be text or whole numbers, however: {y.name!r} holds {example}")
    elif task == "regression":
        numbers = pd.to_numeric(y, errors="coerce")
        if numbers.isna().any():
            example = y[numbers.isna()].iloc[0]
            raise ValueError(f"the target of a regression must hold numbers, however: {y.name!r} holds {example!r}")
        y = numbers
    return y


def _report(model: TableModel, y: pd.Series[Any], n_without: int, task: Task, path: Path, seconds: float) -> FitReport:
    history, importance = model.history_, model.feature_importances_
    return FitReport(
        n_rows=len(y),
        n_without_target=n_without,
        n_columns=len(model.columns_),
        task=task,
        n_classes=len(model.classes_) if isinstance(model, HarsanyiClassifier) else None,
        n_trees=len(model.trees_),
        learning_rate=model.learning_rate_,
        n_held_out=history.n_rows,
        scores=history.scores,
        important=tuple(
            (model.columns_[i].name, float(importance[i])) for i in np.argsort(-importance, kind="stable")[:5]
        ),
        seconds=seconds,
        path=path,
    )


def _stream(
    answer: Callable[[TableModel, pd.DataFrame], pd.DataFrame],
    path: Place,
    data: Place,
    out: Place | None,
    missing: Sequence[str],
    chunk: int,
    threads: int | None,
    say: Say,
    progress: bool,
) -> int:
    model = storage.load(path)
    if not isinstance(model, TableModel):
        raise ValueError(f"{path} must hold a model of a table, however: it holds a {type(model).__name__}")
    if threads is not None:
        model.set_params(n_jobs=threads)
    total = count_rows(data)
    done = 0
    with (
        _unseen(say) as note,
        writing_table(out) as write,
        tqdm(total=total, unit="row", unit_scale=True, delay=2.0, disable=not progress, leave=False) as bar,
    ):
        for frame in read_rows_for(model.columns_, data, rows=chunk, missing=missing):
            write(answer(model, _input(model, frame)))
            note()
            done += len(frame)
            bar.update(len(frame))
    return done


def _input(model: TableModel, frame: pd.DataFrame) -> Any:
    """The rows as the model was fitted on them: with names, or, where it saw none, without."""
    return frame if hasattr(model, "feature_names_in_") else frame.to_numpy(dtype=object)


def _predicted(model: TableModel, frame: Any) -> pd.DataFrame:
    if isinstance(model, HarsanyiClassifier):
        shares = model.predict_proba(frame)
        columns = {f"probability of {label}": shares[:, i] for i, label in enumerate(model.classes_)}
        return pd.DataFrame({"prediction": model.classes_[shares.argmax(1)], **columns})
    found = model.predict(frame)
    if found.ndim == 1:
        return pd.DataFrame({"prediction": found})
    return pd.DataFrame(found, columns=[f"prediction of {name}" for name in model.output_names_])


def _explained(model: TableModel, frame: Any, game: Game) -> pd.DataFrame:
    explained = model.explain(frame, game=game)
    n_rows, names, outputs = len(frame), explained.feature_names, explained.output_names
    base, values = explained.base_values.reshape(-1), explained.values.reshape(n_rows, len(names), -1)
    raw = explained.outputs.reshape(n_rows, -1)
    parts = {}
    for k, output in enumerate(outputs):
        before = f"{output}: " if len(outputs) > 1 else ""
        parts[before + _free("base value", names)] = np.full(n_rows, base[k])
        parts |= {before + name: values[:, i, k] for i, name in enumerate(names)}
        parts[before + _free("output", names)] = raw[:, k]
    return pd.DataFrame(parts)


def _free(name: str, taken: Sequence[str]) -> str:
    """A name that no column has."""
    return name if name not in taken else _free(f"{name}_", taken)


@contextmanager
def _unseen(say: Say) -> Iterator[Callable[[], None]]:
    """Adds up the categories that were not there in fit, and says one sentence for each column at the end."""
    totals: dict[str, tuple[object, int]] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnseenCategoryWarning)

        def note() -> None:
            for one in caught:
                if isinstance(one.message, UnseenCategoryWarning):
                    example, rows = totals.get(one.message.column, (one.message.example, 0))
                    totals[one.message.column] = (example, rows + one.message.n_rows)
                else:
                    say(str(one.message))
            caught.clear()

        yield note
        note()
    for column, (example, rows) in totals.items():
        say(str(UnseenCategoryWarning.of(column, example, rows)))
