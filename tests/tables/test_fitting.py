"""Does a fitted model find the structure that made the data? Few columns matter, the others are noise."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

from harsanyinet import Explanation, HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables import fitting
from harsanyinet.tables.boosting import Booster

NAMES = list("abcdefg")
OPTIONS = {"max_iter": 200, "random_state": 0, "n_jobs": 1, "progress": False}
NOTHING = 0.02  # what all columns of noise together may get of the sum of all mean |values|


def columns(seed: int = 0, n_rows: int = 2500) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(n_rows, 7)), columns=NAMES)


def noise(frame: pd.DataFrame, seed: int = 100) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=len(frame))


def strongest(ex: Explanation, n: int) -> list[set[str]]:
    """The `n` sets of the largest mean |dividend|."""
    size = np.abs(ex.dividends).mean(0)
    return [{NAMES[i] for i in np.flatnonzero(ex.coalitions[c])} for c in np.argsort(-size)[:n]]


def share(ex: Explanation, names: str) -> float:
    """What these columns get of the sum of all mean |values|."""
    each = np.abs(ex.values).mean(0)
    return float(each[[NAMES.index(name) for name in names]].sum() / each.sum())


def others(sets: str) -> str:
    return "".join(name for name in NAMES if name not in sets)


@pytest.mark.parametrize("members", ["be", "adg"])
def test_a_pair_and_a_triple_of_signs(members):
    frame = np.sign(columns())
    y = frame[list(members)].prod(axis=1) + 0.3 * noise(frame)
    model = HarsanyiRegressor(**OPTIONS).fit(frame, y)
    for game in ("missing", "marginal"):
        ex = model.explain(frame, game=game)
        assert strongest(ex, 1) == [set(members)]
        assert share(ex, others(members)) < NOTHING
    assert 1 - ((model.predict(frame) - y) ** 2).mean() / y.var() > 0.88  # at best 0.917: the rest is noise


TARGETS = {
    "a c f": lambda f: f["a"] + np.sin(2 * f["c"]) + 0.5 * f["f"] ** 2,
    "be": lambda f: f["b"] * f["e"],
    "adg": lambda f: f["a"] * f["d"] * f["g"],
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("sets", TARGETS)
def test_smooth_targets(sets, seed):
    """Additive, a product of two, a product of three: the true sets come first and noise columns get nothing."""
    frame = columns(seed)
    truth = TARGETS[sets](frame)
    model = HarsanyiRegressor(**OPTIONS).fit(frame, truth + 0.3 * noise(frame, 100 + seed))
    true = [set(part) for part in sets.split()]
    assert ((model.predict(frame) - truth) ** 2).mean() < 0.06 * truth.var()
    for game in ("missing", "marginal"):
        ex = model.explain(frame, game=game)
        assert sorted(map(sorted, strongest(ex, len(true)))) == sorted(map(sorted, true))
        assert share(ex, others(sets)) < NOTHING


def test_exclusive_or():
    frame = columns()
    truth = (frame["c"] > 0) ^ (frame["d"] > 0)
    flipped = np.random.default_rng(1).random(len(frame)) < 0.1
    model = HarsanyiClassifier(**OPTIONS).fit(frame, truth ^ flipped)
    assert (model.predict(frame) == truth).mean() > 0.97
    for game in ("missing", "marginal"):
        ex = model.explain(frame, game=game)
        assert strongest(ex, 1) == [{"c", "d"}]
        assert share(ex, "abefg") < NOTHING


@pytest.mark.parametrize("seed", [0, 1])
def test_copies_share_what_they_say(seed):
    """Two columns that are the same in every row cannot be told apart, and neither is needed more."""
    frame = columns(seed)
    frame["g"] = frame["a"]
    model = HarsanyiRegressor(**OPTIONS).fit(frame, 2 * frame["a"] + 0.3 * noise(frame, 100 + seed))
    ex = model.explain(frame)
    assert sorted(map(sorted, strongest(ex, 3))) == [["a"], ["a", "g"], ["g"]]
    assert share(ex, "a") == pytest.approx(share(ex, "g"), rel=0.1)
    assert share(ex, "bcdef") < NOTHING
    for present in ("a", "g"):  # with one of them away, the prediction rests on the other
        kept = np.array([name == present for name in NAMES])
        assert np.corrcoef(model.predict(frame, present=kept), frame["a"])[0, 1] > 0.98


def test_a_target_of_noise_is_hardly_predicted():
    """With the default number of trees, which is many for a target that has nothing to say."""
    frame = columns()
    model = HarsanyiRegressor(**OPTIONS | {"max_iter": 1000}).fit(frame, noise(frame))
    assert model.predict(frame).std() < 0.05


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_beside_a_few_rows(seed):
    """No column of noise above 5 % of the strongest, all nine together at most 12 %, in both games."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 11))
    model = HarsanyiClassifier(**OPTIONS | {"random_state": seed}).fit(x, x[:, 0] + x[:, 1] > 0)
    for game in ("missing", "marginal"):
        each = np.abs(model.explain(x, game=game).values).mean(0)
        assert each[2:].max() < 0.05 * each.max()
        assert each[2:].sum() < 0.12 * each.max()


