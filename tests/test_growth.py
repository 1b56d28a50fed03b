"""Boosted tables: against a loop over rows, on targets whose tables are known, and where they must not grow."""

from __future__ import annotations

import numpy as np
import pytest

from harsanyinet.growth import Growth, Tables, grow
from harsanyinet.planning import Problem, cell_ranks

SQUARED = Problem("squared", ["output"], [0.0], [1.0])
BINARY = Problem("binary", ["yes"], [0.0], [1.0])


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
        columns=range(ranks.shape[1]) if columns is None else columns, growth=Growth(depth=3, **options),
    )  # fmt: skip


@pytest.fixture
def ranks():
    return np.random.default_rng(0).integers(0, 8, (1500, 5))


def test_values_are_those_of_the_answers(ranks):
    rng = np.random.default_rng(1)
    tables = Tables(
        rng.integers(0, 5, (7, 3)), rng.integers(0, 7, (7, 3)), rng.normal(size=(7, 8, 2)).astype(np.float32)
    )
    rows = ranks[:50].copy()
    rows[rng.random(rows.shape) < 0.2] = -1
    np.testing.assert_allclose(tables.of(rows).sum(0), [by_hand(tables, row) for row in rows], atol=1e-5)


def test_fields_are_the_columns_asked_about():
    tables = Tables(np.array([[0, 2], [1, 1]]), np.zeros((2, 2), dtype=int), np.zeros((2, 4, 1), dtype=np.float32))
    assert tables.fields(3).tolist() == [[True, False, True], [False, True, False]]


def test_an_interaction_is_found_and_named(ranks):
    y = np.where((ranks[:, 1] > 3) & (ranks[:, 3] > 4), 2.0, 0.0)[:, None] - 0.3
    tables = boosted(ranks, y, most=60, rate=0.3)
    left = y[:, 0] - tables.of(ranks).sum(0)[:, 0]
    assert left.var() < 0.02 * y.var()
    weight = np.abs(tables.values).sum((1, 2)) @ tables.fields(5)
    assert weight[[1, 3]].min() > 10 * weight[[0, 2, 4]].max()


def test_noise_grows_nothing_much(ranks):
    y = np.random.default_rng(3).normal(size=(len(ranks), 1))
    tables = boosted(ranks, y, most=100)
    assert tables.of(ranks).sum(0).var() < 0.05


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
    assert problem.mean_loss(start + tables.of(ranks).sum(0), y) < 0.97 * problem.mean_loss(start, y)


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
    added = tables.of(absent).sum(0)[:, 0]
    assert (added[absent[:, 0] < 0] == 0).all()
    assert added.max() < 2


def test_sets_that_are_not_allowed_are_not_used(ranks):
    y = (ranks[:, 0] > 3).astype(np.float64)[:, None] * (ranks[:, 1] > 3)[:, None] + (ranks[:, 2] > 5)[:, None]
    tables = boosted(ranks, y, allowed=lambda s: not {0, 1} <= set(s), most=30)
    fields = tables.fields(5)
    assert len(tables)
    assert not (fields[:, 0] & fields[:, 1]).any()
    assert boosted(ranks, y, columns=[2], most=5).fields(5)[:, [0, 1, 3, 4]].sum() == 0


def test_weights_count(ranks):
    y = (ranks[:, 0] > 3).astype(np.float64)[:, None]
    other = y.copy()
    other[1::2] = 7.0
    judged = np.where(np.arange(len(y)) % 10 == 0, 0, -1)
    weight = np.where(np.arange(len(y)) % 2, 0.0, 1.0)
    found = grow(
        ranks, 8, np.zeros_like(y), other, gradient=SQUARED.gradient, loss=SQUARED.mean_loss, judged=judged,
        allowed=lambda s: True, columns=[0], weight=weight, growth=Growth(depth=1, most=60, rate=0.3),
    ).of(ranks).sum(0)  # fmt: skip
    assert np.abs(found - y).max() < 0.1


def test_nothing_to_grow_on(ranks):
    y = np.zeros((len(ranks), 1))
    assert len(boosted(ranks, y, columns=[])) == 0
    assert len(boosted(ranks, y, most=5)) == 0  # no loss to lower
    assert Tables.none(2, 3).of(ranks).shape == (0, len(ranks), 2)


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
