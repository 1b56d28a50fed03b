"""`harsanyinet bench accuracy`: our estimators beside others with their defaults, on the same rows, folds and threads.

A cell is one fit: (model, dataset, fold). A finished cell is one line of a .jsonl file beside the summary, and never
run again: delete its line for that. Several processes may add lines at once.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet import datasets
from harsanyinet.certificate import versions
from harsanyinet.datasets import DatasetNotFoundError, Table
from harsanyinet.experiments import results
from harsanyinet.experiments.bench_defaults import CANDIDATES, Cell, compare, ratio_text, warm_up
from harsanyinet.experiments.models import MODELS, OURS, SEED, Fitted, structure
from harsanyinet.experiments.results import append, read_lines

CENSUS_TRAIN_ROWS = 32_561
WHAT = (
    "mean and standard error over folds, which share rows except in census; census: its original split; yeast: 10 "
    "stratified random splits 80/20; others: 5-fold cross-validation; rank 1 is best, ties averaged; loss_ratios: "
    "geometric mean over datasets of the ratio of mean log-losses or RMSEs to those of another model, below 1 is "
    "better; its standard error is that over folds, to which the one of census adds nothing; order_spectrum: the share "
    "of the sum of |dividends| by the number of columns in the set, from none on, on 1,000 test rows"
)
SCORES = ("accuracy", "r2")  # higher is better
LOSSES = ("log_loss", "rmse")
SECONDS = ("fit_seconds", "predict_seconds")
PEERS = ("catboost", "lightgbm")  # what all models are compared with

DATASETS: dict[str, tuple[Callable[[], Table], int]] = {  # how to load it, how many folds
    "census": (lambda: datasets.load_census().whole(), 1),
    "yeast": (datasets.load_yeast, 10),
    "tv_news": (datasets.load_tv_news, 5),
    "tv_news_10": (lambda: datasets.load_tv_news(columns="paper"), 5),
    "breast_cancer": (lambda: datasets.load_breast_cancer_table().whole(), 5),
    "digits": (datasets.load_digits_table, 5),
    "california": (datasets.load_california, 5),
    "bike": (datasets.load_bike, 5),
}


def run(
    out: Path,
    *,
    quick: bool = False,
    only: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    threads: int = 1,
) -> str:
    """Runs the cells that are not yet done, model by model, writes the summary of all and returns it as a table."""
    if quick:  # a place of its own: the cells of a long run are not mixed with small ones
        out = out.with_stem(f"{out.stem}_quick")
    results.prepare(out)
    lines = out.with_suffix(".jsonl")
    names = [name for name in _known("models", models, MODELS) if _installed(name)]
    tables = _load(_known("datasets", only, DATASETS))
    cells = [(m, d, f) for m in names for d in tables for f in range(1 if quick else DATASETS[d][1])]
    done = {cell for cell, record in read(lines).items() if "error" not in record}
    todo = [cell for cell in cells if cell not in done]
    if any(model in OURS for model, _, _ in todo):
        warm_up(["default"], CANDIDATES, threads)
    bar = tqdm(todo)
    for model, dataset, fold in bar:
        bar.set_description(f"{model} {dataset} {fold}")
        record = {"model": model, "dataset": dataset, "fold": fold, "seed": SEED, "threads": threads}
        record["version"] = f"{MODELS[model][2]} {metadata.version(MODELS[model][2])}"
        try:
            record |= measure(model, tables[dataset], *folds(dataset, tables[dataset])[fold], threads, quick)
        except Exception as error:
            record["error"] = f"{type(error).__name__}: {error}"
            bar.write(f"{model} {dataset} {fold} failed: {record['error']}")
        append(lines, record)
    found = summary(read(lines).values()) | {"quick": quick}
    results.write(out, found)
    return f"{table(found)}\nwritten to {out}"


def folds(dataset: str, table: Table) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Rows to train and to test on, the same for all models."""
    from sklearn.model_selection import KFold, StratifiedKFold, StratifiedShuffleSplit

    if dataset == "census":
        rows = np.arange(len(table.x))
        return [(rows[:CENSUS_TRAIN_ROWS], rows[CENSUS_TRAIN_ROWS:])]
    n = DATASETS[dataset][1]
    if dataset == "yeast":
        splitter = StratifiedShuffleSplit(n, test_size=0.2, random_state=SEED)
    else:
        kind = StratifiedKFold if table.task == "classification" else KFold
        splitter = kind(n, shuffle=True, random_state=SEED)
    return list(splitter.split(table.x, table.y))


