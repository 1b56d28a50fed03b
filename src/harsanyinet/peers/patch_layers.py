"""Shapley modules in place of convolutions: the same small function at every location of a 2x2 patch. No network.

A module is a perceptron on the four cells of a 2x2 patch whose rows and columns are a dilation apart; a cell with all
its channels is one player. A layer places it at every location that holds a cell of the image, and adds up what a cell
gets from its four patches. Cells outside the image are players at their reference, who get nothing and change nothing:
the modules at the border are games of two players, or of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from harsanyinet.peers.shapley_layers import coalition_matrix, shapley_matrix, shapley_transform, uniform

CHUNK = 2**19
"""Mixtures are made for some rows at a time, about so many numbers: fresh memory costs more than the arithmetic."""


class Tap(NamedTuple):
    """One of the four corners of a patch, and the cells that it visits in the patches of a region."""

    corner: int
    rows: slice
    columns: slice


Regions = list[list[Tap]]


def patch_regions(cells: tuple[int, int], dilation: int) -> Regions:
    """The locations of a 2x2 patch, by which of its corners lie inside the image.

    The locations of a region form a rectangle. Each corner visits every cell once; patches without a cell are left out.

    Examples:
        >>> [[(tap.corner, tap.columns.start) for tap in taps] for taps in patch_regions((1, 2), 1)]
        [[(0, 0), (1, 1)], [(0, 1)], [(1, 0)], [(2, 0), (3, 1)], [(2, 1)], [(3, 0)]]
    """
    sides = [_spans(length, dilation) for length in cells]
    return [[Tap(2 * r + c, rows, columns) for (r, rows), (c, columns) in product(*ends)] for ends in product(*sides)]


def _spans(length: int, dilation: int) -> list[list[tuple[int, slice]]]:
    """The same along one side: both ends of a patch inside, only the first, only the second."""
    n_both = max(0, length - dilation)
    both = [(0, slice(0, n_both)), (1, slice(length - n_both, length))]
    return [*([both] if n_both else []), [(0, slice(n_both, length))], [(1, slice(0, length - n_both))]]


def patch_sets(cells: tuple[int, int], dilation: int) -> list[tuple[int, ...]]:
    """The players of each patch, numbered row by row: four of them, at the border two or one.

    Examples:
        >>> patch_sets((1, 2), 1)
        [(0, 1), (1,), (0,), (0, 1), (1,), (0,)]
    """
    grid = np.arange(prod(cells)).reshape(cells)
    corners = [
        [grid[tap.rows, tap.columns].flatten().tolist() for tap in taps] for taps in patch_regions(cells, dilation)
    ]
    return [members for region in corners for members in zip(*region, strict=True)]


class _HiddenValues(torch.autograd.Function):
    """Shapley values of the hidden units of all patches, added up in each cell.

    A few rows at a time. For the gradient the mixtures are made again: fresh memory costs more than the arithmetic, and
    autograd would fill a map with zeros for every slice.

    Shape:
        - maps: (B, H, W, 4, U), what a cell adds to the hidden units of a patch as each of its corners;
          origins: for each region (h, w, U), the hidden units before ReLU when nobody is there; returns (B, H, W, U)
    """

    @staticmethod
    def forward(ctx: Any, maps: Tensor, regions: Regions, *origins: Tensor) -> Tensor:
        ctx.save_for_backward(maps, *origins)
        ctx.regions = regions
        total = torch.zeros_like(maps[:, :, :, 0])
        for taps, origin in zip(regions, origins, strict=True):
            mixing = _mixing(len(taps)).to(maps)
            for rows in _chunks(len(maps), len(mixing) * origin.numel()):
                values = shapley_transform(_mixtures(maps[rows], taps, origin, mixing).relu_())
                for tap, each in zip(taps, values, strict=True):
                    at = total[rows, tap.rows, tap.columns]
                    at += each.view_as(at)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        maps, *origins = ctx.saved_tensors
        grad_maps, grad_origins = torch.empty_like(maps), [torch.zeros_like(origin) for origin in origins]
        for taps, origin, grad_origin in zip(ctx.regions, origins, grad_origins, strict=True):
            mixing, transform = _mixing(len(taps)).to(maps), shapley_matrix(len(taps)).to(maps)
            for rows in _chunks(len(maps), len(mixing) * origin.numel()):
                active = _mixtures(maps[rows], taps, origin, mixing).gt_(0)  # (2^s, N), the derivative of ReLU
                above = torch.stack([grads[0][rows, tap.rows, tap.columns] for tap in taps])  # (s, b, h, w, U)
                mixed = (transform.T @ above.flatten(1)).mul_(active)
                *below, at_origin = (mixing.T @ mixed).view(-1, *above.shape[1:])
                for tap, each in zip(taps, below, strict=True):
                    grad_maps[rows, tap.rows, tap.columns, tap.corner] = each  # a corner visits a cell only once
                grad_origin += at_origin.sum(0)
        return grad_maps, None, *grad_origins


def _mixing(size: int) -> Tensor:
    """The coalitions of `size` players and of somebody who is always there, (2^size, size + 1)."""
    return F.pad(coalition_matrix(size), (0, 1), value=1.0)


def _mixtures(maps: Tensor, taps: Sequence[Tap], origin: Tensor, mixing: Tensor) -> Tensor:
    """Hidden units before ReLU for each coalition of the corners, in all patches of a region: (2^s, b * h * w * U)."""
    parts = [maps[:, tap.rows, tap.columns, tap.corner] for tap in taps]
    parts.append(origin.expand_as(parts[0]))
    return mixing @ torch.stack(parts).flatten(1)


def _chunks(n_rows: int, numbers: int) -> Iterator[slice]:
    """Slices of as many rows as hold about `CHUNK` numbers, with so many numbers in each row."""
    step = max(1, CHUNK // numbers)
    return (slice(start, start + step) for start in range(0, n_rows, step))


class ConvShapleyLayer(nn.Module):
    """One perceptron at all locations of a 2x2 patch: Z_i = the sum of what cell i gets from its patches.

    The perceptron has one hidden layer with ReLU. Its first linear map is taken once per cell and corner, not once per
    coalition; its second one once per cell, after the Shapley transform and the sum over patches.

    NOTE[DIFF]: the inner function of the authors' example is one linear map and LeakyReLU. A second linear map costs
    little here, and with two hidden units for each channel above it holds that function too.

    Args:
        cells: Height and width of the map.
        dilation: Distance between the two rows and between the two columns of a patch.
        gain: Factor of the initial weights and bias of the second linear map.

    Other arguments as in `ShapleyLayer`; the players are the cells.

    Shape:
        - deltas: (B, P, C), the values below minus their references; reference: (P, C), None for zeros
        - returns (B, P, C')
    """

    def __init__(
        self,
        cells: tuple[int, int],
        dilation: int,
        d_in: int,
        d_out: int,
        *,
        hidden: int,
        constants: bool,
        gain: float = 1.0,
        generator: Generator,
    ) -> None:
        super().__init__()
        self.cells, self.d_in, self.d_out = cells, d_in, d_out
        self.dilations = (min(dilation, cells[0]), min(dilation, cells[1]))  # beyond that, nothing changes
        self.regions = patch_regions(cells, dilation)
        below, within = (4 * d_in) ** -0.5, gain * hidden**-0.5
        self.kernel = nn.Parameter(uniform((hidden, d_in, 2, 2), generator) * below)
        self.bias = nn.Parameter(uniform((hidden,), generator) * below)
        self.readout = nn.Parameter(uniform((hidden, d_out), generator) * within)
        self.constant = nn.Parameter(uniform((d_out,), generator) * within) if constants else None

    def forward(self, deltas: Tensor, reference: Tensor | None = None) -> Tensor:  # noqa: D102
        step = max(1, 8 * CHUNK // (prod(self.cells) * 4 * len(self.bias)))
        if not torch.is_grad_enabled() and len(deltas) > step:
            return torch.cat([self(rows, reference) for rows in torch.split(deltas, step)])
        weight = self.kernel.permute(1, 2, 3, 0).flatten(1)  # (C, 4 * U)
        shape = (*self.cells, 4, len(self.bias))
        maps = (deltas @ weight).view(len(deltas), *shape)
        if reference is None:
            reference = deltas.new_zeros(deltas.shape[1:])
        below = (reference @ weight).view(shape)
        origins = [
            torch.stack([below[tap.rows, tap.columns, tap.corner] for tap in taps]).sum(0) + self.bias
            for taps in self.regions
        ]
        hidden: Tensor = _HiddenValues.apply(maps, self.regions, *origins)  # type: ignore[no-untyped-call]
        return hidden.flatten(1, 2) @ self.readout

    def totals(self, deltas: Tensor, reference: Tensor | None = None) -> Tensor:
        """The sum of f(x) over all locations, (B, C'): that of all values and constants, at a fraction of the cost."""
        x = deltas if reference is None else deltas + reference
        images = x.transpose(1, 2).reshape(len(x), self.d_in, *self.cells)  # (B, C, H, W)
        hidden = F.conv2d(images, self.kernel, self.bias, padding=self.dilations, dilation=self.dilations).relu()
        outputs = hidden.sum((2, 3)) @ self.readout
        n_locations = hidden.shape[2] * hidden.shape[3]
        return outputs if self.constant is None else outputs + n_locations * self.constant
