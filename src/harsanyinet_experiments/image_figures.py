"""The paper's figures on images: maps of every method, receptive fields, sparse interactions of ordinary networks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harsanyinet.games import evaluate, moebius_transform
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.image_estimator import HarsanyiImageClassifier
from harsanyinet.peers import curve, deep_shap, row_errors
from harsanyinet.plots import maps
from harsanyinet_experiments import image_paper
from harsanyinet_experiments.against_brute_force import sorted_strengths
from harsanyinet_experiments.experiment import Experiment, nested
from harsanyinet_experiments.image_fast import fast_epochs, fast_shap_of
from harsanyinet_experiments.image_paper import DATASETS
from harsanyinet_experiments.image_robustness import ResNet
from harsanyinet_experiments.runner import Cell, Record
from harsanyinet_experiments.scoring import some_rows
from harsanyinet_experiments.tabular_figures import COLOURS

NETWORKS = {"paper": "the paper's block", "default": "presence gate", "masked": "presence gate, trained with masks"}
BUDGETS = {  # rows through the network for one map, as in the paper
    "mnist": {"sampling": 20_000, "kernel_shap": 20_000},
    "cifar10": {"sampling": 20_000, "kernel_shap": 200_000},
}


# Maps -------------------------------------------------------------------------------------------------------------


def _maps(cell: Cell, models: Path, quick: bool) -> Record:
    dataset = cell["dataset"]
    data = image_paper.load(dataset, quick)
    model = image_paper.trained(data, dataset, cell["network"], models, quick).model
    net = model.network_
    rows = _one_per_class(data.y_test, 1 if quick else 4)
    x, labels = image_paper.standardised(model, data.test[rows]), data.y_test[rows].astype(int)
    budgets = dict.fromkeys(BUDGETS[dataset], 600) if quick else BUDGETS[dataset]
    fast = fast_shap_of(dataset, cell["network"], models, quick)
    by_fast = fast.explain(x)
    exact = net.explain(x).values.astype(np.float64)
    examples = []
    for i, label in enumerate(labels):
        play = net.game(x, i)

        def game(masks: NDArray[np.bool_], play: Any = play, label: int = label) -> NDArray[Any]:
            return np.asarray(play(masks)[:, label])

        one: dict[str, NDArray[Any]] = {"HarsanyiNet": exact[i, :, label]}
        for name, budget in budgets.items():
            one[name] = curve(name, game, net.n_players, [budget], seed=i)[0].values  # type: ignore[arg-type]
        if net.gate == "activation":
            one["deep_shap"] = deep_shap(net, x[i : i + 1], output=int(label))[0]
        one["fast_shap"] = by_fast[i, :, label]
        examples.append({
            "row": int(rows[i]), "label": int(label),
            "values": {name: np.asarray(v, dtype=np.float64).round(6).tolist() for name, v in one.items()},
            "per_class": exact[i].T.round(6).tolist(),
            "outputs": net.explain(x[i : i + 1]).outputs[0].astype(float).round(6).tolist(),
            "error": {name: float(row_errors(v, exact[i, :, label])) for name, v in one.items()},
            "error_of_zero": float(row_errors(np.zeros(net.n_players), exact[i, :, label])),
        })  # fmt: skip
    return {
        "budgets": budgets, "examples": examples, "cells": list(net.cells), "classes": list(data.class_names),
        "fast_shap_rows": fast.rows_, "fast_shap_seconds": round(fast.seconds_, 1),
        "fast_shap_epochs": len(fast.history_.train_loss),
        "fast_shap_converged": fast.converged_,
        "images": data.test[rows].tolist(),
    }  # fmt: skip


def _one_per_class(labels: NDArray[Any], n: int) -> NDArray[np.intp]:
    """The first image of each of the first n classes, every other class first."""
    return np.array([int(np.flatnonzero(labels == k)[0]) for k in range(10) if (labels == k).any()][::2][:n])


MAP_NAMES = {
    "HarsanyiNet": "HarsanyiNet,\none pass",
    "sampling": "sampling",
    "kernel_shap": "KernelSHAP",
    "deep_shap": "DeepSHAP",
    "fast_shap": "FastSHAP",
}


def _maps_summary(records: list[Record]) -> dict[str, Any]:
    return {"datasets": nested(records, "dataset", "network")}


def _maps_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | network | sampling | its rows | KernelSHAP | its rows | DeepSHAP | FastSHAP | rows to train it | "
        "its epochs | zero |",
        "| --- " * 11 + "|",
    ]
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            mean = {
                name: float(np.mean([example["error"][name] for example in row["examples"]]))
                for name in row["examples"][0]["error"]
            }
            zero = np.mean([example["error_of_zero"] for example in row["examples"]])
            deep = f"{mean['deep_shap']:.4f}" if "deep_shap" in mean else ""
            lines.append(
                f"| {DATASETS[dataset]} | {NETWORKS[network]} | {mean['sampling']:.4f} | "
                f"{row['budgets']['sampling']:,} | {mean['kernel_shap']:.4f} | {row['budgets']['kernel_shap']:,} | "
                f"{deep} | {mean['fast_shap']:.4f} | {row['fast_shap_rows']:,} | "
                f"{fast_epochs(row)} | {zero:.4f} |"
            )
    return "\n".join(lines)


def _draw_maps(result: dict[str, Any]) -> dict[str, Any]:
    from matplotlib.figure import Figure

    figures = {}
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            examples, methods = row["examples"], list(row["examples"][0]["values"])
            pictures = np.array(row["images"], dtype=np.uint8)
            figure = Figure(figsize=(1.45 * (len(methods) + 1), 1.5 * len(examples) + 0.4), layout="constrained")
            axes = figure.subplots(len(examples), len(methods) + 1, squeeze=False)
            for line, example, picture in zip(axes, examples, pictures, strict=True):
                line[0].imshow(picture.squeeze(), cmap="gray")
                maps.bare(line[0])
                line[0].set_ylabel(row["classes"][example["label"]], fontsize=9)
                limit = maps.colour_limit(np.array(example["values"]["HarsanyiNet"]))
                for ax, method in zip(line[1:], methods, strict=True):
                    values = np.array(example["values"][method]).reshape(row["cells"])
                    maps.draw_cells(ax, picture, values, limit)
            axes[0, 0].set_title("image", fontsize=9)
            for ax, method in zip(axes[0, 1:], methods, strict=True):
                more = f",\n{row['budgets'][method]:,} rows" if method in row["budgets"] else ""
                ax.set_title(MAP_NAMES[method] + more, fontsize=9)
            figures[f"_{dataset}_{network}"] = figure
            figures[f"_{dataset}_{network}_classes"] = _draw_classes(row, pictures)
    return figures


def _draw_classes(row: dict[str, Any], pictures: NDArray[np.uint8]) -> Any:
    """One map per class, all on one scale."""
    from matplotlib.figure import Figure

    examples, classes = row["examples"], row["classes"]
    figure = Figure(figsize=(1.15 * (len(classes) + 1), 1.25 * len(examples) + 0.3), layout="constrained")
    axes = figure.subplots(len(examples), len(classes) + 1, squeeze=False)
    for line, example, picture in zip(axes, examples, pictures, strict=True):
        line[0].imshow(picture.squeeze(), cmap="gray")
        maps.bare(line[0])
        values = np.array(example["per_class"])
        limit = maps.colour_limit(values)
        best = int(np.argmax(example["outputs"]))
        for k, ax in enumerate(line[1:]):
            maps.draw_cells(ax, picture, values[k].reshape(row["cells"]), limit)
            weight = "bold" if k == best else "normal"
            ax.set_title(f"{classes[k]}: {values[k].sum():+.1f}", fontsize=7.5, fontweight=weight)
    return figure


# Receptive fields -------------------------------------------------------------------------------------------------


def _receptive_fields(cell: Cell, models: Path, quick: bool) -> Record:
    dataset = cell["dataset"]
    data = image_paper.load(dataset, quick)
    model = image_paper.trained(data, dataset, cell["network"], models, quick).model
    examples = []
    for row in _one_per_class(data.y_test, 1 if quick else 3):
        level, unit = _strongest(model, data.test[[row]], int(data.y_test[row]))
        examples.append({
            "image": data.test[row].tolist(), "label": int(data.y_test[row]), "level": level + 1,
            **family_of_unit(model.network_, level, unit),
        })  # fmt: skip
    sizes = [field.sum(1).double().mean().item() for field in model.network_.receptive_fields()]
    return {"examples": examples, "cells": list(model.network_.cells), "mean_size": sizes}


def _strongest(model: HarsanyiImageClassifier, image: NDArray[Any], label: int) -> tuple[int, int]:
    """The unit of the second block with several children that adds most to the class: its block and number."""
    net = model.network_
    with torch.no_grad():
        units = net.units(image_paper.standardised(model, image))
        added = [
            ((z[0] * readout[label]).sum(1)).abs() for z, readout in zip(units, net.readout_weights(), strict=True)
        ]  # (U,) each
    wide = [field.sum(1) > below for field, below in zip(net.receptive_fields(), (1, 9, 9), strict=False)]
    level = 1 if len(added) > 1 and float(added[1][wide[1]].max()) > 0 else 0
    return level, int(torch.where(wide[level], added[level], -1.0).argmax())


def family_of_unit(net: HarsanyiCNN, level: int, unit: int) -> dict[str, Any]:
    """The field of a unit, and its children with theirs."""
    fields = net.receptive_fields()
    family: dict[str, Any] = {"field": fields[level][unit].tolist(), "children": []}
    groups = net.config["groups"]
    place, group = divmod(unit, groups)
    sizes = [net.cells]
    for step in net.config["strides"]:
        sizes.append((-(-sizes[-1][0] // step), -(-sizes[-1][1] // step)))
    height, width = sizes[level]
    row, column = divmod(place, sizes[level + 1][1])
    stride = net.config["strides"][level]
    mask = net.chosen_children()[level]
    taken = mask[group] if net.config["children"] == "group" else mask[place]
    for k in range(9):
        y, x = stride * row + k // 3 - 1, stride * column + k % 3 - 1
        if bool(taken[k]) and 0 <= y < height and 0 <= x < width:
            below = y * width + x
            if level == 0:
                field = torch.zeros(net.n_players, dtype=torch.bool)
                field[below] = True
            else:
                field = fields[level - 1][below * groups + group]
            family["children"].append({"place": [y, x], "field": field.tolist()})
    return family


def _fields_summary(records: list[Record]) -> dict[str, Any]:
    for example in (example for record in records for example in record["examples"]):
        union = np.any([child["field"] for child in example["children"]], axis=0)
        example["union_of_children"] = bool((union == np.array(example["field"])).all())
    return {"datasets": nested(records, "dataset", "network")}


def _fields_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | network | cells of a receptive field, mean per block | cells in all | drawn units | their fields "
        "are the union of the children's |",
        "| --- " * 6 + "|",
    ]
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            sizes = ", ".join(f"{size:.1f}" for size in row["mean_size"])
            checked = all(example["union_of_children"] for example in row["examples"])
            lines.append(
                f"| {DATASETS[dataset]} | {NETWORKS[network]} | {sizes} | {row['cells'][0] * row['cells'][1]} | "
                f"{len(row['examples'])} | {'yes' if checked else 'NO'} |"
            )
    return "\n".join(lines)


def _draw_fields(result: dict[str, Any]) -> dict[str, Any]:
    from matplotlib.figure import Figure

    figures = {}
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            widest = max(len(example["children"]) for example in row["examples"])
            figure = Figure(figsize=(1.35 * (widest + 2), 1.6 * len(row["examples"]) + 0.2), layout="constrained")
            axes = figure.subplots(len(row["examples"]), widest + 2, squeeze=False)
            for line, example in zip(axes, row["examples"], strict=True):
                picture = np.array(example["image"], dtype=np.uint8)
                for ax in line:
                    ax.set_axis_off()
                line[0].imshow(picture.squeeze(), cmap="gray")
                line[0].set_title("image", fontsize=8)
                field = np.array(example["field"], dtype=float).reshape(row["cells"])
                maps.draw_cells(line[1], picture, field, 1.0)
                line[1].set_title(f"unit of block {example['level']}:\n{int(field.sum())} cells", fontsize=8)
                for ax, child in zip(line[2:], example["children"], strict=False):
                    field = -np.array(child["field"], dtype=float).reshape(row["cells"])
                    maps.draw_cells(ax, picture, field, 1.0)
                    ax.set_title(
                        f"child at {child['place'][0]},{child['place'][1]}:\n{int(-field.sum())} cells", fontsize=8
                    )
            figures[f"_{dataset}_{network}"] = figure
    return figures


# Sparsity ---------------------------------------------------------------------------------------------------------


class _VGG(nn.Module):
    """The thirteen convolutions of VGG-16 with batch normalisation, of reduced width, for small images."""

    def __init__(self, c_in: int, n_outputs: int, width: int = 16, seed: int = 0) -> None:
        super().__init__()
        widths = [[1, 1], [2, 2], [4, 4, 4], [8, 8, 8], [8, 8, 8]]
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            layers: list[nn.Module] = []
            sizes = [c_in, *[width * each for stage in widths for each in stage]]
            ends = np.cumsum([len(stage) for stage in widths]).tolist()
            for level, (below, above) in enumerate(pairwise(sizes), start=1):
                layers += [nn.Conv2d(below, above, 3, padding=1, bias=False), nn.BatchNorm2d(above), nn.ReLU()]
                if level in ends[:4]:
                    layers.append(nn.MaxPool2d(2, ceil_mode=True))
            self.body, self.last = nn.Sequential(*layers), nn.Linear(sizes[-1], n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, K)."""
        out: Tensor = self.last(self.body(x).mean((2, 3)))
        return out


