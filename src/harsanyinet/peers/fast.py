"""FastSHAP: a network trained to answer with Shapley values. Takes any game of rows and masks; never looks inside it.

Jethani, Sudarshan, Covert, Lee and Ranganath (2022). The explainer minimises the weighted least squares problem whose
solution is the Shapley value, over all rows at once. Its values are exact for no network: what they cost and how far
they are off must be reported together.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor, nn
from torch.nn.utils import skip_init

from harsanyinet.training import Batch, TrainingConfig, fit_module
from harsanyinet.training.steps import Step

RowGame = Callable[[Tensor, Tensor], Tensor]
"""Rows (B, ...) and the players that are there (B, n) bool, to outputs (B, K). A Harsanyi network is one."""

CHUNK = 2**13
"""Most rows in one call of a game."""


def size_law(n_players: int) -> Tensor:
    """(n - 1,) float64: the chance of a coalition of 1, ..., n - 1 players, proportional to 1 / (s (n - s))."""
    if n_players < 2:
        raise ValueError(f"n_players must be at least 2, however: n_players={n_players}; one player receives it all")
    s = torch.arange(1, n_players, dtype=torch.float64)
    law = 1 / (s * (n_players - s))
    return law / law.sum()


def draw_coalitions(
    n_rows: int, n_coalitions: int, n_players: int, *, paired: bool = True, generator: Generator
) -> Tensor:
    """Coalitions from the Shapley kernel, (B, m, n) bool, each row with its own; paired: half and complements."""
    n_drawn = n_rows * (n_coalitions // 2 if paired else n_coalitions)
    sizes = 1 + torch.multinomial(size_law(n_players), n_drawn, replacement=True, generator=generator)
    ranks = torch.rand(n_drawn, n_players, generator=generator).argsort(1).argsort(1)
    drawn = (ranks < sizes[:, None]).view(n_rows, -1, n_players)
    return torch.cat([drawn, ~drawn], 1) if paired else drawn


def normalised(raw: Tensor, total: Tensor) -> Tensor:
    """Additive efficient normalisation: what is missing from V(N), (B, K), is added in equal parts, (B, n, K)."""
    return raw + ((total - raw.sum(1)) / raw.shape[1])[:, None]


def coalition_loss(
    raw: Tensor, present: Tensor, gains: Tensor, total: Tensor, *, normalise: bool = True, penalty: float = 0.0
) -> Tensor:
    """(B,): n times the mean of (V(S) - sum of the values in S)^2 over coalitions and outputs, plus the penalty.

    Gradients reach the explainer through the normalisation as well; V(S) and V(N) are constants. At the Shapley values
    the loss is smallest and yet positive, unless the game is additive. The penalty weighs (V(N) - sum of raw)^2.

    Shape:
        - raw: (B, n, K), what the explainer answers; present: (B, m, n) bool, the coalitions S; gains: (B, m, K), their
          V(S) = v(S) - v(empty); total: (B, K), V(N).
    """
    gains, total = gains.detach(), total.detach()
    values = normalised(raw, total) if normalise else raw
    loss = (present.to(raw.dtype) @ values - gains).square().mean((1, 2))
    if penalty:
        loss = loss + penalty * (raw.sum(1) - total).square().mean(1)
    return loss * raw.shape[1]


class FastSHAP:
    """An explainer network for one game, trained once and then one pass per row.

    Args:
        game: A network in evaluation mode, a `Surrogate`, or any callable of rows (B, ...) and of the players that are
            there (B, n) bool, that returns raw outputs (B, K). Its ``base``, (K,), is v(empty) if it has one.
        n_players: n.
        n_outputs: K.
        explainer: A module from rows to (B, n, K), (B, n * K) with the players first, or maps (B, K, H, W) with
            n = H * W. A copy of it is trained. By default a perceptron, whose inputs should be standardised.
        hidden: Width of the default explainer.
        n_hidden: Hidden layers of the default explainer.
        coalitions: Coalitions per row and epoch.
        paired: Whether each coalition comes with its complement.
        normalise: Whether values are made to add up to V(N), in training and in `explain`.
        penalty: Weight of the squared violation of that sum, for training without normalisation.
        learning_rate: Of Adam, halved after more than patience // 2 epochs without gain.
        min_learning_rate: Where halving ends.
        batch_size: Rows per step.
        epochs: Most passes over the training rows.
        patience: Epochs without gain on the validation rows after which to stop.
        validation_coalitions: Coalitions per validation row, drawn once.
        seed: Of weights, order and coalitions. torch's global random state is left as it was.
        progress: Whether to show a bar once two seconds have passed.

    Attributes:
        explainer_: The trained module, at the weights of its best epoch.
        history_: Losses, best epoch and seconds.
        rows_: Rows put through the game in training, validation included.

    Examples:
        >>> weight = torch.tensor([1.0, -2.0, 3.0])
        >>> method = FastSHAP(lambda x, present: (x * present) @ weight[:, None], 3, 1, epochs=2, progress=False)
        >>> x = torch.rand(50, 3, generator=Generator().manual_seed(0))
        >>> method.fit(x).explain(x).shape, method.rows_
        ((50, 3), 3620)
    """

    def __init__(
        self,
        game: RowGame,
        n_players: int,
        n_outputs: int,
        *,
        explainer: nn.Module | None = None,
        hidden: int = 128,
        n_hidden: int = 2,
        coalitions: int = 32,
        paired: bool = True,
        normalise: bool = True,
        penalty: float = 0.0,
        learning_rate: float = 2e-4,
        min_learning_rate: float = 1e-5,
        batch_size: int = 32,
        epochs: int = 200,
        patience: int = 5,
        validation_coalitions: int = 128,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        size_law(n_players)
        for name, count, least in (("n_outputs", n_outputs, 1), ("hidden", hidden, 1), ("n_hidden", n_hidden, 0)):
            if count < least:
                raise ValueError(f"{name} must be at least {least}, however: {name}={count}")
        for number in (coalitions, validation_coalitions):
            if number < 1 or (paired and number % 2):
                kind = "positive and even, for pairs" if paired else "positive"
                raise ValueError(f"coalitions must be {kind}, however: coalitions={number}")
        if explainer is not None and not any(p.requires_grad for p in explainer.parameters()):
            raise ValueError("explainer must have a parameter that requires a gradient, however: it has none")
        if not 0 <= penalty < math.inf:
            raise ValueError(f"penalty must be at least zero, however: penalty={penalty}")
        self.config = TrainingConfig(
            epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, patience=patience, schedule="plateau",
            min_learning_rate=min(min_learning_rate, max(learning_rate, 0.0)),
        )  # fmt: skip
        self.game, self.n_players, self.n_outputs, self.explainer = game, n_players, n_outputs, explainer
        self.hidden, self.n_hidden, self.coalitions, self.paired = hidden, n_hidden, coalitions, paired
        self.normalise, self.penalty, self.validation_coalitions = normalise, penalty, validation_coalitions
        self.seed, self.progress, self._n_played = seed, progress, 0

    @property
    def seconds_(self) -> float:
        """Duration of the training."""
        return self.history_.seconds

    @property
    def converged_(self) -> bool:
        """Whether the error on the validation rows stopped falling before the last epoch that was allowed."""
        return len(self.history_.train_loss) < self.config.epochs

    def fit(self, x_train: ArrayLike | Tensor, x_validation: ArrayLike | Tensor | None = None) -> Self:
        """Trains the explainer; Ctrl-C raises KeyboardInterrupt and leaves the method as it was.

        Args:
            x_train: (N, ...) rows; those that will be scored do not belong in here.
            x_validation: Rows to choose the weights on. By default a tenth of the training rows, at most 100; fewer
                than ten rows are trained and validated on.

        Raises:
            FloatingPointError: If the loss overflows.
        """
        started = time.perf_counter()
        seeds = np.random.SeedSequence(self.seed).generate_state(6).tolist()  # the second orders rows in fit_module
        given = None if x_validation is None else self._rows(x_validation)
        x, held_out = hold_out(self._rows(x_train), given, seeds[0])
        self._n_played = 0
        explainer = self._new_explainer(x, seeds[4])
        numbers, check_numbers = (torch.arange(len(rows), device=x.device) for rows in (x, held_out))
        history = fit_module(
            explainer, x, numbers, step=self._step(x, held_out, *seeds[2:4]), config=self.config,
            validation=(held_out, check_numbers), seed=self.seed, progress=self.progress,
        )  # fmt: skip
        self.explainer_, self.rows_ = explainer, self._n_played
        self.history_ = replace(history, seconds=time.perf_counter() - started)
        return self

    def _step(self, x: Tensor, held_out: Tensor, seed: int, seed_held_out: int) -> Step:
        """The loss of each row of a batch, whose targets are the numbers of the rows among x, or among those held out.

        A training row gets new coalitions in every epoch, a row held out has its own, drawn and played once.
        """

        def played(x: Tensor, n_coalitions: int, empty: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
            drawn = draw_coalitions(len(x), n_coalitions, self.n_players, paired=self.paired, generator=generator)
            present = drawn.to(x.device)
            out = self._play(x.repeat_interleave(n_coalitions, 0), present.flatten(0, 1))
            return present, out.view(len(x), n_coalitions, -1) - empty[:, None]

        generator, checking = (Generator().manual_seed(s) for s in (seed, seed_held_out))
        empty, total = self._ends(x)
        check_empty, check_total = self._ends(held_out)
        checks = (*played(held_out, self.validation_coalitions, check_empty, checking), check_total)

        def step(explainer: nn.Module, batch: Batch) -> Tensor:
            rows, numbers = batch.x, batch.y
            if explainer.training:
                present, gains = played(rows, self.coalitions, empty[numbers], generator)
                whole = total[numbers]
            else:
                present, gains, whole = (each[numbers] for each in checks)
            raw = self._answer(explainer, rows)
            return coalition_loss(
                raw, present, gains.to(raw), whole.to(raw), normalise=self.normalise, penalty=self.penalty
            )

        return step

    def explain(self, x: ArrayLike | Tensor) -> NDArray[Any]:
        """Values (B, n), or (B, n, K) for several outputs: one pass of the explainer and one model row for V(N).

        A game that has no ``base`` is also asked for v(empty). Without normalisation no model row is needed, and the
        values need not add up.
        """
        if not hasattr(self, "explainer_"):
            raise RuntimeError("explain needs a trained explainer, however: fit was not called")
        rows = self._rows(x, least=0)
        with torch.no_grad():
            values = torch.cat([self._answer(self.explainer_, part) for part in torch.split(rows, CHUNK)])
            if self.normalise:
                total = self._ends(rows)[1]
                values = normalised(values.to(torch.promote_types(values.dtype, total.dtype)), total)
        return (values[:, :, 0] if self.n_outputs == 1 else values).cpu().numpy()

    def _new_explainer(self, x: Tensor, seed: int) -> nn.Module:
        if self.explainer is not None:
            return copy.deepcopy(self.explainer).to(x.device)
        sizes = [x[0].numel(), *[self.hidden] * self.n_hidden, self.n_players * self.n_outputs]
        return perceptron(sizes, Generator().manual_seed(seed)).to(x.device)

    def _answer(self, explainer: nn.Module, x: Tensor) -> Tensor:
        """(B, n, K), whatever the shape in which the explainer answers."""
        out: Tensor = explainer(x.to(next(explainer.parameters()).dtype))
        n, k = self.n_players, self.n_outputs
        if out.shape in ((len(x), n * k), (len(x), n, k)):
            return out.view(len(x), n, k)
        if out.ndim == 4 and out.shape[:2] == (len(x), k) and out[0, 0].numel() == n:
            return out.flatten(2).transpose(1, 2)
        raise ValueError(
            f"explainer must return (rows, {n}, {k}), (rows, {n * k}) or maps (rows, {k}, height, width) of {n} cells, "
            f"however: {tuple(out.shape)} for {len(x)} rows"
        )

    def _rows(self, x: ArrayLike | Tensor, least: int = 1) -> Tensor:
        """Rows as a tensor, of the dtype and on the device of the game where it has one."""
        game = self.game
        if isinstance(game, nn.Module) and game.training:
            raise ValueError("the network must be in evaluation mode, however: it is in training mode; call .eval()")
        like = next(game.parameters(), None) if isinstance(game, nn.Module) else None
        rows = torch.as_tensor(x) if like is None else torch.as_tensor(x, dtype=like.dtype, device=like.device)
        if rows.ndim < 2 or len(rows) < least:
            raise ValueError(f"x must hold rows of several columns, however: its shape is {tuple(rows.shape)}")
        return rows.detach()

    def _ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """v(empty) and V(N), (B, K) each. v(empty) is the game's ``base``, (K,), or else asked of each row."""
        everyone = torch.ones(len(x), self.n_players, dtype=torch.bool, device=x.device)
        full, base = self._play(x, everyone), getattr(self.game, "base", None)
        if isinstance(base, Tensor) and base.shape == (self.n_outputs,):
            return base.detach().expand_as(full), full - base.detach()
        empty = self._play(x, ~everyone)
        return empty, full - empty

    def _play(self, x: Tensor, present: Tensor) -> Tensor:
        """v(x_S), (B, K), of one coalition per row: the only place where the game is asked, and rows are counted."""
        self._n_played += len(x)
        parts = []
        for rows, there in zip(torch.split(x, CHUNK), torch.split(present, CHUNK), strict=True):
            with torch.no_grad():
                out = self.game(rows, there)
            wanted = (len(rows), self.n_outputs)
            if out.shape != wanted and not (self.n_outputs == 1 and out.shape == wanted[:1]):
                raise ValueError(f"the game must return {wanted}, however: {tuple(out.shape)}")
            parts.append(out.view(wanted))
        return torch.cat(parts)


def hold_out(x: Tensor, given: Tensor | None, seed: int) -> tuple[Tensor, Tensor]:
    """Rows to train and to validate on: those given, or a tenth, at most 100; of fewer than ten rows all for both."""
    n = min(len(x) // 10, 100)
    if given is not None or n == 0:
        return x, x if given is None else given
    order = torch.randperm(len(x), generator=Generator().manual_seed(seed)).to(x.device)
    return x[order[n:]], x[order[:n]]


def perceptron(sizes: Sequence[int], generator: Generator) -> nn.Sequential:
    """Linear layers with ReLU between, with torch's usual first weights drawn from the generator."""
    layers: list[nn.Module] = [nn.Flatten()]
    for d_in, d_out in pairwise(sizes):
        linear: nn.Linear = skip_init(nn.Linear, d_in, d_out)  # type: ignore[no-untyped-call]
        bound = 1 / math.sqrt(d_in)
        for parameter in (linear.weight, linear.bias):
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])
