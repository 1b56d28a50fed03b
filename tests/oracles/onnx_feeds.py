"""Rows as the inputs of an ONNX file, and its answers by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from harsanyinet.tables.dates import PARTS, as_times, parts_of
from harsanyinet.tables.frames import as_numbers, as_texts


def feed(model, x):
    """Inputs of a table's file from a frame, whose columns have no reserved names."""
    frame = x if isinstance(x, pd.DataFrame) else pd.DataFrame(x, columns=[c.name for c in model.columns_])
    inputs = {}
    for column in model.columns_:
        values = frame[column.name]
        if column.kind == "category":
            texts = as_texts(values, column.name)
            inputs[column.name] = np.array(["" if text is None else text for text in texts], dtype=object)
        elif column.kind == "date":
            numbers = parts_of(as_times(values, column.name, column.form))
            for part in column.parts:
                inputs[f"{column.name}: {part.name}"] = numbers[PARTS.index(part.name)]
        else:
            inputs[column.name] = as_numbers(values, column.name)
    return inputs


def session_of(path):
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)  # it warns of `present`, a constant that may be replaced
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def answers(session, inputs):
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True))


def elsewhere(path, folder, inputs, *, expected=(), background=None, player_of=None):
    """What `onnx_only.py` finds in a process of its own."""
    texts = {k: v.astype(str) if v.dtype == object else v for k, v in inputs.items()}
    others = {f"background:{k}": v.astype(str) if v.dtype == object else v for k, v in (background or {}).items()}
    wanted = {f"expected:{k}": v.astype(str) if v.dtype == object else v for k, v in dict(expected).items()}
    players = {} if player_of is None else {"player_of": np.asarray(player_of)}
    np.savez(folder / "rows.npz", **texts, **others, **wanted, **players)
    script = Path(__file__).with_name("onnx_only.py")
    command = [sys.executable, "-P", str(script), str(path), str(folder / "rows.npz")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
