"""Where files are looked for, fetched and checked; Census stands for all of them."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from http.client import IncompleteRead
from pathlib import Path

import pytest
from stored_sets import (
    SMALL,
    TEST,
    TRAIN,
    archive,
    assert_same,
    put,
    serve,
)

from harsanyinet.datasets import (
    DatasetDamagedError,
    DatasetNotFoundError,
    load_census,
)


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
