"""What every Harsanyi network shares: from units to outputs, Shapley values and explanations. No kind of block.

A network that can compute its units and name its children is a `HarsanyiNet`; prediction, Shapley values and
explanation are three readings of the same unit activations.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet import files
from harsanyinet.explanations.explanation import Explanation
from harsanyinet.networks.blocks import acting_rows
from harsanyinet.networks.draws import left_open
from harsanyinet.networks.structure import Connect, Structure, receptive_fields

CHUNK = 2**20
"""Inference runs in chunks of rows with about so many values per block: fresh memory costs more than arithmetic."""


class HarsanyiNet(nn.Module, ABC):
    """A network whose output is a constant plus a weighted sum of Harsanyi units (Theorems 2 and 3).

    Subclasses say how units are computed, which children they have and which player stands behind each input.

    Attributes:
        n_players: P.
        n_outputs: K.
        readouts: One (K, U_l, C_l) parameter per block.
        base: (K,), v(empty).
        config: The arguments that build the same network, as JSON.
        unstorable: Why `config` does not build the same network, if it does not.
    """

    n_players: int
    n_outputs: int
    readouts: nn.ParameterList
    base: Tensor
    config: dict[str, Any]
    unstorable: str | None = None
    _structure: Structure | None = None

    @abstractmethod
    def units(self, x: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """The units of every block, (B, U_l, C_l) each: the one place where they are computed."""

    @abstractmethod
    def child_masks(self) -> list[Tensor]:
        """The children of every block, (U_l, D_l) bool each."""

    @abstractmethod
    def player_map(self) -> Tensor:
        """(D_1, P) bool: the player behind each candidate of the first block."""

    @abstractmethod
    def shown(self, x: Tensor) -> NDArray[Any] | None:
        """A copy (B, P) of what an explanation shows as the players' values; None where that is not one number."""

    @property
    @abstractmethod
    def connect(self) -> Connect:
        """Whether later blocks choose children in the previous block or in all previous blocks."""

    @property
    @abstractmethod
    def exact_in_training(self) -> bool:
        """Whether units computed in training mode are Harsanyi units (no dropout, no batch statistics)."""

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Raw outputs (B, K); `present` (P,) or (B, P) bool masks players. Full precision, also under autocast."""
        with full_precision(x):
            parts = [self._outputs(rows, mask) for rows, mask in self._chunks(x, present)]
            return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _outputs(self, x: Tensor, present: Tensor | None) -> Tensor:
        return self._read(self.units(x, present))

    def _read(self, zs: list[Tensor]) -> Tensor:
        out = self.base
        for z, readout in zip(zs, self.readouts, strict=True):
            out = torch.addmm(out, z.flatten(1), readout.flatten(1).T)
        return out

    def _chunks(self, x: Tensor, present: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
        """The rows in pieces, in inference; in one piece when gradients are recorded or the network is compiled."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or not isinstance(x, Tensor) or x.ndim == 0:
            return [(x, present)]
        size = max(256, CHUNK // self._widest())
        if len(x) <= size:
            return [(x, present)]
        if present is not None:
            present = check_present(present, len(x), self.n_players)
        starts = range(0, len(x), size)
        return [(x[i : i + size], None if present is None else present[i : i + size]) for i in starts]

    def _widest(self) -> int:
        """The most values that a row has in a block."""
        return max(int(readout[0].numel()) for readout in self.readouts)

    def shapley_values(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Exact Shapley values (B, P, K) as a tensor that gradients flow through, for losses on explanations."""
        self._check_mode()
        with full_precision(x):
            readouts = list(self.readouts)
            units = [condensed(z, readout) for z, readout in zip(self.units(x, present), readouts, strict=True)]
            return self._spreader(readouts)(units).transpose(1, 2)

    def _spreader(self, readouts: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], Tensor]:
        """What turns the condensed units of some rows into Shapley values (B, K, P), made once for all rows."""
        spreads = spreading(readouts, self.structure())
        return lambda units: shapley_of_units(units, spreads, self.n_outputs)

    def explain(
        self,
        x: Tensor,
        present: Tensor | None = None,
        *,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        data: ArrayLike | None = None,
    ) -> Explanation:
        """One pass over all rows: exact Shapley values now, dividends and everything else when asked for.

        Args:
            x: Rows, as for `forward`.
            present: Players that are there; those that are not get the value zero.
            feature_names: One per player.
            output_names: One per output.
            data: (B, P) what to show as the players' values; x itself where every column is a player.
        """
        self._check_mode()
        structure = self.structure()
        values, kept = [], []
        with torch.no_grad(), full_precision(x):
            readouts = [r.clone() if isinstance(r, nn.Parameter) else r for r in self.readouts]  # may be trained on
            spread = self._spreader(readouts)
            for rows, mask in self._chunks(x, present):
                kept.append([condensed(z, r) for z, r in zip(self.units(rows, mask), readouts, strict=True)])
                values.append(spread(kept[-1]))
        coalitions, position = structure.united

        def dividends() -> NDArray[Any]:
            return np.concatenate([dividends_of_units(part, readouts, position, len(coalitions)) for part in kept])

        return Explanation(
            values=(values[0] if len(values) == 1 else torch.cat(values)).transpose(1, 2).cpu().numpy(),
            base_values=self.base.detach().cpu().numpy().copy(),
            coalitions=coalitions,
            dividends=dividends,
            feature_names=feature_names,
            output_names=output_names,
            data=self.shown(x) if data is None else np.array(data),
            copy=False,
        )

    def structure(self) -> Structure:
        """Receptive fields and coalitions of the present children; kept until the children change."""
        children = self.child_masks()
        if self._structure is None or not self._structure.fits(children):
            fields = receptive_fields(children, self.player_map(), self.connect)
            self._structure = Structure(tuple(children), tuple(fields))
        return self._structure

    def receptive_fields(self) -> list[Tensor]:
        """One (U_l, P) bool tensor per block; the row of a unit without children is empty."""
        return [field.clone() for field in self.structure().fields]

    def game(self, x: Tensor, row: int = 0) -> Callable[[NDArray[np.bool_]], NDArray[Any]]:
        """The game that `explain` solves for one row, played by real forward passes: masks (m, P) -> (m, K)."""
        self._check_mode()
        if not 0 <= row < len(x):
            raise IndexError(f"row must lie between 0 and {len(x) - 1}, however: row={row}")
        one = x[row : row + 1].detach()

        def play(masks: NDArray[np.bool_]) -> NDArray[Any]:
            present = torch.from_numpy(np.ascontiguousarray(masks)).to(one.device)
            with torch.no_grad():
                return np.asarray(self(one.expand(len(masks), *one.shape[1:]), present=present).cpu().numpy())

        return play

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the network to one file; `harsanyinet.load` reads it and runs no code from it."""
        files.save_arrays(path, type(self).__name__, *self.to_arrays())

    def to_onnx(self, path: str | PathLike[str], **options: Any) -> None:
        """Writes an ONNX file that predicts and explains without this package; see `harsanyinet.to_onnx`."""
        import harsanyinet  # the room that exports stands above this one: through the front door

        harsanyinet.to_onnx(self, path, **options)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The network as arrays and JSON."""
        if self.unstorable is not None:
            raise TypeError(
                "a network with parts of your own cannot be saved, since a file holds no code, however: "
                f"{self.unstorable}, or save net.state_dict() instead"
            )
        state = {name: tensor.detach().cpu().numpy() for name, tensor in self.state_dict().items()}
        return state, {"config": self.config, "dtype": str(self.base.dtype).split(".")[-1]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Self:
        """From what `to_arrays` returned: on the CPU, in evaluation mode."""
        with left_open():
            net = cls(**meta["config"]).to(getattr(torch, meta["dtype"]))
        net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        return net.eval()

    def _check_mode(self) -> None:
        if self.training and not self.exact_in_training:
            raise RuntimeError(
                "explanations are exact in evaluation mode only, however: this network is in training mode and uses "
                "dropout or batch normalisation; call .eval() first"
            )


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """Switches autocast off: in half precision a unit could no longer tell an absent child from a present one."""
    device = x.device.type if isinstance(x, Tensor) else "cpu"
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def condensed(z: Tensor, readout: Tensor) -> Tensor:
    """All that values and dividends need of a block: scalar units (B, U), or what units add to outputs, (U, K, B)."""
    return z[:, :, 0] if z.shape[2] == 1 else torch.bmm(readout.transpose(0, 1), z.permute(1, 2, 0))


def spreading(readouts: Sequence[Tensor], structure: Structure) -> list[Tensor]:
    """What spreads the condensed units of each block over the players, computed once for all rows.

    Returns:
        Per block the shares (P, U) of contributions, or the weighted shares (K P, U) of scalar units; in inference in a
        sparse layout where receptive fields are a few among many players. Only the first block's where all blocks
        have the same fields and contributions may be added up before they are spread.
    """
    found = []
    for level, (readout, members) in enumerate(zip(readouts, structure.sparse, strict=True)):
        scalar, n = readout.shape[2] == 1, structure.fields[level].shape[1]
        if members is None or torch.is_grad_enabled():
            shares = structure.shares(level, readout.dtype)
            found.append((readout.transpose(1, 2) * shares).flatten(0, 1) if scalar else shares)
        else:
            starts, units, share = members.starts, members.units, members.shares.to(readout.dtype)
            lines = n
            if scalar:
                k, n_each = len(readout), len(units)
                share = (share * readout[:, units, 0]).flatten()
                starts = torch.cat([starts[:1], *(starts[1:] + i * n_each for i in range(k))])
                units, lines = units.repeat(k), k * n
            found.append(_csr(starts, units, share, (lines, readout.shape[1])))
        if not scalar and structure.uniform:
            break
    return found


def shapley_of_units(units: Sequence[Tensor], spreads: Sequence[Tensor], n_outputs: int) -> Tensor:
    """Theorem 3: phi(i) = sum over blocks and units of w_u z_u 1[i in R_u] / |R_u|, for all rows and outputs.

    One matrix product per block; no rows x units x players tensor. Rows on which a whole block is silent are left out.

    Args:
        units: Per block, what `condensed` returns.
        spreads: What `spreading` returns.
        n_outputs: K.

    Returns:
        (B, K, P): players last, as the products have them.
    """
    if len(spreads) < len(units):
        units = [reduce(torch.add, units)]
    n_players = len(spreads[0]) // (n_outputs if units[0].ndim == 2 else 1)
    total: Tensor | None = None  # (B, K, P)
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


def _csr(starts: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():  # torch calls its CSR layout a beta once per process
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(starts, columns, values, size, check_invariants=False)


def dividends_of_units(
    units: Sequence[Tensor], readouts: Sequence[Tensor], position: NDArray[np.intp], n_coalitions: int
) -> NDArray[Any]:
    """Theorem 2: I(S) = sum of w_u z_u over the units with R_u = S, from condensed units. Returns (B, C, K)."""
    where = torch.from_numpy(np.where(position < 0, n_coalitions, position))  # dead units add zeros to a last line
    n_rows = units[0].shape[0] if units[0].ndim == 2 else units[0].shape[2]
    out = units[0].new_zeros(n_coalitions + 1, n_rows, len(readouts[0]), device="cpu")
    start = 0
    for z, readout in zip(units, readouts, strict=True):
        added = z.transpose(1, 2) if z.ndim == 3 else z.T[:, :, None] * readout[:, :, 0].T[:, None, :]  # (U, B, K)
        out.index_add_(0, where[start : start + readout.shape[1]], added.cpu())
        start += readout.shape[1]
    return np.swapaxes(out[:n_coalitions].numpy(), 0, 1)


def check_present(present: Tensor, n_rows: int, n_players: int) -> Tensor:
    """A mask of one row's or all rows' shape as (B, P) bool, or one clear sentence."""
    if not isinstance(present, Tensor) or present.dtype != torch.bool:
        kind = present.dtype if isinstance(present, Tensor) else type(present).__name__
        raise TypeError(f"present must be a bool tensor, True where a player is there, however: {kind}")
    if present.shape == (n_players,):
        return present.expand(n_rows, n_players)
    if present.shape != (n_rows, n_players):
        raise ValueError(
            f"present must have shape ({n_players},) or ({n_rows}, {n_players}), however: {tuple(present.shape)}"
        )
    return present
