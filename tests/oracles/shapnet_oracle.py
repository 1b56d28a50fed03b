"""Layers of ShapNets by plain loops, and whole networks by brute force."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import torch

from harsanyinet.games import brute_force_shapley

OVERLAPPING = [(0,), (1, 2), (2, 1), (0, 1, 2, 3), (1, 3, 4, 5), (2, 3), (0, 4, 5), (5,)]


def rows(n_rows, n_features, seed=0, dtype=torch.float64):
    return torch.randn(n_rows, n_features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@torch.no_grad()
def truth(net, x):
    """Brute force over the whole network, (B, n, K)."""
    n = x.shape[1]
    games = [lambda m, r=row: net(r.expand(len(m), n), present=torch.from_numpy(m)) for row in x]
    return torch.tensor(np.stack([brute_force_shapley(game, n, progress=False) for game in games]), dtype=x.dtype)


def inner(group, module, inputs):
    """One inner perceptron on one mixture, inputs (s, C), as written in a textbook."""
    h = inputs.flatten()
    for step, weight in enumerate(group.weights):
        matrix = weight[module].reshape(len(h), -1)
        h = (h if step == 0 else h.clamp_min(0)) @ matrix
        if step < len(group.biases):
            h = h + group.biases[step].view(len(weight), -1)[module]
    return h


def loop_layer(layer, values, reference):
    """One row through a layer: (n, C) -> (n, C') and (C',), by the mean over all orders of joining."""
    out, constants = torch.zeros(len(values), layer.d_out, dtype=values.dtype), 0
    for group in layer.groups:
        for module, members in enumerate(group.sets.tolist()):
            size = len(members)

            def play(present, group=group, module=module, members=members):
                mixture = [values[i] if present[p] else reference[i] for p, i in enumerate(members)]
                return inner(group, module, torch.stack(mixture))

            constants = constants + play([False] * size)
            orders = list(permutations(range(size)))
            for order in orders:
                present = [False] * size
                for position in order:
                    before = play(present)
                    present[position] = True
                    out[members[position]] += (play(present) - before) / len(orders)
    return out, constants
