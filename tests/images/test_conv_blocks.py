from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from harsanyinet.images import conv_blocks as image_blocks
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import LocationBlock, masked_convolution, neighbours, pixels_per_cell
from harsanyinet.networks.gates import select_children


def test_what_a_cell_sees():
    assert HarsanyiCNN(3, 32, 10, stem="patch", patch=4).pixels_per_cell == (4, 4)
    assert HarsanyiCNN(3, 32, 10, stem="deep").pixels_per_cell == (8, 8)
    assert HarsanyiCNN(3, 32, 10, stem="residual").pixels_per_cell == (16, 16)
    assert pixels_per_cell(nn.Conv2d(1, 1, (3, 5), padding=(1, 2)), 1, (16, 16)) == (3, 5)
    assert pixels_per_cell(nn.Sequential(nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, 3)), 1, (16, 16)) == (5, 5)


def plain_masked(z, weight, sigma):
    """By unfolding, with autograd through everything."""
    near = F.unfold(z.permute(0, 3, 1, 2), 3, padding=1).view(len(z), z.shape[3], 9, *z.shape[1:3])
    return torch.einsum("bckhw,hwk,okc->bhwo", near, sigma, weight.view(len(weight), 9, -1))


@pytest.mark.parametrize("at_a_time", [1, 2, 3])
@pytest.mark.parametrize("w", [1, 5])
def test_a_masked_convolution_and_its_gradient(at_a_time, w, monkeypatch):
    monkeypatch.setattr(image_blocks, "GATHERED", at_a_time * 4 * w * 2 * 9)
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


def test_a_masked_convolution_in_half_precision():
    g = torch.Generator().manual_seed(0)
    z = torch.randn(3, 4, 5, 8, generator=g, requires_grad=True)
    weight = torch.randn(6, 72, generator=g, requires_grad=True)
    sigma = (torch.rand(4, 5, 9, generator=g) < 0.5).float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        mine = masked_convolution(z, weight, sigma)
    theirs = plain_masked(z, weight, sigma)
    assert mine.dtype == torch.bfloat16
    inputs, grad = [z, weight, sigma], torch.randn(theirs.shape, generator=g)
    ours = torch.autograd.grad(mine, inputs, grad.bfloat16())
    pairs = zip(ours, torch.autograd.grad(theirs, inputs, grad), strict=True)
    for a, b in [(mine.detach().float(), theirs.detach()), *pairs]:
        assert a.dtype == torch.float32
        assert float((a - b).norm() / b.norm()) < 0.01  # bfloat16 has eight bits


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
