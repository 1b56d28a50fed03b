"""Estimators of Shapley values that sample: random orders and KernelSHAP, plain and paired, for any game. No network.

The unit of cost is one row: one coalition put through the game. All estimators are one run of `curve`, which draws and
plays in chunks; a run with a larger budget continues a run with a smaller one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harsanyinet.games import Floats, Game, Masks
from harsanyinet.peers.row_games import CountingGame, counted, whole_number

CHUNK = 2**22
"""Masks are drawn in chunks of about so many entries, so that memory does not grow with the budget."""
GROUP = 10
"""The regression is repeated on groups of so many samples per player; the spread of the groups is its uncertainty."""
LEAST_GROUPS = 5


def draw_orders(rng: np.random.Generator, m: int, n: int) -> NDArray[np.intp]:
    """Uniform orders (m, n), with replacement. The k-th is the same however many are drawn at once."""
    return rng.random((m, n)).argsort(axis=1)


def draw_coalitions(rng: np.random.Generator, m: int, n: int) -> Masks:
    """Coalitions (m, n) from the kernel: a size s from 1 to n - 1 with p(s) ~ 1 / (s (n - s)), then any of that size.

    All samples weigh the same. The k-th is the same however many are drawn at once.
    """
    numbers = rng.random((m, n + 1))
    sizes = np.arange(1, n)
    below = np.cumsum(1 / (sizes * (n - sizes)))
    size = 1 + np.searchsorted(below[:-1] / below[-1], numbers[:, 0], side="right")  # (m,)
    masks = np.empty((m, n), dtype=np.bool_)
    np.put_along_axis(masks, numbers[:, 1:].argsort(axis=1), np.arange(n) < size[:, None], axis=1)
    return masks


def walk(game: CountingGame, orders: NDArray[np.intp]) -> Floats:
    """What each player adds as it joins, in each order: orders (m, n) -> (m, n, K). n - 1 rows per order."""
    m, n = orders.shape
    position = orders.argsort(axis=1)  # of each player
    masks = position[:, None, :] < np.arange(1, n)[:, None]  # (m, n - 1, n): the first 1 to n - 1 players
    total = game.total()
    path = np.zeros((m, n + 1, len(total)))
    path[:, -1] = total
    path[:, 1:-1] = game.gains(masks.reshape(-1, n)).reshape(m, n - 1, len(total))
    return np.take_along_axis(np.diff(path, axis=1), position[:, :, None], axis=1)


def walk_pairs(game: CountingGame, orders: NDArray[np.intp]) -> Floats:
    """The mean of an order and its reverse: orders (m, n) -> (m, n, K)."""
    return (walk(game, orders) + walk(game, orders[:, ::-1])) / 2


def unbiased(b: Floats, total: Floats) -> Floats:
    """V(N) / n + 2 H(n - 1) (b_i - mean of b): (..., n, K) -> (..., n, K)."""
    n = b.shape[-2]
    return np.asarray(total / n + 2 * (1 / np.arange(1, n)).sum() * (b - b.mean(axis=-2, keepdims=True)))


def solve(a: Floats, b: Floats, total: Floats) -> Floats:
    """Minimises phi' A phi - 2 b' phi subject to sum(phi) = V(N): A (n, n), b (n, K), V(N) (K,) -> (n, K)."""
    both = np.linalg.solve(a, np.column_stack([b, np.ones(len(a))]))
    free, ones = both[:, :-1], both[:, -1:]
    return np.asarray(free - ones * ((free.sum(axis=0) - total) / ones.sum()))


def is_regular(a: Floats) -> bool:
    """Whether a symmetric matrix has full rank, as far as float64 can tell."""
    return bool(np.linalg.matrix_rank(a, hermitian=True) == len(a))


class Average:
    """Running mean and variance of independent samples: Welford's update, a block at a time."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Floats = np.zeros(())
        self._squares: Floats = np.zeros(())  # sum of squared distances to the mean

    def add(self, block: Floats) -> None:
        """Adds samples (m, ...)."""
        mean, count = block.mean(axis=0), self.count + len(block)
        shift = mean - self.mean
        self._squares = self._squares + ((block - mean) ** 2).sum(axis=0) + shift**2 * (self.count * len(block) / count)
        self.mean = self.mean + shift * (len(block) / count)
        self.count = count

    def error(self, count: float, least: int = 2) -> Floats | None:
        """The standard error of a mean of `count` such samples; None below the least number of samples."""
        if self.count < least:
            return None
        return np.asarray(np.sqrt(self._squares / (self.count - 1) / count))


