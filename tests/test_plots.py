import sys
from functools import partial
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch

from harsanyinet import Explanation, HarsanyiMLP, HarsanyiRegressor
from harsanyinet.plots import (
    _labels,
    plot_bar,
    plot_beeswarm,
    plot_contrast,
    plot_fields,
    plot_interactions,
    plot_network,
    plot_order_spectrum,
    plot_pair,
    plot_shape,
    plot_waterfall,
)
from harsanyinet.tables.bins import Binning, fit_columns
from harsanyinet.tables.effects import PairEffect, SingleEffect, _of_categories, _of_numbers, pair_effect, single_effect

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

# shap 0.51 sets up its colour maps in a way that matplotlib 3.11 will deprecate.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning:shap.*")

SETS = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]
DIVIDENDS = np.array(
    [
        [1.0, -2.0, 0.5, 4.0, -1.0, 3.0],
        [0.0, 1.0, 0.0, -2.0, 0.0, 0.6],
        [2.0, 0.0, -1.0, 0.0, 2.0, 0.0],
    ]
)
NAMES = ["age", "work = class", "cost ($) of ($)", "unused"]
DATA = np.array(
    [[39.0, "State-gov", None, True], [np.nan, "Private", 77516.0, False], [50.25, "a=b $x$", 3, True]], dtype=object
)


def masks(sets, n):
    out = np.zeros((len(sets), n), dtype=bool)
    for line, members in enumerate(sets):
        out[line, list(members)] = True
    return out


def explanation(outputs=1, data=DATA, **settings):
    """Three rows over four features, of which nothing contains the last; output k is (k + 1) times output 0, signed."""
    factors = np.array([1.0, -2.0, 3.0])[:outputs]
    return Explanation(
        base_values=0.25 * factors,
        coalitions=masks(SETS, 4),
        dividends=DIVIDENDS[:, :, None] * factors,
        feature_names=NAMES,
        output_names=["income", "loss", "tax"][:outputs],
        data=data,
        **settings,
    )


def shapley(row, factor=1.0):
    phi = np.zeros(4)
    for members, dividend in zip(SETS, DIVIDENDS[row], strict=True):
        for i in members:
            phi[i] += factor * dividend / len(members)
    return phi


def many(n=30, rows=6, scale=1.0, name="a_rather_long_feature_name_{:03d}", outputs=1):
    """Random dividends of single features and neighbours."""
    rng = np.random.default_rng(0)
    sets = [(i,) for i in range(n)] + [(i, i + 1) for i in range(n - 1)]
    return Explanation(
        base_values=np.zeros(outputs),
        coalitions=masks(sets, n),
        dividends=scale * rng.normal(size=(rows, len(sets), outputs)),
        feature_names=[name.format(i) for i in range(n)],
        data=rng.normal(size=(rows, n)),
    )


def contrast(ex, row=0, output=None, **settings):
    """Of a row and the last one."""
    return plot_contrast(ex, row, -1, output, **settings)


PLOTS = [plot_waterfall, plot_bar, plot_beeswarm, plot_interactions, plot_network, contrast, plot_order_spectrum]
by_name = pytest.mark.parametrize("plot", PLOTS, ids=lambda f: f.__name__)


@pytest.fixture(autouse=True)
def tidy():
    """No figure is open before or after a test, and no setting has changed."""
    assert not plt.get_fignums()
    settings, interactive, backend = dict(mpl.rcParams), plt.isinteractive(), mpl.get_backend()
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == settings
    assert (plt.isinteractive(), mpl.get_backend()) == (interactive, backend)


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def shown_texts(figure):
    """Every text that is drawn, with its extent in pixels."""
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text().strip()]
    hidden = [label for ax in figure.axes if not ax.axison for label in ax.get_xticklabels() + ax.get_yticklabels()]
    outside = []  # tick labels beyond the limits of an axis are not drawn
    for ax in figure.axes:
        for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            for tick in axis.get_major_ticks() + axis.get_minor_ticks():
                if not min(low, high) <= tick.get_loc() <= max(low, high):
                    outside += [tick.label1, tick.label2]
    return [(text, text.get_window_extent()) for text in found if text not in hidden and text not in outside]


# What every plot keeps to --------------------------------------------------------------------------------------------


@by_name
def test_without_axes_a_plot_opens_one_figure(plot):
    ax = plot(explanation())
    assert plt.get_fignums() == [ax.figure.number]


