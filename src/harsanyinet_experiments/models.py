"""The models of `harsanyinet bench accuracy`: one function each, with its library's defaults but for what is named.

Each takes features, numbers or integer labels, the task and the number of threads, and returns how it predicts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import harsanyinet as ours

SEED = 0
OURS = ("harsanyinet",)
Predict = Callable[[pd.DataFrame], NDArray[Any]]  # rows -> probabilities of the classes, or values


@dataclass(frozen=True)
class Fitted:
    """A fitted model: its probabilities if it is a classifier, its values if it is a regressor."""

    model: Any
    coded: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame

    def __call__(self, frame: pd.DataFrame) -> NDArray[Any]:
        """(B, K) or (B,)."""
        call = self.model.predict_proba if hasattr(self.model, "predict_proba") else self.model.predict
        return np.asarray(call(self.coded(frame)))


def _strings(x: pd.DataFrame) -> list[str]:
    return [name for name in x.columns if not pd.api.types.is_numeric_dtype(x[name])]


def as_categories(x: pd.DataFrame) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Strings -> pandas categories, those of ``x``; any other is missing."""
    levels = {name: sorted(x[name].dropna().unique()) for name in _strings(x)}
    return lambda frame: frame.assign(
        **{c: pd.Categorical(frame[c].where(frame[c].isin(values)), values) for c, values in levels.items()}
    )


def size_of_model(model: Any, frame: pd.DataFrame) -> dict[str, Any]:
    """Of which orders our model's outputs are made for these rows, and how many trees and sets of columns there are."""
    ex = model.explain(frame)
    spectrum = [round(float(share), 4) for share in np.trim_zeros(ex.order_spectrum(), "b")]
    return {"order_spectrum": spectrum, "trees": len(model.trees_), "coalitions": len(ex.coalitions)}


def harsanyinet(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int, **options: Any) -> Fitted:
    """Ours, with its defaults."""
    kind: Any = ours.HarsanyiClassifier if task == "classification" else ours.HarsanyiRegressor
    return Fitted(kind(**{"random_state": SEED, "n_jobs": threads, "progress": False} | options).fit(x, y))


def lightgbm(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int, trees: int = 200) -> Fitted:  # noqa: D103
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind, coded = LGBMClassifier if task == "classification" else LGBMRegressor, as_categories(x)
    return Fitted(kind(n_estimators=trees, random_state=SEED, n_jobs=threads, verbosity=-1).fit(coded(x), y), coded)


def hist_gradient_boosting(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Fitted:  # noqa: D103
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if task == "classification" else HistGradientBoostingRegressor
    coded = as_categories(x)
    return Fitted(kind(categorical_features="from_dtype", random_state=SEED).fit(coded(x), y), coded)


def xgboost(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Fitted:  # noqa: D103
    from xgboost import XGBClassifier, XGBRegressor

    kind, coded = XGBClassifier if task == "classification" else XGBRegressor, as_categories(x)
    return Fitted(kind(enable_categorical=True, random_state=SEED, n_jobs=threads).fit(coded(x), y), coded)


def mlp(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Fitted:
    """A plain network of scikit-learn: one-hot, imputed, standardised, stopped early."""
    from sklearn.compose import TransformedTargetRegressor, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    coding = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), _strings(x)), remainder=SimpleImputer()
    )
    kind = MLPClassifier if task == "classification" else MLPRegressor
    model = make_pipeline(coding, StandardScaler(), kind(early_stopping=True, random_state=SEED))
    if task == "regression":
        model = TransformedTargetRegressor(model, transformer=StandardScaler())
    return Fitted(model.fit(x, y))


def catboost(  # noqa: D103
    x: pd.DataFrame, y: NDArray[Any], task: str, threads: int, trees: int | None = None
) -> Fitted:
    from catboost import CatBoostClassifier, CatBoostRegressor

    strings = _strings(x)

    def coded(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{c: frame[c].astype(object).fillna("missing") for c in strings})

    kind = CatBoostClassifier if task == "classification" else CatBoostRegressor
    model = kind(
        iterations=trees, random_seed=SEED, thread_count=threads, verbose=False, allow_writing_files=False,
        cat_features=strings,
    )  # fmt: skip
    return Fitted(model.fit(coded(x), y), coded)


def ebm(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int, **options: Any) -> Fitted:
    """The explainable boosting machine of interpret."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingClassifier if task == "classification" else ExplainableBoostingRegressor
    coded = as_categories(x)
    return Fitted(kind(random_state=SEED, n_jobs=threads, **options).fit(coded(x), y), coded)


def ebm_one_bag(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Fitted:
    """The same with one bag in place of fourteen, for tables on which those take too long."""
    return ebm(x, y, task, threads, outer_bags=1)


def realmlp(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Fitted:
    """RealMLP-TD-S of pytabkit, a network with tuned defaults."""
    from pytabkit import RealMLP_TD_S_Classifier, RealMLP_TD_S_Regressor

    kind, coded = RealMLP_TD_S_Classifier if task == "classification" else RealMLP_TD_S_Regressor, as_categories(x)
    model = kind(device="cpu", random_state=SEED, n_threads=threads, verbosity=0)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)  # its trainer speaks at every fit and prediction
    return Fitted(model.fit(coded(x), y), coded)


MODELS: dict[str, tuple[Callable[..., Predict], str, str]] = {  # fit, module to import first, distribution
    "harsanyinet": (harsanyinet, "harsanyinet.tables.fitting", "harsanyinet"),
    "lightgbm": (lightgbm, "lightgbm", "lightgbm"),
    "hist_gradient_boosting": (hist_gradient_boosting, "sklearn.ensemble", "scikit-learn"),
    "xgboost": (xgboost, "xgboost", "xgboost"),
    "mlp": (mlp, "sklearn.neural_network", "scikit-learn"),
    "catboost": (catboost, "catboost", "catboost"),
    "ebm": (ebm, "interpret.glassbox", "interpret-core"),
    "ebm_one_bag": (ebm_one_bag, "interpret.glassbox", "interpret-core"),
    "realmlp": (realmlp, "pytabkit", "pytabkit"),
}
