"""The estimators for tables: scikit-learn's own checks, targets of every kind, constraints, errors."""

from __future__ import annotations

import io
import warnings
from itertools import combinations

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, estimators
from harsanyinet.encoders import UnseenCategoryWarning

QUICK = {
    "members": 2, "epochs": 5, "batch_size": 64, "learning_rate": 0.01, "width": 16, "n_jobs": 1, "random_state": 0,
    "progress": False,
}  # fmt: skip


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


REASON = "a network learns in batches, and a row of weight two is one row in one batch; weight zero is tested below"


@parametrize_with_checks(
    [
        HarsanyiClassifier(**{**QUICK, "random_state": None}),
        HarsanyiRegressor(**{**QUICK, "random_state": None, "epochs": 20, "batch_size": 16}),
    ],
    expected_failed_checks=lambda estimator: {"check_sample_weight_equivalence_on_dense_data": REASON},
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


# With other parts of scikit-learn


def test_pipeline_cross_validation_and_search():
    frame = numbers(200)
    y = in_pairs(frame) > 0
    scores = cross_val_score(make_pipeline(StandardScaler(), classifier(epochs=25)), frame, y, cv=2)
    assert scores.min() > 0.6
    search = GridSearchCV(regressor(epochs=4), {"members": [1, 2], "max_order": [1, None]}, cv=2).fit(
        frame, in_pairs(frame)
    )
    assert search.best_estimator_.network_.members == search.best_params_["members"]
    assert search.predict(frame).shape == (200,)


def test_calibration():
    frame = mixed(200)
    y = np.where(in_pairs(frame) > 0, "up", "down")
    calibrated = CalibratedClassifierCV(classifier(), cv=2).fit(frame, y)
    proba = calibrated.predict_proba(frame)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-12)
    assert list(calibrated.classes_) == ["down", "up"]


def test_a_clone_is_unfitted_and_has_all_parameters():
    model = regressor(max_order=2, monotone={"a": 1}, loss="quantile", quantile=0.3).fit(
        numbers(100), in_pairs(numbers(100))
    )
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(numbers(3))
    with pytest.raises(NotFittedError):
        copy.explain(numbers(3))
    with pytest.raises(NotFittedError):
        copy.value_spread(numbers(3))


def test_a_pickle_gives_the_same_bits():
    frame = mixed()
    model = classifier().fit(frame, np.digitize(in_pairs(frame), [-1, 1]))
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    again = joblib.load(file)
    np.testing.assert_array_equal(again.decision_function(frame), model.decision_function(frame))
    np.testing.assert_array_equal(again.explain(frame).values, model.explain(frame).values)
    np.testing.assert_array_equal(again.value_spread(frame), model.value_spread(frame))
    assert again.predict(frame).tolist() == model.predict(frame).tolist()


# Random numbers


@pytest.mark.parametrize("make", [classifier, regressor])
def test_the_same_seed_gives_the_same_bits_and_no_global_state_is_touched(make):
    frame = mixed(200)
    y = in_pairs(frame)
    y = y > 0 if make is classifier else y
    torch_before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = make().fit(frame, y)
    torch.rand(5)  # wherever the global states happen to be
    with_state = make(random_state=np.random.RandomState(7)).fit(frame, y)
    again, other = make().fit(frame, y), make(random_state=1).fit(frame, y)
    unseeded = make(random_state=None).fit(frame, y)
    torch.random.set_rng_state(torch_before)
    make().fit(frame, y).explain(frame)
    assert torch.equal(torch.random.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002

    a, b, c, d, e = (model.explain(frame).values for model in (first, again, other, with_state, unseeded))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first.feature_importances_, again.feature_importances_)
    assert not np.array_equal(a, c)
    assert not np.array_equal(a, e)
    np.testing.assert_array_equal(d, make(random_state=np.random.RandomState(7)).fit(frame, y).explain(frame).values)


def test_threads_are_given_back():
    before = torch.get_num_threads()
    frame = numbers(70)
    for n_jobs in (1, 2, None):
        model = regressor(n_jobs=n_jobs, epochs=1).fit(frame, in_pairs(frame))
        model.explain(frame)
        assert torch.get_num_threads() == before


