"""Harsanyi networks: one forward pass gives the prediction and the exact Shapley value of every input variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harsanyinet.explanations.certificate import Certificate, verify
    from harsanyinet.explanations.explanation import Explanation
    from harsanyinet.images.cnn import HarsanyiCNN
    from harsanyinet.images.image_estimator import HarsanyiImageClassifier
    from harsanyinet.images.official import load_official
    from harsanyinet.loading import load, save
    from harsanyinet.networks.attribution import Attribution
    from harsanyinet.networks.base import HarsanyiNet
    from harsanyinet.networks.mlp import HarsanyiMLP
    from harsanyinet.serving.export import to_onnx
    from harsanyinet.serving.predictor import load_predictor
    from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor

__version__ = "0.1.0"
__all__ = [
    "Attribution",
    "Certificate",
    "Explanation",
    "HarsanyiCNN",
    "HarsanyiClassifier",
    "HarsanyiImageClassifier",
    "HarsanyiMLP",
    "HarsanyiNet",
    "HarsanyiRegressor",
    "load",
    "load_official",
    "load_predictor",
    "save",
    "to_onnx",
    "verify",
]

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


def __getattr__(name: str) -> Any:
    """Imports what not every user needs when it is first asked for."""
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
