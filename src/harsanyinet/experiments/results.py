"""Result files: where they go and how they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harsanyinet import files


def prepare(path: Path) -> None:
    """Makes the folder before the work, so that a wrong path costs no run."""
    path.parent.mkdir(parents=True, exist_ok=True)


def write(path: Path, result: dict[str, Any]) -> None:
    """Writes a result as JSON, whole or not at all."""
    files.write_beside(path, (json.dumps(result, indent=1, allow_nan=False) + "\n").encode())
