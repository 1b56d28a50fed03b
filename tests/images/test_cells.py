"""Receptive fields on maps, and the shares of those that are rectangles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from image_networks import images, network

from harsanyinet.images.cells import sides_of, sizes_of
from harsanyinet.networks.structure import by_matrices, unit_contributions


def test_a_receptive_field_holds_every_cell_that_a_unit_notices():
    net = network(gate="presence", groups=4, n_blocks=3)
    x = images(net, 1)
    fields = net.receptive_fields()
    with torch.no_grad():
        full = net.units(x)
        for cell in range(net.n_players):
            present = torch.ones(net.n_players, dtype=torch.bool)
            present[cell] = False
            for z, without, field in zip(full, net.units(x, present), fields, strict=True):
                changed = ((z - without).abs() > 1e-12).any(2)[0]  # fast convolutions mix neighbours, and undo it
                assert not bool((changed & ~field[:, cell]).any())  # R1
                assert bool((without[0, field[:, cell]] == 0).all())  # R2
    corner, middle = fields[0].view(4, 4, 4, 16)[0, 0, 0], fields[0].view(4, 4, 4, 16)[1, 1, 0]
    assert (int(corner.sum()), int(middle.sum())) == (4, 9)  # the first group looks everywhere


@pytest.mark.parametrize("strides", [[1, 1, 1], [1, 2, 1]])
def test_fields_are_rectangles_unless_children_are_learned_otherwise(strides):
    net = network(gate="presence", groups=4, n_blocks=3, strides=strides, learn_children=True, image_size=(10, 16))
    x = images(net)
    readouts = [readout.detach() for readout in net.readout_weights()]
    with torch.no_grad():
        units = [unit_contributions(z, readout) for z, readout in zip(net.units(x), readouts, strict=True)]
        along_sides, at_once = net.spreader(readouts), by_matrices(readouts, net.structure())

    def are_rectangles():
        sizes = sizes_of(net.cells, strides)
        return [
            sides_of(field, net.cells, size) is not None
            for field, size in zip(net.receptive_fields(), sizes, strict=True)
        ]

    assert all(are_rectangles())
    torch.testing.assert_close(along_sides(units), at_once(units), rtol=0, atol=1e-13)
    with torch.no_grad():
        net.blocks[0].tau[3] = torch.tensor([1.0, -1, -1, -1, 1, -1, -1, -1, 1])  # a diagonal
    values = net.explain(x).values
    assert not are_rectangles()[0]
    np.testing.assert_allclose(
        values.sum(1), net(x).detach().numpy() - net.base.detach().numpy(), rtol=0, atol=1e-12 * np.abs(values).max()
    )
