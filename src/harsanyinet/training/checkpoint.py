"""The file from which an interrupted training goes on, and whether it belongs to this training. Runs no code of it."""

from __future__ import annotations

import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from harsanyinet.files import placed
from harsanyinet.training.config import TrainingConfig
from harsanyinet.training.rows import Batch


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """In one go: the file is either the old one or the new one."""
    with placed(path) as beside:
        torch.save(state, beside)


def read_checkpoint(path: Path, mark: str) -> dict[str, Any]:
    """What `write_checkpoint` wrote, if it belongs to this training."""
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
        its_mark = state["mark"]
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"checkpoint must be one that this training wrote, however: {path} is not; delete it"
        ) from error
    if its_mark != mark:
        raise ValueError(
            f"checkpoint must belong to this training ({mark}), however: {path} belongs to another ({its_mark}); "
            "delete it"
        )
    return state


def mark_of(config: TrainingConfig, seed: int, rows: Batch, module: nn.Module, about: str) -> str:
    """What a checkpoint belongs to: settings, data and the shapes of the weights, the latter two as check sums."""
    data = 0
    for tensor in (rows.x, rows.y, rows.weight):
        data = zlib.crc32(tensor.detach().cpu().contiguous().numpy().data, data)
    shapes = zlib.crc32(repr([(name, tuple(v.shape)) for name, v in module.state_dict().items()]).encode())
    settings = f"{config}, {about}" if about else f"{config}"
    return (
        f"{settings}, seed={seed}, {len(rows.x)} rows, check sums {data:08x} of the data and {shapes:08x} of the shapes"
    )