def _sparsity(cell: Cell, models: Path, quick: bool) -> Record:
    data = image_paper.load("mnist", quick)
    seed, width = cell["seed"], 4 if quick else 8
    net: nn.Module = ResNet(1, 10, width, seed, depth=5) if cell["network"] == "ResNet-32" else _VGG(1, 10, width, seed)
    seconds = image_paper.train_plain(net, data, epochs=1, seed=seed, learning_rate=5e-3)
    record: Record = {"accuracy": image_paper.plain_accuracy(net, data), "train_seconds": seconds}
    net = net.double().eval()
    rows = some_rows(len(data.test), 3 if quick else 50)
    x = image_paper.plain_images(data, data.test[rows], torch.float64)
    black = image_paper.plain_images(data, np.zeros_like(data.test[:1]), torch.float64)[0]
    strengths, salient = [], []
    for i, label in enumerate(data.y_test[rows]):
        regions = _regions(data.test[rows[i]], seed=i)  # (8, H, W) bool

        def game(masks: NDArray[np.bool_], i: int = i, label: int = int(label), regions: Any = regions) -> Any:
            hidden = torch.from_numpy((~masks[:, :, None, None] & regions[None]).any(1))[:, None]
            with torch.no_grad():
                return net(torch.where(hidden, black, x[i]))[:, label].numpy()

        dividends = moebius_transform(evaluate(game, len(regions), progress=False))
        strengths.append(strength := sorted_strengths(dividends))
        salient.append(int((strength > 0.05).sum()))
    return record | {
        "curve": np.mean(strengths, axis=0).tolist(),
        "salient": float(np.mean(salient)),
        "images": len(rows),
    }


