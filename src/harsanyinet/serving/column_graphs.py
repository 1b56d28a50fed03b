"""Raw columns inside an ONNX graph: from inputs to one matrix of numbers, minus infinity where a player is absent.

The matrix has one feature for each coded column of the model. A number stays what it is, a category becomes its bin,
and a missing value that is a value of its own the smallest number there is: so "is the bin above this threshold?"
becomes "is the feature above this number?", with the same answer for every number that a double can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.serving.onnx_graphs import ROWS, Graph
from harsanyinet.tables.columns import Column

Array = NDArray[Any]
LOWEST = float(np.finfo(np.float64).min)
ABSENT = float("-inf")


def number_above(column: Column, threshold: int) -> float:
    """The number that a feature is above just where its bin is above the threshold."""
    if threshold == 0:
        return ABSENT
    if column.kind == "category":
        return float(threshold)
    place = threshold - column.first
    if place < 0:
        return LOWEST
    return float(column.borders[place]) if place < len(column.borders) else float("inf")


def features_of(columns: Sequence[Column]) -> tuple[list[Column], Array]:
    """A column for each feature (of a date one of its parts), numbers first, and where it is among the coded ones."""
    coded = [part for column in columns for part in (column.parts or [column] * column.n_codes)]
    order = np.argsort([column.kind == "category" for column in coded], kind="stable")
    return [coded[i] for i in order], order


def add_columns(graph: Graph, columns: Sequence[Column]) -> tuple[str, list[dict[str, str]]]:
    """Inputs for the columns of a model, and the matrix of its features, (rows, features of `features_of`).

    Returns:
        The name of the matrix, and for each input its column, its name and what it takes.
    """
    numbers, categories, about = [], [], []
    for column in columns:
        is_text = column.kind == "category"
        for part in column.parts or (column,):
            named = f"{column.name}: {part.name}" if column.parts else column.name
            name = graph.input(named, str if is_text else np.float64, [ROWS])
            about.append({"column": column.name, "input": name, "takes": "text" if is_text else "number"})
            if is_text:
                categories += _codes(graph, column, name)
            else:
                numbers.append((part, name))
    lines = []
    if numbers:
        parts, inputs = zip(*numbers, strict=True)
        each = graph.node("Reshape", graph.node("Concat", *inputs, axis=0), [len(numbers), -1])
        known = graph.node("LessOrEqual", graph.node("Abs", each), -LOWEST)  # neither NaN nor infinity is
        missing = np.array([[LOWEST if part.missing else ABSENT] for part in parts])
        lines.append(graph.node("Where", known, each, missing))
    if categories:
        wide = graph.cast(graph.node("Concat", *categories, axis=0), np.float64)
        lines.append(graph.node("Reshape", wide, [len(categories), -1]))
    return graph.node("Transpose", graph.node("Concat", *lines, axis=0), perm=[1, 0]), about


def _codes(graph: Graph, column: Column, text: str) -> list[str]:
    """The bins of categories, one float32 vector (rows,) for each code of the column."""
    found = []
    for code in range(column.n_codes):
        bins = dict(zip(column.levels, column.level_bins[:, code].tolist(), strict=True))
        bins.setdefault("", 1 if column.missing else 0)
        values = [float(b) if b else ABSENT for b in bins.values()]
        asked = {"keys_strings": list(bins), "values_floats": values, "default_float": ABSENT}
        found.append(graph.node("LabelEncoder", text, domain="ai.onnx.ml", **asked))
    return found


def add_present(graph: Graph, n_players: int) -> str:
    """The optional input `present`, (rows, players) or (1, players) bool: everybody, if it is not given."""
    everybody = np.ones((1, n_players), dtype=bool)
    return graph.input("present", np.bool_, ["rows of present", n_players], default=everybody)


def add_presence(graph: Graph, features: str, player_of: Array, n_players: int, alone: bool) -> str:
    """The matrix without absent players, by the optional input `present` and by what is missing.

    Columns of one player are absent together, unless the players are `alone`: then none of them has columns of which
    one could be missing without the others.
    """
    present = add_present(graph, n_players)
    there = graph.node("Gather", present, player_of.astype(np.int64), axis=1)
    masked = graph.node("Where", there, features, ABSENT)
    if alone:
        return masked
    missing = graph.cast(graph.node("Equal", masked, ABSENT), np.float32)
    same = (player_of[:, None] == player_of).astype(np.float32)
    others = graph.node("MatMul", missing, same)
    gone = graph.node("Greater", others, np.float32(0.5))
    return graph.node("Where", gone, ABSENT, masked)
