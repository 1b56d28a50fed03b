"""What is built can be installed into an empty folder and used from there; the experiments are in the sdist alone."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    place = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(place)], cwd=ROOT, check=True)
    return place


@pytest.fixture(scope="module")
def sdist(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source that was packed, unpacked."""
    place = tmp_path_factory.mktemp("source")
    with tarfile.open(next(built.glob("*.tar.gz"))) as packed:
        packed.extractall(place, filter="data")
    return next(place.iterdir())


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder into which one of the two was installed, without what it depends on."""
    place = tmp_path_factory.mktemp("site")
    if request.param == "wheel":
        what = next(request.getfixturevalue("built").glob("*.whl"))
    else:
        what = request.getfixturevalue("sdist")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(place)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(what)], check=True)
    return place


def run(place: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Python code with the installed package and the dependencies of this environment, but no other copy of ours."""
    start = (
        "import sys; from pathlib import Path; "
        "sys.path[:] = [sys.argv[1], *(p for p in sys.path if not Path(p, 'harsanyinet').is_dir())]\n"
        "import harsanyinet; assert Path(harsanyinet.__file__).is_relative_to(sys.argv[1])\n"
    )
    command = [sys.executable, "-I", "-c", start + code, str(place)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)


def test_what_is_in_them(built: Path, sdist: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"harsanyinet"}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/harsanyinet").rglob("*.py")}
    assert sources <= set(names)
    assert "harsanyinet/py.typed" in names
    for path in (
        "src/harsanyinet_experiments/paper.py",
        "tests/test_golden.py",
        "tests/golden/said.npz",
        "conftest.py",
    ):
        assert (sdist / path).is_file(), path


def test_the_installed_package_serves_a_table(installed: Path) -> None:
    code = """
import numpy as np
from harsanyinet import HarsanyiRegressor, load, verify
x = np.random.default_rng(0).normal(size=(60, 3))
model = HarsanyiRegressor(max_iter=5, learning_rate=0.2, progress=False).fit(x, x[:, 0])
model.save("m.hnet")
print(verify(load("m.hnet"), x[:3]).passed, harsanyinet.__version__)
"""
    done = run(installed, code)
    assert done.stdout.split() == ["True", __import__("harsanyinet").__version__], done.stderr
    assert done.stderr == ""


def test_all_modules_and_names_can_be_imported(installed: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("captum")
    pytest.importorskip("shapiq")
    code = """
import pkgutil
from importlib import import_module
for name in harsanyinet.__all__:
    getattr(harsanyinet, name)
names = [module.name for module in pkgutil.walk_packages(harsanyinet.__path__, "harsanyinet.")]
for name in names:
    import_module(name)
print(len(names))
"""
    done = run(installed, code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 60


@pytest.mark.parametrize("command", ["['bench', 'core']", "['reproduce', 'table1']"])
def test_the_installed_command_says_where_the_experiments_are(installed: Path, command: str) -> None:
    done = run(installed, f"from harsanyinet.cli import main; raise SystemExit(main({command}))")
    assert (done.returncode, done.stdout) == (2, "")
    assert "run them in a checkout of the source" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_version_stands_in_one_place(built: Path) -> None:
    import harsanyinet

    for path in built.iterdir():
        assert path.name.startswith(f"harsanyinet-{harsanyinet.__version__}"), path.name
