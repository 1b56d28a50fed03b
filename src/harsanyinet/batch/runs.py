"""From file to file: predict, explain, score and certify tables on disk. Wiring of `tablefiles` and the estimators."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain, pairwise
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harsanyinet import files, loading
from harsanyinet.batch.fit_files import Say, TableModel
from harsanyinet.batch.tablefiles import (
    STANDARD,
    Reading,
    count_rows,
    read_rows,
    read_rows_for,
    seekable,
    writing_table,
)
from harsanyinet.explanations.certificate import Certificate, verify
from harsanyinet.files import Place
from harsanyinet.progress import bar
from harsanyinet.tables.columns import Column, code_frame
from harsanyinet.tables.estimators import HarsanyiClassifier
from harsanyinet.tables.frames import UnseenCategoryWarning
from harsanyinet.tables.losses import scores_of
from harsanyinet.threads import count_threads

Game = Literal["missing", "marginal"]


class Streaming(Reading, total=False):
    """How to go through a file: how it is read, and what follows."""

    ids: Sequence[str]
    """Columns of the data that name the rows, and stand before the result; none by default."""
    chunk: int
    """Rows that are read at a time, 20,000: fewer cost more by the call, more take memory."""
    threads: int | None
    """As in fit if None."""
    say: Say
    """Takes remarks, one line each."""
    progress: bool
    """Whether to show a bar on a terminal when it lasts longer than two seconds; True by default."""


def predict_file(model: Place, data: Place, out: Place | None = None, **options: Unpack[Streaming]) -> int:
    """Predicts the rows of a table file, which may be larger than memory.

    The columns of the result are `prediction`, for a classifier also `probability of <class>` for each class; with
    several targets `prediction of <target>` for each.

    Args:
        model: A model file of an estimator.
        data: CSV, TSV or Parquet, with the columns of the model and any others, in any order; "-" for standard input.
        out: Where the predictions go, likewise; None or "-" for CSV on stdout.
        **options: See `Streaming`.

    Returns:
        The number of rows.
    """
    return _stream(_predicted, "predicting", model, data, out, **options)


def explain_file(
    model: Place, data: Place, out: Place | None = None, *, game: Game = "missing", **options: Unpack[Streaming]
) -> int:
    """Writes the Shapley values of the rows of a table file, which may be larger than memory; see `predict_file`.

    The columns of the result are `base value`, one for each column of the model, and the raw output, to which the
    others of the row add up: `log-odds of <class>` for two classes, `output` for a number. With several outputs there
    is one such group for each, `<output>: <column>`.

    Args:
        model, data, out, **options: As for `predict_file`.
        game: What happens to columns outside a coalition: they are missing, or averaged over the training rows.
    """
    return _stream(partial(_explained, game=game), "explaining", model, data, out, **options)


def score_file(
    model: Place, data: Place, target: str, *, say: Say = lambda text: None, **reading: Unpack[Reading]
) -> dict[str, float]:
    """How good a model is on the rows of a file whose target is known, by name.

    Args:
        model, data: As for `predict_file`.
        target: The column that holds the truth; rows without it are left out.
        say: Takes remarks, one line each.
        **reading: See `Reading`.

    Returns:
        For classes log-loss, accuracy and, for two of them, AUC; for numbers RMSE and R2, or the loss that was fitted;
        and `rows`, how many were scored.
    """
    loaded = _table_model(model)
    if len(loaded.output_names_) > 1 and not isinstance(loaded, HarsanyiClassifier):
        raise ValueError(f"score compares one target, however: {model} predicts {len(loaded.output_names_)}")
    names = [column.name for column in loaded.columns_]
    if target in names:
        raise ValueError(f"the target must be no column of the model, however: {target!r} is one")
    column = _target_column(loaded, target)
    raw, truth, n_rows = [], [], 0
    with seekable(data) as path, _unseen(say):
        for frame in read_rows_for([*loaded.columns_, column], path, rows=5000, **reading):
            n_rows += len(frame)
            frame = frame[frame[target].notna()]
            if len(frame):
                raw.append(loaded.raw_outputs(_input(loaded, frame[names])).reshape(len(frame), -1))
                truth.append(_truth(column, frame[target], data))
    if not truth:
        raise ValueError(f"column {target!r} of {data} must hold something to compare with, however: it is empty")
    output, y = np.concatenate(raw), np.concatenate(truth)[:, None]
    if len(y) < n_rows:
        say(f"{n_rows - len(y):,} of {n_rows:,} rows have no {target!r} and are left out")
    return {"rows": float(len(y))} | scores_of(loaded.loss_, output, y, np.ones(len(y)))


def verify_file(
    model: Place,
    rows: Place,
    *,
    max_rows: int = 10,
    double: bool = False,
    say: Say = lambda text: None,
    **reading: Unpack[Reading],
) -> Certificate:
    """Certifies a model file on the first rows of a file.

    Args:
        model: Of a network or an estimator.
        rows: A table with column names for an estimator; a CSV of plain numbers without names for a network.
        max_rows: How many rows are tried.
        double: Converts a network to float64 first; a table's model computes in float64 anyway.
        say: Takes remarks, one line each.
        **reading: See `Reading`, for a table with names.
    """
    loaded = loading.load(model)
    with seekable(rows) as path:
        if not isinstance(loaded, TableModel):
            return _verify_network(loaded, model, path, max_rows, double)
        frame = next(read_rows_for(loaded.columns_, path, rows=max_rows, **reading))
    with _unseen(say):
        code_frame(loaded.columns_, frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenCategoryWarning)  # it is said above, once
        return verify(loaded, _input(loaded, frame), max_rows=max_rows)


def first_row(model: Place, data: Place, **reading: Unpack[Reading]) -> Any:
    """The first row of a table file, as the model of a model file takes it."""
    loaded = _table_model(model)
    with seekable(data) as path:
        frame = next(read_rows_for(loaded.columns_, path, rows=1, **reading))
    return _input(loaded, frame)


# Steps ---------------------------------------------------------------------------------------------------------------


def _table_model(path: Place) -> TableModel:
    model = loading.load(path)
    if not isinstance(model, TableModel):
        raise ValueError(f"{path} must hold a model of a table, however: it holds a {type(model).__name__}")
    return model


def _verify_network(net: Any, path: Place, rows: Place, max_rows: int, double: bool) -> Certificate:
    import torch

    from harsanyinet.networks.mlp import HarsanyiMLP

    if not isinstance(net, HarsanyiMLP):
        raise ValueError(
            f"{path} must hold a model of a table, however: it holds a {type(net).__name__}; for images there is "
            "harsanyinet.verify(harsanyinet.load(path), images) in Python"
        )
    net = net.double() if double else net
    return verify(net, torch.from_numpy(read_rows(rows, net.n_features)).to(net.baseline.dtype), max_rows=max_rows)


def _target_column(model: TableModel, target: str) -> Column:
    """How to read what the model predicts: classes as the text of its labels, or numbers."""
    if not isinstance(model, HarsanyiClassifier) or model.classes_.dtype == bool:
        return Column(target, "number", boolean=isinstance(model, HarsanyiClassifier))
    levels = tuple(map(str, model.classes_))
    return Column(target, "category", levels=levels, level_bins=np.ones((len(levels), 1), dtype=np.uint8))


def _truth(column: Column, values: pd.Series[Any], data: Place) -> NDArray[np.float64]:
    """Numbers of classes, or numbers."""
    if column.kind == "number":
        return values.to_numpy(dtype=np.float64)
    codes = column.index.get_indexer(pd.Index(values))
    if (codes < 0).any():
        raise ValueError(
            f"column {column.name!r} of {data} must hold classes of the model "
            f"({', '.join(map(repr, column.levels[:12]))}), however: {values[codes < 0].iloc[0]!r} in row "
            f"{values.index[codes < 0][0] + 1}"
        )
    return codes.astype(np.float64)


def _stream(
    answer: Callable[[TableModel, pd.DataFrame], pd.DataFrame],
    stage: str,
    path: Place,
    data: Place,
    out: Place | None,
    *,
    ids: Sequence[str] = (),
    chunk: int = 20_000,
    threads: int | None = None,
    say: Say = lambda text: None,
    progress: bool = True,
    **reading: Unpack[Reading],
) -> int:
    if out is not None and str(out) != STANDARD:
        files.check_place(out, [path, data])
    model = _table_model(path)
    if threads is not None:
        model.set_params(n_jobs=threads)
    names = [column.name for column in model.columns_]
    if both := [name for name in ids if name in names]:
        raise ValueError(f"an identifier must be no column of the model, however: {both[0]!r} is one")
    done = 0
    with (
        seekable(data) as rows,
        _unseen(say),
        writing_table(out) as write,
        bar(stage, count_rows(rows), progress=progress, unit_scale=True) as shown,
    ):
        frames = read_rows_for(model.columns_, rows, rows=chunk, keep=ids, **reading)
        for frame, result in _ahead(lambda frame: answer(model, _input(model, frame[names])), frames, model.n_jobs):
            write(_named(result, frame[list(ids)]))
            done += len(frame)
            shown.update(len(frame))
    return done


def _ahead(
    work: Callable[[pd.DataFrame], pd.DataFrame], frames: Iterator[pd.DataFrame], n_jobs: int | None
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Frames and what comes of them, in order; with two threads, one is worked on while others are read and written."""
    if count_threads(n_jobs) < 2:
        yield from ((frame, work(frame)) for frame in frames)
        return
    with ThreadPoolExecutor(1) as pool:
        tasks: Iterator[Any] = ((frame, pool.submit(work, frame)) for frame in frames)
        for (frame, task), _ in pairwise(chain(tasks, [None])):  # the next one is read before this one is waited for
            yield frame, task.result()


