"""Trees as data, and in plain numpy what they say: states of rows, outputs, the game of one tree. The oracle.

A tree asks questions "is the bin of this column above this threshold?", the same of every row. Its players are its
axes. A row's digit on an axis is 0 where the player is absent, else 1 + a number made of the answers about the player's
columns; the digits together are the row's state, and the tree is a table of values over its states:

    v(S) = base + the sum over trees of values[state of the row with the players outside S absent]

The state in which all its players are absent has the value 0, so that v(nobody) = base.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Masks = NDArray[np.bool_]
Question = tuple[int, int]
"""A column and a threshold."""


@dataclass(frozen=True, eq=False)
class TreeShape:
    """The questions of one tree, and what its states are.

    Attributes:
        players: (q,) the player of each axis.
        sizes: (q,) digits of each axis, the absent one included; the last axis runs fastest.
        axes: (d,) the axis of each question.
        columns: (d,) its column.
        thresholds: (d,) its threshold; "yes" is a bin above it.
        units: (d,) what "yes" adds to the digit.
    """

    players: Array
    sizes: Array
    axes: Array
    columns: Array
    thresholds: Array
    units: Array

    @classmethod
    def of(cls, questions: Sequence[Question], player_of: Array) -> TreeShape:
        """The shape of a tree that asks these questions; axes with many digits come first."""
        asked: dict[int, dict[int, list[int]]] = {}
        for column, threshold in sorted(set(questions)):
            asked.setdefault(int(player_of[column]), {}).setdefault(column, []).append(threshold)
        width = {player: math.prod(len(t) + 1 for t in columns.values()) for player, columns in asked.items()}
        players = sorted(asked, key=lambda player: (-width[player], player))
        levels = []
        for axis, player in enumerate(players):
            unit = 1
            for column, thresholds in asked[player].items():
                levels += [(axis, column, threshold, unit) for threshold in thresholds]
                unit *= len(thresholds) + 1
        table = np.array(levels, dtype=np.int64).reshape(-1, 4)
        sizes = np.array([width[player] + 1 for player in players], dtype=np.int64)
        return cls(np.array(players, dtype=np.int64), sizes, *(np.ascontiguousarray(part) for part in table.T))

    @cached_property
    def n_states(self) -> int:
        """The product of the sizes."""
        return math.prod(self.sizes.tolist())

    @cached_property
    def strides(self) -> Array:
        """(q,) what one digit more adds to the state."""
        return np.append(np.cumprod(self.sizes[:0:-1])[::-1], 1).astype(np.int64)[: len(self.sizes)]

    @cached_property
    def has_absent(self) -> Masks:
        """(states,) whether a player is absent in the state."""
        if not len(self.sizes):
            return np.ones(1, dtype=bool)
        digits = np.indices(tuple(self.sizes)).reshape(len(self.sizes), -1)
        return np.asarray((digits == 0).any(axis=0))

    @cached_property
    def steps(self) -> tuple[Array, Array, Array]:
        """Columns, thresholds and steps of questions that lead to the state; the first ones ask who is present."""
        heads = [i for i, axis in enumerate(self.axes.tolist()) if not i or axis != self.axes[i - 1]]
        columns = np.concatenate([self.columns[heads], self.columns])
        thresholds = np.concatenate([np.zeros(len(heads), dtype=np.int64), self.thresholds])
        return columns, thresholds.astype(np.uint8), np.concatenate(
            [self.strides, self.units * self.strides[self.axes]]
        ).astype(np.uint16)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Trees:
    """All trees of a model; tree t has the parts from ends[t - 1] to ends[t] of the flat arrays.

    Attributes:
        player_of: (D,) the player of each column.
        base: (K,) outputs when everybody is absent.
        axis_ends: (T,).
        axis_players: The player of each axis.
        axis_sizes: Its digits, the absent one included.
        level_ends: (T,).
        level_axes: The axis of each question.
        level_columns: Its column.
        level_thresholds: Its threshold.
        level_units: What "yes" adds to the digit of the axis.
        state_ends: (T,).
        values: (states of all trees, K).
        counts: (states of all trees,) training rows, coded as for prediction, in each state.
    """

    player_of: Array
    base: Array
    axis_ends: Array
    axis_players: Array
    axis_sizes: Array
    level_ends: Array
    level_axes: Array
    level_columns: Array
    level_thresholds: Array
    level_units: Array
    state_ends: Array
    values: Array
    counts: Array

    @classmethod
    def of(cls, player_of: Array, base: Array, shapes: Sequence[TreeShape], values: Sequence[Array]) -> Trees:
        """Trees in the order given; their counts are zero until `counted`."""

        def flat(name: str) -> Array:
            return np.concatenate([np.empty(0, dtype=np.int64), *(getattr(shape, name) for shape in shapes)])

        n_states = [shape.n_states for shape in shapes]
        return cls(
            player_of=player_of, base=base,
            axis_ends=np.cumsum([len(shape.players) for shape in shapes], dtype=np.int64),
            axis_players=flat("players"), axis_sizes=flat("sizes"),
            level_ends=np.cumsum([len(shape.columns) for shape in shapes], dtype=np.int64),
            level_axes=flat("axes"), level_columns=flat("columns"), level_thresholds=flat("thresholds"),
            level_units=flat("units"), state_ends=np.cumsum(n_states, dtype=np.int64),
            values=np.concatenate([np.empty((0, len(base))), *values]),
            counts=np.zeros(sum(n_states), dtype=np.int64),
        )  # fmt: skip

    # One tree at a time, for those who check by hand ---------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.state_ends)

    @property
    def n_outputs(self) -> int:
        """How many raw outputs the model has."""
        return len(self.base)

    @cached_property
    def n_players(self) -> int:
        """How many players there are, whether a tree asks about them or not."""
        return int(self.player_of.max(initial=-1)) + 1

    def shape(self, t: int) -> TreeShape:
        """The questions of tree t."""
        axes, levels = _part(self.axis_ends, t), _part(self.level_ends, t)
        return TreeShape(
            self.axis_players[axes], self.axis_sizes[axes], self.level_axes[levels], self.level_columns[levels],
            self.level_thresholds[levels], self.level_units[levels],
        )  # fmt: skip

    def states_of(self, t: int) -> slice:
        """Where the states of tree t stand in `values` and `counts`."""
        return _part(self.state_ends, t)

    def states(self, bins: Array, t: int) -> Array:
        """The state of every row in tree t, (rows,): digits on its axes as one number."""
        shape = self.shape(t)
        digits = np.zeros((len(shape.players), bins.shape[1]), dtype=np.int64)
        for axis, player in enumerate(shape.players):
            digits[axis] = bins[np.flatnonzero(self.player_of == player)[0]] > 0
        for axis, column, threshold, unit in zip(shape.axes, shape.columns, shape.thresholds, shape.units, strict=True):
            digits[axis] += unit * (bins[column] > threshold)
        return np.asarray(shape.strides @ digits)

    def outputs(self, bins: Array, present: Masks | None = None) -> Array:
        """Raw outputs of rows, (rows, K)."""
        bins = self.masked(bins, present)
        total = np.tile(self.base, (bins.shape[1], 1))
        for t in range(len(self)):
            total += self.values[self.states_of(t)][self.states(bins, t)]
        return total

    def masked(self, bins: Array, present: Masks | None) -> Array:
        """Bins (D, rows) with 0 for players that are not present, (P,) or (rows, P)."""
        if present is None:
            return bins
        kept = np.broadcast_to(present, (bins.shape[1], self.n_players))[:, self.player_of]
        return np.ascontiguousarray(bins * kept.T)

    # Others ---------------------------------------------------------------------------------------------------------

    def counted(self, counts: Array) -> Trees:
        """The same trees with counts of training rows by state."""
        return self._with(counts=np.asarray(counts, dtype=np.int64))

    def rescaled(self, scale: Array | float, shift: Array | float) -> Trees:
        """The trees of scale * output + shift."""
        return self._with(base=self.base * scale + shift, values=self.values * scale)

    def part(self, start: int, stop: int) -> Trees:
        """Trees start to stop."""
        shapes = [self.shape(t) for t in range(start, stop)]
        values = [self.values[self.states_of(t)] for t in range(start, stop)]
        return Trees.of(self.player_of, self.base, shapes, values)

    @classmethod
    def mean_of(cls, models: Sequence[Trees]) -> Trees:
        """The trees of the mean output of several models."""
        if len(models) == 1:
            return models[0]
        shapes = [model.shape(t) for model in models for t in range(len(model))]
        values = [model.values[model.states_of(t)] / len(models) for model in models for t in range(len(model))]
        return cls.of(models[0].player_of, np.mean([model.base for model in models], axis=0), shapes, values)

    def _with(self, **changed: Array) -> Trees:
        return Trees(**({f.name: getattr(self, f.name) for f in fields(self)} | changed))

    def groups(self) -> Iterator[tuple[tuple[int, ...], Array]]:
        """Trees that have axes of the same sizes: the sizes, and which trees."""
        members: dict[tuple[int, ...], list[int]] = {}
        for t in range(len(self)):
            members.setdefault(tuple(self.axis_sizes[_part(self.axis_ends, t)].tolist()), []).append(t)
        for sizes, trees in members.items():
            yield sizes, np.array(trees)

    @cached_property
    def coalitions(self) -> Masks:
        """Every non-empty set of players of one tree, (C, P) bool, by size and then by members."""
        from harsanyinet.explanations.indices import unite_coalitions

        sets = {tuple(sorted(self.axis_players[_part(self.axis_ends, t)].tolist())) for t in range(len(self))}
        subsets = {
            tuple(player for i, player in enumerate(players) if code >> i & 1)
            for players in sets for code in range(1, 2 ** len(players))
        }  # fmt: skip
        masks = np.zeros((len(subsets), self.n_players), dtype=bool)
        for row, members in zip(masks, subsets, strict=True):
            row[list(members)] = True
        return unite_coalitions(masks)[0]

    def to_arrays(self) -> dict[str, Array]:
        """For a model file: small integers where they fit."""
        small = {"axis_sizes": np.uint16, "level_axes": np.uint8, "level_thresholds": np.uint8, "level_units": np.uint8}
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            name: array.astype(small[name]) if name in small else array.astype(np.int32)
            if array.dtype.kind == "i" else array
            for name, array in arrays.items()
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Trees:
        """From what `to_arrays` returned; arrays that do not fit together are refused."""
        given = {f.name: np.array(arrays[f.name]) for f in fields(cls)}
        trees = cls(**{
            name: array if array.dtype.kind == "f" else array.astype(np.int64) for name, array in given.items()
        })  # fmt: skip
        if not trees._fits():
            raise ValueError("the trees of this file do not fit together")
        return trees

    def _fits(self) -> bool:
        """Whether all parts have the lengths that they say, and no question leads out of a table."""
        n, d = len(self.state_ends), len(self.player_of)
        axes = (self.axis_players, self.axis_sizes)
        levels = (self.level_axes, self.level_columns, self.level_thresholds, self.level_units)
        for ends, parts in ((self.axis_ends, axes), (self.level_ends, levels), (self.state_ends, (self.counts,))):
            if len(ends) != n or (np.diff(ends, prepend=0) < 0).any():
                return False
            if any(part.ndim != 1 or len(part) != (int(ends[-1]) if n else 0) for part in parts):
                return False
        if self.base.ndim != 1 or self.values.shape != (len(self.counts), len(self.base)):
            return False
        for array, most in ((self.axis_players, self.n_players), (self.level_columns, d), (self.level_thresholds, 256)):
            if ((array < 0) | (array >= most)).any():
                return False
        for t in range(n):
            shape = self.shape(t)
            states = self.states_of(t)
            if shape.n_states != states.stop - states.start or (shape.units < 1).any() or (shape.axes < 0).any():
                return False
            digits = 2 + np.bincount(shape.axes, shape.units, len(shape.sizes))  # absent, and 1 to 1 + all units
            if digits.tolist() != shape.sizes.tolist():
                return False
        return True


def _part(ends: Array, t: int) -> slice:
    return slice(int(ends[t - 1]) if t else 0, int(ends[t]))
