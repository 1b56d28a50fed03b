"""Plots of explanations, effects and receptive fields. They draw on matplotlib axes and compute nothing of their own.

Every function returns its axes. Without `ax` it opens a new pyplot figure that fits what is drawn; with `ax` it draws
there and leaves the figure's size and layout alone. Nothing is shown: call `plt.show()` or `ax.figure.savefig(...)`.
Where a sign matters, red shades are positive and blue shades negative.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import takewhile
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from harsanyinet.explanation import Explanation, find_name, name_output, need_package
from harsanyinet.tables.effects import Axis, PairEffect, SingleEffect, pair_effect, single_effect

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from harsanyinet.tables.effects import Model

POSITIVE, NEGATIVE, NEUTRAL = "#d55e00", "#0072b2", "#555555"  # Okabe and Ito
MAX_FEATURES = 15
"""How many features `plot_interactions` and `plot_network` show: the strongest of the row."""
WEAKEST_EDGE = 0.03
"""Edges of `plot_network` that are weaker than this share of the strongest are left out."""
MAX_BARS = 40
"""How many categories `plot_shape` shows: those with the strongest effects."""

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
        scale: "probability" for the exact Shapley values of the predicted probability, of classifiers with up to 20
            features: see `Explanation.probability_values`.
    """
    values, base, row, k = _one_row(ex, row, output)
    what = _label(ex.output_label(k), 60)
    if scale == "probability":
        one = ex[row]
        values = one.probability_values().reshape(ex.n_features, -1)[:, k]
        base = float(one.probabilities(np.zeros(ex.n_features, dtype=bool)).reshape(-1)[k])
        what = _label(f"probability of {ex.output_names[k]}", 60)
    elif scale != "raw":
        raise ValueError(f"scale must be raw or probability, however: scale={scale!r}")
    shown, rest = _strongest(np.abs(values), max_display)
    cells = None if ex.data is None else ex.data[row]
    names = _labels(ex.feature_names)
    labels = [names[i] + ("" if cells is None else f" = {_cell(cells[i])}") for i in shown]
    widths = [float(values[i]) for i in shown]
    if len(rest):
        labels.append(_others(len(rest)))
        widths.append(float(values[rest].sum()))
    ax = _steps(ax, labels, widths, ("base value", base), "output")
    ax.set_xlabel(f"{what}: base value + Shapley values")
    ax.set_title(_title(what, _row(ex, row)), fontsize=10)
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

    A feature that is the same in both rows has a bar where it acts together with features that are not.

    Args:
        ex: The explanation.
        row: Position or label of the row in question.
        reference: Position or label of the row that it is compared with.
        output: Name or position; by default the largest output of the row in question.
        max_display: Number of bars; the weakest features share the last one.
        ax: Where to draw.
    """
    _, base, row, k = _one_row(ex, row, output)
    _, other_base, reference, _ = _one_row(ex, reference, k)
    what = _label(ex.output_label(k), 60)
    changes = ex.contrast(row, reference).reshape(ex.n_features, -1)[:, k].astype(np.float64)
    shown, rest = _strongest(np.abs(changes), max_display)
    names = _labels(ex.feature_names)
    labels = [names[i] for i in shown]
    if ex.data is not None:
        labels = [_compared(label, *ex.data[[row, reference], i]) for label, i in zip(labels, shown, strict=True)]
    widths = [float(changes[i]) for i in shown]
    if len(rest):
        labels.append(_others(len(rest)))
        widths.append(float(changes[rest].sum()))
    if base != other_base:  # of a restricted game
        labels.append("features held fixed")
        widths.append(base - other_base)
    start = float(ex.outputs.reshape(len(ex), -1)[reference, k])
    here, there = _row(ex, row), _row(ex, reference)
    ax = _steps(ax, labels, widths, (f"output of {there}", start), f"output of {here}")
    ax.set_xlabel(f"{what}: differences of Shapley values")
    ax.set_title(_title(what, f"{here} against {there}"), fontsize=10)
    return ax


def plot_bar(ex: Explanation, output: str | int | None = None, max_display: int = 10, ax: Axes | None = None) -> Axes:
    """The mean |Shapley value| of every feature over the rows.

    Args:
        ex: The explanation.
        output: Name or position; by default the mean over all outputs.
        max_display: Number of bars; the last one is the sum over the weakest features.
        ax: Where to draw.
    """
    _check_rows(ex)
    strength = np.abs(_all_outputs(ex)).mean(axis=0)  # (P, K)
    k = None if output is None and strength.shape[1] > 1 else ex.output_position(output, 0)
    strength = strength.mean(axis=1) if k is None else strength[:, k]
    shown, rest = _strongest(strength, max_display)
    names = _labels(ex.feature_names)
    labels = [names[i] for i in shown]
    widths = [float(strength[i]) for i in shown]
    if len(rest):
        labels.append(_others(len(rest)))
        widths.append(float(strength[rest].sum()))
    ax = new_axes(ax, 8.0, 1.4 + 0.36 * len(widths))
    positions = np.arange(len(widths))[::-1]
    ax.barh(positions, widths, height=0.72, color=NEGATIVE)
    for y, width in zip(positions, widths, strict=True):
        _beside(ax, width, y, _number(width), left=False)
    ax.set_yticks(positions, labels)
    _clean(ax)
    ax.set_xlim(0, 1.15 * max(widths) or 1.0)
    ax.set_ylim(-0.6, len(widths) - 0.4)
    what = f"mean of {len(ex.output_names)} outputs" if k is None else _label(ex.output_label(k), 60)
    ax.set_xlabel(_title("mean |Shapley value|", what))
    ax.set_title(f"{what}, {_count(len(ex), 'row')}", fontsize=10)
    return ax


def plot_beeswarm(
    ex: Explanation, output: str | int | None = None, max_display: int = 10, ax: Axes | None = None
) -> Axes:
    """The Shapley values of all rows, one line of points per feature, with `shap.plots.beeswarm`.

    Points are coloured by the feature's value. Text with two kinds is coloured too, and the label says which is which;
    text with more kinds has no low and high, so that it is grey like missing values.

    Args:
        ex: The explanation.
        output: Name or position; needed when there are several outputs.
        max_display: Number of lines; the weakest features share the last one.
        ax: Where to draw.
    """
    _check_rows(ex)
    k = _one_output(output, ex.output_names, "plot_beeswarm")
    shap = need_package("shap", "plots")
    values = _all_outputs(ex)[:, :, k]
    shown, rest = _strongest(np.abs(values).mean(axis=0), max_display)
    names = _labels(ex.feature_names)
    columns, labels = [values[:, i] for i in shown], [names[i] for i in shown]
    colours = [] if ex.data is None else [_colours(ex.data[:, i]) for i in shown]
    for at, (_, kinds) in enumerate(colours):
        if kinds:
            labels[at] += f"\n(low: {kinds[0]}, high: {kinds[1]})"
    if len(rest):
        columns.append(values[:, rest].sum(axis=1))
        labels.append(_others(len(rest)))
    data = None
    if colours:
        data = np.full((len(ex), len(columns)), "", dtype=object)  # shap draws a column of text in grey
        for at, (numbers, _) in enumerate(colours):
            if numbers is not None:
                data[:, at] = numbers
    ax = new_axes(ax, 8.0, max(2.8, 1.6 + 0.42 * len(columns)))
    state = np.random.get_state()  # noqa: NPY002  shap shuffles with numpy's global generator
    np.random.seed(0)  # noqa: NPY002
    try:
        shap.plots.beeswarm(
            shap.Explanation(values=np.stack(columns, axis=1), data=data, feature_names=labels),
            max_display=len(columns),
            order=np.arange(len(columns)),
            ax=ax,
            plot_size=None,
            color_bar=any(numbers is not None for numbers, _ in colours),
            color_bar_label="feature value\n(grey: text, missing)",
            show=False,
        )
    finally:
        np.random.set_state(state)  # noqa: NPY002
    ax.tick_params(axis="y", labelsize=10)
    ax.tick_params(axis="x", labelsize=10)
    what = _label(ex.output_label(k), 60)
    ax.set_xlabel(f"Shapley value, {what}", fontsize=10)
    ax.set_title(f"{what}, {_count(len(ex), 'row')}", fontsize=10)
    return ax


def plot_interactions(
    ex: Explanation,
    row: int | Hashable = 0,
    output: str | int | None = None,
    index: str = "SII",
    ax: Axes | None = None,
) -> Axes:
    """A heat map of one row's pair interactions, with single features on the diagonal.

    Args:
        ex: The explanation. Of more than `MAX_FEATURES` features, the strongest are shown, in their own order.
        row: Position of the row, or its label.
        output: Name or position; by default the row's largest output.
        index: SII (the diagonal holds Shapley values), k-SII, STII, FSII, BII or Moebius, of order 2.
        ax: Where to draw.
    """
    _, _, row, k = _one_row(ex, row, output)
    found = ex[row].index(index, min(2, ex.n_features))
    numbers = found.values.reshape(len(found.sets), len(ex.output_names))[:, k]
    matrix = np.zeros((ex.n_features, ex.n_features))
    for members, number in zip(found.sets, numbers, strict=True):
        matrix[members[0], members[-1]] = matrix[members[-1], members[0]] = number
    kept = _kept(np.abs(matrix).sum(axis=0))
    matrix, labels, n = matrix[np.ix_(kept, kept)], [_labels(ex.feature_names)[i] for i in kept], len(kept)
    side = 0.52 * n
    longest = 0.075 * max(map(len, labels))
    ax = new_axes(ax, max(side + longest + 1.6, 5.0), max(side + longest + 1.0, 3.6))
    limit = float(np.abs(matrix).max()) or 1.0
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    if ax.get_window_extent().width / ax.figure.dpi / n > 0.36 and 0.005 < limit < 1e5:  # inches per cell
        decimals = max(0, 2 - int(np.floor(np.log10(limit))))
        for i, j in np.argwhere(matrix != 0):
            text = f"{round(matrix[i, j], decimals) + 0.0:.{decimals}f}"  # no -0.00
            colour = "white" if abs(matrix[i, j]) > 0.6 * limit else "black"
            ax.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
    ax.set_xticks(range(n), labels, rotation=90)
    ax.set_yticks(range(n), labels)
    ax.set_xticks(np.arange(n + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(n + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, fraction=0.05, pad=0.03, label=f"{index}, {_label(ex.output_label(k))}")
    diagonal = {"SII": "Shapley values", "BII": "Banzhaf values"}.get(index, "single features")
    what = _title(_label(ex.output_label(k), 60), f"{_row(ex, row)}{_of_all(n, ex)}")
    ax.set_title(f"{what}\ndiagonal: {diagonal}", fontsize=10)
    return ax


def plot_network(
    ex: Explanation, row: int | Hashable = 0, output: str | int | None = None, ax: Axes | None = None
) -> Axes:
    """One row's Shapley interaction index of order 2 as a graph: features are nodes and pairs are edges.

    Drawn by `shapiq.network_plot`, which always opens a figure of its own: its drawing is copied to the axes and that
    figure closed. Features that no coalition contains are left out.

    Args:
        ex: The explanation. Of more than `MAX_FEATURES` features, the strongest are shown.
        row: Position of the row, or its label.
        output: Name or position; by default the row's largest output.
        ax: Where to draw.
    """
    _, _, row, k = _one_row(ex, row, output)
    shapiq = need_package("shapiq", "plots")
    plt = need_package("matplotlib.pyplot", "plots")
    found = ex.to_shapiq(row, "SII", min(2, ex.n_features), output)
    strength = np.zeros(ex.n_features)
    for members, at in found.interaction_lookup.items():
        strength[list(members)] += abs(found.values[at])
    n = ex.n_features
    if n > MAX_FEATURES:
        found, n = found.get_subset(_kept(strength).tolist()), MAX_FEATURES
    drawn = None
    if strength.any():
        names = dict(enumerate(_labels(ex.feature_names)))
        with np.errstate(invalid="ignore"):  # shapiq divides by zero to place the label of a single node
            figure, drawn = shapiq.network_plot(found, feature_names=names, show=False)
        plt.close(figure)
    ax = new_axes(ax, 5.7 + 0.15 * min(40, max(map(len, ex.feature_names))), 6.5)
    what = _title(_label(ex.output_label(k), 60), f"{_row(ex, row)}{_of_all(n, ex)}")
    ax.set_title(f"{what}\nnodes: Shapley values, edges: SII of pairs", fontsize=10)
    ax.set_axis_off()
    if drawn is None:
        ax.text(0.5, 0.5, "every interaction is zero", ha="center", va="center", transform=ax.transAxes)
    else:
        _copy_network(drawn, ax)
    return ax


def plot_order_spectrum(ex: Explanation, ax: Axes | None = None) -> Axes:
    """How much of the sum of |dividends| lies in coalitions of one feature, of two, of three and so on.

    Args:
        ex: The explanation; all rows and outputs count.
        ax: Where to draw.
    """
    _check_rows(ex)
    percent = 100 * ex.order_spectrum()
    occurring = np.flatnonzero(percent[1:] > 0) + 1
    top = int(occurring.max(initial=1))
    ax = new_axes(ax, max(5.5, 1.5 + 0.5 * min(top, 30)), 3.6)
    orders = np.arange(1, top + 1)
    ax.bar(orders, percent[1 : top + 1], width=0.72, color=NEGATIVE)
    if top <= 20:
        for order in orders:
            text = "<0.1" if 0 < percent[order] < 0.05 else f"{percent[order]:.1f}"
            ax.annotate(text, (order, percent[order]), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    step = -(-top // 30)
    ax.set_xticks(orders[::step])
    ax.set_ylim(0, 1.12 * float(percent[1:].max()) or 100)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("order: number of features in the coalition")
    ax.set_ylabel("share of the sum of |dividends| (%)")
    k = len(ex.output_names)
    what = _label(ex.output_label(0), 60) if k == 1 else f"{k} outputs"
    ax.set_title(
        f"{what}, {_count(len(ex), 'row')}" + ("" if len(occurring) else "\nevery dividend is zero"), fontsize=10
    )
    return ax


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
        feature: Name or position of the column; may be left out of the latter.
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
    k = _one_output(output, effect.output_names, "plot_shape")
    heights = effect.effect.reshape(-1, len(effect.output_names))[:, k].astype(np.float64)
    if not len(heights):
        raise ValueError(f"a plot needs at least one value, however: column {effect.axis.name!r} has none")
    held = None if X is None else effect.axis.data(X)
    draw = _shape_bars if effect.axis.few else _shape_steps
    return draw(effect, heights, held, _label(name_output(effect.output_names, k, effect.scale)), ax)


def plot_pair(
    model: Model | PairEffect,
    a: str | int | None = None,
    b: str | int | None = None,
    output: str | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """What two columns add together to the raw output, beyond what each adds by itself, as a heat map.

    Args:
        model: A fitted estimator, or what `effects.pair_effect` returned.
        a: Name or position of the column on the horizontal axis; may be left out of the latter, like `b`.
        b: Of the column on the vertical axis.
        output: Name or position; needed when there are several outputs.
        ax: Where to draw.
    """
    if isinstance(model, PairEffect):
        effect = model
    elif a is None or b is None:
        raise ValueError(f"plot_pair draws two columns of a model, however: a={a!r}, b={b!r}")
    else:
        effect = pair_effect(model, a, b)
    k = _one_output(output, effect.output_names, "plot_pair")
    across, up = effect.axes
    for axis in effect.axes:
        if not len(axis.values):
            raise ValueError(f"a plot needs at least one value, however: column {axis.name!r} has none")
    table = effect.table.reshape(len(across.values), len(up.values), -1)[:, :, k].T.astype(np.float64)
    n_up, n_across = table.shape
    labels = [_labels(axis.labels, 24) for axis in effect.axes]
    longest = [0.075 * max(map(len, some)) for some in labels]  # inches
    ax = new_axes(
        ax, min(max(0.34 * n_across, 3.0), 8.0) + longest[1] + 1.8, min(max(0.3 * n_up, 2.6), 7.0) + longest[0] + 1.2
    )
    limit = float(np.abs(table).max())
    image = ax.imshow(
        table, cmap="RdBu_r", vmin=-(limit or 1.0), vmax=limit or 1.0, aspect="auto", origin="lower",
        interpolation="nearest",
    )  # fmt: skip
    extent = ax.get_window_extent()
    for side, words, pixels in ((ax.xaxis, labels[0], extent.width), (ax.yaxis, labels[1], extent.height)):
        room = max(1, int(pixels / ax.figure.dpi / 0.2))  # five labels to the inch
        step = -(-len(words) // room)
        side.set_ticks(range(0, len(words), step), words[::step], fontsize=9)
    if longest[0] * 1.5 > extent.width / ax.figure.dpi / n_across:  # the bar of colours will take some of it
        ax.tick_params(axis="x", rotation=90)
    if up.column.kind == "category":
        ax.invert_yaxis()  # the most frequent one on top
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    names = _labels([across.name, up.name])
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    name = _label(name_output(effect.output_names, k, effect.scale))
    ax.figure.colorbar(image, ax=ax, fraction=0.05, pad=0.03, label=_title("effect of both together", name, longest=44))
    found = "beyond what each adds by itself" if limit else "the two never act as a pair"
    ax.set_title(_title(name, found, between=": ", longest=50), fontsize=10)
    return ax


def plot_fields(
    fields: Any,
    feature_names: Sequence[str] | None = None,
    max_units: int = 300,
    ax: Axes | None = None,
) -> Axes:
    """A map of receptive fields: a line per unit, a column per feature, dark where the unit depends on the feature.

    The units of a block are sorted by the size of their field and then by its members.

    Args:
        fields: A network (or anything with `receptive_fields()`), or one (U, P) bool array or tensor per block.
        feature_names: P names; x0, x1, ... by default.
        max_units: Number of lines, shared evenly by the blocks. A larger block shows every second, third, ... unit.
        ax: Where to draw.
    """
    blocks = _blocks(fields)
    n = blocks[0].shape[1]
    names = [f"x{i}" for i in range(n)] if feature_names is None else _labels(list(map(str, feature_names)))
    if len(names) != n:
        raise ValueError(f"feature_names must be {n} names, however: {len(names)} given")
    if max_units < len(blocks):
        raise ValueError(f"max_units must be at least the number of blocks, {len(blocks)}, however: {max_units}")
    room = max_units // len(blocks)
    lines = [block[np.linspace(0, len(block) - 1, min(room, len(block))).round().astype(int)] for block in blocks]
    edges = np.cumsum([0, *map(len, lines)])
    colors = need_package("matplotlib.colors", "plots")
    ax = new_axes(ax, min(max(4.5, 2.2 + 0.2 * n), 16.0), min(max(3.5, 2.0 + 0.03 * float(edges[-1])), 12.0))
    cmap = colors.ListedColormap(["#f2f2f2", NEGATIVE])
    ax.imshow(np.vstack(lines), cmap=cmap, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for edge in edges[1:-1]:
        ax.axhline(edge - 0.5, color="black", linewidth=1.5)
    if n <= 100:
        for edge in range(1, n):
            ax.axvline(edge - 0.5, color="white", linewidth=0.5)
    step = -(-n // 80)
    ax.set_xticks(range(0, n, step), names[::step], rotation=90, fontsize=9 if n <= 40 else 7)
    counts = [
        f"{len(some)} units" if len(some) == len(block) else f"{len(some)} of {len(block)}"
        for some, block in zip(lines, blocks, strict=True)
    ]
    labels = [f"block {i + 1}\n{count}" for i, count in enumerate(counts)] if len(blocks) > 1 else counts
    ax.set_yticks((edges[:-1] + edges[1:] - 1) / 2, labels)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("feature")
    ax.set_title("receptive fields of the units", fontsize=10)
    return ax


# What is drawn -------------------------------------------------------------------------------------------------------


def _one_output(output: str | int | None, names: Sequence[str], plot: str) -> int:
    if output is None and len(names) > 1:
        known = ", ".join(names[:12])
        raise ValueError(f"{plot} draws one output, so output must name one of {known}, however: output=None")
    return 0 if output is None else find_name(output, list(names), "output")


def _shape_steps(effect: SingleEffect, heights: Array, held: Array | None, name: str, ax: Axes | None) -> Axes:
    """Steps over numbers, a diamond beside them for missing values."""
    ax = new_axes(ax, 7.0, 4.0)
    edges, n = effect.axis.edges, len(effect.axis.edges) - 1
    ax.axhline(0, color=NEUTRAL, linewidth=0.8, linestyle=":", zorder=1)
    ax.stairs(heights[:n], edges, baseline=None, color=NEGATIVE, linewidth=1.5, zorder=3)
    notes = [_zero(effect)]
    if effect.axis.column.missing:
        ax.plot(edges[-1] + 0.04 * (edges[-1] - edges[0]), heights[n], "D", color=POSITIVE, markersize=6, zorder=4)
        notes.append("diamond: missing")
    if held is not None:
        numbers = held[~np.isnan(held)]
        counts, bins = np.histogram(numbers.clip(edges[0], edges[-1]), bins=_bins(effect.axis))
        low, high = ax.get_ylim()
        ax.set_ylim(low - 0.18 * (high - low), high)  # room below the steps
        shares = 0.13 * counts / max(1, counts.max())
        strip = ax.get_xaxis_transform()
        ax.bar(bins[:-1], shares, np.diff(bins), align="edge", color="#bbbbbb", transform=strip, zorder=2)
        notes.append(f"grey: {_count(len(numbers), 'row')}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(_label(effect.axis.name))
    ax.set_ylabel(_title("effect", name, longest=36))
    title = _title(name, _by_itself(effect, heights), between=": ")
    ax.set_title(f"{title}\n({', '.join(notes)})", fontsize=10)
    return ax


def _zero(effect: SingleEffect) -> str:
    return f"zero: {'absent' if effect.axis.column.missing else 'missing'}"


def _by_itself(effect: SingleEffect, heights: Array) -> str:
    return f"{_label(effect.axis.name)}{'' if heights.any() else ' adds nothing'} by itself"


def _bins(axis: Axis) -> Array:
    """Edges of a histogram; of whole numbers each bin holds equally many."""
    low, high = axis.edges[0], axis.edges[-1]
    if not axis.column.whole:
        return np.linspace(low, high, 61)
    step = max(1, round((high - low) / 60))
    return np.arange(low, high + step, step)


def _shape_bars(effect: SingleEffect, heights: Array, held: Array | None, name: str, ax: Axes | None) -> Axes:
    """A bar for each category, or for each side of the one border between numbers."""
    strongest = np.argsort(-np.abs(heights), kind="stable")[:MAX_BARS]
    order = strongest[np.argsort(heights[strongest], kind="stable")]
    labels = [_labels(effect.axis.labels)[i] for i in order]
    if held is not None:
        counts = effect.axis.counts(held)
        labels = [f"{label} ({_percent(counts[i], counts.sum())})" for label, i in zip(labels, order, strict=True)]
    ax = new_axes(ax, 5.0 + 0.075 * max(map(len, labels)), 1.5 + 0.3 * len(order))
    bars = heights[order].tolist()
    ax.barh(range(len(bars)), bars, height=0.72, color=[NEGATIVE if bar < 0 else POSITIVE for bar in bars])
    ax.axvline(0, color=NEUTRAL, linewidth=0.8)
    low, high = min(0.0, *bars), max(0.0, *bars)
    for y, bar in enumerate(bars):
        _beside(ax, bar, y, _rounded(bar, max(high, -low)), left=bar < 0)
    ax.set_yticks(range(len(bars)), labels)
    ax.set_ylim(-0.6, len(bars) - 0.4)
    room = 0.25 * (high - low) or 1.0  # for the numbers
    ax.set_xlim(low - room * (low < 0), high + room * (high > 0 or low == 0))
    _clean(ax)
    ax.set_xlabel(f"effect, {name}")
    kept = "" if len(bars) == len(heights) else f", {len(bars)} strongest of {len(heights)}"
    notes = [_zero(effect)] + ([] if held is None else [f"in brackets: {_count(int(counts.sum()), 'row')}"])
    title = _title(name, f"{_by_itself(effect, heights)}{kept}", between=": ")
    ax.set_title(f"{title}\n({', '.join(notes)})", fontsize=10)
    return ax


def _steps(ax: Axes | None, labels: Sequence[str], widths: Sequence[float], start: tuple[str, float], end: str) -> Axes:
    """Bars that lead from a start at the bottom to an end at the top, the first bar just below it."""
    bottom, base = start
    n = len(widths)
    ends = base + np.cumsum(widths[::-1])[::-1]  # from the top, strongest, down to the weakest just above the start
    starts = np.append(ends[1:], base)
    lines = [len(line) for label in labels for line in label.split("\n")]
    height = 0.36 if len(lines) == n else 0.45
    ax = new_axes(ax, max(8.0, 5.0 + 0.075 * max(lines)), 1.6 + height * (n + 2))
    bars = list(range(n, 0, -1))
    ax.barh(bars, widths, left=starts, height=0.72, color=[NEGATIVE if width < 0 else POSITIVE for width in widths])
    for below, x in enumerate([*starts[::-1], ends[0]]):
        ax.plot([x, x], [below, below + 1], color=NEUTRAL, linewidth=0.6, linestyle=":", zorder=0)
    ax.plot([base, ends[0]], [0, n + 1], "D", color=NEUTRAL, markersize=6)
    for y, left, width in zip(bars, starts, widths, strict=True):
        _beside(ax, left + width, y, _number(width, "+"), left=width < 0)
    _beside(ax, base, 0, _number(base), left=False, gap=8)
    _beside(ax, ends[0], n + 1, _number(ends[0]), left=False, gap=8)
    ax.set_yticks([n + 1, *bars, 0], [end, *labels, bottom])
    ax.set_ylim(-0.6, n + 1.6)
    _clean(ax)
    low, high = min(base, *ends), max(base, *ends)
    room = 0.22 * (high - low) if high - low > 1e-9 * max(abs(low), abs(high)) else 1.0  # for the numbers
    ax.set_xlim(low - room, high + room)
    return ax


def _check_rows(ex: Explanation) -> None:
    if not len(ex):
        raise ValueError("a plot needs at least one row, however: the explanation has 0 rows")


def _all_outputs(ex: Explanation) -> Array:
    """(B, P, K), also of one output."""
    return ex.values.reshape(len(ex), ex.n_features, len(ex.output_names))


def _one_row(ex: Explanation, row: int | Hashable, output: str | int | None) -> tuple[Array, float, int, int]:
    """The values (P,) and the base value of one row and output, and the positions of both."""
    _check_rows(ex)
    row = ex.row_position(row)
    k = ex.output_position(output, row)
    base = float(np.ravel(ex[row].base_values)[k])
    return _all_outputs(ex)[row, :, k].astype(np.float64), base, row, k


def _row(ex: Explanation, row: int) -> str:
    named = ex.row_names is not None and isinstance(ex.row_names[row], str)
    return f"{'' if named else 'row '}{_label(ex.row_label(row))}"


def _strongest(strength: Array, max_display: int) -> tuple[Array, Array]:
    """The features with a place of their own, strongest first, and those that share the last place."""
    if max_display < 1:
        raise ValueError(f"max_display must be at least 1, however: max_display={max_display}")
    order = np.argsort(-strength, kind="stable")
    own = len(order) if len(order) <= max_display else max_display - 1
    return order[:own], order[own:]


def _kept(strength: Array) -> Array:
    """The `MAX_FEATURES` strongest features, in their own order."""
    return np.sort(np.argsort(-strength, kind="stable")[:MAX_FEATURES])


def _colours(column: Array) -> tuple[Array | None, list[str]]:
    """The numbers to colour a feature by, None for grey, and what low and high mean for text of two kinds."""
    kinds: list[str] = []
    try:
        numbers = np.array([np.nan if _is_missing(cell) else cell for cell in column], dtype=np.float64)
    except (TypeError, ValueError):
        words = ["" if _is_missing(cell) else str(cell) for cell in column]
        kinds = sorted(set(words) - {""})
        numbers = np.array([kinds.index(word) if word and len(kinds) == 2 else np.nan for word in words])
    numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    if len(np.unique(numbers[np.isfinite(numbers)])) < 2:
        return None, []
    return numbers, [_label(kind) for kind in kinds]


def _blocks(fields: Any) -> list[NDArray[np.bool_]]:
    """The units of every block, sorted so that the structure shows."""
    method = getattr(fields, "receptive_fields", None)
    given = fields if method is None else method()
    blocks = [np.asarray(f.detach().cpu() if hasattr(f, "detach") else f) for f in given]
    shapes = [block.shape for block in blocks]
    if not blocks or any(len(s) != 2 or 0 in s or s[1] != shapes[0][-1] for s in shapes):
        raise ValueError(f"fields must be one (units, features) bool array per block, however: shapes {shapes[:4]}")
    if any(block.dtype != bool for block in blocks):
        raise TypeError(f"fields must be bool, however: {[str(block.dtype) for block in blocks]}")
    return [block[np.lexsort([*(~block.T)[::-1], block.sum(axis=1)])] for block in blocks]


# Words and numbers ---------------------------------------------------------------------------------------------------


def _label(name: str, longest: int = 40) -> str:
    """A name as matplotlib shall print it: without its middle where it is too long, and without mathematics."""
    head = longest - 1 - longest // 3
    return (name if len(name) <= longest else f"{name[:head]}…{name[-(longest // 3) :]}").replace("$", r"\$")


def _labels(names: Sequence[str], longest: int = 40) -> list[str]:
    """Names as labels that differ, as the names do; those that differ in the middle only show it, or their number."""
    found = [_label(name, longest) for name in names]
    alike: dict[str, list[int]] = {}
    for i, label in enumerate(found):
        alike.setdefault(label, []).append(i)
    for same in alike.values():
        if len(same) > 1:
            letters = zip(*(names[i] for i in same), strict=False)
            start = len(list(takewhile(lambda some: len(set(some)) == 1, letters)))
            room = longest - 10
            for i in same:
                found[i] = _label(f"{names[i][:8]}…{names[i][max(8, start - 8) :][:room]}…", longest)
    return [label if found.count(label) == 1 else f"{label} ({i})" for i, label in enumerate(found)]


def _title(first: str, second: str, *, between: str = ", ", longest: int = 70) -> str:
    """Two parts in one line, or in two where one would be too long."""
    together = f"{first}{between}{second}"
    return together if len(together) <= longest else f"{first}{between.rstrip()}\n{second}"


def _compared(label: str, cell: Any, other: Any) -> str:
    """A feature with its values in two rows; on two lines where one would be too long."""
    here, there = _cell(cell, 24), _cell(other, 24)
    words = f"{here} in both" if _cell(cell, 1000) == _cell(other, 1000) else f"{here} against {there}"
    return f"{label}: {words}" if len(label) + len(words) <= 44 else f"{label}:\n{words}"


def _cell(cell: Any, longest: int = 40) -> str:
    """The value of a feature in the user's words."""
    if _is_missing(cell):
        return "missing"
    if not isinstance(cell, Real) or isinstance(cell, bool | np.bool_ | int | np.integer):
        return _label(str(cell), longest)
    number = float(cell)
    if number.is_integer() and abs(number) < 1e15:
        return f"{number:.0f}"
    return f"{number:.4g}" if abs(number) < 100 else f"{number:.7g}"


