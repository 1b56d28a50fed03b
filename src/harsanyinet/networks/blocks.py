"""Harsanyi blocks: how children are selected, the two gates, and one module for each kind of block. torch only.

A block maps the values below to its units and, in the presence gate, presence bits to presence bits. Receptive
fields and readouts live elsewhere (`structure`, `base`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from harsanyinet.networks.draws import Draws, uniform, xavier

SoftAnd = Literal["geometric", "product"]
_TINY = {dtype: torch.finfo(dtype).tiny for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}


class State(NamedTuple):
    """What one block hands to the next.

    Attributes:
        values: (B, N, C), C channels of N candidates; (B, D) columns below the first block.
        alive: (B, N) zeros and ones, or None when every player is present (and in the activation gate).
        living: (N,) zeros and ones, zero for a candidate with an empty receptive field; None in the activation gate.
        rows: Positions of the rows whose values are not all zero, where a block has found out; else None.
    """

    values: Tensor
    alive: Tensor | None = None
    living: Tensor | None = None
    rows: Tensor | None = None


def join(states: Sequence[State]) -> State:
    """The candidates of several blocks side by side."""
    values, alive, living, _ = zip(*states, strict=True)
    return State(
        torch.cat(values, 1),
        None if alive[0] is None else torch.cat(alive, 1),
        None if living[0] is None else torch.cat(living),
    )


def acting_rows(z: Tensor, sigma: Tensor | None = None) -> Tensor | None:
    """Positions of the rows of (B, D) that matter, in inference; None if that is most of them.

    Those that are not zero all over or, with the children sigma (U, D) of the units above, those in which some unit has
    all its children alive: deep blocks of the activation gate are mostly silent.
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

    Shape:
        - tau: (U, D), returns (U, D) of the same dtype.
    """
    if not (tau.requires_grad and torch.is_grad_enabled()):
        return (tau > 0).to(tau.dtype)
    selected: Tensor = _StraightThrough.apply(tau, beta)  # type: ignore[no-untyped-call]
    return selected


def and_gate_(t: Tensor, sigma: Tensor, mode: SoftAnd = "geometric") -> Tensor:
    """Soft AND over each unit's children: prod_j (sigma_uj t_j + 1 - sigma_uj), to the power 1/|S_u| if geometric.

    Matrix products only: the product is the exponential of a sum of logarithms, and a dead child (t = 0) adds a
    number so far below every sum of living children that the gate is exactly zero. No (B, U, D) tensor exists.
    The value without a gradient; overwrites t.

    Shape:
        - t: (B, D) in [0, 1]; sigma: (U, D) of zeros and ones; returns (B, U). A unit without children gets 1.
    """
    size = sigma.sum(1, keepdim=True).clamp_min_(1)
    return _opened(_log_gate_(t.clamp_min_(_TINY[t.dtype]).log_(), sigma / size, size, mode).exp_())


def all_alive(alive: Tensor, sigma: Tensor) -> Tensor:
    """1 for units whose children are all alive, else 0, with the gradient of prod_j (sigma_uj alive_j + 1 - sigma_uj).

    Shape:
        - alive: (B, D) and sigma: (U, D), zeros and ones; returns (B, U).
    """
    if torch.is_grad_enabled() and (alive.requires_grad or sigma.requires_grad):
        found: Tensor = _AllAlive.apply(alive, sigma)  # type: ignore[no-untyped-call]
        return found
    return ((1 - alive) @ sigma.T == 0).to(alive.dtype)


class _AllAlive(torch.autograd.Function):
    """The product over all candidates of zeros and ones: where one factor is zero, its own slope is left."""

    @staticmethod
    def forward(ctx: Any, alive: Tensor, sigma: Tensor) -> Tensor:
        ctx.save_for_backward(alive, sigma)
        return ((1 - alive) @ sigma.T == 0).to(alive.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        alive, sigma = ctx.saved_tensors
        dead = 1 - alive
        n_dead = dead @ sigma.T  # (B, U)
        of_all, of_one = grads[0] * (n_dead == 0), grads[0] * (n_dead == 1)
        of_alive = torch.where(dead > 0, of_one @ sigma, of_all @ sigma)
        return of_alive, torch.where(sigma > 0, -(of_one.T @ dead), -(of_all.T @ dead))


def _log_gate_(logs: Tensor, shares: Tensor, size: Tensor, mode: SoftAnd) -> Tensor:
    """(B, D) -> (B, U), given 1/|S_u| for the children (U, D) and |S_u|, at least 1, (U, 1); overwrites the logarithms.

    In place and without masks, log(0) or underflow, each of which costs several times the arithmetic on a CPU. Both
    thresholds, here and in `_opened`, look at a unit's own children only, so a flushed gate is flushed whoever else is
    present.
    """
    smallest = math.log(_TINY[logs.dtype])
    far_below = -1e4 * max(logs.shape[1], 1)  # divided by any |S_u| <= D still below every sum of living children
    mean = F.linear(torch.threshold_(logs, smallest + 0.01, far_below), shares)
    if mode == "product":
        mean.mul_(size.t())
    return mean.clamp_min_(0.95 * smallest)


def _opened(gate: Tensor) -> Tensor:
    """Zero where `_log_gate_` met its lower bound; in place where autograd does not look."""
    zero_out = torch.threshold if gate.requires_grad else torch.threshold_
    return zero_out(gate, 1.01 * _TINY[gate.dtype] ** 0.95, 0.0)


# The paper's unit -------------------------------------------------------------------------------------------------


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

    Training, inference and DeepSHAP all call it. Autograd may follow it to z, through modules `tanh` and `relu` that
    others have hooks on; the gradient of the children is in `_gradients`.

    Args:
        z: (B, D).
        children: What `choose` returns.
        gamma: Sharpness of the AND.
        mode: Root or product.
        keep: Whether all steps are wanted; otherwise only the units are right, and memory is written again.
        tanh: In place by default.
        relu: Likewise.
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


def first_children(n_units: int, n_candidates: int, n_children: int | float | None, generator: Draws) -> Tensor:
    """Initial tau of the paper's block: +1 for some random candidates of each unit, -1 for all others.

    Args:
        n_units: U.
        n_candidates: D.
        n_children: None: the paper's 10, or all candidates where there are fewer. An int: exactly so many. A float:
            that share of the candidates, at least one; 0.1 is what the authors' code does.
        generator: Source of randomness.
    """
    if n_children is None:
        n = min(10, n_candidates)
    elif isinstance(n_children, float):
        if not 0 < n_children <= 1:
            raise ValueError(f"initial_children as a share must lie in (0, 1], however: initial_children={n_children}")
        n = max(1, int(n_children * n_candidates))
    else:
        n = n_children
        if not 0 <= n <= n_candidates:
            raise ValueError(
                f"initial_children must lie between 0 and the {n_candidates} candidates of a block, however: "
                f"initial_children={n}; pass None for the paper's rule, min(10, candidates)"
            )
    ranks = uniform((n_units, n_candidates), generator).argsort(1).argsort(1)
    return torch.where(ranks < n, 1.0, -1.0)


def first_sets(n_units: int, n_players: int, sizes: Sequence[int], generator: Draws) -> Tensor:
    """Initial children of the presence block, (U, P) bool: one unit per variable, then random sets of given sizes.

    The random sets are dealt from shuffled decks of all variables, so that each variable occurs about equally often.
    With fewer units than variables there are no single-variable units, and the sets are made large enough to hold
    every variable once.
    """
    n_single = n_players if n_units >= n_players else 0
    smallest = 1 if n_single else -(-n_players // n_units)
    chosen = torch.zeros(n_units, n_players, dtype=torch.bool)
    if generator is None:
        return chosen
    chosen[:n_single] = torch.eye(n_players, dtype=torch.bool)[:n_single]
    deck: list[int] = []
    for unit in range(n_single, n_units):
        size = min(max(sizes[(unit - n_single) % len(sizes)], smallest), n_players)
        hand: set[int] = set()
        while len(hand) < size:
            deck = deck or torch.randperm(n_players, generator=generator).tolist()
            hand.add(deck.pop())
        chosen[unit, list(hand)] = True
    return chosen


class ActivationBlock(nn.Module):
    """The paper's block: z_u = ReLU(A_u . (Sigma_u z) * AND over the children of tanh(gamma |z_child|)). No bias.

    Shape:
        - the state of D candidates; returns the state of U units of one channel.
    """

    no_weight_decay = ("tau",)
    trained_apart = ("tau",)

    def __init__(
        self,
        d_in: int,
        n_units: int,
        *,
        beta: float,
        gamma: float,
        mode: SoftAnd,
        tau: Tensor,
        generator: Draws,
    ) -> None:
        super().__init__()
        self.beta, self.gamma, self.mode = beta, gamma, mode
        self.tau = nn.Parameter(tau)
        self.weight = nn.Parameter(xavier((n_units, d_in), generator))

    def start_near_the_mean_(self, generator: Draws) -> None:
        """Weights between a half and one and a half of 1/|S_u|: the sum over living children is positive, and as large.

        NOTE[DIFF]: weights of either sign close half of all units whose children are alive, and Xavier's size, for
        all candidates, makes a sum of a few children so small that the paper's SGD hardly moves it.
        """
        size = self.child_mask().sum(1, keepdim=True).clamp_min(1)
        with torch.no_grad():
            self.weight.copy_((uniform(tuple(self.weight.shape), generator) + 0.5) / size)

    def child_mask(self) -> Tensor:
        """(U, D) bool."""
        return self.tau.detach() > 0

    def forward(self, below: State) -> State:  # noqa: D102
        z = below.values
        if torch.is_grad_enabled() and (z.requires_grad or self.weight.requires_grad or self.tau.requires_grad):
            settings = (self.beta, self.gamma, self.mode)
            units, rows = _Units.apply(z, below.rows, self.weight, self.tau, settings)  # type: ignore[no-untyped-call]
            return State(units, rows=rows)
        z = z.flatten(1)  # (B, D)
        children = self.children_of()
        rows = acting_rows(z, children.sigma)
        if rows is None:
            return State(paper_unit(z, children, self.gamma, self.mode, keep=False).units[:, :, None])
        units = paper_unit(z[rows], children, self.gamma, self.mode, keep=False).units
        return State(z.new_zeros(len(z), len(self.tau)).index_copy_(0, rows, units)[:, :, None])

    def children_of(self) -> Children:
        """Without a gradient: what `paper_unit` needs."""
        return choose(self.weight.detach(), (self.tau.detach() > 0).to(self.tau.dtype))


_Settings = tuple[float, float, SoftAnd]  # beta, gamma, mode


class _Acting(NamedTuple):
    """What an activation block keeps of a forward pass in training: (B, D) of candidates, (B, U) and (U, D) of units.

    ReLU lets no gradient through a unit that is zero, so that only rows count in which some unit has all its children
    alive. Deep blocks of the activation gate are mostly silent. A step of the paper's small network costs little
    arithmetic and many calls, which is why there are few of them here, and none for autograd to follow.
    """

    rows: Tensor | None  # positions of the rows kept, None for all
    z: Tensor
    t: Tensor
    log_gate: Tensor
    gate: Tensor
    total: Tensor
    units: Tensor
    sigma: Tensor
    size: Tensor
    shares: Tensor
    chosen: Tensor


def _act(z: Tensor, alive: Tensor | None, weight: Tensor, tau: Tensor, settings: _Settings) -> _Acting | None:
    """The units of (B, D) candidates. If zeros and ones say which are alive: of acting rows, None without any."""
    (_, gamma, mode), rows = settings, None
    children = choose(weight, tau.sign().relu_())
    if alive is not None:
        missing = torch.addmm(children.size.t(), alive, children.sigma.t(), beta=-1)  # (B, U), 0 if none is
        rows = (missing.amax(1) >= 0).nonzero().view(-1)
        if not len(rows):
            return None
        z = z.index_select(0, rows)
    return _Acting(rows, z, *paper_unit(z, children, gamma, mode), *children)


def _gradients(
    kept: _Acting, grad: Tensor, weight: Tensor, tau: Tensor, settings: _Settings, deep: bool
) -> tuple[Tensor | None, Tensor, Tensor]:
    """From the gradient (B, U) of the units in the rows kept: that of z in these rows, if deep, and of weight and tau.

    That of the paper's formula, in which Sigma stands before and inside the tanh: a candidate's factor is
    f = Sigma tanh(gamma Sigma |z|) + 1 - Sigma, so that df/dSigma is t + gamma |z| (1 - t^2) - 1 for a child and -1 for
    any other, whatever its z. A dead unit passes nothing on, since ReLU'(0) = 0.
    """
    beta, gamma, mode = settings
    _, z, t, log_gate, gate, total, units, sigma, size, shares, weight_of_children = kept
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


class _Units(torch.autograd.Function):
    """The units of an activation block in training.

    Shape:
        - z: (B, ...) with D candidates in a row; rows: those that are not all zero, or None if that is not known;
          weight, tau: (U, D); returns (B, U, 1) and its rows that are not all zero, or None.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, rows: Tensor | None, weight: Tensor, tau: Tensor, settings: _Settings
    ) -> tuple[Tensor, Tensor | None]:
        ctx.shape, ctx.settings = z.shape, settings
        z = z.flatten(1)
        deep = ctx.needs_input_grad[0] and not torch.compiler.is_compiling()  # the first block is never silent
        known = z if rows is None else z[rows]
        kept = _act(known, known.sign().abs_() if deep else None, weight, tau, settings)
        if kept is None:
            ctx.save_for_backward(weight, tau)
            return z.new_zeros(len(z), len(tau), 1), torch.empty(0, dtype=torch.int64, device=z.device)
        if kept.rows is not None:
            rows = kept.rows if rows is None else rows[kept.rows]
        ctx.rows = rows
        ctx.save_for_backward(weight, tau, *kept[1:])
        units = kept.units[:, :, None]
        if rows is not None:
            units = z.new_zeros(len(z), len(tau), 1).index_copy_(0, rows, units)
        return units, rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        weight, tau, *kept = ctx.saved_tensors
        if not kept:
            of_z, of_weight, of_tau = tau.new_zeros(ctx.shape), torch.zeros_like(weight), torch.zeros_like(tau)
            return of_z, None, of_weight, of_tau, None
        grad = grad[:, :, 0] if ctx.rows is None else grad[ctx.rows, :, 0]
        deep = ctx.needs_input_grad[0]
        of_z, of_weight, of_tau = _gradients(_Acting(None, *kept), grad, weight, tau, ctx.settings, deep)
        if of_z is not None:
            if ctx.rows is not None:
                of_z = of_z.new_zeros(ctx.shape[0], of_z.shape[1]).index_copy_(0, ctx.rows, of_z)
            of_z = of_z.view(ctx.shape)
        return of_z, None, of_weight, of_tau, None


