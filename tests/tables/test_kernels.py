"""Compiled loops over rows against slow ones in Python."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_oracle import random_bins, random_case

from harsanyinet.tables import kernels
from harsanyinet.tables.look_ups import Paths

relaxed = settings(max_examples=40, deadline=None, derandomize=True)


# Scores of splits


def scores_by_hand(bins, columns, rows, leaf, stats, n_leaves, n_bins, l2, monotone):
    """For each column and threshold the sum over leaves and parts (absent, low, high) of G^2 / (H + l2)."""
    found = np.zeros((len(columns), max(n_bins)))
    for at, column in enumerate(columns):
        for threshold in range(1, n_bins[column] - 1):
            for u in range(n_leaves):
                parts = {"absent": np.zeros(stats.shape[1]), "low": np.zeros(stats.shape[1])}
                parts["high"] = np.zeros(stats.shape[1])
                for i, row in enumerate(rows):
                    if leaf[i] == u:
                        b = bins[column, row]
                        parts["absent" if b == 0 else "high" if b > threshold else "low"] += stats[i]
                low, high = parts["low"], parts["high"]
                if monotone[column] and stats.shape[1] == 2:
                    # values are -G / (H + l2); against the constraint the two parts stay one
                    step = -high[1] / (high[0] + l2) + low[1] / (low[0] + l2)
                    if monotone[column] * step < 0:
                        parts = {"absent": parts["absent"], "both": low + high}
                found[at, threshold] += sum((part[1:] ** 2).sum() / (part[0] + l2) for part in parts.values())
    return found


@relaxed
@given(st.integers(0, 10_000), st.integers(1, 3), st.booleans(), st.booleans())
def test_scores_of_splits_equal_a_loop(seed, n_gradients, some_absent, constrained):
    rng = np.random.default_rng(seed)
    d, n, n_leaves = 3, int(rng.integers(1, 60)), int(rng.integers(1, 5))
    n_bins = rng.integers(3, 7, d)
    bins = np.stack([rng.integers(0 if some_absent else 1, m, n) for m in n_bins]).astype(np.uint8)
    rows = np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False))
    leaf = rng.integers(0, n_leaves, len(rows)).astype(np.uint16)
    stats = np.concatenate([rng.exponential(size=(len(rows), 1)), rng.normal(size=(len(rows), n_gradients))], axis=1)
    monotone = rng.integers(-1, 2, d) if constrained else np.zeros(d, dtype=np.int64)
    columns, l2 = rng.permutation(d)[: rng.integers(1, d + 1)], float(rng.choice([0.1, 3.0]))
    scores = np.full((len(columns), n_bins.max()), np.nan)
    named = {
        "bins": bins, "columns": columns, "first": 0, "last": len(columns), "rows": rows, "leaf": leaf, "stats": stats,
        "n_leaves": n_leaves, "n_bins": n_bins, "l2": l2, "monotone": monotone, "scores": scores,
    }  # fmt: skip
    order = inspect.signature(kernels.split_scores.py_func).parameters
    kernels.split_scores(*(named.get(name, 0.0) for name in order))
    expected = scores_by_hand(bins, columns, rows, leaf, stats, n_leaves, n_bins.tolist(), l2, monotone)
    for at, column in enumerate(columns):
        inside = slice(1, n_bins[column] - 1)
        np.testing.assert_allclose(scores[at, inside], expected[at, inside], 1e-9, 1e-9)


def test_scores_of_some_columns_leave_the_others_alone():
    rng = np.random.default_rng(0)
    bins = rng.integers(1, 6, (4, 50)).astype(np.uint8)
    stats = np.concatenate([np.ones((50, 1)), rng.normal(size=(50, 1))], axis=1)
    scores = np.full((4, 6), 7.0)
    named = {
        "bins": bins, "columns": np.arange(4), "first": 1, "last": 3, "rows": np.arange(50),
        "leaf": np.zeros(50, dtype=np.uint16), "stats": stats, "n_leaves": 1, "n_bins": np.full(4, 6), "l2": 1.0,
        "monotone": np.zeros(4, dtype=np.int64), "scores": scores,
    }  # fmt: skip
    order = inspect.signature(kernels.split_scores.py_func).parameters
    kernels.split_scores(*(named.get(name, 0.0) for name in order))
    assert (scores[[0, 3]] == 7).all()
    assert (scores[1:3, 1:5] > 0).all()


# Leaves


@relaxed
@given(st.integers(0, 10_000), st.booleans())
def test_rows_descend_to_leaves_of_their_own(seed, some_absent):
    """Rows share a leaf afterwards if they shared one before and give the same answer, absent among them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 50))
    own = rng.integers(0 if some_absent else 1, 6, n).astype(np.uint8)
    rows = np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False))
    _, before = np.unique(rng.integers(0, 4, len(rows)), return_inverse=True)
    threshold = int(rng.integers(1, 5))
    leaf = before.astype(np.uint16)
    n_leaves = kernels.descend(own, threshold, rows, leaf)
    answers = [0 if own[r] == 0 else 2 if own[r] > threshold else 1 for r in rows]
    groups = list(zip(before.tolist(), answers, strict=True))
    assert n_leaves == len(set(groups))
    assert set(leaf.tolist()) == set(range(n_leaves))
    assert len({(group, number) for group, number in zip(groups, leaf.tolist(), strict=True)}) == n_leaves


