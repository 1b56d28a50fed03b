"""Table -> coded columns, one small code per variable that sees this variable only. No network, no training.

A frame comes in (pandas, polars or anything with named columns, or an array), an array (B, P, 3) goes out: a place
between the knots of the column's curve, a row of its level table, and its cell. NaN stands for an absent value.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Kind = Literal["number", "category"]
Floats = NDArray[np.float64]


class UnseenCategoryWarning(UserWarning):
    """A column holds categories that were not there when the model was fitted; they count as absent."""

    column: str = ""
    example: object = None
    n_rows: int = 0

    @classmethod
    def of(cls, column: str, example: object, n_rows: int) -> UnseenCategoryWarning:
        """With its message, and what it says as attributes for whoever adds up several of them."""
        warning = cls(
            f"column {column!r} holds categories that were not there in fit, such as {example!r}, in {n_rows} rows; "
            "they count as absent"
        )
        warning.column, warning.example, warning.n_rows = column, example, n_rows
        return warning


@dataclass(frozen=True, eq=False)
class Column:
    """How one variable is coded.

    Attributes:
        name: Of the variable.
        kind: A number has a curve; a category has levels only.
        knots: (k,) where the pieces of the curve meet, rising; empty for a category.
        atoms: (a,) numbers that are so frequent that each is a level of its own.
        edges: (c - 1,) numbers between the cells.
        levels: Every category seen, as text, in the order of their frequency.
        rows: For each of `levels` its row in the level table; rare ones share row 1. Row 0 is for none of them.
        n_cells: Number of cells; the categories beyond share the last.
        boolean: Whether the numbers were True and False.
        constant: Whether all training rows were alike in this column: it says nothing then and always counts as absent.
    """

    name: str
    kind: Kind
    knots: Floats = field(default_factory=lambda: np.empty(0))
    atoms: Floats = field(default_factory=lambda: np.empty(0))
    edges: Floats = field(default_factory=lambda: np.empty(0))
    levels: tuple[str, ...] = ()
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_cells: int = 1
    boolean: bool = False
    constant: bool = False

    @property
    def n_levels(self) -> int:
        """Rows of the level table."""
        return 1 + (int(self.rows.max(initial=0)) if self.kind == "category" else len(self.atoms))

    @cached_property
    def index(self) -> pd.Index[Any]:
        """The levels as something to look them up in."""
        return pd.Index(self.levels, dtype=object)

    def code(self, values: pd.Series[Any], out: NDArray[Any]) -> None:
        """Writes place, level and cell of every value into `out` (B, 3)."""
        if self.constant:
            out[:] = np.nan, 0.0, 0.0
            return
        if self.kind == "category":
            self._code_categories(values, out)
            return
        numbers = as_numbers(values, self.name)
        out[:, 0] = np.interp(numbers, self.knots, self._places) if len(self.knots) > 1 else 0.0 * numbers
        out[:, 1] = 0.0
        if len(self.atoms):
            near = np.searchsorted(self.atoms, numbers).clip(max=len(self.atoms) - 1)
            out[:, 1] = np.where(self.atoms[near] == numbers, near + 1, 0)
        out[:, 2] = np.searchsorted(self.edges, numbers, side="right") if len(self.edges) else 0.0
        out[np.isnan(numbers), 0] = np.nan

    @cached_property
    def _places(self) -> Floats:
        return np.arange(len(self.knots), dtype=np.float64)

    def _code_categories(self, values: pd.Series[Any], out: NDArray[Any]) -> None:
        if isinstance(values.dtype, pd.CategoricalDtype):  # look up the few categories, not the many values
            known = np.append(self._find(as_texts(values.cat.categories, self.name)), -1)
            codes = values.cat.codes.to_numpy()
            found, missing = known[codes], codes < 0
        else:
            texts = as_texts(values, self.name)
            found, missing = self._find(texts), pd.isna(texts)
        unseen = (found < 0) & ~missing
        if unseen.any():
            example = values.iloc[int(np.flatnonzero(unseen)[0])]
            warnings.warn(UnseenCategoryWarning.of(self.name, example, int(unseen.sum())), stacklevel=2)
        out[:, 0] = np.where(found < 0, np.nan, 0.0)
        out[:, 1] = np.where(found < 0, 0, self.rows[found]) if len(self.rows) else 0
        out[:, 2] = np.clip(found, 0, self.n_cells - 1)

    def _find(self, texts: NDArray[Any]) -> NDArray[np.intp]:
        return self.index.get_indexer(pd.Index(texts, dtype=object))

    @cached_property
    def whole(self) -> bool:
        """Whether the numbers seem to be whole ones."""
        return bool((self.knots % 1 == 0).all() and (self.atoms % 1 == 0).all())

    def value_of_cell(self, cell: int) -> str:
        """What a cell holds, in words."""
        if self.kind == "category":
            rest = cell == self.n_cells - 1 and len(self.levels) > self.n_cells
            return "all others" if rest else self.levels[cell] if self.levels else ""
        if not len(self.knots):
            return ""
        low, high = self.range_of_cell(cell)
        return self.word(low) if low == high else f"{self.word(low)} to {self.word(high)}"

    def range_of_cell(self, cell: int) -> tuple[float, float]:
        """The smallest and the largest number of a cell."""
        knots, edges = self.knots, self.edges
        if len(knots) <= 2 or np.array_equal(edges, (knots[1:] + knots[:-1]) / 2):  # one number in each cell
            return float(knots[cell]), float(knots[cell])
        low = knots[0] if cell == 0 else edges[cell - 1]
        last = cell == self.n_cells - 1
        high = knots[-1] if last else edges[cell]
        if self.whole:
            low, high = np.ceil(low), high if last else np.ceil(high) - 1
        return float(low), float(high)

    def word(self, number: float) -> str:
        """A number of this column in words."""
        return str(bool(number)) if self.boolean else f"{number:.0f}" if self.whole else f"{number:.4g}"

    def settings(self) -> dict[str, Any]:
        """All but the arrays, as JSON."""
        return {
            "name": self.name, "kind": self.kind, "levels": list(self.levels), "n_cells": self.n_cells,
            "boolean": self.boolean, "constant": self.constant,
        }  # fmt: skip

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays, by name."""
        return {"knots": self.knots, "atoms": self.atoms, "edges": self.edges, "rows": self.rows}


