"""Who plays: every column by itself, or several columns that are absent together."""

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
