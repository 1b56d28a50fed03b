"""What was chosen for the networks of CIFAR-10, on training images held out: how child logits are trained, stems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from harsanyinet.datasets import ImageSplit
from harsanyinet.images.image_estimator import HarsanyiImageClassifier
from harsanyinet_experiments import image_paper
from harsanyinet_experiments.experiment import Experiment
from harsanyinet_experiments.runner import Cell, Record

N_IMAGES, N_HELD_OUT, EPOCHS = 15_000, 5_000, 4  # of the training images: the first, and the last
NAMES = {"formula": "the paper's formula, beta everywhere", "code": "the authors' code, beta = 1 in the gate"}

_GROUPS = {name: image_paper.MODELS["mnist"]["default"][name] for name in ("channels", "n_blocks", "strides", "groups")}
_HIDDEN = image_paper.MODELS["cifar10"]["masked"]
_BLOCK = image_paper.MODELS["cifar10"]["residual"]
STEMS: dict[str, dict[str, Any]] = {
    "presence gate, stem `deep`": {**_HIDDEN, **_GROUPS, "stem": "deep"},
    "presence gate, stem `residual`": {**_HIDDEN, **_GROUPS},
    "presence gate, stem `residual`, fewer and wider blocks": _HIDDEN,
    "the paper's block, stem `paper`": {**_BLOCK, "stem": "paper", "n_blocks": 4},
    "the paper's block, stem `deep`": {**_BLOCK, "stem": "deep"},
    "the paper's block, stem `residual`": _BLOCK,
}
"""What was compared: settings of `HarsanyiImageClassifier`, the last of each gate being those of image table 1."""


def _fitted(options: dict[str, Any], seed: int, quick: bool) -> tuple[HarsanyiImageClassifier, ImageSplit]:
    """A short training on some of the training images of CIFAR-10; the split has the held out ones in place of test."""
    data = image_paper.load("cifar10", quick)
    options = {**options, "epochs": EPOCHS}
    if quick:
        options.update(epochs=1, channels=8, n_blocks=2, strides=None)
    n_images = min(N_IMAGES, len(data.train) // 2)  # a quick run has fewer than are held out
    held_out = replace(
        data, train=data.train[:n_images], y_train=data.y_train[:n_images], test=data.train[-N_HELD_OUT:],
        y_test=data.y_train[-N_HELD_OUT:],
    )  # fmt: skip
    model = HarsanyiImageClassifier(**options, random_state=seed, progress=False)
    return model.fit(held_out.train, held_out.y_train), held_out


def _tau(cell: Cell, models: Path, quick: bool) -> Record:
    options = {**image_paper.MODELS["cifar10"]["paper"], "tau_gradient": cell["gradient"], "tau_rate": cell["rate"]}
    model, data = _fitted(options, cell["seed"], quick)
    net = model.network_
    with torch.no_grad():
        units = net.units(image_paper.standardised(model, data.test[:200]))
    return {
        "accuracy": image_paper.accuracy(model, data),
        "train_loss": model.history_.train_loss[-1],
        "train_seconds": model.history_.seconds,
        "children": [round(float(mask.double().sum(1).mean()), 3) for mask in net.chosen_children()],
        "cells_active": [round(float((z != 0).any(2).double().mean()), 4) for z in units],
    }


def _stem(cell: Cell, models: Path, quick: bool) -> Record:
    model, data = _fitted(STEMS[cell["network"]], cell["seed"], quick)
    single, large = image_paper.shares_by_size(model.explain(data.test[: 2 if quick else 10]).order_spectrum().tolist())
    return {
        "accuracy": image_paper.accuracy(model, data),
        "accuracy_half_hidden": image_paper.accuracy(model, data, hidden=0.5),
        "train_seconds": model.history_.seconds,
        "pixels_per_cell": list(model.network_.pixels_per_cell),
        "single_cells": single,
        "large_sets": large,
    }


def _summary(records: list[Record]) -> dict[str, Any]:
    return {"networks": [{**record["cell"], **{k: v for k, v in record.items() if k != "cell"}} for record in records]}


def _stem_text(result: dict[str, Any]) -> str:
    lines = [
        f"| CIFAR-10, {N_IMAGES:,} images, {EPOCHS} epochs | pixels per cell | accuracy, held out | half of the cells "
        "hidden | from single cells, % | from sets of more than half of the cells, % | minutes to train |",
        "| --- " * 7 + "|",
    ]
    for row in result["networks"]:
        lines.append(
            f"| {row['network']} | {' x '.join(map(str, row['pixels_per_cell']))} | {row['accuracy']:.2f} | "
            f"{row['accuracy_half_hidden']:.2f} | {100 * row['single_cells']:.0f} | {100 * row['large_sets']:.0f} | "
            f"{row['train_seconds'] / 60:.1f} |"
        )
    return "\n".join(lines)


def _text(result: dict[str, Any]) -> str:
    lines = [
        f"| CIFAR-10, 4 x 64, {N_IMAGES:,} images, {EPOCHS} epochs | child logits | accuracy, held out | "
        "training loss | children per cell, by block | cells that act, % |",
        "| --- " * 6 + "|",
    ]
    for row in result["networks"]:
        how = "AdamW, in the clip" if row["rate"] is None else f"SGD {row['rate']}, outside the clip"
        children = ", ".join(f"{n:.1f}" for n in row["children"])
        active = ", ".join(f"{100 * share:.0f}" for share in row["cells_active"])
        lines.append(
            f"| {NAMES[row['gradient']]} | {how} | {row['accuracy']:.2f} | {row['train_loss']:.4f} | {children} | "
            f"{active} |"
        )
    return "\n".join(lines)


EXPERIMENTS = {
    "image-tau": Experiment(
        "The paper's block on a part of CIFAR-10 with either gradient of the child logits, trained inside and outside "
        "the clip of the gradient.",
        lambda quick: [{"gradient": g, "rate": r, "seed": 0} for g in NAMES for r in (None, 0.01)],
        _tau,
        _summary,
        _text,
    ),
    "image-stems": Experiment(
        "Presence networks trained with masks, and the paper's block, on stems whose cells see more or fewer pixels.",
        lambda quick: [{"network": name, "seed": 0} for name in STEMS],
        _stem,
        _summary,
        _stem_text,
    ),
}
