"""Columns fitted to a few values, and what they make of others."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from harsanyinet.tables.bins import Binning, fit_columns
from harsanyinet.tables.columns import (
    Column,
)

FINE = Binning()


def fit(values: object, binning: Binning = FINE, dtype: object = None, y: object = None, seed: int = 0) -> Column:
    return fit_both(values, binning, dtype, y, seed)[0]


def fit_both(
    values: object, binning: Binning = FINE, dtype: object = None, y: object = None, seed: int = 0, **options: object
) -> tuple[Column, np.ndarray]:
    """A column and the training rows' own bins."""
    values = values if isinstance(values, pd.Series) else pd.Series(values, dtype=dtype)
    y = np.arange(len(values), dtype=float) if y is None else np.asarray(y, dtype=float)
    options = {"categories": [], "dates": None, **options}
    columns, own = fit_columns(
        pd.DataFrame({"c": values}), y.reshape(len(values), -1), np.ones(len(values)), binning, seed=seed, **options
    )
    return columns[0], own


def code(column: Column, values: object, dtype: object = None) -> np.ndarray:
    values = values if isinstance(values, pd.Series) else pd.Series(values, dtype=dtype)
    out = np.full((column.n_codes, len(values)), 99, dtype=np.uint8)
    column.code(values, out)
    return out


def by_hand(column: Column, value: float) -> int:
    """One comparison at a time."""
    if math.isnan(value):
        return 1 if column.missing else 0
    return (2 if column.missing else 1) + sum(border < value for border in column.borders.tolist())


SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "whole": lambda rng, n: rng.integers(-3, 40, n).astype(float),
    "spiky": lambda rng, n: np.where(rng.random(n) < 0.8, 0.0, rng.exponential(size=n)),
    "two": lambda rng, n: rng.choice([-1.5, 2.0], n),
    "far": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-40, 39, n),
    "close": lambda rng, n: 1.0 + rng.integers(0, 300, n) * 2.0**-23,
}
