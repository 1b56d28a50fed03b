"""The fit loop, against small hand-made modules and plain torch loops."""

import copy
import inspect
import math
import re
import signal
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from trained_modules import (
    Linear,
    Slope,
    linear_data,
    module_of,
    noisy_network,
    overshooting,
    random,
    same_bits,
    squared,
)

from harsanyinet import progress as progress_module
from harsanyinet.training import History, TrainingConfig, fit_module

# What it learns


@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(epochs=150, batch_size=50, learning_rate=0.1, schedule="cosine"),
        TrainingConfig(epochs=60, batch_size=50, optimizer="sgd", learning_rate=0.1, schedule="cosine"),
        TrainingConfig(epochs=60, batch_size=50, optimizer="sgd", learning_rate=0.1, momentum=0.9, schedule="onecycle"),
    ],
    ids=["adamw", "sgd", "momentum"],
)
def test_recovers_least_squares(config):
    x, y = linear_data()
    module = Linear()
    history = fit_module(module, x, y, loss=squared, config=config)
    solution = torch.linalg.lstsq(torch.cat([x, torch.ones_like(y)], dim=1), y).solution[:, 0]
    # 1e-3: mini-batches jitter until the schedule has run out
    torch.testing.assert_close(torch.cat([module.weight[0], module.bias]).detach(), solution, rtol=0, atol=1e-3)
    assert len(history.train_loss) == config.epochs
    assert history.train_loss[-1] < 0.02 < history.train_loss[0]
    assert history.validation_loss == ()
    assert history.best_epoch is None
    assert history.seconds > 0


def test_classification_with_integer_targets():
    x = random(100, 2)
    y = (x[:, 0] > 0).long()
    module = nn.Linear(2, 2).double()
    config = TrainingConfig(epochs=100, learning_rate=0.1)
    fit_module(module, x, y, loss=lambda out, y: nn.functional.cross_entropy(out, y, reduction="none"), config=config)
    assert (module(x).argmax(1) == y).double().mean() > 0.97


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_agrees_with_a_plain_loop(optimizer):
    x, y = linear_data(40)
    config = TrainingConfig(
        epochs=12,
        optimizer=optimizer,
        learning_rate=0.05,
        weight_decay=0.3,
        momentum=0.8 if optimizer == "sgd" else 0.0,
    )
    module = Linear()
    history = fit_module(module, x, y, loss=squared, config=config)

    plain, velocity, losses = Linear(), [0.0, 0.0], []
    groups = [{"params": [plain.weight], "weight_decay": 0.3}, {"params": [plain.bias], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=0.05)
    for _ in range(12):
        loss = (plain(x) - y).square().mean()
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, [plain.weight, plain.bias])
        if optimizer == "adamw":
            plain.weight.grad, plain.bias.grad = gradients
            adamw.step()
            continue
        with torch.no_grad():
            plain.weight.mul_(1 - 0.05 * 0.3)
            for i, (p, gradient) in enumerate(zip([plain.weight, plain.bias], gradients, strict=True)):
                velocity[i] = 0.8 * velocity[i] + gradient
                p.sub_(0.05 * velocity[i])
    torch.testing.assert_close(module.weight, plain.weight, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(module.bias, plain.bias, rtol=1e-12, atol=1e-12)
    assert history.train_loss == pytest.approx(losses, rel=1e-12)


# Learning rate, clipping, weight decay


# Random numbers


@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(epochs=4, batch_size=8, learning_rate=0.01),
        TrainingConfig(epochs=4, batch_size=8, learning_rate=0.01, validation_share=0.25),
    ],
    ids=["plain", "validated"],
)
def test_the_same_seed_gives_the_same_bits(config):
    x, y = linear_data(60)

    def run(seed: int) -> tuple[nn.Module, History]:
        torch.rand(3)  # wherever the global state happens to be
        module = noisy_network()
        return module, fit_module(module, x, y, loss=squared, config=config, seed=seed)

    (a, first), (b, second), (c, third) = run(5), run(5), run(6)
    assert same_bits(a, b)
    assert (first.train_loss, first.validation_loss) == (second.train_loss, second.validation_loss)
    assert not same_bits(a, c)
    assert first.train_loss != third.train_loss


class Dropping(Linear):
    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        outputs = super().forward(x, present)
        return nn.functional.dropout(outputs, 0.5, self.training)


