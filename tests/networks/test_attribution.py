from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from harsanyinet import HarsanyiMLP

pytest.importorskip("captum")


def setup(k: int = 3):
    from harsanyinet import Attribution

    net = HarsanyiMLP(4, k, width=10, gate="presence", seed=0).double().eval()
    x = torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return net, x, Attribution(net)


def test_attribute_is_the_explanation():
    net, x, method = setup()
    values = net.explain(x).values
    np.testing.assert_allclose(method.attribute(x, target=1).detach(), values[:, :, 1], atol=1e-14)
    per_row = torch.tensor([0, 1, 2, 0, 1])
    found = method.attribute(x, target=per_row)
    np.testing.assert_allclose(found.detach(), values[np.arange(5), :, per_row], atol=1e-14)
    found, delta = method.attribute(x, target=2, return_convergence_delta=True)
    assert found.shape == x.shape
    assert float(delta.detach().abs().max()) < 1e-13


def test_inside_captum():
    from captum.attr import Attribution as CaptumAttribution
    from captum.attr import NoiseTunnel, ShapleyValues

    net, x, method = setup()
    assert isinstance(method, CaptumAttribution)
    assert method.has_convergence_delta()
    smooth = NoiseTunnel(method).attribute(x, nt_samples=4, stdevs=0.0, target=1)
    np.testing.assert_allclose(smooth.detach(), net.explain(x).values[:, :, 1], atol=1e-6)  # captum's own float32
    # captum's enumeration of all orders of a network whose absent value is an input: the activation gate
    paper = HarsanyiMLP(4, 2, width=10, initial_children=2, seed=0).eval()
    exact = ShapleyValues(paper).attribute(x.float(), target=1)
    np.testing.assert_allclose(exact.detach(), paper.explain(x.float()).values[:, :, 1], atol=1e-6)


def test_a_column_keeps_its_value_when_players_are_in_another_order():
    from harsanyinet import Attribution

    net = HarsanyiMLP(3, 1, gate="presence", columns=[2, 0, 1], seed=0).eval()
    x = torch.tensor([[10.0, 20.0, float("nan")]])
    found = Attribution(net).attribute(x).detach()
    assert found[0, 2] == 0
    assert bool((found[0, :2] != 0).all())
    assert np.array_equal(net.explain(x).data[0], [20.0, np.nan, 10.0], equal_nan=True)  # by player


def test_errors():
    _, x, method = setup()
    with pytest.raises(ValueError, match="target must name one of 3 outputs"):
        method.attribute(x)
    with pytest.raises(ValueError, match="target must be one or 5 numbers from 0 to 2, however: target=3"):
        method.attribute(x, target=3)
    for wrong in ([0, 1], True, 0.5):
        with pytest.raises(ValueError, match="target must be one or 5 numbers"):
            method.attribute(x, target=wrong)
    _, x, method = setup(k=1)
    assert method.attribute(x).shape == x.shape
    grouped = type(method)(HarsanyiMLP(4, 1, gate="presence", columns=[0, 0, 1, 2]).eval())
    with pytest.raises(ValueError, match="4 columns belong to 3 players"):
        grouped.attribute(x.float())


def test_without_captum(monkeypatch):
    import harsanyinet

    monkeypatch.setitem(sys.modules, "captum.attr", None)
    monkeypatch.delitem(sys.modules, "harsanyinet.networks.attribution", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'harsanyinet\[captum\]'"):
        _ = harsanyinet.Attribution
