"""Random games of a few coalitions, kept as plain sets and numbers: what explanations are compared with."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from harsanyinet import Explanation

exact = settings(max_examples=50, deadline=None, derandomize=True)


class Game:
    """A random sparse game of some rows and outputs, kept as plain sets and numbers: an oracle."""

    def __init__(self, seed, n=4, rows=2, k=1, count=6, integers=False):
        rng = np.random.default_rng(seed)
        codes = 1 + rng.permutation(2**n - 1)[:count]
        self.n, self.rows, self.k = n, rows, k
        self.coalitions = [frozenset(i for i in range(n) if code >> i & 1) for code in codes.tolist()]
        shape = (rows, len(self.coalitions), k)
        self.dividends = rng.integers(-3, 4, size=shape).astype(float) if integers else rng.normal(size=shape)
        self.base = rng.integers(-3, 4, size=k).astype(float) if integers else rng.normal(size=k)

    @property
    def masks(self):
        return np.array([[i in t for i in range(self.n)] for t in self.coalitions], dtype=bool).reshape(-1, self.n)

    def explain(self, **options):
        return Explanation(base_values=self.base, coalitions=self.masks, dividends=self.dividends, **options)

    def v(self, present):
        """v(S) of every row and output, (B, K): the base and all dividends whose coalition lies in S."""
        total = np.zeros((self.rows, self.k)) + self.base
        for c, coalition in enumerate(self.coalitions):
            if coalition <= present:
                total = total + self.dividends[:, c]
        return total


@st.composite
def games(draw, max_features=7, outputs=3, **options):
    n = draw(st.integers(1, max_features))
    return Game(
        draw(st.integers(0, 10_000)),
        n,
        draw(st.integers(1, 4)),
        draw(st.integers(1, outputs)),
        draw(st.sampled_from([0, 1, 3, 8, 2**n])),
        **options,
    )


def subsets(members):
    return [frozenset(c) for size in range(len(members) + 1) for c in combinations(sorted(members), size)]


def shapley(v, n):
    """Definition 1 over sets, (B, n, K)."""
    table = {s: v(s) for s in subsets(range(n))}
    values = []
    for i in range(n):
        rest = subsets(set(range(n)) - {i})
        weights = [factorial(len(s)) * factorial(n - len(s) - 1) / factorial(n) for s in rest]
        values.append(sum(w * (table[s | {i}] - table[s]) for w, s in zip(weights, rest, strict=True)))
    return np.stack(values, axis=1)


def with_k(array, game):
    """Puts the axis of the outputs back where one output has dropped it."""
    return np.asarray(array)[..., None] if game.k == 1 else np.asarray(array)


def close(found, expected, tolerance=1e-12):
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, 0, tolerance)


def mask_of(members, n):
    return np.array([i in members for i in range(n)])


def random_groups(n, seed):
    """The features in at most three groups, as positions; in no particular order."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, size=n)
    return {f"g{g}": rng.permutation(np.flatnonzero(label == g)).tolist() for g in np.unique(label).tolist()}


def same(first, second):
    """Two explanations agree to the last bit, in everything."""
    for name in ("values", "base_values", "coalitions", "dividends", "outputs"):
        a, b = getattr(first, name), getattr(second, name)
        assert a.dtype == b.dtype, name
        assert np.array_equal(a, b), name
    assert (first.feature_names, first.output_names) == (second.feature_names, second.output_names)
