"""`harsanyinet bench subsets`: one model with columns absent, against a LightGBM retrained on each subset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet import datasets
from harsanyinet.certificate import versions
from harsanyinet.estimators import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.experiments import results
from harsanyinet.experiments.bench_accuracy import DATASETS, folds
from harsanyinet.experiments.models import lightgbm
from harsanyinet.experiments.results import append, read_lines

N_SUBSETS = 30
Scores = dict[str, float]


def run(out: Path, *, quick: bool = False, threads: int = 1) -> str:
    """Goes on with the subsets that are not yet done, writes the summary and returns it as a table."""
    if quick:
        out = out.with_stem(f"{out.stem}_quick")
    results.prepare(out)
    lines = out.with_suffix(".jsonl")
    done = {(r["dataset"], r["subset"]) for r in read_lines(lines)}
    for dataset in ("census", "california"):
        todo = [s for s in range(3 if quick else N_SUBSETS) if (dataset, s) not in done]
        if todo:
            _measure(dataset, todo, lines, quick, threads)
    records = list(read_lines(lines))
    summary = {d: _summary([r for r in records if r["dataset"] == d]) for d in ("census", "california")}
    what = "random subsets of columns, sizes 1 to P - 1; ours is one model with the other columns absent"
    found = {
        "command": "harsanyinet bench subsets", "what": what, "threads": threads, "versions": versions(),
        "summary": summary, "rows": records,
    }  # fmt: skip
    results.write(out, found)
    return "\n".join(f"{d}: {s}" for d, s in summary.items()) + f"\nwritten to {out}"


def _measure(dataset: str, subsets: list[int], lines: Path, quick: bool, threads: int) -> None:
    table: datasets.Table = DATASETS[dataset][0]()
    train, test = folds(dataset, table)[0]
    if quick:
        train, test = train[:2000], test[:1000]
    classify = table.task == "classification"
    y = np.unique(table.y, return_inverse=True)[1] if classify else table.y.to_numpy(float)
    x_train, x_test = table.x.iloc[train], table.x.iloc[test]
    kind = HarsanyiClassifier if classify else HarsanyiRegressor
    ours = kind(random_state=0, n_jobs=threads, epochs=3 if quick else None).fit(x_train, y[train])
    predict: Callable[..., NDArray[Any]] = ours.predict_proba if classify else ours.predict
    for subset in tqdm(subsets, desc=dataset):
        rng = np.random.default_rng(subset)
        n = table.x.shape[1]
        present = np.isin(np.arange(n), rng.choice(n, rng.integers(1, n), replace=False))
        names = table.x.columns[present]
        rival = lightgbm(x_train[names], y[train], table.task, threads)(x_test[names])
        mine = _scores(y[test], predict(x_test, present=present), classify)
        append(lines, {
            "dataset": dataset, "subset": subset, "columns": list(names), "harsanyinet": mine,
            "lightgbm": _scores(y[test], rival, classify),
        })  # fmt: skip


def _scores(truth: NDArray[Any], predicted: NDArray[Any], classify: bool) -> Scores:
    from sklearn.metrics import accuracy_score, log_loss, r2_score, root_mean_squared_error

    if classify:
        return {"log_loss": log_loss(truth, predicted), "accuracy": accuracy_score(truth, predicted.argmax(1))}
    return {"rmse": root_mean_squared_error(truth, predicted), "r2": r2_score(truth, predicted)}


def _summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    if not records:
        return {}
    ours, theirs = (pd.DataFrame([record[model] for record in records]) for model in ("harsanyinet", "lightgbm"))
    loss = "log_loss" if "log_loss" in ours else "rmse"
    return {
        "subsets": len(records),
        f"{loss} ratio": float(ours[loss].mean() / theirs[loss].mean()),
        "subsets where ours is better": int((ours[loss] < theirs[loss]).sum()),
        "harsanyinet": ours.mean().to_dict(),
        "lightgbm": theirs.mean().to_dict(),
    }