def test_the_order_depends_on_the_seed_alone():
    x, y = linear_data(30)

    def order(module: Linear, share: float, seed: int) -> Tensor:
        config = TrainingConfig(epochs=2, batch_size=10, masked_share=share)
        fit_module(module, x, y, loss=squared, config=config, seed=seed)
        return torch.cat([x for x, _, _ in module.calls])

    rows = order(Linear(), 0.0, seed=0)
    assert torch.equal(rows, order(Linear(), 1.0, seed=0))
    assert torch.equal(rows, order(Dropping(), 0.0, seed=0))
    assert not torch.equal(rows, order(Linear(), 0.0, seed=1))
    assert not torch.equal(rows[:30], rows[30:])
    for epoch in rows.split(30):
        assert torch.equal(epoch.sort(0).values, x.sort(0).values)


def test_the_split_and_the_masks_depend_on_the_seed():
    x, y = linear_data(30)
    held_out, masks, held_out_masks = [], [], []
    for seed in (0, 1):
        module = Linear()
        config = TrainingConfig(epochs=1, validation_share=0.5, masked_share=1.0)
        fit_module(module, x, y, loss=squared, config=config, seed=seed)
        held_out.append(module.calls[1][0].sort(0).values)
        masks += module.masks(train=True)
        held_out_masks += module.masks(train=False)
    for drawn in (held_out, masks, held_out_masks):
        assert not torch.equal(*drawn)
    assert not torch.equal(masks[0], held_out_masks[0])


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_the_global_random_state_is_left_alone(share):
    x, y = linear_data(30)
    before = torch.random.get_rng_state()
    config = TrainingConfig(epochs=2, validation_share=0.2, masked_share=share)
    fit_module(Dropping(), x, y, loss=squared, config=config)
    assert torch.equal(torch.random.get_rng_state(), before)


# Validation and the best weights


def test_early_stopping_restores_the_best_weights():
    module, history, seen = overshooting(patience=3)
    # the slope after epoch e is 3 * (1 - (2/3) ** (e + 1)): 1, 1.67, 2.11, 2.41, ...
    slopes = [3 * (1 - (2 / 3) ** (e + 1)) for e in range(6)]
    assert history.validation_loss == pytest.approx([(slope - 2) ** 2 for slope in slopes])
    assert history.best_epoch == 2
    assert len(history.train_loss) == len(seen) == 6
    assert same_bits(module, module_of(seen[2]))
    assert (module.weight.item() - 2) ** 2 == pytest.approx(min(history.validation_loss), rel=1e-15)


def test_without_patience_all_epochs_run_and_the_best_is_restored():
    module, history, seen = overshooting(patience=None)
    assert len(history.train_loss) == len(seen) == 20
    assert history.best_epoch == 2
    assert same_bits(module, module_of(seen[2]))
    assert history.validation_loss[-1] > 2 * min(history.validation_loss)


def test_buffers_are_restored_and_validation_runs_in_eval_mode():
    x, y = linear_data(40)
    module, seen = noisy_network(), []
    validation = (random(30, 3, seed=3), random(30, 1, seed=4))
    history = fit_module(
        module,
        x,
        y,
        loss=squared,
        config=TrainingConfig(epochs=15, batch_size=7, learning_rate=0.05),
        validation=validation,
        on_epoch=lambda _, m: seen.append((copy.deepcopy(m.state_dict()), m.training)),
    )
    assert history.best_epoch is not None
    assert history.best_epoch < 14
    best = noisy_network()
    best.load_state_dict(seen[history.best_epoch][0])
    assert same_bits(module, best)
    assert not any(training for _, training in seen)
    assert not module.training
    expected = (module(validation[0]) - validation[1]).square().mean().item()  # 30 rows in batches of 7
    assert history.validation_loss[history.best_epoch] == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(min(history.validation_loss), rel=1e-12)


def test_a_validation_loss_that_is_not_finite_is_never_the_best():
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        bad = len(outputs) == 2 and outputs[0, 0] < 1.5  # the validation rows, in the first epoch
        return squared(outputs, targets) * (math.nan if bad else 1.0)

    _, history, _ = overshooting(epochs=4, loss=loss)
    assert math.isnan(history.validation_loss[0])
    assert history.best_epoch == 2
    with pytest.raises(FloatingPointError, match="validation loss must be finite, however: it was nan to the end"):
        overshooting(epochs=1, loss=loss)


# Interruptions and divergence


