"""The paper's image setting: its data and networks, ours beside them, and the sub-games on which errors are measured.

A network is trained once and kept in a file beside its checkpoint, so that every experiment explains the same one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet import files, loading
from harsanyinet.datasets import ImageSplit, load_cifar10, load_mnist
from harsanyinet.games import Game
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.image_estimator import HarsanyiImageClassifier
from harsanyinet.images.pixels import augmented
from harsanyinet.training import TrainingConfig, fit_module

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
PAPER: dict[str, dict[str, tuple[float, float]]] = {  # accuracy in per cent and error
    "mnist": {"harsanyinet": (99.16, 1.19e-7), "shallow_shapnet": (40.18, 3.79e-7), "deep_shapnet": (93.85, 0.891)},
    "cifar10": {"harsanyinet": (89.34, 6.88e-8), "shallow_shapnet": (20.48, 2.41e-7), "deep_shapnet": (73.51, 0.409)},
}

_BLOCK: dict[str, Any] = {"gate": "activation", "stem": "paper", "masked_share": 0.0, "learning_rate": 5e-3}
_BLOCK |= {"tau_rate": 0.01}  # outside the clip, which their steep gradient would otherwise fill
_GROUPS: dict[str, Any] = {
    "channels": [64, 64, 128, 128, 128], "n_blocks": 5, "strides": [1, 1, 2, 1, 1], "groups": 2, "learning_rate": 5e-3,
}  # fmt: skip
_CIFAR: dict[str, Any] = {"flip": True, "crop": 3, "cutout": 6, "label_smoothing": 0.1}
MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "mnist": {
        "default": {**_GROUPS, "crop": 2, "masked_share": 0.15, "epochs": 12},
        "unmasked": {**_GROUPS, "crop": 2, "masked_share": 0.0, "epochs": 4},
        "paper": {**_BLOCK, "channels": 32, "n_blocks": 4, "crop": 2, "epochs": 8},
    },
    "cifar10": {
        "default": {
            **_CIFAR, "channels": [64, 64, 128, 128, 128, 256, 256], "n_blocks": 7, "strides": [1, 1, 2, 1, 1, 2, 1],
            "groups": 1, "masked_share": 0.0, "learning_rate": 3e-3, "epochs": 16,
        },
        "masked": {
            **_CIFAR, "stem": "residual", "channels": [96, 96, 192, 192], "n_blocks": 4, "strides": [1, 2, 1, 1],
            "groups": 2, "masked_share": 0.2, "learning_rate": 5e-3, "epochs": 22, "mixed_precision": True,
        },
        "paper": {**_BLOCK, **_CIFAR, "channels": 64, "n_blocks": 4, "beta": 1000.0, "gamma": 1.0, "epochs": 6},
        "residual": {
            **_BLOCK, **_CIFAR, "stem": "residual", "channels": 64, "n_blocks": 3, "beta": 1000.0, "gamma": 1.0,
            "epochs": 10, "mixed_precision": True,
        },
    },
}  # fmt: skip
"""What is trained here: `HarsanyiImageClassifier` with these arguments."""

FULL_SIZE: dict[str, dict[str, dict[str, Any]]] = {
    dataset: {
        "table": {**_BLOCK, **extra, "channels": 512, "n_blocks": 10, "beta": 1000.0, "gamma": 1.0, **long},
        "maps": {**_BLOCK, **extra, **maps, **long},
    }
    for dataset, extra, maps in (
        ("mnist", {"crop": 2}, {"channels": 32, "n_blocks": 4, "beta": 100.0, "gamma": 0.05}),
        ("cifar10", _CIFAR, {"channels": 256, "n_blocks": 10, "beta": 1000.0, "gamma": 1.0}),
    )
    for long in ({"epochs": 400, "batch_size": 32, "device": "cuda", "mixed_precision": True},)
}
"""The paper's sizes and the epochs of its authors' code, for a GPU:
``HarsanyiImageClassifier(**FULL_SIZE["cifar10"]["table"])``.

