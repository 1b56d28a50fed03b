"""What a Harsanyi network for images is made of: stems, masked convolutions, two kinds of block.

The stem turns an image into a feature map z0; one cell of it, all channels together, is one player. A block is a 3 x 3
convolution whose children are chosen among the nine neighbours of a cell, per location (as in the paper) or per group
of channels (then it is an ordinary convolution with a masked kernel, and may have a stride: a unit of a coarser map is
an AND of cells like any other). Cells outside the image are never children.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.blocks import SoftAnd, select_children

Gate = Literal["activation", "presence"]
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


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """In evaluation mode, and after that each part in its own mode again."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def pixels_per_cell(stem: nn.Module, in_channels: int, size: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the window of pixels that a cell of the stem's map depends on, at most.

    A whole line of the image is made NaN, and the cells that turn NaN see it.
    """
    like = next(stem.parameters(), torch.zeros(()))
    found = []
    with torch.no_grad(), evaluating(stem):
        for axis in (2, 3):
            n = size[axis - 2]
            x = torch.zeros(n, in_channels, *size, dtype=like.dtype, device=like.device)
            for line in range(n):
                x[line].select(axis - 1, line).fill_(math.nan)
            seen = torch.cat([stem(part).isnan().any(1).any(5 - axis - 1) for part in torch.split(x, 32)])  # (n, cells)
            found.append(int(seen.sum(0).max()))
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
