"""`harsanyinet bench accuracy`: our estimators beside others with their defaults, on the same rows, folds and threads.

A cell is one fit: (model, dataset, fold).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

from harsanyinet import datasets
from harsanyinet.datasets import Table
from harsanyinet.explanations.certificate import versions
from harsanyinet_experiments import results, scoring
from harsanyinet_experiments.bench_defaults import CANDIDATES, warm_up
from harsanyinet_experiments.models import MODELS, OURS, SEED, Fitted, size_of_model
from harsanyinet_experiments.runner import Cell, Ledger, Record, chosen, loaded
from harsanyinet_experiments.scoring import CLOCK, LOSSES, Rows, Run, compare, loss_of, ratio_text

WHAT = (
    "mean and standard error over folds, which share rows except in census; census: its original split; yeast: 10 "
    "stratified random splits 80/20; others: 5-fold cross-validation; rank 1 is best, ties averaged; loss_ratios: "
    "geometric mean over datasets of the ratio of mean log-losses or RMSEs to those of another model, below 1 is "
    "better; its standard error is that over folds, to which the one of census adds nothing; order_spectrum: the share "
    "of the sum of |dividends| by the number of columns in the set, from none on, on 1,000 test rows; " + CLOCK
)
SCORES = ("accuracy", "r2")  # higher is better
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
    out = results.place(out, quick)
    cells_run = ledger(out)
    names = [name for name in chosen("models", models, MODELS) if _installed(name)]
    tables = loaded(chosen("datasets", only, DATASETS), {name: load for name, (load, _) in DATASETS.items()})
    wanted = cells(names, tables, quick)
    if any(cell["model"] in OURS for cell in cells_run.to_do(wanted)):
        warm_up(["default"], CANDIDATES, threads)

    def about(cell: Cell) -> Record:
        distribution = MODELS[cell["model"]][2]
        return {"seed": SEED, "threads": threads, "version": f"{distribution} {metadata.version(distribution)}"}

    def measured(cell: Cell) -> Record:
        table, n_folds = tables[cell["dataset"]], DATASETS[cell["dataset"]][1]
        train, test = scoring.folds(cell["dataset"], table, n_folds)[cell["fold"]]
        return measure(cell["model"], table, (train[:2000], test[:2000]) if quick else (train, test), threads)

    cells_run.run(wanted, measured, about=about, keep_errors=True)
    result = summary(cells_run.records()) | {"quick": quick}
    results.write(out, result)
    return f"{table(result)}\nwritten to {out}"


def ledger(out: Path) -> Ledger:
    """Where the cells are kept."""
    return Ledger(out.with_suffix(".jsonl"), ("model", "dataset", "fold"))


def cells(models: Iterable[str], tables: Iterable[str], quick: bool = False) -> list[Cell]:
    """All cells, model by model."""
    return [
        {"model": model, "dataset": dataset, "fold": fold}
        for model in models
        for dataset in tables
        for fold in range(1 if quick else DATASETS[dataset][1])
    ]


def measure(model: str, table: Table, rows: tuple[Rows, Rows], threads: int) -> Record:
    """One fit and one prediction, timed and scored. Labels are integers in sorted order for all models."""
    (train, test), y = rows, scoring.target(table)
    predict, predicted, taken = scoring.timed(MODELS[model][0], table, y[train], rows, threads, quiet=model not in OURS)
    if model in OURS and isinstance(predict, Fitted):
        taken |= size_of_model(predict.model, table.x.iloc[test[:1000]])
    return taken | scoring.scores(y[test], predicted)


def summary(records: Iterable[Record]) -> dict[str, Any]:
    """Means and standard errors per dataset and model, and mean ranks of the models that have run everywhere."""
    records = list(records)
    finished = [record for record in records if "error" not in record]
    rows: dict[str, dict[str, Any]] = {}
    for dataset in DATASETS:
        for model in MODELS:
            if mine := [record for record in finished if (record["model"], record["dataset"]) == (model, dataset)]:
                rows.setdefault(dataset, {})[model] = _row(mine)
    most = {dataset: max(row["folds"] for row in each.values()) for dataset, each in rows.items()}
    everywhere = [m for m in MODELS if rows and all(rows[d].get(m, {}).get("folds") == n for d, n in most.items())]
    return {
        "command": "harsanyinet bench accuracy",
        "what": WHAT,
        "seeds": sorted({record["seed"] for record in finished}),
        "threads": sorted({record["threads"] for record in finished}),
        "clocks": scoring.clocks(finished),
        "versions": versions() | {name: metadata.version(name) for name in ("pandas", "scikit-learn")},
        "versions_of_models": {m: sorted({c["version"] for c in finished if c["model"] == m}) for m in MODELS},
        "mean_rank_by_accuracy_or_r2": _mean_ranks(rows, everywhere, SCORES, -1),
        "mean_rank_by_log_loss_or_rmse": _mean_ranks(rows, everywhere, LOSSES, 1),
        "loss_ratios": _loss_ratios(finished),
        "failed": [record for record in records if "error" in record],
        "datasets": rows,
    }


def _row(folds: list[Record]) -> dict[str, Any]:
    """What one model does on one dataset."""
    metrics = [name for name in (*SCORES, "auc", *LOSSES, *SECONDS) if name in folds[0]]
    row: dict[str, Any] = {"folds": len(folds), **{name: _mean([fold[name] for fold in folds]) for name in metrics}}
    if "order_spectrum" in folds[0]:
        row["order_spectrum"] = mean_spectrum([fold["order_spectrum"] for fold in folds])
    return row


def _loss_ratios(records: list[Record]) -> dict[str, dict[str, Any]]:
    """Each model against each peer, over the datasets and folds that both have done."""
    runs: dict[Run, Record] = {
        (r["model"], r["dataset"], None, r["fold"]): r | {"loss": loss_of(r)}
        for r in records
        if any(name in r for name in LOSSES)
    }
    each = {peer: {m: compare(runs, m, peer, None) for m in MODELS if m != peer} for peer in PEERS}
    return {f"to {peer}": {m: one for m, one in ratios.items() if one} for peer, ratios in each.items()}


def _mean_ranks(
    datasets: dict[str, dict[str, Any]], models: list[str], metrics: tuple[str, str], sign: int
) -> dict[str, float]:
    """Rank 1 is the smallest of sign times the mean; by rank."""
    from scipy.stats import rankdata

    if not models:
        return {}
    values = [
        [next(sign * rows[m][k]["mean"] for k in metrics if k in rows[m]) for m in models] for rows in datasets.values()
    ]
    ranks = rankdata(values, axis=1).mean(0)  # (datasets, models) -> (models,)
    return dict(sorted(zip(models, ranks.tolist(), strict=True), key=lambda pair: pair[1]))


def _mean(values: list[float]) -> dict[str, float | None]:
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "standard_error": error}


def mean_spectrum(each: list[list[float]]) -> list[float]:
    """The mean over folds of what each order contributes: none, one column, two, and so on."""
    longest = max(map(len, each))
    return [round(float(share), 4) for share in np.mean([one + [0.0] * (longest - len(one)) for one in each], axis=0)]


def table(result: dict[str, Any]) -> str:
    """One line per model: accuracy or R2 on each dataset, the mean rank, and the losses relative to the peers'."""
    ranks = result["mean_rank_by_accuracy_or_r2"]
    lines = [f"{'accuracy or R2':<24}" + "".join(f"{name:>15}" for name in result["datasets"]) + "   mean rank"]
    lines[0] += "".join(f"{f'loss/{peer}':>18}" for peer in PEERS)
    for model in MODELS:
        rows = [rows.get(model, {}) for rows in result["datasets"].values()]
        scores = [next((row[k]["mean"] for k in SCORES if k in row), None) for row in rows]
        if any(score is not None for score in scores):
            cells = "".join(f"{'' if score is None else format(score, '.4f'):>15}" for score in scores)
            rank = f"{ranks[model]:.2f}" if model in ranks else ""
            against = (result["loss_ratios"][f"to {peer}"].get(model, {}) for peer in PEERS)
            lines.append(f"{model:<24}{cells}{rank:>12}" + "".join(f"{ratio_text(one):>18}" for one in against))
    return "\n".join(lines)


def _installed(model: str) -> bool:
    """Imports what a model needs, so that no fit pays for it, or says that it is skipped."""
    try:
        import_module(MODELS[model][1])
    except (ImportError, OSError) as error:
        logging.warning("%s is skipped: %s; pip install harsanyinet[bench]", model, error)
        return False
    return True
