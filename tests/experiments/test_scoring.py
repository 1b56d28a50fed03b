"""Which rows a model is fitted to, how it is timed and scored, and how two models are compared."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from harsanyinet.datasets import Table
from harsanyinet_experiments import scoring
from harsanyinet_experiments.scoring import compare, folds, scores, some_rows, split, split_in_two, target, timed


def table(task: str = "classification", n: int = 60) -> Table:
    x = pd.DataFrame({"number": np.arange(n) % 7 / 7, "row": range(n)})
    y = pd.Series([["no", "yes"][i % 2] for i in range(n)]) if task == "classification" else x["number"] * 2 + 1
    return Table("tiny", x, y, task, "here", "made up")


def test_folds():
    n = 33_000
    census = Table(
        "census", pd.DataFrame({"x": np.arange(n)}), pd.Series(["a", "b"] * (n // 2)), "classification", "", ""
    )
    ((train, test),) = folds("census", census, 1)
    assert (len(train), test[0], test[-1]) == (32_561, 32_561, n - 1)

    labels = ["CYT"] * 100 + ["ERL"] * 5  # a class as small as the smallest of yeast
    yeast = Table("yeast", pd.DataFrame({"x": range(105)}), pd.Series(labels), "classification", "", "")
    parts = folds("yeast", yeast, 10)
    assert len(parts) == 10
    for train, test in parts:
        assert len(test) == 21
        assert set(yeast.y[train]) == set(yeast.y[test]) == {"CYT", "ERL"}

    for task in ("classification", "regression"):
        parts = folds("bike", table(task), 5)
        assert sorted(np.concatenate([test for _, test in parts])) == list(range(60))
        assert all(not set(train) & set(test) for train, test in parts)
        for (a, _), (b, _) in zip(parts, folds("bike", table(task), 5), strict=True):
            np.testing.assert_array_equal(a, b)


def test_splits_keep_the_share_of_classes_where_they_can(monkeypatch):
    train, test = split(table(), None, 3)
    assert (len(train), len(test)) == (45, 15)
    assert sorted([*train, *test]) == list(range(60))
    assert abs((table().y[test] == "yes").sum() - 7.5) <= 1
    np.testing.assert_array_equal(split(table(), None, 3)[0], train)
    assert not np.array_equal(split(table(), None, 4)[0], train)
    rare = table()
    rare.y[:57], rare.y[57:] = "no", "yes"  # three rows of a class are too few to keep its share
    assert len({(rare.y[split(rare, None, seed)[1]] == "yes").sum() for seed in range(20)}) > 1
    monkeypatch.setattr(scoring, "SAMPLE_TEST_ROWS", 30)
    assert [len(rows) for rows in split(table(), 20, 0)] == [20, 30]
    assert [len(rows) for rows in split(table(), 50, 0)] == [50, 10]


def test_splits_in_two_are_seeded_and_whole():
    first, second, other = (split_in_two(table(), seed) for seed in (0, 0, 1))
    assert first.train.equals(second.train)
    assert not first.train.equals(other.train)
    assert (len(first.train), len(first.test)) == (48, 12)
    assert sorted([*first.train["row"], *first.test["row"]]) == list(range(60))
    assert (first.y_train == table().y[first.train["row"]].reset_index(drop=True)).all()
    assert first.description == "made up; split 80/20 at random, seed 0"


def test_rows_to_explain():
    assert sorted(some_rows(5, 9)) == list(range(5))
    assert len(set(some_rows(50, 9).tolist())) == 9
    np.testing.assert_array_equal(some_rows(50, 9)[:4], some_rows(50, 4))


def test_a_fit_sees_its_rows_and_is_timed(monkeypatch):
    clock = iter([1.0, 4.0, 4.5])
    monkeypatch.setattr(scoring.time, "process_time", lambda: next(clock))

    def fit(x, y, task, threads):
        warnings.warn("look", UserWarning, stacklevel=1)
        assert (x["row"].tolist(), y.tolist(), task, threads) == ([3, 1], [1, 1], "classification", 2)
        return lambda rows: rows[["row", "row"]].to_numpy(np.float32)

    numbers = target(table())
    assert numbers[:4].tolist() == [0, 1, 0, 1]
    rows = (np.array([3, 1]), np.array([0, 5, 7]))
    fitted = timed(fit, table(), numbers[rows[0]], rows, 2)
    assert fitted.predicted.tolist() == [[0.0, 0.0], [5.0, 5.0], [7.0, 7.0]]
    assert fitted.taken == {"fit_seconds": 3.0, "predict_seconds": 0.5, "clock": "CPU", "n_train": 2, "n_test": 3}
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="look"):
        timed(fit, table(), numbers[rows[0]], rows, 2, quiet=False)


def test_a_summary_tells_seconds_of_the_process_from_older_ones():
    records = [{"model": "a", "clock": "CPU"}, {"model": "b"}, {"model": "a"}, {"model": "c", "clock": "CPU"}]
    assert scoring.clocks(records) == {"a": ["CPU", "wall"], "b": ["wall"], "c": ["CPU"]}


def test_scores_by_hand():
    two = scores(np.array([0, 1, 1]), np.array([[1.6, 0.4], [0.5, 1.5], [1.2, 0.8]]))  # they sum to 2, and are halved
    assert two["accuracy"] == pytest.approx(2 / 3)
    assert two["log_loss"] == pytest.approx(-np.log([0.8, 0.75, 0.4]).mean())
    assert two["auc"] == 1.0
    three = scores(np.array([0, 1]), np.array([[0.2, 0.5, 0.3], [0.1, 0.7, 0.2]]))
    assert three == {"accuracy": 0.5, "log_loss": pytest.approx(-np.log([0.2, 0.7]).mean())}
    numbers = scores(np.array([1.0, 3.0]), np.array([2.0, 3.0]))
    assert numbers == {"r2": pytest.approx(0.5), "rmse": pytest.approx(0.5**0.5)}
    assert (scoring.loss_of(two), scoring.loss_of(numbers)) == (two["log_loss"], numbers["rmse"])


def test_two_models_over_tables_and_seeds():
    losses = {("a", "s", 0): 1.0, ("a", "s", 1): 3.0, ("b", "s", 0): 2.0, ("b", "s", 1): 2.0, ("a", "t", 0): 1.0}
    losses |= {("b", "t", 0): 4.0, ("a", "u", 0): 9.0}  # one of them has not done u
    runs = {
        (m, t, None, seed): {"loss": loss, "fit_seconds": 2.0 + (m == "a")} for (m, t, seed), loss in losses.items()
    }
    one = compare(runs, "a", "b", None)
    assert one["by_table"] == {"s": 1.0, "t": 0.25}
    assert (one["ratio"], one["n_tables"], one["wins"]) == (0.5, 2, 1)
    assert one["worst"] == {"table": "s", "ratio": 1.0}
    assert one["fit_time_ratio"] == pytest.approx(1.5)
    spread = np.log([0.5, 1.5]).std(ddof=1) / 2**0.5
    assert one["standard_error"] == pytest.approx(0.5 * spread / 2)
    assert compare(runs, "a", "b", 60) == {}
    assert scoring.ratio_text(one) == f"0.5000 ± {0.25 * spread:.4f}"
    assert scoring.ratio_text({}) == ""
