"""How the child logits of the paper's block are trained on images: which gradient, and inside or outside the clip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from harsanyinet.images.image_estimator import HarsanyiImageClassifier
from harsanyinet_experiments import image_paper
from harsanyinet_experiments.experiment import Experiment
from harsanyinet_experiments.runner import Cell, Record

N_IMAGES, N_HELD_OUT, EPOCHS = 15_000, 5_000, 4  # of the training images: the first, and the last
NAMES = {"formula": "the paper's formula, beta everywhere", "code": "the authors' code, beta = 1 in the gate"}


def _tau(cell: Cell, models: Path, quick: bool) -> Record:
    data = image_paper.load("cifar10", quick)
    options = {**image_paper.MODELS["cifar10"]["paper"], "epochs": EPOCHS}
    if quick:
        options.update(epochs=1, channels=8, n_blocks=2)
    options.update(tau_gradient=cell["gradient"], tau_rate=cell["rate"])
    model = HarsanyiImageClassifier(**options, random_state=cell["seed"], progress=False)
    held_out, labels = data.train[-N_HELD_OUT:], data.y_train[-N_HELD_OUT:]
    n_images = min(N_IMAGES, len(data.train) // 2)  # a quick run has fewer than are held out
    model.fit(data.train[:n_images], data.y_train[:n_images])
    net = model.network_
    with torch.no_grad():
        units = net.units(image_paper.standardised(model, held_out[:200]))
    return {
        "accuracy": 100 * float((model.predict(held_out) == labels).mean()),
        "train_loss": model.history_.train_loss[-1],
        "train_seconds": model.history_.seconds,
        "children": [round(float(mask.double().sum(1).mean()), 3) for mask in net.neighbour_masks()],
        "cells_active": [round(float((z != 0).any(2).double().mean()), 4) for z in units],
    }


def _summary(records: list[Record]) -> dict[str, Any]:
    return {"networks": [{**record["cell"], **{k: v for k, v in record.items() if k != "cell"}} for record in records]}


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
}
