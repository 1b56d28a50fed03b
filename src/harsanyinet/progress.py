"""Progress bars: a named stage, shown after two seconds, gone when it ends, and never written into a log."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

DELAY = 2.0
"""Seconds that a stage may take before its bar is shown."""


def visible(progress: bool = True) -> bool:
    """Whether somebody watches: stderr is a terminal, or this is a notebook. A log would get a line per step."""
    return progress and (sys.stderr.isatty() or "ipykernel" in sys.modules)


def bar(stage: str, total: int | None, *, unit: str = "row", progress: bool = True, **options: Any) -> tqdm[Any]:
    """A bar for what is being done, over so many units, if that is known; `options` are more for tqdm."""
    return tqdm(desc=stage, total=total, unit=unit, delay=DELAY, disable=not visible(progress), leave=False, **options)
