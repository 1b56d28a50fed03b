"""A table with every kind of column, and the command line."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from harsanyinet.cli import main


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def shop(n: int = 200) -> pd.DataFrame:
    """Every kind of column, some cells empty."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "size": rng.normal(size=n).round(3), "colour": rng.choice(["red", "green", "blue"], n),
        "zip": rng.choice(["01", "02", "10"], n), "new": rng.random(n) < 0.5, "count": rng.integers(0, 50, n),
    })  # fmt: skip
    frame["bought"] = np.where(frame["size"] + (frame["colour"] == "red") > 0.3, "yes", "no")
    frame["kind"] = rng.integers(0, 3, n)
    frame["price"] = 100.0 * frame["size"] + frame["count"] + 0.5
    frame[["size", "colour", "new"]] = frame[["size", "colour", "new"]].mask(rng.random((n, 3)) < 0.05)
    return frame


FEATURES = ["size", "colour", "zip", "new", "count"]

SMALL = ("--max-iter", 20, "--threads", 1)


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text))