def test_ctrl_c_is_raised_and_leaves_the_best_weights():
    states, modules = [], []

    def on_epoch(epoch: int, module: nn.Module) -> None:
        modules.append(module)
        states.append(copy.deepcopy(module.state_dict()))
        if epoch == 4:
            signal.raise_signal(signal.SIGINT)

    before = torch.random.get_rng_state()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            overshooting(on_epoch=on_epoch)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert len(states) == 5
    assert same_bits(modules[0], module_of(states[2]))
    assert not modules[0].training
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("validation_share", [0.0, 0.5])
def test_ctrl_c_within_an_epoch_leaves_the_last_good_weights(validation_share):
    x, y = linear_data(20)
    module, calls, seen = Linear(), [], []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        calls.append(len(outputs))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return squared(outputs, targets)

    config = TrainingConfig(batch_size=5, validation_share=validation_share)
    with pytest.raises(KeyboardInterrupt):
        fit_module(
            module, x, y, loss=loss, config=config, on_epoch=lambda _, m: seen.append(copy.deepcopy(m.state_dict()))
        )
    assert any(all(torch.equal(module.state_dict()[k], state[k]) for k in state) for state in seen)
    assert not module.training
    assert module.weight.grad is None


def test_other_exceptions_pass_through():
    def on_epoch(epoch: int, module: nn.Module) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        overshooting(on_epoch=on_epoch)


@pytest.mark.parametrize("validated", [False, True])
def test_divergence_is_an_error_and_leaves_finite_weights(validated):
    module, states = Slope(), [torch.zeros(())]
    x, y = torch.zeros(4, 1, dtype=torch.float64), torch.ones(4, 1, dtype=torch.float64)
    with pytest.raises(FloatingPointError, match=r"diverged in epoch \d+, try a smaller learning_rate or a clip_norm"):
        fit_module(
            module,
            x,
            y,
            loss=squared,
            config=TrainingConfig(epochs=1000, optimizer="sgd", learning_rate=100.0),
            validation=(x, y) if validated else None,
            on_epoch=lambda _, m: states.append(m.weight.detach().clone()),
        )
    # each epoch is worse than the one before, thus the first is the best; without validation the last finite one stays
    assert module.weight.item() == states[1 if validated else -1].item()
    assert math.isfinite(states[-1].item())
    assert not module.training


def test_no_step_is_made_along_a_loss_that_is_not_finite():
    module = Linear()
    with pytest.raises(FloatingPointError, match=r"loss=nan, learning_rate=0\.001, clip_norm=None"):
        fit_module(
            module,
            *linear_data(20),
            loss=lambda out, y: math.nan * squared(out, y),
            config=TrainingConfig(batch_size=5),
        )
    assert len(module.calls) == 1


def test_divergence_in_the_very_last_step_is_noticed():
    module = Slope()
    x, y = torch.zeros(4, 1, dtype=torch.float64), torch.ones(4, 1, dtype=torch.float64)
    config = TrainingConfig(epochs=1, optimizer="sgd", learning_rate=1e308)
    with pytest.raises(FloatingPointError, match="diverged in epoch 0"):
        fit_module(module, x, y, loss=lambda out, y: 10 * squared(out, y), config=config)
    assert module.weight.item() == 0.0


# Random masks


# A step of one's own


# Rows, weights and batches


def test_what_is_left_behind():
    x, y = linear_data(20)
    module, frozen = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)).double(), random(4, 3)
    module[0].weight.requires_grad_(False).copy_(frozen)
    epochs = []
    config = TrainingConfig(epochs=3, weight_decay=0.1)
    fit_module(module, x, y, loss=squared, config=config, on_epoch=lambda epoch, _: epochs.append(epoch))
    assert epochs == [0, 1, 2]
    assert torch.equal(module[0].weight, frozen)
    assert not module.training
    assert all(p.grad is None for p in module.parameters())


# Progress


def test_a_short_run_shows_nothing(capfd):
    fit_module(Linear(), *linear_data(20), loss=squared, config=TrainingConfig(epochs=5))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("validated", [True, False])
def test_the_bar_shows_the_losses(capfd, monkeypatch, progress, validated):
    bar = progress_module.tqdm
    monkeypatch.setattr(progress_module, "visible", lambda progress: progress)
    monkeypatch.setattr(progress_module, "tqdm", lambda **options: bar(**options | {"delay": 1e-9, "mininterval": 0}))
    config = TrainingConfig(epochs=5, validation_share=0.5 * validated)
    fit_module(Linear(), *linear_data(20), loss=squared, config=config, progress=progress)
    out, err = capfd.readouterr()
    assert out == ""
    assert ("5/5" in err and "train=" in err) == progress
    assert ("validation=" in err) == (progress and validated)


# Errors


def test_it_does_not_know_the_model():
    for path in Path(inspect.getfile(fit_module)).parent.glob("*.py"):
        source = re.sub(r"from harsanyinet\.(training[.\w]*|files|progress|extras) import .*", "", path.read_text())
        assert "arsanyi" not in source, path
