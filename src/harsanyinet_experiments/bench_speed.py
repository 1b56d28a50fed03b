"""`harsanyinet bench speed`: microseconds per row for predictions and explanations, from DataFrames, on Census.

A cell is one measurement. Delete the .jsonl file for a run of its own.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from harsanyinet import HarsanyiClassifier
from harsanyinet.datasets import load_census
from harsanyinet.explanations.certificate import versions
from harsanyinet_experiments import models, results, serving_speed
from harsanyinet_experiments.models import as_categories
from harsanyinet_experiments.runner import Ledger
from harsanyinet_experiments.serving_speed import OWN

BATCHES = (1, 4096)
TREES = 200
FEW = 2
WHAT = (
    "microseconds per row, medians, or seconds of what happens once; shap's interventional trees see the columns of "
    "numbers only, WOODELF categories by number, the black-box explainers two rows of the LightGBM model; EBM has one "
    "bag; cold: in a process of its own; a million rows: once, drawn from the test rows"
)
Call = Callable[[Any], Any]


def run(out: Path, *, quick: bool = False, threads: int = 1) -> str:
    """Measures what is not yet measured, writes the summary and returns it as a table."""
    out = results.place(out, quick)
    cells_run = ledger(out)
    named = dict(jobs(quick, threads))
    with threadpool_limits(threads):
        cells_run.run([{"name": name} for name in named], lambda cell: {"threads": threads, **named[cell["name"]]()})
    places = {name: place for place, name in enumerate(named)}  # not in the order in which they were run
    records = sorted((r for r in cells_run.records() if r["name"] in places), key=lambda r: places[r["name"]])
    about = {"command": "harsanyinet bench speed", "what": WHAT, "threads": threads, "versions": versions()}
    results.write(out, about | {"rows": records, "ratios": ratios(records)})
    return "\n".join(f"{r['name']:45} {r.get('us', r.get('seconds', ''))}" for r in records) + f"\nwritten to {out}"


def ledger(out: Path) -> Ledger:
    """Where the cells are kept."""
    return Ledger(out.with_suffix(".jsonl"), ("name",))


def ratios(records: list[dict[str, Any]]) -> dict[str, float]:
    """Time of everything over that of our predictions with values, by size of the batch."""
    us = {(r["name"], b): t for r in records for b, t in r.get("us", {}).items()}
    own = {batch: value for (name, batch), value in us.items() if name.endswith(OWN)}
    return {
        f"{name} / {OWN}, batch {batch}": value / own[batch]
        for (name, batch), value in us.items()
        if batch in own and not name.endswith(OWN)
    }


def jobs(quick: bool, threads: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
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
        return lambda: {"us": {str(b): microseconds(make(), test.iloc[:b]) for b in batches}}

    def explained(name: str, **game: Any) -> Callable[[], Call]:
        return lambda: lambda x: model(name).explain(x, **game)

    ours = "harsanyinet"
    yield f"{ours}: predict", timed(lambda: model(ours).predict_proba)
    yield OWN, timed(explained(ours))
    yield f"{OWN} + all pairs", timed(lambda: lambda x: model(ours).explain(x).index("SII", order=2))
    yield f"{OWN}, marginal game", timed(explained(ours, game="marginal"))
    yield f"{OWN}, max_order=2", timed(explained("pairs"))
    rows = test[:1].to_dict("records")
    yield f"{OWN}, from a dict", lambda: {"us": {"1": microseconds(lambda rows: model(ours).explain(rows[0]), rows)}}
    numbers = test.select_dtypes("number").to_numpy(dtype=float)[:1]
    yield f"{OWN}, from an array of numbers", lambda: {"us": {"1": microseconds(model("array").explain, numbers)}}
    yield "harsanyinet: first explanation without a compile cache, cold", partial(_first_call, model, ours, test[:4096])
    yield "harsanyinet explain of a file of 100 rows, cold", partial(_command, model, ours, test[:100])
    yield from serving_speed.jobs(lambda: model(ours), test, lambda call, x: microseconds(call, x), BATCHES, threads)
    coded = as_categories(train)
    yield "lightgbm: predict", timed(lambda: lambda x: model("lightgbm").predict_proba(coded(x)))
    yield "lightgbm: pred_contrib", timed(lambda: lambda x: model("lightgbm").predict(coded(x), pred_contrib=True))
    yield "xgboost: predict", timed(lambda: lambda x: model("xgboost").predict_proba(coded(x)))
    yield "xgboost: pred_contribs", timed(lambda: lambda x: _xgboost(model("xgboost"), coded(x), "pred_contribs"))
    yield (
        "xgboost: pred_interactions",
        timed(lambda: lambda x: _xgboost(model("xgboost"), coded(x), "pred_interactions"), (FEW,)),
    )
    yield "catboost: predict", timed(lambda: partial(_catboost, model("catboost"), None, threads))
    yield "catboost: ShapValues", timed(lambda: partial(_catboost, model("catboost"), "ShapValues", threads))
    yield (
        "catboost: ShapInteractionValues",
        timed(lambda: partial(_catboost, model("catboost"), "ShapInteractionValues", threads), (FEW,)),
    )
    yield "woodelf: path-dependent", timed(lambda: _woodelf(model("coded"), train, None))
    yield "woodelf: all training rows", timed(lambda: _woodelf(model("coded"), train, train))
    yield "shap tree: path-dependent", timed(lambda: _tree_explainer(model("lightgbm"), None, coded))
    yield "shap tree: one background row", timed(lambda: _tree_explainer(model("hist"), coded(train.iloc[:1]), coded))
    yield "ebm: predict", timed(lambda: model("ebm").predict_proba)
    yield "ebm: eval_terms", timed(lambda: model("ebm").eval_terms)
    yield (
        "shap kernel, 2^n evaluations at most",
        timed(lambda: _black_box("KernelExplainer", model("lightgbm"), train, coded), (FEW,)),
    )
    yield "shap permutation", timed(lambda: _black_box("PermutationExplainer", model("lightgbm"), train, coded), (FEW,))
    yield from serving_speed.million_jobs(
        {
            OWN: explained(ours),
            "ebm: eval_terms": lambda: model("ebm").eval_terms,
            "catboost: ShapValues": lambda: partial(_catboost, model("catboost"), "ShapValues", threads),
            "shap tree: one background row": lambda: _tree_explainer(model("hist"), coded(train.iloc[:1]), coded),
        },  # no pred_contrib of LightGBM or XGBoost, which takes a quarter of an hour
        lambda: model(ours), test, 3000 if quick else serving_speed.MILLION,
    )  # fmt: skip
    for n in (10, 30, 100, 300, 1000):
        yield f"harsanyinet, {n} columns", partial(sized, n, quick, threads)


def _fit(name: str, x: pd.DataFrame, y: Any, quick: bool, threads: int) -> Any:
    coded = as_categories(x)
    options: dict[str, Any] = {"random_state": 0, "n_jobs": threads, "progress": False}
    options |= {"max_iter": 20} if quick else {}
    if name == "harsanyinet":
        return HarsanyiClassifier(**options).fit(x, y)
    if name == "pairs":
        return HarsanyiClassifier(max_order=2, **options).fit(x, y)
    if name == "array":
        return HarsanyiClassifier(**options).fit(x.select_dtypes("number").to_numpy(dtype=float), y)
    if name == "lightgbm":
        return models.lightgbm(x, y, "classification", threads, trees=TREES).model
    if name == "catboost":
        return models.catboost(x, y, "classification", threads, trees=20 if quick else None)
    if name in ("xgboost", "coded"):
        from xgboost import XGBClassifier

        frame = coded(x) if name == "xgboost" else _by_number(x, x)
        return XGBClassifier(n_estimators=TREES, enable_categorical=True, random_state=0, n_jobs=threads).fit(frame, y)
    if name == "hist":
        from lightgbm import LGBMClassifier  # numbers only: shap does not take categories with a background

        numbers = x.select_dtypes("number")
        return LGBMClassifier(n_estimators=TREES, random_state=0, n_jobs=threads, verbosity=-1).fit(numbers, y)
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(outer_bags=1, n_jobs=threads, random_state=0).fit(x, y)  # as many terms


def _by_number(x: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """Categories as numbers, those of the training rows."""
    frame = as_categories(train)(x)
    coded = {c: frame[c].cat.codes for c in frame if isinstance(frame[c].dtype, pd.CategoricalDtype)}
    return frame.assign(**coded).astype(float)  # type: ignore[arg-type]


# Ours, cold ----------------------------------------------------------------------------------------------------------


def _first_call(model: Callable[[str], Any], name: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Seconds of the first explanation in a process that has loaded the model and compiled nothing."""
    code = (
        "import sys, time, pandas as pd, harsanyinet; model = harsanyinet.load(sys.argv[1]); "
        "x = pd.read_csv(sys.argv[2]); start = time.perf_counter(); model.explain(x); "
        "print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = _written(model(name), rows, Path(folder))
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True, env=environment
        )
    return {"seconds": float(done.stdout)}


