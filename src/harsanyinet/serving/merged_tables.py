"""Look-ups with fewer, larger tables: trees about the same columns, added up. numpy only.

Half of the cost of a look-up is finding the places in its tables. Trees about the same few columns are one table over
all bins that any of them tells apart; as long as the tables stay small, that is much quicker, and the sum is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.tables.look_ups import LookUp, Paths

Array = NDArray[Any]
NUMBERS = 2_000_000
"""As many may all tables hold together, 16 MB, if the trees have not more by themselves."""
_LARGEST = (16_384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 0)  # cells of one table


@dataclass(frozen=True, eq=False)
class _Group:
    """Trees that become one table, and all that they ask: thresholds by column."""

    asked: dict[int, frozenset[int]]
    trees: list[int]

    @property
    def n_cells(self) -> int:
        return math.prod(len(own) + 1 for own in self.asked.values())

    def with_tree(self, tree: _Group) -> _Group:
        both = {column: own | tree.asked[column] for column, own in self.asked.items()}
        return _Group(both, [*self.trees, *tree.trees])


@dataclass(frozen=True, eq=False)
class MergedTables:
    """Tables over the bins of columns, and the sums that they add to.

    Attributes:
        cuts: By column, all thresholds that some table asks about, rising.
        steps: By column, (table, what it adds to the table's cell): by how many of the column's cuts its bin is above.
        starts: (G,) where the cells of a table begin.
        cells: (cells of all tables, W, K): what a table adds to each of its W sums, for each output.
        sums: (G, W) which sums these are; -1 for none.
    """

    cuts: dict[int, Array]
    steps: dict[int, list[tuple[int, Array]]]
    starts: Array
    cells: Array
    sums: Array

    @classmethod
    def of(cls, look_up: LookUp, n_outputs: int) -> MergedTables:
        """From a look-up whose slots are sum * K + output, for rows of any kind (all states)."""
        groups = _grouped(look_up.paths, int(np.diff(look_up.slot_ends, prepend=0).max(initial=0)))
        asked: dict[int, frozenset[int]] = {}
        for group in groups:
            for column, own in group.asked.items():
                asked[column] = asked.get(column, frozenset()) | own
        cuts = {column: np.array(sorted(own)) for column, own in sorted(asked.items())}
        parts = [_added_up(look_up, group, n_outputs) for group in groups]
        width = max(len(sums) for sums, _ in parts)
        ends = np.cumsum([len(table) for _, table in parts])
        starts = np.append(0, ends[:-1]).astype(np.int32)
        numbers = np.full((len(groups), width), -1)
        cells = np.zeros((ends[-1], width, n_outputs))
        steps: dict[int, list[tuple[int, Array]]] = {column: [] for column in cuts}
        for g, (group, (sums, table)) in enumerate(zip(groups, parts, strict=True)):
            numbers[g, : len(sums)] = sums
            cells[starts[g] : ends[g], : len(sums)] = table
            stride = len(table)
            for column, own in group.asked.items():
                stride //= len(own) + 1
                digit = np.searchsorted(sorted(own), np.append(0, cuts[column] + 1))
                steps[column].append((g, digit * stride))
        return cls(cuts, steps, starts, cells, numbers)


def _grouped(paths: Paths, width: int) -> list[_Group]:
    """Trees about the same columns together, as far as the tables stay small; each cell is about `width` numbers."""
    every = [{column: frozenset(own) for column, own in paths.asked(t).items()} for t in range(len(paths.ends))]
    trees = [_Group(asked, [t]) for t, asked in enumerate(every) if asked]
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
        grown = [group.with_tree(tree) for group in groups]
        growth = [new.n_cells - old.n_cells for new, old in zip(grown, groups, strict=True)]
        fitting = [i for i, new in enumerate(grown) if new.n_cells <= largest or growth[i] <= tree.n_cells]
        if fitting:
            best = min(fitting, key=growth.__getitem__)
            groups[best] = grown[best]
        else:
            groups.append(tree)
    return [group for groups in packed.values() for group in groups]


def _added_up(look_up: LookUp, group: _Group, n_outputs: int) -> tuple[Array, Array]:
    """The sums of the trees of a group, (s,), and what they add together, (cells, s, K)."""
    parts = [look_up.part(t) for t in group.trees]
    sums = np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *(slots for slots, _ in parts)]) // n_outputs)
    total = np.zeros((group.n_cells, len(sums), n_outputs))
    bins = {column: np.append(0, np.array(sorted(own)) + 1) for column, own in group.asked.items()}  # one of each digit
    for t, (slots, tables) in zip(group.trees, parts, strict=True):
        each = tables[:, look_up.paths.cells(t, bins)].reshape(-1, n_outputs, group.n_cells)
        total[:, np.searchsorted(sums, slots[::n_outputs] // n_outputs)] += np.moveaxis(each, 2, 0)
    return sums, total
