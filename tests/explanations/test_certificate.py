from __future__ import annotations

import dataclasses
import json
import pickle

import numpy as np
import pytest
import torch

from harsanyinet import HarsanyiMLP, HarsanyiRegressor, verify


def net_of(n: int = 5, gate: str = "presence", cls=HarsanyiMLP, **options) -> HarsanyiMLP:
    return cls(n, 2, width=12, n_blocks=2, gate=gate, seed=3, **options).double().eval()


def rows(n: int = 5, b: int = 3) -> torch.Tensor:
    return torch.rand(b, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1


def failures(certificate) -> set[str]:
    return {check.name for check in certificate.checks if not check.passed}


VALUE, SHAPLEY = "v(S) from the dividends = masked forward pass", "Shapley values = brute force"
SUM, BASE = "sum of values = v(x) - v(empty)", "base value = v(empty)"
PLAYERS, SETS = "players of the trees follow from their questions", "coalitions are sets of players of one tree"
FIELDS, COALITIONS = "receptive fields follow from the children", "coalitions are the receptive fields"


@pytest.mark.parametrize("gate", ["activation", "presence"])
@pytest.mark.parametrize("connect", ["previous", "all"])
@pytest.mark.parametrize("n", [1, 5, 20])
def test_sound_networks_pass(gate, connect, n):
    certificate = verify(net_of(n, gate, connect=connect), rows(n))
    assert certificate.passed
    assert failures(certificate) == set()
    scopes = {check.name: check.scope for check in certificate.checks}
    assert scopes[VALUE] == scopes[SHAPLEY] == ("proved" if n <= 16 else "sampled")
    assert certificate.largest_output > 0
    assert max(check.error or 0 for check in certificate.checks) < 1e-13
    assert sum(certificate.order_spectrum) == pytest.approx(1)


class BiasAfterTheGate(HarsanyiMLP):
    """Adds a constant between gate and readout. The base value is moved along, so that all sums add up."""

    def units(self, x, present=None):
        zs = super().units(x, present)
        return [zs[0] + 0.5, *zs[1:]]


class ResidualFromANonChild(HarsanyiMLP):
    """Adds a neighbour's activation to each unit: sums add up, R1 does not hold."""

    def units(self, x, present=None):
        zs = super().units(x, present)
        return [zs[0] + torch.roll(zs[0], 1, dims=1), *zs[1:]]


class FieldMissesAPlayer(HarsanyiMLP):
    """Claims smaller receptive fields than its children have."""

    def chosen_children(self):
        masks = super().chosen_children()
        masks[0] = masks[0].clone()
        wide = masks[0].sum(1) > 1
        masks[0][wide, masks[0][wide].float().argmax(1)] = False
        return masks


class SilentFieldError(HarsanyiMLP):
    """Keeps the children as they are and reports receptive fields that miss a player."""

    def fields_of(self, chosen):
        first, *others = super().fields_of(chosen)
        wide = first.sum(1) > 1
        first[wide, first[wide].float().argmax(1)] = False
        return [first, *others]


@pytest.mark.parametrize("n", [5, 20])
def test_broken_networks_fail_although_their_sums_add_up(n):
    certificate = verify(net_of(n, cls=ResidualFromANonChild), rows(n))
    assert failures(certificate) == {VALUE, SHAPLEY}
    certificate = verify(net_of(n, cls=FieldMissesAPlayer), rows(n))
    assert failures(certificate) == {VALUE, SHAPLEY}
    certificate = verify(net_of(n, cls=SilentFieldError), rows(n))
    assert failures(certificate) == {VALUE, SHAPLEY, FIELDS, COALITIONS}

    # A constant after the gate goes to the players it does not belong to; with readouts that cancel it in the sum,
    # efficiency and the base value hold to the last digit.
    net = net_of(n, cls=BiasAfterTheGate)
    with torch.no_grad():
        net.readouts[0] -= net.readouts[0].mean((1, 2), keepdim=True)
    certificate = verify(net, rows(n))
    assert failures(certificate) == {VALUE, SHAPLEY}
    assert not certificate.passed


def test_a_bias_that_moves_the_base_value_is_found_too():
    assert BASE in failures(verify(net_of(cls=BiasAfterTheGate), rows()))


def test_float32_has_its_own_tolerance_and_it_can_be_tightened():
    net, x = net_of(8).float(), rows(8).float()
    assert verify(net, x).tolerance == 1e-5
    assert verify(net, x).passed
    assert not verify(net, x, tolerance=1e-12).passed


def test_json_and_table():
    certificate = verify(net_of(), rows(b=30), max_rows=4)
    data = json.loads(certificate.to_json())
    assert data["passed"] is True
    assert data["n_rows"] == 4
    assert {check["scope"] for check in data["checks"]} == {"proved"}
    assert set(data["versions"]) == {"harsanyinet", "torch", "numba", "numpy", "python"}
    text = str(certificate)
    assert text.startswith("PASSED: 4 rows, 5 players, 2 outputs; 12 + 12 units")
    assert "all 32 masks of 4 rows" in text
    assert "order spectrum: 1: " in text


def test_no_rows():
    with pytest.raises(ValueError, match="at least one row"):
        verify(net_of(), rows(b=0))
    with pytest.raises(ValueError, match="at least one row, however: 3 rows, max_rows=0"):
        verify(net_of(), rows(), max_rows=0)


def test_a_large_constant_or_another_output_does_not_hide_an_error():
    """A regression on prices in float32: the base value is 1e5 times the game; and one output 1e6 times the other."""
    sound, broken = net_of().float(), net_of(cls=ResidualFromANonChild).float()
    for net in (sound, broken):
        with torch.no_grad():
            net.base[0] = 1e4
            net.readouts[0][1] *= 1e-6
            net.readouts[1][1] *= 1e-6
    assert verify(sound, rows().float()).passed
    certificate = verify(broken, rows().float())
    assert not certificate.passed
    assert certificate.worst_error < 1e-3  # beside the largest output it looks small


def test_nan_in_the_output_fails():
    net = net_of()
    with torch.no_grad():
        net.base[0] = float("nan")
    certificate = verify(net, rows())
    assert not certificate.passed
    assert json.loads(certificate.to_json())["worst_error"] in ("inf", "nan")


@pytest.mark.parametrize("n", [4, 20])
def test_trees(n):
    x = np.random.default_rng(0).normal(size=(200, n))
    model = HarsanyiRegressor(max_iter=20, learning_rate=0.2, random_state=0, progress=False)
    model.fit(x, x[:, 0] * x[:, 1] + x[:, 2])
    certificate = verify(model, x[:3])
    assert certificate.passed
    assert [check.name for check in certificate.checks] == [PLAYERS, SETS, VALUE, SHAPLEY, SUM, BASE]
    assert certificate.tolerance == 1e-12
    assert certificate.n_units == (len(model.trees_),)
    model = pickle.loads(pickle.dumps(model))  # without the tables that are planned already
    shapes = [dataclasses.replace(s, players=(s.players + 1) % n) for s in model.trees_.shapes]  # those beside its own
    model.trees_ = dataclasses.replace(model.trees_, shapes=tuple(shapes))
    assert failures(verify(model, x[:3])) >= {PLAYERS, VALUE, SHAPLEY} | ({SETS} if n == 20 else set())
