"""Which columns say something: what gains no more than noise does is never asked about.

A quick fit is given shadows, too: columns whose rows have been shuffled. What a shadow gains is what chance gains, and
a column that gains hardly more is left out. A column that only stands for another gains nothing beside it, but says
much by itself; so it stays for rows in which the other is absent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.tables.boost_inputs import Rows, Table
from harsanyinet.tables.boosting import derive
from harsanyinet.tables.losses import Loss

Array = NDArray[Any]
Masks = NDArray[np.bool_]

MOST_SHADOWS = 20
ABOVE = 6.0  # standard deviations of what shadows gain, above their mean
LEAST = 0.02  # of what the best player gains
GROUPS = 8  # of the bins of a column


def with_shadows(table: Table, seed: int) -> Table:
    """The table with shuffled copies of some players as further players, who may join any others."""
    draw = np.random.default_rng(seed)
    chosen = draw.permutation(table.n_players)[:MOST_SHADOWS]
    copied, player_of, parts = [], [], [table.bins]
    for number, player in enumerate(chosen):
        order = draw.permutation(len(table.y))
        for column in np.flatnonzero(table.player_of == player):
            parts.append(table.bins[column][order][None])
            copied.append(column)
            player_of.append(table.n_players + number)
    return replace(
        table, bins=np.concatenate(parts), n_bins=np.append(table.n_bins, table.n_bins[copied]),
        player_of=np.append(table.player_of, player_of), monotone=np.append(table.monotone, table.monotone[copied]),
        allowed=None,
    )  # fmt: skip


def more_than_shadows(gains: Array, n_players: int) -> Masks:
    """(P,) bool: the players that gained more than shadows do, from the gains of all of them, shadows last."""
    own, shadows = gains[:n_players], gains[n_players:]
    return np.asarray((own > shadows.mean() + ABOVE * shadows.std()) & (own > LEAST * own.max(initial=0.0)))


def alone(table: Table, loss: Loss) -> Array:
    """(P,) by how many standard deviations each player's bins explain more of the gradients than chance would."""
    base = loss.best_constant(table.y, table.weight)
    rows = Rows(table.bins, table.y, table.weight, np.tile(base, (len(table.y), 1)))
    derive(loss, rows)
    found = np.zeros(table.n_players)
    variance = (rows.gradient**2).mean(0)
    variance = np.where(variance > 0, variance, 1.0)
    for column, player in enumerate(table.player_of):
        counts = np.bincount(rows.bins[column], minlength=256)
        group = np.minimum((np.cumsum(counts) - counts) * GROUPS // max(1, len(rows)), GROUPS - 1)[rows.bins[column]]
        sizes = np.bincount(group, minlength=GROUPS)
        used = sizes > 0
        freedom = (int(used.sum()) - 1) * rows.gradient.shape[1]
        if freedom < 1:
            continue
        sums = np.stack([np.bincount(group, g, GROUPS) for g in rows.gradient.T], axis=1)[used]
        statistic = float((sums**2 / sizes[used, None] / variance).sum())
        found[player] = max(found[player], (statistic - freedom) / np.sqrt(2 * freedom))
    return found
