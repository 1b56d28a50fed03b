from __future__ import annotations

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harsanyinet import HarsanyiMLP
from harsanyinet.networks.blocks import (
    ActivationBlock,
    State,
    all_alive,
    and_gate_,
    choose,
    first_children,
    first_sets,
    paper_unit,
    select_children,
)


def plain_and(t: torch.Tensor, sigma: torch.Tensor, mode: str) -> torch.Tensor:
    """The AND as a plain product, with the (B, U, D) tensor."""
    product = (sigma * t[:, None] + (1 - sigma)).prod(2)
    return product ** (1 / sigma.sum(1).clamp_min(1)) if mode == "geometric" else product


def random_case(seed: int, dead: float, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    t = torch.rand(40, 7, generator=g, dtype=dtype)
    t = torch.where(torch.rand(40, 7, generator=g) < dead, 0.0, t)
    sigma = (torch.rand(9, 7, generator=g) < 0.5).to(dtype)
    sigma[0], sigma[1], sigma[2] = 0.0, 1.0, torch.eye(7, dtype=dtype)[3]  # none, all, one child
    return t, sigma, torch.randn(40, 9, generator=g, dtype=dtype)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["geometric", "product"])
@pytest.mark.parametrize("dead", [0.0, 0.2])
def test_the_gate_equals_the_plain_product(seed, mode, dead):
    t, sigma, _ = random_case(seed, dead)
    gate = and_gate_(t.clone(), sigma, mode)
    expected = plain_and(t, sigma, mode)
    torch.testing.assert_close(gate, expected, rtol=1e-13, atol=0)
    assert torch.equal(gate == 0, expected == 0)  # a dead child closes the gate exactly
    if dead:
        assert bool((gate == 0).any())


