"""FastSHAP: its loss by enumeration, its coalitions, its training on games with known answers."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import comb

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from harsanyinet import HarsanyiMLP
from harsanyinet.games import all_masks, brute_force_shapley, evaluate
from harsanyinet.peers import fast
from harsanyinet.peers.fast import FastSHAP, coalition_loss, draw_coalitions, normalised, size_law
from harsanyinet.training import TrainingConfig, fit_module

close = partial(np.testing.assert_allclose, rtol=0)
WEIGHT = torch.tensor([[1.0, -2.0], [0.5, 3.0], [2.0, 0.0], [-1.0, 1.0]], dtype=torch.float64)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(n_rows: int, n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n_rows, n, dtype=torch.float64, generator=generator(seed))


def linear(x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    return 5.0 + (x * present) @ WEIGHT


def quick(game=linear, n: int = 4, k: int = 2, **options) -> FastSHAP:
    settings = {"epochs": 3, "coalitions": 4, "validation_coalitions": 8, "batch_size": 16, "hidden": 8}
    return FastSHAP(game, n, k, progress=False, **{**settings, **options})


class Diagonal(nn.Module):
    """x_i times one weight per player and output: linear, without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 2, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :, None] * self.weight


# the loss


def enumerated(table: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All coalitions of four players as often as the kernel has them: sizes 1, 2, 3 have chances 4/11, 3/11, 4/11."""
    masks = all_masks(4)
    times = np.array([0, 2, 1, 2, 0])[masks.sum(1)]  # 2 of 22, 1 of 22 and 2 of 22 each
    present, values = np.repeat(masks, times, 0), np.repeat(table - table[0], times, 0)
    return torch.from_numpy(present)[None], torch.from_numpy(values)[None], torch.from_numpy(table[-1] - table[0])[None]


def minimiser(present: torch.Tensor, gains: torch.Tensor, total: torch.Tensor, normalise: bool) -> torch.Tensor:
    """One free vector instead of a network: the loss is quadratic, so one Newton step is enough."""
    start = torch.zeros(1, 4, 1, dtype=torch.float64)

    def loss(raw: torch.Tensor) -> torch.Tensor:
        return coalition_loss(raw.view(1, 4, 1), present, gains, total, normalise=normalise)[0]

    gradient = torch.autograd.functional.jacobian(loss, start.flatten())
    hessian = torch.autograd.functional.hessian(loss, start.flatten())
    return -(torch.linalg.pinv(hessian, hermitian=True) @ gradient).view(1, 4, 1)


def test_the_shapley_value_minimises_the_loss():
    table = np.random.default_rng(0).normal(size=(16, 1))
    phi = brute_force_shapley(lambda masks: table[masks @ 2 ** np.arange(4)], 4)
    present, gains, total = enumerated(table)
    found = minimiser(present, gains, total, normalise=True)
    close(normalised(found, total)[0], phi, atol=1e-14)
    free = minimiser(present, gains, total, normalise=False)
    assert np.abs(free[0].numpy() - phi).max() > 0.01
    close(normalised(free, total)[0], phi, atol=1e-9)
    at_the_end = coalition_loss(torch.from_numpy(phi)[None], present, gains, total)
    assert float(at_the_end) > 0.1  # positive: this game is not additive
    close(coalition_loss(found, present, gains, total), at_the_end, atol=1e-13)
    for _ in range(20):
        other = torch.from_numpy(phi)[None] + 0.1 * rows(4, 1)[None]
        assert coalition_loss(other, present, gains, total) > at_the_end
    additive = all_masks(4) @ np.array([[1.0], [2.0], [-3.0], [0.5]])
    present, gains, total = enumerated(additive)
    close(coalition_loss(torch.tensor([[[1.0], [2.0], [-3.0], [0.5]]]).double(), present, gains, total), 0, atol=1e-25)


def test_the_loss_by_hand():
    raw = torch.tensor([[[1.0], [2.0], [0.5]]])
    present, gains, total = torch.tensor([[[True, False, True]]]), torch.tensor([[[2.0]]]), torch.tensor([[5.0]])
    close(coalition_loss(raw, present, gains, total), 3 * (2.5 - 2.0) ** 2, atol=1e-6)  # (1.5, 2.5, 1.0)
    close(coalition_loss(raw, present, gains, total, normalise=False), 3 * 0.5**2, atol=1e-6)
    close(
        coalition_loss(raw, present, gains, total, normalise=False, penalty=0.1),
        3 * (0.25 + 0.1 * 1.5**2),
        atol=1e-6,
    )


def test_the_loss_is_one_number_per_row():
    """A mean over coalitions and outputs, so that more of them do not weigh more."""
    raw, total = rows(3 * 4, 2).view(3, 4, 2), rows(3, 2, 1)
    present, gains = draw_coalitions(3, 6, 4, generator=generator()), rows(3 * 6, 2, 2).view(3, 6, 2)
    each = coalition_loss(raw, present, gains, total)
    single = [
        [coalition_loss(raw[b : b + 1, :, k : k + 1], present[b : b + 1, [m]], gains[b : b + 1, [m], k : k + 1],
                        total[b : b + 1, k : k + 1]).item() for m in range(6) for k in range(2)]
        for b in range(3)
    ]  # fmt: skip
    close(each, np.mean(single, axis=1), atol=1e-13)


def test_gradients_flow_through_the_correction_and_not_through_the_game():
    raw = torch.tensor([[[1.0], [2.0], [0.5]]], requires_grad=True)
    gains, total = torch.tensor([[[2.0]]], requires_grad=True), torch.tensor([[5.0]], requires_grad=True)
    loss = coalition_loss(raw, torch.tensor([[[True, False, True]]]), gains, total, penalty=1.0)
    loss.sum().backward()
    assert gains.grad is None
    assert total.grad is None
    of_sum = 3 * 2 * (3.5 - 5.0)  # of the penalty
    # d/de of (phi_0 + phi_2 - 2)^2 with phi = e + (5 - sum e) / 3: 1/3 inside the coalition, -2/3 outside
    inner = 3 * 2 * 0.5
    expected = [inner / 3 + of_sum, -2 * inner / 3 + of_sum, inner / 3 + of_sum]
    close(raw.grad[0, :, 0], expected, atol=1e-5)


# the coalitions


@pytest.mark.parametrize("n", [2, 5, 12])
def test_size_law(n):
    law = size_law(n).numpy()
    harmonic = sum(1 / i for i in range(1, n))
    close(law, [n / (2 * harmonic * s * (n - s)) for s in range(1, n)], atol=1e-15)
    close(law.sum(), 1, atol=1e-15)


@pytest.mark.parametrize("paired", [True, False])
def test_sizes_and_members_by_chi_square(paired):
    stats = pytest.importorskip("scipy.stats")
    n = 6
    drawn = draw_coalitions(4000, 10, n, paired=paired, generator=generator()).numpy()
    assert drawn.shape == (4000, 10, n)
    single = drawn[:, :5].reshape(-1, n) if paired else drawn.reshape(-1, n)  # pairs are not independent
    sizes = np.bincount(single.sum(1), minlength=n + 1)
    assert sizes[0] == sizes[n] == 0
    law = size_law(n).numpy()
    assert stats.chisquare(sizes[1:n], len(single) * law).pvalue > 0.01
    uniform = np.array([comb(n, s) for s in range(1, n)]) / (2**n - 2)  # sizes of Banzhaf's coalitions
    assert stats.chisquare(sizes[1:n], len(single) * uniform).pvalue < 1e-6
    codes, each = single @ 2 ** np.arange(n), np.array([0, *(law / [comb(n, s) for s in range(1, n)]), 0])
    chance = each[all_masks(n).sum(1)]
    counts = np.bincount(codes, minlength=2**n)
    assert stats.chisquare(counts[1:-1], len(single) * chance[1:-1]).pvalue > 0.01


def test_pairs_are_complements_and_rows_differ():
    drawn = draw_coalitions(50, 8, 6, paired=True, generator=generator())
    assert torch.equal(drawn[:, :4], ~drawn[:, 4:])
    assert len({tuple(row.flatten().tolist()) for row in drawn}) == 50
    assert draw_coalitions(3, 5, 6, paired=False, generator=generator()).shape == (3, 5, 6)


def test_normalised_values_add_up():
    total = rows(7, 3)
    values = normalised(rows(7 * 5, 3, 1).view(7, 5, 3), total)
    close(values.sum(1), total, atol=1e-14)


# training


@pytest.mark.parametrize("explainer", ["dense", "diagonal"])
def test_a_linear_explainer_of_a_linear_model_converges(explainer):
    module: nn.Module = Diagonal()
    if explainer == "dense":
        module = nn.utils.skip_init(nn.Linear, 4, 8, bias=False, dtype=torch.float64)
        nn.init.zeros_(module.weight)
    x = rows(64, 4)
    method = quick(
        explainer=module, learning_rate=0.05, min_learning_rate=1e-9, epochs=100, patience=20, batch_size=32
    ).fit(x)
    close(method.explain(x), (x[:, :, None] * WEIGHT).numpy(), atol=1e-3)
    assert not next(module.parameters()).any()  # a copy was trained
    assert method.history_.validation_loss[-1] < 1e-4 * method.history_.validation_loss[0]


@pytest.fixture(scope="module")
def trained() -> HarsanyiMLP:
    """A network with two outputs, five players and pairs that matter."""
    x = rows(400, 5)
    pairs = [x[:, 0] * x[:, 1] + x[:, 2] - x[:, 3].abs() * x[:, 4], x[:, 3] * x[:, 4] + x[:, 0]]
    options = {"n_blocks": 2, "width": 20, "initial_children": 2, "gamma": 1.0, "dtype": torch.float64}
    net = HarsanyiMLP(5, 2, **options)
    config = TrainingConfig(epochs=20, learning_rate=2e-2, batch_size=64)
    fit_module(
        net, x, torch.stack(pairs, 1), loss=lambda out, y: (out - y).square().mean(1), config=config, progress=False
    )
    return net


def test_on_a_trained_network_with_interactions(trained):
    x, x_test = rows(1500, 5, 1), rows(40, 5, 2)
    truth = np.stack([brute_force_shapley(trained.game(x_test, row), 5) for row in range(40)])
    dividends = trained.explain(x_test)
    assert np.abs(dividends.dividends[:, dividends.coalitions.sum(1) > 1]).sum() > 10  # it has interactions

    def error(values: np.ndarray) -> np.ndarray:  # the mean of roots, per output
        return np.sqrt(((values - truth) ** 2).mean(1)).mean(0)

    options = {"coalitions": 8, "batch_size": 32, "learning_rate": 2e-3, "epochs": 20, "hidden": 64}
    method = quick(trained, 5, 2, **options).fit(x)
    values = method.explain(x_test)
    total = (trained(x_test) - trained.base).detach().numpy()
    close(values.sum(1), total, atol=1e-12)
    assert (error(values) < error(np.zeros_like(truth)) / 3).all()
    assert (error(values) < error(np.repeat(total[:, None] / 5, 5, 1)) / 3).all()
    assert method.rows_ == len(method.history_.train_loss) * 1400 * 8 + 1400 + 100 * (8 + 1)
    assert method.seconds_ > 0

    # its loss is above that of the exact values on the same coalitions, and much nearer to it than that of zero
    present = draw_coalitions(40, 200, 5, generator=generator(3))
    gains = torch.stack([torch.from_numpy(trained.game(x_test, i)(present[i].numpy())) for i in range(40)])
    base = trained.base.detach()
    losses = [
        float(coalition_loss(torch.from_numpy(v), present, gains - base, torch.from_numpy(total)).mean())
        for v in (truth, values, np.zeros_like(truth))
    ]
    assert 0 < losses[1] - losses[0] < 0.1 * (losses[2] - losses[0])


def test_the_base_value_and_the_rows_it_costs(trained):
    """v(empty) may depend on the row in a game that holds other inputs fixed, and is asked of every row there."""

    def shifted(x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        return linear(x, present) + 100 * x[:, :1]

    x = rows(50, 4)
    plain, moved = quick().fit(x), quick(shifted).fit(x)
    close(plain.explain(x), moved.explain(x), atol=1e-4)  # the explainer works in float32
    assert plain.rows_ == 3 * 45 * 4 + 2 * 45 + 5 * (8 + 2)
    known = nn.Identity().eval()  # anything that says what v(empty) is
    known.base, known.forward = torch.full((2,), 5.0, dtype=torch.float64), linear
    spared = quick(known).fit(x)
    assert spared.rows_ == plain.rows_ - 45 - 5
    close(plain.explain(x), spared.explain(x), atol=1e-4)
    assert quick(trained, 5, 2).fit(rows(50, 5)).rows_ == 3 * 45 * 4 + 45 + 5 * (8 + 1)


def test_same_seed_same_bits_and_no_global_state():
    x, dropping = rows(60, 4), nn.Sequential(Diagonal(), nn.Dropout(0.3))
    with torch.random.fork_rng():
        for options in ({}, {"explainer": dropping}):
            torch.manual_seed(1)
            np.random.seed(1)  # noqa: NPY002
            before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
            first = quick(seed=3, **options).fit(x)
            assert torch.equal(torch.get_rng_state(), before)
            assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
            torch.manual_seed(2)
            second, other = quick(seed=3, **options).fit(x), quick(seed=4, **options).fit(x)
            assert np.array_equal(first.explain(x), second.explain(x))
            assert np.array_equal(first.explain(x), first.fit(x).explain(x))
            assert first.history_.train_loss == second.history_.train_loss
            assert not np.array_equal(first.explain(x), other.explain(x))


def test_the_best_weights_are_kept_and_the_rate_is_halved():
    x, seen = rows(60, 4), []
    watch = register_optimizer_step_pre_hook(lambda optimizer, *_: seen.append(optimizer.param_groups[0]["lr"]))
    method = quick(learning_rate=0.5, min_learning_rate=0.1, epochs=60, patience=6, hidden=32).fit(x, rows(20, 4, 5))
    watch.remove()
    history = method.history_
    assert history.best_epoch == int(np.argmin(history.validation_loss))
    assert len(history.validation_loss) == min(60, history.best_epoch + 7)  # stopped
    assert len(history.validation_loss) < 60
    assert method.converged_
    assert not quick(epochs=1).fit(rows(60, 4)).converged_
    drops = sorted({b / a for a, b in pairwise(seen) if a != b})
    assert 0.5 in drops
    assert min(seen) >= 0.1
    # the loss on the validation rows, once more, with the kept weights and the very coalitions
    seeds = np.random.SeedSequence(0).generate_state(6).tolist()
    held_out = rows(20, 4, 5)
    present = draw_coalitions(20, 8, 4, generator=generator(seeds[3]))
    gains = torch.einsum("bn,bmn,nk->bmk", held_out, present.double(), WEIGHT)
    again = coalition_loss(torch.from_numpy(method.explain(held_out)), present, gains, held_out @ WEIGHT).mean()
    close(again, min(history.validation_loss), atol=1e-5 * max(1.0, float(again)))


def test_an_interrupt_is_raised():
    calls = []

    def game(x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        if len(calls) > 12:
            raise KeyboardInterrupt
        return linear(x, present)

    with pytest.raises(KeyboardInterrupt):
        quick(game, epochs=50).fit(rows(40, 4))


def test_without_normalisation():
    x, played = rows(60, 4), []

    def game(x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        played.append(len(x))
        return linear(x, present)

    raw = quick(game, normalise=False, penalty=0.01).fit(x)
    assert sum(played) == raw.rows_
    assert np.abs(raw.explain(x).sum(1) - (x @ WEIGHT).numpy()).max() > 0.1
    assert sum(played) == raw.rows_  # no model row
    long = quick(normalise=False, penalty=1.0, explainer=Diagonal(), learning_rate=0.05, epochs=80, patience=80).fit(x)
    close(long.explain(x), (x[:, :, None] * WEIGHT).numpy(), atol=1e-2)


def test_maps_and_single_outputs():
    def cells(x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        return (x.flatten(1) * present).sum(1)

    conv = nn.utils.skip_init(nn.Conv2d, 1, 1, 1)
    nn.init.ones_(conv.weight)
    nn.init.zeros_(conv.bias)
    x = rows(30, 6).view(30, 1, 2, 3)
    method = quick(cells, 6, 1, explainer=conv, epochs=1, learning_rate=1e-9).fit(x)
    assert method.explain(x).shape == (30, 6)
    close(method.explain(x), x.flatten(1), atol=1e-6)
    assert quick(cells, 6, 1).fit(x).explain(x[:0]).shape == (0, 6)
    assert quick(cells, 6, 1, n_hidden=0).fit(x.numpy()).explain(x.numpy()).shape == (30, 6)
    assert quick(cells, 6, 1).fit(x[:3]).explain(x[:3]).shape == (3, 6)  # too few rows to hold some out


def test_pieces_of_rows_change_nothing(monkeypatch):
    x = rows(60, 4)
    whole = quick().fit(x).explain(x)
    monkeypatch.setattr(fast, "CHUNK", 7)
    close(quick().fit(x).explain(x), whole, atol=1e-6)


def test_errors(trained):
    x = rows(40, 4)
    with pytest.raises(ValueError, match="n_players must be at least 2, however: n_players=1"):
        quick(n=1)
    with pytest.raises(ValueError, match="coalitions must be positive and even, for pairs, however: coalitions=3"):
        quick(coalitions=3)
    with pytest.raises(ValueError, match="coalitions must be positive, however: coalitions=0"):
        quick(coalitions=0, paired=False)
    with pytest.raises(ValueError, match="epochs must be a positive integer, however: epochs=0"):
        quick(epochs=0)
    with pytest.raises(ValueError, match=r"learning_rate must be positive, however: learning_rate=0\.0"):
        quick(learning_rate=0.0)
    with pytest.raises(ValueError, match=r"penalty must be at least zero, however: penalty=-1\.0"):
        quick(penalty=-1.0)
    with pytest.raises(ValueError, match="explainer must have a parameter that requires a gradient"):
        quick(explainer=nn.Flatten())
    with pytest.raises(RuntimeError, match="explain needs a trained explainer, however: fit was not called"):
        quick().explain(x)
    with pytest.raises(ValueError, match=r"x must hold rows of several columns, however: its shape is \(0, 4\)"):
        quick().fit(x[:0])
    with pytest.raises(ValueError, match=r"the game must return \(36, 3\), however: \(36, 2\)"):
        quick(k=3).fit(x)
    with pytest.raises(ValueError, match=r"explainer must return \(rows, 4, 2\), \(rows, 8\) or maps"):
        quick(explainer=nn.utils.skip_init(nn.Linear, 4, 7)).fit(x)
    with pytest.raises(ValueError, match="the network must be in evaluation mode"):
        quick(HarsanyiMLP(4, 2, dtype=torch.float64)).fit(x)
    with pytest.raises(FloatingPointError, match="training diverged in epoch 0, try a smaller learning_rate"):
        quick(lambda x, present: linear(x, present) * float("nan")).fit(x)


def test_the_trained_values_are_of_this_game(trained):
    """The callable of rows and masks is the network's own game."""
    x = rows(1, 5)
    masks = all_masks(5)
    played = trained(x.expand(32, 5), torch.from_numpy(masks)).detach().numpy()
    close(played, evaluate(trained.game(x), 5), atol=1e-14)
