"""Everything that an Explanation answers, against enumeration of the game it was built from."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import time
import warnings
from itertools import combinations, permutations, product
from math import factorial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harsanyinet import Explanation
from harsanyinet.games import brute_force_shapley
from harsanyinet.indices import INDICES

exact = settings(max_examples=50, deadline=None, derandomize=True)


class Game:
    """A random sparse game of some rows and outputs, kept as plain sets and numbers: the oracle of this file."""

    def __init__(self, seed, n=4, rows=2, k=1, count=6, integers=False):
        rng = np.random.default_rng(seed)
        codes = 1 + rng.permutation(2**n - 1)[:count]
        self.n, self.rows, self.k = n, rows, k
        self.coalitions = [frozenset(i for i in range(n) if code >> i & 1) for code in codes.tolist()]
        shape = (rows, len(self.coalitions), k)
        self.dividends = rng.integers(-3, 4, size=shape).astype(float) if integers else rng.normal(size=shape)
        self.base = rng.integers(-3, 4, size=k).astype(float) if integers else rng.normal(size=k)

    @property
    def masks(self):
        return np.array([[i in t for i in range(self.n)] for t in self.coalitions], dtype=bool).reshape(-1, self.n)

    def explain(self, **options):
        return Explanation(base_values=self.base, coalitions=self.masks, dividends=self.dividends, **options)

    def v(self, present):
        """v(S) of every row and output, (B, K): the base and all dividends whose coalition lies in S."""
        total = np.zeros((self.rows, self.k)) + self.base
        for c, coalition in enumerate(self.coalitions):
            if coalition <= present:
                total = total + self.dividends[:, c]
        return total


@st.composite
def games(draw, max_features=7, outputs=3, **options):
    n = draw(st.integers(1, max_features))
    return Game(
        draw(st.integers(0, 10_000)),
        n,
        draw(st.integers(1, 4)),
        draw(st.integers(1, outputs)),
        draw(st.sampled_from([0, 1, 3, 8, 2**n])),
        **options,
    )


def subsets(members):
    return [frozenset(c) for size in range(len(members) + 1) for c in combinations(sorted(members), size)]


def shapley(v, n):
    """Definition 1 over sets, (B, n, K)."""
    table = {s: v(s) for s in subsets(range(n))}
    values = []
    for i in range(n):
        rest = subsets(set(range(n)) - {i})
        weights = [factorial(len(s)) * factorial(n - len(s) - 1) / factorial(n) for s in rest]
        values.append(sum(w * (table[s | {i}] - table[s]) for w, s in zip(weights, rest, strict=True)))
    return np.stack(values, axis=1)


def with_k(array, game):
    """Puts the axis of the outputs back where one output has dropped it."""
    return np.asarray(array)[..., None] if game.k == 1 else np.asarray(array)


def close(found, expected, tolerance=1e-12):
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, 0, tolerance)


def mask_of(members, n):
    return np.array([i in members for i in range(n)])


def random_groups(n, seed):
    """The features in at most three groups, as positions; in no particular order."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, size=n)
    return {f"g{g}": rng.permutation(np.flatnonzero(label == g)).tolist() for g in np.unique(label).tolist()}


def same(first, second):
    """Two explanations agree to the last bit, in everything."""
    for name in ("values", "base_values", "coalitions", "dividends", "outputs"):
        a, b = getattr(first, name), getattr(second, name)
        assert a.dtype == b.dtype, name
        assert np.array_equal(a, b), name
    assert (first.feature_names, first.output_names) == (second.feature_names, second.output_names)


# The game ------------------------------------------------------------------------------------------------------------


class TestShapes:
    @pytest.mark.parametrize("rows", [0, 1, 3])
    def test_one_output_drops_its_axis(self, rows):
        ex = Game(0, n=4, rows=rows, k=1).explain()
        assert len(ex) == rows
        assert ex.n_features == 4
        assert ex.values.shape == (rows, 4)
        assert ex.base_values.shape == ()
        assert ex.dividends.shape == (rows, 6)
        assert ex.outputs.shape == ex.value([True] * 4).shape == (rows,)
        assert ex.group_values({"a": [0, 1], "b": [2, 3]}).shape == (rows, 2)
        assert ex.owen_values({"a": [0, 1], "b": [2, 3]}).shape == (rows, 4)
        assert ex.missingness(0.5).mean.shape == ex.missingness(0.5).variance.shape == (rows,)
        assert ex.probability_values().shape == (rows, 4)
        assert ex.restrict([0]).base_values.shape == (rows,)
        found = ex.index("SII")
        assert found.values.shape == (rows, len(found.sets))
        assert found[(0,)].shape == (rows,)
        assert (ex + ex).dividends.shape == (rows, 6)

    @pytest.mark.parametrize("rows", [0, 1, 2])
    def test_several_outputs_keep_theirs(self, rows):
        ex = Game(0, n=4, rows=rows, k=3).explain()
        assert ex.values.shape == (rows, 4, 3)
        assert ex.base_values.shape == (3,)
        assert ex.dividends.shape == (rows, 6, 3)
        assert ex.outputs.shape == ex.value([True] * 4).shape == (rows, 3)
        assert ex.group_values({"a": [0, 1], "b": [2, 3]}).shape == (rows, 2, 3)
        assert ex.owen_values({"a": [0, 1], "b": [2, 3]}).shape == (rows, 4, 3)
        assert ex.missingness(0.5).mean.shape == ex.missingness(0.5).variance.shape == (rows, 3)
        assert ex.probability_values().shape == (rows, 4, 3)
        assert ex.restrict([0]).base_values.shape == (rows, 3)
        found = ex.index("SII")
        assert found.values.shape == (rows, len(found.sets), 3)
        assert found[(0,)].shape == (rows, 3)
        assert (ex + ex).dividends.shape == (rows, 6, 3)

    def test_default_names(self):
        assert Game(0, n=3).explain().feature_names == ["x0", "x1", "x2"]
        assert Game(0, n=3).explain().output_names == ["output"]
        assert Game(0, k=2).explain().output_names == ["output 0", "output 1"]

    def test_names_become_strings(self):
        ex = Game(0, n=2, k=2).explain(feature_names=np.array([7, 8]), output_names=[False, True])
        assert ex.feature_names == ["7", "8"]
        assert ex.output_names == ["False", "True"]


class TestValue:
    @exact
    @given(games(5))
    def test_of_every_mask_for_all_rows(self, game):
        ex = game.explain()
        for s in subsets(range(game.n)):
            close(with_k(ex.value(mask_of(s, game.n)), game), game.v(s))

    @exact
    @given(games(), st.integers(0, 10_000))
    def test_of_one_mask_per_row(self, game, seed):
        present = np.random.default_rng(seed).random((game.rows, game.n)) < 0.6
        expected = [game.v(frozenset(np.flatnonzero(p)))[row] for row, p in enumerate(present)]
        close(with_k(game.explain().value(present), game), np.array(expected))
        close(game.explain().value(present.tolist()), game.explain().value(present))

    @pytest.mark.parametrize("k", [1, 3])
    @pytest.mark.parametrize("count", [0, 1, 2, 16])
    def test_of_many_masks_for_one_row(self, k, count):
        game = Game(3, rows=2, k=k)
        masks = np.array([mask_of(s, 4) for s in subsets(range(4))])[:count].reshape(-1, 4)
        expected = np.array([game.v(s)[1] for s in subsets(range(4))])[:count].reshape(-1, k)
        close(with_k(game.explain()[1].value(masks), game), expected)
        part = game.explain().restrict([2, 0])[1]  # with a base of its own
        masks = np.array([[False, False], [True, False], [True, True]])
        close(
            with_k(part.value(masks), game), np.array([game.v(frozenset({1, 3}) | s)[1] for s in (set(), {2}, {0, 2})])
        )

    @exact
    @given(games())
    def test_shapley_values_come_from_the_dividends(self, game):
        ex = game.explain()
        close(with_k(ex.values, game), shapley(game.v, game.n))
        close(with_k(ex.outputs, game), game.v(frozenset(range(game.n))))
        for row in range(game.rows):
            one = ex[row]
            close(ex.values[row], brute_force_shapley(one.value, game.n))

    def test_seventy_features(self):
        coalitions = np.zeros((2, 70), dtype=bool)
        coalitions[0, [1, 69]] = coalitions[1, 68] = True
        ex = Explanation(base_values=np.zeros(1), coalitions=coalitions, dividends=np.array([[[4.0], [1.0]]]))
        assert ex.value(np.ones(70, dtype=bool)).tolist() == [5.0]
        assert ex.value(mask_of({1, 68}, 70)).tolist() == [1.0]
        assert ex.values[0, [1, 68, 69]].tolist() == [2.0, 1.0, 2.0]

    @pytest.mark.parametrize("present", [[1, 0, 1, 1], [1.0] * 4, ["yes"] * 4, np.ones((2, 4)), [None] * 4])
    def test_a_mask_is_bool(self, present):
        with pytest.raises(TypeError, match="present must be bool, True where a feature is there, however: "):
            Game(0).explain().value(present)

    @pytest.mark.parametrize("shape", [(), (3,), (5,), (1, 4), (3, 4), (2, 5), (4, 2), (1, 2, 4)])
    def test_a_mask_of_the_wrong_shape(self, shape):
        message = re.escape(f"present must have shape (4,) or (2, 4), however: {shape}")
        with pytest.raises(ValueError, match=message):
            Game(0, n=4, rows=2).explain().value(np.ones(shape, dtype=bool))


