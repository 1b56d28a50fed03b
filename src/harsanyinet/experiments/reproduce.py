"""`harsanyinet reproduce NAME`: the paper's tables and figures, beside the paper's own numbers.

Every experiment is a list of cells: one dataset, one seed, one method. A finished cell is a line of a .jsonl file and
is not run again. When all are there the summary is written as JSON and Markdown, and as a figure where there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from harsanyinet import files
from harsanyinet.certificate import versions
from harsanyinet.experiments import results
from harsanyinet.experiments.results import append, read_lines

Cell = dict[str, Any]


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
    measure: Callable[[Cell, Path, bool], Cell]
    summary: Callable[[list[Cell]], dict[str, Any]]
    table: Callable[[dict[str, Any]], str]
    draw: Callable[[dict[str, Any]], dict[str, Any]] | None = None


def run(name: str, folder: Path, *, quick: bool = False) -> str:
    """Runs what is not yet done of one experiment, or of all, and returns the tables."""
    known = experiments()
    if name != "all" and name not in known:
        raise ValueError(f"name must be one of {', '.join([*known, 'all'])}, however: {name!r}")
    return "\n\n".join(_run(each, known[each], folder, quick) for each in (known if name == "all" else [name]))


def experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    from harsanyinet.experiments import (
        image_backbone,
        image_figures,
        image_tables,
        image_tau,
        tabular_depth,
        tabular_figures,
        tabular_tables,
    )

    parts = (tabular_tables, tabular_figures, tabular_depth, image_tables, image_tau, image_figures, image_backbone)
    return {name: experiment for part in parts for name, experiment in part.EXPERIMENTS.items()}


def stem(name: str, quick: bool = False) -> str:
    """The name of an experiment's result files, without an ending."""
    return f"reproduce_{name.replace('-', '_')}" + ("_quick" if quick else "")


def _run(name: str, experiment: Experiment, folder: Path, quick: bool) -> str:
    out = folder / f"{stem(name, quick)}.json"
    results.prepare(out)
    lines = out.with_suffix(".jsonl")
    models = folder / ("models_quick" if quick else "models")
    cells = experiment.cells(quick)
    done = {_key(record["cell"]) for record in read_lines(lines)}
    todo = [cell for cell in cells if _key(cell) not in done]
    bar = tqdm(todo, desc=name, disable=not todo)
    for cell in bar:
        bar.set_description(f"{name} {' '.join(map(str, cell.values()))}")
        start = time.perf_counter()
        record = experiment.measure(cell, models, quick)
        append(lines, {"cell": cell, **record, "seconds": round(time.perf_counter() - start, 2)})
    wanted = {_key(cell) for cell in cells}
    records = [record for record in read_lines(lines) if _key(record["cell"]) in wanted]
    found = {
        "command": f"harsanyinet reproduce {name}" + (" --quick" if quick else ""),
        "what": experiment.what,
        "versions": versions(),
        "seeds": sorted({record["cell"]["seed"] for record in records if "seed" in record["cell"]}),
        "seconds": round(sum(record["seconds"] for record in records), 1),
        **experiment.summary(records),
    }
    results.write(out, found)
    text = experiment.table(found)
    files.write_beside(out.with_suffix(".md"), (text + "\n").encode())
    for suffix, figure in (experiment.draw(found) if experiment.draw else {}).items():
        path = out.with_name(f"{out.stem}{suffix}.png")
        figure.savefig(path, dpi=150, bbox_inches="tight")
    return f"{experiment.what}\n{text}\nwritten to {out}"


def _key(cell: Cell) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(cell.items()))


def nested(records: Iterable[Cell], *names: str) -> dict[str, Any]:
    """What was measured, in dictionaries by some fields of the cells, without the cell and the time it took."""
    found: dict[str, Any] = {}
    for record in records:
        place = found
        for name in names:
            place = place.setdefault(record["cell"][name], {})
        place.update({key: value for key, value in record.items() if key not in ("cell", "seconds")})
    return found


def grouped(records: Iterable[Cell], *names: str) -> dict[tuple[Any, ...], list[Cell]]:
    """Records by some fields of their cells, in the order in which they come."""
    found: dict[tuple[Any, ...], list[Cell]] = {}
    for record in records:
        found.setdefault(tuple(record["cell"][name] for name in names), []).append(record)
    return found
