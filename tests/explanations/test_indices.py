"""Every interaction index against its textbook definition in exact fractions, and the bookkeeping against loops."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harsanyinet.explanations import indices
from harsanyinet.explanations.indices import (
    INDICES,
    InteractionIndex,
    bernoulli,
    group_shares,
    index_weights,
    owen_shares,
    shares,
    sums,
    times_sparse,
    unite_coalitions,
    weight,
)

exact = settings(max_examples=60, deadline=None, derandomize=True)
SETS = ("SII", "BII", "STII", "k-SII", "FSII", "Moebius")  # the indices of sets; SV and BV value single features


def interaction_index(coalitions, dividends, name, order):
    sets, weights = index_weights(coalitions, name, order)
    return InteractionIndex(name, order, coalitions.shape[1], sets, times_sparse(dividends, weights))


def subsets(members, smallest=0, largest=None):
    sizes = range(smallest, (len(members) if largest is None else largest) + 1)
    return [frozenset(c) for size in sizes for c in combinations(sorted(members), size)]


# Definitions ---------------------------------------------------------------------------------------------------------


def derivative(v, s, t):
    """Delta_S v(T), the discrete derivative."""
    return sum((-1) ** (len(s) - len(part)) * v(t | part) for part in subsets(s))


def slow_sii(v, n, s):
    rest = subsets(set(range(n)) - s)
    weights = [Fraction(factorial(len(t)) * factorial(n - len(t) - len(s)), factorial(n - len(s) + 1)) for t in rest]
    return sum(w * derivative(v, s, t) for w, t in zip(weights, rest, strict=True))


def slow_bii(v, n, s):
    rest = subsets(set(range(n)) - s)
    return Fraction(sum(derivative(v, s, t) for t in rest), len(rest))


def slow_stii(v, n, s, order):
    """Shapley-Taylor: the derivative at the empty set below the order, a mean of derivatives at the order."""
    if len(s) < order:
        return derivative(v, s, frozenset())
    rest = subsets(set(range(n)) - s)
    return Fraction(order, n) * sum(Fraction(derivative(v, s, t), comb(n - 1, len(t))) for t in rest)


def slow_k_sii(v, n, s, order):
    """n-Shapley values by their recursion over the order; B_j written out."""
    numbers = [Fraction(1), Fraction(-1, 2), Fraction(1, 6), Fraction(0), Fraction(-1, 30), Fraction(0)]
    if order == len(s):
        return slow_sii(v, n, s)
    added = subsets(set(range(n)) - s, order - len(s), order - len(s))
    return slow_k_sii(v, n, s, order - 1) + numbers[order - len(s)] * sum(slow_sii(v, n, s | k) for k in added)


def slow_fsii(v, n, s, order):
    """Faithful Shapley: the polynomial of this order nearest to v in Shapley's weights, exact at both ends."""
    return _nearest_polynomial(n, order, tuple(v(t) for t in subsets(range(n))))[s]


@cache
def _nearest_polynomial(n, order, values):
    points = subsets(range(n))
    v = dict(zip(points, values, strict=True))
    unknown = subsets(range(n), 1, order)
    inner = [p for p in points if 0 < len(p) < n]
    mu = {p: Fraction(n - 1, comb(n, len(p)) * len(p) * (n - len(p))) for p in inner}
    rows = []  # the normal equations with one multiplier for the constraint that all terms sum to v(N) - v(empty)
    for a in unknown:
        row = [sum((mu[p] for p in inner if a <= p and b <= p), Fraction(0)) for b in unknown]
        rows.append([*row, Fraction(1), sum((mu[p] * (v[p] - v[frozenset()]) for p in inner if a <= p), Fraction(0))])
    rows.append([Fraction(1)] * len(unknown) + [Fraction(0), Fraction(v[frozenset(range(n))] - v[frozenset()])])
    return dict(zip(unknown, _solve(rows), strict=False))


