"""Dates -> numbers that say when: trend, year, month, weekday, hour. Together they are one player."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.tables.single_values import ISO

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("trend", "year", "month", "weekday", "hour")
"""Days since 1970 with their fraction, the year, months from 1, weekdays from Monday = 0, hours from 0."""

Times = NDArray[np.datetime64]


def holds_dates(values: pd.Series[Any]) -> bool:
    """Whether the type of a column, or of the objects in it, says that these are dates."""
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        return False
    if values.dtype.kind == "M" or str(values.dtype).startswith(("date", "timestamp")):  # of pandas, of arrow
        return True
    if values.dtype != object:
        return False
    known = values.dropna()
    return len(known) > 0 and isinstance(known.iloc[0], date | np.datetime64)


def format_of(values: pd.Series[Any]) -> str | None:
    """The format of texts all of which are dates with day, month and year; None if one is not."""
    import pandas as pd

    different = pd.Series(pd.unique(values.dropna()))
    if not len(different) or not all(isinstance(text, str) for text in different):
        return None
    for day_first in (False, True):
        guess = pd.tseries.api.guess_datetime_format(different[0].strip(), dayfirst=day_first)
        if guess is None or not all(re.search(part, guess) for part in ("%d", "%[mbB]", "%[yY]")):
            return None
        for form in (guess, ISO) if guess.startswith("%Y-%m-%d") else (guess,):
            if _parsed(different, form).notna().all():
                return str(form)
    return None


def _parsed(texts: pd.Series[Any], form: str) -> pd.Series[Any]:
    import pandas as pd

    return pd.to_datetime(texts.str.strip(), format=form, errors="coerce", utc=True)


def as_times(values: pd.Series[Any], name: str, form: str = "") -> Times:
    """A column of dates, or of texts in a format, as times, NaT where missing; a time zone is that of Greenwich."""
    import pandas as pd

    if not values.notna().any():
        return np.full(len(values), np.datetime64("NaT", "us"))
    is_text = isinstance(values.dropna().iloc[0], str)
    if is_text or holds_dates(values):
        objects = values.astype(object)
        parsed = _parsed(objects, form or ISO) if is_text else pd.to_datetime(objects, errors="coerce", utc=True)
        wrong = values[parsed.isna() & values.notna()]
    else:
        wrong = values[values.notna()]
    if len(wrong):
        how = f" (as text: {form})" if form else ""
        raise ValueError(
            f"column {name!r} must hold dates, as it did in fit{how}, however: {str(wrong.iloc[0])!r} in row "
            f"{wrong.index.tolist()[0]!r}"
        )
    return np.asarray(parsed.dt.tz_localize(None).to_numpy(dtype="datetime64[us]"))


def parts_of(times: Times) -> NDArray[np.float64]:
    """(5, rows) the numbers of `PARTS`, NaN where missing."""
    trend = times.astype(np.int64) / 86_400e6
    year, month, day, hour = (times.astype(f"M8[{unit}]").astype(np.int64) for unit in "YMDh")
    parts = np.stack([trend, year + 1970, month % 12 + 1, (day + 3) % 7, hour % 24])  # 1970 began on a Thursday
    parts[:, np.isnat(times)] = np.nan
    return parts
