"""Estimators of Shapley values that sample: random orders and KernelSHAP, plain and paired, for any game. No network.

The unit of cost is one row: one coalition put through the game. All estimators are one run of `curve`; a run with a
larger budget continues a run with a smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from harsanyinet.games import Floats, Game
from harsanyinet.peers.row_games import counted, whole_number
from harsanyinet.peers.sampling_runs import RUNS

Method = Literal[
    "sampling",
    "antithetic",
    "kernel_shap",
    "kernel_shap_paired",
    "unbiased_kernel_shap",
    "unbiased_kernel_shap_unpaired",
]
"""What `curve` takes: the function of that name with its defaults, and the unbiased estimator without pairs."""

CHUNK = 2**22
"""Masks are drawn in chunks of about so many entries, so that memory does not grow with the budget."""


@dataclass(frozen=True)
class Estimate:
    """Estimated Shapley values.

    Attributes:
        values: (n,) or (n, K), as the game returns (m,) or (m, K).
        evaluations: Rows put through the game, with the empty and the full coalition.
        standard_error: Of the values, in their shape; None where the samples are too few to tell.
        method: The name of the estimator.
    """

    values: Floats
    evaluations: int
    standard_error: Floats | None
    method: str


def sampling(game: Game, n_players: int, budget: int, *, seed: int = 0) -> Estimate:
    """Permutation sampling (Castro, Gomez, Tejada 2009): the mean gain of each player over random orders.

    An order costs n - 1 rows, since each is walked once and both ends are known. Unbiased; the values add up to V(N)
    after any number of orders. The standard error comes from the variance over orders.

    Args:
        game: Callable of bool masks (m, n) that returns (m,) or (m, K); a `CountingGame` keeps its two ends.
        n_players: n.
        budget: Largest number of rows, with the two ends. What is left of it after the last whole order is not spent.
        seed: Seed of the orders.

    Examples:
        >>> sampling(lambda masks: masks @ np.array([1.0, 2.0, 4.0]), 3, budget=4).values.tolist()
        [1.0, 2.0, 4.0]
    """
    return curve("sampling", game, n_players, [budget], seed=seed)[0]


def antithetic(game: Game, n_players: int, budget: int, *, seed: int = 0) -> Estimate:
    """Antithetic permutation sampling (Mitchell, Cooper, Frank, Holmes 2022): each order together with its reverse.

    A pair costs 2 (n - 1) rows. One pair is exact where no dividend has an order above 2. The standard error comes
    from the variance over pairs. Arguments as in `sampling`.
    """
    return curve("antithetic", game, n_players, [budget], seed=seed)[0]


def kernel_shap(game: Game, n_players: int, budget: int, *, seed: int = 0) -> Estimate:
    """KernelSHAP (Lundberg and Lee 2017) with coalitions drawn from its kernel: least squares with an exact sum.

    A coalition costs one row. Too few coalitions leave the system singular: a ValueError, no ridge. The standard error
    comes from the solutions of groups of 10 n coalitions, and needs five of them. Arguments as in `sampling`.
    """
    return curve("kernel_shap", game, n_players, [budget], seed=seed)[0]


def kernel_shap_paired(game: Game, n_players: int, budget: int, *, seed: int = 0) -> Estimate:
    """KernelSHAP with paired sampling (Covert and Lee 2021): every coalition brings its complement.

    A pair costs two rows. Exact where no dividend has an order above 2, as soon as the system is regular. The standard
    error comes from the solutions of groups of 10 n pairs. Arguments as in `sampling`.
    """
    return curve("kernel_shap_paired", game, n_players, [budget], seed=seed)[0]


def unbiased_kernel_shap(game: Game, n_players: int, budget: int, *, seed: int = 0, paired: bool = True) -> Estimate:
    """Unbiased KernelSHAP (Covert and Lee 2021): the matrix of the least squares is known, only its right side sampled.

    phi_i = V(N) / n + 2 H(n - 1) (b_i - mean of b) with b the mean of z V(z). Without bias, and with much more variance
    than `kernel_shap`. Arguments as in `sampling`, and `paired`: whether every coalition brings its complement.
    """
    method: Method = "unbiased_kernel_shap" if paired else "unbiased_kernel_shap_unpaired"
    return curve(method, game, n_players, [budget], seed=seed)[0]


def zero(game: Game, n_players: int) -> Estimate:
    """The estimate that every value is zero; plays the two ends, as every method does."""
    playing = counted(game, n_players)
    values = np.zeros((playing.n_players, playing.ends().shape[1]))
    return Estimate(playing.shaped(values), 2, None, "zero")


def equal_split(game: Game, n_players: int) -> Estimate:
    """The estimate that every player gets V(N) / n."""
    playing = counted(game, n_players)
    values = np.tile(playing.total() / playing.n_players, (playing.n_players, 1))
    return Estimate(playing.shaped(values), 2, None, "equal_split")


def curve(method: Method, game: Game, n_players: int, budgets: Sequence[int], *, seed: int = 0) -> list[Estimate]:
    """Estimates at growing budgets out of one run: each continues the draws of the one before.

    Each is what the method returns for that budget and seed, up to rounding. Budgets that buy the same number of
    samples get the same estimate.

    Args:
        method: One of `Method`.
        budgets: Rows, with the two ends; increasing.

    Other arguments as in `sampling`.

    Raises:
        ValueError: If the smallest budget is too small, also where its draws happen to leave a regression singular.
    """
    if method not in RUNS:
        raise ValueError(f"method must be one of {', '.join(RUNS)}, however: {method!r}")
    playing = counted(game, n_players)
    n = playing.n_players
    kind, paired = RUNS[method]
    run = kind(playing, paired)
    least = 2 + run.least * run.cost if n > 1 else 2
    rows = [whole_number(budget, "budget", least, f" for {n} players") for budget in budgets]
    if not rows or any(a >= b for a, b in pairwise(rows)):
        raise ValueError(f"budgets must be increasing and at least one, however: budgets={rows}")
    values: Floats = playing.total()[None]  # all of it to the one player
    error: Floats | None = np.zeros_like(values)
    before = playing.rows - 2
    rng = np.random.default_rng(seed)
    step = max(1, min(playing.max_rows, CHUNK // n) // max(run.cost, 1))
    estimates: list[Estimate] = []
    done = 0
    for budget in rows:
        if n > 1:
            n_samples = (budget - 2) // run.cost
            for start in range(done, n_samples, step):
                run.add(rng, min(step, n_samples - start))
            done = n_samples
            values, error = run.result()
        shaped = None if error is None else playing.shaped(error)
        estimates.append(Estimate(playing.shaped(values), playing.rows - before, shaped, method))
    return estimates


def row_errors(values: ArrayLike, truth: ArrayLike) -> Floats:
    """||phi - phi*||_2 / sqrt(n) of each row: (..., n) -> (...)."""
    return np.asarray(np.sqrt(((np.asarray(values) - np.asarray(truth)) ** 2).mean(axis=-1)))


def rmse(values: ArrayLike, truth: ArrayLike) -> float:
    """The mean of `row_errors` over rows: a mean of roots, not the root of a mean. Both are (B, n)."""
    left, right = np.asarray(values, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if left.ndim != 2 or left.shape != right.shape or left.size == 0:
        raise ValueError(
            f"values and truth must have the same shape (B, n) and not be empty, however: {left.shape}, {right.shape}"
        )
    return float(row_errors(left, right).mean())
