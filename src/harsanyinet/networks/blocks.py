"""Harsanyi blocks: one module for each kind of dense block, and what a block hands to the next.

A block maps the values below to its units and, in the presence gate, presence bits to presence bits. Receptive
fields and readouts live elsewhere (`structure`, `base`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.networks.draws import Draws, uniform, xavier
from harsanyinet.networks.gates import Children, SoftAnd, acting_rows, all_present, choose, paper_unit, select_children
from harsanyinet.networks.paper_training import units_in_training


class State(NamedTuple):
    """What one block hands to the next, of N candidates. In the activation gate values alone."""

    values: Tensor  # (B, N, C), C channels; (B, D) columns below the first block
    present: Tensor | None = None  # (B, N) ones where all players of a candidate are present, else zeros; None: all are
    has_field: Tensor | None = None  # (N,) ones, zeros for candidates with an empty receptive field


def join(states: Sequence[State]) -> State:
    """The candidates of several blocks side by side."""
    values, present, has_field = zip(*states, strict=True)
    return State(
        torch.cat(values, 1),
        None if present[0] is None else torch.cat(present, 1),
        None if has_field[0] is None else torch.cat(has_field),
    )


class ActivationBlock(nn.Module):
    """The paper's block: z_u = ReLU(A_u . (Sigma_u z) * AND over the children of tanh(gamma |z_child|)). No bias."""

    no_weight_decay = trained_apart = ("tau",)

    def __init__(self, tau: Tensor, *, beta: float, gamma: float, mode: SoftAnd, generator: Draws) -> None:
        super().__init__()
        self.beta, self.gamma, self.mode = beta, gamma, mode
        self.tau = nn.Parameter(tau)
        self.weight = nn.Parameter(xavier(tau.shape, generator))

    def start_near_the_mean_(self, generator: Draws) -> None:
        """Weights between a half and one and a half of 1/|S_u|: a sum over acting children is positive, and as large.

        NOTE[DIFF]: weights of either sign close half of all units whose children act, and Xavier's size, for
        all candidates, makes a sum of a few children so small that the paper's SGD hardly moves it.
        """
        size = self.child_mask().sum(1, keepdim=True).clamp_min(1)
        with torch.no_grad():
            self.weight.copy_((uniform(self.weight.shape, generator) + 0.5) / size)

    def child_mask(self) -> Tensor:
        """(U, D) bool."""
        return self.tau.detach() > 0

    def forward(self, below: State) -> State:  # noqa: D102
        z = below.values
        if torch.is_grad_enabled() and (z.requires_grad or self.weight.requires_grad or self.tau.requires_grad):
            return State(units_in_training(z, self.weight, self.tau, (self.beta, self.gamma, self.mode)))
        z = z.flatten(1)  # (B, D)
        children = self.children_of()
        rows = acting_rows(z, children.sigma)
        units = paper_unit(z if rows is None else z[rows], children, self.gamma, self.mode, keep=False).units
        if rows is not None:
            units = z.new_zeros(len(z), len(self.tau)).index_copy_(0, rows, units)
        return State(units[:, :, None])

    def children_of(self) -> Children:
        """Without a gradient: what `paper_unit` needs."""
        return choose(self.weight.detach(), self.child_mask().to(self.tau.dtype))


