"""Model files: what is saved comes back to the bit, and anything else is turned away in one sentence."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeRegressor

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, files, load, save

QUICK = {"members": 2, "max_iter": 15, "learning_rate": 0.2, "n_jobs": 1, "random_state": 0, "progress": False}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=200), "colour": rng.choice(["red", "blü", "rare"], 200)})
    frame["open"] = rng.random(200) < 0.5
    frame.loc[::6, "size"] = np.nan
    frame.loc[::8, "colour"] = None
    return frame


def target() -> np.ndarray:
    frame = table()
    return (frame["size"].fillna(0) * (frame["colour"] == "red") + frame["open"]).to_numpy(dtype=float)


def labelled(labels: list) -> HarsanyiClassifier:
    codes = (target().argsort().argsort() * len(labels)) // 200
    return HarsanyiClassifier(**QUICK).fit(table(), np.array(labels)[codes])


MODELS = {
    "text": lambda: labelled(["no", "yes"]),
    "bool": lambda: labelled([False, True]),
    "int": lambda: labelled([1, 2, 7]),
    "int8": lambda: labelled(list(np.array([1, 2], dtype=np.int8))),
    "float": lambda: labelled([0.0, 1.0]),
    "objects": lambda: HarsanyiClassifier(**QUICK).fit(table(), pd.Series(["u", "v"] * 100, dtype=object)),
    "regression": lambda: HarsanyiRegressor(**QUICK).fit(table(), pd.Series(target(), name="price")),
    "quantile": lambda: HarsanyiRegressor(loss="quantile", quantile=0.2, **QUICK).fit(table(), target()),
    "poisson": lambda: HarsanyiRegressor(loss="poisson", **QUICK).fit(table(), target().clip(0).round()),
    "two targets": lambda: HarsanyiRegressor(**QUICK).fit(table(), np.column_stack([target(), -target()])),
    "one column": lambda: HarsanyiRegressor(**QUICK).fit(table(), target()[:, None]),
    "constraints": lambda: HarsanyiRegressor(
        monotonic_cst={"size": -1}, forbidden=[("size", 1)], interaction_cst=[["colour", "open"]],
        max_order=np.int64(2), categorical_features=("open",), **QUICK,
    ).fit(table(), target()),
    "class weight": lambda: HarsanyiClassifier(class_weight={np.int64(0): 1.0, np.int64(1): 2.0}, **QUICK).fit(
        table(), np.arange(200) % 2
    ),
    "array": lambda: HarsanyiRegressor(**QUICK).fit(np.random.default_rng(0).normal(size=(200, 3)), target()),
    "looked for": lambda: HarsanyiRegressor(**{**QUICK, "learning_rate": None}).fit(table(), target()),
    "watched": lambda: HarsanyiClassifier(early_stopping=True, **QUICK).fit(table(), target() > 0.5),
    "random state": lambda: HarsanyiRegressor(**{**QUICK, "random_state": np.random.RandomState(0)}).fit(
        table(), target()
    ),
}  # fmt: skip


def rows_for(model) -> object:
    return table() if hasattr(model, "feature_names_in_") else np.random.default_rng(1).normal(size=(20, 3))


def same_bits(a, b) -> None:
    x = rows_for(a)
    np.testing.assert_array_equal(a.predict(x), b.predict(x))
    assert a.predict(x).dtype == b.predict(x).dtype
    first, second = a.explain(x), b.explain(x)
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.dividends, second.dividends)
    assert first.values.dtype == second.values.dtype == np.float64
    games = (a.explain(x, game="marginal"), b.explain(x, game="marginal"))
    np.testing.assert_array_equal(games[0].values, games[1].values)
    np.testing.assert_array_equal(games[0].base_values, games[1].base_values)
    assert first.output_names == second.output_names
    assert first.feature_names == second.feature_names
    np.testing.assert_array_equal(a.value_spread(x), b.value_spread(x))
    np.testing.assert_array_equal(a.feature_importances_, b.feature_importances_)
    if hasattr(a, "classes_"):
        assert a.classes_.dtype == b.classes_.dtype
        np.testing.assert_array_equal(a.classes_, b.classes_)
        np.testing.assert_array_equal(a.predict_proba(x), b.predict_proba(x))
    np.testing.assert_array_equal(a.history_.losses, b.history_.losses)
    assert a.history_.settings() == b.history_.settings()
    assert (a.learning_rate_, a.n_iter_) == (b.learning_rate_, b.n_iter_)
    assert hasattr(a, "feature_names_in_") == hasattr(b, "feature_names_in_")
    assert a.n_features_in_ == b.n_features_in_


@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_estimator_comes_back_to_the_bit(name, tmp_path):
    model = MODELS[name]()
    path = tmp_path / "model.hnet"
    model.save(path)
    again = load(path)
    assert type(again) is type(model)
    same_bits(model, again)
    wanted, found = plain(model.get_params()), plain(again.get_params())
    if name == "random state":  # its state went on with the fit and would give another model anyway
        assert found["random_state"] is None
        wanted["random_state"] = None
    assert found == wanted

    save(again, tmp_path / "again.hnet")  # what was loaded can be saved, pickled, cloned and fitted
    same_bits(model, load(tmp_path / "again.hnet"))
    same_bits(model, pickle.loads(pickle.dumps(again)))
    x = rows_for(model)
    fresh = clone(again)
    with pytest.raises(NotFittedError):
        fresh.predict(x)
    fresh.fit(x, np.arange(len(x)) % 2)
    assert fresh.get_params()["max_iter"] == 15


def plain(value: object) -> object:
    """Numbers of numpy as those of Python, tuples as lists."""
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def test_networks_are_saved_by_the_same_names(tmp_path):
    torch = pytest.importorskip("torch")
    from harsanyinet import HarsanyiMLP

    net = HarsanyiMLP(3, 2, width=6, seed=1).eval()
    save(net, tmp_path / "net")
    x = torch.rand(5, 3)
    assert torch.equal(load(tmp_path / "net")(x), net(x))


# Errors


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(HarsanyiRegressor(), tmp_path / "m")
    for other in ({"a": 1}, DecisionTreeRegressor(), None):
        with pytest.raises(
            TypeError, match=r"^model must be one of HarsanyiClassifier, HarsanyiRegressor, Harsanyi.*, however: \w+$"
        ):
            save(other, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        labelled([0, 1]).save(tmp_path / "nowhere" / "m")


def test_what_is_no_model_file(tmp_path):
    model = labelled([0, 1])
    path = tmp_path / "model.hnet"
    model.save(path)
    data = path.read_bytes()

    def refused(content: bytes, message: str) -> None:
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(files.ModelFileError) as error:
            load(tmp_path / "other")
        assert message in str(error.value)
        assert str(error.value).startswith("cannot load a model from ")
        assert "\n" not in str(error.value)

    for cut in (len(data) - 1, len(data) // 2, 20):
        refused(data[:cut], "it is damaged or cut short; copy it or save it again")
    for place in (len(data) // 2, len(data) - 3):
        spoilt = bytearray(data)
        spoilt[place] ^= 255
        refused(bytes(spoilt), "it is damaged or cut short")
    refused(b"", "is not a safetensors file")
    refused(b"PK\x03\x04 something else entirely", "is not a safetensors file")
    refused(pickle.dumps(model), "is not a safetensors file")
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        load(tmp_path / "nothing")
    with pytest.raises(files.ModelFileError, match="it is a folder"):
        load(tmp_path)


def test_a_newer_file(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(files, "VERSION", "2")
        labelled([0, 1]).save(tmp_path / "m")
    with pytest.raises(
        files.ModelFileError, match=r"was written by a newer harsanyinet \(file format 2, .* upgrade harsanyinet$"
    ):
        load(tmp_path / "m")


def test_an_explanation_is_no_model(tmp_path):
    labelled([0, 1]).explain(table()).save(tmp_path / "ex")
    with pytest.raises(files.ModelFileError, match="it holds an explanation, not a model"):
        load(tmp_path / "ex")


@pytest.mark.parametrize("change", ["columns", "loss", "params", "classes", "array", "player", "values"])
def test_settings_that_do_not_fit(tmp_path, change):
    """As from a program that wrote the container, but not what belongs into it."""
    path = tmp_path / "m"
    labelled([0, 1]).save(path)
    kind, arrays, meta = files.load_any(path, "model", ("HarsanyiClassifier",))
    if change == "array":
        arrays.pop("trees.base")
    elif change == "player":
        arrays["trees.player_of"] = arrays["trees.player_of"][::-1].copy()
    elif change == "values":
        arrays["trees.values"] = arrays["trees.values"][:-1]
    elif change == "columns":
        meta["columns"].pop()
    elif change == "params":
        meta["params"]["no_such_parameter"] = 1
    else:
        meta[change] = {"nonsense": 1}
    files.save_arrays(path, kind, arrays, meta)
    with pytest.raises(files.ModelFileError, match="its settings do not fit its weights; save it again"):
        load(path)


def test_nothing_but_arrays_and_text_is_in_the_file(tmp_path):
    path = Path(tmp_path, "m")
    labelled(["no", "yes"]).save(path)
    size = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + size])
    found = {entry["dtype"] for name, entry in header.items() if name != "__metadata__"}
    assert found <= {"F64", "I64", "I32", "U16", "U8"}
    assert json.loads(header["__metadata__"]["meta"])["classes"] == {"dtype": "str", "labels": ["no", "yes"]}
