"""Boosted tables: on targets whose tables are known, and where they must not grow."""

from __future__ import annotations

import numpy as np
import pytest

from harsanyinet.growth import Growth, Tables, grow
from harsanyinet.planning import Problem, cell_ranks

SQUARED = Problem("squared", ["output"], [0.0], [1.0])
BINARY = Problem("binary", ["yes"], [0.0], [1.0])


def fields(tables: Tables, n_players: int) -> np.ndarray:
    """(T, P): the columns of each table."""
    return np.array([np.isin(np.arange(n_players), players) for players in tables.players]).reshape(-1, n_players)


def added(tables: Tables, ranks: np.ndarray) -> np.ndarray:
    """What the tables add to each row, (B, K)."""
    return np.array([by_hand(tables, row) for row in ranks])


def by_hand(tables: Tables, row: np.ndarray) -> np.ndarray:
    """What the tables add to one row, question by question."""
    total = np.zeros(tables.values.shape[2])
    for players, thresholds, values in zip(tables.players, tables.thresholds, tables.values, strict=True):
        if any(row[p] < 0 for p in players):
            continue
        answers = "".join("1" if row[p] > t else "0" for p, t in zip(players, thresholds, strict=True))
        total += values[int(answers, 2)]
    return total


def boosted(ranks, y, problem=SQUARED, *, allowed=lambda s: True, columns=None, n_ranks=8, **options):
    judged = np.arange(len(y)) % 6 // 2 - 1  # a third of the rows in no trial
    start = np.zeros((len(y), problem.n_outputs))
    return grow(
        ranks, n_ranks, start, y, gradient=problem.gradient, loss=problem.mean_loss, judged=judged, allowed=allowed,
        columns=range(ranks.shape[1]) if columns is None else columns, growth=Growth(**{"depth": 3, **options}),
    )  # fmt: skip


@pytest.fixture
def ranks():
    return np.random.default_rng(0).integers(0, 8, (1500, 5))


def test_an_interaction_is_found_and_named(ranks):
    y = np.where((ranks[:, 1] > 3) & (ranks[:, 3] > 4), 2.0, 0.0)[:, None] - 0.3
    tables = boosted(ranks, y, most=60, rate=0.3)
    left = y[:, 0] - added(tables, ranks)[:, 0]
    assert left.var() < 0.02 * y.var()
    weight = np.abs(tables.values).sum((1, 2)) @ fields(tables, 5)
    assert weight[[1, 3]].min() > 10 * weight[[0, 2, 4]].max()


def test_noise_grows_nothing_much(ranks):
    y = np.random.default_rng(3).normal(size=(len(ranks), 1))
    tables = boosted(ranks, y, most=100)
    assert added(tables, ranks).var() < 0.05


LOSSES = [
    BINARY,
    Problem("multiclass", ["a", "b", "c"], [0.0] * 3, [1.0] * 3),
    Problem("poisson", ["n"], [0.0], [1.0]),
    Problem("absolute", ["m"], [0.0], [1.0]),
]


@pytest.mark.parametrize("problem", LOSSES, ids=lambda problem: problem.kind)
def test_every_loss_falls(ranks, problem):
    rng = np.random.default_rng(4)
    score = (ranks[:, 0] > 3) * 1.0 + (ranks[:, 1] > 5)
    y = {"binary": rng.random(len(ranks)) < 0.2 + 0.3 * score, "poisson": rng.poisson(np.exp(score))}.get(
        problem.kind, score
    )
    y = np.asarray(y, dtype=np.float64)[:, None]
    tables = boosted(ranks, y, problem, most=80, rate=0.2)
    start = np.zeros((len(y), problem.n_outputs))
    assert problem.mean_loss(start + added(tables, ranks), y) < 0.97 * problem.mean_loss(start, y)


def test_gradients_are_those_of_the_loss():
    rng = np.random.default_rng(5)
    for problem, y in (
        (BINARY, rng.integers(0, 2, (6, 1))),
        (SQUARED, rng.normal(size=(6, 1))),
        (Problem("poisson", ["n"], [0.0], [1.0]), rng.poisson(2, (6, 1))),
        (Problem("multiclass", ["a", "b", "c"], [0.0] * 3, [1.0] * 3), rng.integers(0, 3, (6, 1))),
        (Problem("quantile", ["q"], [0.0], [1.0], 0.3), rng.normal(size=(6, 1))),
    ):
        y = y.astype(np.float64)
        outputs = rng.normal(size=(6, problem.n_outputs))
        found = problem.gradient(outputs, y)[0]
        for k in range(problem.n_outputs):
            up, down = outputs.copy(), outputs.copy()
            up[:, k] += 1e-6
            down[:, k] -= 1e-6
            for row in range(6):
                each = slice(row, row + 1)
                slope = (problem.mean_loss(up[each], y[each]) - problem.mean_loss(down[each], y[each])) / 2e-6
                factor = 2.0 if problem.kind == "squared" else 1.0  # a step of half the slope, with curvature one
                assert found[row, k] * factor == pytest.approx(-slope, abs=1e-5)


