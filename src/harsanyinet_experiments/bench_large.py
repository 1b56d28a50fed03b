"""`harsanyinet bench large`: a million rows, two thousand columns, a hundred classes: seconds, memory, size on disk.

A cell is one model of one table, fitted in a process of its own: ours, LightGBM with 200 trees, or CatBoost.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harsanyinet.explanations.certificate import versions
from harsanyinet_experiments import models, results
from harsanyinet_experiments.runner import Cell, Ledger, Record

SIZES = {"rows": 1_000_000, "columns": 20_000, "classes": 20_000}  # rows to train on; a tenth more to test
QUICK = {"rows": 5_000, "columns": 200, "classes": 3_000}
N_COLUMNS = {"rows": 12, "columns": 2_000, "classes": 20}
N_CLASSES = {"rows": 2, "columns": 2, "classes": 100}
MODELS = ("harsanyinet", "lightgbm", "catboost")
WHAT = (
    "made-up tables, classes drawn from known chances; our model explains all rows, 50,000 at a time (1,000 of many "
    "columns or classes), the others 200 rows (20 of many classes); peak_gib is that of the whole process, data_gib "
    "what it held before the fit"
)
Made = tuple[pd.DataFrame, NDArray[Any], NDArray[Any]]  # rows, chances of the classes, the class


def run(out: Path, *, quick: bool = False, threads: int = 2) -> str:
    """Measures what is not yet measured, writes the summary and returns it as a table."""
    out = results.place(out, quick)
    cells_run = ledger(out)
    cells_run.run(cells(), lambda cell: in_a_process(cell["case"], cell["model"], quick, threads))
    records = cells_run.records()
    results.write(out, {
        "command": "harsanyinet bench large", "what": WHAT, "threads": threads, "versions": versions(), "rows": records,
    })  # fmt: skip
    return "\n".join(
        f"{r['case']:<8} {r['model']:<12} fit {r['fit_seconds']:8.1f} s, explain {r['explain_us_per_row']:10.1f} us a "
        f"row, peak {r['peak_gib']:.2f} GiB (data {r['data_gib']:.2f}), file {r['file_mib']:.1f} MiB, log-loss "
        f"{r['log_loss']:.4f} (true chances {r['log_loss_of_the_true_chances']:.4f})"
        for r in records
    ) + f"\nwritten to {out}"  # fmt: skip


def ledger(out: Path) -> Ledger:
    """Where the cells are kept."""
    return Ledger(out.with_suffix(".jsonl"), ("case", "model"))


def cells() -> list[Cell]:
    """Every model on every table."""
    return [{"case": case, "model": model} for case in SIZES for model in MODELS]


def in_a_process(case: str, model: str, quick: bool, threads: int) -> Record:
    """One fit of one model in a process of its own, so that its memory is its own."""
    call = f"measure({case!r}, {model!r}, {quick}, {threads})"
    code = f"from harsanyinet_experiments.bench_large import measure; print({call})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    record: Record = json.loads(done.stdout.splitlines()[-1])
    return record


def measure(case: str, model: str, quick: bool, threads: int) -> str:
    """One fit of one model in this process, as a line of JSON."""
    from sklearn.metrics import log_loss

    rows = (QUICK if quick else SIZES)[case]
    x, chances, y = MAKE[case](rows + rows // 10)
    data = _memory_gib("VmRSS")
    train, test = x[:rows], x[rows:]
    options = ({"max_iter": 10, "learning_rate": 0.3} if model == "harsanyinet" else {"trees": 10}) if quick else {}
    if model == "harsanyinet":  # compiled before the clock runs
        models.harsanyinet(train[:200], y[:200], "classification", threads, max_iter=2, learning_rate=0.1)
    start = time.perf_counter()
    fitted: Any = getattr(models, model)(train, y[:rows], "classification", threads, **options)
    fit = time.perf_counter() - start
    explained = rows if model == "harsanyinet" else 20 if case == "classes" else 200
    start = time.perf_counter()
    _explain(model, fitted, train[:explained])
    seconds = time.perf_counter() - start
    classes, labels = np.unique(y[:rows]), range(chances.shape[1])
    predicted = np.full((len(test), chances.shape[1]), 1e-9)
    predicted[:, classes] = fitted(test)
    means = np.tile(np.bincount(y[:rows], minlength=chances.shape[1]) / rows, (len(test), 1)).clip(1e-9)
    losses = {
        "log_loss": predicted / predicted.sum(1, keepdims=True),
        "log_loss_of_the_true_chances": chances[rows:],
        "log_loss_of_the_mean": means / means.sum(1, keepdims=True),
    }
    return json.dumps({
        "case": case, "model": model, "rows": rows, "columns": x.shape[1], "classes": chances.shape[1],
        "threads": threads, "fit_seconds": fit, "explained_rows": explained, "explain_seconds": seconds,
        "explain_us_per_row": 1e6 * seconds / explained, "data_gib": data, "peak_gib": _memory_gib("VmHWM"),
        "file_mib": _file_size(model, fitted) / 2**20,
        **{name: log_loss(y[rows:], chance, labels=labels) for name, chance in losses.items()},
    })  # fmt: skip


def _explain(name: str, fitted: Any, x: pd.DataFrame) -> None:
    if name == "lightgbm":
        fitted.model.predict(fitted.coded(x), pred_contrib=True)
    elif name == "catboost":
        from catboost import Pool

        pool = Pool(fitted.coded(x), cat_features=fitted.model.get_cat_feature_indices())
        fitted.model.get_feature_importance(pool, type="ShapValues")
    else:
        size = 50_000 if len(fitted.model.output_names_) * x.shape[1] < 100 else 1000  # values, never all at once
        for first in range(0, len(x), size):
            fitted.model.explain(x[first : first + size])


def _file_size(name: str, fitted: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        if name == "lightgbm":
            fitted.model.booster_.save_model(path)
        elif name == "catboost":
            fitted.model.save_model(str(path))
        else:
            fitted.model.save(path)
        return path.stat().st_size


def _memory_gib(field: str) -> float:
    """Resident memory of this process: now (VmRSS) or at its peak (VmHWM); off Linux, the peak."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(field)) / 2**20


