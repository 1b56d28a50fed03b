"""Feature maps on disk: computed once, continued after an interruption, not believed when damaged."""

from __future__ import annotations

import json
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from harsanyinet.images.feature_files import cached_features


class Counted(nn.Module):
    """A small backbone that counts the images it has seen and can fail."""

    def __init__(self, most: float = float("inf"), scale: float = 1.0) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 2, 2, stride=2)
        nn.init.constant_(self.layer.weight, scale)
        self.dropout = nn.Dropout()
        self.seen, self.most = 0, most

    def forward(self, x):
        if self.seen + len(x) > self.most:
            raise KeyboardInterrupt
        self.seen += len(x)
        return self.dropout(self.layer(x))


IMAGES = np.random.default_rng(0).integers(0, 256, (10, 4, 6, 3), dtype=np.uint8)


@pytest.fixture
def expected():
    torch.manual_seed(0)
    net = Counted().eval()
    with torch.no_grad():
        return net(torch.tensor(IMAGES).permute(0, 3, 1, 2) / 255).half().numpy()


def counted(**options) -> Counted:
    torch.manual_seed(0)
    return Counted(**options)


def cached(folder: Path, net: nn.Module, images: np.ndarray = IMAGES, **options) -> np.ndarray:
    return cached_features(images, net, folder, **{"batch_size": 3, "progress": False, **options})


def files(folder: Path, ending: str) -> list[Path]:
    return sorted(folder.glob(f"*.{ending}"))


def test_computed_once_and_then_read(tmp_path, expected):
    net = counted()
    features = cached(tmp_path / "new" / "folder", net)
    np.testing.assert_allclose(features, expected, atol=2e-3)
    assert features.dtype == np.float16
    assert features.shape == (10, 2, 2, 3)
    assert isinstance(features, np.memmap)
    assert net.seen == 11  # all, and one to know the shape
    assert net.training  # as before, though the dropout was not at work
    assert net.dropout.training
    with pytest.raises(ValueError, match="read-only"):
        features[0] = 0
    again = cached(tmp_path / "new" / "folder", net, batch_size=4)
    np.testing.assert_array_equal(again, features)
    assert net.seen == 12
    assert not files(tmp_path / "new" / "folder", "partial")


def test_one_file_for_each_content(tmp_path):
    cached(tmp_path, counted())
    for n, (net, images, options) in enumerate(
        [
            (counted(scale=2.0), IMAGES, {}),
            (counted(), IMAGES[::-1], {}),
            (counted(), IMAGES.transpose(0, 2, 1, 3), {}),
            (counted(), IMAGES, {"dtype": "float32"}),
            (counted().double(), IMAGES, {}),
            (nn.Sequential(nn.AvgPool2d(2)), IMAGES, {}),
            (nn.Sequential(nn.AvgPool2d(1)), IMAGES, {}),
        ]
    ):
        cached(tmp_path, net, images, **options)
        assert len(files(tmp_path, "npy")) == n + 2


def test_goes_on_after_an_interruption(tmp_path, expected):
    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, counted(most=8))  # one, two batches of three, and not the next
    [partial] = files(tmp_path, "partial")
    assert not files(tmp_path, "npy")
    with partial.open("ab") as file:
        file.write(b"half a row")
    net = counted()
    np.testing.assert_allclose(cached(tmp_path, net), expected, atol=2e-3)
    assert net.seen == 1 + 4


def test_goes_on_after_a_crash(tmp_path, expected):
    """What was recorded on the way is enough: no one writes a last record."""
    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, counted(most=8))
    [partial] = files(tmp_path, "partial")
    maps = np.load(partial, mmap_mode="r")
    known = partial.read_bytes()[: maps.offset + 3 * maps[0].nbytes]
    partial.with_suffix(".json").write_text(json.dumps({"rows": 3, "crc32": zlib.crc32(known)}))
    net = counted()
    np.testing.assert_allclose(cached(tmp_path, net), expected, atol=2e-3)
    assert net.seen == 1 + 7  # the record spoke of one batch


def test_goes_on_when_only_the_name_was_missing(tmp_path, expected):
    features = cached(tmp_path, counted())
    [path] = files(tmp_path, "npy")
    path.rename(path.with_suffix(".partial"))
    net = counted()
    np.testing.assert_array_equal(cached(tmp_path, net), features)
    assert net.seen == 1


def test_a_damaged_beginning_is_not_continued(tmp_path, expected):
    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, counted(most=8))
    [partial] = files(tmp_path, "partial")
    content = bytearray(partial.read_bytes())
    content[200] ^= 1
    partial.write_bytes(content)
    net = counted()
    np.testing.assert_allclose(cached(tmp_path, net), expected, atol=2e-3)
    assert net.seen == 11


def of_another_shape(path: Path) -> None:
    """With a record that agrees."""
    content = path.read_bytes().replace(b"(10, 2, 2, 3)", b"(10, 2, 3, 2)")
    path.write_bytes(content)
    record = {"rows": 10, "crc32": zlib.crc32(content)}
    path.with_suffix(".json").write_text(json.dumps(record))


HARMS = {
    "a bit": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "another shape": of_another_shape,
    "no record": lambda path: path.with_suffix(".json").unlink(),
    "no record but text": lambda path: path.with_suffix(".json").write_text("[1, 2]"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_is_computed_again(harm, tmp_path, expected):
    cached(tmp_path, counted())
    [path] = files(tmp_path, "npy")
    HARMS[harm](path)
    net = counted()
    np.testing.assert_allclose(cached(tmp_path, net), expected, atol=2e-3)
    assert net.seen == 11


def test_two_at_once_compute_once(tmp_path):
    nets = [counted().eval() for _ in range(4)]
    threads = [threading.Thread(target=cached, args=(tmp_path, net), kwargs={"batch_size": 1}) for net in nets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(net.seen for net in nets) == [1, 1, 1, 11]


@pytest.mark.parametrize(
    ("images", "net", "options", "words"),
    [
        (IMAGES / 255, counted(), {}, "must be uint8 .* float64"),
        (IMAGES[0, 0], counted(), {}, r"however: uint8 of shape \(6, 3\)"),
        (IMAGES[:0], counted(), {}, "none of them 0"),
        (IMAGES, counted(scale=1e5), {}, "finite in float16, .*; pass dtype='float32'"),
        (IMAGES, nn.Flatten(), {}, r"must return maps .* however: \(1, 72\)"),
        (IMAGES, counted(), {"dtype": "float64"}, "dtype must be"),
        (IMAGES, counted(), {"batch_size": 0}, "batch_size must be"),
    ],
)
def test_wrong_images(images, net, options, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        cached(tmp_path, net, images, **options)
