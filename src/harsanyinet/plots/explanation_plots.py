"""Plots of Shapley values: of one row, of two, of all. They draw on matplotlib axes and compute nothing of their own.

Every function returns its axes. Without `ax` it opens a new pyplot figure that fits what is drawn; with `ax` it draws
there and leaves the figure's size and layout alone. Nothing is shown: call `plt.show()` or `ax.figure.savefig(...)`.
Where a sign matters, red shades are positive and blue shades negative.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from harsanyinet.explanations.explanation import Explanation
from harsanyinet.extras import need_package
from harsanyinet.plots import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]


def plot_waterfall(
    ex: Explanation,
    row: int | Hashable = 0,
    output: str | int | None = None,
    max_display: int = 10,
    ax: Axes | None = None,
    *,
    scale: Literal["raw", "probability"] = "raw",
) -> Axes:
    """One row from the base value (every feature absent) to its output, one bar per Shapley value.

    NOTE[DIFF]: not `shap.plots.waterfall`, which calls the base value E[f(X)], resizes the figure of a given axes,
    breaks names with "=" or "$" and draws long bars when all values are zero.

    Args:
        ex: The explanation.
        row: Position of the row, or its label.
        output: Name or position; by default the row's largest output.
        max_display: Number of bars; the weakest features share the last one.
        ax: Where to draw.
        scale: "probability" for `Explanation.probability_values`, of classifiers with up to 20 features.
    """
    values, base, row, k = drawing.one_row(ex, row, output)
    what = drawing.output_title(ex, k)
    if scale == "probability":
        one = ex[row]
        values = one.probability_values().reshape(ex.n_features, -1)[:, k]
        base = float(one.probabilities(np.zeros(ex.n_features, dtype=bool)).reshape(-1)[k])
        what = drawing.short_label(f"probability of {ex.output_names[k]}", 60)
    elif scale != "raw":
        raise ValueError(f"scale must be raw or probability, however: scale={scale!r}")
    labels = drawing.distinct_labels(ex.feature_names)
    if ex.data is not None:
        labels = [f"{label} = {drawing.cell_text(cell)}" for label, cell in zip(labels, ex.data[row], strict=True)]
    labels, widths = drawing.pooled(labels, values, max_display)
    ax = _steps(ax, labels, widths, ("base value", base), "output")
    ax.set_xlabel(f"{what}: base value + Shapley values")
    ax.set_title(drawing.in_one_or_two_lines(what, drawing.row_title(ex, row)), fontsize=10)
    return ax


def plot_contrast(
    ex: Explanation,
    row: int | Hashable,
    reference: int | Hashable,
    output: str | int | None = None,
    max_display: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Why two rows differ: from the output of one to that of the other, one bar per difference of Shapley values.

    A feature that is the same in both rows has a bar where it acts together with features that are not. Arguments as
    for `plot_waterfall`; `reference` is the row that `row` is compared with, and `row` decides on the output.
    """
    _, base, row, k = drawing.one_row(ex, row, output)
    _, other_base, reference, _ = drawing.one_row(ex, reference, k)
    what = drawing.output_title(ex, k)
    changes = ex.contrast(row, reference).reshape(ex.n_features, -1)[:, k].astype(np.float64)
    labels = drawing.distinct_labels(ex.feature_names)
    if ex.data is not None:
        labels = list(map(drawing.compared_label, labels, ex.data[row], ex.data[reference]))
    labels, widths = drawing.pooled(labels, changes, max_display)
    if base != other_base:  # of a restricted game
        labels, widths = [*labels, "features held fixed"], [*widths, base - other_base]
    start = float(ex.outputs.reshape(len(ex), -1)[reference, k])
    here, there = drawing.row_title(ex, row), drawing.row_title(ex, reference)
    ax = _steps(ax, labels, widths, (f"output of {there}", start), f"output of {here}")
    ax.set_xlabel(f"{what}: differences of Shapley values")
    ax.set_title(drawing.in_one_or_two_lines(what, f"{here} against {there}"), fontsize=10)
    return ax


def plot_bar(ex: Explanation, output: str | int | None = None, max_display: int = 10, ax: Axes | None = None) -> Axes:
    """The mean |Shapley value| of every feature over the rows.

    Arguments as for `plot_waterfall`; `output` is by default the mean over all, and the last bar the sum of the rest.
    """
    drawing.check_rows(ex)
    strength = np.abs(drawing.values_of_outputs(ex)).mean(axis=0)  # (P, K)
    k = None if output is None and strength.shape[1] > 1 else ex.output_position(output, 0)
    strength = strength.mean(axis=1) if k is None else strength[:, k]
    labels, widths = drawing.pooled(drawing.distinct_labels(ex.feature_names), strength, max_display)
    ax = drawing.new_axes(ax, 8.0, 1.4 + 0.36 * len(widths))
    heights = range(len(widths))[::-1]
    drawing.draw_bars(ax, heights, widths, list(map(drawing.number_text, widths)), colour=drawing.NEGATIVE)
    ax.set_yticks(heights, labels)
    ax.set(xlim=(0, 1.15 * max(widths) or 1.0), ylim=(-0.6, len(widths) - 0.4))
    what = f"mean of {len(ex.output_names)} outputs" if k is None else drawing.output_title(ex, k)
    ax.set_xlabel(drawing.in_one_or_two_lines("mean |Shapley value|", what))
    ax.set_title(f"{what}, {drawing.count_text(len(ex), 'row')}", fontsize=10)
    return ax


