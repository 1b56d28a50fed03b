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
    """A bar for one stage.

    Args:
        stage: What is being done.
        total: How many units there are; None where that is not known, and then no percentage is shown.
        unit: What is counted.
        progress: False for none at all.
        **options: More for tqdm.
    """
    return tqdm(desc=stage, total=total, unit=unit, delay=DELAY, disable=not visible(progress), leave=False, **options)
