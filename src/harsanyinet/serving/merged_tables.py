"""Look-ups with fewer, larger tables: trees about the same columns, added up. numpy only.

Half of the cost of a look-up is finding the places in its tables. Trees about the same few columns are one table over
all bins that any of them tells apart; as long as the tables stay small, that is much quicker, and the sum is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.tables.look_ups import LookUp

Array = NDArray[Any]
NUMBERS = 2_000_000
"""As many may all tables hold together, 16 MB, if the trees have not more by themselves."""
_LARGEST = (16_384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 0)  # cells of one table


@dataclass(frozen=True, eq=False)
class _Group:
    """Trees that become one table."""

    asked: dict[int, frozenset[int]]
    """Thresholds by column."""
    trees: list[int]

    @property
    def n_cells(self) -> int:
        return _cells(self.asked)


@dataclass(frozen=True, eq=False)
class MergedTables:
    """Tables over the bins of columns, and the sums that they add to.

    Attributes:
        cuts: By column, all thresholds that some table asks about, rising.
        steps: (column, table, what it adds to the table's cell): by how many of the column's cuts its bin is above.
        starts: (G,) where the cells of a table begin.
        cells: (cells of all tables, W, K): what a table adds to each of its W sums, for each output.
        sums: (G, W) which sums these are; -1 for none.
    """

    cuts: dict[int, Array]
    steps: list[tuple[int, int, Array]]
    starts: Array
    cells: Array
    sums: Array

    @classmethod
    def of(cls, look_up: LookUp, n_outputs: int) -> MergedTables:
        """From a look-up whose slots are sum * K + output, for rows of any kind (all states)."""
        groups = _grouped(look_up, n_outputs)
        asked: dict[int, set[int]] = {}
        for group in groups:
            for column, own in group.asked.items():
                asked.setdefault(column, set()).update(own)
        cuts = {column: np.array(sorted(own)) for column, own in sorted(asked.items())}
        parts = [_added_up(look_up, group, n_outputs) for group in groups]
        width = max(len(sums) for sums, _ in parts)
        numbers = np.full((len(groups), width), -1)
        cells = np.zeros((sum(len(table) for _, table in parts), width, n_outputs))
        steps, starts, at = [], [], 0
        for g, (group, (sums, table)) in enumerate(zip(groups, parts, strict=True)):
            numbers[g, : len(sums)] = sums
            cells[at : at + len(table), : len(sums)] = table
            starts.append(at)
            at += len(table)
            stride = len(table)
            for column, own in group.asked.items():
                stride //= len(own) + 1
                digit = np.searchsorted(sorted(own), np.append(0, cuts[column] + 1))
                steps.append((column, g, digit * stride))
        return cls(cuts, steps, np.array(starts, dtype=np.int32), cells, numbers)


def _grouped(look_up: LookUp, n_outputs: int) -> list[_Group]:
    """Trees about the same columns together, as far as the tables stay small."""
    paths = look_up.paths
    begins, slot_begins = np.append(0, paths.ends), np.append(0, look_up.slot_ends)
    trees, width = [], 1
    for t in range(len(paths.ends)):
        asked: dict[int, set[int]] = {}
        levels = slice(begins[t], begins[t + 1])
        for column, threshold in zip(paths.columns[levels].tolist(), paths.thresholds[levels].tolist(), strict=True):
            asked.setdefault(column, set()).add(threshold)
        if asked:
            trees.append(_Group({column: frozenset(asked[column]) for column in sorted(asked)}, [t]))
            width = max(width, int(slot_begins[t + 1] - slot_begins[t]))
    if not trees:  # a constant: one table of zeros about the first column
        return [_Group({0: frozenset({0})}, [])]
    most = max(NUMBERS, sum(tree.n_cells for tree in trees) * width)
    for largest in _LARGEST:
        found = _packed(trees, largest)
        if sum(group.n_cells for group in found) * width <= most:
            break
    return found


def _packed(trees: list[_Group], largest: int) -> list[_Group]:
    """Every tree into the group that grows least by it, none of them beyond so many cells unless it saves some."""
    packed: dict[tuple[int, ...], list[_Group]] = {}
    for tree in trees:
        groups = packed.setdefault(tuple(tree.asked), [])
        best, growth = -1, 0
        for i, group in enumerate(groups):
            n_cells = _cells({column: own | tree.asked[column] for column, own in group.asked.items()})
            more = n_cells - group.n_cells
            if (n_cells <= largest or more <= tree.n_cells) and (best < 0 or more < growth):
                best, growth = i, more
        if best < 0:
            groups.append(tree)
        else:
            old = groups[best]
            both = {column: own | tree.asked[column] for column, own in old.asked.items()}
            groups[best] = _Group(both, [*old.trees, *tree.trees])
    return [group for groups in packed.values() for group in groups]


def _cells(asked: dict[int, frozenset[int]]) -> int:
    n = 1
    for own in asked.values():
        n *= len(own) + 1
    return n


def _added_up(look_up: LookUp, group: _Group, n_outputs: int) -> tuple[Array, Array]:
    """The sums of the trees of a group, (s,), and what they add together, (cells, s, K)."""
    paths = look_up.paths
    begins, slot_begins = np.append(0, paths.ends), np.append(0, look_up.slot_ends)
    slots = [look_up.slots[slot_begins[t] : slot_begins[t + 1]] for t in group.trees]
    sums = np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *slots]) // n_outputs)
    total = np.zeros((group.n_cells, len(sums), n_outputs))
    bins = {column: np.append(0, np.array(sorted(own)) + 1) for column, own in group.asked.items()}  # one of each digit
    for t, own in zip(group.trees, slots, strict=True):
        cells = np.zeros(1, dtype=np.int64)
        levels = np.arange(begins[t], begins[t + 1])
        for column, seen in bins.items():
            mine = levels[paths.columns[levels] == column]
            above = seen[:, None] > paths.thresholds[mine]
            cells = (cells[:, None] + above @ paths.steps[mine].astype(np.int64)).reshape(-1)
        tables = look_up.table[look_up.starts[t] : look_up.starts[t] + len(own) * paths.n_states[t]]
        each = tables.reshape(-1, n_outputs, paths.n_states[t])[:, :, cells]  # (sums of the tree, K, cells)
        total[:, np.searchsorted(sums, own[::n_outputs] // n_outputs)] += np.moveaxis(each, 2, 0)
    return sums, total
