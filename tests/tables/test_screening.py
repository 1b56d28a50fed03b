"""Which columns say something: shadows are columns with their rows shuffled, and gain what chance gains."""

from __future__ import annotations

import numpy as np
import pytest

from harsanyinet.tables.boost_inputs import Table
from harsanyinet.tables.losses import Loss
from harsanyinet.tables.screening import alone, more_than_shadows, with_shadows

LOSSES = {
    "squared": Loss("squared"),
    "binary": Loss("binary"),
    "absolute": Loss("absolute", quantile=0.5),
    "multiclass": Loss("multiclass", 3),
}


def table(kind: str = "squared", n: int = 1500) -> Table:
    """Player 0 speaks, player 1 (two columns) speaks by its second column, player 2 is noise, player 3 is constant."""
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 9, (5, n)).astype(np.uint8)
    bins[4] = 1
    signal = bins[0] + 2.0 * (bins[2] > 4) + rng.normal(size=n)
    y = {"binary": signal > 5, "multiclass": np.digitize(signal, [3, 6])}.get(kind, signal)
    return Table(
        bins=bins, n_bins=np.full(5, 9), player_of=np.array([0, 1, 1, 2, 3]), y=y[:, None].astype(float),
        weight=np.ones(n), monotone=np.array([1, 0, 0, -1, 0]), allowed=lambda inside: ~inside,
    )  # fmt: skip


def test_shadows_are_columns_whose_rows_are_shuffled():
    given = table()
    found = with_shadows(given, 0)
    np.testing.assert_array_equal(found.bins[:5], given.bins)
    np.testing.assert_array_equal(found.player_of[:5], given.player_of)
    assert len(found.bins) == len(found.n_bins) == len(found.player_of) == len(found.monotone)
    assert set(range(4)) < set(found.player_of.tolist()) == set(range(found.n_players))
    assert found.allowed is None  # they may join any others
    counts = [np.bincount(own, minlength=9).tolist() for own in given.bins]
    for shadow in range(4, found.n_players):
        columns = np.flatnonzero(found.player_of == shadow)
        of = [counts.index(np.bincount(found.bins[c], minlength=9).tolist()) for c in columns]  # the same numbers
        assert len(set(given.player_of[of])) == 1
        assert len(columns) == (given.player_of == given.player_of[of[0]]).sum()  # all columns of the player
        if len(columns) > 1:  # shuffled together
            pairs = [sorted(zip(*t, strict=True)) for t in (found.bins[columns].tolist(), given.bins[of].tolist())]
            assert pairs[0] == pairs[1]
        if of[0] != 4:
            assert (found.bins[columns[0]] != given.bins[of[0]]).mean() > 0.5
    np.testing.assert_array_equal(found.y, given.y)


def test_more_than_shadows():
    rng = np.random.default_rng(0)
    gains = np.concatenate([[100.0, 10.5, 0.0], 10 + rng.normal(size=20)])
    assert more_than_shadows(gains, 3).tolist() == [True, False, False]


@pytest.mark.parametrize("kind", LOSSES)
def test_what_a_column_says_by_itself(kind):
    found = alone(table(kind), LOSSES[kind])
    assert found.shape == (4,)
    assert found[0] > 20
    assert found[1] > 5
    assert found[2] < 4
    assert found[3] == 0


def test_noise_says_nothing_by_itself():
    """In units of standard deviations: of 200 columns of noise hardly any is beyond three, none beyond six."""
    rng = np.random.default_rng(1)
    bins = rng.integers(1, 60, (200, 2000)).astype(np.uint8)
    given = Table(
        bins=bins, n_bins=np.full(200, 60), player_of=np.arange(200), y=rng.normal(size=(2000, 1)),
        weight=np.ones(2000), monotone=np.zeros(200, dtype=np.int64),
    )  # fmt: skip
    found = alone(given, Loss("squared"))
    assert (found > 3).mean() < 0.03
    assert found.max() < 6
