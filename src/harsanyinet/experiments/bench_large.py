"""`harsanyinet bench large`: a million rows of 12 columns, fitted and explained: seconds and memory."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from harsanyinet.certificate import versions
from harsanyinet.estimators import HarsanyiClassifier
from harsanyinet.experiments import results

ROWS = 1_000_000


def run(out: Path, *, quick: bool = False, threads: int = 1) -> str:
    """Fits, predicts and explains, writes the result and returns it in a sentence."""
    if quick:
        out = out.with_stem(f"{out.stem}_quick")
    results.prepare(out)
    rows = 5_000 if quick else ROWS
    torch.set_num_threads(threads)
    x, chance, y = made_up(rows + rows // 10)
    seconds: dict[str, float] = {}
    model = HarsanyiClassifier(random_state=0, n_jobs=threads, epochs=1 if quick else None)
    start = time.perf_counter()
    model.fit(x[:rows], y[:rows])
    seconds["fit"] = time.perf_counter() - start
    start = time.perf_counter()
    for first in range(0, rows, 50_000):  # as the command line does: values of all rows, never all at once
        model.explain(x[first : first + 50_000])
    seconds["explain all rows"] = time.perf_counter() - start
    loss = log_loss(y[rows:], model.predict_proba(x[rows:]))
    found = {
        "command": "harsanyinet bench large",
        "what": "a made-up table, classes drawn from known chances; explained 50,000 rows at a time",
        "rows": rows, "columns": x.shape[1], "threads": threads, "versions": versions(), "seconds": seconds,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "log_loss": loss, "log_loss_of_the_true_chances": log_loss(y[rows:], chance[rows:]),
        "log_loss_of_the_mean": log_loss(y[rows:], np.full(rows // 10, y[:rows].mean())),
        "tables": model.network_.config["n_tables"],
    }  # fmt: skip
    results.write(out, found)
    return (
        f"{rows:,} rows: fit {seconds['fit']:.0f} s, explain {seconds['explain all rows']:.0f} s, "
        f"peak {found['peak_gib']:.1f} GiB, log-loss {loss:.4f} (true chances "
        f"{found['log_loss_of_the_true_chances']:.4f})\nwritten to {out}"
    )


def made_up(n: int) -> tuple[pd.DataFrame, NDArray[Any], NDArray[Any]]:
    """Rows, the chance of a yes and the class: single, pair and triple effects of eight columns; four are idle."""
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
    return x, chance, (rng.random(n) < chance).astype(np.int64)
