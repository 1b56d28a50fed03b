"""TableNet: the Harsanyi network of the estimators, from coded columns to outputs. No frames, no training.

Three kinds of units, all behind the presence gate. A *single* unit reads one column: a piecewise-linear curve plus a
table of levels, and next to it an embedding for the units above. A *cell* unit reads two or three columns through the
cell that each falls into, so that what it computes can be written down as a table. A *wide* unit is a small network
over the embeddings of its columns, for what smaller sets cannot say. Grown *tables* over a few columns each may follow,
when all else is fitted. Several members share the sets, each with weights
of its own; the output is their mean, and a mean of Harsanyi networks is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.fields import Connect
from harsanyinet.growth import Tables
from harsanyinet.network import HarsanyiNet, check_present

POSITION, LEVEL, CELL = 0, 1, 2
"""What a coded column holds: a place between the knots (NaN: absent), a row of the level table, a cell."""

_LEVEL_GAIN = 4.0  # a level is one weight, where a curve has many: let it move as quickly


class TableNet(HarsanyiNet):
    """A network over coded columns, `members` of them side by side.

    Args:
        n_outputs: K.
        knots: Number of knots of each column's curve; 0 or 1 for a column without a curve. One entry per player.
        levels: Rows of each column's level table, at least one: the first is that of every value without a level.
        cells: Cells of each column.
        sets: Players of each cell unit.
        wide: Players of each wide unit.
        members: M.
        embedding: Channels of a column's embedding, per member.
        channels: Channels of a cell unit, per member.
        wide_channels: Channels of a wide unit, per member.
        wide_depth: Layers of a wide unit.
        rising: Per player 1 or -1 for a curve that never falls or never rises, 0 for any; such a column has one level
            and is in no set.
        dropout: Share of the channels of a unit that a batch trains without.
        seed: Of the initial weights.
        n_tables: Number of grown tables, see `take_tables`.
        table_depth: Questions of each of them.

    Shape:
        - x: (B, P, 3), see `POSITION`, `LEVEL`, `CELL`; present: (P,) or (B, P) bool
        - outputs: (B, K)

    Examples:
        >>> net = TableNet(1, knots=[3, 0], levels=[1, 4], cells=[3, 4], sets=[(0, 1)], wide=[(0, 1)], members=2)
        >>> x = torch.tensor([[[0.5, 0, 0], [0, 2, 2]], [[torch.nan, 0, 0], [0, 3, 3]]])
        >>> net.eval()(x).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        n_outputs: int,
        *,
        knots: Sequence[int],
        levels: Sequence[int],
        cells: Sequence[int],
        sets: Sequence[Sequence[int]] = (),
        wide: Sequence[Sequence[int]] = (),
        members: int = 8,
        embedding: int = 16,
        channels: int = 16,
        wide_channels: int = 128,
        wide_depth: int = 3,
        rising: Sequence[int] | None = None,
        dropout: float = 0.0,
        seed: int = 0,
        n_tables: int = 0,
        table_depth: int = 1,
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "n_outputs": n_outputs, "knots": list(knots), "levels": list(levels), "cells": list(cells),
            "sets": [list(s) for s in sets], "wide": [list(s) for s in wide], "members": members,
            "embedding": embedding, "channels": channels, "wide_channels": wide_channels, "wide_depth": wide_depth,
            "rising": None if rising is None else list(rising), "dropout": dropout, "seed": seed,
            "n_tables": n_tables, "table_depth": table_depth,
        }  # fmt: skip
        self.n_players, self.n_outputs, self.members = len(knots), n_outputs, members
        self.embedding, self.dropout = embedding, dropout
        n, m, d, k = self.n_players, members, embedding, n_outputs
        draw = torch.Generator().manual_seed(seed)

        def uniform(*shape: int, bound: float) -> nn.Parameter:
            return nn.Parameter((torch.rand(shape, generator=draw) * 2 - 1) * bound)

        pieces = max(max(knots) - 1, 1)
        each = torch.tensor([max(count - 1, 1) for count in knots])[:, None, None]
        self.slopes = uniform(n, pieces, m * d, bound=1.0)  # of the embeddings
        self.slopes.data *= each**-0.5
        # Many pieces move a curve quickly, one piece does not: its slope counts for more.
        self.register_buffer("gain", (64 / each) ** 0.5, persistent=False)
        self.gain: Tensor
        self.table = uniform(sum(levels), m * d, bound=1.0)
        start = 0.0 if rising is None else 0.01 * torch.tensor(rising).abs()[:, None, None]
        self.curves = nn.Parameter(torch.zeros(n, pieces, m * k) + start)  # of what a column adds by itself
        self.steps = nn.Parameter(torch.zeros(sum(levels), m * k))
        self.register_buffer("first_level", _starts(levels), persistent=False)
        self.register_buffer("first_cell", _starts(cells), persistent=False)
        sign = torch.zeros(n) if rising is None else torch.tensor(rising, dtype=torch.float32)
        self.register_buffer("rising", sign, persistent=False)
        self.first_level: Tensor
        self.first_cell: Tensor
        self.rising: Tensor
        self.cell_table = uniform(sum(cells) if sets else 0, m * channels, bound=1.0)
        self.groups = nn.ModuleList()
        for size in sorted({len(s) for s in sets}):
            chosen = [s for s in sets if len(s) == size]
            self.groups.append(UnitGroup(chosen, channels, channels, 1, m, k, dropout, draw, from_cells=True))
        for players in wide:
            self.groups.append(UnitGroup([players], embedding, wide_channels, wide_depth, m, k, dropout, draw))
        self.bases = nn.Parameter(torch.zeros(m, k))
        questions = torch.zeros(n_tables, table_depth, dtype=torch.long)
        self.register_buffer("ranks", torch.zeros(sum(cells) if n_tables else 0, dtype=torch.long))
        self.register_buffer("table_players", questions)
        self.register_buffer("table_thresholds", questions.clone())
        self.register_buffer("table_values", torch.zeros(n_tables, 2**table_depth, k))
        self.ranks: Tensor
        self.table_players: Tensor
        self.table_thresholds: Tensor
        self.table_values: Tensor

    def take_tables(self, tables: Tables, ranks: NDArray[np.int64]) -> None:
        """Adds grown tables, the same in every member, as units; `ranks` says the rank of each cell of each column."""
        self.config |= {"n_tables": len(tables), "table_depth": tables.players.shape[1]}
        self.ranks = torch.from_numpy(ranks if len(tables) else ranks[:0])
        self.table_players = torch.from_numpy(tables.players)
        self.table_thresholds = torch.from_numpy(tables.thresholds)
        self.table_values = torch.from_numpy(tables.values).to(self.bases.dtype)

    def table_fields(self) -> Tensor:
        """(T, P) bool: the players of each table."""
        asked = self.table_players
        return torch.zeros(len(asked), self.n_players, dtype=torch.bool, device=asked.device).scatter_(1, asked, True)

    def _tables(self, x: Tensor, acting: Tensor) -> Tensor:
        """What the tables add, (B, T, K)."""
        cell = torch.where(acting > 0, x[:, :, CELL], 0.0).long() + self.first_cell
        answers = self.ranks[cell][:, self.table_players] > self.table_thresholds  # (B, T, D)
        powers = 2 ** torch.arange(answers.shape[2] - 1, -1, -1, device=x.device)
        leaf = (answers * powers).sum(2)
        found = self.table_values[torch.arange(len(self.table_players), device=x.device), leaf]
        return _gated(found, acting[:, self.table_players].prod(2))

    # Members, for training ----------------------------------------------------------------------------------------

    def contributions(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """What each unit adds in each member, (units, M, B, K): single units, units of each group, tables."""
        own, layers, alive = self._computed(x, present)
        parts = [own.transpose(1, 2) * alive[0].T[:, None, :, None]]
        for group, zs, acts in zip(self.unit_groups(), layers, alive[1:], strict=True):
            read = [torch.bmm(z.flatten(0, 1), r) for z, r in zip(zs, group.readouts, strict=True)]  # (U M, B, K)
            total = sum(read[1:], start=read[0]).view(group.n_units, self.members, len(x), self.n_outputs)
            parts.append(total * acts.T[:, None, :, None])
        if self.config["n_tables"]:
            parts.append(self._tables(x, alive[0]).transpose(0, 1)[:, None].expand(-1, self.members, -1, -1))
        return torch.cat(parts)

    def member_outputs(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """The outputs of every member, (B, M, K)."""
        return self.bases + self.contributions(x, present).sum(0).transpose(0, 1)

    def cell_unit(self, group: UnitGroup, unit: int, cells: Tensor) -> Tensor:
        """What one cell unit adds, as a mean over the members, for given cells (R, S) of its players: (R, K)."""
        m = self.members
        at = cells + self.first_cell[group.players[unit]]
        one = F.embedding(at, self.cell_table).view(len(cells), -1, m, self.config["channels"]).permute(1, 2, 0, 3)
        readout = group.readouts[0][unit * m : (unit + 1) * m]
        return torch.bmm(group.one(unit, one), readout).mean(0)

    def own_curves(self) -> Tensor:
        """(P, pieces, M K): rises of what a column adds by itself; of one sign where the column is monotone."""
        curves = self.gain * self.curves
        if self.config["rising"] is None:
            return curves
        sign = self.rising[:, None, None]
        return torch.where(sign == 0, curves, sign * curves.abs())

    def own_steps(self) -> Tensor:
        """(levels, M K): what a level adds to that."""
        return _LEVEL_GAIN * self.steps

    def pruned(self, keep: NDArray[np.bool_]) -> TableNet:
        """The same network without some of its units; `keep` is in the order of `contributions`.

        A single unit that goes adds nothing any more, but its column stays, for the sets that it is in.
        """
        sets: list[list[int]] = []
        wide: list[list[int]] = []
        kept_groups, start = [], self.n_players
        for group in self.unit_groups():
            kept = np.flatnonzero(keep[start : start + group.n_units])
            start += group.n_units
            if len(kept):
                (sets if group.from_cells else wide).extend(group.players[kept].tolist())
                kept_groups.append((group, kept))
        settings = {**self.config, "sets": sets, "wide": wide, "n_tables": 0}
        net = TableNet(**settings).to(self.bases)
        net.ranks, tables = self.ranks.clone(), torch.from_numpy(keep[start:]).to(self.bases.device)
        net.table_players, net.table_thresholds, net.table_values = (
            part[tables] for part in (self.table_players, self.table_thresholds, self.table_values)
        )
        net.config["n_tables"] = len(net.table_players)
        for new, (old, kept) in zip(net.unit_groups(), kept_groups, strict=True):
            for name, parameter in old.named_parameters():
                part = parameter.data.view(old.n_units, self.members, *parameter.shape[1:])[kept]
                new.get_parameter(name).data = part.flatten(0, 1).clone()
        for name in ("slopes", "table", "curves", "steps", "bases"):
            getattr(net, name).data = getattr(self, name).data.clone()
        if sets:
            net.cell_table.data = self.cell_table.data.clone()
        for player in np.flatnonzero(~keep[: self.n_players]):
            first = int(self.first_level[player])
            net.curves.data[player] = 0.0
            net.steps.data[first : first + self.config["levels"][player]] = 0.0
        return net

    def rescale_(self, scale: Sequence[float], shift: Sequence[float]) -> None:
        """Makes output k what it was times ``scale[k]`` plus ``shift[k]``."""
        factor = torch.as_tensor(scale, dtype=self.bases.dtype, device=self.bases.device)
        for parameter in (self.curves, self.steps):
            parameter.data.view(*parameter.shape[:-1], self.members, -1).mul_(factor)
        for group in self.unit_groups():
            for readout in group.readouts:
                readout.data.mul_(factor)
        self.table_values.mul_(factor)
        self.bases.data.mul_(factor).add_(torch.as_tensor(shift, dtype=factor.dtype, device=factor.device))

    # A Harsanyi network -------------------------------------------------------------------------------------------

    def units(self, x: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """(B, P, M K) of the single units, then for each group and layer (B, U, M C)."""
        own, layers, alive = self._computed(x, present)
        found = [_gated(own.permute(1, 0, 2, 3).flatten(2), alive[0])]
        for zs, acts in zip(layers, alive[1:], strict=True):
            found.extend(_gated(z.permute(2, 0, 1, 3).flatten(2), acts) for z in zs)
        if self.config["n_tables"]:
            found.append(self._tables(x, alive[0]))
        return found

    @property
    def readouts(self) -> list[Tensor]:  # type: ignore[override]
        """(K, U, M C) per block of `units`: the mean over the members."""
        m, k, n = self.members, self.n_outputs, self.n_players
        eye = torch.eye(k, dtype=self.bases.dtype, device=self.bases.device) / m
        found = [eye[:, None].expand(k, n, k).repeat(1, 1, m)]
        for group in self.unit_groups():
            for readout in group.readouts:
                found.append(readout.view(group.n_units, -1, k).permute(2, 0, 1) / m)
        if t := self.config["n_tables"]:
            found.append(m * eye[:, None].expand(k, t, k))
        return found

    @property
    def base(self) -> Tensor:  # type: ignore[override]
        """(K,): v(empty)."""
        return self.bases.mean(0)

    def child_masks(self) -> list[Tensor]:
        """Single units read players; the first layer of a group reads single units, a deeper one the layer below."""
        n = self.n_players
        found = [torch.eye(n, dtype=torch.bool)]
        for group in self.unit_groups():
            for layer in range(len(group.readouts)):
                width = sum(map(len, found))
                mask = torch.zeros(group.n_units, width, dtype=torch.bool)
                if layer == 0:
                    mask[:, :n] = F.one_hot(group.players.cpu(), n).sum(1) > 0
                else:
                    mask[:, width - group.n_units :] = torch.eye(group.n_units, dtype=torch.bool)
                found.append(mask)
        if t := self.config["n_tables"]:
            mask = torch.zeros(t, sum(map(len, found)), dtype=torch.bool)
            mask[:, :n] = self.table_fields().cpu()
            found.append(mask)
        return [mask.to(self.bases.device) for mask in found]

    def player_map(self) -> Tensor:
        """The identity: columns are players."""
        return torch.eye(self.n_players, dtype=torch.bool, device=self.bases.device)

    def shown(self, x: Tensor) -> NDArray[Any] | None:
        """Nothing: coded columns say nothing to people."""
        return None

    @property
    def connect(self) -> Connect:
        """Layers name their children among all units before them."""
        return "all"

    @property
    def exact_in_training(self) -> bool:
        """False with dropout."""
        return not self.dropout

    # The one place where units are computed -----------------------------------------------------------------------

    def _computed(self, x: Tensor, present: Tensor | None) -> tuple[Tensor, list[list[Tensor]], list[Tensor]]:
        """What single units add (P, B, M, K), layers (U, M, B, C) of each group before the gate, and who is alive."""
        if not isinstance(x, Tensor) or x.ndim != 3 or x.shape[1:] != (self.n_players, 3):
            found = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"x must be a tensor of shape (rows, {self.n_players}, 3), however: {found}")
        n_rows, m = len(x), self.members
        here = ~x[:, :, POSITION].isnan()
        if present is not None:
            here = here & check_present(present, n_rows, self.n_players)
        acting = here.to(x.dtype)  # (B, P)
        position = torch.where(here, x[:, :, POSITION], 0.0).T  # (P, B)
        level = torch.where(here, x[:, :, LEVEL], 0.0).long().T + self.first_level[:, None]
        codes = (position[:, :, None] - torch.arange(self.slopes.shape[1], device=x.device)).clamp_(0, 1)
        own = torch.bmm(codes, self.own_curves()) + F.embedding(level, self.own_steps())
        alive, layers = [acting], []
        embedded = cells = x.new_zeros(0)
        for group in self.unit_groups():
            if group.from_cells and not len(cells):
                cell = torch.where(here, x[:, :, CELL], 0.0).long().T + self.first_cell[:, None]
                cells = F.embedding(cell, self.cell_table).view(self.n_players, n_rows, m, -1).transpose(1, 2)
            elif not group.from_cells and not len(embedded):
                embedded = torch.bmm(codes, self.slopes) + F.embedding(level, self.table)
                embedded = torch.relu(embedded).view(self.n_players, n_rows, m, -1).transpose(1, 2)  # (P, M, B, d)
            alive.append(acting[:, group.players].prod(2))  # (B, U)
            layers.append(group(cells if group.from_cells else embedded))
        return own.view(self.n_players, n_rows, m, self.n_outputs), layers, alive

    def unit_groups(self) -> list[UnitGroup]:
        """Units of equal shape, cell units first."""
        return list(self.groups)  # type: ignore[arg-type]


class UnitGroup(nn.Module):
    """U units of C channels in each of M members: a small network each over the vectors of its players."""

    def __init__(
        self,
        sets: Sequence[Sequence[int]],
        d_in: int,
        channels: int,
        depth: int,
        members: int,
        n_outputs: int,
        dropout: float,
        draw: torch.Generator,
        *,
        from_cells: bool = False,
    ) -> None:
        super().__init__()
        self.n_units, self.members, self.dropout, self.from_cells = len(sets), members, dropout, from_cells
        self.register_buffer("players", torch.tensor([list(s) for s in sets]), persistent=False)  # (U, S)
        self.players: Tensor
        n, fan_in = self.n_units * members, self.players.shape[1] * d_in
        self.weights, self.biases, self.readouts = nn.ParameterList(), nn.ParameterList(), nn.ParameterList()
        for _ in range(depth):
            for store, shape, bound in (
                (self.weights, (n, fan_in, channels), (3 / fan_in) ** 0.5),
                (self.biases, (n, 1, channels), fan_in**-0.5),
                (self.readouts, (n, channels, n_outputs), 0.1 * (channels * self.n_units) ** -0.5),
            ):
                store.append(nn.Parameter((torch.rand(shape, generator=draw) * 2 - 1) * bound))
            fan_in = channels

    def forward(self, below: Tensor) -> list[Tensor]:
        """(P, M, B, d) -> one (U, M, B, C) per layer."""
        _, m, n_rows, d = below.shape
        weight, size = self.weights[0], self.players.shape[1]
        z: Tensor = self.biases[0]
        if size <= 4:  # a sum of thin products: nothing has to be put side by side
            thin = weight.view(len(weight), size, d, -1)
            for j in range(size):
                one = below.index_select(0, self.players[:, j]).reshape(len(weight), n_rows, d)
                z = torch.baddbmm(z, one, thin[:, j])
        else:
            side = below[self.players].permute(0, 2, 3, 1, 4).reshape(len(weight), n_rows, size * d)
            z = torch.baddbmm(z, side, weight)
        layers = [self._dropped(torch.relu(z))]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            layers.append(self._dropped(torch.relu(torch.baddbmm(bias, layers[-1], weight))))
        return [z.view(self.n_units, m, n_rows, -1) for z in layers]

    def one(self, unit: int, below: Tensor) -> Tensor:
        """The first layer of one unit from the vectors of its players: (S, M, B, d) -> (M, B, C)."""
        n = slice(unit * self.members, (unit + 1) * self.members)
        side = below.permute(1, 2, 0, 3).flatten(2)
        return torch.relu(torch.baddbmm(self.biases[0][n], side, self.weights[0][n]))

    def _dropped(self, z: Tensor) -> Tensor:
        """Channels left out for a whole batch: as good as a mask per row, and drawing one costs nothing."""
        if not self.training or not self.dropout:
            return z
        kept = torch.rand(len(z), 1, z.shape[2], device=z.device) >= self.dropout
        return z * (kept.to(z.dtype) / (1 - self.dropout))


def _gated(z: Tensor, alive: Tensor) -> Tensor:
    return torch.where(alive[:, :, None] > 0, z, 0.0)


def _starts(counts: Sequence[int]) -> Tensor:
    return torch.tensor([0, *accumulate(counts)][:-1], dtype=torch.long)
