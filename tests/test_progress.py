"""Bars for people who watch, and none in a log."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios

import numpy as np
import pandas as pd
import pytest

from harsanyinet import progress

COMMAND = """
import sys
from harsanyinet import cli, progress
progress.DELAY = 0.0
raise SystemExit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_or_a_notebook_shows_bars(monkeypatch, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert progress.visible() == terminal
    assert not progress.visible(False)
    with progress.bar("counting", 3) as shown:
        assert shown.disable == (not terminal)
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    assert progress.visible()
    assert not progress.visible(False)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A table whose fit takes a while."""
    folder = tmp_path_factory.mktemp("slow")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(8000, 12)), columns=[f"x{i}" for i in range(12)])
    frame["y"] = frame["x0"] + frame["x1"] * frame["x2"] + rng.normal(size=8000)
    frame.to_csv(folder / "t.csv", index=False)
    return folder


def test_a_log_has_no_bars(slow, tmp_path):
    command = [sys.executable, "-c", COMMAND, "fit", "t.csv", "--target", "y", "-o", str(tmp_path / "m.hnet")]
    done = subprocess.run([*command, "--max-iter", "300"], cwd=slow, capture_output=True, text=True, check=True)
    assert done.stderr.count("\n") == 1
    assert not re.search(r"%|\r", done.stderr)


def test_a_terminal_has_named_bars(slow, tmp_path):
    command = [sys.executable, "-c", COMMAND, "fit", "t.csv", "--target", "y", "-o", str(tmp_path / "m.hnet")]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    with subprocess.Popen([*command, "--max-iter", "300"], cwd=slow, stdout=subprocess.DEVNULL, stderr=theirs) as run:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # it has ended
                break
            if not part:
                break
            text += part
        assert run.wait() == 0
    os.close(ours)
    assert re.search(
        r"looking for a learning rate: \d+ ?tree", text.decode()
    )  # nobody knows how many: no share of them
    shares = re.findall(r"([a-z ]+): +(\d+)%", text.decode())
    assert {stage for stage, _ in shares} == {"boosting"}
    assert len(shares) > 1
    assert max(int(share) for _, share in shares) <= 100
