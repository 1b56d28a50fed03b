"""Receptive fields, as they follow from children."""

from __future__ import annotations

import numpy as np
import torch
from dense_networks import build, every_kind, rows

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
