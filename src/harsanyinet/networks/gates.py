"""How children are chosen, the AND of each gate, and the paper's unit: functions of tensors. No module, no weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

SoftAnd = Literal["geometric", "product"]
_TINY = {dtype: torch.finfo(dtype).tiny for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}


class _StraightThrough(torch.autograd.Function):
    """1[tau > 0] with the gradient of beta * sigmoid(tau)."""

    @staticmethod
    def forward(ctx: Any, tau: Tensor, beta: float) -> Tensor:
        ctx.save_for_backward(tau)
        ctx.beta = beta
        return (tau > 0).to(tau.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (tau,) = ctx.saved_tensors
        soft = torch.sigmoid(tau)
        return grads[0] * (ctx.beta * soft * (1 - soft)), None


def select_children(tau: Tensor, beta: float) -> Tensor:
    """Sigma of the paper: 1 for children (tau > 0), 0 otherwise, with the straight-through gradient.

    d Sigma / d tau = beta * exp(-tau) / (1 + exp(-tau))^2.
    """
    if not (tau.requires_grad and torch.is_grad_enabled()):
        return (tau > 0).to(tau.dtype)
    selected: Tensor = _StraightThrough.apply(tau, beta)  # type: ignore[no-untyped-call]
    return selected


def and_gate_(t: Tensor, sigma: Tensor, mode: SoftAnd = "geometric") -> Tensor:
    """Soft AND (B, U) of t (B, D) in [0, 1] over children sigma (U, D), zeros and ones. No gradient; overwrites t.

    prod_j (sigma_uj t_j + 1 - sigma_uj), to the power 1/|S_u| if geometric; 1 without children. Matrix products only:
    the product is the exponential of a sum of logarithms, and a dead child (t = 0) adds a number so far below every sum
    of children that act that the gate is exactly zero. No (B, U, D) tensor exists.
    """
    size = sigma.sum(1, keepdim=True).clamp_min_(1)
    return _opened(_log_gate_(t.clamp_min_(_TINY[t.dtype]).log_(), sigma / size, size, mode).exp_())


def all_present(present: Tensor, sigma: Tensor) -> Tensor:
    """1 for units (B, U) whose children are all present, else 0, from present (B, D) and sigma (U, D), zeros and ones.

    With the gradient of prod_j (sigma_uj present_j + 1 - sigma_uj).
    """
    every: Tensor = _AllPresent.apply(present, sigma)  # type: ignore[no-untyped-call]
    return every


class _AllPresent(torch.autograd.Function):
    """The product over all candidates of zeros and ones: where one factor is zero, its own slope is left."""

    @staticmethod
    def forward(ctx: Any, present: Tensor, sigma: Tensor) -> Tensor:
        ctx.save_for_backward(present, sigma)
        return ((1 - present) @ sigma.T == 0).to(present.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        present, sigma = ctx.saved_tensors
        absent = 1 - present
        n_absent = absent @ sigma.T  # (B, U)
        of_all, of_one = grads[0] * (n_absent == 0), grads[0] * (n_absent == 1)
        of_present = torch.where(absent > 0, of_one @ sigma, of_all @ sigma)
        return of_present, torch.where(sigma > 0, -(of_one.T @ absent), -(of_all.T @ absent))


def _log_gate_(logs: Tensor, shares: Tensor, size: Tensor, mode: SoftAnd) -> Tensor:
    """(B, D) -> (B, U), given 1/|S_u| for the children (U, D) and |S_u|, at least 1, (U, 1); overwrites the logarithms.

    In place and without masks, log(0) or underflow, each of which costs several times the arithmetic on a CPU. Both
    thresholds, here and in `_opened`, look at a unit's own children only, so a flushed gate is flushed whoever else is
    present.
    """
    smallest = math.log(_TINY[logs.dtype])
    far_below = -1e4 * max(logs.shape[1], 1)  # divided by any |S_u| <= D still below every sum of children that act
    mean = F.linear(torch.threshold_(logs, smallest + 0.01, far_below), shares)
    if mode == "product":
        mean.mul_(size.t())
    return mean.clamp_min_(0.95 * smallest)


def _opened(gate: Tensor) -> Tensor:
    """Zero where `_log_gate_` met its lower bound; in place where autograd does not look."""
    zero_out = torch.threshold if gate.requires_grad else torch.threshold_
    return zero_out(gate, 1.01 * _TINY[gate.dtype] ** 0.95, 0.0)


class Children(NamedTuple):
    """The children of the units of a block, and what is made of them once for all rows."""

    sigma: Tensor  # (U, D) zeros and ones
    size: Tensor  # (U, 1) of children, at least one
    shares: Tensor  # (U, D) sigma / size
    weight: Tensor  # (U, D) of children, zero elsewhere


def choose(weight: Tensor, sigma: Tensor) -> Children:
    """From the weights (U, D) of all candidates and Sigma (U, D)."""
    size = sigma.sum(1, keepdim=True).clamp_min_(1)
    return Children(sigma, size, sigma / size, weight * sigma)


class Unit(NamedTuple):
    """The steps of the paper's unit: (B, D) of candidates, (B, U) of units."""

    t: Tensor  # tanh(gamma |z|), at least the smallest number
    log_gate: Tensor
    gate: Tensor  # exactly zero where a child is dead
    total: Tensor  # A_u . (Sigma_u z)
    units: Tensor


