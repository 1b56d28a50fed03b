"""How fast to learn, and about which columns to ask: quick fits on some rows that watch the others.

The product of learning rate and trees is what matters: a model of many small steps is best about as far from its
start as one of few large steps. So a few quick fits decide for the long one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet.progress import bar
from harsanyinet.tables.boosting import Booster, Rows, Settings, Table
from harsanyinet.tables.look_ups import LookUp
from harsanyinet.tables.losses import Loss
from harsanyinet.tables.screening import alone, more_than_shadows, with_shadows

Array = NDArray[Any]
Masks = NDArray[np.bool_]

QUICK_RATE, QUICKENING = 0.15, 1 / 200  # far takes fewer steps so, and near is seen in detail
MOST_TREES = 500
PATIENCE = 35
ENOUGH_ROWS = 8000  # times folds
FOLDS, MOST_WATCHED = 5, 3
MOST_ROWS = 100_000  # more tell no more
FARTHER = 1.2  # many small steps go farther than few large ones before they learn by heart
SLOWEST, FASTEST = 0.0005, 0.22
TIME_LEFT = 2.0  # times that of the quick fits, for the long one
MORE_WORK = 3.0  # of a tree that learns from copies, too
NEARLY = 0.002  # of the loss, that fewer columns may cost
WORTH_IT = 0.01  # of the loss: what less is gained by columns none of which is more than a shadow is chance
ALONE = 6.0  # standard deviations by which a column explains more than chance by itself


@dataclass(frozen=True, eq=False)
class Trial:
    """What quick fits found.

    Attributes:
        learning_rate: For the long fit.
        losses: (t + 1,) the mean loss of rows held out, with all their columns, before the first and after each tree.
        held: Those rows, of all folds together, and the outputs for them of the best number of trees.
        useful: (2, P) bool, the players worth asking about, with all columns and with some of them.
    """

    learning_rate: float
    losses: Array
    held: Rows
    useful: Masks


@dataclass(frozen=True, eq=False)
class _Watched:
    """Quick fits, the rows that each did not see, and their mean loss."""

    boosters: list[Booster]
    held: list[Rows]
    losses: Array

    @property
    def best(self) -> int:
        return int(np.argmin(self.losses))


def find_rate(
    table: Table, loss: Loss, settings: Settings, *, stratify: bool, seed: int = 0, n_threads: int = 1,
    progress: bool = False, max_seconds: float | None = None,
) -> Trial:  # fmt: skip
    """Fits quickly on four fifths of the rows and watches the others; more than once where there are few rows.

    If some players gain no more than shuffled ones do, the quick fits are made again without them, and they are left
    out for good where that is better or as good.

    Args:
        table: What is to be learned from.
        loss: What is to be minimised.
        settings: Of the long fit.
        stratify: Whether every fold should have its share of every target value, as classes should.
        seed: Of all draws.
        n_threads: The bits do not depend on it.
        progress: Whether to show a bar.
        max_seconds: For all of it; twice as many are left for the long fit.
    """
    if len(table.y) > MOST_ROWS:
        table = table.take(np.sort(np.random.default_rng(seed).choice(len(table.y), MOST_ROWS, replace=False)))
    n, started = len(table.y), time.monotonic()
    n_folds = int(np.clip(np.ceil(ENOUGH_ROWS / n), 1, MOST_WATCHED))
    order = np.random.default_rng(seed).permutation(n)
    if stratify:
        order = order[np.argsort(table.y[order, 0], kind="stable")]
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.arange(n) % FOLDS
    each = None if max_seconds is None else max_seconds / (2 * n_folds + 1)
    quick = replace(
        settings, n_trees=MOST_TREES, learning_rate=QUICK_RATE, quickening=QUICKENING, copies=0, max_seconds=each
    )

    def watch(asked: Table, shown: tqdm[Any]) -> _Watched:
        boosters, held, curves = [], [], []
        for f in range(n_folds):
            booster = Booster(asked.take(np.flatnonzero(fold != f)), loss, quick, seed + f, n_threads)
            other = asked.take(np.flatnonzero(fold == f))
            rows = Rows(other.bins, other.y, other.weight, np.tile(booster.base, (len(other.y), 1)))
            curves.append(booster.boost(rows, PATIENCE, shown))
            boosters.append(booster)
            held.append(rows)
        longest = max(map(len, curves))
        losses = np.mean([np.append(c, np.full(longest - len(c), c[-1])) for c in curves], axis=0)
        return _Watched(boosters, held, losses)

    with bar("looking for a learning rate", None, unit="tree", progress=progress) as shown:  # who knows how many
        found = watch(table, shown)
        kept = np.ones(table.n_players, dtype=bool)
        if found.best and table.n_players > 1:
            shadowed = Booster(with_shadows(table, seed), loss, replace(quick, n_trees=found.best), seed, n_threads)
            shadowed.boost()
            some = more_than_shadows(shadowed.gains, table.n_players)
            if some.any() and not some.all():
                again = watch(replace(table, useful=np.stack([some, some])), shown)
                if again.losses.min() <= (1 + NEARLY) * found.losses.min():
                    found, kept = again, some
            elif not some.any() and found.losses.min() > (1 - WORTH_IT) * found.losses[0]:
                kept = some  # nothing but noise
    n_trees = settings.n_trees
    if max_seconds is not None:  # as many as there will be time for
        seconds = (time.monotonic() - started) / max(1, sum(len(booster.shapes) for booster in found.boosters))
        n_trees = int(np.clip(TIME_LEFT * max_seconds / seconds / MORE_WORK, 1, n_trees))
    far = QUICK_RATE * (found.best + QUICKENING * found.best * (found.best - 1) / 2)  # the sum of the rates
    rate = float(np.clip(FARTHER * far / n_trees, SLOWEST, FASTEST))
    useful = np.stack([kept, kept | (alone(table, loss) > ALONE)])
    return Trial(rate, found.losses, _together(found), useful)


def _together(found: _Watched) -> Rows:
    """The rows held out of all folds, with the outputs of the best number of trees."""
    outputs = []
    for booster, rows in zip(found.boosters, found.held, strict=True):
        model = booster.trees(found.best)
        outputs.append(LookUp.of_values(model, full=False).apply(rows.bins).T + model.base)
    return Rows(
        np.concatenate([rows.bins for rows in found.held], axis=1), np.concatenate([rows.y for rows in found.held]),
        np.concatenate([rows.weight for rows in found.held]), np.concatenate(outputs),
    )  # fmt: skip
