"""DeepSHAP: multipliers instead of derivatives in one backward pass. Knows the paper's block; no sampling, no training.

Every operation passes its difference from the reference on by a rule: a linear map by its weights, an elementwise
function by its rescale quotient, an operation of several inputs by its own Shapley value. The values add up to the
output minus that at the reference; they are Shapley values of the whole network in special cases only.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from harsanyinet.extras import need_package
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import LocationBlock, scattered
from harsanyinet.networks.base import HarsanyiNet
from harsanyinet.networks.blocks import ActivationBlock
from harsanyinet.networks.gates import and_gate_, paper_unit
from harsanyinet.networks.mlp import HarsanyiMLP

Rows = ArrayLike | Tensor
Outputs = ArrayLike | Tensor | None
"""The output to explain: one for all rows or one per row; None for all of them."""

CHUNK = 2**21
"""Rows are taken in pieces with about so many multipliers per block."""
CLOSE = 1e-10
"""Below this relative distance from the reference a quotient is rounding noise, and the derivative is used."""


def deep_shap(model: nn.Module, x: Rows, *, baseline: Rows | None = None, output: Outputs = None) -> NDArray[Any]:
    """DeepSHAP values of a `HarsanyiMLP` or `HarsanyiCNN` with the activation gate, or of a plain torch network.

    A Harsanyi network is explained by our own rules, on the raw outputs, from its own baseline, where every unit is
    zero; one for images from the stem's map z0, the channels of a cell added up. A plain network is handed to captum's
    `DeepLift`, which needs the extra `captum` and has rules for modules only (`nn.ReLU`, `nn.Tanh` and others, one
    instance per use); a warning says so when the values do not add up. Costs two forward passes and one backward pass
    per reference row.

    Args:
        model: The network. A plain one maps (B, ...) to (B, K) or (B,) and must be in evaluation mode.
        x: Rows.
        baseline: The reference, one row or several to average over. By default a Harsanyi network's own baseline, and
            zero for a plain one. Any other reference explains another game than `explain` does.
        output: The output to explain: one for all rows or one per row. All of them by default.

    Returns:
        (B, n) for n players, or (B, n, K) where `output` is left out and K > 1. The players of a plain network are the
        entries of x, in its shape.

    Examples:
        >>> net = HarsanyiMLP(2, 1, n_blocks=1, width=4, seed=0, dtype=torch.float64)
        >>> x = [[1.0, 2.0]]
        >>> bool(np.isclose(deep_shap(net, x).sum(), net(torch.tensor(x, dtype=torch.float64)).item()))
        True
    """
    if isinstance(model, HarsanyiCNN):
        return _deep_shap_images(model, x, baseline, output)
    if not isinstance(model, nn.Module) or isinstance(model, HarsanyiNet):
        return _deep_shap_harsanyi(_check_harsanyi(model), x, baseline, output)
    if model.training:
        raise ValueError("model must be in evaluation mode, however: it is in training mode; call .eval() first")
    rows = _as_rows(model, x)
    references = torch.zeros_like(rows[:1]) if baseline is None else _as_rows(model, baseline)
    references = references[None] if references.ndim == rows.ndim - 1 else references
    if not len(references) or references.shape[1:] != rows.shape[1:]:
        raise ValueError(f"baseline must hold rows like those of x, however: {tuple(references.shape)}")
    values, gap, largest = _captum(model, rows, references, output)
    if gap.size and np.abs(gap).max() > largest * float(torch.finfo(rows.dtype).eps) ** 0.5:
        warnings.warn(
            f"DeepLift values must add up to the output, however: they are off by up to {np.abs(gap).max():.2g}; "
            "the network holds an operation without a rule, such as a function where a module is needed",
            stacklevel=2,
        )
    return values


class AsIs(NamedTuple):
    """What a library returns on a network it has no rules for."""

    values: NDArray[Any]  # (B, n) or (B, n, K)
    gap: NDArray[Any]  # (B,) or (B, K), the sum of the values minus what it must be, v(x) - v(baseline)


def deep_shap_as_is(net: HarsanyiMLP, x: Rows, *, output: Outputs = None, hooked: bool = False) -> AsIs:
    """captum's `DeepLift` on a Harsanyi network, without rules for product and gate: not a fair rival.

    Args:
        net: A network with the activation gate.
        x: (B, n_features) rows.
        output: As in `deep_shap`.
        hooked: Whether tanh and ReLU are modules, to which captum attaches its rules. Otherwise they are functions, as
            in our network, and the values are those of gradient times input.
    """
    rows = _as_rows(_check_harsanyi(net), x)
    values, gap, _ = _captum(Hooked(net) if hooked else net, rows, net.baseline[None], output)
    return AsIs(_of_players(net, torch.from_numpy(values)), gap)


def relu_rule(h: Tensor, h_ref: Tensor) -> Tensor:
    """Rescale: (relu(h) - relu(h_ref)) / (h - h_ref), exactly 0 or 1 where both lie on one side of zero."""
    crossing = (h > 0) != (h_ref > 0)
    quotient = (h.relu() - h_ref.relu()) / torch.where(crossing, h - h_ref, 1.0)
    return torch.where(crossing, quotient, (h > 0).to(h.dtype))


def product_rule(g: Tensor, g_ref: Tensor, d: Tensor, d_ref: Tensor) -> tuple[Tensor, Tensor]:
    """The multipliers of g and of d in the product g d: the Shapley values of a game of two players."""
    return (d + d_ref) / 2, (g + g_ref) / 2


def gate_rule(block: ActivationBlock, z: Tensor, d: Tensor, m: Tensor) -> Tensor:
    """From multipliers of the gate d to those of the children, where every child is zero in the reference.

    d = (t_1 ... t_k)^(1/k) or t_1 ... t_k, t = tanh(gamma |z|), is then a unanimity game: each child receives d / k.
    The multiplier d / (k t_j) of t_j and the rescale quotient t_j / z_j of tanh and abs make d / (k z_j).

    Shape:
        - z: (B, D) children; d: (B, U); m: (B, K, U) multipliers of the gates; returns (B, K, D).
    """
    sigma = block.child_mask().to(z.dtype)  # (U, D)
    return ((m * (d / sigma.sum(1).clamp_min(1))[:, None]) @ sigma) * _inverse(z)[:, None]


def gate_rule_of_reference(block: ActivationBlock, z: Tensor, z_ref: Tensor, m: Tensor) -> Tensor:
    """The same for any reference: the Shapley value of a product of k factors s_j, and the rescale quotient of s_j.

    The factors are t_j, or t_j^(1/k) in the geometric gate. The Shapley value of factor j is the integral over q from 0
    to 1 of (s_j - r_j) times the product of r_i + q (s_i - r_i) over the other factors: a polynomial of degree k - 1,
    for which ceil(k / 2) points of Gauss and Legendre are exact.

    Shape:
        - z: (B, D); z_ref: (1, D) or (B, D); m: (B, K, U); returns (B, K, D).
    """
    count, geometric = block.child_mask().sum(1), block.mode == "geometric"
    out = z.new_zeros(*m.shape[:2], z.shape[1])
    for k in sorted(set(count.tolist()) - {0}) if geometric else [max(int(count.max()), 1)]:
        chosen = count == k if geometric else count > 0
        sigma = block.child_mask()[chosen].to(z.dtype)
        s, s_ref, quotient = _factor(z, z_ref, block.gamma, 1 / k if geometric else 1.0)
        total = torch.zeros_like(out)
        for point, weight in zip(*np.polynomial.legendre.leggauss(-(-k // 2)), strict=True):
            mixed = s_ref + float(1 + point) / 2 * (s - s_ref)  # (B, D)
            product = and_gate_(mixed.clone(), sigma, "product")
            total += float(weight) / 2 * ((m[:, :, chosen] * product[:, None]) @ sigma) * _inverse(mixed)[:, None]
        out += total * quotient[:, None]
    return out


def _inverse(z: Tensor) -> Tensor:
    """1 / z, and zero for zero and what is hardly more."""
    nonzero = z.abs() >= torch.finfo(z.dtype).tiny
    return torch.where(nonzero, 1 / torch.where(nonzero, z, 1.0), 0.0)


def _factor(z: Tensor, z_ref: Tensor, gamma: float, root: float) -> tuple[Tensor, Tensor, Tensor]:
    """s = tanh(gamma |z|)^root at both ends and its quotient, or derivative where the ends are as good as equal."""
    t = (gamma * z.abs()).tanh()
    s, s_ref = t**root, (gamma * z_ref.abs()).tanh() ** root
    delta = z - z_ref
    close = delta.abs() <= CLOSE * torch.maximum(z.abs(), z_ref.abs())
    slope = torch.where(t > 0, root * gamma * z.sign() * (1 - t * t) * s / torch.where(t > 0, t, 1.0), 0.0)
    return s, s_ref, torch.where(close, slope, (s - s_ref) / torch.where(close, 1.0, delta))


def _through_block(block: ActivationBlock, z: Tensor, z_ref: Tensor | None, m: Tensor) -> Tensor:
    """From multipliers (B, K, U) of a block's units to those (B, K, D) of its candidates; None: a reference of zero."""
    children = block.children_of()
    _, _, d, g, _ = paper_unit(z, children, block.gamma, block.mode)  # gate and linear part, (B, U)
    d_ref, g_ref = torch.zeros_like(d), torch.zeros_like(g)
    if z_ref is not None:
        _, _, d_ref, g_ref, _ = paper_unit(z_ref, children, block.gamma, block.mode)
    m = m * relu_rule(g * d, g_ref * d_ref)[:, None]
    of_g, of_d = product_rule(g, g_ref, d, d_ref)
    linear, gate = (m * of_g[:, None]) @ children.weight, m * of_d[:, None]
    return linear + (gate_rule(block, z, d, gate) if z_ref is None else gate_rule_of_reference(block, z, z_ref, gate))