def test_a_column_that_stands_for_another():
    """x1 = round(x0), y = x0 + x2 / 2: v({x1}) says what the means by x1 say; the model itself does not look at x1."""
    rng = np.random.default_rng(0)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        x = rng.normal(size=(2000, 3))
        x[:, 1] = x[:, 0].round()
        return x, x[:, 0] + x[:, 2] / 2

    (x, y), (fresh, theirs) = draw(), draw()
    model = HarsanyiRegressor(**OPTIONS).fit(x, y)

    def r2(predicted: np.ndarray) -> float:
        return 1 - ((predicted - theirs) ** 2).mean() / theirs.var()

    means = pd.Series(y).groupby(x[:, 1]).mean()
    retrained = means.reindex(fresh[:, 1]).fillna(y.mean()).to_numpy()
    assert r2(retrained) > 0.7
    assert r2(model.predict(fresh, present=[False, True, False])) > 0.95 * r2(retrained)
    assert r2(model.predict(fresh)) > 0.97
    missing, marginal = (np.abs(model.explain(x, game=game).values).mean(0) for game in ("missing", "marginal"))
    assert missing[1] > 0.3 * missing[0]
    assert marginal[1] < 0.25 * marginal[0]


def test_petals_tell_irises_apart():
    x, y = load_iris(return_X_y=True, as_frame=True)
    model = HarsanyiClassifier(**OPTIONS).fit(x, y)
    each = np.abs(model.explain(x).values).mean((0, 2))
    assert each[:2].sum() / each.sum() < 0.3


def test_large_steps_are_made_smaller_by_more_trees():
    """A target far from its mean: more trees, unless they are counted, and as far in all."""
    frame = columns(n_rows=400)
    target = 3 * frame["a"] + 2 * frame["b"] * frame["c"]
    counted, free = (HarsanyiRegressor(**OPTIONS | {"max_iter": most}).fit(frame, target) for most in (1000, None))
    assert counted.n_iter_ <= 1000
    assert counted.learning_rate_ > fitting.LARGE_STEP
    assert 1200 < free.n_iter_ <= 1000 * fitting.MOST_TIMES
    assert free.learning_rate_ * free.n_iter_ == pytest.approx(counted.learning_rate_ * counted.n_iter_, rel=0.01)


def test_learning_what_to_say_without_some_columns_has_all_the_time_that_is_left(monkeypatch):
    frame, deadlines = columns(n_rows=300), []
    finish = Booster.finish
    monkeypatch.setattr(
        Booster, "finish", lambda self, n, shown, until: deadlines.append(until) or finish(self, n, shown, until)
    )
    started = time.monotonic()
    HarsanyiRegressor(**OPTIONS | {"max_iter": 50, "max_seconds": 60}).fit(frame, frame["a"])
    assert len(deadlines) == 1
    assert started + 55 < deadlines[0] < started + 61


@pytest.mark.parametrize("seed", [2, 3])
def test_few_rows_do_not_choose_the_columns_that_they_are_held_out_to_judge(seed):
    """Each of sixty columns says a little: those that happen to say most of 150 rows say less of others."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4150, 60))
    y = x.sum(1) + 4 * rng.normal(size=4150) > 0
    model = HarsanyiClassifier(**OPTIONS).fit(x[:150], y[:150])
    assert (model.feature_importances_ > 0).sum() > 50
    assert log_loss(y[150:], model.predict_proba(x[150:])) < 1.1 * model.history_.losses.min()
