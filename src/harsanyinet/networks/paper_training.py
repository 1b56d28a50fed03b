"""The paper's block in training: its units, and the whole chain of blocks, with gradients written by hand.

Autograd could follow `gates.paper_unit`, but a step of the paper's small network costs little arithmetic and many
calls; and most rows of a deep block are silent, so that neither their units nor their gradients are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from harsanyinet.networks.gates import Children, SoftAnd, Unit, choose, paper_unit

PaperSettings = tuple[float, float, SoftAnd]
"""beta, gamma and mode of a block."""


class _Acting(NamedTuple):
    """What an activation block keeps in training, of rows in which all children of some unit act; ReLU shuts others."""

    rows: Tensor | None  # positions of the rows kept, None for all
    z: Tensor  # (B, D)
    unit: Unit
    children: Children


def _act(z: Tensor, deep: bool, weight: Tensor, tau: Tensor, settings: PaperSettings) -> _Acting | None:
    """The units of (B, D) candidates; of a deep block in the rows in which a unit may act, None if there are none."""
    (_, gamma, mode), rows = settings, None
    children = choose(weight, tau.sign().relu_())
    if deep:
        acting = z.sign().abs_()
        missing = torch.addmm(children.size.t(), acting, children.sigma.t(), beta=-1)  # (B, U), 0 if none is
        rows = (missing.amax(1) >= 0).nonzero().view(-1)
        if not len(rows):
            return None
        z = z.index_select(0, rows)
    return _Acting(rows, z, paper_unit(z, children, gamma, mode), children)


def _gradients(
    kept: _Acting, grad: Tensor, weight: Tensor, tau: Tensor, settings: PaperSettings, deep: bool
) -> tuple[Tensor | None, Tensor, Tensor]:
    """From the gradient (B, U) of the units in the rows kept: that of z in these rows, if deep, and of weight and tau.

    That of the paper's formula, in which Sigma stands before and inside the tanh: a candidate's factor is
    f = Sigma tanh(gamma Sigma |z|) + 1 - Sigma, so that df/dSigma is t + gamma |z| (1 - t^2) - 1 for a child and -1 for
    any other, whatever its z. A dead unit passes nothing on, since ReLU'(0) = 0.
    """
    beta, gamma, mode = settings
    _, z, (t, log_gate, gate, total, units), (sigma, size, shares, weight_of_children) = kept
    of_total = torch.ops.aten.threshold_backward(grad, units, 0).mul_(gate)  # (B, U)
    of_log = of_total * total  # (B, U): of the logarithm of the gate
    inverse = t.reciprocal()
    slope = inverse - t  # of log tanh: (1 - t^2) / t
    of_child = (z.abs() * slope).mul_(gamma).sub_(inverse).add_(1)  # df/dSigma / f
    of_z = None
    if deep:
        of_z = torch.mm(of_log, shares if mode == "geometric" else sigma)
        of_z.mul_(slope.copysign_(z))
        of_z.addmm_(of_total, weight_of_children, beta=gamma)
    of_chosen = torch.mm(of_total.t(), z)
    of_tau = torch.where(sigma > 0, torch.mm(of_log.t(), of_child), -of_log.sum(0)[:, None])
    if mode == "geometric":  # the gate is a root, in which every child counts
        of_tau.sub_(of_log.mul_(log_gate).sum(0)[:, None]).div_(size)
    of_tau.addcmul_(of_chosen, weight)
    of_tau = torch.ops.aten.sigmoid_backward(of_tau, torch.sigmoid(tau)).mul_(beta)
    return of_z, of_chosen.mul_(sigma), of_tau


def units_in_training(z: Tensor, weight: Tensor, tau: Tensor, settings: PaperSettings) -> Tensor:
    """The units (B, U, 1) of an activation block over z (B, ...), D candidates in a row, whose gradients are wanted."""
    units: Tensor = _Units.apply(z, weight, tau, settings)  # type: ignore[no-untyped-call]
    return units


class _Units(torch.autograd.Function):
    """`units_in_training` for autograd."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, weight: Tensor, tau: Tensor, settings: PaperSettings) -> Tensor:
        ctx.shape, ctx.settings = z.shape, settings
        z = z.flatten(1)
        deep = ctx.needs_input_grad[0] and not torch.compiler.is_compiling()  # the first block is never silent
        kept = _act(z, deep, weight, tau, settings)
        if kept is None:
            ctx.save_for_backward(weight, tau)
            return z.new_zeros(len(z), len(tau), 1)
        ctx.rows = kept.rows
        ctx.save_for_backward(weight, tau, kept.z, *kept.unit, *kept.children)
        units = kept.unit.units[:, :, None]
        return units if ctx.rows is None else z.new_zeros(len(z), len(tau), 1).index_copy_(0, ctx.rows, units)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, tau, *kept = ctx.saved_tensors
        if not kept:
            return tau.new_zeros(ctx.shape), torch.zeros_like(weight), torch.zeros_like(tau), None
        grad = grad[:, :, 0] if ctx.rows is None else grad[ctx.rows, :, 0]
        acting = _Acting(ctx.rows, kept[0], Unit(*kept[1:6]), Children(*kept[6:]))
        of_z, of_weight, of_tau = _gradients(acting, grad, weight, tau, ctx.settings, ctx.needs_input_grad[0])
        if of_z is not None:
            if ctx.rows is not None:
                of_z = of_z.new_zeros(ctx.shape[0], of_z.shape[1]).index_copy_(0, ctx.rows, of_z)
            of_z = of_z.view(ctx.shape)
        return of_z, of_weight, of_tau, None


