"""Tables of every kind to fit and predict, early stopping, budgets, members, explanations."""

from __future__ import annotations

import itertools
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss
from small_tables import classifier, in_pairs, mixed, numbers, regressor

from harsanyinet import Explanation
from harsanyinet.tables.columns import code_frame
from harsanyinet.tables.frames import UnseenCategoryWarning
from harsanyinet.tables.tree_games import TreeDividends, TreeGame


def test_polars_frames_and_targets():
    polars = pytest.importorskip("polars")
    frame = mixed(200)
    y = in_pairs(frame)
    other = polars.DataFrame(
        {name: frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame}
    )
    model = regressor().fit(frame, y)
    same = regressor().fit(other, polars.Series("target", y))
    np.testing.assert_array_equal(same.predict(other), model.predict(frame))
    np.testing.assert_array_equal(model.explain(other).values, model.explain(frame).values)
    assert same.feature_names_in_.tolist() == ["a", "b", "colour"]
    assert same.explain(other).output_names == ["target"]
    labels = classifier().fit(other, polars.Series((y > 0).tolist()))
    assert labels.predict(other).dtype == bool


def test_frames_arrays_and_lists_give_the_same_model():
    rng = np.random.default_rng(0)
    rows = [[float(a), str(c)] for a, c in zip(rng.normal(size=100), rng.choice(["u", "v"], 100), strict=True)]
    y = [row[0] * (row[1] == "u") for row in rows]
    frame = pd.DataFrame(rows, columns=["x0", "x1"])
    expected = regressor().fit(frame, y).predict(frame)
    for given in (rows, np.array(rows, dtype=object)):  # beside text numbers stay numbers
        model = regressor().fit(given, y)
        assert [column.kind for column in model.columns_] == ["number", "category"]
        np.testing.assert_array_equal(model.predict(given), expected)
        assert not hasattr(model, "feature_names_in_")
    assert model.game(rows, 0)(np.ones((2, 2), dtype=bool)).shape == (2,)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_arrays_of_numbers_of_every_type(dtype):
    x = (numbers(300).to_numpy() * 10).astype(dtype)
    model = regressor().fit(x, x[:, 0].astype(float) * x[:, 1])
    expected = model.predict(x.astype(np.float64))
    np.testing.assert_array_equal(model.predict(x), expected)
    np.testing.assert_array_equal(model.predict(np.asfortranarray(x)), expected)
    np.testing.assert_array_equal(model.predict(x[::-1])[::-1], expected)
    np.testing.assert_array_equal(model.predict(x.tolist()), expected)
    ex = model.explain(x)
    np.testing.assert_array_equal(np.asarray(ex.data, dtype=float), x)


def test_names_and_importances():
    frame = mixed(400)
    frame = frame[frame["a"].notna()].reset_index(drop=True)
    model = regressor().fit(frame, 3 * frame["b"] + 0.01 * (frame["colour"] == "red"))
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["a", "b", "colour"]
    assert model.feature_importances_.shape == (3,)
    assert model.feature_importances_.dtype == np.float64
    assert model.feature_importances_.argmax() == 1
    values = model.explain(frame).values  # all rows, since there are fewer than 2000, and few levels
    np.testing.assert_allclose(model.feature_importances_, np.abs(values).mean(0), rtol=1e-10)
    assert model.explain(frame).data[0, 1] == frame["b"][0]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))
    np.testing.assert_array_equal(model.predict(frame[["b", "a", "colour"]]), model.predict(frame))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(frame.to_numpy(dtype=object))


def test_unseen_categories_are_absent_and_other_types_are_errors():
    frame = mixed()
    model = regressor().fit(frame, in_pairs(frame))
    new = frame.iloc[:20].copy()
    new["colour"] = "violet"
    with pytest.warns(UnseenCategoryWarning, match="column 'colour' holds categories") as caught:
        out = model.predict(new)
    assert len(caught) == 1
    np.testing.assert_array_equal(out, model.predict(frame.iloc[:20], present=[True, True, False]))
    with pytest.raises(ValueError, match="column 'b' must hold numbers, as it did in fit, however: 'many' in row 0"):
        model.predict(frame.iloc[:2].assign(b=["many", "few"]))
    with pytest.raises(TypeError, match="column 'a' holds dates or times"):
        model.predict(frame.iloc[:2].assign(a=pd.to_datetime(["2020", "2021"])))


