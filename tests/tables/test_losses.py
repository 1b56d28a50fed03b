"""Losses of raw outputs: gradients against finite differences, best constants, quantiles by a plain loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harsanyinet.tables import kernels
from harsanyinet.tables.boost_inputs import Rows
from harsanyinet.tables.boosting import derive
from harsanyinet.tables.losses import NAMES, History, Loss, quantiles_by_state, scores_of, weighted_quantile

LOSSES = {
    "squared": Loss("squared"),
    "binary": Loss("binary"),
    "poisson": Loss("poisson"),
    "absolute": Loss("absolute", quantile=0.5),
    "quantile": Loss("quantile", quantile=0.3),
    "multiclass": Loss("multiclass", 4),
}


def rows(name: str, n: int = 200, k: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs (n, K), targets (n, T), weights (n,)."""
    rng = np.random.default_rng(seed)
    weight = rng.exponential(size=n) + 0.1
    if name == "multiclass":
        return rng.normal(size=(n, 4)) * 2, rng.integers(0, 4, (n, 1)).astype(float), weight
    y = {
        "binary": rng.integers(0, 2, (n, k)).astype(float),
        "poisson": rng.poisson(2.0, (n, k)).astype(float),
    }.get(name, rng.normal(size=(n, k)))
    return rng.normal(size=(n, k)), y, weight


def one_by_hand(loss: Loss, output: list[float], y: list[float]) -> float:
    """The loss of one row with the functions of `math`."""
    if loss.name == "multiclass":
        return math.log(sum(map(math.exp, output))) - output[int(y[0])]
    total = 0.0
    for f, t in zip(output, y, strict=True):
        if loss.name == "squared":
            total += 0.5 * (t - f) ** 2
        elif loss.name == "binary":
            p = 1 / (1 + math.exp(-f))
            total -= math.log(p) if t else math.log(1 - p)
        elif loss.name == "poisson":
            total += math.exp(f) - t * f
        else:
            total += loss.quantile * (t - f) if t > f else (1 - loss.quantile) * (f - t)
    return total


def derivatives(loss: Loss, output, y, weight) -> tuple[np.ndarray, np.ndarray]:
    gradient, curvature = np.empty_like(output), np.empty_like(output)
    kernels.gradients(loss.code, loss.quantile or 0.5, output, y, weight, gradient, curvature)
    return gradient, curvature


def test_codes_of_the_kernel_are_the_places_of_the_names():
    assert {name.lower(): getattr(kernels, name) for name in dir(kernels) if name.lower() in NAMES} == {
        name: loss.code for name, loss in LOSSES.items()
    }


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_the_mean_loss_is_that_of_the_rows(name, k):
    output, y, weight = rows(name, k=k)
    expected = [one_by_hand(LOSSES[name], f, t) for f, t in zip(output.tolist(), y.tolist(), strict=True)]
    assert LOSSES[name].mean(output, y, weight) == pytest.approx(np.average(expected, weights=weight), rel=1e-12)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_equal_finite_differences(name, k):
    loss, k = LOSSES[name], 1 if name == "binary" else k  # which has one output
    output, y, weight = rows(name, 40, k)
    gradient, curvature = derivatives(loss, output, y, weight)
    h = 1e-5
    for j in range(output.shape[1]):
        step = h * (np.arange(output.shape[1]) == j)
        up, down = output + step, output - step
        for row in range(40):
            a, b = (one_by_hand(loss, f[row].tolist(), y[row].tolist()) for f in (up, down))
            assert gradient[row, j] == pytest.approx(weight[row] * (a - b) / (2 * h), rel=1e-6, abs=1e-8)
        if loss.quantile is None:
            slope = (derivatives(loss, up, y, weight)[0] - derivatives(loss, down, y, weight)[0])[:, j] / (2 * h)
            np.testing.assert_allclose(curvature[:, j], slope, 1e-6, 1e-8)
        else:  # no curvature: the weight stands in its place
            np.testing.assert_array_equal(curvature[:, j], weight)


@settings(max_examples=200, deadline=None)
@given(st.floats(-40, 40))
def test_the_exponential_of_the_kernels(x):
    assert kernels._exp(x) == pytest.approx(math.exp(x), rel=1e-12)


