"""Effects of a fitted table model: what a column adds by itself, what two add together. Numbers to draw, no drawing.

They are the dividends of the sets {i} and {i, j}, which depend on these columns alone. So they are asked of the model
itself: rows with the values of interest and nothing else are explained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harsanyinet.encoders import Column, as_frame, as_numbers, as_texts
from harsanyinet.explanation import Explanation, find_name

if TYPE_CHECKING:
    from harsanyinet.estimators import HarsanyiClassifier, HarsanyiRegressor

    Model = HarsanyiClassifier | HarsanyiRegressor

Array = NDArray[Any]
Mask = NDArray[np.bool_]

_MOST_WHOLE = 500  # whole numbers that are all shown


@dataclass(frozen=True, eq=False)
class Axis:
    """Values of one column.

    Attributes:
        column: Its name, kind, knots and so on.
        position: Of the column in the table.
        values: (n,) numbers, rising, or categories as text; a row may hold them as they are.
        labels: (n,) what to call them.
    """

    column: Column
    position: int
    values: Array
    labels: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of the column."""
        return self.column.name

    @property
    def few(self) -> bool:
        """Whether the values stand for themselves, as categories and the two values of a switch do."""
        return self.column.kind == "category" or len(self.column.knots) <= 2

    def counts(self, held: Array) -> NDArray[np.int64]:
        """How often each value is among what `data` returned, (n,); a category counts with those that share it."""
        if self.column.kind == "category":
            row_of = dict(zip(self.column.levels, self.column.rows.tolist(), strict=True))
            held = np.array([row_of.get(text, 0) for text in held])
            return np.array([(held == row_of[value]).sum() for value in self.values], dtype=np.int64)
        return np.array([(held == value).sum() for value in self.values], dtype=np.int64)

    def data(self, X: Any) -> Array:
        """The column in a table: numbers, NaN where missing, or texts, None where missing."""
        frame = as_frame(X)
        names = [str(name) for name in frame.columns]
        if self.name in names:
            series = frame.iloc[:, names.index(self.name)]
        elif hasattr(X, "columns") or self.position >= len(names):
            raise ValueError(f"X must have the column {self.name!r}, however: it has {', '.join(names[:12])}")
        else:
            series = frame.iloc[:, self.position]
        return as_texts(series, self.name) if self.column.kind == "category" else as_numbers(series, self.name)


@dataclass(frozen=True, eq=False)
class SingleEffect:
    """What a column adds by itself to the raw output, compared to a row in which it is missing.

    Attributes:
        axis: The values that it was computed for. Rare categories that share an effect are one value, and its label
            names them.
        effect: (n[, K]), the dividend of {column}.
        frequent: (n,) numbers so frequent that they may jump out of the curve.
        curve: (n,) numbers that the curve joins. Between them it is a straight line, or holds no whole number.
        output_names: K names.
    """

    axis: Axis
    effect: Array
    frequent: Mask
    curve: Mask
    output_names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PairEffect:
    """What two columns add together to the raw output, beyond what each adds by itself.

    Attributes:
        axes: The values that it was computed for: one for each cell, which the label describes.
        table: (na, nb[, K]), the dividend of {a, b}; zero everywhere when the model has no such set.
        output_names: K names.
    """

    axes: tuple[Axis, Axis]
    table: Array
    output_names: tuple[str, ...]


class PairStrength(NamedTuple):
    """A pair of columns and its mean |dividend|."""

    features: tuple[str, str]
    strength: float


def single_effect(model: Model, feature: str | int) -> SingleEffect:
    """What a column adds by itself, for all its categories or for enough numbers to draw it exactly.

    Args:
        model: A fitted estimator.
        feature: Name or position of the column.

    Examples:
        >>> from harsanyinet import HarsanyiRegressor
        >>> X = pd.DataFrame({"size": np.arange(200.0), "colour": ["red", "blue"] * 100})
        >>> model = HarsanyiRegressor(members=1, epochs=1, random_state=0).fit(X, X["size"])
        >>> single_effect(model, "colour").axis.labels
        ('blue', 'red')
    """
    column, position = _column(model, feature)
    if column.kind == "category":
        values, labels = _categories(column)
        frequent = np.zeros(len(values), dtype=bool)
        curve = frequent
    else:
        values, curve = _grid(column)
        frequent = np.isin(values, column.atoms)
        labels = tuple(column.word(value) for value in values)
    ex = _explained(model, {position: values})
    effect = _dividend(ex, [position])[: len(values)]
    return SingleEffect(Axis(column, position, values, labels), effect, frequent, curve, tuple(ex.output_names))


def pair_effect(model: Model, a: str | int, b: str | int) -> PairEffect:
    """What two columns add together, for every combination of their cells.

    A set of two columns sees numbers, and the rarer of many categories, by the cell that they fall into. Where a wide
    unit has the same set and sees more, the table holds at the values of the axes.

    Args:
        model: A fitted estimator.
        a: Name or position of a column.
        b: Of another one.
    """
    axes = _cells(*_column(model, a)), _cells(*_column(model, b))
    first, second = axes
    if first.position == second.position:
        raise ValueError(f"a pair has two different columns, however: {first.name!r} twice")
    na, nb = len(first.values), len(second.values)
    grid = {first.position: np.repeat(first.values, nb), second.position: np.tile(second.values, na)}
    ex = _explained(model, grid)
    found = _dividend(ex, [first.position, second.position])[: na * nb]
    return PairEffect(axes, found.reshape(na, nb, *found.shape[1:]), tuple(ex.output_names))


