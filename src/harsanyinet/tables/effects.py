"""Effects of a fitted table model: what a column adds by itself, what two add together. Numbers to draw, no drawing.

They are the dividends of the sets {i} and {i, j}, which depend on these columns alone: rows with the values of interest
are asked, in which everything else is absent. Between two thresholds that trees ask about nothing changes, so one value
of each step says all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from harsanyinet.explanations.names import find_name
from harsanyinet.tables.columns import Column, columns_of
from harsanyinet.tables.frames import as_frame, as_numbers, as_texts
from harsanyinet.tables.tree_games import TreeDividends

if TYPE_CHECKING:
    from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor

    Model = HarsanyiClassifier | HarsanyiRegressor

Array = NDArray[Any]

CELLS = 4_000_000  # numbers of an explanation that are held at a time


@dataclass(frozen=True, eq=False)
class Axis:
    """Values of one column that trees tell apart.

    Attributes:
        column: Its name, kind, borders and so on.
        position: Of the column in the table.
        values: (n,) one of each step, or one category of those alike; a row may hold them as they are. The last is
            missing where a missing value is a value.
        labels: (n,) what to call them.
        edges: Where the steps of numbers begin and end, one more than there are steps; none for categories.
        place_of_level: (levels,) the place among the values of each category.
    """

    column: Column
    position: int
    values: Array
    labels: tuple[str, ...]
    edges: Array
    place_of_level: Array

    @property
    def name(self) -> str:
        """Of the column."""
        return self.column.name

    @property
    def few(self) -> bool:
        """Whether the values stand for themselves, as categories and the two values of a switch do."""
        return self.column.kind == "category" or len(self.column.borders) < 2

    def places(self, held: Array) -> NDArray[np.intp]:
        """Where among the values stands what `data` returned, (rows,); -1 for what is absent or was never seen."""
        missing = len(self.values) - 1 if self.column.missing else -1
        if self.column.kind == "category":
            place_of = dict(zip(self.column.levels, self.place_of_level.tolist(), strict=True))
            return np.array([missing if text is None else place_of.get(text, -1) for text in held], dtype=np.intp)
        return np.where(np.isnan(held), missing, np.searchsorted(self.edges[1:-1], held))

    def counts(self, held: Array) -> NDArray[np.intp]:
        """How often each value is among what `data` returned, (n,)."""
        places = self.places(held)
        return np.bincount(places[places >= 0], minlength=len(self.values))

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
    """What a column adds by itself to the raw output, compared to a row in which it is absent.

    Attributes:
        axis: The values that it was computed for.
        effect: (n[, K]), the dividend of {column}.
        output_names: K names.
        scale: What the outputs are, such as "log-odds".
    """

    axis: Axis
    effect: Array
    output_names: tuple[str, ...]
    scale: str | None = "raw output"


@dataclass(frozen=True, eq=False)
class PairEffect:
    """What two columns add together to the raw output, beyond what each adds by itself.

    Attributes:
        axes: The values that it was computed for.
        table: (na, nb[, K]), the dividend of {a, b}; zero everywhere when the model has no such set.
        output_names: K names.
        scale: What the outputs are, such as "log-odds".
    """

    axes: tuple[Axis, Axis]
    table: Array
    output_names: tuple[str, ...]
    scale: str | None = "raw output"


class PairStrength(NamedTuple):
    """A pair of columns and its mean |dividend|."""

    features: tuple[str, str]
    strength: float


def single_effect(model: Model, feature: str | int) -> SingleEffect:
    """What a column adds by itself, for every step of its numbers or every category.

    Args:
        model: A fitted estimator.
        feature: Name or position of the column.

    Examples:
        >>> from harsanyinet import HarsanyiRegressor
        >>> X = pd.DataFrame({"size": np.arange(200.0), "colour": ["red", "blue"] * 100})
        >>> model = HarsanyiRegressor(max_iter=10, random_state=0).fit(X, X["size"] + 100 * (X["colour"] == "red"))
        >>> single_effect(model, "colour").axis.labels
        ('blue', 'red')
    """
    axes = _axes(model, [_position(model, feature)])
    return SingleEffect(axes[0], _dividends(model, axes), tuple(model.output_names_), model.loss_.scale)


def pair_effect(model: Model, a: str | int, b: str | int) -> PairEffect:
    """What two columns add together, for every combination of values that trees with both of them tell apart.

    Args:
        model: A fitted estimator.
        a: Name or position of a column.
        b: Of another one.
    """
    positions = [_position(model, a), _position(model, b)]
    if positions[0] == positions[1]:
        raise ValueError(f"a pair has two different columns, however: {model.columns_[positions[0]].name!r} twice")
    first, second = _axes(model, positions)
    table = _dividends(model, (first, second))
    return PairEffect((first, second), table, tuple(model.output_names_), model.loss_.scale)


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
    order, n_outputs = min(2, ex.n_features), len(ex.output_names)
    n_sets = int((ex.coalitions.sum(axis=1) <= order).sum())
    size = max(1, CELLS // max(1, n_sets * n_outputs))
    total: Any = 0.0
    for start in range(0, len(ex), size):
        index = ex[start : start + size].index("Moebius", order)
        total = total + np.abs(index.values).reshape(-1, len(index.sets), n_outputs).sum(axis=(0, 2))
    found = [
        PairStrength((ex.feature_names[members[0]], ex.feature_names[members[1]]), strength)
        for members, strength in zip(index.sets, (total / (len(ex) * n_outputs)).tolist(), strict=True)
        if len(members) == 2 and strength > 0
    ]
    return sorted(found, key=lambda pair: -pair.strength)[:k]


# Values to ask for ---------------------------------------------------------------------------------------------------


def _position(model: Model, feature: str | int) -> int:
    """The position of a column that has an effect: of numbers or categories, and a player by itself."""
    columns = getattr(model, "columns_", None)
    if columns is None:
        raise TypeError(
            f"effects need a fitted HarsanyiClassifier or HarsanyiRegressor, however: {type(model).__name__}"
            + (" that is not fitted" if hasattr(model, "fit") else "")
        )
    at = find_name(feature, [column.name for column in columns], "feature")
    player = model.players_.of_column[at]
    if columns[at].kind == "date" or (model.players_.of_column == player).sum() > 1:
        raise ValueError(
            f"effects are those of single columns of numbers or categories, however: {model.players_.names[player]!r} "
            f"is {'a date' if columns[at].kind == 'date' else 'a player of several columns'}"
        )
    return at


def _axes(model: Model, positions: Sequence[int]) -> list[Axis]:
    """Of each column the values that trees with all of these columns tell apart."""
    trees, column_of = model.trees_, columns_of(model.columns_)
    wanted = set(model.players_.of_column[list(positions)].tolist())
    asked: dict[int, set[int]] = {}
    for shape in trees.shapes:
        if wanted <= set(shape.players.tolist()):
            for column, threshold in shape.questions:
                asked.setdefault(column, set()).add(threshold)
    each = [[sorted(asked.get(int(code), ())) for code in np.flatnonzero(column_of == p)] for p in positions]
    return [axis_of(model.columns_[p], p, thresholds) for p, thresholds in zip(positions, each, strict=True)]


def axis_of(column: Column, position: int, asked: Sequence[Sequence[int]]) -> Axis:
    """The values that questions tell apart: for each coded column the thresholds that are asked about, rising."""
    return (_of_numbers if column.kind == "number" else _of_categories)(column, position, asked)


def _of_numbers(column: Column, position: int, asked: Sequence[Sequence[int]]) -> Axis:
    """The last number of each step."""
    between = np.array([threshold - column.first for threshold in asked[0]], dtype=np.int64)
    inner = column.borders[between[between >= 0]]  # the one below tells missing values from all others
    ends = np.append(inner, column.high)  # the last number of each step
    half = 0.5 if column.whole else 0.0  # whole numbers stand in the middle of their steps
    edges = np.concatenate([[column.low - half], inner, [column.high + half]])
    starts = np.append(column.low, np.floor(inner) + 1 if column.whole else inner)
    labels = [_range(column, *pair) for pair in zip(starts, np.floor(ends) if column.whole else ends, strict=True)]
    if column.missing:
        ends, labels = np.append(ends, np.nan), [*labels, "missing"]
    return Axis(column, position, ends, tuple(labels), edges, np.empty(0, dtype=np.int64))


def _of_categories(column: Column, position: int, asked: Sequence[Sequence[int]]) -> Axis:
    """One category of those that no question tells apart."""
    digits = [np.searchsorted(some, column.level_bins[:, c]) for c, some in enumerate(asked)]
    alike: dict[tuple[int, ...], list[int]] = {}
    for level, answers in enumerate(np.stack(digits, axis=1).tolist()):
        alike.setdefault(tuple(answers), []).append(level)
    place = np.empty(len(column.levels), dtype=np.int64)
    labels: list[str] = []
    for i, levels in enumerate(alike.values()):
        place[levels] = i
        names = ", ".join(column.levels[level] for level in levels)
        labels.append(names if len(levels) == 1 else f"{len(levels)} alike: {names}")
    values: list[str | None] = [column.levels[levels[0]] for levels in alike.values()]
    if column.missing:
        values, labels = [*values, None], [*labels, "missing"]
    return Axis(column, position, np.array(values, dtype=object), tuple(labels), np.empty(0), place)


def _range(column: Column, low: float, high: float) -> str:
    """A step of numbers in words."""

    def word(number: float) -> str:
        return str(bool(number)) if column.boolean else f"{number:.0f}" if column.whole else f"{number:.4g}"

    return word(low) if low == high else f"{word(low)} to {word(high)}"


def _dividends(model: Model, axes: Sequence[Axis]) -> Array:
    """The dividend of some columns at all combinations of their values, (na, ...[, K])."""
    column_of, shape = columns_of(model.columns_), [len(axis.values) for axis in axes]
    places = np.indices(shape).reshape(len(shape), -1)
    bins = np.zeros((len(column_of), places.shape[1]), dtype=np.uint8)  # all others are absent
    for axis, place in zip(axes, places, strict=True):
        own = np.empty((axis.column.n_codes, len(axis.values)), dtype=np.uint8)
        axis.column.code(pd.Series(axis.values), own)
        bins[column_of == axis.position] = own[:, place]
    game, players = model.tree_game(), model.players_.of_column[[axis.position for axis in axes]]
    wanted = (game.coalitions == np.isin(np.arange(len(model.players_)), players)).all(axis=1)
    found = TreeDividends(game, bins).spread(None, lambda: csr_array(wanted[:, None].astype(float)))
    dividends = found.reshape(*shape, len(model.output_names_))
    return dividends[..., 0] if len(model.output_names_) == 1 else dividends
