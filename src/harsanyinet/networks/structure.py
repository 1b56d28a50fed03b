"""Structure of a Harsanyi network: children -> receptive fields -> coalitions, and units -> values and dividends.

Functions of tensors, matrix products over blocks for all rows and outputs; no network, no Explanation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from harsanyinet.explanations.indices import unite_coalitions
from harsanyinet.networks.gates import acting_rows

Connect = Literal["previous", "all"]
Spreader = Callable[[Sequence[Tensor]], Tensor]
"""From what `unit_contributions` returns of each block to Shapley values (B, K, P)."""


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
    def sparse(self) -> tuple[tuple[Tensor, Tensor, Tensor] | None, ...]:
        """Per block, the non-zero shares where fields are so small among so many players that it pays, else None."""
        few = (f.numel() > 2**14 and 20 * int(f.sum()) < f.numel() for f in self.fields)
        return tuple(_sparse_shares(f) if worth else None for f, worth in zip(self.fields, few, strict=True))

    @cached_property
    def uniform(self) -> bool:
        """Whether all blocks have the same fields, as when deeper blocks keep each unit's own set."""
        return all(torch.equal(self.fields[0], f) for f in self.fields[1:])

    @cached_property
    def united(self) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """The unique receptive fields (C, P), none empty, and each unit's position among them (-1: a dead unit)."""
        return unite_coalitions(torch.cat(self.fields).cpu().numpy())


def unit_contributions(z: Tensor, readout: Tensor) -> Tensor:
    """What the units of a block (B, U, C) add to each output: (U, K, B). Scalar units stay as they are, (B, U).

    A scalar unit adds a multiple of itself to every output, and K numbers are not stored where one says it all.
    """
    return z[:, :, 0] if z.shape[2] == 1 else torch.bmm(readout.transpose(0, 1), z.permute(1, 2, 0))


def by_matrices(readouts: Sequence[Tensor], structure: Structure) -> Spreader:
    """The usual spreader: for each block the shares (P, U) of contributions, or weighted ones (K P, U) of scalar units.

    In inference in a sparse layout where receptive fields are a few among many players. Only the first block's where
    all blocks have the same fields and contributions may be added up before they are spread.
    """
    matrices = []
    for level, (readout, sparse) in enumerate(zip(readouts, structure.sparse, strict=True)):
        scalar = readout.shape[2] == 1
        if sparse is None or torch.is_grad_enabled():
            shares = structure.shares(level, readout.dtype)
            matrices.append((readout.transpose(1, 2) * shares).flatten(0, 1) if scalar else shares)
        else:
            matrices.append(_weighted(sparse, readout[:, :, 0] if scalar else torch.ones_like(readout[:1, :, 0])))
        if not scalar and structure.uniform:
            break
    return lambda units: _shapley_of_units(units, matrices, len(readouts[0]))


def _sparse_shares(field: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of fields (U, P), player by player: where its units start (P + 1,), the units, and their shares 1/|R_u|.

    Plain tensors, since a network keeps them, and torch's sparse ones cannot be copied.
    """
    players, units = field.T.nonzero(as_tuple=True)  # sorted by player
    starts = torch.searchsorted(players, torch.arange(field.shape[1] + 1, device=field.device))
    return starts, units, 1 / field.sum(1).double()[units]


def _weighted(sparse: tuple[Tensor, Tensor, Tensor], weights: Tensor) -> Tensor:
    """(K P, U) in a CSR layout from sparse shares and weights (K, U): the shares once for each output, weighted."""
    starts, units, shares = sparse
    k, n_players = len(weights), len(starts) - 1
    starts = torch.cat([starts[:1], *(starts[1:] + i * len(units) for i in range(k))])
    values = (shares.to(weights.dtype) * weights[:, units]).flatten()
    size = (k * n_players, weights.shape[1])
    with warnings.catch_warnings():  # torch calls the layout a beta once per process
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(starts, units.repeat(k), values, size, check_invariants=False)


def _shapley_of_units(units: Sequence[Tensor], spreads: Sequence[Tensor], n_outputs: int) -> Tensor:
    """Theorem 3: phi(i) = sum over blocks and units of w_u z_u 1[i in R_u] / |R_u|, (B, K, P).

    One matrix product per block; no rows x units x players tensor. Rows on which a whole block is silent are left out.
    """
    if len(spreads) < len(units):
        units = [reduce(torch.add, units)]
    n_players = len(spreads[0]) // (n_outputs if units[0].ndim == 2 else 1)
    total: Tensor | None = None
    for z, spread in zip(units, spreads, strict=True):
        rows = acting_rows(z) if z.ndim == 2 and spread.layout == torch.strided else None
        if total is not None and rows is not None:
            total.index_add_(0, rows, F.linear(z[rows], spread).view(-1, n_outputs, n_players))
            continue
        left = z if z.ndim == 2 else z.flatten(1).T  # (B, U) or (K B, U)
        part = F.linear(left, spread) if spread.layout == torch.strided else (spread @ left.T).T
        if z.ndim == 2:
            part = part.reshape(len(z), n_outputs, n_players)
        else:
            part = part.reshape(n_outputs, z.shape[2], n_players).transpose(0, 1)
        total = part if total is None else total + part
    assert total is not None
    return total


def dividends_of_units(
    units: Sequence[Tensor], readouts: Sequence[Tensor], position: NDArray[np.intp], n_coalitions: int
) -> NDArray[Any]:
    """Theorem 2: I(S) = sum of w_u z_u over the units with R_u = S, from `unit_contributions`. Returns (B, C, K)."""
    where = torch.from_numpy(np.where(position < 0, n_coalitions, position))  # dead units add zeros to a last line
    n_rows = units[0].shape[0] if units[0].ndim == 2 else units[0].shape[2]
    out = units[0].new_zeros(n_coalitions + 1, n_rows, len(readouts[0]), device="cpu")
    start = 0
    for z, readout in zip(units, readouts, strict=True):
        added = z.transpose(1, 2) if z.ndim == 3 else z.T[:, :, None] * readout[:, :, 0].T[:, None, :]  # (U, B, K)
        out.index_add_(0, where[start : start + readout.shape[1]], added.cpu())
        start += readout.shape[1]
    return np.swapaxes(out[:n_coalitions].numpy(), 0, 1)
