"""What a table model is fitted for, how long, and under which limits: problems, plans, constraints, pruning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from harsanyinet.tabular import TableNet
from harsanyinet.training import draw_masks

Array = NDArray[Any]
Loss = Literal["binary", "multiclass", "squared", "absolute", "poisson", "quantile"]


@dataclass(frozen=True)
class Plan:
    """How long and how strongly to train a table of a given size."""

    epochs: int
    batch_size: int
    learning_rate: float
    dropout: float
    weight_decay: float
    patience: int
    min_rows: int

    @classmethod
    def of(cls, n_rows: int, classifies: bool) -> Plan:
        """Small tables are passed often, in small batches and with strong dropout; large ones a few times.

        Classes say less than numbers do, and are learned by heart sooner.
        """
        if n_rows < 5_000:
            batch = int(np.clip(2 ** math.floor(math.log2(max(n_rows, 2) / 8)), 16, 128))
            return cls(40, batch, 3e-3, dropout=0.25, weight_decay=0.05, patience=12, min_rows=int(2 * n_rows**0.5))
        batch = int(np.clip(2 ** math.floor(math.log2(n_rows / 64)), 256, 2048))
        steps = (1000 if classifies else 2000) * (1 if n_rows < 100_000 else 2)
        epochs = int(np.clip(math.ceil(steps * batch / n_rows), 4, 40))
        return cls(epochs, batch, learning_rate=6e-3, dropout=0.1, weight_decay=0.02, patience=10, min_rows=20)


@dataclass(frozen=True)
class Problem:
    """The target of a model: its loss, its outputs and their scale.

    Attributes:
        kind: The loss. Binary: one logit; multiclass: one per class; Poisson: the logarithm of the mean.
        output_names: One per raw output.
        shift: Per output, added to what the network learns to give.
        scale: Per output, multiplied with it before.
        quantile: For the quantile loss.
    """

    kind: Loss
    output_names: list[str]
    shift: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)
    quantile: float = 0.5

    @classmethod
    def of_numbers(cls, kind: Loss, targets: Array, names: list[str], quantile: float) -> Problem:
        """Of a regression on (B, K) numbers: the network sees them standardised, except under a logarithm."""
        if kind == "poisson":
            return cls(kind, names, [0.0] * targets.shape[1], [1.0] * targets.shape[1])
        spread = targets.std(axis=0)
        return cls(kind, names, targets.mean(axis=0).tolist(), np.where(spread > 0, spread, 1.0).tolist(), quantile)

    @property
    def n_outputs(self) -> int:
        """K."""
        return len(self.output_names)

    @property
    def classifies(self) -> bool:
        """Whether targets are class numbers."""
        return self.kind in ("binary", "multiclass")

    def scaled(self, targets: Array) -> Array:
        """Targets as the loss takes them."""
        return targets if self.classifies else (targets - self.shift) / np.asarray(self.scale)

    def indicators(self, targets: Array) -> Array:
        """Targets as numbers whose variance can be explained."""
        if self.kind == "multiclass":
            return np.asarray(np.eye(self.n_outputs)[targets[:, 0].astype(int)])
        if self.kind == "poisson":
            return np.asarray(np.log1p(targets))
        return np.asarray(self.scaled(targets), dtype=np.float64)

    def start(self, targets: Array, weight: Array | None) -> Array:
        """Outputs of a model that knows nothing, (K,)."""
        weight = np.ones(len(targets)) if weight is None else weight
        if self.classifies:
            classes = targets[:, 0].astype(int)
            share = np.bincount(classes, weight, max(self.n_outputs, 2)) / weight.sum()
            log = np.log(np.maximum(share, 1e-3))
            return np.asarray(log[1:] - log[:1] if self.kind == "binary" else log - log.mean())
        if self.kind == "poisson":
            return np.asarray(np.log(np.maximum(np.average(targets, axis=0, weights=weight), 1e-6)))
        return np.zeros(self.n_outputs)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(B, M, K) and (B, 1, T) -> (B, M)."""
        if self.kind == "multiclass":
            classes = y[..., 0].long().expand(outputs.shape[:2])
            return F.cross_entropy(outputs.flatten(0, 1), classes.flatten(), reduction="none").view(outputs.shape[:2])
        y = y.expand_as(outputs)
        if self.kind == "binary":
            each = F.binary_cross_entropy_with_logits(outputs, y, reduction="none")
        elif self.kind == "squared":
            each = (outputs - y).square()
        elif self.kind == "poisson":
            each = outputs.clamp_max(30).exp() - y * outputs
        else:
            above = y - outputs
            q = 0.5 if self.kind == "absolute" else self.quantile
            each = torch.maximum(q * above, (q - 1) * above)
        return each.mean(2)

    def gradient(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """What to add to lower the loss, and its curvature: outputs (B, K) and scaled targets (B, T) -> (B, K) each."""
        if self.kind == "multiclass":
            share = np.exp(outputs - outputs.max(1, keepdims=True))
            share /= share.sum(1, keepdims=True)
            return np.eye(self.n_outputs)[targets[:, 0].astype(int)] - share, np.maximum(share * (1 - share), 1e-3)
        if self.kind == "binary":
            share = 1 / (1 + np.exp(-outputs))
            return targets - share, np.maximum(share * (1 - share), 1e-3)
        if self.kind == "poisson":
            mean = np.exp(np.minimum(outputs, 30.0))
            return targets - mean, np.maximum(mean, 1e-3)
        if self.kind == "squared":
            return targets - outputs, np.ones_like(outputs)
        q = 0.5 if self.kind == "absolute" else self.quantile
        return np.where(targets > outputs, q, q - 1.0), np.ones_like(outputs)

    def mean_loss(self, outputs: Array, targets: Array) -> float:
        """Of outputs (B, K) and scaled targets (B, T)."""
        return float(self.loss(torch.from_numpy(outputs)[:, None], torch.from_numpy(targets)[:, None]).mean())


@dataclass(frozen=True)
class Limits:
    """Which sets of columns may act together.

    Attributes:
        max_order: The largest set.
        within: Sets that must contain every set of two or more columns; None for no such limit.
        apart: Pairs that are in no set together.
        rising: 1 or -1 for each monotone column; it acts alone.
        n: Number of columns.
    """

    max_order: int | None
    within: tuple[frozenset[int], ...] | None
    apart: tuple[frozenset[int], ...]
    rising: dict[int, int]
    n: int

    @classmethod
    def of(cls, settings: Any, names: Sequence[str]) -> Limits:
        """From the parameters of an estimator."""
        order = settings.max_order
        if order is not None and (isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 1):
            raise ValueError(f"max_order must be a positive integer or None, however: max_order={order!r}")
        rising = {}
        for key, sign in (settings.monotone or {}).items():
            if sign not in (-1, 0, 1):
                raise ValueError(f"monotone must say 1, -1 or 0 for a column, however: {sign!r} for {key!r}")
            if sign:
                rising[positions([key], names, "monotone")[0]] = int(sign)
        within = None
        if settings.interactions is not None:
            within = tuple(frozenset(positions(s, names, "interactions")) for s in settings.interactions)
        apart = tuple(frozenset(positions(s, names, "forbidden")) for s in settings.forbidden or ())
        if wrong := [s for s in apart if len(s) != 2]:
            raise ValueError(f"forbidden must hold pairs of different columns, however: {sorted(wrong[0])}")
        return cls(None if order is None else int(order), within, apart, rising, len(names))

    def allow(self, members: Iterable[int]) -> bool:
        """Whether these columns may form a set."""
        chosen = frozenset(members)
        return (
            len(chosen) == 1
            or (
                (self.max_order is None or len(chosen) <= self.max_order)
                and not chosen & self.rising.keys()
                and not any(pair <= chosen for pair in self.apart)
                and (self.within is None or any(chosen <= s for s in self.within))
            )
        )  # fmt: skip

    def wide(self, relevant: Sequence[int], missing: Array) -> list[tuple[int, ...]]:
        """The largest allowed sets of relevant columns; and of those among them that are always there."""
        if self.max_order is not None and self.max_order < len(relevant):
            return []
        found: dict[tuple[int, ...], None] = {}
        for group in [frozenset(range(self.n))] if self.within is None else self.within:
            most = [i for i in relevant if i in group and i not in self.rising]
            found.update(dict.fromkeys(self._split(most)))
        for members in list(found):
            there = tuple(i for i in members if missing[i] < 0.002)
            if 2 <= len(there) < len(members):
                found[there] = None
        return [s for s in found if len(s) >= 2]

    def _split(self, members: Sequence[int]) -> list[tuple[int, ...]]:
        """Members without a forbidden pair: one of the two goes, in turns, until none is left; 8 sets or less."""
        sets = [frozenset(members)]
        for pair in self.apart:
            sets = [part for s in sets for part in ([s - {i} for i in sorted(pair)] if pair <= s else [s])][:8]
        ok = [s for s in sets if not any(pair <= s for pair in self.apart)]
        return list(dict.fromkeys(tuple(sorted(s)) for s in ok))


def positions(keys: Sequence[str | int] | None, names: Sequence[str], what: str) -> list[int]:
    """Columns by name or number."""
    found = []
    for key in keys or ():
        if isinstance(key, str) and key in names:
            found.append(list(names).index(key))
        elif not isinstance(key, str) and isinstance(key, int | np.integer) and 0 <= key < len(names):
            found.append(int(key))
        else:
            raise ValueError(f"{what} must name columns of the table or their numbers, however: {key!r}")
    return found


def worth_keeping(
    net: TableNet,
    x: Tensor,
    y: Tensor,
    problem: Problem,
    weight: Tensor | None = None,
    *,
    relevant: Sequence[int] | None = None,
    max_rows: int = 4000,
) -> tuple[NDArray[np.bool_], Tensor]:
    """Which units lower the loss on rows that their member did not learn from, with all players and with some.

    Units go one by one, the most useless first, for as long as what one saves is within a standard error of zero. For
    a column by itself that screening found to be irrelevant, within three, and it must be worth that by how it varies:
    if it goes, its mean becomes part of the base, (M, K) of which are returned too.

    Args:
        net: The trained network.
        x: Rows (B, P, 3).
        y: (B, T + 1), the last column the member that did not learn from the row.
        problem: Gives the loss.
        weight: (B,) of the rows; None for equal ones.
        relevant: Columns that screening found something in; None for all.
        max_rows: Rows to judge by, the first ones.
    """
    x, y = x[:max_rows], y[:max_rows]
    important = torch.ones(len(x)) if weight is None else (weight[:max_rows] / weight[:max_rows].mean()).to(x.dtype)
    draw = torch.Generator().manual_seed(0)
    masks = draw_masks(len(x), x.shape[1], draw)
    member = y[:, -1].long()
    with torch.no_grad():
        added = torch.cat([
            torch.cat([
                net.contributions(rows, mask)[:, of, torch.arange(len(rows))]  # (units, rows, K)
                for rows, mask, of in zip(*(torch.split(t, 512) for t in (x, present, member)), strict=True)
            ], 1) for present in (torch.ones_like(masks), masks)
        ], 1)  # fmt: skip
        target, member = y[:, None, :-1].repeat(2, 1, 1), member.repeat(2)
        out = net.bases[member] + added.sum(0)  # (2 B, K)
        keep, errors = np.ones(len(added), dtype=bool), np.ones(len(added))
        idle = sorted(set(range(x.shape[1])) - set(range(x.shape[1]) if relevant is None else relevant))
        errors[idle] = 3.0
        acting = torch.cat([torch.ones_like(masks), masks]) & ~x[:, :, 0].isnan().repeat(2, 1)
        means = added.new_zeros(len(added), net.members, net.n_outputs)
        for column in idle:
            rows = F.one_hot(member, net.members).to(added.dtype) * acting[:, column, None]  # (2 B, M)
            means[column] = rows.T @ added[column] / rows.sum(0).clamp_min(1)[:, None]
        while keep.any():
            now = problem.loss(out[:, None], target)[:, 0]
            better = torch.full((len(added),), -math.inf)
            for unit in np.flatnonzero(keep):
                without = out - added[unit] + means[unit, member]
                gain = problem.loss(without[:, None], target)[:, 0] - now  # what the unit is worth, by row
                gain = gain.view(2, -1).mean(0) * important
                better[unit] = -(gain.mean() - errors[unit] * gain.std() / len(gain) ** 0.5)
            worst = int(better.argmax())
            if better[worst] <= 0:
                break
            keep[worst] = False
            out = out - added[worst] + means[worst, member]
    return keep, means[torch.from_numpy(~keep)].sum(0)


def cell_ranks(cells: Array, n_cells: Sequence[int], kinds: Sequence[str], indicators: Array) -> NDArray[np.int64]:
    """The rank of every cell of every column, one column after the other, (all cells,).

    Cells of numbers are in order already; those of categories are ranked by what rows in them have for a target.

    Args:
        cells: (B, P); -1 where absent.
        n_cells: Per column.
        kinds: Per column "number" or "category".
        indicators: (B, K) targets as numbers.
    """
    found = []
    centred = indicators - indicators.mean(axis=0)
    for column, (count, kind) in enumerate(zip(n_cells, kinds, strict=True)):
        ranks = np.arange(count)
        there = cells[:, column] >= 0
        if kind == "category" and there.any() and count > 1:
            of = cells[there, column]
            rows = np.bincount(of, minlength=count)
            means = np.stack([np.bincount(of, y, count) for y in centred[there].T], 1) / (rows + 10)[:, None]
            if means.shape[1] > 1:  # several outputs: along the direction in which the cells differ most
                means = means @ np.linalg.svd(means * rows[:, None] ** 0.5, full_matrices=False)[2][:1].T
            ranks[np.argsort(means[:, 0], kind="stable")] = np.arange(count)
        found.append(ranks)
    return np.concatenate(found).astype(np.int64)
