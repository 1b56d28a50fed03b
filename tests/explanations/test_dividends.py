"""Dividends that are computed when something needs them, and indices that an explanation asks of them."""

from __future__ import annotations

import pickle
import re
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_games import Game, close, exact, games, random_groups, shapley, subsets, with_k

from harsanyinet import Explanation
from harsanyinet.explanations.indices import INDICES


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
