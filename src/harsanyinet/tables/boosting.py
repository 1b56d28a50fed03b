"""Boosting of trees whose "absent" branch is learned. Bins in, trees out; no frames, no files.

The rows choose the questions of a tree and the values of the states in which nobody is absent; the other states begin
as the average of the tree's own leaves. Some trees are grown on copies of the rows in which players are absent at
random, so that a player who only stands for another is asked about, too; the last of them say nothing about rows with
all their players. When all trees are there, the copies teach them what to say when players are absent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet.tables import kernels
from harsanyinet.tables.boost_inputs import Rows, Settings, Table
from harsanyinet.tables.copies import copied, draw_absent, evened
from harsanyinet.tables.look_ups import LookUp, Paths, in_chunks
from harsanyinet.tables.losses import Loss, quantiles_by_state
from harsanyinet.tables.trees import Question, Trees, TreeShape

Array = NDArray[Any]
Masks = NDArray[np.bool_]

CHUNK = 65_536  # rows whose sums are taken at a time
ENOUGH_FOR_THREADS = 100_000  # rows times columns
NORMALS = 1 << 17  # drawn once; noise begins anywhere among them
CAREFUL = 30.0  # times l2, for rows that miss a value, before copies say more about them
ROWS_BESIDE = 0.3  # what rows that miss a value weigh beside the copies, which know less of the chance in them
SELDOM = 8  # times as many trees until absent players are drawn anew when no questions are asked


class Booster:
    """Boosts trees on a table. The seed is that of all draws; the bits do not depend on the number of threads."""

    def __init__(self, table: Table, loss: Loss, settings: Settings, seed: int = 0, n_threads: int = 1) -> None:
        self.table, self.loss, self.settings, self.n_threads = table, loss, settings, n_threads
        self.n_players = table.n_players
        self.draw = np.random.default_rng(seed)
        self.normals = self.draw.standard_normal(NORMALS, dtype=np.float32)
        self.pool: ThreadPoolExecutor | None = None
        self.base = loss.best_constant(table.y, table.weight)
        self.rows = Rows(table.bins, table.y, table.weight, np.tile(self.base, (len(table.y), 1)))
        self.some_absent = bool((table.bins[table.n_bins > 2] == 0).any())
        self.any_monotone = bool(table.monotone.any())
        self.copies: Rows | None = None
        if settings.copies and self.n_players > 1:
            self.copies = copied(table, min(settings.copies, settings.growing_copies), len(self.base))
        self.drawn, self.seen = -1, 0  # the trees of the copies when players were last drawn, and of their outputs
        self.shapes: list[TreeShape] = []
        self.values: list[Array] = []
        self.distance = 0.0  # the sum of the learning rates
        self.gains = np.zeros(self.n_players)  # of the players, in units of what noise gains

    def boost(self, held: Rows | None = None, patience: int | None = None, bar: tqdm[Any] | None = None) -> Array:
        """Adds trees until there are enough, time is over, or `patience` of them have not helped rows held out.

        The outputs of these rows are brought up to date. Returned is their loss before the first and after each tree,
        nothing without them.
        """
        started, s = time.monotonic(), self.settings
        losses = [] if held is None else [self.loss.mean(held.output, held.y, held.weight)]
        with self._threads():
            self._derive(self.rows)
            for number in range(s.n_trees):
                if s.max_seconds is not None and time.monotonic() - started > s.max_seconds:
                    break
                self._add_tree(s.learning_rate * (1 + number * s.quickening))
                if bar is not None:
                    bar.update()
                if held is None:
                    continue
                self._into_states(held, self.shapes[-1])
                self._add(held, self.values[-1])
                losses.append(self.loss.mean(held.output, held.y, held.weight))
                if patience is not None and len(losses) - 1 - int(np.argmin(losses)) >= patience:
                    break
        return np.array(losses)

    def finish(self, n_trees: int | None = None, bar: tqdm[Any] | None = None, until: float | None = None) -> Trees:
        """Learns what is left to learn about absent players, and returns the trees.

        Before that, only the first `n_trees` are kept, if told so. It ends when `time.monotonic` says `until`.
        """
        self.shapes, self.values = self.shapes[:n_trees], self.values[:n_trees]
        n_full, s = len(self.shapes), self.settings
        if self.copies is None or not any(len(shape.columns) for shape in self.shapes):
            return self.trees()
        self.copies = copies = copied(self.table, s.copies, len(self.base))
        with self._threads():
            self.rows.output[:] = self._outputs(self.table.bins)
            self._derive(self.rows)
            copies.y = np.tile(self.loss.mixed(self.table.y, self.rows.output, s.believed), (s.copies, 1))
            for number in _until(round(s.extra_trees * n_full), bar, until):
                if number % s.redraw == 0:
                    self._redraw(copies)
                self._add_extra_tree(copies, n_full)
            n = len(self.shapes)
            for number in _until(s.rounds * n, bar, until):
                if number % n == 0:
                    order = self.draw.permutation(n)
                if number % n % (SELDOM * s.redraw) == 0:
                    self._redraw(copies)
                self._move(copies, int(order[number % n]), s.learning_rate / s.rounds)
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
        source = self.rows
        if self.copies is not None and self.distance > s.copy_start and self.draw.random() < s.copy_trees:
            source = self.copies
            self._follow(source)
        noise = s.noise / (1 + np.exp(self.distance - np.log(len(self.rows))))
        shape = TreeShape.of(self._questions(source, noise), self.table.player_of)
        values = self._values(shape, rate)
        self.distance += rate
        self.shapes.append(shape)
        self.values.append(values)
        self._step(self.rows, values)

    def _add_extra_tree(self, copies: Rows, n_full: int) -> None:
        """A tree that the copies grow and that says nothing about rows with all its players."""
        shape = TreeShape.of(self._questions(copies, 0.0, n_full), self.table.player_of)
        s = self.settings
        self.shapes.append(shape)
        self.values.append(np.zeros((shape.n_states, len(self.base))))
        self._move(copies, len(self.shapes) - 1, min(s.learning_rate, s.extra_rate))

    def _move(self, copies: Rows, t: int, rate: float) -> None:
        """A step towards what the copies say of the states of a tree in which players are absent."""
        shape, before = self.shapes[t], self.values[t]
        if not len(shape.columns):
            return
        sums = self._sums(copies, shape)
        if self.some_absent:  # rows that miss a value are in these states, too
            sums += ROWS_BESIDE * self._sums(self.rows, shape)
        moved = before + rate * self._steps(copies, sums, 0.0, self.settings.copy_l2 * self.settings.l2)
        self.values[t] = self._tidied(np.where(shape.has_absent[:, None], moved, before), shape)
        for rows in (copies, self.rows) if self.some_absent else (copies,):
            self._step(rows, self.values[t] - before)

    # Questions ------------------------------------------------------------------------------------------------------

    def _questions(self, source: Rows, noise: float, n_full: int | None = None) -> list[Question]:
        """The questions of a tree, chosen one after the other by rows drawn at random.

        Copies begin with questions of an earlier tree, one of `n_full` or of all, and look at rows in which one of its
        players is absent: what else could one ask in its place? The noise is on scores, in units of what noise gains.
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
        columns = self._askable(inside, open_players, most)
        for _ in range(s.depth - len(questions)):
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
            best = score
            if not inside[player]:
                inside[player] = True
                columns = self._askable(inside, open_players, most)
            questions.append((column, threshold))
            n_leaves = kernels.descend(source.bins[column], threshold, rows, leaf)
        return questions

    def _askable(self, inside: Masks, open_players: Masks, most: int) -> Array:
        """The columns that a tree of these players may ask about next."""
        table = self.table
        may = inside | open_players if inside.sum() < most else inside
        if table.allowed is not None:
            may = may & (inside | table.allowed(inside))
        return np.flatnonzero(may[table.player_of] & (table.n_bins > 2))

    def _inherited(self, n_trees: int) -> tuple[list[Question], int]:
        """Some questions of an earlier tree, at most all but two, and the player among them that is to be absent."""
        shape = self.shapes[int(self.draw.integers(n_trees))]
        if not len(shape.players):
            return [], 0
        players = self.draw.permutation(shape.players)
        gone, kept = int(players[0]), players[1 : 1 + int(self.draw.integers(0, 2))]
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
        absent = shape.has_absent
        sums = self._sums(self.rows, shape)
        values = rate * self._steps(self.rows, sums, 0.0, self.settings.l2)
        values[absent] = 0.0
        weight = np.where(absent, 0.0, sums[:, 0])
        total = values * weight[:, None]
        kernels.average_absent(total, weight, shape.sizes)
        reached = absent & (weight > 0)
        values[reached] = total[reached] / weight[reached, None]
        if self.some_absent:  # rows that miss a value say more
            l2 = self.settings.l2 * (1.0 if self.copies is None else CAREFUL)
            values[absent] += rate * self._steps(self.rows, sums, values, l2)[absent]
        return self._tidied(values, shape)

    def _tidied(self, values: Array, shape: TreeShape) -> Array:
        """Values that keep what is promised: nothing when everybody is absent, and monotone columns."""
        values[0] = 0.0
        return _monotone(values, shape, self.table.monotone) if self.any_monotone else values

    def _steps(self, rows: Rows, sums: Array, already: Any, l2: float) -> Array:
        """How far the outputs of each state should move, (states, K), beyond what is added already."""
        k = len(self.base)
        gradient, curvature = sums[:, 1 : 1 + k], sums[:, 1 + k :]
        if self.loss.quantile is not None:
            weight = sums[:, :1]
            found = quantiles_by_state(rows.state, len(sums), rows.y - rows.output, rows.weight, self.loss.quantile)
            return np.asarray((found - already) * weight / (weight + l2))
        step: Array = -(gradient + curvature * already) / (curvature + l2)
        return step if np.isinf(self.loss.max_step) else np.clip(step, -self.loss.max_step, self.loss.max_step)

    def _sums(self, source: Rows, shape: TreeShape) -> Array:
        """(states, 1 + 2 K): weight, gradients and curvatures of the rows in each state."""
        self._into_states(source, shape)
        parts = np.zeros((-(-len(source) // CHUNK), shape.n_states, 1 + 2 * len(self.base)))
        given = source.state, source.weight, source.gradient, source.curvature
        self._in_chunks(source, lambda own: kernels.sums_by_state(*(a[own] for a in given), parts[own.start // CHUNK]))
        return parts[0] if len(parts) == 1 else np.asarray(parts.sum(0))

    def _into_states(self, rows: Rows, shape: TreeShape) -> None:
        """Finds the state of each row in a tree."""
        steps = shape.steps
        self._in_chunks(rows, lambda own: kernels.tree_states(rows.bins, own.start, own.stop, *steps, rows.state))

    def _add(self, rows: Rows, values: Array) -> None:
        """Adds the values of the tree that the rows' states are of to their outputs."""
        self._in_chunks(rows, lambda own: kernels.add_values(rows.state[own], values, rows.output[own]))

    def _step(self, rows: Rows, values: Array) -> None:
        """The same, and the gradients that follow."""
        self._add(rows, values)
        self._derive(rows)

    def _derive(self, rows: Rows) -> None:
        self._in_chunks(rows, lambda own: derive(self.loss, rows, own))

    def _in_chunks(self, rows: Rows, work: Callable[[slice], None]) -> None:
        in_chunks(self.pool, len(rows), CHUNK, lambda start, stop: work(slice(start, stop)))

    # Copies ---------------------------------------------------------------------------------------------------------

    def _follow(self, copies: Rows) -> None:
        """Brings the outputs of the copies up to date; from time to time with other players absent."""
        if self.drawn < 0 or len(self.shapes) - self.drawn >= self.settings.redraw:
            self._redraw(copies)
            return
        for shape, values in zip(self.shapes[self.seen :], self.values[self.seen :], strict=True):
            self._into_states(copies, shape)
            self._add(copies, values)
        self._derive(copies)
        self.seen = len(self.shapes)

    def _redraw(self, copies: Rows) -> None:
        """Draws anew which players are absent from the copies."""
        draw_absent(copies, self.table, self.draw)
        copies.output[:] = self._outputs(copies.bins)
        self._derive(copies)
        copies.weight *= evened(copies, self.table)
        self._derive(copies)
        self.drawn = self.seen = len(self.shapes)

    def _outputs(self, bins: Array) -> Array:
        """(B, K) what the trees so far say about rows."""
        every, tables = np.arange(len(self.base)), [values.T for values in self.values]
        so_far = LookUp.of(Paths.of(self.shapes), [every] * len(tables), tables, len(every))
        return np.asarray(so_far.apply(bins, self.pool).T + self.base)


def derive(loss: Loss, rows: Rows, own: slice = slice(None)) -> None:
    """Brings gradients and curvatures of rows, or of some of them, up to date with their outputs."""
    given = rows.output[own], rows.y[own], rows.weight[own]
    kernels.gradients(loss.code, loss.quantile or 0.5, *given, rows.gradient[own], rows.curvature[own])


def _until(n: int, bar: tqdm[Any] | None, until: float | None) -> Iterator[int]:
    """The numbers below n, as long as there is time."""
    for number in range(n):
        if until is not None and time.monotonic() > until:
            return
        yield number
        if bar is not None:
            bar.update()


def _score(stats: Array, leaf: Array, n_leaves: int, l2: float) -> float:
    """What the leaves are worth, as `kernels.split_scores` counts it."""
    sums = stats.sum(axis=0)[None]
    if n_leaves > 1:
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
