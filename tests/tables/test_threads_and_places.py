"""Several threads, forks, a read-only installation without a home folder, and what is imported when."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import harsanyinet
from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, load

OPTIONS = {"max_iter": 20, "learning_rate": 0.1, "random_state": 0, "progress": False}
SOURCE = Path(harsanyinet.__file__).parent.parent
NOBODY = 65534


def table(n_rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    frame["colour"] = rng.choice(["red", "green", "blue"], n_rows)
    frame.loc[::7, "a"] = np.nan
    return frame


def model_file(folder: Path) -> Path:
    frame = table()
    model = HarsanyiClassifier(**OPTIONS).fit(frame, frame["b"] * frame["c"] > 0)
    model.save(folder / "model.hnet")
    frame.to_csv(folder / "rows.csv", index=False)
    return folder / "model.hnet"


def run(script: str, *arguments: object, env: dict[str, str] | None = None, source: Path = SOURCE) -> str:
    """What a Python process of its own prints."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
        env=own | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"} | (env or {}), cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# Threads


@pytest.mark.parametrize("n_rows", [12, 3000])
def test_eight_threads_explain_at_once(n_rows, tmp_path):
    """One model, nothing planned before they start; all kinds of questions at the same time."""
    path = model_file(tmp_path)
    frame = table().iloc[np.random.default_rng(1).integers(0, 300, n_rows)]
    questions = [
        lambda m: m.decision_function(frame),
        lambda m: m.decision_function(frame, present=[True, False, True, True, True]),
        lambda m: m.explain(frame).values,
        lambda m: m.explain(frame, game="marginal").values,
        lambda m: m.explain(frame, game="baseline", baseline=table()[:1]).values,
        lambda m: m.explain(frame).index("SII", 2).values,
        lambda m: m.explain(frame, game="marginal").order_spectrum(),
        lambda m: m.explain(frame).dividends[:50],
    ]
    expected = [ask(load(path)) for ask in questions]
    for _ in range(5):
        shared, start = load(path), threading.Barrier(8)

        def work(number: int, shared=shared, start=start) -> list[np.ndarray]:
            start.wait(timeout=60)
            return [questions[(number + i) % 8](shared) for i in range(8)]

        with ThreadPoolExecutor(8) as pool:
            for number, found in enumerate(pool.map(work, range(8))):
                for i, values in enumerate(found):
                    np.testing.assert_array_equal(values, expected[(number + i) % 8])


def test_threads_that_use_threads():
    """Large batches have pools of their own, which several callers may have at the same time."""
    frame = table()
    model = HarsanyiRegressor(**OPTIONS, n_jobs=2).fit(frame, frame["b"] * frame["c"])
    many = frame.iloc[np.arange(40_000) % 300]
    expected = model.explain(many).values
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: model.explain(many).values, range(4)):
            np.testing.assert_array_equal(found, expected)


def test_several_threads_fit_at_once():
    frame = table()
    y = frame["b"] * frame["c"]
    expected = HarsanyiRegressor(**OPTIONS, n_jobs=2).fit(frame, y).predict(frame)
    with ThreadPoolExecutor(4) as pool:
        fitted = pool.map(lambda _: HarsanyiRegressor(**OPTIONS, n_jobs=2).fit(frame, y), range(4))
        for model in fitted:
            np.testing.assert_array_equal(model.predict(frame), expected)


def test_no_threads_are_left_behind():
    before = threading.active_count()
    frame = table()
    model = HarsanyiRegressor(**OPTIONS, n_jobs=2).fit(frame, frame["b"])
    model.explain(frame.iloc[np.arange(40_000) % 300])
    assert threading.active_count() == before


# Forks


FORK = """
import multiprocessing, sys
import numpy as np, pandas as pd
from harsanyinet import HarsanyiRegressor

rng = np.random.default_rng(0)
x = rng.normal(size=(400, 3))
model = HarsanyiRegressor(max_iter=10, learning_rate=0.1, n_jobs=2, random_state=0, progress=False).fit(x, x[:, 0])
many = x[np.arange(40_000) % 400]
expected = model.explain(many).values, model.predict(many)

def child(queue):
    try:
        again = HarsanyiRegressor(**model.get_params()).fit(x, x[:, 0])
        same = np.array_equal(model.explain(many).values, expected[0])
        queue.put(bool(same and np.array_equal(again.predict(many), expected[1])))
    except BaseException as error:
        queue.put(repr(error))

context = multiprocessing.get_context("fork")
queue = context.Queue()
children = [context.Process(target=child, args=(queue,)) for _ in range(2)]
for one in children:
    one.start()
print([queue.get(timeout=60) for _ in children])
for one in children:
    one.join(timeout=60)
print([one.exitcode for one in children], np.array_equal(model.explain(many).values, expected[0]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_after_predict_predicts_explains_and_fits():
    assert run(FORK).split("\n")[:2] == ["[True, True]", "[0, 0] True"]


# What is imported


def test_tables_need_no_torch(tmp_path):
    script = """
