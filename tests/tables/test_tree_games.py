"""Games of random trees against brute force over plain Python loops, and look-ups against each other."""

from __future__ import annotations

import dataclasses
import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tree_oracle import Case, random_bins, random_case

from harsanyinet import Explanation
from harsanyinet.explanations.indices import INDICES, index_weights
from harsanyinet.games import all_masks, brute_force_shapley, evaluate, harsanyi_dividends
from harsanyinet.tables import look_ups, tree_games
from harsanyinet.tables.look_ups import LookUp, Paths, in_chunks
from harsanyinet.tables.tree_games import TreeDividends, TreeGame, applied

GAMES = ["missing", "marginal", "baseline"]
relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
cases = st.builds(random_case, st.integers(0, 2**32 - 1), n_players=st.integers(1, 5), n_outputs=st.integers(1, 3))
games = st.sampled_from(GAMES)


def game_of(case: Case, name: str) -> TreeGame:
    return TreeGame(case.trees, name, case.background[:, :1] if name == "baseline" else None)


def explanation(case: Case, name: str, rows: np.ndarray | None = None, n_threads: int = 1) -> Explanation:
    game = game_of(case, name)
    return Explanation(
        base_values=game.base, dividends=TreeDividends(game, case.rows if rows is None else rows, n_threads), copy=False
    )


def played(case: Case, name: str, row: int):
    return case.game(name, case.rows[:, row], case.background[:, 0])


# Against brute force


@relaxed
@given(cases, games)
def test_shapley_values_equal_brute_force(case, name):
    ex = explanation(case, name)
    n, k = case.n_players, len(case.base)
    values = ex.values.reshape(-1, n, k)
    tolerance = 1e-12 * case.scale()
    for row in range(len(values)):
        game = played(case, name, row)
        np.testing.assert_allclose(values[row], brute_force_shapley(game, n), 0, tolerance)
        both = game(np.array([[False] * n, [True] * n]))
        np.testing.assert_allclose(ex.base_values.reshape(k), both[0], 0, tolerance)
        np.testing.assert_allclose(ex.outputs[row].reshape(k), both[1], 0, tolerance)
        np.testing.assert_allclose(both[1], case.output(case.rows[:, row]), 0, tolerance)  # nothing is replaced


@relaxed
@given(cases, games)
def test_dividends_and_values_of_all_coalitions_equal_brute_force(case, name):
    ex = explanation(case, name)
    n, k = case.n_players, len(case.base)
    codes = ex.coalitions @ (1 << np.arange(n))
    for row in range(len(ex)):
        game = played(case, name, row)
        own = np.zeros((2**n, k))
        own[codes] = ex.dividends[row].reshape(len(codes), k)
        # by brute force a dividend is a signed sum of up to 2^5 outputs, each with its own rounding
        np.testing.assert_allclose(own, harsanyi_dividends(game, n), 0, 32e-12 * case.scale())
        found = ex[row].value(all_masks(n)).reshape(-1, k)
        np.testing.assert_allclose(found, evaluate(game, n), 0, 1e-12 * case.scale())
    for mask in all_masks(n):  # one mask for all rows
        expected = [played(case, name, row)(mask[None])[0] for row in range(len(ex))]
        np.testing.assert_allclose(ex.value(mask).reshape(-1, k), expected, 0, 1e-12 * case.scale())


@settings(relaxed, max_examples=40)
@given(cases, games, st.sampled_from(INDICES), st.integers(1, 5))
def test_every_index_equals_that_of_the_dividends_by_brute_force(case, name, index, order):
    n, k = case.n_players, len(case.base)
    order = 1 if index in ("SV", "BV") else min(order, n)
    found = explanation(case, name).index(index, order)
    sets, weights = index_weights(all_masks(n)[1:], index, order)
    for row in range(case.rows.shape[1]):
        expected = weights.T @ harsanyi_dividends(played(case, name, row), n)[1:]
        for members, value in zip(sets, expected, strict=True):
            # signed sums of 2^5 outputs with weights of up to ten (Bernoulli numbers, FSII)
            np.testing.assert_allclose(found[members][row].reshape(k), value, 0, 3e-10 * case.scale())
    assert set(found.sets) <= set(sets)


