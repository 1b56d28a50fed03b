"""The estimators for tables: scikit-learn's own checks, targets and tables of every kind, parameters, errors."""

from __future__ import annotations

import io
import pickle
import time
import warnings
from itertools import combinations

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from harsanyinet import Explanation, HarsanyiClassifier, HarsanyiRegressor, load, save
from harsanyinet.files import ModelFileError
from harsanyinet.tables.frames import UnseenCategoryWarning
from harsanyinet.tables.tree_games import TreeDividends, TreeGame

QUICK = {"max_iter": 30, "learning_rate": 0.1, "n_jobs": 1, "random_state": 0, "progress": False}


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


REASON = (
    "questions are chosen by rows drawn at random; where nothing is drawn, test_boosting has weights equal to copies"
)


@parametrize_with_checks(
    [
        HarsanyiClassifier(max_iter=20, learning_rate=0.2, progress=False),
        HarsanyiRegressor(max_iter=30, learning_rate=0.2, progress=False),
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
    scores = cross_val_score(make_pipeline(StandardScaler(), classifier()), frame, y, cv=2)
    assert scores.min() > 0.6
    search = GridSearchCV(regressor(), {"members": [1, 2], "max_order": [1, 3]}, cv=2).fit(frame, in_pairs(frame))
    assert len(search.best_estimator_.member_ends_) == search.best_params_["members"]
    assert search.best_params_["max_order"] == 3
    assert search.predict(frame).shape == (200,)


def test_calibration():
    frame = mixed(200)
    y = np.where(in_pairs(frame) > 0, "up", "down")
    calibrated = CalibratedClassifierCV(classifier(), cv=2).fit(frame, y)
    np.testing.assert_allclose(calibrated.predict_proba(frame).sum(1), 1, atol=1e-12)
    assert list(calibrated.classes_) == ["down", "up"]


def test_a_clone_is_unfitted_and_has_all_parameters():
    model = regressor(max_order=2, monotonic_cst={"a": 1}, loss="quantile", quantile=0.3)
    model.fit(numbers(100), in_pairs(numbers(100)))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    for ask in (copy.predict, copy.explain, copy.value_spread):
        with pytest.raises(NotFittedError):
            ask(numbers(3))
    with pytest.raises(NotFittedError):
        copy.save("nowhere.hnet")


def test_a_pickle_gives_the_same_bits():
    frame = mixed()
    model = classifier(members=2).fit(frame, np.digitize(in_pairs(frame), [-1, 1]))
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    for again in (joblib.load(file), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.decision_function(frame), model.decision_function(frame))
        for game in ("missing", "marginal"):
            np.testing.assert_array_equal(
                again.explain(frame, game=game).values, model.explain(frame, game=game).values
            )
        np.testing.assert_array_equal(again.value_spread(frame), model.value_spread(frame))
        assert again.predict(frame).tolist() == model.predict(frame).tolist()


def test_a_pickle_leaves_planned_tables_behind():
    frame = mixed()
    model = classifier().fit(frame, in_pairs(frame) > 0)
    before = len(pickle.dumps(model))
    model.explain(frame).index("SII", 3)
    assert len(pickle.dumps(model)) <= before


# Files


def test_a_file_gives_the_same_bits(tmp_path):
    frame = mixed()
    y = np.where(in_pairs(frame) > 0, "up", "down")
    model = classifier(
        class_weight={"up": 2.0, "down": 1.0}, forbidden=[("a", "colour")], members=2, monotonic_cst={"b": 1}
    ).fit(frame, y, eval_set=(frame, y))
    for write in (model.save, lambda path: save(model, path)):
        write(tmp_path / "model.hnet")
        again = load(tmp_path / "model.hnet")
        assert type(again) is HarsanyiClassifier
        assert again.get_params() == model.get_params() | {"forbidden": [["a", "colour"]]}
        np.testing.assert_array_equal(again.decision_function(frame), model.decision_function(frame))
        for game in ("missing", "marginal"):
            a, b = again.explain(frame, game=game), model.explain(frame, game=game)
            np.testing.assert_array_equal(a.values, b.values)
            np.testing.assert_array_equal(a.dividends, b.dividends)
            assert (a.feature_names, a.output_names) == (b.feature_names, b.output_names)
        np.testing.assert_array_equal(again.value_spread(frame), model.value_spread(frame))
        np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
        np.testing.assert_array_equal(again.classes_, model.classes_)
        np.testing.assert_array_equal(again.history_.losses, model.history_.losses)
        assert again.history_.settings() == model.history_.settings()
        assert (again.n_iter_, again.learning_rate_, again.n_features_in_) == (model.n_iter_, 0.1, 3)
        assert again.feature_names_in_.tolist() == ["a", "b", "colour"]
        assert clone(again).get_params() == again.get_params()


@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"], [False, True], [1.0, 2.0, 3.0]], ids=str)
def test_labels_come_back_from_a_file(labels, tmp_path):
    frame = numbers(90)
    y = np.array(labels)[np.arange(90) % len(labels)]
    model = classifier(max_iter=2).fit(frame, y)
    model.save(tmp_path / "m.hnet")
    again = load(tmp_path / "m.hnet")
    assert again.classes_.tolist() == sorted(labels)
    assert again.predict(frame).tolist() == model.predict(frame).tolist()
    assert again.predict(frame).dtype.kind == model.predict(frame).dtype.kind


@pytest.mark.parametrize("loss", ["squared", "absolute", "quantile", "poisson"])
def test_a_regressor_comes_back_from_a_file(loss, tmp_path):
    frame = mixed()
    model = regressor(loss=loss).fit(frame, np.abs(in_pairs(frame)))
    model.save(tmp_path / "m.hnet")
    again = load(tmp_path / "m.hnet")
    assert type(again) is HarsanyiRegressor
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.predict(frame).shape == (300,)


def test_a_model_of_an_array_knows_no_names_after_a_file(tmp_path):
    x = numbers().to_numpy()
    model = regressor().fit(x, x[:, 0])
    model.save(tmp_path / "m.hnet")
    again = load(tmp_path / "m.hnet")
    assert not hasattr(again, "feature_names_in_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_a_file_whose_parts_do_not_fit_is_refused(tmp_path):
    from harsanyinet import files

    model = regressor().fit(numbers(), in_pairs(numbers()))
    arrays, meta = model.to_arrays()
    for name, change in (
        ("trees.values", lambda a: a[:-1]),
        ("trees.player_of", lambda a: a[::-1].copy()),
        ("trees.level_columns", lambda a: a + 100),
        ("borders", lambda a: a[:-5]),
    ):
        files.save_arrays(tmp_path / "bad.hnet", "HarsanyiRegressor", arrays | {name: change(arrays[name])}, meta)
        with pytest.raises(ModelFileError, match="its settings do not fit its weights"):
            load(tmp_path / "bad.hnet")


# Random numbers


@pytest.mark.parametrize("make", [classifier, regressor])
def test_the_same_seed_gives_the_same_bits_and_no_global_state_is_touched(make):
    frame = mixed(200)
    y = in_pairs(frame)
    y = y > 0 if make is classifier else y
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = make(learning_rate=None).fit(frame, y)
    again, other = make(learning_rate=None).fit(frame, y), make(learning_rate=None, random_state=1).fit(frame, y)
    with_state = make(random_state=np.random.RandomState(7)).fit(frame, y)
    unseeded = make(random_state=None).fit(frame, y)
    first.explain(frame)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    a, b, c, d, e = (model.explain(frame).values for model in (first, again, other, with_state, unseeded))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first.feature_importances_, again.feature_importances_)
    assert not np.array_equal(a, c)
    assert not np.array_equal(make().fit(frame, y).explain(frame).values, e)
    np.testing.assert_array_equal(d, make(random_state=np.random.RandomState(7)).fit(frame, y).explain(frame).values)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_the_same_bits_at_one_and_two_threads(make, monkeypatch):
    from harsanyinet.tables import boosting

    monkeypatch.setattr(boosting, "ENOUGH_FOR_THREADS", 0)
    frame = mixed(600)
    y = in_pairs(frame)
    y = np.digitize(y, [-1, 1]) if make is classifier else y
    one, two, every = (make(n_jobs=n, max_iter=15).fit(frame, y) for n in (1, 2, -1))
    for other in (two, every):
        np.testing.assert_array_equal(other.trees_.values, one.trees_.values)
        np.testing.assert_array_equal(other.trees_.counts, one.trees_.counts)
        np.testing.assert_array_equal(other.explain(frame).values, one.explain(frame).values)


def test_the_default_finds_its_learning_rate():
    frame = numbers(400)
    y = in_pairs(frame)
    model = regressor(learning_rate=None, max_iter=150).fit(frame, y)
    assert 0 < model.learning_rate_ <= 1
    history = model.history_
    assert history.n_rows > 0
    assert len(history.losses) > history.best > 0
    assert history.losses[history.best] < 0.7 * history.losses[0]
    assert set(history.scores) == {"RMSE", "R2"}
    assert 0.5 < history.scores["R2"] < 1
    fresh = numbers(400, seed=5)
    r2 = 1 - ((model.predict(fresh) - in_pairs(fresh)) ** 2).mean() / in_pairs(fresh).var()
    assert r2 > 0.6
    # what rows held out said is near what fresh rows say; the model then learned from a quarter more rows
    assert history.scores["R2"] == pytest.approx(r2, abs=0.2)
    assert history.scores["RMSE"] == pytest.approx(np.sqrt(1 - history.scores["R2"]) * y.std(), rel=0.15)


# Targets


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


def test_squared_loss_finds_the_mean_and_the_absolute_one_the_median():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"side": rng.integers(0, 2, 1500)})
    y = 10 * frame["side"] + rng.exponential(2.0, 1500)  # mean 2, median 1.39
    for loss, expected in (("squared", 2.0), ("absolute", 2 * np.log(2))):
        model = regressor(loss=loss, max_iter=150).fit(frame, y)
        np.testing.assert_allclose(model.predict(pd.DataFrame({"side": [0, 1]})), [expected, 10 + expected], atol=0.25)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_a_quantile_covers_its_share(quantile):
    rng = np.random.default_rng(0)
    frame = numbers(2000, 2)
    y = frame["a"] + rng.normal(size=2000) * (1 + (frame["b"] > 0))
    model = regressor(loss="quantile", quantile=quantile).fit(frame[:1500], y[:1500])
    covered = (y[1500:] <= model.predict(frame[1500:])).mean()
    assert covered == pytest.approx(quantile, abs=0.08)  # 500 rows: two standard deviations are 0.045