class TestContrast:
    @pytest.mark.parametrize("k", [1, 3])
    def test_is_the_difference_of_brute_force_values(self, k):
        game = Game(3, n=4, rows=3, k=k)
        ex = game.explain()
        truth = [
            brute_force_shapley(lambda m, row=row: np.array([game.v(set(np.flatnonzero(one)))[row] for one in m]), 4)
            for row in range(3)
        ]
        found = ex.contrast(-1, 0)
        assert found.shape == ((4,) if k == 1 else (4, k))
        np.testing.assert_allclose(found.reshape(4, k), truth[2] - truth[0], atol=1e-12)
        np.testing.assert_allclose(found.sum(axis=0), ex.outputs[2] - ex.outputs[0], atol=1e-12)
        np.testing.assert_array_equal(ex.contrast(0, 2), -found)

    def test_of_rows_that_are_not_there(self):
        with pytest.raises(IndexError, match="row must lie between 0 and 1, however: row=2"):
            Game(0).explain().contrast(0, 2)


class TestRestrict:
    @exact
    @given(games(6), st.integers(0, 10_000))
    def test_equals_the_sub_game_with_all_others_present(self, game, seed):
        rng = np.random.default_rng(seed)
        players = rng.permutation(game.n)[: rng.integers(1, game.n + 1)].tolist()
        others = frozenset(range(game.n)) - set(players)

        def sub_game(present):  # its player j is the feature players[j]
            return game.v(others | {players[j] for j in present})

        ex = game.explain().restrict(players)
        close(with_k(ex.values, game), shapley(sub_game, len(players)))
        close(with_k(ex.base_values, game), sub_game(frozenset()))
        close(ex.outputs, game.explain().outputs)
        for s in subsets(range(len(players))):
            close(with_k(ex.value(mask_of(s, len(players))), game), sub_game(s))
        members = [tuple(np.flatnonzero(row)) for row in ex.coalitions]
        assert len(set(members)) == len(members)
        assert () not in members

    @exact
    @given(games(6), st.integers(0, 10_000))
    def test_of_a_restriction(self, game, seed):
        rng = np.random.default_rng(seed)
        outer = rng.permutation(game.n)[: rng.integers(1, game.n + 1)].tolist()
        inner = rng.permutation(len(outer))[: rng.integers(1, len(outer) + 1)].tolist()
        twice = game.explain().restrict(outer).restrict(inner)
        once = game.explain().restrict([outer[j] for j in inner])
        assert twice.feature_names == once.feature_names
        for name in ("values", "base_values", "outputs", "dividends"):
            close(getattr(twice, name), getattr(once, name))
        assert np.array_equal(twice.coalitions, once.coalitions)

    def test_keeps_names_data_and_the_order_asked_for(self):
        data = np.arange(8).reshape(2, 4)
        ex = Game(1, k=2).explain(feature_names=list("abcd"), output_names=["no", "yes"], data=data)
        part = ex.restrict(["d", 0, np.int64(1)])
        assert part.feature_names == ["d", "a", "b"]
        assert part.output_names == ["no", "yes"]
        assert part.data.tolist() == [[3, 0, 1], [7, 4, 5]]

    def test_to_all_features_changes_nothing(self):
        ex = Game(1).explain()
        whole = ex.restrict(range(4))
        close(whole.values, ex.values)
        close(whole.base_values, np.full(2, ex.base_values))

    def test_rows_of_a_restriction_keep_their_own_base(self):
        part = Game(1, rows=3, k=2).explain().restrict([1, 3])
        for row in (0, 2, -1):
            same(part[row].restrict([0]), part.restrict([0])[row])
            assert np.array_equal(part[row].base_values, part.base_values[[row]])
        assert np.array_equal(part[[2, 0]].base_values, part.base_values[[2, 0]])

    def test_of_no_feature(self):
        with pytest.raises(ValueError, match="restrict needs at least one feature, however: none given"):
            Game(0).explain().restrict([])


# Indices -------------------------------------------------------------------------------------------------------------


class TestIndex:
    def test_drops_the_axis_and_finds_single_sets(self):
        for k in (1, 3):
            game = Game(2, k=k)
            found = game.explain().index("Moebius", order=4)
            for c, coalition in enumerate(game.coalitions):
                close(with_k(found[tuple(coalition)], game), game.dividends[:, c])

    @pytest.mark.parametrize("name", INDICES)
    def test_default_order(self, name):
        expected = 1 if name in ("SV", "BV") else 2
        assert Game(0).explain().index(name).order == expected
        assert Game(0, n=1, count=1).explain().index(name).order == 1

    def test_the_shapley_value_is_the_values(self):
        ex = Game(3, k=2).explain()
        found = ex.index("SV")
        for i in range(4):
            close(found[(i,)], ex.values[:, i])

    def test_errors_come_through(self):
        with pytest.raises(ValueError, match=r"index must be one of .* however: 'sii'"):
            Game(0).explain().index("sii")
        with pytest.raises(ValueError, match="order must lie between 1 and the 4 features, however: order=5"):
            Game(0).explain().index("SII", order=5)


class TestGroups:
    @exact
    @given(games(6), st.integers(0, 10_000))
    def test_group_values_are_those_of_the_game_of_groups(self, game, seed):
        groups = random_groups(game.n, seed)
        members = list(groups.values())
        expected = shapley(lambda s: game.v(frozenset().union(*(members[g] for g in s))), len(members))
        close(with_k(game.explain().group_values(groups), game), expected)

    @settings(exact, max_examples=30)
    @given(games(6), st.integers(0, 10_000))
    def test_owen_values_are_the_mean_over_orders_that_keep_groups_together(self, game, seed):
        groups = random_groups(game.n, seed)
        table = {s: game.v(s) for s in subsets(range(game.n))}
        gains, count = np.zeros((game.rows, game.n, game.k)), 0
        for blocks in permutations(groups.values()):
            for parts in product(*(permutations(block) for block in blocks)):
                count += 1
                present = frozenset()
                for i in (i for part in parts for i in part):
                    gains[:, i] += table[present | {i}] - table[present]
                    present |= {i}
        found = with_k(game.explain().owen_values(groups), game)
        close(found, gains / count)
        sums = np.stack([found[:, members].sum(axis=1) for members in groups.values()], axis=1)
        close(sums, with_k(game.explain().group_values(groups), game))

    def test_one_group_or_one_each_is_the_shapley_value(self):
        ex = Game(4, n=5, k=2, count=31).explain()
        close(ex.group_values({i: [i] for i in range(5)}), ex.values)
        close(ex.owen_values({i: [i] for i in range(5)}), ex.values)
        close(ex.owen_values({"all": range(5)}), ex.values)
        close(ex.group_values({"all": range(5)})[:, 0], ex.values.sum(axis=1))

    def test_a_group_is_not_the_sum_of_its_members(self):
        """All three together earn 6: half of it per group, a third per feature."""
        ex = Explanation(
            base_values=np.zeros(1),
            coalitions=np.array([[True, True, True]]),
            dividends=np.array([[[6.0]]]),
            feature_names=["age", "sex", "pay"],
        )
        groups = {"who": ["age", "sex"], "what": ["pay"]}
        close(ex.group_values(groups), [[3.0, 3.0]])
        close(ex.owen_values(groups), [[1.5, 1.5, 3.0]])
        close(ex.values, [[2.0, 2.0, 2.0]])

    @pytest.mark.parametrize("method", ["group_values", "owen_values"])
    @pytest.mark.parametrize(
        ("groups", "message"),
        [
            ({"a": ["w", "x"], "b": ["x", "y", "z"]}, "every feature exactly once, however: ['x'] in several groups"),
            ({"a": ["w"], "b": ["y"]}, "groups must hold every feature exactly once, however: ['x', 'z'] in none"),
            ({}, "groups must hold every feature exactly once, however: ['w', 'x', 'y', 'z'] in none"),
            ({"a": ["w", "x", "y", "z"], "b": []}, "each group needs a feature, however: group 'b' is empty"),
            ({"a": ["w", "x", "x"], "b": ["y", "z"]}, "each feature may be named once, however: ['w', 'x', 'x']"),
            ({"a": ["w", "x", "y", "z"], "b": ["ww"]}, "unknown feature 'ww'; did you mean 'w'?"),
            ({"a": [0, 1, 2, 4]}, "feature must lie between 0 and 3, however: 4"),
        ],
    )
    def test_groups_that_do_not_hold_every_feature_once(self, method, groups, message):
        ex = Game(0).explain(feature_names=list("wxyz"))
        with pytest.raises(ValueError, match=re.escape(message)):
            getattr(ex, method)(groups)

    def test_a_group_given_as_a_string(self):
        ex = Game(0, n=2, count=3).explain(feature_names=["a", "b"])
        with pytest.raises(TypeError, match="features come as a list of names or positions, however: the string 'ab'"):
            ex.group_values({"g": "ab"})


class TestOrderSpectrum:
    @exact
    @given(games())
    def test_equals_a_loop(self, game):
        sums = np.zeros(game.n + 1)
        for c, coalition in enumerate(game.coalitions):
            sums[len(coalition)] += np.abs(game.dividends[:, c]).sum()
        expected = sums / sums.sum() if game.coalitions else np.eye(1, game.n + 1)[0]
        close(game.explain().order_spectrum(), expected)

    def test_dividends_that_cancel_still_count(self):
        ex = Explanation(
            base_values=np.zeros(1),
            coalitions=np.array([[True, False], [True, True]]),
            dividends=np.array([[[3.0], [-1.0]], [[-3.0], [1.0]]]),
        )
        close(ex.order_spectrum(), [0.0, 0.75, 0.25])

    def test_where_nothing_acts_all_is_of_order_zero(self):
        game = Game(0)
        game.dividends[:] = 0.0
        close(game.explain().order_spectrum(), [1.0, 0.0, 0.0, 0.0, 0.0])
        close(Game(0, rows=0).explain().order_spectrum(), [1.0, 0.0, 0.0, 0.0, 0.0])