def chained(z: Tensor, base: Tensor, blocks: Sequence[ActivationBlock], readouts: Sequence[Tensor]) -> Tensor:
    """The outputs (B, K) of activation blocks one upon the other, for training: what is silent costs next to nothing.

    Shape:
        - z: (B, D); base: (K,); readouts: (K, U, 1) per block.
    """
    each = zip(blocks, readouts, strict=True)
    parameters = [parameter for block, readout in each for parameter in (block.weight, block.tau, readout)]
    settings = (blocks[0].beta, blocks[0].gamma, blocks[0].mode)
    out: Tensor = _Chain.apply(settings, z, base, *parameters)  # type: ignore[no-untyped-call]
    return out


class _Chain(torch.autograd.Function):
    """Blocks and readouts in one: a block gets only the rows in which some unit below may act."""

    @staticmethod
    def forward(ctx: Any, settings: _Settings, z: Tensor, base: Tensor, *parameters: Tensor) -> Tensor:
        ctx.settings = settings
        kept: list[tuple[_Acting, Tensor | None]] = []  # of each block up to the first silent one; rows of the whole
        rows, alive, out = None, None, base.repeat(len(z), 1)
        with torch.inference_mode():  # spares every call below what autograd does to see that it is not wanted
            for weight, tau, readout in zip(*[iter(parameters)] * 3, strict=True):
                acting = _act(z, alive, weight, tau, settings)
                if acting is None:
                    break
                z, alive = acting.units, acting.units.sign()
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
        found: list[Tensor] = [torch.zeros_like(p) for p in parameters[3 * len(kept) :]]
        of_z = above = None  # of the candidates of the block above, and in which rows
        for level in reversed(range(len(kept))):
            (acting, rows), (weight, tau, readout) = kept[level], parameters[3 * level : 3 * level + 3]
            here = grad if rows is None else grad.index_select(0, rows)
            of_units = torch.mm(here, readout.squeeze(2))
            if of_z is not None and above is not None:
                of_units.index_add_(0, above, of_z)
            deep = level > 0 or ctx.needs_input_grad[1]
            of_z, of_weight, of_tau = _gradients(acting, of_units, weight, tau, ctx.settings, deep)
            found[:0] = of_weight, of_tau, torch.mm(here.t(), acting.units)[:, :, None]
            above = acting.rows
        return None, of_z, grad.sum(0) if ctx.needs_input_grad[2] else None, *found


