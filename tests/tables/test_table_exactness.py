"""Fitted table estimators against brute force over their own public predictions, in all three games."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest

from harsanyinet import Explanation, HarsanyiClassifier, HarsanyiRegressor, load
from harsanyinet.games import all_masks, brute_force_shapley, evaluate, harsanyi_dividends
from harsanyinet.tables.frames import UnseenCategoryWarning

N = 6  # columns
GAMES = ["missing", "marginal", "baseline"]
OPTIONS = {"max_iter": 40, "learning_rate": 0.15, "n_jobs": 1, "random_state": 0, "progress": False}


def table(n_rows: int = 240) -> pd.DataFrame:
    """Numbers, text of many levels, categories, booleans, and missing values of each."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "size": rng.normal(size=n_rows),
        "town": [f"town {i}" for i in rng.integers(0, 70, n_rows)],
        "count": rng.poisson(2, n_rows),
        "open": rng.random(n_rows) < 0.5,
        "grade": pd.Categorical(rng.choice(["a", "b", "c"], n_rows)),
        "code": rng.integers(0, 4, n_rows),
    })  # fmt: skip
    frame.loc[rng.random(n_rows) < 0.2, "size"] = np.nan
    frame.loc[rng.random(n_rows) < 0.2, "town"] = None
    frame["open"] = frame["open"].astype("boolean").mask(rng.random(n_rows) < 0.1)
    return frame


def signal(frame: pd.DataFrame) -> np.ndarray:
    """Pairs and a triple, so that there are coalitions to be exact about."""
    size = frame["size"].fillna(0.5).to_numpy()
    north = frame["town"].fillna("town 0").str.slice(5).astype(int).to_numpy() > 40
    is_open = frame["open"].fillna(False).to_numpy(dtype=float)
    a = (frame["grade"] == "a").to_numpy()
    return 2 * size * is_open + 3 * north * a + frame["count"].to_numpy() * (2 * a - 1.0) * is_open + frame["code"] % 2


def fitted(kind: str):
    frame = table()
    target = np.asarray(signal(frame), dtype=float)
    weight = np.random.default_rng(1).integers(0, 4, len(frame)).astype(float)
    options = OPTIONS | {"categorical_features": ["code"]}
    if kind == "binary":
        return HarsanyiClassifier(**options).fit(frame, np.where(target > 1, "yes", "no"))
    if kind == "many classes, weighted":
        model = HarsanyiClassifier(**options | {"max_iter": 15}, class_weight="balanced")
        return model.fit(frame, np.digitize(target, [-2, -1, 0, 1, 2]), sample_weight=weight)
    if kind == "two targets":
        return HarsanyiRegressor(**options).fit(frame, np.column_stack([target, -5 * target + 100]))
    if kind == "constrained":
        model = HarsanyiRegressor(
            **options, monotonic_cst={"size": 1, "count": -1}, forbidden=[("open", "grade")], missing="absent",
            interaction_cst=[["size", "count", "open"], ["town", "grade", "count", "code"]],
        )  # fmt: skip
        return model.fit(frame, target, sample_weight=weight)
    if kind == "three members, stopped early":
        model = HarsanyiRegressor(**options, members=3, early_stopping=True, n_iter_no_change=5)
        return model.fit(frame, target)
    if kind == "additive":
        return HarsanyiRegressor(**options, max_order=1).fit(frame, target)
    if kind == "large and far":
        return HarsanyiRegressor(**options, max_order=6).fit(frame, 1e6 + 100 * target)
    return HarsanyiRegressor(**options, loss=kind, quantile=0.7).fit(frame, np.abs(target).round(1))


KINDS = [
    "binary", "many classes, weighted", "squared", "absolute", "quantile", "poisson", "two targets", "constrained",
    "three members, stopped early", "additive", "large and far",
]  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    found = fitted(request.param)
    found.kind = request.param
    return found


def training_rows(model) -> pd.DataFrame:
    """Rows of weight zero were not passed."""
    frame = table()
    if model.kind in ("many classes, weighted", "constrained"):
        frame = frame[np.random.default_rng(1).integers(0, 4, len(frame)) > 0]
    return frame


