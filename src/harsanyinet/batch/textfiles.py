"""Tables as text: encoding, delimiter, decimal mark and the line of names, found out or told. No types, no pandas."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harsanyinet.files import Place

_DELIMITERS = ",;\t|"
_SAMPLE = 65_536  # characters
_WITH_COMMA, _WITH_POINT = re.compile(r"\s*[-+]?\d+,(\d+)\s*"), re.compile(r"\s*[-+]?\d*\.\d+\s*")


@dataclass(frozen=True)
class Dialect:
    """How a text file writes its table."""

    delimiter: str
    decimal: str
    encoding: str
    names: tuple[str, ...]
    """As they stand there; a column without a name is called as pandas calls it."""


class CheckedText(io.TextIOWrapper):
    """A text file, plain or as .gz, that refuses NUL, at which parsers silently end a cell."""

    def __init__(self, path: Place, encoding: str) -> None:
        super().__init__(_open(path), encoding=encoding, newline="")
        self.path = path

    def read(self, size: int | None = -1, /) -> str:
        """The next characters."""
        return self._checked(super().read(size))

    def __next__(self) -> str:  # type: ignore[override]  # as typeshed says of its parent, for bytes
        return self._checked(super().__next__())

    def _checked(self, text: str) -> str:
        if "\0" in text:
            raise ValueError(
                f"{self.path} must be text, however: it contains NUL bytes, so it is damaged or binary; save it again"
            )
        return text


def is_zipped(path: Place) -> bool:
    """By its name."""
    return Path(path).suffix.lower() == ".gz"


def _open(path: Place) -> Any:
    return gzip.open(path, "rb") if is_zipped(path) else Path(path).open("rb")


def dialect_of(path: Place, usual: str, delimiter: str | None = None, encoding: str | None = None) -> Dialect:
    """How a file writes its table, judged by its first lines.

    Args:
        path: The file.
        usual: The delimiter that its name promises. Another is taken where this one gives a single column, or lines of
            different lengths, and the other one does not.
        delimiter: The delimiter, where it is known.
        encoding: Likewise; by default UTF-8, or UTF-16 where the file starts with its mark.

    Raises:
        ValueError: There is no line of names, a name stands there twice, or the encoding is not known.
    """
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"a delimiter must be one character, however: {delimiter!r}")
    encoding = _encoding(path, encoding)
    with CheckedText(path, encoding) as text:
        sample = text.read(_SAMPLE)
    if not sample.strip():
        raise ValueError(f"{path} must start with a line of column names, however: it is empty")
    rows = {d: _rows(sample, d) for d in (delimiter or usual + _DELIMITERS)}
    fitting = [d for d, some in rows.items() if len(some[0]) > 1 and len({len(row) for row in some}) == 1]
    chosen = delimiter or (usual if usual in fitting or not fitting else max(fitting, key=lambda d: len(rows[d][0])))
    with CheckedText(path, encoding) as text:
        names = next(row for row in csv.reader(text, delimiter=chosen) if row)
    for name, times in Counter(names).items():
        if name and times > 1:
            raise ValueError(
                f"{path} must have different column names, however: {name!r} stands there {times} times; rename or "
                "delete one of the columns"
            )
    named = tuple(name or f"Unnamed: {i}" for i, name in enumerate(names))
    return Dialect(chosen, _decimal(rows[chosen], chosen), encoding, named)


def _encoding(path: Place, told: str | None) -> str:
    if told is not None:
        try:
            name = codecs.lookup(told).name
        except LookupError as error:
            raise ValueError(f"an encoding must be known, such as utf-8 or latin-1, however: {told!r}") from error
        return "utf-8-sig" if name == "utf-8" else name
    with _open(path) as file:
        return "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def _rows(sample: str, delimiter: str) -> list[list[str]]:
    """The first rows, without the last one where the sample ends within it; the names are always there."""
    rows = [row for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if row]
    return rows[:-1] if len(sample) == _SAMPLE and len(rows) > 1 else rows


def _decimal(rows: list[list[str]], delimiter: str) -> str:
    """A comma where numbers are surely written with one: 1,234 alone might be a thousand."""
    if delimiter == ",":
        return "."
    cells = [cell for row in rows[1:] for cell in row]
    commas = [match for cell in cells if (match := _WITH_COMMA.fullmatch(cell))]
    surely = any(len(match[1]) != 3 for match in commas) and not any(map(_WITH_POINT.fullmatch, cells))
    return "," if surely else "."
