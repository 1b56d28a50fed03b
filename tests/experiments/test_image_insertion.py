from __future__ import annotations

import numpy as np
import torch

from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet_experiments.image_insertion import gradient_map, insertion_masks


def test_cells_are_put_in_by_the_size_of_their_values():
    values = np.array([0.5, -1.0, 2.0, 0.0, 1.0])
    masks = insertion_masks(values, 5)
    assert [np.flatnonzero(mask).tolist() for mask in masks] == [
        [],
        [2],
        [2, 4],
        [0, 2, 4],
        [0, 2, 3, 4],
        [0, 1, 2, 3, 4],
    ]
    assert insertion_masks(np.zeros(7), 3).sum(1).tolist() == [0, 2, 5, 7]  # ties in the order of the cells


def test_the_gradient_map_adds_up_to_the_slope_along_z0():
    net = HarsanyiCNN(1, 8, 3, channels=4, n_blocks=2, gate="presence", seed=1).double().eval()
    x = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        z0, h = net.stem(x), 1e-6
        high, low = (net.read(net.units_of_map(z0 * scale))[0, 2] for scale in (1 + h, 1 - h))
    assert abs(gradient_map(net, x, 2).sum() - float(high - low) / (2 * h)) < 1e-7
