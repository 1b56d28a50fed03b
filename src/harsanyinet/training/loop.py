"""One fit loop for any module. Nothing in here is about the model: no encoding, no explanation, no choice of loss."""

from __future__ import annotations

import copy
import io
import math
import pickle
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from harsanyinet.files import check_place, write_beside
from harsanyinet.progress import bar

Loss = Callable[[Tensor, Tensor], Tensor]
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
        beta2: For ``"adamw"`` only: how slowly it forgets the size of gradients.
        schedule: The learning rate of each step, see `learning_rate_factor`; with ``"plateau"`` that of each epoch, see
            `plateau_factor`, which needs validation rows and a `patience`.
        min_learning_rate: Where ``"plateau"`` ends.
        clip_norm: Upper bound on the norm of the gradient, or None.
        apart_rate: Rate of plain SGD steps, under the same schedule, for the parameters that modules name in an
            attribute ``trained_apart``: neither the optimizer nor the clip sees them. None: like all others.
        patience: Stop after so many epochs without weights worth keeping (see `tolerance`); None to run all epochs.
        validation_share: Share of the training rows split off when no validation set is passed.
        masked_share: Chance of a training row to be shown with randomly absent players, and the weight of such rows in
            the validation loss.
        tolerance: Which weights to keep: those of the last epoch whose validation loss is within this share of the
            best one until then. Members of an ensemble may well be past their own best.
    """

    epochs: int = 100
    batch_size: int = 256
    optimizer: OptimizerName = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.0
    beta2: float = 0.999
    schedule: Schedule = "constant"
    min_learning_rate: float = 0.0
    clip_norm: float | None = None
    apart_rate: float | None = None
    patience: int | None = None
    validation_share: float = 0.0
    masked_share: float = 0.0
    tolerance: float = 0.0

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
            "beta2": (0 <= self.beta2 < 1, "in [0, 1)"),
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
            "tolerance": (0 <= self.tolerance < math.inf, "at least zero"),
        }
        for name, (fits, wanted) in expected.items():
            if not fits:
                raise ValueError(f"{name} must be {wanted}, however: {name}={getattr(self, name)!r}")


@dataclass(frozen=True)
class History:
    """What happened in each completed epoch, counted from 0. The weights kept are those of `best_epoch`, if any.

    The seconds are those of all epochs, also of those before an interruption that a checkpoint bridged.
    """

    train_loss: tuple[float, ...]
    validation_loss: tuple[float, ...]
    best_epoch: int | None
    seconds: float


def learning_rate_factor(schedule: Schedule, step: int, n_steps: int) -> float:
    """The learning rate of one step, as a share of the highest one, where it depends on nothing but its number.

    ``"cosine"`` falls from 1 towards zero, which step number `n_steps` would reach; ``"onecycle"`` first climbs
    linearly during a tenth of the steps.
    """
    if schedule in ("constant", "plateau"):
        return 1.0
    n_warm = n_steps // 10 if schedule == "onecycle" else 0
    if step < n_warm:
        return (step + 1) / (n_warm + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - n_warm) / (n_steps - n_warm)))


def plateau_factor(validation_losses: Sequence[float], patience: int) -> float:
    """The learning rate after some epochs, as a share of the first: halved whenever more than `patience` bring nothing.

    An epoch brings something if its validation loss is below the best one by a ten-thousandth of it, as in torch's
    ``ReduceLROnPlateau``.
    """
    factor, best, n_bad = 1.0, math.inf, 0
    for loss in validation_losses:
        if loss < best * (1 - 1e-4):
            best, n_bad = loss, 0
        else:
            n_bad += 1
        if n_bad > patience:
            factor, n_bad = factor / 2, 0
    return factor


def draw_masks(n_rows: int, n_players: int, generator: Generator) -> Tensor:
    """Random presence, (n_rows, n_players) bool. Each row has its own rate from U(0, 1): all sizes are as likely."""
    rate = torch.rand(n_rows, 1, generator=generator)
    return torch.rand(n_rows, n_players, generator=generator) < rate


def decayed_parameters(module: nn.Module) -> list[nn.Parameter]:
    """The trainable parameters that weight decay reaches: matrices and higher that no module exempts.

    Biases and scales only shift and stretch, so that shrinking them does not regularise. A module exempts parameters
    of its own by naming them in an attribute ``no_weight_decay``: child logits that choose by their sign, say, would
    only be pulled to the point where the choice flips.
    """
    exempt = {id(getattr(part, name)) for part in module.modules() for name in getattr(part, "no_weight_decay", ())}
    return [p for p in module.parameters() if p.requires_grad and p.ndim >= 2 and id(p) not in exempt]


class Batch(NamedTuple):
    """Rows to compute a loss of.

    Attributes:
        x: (B, ...) inputs.
        y: (B, ...) targets.
        weight: (B,) float64, on the CPU.
        present: (B, n_players) bool, drawn anew for each training batch; None where every player is there.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    present: Tensor | None = None

    def take(self, index: Tensor) -> Batch:
        """Some of the rows, with all players."""
        return Batch(*(tensor[index.to(tensor.device)] for tensor in (self.x, self.y, self.weight)))

    def batches(
        self, index: Tensor, batch_size: int, n_players: int, generator: Generator, share: float = 1.0
    ) -> Iterator[Batch]:
        """Batches with masks, unless there are no players; a `share` of the rows, drawn at random, lacks players."""
        for start in range(0, len(index), batch_size):
            batch = self.take(index[start : start + batch_size])
            if not n_players:
                yield batch
                continue
            present = draw_masks(len(batch.x), n_players, generator)
            if share < 1:
                present |= torch.rand(len(batch.x), 1, generator=generator) >= share
            yield batch._replace(present=present.to(batch.x.device))


