"""Harsanyi networks: one forward pass gives the prediction and the exact Shapley value of every input variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harsanyinet.explanations.certificate import Certificate as Certificate
    from harsanyinet.explanations.certificate import verify as verify
    from harsanyinet.explanations.explanation import Explanation as Explanation
    from harsanyinet.images.cnn import HarsanyiCNN as HarsanyiCNN
    from harsanyinet.images.image_estimator import HarsanyiImageClassifier as HarsanyiImageClassifier
    from harsanyinet.images.official import load_official as load_official
    from harsanyinet.loading import load as load
    from harsanyinet.loading import save as save
    from harsanyinet.networks.attribution import Attribution as Attribution
    from harsanyinet.networks.base import HarsanyiNet as HarsanyiNet
    from harsanyinet.networks.mlp import HarsanyiMLP as HarsanyiMLP
    from harsanyinet.serving.export import to_onnx as to_onnx
    from harsanyinet.serving.predictor import load_predictor as load_predictor
    from harsanyinet.tables.estimators import HarsanyiClassifier as HarsanyiClassifier
    from harsanyinet.tables.estimators import HarsanyiRegressor as HarsanyiRegressor

__version__ = "0.1.0"

_LATER = {
    "Attribution": "harsanyinet.networks.attribution",
    "Certificate": "harsanyinet.explanations.certificate",
    "Explanation": "harsanyinet.explanations.explanation",
    "HarsanyiCNN": "harsanyinet.images.cnn",
    "HarsanyiClassifier": "harsanyinet.tables.estimators",
    "HarsanyiImageClassifier": "harsanyinet.images.image_estimator",
    "HarsanyiMLP": "harsanyinet.networks.mlp",
    "HarsanyiNet": "harsanyinet.networks.base",
    "HarsanyiRegressor": "harsanyinet.tables.estimators",
    "load": "harsanyinet.loading",
    "load_official": "harsanyinet.images.official",
    "load_predictor": "harsanyinet.serving.predictor",
    "save": "harsanyinet.loading",
    "to_onnx": "harsanyinet.serving.export",
    "verify": "harsanyinet.explanations.certificate",
}
__all__ = list(_LATER)


def __getattr__(name: str) -> Any:
    """Imports what not every user needs when it is first asked for."""
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
