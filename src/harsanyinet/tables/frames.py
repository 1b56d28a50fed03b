"""Tables as they come in: frames of pandas or polars, arrays; what a column holds, as numbers or as texts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harsanyinet.tables.dates import holds_dates
from harsanyinet.tables.single_values import UnseenCategoryWarning as UnseenCategoryWarning
from harsanyinet.tables.single_values import number_as_text

Kind = Literal["number", "category", "date"]
Floats = NDArray[np.float64]


class ColumnWarning(UserWarning):
    """A column is read in a way that may not be meant."""


def kind_of(values: pd.Series[Any], name: str, dates: bool = False) -> Kind:
    """Whether a column holds numbers, categories or, if it may, dates; a clear sentence for anything else."""
    if dates and holds_dates(values):
        return "date"
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
    types = {type(v) for v in values.dropna()}
    texts = {t for t in types if issubclass(t, str)}
    numbers = {t for t in types if issubclass(t, int | float | np.number | np.bool_ | Decimal)}
    if odd := types - texts - numbers:
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
        f"column {name!r} holds dates or times; name it in date_features of fit if these are dates, or turn them into "
        "numbers or categories that mean something, such as the hours since an event"
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
    plain = isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf"
    if not plain:
        _refuse(values, name)
    try:
        numbers = np.asarray(values, np.float64) if plain else values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        readable = pd.to_numeric(values, errors="coerce")
        wrong = values[readable.isna() & values.notna()]
        example = f"{wrong.iloc[0]!r} in row {wrong.index.tolist()[0]!r}" if len(wrong) else f"{values.dtype}"
        if isinstance(values.dtype, pd.CategoricalDtype) and not len(wrong):
            return np.asarray(readable.astype(np.float64))
        raise ValueError(f"column {name!r} must hold numbers, as it did in fit, however: {example}") from None
    if np.isinf(numbers).any():
        raise ValueError(
            f"column {name!r} contains infinity; replace it by a number, or by NaN where the value is not known"
        )
    return numbers


def as_texts(values: pd.Series[Any] | pd.Index[Any], name: str) -> NDArray[Any]:
    """Categories as text in an object array, missing ones as None; a whole number reads the same as int and float."""
    objects = np.asarray(values, dtype=object)
    if pd.api.types.infer_dtype(objects, skipna=False) == "string":  # most are text, and nothing is missing
        return objects
    inferred = pd.api.types.infer_dtype(objects, skipna=True)
    if inferred in ("string", "empty"):
        texts = objects.copy()
        texts[pd.isna(objects)] = None
        return texts
    if inferred in ("integer", "floating", "mixed-integer-float", "boolean"):  # write each different number once
        codes, different = pd.factorize(objects)
        return np.array([*(_text(value, name) for value in different), None], dtype=object)[codes]
    return np.array([_text(value, name) for value in objects], dtype=object)


def _text(value: Any, name: str) -> str | None:
    if isinstance(value, str | int | float | np.number | np.bool_ | pd.Interval):
        return number_as_text(value) if value == value else None
    if value is None or value is pd.NA or value is pd.NaT:
        return None
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


def pick_columns(frame: pd.DataFrame, names: Sequence[str], strict: bool = True) -> pd.DataFrame:
    """The columns that a model knows, in its order, whatever else there is; one sentence when some are not there.

    It is an error if `strict`, a warning if not.
    """
    have = [str(name) for name in frame.columns]
    if have == list(names):
        return frame
    place = {name: i for i, name in enumerate(have)}
    missing = [name for name in names if name not in place]
    if missing and strict:
        raise ValueError(
            "the table must have the columns that the model was fitted on, however: "
            f"{', '.join(map(repr, missing[:5]))} missing; it has {', '.join(map(repr, have[:8]))}"
        )
    if missing:
        warnings.warn(f"columns that are not there count as absent: {', '.join(missing[:8])}", ColumnWarning, 2)
    return frame.iloc[:, [place[name] for name in names if name in place]]
