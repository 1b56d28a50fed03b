"""Small tables, and estimators that are quick to fit."""

from __future__ import annotations

import numpy as np
import pandas as pd

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor

QUICK = {"max_iter": 30, "learning_rate": 0.1, "n_jobs": 1, "random_state": 0, "progress": False}


def classifier(**options: object) -> HarsanyiClassifier:
    return HarsanyiClassifier(**{**QUICK, **options})


def regressor(**options: object) -> HarsanyiRegressor:
    return HarsanyiRegressor(**{**QUICK, **options})


def numbers(n_rows: int = 300, n: int = 4, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n_rows, n)), columns=list("abcdefgh")[:n])


def mixed(n_rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = numbers(n_rows, 2)
    frame["colour"] = rng.choice(["red", "green", "blue"], n_rows)
    frame.loc[::9, "colour"] = None
    frame.loc[::7, "a"] = np.nan
    return frame


def in_pairs(frame: pd.DataFrame) -> np.ndarray:
    x = np.nan_to_num(frame[["a", "b"]].to_numpy(dtype=float))
    return 2 * x[:, 0] * x[:, 1] + x[:, 1]
