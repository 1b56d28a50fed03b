"""ShapNets (Wang, Wang, Inouye 2021) for tables: which columns their modules read, and the networks. No training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, count, pairwise
from math import comb
from numbers import Integral
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from harsanyinet.peers.shapley_layers import Sets, ShapleyLayer
from harsanyinet.peers.shapnet_base import DeepNet, ShallowNet, check_counts, check_widths

Connections = Literal["butterfly", "random"]
MAX_SET = 10
"""The largest active set of a module, which costs 2^10 evaluations."""


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
    n_stages = next(stages for stages in count(1) if k**stages >= n_features)
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


class ShallowShapNet(ShallowNet):
    """One layer of Shapley modules. Its values are exact Shapley values of its outputs.

    It holds no interaction of more than `k` features.

    Args:
        n_features: Number of columns, each of them a player.
        n_outputs: K, for example one logit per class.
        sets: The active sets of the modules, at most `k` features each; None for `default_sets`.
        max_sets: How many random sets of `k` features, at most; only used without `sets`.
        k: Size of the largest sets.
        hidden: Hidden widths of the inner perceptrons.
        baseline: The value of a feature that is absent, (n_features,); zero by default.
        seed: For the sets and the initial weights.

    Shape:
        - x: (B, n_features); present: (B, n_features) bool, or (n_features,); returns (B, K)

    Examples:
        >>> net = ShallowShapNet(5, 2).double().eval()
        >>> x = torch.linspace(-1, 1, 15, dtype=torch.float64).view(3, 5)
        >>> torch.allclose(net.explain_values(x).sum(1) + net.base, net(x))
        True
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        *,
        sets: Sets | None = None,
        max_sets: int = 200,
        k: int = 4,
        hidden: Sequence[int] = (32, 32),
        baseline: ArrayLike | Tensor | None = None,
        seed: int = 0,
    ) -> None:
        check_counts(n_features=n_features, n_outputs=n_outputs)
        check_size(k)
        check_widths(hidden=hidden)
        if not isinstance(max_sets, Integral) or max_sets < 0:
            raise ValueError(f"max_sets must be an integer of at least 0, however: max_sets={max_sets!r}")
        if sets is None:
            sets = default_sets(n_features, k=k, max_sets=max_sets, seed=seed)
        check_sets(sets, n_features, k)
        generator = Generator().manual_seed(seed)
        layer = ShapleyLayer(sets, 1, n_outputs, hidden=hidden, constants=True, generator=generator)
        super().__init__(_as_baseline(baseline, n_features), n_outputs, [layer])


class DeepShapNet(DeepNet):
    """Layers of Shapley modules, each on the values of the layer below. Its explanations are not Shapley values.

    They add up to the output (local accuracy), and a feature at its baseline gets zero (missingness). Exact they are
    not: a layer takes the values below for players that come and go one by one, although they come from sets of
    features. In deeper layers an absent player is zero, and the constants f_j(0) are dropped.

    Args:
        channels: Widths between the layers; there is one layer more than widths.
        hidden: Width of the one hidden layer of the inner perceptrons.
        k: Size of the active sets; None for 2 with the butterfly, 4 with random sets, and 10 with sets of your own.
        connections: ``"butterfly"`` for `butterfly_sets`, ``"random"`` for `random_partitions`, or the sets of each
            layer.
        residual: Whether to add the values below a layer to its own, where the widths agree.
        pruned_share: Share of the features, rounded down, whose values become zero after every layer but the last: in
            each row those with the smallest sum of absolute values. A zero stays a zero in the layers above.
        seed: For the random sets and the initial weights.

    Other arguments and shapes as in `ShallowShapNet`.

    Examples:
        >>> net = DeepShapNet(8, 2)
        >>> [tuple(z.shape) for z in net.layer_values(torch.ones(3, 8))]
        [(3, 8, 32), (3, 8, 32), (3, 8, 32), (3, 8, 2)]
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        *,
        channels: Sequence[int] = (32, 32, 32),
        hidden: int = 64,
        k: int | None = None,
        connections: Connections | Sequence[Sets] = "butterfly",
        residual: bool = True,
        pruned_share: float = 0.0,
        baseline: ArrayLike | Tensor | None = None,
        seed: int = 0,
    ) -> None:
        check_counts(n_features=n_features, n_outputs=n_outputs, hidden=hidden)
        check_widths(channels=channels)
        if k is not None:
            check_size(k)
        sets = _sets_of_layers(connections, n_features, len(channels) + 1, k, seed)
        generator = Generator().manual_seed(seed)
        layers = [
            ShapleyLayer(each, below, above, hidden=(hidden,), constants=False, generator=generator)
            for each, (below, above) in zip(sets, pairwise((1, *channels, n_outputs)), strict=True)
        ]
        baseline = _as_baseline(baseline, n_features)
        super().__init__(baseline, n_outputs, layers, residual=residual, pruned_share=pruned_share)


def _sets_of_layers(
    connections: Connections | Sequence[Sets], n_features: int, n_layers: int, k: int | None, seed: int
) -> Sequence[Sets]:
    layers: Sequence[Sets]
    if connections == "butterfly":
        if k == 1:
            raise ValueError(f"k must be at least 2 in a butterfly, however: k={k}")
        layers = butterfly_sets(n_features, n_layers, k=k or 2)
    elif connections == "random":
        layers = random_partitions(n_features, n_layers, k=k or 4, seed=seed)
    elif isinstance(connections, str):
        given = f"connections={connections!r}"
        raise ValueError(f"connections must be one of {get_args(Connections)} or sets per layer, however: {given}")
    else:
        layers = connections
    if len(layers) != n_layers:
        given = f"{len(layers)} lists of sets"
        raise ValueError(f"connections must hold sets for each of the {n_layers} layers, however: {given}")
    for sets in layers:
        check_sets(sets, n_features, k or MAX_SET)
    return layers


def _as_baseline(baseline: ArrayLike | Tensor | None, n_features: int) -> Tensor:
    given = [0.0] * n_features if baseline is None else baseline
    out = torch.as_tensor(given, dtype=torch.float64).detach().clone()
    if out.shape != (n_features,) or not bool(out.isfinite().all()):
        raise ValueError(f"baseline must hold {n_features} finite numbers, however: shape {tuple(out.shape)}: {out}")
    return out
