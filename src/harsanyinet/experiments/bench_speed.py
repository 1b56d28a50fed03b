"""`harsanyinet bench speed`: microseconds per row for predictions and explanations, from DataFrames, on Census.

Every measurement is a line of a .jsonl file beside the summary; those that are there are not repeated, so that a
stopped run goes on. Delete the file for a run of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from harsanyinet.certificate import versions
from harsanyinet.datasets import load_census
from harsanyinet.estimators import HarsanyiClassifier
from harsanyinet.experiments import results
from harsanyinet.experiments.models import as_categories
from harsanyinet.experiments.results import append, read_lines

BATCHES = (1, 4096)
TREES = 200
Call = Callable[[pd.DataFrame], Any]


def run(out: Path, *, quick: bool = False, threads: int = 1) -> str:
    """Measures what is not yet measured, writes the summary and returns it as a table."""
    if quick:
        out = out.with_stem(f"{out.stem}_quick")
    results.prepare(out)
    lines = out.with_suffix(".jsonl")
    torch.set_num_threads(threads)
    done = {record["name"] for record in read_lines(lines)}
    for name, measure in tqdm(list(_jobs(quick, threads))):
        if name not in done:
            append(lines, {"name": name, "threads": threads, **measure()})
    records = list(read_lines(lines))
    found = {"what": "microseconds per row, medians", "threads": threads, "versions": versions(), "rows": records}
    results.write(out, found | {"ratios": ratios(records)})
    return "\n".join(f"{r['name']:45} {r.get('us', '')}" for r in records) + f"\nwritten to {out}"


def ratios(records: list[dict[str, Any]]) -> dict[str, float]:
    """Time of the others over ours, and ours over ours."""
    us = {(r["name"], b): t for r in records for b, t in r.get("us", {}).items()}
    found = {}
    for ours in ("harsanyinet", "harsanyinet fast"):
        for batch in map(str, BATCHES):
            own = us.get((f"{ours}: predict + values", batch))
            if own is None:
                continue
            for (name, b), value in us.items():
                if b == batch and not name.startswith("harsanyinet"):
                    found[f"{name} / {ours}: predict + values, batch {batch}"] = value / own
            if (bare := us.get((f"{ours}: predict", batch))) is not None:
                found[f"{ours}: explain / predict, batch {batch}"] = own / bare
            if (pairs := us.get((f"{ours}: predict + values + all pairs", batch))) is not None:
                found[f"{ours}: all pairs / explain, batch {batch}"] = pairs / own
    return found


def _jobs(quick: bool, threads: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Name and measurement; models are fitted when the first measurement needs them."""
    split = load_census()
    train = split.train[:3000] if quick else split.train
    y = (split.y_train == ">50K").to_numpy(int)[: len(train)]
    test = split.test
    fitted: dict[str, Any] = {}

    def model(name: str) -> Any:
        if name not in fitted:
            fitted[name] = _fit(name, train, y, quick, threads)
        return fitted[name]

    def timed(make: Callable[[], Call], batches: tuple[int, ...] = BATCHES) -> Callable[[], dict[str, Any]]:
        return lambda: {"us": {str(b): _us(make(), test.iloc[:b]) for b in batches}}

    def pairs(name: str) -> Call:
        return lambda x: model(name).explain(x).index("SII", order=2)

    for name in ("harsanyinet", "harsanyinet fast"):
        yield f"{name}: predict", timed(partial(lambda n: model(n).predict_proba, name))
        yield f"{name}: predict + values", timed(partial(lambda n: model(n).explain, name))
        yield f"{name}: predict + values + all pairs", timed(partial(pairs, name))
    coded = as_categories(train)
    yield "lightgbm: predict", timed(lambda: lambda x: model("lightgbm").predict_proba(coded(x)))
    yield "lightgbm: pred_contrib", timed(lambda: lambda x: model("lightgbm").predict(coded(x), pred_contrib=True))
    yield "xgboost: predict", timed(lambda: lambda x: model("xgboost").predict_proba(coded(x)))
    yield "xgboost: pred_contribs", timed(lambda: lambda x: _xgboost(model("xgboost"), coded(x), "pred_contribs"))
    yield (
        "xgboost: pred_interactions",
        timed(lambda: lambda x: _xgboost(model("xgboost"), coded(x), "pred_interactions")),
    )
    yield "shap tree: path-dependent", timed(lambda: _tree_explainer(model("lightgbm"), None, coded))
    yield "shap tree: one background row", timed(lambda: _tree_explainer(model("hist"), coded(train.iloc[:1]), coded))
    yield "ebm: predict", timed(lambda: model("ebm").predict_proba)
    yield "ebm: eval_terms", timed(lambda: model("ebm").eval_terms)
    few = 2
    yield (
        "shap kernel, 2^n evaluations at most",
        timed(lambda: _black_box("KernelExplainer", model("lightgbm"), train, coded), (few,)),
    )
    yield "shap permutation", timed(lambda: _black_box("PermutationExplainer", model("lightgbm"), train, coded), (few,))
    for n in (10, 30, 100, 300, 1000):
        yield f"harsanyinet, {n} columns", partial(_sized, n, 128, quick)
    for width in (32, 512):
        yield f"harsanyinet, 30 columns, width {width}", partial(_sized, 30, width, quick)


