"""Answers that are more than one sum of dividends: orders, missing features, probabilities, strongest sets."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sparse_games import Game, close, exact, games, shapley, subsets, with_k

from harsanyinet import Explanation


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