def _solve(rows):
    """Gauss and Jordan in fractions: [A | b] -> x."""
    size = len(rows)
    for i in range(size):
        pivot = next(r for r in range(i, size) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [cell / rows[i][i] for cell in rows[i]]
        for r in range(size):
            if r != i and rows[r][i] != 0:
                rows[r] = [cell - rows[r][i] * top for cell, top in zip(rows[r], rows[i], strict=True)]
    return [row[-1] for row in rows]


def slow_index(name, v, n, s, order):
    if name in ("SV", "SII"):
        return slow_sii(v, n, s)
    if name in ("BV", "BII"):
        return slow_bii(v, n, s)
    if name == "Moebius":
        return derivative(v, s, frozenset())
    return {"STII": slow_stii, "k-SII": slow_k_sii, "FSII": slow_fsii}[name](v, n, s, order)


# Random sparse games -------------------------------------------------------------------------------------------------


@st.composite
def sparse_games(draw, max_players=7):
    """Unique coalitions (C, P), none empty, in any order, and dividends (B, C, K): none, some or all of the sets."""
    n = draw(st.integers(1, max_players))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    every = 1 + rng.permutation(2**n - 1)
    count = draw(st.sampled_from([0, 1, 3, 12, 2**n]))
    coalitions = (every[:count, None] >> np.arange(n)) % 2 == 1
    shape = (draw(st.integers(1, 3)), len(coalitions), draw(st.integers(1, 3)))
    return coalitions, rng.normal(size=shape)


def members_of(coalitions):
    return [frozenset(np.flatnonzero(row).tolist()) for row in coalitions]


# The formulas --------------------------------------------------------------------------------------------------------


class TestWeight:
    @pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
    @pytest.mark.parametrize("name", INDICES)
    def test_is_the_index_in_a_unanimity_game(self, name, n):
        """The weight of a(T) in the index of S is the index of S in the game that T alone wins, with n - t dummies."""
        for t in range(1, n + 1):
            coalition = frozenset(range(n - t, n))

            def unanimity(present, coalition=coalition):
                return int(coalition <= present)

            for order in [1] if name in ("SV", "BV") else range(1, n + 1):
                for s in range(1, min(order, t) + 1):
                    inside = frozenset(range(n - t, n - t + s))
                    expected = slow_index(name, unanimity, n, inside, order)
                    assert abs(weight(name, order, s, t) - expected) < 1e-15, (order, s, t)

    def test_bernoulli_numbers(self):
        known = [1, "-1/2", "1/6", 0, "-1/30", 0, "1/42", 0, "-1/30", 0, "5/66", 0, "-691/2730", 0, "7/6"]
        assert [bernoulli(j) for j in range(15)] == [Fraction(b) for b in known]

    @pytest.mark.parametrize("name", ["", "sii", "SHAP", "kSII"])
    def test_an_unknown_index(self, name):
        message = "index must be one of SV, BV, SII, BII, STII, k-SII, FSII, Moebius, however: " + repr(name)
        with pytest.raises(ValueError, match=message):
            interaction_index(np.zeros((0, 2), dtype=bool), np.ones((1, 0, 1)), name, 1)


class TestIndex:
    @settings(exact, max_examples=40)
    @given(sparse_games(4), st.sampled_from(INDICES), st.integers(1, 4))
    def test_equals_the_definition(self, game, name, order):
        coalitions, dividends = game
        n = coalitions.shape[1]
        order = 1 if name in ("SV", "BV") else min(order, n)
        found = interaction_index(coalitions, dividends, name, order)
        holders = members_of(coalitions)
        for row in range(dividends.shape[0]):
            for k in range(dividends.shape[2]):
                a = [Fraction(x) for x in dividends[row, :, k].tolist()]

                def v(present, a=a):
                    return sum((x for x, t in zip(a, holders, strict=True) if t <= present), Fraction(0))

                for s in subsets(range(n), 1, order):
                    expected = float(slow_index(name, v, n, s, order))
                    assert abs(found[tuple(s)][row, k] - expected) < 1e-12, (s, row, k)

    @exact
    @given(sparse_games(), st.sampled_from(INDICES), st.integers(1, 7))
    def test_sets_are_those_that_some_coalition_contains(self, game, name, order):
        coalitions, dividends = game
        n = coalitions.shape[1]
        order = 1 if name in ("SV", "BV") else min(order, n)
        found = interaction_index(coalitions, dividends, name, order)
        contained = {tuple(sorted(s)) for t in members_of(coalitions) for s in subsets(t, 1, min(order, len(t)))}
        assert found.sets == sorted(contained, key=lambda s: (len(s), s))
        assert (found.name, found.order) == (name, order)
        assert found.values.shape == (dividends.shape[0], len(contained), dividends.shape[2])
        assert all(type(i) is int for s in found.sets for i in s)

    @exact
    @given(sparse_games(6), st.sampled_from(["STII", "k-SII", "FSII"]), st.integers(1, 6))
    def test_efficient_indices_sum_to_the_output(self, game, name, order):
        coalitions, dividends = game
        order = min(order, coalitions.shape[1])
        found = interaction_index(coalitions, dividends, name, order)
        np.testing.assert_allclose(found.values.sum(axis=1), dividends.sum(axis=1), 0, 1e-12)

    @exact
    @given(sparse_games(6), st.sampled_from(["STII", "k-SII", "FSII", "Moebius"]))
    def test_up_to_all_features_they_are_the_dividends(self, game, name):
        coalitions, dividends = game
        found = interaction_index(coalitions, dividends, name, coalitions.shape[1])
        left = {tuple(sorted(t)): c for c, t in enumerate(members_of(coalitions))}
        for position, s in enumerate(found.sets):
            expected = dividends[:, left[s]] if s in left else 0.0
            np.testing.assert_allclose(found.values[:, position], expected * np.ones_like(found[s]), 0, 1e-12)

    @exact
    @given(sparse_games())
    def test_of_order_one_they_are_shapley_or_banzhaf_values(self, game):
        coalitions, dividends = game
        shapley = np.einsum("bck,cp->bpk", dividends, shares(coalitions).toarray())
        banzhaf = np.einsum("bck,cp->bpk", dividends, coalitions * 2.0 ** (1 - coalitions.sum(axis=1, keepdims=True)))
        expected = {name: banzhaf if name in ("BV", "BII") else shapley for name in INDICES if name != "Moebius"}
        for name, values in expected.items():
            found = interaction_index(coalitions, dividends, name, 1)
            for i in range(coalitions.shape[1]):
                np.testing.assert_allclose(found[(i,)], values[:, i], 0, 1e-12)

    @exact
    @given(sparse_games(5), st.sampled_from(SETS), st.integers(1, 5))
    def test_sparse_coalitions_say_the_same_as_all_of_them(self, game, name, order):
        coalitions, dividends = game
        n = coalitions.shape[1]
        order = min(order, n)
        every = (np.arange(1, 2**n)[:, None] >> np.arange(n)) % 2 == 1
        filled = np.zeros((dividends.shape[0], len(every), dividends.shape[2]))
        filled[:, coalitions @ (1 << np.arange(n)) - 1] = dividends
        sparse = interaction_index(coalitions, dividends, name, order)
        full = interaction_index(every, filled, name, order)
        assert set(full.sets) == {tuple(sorted(s)) for s in subsets(range(n), 1, order)}
        for s in full.sets:
            np.testing.assert_allclose(full[s], sparse[s], 0, 1e-12)

    def test_one_set_is_found_in_any_order_of_its_members(self):
        coalitions = np.array([[True, True, False, True]])
        found = interaction_index(coalitions, np.array([[[6.0, 60.0]]]), "SII", 2)
        assert found[(3, 0)].tolist() == found[(0, 3)].tolist() == [[3.0, 30.0]]
        assert found[(2,)].tolist() == found[(1, 2)].tolist() == [[0.0, 0.0]]  # no coalition contains them
        one_output = InteractionIndex("SII", 2, 4, found.sets, found.values[..., 0])
        assert one_output[(3, 0)].tolist() == [3.0]
        assert one_output[(1, 2)].tolist() == [0.0]

    @pytest.mark.parametrize("members", [("a", "b"), (0, 4), (-1,), (1, 1), ()])
    def test_what_is_no_set_of_features_is_not_zero_but_an_error(self, members):
        found = interaction_index(np.array([[True, True, False, True]]), np.array([[[6.0]]]), "SII", 2)
        with pytest.raises(ValueError, match="however"):
            found[members]

    def test_a_set_above_the_order_is_not_zero_but_unknown(self):
        """A coalition holds these three, so their interaction is 6; an index of pairs cannot answer for it."""
        found = interaction_index(np.ones((1, 3), dtype=bool), np.array([[[6.0]]]), "SII", 2)
        with pytest.raises(ValueError, match=r"sets of 1 to 2 different features, however: \(0, 1, 2\)"):
            found[(0, 1, 2)]

    @pytest.mark.parametrize("members", [(), (0, 0), (0, 3), (-1,), "x0", ("x0",), (0.5,)])
    def test_what_is_not_a_set_of_features_is_not_zero_either(self, members):
        found = interaction_index(np.ones((1, 3), dtype=bool), np.array([[[6.0]]]), "SII", 2)
        with pytest.raises(ValueError, match="however: "):
            found[members]

    @pytest.mark.parametrize("name", SETS)
    def test_float32_stays_float32(self, name):
        coalitions = np.array([[True, False], [True, True]])
        found = interaction_index(coalitions, np.ones((1, 2, 1), dtype=np.float32), name, 2)
        assert found.values.dtype == np.float32
        assert found[(0, 1)].dtype == np.float32

    @pytest.mark.parametrize("name", SETS)
    def test_no_coalition(self, name):
        found = interaction_index(np.zeros((0, 3), dtype=bool), np.zeros((2, 0, 4)), name, 3)
        assert found.sets == []
        assert found.values.shape == (2, 0, 4)
        assert np.array_equal(found[(0, 1)], np.zeros((2, 4)))

    @pytest.mark.parametrize("name", SETS)
    def test_no_rows(self, name):
        found = interaction_index(np.ones((1, 3), dtype=bool), np.zeros((0, 1, 4)), name, 2)
        assert len(found.sets) == 6
        assert found.values.shape == (0, 6, 4)

    def test_seventy_features_one_of_them_beyond_64(self):
        coalitions = np.zeros((2, 70), dtype=bool)
        coalitions[0, [3, 69]] = True
        coalitions[1, [3, 66, 69]] = True
        found = interaction_index(coalitions, np.array([[[1.0], [6.0]]]), "SII", 70)
        assert found.sets == [(3,), (66,), (69,), (3, 66), (3, 69), (66, 69), (3, 66, 69)]
        np.testing.assert_allclose(found.values[0, :, 0], [2.5, 2.0, 2.5, 3.0, 4.0, 3.0, 6.0], 0, 1e-15)


class TestIndexErrors:
    pair = np.ones((1, 3), dtype=bool), np.ones((1, 1, 1))

    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize("order", [-1, 0, 4])
    def test_order_lies_between_one_and_the_features(self, name, order):
        with pytest.raises(ValueError, match=f"order must lie between 1 and the 3 features, however: order={order}"):
            interaction_index(*self.pair, name, order)

    @pytest.mark.parametrize("name", ["SV", "BV"])
    @pytest.mark.parametrize("order", [0, 2])
    def test_values_of_single_features_have_order_one(self, name, order):
        with pytest.raises(
            ValueError, match=rf"{name} values single features \(order=1\), however: order={order}; use"
        ):
            interaction_index(*self.pair, name, order)

    def test_more_terms_than_anyone_would_wait_for(self):
        coalitions = np.ones((1, 40), dtype=bool)
        terms = sum(comb(40, s) for s in range(1, 9))
        with pytest.raises(ValueError, match=f"SII of order 8 has {terms:,} terms here, more than 50,000,000; lower"):
            interaction_index(coalitions, np.ones((1, 1, 1)), "SII", 8)

    def test_as_many_terms_as_allowed(self, monkeypatch):
        monkeypatch.setattr(indices, "MAX_TERMS", 6)
        assert len(interaction_index(*self.pair, "SII", 2).sets) == 6
        with pytest.raises(ValueError, match="SII of order 3 has 7 terms here, more than 6"):
            interaction_index(*self.pair, "SII", 3)

    def test_a_high_order_is_fine_where_coalitions_are_small(self):
        coalitions = np.zeros((39, 40), dtype=bool)
        coalitions[np.arange(39), np.arange(39)] = coalitions[np.arange(39), np.arange(1, 40)] = True
        assert len(interaction_index(coalitions, np.ones((1, 39, 1)), "k-SII", 40).sets) == 40 + 39


# The bookkeeping -----------------------------------------------------------------------------------------------------


def slow_unite(rows):
    given_sets = [tuple(np.flatnonzero(row).tolist()) for row in rows]
    unique = sorted({s for s in given_sets if s}, key=lambda s: (len(s), s))
    return unique, [unique.index(s) if s else -1 for s in given_sets]


class TestUnite:
    @exact
    @given(st.integers(1, 12), st.integers(0, 40), st.sampled_from([0.05, 0.3, 0.9]), st.integers(0, 10_000))
    def test_equals_a_loop(self, n, count, density, seed):
        rows = np.random.default_rng(seed).random((count, n)) < density
        before = rows.copy()
        unique, position = unite_coalitions(rows)
        expected, expected_position = slow_unite(rows)
        assert unique.dtype == bool
        assert unique.shape == (len(expected), n)
        assert [tuple(np.flatnonzero(row).tolist()) for row in unique] == expected
        assert position.tolist() == expected_position
        assert np.array_equal(rows, before)

    def test_seventy_players(self):
        rng = np.random.default_rng(0)
        rows = rng.random((60, 70)) < 0.03
        rows = np.vstack([rows, rows[::3], np.zeros((2, 70), dtype=bool), np.eye(70, dtype=bool)[60:]])
        unique, position = unite_coalitions(rows)
        expected, expected_position = slow_unite(rows)
        assert [tuple(np.flatnonzero(row).tolist()) for row in unique] == expected
        assert position.tolist() == expected_position

    def test_one_player(self):
        unique, position = unite_coalitions(np.array([[True], [False], [True]]))
        assert unique.tolist() == [[True]]
        assert position.tolist() == [0, -1, 0]

    @pytest.mark.parametrize("rows", [0, 1, 4])
    def test_nothing_but_empty_sets(self, rows):
        unique, position = unite_coalitions(np.zeros((rows, 9), dtype=bool))
        assert unique.shape == (0, 9)
        assert position.tolist() == [-1] * rows

    def test_columns_that_are_not_contiguous(self):
        rows = np.random.default_rng(3).random((20, 12)) < 0.5
        for same in (np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2], rows[:, ::-1][:, ::-1]):
            unique, position = unite_coalitions(same)
            assert np.array_equal(unique[position], rows)