def _regions(image: NDArray[np.uint8], seed: int, n: int = 8, side: int = 3) -> NDArray[np.bool_]:
    """So many squares of pixels, centred at random where the image is bright, that do not overlap."""
    rng = np.random.default_rng(seed)
    bright = np.argwhere(image.squeeze() > 25)
    regions: list[NDArray[np.bool_]] = []
    taken = np.zeros(image.shape[:2], dtype=bool)
    reach = side // 2
    for reach_now in (reach, 0):  # single pixels where there is no room for more squares
        for y, x in rng.permutation(bright):
            if len(regions) == n:
                break
            one = np.zeros_like(taken)
            one[max(0, y - reach_now) : y + reach_now + 1, max(0, x - reach_now) : x + reach_now + 1] = True
            if not (one & taken).any():
                taken |= one
                regions.append(one)
    return np.stack(regions)


def _sparsity_summary(records: list[Record]) -> dict[str, Any]:
    return {"networks": nested(records, "network")}


def _sparsity_text(result: dict[str, Any]) -> str:
    lines = ["| MNIST, 8 regions | accuracy | sets | above 5 % of the strongest | images |", "| --- " * 5 + "|"]
    for network, row in result["networks"].items():
        lines.append(
            f"| {network}, reduced width, one epoch for want of hours | {row['accuracy']:.2f} | {len(row['curve'])} | "
            f"{row['salient']:.1f} | {row['images']} |"
        )
    return "\n".join(lines)


