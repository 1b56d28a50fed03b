"""From the units of a network to Shapley values and dividends: matrix products over blocks, for all rows and outputs.

Functions of tensors; no network, no Explanation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from harsanyinet.networks.gates import acting_rows
from harsanyinet.networks.structure import Structure

Spreader = Callable[[Sequence[Tensor]], Tensor]
"""From what `unit_contributions` returns of each block to Shapley values (B, K, P)."""


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
            shares = sparse.to(readout.dtype)
            matrices.append(_weighted(shares, readout[:, :, 0]) if scalar else shares)
        if not scalar and structure.uniform:
            break
    return lambda units: _shapley_of_units(units, matrices, len(readouts[0]))


def _weighted(shares: Tensor, weights: Tensor) -> Tensor:
    """(K P, U) from sparse shares (P, U) and weights (K, U): the shares once for each output, weighted."""
    starts, units, k = shares.crow_indices(), shares.col_indices(), len(weights)
    starts = torch.cat([starts[:1], *(starts[1:] + i * len(units) for i in range(k))])
    values = (shares.values() * weights[:, units]).flatten()
    size = (k * len(shares), shares.shape[1])
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
