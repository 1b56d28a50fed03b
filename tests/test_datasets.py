import doctest
import gzip
import hashlib
import io
import itertools
import os
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harsanyinet import datasets
from harsanyinet.datasets import (
    DatasetDamagedError,
    DatasetNotFoundError,
    load_bike,
    load_breast_cancer_table,
    load_california,
    load_census,
    load_digits_table,
    load_tv_news,
    load_yeast,
    unanimity_game,
)

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


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no folder of data, and no web."""

    def offline(url, timeout):
        raise urllib.error.URLError("no web in this test")

    monkeypatch.delenv("HARSANYINET_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(urllib.request, "urlopen", offline)
    return tmp_path / "xdg" / "harsanyinet" / "adult"


@pytest.fixture
def no_shapiq(monkeypatch):
    monkeypatch.setitem(sys.modules, "shapiq", None)


@pytest.fixture
def small(monkeypatch):
    """The checksums of the small files in place of the real ones."""
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in SMALL.items()}
    monkeypatch.setattr(datasets, "_CENSUS_MD5", md5)


@pytest.fixture(scope="module")
def uci():
    """The two UCI files as shapiq lets us rebuild them, checked by the checksums that UCI's files have."""
    contents, source = datasets._census_of_shapiq()
    assert source == "shapiq"
    assert hashlib.md5(contents["adult.data"]).hexdigest() == "5d7c39d7b8804f071cdd1f2a7c460872"
    assert hashlib.md5(contents["adult.test"]).hexdigest() == "35238206dfdf7f1fe215bbb874adecdc"
    return contents


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
        f"package.__path__ = [{str(Path(datasets.__file__).parent)!r}]",
        "import harsanyinet.datasets",
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


class TestCensus:
    """On the real rows, which come with shapiq."""

    @pytest.mark.parametrize(
        ("rows", "sizes", "above"),
        [("all", (32_561, 16_281), (7_841, 3_846)), ("complete", (30_162, 15_060), (7_508, 3_700))],
    )
    def test_rows_columns_and_types(self, rows, sizes, above):
        split = load_census(rows)
        assert split.source == "shapiq"
        assert split.name == "census"
        for table, y, size, count in zip(
            (split.train, split.test), (split.y_train, split.y_test), sizes, above, strict=True
        ):
            assert list(table.columns) == COLUMNS
            assert table.shape == (size, 12)
            assert table.index.equals(pd.RangeIndex(size))
            assert y.index.equals(table.index)
            assert set(y) == {"<=50K", ">50K"}
            assert (y == ">50K").sum() == count
            assert (table[NUMERIC].dtypes == np.int64).all()
            for column in set(COLUMNS) - set(NUMERIC):
                values = table[column].dropna()
                assert values.map(type).eq(str).all()
                assert values.eq(values.str.strip()).all()
                assert not values.isin(["?", ""]).any()
        assert f"{sizes[0]:,} to train and {sizes[1]:,} to test" in split.description

    def test_missing_values(self):
        split = load_census()
        both = pd.concat([split.train, split.test]).isna().sum()
        assert both[both > 0].to_dict() == {"workclass": 2799, "occupation": 2809, "native-country": 857}
        split = load_census("complete")
        assert not split.train.isna().any(axis=None)
        assert not split.test.isna().any(axis=None)

    def test_the_first_row_of_each_part(self):
        split = load_census()
        first = "39 State-gov 13 Never-married Adm-clerical Not-in-family White Male 2174 0 40 United-States"
        assert " ".join(map(str, split.train.iloc[0])) == first
        first = "25 Private 7 Never-married Machine-op-inspct Own-child Black Male 0 0 40 United-States"
        assert " ".join(map(str, split.test.iloc[0])) == first

    def test_the_same_from_every_source(self, cache, tmp_path, monkeypatch, uci):
        splits = [load_census()]  # shapiq

        serve(monkeypatch, archive(uci))
        with monkeypatch.context() as context:
            context.setitem(sys.modules, "shapiq", None)
            splits.append(load_census())
        splits.append(load_census())  # what the download left
        put(tmp_path / "data" / "adult", uci)
        monkeypatch.setenv("HARSANYINET_DATA", str(tmp_path / "data"))
        splits.append(load_census())

        assert [split.source for split in splits] == ["shapiq", "download", "cache", "HARSANYINET_DATA"]
        for other in splits[1:]:
            assert_same(splits[0], other)

    @real_files
    @pytest.mark.parametrize("rows", ["all", "complete"])
    def test_the_real_files_equal_those_of_shapiq(self, monkeypatch, rows):
        shapiq = load_census(rows)
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        real = load_census(rows)
        assert (shapiq.source, real.source) == ("shapiq", "HARSANYINET_DATA")
        assert_same(shapiq, real)

    @real_files
    def test_the_real_files_read_another_way(self, monkeypatch):
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        split = load_census()
        for name, table, y in (("data", split.train, split.y_train), ("test", split.test, split.y_test)):
            text = gzip.decompress(Path(SHARED, "adult", f"adult.{name}.gz").read_bytes()).decode()
            lines = [line.split(", ") for line in text.splitlines() if line and line[0] != "|"]
            rows = [line[:2] + line[4:14] for line in lines]
            assert table.astype(object).where(table.notna(), "?").astype(str).to_numpy().tolist() == rows
            assert y.tolist() == [line[14].rstrip(".") for line in lines]

    def test_shapiq_is_not_imported(self):
        printed = run_alone("print(harsanyinet.datasets.load_census().source)")
        assert printed[0] == "shapiq"
        assert "shapiq" not in printed[1:]