def chained(z: Tensor, base: Tensor, parameters: Sequence[Tensor], settings: PaperSettings) -> Tensor:
    """The outputs (B, K) of activation blocks one upon the other, for training: what is silent costs next to nothing.

    From z (B, D), base (K,) and, of each block in turn, weight and tau (U, D) and the readout (K, U, 1).
    """
    out: Tensor = _Chain.apply(settings, z, base, *parameters)  # type: ignore[no-untyped-call]
    return out


class _Chain(torch.autograd.Function):
    """Blocks and readouts in one: a block gets only the rows in which some unit below may act."""

    @staticmethod
    def forward(ctx: Any, settings: PaperSettings, z: Tensor, base: Tensor, *parameters: Tensor) -> Tensor:
        ctx.settings = settings
        kept: list[tuple[_Acting, Tensor | None]] = []  # of each block up to the first silent one; rows of the whole
        rows, out = None, base.repeat(len(z), 1)
        with torch.inference_mode():  # spares every call below what autograd does to see that it is not wanted
            for level, (weight, tau, readout) in enumerate(zip(*[iter(parameters)] * 3, strict=True)):
                acting = _act(z, level > 0, weight, tau, settings)
                if acting is None:
                    break
                z = acting.unit.units
                if acting.rows is None:
                    out.addmm_(z, readout.squeeze(2).t())
                else:
                    rows = acting.rows if rows is None else rows[acting.rows]
                    out.index_add_(0, rows, torch.mm(z, readout.squeeze(2).t()))
                kept.append((acting, rows))
        ctx.kept = kept
        ctx.save_for_backward(*parameters)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        parameters, kept = ctx.saved_tensors, ctx.kept
        gradients: list[Tensor] = [torch.zeros_like(p) for p in parameters[3 * len(kept) :]]
        of_z = above = None  # of the candidates of the block above, and in which rows
        for level in reversed(range(len(kept))):
            (acting, rows), (weight, tau, readout) = kept[level], parameters[3 * level : 3 * level + 3]
            here = grad if rows is None else grad.index_select(0, rows)
            of_units = torch.mm(here, readout.squeeze(2))
            if of_z is not None and above is not None:
                of_units.index_add_(0, above, of_z)
            deep = level > 0 or ctx.needs_input_grad[1]
            of_z, of_weight, of_tau = _gradients(acting, of_units, weight, tau, ctx.settings, deep)
            gradients[:0] = of_weight, of_tau, torch.mm(here.t(), acting.unit.units)[:, :, None]
            above = acting.rows
        return None, of_z, grad.sum(0) if ctx.needs_input_grad[2] else None, *gradients
