"""The surrogate: what it learns, its links and divergences, and that it is a game for FastSHAP."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from harsanyinet.games import all_masks
from harsanyinet.peers import FastSHAP
from harsanyinet.peers.surrogate import Surrogate

close = partial(np.testing.assert_allclose, rtol=0)
WEIGHT = torch.tensor([[1.0, -2.0], [0.5, 3.0], [2.0, 0.0], [-1.0, 1.0]], dtype=torch.float64)


def rows(n_rows: int, n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n_rows, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_a_surrogate_learns_the_conditional_mean():
    """Independent columns and a linear model: E[f(x) | x_S] is the sum over S."""
    x = rows(1000, 4)

    def model(rows: torch.Tensor) -> torch.Tensor:
        return (rows @ WEIGHT)[:, :1]

    surrogate = Surrogate(
        model, 4, 1, loss="squared", epochs=12, hidden=32, n_hidden=1, learning_rate=5e-3, progress=False
    )
    x_test = rows(200, 4, 1)
    surrogate.fit(x)
    masks = torch.from_numpy(all_masks(4))
    truth, found = (
        torch.stack([play(x_test, mask.expand(200, 4)) for mask in masks])
        for play in (lambda x, present: ((x * present) @ WEIGHT)[:, :1], surrogate)
    )
    assert (found - truth).square().mean() < 0.05 * truth.square().mean()
    assert surrogate.rows_ == 1000
    options = {"epochs": 3, "coalitions": 4, "validation_coalitions": 8, "batch_size": 16, "hidden": 8}
    values = FastSHAP(surrogate, 4, 1, progress=False, **options).fit(x).explain(x_test)
    everyone = torch.ones(200, 4, dtype=torch.bool)
    close(values.sum(1), (surrogate(x_test, everyone) - surrogate(x_test, ~everyone))[:, 0], atol=1e-12)


def test_links_and_divergences_of_a_surrogate():
    x = rows(30, 4)
    logits, other = rows(5, 3), rows(5, 3, 1)
    for k, link in ((3, "log"), (3, "probability"), (1, "log"), (1, "probability")):
        surrogate = Surrogate(
            lambda rows, k=k: rows[:, :k], 4, k, link=link, epochs=1, hidden=4, seed=1, progress=False
        ).fit(x)
        out = surrogate(x, torch.ones(30, 4, dtype=torch.bool))
        assert out.shape == (30, k)
        if k == 3:
            close((out.exp() if link == "log" else out).sum(1), 1, atol=1e-14)
        p, q = (torch.distributions.Categorical(logits=z[:, :3]) for z in (logits, other))
        if k == 1:
            p, q = (torch.distributions.Bernoulli(logits=z[:, 0]) for z in (logits, other))
        close(surrogate.divergence(other[:, :k], logits[:, :k]), torch.distributions.kl_divergence(p, q), atol=1e-14)
    assert float(out.min()) > 0
    assert float(out.max()) < 1


def test_a_surrogate_of_its_own_kind():
    x = rows(30, 4)

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4, 2, dtype=torch.float64))

        def forward(self, x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
            return (x * present) @ self.weight

    surrogate = Surrogate(
        lambda rows: rows @ WEIGHT, 4, 2, network=Own(), loss="squared", learning_rate=0.1, epochs=80, patience=80,
        progress=False,
    ).fit(x, rows(20, 4, 1))  # fmt: skip
    close(surrogate.network_.weight.detach(), WEIGHT, atol=0.3)
    grouped = Surrogate(
        lambda rows: rows[:, :2], 2, 2, columns=[0, 0, 1, 1], baseline=torch.ones(4), epochs=1, progress=False
    ).fit(x)
    one_absent = torch.tensor([[True, False]]).expand(30, 2)
    changed = x.clone()
    changed[:, 2:] = 7.0
    assert torch.equal(grouped(x, one_absent), grouped(changed, one_absent))
    assert not torch.equal(grouped(x, ~one_absent), grouped(changed, ~one_absent))


def test_errors_of_a_surrogate():
    def model(rows: torch.Tensor) -> torch.Tensor:
        return rows @ WEIGHT

    with pytest.raises(ValueError, match="loss must be 'kl' or 'squared', however: loss='hinge'"):
        Surrogate(model, 4, 2, loss="hinge")
    with pytest.raises(ValueError, match="link must be 'log' or 'probability', however: link='logit'"):
        Surrogate(model, 4, 2, link="logit")
    with pytest.raises(RuntimeError, match="fit was not called"):
        Surrogate(model, 4, 2)(rows(2, 4), torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(
        ValueError, match="columns must name the player of each column, however: 4 columns for 2 players"
    ):
        Surrogate(lambda rows: rows[:, :2], 2, 2).fit(rows(20, 4))
