"""Games by definition: the fast transforms against loops over sets, and against games with known answers."""

from __future__ import annotations

from itertools import combinations, permutations
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harsanyinet.games import (
    all_masks,
    brute_force_shapley,
    evaluate,
    harsanyi_dividends,
    moebius_transform,
    shapley_of_table,
    sub_game,
    zeta_transform,
)

exact = settings(max_examples=60, deadline=None, derandomize=True)


def tensor(array):
    return pytest.importorskip("torch").from_numpy(array)


def subsets(members):
    return [frozenset(c) for size in range(len(members) + 1) for c in combinations(sorted(members), size)]


def code(members):
    return sum(1 << i for i in members)


def lookup(table):
    """The game that reads its values from a table, by the members of each mask alone."""

    def game(masks):
        assert masks.dtype == bool
        return np.array([table[code(np.flatnonzero(mask))] for mask in masks])

    return game


def unanimity(members, k=None):
    """1 when all members are present, else 0; as (m,) or as (m, k) times 1, 2, ..."""

    def game(masks):
        wins = masks[:, sorted(members)].all(axis=1).astype(float)
        return wins if k is None else wins[:, None] * np.arange(1, k + 1)

    return game


def slow_shapley(table, n):
    """Definition 1, term by term."""
    values = []
    for i in range(n):
        terms = [
            factorial(len(s)) * factorial(n - len(s) - 1) / factorial(n) * (table[code(s | {i})] - table[code(s)])
            for s in subsets(set(range(n)) - {i})
        ]
        values.append(sum(terms))
    return np.array(values)


def slow_dividends(table, n):
    """Definition 2, smaller sets first."""
    found = {frozenset(): np.zeros_like(table[0])}
    for s in subsets(range(n))[1:]:
        found[s] = table[code(s)] - table[0] - sum(found[t] for t in subsets(s) if t != s)
    return np.array([found[frozenset(i for i in range(n) if row >> i & 1)] for row in range(2**n)])


@st.composite
def tables(draw, max_players=7):
    """A random table of 2^n values: one output without an axis, or one to three with it."""
    n = draw(st.integers(1, max_players))
    outputs = draw(st.sampled_from([(), (1,), (2,), (3,)]))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return n, rng.normal(size=(2**n, *outputs))


class TestMasks:
    @pytest.mark.parametrize("n", range(1, 7))
    def test_bit_i_of_row_k_says_whether_player_i_is_there(self, n):
        masks = all_masks(n)
        assert masks.dtype == bool
        assert masks.tolist() == [[bool(row >> i & 1) for i in range(n)] for row in range(2**n)]

    @pytest.mark.parametrize("n", [-1, 0, 21, 100])
    def test_only_what_can_be_enumerated(self, n):
        for function in (all_masks, lambda n: evaluate(len, n), lambda n: brute_force_shapley(len, n)):
            with pytest.raises(ValueError, match=rf"1 to 20 players, however: n={n};"):
                function(n)


