"""Model files: one file with the arrays and the settings. No pickle; loading runs no code from it.

The container and its format version are those of `files`: a version reads every file of its own or an older format,
and turns a newer one away with a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harsanyinet import files
from harsanyinet.encoders import TableEncoder
from harsanyinet.estimators import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.image import HarsanyiCNN
from harsanyinet.image_estimator import HarsanyiImageClassifier
from harsanyinet.mlp import HarsanyiMLP
from harsanyinet.planning import Problem
from harsanyinet.tabular import TableNet

Arrays = Mapping[str, NDArray[Any]]
Model = HarsanyiMLP | HarsanyiCNN | HarsanyiClassifier | HarsanyiRegressor | HarsanyiImageClassifier
_ESTIMATORS = {"HarsanyiClassifier": HarsanyiClassifier, "HarsanyiRegressor": HarsanyiRegressor}


def save(model: Model, path: str | PathLike[str]) -> None:
    """Writes a network or a fitted estimator to one file, beside an old one and then in its place."""
    if isinstance(model, HarsanyiMLP | HarsanyiCNN):
        files.save_arrays(path, type(model).__name__, *_of_network(model))
    elif isinstance(model, HarsanyiImageClassifier):
        files.save_arrays(path, "HarsanyiImageClassifier", *_of_image_classifier(model))
    elif type(model) in _ESTIMATORS.values():
        files.save_arrays(path, type(model).__name__, *_of_estimator(model))
    else:
        known = ", ".join(["HarsanyiMLP", "HarsanyiCNN", *_ESTIMATORS, "HarsanyiImageClassifier"])
        raise TypeError(f"model must be one of {known}, however: {type(model).__name__}")


def load(path: str | PathLike[str]) -> Any:
    """Reads what `save` wrote: a network, in evaluation mode and on the CPU, or a fitted estimator.

    Raises:
        harsanyinet.files.ModelFileError: If the file is damaged, foreign or newer than this version.
    """
    kinds: dict[str, Callable[[Arrays, dict[str, Any]], Any]] = {
        "HarsanyiMLP": partial(_network, HarsanyiMLP),
        "HarsanyiCNN": partial(_network, HarsanyiCNN),
        "HarsanyiImageClassifier": _image_classifier,
        **{name: partial(_estimator, kind) for name, kind in _ESTIMATORS.items()},
    }
    kind, arrays, meta = files.load_any(path, "model", tuple(kinds))
    try:
        return kinds[kind](arrays, meta)
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError, IndexError) as error:
        raise files.ModelFileError(
            f"cannot load a model from {path}: its settings do not fit its weights; save it again with this version"
        ) from error


def _state(module: torch.nn.Module) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}


def _of_network(net: HarsanyiMLP | HarsanyiCNN) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    if isinstance(net, HarsanyiCNN) and net.config["stem"] is None:
        raise TypeError(
            "a network with a stem of your own cannot be saved, since a file holds no code, however: its stem is a "
            f"{type(net.stem).__name__}; save net.state_dict() instead, or use stem='paper', 'patch', 'deep' or 'map'"
        )
    return _state(net), {"config": net.config, "dtype": str(net.base.dtype).split(".")[-1]}


def _network(kind: Any, arrays: Arrays, meta: dict[str, Any]) -> Any:
    net = kind(**meta["config"]).to(getattr(torch, meta["dtype"]))
    net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return net.eval()


def _of_image_classifier(model: HarsanyiImageClassifier) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    arrays, network = _of_network(model._fitted().network_)
    return arrays, {
        "params": {name: _plain(value) for name, value in model.get_params(deep=False).items()}, "network": network,
        "classes": _labels(model.classes_), "mean": model.mean_, "scale": model.scale_,
        "image_shape": list(model.image_shape_),
    }  # fmt: skip


def _image_classifier(arrays: Arrays, meta: dict[str, Any]) -> HarsanyiImageClassifier:
    model = HarsanyiImageClassifier(**meta["params"])
    model.classes_ = np.array(meta["classes"]["labels"], dtype=meta["classes"]["dtype"])
    model.mean_, model.scale_, model.image_shape_ = meta["mean"], meta["scale"], tuple(meta["image_shape"])
    model._finish(_network(HarsanyiCNN, arrays, meta["network"]))
    return model


def _labels(classes: NDArray[Any]) -> dict[str, Any]:
    named = {"U": "str", "O": "object", "T": "object"}.get(classes.dtype.kind, classes.dtype.name)
    return {"dtype": named, "labels": classes.tolist()}


def _of_estimator(model: HarsanyiClassifier | HarsanyiRegressor) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    arrays = {f"network.{name}": array for name, array in _state(model.network_).items()}
    arrays |= model.encoder_.arrays() | {"feature_importances": model.feature_importances_}
    meta: dict[str, Any] = {
        "params": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "problem": vars(model.problem_),
        "network": model.network_.config,
        "dtype": str(model.network_.bases.dtype).split(".")[-1],
        "columns": model.encoder_.settings(),
        "named": hasattr(model, "feature_names_in_"),
    }
    if isinstance(model, HarsanyiClassifier):
        meta["classes"] = _labels(model.classes_)
    else:
        meta["one_target"] = model.one_target_
    return arrays, meta


def _estimator(kind: Any, arrays: Arrays, meta: dict[str, Any]) -> HarsanyiClassifier | HarsanyiRegressor:
    params = {name: dict(v["pairs"]) if isinstance(v, dict) else v for name, v in meta["params"].items()}
    model: HarsanyiClassifier | HarsanyiRegressor = kind(**params)
    model.encoder_ = TableEncoder.restore(meta["columns"], arrays)
    net = TableNet(**meta["network"]).to(getattr(torch, meta["dtype"]))
    weights = {n.removeprefix("network."): torch.from_numpy(a) for n, a in arrays.items() if n.startswith("network.")}
    net.load_state_dict(weights)
    if len(model.encoder_.columns) != net.n_players:
        raise ValueError("columns do not fit the network")
    if isinstance(model, HarsanyiClassifier):
        model.classes_ = np.array(meta["classes"]["labels"], dtype=meta["classes"]["dtype"])
    else:
        model.one_target_ = bool(meta["one_target"])
    model.n_features_in_ = net.n_players
    if meta["named"]:
        model.feature_names_in_ = np.array(model.encoder_.names, dtype=object)
    model.feature_importances_ = arrays["feature_importances"]
    model._finish(net, Problem(**meta["problem"]))
    return model


def _plain(value: Any) -> Any:
    """A parameter as JSON; a random state or anything else that JSON cannot say becomes None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(k), _plain(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else None
