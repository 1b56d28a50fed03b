"""Networks of every kind, small, whose deep blocks act; and rows for them."""

from __future__ import annotations

import pytest
import torch

from harsanyinet import HarsanyiMLP

KINDS = {
    "paper": {},
    "product, all blocks": {"soft_and": "product", "connect": "all", "initial_children": 0.3},
    "presence": {"gate": "presence"},
    "presence, all blocks": {"gate": "presence", "connect": "all", "channels": 3},
    "presence, learned": {"gate": "presence", "learn_children": True, "channels": 2, "connect": "all"},
}


every_kind = pytest.mark.parametrize("kind", KINDS)


def build(kind: str, n: int = 6, k: int = 2, seed: int = 0, **more) -> HarsanyiMLP:
    net = HarsanyiMLP(n, k, width=15, n_blocks=3, seed=seed, **(KINDS[kind] | more))
    if net.gate == "activation":
        with torch.no_grad():
            for block in net.blocks:
                block.weight.abs_()  # deeper blocks act
    return net.eval()


def rows(n: int = 6, b: int = 5, seed: int = 0, dtype=torch.float32) -> torch.Tensor:
    return torch.rand(b, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype) + 0.05