def strongest_pairs(model: Model, X: Any, k: int = 10) -> list[PairStrength]:
    """The pairs of columns with the largest mean |dividend| over rows and outputs, strongest first.

    Args:
        model: A fitted estimator.
        X: Rows, as for `predict`.
        k: Number of pairs at most; pairs that add nothing are left out.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, however: k={k}")
    ex = model.explain(X)
    pairs = np.flatnonzero(ex.coalitions.sum(axis=1) == 2)
    size = np.abs(ex.dividends[:, pairs].astype(np.float64))
    strength = size.mean(axis=(0, *range(2, size.ndim)))
    found = []
    for at in np.argsort(-strength, kind="stable")[:k]:
        i, j = np.flatnonzero(ex.coalitions[pairs[at]])
        if strength[at] > 0:
            found.append(PairStrength((ex.feature_names[i], ex.feature_names[j]), float(strength[at])))
    return found


# Values to ask for ---------------------------------------------------------------------------------------------------


def _column(model: Model, feature: str | int) -> tuple[Column, int]:
    encoder = getattr(model, "encoder_", None)
    if encoder is None:
        raise TypeError(
            f"effects need a fitted HarsanyiClassifier or HarsanyiRegressor, however: {type(model).__name__}"
            + (" that is not fitted" if hasattr(model, "fit") else "")
        )
    position = find_name(feature, encoder.names, "feature")
    return encoder.columns[position], position


def _categories(column: Column) -> tuple[Array, tuple[str, ...]]:
    """The categories, but one for all that share a row of the level table."""
    values, labels = [], []
    for row in dict.fromkeys(column.rows.tolist()):
        shared = [level for level, at in zip(column.levels, column.rows.tolist(), strict=True) if at == row]
        values.append(shared[0])
        labels.append(shared[0] if len(shared) == 1 else f"{len(shared)} rare ones: {', '.join(shared)}")
    return np.array(values, dtype=object), tuple(labels)


def _grid(column: Column) -> tuple[Array, Mask]:
    """Numbers that show all of a curve, and which of them it joins."""
    knots, atoms = column.knots, column.atoms
    if len(knots) <= 2:
        return knots, np.zeros(len(knots), dtype=bool)
    low, high = knots[0], knots[-1]
    if column.whole and high - low < _MOST_WHOLE:
        every = np.arange(low, high + 1)
        return every, np.ones(len(every), dtype=bool)
    taken = knots[np.isin(knots, atoms)]  # the curve is seen on either side of them
    beside = [taken - 1, taken + 1] if column.whole else [np.nextafter(taken, -np.inf), np.nextafter(taken, np.inf)]
    values = np.unique(np.concatenate([knots, atoms, *beside]))
    values = values[(values >= low) & (values <= high)]
    return values, ~np.isin(values, atoms)


def _cells(column: Column, position: int) -> Axis:
    """One value of each cell: a knot or a frequent number where there is one, or the most frequent category."""
    if column.kind == "category":
        values: Array = np.array(column.levels[: column.n_cells], dtype=object)
    else:
        known = np.union1d(column.knots, column.atoms)
        cell_of = np.searchsorted(column.edges, known, side="right")
        values = np.array([
            _middle(column, cell, known[cell_of == cell]) for cell in range(column.n_cells if len(known) else 0)
        ])  # fmt: skip
    return Axis(column, position, values, tuple(column.value_of_cell(c) for c in range(len(values))))


def _middle(column: Column, cell: int, known: Array) -> float:
    if len(known):
        return float(known[(len(known) - 1) // 2])
    middle = sum(column.range_of_cell(cell)) / 2
    return float(np.floor(middle)) if column.whole else middle


# Asking --------------------------------------------------------------------------------------------------------------


def _explained(model: Model, given: dict[int, Array]) -> Explanation:
    """The explanation of rows that hold the given columns only; of one empty row when there are none."""
    n = len(model.encoder_.columns)
    n_rows = max(1, *(len(values) for values in given.values()))
    frame = pd.DataFrame(np.full((n_rows, n), np.nan), columns=range(n))
    for position, values in given.items():
        if len(values):
            frame[position] = values
    if hasattr(model, "feature_names_in_"):
        frame.columns = pd.Index(model.feature_names_in_)
        return model.explain(frame)
    return model.explain(frame.to_numpy())  # fitted on an array, or on a frame whose names are not text


def _dividend(ex: Explanation, members: list[int]) -> Array:
    """The dividends of one set, (B[, K])."""
    wanted = np.isin(np.arange(ex.n_features), members)
    at = np.flatnonzero((ex.coalitions == wanted).all(axis=1))
    return ex.dividends[:, at[0]] if len(at) else np.zeros_like(ex.outputs)
