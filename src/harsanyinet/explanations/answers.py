"""Answers that are more than one weighted sum of dividends: missing features, probabilities, the sets that matter.

Coalitions (C, P), dividends (rows, C, K), some rows at a time, and base values (K,) or (B, K) in, numbers out. Weighted
sums are in `indices`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from harsanyinet import games
from harsanyinet.progress import bar

Array = NDArray[Any]
Masks = NDArray[np.bool_]


class Missingness(NamedTuple):
    """Mean and variance of the outputs, (B[, K]) each, when features go missing at random."""

    mean: Array
    variance: Array


class TopInteractions(NamedTuple):
    """The strongest interactions of one row and a bound on what the others can add.

    For every mask S, the value from `sets` alone is within `bound` of the exact value(S).
    """

    sets: list[tuple[int, ...]]
    names: list[tuple[str, ...]]
    values: Array
    bound: float


def order_shares(coalitions: Masks, chunks: Iterable[Array]) -> Array:
    """(P + 1,): the share of the sum of |dividends| by the size of the coalition; all of it in order 0 if none acts."""
    weight, n = np.zeros(len(coalitions)), coalitions.shape[1]
    for dividends in chunks:
        weight += np.abs(dividends).sum(axis=(0, 2), dtype=np.float64)
    sums = np.bincount(coalitions.sum(axis=1), weights=weight, minlength=n + 1)
    total = sums.sum()
    return np.asarray(sums / total) if total > 0 else np.eye(1, n + 1)[0]


def going_missing(coalitions: Masks, chunks: Iterable[Array], base: Array, probability: ArrayLike) -> Missingness:
    """Mean and variance of the outputs, (B, K) each, when features are present independently of each other.

    v(S) is a sum of dividends of the coalitions inside S, so its mean weighs each dividend by the probability that its
    coalition is present, and its variance is a quadratic form of them.
    """
    n, present = coalitions.shape[1], np.asarray(probability, dtype=np.float64)
    if present.shape not in ((), (n,)) or not np.all((present >= 0) & (present <= 1)):
        raise ValueError(f"probability must be one or {n} numbers in [0, 1], however: {present}")
    present = np.broadcast_to(present, n)
    possible = ~coalitions[:, present == 0].any(axis=1)
    members = coalitions[possible].astype(np.float64)
    log_present = np.log(np.where(present > 0, present, 1.0))
    alone = members @ log_present  # log P(T present)
    both = alone[:, None] + alone - (members * log_present) @ members.T  # log P(T and T' present)
    covariance = np.exp(both) - np.exp(alone[:, None] + alone)
    means, variances = [np.empty((0, base.shape[-1]))], [np.empty((0, base.shape[-1]))]
    for dividends in chunks:
        a = dividends[:, possible].astype(np.float64)  # (rows, C, K)
        means.append(np.einsum("bck,c->bk", a, np.exp(alone)))
        variances.append(np.einsum("bck,bck->bk", a, np.einsum("cd,bdk->bck", covariance, a)))
    return Missingness(base + np.concatenate(means), np.maximum(np.concatenate(variances), 0.0))


def probabilities(logits: Array) -> Array:
    """Probabilities (m, K) of logits (m, K): the sigmoid of one output, the softmax of several."""
    return np.asarray(expit(logits) if logits.shape[1] == 1 else softmax(logits, axis=1))


def shapley_of_probabilities(coalitions: Masks, rows: Iterable[Array], base: Array) -> Array:
    """Shapley values (B, P, K) of the predicted probabilities, from all 2^P values of each row and its base (B, K)."""
    n = coalitions.shape[1]
    if n > games.MAX_PLAYERS:
        raise ValueError(
            f"probability values need all 2^P coalitions, so at most {games.MAX_PLAYERS} features, however: {n}; "
            "restrict the explanation to fewer features"
        )
    codes = coalitions @ (1 << np.arange(n))
    values = np.empty((len(base), n, base.shape[1]))
    with bar("probabilities", len(base)) as shown:
        for row, (dividends, constant) in enumerate(zip(rows, base, strict=True)):
            table = np.zeros((2**n, len(constant)))
            table[codes] = dividends
            values[row] = games.shapley_of_table(probabilities(games.zeta_transform(table) + constant))
            shown.update()
    return values


def strongest_sets(
    coalitions: Masks, dividends: Array, feature_names: Sequence[str], k: int, at_least: int
) -> TopInteractions:
    """The k coalitions of the largest |dividends|, and by how much all others together can change any v(S).

    What is left out adds, for a mask S, the sum of the dropped dividends inside S, which lies between the sum of the
    negative ones and the sum of the positive ones. Sets of fewer than `at_least` features are among the others.
    """
    order = np.argsort(-np.abs(dividends), kind="stable")
    wanted = coalitions.sum(1)[order] >= at_least
    kept, dropped = order[wanted][:k], dividends[np.concatenate([order[wanted][k:], order[~wanted]])]
    sets = [tuple(np.flatnonzero(coalitions[c]).tolist()) for c in kept]
    names = [tuple(feature_names[i] for i in members) for members in sets]
    bound = max(float(dropped[dropped > 0].sum()), float(-dropped[dropped < 0].sum()), 0.0)
    return TopInteractions(sets, names, dividends[kept], bound)


def minimal_set(
    coalitions: Masks, dividends: Array, base: Array, threshold: float, time_limit: float
) -> tuple[int, ...]:
    """The fewest features that keep a decision: minimises |S| such that v(S) decides as v(N) does.

    A mixed-integer programme with y_T = prod_{i in T} x_i for every coalition T; `dividends` (C, K) and `base` (K,) are
    those of one row, the rest and the result those of `Explanation.smallest_set`.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, hstack

    def decision(present: Masks) -> bool | int:
        out = base + dividends[~coalitions[:, ~present].any(axis=1)].sum(axis=0)
        return bool(out[0] > threshold) if len(out) == 1 else int(np.argmax(out))

    n = coalitions.shape[1]
    wanted = decision(np.ones(n, dtype=bool))
    a, constant = dividends.T.astype(np.float64), base.astype(np.float64)
    if len(base) == 1:  # the decision holds where no gain + weights . y is negative
        sign = 1.0 if wanted else -1.0
        weights, gain = sign * a, sign * (constant - threshold)
    else:
        others = np.arange(len(base)) != wanted
        weights, gain = a[wanted] - a[others], constant[wanted] - constant[others]
    acting = np.flatnonzero(np.abs(weights).max(axis=0) > 0)
    weights, inside = weights[:, acting], coalitions[acting]
    scale = np.maximum(np.abs(weights).sum(axis=1), np.abs(gain)) + np.finfo(float).tiny
    term, member = np.nonzero(inside)
    x, y = csr_array(eye_array(n)), csr_array(eye_array(len(acting)))
    all_members = hstack([csr_array(-inside.astype(float)), y])
    holds = np.hstack([np.zeros((len(gain), n)), weights / scale[:, None]])
    constraints = [
        LinearConstraint(hstack([-x[member], y[term]]).tocsr(), -np.inf, 0),  # y_T <= x_i for all i in T
        LinearConstraint(all_members.tocsr(), 1 - inside.sum(axis=1), np.inf),  # y_T >= 1 - number of absent members
        LinearConstraint(holds, -gain / scale, np.inf),
    ]
    counted = np.r_[np.ones(n), np.zeros(len(acting))]  # the features, not the coalitions
    end = time.monotonic() + time_limit
    while True:  # the solver works to a tolerance: what it finds is checked, and cut off if it does not hold
        solution = milp(
            counted,
            integrality=counted,
            bounds=Bounds(0, 1),
            constraints=constraints,
            options={"mip_rel_gap": 0.0, "time_limit": max(end - time.monotonic(), 1e-3)},
        )
        if solution.status != 0 or time.monotonic() > end:
            raise RuntimeError(f"the smallest set was not found within {time_limit:g} s: {solution.message}")
        kept = solution.x[:n] > 0.5
        if decision(kept) == wanted:
            return tuple(np.flatnonzero(kept).tolist())
        another = np.r_[np.where(kept, -1.0, 1.0), np.zeros(len(acting))]
        constraints.append(LinearConstraint(another[None], 1.0 - kept.sum(), np.inf))