def test_poisson_counts():
    rng = np.random.default_rng(0)
    frame = numbers(1500, 3)
    mean = np.exp(0.5 * frame["a"] + 0.3 * (frame["b"] > 0))
    y = rng.poisson(mean)
    model = regressor(loss="poisson", max_iter=60).fit(frame, y)
    predicted = model.predict(frame)
    assert predicted.min() > 0
    np.testing.assert_allclose(np.log(predicted), model.explain(frame).outputs, 0, 1e-12)
    assert predicted.mean() == pytest.approx(y.mean(), rel=0.05)
    assert np.corrcoef(predicted, mean)[0, 1] > 0.95
    with pytest.raises(
        ValueError, match=r"^y must not be negative with loss='poisson', however: its minimum is -1\.0$"
    ):
        regressor(loss="poisson").fit(frame, y - 1.0)


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


def test_a_target_moved_and_stretched_moves_and_stretches_the_model():
    frame = mixed()
    y = in_pairs(frame)
    a, b = regressor().fit(frame, y), regressor().fit(frame, 1e6 + 1000 * y)
    scale = 1000 * np.abs(y).max()
    np.testing.assert_allclose(b.explain(frame).values, 1000 * a.explain(frame).values, 0, 1e-7 * scale)


# Tables


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
        assert [column.kind for column in model.columns_] == ["number", "category"]
        np.testing.assert_array_equal(model.predict(given), expected)
        assert not hasattr(model, "feature_names_in_")
    assert model.game(rows, 0)(np.ones((2, 2), dtype=bool)).shape == (2,)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_arrays_of_numbers_of_every_type(dtype):
    x = (numbers(300).to_numpy() * 10).astype(dtype)
    model = regressor().fit(x, x[:, 0].astype(float) * x[:, 1])
    expected = model.predict(x.astype(np.float64))
    np.testing.assert_array_equal(model.predict(x), expected)
    np.testing.assert_array_equal(model.predict(np.asfortranarray(x)), expected)
    np.testing.assert_array_equal(model.predict(x[::-1])[::-1], expected)
    np.testing.assert_array_equal(model.predict(x.tolist()), expected)
    ex = model.explain(x)
    np.testing.assert_array_equal(np.asarray(ex.data, dtype=float), x)


