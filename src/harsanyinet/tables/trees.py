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
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Masks = NDArray[np.bool_]
Question = tuple[int, int]
"""A column and a threshold."""


@dataclass(frozen=True, eq=False)
class TreeShape:
    """The questions of one tree, and what its states are."""

    players: Array  # (q,) the player of each axis
    sizes: Array  # (q,) digits of each axis, the absent one included; the last axis runs fastest
    axes: Array  # (d,) the axis of each question
    columns: Array  # (d,) its column
    thresholds: Array  # (d,) its threshold; "yes" is a bin above it
    units: Array  # (d,) what "yes" adds to the digit

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

    @property
    def questions(self) -> list[Question]:
        """Columns and thresholds, from which all else follows."""
        return list(zip(self.columns.tolist(), self.thresholds.tolist(), strict=True))

    @cached_property
    def n_states(self) -> int:
        """The product of the sizes."""
        return math.prod(self.sizes.tolist())

    @cached_property
    def strides(self) -> Array:
        """(q,) what one digit more adds to the state."""
        return _strides(self.sizes)

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
        steps = np.concatenate([self.strides, self.units * self.strides[self.axes]])
        return columns, thresholds.astype(np.uint8), steps.astype(np.uint16)

    @property
    def full_steps(self) -> tuple[Array, Array, Array]:
        """The same to the states in which nobody is absent, counted among themselves."""
        steps = self.units * _strides(self.sizes - 1)[self.axes]
        return self.columns, self.thresholds.astype(np.uint8), steps.astype(np.uint16)


def _strides(sizes: Array) -> Array:
    """What one digit more of each axis adds to a number made of them, the last axis fastest."""
    return np.append(np.cumprod(sizes[:0:-1])[::-1], 1).astype(np.int64)[: len(sizes)]


@dataclass(frozen=True, eq=False)
class Trees:
    """All trees of a model."""

    player_of: Array  # (D,) the player of each column
    base: Array  # (K,) outputs when everybody is absent
    shapes: tuple[TreeShape, ...]  # what each tree asks
    values: Array  # (states of all trees, K), one tree after another
    counts: Array  # (states of all trees,) training rows, coded as for prediction, in each state

    @classmethod
    def of(cls, player_of: Array, base: Array, shapes: Sequence[TreeShape], tables: Sequence[Array]) -> Trees:
        """Trees in the order given, with the values of the states of each; nothing is counted yet."""
        values = np.concatenate([np.empty((0, len(base))), *tables])
        return cls(player_of, base, tuple(shapes), values, np.zeros(len(values), dtype=np.int64))

    # One tree at a time, for those who check by hand ---------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def n_outputs(self) -> int:
        """How many raw outputs the model has."""
        return len(self.base)

    @cached_property
    def n_players(self) -> int:
        """How many players there are, whether a tree asks about them or not."""
        return int(self.player_of.max(initial=-1)) + 1

    @cached_property
    def state_ends(self) -> Array:
        """(T,) where the states of each tree end in `values` and `counts`."""
        return np.cumsum([shape.n_states for shape in self.shapes], dtype=np.int64)

    @cached_property
    def tables(self) -> list[Array]:
        """The values of each tree, (its states, K)."""
        return np.split(self.values, self.state_ends[:-1]) if self.shapes else []

    def states(self, bins: Array, t: int) -> Array:
        """The state of every row in tree t, (rows,): digits on its axes as one number."""
        shape = self.shapes[t]
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
        for t, table in enumerate(self.tables):
            total += table[self.states(bins, t)]
        return total

    def masked(self, bins: Array, present: Masks | None) -> Array:
        """Bins (D, rows) with 0 for players that are not present, (P,) or (rows, P)."""
        if present is None:
            return bins
        kept = np.broadcast_to(present, (bins.shape[1], self.n_players))[:, self.player_of]
        return np.ascontiguousarray(bins * kept.T)

    # Others ---------------------------------------------------------------------------------------------------------

    def rescaled(self, scale: Array | float, shift: Array | float) -> Trees:
        """The trees of scale * output + shift."""
        return replace(self, base=self.base * scale + shift, values=self.values * scale)

    def part(self, start: int, stop: int) -> Trees:
        """Trees start to stop."""
        return Trees.of(self.player_of, self.base, self.shapes[start:stop], self.tables[start:stop])

    @classmethod
    def mean_of(cls, models: Sequence[Trees]) -> Trees:
        """The trees of the mean output of several models."""
        if len(models) == 1:
            return models[0]
        shapes = [shape for model in models for shape in model.shapes]
        tables = [table / len(models) for model in models for table in model.tables]
        return cls.of(models[0].player_of, np.mean([model.base for model in models], axis=0), shapes, tables)

    def groups(self) -> Iterator[tuple[tuple[int, ...], Array]]:
        """Trees that have axes of the same sizes: the sizes, and which trees."""
        members: dict[tuple[int, ...], list[int]] = {}
        for t, shape in enumerate(self.shapes):
            members.setdefault(tuple(shape.sizes.tolist()), []).append(t)
        yield from ((sizes, np.array(trees)) for sizes, trees in members.items())

    @cached_property
    def coalitions(self) -> Masks:
        """Every non-empty set of players of one tree, (C, P) bool, by size and then by members."""
        from harsanyinet.explanations.indices import unite_coalitions

        sets = {tuple(sorted(shape.players.tolist())) for shape in self.shapes}
        subsets = {part for players in sets for n in range(len(players)) for part in combinations(players, n + 1)}
        masks = np.zeros((len(subsets), self.n_players), dtype=bool)
        for row, members in zip(masks, subsets, strict=True):
            row[list(members)] = True
        return unite_coalitions(masks)[0]

    def to_arrays(self) -> dict[str, Array]:
        """For a model file: the questions of all trees one after another, and what belongs to their states."""
        asked = np.array([pair for shape in self.shapes for pair in shape.questions], dtype=np.int32).reshape(-1, 2)
        return {
            "player_of": self.player_of.astype(np.int32), "base": self.base, "columns": asked[:, 0].copy(),
            "thresholds": asked[:, 1].astype(np.uint8), "values": self.values, "counts": self.counts.astype(np.int32),
            "question_ends": np.cumsum([len(shape.columns) for shape in self.shapes], dtype=np.int32),
        }  # fmt: skip

    def __reduce__(self) -> Any:
        return Trees.from_arrays, (self.to_arrays(),)  # much smaller than all the parts

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Trees:
        """From what `to_arrays` returned; arrays that do not fit together are refused."""
        names = ("player_of", "columns", "thresholds", "question_ends", "counts")
        player_of, columns, thresholds, ends, counts = (np.array(arrays[name], dtype=np.int64) for name in names)
        base, values = np.array(arrays["base"]), np.array(arrays["values"])
        starts = np.append(0, ends)[: len(ends)]
        flat = all(array.ndim == 1 for array in (player_of, columns, thresholds, ends, counts, base))
        if (
            flat and values.shape == (len(counts), len(base)) and (starts <= ends).all()
            and len(columns) == len(thresholds) == (ends[-1] if len(ends) else 0)
            and ((columns >= 0) & (columns < len(player_of)) & (thresholds >= 0) & (thresholds < 256)).all()
        ):  # fmt: skip
            asked = list(zip(columns.tolist(), thresholds.tolist(), strict=True))
            shapes = [TreeShape.of(asked[i:j], player_of) for i, j in zip(starts, ends, strict=True)]
            if sum(shape.n_states for shape in shapes) == len(counts):
                return cls(player_of, base, tuple(shapes), values, counts)
        raise ValueError("the trees of this file do not fit together")