import sys
import numpy as np, pandas as pd
from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, load, save
rng = np.random.default_rng(0)
x = pd.DataFrame({"a": rng.normal(size=200), "c": rng.choice(["u", "v"], 200)})
model = HarsanyiRegressor(max_iter=5, learning_rate=0.1, progress=False).fit(x, x["a"])
ex = model.explain(x, game="marginal")
ex.index("SII", 2); ex.to_frame(); ex.smallest_set(0); ex.save(sys.argv[1] + ".ex")
save(model, sys.argv[1])
load(sys.argv[1]).explain(x[:3]).values
HarsanyiClassifier(max_iter=5, progress=False).fit(x, x["a"] > 0).predict_proba(x)
print("torch" in sys.modules, "numba" in sys.modules)
"""
    assert run(script, tmp_path / "model.hnet").split() == ["False", "True"]


def test_a_model_that_is_loaded_explains_a_few_rows_without_numba(tmp_path):
    path = model_file(tmp_path)
    script = """
import sys
import pandas as pd
from harsanyinet import load
model, rows = load(sys.argv[1]), pd.read_csv(sys.argv[2])
model.predict(rows[:10]); model.predict_proba({"a": 1.0, "colour": "red"})
for game, options in (("missing", {}), ("marginal", {}), ("baseline", {"baseline": rows[:1]})):
    ex = model.explain(rows[:10], game=game, **options)
    ex.values; ex.index("SII", 2); ex.order_spectrum(); ex.value([True] * 5); ex.dividends
print("torch" in sys.modules, "numba" in sys.modules)
model.explain(pd.concat([rows] * 10))
print("torch" in sys.modules, "numba" in sys.modules)
"""
    assert run(script, path, tmp_path / "rows.csv").split() == ["False", "False", "False", "True"]


# Places


def installed_read_only(place: Path) -> Path:
    """A copy of the package beside which nothing can be kept, whoever asks: a file stands where the folder would be."""
    shutil.copytree(SOURCE / "harsanyinet", place / "site/harsanyinet", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "site/harsanyinet/tables/__pycache__").write_text("in the way")
    return place / "site"


def homeless(place: Path) -> dict[str, str]:
    """No home folder to write into, and a folder for what is temporary."""
    (place / "home").write_text("in the way")
    (place / "tmp").mkdir()
    home = str(place / "home")
    return {"HOME": home, "XDG_CACHE_HOME": home, "TMPDIR": str(place / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}


FIT = """
import numpy as np
from harsanyinet import HarsanyiRegressor
from harsanyinet.tables import kernels
x = np.random.default_rng(0).normal(size=(200, 3))
model = HarsanyiRegressor(max_iter=5, learning_rate=0.1, random_state=0, progress=False).fit(x, x[:, 0])
values = model.explain(np.repeat(x, 20, axis=0)).values
assert values.shape == (4000, 3) and np.isfinite(values).all()
print(kernels.find_bins._cache.cache_path, kernels.look_up._cache.cache_path)
import numba
print(repr(numba.config.CACHE_DIR))
"""


posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no such users here")


@pytest.mark.slow
@posix
def test_a_read_only_installation_without_a_home_keeps_loops_in_a_temporary_folder(tmp_path):
    site, env = installed_read_only(tmp_path), homeless(tmp_path)
    found = run(FIT, env=env, source=site).splitlines()
    own = tmp_path / "tmp" / f"harsanyinet-{os.getuid()}"
    assert all(Path(path).is_relative_to(own) for path in found[0].split())
    assert found[1] == "''"  # the setting of the process is as before
    assert len(list(own.rglob("*.nbi"))) > 5
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    compiled = {path: path.stat().st_mtime_ns for path in own.rglob("*.nbc")}
    assert run(FIT, env=env, source=site).splitlines() == found
    assert {path: path.stat().st_mtime_ns for path in own.rglob("*.nbc")} == compiled  # and not compiled again


@pytest.mark.slow
@posix
@pytest.mark.parametrize("folder", ["cannot be written", "does not exist"])
def test_without_any_place_loops_are_compiled_anew(folder, tmp_path):
    script = {
        "cannot be written": "import tempfile\ntempfile.tempdir = '/dev/null/tmp'\n",
        "does not exist": """
import tempfile
def nowhere():
    raise FileNotFoundError("No usable temporary directory found")
tempfile.gettempdir = nowhere
""",
    }[folder]
    found = run(script + FIT, env=homeless(tmp_path), source=installed_read_only(tmp_path)).splitlines()
    assert found == ["None None", "''"]


@pytest.mark.slow
@posix
@pytest.mark.parametrize("folder", ["open to all", "of somebody else"])
def test_loops_are_not_loaded_from_a_folder_that_others_can_write(folder, tmp_path):
    """What is compiled is loaded as code: the folder must belong to the user alone."""
    site, env = installed_read_only(tmp_path), homeless(tmp_path)
    trap = tmp_path / "tmp" / f"harsanyinet-{os.getuid()}"
    trap.mkdir()
    if folder == "open to all":
        trap.chmod(0o777)
    elif os.getuid() == 0:
        os.chown(trap, NOBODY, NOBODY)
    else:
        pytest.skip("only root can give a folder away")
    found = run(FIT, env=env, source=site).splitlines()
    assert not any(Path(path).is_relative_to(trap) for path in found[0].split())
    assert list(trap.iterdir()) == []


@pytest.mark.slow
def test_a_package_that_can_be_written_keeps_its_loops_beside_it(tmp_path):
    shutil.copytree(SOURCE / "harsanyinet", tmp_path / "harsanyinet", ignore=shutil.ignore_patterns("__pycache__"))
    found = run(FIT, source=tmp_path).splitlines()
    beside = tmp_path / "harsanyinet" / "tables" / "__pycache__"
    assert found[0].split() == [str(beside)] * 2
    assert list(beside.glob("kernels.tree_states-*.nbi"))
