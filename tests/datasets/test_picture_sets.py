import gzip
import hashlib
import io
import os
import struct
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path

import numpy as np
import pytest
import stored_sets
from PIL import Image

from harsanyinet.datasets import DatasetDamagedError, DatasetNotFoundError
from harsanyinet.datasets import picture_sets as image_datasets
from harsanyinet.datasets.picture_sets import load_cifar10, load_digit_images, load_mnist

SHARED = os.environ.get("HARSANYINET_DATA")
real_mnist, real_cifar = (
    pytest.mark.skipif(
        not SHARED or not Path(SHARED, file).is_file(), reason=f"HARSANYINET_DATA names no folder with {file}"
    )
    for file in ("mnist/train-images-idx3-ubyte.gz", "cifar10/data_batch_1.webp")
)
BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
ARCHIVE = "cifar-10-python.tar.gz"


def idx(array):
    """The format of MNIST, written out: type 8 is a byte, lengths are big endian."""
    return struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


# Three digits to train and two to test, of 4 x 5 pixels, no two of which are equal.
DIGITS = np.arange(100, dtype=np.uint8).reshape(5, 4, 5)
MNIST = {
    "train-images-idx3-ubyte": idx(DIGITS[:3]),
    "train-labels-idx1-ubyte": idx(np.array([7, 0, 9], np.uint8)),
    "t10k-images-idx3-ubyte": idx(DIGITS[3:]),
    "t10k-labels-idx1-ubyte": idx(np.array([1, 4], np.uint8)),
}