Step = Callable[[nn.Module, Batch], Tensor]
"""The loss of each row of a batch, (B,). The module is in training mode, or in eval mode where rows are validated."""


def _checked(x: Tensor, y: Tensor, sample_weight: Tensor | None = None, of: str = "") -> Batch:
    """The rows that count: those of weight zero are dropped, so that they reach neither the loss nor a batch norm."""
    if len(x) == 0:
        raise ValueError(f"{of}x must have at least one row, however: x.shape={tuple(x.shape)}")
    if len(x) != len(y):
        raise ValueError(f"{of}x and y must be equally long, however: len(x)={len(x)}, len(y)={len(y)}")
    weight = torch.ones(len(x), dtype=torch.float64) if sample_weight is None else sample_weight.detach().cpu().double()
    if weight.shape != (len(x),):
        raise ValueError(f"sample_weight must have shape {(len(x),)}, however: shape={tuple(weight.shape)}")
    if not bool((weight.isfinite() & (weight >= 0)).all()) or not bool(weight.any()):
        found = f"min={weight.min().item()}, max={weight.max().item()}"
        raise ValueError(f"sample_weight must be finite, nowhere negative and somewhere positive, however: {found}")
    rows = Batch(x, y, weight)
    if not bool(weight.all()):
        rows = rows.take(weight.nonzero()[:, 0])
    if not bool(rows.y.isfinite().all()):
        raise ValueError(f"{of}y must be finite, however: {int((~rows.y.isfinite()).sum())} values are NaN or infinite")
    return rows


def _split(rows: Batch, share: float, generator: Generator) -> tuple[Batch, Batch]:
    n_rows = len(rows.x)
    n_held_out = max(1, round(share * n_rows))
    if n_held_out >= n_rows:
        raise ValueError(f"validation_share must leave rows to train on, however: {share} of {n_rows} rows leaves none")
    order = torch.randperm(n_rows, generator=generator)
    return rows.take(order[n_held_out:]), rows.take(order[:n_held_out])


def _step_of(loss: Loss) -> Step:
    """The usual step: a loss of the module's outputs."""

    def step(module: nn.Module, batch: Batch) -> Tensor:
        out = module(batch.x) if batch.present is None else module(batch.x, present=batch.present)
        return loss(out, batch.y)

    return step


def _row_losses(module: nn.Module, rows: Batch, step: Step) -> Tensor:
    """The loss of each row, (B,)."""
    losses = step(module, rows)
    if losses.shape != (len(rows.y),):
        raise ValueError(f"loss must return one value per row, {(len(rows.y),)}, however: shape={tuple(losses.shape)}")
    return losses


def _by_rate(module: nn.Module, parameters: list[nn.Parameter]) -> dict[float, list[nn.Parameter]]:
    """Parameters by their share of the learning rate.

    Adam moves every parameter by about the learning rate, whatever its gradient. A module says in an attribute
    ``rate_shares``, by name, which of its own parameters are to move by a part of that: child logits that start near
    the point where the choice flips would flip at every step.
    """
    shares = {
        id(getattr(part, name)): share
        for part in module.modules()
        for name, share in getattr(part, "rate_shares", {}).items()
    }
    found: dict[float, list[nn.Parameter]] = {}
    for parameter in parameters:
        found.setdefault(shares.get(id(parameter), 1.0), []).append(parameter)
    return found


