"""What plots share: colours, axes, bars, words and numbers, and which rows, outputs and features are drawn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import takewhile
from numbers import Real
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


def number_beside(ax: Axes, x: float, y: float, text: str, *, left: bool = False, gap: int = 4) -> None:
    """A number next to the end of a bar."""
    side, shift = ("right", -gap) if left else ("left", gap)
    ax.annotate(text, (x, y), (shift, 0), textcoords="offset points", ha=side, va="center", fontsize=9)


def draw_bars(
    ax: Axes, at: Sequence[int], widths: Sequence[float], numbers: Sequence[str], *, left: Any = 0.0, colour: str = ""
) -> None:
    """Horizontal bars with numbers beside them, coloured by their sign, and no more than the axis at the bottom."""
    ends = (left + np.array(widths)).tolist()
    signs = [NEGATIVE if width < 0 else POSITIVE for width in widths]
    ax.barh(at, widths, left=left, height=0.72, color=colour or signs)
    for y, end, width, number in zip(at, ends, widths, numbers, strict=True):
        number_beside(ax, end, y, number, left=width < 0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


# Rows, outputs, features ---------------------------------------------------------------------------------------------


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


def pooled(labels: Sequence[str], numbers: Array, max_display: int) -> tuple[list[str], list[float]]:
    """The labels and numbers of bars, strongest first; the weakest share the last one."""
    shown, rest = strongest_first(np.abs(numbers), max_display)
    own, widths = [labels[i] for i in shown], numbers[shown].tolist()
    if len(rest):
        own.append(f"sum of {count_text(len(rest), 'other feature')}")
        widths.append(float(numbers[rest].sum()))
    return own, widths


# Words and numbers ---------------------------------------------------------------------------------------------------


def short_label(name: str, longest: int = 40) -> str:
    """A name as matplotlib shall print it: without its middle where it is too long, and without mathematics."""
    head = longest - 1 - longest // 3
    return (name if len(name) <= longest else f"{name[:head]}…{name[-(longest // 3) :]}").replace("$", r"\$")


def distinct_labels(names: Sequence[str], longest: int = 40) -> list[str]:
    """Names as labels that differ, as the names do; those that differ in the middle only show it, or their number."""
    labels = [short_label(name, longest) for name in names]
    alike: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        alike.setdefault(label, []).append(i)
    for same in alike.values():
        if len(same) > 1:
            letters = zip(*(names[i] for i in same), strict=False)
            start = len(list(takewhile(lambda some: len(set(some)) == 1, letters)))
            room = longest - 10
            for i in same:
                labels[i] = short_label(f"{names[i][:8]}…{names[i][max(8, start - 8) :][:room]}…", longest)
    return [label if labels.count(label) == 1 else f"{label} ({i})" for i, label in enumerate(labels)]


def in_one_or_two_lines(first: str, second: str, *, between: str = ", ", longest: int = 70) -> str:
    """Two parts in one line, or in two where one would be too long."""
    together = f"{first}{between}{second}"
    return together if len(together) <= longest else f"{first}{between.rstrip()}\n{second}"


def compared_label(label: str, cell: Any, other: Any) -> str:
    """A feature with its values in two rows; on two lines where one would be too long."""
    here, there = cell_text(cell, 24), cell_text(other, 24)
    words = f"{here} in both" if cell_text(cell, 1000) == cell_text(other, 1000) else f"{here} against {there}"
    return f"{label}: {words}" if len(label) + len(words) <= 44 else f"{label}:\n{words}"


def cell_text(cell: Any, longest: int = 40) -> str:
    """The value of a feature in the user's words."""
    if is_missing(cell):
        return "missing"
    if not isinstance(cell, Real) or isinstance(cell, bool | np.bool_ | int | np.integer):
        return short_label(str(cell), longest)
    number = float(cell)
    if number.is_integer() and abs(number) < 1e15:
        return f"{number:.0f}"
    return f"{number:.4g}" if abs(number) < 100 else f"{number:.7g}"


def is_missing(cell: Any) -> bool:
    """Whether a cell holds no value, in any of the ways in which tables say so."""
    return cell is None or str(cell) in ("nan", "<NA>", "NaT")


def number_text(value: float, sign: str = "") -> str:
    """A number to three digits; with `sign` "+" always with its sign."""
    if value == 0:
        return "0"
    return f"{value:{sign}.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:{sign}#.3g}".removesuffix(".")


def percent_text(part: int, whole: int) -> str:
    """A part of a whole in percent."""
    share = 100 * part / max(1, whole)
    return "<0.1 %" if 0 < share < 0.1 else f"{share:.{0 if share >= 10 or not part else 1}f} %"


def rounded_text(value: float, largest: float, sign: str = "") -> str:
    """A number to three digits of the largest one that stands beside it; `sign` as for `number_text`."""
    if not 0.001 <= largest < 1e5:
        return number_text(value, sign)
    decimals = max(0, 2 - int(np.floor(np.log10(largest))))
    return f"{round(value, decimals) + 0.0:{sign}.{decimals}f}"  # no -0.00


def count_text(n: int, what: str) -> str:
    """How many of something: "1 row", "3 rows"."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def output_title(ex: Explanation, k: int) -> str:
    """What an output is called in a title."""
    return short_label(ex.output_label(k), 60)


def row_title(ex: Explanation, row: int) -> str:
    """What a row is called in a title: its label, or "row" and its position."""
    named = ex.row_names is not None and isinstance(ex.row_names[row], str)
    return f"{'' if named else 'row '}{short_label(ex.row_label(row))}"
