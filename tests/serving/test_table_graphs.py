"""Models of tables as ONNX files: equal to the estimator, and to brute force where there is nothing but onnxruntime."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx_feeds import answers, elsewhere, feed, session_of

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.files import load_any
from harsanyinet.serving import table_graphs

N = 300
QUICK = {"max_iter": 40, "learning_rate": 0.1, "random_state": 0, "n_jobs": 1, "progress": False}


def table(seed=0, missing=True):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=N).round(2), "b": rng.exponential(size=N),
            "colour": rng.choice(["red", "green", "blue"], N), "rare": rng.choice(list("abcdefghijklmnop"), N),
        }
    )  # fmt: skip
    if missing:
        frame.loc[::7, "b"] = np.nan
        frame.loc[3::9, "colour"] = None
    return frame


def signal(x):
    return x["a"] + (x["a"] > 0) * x["b"].fillna(0.7) + (x["colour"] == "red") - (x["rare"].isin(list("abc")))


def classes(x, n):
    return pd.qcut(signal(x) + np.random.default_rng(1).normal(size=N) * 0.3, n, labels=False)


def dated():
    x = table()[["a", "b"]].assign(day=pd.date_range("2020-01-01", periods=N, freq="31h"))
    x.loc[::11, "day"] = pd.NaT
    return x


def regression(x=None, y=None, **options):
    x = table() if x is None else x
    return HarsanyiRegressor(**QUICK | options).fit(x, signal(table()) if y is None else y), x


def classification(n, x=None, labels=None, **options):
    x, y = table() if x is None else x, classes(table(), n)
    return HarsanyiClassifier(**QUICK | options).fit(x, y if labels is None else np.array(labels)[y]), x


def whole():
    return regression(table(missing=False), signal(table(missing=False)))[0], table()


CASES = {
    "binary": lambda: classification(2),
    "text labels": lambda: classification(2, labels=["no", "yes"]),
    "ten classes": lambda: classification(10),
    "squared": lambda: regression(y=1e6 + signal(table())),
    "absolute": lambda: regression(loss="absolute"),
    "quantile": lambda: regression(loss="quantile", quantile=0.8),
    "poisson": lambda: regression(y=signal(table()).abs().round(), loss="poisson"),
    "several targets": lambda: regression(y=np.column_stack([signal(table()), table()["a"] ** 2])),
    "one target in two dimensions": lambda: regression(y=signal(table()).to_frame("y")),
    "missing is a value": lambda: regression(missing="value"),
    "missing is absence": lambda: regression(missing="absent"),
    "nothing was missing": whole,
    "constraints": lambda: regression(monotonic_cst={"a": 1}, forbidden=[["a", "b"]], max_order=2),
    "members": lambda: regression(members=3),
    "groups": lambda: regression(groups={"both": ["a", "colour"]}, missing="absent"),
    "numbers without names": lambda: classification(2, table()[["a", "b"]].to_numpy()),
    "booleans": lambda: classification(2, table().assign(a=table()["a"] > 0), labels=[False, True]),
    "dates": lambda: regression(dated(), signal(table()) + np.arange(N) / 50),
    "a constant": lambda: regression(y=np.full(N, 3.0)),
    "one column": lambda: regression(table()[["a"]]),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request, tmp_path_factory):
    model, x = CASES[request.param]()
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    model.to_onnx(path)
    return model, x, path


def far(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def compare(model, x, inputs, session, **asked):
    present = asked.pop("present", None)
    said = answers(session, inputs if present is None else inputs | {"present": present})
    ex = model.explain(x, present, **asked)
    for name, expected in (("shapley", ex.values), ("raw", ex.outputs), ("base_values", ex.base_values)):
        assert said[name].shape == expected.shape, name
        assert np.abs(said[name] - expected).max() <= 1e-12 * max(1e-9, np.abs(ex.outputs).max()), name
    if hasattr(model, "classes_"):
        assert far(said["probabilities"], model.predict_proba(x, present)) < 1e-12
        assert (said["label"] == model.predict(x, present)).all()
    else:
        assert said["prediction"].shape == model.predict(x, present).shape
        assert far(said["prediction"], model.predict(x, present)) < 1e-12
    return said


def test_it_says_what_the_estimator_says(case):
    model, x, path = case
    session = session_of(path)
    compare(model, x, feed(model, x), session)
    present = np.random.default_rng(0).random((len(x), len(model.players_))) < 0.6
    compare(model, x, feed(model, x), session, present=present)
    one = np.arange(len(model.players_)) % 2 == 0
    inputs = feed(model, x)
    assert (
        answers(session, inputs | {"present": one[None]})["shapley"]
        == answers(session, inputs | {"present": np.repeat(one[None], len(x), 0)})["shapley"]
    ).all()
    empty = answers(session, {key: value[:0] for key, value in inputs.items()})
    assert empty["shapley"].shape == (0, *model.explain(x[:1]).values.shape[1:])


def on_the_borders(model):
    """Rows at every border of every column, and one ulp beside it, the other columns as they come."""
    rows = {}
    numbers = [column for column in model.columns_ if column.kind == "number"]
    if not numbers:
        pytest.skip("no numbers")
    near = [
        np.concatenate([[c.low, c.high], *(f(c.borders) for f in (np.copy, below, above))])
        if len(c.borders)
        else np.zeros(2)
        for c in numbers
    ]
    longest = max(map(len, near))
    for column, values in zip(numbers, near, strict=True):
        rows[column.name] = np.resize(values, longest)
    for column in model.columns_:
        if column.kind == "category":
            rows[column.name] = np.resize(np.array([*column.levels], dtype=object), longest)
        elif column.kind == "date":
            rows[column.name] = np.resize(pd.date_range("2020-03-01", periods=9, freq="5D").to_numpy(), longest)
    return pd.DataFrame(rows)[[column.name for column in model.columns_]]


def below(x):
    return np.nextafter(x, -np.inf)


def above(x):
    return np.nextafter(x, np.inf)


def test_rows_on_thresholds_and_one_ulp_beside(case):
    model, _, path = case
    rows = on_the_borders(model)
    given = rows if hasattr(model, "feature_names_in_") else rows.to_numpy(dtype=float)
    compare(model, given, feed(model, rows), session_of(path))


def test_values_are_brute_force_of_the_file_without_torch_and_harsanyinet(case, tmp_path):
    model, x, path = case
    rows = x[:4]
    ex = model.explain(rows)
    expected = {"shapley": ex.values, "raw": ex.outputs, "base_values": ex.base_values}
    if hasattr(model, "classes_"):
        labels = model.predict(rows)
        expected |= {"probabilities": model.predict_proba(rows), "label": labels}
    found = elsewhere(path, tmp_path, feed(model, rows), expected=expected)
    assert found["modules"] == []
    assert found["brute_force"] < 1e-12
    assert found["estimator"] < 1e-12


@pytest.mark.parametrize("game", ["marginal", "baseline"])
@pytest.mark.parametrize("name", ["binary", "several targets", "missing is absence", "groups", "ten classes"])
def test_other_games(name, game, tmp_path):
    model, x = CASES[name]()
    options = {"game": game} | ({"baseline": x[5:6]} if game == "baseline" else {})
    model.to_onnx(tmp_path / "model.onnx", **options)
    session = session_of(tmp_path / "model.onnx")
    compare(model, x, feed(model, x), session, **options)
    present = np.random.default_rng(0).random((len(x), len(model.players_))) < 0.6
    compare(model, x, feed(model, x), session, present=present, **options)
    background = x if game == "marginal" else x[5:6]
    found = elsewhere(
        tmp_path / "model.onnx", tmp_path, feed(model, x[:2]), background=feed(model, background),
        player_of=model.players_.of_column,
    )  # fmt: skip
    assert found["brute_force"] < 1e-12


@pytest.mark.parametrize("name", ["binary", "several targets", "one column"])
def test_interactions_of_all_pairs(name, tmp_path):
    model, x = CASES[name]()
    path = tmp_path / "model.onnx"
    model.to_onnx(path, interactions=True)
    said = answers(session_of(path), feed(model, x))
    index = model.explain(x).index("SII", order=min(2, len(model.players_)))
    pairs = json.loads({p.key: p.value for p in onnx.load(path).metadata_props}["pairs"])
    assert len(pairs) == sum(len(members) == 2 for members in index.sets)
    for i, pair in enumerate(pairs):
        members = tuple(model.players_.names.index(name) for name in pair)
        assert np.abs(said["interactions"][:, i] - index[members]).max() < 1e-12


@pytest.mark.parametrize("length", [1, 32])
@pytest.mark.parametrize("name", ["binary", "ten classes", "one column"])
def test_sums_in_lists_as_with_many_columns_and_classes(name, length, tmp_path, monkeypatch):
    monkeypatch.setattr(table_graphs, "_WIDE", 0)
    monkeypatch.setattr(table_graphs, "_LIST", length)
    model, x = CASES[name]()
    model.to_onnx(tmp_path / "model.onnx", interactions=True)
    compare(model, x, feed(model, x), session_of(tmp_path / "model.onnx"))


def test_odd_names_and_levels(tmp_path):
    x = table().rename(columns={"a": "present", "b": "label", "colour": "", "rare": "shapley"})
    x.loc[5, ""] = ""
    model = HarsanyiRegressor(**QUICK).fit(x, signal(table()))
    path = tmp_path / "model.onnx"
    model.to_onnx(path)
    about = {p.key: p.value for p in onnx.load(path).metadata_props}
    inputs = feed(model, x)
    named = {one["input"]: inputs[one["column"]] for one in json.loads(about["inputs"])}
    assert len(named) == 4
    assert not {"present", "label", "shapley", ""} & set(named)
    known = x[""].notna()  # an empty text is a level of this column, and cannot say that it is missing
    said = answers(session_of(path), {key: value[known] for key, value in named.items()})
    assert np.abs(said["shapley"] - model.explain(x[known]).values).max() < 1e-12


def test_unseen_categories_infinity_and_no_rows(tmp_path):
    model, x = CASES["nothing was missing"]()
    model.to_onnx(tmp_path / "model.onnx")
    session = session_of(tmp_path / "model.onnx")
    inputs = feed(model, x[:3])
    inputs["colour"][2] = "red"
    odd = inputs | {"colour": np.array(["mauve", "", "red"], dtype=object), "b": np.array([np.inf, -np.inf, np.nan])}
    present = np.array([[True, False, False, True], [True, False, False, True], [True, False, True, True]])
    for name, value in answers(session, odd).items():
        assert (value == answers(session, inputs | {"present": present})[name]).all()
    empty = answers(session, {key: value[:0] for key, value in inputs.items()})
    assert empty["shapley"].shape == (0, 4)
    assert empty["prediction"].shape == (0,)


def test_what_the_file_says_of_itself(tmp_path):
    model, x = CASES["text labels"]()
    path = tmp_path / "model.onnx"
    model.to_onnx(path, rows=x[:2])
    model.save(tmp_path / "model.hnet")
    loaded = onnx.load(path)
    onnx.checker.check_model(loaded, full_check=True)
    assert {opset.domain for opset in loaded.opset_import} == {"", "ai.onnx.ml"}
    assert {node.domain for node in loaded.graph.node} <= {"", "ai.onnx.ml"}
    about = {p.key: p.value for p in loaded.metadata_props}
    assert json.loads(about["players"]) == ["a", "b", "colour", "rare"]
    assert json.loads(about["classes"]) == ["no", "yes"]
    assert json.loads(about["outputs"]) == ["yes"]
    assert about["game"] == "missing"
    certificate = json.loads(about["certificate"])
    assert certificate["passed"]
    assert certificate["n_rows"] == 2
    header = (tmp_path / "model.hnet").read_bytes()
    assert about["sha256"].encode() in header
    assert load_any(tmp_path / "model.hnet", "model", ("HarsanyiClassifier",))
    model.to_onnx(path)
    said = {p.key: p.value for p in onnx.load(path).metadata_props}["certificate"]
    assert said.startswith("Not verified")