@pytest.fixture
def cache(cache):
    """The folder of all sets."""
    return cache.parent


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The folder that the variable names; it is not there yet."""
    monkeypatch.setenv("HARSANYINET_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def md5(content):
    return hashlib.md5(content).hexdigest()


def put(folder, contents, zipped=False):
    stored_sets.put(folder, contents, zipped)


def serve(monkeypatch, bodies):
    """Answer a request for a file with its body; returns the list of what was asked."""
    asked = []

    class Response(io.BytesIO):
        headers = Message()

    def urlopen(url, timeout):
        asked.append(url)
        return Response(bodies[url.rpartition("/")[2]])

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def assert_same(a, b):
    for name in ("train", "y_train", "test", "y_test"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)


class TestMnist:
    """With small files, whose checksums take the place of the real ones."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(image_datasets, "MNIST_MD5", {name: md5(content) for name, content in MNIST.items()})

    @pytest.mark.parametrize("zipped", [True, False])
    @pytest.mark.parametrize("where", ["HARSANYINET_DATA", "cache"])
    def test_images_and_labels(self, cache, data, zipped, where):
        put((cache if where == "cache" else data) / "mnist", MNIST, zipped)
        split = load_mnist()
        assert (split.name, split.source) == ("mnist", where)
        np.testing.assert_array_equal(split.train, DIGITS[:3, :, :, None], strict=True)
        np.testing.assert_array_equal(split.test, DIGITS[3:, :, :, None], strict=True)
        np.testing.assert_array_equal(split.y_train, np.array([7, 0, 9]), strict=True)
        np.testing.assert_array_equal(split.y_test, np.array([1, 4]), strict=True)
        assert split.class_names == tuple("0123456789")
        assert split.description == "the original split: 3 to train and 2 to test"
        for array in (split.train, split.y_train, split.test, split.y_test):
            assert array.flags.writeable
        assert "array" not in repr(split)

    def test_the_variable_goes_before_the_cache(self, cache, data):
        put(cache / "mnist", MNIST)
        assert load_mnist().source == "cache"
        put(data / "mnist", MNIST)
        assert load_mnist().source == "HARSANYINET_DATA"

    def test_a_folder_with_three_files_of_four_is_passed_over(self, cache, data):
        put(cache / "mnist", MNIST)
        put(data / "mnist", dict(list(MNIST.items())[:3]))
        assert load_mnist().source == "cache"

    @pytest.mark.parametrize("zipped", [True, False])
    @pytest.mark.parametrize("where", ["HARSANYINET_DATA", "cache"])
    def test_another_content_is_an_error(self, cache, data, zipped, where):
        folder = (cache if where == "cache" else data) / "mnist"
        put(folder, MNIST, zipped)
        name = "t10k-images-idx3-ubyte"
        put(folder, {name: MNIST[name][:-1] + b"\xff"}, zipped)
        path = folder / (f"{name}.gz" if zipped else name)
        with pytest.raises(
            DatasetDamagedError, match=f"^{path} is damaged .*md5 {md5(MNIST[name])}, however: .*; replace or delete it"
        ):
            load_mnist()

    @pytest.mark.parametrize(
        "damage",
        [lambda b: b[:-12], lambda b: b"no gzip", lambda b: b[:30] + b"\xff" + b[31:]],
        ids=["cut short", "text", "broken"],
    )
    def test_a_damaged_gzip_file_is_an_error(self, cache, damage):
        put(cache / "mnist", MNIST, zipped=True)
        path = cache / "mnist" / "train-images-idx3-ubyte.gz"
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(DatasetDamagedError, match=rf"^{path} is damaged \(.+\); replace or delete it$"):
            load_mnist()

    def test_a_download_is_kept_in_the_cache(self, cache, monkeypatch):
        asked = serve(monkeypatch, {f"{name}.gz": gzip.compress(content) for name, content in MNIST.items()})
        first, second = load_mnist(), load_mnist()
        assert (first.source, second.source) == ("download", "cache")
        assert_same(first, second)
        assert asked == [f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz" for name in MNIST]
        assert {path.name: path.read_bytes() for path in (cache / "mnist").iterdir()} == MNIST

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (gzip.compress(b"another"), f"t10k-labels-idx1-ubyte should have content with md5 .* {md5(b'another')}"),
            (gzip.compress(MNIST["t10k-labels-idx1-ubyte"])[:-12], "end-of-stream"),
            (gzip.compress(MNIST["t10k-labels-idx1-ubyte"])[:10] + b"\xff" * 20, "decompressing"),
            (b"<html>Sign in to this network</html>", "[Nn]ot a gzipped file"),
            (b"", "should have content"),
        ],
        ids=["another", "cut short", "broken", "page", "empty"],  # a gzip file has the time in it, an id must not
    )
    def test_a_wrong_download_leaves_no_file(self, cache, monkeypatch, body, reason):
        bodies = {f"{name}.gz": gzip.compress(content) for name, content in MNIST.items()}
        serve(monkeypatch, {**bodies, "t10k-labels-idx1-ubyte.gz": body})  # the last of the four
        with pytest.raises(DatasetNotFoundError, match=reason):
            load_mnist()
        assert not cache.exists()

    @pytest.mark.parametrize(
        "error", [urllib.error.URLError("no route"), TimeoutError("timed out"), IncompleteRead(b"")]
    )
    def test_offline_and_absent(self, cache, monkeypatch, error):
        def fail(url, timeout):
            raise error

        monkeypatch.setattr(urllib.request, "urlopen", fail)
        with pytest.raises(DatasetNotFoundError) as caught:
            load_mnist()
        assert caught.value.__cause__ is error
        assert str(caught.value) == (
            "cannot find train-images-idx3-ubyte and train-labels-idx1-ubyte and t10k-images-idx3-ubyte and "
            "t10k-labels-idx1-ubyte on this machine, nor fetch https://ossci-datasets.s3.amazonaws.com/mnist/"
            f"train-images-idx3-ubyte.gz ({error}); put them, plain or as .gz, into {cache / 'mnist'}, or into mnist "
            "inside the folder that the environment variable HARSANYINET_DATA names"
        )


def colours(seed, n):
    """Images of 32 x 32 pixels in three channels, each of 4 x 4 random fields, so that a sheet is quickly packed."""
    fields = np.random.default_rng(seed).integers(0, 256, (n, 4, 4, 3), dtype=np.uint8)
    return fields.repeat(8, axis=1).repeat(8, axis=2)


