"""Which sets of columns a table model gets: found from the training rows before the network is built. numpy only.

Every score is a sum of squares that a set explains beyond its smaller sets, compared with what noise would explain:
the cube root of Wilson and Hilferty, about standard normal when there is nothing to find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

Set = tuple[int, ...]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_PAIR_CELLS, _TRIPLE_CELLS = 12, 5
_MOST_COLUMNS = 60  # of which all pairs are tried
_MOST_TRIPLES = 1500


@dataclass(frozen=True)
class Structure:
    """Sets worth a unit.

    Attributes:
        relevant: Columns with a part in anything, in the order of the table.
        pairs: Strongest first.
        triples: Strongest first.
        scores: Of every relevant column by itself, pair and triple.
    """

    relevant: tuple[int, ...]
    pairs: tuple[Set, ...]
    triples: tuple[Set, ...]
    scores: dict[Set, float]


def screen(
    cells: Ints,
    targets: Floats,
    *,
    max_order: int | None = None,
    allowed: Callable[[Set], bool] = lambda members: True,
    n_pairs: int | None = None,
    n_triples: int | None = None,
    max_rows: int = 30_000,
    seed: int = 0,
) -> Structure:
    """Finds relevant columns, pairs and triples.

    Args:
        cells: (B, P) the cell of every value, neighbours next to each other; -1 where it is absent.
        targets: (B, K) numbers to explain; classes as indicators.
        max_order: No sets larger than this.
        allowed: Says which sets may be used.
        n_pairs: Pairs at most; by default twice the columns, at least 12 and at most 48.
        n_triples: Triples at most; by default as many as columns, at most 16.
        max_rows: Rows to look at, a random sample of them where there are more.
        seed: Of the sample.
    """
    n_rows, n = cells.shape
    if n_rows > max_rows:
        rows = np.sort(np.random.default_rng(seed).choice(n_rows, max_rows, replace=False))
        cells, targets = cells[rows], targets[rows]
    targets = targets - targets.mean(axis=0)
    targets = targets[:, targets.std(axis=0) > 0]
    order = n if max_order is None else max_order
    coarse = [_coarse(cells[:, i], _PAIR_CELLS) for i in range(n)]
    residual, effects = _additive(coarse, targets)
    scores: dict[Set, float] = {  # by itself, or when the others have had their part
        (i,): max(_score([coarse[i]], targets), _score([coarse[i]], residual + effects[i])) for i in range(n)
    }
    candidates = sorted(sorted(range(n), key=lambda i: -scores[(i,)])[:_MOST_COLUMNS])
    residual = np.clip(residual, *(np.array([[-3.0], [3.0]]) * residual.std(axis=0)))  # no few rows make a set
    small = [_coarse(column, _TRIPLE_CELLS) for column in coarse]
    found: dict[Set, float] = {}
    tried: dict[Set, float]
    if order >= 2:
        tried = {s: _score([coarse[i] for i in s], residual) for s in combinations(candidates, 2) if allowed(s)}
        found |= _best(tried, min(max(12, 2 * n), 48) if n_pairs is None else n_pairs)
    if order >= 3:
        grown = _triples(candidates, list(found))
        tried = {s: _score([small[i] for i in s], residual) for s in grown if allowed(s)}
        found |= _best(tried, min(n, 16) if n_triples is None else n_triples)
    found = _forward(found, residual, lambda s: [(coarse if len(s) == 2 else small)[i] for i in s], len(candidates))
    scores |= found
    alone = _threshold(n) - 1.0  # a column by itself is what one would expect
    relevant = {i for i in range(n) if scores[(i,)] > alone} | {i for s in found for i in s}
    pairs, triples = (tuple(s for s in found if len(s) == size) for size in (2, 3))
    return Structure(tuple(sorted(relevant)), pairs, triples, scores)


def _triples(candidates: Sequence[int], pairs: Sequence[Set]) -> list[Set]:
    """All triples where they are few; else those that add a column to one of the best pairs."""
    n = len(candidates)
    if n * (n - 1) * (n - 2) // 6 <= _MOST_TRIPLES:
        return list(combinations(candidates, 3))
    grown = dict.fromkeys(tuple(sorted({*pair, i})) for pair in pairs[:20] for i in candidates if i not in pair)
    return list(grown)[:_MOST_TRIPLES]


def _threshold(n_tried: int) -> float:
    """The largest of so many scores that noise would give, and a little more."""
    return 2.5 + float(np.sqrt(2 * np.log(max(n_tried, 1))))


def _best(tried: dict[Set, float], most: int) -> dict[Set, float]:
    """The sets above what noise would give, strongest first."""
    least = _threshold(len(tried))
    chosen = sorted((s for s in tried if tried[s] > least), key=lambda s: (-tried[s], s))
    return {s: tried[s] for s in chosen[:most]}


def _forward(
    found: dict[Set, float], residual: Floats, columns: Callable[[Set], list[Ints]], n: int
) -> dict[Set, float]:
    """Those that still explain something when the stronger ones have had their part: shadows of a set fall away."""
    left, rest, chosen = residual.copy(), dict(found), {}
    least = {size: _threshold(comb(n, size)) for size in (2, 3)}
    while rest:
        best = max(rest, key=lambda s: rest[s])
        if rest[best] <= least[len(best)]:
            break
        chosen[best] = found[best]
        del rest[best]
        key = _joint(columns(best))[0]
        count = np.maximum(np.bincount(key), 1)
        for k in range(left.shape[1]):
            left[:, k] -= (np.bincount(key, left[:, k]) / count)[key]
        rest = {s: min(score, _score(columns(s), left)) for s, score in rest.items()}
    return chosen


def _joint(columns: Sequence[Ints]) -> tuple[Ints, tuple[int, ...]]:
    """The cell of every row among the combinations of all columns, and how many cells each column has."""
    shape = tuple(int(column.max()) + 1 for column in columns)
    key = columns[0]
    for column, size in zip(columns[1:], shape[1:], strict=True):
        key = key * size + column
    return key, shape


def _coarse(cells: Ints, most: int) -> Ints:
    """Neighbouring cells joined into at most `most` of about equally many rows; -1 stays apart as a last one."""
    present = cells >= 0
    counts = np.bincount(cells[present]) if present.any() else np.zeros(1, dtype=np.int64)
    if np.count_nonzero(counts) > most:
        middle = np.cumsum(counts) - counts / 2
        joined = np.minimum((middle * most / counts.sum()).astype(np.int64), most - 1)
    else:
        joined = np.cumsum(counts > 0) - 1
    _, joined = np.unique(joined, return_inverse=True)
    return np.where(present, joined[np.where(present, cells, 0)], joined.max() + 1)


def _additive(columns: Sequence[Ints], targets: Floats) -> tuple[Floats, list[Floats]]:
    """What is left of the targets after a sum of one step function per column, fitted in turns, and that of each."""
    left, effects = targets.copy(), [np.zeros_like(targets) for _ in columns]
    counts = [np.maximum(np.bincount(column), 1) for column in columns]
    for _ in range(8):
        for column, count, effect in zip(columns, counts, effects, strict=True):
            for k in range(left.shape[1]):
                step = 0.7 * (np.bincount(column, left[:, k], len(count)) / count)[column]
                left[:, k] -= step
                effect[:, k] += step
    return left, effects


def _score(columns: Sequence[Ints], targets: Floats) -> float:
    """How much more the joint cells explain than lower orders do and than noise would."""
    key, shape = _joint(columns)
    size = int(np.prod(shape))
    counts = np.bincount(key, minlength=size).reshape(shape).astype(np.float64)
    filled = np.count_nonzero(counts) / size
    df = max(1.0, filled * np.prod([s - 1 for s in shape]))  # of the interaction, in proportion where cells are empty
    total = 0.0
    for k in range(targets.shape[1]):
        sums = np.bincount(key, targets[:, k], size).reshape(shape)
        for _ in range(3 if len(shape) > 1 else 0):
            for axis in range(len(shape)):  # what the sets without this axis explain
                among: Any = counts.sum(axis, keepdims=True)
                sums = sums - counts * (sums.sum(axis, keepdims=True) / np.maximum(among, 1))
        explained = float((sums**2 / np.maximum(counts, 1)).sum())
        ratio = explained / max(float(targets[:, k].var()), 1e-300) / df
        total += (ratio ** (1 / 3) - 1 + 2 / (9 * df)) / (2 / (9 * df)) ** 0.5
    return float(total / max(targets.shape[1], 1) ** 0.5)