def test_names_and_importances():
    frame = mixed(400)
    frame = frame[frame["a"].notna()].reset_index(drop=True)
    model = regressor().fit(frame, 3 * frame["b"] + 0.01 * (frame["colour"] == "red"))
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["a", "b", "colour"]
    assert model.feature_importances_.shape == (3,)
    assert model.feature_importances_.dtype == np.float64
    assert model.feature_importances_.argmax() == 1
    values = model.explain(frame).values  # all rows, since there are fewer than 2000, and few levels
    np.testing.assert_allclose(model.feature_importances_, np.abs(values).mean(0), rtol=1e-10)
    assert model.explain(frame).data[0, 1] == frame["b"][0]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))
    np.testing.assert_array_equal(model.predict(frame[["b", "a", "colour"]]), model.predict(frame))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(frame.to_numpy(dtype=object))


def test_unseen_categories_are_absent_and_other_types_are_errors():
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


def test_a_missing_value_is_a_value_or_an_absence():
    frame = mixed()
    y = in_pairs(frame) + 5 * frame["a"].isna()
    some, none = frame.iloc[:40], frame.iloc[:40].assign(a=np.nan)
    value, absent = regressor().fit(frame, y), regressor(missing="absent").fit(frame, y)
    assert value.columns_[0].missing
    assert not absent.columns_[0].missing
    without = [False, True, True]
    np.testing.assert_array_equal(absent.predict(none), absent.predict(some, present=without))
    assert not np.array_equal(value.predict(none), value.predict(some, present=without))
    # where nothing was missing in fit, a missing value is an absence, unless it is said to be a value
    whole = frame.assign(a=frame["a"].fillna(0.0))
    model = regressor().fit(whole, y)
    np.testing.assert_array_equal(model.predict(none), model.predict(some, present=without))
    assert regressor(missing="value").fit(whole, y).columns_[0].missing


