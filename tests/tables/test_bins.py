"""How columns become bins, against plain Python readings of borders, levels and target statistics."""

from __future__ import annotations

import json
import math
import time
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harsanyinet.tables import bins as binning
from harsanyinet.tables.bins import (
    Binning,
    Column,
    code_dict,
    code_frame,
    code_numbers,
    columns_from_arrays,
    columns_of,
    columns_to_arrays,
    find_borders,
    fit_columns,
    fit_number,
    n_bins_of,
)
from harsanyinet.tables.frames import UnseenCategoryWarning

FINE = Binning()


def fit(values: object, binning: Binning = FINE, dtype: object = None, y: object = None, seed: int = 0) -> Column:
    return fit_both(values, binning, dtype, y, seed)[0]


def fit_both(
    values: object, binning: Binning = FINE, dtype: object = None, y: object = None, seed: int = 0, **options: object
) -> tuple[Column, np.ndarray]:
    """A column and the training rows' own bins."""
    values = values if isinstance(values, pd.Series) else pd.Series(values, dtype=dtype)
    y = np.arange(len(values), dtype=float) if y is None else np.asarray(y, dtype=float)
    options = {"categories": [], "dates": None, **options}
    columns, own = fit_columns(
        pd.DataFrame({"c": values}), y.reshape(len(values), -1), np.ones(len(values)), binning, seed=seed, **options
    )
    return columns[0], own


def code(column: Column, values: object, dtype: object = None) -> np.ndarray:
    values = values if isinstance(values, pd.Series) else pd.Series(values, dtype=dtype)
    out = np.full((column.n_codes, len(values)), 99, dtype=np.uint8)
    column.code(values, out)
    return out


def by_hand(column: Column, value: float) -> int:
    """One comparison at a time."""
    if math.isnan(value):
        return 1 if column.missing else 0
    return (2 if column.missing else 1) + sum(border < value for border in column.borders.tolist())


SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "whole": lambda rng, n: rng.integers(-3, 40, n).astype(float),
    "spiky": lambda rng, n: np.where(rng.random(n) < 0.8, 0.0, rng.exponential(size=n)),
    "two": lambda rng, n: rng.choice([-1.5, 2.0], n),
    "far": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-40, 39, n),
    "close": lambda rng, n: 1.0 + rng.integers(0, 300, n) * 2.0**-23,
}


# Borders


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.integers(0, 10_000), st.integers(1, 600), st.sampled_from(list(SHAPES)), st.integers(4, 255),
    st.sampled_from(["auto", "value", "absent"]), st.booleans(),
)  # fmt: skip
def test_numbers_are_binned_as_by_hand(seed, n_rows, shape, max_bins, missing, some_missing):
    rng = np.random.default_rng(seed)
    values = SHAPES[shape](rng, n_rows)
    given = np.append(values, np.nan) if some_missing else values
    column, own = fit_both(given, Binning(max_bins=max_bins, missing=missing))
    assert column.missing == (missing == "value" or (missing == "auto" and some_missing))
    assert (np.diff(column.borders) > 0).all()
    np.testing.assert_array_equal(column.borders, column.borders.astype(np.float32))  # float32 numbers
    shown = np.concatenate([values[:50], rng.normal(size=20) * 30, column.borders, [-1e300, 1e300, np.nan]])
    assert code(column, shown)[0].tolist() == [by_hand(column, v) for v in shown]
    assert own[0].tolist() == [by_hand(column, v) for v in given]
    assert own.dtype == np.uint8
    (n_bins,) = column.n_bins
    assert n_bins <= max_bins
    assert n_bins == len(column.borders) + (3 if column.missing else 2)
    assert own.max() < n_bins
    assert (column.low, column.high) == (values.min(), values.max())
    assert column.whole == all(value.is_integer() for value in values.tolist())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 60), st.sampled_from(list(SHAPES)))
