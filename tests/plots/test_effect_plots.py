"""Plots of effects: steps, bars and heat maps, against the numbers that they draw."""

from __future__ import annotations

from functools import partial

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from plotted import (
    check_texts,
    texts,
    ticks,
)

from harsanyinet import HarsanyiRegressor
from harsanyinet.plots import (
    plot_pair,
    plot_shape,
)
from harsanyinet.tables import effects
from harsanyinet.tables.bins import Binning, fit_columns
from harsanyinet.tables.effects import PairEffect, SingleEffect, pair_effect, single_effect

plt = pytest.importorskip("matplotlib.pyplot")


def axis_of(values, name, position=0):
    """An axis of a column whose every border and category some tree asks about."""
    frame = pd.DataFrame({name: values})
    target = pd.factorize(frame[name])[0].astype(float)[:, None]  # so that no two categories are alike
    (column,), _ = fit_columns(frame, target, np.ones(len(frame)), Binning(plain_rows=0), [], None, 0)
    thresholds = [range(column.first, n) for n in column.n_bins]
    if column.kind == "number":
        thresholds = [range(column.first, column.first + len(column.borders))]
    return effects.axis_of(column, position, thresholds)


def single(values, name="size ($)", outputs=1, scale=1.0):
    """An effect with made-up heights."""
    axis = axis_of(values, name)
    heights = scale * np.sin(np.arange(len(axis.values)) + 1.0)
    return SingleEffect(
        axis=axis,
        effect=heights if outputs == 1 else heights[:, None] * np.arange(1, outputs + 1),
        output_names=tuple(["income", "loss", "tax"][:outputs]),
    )


def pair(a, b, scale=1.0, outputs=1):
    axes = axis_of(a, "size ($)"), axis_of(b, "colour", 1)
    table = scale * np.random.default_rng(0).normal(size=(*(len(axis.values) for axis in axes), outputs))
    return PairEffect(axes, table[:, :, 0] if outputs == 1 else table, ("income", "loss", "tax")[:outputs])


WHOLE = np.repeat(np.arange(12), 3)

REAL = np.random.default_rng(0).normal(size=200)

WORDS = np.repeat(["red", "blue", "green", "$x$ = 1"], [5, 4, 3, 3])

LONG = np.repeat([f"a rather long category that is number {i:03d}" for i in range(60)], 2)

HOLES = np.where(np.arange(200) % 5, REAL, np.nan)


def test_shape_of_numbers_is_steps():
    effect = single(WHOLE)
    ax = plot_shape(effect)
    (zero,), (steps,) = ax.lines, ax.patches
    assert set(zero.get_ydata()) == {0}
    heights, edges, _ = steps.get_data()
    np.testing.assert_array_equal(heights, effect.effect)
    np.testing.assert_allclose(edges, np.arange(13) - 0.5)
    assert ax.get_title() == "raw output of income: size (\\$) by itself\n(zero: missing)"
    assert (ax.get_xlabel(), ax.get_ylabel()) == (r"size (\$)", "effect, raw output of income")


def test_shape_shows_missing_values_beside_the_steps():
    effect = single(HOLES)
    ax = plot_shape(effect)
    heights, edges, _ = ax.patches[0].get_data()
    np.testing.assert_array_equal(heights, effect.effect[:-1])
    assert edges[[0, -1]].tolist() == [np.nanmin(HOLES), np.nanmax(HOLES)]
    ((x, y),) = ax.lines[1].get_xydata()
    assert (x > edges[-1], y) == (True, effect.effect[-1])
    assert ax.get_title().endswith("(zero: absent, diamond: missing)")
    bars = plot_shape(single(np.where(np.arange(15) % 5, WORDS, None)), X=np.array([["red"], [None]], dtype=object))
    assert {label for label in ticks(bars.yaxis) if "missing" in label} == {"missing (50 %)"}
    assert bars.get_title().endswith("(zero: absent, in brackets: 2 rows)")


