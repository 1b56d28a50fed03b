"""Words and numbers of plots: names that are short and differ, cells, counts. Text only, no matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.explanations.explanation import Explanation

Array = NDArray[Any]


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


def rounded_text(value: float, largest: float) -> str:
    """A number to three digits of the largest one that stands beside it."""
    if not 0.001 <= largest < 1e5:
        return number_text(value, "+")
    decimals = max(0, 2 - int(np.floor(np.log10(largest))))
    return f"{round(value, decimals) + 0.0:+.{decimals}f}"  # no -0.00


def count_text(n: int, what: str) -> str:
    """How many of something: "1 row", "3 rows"."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def others_label(n: int) -> str:
    """The label of a bar that the weakest features share."""
    return f"sum of {count_text(n, 'other feature')}"


def of_all_features(n: int, ex: Explanation) -> str:
    """What a title adds where not all features are shown."""
    return f", {n} strongest of {ex.n_features} features" if n < ex.n_features else ""


def row_title(ex: Explanation, row: int) -> str:
    """What a row is called in a title: its label, or "row" and its position."""
    named = ex.row_names is not None and isinstance(ex.row_names[row], str)
    return f"{'' if named else 'row '}{short_label(ex.row_label(row))}"