def _apart(module: nn.Module, config: TrainingConfig) -> list[nn.Parameter]:
    """The parameters that take steps of their own.

    Child logits, whose gradient is beta times as steep: under one clip for all it would shrink every other gradient.
    """
    if config.apart_rate is None:
        return []
    named = {id(getattr(part, name)) for part in module.modules() for name in getattr(part, "trained_apart", ())}
    return [p for p in module.parameters() if p.requires_grad and id(p) in named]


def _make_optimizer(module: nn.Module, config: TrainingConfig) -> Optimizer:
    apart = {id(p) for p in _apart(module, config)}
    trainable = [p for p in module.parameters() if p.requires_grad and id(p) not in apart]
    if not trainable:
        raise ValueError("module must have a parameter that requires a gradient, however: it has none")
    if config.optimizer == "adamw":
        groups = [{"params": list(params), "share": share} for share, params in _by_rate(module, trainable).items()]
        return AdamW(groups, lr=config.learning_rate, betas=(0.9, config.beta2), weight_decay=0.0, fused=True)
    return SGD(trainable, lr=config.learning_rate, momentum=config.momentum)


def _train_epoch(
    module: nn.Module,
    batches: Iterable[Batch],
    step: Step,
    config: TrainingConfig,
    optimizer: Optimizer,
    rates: Iterator[float],
) -> float:
    """One step per batch. The mean loss, or else the first one that is not finite, or NaN if a weight is not."""
    groups, decayed = optimizer.param_groups, decayed_parameters(module)
    parameters, apart = [p for group in groups for p in group["params"]], _apart(module, config)
    total, n_rows = 0.0, 0
    module.train()
    for batch in batches:
        losses = _row_losses(module, batch, step)
        mean = (losses * batch.weight.to(losses)).mean()
        if not math.isfinite(value := mean.item()):
            return value
        optimizer.zero_grad()
        for p in apart:
            p.grad = None
        torch.autograd.backward(mean)
        rate = next(rates)
        for group in groups:
            group["lr"] = rate * group.get("share", 1.0)
        if config.clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, config.clip_norm)
        if config.weight_decay > 0:  # here, since that of torch's SGD is not decoupled
            for p in decayed:
                if p.grad is not None:
                    p.data.mul_(1 - rate * config.weight_decay)
        optimizer.step()
        for p in apart:
            if p.grad is not None:
                p.data.sub_(p.grad, alpha=rate / config.learning_rate * (config.apart_rate or 0.0))
        total, n_rows = total + value * len(losses), n_rows + len(losses)
    return total / n_rows if all(bool(p.isfinite().all()) for p in [*parameters, *apart]) else math.nan


def _mean_loss(module: nn.Module, batches: list[Batch], step: Step, masked_share: float) -> float:
    """`masked_share` of it with random masks, the rest with all players."""
    total = 0.0
    with torch.no_grad():
        for batch in batches:
            for rows, part in ((batch._replace(present=None), 1 - masked_share), (batch, masked_share)):
                if part > 0:
                    total += part * float(batch.weight @ _row_losses(module, rows, step).cpu().double())
    return total / sum(float(batch.weight.sum()) for batch in batches)


def _bound(best_loss: float, tolerance: float) -> float:
    """A loss below it is as good as the best one, also where losses are negative."""
    return best_loss + tolerance * abs(best_loss) if math.isfinite(best_loss) else best_loss


def _write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    content = io.BytesIO()
    torch.save(state, content)
    write_beside(path, content.getvalue())


def _read_checkpoint(path: Path, mark: str) -> dict[str, Any]:
    """What `_write_checkpoint` wrote, if it belongs to this training. Runs no code from it."""
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
        found = state["mark"]
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"checkpoint must be one that this training wrote, however: {path} is not; delete it"
        ) from error
    if found != mark:
        raise ValueError(
            f"checkpoint must belong to this training ({mark}), however: {path} belongs to another ({found}); delete it"
        )
    return state


_LATER = {"min_learning_rate": 0.0}  # came after the first checkpoints, which lack it and go on all the same


def _mark(config: TrainingConfig, seed: int, rows: Batch, module: nn.Module, about: str) -> str:
    """What a checkpoint belongs to: settings, data and the shapes of the weights, the latter two as check sums."""
    data = 0
    for tensor in (rows.x, rows.y, rows.weight):
        data = zlib.crc32(tensor.detach().cpu().contiguous().numpy().data, data)
    shapes = zlib.crc32(repr([(name, tuple(v.shape)) for name, v in module.state_dict().items()]).encode())
    shown = {name: value for name, value in asdict(config).items() if _LATER.get(name, ...) != value}
    settings = f"TrainingConfig({', '.join(f'{name}={value!r}' for name, value in shown.items())})"
    if about:
        settings += f", {about}"
    return (
        f"{settings}, seed={seed}, {len(rows.x)} rows, check sums {data:08x} of the data and {shapes:08x} of the shapes"
    )


