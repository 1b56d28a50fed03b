"""Runs what is not yet done of an experiment: its cells, the file that keeps them, and how names of them are chosen.

A cell is the smallest piece of work that is kept: one fit, one measurement. A finished cell is one line of a .jsonl
file beside the summary and is never run again: delete its line for that. A run that was killed goes on at the cell in
which it died. Several processes may add lines at once.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from harsanyinet.datasets import DatasetNotFoundError, Table
from harsanyinet_experiments import results

Cell = dict[str, Any]
Record = dict[str, Any]


@dataclass(frozen=True)
class Ledger:
    """The cells of one experiment that were run, finished or failed.

    Attributes:
        path: The .jsonl file.
        fields: The fields of a record that tell its cell; one that a record lacks is None. Without any the record has
            the whole cell in a field ``"cell"``.

    Examples:
        >>> ledger = Ledger(Path("none.jsonl"), ("model", "fold"))
        >>> ledger.cell({"model": "mlp", "fold": 3, "accuracy": 0.9})
        {'model': 'mlp', 'fold': 3}
        >>> ledger.to_do([{"model": "mlp", "fold": 0}])
        [{'model': 'mlp', 'fold': 0}]
    """

    path: Path
    fields: tuple[str, ...] = ()

    def cell(self, record: Record) -> Cell:
        """What a record is about."""
        if not self.fields:
            whole: Cell = record["cell"]
            return whole
        return {field: record.get(field) for field in self.fields}

    def records(self) -> list[Record]:
        """One per cell in the order of the file, a finished one before a failed one, the first of several."""
        kept: dict[tuple[Any, ...], Record] = {}
        for record in results.read_lines(self.path):
            key = _key(self.cell(record))
            if key not in kept or "error" in kept[key]:
                kept[key] = record
        return list(kept.values())

    def to_do(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those that are not finished."""
        done = {_key(self.cell(record)) for record in self.records() if "error" not in record}
        return [cell for cell in cells if _key(cell) not in done]

    def run(
        self,
        cells: Iterable[Cell],
        measure: Callable[[Cell], Record],
        *,
        name: str = "",
        about: Callable[[Cell], Record] = lambda cell: {},
        keep_errors: bool = False,
    ) -> None:
        """Measures the cells that are not finished, in their order, and adds each to the file as soon as it is.

        Args:
            cells: All cells.
            measure: One cell -> what is found.
            name: Of the experiment, for the progress bar.
            about: One cell -> what is known before it is measured, and kept although it fails.
            keep_errors: Whether a cell that fails is kept with its error, which ends nothing and is tried again by the
                next run. Otherwise the error is raised.
        """
        left = self.to_do(cells)
        bar = tqdm(left, mininterval=5, disable=not left)
        for cell in bar:
            shown = " ".join([name, *(str(value) for value in cell.values() if value is not None)]).strip()
            bar.set_description(shown)
            record = {**(cell if self.fields else {"cell": cell}), **about(cell)}
            try:
                record |= measure(cell)
            except Exception as error:
                if not keep_errors:
                    raise
                record["error"] = f"{type(error).__name__}: {error}"
                bar.write(f"{shown} failed: {record['error']}", file=sys.stderr)
            results.append(self.path, record)


def _key(cell: Cell) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(cell.items()))


def chosen(what: str, asked: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The names that were asked for, all of them by default; what is not known is refused."""
    names = list(known)
    if unknown := set(asked or ()) - set(names):
        raise ValueError(f"{what} must be among {', '.join(names)}, however: {', '.join(sorted(unknown))}")
    return names if asked is None else list(asked)


def loaded(names: Iterable[str], loaders: Mapping[str, Callable[[], Table]]) -> dict[str, Table]:
    """Tables by name, without those that are not to be had."""
    tables = {}
    for name in names:
        try:
            tables[name] = loaders[name]()
        except DatasetNotFoundError as error:
            logging.warning("%s is skipped: %s", name, error)
    return tables
