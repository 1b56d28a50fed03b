"""The object that users hold: shapes, v(S), sub-games, rows and sums, against enumeration of the game it came from."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sparse_games import Game, close, exact, games, mask_of, same, shapley, subsets, with_k

from harsanyinet import Explanation
from harsanyinet.games import brute_force_shapley


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


class TestOutput:
    @pytest.mark.parametrize("restricted", [False, True])
    @pytest.mark.needs("shap")
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
