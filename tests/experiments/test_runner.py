"""Cells are run once, kept, and tried again where they failed; none of the result files of today is run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harsanyinet.datasets import DatasetNotFoundError
from harsanyinet_experiments import (
    bench_accuracy,
    bench_defaults,
    bench_large,
    bench_subsets,
    development_tables,
    models,
    reproduce,
    results,
    runner,
)
from harsanyinet_experiments.runner import Ledger

RESULTS = Path(__file__).parents[2] / "results"
FINISHED = (
    "bench_defaults", "bench_further", "bench_subsets", "reproduce_table1", "reproduce_table2", "reproduce_convergence",
    "reproduce_sparsity", "reproduce_examples", "reproduce_depth", "reproduce_depth_choice", "reproduce_training_cost",
    "reproduce_robustness", "reproduce_image_tau", "reproduce_image_training_cost", "reproduce_image_maps",
    "reproduce_image_sampling_error",
    "reproduce_receptive_fields", "reproduce_image_sparsity", "reproduce_backbone",
)  # fmt: skip


def cells(*numbers: int) -> list[dict[str, int]]:
    return [{"model": "m", "fold": number} for number in numbers]


@pytest.fixture(params=[("model", "fold"), ()], ids=["flat", "nested"])
def ledger(request, tmp_path) -> Ledger:
    return Ledger(tmp_path / "cells.jsonl", request.param)


def test_cells_are_run_once_in_their_order(ledger, capsys):
    assert (ledger.records(), ledger.to_do(cells(0, 1))) == ([], cells(0, 1))
    made = []

    def measure(cell):
        made.append(cell["fold"])
        return {"score": cell["fold"] / 2}

    ledger.run(cells(2, 0), measure, name="it")
    ledger.run(cells(0, 1, 2), measure, name="it", about=lambda cell: {"seed": 7})
    assert made == [2, 0, 1]
    assert [record["score"] for record in ledger.records()] == [1.0, 0.0, 0.5]
    assert [ledger.cell(record) for record in ledger.records()] == cells(2, 0, 1)
    assert ledger.records()[2]["seed"] == 7
    assert "it m 1" in capsys.readouterr().err
    ledger.run(cells(0, 1, 2), measure)
    assert made == [2, 0, 1]
    assert capsys.readouterr().err == ""  # no bar where nothing is left


def test_a_failed_cell_is_kept_and_tried_again(ledger, capsys):
    luck = iter([1, 0, 3, 4])

    def measure(cell):
        return {"score": 12 / next(luck)}

    ledger.run(cells(0, 1, 2), measure, about=lambda cell: {"threads": 1}, keep_errors=True)
    assert "m 1 failed: ZeroDivisionError: division by zero" in capsys.readouterr().err
    failed = [record for record in ledger.records() if "error" in record]
    assert [(ledger.cell(record), record["threads"]) for record in failed] == [(cells(1)[0], 1)]
    assert ledger.to_do(cells(0, 1, 2)) == cells(1)
    ledger.run(cells(0, 1, 2), measure, keep_errors=True)
    assert [record.get("error") for record in ledger.records()] == [None] * 3
    assert [record["score"] for record in ledger.records()] == [12.0, 3.0, 4.0]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_otherwise_an_error_ends_the_run_and_leaves_no_line(ledger, error):
    def measure(cell):
        if cell["fold"] == 1:
            raise error("no")
        return {}

    with pytest.raises(error):
        ledger.run(cells(0, 1, 2), measure, keep_errors=error is KeyboardInterrupt)
    assert ledger.to_do(cells(0, 1, 2)) == cells(1, 2)


def test_a_killed_run_goes_on_in_the_cell_in_which_it_died(tmp_path):
    path = tmp_path / "cells.jsonl"
    code = (
        "import os, signal\nfrom pathlib import Path\nfrom harsanyinet_experiments.runner import Ledger\n"
        "def measure(cell):\n    if cell['fold'] == 2:\n        os.kill(os.getpid(), signal.SIGKILL)\n    return {}\n"
        f"Ledger(Path({str(path)!r}), ('fold',)).run([dict(fold=i) for i in range(4)], measure)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert Ledger(path, ("fold",)).to_do([{"fold": i} for i in range(4)]) == [{"fold": 2}, {"fold": 3}]


def test_a_torn_line_costs_one_cell(ledger):
    ledger.run(cells(0, 1), lambda cell: {"score": 0.5})
    ledger.path.write_bytes(ledger.path.read_bytes()[:-9])
    assert ledger.to_do(cells(0, 1)) == cells(1)
    ledger.run(cells(2, 1), lambda cell: {"score": 0.25})  # not glued to the torn one
    assert [(ledger.cell(record)["fold"], record["score"]) for record in ledger.records()] == [
        (0, 0.5), (2, 0.25), (1, 0.25)
    ]  # fmt: skip


def test_an_error_does_not_hide_a_finished_cell(tmp_path):
    kept = Ledger(tmp_path / "cells.jsonl", ("fold",))
    for record in ({"fold": 0, "error": "a"}, {"fold": 0, "score": 1}, {"fold": 0, "error": "b"}):
        results.append(kept.path, record)
    assert kept.records() == [{"fold": 0, "score": 1}]


def test_a_field_that_a_record_lacks_is_none(tmp_path):
    kept = Ledger(tmp_path / "cells.jsonl", ("dataset", "subset"))
    results.append(kept.path, {"dataset": "census", "share": 0.5})
    assert kept.to_do([{"dataset": "census", "subset": None}, {"dataset": "census", "subset": 0}]) == [
        {"dataset": "census", "subset": 0}
    ]


def test_a_quick_run_has_a_place_of_its_own(tmp_path):
    assert results.place(tmp_path / "a" / "it.json", quick=True) == tmp_path / "a" / "it_quick.json"
    assert results.place(tmp_path / "a" / "it.json", quick=False) == tmp_path / "a" / "it.json"
    assert (tmp_path / "a").is_dir()


def test_names_and_tables(caplog):
    assert runner.chosen("models", None, {"a": 1, "b": 2}) == ["a", "b"]
    assert runner.chosen("models", ["b"], {"a": 1, "b": 2}) == ["b"]
    with pytest.raises(ValueError, match="models must be among a, b, however: c"):
        runner.chosen("models", ["c", "a"], ["a", "b"])

    def gone():
        raise DatasetNotFoundError("cannot find it")

    assert runner.loaded(["a", "b"], {"a": gone, "b": lambda: "table"}) == {"b": "table"}
    assert [entry.getMessage() for entry in caplog.records] == ["a is skipped: cannot find it"]


def today() -> dict[str, tuple[Ledger, list[dict[str, object]]]]:
    """The ledger and all cells of every experiment that has a file, but for those of speed, whose jobs need data."""
    kinds = {
        "bench_accuracy": (bench_accuracy, bench_accuracy.cells(models.MODELS, bench_accuracy.DATASETS)),
        "bench_defaults": (
            bench_defaults,
            bench_defaults.cells([*bench_defaults.PEERS, *bench_defaults.CANDIDATES], development_tables.SOURCES),
        ),
        "bench_further": (
            bench_defaults,
            bench_defaults.cells(
                [*bench_defaults.PEERS, *bench_defaults.CANDIDATES], development_tables.FURTHER, samples=False
            ),
        ),
        "bench_subsets": (bench_subsets, bench_subsets.cells()),
        "bench_large": (bench_large, bench_large.cells()),
    }
    every = {name: (module.ledger(RESULTS / f"{name}.json"), each) for name, (module, each) in kinds.items()}
    for name, experiment in reproduce.experiments().items():
        every[reproduce.stem(name)] = (reproduce.ledger(name, RESULTS), experiment.cells(False))
    return every


TODAY = today()


@pytest.mark.parametrize("name", TODAY)
def test_no_cell_of_todays_results_is_run_again(name):
    ledger, every = TODAY[name]
    lines = [json.loads(line) for line in ledger.path.read_text().splitlines()] if ledger.path.exists() else []
    there = [line["cell"] if "cell" in line else {key: line.get(key) for key in every[0]} for line in lines]
    assert ledger.to_do(every) == [cell for cell in every if cell not in there]
    assert not lines or len(ledger.to_do(every)) < len(every)
    if name in FINISHED:
        assert ledger.to_do(every) == []