# Targets


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        [0, 1],
        [-1, 1],
        [False, True],
        [2.0, 5.0],
        ["a", "b", "c"],
        [3, 1, 2],
        [10, 20, 30, 40],
    ],
    ids=str,
)
def test_labels_of_every_kind(labels):
    frame = numbers(200)
    codes = np.clip((frame["a"].to_numpy() * 1.5 + len(labels) / 2).astype(int), 0, len(labels) - 1)
    y = np.array(labels)[codes]
    model = classifier(epochs=40).fit(frame, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.classes_.dtype == y.dtype
    predicted = model.predict(frame)
    assert predicted.dtype == y.dtype
    assert (predicted == y).mean() > 0.85
    proba, raw = model.predict_proba(frame), model.decision_function(frame)
    assert proba.shape == (200, len(labels))
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[proba.argmax(1)], predicted)
    names = [str(label) for label in model.classes_]
    if len(labels) == 2:
        assert raw.shape == (200,)
        np.testing.assert_allclose(np.log(proba[:, 1] / proba[:, 0]), raw, atol=1e-5)
        assert model.explain(frame).output_names == names[1:]
    else:
        assert raw.shape == (200, len(labels))
        assert model.explain(frame).output_names == names
    ex = model.explain(frame)
    np.testing.assert_allclose(ex.outputs, raw, atol=1e-5 * np.abs(raw).max())


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
    model = classifier(epochs=1).fit(numbers(100), y)
    assert set(model.predict(numbers(100)).tolist()) <= set(y)
    assert model.classes_.tolist() == sorted(set(y))


def test_polars_frames_and_targets():
    polars = pytest.importorskip("polars")
    frame = mixed(200)
    y = in_pairs(frame)
    other = polars.DataFrame(
        {name: frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame}
    )
    model = regressor().fit(frame, y)
    same = regressor().fit(other, polars.Series("target", y))
    np.testing.assert_array_equal(same.predict(other), model.predict(frame))
    np.testing.assert_array_equal(model.explain(other).values, model.explain(frame).values)
    assert same.feature_names_in_.tolist() == ["a", "b", "colour"]
    assert same.explain(other).output_names == ["target"]
    labels = classifier().fit(other, polars.Series((y > 0).tolist()))
    assert labels.predict(other).dtype == bool


def test_frames_arrays_and_lists_give_the_same_model():
    rng = np.random.default_rng(0)
    rows = [[float(a), str(c)] for a, c in zip(rng.normal(size=100), rng.choice(["u", "v"], 100), strict=True)]
    y = [row[0] * (row[1] == "u") for row in rows]
    frame = pd.DataFrame(rows, columns=["x0", "x1"])
    expected = regressor().fit(frame, y).predict(frame)
    for given in (rows, np.array(rows, dtype=object)):  # beside text numbers stay numbers
        model = regressor().fit(given, y)
        assert [column.kind for column in model.encoder_.columns] == ["number", "category"]
        np.testing.assert_array_equal(model.predict(given), expected)
        assert not hasattr(model, "feature_names_in_")
    game = model.game(rows, 0)
    assert game(np.ones((2, 2), dtype=bool)).shape == (2,)


