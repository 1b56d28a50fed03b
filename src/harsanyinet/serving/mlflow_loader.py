"""What MLflow calls to load a model: the file of the model in, predictions and values out. No pickle, no mlflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from harsanyinet import loading
from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor

OUTPUTS = ("prediction", "probabilities", "raw", "shapley")
"""What `params={"output": ...}` may ask for."""


class ServedModel:
    """A table's model as MLflow asks it.

    Args:
        model: A fitted estimator.
    """

    def __init__(self, model: HarsanyiClassifier | HarsanyiRegressor) -> None:
        self.model = model

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame | pd.Series[Any]:
        """Predictions, or what `params` asks for.

        Args:
            model_input: Rows, as the estimator takes them.
            params: `output`: "prediction" (default); "probabilities", a column for each class; "raw", the output that
                values are exact for; or "shapley", a column for each player (named `output: player` with several
                outputs), and `base value`. `game`: of the values, "missing" (default) or "marginal".
        """
        asked = dict(params or {})
        wanted, game = asked.get("output") or OUTPUTS[0], asked.get("game") or "missing"
        if wanted not in OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(OUTPUTS)}, however: {wanted!r}")
        rows = self._rows(model_input)
        index = model_input.index if isinstance(model_input, pd.DataFrame) else None
        if wanted == "shapley":
            return self._values(rows, game, index)
        if wanted == "probabilities":
            if not isinstance(self.model, HarsanyiClassifier):
                raise ValueError("probabilities are of classes, however: this model predicts numbers")
            return pd.DataFrame(self.model.predict_proba(rows), index, [str(label) for label in self.model.classes_])
        found = self.model.predict(rows) if wanted == "prediction" else self.model.raw_outputs(rows)
        if found.ndim == 1:
            return pd.Series(found, index, name=wanted)
        return pd.DataFrame(found, index, self.model.output_names_)

    def _rows(self, given: Any) -> Any:
        """As the model saw them in fit: with names, or without."""
        if hasattr(self.model, "feature_names_in_") or not isinstance(given, pd.DataFrame):
            return given
        return given.to_numpy()

    def _values(self, rows: Any, game: str, index: Any) -> pd.DataFrame:
        ex = self.model.explain(rows, game=game)  # type: ignore[arg-type]
        names, outputs = list(ex.feature_names), list(ex.output_names)
        values = ex.values.reshape(len(ex.values), len(names), -1)
        base = np.atleast_1d(ex.base_values)
        parts: dict[str, Any] = {}
        for k, output in enumerate(outputs):
            before = f"{output}: " if len(outputs) > 1 else ""
            parts |= {before + name: values[:, i, k] for i, name in enumerate(names)}
            last = "base value"
            while before + last in parts:
                last += "_"
            parts[before + last] = np.full(len(values), base[k])
        return pd.DataFrame(parts, index)


def _load_pyfunc(data_path: str) -> ServedModel:
    """Called by `mlflow.pyfunc.load_model` with the path of the model file."""
    return ServedModel(loading.load(data_path))
