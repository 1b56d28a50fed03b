"""How columns are coded, against a plain Python reading of knots, atoms, edges and levels."""

from __future__ import annotations

import datetime
import itertools
import json
import time
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harsanyinet.encoders import (
    Coding,
    Column,
    TableEncoder,
    UnseenCategoryWarning,
    as_frame,
    as_numbers,
    as_texts,
    fit_column,
    kind_of,
    pick_columns,
)

FINE = Coding(min_rows=1)


def series(values: object, dtype: object = None) -> pd.Series:
    return values if isinstance(values, pd.Series) else pd.Series(values, dtype=dtype)


def fit(values: object, coding: Coding = FINE, dtype: object = None, **options: bool) -> Column:
    options = {"as_category": False, **options}
    return fit_column(series(values, dtype), "c", coding, **options)


def code(column: Column, values: object, dtype: object = None) -> np.ndarray:
    values = series(values, dtype)
    out = np.full((len(values), 3), -99.0)
    column.code(values, out)
    return out


def absent(coded: np.ndarray) -> list[bool]:
    return np.isnan(coded[:, 0]).tolist()


def by_hand(column: Column, value: float) -> tuple[float, float, float]:
    """Place, level and cell of a number, one comparison at a time."""
    knots = column.knots.tolist()
    place = 0.0
    for i, (low, high) in enumerate(itertools.pairwise(knots)):
        if value >= high:
            place = i + 1.0
        elif value > low:
            place = i + (value - low) / (high - low)
    level = next((i + 1.0 for i, atom in enumerate(column.atoms) if atom == value), 0.0)
    return place, level, float(sum(value >= edge for edge in column.edges))


# Numbers


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 300), st.sampled_from(["normal", "whole", "spiky", "two"]))
def test_numbers_are_coded_as_by_hand(seed, n_rows, shape):
    rng = np.random.default_rng(seed)
    values = {
        "normal": rng.normal(size=n_rows),
        "whole": rng.integers(-3, 40, n_rows).astype(float),
        "spiky": np.where(rng.random(n_rows) < 0.8, 0.0, rng.exponential(size=n_rows)),
        "two": rng.choice([-1.5, 2.0], n_rows),
    }[shape]
    values[0] += 5.0  # not all alike
    column = fit([np.nan, *values], Coding(min_rows=int(rng.integers(1, 8)), pieces=12, atoms=6, cells=5))
    shown = np.concatenate([values[:40], rng.normal(size=20) * 30, column.knots, column.edges, [-1e300, 1e300]])
    np.testing.assert_allclose(code(column, shown), [by_hand(column, v) for v in shown], rtol=0, atol=1e-12)
    assert (np.diff(column.knots) > 0).all()
    assert (np.diff(column.edges) > 0).all()
    assert column.n_cells == len(column.edges) + 1 <= 5
    assert len(column.knots) <= 13 + 7
    assert column.n_levels == len(column.atoms) + 1 <= 7
    if len(column.knots) > 1:
        assert column.knots[[0, -1]].tolist() == [values.min(), values.max()]