def plot_beeswarm(
    ex: Explanation, output: str | int | None = None, max_display: int = 10, ax: Axes | None = None
) -> Axes:
    """The Shapley values of all rows, one line of points per feature, with `shap.plots.beeswarm`.

    Points are coloured by the feature's value. Text with two kinds is coloured too, and the label says which is which;
    text with more kinds has no low and high, so that it is grey like missing values. Arguments as for `plot_waterfall`;
    `output` is needed when there are several.
    """
    drawing.check_rows(ex)
    k = drawing.one_output(output, ex.output_names, "plot_beeswarm")
    shap = need_package("shap", "plots")
    values = drawing.values_of_outputs(ex)[:, :, k]
    shown, rest = drawing.strongest_first(np.abs(values).mean(axis=0), max_display)
    names = drawing.distinct_labels(ex.feature_names)
    columns, labels = [values[:, i] for i in shown], [names[i] for i in shown]
    if len(rest):
        columns.append(values[:, rest].sum(axis=1))
        labels.append(f"sum of {drawing.count_text(len(rest), 'other feature')}")
    data, coloured = None, False
    if ex.data is not None:
        data = np.full((len(ex), len(columns)), "", dtype=object)  # shap draws a column of text in grey
        for at, i in enumerate(shown):
            numbers, kinds = _colours(ex.data[:, i])
            if numbers is not None:
                data[:, at], coloured = numbers, True
            if kinds:
                labels[at] += f"\n(low: {kinds[0]}, high: {kinds[1]})"
    ax = drawing.new_axes(ax, 8.0, max(2.8, 1.6 + 0.42 * len(columns)))
    state = np.random.get_state()  # noqa: NPY002  shap shuffles with numpy's global generator
    np.random.seed(0)  # noqa: NPY002
    try:
        shap.plots.beeswarm(
            shap.Explanation(values=np.stack(columns, axis=1), data=data, feature_names=labels),
            max_display=len(columns),
            order=np.arange(len(columns)),
            ax=ax,
            plot_size=None,
            color_bar=coloured,
            color_bar_label="feature value\n(grey: text, missing)",
            show=False,
        )
    finally:
        np.random.set_state(state)  # noqa: NPY002
    ax.tick_params(labelsize=10)
    what = drawing.output_title(ex, k)
    ax.set_xlabel(f"Shapley value, {what}", fontsize=10)
    ax.set_title(f"{what}, {drawing.count_text(len(ex), 'row')}", fontsize=10)
    return ax


def _steps(ax: Axes | None, labels: Sequence[str], widths: Sequence[float], start: tuple[str, float], end: str) -> Axes:
    """Bars that lead from a start at the bottom to an end at the top, the first bar just below it."""
    bottom, base = start
    n = len(widths)
    ends = base + np.cumsum(widths[::-1])[::-1]  # from the top, strongest, down to the weakest just above the start
    starts = np.append(ends[1:], base)
    lines = [len(line) for label in labels for line in label.split("\n")]
    height = 0.36 if len(lines) == n else 0.45
    ax = drawing.new_axes(ax, max(8.0, 5.0 + 0.075 * max(lines)), 1.6 + height * (n + 2))
    bars = list(range(n, 0, -1))
    drawing.draw_bars(ax, bars, widths, [drawing.number_text(width, "+") for width in widths], left=starts)
    for below, x in enumerate([*starts[::-1], ends[0]]):
        ax.plot([x, x], [below, below + 1], color=drawing.NEUTRAL, linewidth=0.6, linestyle=":", zorder=0)
    ax.plot([base, ends[0]], [0, n + 1], "D", color=drawing.NEUTRAL, markersize=6)
    drawing.number_beside(ax, base, 0, drawing.number_text(base), gap=8)
    drawing.number_beside(ax, ends[0], n + 1, drawing.number_text(ends[0]), gap=8)
    ax.set_yticks([n + 1, *bars, 0], [end, *labels, bottom])
    low, high = min(base, *ends), max(base, *ends)
    room = 0.22 * (high - low) if high - low > 1e-9 * max(abs(low), abs(high)) else 1.0  # for the numbers
    ax.set(xlim=(low - room, high + room), ylim=(-0.6, n + 1.6))
    return ax


def _colours(column: Array) -> tuple[Array | None, list[str]]:
    """The numbers to colour a feature by, None for grey, and what low and high mean for text of two kinds."""
    kinds: list[str] = []
    try:
        numbers = np.array([np.nan if drawing.is_missing(cell) else cell for cell in column], dtype=np.float64)
    except (TypeError, ValueError):
        words = ["" if drawing.is_missing(cell) else str(cell) for cell in column]
        kinds = sorted(set(words) - {""})
        numbers = np.array([kinds.index(word) if word and len(kinds) == 2 else np.nan for word in words])
    known = np.isfinite(numbers)
    if len(np.unique(numbers[known])) < 2:
        return None, []
    return np.where(known, numbers, np.nan), [drawing.short_label(kind) for kind in kinds]