class TestSums:
    @exact
    @given(st.integers(1, 4), st.integers(0, 9), st.integers(1, 3), st.integers(1, 5), st.integers(0, 10_000))
    def test_equals_a_loop(self, b, r, k, n, seed):
        rng = np.random.default_rng(seed)
        dividends, position = rng.normal(size=(b, r, k)), rng.integers(0, n, size=r)
        expected = np.zeros((b, n, k))
        for column, target in enumerate(position.tolist()):
            expected[:, target] += dividends[:, column]
        np.testing.assert_allclose(times_sparse(dividends, sums(position, n)), expected, 0, 1e-14)

    def test_no_rows(self):
        assert times_sparse(np.zeros((0, 3, 2)), sums(np.array([0, 0, 1]), 2)).shape == (0, 2, 2)

    def test_float32_stays_float32(self):
        assert times_sparse(np.ones((1, 2, 1), dtype=np.float32), sums(np.array([0, 0]), 1)).dtype == np.float32


class TestShares:
    @exact
    @given(sparse_games(), st.integers(0, 10_000))
    def test_each_dividend_is_given_away_whole_and_to_its_members_only(self, game, seed):
        coalitions, _ = game
        n = coalitions.shape[1]
        groups = np.random.default_rng(seed).integers(0, n, size=n)
        groups = groups == np.unique(groups)[:, None]
        met = np.array([[bool((t & g).any()) for g in groups] for t in coalitions]).reshape(
            len(coalitions), len(groups)
        )
        for found, allowed in (
            (shares(coalitions).toarray(), coalitions),
            (group_shares(coalitions, groups).toarray(), met),
            (owen_shares(coalitions, groups).toarray(), coalitions),
        ):
            assert found.shape == allowed.shape
            np.testing.assert_allclose(found.sum(axis=1), np.ones(len(coalitions)), 0, 1e-14)
            assert np.array_equal(found > 0, allowed)

    def test_a_coalition_split_by_hand(self):
        coalition = np.array([[True, True, True, False, True]])
        groups = np.array([[1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]], dtype=bool)
        np.testing.assert_allclose(shares(coalition).toarray(), [[1 / 4, 1 / 4, 1 / 4, 0, 1 / 4]], 0, 1e-15)
        np.testing.assert_allclose(group_shares(coalition, groups).toarray(), [[1 / 3, 1 / 3, 1 / 3]], 0, 1e-15)
        np.testing.assert_allclose(
            owen_shares(coalition, groups).toarray(), [[1 / 6, 1 / 6, 1 / 3, 0, 1 / 3]], 0, 1e-15
        )
