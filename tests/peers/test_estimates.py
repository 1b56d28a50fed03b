"""Sampling estimators: games with known answers and known variances, brute force, and other packages' samplers."""

from __future__ import annotations

import importlib
from dataclasses import FrozenInstanceError
from fractions import Fraction
from itertools import permutations
from math import comb

import numpy as np
import pytest
import torch
from sampled_games import (
    KERNEL,
    METHODS,
    additive,
    draws,
    interacting_net,
    of_table,
    random_game,
    unanimity,
    unbiased_unpaired,
    weighted_sums,
)
from scipy.stats import chi2

from harsanyinet.games import all_masks, brute_force_shapley
from harsanyinet.peers.estimates import (
    antithetic,
    curve,
    draw_coalitions,
    draw_orders,
    equal_split,
    kernel_shap,
    kernel_shap_paired,
    rmse,
    row_errors,
    sampling,
    solve,
    unbiased,
    unbiased_kernel_shap,
    walk,
    walk_pairs,
    zero,
)
from harsanyinet.peers.row_games import CountingGame, model_game

# --- what is drawn, walked and solved ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("walk", [walk, walk_pairs])
def test_all_orders_are_exact(n, walk):
    game = random_game(n, outputs=(2,))
    gains = walk(CountingGame(game, n), np.array(list(permutations(range(n)))))
    np.testing.assert_allclose(gains.mean(axis=0), brute_force_shapley(game, n), rtol=0, atol=1e-14)


def test_a_walk_is_a_loop_over_the_players():
    game, n = random_game(5), 5
    orders = draw_orders(np.random.default_rng(3), 20, n)
    counted = CountingGame(game, n)
    gains = walk(counted, orders)
    for order, gain in zip(orders, gains[:, :, 0], strict=True):
        mask = np.zeros((1, n), dtype=bool)
        for player in order:
            before = game(mask)[0]
            mask[0, player] = True
            assert gain[player] == pytest.approx(game(mask)[0] - before, abs=1e-14)


@pytest.mark.parametrize(("n", "t"), [(6, 2), (6, 3), (7, 5), (5, 5)])
def test_variances_of_a_unanimity_game(n, t):
    members = np.arange(n)[-t:]
    orders = np.array(list(permutations(range(n))))
    game = CountingGame(unanimity(members), n)
    single, pair = walk(game, orders)[..., 0], walk_pairs(game, orders)[..., 0]
    np.testing.assert_allclose(single.var(axis=0)[members], (t - 1) / t**2, rtol=0, atol=1e-12)
    np.testing.assert_allclose(pair.var(axis=0)[members], (t - 2) / (2 * t**2), rtol=0, atol=1e-12)
    outside = np.setdiff1d(np.arange(n), members)
    assert not single[:, outside].any()
    assert not pair[:, outside].any()


def test_variances_of_the_draws_follow():
    """The same variances, of what is really drawn: 40,000 draws know a variance to about 1 %."""
    n, members = 6, [1, 3, 4]
    for method, expected in (("sampling", 2 / 9), ("antithetic", 1 / 18)):
        found = draws(method, unanimity(members), n, 40_000)[:, members, 0]
        np.testing.assert_allclose(found.var(axis=0), expected, rtol=0.04)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("n", [2, 5, 8])
def test_one_pair_is_exact_up_to_order_two(n, order):
    game = random_game(n, order=order)
    truth = brute_force_shapley(game, n)
    for seed in range(5):
        np.testing.assert_allclose(antithetic(game, n, 2 + 2 * (n - 1), seed=seed).values, truth, rtol=0, atol=1e-13)
    if n > 2 and order == 2:
        assert np.abs(sampling(game, n, 2 + 2 * (n - 1)).values - truth).max() > 1e-3


def test_pairs_can_double_the_variance():
    def game(masks):
        return masks[:, 0] * (masks[:, 1] == masks[:, 2])

    np.testing.assert_allclose(brute_force_shapley(game, 3), [2 / 3, 1 / 6, 1 / 6], rtol=0, atol=1e-15)
    orders = np.array(list(permutations(range(3))))
    counted = CountingGame(game, 3)
    assert walk(counted, orders)[:, 0, 0].var() / 2 == pytest.approx(1 / 9)  # two orders
    assert walk_pairs(counted, orders)[:, 0, 0].var() == pytest.approx(2 / 9)  # a pair, as dear
    errors = [antithetic(game, 3, 20_002).standard_error[0], sampling(game, 3, 20_002).standard_error[0]]
    assert (errors[0] / errors[1]) ** 2 == pytest.approx(2, rel=0.05)


