"""Optional packages: imported where they are needed, or one sentence with the command that installs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need_package(module: str, extra: str) -> Any:
    """Imports a module of an optional package; without it, an error that names the extra."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {module}: pip install 'harsanyinet[{extra}]'") from error


def need_torch() -> None:
    """Asked by every room that cannot do without torch, before anything else: an error says how to install it."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "networks need torch: pip install torch --index-url https://download.pytorch.org/whl/cpu for the CPU "
            "build, or pip install 'harsanyinet[networks]' for the usual one"
        ) from error
