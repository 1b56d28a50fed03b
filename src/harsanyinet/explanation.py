"""Explanation: coalitions, dividends and base values of some rows, and every answer that follows from them.

Frozen data; no torch, no matplotlib. What the dividends are is asked of a source (`dividends`); the formulas live in
`indices`, the transforms over all 2^n coalitions in `games`.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Hashable, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from harsanyinet import files, games, indices
from harsanyinet.deciding import smallest_deciding_set
from harsanyinet.dividends import DenseDividends, Dividends, OneOutput
from harsanyinet.indices import InteractionIndex
from harsanyinet.progress import bar

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]
Masks = NDArray[np.bool_]


class Missingness(NamedTuple):
    """Mean and variance of the outputs, (B[, K]) each, when features go missing at random."""

    mean: Array
    variance: Array


class TopInteractions(NamedTuple):
    """The strongest interactions of one row and a bound on what the others can add.

    For every mask S, the value from `sets` alone is within `bound` of the exact value(S).
    """

    sets: list[tuple[int, ...]]
    names: list[tuple[str, ...]]
    values: Array
    bound: float


class Explanation:
    """Exact explanation of B rows over P features and K outputs.

    The axis K is dropped from every result when there is one output.

    Args:
        base_values: (K,) or, for a restricted game whose constant differs by row, (B, K).
        dividends: (B, C, K), a function without arguments that returns them and is called at most once, or an object
            that answers for them (`harsanyinet.dividends`).
        coalitions: (C, P) bool, unique, none empty; left out when `dividends` knows them.
        values: (B, P, K) Shapley values, computed from the dividends when left out.
        feature_names: P names; x0, x1, ... by default.
        output_names: K names.
        data: (B, P), what the features' values are, or a function that returns them and is called when asked for.
        row_names: B labels, such as the index of a frame; the positions by default.
        scale: What the outputs are, such as "log-odds"; None where they are what their names say.
        copy: False takes the arrays as they are: whoever passes them gives them away.
    """

    def __init__(
        self,
        *,
        base_values: Array,
        dividends: Array | Callable[[], Array] | Dividends,
        coalitions: Masks | None = None,
        values: Array | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        data: ArrayLike | Callable[[], ArrayLike] | None = None,
        row_names: Sequence[Hashable] | pd.Index[Any] | None = None,
        scale: str | None = "raw output",
        copy: bool = True,
    ) -> None:
        if base_values.ndim not in (1, 2):
            raise ValueError(f"base_values must be (K,) or (B, K), however: {base_values.shape}")
        k = base_values.shape[-1]
        self._base = _frozen(base_values, copy)
        if coalitions is not None:
            dividends = _dense(coalitions, dividends, values, k, copy)
        elif callable(dividends) or isinstance(dividends, np.ndarray):
            raise ValueError("coalitions must be given with an array of dividends, however: there are none")
        self._source: Dividends = dividends
        if values is None:
            values = self._source.spread("SV", lambda: indices.shares(self._source.coalitions))
        self._values = _frozen(values, copy)
        if self._values.ndim != 3 or self._values.shape[::2] != (len(self._source), k):
            raise ValueError(f"values must have shape ({len(self._source)}, features, {k}), however: {values.shape}")
        n = self._values.shape[1]
        if self._base.shape[:-1] not in ((), (len(self),)):
            raise ValueError(f"base_values must have shape ({k},) or ({len(self)}, {k}), however: {self._base.shape}")
        self.feature_names = [f"x{i}" for i in range(n)] if feature_names is None else [str(f) for f in feature_names]
        if len(self.feature_names) != n or len(set(self.feature_names)) != n:
            raise ValueError(f"feature_names must be {n} different names, however: {self.feature_names}")
        default = ["output"] if k == 1 else [f"output {i}" for i in range(k)]
        self.output_names = default if output_names is None else [str(o) for o in output_names]
        if len(self.output_names) != k or len(set(self.output_names)) != k:
            raise ValueError(f"output_names must be {k} different names, however: {self.output_names}")
        self._data = data if callable(data) or data is None else self._shown(data, copy)
        if row_names is not None and len(row_names) != len(self):
            raise ValueError(f"row_names must be {len(self)} labels, however: {len(row_names)}")
        self.row_names = row_names
        self.scale = scale

    # The game ----------------------------------------------------------------------------------------------------

    @property
    def values(self) -> Array:
        """Exact Shapley values on the raw output, (B, P[, K])."""
        return self._drop(self._values)

    @property
    def base_values(self) -> Array:
        """v(empty): () or (K,); of a restricted game (B,) or (B, K)."""
        return self._drop(self._base)

    @property
    def coalitions(self) -> Masks:
        """Unique receptive fields, (C, P) bool, none empty."""
        return self._source.coalitions

    @property
    def dividends(self) -> Array:
        """Harsanyi dividends of the coalitions, (B, C[, K]); computed when first asked for."""
        return self._drop(self._source.array())

    @property
    def data(self) -> Array | None:
        """What the features' values are, (B, P), or None."""
        if callable(self._data):
            self._data = self._shown(self._data(), copy=False)
        return self._data

    def _shown(self, data: ArrayLike, copy: bool) -> Array:
        shown = _frozen(np.asarray(data), copy)
        if shown.shape != (len(self), self.n_features):
            raise ValueError(f"data must have shape ({len(self)}, {self.n_features}), however: {shown.shape}")
        return shown

    @property
    def outputs(self) -> Array:
        """The raw outputs v(x), (B[, K]): base values plus the sum of the Shapley values."""
        return self._drop(self._base + self._values.sum(axis=1))

    def value(self, present: ArrayLike) -> Array:
        """v(S) of every row from the dividends, without the model.

        Args:
            present: (P,) or (B, P) bool, True where a feature is present. An explanation of one row takes any number
                of masks.

        Returns:
            (B[, K]), a line per row or mask.
        """
        return self._drop(self._base + self._source.at(_as_masks(present, len(self), self.n_features)))

    def contrast(self, row: int | Hashable, reference: int | Hashable) -> Array:
        """How two rows differ: the Shapley values of one minus those of the other, (P[, K]).

        Together they are the difference of the two outputs, less that of the base values where these differ by row.
        """
        return self._drop(self._values[self.row_position(row)] - self._values[self.row_position(reference)])

    def restrict(self, players: Sequence[str | int]) -> Explanation:
        """The sub-game of some features while all others stay present; its base values differ by row."""
        chosen = self._positions(players)
        if not chosen:
            raise ValueError("restrict needs at least one feature, however: none given")
        coalitions, position = indices.unite_coalitions(self.coalitions[:, chosen])
        target = np.where(position < 0, len(coalitions), position)  # what needs none of them is constant
        ones = (np.ones(len(target)), (np.arange(len(target)), target))
        shape = (len(target), len(coalitions) + 1)
        found = self._source.spread(None, lambda: csr_array(ones, shape=shape))
        return self._like(
            base_values=self._base + found[:, -1],
            coalitions=coalitions,
            dividends=found[:, :-1],
            feature_names=[self.feature_names[i] for i in chosen],
            data=None if self.data is None else self.data[:, chosen],
        )

    def output(self, name: str | int) -> Explanation:
        """The explanation of one output among several, such as one class, by its name or position."""
        k = find_name(name, self.output_names, "output")
        return self._like(
            base_values=self._base[..., k : k + 1],
            dividends=OneOutput(self._source, k),
            values=self._values[:, :, k : k + 1],
            output_names=[self.output_names[k]],
            data=self._data,
        )

    # Indices -----------------------------------------------------------------------------------------------------

    def index(self, name: str, order: int | None = None) -> InteractionIndex:
        """An interaction index of all sets up to an order.

        Args:
            name: SV, BV (single features), SII, BII, STII, k-SII, FSII or Moebius.
            order: Largest size of a set; by default 1 for SV and BV, else 2.

        Returns:
            An object with `.sets` (tuples of feature indices) and `.values` (B, len(sets)[, K]).
        """
        order = self._order(name, order)
        sets, values = self._index(name, order)
        return InteractionIndex(name, order, self.n_features, sets, self._drop(values))

    def _index(self, name: str, order: int) -> tuple[list[tuple[int, ...]], Array]:
        key = ("index", name, order)
        sets, weights = self._source.plan(key, lambda: indices.index_weights(self.coalitions, name, order))
        return sets, self._source.spread(key, lambda: weights)

    def group_values(self, groups: Mapping[str, Sequence[str | int]]) -> Array:
        """Shapley values of the game whose players are groups of features, (B, G[, K]).

        Not the sum of the members' Shapley values: `owen_values` divides these among the members.
        """
        masks = self._groups(groups)
        return self._drop(self._source.spread(None, lambda: indices.group_shares(self.coalitions, masks)))

    def owen_values(self, groups: Mapping[str, Sequence[str | int]]) -> Array:
        """Owen values (B, P[, K]): each group's Shapley value, divided among its members."""
        masks = self._groups(groups)
        return self._drop(self._source.spread(None, lambda: indices.owen_shares(self.coalitions, masks)))

    def order_spectrum(self) -> Array:
        """(P + 1,): the share of the sum of |dividends| by the size of the coalition. All in order 0 if none acts."""
        weight = np.zeros(len(self.coalitions))
        for part in self._source.chunks():
            weight += np.abs(part.array()).sum(axis=(0, 2), dtype=np.float64)
        sums = np.bincount(self.coalitions.sum(axis=1), weights=weight, minlength=self.n_features + 1)
        total = sums.sum()
        return np.asarray(sums / total) if total > 0 else np.eye(1, self.n_features + 1)[0]

    def missingness(self, probability: ArrayLike) -> Missingness:
        """Mean and variance of the outputs when each feature is present independently with a given probability.

        Args:
            probability: One probability of being present, or one per feature.
        """
        q = np.asarray(probability, dtype=np.float64)
        if q.shape not in ((), (self.n_features,)) or not np.all((q >= 0) & (q <= 1)):
            raise ValueError(f"probability must be one or {self.n_features} numbers in [0, 1], however: {q}")
        q = np.broadcast_to(q, self.n_features)
        possible = ~self.coalitions[:, q == 0].any(axis=1)
        members = self.coalitions[possible].astype(np.float64)
        log_q = np.log(np.where(q > 0, q, 1.0))
        alone = members @ log_q  # log P(T present)
        both = alone[:, None] + alone - (members * log_q) @ members.T  # log P(T and T' present)
        covariance = np.exp(both) - np.exp(alone[:, None] + alone)
        means, variances = [np.empty((0, self._base.shape[-1]))], [np.empty((0, self._base.shape[-1]))]
        for part in self._source.chunks():
            a = part.array()[:, possible].astype(np.float64)  # (rows, C, K)
            means.append(np.einsum("bck,c->bk", a, np.exp(alone)))
            variances.append(np.einsum("bck,bck->bk", a, np.einsum("cd,bdk->bck", covariance, a)))
        mean, variance = self._base + np.concatenate(means), np.concatenate(variances)
        return Missingness(self._drop(mean), self._drop(np.maximum(variance, 0.0)))

    def probabilities(self, present: ArrayLike | None = None) -> Array:
        """Predicted probabilities (sigmoid of one output, softmax of several), (B[, K]); of some features alone, too.

        Args:
            present: As for `value`; None for all features.
        """
        masks = np.ones(self.n_features, dtype=bool) if present is None else present
        raw = self._base + self._source.at(_as_masks(masks, len(self), self.n_features))
        return self._drop(_probability(raw))

    def probability_values(self) -> Array:
        """Exact Shapley values of the predicted probabilities (sigmoid of one output, softmax of several), (B, P[, K]).

        All 2^P values in closed form, so at most 20 features. They sum to p(x) - p(empty), not to logits.
        """
        n = self.n_features
        if n > games.MAX_PLAYERS:
            raise ValueError(
                f"probability values need all 2^P coalitions, so at most {games.MAX_PLAYERS} features, however: {n}; "
                "restrict the explanation to fewer features"
            )
        codes = self.coalitions @ (1 << np.arange(n))
        base = np.broadcast_to(self._base, (len(self), self._base.shape[-1]))
        result = np.empty(self._values.shape)
        rows = zip((row for part in self._source.chunks() for row in part.array()), base, strict=True)
        with bar("probabilities", len(self)) as shown:
            for row, (a, b) in enumerate(rows):
                table = np.zeros((2**n, len(b)))
                table[codes] = a
                result[row] = games.shapley_of_table(_probability(games.zeta_transform(table) + b))
                shown.update()
        return self._drop(result)

    def top_interactions(
        self, row: int | Hashable, k: int = 10, output: str | int | None = None, *, at_least: int = 1
    ) -> TopInteractions:
        """The k largest |dividends| of one row, and by how much all others together can change any v(S).

        `output` is a name or position; by default the row's largest output. Sets of fewer than `at_least` features
        are among the others.

        What is left out adds, for a mask S, the sum of the dropped dividends inside S, which lies between the sum of
        the negative ones and the sum of the positive ones.
        """
        row = self.row_position(row)
        a = self._source.rows(np.array([row])).array()[0, :, self.output_position(output, row)]
        order = np.argsort(-np.abs(a), kind="stable")
        wanted = self.coalitions.sum(1)[order] >= at_least
        kept, dropped = order[wanted][:k], a[np.concatenate([order[wanted][k:], order[~wanted]])]
        sets = [tuple(np.flatnonzero(self.coalitions[c]).tolist()) for c in kept]
        names = [tuple(self.feature_names[i] for i in members) for members in sets]
        bound = max(float(dropped[dropped > 0].sum()), float(-dropped[dropped < 0].sum()), 0.0)
        return TopInteractions(sets, names, a[kept], bound)

    def smallest_set(self, row: int | Hashable, *, threshold: float = 0.0, time_limit: float = 60.0) -> tuple[int, ...]:
        """The fewest features of a row that, kept while all others are absent, preserve the decision.

        The decision is the largest of several outputs, or whether one output exceeds the threshold. Solved exactly as a
        mixed-integer programme over the dividends and checked against them.

        Args:
            row: Position or label of the row.
            threshold: Of the decision, for one output only.
            time_limit: Seconds after which the search gives up with an error.

        Returns:
            Sorted feature indices; empty when the base values already decide the same way.
        """
        if threshold and len(self.output_names) > 1:
            raise ValueError(f"a threshold decides on one output, however: there are {len(self.output_names)}")
        one = self[self.row_position(row)]
        base = np.broadcast_to(one._base, (1, one._base.shape[-1]))[0]
        return smallest_deciding_set(self.coalitions, one._source.array()[0], base, threshold, time_limit)

    # Conversions -------------------------------------------------------------------------------------------------

    def to_shap(self) -> Any:
        """The values as a `shap.Explanation`; every shap plot works on it.

        Of several outputs, most of shap's plots want one: `ex.output("name").to_shap()`.
        """
        shap = need_package("shap", "shap")
        base = self._drop(np.broadcast_to(self._base, (len(self), self._base.shape[-1])))
        return shap.Explanation(
            values=np.array(self.values),
            base_values=np.array(base),
            data=None if self.data is None else _as_floats(self.data),
            feature_names=list(self.feature_names),
            output_names=None if len(self.output_names) == 1 else list(self.output_names),
        )

    def to_shapiq(
        self, row: int | Hashable, index: str = "SII", order: int | None = None, output: str | int | None = None
    ) -> Any:
        """An index of one row as `shapiq.InteractionValues`; every shapiq plot works on it, and shows the names.

        `order` is as in `index`; `output` is a name or position, by default the row's largest output.
        """
        need_package("shapiq", "shapiq")
        from harsanyinet.named import NamedInteractionValues

        one = self[self.row_position(row)]
        k = one.output_position(output, 0)
        order = self._order(index, order)
        sets, values = one._index(index, order)
        base = float(np.broadcast_to(one._base, (1, one._base.shape[-1]))[0, k])
        found = NamedInteractionValues(
            values=np.concatenate([[base], values[0, :, k]]).astype(np.float64),
            index=index,
            min_order=0,
            max_order=order,
            n_players=self.n_features,
            interaction_lookup={(): 0} | {members: i + 1 for i, members in enumerate(sets)},
            estimated=False,
            baseline_value=base,
        )
        found.feature_names = list(self.feature_names)
        return found

    def to_frame(self) -> pd.DataFrame:
        """A tidy DataFrame, one line per row, output and feature: row, output, feature, data, shapley_value.

        `row` holds the labels of the rows: the index of the frame that was explained.
        """
        import pandas as pd

        b, n, k = self._values.shape
        rows = pd.RangeIndex(b) if self.row_names is None else pd.Index(self.row_names, tupleize_cols=False)
        data = np.full((b, n), np.nan) if self.data is None else self.data
        return pd.DataFrame(
            {
                "row": rows.to_flat_index().repeat(n * k),
                "output": np.tile(np.repeat(self.output_names, n), b),
                "feature": np.tile(self.feature_names, b * k),
                "data": np.repeat(data[:, None], k, axis=1).reshape(-1),
                "shapley_value": np.swapaxes(self._values, 1, 2).reshape(-1),
            }
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Writes one file (arrays and JSON, no pickle), beside the old one and then in its place."""
        arrays = {
            "values": self._values,
            "base_values": self._base,
            "coalitions": self.coalitions,
            "dividends": self._source.array(),
        }
        meta: dict[str, Any] = {
            "feature_names": self.feature_names, "output_names": self.output_names, "data": None, "scale": self.scale,
            "row_names": None if self.row_names is None else [_plain(label) for label in self.row_names],
        }  # fmt: skip
        if self.data is not None and self.data.dtype.kind in "biuf":
            arrays["data"] = self.data
        elif self.data is not None:
            cells = self.data.astype(str) if self.data.dtype.kind in "mM" else self.data
            meta["data"] = [[_plain(cell) for cell in line] for line in cells.tolist()]
        files.save_arrays(path, "explanation", arrays, meta)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Explanation:
        """Reads what `save` wrote. Nothing in the file is executed."""
        arrays, meta = files.load_arrays(path, "explanation")
        data = arrays.pop("data", None)
        if data is None and meta["data"] is not None:
            cells = [[float(c["float"]) if isinstance(c, dict) else c for c in line] for line in meta["data"]]
            data = np.array(cells, dtype=object).reshape(arrays["values"].shape[:2])
        return cls(
            base_values=arrays["base_values"],
            coalitions=arrays["coalitions"],
            dividends=arrays["dividends"],
            values=arrays["values"],
            feature_names=meta["feature_names"],
            output_names=meta["output_names"],
            data=data,
            row_names=meta.get("row_names"),
            scale=meta.get("scale", "raw output"),
        )

    # Rows and sums -----------------------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """P."""
        return int(self._values.shape[1])

    def row_position(self, row: int | Hashable) -> int:
        """The position of a row, given by a position, which may be counted from the end, or by its label.

        An integer is always a position.
        """
        if isinstance(row, int | np.integer) and not isinstance(row, bool):
            if not -len(self) <= row < len(self):
                raise IndexError(f"row must lie between 0 and {len(self) - 1}, however: row={row}")
            return int(row) % len(self)
        if self.row_names is None:
            raise ValueError(f"row must be a position, since the rows have no labels, however: row={row!r}")
        found = [i for i, label in enumerate(self.row_names) if label == row]
        if len(found) != 1:
            some = ", ".join(repr(label) for label in self.row_names[:5])
            what = "several rows have" if found else "no row has"
            raise ValueError(f"row must be a position or a label, such as {some}, however: {what} {row!r}")
        return found[0]

    def row_label(self, row: int) -> str:
        """What the row at a position is called: by its label, or else its position."""
        return str(row if self.row_names is None else self.row_names[row])

    def output_label(self, output: int) -> str:
        """What the output at a position is: "log-odds of yes", "price"."""
        return name_output(self.output_names, output, self.scale)

    def output_position(self, output: str | int | None, row: int) -> int:
        """The position of an output; by default the largest output of the row, which is the predicted class."""
        if output is None:
            return int(np.argmax((self._base + self._values.sum(axis=1))[row]))
        return find_name(output, self.output_names, "output")

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, rows: int | slice | Sequence[int] | NDArray[Any]) -> Explanation:
        """The explanation of some rows: an int, a slice, positions or a bool mask. Rows keep their axis."""
        chosen = np.arange(len(self))[rows].reshape(-1)
        per_row = self._base.ndim == 2
        names = self.row_names
        return self._like(
            base_values=self._base[chosen] if per_row else self._base,
            dividends=self._source.rows(chosen),
            values=self._values[chosen],
            data=None if self.data is None else self.data[chosen],
            row_names=names if names is None else [names[i] for i in chosen.tolist()],
        )

    def __add__(self, other: Explanation) -> Explanation:
        """The explanation of the sum of two models on the same rows and features (linearity)."""
        if not isinstance(other, Explanation):
            return NotImplemented
        mine, theirs = (e._values.shape for e in (self, other))
        if (self.feature_names, self.output_names, mine) != (other.feature_names, other.output_names, theirs):
            raise ValueError(
                "explanations can be added when they have the same rows, features and outputs, however: "
                f"{mine} of {self.feature_names}, {self.output_names} and "
                f"{theirs} of {other.feature_names}, {other.output_names}"
            )
        if self.data is not None and other.data is not None and not _alike(self.data, other.data):
            raise ValueError("explanations can be added when they explain the same rows, however: their data differ")
        coalitions, position = indices.unite_coalitions(np.vstack([self.coalitions, other.coalitions]))

        def dividends() -> Array:
            both = np.concatenate([self._source.array(), other._source.array()], axis=1)
            return indices.sum_by(both, position, len(coalitions))

        return self._like(
            base_values=self._base + other._base,
            coalitions=coalitions,
            dividends=dividends,
            values=self._values + other._values,
        )

    def __radd__(self, other: object) -> Explanation:
        """Lets `sum` start from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, factor: float) -> Explanation:
        """The explanation of a multiple of the model."""
        if not isinstance(factor, int | float | np.number):
            return NotImplemented
        return self._like(
            base_values=self._base * factor,
            coalitions=self.coalitions,
            dividends=lambda: self._source.array() * factor,
            values=self._values * factor,
        )

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Explanation:
        return self * (1 / divisor)

    def __neg__(self) -> Explanation:
        return self * -1.0

    def __sub__(self, other: Explanation) -> Explanation:
        """The explanation of the difference of two models on the same rows and features."""
        return self + -other

    __array_ufunc__ = None  # numpy's numbers leave products with an explanation to it

    def __getstate__(self) -> dict[str, Any]:
        self.data  # noqa: B018  what is lazy is computed before it travels
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({k: _frozen(v) if isinstance(v, np.ndarray) else v for k, v in state.items()})

    # For people --------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        b, n, k = self._values.shape
        counts = f"{b} rows, {n} features, {k} outputs, {len(self.coalitions)} coalitions"
        if not b:
            return f"Explanation({counts})"
        importance = np.abs(self._values).mean(axis=(0, 2))
        top = ", ".join(f"{self.feature_names[i]} {importance[i]:.3g}" for i in np.argsort(-importance)[:5])
        return f"Explanation({counts})\n  mean |value|: {top}{', ...' if n > 5 else ''}"

    def _repr_html_(self) -> str:
        b, n, k = self._values.shape
        shown = min(b, 3)
        largest = float(np.abs(self._values[:shown]).max(initial=0.0)) or 1.0
        order = np.argsort(-np.abs(self._values[:shown]).mean(axis=(0, 2)))[:10] if shown else np.arange(0)
        outputs = [(r, o) for r in range(shown) for o in range(min(k, 3))]
        head = "".join(
            f"<th style='text-align:left'>row {r}{f', {html.escape(self.output_names[o])}' if k > 1 else ''}: "
            f"{(self._base + self._values.sum(1))[r, o]:.4g}</th>"
            for r, o in outputs
        )
        lines = "".join(
            f"<tr><th style='text-align:right'>{html.escape(self.feature_names[i])}</th>"
            + "".join(self._html_cell(r, i, o, largest) for r, o in outputs)
            + "</tr>"
            for i in order
        )
        more = "" if len(order) == n and shown == b else " The strongest features of the first rows:"
        return (
            f"<div><p>Explanation of {b} rows, {n} features, {k} outputs, from {len(self.coalitions)} coalitions."
            f"{more}</p><table><thead><tr><th></th>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
        )

    def _html_cell(self, row: int, feature: int, output: int, largest: float) -> str:
        value = float(self._values[row, feature, output])
        colour = "#d55e00" if value > 0 else "#0072b2"
        width = 90 * abs(value) / largest
        data = "" if self.data is None else f" <small>{html.escape(_short(self.data[row, feature]))}</small>"
        bar = f"<span style='display:inline-block;height:0.7em;width:{width:.0f}px;background:{colour}'></span>"
        return f"<td style='text-align:left'>{bar} {value:+.3g}{data}</td>"

    # Internals ---------------------------------------------------------------------------------------------------

    def _drop(self, array: Array) -> Array:
        return array[..., 0] if self._base.shape[-1] == 1 else array

    def _like(self, **changes: Any) -> Explanation:
        """An explanation of the same rows, features and outputs but for what changes."""
        same = {
            "feature_names": self.feature_names, "output_names": self.output_names, "row_names": self.row_names,
            "scale": self.scale, "copy": False,
        }  # fmt: skip
        if "data" not in changes:
            changes["data"] = self.data
        return Explanation(**(same | changes))

    def _order(self, name: str, order: int | None) -> int:
        return order if order is not None else 1 if name in ("SV", "BV") else min(2, self.n_features)

    def _positions(self, features: Sequence[str | int]) -> list[int]:
        if isinstance(features, str):
            raise TypeError(f"features come as a list of names or positions, however: the string {features!r}")
        chosen = [self._position(feature) for feature in features]
        if len(set(chosen)) != len(chosen):
            raise ValueError(f"each feature may be named once, however: {list(features)}")
        return chosen

    def _position(self, feature: str | int) -> int:
        return find_name(feature, self.feature_names, "feature")

    def _groups(self, groups: Mapping[str, Sequence[str | int]]) -> Masks:
        masks = np.zeros((len(groups), self.n_features), dtype=bool)
        for line, (name, members) in enumerate(groups.items()):
            chosen = self._positions(members)
            if not chosen:
                raise ValueError(f"each group needs a feature, however: group {name!r} is empty")
            masks[line, chosen] = True
        counts = masks.sum(axis=0)
        if (counts != 1).any():
            twice = [self.feature_names[i] for i in np.flatnonzero(counts > 1)]
            never = [self.feature_names[i] for i in np.flatnonzero(counts == 0)]
            found = f"{twice} in several groups" if twice else f"{never} in none"
            raise ValueError(f"groups must hold every feature exactly once, however: {found}")
        return masks