def measure(
    model: str, table: Table, train: NDArray[Any], test: NDArray[Any], threads: int, quick: bool
) -> dict[str, Any]:
    """One fit and one prediction, timed and judged. Labels are integers in sorted order for all models."""
    from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score, root_mean_squared_error
    from threadpoolctl import threadpool_limits

    if quick:
        train, test = train[:2000], test[:2000]
    y = np.unique(table.y, return_inverse=True)[1] if table.task == "classification" else table.y.to_numpy(float)
    with threadpool_limits(threads), warnings.catch_warnings():
        if model not in OURS:
            warnings.simplefilter("ignore")
        start = time.perf_counter()
        predict = MODELS[model][0](table.x.iloc[train].reset_index(drop=True), y[train], table.task, threads)
        fitted = time.perf_counter()
        predicted = np.asarray(predict(table.x.iloc[test].reset_index(drop=True)), dtype=np.float64)
        end = time.perf_counter()
    found: dict[str, Any] = {"fit_seconds": fitted - start, "predict_seconds": end - fitted}
    found |= {"n_train": len(train), "n_test": len(test)}
    if model in OURS and isinstance(predict, Fitted):
        found |= structure(predict.model, table.x.iloc[test[:1000]])
    truth = y[test]
    if table.task == "regression":
        return found | {"r2": r2_score(truth, predicted), "rmse": root_mean_squared_error(truth, predicted)}
    predicted /= predicted.sum(1, keepdims=True)  # float32 sums to 1 only nearly
    found["accuracy"] = accuracy_score(truth, predicted.argmax(1))
    found["log_loss"] = log_loss(truth, predicted, labels=range(predicted.shape[1]))
    return found | ({"auc": roc_auc_score(truth, predicted[:, 1])} if predicted.shape[1] == 2 else {})


