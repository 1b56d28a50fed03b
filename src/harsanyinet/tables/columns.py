"""Column: how one variable becomes bins, small whole numbers, 0 where a player is absent. What bins learn is in `bins`.

Numbers fall between borders; categories are looked up.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.tables.dates import PARTS, as_times, parts_of
from harsanyinet.tables.single_values import UnseenCategoryWarning, is_missing, number_as_text, time_of

if TYPE_CHECKING:
    import pandas as pd

    from harsanyinet.tables.frames import Floats, Kind

Array = NDArray[Any]
MANY_ROWS = 2048  # from here on compiled loops pay


@dataclass(frozen=True, eq=False)
class Column:
    """How one variable becomes bins, in `n_codes` coded columns."""

    name: str  # of the variable
    kind: Kind
    # (k,) float32 numbers, rising; a number x has bin `first` + how many borders lie below x
    borders: Floats = field(default_factory=lambda: np.empty(0))
    low: float = 0.0  # the smallest number in fit
    high: float = 0.0  # the largest
    levels: tuple[str, ...] = ()  # every category seen, as text, the most frequent first
    # (levels, n_codes) the bins of each category
    level_bins: Array = field(default_factory=lambda: np.empty((0, 1), dtype=np.uint8))
    missing: bool = False  # whether a missing value is a value of its own, bin 1; if not, it is an absent player, bin 0
    boolean: bool = False  # whether the numbers were True and False
    whole: bool = False  # whether all numbers were whole
    n_bins: tuple[int, ...] = (1,)  # of each coded column, the absent one included
    parts: tuple[Column, ...] = ()  # of a date, the numbers that say when, as columns named as in `dates.PARTS`
    form: str = ""  # of dates that were texts, their format

    @property
    def n_codes(self) -> int:
        """How many columns of bins this variable has: one for numbers, one per target or part for others."""
        return len(self.n_bins)

    @property
    def first(self) -> int:
        """The bin of the smallest number."""
        return 2 if self.missing else 1

    @cached_property
    def index(self) -> pd.Index[Any]:
        """The categories, to look them up in."""
        import pandas as pd

        return pd.Index(self.levels, dtype=object)

    def code(self, values: Any, out: Array) -> None:
        """Writes the bins of a column of a frame into `out` (c, rows) uint8."""
        if self.kind == "category":
            self._code_categories(values, out)
            return
        if self.kind == "date":
            numbers = parts_of(as_times(values, self.name, self.form))
            for part, own in zip(self.parts, out, strict=True):
                part.code_numbers(numbers[PARTS.index(part.name)], own)
            return
        from harsanyinet.tables.frames import as_numbers

        self.code_numbers(as_numbers(values, self.name), out[0])

    def code_numbers(self, numbers: Floats, out: Array) -> None:
        """Writes the bins of numbers into `out` (rows,) uint8."""
        nothing = 1 if self.missing else 0
        if len(numbers) >= MANY_ROWS:
            from harsanyinet.tables import kernels

            kernels.find_bins(numbers, self.borders, self.first, nothing, out)
            return
        out[:] = np.searchsorted(self.borders, numbers) + self.first
        unknown = np.isnan(numbers)
        if unknown.any():
            out[unknown] = nothing

    def code_one(self, value: Any) -> list[int]:
        """The bins of one value, without a frame."""
        if is_missing(value):
            return [1 if self.missing else 0] * self.n_codes
        is_number = isinstance(value, float | int | np.number | np.bool_)
        if self.kind == "number" and is_number and abs(float(value)) < np.inf:
            return [self.first + bisect_left(self._border_list, float(value))]
        if self.kind == "category" and (is_number or isinstance(value, str)):
            text = value if isinstance(value, str) else number_as_text(value)
            if text not in self._bins_of_level:
                warnings.warn(UnseenCategoryWarning.of(self.name, value, 1), stacklevel=2)
            return self._bins_of_level.get(text, [0] * self.n_codes)
        if self.kind == "date":
            with suppress(ValueError, TypeError):  # frames have the better words, and read more
                numbers = parts_of(np.array([time_of(value, self.form)]))[:, 0].tolist()
                return [bin for part in self.parts for bin in part.code_one(numbers[PARTS.index(part.name)])]
        return self._code_odd(value)

    def _code_odd(self, value: Any) -> list[int]:
        """As a column of one row, where there is pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise ValueError(
                f"column {self.name!r} must hold a {self.kind}, as it did in fit, however: {value!r}"
            ) from None
        out = np.empty((self.n_codes, 1), dtype=np.uint8)
        self.code(pd.Series([value]), out)
        return [int(b) for b in out[:, 0]]

    @cached_property
    def _border_list(self) -> list[float]:
        return [float(b) for b in self.borders]

    @cached_property
    def _bins_of_level(self) -> dict[str, list[int]]:
        return dict(zip(self.levels, self.level_bins.tolist(), strict=True))

    def _code_categories(self, values: pd.Series[Any], out: Array) -> None:
        level, is_unknown = self._levels_of(values)
        np.take(self._bins_or_absent, level, axis=1, out=out, mode="wrap")  # -1 is the last
        lost = np.flatnonzero(level < 0)
        if not len(lost):
            return
        unknown = is_unknown(lost)
        unseen = lost[~unknown]
        if len(unseen):
            warnings.warn(UnseenCategoryWarning.of(self.name, values.iloc[int(unseen[0])], len(unseen)), stacklevel=2)
        if self.missing:
            out[:, lost[unknown]] = 1

    def _levels_of(self, values: pd.Series[Any]) -> tuple[NDArray[np.integer[Any]], Callable[[Array], Array]]:
        """Where each category stands among the levels, -1 if nowhere; and which of some such rows hold nothing.

        Each way of pandas to keep text has a look-up of its own here, for reading text takes longer than the model.
        """
        import pandas as pd

        from harsanyinet.tables.frames import as_texts

        kept: Any = values.dtype
        of_text = isinstance(kept, pd.StringDtype)
        if of_text and kept.storage != "python" and self._arrow_levels is not None:
            import pyarrow.compute

            found = pyarrow.compute.index_in(values.array.__arrow_array__(), self._arrow_levels)
            return found.fill_null(-1).to_numpy(), lambda rows: values.array.isna()[rows]
        if of_text or values.dtype == object:
            texts = as_texts(values, self.name)
            return self._find(texts), lambda rows: pd.isna(texts[rows])
        if isinstance(values.dtype, pd.CategoricalDtype):  # look up the few categories, not the many values
            codes, different = values.array.codes, values.array.categories
        else:
            codes, different = pd.factorize(values)
        return np.append(self._find(as_texts(different, self.name)), -1)[codes], lambda rows: codes[rows] < 0

    def _find(self, texts: Array) -> NDArray[np.intp]:
        """The position of each category among the levels, -1 where it was not there in fit."""
        import pandas as pd

        return self.index.get_indexer(pd.Index(texts, dtype=object))

    @cached_property
    def _bins_or_absent(self) -> Array:
        """(c, levels + 1), the bins of each category, and 0, that of none."""
        return np.append(self.level_bins.T, np.zeros((self.n_codes, 1), dtype=np.uint8), axis=1)

    @cached_property
    def _arrow_levels(self) -> Any:
        """The categories, for columns that pyarrow keeps; None if it could not keep them."""
        import pyarrow

        try:
            return pyarrow.array(self.levels, type=pyarrow.large_string())
        except UnicodeEncodeError:  # half of a pair of surrogates
            return None

    def __getstate__(self) -> dict[str, Any]:
        own = [f.name for f in fields(self)]  # what is remembered beside them is quickly made again
        return {name: value for name, value in self.__dict__.items() if name in own}