@pytest.mark.parametrize("name", ["squared", "binary", "poisson", "multiclass"])
def test_gradients_of_mixed_targets_are_mixtures_of_gradients(name):
    """They are linear in the target, and nothing is left to move where the target is what the outputs say."""
    loss, share = LOSSES[name], 0.8
    output, y, weight = rows(name, 300)
    other = output + np.random.default_rng(1).normal(size=output.shape)

    def gradient(targets: np.ndarray, at: np.ndarray) -> np.ndarray:
        return derivatives(loss, at, targets, weight)[0]

    mixed, own = loss.mixed(y, output, share), loss.mixed(y, output, 1.0)
    np.testing.assert_allclose(gradient(own, output), 0.0, 0, 1e-12 * np.abs(weight).max())
    expected = (1 - share) * gradient(y, other) + share * gradient(own, other)
    np.testing.assert_allclose(gradient(mixed, other), expected, 1e-10, 1e-11)
    assert np.abs(mixed - own).max() > 0.1


def test_quantiles_are_not_mixed():
    output, y, _ = rows("quantile")
    assert LOSSES["quantile"].mixed(y, output, 0.8) is y


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_some_rows_leave_the_others_alone(name):
    output, y, weight = rows(name, 30)
    whole = derivatives(LOSSES[name], output, y, weight)
    some = Rows(np.empty((0, 30), dtype=np.uint8), y, weight, output)
    some.gradient[:] = some.curvature[:] = 7.0
    derive(LOSSES[name], some, slice(10, 20))
    for part, all_of_it in zip((some.gradient, some.curvature), whole, strict=True):
        np.testing.assert_array_equal(part[10:20], all_of_it[10:20])
        assert (part[:10] == 7).all()
        assert (part[20:] == 7).all()


@pytest.mark.parametrize("name", ["binary", "multiclass", "poisson"])
def test_gradients_far_out_are_finite(name):
    """Logits of a few hundred, as a separable table gives them in time."""
    k = 4 if name == "multiclass" else 1
    far = 700.0 if name == "poisson" else 1000.0  # the mean of a count is exp(output), and must be a number itself
    output = np.array([[300.0], [-300.0], [far], [-far]]) * np.linspace(1, -1, k)
    gradient, curvature = derivatives(LOSSES[name], output, np.ones((4, 1)), np.ones(4))
    assert np.isfinite(gradient).all()
    assert np.isfinite(curvature).all()
    assert (curvature >= 0).all()


# The best constant


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", LOSSES)
def test_no_constant_is_better_than_the_best(name, k):
    loss = LOSSES[name]
    _, y, weight = rows(name, 301, k)
    best = loss.best_constant(y, weight)
    least = loss.mean(np.tile(best, (301, 1)), y, weight)
    rng = np.random.default_rng(1)
    for step in (1e-3, 0.1, 1.0, 5.0):
        for _ in range(20):
            other = best + step * rng.normal(size=best.shape)
            assert loss.mean(np.tile(other, (301, 1)), y, weight) >= least - 1e-12 * abs(least)


def test_best_constants_by_hand():
    y, weight = np.array([[0.0], [1.0], [1.0], [3.0]]), np.array([1.0, 1.0, 1.0, 5.0])
    assert LOSSES["squared"].best_constant(y, weight) == pytest.approx([17 / 8])
    assert LOSSES["poisson"].best_constant(y, weight) == pytest.approx([math.log(17 / 8)])
    assert LOSSES["absolute"].best_constant(y, weight).tolist() == [3.0]
    assert LOSSES["quantile"].best_constant(y, weight).tolist() == [1.0]
    assert LOSSES["binary"].best_constant(np.minimum(y, 1), weight) == pytest.approx([math.log(7)])
    found = LOSSES["multiclass"].best_constant(y, weight)
    shares = np.exp(found) / np.exp(found).sum()
    # a class that is not there has a small share instead of none
    np.testing.assert_allclose(shares, [1 / 8, 2 / 8, 0, 5 / 8], atol=2e-6)
    assert found.sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_best_constants_at_the_edge_are_finite(value):
    y, weight = np.full((5, 1), value), np.ones(5)
    for name in ("binary", "poisson", "squared", "absolute", "quantile"):
        assert np.isfinite(LOSSES[name].best_constant(y, weight)).all()
    assert np.isfinite(LOSSES["multiclass"].best_constant(y, weight)).all()