def test_cells_hold_about_as_many_rows_each_and_atoms_are_the_frequent_numbers():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=3000), np.full(400, 0.25), np.full(30, 7.0), np.full(19, 8.0)])
    column = fit(values, Coding(min_rows=20, cells=16))
    cells = np.bincount(code(column, values)[:, 2].astype(int), minlength=column.n_cells)
    assert cells.sum() == len(values)
    assert np.delete(cells, cells.argmax()).max() < 2 * len(values) / 16  # the spike has a cell as large as itself
    assert column.atoms.tolist() == [0.25, 7.0]  # 19 rows are too few
    assert fit(values, Coding(min_rows=20), atoms=False).n_levels == 1
    assert fit(values, Coding(min_rows=20, atom_share=0.05)).atoms.tolist() == [0.25]
    many = np.repeat(np.arange(100), np.arange(1, 101))
    assert fit(many, Coding(min_rows=1, atoms=3)).atoms.tolist() == [97.0, 98.0, 99.0]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2, 3], "int64"),
        ([1, 2, 3], "int8"),
        ([1, 2, 3], "uint16"),
        ([1.0, 2.0, 3.0], "float32"),
        ([1, 2, 3], "Int64"),
        ([1.0, 2.0, 3.0], "Float32"),
        ([1, 2, 3], object),
        ([1, 2.0, np.float32(3)], object),
        ([Decimal(1), Decimal(2), Decimal(3)], object),
        ([1, 2, 3], "int64[pyarrow]"),
        (pd.arrays.SparseArray([1, 2, 3]), None),
    ],
)
def test_every_type_of_number_is_coded_alike(values, dtype):
    column = fit(values, dtype=dtype)
    assert column.kind == "number"
    assert not column.boolean
    np.testing.assert_array_equal(code(column, values, dtype), [[0, 1, 0], [1, 2, 1], [2, 3, 2]])
    np.testing.assert_array_equal(code(fit([1.0, 2.0, 3.0]), values, dtype), code(column, [1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0, np.nan, 3.0], None),
        ([1, None, 3], object),
        ([1, pd.NA, 3], object),
        ([1, float("nan"), 3], object),
        ([1, pd.NA, 3], "Int64"),
        ([1, None, 3], "Float64"),
        ([1, None, 3], "int64[pyarrow]"),
        ([True, None, False], object),
        ([True, None, False], "boolean"),
        (["a", None, "b"], object),
        (["a", np.nan, "b"], object),
        (["a", pd.NA, "b"], object),
        (["a", None, "b"], "str"),
        (["a", pd.NA, "b"], "string"),
        (["a", None, "b"], "category"),
        (["a", None, "b"], "string[pyarrow]"),
    ],
)
def test_missing_values_are_absent(values, dtype):
    column = fit(values, dtype=dtype)
    assert absent(code(column, values, dtype)) == [False, True, False]
    assert np.isfinite(code(column, values, dtype)[:, 1:]).all()


