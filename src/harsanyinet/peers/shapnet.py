"""ShapNets (Wang, Wang, Inouye 2021): networks whose layers hand on Shapley values. No training, no images.

A Shapley module is a small function f of at most k players. It is evaluated on all 2^k mixtures of the players' values
and their references, and a fixed matrix turns the outputs into one vector per player: the Shapley values of f. A layer
adds up the vectors of many modules. With one layer the result is exact. With more it is not: a deeper layer takes the
vectors below for independent players, although each of them already depends on other players.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from math import comb, factorial
from numbers import Integral
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor, nn

from harsanyinet.games import all_masks

MAX_SET = 10
"""The largest active set of a module, which costs 2^10 evaluations."""

Sets = Sequence[Sequence[int]]
Connections = Literal["butterfly", "random"]
Norm = Literal["l1", "linf"]


# ----------------------------------------------------------------------------------------------- the Shapley transform


@cache
def _matrix(k: int) -> NDArray[np.float64]:
    masks = all_masks(k).T  # (k, 2^k)
    sizes = masks.sum(0)
    weights = np.array([factorial(s) * factorial(k - s - 1) / factorial(k) for s in range(k)])
    matrix: NDArray[np.float64] = np.where(masks, weights[sizes - 1], -weights[np.minimum(sizes, k - 1)])
    return matrix


def shapley_matrix(k: int) -> Tensor:
    """The matrix that turns the values of a game of `k` players on all coalitions into its Shapley values.

    Row i has w(s - 1) at the coalitions of size s with player i, and -w(s) at those without, where
    w(s) = s! (k - s - 1)! / k!.

    Returns:
        (k, 2^k) in float64; player i is in the coalition of column c if bit i of c is set.

    Examples:
        >>> shapley_matrix(2).tolist()
        [[-0.5, 0.5, -0.5, 0.5], [-0.5, -0.5, 0.5, 0.5]]
    """
    _check_size(k)
    return torch.tensor(_matrix(k))


def coalition_matrix(k: int) -> Tensor:
    """All coalitions of `k` players, (2^k, k) float64 of zeros and ones, in the order of `shapley_matrix`."""
    _check_size(k)
    return torch.tensor(all_masks(k), dtype=torch.float64)


def shapley_transform(outputs: Tensor) -> Tensor:
    """Shapley values of functions that were evaluated on all coalitions of their k players.

    The matrix is made in the dtype of the outputs at each call. A stored one would be rounded by `.float()` for good.

    Shape:
        - outputs: (..., 2^k, C), in the order of `coalition_matrix`; returns (..., k, C).
    """
    n_coalitions = outputs.shape[-2] if outputs.ndim > 1 else 0
    k = n_coalitions.bit_length() - 1
    if not 1 <= k <= MAX_SET or n_coalitions != 2**k:
        shape = tuple(outputs.shape)
        raise ValueError(
            f"outputs must have the shape (..., 2^k, C) with k from 1 to {MAX_SET}, however: shape={shape}"
        )
    return torch.matmul(shapley_matrix(k).to(outputs), outputs)


# ------------------------------------------------------------------------------------------------------------- layers


class ShapleyModules(nn.Module):
    """M multilayer perceptrons with ReLU, each on its own set of s players, evaluated together.

    The first linear map is taken once per player, not once per coalition: its value at a mixture is its value at the
    reference plus the contributions of the players present.

    Args:
        sets: The players of each module, (M, s).
        d_in: Channels of a player below.
        d_out: Channels of a player above.
        hidden: Hidden widths of each perceptron.
        constants: Whether the last linear map has a bias. It cancels in every Shapley value.
        generator: Source of the initial weights.
    """

    def __init__(
        self, sets: Tensor, d_in: int, d_out: int, *, hidden: Sequence[int], constants: bool, generator: Generator
    ) -> None:
        super().__init__()
        self.register_buffer("sets", sets)
        self.sets: Tensor
        self.widths = (d_in, *hidden, d_out)
        n_modules, size = sets.shape
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for step, (below, above) in enumerate(zip(self.widths[:-1], self.widths[1:], strict=True)):
            shape = (n_modules, size, below, above) if step == 0 else (n_modules, below, above)
            bound = 1 / (size * below if step == 0 else below) ** 0.5
            self.weights.append(nn.Parameter(_uniform(shape, generator) * bound))
            if constants or step < len(hidden):  # flat, so that weight decay leaves biases alone
                self.biases.append(nn.Parameter(_uniform((n_modules * above,), generator) * bound))

    @property
    def multiply_adds(self) -> int:
        """Multiplications in the matrix products of one row."""
        (n_modules, size), (d_in, first, *rest) = self.sets.shape, self.widths
        inner = sum(a * b for a, b in zip((first, *rest)[:-1], rest, strict=True))
        per_coalition = size * first + inner + size * self.widths[-1]  # mixing, the perceptron, the Shapley transform
        return int(n_modules * (size * d_in * first + 2**size * per_coalition))

    def forward(self, deltas: Tensor, reference: Tensor | None) -> Tensor:
        """Shapley values of all modules: (N, B, C) of N players and (N, C) -> (M, s, B, C')."""
        n_modules, size = self.sets.shape
        n_rows = deltas.shape[1]
        parts = deltas[self.sets] @ self.weights[0]  # (M, s, B, H), the contribution of each player
        coalitions = coalition_matrix(size).to(parts)  # (2^s, s)
        mixed = torch.matmul(coalitions, parts.flatten(2)).view(n_modules, 2**size * n_rows, self.widths[1])
        outputs = self._after_first_(mixed.add_(self._at_reference(reference)))  # (M, 2^s * B, C')
        values = shapley_transform(outputs.view(n_modules, 2**size, n_rows * self.widths[-1]))
        return values.view(n_modules, size, n_rows, self.widths[-1])

    def constants(self, reference: Tensor | None) -> Tensor:
        """The sum of f(r) over all modules, (C',)."""
        return self._after_first_(self._at_reference(reference).clone()).sum((0, 1))

    def totals(self, deltas: Tensor, reference: Tensor | None) -> Tensor:
        """The sum of f(x) over all modules, without the other coalitions: (N, B, C) -> (B, C')."""
        parts = deltas[self.sets] @ self.weights[0]  # (M, s, B, H)
        return self._after_first_(parts.sum(1) + self._at_reference(reference)).sum(0)

    def _at_reference(self, reference: Tensor | None) -> Tensor:
        """The first linear map with every player absent, (M, 1, H)."""
        weight = self.weights[0]
        n_modules, _, _, width = weight.shape
        bias = self.biases[0] if len(self.biases) else weight.new_zeros(n_modules * width)
        origin: Tensor = bias.view(n_modules, 1, width)
        if reference is not None:
            origin = origin + reference[self.sets].flatten(1)[:, None] @ weight.flatten(1, 2)
        return origin

    def _after_first_(self, h: Tensor) -> Tensor:
        """What follows the first linear map, (M, R, H) -> (M, R, C'); overwrites h."""
        for step in range(1, len(self.weights)):
            h = torch.bmm(h.relu_(), self.weights[step])  # in place: fresh memory costs more than the arithmetic
            if step < len(self.biases):
                h = h.add_(self.biases[step].view(len(h), 1, -1))
        return h


class ShapleyLayer(nn.Module):
    """Z_i = the sum of phi_i(f_j) over all modules j whose set holds player i. Modules of equal size run together.

    Args:
        n_players: N.
        sets: The players of each module.
        d_in: Channels of a player below.
        d_out: Channels of a player above.
        hidden: Hidden widths of the inner perceptrons.
        constants: Whether the constants f_j(r) are wanted, that is, whether the last linear maps have a bias.
        generator: Source of the initial weights.

    Shape:
        - deltas: (B, N, C), the values below minus their references; reference: (N, C), None for zeros
        - returns (B, N, C')
    """

    def __init__(
        self,
        n_players: int,
        sets: Sets,
        d_in: int,
        d_out: int,
        *,
        hidden: Sequence[int],
        constants: bool,
        generator: Generator,
    ) -> None:
        super().__init__()
        self.n_players, self.d_in, self.d_out = n_players, d_in, d_out
        sizes = sorted({len(members) for members in sets})
        self.groups = nn.ModuleList(
            ShapleyModules(
                torch.tensor([list(members) for members in sets if len(members) == size]),
                d_in,
                d_out,
                hidden=hidden,
                constants=constants,
                generator=generator,
            )
            for size in sizes
        )

    @property
    def sets(self) -> list[tuple[int, ...]]:
        """The active sets, by size."""
        return [tuple(members) for group in self._groups() for members in group.sets.tolist()]

    @property
    def multiply_adds(self) -> int:
        """Multiplications in the matrix products of one row."""
        return sum(group.multiply_adds for group in self._groups())

    def forward(self, deltas: Tensor, reference: Tensor | None = None) -> Tensor:  # noqa: D102
        step = self._rows_at_once()
        if not torch.is_grad_enabled() and len(deltas) > step:
            return torch.cat([self(deltas[start : start + step], reference) for start in range(0, len(deltas), step)])
        by_player = deltas.transpose(0, 1)  # (N, B, C)
        total = deltas.new_zeros(self.n_players, len(deltas), self.d_out)
        for group in self._groups():  # one for each size of set
            total = total.index_add(0, group.sets.flatten(), group(by_player, reference).flatten(0, 1))
        return total.transpose(0, 1)

    def constants(self, reference: Tensor | None = None) -> Tensor:
        """The sum of f_j(r) over all modules, (C',)."""
        return torch.stack([group.constants(reference) for group in self._groups()]).sum(0)

    def totals(self, deltas: Tensor, reference: Tensor | None = None) -> Tensor:
        """The sum of f_j(x) over all modules, (B, C'): that of all values and constants, at a fraction of the cost."""
        by_player = deltas.transpose(0, 1)  # (N, B, C)
        return torch.stack([group.totals(by_player, reference) for group in self._groups()]).sum(0)

    def _rows_at_once(self) -> int:
        """Rows whose mixtures take some tens of megabytes; without gradients, nothing is kept from one to the next."""
        numbers = [len(group.sets) * 2 ** group.sets.shape[1] * max(group.widths[1:]) for group in self._groups()]
        return max(1, 2**22 // int(max(numbers)))

    def _groups(self) -> list[ShapleyModules]:
        return [group for group in self.groups if isinstance(group, ShapleyModules)]


# -------------------------------------------------------------------------------------------------------- active sets


def default_sets(n_features: int, *, k: int = 4, max_sets: int = 200, seed: int = 0) -> list[tuple[int, ...]]:
    """The sets of a shallow ShapNet: all singles, all pairs, and up to `max_sets` different random sets of `k`.

    With fewer features than `k` the large sets hold them all. With `k` below 3 there are none.
    """
    sets: list[tuple[int, ...]] = [(i,) for i in range(n_features)]
    if k >= 2:
        sets.extend(combinations(range(n_features), 2))
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
    players, which stay at their reference in every layer. A module therefore never notices them, and they are left out
    of its set. The stage of the highest digit comes first, and the stages repeat if there are more layers.

    NOTE[DIFF]: no information passes through a dummy. With a power of k features, as many layers as stages let every
    output see every input. Otherwise it takes one layer more, so that the stage of the highest digit comes twice.
    With the lowest digit first, 10 features would need 7 layers instead of 5.

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


# ----------------------------------------------------------------------------------------------------------- networks


def explanation_penalty(values: Tensor, norm: Norm) -> Tensor:
    """A penalty on explanations, one number per row, to be added to a loss.

    `"l1"`, the sum of the absolute values, asks for few features. `"linf"`, the largest absolute value over the
    features, summed over the outputs, asks for attributions that are spread out.

    Shape:
        - values: (B, N, K); returns (B,).
    """
    if norm not in get_args(Norm):
        raise ValueError(f"norm must be one of {get_args(Norm)}, however: norm={norm!r}")
    sizes = values.abs()
    return sizes.sum((1, 2)) if norm == "l1" else sizes.amax(1).sum(1)


class _ShapNet(nn.Module, ABC):
    """What the two networks share: the output is the sum of the last layer's values, plus a constant."""

    def __init__(self, n_features: int, n_outputs: int, baseline: ArrayLike | Tensor | None, layers: nn.ModuleList):
        super().__init__()
        self.n_features, self.n_outputs, self.layers = n_features, n_outputs, layers
        self.register_buffer("baseline", _as_baseline(baseline, n_features))  # float64, rounded where it is used
        self.baseline: Tensor

    @abstractmethod
    def layer_values(self, x: Tensor, present: Tensor | None = None) -> tuple[Tensor, ...]:
        """The values of every layer, each (B, n_features, channels)."""

    @abstractmethod
    def _base(self) -> Tensor:
        """The output with every feature absent, (K,)."""

    @property
    def base(self) -> Tensor:
        """The output with every feature absent, (K,)."""
        return self._base().detach()

    @property
    def n_parameters(self) -> int:
        """How many numbers are trained."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    @property
    def multiply_adds(self) -> int:
        """Multiplications in the matrix products of one row that is predicted and explained at once.

        The map of the references and the constants are computed once per call and not counted.
        """
        return sum(layer.multiply_adds for layer in self._layers())

    def explain_values(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """The values of the last layer, (B, n_features, K), which the prediction is the sum of."""
        return self.layer_values(x, present)[-1]

    def penalty(self, x: Tensor, norm: Norm = "l1") -> Tensor:
        """`explanation_penalty` of the explanations of `x`, (B,)."""
        return explanation_penalty(self.explain_values(x), norm)

    def _layers(self) -> list[ShapleyLayer]:
        return [layer for layer in self.layers if isinstance(layer, ShapleyLayer)]

    def _reference(self) -> Tensor:
        """The references of the first layer, (n_features, 1), in the dtype of the weights."""
        return self.baseline.to(next(self.parameters()))[:, None]

    def _deltas(self, x: Tensor, present: Tensor | None) -> Tensor:
        """The input minus the baseline, zero where a feature is absent, (B, n_features, 1)."""
        n, dtype = self.n_features, next(self.parameters()).dtype
        if x.ndim != 2 or x.shape[1] != n:
            raise ValueError(f"x must have the shape (rows, {n}), however: shape={tuple(x.shape)}")
        if x.dtype != dtype:
            raise TypeError(f"x must have the dtype of the network, {dtype}, however: {x.dtype}")
        deltas = x - self.baseline.to(x)
        if present is not None:
            if present.dtype != torch.bool or present.ndim not in (1, 2) or present.shape[-1] != n:
                found = f"shape={tuple(present.shape)}, dtype={present.dtype}"
                raise ValueError(f"present must be a bool mask with {n} columns, however: {found}")
            deltas = torch.where(present, deltas, 0.0)
        return deltas[:, :, None]


class ShallowShapNet(_ShapNet):
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
        _check_counts(n_features=n_features, n_outputs=n_outputs)
        _check_size(k)
        _check_widths(hidden=hidden)
        if not isinstance(max_sets, Integral) or max_sets < 0:
            raise ValueError(f"max_sets must be an integer of at least 0, however: max_sets={max_sets!r}")
        if sets is None:
            sets = default_sets(n_features, k=k, max_sets=max_sets, seed=seed)
        _check_sets(sets, n_features, k)
        generator = Generator().manual_seed(seed)
        layer = ShapleyLayer(n_features, sets, 1, n_outputs, hidden=hidden, constants=True, generator=generator)
        super().__init__(n_features, n_outputs, baseline, nn.ModuleList([layer]))

    def layer_values(self, x: Tensor, present: Tensor | None = None) -> tuple[Tensor, ...]:
        """The values of the only layer, (B, n_features, K)."""
        deltas = self._deltas(x, present)
        return (self._layers()[0](deltas, self._reference()),)

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Predicts, with absent features at their baseline: (B, n_features) -> (B, K).

        In training mode it adds up the modules themselves, which is the same number up to rounding and spares the 2^k
        evaluations. In evaluation mode the prediction is the sum of the explanation.
        """
        if self.training:
            return self._layers()[0].totals(self._deltas(x, present), self._reference())
        return self.explain_values(x, present).sum(1) + self._base()

    def _base(self) -> Tensor:
        return self._layers()[0].constants(self._reference())


class DeepShapNet(_ShapNet):
    """Layers of Shapley modules, each on the values of the layer below. Its explanations are not Shapley values.

    They add up to the output (local accuracy), and a feature at its baseline gets zero (missingness). Exact they are
    not: a layer takes the values below for players that come and go one by one, although they come from sets of
    features. In deeper layers an absent player is zero, and the constants f_j(0) are dropped.

    Args:
        n_features: Number of columns, each of them a player.
        n_outputs: K, for example one logit per class.
        channels: Widths between the layers; there is one layer more than widths.
        hidden: Width of the one hidden layer of the inner perceptrons.
        k: Size of the active sets; None for 2 with the butterfly, 4 with random sets, and 10 with sets of your own.
        connections: ``"butterfly"`` for `butterfly_sets`, ``"random"`` for `random_partitions`, or the sets of each
            layer.
        residual: Whether to add the values below a layer to its own, where the widths agree.
        pruned_share: Share of the features, rounded down, whose values become zero after every layer but the last: in
            each row those with the smallest sum of absolute values. A zero stays a zero in the layers above.
        baseline: The value of a feature that is absent, (n_features,); zero by default.
        seed: For the random sets and the initial weights.

    Shape:
        - x: (B, n_features); present: (B, n_features) bool, or (n_features,); returns (B, K)

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
        _check_counts(n_features=n_features, n_outputs=n_outputs, hidden=hidden)
        _check_widths(channels=channels)
        if k is not None:
            _check_size(k)
        if not 0 <= pruned_share < 1:
            raise ValueError(f"pruned_share must lie in [0, 1), however: pruned_share={pruned_share}")
        widths = (1, *channels, n_outputs)
        n_layers = len(widths) - 1
        if isinstance(connections, str) and connections not in get_args(Connections):
            found = f"connections={connections!r}"
            raise ValueError(f"connections must be one of {get_args(Connections)} or sets per layer, however: {found}")
        layers: Sequence[Sets]
        if connections == "butterfly":
            if k == 1:
                raise ValueError(f"k must be at least 2 in a butterfly, however: k={k}")
            layers = butterfly_sets(n_features, n_layers, k=k or 2)
        elif connections == "random":
            layers = random_partitions(n_features, n_layers, k=k or 4, seed=seed)
        else:
            layers = connections
        if len(layers) != n_layers:
            found = f"{len(layers)} lists of sets"
            raise ValueError(f"connections must hold sets for each of the {n_layers} layers, however: {found}")
        for sets in layers:
            _check_sets(sets, n_features, k or MAX_SET)
        generator = Generator().manual_seed(seed)
        modules = nn.ModuleList(
            ShapleyLayer(n_features, sets, below, above, hidden=(hidden,), constants=False, generator=generator)
            for sets, below, above in zip(layers, widths[:-1], widths[1:], strict=True)
        )
        super().__init__(n_features, n_outputs, baseline, modules)
        self.residual, self.pruned_share = residual, pruned_share

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Predicts, with absent features at their baseline: (B, n_features) -> (B, K)."""
        return self.explain_values(x, present).sum(1)

    def reach(self) -> Tensor:
        """(n_features, n_features) bool: whether the last value of the row's feature can depend on the column's."""
        reach = torch.eye(self.n_features, dtype=torch.bool)
        for layer in self._layers():
            above = torch.zeros_like(reach)
            if self.residual and layer.d_in == layer.d_out:
                above |= reach
            for members in map(list, layer.sets):
                above[members] |= reach[members].any(0)
            reach = above
        return reach

    def layer_values(self, x: Tensor, present: Tensor | None = None) -> tuple[Tensor, ...]:
        """The values of every layer, each (B, n_features, channels); the last ones are the explanation."""
        below, values = self._deltas(x, present), []
        layers = self._layers()
        for number, layer in enumerate(layers):
            above: Tensor = layer(below, self._reference() if number == 0 else None)
            if self.residual and above.shape == below.shape:
                above = above + below
            if number < len(layers) - 1:
                above = _pruned(above, self.pruned_share)
            values.append(above)
            below = above
        return tuple(values)

    def _base(self) -> Tensor:
        return torch.zeros(self.n_outputs).to(self._reference())


def _pruned(values: Tensor, share: float) -> Tensor:
    """Zeros for a share of the players of each row, those with the smallest l1 norm: (B, N, C) -> (B, N, C)."""
    n_pruned = int(share * values.shape[1])
    if n_pruned == 0:
        return values
    smallest = values.abs().sum(2).topk(n_pruned, dim=1, largest=False).indices  # (B, n_pruned)
    kept = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device).scatter(1, smallest, False)
    return torch.where(kept[:, :, None], values, 0.0)


def _uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator) * 2 - 1