def test_names_and_importances():
    frame = mixed(400)
    model = regressor(epochs=30).fit(frame, 3 * frame["b"] + 0.01 * (frame["colour"] == "red"))
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["a", "b", "colour"]
    assert model.feature_importances_.shape == (3,)
    assert model.feature_importances_.dtype == np.float64
    assert model.feature_importances_.argmax() == 1
    values = model.explain(frame).values  # all rows, since there are fewer than 2000
    np.testing.assert_allclose(model.feature_importances_, np.abs(values).mean(0), rtol=1e-5)
    assert model.explain(frame).data[0, 1] == frame["b"][0]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[["b", "a", "colour"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(frame.to_numpy(dtype=object))


def test_unseen_categories_and_empty_cells_are_absent():
    frame = mixed()
    model = regressor().fit(frame, in_pairs(frame))
    new = frame.iloc[:20].copy()
    new["colour"] = "violet"
    with pytest.warns(UnseenCategoryWarning, match="column 'colour' holds categories") as caught:
        out = model.predict(new)
    assert len(caught) == 1
    np.testing.assert_array_equal(out, model.predict(frame.iloc[:20], present=[True, True, False]))
    with pytest.raises(ValueError, match="column 'b' must hold numbers, as it did in fit, however: 'many' in row 0"):
        model.predict(frame.iloc[:2].assign(b=["many", "few"]))
    with pytest.raises(TypeError, match="column 'a' holds dates or times"):
        model.predict(frame.iloc[:2].assign(a=pd.to_datetime(["2020", "2021"])))


# Regression


def test_squared_loss_finds_the_mean_and_the_absolute_one_the_median():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"side": rng.integers(0, 2, 1500)})
    y = 10 * frame["side"] + rng.exponential(2.0, 1500)  # mean 2, median 1.39
    for loss, expected in (("squared", 2.0), ("absolute", 2 * np.log(2))):
        found = regressor(loss=loss, epochs=15, learning_rate=0.1).fit(frame, y).predict(pd.DataFrame({"side": [0, 1]}))
        np.testing.assert_allclose(found, [expected, 10 + expected], atol=0.25)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_a_quantile_covers_its_share(quantile):
    rng = np.random.default_rng(0)
    frame = numbers(2000, 2)
    y = frame["a"] + rng.normal(size=2000) * (1 + (frame["b"] > 0))
    model = regressor(loss="quantile", quantile=quantile, epochs=12).fit(frame[:1500], y[:1500])
    covered = (y[1500:] <= model.predict(frame[1500:])).mean()
    assert covered == pytest.approx(quantile, abs=0.06)  # 500 rows: two standard deviations are 0.045


def test_poisson_counts():
    rng = np.random.default_rng(0)
    frame = numbers(1500, 3)
    mean = np.exp(0.5 * frame["a"] + 0.3 * (frame["b"] > 0))
    y = rng.poisson(mean)
    model = regressor(loss="poisson", epochs=15).fit(frame, y)
    predicted = model.predict(frame)
    assert predicted.min() > 0
    np.testing.assert_allclose(np.log(predicted), model.explain(frame).outputs, atol=1e-5)
    assert predicted.mean() == pytest.approx(y.mean(), rel=0.1)
    assert np.corrcoef(predicted, mean)[0, 1] > 0.95
    assert np.isfinite(regressor(loss="poisson", epochs=2).fit(frame, np.zeros(1500)).predict(frame)).all()
    with pytest.raises(
        ValueError, match=r"^y must not be negative with loss='poisson', however: its minimum is -1\.0$"
    ):
        regressor(loss="poisson").fit(frame, y - 1.0)


def test_several_targets():
    frame = numbers(300)
    y = pd.DataFrame({"sum": frame["a"] + frame["b"], "large": 1000 + 100 * frame["c"]})
    model = regressor(epochs=30).fit(frame, y)
    predicted = model.predict(frame)
    assert predicted.shape == (300, 2)
    for k, name in enumerate(y):
        assert np.corrcoef(predicted[:, k], y[name])[0, 1] > 0.95
    ex = model.explain(frame)
    assert ex.output_names == ["sum", "large"]
    assert ex.values.shape == (300, 4, 2)
    assert model.value_spread(frame).shape == (300, 4, 2)
    assert regressor(epochs=1).fit(frame, y.to_numpy()).explain(frame).output_names == ["output 0", "output 1"]


def test_one_column_stays_one_column():
    frame, y = numbers(100), in_pairs(numbers(100))
    flat, column = regressor().fit(frame, y), regressor().fit(frame, y[:, None])
    assert flat.predict(frame).shape == (100,)
    assert column.predict(frame).shape == (100, 1)
    np.testing.assert_array_equal(column.predict(frame)[:, 0], flat.predict(frame))
    with pytest.warns(DataConversionWarning):
        assert classifier(epochs=1).fit(frame, (y > 0)[:, None]).predict(frame).shape == (100,)


@pytest.mark.parametrize("y", [np.full(100, 7.5), np.linspace(1e6, 1.1e6, 100), np.linspace(0, 1e-8, 100)])
def test_constant_large_and_tiny_targets(y):
    found = regressor(epochs=30).fit(numbers(100, 2), y).predict(numbers(100, 2))
    # within the spread of the target, and of float32 where there is none
    np.testing.assert_allclose(found, y, atol=1.5 * (np.ptp(y) + 1e-6 * np.abs(y).max()))


