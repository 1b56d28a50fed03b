"""Games with known answers, for tests and demonstrations. numpy only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray


def unanimity_game(n: int, sets: Mapping[tuple[int, ...], float]) -> Callable[[NDArray[np.bool_]], NDArray[np.float64]]:
    """A game with known dividends: v(S) is the sum of ``sets[T]`` over the sets T that S contains.

    Args:
        n: Number of players.
        sets: Dividend of each set of players; the empty set, when given, is v(empty).

    Shape:
        boolean masks (m, n) -> values (m,)

    Examples:
        >>> game = unanimity_game(3, {(0,): 1.0, (0, 2): 5.0})
        >>> game(np.array([[True, True, False], [True, False, True]]))
        array([1., 6.])
    """
    if n < 1:
        raise ValueError(f"n must be positive, however: {n=}")
    for players in sets:
        if not isinstance(players, tuple) or not set(players) <= set(range(n)) or len(set(players)) != len(players):
            raise ValueError(f"a set must be a tuple of different players from 0 to {n - 1}, however: {players!r}")
    if len({frozenset(players) for players in sets}) != len(sets):
        raise ValueError(f"each set must come once, whatever the order of its players, however: {list(sets)}")
    if not all(math.isfinite(dividend) for dividend in sets.values()):
        raise ValueError(f"dividends must be finite, however: {list(sets.values())}")
    members = np.array([[float(i in players) for i in range(n)] for players in sets]).reshape(-1, n)  # (C, n)
    dividends = np.array(list(sets.values()), dtype=np.float64)  # (C,)

    def game(masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        masks = np.asarray(masks)
        if masks.dtype != bool or masks.ndim != 2 or masks.shape[1] != n:
            raise ValueError(f"masks must be boolean of shape (m, {n}), however: {masks.dtype} of {masks.shape}")
        contained = ~masks @ members.T == 0  # (m, C): no member is absent
        values: NDArray[np.float64] = contained @ dividends
        return values

    return game
