"""First weights and children: drawn from a seed, or left open where they are read from a file. No block, no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

Draws = torch.Generator | None
"""Where first values come from. None: they are zeros, and soon something else."""

_OPEN = ContextVar("_OPEN", default=False)


@contextmanager
def left_open() -> Iterator[None]:
    """Networks that are built inside have no random weights or children: those of a file are about to follow."""
    token = _OPEN.set(True)
    try:
        yield
    finally:
        _OPEN.reset(token)


def from_seed(seed: int) -> Draws:
    """The source of a network's first values."""
    return None if _OPEN.get() else torch.Generator().manual_seed(seed)


def uniform(shape: tuple[int, ...], generator: Draws) -> Tensor:
    """Between 0 and 1."""
    return torch.zeros(shape) if generator is None else torch.rand(shape, generator=generator)


def normal(shape: tuple[int, ...], generator: Draws) -> Tensor:
    """Around 0, of deviation 1."""
    return torch.zeros(shape) if generator is None else torch.randn(shape, generator=generator)


def xavier(shape: tuple[int, ...], generator: Draws) -> Tensor:
    """Xavier's uniform weights."""
    empty = torch.zeros(shape)
    return empty if generator is None else nn.init.xavier_uniform_(empty, generator=generator)


def first_children(n_units: int, n_candidates: int, n_children: int | float | None, generator: Draws) -> Tensor:
    """Initial tau (U, D) of the paper's block: +1 for some random candidates of each unit, -1 for all others.

    With None the paper's 10, or all candidates where there are fewer; with an int exactly so many; with a float that
    share of the candidates, at least one, as 0.1 in the authors' code.
    """
    if n_children is None:
        n = min(10, n_candidates)
    elif isinstance(n_children, float):
        if not 0 < n_children <= 1:
            raise ValueError(f"initial_children as a share must lie in (0, 1], however: initial_children={n_children}")
        n = max(1, int(n_children * n_candidates))
    else:
        n = n_children
        if not 0 <= n <= n_candidates:
            raise ValueError(
                f"initial_children must lie between 0 and the {n_candidates} candidates of a block, however: "
                f"initial_children={n}; pass None for the paper's rule, min(10, candidates)"
            )
    ranks = uniform((n_units, n_candidates), generator).argsort(1).argsort(1)
    return torch.where(ranks < n, 1.0, -1.0)


def first_sets(n_units: int, n_players: int, sizes: Sequence[int], generator: Draws) -> Tensor:
    """Initial children of the presence block, (U, P) bool: one unit per variable, then random sets of given sizes.

    The random sets are dealt from shuffled decks of all variables, so that each variable occurs about equally often.
    With fewer units than variables there are no single-variable units, and the sets are made large enough to hold
    every variable once.
    """
    n_single = n_players if n_units >= n_players else 0
    smallest = 1 if n_single else -(-n_players // n_units)
    chosen = torch.zeros(n_units, n_players, dtype=torch.bool)
    if generator is None:
        return chosen
    chosen[:n_single] = torch.eye(n_players, dtype=torch.bool)[:n_single]
    deck: list[int] = []
    for unit in range(n_single, n_units):
        size = min(max(sizes[(unit - n_single) % len(sizes)], smallest), n_players)
        hand: set[int] = set()
        while len(hand) < size:
            deck = deck or torch.randperm(n_players, generator=generator).tolist()
            hand.add(deck.pop())
        chosen[unit, list(hand)] = True
    return chosen