# Weights


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
    model = make().fit(spoilt, other, sample_weight=weight)
    without = make().fit(frame[weight > 0], y[weight > 0], sample_weight=np.full(160, 3.0))
    np.testing.assert_array_equal(model.explain(frame).values, without.explain(frame).values)


def test_a_class_without_weight_is_no_class():
    frame = numbers(150)
    y = np.arange(150) % 3
    model = classifier(epochs=1).fit(frame, y, sample_weight=(y != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]
    assert model.decision_function(frame).shape == (150,)


def test_weights_pull_towards_the_heavy_rows():
    frame = pd.DataFrame({"a": np.zeros(400)})
    y = np.repeat([0.0, 10.0], 200)
    for heavy, expected in ((0, 1.0), (1, 9.0)):
        weight = np.where(y == 10 * heavy, 9.0, 1.0)
        found = regressor(epochs=25, learning_rate=0.03).fit(frame, y, sample_weight=weight).predict(frame)
        assert found[0] == pytest.approx(expected, abs=0.6)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 9.0}])
def test_class_weights_equal_sample_weights(class_weight):
    rng = np.random.default_rng(0)
    frame = numbers(400, 3)
    y = (frame["a"] + rng.normal(size=400) > 1.8).astype(int).to_numpy()
    share = y.mean()
    assert 0.05 < share < 0.2
    each = np.where(y == 1, 9.0, 1.0) if isinstance(class_weight, dict) else 0.5 / np.where(y == 1, share, 1 - share)
    weighted = classifier(class_weight=class_weight, epochs=15).fit(frame, y)
    by_hand = classifier(epochs=15).fit(frame, y, sample_weight=each)
    np.testing.assert_allclose(weighted.decision_function(frame), by_hand.decision_function(frame), atol=1e-4)
    plain = classifier(epochs=15).fit(frame, y)
    assert weighted.predict(frame).mean() > 2 * plain.predict(frame).mean() + 0.05
    # the rows held out count by their weight too: what is said of the mean is what the weights say
    assert weighted.predict_proba(frame)[:, 1].mean() > 0.3


# Constraints


def sizes(model, frame: pd.DataFrame) -> list[int]:
    return model.explain(frame[:2]).coalitions.sum(1).tolist()


@pytest.fixture(scope="module")
def product():
    """Two pairs and a triple among six columns of signs, so strong that no pruning takes them."""
    frame = np.sign(numbers(400, 6))
    y = 3 * frame["a"] * frame["b"] + 3 * frame["c"] * frame["d"] + 3 * frame["d"] * frame["e"] * frame["f"]
    return frame, y


def test_without_limits_there_are_large_coalitions(product):
    frame, y = product
    assert max(sizes(regressor(epochs=12).fit(frame, y), frame)) >= 3


@pytest.mark.parametrize("max_order", [1, 2, 3, 4])
def test_no_coalition_is_larger_than_max_order(product, max_order):
    frame, y = product
    model = regressor(max_order=max_order, epochs=12).fit(frame, y)
    assert max(sizes(model, frame)) == min(max_order, 3)


def test_columns_act_together_only_within_interactions(product):
    frame, y = product
    model = regressor(interactions=[("a", "b", "c"), ["d", 4]], epochs=12).fit(frame, y)
    within = [{0, 1, 2}, {3, 4}]
    found = [set(np.flatnonzero(row)) for row in model.explain(frame[:2]).coalitions]
    assert {0, 1} in found
    for members in found:
        assert len(members) == 1 or any(members <= allowed for allowed in within), members
    assert max(sizes(regressor(interactions=[], epochs=1).fit(frame, y), frame)) == 1


