"""The two estimators for tables: scikit-learn's own checks, copies, files and losses."""

from __future__ import annotations

import io
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_tables import classifier, in_pairs, mixed, numbers, regressor

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, load, save
from harsanyinet.files import ModelFileError

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
        ("trees.columns", lambda a: a + 100),
        ("borders", lambda a: a[:-5]),
    ):
        files.save_arrays(tmp_path / "bad.hnet", "HarsanyiRegressor", arrays | {name: change(arrays[name])}, meta)
        with pytest.raises(ModelFileError, match="its settings do not fit its weights"):
            load(tmp_path / "bad.hnet")


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
