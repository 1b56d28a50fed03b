"""Ctrl-C: a real signal to a real process ends it within two seconds of work, with code 130 and without half a file."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.batch.fit_files import fit_file

COMMAND = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "  # ignored in the background
    "from harsanyinet.cli import main; raise SystemExit(main(sys.argv[1:]))"
)


def seconds_of(pid: int) -> float:
    """Seconds of work of a process; on a busy machine those of the clock say little."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def seconds_of_children() -> float:
    """Of all that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interrupts")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 8)), columns=[f"x{i}" for i in range(8)])
    frame["y"] = (frame["x0"] + frame["x1"] * frame["x2"] > 0).astype(int)
    frame.to_csv(folder / "t.csv", index=False)
    pd.concat([frame] * 20).to_csv(folder / "long.csv", index=False)
    fit_file(folder / "t.csv", "y", folder / "m.hnet", max_iter=30, random_state=0, progress=False)
    return folder


@pytest.mark.parametrize(
    ("arguments", "working"),
    [
        (["fit", "t.csv", "--target", "y", "--max-iter", "1000000", "--learning-rate", "0.001"], "because"),
        (["fit", "t.csv", "--target", "y", "--max-iter", "1000000"], "because"),
        (["predict", "m.hnet", "long.csv", "--chunk", "1"], None),
        (["explain", "m.hnet", "long.csv", "--chunk", "1"], None),
        (["explain", "m.hnet", "long.csv", "--chunk", "100"], None),
    ],
)
@pytest.mark.parametrize("after", [0.1, 1.5])
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="seconds of work are read there")
def test_the_command_line(folder, tmp_path, arguments, working, after):
    out, before = tmp_path / "out.csv", seconds_of_children()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments, "-o", str(out)], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    try:
        if working is not None:
            assert working in process.stderr.readline()
        while working is None and not any(tmp_path.iterdir()):  # the file is written beside its place
            time.sleep(0.01)
        time.sleep(after)
        assert process.poll() is None
        so_far = seconds_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert seconds_of_children() - before - so_far < 2
    finally:
        process.kill()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "work",
    [
        lambda x, y: HarsanyiClassifier(max_iter=100_000, learning_rate=0.001, progress=False).fit(x, y),
        lambda x, y: HarsanyiRegressor(max_iter=100_000, progress=False, n_jobs=2).fit(x, y),
        lambda x, y: cross_val_score(HarsanyiClassifier(max_iter=100_000, progress=False), x, y, error_score=np.nan),
    ],
    ids=["classifier", "regressor", "cross_val_score"],
)
def test_python_gets_the_exception(folder, work):
    frame = pd.read_csv(folder / "t.csv")
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    fired = []
    timer = threading.Timer(1.0, lambda: fired.append(time.process_time()) or signal.raise_signal(signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            work(frame.drop(columns="y"), frame["y"])
        assert time.process_time() - fired[0] < 2
    finally:
        timer.join()
        signal.signal(signal.SIGINT, handler)
