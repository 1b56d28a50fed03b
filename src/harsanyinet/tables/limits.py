"""Which players may act together in a tree, and which columns are monotone, as the parameters of an estimator say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.tables.players import Players, positions

Masks = NDArray[np.bool_]


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