def read(path: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """One record per cell, a finished one before an error; a torn line is no JSON, and its cell is run again."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for record in read_lines(path):
        cell = (record["model"], record["dataset"], record["fold"])
        if cell not in found or "error" in found[cell]:
            found[cell] = record
    return found


def summary(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Means and standard errors per dataset and model, and mean ranks of the models that have run everywhere."""
    records = list(records)
    cells = [record for record in records if "error" not in record]
    found: dict[str, dict[str, Any]] = {}
    for dataset in DATASETS:
        for model in MODELS:
            if mine := [cell for cell in cells if (cell["model"], cell["dataset"]) == (model, dataset)]:
                metrics = [name for name in (*SCORES, "auc", *LOSSES, *SECONDS) if name in mine[0]]
                row: dict[str, Any] = {name: _mean([cell[name] for cell in mine]) for name in metrics}
                if "order_spectrum" in mine[0]:
                    row["order_spectrum"] = _spectrum([cell["order_spectrum"] for cell in mine])
                found.setdefault(dataset, {})[model] = {"folds": len(mine), **row}
    most = {dataset: max(row["folds"] for row in rows.values()) for dataset, rows in found.items()}
    everywhere = [m for m in MODELS if found and all(found[d].get(m, {}).get("folds") == n for d, n in most.items())]
    return {
        "command": "harsanyinet bench accuracy",
        "what": WHAT,
        "seeds": sorted({cell["seed"] for cell in cells}),
        "threads": sorted({cell["threads"] for cell in cells}),
        "versions": versions() | {name: metadata.version(name) for name in ("pandas", "scikit-learn")},
        "versions_of_models": {m: sorted({c["version"] for c in cells if c["model"] == m}) for m in MODELS},
        "mean_rank_by_accuracy_or_r2": _mean_ranks(found, everywhere, SCORES, -1),
        "mean_rank_by_log_loss_or_rmse": _mean_ranks(found, everywhere, LOSSES, 1),
        "loss_ratios": _loss_ratios(cells),
        "failed": [record for record in records if "error" in record],
        "datasets": found,
    }


def _loss_ratios(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each model against each peer, over the datasets and folds that both have done."""
    cells: dict[Cell, dict[str, Any]] = {
        (r["model"], r["dataset"], None, r["fold"]): r | {"loss": next(r[name] for name in LOSSES if name in r)}
        for r in records
        if any(name in r for name in LOSSES)
    }
    each = {peer: {m: compare(cells, m, peer, None) for m in MODELS if m != peer} for peer in PEERS}
    return {f"to {peer}": {m: one for m, one in ratios.items() if one} for peer, ratios in each.items()}


def _mean_ranks(
    found: dict[str, dict[str, Any]], models: list[str], metrics: tuple[str, str], sign: int
) -> dict[str, float]:
    """Rank 1 is the smallest of sign times the mean; by rank."""
    from scipy.stats import rankdata

    if not models:
        return {}
    values = [
        [next(sign * rows[m][k]["mean"] for k in metrics if k in rows[m]) for m in models] for rows in found.values()
    ]
    ranks = rankdata(values, axis=1).mean(0)  # (datasets, models) -> (models,)
    return dict(sorted(zip(models, ranks.tolist(), strict=True), key=lambda pair: pair[1]))


def _mean(values: list[float]) -> dict[str, float | None]:
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "standard_error": error}


def _spectrum(each: list[list[float]]) -> list[float]:
    """The mean over folds of what each order contributes: none, one column, two, and so on."""
    longest = max(map(len, each))
    return [round(float(share), 4) for share in np.mean([one + [0.0] * (longest - len(one)) for one in each], axis=0)]


def table(found: dict[str, Any]) -> str:
    """One line per model: accuracy or R2 on each dataset, the mean rank, and the losses relative to the peers'."""
    ranks = found["mean_rank_by_accuracy_or_r2"]
    lines = [f"{'accuracy or R2':<24}" + "".join(f"{name:>15}" for name in found["datasets"]) + "   mean rank"]
    lines[0] += "".join(f"{f'loss/{peer}':>18}" for peer in PEERS)
    for model in MODELS:
        rows = [rows.get(model, {}) for rows in found["datasets"].values()]
        scores = [next((row[k]["mean"] for k in SCORES if k in row), None) for row in rows]
        if any(score is not None for score in scores):
            cells = "".join(f"{'' if score is None else format(score, '.4f'):>15}" for score in scores)
            rank = f"{ranks[model]:.2f}" if model in ranks else ""
            against = (found["loss_ratios"][f"to {peer}"].get(model, {}) for peer in PEERS)
            lines.append(f"{model:<24}{cells}{rank:>12}" + "".join(f"{ratio_text(one):>18}" for one in against))
    return "\n".join(lines)


def _known(what: str, asked: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    names = list(known)
    if unknown := set(asked or ()) - set(names):
        raise ValueError(f"{what} must be among {', '.join(names)}, however: {', '.join(sorted(unknown))}")
    return names if asked is None else list(asked)


def _installed(model: str) -> bool:
    """Imports what a model needs, so that no fit pays for it, or says that it is skipped."""
    try:
        import_module(MODELS[model][1])
    except (ImportError, OSError) as error:
        logging.warning("%s is skipped: %s; pip install harsanyinet[bench]", model, error)
        return False
    return True


def _load(names: Iterable[str]) -> dict[str, Table]:
    """Tables by name, without those that are not to be had."""
    found = {}
    for name in names:
        try:
            found[name] = DATASETS[name][0]()
        except DatasetNotFoundError as error:
            logging.warning("%s is skipped: %s", name, error)
    return found
