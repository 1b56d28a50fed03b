"""Images before a network sees them: as arrays, checked; as tensors, standardised; in training, changed at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor
from torch.nn import functional as F


def as_pixels(images: ArrayLike) -> NDArray[Any]:
    """(N, height, width, channels), uint8 or float32 from 0 to 1, or one clear sentence."""
    try:
        array = np.asarray(images)
    except ValueError as error:  # numpy speaks of an inhomogeneous shape
        raise ValueError("images must all have the same height, width and channels, however: they differ") from error
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or 0 in array.shape[1:]:
        raise ValueError(
            "images must have shape (images, height, width) or (images, height, width, channels), however: "
            f"{np.shape(images)}"
        )
    if array.shape[3] > 4 and array.shape[1] <= 4:
        raise ValueError(
            f"images must have their channels last, however: shape {array.shape}; use images.transpose(0, 2, 3, 1)"
        )
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind not in "fiub":
        raise TypeError(f"images must hold numbers, however: {array.dtype}")
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    if not (low >= 0 and high <= 1):  # NaN is not either
        whole, near = low >= 0 and 2 < high <= 255, low > -1 and high <= 2
        hint = "; use images.astype(np.uint8)" if whole else "; use np.clip(images, 0, 1)" if near else ""
        raise ValueError(
            f"images must be uint8 from 0 to 255 or floats from 0 to 1, however: {array.dtype} from {low:g} to {high:g}"
            f"{hint}"
        )
    return array.astype(np.float32)


def standardised(x: Tensor, dtype: torch.dtype, mean: Tensor, scale: Tensor) -> Tensor:
    """Images (B, C, H, W) of either kind as floats, minus the mean and over the scale of each channel, (C, 1, 1)."""
    whole = x.dtype == torch.uint8
    x = x.to(dtype)
    return ((x / 255 if whole else x) - mean) / scale


def augmented(x: Tensor, generator: Generator, *, flip: bool, crop: int, cutout: int) -> Tensor:
    """Training images (B, C, H, W) as they might have been: mirrored, moved, with a square missing."""
    b, _, h, w = x.shape
    row = torch.arange(h).expand(b, h)
    column = torch.arange(w).expand(b, w)
    if flip:
        mirrored = torch.rand(b, 1, generator=generator) < 0.5
        column = torch.where(mirrored, column.flip(1), column)
    if crop:
        x = F.pad(x, (crop,) * 4)
        row = row + torch.randint(0, 2 * crop + 1, (b, 1), generator=generator)
        column = column + torch.randint(0, 2 * crop + 1, (b, 1), generator=generator)
    if flip or crop:
        place = torch.arange(b)[:, None, None]
        x = x[place, :, row[:, :, None], column[:, None, :]].permute(0, 3, 1, 2)
    if cutout:
        top = torch.randint(0, h, (b, 1, 1), generator=generator) - cutout // 2
        left = torch.randint(0, w, (b, 1, 1), generator=generator) - cutout // 2
        rows, columns = torch.arange(h)[:, None], torch.arange(w)
        hole = (rows >= top) & (rows < top + cutout) & (columns >= left) & (columns < left + cutout)
        x = x.masked_fill(hole[:, None].to(x.device), 0)
    return x
