"""What a map is worth: cells put in or taken out in its order, and how fast the network makes up its mind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.peers import curve
from harsanyinet_experiments import image_paper
from harsanyinet_experiments.experiment import Experiment, nested
from harsanyinet_experiments.image_fast import fast_epochs, fast_shap_of
from harsanyinet_experiments.image_figures import NETWORKS
from harsanyinet_experiments.image_paper import DATASETS
from harsanyinet_experiments.runner import Cell, Record
from harsanyinet_experiments.scoring import some_rows
from harsanyinet_experiments.tabular_figures import COLOURS

METHODS = {
    "HarsanyiNet": "HarsanyiNet, exact",
    "fast_shap": "FastSHAP",
    "gradient": "gradient times z0",
    "random": "cells at random",
    "sampling": "sampling",
    "kernel_shap_paired": "KernelSHAP, paired",
}
ESTIMATED = ("sampling", "kernel_shap_paired")
STEPS = 32  # of a curve
INSERTED = (("mnist", "paper"), ("cifar10", "paper"), ("cifar10", "masked"))
SEEDS = (("mnist", "paper"),)  # networks that are trained twice


def insertion_masks(values: NDArray[Any], n_steps: int) -> NDArray[np.bool_]:
    """(n_steps + 1, P): the k-th row keeps the share k / n_steps of the cells with the largest values.

    Examples:
        >>> insertion_masks(np.array([0.1, 0.7, 0.2, 0.0]), 2).astype(int).tolist()
        [[0, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]]
    """
    place = np.empty(len(values), dtype=int)
    place[np.argsort(-values, kind="stable")] = np.arange(len(values))
    counts = np.linspace(0, len(values), n_steps + 1).round()
    return np.asarray(place[None] < counts[:, None])


def gradient_map(net: HarsanyiCNN, x: Tensor, label: int) -> NDArray[Any]:
    """(P,): the gradient of one output by z0 times z0, summed over the channels of each cell."""
    z0 = net.stem(x).detach().requires_grad_()
    output = net.read(net.units_of_map(z0))[0, label]
    (slope,) = torch.autograd.grad(output, z0)
    return np.asarray((slope * z0).sum(1).flatten().detach().double().numpy())


def _insertion(cell: Cell, models: Path, quick: bool) -> Record:
    dataset = cell["dataset"]
    data = image_paper.load(dataset, quick)
    model = image_paper.trained(data, dataset, cell["network"], models, quick).model
    net = model.network_
    n_images, n_estimated, budget = (3, 2, 600) if quick else (500, 100, 2048)
    rows = some_rows(len(data.test), n_images)
    x = image_paper.standardised(model, data.test[rows])
    fast = fast_shap_of(dataset, cell["network"], models, quick)
    by_fast = fast.explain(x)
    exact = net.explain(x)
    chosen = exact.outputs.argmax(1)  # the class that the network sees in the whole image
    curves: dict[str, list[tuple[NDArray[Any], NDArray[Any]]]] = {name: [] for name in METHODS}
    rng = np.random.default_rng(0)
    for i, label in enumerate(map(int, chosen)):
        play = net.game(x, i)

        def game(masks: NDArray[np.bool_], play: Any = play, label: int = label) -> NDArray[Any]:
            return np.asarray(play(masks)[:, label])

        maps = {
            "HarsanyiNet": exact.values[i, :, label], "fast_shap": by_fast[i, :, label],
            "gradient": gradient_map(net, x[i : i + 1], label), "random": rng.random(net.n_players),
        }  # fmt: skip
        for name in ESTIMATED if i < n_estimated else ():
            maps[name] = curve(name, game, net.n_players, [budget], seed=i)[0].values  # type: ignore[arg-type]
        for name, values in maps.items():
            masks = insertion_masks(np.asarray(values), STEPS)
            chances = softmax(play(np.concatenate([masks, ~masks])), axis=1)[:, label]
            curves[name].append((chances[: STEPS + 1], chances[STEPS + 1 :]))
    return {
        "steps": STEPS, "budget": budget, "fast_shap_rows": fast.rows_,
        "fast_shap_epochs": len(fast.history_.train_loss),
        "fast_shap_converged": fast.converged_,
        "methods": {name: _mean_curves(pairs) for name, pairs in curves.items()},
        "first": {name: _mean_curves(curves[name][:n_estimated]) for name in METHODS},
    }  # fmt: skip


def _mean_curves(pairs: list[tuple[NDArray[Any], NDArray[Any]]]) -> dict[str, Any]:
    """Mean curves over images, and the areas below them with the standard error of their mean."""
    found: dict[str, Any] = {"images": len(pairs)}
    for name, curves in zip(("insertion", "deletion"), map(np.array, zip(*pairs, strict=True)), strict=True):
        areas = np.trapezoid(curves, dx=1 / STEPS, axis=1)
        found[name] = {
            "curve": curves.mean(0).round(5).tolist(), "area": float(areas.mean()),
            "standard_error": float(areas.std(ddof=1) / np.sqrt(len(areas))) if len(areas) > 1 else None,
        }  # fmt: skip
    return found


def _summary(records: list[Record]) -> dict[str, Any]:
    return {"datasets": nested(records, "dataset", "network")}


def _text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | network | order of the cells | images | insertion, larger is better | "
        "deletion, smaller is better | rows for each map | on the images of the estimates: insertion | deletion |",
        "| --- " * 9 + "|",
    ]
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            for method, shown in METHODS.items():
                whole, first = row["methods"][method], row["first"][method]
                rows = f"{row['budget']:,}" if method in ESTIMATED else ""
                shown = f"{shown} (epochs: {fast_epochs(row)})" if method == "fast_shap" else shown
                areas = [
                    f"{each[name]['area']:.3f} ± {each[name]['standard_error'] or 0:.3f}"
                    for each in (whole, first)
                    for name in ("insertion", "deletion")
                ]
                lines.append(
                    f"| {DATASETS[dataset]} | {NETWORKS[network]} | {shown} | {whole['images']} | {areas[0]} | "
                    f"{areas[1]} | {rows} | {areas[2]} | {areas[3]} |"
                )
    return "\n".join(lines)


def _draw(result: dict[str, Any]) -> dict[str, Any]:
    from matplotlib.figure import Figure

    figures = {}
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            figure = Figure(figsize=(8.4, 3.4), layout="constrained")
            axes = figure.subplots(1, 2, sharey=True)
            share = np.linspace(0, 100, row["steps"] + 1)
            for ax, name in zip(axes, ("insertion", "deletion"), strict=True):
                for (method, shown), colour in zip(METHODS.items(), COLOURS, strict=True):
                    style = "--" if method in ESTIMATED else "-"
                    ax.plot(share, row["first"][method][name]["curve"], style, color=colour, label=shown, linewidth=1.5)
                ax.spines[["top", "right"]].set_visible(False)
                ax.set_xlabel("cells put in, %" if name == "insertion" else "cells taken out, %")
                ax.set_title(f"{name}, {row['first']['sampling']['images']} images", fontsize=10)
            axes[0].set_ylabel("mean probability of the class")
            axes[1].legend(fontsize=8, frameon=False)
            figures[f"_{dataset}_{network}"] = figure
    return figures


# Two seeds --------------------------------------------------------------------------------------------------------


def _seeds(cell: Cell, models: Path, quick: bool) -> Record:
    dataset = cell["dataset"]
    data = image_paper.load(dataset, quick)
    rows = some_rows(len(data.test), 3 if quick else 500)
    labels, maps, right = data.y_test[rows].astype(int), [], []
    for seed in (0, 1):
        model = image_paper.trained(data, dataset, cell["network"], models, quick, seed).model
        maps.append(model.explain(data.test[rows]).values[np.arange(len(rows)), :, labels])
        right.append(image_paper.accuracy(model, data))
    each = [np.corrcoef(a, b)[0, 1] for a, b in zip(*maps, strict=True)]
    kept = [np.argsort(-values, axis=1)[:, : values.shape[1] // 10] for values in maps]
    shared = [len(np.intersect1d(a, b)) / len(a) for a, b in zip(*kept, strict=True)]
    return {
        "images": len(rows), "accuracy": right, "cells": maps[0].shape[1],
        "correlation": float(np.corrcoef(maps[0].ravel(), maps[1].ravel())[0, 1]),
        "correlation_of_an_image": float(np.median(each)), "shared_tenth": float(np.mean(shared)),
    }  # fmt: skip


def _seeds_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | network | accuracy of the two | images | correlation of all values | of one image, median | "
        "strongest tenth of the cells, in common, % | by chance |",
        "| --- " * 8 + "|",
    ]
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            accuracy = ", ".join(f"{one:.2f}" for one in row["accuracy"])
            lines.append(
                f"| {DATASETS[dataset]} | {NETWORKS[network]} | {accuracy} | {row['images']} | "
                f"{row['correlation']:.3f} | {row['correlation_of_an_image']:.3f} | {100 * row['shared_tenth']:.0f} | "
                f"10 |"
            )
    return "\n".join(lines)


EXPERIMENTS = {
    "image-insertion": Experiment(
        "The probability of the class that the network sees in the whole image, while the cells of z0 are put in, or "
        "taken out, in the order of a map: areas below the curves.",
        lambda quick: [{"dataset": d, "network": n} for d, n in INSERTED],
        _insertion,
        _summary,
        _text,
        _draw,
    ),
    "image-seeds": Experiment(
        "How far the maps of two networks agree that differ by their seed alone: values of the true class.",
        lambda quick: [{"dataset": d, "network": n} for d, n in SEEDS],
        _seeds,
        _summary,
        _seeds_text,
    ),
}
