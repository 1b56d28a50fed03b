"""What plots share: colours, axes, numbers beside bars, and which rows, outputs and features are drawn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.explanations.explanation import Explanation
from harsanyinet.explanations.names import find_name
from harsanyinet.extras import need_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Array = NDArray[Any]

POSITIVE, NEGATIVE, NEUTRAL = "#d55e00", "#0072b2", "#555555"  # Okabe and Ito


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure whose layout makes room for every label."""
    if ax is not None:
        return ax
    plt = need_package("matplotlib.pyplot", "plots")
    new: Axes = plt.subplots(figsize=(width, height), layout="constrained")[1]
    return new


def number_beside(ax: Axes, x: float, y: float, text: str, *, left: bool, gap: int = 4) -> None:
    """A number next to the end of a bar."""
    side, shift = ("right", -gap) if left else ("left", gap)
    ax.annotate(text, (x, y), (shift, 0), textcoords="offset points", ha=side, va="center", fontsize=9)


def hide_spines(ax: Axes) -> None:
    """Leaves the axis at the bottom only, as bars need it."""
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def check_rows(ex: Explanation) -> None:
    """One sentence where there is nothing to draw."""
    if not len(ex):
        raise ValueError("a plot needs at least one row, however: the explanation has 0 rows")


def values_of_outputs(ex: Explanation) -> Array:
    """The Shapley values with the axis of the outputs, (B, P, K), also of one output."""
    return ex.values.reshape(len(ex), ex.n_features, len(ex.output_names))


def one_row(ex: Explanation, row: int | Hashable, output: str | int | None) -> tuple[Array, float, int, int]:
    """The values (P,) and the base value of one row and output, and the positions of both."""
    check_rows(ex)
    row = ex.row_position(row)
    k = ex.output_position(output, row)
    base = float(np.ravel(ex[row].base_values)[k])
    return values_of_outputs(ex)[row, :, k].astype(np.float64), base, row, k


def one_output(output: str | int | None, names: Sequence[str], plot: str) -> int:
    """The position of the output that a plot draws; several must be chosen from."""
    if output is None and len(names) > 1:
        known = ", ".join(names[:12])
        raise ValueError(f"{plot} draws one output, so output must name one of {known}, however: output=None")
    return 0 if output is None else find_name(output, list(names), "output")


def strongest_first(strength: Array, max_display: int) -> tuple[Array, Array]:
    """The features with a place of their own, strongest first, and those that share the last place."""
    if max_display < 1:
        raise ValueError(f"max_display must be at least 1, however: max_display={max_display}")
    order = np.argsort(-strength, kind="stable")
    own = len(order) if len(order) <= max_display else max_display - 1
    return order[:own], order[own:]
