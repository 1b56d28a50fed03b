"""Answers that are more than one sum of dividends: orders, missing features, probabilities, sets."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_games import Game, close, exact, games, shapley, subsets, with_k

from harsanyinet import Explanation
from harsanyinet.explanations import answers


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
        """A solver that always errs, and takes 0.2 seconds of a clock that nothing else moves."""
        import scipy.optimize

        now, allowed = [100.0], []

        def errs(objective, *, options, **problem):
            allowed.append(options["time_limit"])
            now[0] += 0.2
            return scipy.optimize.OptimizeResult(x=np.zeros_like(objective), status=0, message="solved")

        monkeypatch.setattr(answers.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(scipy.optimize, "milp", errs)
        ex = Explanation(base_values=np.zeros(1), coalitions=np.ones((1, 3), dtype=bool), dividends=np.ones((1, 1, 1)))
        with pytest.raises(RuntimeError, match=r"^the smallest set was not found within 0.5 s: solved$"):
            ex.smallest_set(0, time_limit=0.5)
        np.testing.assert_allclose(allowed, [0.5, 0.3, 0.1])
