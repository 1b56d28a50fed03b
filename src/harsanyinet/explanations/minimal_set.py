"""The fewest features that keep a decision: a mixed-integer programme over the dividends. numpy and scipy only."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def minimal_set(
    coalitions: NDArray[np.bool_], dividends: Array, base: Array, threshold: float, time_limit: float
) -> tuple[int, ...]:
    """Minimises |S| such that v(S) decides as v(N) does, with y_T = prod_{i in T} x_i for every coalition T.

    Of one row: `dividends` (C, K), `base` (K,); the rest and the result are those of `Explanation.smallest_set`.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, csr_array, eye_array, hstack

    def decision(present: NDArray[np.bool_]) -> bool | int:
        out = base + dividends[~coalitions[:, ~present].any(axis=1)].sum(axis=0)
        return bool(out[0] > threshold) if len(out) == 1 else int(np.argmax(out))

    n = coalitions.shape[1]
    wanted = decision(np.ones(n, dtype=bool))
    weights, gain = _margins(dividends.astype(np.float64), base.astype(np.float64), wanted, threshold)
    acting = np.flatnonzero(np.abs(weights).max(axis=0) > 0)
    weights, inside, c = weights[:, acting], coalitions[acting], len(acting)
    scale = np.maximum(np.abs(weights).sum(axis=1), np.abs(gain)) + np.finfo(float).tiny
    term, member = np.nonzero(inside)
    each, ones = np.arange(len(term)), np.ones(len(term))
    minus_x, y = coo_array((-ones, (each, member)), (len(term), n)), coo_array((ones, (each, term)), (len(term), c))
    all_members = hstack([csr_array(-inside.astype(float)), csr_array(eye_array(c))])
    holds = hstack([coo_array((len(gain), n)), coo_array(weights / scale[:, None])])
    constraints = [
        LinearConstraint(hstack([minus_x, y]).tocsr(), -np.inf, 0),  # y_T <= x_i for all i in T
        LinearConstraint(all_members.tocsr(), 1 - inside.sum(axis=1), np.inf),  # y_T >= 1 - number of absent members
        LinearConstraint(holds.tocsr(), -gain / scale, np.inf),
    ]
    end = time.monotonic() + time_limit
    while True:  # the solver works to a tolerance: what it finds is checked, and cut off if it does not hold
        solution = milp(
            np.r_[np.ones(n), np.zeros(c)],
            integrality=np.r_[np.ones(n), np.zeros(c)],
            bounds=Bounds(0, 1),
            constraints=constraints,
            options={"mip_rel_gap": 0.0, "time_limit": max(end - time.monotonic(), 1e-3)},
        )
        if solution.status != 0 or time.monotonic() > end:
            raise RuntimeError(f"the smallest set was not found within {time_limit:g} s: {solution.message}")
        kept = solution.x[:n] > 0.5
        if decision(kept) == wanted:
            return tuple(np.flatnonzero(kept).tolist())
        another = np.r_[np.where(kept, -1.0, 1.0), np.zeros(c)]
        constraints.append(LinearConstraint(another[None], 1.0 - kept.sum(), np.inf))


def _margins(a: Array, base: Array, wanted: bool | int, threshold: float) -> tuple[Array, Array]:
    """Weights (M, C) and gains (M,): the decision holds where no gain + weights . y is negative."""
    if len(base) == 1:
        sign = 1.0 if wanted else -1.0
        return sign * a.T, sign * (base - threshold)
    others = [k for k in range(len(base)) if k != wanted]
    return (a[:, [wanted]] - a[:, others]).T, base[wanted] - base[others]