class TestMissingness:
    @staticmethod
    def enumerate_masks(game, v, q):
        """Mean and variance over all 2^n masks and their probabilities."""
        mean, square = 0.0, 0.0
        for s in subsets(range(len(q))):
            p = np.prod([q[i] if i in s else 1 - q[i] for i in range(len(q))])
            mean, square = mean + p * v(s), square + p * v(s) ** 2
        return mean, square - mean**2

    @exact
    @given(games(6), st.lists(st.sampled_from([0.0, 1.0, 0.5, 0.01, 0.3, 0.999]), min_size=6, max_size=6))
    def test_equals_the_enumeration_of_all_masks(self, game, q):
        q = q[: game.n]
        mean, variance = self.enumerate_masks(game, game.v, q)
        found = game.explain().missingness(q)
        close(with_k(found.mean, game), mean)
        close(with_k(found.variance, game), variance)

    @exact
    @given(games(5), st.sampled_from([0, 1, 0.0, 0.25, 1.0]))
    def test_one_probability_for_all(self, game, q):
        found, expected = game.explain().missingness(q), game.explain().missingness([q] * game.n)
        close(found.mean, expected.mean)
        close(found.variance, expected.variance)
        if q in (0, 1):
            close(with_k(found.mean, game), game.v(frozenset(range(game.n)) if q else frozenset()))
            assert not found.variance.any()

    def test_of_a_restriction(self):
        game = Game(5, n=5, rows=3, k=2, count=20)
        mean, variance = self.enumerate_masks(game, lambda s: game.v(s | {2, 3, 4}), [0.2, 0.7])
        found = game.explain().restrict([0, 1]).missingness([0.2, 0.7])
        close(found.mean, mean)
        close(found.variance, variance)

    def test_a_variance_is_never_negative(self):
        """Two dividends that cancel: the exact variance is zero, and rounding may not push it below."""
        masks = np.array([[True, False], [False, True], [True, True]])
        ex = Explanation(base_values=np.zeros(1), coalitions=masks, dividends=1e8 * np.array([[[0.1], [0.2], [-0.3]]]))
        for q in np.linspace(0, 1, 23):
            assert ex.missingness(q).variance[0] >= 0

    @pytest.mark.parametrize("q", [-0.1, 1.1, np.nan, [0.5, 0.5], [0.5] * 5, [0.1, 0.2, 0.3, 2.0], [[0.5] * 4]])
    def test_what_is_not_a_probability(self, q):
        with pytest.raises(ValueError, match=r"probability must be one or 4 numbers in \[0, 1\], however: "):
            Game(0).explain().missingness(q)


class TestProbabilityValues:
    @exact
    @given(games(6))
    def test_equal_brute_force_of_the_probability(self, game):
        def probability(present):
            logits = game.v(present)
            if game.k == 1:
                return 1 / (1 + np.exp(-logits))
            return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

        found = with_k(game.explain().probability_values(), game)
        close(found, shapley(probability, game.n))
        everyone = frozenset(range(game.n))
        close(found.sum(axis=1), probability(everyone) - probability(frozenset()))

    def test_of_a_restriction(self):
        game = Game(6, n=5, rows=3, k=1, count=20)
        expected = shapley(lambda s: 1 / (1 + np.exp(-game.v(s | {2, 3, 4}))), 2)
        close(game.explain().restrict([0, 1]).probability_values(), expected[..., 0])

    @pytest.mark.parametrize("k", [1, 2])
    def test_huge_logits(self, k):
        ex = Explanation(
            base_values=np.zeros(k),
            coalitions=np.eye(2, dtype=bool),
            dividends=1e4 * np.array([[[1.0, 0.0][:k], [-2.0, 0.0][:k]]]),
        )
        found = ex.probability_values().reshape(1, 2, k)[0, :, 0]
        close(found, [0.25, -0.75])  # p is 1/2, 1, 0, 0 on the empty set, {0}, {1} and {0, 1}

    def test_more_than_twenty_features(self):
        def never():
            raise AssertionError("dividends were asked for")

        ex = Explanation(
            base_values=np.zeros(1), coalitions=np.eye(21, dtype=bool), dividends=never, values=np.zeros((1, 21, 1))
        )
        with pytest.raises(ValueError, match="at most 20 features, however: 21; restrict the explanation"):
            ex.probability_values()

    def test_twenty_features(self):
        logits = np.linspace(-1, 1, 20)
        ex = Explanation(base_values=np.zeros(1), coalitions=np.eye(20, dtype=bool), dividends=logits[None, :, None])
        found = ex.probability_values()[0]
        close(found, -found[::-1])  # the sigmoid is odd around 1/2, and so are these logits
        assert (np.diff(found) > 0).all()


class TestTopInteractions:
    @exact
    @given(games(5), st.integers(0, 8))
    def test_the_bound_holds_for_every_mask(self, game, k):
        ex = game.explain()
        for row in range(game.rows):
            for output in range(game.k):
                top = ex.top_interactions(row, k, output=output)
                assert len(top.sets) == min(k, len(game.coalitions)) == len(top.values)
                for s in subsets(range(game.n)):
                    kept = sum(a for t, a in zip(top.sets, top.values, strict=True) if s.issuperset(t))
                    assert abs(game.v(s)[row, output] - game.base[output] - kept) <= top.bound + 1e-12

    @exact
    @given(games(5), st.integers(0, 40))
    def test_are_the_largest_dividends_in_order(self, game, k):
        top = game.explain().top_interactions(0, k, output=0)
        a = {tuple(sorted(t)): game.dividends[0, c, 0] for c, t in enumerate(game.coalitions)}
        assert [a[s] for s in top.sets] == top.values.tolist()
        assert np.abs(top.values).tolist() == sorted(np.abs(list(a.values())).tolist(), reverse=True)[:k]
        if k >= len(a):
            assert top.bound == 0

    def test_the_bound_is_attained(self):
        masks = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)
        dividends = np.array([[[8.0], [2.0], [-4.0], [1.0]]])
        ex = Explanation(base_values=np.zeros(1), coalitions=masks, dividends=dividends, feature_names=["a", "b", "c"])
        top = ex.top_interactions(0, 2)
        assert top.sets == [(0,), (0, 1)]
        assert top.names == [("a",), ("a", "b")]
        assert top.values.tolist() == [8.0, -4.0]
        assert top.bound == 3.0  # at {a, b, c}: 7 against 4
        assert ex.top_interactions(0, 1).bound == 4.0  # no smaller: the sum of the negative ones
        assert (-ex).top_interactions(0, 2).bound == 3.0
        assert len(Game(0, count=15).explain().top_interactions(0).sets) == 10

    def test_larger_sets_only(self):
        game = Game(0, count=15).explain()
        every, pairs = game.top_interactions(0, 99), game.top_interactions(0, 99, at_least=2)
        assert pairs.sets == [members for members in every.sets if len(members) >= 2] != every.sets
        single = sum(v for members, v in zip(every.sets, every.values, strict=True) if len(members) < 2)
        assert pairs.bound >= abs(float(np.sum(single))) - 1e-12

    def test_of_the_largest_output_unless_another_is_named(self):
        game = Game(7, k=3, rows=4)
        ex = game.explain(output_names=["red", "green", "blue"])
        for row in range(-4, 4):
            largest = int(np.argmax(ex.outputs[row]))
            assert np.array_equal(
                ex.top_interactions(row).values, ex.top_interactions(row, output=ex.output_names[largest]).values
            )
        assert sorted(ex.top_interactions(0, output="blue").values) == sorted(game.dividends[0, :, 2])
        assert sorted(ex.top_interactions(-1, output=1).values) == sorted(game.dividends[3, :, 1])
        with pytest.raises(ValueError, match=re.escape("unknown output 'gren'; did you mean 'green'?")):
            ex.top_interactions(0, output="gren")
        with pytest.raises(ValueError, match="output must lie between 0 and 2, however: 3"):
            ex.top_interactions(0, output=3)


