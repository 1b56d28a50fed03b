"""Games of rows: what counts as a row, and what a game must return."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sampled_games import interacting_net
from torch import nn

from harsanyinet import HarsanyiMLP
from harsanyinet.games import all_masks, brute_force_shapley
from harsanyinet.peers.estimates import (
    kernel_shap,
    sampling,
)
from harsanyinet.peers.row_games import CountingGame, model_game


def test_counting():
    calls = []

    def game(masks):
        calls.append(len(masks))
        return masks.sum(axis=1, dtype=np.float32)

    counted = CountingGame(game, 4, max_rows=10)
    out = counted(all_masks(4)[:13])
    assert calls == [10, 3]
    assert counted.rows == 13
    assert out.dtype == np.float64
    np.testing.assert_array_equal(out, all_masks(4)[:13].sum(axis=1))
    assert counted.play(all_masks(4)).shape == (16, 1)
    before = counted.rows
    np.testing.assert_array_equal(counted.ends(), counted.ends())
    assert counted.ends().tolist() == [[0.0], [4.0]]
    assert counted.rows == before + 2
    for seed in range(2):  # the ends are kept, and count for every method
        assert sampling(counted, 4, 8, seed=seed).evaluations == 8
    assert counted.rows == before + 2 + 12
    np.testing.assert_allclose(brute_force_shapley(counted, 4), 1.0)  # itself a game
    assert counted(np.zeros((0, 4), dtype=bool)).shape == (0,)


def test_games_of_tensors_and_of_one_buffer():
    weights = torch.tensor([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]], requires_grad=True)
    found = sampling(lambda masks: torch.from_numpy(masks).float() @ weights, 3, 20)
    np.testing.assert_allclose(found.values, weights.detach().numpy(), atol=1e-6)
    buffer = np.empty(100)

    def reused(masks):
        buffer[: len(masks)] = masks @ [1.0, 2.0, 3.0]
        return buffer[: len(masks)]

    np.testing.assert_allclose(kernel_shap(CountingGame(reused, 3, max_rows=7), 3, 50).values, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(CountingGame(reused, 3, max_rows=3)(all_masks(3)), all_masks(3) @ [1.0, 2.0, 3.0])


BAD_GAMES = {
    "for 2 masks, however: ()": lambda masks: 1.0,
    "for 2 masks, however: (1,)": lambda masks: np.ones(1),
    "for 2 masks, however: (2, 1, 1)": lambda masks: np.ones((len(masks), 1, 1)),
    "finite values, however: nan": lambda masks: np.where(masks.all(axis=1), np.nan, 0.0),
    "finite values, however: inf": lambda masks: np.where(masks.sum(axis=1) == 1, np.inf, 0.0),
    "in every call, however: (2,), (3,)": lambda masks: np.ones((len(masks), 2 if len(masks) == 2 else 3)),
}


@pytest.mark.parametrize("sentence", BAD_GAMES)
def test_what_a_game_must_return(sentence):
    with pytest.raises(ValueError, match="a game must return") as error:
        sampling(BAD_GAMES[sentence], 3, 100)
    assert sentence in str(error.value)


def test_masks_of_a_counting_game():
    game = CountingGame(lambda masks: masks.sum(axis=1), 3)
    for masks in (np.ones((2, 3)), np.ones((2, 4), dtype=bool), np.ones(3, dtype=bool)):
        with pytest.raises(ValueError, match=r"masks must be bool of shape \(m, 3\), however"):
            game(masks)
    with pytest.raises(ValueError, match="max_rows must be a whole number of at least 1, however: max_rows=0"):
        CountingGame(game, 3, max_rows=0)
    with pytest.raises(ValueError, match="n_players must be the 3 of the game, however: n_players=4"):
        sampling(game, 4, 100)


def test_a_game_of_a_plain_network():
    n = 5
    net = interacting_net(n)
    x = torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    baseline = torch.linspace(-1, 1, n, dtype=torch.float64)
    masks = all_masks(n)
    for base, used in ((None, torch.zeros(n, dtype=torch.float64)), (baseline, baseline), (baseline[None], baseline)):
        with torch.no_grad():
            expected = torch.stack([net(torch.where(torch.tensor(m), x, used)) for m in masks]).numpy()
        for row in (x, x[None]):
            out = model_game(net, row, baseline=base)(masks)
            np.testing.assert_allclose(out, expected, rtol=0, atol=1e-13)
            np.testing.assert_allclose(model_game(net, row, baseline=base, output=1)(masks), expected[:, 1], atol=1e-13)
    x = x.requires_grad_()
    assert sampling(model_game(net, x), n, 100).values.shape == (n, 3)
    assert all(p.grad is None for p in net.parameters())
    flat = nn.Sequential(nn.Linear(n, 1), nn.Flatten(0)).double().eval()  # a network that returns (m,)
    np.testing.assert_allclose(
        sampling(model_game(flat, x), n, 6).values, (flat[0].weight[0] * x).detach().numpy(), atol=1e-14
    )


def test_a_game_of_an_image():
    net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(6, 2)).double().eval()
    x = torch.randn(1, 2, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = np.random.default_rng(0).random((4, 12)) < 0.5
    with torch.no_grad():
        expected = net(x * torch.from_numpy(mask).view(4, 2, 2, 3)).numpy()
    np.testing.assert_allclose(model_game(net, x)(mask), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("gate", ["activation", "presence"])
def test_a_game_of_a_harsanyi_network(gate):
    """Masks reach `present`: columns of one player go together, and zero is a value where the gate is presence."""
    net = HarsanyiMLP(6, 2, n_blocks=2, width=16, gate=gate, columns=[0, 1, 1, 2, 3, 4], seed=0).double().eval()
    x = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = net.explain(x).values
    for b in range(3):
        game = model_game(net, x[b])
        np.testing.assert_allclose(brute_force_shapley(game, 5), exact[b], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(game(all_masks(5)), net.game(x, b)(all_masks(5)))
    with pytest.raises(ValueError, match="baseline must be None for a network that takes `present`"):
        model_game(net, x[0], baseline=torch.zeros(6))


def test_errors_of_a_game_of_a_network():
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    x = torch.ones(4)
    with pytest.raises(RuntimeError, match="in evaluation mode, however: it is in training mode"):
        model_game(net, x)
    game = model_game(net.eval(), x)
    assert game(all_masks(4)).shape == (16, 2)
    net[1].train()  # one layer is enough
    with pytest.raises(RuntimeError, match="in evaluation mode, however: it is in training mode"):
        game(all_masks(4))
    net.eval()
    with pytest.raises(ValueError, match="masks must have 4 columns, one per entry of x, however"):
        game(all_masks(3))
    for output in (2, -1):
        with pytest.raises(ValueError, match=f"output must name a column .*, however: output={output}"):
            model_game(net, x, output=output)(all_masks(4))
    for row in (torch.ones(2, 4), torch.tensor(1.0), torch.ones(0, 4)):
        with pytest.raises(ValueError, match="x must be one row"):
            model_game(net, row)
