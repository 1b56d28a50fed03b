"""The paper's test of robustness: how far an attack on images moves the values, and the networks beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet import files
from harsanyinet.datasets import ImageSplit
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.peers import curve
from harsanyinet_experiments import image_paper
from harsanyinet_experiments.experiment import Experiment, nested
from harsanyinet_experiments.image_paper import image_game
from harsanyinet_experiments.runner import Cell, Record

PAPER_ROBUSTNESS = {"harsanyinet": (13.83, 1.44), "resnet": (8.21, 1.50)}
EPSILON = 8 / 255
ROBUSTNESS_ORDERS = 100
ROBUSTNESS_IMAGES = 8
RESNET_EPOCHS = 6
OURS = {
    "harsanyinet": ("default", "HarsanyiCNN, presence gate", 2000),
    "masked": ("masked", "HarsanyiCNN, presence gate, trained with masks", 10_000),
    "residual": ("residual", "HarsanyiCNN, the paper's block on a residual stem", 10_000),
}
"""Name of the network, words, and images whose accuracy is measured."""


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


def _fgsm(call: Any, x: Tensor, y: Tensor, scale: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Each pixel moved by 8/255 along the sign of the loss's gradient, within the range of pixels."""
    x = x.clone().requires_grad_()
    torch.autograd.backward(F.cross_entropy(call(x), y))
    assert x.grad is not None
    moved: Tensor = x.detach() + EPSILON / scale * x.grad.sign()
    return torch.minimum(torch.maximum(moved, low), high)


def _robustness(cell: Cell, models: Path, quick: bool) -> Record:
    data = image_paper.load("cifar10", quick)
    ours = cell["network"] in OURS
    kind, _, n_accuracy = OURS.get(cell["network"], ("", "", 2000))
    n_accuracy, n_values = (64, 2) if quick else (n_accuracy, 200 if ours else ROBUSTNESS_IMAGES)
    y = torch.from_numpy(data.y_test[:n_accuracy].astype(np.int64))
    record: Record = {}
    net: Any
    if ours:
        model = image_paper.trained(data, "cifar10", kind, models, quick).model
        net = model.network_
        mean, scale = (torch.tensor(v)[:, None, None] for v in (model.mean_, model.scale_))
        x = image_paper.standardised(model, data.test[:n_accuracy])
    else:
        net = _resnet(data, models, quick)
        record["epochs"] = 1 if quick else RESNET_EPOCHS
        mean, scale = (torch.from_numpy(v).float() for v in image_paper.channel_scale(data))
        x = image_paper.plain_images(data, data.test[:n_accuracy])
    net.eval()
    pieces = zip(torch.split(x, 250), torch.split(y, 250), strict=True)
    attacked = torch.cat([_fgsm(net, a, b, scale, (0 - mean) / scale, (1 - mean) / scale) for a, b in pieces])
    with torch.no_grad():
        for name, images in (("accuracy", x), ("accuracy_attacked", attacked)):
            right = torch.cat([net(some).argmax(1) for some in torch.split(images, 250)]) == y
            record[name] = 100 * float(right.double().mean())
    both = torch.stack([x[:n_values], attacked[:n_values]])
    moved = _exact_change(net, both, y) if ours else _sampled_change(net, both, y, 4 if quick else ROBUSTNESS_ORDERS)
    return record | moved | {"images": n_values, "images_attacked": n_accuracy}


def _exact_change(net: HarsanyiCNN, both: Tensor, labels: Tensor) -> Record:
    """How far exact values move from natural to attacked images (2, N, C, H, W), of all and of the first few."""
    natural, adversarial = (net.explain(images).values.astype(np.float64) for images in both)
    changes = [float(np.linalg.norm((a - b)[:, k])) for a, b, k in zip(natural, adversarial, labels, strict=False)]
    sizes = [float(np.linalg.norm(a[:, k])) for a, k in zip(natural, labels, strict=False)]
    return {
        "l2_change_of_the_first": float(np.mean(changes[:ROBUSTNESS_IMAGES])),
        "l2_values_of_the_first": float(np.mean(sizes[:ROBUSTNESS_IMAGES])),
        "l2_change": float(np.mean(changes)), "l2_noise": 0.0, "l2_values": float(np.mean(sizes)),
    }  # fmt: skip


