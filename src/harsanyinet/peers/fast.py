"""FastSHAP: a network trained to answer with Shapley values. Takes any game of rows and masks; never looks inside it.

Jethani, Sudarshan, Covert, Lee and Ranganath (2022). The explainer minimises the weighted least squares problem whose
solution is the Shapley value, over all rows at once; no Shapley value is ever computed. Its values are exact for no
network: what they cost and how far they are off must be reported together.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import skip_init

from harsanyinet.network import HarsanyiNet
from harsanyinet.progress import bar
from harsanyinet.training import History, TrainingConfig, fit_module

RowGame = Callable[[Tensor, Tensor], Tensor]
"""Rows (B, ...) and the players that are there (B, n) bool, to outputs (B, K). A Harsanyi network is one."""

CHUNK = 2**13
"""Most rows in one call of a game."""


def size_law(n_players: int) -> Tensor:
    """(n - 1,) float64: the chance of a coalition of 1, ..., n - 1 players, proportional to 1 / (s (n - s)).

    With a uniform draw among the coalitions of that size this is the Shapley kernel: samples need no further weight.
    """
    if n_players < 2:
        raise ValueError(f"n_players must be at least 2, however: n_players={n_players}; one player receives it all")
    s = torch.arange(1, n_players, dtype=torch.float64)
    law = 1 / (s * (n_players - s))
    return law / law.sum()


def draw_coalitions(
    n_rows: int, n_coalitions: int, n_players: int, *, paired: bool = True, generator: Generator
) -> Tensor:
    """Coalitions from the Shapley kernel, (B, m, n) bool, each row with its own; paired: half and complements."""
    if n_coalitions < 1 or (paired and n_coalitions % 2):
        kind = "positive and even, for pairs" if paired else "positive"
        raise ValueError(f"coalitions must be {kind}, however: coalitions={n_coalitions}")
    n_drawn = n_rows * (n_coalitions // 2 if paired else n_coalitions)
    law = size_law(n_players)
    if n_drawn == 0:
        return torch.zeros(n_rows, n_coalitions, n_players, dtype=torch.bool)
    sizes = 1 + torch.multinomial(law, n_drawn, replacement=True, generator=generator)
    ranks = torch.rand(n_drawn, n_players, generator=generator).argsort(1).argsort(1)
    drawn = (ranks < sizes[:, None]).view(n_rows, -1, n_players)
    return torch.cat([drawn, ~drawn], 1) if paired else drawn


def normalised(raw: Tensor, total: Tensor) -> Tensor:
    """Additive efficient normalisation: what is missing from the sum V(N) is added in equal parts.

    Shape:
        - raw: (B, n, K), total: (B, K), returns (B, n, K).
    """
    return raw + ((total - raw.sum(1)) / raw.shape[1])[:, None]


def coalition_loss(
    raw: Tensor, present: Tensor, gains: Tensor, total: Tensor, *, normalise: bool = True, penalty: float = 0.0
) -> Tensor:
    """n times the mean of (V(S) - sum of the values in S)^2 over rows, coalitions and outputs, plus the penalty.

    Gradients reach the explainer through the normalisation as well; V(S) and V(N) are constants. At the Shapley values
    the loss is smallest and yet positive, unless the game is additive.

    Args:
        raw: (B, n, K), what the explainer answers.
        present: (B, m, n) bool, the coalitions S.
        gains: (B, m, K), V(S) = v(S) - v(empty).
        total: (B, K), V(N).
        normalise: Whether to normalise before the loss is taken.
        penalty: Weight of (V(N) - sum of the raw values)^2.
    """
    gains, total = gains.detach(), total.detach()
    values = normalised(raw, total) if normalise else raw
    loss = (present.to(raw.dtype) @ values - gains).square().mean()
    if penalty:
        loss = loss + penalty * (raw.sum(1) - total).square().mean()
    return loss * raw.shape[1]


class FastSHAP:
    """An explainer network for one game, trained once and then one pass per row.

    Args:
        game: A Harsanyi network in evaluation mode, a `Surrogate`, or any callable of rows (B, ...) and of the players
            that are there (B, n) bool, that returns raw outputs (B, K).
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
        learning_rate: Of Adam, halved after patience // 2 epochs without gain.
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
        seconds_: Duration of the training.

    Examples:
        >>> weight = torch.tensor([1.0, -2.0, 3.0])
        >>> method = FastSHAP(lambda x, present: (x * present) @ weight[:, None], 3, 1, epochs=2, progress=False)
        >>> x = torch.rand(50, 3, generator=Generator().manual_seed(0))
        >>> method.fit(x).explain(x).shape, method.rows_
        ((50, 3), 3620)
    """

    explainer_: nn.Module
    history_: History
    rows_: int

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
        expected = {
            "n_outputs": (n_outputs, 1),
            "hidden": (hidden, 1),
            "n_hidden": (n_hidden, 0),
            "batch_size": (batch_size, 1),
            "epochs": (epochs, 1),
            "patience": (patience, 1),
        }
        for name, (count, least) in expected.items():
            if count < least:
                raise ValueError(f"{name} must be at least {least}, however: {name}={count}")
        for number in (coalitions, validation_coalitions):
            draw_coalitions(0, number, n_players, paired=paired, generator=Generator())
        if not 0 < learning_rate < math.inf:
            raise ValueError(f"learning_rate must be positive, however: learning_rate={learning_rate}")
        if explainer is not None and not any(p.requires_grad for p in explainer.parameters()):
            raise ValueError("explainer must have a parameter that requires a gradient, however: it has none")
        if not 0 <= penalty < math.inf:
            raise ValueError(f"penalty must be at least zero, however: penalty={penalty}")
        self.game, self.n_players, self.n_outputs, self.explainer = game, n_players, n_outputs, explainer
        self.hidden, self.n_hidden, self.coalitions, self.paired = hidden, n_hidden, coalitions, paired
        self.normalise, self.penalty, self.batch_size, self.epochs = normalise, penalty, batch_size, epochs
        self.learning_rate, self.min_learning_rate, self.patience = learning_rate, min_learning_rate, patience
        self.validation_coalitions, self.seed, self.progress = validation_coalitions, seed, progress
        self._n_played = 0

    @property
    def seconds_(self) -> float:
        """Duration of the training."""
        return self.history_.seconds

    def fit(self, x_train: ArrayLike | Tensor, x_validation: ArrayLike | Tensor | None = None) -> Self:
        """Trains the explainer; the rows that will be scored do not belong in here.

        Ctrl-C ends the training early and keeps the best weights so far.

        Args:
            x_train: (N, ...) rows.
            x_validation: Rows to choose the weights on. By default a tenth of the training rows, at most 100; fewer
                than ten rows are trained and validated on.

        Raises:
            FloatingPointError: If the loss overflows.
        """
        started = time.perf_counter()
        *seeds, weight_seed, module_seed = np.random.SeedSequence(self.seed).generate_state(6).tolist()
        splitting, shuffling, drawing, drawing_held_out = (Generator().manual_seed(s) for s in seeds)
        x = self._rows(x_train)
        if x_validation is not None:
            held_out = self._rows(x_validation)
        else:
            x, held_out = _split(x, splitting)
        self._n_played = 0
        empty, total = self._ends(x)
        check_empty, check_total = self._ends(held_out)
        check_present = self._draw(held_out, self.validation_coalitions, drawing_held_out)
        check_gains = self._play_all(held_out, check_present) - check_empty[:, None]
        explainer = self._new_explainer(x, weight_seed)
        like = next(explainer.parameters())
        optimizer = torch.optim.Adam(explainer.parameters(), lr=self.learning_rate)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=0.5, patience=self.patience // 2, min_lr=self.min_learning_rate
        )

        def loss_of(rows: Tensor, present: Tensor, gains: Tensor, total: Tensor) -> Tensor:
            raw = self._answer(explainer, rows)
            gains, total = gains.to(like), total.to(like)
            return coalition_loss(raw, present, gains, total, normalise=self.normalise, penalty=self.penalty)

        def validate() -> float:
            explainer.eval()
            loss = 0.0
            with torch.no_grad():
                for i in range(0, len(held_out), self.batch_size):
                    part = slice(i, i + self.batch_size)
                    found = loss_of(held_out[part], check_present[part], check_gains[part], check_total[part])
                    loss += found.item() * len(held_out[part])
            return loss / len(held_out)

        def train() -> float:
            explainer.train()
            order = torch.randperm(len(x), generator=shuffling)
            if len(x) > self.batch_size and len(x) % self.batch_size == 1:
                order = order[:-1]  # no batch of a single row, which batch normalisation could not take
            loss = 0.0
            for i in range(0, len(order), self.batch_size):
                index = order[i : i + self.batch_size].to(x.device)
                rows = x[index]
                present = self._draw(rows, self.coalitions, drawing)
                gains = self._play_all(rows, present) - empty[index][:, None]
                found = loss_of(rows, present, gains, total[index])
                optimizer.zero_grad()
                torch.autograd.backward(found)
                optimizer.step()
                loss += found.item() * len(rows)
            return loss / len(order)

        losses: list[tuple[float, float]] = []
        kept, best_epoch, best_loss = copy.deepcopy(explainer.state_dict()), None, math.inf
        devices = range(torch.cuda.device_count())
        with (
            torch.random.fork_rng(devices),
            bar("FastSHAP", self.epochs, unit="epoch", progress=self.progress) as shown,
        ):
            torch.manual_seed(module_seed)
            for epoch in range(self.epochs):
                losses.append((train(), validate()))
                if not all(map(math.isfinite, losses[-1])):
                    raise FloatingPointError(
                        f"training diverged in epoch {epoch}, try a smaller learning_rate, however: "
                        f"losses={losses[-1]}, learning_rate={self.learning_rate}"
                    )
                if losses[-1][1] < best_loss:
                    kept, best_epoch, best_loss = copy.deepcopy(explainer.state_dict()), epoch, losses[-1][1]
                shown.set_postfix({"train": losses[-1][0], "validation": losses[-1][1]}, refresh=False)
                shown.update()
                plateau.step(losses[-1][1])
                if best_epoch is not None and epoch - best_epoch >= self.patience:
                    break
        explainer.load_state_dict(kept)
        self.explainer_ = explainer.eval()
        self.rows_ = self._n_played
        trained, validated = tuple(a for a, _ in losses), tuple(b for _, b in losses)
        self.history_ = History(trained, validated, best_epoch, seconds=time.perf_counter() - started)
        return self

    def explain(self, x: ArrayLike | Tensor) -> NDArray[Any]:
        """Values (B, n), or (B, n, K) for several outputs: one pass of the explainer and one model row for V(N).

        Without normalisation no model row is needed, and the values need not add up. A game other than a Harsanyi
        network is also asked for v(empty), which may depend on the row.
        """
        if not hasattr(self, "explainer_"):
            raise RuntimeError("explain needs a trained explainer, however: fit was not called")
        rows = self._rows(x, least=0)
        with torch.no_grad():
            parts = [self._answer(self.explainer_, rows[i : i + CHUNK]) for i in range(0, max(len(rows), 1), CHUNK)]
            values = torch.cat(parts)
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
        if out.shape == (len(x), n * k) or out.shape == (len(x), n, k):
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

    def _draw(self, x: Tensor, n_coalitions: int, generator: Generator) -> Tensor:
        drawn = draw_coalitions(len(x), n_coalitions, self.n_players, paired=self.paired, generator=generator)
        return drawn.to(x.device)

    def _ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """v(empty) and V(N), (B, K) each. v(empty) is a constant of a Harsanyi network, and else asked of each row."""
        everyone = torch.ones(len(x), self.n_players, dtype=torch.bool, device=x.device)
        full = self._play(x, everyone)
        if isinstance(self.game, HarsanyiNet):
            empty = self.game.base.detach().expand_as(full)
        else:
            empty = self._play(x, ~everyone)
        return empty, full - empty

    def _play_all(self, x: Tensor, present: Tensor) -> Tensor:
        """v(x_S), (B, m, K), of several coalitions (B, m, n) per row."""
        played = self._play(x.repeat_interleave(present.shape[1], 0), present.flatten(0, 1))
        return played.view(*present.shape[:2], self.n_outputs)

    def _play(self, x: Tensor, present: Tensor) -> Tensor:
        """v(x_S), (B, K), of one coalition per row: the only place where the game is asked, and rows are counted."""
        self._n_played += len(x)
        parts = []
        with torch.no_grad():
            for i in range(0, max(len(x), 1), CHUNK):
                rows = x[i : i + CHUNK]
                out = self.game(rows, present[i : i + CHUNK])
                if out.shape != (len(rows), self.n_outputs) and not (self.n_outputs == 1 and out.shape == (len(rows),)):
                    raise ValueError(
                        f"the game must return ({len(rows)}, {self.n_outputs}), however: {tuple(out.shape)}"
                    )
                parts.append(out.view(len(rows), self.n_outputs))
        return torch.cat(parts)


def _split(x: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """Rows to train on and rows to validate on."""
    n = min(len(x) // 10, 100)
    if n == 0:
        return x, x
    order = torch.randperm(len(x), generator=generator).to(x.device)
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


class _Masked(nn.Module):
    """A perceptron of the rows with absent players at the baseline, and of the mask."""

    def __init__(self, columns: Tensor, baseline: Tensor, sizes: Sequence[int], generator: Generator) -> None:
        super().__init__()
        self.register_buffer("columns", columns)
        self.register_buffer("baseline", baseline)
        self.columns: Tensor
        self.baseline: Tensor
        self.body = perceptron(sizes, generator)

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        """(B, D), (B, n) bool -> (B, K)."""
        shown = torch.where(present[:, self.columns], x, self.baseline)
        out: Tensor = self.body(torch.cat([shown, present.to(x.dtype)], 1))
        return out


class Surrogate:
    """A network that imitates a model on rows with absent players, to be the game of `FastSHAP`.

    The full method of the paper needs one where the model cannot take absent players. It plays another game than the
    model on masked rows: its Shapley values must not be scored against those of a Harsanyi network's own game.

    Args:
        model: From rows (B, ...) to raw outputs (B, K).
        n_players: n.
        n_outputs: K.
        network: A module called with rows and the players that are there (B, n) bool, to (B, K). A copy of it is
            trained. By default a perceptron of the masked rows and the mask.
        loss: `"kl"`: outputs are logits, of classes or of one event, and KL(model || surrogate) is minimised;
            `"squared"`: outputs are numbers.
        link: What the trained surrogate returns for logits: `"log"` the logarithms of probabilities (the logit where
            there is one output) or `"probability"`, as in the original on tables.
        baseline: (D,) the values of absent columns in the default network; zero by default.
        columns: The player of each column, for the default network.
        hidden: Width of the default network.
        n_hidden: Hidden layers of the default network.
        learning_rate: Of Adam.
        batch_size: Rows per step.
        epochs: Most passes over the training rows.
        patience: Epochs without gain on the validation rows after which to stop.
        seed: Of weights, order and masks.
        progress: Whether to show a bar once two seconds have passed.

    Attributes:
        network_: The trained module.
        history_: Losses, best epoch and seconds.
        rows_: Rows put through the model.
    """

    network_: nn.Module
    history_: History
    rows_: int

    def __init__(
        self,
        model: Callable[[Tensor], Tensor],
        n_players: int,
        n_outputs: int,
        *,
        network: nn.Module | None = None,
        loss: Literal["kl", "squared"] = "kl",
        link: Literal["log", "probability"] = "log",
        baseline: ArrayLike | Tensor | None = None,
        columns: Sequence[int] | None = None,
        hidden: int = 128,
        n_hidden: int = 2,
        learning_rate: float = 1e-3,
        batch_size: int = 64,
        epochs: int = 100,
        patience: int = 10,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        if loss not in ("kl", "squared"):
            raise ValueError(f"loss must be 'kl' or 'squared', however: loss={loss!r}")
        if link not in ("log", "probability"):
            raise ValueError(f"link must be 'log' or 'probability', however: link={link!r}")
        self.model, self.n_players, self.n_outputs, self.network = model, n_players, n_outputs, network
        self.loss, self.link, self.baseline, self.columns = loss, link, baseline, columns
        self.hidden, self.n_hidden, self.seed, self.progress = hidden, n_hidden, seed, progress
        self.config = TrainingConfig(
            epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, patience=patience, masked_share=1.0
        )

    def fit(self, x_train: ArrayLike | Tensor, x_validation: ArrayLike | Tensor | None = None) -> Self:
        """Trains on rows in which each player is there with a chance that is drawn from U(0, 1) for each row.

        Args:
            x_train: (N, ...) rows.
            x_validation: Rows to choose the weights on; by default a tenth of the training rows, at most 100.
        """
        split_seed, weight_seed, fit_seed = np.random.SeedSequence(self.seed).generate_state(3).tolist()
        x = torch.as_tensor(x_train).detach()
        if x_validation is None:
            x, held_out = _split(x, Generator().manual_seed(split_seed))
        else:
            held_out = torch.as_tensor(x_validation).detach()
        with torch.no_grad():
            targets, check_targets = (self.model(rows).view(len(rows), self.n_outputs) for rows in (x, held_out))
        self.rows_ = len(x) + len(held_out)
        network = self._new_network(x, weight_seed)
        self.history_ = fit_module(
            network,
            x,
            targets,
            loss=self._divergence,
            config=self.config,
            validation=(held_out, check_targets),
            n_players=self.n_players,
            seed=fit_seed,
            progress=self.progress,
        )
        self.network_ = network
        return self

    def __call__(self, x: Tensor, present: Tensor) -> Tensor:
        """The game: (B, ...) rows and (B, n) bool to (B, K)."""
        if not hasattr(self, "network_"):
            raise RuntimeError("a surrogate needs training before it can be a game, however: fit was not called")
        with torch.no_grad():
            out: Tensor = self.network_(x, present=present)
        if self.loss == "squared":
            return out
        if self.n_outputs == 1:
            return out if self.link == "log" else out.sigmoid()
        return out.log_softmax(1) if self.link == "log" else out.softmax(1)

    def _new_network(self, x: Tensor, seed: int) -> nn.Module:
        if self.network is not None:
            return copy.deepcopy(self.network)
        d, n = x.shape[1], self.n_players
        if self.columns is None and d != n:
            raise ValueError(f"columns must name the player of each column, however: {d} columns for {n} players")
        columns = torch.tensor(range(d) if self.columns is None else self.columns)
        baseline = torch.zeros(d) if self.baseline is None else torch.as_tensor(self.baseline)
        sizes = [d + n, *[self.hidden] * self.n_hidden, self.n_outputs]
        return _Masked(columns, baseline, sizes, Generator().manual_seed(seed)).to(x)

    def _divergence(self, out: Tensor, target: Tensor) -> Tensor:
        """(B,): KL(model || surrogate) or the mean square."""
        if self.loss == "squared":
            return (out - target).square().mean(1)
        if self.n_outputs == 1:  # an event and its opposite
            out, target = F.pad(out, (1, 0)), F.pad(target, (1, 0))
        log_p, log_q = target.log_softmax(1), out.log_softmax(1)
        return (log_p.exp() * (log_p - log_q)).sum(1)
