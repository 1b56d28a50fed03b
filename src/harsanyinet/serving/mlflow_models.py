"""Models of tables for MLflow: `save_mlflow` and `log_mlflow` write what `mlflow.pyfunc.load_model` reads.

What is stored is the model's own file and the name of this module, which loads it and needs no mlflow for that: no
pickle.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harsanyinet import __version__, loading
from harsanyinet.extras import need_package
from harsanyinet.files import Place
from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor

TableModel = HarsanyiClassifier | HarsanyiRegressor
OUTPUTS = ("prediction", "probabilities", "raw", "shapley")
"""What `params={"output": ...}` may ask for."""


def save_mlflow(model: TableModel, path: Place, **options: Any) -> None:
    """Writes a folder that `mlflow.pyfunc.load_model` reads.

    Args:
        model: Fitted.
        path: The folder, which must not exist.
        options: Of `mlflow.pyfunc.save_model`, such as `metadata`, `input_example` or `pip_requirements`.
    """
    with _described(model, options) as given:
        need_package("mlflow.pyfunc", "mlflow").save_model(str(path), **given)


def log_mlflow(model: TableModel, name: str = "model", **options: Any) -> Any:
    """Logs a model to the active run; returns what `mlflow.pyfunc.log_model` does.

    Args:
        model: Fitted.
        name: Of the model in the run.
        options: Of `mlflow.pyfunc.log_model`, such as `registered_model_name`.
    """
    with _described(model, options) as given:
        return need_package("mlflow.pyfunc", "mlflow").log_model(name=name, **given)


@contextmanager
def _described(model: TableModel, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What MLflow is told of a model, whose file lies in a temporary folder."""
    if not isinstance(model, TableModel):
        raise TypeError(f"models of tables are saved for MLflow, however: {type(model).__name__}")
    models, schema = need_package("mlflow.models", "mlflow"), need_package("mlflow.types.schema", "mlflow")
    # The columns are no part of the signature: MLflow would refuse whole numbers in a column of doubles, and the model
    # has the better words for what it cannot take.
    asked = [schema.ParamSpec("output", "string", OUTPUTS[0]), schema.ParamSpec("game", "string", "missing")]
    columns = {column.name: column.kind for column in model.columns_}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "model.hnet")
        loading.save(model, place)
        usual = {
            "signature": models.ModelSignature(params=schema.ParamSchema(asked)),
            "pip_requirements": [f"harsanyinet=={__version__}"],
            "metadata": {"model": type(model).__name__, "columns": columns, "outputs": model.output_names_},
        }
        yield usual | options | {"loader_module": __name__, "data_path": str(place)}


class ServedModel:
    """A fitted estimator as MLflow asks it."""

    def __init__(self, model: TableModel) -> None:
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
        rows, index = model_input, None
        if isinstance(model_input, pd.DataFrame):
            index = model_input.index
            rows = model_input if hasattr(self.model, "feature_names_in_") else model_input.to_numpy()
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

    def _values(self, rows: Any, game: str, index: Any) -> pd.DataFrame:
        ex = self.model.explain(rows, game=game)  # type: ignore[arg-type]
        names, outputs, n_rows = ex.feature_names, ex.output_names, len(ex.values)
        base_value = "base value"
        while base_value in names:
            base_value += "_"
        base = np.broadcast_to(ex.base_values.reshape(-1), (n_rows, 1, len(outputs)))
        table = np.concatenate([ex.values.reshape(n_rows, len(names), len(outputs)), base], axis=1)  # (B, P + 1, K)
        columns = [
            f"{output}: {name}" if len(outputs) > 1 else name for output in outputs for name in (*names, base_value)
        ]
        return pd.DataFrame(table.swapaxes(1, 2).reshape(n_rows, len(columns)), index, columns)


def _load_pyfunc(data_path: str) -> ServedModel:
    """Called by `mlflow.pyfunc.load_model` with the path of the model file."""
    return ServedModel(loading.load(data_path))
