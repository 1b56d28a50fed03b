"""Dividends of rows as an explanation asks for them: as an array, or from a model that need not hold them all.

An explanation asks for sums of dividends only. Whoever can answer `Dividends` can be explained: a network gives an
array (`dense_dividends`), the trees of a table look the sums up (`tables.tree_games.TreeDividends`).
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


class _Dense:
    """An array of dividends, or a function without arguments that returns it and is called at most once."""

    def __init__(self, coalitions: Masks, dividends: Array | Callable[[], Array], n_rows: int, n_outputs: int) -> None:
        self.coalitions = read_only(coalitions, copy=False)
        self._lazy = dividends
        self._shape = (n_rows, len(coalitions), n_outputs)
        if not callable(dividends):
            self.array()

    def __len__(self) -> int:
        return self._shape[0]

    def array(self) -> Array:
        dividends = self._lazy() if callable(self._lazy) else self._lazy
        if dividends.shape != self._shape:
            raise ValueError(f"dividends must have shape {self._shape}, however: {dividends.shape}")
        self._lazy = read_only(dividends, copy=False)
        return self._lazy

    def spread(self, key: Any, weights: Callable[[], csr_array]) -> Array:
        return indices.times_sparse(self.array(), weights())

    def at(self, masks: Masks) -> Array:
        a, kept = self.array(), indices.inside(self.coalitions, masks)
        if kept.ndim == 1:
            return np.asarray(a[:, kept].sum(axis=1))
        if len(a) == 1:
            return np.asarray(kept.astype(a.dtype) @ a[0])
        return np.asarray(np.einsum("bc,bck->bk", kept.astype(a.dtype), a))

    def plan(self, key: Any, make: Callable[[], Plan]) -> Plan:
        return make()  # nothing is remembered, for the array is as quick

    def rows(self, chosen: Array) -> Dividends:
        return _Dense(self.coalitions, lambda: self.array()[chosen], len(chosen), self._shape[2])

    def chunks(self) -> Sequence[Dividends]:
        return [self]  # the whole array is there anyway

    def __reduce__(self) -> tuple[Any, ...]:  # what is lazy is computed before it travels
        return _Dense, (self.coalitions, self.array(), *self._shape[::2])


class _OneOutput:
    """The dividends of one output among several, by its position."""

    def __init__(self, source: Dividends, output: int) -> None:
        self._source, self._output = source, output

    @property
    def coalitions(self) -> Masks:
        return self._source.coalitions

    def __len__(self) -> int:
        return len(self._source)

    def array(self) -> Array:
        return self._one(self._source.array())

    def spread(self, key: Any, weights: Callable[[], csr_array]) -> Array:
        return self._one(self._source.spread(key, weights))

    def at(self, masks: Masks) -> Array:
        return self._one(self._source.at(masks))

    def plan(self, key: Any, make: Callable[[], Plan]) -> Plan:
        return self._source.plan(key, make)

    def rows(self, chosen: Array) -> Dividends:
        return _OneOutput(self._source.rows(chosen), self._output)

    def chunks(self) -> Sequence[Dividends]:
        return [_OneOutput(part, self._output) for part in self._source.chunks()]

    def _one(self, array: Array) -> Array:
        return array[..., self._output : self._output + 1]


def one_output(source: Dividends, output: int) -> Dividends:
    """The dividends of one output among several, by its position."""
    return _OneOutput(source, output)


def dense_dividends(
    coalitions: Masks,
    dividends: Array | Callable[[], Array] | Dividends,
    values: Array | None,
    n_outputs: int,
    copy: bool,
) -> Dividends:
    """An array of dividends, or a function that returns one, with its coalitions: the arguments of an explanation.

    They are checked, and a function is called now if there are no values.
    """
    if coalitions.ndim != 2 or coalitions.dtype != bool:
        raise ValueError(f"coalitions must be (C, P) bool, however: {coalitions.dtype} {coalitions.shape}")
    if not coalitions.any(axis=1).all():
        raise ValueError("coalitions must not be empty, however: a row of coalitions has no member")
    if copy and len(indices.unite_coalitions(coalitions)[0]) != len(coalitions):
        raise ValueError("coalitions must differ from each other, however: one stands there twice")
    if not callable(dividends):
        dividends = read_only(np.asarray(dividends), copy)
    elif values is None:
        dividends = dividends()
    rows = len(dividends) if values is None else len(values)  # type: ignore[arg-type]
    return _Dense(read_only(coalitions, copy), dividends, rows, n_outputs)


def read_only(array: Array, copy: bool = True) -> Array:
    """A copy or a view that cannot be written."""
    own = np.array(array) if copy else array.view()
    own.flags.writeable = False
    return own
