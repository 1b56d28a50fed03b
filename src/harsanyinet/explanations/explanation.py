"""Explanation: coalitions, dividends and base values of some rows, and every answer that follows from them.

Frozen data; no torch, no matplotlib. Sums of dividends are asked of a source (`dividends`) with weights from `indices`;
what is more than such a sum is in `answers`, names in `names`, pages and files in `exports`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harsanyinet import files
from harsanyinet.explanations import answers, exports, indices, names
from harsanyinet.explanations.answers import Missingness, TopInteractions
from harsanyinet.explanations.dividends import Dividends, dense_dividends, one_output, read_only, shapley_values
from harsanyinet.explanations.indices import InteractionIndex
from harsanyinet.extras import need_package

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]
Masks = NDArray[np.bool_]


class Explanation:
    """Exact explanation of B rows over P features and K outputs.

    The axis K is dropped from every result when there is one output.

    Args:
        base_values: (K,) or, for a restricted game whose constant differs by row, (B, K).
        dividends: (B, C, K), a function without arguments that returns them and is called at most once, or an object
            that answers for them (`harsanyinet.explanations.dividends`).
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
        self._base = read_only(base_values, copy)
        if coalitions is not None:
            dividends = dense_dividends(coalitions, dividends, values, k, copy)
        elif callable(dividends) or isinstance(dividends, np.ndarray):
            raise ValueError("coalitions must be given with an array of dividends, however: there are none")
        self._source: Dividends = dividends
        n = self.coalitions.shape[1]
        values = shapley_values(self._source) if values is None else values
        if values.shape != (len(self._source), n, k):
            raise ValueError(f"values must have shape (rows, {n}, {k}), however: {values.shape}")
        self._values = read_only(values, copy)
        if self._base.shape[:-1] not in ((), (len(self),)):
            raise ValueError(f"base_values must have shape ({k},) or ({len(self)}, {k}), however: {self._base.shape}")
        self.feature_names = names.different_names(feature_names, [f"x{i}" for i in range(n)], "feature_names")
        usual = ["output"] if k == 1 else [f"output {i}" for i in range(k)]
        self.output_names = names.different_names(output_names, usual, "output_names")
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
        """The data, checked."""
        shown = read_only(np.asarray(data), copy)
        if shown.shape != (len(self), self.n_features):
            raise ValueError(f"data must have shape ({len(self)}, {self.n_features}), however: {shown.shape}")
        return shown

    @property
    def outputs(self) -> Array:
        """The raw outputs v(x), (B[, K]): base values plus the sum of the Shapley values."""
        return self._drop(self._base + self._values.sum(axis=1))

    def value(self, present: ArrayLike) -> Array:
        """v(S) of every row from the dividends, without the model: (B[, K]), a line per row or mask.

        `present` is (P,) or (B, P) bool, True where a feature is present; for one row any number of masks will do.
        """
        return self._drop(self._raw(present))

    def contrast(self, row: int | Hashable, reference: int | Hashable) -> Array:
        """How two rows differ: the Shapley values of one minus those of the other, (P[, K]).

        Together they are the difference of the two outputs, less that of the base values where these differ by row.
        """
        return self._drop(self._values[self.row_position(row)] - self._values[self.row_position(reference)])

    def restrict(self, players: Sequence[str | int]) -> Explanation:
        """The sub-game of some features while all others stay present; its base values differ by row."""
        chosen = names.find_features(players, self.feature_names)
        if not chosen:
            raise ValueError("restrict needs at least one feature, however: none given")
        coalitions, weights = indices.restriction(self.coalitions, chosen)
        sums = self._source.spread(None, lambda: weights)
        return self._like(
            base_values=self._base + sums[:, -1],
            coalitions=coalitions,
            dividends=sums[:, :-1],
            feature_names=[self.feature_names[i] for i in chosen],
            data=None if self.data is None else self.data[:, chosen],
        )

    def output(self, name: str | int) -> Explanation:
        """The explanation of one output among several, such as one class, by its name or position."""
        k = names.find_name(name, self.output_names, "output")
        return self._like(
            base_values=self._base[..., k : k + 1],
            dividends=one_output(self._source, k),
            values=self._values[:, :, k : k + 1],
            output_names=[self.output_names[k]],
            data=self._data,
        )

    # Indices -----------------------------------------------------------------------------------------------------

    def index(self, name: str, order: int | None = None) -> InteractionIndex:
        """An interaction index of all sets up to an order: its `.sets` (tuples of feature indices) and `.values`.

        Args:
            name: SV, BV (single features), SII, BII, STII, k-SII, FSII or Moebius.
            order: Largest size of a set; by default 1 for SV and BV, else 2.
        """
        if order is None:
            order = 1 if name in ("SV", "BV") else min(2, self.n_features)
        key = ("index", name, order)
        sets, weights = self._source.plan(key, partial(indices.index_weights, self.coalitions, name, order))
        values = self._source.spread(key, lambda: weights)
        return InteractionIndex(name, order, self.n_features, sets, self._drop(values))

    def group_values(self, groups: Mapping[str, Sequence[str | int]]) -> Array:
        """Shapley values of the game whose players are groups of features, (B, G[, K]).

        Not the sum of the members' Shapley values: `owen_values` divides these among the members.
        """
        masks = names.find_groups(groups, self.feature_names)
        return self._drop(self._source.spread(None, lambda: indices.group_shares(self.coalitions, masks)))

    def owen_values(self, groups: Mapping[str, Sequence[str | int]]) -> Array:
        """Owen values (B, P[, K]): each group's Shapley value, divided among its members."""
        masks = names.find_groups(groups, self.feature_names)
        return self._drop(self._source.spread(None, lambda: indices.owen_shares(self.coalitions, masks)))

    def order_spectrum(self) -> Array:
        """(P + 1,): the share of the sum of |dividends| by the size of the coalition. All in order 0 if none acts."""
        return answers.order_shares(self.coalitions, self._chunks())

    def missingness(self, probability: ArrayLike) -> Missingness:
        """Mean and variance of the outputs when each feature is present independently.

        `probability` is one probability of being present, or one per feature.
        """
        parts = answers.going_missing(self.coalitions, self._chunks(), self._base, probability)
        return Missingness(*map(self._drop, parts))

    def probabilities(self, present: ArrayLike | None = None) -> Array:
        """Predicted probabilities (sigmoid of one output, softmax of several), (B[, K]).

        With `present`, as for `value`, those of some features alone.
        """
        masks = np.ones(self.n_features, dtype=bool) if present is None else present
        return self._drop(answers.probabilities(self._raw(masks)))

    def probability_values(self) -> Array:
        """Exact Shapley values of the predicted probabilities (sigmoid of one output, softmax of several), (B, P[, K]).

        All 2^P values in closed form, so at most 20 features. They sum to p(x) - p(empty), not to logits.
        """
        rows = (row for part in self._chunks() for row in part)
        base = np.broadcast_to(self._base, (len(self), self._base.shape[-1]))
        return self._drop(answers.shapley_of_probabilities(self.coalitions, rows, base))

    def top_interactions(
        self, row: int | Hashable, k: int = 10, output: str | int | None = None, *, at_least: int = 1
    ) -> TopInteractions:
        """The k largest |dividends| of one row, and by how much all others together can change any v(S).

        `output` is a name or position; by default the row's largest output. Sets of fewer than `at_least` features
        are among the others.
        """
        row = self.row_position(row)
        dividends = self._source.rows(np.array([row])).array()[0, :, self.output_position(output, row)]
        return answers.strongest_sets(self.coalitions, dividends, self.feature_names, k, at_least)

    def smallest_set(self, row: int | Hashable, *, threshold: float = 0.0, time_limit: float = 60.0) -> tuple[int, ...]:
        """The fewest features of a row that, kept while all others are absent, preserve the decision: sorted indices.

        The decision is the largest of several outputs, or whether one output exceeds the threshold; where the base
        values decide the same way, no feature is needed. Solved exactly as a mixed-integer programme over the dividends
        and checked against them; after `time_limit` seconds the search gives up with an error.
        """
        if threshold and len(self.output_names) > 1:
            raise ValueError(f"a threshold decides on one output, however: there are {len(self.output_names)}")
        one = self[self.row_position(row)]
        dividends, base = one._source.array()[0], one._base.reshape(-1)
        return answers.minimal_set(self.coalitions, dividends, base, threshold, time_limit)

    # Conversions -------------------------------------------------------------------------------------------------

    def to_shap(self) -> Any:
        """The values as a `shap.Explanation`; every shap plot works on it.

        Of several outputs, most of shap's plots want one: `ex.output("name").to_shap()`.
        """
        base = np.broadcast_to(self._base, (len(self), self._base.shape[-1]))
        return need_package("shap", "shap").Explanation(
            values=np.array(self.values),
            base_values=np.array(self._drop(base)),
            data=None if self.data is None else exports.as_floats(self.data),
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
        from harsanyinet.explanations.named_interactions import as_shapiq

        row = self.row_position(row)
        one = self[row].output(self.output_position(output, row))
        return as_shapiq(one.index(index, order), float(one.base_values.reshape(-1)[0]), self.feature_names)

    def to_frame(self) -> pd.DataFrame:
        """A tidy DataFrame, one line per row, output and feature: row, output, feature, data, shapley_value.

        `row` holds the labels of the rows: the index of the frame that was explained.
        """
        import pandas as pd

        b, n, k = self._values.shape
        rows = pd.RangeIndex(b) if self.row_names is None else pd.Index(self.row_names, tupleize_cols=False)
        cells = np.full((b, n), np.nan) if self.data is None else self.data
        return pd.DataFrame(
            {
                "row": rows.to_flat_index().repeat(n * k),
                "output": np.tile(np.repeat(self.output_names, n), b),
                "feature": np.tile(self.feature_names, b * k),
                "data": np.repeat(cells[:, None], k, axis=1).reshape(-1),
                "shapley_value": np.swapaxes(self._values, 1, 2).reshape(-1),
            }
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Writes one file (arrays and JSON, no pickle), beside the old one and then in its place."""
        arrays = {"values": self._values, "base_values": self._base, "coalitions": self.coalitions}
        data, cells = exports.data_to_file(self.data)
        labels = None if self.row_names is None else [exports.as_json(label) for label in self.row_names]
        meta = {name: getattr(self, name) for name in ("feature_names", "output_names", "scale")}
        meta |= {"row_names": labels, "data": cells}
        files.save_arrays(path, "explanation", arrays | {"dividends": self._source.array()} | data, meta)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Explanation:
        """Reads what `save` wrote. Nothing in the file is executed."""
        arrays, meta = files.load_arrays(path, "explanation")
        cells = exports.data_from_file(meta.pop("data"), arrays["values"].shape[:2])
        return cls(**{"data": cells} | arrays | meta)

    # Rows and sums -----------------------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """The number of features, P."""
        return int(self._values.shape[1])

    def row_position(self, row: int | Hashable) -> int:
        """The position of a row, given by its label or by an integer: a position, which may be counted from the end."""
        return names.find_row(row, self.row_names, len(self))

    def row_label(self, row: int) -> str:
        """What the row at a position is called: by its label, or else its position."""
        return str(row if self.row_names is None else self.row_names[row])

    def output_label(self, output: int) -> str:
        """What the output at a position is: "log-odds of yes", "price"."""
        return names.name_output(self.output_names, output, self.scale)

    def output_position(self, output: str | int | None, row: int) -> int:
        """The position of an output; by default the largest output of the row, which is the predicted class."""
        if output is None:
            return int(np.argmax(self.outputs[row]))
        return names.find_name(output, self.output_names, "output")

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, rows: int | slice | Sequence[int] | NDArray[Any]) -> Explanation:
        """The explanation of some rows: an int, a slice, positions or a bool mask. Rows keep their axis."""
        chosen = np.arange(len(self))[rows].reshape(-1)
        return self._like(
            base_values=self._base if self._base.ndim == 1 else self._base[chosen],
            dividends=self._source.rows(chosen),
            values=self._values[chosen],
            data=None if self.data is None else self.data[chosen],
            row_names=None if self.row_names is None else [self.row_names[i] for i in chosen.tolist()],
        )

    def __add__(self, other: Explanation) -> Explanation:
        """The explanation of the sum of two models on the same rows and features (linearity)."""
        if not isinstance(other, Explanation):
            return NotImplemented
        mine, theirs = ((e._values.shape, e.feature_names, e.output_names) for e in (self, other))
        if mine != theirs:
            raise ValueError(
                "explanations can be added when they have the same rows, features and outputs, however: "
                f"{mine[0]} of {mine[1]}, {mine[2]} and {theirs[0]} of {theirs[1]}, {theirs[2]}"
            )
        if self.data is not None and other.data is not None and not exports.equal_cells(self.data, other.data):
            raise ValueError("explanations can be added when they explain the same rows, however: their data differ")
        coalitions, position = indices.unite_coalitions(np.vstack([self.coalitions, other.coalitions]))
        sums = indices.sums(position, len(coalitions))

        def dividends() -> Array:
            return indices.times_sparse(np.concatenate([self._source.array(), other._source.array()], axis=1), sums)

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
        self.__dict__.update({k: read_only(v) if isinstance(v, np.ndarray) else v for k, v in state.items()})

    def __repr__(self) -> str:
        b, n, k = self._values.shape
        counts = f"{b} rows, {n} features, {k} outputs, {len(self.coalitions)} coalitions"
        if not b:
            return f"Explanation({counts})"
        importance = np.abs(self._values).mean(axis=(0, 2))
        top = ", ".join(f"{self.feature_names[i]} {importance[i]:.3g}" for i in np.argsort(-importance)[:5])
        return f"Explanation({counts})\n  mean |value|: {top}{', ...' if n > 5 else ''}"

    def _repr_html_(self) -> str:
        shown = self._values, self._base + self._values.sum(axis=1), self.data
        return exports.as_html(*shown, self.feature_names, self.output_names, len(self.coalitions))

    # Internals ---------------------------------------------------------------------------------------------------

    def _raw(self, present: ArrayLike) -> Array:
        """v(S), (B, K), or (masks, K) of a single row."""
        masks = names.check_present(present, None if len(self) == 1 else len(self), self.n_features)
        return self._base + self._source.at(masks)

    def _chunks(self) -> Iterator[Array]:
        """The dividends (rows, C, K), some rows at a time."""
        return (part.array() for part in self._source.chunks())

    def _drop(self, array: Array) -> Array:
        """Without the axis of the outputs where there is one output."""
        return array[..., 0] if self._base.shape[-1] == 1 else array

    def _like(self, **changes: Any) -> Explanation:
        """An explanation of the same rows, features and outputs but for what changes."""
        same = ("feature_names", "output_names", "row_names", "scale", "data")
        return Explanation(**{name: getattr(self, name) for name in same if name not in changes}, copy=False, **changes)
