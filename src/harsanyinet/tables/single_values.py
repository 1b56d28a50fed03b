"""One cell of a table, by itself: what a number is as a category, when a time was. No frames; numpy only."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np

ISO = "ISO8601"
"""The format of texts such as 2024-02-29 and 2024-02-29T12:30:00."""


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


def is_missing(value: Any) -> bool:
    """Whether a cell is None, NaN, NaT or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def number_as_text(value: Any) -> str:
    """A number as a category: a whole number reads the same as int and float."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def time_of(value: Any, form: str = "") -> np.datetime64:
    """A date, or a text in a format of strptime or ISO 8601, in microseconds; with a time zone as in Greenwich."""
    if isinstance(value, str):
        text = value.strip()
        value = datetime.fromisoformat(text) if form in ("", ISO) else datetime.strptime(text, form)
    if isinstance(value, datetime):
        value = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    elif not isinstance(value, date | np.datetime64):
        raise ValueError(f"a date was expected, however: {value!r}")
    return np.datetime64(value, "us")
