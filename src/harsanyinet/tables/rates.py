"""How fast to learn, and about which columns to ask: quick fits on some rows that watch the others.

The product of learning rate and trees is what matters: a model of many small steps is best about as far from its
start as one of few large steps. So a few quick fits decide for the long one. Few rows held out can say little about
how far is best; so what they say is weighed against how far was best on other tables.

Nothing here depends on the seed of the fit: models of two seeds differ by what boosting draws, not by their rates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet.progress import bar
from harsanyinet.tables.boost_inputs import Rows, Settings, Table
from harsanyinet.tables.boosting import Booster
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
MOST_ROWS = 100_000  # in quick fits; the long one goes the farther, the more there are
SHADOW_ROWS, SHADOW_TREES = 10_000, 100  # at most, where columns are compared with shadows
USUAL = {"binary": 1.6, "multiclass": 2.2}  # log of the sum of the rates that is best for 150 rows; of other losses 3.2
USUAL_NUMBERS = 3.2
GROWTH = 0.3  # of it with the log of the rows; of numbers none
SPREAD = 0.5  # of it among tables, some of which are far off
TRUST = 0.5  # in what rows held out say: the curves that they draw are smoother than their errors
SEED = 0
FARTHER = 1.2  # many small steps go farther than few large ones before they learn by heart
SLOWEST, FASTEST = 0.0005, 0.22
TIME_LEFT = 2.0  # times that of the quick fits, for the long one
MORE_WORK = 1.5  # of a tree of the long fit, some of which look at copies
NEARLY, CLEARLY = 0.002, 1.5  # of the loss, that fewer columns may cost; by how much log-likelihood they must be better
MANY_HELD, CHANCE = 500, 0.5  # with so many rows held out, fewer columns may be worse by half a standard error instead
WORTH_IT = 0.01  # of the loss: what less is gained by columns none of which is more than a shadow is chance
ALONE = 6.0  # standard deviations by which a column explains more than chance by itself


@dataclass(frozen=True, eq=False)
class Trial:
    """What quick fits found."""

    learning_rate: float  # for the long fit
    losses: Array  # (t + 1,) the mean loss of rows held out, with all columns, before the first and after each tree
    held: Rows  # those rows, of all folds together, and the outputs for them of the best number of trees
    useful: Masks  # (2, P) the players worth asking about, with all columns and with some of them


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
    table: Table, loss: Loss, settings: Settings, *, n_threads: int = 1, progress: bool = False,
    max_seconds: float | None = None,
) -> Trial:  # fmt: skip
    """Fits quickly on four fifths of the rows and watches the others; more than once where there are few rows.

    If some players gain no more than shuffled ones do, the quick fits are made again without them (of few rows, without
    those that gain no more in the rows of each), and they are left out for good where that is better or as good.

    The settings are those of the long fit; the seconds are for all of it, and twice as many are left for that fit.
    """
    n_all, started = len(table.y), time.monotonic()
    table = _some(table, MOST_ROWS)
    n = len(table.y)
    n_folds = int(np.clip(np.ceil(ENOUGH_ROWS / n), 1, MOST_WATCHED))
    order = np.random.default_rng(SEED).permutation(n)
    if loss.classifies:  # every fold has its share of every class
        order = order[np.argsort(table.y[order, 0], kind="stable")]
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.arange(n) % FOLDS
    each = None if max_seconds is None else max_seconds / (3 * n_folds + 1)
    quick = replace(
        settings, n_trees=MOST_TREES, learning_rate=QUICK_RATE, quickening=QUICKENING, copies=0, max_seconds=each
    )

    def watch(screen: Callable[[Table], Masks], shown: tqdm[Any]) -> _Watched:
        boosters, held, curves = [], [], []
        for f in range(n_folds):
            some, other = table.take(np.flatnonzero(fold != f)), table.take(np.flatnonzero(fold == f))
            asked = replace(some, useful=np.stack([screen(some)] * 2))
            booster = Booster(asked, loss, quick, SEED + f, n_threads)
            rows = Rows(other.bins, other.y, other.weight, np.tile(booster.base, (len(other.y), 1)))
            curves.append(booster.boost(rows, PATIENCE, shown))
            boosters.append(booster)
            held.append(rows)
        longest = max(map(len, curves))
        losses = np.mean([np.append(c, np.full(longest - len(c), c[-1])) for c in curves], axis=0)
        return _Watched(boosters, held, losses)

    with bar("looking for a learning rate", None, unit="tree", progress=progress) as shown:  # who knows how many
        kept = np.ones(table.n_players, dtype=bool)
        found = watch(lambda _: kept, shown)
        if found.best and table.n_players > 1:
            few = replace(quick, n_trees=min(found.best, SHADOW_TREES), least_gain=0.0)

            def screened(some: Table) -> Masks:
                shadowed = Booster(with_shadows(_some(some, SHADOW_ROWS), SEED), loss, few, SEED, n_threads)
                shadowed.boost()
                return more_than_shadows(shadowed.gains, table.n_players)

            own = screened(table)
            if own.any() and not own.all():
                few_held = sum(map(len, found.held)) < MANY_HELD  # who must have no part in the choice then
                again = watch(screened if few_held else lambda _: own, shown)
                if _as_good(loss, _together(again), _together(found)):
                    found, kept = again, own
            elif not own.any() and found.losses.min() > (1 - WORTH_IT) * found.losses[0]:
                kept = own  # nothing but noise
    n_trees = settings.n_trees
    if max_seconds is not None:  # as many as there will be time for
        seconds = (time.monotonic() - started) / max(1, sum(len(booster.shapes) for booster in found.boosters))
        n_trees = int(np.clip(TIME_LEFT * max_seconds / seconds / MORE_WORK, 1, n_trees))
    far = _best_distance(loss, found.losses, sum(map(len, found.held)), n)
    far *= (n_all / n) ** (GROWTH if loss.name in USUAL else 0.0)
    rate = float(np.clip(FARTHER * far / n_trees, SLOWEST, FASTEST))
    useful = np.stack([kept, kept | (alone(table, loss) > ALONE)])
    return Trial(rate, found.losses, _together(found), useful)


def _some(table: Table, most: int) -> Table:
    """The table, or so many of its rows, drawn at random."""
    if len(table.y) <= most:
        return table
    return table.take(np.sort(np.random.default_rng(SEED).choice(len(table.y), most, replace=False)))


def _misfit(loss: Loss, mean_loss: Any, n: int) -> Any:
    """Minus the log-likelihood of n rows, but for a constant, of mean losses."""
    if loss.name in ("binary", "multiclass", "poisson"):
        return n * mean_loss
    return n * (0.5 if loss.name == "squared" else 1.0) * np.log(np.maximum(mean_loss, np.finfo(float).tiny))


def _as_good(loss: Loss, fewer: Rows, all_columns: Rows) -> bool:
    """Whether rows held out are predicted as well from fewer columns; of few rows, whether they are clearly better."""
    each = [loss.each(rows.output, rows.y) for rows in (fewer, all_columns)]
    after, before = (float(np.average(one, weights=fewer.weight)) for one in each)
    n = len(fewer)
    if n < MANY_HELD:
        return bool(_misfit(loss, after, n) + CLEARLY <= _misfit(loss, (1 + NEARLY) * before, n))
    error = np.std(fewer.weight * (each[0] - each[1])) / np.sqrt(n)
    return bool(after <= (1 + NEARLY) * before + CHANCE * error)


def _best_distance(loss: Loss, losses: Array, n_held: int, n_rows: int) -> float:
    """How far from its start a model should go: the sum of the rates, of trees that were watched.

    The mean of its logarithm, weighed by what the rows held out say of each distance and by how usual it is in tables
    of so many rows.
    """
    number = np.arange(1, len(losses))
    if not len(number):
        return 0.0
    far = QUICK_RATE * (number + QUICKENING * number * (number - 1) / 2)
    usual = USUAL[loss.name] + GROWTH * np.log(n_rows / 150) if loss.name in USUAL else USUAL_NUMBERS
    unusual = (np.log(far) - usual) / SPREAD
    says = -TRUST * _misfit(loss, losses[1:], n_held)
    says = says - 2 * np.log1p(unusual**2 / 3) + np.log(np.diff(far, prepend=0.0) / far)  # Student's t, three degrees
    weight = np.exp(says - says.max())
    return float(np.exp(np.average(np.log(far), weights=weight)))


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
