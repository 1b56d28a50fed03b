"""Shapley values of an ONNX model by brute force, where neither torch nor harsanyinet can be imported. A script.

    python onnx_only.py model.onnx rows.npz

`rows.npz` holds the inputs of some rows and, after "background:", those of the rows that replace absent players; with
none of these, players are absent by the input `present`. Writes the largest error of the file's values, relative to the
largest |output|, and the largest difference to what the estimator said (`expected:`).
"""

from __future__ import annotations

import itertools
import json
import math
import sys

import numpy as np

FORBIDDEN = ("torch", "harsanyinet", "sklearn", "pandas", "scipy", "numba")


class Blocker:
    """Refuses to import what a server has not got."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FORBIDDEN:
            raise ModuleNotFoundError(f"{name} is not there")


def masks_of(n):
    return np.array(list(itertools.product([False, True], repeat=n)))


def shapley(outputs, masks):
    """(P, ...) by the formula, from the outputs of all masks."""
    n = masks.shape[1]
    number = {tuple(mask): i for i, mask in enumerate(masks.tolist())}
    values = np.zeros((n, *outputs.shape[1:]))
    for player in range(n):
        for mask in masks.tolist():
            if not mask[player]:
                more = [m or i == player for i, m in enumerate(mask)]
                size = sum(mask)
                weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
                values[player] += weight * (outputs[number[tuple(more)]] - outputs[number[tuple(mask)]])
    return values


def main(path, rows):
    sys.meta_path.insert(0, Blocker())
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {key: value.astype(object) if value.dtype.kind == "U" else value for key, value in np.load(rows).items()}
    background = {k.removeprefix("background:"): v for k, v in given.items() if k.startswith("background:")}
    expected = {k.removeprefix("expected:"): v for k, v in given.items() if k.startswith("expected:")}
    player_of = given.pop("player_of", None)
    inputs = {key: value for key, value in given.items() if ":" not in key or key in names(session)}
    inputs = {key: value for key, value in inputs.items() if key in names(session)}
    said = run(session, inputs)
    n_rows, n = said["shapley"].shape[:2]
    masks, worst = masks_of(n), 0.0
    for row in range(n_rows):
        if background:
            outputs = np.stack([replaced(session, inputs, background, player_of, row, mask) for mask in masks])
        else:
            one = {key: np.repeat(value[row : row + 1], len(masks), axis=0) for key, value in inputs.items()}
            outputs = run(session, one | {"present": masks})["raw"]
        size = max(np.abs(outputs).max(), 1e-300)
        worst = max(worst, np.abs(shapley(outputs, masks) - said["shapley"][row]).max() / size)
        worst = max(worst, np.abs(outputs[0] - said["base_values"]).max() / size)
        worst = max(worst, np.abs(outputs[-1] - said["raw"][row]).max() / size)
    apart = 0.0
    for key, value in expected.items():
        if value.dtype == object or value.dtype.kind in "biu":
            assert (said[key] == value).all(), key
        else:
            apart = max(apart, np.abs(said[key] - value).max(initial=0) / np.abs(value).max(initial=1e-300))
    sys.stdout.write(json.dumps({"brute_force": float(worst), "estimator": float(apart), "modules": loaded()}))


def names(session):
    return {one.name for one in (*session.get_inputs(), *session.get_overridable_initializers())}


def run(session, inputs):
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True))


def replaced(session, inputs, background, player_of, row, mask):
    """The mean raw output with the players outside a coalition as in the background rows."""
    mixed = {}
    for (key, value), player in zip(inputs.items(), player_of, strict=True):
        others = background[key]
        mixed[key] = np.repeat(value[row : row + 1], len(others), axis=0) if mask[player] else others
    return run(session, mixed)["raw"].mean(axis=0)


def loaded():
    return sorted(set(FORBIDDEN) & {name.partition(".")[0] for name in sys.modules})


if __name__ == "__main__":
    main(*sys.argv[1:])
