"""Settings of a network: sentences about wrong ones, numbers of numpy, one for each block."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harsanyinet import HarsanyiMLP, load, save


def test_numpy_numbers_as_settings(tmp_path):
    net = HarsanyiMLP(
        np.int64(4), 1, gate="presence", width=np.int64(9), set_sizes=np.array([2, 3]), gamma=np.float32(2)
    )
    save(net, tmp_path / "net.hnet")
    assert load(tmp_path / "net.hnet").config == net.config
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        HarsanyiMLP(4, 1, width=5.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": float("inf")}, "gamma must be positive and finite, however: gamma=inf"),
        ({"gamma": 0.0}, r"gamma must be positive and finite, however: gamma=0\.0"),
        ({"beta": -1.0}, r"beta must be positive and finite, however: beta=-1\.0"),
        ({"n_features": 0}, "n_features must be at least 1, however: n_features=0"),
        ({"n_outputs": 0}, "n_outputs must be at least 1"),
        ({"n_blocks": 0}, "n_blocks must be at least 1"),
        ({"width": 0}, "width must be at least 1"),
        ({"gate": "or"}, "gate must be one of 'activation', 'presence', however: gate='or'"),
        ({"connect": "none"}, "connect must be one of 'previous', 'all'"),
        ({"soft_and": "sum"}, "soft_and must be one of"),
        ({"gate": "presence", "activation": "sigmoid"}, "activation must be one of 'relu', 'gelu', 'silu', 'tanh'"),
        ({"gate": "presence", "dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
        ({"gate": "presence", "channels": 0}, "channels must be at least 1"),
        ({"gate": "presence", "set_sizes": ()}, "set_sizes must be positive sizes"),
        ({"gate": "presence", "initial_children": 2}, "initial_children belongs to the activation gate"),
        ({"gate": "presence", "sets": []}, "sets must hold at least one set"),
        ({"gate": "presence", "sets": [[0, 9]]}, "sets must hold players 0 to 3, however: 9 in set 0"),
        ({"channels": 4}, "belong to the presence gate, however: gate='activation'"),
        ({"initial_children": 5}, "between 0 and the 4 candidates of a block, however: initial_children=5"),
        ({"initial_children": [1, 2]}, r"one number for each of the 3 blocks, however: \[1, 2\]"),
        ({"deep_weights": "he"}, "deep_weights must be one of 'xavier', 'positive', however: deep_weights='he'"),
        ({"initial_children": 1.5}, r"share must lie in \(0, 1\]"),
        ({"columns": [0, 1]}, "columns must name a player for each of 4 columns, however: 2 given"),
        ({"columns": [0, 1, 3, 3]}, "without a gap"),
        ({"baseline": [0.0, 1.0]}, "baseline must hold 4 finite numbers"),
        ({"baseline": [0.0, 1.0, 2.0, float("nan")]}, "baseline must hold 4 finite numbers"),
    ],
)
def test_bad_settings_get_one_sentence(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        HarsanyiMLP(options.pop("n_features", 4), options.pop("n_outputs", 2), **options)
    assert "\n" not in str(caught.value)


def test_children_may_differ_between_blocks(tmp_path):
    net = HarsanyiMLP(6, 2, width=20, initial_children=(1, 0.2, None), seed=0)
    assert [int(mask.sum(1).unique()) for mask in net.child_masks()] == [1, 4, 10]
    save(net, tmp_path / "net.hnet")
    again = load(tmp_path / "net.hnet")
    assert again.config == net.config
    assert all(map(torch.equal, again.child_masks(), net.child_masks()))
