"""Cooperative games by definition: any callable of a mask matrix, evaluated on all 2^n coalitions.

This is the oracle that the exactness tests and `verify` ask. It knows no network and shares no formula with
`indices`: Shapley values come from marginal contributions (Definition 1), dividends from the Moebius transform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.progress import bar

Masks = NDArray[np.bool_]
Floats = NDArray[np.float64]
Game = Callable[[Masks], Any]
"""A game maps bool masks (m, n), True where a player is present, to values (m,) or (m, K)."""

MAX_PLAYERS = 20


def all_masks(n: int) -> Masks:
    """Returns all coalitions of `n` players, (2^n, n) bool: bit i of row k says whether player i is in coalition k."""
    if not 1 <= n <= MAX_PLAYERS:
        raise ValueError(
            f"all 2^n coalitions can be enumerated for 1 to {MAX_PLAYERS} players, however: n={n}; "
            "above that, restrict the game to some players and hold the others fixed"
        )
    numbers = np.arange(2**n, dtype="<u4")[:, None].view(np.uint8)  # four bytes of each, the lowest first
    return np.unpackbits(numbers, axis=1, count=n, bitorder="little").view(np.bool_)


def evaluate(game: Game, n: int, *, batch_size: int = 65_536, progress: bool = True) -> Floats:
    """Evaluates a game on all 2^n coalitions, in batches.

    Args:
        game: Callable of bool masks (m, n) that returns (m,) or (m, K).
        n: Number of players, at most 20.
        batch_size: Largest number of masks in one call.
        progress: Shows a bar on stderr when the evaluation lasts longer than two seconds.

    Returns:
        (2^n,) or (2^n, K) in float64; row k belongs to row k of `all_masks(n)`.
    """
    masks = all_masks(n)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, however: batch_size={batch_size}")
    parts: list[Floats] = []
    with bar("all coalitions", len(masks), unit="mask", progress=progress) as shown:
        for start in range(0, len(masks), batch_size):
            some = masks[start : start + batch_size]
            parts.append(_as_values(game(some), len(some)))
            shown.update(len(some))
    return np.concatenate(parts)


def brute_force_shapley(game: Game, n: int, *, batch_size: int = 65_536, progress: bool = True) -> Floats:
    """Shapley values by Definition 1: the weighted mean of a player's marginal contributions over all coalitions.

    Returns:
        (n,) or (n, K) in float64.

    Examples:
        >>> brute_force_shapley(lambda m: 2.0 * m[:, 0] * m[:, 1] + m[:, 2], 3).tolist()
        [1.0, 1.0, 1.0]
    """
    return shapley_of_table(evaluate(game, n, batch_size=batch_size, progress=progress))


def harsanyi_dividends(game: Game, n: int, *, batch_size: int = 65_536, progress: bool = True) -> Floats:
    """All Harsanyi dividends I(S) (Definition 2) by the fast Moebius transform, in O(n 2^n) after 2^n evaluations.

    Returns:
        (2^n,) or (2^n, K) in float64; row k is the coalition whose members are the set bits of k, row 0 is zero.

    Examples:
        >>> harsanyi_dividends(lambda m: 5.0 + 2.0 * m[:, 0] * m[:, 1], 2).tolist()
        [0.0, 0.0, 0.0, 2.0]
    """
    table = evaluate(game, n, batch_size=batch_size, progress=progress)
    return moebius_transform(table - table[0])


def shapley_of_table(table: Floats) -> Floats:
    """Shapley values of a game given as its table of values: (2^n[, K]) -> (n[, K])."""
    n = _players_of(table)
    sizes = np.bitwise_count(np.arange(2 ** (n - 1), dtype=np.uint32))  # of the coalitions without player i
    weights = np.array([1.0 / (n * comb(n - 1, s)) for s in range(n)])[sizes]
    values = []
    for i in range(n):
        pairs = table.reshape(2 ** (n - 1 - i), 2, 2**i, -1)  # axis 1: player i absent, present
        gains = (pairs[:, 1] - pairs[:, 0]).reshape(2 ** (n - 1), -1)
        values.append(weights @ gains)
    return np.stack(values).reshape(n, *table.shape[1:])


def sub_game(game: Game, players: Sequence[int] | NDArray[np.intp], n: int, *, others: bool = True) -> Game:
    """The game of some players of a larger game, while all others stay present, or absent.

    Args:
        game: Of n players.
        players: Positions of those who play on, in their new order.
        n: Number of players of the larger game.
        others: Whether all others are present.

    Examples:
        >>> sub_game(lambda m: 2.0 * m[:, 0] * m[:, 1] + m[:, 2], [1], 3)(np.array([[False], [True]])).tolist()
        [1.0, 3.0]
    """

    def play(masks: Masks) -> Any:
        whole = np.full((len(masks), n), others)
        whole[:, players] = masks
        return game(whole)

    return play


def moebius_transform(table: Floats) -> Floats:
    """I(S) = sum over L in S of (-1)^(|S|-|L|) V(L), for all S: (2^n[, K]) -> (2^n[, K])."""
    return _transform(table, -1.0)


def zeta_transform(dividends: Floats) -> Floats:
    """V(S) = sum over L in S of I(L), for all S: (2^n[, K]) -> (2^n[, K]); the inverse of `moebius_transform`."""
    return _transform(dividends, 1.0)


def _transform(table: Floats, sign: float) -> Floats:
    out = np.array(table, dtype=np.float64, order="C")
    for i in range(_players_of(out)):
        pairs = out.reshape(-1, 2, 2**i, int(np.prod(out.shape[1:])))  # a view: axis 1 is player i absent, present
        pairs[:, 1] += sign * pairs[:, 0]
    return out


def _players_of(table: Floats) -> int:
    n = len(table).bit_length() - 1
    if n < 1 or len(table) != 2**n:
        raise ValueError(f"a table of values has 2^n rows for n >= 1 players, however: {len(table)} rows")
    return n


def _as_values(values: Any, n_masks: int) -> Floats:
    if hasattr(values, "detach"):  # a torch tensor, without importing torch
        values = values.detach().cpu().double().numpy()
    out = np.asarray(values, dtype=np.float64)
    if out.ndim not in (1, 2) or len(out) != n_masks:
        raise ValueError(f"a game returns ({n_masks},) or ({n_masks}, K) for {n_masks} masks, however: {out.shape}")
    return out