class PresenceBlock(nn.Module):
    """Units of several channels that share a children set: z_u = present_u * dropout(activation(W_u . children + b_u)).

    present_u is the product of the children's presence bits. A unit whose receptive field is empty has neither inputs
    nor a bias, and every admitted activation maps 0 to 0. `owner` (D,) names the candidate of each column below.
    """

    no_weight_decay = trained_apart = ("tau",)

    def __init__(
        self, owner: Tensor, chosen: Tensor, *, channels: int, beta: float, learned: bool,
        activation: Callable[[Tensor], Tensor], dropout: float, generator: Draws,
    ) -> None:  # fmt: skip
        super().__init__()
        self.beta, self.channels, self.activation = beta, channels, activation
        tau = torch.where(chosen, 1.0, -1.0)
        if learned:
            self.tau = nn.Parameter(tau)
        else:
            self.register_buffer("tau", tau)
        self.register_buffer("owner", owner)
        self.owner: Tensor
        self.one_column_each = torch.equal(owner, torch.arange(len(owner)))
        fan_in = chosen[:, owner].sum(1).clamp_min(1).repeat_interleave(channels)  # (U * C,)
        self.weight = nn.Parameter(_either_sign((len(fan_in), len(owner)), generator) / fan_in.sqrt()[:, None])
        self.bias = nn.Parameter(_either_sign((len(fan_in),), generator) / fan_in.sqrt())
        self.dropout = nn.Dropout(dropout)

    def child_mask(self) -> Tensor:
        """(U, N) bool."""
        return self.tau.detach() > 0

    def forward(self, below: State) -> State:  # noqa: D102
        values, present, has_field = below
        assert has_field is not None
        sigma = select_children(self.tau, self.beta)  # (U, N)
        chosen = sigma if self.one_column_each else sigma[:, self.owner]  # (U, D)
        weight = self.weight.view(len(sigma), self.channels, -1) * chosen[:, None]  # (U, C, D)
        has_field = (sigma.detach() @ has_field > 0).to(values.dtype)  # (U,)
        bias = self.bias * has_field.repeat_interleave(self.channels)
        z = self.dropout(self.activation(F.linear(values.flatten(1), weight.flatten(0, 1), bias)))
        z = z.view(len(z), len(sigma), self.channels)  # (B, U, C)
        if present is None:
            return State(z, None, has_field)
        present = all_present(present, sigma)
        return State(_gated(z, present), present, has_field)


class SameSetBlock(nn.Module):
    """A presence block whose units keep their set: the child of a unit is the unit of the same number below.

    Batched products of (C, C) matrices instead of one masked (U C, U C) matrix. Reads the joined states of the L blocks
    below that are connected, U units of C channels each.
    """

    def __init__(
        self, n_below: int, n_units: int, *, channels: int, activation: Callable[[Tensor], Tensor], dropout: float,
        generator: Draws,
    ) -> None:  # fmt: skip
        super().__init__()
        self.n_below, self.n_units, self.channels, self.activation = n_below, n_units, channels, activation
        scale = 1 / (n_below * channels) ** 0.5
        self.weight = nn.Parameter(_either_sign((n_units, n_below * channels, channels), generator) * scale)
        self.bias = nn.Parameter(_either_sign((n_units, channels), generator) * scale)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("own", torch.eye(n_units, dtype=torch.bool).repeat(1, n_below), persistent=False)
        self.own: Tensor

    def child_mask(self) -> Tensor:
        """(U, L * U) bool."""
        return self.own.clone()

    def forward(self, below: State) -> State:  # noqa: D102
        values, present, has_field = below
        assert has_field is not None
        has_field = has_field[-self.n_units :]  # a unit and its children have the same field
        parts = values.view(len(values), self.n_below, self.n_units, self.channels)
        own = parts.permute(2, 0, 1, 3).flatten(2)  # (U, B, L * C)
        bias = (self.bias * has_field[:, None])[:, None]  # (U, 1, C)
        pre = own * self.weight + bias if own.shape[2] == 1 else torch.baddbmm(bias, own, self.weight)  # (U, B, C)
        z = self.dropout(self.activation(pre)).transpose(0, 1)
        if present is None:
            return State(z, None, has_field)
        present = present[:, -self.n_units :]
        return State(_gated(z, present), present, has_field)


def _gated(z: Tensor, present: Tensor) -> Tensor:
    """Zero where a unit is not present. The product lets gradients reach learned children; `where` keeps NaN out."""
    present = present[:, :, None]
    return z * present if present.requires_grad else torch.where(present > 0, z, 0.0)


def _either_sign(shape: tuple[int, ...], generator: Draws) -> Tensor:
    return uniform(shape, generator) * 2 - 1
