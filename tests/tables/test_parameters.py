"""What parameters may be, and what those about columns and sets of columns do."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from small_tables import classifier, in_pairs, mixed, numbers, regressor

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables.parameters import CHECKS, check_parameters


def sizes(model, frame: pd.DataFrame) -> list[int]:
    return model.explain(frame[:2]).coalitions.sum(1).tolist()


@pytest.fixture(scope="module")
def product():
    """Two pairs and a triple among six columns of signs."""
    frame = np.sign(numbers(400, 6))
    y = 3 * frame["a"] * frame["b"] + 3 * frame["c"] * frame["d"] + 3 * frame["d"] * frame["e"] * frame["f"]
    return frame, y


@pytest.mark.parametrize("max_order", [1, 2, 3, 4, 9])
def test_no_coalition_is_larger_than_max_order(product, max_order):
    frame, y = product
    found = sizes(regressor(max_order=max_order).fit(frame, y), frame)
    assert min(max_order, 3) <= max(found) <= min(max_order, 6)


@pytest.mark.parametrize(("word", "order"), [("no_interactions", 1), ("pairwise", 2)])
def test_words_for_interactions(product, word, order):
    frame, y = product
    assert max(sizes(regressor(interaction_cst=word).fit(frame, y), frame)) == order
    assert max(sizes(regressor(interaction_cst=word, max_order=1).fit(frame, y), frame)) == 1


def test_columns_act_together_only_within_interactions(product):
    """Columns that are named nowhere form a set of their own, as scikit-learn has it."""
    frame, y = product
    model = regressor(interaction_cst=[("a", "b", "c"), ["d", 4]], max_iter=60).fit(frame, y)
    within = [{0, 1, 2}, {3, 4}, {5}]
    found = [set(np.flatnonzero(row)) for row in model.explain(frame[:2]).coalitions]
    assert {0, 1} in found
    for members in found:
        assert any(members <= allowed for allowed in within), members


def test_forbidden_pairs_are_in_no_coalition(product):
    frame, y = product
    model = regressor(forbidden=[("a", "b"), (3, "e")], max_iter=60).fit(frame, y)
    coalitions = model.explain(frame[:2]).coalitions
    assert max(coalitions.sum(1)) >= 2
    for pair in ([0, 1], [3, 4]):
        assert not coalitions[:, pair].all(axis=1).any()
    every = list(combinations(range(6), 2))
    assert max(sizes(regressor(forbidden=every).fit(frame, y), frame)) == 1


@pytest.mark.parametrize("given", ["dict", "list", "numbers"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ["regression", "binary", "poisson"])
def test_monotone_columns(sign, kind, given):
    """Against the data, which say the contrary in the middle; with others, and with others absent."""
    frame = numbers(500, 3)
    signal = sign * (frame["a"] - 2 * np.exp(-4 * frame["a"] ** 2)) + frame["a"] * frame["b"] + frame["b"] * frame["c"]
    signs = {"dict": {"a": sign, "c": 0}, "list": [sign, 0, 0], "numbers": {0: sign}}[given]
    options = {"monotonic_cst": signs, "max_iter": 60}
    if kind == "binary":
        model = classifier(**options).fit(frame, signal > 0)
    elif kind == "poisson":
        model = regressor(loss="poisson", **options).fit(frame, np.clip(signal.round() + 1, 0, None))
    else:
        model = regressor(**options).fit(frame, signal)
    grid = np.linspace(-5, 5, 501)
    moved = 0.0
    for row in (0, 1, 2):
        shown = frame.iloc[[row] * len(grid)].assign(a=grid)
        for present in ([True] * 3, [True, False, False], [True, True, False], [True, False, True]):
            raw = model.explain(shown, present=np.array(present)).outputs
            steps = sign * np.diff(raw)
            assert steps.min() >= -1e-12 * np.abs(raw).max()
            moved = max(moved, steps.sum() / np.abs(raw).max())
    assert moved > 0.1
    assert (model.explain(frame[:2]).coalitions[:, 0].sum()) > 1  # the column acts together with others


def test_columns_of_numbers_that_are_names():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"code": rng.integers(0, 6, 600), "x": rng.normal(size=600)})
    y = np.array([5, -3, 4, -5, 0, 2])[frame["code"]] + frame["x"]
    model = regressor(categorical_features=["code"], max_iter=60).fit(frame, y)
    assert [column.kind for column in model.columns_] == ["category", "number"]
    assert np.corrcoef(model.predict(frame), y)[0, 1] > 0.95
    np.testing.assert_array_equal(model.predict(frame.astype({"code": float})), model.predict(frame))
    for same in ([0], [True, False]):
        np.testing.assert_array_equal(
            regressor(categorical_features=same, max_iter=60).fit(frame, y).predict(frame), model.predict(frame)
        )
    with pytest.raises(ValueError, match="monotone columns must hold numbers, however: 'code' holds categories"):
        regressor(categorical_features=[0], monotonic_cst={"code": 1}).fit(frame, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 0}, "members must be a positive integer, however: members=0"),
        ({"members": 2.5}, "members must be a positive integer, however: members=2.5"),
        ({"members": True}, "members must be a positive integer, however: members=True"),
        ({"max_iter": 0}, "max_iter must be a positive integer or None, however: max_iter=0"),
        ({"max_iter": "8"}, "max_iter must be a positive integer or None, however: max_iter='8'"),
        ({"learning_rate": 0.0}, "learning_rate must be positive or None, however: learning_rate=0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive or None, however: learning_rate=nan"),
        ({"max_depth": 9}, "max_depth must be an integer from 1 to 8, however: max_depth=9"),
        ({"max_order": 0}, "max_order must be a positive integer, however: max_order=0"),
        ({"max_order": 1.5}, "max_order must be a positive integer, however: max_order=1.5"),
        ({"max_order": None}, "max_order must be a positive integer, however: max_order=None"),
        ({"max_bins": 3}, "max_bins must be an integer from 4 to 255, however: max_bins=3"),
        ({"max_bins": 256}, "max_bins must be an integer from 4 to 255, however: max_bins=256"),
        ({"l2_regularization": 0}, "l2_regularization must be positive, however: l2_regularization=0"),
        ({"max_samples": 1.5}, "max_samples must be in (0, 1], or None, however: max_samples=1.5"),
        ({"max_features": 0.0}, "max_features must be in (0, 1], or None, however: max_features=0.0"),
        ({"copies": -1}, "copies must be zero, a positive integer or None, however: copies=-1"),
        ({"missing": "mean"}, "missing must be auto, value or absent, however: missing='mean'"),
        (
            {"interaction_cst": ["ab"]},
            "interaction_cst must be sets of names or numbers of columns, 'pairwise', 'no_interactions', or None, "
            "however: interaction_cst=['ab']",
        ),
        (
            {"interaction_cst": "triples"},
            "interaction_cst must be sets of names or numbers of columns, 'pairwise', 'no_interactions', or None, "
            "however: interaction_cst='triples'",
        ),
        (
            {"interaction_cst": [("a", "z")]},
            "interaction_cst must name columns of the table or their numbers: unknown column 'z'; known are a, b, c, d",
        ),
        (
            {"forbidden": [("a", 9)]},
            "forbidden must name columns of the table or their numbers: column must lie between 0 and 3, however: 9",
        ),
        ({"forbidden": [("a", "a")]}, "forbidden must hold pairs of different columns, however: ['a', 'a']"),
        ({"forbidden": 3}, "forbidden must be pairs of names or numbers of columns, or None, however: forbidden=3"),
        (
            {"monotonic_cst": "a"},
            "monotonic_cst must be a dict of columns, or numbers, or None, however: monotonic_cst='a'",
        ),
        ({"monotonic_cst": [1]}, "monotonic_cst must have one entry for each of 4 columns, however: 1"),
        ({"monotonic_cst": {"a": 2}}, "monotonic_cst must say 1, -1 or 0 for a column, however: 2 for 'a'"),
        (
            {"monotonic_cst": {"z": 1}},
            "monotonic_cst must name columns of the table or their numbers: unknown column 'z'; known are a, b, c, d",
        ),
        (
            {"categorical_features": "a"},
            "categorical_features must be names or numbers of columns, or None, however: categorical_features='a'",
        ),
        (
            {"categorical_features": ["z"]},
            "categorical_features must name columns of the table or their numbers: unknown column 'z'; known are "
            "a, b, c, d",
        ),
        (
            {"categorical_features": [True]},
            "categorical_features as a mask must have 4 entries, however: 1",
        ),
        ({"early_stopping": "auto"}, "early_stopping must be True or False, however: early_stopping='auto'"),
        ({"validation_fraction": 1.0}, "validation_fraction must be in (0, 1), however: validation_fraction=1.0"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be a positive integer, however: n_iter_no_change=0"),
        ({"max_seconds": 0}, "max_seconds must be positive or None, however: max_seconds=0"),
        (
            {"n_jobs": 0},
            "n_jobs must be a number of threads, negative to count from all of them, or None, however: n_jobs=0",
        ),
        ({"random_state": "x"}, "'x' cannot be used to seed a numpy.random.RandomState instance"),
    ],
    ids=lambda given: str(given)[:40],
)
def test_bad_parameters_are_named_in_one_sentence(options, message):
    for make, y in ((classifier, np.arange(100) % 2), (regressor, np.arange(100.0))):
        with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared)
            make(**options).fit(numbers(100), y)
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "huber"}, "loss must be one of squared, absolute, poisson, quantile, however: loss='huber'"),
        ({"quantile": 1.0}, "quantile must lie between 0 and 1, however: quantile=1.0"),
        ({"quantile": "half"}, "quantile must lie between 0 and 1, however: quantile='half'"),
    ],
)
def test_bad_parameters_of_the_regressor(options, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared)
        regressor(**options).fit(numbers(100), np.arange(100.0))
    assert str(error.value) == message


def test_without_copies_predictions_from_some_columns_are_averages():
    frame = numbers(200)
    model = regressor(copies=0).fit(frame, frame["a"])
    assert np.corrcoef(model.predict(frame), frame["a"])[0, 1] > 0.95
    assert model.predict(frame, present=[False] * 4) == pytest.approx(np.full(200, frame["a"].mean()), abs=1e-12)
    assert np.corrcoef(model.predict(frame, present=[True, False, False, False]), frame["a"])[0, 1] > 0.95


def test_parameters_do_not_change_in_fit():
    frame = mixed()
    model = regressor(max_order=9, monotonic_cst={"b": 1}, interaction_cst=[["a", "b"]])
    before = {name: repr(value) for name, value in model.get_params().items()}
    model.fit(frame, in_pairs(frame))
    assert {name: repr(value) for name, value in model.get_params().items()} == before


@pytest.mark.parametrize(
    "options",
    [
        {"max_depth": 1}, {"max_depth": 8, "max_order": 8}, {"max_bins": 4}, {"max_bins": 255}, {"max_samples": 0.3},
        {"max_features": 0.3}, {"copies": 3}, {"l2_regularization": 50.0}, {"n_jobs": -1},
    ],
    ids=str,
)  # fmt: skip
def test_parameters_at_their_ends(options):
    frame = numbers(300, 8)
    y = in_pairs(frame)
    model = regressor(**options).fit(frame, y)
    assert np.corrcoef(model.predict(frame), y)[0, 1] > 0.3
    ex = model.explain(frame[:5])
    np.testing.assert_allclose(ex.outputs, model.predict(frame[:5]), 0, 1e-12 * np.abs(y).max())
    assert max(column.n_bins[0] for column in model.columns_) <= options.get("max_bins", 128)
    assert max(len(shape.columns) for shape in model.trees_.shapes) <= options.get("max_depth", 6)


@pytest.mark.parametrize("kind", [HarsanyiClassifier, HarsanyiRegressor])
def test_every_parameter_has_a_check_or_a_reason(kind):
    elsewhere = {
        "random_state",  # scikit-learn checks it
        "class_weight",  # likewise
        "strict",  # anything is true or false
        "progress",
    }
    defaults = kind().get_params()
    assert defaults.keys() - CHECKS.keys() == elsewhere & defaults.keys()
    check_parameters(defaults)
    for name, (fits, wanted) in CHECKS.items():
        if name in defaults:
            assert not fits(object()), name
            with pytest.raises(ValueError, match=f"^{name} must {re.escape(wanted)}, however: {name}="):
                check_parameters(defaults | {name: object()})