class PresenceBlock(nn.Module):
    """Units of several channels that share a children set: z_u = alive_u * dropout(activation(W_u . children + b_u)).

    alive_u is the product of the children's presence bits. A unit whose receptive field is empty has neither inputs
    nor a bias, and every admitted activation maps 0 to 0.

    Shape:
        - the state of N candidates with D columns in all; `owner` (D,) names the candidate of each column.
        - returns the state of U units with C channels each.
    """

    no_weight_decay = ("tau",)
    trained_apart = ("tau",)

    def __init__(
        self,
        owner: Tensor,
        chosen: Tensor,
        *,
        channels: int,
        beta: float,
        learned: bool,
        activation: Callable[[Tensor], Tensor],
        dropout: float,
        generator: Draws,
    ) -> None:
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
        values, alive, living = below[:3]
        assert living is not None
        sigma = select_children(self.tau, self.beta)  # (U, N)
        chosen = sigma if self.one_column_each else sigma[:, self.owner]  # (U, D)
        weight = self.weight.view(len(sigma), self.channels, -1) * chosen[:, None]  # (U, C, D)
        living = (sigma.detach() @ living > 0).to(values.dtype)  # (U,)
        bias = self.bias * living.repeat_interleave(self.channels)
        z = self.dropout(self.activation(F.linear(values.flatten(1), weight.flatten(0, 1), bias)))
        z = z.view(len(z), len(sigma), self.channels)  # (B, U, C)
        if alive is None:
            return State(z, None, living)
        alive = all_alive(alive, sigma)
        return State(_gated(z, alive), alive, living)


