"""Plots of effects: what a column adds by itself, what two add together.

They draw on matplotlib axes and return them, as `explanation_plots` says; the numbers come from `tables.effects`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.explanations.names import name_output
from harsanyinet.plots import drawing
from harsanyinet.tables.effects import Axis, PairEffect, SingleEffect, pair_effect, single_effect

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from harsanyinet.tables.effects import Model

Array = NDArray[Any]

MAX_BARS = 40
"""How many categories `plot_shape` shows: those with the strongest effects."""
_Drawn = tuple["Axes", str, list[str]]  # for the title, how many are shown, and notes


def plot_shape(
    model: Model | SingleEffect,
    feature: str | int | None = None,
    X: Any = None,
    output: str | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """What a column adds by itself to the raw output: steps over numbers, bars for categories.

    Zero is a row where the column is absent. That is what a missing value means, unless the column had missing values
    in `fit`: then they have an effect of their own.

    Args:
        model: A fitted estimator, or what `effects.single_effect` returned.
        feature: Name or position of the column, which the latter knows.
        X: Rows whose values are to be shown too: as a grey histogram under the steps, as shares beside categories.
        output: Name or position; needed when there are several outputs.
        ax: Where to draw.
    """
    if isinstance(model, SingleEffect):
        effect = model
        if feature is not None and feature not in (effect.axis.name, effect.axis.position):
            raise ValueError(f"the effect is that of {effect.axis.name!r}, however: feature={feature!r}")
    elif feature is None:
        raise ValueError("plot_shape draws one column of a model, so feature must name one, however: feature=None")
    else:
        effect = single_effect(model, feature)
    k = drawing.one_output(output, effect.output_names, "plot_shape")
    heights = effect.effect.reshape(-1, len(effect.output_names))[:, k].astype(np.float64)
    if not len(heights):
        raise ValueError(f"a plot needs at least one value, however: column {effect.axis.name!r} has none")
    held = None if X is None else effect.axis.data(X)
    name = drawing.short_label(name_output(effect.output_names, k, effect.scale))
    ax, shown, notes = (_shape_bars if effect.axis.few else _shape_steps)(effect.axis, heights, held, name, ax)
    notes = [f"zero: {'absent' if effect.axis.column.missing else 'missing'}", *notes]
    what = f"{drawing.short_label(effect.axis.name)}{'' if heights.any() else ' adds nothing'} by itself{shown}"
    ax.set_title(f"{drawing.in_one_or_two_lines(name, what, between=': ')}\n({', '.join(notes)})", fontsize=10)
    return ax


def plot_pair(
    model: Model | PairEffect,
    a: str | int | None = None,
    b: str | int | None = None,
    output: str | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """What two columns add together to the raw output, beyond what each adds by itself, as a heat map.

    `model` is a fitted estimator, or what `effects.pair_effect` returned. `a` and `b` are names or positions of the
    columns on the horizontal and the vertical axis, which the latter knows; the rest is as for `plot_shape`.
    """
    if isinstance(model, PairEffect):
        effect = model
    elif a is None or b is None:
        raise ValueError(f"plot_pair draws two columns of a model, however: a={a!r}, b={b!r}")
    else:
        effect = pair_effect(model, a, b)
    k = drawing.one_output(output, effect.output_names, "plot_pair")
    across, up = effect.axes
    for axis in effect.axes:
        if not len(axis.values):
            raise ValueError(f"a plot needs at least one value, however: column {axis.name!r} has none")
    table = effect.table.reshape(len(across.values), len(up.values), -1)[:, :, k].T.astype(np.float64)
    n_up, n_across = table.shape
    labels = [drawing.distinct_labels(axis.labels, 24) for axis in effect.axes]
    longest = [0.075 * max(map(len, some)) for some in labels]  # inches
    width, height = min(max(0.34 * n_across, 3.0), 8.0), min(max(0.3 * n_up, 2.6), 7.0)
    ax = drawing.new_axes(ax, width + longest[1] + 1.8, height + longest[0] + 1.2)
    limit = float(np.abs(table).max())
    end = limit or 1.0
    image = ax.imshow(table, "RdBu_r", vmin=-end, vmax=end, aspect="auto", origin="lower", interpolation="nearest")
    _label_both_sides(ax, labels[0], labels[1], longest[0])
    if up.column.kind == "category":
        ax.invert_yaxis()  # the most frequent one on top
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    names = drawing.distinct_labels([across.name, up.name])
    ax.set(xlabel=names[0], ylabel=names[1])
    name = drawing.short_label(name_output(effect.output_names, k, effect.scale))
    shown = drawing.in_one_or_two_lines("effect of both together", name, longest=44)
    ax.figure.colorbar(image, ax=ax, fraction=0.05, pad=0.03, label=shown)
    what = "beyond what each adds by itself" if limit else "the two never act as a pair"
    ax.set_title(drawing.in_one_or_two_lines(name, what, between=": ", longest=50), fontsize=10)
    return ax


def _label_both_sides(ax: Axes, across: Sequence[str], up: Sequence[str], longest: float) -> None:
    """As many labels as there is room for; those below stand upright where the longest, in inches, is too long."""
    extent = ax.get_window_extent()
    for side, words, pixels in ((ax.xaxis, across, extent.width), (ax.yaxis, up, extent.height)):
        room = max(1, int(pixels / ax.figure.dpi / 0.2))  # five labels to the inch
        step = -(-len(words) // room)
        side.set_ticks(range(0, len(words), step), words[::step], fontsize=9)
    if longest * 1.5 > extent.width / ax.figure.dpi / len(across):  # the bar of colours will take some of it
        ax.tick_params(axis="x", rotation=90)


def _shape_steps(axis: Axis, heights: Array, held: Array | None, name: str, ax: Axes | None) -> _Drawn:
    """Steps over numbers, a diamond beside them for missing values."""
    ax = drawing.new_axes(ax, 7.0, 4.0)
    edges, n = axis.edges, len(axis.edges) - 1
    ax.axhline(0, color=drawing.NEUTRAL, linewidth=0.8, linestyle=":", zorder=1)
    ax.stairs(heights[:n], edges, baseline=None, color=drawing.NEGATIVE, linewidth=1.5, zorder=3)
    notes = []
    if axis.column.missing:
        ax.plot(
            edges[-1] + 0.04 * (edges[-1] - edges[0]), heights[n], "D", color=drawing.POSITIVE, markersize=6, zorder=4
        )
        notes.append("diamond: missing")
    if held is not None:
        numbers = held[~np.isnan(held)]
        left, right = edges[[0, -1]]
        step = max(1, round((right - left) / 60))  # of whole numbers each bin holds equally many
        bins = np.arange(left, right + step, step) if axis.column.whole else np.linspace(left, right, 61)
        counts, _ = np.histogram(numbers.clip(left, right), bins=bins)
        low, high = ax.get_ylim()
        ax.set_ylim(low - 0.18 * (high - low), high)  # room below the steps
        shares = 0.13 * counts / max(1, counts.max())
        strip = ax.get_xaxis_transform()
        ax.bar(bins[:-1], shares, np.diff(bins), align="edge", color="#bbbbbb", transform=strip, zorder=2)
        notes.append(f"grey: {drawing.count_text(len(numbers), 'row')}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set(xlabel=drawing.short_label(axis.name), ylabel=drawing.in_one_or_two_lines("effect", name, longest=36))
    return ax, "", notes


def _shape_bars(axis: Axis, heights: Array, held: Array | None, name: str, ax: Axes | None) -> _Drawn:
    """A bar for each category, or for each side of the one border between numbers."""
    strongest = np.argsort(-np.abs(heights), kind="stable")[:MAX_BARS]
    order = strongest[np.argsort(heights[strongest], kind="stable")]
    every, notes = drawing.distinct_labels(axis.labels), []
    labels = [every[i] for i in order]
    if held is not None:
        counts = axis.counts(held)
        labels = [
            f"{label} ({drawing.percent_text(counts[i], counts.sum())})" for label, i in zip(labels, order, strict=True)
        ]
        notes.append(f"in brackets: {drawing.count_text(int(counts.sum()), 'row')}")
    n, widths = len(order), heights[order].tolist()
    low, high = min(0.0, *widths), max(0.0, *widths)
    ax = drawing.new_axes(ax, 5.0 + 0.075 * max(map(len, labels)), 1.5 + 0.3 * n)
    drawing.draw_bars(ax, range(n), widths, [drawing.rounded_text(width, max(high, -low), "+") for width in widths])
    ax.axvline(0, color=drawing.NEUTRAL, linewidth=0.8)
    ax.set_yticks(range(n), labels)
    room = 0.25 * (high - low) or 1.0  # for the numbers
    ax.set(xlim=(low - room * (low < 0), high + room * (high > 0 or low == 0)), ylim=(-0.6, n - 0.4))
    ax.set_xlabel(f"effect, {name}")
    return ax, "" if n == len(heights) else f", {n} strongest of {len(heights)}", notes