def raw(model, frame: pd.DataFrame, present: np.ndarray | None = None) -> np.ndarray:
    """Outputs (B, K) by the public names; those of the Poisson loss are logarithms of predictions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenCategoryWarning)
        if isinstance(model, HarsanyiClassifier):
            out = model.decision_function(frame, present=present)
        else:
            out = model.predict(frame, present=present)
            out = np.log(out) if model.loss_.name == "poisson" else out
    return out.reshape(len(frame), -1)


def explained(model, frame: pd.DataFrame, game: str, **options: object) -> Explanation:
    baseline = {"baseline": table()[7:8]} if game == "baseline" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenCategoryWarning)
        return model.explain(frame, game=game, **baseline, **options)


def mixed(row: pd.DataFrame, others: pd.DataFrame, masks: np.ndarray) -> pd.DataFrame:
    """All others once for each mask, with the columns in the mask replaced by those of the row."""
    parts = []
    for mask in masks:
        here = row.iloc[[0] * len(others)].reset_index(drop=True)
        there = others.reset_index(drop=True)
        parts.append(pd.DataFrame({
            name: here[name] if kept else there[name] for name, kept in zip(row.columns, mask, strict=True)
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def game_of(model, frame: pd.DataFrame, row: int, game: str, present: np.ndarray | None = None):
    """The game of one row by real predictions."""
    one = frame.iloc[row : row + 1]
    others = training_rows(model) if game == "marginal" else table()[7:8]

    def play(masks: np.ndarray) -> np.ndarray:
        if game == "missing":
            return raw(model, frame.iloc[[row] * len(masks)], masks if present is None else masks & present)
        outputs = raw(model, mixed(one, others, masks))
        return outputs.reshape(len(masks), len(others), -1).mean(1)

    return play


def rows_to_explain() -> pd.DataFrame:
    """With all columns, with missing ones, and with a town and a grade that nobody has seen."""
    frame = table()
    whole = np.flatnonzero(frame.notna().all(axis=1))[:1]
    some = np.flatnonzero(frame["size"].isna() & frame["open"].notna())[:1]
    shown = frame.iloc[[*whole, *some, *whole]].reset_index(drop=True)
    shown.loc[2, "town"] = "nowhere"
    shown.loc[2, "size"] = np.nan
    return shown


@pytest.mark.parametrize("game", GAMES)
def test_values_and_dividends_equal_brute_force(model, game):
    frame = rows_to_explain()
    ex = explained(model, frame, game)
    k = len(ex.output_names)
    values, dividends = ex.values.reshape(3, N, k), ex.dividends.reshape(3, -1, k)
    codes = ex.coalitions @ (1 << np.arange(N))
    most = {"additive": 1}.get(model.kind, 3)
    assert ex.coalitions.sum(1).max() >= min(most, 3)
    for row in range(3):
        play = game_of(model, frame, row, game)
        every = evaluate(play, N)
        tolerance = 1e-12 * np.abs(every).max()
        np.testing.assert_allclose(values[row], brute_force_shapley(lambda _, e=every: e, N), 0, tolerance)
        np.testing.assert_allclose(ex.base_values.reshape(k), every[0], 0, tolerance)
        np.testing.assert_allclose(ex.outputs.reshape(3, k)[row], raw(model, frame)[row], 0, tolerance)
        own = np.zeros((2**N, k))
        own[codes] = dividends[row]
        # by brute force a dividend is a signed sum of up to 2^6 outputs, each with its own rounding
        np.testing.assert_allclose(own, harsanyi_dividends(lambda _, e=every: e, N), 0, 64 * tolerance)
        np.testing.assert_allclose(ex[row].value(all_masks(N)).reshape(-1, k), every, 0, tolerance)


def test_masked_columns_are_absent(model):
    frame, present = rows_to_explain(), np.array([True, True, False, True, True, True])
    ex = explained(model, frame, "missing", present=present)
    k = len(ex.output_names)
    for row in range(3):
        play = game_of(model, frame, row, "missing", present)
        tolerance = 1e-12 * np.abs(evaluate(play, N)).max()
        np.testing.assert_allclose(ex.values.reshape(3, N, k)[row], brute_force_shapley(play, N), 0, tolerance)
    assert (ex.values.reshape(3, N, k)[:, 2] == 0).all()


@pytest.mark.parametrize("how", ["file", "pickle"])
def test_the_same_bits_after_a_file_and_a_pickle(model, how, tmp_path):
    if how == "file":
        model.save(tmp_path / "model.hnet")
        again = load(tmp_path / "model.hnet")
    else:
        joblib.dump(model, tmp_path / "model.joblib")
        again = joblib.load(tmp_path / "model.joblib")
    frame = pd.concat([rows_to_explain(), table()], ignore_index=True)
    np.testing.assert_array_equal(raw(again, frame), raw(model, frame))
    for game in GAMES:
        a, b = explained(again, frame, game), explained(model, frame, game)
        np.testing.assert_array_equal(a.values, b.values)
        np.testing.assert_array_equal(a.base_values, b.base_values)
        np.testing.assert_array_equal(a.dividends, b.dividends)


def test_an_emptied_cell_is_an_absent_player_or_a_value(model):
    """A column that had missing values in fit keeps "missing" as a value; elsewhere it is an absence, to the bit."""
    frame = table().iloc[:20]
    for i, name in enumerate(frame.columns):
        emptied = frame.copy()
        emptied[name] = None
        same = np.array_equal(raw(model, emptied), raw(model, frame, np.arange(N) != i))
        assert same == (not model.columns_[i].missing or model.feature_importances_[i] == 0), name


def test_the_base_is_the_best_constant(model):
    """What the best constant is, by scipy or by hand, from the targets themselves."""
    frame = table()
    target = np.asarray(signal(frame), dtype=float)
    weight = np.random.default_rng(1).integers(0, 4, len(frame)).astype(float)
    counted = np.abs(target).round(1)
    found = np.asarray(explained(model, frame[:1], "missing").base_values).reshape(-1)
    expected = {
        "binary": lambda: [np.log((target > 1).mean() / (target <= 1).mean())],
        "squared": lambda: [counted.mean()],
        "absolute": lambda: [np.sort(counted)[119]],  # the lower median of 240
        "quantile": lambda: [np.sort(counted)[167]],  # 168 of 240 are 70 %
        "poisson": lambda: [np.log(counted.mean())],
        "two targets": lambda: [target.mean(), 100 - 5 * target.mean()],
        "constrained": lambda: [np.average(target, weights=weight)],
        "large and far": lambda: [1e6 + 100 * target.mean()],
        "many classes, weighted": lambda: np.zeros(6) + balanced(np.digitize(target, [-2, -1, 0, 1, 2]), weight),
        "additive": lambda: [target.mean()],
    }
    if model.kind in expected:
        np.testing.assert_allclose(found, expected[model.kind](), 1e-12, 1e-12)


def balanced(classes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Logits of the classes' shares when each class counts as all rows of weight over its own."""
    rows = np.bincount(classes[weight > 0], minlength=6)
    share = np.bincount(classes, weight / rows[classes], 6)
    return np.log(share) - np.log(share).mean()


