"""How values become the bins of a fitted column: numbers, categories, dicts, arrays; and columns in a file."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from binned_columns import FINE, SHAPES, by_hand, code, fit, fit_both

from harsanyinet.tables import columns as column_module
from harsanyinet.tables.bins import Binning, fit_columns, fit_number
from harsanyinet.tables.columns import (
    Column,
    code_dict,
    code_frame,
    code_numbers,
    columns_from_arrays,
    columns_to_arrays,
)
from harsanyinet.tables.frames import UnseenCategoryWarning


@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_find_the_same_bin_by_numpy_and_by_kernels(shape, monkeypatch):
    rng = np.random.default_rng(3)
    given = SHAPES[shape](rng, 3000)
    column = fit(np.append(given, np.nan))
    single = column.borders.astype(np.float32)
    shown = np.concatenate([
        given, column.borders, np.nextafter(column.borders, np.inf), np.nextafter(column.borders, -np.inf),
        np.nextafter(single, np.float32(np.inf)), [np.nan, 0.0, -0.0, 1e308, -1e308, 5e-324, -5e-324],
    ])  # fmt: skip
    out = []
    for many in (1, 10**9):
        monkeypatch.setattr(column_module, "MANY_ROWS", many)
        out.append(code(column, shown)[0].tolist())
    assert out[0] == out[1] == [by_hand(column, v) for v in shown]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2, 3], "int64"),
        ([1, 2, 3], "uint16"),
        ([1.0, 2.0, 3.0], "float32"),
        ([1, 2, 3], "Int64"),
        ([1, 2.0, np.float32(3)], object),
        ([Decimal(1), Decimal(2), Decimal(3)], object),
        ([1, 2, 3], "int64[pyarrow]"),
        (pd.arrays.SparseArray([1, 2, 3]), None),
    ],
)
def test_every_type_of_number_is_binned_alike(values, dtype):
    column = fit(values, dtype=dtype)
    assert column.kind == "number"
    assert column.whole
    assert not column.boolean
    assert code(column, values, dtype).tolist() == [[1, 2, 3]]
    assert code(fit([1.0, 2.0, 3.0]), values, dtype).tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinities_are_refused(value):
    with pytest.raises(ValueError, match="column 'c' contains infinity"):
        fit([1.0, value, 2.0])
    column = fit([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="column 'c' contains infinity"):
        code(column, [value])
    with pytest.raises(ValueError, match="column 'c' contains infinity"):
        column.code_one(value)
    assert code_numbers([column], np.array([[value]])) is None  # left to the way that has the sentence


def test_categories_are_coded_alike_from_every_type():
    column = fit(["b", "a", "c", "c", "a", "c"])
    expected = code(column, ["a", "b", "c"])
    for dtype in ("str", "string", "category", "string[pyarrow]"):
        if dtype == "string[pyarrow]":
            pytest.importorskip("pyarrow")
        np.testing.assert_array_equal(code(column, ["a", "b", "c"], dtype), expected)
    np.testing.assert_array_equal(code(column, ["a", "b", "c", None], "category")[:, :3], expected)


def text_columns(values: list[str | None]) -> dict[str, pd.Series]:
    """The same texts, by all that pandas can keep them in."""
    found = {
        "object": pd.Series(values, dtype=object),
        "category": pd.Series(values, dtype=object).astype("category"),
        "python": pd.Series(values, dtype=pd.StringDtype("python")),
    }
    with suppress(ImportError):
        import pyarrow as pa

        found["pyarrow"] = pd.Series(values, dtype=pd.StringDtype("pyarrow"))
        found["pieces"] = pd.concat([found["pyarrow"][:2], found["pyarrow"][2:]], ignore_index=True)
        found["arrow"] = pd.Series(values, dtype=pd.ArrowDtype(pa.string()))
    return found


@pytest.mark.parametrize("missing", ["value", "absent"])
@pytest.mark.parametrize("unseen", [[], ["Z", "", "Z"]])
def test_texts_are_coded_and_unseen_ones_told_alike_however_they_are_kept(missing, unseen):
    y = np.random.default_rng(0).normal(size=(6, 2))
    column = fit(["b", "ä", "c c", "c c", None, "ä"], Binning(missing=missing), y=y)
    seen = {text: column.level_bins[i].tolist() for i, text in enumerate(column.levels)}
    nothing = [1 if missing == "value" else 0] * column.n_codes
    values = ["ä", None, "b", *unseen, "c c", None, "b"]
    expected = [nothing if v is None else seen.get(v, [0] * column.n_codes) for v in values]
    for kept, series in text_columns(values).items():
        series.index = range(5, 5 + len(series))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert code(column, series).T.tolist() == expected, kept
        told = [str(w.message).partition(";")[0] for w in caught]
        assert len(told) == bool(unseen), kept
        assert all("such as 'Z', in 3 rows" in text for text in told), kept


def test_levels_that_arrow_cannot_keep_are_still_found():
    bins = np.array([[1], [2], [3]], dtype=np.uint8)  # of a model that was fitted where there is no pyarrow
    column = Column("c", "category", levels=("a", "\ud800", "b"), level_bins=bins, n_bins=(4,))
    for kept, series in text_columns(["a", "b", "a"]).items():
        assert code(column, series).tolist() == [[1, 3, 1]], kept


def test_a_column_travels_without_what_it_remembers():
    column = fit(["a", "b", None])
    fresh = pickle.dumps(column)
    for series in text_columns(["a", "b"]).values():
        code(column, series)
    column.code_one("a")
    assert pickle.dumps(column) == fresh
    assert code(pickle.loads(fresh), ["a", "b"]).tolist() == code(column, ["a", "b"]).tolist()


def test_one_warning_for_each_column_with_unseen_categories():
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"], "n": [1.0, 2.0]})
    columns, _ = fit_columns(frame, np.zeros((2, 1)), np.ones(2), FINE, [], None, 0)
    new = pd.DataFrame({"a": ["x", "Z", "Y"], "b": [None, "u", "v"], "n": [1.0, 2.0, 9.0]})
    with pytest.warns(UnseenCategoryWarning) as caught:
        coded = code_frame(columns, new)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert text.startswith("column 'a' holds categories that were not there in fit, such as 'Z', in 2 rows")
    assert (coded == 0).tolist() == [[False, True, True], [True, False, False], [False] * 3]
    new["b"] = "W"
    with pytest.warns(UnseenCategoryWarning) as caught:
        code_frame(columns, new.astype({"b": "category"}))
    assert [str(w.message)[:10] for w in caught] == ["column 'a'", "column 'b'"]


def test_unseen_categories_are_absent_also_where_missing_is_a_value():
    column = fit(["a", "b", None])
    with pytest.warns(UnseenCategoryWarning):
        assert code(column, ["Z", None])[0].tolist() == [0, 1]


def test_unused_categories_of_the_dtype_are_not_unseen():
    column = fit(["a", "b"], dtype="category")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = code(column, pd.Series(pd.Categorical(["a", None], categories=["zzz", "b", "a"])))
    assert (found[0] == 0).tolist() == [False, True]


def table(n_rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "size": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows)),
        "count": rng.poisson(3, n_rows),
        "colour": rng.choice(["red", "blue", None], n_rows),
        "open": rng.random(n_rows) < 0.5,
        "grade": pd.Categorical(rng.choice(["a", "b"], n_rows)),
        "code": rng.integers(0, 5, n_rows),
    })  # fmt: skip


def fitted(n_targets: int = 2) -> list[Column]:
    frame = table()
    targets = np.random.default_rng(1).normal(size=(len(frame), n_targets))
    return fit_columns(frame, targets, np.ones(len(frame)), FINE, ["code"], None, 0)[0]


def test_one_row_from_a_dict_is_that_of_a_frame():
    columns, frame = fitted(), table()
    coded = code_frame(columns, frame)
    for row in range(40):
        values = frame.iloc[row].to_dict()
        shown, found = code_dict(columns, values)
        assert found.dtype == np.uint8
        assert found[:, 0].tolist() == coded[:, row].tolist()
        assert shown.shape == (1, 6)
    empty = pd.DataFrame([[None] * 6], columns=frame.columns)
    np.testing.assert_array_equal(code_dict(columns, {})[1], code_frame(columns, empty))


@pytest.mark.parametrize(
    "value",
    [
        None, np.nan, float("nan"), pd.NA, np.float64("nan"), 0, 1, -1, True, False, np.True_, 2.5, "2.5", "-1",
        np.int8(2), np.uint64(3), np.float16(0.3), np.float32(0.1), np.float64(0.1), np.longdouble(0.1),
        Decimal("0.25"), 2**53 + 1, -(2**60) - 1, 10**30, 1e300, 5e-324,
    ],
    ids=repr,
)  # fmt: skip
def test_every_number_of_a_dict_is_binned_as_in_a_frame(value):
    rng = np.random.default_rng(0)
    tables = (rng.normal(size=500), rng.normal(size=500) * 2.0**53, 2.0**53 + np.arange(0, 8, 2))
    for numbers in tables:
        for missing in ("auto", "value"):
            column = fit(numbers, Binning(missing=missing))
            assert column.code_one(value) == code(column, [value], object)[:, 0].tolist()


def test_a_number_of_a_dict_beside_a_border():
    column = fit(np.random.default_rng(0).normal(size=2000))
    for border in column.borders.tolist():
        beside = [border, math.nextafter(border, math.inf), math.nextafter(border, -math.inf)]
        assert [column.code_one(value)[0] for value in beside] == [by_hand(column, value) for value in beside]


@pytest.mark.parametrize("value", [None, np.nan, pd.NA, "red", "blue", 3, 3.0, "3", True, 2.5])
def test_every_category_of_a_dict_is_coded_as_in_a_frame(value):
    columns = [fit(["red", "blue", "red", None]), fit_both([3, 1, 3, 2], categories=["c"])[0]]
    for column in columns:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenCategoryWarning)
            assert column.code_one(value) == code(column, [value], object)[:, 0].tolist()


def test_a_dict_with_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match=r"^a row must name columns of the model, however: 'weight'$"):
        code_dict(fitted(), {"size": 1.0, "weight": 2.0})
    with pytest.warns(UnseenCategoryWarning, match="column 'colour'"):
        code_dict(fitted(), {"colour": "violet"})


def test_arrays_of_numbers_need_no_frame():
    rng = np.random.default_rng(0)
    array = rng.normal(size=(200, 3))
    array[::5, 1] = np.nan
    frame = pd.DataFrame(array, columns=list("abc"))
    columns, _ = fit_columns(frame, array[:, :1], np.ones(200), FINE, [], None, 0)
    np.testing.assert_array_equal(code_numbers(columns, array), code_frame(columns, frame))
    np.testing.assert_array_equal(
        code_numbers(columns, array.astype(np.float32)), code_frame(columns, frame.astype(np.float32))
    )
    np.testing.assert_array_equal(code_numbers(columns, array[::-1]), code_frame(columns, frame[::-1]))
    assert code_numbers(fitted(), np.zeros((2, 6))) is None  # there are categories


def test_a_column_does_not_depend_on_its_neighbours():
    frame = table()
    columns = fitted()
    coded = code_frame(columns, frame)
    at = 0
    for i, column in enumerate(columns):
        np.testing.assert_array_equal(coded[at : at + column.n_codes], code(column, frame.iloc[:, i]))
        at += column.n_codes
    assert at == len(coded)
    assert code_frame(columns, frame.iloc[:0]).shape == (at, 0)


def test_names_of_columns_are_texts():
    numbered = pd.DataFrame({0: [1.0, 2.0], 1: ["a", "b"]})
    columns, _ = fit_columns(numbered, np.zeros((2, 1)), np.ones(2), FINE, [0], None, 0)
    assert [column.name for column in columns] == ["0", "1"]
    assert columns[0].kind == "category"


def same(a: Column, b: Column) -> bool:
    return all(
        np.array_equal(x, y) and x.dtype == y.dtype if isinstance(x, np.ndarray) else x == y
        for x, y in ((getattr(a, name), getattr(b, name)) for name in Column.__dataclass_fields__)
    )


@pytest.mark.parametrize(
    "frame", [table(), pd.DataFrame({"only": [np.nan, np.nan]}), pd.DataFrame({"a": ["x", None]}), pd.DataFrame()]
)
def test_arrays_and_json_say_it_all(frame):
    targets = np.arange(2.0 * len(frame)).reshape(len(frame), 2)
    columns, _ = fit_columns(frame, targets, np.ones(len(frame)), FINE, [], None, 0)
    arrays, plain = columns_to_arrays(columns)
    again = columns_from_arrays(arrays, json.loads(json.dumps(plain)))
    assert len(again) == len(columns)
    assert all(same(a, b) for a, b in zip(again, columns, strict=True))
    if len(frame):
        np.testing.assert_array_equal(code_frame(again, frame), code_frame(columns, frame))


def test_a_number_column_by_itself():
    column = fit_number(pd.Series([3.0, 1.0, 2.0]), "c", FINE)
    assert column.borders.tolist() == [1.5, 2.5]
    assert (column.low, column.high, column.whole, column.n_bins) == (1.0, 3.0, True, (4,))
    assert not fit_number(pd.Series([3.5, 1.0]), "c", FINE).whole
