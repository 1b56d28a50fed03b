"""How bins are learned, against plain Python readings of borders, levels and target statistics."""

from __future__ import annotations

import math
import time

import numpy as np
import pandas as pd
import pytest
from binned_columns import FINE, SHAPES, by_hand, code, fit, fit_both
from hypothesis import given, settings
from hypothesis import strategies as st

from harsanyinet.tables.bins import Binning, find_borders, fit_columns, target_statistics
from harsanyinet.tables.columns import (
    code_frame,
    columns_of,
    n_bins_of,
)
from harsanyinet.tables.frames import UnseenCategoryWarning


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


def test_levels_are_ordered_by_frequency_and_then_by_name():
    for dtype in (object, "str", "string", "category", "string[pyarrow]"):
        if dtype == "string[pyarrow]":
            pytest.importorskip("pyarrow")
        column = fit(["b", "a", "c", "c", "a", "c", None, "d"], dtype=dtype)
        assert column.levels == ("c", "a", "b", "d")
        assert column.kind == "category"
        assert column.level_bins.shape == (4, 1)


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
    plain, in_order = target_statistics(level, y, weight, n_levels, prior, order)
    expected = statistics_by_hand(level.tolist(), y, weight, n_levels, prior, order.tolist())
    np.testing.assert_allclose(plain, expected[0], 1e-12, 1e-12)
    np.testing.assert_allclose(in_order[level >= 0], np.array(expected[1])[level >= 0], 1e-12, 1e-12)


def test_a_row_does_not_see_its_own_target():
    """What one row gains another one loses, so that the mean of all stays: only later rows of its level notice."""
    rng = np.random.default_rng(0)
    level, order = rng.integers(0, 5, 60), rng.permutation(60)
    y = rng.normal(size=60)
    _, before = target_statistics(level, y, np.ones(60), 5, 1.0, order)
    place = np.argsort(order)
    for row in range(60):
        other = int(rng.choice(np.flatnonzero(level != level[row])))
        changed = y.copy()
        changed[row] += 100.0
        changed[other] -= 100.0
        _, after = target_statistics(level, changed, np.ones(60), 5, 1.0, order)
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
    plain, _ = target_statistics(
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
