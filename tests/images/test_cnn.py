"""Convolutional Harsanyi networks: exact at every cell, border and gate; gradients; sentences for wrong input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from harsanyinet.explanations.certificate import verify
from harsanyinet.games import brute_force_shapley, harsanyi_dividends
from harsanyinet.images import conv_blocks as image_blocks
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import LocationBlock, inside, masked_convolution, neighbours, pixels_per_cell
from harsanyinet.networks.base import HarsanyiNet, condensed
from harsanyinet.networks.blocks import select_children

CASES = {
    "paper": {"gamma": 1.0},
    "paper, product, odd size": {"gamma": 1.0, "soft_and": "product", "image_size": (6, 10)},
    "paper, one block": {"gamma": 1.0, "n_blocks": 1},
    "paper on patches": {"gamma": 1.0, "stem": "patch"},
    "paper, full readout": {"gamma": 1.0, "rank": None},
    "presence by location": {"gate": "presence", "children": "location"},
    "presence by location on patches": {"gate": "presence", "children": "location", "stem": "patch", "n_blocks": 3},
    "presence, every neighbour": {"gate": "presence"},
    "presence by group": {"gate": "presence", "groups": 4, "n_blocks": 3},
    "presence by group, learned": {"gate": "presence", "groups": 2, "learn_children": True},
    "presence by group, shared readout": {"gate": "presence", "groups": 4, "readout": "shared", "image_size": (6, 10)},
    "presence by group on patches": {"gate": "presence", "groups": 2, "stem": "patch", "patch": 4, "image_size": 16},
    "presence, deep stem": {"gate": "presence", "stem": "deep", "groups": 2},
    "presence on a map": {"gate": "presence", "stem": "map", "groups": 2, "image_size": (3, 4)},
    "presence, as many groups as cells": {"gate": "presence", "groups": 4, "image_size": 4},
    "a coarser map above": {
        "gate": "presence",
        "groups": 4,
        "n_blocks": 3,
        "strides": [1, 2, 1],
        "channels": [4, 8, 12],
    },
    "coarser twice, odd size": {
        "gate": "presence",
        "groups": 2,
        "n_blocks": 3,
        "strides": [2, 1, 2],
        "image_size": (6, 10),
    },
    "coarser at once, shared readout": {"gate": "presence", "strides": (2, 1), "readout": "shared", "channels": (8, 6)},
    "one line of cells": {"gate": "presence", "stem": "patch", "patch": 4, "image_size": (4, 20), "groups": 4},
    "one cell": {"gate": "presence", "image_size": 2},
    "paper, one line of cells": {"gamma": 1.0, "image_size": (2, 20), "n_blocks": 3},
    "paper, one column of cells": {"gamma": 1.0, "image_size": (20, 2)},
    "paper, one cell": {"gamma": 1.0, "image_size": 2},
    "presence by location, one column": {"gate": "presence", "children": "location", "image_size": (20, 2)},
}


def network(seed: int = 0, **options) -> HarsanyiCNN:
    """Small, in float64, with batch statistics that are not trivial."""
    size = options.pop("image_size", 8)
    net = HarsanyiCNN(2, size, 3, seed=seed, **{"channels": 8, "n_blocks": 2, **options}).double().eval()
    g = torch.Generator().manual_seed(seed)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.running_mean, module.bias.data):
                tensor.copy_(torch.randn(tensor.shape, generator=g))
            for tensor in (module.running_var, module.weight.data):
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=g))
    with torch.no_grad():
        net.base.copy_(torch.arange(3.0))
    return net


def images(net: HarsanyiCNN, n: int = 2, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, 2, *net.image_size, generator=g, dtype=torch.float64) - 0.3


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


def test_a_receptive_field_holds_every_cell_that_a_unit_notices():
    net = network(gate="presence", groups=4, n_blocks=3)
    x = images(net, 1)
    fields = net.receptive_fields()
    with torch.no_grad():
        full = net.units(x)
        for cell in range(net.n_players):
            present = torch.ones(net.n_players, dtype=torch.bool)
            present[cell] = False
            for z, without, field in zip(full, net.units(x, present), fields, strict=True):
                changed = ((z - without).abs() > 1e-12).any(2)[0]  # fast convolutions mix neighbours, and undo it
                assert not bool((changed & ~field[:, cell]).any())  # R1
                assert bool((without[0, field[:, cell]] == 0).all())  # R2
    corner, middle = fields[0].view(4, 4, 4, 16)[0, 0, 0], fields[0].view(4, 4, 4, 16)[1, 1, 0]
    assert (int(corner.sum()), int(middle.sum())) == (4, 9)  # the first group looks everywhere


@pytest.mark.parametrize("strides", [[1, 1, 1], [1, 2, 1]])
def test_fields_are_rectangles_unless_children_are_learned_otherwise(strides):
    net = network(gate="presence", groups=4, n_blocks=3, strides=strides, learn_children=True, image_size=(10, 16))
    x = images(net)
    readouts = [readout.detach() for readout in net.readouts]
    with torch.no_grad():
        units = [condensed(z, readout) for z, readout in zip(net.units(x), readouts, strict=True)]
        along_sides, at_once = net._spreader(readouts), HarsanyiNet._spreader(net, readouts)
    assert all(sides is not None for sides in net._sides[1])
    torch.testing.assert_close(along_sides(units), at_once(units), rtol=0, atol=1e-13)
    with torch.no_grad():
        net.blocks[0].tau[3] = torch.tensor([1.0, -1, -1, -1, 1, -1, -1, -1, 1])  # a diagonal
    values = net.explain(x).values
    assert net._sides[1][0] is None
    np.testing.assert_allclose(
        values.sum(1), net(x).detach().numpy() - net.base.detach().numpy(), rtol=0, atol=1e-12 * np.abs(values).max()
    )


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
    children = net.neighbour_masks()[0].view(14, 14, 9)
    assert not bool((children & ~inside(14, 14)).any())
    assert 0.4 < float(children[1:-1, 1:-1].float().mean()) < 0.6
    assert net.cells == (14, 14)
    assert net.pixels_per_cell == (4, 4)


def test_what_a_cell_sees():
    assert HarsanyiCNN(3, 32, 10, stem="patch", patch=4).pixels_per_cell == (4, 4)
    assert HarsanyiCNN(3, 32, 10, stem="deep").pixels_per_cell == (8, 8)
    assert pixels_per_cell(nn.Conv2d(1, 1, (3, 5), padding=(1, 2)), 1, (16, 16)) == (3, 5)
    assert pixels_per_cell(nn.Sequential(nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, 3)), 1, (16, 16)) == (5, 5)


def plain_masked(z, weight, sigma):
    """By unfolding, with autograd through everything."""
    near = F.unfold(z.permute(0, 3, 1, 2), 3, padding=1).view(len(z), z.shape[3], 9, *z.shape[1:3])
    return torch.einsum("bckhw,hwk,okc->bhwo", near, sigma, weight.view(len(weight), 9, -1))


@pytest.mark.parametrize("at_a_time", [1, 2, 3])
@pytest.mark.parametrize("w", [1, 5])
def test_a_masked_convolution_and_its_gradient(at_a_time, w, monkeypatch):
    monkeypatch.setattr(image_blocks, "_GATHERED", at_a_time * 4 * w * 2 * 9)
    g = torch.Generator().manual_seed(0)
    z = torch.randn(3, 4, w, 2, generator=g, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 18, generator=g, dtype=torch.float64, requires_grad=True)
    sigma = (torch.rand(4, w, 9, generator=g) < 0.5).double().requires_grad_()
    mine, theirs = masked_convolution(z, weight, sigma), plain_masked(z, weight, sigma)
    torch.testing.assert_close(mine, theirs, rtol=1e-13, atol=1e-13)
    grad = torch.randn(mine.shape, generator=g, dtype=torch.float64)
    for a, b in zip(
        torch.autograd.grad(mine, [z, weight, sigma], grad),
        torch.autograd.grad(theirs, [z, weight, sigma], grad),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def block_to_the_letter(block, z, tau_gradient="formula"):
    """The paper's block as its formula is written, by unfolding: Sigma before and inside the tanh.

    Or as the authors' code has it: the AND's own selection with beta = 1, in a sum of logarithms.
    """
    there = block.inside.to(z.dtype)
    inner = select_children(block.tau, block.beta) * there
    near = neighbours(z.abs().sum(-1, keepdim=True))[..., 0]  # (B, H, W, 9)
    t = torch.tanh(block.gamma * inner * near)
    if tau_gradient == "code":
        outer = select_children(block.tau, 1.0) * there
        product = (outer * (t + 1e-30).log()).sum(-1).exp()
        product = torch.where((outer * (t == 0)).sum(-1) > 0, 0.0 * product, product)
    else:
        outer = inner
        product = (outer * t + 1 - outer).prod(-1)
    count = outer.sum(-1).clamp_min(1)
    if block.mode == "geometric":  # the root of a dead product has no derivative, and ReLU passes nothing on
        dead = product == 0
        product = torch.where(dead, 0.0, torch.where(dead, 1.0, product) ** (1 / count))
    return (plain_masked(z, block.weight, inner) * product[..., None]).relu()


@pytest.mark.parametrize("tau_gradient", ["formula", "code"])
@pytest.mark.parametrize("mode", ["geometric", "product"])
@pytest.mark.parametrize("dead", [0.0, 0.2])
def test_the_gradient_of_a_block_equals_autograd_through_the_formula(mode, dead, tau_gradient):
    g = torch.Generator().manual_seed(0)
    block = LocationBlock(
        2, 3, size=(4, 5), gate="activation", beta=7.0, gamma=0.8, mode=mode, generator=g, tau_gradient=tau_gradient
    ).double()
    with torch.no_grad():
        block.tau.copy_(torch.randn(block.tau.shape, generator=g) - 0.3)
        block.tau[0, 0], block.tau[1, 1] = -1.0, 1.0  # no child; all
    z = torch.randn(6, 4, 5, 2, generator=g, dtype=torch.float64)
    z = torch.where(torch.rand(6, 4, 5, 1, generator=g) < dead, 0.0, z).requires_grad_()
    found, expected = block(z, None)[0], block_to_the_letter(block, z, tau_gradient)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-15)
    grad = torch.randn(found.shape, generator=g, dtype=torch.float64)
    leaves = [z, block.weight, block.tau]
    mine, theirs = torch.autograd.grad(found, leaves, grad), torch.autograd.grad(expected, leaves, grad)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
        assert bool((a != 0).any())
    counted = block.child_mask().view_as(block.tau).any(-1)
    assert bool((mine[2][counted] != 0).any(-1).all())


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


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"gate": "and"}, "gate must be one of 'activation', 'presence', however: gate='and'"),
        ({"stem": "vgg"}, "stem must be 'paper', 'patch', 'deep', 'map' or a module, however: stem='vgg'"),
        ({"gate": "presence", "groups": 3}, "channels must be a multiple of groups, however: channels=32, groups=3"),
        ({"groups": 2}, "groups belong to children='group', however: groups=2 with children='location'"),
        ({"children": "group"}, "children='group' belongs to the presence gate, however: gate='activation'"),
        (
            {"strides": [1, 2, 1, 1]},
            "strides must be 1, or 2 where children are chosen per group, however: strides=[1, 2, 1, 1] with "
            "children='location'",
        ),
        (
            {"gate": "presence", "channels": [4, 8]},
            "channels must hold one number for each of the 4 blocks, however: [4, 8]",
        ),
        (
            {"gate": "presence", "strides": (1, 3, 1, 1)},
            "strides must be 1, or 2 where children are chosen per group, however: strides=[1, 3, 1, 1] with "
            "children='group'",
        ),
        ({"gate": "presence", "strides": [0, 1, 1, 1]}, "strides must be at least 1, however: strides=0"),
        ({"n_blocks": 0}, "n_blocks must be at least 1, however: n_blocks=0"),
        ({"beta": 0.0}, "beta must be positive and finite, however: beta=0.0"),
        (
            {"stem": "patch", "patch": 3},
            "patch must divide the height and width of the images, however: patch=3, 8 x 8",
        ),
    ],
)
def test_wrong_settings(options, sentence):
    with pytest.raises(ValueError, match=r".") as error:
        HarsanyiCNN(1, 8, 3, **options)
    assert str(error.value) == sentence


def test_wrong_image_sizes():
    with pytest.raises(ValueError, match=r"image_size must be one number, or height and width, however: .*\(8, 8, 3\)"):
        HarsanyiCNN(3, (8, 8, 3), 2)
    with pytest.raises(ValueError, match=r"stem must take images of shape \(3, 1, 1\), however: .*too small"):
        HarsanyiCNN(3, 1, 2)


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