def test_steps_of_counts_are_short():
    assert LOSSES["poisson"].max_step < 5
    assert all(loss.max_step == math.inf for name, loss in LOSSES.items() if name != "poisson")


# Quantiles


def quantile_by_hand(values: list[float], weights: list[int], q: float) -> float:
    """The smallest value at which a share q of the weight is reached; whole weights, so that nothing is rounded."""
    total, reached = sum(weights), 0
    for value, weight in sorted(zip(values, weights, strict=True)):
        reached += weight
        if reached * 1000 >= round(q * 1000) * total:
            return value
    raise AssertionError


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 9), st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9, 0.999])
)
def test_quantiles_by_state_equal_a_loop(seed, n, n_states, q):
    rng = np.random.default_rng(seed)
    state = rng.integers(0, n_states, n).astype(np.uint16)
    values = rng.normal(size=(n, 2)).round(1)  # some are equal
    weight = rng.integers(1, 6, n)
    found = quantiles_by_state(state, n_states, values, weight.astype(float), q)
    assert found.shape == (n_states, 2)
    for s in range(n_states):
        own = state == s
        for k in range(2):
            expected = quantile_by_hand(values[own, k].tolist(), weight[own].tolist(), q) if own.any() else 0.0
            assert found[s, k] == expected
    alone = weighted_quantile(values[:, 0], weight.astype(float), q)
    assert alone == quantile_by_hand(values[:, 0].tolist(), weight.tolist(), q)


def test_the_median_of_equal_weights_is_the_lower_one():
    assert weighted_quantile(np.array([4.0, 1.0, 3.0, 2.0]), np.ones(4), 0.5) == 2.0
    values = np.array([[4.0], [1.0], [3.0], [2.0]])
    assert quantiles_by_state(np.zeros(4, dtype=int), 2, values, np.ones(4), 0.5).tolist() == [[2.0], [0.0]]


# Scores of rows held out


@pytest.mark.parametrize("name", LOSSES)
def test_scores_are_those_of_scikit_learn(name):
    from sklearn import metrics

    output, y, weight = rows(name, 150)
    found = scores_of(LOSSES[name], output, y, weight)
    loss = LOSSES[name].mean(output, y, weight)
    if name == "multiclass":
        p = np.exp(output) / np.exp(output).sum(1, keepdims=True)
        expected = {
            "log-loss": metrics.log_loss(y[:, 0], p, sample_weight=weight),
            "accuracy": metrics.accuracy_score(y[:, 0], p.argmax(1), sample_weight=weight),
        }
    elif name == "binary":
        p = 1 / (1 + np.exp(-output[:, 0]))
        expected = {
            "log-loss": metrics.log_loss(y[:, 0], p, sample_weight=weight),
            "accuracy": metrics.accuracy_score(y[:, 0], p > 0.5, sample_weight=weight),
            "AUC": metrics.roc_auc_score(y[:, 0], p, sample_weight=weight),
        }
    elif name == "poisson":
        expected = {"Poisson loss": loss}
    elif name == "squared":
        expected = {
            "RMSE": metrics.root_mean_squared_error(y, output, sample_weight=weight),
            "R2": metrics.r2_score(y, output, sample_weight=weight),
        }
    elif name == "absolute":
        expected = {"mean absolute error": metrics.mean_absolute_error(y, output, sample_weight=weight)}
    else:
        expected = {"quantile loss": metrics.mean_pinball_loss(y, output, alpha=0.3, sample_weight=weight)}
    assert found == pytest.approx(expected, rel=1e-10)


def test_scores_of_one_class_have_no_auc():
    found = scores_of(LOSSES["binary"], np.zeros((5, 1)), np.ones((5, 1)), np.ones(5))
    assert "AUC" not in found
    assert found["log-loss"] == pytest.approx(math.log(2))


def test_the_best_number_of_trees():
    assert History(np.array([3.0, 2.0, 1.0, 1.5])).best == 2
    assert History().best is None
    assert History(np.ones(3), 7, 0.1, {"R2": 0.5}).settings() == {
        "n_rows": 7, "learning_rate": 0.1, "scores": {"R2": 0.5},
    }  # fmt: skip
