"""The paper's tables on images: accuracy and error, distance to sampling, cost of training, robustness."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet import files
from harsanyinet.experiments import image_paper
from harsanyinet.experiments.image_paper import DATASETS, N_PLAYERS
from harsanyinet.experiments.reproduce import Cell, Experiment, nested
from harsanyinet.image import HarsanyiCNN
from harsanyinet.image_datasets import ImageSplit
from harsanyinet.peers import DeepConvShapNet, ShallowConvShapNet, curve

NAMES = {
    "default": "HarsanyiCNN, presence gate",
    "unmasked": "the same, 4 epochs, without masks in training",
    "masked": "HarsanyiCNN, presence gate, two groups, masks in training",
    "paper": "HarsanyiCNN, the paper's block",
    "shallow_shapnet": "Shallow ShapNet",
    "deep_shapnet": "Deep ShapNet",
}
N_IMAGES = {"mnist": 20, "cifar10": 10}
SHAPNET_EPOCHS = {"shallow_shapnet": 2, "deep_shapnet": 1}


# Table 1 ----------------------------------------------------------------------------------------------------------


def _table1(cell: Cell, models: Path, quick: bool) -> Cell:
    dataset, method = cell["dataset"], cell["method"]
    data = image_paper.load(dataset, quick)
    rows = image_paper.some_images(data, 2 if quick else N_IMAGES[dataset])
    if method.endswith("shapnet"):
        return _shapnet(method, dataset, data, rows, cell["seed"], quick)
    model, seconds, threads, options = image_paper.trained(data, dataset, method, models, quick, cell["seed"])
    net = model.network_
    found: Cell = {
        "accuracy": image_paper.accuracy(model, data),
        "accuracy_half_hidden": image_paper.accuracy(model, data, hidden=0.5),
        "train_seconds": seconds,
        "threads": threads,
        "epochs": options["epochs"],
        "n_parameters": sum(p.numel() for p in net.parameters()),
        "pixels_per_cell": list(net.pixels_per_cell),
        "cells": list(net.cells),
        "size": f"{net.config['n_blocks']} x {_range(net.config['channels'])}",
    }
    ex = model.explain(data.test[rows])
    found["order_spectrum"] = [round(float(share), 4) for share in ex.order_spectrum()]
    strength = image_paper.strength_of_cells(net, image_paper.standardised(model, data.test[rows]))
    found["max_logit"] = float(np.abs(model.decision_function(data.test[:2000])).max())
    for dtype in (torch.float32, torch.float64):
        net.to(dtype)
        ex = net.explain(x := image_paper.standardised(model, data.test[rows]))
        error, zero = image_paper.subgame_errors(
            lambda i, x=x: net.game(x, i),  # type: ignore[misc]
            lambda i, players, ex=ex: ex[[i]].restrict(players.tolist()).values[0],  # type: ignore[misc]
            strength, data.y_test[rows], n_players=7 if quick else N_PLAYERS,
        )  # fmt: skip
        found[f"rmse_{str(dtype).removeprefix('torch.')}"] = error
    return found | {"rmse_of_zero": zero, "images": len(rows)}


def _range(channels: int | list[int]) -> str:
    return str(channels) if isinstance(channels, int) else f"{min(channels)} to {max(channels)}"


def _shapnet(method: str, dataset: str, data: ImageSplit, rows: NDArray[np.intp], seed: int, quick: bool) -> Cell:
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
    found: Cell = {
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
        found["max_logit"] = float(net(image_paper.plain_images(data, data.test[:2000])).abs().max())
    for dtype in (torch.float32, torch.float64):
        net = net.to(dtype).eval()
        x = image_paper.plain_images(data, data.test[rows], dtype)

        def alone(i: int, players: NDArray[np.intp], net: Any = net, x: Tensor = x) -> NDArray[Any]:
            there = torch.zeros(net.n_players, dtype=torch.bool)
            there[players] = True
            with torch.no_grad():
                return np.asarray(net.explain_values(x[i : i + 1], present=there)[0, players].numpy())

        error, zero = image_paper.subgame_errors(
            lambda i, net=net, x=x: _player(net, x[i]),  # type: ignore[misc]
            alone, strength, data.y_test[rows], others=False, n_players=7 if quick else N_PLAYERS,
        )  # fmt: skip
        found[f"rmse_{str(dtype).removeprefix('torch.')}"] = error
    return found | {"rmse_of_zero": zero, "images": len(rows)}


def _player(net: nn.Module, image: Tensor) -> Any:
    def play(masks: NDArray[np.bool_]) -> NDArray[Any]:
        with torch.no_grad():
            parts = [
                net(image.expand(len(some), *image.shape), present=some)
                for some in torch.split(torch.from_numpy(masks), 256)
            ]
        return np.asarray(torch.cat(parts).numpy())

    return play


def _table1_summary(records: list[Cell]) -> dict[str, Any]:
    found = nested(records, "dataset", "method")
    return {"paper": image_paper.PAPER, "datasets": found, "models": image_paper.MODELS}


def _table1_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | network | blocks x channels | epochs, minutes here | pixels per cell | accuracy, paper | ours | "
        "half of the cells hidden | error, paper | float32 | float64 | max abs(logit) | error / error of zero | "
        "from single cells, % | from sets of more than half of the cells, % |",
        "| --- " * 15 + "|",
    ]
    for dataset, methods in result["datasets"].items():
        for method, row in methods.items():
            published = result["paper"][dataset].get(method if method.endswith("shapnet") else "harsanyinet")
            hidden = f"{row['accuracy_half_hidden']:.2f}" if "accuracy_half_hidden" in row else ""
            sees, zero = " x ".join(map(str, row["pixels_per_cell"])), row["rmse_of_zero"]
            share = f"{row['rmse_float64'] / zero:.2g}" if zero else ""
            orders = row.get("order_spectrum", [])
            single, large = orders[1:2], orders[len(orders) // 2 + 1 :]
            parts = [f"{100 * sum(some):.0f}" if orders else "" for some in (single, large)]
            lines.append(
                f"| {DATASETS[dataset]} | {NAMES[method]} | {row['size']} | {row['epochs']}, "
                f"{row['train_seconds'] / 60:.2g} | {sees} | {published[0]:.2f} | {row['accuracy']:.2f} | {hidden} | "
                f"{published[1]:.3g} | {row['rmse_float32']:.2e} | {row['rmse_float64']:.2e} | "
                f"{row['max_logit']:.1f} | {share} | {parts[0]} | {parts[1]} |"
            )
    return "\n".join(lines)


# Distance to sampling ---------------------------------------------------------------------------------------------


def _sampling_error(cell: Cell, models: Path, quick: bool) -> Cell:
    dataset = cell["dataset"]
    data = image_paper.load(dataset, quick)
    model = image_paper.trained(data, dataset, cell["network"], models, quick).model
    net = model.network_
    row = int(image_paper.some_images(data, cell["image"] + 1)[-1])
    x, label = image_paper.standardised(model, data.test[[row]]), int(data.y_test[row])
    values = net.explain(x).values[0, :, label].astype(np.float64)
    play = net.game(x, 0)
    orders = [2, 4] if quick else ORDERS[dataset]
    budgets = [2 + m * (net.n_players - 1) for m in orders]
    estimates = curve("sampling", lambda masks: play(masks)[:, label], net.n_players, budgets, seed=cell["image"])
    return {
        "orders": orders,
        "rows": budgets,
        "rmse": [image_paper.errors(estimate.values, values) for estimate in estimates],
        "standard_error": [
            float(np.sqrt((np.asarray(e.standard_error) ** 2).mean())) if e.standard_error is not None else None
            for e in estimates
        ],
        "rmse_of_zero": image_paper.errors(np.zeros_like(values), values),
    }


ORDERS = {"mnist": [100, 500, 1000, 5000, 10000], "cifar10": [100, 500, 1000]}
PAPER_SAMPLING = {"mnist": {"5000": 0.017, "10000": 0.012}, "cifar10": {"5000": 0.007, "10000": 0.004}}


def _sampling_summary(records: list[Cell]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for dataset in DATASETS:
        cells = [record for record in records if record["cell"]["dataset"] == dataset]
        if cells:
            found[dataset] = {
                "images": len(cells), "orders": cells[0]["orders"], "rows": cells[0]["rows"],
                "rmse": np.mean([cell["rmse"] for cell in cells], axis=0).tolist(),
                "standard_error": np.mean([cell["standard_error"] for cell in cells], axis=0).tolist(),
                "rmse_of_zero": float(np.mean([cell["rmse_of_zero"] for cell in cells])),
            }  # fmt: skip
    return {"paper": PAPER_SAMPLING, "datasets": found}


def _sampling_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | images | orders | rows through the network | distance, paper | distance, ours | its own standard "
        "error | distance x root of orders | distance of zero |",
        "| --- " * 9 + "|",
    ]
    for dataset, row in result["datasets"].items():
        for m, n_rows, error, own in zip(row["orders"], row["rows"], row["rmse"], row["standard_error"], strict=True):
            published = result["paper"][dataset].get(str(m))
            lines.append(
                f"| {DATASETS[dataset]} | {row['images']} | {m:,} | {n_rows:,} | {published or ''} | {error:.4f} | "
                f"{own:.4f} | {error * m**0.5:.2f} | {row['rmse_of_zero']:.4f} |"
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


def _training_cost(cell: Cell, models: Path, quick: bool) -> Cell:
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
    found: Cell = {"step_seconds": {name: median(each) for name, each in times.items()}}
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
    found |= {"forward_seconds": median(forward), "explain_seconds": median(explain)}
    with torch.no_grad():
        found["forward_bytes"], found["explain_bytes"] = (_peak(net, some), _peak(net.explain, some))
    return found | {"threads": torch.get_num_threads(), "n_train": 60_000 if cell["dataset"] == "mnist" else 50_000}


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


def _cost_summary(records: list[Cell]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for record in records:
        steps, n_steps = record["step_seconds"], record["n_train"] / 64
        found.setdefault(record["cell"]["dataset"], {})[record["cell"]["network"]] = {
            "epoch_seconds": {name: each * n_steps for name, each in steps.items()},
            "ratio": steps["ours"] / steps["plain"],
            "ratio_masked": steps["masked"] / steps["plain"] if "masked" in steps else None,
            "explain/forward": record["explain_seconds"] / record["forward_seconds"],
            "memory explain/forward": record["explain_bytes"] / max(record["forward_bytes"], 1),
            "explain_us_per_image": 1e6 * record["explain_seconds"] / 64,
            "threads": record["threads"],
        }
    return {"paper_seconds": PAPER_SECONDS, "datasets": found, "networks": COST_NETWORKS}


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


# Robustness -------------------------------------------------------------------------------------------------------


class ResNet(nn.Module):
    """A residual network for small images, of reduced width.

    By default ResNet-18: four stages of two blocks of two convolutions. With five blocks in each of three stages it is
    ResNet-32.
    """

    def __init__(self, c_in: int, n_outputs: int, width: int = 16, seed: int = 0, depth: int = 2) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.first = nn.Sequential(nn.Conv2d(c_in, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
            self.blocks = nn.ModuleList()
            below = width
            for stage in range(4 if depth == 2 else 3):
                for stride in (1 if stage == 0 else 2, *[1] * (depth - 1)):
                    self.blocks.append(_Residual(below, width << stage, stride))
                    below = width << stage
            self.last = nn.Linear(below, n_outputs)

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """(B, C, H, W) -> (B, K); absent patches of 2 x 2 pixels, (B, P) bool, are zero."""
        if present is not None:
            there = present.view(-1, 1, x.shape[2] // 2, x.shape[3] // 2)
            there = there.repeat_interleave(2, 2).repeat_interleave(2, 3)
            x = torch.where(there, x, 0.0)
        z = torch.relu(self.first(x))
        for block in self.blocks:
            z = block(z)
        out: Tensor = self.last(z.mean((2, 3)))
        return out


class _Residual(nn.Module):
    def __init__(self, below: int, above: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(below, above, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(above), nn.ReLU(),
            nn.Conv2d(above, above, 3, padding=1, bias=False), nn.BatchNorm2d(above),
        )  # fmt: skip
        short = nn.Sequential(nn.Conv2d(below, above, 1, stride=stride, bias=False), nn.BatchNorm2d(above))
        self.short = nn.Identity() if below == above and stride == 1 else short

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.short(x))


PAPER_ROBUSTNESS = {"harsanyinet": (13.83, 1.44), "resnet": (8.21, 1.50)}
EPSILON = 8 / 255


def _fgsm(call: Any, x: Tensor, y: Tensor, scale: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Each pixel moved by 8/255 along the sign of the loss's gradient, within the range of pixels."""
    x = x.clone().requires_grad_()
    torch.autograd.backward(F.cross_entropy(call(x), y))
    assert x.grad is not None
    moved: Tensor = x.detach() + EPSILON / scale * x.grad.sign()
    return torch.minimum(torch.maximum(moved, low), high)


