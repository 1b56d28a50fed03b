"""Boosting of trees whose "absent" branch is learned. Bins in, trees out; no frames, no files.

The rows choose the questions of a tree and the values of the states in which nobody is absent. Copies of the rows, in
which players are absent at random, teach the other states: these begin as the average of the tree's own leaves, and
move towards what the copies say. Some trees are grown on the copies, so that a player who only stands for another is
asked about, too; the last of them say nothing about rows with all their players.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet.tables import kernels
from harsanyinet.tables.boost_inputs import Rows, Settings, Table
from harsanyinet.tables.look_ups import LookUp, Paths, in_chunks
from harsanyinet.tables.losses import Loss, quantiles_by_state
from harsanyinet.tables.trees import Question, Trees, TreeShape

Array = NDArray[Any]
Masks = NDArray[np.bool_]

CHUNK = 65_536  # rows whose sums are taken at a time
ENOUGH_FOR_THREADS = 100_000  # rows times columns
NORMALS = 1 << 17  # drawn once; noise begins anywhere among them
KINDS = 16  # of copies, by how many players are absent
MOST_EVENED = 20.0


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
        self.n_players = table.n_players
        self.draw = np.random.default_rng(seed)
        self.normals = self.draw.standard_normal(NORMALS, dtype=np.float32)
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
        self.distance = 0.0  # the sum of the learning rates
        self.gains = np.zeros(self.n_players)  # of the players, in units of what noise gains

    def boost(self, held: Rows | None = None, patience: int | None = None, bar: tqdm[Any] | None = None) -> Array:
        """Adds trees until there are enough, time is over, or the loss of rows held out has not fallen for long.

        Args:
            held: Rows that are not learned from; their outputs are brought up to date.
            patience: Trees without a lower loss after which to stop.
            bar: Moves with every tree.

        Returns:
            The loss of the rows held out before the first and after each tree; empty without them.
        """
        started, s = time.monotonic(), self.settings
        losses = [] if held is None else [self.loss.mean(held.output, held.y, held.weight)]
        with self._threads():
            self._derive(self.rows)
            for number in range(s.n_trees):
                if s.max_seconds is not None and time.monotonic() - started > s.max_seconds:
                    break
                if self.copies is not None and number % s.redraw == 0:
                    self._redraw(self.copies)
                self._add_tree(s.learning_rate * (1 + number * s.quickening))
                if bar is not None:
                    bar.update()
                if held is None:
                    continue
                kernels.tree_states(held.bins, 0, len(held), *self.shapes[-1].steps, held.state)
                kernels.add_values(0, len(held), held.state, self.values[-1], held.output)
                losses.append(self.loss.mean(held.output, held.y, held.weight))
                if patience is not None and len(losses) - 1 - int(np.argmin(losses)) >= patience:
                    break
        return np.array(losses)

    def finish(self, n_trees: int | None = None, bar: tqdm[Any] | None = None, until: float | None = None) -> Trees:
        """Learns what is left to learn about absent players, and returns the trees.

        Args:
            n_trees: How many of the trees to keep before that; None for all.
            bar: Moves with every tree.
            until: When to stop, by `time.monotonic`.
        """
        self.shapes, self.values = self.shapes[:n_trees], self.values[:n_trees]
        n_full = len(self.shapes)
        if self.copies is not None and n_full:
            with self._threads():
                for number in range(round(self.settings.extra_trees * n_full)):
                    if until is not None and time.monotonic() > until:
                        break
                    if number % self.settings.redraw == 0:
                        self._redraw(self.copies)
                    self._add_extra_tree(self.copies, n_full)
                    if bar is not None:
                        bar.update()
        return self.trees()

    def trees(self, first: int | None = None) -> Trees:
        """The trees so far, or the first of them; those that ask nothing are left out."""
        asking = [i for i, shape in enumerate(self.shapes[:first]) if len(shape.columns)]
        return Trees.of(
            self.table.player_of, self.base, [self.shapes[i] for i in asking], [self.values[i] for i in asking]
        )

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Threads that live as long as the work."""
        with ThreadPoolExecutor(self.n_threads) as pool:
            self.pool = pool if self.n_threads > 1 else None
            yield
        self.pool = None

    def _add_tree(self, rate: float) -> None:
        """Chooses the questions of a tree, then the values of its states, and takes the step."""
        s = self.settings
        on_copies = self.copies is not None and self.distance > s.copy_start and self.draw.random() < s.copy_trees
        source = self.copies if on_copies and self.copies is not None else self.rows
        noise = s.noise / (1 + np.exp(self.distance - np.log(len(self.rows))))
        shape = TreeShape.of(self._questions(source, noise), self.table.player_of)
        values = self._values(shape, rate)
        self.distance += rate
        self.shapes.append(shape)
        self.values.append(values)
        self._step(self.rows, values)
        if self.copies is not None:
            self._step(self.copies, values)

    def _add_extra_tree(self, copies: Rows, n_full: int) -> None:
        """A tree that the copies grow and that says nothing about rows with all its players."""
        shape = TreeShape.of(self._questions(copies, 0.0, n_full), self.table.player_of)
        s = self.settings
        values = min(s.learning_rate, s.extra_rate) * self._steps(copies, self._sums(copies, shape), 0.0)
        values[~shape.has_absent] = 0.0
        values = self._tidied(values, shape)
        self.shapes.append(shape)
        self.values.append(values)
        self._step(copies, values)

    # Questions ------------------------------------------------------------------------------------------------------

    def _questions(self, source: Rows, noise: float, n_full: int | None = None) -> list[Question]:
        """The questions of a tree, chosen one after the other by rows drawn at random.

        Copies begin with questions of an earlier tree and look at rows in which one of its players is absent: what
        else could one ask in its place?

        Args:
            source: Rows or copies.
            noise: On the scores, in units of what noise gains.
            n_full: Trees to inherit questions from; None for all.
        """
        s, table = self.settings, self.table
        rows, questions = np.arange(len(source)), list[Question]()
        if source is self.copies:
            questions, gone = self._inherited(n_full or len(self.shapes))
            if questions:
                rows = np.flatnonzero(source.bins[table.player_of.tolist().index(gone)] == 0)
        n = max(1, round(s.row_share * len(self.rows)))
        if n < len(rows):
            rows = rows[self.draw.random(len(rows), dtype=np.float32) < n / len(rows)]
        stats = self._statistics(source, rows)
        g, h = float((stats[:, 1:] ** 2).sum()), float(stats[:, 0].sum())
        if not (g > 0 and h > 0):
            return questions
        noise = noise * np.sqrt(g / h) if noise > 0.01 else 0.0
        open_players = np.ones(self.n_players, dtype=bool)
        if table.useful is not None:
            open_players = table.useful[int(source is self.copies)].copy()
        k = max(1, round(s.column_share * self.n_players))
        if k < open_players.sum():  # of those worth asking about
            some = self.draw.choice(np.flatnonzero(open_players), k, replace=False)
            open_players &= np.isin(np.arange(self.n_players), some)
        most = min(s.max_players, s.copy_players) if source is self.copies else s.max_players
        inside = np.zeros(self.n_players, dtype=bool)
        leaf, n_leaves = np.zeros(len(rows), dtype=np.uint16), 1
        for column, threshold in questions:
            inside[table.player_of[column]] = True
            n_leaves = kernels.descend(source.bins[column], threshold, rows, leaf)
        best = _score(stats, leaf, n_leaves, s.l2)
        for _ in range(s.depth - len(questions)):
            may = inside | (open_players & (inside.sum() < most))
            if table.allowed is not None:
                may &= inside | table.allowed(inside)
            columns = np.flatnonzero(may[table.player_of] & (table.n_bins > 2))
            if not len(columns):
                break
            scores = self._scores(source, columns, rows, leaf, stats, n_leaves)
            chosen = self._best(scores, columns, best, noise, questions)
            if chosen is None:
                break
            column, threshold, score = chosen
            player, gain = table.player_of[column], (score - best) * h / g
            if source is self.rows and questions and gain < s.least_gain * n_leaves:
                break
            self.gains[player] += gain
            best, inside[player] = score, True
            questions.append((column, threshold))
            n_leaves = kernels.descend(source.bins[column], threshold, rows, leaf)
        return questions

    def _inherited(self, n_trees: int) -> tuple[list[Question], int]:
        """Some questions of an earlier tree, at most all but two, and the player among them that is to be absent."""
        shape = self.shapes[int(self.draw.integers(n_trees))]
        if not len(shape.players):
            return [], 0
        players = self.draw.permutation(shape.players)
        gone, kept = int(players[0]), players[1 : 1 + int(self.draw.integers(1, 3))]
        of = self.table.player_of[shape.columns]
        asked = [int(np.flatnonzero(of == gone)[0]), *np.flatnonzero(np.isin(of, kept)).tolist()]
        asked = asked[: max(1, self.settings.depth - 2)]
        return [(int(shape.columns[i]), int(shape.thresholds[i])) for i in asked], gone

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
        offset = int(self.draw.integers(len(self.normals))) if noise else 0
        known = np.array(asked, dtype=np.int64).reshape(-1, 2)
        i, t = kernels.best_split(
            scores, columns, self.table.n_bins, known, least * (1 + 1e-9), noise, self.normals, offset
        )
        return (int(columns[i]), t, float(scores[i, t])) if i >= 0 else None

    # Values ---------------------------------------------------------------------------------------------------------

    def _values(self, shape: TreeShape, rate: float) -> Array:
        """The values of all states of a tree, (states, K)."""
        s, absent = self.settings, shape.has_absent
        sums = self._sums(self.rows, shape)
        values = rate * self._steps(self.rows, sums, 0.0)
        values[absent] = 0.0
        weight = np.where(absent, 0.0, sums[:, 0])
        total = values * weight[:, None]
        kernels.average_absent(total, weight, shape.sizes)
        reached = absent & (weight > 0)
        values[reached] = total[reached] / weight[reached, None]
        if self.copies is not None:
            more = self._sums(self.copies, shape) + sums  # rows that miss a value are in these states, too
            step = self._steps(self.copies, more, values)
            values[absent] += min(rate, s.copy_rate) * step[absent]
        return self._tidied(values, shape)

    def _tidied(self, values: Array, shape: TreeShape) -> Array:
        """Values that keep what is promised: nothing when everybody is absent, and monotone columns."""
        values[0] = 0.0
        return _monotone(values, shape, self.table.monotone) if self.table.monotone.any() else values

    def _steps(self, rows: Rows, sums: Array, already: Any) -> Array:
        """How far the outputs of each state should move, (states, K), beyond what is added already."""
        k, l2 = len(self.base), self.settings.l2
        gradient, curvature = sums[:, 1 : 1 + k], sums[:, 1 + k :]
        if self.loss.quantile is not None:
            weight = sums[:, :1]
            found = quantiles_by_state(rows.state, len(sums), rows.y - rows.output, rows.weight, self.loss.quantile)
            return np.asarray((found - already) * weight / (weight + l2))
        step = -(gradient + curvature * already) / (curvature + l2)
        return np.asarray(np.clip(step, -self.loss.max_step, self.loss.max_step))

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

    # Copies ---------------------------------------------------------------------------------------------------------

    def _redraw(self, copies: Rows) -> None:
        """Draws anew which players are absent from the copies: each with a chance that is drawn for each copy."""
        n, m = len(self.rows), len(copies)
        chance = self.draw.random(m, dtype=np.float32)
        for player in range(self.n_players):
            present = self.draw.random(m, dtype=np.float32) >= chance
            for column in np.flatnonzero(self.table.player_of == player):
                for i in range(0, m, n):
                    np.multiply(self.table.bins[column], present[i : i + n], out=copies.bins[column, i : i + n])
        copies.output[:] = self.base
        if self.shapes:
            every = np.arange(len(self.base))
            tables = [values.T for values in self.values]
            so_far = LookUp.of(Paths.to_all(self.shapes), [every] * len(tables), tables, len(every))
            copies.output += so_far.apply(copies.bins, self.pool).T
        copies.weight[:] = np.tile(self.table.weight, m // n)
        self._derive(copies)
        copies.weight *= self._evened(copies)
        self._derive(copies)

    def _evened(self, copies: Rows) -> Array:
        """(B,) factors by which copies count alike however many players they miss.

        With many players absent targets are all but noise, whose gradients would drown those of the others.
        """
        heads = np.unique(self.table.player_of, return_index=True)[1]
        absent = (copies.bins[heads] == 0).sum(axis=0)
        kind = absent * KINDS // (self.n_players + 1)
        noise = np.bincount(kind, (copies.gradient**2).sum(axis=1), KINDS)
        weight = np.bincount(kind, copies.curvature.sum(axis=1), KINDS)
        counts = np.bincount(kind, minlength=KINDS)
        factor = np.divide(weight, noise, out=np.zeros(KINDS), where=noise > 0)
        mean = (factor * counts).sum() / counts.sum()
        return np.asarray(np.minimum(factor / mean, MOST_EVENED)[kind]) if mean > 0 else np.ones(len(kind))


def _score(stats: Array, leaf: Array, n_leaves: int, l2: float) -> float:
    """What the leaves are worth, as `kernels.split_scores` counts it."""
    sums = np.stack([np.bincount(leaf, column, n_leaves) for column in stats.T], axis=1)
    return float(((sums[:, 1:] ** 2).sum(axis=1) / (sums[:, 0] + l2)).sum())


def _monotone(values: Array, shape: TreeShape, signs: Array) -> Array:
    """Values halfway between their running extremes along each monotone column, so that they never fall or rise.

    The others' answers and absences held fixed; absent against present is free.
    """
    table = values.reshape(*shape.sizes, -1)
    for column in np.unique(shape.columns[signs[shape.columns] != 0]):
        asked = shape.columns == column
        axis, unit, n = int(shape.axes[asked][0]), int(shape.units[asked][0]), int(asked.sum()) + 1
        part = np.moveaxis(table, axis, 0)[1:]  # where the player is present
        own = part.reshape(-1, n, unit, *part.shape[1:])[:, :: int(signs[column])]
        low = np.maximum.accumulate(own, axis=1)
        high = np.minimum.accumulate(own[:, ::-1], axis=1)[:, ::-1]
        part[:] = ((low + high) / 2)[:, :: int(signs[column])].reshape(part.shape)
    return table.reshape(values.shape)