def test_one_row_from_a_dict_a_frame_and_an_array():
    frame = mixed()
    model = regressor().fit(frame, in_pairs(frame))
    for row in range(12):
        one = frame.iloc[row : row + 1]
        given = dict(one.iloc[0].items())
        np.testing.assert_array_equal(model.predict(given), model.predict(one))
        for game in ("missing", "marginal"):
            a, b = model.explain(given, game=game), model.explain(one, game=game)
            np.testing.assert_array_equal(a.values, b.values)
            assert [str(v) for v in a.data[0]] == [str(v) for v in b.data[0]]
    known = {name: value for name, value in frame.iloc[1].items() if name != "b"}
    np.testing.assert_array_equal(model.predict(known), model.predict(frame[1:2], present=[True, False, True]))
    with pytest.raises(ValueError, match=r"^a row must name columns of the model, however: 'weight'$"):
        model.predict({"a": 1.0, "weight": 2.0})
    x = numbers(200).to_numpy()
    model = classifier().fit(x, x[:, 0] > 0)
    np.testing.assert_array_equal(
        model.decision_function({f"x{i}": x[3, i] for i in range(4)}), model.decision_function(x)[3:4]
    )
    np.testing.assert_array_equal(model.decision_function(x[3:4]), model.decision_function(x)[3:4])


@pytest.mark.parametrize(
    "bad",
    [
        {"b": "many"}, {"b": np.inf}, {"b": 1j}, {"b": pd.Timestamp("2020")}, {"colour": [1]},
        {"colour": pd.Timestamp("2020")},
    ],
    ids=str,
)  # fmt: skip
def test_one_row_is_refused_with_the_words_for_many(bad):
    frame = mixed()
    model = regressor(max_iter=2).fit(frame, in_pairs(frame))
    two = pd.DataFrame([{"a": 1.0, "b": 2.0, "colour": "red"} | bad] * 2, index=["seven", "eight"])
    found = []
    for rows in (two, two[:1]):
        with pytest.raises((TypeError, ValueError)) as error:
            model.predict(rows)
        found.append((type(error.value), str(error.value)))
    assert found[0] == found[1]


def test_many_rows_are_like_few():
    """Compiled loops from some number of rows on, chunks, threads: the same bits."""
    frame = mixed()
    model = classifier(n_jobs=2).fit(frame, in_pairs(frame) > 0)
    rows = np.random.default_rng(0).integers(0, 300, 70_000)
    many = frame.iloc[rows]
    np.testing.assert_array_equal(model.decision_function(many), model.decision_function(frame)[rows])
    np.testing.assert_array_equal(model.explain(many).values, model.explain(frame).values[rows])


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


# Constraints


def sizes(model, frame: pd.DataFrame) -> list[int]:
    return model.explain(frame[:2]).coalitions.sum(1).tolist()


@pytest.fixture(scope="module")
def product():
    """Two pairs and a triple among six columns of signs."""
    frame = np.sign(numbers(400, 6))
    y = 3 * frame["a"] * frame["b"] + 3 * frame["c"] * frame["d"] + 3 * frame["d"] * frame["e"] * frame["f"]
    return frame, y


@pytest.mark.parametrize("max_order", [1, 2, 3, 4, 9])
def test_no_coalition_is_larger_than_max_order(product, max_order):
    frame, y = product
    found = sizes(regressor(max_order=max_order).fit(frame, y), frame)
    assert min(max_order, 3) <= max(found) <= min(max_order, 6)


@pytest.mark.parametrize(("word", "order"), [("no_interactions", 1), ("pairwise", 2)])
def test_words_for_interactions(product, word, order):
    frame, y = product
    assert max(sizes(regressor(interaction_cst=word).fit(frame, y), frame)) == order
    assert max(sizes(regressor(interaction_cst=word, max_order=1).fit(frame, y), frame)) == 1


def test_columns_act_together_only_within_interactions(product):
    """Columns that are named nowhere form a set of their own, as scikit-learn has it."""
    frame, y = product
    model = regressor(interaction_cst=[("a", "b", "c"), ["d", 4]], max_iter=60).fit(frame, y)
    within = [{0, 1, 2}, {3, 4}, {5}]
    found = [set(np.flatnonzero(row)) for row in model.explain(frame[:2]).coalitions]
    assert {0, 1} in found
    for members in found:
        assert any(members <= allowed for allowed in within), members


def test_forbidden_pairs_are_in_no_coalition(product):
    frame, y = product
    model = regressor(forbidden=[("a", "b"), (3, "e")], max_iter=60).fit(frame, y)
    coalitions = model.explain(frame[:2]).coalitions
    assert max(coalitions.sum(1)) >= 2
    for pair in ([0, 1], [3, 4]):
        assert not coalitions[:, pair].all(axis=1).any()
    every = list(combinations(range(6), 2))
    assert max(sizes(regressor(forbidden=every).fit(frame, y), frame)) == 1


