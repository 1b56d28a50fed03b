"""Maps of Shapley values: what is drawn where, and on which scale."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from harsanyinet import Explanation
from harsanyinet.plots.maps import plot_cell_interactions, plot_map, plot_maps


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture
def ex():
    """Two images of 2 x 3 cells and three classes; the dividends of single cells and of one pair."""
    rng = np.random.default_rng(0)
    coalitions = np.concatenate([np.eye(6, dtype=bool), [[True, True, False, False, False, False]]])
    dividends = rng.normal(size=(2, 7, 3))
    dividends[0, 6, 1] = 9.0
    shares = coalitions / coalitions.sum(1, keepdims=True)
    return Explanation(
        values=np.einsum("bck,cp->bpk", dividends, shares), base_values=np.zeros(3), coalitions=coalitions,
        dividends=dividends, output_names=["cat", "dog", "cow"],
    )  # fmt: skip


IMAGES = np.linspace(0, 255, 2 * 8 * 12 * 3).reshape(2, 8, 12, 3).astype(np.uint8)


def overlay(ax):
    return np.asarray(ax.get_images()[1].get_array())


def test_a_map_shows_each_cell_by_sign_and_strength(ex):
    ax = plot_map(ex, IMAGES[0], row=0, output="dog", cells=(2, 3))
    shown = overlay(ax)
    values = ex.values[0, :, 1].reshape(2, 3)
    assert shown.shape == (2, 3, 4)
    red, blue = shown[..., 0] > shown[..., 2], shown[..., 2] > shown[..., 0]
    np.testing.assert_array_equal(red, values > 0)
    np.testing.assert_array_equal(blue, values < 0)
    strength = np.argsort(np.abs(values).ravel())
    assert (np.diff(shown[..., 3].ravel()[strength]) >= 0).all()
    assert ax.get_title() == f"dog: {values.sum():+.2f}"
    assert ax.get_images()[0].get_extent() == ax.get_images()[1].get_extent() == [0, 12, 8, 0]


def test_all_maps_of_a_figure_have_one_scale(ex):
    figure = plot_maps(ex, IMAGES, cells=(2, 3), titles=["a", "b"])
    axes = figure.axes[:8]
    assert [ax.get_title() for ax in axes[1:4]] == [
        f"{name}: {v:+.1f}" for name, v in zip(ex.output_names, ex.values[0].sum(0), strict=True)
    ]
    drawn = [overlay(ax)[..., 3] for ax in (*axes[1:4], *axes[5:8])]
    values = [ex.values[i, :, k].reshape(2, 3) for i in range(2) for k in range(3)]
    order = np.argsort(np.abs(np.concatenate(values, None)))
    assert (np.diff(np.concatenate(drawn, None)[order]) >= 0).all()
    assert axes[0].get_ylabel() == "a"
    limit = np.quantile(np.abs(ex.values), 0.995)
    assert figure.axes[-1].get_ylim() == pytest.approx((-limit, limit))
    few = plot_maps(ex, IMAGES, ["cow"], cells=(2, 3))
    assert [ax.get_title() for ax in few.axes[1:4:2]] == [f"cow: {v:+.1f}" for v in ex.values[:, :, 2].sum(1)]


def test_the_strongest_interactions_are_drawn_as_sets(ex):
    figure = plot_cell_interactions(ex, IMAGES[0], 0, "dog", k=3, at_least=1, cells=(2, 3))
    assert len(figure.axes) == 3
    assert figure.axes[0].get_title() == "2 cells: +9.00"
    np.testing.assert_array_equal(overlay(figure.axes[0])[..., 3] > 0, [[True, True, False], [False, False, False]])
    assert figure.get_suptitle() == "strongest interactions for dog"


def test_interactions_have_two_cells_unless_asked(ex):
    every = plot_cell_interactions(ex, IMAGES[0], 0, "dog", at_least=1, cells=(2, 3))
    several = plot_cell_interactions(ex, IMAGES[0], 0, "dog", cells=(2, 3))
    assert any(ax.get_title().startswith("1 cell:") for ax in every.axes)
    assert not any(ax.get_title().startswith("1 cell:") for ax in several.axes)
    with pytest.raises(ValueError, match=r"some set must hold at least 7 cells, however: none does"):
        plot_cell_interactions(ex, IMAGES[0], 0, "dog", at_least=7, cells=(2, 3))


def test_grey_pictures_and_square_maps():
    values = np.arange(4.0).reshape(1, 4, 1)
    ex = Explanation(values=values, base_values=np.zeros(1), coalitions=np.eye(4, dtype=bool), dividends=values)
    assert overlay(plot_map(ex, np.zeros((4, 4)))).shape == (2, 2, 4)


def test_the_names_of_the_cells_tell_the_shape():
    values = np.arange(36.0).reshape(1, 36, 1)
    names = [f"cell {row},{column}" for row in range(4) for column in range(9)]
    cells = np.eye(36, dtype=bool)
    ex = Explanation(values=values, base_values=np.zeros(1), coalitions=cells, dividends=values, feature_names=names)
    assert overlay(plot_map(ex, np.zeros((8, 18)))).shape == (4, 9, 4)


def test_wrong_shapes(ex):
    with pytest.raises(ValueError, match=r"cells must be the height and width of a map of 6 cells, however: 2 x 2"):
        plot_map(ex, IMAGES[0])
    with pytest.raises(ValueError, match=r"images must be those of the explanation, 2, however: 1"):
        plot_maps(ex, IMAGES[:1], cells=(2, 3))
    with pytest.raises(ValueError, match=r"image must be \(height, width\).*, however: \(12,\)"):
        plot_map(ex, IMAGES[0, 0, :, 0], cells=(2, 3))
    with pytest.raises(ValueError, match="at least one row, however: the explanation has 0 rows"):
        plot_map(ex[:0], IMAGES[0], cells=(2, 3))
