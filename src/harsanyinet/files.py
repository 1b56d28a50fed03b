"""One container for named arrays and JSON on disk: checked, never half written, and it runs nothing.

Knows neither explanations nor models: those say what goes into it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Place = str | os.PathLike[str]
Arrays = Mapping[str, NDArray[Any]]

_FORMAT = "harsanyinet"
VERSION = "1"
_DTYPES = {
    "BOOL": "?", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "u1", "U16": "<u2", "U32": "<u4",
    "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
MAX_HEADER = 100_000_000  # safetensors writes a longer header, and then refuses to read it


class ModelFileError(ValueError):
    """A file is not what was asked for: foreign, damaged, of another kind or of another version of the format."""


def check_place(path: Place, inputs: Sequence[Place] = ()) -> Path:
    """Where a file at `path` would really be, through links; one sentence when it cannot be written there.

    Asked before a long computation, it saves finding out afterwards.

    Args:
        path: The place.
        inputs: Files that are read and must not be replaced, by whatever name or link.

    Raises:
        FileNotFoundError: The folder does not exist.
        IsADirectoryError: A folder stands in the place of the file.
        PermissionError: Nothing can be written there.
        ValueError: It is one of the inputs.
    """
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target.name}: there is no folder {target.parent}; create it first")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; give the path of a file")
    if target.exists() and not target.is_file():
        return target  # a device or a pipe
    for one in inputs:
        if target.exists() and Path(one).exists() and target.samefile(one):
            raise ValueError(
                f"the output must be another file than the input, however: {path} is {one}, which would be lost; give "
                "another path"
            )
    try:
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "it may only be read")
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".", suffix=".tmp"):
            pass
    except OSError as error:
        raise PermissionError(f"cannot write {path}: {error.strerror or error}; give another path") from error
    return target


@contextmanager
def placed(path: Place) -> Iterator[Path]:
    """Gives a path to write a file to that moves to `path` when the block ends, and vanishes when it fails.

    A new file gets the usual permissions, a replaced one keeps its own, and a symbolic link is written through. A
    device or a pipe is written directly. A place that cannot be written is an error, as in `check_place`.
    """
    target = check_place(path)
    if target.exists() and not target.is_file():
        yield Path(path)
        return
    # A file in a temporary folder, because a temporary file would be readable by its owner only.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".", suffix=".tmp") as folder:
        beside = Path(folder, "data")
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)


def write_beside(path: Place, data: bytes) -> None:
    """Writes a file whole or not at all: beside its place first, then moved there in one step, as `placed` does."""
    with placed(path) as beside:
        beside.write_bytes(data)


def save_arrays(path: Place, kind: str, arrays: Arrays, meta: Mapping[str, object]) -> None:
    """Saves arrays and JSON in one safetensors file.

    Args:
        path: The file; an existing one is replaced.
        kind: What the file holds, for instance ``"explanation"``; `load_arrays` asks for it.
        arrays: Boolean, integer and floating point arrays of any shape and memory order.
        meta: Strict JSON: str keys, no NaN, no infinity, no numpy scalar. A tuple comes back as a list.

    Raises:
        ValueError: An array or the meta cannot be stored.
    """
    from safetensors.numpy import save

    ready, text = _ready(arrays), _strict_json(meta)
    tags = {"format": _FORMAT, "kind": kind, "version": VERSION, "meta": text, "sha256": checksum(kind, text, ready)}
    data = save(ready, metadata=tags)
    if (size := int.from_bytes(data[:8], "little")) > MAX_HEADER:
        raise ValueError(f"meta and names must fit in {MAX_HEADER} bytes, however: they take {size}")
    write_beside(path, data)


def fingerprint(kind: str, arrays: Arrays, meta: Mapping[str, object]) -> str:
    """The SHA-256 that a file of these arrays and this meta carries."""
    return checksum(kind, _strict_json(meta), _ready(arrays))


def load_arrays(path: Place, kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Reads back what `save_arrays` wrote, after checking it; nothing in the file is run.

    Args:
        path: The file.
        kind: What it must hold.

    Returns:
        The arrays, writable and in C order, and the meta.

    Raises:
        FileNotFoundError: There is no such file.
        ModelFileError: The file is foreign, damaged, of another kind or of another version of the format.
    """
    return load_any(path, kind, (kind,))[1:]


