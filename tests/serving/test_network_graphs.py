"""Networks as ONNX files: equal to torch, and to brute force where there is nothing but onnxruntime."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch
from onnx_feeds import answers, elsewhere, session_of
from torch import nn

from harsanyinet import HarsanyiCNN, HarsanyiImageClassifier, HarsanyiMLP
from harsanyinet.datasets import load_digit_images

CNN = {"n_blocks": 2, "seed": 1}
CASES = {
    "paper": lambda: HarsanyiMLP(5, 2, width=12, initial_children=2, seed=3),
    "paper, product, one output": lambda: HarsanyiMLP(5, 1, width=12, soft_and="product", initial_children=2, seed=3),
    "paper, all blocks": lambda: HarsanyiMLP.deep(5, 3, width=12, seed=3),
    "presence": lambda: HarsanyiMLP(5, 2, width=9, gate="presence", channels=4, n_blocks=2, seed=2),
    "presence, all blocks, gelu": lambda: HarsanyiMLP(
        5, 2, width=9, gate="presence", channels=4, connect="all", activation="gelu", seed=2
    ),
    "presence, learned, silu": lambda: HarsanyiMLP(
        5, 2, width=9, gate="presence", channels=2, learn_children=True, activation="silu", connect="all", seed=2
    ),
    "presence, two columns of one player, tanh": lambda: HarsanyiMLP(
        5, 2, width=9, gate="presence", columns=[0, 1, 1, 2, 3], activation="tanh", seed=2
    ),
    "double": lambda: HarsanyiMLP(5, 2, width=12, initial_children=2, seed=3, baseline=[0.1] * 5).double(),
    "cnn, paper": lambda: HarsanyiCNN(1, 6, 3, channels=4, **CNN),
    "cnn, paper, floor, product": lambda: HarsanyiCNN(
        2, 6, 1, channels=4, stem="patch", soft_and="product", gate_floor=1e-3, gamma=1.0, **CNN
    ),
    "cnn, presence per location": lambda: HarsanyiCNN(1, 6, 3, channels=4, gate="presence", children="location", **CNN),
    "cnn, presence per group": lambda: HarsanyiCNN(1, 6, 3, channels=4, gate="presence", groups=2, stem="deep", **CNN),
    "cnn, residual stem": lambda: HarsanyiCNN(1, 6, 3, channels=4, gate="presence", groups=2, stem="residual", **CNN),
    "cnn, strides": lambda: HarsanyiCNN(
        1, 6, 2, channels=[4, 8], gate="presence", groups=2, strides=[1, 2], readout="shared", **CNN
    ),
    "cnn, a stem of one's own": lambda: HarsanyiCNN(
        1, 6, 2, channels=3, gate="presence", **CNN,
        stem=nn.Sequential(nn.Conv2d(1, 3, 3, stride=2, padding=1), nn.ReLU()),
    ),
}  # fmt: skip


def shaken(net):
    """Not as it starts: batch statistics and shifts of their own."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.copy_(torch.randn(module.num_features, generator=generator) * 0.1)
                module.running_var.copy_(torch.rand(module.num_features, generator=generator) + 0.5)
                module.bias.copy_(torch.randn(module.num_features, generator=generator) * 0.1)
        if isinstance(net.base, nn.Parameter):
            net.base.copy_(torch.randn(len(net.base), generator=generator))
    return net.eval()


def rows_of(net, n=7):
    shape = (n, net.n_features) if isinstance(net, HarsanyiMLP) else (n, net.in_channels, *net.image_size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(net.base.dtype)


@pytest.mark.parametrize("name", CASES)
def test_it_says_what_the_network_says(name, tmp_path):
    net = shaken(CASES[name]())
    path = tmp_path / "net.onnx"
    net.to_onnx(path)
    session, x = session_of(path), rows_of(net)
    if name.startswith("presence"):
        x[2, 1] = torch.nan
    tolerance = 1e-12 if name == "double" else 1e-5
    mask = torch.rand(len(x), net.n_players, generator=torch.Generator().manual_seed(2)) < 0.7
    for present in (None, mask):
        said = answers(session, {"x": x.numpy()} | ({} if present is None else {"present": present.numpy()}))
        ex = net.explain(x, present)
        size = np.abs(ex.outputs).max()
        assert np.abs(ex.values).max() > 1e-3 * size, "a test of zeros"
        for key, expected in (("shapley", ex.values), ("raw", ex.outputs), ("base_values", ex.base_values)):
            assert said[key].shape == expected.shape
            assert np.abs(said[key] - expected).max() < tolerance * size, key
        assert (said["prediction"] == said["raw"]).all()
    found = elsewhere(path, tmp_path, {"x": x[:2].numpy()})
    assert found["modules"] == []
    assert found["brute_force"] < (1e-12 if name == "double" else 1e-5)
    assert answers(session, {"x": x[:0].numpy()})["shapley"].shape[0] == 0


@pytest.mark.parametrize("gate", ["activation", "presence"])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_an_image_classifier(gate, n_classes, tmp_path):
    data = load_digit_images()
    labels = data.y_train[:300] if n_classes == 10 else np.where(data.y_train[:300] > 4, "large", "small")
    model = HarsanyiImageClassifier(
        channels=8, n_blocks=2, epochs=2, gate=gate, stem="patch", random_state=0, progress=False
    ).fit(data.train[:300], labels)
    path, images = tmp_path / "model.onnx", data.test[:5]
    model.to_onnx(path, rows=images[:1])
    said = answers(session_of(path), {"images": images.astype(np.float32).reshape(5, *model.image_shape_) / 255})
    ex = model.explain(images)
    assert said["shapley"].shape == ex.values.shape
    for key, expected in (("shapley", ex.values), ("raw", ex.outputs), ("probabilities", model.predict_proba(images))):
        assert np.abs(said[key] - expected).max() < 1e-5 * np.abs(expected).max(), key
    assert (said["label"] == model.predict(images)).all()
    about = {p.key: p.value for p in onnx.load(path).metadata_props}
    assert json.loads(about["classes"]) == model.classes_.tolist()
    assert json.loads(about["certificate"])["n_players"] == model.network_.n_players


def test_what_cannot_be_exported_gets_a_sentence(tmp_path):
    path = tmp_path / "net.onnx"
    net = shaken(CASES["cnn, paper"]())
    with pytest.raises(ValueError, match="exported in float32, however: float64"):
        CASES["cnn, paper"]().double().eval().to_onnx(path)
    with pytest.raises(ValueError, match="models of tables"):
        net.to_onnx(path, interactions=True)
    with pytest.raises(ValueError, match="one game"):
        net.to_onnx(path, game="marginal")
    with pytest.raises(TypeError, match="it has a Tanh"):
        HarsanyiCNN(1, 6, 2, stem=nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh()), **CNN).eval().to_onnx(path)
    with pytest.raises(ValueError, match="gelu in float64"):
        CASES["presence, all blocks, gelu"]().double().eval().to_onnx(path)
    with pytest.raises(RuntimeError, match=r"call \.eval\(\) first"):
        CASES["cnn, presence per group"]().train().to_onnx(path)
    assert list(tmp_path.iterdir()) == []
