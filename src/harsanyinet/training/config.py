"""How to train: the settings, the learning rate of every step, and what is left to say afterwards. No tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

OptimizerName = Literal["adamw", "sgd"]
Schedule = Literal["constant", "cosine", "onecycle", "plateau"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train.

    Args:
        epochs: Passes over the training rows.
        batch_size: Rows per step.
        optimizer: ``"adamw"`` or ``"sgd"``.
        learning_rate: The rate at the top of the schedule.
        weight_decay: Decoupled for both optimizers: each step also shrinks the `decayed_parameters` by
            ``learning_rate * weight_decay`` of themselves.
        momentum: For ``"sgd"`` only.
        schedule: The learning rate of each step: ``"cosine"`` falls from the top towards zero, ``"onecycle"`` first
            climbs linearly during a tenth of the steps; ``"plateau"`` halves it after an epoch if more than
            ``patience // 2`` have brought nothing, and needs validation rows and a `patience`.
        min_learning_rate: Where ``"plateau"`` ends.
        clip_norm: Upper bound on the norm of the gradient, or None.
        apart_rate: Rate of plain SGD steps, under the same schedule, for the parameters that modules name in an
            attribute ``trained_apart``: neither the optimizer nor the clip sees them. None: like all others.
        patience: Stop after so many epochs without a new best validation loss; None to run all epochs.
        validation_share: Share of the training rows split off when no validation set is passed.
        masked_share: Chance of a training row to be shown with randomly absent players, and the weight of such rows in
            the validation loss.
    """

    epochs: int = 100
    batch_size: int = 256
    optimizer: OptimizerName = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.0
    schedule: Schedule = "constant"
    min_learning_rate: float = 0.0
    clip_norm: float | None = None
    apart_rate: float | None = None
    patience: int | None = None
    validation_share: float = 0.0
    masked_share: float = 0.0

    def __post_init__(self) -> None:
        def is_count(value: object) -> bool:
            return isinstance(value, Integral) and int(value) > 0

        momentum_fits = 0 <= self.momentum < 1 and (self.momentum == 0 or self.optimizer == "sgd")
        expected = {
            "epochs": (is_count(self.epochs), "a positive integer"),
            "batch_size": (is_count(self.batch_size), "a positive integer"),
            "optimizer": (self.optimizer in get_args(OptimizerName), f"one of {get_args(OptimizerName)}"),
            "learning_rate": (0 < self.learning_rate < math.inf, "positive"),
            "weight_decay": (0 <= self.weight_decay < math.inf, "at least zero"),
            "momentum": (momentum_fits, "in [0, 1), and zero unless optimizer='sgd'"),
            "schedule": (self.schedule in get_args(Schedule), f"one of {get_args(Schedule)}"),
            "min_learning_rate": (0 <= self.min_learning_rate <= self.learning_rate, "between 0 and learning_rate"),
            "clip_norm": (self.clip_norm is None or 0 < self.clip_norm < math.inf, "positive or None"),
            "apart_rate": (self.apart_rate is None or 0 < self.apart_rate < math.inf, "positive or None"),
            "patience": (
                is_count(self.patience) or (self.patience is None and self.schedule != "plateau"),
                "a positive integer" if self.schedule == "plateau" else "a positive integer or None",
            ),
            "validation_share": (0 <= self.validation_share < 1, "in [0, 1)"),
            "masked_share": (0 <= self.masked_share <= 1, "in [0, 1]"),
        }
        for name, (fits, wanted) in expected.items():
            if not fits:
                raise ValueError(f"{name} must be {wanted}, however: {name}={getattr(self, name)!r}")


@dataclass(frozen=True)
class History:
    """What happened in each completed epoch, counted from 0, and the seconds of all, also before an interruption.

    The weights kept are those of `best_epoch`, if any.
    """

    train_loss: tuple[float, ...]
    validation_loss: tuple[float, ...]
    best_epoch: int | None
    seconds: float


def learning_rate_factor(schedule: Schedule, step: int, n_steps: int) -> float:
    """The learning rate of one step, as a share of the highest one, where it depends on nothing but its number."""
    if schedule == "constant":
        return 1.0
    n_warm = n_steps // 10 if schedule == "onecycle" else 0
    if step < n_warm:
        return (step + 1) / (n_warm + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - n_warm) / (n_steps - n_warm)))


def plateau_factor(validation_losses: Sequence[float], patience: int) -> float:
    """The learning rate after some epochs, as a share of the first, as by torch's ``ReduceLROnPlateau``."""
    factor, best, n_bad = 1.0, math.inf, 0
    for loss in validation_losses:
        best, n_bad = (loss, 0) if loss < best * (1 - 1e-4) else (best, n_bad + 1)
        if n_bad > patience:
            factor, n_bad = factor / 2, 0
    return factor


def rate_of_step(config: TrainingConfig, step: int, n_steps: int, losses: Sequence[tuple[float, float]]) -> float:
    """The learning rate of a step, given the training and validation losses of the epochs before."""
    if config.schedule != "plateau":
        return config.learning_rate * learning_rate_factor(config.schedule, step, n_steps)
    assert config.patience is not None
    factor = plateau_factor([validated for _, validated in losses], config.patience // 2)
    return max(config.learning_rate * factor, config.min_learning_rate)
