"""ShapNets for images (Wang, Wang, Inouye 2021): a Shapley module takes the place of a convolution. No training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from numbers import Integral

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from harsanyinet.peers.patch_layers import ConvShapleyLayer, patch_sets
from harsanyinet.peers.shapley_layers import ShapleyLayer
from harsanyinet.peers.shapnet_base import DeepNet, Layer, ShallowNet, check_counts, check_widths


class ShallowConvShapNet(ShallowNet):
    """One layer of Shapley modules on 2x2 patches. Its values are exact Shapley values of its outputs.

    It holds no interaction of more than four cells, all of them corners of one patch. With the weights shared over
    locations, as in the paper, it is a bag of patches that hardly knows where they lie.

    Args:
        in_channels: Channels of an image.
        image_size: Height and width, or one number for both.
        n_outputs: K, for example one logit per class.
        dilations: Distances between the rows and columns of the patches. Each has a perceptron of its own.
        hidden: Width of the one hidden layer of the inner perceptrons.
        shared: Whether all locations share one perceptron; otherwise each has its own.
        patch: A cell is a square of so many pixels a side. Images are padded with zeros at the bottom and on the right
            where a side is no multiple of it.
        baseline: The value of a pixel that is absent: a number, one for each channel, or a whole image (C, H, W); zero
            by default.
        seed: For the initial weights.

    Shape:
        - x: (B, in_channels, H, W); present: (P,) or (B, P) bool; returns (B, K)

    Examples:
        >>> net = ShallowConvShapNet(1, (4, 6), 2, patch=2).double().eval()
        >>> x = torch.linspace(-1, 1, 48, dtype=torch.float64).view(2, 1, 4, 6)
        >>> net.cells, tuple(net.explain_values(x).shape)
        ((2, 3), (2, 6, 2))
        >>> torch.allclose(net.explain_values(x).sum(1) + net.base, net(x))
        True
    """

    def __init__(
        self,
        in_channels: int,
        image_size: int | tuple[int, int],
        n_outputs: int,
        *,
        dilations: Sequence[int] = (1, 2, 4),
        hidden: int = 64,
        shared: bool = True,
        patch: int = 1,
        baseline: ArrayLike | Tensor | None = None,
        seed: int = 0,
    ) -> None:
        check_counts(in_channels=in_channels, n_outputs=n_outputs, hidden=hidden, patch=patch)
        if len(dilations) == 0:
            raise ValueError("dilations must hold at least one number, however: there is none")
        check_widths(dilations=dilations)
        off = _as_baseline(baseline, in_channels, image_size)
        cells = _cells(off, patch)
        n_cells, d_in, generator = prod(cells), in_channels * patch**2, Generator().manual_seed(seed)

        def layer(dilation: int) -> Layer:
            if not shared:
                sets = patch_sets(cells, dilation)
                return ShapleyLayer(sets, d_in, n_outputs, hidden=(hidden,), constants=True, generator=generator)
            gain = 1 / n_cells  # the sum over locations, which are alike, starts as a mean
            return ConvShapleyLayer(
                cells, dilation, d_in, n_outputs, hidden=hidden, constants=True, gain=gain, generator=generator
            )

        super().__init__(off, n_outputs, [layer(dilation) for dilation in dilations], patch)
        self.cells = cells


class DeepConvShapNet(DeepNet):
    """Layers of Shapley modules on 2x2 patches. Its explanations are not Shapley values.

    They add up to the output, and a cell at its baseline gets zero, as in `DeepShapNet`; exact they are not.

    Args:
        channels: Widths between the layers; there is one layer more than widths.
        dilations: Distance between the rows and columns of the patches of each layer.
        residual: Whether to add the values below a layer to its own, where the widths agree.

    Other arguments and shapes as in `ShallowConvShapNet`.

    Examples:
        >>> net = DeepConvShapNet(1, 28, 10, patch=2)
        >>> [tuple(z.shape) for z in net.layer_values(torch.ones(3, 1, 28, 28))]
        [(3, 196, 32), (3, 196, 64), (3, 196, 64), (3, 196, 10)]
    """

    def __init__(
        self,
        in_channels: int,
        image_size: int | tuple[int, int],
        n_outputs: int,
        *,
        channels: Sequence[int] = (32, 64, 64),
        dilations: Sequence[int] = (1, 2, 4, 8),
        hidden: int = 64,
        residual: bool = True,
        patch: int = 1,
        baseline: ArrayLike | Tensor | None = None,
        seed: int = 0,
    ) -> None:
        check_counts(in_channels=in_channels, n_outputs=n_outputs, hidden=hidden, patch=patch)
        check_widths(channels=channels, dilations=dilations)
        if len(dilations) != len(channels) + 1:
            raise ValueError(
                f"dilations must hold one number for each of the {len(channels) + 1} layers, however: {dilations=}"
            )
        off, generator = _as_baseline(baseline, in_channels, image_size), Generator().manual_seed(seed)
        cells, widths = _cells(off, patch), pairwise((in_channels * patch**2, *channels, n_outputs))
        layers = [
            ConvShapleyLayer(cells, dilation, below, above, hidden=hidden, constants=False, generator=generator)
            for dilation, (below, above) in zip(dilations, widths, strict=True)
        ]
        super().__init__(off, n_outputs, layers, patch, residual=residual)
        self.cells = cells


def _cells(image: Tensor, patch: int) -> tuple[int, int]:
    """Rows and columns of cells."""
    _, height, width = image.shape
    return -(-height // patch), -(-width // patch)


def _as_baseline(baseline: ArrayLike | Tensor | None, in_channels: int, image_size: int | tuple[int, int]) -> Tensor:
    """A number, one for each channel, or an image, as an image (C, H, W) in float64."""
    size = tuple(image_size) if isinstance(image_size, Sequence) else (image_size, image_size)
    if len(size) != 2 or not all(isinstance(length, Integral) and length >= 1 for length in size):
        raise ValueError(f"image_size must be one positive integer, or two, however: {image_size=}")
    shape = (in_channels, *size)
    given = torch.as_tensor(0.0 if baseline is None else baseline, dtype=torch.float64).detach()
    if tuple(given.shape) not in ((), shape[:1], shape) or not bool(given.isfinite().all()):
        what = f"shape {tuple(given.shape)}: {given}"
        raise ValueError(f"baseline must hold one finite number, {shape[0]}, or those of {shape}, however: {what}")
    return (given[:, None, None] if given.ndim == 1 else given).expand(shape).clone()
