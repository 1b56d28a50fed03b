"""Convolutional ShapNets against brute force, unfolded patches, and a plain loop that shares no formula with them."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from harsanyinet.datasets import load_digit_images
from harsanyinet.games import all_masks, brute_force_shapley, harsanyi_dividends
from harsanyinet.peers import DeepConvShapNet, ShallowConvShapNet
from harsanyinet.peers.patch_layers import ConvShapleyLayer, patch_sets
from harsanyinet.training import TrainingConfig, fit_module


def images(n_images, *shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n_images, *shape, generator=generator, dtype=torch.float64).to(dtype)


@torch.no_grad()
def truth(net, x):
    """Brute force over the whole network, (B, P, K)."""
    games = [lambda m, r=row: net(r.expand(len(m), *r.shape), present=torch.from_numpy(m)) for row in x]
    values = [brute_force_shapley(game, net.n_players, batch_size=512, progress=False) for game in games]
    return torch.tensor(np.stack(values), dtype=x.dtype)


def inner(layer, patch):
    """The perceptron on one mixture, the four cells of a patch (4, C), as written in a textbook."""
    hidden = torch.einsum("tc,uct->u", patch, layer.kernel.flatten(2)) + layer.bias
    constant = 0 if layer.constant is None else layer.constant
    return hidden.clamp_min(0) @ layer.readout + constant


def loop_layer(layer, dilation, values, reference):
    """One image through a layer: (P, C) -> (P, C') and (C',), by the mean over all orders of joining, padding too."""
    height, width = layer.cells
    out, constants = torch.zeros(len(values), layer.d_out, dtype=values.dtype), 0
    for top in range(-dilation, height):
        for left in range(-dilation, width):
            corners = [(top + dilation * r, left + dilation * c) for r in range(2) for c in range(2)]
            players = [r * width + c if 0 <= r < height and 0 <= c < width else None for r, c in corners]
            if all(player is None for player in players):
                continue
            outside = torch.zeros(layer.d_in, dtype=values.dtype)

            @cache
            def play(*present, players=tuple(players), outside=outside):
                cells = [
                    outside if i is None else (values if there else reference)[i]
                    for i, there in zip(players, present, strict=True)
                ]
                return inner(layer, torch.stack(cells))

            constants = constants + play(*[False] * 4)
            orders = list(permutations(range(4)))
            for order in orders:
                present = [False] * 4
                for corner in order:
                    before = play(*present)
                    present[corner] = True
                    gain = play(*present) - before
                    if players[corner] is None:
                        assert not gain.any()  # padding contributes nothing
                    else:
                        out[players[corner]] += gain / len(orders)
    return out, constants


def make_layer(cells, dilation, d_in=2, d_out=3, hidden=5, constants=True):
    generator = torch.Generator().manual_seed(3)
    options = {"hidden": hidden, "constants": constants, "generator": generator}
    return ConvShapleyLayer(cells, dilation, d_in, d_out, **options).double()


SIZES = [((3, 4), 1), ((4, 3), 2), ((2, 5), 4), ((3, 3), 3), ((1, 4), 2), ((1, 1), 1), ((3, 1), 7)]


class TestPatches:
    @pytest.mark.parametrize(("cells", "dilation"), SIZES)
    def test_are_those_of_an_unfolded_image(self, cells, dilation):
        numbers = torch.arange(1.0, cells[0] * cells[1] + 1).view(1, 1, *cells)  # zero is padding
        patches = F.unfold(numbers, 2, dilation=dilation, padding=dilation)[0].T.long().tolist()
        expected = [tuple(i - 1 for i in patch if i > 0) for patch in patches]
        assert sorted(patch_sets(cells, dilation)) == sorted(patch for patch in expected if patch)

    def test_by_hand(self):
        sets = patch_sets((3, 3), 2)
        assert sets[0] == (0, 2, 6, 8)
        assert sorted(map(len, sets)) == [1] * 16 + [2] * 8 + [4]
        assert all(sum(player in members for members in sets) == 4 for player in range(9))


class TestLayer:
    @pytest.mark.parametrize(("cells", "dilation"), SIZES)
    def test_equals_a_loop_over_locations_and_orders(self, cells, dilation):
        layer, n = make_layer(cells, dilation), cells[0] * cells[1]
        values, reference = images(2, n, 2, seed=4), images(1, n, 2, seed=5)[0]
        with torch.no_grad():
            got, totals = layer(values - reference, reference), layer.totals(values - reference, reference)
            for row in range(2):
                expected, constant = loop_layer(layer, dilation, values[row], reference)
                torch.testing.assert_close(got[row], expected, rtol=0, atol=1e-13)
                at_reference = layer.totals(torch.zeros_like(values[:1]), reference)[0]
                torch.testing.assert_close(at_reference, constant, rtol=0, atol=1e-13)
                torch.testing.assert_close(totals[row], expected.sum(0) + constant, rtol=0, atol=1e-13)
            nothing = torch.zeros_like(reference)
            assert torch.equal(layer(values), layer(values, nothing))
            assert torch.equal(layer.totals(values), layer.totals(values, nothing))

    @pytest.mark.parametrize("with_reference", [True, False])
    @pytest.mark.parametrize(("cells", "dilation"), [((3, 4), 1), ((3, 3), 2), ((2, 2), 5)])
    def test_gradients_are_those_of_differences(self, cells, dilation, with_reference, monkeypatch):
        monkeypatch.setattr("harsanyinet.peers.patch_layers.CHUNK", 1)  # one image at a time
        layer, n = make_layer(cells, dilation, hidden=3, constants=False), cells[0] * cells[1]
        names, weights = zip(*layer.named_parameters(), strict=True)
        deltas, reference = images(2, n, 2, seed=4), images(1, n, 2, seed=5)[0] if with_reference else None

        def call(deltas, *weights):
            return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (deltas, reference))

        assert torch.autograd.gradcheck(call, (deltas.requires_grad_(), *weights), fast_mode=True)

    def test_rows_in_parts_equal_rows_at_once(self, monkeypatch):
        layer, x = make_layer((4, 4), 1), images(11, 16, 2)
        at_once = layer(x)
        grads = torch.autograd.grad(at_once.square().sum(), layer.kernel)[0]
        for chunk in (1, 5000):
            monkeypatch.setattr("harsanyinet.peers.patch_layers.CHUNK", chunk)
            again = layer(x)
            torch.testing.assert_close(again, at_once, rtol=0, atol=1e-14)
            again = torch.autograd.grad(again.square().sum(), layer.kernel)[0]
            torch.testing.assert_close(again, grads, rtol=1e-12, atol=1e-12)
            with torch.no_grad():
                torch.testing.assert_close(layer(x), at_once.detach(), rtol=0, atol=1e-14)


class TestShallow:
    CASES = (
        {},
        {"dilations": (1,)},
        {"dilations": (2, 1, 9), "baseline": 0.7},
        {"baseline": [0.3, -1.7]},
        {"baseline": images(1, 2, 3, 4, seed=9)[0]},
        {"shared": False},
        {"shared": False, "dilations": (1, 3), "baseline": [0.3, -1.7]},
    )

    @pytest.mark.parametrize("settings", CASES, ids=lambda s: "-".join(s) or "default")
    def test_is_exact(self, settings):
        net = ShallowConvShapNet(2, (3, 4), 2, hidden=8, seed=1, **settings).double().eval()
        assert (net.cells, net.n_players) == ((3, 4), 12)
        x = images(2, 2, 3, 4)
        with torch.no_grad():
            for layer in net.layers:
                for weight in layer.parameters():
                    weight.mul_(3)  # larger values, and ReLU bends between the mixtures
            values = net.explain_values(x)
            assert values.shape == (2, 12, 2)
            assert values.abs().max() > 0.1
            torch.testing.assert_close(values, truth(net, x), rtol=0, atol=1e-12)
            torch.testing.assert_close(values.sum(1) + net.base, net(x), rtol=0, atol=1e-12)
            nobody = net(x, present=torch.zeros(12, dtype=torch.bool))
            torch.testing.assert_close(nobody, net.base.expand(2, -1), rtol=0, atol=1e-12)
            torch.testing.assert_close(net(net.baseline[None])[0], net.base, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(
        ("size", "patch", "cells"), [((6, 8), 2, (3, 4)), ((5, 7), 2, (3, 4)), ((7, 4), 3, (3, 2))]
    )
    @pytest.mark.parametrize("shared", [True, False])
    def test_is_exact_over_blocks_of_pixels(self, size, patch, cells, shared):
        net = ShallowConvShapNet(2, size, 2, hidden=8, patch=patch, shared=shared, baseline=[0.3, -0.2]).double().eval()
        assert (net.cells, net.n_players) == (cells, cells[0] * cells[1])
        x = images(2, 2, *size)
        with torch.no_grad():
            torch.testing.assert_close(net.explain_values(x), truth(net, x), rtol=0, atol=1e-12)

    def test_is_exact_in_float32(self):
        net = ShallowConvShapNet(1, (3, 4), 2, hidden=8, baseline=0.3).eval()
        x = images(2, 1, 3, 4, dtype=torch.float32)
        with torch.no_grad():
            scale = net(x).abs().max().item()
            torch.testing.assert_close(net.explain_values(x), truth(net, x), rtol=0, atol=1e-5 * scale)

    @pytest.mark.parametrize("baseline", [None, 0.4])
    def test_predicts_the_sum_of_its_modules(self, baseline):
        """The network by its definition: every perceptron on every patch of the zero-padded image, added up."""
        net = ShallowConvShapNet(2, (5, 4), 3, dilations=(1, 3), hidden=6, baseline=baseline).double().eval()
        x = images(3, 2, 5, 4)
        expected = 0
        with torch.no_grad():
            for layer, dilation in zip(net.layers, (1, 3), strict=True):
                patches = F.unfold(x, 2, dilation=dilation, padding=dilation).transpose(1, 2)  # (3, locations, 2 * 4)
                hidden = (patches @ layer.kernel.flatten(1).T + layer.bias).relu()
                expected = expected + (hidden @ layer.readout + layer.constant).sum(1)
            torch.testing.assert_close(net(x), expected, rtol=0, atol=1e-13)

    @pytest.mark.parametrize("shared", [True, False])
    def test_training_mode_predicts_the_same(self, shared):
        net = ShallowConvShapNet(2, (5, 4), 3, dilations=(1, 4, 6), shared=shared, baseline=0.3).double()
        x, present = images(5, 2, 5, 4), images(5, 20, seed=1) > 0
        for arguments in ((x,), (x, present)):
            torch.testing.assert_close(net.train()(*arguments), net.eval()(*arguments), rtol=0, atol=1e-13)

    def test_shared_weights_are_those_of_equal_modules(self):
        """A module per location with the same weights everywhere is the shared one; otherwise they differ."""
        shared = ShallowConvShapNet(2, (3, 4), 2, dilations=(1,), hidden=5).double().eval()
        own = ShallowConvShapNet(2, (3, 4), 2, dilations=(1,), hidden=5, shared=False).double().eval()
        x = images(3, 2, 3, 4)
        with torch.no_grad():
            assert not torch.allclose(own(x), shared(x))
            layer = shared.layers[0]
            kernel = layer.kernel.flatten(2).permute(2, 1, 0)  # (4, C, U)
            corners = {1: [], 2: [], 4: []}
            for taps in layer.regions:
                _, rows, columns = taps[0]
                n_patches = (rows.stop - rows.start) * (columns.stop - columns.start)
                corners[len(taps)] += [[tap.corner for tap in taps]] * n_patches
            for group in own.layers[0].groups:
                of = torch.tensor(corners[group.sets.shape[1]])
                group.weights[0].copy_(kernel[of])
                group.weights[1].copy_(layer.readout.expand_as(group.weights[1]))
                group.biases[0].copy_(layer.bias.repeat(len(of)))
                group.biases[1].copy_(layer.constant.repeat(len(of)))
            torch.testing.assert_close(own(x), shared(x), rtol=0, atol=1e-13)
            torch.testing.assert_close(own.explain_values(x), shared.explain_values(x), rtol=0, atol=1e-13)

    def test_starts_with_moderate_outputs_on_large_images(self):
        net = ShallowConvShapNet(1, 28, 10)
        assert 0.1 < net(torch.ones(1, 1, 28, 28)).abs().max() < 3

    def test_holds_interactions_of_patches_only(self):
        net = ShallowConvShapNet(1, (3, 3), 1, dilations=(1,), hidden=16).double().eval()
        x = 3 * images(1, 1, 3, 3)
        with torch.no_grad():
            game = lambda m: net(x.expand(len(m), -1, -1, -1), present=torch.from_numpy(m))  # noqa: E731
            dividends = np.abs(harsanyi_dividends(game, 9, progress=False)[:, 0])
        patches = [set(members) for members in patch_sets((3, 3), 1)]
        inside = np.array([any(set(np.flatnonzero(mask)) <= patch for patch in patches) for mask in all_masks(9)])
        assert dividends[~inside].max() < 1e-13
        assert dividends[inside][1:].min() > 1e-4  # but that of nobody


class TestDeep:
    CASES = (
        {},
        {"residual": False},
        {"channels": (4, 4), "dilations": (2, 1, 5), "baseline": [0.3, -1.7]},
        {"channels": (), "dilations": (1,)},
        {"patch": 2, "baseline": images(1, 2, 5, 4, seed=9)[0]},
    )

    def test_a_random_net_disagrees_with_brute_force(self):
        net = DeepConvShapNet(1, (3, 3), 2, channels=(8,), dilations=(1, 2), hidden=16, residual=False).double()
        x = 3 * images(3, 1, 3, 3)
        with torch.no_grad():
            values, exact = net.explain_values(x), truth(net, x)
        torch.testing.assert_close(values.sum(1), exact.sum(1), rtol=0, atol=1e-12)
        assert 0.02 < (values - exact).norm() / exact.norm() < 2

    def test_one_layer_is_exact(self):
        net = DeepConvShapNet(2, (3, 4), 2, channels=(), dilations=(1,), baseline=0.3).double()
        x = images(2, 2, 3, 4)
        with torch.no_grad():
            torch.testing.assert_close(net.explain_values(x), truth(net, x), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("settings", CASES, ids=lambda s: "-".join(s) or "default")
    def test_sums_and_missing_cells(self, settings):
        net = DeepConvShapNet(2, (5, 4), 2, seed=1, **settings).double()
        x, n = images(4, 2, 5, 4), net.n_players
        present = images(4, n, seed=1) > 0
        with torch.no_grad():
            layers = net.layer_values(x)
            assert torch.equal(net.explain_values(x), layers[-1])
            torch.testing.assert_close(layers[-1].sum(1) + net.base, net(x), rtol=0, atol=1e-12)
            for values in net.layer_values(x, present):
                assert values.shape[:2] == (4, n)
                assert values[~present].abs().max() < 1e-14  # missingness, in every layer
                assert values[present].abs().sum(1).min() > 1e-6
            assert net(net.baseline[None]).abs().max() < 1e-14
            assert net(x, torch.zeros(n, dtype=torch.bool)).abs().max() < 1e-14
        assert net.base.tolist() == [0.0, 0.0]

    @pytest.mark.parametrize("residual", [True, False])
    def test_equals_a_loop_with_references_of_zero(self, residual):
        options = {"channels": (3, 3), "dilations": (1, 2, 1), "hidden": 4, "residual": residual}
        net = DeepConvShapNet(2, (3, 3), 2, baseline=images(1, 2, 3, 3, seed=8)[0], **options).double()
        x = images(1, 2, 3, 3)
        with torch.no_grad():
            below, reference = x[0].flatten(1).T, net.baseline.flatten(1).T
            for number, (layer, dilation) in enumerate(zip(net.layers, (1, 2, 1), strict=True)):
                expected, _ = loop_layer(layer, dilation, below, reference)
                if number == 1 and residual:
                    expected = expected + below
                torch.testing.assert_close(net.layer_values(x)[number][0], expected, rtol=0, atol=1e-13)
                below, reference = expected, torch.zeros_like(expected)

    def test_works_in_float32(self):
        nets = [DeepConvShapNet(1, 6, 2, patch=2, baseline=0.3).to(dtype) for dtype in (torch.float32, torch.float64)]
        x = images(3, 1, 6, 6, dtype=torch.float32)
        with torch.no_grad():
            expected = nets[1].explain_values(x.double())
            torch.testing.assert_close(nets[0].explain_values(x).double(), expected, rtol=0, atol=1e-5)


NETS = {
    "shared": ShallowConvShapNet,
    "own": lambda *args, **options: ShallowConvShapNet(*args, shared=False, **options),
    "deep": lambda *args, **options: DeepConvShapNet(*args, channels=(8, 8), dilations=(1, 2, 4), **options),
}


@pytest.mark.parametrize("make", NETS.values(), ids=list(NETS))
class TestBoth:
    def test_absent_cells_are_at_the_baseline(self, make):
        """Which pixels a cell holds, written out by hand, also where the image ends within a cell."""
        net = make(2, (5, 4), 2, hidden=8, patch=2, baseline=images(1, 2, 5, 4, seed=9)[0]).double().eval()
        x, present = images(4, 2, 5, 4), images(4, 6, seed=1) > 0
        at_baseline = x.clone()
        for row, column in np.ndindex(5, 4):
            absent = ~present[:, row // 2 * 2 + column // 2]
            at_baseline[absent, :, row, column] = net.baseline[:, row, column]
        with torch.no_grad():
            torch.testing.assert_close(net(x, present), net(at_baseline), rtol=0, atol=1e-13)
            torch.testing.assert_close(net(x, present[0])[1], net(x[1:2], present[:1])[0], rtol=0, atol=1e-13)
            assert not torch.allclose(net(x, present), net(x))
            values = net.explain_values(x, present)
            assert values[~present].abs().max() < 1e-14

    def test_whatever_is_absent_does_not_matter(self, make):
        net = make(1, 3, 2, hidden=8).eval()
        x = images(3, 1, 3, 3, dtype=torch.float32)
        present = torch.arange(9) != 4
        other = x.clone()
        other[:, 0, 1, 1] = torch.tensor([1e9, float("nan"), float("inf")])
        assert torch.equal(net(x, present), net(other, present))
        assert torch.equal(net.explain_values(x, present), net.explain_values(other, present))

    def test_one_cell_and_no_images(self, make):
        for size, patch in ((1, 1), (3, 4)):
            net = make(1, size, 2, patch=patch).double().eval()
            assert net.cells == (1, 1)
            x = images(2, 1, size, size)
            torch.testing.assert_close(net.explain_values(x)[:, 0] + net.base, net(x), rtol=0, atol=1e-14)
        net = make(1, 4, 2)
        for mode in (True, False):
            assert net.train(mode)(torch.zeros(0, 1, 4, 4)).shape == (0, 2)
            net(torch.zeros(0, 1, 4, 4)).sum().backward()

    def test_the_same_seed_gives_the_same_bits(self, make):
        x = images(3, 1, 4, 4, dtype=torch.float32)
        state = torch.get_rng_state()
        first, second, other = make(1, 4, 2, seed=5), make(1, 4, 2, seed=5), make(1, 4, 2, seed=6)
        assert torch.equal(first.explain_values(x), second.explain_values(x))
        assert not torch.equal(first(x), other(x))
        assert torch.equal(torch.get_rng_state(), state)
        second.load_state_dict(other.state_dict())
        assert torch.equal(second(x), other(x))

    def test_gradients_reach_every_weight_and_pixel(self, make):
        net = make(2, (4, 6), 2, hidden=8, patch=2, baseline=0.1)
        for mode in (True, False):
            x = images(8, 2, 4, 6, dtype=torch.float32).requires_grad_()
            net.zero_grad()
            net.train(mode)(x).square().sum().backward()
            assert all(p.grad.abs().sum() > 0 for p in net.parameters())
            assert (x.grad.abs().sum(0) > 0).all()
            assert all(p.ndim == 1 for name, p in net.named_parameters() if "bias" in name or "constant" in name)

    def test_learns_digits(self, make):
        digits = load_digit_images()
        x = torch.tensor(digits.train[:320].transpose(0, 3, 1, 2), dtype=torch.float32) / 255
        y = torch.tensor(digits.y_train[:320])
        net = make(1, 8, 10, hidden=16, patch=2)
        config = TrainingConfig(epochs=8, batch_size=32, learning_rate=5e-3, masked_share=0.2)

        def loss(outputs, targets):
            return F.cross_entropy(outputs, targets, reduction="none")

        with torch.no_grad():
            before = loss(net(x), y).mean().item()
        fit_module(net, x, y, loss=loss, config=config, n_players=net.n_players, progress=False)
        with torch.no_grad():
            assert loss(net(x), y).mean().item() < 2 < before  # log(10) is 2.3

    def test_of_a_call(self, make):
        net, x = make(2, (3, 4), 1), torch.zeros(2, 2, 3, 4)
        for wrong in (torch.zeros(2, 1, 3, 4), torch.zeros(2, 2, 4, 3), torch.zeros(2, 3, 4)):
            with pytest.raises(ValueError, match=r"x must have the shape \(images, 2, 3, 4\), however: shape="):
                net(wrong)
        with pytest.raises(TypeError, match=r"x must have the dtype of the network, torch.float32, however: .*float64"):
            net(x.double())
        with pytest.raises(TypeError, match=r"present must be a bool tensor, .*, however: torch.float32"):
            net(x, present=torch.ones(2, 12))
        with pytest.raises(ValueError, match=r"present must have shape \(12,\) or \(2, 12\), however: \(2, 3, 4\)"):
            net(x, present=torch.ones(2, 3, 4, dtype=torch.bool))

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"in_channels": 0}, "in_channels must be a positive integer, however: in_channels=0"),
            ({"n_outputs": 1.5}, "n_outputs must be a positive integer, however: n_outputs=1.5"),
            ({"hidden": 0}, "hidden must be a positive integer, however: hidden=0"),
            ({"patch": 0}, "patch must be a positive integer, however: patch=0"),
            ({"image_size": 0}, "image_size must be one positive integer, or two, however: image_size=0"),
            ({"image_size": 2.5}, "image_size must be one positive integer, or two, however: image_size=2.5"),
            ({"image_size": (4,)}, r"image_size must be one positive integer, or two, however: image_size=\(4,\)"),
            ({"baseline": [0.0]}, r"baseline must hold one finite number, 2, or those of \(2, 4, 4\), however: shape"),
            ({"baseline": np.nan}, "baseline must hold one finite number, .*, however: shape"),
        ],
        ids=str,
    )
    def test_of_the_constructor(self, make, settings, message):
        with pytest.raises(ValueError, match=message):
            make(**{"in_channels": 2, "image_size": 4, "n_outputs": 2, **settings})


@pytest.mark.parametrize(
    ("net", "settings", "message"),
    [
        (ShallowConvShapNet, {"dilations": ()}, "dilations must hold at least one number, however: there is none"),
        (ShallowConvShapNet, {"dilations": (1, 0)}, r"dilations must hold positive integers, however: .*\(1, 0\)"),
        (DeepConvShapNet, {"dilations": (1, 2, 4, 0)}, "dilations must hold positive integers, however: "),
        (DeepConvShapNet, {"channels": (0,)}, r"channels must hold positive integers, however: channels=\(0,\)"),
        (DeepConvShapNet, {"channels": (8,)}, r"dilations must hold one number for each of the 2 layers, however: "),
    ],
)
def test_widths_and_dilations(net, settings, message):
    with pytest.raises(ValueError, match=message):
        net(1, 4, 2, **settings)