def test_few_values_have_a_bin_each(seed, n_rows, shape):
    rng = np.random.default_rng(seed)
    values = np.unique(SHAPES[shape](rng, n_rows).astype(np.float32)).astype(np.float64)
    column = fit(values)
    assert code(column, values)[0].tolist() == list(range(1, len(values) + 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_ulp_beside_a_border_is_another_bin(dtype):
    rng = np.random.default_rng(0)
    for scale in (1e-30, 1e-3, 1.0, 1e6, 1e30):
        column = fit(rng.normal(size=3000) * scale)
        borders = column.borders.astype(dtype)
        assert len(borders) > 100
        at = np.arange(len(borders)) + 1
        assert code(column, borders)[0].tolist() == at.tolist()  # at the border is still below it
        assert code(column, np.nextafter(borders, dtype(np.inf)))[0].tolist() == (at + 1).tolist()
        assert code(column, np.nextafter(borders, dtype(-np.inf)))[0].tolist() == at.tolist()


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1.0, np.nextafter(np.float32(1), np.float32(2))),  # neighbours in float32
        (-np.nextafter(np.float32(1), np.float32(2)), -1.0),
        (1.0, 1 + 2**-52),  # neighbours in float64, with a float32 number at the lower end
        (0.0, 5e-324),
        (1e30, 1e300),  # the upper one is too large for float32
        (-1e300, 1e300),
        (-1e300, -1e30),
        (2.0**53, 2.0**53 + 2),
        (0.1, 0.2),
    ],
)
def test_two_numbers_that_a_float32_number_can_separate(low, high):
    assert code(fit([low, high, low]), [low, high])[0].tolist() == [1, 2]


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.1 + 2**-50), (1e299, 1e300), (-1e300, -1e299), (1e-46, 1e-45)])
def test_numbers_that_no_float32_number_separates_share_a_bin(low, high):
    column = fit([low, high])
    assert code(column, [low, high])[0].tolist() == [1, 1]
    assert column.n_bins == (2,)


def test_minus_zero_is_zero():
    column = fit([-1.0, 0.0, 1.0])
    assert code(column, [-0.0, 0.0])[0].tolist() == [2, 2]
    assert code(fit([0.0, -0.0, 1.0]), [0.0, -0.0, 1.0])[0].tolist() == [1, 1, 2]


def test_bins_hold_about_as_many_rows_each():
    values = np.random.default_rng(0).exponential(size=20_000)
    for max_bins in (12, 64, 128, 255):
        column, own = fit_both(values, Binning(max_bins=max_bins))
        counts = np.bincount(own[0])[1:]
        assert len(counts) == max_bins - 1
        assert counts.max() <= 1.6 * len(values) / (max_bins - 1)
        assert counts.min() >= 0.4 * len(values) / (max_bins - 1)
        assert column.n_bins == (max_bins,)


