"""Harsanyi networks: units, readout, explanation. Encoding, training and plotting live elsewhere.

`HarsanyiNet` is what every network of this package shares once it can compute its units and its children:
prediction, Shapley values and explanation are three readings of the same unit activations. `HarsanyiMLP` is the
dense network for tables.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from operator import index
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.blocks import (
    ActivationBlock,
    OwnBlock,
    PresenceBlock,
    SoftAnd,
    State,
    acting_rows,
    first_children,
    first_sets,
    join,
)
from harsanyinet.explanation import Explanation
from harsanyinet.fields import Connect, Structure, receptive_fields

Gate = Literal["activation", "presence"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
}
"""Activations of the presence gate. Each maps 0 to 0, so that a unit without children is zero."""

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
    """

    n_players: int
    n_outputs: int
    readouts: nn.ParameterList
    base: Tensor
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
        with _full_precision(x):
            parts = [self._read(self.units(rows, mask)) for rows, mask in self._chunks(x, present)]
            return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _read(self, zs: list[Tensor]) -> Tensor:
        out = self.base
        for z, readout in zip(zs, self.readouts, strict=True):
            out = out + F.linear(z.flatten(1), readout.flatten(1))
        return out

    def _chunks(self, x: Tensor, present: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
        """The rows in pieces, in inference; in one piece when gradients are recorded or the network is compiled."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or not isinstance(x, Tensor) or x.ndim == 0:
            return [(x, present)]
        size = max(256, CHUNK // max(readout[0].numel() for readout in self.readouts))
        if len(x) <= size:
            return [(x, present)]
        if present is not None:
            present = _check_present(present, len(x), self.n_players)
        starts = range(0, len(x), size)
        return [(x[i : i + size], None if present is None else present[i : i + size]) for i in starts]

    def shapley_values(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Exact Shapley values (B, P, K) as a tensor that gradients flow through, for losses on explanations."""
        self._check_mode()
        with _full_precision(x):
            readouts = list(self.readouts)
            units = [condensed(z, readout) for z, readout in zip(self.units(x, present), readouts, strict=True)]
            spreads = spreading(readouts, self.structure())
            return shapley_of_units(units, spreads, self.n_outputs).transpose(1, 2)

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
        readouts = [readout.detach().clone() for readout in self.readouts]  # an explanation outlives its network
        values, kept = [], []
        with torch.no_grad(), _full_precision(x):
            spreads = spreading(readouts, structure)
            for rows, mask in self._chunks(x, present):
                kept.append([condensed(z, r) for z, r in zip(self.units(rows, mask), readouts, strict=True)])
                values.append(shapley_of_units(kept[-1], spreads, self.n_outputs))
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

    def _check_mode(self) -> None:
        if self.training and not self.exact_in_training:
            raise RuntimeError(
                "explanations are exact in evaluation mode only, however: this network is in training mode and uses "
                "dropout; call .eval() first"
            )


def _full_precision(x: Tensor) -> torch.autocast:
    """Switches autocast off: in half precision a unit could no longer tell an absent child from a present one."""
    return torch.autocast(x.device.type if isinstance(x, Tensor) else "cpu", enabled=False)


def condensed(z: Tensor, readout: Tensor) -> Tensor:
    """All that values and dividends need of a block: scalar units (B, U), or what units add to outputs, (U, B, K)."""
    return z[:, :, 0] if z.shape[2] == 1 else torch.bmm(z.transpose(0, 1), readout.permute(1, 2, 0))


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
    total: Tensor | None = None
    for z, spread in zip(units, spreads, strict=True):
        rows = acting_rows(z) if z.ndim == 2 and spread.layout == torch.strided else None
        if total is not None and rows is not None:
            total.index_add_(0, rows, F.linear(z[rows], spread))
            continue
        left = z if z.ndim == 2 else z.flatten(1).T  # (B, U) or (B K, U)
        part = F.linear(left, spread) if spread.layout == torch.strided else (spread @ left.T).T
        total = part if total is None else total + part
    assert total is not None
    n_rows = len(units[0]) if units[0].ndim == 2 else units[0].shape[1]
    n_players = len(spreads[0]) // (n_outputs if units[0].ndim == 2 else 1)
    return total.reshape(n_rows, n_outputs, n_players)


def _csr(starts: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():  # torch calls its CSR layout a beta once per process
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(starts, columns, values, size, check_invariants=False)


def dividends_of_units(
    units: Sequence[Tensor], readouts: Sequence[Tensor], position: NDArray[np.intp], n_coalitions: int
) -> NDArray[Any]:
    """Theorem 2: I(S) = sum of w_u z_u over the units with R_u = S, from condensed units. Returns (B, C, K)."""
    where = torch.from_numpy(np.where(position < 0, n_coalitions, position))  # dead units add zeros to a last line
    n_rows = units[0].shape[0] if units[0].ndim == 2 else units[0].shape[1]
    out = units[0].new_zeros(n_coalitions + 1, n_rows, len(readouts[0]), device="cpu")
    start = 0
    for z, readout in zip(units, readouts, strict=True):
        added = z if z.ndim == 3 else z.T[:, :, None] * readout[:, :, 0].T[:, None, :]  # (U, B, K)
        out.index_add_(0, where[start : start + readout.shape[1]], added.cpu())
        start += readout.shape[1]
    return np.swapaxes(out[:n_coalitions].numpy(), 0, 1)


class HarsanyiMLP(HarsanyiNet):
    """The Harsanyi network for tables.

    Two gates. `"activation"` is the paper's block: scalar units, children learned through tau, a soft AND of the
    children's activations, ReLU, no bias; a variable at its baseline is absent. `"presence"` is our generalisation:
    units of several channels, biases and any activation inside the gate, explicit presence bits; NaN is an absent
    variable.

    Args:
        n_features: Number of columns of x.
        n_outputs: Number of raw outputs.
        n_blocks: Number of blocks.
        width: Units per block.
        gate: The kind of block.
        beta: Steepness of the straight-through gradient of the children.
        gamma: Sharpness of the soft AND (activation gate).
        connect: Children of later blocks come from the previous block or from all previous blocks.
        baseline: Subtracted from each column, (n_features,); zero by default. In the activation gate the value that
            means "absent".
        seed: Seed of the initial weights and children.
        columns: The player of each column, when several columns (one-hot, bins) belong to one player.
        soft_and: `"geometric"` as in the paper's text or the plain `"product"` of the authors' code (activation gate).
        initial_children: How many children a unit starts with (activation gate). None: min(10, candidates), an int:
            exactly so many, a float: that share of the candidates, at least one (0.1 in the authors' code).
        channels: Channels per unit (presence gate; 8 by default).
        sets: Children of the first block as index sets of players (presence gate); their number replaces `width`.
            By default one unit per variable, then random sets; random sets only where variables outnumber units.
        set_sizes: Sizes of the random sets, in turn (presence gate).
        learn_children: Whether children are trained through tau. By default yes in the activation gate (always) and no
            in the presence gate, where deeper blocks then keep each unit's own set.
        activation: `relu`, `gelu`, `silu` or `tanh` (presence gate).
        dropout: Share of channels dropped in training (presence gate).
        output_bias: Whether v(empty) is a trained constant; by default in the presence gate only.
        dtype: float32 or float64; torch's default if left out. The baseline is exact in it, which a later `.double()`
            cannot restore.

    Shape:
        - x: (B, n_features) of the network's dtype; present: (P,) or (B, P) bool; output: (B, n_outputs).

    Works under `torch.compile`, without the checks of values: infinities, and NaN in the activation gate, go through.

    Examples:
        >>> net = HarsanyiMLP(4, 1, gate="presence", seed=0).eval()
        >>> ex = net.explain(torch.tensor([[0.3, -1.0, float("nan"), 2.0]]))
        >>> ex.values.shape, float(ex.values[0, 2])
        ((1, 4), 0.0)
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        *,
        n_blocks: int = 3,
        width: int = 100,
        gate: Gate = "activation",
        beta: float = 10.0,
        gamma: float = 100.0,
        connect: Connect = "previous",
        baseline: ArrayLike | Tensor | None = None,
        seed: int = 0,
        columns: Sequence[int] | None = None,
        soft_and: SoftAnd = "geometric",
        initial_children: int | float | None = None,
        channels: int | None = None,
        sets: Sequence[Sequence[int]] | None = None,
        set_sizes: Sequence[int] = (2, 3, 4),
        learn_children: bool | None = None,
        activation: str = "relu",
        dropout: float = 0.0,
        output_bias: bool | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        n_features, n_outputs, n_blocks, width, seed = map(index, (n_features, n_outputs, n_blocks, width, seed))
        beta, gamma, dropout, set_sizes = float(beta), float(gamma), float(dropout), tuple(map(index, set_sizes))
        _one_of("gate", gate, ("activation", "presence"))
        _one_of("connect", connect, ("previous", "all"))
        _one_of("soft_and", soft_and, ("geometric", "product"))
        _one_of("activation", activation, tuple(ACTIVATIONS))
        for name, number in (
            ("n_features", n_features),
            ("n_outputs", n_outputs),
            ("n_blocks", n_blocks),
            ("width", width),
        ):
            if number < 1:
                raise ValueError(f"{name} must be at least 1, however: {name}={number}")
        for name, positive in (("beta", beta), ("gamma", gamma)):
            if not (math.isfinite(positive) and positive > 0):
                raise ValueError(f"{name} must be positive and finite, however: {name}={positive}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), however: dropout={dropout}")
        if any(size < 1 for size in set_sizes) or not set_sizes:
            raise ValueError(f"set_sizes must be positive sizes, however: set_sizes={tuple(set_sizes)}")
        presence = gate == "presence"
        if presence and initial_children is not None:
            raise ValueError("initial_children belongs to the activation gate; pass sets or set_sizes for presence")
        if not presence and (channels not in (None, 1) or sets is not None or dropout or learn_children is False):
            raise ValueError(
                "channels, sets, dropout and learn_children=False belong to the presence gate, however: "
                "gate='activation'"
            )
        columns = list(range(n_features)) if columns is None else [int(c) for c in columns]
        self.n_features, self.n_outputs = n_features, n_outputs
        self.n_players = _count_players(columns, n_features)
        self.gate: Gate = gate
        self.channels = (8 if channels is None else channels) if presence else 1
        if self.channels < 1:
            raise ValueError(f"channels must be at least 1, however: channels={channels}")
        learned = not presence if learn_children is None else learn_children
        generator = torch.Generator().manual_seed(seed)
        chosen = None
        if presence:
            chosen = (
                _as_masks(sets, self.n_players)
                if sets is not None
                else first_sets(width, self.n_players, set_sizes, generator)
            )
            width = len(chosen)
        self.config: dict[str, Any] = {
            "n_features": n_features, "n_outputs": n_outputs, "n_blocks": n_blocks, "width": width, "gate": gate,
            "beta": beta, "gamma": gamma, "connect": connect, "seed": seed, "columns": columns, "soft_and": soft_and,
            "initial_children": initial_children, "channels": self.channels, "set_sizes": list(set_sizes),
            "learn_children": learned, "activation": activation, "dropout": dropout,
            "output_bias": presence if output_bias is None else output_bias,
        }  # fmt: skip
        self.register_buffer("columns", torch.tensor(columns), persistent=False)  # a setting, not a weight
        self.register_buffer("baseline", _as_baseline(baseline, n_features, torch.get_default_dtype()))
        self.columns: Tensor
        self.baseline: Tensor
        blocks: list[nn.Module] = []
        for level in range(n_blocks):
            n_below = level if connect == "all" else 1
            if not presence:
                d_in = n_features if level == 0 else n_below * width
                tau = first_children(width, d_in, initial_children, generator)
                blocks.append(
                    ActivationBlock(d_in, width, beta=beta, gamma=gamma, mode=soft_and, tau=tau, generator=generator)
                )
            elif level > 0 and not learned:
                blocks.append(
                    OwnBlock(
                        n_below,
                        width,
                        channels=self.channels,
                        activation=ACTIVATIONS[activation],
                        dropout=dropout,
                        generator=generator,
                    )
                )
            else:
                if level == 0:
                    owner = self.columns.clone()
                else:
                    owner = torch.arange(n_below * width).repeat_interleave(self.channels)
                    chosen = torch.eye(width, dtype=torch.bool).repeat(1, n_below)
                assert chosen is not None
                blocks.append(
                    PresenceBlock(
                        owner,
                        chosen,
                        channels=self.channels,
                        beta=beta,
                        learned=learned,
                        activation=ACTIVATIONS[activation],
                        dropout=dropout,
                        generator=generator,
                    )
                )
        self.blocks = nn.ModuleList(blocks)
        shape = (n_outputs, width * self.channels)
        flat = [nn.init.xavier_uniform_(torch.empty(shape), generator=generator) for _ in range(n_blocks)]
        self.readouts = nn.ParameterList([w.view(n_outputs, width, self.channels) for w in flat])
        if self.config["output_bias"]:
            self.base = nn.Parameter(torch.zeros(n_outputs))
        else:
            self.register_buffer("base", torch.zeros(n_outputs))
        if dtype is not None:
            self.to(dtype)
            self.baseline.copy_(_as_baseline(baseline, n_features, dtype))

    @property
    def connect(self) -> Connect:
        """Where later blocks choose their children."""
        connect: Connect = self.config["connect"]
        return connect

    @property
    def exact_in_training(self) -> bool:
        """False with dropout."""
        return not self.config["dropout"]

    def child_masks(self) -> list[Tensor]:
        """The children of every block: of columns (activation gate) or players (presence gate), then of units."""
        return [block.child_mask() for block in self.blocks]  # type: ignore[operator]

    def shown(self, x: Tensor) -> NDArray[Any] | None:
        """The columns in the order of the players, where every player is one column."""
        if self.n_players < self.n_features:
            return None
        columns = self.config["columns"]
        values = x.detach().cpu().numpy().copy()
        return values if columns == sorted(columns) else values[:, np.argsort(columns)]

    def player_map(self) -> Tensor:
        """(n_features, P) bool where children are columns (activation gate); the identity where they are players."""
        one_hot = F.one_hot(self.columns, self.n_players) > 0
        return one_hot if self.gate == "activation" else torch.eye(self.n_players, device=one_hot.device) > 0

    def units(self, x: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """(B, U, C) per block; a unit is zero as soon as one player of its receptive field is absent."""
        present = self._check(x, present)
        z = x - self.baseline
        if present is not None:
            z = torch.where(present[:, self.columns], z, 0.0)
        below = State(z)
        if self.gate == "presence":
            below = State(z, None if present is None else present.to(z.dtype), z.new_ones(self.n_players))
        states: list[State] = []
        for block in self.blocks:
            if states:
                below = join(states) if self.connect == "all" else states[-1]
            states.append(block(below))
        return [state.values for state in states]

    def _check(self, x: Tensor, present: Tensor | None) -> Tensor | None:
        """Checks the input and returns (B, P) presence bits, or None when every player is there."""
        if not isinstance(x, Tensor):
            raise TypeError(f"x must be a torch tensor, however: {type(x).__name__}; use torch.as_tensor(x)")
        if x.ndim != 2 or x.shape[1] != self.n_features:
            raise ValueError(f"x must have shape (rows, {self.n_features}), however: {tuple(x.shape)}")
        if self.baseline.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"the network works in float32 or float64, however: {self.baseline.dtype}")
        if x.dtype != self.baseline.dtype:
            raise TypeError(
                f"x must have the network's dtype {self.baseline.dtype}, however: {x.dtype}; "
                "convert x with .to(dtype) or the network with .float() or .double()"
            )
        if present is not None:
            present = _check_present(present, len(x), self.n_players)
        if torch.compiler.is_compiling():  # no branches on data: always gate, and leave out the check of values
            return self._without_missing(x, present)
        limit = math.sqrt(torch.finfo(x.dtype).max)  # beyond it a sum of products could overflow, and inf * 0 is NaN
        if x.numel() and not all(abs(float(end)) < limit for end in torch.aminmax(x.detach())):
            if (x.abs() >= limit).any():
                column = _first_column(x.abs() >= limit)
                raise ValueError(f"x must be finite and below {limit:.1g} in size, however: column {column} is not")
            missing = torch.isnan(x)
            if self.gate == "activation" and missing.any():
                raise ValueError(
                    "the activation gate needs a number in every cell, however: column "
                    f"{_first_column(missing)} holds NaN; fill it, or use gate='presence', where NaN means absent"
                )
            present = self._without_missing(x, present)
        return None if present is None or bool(present.all()) else present

    def _without_missing(self, x: Tensor, present: Tensor | None) -> Tensor | None:
        if self.gate == "activation":
            return present
        missing = torch.isnan(x).to(x.dtype)
        absent = torch.zeros_like(x[:, :1]).expand(-1, self.n_players).index_add(1, self.columns, missing) > 0
        return ~absent if present is None else present & ~absent

    def extra_repr(self) -> str:
        """The settings that differ between networks."""
        shown = ("n_features", "n_outputs", "n_blocks", "width", "gate", "channels", "connect")
        return ", ".join(f"{key}={self.config[key]!r}" for key in shown)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, however: {name}={value!r}")


def _count_players(columns: list[int], n_features: int) -> int:
    if len(columns) != n_features:
        raise ValueError(f"columns must name a player for each of {n_features} columns, however: {len(columns)} given")
    players = set(columns)
    if players != set(range(len(players))):
        raise ValueError(f"columns must name players 0 to P-1 without a gap, however: players {sorted(players)[:8]}")
    return len(players)


def _as_masks(sets: Sequence[Sequence[int]], n_players: int) -> Tensor:
    if not len(sets):
        raise ValueError("sets must hold at least one set of players, however: it is empty")
    chosen = torch.zeros(len(sets), n_players, dtype=torch.bool)
    for row, members in enumerate(sets):
        for player in members:
            if not 0 <= player < n_players:
                raise ValueError(f"sets must hold players 0 to {n_players - 1}, however: {player} in set {row}")
            chosen[row, player] = True
    return chosen


def _as_baseline(baseline: ArrayLike | Tensor | None, n_features: int, dtype: torch.dtype) -> Tensor:
    if baseline is None:
        return torch.zeros(n_features, dtype=dtype)
    out = torch.as_tensor(baseline, dtype=dtype).detach().clone()
    if out.shape != (n_features,) or not bool(torch.isfinite(out).all()):
        raise ValueError(f"baseline must hold {n_features} finite numbers, however: shape {tuple(out.shape)}: {out}")
    return out


def _check_present(present: Tensor, n_rows: int, n_players: int) -> Tensor:
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


def _first_column(bad: Tensor) -> int:
    return int(bad.any(0).nonzero()[0])
