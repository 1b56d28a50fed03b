"""Result files: where they go and how they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harsanyinet import files


def prepare(path: Path) -> None:
    """Makes the folder before the work, so that a wrong path costs no run."""
    path.parent.mkdir(parents=True, exist_ok=True)


def place(path: Path, quick: bool) -> Path:
    """Where a result goes, its folder made; a quick run has a place of its own, and nothing of a long one is lost."""
    path = path.with_stem(f"{path.stem}_quick") if quick else path
    prepare(path)
    return path


def write(path: Path, result: dict[str, Any]) -> None:
    """Writes a result as JSON, whole or not at all; a list of numbers, however deep, is one line."""
    text = json.dumps(result, indent=1, allow_nan=False)
    text = re.sub(r"\[[^\"{}]*\]", lambda numbers: re.sub(r"\n\s*", " ", numbers[0]), text)
    files.write_beside(path, (text + "\n").encode())


def append(path: Path, record: dict[str, Any]) -> None:
    """Adds a line in one write, on a line of its own even after a torn one."""
    with path.open("ab+", buffering=0) as file:
        file.seek(max(0, file.tell() - 1))
        before = "" if file.read(1) in (b"", b"\n") else "\n"
        file.write((before + json.dumps(record) + "\n").encode())


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records that `append` wrote; a torn line is no JSON, and is passed over."""
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue
