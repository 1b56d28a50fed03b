"""Files of datasets: looked for in folders and packages, fetched from the web, checked. Knows no dataset.

A file is looked for in the folder named by ``HARSANYINET_DATA``, in the user's cache, in an installed package that
ships it, and last on the web. Whatever the place, its content is checked.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from harsanyinet.files import write_beside

_VARIABLE = "HARSANYINET_DATA"
_TIMEOUT = 30.0  # seconds without a byte


class DatasetNotFoundError(FileNotFoundError):
    """A dataset is in none of the places where it was looked for."""


class DatasetDamagedError(ValueError):
    """A file of a dataset does not have the content it should have."""


def places() -> Iterator[tuple[str, Path]]:
    """Folders of datasets on this machine, each with what to call it; the last is the cache."""
    if folder := os.environ.get(_VARIABLE):
        yield _VARIABLE, Path(folder).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    yield "cache", (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "harsanyinet"


def find_files(folder: str, md5: Mapping[str, str]) -> tuple[dict[str, bytes], str] | None:
    """Contents of the files named by ``md5``, plain or gzipped, from the first place whose folder holds them all."""
    for source, place in places():
        present = {
            name: [path for path in (place / folder / f"{name}.gz", place / folder / name) if path.is_file()]
            for name in md5
        }
        if all(present.values()):
            return {name: _read(paths[0], md5[name]) for name, paths in present.items()}, source
    return None


def packaged_file(package: str, file: str) -> Path | None:
    """A data file of an installed package, found without importing the package."""
    spec = importlib.util.find_spec(package)
    paths = [Path(folder, file) for folder in (spec and spec.submodule_search_locations) or ()]
    return next((path for path in paths if path.is_file()), None)


def download_zip(folder: str, md5: Mapping[str, str], url: str) -> tuple[dict[str, bytes], str]:
    """Fetch a zip archive, check the members named by ``md5`` and keep them in the cache."""
    from http.client import HTTPException

    *_, (_, cache) = places()
    target = cache / folder
    try:
        with zipfile.ZipFile(io.BytesIO(fetch(url))) as archive:
            contents = {name: archive.read(name) for name in md5}
        for name, content in contents.items():
            check_md5(name, content, md5[name])
        target.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_beside(target / name, content)
    except (OSError, HTTPException, zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        where = where_to_put(folder, md5, f", nor fetch {url} ({error})")
        raise DatasetNotFoundError(f"cannot find {where}") from error
    return contents, "download"


def where_to_put(folder: str, md5: Mapping[str, str], reason: str = "") -> str:
    """The files that are missing and where to put them."""
    *_, (_, cache) = places()
    return (
        f"{' and '.join(md5)} on this machine{reason}; put {'them' if len(md5) > 1 else 'it'}, plain or as .gz, into "
        f"{cache / folder}, or into {folder} inside the folder that the environment variable {_VARIABLE} names"
    )


def fetch(url: str) -> bytes:
    """What is at an address, with a bar where somebody watches."""
    from urllib.request import urlopen

    from harsanyinet.progress import bar

    with urlopen(url, timeout=_TIMEOUT) as response:
        length = response.headers.get("Content-Length", "")
        parts = []
        total = int(length) if length.isdecimal() else None
        with bar(url.rpartition("/")[2], total, unit="B", unit_scale=True) as shown:
            while part := response.read(1 << 16):
                parts.append(part)
                shown.update(len(part))
    return b"".join(parts)


def _read(path: Path, md5: str) -> bytes:
    """Content of a file, plain or gzipped, when it is the right one."""
    content = path.read_bytes()
    try:
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        check_md5(path.name, content, md5)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DatasetDamagedError(f"{path} is damaged ({error}); replace or delete it") from error
    return content


def check_md5(name: str, content: bytes, md5: str) -> None:
    """Raises ValueError where a content is not the one that is known."""
    if (actual := md5_of(content)) != md5:
        raise ValueError(f"{name} should have content with md5 {md5}, however: {actual}")


def md5_of(content: bytes) -> str:
    """In hexadecimal."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
