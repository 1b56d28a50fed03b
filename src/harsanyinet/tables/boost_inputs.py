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
        growing_copies: Of these, so many that choose questions; all of them teach what to say when players are absent.
        copy_trees: Share of the trees whose questions the copies choose.
        copy_players: Different players of a tree whose questions the copies choose.
        copy_start: Sum of the learning rates before the first of these: what rows with all players can learn from a
            column they should not learn from one that stands for it.
        copy_l2: Times l2, added to the sum of second derivatives where players are absent: so many times the rows are
            needed to move what is said there, which few rows should not.
        redraw: Trees after which absent players are drawn anew.
        extra_trees: Trees, as a share of those before, that say nothing about rows with all their players.
        extra_rate: Their learning rate, at most.
        rounds: Times that all trees are gone through in the end, to move what they say when players are absent; each
            time by an equal share of the learning rate.
        believed: Share of the model's own prediction in what the copies are to be told: it has less chance in it than
            the target.
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
    growing_copies: int = 2
    copy_trees: float = 0.3
    copy_players: int = 3
    copy_start: float = 3.0
    copy_l2: float = 3.0
    redraw: int = 50
    extra_trees: float = 0.3
    extra_rate: float = 0.1
    rounds: int = 3
    believed: float = 0.8
    sketch: int = 5
    max_seconds: float | None = None

    @property
    def n_steps(self) -> int:
        """Of a whole fit: trees that are added, and those that are gone through again."""
        extra = round(self.extra_trees * self.n_trees) if self.copies else 0
        return self.n_trees + extra + (self.rounds * (self.n_trees + extra) if self.copies else 0)


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
