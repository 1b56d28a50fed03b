"""`harsanyinet bench defaults`: which settings of our estimators are best on tables kept for choosing them.

Beside them stand CatBoost and LightGBM with their defaults, on the same rows and threads. A table that is not to be had
is skipped; `development_tables` says where they come from.

A cell is one fit: (model, table, training rows or None, seed). To run one again give the candidate another name.

Examples:
    harsanyinet bench defaults --models catboost,slow --settings '{"slow": {"members": 8}}'
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harsanyinet.datasets import Table
from harsanyinet_experiments import models as others
from harsanyinet_experiments import results, scoring
from harsanyinet_experiments.development_tables import FILES, SOURCES, Source
from harsanyinet_experiments.runner import Cell, Ledger, Record, chosen, loaded
from harsanyinet_experiments.scoring import CLOCK, Rows, Run, compare, ratio_text

CANDIDATES: dict[str, dict[str, Any]] = {"default": {}}  # settings of our estimators by name
PEERS = {"catboost": others.catboost, "lightgbm": others.lightgbm}
SPLITS = 3
DRAWS = 5
SAMPLE_SIZES = (60, 150, 300)
QUICK_ROWS = 1000
FLOOR = 1e-6  # no probability is smaller, whatever the model: a class may be absent from the rows to train on
WHAT = (
    "splits: three random splits 75/25 of every table, stratified where every class has four rows; samples: five "
    "draws of 60, 150 and 300 training rows of the development files, up to 2,000 others to test; loss: log loss with "
    "probabilities of at least 1e-6, or root mean squared error; ratio: geometric mean over tables of the ratio of "
    "mean losses, below 1 is better; its standard error is that over splits, which share rows; fit_time_ratio: "
    "geometric mean over cells; " + CLOCK
)


# The cells.


def run(
    out: Path,
    *,
    quick: bool = False,
    only: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    threads: int = 1,
    settings: Mapping[str, dict[str, Any]] | None = None,
    samples: bool = True,
    sources: Mapping[str, Source] = SOURCES,
    name: str = "defaults",
) -> str:
    """Runs the cells that are not yet done, the splits before the samples, writes the summary of all and returns it.

    Args:
        out: The summary; the cells are beside it, with the suffix .jsonl.
        quick: One split of at most 1,000 rows and no samples, in a file of its own.
        only: Names of tables.
        models: Names of candidates, ``"catboost"`` or ``"lightgbm"``.
        threads: For each fit.
        settings: More candidates: settings of our estimators by name.
        samples: Whether to run the draws of few rows, too.
        sources: Tables to choose from.
        name: Of the benchmark, for the summary.

    Returns:
        The summary as text.
    """
    out = results.place(out, quick)
    cells_run = ledger(out)
    candidates = CANDIDATES | dict(settings or {})
    names = chosen("models", models, [*PEERS, *candidates])
    tables = loaded(chosen("tables", only, sources), {name: partial(s.load, name) for name, s in sources.items()})
    _check_settings(cells_run.records(), names, candidates)
    wanted = cells(names, tables, quick=quick, samples=samples)
    warm_up([cell["model"] for cell in cells_run.to_do(wanted)], candidates, threads)

    def about(cell: Cell) -> Record:
        model = cell["model"]
        known = {"settings": candidates[model]} if model in candidates else {"version": _version(model)}
        return {"threads": threads, **known}

    def measured(cell: Cell) -> Record:
        table = tables[cell["table"]]
        train, test = scoring.split(table, cell["rows"], cell["seed"])
        rows = (train[:QUICK_ROWS], test[:QUICK_ROWS]) if quick else (train, test)
        return measure(fitter(cell["model"], candidates), table, rows, threads)

    cells_run.run(wanted, measured, about=about, keep_errors=True)
    result = {"command": f"harsanyinet bench {name}"} | summary(cells_run.records()) | {"quick": quick}
    results.write(out, result)
    return f"{text(result)}\nwritten to {out}"


def ledger(out: Path) -> Ledger:
    """Where the cells are kept."""
    return Ledger(out.with_suffix(".jsonl"), ("model", "table", "rows", "seed"))


def cells(models: Sequence[str], tables: Iterable[str], *, quick: bool = False, samples: bool = True) -> list[Cell]:
    """All cells: the splits of each model, and then, unless it is to be quick, its draws of few rows."""
    tables = list(tables)
    splits = [(m, t, None, seed) for m in models for t in tables for seed in range(1 if quick else SPLITS)]
    draws = [
        (m, t, n_train, seed)
        for m in models
        for t in tables
        if t in FILES
        for n_train in SAMPLE_SIZES
        for seed in range(DRAWS)
    ]
    every = [*splits, *(draws if samples and not quick else [])]
    return [{"model": m, "table": t, "rows": n_train, "seed": seed} for m, t, n_train, seed in every]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def fitter(model: str, candidates: Mapping[str, dict[str, Any]]) -> Callable[..., others.Predict]:
    """A function of features, target, task and threads that fits the model and returns how it predicts."""
    return PEERS[model] if model in PEERS else partial(others.harsanyinet, **candidates[model])


def measure(fit: Callable[..., others.Predict], table: Table, rows: tuple[Rows, Rows], threads: int) -> Record:
    """One fit and one prediction, timed and scored; a model sees the classes among its training rows as 0, 1, ..."""
    (train, test), y = rows, scoring.target(table)
    if table.task == "regression":
        _, predicted, taken = scoring.timed(fit, table, y[train], rows, threads)
        of_numbers = scoring.scores(y[test], predicted)
        return taken | {"loss": of_numbers["rmse"], "score": of_numbers["r2"]}
    seen, labels = np.unique(y[train], return_inverse=True)
    _, predicted, taken = scoring.timed(fit, table, labels, rows, threads)
    of_classes = scoring.scores(y[test], all_classes(predicted, seen, int(y.max()) + 1))
    accuracy = of_classes["accuracy"]
    return taken | {"loss": of_classes["log_loss"], "score": of_classes.get("auc", accuracy), "accuracy": accuracy}


def all_classes(predicted: NDArray[Any], seen: NDArray[Any], n_classes: int) -> NDArray[np.float64]:
    """Probabilities of the seen classes -> probabilities of all, each at least about FLOOR, summing to 1."""
    p: NDArray[np.float64] = np.full((len(predicted), n_classes), FLOOR)  # (rows, classes)
    p[:, seen] = np.maximum(predicted, FLOOR)
    p /= p.sum(1, keepdims=True)
    return p


def _check_settings(records: Iterable[Record], names: Sequence[str], candidates: Mapping[str, dict[str, Any]]) -> None:
    """A name stands for one set of settings in a file."""
    for record in records:
        name = record["model"]
        if name in candidates and name in names and record["settings"] != json.loads(json.dumps(candidates[name])):
            raise ValueError(f"{name} was run with {record['settings']}, however: {candidates[name]}; rename it")


def warm_up(names: Sequence[str], candidates: Mapping[str, dict[str, Any]], threads: int) -> None:
    """Imports and compiles what fits need, so that no timed fit pays for it: tiny fits of each of our tasks."""
    for name in PEERS.keys() & set(names):
        import_module(name)
    if ours := next((name for name in names if name in candidates), None):
        draw = np.random.default_rng(0)
        x = pd.DataFrame({"number": draw.normal(size=120), "text": draw.choice(["a", "b", "c"], 120)})
        for n_classes in (0, 2, 3):
            y = pd.Series(np.arange(120) % n_classes).astype(str) if n_classes else pd.Series(draw.normal(size=120))
            tiny = Table("tiny", x, y, "classification" if n_classes else "regression", "made up", "120 rows")
            try:
                measure(fitter(ours, candidates), tiny, (np.arange(80), np.arange(80, 120)), threads)
            except Exception as error:
                logging.warning("the tiny fit of %s failed: %s: %s", ours, type(error).__name__, error)


# The summary.


def summary(records: Iterable[Record]) -> dict[str, Any]:
    """Each model against CatBoost and LightGBM, over the splits and over the samples by size, and means per table."""
    records = list(records)
    runs: dict[Run, Record] = {(r["model"], r["table"], r["rows"], r["seed"]): r for r in records if "error" not in r}
    names = list(dict.fromkeys([*PEERS, *(model for model, *_ in runs)]))
    finished = list(runs.values())
    return {
        "what": WHAT,
        "settings": {record["model"]: record["settings"] for record in finished if "settings" in record},
        "versions": {record["model"]: record["version"] for record in finished if "version" in record},
        "threads": sorted({record["threads"] for record in finished}),
        "clocks": scoring.clocks(finished),
        "failed": [record for record in records if "error" in record],
        "models": {model: _against_peers(runs, model) for model in names},
        "tables": {str(n_train or "splits"): _means(runs, names, n_train) for n_train in (None, *SAMPLE_SIZES)},
    }


def _against_peers(runs: Mapping[Run, Record], model: str) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for peer in PEERS:
        if model != peer and (splits := compare(runs, model, peer, None)):
            sizes = {str(n_train): compare(runs, model, peer, n_train) for n_train in SAMPLE_SIZES}
            row[f"against_{peer}"] = splits | {"samples": {size: one for size, one in sizes.items() if one}}
    return row


def _means(runs: Mapping[Run, Record], models: Sequence[str], n_train: int | None) -> dict[str, Any]:
    """Mean loss, score and seconds of each model on each table."""
    tables: dict[str, Any] = {}
    for table in dict.fromkeys(table for _, table, _, _ in runs):
        for model in models:
            if mine := [r for (m, t, n, _), r in runs.items() if (m, t, n) == (model, table, n_train)]:
                keys = ("loss", "score", "fit_seconds", "predict_seconds")
                means = {key: float(np.mean([record[key] for record in mine])) for key in keys}
                tables.setdefault(table, {})[model] = {"cells": len(mine), **means}
    return tables


def text(result: dict[str, Any]) -> str:
    """Ratios of each model to the two peers, then the losses and seconds per table."""
    lines = []
    for peer in PEERS:
        head = f"{'loss / ' + peer:<24}{'splits':>17}{'tables':>8}{'wins':>6}  {'worst table':<24}"
        lines.append(head + "".join(f"{f'{rows} rows':>16}" for rows in SAMPLE_SIZES) + f"{'fit time':>10}")
        for model, row in result["models"].items():
            if one := row.get(f"against_{peer}"):
                worst = f"{one['worst']['table']} {one['worst']['ratio']:.3f}"
                line = f"{model:<24}{ratio_text(one):>17}{one['n_tables']:>8}{one['wins']:>6}  {worst:<24}"
                line += "".join(f"{ratio_text(one['samples'].get(str(rows), {})):>16}" for rows in SAMPLE_SIZES)
                lines.append(line + f"{one['fit_time_ratio']:>10.3f}")
        lines.append("")
    for key, digits in (("loss", ".4f"), ("fit_seconds", ".2f")):
        lines.append(f"{key:<24}" + "".join(f"{model[:15]:>16}" for model in result["models"]))
        for table, row in result["tables"]["splits"].items():
            shown = (format(row[model][key], digits) if model in row else "" for model in result["models"])
            lines.append(f"{table:<24}" + "".join(f"{one:>16}" for one in shown))
        lines.append("")
    if result["failed"]:
        lines.append(f"{len(result['failed'])} cells failed: see failed in the summary")
    return "\n".join(lines)
