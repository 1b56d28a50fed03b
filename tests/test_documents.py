"""The README runs, and the tables of the documents are those of the result files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from harsanyinet.experiments.documents import PAGES, SECTION, TABLES, fill

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
    assert printed.startswith(shown[1].removesuffix("..."))
    values = names["ex"].values
    assert values.shape == (100, 5)
    strong, weak = abs(values[:, :3]).mean(), abs(values[:, 3:]).mean()
    assert weak < 0.2 * strong  # the noise columns of the example get little
    assert (tmp_path / "explanation.hnex").exists()


def test_every_result_stands_in_a_document():
    there = [name for name in TABLES if (ROOT / "results" / f"{name.removesuffix(', in short')}.json").exists()]
    shown = [name + short for page in PAGES for _, name, short in SECTION.findall((ROOT / page).read_text())]
    assert sorted(shown) == sorted(there)


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_are_those_of_the_result_files(page):
    text = (ROOT / page).read_text()
    assert fill(text, ROOT) == text


@pytest.mark.parametrize("page", PAGES)
def test_a_changed_result_changes_the_text(page, tmp_path):
    (tmp_path / "results").mkdir()
    text = (ROOT / page).read_text()
    for _, name, _ in SECTION.findall(text):
        content = (ROOT / "results" / f"{name}.json").read_text()
        (tmp_path / "results" / f"{name}.json").write_text(
            re.sub(r'"(accuracy|explain_us_per_row|mean)": [\d.]+', r'"\1": 77.7', content)
        )
    assert fill(text, tmp_path) != text


def test_the_papers_configuration_is_exact():
    ours = json.loads((ROOT / "results" / "bench_exactness.json").read_text())["ours"]
    assert all(found["rmse_float64"] < 1e-13 for found in ours.values())


@pytest.mark.parametrize("name", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_no_dangling_links(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert ((ROOT / name).parent / target).exists(), target