@by_name
def test_a_plot_draws_on_given_axes_and_leaves_the_rest_alone(plot):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    plt.sca(right)
    size = figure.get_size_inches().tolist()
    np.random.seed(3)  # noqa: NPY002  shap uses the global generator
    expected = np.random.RandomState(3).random()
    assert plot(explanation(), ax=left) is left
    assert left.has_data() or left.patches or left.texts
    assert not right.has_data()
    assert not right.texts
    assert plt.gca() is right
    assert plt.get_fignums() == [figure.number]
    assert figure.get_size_inches().tolist() == size
    assert np.random.random() == expected  # noqa: NPY002


@by_name
def test_an_explanation_without_rows_is_an_error_and_opens_nothing(plot):
    with pytest.raises(ValueError, match="at least one row, however: the explanation has 0 rows"):
        plot(explanation()[:0])
    assert not plt.get_fignums()


@pytest.mark.parametrize("plot", PLOTS[:6], ids=lambda f: f.__name__)
def test_an_unknown_output_is_an_error_and_opens_nothing(plot):
    with pytest.raises(ValueError, match="unknown output 'incom'; did you mean 'income'"):
        plot(explanation(3), output="incom")
    assert not plt.get_fignums()


@pytest.mark.parametrize("plot", [plot_waterfall, plot_interactions, plot_network, contrast], ids=lambda f: f.__name__)
def test_a_row_that_is_not_there_is_an_error(plot):
    with pytest.raises(IndexError, match="row must lie between 0 and 2, however: row=3"):
        plot(explanation(), 3)


@pytest.mark.parametrize("plot", [plot_waterfall, plot_bar, plot_beeswarm, contrast], ids=lambda f: f.__name__)
def test_max_display_must_be_positive(plot):
    with pytest.raises(ValueError, match="max_display must be at least 1, however: max_display=0"):
        plot(explanation(), max_display=0)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    ("plot", "module"),
    [
        (plot_waterfall, "matplotlib.pyplot"),
        (plot_bar, "matplotlib.pyplot"),
        (plot_interactions, "matplotlib.pyplot"),
        (plot_order_spectrum, "matplotlib.pyplot"),
        (plot_network, "matplotlib.pyplot"),
        (plot_network, "shapiq"),
        (plot_beeswarm, "shap"),
    ],
)
def test_a_missing_package_names_the_extra(plot, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"this needs {module}: pip install 'harsanyinet\[plots\]'"):
        plot(explanation())


def test_plot_fields_without_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'harsanyinet\[plots\]'"):
        plot_fields([np.eye(3, dtype=bool)])


CASES = {
    "long names": lambda: many(),
    "long words": lambda: explanation(data=np.full((3, 4), "a value that goes on and on and does not stop")),
    "one feature": lambda: many(1),
    "all zero": lambda: explanation() * 0.0,
    "tiny": lambda: many(5, scale=1e-9),
    "huge": lambda: many(5, scale=1e9),
    "no data": lambda: explanation(data=None),
    "all missing": lambda: explanation(data=np.full((3, 4), np.nan)),
    "nothing acts": lambda: Explanation(
        base_values=np.ones(1), coalitions=np.zeros((0, 3), dtype=bool), dividends=np.zeros((2, 0, 1))
    ),
}


@by_name
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_cut_off_or_overlaps(plot, case):
    check_texts(plot(CASES[case]()))


def check_texts(ax):
    edge = ax.figure.bbox
    found = shown_texts(ax.figure)
    assert len(found) > 1
    for text, box in found:
        inside = edge.x0 - 1 <= box.x0 and box.x1 <= edge.x1 + 1 and edge.y0 - 1 <= box.y0 and box.y1 <= edge.y1 + 1
        assert inside, f"{text.get_text()!r} is cut off"
    low, high = (np.array([getattr(box, side) for _, box in found]) for side in ("min", "max"))  # (texts, 2)
    shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
    for i, j in np.argwhere((shared >= 2).all(axis=2)):  # pixels
        assert i == j, f"{found[i][0].get_text()!r} overlaps {found[j][0].get_text()!r}"


def test_network_makes_room_for_its_labels_on_given_axes():
    figure, ax = plt.subplots(figsize=(6, 6))
    plot_network(many(8, name="{:020d}"), ax=ax)
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for _, box in shown_texts(figure))


# The waterfall -------------------------------------------------------------------------------------------------------


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
        **{round(y): label for y, label in zip(heights, waterfall_labels(row, order), strict=True)},
    }


def waterfall_labels(row, order):
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
    assert ticks(ax.yaxis)[1:-1] == waterfall_labels(at, np.argsort(-np.abs(shapley(at)), kind="stable"))
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


# The contrast --------------------------------------------------------------------------------------------------------


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