class TestLookup:
    """With small files, whose checksums take the place of the real ones."""

    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize("zipped", [True, False])
    def test_the_folder_named_by_the_variable(self, tmp_path, monkeypatch, zipped):
        put(tmp_path / "data" / "adult", SMALL, zipped)
        monkeypatch.setenv("HARSANYINET_DATA", str(tmp_path / "data"))
        split = load_census()
        assert split.source == "HARSANYINET_DATA"
        assert split.train["workclass"].isna().tolist() == [False, True, False]
        assert split.test["native-country"].tolist() == ["India", "Japan"]
        assert split.y_train.tolist() == ["<=50K", ">50K", ">50K"]
        assert split.y_test.tolist() == ["<=50K", ">50K"]
        split = load_census("complete")
        assert split.train["age"].tolist() == [39, 28]
        assert split.train.index.tolist() == [0, 1]
        assert split.y_train.tolist() == ["<=50K", ">50K"]
        assert split.y_test.tolist() == ["<=50K"]

    @pytest.mark.usefixtures("small")
    def test_the_variable_goes_before_the_cache(self, cache, tmp_path, monkeypatch):
        put(cache, SMALL)
        assert load_census().source == "cache"
        monkeypatch.setenv("HARSANYINET_DATA", str(tmp_path / "data"))
        assert load_census().source == "cache"
        put(tmp_path / "data" / "adult", SMALL)
        assert load_census().source == "HARSANYINET_DATA"

    @pytest.mark.usefixtures("small")
    def test_a_gzipped_file_goes_before_a_plain_one(self, cache):
        put(cache, SMALL)
        put(cache, dict.fromkeys(SMALL, b"another version"), zipped=False)
        assert load_census().y_test.tolist() == ["<=50K", ">50K"]

    @pytest.mark.usefixtures("small")
    def test_a_folder_with_one_file_of_two_is_passed_over(self, cache, tmp_path, monkeypatch):
        put(tmp_path / "data" / "adult", {"adult.data": TRAIN})
        put(cache, SMALL)
        monkeypatch.setenv("HARSANYINET_DATA", str(tmp_path / "data"))
        assert load_census().source == "cache"

    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize("value", [None, "", "relative/path"])
    def test_the_cache_is_in_the_home_folder_unless_told_otherwise(self, tmp_path, monkeypatch, value):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr(Path, "home", lambda: tmp_path)
        if value is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", value)
        put(tmp_path / ".cache" / "harsanyinet" / "adult", SMALL)
        assert load_census().source == "cache"

    @pytest.mark.parametrize("zipped", [True, False])
    @pytest.mark.parametrize("where", ["variable", "cache"])
    def test_another_content_is_an_error(self, cache, tmp_path, monkeypatch, zipped, where):
        folder = cache if where == "cache" else tmp_path / "data" / "adult"
        put(folder, SMALL, zipped)
        if where == "variable":
            monkeypatch.setenv("HARSANYINET_DATA", str(tmp_path / "data"))
        with pytest.raises(
            DatasetDamagedError, match=r"adult\.data.* is damaged .*md5 5d7c.* however: .*; replace"
        ) as e:
            load_census()
        assert str(folder) in str(e.value)

    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize("damage", [lambda b: b[:-12], lambda b: b"no gzip", lambda b: b[:30] + b"\xff" + b[31:]])
    def test_a_damaged_gzip_file_is_an_error(self, cache, damage):
        put(cache, SMALL)
        path = cache / "adult.test.gz"
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(DatasetDamagedError, match=r"adult\.test\.gz is damaged \(.+\); replace or delete it"):
            load_census()

    def test_a_shapiq_with_another_table_is_passed_over(self, tmp_path, monkeypatch):
        folder = tmp_path / "site" / "shapiq" / "datasets" / "data"
        folder.mkdir(parents=True)
        (tmp_path / "site" / "shapiq" / "__init__.py").write_text("raise AssertionError('imported')")
        (folder / "adult_census.csv").write_bytes(b"age,class\n25,\xff\n")
        monkeypatch.delitem(sys.modules, "shapiq", raising=False)
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        with pytest.raises(DatasetNotFoundError):
            load_census()

    def test_unknown_rows(self):
        with pytest.raises(ValueError, match='rows must be "all" or "complete", however: rows=\'some\''):
            load_census("some")


