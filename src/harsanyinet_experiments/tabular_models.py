"""The models that the tables and figures on tabular data share: trained once and kept in a file; and FastSHAP."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harsanyinet import HarsanyiClassifier, tables
from harsanyinet.loading import load, save
from harsanyinet.networks.mlp import HarsanyiMLP
from harsanyinet.peers import FastSHAP
from harsanyinet.peers.fast import perceptron
from harsanyinet_experiments import paper
from harsanyinet_experiments.against_brute_force import Values, true_class, truth
from harsanyinet_experiments.paper import Coded, Recipe

SMALL: dict[str, Any] = {"max_iter": 20}  # of our estimator, in a quick run
NETWORKS = {"text": "the paper's text", "code": "the authors' first children", "default": "our defaults"}


def trained(data: Coded, dataset: str, recipe: Recipe, seed: int, models: Path, quick: bool) -> HarsanyiMLP:
    """The paper's network, trained once and kept in a file."""
    path = models / f"{dataset}_{recipe}_{seed}_formula.hnet"  # not one of an older version's gradient
    if path.exists():
        net: HarsanyiMLP = load(path)
        return net
    net, _ = paper.train_harsanyi(data, recipe=recipe, seed=seed, epochs=1 if quick else paper.RECIPE.epochs)
    models.mkdir(parents=True, exist_ok=True)
    save(net, path)
    return net


def default_model(data: Coded, dataset: str, seed: int, models: Path, quick: bool) -> HarsanyiClassifier:
    """Our estimator with its defaults, on the table as it is; kept in a file until its code changes."""
    path = models / f"{dataset}_default_{seed}_{_code_of_tables()}.hnet"
    if path.exists():
        kept: HarsanyiClassifier = load(path)
        return kept
    model = HarsanyiClassifier(random_state=seed, progress=False)
    if quick:
        model.set_params(**SMALL)
    model.fit(data.split.train, data.split.y_train)
    models.mkdir(parents=True, exist_ok=True)
    model.save(path)
    return model


def _code_of_tables() -> str:
    """Eight digits that are others for other code."""
    modules = sorted(Path(tables.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(module.read_bytes() for module in modules)).hexdigest()[:8]


def default_truth(model: HarsanyiClassifier, data: Coded, rows: NDArray[np.intp]) -> tuple[Values, Values]:
    """Values of some test rows and the same by brute force, (B, n), for the logit of the true class.

    A model of two classes has one logit, that of the second.
    """
    some, labels = data.split.test.iloc[rows], np.searchsorted(model.classes_, data.split.y_test.iloc[rows])
    games = [model.game(some, i) for i in range(len(some))]
    return true_class(model.explain(some).values, labels), truth(games, labels, data.n_players)


MOST_SHOWN, PATIENT = 6_000_000, 60_000  # training rows: at most, and without gain, when FastSHAP is trained


def fast_shap(game: Any, data: Coded, x: Tensor, *, seed: int, quick: bool, **options: Any) -> FastSHAP:
    """FastSHAP with its authors' explainer and 16 coalitions per row and epoch, until it stops improving."""
    epochs = 1 if quick else math.ceil(MOST_SHOWN / len(x))
    method = FastSHAP(
        game, data.n_players, options.pop("n_outputs", data.n_classes), coalitions=16, learning_rate=1e-3,
        batch_size=128, epochs=epochs, patience=max(10, PATIENT // len(x)), seed=seed, progress=False, **options,
    )  # fmt: skip
    return method.fit(x)


class Shown(nn.Module):
    """An explainer that sees the first columns only; the rest is for the game."""

    def __init__(self, n_features: int, n_outputs: int, seed: int) -> None:
        super().__init__()
        self.n_features = n_features
        sizes = (n_features, 128, 128, n_features * n_outputs)
        self.body = perceptron(sizes, torch.Generator().manual_seed(seed))

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, n * K)."""
        out: Tensor = self.body(x[:, : self.n_features])
        return out