def test_orders_are_uniform():
    orders = draw_orders(np.random.default_rng(0), 24_000, 4)
    _, counts = np.unique(orders @ 4 ** np.arange(4), return_counts=True)
    assert len(counts) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < chi2.ppf(0.999, 23)


@pytest.mark.parametrize("n", [2, 3, 6, 9])
def test_all_coalitions_are_exact(n):
    game = random_game(n, outputs=(2,))
    a, b, total = weighted_sums(game, n)
    truth = brute_force_shapley(game, n)
    np.testing.assert_allclose(solve(a, b, total), truth, rtol=0, atol=2e-14)
    np.testing.assert_allclose(unbiased(b, total), truth, rtol=0, atol=2e-14)
    harmonic = (1 / np.arange(1, n)).sum()
    known = np.full((n, n), 0.5 - 1 / (2 * harmonic)) + np.eye(n) / (2 * harmonic)
    np.testing.assert_allclose(a, known, rtol=0, atol=1e-14)


def test_the_solution_is_the_constrained_minimum():
    """Against the system with a multiplier, on a matrix that no kernel has made."""
    rng = np.random.default_rng(0)
    z, b, total = rng.normal(size=(20, 5)), rng.normal(size=(5, 3)), rng.normal(size=3)
    a = z.T @ z
    system = np.block([[a, np.ones((5, 1))], [np.ones((1, 5)), np.zeros((1, 1))]])
    expected = np.linalg.solve(system, np.vstack([b, total]))[:5]
    np.testing.assert_allclose(solve(a, b, total), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [2, 3, 8, 12])
def test_sizes_follow_the_kernel(n):
    """By chi-square; the normaliser of 1 / (s (n - s)) is 2 H(n - 1) / n."""
    masks = draw_coalitions(np.random.default_rng(1), 40_000, n)
    sizes = np.arange(1, n)
    harmonic = float(sum(Fraction(1, k) for k in range(1, n)))
    p = 1 / (sizes * (n - sizes)) / (2 * harmonic / n)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    counts = np.bincount(masks.sum(axis=1), minlength=n + 1)
    assert counts[0] == counts[n] == 0
    expected = len(masks) * p
    assert ((counts[1:n] - expected) ** 2 / expected).sum() <= chi2.ppf(0.999, max(n - 2, 1))
    means = masks.mean(axis=0)  # every player in half of them
    assert np.abs(means - 0.5).max() < 4 * 0.5 / np.sqrt(len(masks))


def test_coalitions_of_a_size_are_uniform():
    masks = draw_coalitions(np.random.default_rng(2), 40_000, 6)
    triples = masks[masks.sum(axis=1) == 3] @ (1 << np.arange(6))
    _, counts = np.unique(triples, return_counts=True)
    assert len(counts) == comb(6, 3)
    expected = len(triples) / comb(6, 3)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.999, comb(6, 3) - 1)


# --- orders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7])
def test_an_additive_game_takes_one_order(n):
    game, weights = additive(n)
    for method, pairs in ((sampling, 1), (antithetic, 2)):
        found = method(game, n, 2 + pairs * (n - 1), seed=1)
        np.testing.assert_allclose(found.values, weights, rtol=0, atol=1e-14)
        if n > 1:
            assert found.standard_error is None


# --- the kernel -------------------------------------------------------------------------------------------------------


def smallest_budgets(method, game, n, n_seeds=8):
    """Estimates at the first budget that leaves the regression regular, over seeds."""
    found = []
    for seed in range(n_seeds):
        for budget in range(2 + n, 2 + 40 * n):
            try:
                found.append(method(game, n, budget, seed=seed))
                break
            except ValueError:
                continue
    assert len(found) == n_seeds
    return found