def test_a_missing_value_is_a_value_or_an_absence():
    frame = mixed()
    y = in_pairs(frame) + 5 * frame["a"].isna()
    some, none = frame.iloc[:40], frame.iloc[:40].assign(a=np.nan)
    value, absent = regressor().fit(frame, y), regressor(missing="absent").fit(frame, y)
    assert value.columns_[0].missing
    assert not absent.columns_[0].missing
    without = [False, True, True]
    np.testing.assert_array_equal(absent.predict(none), absent.predict(some, present=without))
    assert not np.array_equal(value.predict(none), value.predict(some, present=without))
    # where nothing was missing in fit, a missing value is an absence, unless it is said to be a value
    whole = frame.assign(a=frame["a"].fillna(0.0))
    model = regressor().fit(whole, y)
    np.testing.assert_array_equal(model.predict(none), model.predict(some, present=without))
    assert regressor(missing="value").fit(whole, y).columns_[0].missing


def test_one_row_from_a_dict_a_frame_and_an_array():
    frame = mixed()
    model = regressor().fit(frame, in_pairs(frame))
    for row in range(12):
        one = frame.iloc[row : row + 1]
        given = dict(one.iloc[0].items())
        np.testing.assert_array_equal(model.predict(given), model.predict(one))
        for game in ("missing", "marginal"):
            a, b = model.explain(given, game=game), model.explain(one, game=game)
            np.testing.assert_array_equal(a.values, b.values)
            assert [str(v) for v in a.data[0]] == [str(v) for v in b.data[0]]
    known = {name: value for name, value in frame.iloc[1].items() if name != "b"}
    np.testing.assert_array_equal(model.predict(known), model.predict(frame[1:2], present=[True, False, True]))
    with pytest.raises(ValueError, match=r"^a row must name columns of the model, however: 'weight'$"):
        model.predict({"a": 1.0, "weight": 2.0})
    x = numbers(200).to_numpy()
    model = classifier().fit(x, x[:, 0] > 0)
    np.testing.assert_array_equal(
        model.decision_function({f"x{i}": x[3, i] for i in range(4)}), model.decision_function(x)[3:4]
    )
    np.testing.assert_array_equal(model.decision_function(x[3:4]), model.decision_function(x)[3:4])


@pytest.mark.parametrize(
    "bad",
    [
        {"b": "many"}, {"b": np.inf}, {"b": 1j}, {"b": pd.Timestamp("2020")}, {"colour": [1]},
        {"colour": pd.Timestamp("2020")},
    ],
    ids=str,
)  # fmt: skip
def test_one_row_is_refused_with_the_words_for_many(bad):
    frame = mixed()
    model = regressor(max_iter=2).fit(frame, in_pairs(frame))
    two = pd.DataFrame([{"a": 1.0, "b": 2.0, "colour": "red"} | bad] * 2, index=["seven", "eight"])
    found = []
    for rows in (two, two[:1]):
        with pytest.raises((TypeError, ValueError)) as error:
            model.predict(rows)
        found.append((type(error.value), str(error.value)))
    assert found[0] == found[1]


def test_many_rows_are_like_few():
    """Compiled loops from some number of rows on, chunks, threads: the same bits."""
    frame = mixed()
    model = classifier(n_jobs=2).fit(frame, in_pairs(frame) > 0)
    rows = np.random.default_rng(0).integers(0, 300, 70_000)
    many = frame.iloc[rows]
    np.testing.assert_array_equal(model.decision_function(many), model.decision_function(frame)[rows])
    np.testing.assert_array_equal(model.explain(many).values, model.explain(frame).values[rows])


def test_early_stopping_keeps_the_best_number_of_trees():
    rng = np.random.default_rng(0)
    frame = numbers(600)
    y = (in_pairs(frame) + 2 * rng.normal(size=600) > 0).astype(int)
    fresh = numbers(300, seed=7)
    theirs = (in_pairs(fresh) + 2 * rng.normal(size=300) > 0).astype(int)
    model = classifier(early_stopping=True, n_iter_no_change=10, max_iter=400, learning_rate=0.3)
    model.fit(frame, y, eval_set=(fresh, theirs))
    losses = model.history_.losses
    best = model.history_.best
    assert best == int(np.argmin(losses)) < 80
    assert len(losses) == best + 11
    assert best <= model.n_iter_ < 2 * best  # those after the best teach what to say from some of the columns
    assert model.history_.n_rows == 300
    # the model that is kept has the loss that was the best
    proba = model.predict_proba(fresh)
    assert log_loss(theirs, proba) == pytest.approx(losses.min(), rel=1e-9)
    assert model.history_.scores["log-loss"] == pytest.approx(losses.min(), rel=1e-9)
    assert model.history_.scores["accuracy"] == pytest.approx((model.predict(fresh) == theirs).mean())
    assert losses[0] == pytest.approx(log_loss(theirs, np.full(300, y.mean())), rel=1e-6)