@settings(relaxed, max_examples=25)
@given(st.integers(0, 2**32 - 1), games)
def test_indices_by_their_textbook_definitions(seed, name):
    """By discrete derivatives of the game, without dividends."""
    n = 4
    case = random_case(seed, n, 1, n_trees=3, n_rows=1, n_background=4)
    table = evaluate(played(case, name, 0), n)[:, 0]
    ex = explanation(case, name)

    def derivative(s, t):
        parts = (sub for r in range(len(s) + 1) for sub in combinations(s, r))
        return sum((-1) ** (len(s) - len(sub)) * table[sum(1 << i for i in (*t, *sub))] for sub in parts)

    for size in (1, 2, 3):
        found = {index: ex.index(index, order=size) for index in ("SII", "BII", "STII", "Moebius")}
        for s in combinations(range(n), size):
            rest = [i for i in range(n) if i not in s]
            outside = [t for r in range(len(rest) + 1) for t in combinations(rest, r)]
            expected = {
                "SII": sum(derivative(s, t) / ((n - size + 1) * comb(n - size, len(t))) for t in outside),
                "BII": sum(derivative(s, t) for t in outside) / 2 ** (n - size),
                "STII": size / n * sum(derivative(s, t) / comb(n - 1, len(t)) for t in outside),
                "Moebius": derivative(s, ()),
            }
            for index, value in expected.items():
                np.testing.assert_allclose(found[index][s][0], value, 0, 16e-12 * case.scale(), err_msg=f"{index} {s}")


@relaxed
@given(cases, games)
def test_the_same_numbers_for_full_rows_by_smaller_tables(case, name):
    """Rows with all columns have look-ups of their own; a row with an absent cell beside them must not change them."""
    rng = np.random.default_rng(0)
    full = random_bins(rng, case.player_of, 4, 0.0)
    beside = np.concatenate([full, np.zeros_like(full[:, :1])], axis=1)
    together, alone = explanation(case, name, beside), explanation(case, name, full)
    assert TreeDividends(game_of(case, name), full).full
    assert not TreeDividends(game_of(case, name), beside).full
    np.testing.assert_array_equal(together.values[:4], alone.values)
    np.testing.assert_array_equal(together.dividends[:4], alone.dividends)


def test_games_are_checked():
    trees = random_case(0, 3, n_trees=2).trees
    with pytest.raises(ValueError, match=r"^game must be one of missing, marginal, baseline, however: 'conditional'$"):
        TreeGame(trees, "conditional")
    message = r"^the baseline game, and no other, needs baseline=, a row of reference values$"
    with pytest.raises(ValueError, match=message):
        TreeGame(trees, "baseline")
    for name in ("missing", "marginal"):
        with pytest.raises(ValueError, match=message):
            TreeGame(trees, name, np.ones((3, 1), dtype=np.uint8))


def test_the_game_of_no_trees():
    case = random_case(1, 3, 2, n_trees=0)
    for name in GAMES:
        ex = explanation(case, name)
        assert ex.values.shape == (3, 3, 2)
        assert (ex.values == 0).all()
        np.testing.assert_array_equal(ex.base_values, case.base)
        np.testing.assert_array_equal(ex.outputs, np.tile(case.base, (3, 1)))
        np.testing.assert_array_equal(ex.value([True, False, True]), np.tile(case.base, (3, 1)))
        assert ex.dividends.shape == (3, 0, 2)
        assert ex.order_spectrum().tolist() == [1, 0, 0, 0]


def test_the_three_games_differ():
    """Otherwise the tests above would prove one game three times."""
    case = random_case(5, 4, n_trees=5)
    found = [explanation(case, name).values for name in GAMES]
    assert all(np.abs(a - b).max() > 0.01 for a, b in combinations(found, 2))


# Look-ups


def many_trees(seed: int = 0, n_players: int = 6, n_trees: int = 40, n_outputs: int = 2) -> Case:
    return random_case(seed, n_players, n_outputs, n_trees=n_trees)


