"""Games with known answers for the sampling estimators, and the estimators by name."""

from __future__ import annotations

from math import comb

import numpy as np
import torch
from torch import nn

from harsanyinet.games import all_masks, zeta_transform
from harsanyinet.peers.estimates import (
    antithetic,
    draw_orders,
    kernel_shap,
    kernel_shap_paired,
    sampling,
    unbiased_kernel_shap,
    walk,
    walk_pairs,
)
from harsanyinet.peers.row_games import CountingGame


def unbiased_unpaired(game, n_players, budget, *, seed=0):
    return unbiased_kernel_shap(game, n_players, budget, seed=seed, paired=False)


METHODS = {
    "sampling": sampling,
    "antithetic": antithetic,
    "kernel_shap": kernel_shap,
    "kernel_shap_paired": kernel_shap_paired,
    "unbiased_kernel_shap": unbiased_kernel_shap,
    "unbiased_kernel_shap_unpaired": unbiased_unpaired,
}


KERNEL = ("kernel_shap", "kernel_shap_paired")


UNBIASED = ("unbiased_kernel_shap", "unbiased_kernel_shap_unpaired")


def of_table(table):
    """The game that reads its values from a table."""
    n = len(table).bit_length() - 1
    return lambda masks: table[masks @ (1 << np.arange(n))]


def random_game(n, seed=0, outputs=(), order=None):
    """Random dividends up to an order, about equally heavy at each size, and a value of the empty set."""
    rng = np.random.default_rng(seed)
    sizes = all_masks(n).sum(axis=1)
    scale = np.array([1.0 / np.sqrt(comb(n, s)) for s in range(n + 1)])[sizes]
    scale[(sizes > (n if order is None else order))] = 0
    dividends = rng.normal(size=(2**n, *outputs)) * scale.reshape(-1, *[1] * len(outputs))
    return of_table(zeta_transform(dividends) + 3.0)


def unanimity(members):
    return lambda masks: masks[:, members].all(axis=1).astype(float)


def additive(n, seed=0):
    weights = np.random.default_rng(seed).normal(size=n)
    return lambda masks: masks @ weights + 2.0, weights


def draws(method, game, n, samples, seed=0):
    """The single estimates that a method averages, (samples, n, K), by its own drawing."""
    counted, rng = CountingGame(game, n), np.random.default_rng(seed)
    if method == "sampling":
        return walk(counted, draw_orders(rng, samples, n))
    return walk_pairs(counted, draw_orders(rng, samples, n))


def interacting_net(n, seed=0):
    """A plain network in float64 with large weights, so that no order of interaction is negligible."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(n, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 3)).double().eval()
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(3)
    return net


def weighted_sums(game, n):
    """A and b over all coalitions, weighted by the kernel, and V(N)."""
    masks = all_masks(n)[1:-1]
    s = masks.sum(axis=1)
    pi = (n - 1) / (np.array([comb(n, k) for k in s]) * s * (n - s))
    pi = pi / pi.sum()
    values = game(masks).reshape(len(masks), -1)
    empty, full = (game(np.full((1, n), end)).reshape(-1) for end in (False, True))
    z = masks.astype(float)
    return (z * pi[:, None]).T @ z, (z * pi[:, None]).T @ (values - empty), full - empty