@dataclass(frozen=True)
class Coding:
    """How finely to code.

    Attributes:
        pieces: Pieces of a curve at most; each holds at least `min_rows` training rows.
        min_rows: Rows that a piece, an atom or a category of its own needs.
        atom_share: Share of the rows that an atom needs as well.
        atoms: Atoms at most.
        cells: Cells at most.
    """

    pieces: int = 64
    min_rows: int = 20
    atom_share: float = 0.0005
    atoms: int = 128
    cells: int = 64


class TableEncoder:
    """Codes the columns of a table as it learned them from the training rows.

    Args:
        columns: One per variable, in the order of the table.

    Examples:
        >>> frame = pd.DataFrame({"size": [1.0, 2.0, 4.0], "colour": ["red", "blue", None]})
        >>> encoder = TableEncoder.fit(frame, Coding(min_rows=1))
        >>> encoder.code(frame)[2]
        array([[ 2.,  3.,  2.],
               [nan,  0.,  0.]], dtype=float32)
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)

    @classmethod
    def fit(
        cls, frame: pd.DataFrame, coding: Coding, categories: Iterable[str] = (), smooth: Iterable[str] = ()
    ) -> TableEncoder:
        """Learns knots, atoms and levels.

        Args:
            frame: Training rows.
            coding: How finely.
            categories: Columns of numbers that are names of something.
            smooth: Columns that get no atoms.
        """
        as_category, plain = set(categories), set(smooth)
        return cls([
            fit_column(frame.iloc[:, i], str(name), coding, name in as_category, atoms=name not in plain)
            for i, name in enumerate(frame.columns)
        ])  # fmt: skip

    @property
    def names(self) -> list[str]:
        """Of the variables."""
        return [column.name for column in self.columns]

    def code(self, frame: pd.DataFrame, dtype: Any = np.float32) -> NDArray[Any]:
        """(B, P, 3); see the module."""
        out = np.empty((len(self.columns), len(frame), 3), dtype=dtype)
        for position, column in enumerate(self.columns):
            column.code(frame.iloc[:, position], out[position])
        return np.ascontiguousarray(np.swapaxes(out, 0, 1))

    def settings(self) -> list[dict[str, Any]]:
        """For a model file, with `arrays`."""
        return [column.settings() for column in self.columns]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """One flat array per kind, and where each column's part ends."""
        found: dict[str, NDArray[Any]] = {}
        for key in ("knots", "atoms", "edges", "rows"):
            parts = [column.arrays()[key] for column in self.columns]
            found[f"encoder.{key}"] = np.concatenate(parts)
            found[f"encoder.{key}_ends"] = np.cumsum([len(part) for part in parts])
        return found

    @classmethod
    def restore(cls, settings: Sequence[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]]) -> TableEncoder:
        """From what `settings` and `arrays` returned."""
        parts = {
            key: np.split(arrays[f"encoder.{key}"], arrays[f"encoder.{key}_ends"][:-1])
            for key in ("knots", "atoms", "edges", "rows")
        }
        columns = []
        for i, one in enumerate(settings):
            given: dict[str, Any] = {**one, "levels": tuple(one["levels"]), **{key: parts[key][i] for key in parts}}
            columns.append(Column(**given))
        return cls(columns)


