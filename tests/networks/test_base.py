from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from dense_networks import build, every_kind, rows

from harsanyinet import load, save
from harsanyinet.files import ModelFileError, save_arrays
from harsanyinet.games import brute_force_shapley
from harsanyinet.networks import base as network_module


@every_kind
def test_same_seed_same_bits_and_no_global_randomness(kind):
    state = torch.random.get_rng_state()
    a, b, other = build(kind), build(kind), build(kind, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
    assert torch.equal(a(rows()), b(rows()))
    assert not torch.equal(a(rows()), other(rows()))
    assert np.array_equal(a.explain(rows()).values, b.explain(rows()).values)


@every_kind
def test_state_dict_deepcopy_and_dtype(kind):
    net, fresh = build(kind), build(kind, seed=5)
    fresh.load_state_dict(net.state_dict())
    assert torch.equal(net(rows()), fresh(rows()))
    assert torch.equal(copy.deepcopy(net)(rows()), net(rows()))
    double = copy.deepcopy(net).double()
    assert double(rows(dtype=torch.float64)).dtype == torch.float64
    np.testing.assert_allclose(double.explain(rows().double()).values, net.explain(rows()).values, atol=1e-5)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_model_files(kind, dtype, tmp_path):
    net = build(kind, baseline=np.arange(6) / 10).to(dtype)
    with torch.no_grad():
        for block in net.blocks:
            if "tau" in dict(block.named_parameters()):
                block.tau[0] = -block.tau[0]  # learned children differ from the initial ones
    save(net, tmp_path / "net.hnet")
    again = load(tmp_path / "net.hnet")
    assert torch.equal(again(rows(dtype=dtype)), net(rows(dtype=dtype)))
    assert np.array_equal(again.explain(rows(dtype=dtype)).values, net.explain(rows(dtype=dtype)).values)
    assert not again.training


def test_a_model_file_whose_settings_do_not_fit(tmp_path):
    net = build("paper")
    arrays, meta = net.to_arrays()
    save_arrays(tmp_path / "net.hnet", "HarsanyiMLP", arrays, meta | {"config": meta["config"] | {"width": 99}})
    with pytest.raises(ModelFileError, match="settings do not fit its weights"):
        load(tmp_path / "net.hnet")


@every_kind
def test_chunks_of_rows_change_nothing(kind, monkeypatch):
    net, x = build(kind), rows(b=700)
    present = torch.rand(700, 6, generator=torch.Generator().manual_seed(1)) < 0.7
    with torch.no_grad():
        whole, masked = net(x), net(x, present)
    ex = net.explain(x, present)
    monkeypatch.setattr(network_module, "CHUNK", 1)  # 256 rows at a time
    sizes, units = [], net.units
    monkeypatch.setattr(net, "units", lambda x, present: sizes.append(len(x)) or units(x, present))
    with torch.no_grad():
        net(x, present)
        assert sizes == [256, 256, 188]
        torch.testing.assert_close(net(x), whole, rtol=0, atol=1e-6)
        torch.testing.assert_close(net(x, present), masked, rtol=0, atol=1e-6)
        torch.testing.assert_close(net(x, present[0]), torch.cat([net(x[i : i + 1], present[0]) for i in range(700)]))
    pieces = net.explain(x, present)
    np.testing.assert_allclose(pieces.values, ex.values, atol=1e-6)
    np.testing.assert_allclose(pieces.dividends, ex.dividends, atol=1e-6)


@every_kind
def test_a_mask_of_the_wrong_length_is_refused_with_many_chunks_too(kind, monkeypatch):
    monkeypatch.setattr(network_module, "CHUNK", 1)
    net, x = build(kind), rows(b=512)
    wrong = torch.ones(256, 6, dtype=torch.bool)  # as many as a chunk has
    with torch.no_grad(), pytest.raises(ValueError, match=r"\(6,\) or \(512, 6\), however: \(256, 6\)"):
        net(x, wrong)
    with pytest.raises(ValueError, match=r"however: \(256, 6\)"):
        net.explain(x, wrong)


@every_kind
def test_chunks_against_brute_force(kind, monkeypatch):
    monkeypatch.setattr(network_module, "CHUNK", 1)
    net, x = build(kind).double(), rows(b=600, dtype=torch.float64)
    present = torch.rand(600, 6, generator=torch.Generator().manual_seed(1)) < 0.8
    ex = net.explain(x, present)
    for row in (0, 255, 256, 599):

        def game(masks, row=row):
            seen = torch.from_numpy(masks) & present[row]
            with torch.no_grad():
                return net(x[row : row + 1].expand(len(masks), -1), seen).numpy()

        np.testing.assert_allclose(ex.values[row], brute_force_shapley(game, 6), atol=1e-13)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_changes_nothing(kind, dtype):
    net, x = build(kind), rows()
    present = torch.tensor([True, False, True, True, True, True])
    expected, explained = net(x, present), net.explain(x, present).values
    with torch.autocast("cpu", dtype=dtype):
        assert torch.equal(net(x, present), expected)
        assert np.array_equal(net.explain(x, present).values, explained)
        assert net.shapley_values(x).dtype == torch.float32


@every_kind
def test_what_the_network_hands_out_is_not_its_own(kind):
    net, x = build(kind), rows()
    before = net.explain(x).values
    for handed in (*net.receptive_fields(), *net.child_masks()):
        handed.fill_(True)
    assert np.array_equal(net.explain(x).values, before)


@every_kind
def test_training_after_explaining_in_inference_mode(kind):
    net, x = build(kind), rows()
    with torch.inference_mode():
        net.explain(x)
    net.shapley_values(x).sum().backward()
    net(x).sum().backward()
    assert net.readouts[0].grad is not None


def test_the_game_checks_its_row_and_the_mode():
    net = build("presence", dropout=0.3)
    for row in (-1, 5):
        with pytest.raises(IndexError, match=f"row must lie between 0 and 4, however: row={row}"):
            net.game(rows(), row)
    with pytest.raises(RuntimeError, match="evaluation mode"):
        net.train().game(rows(), 0)


def test_training_mode():
    net = build("presence", dropout=0.3)
    net.explain(rows())
    with pytest.raises(RuntimeError, match=r"exact in evaluation mode only.*call \.eval\(\) first"):
        net.train().explain(rows())
    with pytest.raises(RuntimeError, match="evaluation mode"):
        net.shapley_values(rows())
    exact = build("paper").train()  # nothing random inside: training mode changes nothing
    assert np.array_equal(exact.explain(rows()).values, exact.eval().explain(rows()).values)


@every_kind
def test_explanations_do_not_follow_the_network(kind):
    net = build(kind)
    ex = net.explain(rows())
    before = net.explain(rows()).dividends.copy()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1.0)
    np.testing.assert_array_equal(ex.dividends, before)


def test_import_is_light():
    """pandas, scikit-learn, scipy, matplotlib and shap stay out until someone needs them."""
    code = (
        "import sys, harsanyinet; "
        "heavy = {'pandas', 'sklearn', 'scipy', 'matplotlib', 'shap', 'shapiq', 'captum'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
