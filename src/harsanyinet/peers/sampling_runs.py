"""What sampling methods draw, play and keep: orders and coalitions, means and regressions. No budget, no network.

A `Run` draws and plays in chunks, so that a run with a larger budget continues a run with a smaller one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from harsanyinet.games import Floats, Masks
from harsanyinet.peers.row_games import CountingGame

GROUP = 10
"""The regression is repeated on groups of so many samples per player; the spread of the groups is its uncertainty."""
LEAST_GROUPS = 5


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
    """

    cost: int
    least: int = 1

    def __init__(self, game: CountingGame, paired: bool) -> None:
        self.game, self.n, self.paired = game, game.n_players, paired
        self.cost = 1 + paired

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

    def __init__(self, game: CountingGame, paired: bool) -> None:
        super().__init__(game, paired)
        self.average = Average()

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
        self._solutions = Average()

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
                    self._solutions.add(solve(self._group_a, self._group_b, self.game.total())[None])
                self._group_a, self._group_b = np.zeros_like(a), np.zeros_like(b)

    def result(self) -> tuple[Floats, Floats | None]:
        if not is_regular(self._a):
            raise ValueError(
                f"budget must buy coalitions that tell all {self.n} players apart, however: "
                f"the matrix of these {self._count * self.cost} is singular; raise the budget"
            )
        error = self._solutions.error(self._count / self._size, LEAST_GROUPS)
        return solve(self._a, self._b, self.game.total()), error


RUNS: dict[str, tuple[type[_Orders | _Unbiased | _Regression], bool]] = {
    "sampling": (_Orders, False),
    "antithetic": (_Orders, True),
    "kernel_shap": (_Regression, False),
    "kernel_shap_paired": (_Regression, True),
    "unbiased_kernel_shap": (_Unbiased, True),
    "unbiased_kernel_shap_unpaired": (_Unbiased, False),
}
"""Of each method the kind of its run, and whether it draws pairs."""


def draw_orders(rng: np.random.Generator, m: int, n: int) -> NDArray[np.intp]:
    """Uniform orders (m, n), with replacement. The k-th is the same however many are drawn at once."""
    return rng.random((m, n)).argsort(axis=1)


def draw_coalitions(rng: np.random.Generator, m: int, n: int) -> Masks:
    """Coalitions (m, n) of 1 to n - 1 players, with replacement: a size s with p(s) ~ 1 / (s (n - s)), then any such.

    All samples weigh the same, since the kernel is in the drawing. The k-th is the same however many are drawn at once.
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
    """Whether a symmetric matrix without negative eigenvalues has no zero one, as far as float64 can tell."""
    eigenvalues = np.linalg.eigvalsh(a)  # in increasing order
    return bool(eigenvalues[0] > len(a) * np.finfo(np.float64).eps * eigenvalues[-1])
