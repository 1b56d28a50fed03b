"""The fewest features that keep a decision, against enumeration of all sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_games import Game, exact, games, subsets

from harsanyinet import Explanation
from harsanyinet.explanations import minimal_set


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

        monkeypatch.setattr(minimal_set.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(scipy.optimize, "milp", errs)
        ex = Explanation(base_values=np.zeros(1), coalitions=np.ones((1, 3), dtype=bool), dividends=np.ones((1, 1, 1)))
        with pytest.raises(RuntimeError, match=r"^the smallest set was not found within 0.5 s: solved$"):
            ex.smallest_set(0, time_limit=0.5)
        np.testing.assert_allclose(allowed, [0.5, 0.3, 0.1])
