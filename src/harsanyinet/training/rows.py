"""The rows that a module is trained on: checked, split, and in batches with random masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor


def draw_masks(n_rows: int, n_players: int, generator: Generator) -> Tensor:
    """Random presence, (n_rows, n_players) bool. Each row has its own rate from U(0, 1): all sizes are as likely."""
    rate = torch.rand(n_rows, 1, generator=generator)
    return torch.rand(n_rows, n_players, generator=generator) < rate


class Batch(NamedTuple):
    """Rows to compute a loss of."""

    x: Tensor  # (B, ...) inputs
    y: Tensor  # (B, ...) targets
    weight: Tensor  # (B,) float64, on the CPU
    present: Tensor | None = None  # (B, n_players) bool, new for each training batch; None where every player is there

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


def checked_rows(x: Tensor, y: Tensor, sample_weight: Tensor | None = None, *, of: str = "") -> Batch:
    """The rows that count: those of weight zero are dropped, so that they reach neither the loss nor a batch norm."""
    if len(x) == 0:
        raise ValueError(f"{of}x must have at least one row, however: x.shape={tuple(x.shape)}")
    if len(x) != len(y):
        raise ValueError(f"{of}x and y must be equally long, however: len(x)={len(x)}, len(y)={len(y)}")
    weight = torch.ones(len(x), dtype=torch.float64) if sample_weight is None else sample_weight.detach().cpu().double()
    if weight.shape != (len(x),):
        raise ValueError(f"sample_weight must have shape {(len(x),)}, however: shape={tuple(weight.shape)}")
    if not bool((weight.isfinite() & (weight >= 0)).all()) or not bool(weight.any()):
        ends = f"min={weight.min().item()}, max={weight.max().item()}"
        raise ValueError(f"sample_weight must be finite, nowhere negative and somewhere positive, however: {ends}")
    rows = Batch(x, y, weight)
    if not bool(weight.all()):
        rows = rows.take(weight.nonzero()[:, 0])
    if not bool(rows.y.isfinite().all()):
        raise ValueError(f"{of}y must be finite, however: {int((~rows.y.isfinite()).sum())} values are NaN or infinite")
    return rows


def split_off(rows: Batch, share: float, generator: Generator) -> tuple[Batch, Batch]:
    """Rows to train on, and a share of them, drawn at random, to validate on."""
    n_rows = len(rows.x)
    n_held_out = max(1, round(share * n_rows))
    if n_held_out >= n_rows:
        raise ValueError(f"validation_share must leave rows to train on, however: {share} of {n_rows} rows leaves none")
    order = torch.randperm(n_rows, generator=generator)
    return rows.take(order[n_held_out:]), rows.take(order[:n_held_out])
