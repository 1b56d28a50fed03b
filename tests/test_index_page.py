"""The README in the metadata of a build: what a package index gets to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[[^\]]+\]\(([^)]+)\)")


def page(address: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "metadata", "readme"]
    environment = os.environ | {"HARSANYINET_README_URL": address}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_with_an_address_all_pictures_and_links_are_absolute_and_lead_to_files():
    address = "https://example.org/harsanyinet/raw/v1"
    links = LINK.findall(page(f"{address}/").stdout)
    assert sum(bool(picture) for picture, _ in links) == 4
    for _, target in links:
        assert target.startswith("https://")
        if target.startswith(address):
            assert (ROOT / target.removeprefix(f"{address}/")).is_file(), target
    assert len(links) == len(LINK.findall((ROOT / "README.md").read_text()))


def test_without_an_address_nothing_is_broken_and_no_address_made_up():
    shown = page("").stdout
    assert "# harsanyinet" in shown
    assert all(target.startswith("https://") for _, target in LINK.findall(shown))
    assert shown.count("*Picture: ") == 4
    assert "all figures: benchmarks." in shown  # the text of a link is kept


def test_an_address_that_an_index_refuses_is_an_error():
    done = page("docs")
    assert done.returncode != 0
    assert "must begin with https://, however: docs" in done.stderr


@pytest.mark.slow
def test_the_wheel_of_an_sdist_has_the_page_of_the_sdist(tmp_path):
    environment = os.environ | {"HARSANYINET_README_URL": "https://example.org/raw"}
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, env=environment)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as packed:
        packed.extractall(tmp_path, filter="data")
    source = next(path for path in tmp_path.iterdir() if path.is_dir())
    subprocess.run([*build, "-t", "wheel"], cwd=source, check=True)  # by somebody who knows no address
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        assert "](https://example.org/raw/docs/pictures/parts.png)" in wheel.read(name).decode()