@pytest.mark.parametrize("given", ["dict", "list", "numbers"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ["regression", "binary", "poisson"])
def test_monotone_columns(sign, kind, given):
    """Against the data, which say the contrary in the middle; with others, and with others absent."""
    frame = numbers(500, 3)
    signal = sign * (frame["a"] - 2 * np.exp(-4 * frame["a"] ** 2)) + frame["a"] * frame["b"] + frame["b"] * frame["c"]
    signs = {"dict": {"a": sign, "c": 0}, "list": [sign, 0, 0], "numbers": {0: sign}}[given]
    options = {"monotonic_cst": signs, "max_iter": 60}
    if kind == "binary":
        model = classifier(**options).fit(frame, signal > 0)
    elif kind == "poisson":
        model = regressor(loss="poisson", **options).fit(frame, np.clip(signal.round() + 1, 0, None))
    else:
        model = regressor(**options).fit(frame, signal)
    grid = np.linspace(-5, 5, 501)
    moved = 0.0
    for row in (0, 1, 2):
        shown = frame.iloc[[row] * len(grid)].assign(a=grid)
        for present in ([True] * 3, [True, False, False], [True, True, False], [True, False, True]):
            raw = model.explain(shown, present=np.array(present)).outputs
            steps = sign * np.diff(raw)
            assert steps.min() >= -1e-12 * np.abs(raw).max()
            moved = max(moved, steps.sum() / np.abs(raw).max())
    assert moved > 0.1
    assert (model.explain(frame[:2]).coalitions[:, 0].sum()) > 1  # the column acts together with others


def test_columns_of_numbers_that_are_names():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"code": rng.integers(0, 6, 600), "x": rng.normal(size=600)})
    y = np.array([5, -3, 4, -5, 0, 2])[frame["code"]] + frame["x"]
    model = regressor(categorical_features=["code"], max_iter=60).fit(frame, y)
    assert [column.kind for column in model.columns_] == ["category", "number"]
    assert np.corrcoef(model.predict(frame), y)[0, 1] > 0.95
    np.testing.assert_array_equal(model.predict(frame.astype({"code": float})), model.predict(frame))
    for same in ([0], [True, False]):
        np.testing.assert_array_equal(
            regressor(categorical_features=same, max_iter=60).fit(frame, y).predict(frame), model.predict(frame)
        )
    with pytest.raises(ValueError, match="monotone columns must hold numbers, however: 'code' holds categories"):
        regressor(categorical_features=[0], monotonic_cst={"code": 1}).fit(frame, y)


# Rows held out, time


def test_early_stopping_keeps_the_best_number_of_trees():
    rng = np.random.default_rng(0)
    frame = numbers(600)
    y = (in_pairs(frame) + 2 * rng.normal(size=600) > 0).astype(int)
    fresh = numbers(300, seed=7)
    theirs = (in_pairs(fresh) + 2 * rng.normal(size=300) > 0).astype(int)
    model = classifier(early_stopping=True, n_iter_no_change=10, max_iter=400, learning_rate=0.3)
    model.fit(frame, y, eval_set=(fresh, theirs))
    losses = model.history_.losses
    best = model.history_.best
    assert best == int(np.argmin(losses)) < 80
    assert len(losses) == best + 11
    assert best <= model.n_iter_ < 2 * best  # those after the best teach what to say from some of the columns
    assert model.history_.n_rows == 300
    # the model that is kept has the loss that was the best
    proba = model.predict_proba(fresh)
    assert log_loss(theirs, proba) == pytest.approx(losses.min(), rel=1e-9)
    assert model.history_.scores["log-loss"] == pytest.approx(losses.min(), rel=1e-9)
    assert model.history_.scores["accuracy"] == pytest.approx((model.predict(fresh) == theirs).mean())
    assert losses[0] == pytest.approx(log_loss(theirs, np.full(300, y.mean())), rel=1e-6)


def test_early_stopping_on_rows_of_its_own():
    rng = np.random.default_rng(0)
    frame = numbers(500)
    y = in_pairs(frame) + rng.normal(size=500)
    model = regressor(early_stopping=True, validation_fraction=0.2, n_iter_no_change=8, max_iter=300, learning_rate=0.3)
    model.fit(frame, y)
    assert model.history_.n_rows == 100
    assert model.history_.best <= model.n_iter_ < 200
    again = clone(model).fit(frame, y)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    # all training rows are the background of the marginal game, those held out too
    base = model.explain(frame[:2], game="marginal").base_values
    assert base == pytest.approx(model.predict(frame).mean(), rel=1e-10)


def test_classes_are_held_out_in_their_shares():
    y = np.repeat([0, 1, 2], [170, 20, 10])
    model = classifier(early_stopping=True, validation_fraction=0.2, max_iter=5).fit(numbers(200), y)
    assert model.history_.n_rows == pytest.approx(40, abs=1)
    assert model.decision_function(numbers(200)).shape == (200, 3)


def test_rows_to_watch_without_stopping():
    frame = numbers(300)
    y = in_pairs(frame)
    model = regressor(n_iter_no_change=1).fit(
        frame, y, eval_set=(numbers(100, seed=3).to_numpy(), in_pairs(numbers(100, seed=3)))
    )
    assert 20 < len(model.history_.losses) <= 31  # before the first tree and after each that learns from the rows
    plain = regressor().fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(frame))  # watching changes nothing
    r2 = (
        1
        - ((model.predict(numbers(100, seed=3)) - in_pairs(numbers(100, seed=3))) ** 2).mean()
        / in_pairs(numbers(100, seed=3)).var()
    )
    assert model.history_.scores["R2"] == pytest.approx(r2, rel=1e-9)
    with pytest.raises(ValueError, match=r"^eval_set must have the columns of X, however: a, b, c"):
        regressor().fit(frame, y, eval_set=(frame[["a", "b", "c"]], y))
    with pytest.raises(ValueError, match=r"^eval_set must hold classes that y holds, however: it has others$"):
        classifier().fit(frame, y > 0, eval_set=(frame, np.arange(300) % 3))