class OwnBlock(nn.Module):
    """A presence block whose units keep their set: the child of a unit is the unit of the same number below.

    Batched products of (C, C) matrices instead of one masked (U C, U C) matrix.

    Shape:
        - the joined states of the L blocks below that are connected, U units of C channels each.
        - returns the state of U units with C channels each.
    """

    def __init__(
        self,
        n_below: int,
        n_units: int,
        *,
        channels: int,
        activation: Callable[[Tensor], Tensor],
        dropout: float,
        generator: Draws,
    ) -> None:
        super().__init__()
        self.n_below, self.n_units, self.channels, self.activation = n_below, n_units, channels, activation
        scale = 1 / (n_below * channels) ** 0.5
        self.weight = nn.Parameter(_either_sign((n_units, n_below * channels, channels), generator) * scale)
        self.bias = nn.Parameter(_either_sign((n_units, channels), generator) * scale)
        self.dropout = nn.Dropout(dropout)
        own = torch.eye(n_units, dtype=torch.bool).repeat(1, n_below)
        self.register_buffer("own", own, persistent=False)
        self.own: Tensor

    def child_mask(self) -> Tensor:
        """(U, L * U) bool."""
        return self.own.clone()

    def forward(self, below: State) -> State:  # noqa: D102
        values, alive, living = below[:3]
        assert living is not None
        living = living[-self.n_units :]  # a unit and its children have the same field
        if self.n_below == 1:
            own = values.transpose(0, 1)  # (U, B, C)
        else:
            own = (
                values.view(len(values), self.n_below, self.n_units, self.channels).permute(2, 0, 1, 3).flatten(2)
            )  # (U, B, L * C)
        bias = (self.bias * living[:, None])[:, None]  # (U, 1, C)
        pre = own * self.weight + bias if own.shape[2] == 1 else torch.baddbmm(bias, own, self.weight)  # (U, B, C)
        z = self.dropout(self.activation(pre)).transpose(0, 1)
        if alive is None:
            return State(z, None, living)
        alive = alive[:, -self.n_units :]
        return State(_gated(z, alive), alive, living)


def _gated(z: Tensor, alive: Tensor) -> Tensor:
    """Zero where a unit is not alive. The product lets gradients reach learned children; `where` keeps NaN out."""
    alive = alive[:, :, None]
    return z * alive if alive.requires_grad else torch.where(alive > 0, z, 0.0)


def _either_sign(shape: tuple[int, ...], generator: Draws) -> Tensor:
    return uniform(shape, generator) * 2 - 1
