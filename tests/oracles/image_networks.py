"""Convolutional networks of every kind, small enough for brute force; and images for them."""

from __future__ import annotations

import torch
from torch import nn

from harsanyinet.images.cnn import HarsanyiCNN

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
    "presence, residual stem": {"gate": "presence", "stem": "residual", "groups": 2},
    "paper, residual stem": {"gamma": 1.0, "stem": "residual"},
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
