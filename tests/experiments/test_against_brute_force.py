"""Exact values by brute force, sub-games, and errors, on games whose values are known by heart."""

from __future__ import annotations

import numpy as np

from harsanyinet_experiments.against_brute_force import (
    exact_values,
    foreground,
    mean_error,
    sorted_strengths,
    sub_game,
    subgame_errors,
    true_class,
    truth,
)

WEIGHTS = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 80.0]])


def additive(masks):
    """Two outputs; the values are the weights."""
    return masks @ WEIGHTS + 5


def product(masks):
    """One output: the first two players are worth 6 together."""
    return 6.0 * (masks[:, 0] & masks[:, 1]) * (1 + masks[:, 2])


def test_values_are_those_of_the_label_or_of_the_only_output():
    first, second, third = exact_values([(additive, 4), (additive, 4), (product, 3)], [0, 1, 7])
    np.testing.assert_allclose(first, WEIGHTS[:, 0], atol=1e-14)
    np.testing.assert_allclose(second, WEIGHTS[:, 1], atol=1e-13)
    np.testing.assert_allclose(third, [5.0, 5.0, 2.0], atol=1e-14)
    np.testing.assert_allclose(truth([additive] * 2, [1, 0], 4), WEIGHTS.T[::-1], atol=1e-13)


def test_the_values_of_each_rows_own_class():
    values = np.arange(12).reshape(2, 3, 2)
    assert true_class(values, np.array([1, 0])).tolist() == [[1, 3, 5], [6, 8, 10]]
    assert true_class(values[:, :, 0], np.array([1, 0])).tolist() == values[:, :, 0].tolist()


def test_errors_are_means_of_roots():
    assert mean_error(np.array([[1.0, 1.0], [0.0, 0.0]]), np.zeros((2, 2))) == 0.5


def test_a_sub_game_has_all_others_present_or_absent():
    masks = np.array([[False, False], [True, False], [True, True]])
    others_there, others_gone = (sub_game(product, np.array([0, 2]), 3, others)(masks) for others in (True, False))
    assert others_there.tolist() == [0.0, 6.0, 12.0]
    assert others_gone.tolist() == [0.0, 0.0, 0.0]


def test_errors_on_sub_games():
    strength = np.array([[1.0, 1.0, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]])  # players 0, 1, 3 and player 2
    seen = []

    def explain(i, players):
        seen.append((i, players.tolist()))
        return WEIGHTS[players] + [[0.0, 3.0]]

    error, of_zero = subgame_errors(lambda i: additive, explain, strength, np.array([1, 0]))
    assert seen == [(0, [0, 1, 3]), (1, [2])]
    np.testing.assert_allclose(error, (3.0 + 0.0) / 2, atol=1e-13)
    np.testing.assert_allclose(of_zero, (np.sqrt((100 + 400 + 6400) / 3) + 4) / 2, atol=1e-13)


def test_foreground_cells_are_bright_ones():
    strength = np.array([0.0, 1.0, 0.05, 0.5, 0.2])
    assert foreground(strength, 12, seed=0).tolist() == [1, 3, 4]
    assert len(foreground(strength, 2, seed=0)) == 2


def test_strengths_leave_out_the_empty_set():
    dividends = np.array([100.0, -2.0, 0.5, 1.0])
    assert sorted_strengths(dividends).tolist() == [1.0, 0.5, 0.25, 0.0]
    assert dividends[0] == 100.0
