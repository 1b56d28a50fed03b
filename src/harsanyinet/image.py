"""Harsanyi networks for images: stems, two kinds of convolutional block, HarsanyiCNN. The players are cells.

The stem turns an image into a feature map z0; one cell of it, all channels together, is one player. A block is a 3 x 3
convolution whose children are chosen among the nine neighbours of a cell, per location (as in the paper) or per group
of channels (then it is an ordinary convolution with a masked kernel, and may have a stride: a unit of a coarser map is
an AND of cells like any other). Cells outside the image are never children.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.blocks import SoftAnd, select_children
from harsanyinet.fields import Connect, Structure
from harsanyinet.network import HarsanyiNet, check_present, full_precision

Gate = Literal["activation", "presence"]
Children = Literal["location", "group"]
StemName = Literal["paper", "patch", "deep", "map"]
_CENTRE = 4  # of the nine neighbours, row by row
_GATHERED = 2**20  # values that are gathered at a time


# Stems ------------------------------------------------------------------------------------------------------------


def make_stem(kind: StemName, in_channels: int, channels: int, generator: torch.Generator, patch: int = 2) -> nn.Module:
    """A module from images to a feature map.

    `"paper"`: convolution 3 x 3, max-pool 2 x 2, ReLU; a cell sees 4 x 4 pixels. `"patch"`: one product per patch,
    without a bias, so that a cell is a patch of the image and a black patch an absent player. `"deep"`: a convolution
    with half of the channels, max-pool 2 x 2, a second convolution, both with batch normalisation and ReLU; a cell sees
    8 x 8 pixels. `"map"`: nothing, for images that are feature maps already.
    """
    if kind == "paper":
        layers: list[nn.Module] = [nn.Conv2d(in_channels, channels, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
    elif kind == "patch":
        layers = [nn.Conv2d(in_channels, channels, patch, stride=patch, bias=False)]
    elif kind == "deep":
        half = max(1, channels // 2)
        layers = [nn.Conv2d(in_channels, half, 3, padding=1, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(half)]
        layers += [nn.ReLU(), nn.Conv2d(half, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
    elif kind == "map":
        layers = []
    else:
        raise ValueError(f"stem must be 'paper', 'patch', 'deep', 'map' or a module, however: stem={kind!r}")
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            _initialise(layer.weight, generator)
            if layer.bias is not None:  # of both signs: where an image is black some channels are alive
                with torch.no_grad():
                    layer.bias.copy_((torch.rand(channels, generator=generator) * 2 - 1) / math.sqrt(9 * in_channels))
    return nn.Sequential(*layers)


def _initialise(weight: Tensor, generator: torch.Generator) -> None:
    """He's normal weights."""
    fan_in = weight[0].numel()
    with torch.no_grad():
        weight.copy_(torch.randn(weight.shape, generator=generator) * math.sqrt(2 / fan_in))