# Bars ----------------------------------------------------------------------------------------------------------------


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


# The beeswarm --------------------------------------------------------------------------------------------------------


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


# Interactions --------------------------------------------------------------------------------------------------------


def pairs(row, weight, factor=1.0):
    """The heat map from the definition: weight(s, t) times the dividend of every T that contains S."""
    out = np.zeros((4, 4))
    for i in range(4):
        for j in range(4):
            for members, dividend in zip(SETS, DIVIDENDS[row], strict=True):
                if {i, j} <= set(members):
                    out[i, j] += factor * weight(len({i, j}), len(members)) * dividend
    return out


@pytest.mark.parametrize(
    ("index", "weight", "diagonal"),
    [
        ("SII", lambda s, t: 1 / (t - s + 1), "Shapley values"),
        ("BII", lambda s, t: 2.0 ** (s - t), "Banzhaf values"),
        ("Moebius", lambda s, t: float(s == t), "single features"),
        # k-SII of order 2: SII less half the sum of the pairs for single features
        ("k-SII", lambda s, t: 1 / (t - 1) if s == 2 else 1 / t - (t > 1) / 2, "single features"),
    ],
)
def test_interactions_are_the_index_of_every_pair(index, weight, diagonal):
    ax = plot_interactions(explanation(3), 1, "tax", index=index)
    (image,) = ax.images
    expected = pairs(1, weight, 3.0)
    np.testing.assert_allclose(np.asarray(image.get_array()), expected, atol=1e-12)
    np.testing.assert_allclose(image.get_clim(), [-np.abs(expected).max(), np.abs(expected).max()])
    assert image.get_cmap().name == "RdBu_r"
    assert ticks(ax.xaxis) == ticks(ax.yaxis) == [name.replace("$", r"\$") for name in NAMES]
    assert ax.get_title() == f"raw output of tax, row 1\ndiagonal: {diagonal}"
    assert ax.figure.axes[1].get_ylabel() == f"{index}, raw output of tax"


def test_interactions_print_their_numbers():
    ax = plot_interactions(explanation(), 0)
    expected = pairs(0, lambda s, t: 1 / (t - s + 1))
    printed = {tuple(int(c) for c in text.get_position()): text.get_text() for text in ax.texts}
    assert printed == {(j, i): f"{expected[i, j]:.2f}" for i in range(3) for j in range(3)}
    small = plt.figure(figsize=(3, 3)).add_subplot()
    assert not plot_interactions(many(10), ax=small).texts  # no room


def test_interactions_of_one_feature_is_its_shapley_value():
    ex = many(1)
    ax = plot_interactions(ex, 2)
    np.testing.assert_allclose(np.asarray(ax.images[0].get_array()), [[ex.values[2, 0]]])


def test_interactions_of_many_features_keep_the_strongest():
    ex = many(40)
    index = ex.index("SII", 2)
    full = np.zeros((40, 40))
    for (i, *rest), value in zip(index.sets, index.values[3], strict=True):
        full[i, (rest or [i])[0]] = full[(rest or [i])[0], i] = value
    kept = sorted(sorted(range(40), key=lambda i: -np.abs(full[i]).sum())[:15])
    ax = plot_interactions(ex, 3)
    np.testing.assert_allclose(np.asarray(ax.images[0].get_array()), full[np.ix_(kept, kept)])
    assert ticks(ax.yaxis) == [ex.feature_names[i] for i in kept]
    assert "15 strongest of 40 features" in ax.get_title()


def test_interactions_refuse_an_index_without_pairs():
    with pytest.raises(ValueError, match="SV values single features"):
        plot_interactions(explanation(), index="SV")
    assert not plt.get_fignums()


# Names, labels and scales ---------------------------------------------------------------------------------------------


def test_long_names_stay_apart():
    front, back, middle = "a" * 60, "b" * 60, "c" * 60
    names = [f"{front}1", f"{front}2", f"1{back}", f"2{back}", *(f"{middle}{i}{middle}" for i in "123"), "short"]
    found = _labels(names)
    assert len(set(found)) == len(names)
    assert all(len(label) <= 40 for label in found)
    assert found[0].endswith("a1")
    assert found[-1] == "short"
    assert all(i in label for i, label in zip("123", found[4:7], strict=True))  # what differs is shown
    odd = ["x" * 30 + "1" + "y" * 40 + "1" + "y" * 30, "x" * 30 + "1" + "y" * 40 + "2" + "y" * 30, "x" * 30 + "z" * 70]
    assert len(set(_labels([*odd, odd[0][:-1] + "z" + odd[0][-1]]))) == 4


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