def _draw_sparsity(result: dict[str, Any]) -> dict[str, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    ax = figure.subplots()
    for (network, row), colour in zip(result["networks"].items(), COLOURS, strict=False):
        ax.plot(np.arange(1, len(row["curve"])), row["curve"][:-1], color=colour, label=network)
    ax.axhline(0.05, color="0.6", ls=":", lw=1, label="5 % of the strongest")
    ax.set(yscale="log", xlabel="sets of regions, strongest first", ylabel="mean |dividend| / strongest", title="MNIST")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend()
    return {"": figure}


_EXPLAINED = (
    ("mnist", "paper"), ("mnist", "default"), ("cifar10", "paper"), ("cifar10", "default"), ("cifar10", "masked"),
)  # fmt: skip

EXPERIMENTS = {
    "image-maps": Experiment(
        "Maps of the true class by every method, all from z0, with their distance to the exact values; and one exact "
        "map per class.",
        lambda quick: [{"dataset": d, "network": n} for d, n in _EXPLAINED],
        _maps,
        _maps_summary,
        _maps_text,
        _draw_maps,
    ),
    "receptive-fields": Experiment(
        "The receptive field of a strong unit (red) and those of its children (blue), whose union it is.",
        lambda quick: [{"dataset": d, "network": n} for d, n in _EXPLAINED],
        _receptive_fields,
        _fields_summary,
        _fields_text,
        _draw_fields,
    ),
    "image-sparsity": Experiment(
        "All 256 Harsanyi dividends of 8 regions of foreground in ordinary networks, hidden regions black, for the "
        "logit of the true class.",
        lambda quick: [{"network": n, "seed": 0} for n in ("ResNet-32", "VGG-16")],
        _sparsity,
        _sparsity_summary,
        _sparsity_text,
        _draw_sparsity,
    ),
}
