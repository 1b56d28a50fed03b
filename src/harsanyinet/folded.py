"""FoldedTable: a fitted TableNet as the few arrays that inference needs. Equal to the network to rounding.

Members are averaged where that can be done once: what a column adds by itself becomes one curve and one table, what a
cell unit adds becomes one table over its cells. Only wide units are still computed, member by member, row chunk by row
chunk. Prediction, Shapley values and interactions are readings of the same contributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from harsanyinet.indices import shares, unite_coalitions
from harsanyinet.tabular import CELL, LEVEL, POSITION, TableNet, UnitGroup

_CHUNK = 1024  # rows; what they need stays in the cache


class _Cells(NamedTuple):
    """Cell units of one size: U tables one after the other, and how to find a row's place in each."""

    players: Tensor  # (U, S)
    strides: Tensor  # (U, S)
    starts: Tensor  # (U,)
    table: Tensor  # (all cells, K)


class _Tables(NamedTuple):
    """Grown tables: the questions of all of them are answered by adding up one line of bytes per column."""

    columns: list[int]  # the columns that are asked about
    starts: list[int]  # where the cells of each begin
    answers: Tensor  # (cells of all columns, T) bytes: what a cell adds to the leaf of each table
    leaves: Tensor  # (T,) where the values of each table begin
    values: Tensor  # (T 2^D, K)
    position: Tensor  # (T,) the coalition of each


class _Wide(NamedTuple):
    """A wide unit."""

    players: Tensor  # (S,)
    weights: list[Tensor]  # (M, d_in, C) per layer
    biases: list[Tensor]  # (M, 1, C)
    readouts: list[Tensor]  # (M, C, K), divided by M


