"""From Harsanyi dividends to every interaction index, in closed form. numpy only (scipy's sparse matrices); no model.

Each index of a set S is a weighted sum of the dividends of the coalitions T that contain S, and the weight depends on
the sizes s = |S| and t = |T| alone. `weight` holds all these formulas; everything else is bookkeeping.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Coalitions = NDArray[np.bool_]
Array = NDArray[Any]

INDICES = ("SV", "BV", "SII", "BII", "STII", "k-SII", "FSII", "Moebius")
MAX_TERMS = 50_000_000


def _sparse(entries: Any, shape: tuple[int, int] | None = None) -> csr_array:
    """A sparse matrix; scipy is imported where one is needed, for the predictor does without."""
    from scipy.sparse import csr_array

    return csr_array(entries, shape=shape)


@dataclass(frozen=True)
class InteractionIndex:
    """An interaction index of every row.

    Attributes:
        name: One of `INDICES`.
        order: The largest size of a set.
        n_features: The number of features, P.
        sets: Tuples of feature indices, by size and then in lexicographic order: every non-empty set up to the order
            that some coalition contains. All other sets have the value zero.
        values: (B, len(sets)[, K]).
    """

    name: str
    order: int
    n_features: int
    sets: list[tuple[int, ...]]
    values: Array

    def __getitem__(self, members: tuple[int, ...]) -> Array:
        """The values (B[, K]) of one set of feature indices; zero when no coalition contains it."""
        if not all(isinstance(i, int | np.integer) and 0 <= i < self.n_features for i in members):
            raise ValueError(f"a set holds feature indices from 0 to {self.n_features - 1}, however: {members}")
        key = tuple(sorted(members))
        if not 1 <= len(set(key)) == len(key) <= self.order:
            raise ValueError(f"this index holds sets of 1 to {self.order} different features, however: {members}")
        if key in self.sets:
            return np.asarray(self.values[:, self.sets.index(key)])
        return np.zeros_like(self.values, shape=self.values.shape[:1] + self.values.shape[2:])


@cache
def bernoulli(j: int) -> Fraction:
    """The j-th Bernoulli number, with B_1 = -1/2."""
    if j == 0:
        return Fraction(1)
    return -sum((comb(j + 1, i) * bernoulli(i) for i in range(j)), Fraction(0)) / (j + 1)


@cache
def weight(name: str, order: int, s: int, t: int) -> float:
    """The weight of the dividend of a coalition of size t in the index of one of its subsets of size s <= order."""
    if name in ("SV", "SII"):
        return 1 / (t - s + 1)
    if name in ("BV", "BII"):
        return 2.0 ** (s - t)
    if name == "Moebius":
        return float(s == t)
    if name == "STII":  # Shapley-Taylor
        return 1 / comb(t, order) if s == order else float(s == t)
    if name == "k-SII":  # SII aggregated with Bernoulli numbers (n-Shapley values)
        terms = (bernoulli(j) * comb(t - s, j) / (t - s - j + 1) for j in range(min(order, t) - s + 1))
        return float(sum(terms, Fraction(0)))
    if t <= order:  # FSII, faithful Shapley interactions
        return float(s == t)
    part = Fraction(s * comb(order, s) * comb(t - 1, order), (order + s) * comb(t + order - 1, order + s))
    return float((-1) ** (order - s) * part)


def index_weights(coalitions: Coalitions, name: str, order: int) -> tuple[list[tuple[int, ...]], csr_array]:
    """The sets of an index up to an order, and the weights (C, sets) of the dividends in their values.

    The coalitions (C, P) are unique and none is empty; the order is 1 for SV and BV.
    """
    n_players = coalitions.shape[1]
    if name not in INDICES:
        raise ValueError(f"index must be one of {', '.join(INDICES)}, however: {name!r}")
    if name in ("SV", "BV") and order != 1:
        raise ValueError(f"{name} values single features (order=1), however: order={order}; use SII or BII for sets")
    if not 1 <= order <= n_players:
        raise ValueError(f"order must lie between 1 and the {n_players} features, however: order={order}")
    sizes = coalitions.sum(axis=1)
    of_size = {t: np.flatnonzero(sizes == t) for t in np.unique(sizes).tolist()}
    n_terms = sum(len(rows) * comb(t, s) for t, rows in of_size.items() for s in range(1, min(order, t) + 1))
    if n_terms > MAX_TERMS:
        raise ValueError(
            f"{name} of order {order} has {n_terms:,} terms here, more than {MAX_TERMS:,}; "
            "lower the order or restrict the explanation to fewer features"
        )
    sets: list[tuple[int, ...]] = []
    parts = []
    for s in range(1, order + 1):
        members, owners, weights = [np.empty((0, s), dtype=np.int64)], [np.empty(0, dtype=np.int64)], [np.empty(0)]
        for t, rows in of_size.items():
            if t >= s:
                players = np.nonzero(coalitions[rows])[1].reshape(-1, t)
                subsets = players[:, np.array(list(combinations(range(t), s)))]  # (rows, comb(t, s), s)
                members.append(subsets.reshape(-1, s))
                owners.append(np.repeat(rows, subsets.shape[1]))
                weights.append(np.full(len(owners[-1]), weight(name, order, s, t)))
        different, inverse = np.unique(np.concatenate(members), axis=0, return_inverse=True)
        sets.extend(map(tuple, different.tolist()))
        entries = (np.concatenate(weights), (np.concatenate(owners), inverse.reshape(-1)))
        parts.append(_sparse(entries, shape=(len(coalitions), len(different))))
    from scipy.sparse import hstack

    return sets, _sparse(hstack(parts, format="csr"))


def times_sparse(dividends: Array, matrix: Any) -> Array:
    """(B, C, K) times a sparse (C, N) over the coalitions: (B, N, K)."""
    b, c, k = dividends.shape
    flat = np.moveaxis(dividends, 2, 1).reshape(b * k, c)
    product = (matrix.T.astype(dividends.dtype) @ flat.T).T
    return np.moveaxis(np.asarray(product).reshape(b, k, matrix.shape[1]), 1, 2)


def shares(coalitions: Coalitions) -> csr_array:
    """(C, P): 1/|T| for the members of T. Dividends times shares are Shapley values (Theorem 1)."""
    rows, columns = np.nonzero(coalitions)
    return _sparse((1 / coalitions.sum(axis=1)[rows], (rows, columns)), shape=coalitions.shape)


def group_shares(coalitions: Coalitions, groups: Coalitions) -> csr_array:
    """(C, G): each dividend is split evenly over the groups that its coalition meets; `groups` is (G, P) bool."""
    return shares(_members_in(coalitions, groups) > 0)


def owen_shares(coalitions: Coalitions, groups: Coalitions) -> csr_array:
    """(C, P): evenly over the groups that T meets, then evenly over T's members inside each of them."""
    members = _members_in(coalitions, groups)  # (C, G)
    group_of = groups.argmax(axis=0)
    rows, columns = np.nonzero(coalitions)
    met = (members > 0).sum(axis=1)[rows]
    return _sparse((1 / (met * members[rows, group_of[columns]]), (rows, columns)), shape=coalitions.shape)


