"""Losses of table models: the best constant, mixed targets, quantiles by state; losses and scores of rows held out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

Array = NDArray[Any]
LossName = Literal["squared", "binary", "poisson", "absolute", "quantile", "multiclass"]
NAMES: tuple[LossName, ...] = ("squared", "binary", "poisson", "absolute", "quantile", "multiclass")  # by kernel code


@dataclass(frozen=True)
class Loss:
    """A loss of raw outputs."""

    name: LossName  # binary: one logit; multiclass: one per class; Poisson: the logarithm of the mean
    n_classes: int = 0  # for multiclass
    quantile: float | None = None  # for losses without curvature, whose leaves are quantiles; the median for absolute

    @property
    def code(self) -> int:
        """Of the compiled gradients."""
        return NAMES.index(self.name)

    @property
    def scale(self) -> str | None:
        """What raw outputs are called where they are no targets."""
        return {"binary": "log-odds", "multiclass": "logit", "poisson": "logarithm"}.get(self.name)

    @property
    def max_step(self) -> float:
        """How far a tree may move an output before the learning rate: of the logarithm of a mean, not far."""
        return 2.0 if self.name == "poisson" else float("inf")

    @property
    def classifies(self) -> bool:
        """Whether targets are class numbers."""
        return self.name in ("binary", "multiclass")

    def best_constant(self, y: Array, weight: Array) -> Array:
        """The raw outputs (K,) of a model that knows nothing."""
        if self.name == "multiclass":
            share = np.bincount(y[:, 0].astype(int), weight, self.n_classes) / weight.sum()
            log = np.log(np.maximum(share, 1e-6))
            return np.asarray(log - log.mean())
        mean = np.average(y, axis=0, weights=weight)
        if self.name == "binary":
            p = np.clip(mean, 1e-6, 1 - 1e-6)
            return np.asarray(np.log(p / (1 - p)))
        if self.name == "poisson":
            return np.asarray(np.log(np.maximum(mean, 1e-6)))
        if self.quantile is not None:
            return np.array([weighted_quantile(column, weight, self.quantile) for column in y.T])
        return np.asarray(mean)

    def mixed(self, y: Array, output: Array, share: float) -> Array:
        """Targets, and for a share of each what outputs say of it in the mean; of classes the chances of all, (B, K).

        Quantiles say nothing of a mean: their targets stay as they are.
        """
        if self.quantile is not None:
            return y
        if self.name == "multiclass":
            return np.asarray((1 - share) * np.eye(self.n_classes)[y[:, 0].astype(int)] + share * softmax(output, 1))
        mean = {"binary": expit, "poisson": np.exp}.get(self.name, np.asarray)(output)
        return np.asarray((1 - share) * y + share * mean)

    def each(self, output: Array, y: Array) -> Array:
        """The loss of each row: half squares for squared, negative log-likelihood for classes and counts."""
        if self.name == "multiclass":
            return np.asarray(logsumexp(output, axis=1) - np.take_along_axis(output, y[:, :1].astype(int), 1)[:, 0])
        if self.name == "binary":
            return np.asarray((np.logaddexp(0.0, output) - y * output).sum(1))
        if self.name == "poisson":
            return np.asarray((np.exp(output) - y * output).sum(1))
        rest = y - output
        if self.quantile is not None:
            return np.asarray(np.maximum(self.quantile * rest, (self.quantile - 1) * rest).sum(1))
        return np.asarray(0.5 * (rest**2).sum(1))

    def mean(self, output: Array, y: Array, weight: Array) -> float:
        """The mean loss of rows."""
        return float(np.average(self.each(output, y), weights=weight))


def quantiles_by_state(state: Array, n_states: int, values: Array, weight: Array, q: float) -> Array:
    """Weighted quantiles of (rows, K) in each state, (states, K); zero in states without rows."""
    quantiles = np.zeros((n_states, values.shape[1]))
    for k in range(values.shape[1]):
        order = np.argsort(values[:, k], kind="stable")
        order = order[np.argsort(state[order], kind="stable")]  # by state, which is quick for small integers
        own, reached = state[order], np.cumsum(weight[order])
        states = np.unique(own)
        ends = np.searchsorted(own, states, side="right")
        before = np.append(0.0, reached[ends[:-1] - 1])
        wanted = before + q * (reached[ends - 1] - before)
        at = np.minimum(np.searchsorted(reached, wanted * (1 - 1e-15)), ends - 1)
        quantiles[states, k] = values[order[at], k]
    return quantiles


def weighted_quantile(values: Array, weight: Array, q: float) -> float:
    """The smallest value at which at least a share q of the weight is reached."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(reached, q * reached[-1])]])


@dataclass(frozen=True, eq=False)
class History:
    """Losses and scores on rows held out.

    Attributes:
        losses: (t + 1,) the mean loss before the first and after each tree; empty when nothing was held out.
        n_rows: Rows held out, of all folds together.
        learning_rate: Of the fits that were watched; quicker than that of the model when it was looked for.
        scores: What the rows held out say about the best number of trees: its loss by name, accuracy, AUC or R2.
    """

    losses: Array = field(default_factory=lambda: np.empty(0))
    n_rows: int = 0
    learning_rate: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> int | None:
        """The number of trees with the lowest loss; None when nothing was held out."""
        return int(np.argmin(self.losses)) if len(self.losses) else None

    def settings(self) -> dict[str, Any]:
        """All but the losses, as JSON."""
        return {"n_rows": self.n_rows, "learning_rate": self.learning_rate, "scores": self.scores}


def scores_of(loss: Loss, output: Array, y: Array, weight: Array) -> dict[str, float]:
    """Scores of raw outputs by name, in the units of the targets."""
    from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

    mean = loss.mean(output, y, weight)
    if loss.name == "multiclass":
        classes = y[:, 0].astype(int)
        return {"log-loss": mean, "accuracy": float(accuracy_score(classes, output.argmax(1), sample_weight=weight))}
    if loss.name == "binary":
        scores = {"log-loss": mean, "accuracy": float(accuracy_score(y > 0, expit(output) > 0.5, sample_weight=weight))}
        if 0 < y.sum() < len(y):
            scores["AUC"] = float(roc_auc_score(y[:, 0], output[:, 0], sample_weight=weight))
        return scores
    if loss.name == "poisson":
        return {"Poisson loss": mean}
    if loss.name == "squared":
        scores = {"RMSE": float(np.sqrt(2 * mean / y.shape[1]))}
        if len(y) > 1:
            scores["R2"] = float(r2_score(y, output, sample_weight=weight))
        return scores
    if loss.name == "absolute":
        return {"mean absolute error": 2 * mean / y.shape[1]}
    return {"quantile loss": mean / y.shape[1]}