# The network ---------------------------------------------------------------------------------------------------------


def network(ax):
    """Nodes by label and edges by pairs of labels, each with its colour and opacity."""
    named = {text.get_text(): np.array(text.get_position()) / [0.93, 1.0] for text in ax.texts}
    where = {name: at / np.linalg.norm(at) for name, at in named.items()}
    nodes, edges = {}, {}
    for patch in ax.patches:
        if isinstance(patch, mpl.patches.Circle) or mpl.colors.to_hex(patch.get_facecolor()) == "#ffffff":
            continue
        box = patch.get_path().get_extents()
        colour = (mpl.colors.to_hex(patch.get_facecolor()), patch.get_alpha())
        middle = (box.min + box.max) / 2
        at = [name for name, position in where.items() if np.linalg.norm(middle - position) < 1e-6]
        if at:
            nodes[at[0]] = colour
            continue
        ends = [name for name, position in where.items() if patch.get_path().contains_point(position)]
        edges[tuple(sorted(ends))] = colour
    return nodes, edges


def test_network_has_a_node_per_feature_and_an_edge_per_pair():
    ex = explanation(3)
    ax = plot_network(ex, 0, "loss")
    nodes, edges = network(ax)
    expected = pairs(0, lambda s, t: 1 / (t - s + 1), -2.0)
    largest = np.abs(expected).max()
    strongest = np.abs(expected - np.diag(np.diag(expected))).max()  # of the edges, beside each other
    shown = [name.replace("$", r"\$") for name in NAMES[:3]]  # nothing contains the last feature
    assert set(texts(ax)) == set(nodes) == set(shown)
    assert len(edges) == 3
    for i, a in enumerate(shown):
        for j, b in enumerate(shown[: i + 1]):
            colour, opacity = nodes[a] if i == j else edges[tuple(sorted((a, b)))]
            assert colour == ("#ff0d57" if expected[i, j] > 0 else "#1e88e5")
            share = abs(expected[i, j])
            seen = share / largest if i == j else 0.1 + 0.8 * share / strongest
            assert opacity == pytest.approx(seen)
    assert ax.get_title() == "raw output of loss, row 0\nnodes: Shapley values, edges: SII of pairs"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["positive", "negative"]


def test_network_of_many_features_keeps_the_strongest():
    ex = many(40)
    heat = plot_interactions(ex, 3)
    ax = plot_network(ex, 3)
    assert sorted(texts(ax)) == sorted(ticks(heat.yaxis))
    assert set(network(ax)[0]) == set(texts(ax))
    assert "15 strongest of 40 features" in ax.get_title()


def test_network_shows_a_feature_whose_value_is_zero_as_an_empty_node():
    ex = Explanation(base_values=np.zeros(1), coalitions=np.eye(3, dtype=bool), dividends=np.array([[[1.0], [0], [2]]]))
    ax = plot_network(ex)
    assert set(network(ax)[0]) == {"x0", "x2"}
    assert len([patch for patch in ax.patches if isinstance(patch, mpl.patches.Circle)]) == len(ax.texts) == 3


def test_network_of_zeros_says_so():
    assert texts(plot_network(explanation() * 0.0)) == ["every interaction is zero"]


# The spectrum --------------------------------------------------------------------------------------------------------


def test_order_spectrum_is_in_percent():
    ax = plot_order_spectrum(explanation())
    weight = np.abs(DIVIDENDS).sum(axis=0)
    expected = np.array([weight[:3].sum(), weight[3:5].sum(), weight[5]]) / weight.sum() * 100
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], expected)
    np.testing.assert_allclose([bar.get_x() + bar.get_width() / 2 for bar in ax.patches], [1, 2, 3])
    assert texts(ax) == [f"{share:.1f}" for share in expected]
    assert ticks(ax.xaxis) == ["1", "2", "3"]
    assert ax.get_ylabel() == "share of the sum of |dividends| (%)"
    assert ax.get_title() == "raw output of income, 3 rows"
    assert plot_order_spectrum(explanation(3)).get_title() == "3 outputs, 3 rows"


def test_order_spectrum_ends_at_the_largest_order_that_occurs():
    dividends = np.array([[[1.0], [1e-6], [0.0]]])
    ex = Explanation(base_values=np.zeros(1), coalitions=masks([(0,), (0, 1), (0, 1, 2)], 5), dividends=dividends)
    ax = plot_order_spectrum(ex)
    assert len(ax.patches) == 2
    assert texts(ax) == ["100.0", "<0.1"]


