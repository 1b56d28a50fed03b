"""Thirty public tables through fit, predict, explain, score and verify, in Python and on the command line.

`python tests/oracles/public_tables.py [NAME ...]` runs all of them, or some. They come with packages and are read
from their files: scikit-learn and shapiq (`dev`), statsmodels and vega_datasets (`bench`), ISLP (`pip install
--no-deps ISLP`). Some are as awkward as they were published: semicolons, tabs, spaces, dates, identifiers, missing
targets. The others are dressed up. Nothing may end in a stack trace, and the command line must say what Python says.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, load, verify
from harsanyinet.cli import main

SETTINGS = {"max_iter": 40, "learning_rate": 0.15, "random_state": 0, "n_jobs": 1}
MOST_ROWS = 1200


@dataclass(frozen=True)
class Table:
    """A table, what to predict, and what is awkward about it.

    Attributes:
        name: To ask for it.
        file: Package and path within it; a function of sklearn.datasets where there is no slash.
        target: What to predict.
        task: classification or regression.
        ids: Columns that name the rows.
        dress: How it is written for the command line: "as it is", or see `write`.
        reading: For pandas, where the file needs it.
        options: For the command line, likewise.
    """

    name: str
    file: str
    target: str
    task: str
    ids: tuple[str, ...] = ()
    dress: str = "plain"
    reading: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()

    @property
    def path(self) -> Path | None:
        """Where it is; None without its package."""
        package, _, rest = self.file.partition("/")
        spec = find_spec(package)
        return (
            None
            if spec is None or not spec.submodule_search_locations
            else Path(spec.submodule_search_locations[0], rest)
        )

    @property
    def there(self) -> bool:
        """Whether it can be read."""
        return "/" not in self.file or self.path is not None

    def load(self) -> pd.DataFrame:
        """As pandas reads it, or some of its rows."""
        if "/" not in self.file:
            import sklearn.datasets

            frame = getattr(sklearn.datasets, self.file)(as_frame=True).frame
        elif str(self.path).endswith(".json"):
            frame = pd.read_json(self.path)
        else:
            frame = pd.read_csv(self.path, **dict(self.reading))
        if len(frame) > MOST_ROWS and self.dress != "as it is":
            frame = frame.sample(MOST_ROWS, random_state=0).sort_index()
        return frame.reset_index(drop=True)


C, R = "classification", "regression"
L, S, V, Q = "ISLP/data", "statsmodels/datasets", "vega_datasets/_data", "shapiq/datasets/data"
TABLES = [
    Table("iris", "load_iris", "target", C, dress="semicolon"),
    Table("wine", "load_wine", "target", C, dress="gz"),
    Table("breast_cancer", "load_breast_cancer", "target", C, dress="tab"),
    Table("diabetes", "load_diabetes", "target", R, dress="bom"),
    Table("digits", "load_digits", "target", C),
    Table("adult", f"{Q}/adult_census.csv", "class", C, dress="missing as ?"),
    Table("bike", f"{Q}/bike.csv", "count", R, dress="latin-1"),
    Table("california", f"{Q}/california_housing.csv", "MedHouseVal", R, dress="decimal comma"),
    Table("auto", f"{L}/Auto.csv", "mpg", R, ("name",), "as it is"),
    Table("brain_cancer", f"{L}/BrainCancer.csv", "status", C, dress="as it is"),
    Table("bikeshare", f"{L}/Bikeshare.csv", "bikers", R, dress="spaces"),
    Table("boston", f"{L}/Boston.csv", "medv", R, dress="utf-16"),
    Table("carseats", f"{L}/Carseats.csv", "Sales", R, dress="row numbers"),
    Table("college", f"{L}/College.csv", "Private", C, dress="as it is"),
    Table("credit", f"{L}/Credit.csv", "Balance", R, ("ID",), "as it is"),  # " Male"
    Table("default", f"{L}/Default.csv", "default", C, dress="parquet"),
    Table("hitters", f"{L}/Hitters.csv", "Salary", R, dress="as it is"),  # targets are missing
    Table("oj", f"{L}/OJ.csv", "Purchase", C, ("StoreID",), "duplicate header"),
    Table("nyse", f"{L}/NYSE.csv", "log_volume", R, ("date",), "as it is"),
    Table("publication", f"{L}/Publication.csv", "status", C, dress="stdin"),
    Table("smarket", f"{L}/Smarket.csv", "Direction", C, dress="bom"),
    Table("wage", f"{L}/Wage.csv", "wage", R, ("logwage",), "semicolon"),
    Table("anes96", f"{S}/anes96/anes96.csv", "'vote'", C, dress="as it is", reading=(("sep", "\t"),)),
    Table("fair", f"{S}/fair/fair.csv", "affairs", R, dress="nul"),
    Table("heart", f"{S}/heart/heart.csv", "survival", R, dress="as it is"),
    Table("modechoice", f"{S}/modechoice/modechoice.csv", "choice", C, ("individual",), "as it is", (("sep", ";"),)),
    Table(
        "spector", f"{S}/spector/spector.csv", "'GRADE'", C, ("'OBS'",), "as it is", (("sep", " "),),
        ("--delimiter", " "),
    ),
    Table("statecrime", f"{S}/statecrime/statecrime.csv", "murder", R, ("state",), "as it is"),
    Table("airports", f"{V}/airports.csv", "latitude", R, ("iata", "name"), "as it is"),
    Table("cars", f"{V}/cars.json", "Origin", C, ("Name",), "latin-1"),
    Table("la_riots", f"{V}/la-riots.csv", "gender", C, ("first_name", "last_name"), "as it is"),
    Table("weather", f"{V}/seattle-weather.csv", "weather", C, ("date",), "as it is"),
]  # fmt: skip


def write(table: Table, frame: pd.DataFrame, folder: Path) -> tuple[Path, list[str]]:
    """The table as a file in its dress, and what the command line must be told to read it."""
    path, dress = folder / "data.csv", table.dress
    if dress == "as it is":
        assert table.path is not None
        return table.path, list(table.options)
    if dress == "parquet":
        frame.to_parquet(folder / "data.parquet")
        return folder / "data.parquet", []
    if dress == "gz":
        frame.to_csv(folder / "data.csv.gz", index=False)
        return folder / "data.csv.gz", []
    options: dict[str, Any] = {
        "semicolon": {"sep": ";"}, "tab": {"sep": "\t"}, "decimal comma": {"sep": ";", "decimal": ","},
        "bom": {"encoding": "utf-8-sig"}, "utf-16": {"encoding": "utf-16"}, "latin-1": {"encoding": "latin-1"},
        "missing as ?": {"na_rep": "?"}, "row numbers": {"index": True},
    }.get(dress, {})  # fmt: skip
    frame.to_csv(path, **{"index": False} | options)
    told = {"latin-1": ["--encoding", "latin-1"], "missing as ?": ["--missing", "?"]}.get(dress, [])
    if dress == "spaces":
        path.write_text(path.read_text().replace(",", ", "))
    return path, told


def run(*arguments: object) -> tuple[int, str, str]:
    """A command, within this process; an exception that it does not catch is a stack trace for its user."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    assert "Traceback" not in err.getvalue()
    return code, out.getvalue(), err.getvalue()


