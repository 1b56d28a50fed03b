"""What `bench speed` measures of models that have left the notebook: ONNX, numpy alone, a million rows on disk.

A measurement is a function without arguments; models are fitted by the caller, when the first of them needs one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harsanyinet import load_predictor

Measure = Callable[[], dict[str, Any]]
Call = Callable[[Any], Any]
OWN = "harsanyinet: predict + values"
MILLION = 1_000_000
_COLD = """
import json, sys, time
start = time.perf_counter()
absent = ("pandas", "sklearn", "scipy", "numba", "torch", "safetensors")
sys.modules.update(dict.fromkeys(absent))
from harsanyinet import load_predictor
load_predictor(sys.argv[1]).explain(json.loads(sys.argv[2]))
print(time.perf_counter() - start)
"""
_COMMAND = "import sys; from harsanyinet.cli import main; sys.exit(main(sys.argv[1:]))"


def jobs(
    model: Callable[[], Any], test: pd.DataFrame, us: Callable[[Call, Any], float], batches: Sequence[int], threads: int
) -> Iterator[tuple[str, Measure]]:
    """Name and measurement of everything of ours that is exported.

    Args:
        model: Gives the fitted model.
        test: Rows.
        us: Microseconds per row of a call.
        batches: How many rows at a time.
        threads: Of onnxruntime.
    """
    for what, options in (("", {}), (" + all pairs", {"interactions": True})):
        yield (
            f"{OWN}{what}, by onnxruntime, from one array per column",
            partial(_onnx, model, test, us, batches, threads, options),
        )
    yield f"{OWN}, with numpy alone, from a dict", lambda: _predictor(model(), test, us)
    yield "harsanyinet: import, load, one explained row with numpy alone, cold", lambda: _cold(model(), test)
    yield "harsanyinet: size of the files", lambda: _sizes(model())


def million_jobs(
    calls: dict[str, Callable[[], Call]], model: Callable[[], Any], test: pd.DataFrame, n: int
) -> Iterator[tuple[str, Measure]]:
    """Explanations of a million rows drawn from the test rows, each once; ours also from file to file.

    Args:
        calls: By the name of a measurement, what gives the function that explains a frame.
        model: Gives our fitted model.
        test: Rows.
        n: A million, or fewer to see that it runs.
    """

    def rows() -> pd.DataFrame:
        return test.iloc[np.random.default_rng(0).integers(0, len(test), n)].reset_index(drop=True)

    yield (
        "harsanyinet explain of a million rows, Parquet to Parquet, two threads",
        lambda: _parquet(model(), rows()),
    )
    for name, make in calls.items():
        yield f"a million rows, {name}", partial(_once, make, test, rows)


def feeds(model: Any, x: pd.DataFrame) -> dict[str, Any]:
    """A frame as inputs of the model's ONNX file: one array for each column."""
    return {
        column.name: x[column.name].fillna("").astype(object).to_numpy()
        if column.kind == "category" else x[column.name].to_numpy(dtype=np.float64)
        for column in model.columns_
    }  # fmt: skip


def _onnx(
    model: Callable[[], Any], test: pd.DataFrame, us: Callable[[Call, Any], float], batches: Sequence[int],
    threads: int, options: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        model().to_onnx(path, **options)
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    found = {}
    for batch in batches:
        rows = test.iloc[:batch]
        found[str(batch)] = us(partial(_run, session, feeds(model(), rows)), rows)
    return {"us": found, "onnxruntime": onnxruntime.__version__}


def _run(session: Any, given: dict[str, Any], rows: Any) -> Any:
    """All outputs for inputs that are there already; `rows` is what they were made of."""
    return session.run(None, given)


def _predictor(model: Any, test: pd.DataFrame, us: Callable[[Call, Any], float]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.hnet"))
        predictor = load_predictor(Path(folder, "model.hnet"))
    return {"us": {"1": us(lambda rows: predictor.explain(rows[0]), test[:1].to_dict("records"))}}


def _cold(model: Any, test: pd.DataFrame) -> dict[str, Any]:
    """The median of five processes."""
    row = test.iloc[0].dropna()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.hnet")
        model.save(path)
        command = [sys.executable, "-c", _COLD, str(path), row.to_json()]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    return {"seconds": float(np.median([float(run) for run in runs]))}


def _sizes(model: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.hnet"))
        model.to_onnx(Path(folder, "model.onnx"))
        model.to_onnx(Path(folder, "pairs.onnx"), interactions=True)
        names = {"model.hnet": "model", "model.onnx": "ONNX", "pairs.onnx": "ONNX with all pairs"}
        return {"megabytes": {form: Path(folder, name).stat().st_size / 1e6 for name, form in names.items()}}


def _parquet(model: Any, rows: pd.DataFrame) -> dict[str, Any]:
    """Seconds of the whole command, from start to end, the best of two."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.hnet"))
        rows.to_parquet(Path(folder, "rows.parquet"), index=False)
        places = [str(Path(folder, name)) for name in ("model.hnet", "rows.parquet", "values.parquet")]
        command = [sys.executable, "-c", _COMMAND, "explain", *places[:2], "-o", places[2], "--threads", "2"]
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            seconds.append(time.perf_counter() - start)
    return {"seconds": min(seconds), "rows": len(rows)}


def _once(make: Callable[[], Call], test: pd.DataFrame, rows: Callable[[], pd.DataFrame]) -> dict[str, Any]:
    """Microseconds per row of one call, after a small one to warm up."""
    call, million = make(), rows()
    call(test.iloc[:64])
    start = time.perf_counter()
    call(million)
    return {"us": {str(MILLION): 1e6 * (time.perf_counter() - start) / len(million)}}
