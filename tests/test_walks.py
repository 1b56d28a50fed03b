"""The walks that CONTRIBUTING shows are those that calls take: which files are entered, and in which order."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import harsanyinet
from harsanyinet import HarsanyiClassifier, load
from harsanyinet.cli import main

SOURCE = Path(harsanyinet.__file__).parent
TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
FEW = {"max_iter": 10, "max_depth": 3, "learning_rate": 0.2, "random_state": 0, "n_jobs": 1, "progress": False}


def written(title: str) -> list[str]:
    """The files of a walk, in the order in which CONTRIBUTING names them."""
    section = TEXT.partition("## Walks\n")[2].partition("\n## ")[0]
    (walk,) = (part for part in section.split("\n\n") if part.startswith(f"**{title}"))
    return list(dict.fromkeys(re.findall(r"`([\w/]+\.py)`", walk)))


def entered(call) -> list[str]:
    """The files of ours whose functions a call enters, in order; bodies of modules and classes do not count."""
    files: dict[str, None] = {}

    def look(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(str(SOURCE)):
            files.setdefault(Path(code.co_filename).relative_to(SOURCE).as_posix())

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(files)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"size": rng.normal(size=120), "colour": rng.choice(["red", "blue"], 120)})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A model file, and a table beside it."""
    folder = tmp_path_factory.mktemp("walks")
    HarsanyiClassifier(**FEW).fit(table(), table()["size"] > 0).save(folder / "model.hnet")
    table().to_csv(folder / "rows.csv", index=False)
    return folder


def test_fit_of_a_table():
    model = HarsanyiClassifier(**{**FEW, "learning_rate": None})
    files = entered(lambda: model.fit(table(), table()["size"] > 0))
    walk = written("A table's `fit`")
    assert [file for file in files if file in walk] == walk


def test_explain_of_a_table(path):
    model = load(path / "model.hnet")
    files = entered(lambda: model.explain(table()).values)
    walk = written("A table's `explain`")
    assert [file for file in files if file in walk] == walk
    assert len(files) <= len(walk) + 2  # nothing of weight is left out


def test_explain_of_a_network():
    torch = pytest.importorskip("torch")
    net = harsanyinet.HarsanyiMLP(4, 2, width=20, seed=0).eval()
    files = entered(lambda: net.explain(torch.zeros(3, 4)).values)
    walk = written("A network's `explain`")
    assert [file for file in files if file in walk] == walk


def test_explain_by_the_command_line(path):
    arguments = ["explain", path / "model.hnet", path / "rows.csv", "-o", path / "values.csv"]
    files = entered(lambda: main([str(argument) for argument in arguments]))
    walk = written("The command line's `explain`")
    assert [file for file in files if file in walk] == walk
    assert len(pd.read_csv(path / "values.csv")) == 120
