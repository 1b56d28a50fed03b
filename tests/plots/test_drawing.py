"""What every plot keeps to: its axes, its room, its errors."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from plotted import (
    check_texts,
    explanation,
    many,
)

from harsanyinet import Explanation
from harsanyinet.plots import (
    plot_bar,
    plot_beeswarm,
    plot_contrast,
    plot_interactions,
    plot_network,
    plot_order_spectrum,
    plot_waterfall,
)
from harsanyinet.plots.drawing import distinct_labels

plt = pytest.importorskip("matplotlib.pyplot")

# shap 0.51 sets up its colour maps in a way that matplotlib 3.11 will deprecate.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning:shap.*")


def contrast(ex, row=0, output=None, **settings):
    """Of a row and the last one."""
    return plot_contrast(ex, row, -1, output, **settings)


PLOTS = [plot_waterfall, plot_bar, plot_beeswarm, plot_interactions, plot_network, contrast, plot_order_spectrum]

by_name = pytest.mark.parametrize("plot", PLOTS, ids=lambda f: f.__name__)


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


def test_long_names_stay_apart():
    front, back, middle = "a" * 60, "b" * 60, "c" * 60
    names = [f"{front}1", f"{front}2", f"1{back}", f"2{back}", *(f"{middle}{i}{middle}" for i in "123"), "short"]
    found = distinct_labels(names)
    assert len(set(found)) == len(names)
    assert all(len(label) <= 40 for label in found)
    assert found[0].endswith("a1")
    assert found[-1] == "short"
    assert all(i in label for i, label in zip("123", found[4:7], strict=True))  # what differs is shown
    odd = ["x" * 30 + "1" + "y" * 40 + "1" + "y" * 30, "x" * 30 + "1" + "y" * 40 + "2" + "y" * 30, "x" * 30 + "z" * 70]
    assert len(set(distinct_labels([*odd, odd[0][:-1] + "z" + odd[0][-1]]))) == 4