def _members_in(coalitions: Coalitions, groups: Coalitions) -> Array:
    return np.asarray(_sparse(coalitions.astype(float)) @ groups.T.astype(float))


def inside(coalitions: Coalitions, present: Coalitions) -> Coalitions:
    """Which coalitions lie inside a set of players: (C,) for (P,), (B, C) for (B, P)."""
    absent = (~present).astype(np.float32)
    return np.asarray(absent @ coalitions.T.astype(np.float32) == 0)


def unite_coalitions(coalitions: Coalitions) -> tuple[Coalitions, NDArray[np.intp]]:
    """Unique coalitions (C, P), by size and then by members, and the position of each given row among them.

    Empty sets are left out; their position is -1.
    """
    sizes = coalitions.sum(axis=1)
    keys = np.hstack([sizes.astype(">u4")[:, None].view(np.uint8), ~np.packbits(coalitions, axis=1)])
    _, first, position = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    n_empty = int((sizes == 0).any())  # the empty set comes first
    united = coalitions[first[n_empty:]]
    united.flags.writeable = False
    return united, position.reshape(-1) - n_empty


def sums(position: NDArray[np.intp], n: int) -> csr_array:
    """(C, n): ones that add up the dividends of coalitions which share a position."""
    return _sparse((np.ones(len(position)), (np.arange(len(position)), position)), shape=(len(position), n))


def restriction(coalitions: Coalitions, players: list[int]) -> tuple[Coalitions, csr_array]:
    """The coalitions (C', Q) of the game of Q players while all others stay present, and weights (C, C' + 1).

    The weights make its dividends of those of the whole game; the last column is for what needs none of the players,
    which is constant.
    """
    united, position = unite_coalitions(coalitions[:, players])
    return united, sums(np.where(position < 0, len(united), position), len(united) + 1)
