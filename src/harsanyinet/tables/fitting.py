"""From a frame and targets to trees: bins, learning rate, boosting, counts. The steps of a fit in their order."""

from __future__ import annotations

import time
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
from harsanyinet.tables.frames import as_frame, pick_columns
from harsanyinet.tables.look_ups import LookUp, Paths, in_chunks
from harsanyinet.tables.losses import History, Loss, scores_of
from harsanyinet.tables.players import Limits, Players, monotone_signs, positions
from harsanyinet.tables.rates import QUICK_RATE, find_rate
from harsanyinet.tables.trees import Trees

Array = NDArray[Any]

FEWEST_TO_WATCH = 20  # rows; of fewer none are held out
USUAL_RATE = 0.02
MANY_OUTPUTS = 200_000  # of all rows: so many average noise out, and more trees would take long
USUAL_TREES = 1000
MOST_COPIED = 200_000  # rows; of more there is one copy each
MANY_FOR_DEPTH, LEAST_GAIN = 500, 0.5  # rows; trees of fewer end before all their questions are asked
BOOSTING = 0.6  # of the time that is left, at most; the rest teaches what to say when columns are absent
LARGE_STEP, MOST_TIMES = 0.03, 3.0  # a learning rate above leaves noise in the outputs: up to so many times the trees


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit found: columns, players, trees of all members, where each member ends, and the training rows' bins."""

    columns: list[Column]
    players: Players
    trees: Trees
    member_ends: Array
    learning_rate: float
    history: History
    bins: Array


def fit_trees(
    model: Any, frame: pd.DataFrame, targets: Array, weight: Array, loss: Loss, held: tuple[Any, Array] | None,
    seed: int, n_threads: int, until: float | None,
) -> Fitted:  # fmt: skip
    """Fits trees to a table, a frame (B, columns), as the parameters of an estimator say.

    Targets (B, T) are numbers or class numbers; weights (B,) are 1 on average; `held` are rows to watch, and their
    targets, if they were given. All draws come from the seed, and the bits do not depend on the number of threads.
    It stops at `until`, by `time.monotonic`.
    """
    names = [str(name) for name in frame.columns]
    players = Players.of(names, model.groups)
    limits = Limits.of(model.max_order, model.interaction_cst, model.forbidden, players)
    signs = monotone_signs(model.monotonic_cst, names)
    if signs.any() and loss.name == "multiclass":
        raise ValueError(f"monotonic_cst needs a binary target, however: y has {loss.n_classes} classes")
    categories = frame.columns[positions(model.categorical_features, names, "categorical_features")]
    dates = None
    if not isinstance(model.date_features, str):
        dates = frame.columns[positions(model.date_features, names, "date_features")]
    unit = Unit.of(targets, weight, loss)
    y = unit.to(targets)
    codes = np.eye(loss.n_classes)[targets[:, 0].astype(int)] if loss.name == "multiclass" else y
    columns, own = fit_columns(frame, codes, weight, Binning(model.max_bins, model.missing), categories, dates, seed)
    _check_monotone(columns, signs)
    column_of = columns_of(columns)
    player_of = players.of_column[column_of]
    players.absent_together(own, player_of)
    says_something = [len(np.unique(column[column > 0])) > 1 for column in own]
    n_bins = np.where(says_something, n_bins_of(columns), 1)  # a column with one value is never asked about
    allowed = limits.allowed if limits.any else None
    table = Table(own, n_bins, player_of, y, weight, signs[column_of], allowed)
    settings = _settings(model, table, loss, limits, len(names))
    watched: Rows | None = None
    if held is not None:
        rows = code_frame(columns, _given(held[0], names))
        watched = _unseen(players.absent_together(rows, player_of), unit.to(held[1]), loss)
    elif model.early_stopping:
        table, watched = _split(table, loss, model.validation_fraction, seed)
    rate, history, times = model.learning_rate, History(), 1.0
    if rate is None:
        table, rate, history = _search(table, loss, settings, unit, n_threads, model.progress, until)
        n_outputs = max(loss.n_classes, targets.shape[1])
        if model.max_iter is None and until is None and len(history.losses) and len(table.y) * n_outputs < MANY_OUTPUTS:
            times = float(np.clip(rate / LARGE_STEP, 1.0, MOST_TIMES))
    settings = replace(
        settings, learning_rate=rate / times, n_trees=round(times * settings.n_trees),
        copies=-(-settings.copies // round(model.members * times)),  # each draws its own, a long fit more often
    )  # fmt: skip
    patience = model.n_iter_no_change if model.early_stopping else None
    each: list[Trees] = []
    n_steps = model.members * settings.n_steps + 1  # one more: counting rows
    with bar("boosting", n_steps, unit="tree", progress=model.progress) as shown:
        for member in range(model.members):
            left = None if until is None else max(0.0, until - time.monotonic()) / (model.members - member)
            booster = Booster(
                table, loss, replace(settings, max_seconds=None if left is None else BOOSTING * left),
                seed + 1000 * member, n_threads,
            )  # fmt: skip
            trees, seen = _boosted(booster, watched, patience, unit, shown, left)
            each.append(trees)
            history = seen or history
        mean = unit.back(Trees.mean_of(each))
        rows = players.absent_together(code_frame(columns, frame), player_of)
        mean = replace(mean, counts=_counts(mean, rows, n_threads))
    ends = np.cumsum([len(one) for one in each])
    return Fitted(columns, players, mean, ends, settings.learning_rate, history, own)


def _settings(model: Any, table: Table, loss: Loss, limits: Limits, n_columns: int) -> Settings:
    """How to boost, as the parameters of an estimator and the size of the table say."""
    n = len(table.y)
    most = max(3, min(6, 30 // max(1, loss.n_classes)))
    copies = max(1, min(most, MOST_COPIED // n)) if model.copies is None else model.copies
    copies = copies if table.n_players > 1 else 0  # who is alone is never absent beside others
    trees = USUAL_TREES if model.max_iter is None else model.max_iter
    return Settings(
        n_trees=max(1, round(trees / (1 + (Settings.extra_trees if copies else 0.0)))), depth=model.max_depth,
        max_players=limits.max_order, l2=model.l2_regularization, copies=copies,
        row_share=min(0.8, max(0.1, 160_000 / n)) if model.max_samples is None else model.max_samples,
        column_share=min(1.0, max(0.05, 200 / n_columns)) if model.max_features is None else model.max_features,
        least_gain=LEAST_GAIN if n < MANY_FOR_DEPTH else 0.0,
        rounds=Settings.rounds if loss.quantile is None else 1,  # quantiles take long to find
    )  # fmt: skip


def _given(x: Any, names: list[str]) -> pd.DataFrame:
    """Rows to watch, with the columns of the table in their order."""
    frame = as_frame(x, names)
    if sorted(str(name) for name in frame.columns) != sorted(names):
        raise ValueError(f"eval_set must have the columns of X, however: {', '.join(map(str, frame.columns[:8]))}")
    return pick_columns(frame, names)


@dataclass(frozen=True, eq=False)
class Unit:
    """Numbers are boosted in units of their spread; a constant target has none."""

    shift: Array  # (T,) the mean of each target; zero for classes and counts
    scale: Array  # (T,) its spread; one for classes and counts

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
    trial = find_rate(table, loss, settings, n_threads=n_threads, progress=progress, max_seconds=seconds)
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
