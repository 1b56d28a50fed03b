"""Learning how columns become bins: the borders of numbers, the parts of dates, the codes of categories. No trees.

Categories become numbers by target statistics: what the target is, on average, where the category is seen. A row that
would see its own target in that average sees only the rows before it in a random order, unless each category has so
many rows that it does not matter.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harsanyinet.tables.columns import Column
from harsanyinet.tables.dates import PARTS, as_times, format_of, parts_of
from harsanyinet.tables.frames import ColumnWarning, Floats, as_numbers, as_texts, kind_of

Array = NDArray[Any]
FEWEST_NAMED = 30  # rows, of which nearly all differ, that an identifier has at least
ALL_BUT = 0.95  # nearly all


@dataclass(frozen=True)
class Binning:
    """How finely to bin."""

    max_bins: int = 128  # at most, the absent one and that of missing values included
    missing: str = "auto"  # "value": a missing value is a bin; "absent": an absent player; "auto": where fit saw some
    plain_rows: float = 100.0  # mean rows of a category from which on its statistics are plain averages of all rows
    prior: float = 1.0  # rows that the mean of all rows counts for in the statistics of a category
    many_classes: int = 4  # coded columns of a category at most; of more targets these hold what differs most


def fit_columns(
    frame: pd.DataFrame, targets: Array, weight: Array, binning: Binning, categories: Iterable[Any],
    dates: Iterable[Any] | None, seed: int,
) -> tuple[list[Column], Array]:  # fmt: skip
    """Learns the bins of all columns, where they are categories by targets (rows, T); the seed orders the rows.

    `categories` names columns of numbers that are categories, `dates` those that are dates, None for all that read as
    such. Returned are the columns, and the training rows' own bins (coded columns, rows): not those of prediction,
    where categories are coded in order.
    """
    as_category, as_date = set(categories), None if dates is None else set(dates)
    order = np.random.default_rng(seed).permutation(len(frame))
    columns, parts = [], []
    for i, name in enumerate(frame.columns):
        values = frame.iloc[:, i]
        may_be_date = name not in as_category and (as_date is None or name in as_date)
        kind = "category" if name in as_category else kind_of(values, str(name), may_be_date)
        form = format_of(values) if kind == "category" and may_be_date else None
        if form is not None or kind == "date":
            column = fit_date(values, str(name), binning, form or "")
            if form is not None and as_date is None:
                _say(f"column {str(name)!r} holds text that reads as dates ({form}); it is read as {_words(column)}, "
                     "which are one player; date_features=() keeps it as categories")  # fmt: skip
        elif as_date and name in as_date:
            raise ValueError(f"date_features must name columns of dates, however: {str(name)!r} does not read as dates")
        elif kind == "category":
            column, own = _fit_category(as_texts(values, str(name)), str(name), targets, weight, binning, order)
        else:
            column = fit_number(values, str(name), binning)
        if column.kind != "category":
            own = np.empty((column.n_codes, len(frame)), dtype=np.uint8)
            column.code(values, own)
        if _is_identifier(column, values):
            _say(f"column {str(name)!r} looks like an identifier: nearly every row has a value of its own; leave it "
                 "out if it says nothing about rows to come")  # fmt: skip
        columns.append(column)
        parts.append(own)
    return columns, np.concatenate(parts) if parts else np.empty((0, len(frame)), dtype=np.uint8)


def _say(sentence: str) -> None:
    """Warns that a column is read in a way that may not be meant."""
    warnings.warn(sentence, ColumnWarning, stacklevel=2)


def _words(column: Column) -> str:
    """The parts of a date in words: "trend, year and month"."""
    names = [part.name for part in column.parts]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _is_identifier(column: Column, values: pd.Series[Any]) -> bool:
    """Whether nearly all values differ, and are texts or whole numbers one after the other."""
    n = int(values.notna().sum())
    if n < FEWEST_NAMED or column.kind == "date":
        return False
    if column.kind == "category":
        return len(column.levels) > ALL_BUT * n
    if not pd.api.types.is_integer_dtype(values.dtype):
        return False
    span = column.high - column.low + 1
    return ALL_BUT * n < span < n / ALL_BUT and values.nunique() > ALL_BUT * n


def fit_date(values: pd.Series[Any], name: str, binning: Binning, form: str) -> Column:
    """Learns the borders of the numbers that dates become; those that never change are left out."""
    numbers = parts_of(as_times(values, name, form))
    parts = [fit_number(pd.Series(own), part, binning) for part, own in zip(PARTS, numbers, strict=True)]
    parts = [part for i, part in enumerate(parts) if i == 0 or len(part.borders)]
    return Column(
        name, "date", missing=parts[0].missing, n_bins=tuple(part.n_bins[0] for part in parts), parts=tuple(parts),
        form=form,
    )  # fmt: skip


def fit_number(values: pd.Series[Any], name: str, binning: Binning) -> Column:
    """Learns the borders of a column of numbers."""
    numbers = as_numbers(values, name)
    numbers = numbers[~np.isnan(numbers)]
    some_missing = len(numbers) < len(values)
    missing = binning.missing == "value" or (binning.missing == "auto" and some_missing)
    different, counts = np.unique(numbers, return_counts=True)
    boolean = pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.infer_dtype(values, skipna=True) == "boolean"
    room = binning.max_bins - 1 - missing
    borders = find_borders(different, counts, room)
    return Column(
        name, "number", borders=borders, low=float(different[0]) if len(different) else 0.0,
        high=float(different[-1]) if len(different) else 0.0, missing=missing, boolean=bool(boolean and len(numbers)),
        whole=bool((different % 1 == 0).all()), n_bins=(len(borders) + 2 + missing,),
    )  # fmt: skip


def find_borders(different: Floats, counts: Array, room: int) -> Floats:
    """Borders between at most `room` bins: one for each value, or of about equally many rows.

    A value with more rows than that has a bin of its own, and the others share what is left. Borders are float32
    numbers, so that a number falls into the same bin wherever it is compared.
    """
    if len(different) < 2:
        return np.empty(0)
    if len(different) > room:
        heavy = np.zeros(len(different), dtype=bool)
        while True:  # a heavy value cuts a group of others in two, so it takes two bins
            share = counts[~heavy].sum() / max(1, room - 2 * heavy.sum())
            more = ~heavy & (counts > share)
            if not more.any() or 2 * (heavy | more).sum() >= room:
                break
            heavy |= more
        light = np.where(heavy, 0, counts)
        middle = np.cumsum(light) - light / 2
        group = np.floor(middle / max(share, 1e-300)) + 2.0 * np.cumsum(heavy) - heavy
        below = np.flatnonzero(np.diff(group) > 0)
        if len(below) >= room:
            below = below[np.linspace(0, len(below) - 1, room - 1).round().astype(int)]
    else:
        below = np.arange(len(different) - 1)
    a, b = different[below], different[below + 1]
    with np.errstate(over="ignore"):
        most = float(np.finfo(np.float32).max)
        border = np.clip(a / 2 + b / 2, -most, most).astype(np.float32)
        border = np.where(border.astype(np.float64) >= b, np.nextafter(border, np.float32(-np.inf)), border)
        border = border.astype(np.float64)
    return np.unique(border[(border >= a) & (border < b)])


def _fit_category(
    texts: Array, name: str, targets: Array, weight: Array, binning: Binning, order: Array
) -> tuple[Column, Array]:
    """Learns the categories of a column, and codes them by target statistics: the column, and the rows' own bins."""
    unknown = pd.isna(texts)
    counts = pd.Series(texts[~unknown], dtype=object).value_counts()
    by_count = sorted(zip(map(str, counts.index), counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
    levels = tuple(text for text, _ in by_count)
    missing = binning.missing == "value" or (binning.missing == "auto" and bool(unknown.any()))
    index = pd.Index(levels, dtype=object)
    level = index.get_indexer(pd.Index(texts, dtype=object))  # -1 where missing
    first = 2 if missing else 1
    room = binning.max_bins - first
    known = level >= 0
    codes, of_level = [], []
    ordered = len(levels) > 1 and known.sum() < binning.plain_rows * len(levels)
    for target in coding_targets(targets, binning.many_classes).T:
        plain, in_order = target_statistics(level, target, weight, len(levels), binning.prior, order)
        of_level.append(plain)
        codes.append(plain[level] if len(levels) and not ordered else in_order)
    own = np.empty((len(codes), len(texts)), dtype=np.uint8)
    level_bins = np.empty((len(levels), len(codes)), dtype=np.uint8)
    n_bins = []
    for c, (each, plain) in enumerate(zip(codes, of_level, strict=True)):
        borders = find_borders(*np.unique(each[known].astype(np.float32).astype(np.float64), return_counts=True), room)
        own[c] = np.where(known, np.searchsorted(borders, each) + first, 1 if missing else 0)
        level_bins[:, c] = np.searchsorted(borders, plain) + first
        n_bins.append(len(borders) + 1 + first)
    column = Column(name, "category", levels=levels, level_bins=level_bins, missing=missing, n_bins=tuple(n_bins))
    return column, own


def coding_targets(targets: Array, most: int) -> Array:
    """The numbers that categories are coded by: the targets, or the directions in which many of them differ most."""
    if targets.shape[1] <= most:
        return targets
    centred = targets - targets.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ directions[:, -most:])


def target_statistics(
    level: Array, target: Floats, weight: Floats, n_levels: int, prior: float, order: Array
) -> tuple[Floats, Floats]:
    """Smoothed means of the target by level, from all rows (levels,), and for each row from those before it (rows,)."""
    known = level >= 0
    if not known.any():
        return np.zeros(n_levels), np.zeros(len(level))
    mean = float(np.average(target[known], weights=weight[known]))
    unit = float(weight[known].mean()) * prior
    total = np.bincount(level[known], weight[known] * (target[known] - mean), n_levels)
    mass = np.bincount(level[known], weight[known], n_levels)
    plain = mean + total / (mass + unit)
    rows = order[known[order]]
    rows = rows[np.argsort(level[rows], kind="stable")]  # by level, then in the random order
    part = weight[rows] * (target[rows] - mean)
    starts = np.flatnonzero(np.diff(level[rows], prepend=-1))
    begun = np.repeat(starts, np.diff(np.append(starts, len(rows))))
    before = np.cumsum(part) - part
    before_mass = np.cumsum(weight[rows]) - weight[rows]
    in_order = np.full(len(level), mean)
    in_order[rows] = mean + (before - before[begun]) / (before_mass - before_mass[begun] + unit)
    return plain, in_order
