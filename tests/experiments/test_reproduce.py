"""The paper's tabular experiments on a table of their own: cells, resuming, tables and figures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from harsanyinet.cli import main
from harsanyinet.datasets import TableSplit
from harsanyinet.games import zeta_transform
from harsanyinet_experiments import paper, reproduce, results, tabular_depth, tabular_figures, tabular_models
from harsanyinet_experiments.census import label_coded
from harsanyinet_experiments.experiment import Experiment

NAMES = ("table1", "table2", "training-cost", "convergence", "sparsity", "examples", "depth", "depth-choice")


def small(name: str = "census", seed: int = 0, quick: bool = False, every_row: bool = False) -> paper.Coded:
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    x["e"] = rng.choice(["u", "v", "w"], 300)
    y = pd.Series(np.where(x["a"] * x["b"] + x["c"] + (x["e"] == "u") > 0, "yes", "no"))
    split = TableSplit(name, x[:200], y[:200], x[200:], y[200:], "here", "made up")
    return paper.Coded(split, *label_coded(split))


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(paper, "load", small)
    monkeypatch.setattr(tabular_figures, "BUDGETS", (64, 128, 256, 512))


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_on_tables_runs_and_resumes(name, tmp_path, capsys):
    assert main(["reproduce", name, "--quick", "-o", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    stem = f"reproduce_{name.replace('-', '_')}_quick"
    found = json.loads((tmp_path / f"{stem}.json").read_text())
    tables = {"depth": {"census", "yeast"}, "depth-choice": {"yeast"}}
    assert set(found["datasets"]) == tables.get(name, {"census", "yeast", "tv_news"})
    assert found["command"] == f"harsanyinet reproduce {name} --quick"
    assert {"torch", "numpy"} <= set(found["versions"])
    text = (tmp_path / f"{stem}.md").read_text()
    assert text.strip() in printed
    for table in text.strip().split("\n\n"):
        assert len({line.count("|") for line in table.splitlines()}) == 1  # as many cells in every line
    figures = {path.name for path in tmp_path.glob("*.png")}
    assert bool(figures) == (name in ("convergence", "sparsity", "examples"))
    lines = (tmp_path / f"{stem}.jsonl").read_text()
    assert main(["reproduce", name, "--quick", "-o", str(tmp_path)]) == 0
    assert (tmp_path / f"{stem}.jsonl").read_text() == lines


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_table1_says_who_is_exact(tmp_path):
    reproduce.run("table1", tmp_path, quick=True)
    found = json.loads((tmp_path / "reproduce_table1_quick.json").read_text())["datasets"]
    for methods in found.values():
        for method, row in methods.items():
            exact = row["rmse_float64"]["mean"] < 1e-13 * max(1.0, row["max_logit"]["mean"])
            assert exact == (method != "deep_shapnet"), (method, row)
            if method == "default":
                assert "rmse_float32" not in row
            else:
                single = row["rmse_float32"]["mean"]
                assert single < 1e-5 * max(1.0, row["max_logit"]["mean"]) or method == "deep_shapnet"


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_table2_sets_rivals_beside_doing_nothing(tmp_path):
    reproduce.run("table2", tmp_path, quick=True)
    found = json.loads((tmp_path / "reproduce_table2_quick.json").read_text())["datasets"]
    for networks in found.values():
        for row in networks.values():
            assert row["rmse"]["harsanyinet"]["mean"] < 1e-13
            assert row["rmse"]["zero"]["mean"] > 0
            assert row["fast_shap_rows"] > 200
        ours = networks["default"]["rmse"]  # even a short training on our game beats no answer
        assert ours["fast_shap"]["mean"] < 0.9 * ours["zero"]["mean"]


def test_a_trained_network_is_kept(tmp_path):
    data = small()
    first = tabular_models.trained(data, "census", "code", 0, tmp_path, True)
    again = tabular_models.trained(data, "census", "code", 0, tmp_path, True)
    assert torch.equal(first(data.x_test.float()), again(data.x_test.float()))
    assert [path.name for path in tmp_path.iterdir()] == ["census_code_0_formula.hnet"]


def test_how_many_sets_rebuild_a_game():
    dividends = np.zeros(16)
    dividends[[1, 2, 3]] = [5.0, 3.0, 0.1]
    assert tabular_figures.sets_needed(zeta_transform(dividends) + 7, dividends) == 2


def test_wrong_names_of_experiments_get_one_line(tmp_path, capsys):
    assert main(["reproduce", "table9", "-o", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert (
        "name must be one of table1, table2, training-cost, convergence, sparsity, examples, depth, depth-choice, image"
        in said
    )
    assert said.rstrip().endswith("all, however: 'table9'")
    with pytest.raises(ValueError, match="dataset must be one of census, yeast, tv_news, however: 'mars'"):
        paper.load("mars")


def test_census_with_every_row_has_a_category_for_what_is_missing():
    data, part = paper.load("census", every_row=True), paper.load("census")
    assert (len(data.x), len(data.x_test), len(part.x)) == (32561, 16281, 30162)
    assert "?" in set(data.split.train["workclass"])
    assert bool(data.x.isfinite().all())


def test_numbers_of_a_result_share_a_line(tmp_path):
    result = {
        "image": [[[0, 255], [1, 2]], [[3, 4], [5, 6]]], "names": ["[1,\n 2]", "b"], "mixed": [[1], {"a": [None, True]}]
    }  # fmt: skip
    results.write(path := tmp_path / "result.json", result)
    assert json.loads(path.read_text()) == result
    assert ' "image": [ [ [ 0, 255 ], [ 1, 2 ] ], [ [ 3, 4 ], [ 5, 6 ] ] ],' in path.read_text().splitlines()


def test_folds_share_no_row_and_hold_every_row_once():
    folds = [tabular_depth.fold(23, 1, number) for number in range(tabular_depth.FOLDS)]
    assert sorted(torch.cat([held_out for _, held_out in folds]).tolist()) == list(range(23))
    for rows, held_out in folds:
        assert sorted(torch.cat([rows, held_out]).tolist()) == list(range(23))


def test_a_recipe_is_chosen_without_test_rows(monkeypatch, tmp_path):
    data = small()
    blind = replace(data, x_test=torch.full_like(data.x_test, torch.nan))
    measure = tabular_depth.EXPERIMENTS["depth-choice"].measure
    cell = {"setting": "deep", "repeat": 0, "fold": 0}
    found = []
    for each in (data, blind):
        monkeypatch.setattr(paper, "load", lambda *_, each=each: each)
        found.append(measure(cell, tmp_path, True))
    assert found[0] == found[1]


def test_tables_have_the_order_of_the_cells_not_of_the_runs(monkeypatch, tmp_path):
    cells = [{"number": number} for number in range(3)]
    experiment = Experiment(
        "numbers",
        lambda quick: cells,
        lambda cell, models, quick: {},
        lambda records: {"numbers": [record["cell"]["number"] for record in records]},
        lambda result: str(result["numbers"]),
    )
    monkeypatch.setattr(reproduce, "experiments", lambda: {"numbers": experiment})
    results.append(tmp_path / "reproduce_numbers.jsonl", {"cell": {"number": 2}, "seconds": 1.0})
    results.append(tmp_path / "reproduce_numbers.jsonl", {"cell": {"number": 0}, "seconds": 1.0})
    with pytest.raises(ValueError, match="only must be FIELD=VALUE of some cell, such as number=0, however: number=7"):
        reproduce.run("numbers", tmp_path, only=["number=7"])
    assert "[0, 2]" in reproduce.run("numbers", tmp_path, only=["number=0"])  # all that are done, no other is run
    assert "[0, 1, 2]" in reproduce.run("numbers", tmp_path)