def load_any(path: Place, what: str, kinds: Sequence[str]) -> tuple[str, dict[str, NDArray[Any]], dict[str, Any]]:
    """As `load_arrays`, for a file that may hold one of several `kinds`, which `what` names together.

    Returns:
        The kind, the arrays and the meta.
    """

    def wrong(fault: str, remedy: str = "give a file that harsanyinet saved") -> ModelFileError:
        return ModelFileError(f"cannot load {_a(what)} from {path}: it {fault}; {remedy}")

    path = Path(path)
    if path.is_dir():
        raise wrong("is a folder", "give the path of the file itself")
    if not path.exists():
        raise FileNotFoundError(f"cannot load {_a(what)} from {path}: there is no such file; check the path")
    damaged = wrong("is damaged or cut short", "copy it or save it again")
    data = path.read_bytes()
    if data[8:9] != b"{":  # the length of the header, 8 bytes; the header, JSON; the arrays
        raise wrong("is not a safetensors file")
    start = 8 + int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8:start])
        tags = header.get("__metadata__")
    except (ValueError, RecursionError) as error:
        raise damaged from error

    if not isinstance(tags, dict) or tags.get("format") != _FORMAT:
        raise wrong("is a safetensors file of another program")
    version, kind = str(tags.get("version")), str(tags.get("kind"))
    if version.isdecimal() and version != VERSION:
        newer = int(version) > int(VERSION)
        raise wrong(
            f"was written by {'a newer' if newer else 'an older'} harsanyinet (file format {version}, and this one "
            f"reads {VERSION})",
            "upgrade harsanyinet" if newer else "make and save it again with this version",
        )
    if kind not in kinds:
        raise wrong(f"holds {_a(kind)}, not {_a(what)}")

    try:
        arrays = _read(data, header, start)
        meta = json.loads(tags["meta"])
        if version == VERSION and tags["sha256"] == checksum(kind, tags["meta"], arrays) and isinstance(meta, dict):
            return kind, arrays, meta
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise damaged from error
    raise damaged


def _ready(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Arrays as they stand in a file: little-endian, in C order."""
    ready: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8 or name == "__metadata__":
            raise ValueError(
                "arrays must be boolean, integer or floating point of at most 64 bits and not be called __metadata__, "
                f"however: {name!r} is {array.dtype}"
            )
        ready[name] = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return ready


def _read(data: bytes, header: Mapping[str, Any], start: int) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file from its header: each where it says, one after another, and nothing else.

    Raises:
        ValueError: They do not fit the file.
    """
    arrays: dict[str, NDArray[Any]] = {}
    end = start
    entries = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
    for name, entry in sorted(entries, key=lambda item: item[1]["data_offsets"]):
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
        first, last = entry["data_offsets"]
        if not all(type(n) is int and n >= 0 for n in (*shape, first, last)) or start + first != end:
            raise ValueError(f"{name!r} is not where it should be")
        end = start + last
        if last - first != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name!r} has another size than it says")
        arrays[name] = np.frombuffer(data[start + first : end], dtype=dtype).reshape(shape).copy()
    if end != len(data):
        raise ValueError("the arrays end before the file does")
    return arrays


def _a(kind: str) -> str:
    return f"an {kind}" if kind[:1] in tuple("aeiou") else f"a {kind}"


def checksum(kind: str, text: str, arrays: Arrays) -> str:
    """Of all that a file says."""
    digest = hashlib.sha256(json.dumps([kind, text]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _strict_json(meta: Mapping[str, object]) -> str:
    try:
        text = json.dumps(dict(meta), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"meta must be strict JSON without NaN or infinity, however: {error}") from error
    for key in _keys(meta):
        if not isinstance(key, str):
            raise ValueError(f"meta must have str keys at every level, however: {key!r}")
    return text


def _keys(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else ():
        yield from _keys(item)


def plain(value: Any) -> Any:
    """A parameter as JSON; a random state or anything else that JSON cannot say becomes None."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {"pairs": [[plain(k), plain(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else None


def plain_labels(classes: NDArray[Any]) -> dict[str, Any]:
    """Labels of classes as JSON."""
    named = {"U": "str", "O": "object", "T": "object"}.get(classes.dtype.kind, classes.dtype.name)
    return {"dtype": named, "labels": classes.tolist()}


def labels(stored: Mapping[str, Any]) -> NDArray[Any]:
    """From what `plain_labels` returned."""
    return np.array(stored["labels"], dtype=stored["dtype"])
