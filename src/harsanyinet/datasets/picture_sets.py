"""Images to try things on: MNIST, CIFAR-10, scikit-learn's digits, and folders of pictures. No model.

Looked for and checked as tables are, see `fetching`.
"""

from __future__ import annotations

import gzip
import io
import os
import pickle
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.datasets import fetching
from harsanyinet.datasets.fetching import DatasetDamagedError, DatasetNotFoundError
from harsanyinet.files import write_beside

MNIST_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"

CIFAR_BATCHES = {  # md5 of the batch as a file of the binary version: label, red, green, blue, for each image
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
CIFAR_ARCHIVE = {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"}
_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/"
_CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ImageSplit:
    """Images in two parts.

    Attributes:
        name: What the set is called.
        train: Images to fit on, (N, height, width, channels) uint8.
        y_train: Their class numbers.
        test: Images to test on.
        y_test: Their class numbers.
        class_names: One per class.
        source: Where it was read, as for tables.
        description: Which images these are.
    """

    name: str
    train: Pixels = field(repr=False)
    y_train: NDArray[np.int64] = field(repr=False)
    test: Pixels = field(repr=False)
    y_test: NDArray[np.int64] = field(repr=False)
    class_names: tuple[str, ...]
    source: str
    description: str


def load_mnist() -> ImageSplit:
    """MNIST: 60,000 and 10,000 handwritten digits of 28 x 28 pixels in one channel, from the four idx files.

    Raises:
        DatasetNotFoundError: The files are nowhere to be had.
        DatasetDamagedError: A file that was found has another content.
    """
    contents, source = fetching.find_files("mnist", MNIST_MD5) or _download_each("mnist", MNIST_MD5, _MNIST_URL)
    train, y_train, test, y_test = (_idx(contents[name]) for name in MNIST_MD5)
    description = f"the original split: {len(train):,} to train and {len(test):,} to test"
    names = tuple(map(str, range(10)))
    return ImageSplit(
        "mnist", train[..., None], y_train.astype(np.int64), test[..., None], y_test.astype(np.int64), names, source,
        description,
    )  # fmt: skip


def load_cifar10() -> ImageSplit:
    """CIFAR-10: 50,000 and 10,000 colour pictures of 32 x 32 pixels in ten classes.

    From the folder `cifar10`: either the original archive ``cifar-10-python.tar.gz``, or one lossless WebP sheet of 100
    x 100 images per batch with ``labels.npz`` beside them (needs Pillow). Whichever it is, the pixels are checked.

    Raises:
        DatasetNotFoundError: Neither is in one of the folders, and the archive cannot be fetched.
        DatasetDamagedError: A file that was found has another content.
    """
    batches, source = _cifar_batches()
    parts = [batches[name] for name in CIFAR_BATCHES]
    train, y_train = (np.concatenate(each) for each in zip(*parts[:5], strict=True))
    test, y_test = parts[5]
    description = f"the original split: {len(train):,} to train and {len(test):,} to test"
    return ImageSplit("cifar10", train, y_train, test, y_test, _CIFAR_CLASSES, source, description)


def load_digit_images(seed: int = 0) -> ImageSplit:
    """Handwritten digits from scikit-learn, 8 x 8 pixels with 17 levels of grey: always at hand.

    Args:
        seed: Of the stratified split, 80 % to train and 20 % to test.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    pixels = np.round(bunch.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = bunch.target.astype(np.int64)
    train, test, y_train, y_test = train_test_split(pixels, labels, test_size=0.2, stratify=labels, random_state=seed)
    description = f"a stratified 80/20 split with seed {seed}: {len(train)} to train and {len(test)} to test"
    names = tuple(map(str, range(10)))
    return ImageSplit("digits", train, y_train, test, y_test, names, "scikit-learn", description)


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
    if size is not None and not _is_size(size):
        raise ValueError(f"size must be a height and a width, two positive whole numbers, however: {size=}")
    root = Path(folder)
    if not root.is_dir():
        instead = "it is a file" if root.exists() else "there is none"
        raise ValueError(
            f"{root} must be a folder with one folder of pictures per class, however: {instead}; check the path"
        )
    paths = {
        c.name: [p for p in _visible(c) if p.suffix.lower() in _ENDINGS and p.is_file()]
        for c in _visible(root)
        if c.is_dir()
    }
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

    Args:
        place: A picture; a folder of pictures; or one with a folder of pictures per class, as `read_folder` takes it.

    Returns:
        Pixels (N, height, width, channels) uint8, channels as in `read_folder`.

    Raises:
        DatasetDamagedError: A picture cannot be read.
        ValueError: There are no pictures, or their sizes differ.
    """
    root = Path(place)
    if not root.exists():
        raise FileNotFoundError(f"cannot read {root}: there is no such picture or folder; check the path")
    folders = [root, *(path for path in _visible(root) if path.is_dir())] if root.is_dir() else []
    paths = [p for each in folders for p in _visible(each) if p.suffix.lower() in _ENDINGS and p.is_file()]
    if root.is_dir() and not paths:
        raise ValueError(f"{root} must hold pictures ({' '.join(_ENDINGS)}), however: there are none")
    return _together(paths if root.is_dir() else [root])


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


def _is_size(size: Any) -> bool:
    pair = isinstance(size, tuple | list) and len(size) == 2
    return pair and all(isinstance(length, int | np.integer) and length > 0 for length in size)


def _visible(folder: Path) -> list[Path]:
    """What is in a folder by name, without what the system hides there, such as ._cat.png of macOS."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def read_picture(path: Path, size: tuple[int, int] | None = None) -> Pixels:
    """(height, width, 1 or 3)."""
    Image, ImageOps = _pillow()
    try:
        with Image.open(path) as image:
            mode, form = image.mode, image.format
            image.load()
            image.info.pop("transparency", None)  # it is dropped, and Pillow would warn of it
            ImageOps.exif_transpose(image, in_place=True)
            if not mode.startswith(("I", "F")):
                image = image.convert("L" if mode in ("1", "L", "LA") else "RGB")
    except Exception as error:  # for a damaged file, Pillow's readers raise nearly anything
        unknown = isinstance(error, Image.UnidentifiedImageError)
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


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError("reading pictures needs Pillow: pip install 'harsanyinet[images]'") from error
    return Image, ImageOps


def _idx(content: bytes) -> Pixels:
    """An array in the format of MNIST: two zero bytes, a type, a number of axes, their lengths, the bytes."""
    n_axes = content[3]
    shape = np.frombuffer(content, ">i4", n_axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape).copy()


Batches = dict[str, tuple[Pixels, NDArray[np.int64]]]


def _cifar_batches() -> tuple[Batches, str]:
    """From the first place that holds the archive or, failing that, the sheets; last from the web."""
    [(name, md5)] = CIFAR_ARCHIVE.items()
    for source, place in fetching.places():
        folder = place / "cifar10"
        if (path := folder / name).is_file():
            content = path.read_bytes()
            try:
                fetching.check_md5(name, content, md5)
            except ValueError as error:
                raise DatasetDamagedError(f"{path} is damaged ({error}); replace or delete it") from error
            return _cifar_of_archive(content), source
        sheets = {batch: folder / f"{batch}.webp" for batch in CIFAR_BATCHES}
        if all(path.is_file() for path in (*sheets.values(), folder / "labels.npz")):
            return _cifar_of_sheets(sheets, folder / "labels.npz"), source
    contents, source = _download_each("cifar10", CIFAR_ARCHIVE, _CIFAR_URL, gzipped=False)
    return _cifar_of_archive(contents[name]), source


def _cifar_of_sheets(sheets: Mapping[str, Path], labels_path: Path) -> Batches:
    try:
        with np.load(io.BytesIO(labels_path.read_bytes()), allow_pickle=False) as stored:
            labels = np.concatenate([stored["y_train"], stored["y_test"]]).astype(np.uint8)
    except Exception as error:  # for a damaged file, numpy raises nearly anything
        raise DatasetDamagedError(f"{labels_path} is damaged ({error}); replace or delete it") from error
    if labels.shape != (10_000 * len(sheets),):
        raise DatasetDamagedError(
            f"{labels_path} must hold {10_000 * len(sheets):,} labels, however: {labels.shape}; replace or delete it"
        )
    batches: Batches = {}
    for (name, path), y in zip(sheets.items(), labels.reshape(-1, 10_000), strict=True):
        sheet = read_picture(path)
        if sheet.shape != (3200, 3200, 3):
            raise DatasetDamagedError(
                f"{path} must be a sheet of (3200, 3200, 3), however: {sheet.shape}; replace or delete it"
            )
        pixels = sheet.reshape(100, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)
        batches[name] = _checked(f"{path} with its labels in labels.npz", pixels, y, CIFAR_BATCHES[name])
    return batches


def _cifar_of_archive(content: bytes) -> Batches:
    """The batches of the python archive, whose own checksum was compared before: nothing unknown is unpickled."""
    batches: Batches = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for batch, md5 in CIFAR_BATCHES.items():
            file = archive.extractfile(f"cifar-10-batches-py/{batch}")
            assert file is not None
            stored = pickle.loads(file.read(), encoding="bytes")
            pixels = stored[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            batches[batch] = _checked(batch, pixels, np.array(stored[b"labels"], dtype=np.uint8), md5)
    return batches


def _checked(where: str, pixels: Pixels, labels: Pixels, md5: str) -> tuple[Pixels, NDArray[np.int64]]:
    """Pixels and labels, when they are the right ones."""
    planes = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
    actual = fetching.md5_of(np.concatenate([labels[:, None], planes], axis=1).tobytes())
    if actual != md5:
        raise DatasetDamagedError(
            f"{where} must have pixels and labels with md5 {md5}, however: {actual}; replace or delete it"
        )
    return np.ascontiguousarray(pixels), labels.astype(np.int64)


def _download_each(
    folder: str, md5: Mapping[str, str], url: str, *, gzipped: bool = True
) -> tuple[dict[str, bytes], str]:
    """Fetches files one by one, checks them and keeps them in the cache.

    Args:
        folder: In the cache.
        md5: Of each file, unpacked where they are gzipped.
        url: What stands before their names.
        gzipped: They are served as .gz, which is unpacked here; otherwise a file is kept as it is.
    """
    from http.client import HTTPException

    *_, (_, cache) = fetching.places()
    contents = {}
    address = url
    try:
        for name, expected in md5.items():
            address = f"{url}{name}{'.gz' if gzipped else ''}"
            content = fetching.fetch(address)
            contents[name] = gzip.decompress(content) if gzipped else content
            fetching.check_md5(name, contents[name], expected)
        (cache / folder).mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_beside(cache / folder / name, content)
    except (OSError, HTTPException, zlib.error, EOFError, ValueError) as error:
        where = fetching.where_to_put(folder, md5, f", nor fetch {address} ({error})")
        if not gzipped:
            where = where.replace(", plain or as .gz,", "", 1)
        raise DatasetNotFoundError(f"cannot find {where}") from error
    return contents, "download"
