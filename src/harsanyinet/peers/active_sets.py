"""Active sets: which players the modules of a ShapNet's layer read. No weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from numbers import Integral

import numpy as np
import torch
from torch import Generator

MAX_SET = 10
"""The largest active set of a module, which costs 2^10 evaluations."""

Sets = Sequence[Sequence[int]]


def default_sets(n_features: int, *, k: int = 4, max_sets: int = 200, seed: int = 0) -> list[tuple[int, ...]]:
    """The sets of a shallow ShapNet: all singles, all pairs, and up to `max_sets` different random sets of `k`.

    With fewer features than `k` the large sets hold them all. With `k` below 3 there are none.
    """
    sets = [members for size in (1, 2)[:k] for members in combinations(range(n_features), size)]
    size = min(k, n_features)
    if size <= 2:
        return sets
    if comb(n_features, size) <= max_sets:
        return [*sets, *combinations(range(n_features), size)]
    generator = Generator().manual_seed(seed)
    drawn: dict[tuple[int, ...], None] = {}  # in the order of drawing
    while len(drawn) < max_sets:
        drawn[tuple(sorted(torch.randperm(n_features, generator=generator)[:size].tolist()))] = None
    return [*sets, *drawn]


def butterfly_sets(n_features: int, n_layers: int, *, k: int = 2) -> list[list[tuple[int, ...]]]:
    """The sets of each layer in butterfly order: players whose numbers differ in one digit to the base `k`.

    For k = 2 these are the pairs (i, i xor 2^t) of stage t. The number of features is padded to a power of k with dummy
    players, which stay at their reference in every layer and are left out of the sets, since no module notices them.
    The stage of the highest digit comes first, and the stages repeat if there are more layers.

    NOTE[DIFF]: no information passes through a dummy. With a power of k features, as many layers as stages let every
    output see every input; otherwise it takes one more, so that the stage of the highest digit comes twice. With the
    lowest digit first, 10 features would need 7 layers instead of 5.

    Examples:
        >>> butterfly_sets(3, 2)
        [[(0, 2), (1,)], [(0, 1), (2,)]]
    """
    n_stages = 1
    while k**n_stages < n_features:
        n_stages += 1
    layers = []
    for layer in range(n_layers):
        low = k ** ((n_stages - 1 - layer) % n_stages)  # the weight of the digit that varies
        groups = np.arange(k**n_stages).reshape(-1, k, low).transpose(0, 2, 1).reshape(-1, k)
        members = [tuple(int(i) for i in group if i < n_features) for group in groups]
        layers.append([group for group in members if group])
    return layers


def random_partitions(n_features: int, n_layers: int, *, k: int = 4, seed: int = 0) -> list[list[tuple[int, ...]]]:
    """The sets of each layer: all features in random order, dealt into sets of `k`, the last one perhaps smaller."""
    generator = Generator().manual_seed(seed)
    layers = []
    for _ in range(n_layers):
        order = torch.randperm(n_features, generator=generator).tolist()
        layers.append([tuple(sorted(order[start : start + k])) for start in range(0, n_features, k)])
    return layers


def check_size(k: int) -> None:
    """Refuses a size of sets that no module can have."""
    if not isinstance(k, Integral) or not 1 <= k <= MAX_SET:
        raise ValueError(f"k must be an integer from 1 to {MAX_SET}, however: k={k!r}")


def check_sets(sets: Sets, n_features: int, k: int) -> None:
    """Refuses sets that no layer of so many features can have."""
    if len(sets) == 0:
        raise ValueError("sets must hold at least one set, however: there is none")
    for members in sets:
        if not 1 <= len(members) <= k or len(set(members)) < len(members):
            raise ValueError(f"sets must hold 1 to {k} different features each, however: {tuple(members)}")
        if not all(isinstance(i, Integral) and 0 <= i < n_features for i in members):
            raise ValueError(f"sets must hold features from 0 to {n_features - 1}, however: {tuple(members)}")
