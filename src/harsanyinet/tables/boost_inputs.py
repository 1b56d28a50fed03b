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

    Attributes:
        n_trees: Trees that learn from the rows, at most.
        learning_rate: Share of a step that is taken.
        quickening: What every tree adds to the learning rate, as a share of it.
        depth: Questions of a tree.
        max_players: Different players of a tree.
        l2: Added to the sum of second derivatives of a leaf.
        row_share: Share of the rows that choose the questions of a tree.
        column_share: Share of the players that may be asked about in a tree; if no more are useful, all of those may.
        noise: Strength of the noise on the scores of questions, which fades as trees are added.
        least_gain: What a further question that the rows choose must gain in the mean of its leaves, in units of what
            a split of noise gains; less is left to gain where leaves have hardly a row to part.
        copies: Copies of the rows with players absent.
        copy_trees: Share of the trees whose questions the copies choose.
        copy_players: Different players of a tree whose questions the copies choose.
        copy_start: Sum of the learning rates before the first of these: what rows with all players can learn from a
            column they should not learn from one that stands for it.
        copy_rate: Learning rate of absent states, at most.
        extra_trees: Trees, as a share of those before, that learn from the copies alone.
        extra_rate: Their learning rate, at most.
        redraw: Trees after which absent players are drawn anew.
        sketch: Gradients of more outputs than these are mixed to as many before questions are scored.
        max_seconds: Time after which no tree is begun.
    """

    n_trees: int = 1000
    learning_rate: float = 0.05
    quickening: float = 0.0
    depth: int = 6
    max_players: int = 4
    l2: float = 1.0
    row_share: float = 0.8
    column_share: float = 1.0
    noise: float = 1.0
    least_gain: float = 0.0
    copies: int = 6
    copy_trees: float = 0.3
    copy_players: int = 3
    copy_start: float = 3.0
    copy_rate: float = 0.03
    extra_trees: float = 0.3
    extra_rate: float = 0.1
    redraw: int = 50
    sketch: int = 5
    max_seconds: float | None = None


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


@dataclass(frozen=True, eq=False)
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
        useful: (2, P) bool, the players worth asking about, with all columns and with some of them; None for all.
    """

    bins: Array
    n_bins: Array
    player_of: Array
    y: Array
    weight: Array
    monotone: Array
    allowed: Callable[[Masks], Masks] | None = None
    useful: Masks | None = None

    @property
    def n_players(self) -> int:
        """P."""
        return int(self.player_of.max(initial=-1)) + 1

    def take(self, rows: Array) -> Table:
        """Some of the rows."""
        bins = np.ascontiguousarray(self.bins[:, rows])
        return replace(self, bins=bins, y=self.y[rows], weight=self.weight[rows])