@pytest.mark.usefixtures("no_shapiq")
class TestDownload:
    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize("headers", [None, {}, {"Content-Length": "many"}])
    def test_it_is_kept_in_the_cache(self, cache, monkeypatch, capsys, headers):
        asked = serve(monkeypatch, archive(SMALL), headers)
        first, second = load_census(), load_census()
        assert (first.source, second.source) == ("download", "cache")
        assert_same(first, second)
        [(url, timeout)] = asked
        assert url == "https://archive.ics.uci.edu/static/public/2/adult.zip"
        assert 0 < timeout <= 60
        assert {path.name: path.read_bytes() for path in cache.iterdir()} == SMALL
        out, progress = capsys.readouterr()
        assert out == ""
        assert progress == ""  # nobody watches

    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (archive({**SMALL, "adult.test": TEST + b"\n"}), "adult.test should have content with md5"),
            (archive({"adult.data": TRAIN}), "adult.test"),
            (archive(SMALL)[:-40], "zip"),
            (b"<html>Sign in to this network</html>", "zip"),
            (b"", "zip"),
        ],
        ids=["content", "absent", "cut", "html", "empty"],  # an archive holds the time, which must not be in a name
    )
    def test_a_wrong_archive_leaves_no_file(self, cache, monkeypatch, body, reason):
        serve(monkeypatch, body)
        with pytest.raises(DatasetNotFoundError, match=reason):
            load_census()
        assert not cache.exists()

    @pytest.mark.usefixtures("small")
    def test_an_interrupted_write_is_made_good_the_next_time(self, cache, monkeypatch):
        serve(monkeypatch, archive(SMALL))
        replace, calls = os.replace, []

        def second_fails(*args):
            calls.append(args)
            if len(calls) == 2:
                raise OSError("disk full")
            replace(*args)

        monkeypatch.setattr(os, "replace", second_fails)
        with pytest.raises(DatasetNotFoundError, match="disk full"):
            load_census()
        assert [path.name for path in cache.iterdir()] == ["adult.data"]
        assert [load_census().source, load_census().source] == ["download", "cache"]

    @pytest.mark.parametrize(
        "error",
        [urllib.error.URLError("no route"), TimeoutError("timed out"), IncompleteRead(b""), ConnectionResetError()],
    )
    def test_offline_and_absent(self, cache, monkeypatch, error):
        def fail(url, timeout):
            raise error

        monkeypatch.setattr(urllib.request, "urlopen", fail)
        with pytest.raises(FileNotFoundError) as caught:
            load_census()
        assert caught.type is DatasetNotFoundError
        assert caught.value.__cause__ is error
        message = str(caught.value)
        assert message.startswith("cannot find adult.data and adult.test on this machine, nor fetch https://")
        assert (
            f"into {cache}, or into adult inside the folder that the environment variable HARSANYINET_DATA" in message
        )
        assert str(error) in message
        assert "\n" not in message
        assert not cache.exists()


