"""Labels, numbers and weights of every kind."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning
from small_tables import classifier, in_pairs, mixed, numbers, regressor

from harsanyinet.tables.targets import as_weights


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [0, 1], [-1, 1], [False, True], [2.0, 5.0], ["a", "b", "c"], [3, 1, 2], [10, 20, 30, 40]],
    ids=str,
)
def test_labels_of_every_kind(labels):
    frame = numbers(200)
    codes = np.clip((frame["a"].to_numpy() * 1.5 + len(labels) / 2).astype(int), 0, len(labels) - 1)
    y = np.array(labels)[codes]
    model = classifier().fit(frame, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.classes_.dtype == y.dtype
    predicted = model.predict(frame)
    assert predicted.dtype == y.dtype
    assert (predicted == y).mean() > 0.9
    proba, raw, ex = model.predict_proba(frame), model.decision_function(frame), model.explain(frame)
    assert proba.shape == (200, len(labels))
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[proba.argmax(1)], predicted)
    names = [str(label) for label in model.classes_]
    if len(labels) == 2:
        assert raw.shape == (200,)
        np.testing.assert_allclose(np.log(proba[:, 1] / proba[:, 0]), raw, 1e-9, 1e-9)
        assert ex.output_names == names[1:]
    else:
        assert raw.shape == (200, len(labels))
        assert ex.output_names == names
        np.testing.assert_allclose(np.exp(raw) / np.exp(raw).sum(1, keepdims=True), proba, 1e-9)
    np.testing.assert_allclose(ex.outputs, raw, 0, 1e-12 * np.abs(raw).max())


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(["u", "v"] * 50, dtype="category"),
        pd.Series(["u", "v"] * 50, dtype="string"),
        pd.Series(["u", "v"] * 50),
        pd.Series([True, False] * 50, dtype="boolean"),
        pd.Series([1, 2] * 50, dtype="Int64"),
        ["u", "v"] * 50,
        [1, 2] * 50,
    ],
    ids=lambda y: str(getattr(y, "dtype", "list")),
)
def test_labels_in_every_container(y):
    model = classifier(max_iter=2).fit(numbers(100), y)
    assert set(model.predict(numbers(100)).tolist()) <= set(y)
    assert model.classes_.tolist() == sorted(set(y))


def test_several_targets():
    frame = numbers(300)
    y = pd.DataFrame({"sum": frame["a"] + frame["b"], "large": 1000 + 100 * frame["c"]})
    model = regressor(max_iter=60, members=2).fit(frame, y)
    predicted = model.predict(frame)
    assert predicted.shape == (300, 2)
    for k, name in enumerate(y):
        assert np.corrcoef(predicted[:, k], y[name])[0, 1] > 0.95
    ex = model.explain(frame)
    assert ex.output_names == ["sum", "large"]
    assert ex.values.shape == (300, 4, 2)
    assert model.value_spread(frame).shape == (300, 4, 2)
    assert regressor(max_iter=2).fit(frame, y.to_numpy()).explain(frame).output_names == ["output 0", "output 1"]


def test_one_column_stays_one_column():
    frame, y = numbers(100), in_pairs(numbers(100))
    flat, column = regressor().fit(frame, y), regressor().fit(frame, y[:, None])
    assert flat.predict(frame).shape == (100,)
    assert column.predict(frame).shape == (100, 1)
    np.testing.assert_array_equal(column.predict(frame)[:, 0], flat.predict(frame))
    with pytest.warns(DataConversionWarning):
        assert classifier(max_iter=2).fit(frame, (y > 0)[:, None]).predict(frame).shape == (100,)


@pytest.mark.parametrize(
    "y", [np.linspace(1e6, 1.1e6, 100), np.linspace(0, 1e-8, 100), np.linspace(-1e-100, 1e-100, 100)]
)
def test_large_and_tiny_targets(y):
    found = (
        regressor(max_iter=60)
        .fit(pd.DataFrame({"a": np.arange(100.0)}), y)
        .predict(pd.DataFrame({"a": np.arange(100)}))
    )
    np.testing.assert_allclose(found, y, 0, 0.1 * np.ptp(y))


@pytest.mark.parametrize("shift", [1e6, 1e9])
def test_a_target_moved_and_stretched_moves_and_stretches_the_model(shift):
    frame = mixed()
    y = in_pairs(frame)
    a, b = regressor().fit(frame, y), regressor().fit(frame, shift + 1000 * y)
    scale = 1000 * np.abs(y).max()
    np.testing.assert_allclose(b.explain(frame).values, 1000 * a.explain(frame).values, 0, 1e-7 * scale)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_row_of_weight_zero_is_as_good_as_not_passed(make):
    frame = mixed(240)
    y = in_pairs(frame) > 0 if make is classifier else in_pairs(frame)
    weight = (np.arange(240) % 3 > 0).astype(float)
    spoilt = frame.copy()
    spoilt.loc[weight == 0, "b"] = 1e9
    spoilt.loc[weight == 0, "colour"] = "nowhere else"
    other = y.copy()
    if make is regressor:
        other[weight == 0] = -1e9
    model = make(learning_rate=None).fit(spoilt, other, sample_weight=weight)
    without = make(learning_rate=None).fit(frame[weight > 0], y[weight > 0], sample_weight=np.full(160, 3.0))
    for game in ("missing", "marginal"):
        np.testing.assert_array_equal(model.explain(frame, game=game).values, without.explain(frame, game=game).values)


def test_only_the_ratio_of_weights_counts():
    frame = mixed(240)
    y, weight = in_pairs(frame), np.random.default_rng(0).integers(1, 5, 240).astype(float)
    a, b = (regressor().fit(frame, y, sample_weight=factor * weight).predict(frame) for factor in (1.0, 4.0))
    np.testing.assert_array_equal(a, b)


def test_a_class_without_weight_is_no_class():
    frame = numbers(150)
    y = np.arange(150) % 3
    model = classifier(max_iter=2).fit(frame, y, sample_weight=(y != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]
    assert model.decision_function(frame).shape == (150,)


def test_weights_pull_towards_the_heavy_rows():
    frame = pd.DataFrame({"a": np.zeros(400)})
    y = np.repeat([0.0, 10.0], 200)
    for heavy, expected in ((0, 1.0), (1, 9.0)):
        weight = np.where(y == 10 * heavy, 9.0, 1.0)
        found = regressor().fit(frame, y, sample_weight=weight).predict(frame)
        assert found[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 9.0}])
def test_class_weights_equal_sample_weights(class_weight):
    rng = np.random.default_rng(0)
    frame = numbers(400, 3)
    y = (frame["a"] + rng.normal(size=400) > 1.8).astype(int).to_numpy()
    share = y.mean()
    assert 0.05 < share < 0.2
    each = np.where(y == 1, 9.0, 1.0) if isinstance(class_weight, dict) else 0.5 / np.where(y == 1, share, 1 - share)
    weighted = classifier(class_weight=class_weight).fit(frame, y)
    by_hand = classifier().fit(frame, y, sample_weight=each)
    np.testing.assert_allclose(weighted.decision_function(frame), by_hand.decision_function(frame), 0, 1e-9)
    both = classifier(class_weight={0: 2.0, 1: 1.0}).fit(frame, y, sample_weight=each)
    again = classifier().fit(frame, y, sample_weight=each * np.where(y == 1, 1.0, 2.0))
    np.testing.assert_allclose(both.decision_function(frame), again.decision_function(frame), 0, 1e-9)
    plain = classifier().fit(frame, y)
    assert weighted.predict(frame).mean() > plain.predict(frame).mean() + 0.05
    assert weighted.predict_proba(frame)[:, 1].mean() > 1.8 * plain.predict_proba(frame)[:, 1].mean()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 100, "y must hold at least two classes, however: 1 class in 100 rows of weight"),
        ([None, *["a", "b"] * 49, "a"], "y must have a label in every row, however: 1 are missing"),
        ([1, "a"] * 50, "y must hold labels of one type, however: int and str"),
        (None, "this classifier requires y to be passed, but the target y is None"),
    ],
)
def test_bad_labels(y, message):
    labels = None if y is None else np.array(y, dtype=object)
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared)
        classifier().fit(numbers(100), labels)
    assert str(error.value) == message


def test_other_bad_targets_and_tables():
    frame = numbers(100)
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(frame, np.linspace(0, 1, 100))
    with pytest.raises(ValueError, match="monotonic_cst needs a binary target, however: y has 3 classes"):
        classifier(monotonic_cst={"a": 1}).fit(frame, np.arange(100) % 3)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        regressor().fit(frame, np.arange(99.0))
    with pytest.raises(ValueError, match=r"Input y contains NaN"):
        regressor().fit(frame, np.full(100, np.nan))
    with pytest.raises(ValueError, match=r"could not convert string to float|y must hold numbers"):
        regressor().fit(frame, ["a"] * 100)
    with pytest.raises(ValueError, match=r"must be somewhere positive|must contain at least one non-zero number"):
        regressor().fit(frame, np.arange(100.0), sample_weight=np.zeros(100))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        classifier().fit(frame, np.arange(100) % 2, sample_weight=np.full(100, -1.0))
    with pytest.raises(ValueError, match=r"columns must have different names, however: 'a' stands there twice"):
        regressor().fit(frame[["a", "a"]], np.arange(100.0))
    for empty in (frame.iloc[:0], frame[[]]):
        with pytest.raises(ValueError, match=r"Found (a table|array) with 0 (sample|feature)\(s\) \(shape="):
            regressor().fit(empty, np.arange(float(len(empty))))
    with pytest.raises(TypeError, match="column 'a' holds dates or times"):
        regressor().fit(frame.assign(a=pd.to_timedelta(np.arange(100), unit="h")), np.arange(100.0))
    with pytest.raises(ValueError, match="column 'a' contains infinity"):
        regressor().fit(frame.assign(a=np.inf), np.arange(100.0))


def test_weights_as_numbers():
    assert as_weights(None, 3) is None
    for given in ([1, 0, 2], (1, 0, 2), pd.Series([1, 0, 2], index=[7, 8, 9]), np.array([1, 0, 2], dtype=np.int8)):
        weight = as_weights(given, 3)
        assert weight.dtype == np.float64
        assert weight.tolist() == [1, 0, 2]
    assert as_weights(2, 3).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 2], "sample_weight must be one number for each of 3 rows, however: shape (2,)"),
        (np.ones((3, 1)), "sample_weight must be one number for each of 3 rows, however: shape (3, 1)"),
        ([1, -1, 1], "Negative values in data passed to `sample_weight`"),
        ([1, np.nan, 1], "sample_weight contains NaN"),
        ([0, 0, 0], "sample_weight must be somewhere positive, however: it is zero everywhere"),
        (0, "sample_weight must be somewhere positive, however: it is zero everywhere"),
    ],
)
def test_wrong_weights(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        as_weights(given, 3)
