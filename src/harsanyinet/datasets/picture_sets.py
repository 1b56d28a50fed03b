"""Images to try things on: MNIST, CIFAR-10 and scikit-learn's digits. No model.

Looked for and checked as tables are, see `fetching`, with the errors that `table_sets` names.
"""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harsanyinet.datasets import fetching
from harsanyinet.datasets.fetching import DatasetDamagedError
from harsanyinet.datasets.picture_files import Pixels, read_picture

MNIST_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/{}.gz"

CIFAR_BATCHES = {  # md5 of the batch as a file of the binary version: label, red, green, blue, for each image
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
CIFAR_ARCHIVE = {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"}
_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/{}"
_CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True, eq=False)
class ImageSplit:
    """Images in two parts, to fit on and to test on, (N, height, width, channels) uint8, and their class numbers.

    `source` and `description` are as for tables.
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
    """MNIST: 60,000 and 10,000 handwritten digits of 28 x 28 pixels in one channel, from the four idx files."""
    contents, source = fetching.find_files("mnist", MNIST_MD5) or fetching.download("mnist", MNIST_MD5, _MNIST_URL)
    train, y_train, test, y_test = (_idx(contents[name]) for name in MNIST_MD5)
    return _original("mnist", train[..., None], y_train, test[..., None], y_test, tuple("0123456789"), source)


def load_cifar10() -> ImageSplit:
    """CIFAR-10: 50,000 and 10,000 colour pictures of 32 x 32 pixels in ten classes.

    From the folder `cifar10`: either the original archive ``cifar-10-python.tar.gz``, or one lossless WebP sheet of 100
    x 100 images per batch with ``labels.npz`` beside them (needs Pillow). Whichever it is, the pixels are checked.
    """
    (*batches, test), source = _cifar_batches()
    train, y_train = (np.concatenate(each) for each in zip(*batches, strict=True))
    return _original("cifar10", train, y_train, *test, _CIFAR_CLASSES, source)


def load_digit_images(seed: int = 0) -> ImageSplit:
    """Handwritten digits from scikit-learn, 8 x 8 pixels with 17 levels of grey: always at hand.

    `seed` is that of the stratified split, 80 % to train and 20 % to test.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    pixels = np.round(bunch.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = bunch.target.astype(np.int64)
    train, test, y_train, y_test = train_test_split(pixels, labels, test_size=0.2, stratify=labels, random_state=seed)
    description = f"a stratified 80/20 split with seed {seed}: {len(train)} to train and {len(test)} to test"
    return ImageSplit("digits", train, y_train, test, y_test, tuple("0123456789"), "scikit-learn", description)


def _original(
    name: str, train: Pixels, y_train: Pixels, test: Pixels, y_test: Pixels, class_names: tuple[str, ...], source: str
) -> ImageSplit:
    """The split in which a set is published."""
    description = f"the original split: {len(train):,} to train and {len(test):,} to test"
    labels, test_labels = y_train.astype(np.int64), y_test.astype(np.int64)
    return ImageSplit(name, train, labels, test, test_labels, class_names, source, description)


def _idx(content: bytes) -> Pixels:
    """An array in the format of MNIST: two zero bytes, a type, a number of axes, their lengths, the bytes."""
    n_axes = content[3]
    shape = np.frombuffer(content, ">i4", n_axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape).copy()


Batches = list[tuple[Pixels, Pixels]]


def _cifar_batches() -> tuple[Batches, str]:
    """From the first place that holds the archive or, failing that, the sheets; last from the web."""
    for source, place in fetching.places():
        folder = place / "cifar10"
        if stored := fetching.read_files(folder, CIFAR_ARCHIVE):
            return _cifar_of_archive(stored), source
        sheets = [folder / f"{name}.webp" for name in CIFAR_BATCHES]
        if all(path.is_file() for path in (*sheets, folder / "labels.npz")):
            return _cifar_of_sheets(sheets, folder / "labels.npz"), source
    stored, source = fetching.download("cifar10", CIFAR_ARCHIVE, _CIFAR_URL)
    return _cifar_of_archive(stored), source


def _cifar_of_sheets(sheets: Sequence[Path], labels_path: Path) -> Batches:
    try:
        with np.load(io.BytesIO(labels_path.read_bytes()), allow_pickle=False) as stored:
            labels = np.concatenate([stored["y_train"], stored["y_test"]]).astype(np.uint8)
    except Exception as error:  # for a damaged file, numpy raises nearly anything
        raise DatasetDamagedError(f"{labels_path} is damaged ({error}); replace or delete it") from error
    if labels.shape != (10_000 * len(sheets),):
        raise DatasetDamagedError(
            f"{labels_path} must hold {10_000 * len(sheets):,} labels, however: {labels.shape}; replace or delete it"
        )
    batches = []
    for path, y, md5 in zip(sheets, labels.reshape(-1, 10_000), CIFAR_BATCHES.values(), strict=True):
        sheet = read_picture(path)
        if sheet.shape != (3200, 3200, 3):
            raise DatasetDamagedError(
                f"{path} must be a sheet of (3200, 3200, 3), however: {sheet.shape}; replace or delete it"
            )
        pixels = sheet.reshape(100, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)
        batches.append(_checked(f"{path} with its labels in labels.npz", pixels, y, md5))
    return batches


def _cifar_of_archive(contents: Mapping[str, bytes]) -> Batches:
    """The batches of the python archive, whose own checksum was compared before: nothing unknown is unpickled."""
    batches = []
    with tarfile.open(fileobj=io.BytesIO(*contents.values())) as archive:
        for batch, md5 in CIFAR_BATCHES.items():
            file = archive.extractfile(f"cifar-10-batches-py/{batch}")
            assert file is not None
            stored = pickle.loads(file.read(), encoding="bytes")
            pixels = stored[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            batches.append(_checked(batch, pixels, np.array(stored[b"labels"], dtype=np.uint8), md5))
    return batches


def _checked(where: str, pixels: Pixels, labels: Pixels, md5: str) -> tuple[Pixels, Pixels]:
    """Pixels and labels, when they are the right ones."""
    planes = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
    actual = fetching.md5_of(np.concatenate([labels[:, None], planes], axis=1).tobytes())
    if actual != md5:
        raise DatasetDamagedError(
            f"{where} must have pixels and labels with md5 {md5}, however: {actual}; replace or delete it"
        )
    return np.ascontiguousarray(pixels), labels