def fit_column(values: pd.Series[Any], name: str, coding: Coding, as_category: bool, *, atoms: bool = True) -> Column:
    """Learns how to code one column."""
    if as_category or kind_of(values, name) == "category":
        return _fit_category(as_texts(values, name), name, coding)
    numbers = as_numbers(values, name)
    numbers = numbers[~np.isnan(numbers)]
    different, counts = np.unique(numbers, return_counts=True)
    alike = len(different) + (len(numbers) < len(values)) <= 1
    boolean = pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.infer_dtype(values, skipna=True) == "boolean"
    if len(different) <= 2:
        return Column(
            name, "number", knots=different, edges=different[1:], n_cells=max(len(different), 1),
            boolean=bool(boolean and len(numbers)), constant=alike,
        )  # fmt: skip
    n_pieces = min(coding.pieces, max(2, len(numbers) // coding.min_rows))
    frequent = different[counts >= max(coding.min_rows, coding.atom_share * len(numbers))]
    if len(frequent) > coding.atoms:
        frequent = np.sort(different[np.argsort(-counts, kind="stable")[: coding.atoms]])
    edges = _inner_quantiles(numbers, different, min(coding.cells, max(2, len(numbers) // coding.min_rows)))
    return Column(
        name, "number", knots=_knots(numbers, different, n_pieces), atoms=frequent if atoms else frequent[:0],
        edges=edges, n_cells=len(edges) + 1,
    )  # fmt: skip


def _knots(numbers: Floats, different: Floats, n_pieces: int) -> Floats:
    """Quantiles of the rows and, for half as many, of the different values: a spike must not swallow its column."""
    grid = np.linspace(0, 1, n_pieces + 1)
    knots = np.unique(np.quantile(numbers, grid, method="nearest"))
    if len(knots) <= n_pieces // 2:
        knots = np.unique(np.append(knots, np.quantile(different, grid[::2], method="nearest")))
    return knots


def _inner_quantiles(numbers: Floats, different: Floats, n_cells: int) -> Floats:
    """Edges between cells of about equally many rows, halfway between different values."""
    if len(different) <= n_cells:
        return (different[1:] + different[:-1]) / 2
    wanted = np.quantile(numbers, np.linspace(0, 1, n_cells + 1)[1:-1], method="nearest")
    above = np.searchsorted(different, np.unique(wanted)).clip(min=1)
    return np.unique((different[above] + different[above - 1]) / 2)


def _fit_category(texts: NDArray[Any], name: str, coding: Coding) -> Column:
    found = pd.Series(texts[~pd.isna(texts)], dtype=object).value_counts()
    ordered = sorted(zip(map(str, found.index), found.tolist(), strict=True), key=lambda one: (-one[1], one[0]))
    counts = np.array([count for _, count in ordered], dtype=np.int64)
    rare = counts < min(coding.min_rows, max(2, len(texts) // 100))
    return Column(
        name, "category", levels=tuple(level for level, _ in ordered), rows=np.where(rare, 1, 1 + np.cumsum(~rare)),
        n_cells=max(1, min(len(counts), coding.cells)), constant=bool(len(counts) + (counts.sum() < len(texts)) <= 1),
    )  # fmt: skip


def kind_of(values: pd.Series[Any], name: str) -> Kind:
    """Whether a column holds numbers or categories; a clear sentence for anything else."""
    _refuse(values, name)
    if isinstance(values.dtype, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_bool_dtype(values.dtype):
        return "number"
    if values.dtype != object:  # strings of pandas, arrow and so on
        return "category"
    inferred = pd.api.types.infer_dtype(values, skipna=True)
    if inferred in ("string", "empty"):
        return "category" if inferred == "string" else "number"
    found = {type(v) for v in values.dropna()}
    texts = {t for t in found if issubclass(t, str)}
    numbers = {t for t in found if issubclass(t, int | float | np.number | np.bool_ | Decimal)}
    if odd := found - texts - numbers:
        if any(issubclass(t, _TIMES) for t in odd):
            raise _of_times(name)
        raise TypeError(
            f"argument must be a string or a number in every cell, however: column {name!r} holds {odd.pop().__name__}"
        )
    if texts and numbers:
        example = next(v for v in values.dropna() if isinstance(v, str))
        raise ValueError(
            f"column {name!r} mixes numbers and text such as {example!r}; replace what stands for a missing value by "
            "NaN, or turn the whole column into text"
        )
    return "category" if texts else "number"


_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64, pd.Period)


def _of_times(name: str) -> TypeError:
    return TypeError(
        f"column {name!r} holds dates or times; turn them into numbers or categories that mean something, such as the "
        "weekday or the days since an event"
    )


def _refuse(values: pd.Series[Any], name: str) -> None:
    """Raises where the type of a column alone says that it is no number and no category."""
    dtype: Any = values.dtype.categories.dtype if isinstance(values.dtype, pd.CategoricalDtype) else values.dtype
    inferred = pd.api.types.infer_dtype(values, skipna=True) if dtype.kind == "O" else ""
    if dtype.kind == "c" or inferred == "complex":
        raise ValueError(f"Complex data not supported: column {name!r} holds complex numbers")
    words = ("date", "time", "duration", "period")  # of pandas, of arrow, and what objects turn out to be
    if dtype.kind in "mM" or str(dtype).startswith(words) or inferred.startswith(words):
        raise _of_times(name)


def as_numbers(values: pd.Series[Any], name: str) -> Floats:
    """A column as float64, NaN where missing. Text that reads as a number is one."""
    _refuse(values, name)
    try:
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        found = pd.to_numeric(values, errors="coerce")
        wrong = values[found.isna() & values.notna()]
        example = f"{wrong.iloc[0]!r} in row {wrong.index[0]!r}" if len(wrong) else f"{values.dtype}"
        if isinstance(values.dtype, pd.CategoricalDtype) and not len(wrong):
            return np.asarray(found.astype(np.float64))
        raise ValueError(f"column {name!r} must hold numbers, as it did in fit, however: {example}") from None
    if np.isinf(numbers).any():
        raise ValueError(
            f"column {name!r} contains infinity; replace it by a number, or by NaN where the value is not known"
        )
    return numbers


def as_texts(values: pd.Series[Any] | pd.Index[Any], name: str) -> NDArray[Any]:
    """Categories as text in an object array, missing ones as None; a whole number reads the same as int and float."""
    objects = np.asarray(values, dtype=object)
    inferred = pd.api.types.infer_dtype(objects, skipna=True)
    if inferred in ("string", "empty"):
        missing = pd.isna(objects)
        if missing.any():
            objects = objects.copy()
            objects[missing] = None
        return objects
    if inferred in ("integer", "floating", "mixed-integer-float", "boolean"):  # write each different number once
        codes, different = pd.factorize(objects)
        return np.array([*(_text(value, name) for value in different), None], dtype=object)[codes]
    return np.array([_text(value, name) for value in objects], dtype=object)


def _text(value: Any, name: str) -> str | None:
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float | np.floating) and (value != value or float(value).is_integer()):
        return None if value != value else str(int(value))
    if isinstance(value, str | int | float | np.number | np.bool_ | pd.Interval):
        return str(value)
    raise TypeError(f"column {name!r} must hold text or numbers, however: {type(value).__name__}")


def as_frame(x: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Any table as a pandas frame with text names. A pandas frame is passed on as it is, apart from its names."""
    if isinstance(x, pd.DataFrame):
        frame = x
    elif hasattr(x, "column_names") and hasattr(x, "to_pandas"):  # arrow
        frame = x.to_pandas()
    elif hasattr(x, "columns") and hasattr(x, "__getitem__"):  # polars and other frames
        frame = pd.DataFrame({name: x[name].to_numpy() for name in x.columns})
    else:
        array = np.asarray(x)
        frame = pd.DataFrame(array, columns=list(names) if names else [f"x{i}" for i in range(array.shape[1])])
        if array.dtype == object:
            frame = frame.infer_objects()
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise ValueError(f"columns must have different names, however: {str(repeated[0])!r} stands there twice")
    return frame


def pick_columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The columns that a model knows, in its order; one sentence when some are not there."""
    have = [str(name) for name in frame.columns]
    if have == list(names):
        return frame
    missing = [name for name in names if name not in have]
    if missing:
        raise ValueError(
            "the table must have the columns that the model was fitted on, however: "
            f"{', '.join(map(repr, missing[:5]))} missing; it has {', '.join(map(repr, have[:8]))}"
        )
    return frame.iloc[:, [have.index(name) for name in names]]