def _robustness(cell: Cell, models: Path, quick: bool) -> Cell:
    data = image_paper.load("cifar10", quick)
    n_accuracy, n_values = (64, 2) if quick else (2000, 200 if cell["network"] == "harsanyinet" else ROBUSTNESS_IMAGES)
    y = torch.from_numpy(data.y_test[:n_accuracy].astype(np.int64))
    found: Cell = {}
    net: Any
    if cell["network"] == "harsanyinet":
        model = image_paper.trained(data, "cifar10", "default", models, quick).model
        net = model.network_
        mean, scale = (torch.tensor(v)[:, None, None] for v in (model.mean_, model.scale_))
        x = image_paper.standardised(model, data.test[:n_accuracy])
    else:
        net = _resnet(data, models, quick)
        found["epochs"] = 1 if quick else RESNET_EPOCHS
        mean, scale = (torch.from_numpy(v).float() for v in image_paper.channel_scale(data))
        x = image_paper.plain_images(data, data.test[:n_accuracy])
    net.eval()
    pieces = zip(torch.split(x, 250), torch.split(y, 250), strict=True)
    attacked = torch.cat([_fgsm(net, a, b, scale, (0 - mean) / scale, (1 - mean) / scale) for a, b in pieces])
    with torch.no_grad():
        for name, images in (("accuracy", x), ("accuracy_attacked", attacked)):
            right = torch.cat([net(some).argmax(1) for some in torch.split(images, 250)]) == y
            found[name] = 100 * float(right.double().mean())
    both = torch.stack([x[:n_values], attacked[:n_values]])
    changes, noise, sizes = [], [], []
    if cell["network"] == "harsanyinet":
        natural, adversarial = (net.explain(images).values.astype(np.float64) for images in both)
        changes = [float(np.linalg.norm((a - b)[:, k])) for a, b, k in zip(natural, adversarial, y, strict=False)]
        sizes = [float(np.linalg.norm(a[:, k])) for a, k in zip(natural, y, strict=False)]
        for name, each in (("l2_change_of_the_first", changes), ("l2_values_of_the_first", sizes)):
            found[name] = float(np.mean(each[:ROBUSTNESS_IMAGES]))
    else:
        n = (x.shape[2] // 2) * (x.shape[3] // 2)  # patches of 2 x 2 pixels
        budget = 2 + (4 if quick else ROBUSTNESS_ORDERS) * (n - 1)
        for i in range(n_values):
            before, after = (_patches(net, image, int(y[i])) for image in both[:, i])

            def difference(masks: NDArray[np.bool_], before: Any = before, after: Any = after) -> Any:
                return before(masks) - after(masks)

            moved, of_noise = _sampled_norm(difference, n, budget, seed=i)
            changes.append(moved)
            noise.append(of_noise)
            sizes.append(_sampled_norm(before, n, budget, seed=i)[0])
    return found | {
        "l2_change": float(np.mean(changes)), "l2_noise": float(np.mean(noise)) if noise else 0.0,
        "l2_values": float(np.mean(sizes)), "images": n_values,
    }  # fmt: skip


ROBUSTNESS_ORDERS = 100
ROBUSTNESS_IMAGES = 8
RESNET_EPOCHS = 6


def _sampled_norm(game: Any, n: int, budget: int, seed: int) -> tuple[float, float]:
    """The l2 norm of sampled values without the noise of sampling, which adds in squares; and that noise."""
    estimate = curve("antithetic", game, n, [budget], seed=seed)[0]
    noise = float((np.asarray(estimate.standard_error) ** 2).sum())
    return max(float((estimate.values**2).sum()) - noise, 0.0) ** 0.5, noise**0.5


def _patches(net: nn.Module, image: Tensor, label: int) -> Any:
    play = _player(net, image)
    return lambda masks: play(masks)[:, label]


def _resnet(data: ImageSplit, models: Path, quick: bool) -> ResNet:
    epochs = 1 if quick else RESNET_EPOCHS
    path = models / f"cifar10_resnet18_{epochs}_epochs.safetensors"
    net = ResNet(data.train.shape[3], len(data.class_names), width=4 if quick else 16)
    if path.exists():
        net.load_state_dict(load_file(path))
    else:
        image_paper.train_plain(net, data, epochs=epochs, seed=0, learning_rate=5e-3, dataset="cifar10")
        models.mkdir(parents=True, exist_ok=True)
        files.write_beside(path, save(net.state_dict()))
    return net.eval()


def _robustness_summary(records: list[Cell]) -> dict[str, Any]:
    return {"paper": PAPER_ROBUSTNESS, "networks": nested(records, "network")}


def _robustness_text(result: dict[str, Any]) -> str:
    lines = [
        "| CIFAR-10, FGSM 8/255 | accuracy | attacked, paper | attacked, ours | l2 change of values, paper | ours | "
        "images | sampling noise, taken out | l2 norm of the values | change / norm |",
        "| --- " * 10 + "|",
    ]
    exact, sampled = result["networks"]["harsanyinet"], result["networks"]["resnet"]
    first = {name: exact[f"{name}_of_the_first"] for name in ("l2_change", "l2_values")} | {"images": sampled["images"]}
    resnet = f"ResNet-18 of a quarter of the width, {sampled['epochs']} epochs, sampled values"
    for name, row, published in (
        ("HarsanyiCNN, presence gate, exact values", exact, result["paper"]["harsanyinet"]),
        ("the same, the images of the ResNet's values", exact | first, result["paper"]["harsanyinet"]),
        (resnet, sampled, result["paper"]["resnet"]),
    ):
        lines.append(
            f"| {name} | {row['accuracy']:.2f} | {published[0]:.2f} | {row['accuracy_attacked']:.2f} | "
            f"{published[1]:.2f} | {row['l2_change']:.2f} | {row['images']} | {row['l2_noise']:.2f} | "
            f"{row['l2_values']:.2f} | {row['l2_change'] / row['l2_values']:.2f} |"
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
        "number of orders. MNIST: the paper's block; CIFAR-10: the presence gate.",
        lambda quick: [
            {"dataset": d, "network": n, "image": 0} for d, n in (("mnist", "paper"), ("cifar10", "default"))
        ],
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
    "robustness": Experiment(
        "Attacked by FGSM at 8/255: accuracy on 2,000 test images and how far the values of the true class move.",
        lambda quick: [{"network": n} for n in ("harsanyinet", "resnet")],
        _robustness,
        _robustness_summary,
        _robustness_text,
    ),
}