def test_forbidden_pairs_are_in_no_coalition(product):
    frame, y = product
    forbidden = [("a", "b"), (3, "e")]
    model = regressor(forbidden=forbidden, epochs=12).fit(frame, y)
    coalitions = model.explain(frame[:2]).coalitions
    assert max(coalitions.sum(1)) >= 2
    for pair in ([0, 1], [3, 4]):
        assert not coalitions[:, pair].all(axis=1).any()
    every = list(combinations(range(6), 2))
    assert max(sizes(regressor(forbidden=every, epochs=1).fit(frame, y), frame)) == 1


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ["regression", "binary", "poisson"])
def test_monotone_columns(sign, kind):
    """Against the data, which say the contrary in the middle."""
    frame = numbers(500, 3)
    signal = sign * (frame["a"] - 2 * np.exp(-4 * frame["a"] ** 2)) + frame["a"] * frame["b"] + frame["b"] * frame["c"]
    options = {"monotone": {"a": sign, "c": 0}, "epochs": 12}
    if kind == "binary":
        model = classifier(**options).fit(frame, signal > 0)
    elif kind == "poisson":
        model = regressor(loss="poisson", **options).fit(frame, np.clip(signal.round() + 1, 0, None))
    else:
        model = regressor(**options).fit(frame, signal)
    grid = np.linspace(-5, 5, 1001)
    for row in (0, 1):
        shown = frame.iloc[[row] * len(grid)].assign(a=grid)
        raw = model.explain(shown).outputs
        steps = sign * np.diff(raw)
        assert steps.min() >= -1e-6 * np.abs(raw).max()  # rounding of float32
        assert steps.sum() > 0.1 * np.abs(raw).max()
        # without the other columns as well
        alone = model._raw(shown, np.array([True, False, False]))
        assert (sign * np.diff(alone)).min() >= -1e-6 * np.abs(raw).max()
    coalitions = model.explain(frame[:2]).coalitions
    assert coalitions[coalitions[:, 0]].sum(1).tolist() == [1]


def test_columns_of_numbers_that_are_names():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"code": rng.integers(0, 6, 600), "x": rng.normal(size=600)})
    y = np.array([5, -3, 4, -5, 0, 2])[frame["code"]] + frame["x"]
    model = regressor(categorical=["code"], epochs=15).fit(frame, y)
    assert [column.kind for column in model.encoder_.columns] == ["category", "number"]
    assert np.corrcoef(model.predict(frame), y)[0, 1] > 0.95
    floats = frame.astype({"code": float})
    np.testing.assert_array_equal(model.predict(floats), model.predict(frame))
    with pytest.raises(ValueError, match="monotone columns must hold numbers, however: 'code' holds categories"):
        regressor(categorical=[0], monotone={"code": 1}).fit(frame, y)


# Members and masks


def test_members_disagree_and_one_member_does_not():
    frame = mixed()
    y = np.digitize(in_pairs(frame), [-1, 1])
    model = classifier(members=3).fit(frame, y)
    spread = model.value_spread(frame)
    assert spread.shape == (300, 3, 3)
    coded = model._coded(frame)[1]
    with torch.no_grad():
        each = model.network_.contributions(coded)  # (units, M, B, K)
    fields = np.concatenate([field.numpy() for field in model.network_.receptive_fields()])
    n_units = len(each)
    first = np.unique(np.arange(n_units))  # one line per unit: layers of a wide unit share a field
    assert len(first) == n_units
    members = np.stack([
        [np.eye(3)[i] for i in range(3)]
        + [np.isin(np.arange(3), g.players[u].numpy()) for g in model.network_.unit_groups() for u in range(g.n_units)]
    ])[0].astype(float)  # fmt: skip
    assert {tuple(row > 0) for row in members} == {tuple(row) for row in fields}
    values = np.einsum("umbk,up->mbpk", each.numpy(), members / members.sum(1, keepdims=True))
    np.testing.assert_allclose(values.mean(0), model.explain(frame).values, atol=1e-4)
    np.testing.assert_allclose(spread, values.std(0), atol=1e-4)
    assert spread.max() > 0
    alone = regressor(members=1, epochs=2).fit(frame, in_pairs(frame))
    assert (alone.value_spread(frame) == 0).all()


