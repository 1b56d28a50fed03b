"""What trees mean, in plain Python loops over their questions, and random trees to ask. No test lives here.

The package is used to build `Trees` and for nothing else: states, outputs and games are those of the docstrings, taken
literally.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harsanyinet.tables.trees import Trees, TreeShape

Array = np.ndarray[Any, Any]
Questions = list[tuple[int, int]]


def width_of(questions: Questions, player_of: list[int], player: int) -> int:
    """Digits of a player in a tree, without that of absence: what its columns' thresholds can tell apart."""
    columns = sorted({column for column, _ in questions if player_of[column] == player})
    width = 1
    for column in columns:
        width *= len({threshold for c, threshold in questions if c == column}) + 1
    return width


def players_of_tree(questions: Questions, player_of: list[int]) -> list[int]:
    """The axes of a tree: players with many digits first, then by number."""
    players = {player_of[column] for column, _ in questions}
    return sorted(players, key=lambda player: (-width_of(questions, player_of, player), player))


def state_by_hand(questions: Questions, player_of: list[int], row: Array) -> int:
    """The state of one row (D,) of bins."""
    state = 0
    for player in players_of_tree(questions, player_of):
        digit = 0
        if row[player_of.index(player)] > 0:
            unit, digit = 1, 1
            for column in sorted({column for column, _ in questions if player_of[column] == player}):
                thresholds = {threshold for c, threshold in questions if c == column}
                digit += unit * sum(int(row[column]) > threshold for threshold in thresholds)
                unit *= len(thresholds) + 1
        state = state * (width_of(questions, player_of, player) + 1) + digit
    return state


@dataclass
class Case:
    """Trees both as the package has them and as lists, rows to explain, and rows to compare with."""

    player_of: list[int]
    base: Array
    questions: list[Questions]
    values: list[Array]
    background: Array
    rows: Array

    @property
    def n_players(self) -> int:
        return max(self.player_of) + 1

    @property
    def trees(self) -> Trees:
        player_of = np.array(self.player_of, dtype=np.int64)
        shapes = [TreeShape.of(questions, player_of) for questions in self.questions]
        counts = [np.zeros(len(own), dtype=np.int64) for own in self.values]
        for own, questions in zip(counts, self.questions, strict=True):
            for row in self.background.T:
                own[state_by_hand(questions, self.player_of, row)] += 1
        trees = Trees.of(player_of, self.base, shapes, self.values)
        return replace(trees, counts=np.concatenate([np.zeros(0, dtype=np.int64), *counts]))

    def output(self, row: Array) -> Array:
        """What all trees say about one row (D,), (K,)."""
        total = self.base.copy()
        for questions, values in zip(self.questions, self.values, strict=True):
            total += values[state_by_hand(questions, self.player_of, row)]
        return total

    def mixed(self, row: Array, other: Array, mask: Array) -> Array:
        """The row where players are in the mask, the other one elsewhere."""
        return np.array([row[d] if mask[player] else other[d] for d, player in enumerate(self.player_of)])

    def game(self, name: str, row: Array, reference: Array | None = None) -> Callable[[Array], Array]:
        """Masks (m, P) to outputs (m, K), one row and one mask at a time."""
        others = {
            "missing": [np.zeros(len(row), dtype=np.uint8)],
            "marginal": list(self.background.T),
            "baseline": [reference],
        }[name]

        def play(masks: Array) -> Array:
            return np.array([
                np.mean([self.output(self.mixed(row, other, mask)) for other in others], axis=0) for mask in masks
            ])  # fmt: skip

        return play

    def scale(self) -> float:
        """The largest |output| that any state can give, for tolerances."""
        return float(np.abs(self.base).max() + sum(np.abs(values).max(initial=0.0) for values in self.values)) + 1e-300


def random_bins(rng: np.random.Generator, player_of: list[int], n_rows: int, absent: float, n_bins: int = 6) -> Array:
    """(D, rows): bins from 1, and 0 in all columns of players who are absent."""
    bins = rng.integers(1, n_bins, (len(player_of), n_rows)).astype(np.uint8)
    gone = rng.random((max(player_of) + 1, n_rows)) < absent
    bins[gone[player_of]] = 0
    return bins


def random_case(
    seed: int, n_players: int, n_outputs: int = 1, *, n_trees: int | None = None, n_rows: int = 3, n_background: int = 7
) -> Case:
    """Trees of 1 to 6 questions with repeated columns, players of two or three columns, absent cells here and there."""
    rng = np.random.default_rng(seed)
    player_of = [*range(n_players), *rng.integers(0, n_players, rng.integers(0, 4)).tolist()]
    player_of = [int(p) for p in rng.permutation(player_of)]
    questions, values = [], []
    for _ in range(int(rng.integers(0, 6)) if n_trees is None else n_trees):
        few = rng.choice(
            len(player_of), rng.integers(1, len(player_of) + 1), replace=False
        )  # so that columns come twice
        asked = [(int(rng.choice(few)), int(rng.integers(1, 5))) for _ in range(rng.integers(1, 7))]
        questions.append(asked)
        states = int(np.prod([width_of(asked, player_of, p) + 1 for p in players_of_tree(asked, player_of)]))
        own = rng.normal(size=(states, n_outputs))
        own[0] = 0.0
        values.append(own)
    return Case(
        player_of, rng.normal(size=n_outputs), questions, values,
        random_bins(rng, player_of, n_background, float(rng.choice([0.0, 0.3]))),
        random_bins(rng, player_of, n_rows, float(rng.choice([0.0, 0.3]))),
    )  # fmt: skip
