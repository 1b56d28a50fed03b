"""How the child logits of the paper's block are trained on images: which gradient, and inside or outside the clip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from harsanyinet.images.image_estimator import HarsanyiImageClassifier
from harsanyinet_experiments import image_paper
from harsanyinet_experiments.experiment import Experiment
from harsanyinet_experiments.runner import Cell, Record

N_IMAGES, N_HELD_OUT, EPOCHS = 10_000, 5000, 3
NAMES = {"formula": "the paper's formula, beta everywhere", "code": "the authors' code, beta = 1 in the gate"}


def _tau(cell: Cell, models: Path, quick: bool) -> Record:
    data = image_paper.load("cifar10", quick)
    n_held_out = len(data.train) // 4 if quick else N_HELD_OUT
    options = {**image_paper.MODELS["cifar10"]["paper"], "epochs": EPOCHS}
    if quick:
        options.update(epochs=1, channels=8, n_blocks=2)
    options.update(tau_gradient=cell["gradient"], tau_rate=cell["rate"])
    model = HarsanyiImageClassifier(**options, random_state=cell["seed"], progress=False)
    shown = slice(min(N_IMAGES, len(data.train) - n_held_out))
    model.fit(data.train[shown], data.y_train[shown])
    net = model.network_
    with torch.no_grad():
        units = net.units(image_paper.standardised(model, data.test[:200]))
    chosen_by = model.predict(data.train[-n_held_out:]) == data.y_train[-n_held_out:]
    return {
        "accuracy_held_out": 100 * float(chosen_by.mean()),
        "accuracy": image_paper.accuracy(model, data),
        "train_loss": model.history_.train_loss[-1],
        "children": [round(float(mask.double().sum(1).mean()), 3) for mask in net.neighbour_masks()],
        "cells_active": [round(float((z != 0).any(2).double().mean()), 4) for z in units],
    }


def _summary(records: list[Record]) -> dict[str, Any]:
    return {"networks": [{**record["cell"], **{k: v for k, v in record.items() if k != "cell"}} for record in records]}


def _text(result: dict[str, Any]) -> str:
    lines = [
        f"| CIFAR-10, 4 x 64, {N_IMAGES:,} images, {EPOCHS} epochs | child logits | accuracy, {N_HELD_OUT:,} training "
        "images held out | accuracy, test | training loss | children per cell, by block | cells that act, % |",
        "| --- " * 7 + "|",
    ]
    for row in result["networks"]:
        how = "AdamW, in the clip" if row["rate"] is None else f"SGD {row['rate']}, outside the clip"
        children = ", ".join(f"{n:.1f}" for n in row["children"])
        active = ", ".join(f"{100 * share:.0f}" for share in row["cells_active"])
        lines.append(
            f"| {NAMES[row['gradient']]} | {how} | {row['accuracy_held_out']:.2f} | {row['accuracy']:.2f} | "
            f"{row['train_loss']:.4f} | {children} | {active} |"
        )
    return "\n".join(lines)


EXPERIMENTS = {
    "image-tau": Experiment(
        "The paper's block on a part of CIFAR-10 with either gradient of the child logits, trained inside and outside "
        "the clip of the gradient; to be compared on training images that were held out.",
        lambda quick: [{"gradient": g, "rate": r, "seed": 0} for g in NAMES for r in (None, 0.01)],
        _tau,
        _summary,
        _text,
    ),
}
