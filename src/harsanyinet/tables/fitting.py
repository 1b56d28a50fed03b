"""From a frame and targets to trees: bins, learning rate, boosting, counts. The steps of a fit in their order."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet.progress import bar
from harsanyinet.tables import kernels
from harsanyinet.tables.bins import Binning, fit_columns
from harsanyinet.tables.boost_inputs import Rows, Settings, Table
from harsanyinet.tables.boosting import Booster
from harsanyinet.tables.columns import Column, code_frame, columns_of, n_bins_of
from harsanyinet.tables.history import History, scores_of
from harsanyinet.tables.limits import Limits
from harsanyinet.tables.look_ups import LookUp, Paths, in_chunks
from harsanyinet.tables.losses import Loss
from harsanyinet.tables.players import Players
from harsanyinet.tables.rates import QUICK_RATE, find_rate
from harsanyinet.tables.trees import Trees

Array = NDArray[Any]

FEWEST_TO_WATCH = 20  # rows; of fewer none are held out
USUAL_RATE = 0.02
MANY_OUTPUTS = 200_000  # of all rows: so many average noise out, and more trees would take long
BOOSTING = 0.6  # of the time that is left, at most; the rest teaches what to say when columns are absent
LARGE_STEP, MOST_TIMES = 0.03, 3.0  # a learning rate above leaves noise in the outputs: up to so many times the trees


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit found: columns, trees of all members, where each member ends, and the training rows' bins."""

    columns: list[Column]
    trees: Trees
    member_ends: Array
    learning_rate: float
    history: History
    bins: Array


