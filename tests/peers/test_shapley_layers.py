"""The layers of ShapNets against textbook loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from shapnet_oracle import OVERLAPPING, inner, loop_layer, rows

from harsanyinet.games import all_masks, brute_force_shapley, shapley_of_table
from harsanyinet.peers.shapley_layers import ShapleyLayer, coalition_matrix, shapley_matrix, shapley_transform


class TestShapleyTransform:
    def test_of_two_and_three_players_by_hand(self):
        assert shapley_matrix(1).tolist() == [[-1.0, 1.0]]
        assert shapley_matrix(2).tolist() == [[-0.5, 0.5, -0.5, 0.5], [-0.5, -0.5, 0.5, 0.5]]
        row = [-2, 2, -1, 1, -1, 1, -2, 2]  # sixths; player 0 is in every other coalition
        torch.testing.assert_close(shapley_matrix(3)[0], torch.tensor(row, dtype=torch.float64) / 6, rtol=0, atol=1e-16)

    @pytest.mark.parametrize("k", range(1, 11))
    def test_equals_brute_force_for_any_table(self, k):
        table = rows(2**k, 3, seed=k)
        expected = torch.from_numpy(shapley_of_table(table.numpy()))
        torch.testing.assert_close(shapley_transform(table), expected, rtol=0, atol=1e-13)
        torch.testing.assert_close(shapley_transform(table.expand(2, 5, -1, -1))[1, 4], expected, rtol=0, atol=1e-13)
        assert torch.equal(coalition_matrix(k).bool(), torch.from_numpy(all_masks(k)))


class TestLayer:
    @pytest.mark.parametrize("size", [1, 2, 3, 4])
    def test_a_single_module_equals_shapiq(self, size):
        shapiq = pytest.importorskip("shapiq")
        generator = torch.Generator().manual_seed(size)
        members = [0, 2, 3, 5][:size]
        layer = ShapleyLayer([members], 3, 2, hidden=(7,), constants=True, generator=generator).double()
        values, reference = rows(6, 3, seed=1), rows(6, 3, seed=2)
        with torch.no_grad():
            got = layer((values - reference)[None], reference)[0]  # (6, 2)
            assert not got[[i for i in range(6) if i not in members]].any()
            for output in range(2):

                def game(masks, output=output):
                    mixed = [torch.where(torch.tensor(m)[:, None], values[members], reference[members]) for m in masks]
                    return np.array([inner(layer.groups[0], 0, each)[output].item() for each in mixed])

                exact = shapiq.ExactComputer(game, n_players=size)("SV", order=1)
                expected = [exact[(p,)] for p in range(size)]
                np.testing.assert_allclose(got[members, output].numpy(), expected, rtol=0, atol=1e-13)

    @pytest.mark.parametrize("hidden", [(), (5,), (4, 6)])
    @pytest.mark.parametrize("constants", [True, False])
    def test_equals_a_loop_over_modules_and_orders(self, hidden, constants):
        generator = torch.Generator().manual_seed(3)
        layer = ShapleyLayer(OVERLAPPING, 2, 3, hidden=hidden, constants=constants, generator=generator).double()
        values, reference = rows(4 * 6, 2, seed=4).view(4, 6, 2), rows(6, 2, seed=5)
        with torch.no_grad():
            got = layer(values - reference, reference)
            totals = layer.totals(values - reference, reference)
            for row in range(4):
                expected, constant = loop_layer(layer, values[row], reference)
                torch.testing.assert_close(got[row], expected, rtol=0, atol=1e-13)
                at_reference = layer.totals(torch.zeros_like(values[:1]), reference)[0]
                torch.testing.assert_close(at_reference, constant, rtol=0, atol=1e-13)
                torch.testing.assert_close(totals[row], expected.sum(0) + constant, rtol=0, atol=1e-13)

    def test_every_module_has_weights_of_its_own(self):
        layer = ShapleyLayer([(0,), (1,), (2,), (3,)], 1, 1, hidden=(8,), constants=True, generator=torch.Generator())
        assert layer(torch.ones(1, 4, 1)).unique().numel() == 4

    def test_rows_in_parts_equal_rows_at_once(self, monkeypatch):
        layer = ShapleyLayer(OVERLAPPING, 1, 2, hidden=(5,), constants=True, generator=torch.Generator()).double()
        x = rows(11, 6)[:, :, None]
        at_once = layer(x)
        monkeypatch.setattr(ShapleyLayer, "rows_at_once", lambda self: 4)
        with torch.no_grad():
            torch.testing.assert_close(layer(x), at_once.detach(), rtol=0, atol=1e-14)

    def test_any_inner_function_will_do(self):
        """The transform alone, for a function that is no perceptron, as a convolutional variant would use it."""
        x, reference = rows(5, 4), rows(1, 4, seed=1)
        mixtures = reference[:, None] + coalition_matrix(4) * (x - reference)[:, None]  # (5, 16, 4)

        def f(z):
            return torch.stack([z.prod(-1), z[..., 0].sin() * z[..., 2], z.norm(dim=-1)], -1)

        got = shapley_transform(f(mixtures))
        for row in range(5):
            game = lambda m, r=row: f(torch.where(torch.from_numpy(m), x[r], reference[0]))  # noqa: E731
            np.testing.assert_allclose(got[row], brute_force_shapley(game, 4), rtol=0, atol=1e-13)