@pytest.mark.parametrize("absent", [0.0, 0.3])
@pytest.mark.parametrize("n_rows", [1, 15, 16, 511, 512, 513, 3000])
def test_predictions_by_numpy_and_by_kernels(n_rows, absent):
    case = many_trees()
    rows = random_bins(np.random.default_rng(1), case.player_of, n_rows, absent)
    full = absent == 0
    look_up = LookUp.of_values(case.trees, full)
    by_numpy = look_up.apply_to_few(rows)
    out = np.zeros_like(by_numpy)
    from harsanyinet.tables import kernels

    p = look_up.paths
    kernels.look_up(
        rows, 0, n_rows, p.ends, p.columns, p.thresholds, p.steps, look_up.slot_ends, look_up.slots,
        look_up.starts, p.n_states, look_up.table, out,
    )  # fmt: skip
    np.testing.assert_array_equal(out, by_numpy)  # the same sums in the same order: equal to the bit
    np.testing.assert_array_equal(look_up.apply(rows), by_numpy)
    expected = case.trees.outputs(rows) - case.base
    np.testing.assert_allclose(by_numpy.T, expected, 0, 1e-13 * case.scale())


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("absent", [0.0, 0.3])
def test_values_by_numpy_and_by_kernels(name, absent):
    case = many_trees()
    game = game_of(case, name)
    rows = random_bins(np.random.default_rng(2), case.player_of, 2500, absent)
    weights = csr_array(np.random.default_rng(3).normal(size=(len(game.coalitions), 7)))
    look_up = game.look_up(weights, full=absent == 0)
    by_kernel = look_up.apply(rows)
    np.testing.assert_array_equal(look_up.apply_to_few(rows), by_kernel)
    dividends = np.asarray(TreeDividends(game, rows[:, :50]).array())
    expected = np.einsum("bck,cn->nkb", dividends, weights.toarray()).reshape(14, 50)
    np.testing.assert_allclose(by_kernel[:, :50], expected, 0, 1e-12 * case.scale() * 10)  # normal weights: up to 4


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("n_columns", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_trees_about_two_columns_fold_into_one_table(seed, n_columns, full):
    """Curves and pair tables say what their trees say, and there is one for each pair."""
    case = random_case(seed, n_columns, 2, n_trees=8, n_rows=40)
    case = dataclasses.replace(case, rows=np.maximum(case.rows, 1)) if full else case
    trees = case.trees
    game = TreeGame(trees)
    weights = csr_array(np.random.default_rng(seed).normal(size=(len(trees.coalitions), 3)))
    for look_up in (LookUp.of_values(trees, full), game.look_up(weights, full)):
        folded = look_up.folded
        if max(len({column for column, _ in asked}) for asked in case.questions) > 2:
            assert folded is None
            continue
        assert len({tuple(pair) for pair in folded.columns.tolist()}) == len(folded.columns)
        np.testing.assert_allclose(
            look_up.apply(case.rows), look_up.apply_to_few(case.rows), atol=1e-13 * case.scale() * 10
        )


@pytest.mark.parametrize("name", GAMES)
def test_values_of_one_player_where_each_tree_is_about_one(name):
    """Tables of curves, some of which say nothing about the player that is there; rows enough for kernels."""
    from harsanyinet.tables import kernels

    assert kernels
    rng = np.random.default_rng(0)
    values = [np.append(np.zeros((1, 2)), rng.normal(size=(2, 2)), axis=0) for _ in range(3)]
    rows = random_bins(rng, [0, 1, 2], 40, 0.2)
    case = Case([0, 1, 2], rng.normal(size=2), [[(0, 2)], [(1, 3)], [(2, 1)]], values, rows[:, :7], rows)
    ex = explanation(case, name)
    for mask in np.eye(3, dtype=bool):
        expected = [played(case, name, row)(mask[None])[0] for row in range(len(ex))]
        np.testing.assert_allclose(ex.value(mask), expected, 0, 1e-12 * case.scale())


def test_few_rows_are_looked_up_in_numpy_until_kernels_are_there(monkeypatch):
    case = many_trees(n_trees=3)
    look_up = LookUp.of_values(case.trees, full=False)
    seen = []
    few = LookUp.apply_to_few
    monkeypatch.setattr(LookUp, "apply_to_few", lambda self, bins: seen.append(bins.shape[1]) or few(self, bins))
    from harsanyinet.tables import kernels

    assert kernels
    for n_rows in (1, 15, 16, 2047, 2048):
        look_up.apply(random_bins(np.random.default_rng(0), case.player_of, n_rows, 0.1))
    assert seen == [1, 15]
    monkeypatch.delitem(look_ups.sys.modules, "harsanyinet.tables.kernels")
    seen.clear()
    for n_rows in (16, 2047):
        look_up.apply(random_bins(np.random.default_rng(0), case.player_of, n_rows, 0.1))
    assert seen == [16, 2047]


@pytest.mark.parametrize("name", GAMES)
def test_two_threads_give_the_bits_of_one(name):
    case = many_trees(n_trees=8)
    rows = random_bins(np.random.default_rng(4), case.player_of, 40_000, 0.2)
    one, two = (explanation(case, name, rows, n_threads) for n_threads in (1, 2))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.value([True, False] * 3), two.value([True, False] * 3))
    look_up = LookUp.of_values(case.trees, full=False)
    np.testing.assert_array_equal(applied(look_up, rows, 1), applied(look_up, rows, 2))


