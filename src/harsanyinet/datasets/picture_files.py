"""Pictures as files: one, some in a folder, or a folder for each class. Needs Pillow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harsanyinet.datasets.fetching import DatasetDamagedError

Pixels = NDArray[np.uint8]
_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def read_folder(folder: str | os.PathLike[str], size: tuple[int, int] | None = None) -> tuple[Pixels, NDArray[np.str_]]:
    """Reads a folder with one folder of pictures per class, in the order of their names. Needs Pillow.

    A picture is turned upright as its EXIF data say, 16 bits become 8, transparency is dropped, and of an animation the
    first frame is read.

    Args:
        folder: Its folders are the classes; what is hidden or not a picture by its ending is left out.
        size: Height and width to which every picture is scaled; by default all must have that of the first.

    Returns:
        Pixels (N, height, width, channels) uint8, one channel if every picture is stored as grey (a GIF or WebP never
        is) and else three, and the names of the classes (N,).

    Raises:
        DatasetDamagedError: A picture cannot be read.
        ValueError: There are fewer than two classes or than two pictures in one, or their sizes differ.
    """
    pair = isinstance(size, tuple | list) and len(size) == 2
    if size is not None and not (pair and all(isinstance(n, int | np.integer) and n > 0 for n in size)):
        raise ValueError(f"size must be a height and a width, two positive whole numbers, however: {size=}")
    root = Path(folder)
    if not root.is_dir():
        instead = "it is a file" if root.exists() else "there is none"
        raise ValueError(
            f"{root} must be a folder with one folder of pictures per class, however: {instead}; check the path"
        )
    paths = {folder.name: _pictures(folder) for folder in _visible(root) if folder.is_dir()}
    if len(paths) < 2:
        raise ValueError(
            f"{root} must hold at least two folders, one per class, however: {', '.join(paths) or 'none'}; give the "
            "folder in which the folders of the classes are"
        )
    for name, files in paths.items():
        if len(files) < 2:
            instead = f"only {files[0]}" if files else f"none in {root / name}"
            raise ValueError(
                f"the class {name} must have at least two pictures ({' '.join(_ENDINGS)}), however: {instead}; add "
                "some or remove its folder"
            )
    labels = np.repeat(list(paths), list(map(len, paths.values())))
    return _together([path for files in paths.values() for path in files], size), labels


def read_pictures(place: str | os.PathLike[str]) -> Pixels:
    """Reads one picture, all pictures of a folder, or those of its folders, in the order of their names.

    Pixels and errors are as for `read_folder`, and there may be any number of pictures but none.
    """
    root = Path(place)
    if not root.exists():
        raise FileNotFoundError(f"cannot read {root}: there is no such picture or folder; check the path")
    if not root.is_dir():
        return _together([root])
    paths = [path for folder in (root, *_visible(root)) if folder.is_dir() for path in _pictures(folder)]
    if not paths:
        raise ValueError(f"{root} must hold pictures ({' '.join(_ENDINGS)}), however: there are none")
    return _together(paths)


def _together(paths: Sequence[Path], size: tuple[int, int] | None = None) -> Pixels:
    """Pictures of one size as one array, in colour where one of them is."""
    pictures: list[Pixels] = []
    for path in paths:
        pictures.append(read_picture(path, size))
        wanted, shape = pictures[0].shape[:2], pictures[-1].shape[:2]
        if shape != wanted:
            raise ValueError(
                f"all pictures must have {wanted[0]} x {wanted[1]} pixels (height x width), as the first has, "
                f"however: {path} has {shape[0]} x {shape[1]}; to scale them, call read_folder(folder, "
                "size=(height, width))"
            )
    if any(picture.shape[2] == 3 for picture in pictures):
        pictures = [np.repeat(p, 3, axis=2) if p.shape[2] == 1 else p for p in pictures]
    return np.stack(pictures)


def _visible(folder: Path) -> list[Path]:
    """What is in a folder by name, without what the system hides there, such as ._cat.png of macOS."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _pictures(folder: Path) -> list[Path]:
    return [path for path in _visible(folder) if path.suffix.lower() in _ENDINGS and path.is_file()]


def read_picture(path: Path, size: tuple[int, int] | None = None) -> Pixels:
    """(height, width, 1 or 3)."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("reading pictures needs Pillow: pip install 'harsanyinet[images]'") from error
    try:
        with Image.open(path) as opened:
            image: Image.Image = opened
            mode, form = image.mode, opened.format
            image.load()
            image.info.pop("transparency", None)  # it is dropped, and Pillow would warn of it
            ImageOps.exif_transpose(image, in_place=True)
            if not mode.startswith(("I", "F")):
                image = image.convert("L" if mode in ("1", "L", "LA") else "RGB")
    except Exception as error:  # for a damaged file, Pillow's readers raise nearly anything
        unknown = isinstance(error, UnidentifiedImageError)
        reason = "its content is that of no picture" if unknown else " ".join(str(error).split()) or repr(error)
        raise DatasetDamagedError(
            f"{path} must be a picture that can be read, however: {reason}; replace or delete it"
        ) from error
    if mode.startswith("I;16") or (mode == "I" and form in ("PNG", "PPM")):  # Pillow would cut everything above 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif mode in ("I", "F"):
        raise ValueError(f"{path} must have 8 or 16 bits per channel, however: 32; save it again with 8")
    if size is not None:
        image = image.resize((int(size[1]), int(size[0])))
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[..., None] if pixels.ndim == 2 else pixels
