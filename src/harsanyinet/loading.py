"""Model files: what a file holds -> the class that makes a model of it, imported when it is needed.

Models write themselves, with `files` alone; this sits on top of all of them. What a file does not need is not
imported: a table's model needs no torch. No pickle; loading runs no code from a file.
"""

from __future__ import annotations

from typing import Any

import harsanyinet
from harsanyinet import files
from harsanyinet.files import Place

KINDS = ("HarsanyiClassifier", "HarsanyiRegressor", "HarsanyiMLP", "HarsanyiCNN", "HarsanyiImageClassifier")


def save(model: Any, path: Place) -> None:
    """Writes a network or a fitted estimator to one file, beside an old one and then in its place."""
    kind = type(model).__name__
    if kind not in KINDS or type(model) is not getattr(harsanyinet, kind):
        raise TypeError(f"model must be one of {', '.join(KINDS)}, however: {kind}")
    model.save(path)


def load(path: Place) -> Any:
    """Reads what `save` wrote: a network, in evaluation mode and on the CPU, or a fitted estimator.

    Raises:
        harsanyinet.files.ModelFileError: If the file is damaged, foreign or of another version of the format.
        ImportError: If the model needs a package that is not there.
    """
    kind, arrays, meta = files.load_any(path, "model", KINDS)
    model_class = getattr(harsanyinet, kind)
    try:
        return model_class.from_arrays(arrays, meta)
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError, IndexError) as error:
        raise files.ModelFileError(
            f"cannot load a model from {path}: its settings do not fit its weights; save it again with this version"
        ) from error
