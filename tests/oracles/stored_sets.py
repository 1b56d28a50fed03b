"""Small stand-ins for files of datasets, folders that hold them, and a web that serves them."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from email.message import Message
from pathlib import Path

import pandas as pd
import pytest

from harsanyinet.datasets import table_sets as datasets

SHARED = os.environ.get("HARSANYINET_DATA")

real_files = pytest.mark.skipif(
    not SHARED or not Path(SHARED, "adult", "adult.data.gz").is_file(),
    reason="HARSANYINET_DATA names no folder with adult/adult.data.gz",
)

real_yeast, real_tv_news = (
    pytest.mark.skipif(
        not SHARED or not Path(SHARED, file).is_file(), reason=f"HARSANYINET_DATA names no folder with {file}"
    )
    for file in ("yeast/yeast.data", "tv_commercial/tv_commercial_bbc_ndtv.csv.gz")
)

COLUMNS = [
    *("age", "workclass", "education-num", "marital-status", "occupation", "relationship", "race", "sex"),
    *("capital-gain", "capital-loss", "hours-per-week", "native-country"),
]

NUMERIC = ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]

# Three rows to train and two to test, with the oddities of the real files.
TRAIN = b"""\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K
50, ?, 83311, HS-grad, 9, Divorced, ?, Husband, Black, Male, 0, 0, 13, ?, >50K
28, Private, 338409, Masters, 14, Widowed, Sales, Wife, Other, Female, 0, 1902, 45, Peru, >50K

"""

TEST = b"""\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Sales, Own-child, Black, Male, 0, 0, 40, India, <=50K.
18, ?, 103497, 10th, 6, Never-married, ?, Own-child, White, Female, 0, 0, 30, Japan, >50K.

"""

SMALL = {"adult.data": TRAIN, "adult.test": TEST}

YEAST = b"""\
ADT1_YEAST  0.58  0.61  0.47  0.13  0.50  0.00  0.48  0.22  MIT
ADT2_YEAST  0.43  0.67  0.48  0.27  0.50  0.00  0.53  0.22  CYT
"""

TV_NEWS = b"""\
channel,label,Shot_Length,ZCR_Mean,ZCR_Variance
BBC,1,123,0.091743,0.050768
NDTV,-1,29,0.5,0.25
"""


def put(folder, contents, zipped=True):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


def archive(contents):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {**contents, "Index": b"not asked for"}.items():
            file.writestr(name, content)
    return buffer.getvalue()


def serve(monkeypatch, body, headers=None):
    """Answer every request with a body; returns the list of what was asked."""
    asked = []

    class Response(io.BytesIO):
        def __init__(self):
            super().__init__(body)
            self.headers = Message()
            for key, value in ({"Content-Length": str(len(body))} if headers is None else headers).items():
                self.headers[key] = value

    def urlopen(url, timeout):
        asked.append((url, timeout))
        return Response()

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def run_alone(line):
    """What a line prints in a fresh interpreter, then the packages it imported; ours imports the one module only."""
    lines = [
        "import sys, types",
        "sys.modules['harsanyinet'] = package = types.ModuleType('harsanyinet')",
        f"package.__path__ = [{str(Path(datasets.__file__).parents[1])!r}]",
        "import harsanyinet.datasets.table_sets",
        line,
        "print(*{name.partition('.')[0] for name in sys.modules})",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return done.stdout.split()


def assert_same(a, b):
    pd.testing.assert_frame_equal(a.train, b.train, check_exact=True)
    pd.testing.assert_frame_equal(a.test, b.test, check_exact=True)
    pd.testing.assert_series_equal(a.y_train, b.y_train)
    pd.testing.assert_series_equal(a.y_test, b.y_test)
