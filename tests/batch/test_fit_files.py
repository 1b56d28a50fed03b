"""From a table file to a model file, through the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from shop_files import FEATURES, SMALL, run, shop, table

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, load
from harsanyinet.batch.fit_files import decide_task
from harsanyinet.cli import main


def test_fit(tmp_path, capsys):
    frame = shop()
    frame.loc[[3, 8], "bought"] = None
    frame["size"] = frame["size"].astype(object).where(frame.index != 5, "?")
    frame.to_csv(tmp_path / "shop.csv")  # with row numbers, as pandas likes to write them
    arguments = ("fit", tmp_path / "shop.csv", "--target", "bought", "-o", tmp_path / "m.hnet", *SMALL)
    code, out, err = run(
        capsys, *arguments, "--drop", "Unnamed: 0,price,kind", "--categorical", "zip", "--missing", "?"
    )
    assert code == 0
    assert "2 of 200 rows have no 'bought' and are left out\n" in err
    assert "harsanyinet: classification, because 'bought' holds text, 2 classes;" in err
    lines = {line[:18].strip(): line[18:] for line in out.splitlines()}
    assert lines["rows"] == "198 (2 more without a target)"
    assert lines["columns"] == "5"
    assert lines["task"] == "classification, 2 classes"
    model = load(tmp_path / "m.hnet")
    scores = ", ".join(f"{name} {model.history_.scores[name]:.4g}" for name in ("log-loss", "accuracy", "AUC"))
    assert lines["on rows held out"] == f"{scores} ({model.history_.n_rows} rows)"
    assert 0 < model.history_.scores["log-loss"] < 0.6
    assert 0 < model.history_.n_rows <= 198
    assert lines["trees"] == f"{len(model.trees_)}, learning rate {model.learning_rate_:.3g}"
    assert set(lines["most important"].replace(",", "").split()[::2]) == set(FEATURES)
    assert lines["model"] == str(tmp_path / "m.hnet")
    assert isinstance(model, HarsanyiClassifier)
    columns = {column.name: column for column in model.columns_}
    assert {name for name, column in columns.items() if column.kind == "category"} == {"colour", "zip"}
    assert set(columns["zip"].levels) == {"01", "02", "10"}

    code, _, err = run(capsys, *arguments, "--drop", "price,kind")  # all that it should warn of
    assert code == 0
    assert "column 'size' counts as categories because of '?'; if that is missing, say --missing" in err
    assert "the first column has no name; if it counts rows, leave it out by --drop 'Unnamed: 0'" in err


@pytest.mark.needs("pyarrow")
def test_fit_settings_reach_the_model(store, tmp_path, capsys):
    code, out, _ = run(
        capsys, "fit", store / "shop.parquet", "--target", "price", "--drop", "bought", "-o", tmp_path / "m.hnet",
        "--loss", "quantile", "--quantile", 0.9, "--max-order", 1, "--seed", 3, "--members", 2, "--max-iter", 5,
        "--learning-rate", 0.25, "--max-seconds", 60, "--categorical", "kind",
    )  # fmt: skip
    assert code == 0
    assert "task              regression\n" in out
    assert "nothing was held out" in out
    model = load(tmp_path / "m.hnet")
    assert f"trees             {len(model.trees_)}, learning rate 0.25\n" in out
    assert isinstance(model, HarsanyiRegressor)
    wanted = {
        "loss": "quantile", "quantile": 0.9, "max_order": 1, "random_state": 3, "members": 2, "max_iter": 5,
        "learning_rate": 0.25, "max_seconds": 60.0, "categorical_features": ["kind"],
    }  # fmt: skip
    assert {name: getattr(model, name) for name in wanted} == wanted
    assert model.columns_[5].kind == "category"


@pytest.mark.parametrize(
    ("values", "task", "why"),
    [
        (["a", "b"], "classification", "text, 2 classes"),
        ([True, False], "classification", "true and false"),
        (range(20), "classification", "20 different whole numbers"),
        ([0.0, 1.0], "classification", "2 different whole numbers"),
        (range(21), "regression", "more than 20 different whole numbers"),
        ([0.5, 1.0], "regression", "not whole"),
    ],
)
def test_the_task(values, task, why):
    found, reason = decide_task(pd.Series(list(values), name="y"))
    assert found == task
    assert why in reason


def test_a_fit_that_is_interrupted_leaves_nothing(store, tmp_path, capsys, monkeypatch):
    from harsanyinet.tables.boosting import Booster

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Booster, "boost", interrupted)
    code, out, err = run(capsys, "fit", store / "shop.csv", "--target", "bought", "-o", tmp_path / "m.hnet", *SMALL)
    assert (code, out, err.splitlines()[-1]) == (130, "", "interrupted")
    assert list(tmp_path.iterdir()) == []


def test_monotone(store, tmp_path, capsys):
    arguments = ("fit", store / "shop.csv", "--target", "price", "--drop", "bought,kind", "-o", tmp_path / "m.hnet")
    assert run(capsys, *arguments, *SMALL, "--monotone", "size=1", "--monotone", "count=-1")[0] == 0
    assert load(tmp_path / "m.hnet").monotonic_cst == {"size": 1, "count": -1}
    for wrong in ("size", "size=2", "=1"):
        with pytest.raises(SystemExit):
            main([*map(str, arguments), "--monotone", wrong])
        assert f"expected COL=1 or COL=-1, however: {wrong!r}" in capsys.readouterr().err
    assert "has no column 'siez'" in run(capsys, *arguments, "--monotone", "siez=1")[2]


def test_dates_and_groups(tmp_path, capsys):
    """A date is one player and so is a group; what was found is said, and files are read as in fit."""
    rng = np.random.default_rng(0)
    days = pd.Series(pd.date_range("2020-01-01", periods=200, freq="D"))
    colour = rng.integers(0, 2, 200)
    frame = pd.DataFrame({
        "number": np.arange(200), "day": days.dt.strftime("%d.%m.%Y"), "red": colour, "blue": 1 - colour,
        "price": 3.0 * (days.dt.day_of_week > 4) + colour + rng.normal(size=200) / 10,
    })  # fmt: skip
    data, model = tmp_path / "d.csv", tmp_path / "m.hnet"
    frame.to_csv(data, index=False)
    arguments = ("fit", data, "--target", "price", *SMALL, "-o", model, "--task", "regression")
    code, out, err = run(capsys, *arguments, "--group", "colour=red,blue")
    assert code == 0
    assert "column 'number' looks like an identifier" in err
    assert "column 'day' holds text that reads as dates (%d.%m.%Y)" in err
    assert "day" in out.split("most important")[1].splitlines()[0]
    found = table(run(capsys, "explain", model, data)[1])
    assert list(found.columns) == ["base value", "number", "day", "colour", "output"]
    assert found["day"].abs().mean() > 0.1
    expected = load(model).explain(frame.drop(columns="price")).values
    np.testing.assert_allclose(found[["number", "day", "colour"]], expected, atol=1e-9)
    assert run(capsys, "verify", model, data)[0] == 0
    assert "reads as dates" not in run(capsys, *arguments, "--dates", "")[2]
    assert [column.kind for column in load(model).columns_][:2] == ["number", "category"]
    for wrong in ("colour", "=red", "colour="):
        with pytest.raises(SystemExit):
            main([*map(str, arguments), "--group", wrong])
        assert "expected NAME=COL,..." in capsys.readouterr().err
