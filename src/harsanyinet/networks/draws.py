"""First weights: drawn from a seed, or left open where they are read from a file. No block, no network."""

from __future__ import annotations

from collections.abc import Iterator
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


def xavier(shape: tuple[int, int], generator: Draws) -> Tensor:
    """Xavier's uniform weights."""
    empty = torch.zeros(shape)
    return empty if generator is None else nn.init.xavier_uniform_(empty, generator=generator)
