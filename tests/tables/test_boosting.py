"""Boosting: what every tree must satisfy whatever was learned, and the values of its states by plain loops."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables import boosting
from harsanyinet.tables.boost_inputs import Rows, Settings, Table
from harsanyinet.tables.boosting import Booster
from harsanyinet.tables.losses import Loss
from harsanyinet.tables.players import Limits, Players
from harsanyinet.tables.trees import Trees

LOSSES = {
    "squared": Loss("squared"),
    "binary": Loss("binary"),
    "poisson": Loss("poisson"),
    "absolute": Loss("absolute", quantile=0.5),
    "quantile": Loss("quantile", quantile=0.8),
    "multiclass": Loss("multiclass", 3),
    "two targets": Loss("squared"),
}
QUICK = {"n_trees": 25, "learning_rate": 0.1}


def table(
    kind: str = "squared",
    n: int = 400,
    seed: int = 0,
    *,
    absent: float = 0.0,
    signs: object = 0,
    allowed: object = None,
) -> Table:
    """Six columns of five players (the last has two), 7 bins; pairs and single columns matter."""
    rng = np.random.default_rng(seed)
    player_of = np.array([0, 1, 2, 3, 4, 4])
    bins = rng.integers(1, 8, (6, n)).astype(np.uint8)
    b = bins.astype(float)
    signal = (b[0] - 4) * (b[1] > 3) + 0.7 * (b[2] > 5) + 0.3 * (b[4] - b[5]) * (b[3] > 2)
    noise = 0.2 * rng.normal(size=n)
    y = {
        "binary": (signal + noise > 0.3).astype(float)[:, None],
        "poisson": rng.poisson(np.exp(0.3 * signal)).astype(float)[:, None],
        "multiclass": np.digitize(signal, [-1, 1]).astype(float)[:, None],
        "two targets": np.column_stack([signal + noise, noise - bins[2] - 2 * bins[3]]),
    }.get(kind, (signal + noise)[:, None])
    gone = rng.random((5, n)) < absent
    bins[gone[player_of]] = 0
    return Table(
        bins=bins, n_bins=np.full(6, 8), player_of=player_of, y=y, weight=rng.exponential(size=n) + 0.2,
        monotone=np.broadcast_to(signs, 6).astype(np.int64), allowed=allowed,
    )  # fmt: skip


def boosted(given: Table, kind: str = "squared", seed: int = 0, n_threads: int = 1, **settings: object) -> Booster:
    booster = Booster(given, LOSSES[kind], Settings(**{**QUICK, **settings}), seed, n_threads)
    booster.boost()
    return booster


def digits_of(trees: Trees, t: int) -> np.ndarray:
    """(axes, states)."""
    return np.array(np.unravel_index(np.arange(trees.shapes[t].n_states), trees.shapes[t].sizes))


def each_tree(trees: Trees):
    for t in range(len(trees)):
        yield trees.shapes[t], trees.tables[t], digits_of(trees, t)


# What holds for every tree


@pytest.mark.parametrize("kind", LOSSES)
def test_the_base_is_the_best_constant(kind):
    given = table(kind)
    trees = boosted(given, kind).finish()
    assert len(trees) >= 25
    np.testing.assert_array_equal(trees.base, LOSSES[kind].best_constant(given.y, given.weight))
    nobody = trees.outputs(given.bins[:, :3], np.zeros(5, dtype=bool))
    np.testing.assert_array_equal(nobody, np.tile(trees.base, (3, 1)))


@pytest.mark.parametrize("absent", [0.0, 0.3])
@pytest.mark.parametrize("copies", [0, 2])
@pytest.mark.parametrize("kind", LOSSES)
def test_the_all_absent_state_is_zero_in_every_tree(kind, copies, absent):
    trees = boosted(table(kind, absent=absent), kind, copies=copies).finish()
    for _, values, _ in each_tree(trees):
        assert (values[0] == 0).all()
        assert np.isfinite(values).all()
    assert np.abs(trees.values).max() > 0


@pytest.mark.parametrize("kind", LOSSES)
def test_outputs_of_full_rows_do_not_depend_on_anything_absent(kind):
    given = table(kind)
    trees = boosted(given, kind).finish()
    absent = np.concatenate([shape.has_absent for shape in trees.shapes])
    other = replace(trees, values=np.where(absent[:, None], np.nan, trees.values))
    np.testing.assert_array_equal(other.outputs(given.bins), trees.outputs(given.bins))


@pytest.mark.parametrize("absent", [0.0, 0.3])
@pytest.mark.parametrize("kind", LOSSES)
def test_outputs_while_boosting_are_those_of_the_trees(kind, absent):
    """Of the rows, and of the copies with absent players: the last time that they were asked, and in the end."""
    booster = boosted(table(kind, absent=absent), kind, n_trees=60, redraw=12, copies=3, growing_copies=2)
    scale = np.abs(booster.rows.output).max()

    def agree(rows: Rows, trees: Trees) -> None:
        np.testing.assert_allclose(rows.output, trees.outputs(rows.bins), 0, 1e-12 * scale)

    agree(booster.rows, booster.trees())
    assert 30 < booster.seen < len(booster.shapes)
    assert len(booster.copies) == 2 * len(booster.rows)
    agree(booster.copies, booster.trees(booster.seen))
    trees = booster.finish()
    assert len(booster.copies) == 3 * len(booster.rows)
    agree(booster.rows, trees)
    agree(booster.copies, trees)


@pytest.mark.parametrize("kind", LOSSES)
def test_the_end_moves_only_what_is_said_without_some_players(kind):
    """Rows with all players are answered as before, to the bit; without some of them answers are better than averages.

    A player that stands for another says what the average over the other does not know.
    """

    def drawn(seed: int) -> Table:
        bins = (made := table(kind, 1500, seed)).bins.copy()
        bins[3] = bins[0]
        return replace(made, bins=bins)

    given = drawn(0)
    booster = boosted(given, kind, n_trees=40, learning_rate=0.2, max_players=3)
    before, n = booster.trees(), len(booster.shapes)
    after = booster.finish()
    assert len(after) > len(before)
    for t in range(n):
        full = ~before.shapes[t].has_absent
        np.testing.assert_array_equal(after.tables[t][full], before.tables[t][full])
    for t in range(n, len(after)):
        assert not after.tables[t][~after.shapes[t].has_absent].any()
    np.testing.assert_array_equal(after.outputs(given.bins), before.outputs(given.bins))
    fresh, loss = drawn(1), LOSSES[kind]
    present = np.arange(5) > 0
    losses = [loss.mean(trees.outputs(fresh.bins, present), fresh.y, fresh.weight) for trees in (before, after)]
    assert losses[1] < 0.99 * losses[0]


@pytest.mark.parametrize("looks", [0, 3, 5])
def test_a_deadline_ends_the_end(looks, monkeypatch):
    """It is looked at before each extra tree, of which there are three, and before each step of the rounds."""
    booster = boosted(table(), n_trees=10, rounds=4)
    n, moved, clock = len(booster.shapes), [], itertools.count()
    monkeypatch.setattr(boosting.time, "monotonic", lambda: next(clock))
    move = Booster._move
    monkeypatch.setattr(Booster, "_move", lambda self, *given: moved.append(given[1]) or move(self, *given))
    trees = booster.finish(until=looks - 0.5)
    assert len(moved) == looks
    assert len(trees) == n + min(looks, 3)


@pytest.mark.parametrize("absent", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["squared", "binary", "poisson", "multiclass", "two targets"])
def test_a_move_is_a_newton_step_towards_mixed_targets(kind, absent):
    """By a plain loop: copies and, with less weight, rows that miss a value; more l2; a share of the rate."""
    given, loss, rounds = table(kind, 300, absent=absent), LOSSES[kind], 2
    booster = boosted(given, kind, n_trees=20, copies=2, l2=1.5, copy_l2=4.0, rounds=rounds, extra_trees=0.0)
    full = booster.rows.output.copy()
    order: list[int] = []
    move = booster._move

    def watched(copies: Rows, t: int, rate: float) -> None:
        assert rate == pytest.approx(0.1 / rounds)
        shape, before = booster.shapes[t], booster.values[t].copy()
        if not order:
            np.testing.assert_allclose(copies.y, np.tile(loss.mixed(given.y, full, 0.8), (2, 1)), 1e-12, 1e-12)
        total = np.zeros((shape.n_states, 2, before.shape[1]))
        for rows, share in ((copies, 1.0), (booster.rows, boosting.ROWS_BESIDE if absent else 0.0)):
            state = booster.trees().states(rows.bins, t)
            for s in range(shape.n_states):
                total[s, 0] += share * rows.gradient[state == s].sum(0)
                total[s, 1] += share * rows.curvature[state == s].sum(0)
        step = np.clip(-total[:, 0] / (total[:, 1] + 6.0), -loss.max_step, loss.max_step)
        expected = np.where(shape.has_absent[:, None], before + rate * step, before)
        expected[0] = 0.0
        move(copies, t, rate)
        order.append(t)
        np.testing.assert_allclose(booster.values[t], expected, 1e-9, 1e-12)

    booster._move = watched
    booster.finish()
    assert sorted(order[:20]) == sorted(order[20:]) == list(range(20))  # every tree once in each round
    assert order[:20] != order[20:]


def test_copies_are_drawn_anew_in_the_rounds_and_count_more_alike(monkeypatch):
    """At the first of 20 trees and after each eighth, in both rounds; those with less noise count more."""
    monkeypatch.setattr(boosting, "SELDOM", 1)
    given = table(n=200)
    booster = boosted(given, n_trees=20, copies=2, rounds=2, extra_trees=0.0, redraw=8)
    draws: dict[bytes, np.ndarray] = {}
    move = Booster._move

    def watched(self: Booster, copies: Rows, t: int, rate: float) -> None:
        draws[copies.bins.tobytes()] = copies.weight / np.tile(given.weight / 2, 2)
        move(self, copies, t, rate)

    monkeypatch.setattr(Booster, "_move", watched)
    booster.finish()
    assert len(draws) == 6
    for factors in draws.values():
        assert factors.mean() == pytest.approx(1.0)
        assert factors.max() > 2 * factors.min()


def test_trees_that_ask_nothing_have_no_end():
    given = table()
    booster = boosted(replace(given, y=np.ones_like(given.y)))
    assert len(booster.finish()) == 0
    assert len(booster.shapes) == 25


@pytest.mark.parametrize("kind", ["squared", "binary", "multiclass"])
def test_trees_learn_and_subsets_mean_something(kind):
    """The loss falls on the rows, and with some players absent the outputs are better than the best constant."""
    given = table(kind, 2000)
    booster = boosted(given, kind, n_trees=60, learning_rate=0.2)
    loss, trees = LOSSES[kind], booster.finish()
    fresh = table(kind, 2000, seed=1)

    def mean(present: list[bool]) -> float:
        return loss.mean(trees.outputs(fresh.bins, np.array(present)), fresh.y, fresh.weight)

    nobody, all_of_them = mean([False] * 5), mean([True] * 5)
    assert all_of_them < 0.4 * nobody
    assert all_of_them < mean([True, True, True, False, False]) < 0.9 * nobody
    assert mean([True, True, False, False, False]) < 0.95 * nobody
    assert mean([False, False, False, True, False]) < 1.02 * nobody


# Values of states


def questions_of(trees: Trees, t: int) -> list[tuple[int, int]]:
    shape = trees.shapes[t]
    return list(zip(shape.columns.tolist(), shape.thresholds.tolist(), strict=True))


def derivatives_by_hand(loss: Loss, output, y, weight):
    if loss.name == "multiclass":
        p = np.exp(output) / np.exp(output).sum(1, keepdims=True)
        hit = np.eye(loss.n_classes)[y[:, 0].astype(int)]
        return weight[:, None] * (p - hit), weight[:, None] * p * (1 - p)
    if loss.name == "binary":
        p = 1 / (1 + np.exp(-output))
        return weight[:, None] * (p - y), weight[:, None] * p * (1 - p)
    if loss.name == "poisson":
        return weight[:, None] * (np.exp(output) - y), weight[:, None] * np.exp(output)
    return weight[:, None] * (output - y), np.tile(weight[:, None], (1, y.shape[1]))


@pytest.mark.parametrize("chunk", [65_536, 70])
@pytest.mark.parametrize("kind", ["squared", "binary", "poisson", "multiclass", "two targets"])
def test_leaves_are_newton_steps(kind, chunk, monkeypatch):
    """State by state: -G / (H + l2) of the rows in it, times the learning rate; rows in one piece and in several."""
    monkeypatch.setattr(boosting, "CHUNK", chunk)
    given, loss = table(kind), LOSSES[kind]
    trees = boosted(given, kind, copies=0, l2=2.0).trees()
    output = np.tile(trees.base, (len(given.y), 1))
    for t, (shape, values, _) in enumerate(each_tree(trees)):
        gradient, curvature = derivatives_by_hand(loss, output, given.y, given.weight)
        state = trees.states(given.bins, t)
        for s in np.flatnonzero(~shape.has_absent):
            own = state == s
            step = -gradient[own].sum(0) / (curvature[own].sum(0) + 2.0)
            np.testing.assert_allclose(
                values[s], 0.1 * np.clip(step, -loss.max_step, loss.max_step), 1e-9, 1e-12, err_msg=f"tree {t}"
            )
        output += values[state]


def test_steps_of_counts_are_capped():
    """A leaf of large counts would move the logarithm of its mean by 50 at once."""
    given = table("poisson")
    given = replace(given, y=np.where(given.bins[:1].T > 6, 2000.0, 0.0))
    trees = boosted(given, "poisson", copies=0, n_trees=3).trees()
    most = 0.1 * LOSSES["poisson"].max_step
    assert trees.values.max() == pytest.approx(most, rel=1e-12)
    assert trees.values.min() > -most


@pytest.mark.parametrize("kind", ["absolute", "quantile"])
def test_leaves_without_curvature_are_quantiles(kind):
    """The weighted quantile of the residuals, shrunk as if l2 units of weight said zero."""
    given, loss = table(kind), LOSSES[kind]
    trees = boosted(given, kind, copies=0, l2=2.0).trees()
    output = np.tile(trees.base, (len(given.y), 1))
    for t, (shape, values, _) in enumerate(each_tree(trees)):
        state, rest = trees.states(given.bins, t), (given.y - output)[:, 0]
        for s in np.flatnonzero(~shape.has_absent):
            own = np.flatnonzero(state == s)
            if not len(own):
                assert values[s, 0] == 0
                continue
            order = own[np.argsort(rest[own])]
            reached = np.cumsum(given.weight[order])
            at = order[np.searchsorted(reached, loss.quantile * reached[-1] * (1 - 1e-12))]
            step = rest[at] * reached[-1] / (reached[-1] + 2.0)
            assert values[s, 0] == pytest.approx(0.1 * step, rel=1e-9, abs=1e-12), f"tree {t}, state {s}"
        output += values[state]


@pytest.mark.parametrize(
    ("kind", "absent"),
    [(kind, absent) for kind in LOSSES for absent in (0.0, 0.5) if not absent or LOSSES[kind].quantile is None],
)
def test_without_copies_absent_states_are_averages_of_leaves(kind, absent):
    """Weighted by the training rows, over all answers of those who are absent; zero where no row is like that.

    From there a step towards what rows say that miss a value.
    """
    given, loss = table(kind, absent=absent), LOSSES[kind]
    trees = boosted(given, kind, copies=0, l2=2.0).trees()
    output = np.tile(trees.base, (len(given.y), 1))
    for t, (shape, values, digits) in enumerate(each_tree(trees)):
        state = trees.states(given.bins, t)
        weight = np.bincount(state, given.weight, shape.n_states)
        gradient, curvature = derivatives_by_hand(loss, output, given.y, given.weight)
        for s in np.flatnonzero(shape.has_absent)[1:]:
            known, own = digits[:, s] > 0, state == s
            matches = (digits[known] == digits[known, s][:, None]).all(0) & ~shape.has_absent
            total = weight[matches].sum()
            expected = (weight[matches, None] * values[matches]).sum(0) / total if total else np.zeros(values.shape[1])
            g, h = gradient[own].sum(0), curvature[own].sum(0)
            expected += 0.1 * np.clip(-(g + h * expected) / (h + 2.0), -loss.max_step, loss.max_step)
            np.testing.assert_allclose(values[s], expected, 1e-9, 1e-12, err_msg=f"tree {t}")
        output += values[state]


def test_one_player_needs_no_copies():
    given = table()
    alone = replace(
        given, bins=given.bins[:1], n_bins=given.n_bins[:1], player_of=given.player_of[:1], monotone=given.monotone[:1]
    )
    booster = boosted(alone)
    assert booster.copies is None
    assert len(booster.trees()) > 0


# Weights


@pytest.mark.parametrize("kind", ["squared", "binary", "multiclass", "poisson"])
def test_a_row_of_weight_two_is_the_row_twice(kind):
    """Where nothing is drawn: all rows choose, no noise, no copies."""
    given = table(kind, 300)
    weight = np.random.default_rng(5).integers(1, 4, 300)
    settings = {"row_share": 1.0, "noise": 0.0, "copies": 0, "n_trees": 12}
    heavy = replace(given, weight=weight.astype(float))
    rows = np.repeat(np.arange(300), weight)
    often = replace(given, weight=np.ones(300)).take(rows)
    a, b = boosted(heavy, kind, **settings).trees(), boosted(often, kind, **settings).trees()
    assert len(a) == len(b)
    assert [shape.questions for shape in a.shapes] == [shape.questions for shape in b.shapes]
    scale = np.abs(a.values).max()
    np.testing.assert_allclose(a.values, b.values, 0, 1e-10 * scale)
    np.testing.assert_allclose(a.base, b.base, 1e-12, 1e-12)


# Seeds and threads


@pytest.mark.parametrize("kind", ["squared", "multiclass", "quantile"])
def test_the_same_bits_at_one_and_two_threads(kind, monkeypatch):
    monkeypatch.setattr(boosting, "ENOUGH_FOR_THREADS", 0)
    monkeypatch.setattr(boosting, "CHUNK", 100)  # several pieces, whose sums are added in their order
    given = table(kind, 1050, absent=0.1)
    one, two, three = (boosted(given, kind, n_threads=n).finish() for n in (1, 2, 3))
    for other in (two, three):
        assert [shape.questions for shape in one.shapes] == [shape.questions for shape in other.shapes]
        np.testing.assert_array_equal(one.values, other.values)


def test_the_seed_decides():
    given = table()
    first, again, other = (boosted(given, seed=seed).finish() for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.values, again.values)
    assert first.values.shape != other.values.shape or not np.array_equal(first.values, other.values)


def test_an_earlier_stop_has_the_same_first_trees():
    """So that a model can be cut where rows held out say so."""
    given = table()
    long, short = boosted(given, n_trees=20), boosted(given, n_trees=8)
    np.testing.assert_array_equal(long.trees(8).values, short.trees(8).values)


# Limits


def players_of_trees(trees: Trees) -> list[set[int]]:
    return [set(shape.players.tolist()) for shape in trees.shapes]


@pytest.mark.parametrize("max_players", [1, 2, 3, 5])
def test_no_tree_has_more_players_than_it_may(max_players):
    booster = boosted(table(), max_players=max_players, depth=6)
    sizes = [len(players) for players in players_of_trees(booster.finish())]
    assert max(sizes) <= max_players
    assert max(sizes) >= min(max_players, 3)  # and it is the limit that stops them
    assert (booster.trees().coalitions.sum(1) <= max_players).all()


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_no_tree_asks_more_than_its_depth(depth):
    trees = boosted(table(), depth=depth).finish()
    assert max(len(shape.columns) for shape in trees.shapes) == depth


def test_trees_end_where_a_question_gains_less_than_it_must():
    rng = np.random.default_rng(0)
    noise = replace(table(n=60), y=rng.normal(size=(60, 1)))

    def depths(least_gain: float, copies: int = 0) -> list[int]:
        settings = Settings(**QUICK, least_gain=least_gain, copies=copies, copy_start=0.0, row_share=1.0, noise=0.0)
        booster = Booster(noise, Loss("squared"), settings)
        booster.boost()
        return [len(shape.columns) for shape in booster.shapes]

    assert min(depths(0.0)) == 6
    shallow = depths(0.5)
    assert 1 <= min(shallow) <= max(shallow) < 6
    assert set(depths(1e9)) == {1}  # the first question is always asked
    assert max(depths(1e9, copies=2)) > 1  # copies ask in the place of others, whatever it gains


def test_sets_to_act_within_hold_for_every_tree():
    names = list("abcde")
    limits = Limits.of(4, [["a", "b", "c"], ["c", "d"]], None, Players.of(names, None))
    found = players_of_trees(boosted(table(allowed=limits.allowed), n_trees=40).finish())
    allowed = [{0, 1, 2}, {2, 3}, {4}]
    assert all(any(players <= some for some in allowed) for players in found)
    assert any(len(players) > 1 for players in found)


def test_forbidden_pairs_are_in_no_tree():
    limits = Limits.of(4, None, [["a", "b"], ["d", "e"]], Players.of(list("abcde"), None))
    found = players_of_trees(boosted(table(allowed=limits.allowed), n_trees=40).finish())
    assert not any({0, 1} <= players or {3, 4} <= players for players in found)
    assert any(len(players) > 1 for players in found)


def test_a_share_of_the_columns_for_each_tree():
    found = players_of_trees(boosted(table(), column_share=0.4, max_players=5, n_trees=40, copies=0).trees())
    assert max(map(len, found)) <= 2
    assert set().union(*found) == set(range(5))


# Monotone columns


def falls(trees: Trees, column: int, sign: int) -> float:
    """The deepest fall along a column in any tree, whatever the answers and absences of the others."""
    worst = 0.0
    for shape, values in zip(trees.shapes, trees.tables, strict=True):
        asked = shape.columns == column
        if not asked.any():
            continue
        axis = int(shape.axes[asked][0])
        table = values.reshape(*shape.sizes, -1)
        along = np.moveaxis(table, axis, 0)[1:]  # absent against present is free
        worst = min(worst, float((sign * np.diff(along, axis=0)).min(initial=0.0)))
    return worst


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ["squared", "binary", "poisson", "absolute", "quantile", "two targets"])
def test_monotone_columns_hold_in_every_state_of_every_tree(kind, sign):
    """Against the data, which say the contrary for column 1 of half of the rows."""
    signs = np.array([sign, -sign, 0, sign, 0, 0])
    given = table(kind, signs=signs, absent=0.1)
    trees = boosted(given, kind, n_trees=40).finish()
    free = boosted(table(kind, absent=0.1), kind, n_trees=40).finish()
    for column in (0, 1, 3):
        assert falls(trees, column, int(signs[column])) == 0.0
    assert min(falls(free, column, int(signs[column])) for column in (0, 1, 3)) < -1e-3
    assert falls(trees, 2, 1) < 0 or falls(trees, 2, -1) < 0  # the others are free
    # and so in outputs, one bin after the other, with others present and absent
    grid = np.repeat(given.bins[:, :30], 7, axis=1)
    for column in (0, 1, 3):
        rows = grid.copy()
        rows[column] = np.tile(np.arange(1, 8), 30)
        for present in itertools.islice(itertools.product([True, False], repeat=5), 0, 32, 3):
            if present[column]:
                out = trees.outputs(rows, np.array(present)).reshape(30, 7, -1)
                assert (signs[column] * np.diff(out, axis=1)).min() >= -1e-12


# Rows held out


def held(given: Table, booster: Booster) -> Rows:
    return Rows(given.bins, given.y, given.weight, np.tile(booster.base, (len(given.y), 1)))


@pytest.mark.parametrize("kind", LOSSES)
def test_losses_of_rows_held_out_are_those_of_the_first_trees(kind):
    booster = Booster(table(kind), LOSSES[kind], Settings(**QUICK), 0)
    other = table(kind, 200, seed=9, absent=0.1)
    watched = held(other, booster)
    losses = booster.boost(watched)
    assert len(losses) == 26
    for t in range(26):
        expected = LOSSES[kind].mean(booster.trees(t).outputs(other.bins), other.y, other.weight)
        assert losses[t] == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(watched.output, booster.trees(25).outputs(other.bins), 0, 1e-12 * 10)


def test_losses_count_trees_and_not_attempts(monkeypatch):
    """An attempt may find no question; then there is no tree, and the numbers must still fit."""
    ask = Booster._questions
    calls = []

    def sometimes(self, *args, **options):
        calls.append(0)
        found = ask(self, *args, **options)
        return [] if len(calls) % 3 == 0 else found

    monkeypatch.setattr(Booster, "_questions", sometimes)
    booster = Booster(table(), LOSSES["squared"], Settings(**QUICK), 0)
    other = table(n=200, seed=9)
    losses = booster.boost(held(other, booster))
    for t in range(len(losses)):
        expected = LOSSES["squared"].mean(booster.trees(t).outputs(other.bins), other.y, other.weight)
        assert losses[t] == pytest.approx(expected, rel=1e-10), f"after {t} trees"


def test_patience_stops_on_noise():
    rng = np.random.default_rng(0)
    given, other = table(n=150), table(n=150, seed=1)
    given, other = (replace(t, y=rng.normal(size=(150, 1))) for t in (given, other))
    booster = Booster(given, LOSSES["squared"], Settings(n_trees=500, learning_rate=0.3), 0)
    losses = booster.boost(held(other, booster), patience=10)
    assert len(losses) < 200
    assert len(losses) - 1 - int(np.argmin(losses)) == 10


def test_time_is_kept():
    assert len(boosted(table(), max_seconds=0.0, n_trees=10**6).trees()) <= 1
    some = boosted(table(), max_seconds=0.3, n_trees=10**6).trees()
    assert 1 <= len(some) < 10**5


# Edges


OPTIONS = {"max_iter": 25, "learning_rate": 0.1, "n_jobs": 1, "random_state": 0, "progress": False}


def frame(n: int, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 3)), columns=list("abc"))


@pytest.mark.parametrize("rate", [0.1, None])
@pytest.mark.parametrize("loss", ["squared", "absolute", "quantile", "poisson"])
@pytest.mark.parametrize("value", [0.0, 7.5])
def test_a_constant_target(loss, value, rate):
    model = HarsanyiRegressor(**{**OPTIONS, "learning_rate": rate}, loss=loss).fit(frame(80), np.full(80, value))
    expected = max(value, 1e-6) if loss == "poisson" else value
    np.testing.assert_allclose(model.predict(frame(80)), np.full(80, expected), 1e-9)
    ex = model.explain(frame(5), game="marginal")
    np.testing.assert_allclose(ex.values, np.zeros((5, 3)), atol=1e-9)
    np.testing.assert_allclose(model.feature_importances_, np.zeros(3), atol=1e-9)


@pytest.mark.parametrize("rate", [0.1, None])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 9, 20])
def test_very_few_rows(n, rate):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, y = frame(n), np.arange(float(n))
        model = HarsanyiRegressor(**{**OPTIONS, "learning_rate": rate}).fit(x, y)
        labels = HarsanyiClassifier(**{**OPTIONS, "learning_rate": rate}).fit(x, y > y.mean())
        three = HarsanyiClassifier(**{**OPTIONS, "learning_rate": rate}).fit(x, np.arange(n) % 3) if n > 2 else labels
    assert np.isfinite(model.predict(x)).all()
    assert np.isfinite(labels.decision_function(x)).all()
    assert np.isfinite(three.decision_function(x)).all()
    assert y.min() <= model.predict(x).min() <= model.predict(x).max() <= y.max()


def test_rows_that_stand_there_many_times():
    x = frame(10).iloc[np.repeat(np.arange(10), 40)]
    y = np.repeat(np.arange(10.0), 40)
    model = HarsanyiRegressor(**{**OPTIONS, "max_iter": 150}).fit(x, y)
    assert np.abs(model.predict(x) - y).max() < 1.0
    found = model.predict(x).reshape(10, 40)
    assert (found == found[:, :1]).all()


def test_a_hundred_classes():
    rng = np.random.default_rng(0)
    x = frame(600)
    y = rng.integers(0, 100, 600)
    y[:100] = np.arange(100)
    x["a"] = y + 0.1 * rng.normal(size=600)
    model = HarsanyiClassifier(**{**OPTIONS, "max_iter": 15}).fit(x, y)
    assert model.decision_function(x).shape == (600, 100)
    assert (model.predict(x) == y).mean() > 0.3
    ex = model.explain(x[:4])
    np.testing.assert_allclose(ex.outputs, model.decision_function(x[:4]), atol=1e-12)


def test_one_column():
    x = frame(200)[["a"]]
    model = HarsanyiRegressor(**OPTIONS).fit(x, x["a"] ** 2)
    ex = model.explain(x)
    np.testing.assert_allclose(ex.values[:, 0], model.predict(x) - ex.base_values, atol=1e-12)
    assert ex.coalitions.tolist() == [[True]]
    assert np.corrcoef(model.predict(x), x["a"] ** 2)[0, 1] > 0.9


@pytest.mark.parametrize("rate", [0.1, None])
@pytest.mark.parametrize("missing", ["auto", "value", "absent"])
def test_columns_that_say_nothing_get_nothing(missing, rate):
    x = frame(200)[["a", "b"]]
    x["constant"], x["none"], x["text"], x["same"] = 3.0, np.nan, None, "word"
    x["level"] = pd.Series([None] * 200, dtype="string")
    x["kind"] = pd.Series([None] * 200, dtype="category")
    y = x["a"] * 2
    model = HarsanyiRegressor(**{**OPTIONS, "max_iter": 60, "learning_rate": rate}, missing=missing).fit(x, y)
    assert np.corrcoef(model.predict(x), y)[0, 1] > 0.9
    assert (model.feature_importances_[2:] == 0).all()
    for game in ("missing", "marginal"):
        assert (model.explain(x, game=game).values[:, 2:] == 0).all()
    new = model.explain(x.assign(constant=4.0, none=1.0)).values
    assert (new[:, 2:] == 0).all()


def test_a_constant_text_says_nothing_in_a_small_table():
    """Ordered target statistics of a single level would be noise that differs from row to row."""
    x = frame(40)[["a"]].assign(same="word")
    model = HarsanyiRegressor(**{**OPTIONS, "max_iter": 60}).fit(x, x["a"])
    assert model.feature_importances_[1] == 0


def test_nothing_to_learn_from():
    x = pd.DataFrame({"a": [1.0] * 50, "b": ["u"] * 50})
    y = np.arange(50.0)
    model = HarsanyiRegressor(**OPTIONS).fit(x, y)
    np.testing.assert_allclose(model.predict(x), np.full(50, y.mean()), 1e-12)
    assert (model.explain(x).values == 0).all()
    labels = HarsanyiClassifier(**OPTIONS).fit(x, y > 39)
    np.testing.assert_allclose(labels.predict_proba(x)[:, 1], np.full(50, 0.2), 1e-9)


def test_a_share_of_many_players_is_one_of_those_worth_asking_about():
    rng = np.random.default_rng(0)
    bins = rng.integers(1, 3, (50, 500)).astype(np.uint8)
    useful = np.tile(np.isin(np.arange(50), [7, 20, 41]), (2, 1))
    given = Table(
        bins=bins, n_bins=np.full(50, 3), player_of=np.arange(50), y=bins[[7, 20, 41]].sum(0)[:, None].astype(float),
        weight=np.ones(500), monotone=np.zeros(50, dtype=np.int64), useful=useful,
    )  # fmt: skip
    wide, narrow = (boosted(given, n_trees=5, noise=0.0, copies=0, column_share=share).trees() for share in (0.1, 0.04))
    assert [wide.shapes[t].players.tolist() for t in range(5)] == [[7, 20, 41]] * 5  # five players may be asked about
    for t in range(len(narrow)):
        assert len(narrow.shapes[t].players) == 2
        assert set(narrow.shapes[t].players) <= {7, 20, 41}
