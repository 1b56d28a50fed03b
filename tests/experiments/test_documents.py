"""All examples of the documents run and print what stands below them; tables and sentences are of the result files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from harsanyinet_experiments.document_tables import TABLES, explanation_speeds, loss_ratios
from harsanyinet_experiments.documents import BLOCK, SECTION, fill, pages, renew, run, same

ROOT = Path(__file__).parents[2]
PAGES = [page.relative_to(ROOT).as_posix() for page in pages(ROOT)]
OTHERS = [name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md") if (ROOT / name).exists()]
WITH_BLOCKS = [page for page in PAGES if BLOCK.search((ROOT / page).read_text())]
WITH_SECTIONS = [page for page in PAGES if SECTION.search((ROOT / page).read_text())]


def result(name):
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


NEEDS = {"docs/EXPORT.md": ("onnx", "mlflow")}
MARKED = [pytest.param(page, marks=pytest.mark.needs(*NEEDS.get(page, ()))) for page in WITH_BLOCKS]


@pytest.mark.slow
@pytest.mark.parametrize("page", MARKED)
def test_the_blocks_run_in_order_and_print_what_stands_below_them(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    renewed = run(text, page)
    plt.close("all")
    assert renewed == text


def test_every_fenced_block_is_run_or_is_the_output_of_one():
    for page in PAGES:
        rest = BLOCK.sub("", (ROOT / page).read_text())
        assert "```" not in rest, page


def test_what_is_printed_is_put_below_the_block(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "```python\na = 1.5\nprint('is', a)\n```\n```text\nis 2.5\n```\n```python\nprint(a)\n```\n"
    assert run(text, "page") == text.replace("is 2.5", "is 1.5")


def test_all_pages_are_made_anew_and_a_broken_one_is_left_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("```python\nopen('a', 'w').close()\nprint(7)\n```\n```text\n```\n")
    page = tmp_path / "docs" / "PAGE.md"
    page.write_text("<!-- results/bench_large.json -->\n<!-- end -->\n```python\nassert not open('a')\n```\n")
    before = page.read_text()
    with pytest.raises(FileNotFoundError):  # every page has a folder of its own
        renew(Path())
    assert (tmp_path / "README.md").read_text().endswith("```text\n7\n```\n")
    assert page.read_text() == before
    assert not (tmp_path / "a").exists()
    page.write_text(before.replace("assert not open('a')", "2 + 2"))
    renew(Path())
    assert "Not measured yet." in page.read_text()


def test_a_broken_block_and_a_failing_command_are_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZeroDivisionError):
        run("```python\n1 / 0\n```\n", "page")
    with pytest.raises(RuntimeError, match="code 0, however: 2"):
        run("```sh\nharsanyinet predict nothing.hnet nothing.csv\n```\n", "page")
    with pytest.raises(RuntimeError, match="must call harsanyinet"):
        run("```sh\nrm nothing\n```\n", "page")


def test_only_rounding_may_differ():
    assert same("error 1.2e-15 of 285.2, 1,024 masks", "error 8.5e-16 of 285.2, 1,024 masks")
    assert not same("error 1.2e-15", "error 1.2e-9")
    assert not same("error 1.52", "error 1.53")
    assert not same("5 rows", "5 lines")
    assert not same("1 2", "1 2 3")


def test_the_front_page_is_short_and_begins_with_a_table():
    readme = (ROOT / "README.md").read_bytes()
    assert len(readme) < 7000
    languages = [language for language, *_ in BLOCK.findall(readme.decode())]
    assert languages.index("python") == 1  # after the installation


def test_every_result_stands_in_one_document():
    shown = [name + which for page in PAGES for _, name, which in SECTION.findall((ROOT / page).read_text())]
    assert sorted(shown) == sorted(TABLES)


@pytest.mark.parametrize("page", WITH_SECTIONS)
def test_the_tables_are_those_of_the_result_files(page):
    text = (ROOT / page).read_text()
    assert fill(text, ROOT) == text


@pytest.mark.parametrize("page", WITH_SECTIONS)
def test_a_changed_result_changes_the_text(page, tmp_path):
    (tmp_path / "results").mkdir()
    text = (ROOT / page).read_text()
    for _, name, _ in SECTION.findall(text):
        if (ROOT / "results" / f"{name}.json").exists():
            content = (ROOT / "results" / f"{name}.json").read_text()
            (tmp_path / "results" / f"{name}.json").write_text(
                re.sub(r'"(accuracy|explain_us_per_row|mean)": [\d.]+', r'"\1": 77.7', content)
            )
    assert fill(text, tmp_path) != text


def test_a_result_that_is_not_there_is_said_to_be_so(tmp_path):
    text = "<!-- results/bench_large.json -->\nold figures\n<!-- end -->\n"
    assert fill(text, tmp_path) == text.replace("old figures", "Not measured yet.")


def test_our_losses_are_told():
    accuracy = result("bench_accuracy")
    lost = [(model, table) for model, of in loss_ratios(accuracy).items() for table, ratio in of.items() if ratio > 1]
    sentence = TABLES["bench_accuracy, where we lose"](accuracy)
    assert sentence.count(" x)") == len(lost)
    means = accuracy["datasets"]["breast_cancer"]
    ratio = means["harsanyinet"]["log_loss"]["mean"] / means["catboost"]["log_loss"]["mean"]
    assert loss_ratios(accuracy)["catboost"]["breast_cancer"] == pytest.approx(ratio, rel=1e-9)
    best = dict.fromkeys(accuracy["loss_ratios"]["to catboost"]["harsanyinet"]["by_table"], 0.5)
    accuracy["loss_ratios"]["to catboost"]["harsanyinet"]["by_table"] = best
    assert "larger than no other" in TABLES["bench_accuracy, where we lose"](accuracy)


def test_losses_on_large_tables_are_told():
    def row(case, model, loss, seconds):
        sizes = {"rows": 10**6, "columns": 12, "classes": 2}
        return {"case": case, "model": model, "log_loss": loss, "fit_seconds": seconds, **sizes}

    rows = [
        row("rows", "harsanyinet", 0.3, 10.0),
        row("columns", "harsanyinet", 0.2, 10.0),
        row("columns", "catboost", 0.1, 20.0),
        row("rows", "catboost", 0.6, 4.0),
        row("rows", "lightgbm", 1.0, 11.0),
    ]
    assert TABLES["bench_large, where we lose"]({"rows": rows}) == (
        "Of large made-up tables our log-loss is larger than CatBoost's on 12 columns (2.000 x), and a fit takes "
        "longer than CatBoost's on 1,000,000 rows (2.5 x)."
    )


def test_further_tables_that_are_clearly_lost_are_named():
    one = {
        "n_tables": 5,
        "standard_error": 0.01,
        "samples": {},
        "fit_time_ratio": 0.5,
        "worst": {"table": "c", "ratio": 1.2},
    }
    catboost = one | {"wins": 2, "ratio": 0.9, "by_table": {"a": 0.5, "b": 1.04, "c": 1.2, "d": 0.9, "e": 1.06}}
    lightgbm = one | {"wins": 5, "ratio": 0.5, "by_table": {"a": 0.5}}
    result = {"models": {"default": {"against_catboost": catboost, "against_lightgbm": lightgbm}}}
    said = TABLES["bench_further"](result)
    assert "| catboost | default | 0.900 ± 0.010 | 2 of 5 | c 1.200 | 0.50 |" in said
    assert (
        "ours is 1.040 x CatBoost's, and it is more than five per cent larger on c (1.200 x) and e (1.060 x)." in said
    )
    assert "ours is 0.500 x LightGBM's, and it is more than five per cent larger on none." in said
    short = "On 5 further ones, where nothing was chosen, CatBoost's loss is smaller on 3 (c, 1.20 x), LightGBM's on 0."
    assert TABLES["bench_further, in short"](result) == short


def test_a_faster_explanation_is_told():
    speed = result("bench_speed")
    for row in speed["rows"]:
        if row["name"] == "lightgbm: pred_contrib":
            row["us"]["4096"] = explanation_speeds(speed)["harsanyinet"]["4096"] / 5
    assert "LightGBM's pred_contrib (5.0 x, on 4,096 rows at once)" in TABLES["bench_speed, where we lose"](speed)


def test_the_papers_configuration_is_exact():
    assert all(row["rmse_float64"] < 1e-13 for row in result("bench_exactness")["ours"].values())


@pytest.mark.parametrize("name", [*PAGES, *OTHERS])
def test_no_dangling_links(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert ((ROOT / name).parent / target).exists(), target
