"""The benchmarks of networks run and write what they say they do."""

from __future__ import annotations

import json

import pytest

from harsanyinet.cli import main
from harsanyinet_experiments import bench_core, bench_exactness


@pytest.mark.slow
def test_bench_core(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench_core, "BATCHES", (1, 8))
    monkeypatch.setattr(bench_core, "cases", lambda quick: [bench_core.Case(4, "activation", 6, 2, {})])
    code = main(["bench", "core", "--quick", "-o", str(tmp_path / "r" / "core.json")])
    assert code == 0
    result = json.loads((tmp_path / "r" / "core.json").read_text())
    assert [row["batch"] for row in result["rows"]] == [1, 8]
    assert all(row["explain_ms"] > 0 and row["forward/plain"] > 0 for row in result["rows"])
    assert set(result["rows"][-1]["peak_mib"]) == {"plain", "forward", "explain"}
    assert "activation" in capsys.readouterr().out


def test_bench_exactness(tmp_path, monkeypatch):
    """The paper's configuration, hardly trained: exact all the same."""
    real = bench_exactness.label_coded
    monkeypatch.setattr(bench_exactness, "label_coded", lambda split: tuple(part[:600] for part in real(split)))
    code = main(["bench", "exactness", "--quick", "-o", str(tmp_path / "e.json")])
    assert code == 0
    ours = json.loads((tmp_path / "e.json").read_text())["ours"]
    assert len(ours) == 2
    for found in ours.values():
        assert found["rmse_float64"] < 1e-13
        assert found["rmse_float32"] < 1e-6
        assert found["max_logit"] > 0.01