class TestBreastCancer:
    def test_rows_columns_and_labels(self):
        split = load_breast_cancer_table()
        assert (split.train.shape, split.test.shape) == ((455, 30), (114, 30))
        assert (split.name, split.source) == ("breast_cancer", "scikit-learn")
        assert (split.train.dtypes == np.float64).all()
        for table, y in ((split.train, split.y_train), (split.test, split.y_test)):
            assert table.index.equals(pd.RangeIndex(len(table)))
            assert y.index.equals(table.index)
            assert set(y) == {"malignant", "benign"}
            assert (y == "malignant").mean() == pytest.approx(212 / 569, abs=0.005)  # one row of 114 is 0.009

    def test_labels_belong_to_their_rows(self):
        from sklearn.datasets import load_breast_cancer

        X, y = load_breast_cancer(return_X_y=True)
        label = {row.tobytes(): ("malignant", "benign")[k] for row, k in zip(X, y, strict=True)}
        split = load_breast_cancer_table(seed=3)
        rows = np.ascontiguousarray(pd.concat([split.train, split.test]).to_numpy())
        assert [label[row.tobytes()] for row in rows] == [*split.y_train, *split.y_test]
        assert len({row.tobytes() for row in rows}) == len(label)

    def test_the_seed_decides(self):
        assert_same(load_breast_cancer_table(1), load_breast_cancer_table(1))
        assert not load_breast_cancer_table(1).train.equals(load_breast_cancer_table(2).train)

    def test_the_whole_has_the_rows_to_train_first(self):
        split = load_breast_cancer_table()
        whole = split.whole()
        assert (whole.name, whole.task, whole.source) == ("breast_cancer", "classification", "scikit-learn")
        assert whole.x.index.equals(pd.RangeIndex(569))
        assert whole.y.index.equals(whole.x.index)
        np.testing.assert_array_equal(whole.x, np.vstack([split.train, split.test]))
        assert whole.y.tolist() == [*split.y_train, *split.y_test]