class Run(ABC):
    """One run of a method: draws samples, plays them and keeps what the estimate needs.

    Attributes:
        cost: Rows per sample.
        least: No smaller number of samples can give an estimate.
        average: Of one estimate per sample or per group of samples.
    """

    least: int = 1

    def __init__(self, game: CountingGame, paired: bool) -> None:
        self.game, self.n, self.paired = game, game.n_players, paired
        self.cost, self.average = 1 + paired, Average()

    @abstractmethod
    def add(self, rng: np.random.Generator, m: int) -> None:
        """Draws and plays m more samples."""

    @abstractmethod
    def result(self) -> tuple[Floats, Floats | None]:
        """Values and standard error of the samples so far, (n, K)."""

    def play_coalitions(self, rng: np.random.Generator, m: int) -> tuple[Floats, Floats]:
        """Coalitions from the kernel as 0 and 1, (m, 1, n), or pairs with complements, (m, 2, n), and their V."""
        masks = draw_coalitions(rng, m, self.n)[:, None]
        masks = np.concatenate([masks, ~masks], axis=1) if self.paired else masks
        gains = self.game.gains(masks.reshape(-1, self.n))
        return masks.astype(np.float64), gains.reshape(*masks.shape[:2], -1)


class _Mean(Run):
    """The mean of one estimate per sample."""

    def result(self) -> tuple[Floats, Floats | None]:
        return self.average.mean, self.average.error(self.average.count)


class _Orders(_Mean):
    """Of orders, or of pairs of an order and its reverse."""

    def __init__(self, game: CountingGame, paired: bool) -> None:
        super().__init__(game, paired)
        self.cost *= self.n - 1

    def add(self, rng: np.random.Generator, m: int) -> None:
        orders = draw_orders(rng, m, self.n)
        self.average.add(walk_pairs(self.game, orders) if self.paired else walk(self.game, orders))


class _Unbiased(_Mean):
    """Of coalitions or pairs, so that its variance is C Cov(b) C' / m, C = 2 H(n - 1) (I - 11' / n)."""

    def add(self, rng: np.random.Generator, m: int) -> None:
        z, gains = self.play_coalitions(rng, m)
        self.average.add(unbiased(np.einsum("msn,msk->mnk", z, gains) / self.cost, self.game.total()))


class _Regression(Run):
    """Least squares over all samples; the spread of the solutions of groups of samples is its uncertainty."""

    def __init__(self, game: CountingGame, paired: bool) -> None:
        super().__init__(game, paired)
        self.least = self.n - paired  # a pair adds two directions, of which all pairs share one
        self._size = GROUP * self.n
        self._count = 0
        self._a, self._b = np.zeros((self.n, self.n)), np.zeros((self.n, 1))  # sums of z z' and z V(z), (n, K)
        self._group_a, self._group_b = self._a, self._b  # the same, of the group that is not full

    def add(self, rng: np.random.Generator, m: int) -> None:
        z, gains = self.play_coalitions(rng, m)
        cuts = range(self._size - self._count % self._size, m, self._size)
        for part, v in zip(np.split(z, cuts), np.split(gains, cuts), strict=True):
            rows = part.reshape(-1, self.n)
            a, b = rows.T @ rows, rows.T @ v.reshape(len(rows), -1)
            self._a, self._b = self._a + a, self._b + b
            self._group_a, self._group_b = self._group_a + a, self._group_b + b
            self._count += len(part)
            if self._count % self._size == 0:
                if is_regular(self._group_a):  # in so many samples all but certain
                    self.average.add(solve(self._group_a, self._group_b, self.game.total())[None])
                self._group_a, self._group_b = np.zeros_like(a), np.zeros_like(b)

    def result(self) -> tuple[Floats, Floats | None]:
        if not is_regular(self._a):
            raise ValueError(
                f"budget must buy coalitions that tell all {self.n} players apart, however: "
                f"the matrix of these {self._count * self.cost} is singular; raise the budget"
            )
        error = self.average.error(self._count / self._size, LEAST_GROUPS)
        return solve(self._a, self._b, self.game.total()), error


Method = Literal[
    "sampling",
    "antithetic",
    "kernel_shap",
    "kernel_shap_paired",
    "unbiased_kernel_shap",
    "unbiased_kernel_shap_unpaired",
]
"""What `curve` takes: the function of that name with its defaults, and the unbiased estimator without pairs."""

RUNS: dict[str, tuple[type[_Orders | _Unbiased | _Regression], bool]] = {
    "sampling": (_Orders, False),
    "antithetic": (_Orders, True),
    "kernel_shap": (_Regression, False),
    "kernel_shap_paired": (_Regression, True),
    "unbiased_kernel_shap": (_Unbiased, True),
    "unbiased_kernel_shap_unpaired": (_Unbiased, False),
}
"""Of each method the kind of its run, and whether it draws pairs."""


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

    An order costs n - 1 rows, since both ends are known. Unbiased; after any number of orders the values add up to
    V(N). The standard error comes from the variance over orders.

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
