"""TableNet, and FoldedTable which must be the same: random networks of every shape."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harsanyinet.folded import FoldedTable
from harsanyinet.growth import Tables
from harsanyinet.tabular import TableNet

relaxed = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def coded_rows(net: TableNet, n_rows: int, rng: np.random.Generator, missing: float = 0.2) -> torch.Tensor:
    """Places, levels and cells that an encoder could give: on knots, between them, beyond no end."""
    columns = []
    for knots, levels, cells in zip(*(net.config[key] for key in ("knots", "levels", "cells")), strict=True):
        last = max(knots - 1, 0)
        place = np.where(rng.random(n_rows) < 0.3, rng.integers(0, last + 1, n_rows), rng.uniform(0, last, n_rows))
        place[rng.random(n_rows) < missing] = np.nan
        columns.append(np.stack([place, rng.integers(0, levels, n_rows), rng.integers(0, cells, n_rows)], 1))
    return torch.from_numpy(np.stack(columns, 1))


def random_tables(net: TableNet, free: list[int], rng: np.random.Generator) -> Tables:
    shape = (int(rng.integers(1, 6)), int(rng.integers(1, 4)))
    values = rng.normal(size=(shape[0], 2 ** shape[1], net.n_outputs)).astype(np.float32)
    return Tables(rng.choice(free, shape), rng.integers(0, 4, shape), values)


@st.composite
def tables(draw, max_players: int = 6):
    """A network in float64 and rows for it; no unit, no set and no knot are among the cases.

    All comes from one seed: drawn one by one, most of the cases would have no set, or one member, or no value.
    """
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, max_players + 1))
    rising = rng.integers(-1, 2, n).tolist() if rng.random() < 0.4 else None
    free = [i for i in range(n) if rising is None or not rising[i]]

    def some_sets(largest: int) -> list[tuple[int, ...]]:
        sizes = rng.integers(2, max(largest, 2) + 1, rng.integers(0, 4))
        drawn = [tuple(sorted(rng.permutation(free)[:size].tolist())) for size in sizes if size <= len(free)]
        return list(dict.fromkeys(drawn))

    net = TableNet(
        int(rng.integers(1, 4)),
        knots=rng.integers(0, 6, n).tolist(),
        levels=[1 if rising and rising[i] else int(rng.integers(1, 5)) for i in range(n)],
        cells=rng.integers(1, 5, n).tolist(),
        sets=some_sets(3),
        wide=some_sets(n),
        members=int(rng.integers(1, 4)),
        embedding=int(rng.integers(1, 5)),
        channels=int(rng.integers(1, 4)),
        wide_channels=int(rng.integers(1, 6)),
        wide_depth=int(rng.integers(1, 4)),
        rising=rising,
        dropout=float(rng.choice([0.0, 0.3])),
        seed=int(rng.integers(100)),
    )
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.from_numpy(rng.normal(size=parameter.shape)))
    if free and rng.random() < 0.6:
        net.take_tables(
            random_tables(net, free, rng), np.concatenate([rng.permutation(c) for c in net.config["cells"]])
        )
    net = net.double().eval()
    return net, coded_rows(net, int(rng.integers(1, 8)), rng, float(rng.choice([0.0, 0.0, 0.2, 1.0])))


def masks_for(x: torch.Tensor, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(x.shape[:2]) < 0.7)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    scale = max(float(b.abs().max()) if b.numel() else 0.0, 1.0)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12 * scale)


@relaxed
@given(tables(), st.booleans(), st.integers(0, 100))
def test_a_folded_table_is_the_network(case, masked, seed):
    net, x = case
    present = masks_for(x, seed) if masked else None
    folded = FoldedTable.of(net)
    with torch.no_grad():
        added = folded.contributions(x, present)
        outputs = net(x, present)
        close(folded.base + added.sum(0), outputs)
        close(outputs, net.member_outputs(x, present).mean(1))
        close(folded.shapley(added), net.shapley_values(x, present))
    ex = net.explain(x, present)
    codes = {tuple(row): i for i, row in enumerate(folded.coalitions.tolist())}
    assert set(codes) == {tuple(row) for row in ex.coalitions.tolist()}
    order = [codes[tuple(row)] for row in ex.coalitions.tolist()]
    dividends = np.asarray(ex.dividends).reshape(len(x), len(order), net.n_outputs)
    close(added[order].transpose(0, 1), torch.from_numpy(dividends.copy()))


@relaxed
@given(tables())
def test_a_folded_table_in_another_precision(case):
    net, x = case
    folded = FoldedTable.of(net)
    single = folded.to(torch.float32)
    assert {value.dtype for value in vars(single).values() if isinstance(value, torch.Tensor)} <= {
        torch.float32,
        torch.int64,
    }
    exact = folded.contributions(x)
    # 1e-5 of the largest contribution: what float32 can hold through four layers
    scale = float(exact.abs().max()) if exact.numel() else 1.0
    torch.testing.assert_close(single.contributions(x.float()).double(), exact, rtol=0, atol=1e-5 * max(scale, 1.0))
    torch.testing.assert_close(single.to(torch.float64).base, single.base.double())


def test_rows_beyond_a_chunk_are_like_the_others():
    rng = np.random.default_rng(0)
    net = TableNet(2, knots=[4, 0, 3], levels=[2, 3, 1], cells=[3, 3, 3], sets=[(0, 1)], wide=[(0, 1, 2)], members=2)
    folded = FoldedTable.of(net.double().eval())
    x = coded_rows(net, 2500, rng)
    present = masks_for(x, 1)
    whole = folded.contributions(x, present)
    parts = [folded.contributions(x[i : i + 100], present[i : i + 100]) for i in range(0, 2500, 100)]
    close(whole, torch.cat(parts, 1))
    assert folded.contributions(x[:0]).shape == (len(folded.coalitions), 0, 2)
    assert folded.shapley(folded.contributions(x[:0])).shape == (0, 3, 2)


@relaxed
@given(tables(), st.integers(0, 100))
def test_pruning_takes_contributions_away_and_nothing_else(case, seed):
    net, x = case
    with torch.no_grad():
        added = net.contributions(x)
        keep = np.random.default_rng(seed).random(len(added)) < 0.6
        pruned = net.pruned(keep).eval()
        kept = torch.from_numpy(keep)
        close(pruned.member_outputs(x), net.bases + added[kept].sum(0).transpose(0, 1))
        n, single = net.n_players, added[: net.n_players] * kept[: net.n_players, None, None, None]
        close(pruned.contributions(x), torch.cat([single, added[n:][kept[n:]]]))
        again = pruned.pruned(np.ones(len(pruned.contributions(x)), dtype=bool)).eval()
        close(again.member_outputs(x), pruned.member_outputs(x))
        close(net.contributions(x), added)  # and the network itself is as it was
    nothing = net.pruned(np.zeros(len(added), dtype=bool)).eval()
    with torch.no_grad():
        close(nothing(x), net.base.expand(len(x), -1))


@relaxed
@given(tables(), st.integers(0, 100))
def test_rescaling_does_what_it_says(case, seed):
    net, x = case
    rng = np.random.default_rng(seed)
    scale, shift = rng.uniform(0.1, 20, net.n_outputs), rng.normal(size=net.n_outputs) * 100
    with torch.no_grad():
        before, added = net.member_outputs(x), net.contributions(x)
        net.rescale_(scale.tolist(), shift.tolist())
        close(net.member_outputs(x), before * torch.from_numpy(scale) + torch.from_numpy(shift))
        close(net.contributions(x), added * torch.from_numpy(scale))


@relaxed
@given(tables())
def test_monotone_columns_rise_or_fall(case):
    net, _ = case
    curves = net.own_curves().detach().view(net.n_players, -1, net.members, net.n_outputs)
    for player, sign in enumerate(net.rising.tolist()):
        if sign:
            assert bool((sign * curves[player] >= 0).all())


def test_a_monotone_network_is_monotone():
    rng = np.random.default_rng(0)
    net = TableNet(1, knots=[5, 5, 3], levels=[1, 1, 2], cells=[2, 2, 2], wide=[(2,)], members=2, rising=[1, -1, 0])
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.from_numpy(rng.normal(size=parameter.shape)))
    net.double().eval()
    x = torch.zeros(50, 3, 3, dtype=torch.float64)
    for player, sign in ((0, 1), (1, -1)):
        moved = x.clone()
        moved[:, player, 0] = torch.linspace(0, 4, 50)
        with torch.no_grad():
            steps = net(moved).diff(dim=0) * sign
        assert bool((steps >= -1e-14).all())
        assert float(steps.sum()) > 0.1


def test_dropout_acts_in_training_only():
    net = TableNet(1, knots=[3, 3], levels=[1, 1], cells=[3, 3], sets=[(0, 1)], wide=[(0, 1)], members=2, dropout=0.5)
    x = coded_rows(net, 5, np.random.default_rng(0), missing=0.0).float()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net.train()
        assert not torch.equal(net(x), net(x))
        with pytest.raises(RuntimeError, match="exact in evaluation mode only"):
            net.explain(x)
        net.eval()
        assert torch.equal(net(x), net(x))
    assert not net.exact_in_training


def test_the_seed_decides_the_weights_and_nothing_else_is_drawn():
    def make(seed: int) -> TableNet:
        return TableNet(1, knots=[3, 2], levels=[1, 2], cells=[3, 2], sets=[(0, 1)], wide=[(0, 1)], seed=seed)

    before = torch.random.get_rng_state()
    first, again, other = (dict(make(seed).named_parameters()) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["table"], other["table"])


def test_a_wrong_shape_of_rows():
    net = TableNet(1, knots=[3, 2], levels=[1, 2], cells=[3, 2])
    for x, found in (
        (torch.zeros(4, 2), r"\(4, 2\)"),
        (torch.zeros(4, 3, 3), r"\(4, 3, 3\)"),
        (np.zeros(3), "ndarray"),
    ):
        with pytest.raises(ValueError, match=rf"^x must be a tensor of shape \(rows, 2, 3\), however: {found}$"):
            net(x)


def test_cell_units_are_tables_over_their_cells():
    """Places and levels of the columns do not matter to them."""
    net = TableNet(1, knots=[4, 3, 2], levels=[2, 2, 1], cells=[3, 2, 4], sets=[(0, 1), (0, 1, 2)], members=2)
    net.double().eval()
    folded = FoldedTable.of(net)
    cells = torch.tensor(list(itertools.product(range(3), range(2), range(4))), dtype=torch.float64)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2):
        x = coded_rows(net, len(cells), rng, missing=0.0)
        x[:, :, 2] = cells
        with torch.no_grad():
            found.append(net.contributions(x)[3:].mean(1))
        large = [i for i, members in enumerate(folded.coalitions) if members.sum() > 1]
        close(folded.contributions(x)[large], found[-1])
    close(*found)
    assert float(found[0].std(1).min()) > 0