def _is_missing(cell: Any) -> bool:
    return cell is None or str(cell) in ("nan", "<NA>", "NaT")


def _number(value: float, sign: str = "") -> str:
    if value == 0:
        return "0"
    return f"{value:{sign}.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:{sign}#.3g}".removesuffix(".")


def _percent(part: int, whole: int) -> str:
    share = 100 * part / max(1, whole)
    return "<0.1 %" if 0 < share < 0.1 else f"{share:.{0 if share >= 10 or not part else 1}f} %"


def _rounded(value: float, largest: float) -> str:
    """A number to three digits of the largest one that stands beside it."""
    if not 0.001 <= largest < 1e5:
        return _number(value, "+")
    decimals = max(0, 2 - int(np.floor(np.log10(largest))))
    return f"{round(value, decimals) + 0.0:+.{decimals}f}"  # no -0.00


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _others(n: int) -> str:
    return f"sum of {_count(n, 'other feature')}"


def _of_all(n: int, ex: Explanation) -> str:
    return f", {n} strongest of {ex.n_features} features" if n < ex.n_features else ""


# Axes ----------------------------------------------------------------------------------------------------------------


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure whose layout makes room for every label."""
    if ax is not None:
        return ax
    plt = need_package("matplotlib.pyplot", "plots")
    new: Axes = plt.subplots(figsize=(width, height), layout="constrained")[1]
    return new


def _beside(ax: Axes, x: float, y: float, text: str, *, left: bool, gap: int = 4) -> None:
    """A number next to the end of a bar."""
    side, shift = ("right", -gap) if left else ("left", gap)
    ax.annotate(text, (x, y), (shift, 0), textcoords="offset points", ha=side, va="center", fontsize=9)


def _clean(ax: Axes) -> None:
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _copy_network(drawn: Axes, ax: Axes) -> None:
    """Copies shapiq's nodes and edges, and its labels in such a way that they grow away from the circle.

    A feature without a value of its own has no node there and gets an empty one.
    """
    patches = need_package("matplotlib.patches", "plots")
    room = ax.get_window_extent().width
    size = 10 if room > 5 * ax.figure.dpi else 8
    labels = []
    for text in drawn.texts:
        x, y = text.get_position()
        distance = float(np.hypot(x, y))
        x, y, distance = (x, y, distance) if np.isfinite(distance) else (0.0, -0.2, np.inf)  # a single node
        ax.add_patch(patches.Circle((x / distance, y / distance), 0.0625, facecolor="white", edgecolor="#999999"))
        side = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
        labels.append(ax.text(0.93 * x, y, text.get_text(), ha=side, va="center", fontsize=size))
    every: list[Any] = list(drawn.patches)
    nodes = [patch for patch in every if max(patch.get_path().get_extents().size) < 0.25]  # they are small
    strongest = max((patch.get_alpha() for patch in every if patch not in nodes), default=1.0)
    for patch in every:
        copy = patches.PathPatch(patch.get_path())
        copy.update_from(patch)
        copy.set_transform(ax.transData)
        copy.set_edgecolor("#999999")
        if patch not in nodes:  # shapiq measures them by the strongest node, beside which most would be invisible
            share = patch.get_alpha() / strongest
            if share < WEAKEST_EDGE:
                continue
            colour = patch.get_facecolor()[:3]
            copy.set(alpha=0.1 + 0.8 * share, linewidth=0.5 + 2.5 * share, facecolor=colour, edgecolor=colour)
        ax.add_patch(copy)
    wide = max(label.get_window_extent().width for label in labels) / room
    half = max(1.3, 1.12 / max(0.3, 1 - 2 * wide))  # leaves room for the longest label on both sides
    ax.set(xlim=(-half, half), ylim=(-1.3, 1.3))
    ax.set_aspect("equal")
    handles = [patches.Patch(color=c, label=s) for c, s in (("#ff0d57", "positive"), ("#1e88e5", "negative"))]
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False, fontsize=9)
