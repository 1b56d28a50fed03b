"""What boosting is given: how to boost, the table to learn from, and rows with what a model says about them so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Masks = NDArray[np.bool_]


@dataclass(frozen=True)
class Settings:
    """How to boost.

    Where players are absent, copies of the rows teach what to say. What rows with all players can learn from a column
    they should not learn from one that stands for it, so copies choose questions only after some trees.
    """

    n_trees: int = 1000  # that learn from the rows, at most
    learning_rate: float = 0.05  # share of a step that is taken
    quickening: float = 0.0  # what every tree adds to the learning rate, as a share of it
    depth: int = 6  # questions of a tree
    max_players: int = 4  # different ones of a tree
    l2: float = 1.0  # added to the sum of second derivatives of a leaf
    row_share: float = 0.8  # of the rows that choose the questions of a tree
    column_share: float = 1.0  # of the players that may be asked about in a tree; if no more are useful, all of those
    noise: float = 1.0  # on the scores of questions, which fades as trees are added
    # What a further question that the rows choose must gain in the mean of its leaves, in units of what a split of
    # noise gains; less is left to gain where leaves have hardly a row to part.
    least_gain: float = 0.0
    copies: int = 6  # of the rows, with players absent
    growing_copies: int = 2  # so many of them choose questions; all teach what to say when players are absent
    copy_trees: float = 0.3  # share of the trees whose questions the copies choose
    copy_players: int = 3  # different ones of such a tree
    copy_start: float = 3.0  # sum of the learning rates before the first of them
    # Times l2, added to the sum of second derivatives where players are absent: so many times the rows are needed to
    # move what is said there, which few rows should not.
    copy_l2: float = 3.0
    redraw: int = 50  # trees after which absent players are drawn anew
    extra_trees: float = 0.3  # as a share of those before; they say nothing about rows with all their players
    extra_rate: float = 0.1  # their learning rate, at most
    # Times that all trees are gone through in the end, to move what they say when players are absent; each time by an
    # equal share of the learning rate.
    rounds: int = 3
    believed: float = 0.8  # of the model's own prediction, with less chance in it, in what the copies are to be told
    sketch: int = 5  # gradients of more outputs are mixed to as many before questions are scored
    max_seconds: float | None = None  # time after which no tree is begun

    @property
    def n_steps(self) -> int:
        """Of a whole fit: trees that are added, and those that are gone through again."""
        if not self.copies:
            return self.n_trees
        return (1 + self.rounds) * (self.n_trees + round(self.extra_trees * self.n_trees))


@dataclass
class Rows:
    """Rows and what the model says about them so far."""

    bins: Array  # (columns, B)
    y: Array  # (B, T)
    weight: Array  # (B,)
    output: Array  # (B, K)
    gradient: Array = field(init=False)  # work space, like the rest
    curvature: Array = field(init=False)
    state: Array = field(init=False)

    def __post_init__(self) -> None:
        self.gradient, self.curvature = np.empty_like(self.output), np.empty_like(self.output)
        self.state = np.empty(len(self.output), dtype=np.uint16)

    def __len__(self) -> int:
        return len(self.output)


@dataclass(frozen=True, eq=False)
class Table:
    """What is learned from."""

    bins: Array  # (columns, B) uint8, 0 where absent
    n_bins: Array  # of each column, the absent one included
    player_of: Array  # the player of each column
    y: Array  # (B, T) targets or class numbers
    weight: Array  # (B,)
    monotone: Array  # for each column 1, -1 or 0
    allowed: Callable[[Masks], Masks] | None = None  # from the players of a tree, (P,) bool, to those that may join
    useful: Masks | None = None  # (2, P) the players worth asking about, with all columns and with some of them

    @property
    def n_players(self) -> int:
        """P."""
        return int(self.player_of.max(initial=-1)) + 1

    def take(self, rows: Array) -> Table:
        """Some of the rows."""
        bins = np.ascontiguousarray(self.bins[:, rows])
        return replace(self, bins=bins, y=self.y[rows], weight=self.weight[rows])
