"""What a Harsanyi network for images is made of: stems, masked convolutions, two kinds of block.

The stem turns an image into a feature map z0; one cell of it, all channels together, is one player. A block is a 3 x 3
convolution whose children are chosen among the nine neighbours of a cell, per location (as in the paper) or per group
of channels (then it is an ordinary convolution with a masked kernel, and may have a stride: a unit of a coarser map is
an AND of cells like any other). Cells outside the image are never children.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import skip_init

from harsanyinet.networks.draws import Draws, normal, uniform
from harsanyinet.networks.gates import SoftAnd, select_children
from harsanyinet.networks.settings import Gate

StemName = Literal["paper", "patch", "deep", "residual", "map"]
TauGradient = Literal["formula", "code"]
_CENTRE = 4  # of the nine neighbours, row by row
GATHERED = 2**20  # values that are gathered at a time


def make_stem(kind: StemName, in_channels: int, channels: int, generator: Draws, patch: int = 2) -> nn.Module:
    """A module from images to a feature map.

    `"paper"`: convolution 3 x 3, max-pool 2 x 2, ReLU; a cell sees 4 x 4 pixels. `"patch"`: one product per patch,
    without a bias, so that a cell is a patch of the image and a black patch an absent player. `"deep"`: a convolution
    with half of the channels, max-pool 2 x 2, a second convolution, both with batch normalisation and ReLU; a cell sees
    8 x 8 pixels. `"residual"`: the same and two more convolutions, which are added; a cell sees 16 x 16 pixels and
    says more by itself. `"map"`: nothing, for images that are feature maps already.
    """
    conv: Callable[..., nn.Module] = partial(skip_init, nn.Conv2d)  # torch's own first weights are not drawn
    if kind == "paper":
        layers: list[nn.Module] = [conv(in_channels, channels, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
    elif kind == "patch":
        layers = [conv(in_channels, channels, patch, stride=patch, bias=False)]
    elif kind in ("deep", "residual"):
        half = max(1, channels // 2)
        layers = [conv(in_channels, half, 3, padding=1, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(half)]
        layers += [nn.ReLU(), conv(half, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
        if kind == "residual":
            first, second = (conv(channels, channels, 3, padding=1, bias=False) for _ in range(2))
            layers.append(ResidualPair(first, second, channels))
    elif kind == "map":
        layers = []
    else:
        raise ValueError(
            f"stem must be 'paper', 'patch', 'deep', 'residual', 'map' or a module, however: stem={kind!r}"
        )
    stem = nn.Sequential(*layers)
    with torch.no_grad():
        for layer in stem.modules():
            if isinstance(layer, nn.Conv2d):
                layer.weight.copy_(_he(layer.weight.shape, generator))
                if layer.bias is not None:  # of both signs: where an image is black some channels are not zero
                    layer.bias.copy_((uniform((channels,), generator) * 2 - 1) / math.sqrt(9 * in_channels))
    return stem


class ResidualPair(nn.Module):
    """Two convolutions with batch normalisation, added to what came in, and ReLU."""

    def __init__(self, first: nn.Module, second: nn.Module, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(first, nn.BatchNorm2d(channels), nn.ReLU(), second, nn.BatchNorm2d(channels))

    def forward(self, z: Tensor) -> Tensor:  # noqa: D102
        out: Tensor = z + self.inner(z)
        return out.relu_()


def _he(shape: tuple[int, ...], generator: Draws) -> Tensor:
    """He's normal weights."""
    return normal(shape, generator) * math.sqrt(2 / math.prod(shape[1:]))


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
    lengths = []
    with torch.no_grad(), evaluating(stem):
        for axis in (2, 3):
            n = size[axis - 2]
            x = torch.zeros(n, in_channels, *size, dtype=like.dtype, device=like.device)
            for line in range(n):
                x[line].select(axis - 1, line).fill_(math.nan)
            seen = torch.cat([stem(part).isnan().any(1).any(5 - axis - 1) for part in torch.split(x, 32)])  # (n, cells)
            lengths.append(int(seen.sum(0).max()))
    return lengths[0], lengths[1]


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
        if torch.is_autocast_enabled(z.device.type):  # gathered as they are multiplied, at half the width
            half = torch.get_autocast_dtype(z.device.type)
            z, weight, sigma = z.to(half), weight.to(half), sigma.to(half)
        ctx.save_for_backward(z, weight, sigma)
        ctx.n_images = len(z) if z.is_cuda or not len(z) else max(1, GATHERED // (9 * z[0].numel()))
        return torch.cat(
            [neighbours(z).mul_(sigma[..., None]).flatten(3) @ weight.T for z in torch.split(z, ctx.n_images)]
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        z, weight, sigma = ctx.saved_tensors
        grad = grads[0].to(weight.dtype).contiguous()
        whole = torch.promote_types(weight.dtype, torch.float32)  # sums over many cells
        of_z, of_weight, of_sigma = [], torch.zeros_like(weight, dtype=whole), torch.zeros_like(sigma, dtype=whole)
        for some, above in zip(*(torch.split(v, ctx.n_images) for v in (z, grad)), strict=True):
            gathered = neighbours(some)
            of_masked = (above @ weight).view_as(gathered)
            if ctx.needs_input_grad[2]:
                of_sigma += torch.linalg.vecdot(of_masked, gathered).sum(0)
            if ctx.needs_input_grad[0]:
                of_z.append(scattered(of_masked.mul_(sigma[..., None])))
            if ctx.needs_input_grad[1]:
                of_weight += above.flatten(0, 2).T @ gathered.mul_(sigma[..., None]).flatten(3).flatten(0, 2)
        return torch.cat(of_z) if of_z else None, of_weight, of_sigma


def masked_convolution(z: Tensor, weight: Tensor, sigma: Tensor) -> Tensor:
    """(B, H, W, C) -> (B, H, W, C'): every location sees those of its neighbours that sigma (H, W, 9) names.

    The weight is (C', 9 C), neighbours row by row.
    """
    out: Tensor = _MaskedConvolution.apply(z, weight, sigma)  # type: ignore[no-untyped-call]
    return out


class _NeighbourAnd(torch.autograd.Function):
    """The soft AND over the children among nine neighbours, with the gradient of the paper's product over all nine.

    From a, gamma times the sum of absolute channels of each cell (B, H, W), and Sigma (H, W, 9), which stands twice in
    a factor, f = selected tanh(inner a) + 1 - selected: the same numbers, with gradients of their own. With
    t = tanh(a), of a child: df/d inner = a (1 - t^2), df/d selected = t - 1; of any other: 0 and -1, whatever its a.
    With `log_sum` the gate is exp(sum of selected log(tanh(inner a) + 1e-30)), the same number: df/d selected over f is
    then the logarithm itself. A dead gate passes nothing on: above it is ReLU'(0) = 0. A gate up to `floor` is zero,
    which depends on the unit's own children only, so that the unit stays exact.
    """

    @staticmethod
    def forward(
        ctx: Any, size: Tensor, inner: Tensor, selected: Tensor, mode: SoftAnd, floor: float, log_sum: bool
    ) -> Tensor:
        sigma, tiny = selected, torch.finfo(size.dtype).tiny
        near = neighbours(size.tanh()[..., None], 1.0)[..., 0]  # (B, H, W, 9)
        dead = (near < 1.01 * tiny) & (sigma > 0)
        total = near.clamp_min_(tiny).log_().mul_(sigma).sum(-1)
        gate = (total / sigma.sum(-1).clamp_min(1) if mode == "geometric" else total).exp_()
        gate.masked_fill_(dead.any(-1), 0.0)
        if floor:
            gate = torch.threshold_(gate, floor, 0.0)
        ctx.save_for_backward(size, sigma, gate)
        ctx.mode, ctx.log_sum = mode, log_sum
        return gate

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        size, sigma, gate = ctx.saved_tensors
        tiny = torch.finfo(size.dtype).tiny
        count = sigma.sum(-1, keepdim=True).clamp_min(1)
        of_log = (grads[0] * gate)[..., None]  # (B, H, W, 1), of the logarithm of the gate
        of_product = of_log / count if ctx.mode == "geometric" else of_log
        t = size.tanh().clamp_min_(tiny)
        slope = 1 / t - t  # of log tanh: (1 - t^2) / t
        of_selected = t.log() if ctx.log_sum else 1 - 1 / t  # df/d selected / f, of a child
        of_inner = (of_product * _gathered(size * slope)).sum(0) * (sigma > 0)
        of_other = of_product.sum(0) * (math.log(1e-30) if ctx.log_sum else -1.0)
        of_sigma = torch.where(sigma > 0, (of_product * _gathered(of_selected)).sum(0), of_other)
        if ctx.mode == "geometric":  # every child counts in the root
            of_sigma = of_sigma - (of_log[..., 0] * gate.clamp_min(tiny).log()).sum(0)[..., None] / count
        of_size = scattered((of_product * sigma)[..., None])[..., 0] * slope
        return of_size, of_inner, of_sigma, None, None, None


def _gathered(cells: Tensor) -> Tensor:
    """(B, H, W) -> (B, H, W, 9)."""
    return neighbours(cells[..., None])[..., 0]


class LocationBlock(nn.Module):
    """Children chosen per location and shared by all channels, tau ~ N(0, 0.01^2).

    Activation gate: z = ReLU(masked convolution * AND over the children of tanh(gamma * sum of abs(channels))), with
    the gradient of the paper's formula or that of the authors' code (`tau_gradient`). Presence gate: z = present *
    (z of the same cell + activation(batch norm(masked convolution))), the centre always a child.

    Shape:
        - z: (B, H, W, C) and the presence of its cells (B, H, W, 1) or None; returns the same of the block.
    """

    no_weight_decay = trained_apart = ("tau",)
    rate_shares: ClassVar = {"tau": 0.01}

    def __init__(
        self, c_in: int, c_out: int, *, size: tuple[int, int], gate: Gate, beta: float, gamma: float, mode: SoftAnd,
        generator: Draws, tau_gradient: TauGradient = "formula", gate_floor: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.gate, self.beta, self.gamma, self.mode = gate, beta, gamma, mode
        self.tau_gradient, self.gate_floor = tau_gradient, gate_floor
        tau = 0.01 * normal((*size, 9), generator)
        if gate == "presence":
            tau[..., _CENTRE] = 1.0
        self.tau = nn.Parameter(tau)
        self.register_buffer("inside", inside(*size).float(), persistent=False)
        self.inside: Tensor
        self.weight = nn.Parameter(_he((c_out, 9 * c_in), generator))
        self.norm = nn.BatchNorm2d(c_out) if gate == "presence" else None
        self.residual = gate == "presence" and c_in == c_out

    def child_mask(self) -> Tensor:
        """(H W, 9) bool."""
        chosen = self.tau.detach() > 0
        if self.gate == "presence":
            chosen = _with_centre(chosen)
        return (chosen & (self.inside > 0)).flatten(0, 1)

    def parts(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The two factors of a unit of the activation gate: the sum over its children (B, H, W, C) and the AND.

        NOTE[DIFF]: `tau_gradient="code"` is what the authors' code does and the paper does not say: beta acts on the
        sum and inside the tanh, the AND's own selection has beta = 1 and the gradient of a sum of logarithms.
        """
        there, log_sum = self.inside.to(z.dtype), self.tau_gradient == "code"
        sigma = select_children(self.tau, self.beta) * there
        selected = select_children(self.tau, 1.0) * there if log_sum else sigma
        size = self.gamma * z.abs().sum(-1, dtype=self.tau.dtype)
        settings = (self.mode, self.gate_floor, log_sum)
        gate: Tensor = _NeighbourAnd.apply(size, sigma, selected, *settings)  # type: ignore[no-untyped-call]
        return masked_convolution(z, self.weight, sigma), gate

    def forward(self, z: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor | None]:  # noqa: D102
        if self.gate == "activation":
            total, gate = self.parts(z)
            return (total * gate[..., None]).relu(), None
        sigma = _with_centre(select_children(self.tau, self.beta) * self.inside.to(z.dtype))
        assert self.norm is not None
        out = self.norm(masked_convolution(z, self.weight, sigma).permute(0, 3, 1, 2)).relu_().permute(0, 2, 3, 1)
        if self.residual:
            out = out + z
        if present is not None:
            near = neighbours(present.to(z.dtype), 1.0)[..., 0]
            present = (((1 - near) * sigma.detach()).sum(-1) == 0)[..., None]
            out = torch.where(present, out, 0.0)
        return out, present


def _with_centre(sigma: Tensor) -> Tensor:
    """(..., 9) of zeros and ones, with a cell always among its own children."""
    centre = torch.zeros_like(sigma)
    centre[..., _CENTRE] = 1
    return torch.maximum(sigma, centre)


def _rectangles(groups: int, stride: int, generator: Draws) -> Tensor:
    """First children (G, 9) bool: rectangles of neighbours, which make every receptive field a rectangle.

    The first group looks everywhere, the second at its own cells only, so that a cell counts by itself; the others at
    a line, a column or a square.
    """
    chosen = torch.zeros(groups, 3, 3, dtype=torch.bool)
    if generator is None:
        return chosen.flatten(1)
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
        - z: (B, H, W, C) and presence (B, H, W, G), (B, H, W, 1) of z0, or None; returns the same of the block.
    """

    no_weight_decay = trained_apart = ("tau",)

    def __init__(
        self, c_in: int, c_out: int, *, groups: int, first: bool, stride: int, beta: float, learned: bool,
        generator: Draws,
    ) -> None:  # fmt: skip
        super().__init__()
        self.groups, self.first, self.stride, self.beta = groups, first, stride, beta
        tau = torch.where(_rectangles(groups, stride, generator), 1.0, -1.0)
        if learned:
            self.tau = nn.Parameter(tau)
        else:
            self.register_buffer("tau", tau)
        self.weight = nn.Parameter(_he((c_out, c_in if first else c_in // groups, 3, 3), generator))
        self.norm = nn.BatchNorm2d(c_out)
        self.residual = not first and stride == 1 and c_in == c_out

    def child_mask(self) -> Tensor:
        """(G, 9) bool, before the border."""
        return _with_centre(self.tau.detach() > 0)

    def forward(self, z: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor | None]:  # noqa: D102
        sigma = _with_centre(select_children(self.tau, self.beta))
        kernel = self.weight * sigma.repeat_interleave(len(self.weight) // self.groups, 0).view(-1, 1, 3, 3)
        read: dict[str, Any] = {"stride": self.stride, "padding": 1, "groups": 1 if self.first else self.groups}
        out = self.norm(F.conv2d(z.permute(0, 3, 1, 2), kernel, **read)).relu_().permute(0, 2, 3, 1)
        if self.residual:
            out = out + z
        if present is not None:
            absent = (~present).to(z.dtype).permute(0, 3, 1, 2)  # what lies outside is not absent
            n_absent = F.conv2d(absent, sigma.detach().view(-1, 1, 3, 3), **read)
            present = (n_absent < 0.5).permute(0, 2, 3, 1)
            out = torch.where(present.repeat_interleave(out.shape[3] // self.groups, 3), out, 0.0)
        return out, present