class TestTables:
    """Tables in one part."""

    def test_digits(self):
        table = load_digits_table()
        assert (table.name, table.task, table.source) == ("digits", "classification", "scikit-learn")
        assert table.x.shape == (1797, 64)
        assert set(table.y) == set("0123456789")
        from sklearn.datasets import load_digits

        np.testing.assert_array_equal(table.y.astype(int), load_digits().target)

    def test_california(self):
        table = load_california()
        assert (table.name, table.task, table.source) == ("california", "regression", "shapiq")
        assert " ".join(table.x) == "MedInc HouseAge AveRooms AveBedrms Population AveOccup Latitude Longitude"
        assert len(table.x) == len(table.y) == 20_640
        assert table.x.iloc[0].tolist()[:2] == [8.3252, 41.0]
        assert (table.y.name, table.y[0], table.y.max()) == ("MedHouseVal", 4.526, 5.00001)

    def test_bike(self):
        table = load_bike()
        assert (table.name, table.task, table.source) == ("bike", "regression", "shapiq")
        names = "season year month hour holiday weekday workingday weather temp feel_temp humidity windspeed"
        assert " ".join(table.x) == names
        assert len(table.x) == len(table.y) == 17_379
        assert (table.y.name, table.y[0], table.y.sum()) == ("count", 16, 3_292_679)  # the sum that UCI's file has
        assert not pd.api.types.is_numeric_dtype(table.x["season"])
        assert "casual and registered" in table.description

    @pytest.mark.parametrize(("load", "file"), [(load_california, "california_housing.csv"), (load_bike, "bike.csv")])
    def test_a_folder_goes_before_shapiq_and_is_checked(self, cache, load, file):
        folder = cache.parent / file.partition("_")[0].removesuffix(".csv")
        content = datasets._packaged("shapiq", f"datasets/data/{file}").read_bytes()
        shapiq = load()
        put(folder, {file: content})
        assert load().source == "cache"
        pd.testing.assert_frame_equal(load().x, shapiq.x)
        put(folder, {file: content + b"\n"})
        with pytest.raises(DatasetDamagedError, match=f"{file}.gz is damaged"):
            load()

    @pytest.mark.parametrize(("load", "file"), [(load_california, "california_housing.csv"), (load_bike, "bike.csv")])
    def test_no_shapiq_or_another_table_in_it(self, monkeypatch, tmp_path, load, file):
        (tmp_path / file).write_text("another,table\n")
        for path in (None, tmp_path / file):
            monkeypatch.setattr(datasets, "_packaged", lambda package, file, path=path: path)
            with pytest.raises(DatasetNotFoundError, match=rf"^cannot find {file} .* HARSANYINET_DATA .*\[shapiq\]"):
                load()

    def test_yeast_of_two_rows(self, cache, monkeypatch):
        monkeypatch.setattr(datasets, "_YEAST_MD5", {"yeast.data": hashlib.md5(YEAST).hexdigest()})
        asked = serve(monkeypatch, archive({"yeast.data": YEAST}))
        tables = [load_yeast(), load_yeast()]
        assert [table.source for table in tables] == ["download", "cache"]
        assert [url for url, _ in asked] == ["https://archive.ics.uci.edu/static/public/110/yeast.zip"]
        for table in tables:
            assert (table.name, table.task) == ("yeast", "classification")
            assert table.x.to_dict("list") == {
                "mcg": [0.58, 0.43], "gvh": [0.61, 0.67], "alm": [0.47, 0.48], "mit": [0.13, 0.27],
                "erl": [0.5, 0.5], "pox": [0.0, 0.0], "vac": [0.48, 0.53], "nuc": [0.22, 0.22],
            }  # fmt: skip
            assert table.y.tolist() == ["MIT", "CYT"]

    def test_yeast_offline(self):
        with pytest.raises(DatasetNotFoundError, match=r"cannot find yeast.data .*, nor fetch .*; put it, plain or as"):
            load_yeast()

    @real_yeast
    def test_yeast(self, monkeypatch):
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        table = load_yeast()
        assert table.source == "HARSANYINET_DATA"
        lines = [line.split() for line in Path(SHARED, "yeast", "yeast.data").read_text().splitlines()]
        assert table.x.to_numpy().tolist() == [[float(value) for value in line[1:9]] for line in lines]
        assert table.y.tolist() == [line[9] for line in lines]
        assert table.y.value_counts().to_dict() == {
            "CYT": 463, "NUC": 429, "MIT": 244, "ME3": 163, "ME2": 51, "ME1": 44, "EXC": 35, "VAC": 30,
            "POX": 20, "ERL": 5,
        }  # fmt: skip

    def test_tv_news_of_two_rows(self, cache, monkeypatch):
        md5 = {"tv_commercial_bbc_ndtv.csv": hashlib.md5(TV_NEWS).hexdigest()}
        monkeypatch.setattr(datasets, "_TV_NEWS_MD5", md5)
        put(cache.parent / "tv_commercial", {"tv_commercial_bbc_ndtv.csv": TV_NEWS})
        table = load_tv_news()
        assert (table.name, table.task, table.source) == ("tv_news", "classification", "cache")
        assert list(table.x) == ["Shot_Length", "ZCR_Mean", "ZCR_Variance"]
        assert table.y.tolist() == ["commercial", "other"]
        assert "BBC and NDTV only, 2 of the 5 channels" in table.description
        assert load_tv_news("paper").x.to_dict("list") == {"Shot_Length": [123, 29], "ZCR_Mean": [0.091743, 0.5]}

    def test_tv_news_is_never_fetched(self, cache, monkeypatch):
        asked = serve(monkeypatch, b"")
        with pytest.raises(DatasetNotFoundError) as caught:
            load_tv_news()
        assert asked == []
        message = str(caught.value)
        assert message.startswith(
            "cannot find tv_commercial_bbc_ndtv.csv on this machine; put it, plain or as .gz, into"
        )
        assert f"into {cache.parent / 'tv_commercial'}, or into tv_commercial inside the folder" in message
        assert "HARSANYINET_DATA" in message

    def test_tv_news_refuses_columns(self):
        with pytest.raises(ValueError, match='columns must be "all" or "paper", however: columns=\'some\''):
            load_tv_news("some")

    @real_tv_news
    def test_tv_news(self, monkeypatch):
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        every, paper = load_tv_news(), load_tv_news("paper")
        assert (every.x.shape, paper.x.shape) == ((34_771, 19), (34_771, 10))
        assert every.y.value_counts().to_dict() == {"commercial": 20_980, "other": 13_791}
        pd.testing.assert_frame_equal(every.x[list(paper.x)], paper.x)
        assert " ".join(paper.x) == (
            "Shot_Length Motion_Distribution_Mean Frame_Diff_Distribution_Mean Short_Time_Energy_Mean ZCR_Mean "
            "Spectral_Centroid_Mean Spectral_Roll_Off_Mean Spectral_Flux_Mean Fundamental_Frequency_Mean "
            "Edge_Change_Ratio_Mean"
        )


