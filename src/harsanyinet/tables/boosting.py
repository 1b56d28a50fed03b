"""Boosting of trees whose "absent" branch is learned. Bins in, trees out; no frames, no files.

The rows choose the questions of a tree and the values of the states in which nobody is absent. Copies of the rows, in
which players are absent at random, teach the other states: these begin as the average of the tree's own leaves, and
move towards what the copies say. Some trees are grown on the copies, so that a player who only stands for another is
asked about, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet.tables import kernels
from harsanyinet.tables.look_ups import LookUp, Paths, in_chunks
from harsanyinet.tables.losses import Loss, quantiles_by_state
from harsanyinet.tables.trees import Question, Trees, TreeShape

Array = NDArray[Any]
Masks = NDArray[np.bool_]

CHUNK = 65_536  # rows whose sums are taken at a time
ENOUGH_FOR_THREADS = 100_000  # rows times columns


@dataclass(frozen=True)
class Settings:
    """How to boost.

    Attributes:
        n_trees: Trees at most.
        learning_rate: Share of a step that is taken.
        depth: Questions of a tree.
        max_players: Different players of a tree.
        l2: Added to the sum of second derivatives of a leaf.
        row_share: Share of the rows that choose the questions of a tree.
        column_share: Share of the players that may be asked about in a tree.
        noise: Strength of the noise on the scores of questions, which fades as trees are added.
        copies: Copies of the rows with players absent.
        copy_trees: Share of the trees whose questions the copies choose.
        copy_l2: Shrinkage of absent states towards the average of the leaves, as a share of all copies.
        redraw: Trees after which absent players are drawn anew.
        sketch: Gradients of more outputs than these are mixed to as many before questions are scored.
        max_seconds: Time after which no tree is begun.
    """

    n_trees: int = 1000
    learning_rate: float = 0.05
    depth: int = 6
    max_players: int = 4
    l2: float = 3.0
    row_share: float = 0.8
    column_share: float = 1.0
    noise: float = 1.0
    copies: int = 2
    copy_trees: float = 0.3
    copy_l2: float = 0.001
    redraw: int = 50
    sketch: int = 5
    max_seconds: float | None = None
    trust: float = 0.0
    gate: float = 0.0


@dataclass
class Rows:
    """Rows and what the model says about them so far: (columns, B), (B, T), (B,), (B, K), and work space."""

    bins: Array
    y: Array
    weight: Array
    output: Array
    gradient: Array = field(init=False)
    curvature: Array = field(init=False)
    state: Array = field(init=False)

    def __post_init__(self) -> None:
        self.gradient, self.curvature = np.empty_like(self.output), np.empty_like(self.output)
        self.state = np.empty(len(self.output), dtype=np.uint16)

    def __len__(self) -> int:
        return len(self.output)


@dataclass(frozen=True)
class Table:
    """What is learned from.

    Attributes:
        bins: (columns, B) uint8, 0 where absent.
        n_bins: Bins of each column, the absent one included.
        player_of: The player of each column.
        y: (B, T) targets or class numbers.
        weight: (B,).
        monotone: For each column 1, -1 or 0.
        allowed: From the players of a tree, (P,) bool, to those that may join them; None for all.
    """

    bins: Array
    n_bins: Array
    player_of: Array
    y: Array
    weight: Array
    monotone: Array
    allowed: Callable[[Masks], Masks] | None = None

    def take(self, rows: Array) -> Table:
        """Some of the rows."""
        return Table(
            np.ascontiguousarray(self.bins[:, rows]), self.n_bins, self.player_of, self.y[rows], self.weight[rows],
            self.monotone, self.allowed,
        )  # fmt: skip


class Booster:
    """Boosts trees on a table.

    Args:
        table: What to learn from.
        loss: What to minimise.
        settings: How.
        seed: Of all draws.
        n_threads: The bits do not depend on it.
    """

    def __init__(self, table: Table, loss: Loss, settings: Settings, seed: int = 0, n_threads: int = 1) -> None:
        self.table, self.loss, self.settings, self.n_threads = table, loss, settings, n_threads
        self.n_players = int(table.player_of.max(initial=-1)) + 1
        self.draw = np.random.default_rng(seed)
        self.pool: ThreadPoolExecutor | None = None
        self.base = loss.best_constant(table.y, table.weight)
        self.rows = Rows(table.bins, table.y, table.weight, np.tile(self.base, (len(table.y), 1)))
        self.copies: Rows | None = None
        c = settings.copies
        if c and self.n_players > 1:
            self.copies = Rows(
                np.empty((len(table.bins), c * len(table.y)), dtype=np.uint8), np.tile(table.y, (c, 1)),
                np.tile(table.weight, c), np.empty((c * len(table.y), len(self.base))),
            )  # fmt: skip
        self.shapes: list[TreeShape] = []
        self.values: list[Array] = []
        self.gain_in, self.gain_out = np.zeros(self.n_players), np.zeros(self.n_players)

    def boost(self, held: Rows | None = None, patience: int | None = None, bar: tqdm[Any] | None = None) -> Array:
        """Adds trees until there are enough, time is over, or the loss of rows held out has not fallen for long.

        Args:
            held: Rows that are not learned from; their outputs are brought up to date.
            patience: Trees without a lower loss after which to stop.
            bar: Moves with every tree.

        Returns:
            The loss of the rows held out before the first and after each tree; empty without them.
        """
        started = time.monotonic()
        losses = [] if held is None else [self.loss.mean(held.output, held.y, held.weight)]
        with ThreadPoolExecutor(self.n_threads) as pool:
            self.pool = pool if self.n_threads > 1 else None
            self._derive(self.rows)
            for number in range(self.settings.n_trees):
                limit = self.settings.max_seconds
                if limit is not None and time.monotonic() - started > limit:
                    break
                if self.copies is not None and number % self.settings.redraw == 0:
                    self._redraw(self.copies)
                added = self._add_tree(number)
                if bar is not None:
                    bar.update()
                if held is None:
                    continue
                if added:
                    self._locate(held, self.shapes[-1])
                    kernels.add_values(0, len(held), held.state, self.values[-1], held.output)
                losses.append(self.loss.mean(held.output, held.y, held.weight))
                if patience is not None and len(losses) - 1 - int(np.argmin(losses)) >= patience:
                    break
        self.pool = None
        return np.array(losses)

    def trees(self, first: int | None = None) -> Trees:
        """The trees, or the first of them."""
        return Trees.of(self.table.player_of, self.base, self.shapes[:first], self.values[:first])

    def _add_tree(self, number: int) -> bool:
        """Chooses the questions of a tree, then the values of its states, and takes the step."""
        on_copies = self.copies is not None and self.draw.random() < self.settings.copy_trees
        source = self.copies if on_copies and self.copies is not None else self.rows
        questions = self._questions(source, number)
        if not questions:
            return False
        shape = TreeShape.of(questions, self.table.player_of)
        values = self._values(shape)
        self.shapes.append(shape)
        self.values.append(values)
        for rows in (self.rows, self.copies):
            if rows is not None:
                self._step(rows, values)
        return True

    # Questions ------------------------------------------------------------------------------------------------------

    def _questions(self, source: Rows, number: int) -> list[Question]:
        """The questions of a tree, chosen one after the other by rows drawn at random."""
        s, table = self.settings, self.table
        n = max(1, round(s.row_share * len(self.rows)))
        if s.trust:
            perm = self.draw.permutation(len(source))[: min(len(source), len(self.rows))]
            rows, out = np.sort(perm[:n]), np.sort(perm[n:])
        else:
            rows = np.sort(self.draw.choice(len(source), n, replace=False)) if n < len(source) else np.arange(n)
        stats = self._statistics(source, rows)
        g, h = (stats[:, 1:] ** 2).sum(), max(float(stats[:, 0].sum()), 1e-300)
        fading = 1 / (1 + np.exp(number * s.learning_rate - np.log(len(self.rows))))
        noise = s.noise * np.sqrt(g / h) * fading
        best_so_far = float((stats[:, 1:].sum(0) ** 2).sum()) / (h + s.l2)
        open_players = np.ones(self.n_players, dtype=bool)
        if s.column_share < 1:
            k = max(1, round(s.column_share * self.n_players))
            open_players = np.isin(np.arange(self.n_players), self.draw.choice(self.n_players, k, replace=False))
        inside = np.zeros(self.n_players, dtype=bool)
        leaf, n_leaves = np.zeros(len(rows), dtype=np.uint16), 1
        questions: list[Question] = []
        if s.trust:
            out_stats = self._statistics(source, out)
            out_leaf = np.zeros(len(out), dtype=np.int64)
        for _ in range(s.depth):
            may = inside | (open_players & (inside.sum() < s.max_players))
            if table.allowed is not None:
                may &= inside | table.allowed(inside)
            columns = np.flatnonzero(may[table.player_of] & (table.n_bins > 2))
            if not len(columns):
                break
            scores = self._scores(source, columns, rows, leaf, stats, n_leaves)
            if s.trust:
                factor = np.clip((self.gain_out + s.trust * g / h) / (self.gain_in + s.trust * g / h), 0.02, 1.0)
                scores = best_so_far + (scores - best_so_far) * factor[table.player_of[columns], None]
            chosen = self._best(scores, columns, best_so_far, noise, questions)
            if chosen is None:
                break
            column, threshold, gained = chosen
            if s.trust:
                key = 2 * out_leaf + (source.bins[column][out] > threshold)
                full = 2 * leaf.astype(np.int64) + (source.bins[column][rows] > threshold)
                m = int(2 * n_leaves)
                H, G = np.bincount(full, stats[:, 0], m), np.bincount(full, stats[:, 1], m)
                H2, G2 = np.bincount(key, out_stats[:, 0], m), np.bincount(key, out_stats[:, 1], m)
                Hp, Gp, H2p, G2p = (a.reshape(-1, 2).sum(1) for a in (H, G, H2, G2))
                v, vp = G / (H + s.l2), Gp / (Hp + s.l2)
                gain = (2 * G2 * v - H2 * v * v).sum() - (2 * G2p * vp - H2p * vp * vp).sum()
                inner = (2 * G * v - H * v * v).sum() - (2 * Gp * vp - Hp * vp * vp).sum()
                p = table.player_of[column]
                self.gain_out[p] += gain / max(len(out), 1) * len(rows)
                self.gain_in[p] += inner
                if s.gate and gain < 0 and self.draw.random() < s.gate:
                    break
            questions.append((column, threshold))
            best_so_far = gained
            inside[table.player_of[column]] = True
            if s.trust:
                before_leaf = leaf.copy()
            n_leaves = kernels.descend(source.bins[column], threshold, rows, leaf)
            if s.trust:
                number_of = np.zeros(int(2 * before_leaf.max() + 2), dtype=np.int64)
                number_of[2 * before_leaf.astype(np.int64) + (source.bins[column][rows] > threshold)] = leaf
                out_leaf = number_of[np.minimum(key, len(number_of) - 1)]
        return questions

    def _statistics(self, source: Rows, rows: Array) -> Array:
        """(m, 1 + G): second derivatives or, of several outputs, weights; and gradients, many mixed to a few."""
        gradient = source.gradient[rows]
        k, few = gradient.shape[1], self.settings.sketch
        if k == 1:
            return np.concatenate([source.curvature[rows], gradient], axis=1)
        if k > few:
            gradient = gradient @ (self.draw.standard_normal((k, few)) / np.sqrt(few))
        return np.concatenate([source.weight[rows, None], gradient], axis=1)

    def _scores(self, source: Rows, columns: Array, rows: Array, leaf: Array, stats: Array, n_leaves: int) -> Array:
        """(columns, bins) what every question is worth."""
        scores = np.zeros((len(columns), int(self.table.n_bins[columns].max())))

        def work(start: int, stop: int) -> None:
            kernels.split_scores(
                source.bins, columns, start, stop, rows, leaf, stats, n_leaves, self.table.n_bins, self.settings.l2,
                self.table.monotone, scores,
            )  # fmt: skip

        if self.pool is None or len(rows) * len(columns) < ENOUGH_FOR_THREADS:
            work(0, len(columns))
        else:
            in_chunks(self.pool, len(columns), max(1, len(columns) // (4 * self.n_threads)), work)
        return scores

    def _best(
        self, scores: Array, columns: Array, least: float, noise: float, asked: list[Question]
    ) -> tuple[int, int, float] | None:
        """Column, threshold and score of the best question that is better than none, after some noise."""
        noisy = np.sqrt(np.maximum(scores, 0.0)) + noise * self.draw.standard_normal(scores.shape)
        threshold = np.arange(scores.shape[1])
        out = (threshold == 0) | (threshold >= self.table.n_bins[columns][:, None] - 1)
        noisy[out | (scores <= least * (1 + 1e-9))] = -np.inf
        for column, t in asked:
            noisy[columns == column, t] = -np.inf
        i, t = divmod(int(np.argmax(noisy)), scores.shape[1])
        return (int(columns[i]), t, float(scores[i, t])) if np.isfinite(noisy[i, t]) else None

    # Values ---------------------------------------------------------------------------------------------------------

    def _values(self, shape: TreeShape) -> Array:
        """The values of all states of a tree, (states, K)."""
        s = self.settings
        sums = self._sums(self.rows, shape)
        values = s.learning_rate * self._steps(self.rows, sums, s.l2, 0.0)
        values[shape.has_absent] = 0.0
        weight = np.where(shape.has_absent, 0.0, sums[:, 0])
        total = values * weight[:, None]
        kernels.average_absent(total, weight, shape.sizes)
        reached = shape.has_absent & (weight > 0)
        values[reached] = total[reached] / weight[reached, None]
        if self.copies is not None:
            more = self._sums(self.copies, shape) + sums  # rows that miss a value are in these states, too
            absent = shape.has_absent
            l2 = s.l2 + s.copy_l2 * more[absent, 1 + len(self.base) :].sum(0)
            step = self._steps(self.copies, more, l2, values)
            values[absent] += s.learning_rate * step[absent]
        values[0] = 0.0
        return _monotone(values, shape, self.table.monotone) if self.table.monotone.any() else values

    def _steps(self, rows: Rows, sums: Array, l2: Any, already: Any) -> Array:
        """How far the outputs of each state should move, (states, K), beyond what is added already."""
        k = len(self.base)
        gradient, curvature = sums[:, 1 : 1 + k], sums[:, 1 + k :]
        if self.loss.quantile is not None:
            weight = sums[:, :1]
            found = quantiles_by_state(rows.state, len(sums), rows.y - rows.output, rows.weight, self.loss.quantile)
            return np.asarray((found - already) * weight / (weight + l2))
        return np.clip(-(gradient + curvature * already) / (curvature + l2), -self.loss.max_step, self.loss.max_step)

    def _sums(self, source: Rows, shape: TreeShape) -> Array:
        """(states, 1 + 2 K): weight, gradients and curvatures of the rows in each state."""
        parts = np.zeros((-(-len(source) // CHUNK), shape.n_states, 1 + 2 * len(self.base)))

        def work(start: int, stop: int) -> None:
            kernels.tree_states(source.bins, start, stop, *shape.steps, source.state)
            kernels.sums_by_state(
                start, stop, source.state, source.weight, source.gradient, source.curvature, parts[start // CHUNK]
            )

        in_chunks(self.pool, len(source), CHUNK, work)
        return parts[0] if len(parts) == 1 else np.asarray(parts.sum(0))

    def _locate(self, rows: Rows, shape: TreeShape) -> None:
        kernels.tree_states(rows.bins, 0, len(rows), *shape.steps, rows.state)

    def _step(self, rows: Rows, values: Array) -> None:
        """Adds the values of the tree that the rows' states are of."""

        def work(start: int, stop: int) -> None:
            kernels.add_values(start, stop, rows.state, values, rows.output)
            self._derive_part(rows, start, stop)

        in_chunks(self.pool, len(rows), CHUNK, work)

    def _derive(self, rows: Rows) -> None:
        in_chunks(self.pool, len(rows), CHUNK, lambda start, stop: self._derive_part(rows, start, stop))

    def _derive_part(self, rows: Rows, start: int, stop: int) -> None:
        kernels.gradients(
            self.loss.code, self.loss.quantile or 0.5, start, stop, rows.output, rows.y, rows.weight, rows.gradient,
            rows.curvature,
        )  # fmt: skip

    def _redraw(self, copies: Rows) -> None:
        """Draws anew which players are absent from the copies: each with a chance that is drawn for each copy."""
        n, m = len(self.rows), len(copies)
        chance = self.draw.random(m, dtype=np.float32)
        player = -1
        for column, of in sorted(enumerate(self.table.player_of), key=lambda pair: (pair[1], pair[0])):
            if of != player:
                player, present = of, self.draw.random(m, dtype=np.float32) >= chance
            for start in range(0, m, n):
                np.multiply(self.table.bins[column], present[start : start + n], out=copies.bins[column, start : start + n])
        copies.output[:] = self.base
        if self.shapes:
            every = np.arange(len(self.base))
            tables = [values.T for values in self.values]
            so_far = LookUp.of(Paths.to_all(self.shapes), [every] * len(tables), tables, len(every))
            copies.output += so_far.apply(copies.bins, self.pool).T
        self._derive(copies)


def _monotone(values: Array, shape: TreeShape, signs: Array) -> Array:
    """The nearest values of the kind "halfway between running extremes" that never fall along a rising column.

    The others' answers and absences held fixed; absent against present is free.
    """
    table = values.reshape(*shape.sizes, -1)
    for column in np.unique(shape.columns[signs[shape.columns] != 0]):
        asked = shape.columns == column
        axis, unit, n = int(shape.axes[asked][0]), int(shape.units[asked][0]), int(asked.sum()) + 1
        moved = np.moveaxis(table, axis, 0)
        own = np.moveaxis(moved[1:].reshape(-1, n, unit, *moved.shape[1:]), 1, 0)[:: int(signs[column])]
        low = np.maximum.accumulate(own, axis=0)
        high = np.minimum.accumulate(own[::-1], axis=0)[::-1]
        own[:] = (low + high) / 2
    values = table.reshape(values.shape)
    values[0] = 0.0
    return values
