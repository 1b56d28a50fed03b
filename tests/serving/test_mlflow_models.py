"""MLflow loads what was saved, predicts, and gives values; without a pickle."""

from __future__ import annotations

import mlflow
import numpy as np
import pandas as pd
import pytest

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.serving.mlflow_models import log_mlflow, save_mlflow

QUICK = {"max_iter": 20, "learning_rate": 0.1, "random_state": 0, "n_jobs": 1, "progress": False}


def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"size": rng.integers(0, 50, 90), "colour": rng.choice(["red", "blue"], 90), "b": rng.normal(size=90)}
    )
    frame.loc[::9, "colour"] = None
    frame.index = [f"row {i}" for i in range(90)]
    return frame


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    x = table()
    model = HarsanyiClassifier(**QUICK).fit(x, np.where(x["size"] + 9 * (x["colour"] == "red") > 25, "yes", "no"))
    path = tmp_path_factory.mktemp("mlflow") / "model"
    save_mlflow(model, path)
    return model, path, mlflow.pyfunc.load_model(str(path))


def test_predictions_and_values(binary):
    model, _, served = binary
    x = table()
    assert served.predict(x).tolist() == model.predict(x).tolist()
    values = served.predict(x, params={"output": "shapley"})
    assert list(values.columns) == ["size", "colour", "b", "base value"]
    assert list(values.index) == list(x.index)
    assert (values.to_numpy()[:, :3] == model.explain(x).values).all()
    assert np.abs(values.sum(axis=1) - served.predict(x, params={"output": "raw"})).max() < 1e-12
    marginal = served.predict(x, params={"output": "shapley", "game": "marginal"})
    assert (marginal.to_numpy()[:, :3] == model.explain(x, game="marginal").values).all()
    shares = served.predict(x, params={"output": "probabilities"})
    assert list(shares.columns) == ["no", "yes"]
    assert (shares.to_numpy() == model.predict_proba(x)).all()


def test_nothing_is_pickled(binary):
    _, path, _ = binary
    names = {one.name for one in path.rglob("*") if one.is_file()}
    assert "model.hnet" in names
    assert not any(name.endswith((".pkl", ".pickle", ".joblib")) for name in names)
    assert "loader_module: harsanyinet.serving.mlflow_models" in (path / "MLmodel").read_text()


def test_several_outputs_arrays_and_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/runs.db")
    x = np.random.default_rng(0).normal(size=(80, 2))
    model = HarsanyiRegressor(**QUICK).fit(x, np.column_stack([x[:, 0], x[:, 1] ** 2]))
    save_mlflow(model, tmp_path / "model", metadata={"team": "risk"})
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert served.metadata.metadata["team"] == "risk"
    assert (served.predict(x).to_numpy() == model.predict(x)).all()
    values = served.predict(pd.DataFrame(x), params={"output": "shapley"})
    assert values.shape == (80, 6)
    assert list(values.columns[:3]) == [f"{model.output_names_[0]}: {name}" for name in ("x0", "x1", "base value")]


def test_it_is_logged_to_a_run(tmp_path, monkeypatch, binary):
    model, _, _ = binary
    logged = {}
    monkeypatch.setattr(mlflow.pyfunc, "log_model", lambda **given: logged.update(given))  # no server in tests
    log_mlflow(model, "credit", registered_model_name="credit")
    assert logged["name"] == logged["registered_model_name"] == "credit"
    assert logged["loader_module"] == "harsanyinet.serving.mlflow_models"


def test_sentences(binary, tmp_path):
    _, _, served = binary
    with pytest.raises(
        ValueError, match=r"output must be one of prediction, probabilities, raw, shapley, however: 'shap'"
    ):
        served.predict(table(), params={"output": "shap"})
    with pytest.raises(ValueError, match="must have the columns"):
        served.predict(table()[["size"]])
    with pytest.raises(TypeError, match="models of tables are saved for MLflow, however: str"):
        save_mlflow("model", tmp_path / "model")
    number = HarsanyiRegressor(**QUICK).fit(table()[["size", "b"]], table()["b"])
    save_mlflow(number, tmp_path / "number")
    with pytest.raises(ValueError, match="probabilities are of classes"):
        mlflow.pyfunc.load_model(str(tmp_path / "number")).predict(
            table()[["size", "b"]], params={"output": "probabilities"}
        )
