"""Orders and coalitions as they are drawn, walked and solved."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import comb

import numpy as np
import pytest
from sampled_games import draws, random_game, unanimity, weighted_sums
from scipy.stats import chi2

from harsanyinet.games import brute_force_shapley
from harsanyinet.peers.estimates import (
    antithetic,
    sampling,
)
from harsanyinet.peers.row_games import CountingGame
from harsanyinet.peers.sampling_runs import draw_coalitions, draw_orders, solve, unbiased, walk, walk_pairs


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
