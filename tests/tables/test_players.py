"""Players of several columns, dates; columns that are missing, absent, in another order, too many or too few."""

from __future__ import annotations

import datetime
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, load, verify
from harsanyinet.games import all_masks, brute_force_shapley
from harsanyinet.tables.dates import PARTS, as_times, format_of, parts_of
from harsanyinet.tables.frames import ColumnWarning
from harsanyinet.tables.players import Limits, Players, monotone_signs, positions

OPTIONS = {"max_iter": 60, "random_state": 0, "n_jobs": 1, "progress": False}
GROUPS = {"colour": ["red", "green", "blue"]}
pytestmark = pytest.mark.filterwarnings("ignore::harsanyinet.tables.frames.ColumnWarning")


def table(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Dates of three kinds, a one-hot code, numbers with and without missing values, a category."""
    rng = np.random.default_rng(seed)
    days = pd.Series(pd.date_range("2021-01-01", periods=n, freq="31h"))
    colour = rng.integers(0, 3, n)
    frame = pd.DataFrame({
        "day": days.dt.strftime("%d.%m.%Y %H:%M"), "size": rng.normal(size=n),
        "red": (colour == 0) * 1, "green": colour == 1, "blue": (colour == 2) * 1.0,
        "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)), "town": rng.choice(["a", "b", "c"], n),
        "born": [day.date() for day in days + pd.Timedelta(days=900)],
    })  # fmt: skip
    y = (
        2.0 * (days.dt.day_of_week > 4)
        + frame["size"] * (colour == 1)
        + colour
        + frame["age"].isna()
        - (days.dt.hour > 9)
    )
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def model() -> HarsanyiRegressor:
    return HarsanyiRegressor(groups=GROUPS, **OPTIONS).fit(*table())


# Players


def test_columns_of_a_group_are_one_player(model):
    frame, _ = table()
    ex = model.explain(frame[:4])
    assert ex.feature_names == ["day", "size", "colour", "age", "town", "born"]
    assert ex.values.shape == (4, 6)
    assert set(ex.data[:, 2]) <= {"red", "green", "blue"}
    assert len(model.feature_importances_) == 6
    assert model.n_features_in_ == 8
    masks = all_masks(6)
    np.testing.assert_array_equal(
        model.predict(frame[:1].loc[[0] * 64], present=masks),
        [model.predict(frame[:1], present=[n for n, m in zip(ex.feature_names, mask, strict=True) if m])[0]
         for mask in masks],
    )  # fmt: skip


@pytest.mark.parametrize("game", ["missing", "marginal", "baseline"])
@pytest.mark.parametrize("loaded", [False, True])
def test_values_equal_brute_force(model, game, loaded, tmp_path):
    if loaded:
        model.save(tmp_path / "m.hnet")
        model = load(tmp_path / "m.hnet")
    frame, _ = table()
    rows, masks = frame[5:8].astype({"green": object}), all_masks(6)
    rows.loc[5, "age"] = np.nan
    rows.loc[6, ["town", "day"]] = None  # never missing in fit: absent
    rows.loc[7, "green"] = np.nan  # one column of a player that was never missing: the player is absent
    other = frame[20:21]
    ex = model.explain(rows, game=game, baseline=other if game == "baseline" else None)

    def played(i: int, mask: np.ndarray) -> float:
        one = rows[i : i + 1]
        if game == "missing":
            return model.predict(one, present=mask)[0]
        rest = frame if game == "marginal" else other
        mixed = rest.copy().astype(object)
        for column, player in zip(model.players_.columns, model.players_.of_column, strict=True):
            if mask[player]:
                mixed[column] = one[column].iloc[0]
        return model.predict(mixed).mean()

    for i in range(3):
        if i and game != "missing":
            break  # rows with absent players are replaced as a whole
        values = np.array([played(i, mask) for mask in masks])
        scale = np.abs(values).max()
        expected = brute_force_shapley(lambda asked, i=i: np.array([played(i, mask) for mask in asked]), 6)
        np.testing.assert_allclose(ex.values[i], expected, 0, 1e-12 * scale)
        assert float(ex.base_values) == pytest.approx(played(i, np.zeros(6, dtype=bool)), abs=1e-12 * scale)


def test_everything_about_it_is_proved(model, tmp_path):
    frame, _ = table()
    assert verify(model, frame[:3]).passed
    model.save(tmp_path / "m.hnet")
    again = load(tmp_path / "m.hnet")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.explain(frame[:2]).feature_names == model.explain(frame[:2]).feature_names


def test_a_player_with_one_column_absent_is_absent(model):
    frame, _ = table()
    rows = frame[:5].assign(green=np.nan)
    np.testing.assert_array_equal(
        model.predict(rows), model.predict(frame[:5], present=["day", "size", "age", "town", "born"])
    )
    assert np.abs(model.explain(rows).values[:, 2]).max() == 0
    one = frame.iloc[0].to_dict() | {"green": None}
    np.testing.assert_array_equal(model.predict(one), model.predict(rows[:1]))


def test_groups_limit_what_acts_together():
    frame, y = table()
    options = OPTIONS | {"groups": GROUPS}
    additive = HarsanyiRegressor(max_order=1, **options).fit(frame, y)
    assert additive.explain(frame[:20]).coalitions.sum(axis=1).max() == 1
    apart = HarsanyiRegressor(forbidden=[("red", "size")], **options).fit(frame, y)
    found = apart.explain(frame[:20]).coalitions
    assert not (found[:, 1] & found[:, 2]).any()
    within = HarsanyiRegressor(interaction_cst=[["colour", "size"], ["day", "age", "town", "born"]], **options)
    found = within.fit(frame, y).explain(frame[:20]).coalitions
    assert not (found[:, [1, 2]].any(axis=1) & found[:, [0, 3, 4, 5]].any(axis=1)).any()


def test_a_monotone_column_of_a_group():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    y = x["a"] + np.sin(3 * x["b"]) + x["c"]
    model = HarsanyiRegressor(groups={"ab": ["a", "b"]}, monotonic_cst={"a": 1}, **OPTIONS).fit(x, y)
    line = pd.DataFrame({"a": np.linspace(-3, 3, 200), "b": 0.3, "c": -0.2})
    assert np.diff(model.predict(line)).min() >= 0
    assert np.diff(model.predict(line.assign(b=line["a"], a=0.1))).min() < 0


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"g": ["red", "nobody"]}, "nobody"),
        ({"g": []}, "has none"),
        ({"size": ["red", "green"]}, "names of their own"),
        ({"g": ["red"], "h": ["red", "blue"]}, "in two places"),
        ([["red", "blue"]], "a dict"),
    ],
)
def test_groups_that_cannot_be_meant(groups, words):
    with pytest.raises(ValueError, match=words):
        HarsanyiRegressor(groups=groups, **OPTIONS).fit(*table(60))


def test_what_players_of_several_columns_hold():
    players = Players.of(["a", "b", "c", "d"], {"ab": [0, "b"], "cd": ["c", "d"]})
    shown = players.shown(np.array([[1, 0, 2.5, "x"], [1, 1, 3, None], [0, 0, 1, 1]], dtype=object))
    assert shown.tolist() == [["a", "c = 2.5, d = x"], ["a, b", "c = 3, d = None"], ["none", "c, d"]]


# Who is there


def test_present_by_name(model):
    frame, _ = table()
    mask = np.array([True, False, True, False, False, False])
    expected = model.predict(frame[:9], present=mask)
    np.testing.assert_array_equal(model.predict(frame[:9], present=["day", "colour"]), expected)
    np.testing.assert_array_equal(model.predict(frame[:9], present=["day", "blue"]), expected)
    np.testing.assert_array_equal(model.predict(frame[:9], present=[]), np.repeat(model.trees_.base, 9))
    assert np.abs(model.explain(frame[:9], ["day", "colour"]).values[:, ~mask]).max() == 0
    with pytest.raises(ValueError, match="present must name columns"):
        model.predict(frame[:9], present=["day", "nobody"])
    with pytest.raises(TypeError, match="a list of names"):
        model.predict(frame[:9], present="day")


def test_columns_in_another_order(model):
    frame, _ = table()
    rows = frame[:9]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(model.predict(rows[rows.columns[::-1]]), model.predict(rows))
        np.testing.assert_array_equal(model.explain(rows[rows.columns[::-1]]).values, model.explain(rows).values)
    assert str(model.explain(rows[rows.columns[::-1]]).data.tolist()) == str(model.explain(rows).data.tolist())


def test_columns_too_many_or_too_few(model):
    frame, _ = table()
    rows = frame[:9]
    with pytest.raises(ValueError, match="'size' missing"):
        model.predict(rows.drop(columns="size"))
    with pytest.raises(ValueError, match="more"):
        model.predict(rows.assign(more=1))
    lax = load_again(model).set_params(strict=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(lax.predict(rows.assign(more=1)), model.predict(rows))
    with pytest.warns(ColumnWarning, match="absent: red, age") as said:
        few = lax.predict(rows.drop(columns=["age", "red"]).assign(more=1))
    assert len(said) == 1
    # age had missing values in fit, and they are a value; not to be there is something else
    np.testing.assert_array_equal(few, model.predict(rows, present=["day", "size", "town", "born"]))
    assert not np.array_equal(few, model.predict(rows.assign(age=np.nan, red=np.nan)))
    values = lax.explain(rows.drop(columns=["age", "red"])).values
    assert np.abs(values[:, [2, 3]]).max() == 0
    assert np.abs(values[:, 0]).max() > 0
    few_columns = rows.drop(columns="age")
    expected = brute_force_shapley(lax.game(few_columns, 3), 6)
    np.testing.assert_allclose(lax.explain(few_columns).values[3], expected, atol=1e-12)


def load_again(model):
    arrays, meta = model.to_arrays()
    return type(model).from_arrays(arrays, meta)


# Missing values


@pytest.mark.parametrize("missing", ["auto", "value", "absent"])
def test_a_value_that_is_missing_for_a_reason(missing):
    """y depends on whether x is missing and weakly on z: the value stands at x, unless missing means absent."""
    rng = np.random.default_rng(0)
    z, gone = rng.normal(size=1000), rng.random(1000) < 0.4
    frame = pd.DataFrame({"x": np.where(gone, np.nan, rng.normal(size=1000)), "z": z})
    y = rng.random(1000) < 1 / (1 + np.exp(-np.where(gone, 4, -4) - 0.3 * z))
    model = HarsanyiClassifier(missing=missing, **OPTIONS | {"max_iter": 200}).fit(frame, y)
    ex = model.explain(frame[gone])
    if missing == "absent":
        assert np.abs(ex.values[:, 0]).max() == 0
    else:
        assert ex.values[:, 0].min() > 1.5
        assert np.abs(ex.values[:, 1]).mean() < 0.25 * ex.values[:, 0].mean()
        assert (model.explain(frame[gone], ["z"]).values[:, 0] == 0).all()  # absent always
    assert verify(model, frame[:4]).passed


# Dates


def test_dates_are_found_and_said():
    frame, y = table()
    with pytest.warns(ColumnWarning, match=r"'day' holds text that reads as dates \(%d.%m.%Y %H:%M\)") as said:
        model = HarsanyiRegressor(groups=GROUPS, **OPTIONS).fit(frame, y)
    assert len(said) == 1  # the type of the others says it
    kinds = {column.name: column.kind for column in model.columns_}
    assert kinds["day"] == kinds["born"] == "date"
    assert [part.name for part in model.columns_[0].parts] == list(PARTS)
    assert [part.name for part in model.columns_[-1].parts] == list(PARTS[:4])  # no hours
    values = np.abs(model.explain(frame).values).mean(0)
    assert values[0] + values[5] > 0.5


@pytest.mark.parametrize("how", ["datetime64", "zone", "text", "iso", "objects"])
def test_dates_of_all_types_say_the_same(how):
    frame, y = table()
    days = pd.Series(pd.to_datetime(frame["day"], format="%d.%m.%Y %H:%M"))
    forms = {
        "datetime64": days, "zone": days.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
        "text": days.dt.strftime("%b %d, %Y %H:%M"), "iso": days.astype(str), "objects": days.astype(object),
    }  # fmt: skip
    rest = frame[["size", "age"]]
    plain = HarsanyiRegressor(**OPTIONS).fit(rest.assign(day=days), y)
    other = HarsanyiRegressor(**OPTIONS).fit(rest.assign(day=forms[how]), y)
    np.testing.assert_array_equal(plain.predict(rest.assign(day=days)), other.predict(rest.assign(day=forms[how])))
    assert other.columns_[-1].kind == "date"


def test_dates_can_be_switched_off():
    frame, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ColumnWarning)
        model = HarsanyiRegressor(date_features=["born"], **OPTIONS).fit(
            frame.assign(day=["01.01.2021", "02.01.2021"] * 200), y
        )
    assert [c.kind for c in model.columns_ if c.name in ("day", "born")] == ["category", "date"]
    with pytest.raises(TypeError, match="'born' holds dates or times"):
        HarsanyiRegressor(date_features=(), **OPTIONS).fit(frame, y)
    with pytest.raises(ValueError, match="'town' does not read as dates"):
        HarsanyiRegressor(date_features=["town"], **OPTIONS).fit(frame, y)
    with pytest.raises(ValueError, match="date_features"):
        HarsanyiRegressor(date_features="all", **OPTIONS).fit(frame, y)


def test_dates_that_cannot_be_read(model):
    frame, _ = table()
    with pytest.raises(ValueError, match=r"'day' must hold dates.*%d.%m.%Y %H:%M.*'soon' in row 2"):
        model.predict(frame[:4].assign(day=["01.02.2021 00:00", None, "soon", "01.01.2021 00:00"]))
    with pytest.raises(ValueError, match=r"'born' must hold dates.*however: '3' in row 0"):
        model.predict(frame[:1].assign(born=3))
    with pytest.raises(ValueError, match="monotone columns must hold numbers, however: 'day' holds dates"):
        HarsanyiRegressor(monotonic_cst={"day": 1}, **OPTIONS).fit(*table(60))


@pytest.mark.parametrize(
    ("texts", "form"),
    [
        (["2021-03-04", "2021-12-31"], "%Y-%m-%d"),
        (["03/04/2021", "25/04/2021"], "%d/%m/%Y"),  # the second one cannot begin with a month
        (["03/04/2021", "04/25/2021"], "%m/%d/%Y"),
        (["2021-03-04 10:00:00", "2021-03-04 10:00:00.5"], "ISO8601"),
        (["2021", "2022"], None),
        (["12:30", "13:40"], None),
        (["2021-03-04", "never"], None),
        (["a", "b"], None),
        (["1-2", "3-4"], None),
        ([None], None),
    ],
)
def test_formats_of_dates(texts, form):
    assert format_of(pd.Series(texts, dtype=object)) == form


def test_parts_of_dates_by_hand():
    times = as_times(pd.Series([datetime.datetime(1970, 1, 2, 12), None, "2000-02-29"][:2]), "t")  # a Friday
    np.testing.assert_array_equal(
        parts_of(times), [[1.5, np.nan], [1970, np.nan], [1, np.nan], [4, np.nan], [12, np.nan]]
    )
    times = as_times(pd.Series(["2000-02-29"]), "t", "%Y-%m-%d")
    assert parts_of(times)[:, 0].tolist() == [11016, 2000, 2, 1, 0]


# Identifiers


@pytest.mark.parametrize(
    ("name", "values", "is_one"),
    [
        ("number", np.arange(1000, 1100), True),
        ("shuffled", np.random.default_rng(0).permutation(100), True),
        ("text", [f"customer {i}" for i in range(100)], True),
        ("measured", np.random.default_rng(0).normal(size=100), False),
        ("years", np.random.default_rng(0).integers(1900, 2000, 100), False),
        ("words", ["a", "b"] * 50, False),
    ],
)
def test_identifiers_are_named(name, values, is_one):
    frame = pd.DataFrame({name: values, "x": np.random.default_rng(1).normal(size=100)})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        HarsanyiRegressor(**OPTIONS | {"max_iter": 5}).fit(frame, frame["x"])
    found = [str(w.message) for w in said if issubclass(w.category, ColumnWarning)]
    assert bool(found) == is_one
    assert all(f"column {name!r} looks like an identifier" in text for text in found)


# Who may act together

NAMES = list("abcde")
PLAYERS = Players.of(NAMES, None)


def sets_that_grow(limits: Limits) -> set[frozenset[int]]:
    """Every set that can be reached by letting players join one after the other."""
    found, new = set(), {frozenset([i]) for i in range(5)}
    while new:
        found |= new
        grown = set()
        for members in new:
            inside = np.isin(np.arange(5), list(members))
            may = limits.allowed(inside) | inside
            grown |= {members | {int(i)} for i in np.flatnonzero(may)}
        new = grown - found
    return found


def test_without_limits_everything_is_allowed():
    limits = Limits.of(4, None, None, PLAYERS)
    assert not limits.any
    assert limits.max_order == 4
    assert len(sets_that_grow(limits)) == 31


def test_sets_to_act_within():
    """The columns that are named nowhere may act together, as in scikit-learn."""
    limits = Limits.of(4, [["a", "b"], [1, "c"]], None, PLAYERS)
    assert limits.any
    expected = {frozenset(s) for s in ([0], [1], [2], [3], [4], [0, 1], [1, 2], [3, 4])}
    assert sets_that_grow(limits) == expected


def test_forbidden_pairs():
    limits = Limits.of(5, None, [("a", "b"), (3, "e")], PLAYERS)
    found = sets_that_grow(limits)
    expected = {
        frozenset(s) for n in range(1, 6) for s in combinations(range(5), n) if not ({0, 1} <= {*s} or {3, 4} <= {*s})
    }
    assert found == expected


def test_both_kinds_of_limits_hold_together():
    limits = Limits.of(5, [["a", "b", "c"], ["c", "d", "e"]], [("a", "b"), ("d", "e")], PLAYERS)
    assert {frozenset(s) for s in ([0, 2], [1, 2], [2, 3], [2, 4])} == {s for s in sets_that_grow(limits) if len(s) > 1}


@pytest.mark.parametrize(
    ("word", "given", "order"), [("no_interactions", 4, 1), ("pairwise", 4, 2), ("pairwise", 1, 1)]
)
def test_words(word, given, order):
    limits = Limits.of(given, word, None, PLAYERS)
    assert limits.max_order == order
    assert not limits.any


def test_names_numbers_and_masks():
    assert positions(["b", 3, np.int64(0)], NAMES, "x") == [1, 3, 0]
    assert positions([True, False, False, True, False], NAMES, "x") == [0, 3]
    assert positions(None, NAMES, "x") == []
    assert positions([], NAMES, "x") == []
    for wrong in ("z", 5, -1, 1.0, None):
        with pytest.raises(ValueError, match=r"^x must name columns of the table or their numbers: "):
            positions([wrong], NAMES, "x")
    with pytest.raises(ValueError, match=r"^x as a mask must have 5 entries, however: 2$"):
        positions([True, False], NAMES, "x")


def test_signs():
    assert monotone_signs(None, NAMES).tolist() == [0] * 5
    assert monotone_signs({"b": 1, 3: -1, "c": 0}, NAMES).tolist() == [0, 1, 0, -1, 0]
    assert monotone_signs([0, 1, -1, 0, 0], NAMES).tolist() == [0, 1, -1, 0, 0]
    assert monotone_signs(np.array([0, 1, -1, 0, 0]), NAMES).tolist() == [0, 1, -1, 0, 0]
    for wrong in (2, "1", 0.5, None):
        with pytest.raises(ValueError, match=r"^monotonic_cst must say 1, -1 or 0 for a column, however: "):
            monotone_signs({"a": wrong}, NAMES)
    with pytest.raises(ValueError, match=r"^monotonic_cst must have one entry for each of 5 columns, however: 2$"):
        monotone_signs([1, 1], NAMES)