class TestSmallestSet:
    @staticmethod
    def decide(out, threshold):
        return bool(out[0] > threshold) if len(out) == 1 else int(np.argmax(out))

    def check(self, game, threshold=0.0):
        ex = game.explain()
        for row in range(game.rows):
            wanted = self.decide(game.v(frozenset(range(game.n)))[row], threshold)
            enough = [s for s in subsets(range(game.n)) if self.decide(game.v(s)[row], threshold) == wanted]
            found = ex.smallest_set(row, threshold=threshold)
            assert found == tuple(sorted(set(found)))
            assert frozenset(found) in enough
            assert len(found) == min(map(len, enough))

    @settings(exact, max_examples=40)
    @given(games(6))
    def test_is_as_small_as_enumeration_finds(self, game):
        self.check(game)

    @settings(exact, max_examples=40)
    @given(games(6, integers=True), st.sampled_from([-2.0, 0.0, 1.0]))
    def test_with_ties_and_a_threshold(self, game, threshold):
        """Small integers, so that outputs often meet each other or the threshold, exactly."""
        self.check(game, threshold if game.k == 1 else 0.0)

    def test_a_threshold_is_for_one_output(self):
        with pytest.raises(ValueError, match="a threshold decides on one output, however: there are 2"):
            Game(0, k=2).explain().smallest_set(0, threshold=0.5)

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    @pytest.mark.parametrize("k", [1, 2])
    def test_a_margin_below_the_tolerance_of_the_solver(self, sign, k):
        """All three features are needed, by 2^-40 against dividends of 1; sums of these powers of two are exact."""
        tiny = 2.0**-40
        game = Game(0, n=3, rows=1, k=k, count=0)
        game.coalitions = [frozenset({0}), frozenset({0, 1}), frozenset({2})]
        game.base = np.zeros(k)
        game.base[0] = -sign * tiny
        game.dividends = np.zeros((1, 3, k))
        game.dividends[0, :, 0] = sign * np.array([-1.0, 1.0 + tiny, tiny])
        self.check(game)

    def test_every_smaller_set_has_to_be_refuted(self):
        """As above, with five features of which any that leave out the first are refused one by one."""
        tiny = 2.0**-40
        game = Game(0, n=5, rows=1, count=0)
        game.coalitions = [*(frozenset({i}) for i in range(5)), frozenset(range(5))]
        game.base = np.zeros(1)
        game.dividends = np.r_[-1 - tiny, np.full(4, -tiny), 1 + 6 * tiny][None, :, None]
        self.check(game)
        assert game.explain().smallest_set(0) == (0, 1, 2, 3, 4)

    @pytest.mark.parametrize("k", [1, 3])
    def test_a_clear_decision_takes_one_call_of_the_solver(self, monkeypatch, k):
        """The programme itself is right, not only what is left after every wrong answer was refused."""
        import scipy.optimize

        calls, solve = [], scipy.optimize.milp
        monkeypatch.setattr(scipy.optimize, "milp", lambda *a, **options: calls.append(1) or solve(*a, **options))
        for seed in range(10):
            Game(seed, n=6, rows=1, k=k, count=20).explain().smallest_set(0)
        additive = Explanation(
            base_values=np.array([-1.5, 0.0, -2.0])[:k],
            coalitions=np.eye(6, dtype=bool),
            dividends=np.ones((1, 6, 1)) * np.array([1.0, 0.0, 1.0])[:k],  # the first beats the last without any
        )
        assert len(additive.smallest_set(0)) == 2
        assert len(calls) == 11

    def test_features_are_counted_not_coalitions(self):
        """Two features that win by three coalitions, or three features that win by one."""
        game = Game(0, n=5, rows=1, count=0)
        game.coalitions = [frozenset({0}), frozenset({1}), frozenset({0, 1}), frozenset({2, 3, 4})]
        game.base = np.array([-2.5])
        game.dividends = np.array([[[1.0], [1.0], [1.0], [3.0]]])
        assert game.explain().smallest_set(0) == (0, 1)

    def test_nothing_is_needed_where_the_base_decides(self):
        game = Game(0, n=3, rows=1, count=7)
        game.base, game.dividends = np.array([5.0]), np.ones((1, 7, 1))
        assert game.explain().smallest_set(0) == ()
        assert game.explain().smallest_set(0, threshold=5.5) != ()
        game.base, game.dividends = np.array([-20.0]), np.ones((1, 7, 1))
        assert game.explain().smallest_set(0) == ()  # absent or present: not above the threshold

    @pytest.mark.parametrize("k", [1, 3])
    def test_nothing_is_needed_where_nothing_acts(self, k):
        game = Game(0, k=k)
        game.dividends[:] = 0.0
        assert game.explain().smallest_set(0) == ()
        assert Game(0, k=k, count=0).explain().smallest_set(0) == ()

    def test_one_row_of_many_and_of_a_restriction(self):
        game = Game(8, n=6, rows=4, k=2, count=30)
        players = [4, 0, 2, 5]
        part = game.explain().restrict(players)
        for row in (-1, 2):
            wanted = self.decide(game.v(frozenset(range(6)))[row], 0.0)
            enough = [s for s in subsets(players) if self.decide(game.v(s | {1, 3})[row], 0.0) == wanted]
            found = part.smallest_set(row)
            assert {players[j] for j in found} in enough
            assert len(found) == min(map(len, enough))
            assert game.explain().smallest_set(row) == game.explain()[row].smallest_set(0)

    def test_float32(self):
        game = Game(9, n=5, rows=3, count=20)
        ex = game.explain()
        single = Explanation(
            base_values=game.base.astype(np.float32),
            coalitions=game.masks,
            dividends=game.dividends.astype(np.float32),
        )
        for row in range(3):
            assert len(single.smallest_set(row)) == len(ex.smallest_set(row))

    def test_a_solver_that_gives_up(self, monkeypatch):
        from scipy.optimize import OptimizeResult

        given_up = OptimizeResult(status=1, message="Time limit reached.", x=None)
        monkeypatch.setattr("scipy.optimize.milp", lambda *args, **options: given_up)
        with pytest.raises(RuntimeError, match="the smallest set was not found within 7 s: Time limit reached"):
            Game(0).explain().smallest_set(0, time_limit=7)

    def test_the_time_limit_is_for_the_whole_search(self, monkeypatch):
        """Only all twelve features decide, by a margin that the solver cannot see: it errs for up to 2^11 sets."""
        import scipy.optimize

        n, tiny, started, solve = 12, 2.0**-40, time.monotonic(), scipy.optimize.milp

        def milp(*args, **options):
            assert time.monotonic() - started < 4, "still searching long after the time limit"
            return solve(*args, **options)

        monkeypatch.setattr(scipy.optimize, "milp", milp)
        coalitions = np.vstack([np.eye(n, dtype=bool), np.ones(n, dtype=bool)])
        dividends = np.r_[-1 - tiny, np.full(n - 1, -tiny), 1 + (n + 1) * tiny]
        ex = Explanation(base_values=np.zeros(1), coalitions=coalitions, dividends=dividends[None, :, None])
        assert ex.outputs[0] > 0
        try:
            assert ex.smallest_set(0, time_limit=0.5) == tuple(range(n))
        except RuntimeError as error:
            assert "not found within 0.5 s" in str(error)  # noqa: PT017  giving up is one of two right answers


# Laziness and frozen data --------------------------------------------------------------------------------------------


class TestLazyDividends:
    @staticmethod
    def counted(game, values=None):
        calls = []

        def dividends():
            calls.append(1)
            return game.dividends

        ex = Explanation(base_values=game.base, coalitions=game.masks, dividends=dividends, values=values)
        return ex, calls

    def test_are_not_computed_for_what_does_not_need_them(self):
        game = Game(1, rows=3)
        ex, calls = self.counted(game, shapley(game.v, game.n))
        derived = [ex, ex[1], ex[:2], ex[[0, 2]], ex + ex, ex - ex, 2 * ex, -ex / 3]
        for one in derived:
            _ = one.values, one.base_values, one.outputs, one.coalitions, len(one)
            _ = repr(one), one._repr_html_(), one.to_frame()
        assert calls == []
        for one in derived:
            assert len(one.dividends) == len(one)
        assert calls == [1]

    def test_are_computed_once_for_everything_that_does(self):
        game = Game(1)
        ex, calls = self.counted(game, shapley(game.v, game.n))
        for _ in range(2):
            _ = ex.dividends, ex.value([True] * 4), ex.index("SII"), ex.restrict([0]), ex.order_spectrum()
            _ = ex.missingness(0.5), ex.probability_values(), ex.top_interactions(0), ex.group_values({"g": range(4)})
            _ = ex[0].dividends, (ex + ex).dividends, (2 * ex).dividends, pickle.dumps(ex)
        assert calls == [1]

    def test_stay_writable_for_whoever_computed_them(self):
        """A function may return an array that it keeps: the explanation does not lock it."""
        game = Game(1)
        ex, _ = self.counted(game)
        assert not ex.dividends.flags.writeable
        assert game.dividends.flags.writeable

    def test_are_asked_once_when_the_values_come_from_them(self):
        game = Game(1)
        ex, calls = self.counted(game)
        close(with_k(ex.values, game), shapley(game.v, game.n))
        _ = ex.dividends
        assert calls == [1]


class TestFrozen:
    ARRAYS = ("values", "base_values", "coalitions", "dividends", "data")

    @pytest.fixture(params=["plain", "lazy", "slice", "sum", "multiple", "restriction", "loaded", "pickled", "copied"])
    def made(self, request, tmp_path):
        game = Game(1, rows=2, k=2)
        data = np.arange(8.0).reshape(2, 4)
        plain = game.explain(data=data)
        match request.param:
            case "lazy":
                return Explanation(
                    base_values=game.base, coalitions=game.masks, dividends=lambda: game.dividends, data=data
                )
            case "slice":
                return plain[:1]
            case "sum":
                return plain + plain
            case "multiple":
                return 2.0 * plain
            case "restriction":
                return plain.restrict([0, 2])
            case "loaded":
                plain.save(tmp_path / "ex")
                return Explanation.load(tmp_path / "ex")
            case "pickled":
                return pickle.loads(pickle.dumps(plain))
            case "copied":
                return copy.deepcopy(plain)
        return plain

    @pytest.mark.parametrize("name", ARRAYS)
    def test_no_array_can_be_written(self, made, name):
        array = getattr(made, name)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0

    @pytest.mark.parametrize("name", ["values", "base_values", "coalitions", "dividends", "outputs", "n_features"])
    def test_no_attribute_can_be_replaced(self, name):
        with pytest.raises(AttributeError):
            setattr(Game(0).explain(), name, 0)

    @pytest.mark.parametrize("name", ARRAYS)
    def test_what_the_caller_does_to_the_array_later_changes_nothing(self, name):
        """A what-if loop that edits its row in place must not edit the explanation of the row before."""
        game = Game(1, k=2)
        arrays = {
            "base_values": game.base,
            "coalitions": game.masks,
            "dividends": game.dividends,
            "values": shapley(game.v, 4),
            "data": np.ones((2, 4)),
        }
        ex = Explanation(**arrays)
        before = np.array(getattr(ex, name))
        arrays[name][...] = 0
        assert np.array_equal(getattr(ex, name), before)