def test_early_stopping_on_rows_of_its_own():
    rng = np.random.default_rng(0)
    frame = numbers(500)
    y = in_pairs(frame) + rng.normal(size=500)
    model = regressor(early_stopping=True, validation_fraction=0.2, n_iter_no_change=8, max_iter=300, learning_rate=0.3)
    model.fit(frame, y)
    assert model.history_.n_rows == 100
    assert model.history_.best <= model.n_iter_ < 200
    again = clone(model).fit(frame, y)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    # all training rows are the background of the marginal game, those held out too
    base = model.explain(frame[:2], game="marginal").base_values
    assert base == pytest.approx(model.predict(frame).mean(), rel=1e-10)


def test_classes_are_held_out_in_their_shares():
    y = np.repeat([0, 1, 2], [170, 20, 10])
    model = classifier(early_stopping=True, validation_fraction=0.2, max_iter=5).fit(numbers(200), y)
    assert model.history_.n_rows == pytest.approx(40, abs=1)
    assert model.decision_function(numbers(200)).shape == (200, 3)


def test_rows_to_watch_without_stopping():
    frame = numbers(300)
    y = in_pairs(frame)
    model = regressor(n_iter_no_change=1).fit(
        frame, y, eval_set=(numbers(100, seed=3).to_numpy(), in_pairs(numbers(100, seed=3)))
    )
    assert 20 < len(model.history_.losses) <= 31  # before the first tree and after each that learns from the rows
    plain = regressor().fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(frame))  # watching changes nothing
    r2 = (
        1
        - ((model.predict(numbers(100, seed=3)) - in_pairs(numbers(100, seed=3))) ** 2).mean()
        / in_pairs(numbers(100, seed=3)).var()
    )
    assert model.history_.scores["R2"] == pytest.approx(r2, rel=1e-9)
    with pytest.raises(ValueError, match=r"^eval_set must have the columns of X, however: a, b, c"):
        regressor().fit(frame, y, eval_set=(frame[["a", "b", "c"]], y))
    with pytest.raises(ValueError, match=r"^eval_set must hold classes that y holds, however: it has others$"):
        classifier().fit(frame, y > 0, eval_set=(frame, np.arange(300) % 3))


@pytest.mark.parametrize("early_stopping", [False, True])
def test_scores_of_rows_to_watch_are_those_of_the_model_in_the_end(early_stopping):
    """Also where columns are absent, about which more is learned after the last loss."""
    frame, fresh = numbers(400), numbers(200, seed=3)
    y, truth = in_pairs(frame), in_pairs(fresh)
    fresh = fresh.mask(np.random.default_rng(0).random(fresh.shape) < 0.3)
    model = regressor(early_stopping=early_stopping, missing="absent").fit(frame, y, eval_set=(fresh, truth))
    r2 = 1 - ((model.predict(fresh) - truth) ** 2).mean() / truth.var()
    assert model.history_.scores["R2"] == pytest.approx(r2, rel=1e-9)


def test_players_that_are_one_are_fitted_by_as_many_trees_as_asked_for():
    frame = numbers(300)
    one = regressor(groups={"all": list(frame.columns)}, max_iter=50).fit(frame, in_pairs(frame))
    assert one.n_iter_ == 50


def test_scores_of_several_targets_do_not_depend_on_their_order():
    """They are in units of the targets, not of the first one."""
    frame, other = numbers(300), numbers(100, seed=3)
    y, theirs = (np.column_stack([in_pairs(f), 1000 * f["c"]]) for f in (frame, other))
    found = [
        regressor().fit(frame, y[:, order], eval_set=(other, theirs[:, order])).history_.scores
        for order in ([0, 1], [1, 0])
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert found[0]["RMSE"] > 10


def test_watching_alone_never_stops():
    frame = numbers(100)
    y, theirs = np.random.default_rng(0).normal(size=(2, 100))  # noise: the loss of other rows rises at once
    model = regressor(n_iter_no_change=1, learning_rate=0.5).fit(frame, y, eval_set=(numbers(100, seed=3), theirs))
    losses = model.history_.losses
    assert losses[-1] > losses[0]
    assert len(losses) > 20
    stopped = regressor(n_iter_no_change=1, learning_rate=0.5, early_stopping=True)
    assert len(stopped.fit(frame, y, eval_set=(numbers(100, seed=3), theirs)).history_.losses) < 10


@pytest.mark.parametrize("rate", [0.05, None])
def test_a_time_budget_gives_the_model_so_far(rate, monkeypatch):
    """Looking for the learning rate is part of the budget: five quick fits of six classes would take longer.

    The clock moves by a hundredth of a second whenever it is looked at, which is before every tree.
    """
    frame = numbers(1000, 8)
    y = np.digitize(in_pairs(frame), [-2, -1, 0, 1, 2])
    looks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: 0.01 * next(looks))
    model = classifier(max_iter=10**6, learning_rate=rate, max_seconds=0.5).fit(frame, y)
    assert 40 < next(looks) < 60  # the budget is used, and after it only the last steps look again
    monkeypatch.undo()
    assert np.isfinite(model.predict_proba(frame)).all()
    assert model.explain(frame[:3]).values.shape == (3, 8, 6)
    assert 1 <= model.n_iter_ < 50
    assert (model.predict(frame) == y).mean() > 0.4


