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
    found = ((read_files(place / folder, md5), source) for source, place in places())
    return next(((contents, source) for contents, source in found if contents), None)


def read_files(folder: Path, md5: Mapping[str, str]) -> dict[str, bytes] | None:
    """Contents of the files named by ``md5``, plain or gzipped, when the folder holds them all."""
    contents = {}
    paths = {name: [path for path in (folder / f"{name}.gz", folder / name) if path.is_file()] for name in md5}
    if not all(paths.values()):
        return None
    for name, (path, *_) in paths.items():
        try:
            content = path.read_bytes()
            contents[name] = content if path.name == name else gzip.decompress(content)
            check_md5(path.name, contents[name], md5[name])
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise DatasetDamagedError(f"{path} is damaged ({error}); replace or delete it") from error
    return contents


def packaged_file(package: str, file: str) -> Path | None:
    """A data file of an installed package, found without importing the package."""
    spec = importlib.util.find_spec(package)
    paths = [Path(folder, file) for folder in (spec and spec.submodule_search_locations) or ()]
    return next((path for path in paths if path.is_file()), None)


def download(folder: str, md5: Mapping[str, str], url: str) -> tuple[dict[str, bytes], str]:
    """Fetches the files named by ``md5``, checks them and keeps them, unpacked, in a folder of the cache.

    The address is that of a .zip archive that holds them all, or, with {} for the name, of each; {}.gz is unpacked.
    """
    from http.client import HTTPException

    *_, (_, cache) = places()
    address, contents = url, {}
    try:
        archive = zipfile.ZipFile(io.BytesIO(fetch(url))) if url.endswith(".zip") else None
        for name, expected in md5.items():
            address = url.format(name)
            contents[name] = archive.read(name) if archive else fetch(address)
            if url.endswith("{}.gz"):
                contents[name] = gzip.decompress(contents[name])
            check_md5(name, contents[name], expected)
        (cache / folder).mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_beside(cache / folder / name, content)
    except (OSError, HTTPException, zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        raise not_found(folder, md5, f", nor fetch {address} ({error})") from error
    return contents, "download"


def not_found(folder: str, md5: Mapping[str, str], reason: str = "", remedy: str = "") -> DatasetNotFoundError:
    """What to say of files that are missing, and where to put them."""
    *_, (_, cache) = places()
    packed = "" if any(name.endswith(".gz") for name in md5) else ", plain or as .gz,"
    return DatasetNotFoundError(
        f"cannot find {' and '.join(md5)} on this machine{reason}; put {'them' if len(md5) > 1 else 'it'}{packed} into "
        f"{cache / folder}, or into {folder} inside the folder that the environment variable {_VARIABLE} names{remedy}"
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


def check_md5(name: str, content: bytes, md5: str) -> None:
    """Raises ValueError where a content is not the one that is known."""
    if (actual := md5_of(content)) != md5:
        raise ValueError(f"{name} should have content with md5 {md5}, however: {actual}")


def md5_of(content: bytes) -> str:
    """In hexadecimal."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