@pytest.mark.parametrize("seed", range(3))
def test_presence_bits_and_their_gradient_are_those_of_the_plain_product(seed):
    t, sigma, grad = random_case(seed, 0.2)
    leaves = [(t > 0).double().requires_grad_(), sigma.clone().requires_grad_()]
    mine, theirs = all_alive(*leaves), plain_and(*leaves, "product")
    assert torch.equal(mine, theirs)
    assert torch.equal(all_alive(*(leaf.detach() for leaf in leaves)), mine)
    of_mine = torch.autograd.grad(mine, leaves, grad)
    for a, b in zip(of_mine, torch.autograd.grad(theirs, leaves, grad), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
        assert bool((a != 0).any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode", ["geometric", "product"])
def test_tiny_children_neither_overflow_nor_revive_a_dead_gate(dtype, mode):
    tiny = torch.finfo(dtype).tiny
    z = torch.tensor([[tiny / 4, 1.0], [tiny, tiny], [0.0, tiny], [0.0, 1.0]], dtype=dtype, requires_grad=True)
    block = ActivationBlock(2, 3, beta=1.0, gamma=1.0, mode=mode, tau=torch.ones(3, 2), generator=torch.Generator())
    with torch.no_grad():
        block.weight.fill_(1.0)
        block.tau[2, 0] = -1.0
    block = block.to(dtype)
    units = block(State(z)).values[:, :, 0]
    assert bool((units[2:, :2] == 0).all())
    assert bool(units.isfinite().all())
    for gradient in torch.autograd.grad(units.sum(), [z, block.weight, block.tau]):
        assert bool(torch.isfinite(gradient).all())


def test_straight_through_gradient():
    tau = torch.linspace(-3, 3, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
    sigma = select_children(tau, beta=7.0)
    assert torch.equal(sigma, (tau > 0).double())
    grad = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    (found,) = torch.autograd.grad(sigma, tau, grad)
    expected = 7.0 * torch.exp(-tau) / (1 + torch.exp(-tau)) ** 2
    torch.testing.assert_close(found, grad * expected.detach())
    assert not select_children(tau.detach(), 7.0).requires_grad


def to_the_letter(z, weight, tau, beta, gamma, mode):
    """The paper's units as its formula is written: Sigma before and inside the tanh, a product over all candidates.

    The root of a dead product has no derivative, and its unit passes nothing on (ReLU'(0) = 0): a constant.
    """
    sigma = select_children(tau, beta)
    product = (sigma * torch.tanh(gamma * sigma * z.abs()[:, None]) + (1 - sigma)).prod(2)
    if mode == "geometric":
        dead = product == 0
        product = torch.where(dead, 0.0, torch.where(dead, 1.0, product) ** (1 / sigma.sum(1).clamp_min(1)))
    return (z @ (weight * sigma).T * product).relu()


@pytest.mark.parametrize("mode", ["geometric", "product"])
@pytest.mark.parametrize("dead", [0.0, 0.2, 0.7, 1.0])
@pytest.mark.parametrize(("deep", "told"), [(False, False), (True, False), (True, True)])
def test_the_gradient_of_a_block_equals_autograd_through_the_formula(mode, dead, deep, told):
    t, sigma, grad = random_case(0, dead)
    g = torch.Generator().manual_seed(1)
    tau = (sigma - 0.5) * torch.rand(sigma.shape, generator=g, dtype=torch.float64)
    block = ActivationBlock(7, 9, beta=3.0, gamma=2.0, mode=mode, tau=tau, generator=g).double()
    z = (0.4 * t.tan()).requires_grad_(deep)
    with torch.no_grad():
        z[::2] *= -1
    known = z.detach().abs().sum(1).nonzero()[:, 0] if told else None
    after = block(State(z, rows=known))
    found = after.values[:, :, 0]
    if deep:
        assert set(found.detach().sum(1).nonzero()[:, 0].tolist()) <= set(after.rows.tolist())
    expected = to_the_letter(z, block.weight, block.tau, 3.0, 2.0, mode)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)
    with torch.no_grad():
        assert torch.equal(block(State(z)).values[:, :, 0], found)  # inference is the same
    leaves = [block.weight, block.tau, *([z] if deep else [])]
    mine = torch.autograd.grad(found, leaves, grad, retain_graph=True)
    for a, b in zip(mine, torch.autograd.grad(expected, leaves, grad), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
        assert bool((a != 0).any()) == (dead < 1)


@pytest.mark.parametrize("mode", ["geometric", "product"])
def test_the_gradient_of_tau_by_pencil(mode):
    """Two units over two candidates, gamma 1, beta 4, tau +-1: d Sigma / d tau = 4 e / (1 + e)^2 everywhere.

    Unit 0 has candidate 0 as its only child, h = 2 z0 t0; unit 1 has both, h = (z0 + 3 z1) (t0 t1)^e.
    """
    z0, z1 = 0.5, 2.0
    t0, t1 = math.tanh(z0), math.tanh(z1)
    straight = 4 * math.e / (1 + math.e) ** 2
    block = ActivationBlock(2, 2, beta=4.0, gamma=1.0, mode=mode, tau=torch.ones(2, 2), generator=torch.Generator())
    with torch.no_grad():
        block.tau[0, 1] = -1.0
        block.weight.copy_(torch.tensor([[2.0, 5.0], [1.0, 3.0]]))
    block = block.double()
    units = block(State(torch.tensor([[z0, z1]], dtype=torch.float64))).values[0, :, 0]
    units.sum().backward()
    e = 0.5 if mode == "geometric" else 1.0
    root = 1.0 if mode == "geometric" else 0.0  # whether |S_u| is in the exponent
    d0, d1 = (t + z * (1 - t * t) - 1 for t, z in ((t0, z0), (t1, z1)))  # df/dSigma of a child
    total, gate = z0 + 3 * z1, (t0 * t1) ** e
    expected = [
        # the sum: A_uj z_j times the gate; the factor: df/dSigma of the only child over itself, -1 of the other;
        # the root 1/|S_u|: -log(product) / |S_u|^2 times the gate
        [
            2 * z0 * t0 + 2 * z0 * (d0 - root * t0 * math.log(t0)),
            5 * z1 * t0 + 2 * z0 * t0 * (-1 - root * math.log(t0)),
        ],
        [
            z * a * gate + total * gate * (e * d / t - root * math.log(t0 * t1) / 4)
            for z, a, d, t in ((z0, 1, d0, t0), (z1, 3, d1, t1))
        ],
    ]
    assert units.tolist() == pytest.approx([2 * z0 * t0, total * gate], rel=1e-14)
    torch.testing.assert_close(
        block.tau.grad, straight * torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0
    )


def test_one_function_computes_the_unit_for_training_inference_and_hooks():
    t, sigma, _ = random_case(0, 0.2)
    weight = torch.randn(9, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    children = choose(weight, sigma)
    kept = paper_unit(t, children, 2.0, "geometric")
    with torch.no_grad():
        assert torch.equal(paper_unit(t, children, 2.0, "geometric", keep=False).units, kept.units)
    followed = t.clone().requires_grad_()
    hooked = paper_unit(followed, children, 2.0, "geometric", tanh=torch.tanh, relu=torch.relu).units
    assert torch.equal(hooked.detach(), kept.units)
    (mine,) = torch.autograd.grad(hooked.sum(), followed)
    expected = to_the_letter(followed, weight, sigma - 0.5, 1.0, 2.0, "geometric")
    torch.testing.assert_close(mine, torch.autograd.grad(expected.sum(), followed)[0], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mode", ["geometric", "product"])
@pytest.mark.parametrize("children", [1, 3])
@pytest.mark.parametrize("n_rows", [0, 1, 60])
def test_a_training_step_in_one_piece_equals_one_block_by_block(mode, children, n_rows):
    g = torch.Generator().manual_seed(2)
    options = {"soft_and": mode, "initial_children": children, "output_bias": True, "dtype": torch.float64}
    net = HarsanyiMLP(5, 3, width=12, gamma=3.0, **options)
    x = torch.randn(n_rows, 5, generator=g, dtype=torch.float64, requires_grad=True)
    present = torch.rand(n_rows, 5, generator=g) < 0.9
    grad = torch.randn(n_rows, 3, generator=g, dtype=torch.float64)
    leaves = [x, *net.parameters()]
    mine, units = net(x, present), net.units(x, present)
    torch.testing.assert_close(mine, net._read(units), rtol=1e-12, atol=1e-14)
    if n_rows == 60:
        assert [bool(z.any()) for z in units] == [True, True, children == 1]  # silent blocks too
    theirs = torch.autograd.grad(net._read(units), leaves, grad)
    for a, b in zip(torch.autograd.grad(mine, leaves, grad), theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
        a.mul_(2)  # an ordinary tensor, as whoever clips gradients expects


class LargestTensor(TorchDispatchMode):
    """Notes the largest tensor that any operation returns, forward and backward."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.largest = max([self.largest, *sizes])
        return out


@pytest.mark.parametrize("gate", ["activation", "presence"])
@pytest.mark.parametrize("connect", ["previous", "all"])
def test_no_tensor_of_rows_by_units_by_children(gate, connect):
    options = {"learn_children": True, "channels": 1} if gate == "presence" else {}
    net = HarsanyiMLP(20, 1, width=30, n_blocks=3, gate=gate, connect=connect, **options)
    x = torch.randn(500, 20)
    present = torch.rand(500, 20) < 0.9
    with LargestTensor() as watch:
        net(x, present).sum().backward()
        net.shapley_values(x).sum().backward()
        net.eval().explain(x)
    assert 500 * 30 <= watch.largest <= 500 * 30 * 2  # the units of two blocks side by side at most


def test_first_children_by_the_papers_and_the_authors_rule():
    g = torch.Generator().manual_seed(0)
    assert (first_children(50, 12, None, g) > 0).sum(1).tolist() == [10] * 50
    assert (first_children(50, 4, None, g) > 0).sum(1).tolist() == [4] * 50
    assert (first_children(50, 12, 0.1, g) > 0).sum(1).tolist() == [1] * 50
    assert (first_children(50, 100, 0.1, g) > 0).sum(1).tolist() == [10] * 50
    tau = first_children(2000, 10, 3, g)
    assert set(tau.unique().tolist()) == {-1.0, 1.0}
    share = (tau > 0).float().mean(0)
    assert bool(((share - 0.3).abs() < 0.05).all())  # every candidate is as likely; standard error 0.01


def test_first_sets_singles_first_then_even_random_sets():
    sets = first_sets(40, 6, (2, 3), torch.Generator().manual_seed(0))
    assert torch.equal(sets[:6], torch.eye(6, dtype=torch.bool))
    assert sets[6:].sum(1).tolist() == [2, 3] * 17
    counts = sets[6:].sum(0)
    assert int(counts.max() - counts.min()) <= 2
    few = first_sets(10, 100, (2, 3), torch.Generator().manual_seed(0))
    assert bool(few.any(0).all())  # fewer units than variables: still every variable is somewhere
    assert first_sets(3, 1, (2,), torch.Generator().manual_seed(0)).all()