def code_frame(columns: Sequence[Column], frame: pd.DataFrame) -> Array:
    """The bins of rows, (coded columns, rows) uint8."""
    if len(frame) == 1:
        cells = zip(columns, frame.to_numpy(dtype=object)[0], strict=True)
        with suppress(ValueError, TypeError):  # the way for many rows has the better words
            return np.array([b for column, value in cells for b in column.code_one(value)], dtype=np.uint8)[:, None]
    out = np.empty((sum(column.n_codes for column in columns), len(frame)), dtype=np.uint8)
    at = 0
    for column, (_, values) in zip(columns, frame.items(), strict=True):
        column.code(values, out[at : at + column.n_codes])
        at += column.n_codes
    return out


def code_numbers(columns: Sequence[Column], numbers: Array) -> Array | None:
    """The bins of an array of numbers, (B, P) float; None where a column holds categories."""
    if any(column.kind != "number" for column in columns):
        return None
    out = np.empty((len(columns), len(numbers)), dtype=np.uint8)
    for i, column in enumerate(columns):
        own = np.ascontiguousarray(numbers[:, i], dtype=np.float64)
        if np.isinf(own).any():
            return None  # the slower way has the sentence for it
        column.code_numbers(own, out[i])
    return out


def code_dict(columns: Sequence[Column], row: Mapping[str, Any]) -> tuple[Array, Array]:
    """One row given by names: its values (1, P), and its bins (D, 1). What is not named is missing."""
    if unknown := row.keys() - {column.name for column in columns}:
        raise ValueError(f"a row must name columns of the model, however: {min(map(str, unknown))!r}")
    shown = np.empty((1, len(columns)), dtype=object)
    out: list[int] = []
    for i, column in enumerate(columns):
        value = shown[0, i] = row.get(column.name)
        out += column.code_one(value)
    return shown, np.array(out, dtype=np.uint8)[:, None]