def pixels_per_cell(stem: nn.Module, in_channels: int, size: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the window of pixels that a cell of the stem's map depends on, at most.

    A whole line of the image is made NaN, and the cells that turn NaN see it.
    """
    modes = {module: module.training for module in stem.modules()}
    stem.eval()
    like = next(stem.parameters(), torch.zeros(()))
    found = []
    with torch.no_grad():
        for axis in (2, 3):
            n = size[axis - 2]
            x = torch.zeros(n, in_channels, *size, dtype=like.dtype, device=like.device)
            for line in range(n):
                x[line].select(axis - 1, line).fill_(math.nan)
            seen = torch.cat([stem(part).isnan().any(1).any(5 - axis - 1) for part in torch.split(x, 32)])  # (n, cells)
            found.append(int(seen.sum(0).max()))
    for module, mode in modes.items():
        module.training = mode
    return found[0], found[1]


# Neighbours -------------------------------------------------------------------------------------------------------


def neighbours(z: Tensor, outside: float = 0.0) -> Tensor:
    """(B, H, W, C) -> (B, H, W, 9, C), the neighbours of each cell row by row, in memory of their own."""
    b, h, w, c = z.shape
    padded = F.pad(z, (0, 0, 1, 1, 1, 1), value=outside).contiguous()
    strides = padded.stride()
    seen = padded.as_strided((b, h, w, 3, 3, c), (*strides[:3], *strides[1:3], strides[3]))
    return seen.contiguous().view(b, h, w, 9, c)


def scattered(grad: Tensor) -> Tensor:
    """The transpose of `neighbours`: (B, H, W, 9, C) -> (B, H, W, C)."""
    b, h, w, _, c = grad.shape
    out = grad.new_zeros(b, h + 2, w + 2, c)
    for k in range(9):
        out[:, k // 3 : k // 3 + h, k % 3 : k % 3 + w] += grad[:, :, :, k]
    return out[:, 1:-1, 1:-1]


def inside(h: int, w: int) -> Tensor:
    """(H, W, 9) bool: which neighbours lie in the image."""
    return neighbours(torch.ones(1, h, w, 1))[0, ..., 0] > 0


class _MaskedConvolution(torch.autograd.Function):
    """A 3 x 3 convolution that sees other neighbours at each location: gather, mask, one matrix product.

    The gathered copies are nine times the input: on a CPU a few images at a time, so that they stay in its cache (half
    the time), and made again in the backward pass instead of being kept.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, weight: Tensor, sigma: Tensor) -> Tensor:
        ctx.save_for_backward(z, weight, sigma)
        ctx.n_images = len(z) if z.is_cuda or not len(z) else max(1, _GATHERED // (9 * z[0].numel()))
        return torch.cat(
            [neighbours(z).mul_(sigma[..., None]).flatten(3) @ weight.T for z in torch.split(z, ctx.n_images)]
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        z, weight, sigma = ctx.saved_tensors
        grad = grads[0].to(weight.dtype).contiguous()  # it comes in half precision under autocast
        of_z, of_weight, of_sigma = [], torch.zeros_like(weight), torch.zeros_like(sigma)
        for some, above in zip(*(torch.split(v, ctx.n_images) for v in (z.to(weight.dtype), grad)), strict=True):
            gathered = neighbours(some)
            of_masked = (above @ weight).view_as(gathered)
            if ctx.needs_input_grad[2]:
                of_sigma += torch.linalg.vecdot(of_masked, gathered).sum(0)
            if ctx.needs_input_grad[0]:
                of_z.append(scattered(of_masked.mul_(sigma[..., None])))
            if ctx.needs_input_grad[1]:
                of_weight.addmm_(above.flatten(0, 2).T, gathered.mul_(sigma[..., None]).flatten(3).flatten(0, 2))
        return torch.cat(of_z) if of_z else None, of_weight, of_sigma


def masked_convolution(z: Tensor, weight: Tensor, sigma: Tensor) -> Tensor:
    """(B, H, W, C) -> (B, H, W, C'): every location sees those of its neighbours that sigma (H, W, 9) names.

    Args:
        z: Channels last.
        weight: (C', 9 C), neighbours row by row.
        sigma: Zeros and ones.
    """
    out: Tensor = _MaskedConvolution.apply(z, weight, sigma)  # type: ignore[no-untyped-call]
    return out


class _NeighbourAnd(torch.autograd.Function):
    """The soft AND over the children among nine neighbours, with the gradient of the product over all nine.

    NOTE[DIFF]: as in the dense block, a dead gate of several children gets no gradient under the root, whose slope
    there is infinite.
    """

    @staticmethod
    def forward(ctx: Any, t: Tensor, sigma: Tensor, mode: SoftAnd) -> Tensor:
        near = neighbours(t[..., None], 1.0)[..., 0]  # (B, H, W, 9)
        tiny = torch.finfo(t.dtype).tiny
        dead = near < 1.01 * tiny
        logs = torch.where(dead, 0.0, near.clamp_min(tiny).log_())
        count, n_dead = sigma.sum(-1).clamp_min(1), (dead * sigma).sum(-1)
        total = (logs * sigma).sum(-1)
        living = (total / count if mode == "geometric" else total).exp()  # the AND of the living children
        gate = torch.where(n_dead > 0, 0.0, living)
        ctx.save_for_backward(near, sigma, gate, torch.where(n_dead == 1, living, 0.0))
        ctx.mode = mode
        return gate

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        near, sigma, gate, without_one = ctx.saved_tensors
        tiny = torch.finfo(near.dtype).tiny
        count = sigma.sum(-1, keepdim=True).clamp_min(1)
        of_log = (grads[0] * gate)[..., None]  # (B, H, W, 1), of the logarithm of the gate
        of_product = of_log / count if ctx.mode == "geometric" else of_log
        inverse = 1 / near.clamp_min(tiny)
        slopes = of_product * sigma * inverse
        if ctx.mode == "geometric":
            without_one = torch.where(count[..., 0] == 1, without_one, 0.0)
        dead = (grads[0] * without_one)[..., None] * sigma * (near < 1.01 * tiny)  # of the only dead child, its own
        off = near - 1
        of_sigma = (of_product * off * torch.where(sigma > 0, inverse, 1.0) + dead * off).sum(0)
        if ctx.mode == "geometric":  # every child counts in the root
            of_sigma = of_sigma - (of_log[..., 0] * gate.clamp_min(tiny).log()).sum(0)[..., None] / count
        return scattered((slopes + dead)[..., None])[..., 0], of_sigma, None


def neighbour_and(t: Tensor, sigma: Tensor, mode: SoftAnd = "geometric") -> Tensor:
    """(B, H, W) in [0, 1] -> (B, H, W): the product of t over the children sigma (H, W, 9), or its root."""
    gate: Tensor = _NeighbourAnd.apply(t, sigma, mode)  # type: ignore[no-untyped-call]
    return gate


# Blocks -----------------------------------------------------------------------------------------------------------


class LocationBlock(nn.Module):
    """Children chosen per location and shared by all channels, tau ~ N(0, 0.01^2).

    Activation gate: z = ReLU(masked convolution * AND over the children of tanh(gamma * sum of abs(channels))), to the
    letter of the paper. Presence gate: z = alive * (z of the same cell + activation(batch norm(masked convolution))),
    the centre always a child.

    Shape:
        - z: (B, H, W, C) and the presence of its cells (B, H, W) or None; returns the same of the block.
    """

    no_weight_decay = ("tau",)
    rate_shares: ClassVar = {"tau": 0.01}

    def __init__(
        self, c_in: int, c_out: int, *, size: tuple[int, int], gate: Gate, beta: float, gamma: float, mode: SoftAnd,
        generator: torch.Generator,
    ) -> None:  # fmt: skip
        super().__init__()
        self.gate, self.beta, self.gamma, self.mode = gate, beta, gamma, mode
        self.tau = nn.Parameter(0.01 * torch.randn(*size, 9, generator=generator))
        if gate == "presence":
            with torch.no_grad():
                self.tau[..., _CENTRE] = 1.0
        self.register_buffer("inside", inside(*size).float(), persistent=False)
        self.inside: Tensor
        self.weight = nn.Parameter(torch.empty(c_out, 9 * c_in))
        _initialise(self.weight, generator)
        self.norm = nn.BatchNorm2d(c_out) if gate == "presence" else None
        self.residual = gate == "presence" and c_in == c_out

    def child_mask(self) -> Tensor:
        """(H W, 9) bool."""
        chosen = self.tau.detach() > 0
        if self.gate == "presence":
            chosen = chosen.clone()
            chosen[..., _CENTRE] = True
        return (chosen & (self.inside > 0)).flatten(0, 1)

    def forward(self, z: Tensor, alive: Tensor | None) -> tuple[Tensor, Tensor | None]:  # noqa: D102
        sigma = select_children(self.tau, self.beta) * self.inside.to(z.dtype)
        if self.gate == "activation":
            t = (self.gamma * z.abs().sum(-1, dtype=self.tau.dtype)).tanh()
            out = masked_convolution(z, self.weight, sigma) * neighbour_and(t, sigma, self.mode)[..., None]
            return out.relu(), None
        centre = torch.zeros_like(sigma)
        centre[..., _CENTRE] = 1.0
        sigma = torch.maximum(sigma, centre)
        assert self.norm is not None
        out = _normed(self.norm, masked_convolution(z, self.weight, sigma)).relu_()
        if self.residual:
            out = out + z
        if alive is None:
            return out, None
        with torch.no_grad():
            near = neighbours(alive[..., None].to(z.dtype), 1.0)[..., 0]
            alive = ((1 - near) * sigma).sum(-1) == 0
        return torch.where(alive[..., None], out, 0.0), alive


def _normed(norm: nn.BatchNorm2d, z: Tensor) -> Tensor:
    """Batch normalisation of a map with channels last."""
    out: Tensor = norm(z.permute(0, 3, 1, 2))
    return out.permute(0, 2, 3, 1)


def _rectangles(groups: int, stride: int, generator: torch.Generator) -> Tensor:
    """First children (G, 9) bool: rectangles of neighbours, which make every receptive field a rectangle.

    The first group looks everywhere, the second at its own cells only, so that a cell counts by itself; the others at
    a line, a column or a square.
    """
    chosen = torch.zeros(groups, 3, 3, dtype=torch.bool)
    spans = [slice(0, 2), slice(1, 3), slice(0, 3), slice(1, 2)]
    for group in range(groups):
        rows, columns = torch.randint(len(spans), (2,), generator=generator).tolist()
        if group == 0:
            rows = columns = 2
        elif group == 1:
            rows = columns = 3 if stride == 1 else 1
        elif rows == columns == 3:
            rows = 2
        chosen[group, spans[rows], spans[columns]] = True
    return chosen.flatten(1)


class GroupBlock(nn.Module):
    """Children chosen per group of channels and shared by all locations: a grouped convolution with a masked kernel.

    Presence gate only. Each group reads its own group below, the first block all channels of z0; the centre is always a
    child, so that a block may add to what it reads. With a stride of 2 a unit stands for four cells below.

    Shape:
        - z: (B, C, H, W), channels last in memory, and presence (B, G, H, W), (B, 1, H, W) of z0, or None.
    """

    no_weight_decay = ("tau",)

    def __init__(
        self, c_in: int, c_out: int, *, groups: int, first: bool, stride: int, beta: float, learned: bool,
        generator: torch.Generator,
    ) -> None:  # fmt: skip
        super().__init__()
        self.groups, self.first, self.stride, self.beta = groups, first, stride, beta
        tau = torch.where(_rectangles(groups, stride, generator), 1.0, -1.0)
        if learned:
            self.tau = nn.Parameter(tau)
        else:
            self.register_buffer("tau", tau)
        self.weight = nn.Parameter(torch.empty(c_out, c_in if first else c_in // groups, 3, 3))
        _initialise(self.weight, generator)
        self.norm = nn.BatchNorm2d(c_out)
        self.residual = not first and stride == 1 and c_in == c_out

    def child_mask(self) -> Tensor:
        """(G, 9) bool, before the border."""
        chosen = self.tau.detach() > 0
        chosen[:, _CENTRE] = True
        return chosen

    def forward(self, z: Tensor, alive: Tensor | None) -> tuple[Tensor, Tensor | None]:  # noqa: D102
        sigma = select_children(self.tau, self.beta)
        centre = torch.zeros_like(sigma)
        centre[:, _CENTRE] = 1.0
        sigma = torch.maximum(sigma, centre)
        kernel = self.weight * sigma.repeat_interleave(len(self.weight) // self.groups, 0).view(-1, 1, 3, 3)
        read: dict[str, Any] = {"stride": self.stride, "padding": 1, "groups": 1 if self.first else self.groups}
        out = self.norm(F.conv2d(z, kernel, **read)).relu_()
        if self.residual:
            out = out + z
        if alive is None:
            return out, None
        with torch.no_grad():
            absent = (~alive).to(z.dtype)
            stencil = sigma.view(-1, 1, 3, 3)
            dead = F.conv2d(absent, stencil, **read)  # what lies outside is not absent
            alive = dead < 0.5  # (B, G, H, W)
        per_group = out.shape[1] // self.groups
        return torch.where(alive.repeat_interleave(per_group, 1), out, 0.0), alive


# Network ----------------------------------------------------------------------------------------------------------


class _Sides(NamedTuple):
    """The shares of receptive fields that are rectangles: products of a share of rows and one of columns."""

    rows: Tensor  # (G, h, H)
    columns: Tensor  # (G, w, W)
    alone: list[bool]  # (G,) whether a unit sees its own cell only


class HarsanyiCNN(HarsanyiNet):
    """A convolutional Harsanyi network: exact Shapley values of the cells of z0 from the forward pass.

    Players are numbered row by row: ``ex.values.reshape(B, H, W, K)`` is the map of each class.

    Args:
        in_channels: Channels of the images.
        image_size: Height and width, or one number for both.
        n_outputs: K.
        channels: Channels of every block, and of z0 under a named stem; or one number per block, the first for z0 too.
        n_blocks: Number of blocks.
        gate: `"activation"`, the paper's block, or `"presence"`.
        beta: Steepness of the straight-through gradient of the children.
        gamma: Sharpness of the AND gate (activation gate).
        stem: `"paper"` (the default), `"patch"`, `"deep"`, `"map"` (see `make_stem`), or any module whose output is a
            map.
        seed: Of the first weights and children.
        patch: Height and width of a patch under the patch stem.
        children: Per `"location"` (always in the activation gate) or per `"group"` of channels (presence gate).
        groups: Groups of channels.
        strides: One number per block, 2 where the map is to become half as fine (children per group); by default 1.
        learn_children: Whether children are trained; always where they are chosen per location.
        soft_and: `"geometric"` or `"product"` (activation gate).
        readout: `"cell"`: every cell has weights of its own; `"shared"`: all cells of a block have the same.
        rank: Cell readouts map a block to so many values first, as in the paper; None for a full matrix.
        output_bias: Whether v(empty) is a trained constant; by default in the presence gate only.

    Shape:
        - x: (B, in_channels, H, W); present: (P,) or (B, P) bool; output: (B, n_outputs).

    Examples:
        >>> net = HarsanyiCNN(1, 8, 3, channels=4, n_blocks=2, gate="presence").eval()
        >>> net.explain(torch.rand(2, 1, 8, 8)).values.reshape(2, 4, 4, 3).shape
        (2, 4, 4, 3)
    """

    _sides: tuple[Structure, list[_Sides | None]] | None = None

    def __init__(
        self,
        in_channels: int,
        image_size: int | tuple[int, int],
        n_outputs: int,
        *,
        channels: int | Sequence[int] = 32,
        n_blocks: int = 4,
        gate: Gate = "activation",
        beta: float = 100.0,
        gamma: float = 0.05,
        stem: StemName | nn.Module | None = None,
        seed: int = 0,
        patch: int = 2,
        children: Children | None = None,
        groups: int = 1,
        strides: Sequence[int] | None = None,
        learn_children: bool = False,
        soft_and: SoftAnd = "geometric",
        readout: Literal["cell", "shared"] = "cell",
        rank: int | None = 16,
        output_bias: bool | None = None,
    ) -> None:
        super().__init__()
        if np.shape(image_size) not in ((), (2,)):
            raise ValueError(f"image_size must be one number, or height and width, however: image_size={image_size}")
        pair = np.broadcast_to(np.asarray(image_size), 2).tolist()
        size = (index(pair[0]), index(pair[1]))
        _check(in_channels=in_channels, n_outputs=n_outputs, n_blocks=n_blocks, groups=groups)
        in_channels, n_outputs, n_blocks, groups, seed, patch = map(
            index, (in_channels, n_outputs, n_blocks, groups, seed, patch)
        )
        if np.ndim(channels) == 0:
            channels = index(channels)  # type: ignore[arg-type]
        widths = [channels] * n_blocks if isinstance(channels, int) else list(map(index, channels))
        steps = [1] * n_blocks if strides is None else list(map(index, strides))
        for name, given in (("channels", widths), ("strides", steps)):
            if len(given) != n_blocks:
                raise ValueError(f"{name} must hold one number for each of the {n_blocks} blocks, however: {given}")
            _check(**{name: min(given)})
        _check(height=size[0], width=size[1], patch=patch, **({} if rank is None else {"rank": rank}))
        children = children or ("location" if gate == "activation" else "group")
        for name, value, allowed in (
            ("gate", gate, ("activation", "presence")),
            ("children", children, ("location", "group")),
            ("soft_and", soft_and, ("geometric", "product")),
            ("readout", readout, ("cell", "shared")),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, however: {name}={value!r}")
        if gate == "activation" and children == "group":
            raise ValueError("children='group' belongs to the presence gate, however: gate='activation'")
        if children == "location" and groups > 1:
            raise ValueError(f"groups belong to children='group', however: groups={groups} with children='location'")
        if any(width % groups for width in widths):
            raise ValueError(f"channels must be a multiple of groups, however: channels={channels}, groups={groups}")
        if max(steps) > (2 if children == "group" else 1):
            raise ValueError(
                f"strides must be 1, or 2 where children are chosen per group, however: strides={steps} with "
                f"children={children!r}"
            )
        if stem == "patch" and any(length % patch for length in size):
            raise ValueError(
                f"patch must divide the height and width of the images, however: patch={patch}, {size[0]} x {size[1]}"
            )
        beta, gamma = float(beta), float(gamma)
        for name, positive in (("beta", beta), ("gamma", gamma)):
            if not (math.isfinite(positive) and positive > 0):
                raise ValueError(f"{name} must be positive and finite, however: {name}={positive}")
        self.in_channels, self.image_size, self.n_outputs, self.gate = in_channels, (size[0], size[1]), n_outputs, gate
        generator = torch.Generator().manual_seed(seed)
        named = "paper" if stem is None else stem
        self.stem = make_stem(named, in_channels, widths[0], generator, patch) if isinstance(named, str) else named
        self.config: dict[str, Any] = {
            "in_channels": in_channels, "image_size": list(size), "n_outputs": n_outputs,
            "channels": channels if isinstance(channels, int) else widths, "strides": steps,
            "n_blocks": n_blocks, "gate": gate, "beta": beta, "gamma": gamma, "seed": seed, "patch": patch,
            "stem": named if isinstance(named, str) else None, "children": children, "groups": groups,
            "learn_children": learn_children, "soft_and": soft_and, "readout": readout, "rank": rank,
            "output_bias": gate == "presence" if output_bias is None else output_bias,
        }  # fmt: skip
        c_in, self.cells = self._look_through_the_stem()
        self.n_players = self.cells[0] * self.cells[1]
        blocks: list[nn.Module] = []
        for level in range(n_blocks):
            c_below = c_in if level == 0 else widths[level - 1]
            if children == "location":
                options: dict[str, Any] = {"size": self.cells, "gate": gate, "gamma": gamma, "mode": soft_and}
                kind: type[nn.Module] = LocationBlock
            else:
                options = {"groups": groups, "first": level == 0, "stride": steps[level], "learned": learn_children}
                kind = GroupBlock
            blocks.append(kind(c_below, widths[level], beta=beta, generator=generator, **options))
        self.blocks = nn.ModuleList(blocks)
        inner = n_outputs if rank is None or readout == "shared" else rank
        self.reading = nn.ParameterList()
        for width, n_places in zip(widths, map(math.prod, self._sizes()), strict=True):
            wide = width if readout == "shared" else n_places * width
            spread = 0.2 / math.sqrt(width) / (1 if readout == "cell" else math.sqrt(n_places))
            self.reading.append(nn.Parameter(spread * torch.randn(inner, wide, generator=generator)))
        self.deciding = None
        if inner != n_outputs or (rank is not None and readout == "cell"):
            self.deciding = nn.Parameter(torch.randn(n_outputs, inner, generator=generator) / math.sqrt(inner))
        if self.config["output_bias"]:
            self.base = nn.Parameter(torch.zeros(n_outputs))
        else:
            self.register_buffer("base", torch.zeros(n_outputs))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster steps on a CPU

    def _look_through_the_stem(self) -> tuple[int, tuple[int, int]]:
        """Channels and size of z0."""
        like = next(self.stem.parameters(), torch.zeros(()))
        training = self.stem.training
        try:
            with torch.no_grad():
                z0 = self.stem.eval()(torch.zeros(1, self.in_channels, *self.image_size, dtype=like.dtype))
        except RuntimeError as error:
            wanted, reason = (self.in_channels, *self.image_size), str(error).splitlines()[0]
            raise ValueError(f"stem must take images of shape {wanted}, however: {reason}") from error
        self.stem.train(training)
        if not isinstance(z0, Tensor) or z0.ndim != 4 or 0 in z0.shape:
            shape = tuple(z0.shape) if isinstance(z0, Tensor) else type(z0).__name__
            raise ValueError(f"stem must return a map (rows, channels, height, width), however: {shape}")
        return z0.shape[1], (z0.shape[2], z0.shape[3])

    def _sizes(self) -> list[tuple[int, int]]:
        """Height and width of the map of each block."""
        (height, width), found = self.cells, []
        for step in self.config["strides"]:
            height, width = -(-height // step), -(-width // step)
            found.append((height, width))
        return found

    @property
    def readouts(self) -> list[Tensor]:  # type: ignore[override]
        """One (K, U, C) tensor per block: what is trained, over the root of the number of places.

        Adam moves every weight by as much, and an output is a sum over thousands of places and channels.
        """
        found = []
        for weight, n_places in zip(self.reading, map(math.prod, self._sizes()), strict=True):
            n_units = n_places * self.config["groups"]
            if self.config["readout"] == "shared":
                each = (weight / math.sqrt(n_places)).view(self.n_outputs, 1, self.config["groups"], -1)
                found.append(each.expand(-1, n_places, -1, -1).reshape(self.n_outputs, n_units, -1))
            else:
                scale = math.sqrt(n_places)
                whole = weight / scale if self.deciding is None else (self.deciding / scale) @ weight
                found.append(whole.view(self.n_outputs, n_units, -1))
        return found

    def _widest(self) -> int:
        places = self.n_players if self.config["readout"] == "shared" else 1
        return max(int(weight.shape[1]) for weight in self.reading) * places

    @property
    def connect(self) -> Connect:
        """Blocks read the previous one."""
        return "previous"

    @property
    def exact_in_training(self) -> bool:
        """False with batch normalisation or dropout."""
        uncertain = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
        return not any(isinstance(module, uncertain) for module in self.modules())

    @property
    def pixels_per_cell(self) -> tuple[int, int]:
        """Height and width of the window of pixels behind a player, at most."""
        return pixels_per_cell(self.stem, self.in_channels, self.image_size)

    def neighbour_masks(self) -> list[Tensor]:
        """The children of every block among the nine neighbours, (cells, 9) or (groups, 9) bool."""
        return [block.child_mask() for block in self.blocks]  # type: ignore[operator]

    def child_masks(self) -> list[Tensor]:
        """The children of every unit among those of the block below, or among the cells, (U, D) bool."""
        found, size = [], self.cells
        for level, (chosen, step) in enumerate(zip(self.neighbour_masks(), self.config["strides"], strict=True)):
            where, valid = _places(size, step, chosen.device)
            n_below, size = math.prod(size), self._sizes()[level]
            groups = self.config["groups"]
            taken = (chosen[None] if self.config["children"] == "group" else chosen[:, None]) & valid[:, None]
            mask = taken.new_zeros(len(where), groups, n_below, groups if level else 1)
            for group in range(groups):
                own = mask[:, group, :, group if level else 0]  # a group reads its own group below
                for k in range(9):
                    own[torch.arange(len(where)), where[:, k]] |= taken[:, group, k]
            found.append(mask.flatten(2).flatten(0, 1))
        return found

    def player_map(self) -> Tensor:
        """Every cell of z0 is a player."""
        return torch.eye(self.n_players, device=self.base.device) > 0

    def shown(self, x: Tensor) -> NDArray[Any] | None:
        """A cell is not one number."""
        return None

    def structure(self) -> Structure:
        """Receptive fields by recursion over the children inside the image; kept until the children change."""
        children = self.neighbour_masks()
        if self._structure is None or not self._structure.fits(children):
            per_group = self.config["children"] == "group"
            fields = grown_fields(children, self.cells, self.config["strides"], per_group)
            self._structure = Structure(tuple(children), tuple(fields))
        return self._structure

    def _spreader(self, readouts: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], Tensor]:
        """Along rows and columns in turn where all receptive fields are rectangles, H + W in place of H W products."""
        structure, dtype = self.structure(), readouts[0].dtype
        if self._sides is None or self._sides[0] is not structure:
            fields = zip(structure.fields, self._sizes(), strict=True)
            self._sides = structure, [_sides(field, self.cells, size) for field, size in fields]
        sides = [(rows.to(dtype), columns.to(dtype), alone) for rows, columns, alone in filter(None, self._sides[1])]
        if len(sides) < len(readouts) or any(readout.shape[2] == 1 for readout in readouts):
            return super()._spreader(readouts)

        def spread(units: Sequence[Tensor]) -> Tensor:
            total: Tensor | None = None
            for z, (rows, columns, alone) in zip(units, sides, strict=True):  # z: (U, K, B)
                each = z.view(rows.shape[1], columns.shape[1], len(rows), -1)  # (h, w, G, K B)
                for group in range(len(rows)):  # one by one, which spares a copy
                    if alone[group] and total is not None:
                        total.view(*each.shape[:2], -1).add_(each[:, :, group])
                        continue
                    wide = columns[group].T @ each[:, :, group]  # (h, W, K B)
                    part = rows[group].T @ wide.view(len(wide), -1)  # (H, W K B)
                    total = part if total is None else total.add_(part)
            assert total is not None
            return total.view(self.n_players, *units[0].shape[1:]).permute(2, 1, 0)

        return spread

    def units(self, x: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """(B, U, C) per block: cells row by row and, within a cell, groups of channels."""
        x = self._checked(x)
        there = None
        if present is not None:
            there = check_present(present, len(x), self.n_players).view(-1, *self.cells)
        return self.units_of_map(self.stem(x), there)

    def units_of_map(self, z0: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """The same from the stem's map (B, C, H, W) and the presence of its cells (B, H, W)."""
        found = []
        if self.config["children"] == "location":
            z = z0.permute(0, 2, 3, 1).contiguous()
            if present is not None:
                z = torch.where(present[..., None], z, 0.0)
            alive = present if self.gate == "presence" else None
            for block in self.blocks:
                z, alive = block(z, alive)
                found.append(z.flatten(1, 2))
            return found
        alive = None if present is None else present[:, None]
        z = z0.contiguous(memory_format=torch.channels_last)
        if alive is not None:
            z = torch.where(alive, z, 0.0)
        for block in self.blocks:
            z, alive = block(z, alive)
            n_units = z.shape[2] * z.shape[3] * self.config["groups"]
            found.append(z.permute(0, 2, 3, 1).reshape(len(z), n_units, z.shape[1] // self.config["groups"]))
        return found

    def game(self, x: Tensor, row: int = 0) -> Callable[[NDArray[np.bool_]], NDArray[Any]]:
        """The game that `explain` solves for one image, played by real passes from z0 on: masks (m, P) -> (m, K)."""
        self._check_mode()
        if not 0 <= row < len(x):
            raise IndexError(f"row must lie between 0 and {len(x) - 1}, however: row={row}")
        with torch.no_grad(), full_precision(x):
            z0 = self.stem(self._checked(x[row : row + 1]))

        def play(masks: NDArray[np.bool_]) -> NDArray[Any]:
            present = torch.from_numpy(np.ascontiguousarray(masks)).to(z0.device)
            there = check_present(present, len(masks), self.n_players).view(-1, *self.cells)
            with torch.no_grad(), full_precision(z0):
                parts = [
                    self._read(self.units_of_map(z0.expand(len(some), -1, -1, -1), some)).cpu()
                    for some in torch.split(there, 256)
                ]
            return np.asarray(torch.cat(parts).numpy())

        return play

    def _checked(self, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor):
            raise TypeError(f"x must be a torch tensor, however: {type(x).__name__}; use torch.as_tensor(x)")
        wanted = (self.in_channels, *self.image_size)
        if x.ndim != 4 or tuple(x.shape[1:]) != wanted:
            raise ValueError(f"x must have shape (images, {', '.join(map(str, wanted))}), however: {tuple(x.shape)}")
        dtype = self.base.dtype
        if x.dtype != dtype:
            raise TypeError(
                f"x must have the network's dtype {dtype}, however: {x.dtype}; convert x with .to(dtype) or the "
                "network with .float() or .double()"
            )
        if not torch.compiler.is_compiling() and x.numel() and not bool(torch.isfinite(x.detach().sum())):
            raise ValueError("x must be finite, however: some pixel is NaN or infinite")
        return x

    def extra_repr(self) -> str:
        """The settings that differ between networks."""
        shown = ("in_channels", "image_size", "n_outputs", "channels", "n_blocks", "gate", "children", "groups")
        return ", ".join(f"{key}={self.config[key]!r}" for key in shown)


def _places(size: tuple[int, int], step: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Which cells of a map are the neighbours of each place of the next one, (places, 9), and whether they exist."""
    number = torch.arange(math.prod(size), dtype=torch.float64, device=device).view(1, *size, 1)
    where = neighbours(number)[0, ::step, ::step, :, 0].long()
    return where.reshape(-1, 9), inside(*size)[::step, ::step].reshape(-1, 9).to(device)


def grown_fields(
    children: Sequence[Tensor], cells: tuple[int, int], strides: Sequence[int], per_group: bool
) -> list[Tensor]:
    """Receptive fields (U, P) of every block, by recursion over the children that lie in the image.

    Args:
        children: Per block (P, 9), those of each location, or (G, 9), those of each group of channels.
        cells: Height and width of z0.
        strides: Of every block.
        per_group: Which of the two.
    """
    h, w = cells
    device = children[0].device
    fields: list[Tensor] = []
    below = torch.eye(h * w, device=device, dtype=torch.bool)[:, None]  # (P, 1, P): places, groups, players
    for chosen, step in zip(children, strides, strict=True):
        where, valid = _places((h, w), step, device)
        h, w = -(-h // step), -(-w // step)
        taken = (chosen[None] if per_group else chosen[:, None]) & valid[:, None]  # (places, G, 9)
        field = torch.zeros(h * w, taken.shape[1], below.shape[2], dtype=torch.bool, device=device)
        for k in range(9):
            field |= taken[:, :, k, None] & below[where[:, k]]
        fields.append(field.flatten(0, 1))
        below = field
    return fields


def _sides(field: Tensor, cells: tuple[int, int], size: tuple[int, int]) -> _Sides | None:
    """The sides of receptive fields (U, P); None where one is no rectangle, or its rows depend on its unit's column."""
    whole = field.view(*size, -1, *cells)  # (h, w, G, H, W)
    rows, columns = whole.any(4)[:, 0].transpose(0, 1), whole.any(3)[0].transpose(0, 1)
    if not torch.equal(whole, (rows[:, :, None, :, None] & columns[:, None, :, None]).permute(1, 2, 0, 3, 4)):
        return None
    alone = [size == cells and bool(each.all()) for each in (whole.sum((3, 4)) == 1).unbind(2)]
    rows, columns = rows.double(), columns.double()
    shares = [side / side.sum(2, keepdim=True).clamp_min(1) for side in (rows, columns)]  # no children, no share
    return _Sides(shares[0], shares[1], alone)


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if index(count) < 1:
            raise ValueError(f"{name} must be at least 1, however: {name}={count}")
