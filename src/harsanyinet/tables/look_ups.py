"""Tables to look up: from the state of a row in each tree to what it adds to some numbers. Planned once, applied often.

Predictions, Shapley values, interactions and dividends are all sums over trees of a table at the row's state; they
differ in the tables. Few rows are looked up in plain numpy, many by compiled loops.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.tables.trees import Trees, TreeShape

Array = NDArray[Any]

FEW_ROWS = 2048  # below, numba is not worth its import
CHUNK = 16_384  # rows of one piece of work


@dataclass(frozen=True, eq=False)
class Paths:
    """Questions that lead to states, of all trees one after another."""

    ends: Array  # (T,) where the questions of a tree end
    columns: Array  # of each question
    thresholds: Array  # likewise
    steps: Array  # what "yes" adds to the state
    n_states: Array  # (T,)

    @classmethod
    def of(cls, shapes: Sequence[TreeShape], full: bool = False) -> Paths:
        """To all states of trees, or to those in which nobody is absent, counted among themselves."""
        parts = [shape.full_steps if full else shape.steps for shape in shapes]
        nothing = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint16))
        columns, thresholds, steps = (np.concatenate(own) for own in zip(nothing, *parts, strict=True))
        n_states = [math.prod((shape.sizes - full).tolist()) for shape in shapes]
        ends = np.cumsum([len(part[0]) for part in parts], dtype=np.int64)
        return cls(ends, columns, thresholds, steps, np.array(n_states, dtype=np.int64))

    def states_of(self, bins: Array) -> Array:
        """(T,) of one row, whose bins are (columns,)."""
        yes = (bins[self.columns] > self.thresholds) * self.steps
        asking, starts = self._asking
        found = np.zeros(len(self.ends), dtype=np.uint16)
        if len(starts):
            found[asking] = np.add.reduceat(yes, starts, dtype=np.uint16)
        return found

    @cached_property
    def _asking(self) -> tuple[Any, Array]:
        """Which trees ask anything, and where their questions begin."""
        starts = np.append(0, self.ends)[: len(self.ends)]
        asks = starts < self.ends
        return (slice(None) if asks.all() else asks), starts[asks]

    def _questions(self, t: int) -> slice:
        return slice(int(self.ends[t - 1]) if t else 0, int(self.ends[t]))

    def asked(self, t: int) -> dict[int, set[int]]:
        """The thresholds that tree t asks about, by column."""
        asked: dict[int, set[int]] = {}
        own = self._questions(t)
        for column, threshold in sorted(zip(self.columns[own].tolist(), self.thresholds[own].tolist(), strict=True)):
            asked.setdefault(column, set()).add(threshold)
        return asked

    def cells(self, t: int, bins: Mapping[int, Array]) -> Array:
        """The state of tree t for all combinations of these bins of its columns; the last column's run fastest."""
        cells, own = np.zeros(1, dtype=np.int64), self._questions(t)
        for column, seen in bins.items():
            mine = self.columns[own] == column
            above = seen[:, None] > self.thresholds[own][mine]
            cells = (cells[:, None] + above @ self.steps[own][mine].astype(np.int64)).reshape(-1)
        return cells


