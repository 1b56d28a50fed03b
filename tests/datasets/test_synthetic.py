"""Games with known answers, against their definition."""

import itertools

import numpy as np
import pytest

from harsanyinet.datasets import unanimity_game


class TestUnanimityGame:
    @pytest.mark.parametrize(
        ("n", "sets"),
        [
            (1, {(0,): 2.0}),
            (2, {}),
            (4, {(): 1.5, (0,): -1.0, (3, 1): 2.0, (0, 1, 2, 3): 0.25}),
            (5, {(np.int64(4), 2): 1, (0, 1, 2): -3.0}),
        ],
    )
    def test_against_the_definition(self, n, sets):
        masks = np.array(list(itertools.product([False, True], repeat=n)))
        values = unanimity_game(n, sets)(masks)
        expected = [sum(a for T, a in sets.items() if all(mask[i] for i in T)) for mask in masks]
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values, np.array(expected, dtype=float), strict=True)

    def test_no_masks(self):
        assert unanimity_game(3, {(0, 1): 1.0})(np.zeros((0, 3), bool)).shape == (0,)

    def test_later_changes_of_the_mapping_do_not_matter(self):
        sets = {(0,): 1.0}
        game = unanimity_game(1, sets)
        sets[(0,)] = 9.0
        assert game(np.ones((1, 1), bool)) == [1.0]

    @pytest.mark.parametrize(
        ("n", "sets", "message"),
        [
            (0, {}, "n must be positive, however: n=0"),
            (3, {(0, 3): 1.0}, r"players from 0 to 2, however: \(0, 3\)"),
            (3, {(-1,): 1.0}, r"players from 0 to 2, however: \(-1,\)"),
            (3, {(0, 0): 1.0}, r"different players .* however: \(0, 0\)"),
            (3, {(0.5,): 1.0}, r"however: \(0.5,\)"),
            (3, {(0, 1.5): 1.0}, r"however: \(0, 1.5\)"),
            (3, {1: 1.0}, "must be a tuple of .* however: 1"),
            (3, {(0, 1): 1.0, (1, 0): 2.0}, "each set must come once"),
            (3, {(0,): float("nan")}, r"dividends must be finite, however: \[nan\]"),
        ],
    )
    def test_refuses_sets(self, n, sets, message):
        with pytest.raises(ValueError, match=message):
            unanimity_game(n, sets)

    @pytest.mark.parametrize("masks", [np.ones(3, bool), np.ones((2, 4), bool), np.ones((2, 3)), np.ones((2, 3), int)])
    def test_refuses_masks(self, masks):
        with pytest.raises(ValueError, match=r"masks must be boolean of shape \(m, 3\), however: "):
            unanimity_game(3, {(0,): 1.0})(masks)
