"""Model files: one file with the weights and the constructor's settings. No pickle; loading runs no code from it."""

from __future__ import annotations

from os import PathLike

import torch

from harsanyinet import files
from harsanyinet.mlp import HarsanyiMLP

KIND = "HarsanyiMLP"


def save(net: HarsanyiMLP, path: str | PathLike[str]) -> None:
    """Writes a network to one file, beside an old one and then in its place."""
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in net.state_dict().items()}
    files.save_arrays(path, KIND, arrays, {"config": net.config, "dtype": str(net.baseline.dtype).split(".")[-1]})


def load(path: str | PathLike[str]) -> HarsanyiMLP:
    """Reads what `save` wrote, in evaluation mode and on the CPU.

    Raises:
        harsanyinet.files.ModelFileError: If the file is damaged, foreign or newer than this version.
    """
    arrays, meta = files.load_arrays(path, KIND)
    try:
        net = HarsanyiMLP(**meta["config"]).to(getattr(torch, meta["dtype"]))
        net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise files.ModelFileError(
            f"cannot load a model from {path}: its settings do not fit its weights; save it again with this version"
        ) from error
    return net.eval()