@pytest.mark.parametrize("n", [2, 3, 8])
def test_an_additive_game_is_exact_as_soon_as_the_matrix_is_regular(n):
    game, weights = additive(n)
    for method in (kernel_shap, kernel_shap_paired):
        for found in smallest_budgets(method, game, n):
            np.testing.assert_allclose(found.values, weights, rtol=0, atol=1e-11)  # the matrix is barely regular
    if n > 2:
        for method in (unbiased_kernel_shap, unbiased_unpaired):
            assert np.abs(method(game, n, 500).values - weights).max() > 1e-2


@pytest.mark.parametrize("n", [3, 8])
def test_pairs_are_exact_up_to_order_two_as_soon_as_the_matrix_is_regular(n):
    game = random_game(n, order=2)
    truth = brute_force_shapley(game, n)
    for found in smallest_budgets(kernel_shap_paired, game, n):
        np.testing.assert_allclose(found.values, truth, rtol=0, atol=1e-11)
    for method in (kernel_shap, unbiased_kernel_shap, unbiased_unpaired):
        assert np.abs(method(game, n, 501).values - truth).max() > 1e-3


def test_the_unbiased_estimator_is_unbiased():
    n, runs = 6, 400
    game = random_game(n, seed=4)
    truth = brute_force_shapley(game, n)
    for method in (unbiased_kernel_shap, unbiased_unpaired):
        found = np.array([method(game, n, 42, seed=seed).values for seed in range(runs)])
        assert (np.abs(found.mean(axis=0) - truth) < 4 * found.std(axis=0, ddof=1) / np.sqrt(runs)).all()


