"""How a model of a table is fitted, timed and scored, and which rows it sees: the same in every benchmark."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harsanyinet.datasets import Table, TableSplit
from harsanyinet_experiments.models import SEED, Predict

Rows = NDArray[np.intp]
CENSUS_TRAIN_ROWS = 32_561
SAMPLE_TEST_ROWS = 2000
LOSSES = ("log_loss", "rmse")
CPU, WALL = "CPU", "wall"  # what a record's seconds are; one that does not say so is older and has those on the wall
CLOCK = (
    "fit_seconds, predict_seconds: seconds of CPU time of the process where clocks says CPU, else those on the wall; "
    "one thread each, unless threads says more"
)


# Rows -----------------------------------------------------------------------------------------------------------------


def folds(dataset: str, table: Table, n: int) -> list[tuple[Rows, Rows]]:
    """Rows to train and to test on, the same for all models.

    Census has its original split, Yeast stratified random splits 80/20, all others cross-validation.
    """
    from sklearn.model_selection import KFold, StratifiedKFold, StratifiedShuffleSplit

    if dataset == "census":
        rows = np.arange(len(table.x))
        return [(rows[:CENSUS_TRAIN_ROWS], rows[CENSUS_TRAIN_ROWS:])]
    if dataset == "yeast":
        splitter = StratifiedShuffleSplit(n, test_size=0.2, random_state=SEED)
    else:
        kind = StratifiedKFold if table.task == "classification" else KFold
        splitter = kind(n, shuffle=True, random_state=SEED)
    return list(splitter.split(table.x, table.y))


def split(table: Table, n_train: int | None, seed: int) -> tuple[Rows, Rows]:
    """Rows to train and to test on, the same for all models: a split 75/25, or a draw of so many rows to train on."""
    from sklearn.model_selection import train_test_split

    stratify = table.y if table.task == "classification" and table.y.value_counts().min() >= 4 else None
    n = len(table.y)
    sizes: dict[str, Any] = {"test_size": 0.25}
    if n_train is not None:
        sizes = {"train_size": n_train, "test_size": min(SAMPLE_TEST_ROWS, n - n_train)}
    train, test = train_test_split(np.arange(n), random_state=seed, stratify=stratify, **sizes)
    return train, test


def some_rows(n_rows: int, n: int, seed: int = 0) -> Rows:
    """Which of so many test rows to explain: drawn at random, all of them if there are no more."""
    return np.random.default_rng(seed).permutation(n_rows)[:n]


def split_in_two(table: Table, seed: int) -> TableSplit:
    """The paper's split of tables that have none of their own: 80/20 at random."""
    order = np.random.default_rng(seed).permutation(len(table.x))
    train, test = order[: round(0.8 * len(order))], order[round(0.8 * len(order)) :]

    def part(frame: Any, rows: Rows) -> Any:
        return frame.iloc[rows].reset_index(drop=True)

    return TableSplit(
        table.name, part(table.x, train), part(table.y, train), part(table.x, test), part(table.y, test), table.source,
        f"{table.description}; split 80/20 at random, seed {seed}",
    )  # fmt: skip


# Fits and scores ------------------------------------------------------------------------------------------------------


class Timed(NamedTuple):
    """A fit and a prediction of the test rows, and what they took."""

    predict: Predict
    predicted: NDArray[np.float64]
    taken: dict[str, Any]


def target(table: Table) -> NDArray[Any]:
    """Numbers, or labels as integers in sorted order."""
    if table.task == "classification":
        return np.unique(table.y, return_inverse=True)[1]
    return table.y.to_numpy(float)


