"""Harder images on pretrained features: a Harsanyi network on frozen maps beside a linear probe and a plain network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.datasets import ImageSplit
from harsanyinet.images.backbone import EfficientNetLite
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.feature_files import cached_features
from harsanyinet.training import TrainingConfig, fit_module
from harsanyinet_experiments import image_paper
from harsanyinet_experiments.against_brute_force import subgame_errors
from harsanyinet_experiments.experiment import Experiment
from harsanyinet_experiments.runner import Cell, Record
from harsanyinet_experiments.scoring import some_rows

SETTINGS: dict[str, Any] = {"size": 160, "stage": 7}
METHODS = {
    "linear": "linear probe on the pooled features",
    "cnn": "plain CNN on the map",
    "harsanyinet": "HarsanyiCNN on the map, presence gate",
}
PAPER = {"Flowers-102": (95.48, "ResNet-50", 97.9), "COVIDx": (96.75, "COVID-Net CXR-2", 96.3)}
HEAD: dict[str, Any] = {"gate": "presence", "groups": 4, "channels": 64, "n_blocks": 3}


def _features(data: ImageSplit, models: Path) -> tuple[NDArray[Any], NDArray[Any], EfficientNetLite]:
    net = EfficientNetLite(**SETTINGS)
    return (
        cached_features(data.train, net, models / "features"), cached_features(data.test, net, models / "features"), net
    )  # fmt: skip


class _Standard(nn.Module):
    """Standardises the channels of a map before a network reads it."""

    def __init__(self, net: nn.Module, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", mean[:, None, None])
        self.register_buffer("scale", scale[:, None, None])
        self.mean: Tensor
        self.scale: Tensor

    def standard(self, x: Tensor) -> Tensor:
        """What the network reads."""
        return (x.to(self.mean.dtype) - self.mean) / self.scale

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """(B, C, h, w), half precision as on disk -> (B, K)."""
        out: Tensor = self.net(self.standard(x), present=present)
        return out


class _Probe(nn.Module):
    def __init__(self, channels: int, n_outputs: int) -> None:
        super().__init__()
        self.last = nn.Linear(channels, n_outputs)

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        out: Tensor = self.last(x.mean((2, 3)))
        return out


def _backbone(cell: Cell, models: Path, quick: bool) -> Record:
    data = image_paper.load("cifar10", quick)
    train, test, net = _features(data, models)
    k, method = len(data.class_names), cell["method"]
    sample = torch.tensor(np.asarray(train[:5000]), dtype=torch.float32)
    mean, scale = sample.mean((0, 2, 3)), sample.std((0, 2, 3)).clamp_min(1e-3)
    head = HarsanyiCNN(net.channels, net.cells, k, stem="map", **HEAD)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        each = {"linear": _Probe(net.channels, k), "cnn": image_paper.PlainCNN(head), "harsanyinet": head}[method]
    model = _Standard(each, mean, scale)
    masked = 0.3 if method == "harsanyinet" else 0.0
    config = TrainingConfig(
        epochs=1 if quick else 20 if method == "linear" else 10, batch_size=128, learning_rate=5e-3,
        schedule="onecycle", weight_decay=0.05, clip_norm=1.0, masked_share=masked,
    )  # fmt: skip

    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(outputs, y, reduction="none", label_smoothing=0.1)

    labels = torch.from_numpy(data.y_train.astype(np.int64))
    history = fit_module(
        model, torch.from_numpy(np.array(train)), labels, loss=loss, config=config, n_players=head.n_players, seed=0
    )
    with torch.no_grad():
        rows = torch.split(torch.from_numpy(np.array(test)), 500)
        right = torch.cat([model(some).argmax(1) for some in rows]).numpy() == data.y_test
    record: Record = {
        "accuracy": 100 * float(right.mean()), "train_seconds": history.seconds, "epochs": config.epochs,
        "n_parameters": sum(p.numel() for p in each.parameters()), "cells": list(net.cells),
        "channels": net.channels, "pixels_per_cell": net.window, "resized_to": list(net.size),
    }  # fmt: skip
    if method == "harsanyinet":
        record |= _errors(model.double(), data, test, 2 if quick else 20)
    return record


def _errors(model: _Standard, data: ImageSplit, test: NDArray[Any], n_images: int) -> Record:
    """On sub-games of 12 cells, all others present."""
    net = model.net
    assert isinstance(net, HarsanyiCNN)
    rows = some_rows(len(data.test), n_images)
    x = model.standard(torch.tensor(np.asarray(test[rows]), dtype=torch.float64))
    with torch.no_grad():
        largest = float(net(x).abs().max())
    ex = net.explain(x)
    error, zero = subgame_errors(
        lambda i: net.game(x, i),
        lambda i, players: ex[[i]].restrict(players.tolist()).values[0],
        x.abs().sum(1).flatten(1).numpy(),
        data.y_test[rows],
    )
    return {"rmse_float64": error, "rmse_of_zero": zero, "max_logit": largest}


def _summary(records: list[Record]) -> dict[str, Any]:
    rows = {record["cell"]["method"]: {k: v for k, v in record.items() if k != "cell"} for record in records}
    return {"paper": PAPER, "backbone": {"name": "EfficientNet-Lite0", **SETTINGS}, "methods": rows}


def _text(result: dict[str, Any]) -> str:
    lines = [
        "| CIFAR-10 on frozen features | accuracy | weights trained | epochs, minutes | error on 12-cell sub-games, "
        "float64 | max abs(logit) |",
        "| --- " * 6 + "|",
    ]
    for method, row in result["methods"].items():
        error = f"{row['rmse_float64']:.2e}" if "rmse_float64" in row else ""
        largest = f"{row['max_logit']:.1f}" if "max_logit" in row else ""
        lines.append(
            f"| {METHODS[method]} | {row['accuracy']:.2f} | {row['n_parameters']:,} | {row['epochs']}, "
            f"{row['train_seconds'] / 60:.1f} | {error} | {largest} |"
        )
    return "\n".join(lines)


EXPERIMENTS = {
    "backbone": Experiment(
        "CIFAR-10 on the frozen features of EfficientNet-Lite0: a Harsanyi network over the cells of the map beside a "
        "linear probe and a plain network on the same map. (The paper has VGG-16 features, Flowers-102 and COVIDx.)",
        lambda quick: [{"method": method} for method in METHODS],
        _backbone,
        _summary,
        _text,
    ),
}
