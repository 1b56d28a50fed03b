"""A network that imitates a model on rows with absent players, for models that cannot take them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from harsanyinet.peers.fast import hold_out, perceptron
from harsanyinet.training import TrainingConfig, fit_module


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

    FastSHAP needs one where the model cannot take absent players. It plays another game than the model on masked rows:
    its Shapley values must not be scored against those of a Harsanyi network's own game.

    Args:
        model: From rows (B, ...) to raw outputs (B, K).
        network: A module from rows and the players that are there (B, n) bool to (B, K). A copy of it is trained. By
            default a perceptron of the masked rows and the mask.
        loss: `"kl"`: KL(model || surrogate) of logits, of classes or of one event; `"squared"`: outputs are numbers.
        link: What is returned for logits: `"log"` the logarithms of probabilities (the logit where there is one output)
            or `"probability"`, as in the original on tables.
        baseline: (D,) the values of absent columns in the default network; zero by default.
        columns: The player of each column, for the default network.
        learning_rate: Of Adam.
        seed: Of weights, order and masks.

    Other arguments as in `FastSHAP`.

    Attributes:
        network_: The trained module.
        history_: Losses, best epoch and seconds.
        rows_: Rows put through the model.
    """

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
        given = None if x_validation is None else torch.as_tensor(x_validation).detach()
        x, held_out = hold_out(torch.as_tensor(x_train).detach(), given, split_seed)
        with torch.no_grad():
            targets, check_targets = (self.model(rows).view(len(rows), self.n_outputs) for rows in (x, held_out))
        self.rows_ = len(x) + len(held_out)
        network = self._new_network(x, weight_seed)
        self.history_ = fit_module(
            network, x, targets, loss=self.divergence, config=self.config, validation=(held_out, check_targets),
            n_players=self.n_players, seed=fit_seed, progress=self.progress,
        )  # fmt: skip
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

    def divergence(self, out: Tensor, target: Tensor) -> Tensor:
        """(B,): KL(model || surrogate) or the mean square."""
        if self.loss == "squared":
            return (out - target).square().mean(1)
        if self.n_outputs == 1:  # an event and its opposite
            out, target = F.pad(out, (1, 0)), F.pad(target, (1, 0))
        return F.kl_div(out.log_softmax(1), target.log_softmax(1), reduction="none", log_target=True).sum(1)
