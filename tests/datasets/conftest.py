"""No test reads the user's cache or the web."""

from __future__ import annotations

import hashlib
import sys
import urllib.error
import urllib.request

import pytest
from stored_sets import SMALL

from harsanyinet.datasets import table_sets as datasets


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
def no_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)


@pytest.fixture
def no_shapiq(monkeypatch):
    monkeypatch.setitem(sys.modules, "shapiq", None)


@pytest.fixture
def small(monkeypatch):
    """The checksums of the small files in place of the real ones."""
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in SMALL.items()}
    monkeypatch.setattr(datasets, "CENSUS_MD5", md5)


@pytest.fixture(scope="module")
def uci():
    """The two UCI files as shapiq lets us rebuild them, checked by the checksums that UCI's files have."""
    contents, source = datasets.census_of_shapiq()
    assert source == "shapiq"
    assert hashlib.md5(contents["adult.data"]).hexdigest() == "5d7c39d7b8804f071cdd1f2a7c460872"
    assert hashlib.md5(contents["adult.test"]).hexdigest() == "35238206dfdf7f1fe215bbb874adecdc"
    return contents
