"""Names of features, outputs and rows: how they are given and found."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sparse_games import Game, close

from harsanyinet import Explanation
from harsanyinet.explanations.names import check_present, different_names


class TestRowNames:
    def test_rows_are_found_by_label(self):
        ex = Game(1, rows=3).explain(row_names=["x", pd.Timestamp("2024-01-01"), ("a", 1)])
        assert [ex.row_position(r) for r in ("x", pd.Timestamp("2024-01-01"), ("a", 1), 1, -1)] == [0, 1, 2, 1, 2]
        assert ex[1:].row_position(("a", 1)) == 1
        assert ex.row_label(0) == "x"
        assert ex.top_interactions("x").sets == ex.top_interactions(0).sets
        close(ex.contrast(("a", 1), "x"), ex.contrast(2, 0))
        with pytest.raises(ValueError, match=r"position or a label, such as 'x', .*, however: no row has 'z'"):
            ex.row_position("z")
        with pytest.raises(ValueError, match=r"however: several rows have 'x'"):
            Game(1, rows=2).explain(row_names=["x", "x"]).row_position("x")
        with pytest.raises(ValueError, match=r"must be a position, since the rows have no labels, however: row='x'"):
            Game(1).explain().row_position("x")
        with pytest.raises(ValueError, match=r"row_names must be 3 labels, however: 2"):
            Game(1, rows=3).explain(row_names=["x", "y"])

    @pytest.mark.parametrize(
        "index",
        [
            pd.Index(["p", "q", "r"]), pd.Index([7, 3, 5]), pd.date_range("2024-01-01", periods=3),
            pd.MultiIndex.from_product([["a"], [1, 2, 3]]),
        ],
    )  # fmt: skip
    def test_a_frame_keeps_them(self, index):
        ex = Game(2, rows=3, k=2).explain(row_names=index)
        assert ex.to_frame()["row"].tolist() == [label for label in index for _ in range(2 * ex.n_features)]
        assert ex[[2, 0]].to_frame()["row"].unique().tolist() == [index[2], index[0]]
        if isinstance(index, pd.DatetimeIndex):
            assert ex.to_frame()["row"].dtype.kind == "M"

    def test_a_file_keeps_them(self, tmp_path):
        ex = Game(1, rows=2).explain(row_names=["x", 5], scale="log-odds", output_names=["yes"])
        ex.save(tmp_path / "e")
        found = Explanation.load(tmp_path / "e")
        assert found.row_names == ["x", 5]
        assert found.output_label(0) == "log-odds of yes"


def test_what_an_output_is_called():
    assert Game(1).explain().output_label(0) == "raw output"
    assert Game(2, k=2).explain().output_label(1) == "raw output of output 1"
    assert Game(1).explain(scale=None, output_names=["price"]).output_label(0) == "price"


class TestFeatures:
    """How features are named, by `restrict`; groups go the same way."""

    @pytest.fixture
    def ex(self):
        return Game(0).explain(feature_names=["age", "sex", "income", "city"])

    @pytest.mark.parametrize(
        ("players", "message"),
        [
            (["incom"], "unknown feature 'incom'; did you mean 'income'?"),
            (["age", "zzz"], "unknown feature 'zzz'; known are age, sex, income, city"),
            ([4], "feature must lie between 0 and 3, however: 4"),
            ([-1], "feature must lie between 0 and 3, however: -1"),
            ([1.0], "unknown feature 1.0; known are age, sex, income, city"),
            (["age", "sex", "age"], "each feature may be named once, however: ['age', 'sex', 'age']"),
            (["age", 0], "each feature may be named once, however: ['age', 0]"),
        ],
    )
    def test_wrong_ones(self, ex, players, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            ex.restrict(players)

    def test_a_string_is_not_a_list(self, ex):
        with pytest.raises(TypeError, match="features come as a list of names or positions, however: the string 'age'"):
            ex.restrict("age")

    def test_a_mask_is_not_a_list_of_positions(self):
        """`value` takes masks; here [False, True] would pass for the positions 0 and 1."""
        ex = Game(0, n=2, count=3).explain()
        for mask in ([False, True], np.array([False, True])):
            with pytest.raises((TypeError, ValueError), match="however: "):
                ex.restrict(mask)

    def test_many_names_are_not_all_listed(self):
        names = [f"column {i}" for i in range(30)]
        ex = Explanation(
            base_values=np.zeros(1),
            coalitions=np.eye(30, dtype=bool),
            dividends=np.ones((1, 30, 1)),
            feature_names=names,
        )
        with pytest.raises(ValueError, match="unknown feature 'zzz'; known are column 0") as caught:
            ex.restrict(["zzz"])
        assert "column 29" not in str(caught.value)


class TestPresent:
    def test_one_mask_for_all_rows_or_one_for_each(self):
        for shape in ((3,), (2, 3)):
            assert check_present(np.ones(shape, dtype=bool).tolist(), 2, 3).shape == shape
        assert check_present(np.ones((5, 3), dtype=bool), None, 3).shape == (5, 3)  # any number of masks

    @pytest.mark.parametrize(
        ("n_rows", "shape"), [(2, (4,)), (2, (3, 3)), (None, (5, 4)), (None, (4,)), (None, (1, 5, 3))]
    )
    def test_of_another_shape(self, n_rows, shape):
        with pytest.raises(
            ValueError, match=rf"^present must have shape \(3,\) or .*, however: {re.escape(str(shape))}$"
        ):
            check_present(np.ones(shape, dtype=bool), n_rows, 3)

    def test_of_another_type(self):
        with pytest.raises(TypeError, match=r"^present must be True where a cell is there, however: int64$"):
            check_present([1, 0], 2, 2, "True where a cell is there")


def test_names_are_as_many_as_expected_and_differ():
    assert different_names(None, ["a", "b"], "x") == ["a", "b"]
    assert different_names([1, None], ["a", "b"], "x") == ["1", "None"]
    for wrong in (["c"], ["c", "c"], [1, "1"], []):
        with pytest.raises(ValueError, match=r"^x must be 2 different names, however: "):
            different_names(wrong, ["a", "b"], "x")