def test_present_has_the_shape_of_a_row_or_of_all_rows():
    frame = mixed()
    model = classifier().fit(frame, in_pairs(frame) > 0)
    few = frame.iloc[:4]
    row = [True, False, True]
    np.testing.assert_array_equal(model.predict_proba(few, present=row), model.predict_proba(few, present=[row] * 4))
    np.testing.assert_array_equal(model.decision_function(few, present=[True] * 3), model.decision_function(few))
    nobody = model.decision_function(few, present=[False] * 3)
    np.testing.assert_array_equal(nobody, np.full(4, model.explain(few).base_values))
    for wrong, found in (([True] * 2, r"\(2,\)"), ([[True] * 3] * 5, r"\(5, 3\)"), ([[[True] * 3]], r"\(1, 1, 3\)")):
        with pytest.raises(ValueError, match=rf"^present must have shape \(3,\) or \(4, 3\), however: {found}$"):
            model.predict(few, present=wrong)
    for wrong, found in (([1, 0, 1], "int64"), (["a", "b", "c"], "<U1"), ([1.0, 0.5, 0.0], "float64"), (None, None)):
        if wrong is not None:
            with pytest.raises(
                TypeError, match=rf"^present must be bool, True where a column is there, however: {found}$"
            ):
                model.explain(few, present=wrong)


def test_the_game_is_that_of_the_predictions():
    frame = mixed()
    model = regressor().fit(frame, in_pairs(frame))
    masks = np.array([[True, True, True], [False, True, True], [False, False, False]])
    for row in (0, 5):
        expected = [model.predict(frame.iloc[row : row + 1], present=mask)[0] for mask in masks]
        np.testing.assert_allclose(model.game(frame, row)(masks), expected, atol=1e-5)


def test_masked_training_makes_predictions_from_some_columns_mean_something():
    """Two copies of one column: with one of them away, the prediction rests on the other."""
    frame = numbers(600, 1)
    frame["copy"] = frame["a"]
    y = frame["a"]
    model = regressor(epochs=30).fit(frame, y)
    for present in ([True, False], [False, True]):
        assert np.corrcoef(model.predict(frame, present=present), y)[0, 1] > 0.9
    assert model.predict(frame, present=[False, False]) == pytest.approx(np.full(600, y.mean()), abs=0.3)


# Edges and errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 0}, "members must be a positive integer, however: members=0"),
        ({"members": 2.5}, "members must be a positive integer, however: members=2.5"),
        ({"members": True}, "members must be a positive integer, however: members=True"),
        ({"width": -1}, "width must be a positive integer, however: width=-1"),
        ({"epochs": 0}, "epochs must be a positive integer or None, however: epochs=0"),
        ({"batch_size": "8"}, "batch_size must be a positive integer or None, however: batch_size='8'"),
        ({"learning_rate": 0.0}, "learning_rate must be positive or None, however: learning_rate=0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive or None, however: learning_rate=nan"),
        ({"dropout": 1.0}, "dropout must be in [0, 1), or None, however: dropout=1.0"),
        ({"masked_share": 1.5}, "masked_share must be in [0, 1], however: masked_share=1.5"),
        ({"masked_share": None}, "masked_share must be in [0, 1], however: masked_share=None"),
        ({"max_order": 0}, "max_order must be a positive integer or None, however: max_order=0"),
        ({"max_order": 1.5}, "max_order must be a positive integer or None, however: max_order=1.5"),
        (
            {"interactions": ["ab"]},
            "interactions must be sets of names or numbers of columns, or None, however: interactions=['ab']",
        ),
        ({"interactions": [("a", "z")]}, "interactions must name columns of the table or their numbers, however: 'z'"),
        ({"forbidden": [("a", 9)]}, "forbidden must name columns of the table or their numbers, however: 9"),
        ({"forbidden": [("a", "a")]}, "forbidden must hold pairs of different columns, however: [0]"),
        ({"forbidden": 3}, "forbidden must be pairs of names or numbers of columns, or None, however: forbidden=3"),
        ({"monotone": ["a"]}, "monotone must be a dict of columns, or None, however: monotone=['a']"),
        ({"monotone": {"a": 2}}, "monotone must say 1, -1 or 0 for a column, however: 2 for 'a'"),
        ({"monotone": {"z": 1}}, "monotone must name columns of the table or their numbers, however: 'z'"),
        ({"categorical": "a"}, "categorical must be names or numbers of columns, or None, however: categorical='a'"),
        ({"categorical": ["z"]}, "categorical must name columns of the table or their numbers, however: 'z'"),
        (
            {"n_jobs": 0},
            "n_jobs must be a number of threads, negative to count from all of them, or None, however: n_jobs=0",
        ),
        ({"random_state": "x"}, "'x' cannot be used to seed a numpy.random.RandomState instance"),
    ],
)
def test_bad_parameters_are_named_in_one_sentence(options, message):
    for make, y in ((classifier, np.arange(100) % 2), (regressor, np.arange(100.0))):
        with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared)
            make(**options).fit(numbers(100), y)
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "huber"}, "loss must be one of squared, absolute, poisson, quantile, however: loss='huber'"),
        ({"quantile": 1.0}, "quantile must lie between 0 and 1, however: quantile=1.0"),
        ({"quantile": "half"}, "quantile must lie between 0 and 1, however: quantile='half'"),
    ],
)
def test_bad_parameters_of_the_regressor(options, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared)
        regressor(**options).fit(numbers(100), np.arange(100.0))
    assert str(error.value) == message