def fit_trees(
    frame: pd.DataFrame,
    targets: Array,
    weight: Array,
    loss: Loss,
    limits: Limits,
    signs: Array,
    *,
    players: Players,
    binning: Binning,
    categories: Iterable[Any],
    dates: Iterable[Any] | None,
    settings: Settings,
    rate: float | None,
    may_lengthen: bool,
    members: int,
    held: tuple[pd.DataFrame, Array] | None,
    held_share: float,
    patience: int | None,
    seed: int,
    n_threads: int,
    progress: bool,
    until: float | None,
) -> Fitted:
    """Fits trees to a table.

    Args:
        frame: (B, columns).
        targets: (B, T) numbers or class numbers.
        weight: (B,), 1 on average.
        loss: What to minimise.
        limits: Which players may act together.
        signs: (columns,) of monotone columns.
        players: Of the columns.
        binning: How to bin.
        categories: Names of columns of numbers that are categories.
        dates: Names of columns that are dates; None for all that read as such.
        settings: How to boost.
        rate: Learning rate; None to find it.
        may_lengthen: Whether there may be more trees than `settings` say where the rate that is found is large.
        members: Models whose outputs are averaged.
        held: Rows to watch, and their targets.
        held_share: Share of the rows to hold out and watch.
        patience: Trees without a lower loss of the rows that are watched after which to stop.
        seed: Of all draws.
        n_threads: The bits do not depend on it.
        progress: Whether to show bars.
        until: When to stop, by `time.monotonic`.
    """
    unit = Unit.of(targets, weight, loss)
    codes = np.eye(loss.n_classes)[targets[:, 0].astype(int)] if loss.name == "multiclass" else targets
    columns, own = fit_columns(frame, codes, weight, binning, categories, dates, seed)
    _check_monotone(columns, signs)
    column_of = columns_of(columns)
    player_of = players.of_column[column_of]
    players.absent_together(own, player_of)
    says_something = [len(np.unique(column[column > 0])) > 1 for column in own]
    n_bins = np.where(says_something, n_bins_of(columns), 1)  # a column with one value is never asked about
    allowed = limits.allowed if limits.any else None
    table = Table(own, n_bins, player_of, unit.to(targets), weight, signs[column_of], allowed)
    settings = replace(settings, max_players=min(settings.max_players, limits.max_order))
    watched: Rows | None = None
    if held is not None:
        watched = _unseen(players.absent_together(code_frame(columns, held[0]), player_of), unit.to(held[1]), loss)
    elif held_share:
        table, watched = _split(table, loss, held_share, seed)
    history = History()
    if rate is None:
        table, rate, history = _search(table, loss, settings, unit, n_threads, progress, until)
    times, n_outputs = 1.0, max(loss.n_classes, targets.shape[1])
    if may_lengthen and len(history.losses) and until is None and len(table.y) * n_outputs < MANY_OUTPUTS:
        times = float(np.clip(rate / LARGE_STEP, 1.0, MOST_TIMES))
    settings = replace(
        settings, learning_rate=rate / times, n_trees=round(times * settings.n_trees),
        copies=-(-settings.copies // round(members * times)),  # each member draws its own, a long fit more often
    )  # fmt: skip
    each: list[Trees] = []
    n_steps = members * settings.n_steps + 1  # one more: counting rows
    with bar("boosting", n_steps, unit="tree", progress=progress) as shown:
        for member in range(members):
            left = None if until is None else max(0.0, until - time.monotonic()) / (members - member)
            booster = Booster(
                table, loss, replace(settings, max_seconds=None if left is None else BOOSTING * left),
                seed + 1000 * member, n_threads,
            )  # fmt: skip
            trees, seen = _boosted(booster, watched, patience, unit, shown, left)
            each.append(trees)
            history = seen or history
        mean = unit.back(Trees.mean_of(each))
        rows = players.absent_together(code_frame(columns, frame), player_of)
        mean = mean.counted(_counts(mean, rows, n_threads))
    ends = np.cumsum([len(one) for one in each])
    return Fitted(columns, mean, ends, settings.learning_rate, history, own)


@dataclass(frozen=True, eq=False)
class Unit:
    """Numbers are boosted in units of their spread; a constant target has none.

    Attributes:
        shift: (T,) the mean of each target; zero for classes and counts.
        scale: (T,) its spread; one for classes and counts.
    """

    shift: Array
    scale: Array

    @classmethod
    def of(cls, targets: Array, weight: Array, loss: Loss) -> Unit:
        """That of these targets, (B, T)."""
        if loss.name in ("binary", "multiclass", "poisson"):
            return cls(np.zeros(1), np.ones(1))
        shift, spread = np.average(targets, axis=0, weights=weight), targets.std(axis=0)
        return cls(shift, np.where(spread > 1e-12 * np.maximum(np.abs(shift), 1e-300), spread, 1.0))

    def to(self, targets: Array) -> Array:
        """Targets in this unit."""
        return np.asarray((targets - self.shift) / self.scale)

    def back(self, trees: Trees) -> Trees:
        """Trees whose outputs are in the units of the targets."""
        return trees.rescaled(self.scale, self.shift)

    def scores(self, loss: Loss, rows: Rows, output: Array) -> dict[str, float]:
        """Scores of outputs for rows, in the units of the targets."""
        return scores_of(loss, output * self.scale, rows.y * self.scale, rows.weight)


def _check_monotone(columns: list[Column], signs: Array) -> None:
    wrong = [c for c, sign in zip(columns, signs, strict=True) if sign and c.kind != "number"]
    if wrong:
        what = "categories" if wrong[0].kind == "category" else "dates"
        raise ValueError(f"monotone columns must hold numbers, however: {wrong[0].name!r} holds {what}")


def _search(
    table: Table, loss: Loss, settings: Settings, unit: Unit, n_threads: int, progress: bool, until: float | None
) -> tuple[Table, float, History]:
    """The table with the players worth asking about, the learning rate, and what rows held out said."""
    if len(table.y) < FEWEST_TO_WATCH:
        return table, USUAL_RATE, History()
    seconds = None if until is None else max(0.0, until - time.monotonic()) / 3
    trial = find_rate(
        table, loss, settings, n_threads=n_threads, progress=progress, max_seconds=seconds,
    )  # fmt: skip
    scores = unit.scores(loss, trial.held, trial.held.output)
    history = History(trial.losses, len(trial.held), QUICK_RATE, scores)
    return replace(table, useful=trial.useful), trial.learning_rate, history


def _boosted(
    booster: Booster, watched: Rows | None, patience: int | None, unit: Unit, shown: tqdm[Any], left: float | None
) -> tuple[Trees, History | None]:
    """The trees of one member, and how rows that were watched fared; `left` are the seconds there are."""
    until = None if left is None else time.monotonic() + left
    if watched is not None:
        watched.output[:] = booster.base
    losses = booster.boost(watched, patience, shown)
    best = int(np.argmin(losses)) if watched is not None and patience is not None else None
    trees = booster.finish(best, shown, until)
    if watched is None:
        return trees, None
    output = LookUp.of_values(trees, full=False).apply(watched.bins).T + trees.base
    scores = unit.scores(booster.loss, watched, output)
    return trees, History(losses, len(watched), booster.settings.learning_rate, scores)


def _unseen(bins: Array, y: Array, loss: Loss, weight: Array | None = None) -> Rows:
    """Rows to watch, whose outputs are yet to come."""
    weight = np.ones(len(y)) if weight is None else weight
    return Rows(bins, y, weight, np.zeros((len(y), len(loss.best_constant(y, weight)))))


def _split(table: Table, loss: Loss, share: float, seed: int) -> tuple[Table, Rows]:
    """Rows to learn from and rows to watch."""
    n = len(table.y)
    order = np.random.default_rng(seed + 1).permutation(n)
    if loss.classifies:  # every so-and-so-many-th row of those sorted by class
        order = order[np.argsort(table.y[order, 0], kind="stable")]
    step = max(2, round(1 / share))
    held = np.zeros(n, dtype=bool)
    held[order[step // 2 :: step]] = True
    other = table.take(np.flatnonzero(held))
    return table.take(np.flatnonzero(~held)), _unseen(other.bins, other.y, loss, other.weight)


def _counts(trees: Trees, bins: Array, n_threads: int) -> Array:
    """How many rows are in each state of each tree."""
    paths = Paths.of(trees.shapes)
    size = 65_536
    starts = trees.state_ends - paths.n_states
    parts = np.zeros((-(-bins.shape[1] // size), len(trees.counts)), dtype=np.int64)

    def work(start: int, stop: int) -> None:
        kernels.count_states(
            bins, start, stop, paths.ends, paths.columns, paths.thresholds, paths.steps, starts, parts[start // size]
        )

    with ThreadPoolExecutor(n_threads) as pool:
        in_chunks(pool if n_threads > 1 else None, bins.shape[1], size, work)
    return np.asarray(parts.sum(0))