# With others' words


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_the_marginal_game_is_that_of_shap(kind):
    """Interventional SHAP values with all training rows as background."""
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5))
    x[::11, 2] = np.nan
    y = x[:, 0] * x[:, 1] + np.nan_to_num(x[:, 2]) * (x[:, 3] > 0)
    if kind == "regression":
        model = HarsanyiRegressor(**OPTIONS).fit(x, y)
        predict = model.predict
    else:
        model = HarsanyiClassifier(**OPTIONS).fit(x, np.digitize(y, [-0.5, 0.5]))
        predict = model.decision_function
    explainer = shap.explainers.Exact(predict, shap.maskers.Independent(x, max_samples=60))
    theirs = explainer(x[:6])
    ours = model.explain(x[:6], game="marginal")
    np.testing.assert_allclose(ours.values, theirs.values, 0, 1e-10)
    np.testing.assert_allclose(
        np.broadcast_to(ours.base_values, theirs.base_values.shape), theirs.base_values, 0, 1e-10
    )
    other = model.explain(x[:6]).values
    assert np.abs(other - theirs.values).max() > 0.01  # the missing game is another


def test_the_baseline_game_is_that_of_shap():
    shap = pytest.importorskip("shap")
    x = np.random.default_rng(0).normal(size=(80, 5))
    model = HarsanyiRegressor(**OPTIONS).fit(x, x[:, 0] * x[:, 1] + x[:, 2])
    explainer = shap.explainers.Exact(model.predict, shap.maskers.Independent(x[3:4]))
    ours = model.explain(x[10:16], game="baseline", baseline=x[3:4])
    np.testing.assert_allclose(ours.values, explainer(x[10:16]).values, 0, 1e-10)


def test_every_index_equals_shapiq():
    shapiq = pytest.importorskip("shapiq")
    model = fitted("two targets")
    frame = rows_to_explain()
    model.kind = "two targets"
    for game in GAMES:
        ex = explained(model, frame, game)
        every = evaluate(game_of(model, frame, 1, game), N)[:, 0]
        computer = shapiq.ExactComputer(
            lambda m, e=every: e[np.asarray(m, dtype=bool) @ (1 << np.arange(N))], n_players=N
        )
        for name, order in (("SII", 2), ("STII", 3), ("k-SII", 2), ("BII", 2)):
            found, theirs = ex.index(name, order), computer(name, order=order)
            for i, members in enumerate(found.sets):
                assert found.values[1, i, 0] == pytest.approx(theirs[members], abs=64e-12 * np.abs(every).max())


def test_missing_values_in_the_background_are_what_prediction_makes_of_them():
    """A column that had no missing value when the codes were learned, but has one in the row to compare with."""
    x = np.random.default_rng(0).normal(size=(100, 3))
    model = HarsanyiRegressor(**OPTIONS).fit(x, x[:, 0] * x[:, 1] + x[:, 2])
    reference = np.array([[np.nan, 0.3, np.nan]])
    ex = model.explain(x[:4], game="baseline", baseline=reference)
    for row in range(4):

        def play(masks, row=row):
            return model.predict(np.where(masks, x[row], reference))

        np.testing.assert_allclose(ex.values[row], brute_force_shapley(play, 3), 0, 1e-12)
        np.testing.assert_allclose(ex.base_values, model.predict(reference)[0], 0, 1e-12)
