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

SETTINGS: dict[str, dict[str, Any]] = {"late": {"size": 160, "stage": 7}, "early": {"size": 128, "stage": 3}}
METHODS = {
    "linear": "linear probe on the pooled features",
    "cnn": "plain CNN on the map",
    "harsanyinet": "HarsanyiCNN on the map, presence gate",
    "paper": "HarsanyiCNN on the map, the paper's block",
    "early": "HarsanyiCNN on the map of the third stage, presence gate",
}
PAPER = {"Flowers-102": (95.48, "ResNet-50", 97.9), "COVIDx": (96.75, "COVID-Net CXR-2", 96.3)}
HEADS: dict[str, dict[str, Any]] = {
    "harsanyinet": {"gate": "presence", "groups": 4, "channels": 64, "n_blocks": 3},
    "paper": {"gate": "activation", "channels": 64, "n_blocks": 3, "beta": 1000.0, "gamma": 1.0},
    "early": {
        "gate": "presence", "groups": 2, "channels": [96, 96, 192, 192], "n_blocks": 4, "strides": [1, 2, 1, 1]
    },
}  # fmt: skip
MASKED = 0.3  # of the images, under the presence gate


def _features(data: ImageSplit, models: Path, which: str) -> tuple[NDArray[Any], NDArray[Any], EfficientNetLite]:
    net = EfficientNetLite(**SETTINGS[which])
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
    k, method = len(data.class_names), cell["method"]
    train, test, net = _features(data, models, "early" if method == "early" else "late")
    sample = torch.tensor(np.asarray(train[:5000]), dtype=torch.float32)
    mean, scale = sample.mean((0, 2, 3)), sample.std((0, 2, 3)).clamp_min(1e-3)
    options = HEADS.get(method, HEADS["harsanyinet"])
    head = HarsanyiCNN(net.channels, net.cells, k, stem="map", **options)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        each: nn.Module = head
        if method in ("linear", "cnn"):
            each = _Probe(net.channels, k) if method == "linear" else image_paper.PlainCNN(head)
    model, presence = _Standard(each, mean, scale), each is head and head.gate == "presence"
    config = TrainingConfig(
        epochs=1 if quick else 20 if method == "linear" else 10, batch_size=128, learning_rate=5e-3,
        schedule="onecycle", weight_decay=0.05, clip_norm=1.0, masked_share=MASKED if presence else 0.0,
        apart_rate=0.01 if method == "paper" else None,
    )  # fmt: skip

    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(outputs, y, reduction="none", label_smoothing=0.1)

    labels = torch.from_numpy(data.y_train.astype(np.int64))
    history = fit_module(
        model, torch.from_numpy(np.array(train)), labels, loss=loss, config=config, n_players=head.n_players, seed=0
    )
    model.eval()
    record: Record = {
        "accuracy": _accuracy(model, data, test), "train_seconds": history.seconds, "epochs": config.epochs,
        "n_parameters": sum(p.numel() for p in each.parameters()), "cells": list(net.cells),
        "channels": net.channels, "pixels_per_cell": net.window, "resized_to": list(net.size),
    }  # fmt: skip
    if each is head:
        present = torch.from_numpy(np.random.default_rng(0).random((len(test), head.n_players)) >= 0.5)
        record["accuracy_half_hidden"] = _accuracy(model, data, test, present)
        record |= _errors(model.double(), data, test, 2 if quick else 20)
    return record


def _accuracy(model: _Standard, data: ImageSplit, test: NDArray[Any], present: Tensor | None = None) -> float:
    """On the test images, in per cent."""
    with torch.no_grad():
        parts = [
            model(torch.from_numpy(np.array(test[rows])), present=None if present is None else present[rows]).argmax(1)
            for rows in np.split(np.arange(len(test)), range(500, len(test), 500))
        ]
    return 100 * float((torch.cat(parts).numpy() == data.y_test).mean())


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
    spectrum = [round(float(share), 4) for share in ex.order_spectrum()]
    return {"rmse_float64": error, "rmse_of_zero": zero, "max_logit": largest, "order_spectrum": spectrum}


def _summary(records: list[Record]) -> dict[str, Any]:
    rows = {record["cell"]["method"]: {k: v for k, v in record.items() if k != "cell"} for record in records}
    return {"paper": PAPER, "backbone": {"name": "EfficientNet-Lite0", **SETTINGS}, "heads": HEADS, "methods": rows}


def _text(result: dict[str, Any]) -> str:
    lines = [
        "| CIFAR-10 on frozen features | cells, each sees of 32 x 32 pixels | accuracy | half of the cells hidden | "
        "weights trained | epochs, minutes | error on 12-cell sub-games, float64 | max abs(logit) | "
        "from single cells, % | from sets of more than half of the cells, % |",
        "| --- " * 10 + "|",
    ]
    for method, row in result["methods"].items():
        error = f"{row['rmse_float64']:.2e}" if "rmse_float64" in row else ""
        largest = f"{row['max_logit']:.1f}" if "max_logit" in row else ""
        hidden = f"{row['accuracy_half_hidden']:.2f}" if "accuracy_half_hidden" in row else ""
        seen = round(min(32.0, 32 * row["pixels_per_cell"] / row["resized_to"][0]))
        orders = row.get("order_spectrum")
        parts = [f"{100 * share:.0f}" for share in image_paper.shares_by_size(orders)] if orders else ["", ""]
        lines.append(
            f"| {METHODS[method]} | {' x '.join(map(str, row['cells']))}, {seen} x {seen} | {row['accuracy']:.2f} | "
            f"{hidden} | {row['n_parameters']:,} | {row['epochs']}, {row['train_seconds'] / 60:.1f} | {error} | "
            f"{largest} | {parts[0]} | {parts[1]} |"
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
