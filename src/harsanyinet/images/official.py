"""Checkpoints of the code that the paper's authors released, as networks of ours. Reads tensors only, runs no code."""

from __future__ import annotations

import math
from os import PathLike
from pickle import UnpicklingError
from typing import Any
from zipfile import BadZipFile

import torch
from torch import Tensor

from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import inside
from harsanyinet.networks.mlp import HarsanyiMLP

MLP: dict[str, Any] = {"soft_and": "product", "initial_children": 0.1, "beta": 10.0, "gamma": 100.0}
CNN: dict[str, Any] = {
    "soft_and": "geometric", "gate_floor": 1e-3, "tau_gradient": "code", "beta": 1000.0, "gamma": 1.0,
}  # fmt: skip


def load_official(
    path: str | PathLike[str], *, dtype: torch.dtype | None = None, **settings: Any
) -> HarsanyiMLP | HarsanyiCNN:
    """A network from a state dict of the authors' code, in evaluation mode: `HarsanyiMLP` or `HarsanyiCNN` by its keys.

    Such a file holds weights and child logits, no settings. Those of the authors' code are assumed: for tables the
    plain product in the gate and gamma 100, for images the root of it, zero up to 1e-3, and gamma 1 (their networks of
    table 1; the maps of MNIST have 0.05).

    A convolutional unit with a child outside the image is always zero there, and gets no children here.

    Args:
        path: What the authors' code saved with `torch.save(model.state_dict(), path)`; read with `weights_only`.
        dtype: Of the network; that of the file if left out. float64 keeps the file's numbers exactly.
        settings: Others than the above, by the names that the network has for them (`gamma`, `beta`, `soft_and`, ...).

    Raises:
        ValueError: If the file is no such state dict.

    Examples:
        >>> import tempfile
        >>> part = {"HarsanyiBlocks.0.v": (4, 3), "HarsanyiBlocks.0.fc": (4, 3), "fc.0": (2, 4)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save({f"{name}.weight": torch.ones(shape) for name, shape in part.items()}, f"{folder}/net.pth")
        ...     load_official(f"{folder}/net.pth").eval()(torch.ones(1, 3)).tolist()
        [[12.0, 12.0]]
    """
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, KeyError, TypeError, ValueError, UnpicklingError, BadZipFile) as error:
        raise ValueError(f"path must be a state dict of tensors, however: {path} is not") from error
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) and isinstance(k, str) for k, v in state.items()):
        raise ValueError(f"path must be a state dict of tensors, however: {path} holds a {type(state).__name__}")
    left = {name.removeprefix("module."): tensor for name, tensor in state.items()}  # as DataParallel names them
    if dtype is not None:
        left = {name: tensor.to(dtype) for name, tensor in left.items()}
    kind = _cnn if "conv1.weight" in left else _mlp
    try:
        net = kind(left, settings)
    except (KeyError, RuntimeError, IndexError) as error:
        raise ValueError(
            f"path must be a checkpoint of the authors' code, however: {path} lacks or misfits {error}"
        ) from error
    if left:
        raise ValueError(f"path must be a checkpoint of the authors' code, however: {path} also has {', '.join(left)}")
    return net.eval()


def _mlp(left: dict[str, Tensor], settings: dict[str, Any]) -> HarsanyiMLP:
    """Takes what it uses out of `left`."""
    tau, weight, readout = _blocks(left, "fc")
    options = {**MLP, "n_blocks": len(tau), "width": len(tau[0]), "dtype": tau[0].dtype, **settings}
    net = HarsanyiMLP(tau[0].shape[1], len(readout[0]), **options)
    with torch.no_grad():
        for level, block in enumerate(net.blocks):
            _fill(block.tau, tau[level])
            _fill(block.weight, weight[level])
            _fill(net.readouts[level], readout[level][:, :, None])
    return net


def _cnn(left: dict[str, Tensor], settings: dict[str, Any]) -> HarsanyiCNN:
    """Takes what it uses out of `left`. Their maps have channels first, ours channels last."""
    tau, weight, readout = _blocks(left, "conv")
    stem, last = left.pop("conv1.weight"), left.pop("fc_final.weight")
    channels, in_channels = stem.shape[:2]
    h, w = (length // 3 for length in tau[0].shape)
    options = {**CNN, "n_blocks": len(tau), "channels": channels, "rank": last.shape[1], "stem": "paper", **settings}
    net = HarsanyiCNN(in_channels, (2 * h, 2 * w), len(last), **options).to(stem.dtype)
    assert net.readout_out is not None
    with torch.no_grad():
        convolution: Any = net.stem[0]  # type: ignore[index]
        _fill(convolution.weight, stem)
        convolution.bias.zero_()
        for level, block in enumerate(net.blocks):
            chosen = tau[level].view(h, 3, w, 3).permute(0, 2, 1, 3).reshape(h, w, 9)
            killed = ((chosen > 0) & ~inside(h, w)).any(2, keepdim=True)
            _fill(block.tau, torch.where(killed, -chosen.abs(), chosen))
            _fill(block.weight, weight[level].permute(0, 2, 3, 1).flatten(1))
            _fill(net.readout_in[level], readout[level].view(-1, channels, h * w).transpose(1, 2).flatten(1))
        _fill(net.readout_out, last * math.sqrt(h * w))  # ours are divided by the root of the number of places
    return net


def _blocks(left: dict[str, Tensor], layer: str) -> list[list[Tensor]]:
    """Child logits, weights and readouts of all blocks, of which there is one at least."""
    n_blocks = max(1, sum(name.startswith("HarsanyiBlocks.") and name.endswith(".v.weight") for name in left))
    names = ("HarsanyiBlocks.{}.v.weight", f"HarsanyiBlocks.{{}}.{layer}.weight", "fc.{}.weight")
    return [[left.pop(name.format(level)) for level in range(n_blocks)] for name in names]


def _fill(parameter: Any, values: Tensor) -> None:
    if parameter.shape != values.shape:
        raise RuntimeError(f"a tensor of shape {tuple(values.shape)}, not {tuple(parameter.shape)}")
    parameter.copy_(values)