def test_scores_of_several_targets_do_not_depend_on_their_order():
    """They are in units of the targets, not of the first one."""
    frame, other = numbers(300), numbers(100, seed=3)
    y, theirs = (np.column_stack([in_pairs(f), 1000 * f["c"]]) for f in (frame, other))
    found = [
        regressor().fit(frame, y[:, order], eval_set=(other, theirs[:, order])).history_.scores
        for order in ([0, 1], [1, 0])
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert found[0]["RMSE"] > 10


def test_watching_alone_never_stops():
    frame = numbers(100)
    y, theirs = np.random.default_rng(0).normal(size=(2, 100))  # noise: the loss of other rows rises at once
    model = regressor(n_iter_no_change=1, learning_rate=0.5).fit(frame, y, eval_set=(numbers(100, seed=3), theirs))
    losses = model.history_.losses
    assert losses[-1] > losses[0]
    assert len(losses) > 20
    stopped = regressor(n_iter_no_change=1, learning_rate=0.5, early_stopping=True)
    assert len(stopped.fit(frame, y, eval_set=(numbers(100, seed=3), theirs)).history_.losses) < 10


@pytest.mark.parametrize("rate", [0.05, None])
def test_a_time_budget_gives_the_model_so_far(rate):
    """Looking for the learning rate is part of the budget: five quick fits of six classes would take longer."""
    frame = numbers(1000, 8)
    y = np.digitize(in_pairs(frame), [-2, -1, 0, 1, 2])
    classifier(max_iter=2).fit(frame, y)  # compiled loops
    started = time.monotonic()
    model = classifier(max_iter=10**6, learning_rate=rate, max_seconds=0.5).fit(frame, y)
    assert time.monotonic() - started < 2.0  # the last tree is finished, and values are counted
    assert np.isfinite(model.predict_proba(frame)).all()
    assert model.explain(frame[:3]).values.shape == (3, 8, 6)
    assert 1 <= model.n_iter_ < 10**6
    assert (model.predict(frame) == y).mean() > 0.4


def test_a_budget_of_no_time_is_a_constant():
    frame = numbers(100)
    model = regressor(max_seconds=1e-9, max_iter=10**6).fit(frame, frame["a"])
    assert model.n_iter_ <= 1
    assert np.abs(model.predict(frame) - frame["a"].mean()).max() < 0.5


def test_a_large_enough_budget_changes_nothing():
    frame = mixed()
    a, b = (regressor(max_seconds=s, members=2).fit(frame, in_pairs(frame)) for s in (None, 1000.0))
    np.testing.assert_array_equal(a.predict(frame), b.predict(frame))


# Members and masks


def test_members_disagree_by_the_spread_of_their_values():
    frame = mixed()
    y = np.digitize(in_pairs(frame), [-1, 1])
    model = classifier(members=3).fit(frame, y)
    assert len(model.member_ends_) == 3
    spread = model.value_spread(frame)
    assert spread.shape == (300, 3, 3)
    coded = model._coded(frame)[1]
    each = []
    for start, stop in zip([0, *model.member_ends_[:-1]], model.member_ends_, strict=True):
        one = model.trees_.part(start, stop)
        own = Explanation(base_values=one.base, dividends=TreeDividends(TreeGame(one), coded), copy=False)
        each.append(3 * own.values)  # a member counts a third in the mean
    np.testing.assert_allclose(np.mean(each, axis=0), model.explain(frame).values, 0, 1e-12 * np.abs(each).max())
    np.testing.assert_allclose(spread, np.std(each, axis=0), 0, 1e-12 * np.abs(each).max())
    assert spread.max() > 0.01
    with pytest.raises(ValueError, match=r"^value_spread compares members, however: there is one; fit with members=5"):
        regressor().fit(frame, in_pairs(frame)).value_spread(frame)


def test_an_explanation_keeps_the_index_and_says_what_its_outputs_are():
    frame = numbers(60).set_axis([f"row {i}" for i in range(60)])
    ex = classifier().fit(frame, np.where(frame["a"] > 0, "yes", "no")).explain(frame)
    assert ex.to_frame()["row"].tolist()[::4] == frame.index.tolist()
    assert ex.row_position("row 7") == 7
    assert ex.output_label(0) == "log-odds of yes"
    assert classifier().fit(frame, np.digitize(frame["a"], [-0.5, 0.5])).explain(frame).output_label(2) == "logit of 2"
    price = (10 + frame["a"]).rename("price")
    assert regressor().fit(frame, price).explain(frame).output_label(0) == "price"
    assert regressor(loss="poisson").fit(frame, price).explain(frame).output_label(0) == "logarithm of price"
    for rows in (frame.reset_index(drop=True), frame.to_numpy()):
        model = regressor().fit(rows, price.to_numpy())
        assert model.explain(rows).row_names is None
        assert model.explain(rows).output_label(0) == "output"


@pytest.mark.parametrize("kind", ["mixed", "numbers", "array", "objects"])
def test_an_explanation_does_not_change_with_the_callers_table(kind):
    frame = mixed(60) if kind == "mixed" else numbers(60)
    rows = frame if kind in ("mixed", "numbers") else np.array(frame, dtype=float if kind == "array" else object)
    model = regressor().fit(rows, frame["b"].to_numpy())
    ex = model.explain(rows)
    before = frame.to_numpy(dtype=object).copy()
    if isinstance(rows, pd.DataFrame):
        rows.loc[0, "b"] = 99.0
        rows["a"] = 98.0
    else:
        rows[0, 1] = 99.0
    assert [str(cell) for cell in ex.data[0]] == [str(cell) for cell in before[0]]


def test_the_first_member_is_the_model_of_one():
    frame = mixed()
    one, two = (regressor(members=n).fit(frame, in_pairs(frame)) for n in (1, 2))
    first = two.trees_.part(0, int(two.member_ends_[0]))
    np.testing.assert_allclose(2 * first.values, one.trees_.values, 1e-12)


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
    for wrong, found in (([1, 0, 1], "int64"), (["a", 1, None], "object"), ([1.0, 0.5, 0.0], "float64")):
        with pytest.raises(
            TypeError, match=rf"^present must be bool, True where a column is there, or names, however: {found}$"
        ):
            model.explain(few, present=wrong)


def test_the_game_is_that_of_the_predictions():
    frame = mixed()
    model = regressor().fit(frame, in_pairs(frame))
    masks = np.array([[True, True, True], [False, True, True], [False, False, False]])
    for row in (0, 5):
        expected = [model.predict(frame.iloc[row : row + 1], present=mask)[0] for mask in masks]
        np.testing.assert_array_equal(model.game(frame, row)(masks), expected)


def test_games_are_asked_for_by_name():
    frame = mixed()
    model = regressor().fit(frame, in_pairs(frame))
    message = r"^the baseline game, and no other, needs baseline=, a row of reference values$"
    for options in ({"game": "baseline"}, {"baseline": frame[:1]}, {"game": "marginal", "baseline": frame[:1]}):
        with pytest.raises(ValueError, match=message):
            model.explain(frame, **options)
    with pytest.raises(ValueError, match=r"^game must be one of missing, marginal, baseline, however: 'shap'$"):
        model.explain(frame, game="shap")
    with pytest.raises(ValueError, match=r"^baseline must be one row, however: 2 rows$"):
        model.explain(frame, game="baseline", baseline=frame[:2])
    by_dict = model.explain(frame, game="baseline", baseline=dict(frame.iloc[3].items()))
    by_frame = model.explain(frame, game="baseline", baseline=frame[3:4])
    np.testing.assert_array_equal(by_dict.values, by_frame.values)
    np.testing.assert_allclose(by_frame.values[3], 0, atol=1e-12)  # against itself
    assert by_frame.base_values == pytest.approx(model.predict(frame)[3], rel=1e-12)


# Edges and errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 0}, "members must be a positive integer, however: members=0"),
        ({"members": 2.5}, "members must be a positive integer, however: members=2.5"),
        ({"members": True}, "members must be a positive integer, however: members=True"),
        ({"max_iter": 0}, "max_iter must be a positive integer, however: max_iter=0"),
        ({"max_iter": "8"}, "max_iter must be a positive integer, however: max_iter='8'"),
        ({"learning_rate": 0.0}, "learning_rate must be positive or None, however: learning_rate=0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive or None, however: learning_rate=nan"),
        ({"max_depth": 9}, "max_depth must be an integer from 1 to 8, however: max_depth=9"),
        ({"max_order": 0}, "max_order must be a positive integer, however: max_order=0"),
        ({"max_order": 1.5}, "max_order must be a positive integer, however: max_order=1.5"),
        ({"max_order": None}, "max_order must be a positive integer, however: max_order=None"),
        ({"max_bins": 3}, "max_bins must be an integer from 4 to 255, however: max_bins=3"),
        ({"max_bins": 256}, "max_bins must be an integer from 4 to 255, however: max_bins=256"),
        ({"l2_regularization": 0}, "l2_regularization must be positive, however: l2_regularization=0"),
        ({"max_samples": 1.5}, "max_samples must be in (0, 1], or None, however: max_samples=1.5"),
        ({"max_features": 0.0}, "max_features must be in (0, 1], or None, however: max_features=0.0"),
        ({"copies": -1}, "copies must be zero, a positive integer or None, however: copies=-1"),
        ({"missing": "mean"}, "missing must be auto, value or absent, however: missing='mean'"),
        (
            {"interaction_cst": ["ab"]},
            "interaction_cst must be sets of names or numbers of columns, 'pairwise', 'no_interactions', or None, "
            "however: interaction_cst=['ab']",
        ),
        (
            {"interaction_cst": "triples"},
            "interaction_cst must be sets of names or numbers of columns, 'pairwise', 'no_interactions', or None, "
            "however: interaction_cst='triples'",
        ),
        (
            {"interaction_cst": [("a", "z")]},
            "interaction_cst must name columns of the table or their numbers, however: 'z'",
        ),
        ({"forbidden": [("a", 9)]}, "forbidden must name columns of the table or their numbers, however: 9"),
        ({"forbidden": [("a", "a")]}, "forbidden must hold pairs of different columns, however: ['a', 'a']"),
        ({"forbidden": 3}, "forbidden must be pairs of names or numbers of columns, or None, however: forbidden=3"),
        (
            {"monotonic_cst": "a"},
            "monotonic_cst must be a dict of columns, or numbers, or None, however: monotonic_cst='a'",
        ),
        ({"monotonic_cst": [1]}, "monotonic_cst must have one entry for each of 4 columns, however: 1"),
        ({"monotonic_cst": {"a": 2}}, "monotonic_cst must say 1, -1 or 0 for a column, however: 2 for 'a'"),
        ({"monotonic_cst": {"z": 1}}, "monotonic_cst must name columns of the table or their numbers, however: 'z'"),
        (
            {"categorical_features": "a"},
            "categorical_features must be names or numbers of columns, or None, however: categorical_features='a'",
        ),
        (
            {"categorical_features": ["z"]},
            "categorical_features must name columns of the table or their numbers, however: 'z'",
        ),
        (
            {"categorical_features": [True]},
            "categorical_features as a mask must have 4 entries, however: 1",
        ),
        ({"early_stopping": "auto"}, "early_stopping must be True or False, however: early_stopping='auto'"),
        ({"validation_fraction": 1.0}, "validation_fraction must be in (0, 1), however: validation_fraction=1.0"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be a positive integer, however: n_iter_no_change=0"),
        ({"max_seconds": 0}, "max_seconds must be positive or None, however: max_seconds=0"),
        (
            {"n_jobs": 0},
            "n_jobs must be a number of threads, negative to count from all of them, or None, however: n_jobs=0",
        ),
        ({"random_state": "x"}, "'x' cannot be used to seed a numpy.random.RandomState instance"),
    ],
    ids=lambda given: str(given)[:40],
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


def test_bad_tables_to_predict():
    frame = numbers(100)
    model = regressor(max_iter=2).fit(frame, np.arange(100.0))
    with pytest.raises(ValueError, match=r"Found a table with 0 sample\(s\)"):
        model.predict(frame.iloc[:0])
    with pytest.raises(ValueError, match="'c', 'd' missing"):
        model.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match=r"2D array|2-dimensional"):
        model.predict(frame["a"])
    x = frame.to_numpy()
    model = regressor(max_iter=2).fit(x, np.arange(100.0))
    for ask in (model.predict, model.explain):
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            ask(x[:0])
        with pytest.raises(ValueError, match="column 'x1' contains infinity"):
            ask(np.where(np.arange(4) == 1, np.inf, x))
        with pytest.raises(ValueError, match="feature"):
            ask(x[:, :3])


