"""Explanations for others: shap, shapiq, a tidy frame, a web page, and what a file holds.

Arrays and names in, foreign objects out. The packages are optional and imported where they are needed.
"""

from __future__ import annotations

import html
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.explanations.indices import InteractionIndex
from harsanyinet.extras import need_package

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]
_SHOWN = (3, 3, 10)  # rows, outputs and features of a web page


def as_shap(
    values: Array, base_values: Array, data: Array | None, feature_names: Sequence[str], output_names: Sequence[str]
) -> Any:
    """A `shap.Explanation`.

    Args:
        values: (B, P[, K]).
        base_values: (B[, K]).
        data: (B, P), or None.
        feature_names: P names.
        output_names: K names; shap is told of several only.
    """
    shap = need_package("shap", "shap")
    return shap.Explanation(
        values=np.array(values),
        base_values=np.array(base_values),
        data=None if data is None else _as_floats(data),
        feature_names=list(feature_names),
        output_names=None if len(output_names) == 1 else list(output_names),
    )


def as_shapiq(index: InteractionIndex, base_value: float, feature_names: Sequence[str]) -> Any:
    """`shapiq.InteractionValues` that know the names of the features, which shapiq's plots otherwise number.

    Args:
        index: Of one row and output: its values are (1, sets).
        base_value: The value of the empty set.
        feature_names: P names.
    """
    need_package("shapiq", "shapiq")
    from harsanyinet.explanations.named_interactions import NamedInteractionValues

    interactions = NamedInteractionValues(
        values=np.concatenate([[base_value], index.values[0]]).astype(np.float64),
        index=index.name,
        min_order=0,
        max_order=index.order,
        n_players=index.n_features,
        interaction_lookup={(): 0} | {members: i + 1 for i, members in enumerate(index.sets)},
        estimated=False,
        baseline_value=base_value,
    )
    interactions.feature_names = list(feature_names)
    return interactions


def as_tidy_frame(
    values: Array,
    data: Array | None,
    feature_names: Sequence[str],
    output_names: Sequence[str],
    row_names: Sequence[Hashable] | pd.Index[Any] | None,
) -> pd.DataFrame:
    """A tidy frame, one line per row, output and feature; `values` is (B, P, K)."""
    import pandas as pd

    b, n, k = values.shape
    rows = pd.RangeIndex(b) if row_names is None else pd.Index(row_names, tupleize_cols=False)
    cells = np.full((b, n), np.nan) if data is None else data
    return pd.DataFrame(
        {
            "row": rows.to_flat_index().repeat(n * k),
            "output": np.tile(np.repeat(output_names, n), b),
            "feature": np.tile(feature_names, b * k),
            "data": np.repeat(cells[:, None], k, axis=1).reshape(-1),
            "shapley_value": np.swapaxes(values, 1, 2).reshape(-1),
        }
    )


def _as_floats(data: Array) -> Array:
    """Cells as float64 where all of them are numbers, missing ones as NaN; else a copy as they are."""
    import pandas as pd

    if data.dtype != object:
        return np.array(data)
    cells = np.where(pd.isna(data), np.nan, data)
    numbers = all(isinstance(cell, int | float | np.number | np.bool_) for cell in cells.ravel())
    return cells.astype(np.float64) if numbers else np.array(data)


# A web page ----------------------------------------------------------------------------------------------------------


def as_html(
    values: Array,
    outputs: Array,
    data: Array | None,
    feature_names: Sequence[str],
    output_names: Sequence[str],
    n_coalitions: int,
) -> str:
    """The strongest features of the first rows as a table with bars.

    Args:
        values: (B, P, K).
        outputs: (B, K).
        data: (B, P), or None.
        feature_names: P names.
        output_names: K names.
        n_coalitions: C.
    """
    b, n, k = values.shape
    shown = min(b, _SHOWN[0])
    largest = float(np.abs(values[:shown]).max(initial=0.0)) or 1.0
    order = np.argsort(-np.abs(values[:shown]).mean(axis=(0, 2)))[: _SHOWN[2]] if shown else np.arange(0)
    columns = [(row, output) for row in range(shown) for output in range(min(k, _SHOWN[1]))]
    head = "".join(
        f"<th style='text-align:left'>row {row}{f', {html.escape(output_names[output])}' if k > 1 else ''}: "
        f"{outputs[row, output]:.4g}</th>"
        for row, output in columns
    )
    lines = "".join(
        f"<tr><th style='text-align:right'>{html.escape(feature_names[i])}</th>"
        + "".join(
            _cell_of_page(float(values[row, i, output]), largest, "" if data is None else _note(data[row, i]))
            for row, output in columns
        )
        + "</tr>"
        for i in order
    )
    more = "" if len(order) == n and shown == b else " The strongest features of the first rows:"
    return (
        f"<div><p>Explanation of {b} rows, {n} features, {k} outputs, from {n_coalitions} coalitions."
        f"{more}</p><table><thead><tr><th></th>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _cell_of_page(value: float, largest: float, note: str) -> str:
    """A bar as long as the value, the value, and a note on what the feature holds."""
    colour = "#d55e00" if value > 0 else "#0072b2"
    width = 90 * abs(value) / largest
    bar = f"<span style='display:inline-block;height:0.7em;width:{width:.0f}px;background:{colour}'></span>"
    return f"<td style='text-align:left'>{bar} {value:+.3g}{note}</td>"


def _note(cell: Any) -> str:
    text = f"{cell:,.6g}" if isinstance(cell, float | np.floating) else str(cell)
    return f" <small>{html.escape(text)}</small>"


# A file --------------------------------------------------------------------------------------------------------------


def as_arrays(
    parts: dict[str, Array], dividends: Array, data: Array | None, row_names: Iterable[Hashable] | None
) -> tuple[dict[str, Array], dict[str, Any]]:
    """An explanation for a file: arrays, and as JSON what is none; `parts` are the arrays besides the dividends."""
    arrays = parts | {"dividends": dividends}
    labels = None if row_names is None else [_as_json(label) for label in row_names]
    meta: dict[str, Any] = {"data": None, "row_names": labels}
    if data is not None and data.dtype.kind in "biuf":
        arrays["data"] = data
    elif data is not None:
        cells = data.astype(str) if data.dtype.kind in "mM" else data
        meta["data"] = [[_as_json(cell) for cell in line] for line in cells.tolist()]
    return arrays, meta


def from_arrays(arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an explanation, from what a file holds."""
    data = arrays.get("data")
    if data is None and meta["data"] is not None:
        cells = [[float(cell["float"]) if isinstance(cell, dict) else cell for cell in line] for line in meta["data"]]
        data = np.array(cells, dtype=object).reshape(arrays["values"].shape[:2])
    return {name: arrays[name] for name in ("base_values", "coalitions", "dividends", "values")} | {
        "feature_names": meta["feature_names"], "output_names": meta["output_names"], "data": data,
        "row_names": meta.get("row_names"), "scale": meta.get("scale", "raw output"),
    }  # fmt: skip


def _as_json(cell: Any) -> Any:
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
