"""Effects are compared with the dividends of real rows."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from harsanyinet import HarsanyiClassifier, HarsanyiMLP, HarsanyiRegressor
from harsanyinet.effects import pair_effect, single_effect, strongest_pairs
from harsanyinet.encoders import Coding, fit_column
from harsanyinet.folded import FoldedTable
from harsanyinet.tabular import TableNet

QUICK = {"members": 1, "epochs": 1, "random_state": 0, "progress": False, "width": 8}
N = 600


def table(n=N):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "smooth": rng.normal(size=n),
            "spike": np.where(rng.random(n) < 0.5, 0.0, rng.gamma(2.0, size=n)),  # zero is frequent
            "count": rng.poisson(8, size=n),
            "money": np.where(rng.random(n) < 0.6, 0, rng.integers(1, 5000, size=n)),
            "told": rng.random(n) < 0.4,
            "two": rng.choice([0.5, 2.5], size=n),
            "name": np.array(list("abcdef"))[np.minimum(rng.geometric(0.3, size=n) - 1, 5)],
            "code": rng.integers(1, 4, size=n),  # a category
        }
    )
    frame.loc[:, "name"] = np.where(
        np.arange(n) % 40 == 0, "rare " + (frame.index // 40 % 5).astype(str), frame["name"]
    )
    for name in ("smooth", "count", "name"):
        frame.loc[rng.random(n) < 0.1, name] = np.nan
    return frame


def target(frame):
    both = frame["smooth"].fillna(0) * frame["told"] + (frame["name"] == "a") * (frame["code"] == 2)
    return both + 0.1 * frame["count"].fillna(8)


def shaken(model, pairs=(), wide=()):
    """The model with random weights and the given sets: pruning leaves so little that nothing could be wrong."""
    names = model.encoder_.names
    sets, wide = ([[names.index(name) for name in members] for members in some] for some in (pairs, wide))
    net = TableNet(**{**model.network_.config, "sets": sets, "wide": wide})
    draw = torch.Generator().manual_seed(0)
    for parameter in net.parameters():
        parameter.data = torch.randn(parameter.shape, generator=draw) * 0.5
    model.network_ = net.eval()
    model.folded_ = FoldedTable.of(net)
    return model


PAIRS = [("smooth", "told"), ("name", "code"), ("count", "name"), ("spike", "money")]


@pytest.fixture(scope="module")
def regressor():
    frame = table()
    model = HarsanyiRegressor(categorical=["code"], **QUICK).fit(frame, target(frame))
    return shaken(model, PAIRS, [("smooth", "spike", "name")])


@pytest.fixture(scope="module")
def classifier():
    frame = table()
    labels = pd.cut(target(frame), 3, labels=["low", "middle", "high"]).astype(str)
    model = HarsanyiClassifier(categorical=["code"], **QUICK).fit(frame, labels)
    return shaken(model, PAIRS, [("smooth", "spike", "name")])


def dividend(model, frame, names):
    ex = model.explain(frame)
    wanted = np.array([name in names for name in ex.feature_names])
    at = np.flatnonzero((ex.coalitions == wanted).all(axis=1))
    assert len(at) <= 1
    return ex.dividends[:, at[0]] if len(at) else np.zeros_like(ex.outputs)


def lookup(effect, column):
    """What the effect says for values of a column, (B[, K]); zero where missing."""
    shape = (len(column), *effect.effect.shape[1:])
    out = np.zeros((len(column), len(effect.output_names)))
    heights = effect.effect.reshape(len(effect.axis.values), -1)
    for row, value in enumerate(column):
        if pd.isna(value):
            continue
        if effect.axis.column.kind == "category":
            text = str(int(value)) if isinstance(value, float | int) else value
            (at,) = (i for i, label in enumerate(effect.axis.labels) if text in label.split(": ")[-1].split(", "))
            out[row] = heights[at]
        elif float(value) in effect.axis.values[effect.frequent | ~effect.curve]:
            out[row] = heights[effect.axis.values == float(value)][0]
        else:
            on = effect.curve
            out[row] = [np.interp(float(value), effect.axis.values[on], h[on]) for h in heights.T]
    return out.reshape(shape)


@pytest.mark.parametrize("name", list(table(20).columns))
def test_a_single_effect_is_the_dividend_of_every_row(regressor, classifier, name):
    frame = table()[:200]
    for model in (regressor, classifier):
        effect = single_effect(model, name)
        expected = dividend(model, frame, [name])
        assert effect.effect.shape == (len(effect.axis.values), *expected.shape[1:])
        scale = np.abs(model.explain(frame).outputs).max()
        np.testing.assert_allclose(lookup(effect, frame[name]), expected, rtol=0, atol=1e-5 * scale)  # float32
        assert np.abs(effect.effect).max() > 0
    assert effect.output_names == ("high", "low", "middle")


def test_the_grid_of_numbers_has_every_knot_and_atom(regressor):
    for name in ("smooth", "spike", "count", "money"):
        effect = single_effect(regressor, name)
        column = effect.axis.column
        assert np.isin(column.knots, effect.axis.values).all()
        assert np.isin(column.atoms, effect.axis.values).all()
        assert (np.diff(effect.axis.values) > 0).all()
        assert effect.axis.values[[0, -1]].tolist() == column.knots[[0, -1]].tolist()
        np.testing.assert_array_equal(effect.frequent, np.isin(effect.axis.values, column.atoms))
    spike = single_effect(regressor, "spike")
    assert 0.0 in spike.axis.values[spike.frequent]
    assert 0.0 < spike.axis.values[spike.curve][0] < 1e-300  # the curve is seen beside the atom
    count = single_effect(regressor, "count").axis
    np.testing.assert_array_equal(count.values, np.arange(count.values[0], count.values[-1] + 1))
    money = single_effect(regressor, "money").axis
    assert (money.values % 1 == 0).all()
    assert money.values[:2].tolist() == [0.0, 1.0]


def test_values_have_the_words_of_the_user(regressor):
    assert single_effect(regressor, "told").axis.labels == ("False", "True")
    assert single_effect(regressor, "two").axis.labels == ("0.5", "2.5")
    assert set(single_effect(regressor, "code").axis.labels) == {"1", "2", "3"}
    name = single_effect(regressor, "name").axis
    (rare,) = (label for label in name.labels if "rare ones" in label)
    shared = rare.split(": ")[1].split(", ")
    assert rare == f"{len(shared)} rare ones: {', '.join(shared)}"
    assert sorted([*shared, *(label for label in name.labels if label != rare)]) == sorted(name.column.levels)
    frame = table()[:100]
    held = name.data(frame)
    assert name.counts(held).sum() == frame["name"].notna().sum()
    assert name.counts(held)[name.labels.index(rare)] == frame["name"].isin(shared).sum()


@pytest.mark.parametrize(
    ("a", "b"), [("smooth", "told"), ("told", "smooth"), ("name", "code"), ("count", "name"), ("spike", "money")]
)
def test_a_pair_effect_is_the_dividend_of_every_row(regressor, classifier, a, b):
    frame = table()[:300]
    for model in (regressor, classifier):
        effect = pair_effect(model, a, b)
        names = model.encoder_.names
        coded = model.encoder_.code(frame)[:, [names.index(a), names.index(b)]]
        here = ~np.isnan(coded[:, :, 0]).any(axis=1)
        cells = coded[here, :, 2].astype(int)
        expected = dividend(model, frame, [a, b])
        assert not expected[~here].any()
        found = effect.table[cells[:, 0], cells[:, 1]]
        scale = np.abs(model.explain(frame).outputs).max()
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(found, expected[here], rtol=0, atol=1e-5 * scale)  # float32
        for at, axis in enumerate(effect.axes):  # each value lies in its own cell
            column = pd.Series(axis.values)
            out = np.empty((len(column), 3))
            axis.column.code(column, out)
            np.testing.assert_array_equal(out[:, 2], np.arange(len(column)))
            assert len(axis.labels) == axis.column.n_cells == effect.table.shape[at]


def test_a_pair_that_a_wide_unit_has_too_holds_at_the_values_of_its_axes():
    frame = table()
    model = HarsanyiRegressor(categorical=["code"], **QUICK).fit(frame, target(frame))
    shaken(model, [("smooth", "count")], [("smooth", "count"), ("smooth", "count", "two")])
    effect = pair_effect(model, "count", "smooth")
    grid = [(x, y) for x in effect.axes[0].values for y in effect.axes[1].values]
    rows = pd.concat([frame[:1]] * len(grid), ignore_index=True)
    rows[["count", "smooth"]] = grid
    expected = dividend(model, rows, ["smooth", "count"]).reshape(effect.table.shape)
    np.testing.assert_allclose(effect.table, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert np.abs(expected).max() > 0


def test_without_a_set_a_pair_adds_nothing():
    frame = table()
    model = HarsanyiRegressor(categorical=["code"], max_order=1, **QUICK).fit(frame, target(frame))
    assert not pair_effect(model, "smooth", "name").table.any()
    assert strongest_pairs(model, frame) == []


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
        np.testing.assert_allclose(
            lookup(effect, frame["count"][:50]), dividend(model, x[:50], [effect.axis.name]), atol=1e-5
        )
        assert effect.axis.counts(effect.axis.data(x)).sum() == frame["count"].notna().sum()
        pair_effect(model, 0, model.encoder_.names[-1])


def test_columns_that_say_nothing():
    n = 80
    frame = pd.DataFrame(
        {"constant": np.ones(n), "empty": np.full(n, np.nan), "none": [None] * n, "x": np.arange(n, dtype=float)}
    )
    frame["none"] = frame["none"].astype(pd.StringDtype())
    model = HarsanyiRegressor(**QUICK).fit(frame, frame["x"])
    assert single_effect(model, "constant").axis.labels == ("1",)
    for name in ("empty", "none"):
        effect = single_effect(model, name)
        assert effect.effect.shape == (0,)
        assert effect.axis.labels == ()
    assert pair_effect(model, "empty", "x").table.shape[0] == 0
    assert pair_effect(model, "x", "constant").table.shape[1] == 1


def test_errors_say_what_came(regressor):
    with pytest.raises(ValueError, match="unknown feature 'smoth'; did you mean 'smooth'"):
        single_effect(regressor, "smoth")
    with pytest.raises(ValueError, match="feature must lie between 0 and 7, however: 8"):
        single_effect(regressor, 8)
    with pytest.raises(ValueError, match="two different columns, however: 'smooth' twice"):
        pair_effect(regressor, "smooth", 0)
    with pytest.raises(
        TypeError, match=r"need a fitted HarsanyiClassifier or HarsanyiRegressor, however: HarsanyiMLP$"
    ):
        single_effect(HarsanyiMLP(3, 1), 0)
    with pytest.raises(TypeError, match="however: HarsanyiRegressor that is not fitted"):
        single_effect(HarsanyiRegressor(), 0)
    with pytest.raises(ValueError, match="X must have the column 'smooth', however: it has other"):
        single_effect(regressor, "smooth").axis.data(pd.DataFrame({"other": [1.0]}))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, 2, 3, 4] * 5, ["1", "2", "3", "4"]),
        ([0.5, 2.5] * 5, ["0.5", "2.5"]),
        ([True, False] * 5, ["False", "True"]),
        ([0.5, 1.5, 4.0] * 5, ["0.5", "1.5", "4"]),
        (np.arange(12), ["0 to 2", "3 to 5", "6 to 7", "8 to 11"]),
        (np.arange(12) + 0.5, ["0.5 to 3", "3 to 6", "6 to 8", "8 to 11.5"]),
    ],
)
def test_cells_in_words(values, words):
    column = fit_column(pd.Series(values), "x", Coding(min_rows=1, cells=4), False)
    assert [column.value_of_cell(cell) for cell in range(column.n_cells)] == words
