"""The paper's tabular setting: its data and coding, its network and recipe, and how errors are measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet import datasets
from harsanyinet.datasets import TableSplit
from harsanyinet.networks.gates import SoftAnd
from harsanyinet.networks.mlp import HarsanyiMLP
from harsanyinet.training import History, TrainingConfig, fit_module
from harsanyinet_experiments.census import label_coded
from harsanyinet_experiments.scoring import split_in_two

DATASETS = {"census": "Census", "yeast": "Yeast", "tv_news": "TV news (2 of 5 channels)"}
RECIPE = TrainingConfig(epochs=100, batch_size=128, optimizer="sgd", learning_rate=0.1)
Recipe = Literal["text", "code", "adam", "rows"]
CHILDREN: dict[str, float | None] = {"text": None, "code": 0.1}

PAPER: dict[str, dict[str, tuple[float, float]]] = {  # accuracy in per cent and error
    "census": {"harsanyinet": (84.57, 2.18e-8), "shallow_shapnet": (84.14, 5.12e-7), "deep_shapnet": (84.72, 0.412)},
    "yeast": {"harsanyinet": (59.91, 3.36e-8), "shallow_shapnet": (57.17, 1.97e-7), "deep_shapnet": (59.70, 0.127)},
    "tv_news": {"harsanyinet": (82.20, 5.69e-8), "shallow_shapnet": (79.72, 2.47e-7), "deep_shapnet": (82.46, 0.239)},
}
PAPER_ERRORS = {
    "census": {"deep_shap": 0.701, "fast_shap": 0.270},
    "yeast": {"deep_shap": 1.311, "fast_shap": 0.467},
    "tv_news": {"deep_shap": 0.758, "fast_shap": 0.526},
}


@dataclass(frozen=True, eq=False)
class Coded:
    """A dataset as the paper's networks see it.

    Attributes:
        split: The table in two parts, before coding.
        x, y: Standardised training rows (B, n) float64 and class numbers (B,).
        x_test, y_test: The same of the test rows.
    """

    split: TableSplit
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    @property
    def n_players(self) -> int:
        """How many variables the dataset has."""
        return self.x.shape[1]

    @property
    def n_classes(self) -> int:
        """How many classes the dataset has."""
        return int(max(self.y.max(), self.y_test.max())) + 1


def load(name: str, seed: int = 0, quick: bool = False, every_row: bool = False) -> Coded:
    """Census by its original split, rows with missing values dropped; Yeast and TV news split 80/20 at random.

    With `every_row` Census keeps the rows with missing values, and "?" is a category, as in the authors' code.
    TV news has the paper's ten columns, of two of its five channels. A quick run has 2,000 training and 500 test
    rows at most.
    """
    if name not in DATASETS:
        raise ValueError(f"dataset must be one of {', '.join(DATASETS)}, however: {name!r}")
    if name == "census":
        split = datasets.load_census(rows="all" if every_row else "complete")
        if every_row:
            split = replace(split, train=_spelled_out(split.train), test=_spelled_out(split.test))
    else:
        split = split_in_two(datasets.load_yeast() if name == "yeast" else datasets.load_tv_news(columns="paper"), seed)
    x, y, x_test, y_test = label_coded(split)
    if quick:
        split = replace(
            split,
            train=split.train[:2000],
            y_train=split.y_train[:2000],
            test=split.test[:500],
            y_test=split.y_test[:500],
        )
        x, y, x_test, y_test = x[:2000], y[:2000], x_test[:500], y_test[:500]
    return Coded(split, x, y, x_test, y_test)


def _spelled_out(frame: pd.DataFrame) -> pd.DataFrame:
    """Missing texts as "?"."""
    texts = [name for name in frame.columns if frame[name].dtype.kind not in "biuf"]
    return frame.assign(**{name: frame[name].astype(object).where(frame[name].notna(), "?") for name in texts})


def train_harsanyi(
    data: Coded, *, recipe: Recipe, seed: int, epochs: int = RECIPE.epochs
) -> tuple[HarsanyiMLP, History]:
    """The paper's network: 3 blocks of 100 units, beta 10, gamma 100, no constant.

    Args:
        data: Rows.
        recipe: How many children a unit starts with: ten, as the paper says ("text"), or one in ten inputs, as the
            authors' code does ("code"); the latter with AdamW at 1e-3 in place of SGD ("adam"), or with all else that
            the authors' code has, the plain product in the gate and data with every row ("rows").
        seed: Of the weights and the order of the rows.
        epochs: Passes over the training rows.
    """
    children = CHILDREN["text" if recipe == "text" else "code"]
    soft_and: SoftAnd = "product" if recipe == "rows" else "geometric"
    net = HarsanyiMLP(data.n_players, data.n_classes, initial_children=children, soft_and=soft_and, seed=seed)
    changed = {"optimizer": "adamw", "learning_rate": 1e-3} if recipe == "adam" else {}
    return net, fit(net, data, seed=seed, epochs=epochs, **changed)


def fit(net: nn.Module, data: Coded, *, seed: int, epochs: int = RECIPE.epochs, **changed: Any) -> History:
    """Any classifier of coded rows by the paper's recipe, or with something changed."""
    config = TrainingConfig(**{**vars(RECIPE), "epochs": epochs, **changed})
    return fit_module(net, data.x.float(), data.y, loss=cross_entropy, config=config, seed=seed, progress=False)


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """The loss of each row, (B,)."""
    return F.cross_entropy(outputs, y, reduction="none")


def accuracy(net: nn.Module, data: Coded) -> float:
    """On the test rows, in per cent."""
    net.eval()
    with torch.no_grad():
        parts = [net(rows).argmax(1) for rows in torch.split(data.x_test.to(next(net.parameters()).dtype), 4096)]
    return 100 * float((torch.cat(parts) == data.y_test).double().mean())