@pytest.mark.parametrize("max_bins", [9, 16, 33, 64, 128, 255])
@pytest.mark.parametrize("place", [-3.5, -1.0, 0.0, 0.1, 2.0, 9.0])
def test_a_frequent_number_has_a_bin_of_its_own(place, max_bins):
    """A spike is a fact of its own: zero capital gain is not a small capital gain."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=10_000), np.full(2000, place)])
    column, own = fit_both(values, Binning(max_bins=max_bins))
    at_spike = own[0] == code(column, [place])[0, 0]
    assert set(values[at_spike]) == {place}
    assert own.max() < max_bins


def test_several_frequent_numbers_have_bins_of_their_own():
    rng = np.random.default_rng(1)
    spikes = [-1.0, 0.0, 0.5, 4.0]
    values = np.concatenate([rng.normal(size=4000), *(np.full(600, spike) for spike in spikes)])
    for max_bins in (16, 30, 128):
        column, own = fit_both(values, Binning(max_bins=max_bins))
        for spike in spikes:
            assert set(values[own[0] == code(column, [spike])[0, 0]]) == {spike}
        assert own.max() < max_bins


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 400), st.integers(2, 40))
def test_borders_separate_what_they_should_and_are_never_too_many(seed, n, room):
    rng = np.random.default_rng(seed)
    different = np.unique(rng.normal(size=n).astype(np.float32)).astype(np.float64)
    counts = rng.integers(1, 4, len(different)) * np.where(rng.random(len(different)) < 0.1, 100, 1)
    borders = find_borders(different, counts, room)
    assert len(borders) < max(room, 1)
    assert ((borders >= different[0]) & (borders < different[-1])).all()
    if len(different) >= 2:
        assert len(borders) >= 1
        filled = np.unique(np.searchsorted(borders, different))
        assert len(filled) == len(borders) + 1  # no bin is empty


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
        monkeypatch.setattr(binning, "MANY_ROWS", many)
        out.append(code(column, shown)[0].tolist())
    assert out[0] == out[1] == [by_hand(column, v) for v in shown]


# Types, missing values, columns that say nothing


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


MISSING = [
    ([1.0, np.nan, 3.0], None),
    ([1, None, 3], object),
    ([1, pd.NA, 3], object),
    ([1, pd.NA, 3], "Int64"),
    ([1, None, 3], "int64[pyarrow]"),
    ([True, None, False], object),
    ([True, None, False], "boolean"),
    (["a", None, "b"], object),
    (["a", np.nan, "b"], object),
    (["a", pd.NA, "b"], "string"),
    (["a", None, "b"], "category"),
    (["a", None, "b"], "string[pyarrow]"),
]


@pytest.mark.parametrize(("values", "dtype"), MISSING)
def test_a_missing_value_is_a_value_where_fit_saw_some(values, dtype):
    auto, own = fit_both(values, dtype=dtype)
    assert auto.missing
    assert own[:, 1].tolist() == [1]
    assert code(auto, values, dtype)[:, 1].tolist() == [1]
    assert (code(auto, values, dtype)[:, [0, 2]] > 1).all()
    absent, own = fit_both(values, Binning(missing="absent"), dtype)
    assert not absent.missing
    assert own[:, 1].tolist() == [0]
    assert code(absent, values, dtype)[:, 1].tolist() == [0]
    assert (code(absent, values, dtype)[:, [0, 2]] > 0).all()
    known = [value for value in values if not pd.isna(value)]
    without = fit(known, dtype=dtype)
    assert not without.missing
    assert code(without, values, dtype)[:, 1].tolist() == [0]  # missing where fit saw none: absent
    always = fit(known, Binning(missing="value"), dtype)
    assert always.missing
    assert code(always, values, dtype)[:, 1].tolist() == [1]


@pytest.mark.parametrize("dtype", ["bool", "boolean", object, "bool[pyarrow]"])
def test_booleans_are_two_numbers(dtype):
    column = fit([True, False, True], dtype=dtype)
    assert column.boolean
    assert column.kind == "number"
    assert code(column, [True, False]).tolist() == [[2, 1]]
    assert code(column, [1, 0]).tolist() == [[2, 1]]
    assert not fit([1, 0, 1]).boolean


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([4.0, 4.0, 4.0], None),
        ([True, True, True], None),
        (["a", "a", "a"], None),
        (["a", "a", "a"], "category"),
        ([None, None, None], object),
        ([np.nan, np.nan, np.nan], None),
        ([None, None, None], "Int64"),
        ([None, None, None], "category"),
        ([None, None, None], "string"),
        ([None, None, None], "boolean"),
    ],
)
@pytest.mark.parametrize("missing", ["auto", "value", "absent"])
def test_a_column_that_says_nothing_is_one_bin(values, dtype, missing):
    column, own = fit_both(values, Binning(missing=missing), dtype)
    assert len(np.unique(own)) == 1
    np.testing.assert_array_equal(code(column, values, dtype), own)


def test_a_column_that_says_whether_it_is_there():
    column, own = fit_both([4.0, 4.0, np.nan])
    assert own.tolist() == [[2, 2, 1]]
    assert column.n_bins == (3,)
    assert fit_both(["a", None])[1].tolist() == [[2, 1]]


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


# Categories


def test_levels_are_ordered_by_frequency_and_then_by_name():
    for dtype in (object, "str", "string", "category", "string[pyarrow]"):
        column = fit(["b", "a", "c", "c", "a", "c", None, "d"], dtype=dtype)
        assert column.levels == ("c", "a", "b", "d")
        assert column.kind == "category"
        assert column.level_bins.shape == (4, 1)


def test_categories_are_coded_alike_from_every_type():
    column = fit(["b", "a", "c", "c", "a", "c"])
    expected = code(column, ["a", "b", "c"])
    for dtype in ("str", "string", "category", "string[pyarrow]"):
        np.testing.assert_array_equal(code(column, ["a", "b", "c"], dtype), expected)
    np.testing.assert_array_equal(code(column, ["a", "b", "c", None], "category")[:, :3], expected)


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float64", "category", object])
def test_numbers_that_are_names(dtype):
    """Codes that came as int in fit come as float once a value is missing; they are the same categories."""
    column, _ = fit_both([3, 1, 3, 2], dtype=dtype, categories=["c"])
    assert column.levels == ("3", "1", "2")
    same = code(column, [3, 1, 2])
    np.testing.assert_array_equal(code(column, [3.0, 1.0, 2.0, np.nan])[:, :3], same)
    np.testing.assert_array_equal(code(column, [3, 1, 2], "Int64"), same)
    np.testing.assert_array_equal(code(column, ["3", "1", "2"]), same)
    np.testing.assert_array_equal(code(column, [3.0, 1.0, 2.0], "category"), same)
    assert fit_both([0.5, 1.0], categories=["c"])[0].levels == ("0.5", "1")
    assert fit_both([True, False, True], categories=["c"])[0].levels == ("True", "False")


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


# Target statistics


def statistics_by_hand(level, y, weight, n_levels, prior, order):
    """One row after the other in the order; means in which the mean of all counts as `prior` rows."""
    known = [i for i in range(len(level)) if level[i] >= 0]
    mean = math.fsum(weight[i] * y[i] for i in known) / math.fsum(weight[i] for i in known)
    unit = prior * math.fsum(weight[i] for i in known) / len(known)
    total, mass = [[0.0] * n_levels for _ in range(2)]
    before = [mean] * len(level)
    for i in order:
        if level[i] >= 0:
            before[i] = (total[level[i]] + unit * mean) / (mass[level[i]] + unit)
            total[level[i]] += weight[i] * y[i]
            mass[level[i]] += weight[i]
    return [(t + unit * mean) / (m + unit) for t, m in zip(total, mass, strict=True)], before


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 80), st.integers(1, 12), st.floats(0.1, 20))
def test_target_statistics_as_by_hand(seed, n_rows, n_levels, prior):
    rng = np.random.default_rng(seed)
    level = rng.integers(-1, n_levels, n_rows)
    level[rng.integers(n_rows)] = 0
    y, weight = rng.normal(size=n_rows) + 5, rng.exponential(size=n_rows) + 0.01
    order = rng.permutation(n_rows)
    plain, in_order = binning._target_statistics(level, y, weight, n_levels, prior, order)
    expected = statistics_by_hand(level.tolist(), y, weight, n_levels, prior, order.tolist())
    np.testing.assert_allclose(plain, expected[0], 1e-12, 1e-12)
    np.testing.assert_allclose(in_order[level >= 0], np.array(expected[1])[level >= 0], 1e-12, 1e-12)


def test_a_row_does_not_see_its_own_target():
    """What one row gains another one loses, so that the mean of all stays: only later rows of its level notice."""
    rng = np.random.default_rng(0)
    level, order = rng.integers(0, 5, 60), rng.permutation(60)
    y = rng.normal(size=60)
    _, before = binning._target_statistics(level, y, np.ones(60), 5, 1.0, order)
    place = np.argsort(order)
    for row in range(60):
        other = int(rng.choice(np.flatnonzero(level != level[row])))
        changed = y.copy()
        changed[row] += 100.0
        changed[other] -= 100.0
        _, after = binning._target_statistics(level, changed, np.ones(60), 5, 1.0, order)
        moved = np.abs(after - before) > 1e-9
        assert not moved[row]
        assert not moved[other]
        later = [(level == level[i]) & (place > place[i]) for i in (row, other)]
        np.testing.assert_array_equal(moved, later[0] | later[1])


def test_many_levels_are_coded_in_order_and_few_by_plain_averages():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(3000, 1))
    frame = pd.DataFrame({"few": rng.integers(0, 4, 3000).astype(str), "many": rng.integers(0, 400, 3000).astype(str)})
    columns, own = fit_columns(frame, y, np.ones(3000), FINE, [], None, 0)
    coded = code_frame(columns, frame)
    np.testing.assert_array_equal(own[0], coded[0])
    assert (own[1] != coded[1]).mean() > 0.5
    # noise for a target: a plain average of 7 rows would know their targets, the rows before it do not
    y = y[:, 0]
    assert abs(np.corrcoef(own[1], y)[0, 1]) < 0.08
    assert np.corrcoef(coded[1], y)[0, 1] > 0.3


def test_the_same_seed_gives_the_same_codes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"many": rng.integers(0, 300, 1000).astype(str)})
    y = rng.normal(size=(1000, 1))
    first, second, other = (fit_columns(frame, y, np.ones(1000), FINE, [], None, seed)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_levels_stand_in_the_order_of_their_means():
    y = np.concatenate([np.zeros(100), np.ones(100), np.full(100, -2.0), np.full(100, 5.0)])
    column, own = fit_both(np.repeat(["a", "b", "c", "d"], 100), y=y)
    assert code(column, ["c", "a", "b", "d"])[0].tolist() == [1, 2, 3, 4]
    assert own.max() < column.n_bins[0]


def test_weights_count_in_target_statistics():
    """Two levels, each with two targets; the weights decide which level is the higher one."""
    frame = pd.DataFrame({"c": ["a", "b"] * 200})
    y = np.repeat([0.0, 1.0], 200)[:, None]
    for heavy in ("a", "b"):
        weight = np.where((frame["c"] == heavy) & (y[:, 0] == 1), 9.0, 1.0)
        (column,), _ = fit_columns(frame, y, weight, FINE, [], None, 0)
        low, high = code(column, ["b", "a"] if heavy == "a" else ["a", "b"])[0]
        assert low < high


def test_several_targets_code_a_category_several_times():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"n": rng.normal(size=300), "c": rng.integers(0, 3, 300).astype(str), "m": rng.normal(size=300)}
    )
    effects = np.array([[0.0, 9.0], [1.0, 5.0], [2.0, 1.0]])
    targets = effects[frame["c"].astype(int)] + 0.01 * rng.normal(size=(300, 2))
    columns, own = fit_columns(frame, targets, np.ones(300), FINE, [], None, 0)
    assert [column.n_codes for column in columns] == [1, 2, 1]
    assert columns_of(columns).tolist() == [0, 1, 1, 2]
    assert n_bins_of(columns).tolist() == [n for column in columns for n in column.n_bins]
    assert own.shape == (4, 300)
    assert code(columns[1], ["0", "1", "2"]).tolist() == [[1, 2, 3], [3, 2, 1]]
    assert code(columns[1], [None]).tolist() == [[0], [0]]  # absent together
    with pytest.warns(UnseenCategoryWarning):
        assert code(columns[1], ["Z"]).tolist() == [[0], [0]]


def test_many_classes_are_coded_by_few_numbers():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 30, 2000)
    classes = np.eye(10)[level // 3]
    column, own = fit_both(level.astype(str), y=classes)
    assert 1 <= column.n_codes <= 5
    assert own.shape == (column.n_codes, 2000)
    found = code(column, [str(i) for i in range(30)])
    # classes 0 to 9 of three levels each can be told apart by the codes together
    for a in range(30):
        for b in range(a):
            assert (found[:, a] != found[:, b]).any() or a // 3 == b // 3


def test_rare_levels_lean_towards_the_mean():
    """A level of one row is not believed: it stands between the mean of all and its own target."""
    y = np.concatenate([np.zeros(500), np.ones(500), [100.0]])
    plain, _ = binning._target_statistics(
        np.concatenate([np.zeros(500), np.ones(500), [2]]).astype(int), y, np.ones(1001), 3, 1.0, np.arange(1001)
    )
    assert y.mean() < plain[2] < 52
    assert plain[0] == pytest.approx(0, abs=0.01)


def test_ten_thousand_levels_and_half_a_million_texts_in_little_time():
    rng = np.random.default_rng(0)
    names = np.array([f"level {i}" for i in range(10_000)], dtype=object)
    texts = pd.Series(names[rng.integers(0, 10_000, 500_000)], dtype=object)
    texts[::7] = None
    started = time.process_time()
    column, own = fit_both(texts, y=rng.normal(size=500_000))
    found = code(column, texts)
    # about two seconds; a loop over the values in Python takes several times as long
    assert time.process_time() - started < 12
    assert len(column.levels) == 10_000
    np.testing.assert_array_equal(found[0] == 1, texts.isna())
    np.testing.assert_array_equal(own[0] == 1, texts.isna())
    known = dict(zip(column.levels, column.level_bins[:, 0].tolist(), strict=True))
    assert [found[0, row] for row in range(1, 500) if row % 7] == [
        known[texts[row]] for row in range(1, 500) if row % 7
    ]


# One row


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


# Tables


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
