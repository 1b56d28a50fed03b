from __future__ import annotations

import math

import pytest
import torch
from gate_oracle import random_case, to_the_letter

from harsanyinet import HarsanyiMLP
from harsanyinet.networks.blocks import ActivationBlock, State


@pytest.mark.parametrize("mode", ["geometric", "product"])
@pytest.mark.parametrize("dead", [0.0, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("deep", [False, True])
def test_the_gradient_of_a_block_equals_autograd_through_the_formula(mode, dead, deep):
    t, sigma, grad = random_case(0, dead)
    g = torch.Generator().manual_seed(1)
    tau = (sigma - 0.5) * torch.rand(sigma.shape, generator=g, dtype=torch.float64)
    block = ActivationBlock(tau, beta=3.0, gamma=2.0, mode=mode, generator=g).double()
    z = (0.4 * t.tan()).requires_grad_(deep)
    with torch.no_grad():
        z[::2] *= -1
    found = block(State(z)).values[:, :, 0]
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
    block = ActivationBlock(torch.ones(2, 2), beta=4.0, gamma=1.0, mode=mode, generator=torch.Generator())
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
    torch.testing.assert_close(mine, net.read(units), rtol=1e-12, atol=1e-14)
    if n_rows == 60:
        assert [bool(z.any()) for z in units] == [True, True, children == 1]  # silent blocks too
    theirs = torch.autograd.grad(net.read(units), leaves, grad)
    for a, b in zip(torch.autograd.grad(mine, leaves, grad), theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
        a.mul_(2)  # an ordinary tensor, as whoever clips gradients expects
