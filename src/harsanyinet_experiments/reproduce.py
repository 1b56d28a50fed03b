"""`harsanyinet reproduce NAME`: the paper's tables and figures, beside the paper's own numbers.

A cell is one dataset, one seed, one method. When all are there the summary is written as JSON and Markdown, and as a
figure where there is one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from harsanyinet import files
from harsanyinet.explanations.certificate import versions
from harsanyinet_experiments import results
from harsanyinet_experiments.experiment import Experiment
from harsanyinet_experiments.runner import Cell, Ledger, Record


def run(name: str, folder: Path, *, quick: bool = False, only: Sequence[str] = ()) -> str:
    """Runs what is not yet done of one experiment, or of all, and returns the tables.

    With `only`, texts such as "dataset=yeast", no other cells are run; tables hold all that are done.
    """
    known = experiments()
    if name != "all" and name not in known:
        raise ValueError(f"name must be one of {', '.join([*known, 'all'])}, however: {name!r}")
    return "\n\n".join(_run(each, known[each], folder, quick, only) for each in (known if name == "all" else [name]))


def experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    from harsanyinet_experiments import (
        image_backbone,
        image_choices,
        image_figures,
        image_insertion,
        image_robustness,
        image_tables,
        tabular_depth,
        tabular_figures,
        tabular_tables,
    )

    tables = (tabular_tables, tabular_figures, tabular_depth)
    images = (image_tables, image_robustness, image_choices, image_figures, image_insertion, image_backbone)
    return {name: experiment for part in (*tables, *images) for name, experiment in part.EXPERIMENTS.items()}


def stem(name: str, quick: bool = False) -> str:
    """The name of an experiment's result files, without an ending."""
    return f"reproduce_{name.replace('-', '_')}" + ("_quick" if quick else "")


def ledger(name: str, folder: Path, quick: bool = False) -> Ledger:
    """Where the cells of an experiment are kept."""
    return Ledger(folder / f"{stem(name, quick)}.jsonl")


def selected(cells: list[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells whose fields are as asked for, each by a text such as "dataset=yeast"."""
    asked = [text.partition("=") for text in only]
    kept = [cell for cell in cells if all(name in cell and str(cell[name]) == value for name, _, value in asked)]
    if not kept:
        raise ValueError(
            f"only must be FIELD=VALUE of some cell, such as {_texts(cells[0])}, however: {' '.join(only)}"
        )
    return kept


def _texts(cell: Cell) -> str:
    return " ".join(f"{name}={value}" for name, value in cell.items())


def _run(name: str, experiment: Experiment, folder: Path, quick: bool, only: Sequence[str]) -> str:
    out = folder / f"{stem(name, quick)}.json"
    results.prepare(out)
    models = folder / ("models_quick" if quick else "models")
    cells, cells_run = experiment.cells(quick), ledger(name, folder, quick)

    def measure(cell: Cell) -> Record:
        start = time.perf_counter()
        record = experiment.measure(cell, models, quick)
        return {**record, "seconds": round(time.perf_counter() - start, 2)}

    cells_run.run(selected(cells, only), measure, name=name)
    done = [record for record in cells_run.records() if record["cell"] in cells]
    records = sorted(done, key=lambda record: cells.index(record["cell"]))  # not in the order in which they were run
    result = {
        "command": f"harsanyinet reproduce {name}" + (" --quick" if quick else ""),
        "what": experiment.what,
        "versions": versions(),
        "seeds": sorted({record["cell"]["seed"] for record in records if "seed" in record["cell"]}),
        "seconds": round(sum(record["seconds"] for record in records), 1),
        **experiment.summary(records),
    }
    results.write(out, result)
    text = experiment.table(result)
    files.write_beside(out.with_suffix(".md"), (text + "\n").encode())
    for suffix, figure in (experiment.draw(result) if experiment.draw else {}).items():
        path = out.with_name(f"{out.stem}{suffix}.png")
        figure.savefig(path, dpi=150, bbox_inches="tight")
    return f"{experiment.what}\n{text}\nwritten to {out}"