# Tables --------------------------------------------------------------------------------------------------------------


def many_rows(n: int) -> Made:
    """Single, pair and triple effects of eight columns, text among them; four columns are idle."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame({f"number {i}": rng.normal(size=n).astype(np.float32) for i in range(8)})
    codes = {f"category {i}": rng.integers(0, 5 * (i + 1), n) for i in range(4)}
    score = np.sin(2 * x["number 0"]) + x["number 1"] * x["number 2"] + (x["number 3"] > 0.5) - 0.5
    score += (
        rng.normal(size=5)[codes["category 0"]]
        + rng.normal(size=(10, 2))[codes["category 1"], (x["number 4"] > 0).to_numpy(dtype=int)]
    )
    score += 1.5 * np.sign(x["number 3"] * x["number 4"] * x["number 5"])
    chance = 1 / (1 + np.exp(-score.to_numpy(dtype=np.float64)))
    for name, code in codes.items():
        x[name] = np.array([f"level {i}" for i in range(int(code.max()) + 1)])[code]
    x.loc[rng.random(n) < 0.05, "number 0"] = np.nan
    return x, np.column_stack([1 - chance, chance]), (rng.random(n) < chance).astype(np.int64)


def many_columns(n: int) -> Made:
    """Twenty of the columns act by themselves, and some of them in pairs."""
    rng = np.random.default_rng(0)
    names = [f"number {i}" for i in range(N_COLUMNS["columns"])]
    x = pd.DataFrame(rng.normal(size=(n, len(names))).astype(np.float32), columns=names)
    first = x.iloc[:, :20].to_numpy(dtype=np.float64)
    score = first @ rng.normal(size=20) + (first[:, :10] * first[:, 10:]).sum(1) / 2
    chance = 1 / (1 + np.exp(-score))
    return x, np.column_stack([1 - chance, chance]), (rng.random(n) < chance).astype(np.int64)


def many_classes(n: int) -> Made:
    """A class is the nearer, in ten of the columns, the likelier."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(n, N_COLUMNS["classes"])), columns=[f"number {i}" for i in range(20)])
    centres = 1.5 * rng.normal(size=(N_CLASSES["classes"], 10))
    logits = x.to_numpy()[:, :10] @ centres.T - (centres**2).sum(1) / 2  # (rows, classes)
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    return x, chances, (chances.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=N_CLASSES["classes"] - 1)


MAKE: dict[str, Callable[[int], Made]] = {"rows": many_rows, "columns": many_columns, "classes": many_classes}