def _named(result: pd.DataFrame, ids: pd.DataFrame) -> pd.DataFrame:
    """A result behind the columns that name its rows."""
    if not len(ids.columns):
        return result
    if len(both := ids.columns.intersection(result.columns)):
        raise ValueError(f"an identifier must have a name that the result has not, however: {both[0]!r}; rename it")
    return pd.concat([ids.reset_index(drop=True), result], axis=1)


def _input(model: TableModel, frame: pd.DataFrame) -> Any:
    """The rows as the model was fitted on them: with names, or, where it saw none, without."""
    return frame if hasattr(model, "feature_names_in_") else frame.to_numpy(dtype=object)


def _predicted(model: TableModel, frame: Any) -> pd.DataFrame:
    if isinstance(model, HarsanyiClassifier):
        shares = model.predict_proba(frame)
        columns = {f"probability of {label}": shares[:, i] for i, label in enumerate(model.classes_)}
        return pd.DataFrame({"prediction": model.classes_[shares.argmax(1)], **columns})
    predictions = model.predict(frame)
    several = [f"prediction of {name}" for name in model.output_names_]
    return pd.DataFrame(predictions, columns=["prediction"] if predictions.ndim == 1 else several)


def _explained(model: TableModel, frame: Any, game: Game) -> pd.DataFrame:
    ex = model.explain(frame, game=game)
    names, outputs, n_rows = ex.feature_names, ex.output_names, len(frame)
    total = f"log-odds of {outputs[0]}" if isinstance(model, HarsanyiClassifier) and len(outputs) == 1 else "output"
    base = np.broadcast_to(ex.base_values.reshape(-1), (n_rows, 1, len(outputs)))
    parts = [base, ex.values.reshape(n_rows, len(names), -1), ex.outputs.reshape(n_rows, 1, -1)]  # (B, columns, K)
    columns = [
        f"{output}: {name}" if len(outputs) > 1 else name
        for output in outputs
        for name in (_free("base value", names), *names, _free(total, names))
    ]
    return pd.DataFrame(np.concatenate(parts, axis=1).swapaxes(1, 2).reshape(n_rows, -1), columns=columns)


def _free(name: str, taken: Sequence[str]) -> str:
    """A name that no column has."""
    return name if name not in taken else _free(f"{name}_", taken)


@contextmanager
def _unseen(say: Say) -> Iterator[None]:
    """Adds up the categories that were not there in fit, and says one sentence for each column at the end."""
    totals: dict[str, UnseenCategoryWarning] = {}

    def note(message: Warning | str, *_: Any, **__: Any) -> None:
        if isinstance(message, UnseenCategoryWarning):
            before = totals.get(message.column)
            rows = message.n_rows + (before.n_rows if before else 0)
            totals[message.column] = UnseenCategoryWarning.of(message.column, (before or message).example, rows)
        else:
            say(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnseenCategoryWarning)
        warnings.showwarning = note
        yield
    for one in totals.values():
        say(str(one))
