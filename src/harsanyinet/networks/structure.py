"""Structure of a Harsanyi network: children -> receptive fields -> unique coalitions. No weights, no inputs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harsanyinet.explanations.indices import unite_coalitions

Connect = Literal["previous", "all"]


def receptive_fields(children: Sequence[Tensor], players: Tensor, connect: Connect = "previous") -> list[Tensor]:
    """The receptive field of every unit, (U_l, P) bool per block: the union of its children's fields, or empty.

    Args:
        children: One (U_l, D_l) bool tensor per block. The candidates D_l of the first block are the rows of
            `players`; those of a later block are the units of the previous block or of all previous blocks.
        players: (D_1, P) bool, the players behind each candidate of the first block.
        connect: Where the candidates of later blocks come from.
    """
    fields: list[Tensor] = []
    for level, chosen in enumerate(children):
        below = players if level == 0 else torch.cat(fields) if connect == "all" else fields[-1]
        fields.append(chosen.float() @ below.float() > 0)  # counts below 2^24 are exact in float32
    return fields


@dataclass(frozen=True)
class Structure:
    """What the children of a network imply; computed once and valid for as long as the children stay."""

    children: tuple[Tensor, ...]  # bool masks, in the form in which the network keeps them
    fields: tuple[Tensor, ...]  # the receptive field of every unit, (U_l, P) bool per block

    def fits(self, children: Sequence[Tensor]) -> bool:
        """Whether these are still the same children, on the same device."""
        pairs = zip(self.children, children, strict=True)
        return all(a.device == b.device and a.shape == b.shape and torch.equal(a, b) for a, b in pairs)

    def shares(self, level: int, dtype: torch.dtype) -> Tensor:
        """(P, U) of a block: 1/|R_u| for the players in R_u; zero for a unit without children."""
        field = self.fields[level]
        return (field.to(dtype) / field.sum(1, keepdim=True).clamp_min(1)).T

    @cached_property
    def sparse(self) -> tuple[Tensor | None, ...]:
        """Per block, the shares in a CSR layout where fields are so small among so many players that it pays."""
        few = (f.numel() > 2**14 and 20 * int(f.sum()) < f.numel() for f in self.fields)
        with warnings.catch_warnings():  # torch calls the layout a beta once per process
            warnings.simplefilter("ignore", UserWarning)
            return tuple(
                self.shares(level, torch.float64).to_sparse_csr() if worth else None for level, worth in enumerate(few)
            )

    @cached_property
    def uniform(self) -> bool:
        """Whether all blocks have the same fields, as when deeper blocks keep each unit's own set."""
        return all(torch.equal(self.fields[0], f) for f in self.fields[1:])

    @cached_property
    def united(self) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """The unique receptive fields (C, P), none empty, and each unit's position among them (-1: a dead unit)."""
        return unite_coalitions(torch.cat(self.fields).cpu().numpy())