def test_the_pool_is_asked_only_for_large_batches(monkeypatch):
    case = many_trees(n_trees=2)
    look_up = LookUp.of_values(case.trees, full=False)
    made = []
    monkeypatch.setattr(tree_games, "ThreadPoolExecutor", lambda n: made.append(n) or ThreadPoolExecutor(n))
    for n_rows, n_threads in ((32_767, 2), (40_000, 1), (40_000, 2)):
        applied(look_up, random_bins(np.random.default_rng(0), case.player_of, n_rows, 0.0), n_threads)
    assert made == [2]


def test_chunks_cover_every_row_once():
    for n, size in ((0, 4), (1, 4), (4, 4), (9, 4)):
        done: list[int] = []
        in_chunks(None, n, size, lambda start, stop, done=done: done.extend(range(start, stop)))
        assert done == list(range(n))
        with ThreadPoolExecutor(2) as pool:
            done.clear()
            in_chunks(pool, n, size, lambda start, stop, done=done: done.extend(range(start, stop)))
        assert sorted(done) == list(range(n))


def test_an_error_in_a_thread_is_raised():
    def work(start: int, stop: int) -> None:
        raise RuntimeError(f"rows {start} to {stop}")

    with ThreadPoolExecutor(2) as pool, pytest.raises(RuntimeError, match="rows 0 to 4"):
        in_chunks(pool, 9, 4, work)


@relaxed
@given(cases)
def test_paths_lead_to_states(case):
    trees = case.trees
    shapes = trees.shapes
    every = Paths.of(shapes)
    found = np.array([every.states_of(row) for row in case.rows.T]).T
    assert found.tolist() == [trees.states(case.rows, t).tolist() for t in range(len(trees))]
    full = random_bins(np.random.default_rng(0), case.player_of, 5, 0.0)
    found = np.array([Paths.of(shapes, full=True).states_of(row) for row in full.T]).T
    for t, shape in enumerate(shapes):
        among = np.cumsum(~shape.has_absent) - 1  # the number of a state among those with nobody absent
        assert found[t].tolist() == among[trees.states(full, t)].tolist()


# What an explanation asks


