"""HarsanyiMLP: inputs, missing values, columns, baselines, torch.compile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dense_networks import build, every_kind, rows

from harsanyinet import HarsanyiMLP
from harsanyinet.games import brute_force_shapley


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_refused(dtype):
    with pytest.raises(TypeError, match="works in float32 or float64, however: torch"):
        build("paper").to(dtype)(rows().to(dtype))


def test_columns_are_a_setting_and_do_not_come_with_the_weights():
    a = HarsanyiMLP(4, 1, columns=[0, 0, 1, 1], initial_children=1, width=9, seed=0).double().eval()
    b = HarsanyiMLP(4, 1, columns=[0, 1, 0, 1], initial_children=1, width=9, seed=1).double().eval()
    x = rows(4, 2, dtype=torch.float64)
    a.explain(x)
    a.load_state_dict(b.state_dict())
    np.testing.assert_allclose(a.explain(x).values[0, :, None], brute_force_shapley(a.game(x, 0), 2), atol=1e-14)


def test_the_baseline_is_exact_in_float64():
    mean = [0.1, 0.2, 0.3]
    net = HarsanyiMLP(3, 1, baseline=mean, gamma=1e9, dtype=torch.float64).eval()
    ex = net.explain(torch.tensor([mean], dtype=torch.float64))
    assert np.all(ex.values == 0)


@every_kind
@pytest.mark.parametrize("masked", [False, True])
def test_torch_compile(kind, masked):
    """One graph without breaks. The compiled network always gates and leaves out the check for infinities."""
    net, x = build(kind), rows()
    present = torch.rand(5, 6, generator=torch.Generator().manual_seed(2)) < 0.7 if masked else None
    torch.compiler.reset()  # the limit of recompilations is per process
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, present), net(x, present), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["presence", "presence, learned"])
def test_missing_values_are_absent_players(kind):
    net, x = build(kind, columns=[0, 1, 2, 2, 3, 4]), rows()
    x[1, 3] = float("nan")  # one column of player 2
    present = torch.ones(5, 5, dtype=torch.bool)
    present[1, 2] = False
    clean = x.clone()
    clean[1, 3] = 123.0
    assert torch.equal(net(x), net(clean, present))
    ex = net.explain(x)
    assert np.all(ex.values[1, 2] == 0)
    assert not np.all(ex.values[0, 2] == 0)


@every_kind
@pytest.mark.parametrize(
    ("x", "present", "error", "message"),
    [
        (torch.rand(5, 4), None, ValueError, r"x must have shape \(rows, 6\), however: \(5, 4\)"),
        (torch.rand(6), None, ValueError, r"x must have shape \(rows, 6\), however: \(6,\)"),
        (torch.rand(5, 6).double(), None, TypeError, "network's dtype torch.float32, however: torch.float64"),
        (torch.ones(5, 6, dtype=torch.int64), None, TypeError, "however: torch.int64"),
        (np.ones((5, 6)), None, TypeError, "x must be a torch tensor, however: ndarray"),
        (torch.full((5, 6), float("inf")), None, ValueError, "x must be finite and below .* however: column 0 is not"),
        (torch.rand(5, 6), torch.ones(5, 5, dtype=torch.bool), ValueError, r"\(6,\) or \(5, 6\), however: \(5, 5\)"),
        (torch.rand(5, 6), torch.ones(4, 6, dtype=torch.bool), ValueError, r"however: \(4, 6\)"),
        (torch.rand(5, 6), torch.ones(5, 6), TypeError, "present must be a bool tensor.*however: torch.float32"),
        (torch.rand(5, 6), np.ones(6, dtype=bool), TypeError, "present must be a bool tensor.*however: ndarray"),
    ],
)
def test_bad_input_gets_one_sentence(kind, x, present, error, message):
    net = build(kind)
    for call in (net, net.explain, net.shapley_values, torch.no_grad()(net.__call__)):
        with pytest.raises(error, match=message) as caught:
            call(x, present)
        assert "\n" not in str(caught.value)


def test_nan_in_the_activation_gate():
    x = rows()
    x[3, 2] = float("nan")
    with pytest.raises(ValueError, match="needs a number in every cell, however: column 2 holds NaN; fill it, or use"):
        build("paper")(x)


@every_kind
def test_numbers_so_large_that_products_overflow(kind):
    net = build(kind)
    assert torch.isfinite(net(torch.full((5, 6), 1e18))).all()
    with pytest.raises(ValueError, match=r"x must be finite and below 2e\+19 in size, however: column 2 is not"):
        net(torch.cat([rows()[:, :2], torch.full((5, 1), 3e38), rows()[:, 3:]], 1))


def test_a_deep_start_wakes_every_block():
    x = torch.randn(1000, 8, generator=torch.Generator().manual_seed(0))
    for seed in range(3):
        usual, deep = HarsanyiMLP(8, 2, seed=seed), HarsanyiMLP.deep(8, 2, seed=seed)
        with torch.no_grad():
            acting = [[float((z != 0).any(0).float().mean()) for z in net.units(x)] for net in (usual, deep)]
        assert acting[0][2] == 0
        assert min(acting[1]) > 0.5
        assert [int(mask.sum(1).unique()) for mask in deep.child_masks()] == [2, 2, 2]
        for block in list(deep.blocks)[1:]:
            assert bool(((block.weight >= 0.25) & (block.weight <= 0.75)).all())
        assert bool((deep.blocks[0].weight < 0).any())
    exact = brute_force_shapley(deep.double().game(x.double(), 0), 8, progress=False)
    np.testing.assert_allclose(deep.explain(x[:1].double()).values[0], exact, rtol=0, atol=1e-13)
    assert HarsanyiMLP.deep(1, 1)(torch.ones(2, 1)).shape == (2, 1)
