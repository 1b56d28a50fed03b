"""Trees as data: shapes, states and outputs counted by hand, and against plain loops."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_oracle import Case, players_of_tree, random_bins, random_case, state_by_hand

from harsanyinet.tables.trees import Trees, TreeShape

relaxed = settings(max_examples=60, deadline=None, derandomize=True)
cases = st.builds(
    random_case, st.integers(0, 2**32 - 1), n_players=st.integers(1, 5), n_outputs=st.integers(1, 3)
)  # fmt: skip


def bins(*columns: list[int]) -> np.ndarray:
    return np.array(columns, dtype=np.uint8)


# By hand


def two_trees() -> Trees:
    """One asks column 0 twice and column 1 once; the other only column 1."""
    player_of = np.array([0, 1])
    shapes = [TreeShape.of([(1, 2), (0, 4), (0, 1)], player_of), TreeShape.of([(1, 1)], player_of)]
    values = [np.arange(12.0)[:, None], np.array([[0.0], [100.0], [200.0]])]
    return Trees.of(player_of, np.array([1000.0]), shapes, values)


def test_the_shape_of_a_tree():
    shape = two_trees().shapes[0]
    assert shape.players.tolist() == [0, 1]  # three digits come before two
    assert shape.sizes.tolist() == [4, 3]
    assert shape.axes.tolist() == [0, 0, 1]
    assert shape.columns.tolist() == [0, 0, 1]
    assert shape.thresholds.tolist() == [1, 4, 2]
    assert shape.units.tolist() == [1, 1, 1]
    assert shape.n_states == 12
    assert shape.strides.tolist() == [3, 1]
    assert shape.has_absent.tolist() == [True] * 3 + [True, False, False] * 3


def test_states_of_two_small_trees():
    trees = two_trees()
    #            absent, both absent, low, middle, high, other absent
    rows = bins([0, 0, 1, 4, 5, 5], [3, 0, 2, 3, 3, 0])
    # digits: 0 absent, 1 low, 2 middle, 3 high; then 0 absent, 1 at most 2, 2 above
    assert trees.states(rows, 0).tolist() == [0 * 3 + 2, 0, 1 * 3 + 1, 2 * 3 + 2, 3 * 3 + 2, 3 * 3 + 0]
    assert trees.states(rows, 1).tolist() == [2, 0, 2, 2, 2, 0]
    assert trees.outputs(rows)[:, 0].tolist() == [1202, 1000, 1204, 1208, 1211, 1009]


def test_outputs_of_masked_rows():
    trees = two_trees()
    rows = bins([5, 1], [3, 1])
    assert trees.outputs(rows)[:, 0].tolist() == [1211, 1104]
    assert trees.outputs(rows, np.array([True, False]))[:, 0].tolist() == [1009, 1003]
    assert trees.outputs(rows, np.array([[False, True], [True, True]]))[:, 0].tolist() == [1202, 1104]
    assert trees.outputs(rows, np.array([False, False]))[:, 0].tolist() == [1000, 1000]
    before = rows.copy()
    masked = trees.masked(rows, np.array([[True, False], [False, True]]))
    assert masked.tolist() == [[5, 0], [0, 1]]
    assert masked.dtype == np.uint8
    assert trees.masked(rows, None) is rows
    np.testing.assert_array_equal(rows, before)


def test_a_player_of_two_columns_is_one_axis():
    """Columns 0 and 2 are player 1: two digits times two, and absent together."""
    player_of = np.array([1, 0, 1])
    shape = TreeShape.of([(2, 3), (0, 1), (1, 2)], player_of)
    assert shape.players.tolist() == [1, 0]
    assert shape.sizes.tolist() == [5, 3]
    assert shape.columns.tolist() == [0, 2, 1]
    assert shape.units.tolist() == [1, 2, 1]
    trees = Trees.of(player_of, np.zeros(1), [shape], [np.arange(15.0)[:, None]])
    assert trees.n_players == 2
    rows = bins([1, 2, 1, 2, 0], [1, 1, 3, 3, 3], [3, 3, 4, 4, 0])
    assert trees.states(rows, 0).tolist() == [1 * 3 + 1, 2 * 3 + 1, 3 * 3 + 2, 4 * 3 + 2, 0 * 3 + 2]
    masked = trees.masked(rows, np.array([True, False]))
    assert masked.tolist() == [[0] * 5, [1, 1, 3, 3, 3], [0] * 5]


def test_questions_asked_twice_count_once():
    player_of = np.array([0, 1])
    once, twice = TreeShape.of([(0, 2), (1, 3)], player_of), TreeShape.of([(1, 3), (0, 2), (1, 3)], player_of)
    assert once.sizes.tolist() == twice.sizes.tolist() == [3, 3]
    assert once.thresholds.tolist() == twice.thresholds.tolist()


def test_the_widest_tree_still_fits_into_two_bytes():
    """Eight players: 3^8 states; the steps that lead there are uint16."""
    player_of = np.arange(8)
    shape = TreeShape.of([(i, 1) for i in range(8)], player_of)
    assert shape.n_states == 3**8
    columns, thresholds, steps = shape.steps
    assert steps.sum() == 3**8 - 1
    assert (thresholds.dtype, steps.dtype) == (np.uint8, np.uint16)
    assert len(columns) == 16


# Against plain loops


@relaxed
@given(cases)
def test_states_and_outputs_equal_plain_loops(case: Case):
    trees = case.trees
    assert len(trees) == len(case.questions)
    assert trees.n_outputs == len(case.base)
    for t, questions in enumerate(case.questions):
        expected = [state_by_hand(questions, case.player_of, row) for row in case.rows.T]
        assert trees.states(case.rows, t).tolist() == expected
        assert trees.shapes[t].players.tolist() == players_of_tree(questions, case.player_of)
        assert trees.shapes[t].n_states == len(case.values[t])
    # the sums are taken in the same order: equal to the bit
    np.testing.assert_array_equal(trees.outputs(case.rows), [case.output(row) for row in case.rows.T])


@relaxed
@given(cases)
def test_steps_lead_to_the_state(case: Case):
    """What kernels and look-ups walk along: questions "bin > threshold", the first of which ask who is present."""
    for t in range(len(case.questions)):
        columns, thresholds, steps = case.trees.shapes[t].steps
        walked = sum((case.rows[c] > h) * int(step) for c, h, step in zip(columns, thresholds, steps, strict=True))
        assert walked.tolist() == case.trees.states(case.rows, t).tolist()


@relaxed
@given(cases)
def test_every_state_is_reached_and_says_who_is_absent(case: Case):
    """No state is kept for a combination of answers that cannot be."""
    for t, questions in enumerate(case.questions):
        shape = case.trees.shapes[t]
        player_columns = [np.flatnonzero(np.array(case.player_of) == p) for p in range(case.n_players)]
        reached, absent = set(), {}
        each = [
            [dict.fromkeys(player_columns[p].tolist(), 0)]
            + [dict(zip(player_columns[p].tolist(), row, strict=True))
               for row in itertools.product(range(1, 6), repeat=len(player_columns[p]))]
            for p in shape.players.tolist()
        ]  # fmt: skip
        if np.prod([len(e) for e in each]) > 20_000:
            continue
        for combination in itertools.product(*each):
            row = np.ones(len(case.player_of), dtype=np.uint8)
            for columns in combination:
                for column, value in columns.items():
                    row[column] = value
            state = state_by_hand(questions, case.player_of, row)
            reached.add(state)
            absent[state] = any(not any(columns.values()) for columns in combination)
        assert reached == set(range(shape.n_states))
        assert [absent[s] for s in range(shape.n_states)] == shape.has_absent.tolist()


# Parts, sums, groups


@relaxed
@given(cases, st.integers(0, 100))
def test_parts_means_and_multiples(case: Case, seed: int):
    trees = case.trees
    rng = np.random.default_rng(seed)
    cut = int(rng.integers(0, len(trees) + 1))
    first, second = trees.part(0, cut), trees.part(cut, len(trees))
    whole = trees.outputs(case.rows)
    scale = case.scale()
    a, b = first.outputs(case.rows), second.outputs(case.rows)
    np.testing.assert_allclose(a + b - case.base, whole, 0, 1e-13 * scale)
    mean = Trees.mean_of([first, second])
    assert len(mean) == len(trees)
    np.testing.assert_allclose(mean.outputs(case.rows), (a + b) / 2, 0, 1e-13 * scale)
    assert Trees.mean_of([trees]) is trees
    factor, shift = rng.normal(size=(2, trees.n_outputs))
    np.testing.assert_allclose(
        trees.rescaled(factor, shift).outputs(case.rows), whole * factor + shift, 0, 1e-13 * scale * 10
    )
    np.testing.assert_array_equal(trees.rescaled(factor, shift).counts, trees.counts)


@relaxed
@given(cases)
def test_groups_hold_every_tree_once_by_its_sizes(case: Case):
    trees = case.trees
    seen = []
    for sizes, members in trees.groups():
        assert all(tuple(trees.shapes[t].sizes.tolist()) == sizes for t in members)
        seen += members.tolist()
    assert sorted(seen) == list(range(len(trees)))
    assert len({sizes for sizes, _ in trees.groups()}) == len(list(trees.groups()))


@relaxed
@given(cases)
def test_coalitions_are_all_sets_of_players_of_one_tree(case: Case):
    expected = {
        members
        for questions in case.questions
        for n in range(1, 7)
        for members in itertools.combinations(sorted({case.player_of[c] for c, _ in questions}), n)
    }
    coalitions = case.trees.coalitions
    assert coalitions.shape == (len(expected), case.n_players)
    found = [tuple(np.flatnonzero(row).tolist()) for row in coalitions]
    assert set(found) == expected
    assert found == sorted(found, key=lambda members: (len(members), members))


def test_no_trees_at_all():
    trees = Trees.of(np.array([0, 1]), np.array([2.0, 3.0]), [], [])
    assert len(trees) == 0
    assert trees.n_players == 2
    assert trees.coalitions.shape == (0, 2)
    assert trees.outputs(bins([1], [0])).tolist() == [[2.0, 3.0]]
    assert list(trees.groups()) == []
    again = Trees.from_arrays(trees.to_arrays())
    assert again.outputs(bins([1], [0])).tolist() == [[2.0, 3.0]]


# Arrays


@relaxed
@given(cases)
def test_arrays_there_and_back(case: Case):
    trees = case.trees
    arrays = trees.to_arrays()
    assert all(array.dtype.kind in "iuf" for array in arrays.values())
    again = Trees.from_arrays(arrays)
    for name, array in vars(trees).items():
        if isinstance(array, np.ndarray) and name in arrays:
            np.testing.assert_array_equal(getattr(again, name), array)
            assert getattr(again, name).dtype == array.dtype
    np.testing.assert_array_equal(again.outputs(case.rows), trees.outputs(case.rows))


def changed(arrays: dict[str, np.ndarray], name: str, change: str) -> dict[str, np.ndarray]:
    array = arrays[name]
    if change == "shorter":
        array = array[:-1]
    elif change == "longer":
        array = np.concatenate([array, array[-1:]])
    else:
        array = array.astype(np.int64)
        array[int(np.argmax(array))] = {"large": 50, "negative": -1}[change]
    return arrays | {name: array}


def fitting(seed: int = 0) -> dict[str, np.ndarray]:
    case = random_case(seed, 4, 2, n_trees=5)
    return case.trees.to_arrays()


@pytest.mark.parametrize("change", ["shorter", "longer"])
@pytest.mark.parametrize("name", [name for name in fitting() if name != "player_of"])
def test_arrays_of_another_length_are_refused(name, change):
    with pytest.raises(ValueError, match="the trees of this file do not fit together"):
        Trees.from_arrays(changed(fitting(), name, change))


# What the loops over rows take on trust: with such numbers they would read beside their arrays.
NUMBERS = ["columns", "question_ends"]


@pytest.mark.parametrize("change", ["large", "negative"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_lead_out_of_the_tables_are_refused(name, change):
    with pytest.raises(ValueError, match="the trees of this file do not fit together"):
        Trees.from_arrays(changed(fitting(), name, change))


def test_an_array_that_is_not_there_is_refused():
    arrays = fitting()
    arrays.pop("counts")
    with pytest.raises(KeyError):
        Trees.from_arrays(arrays)


def test_counts_belong_to_states():
    case = random_case(3, 4, 1, n_trees=4)
    trees = case.trees
    for counts in np.split(trees.counts, trees.state_ends[:-1]):
        assert counts.sum() == case.background.shape[1]
    other = replace(trees, counts=np.zeros(len(trees.counts), dtype=np.int64))
    assert other.counts.sum() == 0
    assert other.counts.dtype == np.int64
    assert trees.counts.sum() > 0


def test_random_bins_are_absent_by_player():
    """Of the helper: a player's columns go together."""
    found = random_bins(np.random.default_rng(0), [0, 1, 0], 200, 0.5)
    np.testing.assert_array_equal(found[0] == 0, found[2] == 0)
    assert not np.array_equal(found[0] == 0, found[1] == 0)
