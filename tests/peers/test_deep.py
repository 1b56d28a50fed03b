"""DeepSHAP against its known answers, a loop over single units, brute force, captum and shap."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch import nn

from harsanyinet import HarsanyiClassifier, HarsanyiCNN, HarsanyiMLP
from harsanyinet.games import all_masks, brute_force_shapley, shapley_of_table
from harsanyinet.networks.gates import paper_unit
from harsanyinet.peers import deep
from harsanyinet.peers.deep import deep_shap, deep_shap_as_is, gate_rule, gate_rule_of_reference, product_rule

close = partial(np.testing.assert_allclose, rtol=0)
VARIANTS = list(product(["geometric", "product"], ["previous", "all"]))


def rows(n_rows: int, n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n_rows, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def network(n: int = 6, k: int = 2, **options) -> HarsanyiMLP:
    options = {"n_blocks": 3, "width": 12, "gamma": 1.0, "seed": 1, "dtype": torch.float64, **options}
    return HarsanyiMLP(n, k, **options)


def plain(*sizes: int, activation=nn.ReLU, seed: int = 0) -> nn.Sequential:
    """Linear layers with activations between, drawn without the global random state."""
    generator, layers = torch.Generator().manual_seed(seed), []
    for d_in, d_out in pairwise(sizes):
        layer = nn.utils.skip_init(nn.Linear, d_in, d_out, dtype=torch.float64)
        for parameter in layer.parameters():
            nn.init.normal_(parameter, generator=generator)
        layers += [layer, activation()]
    return nn.Sequential(*layers[:-1]).eval()


def gains(net: HarsanyiMLP, x: torch.Tensor) -> np.ndarray:
    return (net(x) - net.base).detach().numpy()


def exact(net: HarsanyiMLP, x: torch.Tensor) -> np.ndarray:
    return np.stack([brute_force_shapley(net.game(x, row), net.n_players) for row in range(len(x))])


def by_loops(net: HarsanyiMLP, x: torch.Tensor, output: int) -> np.ndarray:
    """What one row receives, unit by unit: half of a unit in proportion to weight * child, half evenly."""
    levels = [(x - net.baseline)[0].tolist(), *[z[0, :, 0].tolist() for z in net.units(x)]]
    due = [[0.0] * len(level) for level in levels]
    for level in range(len(net.blocks), 0, -1):
        block, readout = net.blocks[level - 1], net.readouts[level - 1][output, :, 0].tolist()
        first = level - 1 if level == 1 or net.connect == "previous" else 1
        below = [(lower, j) for lower in range(first, level) for j in range(len(levels[lower]))]
        for u, z in enumerate(levels[level]):
            amount = due[level][u] + readout[u] * z
            if z == 0:
                continue
            children = [(c, w) for c, w, t in zip(below, block.weight[u].tolist(), block.tau[u], strict=True) if t > 0]
            g = sum(w * levels[lower][j] for (lower, j), w in children)
            for (lower, j), w in children:
                due[lower][j] += amount * (w * levels[lower][j] / (2 * g) + 1 / (2 * len(children)))
    return np.array(due[0])


@pytest.mark.parametrize(("soft_and", "connect"), VARIANTS)
@pytest.mark.parametrize("children", [1, 2, None])
@pytest.mark.parametrize("gamma", [1.0, 100.0])
def test_values_add_up(soft_and, connect, children, gamma):
    net = network(soft_and=soft_and, connect=connect, initial_children=children, gamma=gamma, baseline=rows(1, 6, 9)[0])
    x = rows(40, 6)
    values = deep_shap(net, x)
    assert values.shape == (40, 6, 2)
    assert np.abs(values).max() > 0.1
    close(values.sum(1), gains(net, x), atol=1e-12)


@pytest.mark.parametrize(("soft_and", "connect"), VARIANTS)
def test_every_rule_unit_by_unit(soft_and, connect):
    net, x = network(soft_and=soft_and, connect=connect, initial_children=3), rows(5, 6)
    values = deep_shap(net, x)
    for row in range(5):
        for output in range(2):
            close(values[row, :, output], by_loops(net, x[row : row + 1], output), atol=1e-12)


def test_one_unit_splits_half_by_weight_and_half_evenly():
    net = HarsanyiMLP(2, 1, n_blocks=1, width=1, gamma=0.7, dtype=torch.float64)
    with torch.no_grad():
        net.blocks[0].weight.copy_(torch.tensor([[3.0, 1.0]]))
        net.readouts[0].fill_(2.0)
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    z = 5 * np.sqrt(np.tanh(0.7) * np.tanh(1.4))
    expected = 2 * z * np.array([[3 / 5 / 2 + 1 / 4, 2 / 5 / 2 + 1 / 4]])
    close(deep_shap(net, x), expected, atol=1e-14)
    close(exact(net, x)[:, :, 0], [[z, z]], atol=1e-14)  # all of it evenly


@pytest.mark.parametrize(("soft_and", "connect"), VARIANTS)
def test_units_of_one_player_are_exact(soft_and, connect):
    net, x = network(soft_and=soft_and, connect=connect, initial_children=1), rows(4, 6)
    assert all(int(field.sum(1).max()) == 1 for field in net.receptive_fields())
    close(deep_shap(net, x), exact(net, x), atol=1e-12)


@pytest.mark.parametrize(("soft_and", "connect"), VARIANTS)
def test_deep_networks_are_not_exact(soft_and, connect):
    net, x = network(soft_and=soft_and, connect=connect, initial_children=2), rows(4, 6)
    truth = exact(net, x)
    close(net.explain(x).values, truth, atol=1e-12)
    assert np.abs(deep_shap(net, x) - truth).max() > 0.05 * np.abs(truth).max()


def test_relu_of_a_product_gives_half_each():
    x1, x2 = torch.tensor([[1.5, -1.5, 0.0], [2.0, 2.0, 1.0]], dtype=torch.float64)
    zero, w = torch.zeros(3, dtype=torch.float64), 0.7
    of_1, of_2 = product_rule(x1, zero, x2, zero)
    relu = deep.relu_rule(w * x1 * x2, zero)
    values = torch.stack([relu * w * of_1 * x1, relu * w * of_2 * x2], 1)
    half = w * 3.0 / 2
    close(values, [[half, half], [0, 0], [0, 0]], atol=1e-15)


def test_relu_rule():
    h, h_ref = torch.tensor([2.0, -1.0, 3.0, -2.0, 0.0, 1.0]), torch.tensor([1.0, -2.0, -1.0, 2.0, 0.0, 1.0])
    close(deep.relu_rule(h, h_ref), [1, 0, 0.75, 0.5, 0, 1])


@pytest.mark.parametrize("soft_and", ["geometric", "product"])
@pytest.mark.parametrize("zero", [True, False])
def test_the_gate_rule_is_the_shapley_value_of_the_gate(soft_and, zero):
    net = network(soft_and=soft_and, initial_children=4, n_blocks=1, gamma=0.8)
    block = net.blocks[0]
    with torch.no_grad():
        block.tau[0] = -1.0  # no child
        block.tau[1] = torch.tensor([1.0, -1, -1, -1, -1, -1])
        block.tau[2] = 1.0
    x, ref, sigma = rows(3, 6), torch.zeros(1, 6, dtype=torch.float64) if zero else rows(1, 6, 5), block.child_mask()
    m = rows(3 * 2, 12, 7).view(3, 2, 12)
    expected = np.zeros((3, 2, 6))
    for row, unit in product(range(3), range(12)):
        t, t_ref = np.tanh(0.8 * np.abs(x[row].numpy())), np.tanh(0.8 * np.abs(ref[0].numpy()))
        factors = np.where(all_masks(6), t, t_ref)[:, sigma[unit].numpy()]
        table = factors.prod(1) ** (1 / max(factors.shape[1], 1) if soft_and == "geometric" else 1.0)
        expected[row] += m[row, :, unit, None].numpy() * shapley_of_table(table)
    found = gate_rule_of_reference(block, x, ref, m) * (x - ref)[:, None]
    close(found, expected, atol=1e-12)
    if zero:
        d = paper_unit(x, block.children_of(), block.gamma, block.mode).gate
        close(gate_rule(block, x, d, m) * x[:, None], expected, atol=1e-12)


@pytest.mark.parametrize("soft_and", ["geometric", "product"])
def test_at_the_reference_the_derivative_is_used(soft_and):
    block, x, m = network(soft_and=soft_and, initial_children=3, n_blocks=1).blocks[0], rows(3, 6), rows(3, 12, 7)
    ref = x.clone()
    ref[:, 3:] = rows(3, 3, 5)
    near = gate_rule_of_reference(block, x + 1e-6, ref, m[:, None])
    close(gate_rule_of_reference(block, x, ref, m[:, None]), near, atol=1e-4)  # the limit of the quotient
    assert near.abs().max() > 0.1


@pytest.mark.parametrize(("soft_and", "connect"), VARIANTS)
def test_any_reference_and_several(soft_and, connect):
    net, x = network(soft_and=soft_and, connect=connect, initial_children=3), rows(10, 6)
    refs = rows(3, 6, 4)
    refs[1, :2] = 0.0
    values = deep_shap(net, x, baseline=refs)
    close(values.sum(1), (net(x) - net(refs).mean(0)).detach(), atol=1e-12)
    close(values, np.mean([deep_shap(net, x, baseline=r) for r in refs], 0), atol=1e-14)
    assert np.array_equal(deep_shap(net, x, baseline=net.baseline), deep_shap(net, x))
    nearly = deep_shap(net, x, baseline=net.baseline + 1e-200)  # not the closed form
    close(nearly, deep_shap(net, x), atol=1e-12)
    x[:, 0] = refs[0, 0]  # a column at its reference, where the derivative is used
    assert not deep_shap(net, x, baseline=refs[0])[:, 0].any()


def test_choice_of_output_and_players():
    net, x = network(k=3), rows(5, 6)
    values = deep_shap(net, x)
    close(deep_shap(net, x, output=2), values[:, :, 2], atol=1e-15)
    labels = np.array([0, 2, 1, 0, 2])
    close(deep_shap(net, x, output=labels), values[np.arange(5), :, labels], atol=1e-15)
    assert deep_shap(network(k=1), x).shape == (5, 6)
    assert deep_shap(net, x[:0]).shape == (0, 6, 3)
    grouped = network(k=3, columns=[1, 0, 1, 2, 3, 2])
    columns = deep_shap(network(k=3), x)
    close(deep_shap(grouped, x)[:, 1], columns[:, 0] + columns[:, 2], atol=1e-15)
    assert deep_shap(grouped, x.numpy()).shape == (5, 4, 3)


def test_pieces_of_rows_change_nothing(monkeypatch):
    net, x = network(), rows(7, 6)
    whole = deep_shap(net, x)
    monkeypatch.setattr(deep, "CHUNK", 50)
    close(deep_shap(net, x), whole, atol=1e-14)


def test_a_row_at_the_baseline_and_dead_children():
    net, x = network(baseline=np.arange(6.0)), rows(4, 6)
    x[0] = torch.arange(6.0)
    x[1, :3] = torch.arange(3.0)
    values = deep_shap(net, x)
    assert not values[0].any()
    assert np.isfinite(values).all()
    close(values.sum(1), gains(net, x), atol=1e-12)


def test_float32():
    net, x = network(dtype=torch.float32), rows(20, 6).float()
    values = deep_shap(net, x)
    assert values.dtype == np.float32
    close(values.sum(1), gains(net, x), atol=1e-5)


def test_a_linear_model():
    pytest.importorskip("captum")
    model, x = nn.Sequential(nn.utils.skip_init(nn.Linear, 4, 2, dtype=torch.float64)).eval(), rows(3, 4)
    weight = rows(2, 4, 8)
    with torch.no_grad():
        model[0].weight.copy_(weight)
        model[0].bias.fill_(3.0)
    expected = (weight.T * x[:, :, None]).numpy()
    close(deep_shap(model, x), expected, atol=1e-14)
    ref = rows(1, 4, 3)
    close(deep_shap(model, x, baseline=ref), (weight.T * (x - ref)[:, :, None]).numpy(), atol=1e-14)


def test_a_plain_network_of_one_hidden_layer():
    """By hand: the sum over hidden units of readout * rescale quotient * weight * x."""
    pytest.importorskip("captum")
    model, x = plain(4, 7, 2), rows(5, 4)
    first, last = model[0], model[2]
    h, h_ref = first(x), first(torch.zeros_like(x))
    quotient = (h.relu() - h_ref.relu()) / (h - h_ref)
    expected = torch.einsum("ku,bu,ui,bi->bik", last.weight, quotient, first.weight, x).detach().numpy()
    close(deep_shap(model, x), expected, atol=1e-12)


def test_a_plain_network_is_captums_and_shaps():
    attr = pytest.importorskip("captum.attr")
    model, x, refs = plain(4, 7, 2), rows(5, 4), rows(3, 4, 2)
    values, zero = deep_shap(model, x), torch.zeros(1, 4, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for output in range(2):
            found, delta = attr.DeepLift(model, multiply_by_inputs=True, eps=1e-10).attribute(
                x, zero, output, return_convergence_delta=True
            )
            close(values[:, :, output], found.detach(), atol=1e-12)
            close(delta.detach(), 0, atol=1e-12)
        several = attr.DeepLiftShap(model).attribute(x, refs, target=1).detach()
        with pytest.raises(AssertionError):  # more than one reference row
            attr.DeepLiftShap(model).attribute(x, refs[:1], target=1)
    close(deep_shap(model, x, baseline=refs, output=1), several, atol=1e-12)
    shap = pytest.importorskip("shap")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = shap.DeepExplainer(model, zero).shap_values(x, check_additivity=True)
    assert found.shape == (5, 4, 2)
    close(values, found, atol=1e-12)


def test_plain_networks_of_every_shape():
    pytest.importorskip("captum")
    model, x = plain(4, 6, 6, 1, activation=nn.Tanh), rows(5, 4)
    values, truth = deep_shap(model, x), (model(x) - model(torch.zeros_like(x))).detach().numpy()
    close(values.sum(1), truth[:, 0], atol=1e-12)
    flat = nn.Sequential(*model, nn.Flatten(0)).eval()
    close(deep_shap(flat, x), values, atol=1e-12)
    image = nn.Sequential(nn.Flatten(), *plain(4, 6, 3)).eval()
    before = vars(image).copy()
    assert deep_shap(image, x.view(5, 1, 2, 2)).shape == (5, 1, 2, 2, 3)
    assert vars(image) == before  # no hook is left behind
    assert x.requires_grad is False


def test_an_operation_without_a_rule_is_noticed():
    pytest.importorskip("captum")
    with pytest.warns(UserWarning, match="DeepLift values must add up to the output, however: they are off by up to"):
        deep_shap(plain(4, 6, 1, activation=nn.GELU), rows(5, 4))


@pytest.mark.parametrize("connect", ["previous", "all"])
def test_captum_as_it_is(connect):
    pytest.importorskip("captum")
    net, x = network(connect=connect, baseline=rows(1, 6, 3)[0]), rows(20, 6)
    values, gap = deep_shap_as_is(net, x)
    one = x.clone().requires_grad_()
    for output in range(2):
        (gradient,) = torch.autograd.grad(net(one)[:, output].sum(), one)
        close(values[:, :, output], gradient * (x - net.baseline), atol=1e-13)
    close(gap, values.sum(1) - gains(net, x), atol=1e-13)
    close(deep.Hooked(net)(x).detach(), net(x).detach(), atol=1e-14)
    hooked = deep_shap_as_is(net, x, hooked=True, output=1)
    assert hooked.values.shape == (20, 6)
    close(hooked.gap, hooked.values.sum(1) - gains(net, x)[:, 1], atol=1e-13)
    for broken in (np.abs(gap), np.abs(hooked.gap)):
        assert broken.mean() > 0.01
    assert np.abs(hooked.gap).mean() > np.abs(gap[:, 1]).mean()


def test_shap_as_it_is_answers_zero():
    """It reads the multipliers on the reference half of the batch, where every gate is zero."""
    shap = pytest.importorskip("shap")
    net, x = network(), rows(4, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = shap.DeepExplainer(net, torch.zeros(1, 6, dtype=torch.float64))
        assert not explainer.shap_values(x, check_additivity=False).any()
        with pytest.raises(AssertionError):
            explainer.shap_values(x, check_additivity=True)


def image_network(**options) -> HarsanyiCNN:
    return HarsanyiCNN(2, 8, 3, channels=6, gamma=1.0, **options).double().eval()


@pytest.mark.parametrize("soft_and", ["geometric", "product"])
def test_images_add_up_and_are_not_exact(soft_and):
    net = image_network(n_blocks=2, soft_and=soft_and)
    x = torch.rand(3, 2, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values, exact = deep_shap(net, x), net.explain(x).values
    assert values.shape == exact.shape == (3, 16, 3)
    with torch.no_grad():
        np.testing.assert_allclose(values.sum(1), net(x).numpy(), rtol=0, atol=1e-12)
    assert np.abs(values - exact).max() > 1e-3 * np.abs(exact).max()
    np.testing.assert_array_equal(deep_shap(net, x, output=[2, 0, 1]), values[np.arange(3), :, [2, 0, 1]])


def test_image_units_of_one_cell_are_exact():
    net = image_network(n_blocks=3)
    with torch.no_grad():
        for block in net.blocks:
            block.tau.fill_(-1)
            block.tau[..., 4] = 1
    x = torch.rand(2, 2, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    np.testing.assert_allclose(deep_shap(net, x), net.explain(x).values, rtol=0, atol=1e-12)


def test_image_rules_are_those_of_tables():
    """One line of cells with one block is a table whose columns are the cells."""
    net = HarsanyiCNN(1, (1, 3), 2, channels=1, n_blocks=1, gamma=1.0, stem=nn.Identity(), rank=None).double().eval()
    with torch.no_grad():
        net.blocks[0].tau.fill_(1.0)
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.3, -0.2]], dtype=torch.float64)
    table = HarsanyiMLP(3, 2, n_blocks=1, width=3, gamma=1.0, dtype=torch.float64, seed=0)
    children = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.bool)
    with torch.no_grad():
        taps = net.blocks[0].weight.view(9)[3:6]
        for cell in range(3):
            for column in range(3):
                table.blocks[0].tau[cell, column] = 1.0 if children[cell, column] else -1.0
                if children[cell, column]:
                    table.blocks[0].weight[cell, column] = taps[column - cell + 1]
        table.readouts[0].copy_(net.readout_weights()[0])
    np.testing.assert_allclose(deep_shap(net, x.view(2, 1, 1, 3)), deep_shap(table, x), rtol=0, atol=1e-12)


def test_image_errors():
    x = torch.rand(1, 2, 8, 8, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"model must have gate='activation', .*, however: gate='presence'"):
        deep_shap(HarsanyiCNN(2, 8, 3, gate="presence").double().eval(), x)
    with pytest.raises(ValueError, match=r"baseline must be None for a HarsanyiCNN"):
        deep_shap(image_network(n_blocks=1), x, baseline=x[0])


def test_errors():
    x = rows(3, 6)
    wanted = "model must be a HarsanyiMLP with gate='activation' or a plain torch network, however: "
    presence = HarsanyiMLP(6, 1, gate="presence", dtype=torch.float64).eval()
    with pytest.raises(ValueError, match=wanted + "HarsanyiMLP with the presence gate"):
        deep_shap(presence, x)
    with pytest.raises(ValueError, match="with the presence gate"):
        deep_shap_as_is(presence, x)
    with pytest.raises(ValueError, match=wanted + "HarsanyiClassifier"):
        deep_shap(HarsanyiClassifier(), x)
    for wrong in (2, -1, [0, 1], 0.5, True):
        with pytest.raises(ValueError, match="output must be one or 3 numbers from 0 to 1, however: output="):
            deep_shap(network(), x, output=wrong)
    for wrong in (torch.zeros(5), torch.zeros(0, 6)):
        with pytest.raises(ValueError, match=r"baseline must have shape \(6,\) or \(references, 6\), however: "):
            deep_shap(network(), x, baseline=wrong)
    with pytest.raises(ValueError, match="model must be in evaluation mode, however: it is in training mode"):
        deep_shap(plain(6, 4, 1).train(), x)
    with pytest.raises(ValueError, match="baseline must hold rows like those of x, however: "):
        deep_shap(plain(6, 4, 1), x, baseline=torch.zeros(5))


def test_without_captum(monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    x = rows(3, 6)
    assert deep_shap(network(), x).shape == (3, 6, 2)  # our own rules need no package
    for call in (lambda: deep_shap(plain(6, 4, 1), x), lambda: deep_shap_as_is(network(), x)):
        with pytest.raises(ImportError, match=r"pip install 'harsanyinet\[captum\]'"):
            call()
