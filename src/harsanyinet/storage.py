"""Model files: one file with the arrays and the settings. No pickle; loading runs no code from it.

The container and its format version are those of `files`: a version reads every file of its own or an older format,
and turns a newer one away with a sentence. What a file does not need is not imported: a table's model needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from harsanyinet import files

if TYPE_CHECKING:
    from torch import nn

Arrays = Mapping[str, NDArray[Any]]

KINDS = {  # what a file may hold -> where its class is
    "HarsanyiClassifier": "harsanyinet.tables.estimators",
    "HarsanyiRegressor": "harsanyinet.tables.estimators",
    "HarsanyiMLP": "harsanyinet.mlp",
    "HarsanyiCNN": "harsanyinet.image",
    "HarsanyiImageClassifier": "harsanyinet.image_estimator",
}


def save(model: Any, path: str | PathLike[str]) -> None:
    """Writes a network or a fitted estimator to one file, beside an old one and then in its place."""
    kind = type(model).__name__
    if type(model).__module__ != KINDS.get(kind):
        raise TypeError(f"model must be one of {', '.join(KINDS)}, however: {kind}")
    if hasattr(model, "to_arrays"):
        model.save(path)
    elif kind == "HarsanyiImageClassifier":
        files.save_arrays(path, kind, *_of_image_classifier(model))
    else:
        files.save_arrays(path, kind, *_of_network(model))


def load(path: str | PathLike[str]) -> Any:
    """Reads what `save` wrote: a network, in evaluation mode and on the CPU, or a fitted estimator.

    Raises:
        harsanyinet.files.ModelFileError: If the file is damaged, foreign or newer than this version.
    """
    kind, arrays, meta = files.load_any(path, "model", tuple(KINDS))
    found: Any = getattr(import_module(KINDS[kind]), kind)
    try:
        if hasattr(found, "from_arrays"):
            return found.from_arrays(arrays, meta)
        return _image_classifier(found, arrays, meta) if "network" in meta else _network(found, arrays, meta)
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError, IndexError) as error:
        raise files.ModelFileError(
            f"cannot load a model from {path}: its settings do not fit its weights; save it again with this version"
        ) from error


def _state(module: nn.Module) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}


def _of_network(net: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    if "stem" in net.config and net.config["stem"] is None:
        raise TypeError(
            "a network with a stem of your own cannot be saved, since a file holds no code, however: its stem is a "
            f"{type(net.stem).__name__}; save net.state_dict() instead, or use stem='paper', 'patch', 'deep' or 'map'"
        )
    return _state(net), {"config": net.config, "dtype": str(net.base.dtype).split(".")[-1]}


def _network(kind: Any, arrays: Arrays, meta: dict[str, Any]) -> Any:
    import torch

    net = kind(**meta["config"]).to(getattr(torch, meta["dtype"]))
    net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return net.eval()


def _of_image_classifier(model: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    arrays, network = _of_network(model._fitted().network_)
    return arrays, {
        "params": {name: files.plain(value) for name, value in model.get_params(deep=False).items()},
        "network": network, "classes": files.plain_labels(model.classes_), "mean": model.mean_,
        "scale": model.scale_, "image_shape": list(model.image_shape_),
    }  # fmt: skip


def _image_classifier(kind: Any, arrays: Arrays, meta: dict[str, Any]) -> Any:
    from harsanyinet.image import HarsanyiCNN

    model = kind(**meta["params"])
    model.classes_ = files.labels(meta["classes"])
    model.mean_, model.scale_, model.image_shape_ = meta["mean"], meta["scale"], tuple(meta["image_shape"])
    model._finish(_network(HarsanyiCNN, arrays, meta["network"]))
    return model