def _dense(
    coalitions: Masks, dividends: Array | Callable[[], Array] | Dividends, values: Array | None, k: int, copy: bool
) -> Dividends:
    """An array of dividends, or a function that returns one, checked."""
    if coalitions.ndim != 2 or coalitions.dtype != bool:
        raise ValueError(f"coalitions must be (C, P) bool, however: {coalitions.dtype} {coalitions.shape}")
    if not coalitions.any(axis=1).all():
        raise ValueError("coalitions must not be empty, however: a row of coalitions has no member")
    if copy and len(indices.unite_coalitions(coalitions)[0]) != len(coalitions):
        raise ValueError("coalitions must differ from each other, however: one stands there twice")
    if values is not None and values.shape[1:] != (coalitions.shape[1], k):
        raise ValueError(f"values must have shape (rows, {coalitions.shape[1]}, {k}), however: {values.shape}")
    if not callable(dividends):
        dividends = _frozen(np.asarray(dividends), copy)
    elif values is None:
        dividends = dividends()
    rows = len(dividends) if values is None else len(values)  # type: ignore[arg-type]
    return DenseDividends(_frozen(coalitions, copy), dividends, rows, k)


def _probability(logits: Array) -> Array:
    """Sigmoid of one column, softmax of several."""
    if logits.shape[1] == 1:
        return np.asarray(0.5 * (1 + np.tanh(logits / 2)))
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _as_masks(present: ArrayLike, n_rows: int, n_features: int) -> Masks:
    masks = np.asarray(present)
    if masks.dtype != bool:
        raise TypeError(f"present must be bool, True where a feature is there, however: {masks.dtype}")
    if masks.shape not in ((n_features,), (n_rows, n_features)) and (
        n_rows != 1 or masks.ndim != 2 or masks.shape[1] != n_features
    ):
        raise ValueError(f"present must have shape ({n_features},) or ({n_rows}, {n_features}), however: {masks.shape}")
    return masks


