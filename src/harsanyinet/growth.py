"""Growth where it pays: tables over a few columns, boosted on what a fitted network leaves unexplained. numpy only.

A table asks one question, "is this column's rank above a threshold?", on each of its levels, and holds one number per
output for every combination of answers. It is a unit over the columns that it asks about: any function of the children
may stand behind the presence gate. Columns have few ranks, so that answers can be looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

Array = NDArray[Any]
Gradient = Callable[[Array, Array], tuple[Array, Array]]
"""Outputs (B, K) and targets -> what to add to lower the loss, and the curvature, (B, K) each."""


@dataclass(frozen=True, eq=False)
class Tables:
    """T tables with D questions and K outputs.

    Attributes:
        players: (T, D) whom each question is about.
        thresholds: (T, D); the answer is yes above it.
        values: (T, 2^D, K), by the answers read as a binary number, the first question first.
    """

    players: NDArray[np.int64]
    thresholds: NDArray[np.int64]
    values: NDArray[np.float32]

    @classmethod
    def none(cls, n_outputs: int, depth: int = 1) -> Tables:
        """No table at all."""
        empty = np.empty((0, depth), dtype=np.int64)
        return cls(empty, empty, np.empty((0, 2**depth, n_outputs), dtype=np.float32))

    def __len__(self) -> int:
        return len(self.players)


@dataclass(frozen=True)
class Growth:
    """How to boost.

    Attributes:
        most: Tables at most.
        depth: Questions of a table.
        rate: Share of the best step that each table takes.
        shrink: Curvature added to that of every cell: few rows move little.
        rows: Share of the rows that a table is grown on.
        most_rows: Rows that a table is grown on at most.
        few: Share of the tables that ask about four columns at most: these still act in rows where others are absent.
        tolerance: As many tables are grown as keep the loss of the trials within this share of the best: what is grown
            on all rows, on top of all members, goes on to pay for longer than it did in a trial.
        patience: Stop when so many tables have not lowered the loss of the trials.
    """

    most: int = 1000
    depth: int = 6
    rate: float = 0.07
    shrink: float = 3.0
    rows: float = 0.7
    most_rows: int = 100_000
    few: float = 0.5
    tolerance: float = 0.001
    patience: int = 120


def grow(
    ranks: Array,
    n_ranks: int,
    outputs: Array,
    targets: Array,
    *,
    gradient: Gradient,
    loss: Callable[[Array, Array], float],
    judged: NDArray[np.int64],
    allowed: Callable[[Sequence[int]], bool],
    columns: Sequence[int],
    weight: Array | None = None,
    growth: Growth = Growth(),  # noqa: B008 (frozen)
    seed: int = 0,
    progress: bool = False,
) -> Tables:
    """Boosts tables on top of given outputs: as many as pay on rows left out of a trial, then anew on all rows.

    Args:
        ranks: (B, P) whole numbers from 0 to `n_ranks` - 1; -1 where a value is absent. Rows may be there twice, once
            with columns absent, so that the tables serve such rows too.
        n_ranks: Upper bound on them.
        outputs: (B, K) what the model says of rows that it has not learned from.
        targets: (B, ...) passed on to `gradient` and `loss`.
        gradient: See `Gradient`.
        loss: Mean loss of outputs and targets.
        judged: (B,) the trial that leaves a row out and is judged by it; -1 for none.
        allowed: Which sets of columns may be used together.
        columns: Columns to ask about.
        weight: (B,) of the rows.
        growth: How.
        seed: Of the rows that each table sees.
        progress: Whether to show a progress bar, once two seconds have passed.
    """
    groups = [judged == group for group in np.unique(judged[judged >= 0])]
    if n_ranks < 2 or not len(columns) or not groups or any(group.all() for group in groups):
        return Tables.none(outputs.shape[1], growth.depth)
    weight = np.ones(len(outputs)) if weight is None else weight / weight.mean()
    booster = _Booster(ranks, n_ranks, targets, gradient, allowed, list(columns), growth)

    def pooled(each: Iterable[Array]) -> float:
        return float(
            sum(loss(out[group], targets[group]) * group.sum() for out, group in zip(each, groups, strict=True))
        )

    tried = [pooled([outputs] * len(groups))]  # by the number of tables
    trials = [booster.steps(outputs, np.where(group, 0.0, weight), seed) for group in groups]
    with tqdm(total=growth.most, unit="table", delay=2, disable=not progress) as bar:
        while len(tried) <= growth.most and len(tried) - int(np.argmin(tried)) <= growth.patience:
            tried.append(pooled([next(trial)[1] for trial in trials]))
            bar.update()
        good = np.flatnonzero(np.array(tried) <= min(tried) + growth.tolerance * abs(min(tried)))
        n_tables = int(good[-1]) if int(np.argmin(tried)) else 0
        found = [table for table, _ in islice(booster.steps(outputs, weight, seed), n_tables)]
    if not found:
        return Tables.none(outputs.shape[1], growth.depth)
    players, thresholds, values = map(np.array, zip(*found, strict=True))
    return Tables(players, thresholds, values.astype(np.float32))


@dataclass(frozen=True, eq=False)
class _Booster:
    ranks: Array
    n_ranks: int
    targets: Array
    gradient: Gradient
    allowed: Callable[[Sequence[int]], bool]
    columns: list[int]
    growth: Growth

    def steps(self, outputs: Array, weight: Array, seed: int) -> Iterator[tuple[tuple[Array, Array, Array], Array]]:
        """Table after table, each with the outputs of all rows that include it."""
        outputs = outputs.astype(np.float64)
        draw = np.random.default_rng(seed)
        used = np.flatnonzero(weight > 0)
        share = min(self.growth.rows, self.growth.most_rows / max(len(used), 1))
        while True:
            rows = used[draw.random(len(used)) < share]
            most = int(draw.integers(1, 5)) if draw.random() < self.growth.few else self.growth.depth
            step, curve = self.gradient(outputs[rows], self.targets[rows])
            ranks = self.ranks[np.ix_(rows, np.array(self.columns))]
            table = self._table(ranks, step * weight[rows, None], curve * weight[rows, None], most)
            leaf, alive = _leaves(self.ranks, *table[:2])
            outputs += np.where(alive[:, None], table[2][leaf], 0.0)
            yield table, outputs

    def _table(self, ranks: Array, step: Array, curve: Array, most: int) -> tuple[Array, Array, Array]:
        """The questions, one after the other, that explain most together with those before; and the values.

        They are about `most` columns at most.
        """
        ranks = ranks.astype(np.int64) + 1  # 0 is absent
        n_rows, n = ranks.shape
        k, size = step.shape[1], self.n_ranks + 1
        base = ranks + np.arange(n) * size  # (B, n)
        leaf = np.zeros(n_rows, dtype=np.int64)
        asked: list[int] = []
        above: list[int] = []
        for level in range(self.growth.depth):
            key = (leaf[:, None] * (n * size) + base).ravel()
            score = np.zeros((n, size - 2))
            for out in range(k):
                shape = (2**level, n, size)
                steps = np.bincount(key, np.repeat(step[:, out], n), int(np.prod(shape))).reshape(shape)[:, :, 1:]
                curves = np.bincount(key, np.repeat(curve[:, out], n), int(np.prod(shape))).reshape(shape)[:, :, 1:]
                low, low_curve = steps.cumsum(2), curves.cumsum(2)
                high, high_curve = low[:, :, -1:] - low[:, :, :-1], low_curve[:, :, -1:] - low_curve[:, :, :-1]
                low, low_curve = low[:, :, :-1], low_curve[:, :, :-1]
                shrink = self.growth.shrink
                score += (low**2 / (low_curve + shrink) + high**2 / (high_curve + shrink)).sum(0)
            for i, column in enumerate(self.columns):
                if column not in asked and (len({*asked}) == most or not self.allowed((*asked, column))):
                    score[i] = -1.0
            i, threshold = divmod(int(score.argmax()), score.shape[1])
            asked.append(self.columns[i])
            above.append(threshold)
            answer = ranks[:, i] - 1 > threshold
            there = ranks[:, i] > 0  # rows without the column are of no further use to this table
            leaf = leaf * 2 + answer
            if not there.all():
                ranks, base, leaf, step, curve = ranks[there], base[there], leaf[there], step[there], curve[there]
        total, curvature = (
            np.stack([np.bincount(leaf, part[:, out], 2**self.growth.depth) for out in range(k)], 1)
            for part in (step, curve)
        )
        return np.array(asked), np.array(above), self.growth.rate * total / (curvature + self.growth.shrink)


def _leaves(ranks: Array, players: Array, thresholds: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The leaf (B,) of every row in one table, and whether all columns that it asks about are there."""
    leaf = np.zeros(len(ranks), dtype=np.int64)
    alive = np.ones(len(ranks), dtype=bool)
    for player, threshold in zip(players, thresholds, strict=True):
        rank = ranks[:, player]
        leaf = leaf * 2 + (rank > threshold)
        alive &= rank >= 0
    return leaf, alive
