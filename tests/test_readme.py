"""The README runs, and its tables are those of the result files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from harsanyinet.experiments.readme import SECTION, TABLES, fill

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    plt.close("all")
    printed = capsys.readouterr().out
    shown = re.search(r"```\n(PASSED.*?)\n", README)
    assert shown is not None
    assert printed.splitlines()[0] == shown[1]
    values = names["ex"].values
    assert values.shape == (100, 5)
    strong, weak = abs(values[:, :3]).mean(), abs(values[:, 3:]).mean()
    assert weak < 0.2 * strong  # the noise columns of the example get little
    assert (tmp_path / "explanation.hnex").exists()


def test_the_tables_are_those_of_the_result_files():
    there = {name for name in TABLES if (ROOT / "results" / f"{name}.json").exists()}
    assert {name for _, _, name, _ in SECTION.findall(README)} == there
    assert fill(README, ROOT) == README


def test_a_changed_result_changes_the_text(tmp_path):
    (tmp_path / "results").mkdir()
    for _, _, name, _ in SECTION.findall(README):
        content = (ROOT / "results" / f"{name}.json").read_text()
        (tmp_path / "results" / f"{name}.json").write_text(
            re.sub(r'"(accuracy|explain_us_per_row)": [\d.]+', r'"\1": 77.7', content)
        )
    assert fill(README, tmp_path) != README


def test_the_papers_configuration_is_exact():
    ours = json.loads((ROOT / "results" / "bench_exactness.json").read_text())["ours"]
    assert all(found["rmse_float64"] < 1e-13 for found in ours.values())


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_no_dangling_links(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