def find_name(item: str | int, names: Sequence[str], what: str) -> int:
    """The position of a name among all of them; `what` says what they name."""
    if isinstance(item, bool | np.bool_):
        raise TypeError(f"a {what} is named or numbered, however: a mask was given")
    if isinstance(item, int | np.integer):
        if not 0 <= item < len(names):
            raise ValueError(f"{what} must lie between 0 and {len(names) - 1}, however: {item}")
        return int(item)
    if item not in names:
        close = get_close_matches(str(item), names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(names[:12])}"
        raise ValueError(f"unknown {what} {item!r}{hint}")
    return names.index(item)


def name_output(names: Sequence[str], output: int, scale: str | None) -> str:
    """What an output is, by the names of all of them and what they are together."""
    if scale is None:
        return names[output]
    return scale if list(names) == ["output"] else f"{scale} of {names[output]}"


def _as_floats(data: Array) -> Array:
    """Cells as float64 where all of them are numbers, missing ones as NaN; else a copy as they are."""
    import pandas as pd

    if data.dtype != object:
        return np.array(data)
    cells = np.where(pd.isna(data), np.nan, data)
    numbers = all(isinstance(cell, int | float | np.number | np.bool_) for cell in cells.ravel())
    return cells.astype(np.float64) if numbers else np.array(data)


def _frozen(array: Array, copy: bool = True) -> Array:
    own = np.array(array) if copy else array.view()
    own.flags.writeable = False
    return own


def _alike(a: Array, b: Array) -> bool:
    """Equal cell by cell, where missing values equal each other."""
    import pandas as pd

    missing = pd.isna(a)
    return a.shape == b.shape and np.array_equal(missing, pd.isna(b)) and bool(np.all(a[~missing] == b[~missing]))


def _plain(cell: Any) -> Any:
    """A cell as JSON has it: missing values are null, infinities {"float": "inf"}, dates and the like text."""
    import pandas as pd

    cell = cell.item() if isinstance(cell, np.generic) else cell
    if np.ndim(cell) == 0 and pd.isna(cell):
        return None
    if isinstance(cell, float) and not np.isfinite(cell):
        return {"float": str(cell)}
    return cell if isinstance(cell, str | int | float | bool) else str(cell)


def _short(cell: Any) -> str:
    return f"{cell:,.6g}" if isinstance(cell, float | np.floating) else str(cell)


def need_package(module: str, extra: str) -> Any:
    """Imports a module of an optional package; without it, an error that names the extra."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {module}: pip install 'harsanyinet[{extra}]'") from error