class TestEvaluate:
    @exact
    @given(tables(), st.integers(1, 200))
    def test_row_k_is_coalition_k_whatever_the_batch(self, case, batch_size):
        n, table = case
        asked = []

        def game(masks):
            asked.append(len(masks))
            return lookup(table)(masks)

        found = evaluate(game, n, batch_size=batch_size)
        assert found.shape == table.shape
        assert np.array_equal(found, table)
        assert sum(asked) == 2**n
        assert max(asked) <= batch_size

    @exact
    @given(tables(5), st.integers(1, 31))
    def test_a_small_batch_changes_no_answer(self, case, batch_size):
        n, table = case
        game = lookup(table)
        for function in (brute_force_shapley, harsanyi_dividends):
            assert np.array_equal(function(game, n, batch_size=batch_size), function(game, n))

    @pytest.mark.parametrize(
        "convert",
        [
            np.asarray,
            lambda a: a.tolist(),
            lambda a: a.astype(np.float32),
            lambda a: a.astype(int),
            lambda a: np.asfortranarray(a),
            tensor,
            lambda a: tensor(a).float(),
            lambda a: tensor(a).bfloat16(),
            lambda a: tensor(a).long(),
            lambda a: tensor(a).requires_grad_(),
            lambda a: tensor(a).float().requires_grad_() * 1.0,  # not a leaf
        ],
        ids=["array", "list", "float32", "int", "fortran", "torch", "torch32", "bfloat16", "long", "leaf", "graph"],
    )
    @pytest.mark.parametrize("outputs", [(), (1,), (3,)])
    def test_what_a_game_may_return(self, convert, outputs):
        table = np.random.default_rng(0).integers(-9, 9, size=(8, *outputs)).astype(float)  # exact in every type
        found = evaluate(lambda m: convert(table[m @ [1, 2, 4]]), 3)
        assert isinstance(found, np.ndarray)
        assert found.dtype == np.float64
        assert found.shape == table.shape
        assert np.array_equal(found, table)
        assert brute_force_shapley(lambda m: convert(table[m @ [1, 2, 4]]), 3).shape == (3, *outputs)
        assert harsanyi_dividends(lambda m: convert(table[m @ [1, 2, 4]]), 3).shape == (8, *outputs)

    def test_a_game_may_write_on_its_masks(self):
        def game(masks):
            total = masks.sum(axis=1)
            masks[:] = True
            return total

        assert brute_force_shapley(game, 4, batch_size=5).tolist() == [1.0] * 4

    @pytest.mark.parametrize(
        ("answer", "shape"),
        [
            (lambda m: 1.0, r"\(\)"),
            (lambda m: np.zeros(len(m) - 1), r"\(7,\)"),
            (lambda m: np.zeros((1, len(m))), r"\(1, 8\)"),
            (lambda m: np.zeros((len(m), 2, 1)), r"\(8, 2, 1\)"),
            (lambda m: tensor(np.zeros((2, len(m)))), r"\(2, 8\)"),
        ],
    )
    def test_an_answer_of_the_wrong_shape(self, answer, shape):
        with pytest.raises(ValueError, match=rf"a game returns \(8,\) or \(8, K\) for 8 masks, however: {shape}"):
            evaluate(answer, 3)

    @pytest.mark.parametrize("batch_size", [0, -3])
    def test_a_batch_holds_at_least_one_mask(self, batch_size):
        for function in (evaluate, brute_force_shapley, harsanyi_dividends):
            with pytest.raises(ValueError, match=f"batch_size must be at least 1, however: batch_size={batch_size}"):
                function(len, 3, batch_size=batch_size)

    @pytest.mark.parametrize("progress", [True, False])
    def test_a_short_evaluation_prints_nothing(self, capfd, progress):
        evaluate(lambda m: m.sum(1), 5, batch_size=1, progress=progress)
        assert capfd.readouterr() == ("", "")


class TestShapley:
    @exact
    @given(tables())
    def test_equals_the_definition(self, case):
        n, table = case
        expected = slow_shapley(table, n)
        np.testing.assert_allclose(brute_force_shapley(lookup(table), n), expected, 0, 1e-13)
        np.testing.assert_allclose(shapley_of_table(table), expected, 0, 1e-13)
        assert expected.shape == (n, *table.shape[1:])

    @pytest.mark.parametrize("n", range(1, 6))
    def test_is_the_mean_over_all_orders_of_arrival(self, n):
        table = np.random.default_rng(n).normal(size=2**n)
        gains = np.zeros(n)
        for order in permutations(range(n)):
            for place, i in enumerate(order):
                gains[i] += table[code(order[: place + 1])] - table[code(order[:place])]
        np.testing.assert_allclose(brute_force_shapley(lookup(table), n), gains / factorial(n), 0, 1e-13)

    @pytest.mark.parametrize("k", [None, 2])
    def test_of_every_unanimity_game(self, k):
        for members in subsets(range(5))[1:]:
            found = brute_force_shapley(unanimity(members, k), 5)
            share = np.array([1 / len(members) if i in members else 0.0 for i in range(5)])
            np.testing.assert_allclose(found, share if k is None else share[:, None] * np.arange(1, k + 1), 0, 1e-15)

    def test_a_table_of_integers(self):
        assert shapley_of_table(np.array([0, 1, 2, 5])).tolist() == [2.0, 3.0]

    def test_twenty_players(self):
        """The largest game there is: additive, with a constant, so that the answer is known."""
        gains = np.linspace(-1.0, 1.0, 20)
        found = brute_force_shapley(lambda m: 3.0 + m @ gains, 20)
        np.testing.assert_allclose(found, gains, 0, 1e-12)