@dataclass(frozen=True, eq=False)
class LookUp:
    """What to add where."""

    paths: Paths  # to the states
    n_slots: int  # how many sums there are
    slot_ends: Array  # (T,) where the slots of a tree end
    slots: Array  # the sums that a tree adds to, one table each
    starts: Array  # (T,) where the tables of a tree begin
    table: Array  # tables of all trees, one after another: for each slot one number per state

    @classmethod
    def of(cls, paths: Paths, slots: Sequence[Array], tables: Sequence[Array], n_slots: int) -> LookUp:
        """From the slots (s,) and tables (s, states) of each tree."""
        return cls(paths, n_slots, *_joined(slots, tables))

    @classmethod
    def of_values(cls, trees: Trees, full: bool) -> LookUp:
        """Predictions: K sums."""
        both = zip(trees.shapes, trees.tables, strict=True)
        tables = [(own[~shape.has_absent] if full else own).T for shape, own in both]
        slots = [np.arange(trees.n_outputs)] * len(trees)
        return cls.of(Paths.of(trees.shapes, full), slots, tables, trees.n_outputs)

    def part(self, t: int) -> tuple[Array, Array]:
        """The slots of tree t, (s,), and its tables, (s, states)."""
        slots = self.slots[int(self.slot_ends[t - 1]) if t else 0 : int(self.slot_ends[t])]
        n_states = int(self.paths.n_states[t])
        start = int(self.starts[t])
        return slots, self.table[start : start + len(slots) * n_states].reshape(-1, n_states)

    def apply(self, bins: Array, pool: ThreadPoolExecutor | None = None) -> Array:
        """The sums of rows, (slots, rows); `bins` is (columns, rows) uint8."""
        n = bins.shape[1]
        if n < (16 if "harsanyinet.tables.kernels" in sys.modules else FEW_ROWS):
            return self.apply_to_few(bins)
        from harsanyinet.tables import kernels

        out = np.zeros((self.n_slots, n))
        p, f = self.paths, self.folded

        def work(start: int, stop: int) -> None:
            if f is not None:
                kernels.look_up_folded(
                    bins, start, stop, f.columns, f.maps, f.slot_ends, f.slots, f.starts, f.n_states, f.table, out
                )
            else:
                kernels.look_up(
                    bins, start, stop, p.ends, p.columns, p.thresholds, p.steps, self.slot_ends, self.slots,
                    self.starts, p.n_states, self.table, out,
                )  # fmt: skip

        in_chunks(pool, n, CHUNK, work)
        return out

    @cached_property
    def folded(self) -> Folded | None:
        """All trees about the same one or two columns as one table, if there is no tree about more."""
        return Folded.of(self)

    def apply_to_few(self, bins: Array) -> Array:
        """`apply` without numba, whose first call costs more than a few rows do."""
        out = np.zeros((self.n_slots, bins.shape[1]))
        if len(self.slots):
            tree, begin = self._places
            for row, own in enumerate(np.ascontiguousarray(bins.T)):
                found = self.table[begin + self.paths.states_of(own)[tree]]  # (slots of all trees,)
                out[:, row] = np.bincount(self.slots, found, self.n_slots)
        return out

    @cached_property
    def _places(self) -> tuple[Array, Array]:
        """The tree of each slot, and where its table begins."""
        counts = np.diff(self.slot_ends, prepend=0)
        tree = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(tree)) - np.repeat(self.slot_ends - counts, counts)
        return tree, self.starts[tree] + within * self.paths.n_states[tree]


@dataclass(frozen=True, eq=False)
class Folded:
    """Curves and pair tables: what all trees about the same one or two columns say, by the bins of these."""

    columns: Array  # (G, 2); a single column stands twice
    maps: Array  # (G, 2, 256) from the bin of each column to a number; both added are the cell of the table
    n_states: Array  # (G,) cells of a table
    slot_ends: Array  # (G,) the rest is as in `LookUp`
    slots: Array
    starts: Array
    table: Array

    @classmethod
    def of(cls, look_up: LookUp) -> Folded | None:
        """From a look-up; None if a tree asks about more than two columns, or nothing is asked."""
        paths = look_up.paths
        groups: dict[tuple[int, ...], list[int]] = {}
        for t in range(len(paths.ends)):
            asked = tuple(paths.asked(t))
            if len(asked) > 2:
                return None
            if len(look_up.part(t)[0]):  # it adds to some sum
                groups.setdefault(asked, []).append(t)
        if not groups or () in groups:
            return None
        columns, maps, slots, tables = [], [], [], []
        for asked, trees in groups.items():
            cuts = [np.array(sorted(set().union(*(paths.asked(t)[column] for t in trees)))) for column in asked]
            bins = {column: np.append(0, own + 1) for column, own in zip(asked, cuts, strict=True)}  # one of each digit
            digits = [np.searchsorted(own, np.arange(256)) for own in cuts]  # thresholds below the bin
            one = len(asked) == 1
            columns.append([asked[0], asked[-1]])
            maps.append([digits[0], 0 * digits[0]] if one else [digits[0] * len(bins[asked[1]]), digits[1]])
            total: dict[int, Array] = {}
            for t in trees:
                own_slots, own_tables = look_up.part(t)
                for slot, table in zip(own_slots.tolist(), own_tables[:, paths.cells(t, bins)], strict=True):
                    total[slot] = total[slot] + table if slot in total else table
            slots.append(list(total))
            tables.append(np.stack(list(total.values())))
        n_states = np.array([own.shape[1] for own in tables])
        return cls(np.array(columns), np.array(maps, dtype=np.int32), n_states, *_joined(slots, tables))


def _joined(slots: Sequence[Any], tables: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
    """Where the slots of each tree end, all of them, where its tables begin, and all tables, one after another."""
    sizes = np.array([own.size for own in tables], dtype=np.int64)
    return (
        np.cumsum([len(own) for own in slots], dtype=np.int64),
        np.concatenate([np.empty(0, dtype=np.int64), *slots]),
        np.cumsum(sizes) - sizes,
        np.concatenate([np.empty(0), *(own.reshape(-1) for own in tables)]),
    )


def in_chunks(pool: ThreadPoolExecutor | None, n: int, size: int, work: Callable[[int, int], None]) -> None:
    """Runs work(start, stop) on fixed chunks of n rows, on the pool's threads if there is one."""
    pieces = [(start, min(start + size, n)) for start in range(0, n, size)]
    if pool is None or len(pieces) == 1:
        for start, stop in pieces:
            work(start, stop)
    else:
        for done in [pool.submit(work, *piece) for piece in pieces]:
            done.result()