def _rate(config: TrainingConfig, step: int, n_steps: int, losses: Sequence[tuple[float, float]]) -> float:
    """The learning rate of a step, given the training and validation losses of the epochs before."""
    if config.schedule != "plateau":
        return config.learning_rate * learning_rate_factor(config.schedule, step, n_steps)
    assert config.patience is not None
    factor = plateau_factor([validated for _, validated in losses], config.patience // 2)
    return max(config.learning_rate * factor, config.min_learning_rate)


def _counted(batches: Iterable[Batch], shown: Any) -> Iterator[Batch]:
    for batch in batches:
        yield batch
        shown.update()


def fit_module(
    module: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    loss: Loss | None = None,
    step: Step | None = None,
    config: TrainingConfig = TrainingConfig(),  # noqa: B008 (frozen)
    validation: tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor] | None = None,
    sample_weight: Tensor | None = None,
    n_players: int | None = None,
    seed: int = 0,
    progress: bool = True,
    on_epoch: Callable[[int, nn.Module], None] | None = None,
    augment: Callable[[Tensor, Generator], Tensor] | None = None,
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
        loss: ``loss(outputs, targets)`` gives the loss of each row.
        step: In place of a loss, where that is more than a function of the outputs: ``step(module, batch)`` gives the
            loss of each row of a `Batch`.
        config: How to train.
        validation: Rows ``(x, y)`` or ``(x, y, weight)`` to validate on; None to split off
            ``config.validation_share`` of the rows.
        sample_weight: Weights of the rows of `x`, up to a factor. Rows of weight zero are as good as not passed.
        n_players: Columns of the random masks; None for ``x.shape[1]``.
        seed: For the split, the order of the rows, the masks, and what the module itself draws, such as dropout.
        progress: Whether to show a progress bar, once two seconds have passed.
        on_epoch: Called after each epoch with its number and the module, then in eval mode.
        augment: Called with the inputs of each training batch and a generator to draw from; returns what is trained on.
        checkpoint: A file that is written after each epoch. If it is there, training goes on where it ended, to the
            same bits as without the interruption. It stays when training is over.
        about: Whatever else a checkpoint belongs to, such as the settings of `augment` and of the loss.

    Raises:
        FloatingPointError: If the loss or a weight overflows; the best weights so far are restored before.

    Shape:
        - x: (B, ...), y: (B, ...), sample_weight: (B,), mask: (B, n_players) bool
        - loss(outputs, targets): (B,)

    Examples:
        >>> x = torch.linspace(-1, 1, 50)[:, None]
        >>> module = nn.Linear(1, 1)
        >>> config = TrainingConfig(epochs=200, optimizer="sgd", learning_rate=0.5)
        >>> history = fit_module(module, x, 3 * x, loss=lambda out, y: (out - y).square()[:, 0], config=config)
        >>> round(module.weight.item(), 3)
        3.0
    """
    started, epochs, batch_size, share = time.perf_counter(), config.epochs, config.batch_size, config.masked_share
    if (loss is None) == (step is None):
        raise TypeError(f"fit_module takes a loss or a step, however: {'neither' if loss is None else 'both'} given")
    if step is None:
        assert loss is not None
        step = _step_of(loss)
    *stream_seeds, module_seed, augment_seed = np.random.SeedSequence(seed).generate_state(6).tolist()
    splitting, shuffling, masking, masking_held_out = (Generator().manual_seed(s) for s in stream_seeds)
    augmenting = Generator().manual_seed(augment_seed)
    if share == 0:
        n_players = 0  # masks without columns, which the module never sees
    elif n_players is None:
        n_players = x.shape[1] if x.ndim > 1 else 0
    if share > 0 and n_players < 1:
        raise ValueError(f"n_players must be positive, however: n_players={n_players}")

    rows, held_out = _checked(x, y, sample_weight), None
    if validation is not None:
        held_x, held_y, *held_weight = validation
        held_out = _checked(held_x, held_y, held_weight[0] if held_weight else None, of="validation ")
    elif config.validation_share > 0:
        rows, held_out = _split(rows, config.validation_share, splitting)
    elif config.patience is not None:  # a schedule by plateaus has one
        raise ValueError(f"patience must come with validation rows, however: patience={config.patience} without any")
    rows = rows._replace(weight=rows.weight / rows.weight.mean())
    checks: list[Batch] = []  # the validation batches, whose masks are drawn once
    if held_out is not None:
        checks.extend(held_out.batches(torch.arange(len(held_out.x)), batch_size, n_players, masking_held_out))

    n_used = len(rows.x)
    if n_used > batch_size and n_used % batch_size == 1:
        n_used -= 1  # no batch of a single row, which batch normalisation could not take
    n_steps = epochs * math.ceil(n_used / batch_size)
    optimizer = _make_optimizer(module, config)

    losses: list[tuple[float, float]] = []  # of training and validation, per epoch
    kept, best_epoch, best_loss = copy.deepcopy(module.state_dict()), -1, math.inf
    devices = range(torch.cuda.device_count())
    streams = (shuffling, masking, augmenting, torch.default_generator)
    mark = ""
    if checkpoint is not None:
        check_place(checkpoint)
        mark = _mark(config, seed, rows, module, about)
    with torch.random.fork_rng(devices), bar("training", n_steps, unit="step", progress=progress) as shown:
        torch.manual_seed(module_seed)
        if checkpoint is not None and checkpoint.exists():
            state = _read_checkpoint(checkpoint, mark)
            started -= state["seconds"]
            losses, kept, best_epoch, best_loss = (
                state["losses"],
                state["kept"],
                state["best_epoch"],
                state["best_loss"],
            )
            module.load_state_dict(state["module"])
            optimizer.load_state_dict(state["optimizer"])
            for stream, stored in zip(streams, state["streams"], strict=True):
                stream.set_state(stored)
            shown.initial = shown.n = len(losses) * n_steps // epochs  # old steps say nothing about the time left
        numbers = range(len(losses) * n_steps // epochs, n_steps)
        rates = (_rate(config, number, n_steps, losses) for number in numbers)  # lazy: losses of all epochs before
        try:
            for epoch in range(len(losses), epochs):
                if config.patience is not None and epoch and epoch - 1 - best_epoch >= config.patience:
                    break
                shown.set_description(f"epoch {epoch + 1}/{epochs}", refresh=False)  # refreshing would skip the delay
                order = torch.randperm(len(rows.x), generator=shuffling)[:n_used]
                batches = rows.batches(order, batch_size, n_players, masking, share)
                if augment is not None:
                    batches = (batch._replace(x=augment(batch.x, augmenting)) for batch in batches)
                train_loss = _train_epoch(module, _counted(batches, shown), step, config, optimizer, rates)
                if not math.isfinite(train_loss):
                    raise FloatingPointError(
                        f"training diverged in epoch {epoch}, try a smaller learning_rate or a clip_norm, however: "
                        f"loss={train_loss}, learning_rate={config.learning_rate}, clip_norm={config.clip_norm}"
                    )
                validation_loss = _mean_loss(module.eval(), checks, step, share) if checks else math.nan
                losses.append((train_loss, validation_loss))
                if validation_loss < _bound(best_loss, config.tolerance) or not checks:
                    kept, best_epoch = copy.deepcopy(module.state_dict()), epoch
                    best_loss = min(best_loss, validation_loss)
                both = {"train": train_loss, "validation": validation_loss} if checks else {"train": train_loss}
                shown.set_postfix(both, refresh=False)
                if checkpoint is not None:
                    state = {
                        "mark": mark, "losses": losses, "kept": kept, "best_epoch": best_epoch, "best_loss": best_loss,
                        "module": module.state_dict(), "optimizer": optimizer.state_dict(),
                        "streams": [stream.get_state() for stream in streams],
                        "seconds": time.perf_counter() - started,
                    }  # fmt: skip
                    _write_checkpoint(checkpoint, state)
                if on_epoch is not None:
                    on_epoch(epoch, module.eval())
            if best_epoch < 0:
                raise FloatingPointError(f"validation loss must be finite, however: it was {losses[-1][1]} to the end")
        except (FloatingPointError, KeyboardInterrupt):
            module.load_state_dict(kept)
            raise
        finally:
            module.eval()
            optimizer.zero_grad()
            for p in _apart(module, config):
                p.grad = None
    best = best_epoch if checks and best_epoch >= 0 else None
    if best is not None:
        module.load_state_dict(kept)
    train, validated = tuple(a for a, _ in losses), tuple(b for _, b in losses if checks)
    return History(train, validated, best, seconds=time.perf_counter() - started)