def _levels(net: HarsanyiMLP, x: Tensor) -> list[Tensor]:
    """z0 and the units of every block, (B, D) and (B, U)."""
    return [x - net.baseline, *[z[:, :, 0] for z in net.units(x)]]


def _backward(net: HarsanyiMLP, zs: list[Tensor], refs: list[Tensor] | None, m: list[Tensor]) -> Tensor:
    """Column values (B, K, D), from the levels of the rows and of the reference and the readouts m, (B, K, U)."""
    due, blocks = [torch.zeros(()), *m], _blocks(net)  # due: the multipliers of every level
    for level in range(len(m), 0, -1):
        first = 1 if net.connect == "all" and level > 1 else level - 1
        below = torch.cat(zs[first:level], 1)
        below_ref = None if refs is None else torch.cat(refs[first:level], 1)
        passed = _through_block(blocks[level - 1], below, below_ref, due[level])
        for lower, part in zip(range(first, level), torch.split(passed, zs[first].shape[1], 2), strict=True):
            due[lower] = due[lower] + part
    return due[0] * (zs[0] if refs is None else zs[0] - refs[0])[:, None]


@torch.no_grad()
def _deep_shap_harsanyi(net: HarsanyiMLP, x: Rows, baseline: Rows | None, output: Outputs) -> NDArray[Any]:
    rows = _as_rows(net, x)
    references: list[list[Tensor] | None] = [None]
    if baseline is not None:
        given = _as_rows(net, baseline)
        given = given[None] if given.ndim == 1 else given
        if given.ndim != 2 or not len(given) or given.shape[1] != net.n_features:
            raise ValueError(
                f"baseline must have shape ({net.n_features},) or (references, {net.n_features}), however: "
                f"{tuple(given.shape)}"
            )
        if len(given) > 1 or not torch.equal(given[0], net.baseline):
            levels = _levels(net, given)
            references = [[level[i : i + 1] for level in levels] for i in range(len(given))]
    chosen = _outputs(output, len(rows), net.n_outputs, rows.device)  # (B, K)
    readouts = [readout[:, :, 0] for readout in net.readouts]  # (K, U)
    parts = []
    size = max(1, CHUNK // (chosen.shape[1] * max(r.shape[1] for r in readouts)))
    for some, which in zip(torch.split(rows, size), torch.split(chosen, size), strict=True):
        zs, m = _levels(net, some), [readout[which] for readout in readouts]  # m: (B, K, U)
        total = sum((_backward(net, zs, refs, m) for refs in references), torch.zeros(()))
        parts.append((total / len(references)).transpose(1, 2))
    values = torch.cat(parts)
    return _of_players(net, values[:, :, 0] if output is not None or net.n_outputs == 1 else values)


def _deep_shap_images(net: HarsanyiCNN, x: Rows, baseline: Rows | None, output: Outputs) -> NDArray[Any]:
    """Values of the cells of z0, (B, P) or (B, P, K). At the reference all units are zero, so that rules are shares."""
    if net.gate != "activation":
        raise ValueError(
            f"model must have gate='activation', whose absence is an input value, however: gate={net.gate!r}"
        )
    if baseline is not None:
        raise ValueError("baseline must be None for a HarsanyiCNN, whose reference is z0 = 0, however: it was given")
    rows = torch.as_tensor(x, dtype=net.base.dtype, device=net.base.device)
    chosen = _outputs(output, len(rows), net.n_outputs, rows.device)
    with torch.no_grad():
        place, readouts = (len(rows), *net.cells, -1), net.readout_weights()
        states = [net.stem(rows).permute(0, 2, 3, 1), *(z.view(place) for z in net.units(rows))]
        columns = []
        for outputs in chosen.T:  # (B,)
            m = torch.zeros_like(states[-1])
            for level in reversed(range(len(readouts))):
                m = m + readouts[level][outputs].view(place)  # (B, H, W, C)
                block = net.blocks[level]
                assert isinstance(block, LocationBlock)
                m = _through_location_block(block, states[level], states[level + 1], m)
            columns.append((m * states[0]).sum(-1).flatten(1))
    values = torch.stack(columns, 2)
    return np.asarray((values[:, :, 0] if values.shape[2] == 1 else values).cpu().numpy())


def _through_location_block(block: LocationBlock, z: Tensor, above: Tensor, m: Tensor) -> Tensor:
    """Multipliers of a block's cells (B, H, W, C') -> of the cells that it reads (B, H, W, C)."""
    sigma = block.child_mask().view_as(block.tau).to(z.dtype)
    size = z.abs().sum(-1)  # (B, H, W)
    linear, gate = block.parts(z)
    m = torch.where(above > 0, m, 0.0)  # ReLU
    by_sum = ((m * gate[..., None] / 2) @ block.weight).view(*z.shape[:3], 9, -1) * sigma[..., None]
    by_gate = (m * linear).sum(-1) * gate / 2 / sigma.sum(-1).clamp_min(1)  # (B, H, W), an equal share per child
    to_cells = scattered((by_gate[..., None] * sigma)[..., None])[..., 0]
    return scattered(by_sum) + (to_cells / size.clamp_min(torch.finfo(z.dtype).tiny))[..., None] * z.sign()


class Hooked(nn.Module):
    """The network with one `nn.Tanh` and one `nn.ReLU` per block; products, abs and logarithms stay functions."""

    def __init__(self, net: HarsanyiMLP) -> None:
        super().__init__()
        self.net = net
        self.tanhs = nn.ModuleList(nn.Tanh() for _ in net.blocks)
        self.relus = nn.ModuleList(nn.ReLU() for _ in net.blocks)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n_features) -> (B, K)."""
        below, zs = x - self.net.baseline, []
        for block, tanh, relu in zip(_blocks(self.net), self.tanhs, self.relus, strict=True):
            zs.append(paper_unit(below, block.children_of(), block.gamma, block.mode, tanh=tanh, relu=relu).units)
            below = torch.cat(zs, 1) if self.net.connect == "all" else zs[-1]
        return self.net.read([z[:, :, None] for z in zs])


def _captum(
    model: nn.Module, x: Tensor, references: Tensor, output: Outputs
) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Mean of captum's values over the references, their gap, and the largest output: one run per output."""
    captum = need_package("captum.attr", "captum")
    with torch.no_grad():
        out, out_ref = model(x), model(references)
    if out.ndim not in (1, 2) or len(out) != len(x):
        raise ValueError(f"model must return (rows,) or (rows, outputs), however: {tuple(out.shape)}")
    flat = out.ndim == 1
    if flat:
        out, out_ref = out[:, None], out_ref[:, None]
    chosen = _outputs(output, len(x), out_ref.shape[1], x.device)  # (B, K)
    run = captum.DeepLift(model).attribute
    columns = []
    for target in chosen.T if len(x) else ():
        total = torch.zeros_like(x)
        with warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")  # it announces its hooks at every call
            for reference in references:
                values = run(x.clone(), reference[None], target=None if flat else target)
                total += values.detach() / len(references)
        columns.append(total)
    values = torch.stack(columns, -1) if columns else x.new_zeros(*x.shape, chosen.shape[1])
    gap = values.flatten(1, -2).sum(1) - (out.gather(1, chosen) - out_ref.mean(0)[chosen])  # (B, K)
    largest = float(torch.cat([out, out_ref]).abs().max())
    if output is not None or out_ref.shape[1] == 1:
        values, gap = values[..., 0], gap[:, 0]
    return values.cpu().numpy(), gap.cpu().numpy(), largest


