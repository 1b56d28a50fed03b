"""HarsanyiMLP: the dense network for tables, with either gate. Encoding, training and plotting live elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.networks.base import HarsanyiNet, check_present
from harsanyinet.networks.blocks import (
    ActivationBlock,
    OwnBlock,
    PresenceBlock,
    SoftAnd,
    State,
    chained,
    first_children,
    first_sets,
    join,
)
from harsanyinet.networks.draws import from_seed, xavier
from harsanyinet.networks.structure import Connect

Gate = Literal["activation", "presence"]
DeepWeights = Literal["xavier", "positive"]
FirstChildren = int | float | None
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
        initial_children: FirstChildren | Sequence[FirstChildren] = None,
        deep_weights: DeepWeights = "xavier",
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
        _one_of("deep_weights", deep_weights, ("xavier", "positive"))
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
        if isinstance(initial_children, Sequence):
            initial_children = children = list(initial_children)
        else:
            children = [initial_children] * n_blocks
        if len(children) != n_blocks:
            raise ValueError(
                f"initial_children must hold one number for each of the {n_blocks} blocks, however: {children}"
            )
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
        generator = from_seed(seed)
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
            "initial_children": initial_children, "deep_weights": deep_weights, "channels": self.channels,
            "set_sizes": list(set_sizes), "learn_children": learned, "activation": activation, "dropout": dropout,
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
                tau = first_children(width, d_in, children[level], generator)
                blocks.append(
                    ActivationBlock(d_in, width, beta=beta, gamma=gamma, mode=soft_and, tau=tau, generator=generator)
                )
                if level and deep_weights == "positive":
                    blocks[-1].start_near_the_mean_(generator)  # type: ignore[operator]
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
        flat = [xavier((n_outputs, width * self.channels), generator) for _ in range(n_blocks)]
        self.readouts = nn.ParameterList([w.view(n_outputs, width, self.channels) for w in flat])
        if self.config["output_bias"]:
            self.base = nn.Parameter(torch.zeros(n_outputs))
        else:
            self.register_buffer("base", torch.zeros(n_outputs))
        if dtype is not None:
            self.to(dtype)
            self.baseline.copy_(_as_baseline(baseline, n_features, dtype))

    @classmethod
    def deep(cls, n_features: int, n_outputs: int, **changed: Any) -> HarsanyiMLP:
        """The paper's network, started so that all of its blocks act and learn: see docs/DEPTH.md.

        Two children per unit instead of ten, chosen among all blocks below, and deep units that start near the mean of
        their children. Train it with AdamW and stop by rows held out.

        Args:
            n_features: Number of columns of x.
            n_outputs: Number of raw outputs.
            changed: Any other setting of the activation gate.

        Examples:
            >>> net = HarsanyiMLP.deep(6, 2, seed=0)
            >>> x = torch.randn(500, 6, generator=torch.Generator().manual_seed(0))
            >>> all(bool((z != 0).any()) for z in net.units(x))
            True
        """
        start = {"initial_children": min(2, n_features), "deep_weights": "positive", "connect": "all"}
        return cls(n_features, n_outputs, **{**start, **changed})

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

    def _outputs(self, x: Tensor, present: Tensor | None) -> Tensor:
        """In one piece where the paper's network is trained: it is so small that calls would cost most of the time."""
        plain = self.gate == "activation" and self.connect == "previous"
        if not plain or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return super()._outputs(x, present)
        return chained(self._inputs(x, present)[0], self.base, list(self.blocks), list(self.readouts))  # type: ignore[arg-type]

    def _inputs(self, x: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What the first block sees, (B, n_features), and (B, P) presence bits or None when every player is there."""
        present = self._check(x, present)
        z = x - self.baseline
        return z if present is None else torch.where(present[:, self.columns], z, 0.0), present

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
            present = check_present(present, len(x), self.n_players)
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


def _first_column(bad: Tensor) -> int:
    return int(bad.any(0).nonzero()[0])
