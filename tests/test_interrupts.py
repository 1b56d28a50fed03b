"""Ctrl-C: a real signal to a real process ends it within two seconds, with code 130 and without half a file."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

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
def test_the_command_line(folder, tmp_path, arguments, working, after):
    out = tmp_path / "out.csv"
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
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        _, err = process.communicate(timeout=20)
        assert time.monotonic() - started < 2
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
    timer = threading.Timer(1.0, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            work(frame.drop(columns="y"), frame["y"])
        assert time.monotonic() - started < 3
    finally:
        timer.join()
        signal.signal(signal.SIGINT, handler)