def test_a_budget_of_no_time_is_a_constant():
    frame = numbers(100)
    model = regressor(max_seconds=1e-9, max_iter=10**6).fit(frame, frame["a"])
    assert model.n_iter_ <= 1
    assert np.abs(model.predict(frame) - frame["a"].mean()).max() < 0.5


def test_a_large_enough_budget_changes_nothing():
    frame = mixed()
    a, b = (regressor(max_seconds=s, members=2).fit(frame, in_pairs(frame)) for s in (None, 1000.0))
    np.testing.assert_array_equal(a.predict(frame), b.predict(frame))


def test_members_disagree_by_the_spread_of_their_values():
    frame = mixed()
    y = np.digitize(in_pairs(frame), [-1, 1])
    model = classifier(members=3).fit(frame, y)
    assert len(model.member_ends_) == 3
    spread = model.value_spread(frame)
    assert spread.shape == (300, 3, 3)
    coded = code_frame(model.columns_, frame)
    each = []
    for start, stop in zip([0, *model.member_ends_[:-1]], model.member_ends_, strict=True):
        one = model.trees_.part(start, stop)
        own = Explanation(base_values=one.base, dividends=TreeDividends(TreeGame(one), coded), copy=False)
        each.append(3 * own.values)  # a member counts a third in the mean
    np.testing.assert_allclose(np.mean(each, axis=0), model.explain(frame).values, 0, 1e-12 * np.abs(each).max())
    np.testing.assert_allclose(spread, np.std(each, axis=0), 0, 1e-12 * np.abs(each).max())
    assert spread.max() > 0.01
    with pytest.raises(ValueError, match=r"^value_spread compares members, however: there is one; fit with members=5"):
        regressor().fit(frame, in_pairs(frame)).value_spread(frame)


def test_an_explanation_keeps_the_index_and_says_what_its_outputs_are():
    frame = numbers(60).set_axis([f"row {i}" for i in range(60)])
    ex = classifier().fit(frame, np.where(frame["a"] > 0, "yes", "no")).explain(frame)
    assert ex.to_frame()["row"].tolist()[::4] == frame.index.tolist()
    assert ex.row_position("row 7") == 7
    assert ex.output_label(0) == "log-odds of yes"
    assert classifier().fit(frame, np.digitize(frame["a"], [-0.5, 0.5])).explain(frame).output_label(2) == "logit of 2"
    price = (10 + frame["a"]).rename("price")
    assert regressor().fit(frame, price).explain(frame).output_label(0) == "price"
    assert regressor(loss="poisson").fit(frame, price).explain(frame).output_label(0) == "logarithm of price"
    for rows in (frame.reset_index(drop=True), frame.to_numpy()):
        model = regressor().fit(rows, price.to_numpy())
        assert model.explain(rows).row_names is None
        assert model.explain(rows).output_label(0) == "output"


@pytest.mark.parametrize("kind", ["mixed", "numbers", "array", "objects"])
def test_an_explanation_does_not_change_with_the_callers_table(kind):
    frame = mixed(60) if kind == "mixed" else numbers(60)
    rows = frame if kind in ("mixed", "numbers") else np.array(frame, dtype=float if kind == "array" else object)
    model = regressor().fit(rows, frame["b"].to_numpy())
    ex = model.explain(rows)
    before = frame.to_numpy(dtype=object).copy()
    if isinstance(rows, pd.DataFrame):
        rows.loc[0, "b"] = 99.0
        rows["a"] = 98.0
    else:
        rows[0, 1] = 99.0
    assert [str(cell) for cell in ex.data[0]] == [str(cell) for cell in before[0]]