def test_absent_rows_neither_teach_nor_get_anything(ranks):
    absent = ranks.copy()
    absent[::2, 0] = -1
    y = (ranks[:, 0] > 3).astype(np.float64)[:, None] + np.where(absent[:, :1] < 0, 50.0, 0.0)
    tables = boosted(absent, y, columns=[0], most=50, rate=0.3)
    found = added(tables, absent)[:, 0]
    assert (found[absent[:, 0] < 0] == 0).all()
    assert found.max() < 2


def test_sets_that_are_not_allowed_are_not_used(ranks):
    y = (ranks[:, 0] > 3).astype(np.float64)[:, None] * (ranks[:, 1] > 3)[:, None] + (ranks[:, 2] > 5)[:, None]
    tables = boosted(ranks, y, allowed=lambda s: not {0, 1} <= set(s), most=30)
    sets = fields(tables, 5)
    assert len(tables)
    assert not (sets[:, 0] & sets[:, 1]).any()
    assert fields(boosted(ranks, y, columns=[2], most=5), 5)[:, [0, 1, 3, 4]].sum() == 0


def test_rows_that_are_there_twice_teach_what_few_columns_say(ranks):
    y = ((ranks[:, 0] > 3) * 1.0 + (ranks[:, 1] > 3))[:, None] - 1.0
    alone = np.where(np.arange(5) == 0, ranks, -1)  # only the first column is there
    twice, targets = np.concatenate([ranks, alone]), np.concatenate([y, y])
    before = added(boosted(ranks, y, most=100, rate=0.2, few=0.0), alone)
    after = added(boosted(twice, targets, most=100, rate=0.2), alone)
    best = (ranks[:, :1] > 3) - 0.5
    assert np.abs(after - best).mean() < 0.1 < np.abs(before - best).mean()


def test_few_columns_are_four_at_most(ranks):
    y = np.random.default_rng(7).normal(size=(len(ranks), 1)) + ranks.sum(1, keepdims=True)
    wide = boosted(ranks, y, most=40, few=0.0, depth=6)
    few = boosted(ranks, y, most=40, few=1.0, depth=6)
    assert fields(wide, 5).sum(1).max() == 5
    assert set(fields(few, 5).sum(1)) == {1, 2, 3, 4}


def test_weights_count(ranks):
    y = (ranks[:, 0] > 3).astype(np.float64)[:, None]
    other = y.copy()
    other[1::2] = 7.0
    judged = np.where(np.arange(len(y)) % 10 == 0, 0, -1)
    weight = np.where(np.arange(len(y)) % 2, 0.0, 1.0)
    tables = grow(
        ranks, 8, np.zeros_like(y), other, gradient=SQUARED.gradient, loss=SQUARED.mean_loss, judged=judged,
        allowed=lambda s: True, columns=[0], weight=weight, growth=Growth(depth=1, most=60, rate=0.3),
    )  # fmt: skip
    assert np.abs(added(tables, ranks) - y).max() < 0.1


def test_nothing_to_grow_on(ranks):
    y = np.zeros((len(ranks), 1))
    assert len(boosted(ranks, y, columns=[])) == 0
    assert len(boosted(ranks, y, most=5)) == 0  # no loss to lower
    assert Tables.none(2, 3).values.shape == (0, 8, 2)


def test_the_same_seed_gives_the_same_tables(ranks):
    y = np.random.default_rng(6).normal(size=(len(ranks), 1)) + (ranks[:, :1] > 2)
    first, second = boosted(ranks, y, most=10), boosted(ranks, y, most=10)
    assert np.array_equal(first.values, second.values)
    assert np.array_equal(first.players, second.players)


def test_categories_are_ranked_by_their_target():
    cells = np.array([[0, 0], [1, 1], [2, 2], [2, 0], [0, 1], [1, -1]] * 20)
    y = np.array([5.0, 1.0, 3.0, 3.0, 5.0, 1.0] * 20)[:, None]
    ranks = cell_ranks(cells, [3, 3], ["category", "number"], y)
    assert ranks.tolist() == [2, 0, 1, 0, 1, 2]
    several = cell_ranks(cells, [3, 3], ["category", "number"], np.column_stack([y, -2 * y]))
    assert several[:3].tolist() in ([2, 0, 1], [0, 2, 1])
