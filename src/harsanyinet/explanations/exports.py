"""Explanations for others: cells as shap wants them, a web page, and what a file holds. pandas only where needed."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_SHOWN = (3, 3, 10)  # rows, outputs and features of a web page


def as_floats(data: Array) -> Array:
    """Cells as float64 where all of them are numbers, missing ones as NaN; else a copy as they are."""
    import pandas as pd

    if data.dtype != object:
        return np.array(data)
    cells = np.where(pd.isna(data), np.nan, data)
    numbers = all(isinstance(cell, int | float | np.number | np.bool_) for cell in cells.ravel())
    return cells.astype(np.float64) if numbers else np.array(data)


def as_html(
    values: Array,
    outputs: Array,
    data: Array | None,
    feature_names: Sequence[str],
    output_names: Sequence[str],
    n_coalitions: int,
) -> str:
    """The strongest features of the first rows as a table with bars; values (B, P, K), outputs (B, K), data (B, P)."""
    b, n, k = values.shape
    shown = min(b, _SHOWN[0])
    largest = float(np.abs(values[:shown]).max(initial=0.0)) or 1.0
    order = np.argsort(-np.abs(values[:shown]).mean(axis=(0, 2)))[: _SHOWN[2]] if shown else np.arange(0)
    columns = [(row, output) for row in range(shown) for output in range(min(k, _SHOWN[1]))]

    def cell(i: int, row: int, output: int) -> str:
        value = float(values[row, i, output])
        colour, width = "#d55e00" if value > 0 else "#0072b2", 90 * abs(value) / largest
        bar = f"<span style='display:inline-block;height:0.7em;width:{width:.0f}px;background:{colour}'></span>"
        note = ""
        if data is not None:
            held = data[row, i]
            text = f"{held:,.6g}" if isinstance(held, float | np.floating) else str(held)
            note = f" <small>{html.escape(text)}</small>"
        return f"<td style='text-align:left'>{bar} {value:+.3g}{note}</td>"

    head = "".join(
        f"<th style='text-align:left'>row {row}{f', {html.escape(output_names[output])}' if k > 1 else ''}: "
        f"{outputs[row, output]:.4g}</th>"
        for row, output in columns
    )
    lines = "".join(
        f"<tr><th style='text-align:right'>{html.escape(feature_names[i])}</th>"
        f"{''.join(cell(i, *column) for column in columns)}</tr>"
        for i in order
    )
    more = "" if len(order) == n and shown == b else " The strongest features of the first rows:"
    return (
        f"<div><p>Explanation of {b} rows, {n} features, {k} outputs, from {n_coalitions} coalitions."
        f"{more}</p><table><thead><tr><th></th>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def data_to_file(data: Array | None) -> tuple[dict[str, Array], list[list[Any]] | None]:
    """What the features' values are, for a file: as an array if they are numbers, else as JSON."""
    if data is None or data.dtype.kind in "biuf":
        return {} if data is None else {"data": data}, None
    cells = data.astype(str) if data.dtype.kind in "mM" else data
    return {}, [[as_json(cell) for cell in line] for line in cells.tolist()]


def data_from_file(cells: list[list[Any]] | None, shape: tuple[int, ...]) -> Array | None:
    """Values that are no numbers, (B, P), from JSON."""
    if cells is None:
        return None
    known = [[float(cell["float"]) if isinstance(cell, dict) else cell for cell in line] for line in cells]
    return np.array(known, dtype=object).reshape(shape)


def as_json(cell: Any) -> Any:
    """A cell as JSON has it: missing values are null, infinities {"float": "inf"}, dates and the like text."""
    import pandas as pd

    cell = cell.item() if isinstance(cell, np.generic) else cell
    if np.ndim(cell) == 0 and pd.isna(cell):
        return None
    if isinstance(cell, float) and not np.isfinite(cell):
        return {"float": str(cell)}
    return cell if isinstance(cell, str | int | float | bool) else str(cell)


def equal_cells(a: Array, b: Array) -> bool:
    """Whether two tables are equal cell by cell, where missing values equal each other."""
    import pandas as pd

    missing = pd.isna(a)
    return a.shape == b.shape and np.array_equal(missing, pd.isna(b)) and bool(np.all(a[~missing] == b[~missing]))
