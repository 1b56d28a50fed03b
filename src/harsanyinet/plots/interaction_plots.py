"""Plots of who acts together: pairs of one row, orders of all rows, receptive fields of units.

They draw on matplotlib axes and return them, as `explanation_plots` says; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.explanations.explanation import Explanation
from harsanyinet.extras import need_package
from harsanyinet.plots import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

MAX_FEATURES = 15
"""How many features `plot_interactions` and `plot_network` show: the strongest of the row."""
WEAKEST_EDGE = 0.03
"""Edges of `plot_network` that are weaker than this share of the strongest are left out."""


def plot_interactions(
    ex: Explanation,
    row: int | Hashable = 0,
    output: str | int | None = None,
    index: str = "SII",
    ax: Axes | None = None,
) -> Axes:
    """A heat map of one row's pair interactions, with single features on the diagonal.

    Arguments as for `plot_waterfall`; `index` is SII (the diagonal holds Shapley values), k-SII, STII, FSII, BII or
    Moebius, of order 2. Of more than `MAX_FEATURES` features, the strongest are shown, in their own order.
    """
    _, _, row, k = drawing.one_row(ex, row, output)
    interactions = ex[row].index(index, min(2, ex.n_features))
    sets = interactions.sets
    numbers = interactions.values.reshape(len(sets), len(ex.output_names))[:, k]
    matrix = np.zeros((ex.n_features, ex.n_features))
    for members, number in zip(sets, numbers, strict=True):
        matrix[members[0], members[-1]] = matrix[members[-1], members[0]] = number
    kept = _kept(np.abs(matrix).sum(axis=0))
    names, matrix, n = drawing.distinct_labels(ex.feature_names), matrix[np.ix_(kept, kept)], len(kept)
    labels = [names[i] for i in kept]
    side = 0.52 * n + 0.075 * max(map(len, labels))
    ax = drawing.new_axes(ax, max(side + 1.6, 5.0), max(side + 1.0, 3.6))
    limit = float(np.abs(matrix).max()) or 1.0
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    if ax.get_window_extent().width / ax.figure.dpi / n > 0.36 and 0.005 < limit < 1e5:  # inches per cell
        for i, j in np.argwhere(matrix != 0):
            colour = "white" if abs(matrix[i, j]) > 0.6 * limit else "black"
            ax.text(j, i, drawing.rounded_text(matrix[i, j], limit), ha="center", va="center", fontsize=7, color=colour)
    ax.set_xticks(range(n), labels, rotation=90)
    ax.set_yticks(range(n), labels)
    ax.set_xticks(np.arange(n + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(n + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    shown = f"{index}, {drawing.short_label(ex.output_label(k))}"
    ax.figure.colorbar(image, ax=ax, fraction=0.05, pad=0.03, label=shown)
    diagonal = {"SII": "Shapley values", "BII": "Banzhaf values"}.get(index, "single features")
    ax.set_title(f"{_heading(ex, row, k)}\ndiagonal: {diagonal}", fontsize=10)
    return ax


def plot_network(
    ex: Explanation, row: int | Hashable = 0, output: str | int | None = None, ax: Axes | None = None
) -> Axes:
    """One row's Shapley interaction index of order 2 as a graph: features are nodes and pairs are edges.

    Drawn by `shapiq.network_plot`, which always opens a figure of its own: its drawing is copied to the axes and that
    figure closed. Features that no coalition contains are left out. Arguments as for `plot_interactions`.
    """
    _, _, row, k = drawing.one_row(ex, row, output)
    shapiq = need_package("shapiq", "plots")
    plt = need_package("matplotlib.pyplot", "plots")
    interactions = ex.to_shapiq(row, "SII", min(2, ex.n_features), output)
    strength = np.zeros(ex.n_features)
    for members, at in interactions.interaction_lookup.items():
        strength[list(members)] += abs(interactions.values[at])
    if ex.n_features > MAX_FEATURES:
        interactions = interactions.get_subset(_kept(strength).tolist())
    ax = drawing.new_axes(ax, 5.7 + 0.15 * min(40, max(map(len, ex.feature_names))), 6.5)
    ax.set_title(f"{_heading(ex, row, k)}\nnodes: Shapley values, edges: SII of pairs", fontsize=10)
    ax.set_axis_off()
    if not strength.any():
        ax.text(0.5, 0.5, "every interaction is zero", ha="center", va="center", transform=ax.transAxes)
        return ax
    names = dict(enumerate(drawing.distinct_labels(ex.feature_names)))
    with np.errstate(invalid="ignore"):  # shapiq divides by zero to place the label of a single node
        figure, drawn = shapiq.network_plot(interactions, feature_names=names, show=False)
    plt.close(figure)
    _copy_network(drawn, ax)
    return ax


def plot_order_spectrum(ex: Explanation, ax: Axes | None = None) -> Axes:
    """How much of the sum of |dividends|, of all rows and outputs, lies in coalitions of one feature, of two, ..."""
    drawing.check_rows(ex)
    percent = 100 * ex.order_spectrum()
    occurring = np.flatnonzero(percent[1:] > 0) + 1
    top = int(occurring.max(initial=1))
    ax = drawing.new_axes(ax, max(5.5, 1.5 + 0.5 * min(top, 30)), 3.6)
    orders = np.arange(1, top + 1)
    ax.bar(orders, percent[1 : top + 1], width=0.72, color=drawing.NEGATIVE)
    if top <= 20:
        for order in orders:
            text = "<0.1" if 0 < percent[order] < 0.05 else f"{percent[order]:.1f}"
            ax.annotate(text, (order, percent[order]), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    step = -(-top // 30)
    ax.set_xticks(orders[::step])
    ax.set_ylim(0, 1.12 * float(percent[1:].max()) or 100)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set(xlabel="order: number of features in the coalition", ylabel="share of the sum of |dividends| (%)")
    k = len(ex.output_names)
    what = drawing.output_title(ex, 0) if k == 1 else f"{k} outputs"
    zero = "" if len(occurring) else "\nevery dividend is zero"
    ax.set_title(f"{what}, {drawing.count_text(len(ex), 'row')}{zero}", fontsize=10)
    return ax


def plot_fields(
    fields: Any, feature_names: Sequence[str] | None = None, max_units: int = 300, ax: Axes | None = None
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
    given = [f"x{i}" for i in range(n)] if feature_names is None else list(map(str, feature_names))
    names = drawing.distinct_labels(given)
    if len(names) != n:
        raise ValueError(f"feature_names must be {n} names, however: {len(names)} given")
    if max_units < len(blocks):
        raise ValueError(f"max_units must be at least the number of blocks, {len(blocks)}, however: {max_units}")
    room = max_units // len(blocks)
    lines = [block[np.linspace(0, len(block) - 1, min(room, len(block))).round().astype(int)] for block in blocks]
    edges = np.cumsum([0, *map(len, lines)])
    colors = need_package("matplotlib.colors", "plots")
    ax = drawing.new_axes(ax, min(max(4.5, 2.2 + 0.2 * n), 16.0), min(max(3.5, 2.0 + 0.03 * float(edges[-1])), 12.0))
    cmap = colors.ListedColormap(["#f2f2f2", drawing.NEGATIVE])
    ax.imshow(np.vstack(lines), cmap=cmap, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for edge in edges[1:-1]:
        ax.axhline(edge - 0.5, color="black", linewidth=1.5)
    if n <= 100:
        for edge in range(1, n):
            ax.axvline(edge - 0.5, color="white", linewidth=0.5)
    step = -(-n // 80)
    ax.set_xticks(range(0, n, step), names[::step], rotation=90, fontsize=9 if n <= 40 else 7)
    sizes = [(len(some), len(block)) for some, block in zip(lines, blocks, strict=True)]
    labels = [f"{some} units" if some == every else f"{some} of {every}" for some, every in sizes]
    if len(blocks) > 1:
        labels = [f"block {i}\n{label}" for i, label in enumerate(labels, start=1)]
    ax.set_yticks((edges[:-1] + edges[1:] - 1) / 2, labels)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("feature")
    ax.set_title("receptive fields of the units", fontsize=10)
    return ax


def _heading(ex: Explanation, row: int, k: int) -> str:
    """The output and the row, and whether all features are shown."""
    some = f", {MAX_FEATURES} strongest of {ex.n_features} features" if ex.n_features > MAX_FEATURES else ""
    return drawing.in_one_or_two_lines(drawing.output_title(ex, k), f"{drawing.row_title(ex, row)}{some}")


def _kept(strength: Array) -> Array:
    """The `MAX_FEATURES` strongest features, in their own order."""
    return np.sort(np.argsort(-strength, kind="stable")[:MAX_FEATURES])


def _blocks(fields: Any) -> list[NDArray[np.bool_]]:
    """The units of every block, sorted so that the structure shows."""
    given = fields.receptive_fields() if hasattr(fields, "receptive_fields") else fields
    blocks = [np.asarray(f.detach().cpu() if hasattr(f, "detach") else f) for f in given]
    shapes = [block.shape for block in blocks]
    if not blocks or any(len(s) != 2 or 0 in s or s[1] != shapes[0][-1] for s in shapes):
        raise ValueError(f"fields must be one (units, features) bool array per block, however: shapes {shapes[:4]}")
    if any(block.dtype != bool for block in blocks):
        raise TypeError(f"fields must be bool, however: {[str(block.dtype) for block in blocks]}")
    return [block[np.lexsort([*(~block.T)[::-1], block.sum(axis=1)])] for block in blocks]


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
        copy.set(transform=ax.transData, edgecolor="#999999")
        if patch not in nodes:  # shapiq measures them by the strongest node, beside which most would be invisible
            share = patch.get_alpha() / strongest
            if share < WEAKEST_EDGE:
                continue
            colour = patch.get_facecolor()[:3]
            copy.set(alpha=0.1 + 0.8 * share, linewidth=0.5 + 2.5 * share, facecolor=colour, edgecolor=colour)
        ax.add_patch(copy)
    wide = max(label.get_window_extent().width for label in labels) / room
    half = max(1.3, 1.12 / max(0.3, 1 - 2 * wide))  # leaves room for the longest label on both sides
    ax.set(xlim=(-half, half), ylim=(-1.3, 1.3), aspect="equal")
    handles = [patches.Patch(color=c, label=s) for c, s in (("#ff0d57", "positive"), ("#1e88e5", "negative"))]
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False, fontsize=9)
