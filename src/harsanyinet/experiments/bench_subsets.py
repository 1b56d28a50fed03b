"""`harsanyinet bench subsets`: one model with columns absent, against models retrained on each subset of the columns.

Beside it what the values mean: how much of the output comes from single columns and pairs, and whether two seeds agree.
A subset is a line of a .jsonl file beside the summary, and so is what is said of a whole model; none is run again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet.certificate import versions
from harsanyinet.datasets import DatasetNotFoundError, Table
from harsanyinet.experiments import results
from harsanyinet.experiments.bench_accuracy import DATASETS, folds
from harsanyinet.experiments.bench_defaults import development_tables, split
from harsanyinet.experiments.models import catboost, harsanyinet, lightgbm
from harsanyinet.experiments.results import append, read_lines

N_SUBSETS = 30
TABLES = ("census", "california", "tv_news", "churn", "diamonds")
RIVALS = {"lightgbm": lightgbm, "catboost": catboost}
WHAT = (
    "random subsets of columns, sizes 1 to P - 1; ours is one model with the other columns absent, the others are "
    "retrained on each subset; ratio: of the mean losses over subsets; orders_1_and_2: their share of the sum of "
    "|dividends|; seeds_correlation: of all Shapley values of two seeds; both on 1,000 test rows"
)
Line = dict[str, Any]


def run(out: Path, *, quick: bool = False, threads: int = 1) -> str:
    """Goes on with what is not yet done, writes the summary and returns it as a table."""
    if quick:
        out = out.with_stem(f"{out.stem}_quick")
    results.prepare(out)
    lines = out.with_suffix(".jsonl")
    done = {(line["dataset"], line.get("subset")) for line in read_lines(lines)}
    for dataset in TABLES:
        todo = [s for s in (None, *range(3 if quick else N_SUBSETS)) if (dataset, s) not in done]
        if todo:
            try:
                _measure(dataset, todo, lines, quick, threads)
            except DatasetNotFoundError as error:
                logging.warning("%s is skipped: %s", dataset, error)
    records = list(read_lines(lines))
    summary = {d: _summary(mine) for d in TABLES if (mine := [line for line in records if line["dataset"] == d])}
    found = {
        "command": "harsanyinet bench subsets", "what": WHAT, "threads": threads, "versions": versions(),
        "summary": summary, "rows": records,
    }  # fmt: skip
    results.write(out, found)
    return "\n".join(f"{d}: {s}" for d, s in summary.items()) + f"\nwritten to {out}"


def _load(dataset: str, quick: bool) -> tuple[Table, NDArray[Any], NDArray[Any]]:
    """A table, rows to train and rows to test on: the first of its folds or splits."""
    if dataset in DATASETS:
        table: Table = DATASETS[dataset][0]()
        train, test = folds(dataset, table)[0]
    else:
        table = development_tables()[dataset]()
        train, test = split(table, None, 0)
    return (table, train[:2000], test[:1000]) if quick else (table, train, test)


def _measure(dataset: str, todo: list[int | None], lines: Path, quick: bool, threads: int) -> None:
    table, train, test = _load(dataset, quick)
    classify = table.task == "classification"
    y = np.unique(table.y, return_inverse=True)[1] if classify else table.y.to_numpy(float)
    x_train, x_test = (table.x.iloc[rows].reset_index(drop=True) for rows in (train, test))
    options = {"max_iter": 50} if quick else {}
    ours = harsanyinet(x_train, y[train], table.task, threads, **options).model
    predict: Callable[..., NDArray[Any]] = ours.predict_proba if classify else ours.predict
    for subset in tqdm(todo, desc=dataset):
        if subset is None:
            other = harsanyinet(x_train, y[train], table.task, threads, random_state=1, **options).model
            append(lines, {"dataset": dataset, **_meaning(ours, other, x_test[:1000])})
            continue
        rng = np.random.default_rng(subset)
        n = table.x.shape[1]
        present = np.isin(np.arange(n), rng.choice(n, rng.integers(1, n), replace=False))
        names = table.x.columns[present]
        line = {"dataset": dataset, "subset": subset, "columns": list(names)}
        line["harsanyinet"] = _scores(y[test], predict(x_test, present=present), classify)
        for rival, fit in RIVALS.items():
            predicted = fit(x_train[names], y[train], table.task, threads)(x_test[names])
            line[rival] = _scores(y[test], predicted, classify)
        append(lines, line)


def _meaning(model: Any, other: Any, rows: Any) -> Line:
    ex, again = model.explain(rows), other.explain(rows)
    spectrum = ex.order_spectrum()
    return {
        "order_spectrum": [round(float(share), 4) for share in np.trim_zeros(spectrum, "b")],
        "orders_1_and_2": float(spectrum[1:3].sum()),
        "seeds_correlation": float(np.corrcoef(ex.values.ravel(), again.values.ravel())[0, 1]),
    }


def _scores(truth: NDArray[Any], predicted: NDArray[Any], classify: bool) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, log_loss, r2_score, root_mean_squared_error

    if classify:
        return {"log_loss": log_loss(truth, predicted), "accuracy": accuracy_score(truth, predicted.argmax(1))}
    return {"rmse": root_mean_squared_error(truth, predicted), "r2": r2_score(truth, predicted)}


def _summary(records: list[Line]) -> Line:
    """Mean scores, ratios of mean losses, the worst subset, and what is said of the whole model."""
    subsets = [record for record in records if "subset" in record]
    whole = next((record for record in records if "subset" not in record), {})
    found = {key: value for key, value in whole.items() if key != "dataset"}
    if not subsets:
        return found
    loss = "log_loss" if "log_loss" in subsets[0]["harsanyinet"] else "rmse"
    losses = {name: np.array([line[name][loss] for line in subsets]) for name in ("harsanyinet", *RIVALS)}
    found |= {"subsets": len(subsets), "loss": loss}
    for name in losses:
        scores = subsets[0][name]
        found[name] = {score: float(np.mean([line[name][score] for line in subsets])) for score in scores}
    for rival in RIVALS:
        ratios = losses["harsanyinet"] / losses[rival]
        worst = int(ratios.argmax())
        found[f"against_{rival}"] = {
            "ratio": float(losses["harsanyinet"].mean() / losses[rival].mean()),
            "wins": int((ratios < 1).sum()),
            "worst": {"ratio": float(ratios[worst]), "columns": subsets[worst]["columns"]},
        }
    return found
