"""The paper's tables on images: accuracy and error, distance to sampling, cost of training."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.datasets import ImageSplit
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.peers import DeepConvShapNet, ShallowConvShapNet, curve, row_errors
from harsanyinet_experiments import image_paper
from harsanyinet_experiments.against_brute_force import subgame_errors
from harsanyinet_experiments.experiment import Experiment, nested
from harsanyinet_experiments.image_paper import DATASETS, image_game
from harsanyinet_experiments.runner import Cell, Record
from harsanyinet_experiments.scoring import some_rows

NAMES = {
    "default": "HarsanyiCNN, presence gate",
    "unmasked": "the same, 4 epochs, without masks in training",
    "masked": "HarsanyiCNN, presence gate, two groups, masks in training",
    "paper": "HarsanyiCNN, the paper's block",
    "residual": "HarsanyiCNN, the paper's block on a residual stem",
    "shallow_shapnet": "Shallow ShapNet, one short training for want of hours",
    "deep_shapnet": "Deep ShapNet, one short training for want of hours",
}
N_IMAGES = {"mnist": 20, "cifar10": 10}
N_PLAYERS = 12
SHAPNET_EPOCHS = {"shallow_shapnet": 2, "deep_shapnet": 1}


# Table 1 ----------------------------------------------------------------------------------------------------------


def _table1(cell: Cell, models: Path, quick: bool) -> Record:
    dataset, method = cell["dataset"], cell["method"]
    data = image_paper.load(dataset, quick)
    rows = some_rows(len(data.test), 2 if quick else N_IMAGES[dataset])
    if method.endswith("shapnet"):
        return _shapnet(method, dataset, data, rows, cell["seed"], quick)
    model, seconds, threads, options = image_paper.trained(data, dataset, method, models, quick, cell["seed"])
    net = model.network_
    record: Record = {
        "accuracy": image_paper.accuracy(model, data),
        "accuracy_half_hidden": image_paper.accuracy(model, data, hidden=0.5),
        "accuracy_blocks_hidden": image_paper.accuracy(model, data, hidden=0.5, block=4),
        "train_seconds": seconds,
        "threads": threads,
        "epochs": options["epochs"],
        "n_parameters": sum(p.numel() for p in net.parameters()),
        "pixels_per_cell": list(net.pixels_per_cell),
        "cells": list(net.cells),
        "size": f"{net.config['n_blocks']} x {_range(net.config['channels'])}",
    }
    ex = model.explain(data.test[rows])
    record["order_spectrum"] = [round(float(share), 4) for share in ex.order_spectrum()]
    strength = image_paper.strength_of_cells(net, image_paper.standardised(model, data.test[rows]))
    record["max_logit"] = float(np.abs(model.decision_function(data.test[:2000])).max())
    for dtype in (torch.float32, torch.float64):
        net.to(dtype)
        ex = net.explain(x := image_paper.standardised(model, data.test[rows]))
        error, zero = subgame_errors(
            lambda i, x=x: net.game(x, i),  # type: ignore[misc]
            lambda i, players, ex=ex: ex[[i]].restrict(players.tolist()).values[0],  # type: ignore[misc]
            strength, data.y_test[rows], n_players=7 if quick else N_PLAYERS,
        )  # fmt: skip
        record[f"rmse_{str(dtype).removeprefix('torch.')}"] = error
    return record | {"rmse_of_zero": zero, "images": len(rows)}


def _range(channels: int | list[int]) -> str:
    return str(channels) if isinstance(channels, int) else f"{min(channels)} to {max(channels)}"


def _shapnet(method: str, dataset: str, data: ImageSplit, rows: NDArray[np.intp], seed: int, quick: bool) -> Record:
    """A rival network of its authors' kind, on patches of 2 x 2 pixels; absent patches are black, on CIFAR-10 grey.

    In its sub-games all others are absent: its values are those of the patches that are there.
    """
    size, c_in = data.train.shape[1], data.train.reshape(*data.train.shape[:3], -1).shape[3]
    n_classes = len(data.class_names)
    absent = image_paper.plain_images(data, np.zeros_like(data.test[:1]))[0, :, 0, 0] if c_in == 1 else None
    kind = ShallowConvShapNet if method == "shallow_shapnet" else DeepConvShapNet
    net: Any = kind(c_in, size, n_classes, patch=2, seed=seed, baseline=absent)
    epochs = 1 if quick else SHAPNET_EPOCHS[method]
    seconds = image_paper.train_plain(net, data, epochs=epochs, seed=seed, dataset=dataset)
    record: Record = {
        "accuracy": image_paper.plain_accuracy(net, data),
        "train_seconds": seconds,
        "threads": torch.get_num_threads(),
        "epochs": epochs,
        "n_parameters": sum(p.numel() for p in net.parameters()),
        "pixels_per_cell": [2, 2],
        "cells": list(net.cells),
        "size": "",
    }
    bright = torch.from_numpy(data.test[rows].reshape(len(rows), 1, size, size, c_in).sum(4) / 255)
    strength = F.avg_pool2d(bright, 2).flatten(1).numpy()
    with torch.no_grad():
        record["max_logit"] = float(net(image_paper.plain_images(data, data.test[:2000])).abs().max())
    for dtype in (torch.float32, torch.float64):
        net = net.to(dtype).eval()
        x = image_paper.plain_images(data, data.test[rows], dtype)

        def alone(i: int, players: NDArray[np.intp], net: Any = net, x: Tensor = x) -> NDArray[Any]:
            there = torch.zeros(net.n_players, dtype=torch.bool)
            there[players] = True
            with torch.no_grad():
                return np.asarray(net.explain_values(x[i : i + 1], present=there)[0, players].numpy())

        error, zero = subgame_errors(
            lambda i, net=net, x=x: image_game(net, x[i]),  # type: ignore[misc]
            alone, strength, data.y_test[rows], others=False, n_players=7 if quick else N_PLAYERS,
        )  # fmt: skip
        record[f"rmse_{str(dtype).removeprefix('torch.')}"] = error
    return record | {"rmse_of_zero": zero, "images": len(rows)}


def _table1_summary(records: list[Record]) -> dict[str, Any]:
    rows = nested(records, "dataset", "method")
    return {"paper": image_paper.PAPER, "datasets": rows, "models": image_paper.MODELS}


def _table1_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | network | blocks x channels | epochs, minutes here | pixels per cell | accuracy, paper | ours | "
        "half of the cells hidden | half, in squares of 4 x 4 cells | error, paper | float32 | float64 | "
        "max abs(logit) | error / error of zero | from single cells, % | from sets of more than half of the cells, % |",
        "| --- " * 16 + "|",
    ]
    for dataset, methods in result["datasets"].items():
        for method, row in methods.items():
            published = result["paper"][dataset].get(method if method.endswith("shapnet") else "harsanyinet")
            hidden, blocks = (
                f"{row[name]:.2f}" if name in row else "" for name in ("accuracy_half_hidden", "accuracy_blocks_hidden")
            )
            sees, zero = " x ".join(map(str, row["pixels_per_cell"])), row["rmse_of_zero"]
            share = f"{row['rmse_float64'] / zero:.2g}" if zero else ""
            orders = row.get("order_spectrum")
            parts = [f"{100 * share:.0f}" for share in image_paper.shares_by_size(orders)] if orders else ["", ""]
            lines.append(
                f"| {DATASETS[dataset]} | {NAMES[method]} | {row['size']} | {row['epochs']}, "
                f"{row['train_seconds'] / 60:.2g} | {sees} | {published[0]:.2f} | {row['accuracy']:.2f} | {hidden} | "
                f"{blocks} | {published[1]:.3g} | {row['rmse_float32']:.2e} | {row['rmse_float64']:.2e} | "
                f"{row['max_logit']:.1f} | {share} | {parts[0]} | {parts[1]} |"
            )
    return "\n".join(lines)


# Distance to sampling ---------------------------------------------------------------------------------------------


def _sampling_error(cell: Cell, models: Path, quick: bool) -> Record:
    dataset = cell["dataset"]
    data = image_paper.load(dataset, quick)
    model = image_paper.trained(data, dataset, cell["network"], models, quick).model
    net = model.network_
    row = int(some_rows(len(data.test), cell["image"] + 1)[-1])
    x, label = image_paper.standardised(model, data.test[[row]]), int(data.y_test[row])
    values = net.explain(x).values[0, :, label].astype(np.float64)
    play = net.game(x, 0)
    orders = [2, 4] if quick else ORDERS[dataset]
    budgets = [2 + m * (net.n_players - 1) for m in orders]
    estimates = curve("sampling", lambda masks: play(masks)[:, label], net.n_players, budgets, seed=cell["image"])
    return {
        "orders": orders,
        "rows": budgets,
        "rmse": [float(row_errors(estimate.values, values)) for estimate in estimates],
        "standard_error": [
            float(np.sqrt((np.asarray(e.standard_error) ** 2).mean())) if e.standard_error is not None else None
            for e in estimates
        ],
        "rmse_of_zero": float(row_errors(np.zeros_like(values), values)),
    }


ORDERS = {"mnist": [100, 500, 1000, 5000, 10000], "cifar10": [100, 500, 1000]}
SAMPLED = {
    ("mnist", "paper"): 4,
    ("cifar10", "paper"): 1,
    ("cifar10", "default"): 1,
    ("cifar10", "masked"): 4,
}  # images
SAMPLED_NAMES = {
    "paper": "the paper's block",
    "default": "presence gate",
    "masked": "presence gate, trained with masks",
}
PAPER_SAMPLING = {"mnist": {"5000": 0.017, "10000": 0.012}, "cifar10": {"5000": 0.007, "10000": 0.004}}


def _sampling_summary(records: list[Record]) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {}
    for dataset, network in SAMPLED:
        wanted = {"dataset": dataset, "network": network}
        cells = [record for record in records if wanted.items() <= record["cell"].items()]
        if cells:
            rows.setdefault(dataset, {})[network] = {
                "images": len(cells), "orders": cells[0]["orders"], "rows": cells[0]["rows"],
                "rmse": np.mean([cell["rmse"] for cell in cells], axis=0).tolist(),
                "standard_error": np.mean([cell["standard_error"] for cell in cells], axis=0).tolist(),
                "rmse_of_zero": float(np.mean([cell["rmse_of_zero"] for cell in cells])),
            }  # fmt: skip
    return {"paper": PAPER_SAMPLING, "datasets": rows}


def _sampling_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | network | images | orders | rows through the network | distance, paper | distance, ours | "
        "its own standard error | distance x root of orders | distance of zero |",
        "| --- " * 10 + "|",
    ]
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            columns = (row[name] for name in ("orders", "rows", "rmse", "standard_error"))
            for m, n_rows, error, own in zip(*columns, strict=True):
                published = result["paper"][dataset].get(str(m))
                lines.append(
                    f"| {DATASETS[dataset]} | {SAMPLED_NAMES[network]} | {row['images']} | {m:,} | {n_rows:,} | "
                    f"{published or ''} | {error:.4f} | {own:.4f} | {error * m**0.5:.2f} | {row['rmse_of_zero']:.4f} |"
                )
    return "\n".join(lines)


# Training cost ----------------------------------------------------------------------------------------------------

PAPER_SECONDS = {"mnist": (243.3, 127.0), "cifar10": (205.0, 106.7)}
COST_NETWORKS: dict[str, dict[str, Any]] = {
    "group": {"gate": "presence", "groups": 2, "stem": "deep", "channels": 64, "n_blocks": 4},
    "location": {"gate": "presence", "children": "location", "stem": "deep", "channels": 64, "n_blocks": 4},
    "paper": {"gate": "activation", "stem": "paper", "channels": 64, "n_blocks": 4},
}
COST_NAMES = {
    "group": "presence, children per group of channels",
    "location": "presence, children per location",
    "paper": "the paper's block",
}


def _training_cost(cell: Cell, models: Path, quick: bool) -> Record:
    data = image_paper.load(cell["dataset"], True)
    x, y = image_paper.plain_images(data, data.train), torch.from_numpy(data.y_train.astype(np.int64))
    net = HarsanyiCNN(x.shape[1], x.shape[2], len(data.class_names), **COST_NETWORKS[cell["network"]])
    nets: dict[str, nn.Module] = {"plain": image_paper.PlainCNN(net), "ours": net}
    if net.gate == "presence":
        nets["masked"] = HarsanyiCNN(x.shape[1], x.shape[2], len(data.class_names), **COST_NETWORKS[cell["network"]])
    present = torch.rand(64, net.n_players, generator=torch.Generator().manual_seed(0)) < 0.7
    times: dict[str, list[float]] = {name: [] for name in nets}
    optimizers = {name: torch.optim.AdamW(each.parameters(), fused=True) for name, each in nets.items()}
    for turn in range(3 if quick else 60):  # in turns: what slows the machine down slows all of them
        for name, each in nets.items():
            each.train()
            place = 64 * (turn % (len(x) // 64))
            batch = slice(place, place + 64)
            start = time.perf_counter()
            outputs = each(x[batch], present=present) if name == "masked" else each(x[batch])
            optimizers[name].zero_grad()
            torch.autograd.backward(F.cross_entropy(outputs, y[batch]))
            optimizers[name].step()
            if turn >= 2:
                times[name].append(time.perf_counter() - start)
    record: Record = {"step_seconds": {name: median(each) for name, each in times.items()}}
    net.eval()
    some, forward, explain = x[:64], [], []
    for _ in range(3 if quick else 60):
        start = time.perf_counter()
        with torch.no_grad():
            net(some)
        middle = time.perf_counter()
        net.explain(some)
        forward.append(middle - start)
        explain.append(time.perf_counter() - middle)
    record |= {"forward_seconds": median(forward), "explain_seconds": median(explain)}
    with torch.no_grad():
        record["forward_bytes"], record["explain_bytes"] = (_peak(net, some), _peak(net.explain, some))
    return record | {"threads": torch.get_num_threads(), "n_train": 60_000 if cell["dataset"] == "mnist" else 50_000}


def _peak(call: Any, x: Tensor) -> int:
    """The most memory that torch held beyond what it held before, in bytes."""
    from torch.profiler import ProfilerActivity, profile

    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it would report every start and stop
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as records:
        call(x)
    held = most = 0
    for event in sorted(records.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def _cost_summary(records: list[Record]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for record in records:
        steps, n_steps = record["step_seconds"], record["n_train"] / 64
        rows.setdefault(record["cell"]["dataset"], {})[record["cell"]["network"]] = {
            "epoch_seconds": {name: each * n_steps for name, each in steps.items()},
            "ratio": steps["ours"] / steps["plain"],
            "ratio_masked": steps["masked"] / steps["plain"] if "masked" in steps else None,
            "explain/forward": record["explain_seconds"] / record["forward_seconds"],
            "memory explain/forward": record["explain_bytes"] / max(record["forward_bytes"], 1),
            "explain_us_per_image": 1e6 * record["explain_seconds"] / 64,
            "threads": record["threads"],
        }
    return {"paper_seconds": PAPER_SECONDS, "datasets": rows, "networks": COST_NETWORKS}


def _cost_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | network, 4 blocks of 64 channels | seconds per epoch, plain | ours | ratio | with masks | paper | "
        "explain / predict, 64 images, all classes | memory, explain / predict | us per explained image |",
        "| --- " * 10 + "|",
    ]
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            ours, plain = result["paper_seconds"][dataset]
            masked = f"{row['ratio_masked']:.2f}" if row["ratio_masked"] else ""
            lines.append(
                f"| {DATASETS[dataset]} | {COST_NAMES[network]} | {row['epoch_seconds']['plain']:.0f} | "
                f"{row['epoch_seconds']['ours']:.0f} | {row['ratio']:.2f} | {masked} | "
                f"{f'{ours / plain:.1f}' if network == 'paper' else ''} | {row['explain/forward']:.2f} | "
                f"{row['memory explain/forward']:.2f} | {row['explain_us_per_image']:.0f} |"
            )
    return "\n".join(lines)


EXPERIMENTS = {
    "image-table1": Experiment(
        "Accuracy in per cent and error, the mean over test images of ||phi - phi*|| / sqrt(12) against brute force on "
        "sub-games of 12 foreground cells (all other cells present; in the ShapNets absent), for the logit of the true "
        "class.",
        lambda quick: [
            {"dataset": d, "method": m, "seed": 0}
            for d in DATASETS
            for m in [*image_paper.MODELS[d], "shallow_shapnet", "deep_shapnet"]
        ],
        _table1,
        _table1_summary,
        _table1_text,
    ),
    "image-sampling-error": Experiment(
        "Distance between our values and permutation sampling, whose own error it is: it falls with the root of the "
        "number of orders.",
        lambda quick: [{"dataset": d, "network": n, "image": i} for (d, n), m in SAMPLED.items() for i in range(m)],
        _sampling_error,
        _sampling_summary,
        _sampling_text,
    ),
    "image-training-cost": Experiment(
        "Seconds per epoch, from medians of steps of 64 images taken in turns; the plain network has the same stem, "
        "convolutions, normalisation, residuals and readouts. And an explanation beside a prediction.",
        lambda quick: [{"dataset": d, "network": n} for d in DATASETS for n in COST_NETWORKS],
        _training_cost,
        _cost_summary,
        _cost_text,
    ),
}
