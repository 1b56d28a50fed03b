"""Steps of training: which parameters move and how, one epoch of them, and the loss of rows that are only looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from harsanyinet.training.config import TrainingConfig
from harsanyinet.training.rows import Batch

Loss = Callable[[Tensor, Tensor], Tensor]
Step = Callable[[nn.Module, Batch], Tensor]
"""The loss of each row of a batch, (B,). The module is in training mode, or in eval mode where rows are validated."""


def one_step(loss: Loss | None, step: Step | None) -> Step:
    """The step that was given, or the usual one: a loss of the module's outputs."""
    if step is not None and loss is None:
        return step
    if loss is None or step is not None:
        raise TypeError(f"fit_module takes a loss or a step, however: {'neither' if loss is None else 'both'} given")

    def usual(module: nn.Module, batch: Batch) -> Tensor:
        out = module(batch.x) if batch.present is None else module(batch.x, present=batch.present)
        return loss(out, batch.y)

    return usual


def _row_losses(module: nn.Module, rows: Batch, step: Step) -> Tensor:
    losses = step(module, rows)
    if losses.shape != (len(rows.y),):
        raise ValueError(f"loss must return one value per row, {(len(rows.y),)}, however: shape={tuple(losses.shape)}")
    return losses


def _named(module: nn.Module, attribute: str) -> set[int]:
    """The ids of the parameters that modules name in an attribute of theirs."""
    return {id(getattr(part, name)) for part in module.modules() for name in getattr(part, attribute, ())}


def decayed_parameters(module: nn.Module) -> list[nn.Parameter]:
    """The trainable parameters that weight decay reaches: matrices and higher that no module exempts.

    Biases and scales only shift and stretch, so that shrinking them does not regularise. A module exempts parameters by
    an attribute ``no_weight_decay``: child logits, which choose by their sign, would be pulled to where it flips.
    """
    exempt = _named(module, "no_weight_decay")
    return [p for p in module.parameters() if p.requires_grad and p.ndim >= 2 and id(p) not in exempt]


def trained_apart(module: nn.Module, config: TrainingConfig) -> list[nn.Parameter]:
    """The parameters that take steps of their own.

    Child logits, whose gradient is beta times as steep: under one clip for all it would shrink every other gradient.
    """
    named = set() if config.apart_rate is None else _named(module, "trained_apart")
    return [p for p in module.parameters() if p.requires_grad and id(p) in named]


def make_optimizer(module: nn.Module, config: TrainingConfig) -> Optimizer:
    """Of all parameters but those that take steps of their own. Weight decay is left to `train_epoch`.

    Adam moves every parameter by about the learning rate, whatever its gradient. A module says in an attribute
    ``rate_shares``, by name, which of its parameters move by a part of that: child logits that start near the point
    where the choice flips would flip at every step.
    """
    apart = {id(p) for p in trained_apart(module, config)}
    moved = [p for p in module.parameters() if p.requires_grad and id(p) not in apart]
    if not moved:
        raise ValueError("module must have a parameter that requires a gradient, however: it has none")
    if config.optimizer == "sgd":
        return SGD(moved, lr=config.learning_rate, momentum=config.momentum)
    shares = {
        id(getattr(part, name)): share
        for part in module.modules()
        for name, share in getattr(part, "rate_shares", {}).items()
    }
    groups: dict[float, list[nn.Parameter]] = {}
    for p in moved:
        groups.setdefault(shares.get(id(p), 1.0), []).append(p)
    by_share = [{"params": params, "share": share} for share, params in groups.items()]
    return AdamW(by_share, lr=config.learning_rate, weight_decay=0.0, fused=True)


def train_epoch(
    module: nn.Module,
    batches: Iterable[Batch],
    step: Step,
    config: TrainingConfig,
    optimizer: Optimizer,
    rates: Iterator[float],
) -> float:
    """One step per batch. The mean loss, or else the first one that is not finite, or NaN if a weight is not."""
    groups, decayed = optimizer.param_groups, decayed_parameters(module)
    clipped, apart = [p for group in groups for p in group["params"]], trained_apart(module, config)
    total, n_rows = 0.0, 0
    module.train()
    for batch in batches:
        losses = _row_losses(module, batch, step)
        mean = (losses * batch.weight.to(losses)).mean()
        if not math.isfinite(value := mean.item()):
            return value
        for p in [*clipped, *apart]:
            p.grad = None
        torch.autograd.backward(mean)
        rate = next(rates)
        for group in groups:
            group["lr"] = rate * group.get("share", 1.0)
        if config.clip_norm is not None:
            nn.utils.clip_grad_norm_(clipped, config.clip_norm)
        if config.weight_decay > 0:  # here, since that of torch's SGD is not decoupled
            for p in decayed:
                if p.grad is not None:
                    p.data.mul_(1 - rate * config.weight_decay)
        optimizer.step()
        for p in apart:
            if p.grad is not None:
                p.data.sub_(p.grad, alpha=rate / config.learning_rate * (config.apart_rate or 0.0))
        total, n_rows = total + value * len(losses), n_rows + len(losses)
    return total / n_rows if all(bool(p.isfinite().all()) for p in [*clipped, *apart]) else math.nan


def mean_loss(module: nn.Module, batches: list[Batch], step: Step, masked_share: float) -> float:
    """The mean loss of validation rows: `masked_share` of it with random masks, the rest with all players."""
    total = 0.0
    with torch.no_grad():
        for batch in batches:
            for rows, part in ((batch._replace(present=None), 1 - masked_share), (batch, masked_share)):
                if part > 0:
                    total += part * float(batch.weight @ _row_losses(module, rows, step).cpu().double())
    return total / sum(float(batch.weight.sum()) for batch in batches)
