"""The models of `harsanyinet bench accuracy`: one function each, with its library's defaults but for what is named.

Each takes features, numbers or integer labels, the task and the number of threads, and returns how it predicts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SEED = 0
OURS = ("harsanyinet", "harsanyinet_fast")
Predict = Callable[[pd.DataFrame], NDArray[Any]]  # rows -> probabilities of the classes, or values


def _predict(model: Any, coded: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame) -> Predict:
    """Probabilities of a fitted classifier, values of a fitted regressor."""
    call = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    return lambda frame: call(coded(frame))


def _strings(x: pd.DataFrame) -> list[str]:
    return [name for name in x.columns if not pd.api.types.is_numeric_dtype(x[name])]


def as_categories(x: pd.DataFrame) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Strings -> pandas categories, those of ``x``; any other is missing."""
    levels = {name: sorted(x[name].dropna().unique()) for name in _strings(x)}
    return lambda frame: frame.assign(
        **{c: pd.Categorical(frame[c].where(frame[c].isin(values)), values) for c, values in levels.items()}
    )


@dataclass(frozen=True)
class Ours:
    """A fitted model of ours: predicts, and tells its structure."""

    model: Any

    def __call__(self, frame: pd.DataFrame) -> NDArray[Any]:
        """Probabilities or values."""
        return _predict(self.model)(frame)

    def structure(self, frame: pd.DataFrame) -> dict[str, Any]:
        """Of which orders the outputs are made for these rows, and how many units there are of each kind."""
        spectrum, config = self.model.explain(frame).order_spectrum(), self.model.network_.config
        return {
            "order_spectrum": [round(float(share), 4) for share in np.trim_zeros(spectrum, "b")],
            "units": {"sets": len(config["sets"]), "wide": len(config["wide"]), "tables": config["n_tables"]},
        }


def harsanyinet(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int, **options: Any) -> Ours:
    """Ours, with its defaults."""
    estimators: Any = import_module("harsanyinet.estimators")
    kind = estimators.HarsanyiClassifier if task == "classification" else estimators.HarsanyiRegressor
    return Ours(kind(random_state=SEED, n_jobs=threads, progress=False, **options).fit(x, y))


def harsanyinet_fast(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Ours:
    """Ours, a single network."""
    return harsanyinet(x, y, task, threads, members=1)


def lightgbm(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Predict:  # noqa: D103
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind, coded = LGBMClassifier if task == "classification" else LGBMRegressor, as_categories(x)
    return _predict(kind(n_estimators=200, random_state=SEED, n_jobs=threads, verbosity=-1).fit(coded(x), y), coded)


def hist_gradient_boosting(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Predict:  # noqa: D103
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if task == "classification" else HistGradientBoostingRegressor
    coded = as_categories(x)
    return _predict(kind(categorical_features="from_dtype", random_state=SEED).fit(coded(x), y), coded)


def xgboost(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Predict:  # noqa: D103
    from xgboost import XGBClassifier, XGBRegressor

    kind, coded = XGBClassifier if task == "classification" else XGBRegressor, as_categories(x)
    return _predict(kind(enable_categorical=True, random_state=SEED, n_jobs=threads).fit(coded(x), y), coded)


def mlp(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Predict:
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
    return _predict(model.fit(x, y))


def catboost(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Predict:  # noqa: D103
    from catboost import CatBoostClassifier, CatBoostRegressor

    strings = _strings(x)

    def coded(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{c: frame[c].astype(object).fillna("missing") for c in strings})

    kind = CatBoostClassifier if task == "classification" else CatBoostRegressor
    model = kind(random_seed=SEED, thread_count=threads, verbose=False, allow_writing_files=False, cat_features=strings)
    return _predict(model.fit(coded(x), y), coded)


def ebm(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Predict:
    """The explainable boosting machine of interpret."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingClassifier if task == "classification" else ExplainableBoostingRegressor
    coded = as_categories(x)
    return _predict(kind(random_state=SEED, n_jobs=threads).fit(coded(x), y), coded)


def realmlp(x: pd.DataFrame, y: NDArray[Any], task: str, threads: int) -> Predict:
    """RealMLP-TD-S of pytabkit, a network with tuned defaults."""
    from pytabkit import RealMLP_TD_S_Classifier, RealMLP_TD_S_Regressor

    kind, coded = RealMLP_TD_S_Classifier if task == "classification" else RealMLP_TD_S_Regressor, as_categories(x)
    model = kind(device="cpu", random_state=SEED, n_threads=threads, verbosity=0)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)  # its trainer speaks at every fit and prediction
    return _predict(model.fit(coded(x), y), coded)


MODELS: dict[str, tuple[Callable[..., Predict], str, str]] = {  # fit, module to import first, distribution
    "harsanyinet": (harsanyinet, "harsanyinet.estimators", "harsanyinet"),
    "harsanyinet_fast": (harsanyinet_fast, "harsanyinet.estimators", "harsanyinet"),
    "lightgbm": (lightgbm, "lightgbm", "lightgbm"),
    "hist_gradient_boosting": (hist_gradient_boosting, "sklearn.ensemble", "scikit-learn"),
    "xgboost": (xgboost, "xgboost", "xgboost"),
    "mlp": (mlp, "sklearn.neural_network", "scikit-learn"),
    "catboost": (catboost, "catboost", "catboost"),
    "ebm": (ebm, "interpret.glassbox", "interpret-core"),
    "realmlp": (realmlp, "pytabkit", "pytabkit"),
}