# Rows and sums -------------------------------------------------------------------------------------------------------


class TestRows:
    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            (0, [0]),
            (-1, [3]),
            (np.int64(2), [2]),
            (slice(1, 3), [1, 2]),
            (slice(None, None, -2), [3, 1]),
            (slice(9, 99), []),
            ([2, 0, 2], [2, 0, 2]),
            ([-1, 1], [3, 1]),
            ([], []),
            (np.array([3, 0]), [3, 0]),
            ([True, False, False, True], [0, 3]),
            (np.array([False] * 4), []),
        ],
    )
    @pytest.mark.parametrize("k", [1, 3])
    def test_of_every_kind(self, rows, expected, k):
        game = Game(1, rows=4, k=k)
        data = np.arange(16).reshape(4, 4)
        ex = game.explain(feature_names=list("abcd"), data=data)
        part = ex[rows]
        assert len(part) == len(expected)
        for name in ("values", "dividends", "data", "outputs"):
            assert np.array_equal(getattr(part, name), getattr(ex, name)[expected])
        assert np.array_equal(part.base_values, ex.base_values)
        assert np.array_equal(part.coalitions, ex.coalitions)
        assert part.feature_names == list("abcd")

    def test_data_may_be_missing(self):
        assert Game(1).explain()[0].data is None

    def test_a_row_of_a_row(self):
        ex = Game(1, rows=4).explain()
        same(ex[1:][[2, 1]][0], ex[3])

    def test_a_loop_over_rows_ends(self):
        ex = Game(1, rows=3).explain()
        rows = list(ex)
        assert len(rows) == 3
        for row, one in enumerate(rows):
            same(one, ex[row])

    @pytest.mark.parametrize("rows", [4, -5, [0, 4], [True, False]])
    def test_out_of_range(self, rows):
        with pytest.raises(IndexError):
            Game(1, rows=4).explain()[rows]

    @pytest.mark.parametrize("row", [2, -3, 100])
    @pytest.mark.parametrize("method", ["top_interactions", "smallest_set", "to_shapiq"])
    def test_a_row_that_is_not_there(self, method, row):
        if method == "to_shapiq":
            pytest.importorskip("shapiq")
        with pytest.raises(IndexError, match=f"row must lie between 0 and 1, however: row={row}"):
            getattr(Game(1, rows=2).explain(), method)(row)


class TestArithmetic:
    @exact
    @given(games(5), st.integers(0, 10_000))
    def test_sum_and_difference_of_games_with_different_coalitions(self, game, seed):
        other = Game(seed, game.n, game.rows, game.k, count=5)
        total, gap = game.explain() + other.explain(), game.explain() - other.explain()
        close(with_k(total.values, game), shapley(lambda s: game.v(s) + other.v(s), game.n))
        close(with_k(gap.values, game), shapley(lambda s: game.v(s) - other.v(s), game.n))
        members = [tuple(np.flatnonzero(row)) for row in total.coalitions]
        assert len(set(members)) == len(members)
        assert set(members) == {tuple(sorted(t)) for t in game.coalitions + other.coalitions}
        for s in subsets(range(game.n)):
            mask = mask_of(s, game.n)
            close(with_k(total.value(mask), game), game.v(s) + other.v(s))
            close(with_k(gap.value(mask), game), game.v(s) - other.v(s))

    @pytest.mark.parametrize("k", [1, 2])
    @pytest.mark.parametrize("factor", [3, 0.5, 0, -1, np.float64(2.5), np.float32(0.25), np.int64(3), True])
    def test_multiples(self, k, factor):
        ex = Game(2, k=k).explain(feature_names=list("abcd"), data=np.arange(8).reshape(2, 4))
        for multiple in (ex * factor, factor * ex):
            assert isinstance(multiple, Explanation)
            for name in ("values", "dividends", "base_values", "outputs"):
                close(getattr(multiple, name), getattr(ex, name) * float(factor))
            assert multiple.feature_names == list("abcd")
            assert np.array_equal(multiple.data, ex.data)

    def test_division_and_sign(self):
        ex = Game(2).explain()
        for found, expected in ((ex / 4, 0.25), (ex / np.float64(-2), -0.5), (-ex, -1.0)):
            for name in ("values", "dividends", "base_values", "outputs"):
                close(getattr(found, name), getattr(ex, name) * expected)

    def test_the_mean_of_an_ensemble(self):
        first, second = Game(2, k=2), Game(3, k=2)
        for total in (first.explain() + second.explain(), sum([first.explain(), second.explain()])):
            close((total / 2).values, (shapley(first.v, 4) + shapley(second.v, 4)) / 2)
            close((total / 2).base_values, (first.base + second.base) / 2)

    def test_outputs_in_another_order(self):
        """Class by class, these would be sums of different things."""
        first = Game(2, k=2).explain(output_names=["no", "yes"])
        second = Game(3, k=2).explain(output_names=["yes", "no"])
        with pytest.raises(ValueError, match="same rows, features and outputs"):
            first + second

    @pytest.mark.parametrize("missing", [np.nan, None, pd.NA], ids=repr)
    def test_data_of_the_same_rows(self, missing):
        data = np.array([["a", 1, missing, 2.5], ["b", missing, 3, np.inf]], dtype=object)
        ex, other = Game(2).explain(data=data), Game(3).explain(data=data.copy())
        assert (ex + other).data.tolist() == data.tolist()
        assert (Game(3).explain() - ex).values.shape == (2, 4)
        with pytest.raises(ValueError, match="explain the same rows, however: their data differ"):
            ex + Game(3).explain(data=data[::-1])
        with pytest.raises(ValueError, match="explain the same rows, however: their data differ"):
            ex + Game(3).explain(data=np.zeros((2, 4)))
        data[1, 2] = 4
        with pytest.raises(ValueError, match="explain the same rows, however: their data differ"):
            ex + Game(3).explain(data=data)

    def test_a_restriction_and_a_whole_game(self):
        """One base per row and one for all rows."""
        game, other = Game(2, n=5, rows=3, count=20), Game(3, n=2, rows=3, count=3)
        part = game.explain().restrict([0, 1])
        for total in (
            part + other.explain(feature_names=["x0", "x1"]),
            other.explain(feature_names=["x0", "x1"]) + part,
        ):
            close(total.base_values, part.base_values + other.base)
            close(total.outputs, part.outputs + other.explain().outputs)
            close(total[1].base_values, (part.base_values + other.base)[[1]])

    @pytest.mark.parametrize(
        ("options", "names"),
        [({"n": 3}, None), ({"rows": 3}, None), ({"k": 2}, None), ({}, list("abcd"))],
        ids=["features", "rows", "outputs", "names"],
    )
    def test_what_does_not_match(self, options, names):
        ex, other = Game(1).explain(), Game(1, **options).explain(feature_names=names)
        for act in (lambda a, b: a + b, lambda a, b: a - b):
            with pytest.raises(ValueError, match="can be added when they have the same rows, features and outputs"):
                act(ex, other)

    @pytest.mark.parametrize("other", [1, 1.5, "text", None, [1, 2]])
    def test_what_cannot_be_added(self, other):
        ex = Game(1).explain()
        for act in (lambda: ex + other, lambda: other + ex, lambda: ex - other, lambda: other - ex):
            with pytest.raises(TypeError):
                act()

    @pytest.mark.parametrize("factor", ["text", None, [1, 2], np.ones(2), np.ones((2, 4))])
    def test_what_cannot_multiply(self, factor):
        ex = Game(1).explain()
        for act in (lambda: ex * factor, lambda: factor * ex, lambda: ex / factor):
            with pytest.raises(TypeError):
                act()
        with pytest.raises(TypeError):
            ex * ex


# Conversions ---------------------------------------------------------------------------------------------------------