def binary(images, labels):
    """The binary version: a label, all that is red, all that is green, all that is blue, for each image."""
    records = np.empty((len(images), 1 + 3 * 1024), np.uint8)
    records[:, 0] = labels
    for channel in range(3):
        records[:, 1 + 1024 * channel : 1 + 1024 * (channel + 1)] = images[..., channel].reshape(len(images), 1024)
    return records.data


def sheet(images):
    """A lossless picture of 100 rows of 100 images."""
    rows = [np.hstack(list(row)) for row in images.reshape(100, 100, *images.shape[1:])]
    buffer = io.BytesIO()
    Image.fromarray(np.vstack(rows)).save(buffer, "WEBP", lossless=True, quality=0, method=0)
    return buffer.getvalue()


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def small_webp(size, mode="RGB"):
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, "WEBP", lossless=True, quality=0, method=0)
    return buffer.getvalue()


SHEET = colours(0, 10_000)
SHEET_LABELS = np.random.default_rng(1).integers(0, 10, (6, 10_000), dtype=np.uint8)


@pytest.fixture(scope="module")
def sheets():
    """The seven files, of which all sheets are the same picture."""
    labels = npz(y_train=SHEET_LABELS[:5].ravel(), y_test=SHEET_LABELS[5])
    return {**dict.fromkeys((f"{name}.webp" for name in BATCHES), sheet(SHEET)), "labels.npz": labels}


@pytest.fixture(scope="module")
def unpacked():
    """The sheet as it was read the first time: that takes long."""
    return []


@pytest.fixture(scope="module")
def sheet_md5():
    return {name: md5(binary(SHEET, y)) for name, y in zip(BATCHES, SHEET_LABELS, strict=True)}