@pytest.mark.parametrize("values", [WHOLE, REAL], ids=["whole", "real"])
def test_shape_shows_the_rows_below_the_steps(values):
    effect = single(values)
    rows = pd.DataFrame({"other": 0.0, "size ($)": [*values, np.nan, -1e9, 1e9]})
    ax = plot_shape(effect, X=rows)
    inside = [*values, values.min(), values.max()]  # what lies outside counts at the ends
    bins = np.arange(13) - 0.5 if values is WHOLE else np.linspace(values.min(), values.max(), 61)
    counts = np.histogram(inside, bins)[0]
    bars = [bar for bar in ax.patches if isinstance(bar, mpl.patches.Rectangle)]
    np.testing.assert_allclose([bar.get_height() for bar in bars], 0.13 * counts / counts.max())
    np.testing.assert_allclose([bar.get_x() for bar in bars], bins[:-1], atol=1e-12)
    assert f"grey: {len(rows) - 1} rows" in ax.get_title()
    ax.figure.draw_without_rendering()
    lowest = ax.transAxes.inverted().transform(ax.transData.transform((0, effect.effect.min())))[1]
    assert lowest > 0.13  # the strip hides nothing


def test_shape_of_categories_is_bars_sorted_by_effect():
    effect = single(WORDS)
    ax = plot_shape(effect, "size ($)")
    order = np.argsort(effect.effect)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], effect.effect[order])
    labels = [effect.axis.labels[i].replace("$", r"\$") for i in order]
    assert ticks(ax.yaxis) == labels
    colours = [mpl.colors.to_hex(bar.get_facecolor()) for bar in ax.patches]
    assert colours == ["#0072b2" if effect.effect[i] < 0 else "#d55e00" for i in order]
    assert texts(ax) == [f"{effect.effect[i]:+.3f}" for i in order]
    ax = plot_shape(effect, X=np.array([["red"], ["red"], ["blue"], [None], ["unknown"]], dtype=object))
    shares = {"red": "67 %", "blue": "33 %", "green": "0 %", r"\$x\$ = 1": "0 %"}
    assert ticks(ax.yaxis) == [f"{label} ({shares[label]})" for label in labels]
    assert ax.get_title().endswith("(zero: missing, in brackets: 3 rows)")


def test_shape_of_a_switch_is_two_bars():
    ax = plot_shape(single([True, False] * 5), X=np.array([[1.0], [0.0], [1.0], [np.nan]]))
    assert ticks(ax.yaxis) == ["False (33 %)", "True (67 %)"]


def test_shape_of_many_categories_keeps_the_strongest():
    effect = single(LONG)
    ax = plot_shape(effect)
    assert len(ax.patches) == 40
    kept = sorted(effect.effect, key=lambda height: -abs(height))[:40]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], sorted(kept))
    assert "40 strongest of 60" in ax.get_title()
    assert len(set(ticks(ax.yaxis))) == 40  # cut in the middle
    assert max(map(len, ticks(ax.yaxis))) == 40


def test_shape_of_zeros_says_so():
    for values in (WORDS, REAL):
        ax = plot_shape(single(values, scale=0.0))
        assert ax.get_title().startswith("raw output of income: size (\\$) adds nothing by itself\n")


def test_pair_is_a_heat_map():
    effect = pair(WHOLE, WORDS)
    ax = plot_pair(effect)
    (image,) = ax.images
    np.testing.assert_allclose(np.asarray(image.get_array()), effect.table.T)
    limit = np.abs(effect.table).max()
    assert image.get_clim() == (-limit, limit)
    assert image.get_cmap().name == "RdBu_r"
    assert ticks(ax.xaxis) == [str(i) for i in range(12)]
    assert ticks(ax.yaxis) == [label.replace("$", r"\$") for label in effect.axes[1].labels]
    assert ax.yaxis_inverted()  # the first category on top, but numbers rise
    assert not plot_pair(pair(WORDS, WHOLE)).yaxis_inverted()
    assert (ax.get_xlabel(), ax.get_ylabel()) == (r"size (\$)", "colour")
    assert ax.get_title() == "raw output of income:\nbeyond what each adds by itself"
    assert ax.figure.axes[1].get_ylabel() == "effect of both together,\nraw output of income"


def test_pair_of_zeros_says_so():
    ax = plot_pair(pair(WHOLE, WORDS, scale=0.0))
    assert ax.get_title() == "raw output of income: the two never act as a pair"
    assert ax.images[0].get_clim() == (-1, 1)


