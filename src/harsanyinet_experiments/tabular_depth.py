"""Why the deep blocks of the paper's network are silent, and a start from which they act: an ablation on tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.networks.mlp import HarsanyiMLP
from harsanyinet.peers import model_game
from harsanyinet.training import TrainingConfig, fit_module
from harsanyinet_experiments import paper
from harsanyinet_experiments.against_brute_force import mean_error, true_class, truth
from harsanyinet_experiments.experiment import Experiment, grouped
from harsanyinet_experiments.paper import DATASETS, Coded
from harsanyinet_experiments.runner import Cell, Record
from harsanyinet_experiments.scoring import some_rows

TABLES = ("census", "yeast")
EPOCHS = {"census": 10, "yeast": 100}  # of the ablation
PATIENCE = {"census": 6, "yeast": 15}
ADAM: dict[str, Any] = {"optimizer": "adamw", "learning_rate": 1e-3}
ROWS = 2000


@dataclass(frozen=True)
class Setting:
    """One line of the ablation: the paper's network and recipe with something changed.

    Attributes:
        text: What is changed.
        network: Arguments of `HarsanyiMLP`.
        training: Fields of `TrainingConfig`.
        each_epoch: Called with a network and the share of the training that is over.
        rescued: Whether dead gates get a gradient.
    """

    text: str
    network: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    each_epoch: Callable[[HarsanyiMLP, float], None] | None = None
    rescued: bool = False


def _rising_gamma(net: HarsanyiMLP, share: float) -> None:
    for block in net.blocks:
        block.gamma = 100.0 ** min(1.0, 2 * share)  # from 1 to 100 in half of the time


def _falling_beta(net: HarsanyiMLP, share: float) -> None:
    for block in net.blocks:
        block.beta = 100.0 ** (1 - share)  # from 100 to 1


_TWO: dict[str, Any] = {"initial_children": 2}
_DEEP: dict[str, Any] = {"initial_children": 2, "deep_weights": "positive"}
SETTINGS = {
    "text": Setting("the paper's text: ten children"),
    "code": Setting("one child in the first block, ten above", {"initial_children": 0.1}),
    "adam": Setting("the same with AdamW", {"initial_children": 0.1}, ADAM),
    "all": Setting("the same, children from all blocks below", {"initial_children": 0.1, "connect": "all"}),
    "dead": Setting("the same, a gradient for dead gates", {"initial_children": 0.1}, rescued=True),
    "two": Setting("two children in every block", _TWO),
    "two_product": Setting("two, product instead of root", {**_TWO, "soft_and": "product"}),
    "two_all": Setting("two, children from all blocks below", {**_TWO, "connect": "all"}),
    "two_gamma": Setting("two, gamma from 1 to 100", _TWO, each_epoch=_rising_gamma),
    "two_beta": Setting("two, beta from 100 to 1", _TWO, each_epoch=_falling_beta),
    "two_dead": Setting("two, a gradient for dead gates", _TWO, rescued=True),
    "two_adam": Setting("two, AdamW", _TWO, ADAM),
    "deep_sgd": Setting("two, deep units start near the mean of their children", _DEEP),
    "deep_adam": Setting("the same with AdamW", _DEEP, ADAM),
    "code_stopped": Setting("one child in the first block, ten above, AdamW, stopped", {"initial_children": 0.1}, ADAM),
    "deep": Setting("`HarsanyiMLP.deep`, AdamW, stopped", {**_DEEP, "connect": "all"}, ADAM),
    "deep_decay": Setting("the same with weight decay 1", {**_DEEP, "connect": "all"}, {**ADAM, "weight_decay": 1.0}),
    "deep_again": Setting(
        "the same, trained again on all rows for as many epochs",
        {**_DEEP, "connect": "all"},
        {**ADAM, "weight_decay": 1.0},
    ),
    "deep_recipe": Setting("`HarsanyiMLP.deep`, SGD 0.1 to the hundredth epoch", {**_DEEP, "connect": "all"}),
}
STOPPED = ("code_stopped", "deep", "deep_decay", "deep_again")  # at the best epoch on the rows held out
WHOLE = ("deep_again", "deep_recipe")  # accuracy is that of a second network, trained on all rows
CHOICE = ("text", "code", "deep", "deep_decay", "deep_again", "deep_recipe")
FOLDS, REPEATS = 5, 2


def train(
    data: Coded, setting: Setting, seed: int, epochs: int, patience: int | None = None, whole: bool = False
) -> tuple[HarsanyiMLP, int]:
    """On nine tenths of the training rows, or the whole; with patience the weights of the best epoch on the rest."""
    rows, held_out = halves(data, seed)
    if whole:
        rows = torch.arange(len(data.x))
    net = HarsanyiMLP(data.n_players, data.n_classes, seed=seed, **setting.network)
    config = TrainingConfig(**{**vars(paper.RECIPE), "epochs": epochs, "patience": patience, **setting.training})

    def each_epoch(epoch: int, module: nn.Module) -> None:
        if setting.each_epoch is not None:
            setting.each_epoch(net, (epoch + 1) / epochs)

    if setting.each_epoch is not None:
        setting.each_epoch(net, 0.0)
    history = fit_module(
        _Rescued(net) if setting.rescued else net, data.x[rows].float(), data.y[rows], loss=paper.cross_entropy,
        config=config, seed=seed, progress=False, on_epoch=each_epoch,
        validation=(data.x[held_out].float(), data.y[held_out]) if patience else None,
    )  # fmt: skip
    for block in net.blocks:
        block.gamma = net.config["gamma"]
    return net.eval(), len(history.train_loss) if history.best_epoch is None else history.best_epoch + 1


def halves(data: Coded, seed: int) -> tuple[Tensor, Tensor]:
    """Positions of the rows to train on and of a tenth to choose by."""
    order = torch.randperm(len(data.x), generator=torch.Generator().manual_seed(seed))
    return order[len(order) // 10 :], order[: len(order) // 10]


class _Rescued(nn.Module):
    """The network with a gradient for dead gates: that of gates whose factors are at least 0.1, and a leaky ReLU.

    What it returns is what the network returns.
    """

    def __init__(self, net: HarsanyiMLP) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """(B, n) -> (B, K)."""
        z, out = x - self.net.baseline, self.net.base
        with torch.no_grad():
            exact = self.net.units(x)
        for block, readout, units in zip(self.net.blocks, self.net.readouts, exact, strict=True):
            tau: Tensor = block.tau  # type: ignore[assignment]
            sigma = (tau > 0).to(x.dtype) + block.beta * (soft := torch.sigmoid(tau)) - (block.beta * soft).detach()  # type: ignore[operator]
            t = (block.gamma * z.abs()).tanh().clamp_min(0.1)  # type: ignore[operator]
            gate = (t.log() @ sigma.T / sigma.sum(1).clamp_min(1)).exp()
            soft = F.leaky_relu(z @ (block.weight * sigma).T * gate, 0.1)  # type: ignore[operator]
            z = units[:, :, 0] + soft - soft.detach()
            out = out + z @ readout[:, :, 0].T
        return out


def look(net: HarsanyiMLP, x: Tensor, y: Tensor) -> dict[str, list[float] | float]:
    """What every block does on some rows: who acts, who needs whom, and what is lost without the block."""
    blocks: dict[str, list[float]] = {
        name: [] for name in ("ever", "rows", "children", "field", "strength", "loss_without")
    }
    with torch.no_grad():
        out = net(x)
        loss = float(F.cross_entropy(out, y))
        each = zip(net.units(x), net.readouts, net.child_masks(), net.receptive_fields(), strict=True)
        for z, readout, children, fields in each:
            acting = z[:, :, 0] != 0
            blocks["ever"].append(float(acting.any(0).double().mean()))
            blocks["rows"].append(float(acting.double().mean()))
            blocks["children"].append(float(children.sum(1).double().mean()))
            blocks["field"].append(float(fields.sum(1).double().mean()))
            parts = z[:, :, 0][:, None] * readout[:, :, 0]  # (B, K, U)
            _, which = torch.unique(fields, dim=0, return_inverse=True)
            sums = parts.new_zeros(*parts.shape[:2], int(which.max()) + 1).index_add_(2, which, parts)
            blocks["strength"].append(float(sums.abs().sum()))  # of the dividends that this block brings
            blocks["loss_without"].append(float(F.cross_entropy(out - parts.sum(2), y)) - loss)
    total = sum(blocks["strength"]) or 1.0
    return {**blocks, "strength": [s / total for s in blocks["strength"]], "loss": loss}


def _depth(cell: Cell, models: Path, quick: bool) -> Record:
    data = paper.load(cell["dataset"], cell["seed"], quick)
    setting = SETTINGS[cell["setting"]]
    final = cell["setting"] in STOPPED
    epochs = 1 if quick else 100 if final else EPOCHS[cell["dataset"]]
    net, used = train(data, setting, cell["seed"], epochs, PATIENCE[cell["dataset"]] if final and not quick else None)
    _, held_out = halves(data, cell["seed"])
    x, y = data.x[held_out[:ROWS]].float(), data.y[held_out[:ROWS]]
    found = look(net, x, y)
    if cell["setting"] in WHOLE:
        net, _ = train(data, setting, cell["seed"], used, whole=True)
    record: Record = {"accuracy": paper.accuracy(net, data), "epochs": used, **found}
    rows = some_rows(len(data.x_test), 2 if quick else 20)
    net, labels = net.double(), data.y_test.numpy()[rows]
    test = data.x_test[rows].double()
    exact = truth([model_game(net, row) for row in test], labels, data.n_players)
    return record | {"rmse_float64": mean_error(true_class(net.explain(test).values, labels), exact)}


def _depth_summary(records: list[Record]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for (dataset, setting), cells in grouped(records, "dataset", "setting").items():
        row: dict[str, Any] = {"runs": len(cells), "what": SETTINGS[setting].text}
        for name in cells[0]:
            if name not in ("cell", "seconds"):
                row[name] = np.mean([cell[name] for cell in cells], axis=0).round(18).tolist()
        row["accuracy_sd"] = float(np.std([cell["accuracy"] for cell in cells]))
        rows.setdefault(dataset, {})[setting] = row
    return {"datasets": rows}


def _depth_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | setting (runs) | accuracy | loss | units ever active, % | rows on which a unit acts, % | "
        "children | receptive field | share of sum abs(I), % | loss added without block 1, 2, 3 | error, float64 |",
        "| --- " * 11 + "|",
    ]

    for dataset, settings in result["datasets"].items():
        for row in settings.values():
            lines.append(
                f"| {DATASETS[dataset]} | {row['what']} ({row['runs']}) | {row['accuracy']:.2f} | {row['loss']:.4f} | "
                f"{_shown(row['ever'], 100, 0)} | {_shown(row['rows'], 100, 1)} | {_shown(row['children'], 1, 1)} | "
                f"{_shown(row['field'], 1, 1)} | {_shown(row['strength'], 100, 0)} | "
                f"{_shown(row['loss_without'], 1, 4)} | {row['rmse_float64']:.1e} |"
            )
    return "\n".join(lines)


def _cells(quick: bool) -> list[Cell]:
    """Of what is stopped three seeds on Census, ten on Yeast, whose test rows are few; of all else one and three."""
    runs = {"census": (1, 3), "yeast": (3, 10)}
    numbers = {(d, s): 1 if quick else runs[d][s in STOPPED] for d in TABLES for s in SETTINGS}
    numbers["census", "deep_recipe"] = numbers["census", "deep_again"] = 0
    for setting in ("deep_decay", "deep_again", "deep_recipe"):  # the best of the choice for Yeast
        numbers["yeast", setting] = 1 if quick else 40
    return [{"dataset": d, "setting": s, "seed": seed} for (d, s), n in numbers.items() for seed in range(n)]


# The choice of a recipe -------------------------------------------------------------------------------------------


def _choice(cell: Cell, models: Path, quick: bool) -> Record:
    """Trains on four fifths of the training rows of the first split and looks at the last fifth; at no test row."""
    data, setting = paper.load("yeast", 0, quick), SETTINGS[cell["setting"]]
    rows, held_out = fold(len(data.x), cell["repeat"], cell["fold"])
    part = Coded(data.split, data.x[rows], data.y[rows], data.x[held_out], data.y[held_out])
    stopped, seed = cell["setting"] in STOPPED, FOLDS * cell["repeat"] + cell["fold"]
    net, used = train(
        part, setting, seed, 1 if quick else 100, PATIENCE["yeast"] if stopped and not quick else None,
        whole=not stopped,
    )  # fmt: skip
    if stopped and cell["setting"] in WHOLE:
        net, _ = train(part, setting, seed, used, whole=True)
    found = look(net, part.x_test.float(), part.y_test)
    return {"accuracy": paper.accuracy(net, part), "epochs": used, **found}


def fold(n: int, repeat: int, number: int) -> tuple[Tensor, Tensor]:
    """Positions of the rows to train on and of a fifth to choose by, one of five that have no row in common."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1000 + repeat))
    own = torch.arange(n) % FOLDS == number
    return order[~own], order[own]