class TestDividends:
    @exact
    @given(tables(6))
    def test_equal_the_definition(self, case):
        n, table = case
        # A dividend is a signed sum of up to 2^6 normal numbers.
        np.testing.assert_allclose(harsanyi_dividends(lookup(table), n), slow_dividends(table, n), 0, 1e-12)

    @exact
    @given(tables(6))
    def test_give_the_shapley_values_when_shared_evenly(self, case):
        n, table = case
        dividends = harsanyi_dividends(lookup(table), n)
        sizes = np.maximum(all_masks(n).sum(axis=1), 1)
        for i in range(n):
            share = (dividends.T * all_masks(n)[:, i] / sizes).T.sum(axis=0)
            np.testing.assert_allclose(brute_force_shapley(lookup(table), n)[i], share, 0, 1e-12)

    @pytest.mark.parametrize("k", [None, 1, 3])
    def test_of_every_unanimity_game(self, k):
        for members in subsets(range(4))[1:]:
            expected = np.zeros((16, k or 1))
            expected[code(members)] = np.arange(1, (k or 1) + 1)
            found = harsanyi_dividends(unanimity(members, k), 4)
            assert np.array_equal(found, expected if k else expected[:, 0])

    def test_of_a_sum_of_unanimity_games_with_a_constant(self):
        weights = {(0,): 2.0, (1, 3): -5.0, (0, 1, 2): 7.0, (0, 1, 2, 3): 0.5}
        found = harsanyi_dividends(lambda m: 100.0 + sum(w * unanimity(t)(m) for t, w in weights.items()), 4)
        expected = np.zeros(16)
        for members, weight in weights.items():
            expected[code(members)] = weight
        assert np.array_equal(found, expected)  # small integers and halves: no rounding

    def test_a_constant_game_has_none(self):
        assert np.array_equal(harsanyi_dividends(lambda m: np.full((len(m), 2), 0.1), 3), np.zeros((8, 2)))
        assert np.array_equal(brute_force_shapley(lambda m: np.full((len(m), 2), 0.1), 3), np.zeros((3, 2)))


class TestTransforms:
    @exact
    @given(tables())
    def test_are_inverse_to_each_other(self, case):
        _, table = case
        # Up to 2^7 terms of either sign.
        np.testing.assert_allclose(zeta_transform(moebius_transform(table)), table, 0, 1e-12)
        np.testing.assert_allclose(moebius_transform(zeta_transform(table)), table, 0, 1e-12)

    @exact
    @given(tables(5))
    def test_equal_their_sums(self, case):
        n, table = case
        for s in subsets(range(n)):
            plain = sum(table[code(t)] for t in subsets(s))
            signed = sum((-1) ** (len(s) - len(t)) * table[code(t)] for t in subsets(s))
            np.testing.assert_allclose(zeta_transform(table)[code(s)], plain, 0, 1e-13)
            np.testing.assert_allclose(moebius_transform(table)[code(s)], signed, 0, 1e-13)

    @pytest.mark.parametrize("transform", [moebius_transform, zeta_transform, shapley_of_table])
    def test_leave_their_argument_alone_whatever_its_layout(self, transform):
        table = np.random.default_rng(0).normal(size=(16, 3))
        before = table.copy()
        expected = transform(before)
        read_only = table.view()
        read_only.flags.writeable = False
        for same in (table, np.asfortranarray(table), np.repeat(table, 2, axis=0)[::2], table[::-1][::-1], read_only):
            np.testing.assert_allclose(transform(same), expected, 0, 1e-14)
            assert np.array_equal(same, before)

    @pytest.mark.parametrize("rows", [0, 1, 3, 6, 12])
    @pytest.mark.parametrize("transform", [moebius_transform, zeta_transform, shapley_of_table])
    def test_a_table_has_a_power_of_two_rows(self, transform, rows):
        with pytest.raises(ValueError, match=f"2\\^n rows for n >= 1 players, however: {rows} rows"):
            transform(np.zeros((rows, 2)))


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_shapiq_agrees(n):
    shapiq = pytest.importorskip("shapiq")
    table = np.random.default_rng(n).normal(size=2**n)
    computer = shapiq.ExactComputer(lambda m: lookup(table)(np.asarray(m, dtype=bool)), n_players=n)
    values, dividends = computer("SV", order=1), computer("Moebius", order=n)
    found = brute_force_shapley(lookup(table), n)
    found_dividends = harsanyi_dividends(lookup(table), n)
    for s in subsets(range(n))[1:]:
        assert abs(found_dividends[code(s)] - dividends[tuple(sorted(s))]) < 1e-12
    for i in range(n):
        assert abs(found[i] - values[(i,)]) < 1e-12


@pytest.mark.parametrize("others", [True, False])
def test_a_sub_game_holds_all_others(others):
    """By a game that writes down who was there: player i counts 2^i."""

    def who(masks):
        return masks @ (1 << np.arange(5))

    played = sub_game(who, [3, 0], 5, others=others)(np.array([[False, False], [True, False], [False, True]]))
    assert played.tolist() == ([22, 30, 23] if others else [0, 8, 1])
