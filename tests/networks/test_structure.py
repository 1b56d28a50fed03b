"""Receptive fields as they follow from children; from units to values: sparse, silent and differentiable ways."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from dense_networks import KINDS, build, every_kind, rows

from harsanyinet import HarsanyiMLP
from harsanyinet.games import brute_force_shapley
from harsanyinet.networks.structure import Structure, receptive_fields


@every_kind
def test_structure_follows_the_children(kind):
    """The receptive fields are kept, and must not outlive the children that they came from."""
    net = build(kind)
    before = net.explain(rows()).coalitions
    assert net.structure() is net.structure()
    with torch.no_grad():
        net.blocks[0].tau.data[:, 0] = -1.0  # even behind autograd's back
    after = net.explain(rows())
    assert before[:, 0].any()
    assert not after.coalitions[:, 0].any()
    assert np.all(after.values[:, 0] == 0)


def test_fields_are_unions_of_the_childrens_fields():
    """Three columns of two players, a unit without children, and a second block over either one block or both."""
    players = torch.tensor([[1, 0], [1, 0], [0, 1]], dtype=torch.bool)
    first = torch.tensor([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=torch.bool)
    second = torch.tensor([[1, 1, 0], [0, 0, 1]], dtype=torch.bool)
    third = torch.tensor([[1, 0]], dtype=torch.bool)
    fields = receptive_fields([first, second, third], players)
    assert [field.int().tolist() for field in fields] == [[[1, 0], [0, 1], [0, 0]], [[1, 1], [0, 0]], [[1, 1]]]
    over_both = torch.tensor([[0, 1, 0, 0, 1]], dtype=torch.bool)
    assert receptive_fields([first, second, over_both], players, "all")[2].int().tolist() == [[0, 1]]
    structure = Structure((first, second), tuple(fields[:2]))
    assert structure.shares(1, torch.float64).tolist() == [[0.5, 0.0], [0.5, 0.0]]
    coalitions, position = structure.united
    assert sorted(map(tuple, coalitions.astype(int).tolist())) == [(0, 1), (1, 0), (1, 1)]
    assert (position < 0).tolist() == [False, False, True, False, True]


@pytest.mark.parametrize("kind", ["presence", "presence, learned"])
@pytest.mark.parametrize("channels", [1, 2])
def test_few_among_many_players_take_the_sparse_path(kind, channels):
    """Beyond enumeration: sub-games of 10 players against brute force, and the dense path as a second opinion."""
    net = HarsanyiMLP(200, 3, width=300, n_blocks=2, seed=1, **(KINDS[kind] | {"channels": channels})).double().eval()
    x = rows(200, 3, dtype=torch.float64)
    assert all(shares is not None for shares in net.structure().sparse)
    ex = net.explain(x)
    np.testing.assert_allclose(ex.values, net.shapley_values(x).detach().numpy(), atol=1e-13)
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):  # with the shares that it keeps
        np.testing.assert_array_equal(again.explain(x).values, ex.values)
    players = list(range(0, 200, 20))

    def subgame(masks):
        whole = np.ones((len(masks), 200), dtype=bool)
        whole[:, players] = masks
        return net.game(x, 2)(whole)

    np.testing.assert_allclose(ex.restrict(players).values[2], brute_force_shapley(subgame, 10), atol=1e-12)


def test_silent_blocks_are_skipped_and_nothing_is_lost():
    """Deep units that act on few rows: skipped rows and sparse sums against the same network with gradients on."""
    net = HarsanyiMLP(12, 2, width=40, n_blocks=3, initial_children=3, seed=4).double().eval()
    x = torch.randn(3000, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        zs = net.units(x)
        out = net(x)
    density = [float((z != 0).double().mean()) for z in zs]
    assert 0 < density[2] < density[1] < 0.2 < density[0]
    assert (zs[1] != 0).any(2).sum(1).ge(3).double().mean() < 0.5  # the third block leaves most rows out
    for a, b in zip(zs, net.units(x), strict=True):
        torch.testing.assert_close(a, b.detach(), rtol=0, atol=1e-14)
    torch.testing.assert_close(out, net(x).detach(), rtol=0, atol=1e-14)
    np.testing.assert_allclose(net.explain(x).values, net.shapley_values(x).detach().numpy(), atol=1e-14)


@every_kind
def test_gradients_of_the_values(kind):
    """A loss on explanations: the gradient by autograd against finite differences of explain()."""
    net = build(kind, n=4, k=2).double()
    x = rows(4, 3, dtype=torch.float64)
    parameter = net.readouts[0] if kind == "presence" else net.blocks[0].weight
    net.shapley_values(x)[:, 1, 0].square().sum().backward()
    assert parameter.grad is not None
    index = tuple(int(i) for i in torch.unravel_index(parameter.grad.abs().argmax(), parameter.shape))
    step = 1e-6
    found = []
    for sign in (1, -1):
        with torch.no_grad():
            parameter[index] += sign * step
            found.append((net.explain(x).values[:, 1, 0] ** 2).sum())
            parameter[index] -= sign * step
    assert parameter.grad[index].item() == pytest.approx((found[0] - found[1]) / (2 * step), rel=1e-5)
    assert abs(parameter.grad[index].item()) > 1e-6
