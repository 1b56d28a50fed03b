from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch

from harsanyinet import HarsanyiMLP, load, save
from harsanyinet.files import ModelFileError, save_arrays
from harsanyinet.games import brute_force_shapley
from harsanyinet.networks import base as network_module

KINDS = {
    "paper": {},
    "product, all blocks": {"soft_and": "product", "connect": "all", "initial_children": 0.3},
    "presence": {"gate": "presence"},
    "presence, all blocks": {"gate": "presence", "connect": "all", "channels": 3},
    "presence, learned": {"gate": "presence", "learn_children": True, "channels": 2, "connect": "all"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def build(kind: str, n: int = 6, k: int = 2, seed: int = 0, **more) -> HarsanyiMLP:
    net = HarsanyiMLP(n, k, width=15, n_blocks=3, seed=seed, **(KINDS[kind] | more))
    if net.gate == "activation":
        with torch.no_grad():
            for block in net.blocks:
                block.weight.abs_()  # deeper blocks act
    return net.eval()


def rows(n: int = 6, b: int = 5, seed: int = 0, dtype=torch.float32) -> torch.Tensor:
    return torch.rand(b, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype) + 0.05


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


@pytest.mark.parametrize("kind", ["presence", "presence, learned"])
@pytest.mark.parametrize("channels", [1, 2])
def test_few_among_many_players_take_the_sparse_path(kind, channels):
    """Beyond enumeration: sub-games of 10 players against brute force, and the dense path as a second opinion."""
    net = HarsanyiMLP(200, 3, width=300, n_blocks=2, seed=1, **(KINDS[kind] | {"channels": channels})).double().eval()
    x = rows(200, 3, dtype=torch.float64)
    assert all(shares is not None for shares in net.structure().sparse)
    ex = net.explain(x)
    np.testing.assert_allclose(ex.values, net.shapley_values(x).detach().numpy(), atol=1e-13)
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_refused(dtype):
    with pytest.raises(TypeError, match="works in float32 or float64, however: torch"):
        build("paper").to(dtype)(rows().to(dtype))


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


def test_numpy_numbers_as_settings(tmp_path):
    net = HarsanyiMLP(
        np.int64(4), 1, gate="presence", width=np.int64(9), set_sizes=np.array([2, 3]), gamma=np.float32(2)
    )
    save(net, tmp_path / "net.hnet")
    assert load(tmp_path / "net.hnet").config == net.config
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        HarsanyiMLP(4, 1, width=5.0)


def test_the_game_checks_its_row_and_the_mode():
    net = build("presence", dropout=0.3)
    for row in (-1, 5):
        with pytest.raises(IndexError, match=f"row must lie between 0 and 4, however: row={row}"):
            net.game(rows(), row)
    with pytest.raises(RuntimeError, match="evaluation mode"):
        net.train().game(rows(), 0)


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


def test_import_is_light():
    """pandas, scikit-learn, scipy, matplotlib and shap stay out until someone needs them."""
    code = (
        "import sys, harsanyinet; "
        "heavy = {'pandas', 'sklearn', 'scipy', 'matplotlib', 'shap', 'shapiq', 'captum'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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


def test_children_may_differ_between_blocks(tmp_path):
    net = HarsanyiMLP(6, 2, width=20, initial_children=(1, 0.2, None), seed=0)
    assert [int(mask.sum(1).unique()) for mask in net.child_masks()] == [1, 4, 10]
    save(net, tmp_path / "net.hnet")
    again = load(tmp_path / "net.hnet")
    assert again.config == net.config
    assert all(map(torch.equal, again.child_masks(), net.child_masks()))