@pytest.mark.parametrize("dtype", ["bool", "boolean", object, "bool[pyarrow]"])
def test_booleans_are_two_numbers(dtype):
    column = fit([True, False, True], dtype=dtype)
    assert column.boolean
    assert column.kind == "number"
    np.testing.assert_array_equal(code(column, [True, False]), [[1, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(code(column, [1, 0]), code(column, [True, False]))
    assert [column.value_of_cell(cell) for cell in range(column.n_cells)] == ["False", "True"]
    assert fit([True, True], dtype=dtype).value_of_cell(0) == "True"


@pytest.mark.parametrize("values", [[4.0, 4.0], [True, True], ["a", "a"], [None, None], [np.nan, np.nan]])
@pytest.mark.parametrize("dtype", [None, "category"])
def test_a_column_that_says_nothing_is_absent(values, dtype):
    """Present or not, it could only shift all rows by the same."""
    column = fit(values, dtype=dtype)
    assert column.constant
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shown in (values, [1.0, np.nan], ["text", "comes"]):
            np.testing.assert_array_equal(code(column, shown), [[np.nan, 0, 0]] * 2)
    assert column.n_cells == 1
    assert isinstance(column.value_of_cell(0), str)


def test_a_column_that_says_whether_it_is_there():
    column = fit([4.0, 4.0, np.nan])
    assert not column.constant
    np.testing.assert_array_equal(code(column, [4.0, 5.0, np.nan])[:, 0], [0, 0, np.nan])
    assert absent(code(fit(["a", None]), ["a", None])) == [False, True]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinities_are_refused(value):
    with pytest.raises(ValueError, match=r"^column 'c' contains infinity; replace it by a number, or by NaN"):
        fit([1.0, value, 2.0])
    with pytest.raises(ValueError, match="column 'c' contains infinity"):
        code(fit([1.0, 2.0, 3.0]), [value])


def test_text_where_numbers_were():
    column = fit([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(code(column, ["1", "2.5"]), code(column, [1.0, 2.5]))  # reads as a number
    for dtype in (object, "str", "category"):
        with pytest.raises(
            ValueError, match=r"^column 'c' must hold numbers, as it did in fit, however: '\?' in row 1$"
        ):
            code(column, ["1", "?", "3"], dtype)


# Categories


@pytest.mark.parametrize("dtype", [object, "str", "string", "category", "string[pyarrow]"])
def test_categories_are_ordered_by_frequency(dtype):
    column = fit(["b", "a", "c", "c", "a", "c", None], dtype=dtype)
    assert column.levels == ("c", "a", "b")
    assert column.kind == "category"
    found = code(column, ["a", "b", "c", None], dtype)
    assert absent(found) == [False, False, False, True]
    assert found[:3, 2].tolist() == [1, 2, 0]
    assert len(set(found[:2, 1])) == 2 - (found[0, 1] == 1)
    assert [column.value_of_cell(cell) for cell in range(3)] == ["c", "a", "b"]


def test_rare_categories_share_a_row_and_late_ones_a_cell():
    counts = {"many": 500, "some": 60, "few": 12, "one": 1, "two": 2}
    values = [name for name, count in counts.items() for _ in range(count)]
    column = fit(values, Coding(min_rows=20, cells=3))
    rows = dict(zip(column.levels, column.rows.tolist(), strict=True))
    assert rows == {"many": 2, "some": 3, "few": 4, "two": 1, "one": 1}  # a hundredth of the rows is enough: 5
    assert column.n_levels == 5
    found = code(column, list(counts))
    assert found[:, 2].tolist() == [0, 1, 2, 2, 2]
    assert column.value_of_cell(2) == "all others"
    assert fit(values, Coding(min_rows=3)).rows.tolist() == [2, 3, 4, 1, 1]


def test_one_warning_for_each_column_with_unseen_categories():
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"], "n": [1.0, 2.0]})
    encoder = TableEncoder.fit(frame, FINE)
    new = pd.DataFrame({"a": ["x", "Z", "Y"], "b": [None, "u", "v"], "n": [1.0, 2.0, 9.0]})
    with pytest.warns(UnseenCategoryWarning) as caught:
        coded = encoder.code(new)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert text.startswith("column 'a' holds categories that were not there in fit, such as 'Z', in 2 rows")
    assert text.endswith("as absent")
    assert np.isnan(coded[:, :, 0]).tolist() == [[False, True, False], [True, False, False], [True, False, False]]
    new["b"] = "W"
    with pytest.warns(UnseenCategoryWarning) as caught:
        encoder.code(new.astype({"b": "category"}))
    assert [str(w.message)[:10] for w in caught] == ["column 'a'", "column 'b'"]


def test_unused_categories_of_the_dtype_are_not_unseen():
    column = fit(["a", "b"], dtype="category")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = code(column, pd.Series(pd.Categorical(["a", None], categories=["zzz", "b", "a"])))
    assert absent(found) == [False, True]


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float64", "category", object])
def test_numbers_that_are_names(dtype):
    """Codes that came as int in fit come as float once a value is missing; they are the same categories."""
    column = fit([3, 1, 3, 2], dtype=dtype, as_category=True)
    assert column.levels == ("3", "1", "2")
    same = code(column, [3, 1, 2])
    np.testing.assert_array_equal(code(column, [3.0, 1.0, 2.0, np.nan])[:3], same)
    np.testing.assert_array_equal(code(column, [3, 1, 2], "Int64"), same)
    np.testing.assert_array_equal(code(column, ["3", "1", "2"]), same)
    np.testing.assert_array_equal(code(column, [3, None, 1, 2], object)[[0, 2, 3]], same)
    np.testing.assert_array_equal(code(column, [3.0, 1.0, 2.0], "category"), same)
    assert fit([0.5, 1.0], as_category=True).levels == ("0.5", "1")
    assert fit([True, False, True], as_category=True).levels == ("True", "False")


def test_intervals_are_categories():
    column = fit(pd.cut(pd.Series([1.0, 2.0, 3.0, 4.0]), [0, 2, 4]))
    assert column.levels == ("(0, 2]", "(2, 4]")


def test_ten_thousand_levels_and_half_a_million_texts_in_little_time():
    rng = np.random.default_rng(0)
    names = np.array([f"level {i}" for i in range(10_000)], dtype=object)
    texts = pd.Series(names[rng.integers(0, 10_000, 500_000)], dtype=object)
    texts[::7] = None
    numbers = pd.Series(rng.integers(0, 10_000, 500_000))
    started = time.process_time()
    column = fit(texts, Coding(min_rows=20))
    found = code(column, texts)
    by_number = code(fit(numbers, as_category=True), numbers.where(numbers > 5))
    # under a second; a loop over the values in Python takes several times as long
    assert time.process_time() - started < 6
    assert len(column.levels) == 10_000
    assert column.n_cells == Coding().cells
    assert absent(found) == texts.isna().tolist()
    known = dict(zip(column.levels, column.rows, strict=True))
    for row in range(1, 500):
        if row % 7:
            assert found[row, 1] == known[texts[row]]
    assert absent(by_number) == (numbers <= 5).tolist()


@pytest.mark.parametrize("dtype", [object, "str", "string"])
def test_texts(dtype):
    given = pd.Series(["a", None, "b"], dtype=dtype)
    before = given.copy()
    assert as_texts(given, "c").tolist() == ["a", None, "b"]
    pd.testing.assert_series_equal(given, before)
    assert as_texts(pd.Series([], dtype=dtype), "c").shape == (0,)
    mixed = pd.Series(["a", 1, 2.0, 2.5, True, np.int8(4), np.float32(3), None, pd.NA, np.nan, pd.NaT], dtype=object)
    assert as_texts(mixed, "c").tolist() == ["a", "1", "2", "2.5", "True", "4", "3", None, None, None, None]
    with pytest.raises(TypeError, match=r"^column 'c' must hold text or numbers, however: list$"):
        as_texts(pd.Series(["a", [1]], dtype=object), "c")


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
    "arrow timestamp": pd.Series(DAYS).astype("timestamp[ns][pyarrow]"),
    "arrow date": pd.Series([day.date() for day in DAYS]).astype("date32[pyarrow]"),
    "arrow duration": pd.Series(DAYS - DAYS[0]).astype("duration[ns][pyarrow]"),
}


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_refused_in_one_sentence(kind):
    message = r"^column 'c' holds dates or times; turn them into numbers or categories that mean something, such as"
    with pytest.raises(TypeError, match=message):
        fit(DATES[kind])
    if kind != "dates and text":
        with pytest.raises(TypeError, match=message):
            code(fit([1.0, 2.0, 3.0]), DATES[kind])
    with pytest.raises(TypeError, match=r"^column 'c' "):
        code(fit(["a", "b"]), DATES[kind])


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
        fit(values, dtype=object)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="Complex data not supported"):
        kind_of(pd.Series([1j, 2j]), "c")
    with pytest.raises(ValueError, match="Complex data not supported"):
        as_numbers(pd.Series([1j, 2j]), "c")


# Tables


def table() -> pd.DataFrame:
    return pd.DataFrame({
        "size": [1.0, 2.0, np.nan, 4.0, 2.5, 1.5],
        "count": [1, 2, 3, 4, 5, 5],
        "colour": ["red", "blue", None, "red", "green", "red"],
        "open": [True, False, True, True, False, False],
        "grade": pd.Categorical(["a", "b", "a", None, "b", "a"]),
    })  # fmt: skip


def test_polars_and_arrow_tables_are_coded_as_pandas_frames_are():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame = table()
    encoder = TableEncoder.fit(frame, FINE)
    in_polars = polars.DataFrame({
        "size": [1.0, 2.0, None, 4.0, 2.5, 1.5],
        "count": [1, 2, 3, 4, 5, 5],
        "colour": ["red", "blue", None, "red", "green", "red"],
        "open": [True, False, True, True, False, False],
        "grade": polars.Series(["a", "b", "a", None, "b", "a"], dtype=polars.Categorical),
    })  # fmt: skip
    for other in (in_polars, pyarrow.Table.from_pandas(frame)):
        np.testing.assert_array_equal(encoder.code(as_frame(other)), encoder.code(frame))
        again = TableEncoder.fit(as_frame(other), FINE)
        assert again.settings() == encoder.settings()
        assert all(np.array_equal(array, encoder.arrays()[name]) for name, array in again.arrays().items())
    nulls = as_frame(polars.DataFrame({"n": [1, None, 3], "b": [True, None, False], "s": ["a", None, "b"]}))
    coded = TableEncoder.fit(nulls, FINE).code(nulls)
    assert np.isnan(coded[:, :, 0]).tolist() == [[False] * 3, [True] * 3, [False] * 3]
    with pytest.raises(TypeError, match="column 'd' holds dates or times"):
        TableEncoder.fit(as_frame(polars.DataFrame({"d": [datetime.date(2020, 1, 1)] * 3})), FINE)


def test_arrays_of_objects():
    array = np.array([["a", 1, None], ["b", None, 2.0], [None, 3, 4.0], ["a", 4, 1.0]], dtype=object)
    encoder = TableEncoder.fit(as_frame(array), FINE)
    assert encoder.names == ["x0", "x1", "x2"]
    assert [column.kind for column in encoder.columns] == ["category", "number", "number"]
    coded = encoder.code(as_frame(array, encoder.names))
    assert np.isnan(coded[:, :, 0]).tolist() == pd.isna(array).tolist()


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
    numbered = pd.DataFrame({0: [1.0, 2.0], 1: ["a", "b"]})
    assert TableEncoder.fit(numbered, FINE, categories=[0]).names == ["0", "1"]
    assert TableEncoder.fit(numbered, FINE, categories=[0]).columns[0].kind == "category"


def test_five_hundred_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 500)), columns=[f"c{i}" for i in range(500)])
    frame["c7"] = rng.choice(["a", "b"], 200)
    encoder = TableEncoder.fit(frame, Coding())
    coded = encoder.code(frame, np.float64)
    assert coded.shape == (200, 500, 3)
    for position in (0, 7, 499):
        np.testing.assert_array_equal(coded[:, position], code(encoder.columns[position], frame.iloc[:, position]))
    assert coded.flags.c_contiguous


@pytest.mark.parametrize("frame", [table(), pd.DataFrame({"only": [np.nan, np.nan]}), pd.DataFrame({"a": ["x", None]})])
def test_settings_and_arrays_say_it_all(frame):
    encoder = TableEncoder.fit(frame, FINE)
    assert encoder.code(frame.iloc[:0]).shape == (0, len(frame.columns), 3)
    again = TableEncoder.restore(json.loads(json.dumps(encoder.settings())), encoder.arrays())
    np.testing.assert_array_equal(again.code(frame), encoder.code(frame))
    assert again.settings() == encoder.settings()
    for a, b in zip(again.columns, encoder.columns, strict=True):
        assert all(np.array_equal(a.arrays()[name], array) for name, array in b.arrays().items())
        assert (a.n_levels, a.n_cells, a.boolean) == (b.n_levels, b.n_cells, b.boolean)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_have_the_type_that_was_asked_for(dtype):
    assert TableEncoder.fit(table(), FINE).code(table(), dtype).dtype == dtype