def _sampled_change(net: nn.Module, both: Tensor, labels: Tensor, orders: int) -> Record:
    """The same for sampled values of patches of 2 x 2 pixels."""
    n = (both.shape[3] // 2) * (both.shape[4] // 2)
    budget = 2 + orders * (n - 1)
    changes, noise, sizes = [], [], []
    for i in range(both.shape[1]):
        before, after = (_patches(net, image, int(labels[i])) for image in both[:, i])

        def difference(masks: NDArray[np.bool_], before: Any = before, after: Any = after) -> Any:
            return before(masks) - after(masks)

        moved, of_noise = _sampled_norm(difference, n, budget, seed=i)
        changes.append(moved)
        noise.append(of_noise)
        sizes.append(_sampled_norm(before, n, budget, seed=i)[0])
    return {
        "l2_change": float(np.mean(changes)), "l2_noise": float(np.mean(noise)), "l2_values": float(np.mean(sizes)),
    }  # fmt: skip


def _sampled_norm(game: Any, n: int, budget: int, seed: int) -> tuple[float, float]:
    """The l2 norm of sampled values without the noise of sampling, which adds in squares; and that noise."""
    estimate = curve("antithetic", game, n, [budget], seed=seed)[0]
    noise = float((np.asarray(estimate.standard_error) ** 2).sum())
    return max(float((estimate.values**2).sum()) - noise, 0.0) ** 0.5, noise**0.5


def _patches(net: nn.Module, image: Tensor, label: int) -> Any:
    play = image_game(net, image)
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


def _robustness_summary(records: list[Record]) -> dict[str, Any]:
    return {"paper": PAPER_ROBUSTNESS, "networks": nested(records, "network")}


def _robustness_text(result: dict[str, Any]) -> str:
    lines = [
        "| CIFAR-10, FGSM 8/255 | accuracy | attacked, paper | attacked, ours | images | l2 change of values, paper | "
        "ours | images | sampling noise, taken out | l2 norm of the values | change / norm |",
        "| --- " * 11 + "|",
    ]
    networks, paper = result["networks"], result["paper"]
    rows = [(f"{words}, exact values", networks[name]) for name, (_, words, _) in OURS.items() if name in networks]
    published = [paper["harsanyinet"]] * (len(rows) + 1) + [paper["resnet"]]
    sampled = networks["resnet"]
    exact = networks["harsanyinet"]
    first = {name: exact[f"{name}_of_the_first"] for name in ("l2_change", "l2_values")} | {"images": sampled["images"]}
    rows.append(("the first of these, the images of the ResNet's values", exact | first))
    rows.append(
        (f"ResNet-18, a quarter of the width and {sampled['epochs']} epochs for want of hours, sampled values", sampled)
    )
    for (name, row), (attacked, change) in zip(rows, published, strict=True):
        lines.append(
            f"| {name} | {row['accuracy']:.2f} | {attacked:.2f} | {row['accuracy_attacked']:.2f} | "
            f"{row.get('images_attacked', 2000):,} | {change:.2f} | {row['l2_change']:.2f} | {row['images']} | "
            f"{row['l2_noise']:.2f} | {row['l2_values']:.2f} | {row['l2_change'] / row['l2_values']:.2f} |"
        )
    return "\n".join(lines)


EXPERIMENTS = {
    "robustness": Experiment(
        "Attacked by FGSM at 8/255: accuracy on test images and how far the values of the true class move.",
        lambda quick: [{"network": n} for n in (*OURS, "resnet")],
        _robustness,
        _robustness_summary,
        _robustness_text,
    ),
}
