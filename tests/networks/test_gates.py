from __future__ import annotations

import pytest
import torch
from gate_oracle import plain_and, random_case, to_the_letter

from harsanyinet.networks.blocks import ActivationBlock, State
from harsanyinet.networks.gates import all_present, and_gate_, choose, paper_unit, select_children


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
    mine, theirs = all_present(*leaves), plain_and(*leaves, "product")
    assert torch.equal(mine, theirs)
    assert torch.equal(all_present(*(leaf.detach() for leaf in leaves)), mine)
    of_mine = torch.autograd.grad(mine, leaves, grad)
    for a, b in zip(of_mine, torch.autograd.grad(theirs, leaves, grad), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
        assert bool((a != 0).any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode", ["geometric", "product"])
def test_tiny_children_neither_overflow_nor_revive_a_dead_gate(dtype, mode):
    tiny = torch.finfo(dtype).tiny
    z = torch.tensor([[tiny / 4, 1.0], [tiny, tiny], [0.0, tiny], [0.0, 1.0]], dtype=dtype, requires_grad=True)
    block = ActivationBlock(torch.ones(3, 2), beta=1.0, gamma=1.0, mode=mode, generator=torch.Generator())
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