@pytest.mark.parametrize("name", GAMES)
def test_dividends_at_masks_of_every_shape(name):
    case = many_trees(n_trees=12)
    rng = np.random.default_rng(0)
    rows = random_bins(rng, case.player_of, 30, 0.2)
    own = TreeDividends(game_of(case, name), rows)
    a = own.array()
    for masks in (rng.random(6) < 0.5, rng.random((30, 6)) < 0.5):
        inside = ~(own.coalitions & ~masks[..., None, :]).any(axis=-1)
        expected = np.einsum("bc,bck->bk", np.broadcast_to(inside, (30, len(own.coalitions))).astype(float), a)
        np.testing.assert_allclose(own.at(masks), expected, 0, 1e-12 * case.scale())
    one = own.rows(np.array([7]))
    masks = rng.random((50, 6)) < 0.5  # any number of masks for one row
    inside = ~(own.coalitions & ~masks[:, None, :]).any(axis=-1)
    np.testing.assert_allclose(one.at(masks), inside.astype(float) @ a[7], 0, 1e-12 * case.scale())


@pytest.mark.parametrize("name", GAMES)
def test_chunks_of_rows_hold_few_cells_and_all_rows(name, monkeypatch):
    case = many_trees(n_trees=12)
    rows = random_bins(np.random.default_rng(0), case.player_of, 29, 0.2)
    own = TreeDividends(game_of(case, name), rows)
    whole, masks = own.array(), np.random.default_rng(1).random((29, 6)) < 0.5
    at = own.at(masks)
    cells = 5 * len(own.coalitions) * own.n_outputs
    monkeypatch.setattr(tree_games, "CELLS", cells)
    parts = own.chunks()
    assert [len(part) for part in parts] == [5] * 5 + [4]
    np.testing.assert_array_equal(np.concatenate([part.array() for part in parts]), whole)
    np.testing.assert_allclose(own.at(masks), at, 0, 1e-13 * case.scale())
    monkeypatch.setattr(tree_games, "CELLS", 1)  # a row at a time is the least
    assert [len(part) for part in own.chunks()] == [1] * 29


def test_rows_of_rows():
    case = many_trees(n_trees=12)
    rows = random_bins(np.random.default_rng(0), case.player_of, 20, 0.2)
    own = TreeDividends(game_of(case, "marginal"), rows)
    chosen = np.array([3, 3, 19, 0])
    np.testing.assert_array_equal(own.rows(chosen).array(), own.array()[chosen])
    assert len(own.rows(np.array([], dtype=int))) == 0
    assert own.rows(np.array([], dtype=int)).array().shape == (0, len(own.coalitions), 2)


def test_what_is_planned_once_is_not_planned_again():
    case = many_trees(n_trees=12)
    game = game_of(case, "missing")
    made = []
    original = game.look_up
    game.look_up = lambda weights, full: made.append((weights.shape, full)) or original(weights, full)
    full, rest = (random_bins(np.random.default_rng(0), case.player_of, 5, share) for share in (0.0, 0.5))
    for _ in range(3):
        for rows in (full, rest):
            ex = Explanation(base_values=game.base, dividends=TreeDividends(game, rows), copy=False)
            ex.index("SII", 2)
    n, c = case.n_players, len(game.coalitions)
    pairs = len(ex.index("SII", 2).sets)
    assert sorted(made) == sorted([((c, n), True), ((c, n), False), ((c, pairs), True), ((c, pairs), False)])


# An explanation by trees is that of its dividends


PAIRS = {"who": [0, "x3"], "what": ["x1", 2], "where": ["x4"], "when": [5]}


@pytest.fixture(scope="module", params=[(name, k) for name in GAMES for k in (1, 3)], ids=str)
def both(request):
    """The same explanation twice: by trees, and by the array of its dividends."""
    name, k = request.param
    case = random_case(11, 6, k, n_trees=25)
    rows = random_bins(np.random.default_rng(12), case.player_of, 23, 0.15)
    source = TreeDividends(game_of(case, name), rows)
    data = np.random.default_rng(0).normal(size=(23, 6))
    texts = {"feature_names": [f"x{i}" for i in range(6)], "output_names": [f"o{i}" for i in range(k)], "data": data}
    lazy = Explanation(base_values=source.game.base, dividends=source, copy=False, **texts)
    dense = Explanation(
        base_values=source.game.base, coalitions=source.coalitions, dividends=np.array(source.array()), **texts
    )
    return lazy, dense, 1e-12 * case.scale()


