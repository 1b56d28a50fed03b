"""Tables as they come in: what a column holds, as numbers or texts, and clear sentences for all else."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from harsanyinet.tables.dates import as_times
from harsanyinet.tables.frames import UnseenCategoryWarning, as_frame, as_numbers, as_texts, kind_of, pick_columns


def series(values: object, dtype: object = None) -> pd.Series:
    return values if isinstance(values, pd.Series) else pd.Series(values, dtype=dtype)


# Kinds


@pytest.mark.parametrize(
    ("values", "dtype", "kind"),
    [
        ([1, 2], "int8", "number"),
        ([1, 2], "uint16", "number"),
        ([1.5, None], "float32", "number"),
        ([1, None], "Int64", "number"),
        ([1.5, None], "Float32", "number"),
        ([1, 2.0, np.float32(3)], object, "number"),
        ([Decimal(1), None], object, "number"),
        ([True, False], "bool", "number"),
        ([True, None], "boolean", "number"),
        ([True, None], object, "number"),
        ([1, None], "int64[pyarrow]", "number"),
        ([True, None], "bool[pyarrow]", "number"),
        (pd.arrays.SparseArray([1, 2]), None, "number"),
        ([None, None], object, "number"),
        ([np.nan, np.nan], None, "number"),
        (["a", None], object, "category"),
        (["a", None], "str", "category"),
        (["a", None], "string", "category"),
        (["a", None], "category", "category"),
        (["a", None], "string[pyarrow]", "category"),
        ([1, 2], "category", "category"),
    ],
)
def test_kinds_of_columns(values, dtype, kind):
    assert kind_of(series(values, dtype), "c") == kind


def test_intervals_are_categories():
    assert kind_of(pd.cut(pd.Series([1.0, 2.0, 3.0]), [0, 2, 4]), "c") == "category"


# Numbers


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2, 3], "int8"),
        ([1.0, 2.0, 3.0], "float32"),
        ([1, 2, 3], "Int64"),
        ([1, 2.0, np.float32(3)], object),
        ([Decimal(1), Decimal(2), Decimal(3)], object),
        ([1, 2, 3], "int64[pyarrow]"),
        (pd.arrays.SparseArray([1, 2, 3]), None),
        (["1", "2.0", " 3"], object),  # text that reads as a number
        (["1", "2", "3"], "category"),
        ([1, 2, 3], "category"),
    ],
)
def test_every_type_of_number_is_read_alike(values, dtype):
    found = as_numbers(series(values, dtype), "c")
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0, np.nan], None),
        ([1, None], object),
        ([1, pd.NA], object),
        ([1, pd.NA], "Int64"),
        ([1, None], "Float64"),
        ([1, None], "int64[pyarrow]"),
        ([True, None], object),
        ([True, None], "boolean"),
        (["1", None], "category"),
    ],
)
def test_missing_numbers_are_nan(values, dtype):
    found = as_numbers(series(values, dtype), "c")
    assert found[0] == 1
    assert np.isnan(found[1])


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinities_are_refused(value):
    with pytest.raises(ValueError, match=r"^column 'c' contains infinity; replace it by a number, or by NaN where the"):
        as_numbers(pd.Series([1.0, value, 2.0]), "c")


@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_text_where_numbers_were(dtype):
    with pytest.raises(ValueError, match=r"^column 'c' must hold numbers, as it did in fit, however: '\?' in row 1$"):
        as_numbers(pd.Series(["1", "?", "3"], dtype=dtype), "c")


# Texts


@pytest.mark.parametrize("dtype", [object, "str", "string"])
def test_texts(dtype):
    given = pd.Series(["a", None, "b"], dtype=dtype)
    before = given.copy()
    assert as_texts(given, "c").tolist() == ["a", None, "b"]
    pd.testing.assert_series_equal(given, before)
    assert as_texts(pd.Series([], dtype=dtype), "c").shape == (0,)


def test_texts_of_a_column_that_mixes_types():
    mixed = pd.Series(["a", 1, 2.0, 2.5, True, np.int8(4), np.float32(3), None, pd.NA, np.nan, pd.NaT], dtype=object)
    assert as_texts(mixed, "c").tolist() == ["a", "1", "2", "2.5", "True", "4", "3", None, None, None, None]
    with pytest.raises(TypeError, match=r"^column 'c' must hold text or numbers, however: list$"):
        as_texts(pd.Series(["a", [1]], dtype=object), "c")


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([3, 1, None], "Int64"), ([3.0, 1.0, np.nan], None), ([3, 1, None], object), ([3, 1, None], "category")],
)
def test_whole_numbers_read_the_same_as_int_and_float(values, dtype):
    assert as_texts(pd.Series(values, dtype=dtype), "c").tolist() == ["3", "1", None]


# What is neither


DAYS = pd.date_range("2020-01-01", periods=3)
DATES = {
    "datetime64": pd.Series(DAYS),
    "with time zone": pd.Series(DAYS.tz_localize("UTC")),
    "timedelta": pd.Series(DAYS - DAYS[0]),
    "period": pd.Series(DAYS.to_period("M")),
    "date objects": pd.Series([day.date() for day in DAYS], dtype=object),
    "datetime objects": pd.Series([day.to_pydatetime() for day in DAYS], dtype=object),
    "time objects": pd.Series([datetime.time(i) for i in range(3)], dtype=object),
    "timestamps and None": pd.Series([*DAYS[:2], None], dtype=object),
    "numpy dates": pd.Series([np.datetime64("2020"), None, None], dtype=object),
    "dates and text": pd.Series([DAYS[0], "soon", None], dtype=object),
    "categories": pd.Series(DAYS).astype("category"),
    "arrow timestamp": lambda: pd.Series(DAYS).astype("timestamp[ns][pyarrow]"),
    "arrow date": lambda: pd.Series([day.date() for day in DAYS]).astype("date32[pyarrow]"),
    "arrow duration": lambda: pd.Series(DAYS - DAYS[0]).astype("duration[ns][pyarrow]"),
}


def dates_of(kind: str) -> pd.Series:
    if kind.startswith("arrow"):
        pytest.importorskip("pyarrow")
        return DATES[kind]()
    return DATES[kind]


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_refused_in_one_sentence(kind):
    message = r"^column 'c' holds dates or times; name it in date_features of fit if these are dates, or turn them into"
    with pytest.raises(TypeError, match=message):
        kind_of(dates_of(kind), "c")
    if kind != "dates and text":
        with pytest.raises(TypeError, match=message):
            as_numbers(dates_of(kind), "c")


NO_DATES = {"timedelta", "period", "time objects", "categories", "arrow duration"}


@pytest.mark.parametrize("kind", DATES)
def test_dates_where_they_may_be(kind):
    if kind in NO_DATES:
        with pytest.raises(TypeError, match="holds dates or times"):
            kind_of(dates_of(kind), "c", dates=True)
        return
    assert kind_of(dates_of(kind), "c", dates=True) == "date"
    if kind == "dates and text":
        with pytest.raises(ValueError, match="must hold dates, as it did in fit, however: 'soon' in row 1"):
            as_times(dates_of(kind), "c")
        return
    times = as_times(dates_of(kind), "c")
    assert times[0] == np.datetime64("2020-01-01")
    np.testing.assert_array_equal(np.isnat(times), pd.isna(dates_of(kind)).to_numpy())


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([1, "?", 3], ValueError, "column 'c' mixes numbers and text such as '?'; replace what stands for a missing"),
        ([True, "yes"], ValueError, "column 'c' mixes numbers and text such as 'yes'"),
        ([[1], [2]], TypeError, "argument must be a string or a number in every cell, however: column 'c' holds list"),
        ([b"a", b"b"], TypeError, "argument must be a string or a number in every cell, however: column 'c' holds byt"),
        ([1j, 2j], ValueError, "Complex data not supported: column 'c' holds complex numbers"),
    ],
)
def test_other_things_are_refused_in_one_sentence(values, error, message):
    with pytest.raises(error) as caught:
        kind_of(pd.Series(values, dtype=object), "c")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_complex_numbers_are_refused():
    for read in (kind_of, as_numbers):
        with pytest.raises(ValueError, match="Complex data not supported"):
            read(pd.Series([1j, 2j]), "c")


def test_a_warning_says_what_and_how_many():
    warning = UnseenCategoryWarning.of("colour", "violet", 3)
    assert str(warning) == (
        "column 'colour' holds categories that were not there in fit, such as 'violet', in 3 rows; they count as absent"
    )
    assert (warning.column, warning.example, warning.n_rows) == ("colour", "violet", 3)


# Frames


def table() -> pd.DataFrame:
    return pd.DataFrame({
        "size": [1.0, 2.0, np.nan, 4.0],
        "count": [1, 2, 3, 4],
        "colour": ["red", "blue", None, "red"],
        "open": [True, False, True, True],
        "grade": pd.Categorical(["a", "b", "a", None]),
    })  # fmt: skip


def read(frame: pd.DataFrame) -> list[list]:
    """Every column as numbers or texts."""
    found = []
    for name in frame.columns:
        values = frame[name]
        number = kind_of(values, name) == "number"
        cells = as_numbers(values, name) if number else as_texts(values, name)
        found.append([None if pd.isna(cell) else cell for cell in cells.tolist()])
    return found


def test_polars_and_arrow_tables_read_as_pandas_frames_do():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame = table()
    in_polars = polars.DataFrame({
        "size": [1.0, 2.0, None, 4.0],
        "count": [1, 2, 3, 4],
        "colour": ["red", "blue", None, "red"],
        "open": [True, False, True, True],
        "grade": polars.Series(["a", "b", "a", None], dtype=polars.Categorical),
    })  # fmt: skip
    for other in (in_polars, pyarrow.Table.from_pandas(frame)):
        assert read(as_frame(other)) == read(frame)
    nulls = as_frame(polars.DataFrame({"n": [1, None, 3], "b": [True, None, False], "s": ["a", None, "b"]}))
    assert read(nulls) == [[1.0, None, 3.0], [1.0, None, 0.0], ["a", None, "b"]]
    dates = as_frame(polars.DataFrame({"d": [datetime.date(2020, 1, 1)] * 3}))
    with pytest.raises(TypeError, match="column 'd' holds dates or times"):
        kind_of(dates["d"], "d")


def test_arrays_of_objects():
    array = np.array([["a", 1, None], ["b", None, 2.0], [None, 3, 4.0]], dtype=object)
    frame = as_frame(array)
    assert list(frame.columns) == ["x0", "x1", "x2"]
    assert [kind_of(frame[name], name) for name in frame] == ["category", "number", "number"]
    assert read(frame) == [["a", "b", None], [1.0, None, 3.0], [None, 2.0, 4.0]]
    assert list(as_frame(array, ["u", "v", "w"]).columns) == ["u", "v", "w"]


def test_names():
    with pytest.raises(ValueError, match=r"^columns must have different names, however: 'a' stands there twice$"):
        as_frame(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]))
    frame = pd.DataFrame([[1, 2]], columns=["a", "b"])
    assert as_frame(frame) is frame
    assert pick_columns(frame, ["a", "b"]) is frame
    assert pick_columns(frame, ["b"]).to_numpy().tolist() == [[2]]
    with pytest.raises(
        ValueError, match=r"^the table must have the columns .*, however: 'c' missing; it has 'a', 'b'$"
    ):
        pick_columns(frame, ["c", "a"])
