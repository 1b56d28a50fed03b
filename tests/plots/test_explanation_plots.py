"""Plots of Shapley values: what stands in them, against numbers computed by hand."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from plotted import (
    DIVIDENDS,
    NAMES,
    explanation,
    many,
    shapley,
    texts,
    ticks,
)

from harsanyinet import Explanation
from harsanyinet.plots import (
    plot_bar,
    plot_beeswarm,
    plot_contrast,
    plot_interactions,
    plot_network,
    plot_waterfall,
)

plt = pytest.importorskip("matplotlib.pyplot")

# shap 0.51 sets up its colour maps in a way that matplotlib 3.11 will deprecate.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning:shap.*")


@pytest.mark.parametrize(
    ("row", "numbers"),  # strongest first, then base and output
    [
        (0, ["+4.00", "+1.00", "+0.500", "0", "0.250", "5.75"]),
        (1, ["-0.800", "+0.200", "+0.200", "0", "0.250", "-0.150"]),
    ],
)
def test_waterfall_leads_from_the_base_value_to_the_output(row, numbers):
    ax = plot_waterfall(explanation(), row)
    phi = shapley(row)
    order = np.argsort(-np.abs(phi), kind="stable")
    bars = ax.patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], phi[order], rtol=1e-12, atol=1e-15)
    end = 0.25 + phi.sum()
    for bar in bars:  # from the top: each bar ends where the one above starts
        assert bar.get_x() + bar.get_width() == pytest.approx(end, abs=1e-12)
        end -= bar.get_width()
        assert mpl.colors.to_hex(bar.get_facecolor()) == ("#0072b2" if bar.get_width() < 0 else "#d55e00")
    assert end == pytest.approx(0.25, abs=1e-12)
    assert texts(ax) == numbers
    assert ax.get_title() == f"raw output of income, row {row}"
    assert ax.get_xlabel() == "raw output of income: base value + Shapley values"
    heights = [bar.get_y() + bar.get_height() / 2 for bar in bars]
    assert dict(zip(ax.get_yticks(), ticks(ax.yaxis), strict=True)) == {
        5: "output",
        0: "base value",
        **{round(y): label for y, label in zip(heights, waterfalldistinct_labels(row, order), strict=True)},
    }


def waterfalldistinct_labels(row, order):
    words = {
        0: ["age = 39", "work = class = State-gov", r"cost (\$) of (\$) = missing", "unused = True"],
        1: ["age = missing", "work = class = Private", r"cost (\$) of (\$) = 77516", "unused = False"],
        2: ["age = 50.25", r"work = class = a=b \$x\$", r"cost (\$) of (\$) = 3", "unused = True"],
    }
    return [words[row][i] for i in order]


@pytest.mark.parametrize("row", [1, 2, -1])
def test_waterfall_shows_the_data_in_the_words_of_the_user(row):
    ax = plot_waterfall(explanation(), row)
    at = row % 3
    assert ticks(ax.yaxis)[1:-1] == waterfalldistinct_labels(at, np.argsort(-np.abs(shapley(at)), kind="stable"))
    assert ax.get_title() == f"raw output of income, row {at}"


def test_waterfall_without_data_shows_names_alone():
    assert ticks(plot_waterfall(explanation(data=None)).yaxis)[1:4:2] == ["age", "work = class"]


def test_waterfall_pools_the_weakest_features():
    ex = many(12)
    phi = ex.values[2]
    order = np.argsort(-np.abs(phi))
    ax = plot_waterfall(ex, 2, max_display=5)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [*phi[order[:4]], phi[order[4:]].sum()])
    assert ticks(ax.yaxis)[-2] == "sum of 8 other features"
    ax = plot_waterfall(ex, 2, max_display=1)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [phi.sum()])


def test_waterfall_takes_the_largest_output_of_the_row_or_the_one_asked_for():
    ex = explanation(3)
    assert ex.outputs[0].argmax() == 2
    assert ex.outputs[1].argmax() == 1
    for row, output, k in [(0, None, 2), (1, None, 1), (0, "loss", 1), (1, 0, 0)]:
        ax = plot_waterfall(ex, row, output)
        expected = shapley(row, [1.0, -2.0, 3.0][k])
        widths = [bar.get_width() for bar in ax.patches]
        np.testing.assert_allclose(widths, expected[np.argsort(-np.abs(expected), kind="stable")], atol=1e-12)
        assert ax.get_title() == f"raw output of {ex.output_names[k]}, row {row}"


def test_waterfall_of_a_restricted_game_starts_at_the_base_value_of_its_row():
    ex = explanation().restrict(["age"])
    for row in range(3):
        ax = plot_waterfall(ex, row)
        assert ax.patches[0].get_x() == pytest.approx(0.25 + DIVIDENDS[row, [1, 2, 4]].sum())
        assert ax.patches[0].get_x() + ax.patches[0].get_width() == pytest.approx(ex.outputs[row])


def test_waterfall_of_zeros_has_no_bars_to_see():
    ax = plot_waterfall(explanation() * 0.0)
    assert [bar.get_width() for bar in ax.patches] == [0.0] * 4
    assert set(texts(ax)) == {"0"}


@pytest.mark.parametrize(("row", "reference"), [(0, 1), (1, 0), (-1, 0), (2, 2)])
def test_contrast_leads_from_one_output_to_the_other(row, reference):
    ex = explanation()
    ax = plot_contrast(ex, row, reference)
    changes = shapley(row % 3 if row >= 0 else 2) - shapley(reference)
    order = np.argsort(-np.abs(changes), kind="stable")
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], changes[order], atol=1e-12)
    start, end = ax.patches[-1].get_x(), ax.patches[0].get_x() + ax.patches[0].get_width()
    assert start == pytest.approx(ex.outputs[reference])
    assert end == pytest.approx(ex.outputs[row])
    assert ax.get_title() == f"raw output of income, row {row % 3} against row {reference}"
    assert ticks(ax.yaxis)[0] == f"output of row {row % 3}"
    assert ticks(ax.yaxis)[-1] == f"output of row {reference}"


def test_contrast_has_the_values_of_both_rows():
    words = {
        "age: 39 against missing",
        "work = class: State-gov against Private",
        "cost (\\$) of (\\$): missing against 77516",
        "unused: True against False",
    }
    assert set(ticks(plot_contrast(explanation(), 0, 1).yaxis)[1:-1]) == words
    assert "unused: True in both" in ticks(plot_contrast(explanation(), 0, 2).yaxis)
    assert "unused" in ticks(plot_contrast(explanation(data=None), 0, 2).yaxis)
    long = np.array([["a" * 50 + "1"] * 4, ["a" * 50 + "2"] * 4, ["a" * 50 + "1"] * 4], dtype=object)
    cut = "a" * 15 + "…" + "a" * 7
    assert f"age:\n{cut}1 against {cut}2" in ticks(plot_contrast(explanation(data=long), 0, 1).yaxis)
    assert f"age: {cut}1 in both" in ticks(plot_contrast(explanation(data=long), 0, 2).yaxis)


def test_contrast_takes_the_output_of_the_row_in_question():
    ex = explanation(3)
    ax = plot_contrast(ex, 1, 0)  # row 1 has its largest output at 1, row 0 at 2
    assert ax.get_title() == "raw output of loss, row 1 against row 0"
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(ex.outputs[1, 1] - ex.outputs[0, 1])


def test_contrast_of_a_restricted_game_counts_what_is_held_fixed():
    ex = explanation().restrict(["age"])
    ax = plot_contrast(ex, 0, 1)
    assert ticks(ax.yaxis)[-2] == "features held fixed"
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(ex.outputs[0] - ex.outputs[1])


@pytest.mark.parametrize(("output", "factor"), [(None, 2.0), ("loss", 2.0), ("tax", 3.0), (0, 1.0)])
def test_bar_is_the_mean_absolute_value(output, factor):
    ax = plot_bar(explanation(3), output)
    strength = factor * np.mean([np.abs(shapley(row)) for row in range(3)], axis=0)
    order = np.argsort(-strength)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], strength[order])
    assert [bar.get_x() for bar in ax.patches] == [0.0] * 4
    assert ticks(ax.yaxis) == [NAMES[i].replace("$", r"\$") for i in order]
    assert texts(ax) == [f"{strength[i]:#.3g}" if strength[i] else "0" for i in order]
    what = {None: "mean of 3 outputs", 0: "raw output of income"}.get(output, f"raw output of {output}")
    assert ax.get_xlabel() == f"mean |Shapley value|, {what}"
    assert ax.get_title() == f"{what}, 3 rows"


def test_bar_of_one_output_names_it():
    assert plot_bar(explanation()[:1]).get_title() == "raw output of income, 1 row"


def test_bar_pools_the_weakest_features():
    ex = many(12)
    strength = np.sort(np.abs(ex.values).mean(axis=0))[::-1]
    ax = plot_bar(ex, max_display=11)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [*strength[:10], strength[10:].sum()])
    assert ticks(ax.yaxis)[-1] == "sum of 2 other features"


def swarms(ax):
    """The points of each line from the top: x positions and colours."""
    found = {}
    for points in ax.collections:
        if len(points.get_offsets()):
            points.update_scalarmappable()
            line = round(float(np.median(np.asarray(points.get_offsets())[:, 1])))
            colours = np.broadcast_to(points.get_facecolors(), (len(points.get_offsets()), 4))
            found.setdefault(line, []).extend(zip(points.get_offsets()[:, 0].tolist(), colours.tolist(), strict=True))
    return [sorted(found[line]) for line in sorted(found, reverse=True)]


def is_grey(colour):
    return np.allclose(colour, mpl.colors.to_rgba("#777777"))


def test_beeswarm_draws_every_value():
    ex = many(12, rows=20)
    order = np.argsort(-np.abs(ex.values).mean(axis=0))
    ax = plot_beeswarm(ex, max_display=5)
    expected = [*ex.values[:, order[:4]].T, ex.values[:, order[4:]].sum(axis=1)]
    for points, values in zip(swarms(ax), expected, strict=True):
        np.testing.assert_allclose([x for x, _ in points], np.sort(values))
    assert ticks(ax.yaxis)[::-1] == [*(ex.feature_names[i] for i in order[:4]), "sum of 8 other features"]
    assert ax.get_xlabel() == "Shapley value, raw output"
    assert ax.get_title() == "raw output, 20 rows"
    assert all(is_grey(colour) for _, colour in swarms(ax)[-1])  # a sum of features has no value


def test_beeswarm_colours_numbers_and_two_words_and_nothing_else():
    rows = 8
    values = np.arange(rows) / 100 + np.array([5.0, 4.0, 3.0, 2.0, 1.0])[:, None]  # (P, B), strongest first
    data = np.empty((rows, 5), dtype=object)
    data[:, 0] = np.arange(rows)[::-1]
    data[:, 1] = ["Male", "Female"] * 4
    data[:, 2] = ["a", "b", "c", "d"] * 2
    data[:, 3] = [1.0, None, np.nan, *range(5)]
    data[:, 4] = 7
    ex = Explanation(
        base_values=np.zeros(1),
        coalitions=np.eye(5, dtype=bool),
        dividends=values.T[:, :, None],
        feature_names=["number", "sex", "work", "gaps", "constant"],
        data=data,
    )
    ax = plot_beeswarm(ex)
    number, sex, work, gaps, constant = ([colour for _, colour in points] for points in swarms(ax))
    red, blue = number[0], number[-1]  # the numbers fall while the values rise
    assert red[0] > 0.9 > red[2]
    assert blue[2] > 0.9 > blue[0]
    assert [np.allclose(c, red) for c in sex] == [True, False] * 4
    assert [np.allclose(c, blue) for c in sex] == [False, True] * 4
    assert all(map(is_grey, work + constant))
    assert [is_grey(c) for c in gaps] == [False, True, True] + [False] * 5
    assert ticks(ax.yaxis)[::-1] == ["number", "sex\n(low: Female, high: Male)", "work", "gaps", "constant"]
    assert ax.figure.axes[1].get_ylabel() == "feature value\n(grey: text, missing)"


def test_beeswarm_of_words_alone_has_no_colour_bar():
    data = np.array([["a", "b", "c", "d"], ["e", "f", "g", "h"], ["i", "j", "k", "l"]])
    ax = plot_beeswarm(explanation(data=data))
    assert len(ax.figure.axes) == 1
    assert all(is_grey(colour) for points in swarms(ax) for _, colour in points)


def test_beeswarm_is_drawn_the_same_twice():
    first = plot_beeswarm(many(4, rows=50)).collections
    np.random.random()  # noqa: NPY002  shap uses the global generator
    second = plot_beeswarm(many(4, rows=50)).collections
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.get_offsets(), b.get_offsets())


def test_beeswarm_of_one_row():
    ax = plot_beeswarm(explanation()[0])
    drawn = [[x for x, _ in points] for points in swarms(ax)]
    np.testing.assert_allclose(drawn, np.sort(shapley(0))[::-1, None])


def test_beeswarm_of_several_outputs_needs_a_choice():
    with pytest.raises(ValueError, match="output must name one of income, loss, tax, however: output=None"):
        plot_beeswarm(explanation(3))
    assert not plt.get_fignums()
    ax = plot_beeswarm(explanation(3), "tax")
    assert ax.get_title() == "raw output of tax, 3 rows"
    expected = np.sort([3 * shapley(row)[0] for row in range(3)])  # age is the strongest
    np.testing.assert_allclose([x for x, _ in swarms(ax)[0]], expected)


@pytest.mark.parametrize("plot", [plot_waterfall, plot_contrast, plot_interactions, plot_network])
def test_a_row_is_named_by_its_label(plot):
    ex = explanation()
    named = Explanation(
        base_values=np.array([ex.base_values]), coalitions=ex.coalitions, dividends=ex.dividends[..., None],
        data=ex.data, row_names=["ann", "bob", 7], output_names=["rich"], scale="log-odds",
    )  # fmt: skip
    more = ("bob",) if plot is plot_contrast else ()
    title = plot(named, "ann", *more).get_title()
    assert title.startswith("log-odds of rich, ann")
    assert plot(named, 2, *more).get_title().startswith("log-odds of rich, row 7")
    with pytest.raises(ValueError, match="no row has 'eve'"):
        plot(named, "eve", *more)


@pytest.mark.parametrize("k", [1, 3])
def test_a_waterfall_of_probabilities(k):
    ex = explanation(k)
    ax = plot_waterfall(ex, 1, 0, scale="probability")
    one = ex.probability_values().reshape(3, 4, -1)[1, :, 0]
    widths = sorted(bar.get_width() for bar in ax.patches)
    np.testing.assert_allclose(widths, sorted(one), atol=1e-12)
    assert ax.get_title() == f"probability of {ex.output_names[0]}, row 1"
    points = next(line for line in ax.lines if line.get_marker() == "D").get_xdata()
    nothing, all_ = ex.probabilities([False] * 4), ex.probabilities()
    np.testing.assert_allclose(points, [nothing.reshape(3, -1)[1, 0], all_.reshape(3, -1)[1, 0]], atol=1e-12)
    assert all_.reshape(3, -1).sum() == pytest.approx(3.0) if k == 3 else 0 < all_.min() < all_.max() < 1
    with pytest.raises(ValueError, match="scale must be raw or probability, however: scale='odds'"):
        plot_waterfall(ex, scale="odds")
