from __future__ import annotations

import math

import pytest
import torch

from harsanyinet import HarsanyiMLP


@pytest.mark.parametrize("gate", ["activation", "presence"])
@pytest.mark.parametrize("connect", ["previous", "all"])
def test_no_tensor_of_rows_by_units_by_children(gate, connect):
    options = {"learn_children": True, "channels": 1} if gate == "presence" else {}
    net = HarsanyiMLP(20, 1, width=30, n_blocks=3, gate=gate, connect=connect, **options)
    x = torch.randn(500, 20)
    present = torch.rand(500, 20) < 0.9
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as watch:
        net(x, present).sum().backward()
        net.shapley_values(x).sum().backward()
        net.eval().explain(x)
    largest = max(math.prod(shape) for event in watch.events() for shape in event.input_shapes if shape)
    assert 500 * 30 <= largest <= 500 * 30 * 2  # the units of two blocks side by side at most
