"""Estimators of Shapley values that sample: random orders and KernelSHAP, plain and paired, for any game. No network.

The unit of cost is one row: one coalition put through the game. `CountingGame` is the only place where rows are
counted. All estimators are one run of `curve`, which draws, plays and averages in chunks; a run with a larger budget
continues a run with a smaller one. V(S) = v(S) - v(empty) throughout.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from harsanyinet.games import Floats, Game, Masks

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
GROUP = 10
"""The regression is repeated on groups of so many samples per player; the spread of the groups is its uncertainty."""
LEAST_GROUPS = 5


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


class CountingGame:
    """A game that counts the rows it plays; itself a game of bool masks.

    Args:
        game: Callable of bool masks (m, n) that returns (m,) or (m, K).
        n_players: n.
        max_rows: Largest number of masks in one call of the game.

    Attributes:
        rows: Rows played so far. The empty and the full coalition are played once.

    Examples:
        >>> game = CountingGame(lambda masks: masks.sum(axis=1), 3)
        >>> game(np.eye(3, dtype=bool)).tolist(), game.rows
        ([1.0, 1.0, 1.0], 3)
    """

    def __init__(self, game: Game, n_players: int, max_rows: int = 8192) -> None:
        self.n_players = _whole(n_players, "n_players", 1)
        self.max_rows = _whole(max_rows, "max_rows", 1)
        self.rows = 0
        self._game = game
        self._tail: tuple[int, ...] | None = None  # () or (K,), known after the first call
        self._ends: Floats | None = None

    def __call__(self, masks: Masks) -> Floats:
        """Plays coalitions: bool masks (m, n) -> float64 (m,) or (m, K)."""
        return self.shaped(self.play(masks))

    def play(self, masks: Masks) -> Floats:
        """Plays coalitions in chunks: bool masks (m, n) -> v, (m, K)."""
        masks = np.asarray(masks)
        if masks.dtype != np.bool_ or masks.ndim != 2 or masks.shape[1] != self.n_players:
            raise ValueError(
                f"masks must be bool of shape (m, {self.n_players}), however: {masks.dtype} of shape {masks.shape}"
            )
        starts = range(0, max(len(masks), 1), self.max_rows)
        return np.concatenate([self._chunk(masks[start : start + self.max_rows]) for start in starts])

    def ends(self) -> Floats:
        """v(empty) and v(N), (2, K); played when first asked for."""
        if self._ends is None:
            self._ends = self.play(np.repeat([[False], [True]], self.n_players, axis=1))
        return self._ends

    def gains(self, masks: Masks) -> Floats:
        """V(S) = v(S) - v(empty), (m, K)."""
        return np.asarray(self.play(masks) - self.ends()[0])

    def shaped(self, values: Floats) -> Floats:
        """(m, K) as the game itself returns it: without the last axis where the game returns (m,)."""
        return values[..., 0] if self._tail == () else values

    def _chunk(self, masks: Masks) -> Floats:
        values: Any = self._game(masks)
        self.rows += len(masks)
        if hasattr(values, "detach"):
            values = values.detach().cpu().double().numpy()
        out = np.array(values, dtype=np.float64)  # a copy: a game may return the same buffer every time
        if out.ndim not in (1, 2) or len(out) != len(masks):
            raise ValueError(
                f"a game must return ({len(masks)},) or ({len(masks)}, K) for {len(masks)} masks, however: {out.shape}"
            )
        if self._tail is None:
            self._tail = out.shape[1:]
        if out.shape[1:] != self._tail:
            raise ValueError(
                f"a game must return as many outputs in every call, however: {self._tail}, {out.shape[1:]}"
            )
        if not np.isfinite(out).all():
            raise ValueError(f"a game must return finite values, however: {out[~np.isfinite(out)][0]}")
        return out if out.ndim == 2 else out[:, None]


def model_game(
    model: nn.Module, x: Tensor, *, baseline: Tensor | None = None, output: int | None = None
) -> Callable[[Masks], NDArray[Any]]:
    """The game of one row of any network, in evaluation mode and without gradients.

    Args:
        model: If its `forward` takes `present`, masks are passed as `present`, and the network says what absence is.
            In any other network every entry of x is a player, and absent entries are set to the baseline.
        x: One row: (D,), or with a first axis of length one, (1, D) or (1, C, H, W).
        baseline: In the shape of x, or one that broadcasts to it; zero by default. Only without `present`.
        output: The output to explain; all of them by default.

    Returns:
        Callable of bool masks (m, n) that returns (m, K), or (m,) for one output.
    """
    row = (x[None] if x.ndim == 1 else x).detach()
    if row.ndim < 2 or len(row) != 1:
        raise ValueError(f"x must be one row, (D,) or with a first axis of length one, however: {tuple(x.shape)}")
    takes_present = "present" in inspect.signature(model.forward).parameters
    if takes_present and baseline is not None:
        raise ValueError("baseline must be None for a network that takes `present`, however: a baseline was given")
    absent = torch.zeros_like(row) if baseline is None else baseline.detach().to(row).broadcast_to(row.shape)
    _check_mode(model)

    def play(masks: Masks) -> NDArray[Any]:
        _check_mode(model)
        present = torch.from_numpy(np.ascontiguousarray(masks)).to(row.device)
        rows = row.expand(len(masks), *row.shape[1:])
        with torch.no_grad():
            if takes_present:
                out = model(rows, present=present)
            elif masks.shape[1] != row.numel():
                raise ValueError(f"masks must have {row.numel()} columns, one per entry of x, however: {masks.shape}")
            else:
                out = model(torch.where(present.view(rows.shape), rows, absent))
        if output is None:
            return np.asarray(out.cpu().numpy())
        if out.ndim != 2 or not 0 <= output < out.shape[1]:
            raise ValueError(f"output must name a column of the network's {tuple(out.shape)}, however: output={output}")
        return np.asarray(out[:, output].cpu().numpy())

    return play


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
    counted = _counted(game, n_players)
    values = np.zeros((counted.n_players, counted.ends().shape[1]))
    return Estimate(counted.shaped(values), 2, None, "zero")


def equal_split(game: Game, n_players: int) -> Estimate:
    """The estimate that every player gets V(N) / n."""
    counted = _counted(game, n_players)
    empty, full = counted.ends()
    values = np.tile((full - empty) / counted.n_players, (counted.n_players, 1))
    return Estimate(counted.shaped(values), 2, None, "equal_split")


def curve(method: Method, game: Game, n_players: int, budgets: Sequence[int], *, seed: int = 0) -> list[Estimate]:
    """Estimates at growing budgets out of one run: each continues the draws of the one before.

    Each is what the method returns for that budget and seed, up to rounding. Budgets that buy the same number of
    samples get the same estimate.

    Args:
        method: One of `Method`.
        game: Callable of bool masks (m, n) that returns (m,) or (m, K); a `CountingGame` keeps its two ends.
        n_players: n.
        budgets: Rows, with the two ends; increasing.
        seed: Seed of the draws.

    Raises:
        ValueError: If the smallest budget is too small, also where its draws happen to leave a regression singular.
    """
    if method not in _RUNS:
        raise ValueError(f"method must be one of {', '.join(_RUNS)}, however: {method!r}")
    counted = _counted(game, n_players)
    n = counted.n_players
    run = _RUNS[method](counted)
    budgets = _check_budgets(budgets, run)
    empty, full = counted.ends()
    before = counted.rows - 2
    rng = np.random.default_rng(seed)
    step = max(1, min(counted.max_rows, CHUNK // n) // max(run.cost, 1))
    found: list[Estimate] = []
    done = 0
    for budget in budgets:
        n_samples = (budget - 2) // run.cost if n > 1 else 0
        while done < n_samples:
            m = min(step, n_samples - done)
            run.add(rng, m)
            done += m
        values: Floats = (full - empty)[None]  # all of it to the one player
        error: Floats | None = np.zeros_like(values)
        if n > 1:
            values, error = run.result()
        error = None if error is None else counted.shaped(error)
        found.append(Estimate(counted.shaped(values), counted.rows - before, error, method))
    return found


def rmse(values: ArrayLike, truth: ArrayLike) -> float:
    """The mean over rows of ||phi - phi*||_2 / sqrt(n): a mean of roots, not the root of a mean. Both are (B, n)."""
    left, right = np.asarray(values, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if left.ndim != 2 or left.shape != right.shape or left.size == 0:
        raise ValueError(
            f"values and truth must have the same shape (B, n) and not be empty, however: {left.shape}, {right.shape}"
        )
    return float(np.sqrt(((left - right) ** 2).mean(axis=1)).mean())


class _Average:
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


class _Run(ABC):
    """One run of a method: draws samples, plays them and keeps what the estimate needs.

    Attributes:
        cost: Rows per sample.
        least: No smaller number of samples can give an estimate.
    """

    cost: int
    least: int = 1

    def __init__(self, game: CountingGame, paired: bool) -> None:
        self.game, self.n, self.paired = game, game.n_players, paired

    @abstractmethod
    def add(self, rng: np.random.Generator, m: int) -> None:
        """Draws and plays m more samples."""

    @abstractmethod
    def result(self) -> tuple[Floats, Floats | None]:
        """Values and standard error of the samples so far, (n, K)."""


class _Orders(_Run):
    """The mean over orders, or over pairs of an order and its reverse."""

    def __init__(self, game: CountingGame, paired: bool) -> None:
        super().__init__(game, paired)
        self.cost = (1 + paired) * (self.n - 1)
        self._average = _Average()

    def add(self, rng: np.random.Generator, m: int) -> None:
        orders = _draw_orders(rng, m, self.n)
        self._average.add(_walk_pairs(self.game, orders) if self.paired else _walk(self.game, orders))

    def result(self) -> tuple[Floats, Floats | None]:
        return self._average.mean, self._average.error(self._average.count)


class _Coalitions(_Run):
    """Coalitions drawn from the kernel, or pairs of a coalition and its complement."""

    def __init__(self, game: CountingGame, paired: bool) -> None:
        super().__init__(game, paired)
        self.cost = 1 + paired

    def add(self, rng: np.random.Generator, m: int) -> None:
        masks = _draw_coalitions(rng, m, self.n)[:, None]
        masks = np.concatenate([masks, ~masks], axis=1) if self.paired else masks  # (m, 1 or 2, n)
        gains = self.game.gains(masks.reshape(-1, self.n))
        self.take(masks.astype(np.float64), gains.reshape(*masks.shape[:2], -1))

    @abstractmethod
    def take(self, z: Floats, gains: Floats) -> None:
        """Adds samples: coalitions as 0 and 1, (m, 1 or 2, n), and their V, (m, 1 or 2, K)."""

    def total(self) -> Floats:
        """V(N), (K,)."""
        empty, full = self.game.ends()
        return np.asarray(full - empty)


class _Unbiased(_Coalitions):
    """The mean of one estimate per sample, so that its variance is C Cov(b) C' / m, C = 2 H(n - 1) (I - 11' / n)."""

    def __init__(self, game: CountingGame, paired: bool) -> None:
        super().__init__(game, paired)
        self._average = _Average()

    def take(self, z: Floats, gains: Floats) -> None:
        b = np.einsum("msn,msk->mnk", z, gains) / z.shape[1]
        self._average.add(_unbiased(b, self.total()))

    def result(self) -> tuple[Floats, Floats | None]:
        return self._average.mean, self._average.error(self._average.count)


class _Regression(_Coalitions):
    """Least squares over all samples; the spread of the solutions of groups of samples is its uncertainty."""

    def __init__(self, game: CountingGame, paired: bool) -> None:
        super().__init__(game, paired)
        self.least = self.n - paired  # a pair adds two directions, of which all pairs share one
        self._size = GROUP * self.n
        self._count = 0
        self._a, self._b = np.zeros((self.n, self.n)), np.zeros((self.n, 1))  # sums of z z' and z V(z), (n, K)
        self._group_a, self._group_b = self._a, self._b  # the same, of the group that is not full
        self._solutions = _Average()

    def take(self, z: Floats, gains: Floats) -> None:
        cuts = range(self._size - self._count % self._size, len(z), self._size)
        for part, v in zip(np.split(z, cuts), np.split(gains, cuts), strict=True):
            rows = part.reshape(-1, self.n)
            a, b = rows.T @ rows, rows.T @ v.reshape(len(rows), -1)
            self._a, self._b = self._a + a, self._b + b
            self._group_a, self._group_b = self._group_a + a, self._group_b + b
            self._count += len(part)
            if self._count % self._size == 0:
                if _is_regular(self._group_a):  # in so many samples all but certain
                    self._solutions.add(_solve(self._group_a, self._group_b, self.total())[None])
                self._group_a, self._group_b = np.zeros_like(a), np.zeros_like(b)

    def result(self) -> tuple[Floats, Floats | None]:
        if not _is_regular(self._a):
            raise ValueError(
                f"budget must buy coalitions that tell all {self.n} players apart, however: "
                f"the matrix of these {self._count * self.cost} is singular; raise the budget"
            )
        error = self._solutions.error(self._count / self._size, LEAST_GROUPS)
        return _solve(self._a, self._b, self.total()), error


_RUNS: dict[str, Callable[[CountingGame], _Run]] = {
    "sampling": lambda game: _Orders(game, paired=False),
    "antithetic": lambda game: _Orders(game, paired=True),
    "kernel_shap": lambda game: _Regression(game, paired=False),
    "kernel_shap_paired": lambda game: _Regression(game, paired=True),
    "unbiased_kernel_shap": lambda game: _Unbiased(game, paired=True),
    "unbiased_kernel_shap_unpaired": lambda game: _Unbiased(game, paired=False),
}


def _draw_orders(rng: np.random.Generator, m: int, n: int) -> NDArray[np.intp]:
    """Uniform orders (m, n), with replacement. The k-th is the same however many are drawn at once."""
    return rng.random((m, n)).argsort(axis=1)


def _draw_coalitions(rng: np.random.Generator, m: int, n: int) -> Masks:
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


def _walk(game: CountingGame, orders: NDArray[np.intp]) -> Floats:
    """What each player adds as it joins, in each order: orders (m, n) -> (m, n, K). n - 1 rows per order."""
    m, n = orders.shape
    position = orders.argsort(axis=1)  # of each player
    masks = position[:, None, :] < np.arange(1, n)[:, None]  # (m, n - 1, n): the first 1 to n - 1 players
    empty, full = game.ends()
    path = np.empty((m, n + 1, len(full)))
    path[:, 0], path[:, -1] = 0.0, full - empty
    path[:, 1:-1] = game.gains(masks.reshape(-1, n)).reshape(m, n - 1, len(full))
    return np.take_along_axis(np.diff(path, axis=1), position[:, :, None], axis=1)


def _walk_pairs(game: CountingGame, orders: NDArray[np.intp]) -> Floats:
    """The mean of an order and its reverse: orders (m, n) -> (m, n, K)."""
    return (_walk(game, orders) + _walk(game, orders[:, ::-1])) / 2


def _unbiased(b: Floats, total: Floats) -> Floats:
    """V(N) / n + 2 H(n - 1) (b_i - mean of b): (..., n, K) -> (..., n, K)."""
    n = b.shape[-2]
    return np.asarray(total / n + 2 * (1 / np.arange(1, n)).sum() * (b - b.mean(axis=-2, keepdims=True)))


def _solve(a: Floats, b: Floats, total: Floats) -> Floats:
    """Minimises phi' A phi - 2 b' phi subject to sum(phi) = V(N): A (n, n), b (n, K), V(N) (K,) -> (n, K)."""
    both = np.linalg.solve(a, np.column_stack([b, np.ones(len(a))]))
    free, ones = both[:, :-1], both[:, -1:]
    return np.asarray(free - ones * ((free.sum(axis=0) - total) / ones.sum()))


def _is_regular(a: Floats) -> bool:
    """Whether a symmetric matrix without negative eigenvalues has no zero one, as far as float64 can tell."""
    eigenvalues = np.linalg.eigvalsh(a)  # in increasing order
    return bool(eigenvalues[0] > len(a) * np.finfo(np.float64).eps * eigenvalues[-1])


def _counted(game: Game, n_players: int) -> CountingGame:
    if not isinstance(game, CountingGame):
        return CountingGame(game, n_players)
    if game.n_players != n_players:
        raise ValueError(f"n_players must be the {game.n_players} of the game, however: n_players={n_players}")
    return game


def _check_budgets(budgets: Sequence[int], run: _Run) -> list[int]:
    least = 2 + run.least * run.cost if run.n > 1 else 2
    found = [_whole(budget, "budget", least, f" for {run.n} players") for budget in budgets]
    if not found or any(a >= b for a, b in pairwise(found)):
        raise ValueError(f"budgets must be increasing and at least one, however: budgets={found}")
    return found


def _check_mode(model: nn.Module) -> None:
    if any(module.training for module in model.modules()):
        raise RuntimeError("a game needs a network in evaluation mode, however: it is in training mode; call .eval()")


def _whole(number: Any, name: str, least: int, why: str = "") -> int:
    try:
        found = -1 if isinstance(number, bool) else index(number)
    except TypeError:
        found = -1
    if found < least:
        raise ValueError(f"{name} must be a whole number of at least {least}{why}, however: {name}={number!r}")
    return found
