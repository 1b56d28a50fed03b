"""The file from which an interrupted training goes on, and whether it belongs to this training. Runs no code of it."""

from __future__ import annotations

import io
import pickle
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from harsanyinet.files import write_beside
from harsanyinet.training.config import TrainingConfig
from harsanyinet.training.rows import Batch


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """In one go: the file is either the old one or the new one."""
    content = io.BytesIO()
    torch.save(state, content)
    write_beside(path, content.getvalue())


def read_checkpoint(path: Path, mark: str) -> dict[str, Any]:
    """What `write_checkpoint` wrote, if it belongs to this training. Runs no code from it."""
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


_LATER = {"min_learning_rate": 0.0}  # came after the first checkpoints, which lack it and go on all the same


def mark_of(config: TrainingConfig, seed: int, rows: Batch, module: nn.Module, about: str) -> str:
    """What a checkpoint belongs to: settings, data and the shapes of the weights, the latter two as check sums."""
    data = 0
    for tensor in (rows.x, rows.y, rows.weight):
        data = zlib.crc32(tensor.detach().cpu().contiguous().numpy().data, data)
    weights = [(name, tuple(v.shape)) for name, v in _under_former_names(module)]
    shapes = zlib.crc32(repr(weights).encode())
    shown = {name: value for name, value in asdict(config).items() if _LATER.get(name, ...) != value}
    settings = f"TrainingConfig({', '.join(f'{name}={value!r}' for name, value in shown.items())})"
    if about:
        settings += f", {about}"
    return (
        f"{settings}, seed={seed}, {len(rows.x)} rows, check sums {data:08x} of the data and {shapes:08x} of the shapes"
    )


def _under_former_names(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The weights, called as they were when the first checkpoints were written.

    A module names those that were called otherwise in an attribute ``former_names``, and reads both names.
    """
    renamed = {
        f"{prefix}{'.' if prefix else ''}{today}": f"{prefix}{'.' if prefix else ''}{former}"
        for prefix, part in module.named_modules()
        for today, former in getattr(part, "former_names", {}).items()
    }
    for name, tensor in module.state_dict().items():
        today = next((key for key in renamed if name == key or name.startswith(f"{key}.")), None)
        yield (name if today is None else renamed[today] + name[len(today) :]), tensor
