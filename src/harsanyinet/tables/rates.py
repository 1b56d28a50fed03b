"""How fast to learn: boosting quickly on some rows and watching others tells how far boosting should go.

The product of learning rate and trees is what matters: a model of many small steps is best about as far from its
start as one of few large steps. So a few quick fits decide for the long one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet.tables.boosting import Booster, Rows, Settings, Table
from harsanyinet.tables.look_ups import LookUp
from harsanyinet.tables.losses import Loss

Array = NDArray[Any]

QUICK_RATE = 0.15
MOST_TREES = 800
PATIENCE = 40
ENOUGH_ROWS = 3000  # times folds
MOST_FOLDS = 5
FARTHER = 1.2  # many small steps go farther than few large ones before they learn by heart
SLOWEST, FASTEST = 0.004, 0.15


@dataclass(frozen=True)
class Trial:
    """What quick fits found.

    Attributes:
        learning_rate: For the long fit.
        quick_rate: Of the quick fits.
        losses: (t + 1,) the mean loss of rows held out, with all their columns, before the first and after each tree.
        held: Those rows, of all folds together, and the outputs for them of the best number of trees.
    """

    learning_rate: float
    quick_rate: float
    losses: Array
    held: Rows


def find_rate(
    table: Table, loss: Loss, settings: Settings, *, stratify: bool, seed: int = 0, n_threads: int = 1,
    progress: bool = False,
) -> Trial:  # fmt: skip
    """Fits quickly on four fifths of the rows and watches the others; more than once where there are few rows.

    Args:
        table: What is to be learned from.
        loss: What is to be minimised.
        settings: Of the long fit.
        stratify: Whether every fold should have its share of every target value, as classes should.
        seed: Of all draws.
        n_threads: The bits do not depend on it.
        progress: Whether to show a bar.
    """
    n = len(table.y)
    n_folds = int(np.clip(np.ceil(ENOUGH_ROWS / n), 1, MOST_FOLDS))
    order = np.random.default_rng(seed).permutation(n)
    if stratify:
        order = order[np.argsort(table.y[order, 0], kind="stable")]
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.arange(n) % 5
    quick = replace(settings, n_trees=MOST_TREES, learning_rate=QUICK_RATE, copies=0)
    curves, boosters, held = [], [], []
    with tqdm(total=n_folds * MOST_TREES, desc="learning rate", disable=not progress, delay=2.0, leave=False) as bar:
        for f in range(n_folds):
            booster = Booster(table.take(np.flatnonzero(fold != f)), loss, quick, seed + f, n_threads)
            other = table.take(np.flatnonzero(fold == f))
            rows = Rows(other.bins, other.y, other.weight, np.tile(booster.base, (len(other.y), 1)))
            curves.append(booster.boost(rows, PATIENCE, bar))
            boosters.append(booster)
            held.append(other)
    longest = max(map(len, curves))
    losses = np.mean([np.append(c, np.full(longest - len(c), c[-1])) for c in curves], axis=0)
    best = int(np.argmin(losses))
    outputs = [
        booster.base + _values(booster, other.bins, best) for booster, other in zip(boosters, held, strict=True)
    ]
    together = Rows(
        np.concatenate([other.bins for other in held], axis=1), np.concatenate([other.y for other in held]),
        np.concatenate([other.weight for other in held]), np.concatenate(outputs),
    )  # fmt: skip
    rate = float(np.clip(FARTHER * QUICK_RATE * best / settings.n_trees, SLOWEST, FASTEST))
    return Trial(rate, QUICK_RATE, losses, together)


def _values(booster: Booster, bins: Array, n_trees: int) -> Array:
    return LookUp.of_values(booster.trees(n_trees), full=False).apply(bins).T
