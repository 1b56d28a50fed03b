"""The paper's unit and its AND as plain products, with a tensor of rows x units x children."""

from __future__ import annotations

import torch

from harsanyinet.networks.gates import select_children


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
