"""The pictures of the front page show what the result files hold."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from harsanyinet_experiments import pictures
from harsanyinet_experiments.document_tables import SHOWN, explanation_speeds, loss_ratios

ROOT = Path(__file__).parents[2]


def result(name):
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def test_every_loss_and_every_win_is_a_point():
    accuracy, chosen_on = result("bench_accuracy"), result("bench_defaults")
    left, right = pictures.accuracy(accuracy, chosen_on).axes
    ratios = loss_ratios(accuracy)
    for model, points in zip(ratios, left.collections, strict=False):
        assert points.get_label() == SHOWN[model]
        drawn = np.sort(np.asarray(points.get_offsets())[:, 0])
        np.testing.assert_allclose(drawn, np.sort(list(ratios[model].values())))
        assert left.get_xlim()[0] < drawn[0]
        assert drawn[-1] < left.get_xlim()[1]
    against = chosen_on["models"]["default"]["against_catboost"]
    assert len(right.collections[0].get_offsets()) == against["n_tables"] + len(against["samples"])


def test_what_is_faster_than_ours_is_marked():
    speed = result("bench_speed")
    figure = pictures.speed(speed)
    for ax, batch in zip(figure.axes, ("4096", "1"), strict=True):
        times = {name: us[batch] for name, us in explanation_speeds(speed).items() if batch in us}
        faster = [name for name, time in times.items() if time < times["harsanyinet"]]
        assert sum(text.get_color() == pictures.WORSE for text in ax.texts) == len(faster)


DRAWN = {
    "speed": lambda: pictures.speed(result("bench_speed")),
    "maps": lambda: pictures.image_maps(result("reproduce_image_maps")),
    "accuracy": lambda: pictures.accuracy(result("bench_accuracy"), result("bench_defaults")),
}


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_is_cut_off_and_no_label_covers_another(name):
    figure = DRAWN[name]()
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    boxes = {}
    for ax in figure.axes:
        labels = [ax.title, *ax.texts, *(ax.get_yticklabels() if ax.yaxis.get_tick_params()["labelleft"] else [])]
        boxes |= {text: text.get_window_extent() for text in labels if text.get_text()}
    for text, box in boxes.items():
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= 0, text.get_text()
    for a, b in combinations(boxes, 2):
        assert not boxes[a].overlaps(boxes[b]), (a.get_text(), b.get_text())


def test_the_values_of_the_maps_are_the_outputs():
    maps = pictures.image_maps(result("reproduce_image_maps"))
    examples = result("reproduce_image_maps")["datasets"]["cifar10"]["masked"]["examples"]
    for ax, example in zip(maps.axes[len(examples) :], examples, strict=True):
        base, cells = (float(line.split()[at]) for line, at in zip(ax.get_title().split("\n"), (0, -1), strict=True))
        assert base + cells == pytest.approx(example["outputs"][example["label"]], abs=0.011)


@pytest.mark.slow
def test_all_pictures_are_drawn_into_the_folder(tmp_path):
    (tmp_path / "results").symlink_to(ROOT / "results")
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "README.md").write_text(readme)
    pictures.draw(tmp_path)
    drawn = {path.name for path in (tmp_path / "docs" / "pictures").iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs" / "pictures").iterdir()}
    assert all(f"docs/pictures/{name}" in readme for name in drawn)