EFFECTS = {
    "numbers": partial(plot_shape, single(WHOLE)),
    "numbers and rows": partial(plot_shape, single(REAL), X=REAL[:, None]),
    "missing numbers": partial(plot_shape, single(HOLES), X=HOLES[:, None]),
    "tiny numbers": partial(plot_shape, single(REAL * 1e-7, scale=1e-9)),
    "huge numbers": partial(plot_shape, single(REAL * 1e12, scale=1e9)),
    "one number": partial(plot_shape, single([3.0] * 5)),
    "switch": partial(plot_shape, single([True, False] * 5)),
    "words": partial(plot_shape, single(WORDS)),
    "zero words": partial(plot_shape, single(WORDS, scale=0.0)),
    "tiny words": partial(plot_shape, single(WORDS, scale=1e-9)),
    "huge words": partial(plot_shape, single(WORDS, scale=1e9)),
    "many long words": partial(plot_shape, single(LONG), X=LONG[:, None].astype(object)),
    "pair": partial(plot_pair, pair(WHOLE, WORDS)),
    "pair of one cell": partial(plot_pair, pair([1.0] * 4, [2.0] * 4)),
    "pair of many": partial(plot_pair, pair(np.arange(300.5), LONG)),
    "pair of words": partial(plot_pair, pair(LONG, WORDS)),
}


@pytest.mark.parametrize("case", EFFECTS)
def test_effects_are_not_cut_off_and_do_not_overlap(case):
    check_texts(EFFECTS[case]())


@pytest.mark.parametrize("case", EFFECTS)
def test_effects_are_drawn_on_given_axes(case):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    assert EFFECTS[case](ax=left) is left
    assert plt.get_fignums() == [figure.number]
    assert not right.has_data()
    assert figure.get_size_inches().tolist() == [11, 4]


@pytest.mark.parametrize(
    ("plot", "effect"), [(plot_shape, single(WORDS, outputs=3)), (plot_pair, pair(WHOLE, WORDS, outputs=3))]
)
def test_effects_of_several_outputs_need_a_choice(plot, effect):
    with pytest.raises(
        ValueError, match=f"{plot.__name__} draws one output, so output must name one of income, loss, tax"
    ):
        plot(effect)
    with pytest.raises(ValueError, match="unknown output 'taxes'; did you mean 'tax'"):
        plot(effect, output="taxes")
    assert not plt.get_fignums()
    ax = plot(effect, output="tax")
    assert ax.get_title().startswith("raw output of tax: ")
    if plot is plot_shape:
        np.testing.assert_allclose([bar.get_width() for bar in ax.patches], np.sort(effect.effect[:, 2]))
    else:
        np.testing.assert_allclose(np.asarray(ax.images[0].get_array()), effect.table[:, :, 2].T)


def test_effects_of_a_model():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), "b": rng.choice(["x", "y"], size=80), "gone": [pd.NA] * 80})
    frame["gone"] = frame["gone"].astype(pd.StringDtype())
    options = {"max_iter": 20, "learning_rate": 0.2, "missing": "absent", "random_state": 0, "progress": False}
    model = HarsanyiRegressor(**options).fit(frame, frame["a"] * (frame["b"] == "x"))
    steps = plot_shape(model, "a", frame).patches[0].get_data().values
    np.testing.assert_array_equal(steps, single_effect(model, "a").effect)
    assert np.ptp(steps) > 0.1
    assert len(plot_shape(model, 1, frame).patches) == 2
    drawn = np.asarray(plot_pair(model, "a", "b").images[0].get_array())
    np.testing.assert_array_equal(drawn, pair_effect(model, "a", "b").table.T)
    plt.close("all")
    with pytest.raises(ValueError, match="at least one value, however: column 'gone' has none"):
        plot_shape(model, "gone")
    with pytest.raises(ValueError, match="at least one value, however: column 'gone' has none"):
        plot_pair(model, "a", "gone")
    with pytest.raises(ValueError, match="feature must name one, however: feature=None"):
        plot_shape(model)
    with pytest.raises(ValueError, match="two columns of a model, however: a='a', b=None"):
        plot_pair(model, "a")
    with pytest.raises(ValueError, match="the effect is that of 'a', however: feature='b'"):
        plot_shape(single_effect(model, "a"), "b")
    with pytest.raises(ValueError, match="X must have the column 'a', however: it has b"):
        plot_shape(model, "a", frame[["b"]])
    assert not plt.get_fignums()
