"""One fit loop for any module. Nothing in here is about the model: no encoding, no explanation, no choice of loss."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from harsanyinet.files import check_place
from harsanyinet.progress import bar
from harsanyinet.training.checkpoint import mark_of, read_checkpoint, write_checkpoint
from harsanyinet.training.config import History, TrainingConfig, rate_of_step
from harsanyinet.training.rows import Batch, checked_rows, split_off
from harsanyinet.training.steps import Loss, Step, make_optimizer, mean_loss, one_step, train_epoch

Augment = Callable[[Tensor, Generator], Tensor]
Rows = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]


def fit_module(
    module: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    loss: Loss | None = None,
    step: Step | None = None,
    config: TrainingConfig = TrainingConfig(),  # noqa: B008 (frozen)
    validation: Rows | None = None,
    sample_weight: Tensor | None = None,
    n_players: int | None = None,
    seed: int = 0,
    progress: bool = True,
    on_epoch: Callable[[int, nn.Module], None] | None = None,
    augment: Augment | None = None,
    checkpoint: Path | None = None,
    about: str = "",
) -> History:
    """Trains `module` in place and leaves it in eval mode, with validation rows at the weights of its best epoch.

    Ctrl-C raises KeyboardInterrupt, as it should; the module has the best weights so far, and a checkpoint goes on. The
    same seed gives the same bits, and torch's global random state is left as it was.

    Args:
        module: Called as ``module(x)``, or as ``module(x, present=mask)`` if ``config.masked_share > 0``.
        x: Inputs, on the device of the module.
        y: Targets.
        loss: ``loss(outputs, targets)`` gives the loss of each row, (B,).
        step: In place of a loss that is more than a function of the outputs: ``step(module, batch)`` gives the loss of
            each row of a `Batch`.
        config: How to train.
        validation: Rows ``(x, y)`` or ``(x, y, weight)``; None to split off ``config.validation_share`` of the rows.
        sample_weight: Weights of the rows of `x`, up to a factor. Rows of weight zero are as good as not passed.
        n_players: Columns of the random masks; None for ``x.shape[1]``.
        seed: For the split, the order of the rows, the masks, and what the module itself draws, such as dropout.
        progress: Whether to show a progress bar, once two seconds have passed.
        on_epoch: Called after each epoch with its number and the module, then in eval mode.
        augment: Called with the inputs of each training batch and a generator to draw from; returns what is trained on.
        checkpoint: A file that is written after each epoch. If it is there, training goes on where it ended, to the
            same bits. It stays when training is over.
        about: Whatever else a checkpoint belongs to, such as the settings of `augment` and of the loss.

    Raises:
        FloatingPointError: If the loss or a weight overflows; the best weights so far are restored before.

    Shape:
        - x: (B, ...), y: (B, ...), sample_weight: (B,), mask: (B, n_players) bool

    Examples:
        >>> x = torch.linspace(-1, 1, 50)[:, None]
        >>> module = nn.Linear(1, 1)
        >>> config = TrainingConfig(epochs=200, optimizer="sgd", learning_rate=0.5)
        >>> history = fit_module(module, x, 3 * x, loss=lambda out, y: (out - y).square()[:, 0], config=config)
        >>> round(module.weight.item(), 3)
        3.0
    """
    step = one_step(loss, step)
    if n_players is None:
        n_players = x.shape[1] if x.ndim > 1 else 0
    if config.masked_share == 0:
        n_players = 0  # no masks, and the module never sees any
    elif n_players < 1:
        raise ValueError(f"n_players must be positive, however: n_players={n_players}")
    seeds = np.random.SeedSequence(seed).generate_state(6).tolist()  # the fifth is for the module
    splitting, shuffling, masking, masking_held_out, _, augmenting = (Generator().manual_seed(s) for s in seeds)
    rows, held_out = checked_rows(x, y, sample_weight), None
    if validation is not None:
        held_out = checked_rows(*validation, of="validation ")
    elif config.validation_share > 0:
        rows, held_out = split_off(rows, config.validation_share, splitting)
    elif config.patience is not None:  # a schedule by plateaus has one
        raise ValueError(f"patience must come with validation rows, however: patience={config.patience} without any")
    rows = rows._replace(weight=rows.weight / rows.weight.mean())
    checks = []  # the validation batches, whose masks are drawn once
    if held_out is not None:
        order = torch.arange(len(held_out.x))
        checks = list(held_out.batches(order, config.batch_size, n_players, masking_held_out))
    mark = ""
    if checkpoint is not None:
        check_place(checkpoint)
        mark = mark_of(config, seed, rows, module, about)
    training = _Training(module, rows, checks, step, config, n_players, augment, [shuffling, masking, augmenting])
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices), bar("training", training.n_steps, unit="step", progress=progress) as shown:
        torch.manual_seed(seeds[4])
        if checkpoint is not None and checkpoint.exists():
            training.go_on(read_checkpoint(checkpoint, mark))
            shown.initial = shown.n = training.n_steps_done  # old steps say nothing about the time left
        try:
            while not training.over:
                epoch = len(training.losses)
                shown.set_description(f"epoch {epoch + 1}/{config.epochs}", refresh=False)  # refreshing: no delay
                training.run_epoch(shown)
                if checkpoint is not None:
                    write_checkpoint(checkpoint, {"mark": mark, **training.state()})
                if on_epoch is not None:
                    on_epoch(epoch, module.eval())
            if training.best_epoch < 0:
                last = training.losses[-1][1]
                raise FloatingPointError(f"validation loss must be finite, however: it was {last} to the end")
        except (FloatingPointError, KeyboardInterrupt):
            module.load_state_dict(training.kept)
            raise
        finally:
            module.eval()
            module.zero_grad()
    return training.history()


class _Training:
    """A training under way: what it has done, what it keeps, and its next epoch."""

    def __init__(
        self, module: nn.Module, rows: Batch, checks: list[Batch], step: Step, config: TrainingConfig, n_players: int,
        augment: Augment | None, streams: list[Generator],
    ) -> None:  # fmt: skip
        self.module, self.rows, self.checks, self.step, self.config = module, rows, checks, step, config
        self.n_players, self.augment = n_players, augment
        self.shuffling, self.masking, self.augmenting = streams
        self.streams = [*streams, torch.default_generator]
        self.started = time.perf_counter()
        self.n_used, size = len(rows.x), config.batch_size
        if self.n_used > size and self.n_used % size == 1:
            self.n_used -= 1  # no batch of a single row, which batch normalisation could not take
        self.n_steps = config.epochs * math.ceil(self.n_used / size)
        self.optimizer = make_optimizer(module, config)
        self.losses: list[tuple[float, float]] = []  # of training and validation, per epoch
        self.kept, self.best_epoch, self.best_loss = copy.deepcopy(module.state_dict()), -1, math.inf

    @property
    def n_steps_done(self) -> int:
        return len(self.losses) * self.n_steps // self.config.epochs

    @property
    def over(self) -> bool:
        epoch, patience = len(self.losses), self.config.patience
        return epoch >= self.config.epochs or (patience is not None and epoch > self.best_epoch + patience)

    def run_epoch(self, shown: Any) -> None:
        """Trains and validates; keeps the weights if they are the best."""
        epoch, config = len(self.losses), self.config
        rates = (rate_of_step(config, n, self.n_steps, self.losses) for n in range(self.n_steps_done, self.n_steps))
        trained = train_epoch(self.module, self._batches(shown), self.step, config, self.optimizer, rates)
        if not math.isfinite(trained):
            raise FloatingPointError(
                f"training diverged in epoch {epoch}, try a smaller learning_rate or a clip_norm, however: "
                f"loss={trained}, learning_rate={config.learning_rate}, clip_norm={config.clip_norm}"
            )
        share = config.masked_share
        validated = mean_loss(self.module.eval(), self.checks, self.step, share) if self.checks else math.nan
        self.losses.append((trained, validated))
        if not self.checks or validated < self.best_loss:
            self.kept, self.best_epoch = copy.deepcopy(self.module.state_dict()), epoch
            self.best_loss = validated
        both = {"train": trained, "validation": validated} if self.checks else {"train": trained}
        shown.set_postfix(both, refresh=False)

    def _batches(self, shown: Any) -> Iterator[Batch]:
        """The batches of an epoch, counted as they are taken."""
        order = torch.randperm(len(self.rows.x), generator=self.shuffling)[: self.n_used]
        size, share = self.config.batch_size, self.config.masked_share
        for batch in self.rows.batches(order, size, self.n_players, self.masking, share):
            yield batch if self.augment is None else batch._replace(x=self.augment(batch.x, self.augmenting))
            shown.update()

    def state(self) -> dict[str, Any]:
        """All that a checkpoint has to hold."""
        return {
            "losses": self.losses, "kept": self.kept, "best_epoch": self.best_epoch, "best_loss": self.best_loss,
            "module": self.module.state_dict(), "optimizer": self.optimizer.state_dict(),
            "streams": [stream.get_state() for stream in self.streams],
            "seconds": time.perf_counter() - self.started,
        }  # fmt: skip

    def go_on(self, state: dict[str, Any]) -> None:
        """From what `state` returned."""
        self.started -= state["seconds"]
        self.losses, self.kept = state["losses"], state["kept"]
        self.best_epoch, self.best_loss = state["best_epoch"], state["best_loss"]
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        for stream, stored in zip(self.streams, state["streams"], strict=True):
            stream.set_state(stored)

    def history(self) -> History:
        """The end: puts the best weights back where there were rows to validate on."""
        seconds = time.perf_counter() - self.started
        train, validated = zip(*self.losses, strict=True)
        if not self.checks:
            return History(train, (), None, seconds)
        self.module.load_state_dict(self.kept)
        return History(train, validated, self.best_epoch, seconds)
