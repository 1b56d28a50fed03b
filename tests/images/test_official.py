"""Checkpoints in the layout of the authors' code: their arithmetic written out, our network, brute force."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from harsanyinet import HarsanyiCNN, HarsanyiMLP, load, load_official, save
from harsanyinet.games import brute_force_shapley
from harsanyinet_experiments import paper

OFFICIAL = Path(os.environ.get("HARSANYINET_DATA", "")).parent / "official/Census.pth"


def their_mlp(state: dict[str, torch.Tensor], x: torch.Tensor, gamma: float = 100.0) -> torch.Tensor:
    """A plain product over all candidates, row by row."""
    z, out = x, 0.0
    for level in range(sum(name.endswith(".v.weight") for name in state)):
        sigma = (state[f"HarsanyiBlocks.{level}.v.weight"] > 0).to(x.dtype)
        gate = (sigma * torch.tanh(gamma * sigma * z.abs()[:, None]) + 1 - sigma).prod(2)
        z = F.relu(F.linear(z, state[f"HarsanyiBlocks.{level}.fc.weight"] * sigma) * gate)
        out = out + F.linear(z, state[f"fc.{level}.weight"])
    return out


def their_cnn(state: dict[str, torch.Tensor], x: torch.Tensor, gamma: float) -> torch.Tensor:
    """By copies of the neighbours on a map of 3H x 3W, as their code does it; outside the image is zero."""
    z = F.relu(F.max_pool2d(F.conv2d(x, state["conv1.weight"], padding=1), 2))
    inner = 0.0
    b, _, h, w = z.shape
    for level in range(sum(name.endswith(".v.weight") for name in state)):
        sigma = (state[f"HarsanyiBlocks.{level}.v.weight"] > 0).to(x.dtype)  # (3H, 3W)

        def expanded(maps: torch.Tensor) -> torch.Tensor:
            near = F.unfold(maps, 3, padding=1).view(b, -1, 3, 3, h, w)
            return near.permute(0, 1, 4, 2, 5, 3).reshape(b, -1, 3 * h, 3 * w)

        copies = expanded(z) * sigma
        total = F.conv2d(copies, state[f"HarsanyiBlocks.{level}.conv.weight"], stride=3)
        t = torch.tanh(gamma * copies.abs().sum(1))  # (B, 3H, 3W)
        count = F.avg_pool2d(sigma[None], 3)[0] * 9
        logs = F.avg_pool2d(((t + 1e-30).log() * sigma)[:, None], 3)[:, 0] * 9
        gate = torch.exp(logs / count.clamp_min(1))
        gate = torch.where(gate < 1e-3, 0.0, gate)
        z = F.relu(total * gate[:, None])
        inner = inner + F.linear(z.flatten(1), state[f"fc.{level}.weight"])
    return F.linear(inner, state["fc_final.weight"])


def mlp_file(path: Path, n: int = 5, width: int = 12, k: int = 3) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    state: dict[str, torch.Tensor] = {}
    for level in range(3):
        d = n if level == 0 else width
        state[f"HarsanyiBlocks.{level}.v.weight"] = torch.randn(width, d, generator=g) - (1.0 if level else 0.3)
        state[f"HarsanyiBlocks.{level}.fc.weight"] = torch.randn(width, d, generator=g)
    state |= {f"fc.{level}.weight": torch.randn(k, width, generator=g) for level in range(3)}
    torch.save(state, path)
    return state


def cnn_file(path: Path, channels: int = 4, h: int = 3, w: int = 4, k: int = 3) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    state = {"conv1.weight": torch.randn(channels, 2, 3, 3, generator=g)}
    for level in range(2):
        state[f"HarsanyiBlocks.{level}.conv.weight"] = torch.randn(channels, channels, 3, 3, generator=g)
        tau = torch.randn(h, w, 3, 3, generator=g) - 0.5
        for i, j in ((0, 1), (1, 0), (1, 1), (1, 2), (2, 3)):  # some at the border have no child outside
            if i == 0:
                tau[i, j, 0] = -1.0
            if i == h - 1:
                tau[i, j, 2] = -1.0
            if j == 0:
                tau[i, j, :, 0] = -1.0
            if j == w - 1:
                tau[i, j, :, 2] = -1.0
        tau[1, 1, 1, 1] = tau[1, 2, 1, 1] = 1.0
        state[f"HarsanyiBlocks.{level}.v.weight"] = tau.permute(0, 2, 1, 3).reshape(3 * h, 3 * w)
        state[f"fc.{level}.weight"] = torch.randn(16, channels * h * w, generator=g)
    state["fc_final.weight"] = torch.randn(k, 16, generator=g)
    torch.save({f"module.{name}": tensor for name, tensor in state.items()}, path)  # of DataParallel
    return state


def test_a_table_network_of_the_same_layout(tmp_path):
    state = mlp_file(tmp_path / "net.pth")
    net = load_official(tmp_path / "net.pth")
    assert isinstance(net, HarsanyiMLP)
    assert (net.config["soft_and"], net.config["gamma"], net.training) == ("product", 100.0, False)
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    net = net.double()
    expected = their_mlp({name: tensor.double() for name, tensor in state.items()}, x)
    torch.testing.assert_close(net(x), expected, rtol=1e-12, atol=1e-12)
    assert all(bool(z.any()) for z in net.units(x)[:2])
    exact = brute_force_shapley(net.game(x, 3), 5, progress=False)
    np.testing.assert_allclose(net.explain(x).values[3], exact, rtol=0, atol=1e-12)
    save(net, tmp_path / "net.hnet")
    assert torch.equal(load(tmp_path / "net.hnet")(x), net(x))


@pytest.mark.parametrize("gamma", [1.0, 0.003])
def test_a_convolutional_network_of_the_same_layout(tmp_path, gamma):
    state = cnn_file(tmp_path / "net.pth")
    net = load_official(tmp_path / "net.pth", gamma=gamma, dtype=torch.float64)
    assert isinstance(net, HarsanyiCNN)
    x = torch.randn(6, 2, 6, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = their_cnn({name: tensor.double() for name, tensor in state.items()}, x, gamma)
    torch.testing.assert_close(net(x), expected, rtol=1e-11, atol=1e-11)
    assert all(bool(z.any()) for z in net.units(x))
    mask = net.chosen_children()[0].view(3, 4, 9)
    assert not bool(mask[0, 0].any())  # a child outside had killed it
    assert bool(mask[1, 1].any())
    exact = brute_force_shapley(net.game(x, 0), 12, progress=False)
    np.testing.assert_allclose(net.explain(x).values[0], exact, rtol=0, atol=1e-12 * max(1, np.abs(exact).max()))


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the authors' Census.pth is not beside HARSANYINET_DATA")
def test_the_authors_census_file():
    net = load_official(OFFICIAL)
    data = paper.load("census", every_row=True)
    assert len(data.x_test) == 16281
    assert paper.accuracy(net, data) == pytest.approx(84.89, abs=0.005)
    net, x = net.double(), data.x_test[:5].double()
    exact = np.stack([brute_force_shapley(net.game(x, row), 12, progress=False) for row in range(5)])
    np.testing.assert_allclose(net.explain(x).values, exact, rtol=0, atol=1e-12)


class Evil:
    def __reduce__(self):
        return (os.putenv, ("HARSANYINET_EVIL", "1"))


def test_files_that_are_no_such_checkpoint(tmp_path):
    path = tmp_path / "net.pth"
    path.write_bytes(b"no")
    with pytest.raises(ValueError, match=r"path must be a state dict of tensors, however: .*net.pth is not"):
        load_official(path)
    path.write_bytes(pickle.dumps({"a": Evil()}, protocol=2))
    with pytest.raises(ValueError, match=r"path must be a state dict of tensors"):
        load_official(path)
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match=r"however: .* holds a list"):
        load_official(path)
    torch.save({"weight": torch.ones(2)}, path)
    with pytest.raises(ValueError, match=r"lacks or misfits 'HarsanyiBlocks.0.v.weight'"):
        load_official(path)
    state = mlp_file(path)
    torch.save({**state, "fc.1.weight": torch.ones(3, 5)}, path)
    with pytest.raises(ValueError, match=r"lacks or misfits a tensor of shape \(3, 5, 1\), not \(3, 12, 1\)"):
        load_official(path)
    torch.save({**state, "fc.1.bias": torch.ones(3)}, path)
    with pytest.raises(ValueError, match=r"also has fc.1.bias"):
        load_official(path)
    with pytest.raises(FileNotFoundError):
        load_official(tmp_path / "none.pth")