class TestShap:
    @pytest.mark.parametrize("k", [1, 3])
    def test_shapes_sums_and_names(self, k):
        pytest.importorskip("shap")
        data = np.arange(8.0).reshape(2, 4)
        ex = Game(1, k=k).explain(feature_names=list("abcd"), output_names=list("rgb")[:k], data=data)
        found = ex.to_shap()
        dropped = (k,) if k > 1 else ()
        assert found.values.shape == (2, 4, *dropped)
        assert found.base_values.shape == (2, *dropped)
        assert found.feature_names == list("abcd")
        assert np.array_equal(found.data, data)
        assert np.array_equal(found.values, ex.values)
        close(found.base_values + found.values.sum(axis=1), ex.outputs)
        if k > 1:
            assert list(found.output_names) == list("rgb")
            assert found[:, :, "g"].values.tolist() == ex.values[..., 1].tolist()
        assert found[1].values.shape == (4, *dropped)
        assert found[1, "c"].data == 6.0

    def test_without_data(self):
        pytest.importorskip("shap")
        found = Game(1).explain().to_shap()
        assert found.data is None
        assert found[0].values.shape == (4,)

    def test_of_a_restriction(self):
        pytest.importorskip("shap")
        part = Game(1, rows=3).explain().restrict([1, 2])
        found = part.to_shap()
        assert np.array_equal(found.base_values, part.base_values)
        close(found.base_values + found.values.sum(axis=1), part.outputs)

    def test_is_a_copy(self):
        pytest.importorskip("shap")
        ex = Game(1).explain(data=np.ones((2, 4)))
        found = ex.to_shap()
        found.values[:], found.base_values[:], found.data[:] = 0, 0, 0
        found.feature_names[0] = "changed"
        same(ex, Game(1).explain())
        assert ex.data.all()

    @pytest.mark.parametrize("name", ["bar", "beeswarm", "waterfall"])
    def test_its_plots_work(self, name):
        shap = pytest.importorskip("shap")
        pyplot = pytest.importorskip("matplotlib.pyplot")
        found = Game(1, rows=5).explain(data=np.random.default_rng(0).normal(size=(5, 4))).to_shap()
        with np.errstate(all="ignore"):
            getattr(shap.plots, name)(found[0] if name == "waterfall" else found, show=False)
        assert pyplot.get_fignums()
        pyplot.close("all")

    def test_without_shap_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "shap", None)
        with pytest.raises(ImportError, match=re.escape("this needs shap: pip install 'harsanyinet[shap]'")):
            Game(1).explain().to_shap()

    @pytest.mark.parametrize(
        ("cell", "kind"), [(1, "f"), (2.5, "f"), (True, "f"), (None, "f"), (pd.NA, "f"), ("a", "O"), ("1", "O")]
    )
    def test_numbers_are_floats(self, cell, kind):
        cells = np.array([[1, 2.5, True, cell]] * 3, dtype=object)
        found = Game(1, rows=3).explain(data=cells).to_shap().data
        assert found.dtype.kind == kind
        if kind == "f":
            np.testing.assert_array_equal(found[0], [1, 2.5, 1, np.nan if pd.isna(cell) else float(cell)])

    def test_a_violin_can_be_drawn(self):
        shap, plt = pytest.importorskip("shap"), pytest.importorskip("matplotlib.pyplot")
        frame = np.random.default_rng(0).normal(size=(40, 4)).astype(object)
        ex = Game(2, rows=40, k=2).explain(data=frame, output_names=["no", "yes"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shap.plots.violin(ex.output("yes").to_shap(), show=False)
        plt.close("all")


class TestShapiq:
    @pytest.mark.parametrize(
        ("name", "order"),
        [("SV", 1), ("BV", 1), *product(("SII", "BII", "STII", "k-SII", "FSII", "Moebius"), (1, 2, 4))],
    )
    def test_equals_what_shapiq_computes(self, name, order):
        shapiq = pytest.importorskip("shapiq")
        game = Game(1, n=4, rows=2, k=2, count=9)
        ex = game.explain()

        def play(masks):
            return np.array([game.v(frozenset(np.flatnonzero(m)))[1, 0] for m in np.asarray(masks, dtype=bool)])

        found = ex.to_shapiq(1, name, order, output=0)
        reference = shapiq.ExactComputer(play, n_players=4)(name, order=order)
        assert isinstance(found, shapiq.InteractionValues)
        if name != "Moebius":  # of which shapiq computes all orders whatever it is asked for
            assert found.index == reference.index
            assert found.max_order == reference.max_order == order
        assert found.n_players == 4
        assert found.baseline_value == reference.baseline_value == game.base[0]
        # shapiq solves FSII by least squares with huge weights on both ends, and is itself good to 1e-9 there.
        tolerance = 1e-7 if name == "FSII" else 1e-12
        for size in range(1, order + 1):
            for members in combinations(range(4), size):
                assert abs(found[members] - reference[members]) < tolerance, members

    def test_what_its_plots_ask_for(self):
        pytest.importorskip("shapiq")
        ex = Game(1, n=4, count=15).explain()
        found = ex.to_shapiq(0, "k-SII", 2)
        first, second = found.get_n_order_values(1), found.get_n_order_values(2)
        own = ex.index("k-SII", 2)
        assert found[()] == found.baseline_value == ex.base_values
        for i in range(4):
            assert first[i] == own[(i,)][0]
        for i, j in combinations(range(4), 2):
            assert second[i, j] == second[j, i] == own[(i, j)][0]
        assert set(found.get_n_order(2).interaction_lookup) == set(combinations(range(4), 2))
        assert set(found.get_n_order(1).dict_values) == {(i,) for i in range(4)}
        assert len(found.get_top_k(3).dict_values) >= 3
        close(found.values.sum(), ex.outputs[0])

    @pytest.mark.parametrize("plot", ["plot_network", "plot_waterfall", "plot_stacked_bar"])
    def test_its_plots_work(self, plot):
        pytest.importorskip("shapiq")
        pyplot = pytest.importorskip("matplotlib.pyplot")
        getattr(Game(1, count=15).explain().to_shapiq(0, "k-SII", 2), plot)(show=False)
        assert pyplot.get_fignums()
        pyplot.close("all")

    def test_thirty_features_stay_sparse(self):
        pytest.importorskip("shapiq")
        coalitions = np.zeros((29, 30), dtype=bool)
        coalitions[np.arange(29), np.arange(29)] = coalitions[np.arange(29), np.arange(1, 30)] = True
        ex = Explanation(base_values=np.zeros(1), coalitions=coalitions, dividends=np.ones((1, 29, 1)))
        for name, order in (("SII", 2), ("k-SII", 3), ("Moebius", 30)):
            found = ex.to_shapiq(0, name, order)
            assert len(found.interaction_lookup) == len(found.values) == 1 + 30 + 29
        assert found.get_n_order(2).values.tolist() == [1.0] * 29

    def test_the_largest_output_of_the_row_unless_another_is_named(self):
        pytest.importorskip("shapiq")
        ex = Game(7, k=3, rows=4).explain(output_names=["red", "green", "blue"])
        for row in (0, 1, 2, 3, -1):
            largest = int(np.argmax(ex.outputs[row]))
            found = ex.to_shapiq(row, "SV", 1)
            for i in range(4):
                assert abs(found[(i,)] - ex.values[row, i, largest]) < 1e-12
            assert found.baseline_value == ex.base_values[largest]
            named = ex.to_shapiq(row, "SV", 1, output="blue")
            assert abs(named[(2,)] - ex.values[row, 2, 2]) < 1e-12

    def test_of_a_restriction(self):
        pytest.importorskip("shapiq")
        part = Game(1, n=5, rows=3, count=20).explain().restrict([1, 2])
        found = part.to_shapiq(2, "STII", 2)
        assert found.baseline_value == part.base_values[2]
        close(found.values.sum(), part.outputs[2])

    @pytest.mark.parametrize("name", INDICES)
    def test_the_default_order_suits_every_index_and_a_single_feature(self, name):
        pytest.importorskip("shapiq")
        assert Game(1).explain().to_shapiq(0, name).max_order == (1 if name in ("SV", "BV") else 2)
        assert Game(1, n=1, count=1).explain().to_shapiq(0, name).max_order == 1

    def test_without_shapiq_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "shapiq", None)
        with pytest.raises(ImportError, match=re.escape("this needs shapiq: pip install 'harsanyinet[shapiq]'")):
            Game(1).explain().to_shapiq(0)

    @pytest.mark.parametrize("plot", ["network", "si_graph", "stacked_bar", "force", "waterfall", "upset"])
    def test_plots_show_names(self, plot):
        import matplotlib.pyplot as plt
        from matplotlib.text import Text

        names = ["the first of all", "second", "third", "fourth"]
        found = Game(3, rows=2, count=12).explain(feature_names=names).to_shapiq(0, "k-SII", 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(found, f"plot_{plot}")(show=False)
            texts = " ".join(t.get_text() for t in plt.gcf().findobj(Text))
            plt.close("all")
            getattr(found, f"plot_{plot}")(feature_names=list("wxyz"), show=False)
        assert "the first of all" in texts
        assert "the first of all" not in " ".join(t.get_text() for t in plt.gcf().findobj(Text))
        plt.close("all")


class TestFrame:
    @pytest.mark.parametrize("k", [1, 3])
    @pytest.mark.parametrize("kind", [None, "float", "mixed"])
    def test_one_line_per_row_output_and_feature(self, k, kind):
        data = {
            None: None,
            "float": np.arange(8.0).reshape(2, 4),
            "mixed": np.array([["a", 1, None, 2.5], ["b", 2, True, np.nan]], dtype=object),
        }[kind]
        ex = Game(1, k=k).explain(feature_names=list("wxyz"), output_names=list("rgb")[:k], data=data)
        frame = ex.to_frame()
        assert list(frame.columns) == ["row", "output", "feature", "data", "shapley_value"]
        assert len(frame) == 2 * k * 4
        lines = frame.itertuples(index=False)
        for row, output, feature in product(range(2), range(k), range(4)):
            line = next(lines)
            assert (line.row, line.output, line.feature) == (row, "rgb"[output], "wxyz"[feature])
            assert line.shapley_value == ex.values.reshape(2, 4, k)[row, feature, output]
            cell = np.nan if data is None else data[row, feature]
            assert line.data == cell or (pd.isna(line.data) and pd.isna(cell))

    def test_of_no_rows(self):
        frame = Game(1, rows=0, k=2).explain().to_frame()
        assert len(frame) == 0
        assert list(frame.columns) == ["row", "output", "feature", "data", "shapley_value"]

    def test_pivots_back_to_the_values(self):
        ex = Game(1, rows=3).explain(feature_names=["b", "a", "d", "c"])
        wide = ex.to_frame().pivot(index="row", columns="feature", values="shapley_value")
        assert np.array_equal(wide[ex.feature_names].to_numpy(), ex.values)


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "some.explanation"

    @pytest.mark.parametrize("k", [1, 3])
    @pytest.mark.parametrize("rows", [0, 1, 3])
    @pytest.mark.parametrize("dtype", [None, np.float64, np.float32, np.int64, bool])
    def test_numbers_come_back_to_the_bit(self, path, k, rows, dtype):
        data = None if dtype is None else (np.arange(rows * 4).reshape(rows, 4) - 3).astype(dtype)
        ex = Game(1, rows=rows, k=k).explain(
            feature_names=["a", "b", "naïve\n", "<d>"], output_names=list("rgb")[:k], data=data
        )
        ex.save(path)
        back = Explanation.load(path)
        same(back, ex)
        if dtype is None:
            assert back.data is None
        else:
            assert back.data.dtype == dtype
            assert np.array_equal(back.data, data)

    def test_missing_and_infinite_numbers(self, path):
        data = np.array([[np.nan, np.inf, -np.inf, -0.0]])
        Game(1, rows=1).explain(data=data).save(path)
        assert np.array_equal(Explanation.load(path).data, data, equal_nan=True)

    def test_mixed_data_keeps_its_types(self, path):
        data = np.array(
            [["text", 3, True, 2.5], [np.str_("<b>"), np.int64(4), np.bool_(False), np.float32(0.5)]], object
        )
        Game(1).explain(data=data).save(path)
        back = Explanation.load(path).data
        assert back.dtype == object
        assert back.tolist() == [["text", 3, True, 2.5], ["<b>", 4, False, 0.5]]
        assert [[type(cell) for cell in line] for line in back.tolist()] == [[str, int, bool, float]] * 2

    @pytest.mark.parametrize("missing", [None, np.nan, np.float64("nan"), pd.NA, pd.NaT], ids=repr)
    def test_what_is_missing_in_mixed_data_stays_missing(self, path, missing):
        data = np.array([["a", missing, 1, 2]], dtype=object)
        Game(1, rows=1).explain(data=data).save(path)
        back = Explanation.load(path).data[0].tolist()
        assert [back[0], *back[2:]] == ["a", 1, 2]
        assert pd.isna(back[1])

    def test_what_is_infinite_in_mixed_data_is_not_lost(self, path):
        data = np.array([["a", np.inf, -np.inf, 2]], dtype=object)
        Game(1, rows=1).explain(data=data).save(path)
        assert Explanation.load(path).data.tolist() == data.tolist()

    @pytest.mark.parametrize("unit", ["D", "s", "ns"])
    def test_dates_are_read_as_dates(self, path, unit):
        data = np.full((1, 4), "2024-02-29", dtype=f"datetime64[{unit}]")
        Game(1, rows=1).explain(data=data).save(path)
        assert all(str(cell).startswith("2024-02-29") for cell in Explanation.load(path).data[0])

    @pytest.mark.parametrize("cell", [(1, 2), [1, 2], np.arange(2), pd.Timestamp("2024-02-29"), {"a": 1}], ids=repr)
    def test_a_cell_of_any_other_kind_becomes_text(self, path, cell):
        data = np.full((1, 4), "text", dtype=object)
        data[0, 2] = cell
        Game(1, rows=1).explain(data=data).save(path)
        assert Explanation.load(path).data.tolist() == [["text", "text", str(cell), "text"]]

    def test_strings_of_fixed_width_and_no_rows(self, path):
        Game(1, rows=1).explain(data=np.array([["a", "bb", "", "d"]])).save(path)
        assert Explanation.load(path).data.tolist() == [["a", "bb", "", "d"]]
        Game(1, rows=0).explain(data=np.empty((0, 4), dtype=object)).save(path)
        assert Explanation.load(path).data.shape == (0, 4)

    @pytest.mark.parametrize("k", [1, 2])
    def test_a_restriction_keeps_one_base_per_row(self, path, k):
        part = Game(1, n=5, rows=3, k=k, count=20).explain().restrict([3, 0])
        part.save(path)
        back = Explanation.load(path)
        same(back, part)
        same(back[1], part[1])

    def test_lazy_dividends_are_written(self, path):
        game = Game(1)
        ex = Explanation(
            base_values=game.base,
            coalitions=game.masks,
            dividends=lambda: game.dividends,
            values=game.explain().values[..., None],
        )
        ex.save(path)
        same(Explanation.load(path), game.explain())

    def test_no_coalition(self, path):
        ex = Game(1, count=0).explain()
        ex.save(path)
        same(Explanation.load(path), ex)

    def test_an_explanation_answers_without_what_made_it(self, path):
        game = Game(1, n=4, k=2, count=9)
        game.explain().save(path)
        back = Explanation.load(path)
        close(back.value(mask_of({0, 2}, 4)), game.v(frozenset({0, 2})))
        close(back.restrict([1]).values[:, 0], game.v(frozenset(range(4))) - game.v(frozenset({0, 2, 3})))

    def test_another_kind_of_file(self, path):
        from harsanyinet.files import ModelFileError, save_arrays

        save_arrays(path, "model", {}, {})
        with pytest.raises(ModelFileError, match=r"cannot load an explanation from .* it holds a model"):
            Explanation.load(path)
        with pytest.raises(FileNotFoundError, match="there is no such file"):
            Explanation.load(path.with_name("other"))


@pytest.mark.parametrize("travel", [lambda ex: pickle.loads(pickle.dumps(ex)), copy.deepcopy, copy.copy])
@pytest.mark.parametrize("k", [1, 3])
def test_pickle_and_copy(travel, k):
    game = Game(1, rows=3, k=k)
    data = np.array([["a", 1, None, 2.5]] * 3, dtype=object)
    lazy = Explanation(
        base_values=game.base,
        coalitions=game.masks,
        dividends=lambda: game.dividends,  # a function of this scope: it cannot be pickled
        values=shapley(game.v, 4),
        feature_names=list("wxyz"),
        data=data,
    )
    for ex in (lazy, lazy[1:], lazy * 2, lazy + lazy, lazy.restrict([2, 0])):
        back = travel(ex)
        same(back, ex)
        assert back.data.tolist() == ex.data.tolist()


# For people ----------------------------------------------------------------------------------------------------------


class TestRepr:
    def test_counts_and_the_strongest_features(self):
        ex = Explanation(
            base_values=np.zeros(1),
            coalitions=np.eye(7, dtype=bool),
            dividends=np.array([[1.0], [-7.0], [2.0], [3.0], [0.0], [-5.0], [6.0]])[None],
            feature_names=["one", "seven", "two", "three", "none", "five", "six"],
        )
        assert repr(ex) == (
            "Explanation(1 rows, 7 features, 1 outputs, 7 coalitions)\n"
            "  mean |value|: seven 7, six 6, five 5, three 3, two 2, ..."
        )
        assert repr(ex.restrict(["two", "six"])).endswith("mean |value|: six 6, two 2")

    def test_no_rows(self):
        ex = Game(1, rows=0).explain()
        assert repr(ex) == "Explanation(0 rows, 4 features, 1 outputs, 6 coalitions)"
        assert "0 rows" in ex._repr_html_()

    @pytest.mark.parametrize("k", [1, 2, 5])
    @pytest.mark.parametrize("rows", [1, 2, 20])
    def test_html_is_well_formed(self, k, rows):
        from xml.etree import ElementTree

        names = [f"feature <{i}> & 'more'" for i in range(12)]
        ex = Game(1, n=12, rows=rows, k=k, count=50).explain(feature_names=names, data=np.ones((rows, 12)))
        page = ElementTree.fromstring(ex._repr_html_())
        table = page.find("table")
        head, lines = table.find("thead/tr"), table.findall("tbody/tr")
        assert 0 < len(lines) <= 12
        assert {len(list(line)) for line in lines} == {len(list(head))}
        assert len(list(head)) == 1 + min(rows, 3) * min(k, 3)
        strongest = int(np.argmax(np.abs(ex.values[:3].reshape(-1, 12, k)).mean(axis=(0, 2))))
        assert lines[0].find("th").text == names[strongest]
        assert f"{ex.outputs.reshape(rows, k)[0, 0]:.4g}" in list(head)[1].text

    def test_bars_show_size_and_sign(self):
        ex = Explanation(
            base_values=np.zeros(1), coalitions=np.eye(3, dtype=bool), dividends=np.array([[[-4.0], [2.0], [1.0]]])
        )
        bars = re.findall(r"width:(\d+)px;background:(#\w+)", ex._repr_html_())
        widths = [int(width) for width, _ in bars]
        assert 150 > widths[0] > widths[1] > widths[2]
        assert abs(widths[0] / widths[1] - 2) < 0.1  # whole pixels
        assert abs(widths[0] / widths[2] - 4) < 0.3
        assert bars[0][1] != bars[1][1] == bars[2][1]

    def test_names_and_data_cannot_inject(self):
        evil = "<script>alert('x')</script>"
        data = np.array([[evil, 1, None, 2.5]], dtype=object)
        ex = Game(1, rows=1, k=2).explain(
            feature_names=[evil, "a&b", '"quoted"', "d"], output_names=[evil, "<b>"], data=data
        )
        page = ex._repr_html_()
        assert "<script" not in page
        assert "<b>" not in page
        assert page.count("&lt;script&gt;") == 4  # the feature, one output, and the data under both outputs

    def test_says_when_it_does_not_show_everything(self):
        assert "first rows" not in Game(1, n=4, rows=3).explain()._repr_html_()
        assert "first rows" in Game(1, n=4, rows=4).explain()._repr_html_()
        assert "first rows" in Game(1, n=12, rows=3, count=50).explain()._repr_html_()

    def test_all_values_zero(self):
        game = Game(1)
        game.dividends[:] = 0
        assert "nan" not in game.explain()._repr_html_()


# Errors --------------------------------------------------------------------------------------------------------------


class TestOutput:
    @pytest.mark.parametrize("restricted", [False, True])
    def test_one_output_answers_as_that_output_of_all(self, restricted):
        data = np.arange(20.0).reshape(5, 4)
        ex = Game(3, rows=5, k=3).explain(
            data=data, output_names=["a", "b", "c"], row_names=list("vwxyz"), scale="logit"
        )
        ex = ex.restrict([0, 2, 3]) if restricted else ex
        one = ex.output("b")
        assert one.output_names == ["b"]
        assert one.output_label(0) == "logit of b"
        assert one.row_names == list("vwxyz")
        np.testing.assert_array_equal(one.data, ex.data)
        mask = np.arange(ex.n_features) != 1
        close(one.values, ex.values[..., 1])
        close(one.base_values, ex.base_values[..., 1])
        close(one.dividends, ex.dividends[..., 1])
        close(one.outputs, ex.outputs[..., 1])
        close(one.value(mask), ex.value(mask)[..., 1])
        close(one.index("SII", 2).values, ex.index("SII", 2).values[..., 1])
        close(one[1:3].values, ex.values[1:3, :, 1])
        close(one.order_spectrum().sum(), 1)
        close(one.missingness(0.5).variance, ex.missingness(0.5).variance[..., 1])
        same(ex.output(1), one)
        assert one.to_shap().values.shape == one.values.shape
        with pytest.raises(ValueError, match=r"unknown output 'd'"):
            ex.output("d")

    def test_one_output_of_one(self):
        ex = Game(1).explain()
        same(ex.output(0), ex)


class TestRowNames:
    def test_rows_are_found_by_label(self):
        ex = Game(1, rows=3).explain(row_names=["x", pd.Timestamp("2024-01-01"), ("a", 1)])
        assert [ex.row_position(r) for r in ("x", pd.Timestamp("2024-01-01"), ("a", 1), 1, -1)] == [0, 1, 2, 1, 2]
        assert ex[1:].row_position(("a", 1)) == 1
        assert ex.row_label(0) == "x"
        assert ex.top_interactions("x").sets == ex.top_interactions(0).sets
        close(ex.contrast(("a", 1), "x"), ex.contrast(2, 0))
        with pytest.raises(ValueError, match=r"position or a label, such as 'x', .*, however: no row has 'z'"):
            ex.row_position("z")
        with pytest.raises(ValueError, match=r"however: several rows have 'x'"):
            Game(1, rows=2).explain(row_names=["x", "x"]).row_position("x")
        with pytest.raises(ValueError, match=r"must be a position, since the rows have no labels, however: row='x'"):
            Game(1).explain().row_position("x")
        with pytest.raises(ValueError, match=r"row_names must be 3 labels, however: 2"):
            Game(1, rows=3).explain(row_names=["x", "y"])

    @pytest.mark.parametrize(
        "index",
        [
            pd.Index(["p", "q", "r"]), pd.Index([7, 3, 5]), pd.date_range("2024-01-01", periods=3),
            pd.MultiIndex.from_product([["a"], [1, 2, 3]]),
        ],
    )  # fmt: skip
    def test_a_frame_keeps_them(self, index):
        ex = Game(2, rows=3, k=2).explain(row_names=index)
        assert ex.to_frame()["row"].tolist() == [label for label in index for _ in range(2 * ex.n_features)]
        assert ex[[2, 0]].to_frame()["row"].unique().tolist() == [index[2], index[0]]
        if isinstance(index, pd.DatetimeIndex):
            assert ex.to_frame()["row"].dtype.kind == "M"

    def test_a_file_keeps_them(self, tmp_path):
        ex = Game(1, rows=2).explain(row_names=["x", 5], scale="log-odds", output_names=["yes"])
        ex.save(tmp_path / "e")
        found = Explanation.load(tmp_path / "e")
        assert found.row_names == ["x", 5]
        assert found.output_label(0) == "log-odds of yes"


def test_what_an_output_is_called():
    assert Game(1).explain().output_label(0) == "raw output"
    assert Game(2, k=2).explain().output_label(1) == "raw output of output 1"
    assert Game(1).explain(scale=None, output_names=["price"]).output_label(0) == "price"


class TestFeatures:
    """How features are named, by `restrict`; groups go the same way."""

    @pytest.fixture
    def ex(self):
        return Game(0).explain(feature_names=["age", "sex", "income", "city"])

    @pytest.mark.parametrize(
        ("players", "message"),
        [
            (["incom"], "unknown feature 'incom'; did you mean 'income'?"),
            (["age", "zzz"], "unknown feature 'zzz'; known are age, sex, income, city"),
            ([4], "feature must lie between 0 and 3, however: 4"),
            ([-1], "feature must lie between 0 and 3, however: -1"),
            ([1.0], "unknown feature 1.0; known are age, sex, income, city"),
            (["age", "sex", "age"], "each feature may be named once, however: ['age', 'sex', 'age']"),
            (["age", 0], "each feature may be named once, however: ['age', 0]"),
        ],
    )
    def test_wrong_ones(self, ex, players, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            ex.restrict(players)

    def test_a_string_is_not_a_list(self, ex):
        with pytest.raises(TypeError, match="features come as a list of names or positions, however: the string 'age'"):
            ex.restrict("age")

    def test_a_mask_is_not_a_list_of_positions(self):
        """`value` takes masks; here [False, True] would pass for the positions 0 and 1."""
        ex = Game(0, n=2, count=3).explain()
        for mask in ([False, True], np.array([False, True])):
            with pytest.raises((TypeError, ValueError), match="however: "):
                ex.restrict(mask)

    def test_many_names_are_not_all_listed(self):
        names = [f"column {i}" for i in range(30)]
        ex = Explanation(
            base_values=np.zeros(1),
            coalitions=np.eye(30, dtype=bool),
            dividends=np.ones((1, 30, 1)),
            feature_names=names,
        )
        with pytest.raises(ValueError, match="unknown feature 'zzz'; known are column 0") as caught:
            ex.restrict(["zzz"])
        assert "column 29" not in str(caught.value)


class TestConstructor:
    def build(self, **changes):
        game = Game(0, n=3, rows=2, k=2, count=4)
        options = {"base_values": game.base, "coalitions": game.masks, "dividends": game.dividends} | changes
        return Explanation(**options)

    @pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1), (2, 4, 2)])
    def test_values_of_the_wrong_shape(self, shape):
        with pytest.raises(ValueError, match=re.escape(f"values must have shape (rows, 3, 2), however: {shape}")):
            self.build(values=np.zeros(shape))

    @pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "b"], ["a", "b", "c", "d"], [1, "1", 2]])
    def test_feature_names_that_do_not_fit(self, names):
        with pytest.raises(ValueError, match=r"feature_names must be 3 different names, however: \["):
            self.build(feature_names=names)

    @pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], [], ["a", "a"]])
    def test_output_names_that_do_not_fit(self, names):
        with pytest.raises(ValueError, match=r"output_names must be 2 different names, however: \["):
            self.build(output_names=names)

    @pytest.mark.parametrize("shape", [(2, 2), (3, 3), (6,), (1, 3)])
    def test_data_of_the_wrong_shape(self, shape):
        with pytest.raises(ValueError, match=re.escape(f"data must have shape (2, 3), however: {shape}")):
            self.build(data=np.zeros(shape))

    @pytest.mark.parametrize("shape", [(2, 4), (2, 3, 2), (2, 4, 1), (3, 4, 2)])
    @pytest.mark.parametrize("lazy", [False, True])
    def test_dividends_of_the_wrong_shape(self, shape, lazy):
        """With values given, nothing else would notice."""
        dividends = np.zeros(shape)
        with pytest.raises(ValueError, match=re.escape(f"however: {shape}")):
            self.build(dividends=(lambda: dividends) if lazy else dividends, values=np.zeros((2, 3, 2))).dividends  # noqa: B018

    def test_base_values_of_the_wrong_number_of_rows(self):
        with pytest.raises(ValueError, match=re.escape("however: (3, 2)")):
            self.build(base_values=np.zeros((3, 2)))

    def test_a_coalition_twice(self):
        with pytest.raises(ValueError, match="coalitions must differ from each other, however: "):
            self.build(coalitions=np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 1]], dtype=bool))

    @pytest.mark.parametrize("coalitions", [np.ones((4, 3), dtype=int), np.ones(3, dtype=bool)])
    def test_coalitions_that_are_not_masks(self, coalitions):
        with pytest.raises(ValueError, match=r"coalitions must be \(C, P\) bool"):
            self.build(coalitions=coalitions)

    def test_an_empty_coalition(self):
        with pytest.raises(ValueError, match="however: "):
            self.build(coalitions=np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool))