Optimiser and augmentation are ours. The authors' code resizes MNIST to 32 x 32 pixels for the table; to pad it to that
size: ``np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))``.
"""


def load(name: str, quick: bool = False) -> ImageSplit:
    """The images; a quick run has 512 training and 128 test images."""
    if name not in DATASETS:
        raise ValueError(f"dataset must be one of {', '.join(DATASETS)}, however: {name!r}")
    data = load_mnist() if name == "mnist" else load_cifar10()
    if not quick:
        return data
    return replace(
        data, train=data.train[:512], y_train=data.y_train[:512], test=data.test[:128], y_test=data.y_test[:128]
    )


class Trained(NamedTuple):
    """A model and what its training cost."""

    model: HarsanyiImageClassifier
    seconds: float
    threads: int
    options: dict[str, Any]


def trained(data: ImageSplit, dataset: str, name: str, models: Path, quick: bool, seed: int = 0) -> Trained:
    """One of `MODELS`, trained once; an interrupted training goes on where it ended."""
    path = models / f"{dataset}_{name}_{seed}.hnet"
    notes = path.with_suffix(".json")
    options = dict(MODELS[dataset][name])
    if quick:
        options.update(epochs=1, channels=8, n_blocks=2, strides=None)
    if not (path.exists() and notes.exists()):
        models.mkdir(parents=True, exist_ok=True)
        model = HarsanyiImageClassifier(**options, random_state=seed, checkpoint=path.with_suffix(".checkpoint"))
        model.fit(data.train, data.y_train)
        model.checkpoint = None
        model.save(path)
        known = {"seconds": round(model.history_.seconds, 1), "options": options, "threads": torch.get_num_threads()}
        files.write_beside(notes, json.dumps(known).encode())
        path.with_suffix(".checkpoint").unlink(missing_ok=True)
    known = json.loads(notes.read_text())
    if known["options"] != options:
        raise ValueError(
            f"{path} must have been trained with today's options, {options}, however: {known['options']}; delete it"
        )
    kept: HarsanyiImageClassifier = loading.load(path)
    return Trained(kept, known["seconds"], known["threads"], options)


def accuracy(model: HarsanyiImageClassifier, data: ImageSplit, hidden: float = 0.0, block: int = 1) -> float:
    """On the test images, in per cent; with a share of the cells hidden at random, one by one or in squares."""
    present = None
    if hidden:
        height, width = (-(-side // block) for side in model.cells_)
        squares = np.random.default_rng(0).random((len(data.test), height * width)) >= hidden
        whole = squares.reshape(-1, height, width).repeat(block, 1).repeat(block, 2)
        present = whole[:, : model.cells_[0], : model.cells_[1]].reshape(len(whole), -1)
    return 100 * float((model.predict(data.test, present=present) == data.y_test).mean())


def shares_by_size(spectrum: Sequence[float]) -> tuple[float, float]:
    """Of an order spectrum (P + 1,), the share of single cells and that of sets of more than half of the cells.

    Examples:
        >>> shares_by_size([0.0, 0.5, 0.25, 0.125, 0.125])
        (0.5, 0.25)
    """
    return float(spectrum[1]), float(sum(spectrum[len(spectrum) // 2 + 1 :]))


def standardised(model: HarsanyiImageClassifier, images: NDArray[Any]) -> Tensor:
    """Images (N, H, W) or (N, H, W, C) of whole numbers as the network takes them."""
    dtype = model.network_.base.dtype
    mean, scale = (torch.tensor(each, dtype=dtype)[:, None, None] for each in (model.mean_, model.scale_))
    pixels = images.reshape(*images.shape[:3], -1).transpose(0, 3, 1, 2)
    return (torch.from_numpy(np.ascontiguousarray(pixels)).to(dtype) / 255 - mean) / scale


def strength_of_cells(net: HarsanyiCNN, x: Tensor) -> NDArray[Any]:
    """The sum of absolute channels of z0, (B, P)."""
    with torch.no_grad():
        return np.asarray(net.stem(x).abs().sum(1).flatten(1).double().numpy())


def image_game(net: nn.Module, image: Tensor) -> Game:
    """The game of one image (C, H, W) of a network that takes `present`."""

    def play(masks: NDArray[np.bool_]) -> NDArray[Any]:
        with torch.no_grad():
            parts = [
                net(image.expand(len(some), *image.shape), present=some)
                for some in torch.split(torch.from_numpy(masks), 256)
            ]
        return np.asarray(torch.cat(parts).numpy())

    return play


class PlainCNN(nn.Module):
    """The comparable plain network: the same stem, convolutions, normalisation, residuals and readouts, no gate.

    Args:
        net: The network to compare with.
    """

    def __init__(self, net: HarsanyiCNN) -> None:
        super().__init__()
        self.stem = copy.deepcopy(net.stem)
        groups, self.residual = net.config["groups"], [bool(block.residual) for block in net.blocks]
        widths = net.config["channels"]
        widths = [widths] * net.config["n_blocks"] if isinstance(widths, int) else widths
        with torch.no_grad():
            below = copy.deepcopy(net.stem).eval()(net.base.new_zeros(1, net.in_channels, *net.image_size)).shape[1]
        self.convolutions, self.norms = nn.ModuleList(), nn.ModuleList()
        for level, (width, stride) in enumerate(zip(widths, net.config["strides"], strict=True)):
            options = {"stride": stride, "padding": 1, "bias": False, "groups": 1 if level == 0 else groups}
            self.convolutions.append(nn.Conv2d(below, width, 3, **options))
            self.norms.append(nn.Identity() if net.gate == "activation" else nn.BatchNorm2d(width))
            below = width
        self.readout_in = copy.deepcopy(net.readout_in)
        self.readout_out = copy.deepcopy(net.readout_out)

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """(B, C, H, W) -> (B, K)."""
        z = self.stem(x).contiguous(memory_format=torch.channels_last)
        inner = z.new_zeros(())
        for level, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            out, weight = F.relu(norm(convolution(z))), self.readout_in[level]
            z = out + z if self.residual[level] else out
            inner = inner + z.permute(0, 2, 3, 1).flatten(1) @ weight.T / z[0, 0].numel() ** 0.5
        total: Tensor = inner if self.readout_out is None else inner @ self.readout_out.T
        return total


def train_plain(
    net: nn.Module, data: ImageSplit, *, epochs: int, seed: int, learning_rate: float = 2e-3, dataset: str | None = None
) -> float:
    """Any classifier of standardised images (B, C, H, W), by AdamW with one cycle; returns the seconds.

    With the name of a dataset, augmented and smoothed as our own network on it.
    """
    options = MODELS[dataset]["default"] if dataset else {}
    black = plain_images(data, np.zeros_like(data.test[:1]))[0, :, :1, :1]
    x = plain_images(data, data.train)
    config = TrainingConfig(
        epochs=epochs, batch_size=64, learning_rate=learning_rate, schedule="onecycle", weight_decay=0.05, clip_norm=1.0
    )

    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(outputs, y, reduction="none", label_smoothing=options.get("label_smoothing", 0.0))

    def augment(x: Tensor, generator: torch.Generator) -> Tensor:
        changes = {name: options.get(name, 0) for name in ("flip", "crop", "cutout")}
        return augmented(x - black, generator, **changes) + black  # what comes in is black, as in our own

    history = fit_module(
        net, x, torch.from_numpy(data.y_train.astype(np.int64)), loss=loss, config=config, seed=seed,
        augment=augment if options else None,
    )  # fmt: skip
    return history.seconds


def plain_images(data: ImageSplit, images: NDArray[np.uint8], dtype: torch.dtype = torch.float32) -> Tensor:
    """(N, C, H, W), standardised by the training images of each channel."""
    mean, scale = channel_scale(data)
    x = images.reshape(*images.shape[:3], -1).transpose(0, 3, 1, 2) / 255
    return torch.from_numpy(np.ascontiguousarray((x - mean) / scale)).to(dtype)


def channel_scale(data: ImageSplit) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each channel of the training images, (C, 1, 1)."""
    flat = data.train[:5000].reshape(-1, *data.train.shape[3:] or (1,)).astype(np.float64) / 255
    return flat.mean(0)[:, None, None], flat.std(0)[:, None, None]


def plain_accuracy(net: nn.Module, data: ImageSplit) -> float:
    """On the test images, in per cent."""
    net.eval()
    with torch.no_grad():
        parts = [net(rows).argmax(1) for rows in torch.split(plain_images(data, data.test), 256)]
    return 100 * float((torch.cat(parts).numpy() == data.y_test).mean())
