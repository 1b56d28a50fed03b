"""Tables on disk, whole or a few rows at a time: CSV, TSV (both plain or as .gz) and Parquet. No model.

A CSV says nothing of types. `read_table` infers them from the whole file; `read_rows_for` reads what the columns of a
fitted model expect, so that every part of a file is understood in the same way, whatever the other parts hold.
"""

from __future__ import annotations

import csv
import gzip
import shutil
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harsanyinet import files
from harsanyinet.batch.textfiles import CheckedText, Dialect, dialect_of, is_zipped
from harsanyinet.files import Place
from harsanyinet.tables.columns import Column
from harsanyinet.tables.frames import as_texts, pick_columns

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_EXACT = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)
_PARQUET = (".parquet", ".pq")
STANDARD = "-"
"""Stands for standard input or output."""


class Reading(TypedDict, total=False):
    """How to read a file; Parquet knows all but the first by itself."""

    missing: Sequence[str]
    """What stands for a missing value, besides empty cells and what pandas takes for one (NA, NaN, null)."""
    delimiter: str | None
    """Between two cells; by default found out."""
    encoding: str | None
    """By default UTF-8 or, where the file starts with its mark, UTF-16."""


def read_table(path: Place, *, text: Sequence[str] = (), **reading: Unpack[Reading]) -> pd.DataFrame:
    """Reads a whole table.

    Args:
        path: A CSV or TSV with one line of names, or a Parquet file.
        text: Columns of a CSV to read as text although they look like numbers; leading zeros stay.
        **reading: See `Reading`.
    """
    separator, missing = _separator(path), reading.get("missing", ())
    with _reading(path):
        if separator is None:
            frame = _of_arrow(_open_parquet(path).read(), missing)
        else:
            dialect = _dialect(path, separator, reading)
            with CheckedText(path, dialect.encoding) as file:
                frame = pd.read_csv(file, **_options(dialect, missing), dtype=dict.fromkeys(text, str))
    if not len(frame):
        raise ValueError(f"{path} must have at least one row below its column names, however: it has none")
    return frame


def count_rows(path: Place) -> int | None:
    """How many rows a file has, where that can be known without reading it."""
    if _separator(path) is not None:
        return None
    with _reading(path):
        return int(_open_parquet(path).metadata.num_rows)


def read_rows_for(
    columns: Sequence[Column], path: Place, *, rows: int, keep: Sequence[str] = (), **reading: Unpack[Reading]
) -> Iterator[pd.DataFrame]:
    """Reads a table a few rows at a time, as a model needs it: its columns, in its order, with its types.

    Args:
        columns: Those of a fitted model. The file may have others besides, in any order.
        path: As for `read_table`.
        rows: How many at a time.
        keep: Other columns, which follow those of the model; of a text file as they are written there.
        **reading: See `Reading`.

    Yields:
        Frames whose categories are text, as the model knows them, and whose numbers are float64; the index counts
        the rows of the file from 0.

    Raises:
        ValueError: The file lacks a column, a column of numbers holds something else, or there are no rows.
    """
    if rows < 1:
        raise ValueError(f"rows to read at a time must be positive, however: {rows}")
    n_rows = 0
    for frame in _chunks(path, rows, columns, keep, reading):
        frame.index = pd.RangeIndex(n_rows, n_rows + len(frame))
        n_rows += len(frame)
        parts = {column.name: _as_column(frame[column.name], column, path) for column in columns}
        yield pd.DataFrame(parts | {name: frame[name] for name in keep})
    if not n_rows:
        raise ValueError(f"{path} must have at least one row below its column names, however: it has none")


def read_rows(path: Place, n_columns: int) -> NDArray[np.float64]:
    """Reads rows of plain numbers from a CSV without a header, for a network: (B, n_columns) float64, empty is NaN."""
    try:
        frame = pd.read_csv(path, header=None, skipinitialspace=True, skip_blank_lines=False)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} must be a CSV of numbers without a header, however: {reason}") from error
    if frame.shape[1] != n_columns:
        raise ValueError(f"{path} must have {n_columns} columns, as the model does, however: {frame.shape[1]}")
    numbers = frame.apply(pd.to_numeric, errors="coerce").astype(np.float64)
    wrong = np.argwhere((numbers.isna() & frame.notna()).to_numpy())
    if len(wrong):
        line, column = wrong[0]
        raise ValueError(
            f"{path} must hold numbers only and no header, however: {frame.iat[line, column]!r} in line {line + 1}"
        )
    return np.array(numbers, dtype=np.float64)