def _choice_summary(records: list[Record]) -> dict[str, Any]:
    rows = {}
    for (setting,), cells in grouped(records, "setting").items():
        names = [name for name in cells[0] if name not in ("cell", "seconds")]
        means = {name: np.mean([cell[name] for cell in cells], axis=0).round(6).tolist() for name in names}
        rows[setting] = {"runs": len(cells), "what": CHOICE_NAMES[setting], **means}
    return {"datasets": {"yeast": rows}}


CHOICE_NAMES = {
    "text": "the paper's text: ten children, SGD 0.1, 100 epochs",
    "code": "one child in the first block, ten above, SGD 0.1, 100 epochs",
    "deep": "`HarsanyiMLP.deep`, AdamW, stopped",
    "deep_decay": "`HarsanyiMLP.deep`, AdamW with weight decay 1, stopped",
    "deep_again": "the same, trained again on all rows of the fold for as many epochs",
    "deep_recipe": "`HarsanyiMLP.deep`, SGD 0.1, 100 epochs",
}


def _choice_text(result: dict[str, Any]) -> str:
    lines = [
        "| Yeast, rows held out of the training part | runs | accuracy | loss | units ever active, % | "
        "share of sum abs(I), % | loss added without block 1, 2, 3 |",
        "| --- " * 7 + "|",
    ]
    for row in result["datasets"]["yeast"].values():
        lines.append(
            f"| {row['what']} | {row['runs']} | {row['accuracy']:.2f} | {row['loss']:.4f} | "
            f"{_shown(row['ever'], 100, 0)} | {_shown(row['strength'], 100, 0)} | "
            f"{_shown(row['loss_without'], 1, 4)} |"
        )
    return "\n".join(lines)


def _shown(values: list[float], scale: float, digits: int) -> str:
    return ", ".join(f"{scale * value:.{digits}f}" for value in values)


EXPERIMENTS = {
    "depth": Experiment(
        "Which blocks of the paper's network act, with one thing changed at a time: on a tenth of the training rows "
        "that was held out; accuracy on the test rows. Census 10 epochs and Yeast 100, those stopped by the "
        "held-out rows at most 100.",
        _cells,
        _depth,
        _depth_summary,
        _depth_text,
    ),
    "depth-choice": Experiment(
        "How to train a network whose blocks all act, on Yeast: two times five folds of the training rows of the first "
        "split, measured on the rows held out of the training; no test row.",
        lambda quick: [
            {"setting": s, "repeat": r, "fold": f}
            for r in range(1 if quick else REPEATS)
            for f in range(1 if quick else FOLDS)
            for s in CHOICE
        ],
        _choice,
        _choice_summary,
        _choice_text,
    ),
}
