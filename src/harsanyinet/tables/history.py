"""What fitting found out on rows held out, with all their columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from harsanyinet.tables.losses import Loss

Array = NDArray[Any]


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
    return {"mean absolute error" if loss.name == "absolute" else "quantile loss": mean / y.shape[1] * (
        2.0 if loss.name == "absolute" else 1.0
    )}  # fmt: skip
