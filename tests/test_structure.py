"""Does a fitted model find the structure that made the data? Seven columns, of which two or three matter."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harsanyinet import Explanation, HarsanyiClassifier, HarsanyiRegressor

NAMES = list("abcdefg")
OPTIONS = {"members": 2, "random_state": 0, "n_jobs": 1, "progress": False}


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


@pytest.mark.parametrize("members", ["be", "adg"])
def test_a_pair_and_a_triple_of_signs(members):
    frame = np.sign(columns())
    y = frame[list(members)].prod(axis=1) + 0.3 * noise(frame)
    model = HarsanyiRegressor(**OPTIONS).fit(frame, y)
    ex = model.explain(frame)
    assert strongest(ex, 1) == [set(members)]
    assert share(ex, "".join(set(NAMES) - set(members))) < 0.02
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
    model = HarsanyiRegressor(**OPTIONS).fit(frame, TARGETS[sets](frame) + 0.3 * noise(frame, 100 + seed))
    ex = model.explain(frame)
    true = [set(part) for part in sets.split()]
    assert sorted(map(sorted, strongest(ex, len(true)))) == sorted(map(sorted, true))
    assert share(ex, "".join(set(NAMES) - set(sets))) < 0.02
    truth = TARGETS[sets](frame)
    assert ((model.predict(frame) - truth) ** 2).mean() < 0.06 * truth.var()


def test_exclusive_or():
    frame = columns()
    truth = (frame["c"] > 0) ^ (frame["d"] > 0)
    flipped = np.random.default_rng(1).random(len(frame)) < 0.1
    model = HarsanyiClassifier(**OPTIONS).fit(frame, truth ^ flipped)
    ex = model.explain(frame)
    assert strongest(ex, 1) == [{"c", "d"}]
    assert share(ex, "abefg") < 0.02
    assert (model.predict(frame) == truth).mean() > 0.97


@pytest.mark.parametrize("seed", [0, 1])
def test_copies_share_what_they_say(seed):
    """Two columns that are the same in every row cannot be told apart, and neither is needed more."""
    frame = columns(seed)
    frame["g"] = frame["a"]
    model = HarsanyiRegressor(**OPTIONS).fit(frame, 2 * frame["a"] + 0.3 * noise(frame, 100 + seed))
    ex = model.explain(frame)
    assert sorted(map(sorted, strongest(ex, 3))) == [["a"], ["a", "g"], ["g"]]
    assert share(ex, "a") == pytest.approx(share(ex, "g"), rel=0.1)
    assert share(ex, "bcdef") < 0.02


def test_a_target_of_noise_has_no_interactions():
    frame = columns()
    model = HarsanyiRegressor(**OPTIONS).fit(frame, noise(frame))
    assert model.explain(frame[:2]).coalitions.sum(1).max() == 1
    assert model.predict(frame).std() < 0.05
