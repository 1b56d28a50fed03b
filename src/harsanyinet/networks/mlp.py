"""HarsanyiMLP: the dense network for tables, with either gate. Encoding, training and plotting live elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.networks.base import HarsanyiNet, present_rows
from harsanyinet.networks.blocks import ActivationBlock, PresenceBlock, SameSetBlock, State, join
from harsanyinet.networks.draws import Draws, first_children, first_sets, from_seed, xavier
from harsanyinet.networks.paper_training import chained
from harsanyinet.networks.settings import PRESENCE_ONLY, MLPSettings
from harsanyinet.networks.structure import Spreader, by_matrices, receptive_fields

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
}
"""Activations of the presence gate. Each maps 0 to 0, so that a unit without children is zero."""


class HarsanyiMLP(HarsanyiNet):
    """The Harsanyi network for tables.

    Two gates. `"activation"` is the paper's block: scalar units, children learned through tau, a soft AND of the
    children's activations, ReLU, no bias; a variable at its baseline is absent. `"presence"` is our generalisation:
    units of several channels, biases and any activation inside the gate, explicit presence bits; NaN is an absent
    variable.

    What is left out is as in `MLPSettings`: 3 blocks of 100 units, the activation gate, beta 10, gamma 100. What a
    network was made with stands in `net.settings`.

    Args:
        n_features, n_outputs, n_blocks, width: Columns of x, raw outputs, blocks, units per block.
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
            exactly so many, a float: that share of the candidates, at least one (0.1 in the authors' code). A sequence
            has one of these for each block.
        deep_weights: First weights of the blocks after the first (activation gate): `"xavier"`, of either sign, or
            `"positive"`, so that a unit starts near the mean of its children and acts wherever all of them do.
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

    in_repr: ClassVar = ("n_features", "n_outputs", "n_blocks", "width", "gate", "channels", "connect")

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        *,
        baseline: ArrayLike | Tensor | None = None,
        sets: Sequence[Sequence[int]] | None = None,
        dtype: torch.dtype | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if sets is not None:
            settings["width"] = max(len(sets), 1)
        self.settings: MLPSettings = MLPSettings(n_features=n_features, n_outputs=n_outputs, **settings)
        s, k = self.settings, self.settings.n_outputs
        self.n_features, self.n_outputs, self.n_players = s.n_features, k, len(set(s.columns or ()))
        self.gate, self.connect = s.gate, s.connect
        if sets is not None and s.gate == "activation":
            raise ValueError(PRESENCE_ONLY)
        generator = from_seed(s.seed)
        if s.gate == "activation":
            first = None
        elif sets is None:
            first = first_sets(s.width, self.n_players, s.set_sizes, generator)
        else:
            first = _as_masks(sets, self.n_players)
        dtype = dtype or torch.get_default_dtype()
        self.register_buffer("columns", torch.tensor(s.columns), persistent=False)  # a setting, no weight
        self.register_buffer("baseline", _as_baseline(baseline, s.n_features, dtype))
        self.columns: Tensor
        self.baseline: Tensor
        self.blocks = nn.ModuleList(
            self._activation_block(level, generator) if first is None else self._presence_block(level, first, generator)
            for level in range(s.n_blocks)
        )
        flat = [xavier((k, s.width * (s.channels or 1)), generator) for _ in self.blocks]
        self.readouts = nn.ParameterList([weight.view(k, s.width, -1) for weight in flat])
        self.make_base_()
        self.to(dtype)

    def _activation_block(self, level: int, generator: Draws) -> ActivationBlock:
        s = self.settings
        d_in = s.n_features if level == 0 else self._n_below(level) * s.width
        tau = first_children(s.width, d_in, s.children_per_block[level], generator)
        block = ActivationBlock(tau, beta=s.beta, gamma=s.gamma, mode=s.soft_and, generator=generator)
        if level and s.deep_weights == "positive":
            block.start_near_the_mean_(generator)
        return block

    def _presence_block(self, level: int, first: Tensor, generator: Draws) -> PresenceBlock | SameSetBlock:
        """The first block chooses players; later ones choose units below or, unless children are learned, keep sets."""
        s, n_below = self.settings, self._n_below(level)
        inside: dict[str, Any] = {
            "channels": s.channels, "activation": ACTIVATIONS[s.activation], "dropout": s.dropout,
            "generator": generator,
        }  # fmt: skip
        if level > 0 and not s.learn_children:
            return SameSetBlock(n_below, s.width, **inside)
        owner, chosen = self.columns.clone(), first
        if level > 0:
            owner = torch.arange(n_below * s.width).repeat_interleave(s.channels or 1)
            chosen = torch.eye(s.width, dtype=torch.bool).repeat(1, n_below)
        return PresenceBlock(owner, chosen, beta=s.beta, learned=bool(s.learn_children), **inside)

    def _n_below(self, level: int) -> int:
        """How many blocks a block chooses its children in."""
        return level if self.connect == "all" else 1

    @classmethod
    def deep(cls, n_features: int, n_outputs: int, **changed: Any) -> HarsanyiMLP:
        """The paper's network, started so that all of its blocks act and learn: see docs/DEPTH.md.

        Two children per unit instead of ten, chosen among all blocks below, and deep units that start near the mean of
        their children. Train it with AdamW and stop by rows held out.

        Args:
            n_features, n_outputs, changed: As for the class; any other setting of the activation gate.

        Examples:
            >>> net = HarsanyiMLP.deep(6, 2, seed=0)
            >>> x = torch.randn(500, 6, generator=torch.Generator().manual_seed(0))
            >>> all(bool((z != 0).any()) for z in net.units(x))
            True
        """
        start = {"initial_children": min(2, n_features), "deep_weights": "positive", "connect": "all"}
        return cls(n_features, n_outputs, **{**start, **changed})

    def child_masks(self) -> list[Tensor]:
        """The children of every block: of columns (activation gate) or players (presence gate), then of units."""
        return self.chosen_children()

    def fields_of(self, chosen: list[Tensor]) -> list[Tensor]:
        """The union of the children's receptive fields, block by block."""
        return receptive_fields(chosen, self.player_map(), self.connect)

    def readout_weights(self) -> list[Tensor]:
        """The parameters themselves."""
        return list(self.readouts)

    def spreader(self, readouts: Sequence[Tensor]) -> Spreader:
        """One matrix per block."""
        return by_matrices(readouts, self.structure())

    def shown(self, x: Tensor) -> NDArray[Any] | None:
        """The columns in the order of the players, where every player is one column."""
        if self.n_players < self.n_features:
            return None
        values = x.detach().cpu().numpy().copy()
        order = np.argsort(self.columns.cpu().numpy())
        return values if (np.diff(order) > 0).all() else values[:, order]

    def player_map(self) -> Tensor:
        """(n_features, P) bool where children are columns (activation gate); the identity where they are players."""
        one_hot = F.one_hot(self.columns, self.n_players) > 0
        return one_hot if self.gate == "activation" else torch.eye(self.n_players, device=one_hot.device) > 0

    def units(self, x: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """(B, U, C) per block; a unit is zero as soon as one player of its receptive field is absent."""
        z, present = self._inputs(x, present)
        below = State(z)
        if self.gate == "presence":
            below = State(z, None if present is None else present.to(z.dtype), z.new_ones(self.n_players))
        states: list[State] = []
        for block in self.blocks:
            if states:
                below = join(states) if self.connect == "all" else states[-1]
            states.append(block(below))
        return [state.values for state in states]

    def masked_outputs(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """By real forward passes."""
        return lambda present: self(x.expand(len(present), -1), present=present)

    def outputs(self, x: Tensor, present: Tensor | None) -> Tensor:
        """In one piece where the paper's network is trained: it is so small that calls would cost most of the time."""
        plain = self.gate == "activation" and self.connect == "previous"
        if not plain or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self.read(self.units(x, present))
        blocks: list[Any] = list(self.blocks)
        parameters = [p for block, r in zip(blocks, self.readouts, strict=True) for p in (block.weight, block.tau, r)]
        settings = (blocks[0].beta, blocks[0].gamma, blocks[0].mode)
        return chained(self._inputs(x, present)[0], self.base, parameters, settings)

    def _inputs(self, x: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What the first block sees, (B, n_features), and (B, P) presence bits or None when every player is there."""
        present = self._check(x, present)
        z = x - self.baseline
        return z if present is None else torch.where(present[:, self.columns], z, 0.0), present

    def _check(self, x: Tensor, present: Tensor | None) -> Tensor | None:
        """Checks the input and returns (B, P) presence bits, or None when every player is there."""
        self.check_tensor(x, "rows", self.n_features)
        if x.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"the network works in float32 or float64, however: {x.dtype}")
        if present is not None:
            present = present_rows(present, len(x), self.n_players)
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
        """Presence bits (B, P) in which NaN is absence."""
        if self.gate == "activation":
            return present
        missing = torch.isnan(x).to(x.dtype)
        absent = torch.zeros_like(x[:, :1]).expand(-1, self.n_players).index_add(1, self.columns, missing) > 0
        return ~absent if present is None else present & ~absent


def _as_masks(sets: Sequence[Sequence[int]], n_players: int) -> Tensor:
    if not len(sets):
        raise ValueError("sets must hold at least one set of players, however: it is empty")
    chosen = torch.zeros(len(sets), n_players, dtype=torch.bool)
    for row, members in enumerate(sets):
        odd = [player for player in members if not 0 <= player < n_players]
        if odd:
            raise ValueError(f"sets must hold players 0 to {n_players - 1}, however: {odd[0]} in set {row}")
        chosen[row, list(members)] = True
    return chosen


def _as_baseline(baseline: ArrayLike | Tensor | None, n_features: int, dtype: torch.dtype) -> Tensor:
    if baseline is None:
        return torch.zeros(n_features, dtype=dtype)
    out = torch.as_tensor(baseline, dtype=dtype).detach().clone()
    if out.shape != (n_features,) or not bool(torch.isfinite(out).all()):
        raise ValueError(f"baseline must hold {n_features} finite numbers, however: shape {tuple(out.shape)}: {out}")
    return out


def _first_column(bad: Tensor) -> int:
    return int(bad.any(0).nonzero()[0])
