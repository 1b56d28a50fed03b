"""Maps of cells: who is whose neighbour, how receptive fields grow, and shares of fields that are rectangles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from harsanyinet.images.conv_blocks import inside, neighbours
from harsanyinet.networks.structure import Spreader


def sizes_of(cells: tuple[int, int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Height and width of the map of each block."""
    (height, width), sizes = cells, []
    for step in strides:
        height, width = -(-height // step), -(-width // step)
        sizes.append((height, width))
    return sizes


def places(size: tuple[int, int], step: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Which cells of a map are the neighbours of each place of the next one, (places, 9), and whether they exist."""
    number = torch.arange(math.prod(size), dtype=torch.float64, device=device).view(1, *size, 1)
    where = neighbours(number)[0, ::step, ::step, :, 0].long()
    return where.reshape(-1, 9), inside(*size)[::step, ::step].reshape(-1, 9).to(device)


def grown_fields(
    children: Sequence[Tensor], cells: tuple[int, int], strides: Sequence[int], per_group: bool
) -> list[Tensor]:
    """Receptive fields (U, P) of every block, by recursion over the children that lie in the image.

    Children of each group of channels are (G, 9), those of each location (P, 9).
    """
    device, fields = children[0].device, list[Tensor]()
    below = torch.eye(math.prod(cells), device=device, dtype=torch.bool)[:, None]  # (P, 1, P): places, groups, players
    for chosen, step, size in zip(children, strides, [cells, *sizes_of(cells, strides)], strict=False):
        where, valid = places(size, step, device)
        taken = (chosen[None] if per_group else chosen[:, None]) & valid[:, None]  # (places, G, 9)
        field = torch.zeros(*taken.shape[:2], below.shape[2], dtype=torch.bool, device=device)
        for k in range(9):
            field |= taken[:, :, k, None] & below[where[:, k]]
        fields.append(field.flatten(0, 1))
        below = field
    return fields


class Sides(NamedTuple):
    """The shares of receptive fields that are rectangles: products of a share of rows and one of columns."""

    rows: Tensor  # (G, h, H)
    columns: Tensor  # (G, w, W)
    alone: list[bool]  # (G,) whether a unit sees its own cell only


def sides_of(field: Tensor, cells: tuple[int, int], size: tuple[int, int]) -> Sides | None:
    """The sides of receptive fields (U, P); None where one is no rectangle, or its rows depend on its unit's column."""
    whole = field.view(*size, -1, *cells)  # (h, w, G, H, W)
    rows, columns = whole.any(4)[:, 0].transpose(0, 1), whole.any(3)[0].transpose(0, 1)
    if not torch.equal(whole, (rows[:, :, None, :, None] & columns[:, None, :, None]).permute(1, 2, 0, 3, 4)):
        return None
    alone = [size == cells and bool(each.all()) for each in (whole.sum((3, 4)) == 1).unbind(2)]
    rows, columns = rows.double(), columns.double()
    shares = [side / side.sum(2, keepdim=True).clamp_min(1) for side in (rows, columns)]  # no children, no share
    return Sides(shares[0], shares[1], alone)


def along_sides(sides: Sequence[Sides], dtype: torch.dtype) -> Spreader:
    """A spreader along rows and columns in turn: H + W in place of H W products."""
    typed = [(each.rows.to(dtype), each.columns.to(dtype), each.alone) for each in sides]

    def spread(units: Sequence[Tensor]) -> Tensor:
        total: Tensor | None = None
        for z, (rows, columns, alone) in zip(units, typed, strict=True):  # z: (U, K, B)
            each = z.view(rows.shape[1], columns.shape[1], len(rows), -1)  # (h, w, G, K B)
            for group in range(len(rows)):  # one by one, which spares a copy
                if alone[group] and total is not None:
                    total.view(*each.shape[:2], -1).add_(each[:, :, group])
                    continue
                wide = columns[group].T @ each[:, :, group]  # (h, W, K B)
                part = rows[group].T @ wide.view(len(wide), -1)  # (H, W K B)
                total = part if total is None else total.add_(part)
        assert total is not None
        n_players = typed[0][0].shape[2] * typed[0][1].shape[2]
        return total.view(n_players, *units[0].shape[1:]).permute(2, 1, 0)

    return spread
