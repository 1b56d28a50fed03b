"""Copies of the rows in which players are absent at random: they teach what to say from some of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.tables.boost_inputs import Rows, Table

Array = NDArray[Any]

KINDS = 16  # of copies, by how many players are absent
MOST_EVENED = 5.0  # times as much for one kind as for another: where nobody is absent hardly anything is left to learn


def copied(table: Table, n: int, n_outputs: int) -> Rows:
    """So many copies of each row; who is absent is yet to be drawn."""
    rows = n * len(table.y)
    return Rows(
        np.empty((len(table.bins), rows), dtype=np.uint8), np.tile(table.y, (n, 1)), np.empty(rows),
        np.empty((rows, n_outputs)),
    )  # fmt: skip


def draw_absent(copies: Rows, table: Table, draw: np.random.Generator) -> None:
    """Draws anew which players are absent: each with a chance that is drawn for each copy.

    All copies of a row weigh what the row does: there are no more rows than there are.
    """
    n, m = len(table.y), len(copies)
    chance = draw.random(m, dtype=np.float32)
    for player in range(table.n_players):
        present = draw.random(m, dtype=np.float32) >= chance
        for column in np.flatnonzero(table.player_of == player):
            for i in range(0, m, n):
                np.multiply(table.bins[column], present[i : i + n], out=copies.bins[column, i : i + n])
    copies.weight[:] = np.tile(table.weight / (m // n), m // n)


def evened(copies: Rows, table: Table) -> Array:
    """(B,) factors, one on average, by which copies count more alike however many players they miss.

    With many players absent targets are all but noise, whose gradients would drown those of the others.
    """
    heads = np.unique(table.player_of, return_index=True)[1]
    absent = (copies.bins[heads] == 0).sum(axis=0)
    kind = absent * KINDS // (table.n_players + 1)
    noise = np.bincount(kind, (copies.gradient**2).sum(axis=1), KINDS)
    weight = np.bincount(kind, copies.curvature.sum(axis=1), KINDS)
    factor = np.divide(weight, noise, out=np.full(KINDS, np.inf), where=noise > 0)
    known = factor[(factor > 0) & np.isfinite(factor)]
    if not len(known):
        return np.ones(len(kind))
    found = np.minimum(factor, MOST_EVENED * known.min())[kind]
    return np.asarray(found / found.mean())