def test_the_uncertainty_of_the_unbiased_estimator_is_its_formula():
    """Cov(phi) = C Cov(b) C' / m, with C from the matrix A and not from its closed form."""
    n, m = 6, 300
    game = random_game(n, outputs=(2,))
    a, _, total = weighted_sums(game, n)
    inverse = np.linalg.inv(a)
    ones = np.ones(n)
    c = inverse - np.outer(inverse @ ones, inverse @ ones) / (ones @ inverse @ ones)
    masks = draw_coalitions(np.random.default_rng(7), m, n)
    gains = [game(z) - game(np.zeros((1, n), dtype=bool)) for z in (masks, ~masks)]
    single = masks[:, :, None] * gains[0][:, None]
    pair = (single + ~masks[:, :, None] * gains[1][:, None]) / 2
    for method, b, budget in ((unbiased_unpaired, single, 2 + m), (unbiased_kernel_shap, pair, 2 + 2 * m)):
        found = method(game, n, budget, seed=7)
        assert found.evaluations == budget
        for k in range(2):
            covariance = c @ np.cov(b[:, :, k].T) @ c.T / m
            np.testing.assert_allclose(found.standard_error[:, k], np.sqrt(np.diag(covariance)), rtol=1e-10)
            values = c @ b[:, :, k].mean(axis=0) + total[k] * (inverse @ ones) / (ones @ inverse @ ones)
            np.testing.assert_allclose(found.values[:, k], values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", KERNEL)
def test_the_uncertainty_of_the_regression_comes_from_groups(method):
    """Against one run per group; also when chunks and groups do not end together."""
    n, groups, rest = 4, 6, 11
    game = random_game(n)
    cost = 2 if method == "kernel_shap_paired" else 1
    masks = draw_coalitions(np.random.default_rng(5), groups * 10 * n + rest, n)
    solutions = []
    for g in range(groups):
        part = masks[g * 10 * n : (g + 1) * 10 * n]
        part = np.concatenate([part, ~part]) if cost == 2 else part
        gains = game(part) - game(np.zeros((1, n), dtype=bool))
        total = (game(np.ones((1, n), dtype=bool)) - game(np.zeros((1, n), dtype=bool)))[0]
        z = part.astype(float)
        solutions.append(solve(z.T @ z, z.T @ gains[:, None], np.array([total]))[:, 0])
    expected = np.std(solutions, axis=0, ddof=1) / np.sqrt(len(masks) / (10 * n))
    for max_rows in (10_000, 7, 97):
        counted = CountingGame(game, n, max_rows=max_rows)
        found = METHODS[method](counted, n, 2 + cost * len(masks), seed=5)
        np.testing.assert_allclose(found.standard_error, expected, rtol=1e-10)
    assert METHODS[method](game, n, 2 + cost * 5 * 10 * n, seed=5).standard_error is not None
    assert METHODS[method](game, n, 1 + cost * 5 * 10 * n, seed=5).standard_error is None


# --- all methods ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_values_add_up_at_any_budget(name):
    n = 6
    game = random_game(n, outputs=(3,))
    empty, full = game(np.array([[False] * n, [True] * n]))
    for budget in (41, 53, 500, 3001):
        found = METHODS[name](game, n, budget)
        assert found.values.shape == (n, 3)
        np.testing.assert_allclose(found.values.sum(axis=0), full - empty, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [2, 5, 9])
def test_row_counts(n):
    game = random_game(n)
    for m in (40, 77):
        for method, cost in (
            (sampling, n - 1),
            (antithetic, 2 * (n - 1)),
            (kernel_shap, 1),
            (unbiased_unpaired, 1),
            (kernel_shap_paired, 2),
            (unbiased_kernel_shap, 2),
        ):
            for spare in {0, cost - 1}:  # what is left after the last whole sample is not spent
                rows = 0

                def played(masks):
                    nonlocal rows
                    rows += len(masks)
                    return game(masks)

                assert method(played, n, 2 + m * cost + spare).evaluations == 2 + m * cost == rows


@pytest.mark.parametrize("name", METHODS)
def test_the_error_falls_with_the_root_of_the_budget(name):
    n = 5
    game = random_game(n, seed=2)
    truth = brute_force_shapley(game, n)
    budgets = [2 + 8 * m for m in (16, 32, 64, 128, 256, 512)]
    runs = [curve(name, game, n, budgets, seed=seed) for seed in range(50)]
    errors = [rmse([run[k].values for run in runs], [truth] * len(runs)) for k in range(len(budgets))]
    slope = np.polyfit(np.log(budgets), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.4


@pytest.mark.parametrize("name", METHODS)
def test_standard_errors_agree_with_the_spread(name):
    """Over 250 seeds the spread itself is known to 4.5 %; groups of 10 n samples overstate the error by about 5 %."""
    n = 5
    game = random_game(n, seed=3)
    found = [METHODS[name](game, n, 802, seed=seed) for seed in range(250)]
    spread = np.std([f.values for f in found], axis=0, ddof=1)
    stated = np.sqrt(np.mean([f.standard_error**2 for f in found], axis=0))
    np.testing.assert_allclose(stated, spread, rtol=0.15)
    assert np.mean(stated / spread) == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("outputs", [(), (1,), (2,)])
def test_a_curve_is_one_run(name, outputs):
    n = 5
    game = random_game(n, outputs=outputs)
    budgets = [31, 42, 43, 200, 1111, 3000]
    counted = CountingGame(game, n, max_rows=64)
    found = curve(name, counted, n, budgets, seed=11)
    assert counted.rows == found[-1].evaluations  # no row twice
    for budget, estimate in zip(budgets, found, strict=True):
        alone = METHODS[name](game, n, budget, seed=11)
        assert estimate.method == alone.method == name
        assert estimate.evaluations == alone.evaluations <= budget
        np.testing.assert_allclose(estimate.values, alone.values, rtol=0, atol=1e-12)
        assert (estimate.standard_error is None) == (alone.standard_error is None)
        if alone.standard_error is not None:
            np.testing.assert_allclose(estimate.standard_error, alone.standard_error, rtol=1e-9, atol=1e-14)
    assert found[-1].values.shape == found[-1].standard_error.shape == (n, *outputs)


@pytest.mark.parametrize("name", METHODS)
def test_one_player_gets_everything(name):
    for outputs in ((), (2,)):
        game = random_game(1, outputs=outputs)
        expected = game(np.array([[True]])) - game(np.array([[False]]))
        for budget in (2, 50):
            found = METHODS[name](game, 1, budget)
            np.testing.assert_array_equal(found.values, expected)
            np.testing.assert_array_equal(found.standard_error, np.zeros((1, *outputs)))
            assert found.evaluations == 2


@pytest.mark.parametrize("name", METHODS)
def test_two_players_and_a_constant_game(name):
    game = random_game(2, seed=1)
    many = METHODS[name](game, 2, 4002)
    assert np.abs(many.values - brute_force_shapley(game, 2)).max() <= 4 * many.standard_error.max() + 1e-12
    constant = METHODS[name](lambda masks: np.full(len(masks), 7), 4, 1000)  # whole numbers become float64
    assert constant.values.dtype == np.float64
    np.testing.assert_allclose(constant.values, 0, atol=1e-14)
    np.testing.assert_allclose(constant.standard_error, 0, atol=1e-14)


@pytest.mark.parametrize("name", METHODS)
def test_seeds(name):
    game, n = random_game(6), 6
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (METHODS[name](game, n, 500, seed=seed).values for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-4
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_pairs_help_on_a_network_with_interactions():
    """Mean over rows and seeds at one budget; the network has interactions of all orders."""
    n, budget = 8, 2 + 2 * 7 * 8
    net = interacting_net(n)
    rows = torch.randn(6, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    errors = dict.fromkeys(METHODS, 0.0)
    trivial = 0.0
    for x in rows:
        table = model_game(net, x, output=0)(all_masks(n))
        game = of_table(table)
        truth = brute_force_shapley(game, n)
        trivial += rmse([zero(game, n).values], [truth])
        for name, method in METHODS.items():
            errors[name] += rmse([method(game, n, budget, seed=s).values for s in range(20)], [truth] * 20)
    assert errors["antithetic"] < 0.95 * errors["sampling"]
    assert errors["kernel_shap_paired"] < 0.95 * errors["kernel_shap"]
    assert errors["kernel_shap"] < errors["unbiased_kernel_shap_unpaired"]
    assert max(errors[name] for name in ("sampling", "antithetic", *KERNEL)) < trivial


# --- arguments and small functions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("sampling", 2 + 4),
        ("antithetic", 2 + 8),
        ("kernel_shap", 2 + 5),
        ("kernel_shap_paired", 2 + 8),
        ("unbiased_kernel_shap", 4),
        ("unbiased_kernel_shap_unpaired", 3),
    ],
)
def test_small_budgets(name, least):
    rows = []
    with pytest.raises(ValueError, match=f"budget must be a whole number of at least {least} for 5 players, however"):
        METHODS[name](lambda masks: rows.append(masks), 5, least - 1)
    assert not rows  # nothing was played
    if name not in KERNEL:
        assert METHODS[name](random_game(5), 5, np.int64(least)).evaluations == least


def test_the_least_budget_of_a_regression_can_do():
    """So that the sentence about the budget does not refuse what would work."""
    game, weights = additive(3)
    for method, budget in ((kernel_shap, 5), (kernel_shap_paired, 6)):
        solved = 0
        for seed in range(40):
            try:
                np.testing.assert_allclose(method(game, 3, budget, seed=seed).values, weights, atol=1e-12)
                solved += 1
            except ValueError as error:
                assert "is singular; raise the budget" in str(error)  # noqa: PT017
        assert 0 < solved < 40


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("budget", [100.0, "100", None, True, -5])
def test_budgets_are_whole_numbers(name, budget):
    with pytest.raises(ValueError, match="budget must be a whole number of at least"):
        METHODS[name](random_game(3), 3, budget)


@pytest.mark.parametrize("n", [0, -1, 2.0, None, True])
def test_players_are_whole_numbers(n):
    for method in METHODS.values():
        with pytest.raises(ValueError, match="n_players must be a whole number of at least 1, however"):
            method(random_game(3), n, 100)


def test_arguments_of_a_curve():
    game = random_game(3)
    for budgets in ([], [50, 40], [50, 50]):
        with pytest.raises(ValueError, match="budgets must be increasing"):
            curve("sampling", game, 3, budgets)
    with pytest.raises(ValueError, match=r"method must be one of sampling, .*, however: 'castro'"):
        curve("castro", game, 3, [50])


def test_zero_and_equal_split():
    for outputs in ((), (2,)):
        game = random_game(4, outputs=outputs)
        empty, full = game(np.array([[False] * 4, [True] * 4]))
        nothing, even = zero(game, 4), equal_split(game, 4)
        np.testing.assert_array_equal(nothing.values, np.zeros((4, *outputs)))
        np.testing.assert_allclose(even.values, np.broadcast_to((full - empty) / 4, (4, *outputs)))
        assert (nothing.method, even.method) == ("zero", "equal_split")
        assert nothing.evaluations == even.evaluations == 2
        assert nothing.standard_error is even.standard_error is None
    with pytest.raises(FrozenInstanceError):
        nothing.evaluations = 0


def test_rmse_is_a_mean_of_roots():
    np.testing.assert_allclose(row_errors([[3.0, 4.0], [0.0, 0.0]], [0.0, 0.0]), [5 / np.sqrt(2), 0.0], rtol=1e-15)
    assert row_errors([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 2.0]).shape == ()
    assert rmse([[3.0, 4.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]) == pytest.approx((5 / np.sqrt(2)) / 2)
    for left, right in (([1.0, 2.0], [1.0, 2.0]), ([[1.0, 2.0]], [[1.0]]), (np.ones((0, 2)), np.ones((0, 2)))):
        with pytest.raises(ValueError, match="values and truth must have the same shape"):
            rmse(left, right)


# --- other packages ---------------------------------------------------------------------------------------------------


def test_orders_against_shapiq():
    """The same budget buys the same rows and, over 60 seeds, the same error; 25 % is four times its own spread."""
    shapiq = pytest.importorskip("shapiq")
    n, budget = 5, 2 + 20 * 4
    game = random_game(n, seed=6)
    truth = brute_force_shapley(game, n)
    empty = game(np.zeros((1, n), dtype=bool))[0]
    counted = CountingGame(game, n)
    theirs, ours = [], []
    for seed in range(60):
        before = counted.rows
        sampler = shapiq.PermutationSamplingSV(n, random_state=seed)
        found = sampler.approximate(budget, lambda masks: counted(np.atleast_2d(masks)) - empty)
        assert counted.rows - before == budget
        theirs.append([found[(i,)] for i in range(n)])
        ours.append(sampling(game, n, budget, seed=seed).values)
    assert rmse(ours, [truth] * 60) == pytest.approx(rmse(theirs, [truth] * 60), rel=0.25)
    assert np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)).max() < 4 * np.std(ours, axis=0).max() / np.sqrt(30)


def test_the_kernel_against_shapiq():
    """shapiq enumerates where the budget allows: with 2^n rows it is the truth, which our samples surround."""
    shapiq = pytest.importorskip("shapiq")
    n = 6
    game = random_game(n, seed=7)
    empty = game(np.zeros((1, n), dtype=bool))[0]
    found = shapiq.KernelSHAP(n, random_state=0).approximate(2**n, lambda masks: game(np.asarray(masks)) - empty)
    theirs = np.array([found[(i,)] for i in range(n)])
    for name in METHODS:
        ours = METHODS[name](game, n, 4002)
        assert (np.abs(ours.values - theirs) < 4 * ours.standard_error + 1e-7).all()


def test_pairs_against_shap(monkeypatch):
    """Its permutation explainer is antithetic: as exact after one pair, and as wrong over seeds on larger sets."""
    shap = pytest.importorskip("shap")
    inner = importlib.import_module("shap.utils._masked_model")
    for name, function in list(vars(inner).items()):  # without numba, which would compile for several seconds
        if hasattr(function, "py_func"):
            monkeypatch.setattr(inner, name, function.py_func)
    n, cycles = 5, 4
    quadratic, game = random_game(n, order=2), random_game(n, seed=8)

    def by_shap(played, max_evals, seed):
        def of_rows(rows):
            return played(np.asarray(rows).reshape(-1, n) > 0.5)

        def masker(mask, x):
            return (x * mask).reshape(1, n)

        explainer = shap.PermutationExplainer(of_rows, masker, seed=seed)
        return explainer(np.ones((1, n)), max_evals=max_evals, silent=True).values[0]

    found = by_shap(quadratic, 2 * n + 1, 0)
    np.testing.assert_allclose(found, antithetic(quadratic, n, 2 + 2 * (n - 1)).values, rtol=0, atol=1e-12)
    truth = brute_force_shapley(game, n)
    theirs, ours = [], []
    for seed in range(60):
        theirs.append(by_shap(game, cycles * (2 * n + 1), seed))
        ours.append(antithetic(game, n, 2 + cycles * 2 * (n - 1), seed=seed).values)
    assert rmse(ours, [truth] * 60) == pytest.approx(rmse(theirs, [truth] * 60), rel=0.25)
