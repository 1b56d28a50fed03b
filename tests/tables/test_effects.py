"""Effects are compared with the dividends of real rows."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables import effects
from harsanyinet.tables.effects import pair_effect, single_effect, strongest_pairs

QUICK = {"max_iter": 40, "learning_rate": 0.1, "random_state": 0, "n_jobs": 1, "progress": False}
N = 600


def table(n=N):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "smooth": rng.normal(size=n),
            "spike": np.where(rng.random(n) < 0.5, 0.0, rng.gamma(2.0, size=n)),  # zero is frequent
            "count": rng.poisson(8, size=n),
            "told": rng.random(n) < 0.4,
            "two": rng.choice([0.5, 2.5], size=n),
            "name": np.array(list("abcdef"))[np.minimum(rng.geometric(0.3, size=n) - 1, 5)],
            "code": rng.integers(1, 4, size=n),  # a category
            "idle": np.zeros(n),
        }
    )
    frame.loc[:, "name"] = np.where(
        np.arange(n) % 40 == 0, "rare " + (frame.index // 40 % 5).astype(str), frame["name"]
    )
    for name in ("smooth", "count", "name"):
        frame.loc[rng.random(n) < 0.1, name] = np.nan
    return frame


def target(frame):
    both = frame["smooth"].fillna(0) * frame["told"] + 2 * (frame["name"] == "a") * (frame["code"] == 2)
    return both + 0.1 * frame["count"].fillna(12) + 0.5 * frame["spike"] + 0.8 * (frame["two"] > 1)


@pytest.fixture(scope="module")
def regressor():
    frame = table()
    return HarsanyiRegressor(categorical_features=["code"], **QUICK).fit(frame, target(frame))


@pytest.fixture(scope="module")
def classifier():
    """Missing values are absent players here."""
    frame = table()
    labels = pd.cut(target(frame), 3, labels=["low", "middle", "high"]).astype(str)
    return HarsanyiClassifier(categorical_features=["code"], missing="absent", **QUICK).fit(frame, labels)


def dividend(model, frame, names):
    ex = model.explain(frame)
    wanted = np.array([name in names for name in ex.feature_names])
    at = np.flatnonzero((ex.coalitions == wanted).all(axis=1))
    assert len(at) <= 1
    return ex.dividends[:, at[0]] if len(at) else np.zeros_like(ex.outputs)


def places(axis, values):
    """Where each value of a column stands on an axis, None for an absent player, one at a time."""
    found = []
    for value in values:
        if pd.isna(value):
            found.append(axis.labels.index("missing") if axis.column.missing else None)
        elif axis.column.kind == "category":
            text = str(int(value)) if isinstance(value, float | int) else value
            (at,) = (i for i, label in enumerate(axis.labels) if text in label.split(": ")[-1].split(", "))
            found.append(at)
        else:
            found.append(sum(float(value) > border for border in axis.edges[1:-1]))
    return found


@pytest.mark.parametrize("name", list(table(20).columns))
def test_a_single_effect_is_the_dividend_of_every_row(regressor, classifier, name):
    frame = table()[:200]
    for model in (regressor, classifier):
        effect = single_effect(model, name)
        expected = dividend(model, frame, [name])
        assert effect.effect.shape == (len(effect.axis.values), *expected.shape[1:])
        where = places(effect.axis, frame[name])
        found = np.stack([np.zeros(expected.shape[1:]) if at is None else effect.effect[at] for at in where])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert (np.abs(effect.effect).max() > 0.001) == (name != "idle")
        held = effect.axis.data(frame)
        np.testing.assert_array_equal(effect.axis.places(held), [-1 if at is None else at for at in where])
        counts = [where.count(at) for at in range(len(effect.axis.values))]
        np.testing.assert_array_equal(effect.axis.counts(held), counts)
    assert effect.output_names == ("high", "low", "middle")


def asked_about(model, name, together):
    """The borders of a column that trees with all of these columns ask about."""
    names, found = [column.name for column in model.columns_], set()
    column = model.columns_[names.index(name)]
    for shape in model.trees_.shapes:
        if together <= {names[player] for player in shape.players}:
            for code, threshold in zip(shape.columns, shape.thresholds, strict=True):
                if names[model.trees_.player_of[code]] == name and threshold >= column.first:
                    found.add(float(column.borders[threshold - column.first]))
    return sorted(found)


@pytest.mark.parametrize("name", ["smooth", "spike", "count"])
def test_steps_of_numbers_are_where_trees_ask(regressor, name):
    effect = single_effect(regressor, name)
    column, numbers = effect.axis.column, table()[name]
    half = 0.5 if name == "count" else 0.0
    assert effect.axis.edges[[0, -1]].tolist() == [numbers.min() - half, numbers.max() + half]
    asked = asked_about(regressor, name, {name})
    assert effect.axis.edges[1:-1].tolist() == asked
    assert len(asked) > 5
    assert effect.axis.places(np.array(asked)).tolist() == list(range(len(asked)))  # a border belongs to the step below
    bins = np.empty((1, len(asked)), dtype=np.uint8)
    column.code(pd.Series(asked), bins)
    assert (np.diff(bins[0]) > 0).all()
    both = pair_effect(regressor, name, "told").axes[0].edges[1:-1].tolist()
    assert both == asked_about(regressor, name, {name, "told"}) != asked
    assert len(effect.axis.values) == len(effect.axis.labels) == len(asked) + 1 + column.missing


def levels_of(labels):
    return sorted(level for label in labels for level in label.split(": ")[-1].split(", "))


def test_values_have_the_words_of_the_user(regressor):
    assert single_effect(regressor, "told").axis.labels == ("False", "True")
    assert single_effect(regressor, "two").axis.labels == ("0.5 to 1.5", "1.5 to 2.5")
    assert levels_of(single_effect(regressor, "code").axis.labels) == ["1", "2", "3"]
    assert single_effect(regressor, "idle").axis.labels == ("0",)
    count = single_effect(regressor, "count").axis
    whole = [[int(word) for word in label.split(" to ")] for label in count.labels[:-1]]
    assert [n for ends in whole for n in range(ends[0], ends[-1] + 1)] == list(
        range(int(count.column.low), int(count.column.high) + 1)
    )
    name = single_effect(regressor, "name").axis
    assert levels_of(name.labels[:-1]) == sorted(name.column.levels)
    assert name.labels[-1] == "missing"


def test_levels_that_no_tree_tells_apart_share_a_label():
    frame = pd.DataFrame({"c": list("abcd") * 50, "x": np.arange(200.0)})
    model = HarsanyiRegressor(**QUICK).fit(frame, frame["c"].isin(["a", "c"]).astype(float))
    axis = single_effect(model, "c").axis
    assert axis.labels == ("2 alike: a, c", "2 alike: b, d")
    assert axis.values.tolist() == ["a", "b"]
    assert axis.counts(axis.data(frame[:7])).tolist() == [4, 3]
    assert axis.places(np.array(["c", "d", "e", None], dtype=object)).tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize(("a", "b"), [("smooth", "told"), ("told", "smooth"), ("name", "code"), ("count", "name")])
def test_a_pair_effect_is_the_dividend_of_every_row(regressor, classifier, a, b):
    frame = table()[:300]
    for model in (regressor, classifier):
        effect = pair_effect(model, a, b)
        expected = dividend(model, frame, [a, b])
        where = zip(*(places(axis, frame[axis.name]) for axis in effect.axes), strict=True)
        zero = np.zeros(expected.shape[1:])
        found = np.stack([zero if None in at else effect.table[at] for at in where])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert np.abs(expected).max() > 0.005
        assert effect.table.shape[:2] == tuple(len(axis.labels) for axis in effect.axes)
        assert [axis.name for axis in effect.axes] == [a, b]


def test_the_size_of_pieces_changes_nothing(regressor, monkeypatch):
    strongest = strongest_pairs(regressor, table())
    monkeypatch.setattr(effects, "CELLS", 80)
    again = strongest_pairs(regressor, table()[:60])
    monkeypatch.undo()
    assert [pair.features for pair in again] == [pair.features for pair in strongest_pairs(regressor, table()[:60])]
    assert strongest[0].strength > 0


def test_without_a_set_a_pair_adds_nothing():
    frame = table()
    model = HarsanyiRegressor(max_order=1, **QUICK).fit(frame, target(frame))
    assert not pair_effect(model, "smooth", "name").table.any()
    assert strongest_pairs(model, frame) == []
    one = HarsanyiRegressor(**QUICK).fit(frame[["count"]], target(frame))
    assert strongest_pairs(one, frame[["count"]]) == []


def test_strongest_pairs_are_sorted_by_mean_absolute_dividend(classifier):
    frame = table()[:100]
    found = strongest_pairs(classifier, frame, 3)
    ex = classifier.explain(frame)
    expected = {}
    for at, members in enumerate(ex.coalitions):
        if members.sum() == 2:
            names = tuple(name for name, there in zip(ex.feature_names, members, strict=True) if there)
            expected[names] = float(np.mean([abs(float(v)) for v in ex.dividends[:, at].ravel()]))
    best = sorted(expected.items(), key=lambda item: -item[1])[:3]
    assert [pair.features for pair in found] == [names for names, _ in best]
    assert [pair.strength for pair in found] == pytest.approx([size for _, size in best])
    with pytest.raises(ValueError, match="k must be at least 1, however: k=0"):
        strongest_pairs(classifier, frame, 0)


@pytest.mark.parametrize("kind", ["numbers", "objects", "numbered names"])
def test_models_without_names(kind):
    frame = table()[["smooth", "count", "name"]]
    y = target(table())
    if kind == "numbers":
        x = frame[["smooth", "count"]].to_numpy()
    else:
        x = frame.to_numpy(dtype=object) if kind == "objects" else frame.set_axis([7, 8, 9], axis=1)
    model = HarsanyiRegressor(**QUICK).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        effect = single_effect(model, 1)
        assert effect.axis.name == ("8" if kind == "numbered names" else "x1")
        expected = dividend(model, x[:50], [effect.axis.name])
        np.testing.assert_allclose(effect.effect[places(effect.axis, frame["count"][:50])], expected, atol=1e-12)
        assert effect.axis.counts(effect.axis.data(x)).sum() == N
        pair_effect(model, 0, model.columns_[-1].name)


def test_columns_that_say_nothing():
    n = 80
    frame = pd.DataFrame(
        {"constant": np.ones(n), "empty": np.full(n, np.nan), "none": [None] * n, "x": np.arange(n, dtype=float)}
    )
    frame["none"] = frame["none"].astype(pd.StringDtype())
    model = HarsanyiRegressor(missing="absent", **QUICK).fit(frame, frame["x"])
    assert single_effect(model, "constant").axis.labels == ("1",)
    assert single_effect(model, "empty").effect.tolist() == [0.0]
    assert single_effect(model, "none").effect.shape == (0,)
    assert single_effect(model, "none").axis.labels == ()
    assert pair_effect(model, "none", "x").table.shape[0] == 0
    assert pair_effect(model, "x", "constant").table.shape[1] == 1


def test_errors_say_what_came(regressor):
    with pytest.raises(ValueError, match="unknown feature 'smoth'; did you mean 'smooth'"):
        single_effect(regressor, "smoth")
    with pytest.raises(ValueError, match="feature must lie between 0 and 7, however: 8"):
        single_effect(regressor, 8)
    with pytest.raises(ValueError, match="two different columns, however: 'smooth' twice"):
        pair_effect(regressor, "smooth", 0)
    with pytest.raises(TypeError, match=r"need a fitted HarsanyiClassifier or HarsanyiRegressor, however: object$"):
        single_effect(object(), 0)
    with pytest.raises(TypeError, match="however: HarsanyiRegressor that is not fitted"):
        single_effect(HarsanyiRegressor(), 0)
    with pytest.raises(ValueError, match="X must have the column 'smooth', however: it has other"):
        single_effect(regressor, "smooth").axis.data(pd.DataFrame({"other": [1.0]}))