# States


@relaxed
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_states_and_counts_equal_those_of_the_trees(seed, n_players):
    case = random_case(seed, n_players, 2, n_trees=4)
    trees = case.trees
    rows = random_bins(np.random.default_rng(seed), case.player_of, 700, 0.2)  # more than a block
    shapes = trees.shapes
    for t, shape in enumerate(shapes):
        state = np.full(700, 9999, dtype=np.uint16)
        kernels.tree_states(rows, 100, 650, *shape.steps, state)
        expected = trees.states(rows, t)
        assert state[100:650].tolist() == expected[100:650].tolist()
        assert (state[:100] == 9999).all()
        assert (state[650:] == 9999).all()
    paths = Paths.of(shapes)
    counts = np.zeros(len(trees.counts), dtype=np.int64)
    starts = trees.state_ends - paths.n_states
    for start, stop in ((0, 650), (650, 700)):  # adds to what is there
        kernels.count_states(
            rows, start, stop, paths.ends, paths.columns, paths.thresholds, paths.steps, starts, counts
        )
    expected = [np.bincount(trees.states(rows, t), minlength=shape.n_states) for t, shape in enumerate(shapes)]
    assert counts.tolist() == np.concatenate(expected).tolist()


def test_sums_by_state_equal_a_loop():
    rng = np.random.default_rng(0)
    state, weight = rng.integers(0, 7, 90).astype(np.uint16), rng.exponential(size=90)
    gradient, curvature = rng.normal(size=(2, 90, 3))
    out = np.zeros((7, 7))
    kernels.sums_by_state(state, weight, gradient, curvature, out)
    expected = np.zeros((7, 7))
    for row in range(90):
        expected[state[row]] += [weight[row], *gradient[row], *curvature[row]]
    np.testing.assert_allclose(out, expected, 0, 1e-12)


def test_values_are_added_to_outputs():
    rng = np.random.default_rng(0)
    state, values, before = rng.integers(0, 7, 90).astype(np.uint16), rng.normal(size=(7, 2)), rng.normal(size=(90, 2))
    output = before.copy()
    kernels.add_values(state, values, output)
    np.testing.assert_array_equal(output, before + values[state])


@pytest.mark.parametrize("sizes", [(3,), (3, 4), (5, 3, 3), (3, 3, 3, 3)])
def test_absent_states_get_the_sums_over_all_that_is_not_known(sizes):
    rng = np.random.default_rng(0)
    digits = np.indices(sizes).reshape(len(sizes), -1)
    present = (digits > 0).all(axis=0)
    total = np.where(present[:, None], rng.normal(size=(len(present), 2)), 0.0)
    weight = np.where(present, rng.exponential(size=len(present)), 0.0)
    expected_total, expected_weight = total.copy(), weight.copy()
    for s in np.flatnonzero(~present):
        matches = present.copy()
        for axis in range(len(sizes)):
            if digits[axis, s]:
                matches &= digits[axis] == digits[axis, s]
        expected_total[s] = total[matches].sum(axis=0)
        expected_weight[s] = weight[matches].sum()
    kernels.average_absent(total, weight, np.array(sizes))
    np.testing.assert_allclose(total, expected_total, 0, 1e-12)
    np.testing.assert_allclose(weight, expected_weight, 0, 1e-12)


# Bins


@relaxed
@given(st.integers(0, 10_000), st.integers(0, 40))
def test_bins_equal_a_count_of_borders(seed, n_borders):
    rng = np.random.default_rng(seed)
    borders = np.unique(rng.normal(size=n_borders).round(1))
    values = np.concatenate([rng.normal(size=30).round(1), borders, [np.nan, 1e300, -1e300]])
    out = np.full(len(values) + 2, 250, dtype=np.uint8)
    kernels.find_bins(values, borders, 2, 1, out)
    expected = [1 if np.isnan(x) else 2 + sum(border < x for border in borders) for x in values]
    assert out[:-2].tolist() == expected
    assert out[-2:].tolist() == [250, 250]


# Compiling


def test_kernels_release_the_interpreter_and_keep_no_thread_pool_of_their_own():
    for name, kernel in vars(kernels).items():
        if hasattr(kernel, "targetoptions"):
            assert kernel.targetoptions.get("nogil"), name
            assert not kernel.targetoptions.get("parallel"), name
            assert not kernel.targetoptions.get("fastmath"), name