@pytest.mark.parametrize("n_rows", [2, 3, 9, 20, 64])
def test_very_small_tables_of_every_type(n_rows):
    frame = mixed(n_rows)
    y = np.arange(float(n_rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = regressor().fit(frame, y)
        labels = classifier().fit(frame, y > y.mean())
    assert np.isfinite(model.predict(frame)).all()
    assert np.isfinite(labels.decision_function(frame)).all()


def test_without_copies_predictions_from_some_columns_are_averages():
    frame = numbers(200)
    model = regressor(copies=0).fit(frame, frame["a"])
    assert np.corrcoef(model.predict(frame), frame["a"])[0, 1] > 0.95
    assert model.predict(frame, present=[False] * 4) == pytest.approx(np.full(200, frame["a"].mean()), abs=1e-12)
    assert np.corrcoef(model.predict(frame, present=[True, False, False, False]), frame["a"])[0, 1] > 0.95


def test_parameters_do_not_change_in_fit():
    frame = mixed()
    model = regressor(max_order=9, monotonic_cst={"b": 1}, interaction_cst=[["a", "b"]])
    before = {name: repr(value) for name, value in model.get_params().items()}
    model.fit(frame, in_pairs(frame))
    assert {name: repr(value) for name, value in model.get_params().items()} == before


@pytest.mark.parametrize(
    "options",
    [
        {"max_depth": 1}, {"max_depth": 8, "max_order": 8}, {"max_bins": 4}, {"max_bins": 255}, {"max_samples": 0.3},
        {"max_features": 0.3}, {"copies": 3}, {"l2_regularization": 50.0}, {"n_jobs": -1},
    ],
    ids=str,
)  # fmt: skip
def test_parameters_at_their_ends(options):
    frame = numbers(300, 8)
    y = in_pairs(frame)
    model = regressor(**options).fit(frame, y)
    assert np.corrcoef(model.predict(frame), y)[0, 1] > 0.3
    ex = model.explain(frame[:5])
    np.testing.assert_allclose(ex.outputs, model.predict(frame[:5]), 0, 1e-12 * np.abs(y).max())
    assert max(column.n_bins[0] for column in model.columns_) <= options.get("max_bins", 128)
    asked = np.diff(model.trees_.level_ends, prepend=0)
    assert asked.max() <= options.get("max_depth", 6)


def test_progress_is_shown_on_stderr_and_only_when_asked_for(capsys):
    frame = numbers(100)
    for progress in (False, True):
        regressor(progress=progress, max_iter=3).fit(frame, frame["a"])
    assert capsys.readouterr().out == ""
