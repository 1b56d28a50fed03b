"""Copies of rows with players absent: who is absent, and how much each copy counts."""

from __future__ import annotations

import numpy as np
import pytest

from harsanyinet.tables.boost_inputs import Table
from harsanyinet.tables.copies import MOST_EVENED, copied, draw_absent, evened


@pytest.fixture
def table() -> Table:
    """Five columns of four players, the last of which has two."""
    rng = np.random.default_rng(0)
    return Table(
        bins=rng.integers(1, 8, (5, 4000)).astype(np.uint8), n_bins=np.full(5, 8), player_of=np.array([0, 1, 2, 3, 3]),
        y=rng.normal(size=(4000, 2)), weight=rng.exponential(size=4000) + 0.1, monotone=np.zeros(5, dtype=np.int64),
    )  # fmt: skip


def test_copies_are_the_rows_with_players_absent(table):
    copies = copied(table, 3, 2)
    draw_absent(copies, table, np.random.default_rng(1))
    gone = copies.bins == 0
    np.testing.assert_array_equal(gone[3], gone[4])  # columns of one player go together
    np.testing.assert_array_equal(copies.bins, np.where(gone, 0, np.tile(table.bins, 3)))
    np.testing.assert_array_equal(copies.y, np.tile(table.y, (3, 1)))
    np.testing.assert_allclose(copies.weight, np.tile(table.weight / 3, 3), 1e-15)  # together as much as the row
    assert (gone[:, :4000] != gone[:, 4000:8000]).any()  # each copy draws its own
    numbers = np.bincount(gone[:4].sum(0), minlength=5) / gone.shape[1]
    np.testing.assert_allclose(numbers, 1 / 5, atol=0.02)  # a chance drawn for each copy: every number as often


def test_absent_players_are_drawn_anew(table):
    copies, draw = copied(table, 1, 2), np.random.default_rng(1)
    draw_absent(copies, table, draw)
    copies.weight *= 2  # as evening does
    before = copies.bins.copy()
    draw_absent(copies, table, draw)
    assert 0.3 < ((before == 0) != (copies.bins == 0)).mean() < 0.7
    np.testing.assert_array_equal(copies.weight, table.weight)


@pytest.mark.parametrize("least", [0.0, 1e-9])
def test_copies_of_noisy_gradients_count_less(table, least):
    """In proportion to curvature over noise, up to a limit, one on average."""
    copies = copied(table, 2, 2)
    draw_absent(copies, table, np.random.default_rng(1))
    absent = (copies.bins[:4] == 0).sum(0)
    copies.curvature[:] = 1.0
    noise = np.array([least, 1.0, 1.5, 2.0, 3.0])[absent]
    copies.gradient[:] = np.sqrt(noise)[:, None] * np.random.default_rng(2).choice([-1.0, 1.0], copies.gradient.shape)
    factor = evened(copies, table)
    assert factor.mean() == pytest.approx(1.0)
    each = np.array([factor[absent == k][0] for k in range(5)])
    np.testing.assert_allclose(each / each[4], [MOST_EVENED, 3.0, 2.0, 1.5, 1.0], 1e-9)


def test_without_gradients_all_copies_count_alike(table):
    copies = copied(table, 1, 2)
    draw_absent(copies, table, np.random.default_rng(1))
    copies.gradient[:] = 0.0
    copies.curvature[:] = 1.0
    np.testing.assert_array_equal(evened(copies, table), 1.0)