def _fit(name: str, x: pd.DataFrame, y: Any, quick: bool, threads: int) -> Any:
    coded = as_categories(x)
    if name.startswith("harsanyinet"):
        return HarsanyiClassifier(
            members=1 if name.endswith("fast") else 8, random_state=0, n_jobs=threads, epochs=2 if quick else None
        ).fit(x, y)
    if name == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=TREES, random_state=0, n_jobs=threads, verbosity=-1).fit(coded(x), y)
    if name == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=TREES, enable_categorical=True, random_state=0, n_jobs=threads).fit(
            coded(x), y
        )
    if name == "hist":
        from lightgbm import LGBMClassifier  # numbers only: shap does not take categories with a background

        numbers = x.select_dtypes("number")
        return LGBMClassifier(n_estimators=TREES, random_state=0, n_jobs=threads, verbosity=-1).fit(numbers, y)
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(outer_bags=1, n_jobs=threads, random_state=0).fit(x, y)  # as many terms


def _xgboost(model: Any, x: pd.DataFrame, what: str) -> Any:
    from xgboost import DMatrix

    return model.get_booster().predict(DMatrix(x, enable_categorical=True), **{what: True})


def _tree_explainer(model: Any, background: pd.DataFrame | None, coded: Callable[[pd.DataFrame], pd.DataFrame]) -> Call:
    from shap import TreeExplainer

    if background is None:
        explainer = TreeExplainer(model)
        return lambda x: explainer.shap_values(coded(x))
    explainer = TreeExplainer(model, background.select_dtypes("number"), feature_perturbation="interventional")
    return lambda x: explainer.shap_values(x.select_dtypes("number"), check_additivity=False)


def _black_box(kind: str, model: Any, train: pd.DataFrame, coded: Callable[[pd.DataFrame], pd.DataFrame]) -> Call:
    import shap

    levels = coded(train)
    numbers = levels.apply(lambda c: c.cat.codes if isinstance(c.dtype, pd.CategoricalDtype) else c).astype(float)

    def frame(rows: Any) -> pd.DataFrame:
        back = pd.DataFrame(rows, columns=levels.columns)
        for name, dtype in levels.dtypes.items():
            if isinstance(dtype, pd.CategoricalDtype):
                back[name] = pd.Categorical.from_codes(back[name].to_numpy(dtype=int), dtype=dtype)
        return back

    def predict(rows: Any) -> Any:
        return model.predict_proba(frame(rows))[:, 1]

    background = numbers.iloc[:1].to_numpy()
    if kind == "KernelExplainer":
        kernel = shap.KernelExplainer(predict, background)
        return lambda x: kernel.shap_values(numbers.iloc[: len(x)].to_numpy(), silent=True)
    permutation = shap.PermutationExplainer(predict, background, seed=0)
    return lambda x: permutation(numbers.iloc[: len(x)].to_numpy(), max_evals=500)


def _sized(n: int, width: int, quick: bool) -> dict[str, Any]:
    """Our cost on a made-up table of so many columns, every one of which matters."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(4096, n)), columns=[f"c{i}" for i in range(n)])
    y = (x @ rng.normal(size=n) + 0.3 * np.sqrt(n) * rng.normal(size=4096) > 0).astype(int)
    model = HarsanyiClassifier(random_state=0, epochs=1, width=width, progress=False).fit(x[:1024], y[:1024])
    rows = x[: 256 if quick else 4096]
    coalitions = len(model.folded_.coalitions)
    return {
        "explain_us": _us(model.explain, rows),
        "predict_us": _us(model.predict_proba, rows),
        "coalitions": coalitions,
    }


def _us(call: Call, rows: pd.DataFrame) -> float:
    """Median microseconds per row, after one to warm up: five calls, more if they are short, fewer if long."""
    call(rows)
    times: list[float] = []
    while not times or (sum(times) < 20 and len(times) < 5) or (sum(times) < 0.5 and len(times) < 200):
        start = time.perf_counter()
        call(rows)
        times.append(time.perf_counter() - start)
    return 1e6 * median(times) / len(rows)
