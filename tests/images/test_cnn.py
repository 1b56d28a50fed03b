"""Convolutional Harsanyi networks: exact at every cell, border and gate; gradients; sentences for wrong input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from image_networks import CASES, images, network
from torch import nn
from torch.nn import functional as F

from harsanyinet.explanations.certificate import verify
from harsanyinet.games import brute_force_shapley, harsanyi_dividends
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import inside


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_values_and_dividends_equal_brute_force(case, seed):
    net = network(seed, **CASES[case])
    x = images(net, seed=seed)
    ex = net.explain(x)
    game = net.game(x, 1)
    exact = brute_force_shapley(game, net.n_players, progress=False)
    np.testing.assert_allclose(ex.values[1], exact, rtol=0, atol=1e-12 * max(1, np.abs(exact).max()))
    assert np.abs(exact).max() > 1e-3
    every = harsanyi_dividends(game, net.n_players, progress=False)
    every[0] = 0
    place = ex.coalitions @ (1 << np.arange(net.n_players))
    np.testing.assert_allclose(ex.dividends[1], every[place], rtol=0, atol=1e-12 * max(1, np.abs(every).max()))
    rest = np.delete(every, place, axis=0)
    assert np.abs(rest).max(initial=0) < 1e-12 * max(1, np.abs(every).max())


@pytest.mark.parametrize("case", CASES)
def test_single_precision_at_the_scale_of_the_outputs(case):
    net = network(**CASES[case])
    x = images(net)
    exact = net.explain(x).values
    ex = net.float().explain(x.float())
    with torch.no_grad():
        out = net(x.float())
    scale = max(1.0, float(out.abs().max()))
    np.testing.assert_allclose(ex.values, exact, rtol=0, atol=1e-5 * scale)
    total = ex.base_values + ex.values.sum(1)
    np.testing.assert_allclose(total, out.numpy(), rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("case", CASES)
def test_masked_outputs_follow_from_the_dividends(case):
    net = network(**CASES[case])
    x = images(net, 5)
    present = np.random.default_rng(0).random((5, net.n_players)) < 0.6
    with torch.no_grad():
        played = net(x, present=torch.from_numpy(present)).numpy()
    np.testing.assert_allclose(net.explain(x).value(present), played, rtol=0, atol=1e-12 * max(1, np.abs(played).max()))


@pytest.mark.parametrize("case", ["paper", "presence by location", "presence by group", "coarser twice, odd size"])
def test_a_certificate_holds_and_notices_a_wrong_child(case, monkeypatch):
    net = network(**CASES[case])
    x = images(net, 1)
    certificate = verify(net, x, n_masks=50, n_subgames=1, progress=False)
    assert certificate.passed, str(certificate)
    masks = net.child_masks()
    monkeypatch.setattr(net, "child_masks", lambda: [masks[0], masks[1].roll(1, 1), *masks[2:]])
    assert not verify(net, x, n_masks=50, n_subgames=1, progress=False).passed


def test_a_game_plays_the_whole_network():
    net = network(gate="presence", groups=2)
    x = images(net)
    masks = np.random.default_rng(0).random((600, 16)) < 0.7  # more than one piece
    with torch.no_grad():
        expected = net(x[1:].expand(600, -1, -1, -1), present=torch.from_numpy(masks)).numpy()
    np.testing.assert_allclose(net.game(x, 1)(masks), expected, rtol=0, atol=1e-12)
    net = net.float()
    with torch.autocast("cpu", torch.bfloat16):  # in full precision, as the explanation is
        played = net.game(x.float(), 1)(masks)
    np.testing.assert_allclose(played, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))
    with pytest.raises(IndexError, match=r"row must lie between 0 and 1, however: row=2"):
        net.game(x, 2)


def test_the_children_of_the_paper_are_about_half_of_the_neighbours_inside():
    net = HarsanyiCNN(1, 28, 10)
    children = net.chosen_children()[0].view(14, 14, 9)
    assert not bool((children & ~inside(14, 14)).any())
    assert 0.4 < float(children[1:-1, 1:-1].float().mean()) < 0.6
    assert net.cells == (14, 14)
    assert net.pixels_per_cell == (4, 4)


def test_a_flushed_gate_stays_exact():
    net = network(gamma=0.02, gate_floor=0.05)
    x = images(net)
    plain = network(gamma=0.02)
    zeros = [float((z == 0).double().mean()) for z in (net.units(x)[0], plain.units(x)[0])]
    assert zeros[0] > zeros[1] + 0.05
    exact = brute_force_shapley(net.game(x, 0), net.n_players, progress=False)
    np.testing.assert_allclose(net.explain(x).values[0], exact, rtol=0, atol=1e-13)
    with pytest.raises(ValueError, match=r"gate_floor must lie in \[0, 1\), however: gate_floor=1.0"):
        network(gate_floor=1)


@pytest.mark.parametrize("options", [{"gamma": 1.0}, {"gate": "presence", "groups": 2, "learn_children": True}])
def test_every_parameter_learns(options):
    net = HarsanyiCNN(1, 8, 3, channels=8, n_blocks=2, **options).train()
    x = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    present = torch.rand(16, 16, generator=torch.Generator().manual_seed(1)) < 0.9
    F.cross_entropy(net(x, present), torch.arange(16) % 3).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
        assert bool((parameter.grad != 0).any()), name


def test_the_same_seed_gives_the_same_network():
    a, b, c = (HarsanyiCNN(1, 8, 3, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a)


def test_explaining_in_training_mode_is_refused_where_it_would_be_wrong():
    net = HarsanyiCNN(1, 8, 3, gate="presence").train()
    with pytest.raises(RuntimeError, match=r"evaluation mode only"):
        net.explain(torch.rand(2, 1, 8, 8))
    HarsanyiCNN(1, 8, 3).train().explain(torch.rand(2, 1, 8, 8))


def test_any_module_can_be_the_stem():
    stem = nn.Sequential(nn.Conv2d(3, 5, 4, stride=4), nn.Tanh())
    net = HarsanyiCNN(3, (8, 12), 2, channels=4, stem=stem, gate="presence").double().eval()
    x = torch.rand(2, 3, 8, 12, dtype=torch.float64)
    exact = brute_force_shapley(net.game(x, 0), 6, progress=False)
    np.testing.assert_allclose(net.explain(x).values[0], exact, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"stem must return a map .*, however: \(1, 2\)"):
        HarsanyiCNN(1, 4, 2, stem=nn.Sequential(nn.Flatten(), nn.Linear(16, 2)))
    stem.train()[0].eval()
    with pytest.raises(ValueError, match=r"stem must take images of shape \(1, 8, 12\), however:"):
        HarsanyiCNN(1, (8, 12), 2, stem=stem)
    assert [part.training for part in stem] == [False, True]


def test_wrong_images():
    net = HarsanyiCNN(3, (8, 12), 2).eval()
    with pytest.raises(ValueError, match=r"x must have shape \(images, 3, 8, 12\), however: \(2, 1, 8, 12\)"):
        net(torch.rand(2, 1, 8, 12))
    with pytest.raises(TypeError, match=r"x must have the network's dtype torch.float32, however: torch.uint8"):
        net(torch.zeros(2, 3, 8, 12, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"x must be finite, however: some pixel is NaN or infinite"):
        net(torch.full((2, 3, 8, 12), torch.inf))
    with pytest.raises(ValueError, match=r"present must have shape \(24,\) or \(2, 24\), however: \(2, 96\)"):
        net(torch.rand(2, 3, 8, 12), present=torch.ones(2, 96, dtype=torch.bool))
