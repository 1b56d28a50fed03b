"""Dividends of rows as an explanation asks for them: as an array, or from a model that need not hold them all.

An explanation asks for sums of dividends only. Whoever can answer `Dividends` can be explained: a network gives an
array (`DenseDividends`), the trees of a table look the sums up (`tables.tree_games.TreeDividends`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from harsanyinet.explanations import indices

Array = NDArray[Any]
Masks = NDArray[np.bool_]
Plan = TypeVar("Plan")


class Dividends(Protocol):
    """The dividends of B rows, C coalitions and K outputs. All answers are sums of them."""

    @property
    def coalitions(self) -> Masks:
        """(C, P) bool, unique, none empty."""

    def __len__(self) -> int:
        """The number of rows, B."""

    def array(self) -> Array:
        """All dividends, (B, C, K)."""

    def spread(self, key: Any, weights: Callable[[], csr_array]) -> Array:
        """Dividends times weights (C, N): (B, N, K). The key names the weights, None for those used once."""

    def at(self, masks: Masks) -> Array:
        """The sum of the dividends inside a coalition, (P,) or (B, P): (B, K); any number of masks for one row."""

    def plan(self, key: Any, make: Callable[[], Plan]) -> Plan:
        """What `make` returns, which may be remembered under the key."""

    def rows(self, chosen: Array) -> Dividends:
        """The dividends of some rows, by their positions."""

    def chunks(self) -> Sequence[Dividends]:
        """Rows in pieces small enough for their arrays."""


def shapley_values(dividends: Dividends) -> Array:
    """Shapley values (B, P, K): every dividend is shared equally by the members of its coalition (Theorem 1)."""
    return dividends.spread("SV", partial(indices.shares, dividends.coalitions))


class DenseDividends:
    """An array of dividends, or a function without arguments that returns it and is called at most once.

    Args:
        coalitions: (C, P) bool.
        dividends: (B, C, K).
        n_rows: B.
        n_outputs: K.
    """

    def __init__(self, coalitions: Masks, dividends: Array | Callable[[], Array], n_rows: int, n_outputs: int) -> None:
        self.coalitions = coalitions
        self._lazy = dividends
        self._shape = (n_rows, len(coalitions), n_outputs)
        if not callable(dividends):
            self.array()

    def __len__(self) -> int:
        return self._shape[0]

    def array(self) -> Array:
        """All dividends, (B, C, K), computed when first asked for."""
        dividends = self._lazy() if callable(self._lazy) else self._lazy
        if dividends.shape != self._shape:
            raise ValueError(f"dividends must have shape {self._shape}, however: {dividends.shape}")
        self._lazy = dividends.view()
        self._lazy.flags.writeable = False
        return self._lazy

    def spread(self, key: Any, weights: Callable[[], csr_array]) -> Array:
        """Dividends times weights, (B, N, K)."""
        return indices.times_sparse(self.array(), weights())

    def at(self, masks: Masks) -> Array:
        """Sums of dividends inside coalitions."""
        a, kept = self.array(), indices.inside(self.coalitions, masks)
        if kept.ndim == 1:
            return np.asarray(a[:, kept].sum(axis=1))
        if len(a) == 1:
            return np.asarray(kept.astype(a.dtype) @ a[0])
        return np.asarray(np.einsum("bc,bck->bk", kept.astype(a.dtype), a))

    def plan(self, key: Any, make: Callable[[], Plan]) -> Plan:
        """What `make` returns; nothing is remembered, for the array is as quick."""
        return make()

    def rows(self, chosen: Array) -> DenseDividends:
        """The dividends of some rows, taken when asked for."""
        return DenseDividends(self.coalitions, lambda: self.array()[chosen], len(chosen), self._shape[2])

    def chunks(self) -> Sequence[DenseDividends]:
        """One piece: the whole array is there anyway."""
        return [self]

    def __getstate__(self) -> dict[str, Any]:
        self.array()  # what is lazy is computed before it travels
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for array in (self.coalitions, self.array()):  # a copy that travelled can be written again
            array.flags.writeable = False


class OneOutput:
    """The dividends of one output among several.

    Args:
        source: The dividends of all of them.
        output: Position of the one.
    """

    def __init__(self, source: Dividends, output: int) -> None:
        self.source, self.output = source, output

    def __len__(self) -> int:
        return len(self.source)

    @property
    def coalitions(self) -> Masks:
        """The coalitions of all outputs, (C, P) bool."""
        return self.source.coalitions

    def array(self) -> Array:
        """All dividends of the one output, (B, C, 1)."""
        return self._one(self.source.array())

    def spread(self, key: Any, weights: Callable[[], csr_array]) -> Array:
        """Dividends times weights, (B, N, 1)."""
        return self._one(self.source.spread(key, weights))

    def at(self, masks: Masks) -> Array:
        """Sums of dividends inside coalitions, (B, 1)."""
        return self._one(self.source.at(masks))

    def plan(self, key: Any, make: Callable[[], Plan]) -> Plan:
        """As the source remembers it."""
        return self.source.plan(key, make)

    def rows(self, chosen: Array) -> OneOutput:
        """The dividends of some rows."""
        return OneOutput(self.source.rows(chosen), self.output)

    def chunks(self) -> Sequence[OneOutput]:
        """As the source divides its rows."""
        return [OneOutput(part, self.output) for part in self.source.chunks()]

    def _one(self, array: Array) -> Array:
        return array[..., self.output : self.output + 1]


def dense_dividends(
    coalitions: Masks,
    dividends: Array | Callable[[], Array] | Dividends,
    values: Array | None,
    n_outputs: int,
    copy: bool,
) -> DenseDividends:
    """An array of dividends, or a function that returns one, with its coalitions, all checked.

    Args:
        coalitions: (C, P) bool, unique, none empty.
        dividends: (B, C, K); a function is called now if there are no values.
        values: (B, P, K) where they are known.
        n_outputs: K.
        copy: False takes the arrays as they are, and trusts that the coalitions differ.
    """
    if coalitions.ndim != 2 or coalitions.dtype != bool:
        raise ValueError(f"coalitions must be (C, P) bool, however: {coalitions.dtype} {coalitions.shape}")
    if not coalitions.any(axis=1).all():
        raise ValueError("coalitions must not be empty, however: a row of coalitions has no member")
    if copy and len(indices.unite_coalitions(coalitions)[0]) != len(coalitions):
        raise ValueError("coalitions must differ from each other, however: one stands there twice")
    n_players = coalitions.shape[1]
    if values is not None and values.shape[1:] != (n_players, n_outputs):
        raise ValueError(f"values must have shape (rows, {n_players}, {n_outputs}), however: {values.shape}")
    if not callable(dividends):
        dividends = read_only(np.asarray(dividends), copy)
    elif values is None:
        dividends = dividends()
    rows = len(dividends) if values is None else len(values)  # type: ignore[arg-type]
    return DenseDividends(read_only(coalitions, copy), dividends, rows, n_outputs)


def read_only(array: Array, copy: bool = True) -> Array:
    """A copy or a view that cannot be written."""
    own = np.array(array) if copy else array.view()
    own.flags.writeable = False
    return own
