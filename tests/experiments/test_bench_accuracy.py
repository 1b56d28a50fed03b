"""Cells, their file and the summary, with models that stand in for the real ones."""

from __future__ import annotations

import json
import logging

import numpy as np
import pandas as pd
import pytest

from harsanyinet.cli import main
from harsanyinet.datasets import DatasetNotFoundError, Table
from harsanyinet_experiments import bench_accuracy, models
from harsanyinet_experiments.bench_accuracy import run, summary
from harsanyinet_experiments.scoring import folds


def tiny(task: str, n: int = 60) -> Table:
    x = pd.DataFrame({"number": np.arange(n) % 7 / 7, "text": pd.Series(["a", "b", None] * (n // 3), dtype="str")})
    y = pd.Series([["no", "yes"][i % 2] for i in range(n)]) if task == "classification" else x["number"] * 2 + 1
    return Table("tiny", x, y, task, "here", "")


@pytest.fixture
def fits(monkeypatch):
    """Two datasets, two models; returns the list of fits made, each (task, labels, number of threads)."""
    made = []

    def constant(x, y, task, threads):
        made.append((task, set(y), threads))
        if task == "regression":
            return lambda frame: np.full(len(frame), y.mean())
        return lambda frame: np.tile(np.bincount(y) / len(y), (len(frame), 1)).astype(np.float32)

    def perfect(x, y, task, threads):
        made.append((task, set(y), threads))
        if task == "regression":
            return lambda frame: frame["number"] * 2 + 1
        return lambda frame: np.tile([0.4, 0.6], (len(frame), 1))

    tables = {"breast_cancer": (lambda: tiny("classification"), 5), "bike": (lambda: tiny("regression"), 5)}
    stand_ins = {name: (fit, "numpy", "numpy") for name, fit in (("constant", constant), ("perfect", perfect))}
    monkeypatch.setattr(bench_accuracy, "MODELS", stand_ins)
    monkeypatch.setattr(bench_accuracy, "DATASETS", tables)
    return made


def record(model: str, dataset: str, fold: int, **values: float) -> dict[str, object]:
    seconds = {"fit_seconds": 2.0, "predict_seconds": 1.0}
    base = {"model": model, "dataset": dataset, "fold": fold, "seed": 0, "threads": 1, "version": "it 1"}
    return {**base, **seconds, **values}


def test_cells_are_run_once_and_summed_up(fits, tmp_path, capsys):
    out = tmp_path / "r" / "accuracy.json"
    assert main(["bench", "accuracy", "-o", str(out), "--only", "bike", "--models", "perfect"]) == 0
    assert fits == [("regression", set(fits[0][1]), 1)] * 5
    assert main(["bench", "accuracy", "-o", str(out)]) == 0
    assert len(fits) == 20  # the five cells of before are not run again
    assert all(labels == {0, 1} for task, labels, _ in fits if task == "classification")
    assert main(["bench", "accuracy", "-o", str(out)]) == 0
    assert len(fits) == 20
    printed, progress = capsys.readouterr()
    assert "constant" in printed
    assert "perfect bike 4" in progress
    lines = [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]
    order = [(line["model"], line["dataset"], line["fold"]) for line in lines[5:]]
    datasets = ("breast_cancer", "bike")
    every = [(m, d, f) for m in ("constant", "perfect") for d in datasets for f in range(5)]
    assert order == [cell for cell in every if cell[:2] != ("perfect", "bike")]

    found = json.loads(out.read_text())
    assert (found["seeds"], found["threads"], found["failed"]) == ([0], [1], [])
    assert found["versions_of_models"]["perfect"] == [f"numpy {np.__version__}"]
    assert {"torch", "scikit-learn", "pandas"} <= set(found["versions"])
    bike, cancer = found["datasets"]["bike"], found["datasets"]["breast_cancer"]
    assert bike["perfect"]["r2"] == {"mean": 1.0, "standard_error": 0.0}
    assert bike["perfect"]["rmse"]["mean"] == 0.0
    assert bike["constant"]["r2"]["mean"] <= 0.0
    assert cancer["constant"]["accuracy"]["mean"] == cancer["perfect"]["accuracy"]["mean"] == 0.5
    assert cancer["constant"]["auc"]["mean"] == 0.5
    assert cancer["constant"]["log_loss"]["mean"] == pytest.approx(np.log(2), abs=1e-3)
    assert cancer["perfect"]["log_loss"]["mean"] == pytest.approx(-np.log(0.24) / 2)
    assert bike["perfect"]["folds"] == 5
    assert bike["perfect"]["fit_seconds"]["mean"] > 0
    assert found["mean_rank_by_accuracy_or_r2"] == {"perfect": 1.25, "constant": 1.75}  # a tie in one of two
    assert found["mean_rank_by_log_loss_or_rmse"] == {"constant": 1.5, "perfect": 1.5}


def test_a_failed_cell_is_recorded_and_tried_again(fits, tmp_path, monkeypatch):
    out = tmp_path / "accuracy.json"
    fit = bench_accuracy.MODELS["perfect"]
    with monkeypatch.context() as context:

        def broken(x, y, task, threads):
            raise ArithmeticError("no luck")

        context.setitem(bench_accuracy.MODELS, "perfect", (broken, *fit[1:]))
        run(out, only=["bike"])
    failed = json.loads(out.read_text())["failed"]
    assert [(cell["model"], cell["fold"], cell["error"]) for cell in failed] == [
        ("perfect", fold, "ArithmeticError: no luck") for fold in range(5)
    ]
    run(out, only=["bike"])
    found = json.loads(out.read_text())
    assert found["failed"] == []
    assert found["datasets"]["bike"]["perfect"]["folds"] == 5
    assert len(fits) == 10


@pytest.mark.usefixtures("fits")
def test_only_models_that_ran_everywhere_are_ranked():
    cells = [record("perfect", "bike", fold, r2=0.9 + fold / 100, rmse=2.0) for fold in range(3)]
    found = summary([*cells, record("constant", "bike", 0, r2=0.99, rmse=1.0)])
    assert found["mean_rank_by_accuracy_or_r2"] == {"perfect": 1.0}
    assert found["datasets"]["bike"]["perfect"]["r2"]["mean"] == pytest.approx(0.91)
    assert found["datasets"]["bike"]["perfect"]["r2"]["standard_error"] == pytest.approx(0.01 / np.sqrt(3))
    assert found["datasets"]["bike"]["constant"]["r2"] == {"mean": 0.99, "standard_error": None}
    assert summary([])["mean_rank_by_accuracy_or_r2"] == {}


@pytest.mark.usefixtures("fits")
def test_losses_relative_to_another_model(monkeypatch):
    monkeypatch.setattr(bench_accuracy, "PEERS", ("constant",))
    losses = {("perfect", "bike"): [1.0, 2.0], ("constant", "bike"): [2.0, 2.0], ("constant", "breast_cancer"): [0.5]}
    losses["perfect", "breast_cancer"] = [0.25]
    cells = [
        record(
            model,
            dataset,
            fold,
            **({"r2": 0, "rmse": loss} if dataset == "bike" else {"accuracy": 0, "log_loss": loss}),
        )
        for (model, dataset), each in losses.items()
        for fold, loss in enumerate(each)
    ]
    found = summary(cells)["loss_ratios"]
    assert list(found) == ["to constant"]
    one = found["to constant"]["perfect"]
    ratio = (0.75 * 0.5) ** 0.5  # of the means of two folds, and of a single one
    assert one["ratio"] == pytest.approx(ratio)
    spread = np.log(2) / 2  # of log(1 / 2) and log(2 / 2): the standard error of their mean
    assert one["standard_error"] == pytest.approx(ratio * spread / 2)
    assert one["by_table"] == {"bike": pytest.approx(0.75), "breast_cancer": pytest.approx(0.5)}
    assert "0.6124 ± " in bench_accuracy.table(summary(cells))
    assert summary(cells[:2])["loss_ratios"] == {"to constant": {}}


def test_what_is_missing_is_skipped_with_a_sentence(fits, tmp_path, monkeypatch, caplog):
    def absent():
        raise DatasetNotFoundError("cannot find it")

    monkeypatch.setitem(bench_accuracy.DATASETS, "bike", (absent, 5))
    monkeypatch.setitem(bench_accuracy.MODELS, "rival", (None, "no_such_package", "no-such-package"))
    with caplog.at_level(logging.WARNING):
        run(tmp_path / "accuracy.json", quick=True)
    messages = [entry.getMessage() for entry in caplog.records]
    assert messages == [
        "rival is skipped: No module named 'no_such_package'; pip install harsanyinet[bench]",
        "bike is skipped: cannot find it",
    ]
    assert len(fits) == 2  # one fold of one dataset with two models
    assert {path.name for path in tmp_path.iterdir()} == {"accuracy_quick.json", "accuracy_quick.jsonl"}


@pytest.mark.usefixtures("fits")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["accuracy", "--models", "perfect,other"], "models must be among constant, perfect, however: other"),
        (["accuracy", "--only", "mars"], "datasets must be among breast_cancer, bike, however: mars"),
        (["core", "--threads", "1"], "--threads is no option of this benchmark, however: bench core"),
        (["noise", "--only", "iris"], "--only is no option of this benchmark, however: bench noise"),
        (["accuracy", "--no-samples"], "--no-samples is no option of this benchmark, however: bench accuracy"),
        (["defaults", "--models", "other"], "models must be among catboost, lightgbm, default, however: other"),
    ],
)
def test_wrong_names_of_a_benchmark_get_one_line(tmp_path, capsys, arguments, message):
    assert main(["bench", *arguments, "-o", str(tmp_path / "a.json")]) == 2
    assert message in capsys.readouterr().err


def test_warnings_of_rivals_are_silenced_and_ours_are_not(fits, monkeypatch):
    import warnings

    def noisy(x, y, task, threads):
        warnings.warn("look", UserWarning, stacklevel=1)
        return lambda frame: np.zeros(len(frame))

    table = tiny("regression")
    rows = folds("bike", table, 5)[0]
    for name in ("rival", "harsanyinet"):
        monkeypatch.setitem(bench_accuracy.MODELS, name, (noisy, "numpy", "numpy"))
    bench_accuracy.measure("rival", table, rows, 1)
    with pytest.warns(UserWarning, match="look"):
        bench_accuracy.measure("harsanyinet", table, rows, 1)


@pytest.mark.parametrize("name", ["hist_gradient_boosting", "mlp"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_models_of_scikit_learn_take_strings_and_missing_values(name, task):
    table = tiny(task)
    rows = folds("bike", table, 5)[0]
    found = bench_accuracy.measure(name, table, rows, 1)
    assert (found["n_train"], found["n_test"]) == (48, 12)
    assert set(found) >= ({"accuracy", "auc", "log_loss"} if task == "classification" else {"r2", "rmse"})


def test_categories_are_those_of_the_rows_to_train_on():
    x = pd.DataFrame({"n": [1, 2, 3], "c": ["b", "a", None]})
    coded = models.as_categories(x)(pd.DataFrame({"n": [4, 5], "c": ["z", "a"]}))
    assert list(coded["c"].cat.categories) == ["a", "b"]
    assert coded["c"].isna().tolist() == [True, False]
    assert coded["n"].tolist() == [4, 5]