@pytest.mark.parametrize("index", INDICES)
def test_indices_of_a_tree_source(both, index):
    lazy, dense, tolerance = both
    for order in (1,) if index in ("SV", "BV") else (1, 2, 3):
        a, b = lazy.index(index, order), dense.index(index, order)
        assert a.sets == b.sets
        np.testing.assert_allclose(a.values, b.values, 0, 10 * tolerance)  # weights of up to ten


def test_values_of_a_tree_source(both):
    lazy, dense, tolerance = both
    np.testing.assert_allclose(lazy.values, dense.values, 0, tolerance)
    np.testing.assert_allclose(lazy.outputs, dense.outputs, 0, tolerance)
    masks = np.random.default_rng(0).random((23, 6)) < 0.5
    for mask in (masks, masks[0], np.ones(6, dtype=bool), np.zeros(6, dtype=bool)):
        np.testing.assert_allclose(lazy.value(mask), dense.value(mask), 0, tolerance)
    np.testing.assert_allclose(lazy[4].value(masks), dense[4].value(masks), 0, tolerance)
    np.testing.assert_allclose(lazy.contrast(2, -1), dense.contrast(2, -1), 0, tolerance)


def test_groups_of_a_tree_source(both):
    lazy, dense, tolerance = both
    np.testing.assert_allclose(lazy.group_values(PAIRS), dense.group_values(PAIRS), 0, tolerance)
    np.testing.assert_allclose(lazy.owen_values(PAIRS), dense.owen_values(PAIRS), 0, tolerance)


def test_restricted_games_of_a_tree_source(both):
    lazy, dense, tolerance = both
    for players in (["x1", 4], [5], [0, 1, 2, 3, 4, 5]):
        a, b = lazy.restrict(players), dense.restrict(players)
        np.testing.assert_array_equal(a.coalitions, b.coalitions)
        np.testing.assert_allclose(a.dividends, b.dividends, 0, tolerance)
        np.testing.assert_allclose(a.base_values, b.base_values, 0, tolerance)
        np.testing.assert_allclose(a.values, b.values, 0, tolerance)
        np.testing.assert_array_equal(a.data, b.data)


def test_what_comes_of_missing_values_with_a_tree_source(both, monkeypatch):
    lazy, dense, tolerance = both
    chance = np.array([0.0, 0.2, 0.5, 0.9, 1.0, 0.3])
    for q in (0.4, chance):
        for a, b in zip(lazy.missingness(q), dense.missingness(q), strict=True):
            np.testing.assert_allclose(a, b, 1e-10, 10 * tolerance)
    expected, spectrum = dense.probability_values(), dense.order_spectrum()
    np.testing.assert_allclose(lazy.probability_values(), expected, 0, 10 * tolerance)
    np.testing.assert_allclose(lazy.order_spectrum(), spectrum, 0, 1e-12)
    monkeypatch.setattr(tree_games, "CELLS", 7 * len(lazy.coalitions))  # in several pieces
    pieces, chunks = [], TreeDividends.chunks
    monkeypatch.setattr(TreeDividends, "chunks", lambda self: pieces.append(len(chunks(self))) or chunks(self))
    np.testing.assert_allclose(lazy.probability_values(), expected, 0, 10 * tolerance)
    np.testing.assert_allclose(lazy.order_spectrum(), spectrum, 0, 1e-12)
    for a, b in zip(lazy.missingness(chance), dense.missingness(chance), strict=True):
        np.testing.assert_allclose(a, b, 1e-10, 10 * tolerance)
    assert len(pieces) == 3
    assert min(pieces) > 3


def test_top_interactions_and_smallest_sets_of_a_tree_source(both):
    lazy, dense, tolerance = both
    for row in (0, 5, -1):
        a, b = lazy.top_interactions(row, 4), dense.top_interactions(row, 4)
        assert a.sets == b.sets
        np.testing.assert_allclose(a.values, b.values, 0, tolerance)
        assert a.bound == pytest.approx(b.bound, abs=100 * tolerance)  # a sum over all others
        assert lazy.smallest_set(row) == dense.smallest_set(row)


