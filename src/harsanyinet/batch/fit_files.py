"""From a table file to a model file. Wiring of `tablefiles` and the estimators."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from harsanyinet import files
from harsanyinet.batch.tablefiles import STANDARD, Reading, odd_values, read_table, seekable
from harsanyinet.files import Place
from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables.frames import ColumnWarning

Task = Literal["classification", "regression"]
TableModel = HarsanyiClassifier | HarsanyiRegressor
Say = Callable[[str], object]

MOST_CLASSES = 20
"""A target of more different whole numbers than this is a quantity."""


@dataclass(frozen=True)
class FitReport:
    """What `fit_file` did; as text, what `harsanyinet fit` prints."""

    model: TableModel
    path: Path
    n_rows: int
    n_without_target: int
    seconds: float

    def __str__(self) -> str:
        model, importance, history = self.model, self.model.feature_importances_, self.model.history_
        left_out = f" ({self.n_without_target:,} more without a target)" if self.n_without_target else ""
        is_classifier = isinstance(model, HarsanyiClassifier)
        scores = ", ".join(f"{name} {value:.4g}" for name, value in history.scores.items())
        first = np.argsort(-importance, kind="stable")[:5]
        lines = {
            "rows": f"{self.n_rows:,}{left_out}",
            "columns": f"{len(model.columns_):,}",
            "task": f"classification, {len(model.classes_)} classes" if is_classifier else "regression",
            "trees": f"{len(model.trees_):,}, learning rate {model.learning_rate_:.3g}",
            "on rows held out": f"{scores} ({history.n_rows:,} rows)" if scores else "nothing was held out",
            "most important": ", ".join(f"{model.players_.names[i]} {importance[i]:.3g}" for i in first),
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
    delimiter: str | None = None,
    encoding: str | None = None,
    drop: Sequence[str] = (),
    ids: Sequence[str] = (),
    say: Say = lambda text: None,
    **settings: Any,
) -> FitReport:
    """Fits an estimator to a table file and saves it.

    Args:
        data: CSV, TSV or Parquet; "-" for standard input.
        target: The column to predict; rows without it are left out.
        out: The model file.
        task: What to fit; "auto" asks `decide_task`, and takes a `loss` among the settings for regression.
        missing, delimiter, encoding: How to read the file, see `Reading`.
        drop: Columns to leave out.
        ids: Columns that name the rows, and are left out too.
        say: Takes remarks, one line each.
        **settings: Of the estimator, such as `max_iter`; None stands for the default.
    """
    start = time.perf_counter()
    settings = {name: value for name, value in settings.items() if value is not None}
    if task == "classification" and (losses := settings.keys() & {"loss", "quantile"}):
        raise ValueError(f"{min(losses)} is a setting of regression, however: the task is classification")
    if "quantile" in settings and settings.get("loss") != "quantile":
        raise ValueError(f"a quantile needs the loss quantile, however: loss={settings.get('loss', 'squared')}")
    if str(out) == STANDARD:
        raise ValueError("a model must go to a file, such as model.hnet, however: to standard output")
    files.check_place(out, [data])
    reading: Reading = {"missing": missing, "delimiter": delimiter, "encoding": encoding}
    with seekable(data) as path:
        frame = read_table(path, text=settings.get("categorical_features", ()), **reading)
    frame, y, n_without = _columns(frame, data, target, [*drop, *ids], settings, say)
    task = "regression" if "loss" in settings else task
    y = _tidy_target(y, task)
    if task == "auto":
        task, why = decide_task(y)
        say(f"{task}, because {why}; choose the other by --task")
    _remark(frame, settings, say)
    model: TableModel = (HarsanyiClassifier if task == "classification" else HarsanyiRegressor)(**settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ColumnWarning)
        model.fit(frame, y)
    for warning in caught:
        say(str(warning.message))
    model.save(out)
    return FitReport(model, Path(out), len(y), n_without, time.perf_counter() - start)


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


# Steps ---------------------------------------------------------------------------------------------------------------


def _columns(
    frame: pd.DataFrame, data: Place, target: str, dropped: Sequence[str], settings: dict[str, Any], say: Say
) -> tuple[pd.DataFrame, pd.Series[Any], int]:
    """The columns to learn from and the target, where it is known; and how many rows are without."""
    for name in (target, *dropped, *settings.get("categorical_features", ()), *settings.get("monotonic_cst", ())):
        if name not in frame.columns:
            some = ", ".join(map(repr, frame.columns[:12])) + (", ..." if len(frame.columns) > 12 else "")
            raise ValueError(f"{data} has no column {name!r}; it has {some}")
    y, known = frame[target], frame[target].notna()
    frame = frame.drop(columns=[target, *dropped])
    if not len(frame.columns):
        raise ValueError(f"{data} must have a column besides the target, however: none is left")
    if n_without := int((~known).sum()):
        say(f"{n_without:,} of {len(y):,} rows have no {target!r} and are left out")
        frame, y = frame[known].reset_index(drop=True), y[known].reset_index(drop=True)
    if not len(y):
        raise ValueError(f"column {target!r} of {data} must hold something to predict, however: it is empty")
    return frame, y, n_without


def _remark(frame: pd.DataFrame, settings: Mapping[str, Any], say: Say) -> None:
    """What may have been meant otherwise."""
    for name in frame.columns.difference(list(settings.get("categorical_features", ()))):
        if odd := odd_values(frame[name]):
            quoted = ", ".join(map(repr, odd))
            say(f"column {name!r} counts as categories because of {quoted}; if that is missing, say --missing")
    if str(frame.columns[0]).startswith("Unnamed: "):
        say(f"the first column has no name; if it counts rows, leave it out by --drop {str(frame.columns[0])!r}")


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
