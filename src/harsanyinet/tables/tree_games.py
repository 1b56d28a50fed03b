"""Games that trees play: what a tree says when some players are known, its dividends, and look-ups made of them.

The players of a tree outside a coalition are, by the game,

- missing: absent, as the trees have learned it. v(S) is what the model says when the others are missing.
- marginal: averaged over all training rows. v(S) is the mean prediction with the others replaced by theirs.
- baseline: replaced by those of one reference row.

Every game is linear in the trees, and the game of one tree depends on the row's state in it alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from harsanyinet.explanations.indices import inside
from harsanyinet.tables.look_ups import LookUp, Paths
from harsanyinet.tables.trees import Trees

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[Any]
Masks = NDArray[np.bool_]
GameName = Literal["missing", "marginal", "baseline"]
Plan = TypeVar("Plan")

CELLS = 4_000_000  # of the dividends that are held at a time


class TreeGame:
    """One game of some trees, with the tables that have been planned for it; the baseline game has a row (D, 1)."""

    def __init__(self, trees: Trees, name: GameName = "missing", reference: Array | None = None) -> None:
        if name not in get_args(GameName):
            raise ValueError(f"game must be one of {', '.join(get_args(GameName))}, however: {name!r}")
        if (reference is not None) != (name == "baseline"):
            raise ValueError("the baseline game, and no other, needs baseline=, a row of reference values")
        self.trees, self.name, self.reference = trees, name, reference
        self._plans: dict[Any, Any] = {}

    @property
    def coalitions(self) -> Masks:
        """The coalitions whose dividends may differ from zero, (C, P) bool, unique, none empty."""
        return self.trees.coalitions

    @cached_property
    def base(self) -> Array:
        """What the model says of nobody, v(empty), (K,)."""
        total = self.trees.base.copy()
        if self.name != "missing":
            for sizes, group in self.trees.groups():
                total += self._known(sizes, group)[0].sum(axis=tuple(range(len(sizes) + 1)))
        return total

    def plan(self, key: Any, make: Callable[[], Plan]) -> Plan:
        """What `make` returned when `key` was first asked for."""
        if key not in self._plans:
            self._plans[key] = make()
        return cast(Plan, self._plans[key])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_plans": {}}

    def look_up(self, weights: csr_array, full: bool) -> LookUp:
        """Sums of dividends, weighted by (C, N), as tables: slot n * K + k; `full` for rows with all columns only."""
        trees, k = self.trees, self.trees.n_outputs
        slots: list[Array] = [np.empty(0, dtype=np.int64)] * len(trees)
        tables: list[Array] = [np.empty((0, 0))] * len(trees)
        for sizes, group in trees.groups():
            present = tuple(size - 1 for size in sizes) if full else sizes
            n_states = math.prod(present)
            dividends = self._dividends(sizes, group)
            numbers = np.stack([self._coalition_numbers[t] for t in group])  # (trees, 2^q)
            parts = [weights[numbers[:, code]].tocoo() for code in range(1, 2 ** len(sizes))]
            tree = np.concatenate([part.row for part in parts])
            column = np.concatenate([part.col for part in parts])
            pairs, position = np.unique(tree.astype(np.int64) * weights.shape[1] + column, return_inverse=True)
            own = np.zeros((len(pairs), *present, k))
            start = 0
            for code, part in enumerate(parts, start=1):
                each = dividends[code][part.row]
                if full:
                    each = each[(slice(None), *(slice(int(s > 1), None) for s in each.shape[1:-1]))]
                own[position[start : start + part.nnz]] += part.data.reshape(-1, *[1] * (len(sizes) + 1)) * each
                start += part.nnz
            flat = np.swapaxes(own.reshape(len(pairs), n_states, k), 1, 2)  # (pairs, K, states)
            owner = pairs // weights.shape[1]
            ends = np.searchsorted(owner, np.arange(len(group)), side="right")
            for i, t in enumerate(group):
                mine = slice(ends[i - 1] if i else 0, ends[i])
                slots[t] = ((pairs[mine] % weights.shape[1])[:, None] * k + np.arange(k)).reshape(-1)
                tables[t] = flat[mine].reshape(-1, n_states)
        return LookUp.of(Paths.of(trees.shapes, full), slots, tables, weights.shape[1] * k)

    @cached_property
    def _coalition_numbers(self) -> list[Array]:
        """For each tree and each set of its axes, as bits, the number of the coalition; 0 for the empty set."""
        known = {frozenset(np.flatnonzero(mask).tolist()): number for number, mask in enumerate(self.coalitions)}
        known[frozenset()] = 0
        each = (shape.players.tolist() for shape in self.trees.shapes)
        return [
            np.array([known[frozenset(p for i, p in enumerate(own) if code >> i & 1)] for code in range(2 ** len(own))])
            for own in each
        ]

    def _known(self, sizes: tuple[int, ...], group: Array) -> list[Array]:
        """For each set of axes, as bits, what the trees of a group say when these players are known, and no others.

        Tables (trees, digits, K), with one digit on the axes of players that are not known; `sizes` are those of the
        axes of all trees of the group.
        """
        trees, q = self.trees, len(sizes)
        n_states = math.prod(sizes)
        at = (trees.state_ends[group] - n_states)[:, None] + np.arange(n_states)
        values = trees.values[at].reshape(len(group), *sizes, trees.n_outputs)
        if self.name == "marginal":
            sets = [tuple(1 + i for i in range(q) if code >> i & 1) for code in range(2**q)]
            counts = trees.counts[at].reshape(len(group), *sizes, 1).astype(np.float64)
            total = np.maximum(counts.sum(axis=sets[-1], keepdims=True), 1.0)
            return [
                (counts.sum(axis=known, keepdims=True) / total * values).sum(axis=others, keepdims=True)
                for known, others in zip(sets, reversed(sets), strict=True)
            ]
        states = [0 if self.reference is None else int(trees.states(self.reference, t)[0]) for t in group]
        digits = np.unravel_index(states, sizes)  # of players that are not known; 0 is absent
        tables = [values] * 2**q
        for code in reversed(range(2**q - 1)):  # from a table in which one player more is known
            axis = next(i for i in range(q) if not code >> i & 1)
            index = digits[axis].reshape(-1, *[1] * (q + 1))
            tables[code] = np.take_along_axis(tables[code | 1 << axis], index, axis=1 + axis)
        return tables

    def _dividends(self, sizes: tuple[int, ...], group: Array) -> list[Array]:
        """For each set of axes the dividend, a function of these players alone: (trees, digits or 1, K)."""
        known = self._known(sizes, group)
        dividends: list[Array] = []
        for code in range(len(known)):
            total = known[code]
            for part in range(code):
                if part & code == part:
                    total = total - dividends[part]
            dividends.append(total)
        return dividends


class TreeDividends:
    """The dividends of rows, bins (D, rows), in a game of trees: what `Explanation` asks. None is stored."""

    def __init__(self, game: TreeGame, bins: Array, n_threads: int = 1) -> None:
        self.game, self.bins, self.n_threads = game, bins, n_threads
        self.full = bool(bins.all())

    def __len__(self) -> int:
        return int(self.bins.shape[1])

    @property
    def n_outputs(self) -> int:
        """The number of outputs, K."""
        return self.game.trees.n_outputs

    @property
    def coalitions(self) -> Masks:
        """(C, P) bool, unique, none empty."""
        return self.game.coalitions

    def rows(self, chosen: Array) -> TreeDividends:
        """The dividends of some rows, by their positions."""
        return TreeDividends(self.game, np.ascontiguousarray(self.bins[:, chosen]), self.n_threads)

    def plan(self, key: Any, make: Callable[[], Plan]) -> Plan:
        """Remembered with the game, for all rows."""
        return self.game.plan(key, make)

    def spread(self, key: Any, weights: Callable[[], csr_array]) -> Array:
        """Dividends times weights (C, N): (rows, N, K)."""
        if key is None:
            planned = self.game.look_up(weights(), self.full)
        else:
            planned = self.game.plan((key, self.full), lambda: self.game.look_up(weights(), self.full))
        out = applied(planned, self.bins, self.n_threads)
        return np.moveaxis(out.reshape(planned.n_slots // self.n_outputs, self.n_outputs, len(self)), 2, 0)

    def array(self) -> Array:
        """All dividends, (rows, C, K)."""
        from scipy.sparse import csr_array, identity

        return self.spread("dividends", lambda: csr_array(identity(len(self.coalitions))))

    def chunks(self) -> list[TreeDividends]:
        """Rows in pieces whose dividends fit into memory."""
        size = max(1, CELLS // max(1, len(self.coalitions) * self.n_outputs))
        return [self.rows(np.arange(start, min(start + size, len(self)))) for start in range(0, len(self), size)]

    def at(self, masks: Masks) -> Array:
        """The sum of the dividends inside a coalition, (rows, K), or (masks, K) of a single row; (P,) or (rows, P)."""
        trees = self.game.trees
        if self.game.name == "missing":
            bins = self.bins if masks.ndim == 1 or len(self) > 1 else np.repeat(self.bins, len(masks), axis=1)
            planned = self.game.plan("values", lambda: LookUp.of_values(trees, full=False))
            return applied(planned, trees.masked(bins, masks), self.n_threads).T
        if masks.ndim == 1:
            from scipy.sparse import csr_array

            return self.spread(None, lambda: csr_array(inside(self.coalitions, masks)[:, None].astype(float)))[:, 0]
        if len(self) == 1:
            a = self.array()[0]
            size = max(1, CELLS // max(1, len(a)))
            pieces = [masks[start : start + size] for start in range(0, len(masks), size)]
            return np.concatenate([inside(self.coalitions, piece).astype(float) @ a for piece in pieces])
        sums, start = [], 0
        for part in self.chunks():
            kept = inside(self.coalitions, masks[start : start + len(part)])
            sums.append(np.einsum("bc,bck->bk", kept.astype(float), part.array()))
            start += len(part)
        return np.concatenate(sums) if sums else np.empty((0, self.n_outputs))


def applied(look_up: LookUp, bins: Array, n_threads: int) -> Array:
    """The sums of a look-up, (slots, rows), by as many threads as there is work for.

    The threads live as long as the call: nothing is left for a fork to break.
    """
    if n_threads < 2 or bins.shape[1] < 32_768:
        return look_up.apply(bins)
    with ThreadPoolExecutor(n_threads) as pool:
        return look_up.apply(bins, pool)
