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
    from scipy.sparse import csr_array, eye_array, hstack

    def decision(present: NDArray[np.bool_]) -> bool | int:
        out = base + dividends[~coalitions[:, ~present].any(axis=1)].sum(axis=0)
        return bool(out[0] > threshold) if len(out) == 1 else int(np.argmax(out))

    n = coalitions.shape[1]
    wanted = decision(np.ones(n, dtype=bool))
    a, constant = dividends.T.astype(np.float64), base.astype(np.float64)
    if len(base) == 1:
        sign = 1.0 if wanted else -1.0
        weights, gain = sign * a, sign * (constant - threshold)  # wanted where no gain + weights . y is negative
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
