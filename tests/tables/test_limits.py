"""Which players may act together, and monotone signs, from the parameters of an estimator."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from harsanyinet.tables.limits import Limits, monotone_signs
from harsanyinet.tables.players import Players, positions

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
