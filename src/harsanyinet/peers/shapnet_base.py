"""What all ShapNets share (Wang, Wang, Inouye 2021): the shallow kind, whose values are exact, and the deep kind.

A deeper layer takes the vectors below for independent players, although each already depends on other players.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.networks.base import present_rows
from harsanyinet.peers.patch_layers import ConvShapleyLayer
from harsanyinet.peers.shapley_layers import ShapleyLayer

Norm = Literal["l1", "linf"]
Layer = ShapleyLayer | ConvShapleyLayer


def players_of(rows: Tensor, patch: int) -> Tensor:
    """The channels of the players: columns (B, N) -> (B, N, 1), or cells of images (B, C, H, W) -> (B, P, C * patch^2).

    Cells are squares of pixels, row by row; images are padded with zeros at the bottom and on the right.
    """
    if rows.ndim == 2:
        return rows[:, :, None]
    below, right = (-length % patch for length in rows.shape[2:])
    return F.pixel_unshuffle(F.pad(rows, (0, right, 0, below)), patch).flatten(2).transpose(1, 2)


class ShapNet(nn.Module, ABC):
    """A network whose output is the sum of the last layer's values, plus a constant.

    Args:
        baseline: The values of a row in which everyone is absent, in the shape of a row, float64.
        n_outputs: K.
        layers: From the input on.
        patch: Pixels on a side of a cell, for images.
    """

    def __init__(self, baseline: Tensor, n_outputs: int, layers: Iterable[Layer], patch: int = 1) -> None:
        super().__init__()
        self.n_outputs, self.layers, self.patch = n_outputs, nn.ModuleList(layers), patch
        self.register_buffer("baseline", baseline)  # float64, rounded where it is used
        self.baseline: Tensor
        self.n_players = players_of(baseline[None], patch).shape[1]

    @abstractmethod
    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Predicts, with absent players at their baseline: (B, ...) -> (B, K)."""

    @abstractmethod
    def layer_values(self, x: Tensor, present: Tensor | None = None) -> tuple[Tensor, ...]:
        """The values of every layer, each (B, N, channels); the last ones are the explanation."""

    @abstractmethod
    def constant(self) -> Tensor:
        """The output with every player absent, (K,), with its gradient."""

    @property
    def base(self) -> Tensor:
        """The output with every player absent, (K,)."""
        return self.constant().detach()

    def explain_values(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """The values of the last layer, (B, N, K), which the prediction is the sum of."""
        return self.layer_values(x, present)[-1]

    def penalty(self, x: Tensor, norm: Norm = "l1") -> Tensor:
        """A penalty on the explanations of `x`, (B,), to be added to a loss.

        `"l1"`, the sum of the absolute values, asks for few features. `"linf"`, the largest absolute value over the
        features, summed over the outputs, asks for attributions that are spread out.
        """
        if norm not in get_args(Norm):
            raise ValueError(f"norm must be one of {get_args(Norm)}, however: norm={norm!r}")
        sizes = self.explain_values(x).abs()
        return sizes.sum((1, 2)) if norm == "l1" else sizes.amax(1).sum(1)

    def shapley_layers(self) -> list[Layer]:
        """The layers, from the input on."""
        return list(self.layers)  # type: ignore[arg-type]

    def reference(self) -> Tensor:
        """The references of the first layer, (N, C), in the dtype of the weights."""
        return players_of(self.baseline.to(next(self.parameters()))[None], self.patch)[0]

    def deltas(self, x: Tensor, present: Tensor | None) -> Tensor:
        """The rows minus the baseline, zero where a player is absent, (B, N, C)."""
        shape, dtype = self.baseline.shape, next(self.parameters()).dtype
        if x.shape[1:] != shape or x.ndim == 0:
            wanted = ", ".join(["rows" if len(shape) == 1 else "images", *map(str, shape)])
            raise ValueError(f"x must have the shape ({wanted}), however: shape={tuple(x.shape)}")
        if x.dtype != dtype:
            raise TypeError(f"x must have the dtype of the network, {dtype}, however: {x.dtype}")
        deltas = players_of(x - self.baseline.to(x), self.patch)
        if present is None:
            return deltas
        return torch.where(present_rows(present, len(x), self.n_players)[:, :, None], deltas, 0.0)


class ShallowNet(ShapNet):
    """Layers side by side, each on the rows themselves. The values are exact Shapley values of the outputs."""

    def layer_values(self, x: Tensor, present: Tensor | None = None) -> tuple[Tensor, ...]:
        """The values of the layers, which count as one: (B, N, K)."""
        deltas, reference = self.deltas(x, present), self.reference()
        return (_sum([layer(deltas, reference) for layer in self.shapley_layers()]),)

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Predicts, with absent players at their baseline: (B, ...) -> (B, K); the sum of the explanation.

        In training mode that of the modules themselves, which is as much and spares the 2^k evaluations.
        """
        if not self.training:
            return self.explain_values(x, present).sum(1) + self.constant()
        return self._totals(self.deltas(x, present), self.reference())

    def constant(self) -> Tensor:
        """The sum of all modules with every player absent, (K,)."""
        reference = self.reference()
        return self._totals(torch.zeros_like(reference)[None], reference)[0]

    def _totals(self, deltas: Tensor, reference: Tensor) -> Tensor:
        return _sum([layer.totals(deltas, reference) for layer in self.shapley_layers()])


class DeepNet(ShapNet):
    """Layers one above the other, each on the values below. The explanations are not Shapley values.

    Arguments as in `ShapNet` and `DeepShapNet`.
    """

    def __init__(
        self, baseline: Tensor, n_outputs: int, layers: Iterable[Layer], patch: int = 1, *, residual: bool,
        pruned_share: float = 0.0,
    ) -> None:  # fmt: skip
        if not 0 <= pruned_share < 1:
            raise ValueError(f"pruned_share must lie in [0, 1), however: pruned_share={pruned_share}")
        super().__init__(baseline, n_outputs, layers, patch)
        self.residual, self.pruned_share = residual, pruned_share

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Predicts, with absent players at their baseline: (B, ...) -> (B, K)."""
        return self.explain_values(x, present).sum(1)

    def layer_values(self, x: Tensor, present: Tensor | None = None) -> tuple[Tensor, ...]:
        """The values of every layer, each (B, N, channels); the last ones are the explanation."""
        layers, values = self.shapley_layers(), [self.deltas(x, present)]
        for number, layer in enumerate(layers, 1):
            below = values[-1]
            above = layer(below, self.reference() if number == 1 else None)
            if self.residual and above.shape == below.shape:
                above = above + below
            values.append(_pruned(above, self.pruned_share) if number < len(layers) else above)
        return tuple(values[1:])

    def constant(self) -> Tensor:
        """Zero, (K,): constants are dropped."""
        return torch.zeros(self.n_outputs).to(next(self.parameters()))


def _sum(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(list(parts)).sum(0)  # one layer needs no copy


def _pruned(values: Tensor, share: float) -> Tensor:
    """Zeros for a share of the players of each row, those with the smallest l1 norm: (B, N, C) -> (B, N, C)."""
    n_pruned = int(share * values.shape[1])
    if n_pruned == 0:
        return values
    smallest = values.abs().sum(2).topk(n_pruned, dim=1, largest=False).indices  # (B, n_pruned)
    kept = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device).scatter(1, smallest, False)
    return torch.where(kept[:, :, None], values, 0.0)


def check_counts(**counts: int) -> None:
    """Refuses a count that is no positive integer."""
    for name, count in counts.items():
        if not isinstance(count, Integral) or count < 1:
            raise ValueError(f"{name} must be a positive integer, however: {name}={count!r}")


def check_widths(**widths: Sequence[int]) -> None:
    """Refuses widths that are no positive integers."""
    for name, each in widths.items():
        if not all(isinstance(width, Integral) and width >= 1 for width in each):
            raise ValueError(f"{name} must hold positive integers, however: {name}={each!r}")
