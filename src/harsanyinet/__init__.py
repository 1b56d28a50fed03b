"""Harsanyi networks: one forward pass gives the prediction and the exact Shapley value of every input variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harsanyinet.attribution import Attribution
    from harsanyinet.certificate import Certificate, verify
    from harsanyinet.explanation import Explanation
    from harsanyinet.image import HarsanyiCNN
    from harsanyinet.image_estimator import HarsanyiImageClassifier
    from harsanyinet.mlp import HarsanyiMLP
    from harsanyinet.network import HarsanyiNet
    from harsanyinet.official import load_official
    from harsanyinet.storage import load, save
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
    "save",
    "verify",
]

_LATER = {
    "Attribution": "harsanyinet.attribution",
    "Certificate": "harsanyinet.certificate",
    "Explanation": "harsanyinet.explanation",
    "HarsanyiCNN": "harsanyinet.image",
    "HarsanyiClassifier": "harsanyinet.tables.estimators",
    "HarsanyiImageClassifier": "harsanyinet.image_estimator",
    "HarsanyiMLP": "harsanyinet.mlp",
    "HarsanyiNet": "harsanyinet.network",
    "HarsanyiRegressor": "harsanyinet.tables.estimators",
    "load": "harsanyinet.storage",
    "load_official": "harsanyinet.official",
    "save": "harsanyinet.storage",
    "verify": "harsanyinet.certificate",
}


def __getattr__(name: str) -> Any:
    """Imports what not every user needs when it is first asked for."""
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