@contextmanager
def writing_table(path: Place | None) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Gives a function that appends frames of equal columns to a table file; see `files.placed` for what it promises.

    Args:
        path: The suffix decides between CSV, TSV and Parquet. None or "-" writes CSV to stdout.

    Examples:
        >>> with writing_table(None) as write:
        ...     write(pd.DataFrame({"a": [1]}))
        ...     write(pd.DataFrame({"a": [2]}))
        a
        1
        2
    """
    path = STANDARD if path is None else path
    to_stdout = str(path) == STANDARD
    separator = "," if to_stdout else _separator(path)
    arrow: Any = None if separator else _pyarrow()
    writer: Any = None
    with ExitStack() as stack:
        target: Any = sys.stdout if to_stdout else stack.enter_context(files.placed(path))
        if separator and not to_stdout:
            open_file = gzip.open if is_zipped(path) else open
            target = stack.enter_context(open_file(target, "wt", encoding="utf-8", newline=""))

        def write(frame: pd.DataFrame) -> None:
            nonlocal writer
            if separator:
                frame.to_csv(target, sep=separator, header=writer is None, index=False, lineterminator="\n")
                writer = target
                return
            schema = None if writer is None else writer.schema
            table = arrow.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata()
            writer = writer or stack.enter_context(arrow.parquet.ParquetWriter(target, table.schema))
            writer.write_table(table)

        yield write


def odd_values(values: pd.Series[Any]) -> list[str]:
    """Up to three texts that keep a column from being numbers; empty when there are more of them, or mostly text."""
    if pd.api.types.is_numeric_dtype(values.dtype) or isinstance(values.dtype, pd.CategoricalDtype):
        return []
    there = values.dropna()
    if not len(there) or not all(isinstance(value, str) for value in there):
        return []
    odd = there[pd.to_numeric(there, errors="coerce").isna()]
    different = odd.unique()
    return different.tolist() if len(different) <= 3 and 2 * len(odd) <= len(there) else []


# Reading -------------------------------------------------------------------------------------------------------------


def _separator(path: Place) -> str | None:
    """Of a text file, by its suffix; None for Parquet."""
    name = str(path).lower()
    if name.endswith(_PARQUET):
        return None
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in _SEPARATORS:
        raise ValueError(
            f"a table file must have a name that ends in .csv, .tsv, .csv.gz, .tsv.gz or .parquet, however: {path}"
        )
    return _SEPARATORS[suffix]


@contextmanager
def _reading(path: Place) -> Iterator[None]:
    """Says in one sentence what is wrong with a file."""
    if not Path(path).exists():
        raise FileNotFoundError(f"cannot read {path}: there is no such file; check the path")
    if Path(path).is_dir():
        raise IsADirectoryError(f"cannot read {path}: it is a folder; give the path of the file itself")
    try:
        yield
    except UnicodeDecodeError as error:
        what = "UTF-8" if error.encoding == "utf-8" else error.encoding
        raise ValueError(
            f"{path} must be text in {what}, however: it is not; name its encoding (such as "
            "--encoding latin-1) or save it again"
        ) from error
    except (csv.Error, UnicodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"cannot read {path}: it is damaged or not a table ({error})") from error
    except pd.errors.ParserWarning as error:
        raise ValueError(
            f"{path} must have one name for each column, however: its first row has more fields than its line of names"
        ) from error
    except pd.errors.ParserError as error:
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise ValueError(
            f"cannot read {path}: it is damaged or not a table ({reason}); if its delimiter was mistaken, name it "
            "(--delimiter)"
        ) from error


@contextmanager
def seekable(path: Place) -> Iterator[Place]:
    """The path of a file that can be read twice: for "-" a copy of what comes on standard input."""
    if str(path) != STANDARD:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        head = sys.stdin.buffer.read(4)
        suffix = ".parquet" if head == b"PAR1" else ".csv.gz" if head[:2] == b"\x1f\x8b" else ".csv"
        copy = Path(folder, f"input{suffix}")
        with copy.open("wb") as file:
            file.write(head)
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield copy
        except (ValueError, OSError) as error:
            raise ValueError(str(error).replace(str(copy), "standard input")) from error


def _options(dialect: Dialect, missing: Sequence[str]) -> dict[str, Any]:
    return {
        "sep": dialect.delimiter,
        "decimal": dialect.decimal,
        "na_values": [*missing, *(f" {marker}" for marker in missing)],  # spaces after a delimiter stay, as in pandas
        "index_col": False,
        "low_memory": False,  # types come from all rows together
        # A number falls on the side of a border that it fell on in fit. Newer pandas reads numbers exactly anyway.
        **({} if _EXACT else {"float_precision": "round_trip"}),
    }


def _dialect(path: Place, separator: str, reading: Reading) -> Dialect:
    """How a text file is written; that no row is longer than the line of names is seen at the first one."""
    dialect = dialect_of(path, separator, reading.get("delimiter"), reading.get("encoding"))
    with warnings.catch_warnings(), CheckedText(path, dialect.encoding) as file:
        warnings.simplefilter("error", pd.errors.ParserWarning)
        pd.read_csv(file, **_options(dialect, ()), dtype=str, nrows=1)
    return dialect


def _chunks(
    path: Place, rows: int, columns: Sequence[Column], keep: Sequence[str], reading: Reading
) -> Iterator[pd.DataFrame]:
    """Frames of some rows of a file, with at least the columns asked for."""
    names = [*(column.name for column in columns), *keep]
    separator, missing = _separator(path), reading.get("missing", ())
    with _reading(path):
        if separator is None:
            file = _open_parquet(path)
            _check_names(file.schema_arrow.names, names, path)
            yield from (_of_arrow(batch, missing) for batch in file.iter_batches(batch_size=rows, columns=names))
            return
        dialect = _dialect(path, separator, reading)
        _check_names(dialect.names, names, path)
        options: dict[str, Any] = _options(dialect, missing) | {
            "skip_blank_lines": len(dialect.names) > 1,
            "dtype": {column.name: str for column in columns if column.kind != "number"},
            "converters": dict.fromkeys(keep, "={}".format),  # else pandas would take an NA for a missing value
        }
        with CheckedText(path, dialect.encoding) as text, pd.read_csv(text, **options, chunksize=rows) as reader:
            for frame in reader:  # all columns: usecols would hide long rows
                yield frame.assign(**{name: frame[name].str[1:] for name in keep})


def _check_names(have: Sequence[str], names: Sequence[str], path: Place) -> None:
    try:
        pick_columns(pd.DataFrame(columns=list(have)), names)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _as_column(values: pd.Series[Any], column: Column, path: Place) -> pd.Series[Any]:
    if column.kind == "date":
        return values
    cells = _as_known_texts(values, column) if column.kind == "category" else _as_numbers(values, column, path)
    return pd.Series(cells, index=values.index, dtype=cells.dtype)


def _as_numbers(values: pd.Series[Any], column: Column, path: Place) -> NDArray[np.float64]:
    """Numbers as float64, or one sentence with the first value that is none."""
    if pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        texts = values.astype("string").str.strip()
        if column.boolean:
            texts = texts.str.lower().replace({"true": "1", "false": "0"})
        numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.flatnonzero((np.isnan(numbers) & values.notna().to_numpy()) | np.isinf(numbers))
    if len(wrong):
        where = f"{str(values.iloc[wrong[0]])!r} in row {values.index[wrong[0]] + 1}"
        raise ValueError(
            f"{path}: column {column.name!r} must hold finite numbers, as it did in fit, however: {where}; "
            "name it as missing if that is what it means"
        )
    return numbers


def _as_known_texts(values: pd.Series[Any], column: Column) -> NDArray[Any]:
    """Categories as text. One that the model does not know, but that writes the same number, becomes the known one."""
    texts = as_texts(values, column.name)
    new = [text for text in pd.unique(texts) if text is not None and text not in column.index]
    known = {_number(level): level for level in reversed(column.levels)} if new else {}  # the most frequent stays
    same = {text: known[number] for text in new if (number := _number(text)) in known}
    return np.array([same.get(text, text) for text in texts], dtype=object) if same else texts


def _number(text: str) -> float:
    """The number that a text writes; NaN, which equals nothing, for all else."""
    try:
        return float(text) if "_" not in text else float("nan")
    except ValueError:
        return float("nan")


# Parquet -------------------------------------------------------------------------------------------------------------


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install harsanyinet[parquet]") from error
    return pyarrow


def _open_parquet(path: Place) -> Any:
    arrow = _pyarrow()
    try:
        return arrow.parquet.ParquetFile(path)
    except arrow.ArrowException as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"cannot read {path}: it is damaged or no Parquet file ({reason})") from error


def _of_arrow(table: Any, missing: Sequence[str]) -> pd.DataFrame:
    """As pandas; what stands for a missing value is hidden, and what remains of a text column may be numbers."""
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    frame = frame[[name for name in frame.columns if not name.startswith("__index_level_")]]
    for name in frame.columns if missing else ():
        values = frame[name]
        plain = pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)
        markers = [_number(marker) for marker in missing] if plain else list(missing)
        hidden = values.isin([marker for marker in markers if marker == marker])
        if hidden.any():
            rest = values.mask(hidden)
            numbers = rest if plain else pd.to_numeric(rest, errors="coerce")
            frame = frame.assign(**{name: numbers if numbers.notna().sum() == rest.notna().sum() else rest})
    return frame
