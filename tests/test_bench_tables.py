"""The benchmarks of speed, subsets and size, with small tables and stand-ins for other models."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from harsanyinet.cli import main
from harsanyinet.datasets import Table
from harsanyinet.experiments import bench_accuracy, bench_large, bench_speed, bench_subsets, models


def test_speed_goes_on_where_it_stopped_and_gives_ratios(tmp_path, monkeypatch):
    us = {
        "harsanyinet: predict": {"1": 100.0, "4096": 4.0},
        "harsanyinet: predict + values": {"1": 110.0, "4096": 5.0},
        "harsanyinet: predict + values + all pairs": {"4096": 6.0},
        "lightgbm: pred_contrib": {"1": 330.0, "4096": 500.0},
    }
    measured = []

    def jobs(quick, threads):
        def measure(name):
            measured.append(name)
            if len(measured) == 3:
                raise KeyboardInterrupt
            return {"us": us[name]}

        for name in us:
            yield name, lambda name=name: measure(name)

    monkeypatch.setattr(bench_speed, "_jobs", jobs)
    out = tmp_path / "speed.json"
    assert main(["bench", "speed", "-o", str(out)]) == 130
    assert not out.exists()
    assert main(["bench", "speed", "-o", str(out)]) == 0
    assert measured == [*list(us)[:3], *list(us)[2:]]
    found = json.loads(out.read_text())
    assert {row["name"]: row["us"] for row in found["rows"]} == us
    assert found["ratios"] == {
        "lightgbm: pred_contrib / harsanyinet: predict + values, batch 1": pytest.approx(3.0),
        "harsanyinet: explain / predict, batch 1": pytest.approx(1.1),
        "lightgbm: pred_contrib / harsanyinet: predict + values, batch 4096": pytest.approx(100.0),
        "harsanyinet: explain / predict, batch 4096": pytest.approx(1.25),
        "harsanyinet: all pairs / explain, batch 4096": pytest.approx(1.2),
    }


def test_the_cost_of_a_made_up_table_is_measured():
    found = bench_speed._sized(5, 8, quick=True)
    assert found["explain_us"] > 0
    assert found["predict_us"] > 0
    assert found["coalitions"] >= 5


@pytest.fixture
def small(monkeypatch):
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    y = x["a"] + x["b"]
    tables = {
        "census": (lambda: Table("census", x, (y > 0).map({True: "yes", False: "no"}), "classification", "", ""), 1),
        "california": (lambda: Table("california", x, y, "regression", "", ""), 5),
    }
    monkeypatch.setattr(bench_subsets, "DATASETS", tables)
    monkeypatch.setattr(bench_accuracy, "CENSUS_TRAIN_ROWS", 200)

    def mean(x, y, task, threads):
        if task == "regression":
            return lambda frame: np.full(len(frame), y.mean())
        return lambda frame: np.tile(np.bincount(y) / len(y), (len(frame), 1))

    monkeypatch.setattr(bench_subsets, "lightgbm", mean)


@pytest.mark.usefixtures("small")
def test_subsets(tmp_path, capsys):
    out = tmp_path / "subsets.json"
    assert main(["bench", "subsets", "--quick", "-o", str(out)]) == 0
    lines = (tmp_path / "subsets_quick.jsonl").read_text()
    found = json.loads((tmp_path / "subsets_quick.json").read_text())
    assert found["summary"]["census"]["subsets"] == found["summary"]["california"]["subsets"] == 3
    for row in found["rows"]:
        loss = "log_loss" if row["dataset"] == "census" else "rmse"
        assert 1 <= len(row["columns"]) <= 2
        knows = {"a", "b"} & set(row["columns"])
        assert row["harsanyinet"][loss] < row["lightgbm"][loss] * (0.99 if knows else 1.1)
    ratio = found["summary"]["california"]["rmse ratio"]
    ours, theirs = (
        np.mean([row[model]["rmse"] for row in found["rows"] if row["dataset"] == "california"])
        for model in ("harsanyinet", "lightgbm")
    )
    assert ratio == pytest.approx(ours / theirs)
    assert main(["bench", "subsets", "--quick", "-o", str(out)]) == 0  # nothing left to do
    assert (tmp_path / "subsets_quick.jsonl").read_text() == lines
    capsys.readouterr()


def test_large(tmp_path, capsys):
    assert main(["bench", "large", "--quick", "--threads", "1", "-o", str(tmp_path / "large.json")]) == 0
    assert "5,000 rows: fit" in capsys.readouterr().out
    found = json.loads((tmp_path / "large_quick.json").read_text())
    assert (found["rows"], found["columns"]) == (5000, 12)
    assert found["log_loss_of_the_true_chances"] < found["log_loss"] < found["log_loss_of_the_mean"]


def test_the_chances_of_the_large_table_are_true():
    _, chance, y = bench_large.made_up(50_000)
    for low in np.arange(0, 1, 0.1):
        rows = (chance >= low) & (chance < low + 0.1)
        assert y[rows].mean() == pytest.approx(chance[rows].mean(), abs=0.03)


def test_our_models_tell_their_structure():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    fitted = models.harsanyinet(x, x["a"].to_numpy() * 2, "regression", 1, members=1, epochs=10)
    found = fitted.structure(x)
    assert sum(found["order_spectrum"]) == pytest.approx(1, abs=1e-3)
    assert found["order_spectrum"][1] > 0.5
    assert set(found["units"]) == {"sets", "wide", "tables"}
    assert fitted(x).shape == (300,)


def test_spectra_of_different_length_are_averaged():
    assert bench_accuracy._spectrum([[0.0, 1.0], [0.0, 0.5, 0.5]]) == [0.0, 0.75, 0.25]