def _blocks(net: HarsanyiMLP) -> list[ActivationBlock]:
    return [block for block in net.blocks if isinstance(block, ActivationBlock)]


def _check_harsanyi(model: object) -> HarsanyiMLP:
    if not isinstance(model, HarsanyiMLP) or model.gate != "activation":
        kind = f"{type(model).__name__}{' with the presence gate' if isinstance(model, HarsanyiMLP) else ''}"
        raise ValueError(
            "DeepSHAP needs a reference value for every input, so model must be a HarsanyiMLP with gate='activation' "
            f"or a plain torch network, however: {kind}"
        )
    return model


def _as_rows(model: nn.Module, x: Rows) -> Tensor:
    like = next(model.parameters(), torch.zeros(()))
    return torch.as_tensor(x, dtype=like.dtype, device=like.device).detach()


def _outputs(output: Outputs, n_rows: int, k: int, device: torch.device) -> Tensor:
    """(B, K) the outputs to explain, (B, 1) where one is chosen."""
    if output is None:
        return torch.arange(k, device=device).expand(n_rows, k)
    chosen = torch.as_tensor(output, device=device)
    whole = not chosen.dtype.is_floating_point and chosen.dtype != torch.bool
    if not whole or chosen.shape not in ((), (n_rows,)) or not bool(((chosen >= 0) & (chosen < k)).all()):
        raise ValueError(f"output must be one or {n_rows} numbers from 0 to {k - 1}, however: output={output}")
    return chosen.long().expand(n_rows)[:, None]


def _of_players(net: HarsanyiMLP, values: Tensor) -> NDArray[Any]:
    """Columns (B, D[, K]) to players (B, P[, K]): the columns of a player add up."""
    shape = (len(values), net.n_players, *values.shape[2:])
    return values.new_zeros(shape).index_add_(1, net.columns.to(values.device), values).cpu().numpy()
