"""Feature maps of images on disk: computed once by a frozen network, then mapped into memory."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import Tensor, nn

from harsanyinet.files import write_beside
from harsanyinet.images.conv_blocks import evaluating
from harsanyinet.networks.settings import at_least_one, one_of
from harsanyinet.progress import bar

_SECONDS_AT_RISK = 5.0  # what a crash costs at most; a record takes about 10 ms

Precision = Literal["float16", "float32"]


def cached_features(
    images: NDArray[np.uint8],
    backbone: nn.Module,
    folder: str | os.PathLike[str],
    *,
    batch_size: int = 16,
    dtype: Precision = "float16",
    progress: bool = True,
) -> NDArray[Any]:
    """The feature maps of images, computed once and then read from `folder`.

    The file is named after the pixels, the backbone (what it prints and its weights) and the precision. It is written
    beside its place, an interrupted computation goes on where it ended, and a damaged file is computed again. Of
    several processes that want the same file one computes it and the others wait.

    Args:
        images: (N, H, W), (N, H, W, 1) or (N, H, W, 3) uint8.
        backbone: `EfficientNetLite` or another module from floats (B, channels, H, W), 0 to 1, to a map. It runs in
            evaluation mode, and is left as it was.
        folder: Where the file goes; created when it is not there.
        batch_size: Images in one pass. On a processor few are faster than many, whose maps leave its cache.
        dtype: Of the file. Half precision keeps eleven binary digits.
        progress: Whether a bar is shown after two seconds.

    Returns:
        (N, C, h, w), mapped into memory and read-only. Copy the rows that torch is to have:
        ``torch.tensor(features[rows], dtype=torch.float32)``.

    Raises:
        ValueError: The images are of another shape or type, or a feature is too large for the precision.
    """
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or 0 in images.shape:
        raise ValueError(
            "images must be uint8 of shape (rows, height, width[, channels]), none of them 0, however: "
            f"{images.dtype} of shape {images.shape}"
        )
    one_of(Precision, dtype=dtype)
    at_least_one(batch_size=batch_size)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    pixels = images if images.ndim == 4 else images[..., None]
    path = place / f"{_mark(pixels, backbone, dtype)}.npy"
    with FileLock(path.with_suffix(".lock")), evaluating(backbone):
        shape = (len(pixels), *_maps(pixels[:1], backbone, dtype).shape[1:])
        if _sound_rows(path, shape, dtype) < len(pixels):
            _fill(path, shape, pixels, backbone, batch_size, dtype, progress)
    return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _fill(
    path: Path, shape: tuple[int, ...], pixels: NDArray[np.uint8], backbone: nn.Module, batch_size: int,
    dtype: Precision, progress: bool,
) -> None:  # fmt: skip
    """Writes the file, from where an earlier attempt ended."""
    partial = path.with_suffix(".partial")
    done = _sound_rows(partial, shape, dtype)
    maps = open_memmap(partial, mode="r+" if done else "w+", dtype=dtype, shape=shape)
    maps.flush()
    checksum, recorded = _checksum(partial, maps, done), time.monotonic()
    with bar("features", len(pixels), unit="image", progress=progress, initial=done) as shown:
        try:
            while done < len(pixels):
                batch = _maps(pixels[done : done + batch_size], backbone, dtype)
                maps[done : done + len(batch)] = batch
                done, checksum = done + len(batch), zlib.crc32(batch.data, checksum)
                if time.monotonic() - recorded > _SECONDS_AT_RISK:
                    _record(path, maps, done, checksum)
                    recorded = time.monotonic()
                shown.update(len(batch))
        finally:
            _record(path, maps, done, checksum)
    del maps
    partial.replace(path)


def _record(path: Path, maps: np.memmap[Any, Any], rows: int, checksum: int) -> None:
    """Writes beside the file how many rows it has, once they are on the disk."""
    maps.flush()
    write_beside(path.with_suffix(".json"), json.dumps({"rows": rows, "crc32": checksum}).encode())


def _sound_rows(file: Path, shape: tuple[int, ...], dtype: Precision) -> int:
    """How many rows of a file are as its record says: 0 if it is missing, damaged or of another kind."""
    try:
        record = json.loads(file.with_suffix(".json").read_bytes())
        maps = open_memmap(file, mode="r")
        rows = int(record["rows"])
        same = maps.shape == shape and maps.dtype == dtype and _checksum(file, maps, rows) == record["crc32"]
        return rows if same else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _checksum(file: Path, maps: np.memmap[Any, Any], rows: int) -> int:
    """Of the first rows of a file, and of what stands before them."""
    return zlib.crc32(np.memmap(file, np.uint8, "r")[: maps.offset + rows * maps[:1].nbytes].data)


def _maps(pixels: NDArray[np.uint8], backbone: nn.Module, dtype: Precision) -> NDArray[Any]:
    """One batch, in the precision of the file."""
    like = next(backbone.parameters(), torch.zeros(()))
    x = torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2).to(like.device, like.dtype) / 255
    with torch.no_grad():
        maps = backbone(x)
    if not isinstance(maps, Tensor) or maps.ndim != 4 or len(maps) != len(x):
        given = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
        raise ValueError(f"backbone must return maps (rows, channels, height, width), however: {given}")
    maps = maps.to("cpu", getattr(torch, dtype)).contiguous()
    if not bool(maps.isfinite().all()):
        advice = "; pass dtype='float32'" if dtype == "float16" else ""
        raise ValueError(f"features must be finite in {dtype}, however: some are not{advice}")
    return np.asarray(maps.numpy())


def _mark(pixels: NDArray[np.uint8], backbone: nn.Module, dtype: Precision) -> str:
    """A name for what is computed from what."""
    like = next(backbone.parameters(), torch.zeros(()))
    digest = hashlib.sha256(f"1 {pixels.shape} {dtype} {like.dtype} {backbone!r}".encode())
    for name, tensor in backbone.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    digest.update(np.ascontiguousarray(pixels).data)
    return f"features-{digest.hexdigest()[:24]}"
