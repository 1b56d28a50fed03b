"""Plots of who acts together: what stands in them, against numbers computed by hand."""

from __future__ import annotations

import sys
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from plotted import (
    DIVIDENDS,
    NAMES,
    SETS,
    explanation,
    many,
    masks,
    shown_texts,
    texts,
    ticks,
)

from harsanyinet import Explanation
from harsanyinet.plots import (
    plot_fields,
    plot_interactions,
    plot_network,
    plot_order_spectrum,
)

plt = pytest.importorskip("matplotlib.pyplot")

# shap 0.51 sets up its colour maps in a way that matplotlib 3.11 will deprecate.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning:shap.*")


def test_plot_fields_without_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'harsanyinet\[plots\]'"):
        plot_fields([np.eye(3, dtype=bool)])


def test_network_makes_room_for_its_labels_on_given_axes():
    figure, ax = plt.subplots(figsize=(6, 6))
    plot_network(many(8, name="{:020d}"), ax=ax)
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for _, box in shown_texts(figure))


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


def picture(ax):
    return np.asarray(ax.images[0].get_array()).astype(bool)


def test_fields_are_sorted_by_size_and_members():
    first = masks([(0, 2), (2,), (1,), (), (0, 1)], 3)
    second = masks([(0, 1, 2), (1, 2)], 3)
    ax = plot_fields([first, second], ["a", "b", "c"])
    expected = masks([(), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], 3)
    np.testing.assert_array_equal(picture(ax), expected)
    assert ticks(ax.xaxis) == ["a", "b", "c"]
    assert ticks(ax.yaxis) == ["block 1\n5 units", "block 2\n2 units"]
    assert ax.get_yticks().tolist() == [2.0, 5.5]
    across = [line.get_ydata()[0] for line in ax.lines if line.get_ydata()[0] == line.get_ydata()[1]]
    assert across == [4.5]  # between the blocks


@pytest.mark.parametrize("gate", ["activation", "presence"])
def test_fields_of_a_network(gate):
    pytest.importorskip("torch")
    from harsanyinet import HarsanyiMLP

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