def done(*arguments: object) -> str:
    """The output of a command that must work."""
    code, out, err = run(*arguments)
    assert code == 0, f"{arguments}: {err}"
    return out


def refused(words: str, *arguments: object) -> None:
    """A command that must say one sentence."""
    code, out, err = run(*arguments)
    assert code == 2, f"{arguments} should have been refused"
    assert out == ""
    assert words in err.splitlines()[-1], err


def fit_in_python(table: Table, frame: pd.DataFrame) -> Any:
    """A model, with its answers checked."""
    rows = frame[frame[table.target].notna()].reset_index(drop=True)
    x, y = rows.drop(columns=[table.target, *table.ids]), rows[table.target]
    model: Any = (HarsanyiClassifier if table.task == C else HarsanyiRegressor)(**SETTINGS, progress=False)
    model.fit(x, y)
    ex = model.explain(x[:50])
    raw = model.decision_function(x[:50]) if table.task == C else model.predict(x[:50])
    scale = max(1.0, float(np.abs(raw).max()))
    np.testing.assert_allclose(ex.outputs, raw, rtol=0, atol=1e-10 * scale)
    assert verify(model, x[:2], max_rows=2, n_masks=100, n_subgames=1, progress=False).passed
    if table.task == C:
        assert (model.predict(x) == y).mean() > y.value_counts(normalize=True).max() - 0.02
        np.testing.assert_allclose(model.predict_proba(x[:50]).sum(1), 1.0)
    else:
        assert model.score(x, y) > -0.02
    return model