def test_the_first_member_is_the_model_of_one():
    frame = mixed()
    one, two = (regressor(members=n, copies=2 * n).fit(frame, in_pairs(frame)) for n in (1, 2))  # two copies each
    first = two.trees_.part(0, int(two.member_ends_[0]))
    np.testing.assert_allclose(2 * first.values, one.trees_.values, 1e-12)


def test_present_has_the_shape_of_a_row_or_of_all_rows():
    frame = mixed()
    model = classifier().fit(frame, in_pairs(frame) > 0)
    few = frame.iloc[:4]
    row = [True, False, True]
    np.testing.assert_array_equal(model.predict_proba(few, present=row), model.predict_proba(few, present=[row] * 4))
    np.testing.assert_array_equal(model.decision_function(few, present=[True] * 3), model.decision_function(few))
    nobody = model.decision_function(few, present=[False] * 3)
    np.testing.assert_array_equal(nobody, np.full(4, model.explain(few).base_values))
    for wrong, found in (([True] * 2, r"\(2,\)"), ([[True] * 3] * 5, r"\(5, 3\)"), ([[[True] * 3]], r"\(1, 1, 3\)")):
        with pytest.raises(ValueError, match=rf"^present must have shape \(3,\) or \(4, 3\), however: {found}$"):
            model.predict(few, present=wrong)
    for wrong, found in (([1, 0, 1], "int64"), (["a", 1, None], "object"), ([1.0, 0.5, 0.0], "float64")):
        with pytest.raises(
            TypeError, match=rf"^present must be bool, True where a column is there, or names, however: {found}$"
        ):
            model.explain(few, present=wrong)


def test_the_game_is_that_of_the_predictions():
    frame = mixed()
    model = regressor().fit(frame, in_pairs(frame))
    masks = np.array([[True, True, True], [False, True, True], [False, False, False]])
    for row in (0, 5):
        expected = [model.predict(frame.iloc[row : row + 1], present=mask)[0] for mask in masks]
        np.testing.assert_array_equal(model.game(frame, row)(masks), expected)


def test_games_are_asked_for_by_name():
    frame = mixed()
    model = regressor().fit(frame, in_pairs(frame))
    message = r"^the baseline game, and no other, needs baseline=, a row of reference values$"
    for options in ({"game": "baseline"}, {"baseline": frame[:1]}, {"game": "marginal", "baseline": frame[:1]}):
        with pytest.raises(ValueError, match=message):
            model.explain(frame, **options)
    with pytest.raises(ValueError, match=r"^game must be one of missing, marginal, baseline, however: 'shap'$"):
        model.explain(frame, game="shap")
    with pytest.raises(ValueError, match=r"^baseline must be one row, however: 2 rows$"):
        model.explain(frame, game="baseline", baseline=frame[:2])
    by_dict = model.explain(frame, game="baseline", baseline=dict(frame.iloc[3].items()))
    by_frame = model.explain(frame, game="baseline", baseline=frame[3:4])
    np.testing.assert_array_equal(by_dict.values, by_frame.values)
    np.testing.assert_allclose(by_frame.values[3], 0, atol=1e-12)  # against itself
    assert by_frame.base_values == pytest.approx(model.predict(frame)[3], rel=1e-12)


def test_bad_tables_to_predict():
    frame = numbers(100)
    model = regressor(max_iter=2).fit(frame, np.arange(100.0))
    with pytest.raises(ValueError, match=r"Found a table with 0 sample\(s\)"):
        model.predict(frame.iloc[:0])
    with pytest.raises(ValueError, match="'c', 'd' missing"):
        model.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match=r"2D array|2-dimensional"):
        model.predict(frame["a"])
    x = frame.to_numpy()
    model = regressor(max_iter=2).fit(x, np.arange(100.0))
    for ask in (model.predict, model.explain):
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            ask(x[:0])
        with pytest.raises(ValueError, match="column 'x1' contains infinity"):
            ask(np.where(np.arange(4) == 1, np.inf, x))
        with pytest.raises(ValueError, match="feature"):
            ask(x[:, :3])


@pytest.mark.parametrize("n_rows", [2, 3, 9, 20, 64])
def test_very_small_tables_of_every_type(n_rows):
    frame = mixed(n_rows)
    y = np.arange(float(n_rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = regressor().fit(frame, y)
        labels = classifier().fit(frame, y > y.mean())
    assert np.isfinite(model.predict(frame)).all()
    assert np.isfinite(labels.decision_function(frame)).all()


def test_progress_is_shown_on_stderr_and_only_when_asked_for(capsys):
    frame = numbers(100)
    for progress in (False, True):
        regressor(progress=progress, max_iter=3).fit(frame, frame["a"])
    assert capsys.readouterr().out == ""
