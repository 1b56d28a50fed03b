"""Merged tables add up to what the trees say, for bins of every kind, and stay small."""

from __future__ import annotations

import numpy as np
import pytest

from harsanyinet.serving import merged_tables
from harsanyinet.serving.merged_tables import MergedTables
from harsanyinet.tables.look_ups import LookUp
from harsanyinet.tables.trees import Trees, TreeShape


def random_trees(seed, n_trees=30, n_columns=5, n_outputs=2):
    rng = np.random.default_rng(seed)
    player_of = np.array([0, 1, 1, 2, 3])[:n_columns]
    shapes = []
    for _ in range(n_trees):
        columns = rng.choice(n_columns, rng.integers(1, 4), replace=False)
        questions = [(int(rng.choice(columns)), int(rng.integers(0, 9))) for _ in range(rng.integers(0, 5))]
        shapes.append(TreeShape.of(questions, player_of))
    values = [rng.normal(size=(shape.n_states, n_outputs)) for shape in shapes]
    return Trees.of(player_of, np.zeros(n_outputs), shapes, values)


def read(merged, bins, n_sums):
    """The sums (rows, n, K), place by place."""
    n_tables, width = merged.sums.shape
    out = np.zeros((bins.shape[1], n_sums, merged.cells.shape[2]))
    for row in range(bins.shape[1]):
        place = merged.starts.astype(int).copy()
        for column, own in merged.steps.items():
            for table, steps in own:
                place[table] += steps[np.searchsorted(merged.cuts[column], bins[column, row])]
        for table in range(n_tables):
            for w in range(width):
                if merged.sums[table, w] >= 0:
                    out[row, merged.sums[table, w]] += merged.cells[place[table], w]
    return out


@pytest.mark.parametrize("most", [0, 500, 1_000_000])
@pytest.mark.parametrize("seed", range(5))
def test_they_say_what_the_trees_say(seed, most, monkeypatch):
    monkeypatch.setattr(merged_tables, "NUMBERS", most)
    trees = random_trees(seed)
    look_up = LookUp.of_values(trees, full=False)
    merged = MergedTables.of(look_up, 2)
    bins = np.random.default_rng(1).integers(0, 11, (5, 60)).astype(np.uint8)
    bins[1:3, ~(bins[1:3] > 0).all(0)] = 0  # columns of one player are absent together
    silent = sum(own[0] for shape, own in zip(trees.shapes, trees.tables, strict=True) if not len(shape.columns))
    found = read(merged, bins, 1)[:, 0] + silent
    np.testing.assert_allclose(found, trees.outputs(bins), atol=1e-12)
    assert len(merged.starts) < len(trees)
    assert merged.cells.size <= max(most, len(trees.values) * 2 * 2)


def test_more_room_means_fewer_tables(monkeypatch):
    rng, player_of = np.random.default_rng(0), np.arange(3)
    shapes = [TreeShape.of([(c, int(rng.integers(1, 90))) for c in (0, 0, 1, 1, 2)], player_of) for _ in range(50)]
    values = [rng.normal(size=(shape.n_states, 1)) for shape in shapes]
    look_up = LookUp.of_values(Trees.of(player_of, np.zeros(1), shapes, values), full=False)
    counts = []
    for most in (0, 20_000, 2_000_000):
        monkeypatch.setattr(merged_tables, "NUMBERS", most)
        counts.append(len(MergedTables.of(look_up, 1).starts))
    assert counts[0] > counts[1] > counts[2]
