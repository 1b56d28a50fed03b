"""FastSHAP on images: its explainer, how it is trained on one of our networks, and what is said of the training."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from harsanyinet.peers import FastSHAP
from harsanyinet_experiments import image_paper

MOST_EPOCHS = 60


class _UNet(nn.Module):
    """FastSHAP's explainer: images -> one map per class of half their size; two levels down, one up."""

    def __init__(self, c_in: int, n_outputs: int, base: int = 24, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.fine, self.middle = _convolutions(c_in, base), _convolutions(base, 2 * base)
            self.coarse, self.up = _convolutions(2 * base, 2 * base), _convolutions(4 * base, 2 * base)
            self.last = nn.Conv2d(2 * base, n_outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, K, H / 2, W / 2)."""
        middle = self.middle(nn.functional.max_pool2d(self.fine(x), 2))
        coarse = self.coarse(nn.functional.max_pool2d(middle, 2))
        wide = nn.functional.interpolate(coarse, size=middle.shape[2:], mode="bilinear", align_corners=False)
        out: Tensor = self.last(self.up(torch.cat([middle, wide], 1)))
        return out


def _convolutions(c_in: int, c_out: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for below in (c_in, c_out):
        layers += [nn.Conv2d(below, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU()]
    return nn.Sequential(*layers)


@lru_cache(maxsize=1)
def fast_shap_of(dataset: str, network: str, models: Path, quick: bool) -> FastSHAP:
    """FastSHAP of one of our networks, trained on 10,000 images until it stops improving, or for `MOST_EPOCHS`."""
    data = image_paper.load(dataset, quick)
    model = image_paper.trained(data, dataset, network, models, quick).model
    net = model.network_
    return FastSHAP(
        net, net.n_players, net.n_outputs, explainer=_UNet(net.in_channels, net.n_outputs), coalitions=4,
        learning_rate=1e-3, batch_size=64, epochs=1 if quick else MOST_EPOCHS, patience=3, validation_coalitions=16,
        seed=0,
    ).fit(image_paper.standardised(model, data.train[: 128 if quick else 10_000]))  # fmt: skip


def fast_epochs(row: dict[str, Any]) -> str:
    """How long FastSHAP was trained, and whether its validation error had stopped falling."""
    epochs = row["fast_shap_epochs"]
    return str(epochs) if row["fast_shap_converged"] else f"{epochs}, not converged"