class TestUnanimityGame:
    @pytest.mark.parametrize(
        ("n", "sets"),
        [
            (1, {(0,): 2.0}),
            (2, {}),
            (4, {(): 1.5, (0,): -1.0, (3, 1): 2.0, (0, 1, 2, 3): 0.25}),
            (5, {(np.int64(4), 2): 1, (0, 1, 2): -3.0}),
        ],
    )
    def test_against_the_definition(self, n, sets):
        masks = np.array(list(itertools.product([False, True], repeat=n)))
        values = unanimity_game(n, sets)(masks)
        expected = [sum(a for T, a in sets.items() if all(mask[i] for i in T)) for mask in masks]
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values, np.array(expected, dtype=float), strict=True)

    def test_no_masks(self):
        assert unanimity_game(3, {(0, 1): 1.0})(np.zeros((0, 3), bool)).shape == (0,)

    def test_later_changes_of_the_mapping_do_not_matter(self):
        sets = {(0,): 1.0}
        game = unanimity_game(1, sets)
        sets[(0,)] = 9.0
        assert game(np.ones((1, 1), bool)) == [1.0]

    @pytest.mark.parametrize(
        ("n", "sets", "message"),
        [
            (0, {}, "n must be positive, however: n=0"),
            (3, {(0, 3): 1.0}, r"players from 0 to 2, however: \(0, 3\)"),
            (3, {(-1,): 1.0}, r"players from 0 to 2, however: \(-1,\)"),
            (3, {(0, 0): 1.0}, r"different players .* however: \(0, 0\)"),
            (3, {(0.5,): 1.0}, r"however: \(0.5,\)"),
            (3, {(0, 1.5): 1.0}, r"however: \(0, 1.5\)"),
            (3, {1: 1.0}, "must be a tuple of .* however: 1"),
            (3, {(0, 1): 1.0, (1, 0): 2.0}, "each set must come once"),
            (3, {(0,): float("nan")}, r"dividends must be finite, however: \[nan\]"),
        ],
    )
    def test_refuses_sets(self, n, sets, message):
        with pytest.raises(ValueError, match=message):
            unanimity_game(n, sets)

    @pytest.mark.parametrize("masks", [np.ones(3, bool), np.ones((2, 4), bool), np.ones((2, 3)), np.ones((2, 3), int)])
    def test_refuses_masks(self, masks):
        with pytest.raises(ValueError, match=r"masks must be boolean of shape \(m, 3\), however: "):
            unanimity_game(3, {(0,): 1.0})(masks)


def test_importing_is_cheap():
    assert not {"pandas", "sklearn", "scipy", "torch", "tqdm", "shapiq"} & set(run_alone("pass"))


def test_examples_run():
    assert doctest.testmod(datasets).failed == 0
