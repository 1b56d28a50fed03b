"""Who plays: every column by itself, or several that are absent together; who may act together, and which way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harsanyinet.explanations.names import check_present, find_name

Array = NDArray[Any]
Masks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Players:
    """The players of a table, in the order of their first columns."""

    names: tuple[str, ...]  # one for each player
    columns: tuple[str, ...]  # of the table
    of_column: NDArray[np.int64]  # (columns,) the player of each column

    @classmethod
    def of(cls, columns: Sequence[str], groups: Mapping[str, Any] | None) -> Players:
        """Columns by themselves, and as one player each groups of them: names or numbers of columns, by its name."""
        owner = dict[int, str]()
        for name, members in (groups or {}).items():
            own = positions([members] if isinstance(members, str) else members, columns, "groups")
            if not own:
                raise ValueError(f"groups must name columns, however: {name!r} has none")
            if name in columns and columns.index(name) not in own:
                raise ValueError(f"groups must have names of their own, however: {name!r} is another column")
            for position in own:
                if position in owner:
                    raise ValueError(f"groups must not share columns, however: {columns[position]!r} is in two places")
                owner[position] = name
        names = [owner.get(i, column) for i, column in enumerate(columns)]
        different = tuple(dict.fromkeys(names))
        return cls(different, tuple(columns), np.array([different.index(name) for name in names], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def each_by_itself(self) -> bool:
        """Whether every column is a player."""
        return len(self.names) == len(self.columns)

    def find(self, keys: Any, what: str) -> list[int]:
        """Players by their name, or by the name or number of one of their columns."""
        given = list(keys)
        named = [key for key in given if isinstance(key, str) and key in self.names]
        columns = positions([key for key in given if key not in named], self.columns, what)
        return sorted({*(self.names.index(key) for key in named), *(int(self.of_column[i]) for i in columns)})

    def masks(self, present: ArrayLike, n_rows: int) -> Masks:
        """(P,) or (rows, P) bool, from such an array or from the names of who is present."""
        if isinstance(present, str):
            raise TypeError(f"present must be a list of names or an array of bool, however: {present!r}")
        masks = np.asarray(present)
        if masks.ndim == 1 and masks.dtype != bool and all(isinstance(name, str) for name in masks):
            return np.isin(np.arange(len(self)), self.find(masks.tolist(), "present"))
        return check_present(masks, n_rows, len(self), "bool, True where a column is there, or names")

    def absent_together(self, bins: Array, player_of: Array) -> Array:
        """Bins (coded columns, rows) in which a player misses all its columns where it misses one; changed in place."""
        if not self.each_by_itself:
            for player in np.flatnonzero(np.bincount(self.of_column) > 1):
                own = np.flatnonzero(player_of == player)
                bins[np.ix_(own, ~bins[own].all(axis=0))] = 0
        return bins

    def shown(self, data: Array) -> Array:
        """What the players hold, (rows, P), from what the columns hold: of several columns a text."""
        if self.each_by_itself:
            return data
        out = np.empty((len(data), len(self.names)), dtype=object)
        for player, _ in enumerate(self.names):
            own = np.flatnonzero(self.of_column == player)
            cells = data[:, own]
            out[:, player] = cells[:, 0] if len(own) == 1 else [self._text(own, row) for row in cells]
        return out

    def _text(self, own: Array, cells: Array) -> str:
        """Which of several switches are on, or what several columns hold."""
        names = [self.columns[i] for i in own]
        if all(cell in (0, 1) for cell in cells):
            return ", ".join(name for name, cell in zip(names, cells, strict=True) if cell) or "none"
        return ", ".join(f"{name} = {cell}" for name, cell in zip(names, cells, strict=True))


def positions(keys: Any, names: Sequence[str], what: str) -> list[int]:
    """The numbers of some columns, given by name, by number, or by a mask; `what` is the parameter that holds them."""
    keys = list(keys if keys is not None else ())
    if keys and all(isinstance(key, bool | np.bool_) for key in keys):
        if len(keys) != len(names):
            raise ValueError(f"{what} as a mask must have {len(names)} entries, however: {len(keys)}")
        return [i for i, key in enumerate(keys) if key]
    try:
        return [find_name(key, names, "column") for key in keys]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what} must name columns of the table or their numbers: {error}") from None


@dataclass(frozen=True, eq=False)
class Limits:
    """Which sets of players may stand in one tree."""

    max_order: int  # the largest set
    within: Masks | None  # (G, P) sets that must contain every set of two or more players; None for no such limit
    apart: Masks  # (P, P) pairs that are in no set together

    @classmethod
    def of(cls, max_order: int, interactions: Any, forbidden: Any, players: Players) -> Limits:
        """From the parameters of an estimator."""
        n, find = len(players), players.find
        within = None
        if interactions == "no_interactions":
            max_order = 1
        elif interactions == "pairwise":
            max_order = min(max_order, 2)
        elif interactions is not None:
            within = np.zeros((len(interactions) + 1, n), dtype=bool)
            for row, members in zip(within, interactions, strict=False):
                row[find(members, "interaction_cst")] = True
            within[-1] = ~within[:-1].any(axis=0)  # those that are named nowhere may act together
        apart = np.zeros((n, n), dtype=bool)
        for pair in forbidden or ():
            members = find(pair, "forbidden")
            if len(set(members)) != 2:
                raise ValueError(f"forbidden must hold pairs of different columns, however: {list(pair)}")
            apart[tuple(members)] = apart[tuple(members[::-1])] = True
        return cls(max_order, within, apart)

    @property
    def any(self) -> bool:
        """Whether there is more than the largest order."""
        return self.within is not None or bool(self.apart.any())

    def allowed(self, inside: Masks) -> Masks:
        """Players that may join those inside a tree, (P,) bool to (P,) bool."""
        may = ~self.apart[inside].any(axis=0)
        if self.within is not None and inside.any():
            may &= self.within[self.within[:, inside].all(axis=1)].any(axis=0)
        return np.asarray(may)


def monotone_signs(monotonic_cst: Any, names: Sequence[str]) -> NDArray[np.int64]:
    """(P,) 1, -1 or 0, from a dict of columns or one number for each of them."""
    signs = np.zeros(len(names), dtype=np.int64)
    if monotonic_cst is None:
        return signs
    if not isinstance(monotonic_cst, Mapping):
        n = len(monotonic_cst)
        if n != len(names):
            raise ValueError(f"monotonic_cst must have one entry for each of {len(names)} columns, however: {n}")
        monotonic_cst = dict(zip(names, monotonic_cst, strict=True))
    for key, sign in monotonic_cst.items():
        if isinstance(sign, str) or sign not in (-1, 0, 1):
            raise ValueError(f"monotonic_cst must say 1, -1 or 0 for a column, however: {sign!r} for {key!r}")
        signs[positions([key], names, "monotonic_cst")[0]] = sign
    return signs