def test_frames_slices_and_sums_of_a_tree_source(both):
    lazy, dense, tolerance = both
    a, b = lazy.to_frame(), dense.to_frame()
    assert a.drop(columns="shapley_value").equals(b.drop(columns="shapley_value"))
    np.testing.assert_allclose(a["shapley_value"], b["shapley_value"], 0, tolerance)
    for rows in (3, slice(2, 20, 5), [4, 4, 0], np.arange(23) % 2 == 0):
        x, y = lazy[rows], dense[rows]
        np.testing.assert_allclose(x.dividends, y.dividends, 0, tolerance)
        np.testing.assert_allclose(x.values, y.values, 0, tolerance)
        np.testing.assert_array_equal(x.data, y.data)
    for x, y in ((lazy + lazy, dense + dense), (lazy - 0.5 * dense, dense / 2), (-lazy, -dense)):
        np.testing.assert_allclose(x.dividends, y.dividends, 0, 2 * tolerance)
        np.testing.assert_allclose(x.values, y.values, 0, 2 * tolerance)
        np.testing.assert_allclose(x.base_values, y.base_values, 0, 2 * tolerance)
    assert repr(lazy).splitlines()[0] == repr(dense).splitlines()[0]


def test_a_tree_source_in_files_and_pickles(both, tmp_path):
    lazy, dense, tolerance = both
    lazy.save(tmp_path / "ex.hnet")
    for again in (Explanation.load(tmp_path / "ex.hnet"), pickle.loads(pickle.dumps(lazy))):
        np.testing.assert_array_equal(again.values, lazy.values)
        np.testing.assert_array_equal(again.dividends, lazy.dividends)
        np.testing.assert_array_equal(again.base_values, lazy.base_values)
        np.testing.assert_array_equal(again.data, lazy.data)
        np.testing.assert_allclose(again.index("SII", 2).values, dense.index("SII", 2).values, 0, 10 * tolerance)


def test_a_pickle_leaves_planned_tables_behind():
    case = many_trees()
    ex = explanation(case, "missing")
    before = len(pickle.dumps(ex))
    ex.index("SII", 3)
    assert len(pickle.dumps(ex)) == before


# Nothing by coalition that nobody asked for


def wide(n_rows: int) -> tuple[Case, np.ndarray]:
    """Fourteen players in trees of four: hundreds of coalitions."""
    rng = np.random.default_rng(0)
    player_of = list(range(14))
    questions = [[(int(c), int(rng.integers(1, 5))) for c in rng.choice(14, 4, replace=False)] for _ in range(150)]
    values = [np.where(np.arange(81)[:, None] > 0, rng.normal(size=(81, 1)), 0.0) for _ in questions]
    case = Case(player_of, np.zeros(1), questions, values, random_bins(rng, player_of, 3, 0.0), np.ones((14, 1)))
    return case, random_bins(rng, player_of, n_rows, 0.1)


@pytest.mark.parametrize("name", GAMES)
def test_values_take_no_memory_by_coalition(name):
    n_rows = 6000
    case, rows = wide(n_rows)
    game = game_of(case, name)

    def asked() -> Explanation:
        ex = Explanation(base_values=game.base, dividends=TreeDividends(game, rows), copy=False)
        ex.value(np.arange(14) % 2 == 0)
        return ex

    asked()  # plans, and compiled loops
    c = len(game.coalitions)
    assert c > 500
    tracemalloc.start()
    assert asked().values.shape == (n_rows, 14)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.15 * n_rows * c * 8


@pytest.mark.parametrize("name", GAMES)
def test_sums_over_all_dividends_are_taken_in_pieces(name, monkeypatch):
    case, rows = wide(2500)
    game = game_of(case, name)
    ex = Explanation(base_values=game.base, dividends=TreeDividends(game, rows), copy=False)
    expected = ex.order_spectrum()
    c = len(game.coalitions)
    monkeypatch.setattr(tree_games, "CELLS", 100 * c)
    tracemalloc.start()
    found = ex.order_spectrum()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, expected, 0, 1e-12)
    assert peak < 0.4 * 2500 * c * 8