def test_a_device_that_is_not_there():
    with pytest.raises(ValueError, match=r"^device must be one that torch has here, however: 'abacus' \("):
        regressor(device="abacus").fit(numbers(100), np.arange(100.0))


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
    with pytest.raises(ValueError, match="monotone needs a binary target, however: y has 3 classes"):
        classifier(monotone={"a": 1}).fit(frame, np.arange(100) % 3)
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
        regressor().fit(frame.assign(a=pd.date_range("2020", periods=100)), np.arange(100.0))
    with pytest.raises(ValueError, match="column 'a' contains infinity"):
        regressor().fit(frame.assign(a=np.inf), np.arange(100.0))
    model = regressor(epochs=1).fit(frame, np.arange(100.0))
    with pytest.raises(ValueError, match=r"Found a table with 0 sample\(s\)"):
        model.predict(frame.iloc[:0])
    with pytest.raises(ValueError, match="feature"):
        model.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match=r"2D array|2-dimensional"):
        model.predict(frame["a"])


@pytest.mark.parametrize("n_rows", [2, 3, 9, 63, 64])
def test_very_small_tables(n_rows):
    frame = mixed(n_rows)
    y = np.arange(float(n_rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = regressor(epochs=12).fit(frame, y)
        labels = classifier(epochs=3).fit(frame, y > y.mean())
    assert np.isfinite(model.predict(frame)).all()
    assert np.isfinite(labels.decision_function(frame)).all()


def test_columns_that_say_nothing():
    frame = numbers(200, 2)
    frame["constant"], frame["none"], frame["text"] = 3.0, np.nan, None
    frame["same"] = "word"
    y = frame["a"] * 2
    model = regressor(epochs=20).fit(frame, y)
    assert np.corrcoef(model.predict(frame), y)[0, 1] > 0.9
    values = model.explain(frame.assign(constant=4.0, none=1.0, text="new", same="other")).values
    assert (values[:, 2:] == 0).all()
    assert (model.feature_importances_[2:] == 0).all()


def test_no_masks_in_training():
    frame = numbers(200)
    model = regressor(masked_share=0.0, epochs=20).fit(frame, frame["a"])
    assert np.corrcoef(model.predict(frame), frame["a"])[0, 1] > 0.95
    assert np.isfinite(model.predict(frame, present=[False] * 4)).all()


def test_the_order_of_the_table_does_not_decide_what_is_pruned(monkeypatch):
    """Of a table sorted by its label the first rows are of one class; units are judged by the first that are passed."""
    judge, seen = estimators.worth_keeping, []

    def recorded(net, x, y, problem, weight, **options):
        seen.append((y[:, 0].numpy(), weight.numpy()))
        return judge(net, x, y, problem, weight, **options)

    monkeypatch.setattr(estimators, "worth_keeping", recorded)
    y = np.arange(400) >= 200
    classifier(members=8, epochs=1).fit(numbers(400), y, sample_weight=1.0 + y)
    labels, weights = seen[0]
    assert len(labels) == 400
    assert 0.35 < labels[:100].mean() < 0.65
    np.testing.assert_array_equal(weights, 1 + labels)  # each row with its own