@dataclass(frozen=True, eq=False)
class FoldedTable:
    """What remains of a `TableNet` for inference.

    Attributes:
        base: (K,), v(empty).
        coalitions: (C, P) bool, the sets of all units, each once.
        position: (units,) which of them a unit has: single units, cell units by size, wide units.
    """

    base: Tensor
    coalitions: NDArray[np.bool_]
    position: Tensor
    first_knot: Tensor  # (P,) row of a column's first knot in own and embedding tables
    first_level: Tensor  # (P,) row of its first level
    own: Tensor  # (knots and levels, K)
    embedding: Tensor  # (M, knots and levels, d)
    cells: tuple[_Cells, ...]
    wide: tuple[_Wide, ...]
    tables: _Tables | None

    @classmethod
    def of(cls, net: TableNet) -> FoldedTable:
        """Folds a network in evaluation mode."""
        with torch.no_grad():
            return _fold(net)

    @property
    def n_outputs(self) -> int:
        """K."""
        return len(self.base)

    def contributions(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """What each coalition adds, (C, B, K): the dividends. `x` (B, P, 3) coded, `present` (B, P) bool or None."""
        out = x.new_empty(len(self.coalitions), len(x), self.n_outputs)
        for start in range(0, len(x), _CHUNK):
            rows = slice(start, start + _CHUNK)
            self._chunk(x[rows], None if present is None else present[rows], out[:, rows])
        return out

    def outputs(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """(B, K) float64: the base and the sum of all contributions, without keeping these."""
        parts = []
        for start in range(0, len(x), _CHUNK):
            rows = slice(start, start + _CHUNK)
            added = x.new_empty(len(self.coalitions), len(x[rows]), self.n_outputs)
            self._chunk(x[rows], None if present is None else present[rows], added)
            parts.append(added.sum(0).double())
        return self.base.double() + (torch.cat(parts) if parts else x.new_zeros(0, self.n_outputs).double())

    def _chunk(self, x: Tensor, present: Tensor | None, out: Tensor) -> None:
        here = ~x[:, :, POSITION].isnan()
        if present is not None:
            here &= present
        everyone = bool(here.all())
        place = x[:, :, POSITION] if everyone else torch.where(here, x[:, :, POSITION], 0.0)
        left = place.floor()
        share = (place - left)[:, :, None]
        knot = left.long() + self.first_knot  # (B, P)
        level = x[:, :, LEVEL].long() + self.first_level
        index = torch.stack([knot, knot + 1, level], 2)  # (B, P, 3): a value is a mixture of two knots, plus a level
        weight = torch.cat([1 - share, share, torch.ones_like(share)], 2)
        n_rows, n, k = len(x), x.shape[1], self.n_outputs
        parts = [self._bag(index, weight, self.own).view(n_rows, n, k).transpose(0, 1)]  # (P, B, K)
        cell = x[:, :, CELL].long()
        for group in self.cells:
            at = (cell[:, group.players] * group.strides).sum(2) + group.starts  # (B, U)
            parts.append(F.embedding(at.T, group.table))  # (U, B, K)
        for unit in self.wide:
            parts.append(self._wide(unit, index[:, unit.players], weight[:, unit.players])[None])
        out.zero_().index_add_(0, self.position, torch.cat(parts))  # of (units, B, K)
        if self.tables is not None:
            out.index_add_(0, self.tables.position, self._grown(self.tables, cell))
        if not everyone:
            absent = (~here).to(x.dtype) @ torch.tensor(self.coalitions.T, dtype=x.dtype)  # (B, C)
            out.masked_fill_((absent > 0).T[:, :, None], 0.0)

    @staticmethod
    def _bag(index: Tensor, weight: Tensor, table: Tensor) -> Tensor:
        return F.embedding_bag(index.view(-1, 3), table, mode="sum", per_sample_weights=weight.view(-1, 3))

    def _wide(self, unit: _Wide, index: Tensor, weight: Tensor) -> Tensor:
        index, weight, n_rows = index.contiguous(), weight.contiguous(), len(index)
        total = weight.new_zeros(n_rows, self.n_outputs)
        for member, table in enumerate(self.embedding):
            z = self._bag(index, weight, table).relu_().view(n_rows, -1)
            for matrix, bias, readout in zip(unit.weights, unit.biases, unit.readouts, strict=True):
                z = torch.addmm(bias[member], z, matrix[member]).relu_()
                total.addmm_(z, readout[member])
        return total

    def _grown(self, tables: _Tables, cell: Tensor) -> Tensor:
        """What each table adds, (T, B, K)."""
        leaf = tables.answers.new_zeros(len(cell), tables.answers.shape[1])  # (B, T)
        for column, start in zip(tables.columns, tables.starts, strict=True):
            leaf += tables.answers.index_select(0, cell[:, column] + start)
        return F.embedding(leaf.T.long() + tables.leaves[:, None], tables.values)

    def shapley(self, contributions: Tensor) -> Tensor:
        """(C, B, K) -> Shapley values (B, P, K)."""
        share = torch.from_numpy(shares(self.coalitions)).to(contributions.dtype)  # (C, P)
        if contributions.shape[2] == 1:
            return (contributions[:, :, 0].T @ share)[:, :, None]
        return torch.einsum("cbk,cp->bpk", contributions, share)

    def to(self, dtype: torch.dtype) -> FoldedTable:
        """The same in another precision."""

        def cast(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.to(dtype) if value.is_floating_point() else value
            if isinstance(value, list):
                return [cast(v) for v in value]
            if isinstance(value, tuple):
                parts = [cast(v) for v in value]
                return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
            return value

        return FoldedTable(**{name: cast(value) for name, value in vars(self).items()})


def _fold(net: TableNet) -> FoldedTable:
    m, k, d, n = net.members, net.n_outputs, net.embedding, net.n_players
    knots = [max(count, 1) + 1 for count in net.config["knots"]]  # one more, for the right neighbour of the last
    first_knot = torch.tensor([0, *np.cumsum(knots)][:-1])
    n_knots = int(sum(knots))

    def tables(slopes: Tensor, levels: Tensor, width: int) -> Tensor:
        """Values at the knots, then at the levels, (rows, M, width)."""
        rises = slopes.view(n, -1, m, width)
        columns = []
        for i, count in enumerate(knots):
            at = torch.cat([rises.new_zeros(1, m, width), rises[i, : count - 2].cumsum(0)])
            columns.append(torch.cat([at, at[-1:]]))
        return torch.cat([*columns, levels.view(-1, m, width)])

    own = tables(net.own_curves(), net.own_steps(), k).mean(1)
    embedding = tables(net.slopes, net.table, d).transpose(0, 1).contiguous()
    cells, wide, members = [], [], [torch.eye(n, dtype=torch.bool)]
    for group in net.unit_groups():
        members.append(F.one_hot(group.players, n).sum(1) > 0)
        if group.from_cells:
            cells.append(_tabulate(net, group))
        else:
            wide.append(
                _Wide(group.players[0], [w.detach() for w in group.weights], [b[:, 0].detach() for b in group.biases],
                      [r.detach() / m for r in group.readouts])
            )  # fmt: skip
    n_units, fields = sum(map(len, members)), net.table_fields()
    coalitions, of = unite_coalitions(torch.cat([*members, fields]).numpy())
    position = torch.from_numpy(of)
    grown = _fold_tables(net, fields, position[n_units:]) if len(fields) else None
    return FoldedTable(
        base=net.base.detach(), coalitions=coalitions, position=position[:n_units], first_knot=first_knot,
        first_level=net.first_level + n_knots, own=own, embedding=embedding,
        cells=tuple(cells), wide=tuple(wide), tables=grown,
    )  # fmt: skip


def _fold_tables(net: TableNet, fields: Tensor, position: Tensor) -> _Tables:
    counts, depth = net.config["cells"], net.config["table_depth"]
    columns = fields.any(0).nonzero()[:, 0].tolist()
    answers, starts = [], [0]
    powers = 2 ** torch.arange(depth - 1, -1, -1)
    for column in columns:
        first = int(net.first_cell[column])
        ranks = net.ranks[first : first + counts[column]]
        yes = (net.table_players == column) & (ranks[:, None, None] > net.table_thresholds)  # (cells, T, D)
        answers.append((yes * powers).sum(2))
        starts.append(starts[-1] + counts[column])
    small = torch.uint8 if depth <= 8 else torch.int32
    leaves = torch.arange(len(fields)) * 2**depth
    values = net.table_values.detach().flatten(0, 1)
    return _Tables(columns, starts[:-1], torch.cat(answers).to(small), leaves, values, position)


def _tabulate(net: TableNet, group: UnitGroup) -> _Cells:
    """What cell units add for every combination of cells."""
    counts, tables, strides, starts = net.config["cells"], [], [], [0]
    for unit, players in enumerate(group.players.tolist()):
        sizes = [counts[i] for i in players]
        grid = torch.cartesian_prod(*(torch.arange(size) for size in sizes)).view(-1, len(sizes))  # (cells, S)
        tables.append(net.cell_unit(group, unit, grid))
        strides.append(np.append(np.cumprod(sizes[:0:-1])[::-1], 1).tolist())
        starts.append(starts[-1] + len(grid))
    return _Cells(group.players, torch.tensor(strides), torch.tensor(starts[:-1]), torch.cat(tables))