def _as_baseline(baseline: ArrayLike | Tensor | None, n_features: int) -> Tensor:
    if baseline is None:
        return torch.zeros(n_features, dtype=torch.float64)
    out = torch.as_tensor(baseline, dtype=torch.float64).detach().clone()
    if out.shape != (n_features,) or not bool(out.isfinite().all()):
        raise ValueError(f"baseline must hold {n_features} finite numbers, however: shape {tuple(out.shape)}: {out}")
    return out


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if not isinstance(count, Integral) or count < 1:
            raise ValueError(f"{name} must be a positive integer, however: {name}={count!r}")


def _check_widths(**widths: Sequence[int]) -> None:
    for name, each in widths.items():
        if not all(isinstance(width, Integral) and width >= 1 for width in each):
            raise ValueError(f"{name} must hold positive integers, however: {name}={each!r}")


def _check_size(k: int) -> None:
    if not isinstance(k, Integral) or not 1 <= k <= MAX_SET:
        raise ValueError(f"k must be an integer from 1 to {MAX_SET}, however: k={k!r}")


def _check_sets(sets: Sets, n_features: int, k: int) -> None:
    if len(sets) == 0:
        raise ValueError("sets must hold at least one set, however: there is none")
    for members in sets:
        if not 1 <= len(members) <= k or len(set(members)) < len(members):
            raise ValueError(f"sets must hold 1 to {k} different features each, however: {tuple(members)}")
        if not all(isinstance(i, Integral) and 0 <= i < n_features for i in members):
            raise ValueError(f"sets must hold features from 0 to {n_features - 1}, however: {tuple(members)}")
