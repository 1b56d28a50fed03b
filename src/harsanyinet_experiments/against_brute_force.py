"""Errors against brute force: the exact values of a game of all columns of a row, or of a few cells of an image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.games import Game, brute_force_shapley
from harsanyinet.peers import row_errors

Values = NDArray[np.float64]
Players = NDArray[np.intp]


def exact_values(games: Iterable[tuple[Game, int]], labels: Iterable[Any]) -> Iterator[Values]:
    """Brute-force Shapley values (n,) of games of n players each, for the output of the label, or for the only one."""
    for (game, n_players), label in zip(games, labels, strict=True):
        values = brute_force_shapley(game, n_players, progress=False)
        yield values if values.ndim == 1 else values[:, label]


def truth(games: Sequence[Game], labels: Iterable[Any], n_players: int) -> Values:
    """The exact values (B, n) of the game of each row, for the logit of its true class."""
    return np.stack(list(exact_values(((game, n_players) for game in games), labels)))


def true_class(values: NDArray[Any], labels: NDArray[Any]) -> Values:
    """Values (B, n, K) of all outputs -> (B, n) of the output of each row's own class; those of one output as such."""
    each = values if values.ndim == 2 else values[np.arange(len(labels)), :, labels]
    return np.asarray(each, dtype=np.float64)


def mean_error(values: NDArray[Any], exact: Values) -> float:
    """The mean over rows of ||phi - phi*|| / sqrt(n)."""
    return float(row_errors(values, exact).mean())


def sub_game(game: Game, players: Players, n_players: int, others: bool) -> Game:
    """The game of a few players, with all others present or all others absent."""

    def play(masks: NDArray[np.bool_]) -> NDArray[Any]:
        whole = np.full((len(masks), n_players), others)
        whole[:, players] = masks
        return np.asarray(game(whole))

    return play


def foreground(strength: NDArray[Any], n: int, seed: int) -> Players:
    """So many cells at random among those above a tenth of the strongest; all of those, if there are no more."""
    cells = np.flatnonzero(strength > 0.1 * strength.max())
    return np.sort(np.random.default_rng(seed).permutation(cells)[:n])


def subgame_errors(
    play: Callable[[int], Game],
    explain: Callable[[int, Players], NDArray[Any]],
    strength: NDArray[Any],
    labels: NDArray[Any],
    *,
    others: bool = True,
    n_players: int = 12,
) -> tuple[float, float]:
    """The mean error on sub-games of foreground cells for the true class, and the one that zeros would have.

    Args:
        play: The game of an image, masks (m, P) -> (m, K).
        explain: The values of some of its players in their sub-game, (n, K).
        strength: (N, P), of all cells of all images.
        labels: (N,).
        others: Whether all other cells are present or absent.
        n_players: How many cells play.
    """
    players = [foreground(of_image, n_players, seed=i) for i, of_image in enumerate(strength)]
    games = ((sub_game(play(i), some, strength.shape[1], others), len(some)) for i, some in enumerate(players))
    errors, of_zero = [], []
    for i, exact in enumerate(exact_values(games, labels)):
        errors.append(row_errors(explain(i, players[i])[:, labels[i]].astype(np.float64), exact))
        of_zero.append(row_errors(np.zeros_like(exact), exact))
    return float(np.mean(errors)), float(np.mean(of_zero))


def sorted_strengths(dividends: NDArray[Any]) -> Values:
    """|dividends| relative to the strongest, in falling order; that of the empty set counts as zero, and is last."""
    sizes = np.abs(dividends)
    sizes[0] = 0.0
    return np.asarray(np.sort(sizes)[::-1] / sizes.max())