def check(table: Table, folder: Path) -> None:
    """Everything about one table; an AssertionError says what is wrong."""
    frame = table.load()
    if table.dress == "latin-1":
        frame = frame.assign(place=np.where(np.arange(len(frame)) % 3 == 0, "Köln", "São Paulo"))
    path, told = write(table, frame, folder)
    if table.dress == "spaces":  # as pandas has them
        texts = [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
        frame = frame.assign(**{name: frame[name].map(" {}".format) for name in texts if name != frame.columns[0]})
        frame.columns = pd.Index([name if i == 0 else f" {name}" for i, name in enumerate(frame.columns)])
        table = Table(table.name, table.file, f" {table.target}", table.task, dress=table.dress)
    ids = [word for name in table.ids for word in ("--id", name)]
    to_fit = ["--target", table.target, "--task", table.task, "--max-iter", SETTINGS["max_iter"], "--learning-rate",
              SETTINGS["learning_rate"], "--threads", 1, *ids]  # fmt: skip
    model_path, data = folder / "m.hnet", path
    if table.dress == "row numbers":
        to_fit += ["--drop", "Unnamed: 0"]
    if table.dress == "latin-1":
        refused("name its encoding", "fit", path, *to_fit, "-o", model_path)
    elif table.dress == "duplicate header":
        text = path.read_text().splitlines(keepends=True)
        (folder / "twice.csv").write_text("".join(["Purchase,Purchase" + text[0][len("Purchase") :], *text[1:]]))
        refused("'Purchase' stands there 2 times", "fit", folder / "twice.csv", *to_fit, "-o", model_path)
    elif table.dress == "nul":
        (folder / "nul.csv").write_bytes(path.read_bytes()[:-20] + b"\0" * 20)
        refused("NUL bytes", "fit", folder / "nul.csv", *to_fit, "-o", model_path)
    refused("must be another file than the input", "fit", path, *to_fit, *told, "-o", path)
    ours = fit_in_python(table, frame)
    with stdin_of(path if table.dress == "stdin" else None):
        done("fit", "-" if table.dress == "stdin" else data, *to_fit, *told, "-o", model_path)
    theirs: Any = load(model_path)
    x = frame.drop(columns=[table.target, *table.ids])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows without a target may hold what no other row holds
        done("predict", model_path, data, *told, *ids, "-o", folder / "p.csv")
        done("explain", model_path, data, *told, *ids, "-o", folder / "e.csv")
        predicted = pd.read_csv(folder / "p.csv", keep_default_na=False, dtype=dict.fromkeys(table.ids, str))
        wanted, same = theirs.predict(x), ours.predict(x)
        if table.task == C:
            assert predicted["prediction"].astype(str).tolist() == [str(label) for label in wanted]
            assert (wanted == same).mean() > 0.999, "the command line and Python fitted different models"
        else:
            np.testing.assert_allclose(predicted["prediction"], wanted, rtol=1e-9)
            np.testing.assert_allclose(wanted, same, rtol=1e-6, atol=1e-6 * np.abs(same).max())
        for name in table.ids:
            assert predicted[name].tolist() == ids_as_written(table, frame, name)
        values = pd.read_csv(folder / "e.csv")
        explained = theirs.explain(x)
    assert len(values) == len(frame)
    one = values.iloc[:, len(table.ids) :].to_numpy(float)
    width = explained.n_features + 2
    for k in range(len(explained.output_names)):
        part = one[:, k * width : (k + 1) * width]
        np.testing.assert_allclose(part[:, :-1].sum(1), part[:, -1], atol=1e-8 * max(1.0, np.abs(part).max()))
        np.testing.assert_allclose(part[:, 1:-1], explained.values.reshape(len(x), width - 2, -1)[:, :, k], atol=1e-8)
    assert "rows" in done("score", model_path, data, "--target", table.target, *told)
    assert done("verify", model_path, data, "--max-rows", 2, *told).startswith("PASSED")


def ids_as_written(table: Table, frame: pd.DataFrame, name: str) -> list[str]:
    """What stands in the file."""
    if table.dress == "as it is":
        assert table.path is not None
        return pd.read_csv(table.path, **dict(table.reading), dtype=str, keep_default_na=False)[name].tolist()
    return pd.read_csv(io.StringIO(frame[[name]].to_csv(index=False)), dtype=str, keep_default_na=False)[name].tolist()


@contextlib.contextmanager
def stdin_of(path: Path | None) -> Any:
    """A file as standard input."""
    before = sys.stdin
    if path is not None:
        sys.stdin = io.TextIOWrapper(io.BytesIO(path.read_bytes()))
    try:
        yield
    finally:
        sys.stdin = before


if __name__ == "__main__":
    failed, absent = [], []
    for one in TABLES:
        if sys.argv[1:] and one.name not in sys.argv[1:]:
            continue
        if not one.there:
            absent.append(one.name)
            continue
        with tempfile.TemporaryDirectory() as place:
            try:
                check(one, Path(place))
                print(f"ok      {one.name} ({one.dress})", flush=True)  # noqa: T201
            except Exception as error:
                failed.append(one.name)
                print(f"FAILED  {one.name} ({one.dress}): {type(error).__name__}: {str(error)[:600]}", flush=True)  # noqa: T201
    if absent:
        print(f"not installed: {', '.join(absent)}")  # noqa: T201
    raise SystemExit(1 if failed or absent else 0)