class TestCifarOfSheets:
    """With one random sheet in place of all six."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch, sheet_md5, sheets, unpacked):
        picture = image_datasets.read_picture

        def once(path):
            if path.read_bytes() != sheets["test_batch.webp"]:
                return picture(path)
            if not unpacked:
                unpacked.append(picture(path))
            return unpacked[0]

        monkeypatch.setattr(image_datasets, "read_picture", once)
        monkeypatch.setattr(image_datasets, "CIFAR_BATCHES", sheet_md5)

    def test_every_image_is_where_it_should_be(self, data, sheets):
        put(data / "cifar10", sheets)
        split = load_cifar10()
        assert (split.name, split.source) == ("cifar10", "HARSANYINET_DATA")
        assert split.train.shape == (50_000, 32, 32, 3)
        for part in (*split.train.reshape(5, 10_000, 32, 32, 3), split.test):
            assert part.dtype == np.uint8
            assert np.array_equal(part, SHEET)
        np.testing.assert_array_equal(split.y_train, SHEET_LABELS[:5].ravel().astype(np.int64), strict=True)
        np.testing.assert_array_equal(split.y_test, SHEET_LABELS[5].astype(np.int64), strict=True)
        names = "airplane automobile bird cat deer dog frog horse ship truck"
        assert " ".join(split.class_names) == names
        assert split.description == "the original split: 50,000 to train and 10,000 to test"
        for array in (split.train, split.test):
            assert array.flags.writeable
            assert array.flags.c_contiguous

    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (lambda whole: whole[: len(whole) // 2], "must be a picture that can be read, however: .+"),
            (lambda whole: b"no picture", "must be a picture that can be read, however: its content is that of no .+"),
            (lambda whole: small_webp((320, 3200)), r"must be a sheet of \(3200, 3200, 3\), however: \(3200, 320, 3\)"),
        ],
        ids=["cut short", "text", "smaller"],
    )
    def test_a_damaged_sheet(self, cache, sheets, damage, reason):
        name = "data_batch_1.webp"
        put(cache / "cifar10", {**sheets, name: damage(sheets[name])})
        path = cache / "cifar10" / name
        with pytest.raises(DatasetDamagedError, match=rf"^{path} {reason}; replace or delete it$"):
            load_cifar10()

    def test_another_sheet(self, cache, sheets, monkeypatch, sheet_md5):
        swapped = md5(binary(SHEET[..., ::-1], SHEET_LABELS[0]))  # blue, green, red
        monkeypatch.setattr(image_datasets, "CIFAR_BATCHES", {**sheet_md5, "data_batch_1": swapped})
        put(cache / "cifar10", sheets)
        with pytest.raises(DatasetDamagedError) as caught:
            load_cifar10()
        assert str(caught.value) == (
            f"{cache / 'cifar10' / 'data_batch_1.webp'} with its labels in labels.npz must have pixels and labels with "
            f"md5 {swapped}, however: {sheet_md5['data_batch_1']}; replace or delete it"
        )

    def test_another_label(self, cache, sheets):
        labels = SHEET_LABELS.copy()
        labels[0, 5] += 1
        put(cache / "cifar10", {**sheets, "labels.npz": npz(y_train=labels[:5].ravel(), y_test=labels[5])})
        with pytest.raises(DatasetDamagedError, match=md5(binary(SHEET, labels[0]))):
            load_cifar10()

    @pytest.mark.parametrize(
        "content",
        [
            b"no archive",
            b"",
            npz(y_train=SHEET_LABELS[:5].ravel(), y_test=SHEET_LABELS[5])[:-100],
            npz(y_train=SHEET_LABELS[:5].ravel()),
            npz(y_train=np.array(["cat"]), y_test=SHEET_LABELS[5]),
        ],
        ids=["text", "empty", "cut short", "one part", "names"],
    )
    def test_damaged_labels(self, cache, sheets, content):
        put(cache / "cifar10", {**sheets, "labels.npz": content})
        path = cache / "cifar10" / "labels.npz"
        with pytest.raises(DatasetDamagedError, match=rf"^{path} is damaged \(.+\); replace or delete it$"):
            load_cifar10()

    def test_labels_are_not_unpickled(self, cache, sheets, tmp_path):
        class Run:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "run"),)

        put(cache / "cifar10", {**sheets, "labels.npz": npz(y_train=np.array([Run()]), y_test=SHEET_LABELS[5])})
        with pytest.raises(DatasetDamagedError, match="allow_pickle=False"):
            load_cifar10()
        assert not (tmp_path / "run").exists()

    def test_too_few_labels(self, cache, sheets):
        put(cache / "cifar10", {**sheets, "labels.npz": npz(y_train=SHEET_LABELS[0], y_test=SHEET_LABELS[5])})
        with pytest.raises(DatasetDamagedError) as caught:
            load_cifar10()
        assert str(caught.value) == (
            f"{cache / 'cifar10' / 'labels.npz'} must hold 60,000 labels, however: (20000,); replace or delete it"
        )

    @pytest.mark.parametrize("absent", ["data_batch_4.webp", "labels.npz"])
    def test_a_folder_with_six_files_of_seven_is_passed_over(self, data, sheets, absent):
        put(data / "cifar10", {name: content for name, content in sheets.items() if name != absent})
        with pytest.raises(DatasetNotFoundError):
            load_cifar10()

    @pytest.mark.usefixtures("no_pillow")
    def test_without_pillow(self, cache, sheets):
        put(cache / "cifar10", {**sheets, "data_batch_1.webp": b""})
        with pytest.raises(ImportError, match=r"^reading pictures needs Pillow: pip install 'harsanyinet\[images\]'$"):
            load_cifar10()


def pickled(images, labels):
    """A batch as Python 2 and the numpy of 2009 wrote it: planes of colours, keys and values of bytes."""
    planes = images.transpose(0, 3, 1, 2).tobytes()
    return b"".join(
        [
            b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01",
            struct.pack("<cHcH", b"M", len(images), b"M", 3072),
            b"\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T",
            struct.pack("<i", len(planes)) + planes,
            b"tbU\x06labels](" + b"".join(b"K" + bytes([label]) for label in labels) + b"eu.",
        ]
    )


def tarred(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


# Four images in each of the batches.
FEW = colours(2, 24).reshape(6, 4, 32, 32, 3)
FEW_LABELS = np.random.default_rng(3).integers(0, 10, (6, 4))
TAR = tarred({name: pickled(x, y) for name, x, y in zip(reversed(BATCHES), FEW[::-1], FEW_LABELS[::-1], strict=True)})


class TestCifarOfArchive:
    """With an archive of 24 images."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        known = {name: md5(binary(x, y)) for name, x, y in zip(BATCHES, FEW, FEW_LABELS, strict=True)}
        monkeypatch.setattr(image_datasets, "CIFAR_BATCHES", known)
        monkeypatch.setattr(image_datasets, "CIFAR_ARCHIVE", {ARCHIVE: md5(TAR)})

    @pytest.mark.usefixtures("no_pillow")
    @pytest.mark.parametrize("where", ["HARSANYINET_DATA", "cache"])
    def test_images_and_labels(self, cache, data, where):
        put((cache if where == "cache" else data) / "cifar10", {ARCHIVE: TAR})
        split = load_cifar10()
        assert split.source == where
        np.testing.assert_array_equal(split.train, FEW[:5].reshape(20, 32, 32, 3), strict=True)
        np.testing.assert_array_equal(split.test, FEW[5], strict=True)
        np.testing.assert_array_equal(split.y_train, FEW_LABELS[:5].ravel(), strict=True)
        np.testing.assert_array_equal(split.y_test, FEW_LABELS[5], strict=True)
        assert split.description == "the original split: 20 to train and 4 to test"
        for array in (split.train, split.test):
            assert array.flags.writeable
            assert array.flags.c_contiguous

    def test_it_goes_before_the_sheets_beside_it(self, cache):
        put(cache / "cifar10", {**dict.fromkeys([f"{name}.webp" for name in BATCHES], b""), "labels.npz": b""})
        with pytest.raises(DatasetDamagedError, match=r"labels\.npz is damaged"):
            load_cifar10()
        put(cache / "cifar10", {ARCHIVE: TAR})
        assert load_cifar10().source == "cache"

    def test_the_variable_goes_before_the_cache(self, cache, data):
        sheets = {**dict.fromkeys([f"{name}.webp" for name in BATCHES], b""), "labels.npz": b""}
        put(cache / "cifar10", sheets)
        put(data / "cifar10", {ARCHIVE: TAR})
        assert load_cifar10().source == "HARSANYINET_DATA"
        (data / "cifar10" / ARCHIVE).rename(cache / "cifar10" / ARCHIVE)
        put(data / "cifar10", sheets)
        with pytest.raises(DatasetDamagedError, match=f"^{data}.* is damaged"):
            load_cifar10()

    @pytest.mark.parametrize("where", ["HARSANYINET_DATA", "cache"])
    def test_another_archive_is_an_error_before_it_is_unpickled(self, cache, data, where, tmp_path):
        folder = (cache if where == "cache" else data) / "cifar10"
        other = tarred(dict.fromkeys(BATCHES, f"cos\nmkdir\n(V{tmp_path / 'run'}\ntR.".encode()))
        put(folder, {ARCHIVE: other})
        with pytest.raises(DatasetDamagedError) as caught:
            load_cifar10()
        assert str(caught.value) == (
            f"{folder / ARCHIVE} is damaged ({ARCHIVE} should have content with md5 {md5(TAR)}, however: "
            f"{md5(other)}); replace or delete it"
        )
        assert not (tmp_path / "run").exists()

    def test_another_batch_is_an_error(self, cache, monkeypatch):
        put(cache / "cifar10", {ARCHIVE: TAR})
        known = image_datasets.CIFAR_BATCHES
        monkeypatch.setattr(image_datasets, "CIFAR_BATCHES", {**known, "test_batch": "0" * 32})
        with pytest.raises(DatasetDamagedError, match=f"^test_batch must .* md5 0+, however: {known['test_batch']};"):
            load_cifar10()

    def test_a_download_is_kept_in_the_cache(self, cache, monkeypatch):
        asked = serve(monkeypatch, {ARCHIVE: TAR})
        first, second = load_cifar10(), load_cifar10()
        assert (first.source, second.source) == ("download", "cache")
        assert_same(first, second)
        np.testing.assert_array_equal(first.test, FEW[5])
        assert asked == [f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"]
        assert {path.name: path.read_bytes() for path in (cache / "cifar10").iterdir()} == {ARCHIVE: TAR}

    @pytest.mark.parametrize(
        "body",
        [b"", TAR[:-1], TAR + b"\n", b"<html>Sign in to this network</html>"],
        ids=["empty", "cut short", "longer", "page"],
    )
    def test_a_wrong_download_leaves_no_file(self, cache, monkeypatch, body):
        serve(monkeypatch, {ARCHIVE: body})
        with pytest.raises(DatasetNotFoundError, match=f"md5 {md5(TAR)}, however: {md5(body)}"):
            load_cifar10()
        assert not cache.exists()

    def test_offline_and_absent(self, cache):
        with pytest.raises(DatasetNotFoundError) as caught:
            load_cifar10()
        assert str(caught.value) == (
            f"cannot find {ARCHIVE} on this machine, nor fetch https://www.cs.toronto.edu/~kriz/{ARCHIVE} (<urlopen "
            f"error no web in this test>); put it into {cache / 'cifar10'}, or into cifar10 inside the folder that the "
            "environment variable HARSANYINET_DATA names"
        )


class TestRealFiles:
    @real_mnist
    def test_mnist(self, monkeypatch):
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        split = load_mnist()
        assert split.source == "HARSANYINET_DATA"
        assert (split.train.shape, split.test.shape) == ((60_000, 28, 28, 1), (10_000, 28, 28, 1))
        counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert np.bincount(split.y_train).tolist() == counts
        assert np.bincount(split.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        assert split.train.mean() / 255 == pytest.approx(0.1307, abs=5e-5)

    @real_cifar
    def test_cifar10(self, monkeypatch):
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        split = load_cifar10()
        assert split.source == "HARSANYINET_DATA"
        assert (split.train.shape, split.test.shape) == ((50_000, 32, 32, 3), (10_000, 32, 32, 3))
        assert np.bincount(split.y_train).tolist() == [5000] * 10
        assert np.bincount(split.y_test).tolist() == [1000] * 10
        means = [split.train[..., channel].mean() / 255 for channel in range(3)]
        assert means == pytest.approx([0.49140, 0.48216, 0.44653], abs=5e-6)


class TestDigits:
    def test_images_and_labels(self):
        split = load_digit_images()
        assert (split.name, split.source) == ("digits", "scikit-learn")
        assert (split.train.shape, split.test.shape) == ((1437, 8, 8, 1), (360, 8, 8, 1))
        assert {split.train.dtype, split.test.dtype} == {np.dtype(np.uint8)}
        assert {split.y_train.dtype, split.y_test.dtype} == {np.dtype(np.int64)}
        assert split.class_names == tuple("0123456789")
        levels = np.unique(split.train)
        assert (len(levels), levels[0], levels[-1]) == (17, 0, 255)
        assert split.description == "a stratified 80/20 split with seed 0: 1437 to train and 360 to test"
        assert np.abs(np.bincount(split.y_train) / 4 - np.bincount(split.y_test)).max() < 1.5

    def test_labels_belong_to_their_images(self):
        from sklearn.datasets import load_digits

        bunch = load_digits()
        label = {x.tobytes(): y for x, y in zip(bunch.images, bunch.target, strict=True)}
        split = load_digit_images(seed=3)
        images = np.round(np.concatenate([split.train, split.test])[..., 0] / 255.0 * 16)
        assert [label[x.tobytes()] for x in images] == [*split.y_train, *split.y_test]
        assert len({x.tobytes() for x in images}) == len(label)

    def test_the_seed_decides(self):
        assert_same(load_digit_images(1), load_digit_images(1))
        assert not np.array_equal(load_digit_images(1).train, load_digit_images(2).train)


def test_importing_is_cheap():
    lines = [
        "import sys, types",
        "sys.modules['harsanyinet'] = package = types.ModuleType('harsanyinet')",
        f"package.__path__ = [{str(Path(image_datasets.__file__).parents[1])!r}]",
        "import harsanyinet.datasets.picture_sets",
        "print(*{name.partition('.')[0] for name in sys.modules})",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert not {"PIL", "pandas", "sklearn", "scipy", "torch", "tqdm"} & set(done.stdout.split())
    assert "numpy" in done.stdout.split()