def columns_of(columns: Sequence[Column]) -> NDArray[np.int64]:
    """The position of the variable of each coded column."""
    return np.repeat(np.arange(len(columns)), [column.n_codes for column in columns])


def n_bins_of(columns: Sequence[Column]) -> NDArray[np.int64]:
    """How many bins each coded column has, the absent one included."""
    return np.array([n for column in columns for n in column.n_bins], dtype=np.int64)


def columns_to_arrays(columns: Sequence[Column]) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """For a model file: flat arrays, and the rest of each column as JSON."""
    flat = [part for column in columns for part in (column, *column.parts)]
    arrays = {
        "borders": np.concatenate([np.empty(0), *(c.borders for c in flat)]),
        "level_bins": np.concatenate([np.empty(0, np.uint8), *(c.level_bins.reshape(-1) for c in flat)]),
    }
    return arrays, [_plain(column) for column in columns]


def _plain(c: Column) -> dict[str, Any]:
    """A column without its arrays, as JSON has it."""
    return {
        "name": c.name, "kind": c.kind, "n_borders": len(c.borders), "low": c.low, "high": c.high,
        "levels": list(c.levels), "missing": c.missing, "boolean": c.boolean, "whole": c.whole,
        "n_bins": list(c.n_bins), "form": c.form, "parts": [_plain(part) for part in c.parts],
    }  # fmt: skip


def columns_from_arrays(arrays: Mapping[str, Array], plain: Sequence[Mapping[str, Any]]) -> list[Column]:
    """From what `columns_to_arrays` returned."""
    border, cell = 0, 0

    def one(given: Mapping[str, Any]) -> Column:
        nonlocal border, cell
        rest = dict(given)
        n, levels, n_bins = rest.pop("n_borders"), tuple(rest.pop("levels")), tuple(rest.pop("n_bins"))
        n_cells = len(levels) * len(n_bins)
        borders = np.array(arrays["borders"][border : border + n])
        level_bins = np.array(arrays["level_bins"][cell : cell + n_cells]).reshape(len(levels), len(n_bins))
        border, cell = border + n, cell + n_cells
        parts = tuple(one(part) for part in rest.pop("parts"))
        return Column(**rest, levels=levels, n_bins=n_bins, borders=borders, level_bins=level_bins, parts=parts)

    columns = [one(given) for given in plain]
    fits = all(column.kind != "date" or len(column.parts) == column.n_codes for column in columns)
    if not fits or (border, cell) != (len(arrays["borders"]), len(arrays["level_bins"])):
        raise ValueError("the columns of this file do not fit together")
    return columns
