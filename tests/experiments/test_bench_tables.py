"""The benchmarks of speed, subsets, size and noise, with small tables and stand-ins for other models."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harsanyinet.cli import main
from harsanyinet.datasets import DatasetNotFoundError, Table
from harsanyinet_experiments import (
    bench_accuracy,
    bench_defaults,
    bench_large,
    bench_noise,
    bench_speed,
    bench_subsets,
    development_tables,
    document_tables,
    models,
    scoring,
)


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

    monkeypatch.setattr(bench_speed, "jobs", jobs)
    out = tmp_path / "speed.json"
    assert main(["bench", "speed", "-o", str(out)]) == 130
    assert not out.exists()
    assert main(["bench", "speed", "-o", str(out)]) == 0
    assert measured == [*list(us)[:3], *list(us)[2:]]
    found = json.loads(out.read_text())
    assert {row["name"]: row["us"] for row in found["rows"]} == us
    assert found["ratios"] == {
        "harsanyinet: predict / harsanyinet: predict + values, batch 1": pytest.approx(100 / 110),
        "harsanyinet: predict / harsanyinet: predict + values, batch 4096": pytest.approx(0.8),
        "harsanyinet: predict + values + all pairs / harsanyinet: predict + values, batch 4096": pytest.approx(1.2),
        "lightgbm: pred_contrib / harsanyinet: predict + values, batch 1": pytest.approx(3.0),
        "lightgbm: pred_contrib / harsanyinet: predict + values, batch 4096": pytest.approx(100.0),
    }
    assert "| lightgbm: pred_contrib | 330 | 500.0 | 100 |" in document_tables.speed(found)


def test_a_million_rows_are_compared_with_a_million_of_ours():
    rows = [
        {"name": "harsanyinet: predict + values", "us": {"1": 110.0, "4096": 5.0}},
        {"name": "a million rows, harsanyinet: predict + values", "us": {"1000000": 8.0}},
        {"name": "a million rows, lightgbm: pred_contrib", "us": {"1000000": 800.0}},
    ]
    name = "a million rows, lightgbm: pred_contrib / harsanyinet: predict + values, batch 1000000"
    assert bench_speed.ratios(rows) == {name: 100.0}
    assert "| a million rows, lightgbm: pred_contrib |  | 800.0 | 100 |" in document_tables.speed({"rows": rows})


@pytest.mark.slow
@pytest.mark.needs("onnx", "pyarrow")
@pytest.mark.filterwarnings("ignore::harsanyinet.tables.frames.UnseenCategoryWarning")  # few rows were fitted on
def test_our_own_speed_is_measured(monkeypatch):
    """Every measurement of ours, on a small part of Census."""
    monkeypatch.setattr(bench_speed, "BATCHES", (1, 64))
    monkeypatch.setattr(bench_speed, "microseconds", lambda call, rows: [call(rows)] and 1.0)
    real, compiled = subprocess.run, []

    def run(command, **options):
        cache = options.get("env", {}).get("NUMBA_CACHE_DIR")
        before = list(Path(cache).rglob("*.nbi")) if cache else []
        done = real(command, **options)
        if cache:
            compiled.append((len(before), len(list(Path(cache).rglob("*.nbi")))))
        return done

    monkeypatch.setattr(bench_speed.subprocess, "run", run)
    jobs = dict(bench_speed.jobs(quick=True, threads=1))
    ours = [name for name in jobs if name.startswith("harsanyinet: ")]
    assert len(ours) == 13
    found = {name: jobs[name]() for name in ours}
    once = {name: row for name, row in found.items() if "us" not in row}
    assert list(once) == [
        "harsanyinet: first explanation without a compile cache, cold",
        "harsanyinet: import, load, one explained row with numpy alone, cold",
        "harsanyinet: size of the files",
    ]
    assert set(once["harsanyinet: size of the files"]["megabytes"]) == {"model", "ONNX", "ONNX with all pairs"}
    ((before, after),) = compiled
    assert before == 0 < after  # something was compiled
    assert {tuple(row["us"]) for name, row in found.items() if name not in once} == {("1", "64"), ("1",)}
    assert jobs["harsanyinet explain of a file of 100 rows, cold"]() == {"seconds": 1e-6}
    written = jobs["harsanyinet explain of a million rows, Parquet to Parquet, two threads"]()
    assert written["rows"] == 3000  # quick
    assert list(jobs["a million rows, harsanyinet: predict + values"]()["us"]) == ["1000000"]
    sized = bench_speed.sized(5, quick=True, threads=1)
    assert sized["explain_us"] == sized["predict_us"] == 1.0
    assert sized["coalitions"] >= 5


def test_medians_are_per_row(monkeypatch):
    clock = iter([0.0, 1.0, 1.0, 3.0, 3.0, 18.0, 18.0, 50.0])
    monkeypatch.setattr(bench_speed.time, "perf_counter", lambda: next(clock))
    assert bench_speed.microseconds(lambda rows: None, [1, 2]) == 1e6 * 8.5 / 2  # of 1, 2, 15 and 32 seconds


@pytest.fixture
def small(monkeypatch):
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    y = x["a"] + x["b"]
    labels = (y > 0).map({True: "yes", False: "no"})
    monkeypatch.setattr(bench_subsets, "TABLES", ("census", "churn", "gone"))
    census = Table("census", x, labels, "classification", "", "")
    monkeypatch.setattr(bench_subsets, "DATASETS", {"census": (lambda: census, 1)})
    monkeypatch.setattr(scoring, "CENSUS_TRAIN_ROWS", 200)

    def gone():
        raise DatasetNotFoundError("cannot find it")

    others = {name: lambda name=name: Table(name, x, y, "regression", "", "") for name in ("churn", "few")}
    others["gone"] = gone
    monkeypatch.setattr(bench_subsets, "FILES", {"few": None, "gone": None})
    monkeypatch.setattr(bench_subsets, "SAMPLE_SIZES", (60, 150))
    monkeypatch.setattr(bench_subsets, "DRAWS", 2)
    monkeypatch.setattr(bench_subsets, "development_tables", lambda: others)

    def mean(x, y, task, threads):
        if task == "regression":
            return lambda frame: np.full(len(frame), y.mean())
        return lambda frame: np.tile(np.bincount(y) / len(y), (len(frame), 1))

    monkeypatch.setattr(bench_subsets, "RIVALS", {"lightgbm": mean, "catboost": mean})


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_subsets(tmp_path, capsys, caplog):
    out = tmp_path / "subsets.json"
    assert main(["bench", "subsets", "--quick", "-o", str(out)]) == 0
    assert [entry.getMessage() for entry in caplog.records] == ["gone is skipped: cannot find it"]
    lines = (tmp_path / "subsets_quick.jsonl").read_text()
    found = json.loads((tmp_path / "subsets_quick.json").read_text())
    assert list(found["summary"]) == ["census", "churn"]
    rows = [row for row in found["rows"] if row["subset"] is not None]
    for dataset, loss in (("census", "log_loss"), ("churn", "rmse")):
        mine, others = (
            [row for row in rows if (row["dataset"], row["model"]) == (dataset, model)]
            for model in ("harsanyinet", "lightgbm")
        )
        assert len(mine) == found["summary"][dataset]["subsets"] == 3
        ours, theirs = ([row["scores"][loss] for row in each] for each in (mine, others))
        for row, other, own, rival in zip(mine, others, ours, theirs, strict=True):
            assert 1 <= len(row["columns"]) <= 2
            assert row["columns"] == other["columns"]
            knows = {"a", "b"} & set(row["columns"])
            assert own < rival * (0.99 if knows else 1.1)
            assert own > 0.5 * rival or len(knows) == 2  # what is absent is not seen
        against = found["summary"][dataset]["against_lightgbm"]
        assert against["ratio"] == pytest.approx(np.mean(ours) / np.mean(theirs))
        each = [a / b for a, b in zip(ours, theirs, strict=True)]
        assert against["worst"] == {"ratio": max(each), "columns": mine[int(np.argmax(each))]["columns"]}
        spectrum = found["summary"][dataset]["order_spectrum"]
        assert found["summary"][dataset]["orders_1_and_2"] == pytest.approx(sum(spectrum[1:3]), abs=1e-3)
        assert 0.9 < found["summary"][dataset]["seeds_correlation"] < 1
        assert f"| {dataset}, mean {loss} |" in document_tables.subsets(found)
    each = [row["seeds_correlation"] for row in found["rows"] if row["rows"] == 60]
    assert len(set(each)) == 2  # draws differ
    expected = {"mean": np.mean(each), "median": np.median(each), "worst": min(each), "draws": 2}
    assert found["samples"]["60"] == pytest.approx(expected)
    assert found["samples"]["60"]["worst"] > 0.8
    assert f"2 draws of 60 rows: correlation {np.mean(each):.3f}" in document_tables.subsets(found)
    assert main(["bench", "subsets", "--quick", "-o", str(out)]) == 0  # nothing left to do
    assert (tmp_path / "subsets_quick.jsonl").read_text() == lines
    theirs = [line for line in lines.splitlines() if '"model": "harsanyinet"' not in line]
    (tmp_path / "subsets_quick.jsonl").write_text("\n".join(theirs) + "\n")  # ours are run again, and stand last
    assert main(["bench", "subsets", "--quick", "-o", str(out)]) == 0
    assert json.loads((tmp_path / "subsets_quick.json").read_text())["summary"] == found["summary"]
    capsys.readouterr()


@pytest.mark.slow
def test_large(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench_large, "MODELS", ("harsanyinet",))
    arguments = ["bench", "large", "--quick", "--threads", "1", "-o", str(tmp_path / "large.json")]
    assert main(arguments) == 0
    assert "columns  harsanyinet  fit" in capsys.readouterr().out
    found = json.loads((tmp_path / "large_quick.json").read_text())
    sizes = {row["case"]: (row["rows"], row["columns"], row["classes"]) for row in found["rows"]}
    assert sizes == {"rows": (5000, 12, 2), "columns": (200, 2000, 2), "classes": (3000, 20, 100)}
    for row in found["rows"]:
        assert row["log_loss_of_the_true_chances"] < row["log_loss"]
        assert (
            row["log_loss"] < row["log_loss_of_the_mean"] or row["case"] == "columns"
        )  # of few rows little is learned
        assert 0.05 < row["data_gib"] < row["peak_gib"] < 2
        assert row["file_mib"] > 0.01
        assert row["explain_us_per_row"] == pytest.approx(1e6 * row["explain_seconds"] / row["rows"])
    assert "| 3,000 x 20, 100 classes | harsanyinet |" in document_tables.large(found)
    monkeypatch.setattr(bench_large, "in_a_process", None)
    assert main(arguments) == 0  # nothing left to do


@pytest.mark.parametrize("case", ["rows", "columns", "classes"])
def test_the_chances_of_the_large_tables_are_true(case, monkeypatch):
    monkeypatch.setitem(bench_large.N_COLUMNS, "columns", 30)
    _, chances, y = bench_large.MAKE[case](50_000)
    np.testing.assert_allclose(chances.sum(1), 1)
    for k in {0, chances.shape[1] - 1}:
        for low in np.arange(0, 1, 0.1):
            rows = (chances[:, k] >= low) & (chances[:, k] < low + 0.1)
            error = 4 * 0.5 / max(1, rows.sum()) ** 0.5
            assert abs((y[rows] == k).mean() - chances[rows, k].mean()) < error if rows.any() else True


@pytest.mark.slow
def test_noise(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench_noise, "CASES", {"three of noise": (200, 3, 0.5)})
    assert main(["bench", "noise", "--quick", "--threads", "1", "-o", str(tmp_path / "noise.json")]) == 0
    assert "three of noise" in capsys.readouterr().out
    found = json.loads((tmp_path / "noise_quick.json").read_text())
    for game in ("missing", "marginal"):
        row = found["noise"]["three of noise"][game]
        assert 0 <= row["strongest"]["mean"] <= row["together"]["mean"] <= 3 * row["strongest"]["mean"]
        assert row["together"]["mean"] < 0.8
        assert 0 < found["iris"][game]["mean"] < 0.8
    (one,) = found["stand_in"]["each"]
    assert 0.6 < one["r2_retrained"] < 0.78  # 1 - 1 / 12 of the 1.25 that the target varies by
    assert found["stand_in"]["worst_share"] == pytest.approx(one["r2"] / one["r2_retrained"])
    assert "| three of noise | marginal |" in document_tables.noise(found)


def test_columns_of_noise_are_correlated_where_they_should_be(monkeypatch):
    seen = []

    class Model:
        def fit(self, x, y):
            seen.append(x)
            assert ((x[:, 0] + x[:, 1] > 0) == y).all()
            return self

    monkeypatch.setattr(bench_noise, "HarsanyiClassifier", lambda **options: Model())
    monkeypatch.setattr(bench_noise, "mean_size", lambda model, x, game: np.array([4.0, 2.0, 1.0, 0.5]))
    found = bench_noise.noise_shares(50_000, 2, 0.5, 0, {})
    assert found["missing"] == found["marginal"] == {"strongest": 0.25, "together": 0.375}
    np.testing.assert_allclose(np.cov(seen[0].T), np.eye(4) + 0.5 * np.eye(4)[[0, 1, 3, 2]] * [0, 0, 1, 1], atol=0.03)


def test_defaults(tmp_path, capsys, monkeypatch):
    """Two candidates and two stand-ins for the peers on one table."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"a": rng.normal(size=200), "b": rng.choice(["u", "v"], 200)})
    tiny = Table("oj", x, x["a"] + (x["b"] == "u"), "regression", "", "")
    monkeypatch.setattr(development_tables.Source, "load", lambda source, name: tiny)

    def mean(x, y, task, threads):
        return lambda frame: np.full(len(frame), y.mean())

    monkeypatch.setattr(bench_defaults, "PEERS", {"catboost": mean, "lightgbm": mean})
    monkeypatch.setattr(bench_defaults, "warm_up", lambda names, candidates, threads: None)
    out = tmp_path / "defaults.json"
    arguments = ["bench", "defaults", "--quick", "-o", str(out), "--only", "oj", "--threads", "1"]
    settings = {"small": {"max_iter": 30, "learning_rate": 0.2}}
    assert main([*arguments, "--models", "catboost,lightgbm,small", "--settings", json.dumps(settings)]) == 0
    assert "loss / catboost" in capsys.readouterr().out
    found = json.loads((tmp_path / "defaults_quick.json").read_text())
    assert found["settings"] == settings
    assert found["failed"] == []
    one = found["models"]["small"]["against_catboost"]
    assert one["ratio"] < 0.6
    assert one["worst"] == {"table": "oj", "ratio": pytest.approx(one["ratio"])}
    assert f"| catboost | small | {one['ratio']:.3f} | 1 of 1 |" in document_tables.defaults(found)


def test_our_models_tell_their_structure():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    fitted = models.harsanyinet(x, x["a"].to_numpy() * 2, "regression", 1, max_iter=20, learning_rate=0.2)
    found = models.size_of_model(fitted.model, x)
    assert sum(found["order_spectrum"]) == pytest.approx(1, abs=1e-3)
    assert found["order_spectrum"][1] > 0.5
    assert found["trees"] == len(fitted.model.trees_) > 10
    assert found["coalitions"] == len(fitted.model.explain(x[:1]).coalitions)
    assert fitted(x).shape == (300,)


def test_spectra_of_different_length_are_averaged():
    assert bench_accuracy.mean_spectrum([[0.0, 1.0], [0.0, 0.5, 0.5]]) == [0.0, 0.75, 0.25]