def test_order_spectrum_of_zeros_says_so():
    ax = plot_order_spectrum(explanation() * 0.0)
    assert [bar.get_height() for bar in ax.patches] == [0.0]
    assert ax.get_title() == "raw output of income, 3 rows\nevery dividend is zero"


# Receptive fields ----------------------------------------------------------------------------------------------------


def picture(ax):
    return np.asarray(ax.images[0].get_array()).astype(bool)


def test_fields_are_sorted_by_size_and_members():
    first = masks([(0, 2), (2,), (1,), (), (0, 1)], 3)
    second = masks([(0, 1, 2), (1, 2)], 3)
    ax = plot_fields([first, torch.from_numpy(second)], ["a", "b", "c"])
    expected = masks([(), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], 3)
    np.testing.assert_array_equal(picture(ax), expected)
    assert ticks(ax.xaxis) == ["a", "b", "c"]
    assert ticks(ax.yaxis) == ["block 1\n5 units", "block 2\n2 units"]
    assert ax.get_yticks().tolist() == [2.0, 5.5]
    across = [line.get_ydata()[0] for line in ax.lines if line.get_ydata()[0] == line.get_ydata()[1]]
    assert across == [4.5]  # between the blocks


@pytest.mark.parametrize("gate", ["activation", "presence"])
def test_fields_of_a_network(gate):
    net = HarsanyiMLP(5, 1, gate=gate, n_blocks=2, width=9)
    ax = plot_fields(net)
    np.testing.assert_array_equal(picture(ax), picture(plot_fields(net.receptive_fields())))
    for i, field in enumerate(net.receptive_fields()):
        drawn = picture(ax)[9 * i : 9 * (i + 1)]
        assert sorted(map(tuple, drawn.tolist())) == sorted(map(tuple, field.tolist()))
    assert ticks(ax.xaxis) == ["x0", "x1", "x2", "x3", "x4"]


@pytest.mark.parametrize("n", [12, 64, 200])
def test_fields_of_many_units_are_thinned_evenly(n):
    field = np.random.default_rng(0).random((300, n)) < 0.2
    ax = plot_fields([field, field[:20]], max_units=200)
    assert picture(ax).shape == (120, n)
    assert ticks(ax.yaxis) == ["block 1\n100 of 300", "block 2\n20 units"]
    sizes = picture(ax)[:100].sum(axis=1)
    assert (np.diff(sizes) >= 0).all()
    assert (sizes[0], sizes[-1]) == (field.sum(axis=1).min(), field.sum(axis=1).max())
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(a.x1 <= b.x0 for a, b in pairwise(boxes))
    assert min(box.y0 for box in boxes) >= 0
    assert picture(plot_fields([field])).shape == (300, n)


def test_fields_draw_on_given_axes():
    figure, (left, right) = plt.subplots(1, 2)
    assert plot_fields([np.eye(3, dtype=bool)], ax=left) is left
    assert plt.get_fignums() == [figure.number]
    assert not right.has_data()


@pytest.mark.parametrize(
    ("fields", "settings", "error", "message"),
    [
        ([], {}, ValueError, r"one \(units, features\) bool array per block, however: shapes \[\]"),
        (np.eye(3, dtype=bool), {}, ValueError, r"however: shapes \[\(3,\), \(3,\), \(3,\)\]"),
        ([np.eye(3, dtype=bool), np.eye(4, dtype=bool)], {}, ValueError, r"shapes \[\(3, 3\), \(4, 4\)\]"),
        ([np.eye(3)], {}, TypeError, r"fields must be bool, however: \['float64'\]"),
        ([np.eye(3, dtype=bool)], {"feature_names": ["a"]}, ValueError, "must be 3 names, however: 1 given"),
        ([np.eye(3, dtype=bool)] * 2, {"max_units": 1}, ValueError, "at least the number of blocks, 2, however: 1"),
    ],
)
def test_fields_that_make_no_sense(fields, settings, error, message):
    with pytest.raises(error, match=message):
        plot_fields(fields, **settings)
    assert not plt.get_fignums()


# Effects of columns --------------------------------------------------------------------------------------------------


def axis_of(values, name, position=0):
    """An axis of a column whose every border and category some tree asks about."""
    frame = pd.DataFrame({name: values})
    target = pd.factorize(frame[name])[0].astype(float)[:, None]  # so that no two categories are alike
    (column,), _ = fit_columns(frame, target, np.ones(len(frame)), Binning(plain_rows=0), [], None, 0)
    thresholds = [range(column.first, n) for n in column.n_bins]
    if column.kind == "category":
        return _of_categories(column, position, thresholds)
    return _of_numbers(column, position, [range(column.first, column.first + len(column.borders))])


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
