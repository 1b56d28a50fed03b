"""The one invariant: a unit is zero when a player of its receptive field is absent, and otherwise does not notice.

Random and trained networks of every kind against brute force over the real forward pass.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harsanyinet import HarsanyiMLP
from harsanyinet.games import all_masks, brute_force_shapley, evaluate, harsanyi_dividends
from harsanyinet.training import TrainingConfig, fit_module

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}  # relative to the largest |output| over all masks
relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@st.composite
def networks(draw, max_players: int = 10):
    """A network, rows for it, and whether it was trained: the edges of the case list are drawn on purpose."""
    gate = draw(st.sampled_from(["activation", "presence"]))
    n = draw(st.integers(1, max_players))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    several = draw(st.booleans())  # several columns for one player
    columns = np.r_[np.arange(n), rng.integers(0, n, draw(st.integers(1, 4)))].tolist() if several else list(range(n))
    columns = rng.permutation(columns).tolist() if draw(st.booleans()) else columns
    width = draw(st.integers(1, 14))
    options = {
        "n_blocks": draw(st.integers(1, 4)),
        "width": width,
        "gate": gate,
        "connect": draw(st.sampled_from(["previous", "all"])),
        "seed": seed,
        "columns": columns,
        "baseline": rng.normal(size=len(columns)) * draw(st.sampled_from([0.0, 1.0])),
    }
    if gate == "activation":
        options["gamma"] = draw(st.sampled_from([0.05, 1.0, 100.0]))
        options["soft_and"] = draw(st.sampled_from(["geometric", "product"]))
        options["initial_children"] = draw(st.sampled_from([None, 0.1, 0.3, 1]))
    else:
        options["channels"] = draw(st.integers(1, 3))
        options["learn_children"] = draw(st.booleans())
        options["activation"] = draw(st.sampled_from(["relu", "gelu", "silu", "tanh"]))
        options["dropout"] = draw(st.sampled_from([0.0, 0.2]))
        options["output_bias"] = draw(st.booleans())
        if draw(st.booleans()):
            options["sets"] = [rng.permutation(n)[: rng.integers(0, n + 1)].tolist() for _ in range(width)]
    net = HarsanyiMLP(len(columns), draw(st.integers(1, 4)), **options)
    with torch.no_grad():
        for block in net.blocks:
            if gate == "activation" and draw(st.booleans()):
                block.weight.abs_()  # units below survive the ReLU, so that deeper blocks act
            if draw(st.booleans()) and hasattr(block, "tau"):
                block.tau[rng.integers(0, len(block.tau))] = -1.0  # a unit without children
        if isinstance(net.base, torch.nn.Parameter):
            net.base.normal_(generator=torch.Generator().manual_seed(seed))
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    net = net.to(dtype)
    rows = draw(st.integers(1, 3))
    x = torch.from_numpy(rng.normal(size=(rows, len(columns)))).to(dtype)
    if draw(st.booleans()):
        x[:, 0] = net.baseline[0]  # a constant column, exactly at its baseline
    if draw(st.booleans()):  # trained
        y = torch.from_numpy(rng.normal(size=(32, net.n_outputs))).to(dtype)
        train_x = torch.from_numpy(rng.normal(size=(32, len(columns)))).to(dtype)
        config = TrainingConfig(epochs=3, batch_size=8, learning_rate=0.05, masked_share=0.5)
        fit_module(
            net, train_x, y, loss=lambda o, t: (o - t).pow(2).mean(1), config=config, n_players=n, progress=False
        )
    if gate == "presence" and draw(st.booleans()):
        x[0, rng.integers(0, len(columns))] = float("nan")
    return net.eval(), x


def scale_of(net: HarsanyiMLP, x: torch.Tensor) -> float:
    tables = [evaluate(net.game(x, row), net.n_players) for row in range(len(x))]
    return max(float(np.abs(table).max()) for table in tables) + 1e-30


@relaxed
@given(networks())
def test_explain_equals_brute_force_of_the_forward_pass(case):
    net, x = case
    ex = net.explain(x)
    tolerance = TOLERANCE[x.dtype] * scale_of(net, x)
    values = np.asarray(ex.values).reshape(len(x), net.n_players, net.n_outputs)
    for row in range(len(x)):
        np.testing.assert_allclose(values[row], brute_force_shapley(net.game(x, row), net.n_players), 0, tolerance)
    output = net(x).detach().numpy().reshape(ex.outputs.shape)
    np.testing.assert_allclose(ex.outputs, output, 0, tolerance)  # efficiency


@relaxed
@given(networks(max_players=7))
def test_value_equals_the_masked_forward_pass_for_every_mask(case):
    net, x = case
    ex = net.explain(x)
    tolerance = TOLERANCE[x.dtype] * scale_of(net, x)
    for mask in all_masks(net.n_players):
        real = net(x, present=torch.from_numpy(mask)).detach().numpy()
        np.testing.assert_allclose(ex.value(mask).reshape(real.shape), real, 0, tolerance)


@relaxed
@given(networks(max_players=6))
def test_dividends_equal_the_moebius_transform(case):
    net, x = case
    ex = net.explain(x)
    # A dividend by brute force is a signed sum of up to 2^6 outputs, each with its own rounding: hence the factor 64.
    tolerance = 64 * TOLERANCE[x.dtype] * scale_of(net, x)
    codes = ex.coalitions @ (1 << np.arange(net.n_players))
    for row in range(len(x)):
        dividends = harsanyi_dividends(net.game(x, row), net.n_players)
        own = np.zeros_like(dividends)
        own[codes] = np.asarray(ex.dividends[row]).reshape(len(codes), net.n_outputs)
        np.testing.assert_allclose(own, dividends, 0, tolerance)


@relaxed
@given(networks(max_players=6))
def test_every_unit_is_a_harsanyi_unit(case):
    """R1 and R2, unit by unit and mask by mask."""
    net, x = case
    with torch.no_grad():
        full = net.units(x)
    fields = net.receptive_fields()
    for mask in all_masks(net.n_players):
        with torch.no_grad():
            masked = net.units(x, torch.from_numpy(mask))
        for z, z_masked, field in zip(full, masked, fields, strict=True):
            inside = (field & ~torch.from_numpy(mask)).sum(1) == 0
            inside = inside & field.any(1)
            assert bool((z_masked[:, ~inside] == 0).all())
            tolerance = TOLERANCE[x.dtype] * (float(z.abs().max()) if z.numel() else 1.0)
            torch.testing.assert_close(z_masked[:, inside], z[:, inside], rtol=0, atol=tolerance)


@pytest.mark.parametrize("gate", ["activation", "presence"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_empty_batch(gate, dtype):
    net = HarsanyiMLP(3, 2, gate=gate, width=9, seed=1).to(dtype).eval()
    ex = net.explain(torch.empty(0, 3, dtype=dtype))
    assert ex.values.shape == (0, 3, 2)
    assert ex.dividends.shape == (0, len(ex.coalitions), 2)
    assert ex.order_spectrum()[0] == 1
    assert "0 rows" in repr(ex)
    assert "0 rows" in ex._repr_html_()


@settings(relaxed, max_examples=25)
@given(
    networks(max_players=5), st.sampled_from(["SV", "BV", "SII", "BII", "STII", "k-SII", "Moebius"]), st.integers(1, 4)
)
def test_every_index_of_random_and_trained_networks_equals_shapiq(case, name, order):
    shapiq = pytest.importorskip("shapiq")
    net, x = case
    n = net.n_players
    order = 1 if name in ("SV", "BV") else min(order, n)
    found = net.explain(x[:1]).index(name, order)
    # Each index is a signed sum of up to 2^5 outputs in shapiq's computation: hence the factor 32.
    tolerance = 32 * TOLERANCE[x.dtype] * scale_of(net, x[:1])
    values = found.values.reshape(1, len(found.sets), net.n_outputs)
    for k in range(net.n_outputs):
        computer = shapiq.ExactComputer(lambda m, k=k: net.game(x, 0)(np.asarray(m, dtype=bool))[:, k], n_players=n)
        reference = computer(name, order=order)
        for position, members in enumerate(found.sets):
            assert abs(values[0, position, k] - reference[members]) <= tolerance


@settings(relaxed, max_examples=25)
@given(networks(max_players=5), st.integers(0, 1000))
def test_axioms_of_random_and_trained_networks(case, seed):
    """Linearity with a second network; a player that is unplugged is a dummy; efficiency is tested above."""
    net, x = case
    x = torch.nan_to_num(x)
    n, k = net.n_players, net.n_outputs
    other = HarsanyiMLP(net.n_features, k, gate="presence", columns=net.config["columns"], width=7, seed=seed).to(
        x.dtype
    )
    both = net.explain(x) + other.eval().explain(x)
    tolerance = 4 * TOLERANCE[x.dtype] * (scale_of(net, x) + scale_of(other, x))
    for row in range(len(x)):
        truth = brute_force_shapley(lambda m, r=row: net.game(x, r)(m) + other.game(x, r)(m), n)
        np.testing.assert_allclose(both.values[row].reshape(n, k), truth, 0, tolerance)
    player = seed % n
    with torch.no_grad():
        columns = net.columns == player if net.gate == "activation" else torch.arange(n) == player
        net.blocks[0].tau.data[:, columns] = -1.0
    assert np.all(net.explain(x).values[:, player] == 0)


def active_net(seed: int = 0, n: int = 5, k: int = 2, gate: str = "presence") -> tuple[HarsanyiMLP, torch.Tensor]:
    """A network in float64 whose deeper blocks act, so that interactions of many orders are there to be tested."""
    net = HarsanyiMLP(
        n, k, width=20, n_blocks=2, gate=gate, seed=seed, initial_children=2 if gate != "presence" else None
    )
    net = net.double().eval()
    if gate == "activation":
        with torch.no_grad():
            for block in net.blocks:
                block.weight.abs_()
    return net, torch.rand(3, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.1


@pytest.mark.parametrize("gate", ["activation", "presence"])
def test_the_four_axioms(gate):
    net, x = active_net(gate=gate)
    other, _ = active_net(seed=7, gate=gate)
    ex, ex_other = net.explain(x), other.explain(x)
    assert ex.order_spectrum()[2:].sum() > 0.05  # the case has interactions to speak of
    # Efficiency
    np.testing.assert_allclose(ex.values.sum(1), net(x).detach().numpy() - ex.base_values, atol=1e-13)
    # Linearity: brute force of the sum of both networks
    for row in range(len(x)):
        both = brute_force_shapley(lambda m, r=row: net.game(x, r)(m) + other.game(x, r)(m), 5)
        np.testing.assert_allclose((ex + ex_other).values[row], both, atol=1e-13)
        minus = brute_force_shapley(lambda m, r=row: net.game(x, r)(m) - other.game(x, r)(m), 5)
        np.testing.assert_allclose((ex - ex_other).values[row], minus, atol=1e-13)
    # Dummy: a player that no receptive field holds
    with torch.no_grad():
        net.blocks[0].tau[:, 3] = -1.0
    assert np.all(net.explain(x).values[:, 3] == 0)
    assert not np.all(ex.values[:, 3] == 0)


@pytest.mark.parametrize("gate", ["activation", "presence"])
def test_symmetric_players_get_equal_values(gate):
    """Two columns that enter every unit alike are interchangeable when they hold the same value."""
    net, x = active_net(gate=gate)
    with torch.no_grad():
        block = net.blocks[0]
        block.tau[:, 1] = block.tau[:, 0]
        block.weight[:, 1] = block.weight[:, 0]
    x[:, 1] = x[:, 0]
    values = net.explain(x).values
    np.testing.assert_allclose(values[:, 0], values[:, 1], atol=1e-14)
    assert np.abs(values[:, 0]).max() > 1e-3


@pytest.mark.parametrize("gate", ["activation", "presence"])
def test_connect_all_reads_every_block_below(gate):
    options = {"initial_children": 1} if gate == "activation" else {"learn_children": True, "channels": 2}
    net = HarsanyiMLP(4, 1, n_blocks=3, width=5, gate=gate, connect="all", seed=3, **options).double().eval()
    assert [mask.shape[1] for mask in net.child_masks()] == [4, 5, 10]
    with torch.no_grad():
        net.blocks[2].tau.fill_(-1.0)
        net.blocks[2].tau[0, 1] = 1.0  # a child in the first block
        net.blocks[2].tau[0, 7] = 1.0  # and one in the second
    first, second, third = net.receptive_fields()
    assert torch.equal(third[0], first[1] | second[2])


def test_brute_force_definition_of_every_index():
    """Indices by discrete derivatives and their textbook weights, from the forward pass alone."""
    net, x = active_net(n=4, k=1)
    ex = net.explain(x)
    n = 4
    table = evaluate(net.game(x, 0), n)[:, 0]

    def derivative(s, t):  # Delta_S v(T)
        parts = (sub for r in range(len(s) + 1) for sub in combinations(s, r))
        return sum((-1) ** (len(s) - len(sub)) * table[sum(1 << i for i in (*t, *sub))] for sub in parts)

    from math import comb

    for size in (1, 2, 3):
        for s in combinations(range(n), size):
            rest = [i for i in range(n) if i not in s]
            outside = [t for r in range(len(rest) + 1) for t in combinations(rest, r)]
            sii = sum(derivative(s, t) / ((n - size + 1) * comb(n - size, len(t))) for t in outside)
            bii = sum(derivative(s, t) for t in outside) / 2 ** (n - size)
            stii = size / n * sum(derivative(s, t) / comb(n - 1, len(t)) for t in outside)  # at the top order
            for name, expected in (("SII", sii), ("BII", bii), ("STII", stii), ("Moebius", derivative(s, ()))):
                found = ex.index(name, order=size)
                np.testing.assert_allclose(found[s][0], expected, atol=1e-12, err_msg=f"{name} of {s}")


@pytest.mark.parametrize("gate", ["activation", "presence"])
@pytest.mark.parametrize(
    ("name", "order"),
    [("SV", 1), ("BV", 1), *((i, o) for i in ("SII", "BII", "STII", "k-SII", "FSII", "Moebius") for o in (1, 2, 3, 5))],
)
def test_every_index_equals_shapiq(gate, name, order):
    shapiq = pytest.importorskip("shapiq")
    net, x = active_net(gate=gate)
    ex = net.explain(x)
    found = ex.index(name, order=order)
    # shapiq solves FSII as a least-squares problem with huge weights on both ends, and is itself good to 1e-9 there.
    tolerance = 1e-7 if name == "FSII" else 1e-12
    for row in range(len(x)):
        computer = shapiq.ExactComputer(lambda m, r=row: net.game(x, r)(np.asarray(m, dtype=bool))[:, 1], n_players=5)
        reference = computer(name, order=order)
        listed = set(found.sets)
        for size in range(1, order + 1):
            for members in combinations(range(5), size):
                own = found[members][row, 1]
                assert abs(own - reference[members]) < tolerance, (members, own, reference[members])
                contained = any(ex.coalitions[c, list(members)].all() for c in range(len(ex.coalitions)))
                assert (members in listed) == contained
