"""Without an optional package: tables are served whole, and whatever else is asked for gets one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WITHOUT_TORCH = """
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "torch" else super().find_spec(name, path, target)
sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""
SENTENCE = "networks need torch: pip install torch --index-url https://download.pytorch.org/whl/cpu"


def run(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


TABLE = """
import sys
import numpy as np, pandas as pd
from harsanyinet import HarsanyiClassifier, load, save, verify
rng = np.random.default_rng(0)
x = pd.DataFrame({"a": rng.normal(size=200), "c": rng.choice(["u", "v"], 200)})
model = HarsanyiClassifier(max_iter=5, learning_rate=0.1, progress=False).fit(x, x["a"] > 0)
explained = model.explain(x)
assert np.allclose(explained.values.sum(1) + explained.base_values, model.decision_function(x), atol=1e-12)
assert verify(model, x[:4]).passed
save(model, sys.argv[1])
again = load(sys.argv[1])
assert np.array_equal(again.explain(x).values, explained.values)
print(sys.modules.get("torch"))
"""


@pytest.mark.parametrize("start", ["", WITHOUT_TORCH], ids=["with torch", "without torch"])
def test_a_table_is_fitted_explained_verified_saved_and_loaded_without_torch(start: str, tmp_path: Path) -> None:
    assert run(start + TABLE, tmp_path / "model.hnet") == "None\n"


NETWORKS = """
import harsanyinet
from importlib import import_module
def say(ask):
    try:
        ask()
        print("nothing was said")
    except ImportError as error:
        print(error)
for name in ("HarsanyiMLP", "HarsanyiCNN", "HarsanyiNet", "HarsanyiImageClassifier", "Attribution", "load_official"):
    say(lambda: getattr(harsanyinet, name))
for room in ("networks.mlp", "images.cnn", "training", "peers"):
    say(lambda: import_module("harsanyinet." + room))
say(lambda: harsanyinet.load(sys.argv[1]))
"""


def test_a_network_without_torch_gets_one_sentence() -> None:
    said = run(WITHOUT_TORCH + NETWORKS, ROOT / "tests/golden/mlp.hnet").splitlines()
    assert len(said) == 11
    assert {line[: len(SENTENCE)] for line in said} == {SENTENCE}


def test_the_command_line_without_torch() -> None:
    code = "from harsanyinet.cli import main; raise SystemExit(main(['demo', '--images']))"
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH + code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"harsanyinet: {SENTENCE}")
    assert done.stderr.count("\n") == 1


# How tests are left out


def exit_code(place: Path, content: str, required: str) -> int:
    """The exit code of pytest on one file, under our conftest and in a process without torch."""
    (place / "test_it.py").write_text(content)
    (place / "without_torch.py").write_text(WITHOUT_TORCH)
    environment = {**os.environ, "HARSANYINET_REQUIRE": required, "PYTHONPATH": f"{ROOT}{os.pathsep}{place}"}
    options = ["-p", "without_torch", "-p", "conftest", "-p", "no:cacheprovider", "-c", os.devnull]
    command = [sys.executable, "-m", "pytest", *options, "--rootdir", str(place), str(place)]
    return subprocess.run(command, capture_output=True, check=False, env=environment, cwd=place).returncode


@pytest.mark.parametrize(
    ("content", "required", "code"),
    [
        ("import torch\ndef test_a(): pass\n", "", pytest.ExitCode.NO_TESTS_COLLECTED),
        ("import torch\ndef test_a(): pass\n", "networks", pytest.ExitCode.USAGE_ERROR),
        ("def test_a(): pass\n", "nothing-we-know", pytest.ExitCode.USAGE_ERROR),
        ("import pytest\ndef test_a(): pytest.importorskip('no_such_package')\n", "", pytest.ExitCode.OK),
        ("import pytest\ndef test_a(): pytest.importorskip('no_such_package')\n", "shap", pytest.ExitCode.TESTS_FAILED),
        ("import pytest\npytest.importorskip('no_such_package')\n", "", pytest.ExitCode.NO_TESTS_COLLECTED),
        ("import pytest\npytest.importorskip('no_such_package')\n", "shap", pytest.ExitCode.INTERRUPTED),
        ("import pytest\n@pytest.mark.needs('torch')\ndef test_a(): pass\n", "", pytest.ExitCode.OK),
        ("import pytest\ndef test_a(): pytest.skip('no data here')\n", "shap", pytest.ExitCode.OK),
    ],
)
def test_what_is_left_out_is_a_failure_where_it_is_required(
    tmp_path: Path, content: str, required: str, code: pytest.ExitCode
) -> None:
    if required == "shap":
        pytest.importorskip("shap")
    assert exit_code(tmp_path, content, required) == code


def test_the_continuous_run_requires_every_extra_that_tests_need() -> None:
    sys.path.insert(0, str(ROOT))
    try:
        from conftest import PACKAGES
    finally:
        sys.path.remove(str(ROOT))
    lines = (ROOT / ".ci/run").read_text().splitlines()
    named = next(line for line in lines if line.startswith("export HARSANYINET_REQUIRE="))
    assert set(named.partition("=")[2].split(",")) == set(PACKAGES)
