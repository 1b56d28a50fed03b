from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from harsanyinet import HarsanyiClassifier, cli, datasets, load
from harsanyinet.datasets import load_census
from harsanyinet.demos import table_demo as demo

# shap 0.51 sets up its colour maps in a way that matplotlib 3.11 will deprecate.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning:shap.*")

PLOTS = {
    "waterfall",
    "contrast",
    "importance",
    "beeswarm",
    "interactions",
    "network",
    "order_spectrum",
    "receptive_fields",
}


def pictures(folder):
    return {path.stem for path in folder.glob("*.png")}


@pytest.mark.needs("matplotlib")
@pytest.mark.needs("shapiq")
def test_demo(tmp_path, capsys):
    assert cli.main(["demo", "--quick", "-o", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "as exact as float64 is" in out
    assert "all 4,096 masks" in out
    assert "probability of '>50K'" in out
    assert "the decision is the same" in out
    for command in ("predict", "explain", "verify"):
        assert f"harsanyinet {command} {tmp_path / 'model.hnet'} {tmp_path / 'rows.csv'}" in out
    assert pictures(tmp_path) - {"strongest_pair"} == PLOTS | {"shape_age", "shape_capital-gain"}
    rows, test = pd.read_csv(tmp_path / "rows.csv"), load_census().test[:20]  # all with known categories
    assert list(rows.columns) == list(test.columns)
    assert len(rows) == 20
    assert json.loads((tmp_path / "certificate.json").read_text())["passed"] is True
    model = load(tmp_path / "model.hnet")
    np.testing.assert_array_equal(model.decision_function(rows), model.decision_function(test))


@pytest.mark.slow
@pytest.mark.needs("matplotlib")
def test_demo_without_census(tmp_path, monkeypatch):
    def absent():
        raise datasets.DatasetNotFoundError("not here")

    monkeypatch.setattr(demo, "load_census", absent)
    said: list[str] = []
    assert demo.run_demo(tmp_path, say=said.append, quick=True)
    assert "breast" in said[0]
    assert float(said[1].rpartition(": ")[2].removesuffix(" %")) > 70  # accuracy
    assert any("sampled masks" in line for line in said)  # 30 columns
    assert len(pictures(tmp_path) - {"strongest_pair"}) == len(PLOTS) + 1


def test_a_demo_that_is_not_exact_says_so(tmp_path, monkeypatch):
    real = HarsanyiClassifier.explain
    monkeypatch.setattr(HarsanyiClassifier, "explain", lambda self, X: real(self, X) * (1 + 1e-9))
    monkeypatch.setattr(demo, "draw", lambda *_: [])
    said: list[str] = []
    assert not demo.run_demo(tmp_path, say=said.append, quick=True)
    assert any("NOT EXACT" in line for line in said)


@pytest.mark.slow
def test_images(tmp_path, capsys):
    pytest.importorskip("torch")
    assert cli.main(["demo", "--images", "--quick", "-o", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "as exact as float32 is" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"images.hnet", "maps.png", "cell_interactions.png"}
