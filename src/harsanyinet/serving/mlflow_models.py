"""Models of tables for MLflow: `save_mlflow` and `log_mlflow` write what `mlflow.pyfunc.load_model` reads.

What is stored is the model's own file and the name of the module that loads it: no pickle.
"""

from __future__ import annotations

import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

from harsanyinet import __version__, loading
from harsanyinet.extras import need_package
from harsanyinet.serving import mlflow_loader
from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor

TableModel = HarsanyiClassifier | HarsanyiRegressor
_FILE = "model.hnet"


def save_mlflow(model: TableModel, path: str | PathLike[str], **options: Any) -> None:
    """Writes a folder that `mlflow.pyfunc.load_model` reads.

    Args:
        model: Fitted.
        path: The folder, which must not exist.
        options: Of `mlflow.pyfunc.save_model`, such as `metadata`, `input_example` or `pip_requirements`.
    """
    with tempfile.TemporaryDirectory() as folder:
        pyfunc = need_package("mlflow.pyfunc", "mlflow")
        pyfunc.save_model(str(path), **_given(model, folder), **(_usual(model) | options))


def log_mlflow(model: TableModel, name: str = "model", **options: Any) -> Any:
    """Logs a model to the active run; returns what `mlflow.pyfunc.log_model` does.

    Args:
        model: Fitted.
        name: Of the model in the run.
        options: Of `mlflow.pyfunc.log_model`, such as `registered_model_name`.
    """
    with tempfile.TemporaryDirectory() as folder:
        pyfunc = need_package("mlflow.pyfunc", "mlflow")
        return pyfunc.log_model(name=name, **_given(model, folder), **(_usual(model) | options))


def _given(model: TableModel, folder: str) -> dict[str, Any]:
    if not isinstance(model, HarsanyiClassifier | HarsanyiRegressor):
        raise TypeError(f"models of tables are saved for MLflow, however: {type(model).__name__}")
    place = Path(folder, _FILE)
    loading.save(model, place)
    return {"loader_module": mlflow_loader.__name__, "data_path": str(place)}


def _usual(model: TableModel) -> dict[str, Any]:
    columns = {column.name: column.kind for column in model.columns_}
    return {
        "signature": signature(),
        "pip_requirements": [f"harsanyinet=={__version__}"],
        "metadata": {"model": type(model).__name__, "columns": columns, "outputs": model.output_names_},
    }


def signature() -> Any:
    """What `params` may ask for. The columns are not part of it: MLflow would refuse whole numbers in a column of
    doubles, and the model has the better words for what it cannot take.
    """
    models: Any = need_package("mlflow.models", "mlflow")
    schema: Any = need_package("mlflow.types.schema", "mlflow")
    output = schema.ParamSpec("output", "string", mlflow_loader.OUTPUTS[0])
    return models.ModelSignature(params=schema.ParamSchema([output, schema.ParamSpec("game", "string", "missing")]))