def timed(
    fit: Callable[..., Predict],
    table: Table,
    y: NDArray[Any],
    rows: tuple[Rows, Rows],
    threads: int,
    *,
    quiet: bool = True,
) -> Timed:
    """One fit to the first rows, whose targets are y, and one prediction of the others, each with its seconds.

    Seconds are those that the processor spent on this process, all threads together: with one thread they are what a
    machine of its own would take, whatever else runs on a shared one. A record says so by the field ``"clock"``, CPU.

    Warnings are silenced if it is to be quiet: those of other libraries are not ours to mend.
    """
    from threadpoolctl import threadpool_limits

    x, x_test = (table.x.iloc[some].reset_index(drop=True) for some in rows)
    with threadpool_limits(threads), warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        start = time.process_time()
        predict = fit(x, y, table.task, threads)
        fitted = time.process_time()
        predicted = np.asarray(predict(x_test), dtype=np.float64)
        end = time.process_time()
    seconds = {"fit_seconds": fitted - start, "predict_seconds": end - fitted}
    return Timed(predict, predicted, seconds | {"clock": CPU, "n_train": len(x), "n_test": len(x_test)})


def clocks(records: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What the seconds of each model are, by model."""
    kinds: dict[str, set[str]] = {}
    for record in records:
        kinds.setdefault(record["model"], set()).add(record.get("clock", WALL))
    return {model: sorted(kind) for model, kind in kinds.items()}


def scores(truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, float]:
    """R2 and RMSE of predicted numbers (B,); accuracy, log-loss and, of two classes, AUC of probabilities (B, K)."""
    from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score, root_mean_squared_error

    if predicted.ndim == 1:
        return {"r2": r2_score(truth, predicted), "rmse": root_mean_squared_error(truth, predicted)}
    chances = predicted / predicted.sum(1, keepdims=True)  # float32 sums to 1 only nearly
    of_classes = {
        "accuracy": accuracy_score(truth, chances.argmax(1)),
        "log_loss": log_loss(truth, chances, labels=range(chances.shape[1])),
    }
    return of_classes | ({"auc": roc_auc_score(truth, chances[:, 1])} if chances.shape[1] == 2 else {})


def loss_of(row: Mapping[str, Any]) -> Any:
    """The loss among scores, whichever the task has."""
    return next(row[name] for name in LOSSES if name in row)


# Two models -----------------------------------------------------------------------------------------------------------

Run = tuple[str, str, int | None, int]  # model, table, training rows (None: all of a split), seed or fold


def compare(runs: Mapping[Run, dict[str, Any]], model: str, peer: str, n_train: int | None) -> dict[str, Any]:
    """The ratio of losses of a model to those of a peer, over the tables and seeds that both have done."""
    pairs: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for (name, table, size, seed), record in runs.items():
        if (name, size) == (model, n_train) and (other := runs.get((peer, table, n_train, seed))):
            pairs.setdefault(table, []).append((record, other))
    if not pairs:
        return {}
    ratios = {table: _loss_ratio(both) for table, both in pairs.items()}
    logs = {table: np.log([mine["loss"] / other["loss"] for mine, other in both]) for table, both in pairs.items()}
    ratio = float(np.exp(np.mean(np.log(list(ratios.values())))))
    error, several = None, [log for log in logs.values() if len(log) > 1]  # what ran once tells no error
    if several:
        error = ratio * float(np.sqrt(sum(np.var(log, ddof=1) / len(log) for log in several))) / len(logs)
    seconds = [mine["fit_seconds"] / other["fit_seconds"] for both in pairs.values() for mine, other in both]
    worst = max(ratios, key=lambda table: ratios[table])
    return {
        "ratio": ratio,
        "standard_error": error,
        "n_tables": len(ratios),
        "wins": sum(one < 1 for one in ratios.values()),
        "worst": {"table": worst, "ratio": ratios[worst]},
        "fit_time_ratio": float(np.exp(np.mean(np.log(seconds)))),
        "by_table": ratios,
    }


def _loss_ratio(both: list[tuple[dict[str, Any], dict[str, Any]]]) -> float:
    return float(np.mean([mine["loss"] for mine, _ in both]) / np.mean([other["loss"] for _, other in both]))


def ratio_text(one: Mapping[str, Any]) -> str:
    """A ratio that `compare` returned, with its standard error."""
    if not one:
        return ""
    error = one["standard_error"]
    return f"{one['ratio']:.4f}" + ("" if error is None else f" ± {error:.4f}")