def paper_unit(
    z: Tensor,
    children: Children,
    gamma: float,
    mode: SoftAnd,
    *,
    keep: bool = True,
    tanh: Callable[[Tensor], Tensor] = torch.tanh_,
    relu: Callable[[Tensor], Tensor] = torch.relu_,
) -> Unit:
    """z_u = ReLU(A_u . (Sigma_u z) * AND over the children of tanh(gamma |z_child|)): the one place that computes it.

    Training, inference and DeepSHAP all call it. Autograd may follow it to z (B, D), through modules `tanh` and `relu`
    that others have hooks on; the gradient of the children is in `paper_training`. Without `keep` only the units are
    right, and memory is written again.
    """
    keep = keep or torch.is_grad_enabled()
    t = tanh(z.abs().mul_(gamma))
    t = t.clamp_min(_TINY[z.dtype]) if t.requires_grad else t.clamp_min_(_TINY[z.dtype])
    log_gate = _log_gate_(t.log() if keep else t.log_(), children.shares, children.size, mode)
    gate = _opened(log_gate.exp() if keep else log_gate.exp_())
    if keep:
        total = torch.mm(z, children.weight.t())
        return Unit(t, log_gate, gate, total, relu(total * gate))
    total = torch.mm(z, children.weight.t(), out=t if t.shape == gate.shape else None)
    return Unit(t, log_gate, gate, total, relu(total.mul_(gate)))


def acting_rows(z: Tensor, sigma: Tensor | None = None) -> Tensor | None:
    """Positions of the rows of (B, D) that matter, in inference; None if that is most of them.

    Those that are not zero all over or, with the children sigma (U, D) of the units above, those in which some unit has
    only children that are not zero: deep blocks of the activation gate are mostly silent.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or not len(z):
        return None
    if sigma is not None and (first := acting_rows(z)) is not None:  # the cheaper question first
        second = acting_rows(z[first], sigma)
        return first if second is None else first[second]
    for some in (z[:: 1 + len(z) // 64], z):  # a few rows say at little cost whether the rest is worth a look
        if sigma is None:
            acting = some.amax(1) > 0
            if some.min() < 0:
                acting |= some.amin(1) < 0
        else:
            missing = F.linear(some.sign().abs_(), sigma, -sigma.sum(1).clamp_min(1))  # (B, U), 0 if none is
            acting = missing.amax(1) >= 0
        rows = acting.nonzero()[:, 0]
        if 2 * len(rows) >= len(some):
            return None
    return rows
