"""What an experiment is: cells, how one is measured, and what is told of all of them. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harsanyinet_experiments.runner import Cell, Record


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        what: One sentence.
        cells: The cells of a full or a quick run.
        measure: One cell -> its record; gets the folder for trained networks and whether the run is quick.
        summary: All records -> what goes into the result file.
        table: The result -> Markdown.
        draw: The result -> figures, by name; or none.
    """

    what: str
    cells: Callable[[bool], list[Cell]]
    measure: Callable[[Cell, Path, bool], Record]
    summary: Callable[[list[Record]], dict[str, Any]]
    table: Callable[[dict[str, Any]], str]
    draw: Callable[[dict[str, Any]], dict[str, Any]] | None = None


def nested(records: Iterable[Record], *names: str) -> dict[str, Any]:
    """What was measured, in dictionaries by some fields of the cells, without the cell and the time it took."""
    tree: dict[str, Any] = {}
    for record in records:
        place = tree
        for name in names:
            place = place.setdefault(record["cell"][name], {})
        place.update({key: value for key, value in record.items() if key not in ("cell", "seconds")})
    return tree


def grouped(records: Iterable[Record], *names: str) -> dict[tuple[Any, ...], list[Record]]:
    """Records by some fields of their cells, in the order in which they come."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record["cell"][name] for name in names), []).append(record)
    return groups