def _command(model: Callable[[str], Any], name: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Seconds of the whole command, from start to end."""
    code = "import sys; from harsanyinet.cli import main; sys.exit(main(sys.argv[1:]))"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, "explain", *_written(model(name), rows, Path(folder))]
        return {"seconds": microseconds(lambda _: subprocess.run(command, capture_output=True, check=True), [0]) / 1e6}


def _written(model: Any, rows: pd.DataFrame, folder: Path) -> list[str]:
    model.save(folder / "model.hnet")
    rows.to_csv(folder / "rows.csv", index=False)
    return [str(folder / "model.hnet"), str(folder / "rows.csv")]


def sized(n: int, quick: bool, threads: int) -> dict[str, Any]:
    """Our cost on a made-up table of so many columns, every one of which matters."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(4096, n)), columns=[f"c{i}" for i in range(n)])
    y = (x @ rng.normal(size=n) + 0.3 * np.sqrt(n) * rng.normal(size=4096) > 0).astype(int)
    trees = 20 if quick else 1000
    model = HarsanyiClassifier(max_iter=trees, learning_rate=0.03, random_state=0, n_jobs=threads, progress=False)
    model.fit(x[:1024], y[:1024])
    rows = x[: 256 if quick else 4096]
    return {
        "explain_us": microseconds(model.explain, rows),
        "predict_us": microseconds(model.predict_proba, rows),
        "coalitions": len(model.trees_.coalitions),
    }


# Others --------------------------------------------------------------------------------------------------------------


def _xgboost(model: Any, x: pd.DataFrame, what: str) -> Any:
    from xgboost import DMatrix

    return model.get_booster().predict(DMatrix(x, enable_categorical=True), **{what: True})


def _catboost(fitted: Any, what: str | None, threads: int, x: pd.DataFrame) -> Any:
    """Probabilities, or what is asked for, by so many threads: whatever its fit had, CatBoost would take all cores."""
    from catboost import Pool

    if what is None:
        return fitted.model.predict_proba(fitted.coded(x), thread_count=threads)
    pool = Pool(fitted.coded(x), cat_features=fitted.model.get_cat_feature_indices(), thread_count=threads)
    return fitted.model.get_feature_importance(pool, type=what, thread_count=threads)


def _woodelf(model: Any, train: pd.DataFrame, background: pd.DataFrame | None) -> Call:
    from woodelf import WoodelfExplainer

    explainer = WoodelfExplainer(model, None if background is None else _by_number(background, train))

    def call(x: pd.DataFrame) -> Any:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # it speaks
            return explainer.shap_values(_by_number(x, train), verbose=False)

    return call


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
    numbers = _by_number(train, train)

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


def microseconds(call: Call, rows: Any) -> float:
    """Median microseconds per row, after one to warm up: five calls, more if they are short, fewer if long."""
    call(rows)
    times: list[float] = []
    while not times or (sum(times) < 20 and len(times) < 5) or (sum(times) < 0.5 and len(times) < 200):
        start = time.perf_counter()
        call(rows)
        times.append(time.perf_counter() - start)
    return 1e6 * median(times) / len(rows)
