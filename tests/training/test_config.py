"""Settings of a training, and its learning rates."""

import itertools
import math

import pytest
import torch
from torch import nn
from trained_modules import Slope

from harsanyinet.training import TrainingConfig, fit_module
from harsanyinet.training.config import learning_rate_factor, plateau_factor


def test_learning_rate_factors():
    assert [learning_rate_factor("constant", step, 4) for step in range(4)] == [1.0] * 4
    half = math.sqrt(0.5) / 2
    cosine = [learning_rate_factor("cosine", step, 4) for step in range(5)]
    assert cosine == pytest.approx([1.0, 0.5 + half, 0.5, 0.5 - half, 0.0], abs=1e-15)
    cycle = [learning_rate_factor("onecycle", step, 40) for step in range(41)]
    assert cycle[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert cycle[4:] == pytest.approx([learning_rate_factor("cosine", step, 36) for step in range(37)])
    assert learning_rate_factor("onecycle", 0, 1) == 1.0


@pytest.mark.parametrize("schedule", ["constant", "cosine", "onecycle"])
def test_the_schedule_runs_per_step_over_all_epochs(schedule):
    module, positions = Slope(), [0.0]  # the gradient is 1, so that each step is as long as its learning rate
    fit_module(
        module,
        torch.zeros(6, 1, dtype=torch.float64),
        torch.zeros(6, 1, dtype=torch.float64),
        loss=lambda out, y: (out - y)[:, 0],
        config=TrainingConfig(epochs=10, batch_size=3, optimizer="sgd", learning_rate=0.5, schedule=schedule),
        on_epoch=lambda _, m: positions.append(m.weight.item()),
    )
    rates = [0.5 * learning_rate_factor(schedule, step, 20) for step in range(20)]
    steps = [before - after for before, after in itertools.pairwise(positions)]
    assert steps == pytest.approx([a + b for a, b in zip(rates[::2], rates[1::2], strict=True)])


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_the_plateau_is_that_of_torch(patience):
    losses = [5.0, 4.0, 3.9999, 3.9998, 4.1, 4.0, 4.2, 3.0, 3.5, 3.5, 3.0, 2.9999999, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6]
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience)
    for n_epochs, loss in enumerate(losses, 1):
        scheduler.step(loss)
        assert plateau_factor(losses[:n_epochs], patience) == optimizer.param_groups[0]["lr"]
    assert plateau_factor(losses, patience) < 1.0


@pytest.mark.parametrize(("patience", "rates"), [(2, [0.5] * 3), (3, [0.5] * 3 + [0.3]), (9, [0.5] * 6 + [0.3] * 3)])
def test_rates_fall_on_a_plateau_down_to_a_least_one(patience, rates):
    """No epoch after the first lowers the validation loss: the rate is halved after patience // 2 of them and one."""
    module, places = Slope(), [0.0]
    config = TrainingConfig(
        epochs=9, optimizer="sgd", learning_rate=0.5, schedule="plateau", patience=patience, min_learning_rate=0.3
    )
    x = torch.zeros(4, 1, dtype=torch.float64)
    fit_module(
        module, x, x, loss=lambda out, _: out[:, 0] if module.training else torch.ones(len(out)), config=config,
        validation=(x, x), on_epoch=lambda _, m: places.append(m.weight.item()),
    )  # fmt: skip
    assert [a - b for a, b in itertools.pairwise(places)] == pytest.approx(rates)


def test_a_plateau_needs_patience():
    with pytest.raises(ValueError, match="patience must be a positive integer, however: patience=None"):
        TrainingConfig(schedule="plateau")
    with pytest.raises(ValueError, match="min_learning_rate must be between 0 and learning_rate"):
        TrainingConfig(learning_rate=0.1, min_learning_rate=0.2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be a positive integer, however: epochs=0"),
        ({"epochs": 2.5}, "epochs must be a positive integer, however: epochs=2.5"),
        ({"batch_size": 0}, "batch_size must be a positive integer, however: batch_size=0"),
        ({"optimizer": "adam"}, "optimizer must be one of ('adamw', 'sgd'), however: optimizer='adam'"),
        ({"learning_rate": -1.0}, "learning_rate must be positive, however: learning_rate=-1.0"),
        ({"learning_rate": math.nan}, "learning_rate must be positive, however: learning_rate=nan"),
        ({"weight_decay": -0.1}, "weight_decay must be at least zero, however: weight_decay=-0.1"),
        (
            {"optimizer": "sgd", "momentum": 1.0},
            "momentum must be in [0, 1), and zero unless optimizer='sgd', however: momentum=1.0",
        ),
        ({"momentum": 0.9}, "momentum must be in [0, 1), and zero unless optimizer='sgd', however: momentum=0.9"),
        (
            {"schedule": "linear"},
            "schedule must be one of ('constant', 'cosine', 'onecycle', 'plateau'), however: schedule='linear'",
        ),
        ({"apart_rate": 0.0}, "apart_rate must be positive or None, however: apart_rate=0.0"),
        ({"clip_norm": 0.0}, "clip_norm must be positive or None, however: clip_norm=0.0"),
        ({"patience": 0}, "patience must be a positive integer or None, however: patience=0"),
        ({"validation_share": 1.0}, "validation_share must be in [0, 1), however: validation_share=1.0"),
        ({"masked_share": 1.5}, "masked_share must be in [0, 1], however: masked_share=1.5"),
    ],
)
def test_config_errors(options, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared)
        TrainingConfig(**options)
    assert str(error.value) == message


def test_config_is_frozen_and_by_keyword():
    with pytest.raises(AttributeError):
        TrainingConfig().epochs = 3
    with pytest.raises(TypeError):
        TrainingConfig(3)
