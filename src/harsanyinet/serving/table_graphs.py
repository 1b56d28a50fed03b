"""A model of a table as an ONNX graph: columns -> features -> cells of merged tables -> sums -> named outputs.

The raw columns become one matrix with a feature for each coded column of the model. A number stays what it is, a
category becomes its bin, minus infinity is an absent player, and a missing value that is a value of its own is the
smallest number there is: so "is the bin above this threshold?" becomes "is the feature above this number?", with the
same answer for every number that a double can hold.

One tree per column finds by how many thresholds the feature is above, and adds to the place in every table what that
means there; the tables then hold the prediction, the Shapley values and, on request, the interactions of all pairs. All
sums are of doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from harsanyinet.explanations import indices
from harsanyinet.serving.merged_tables import MergedTables
from harsanyinet.serving.onnx_graphs import ROWS, Graph
from harsanyinet.tables.columns import Column
from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables.look_ups import LookUp
from harsanyinet.tables.tree_games import TreeGame

Array = NDArray[Any]
TableModel = HarsanyiClassifier | HarsanyiRegressor
_LOWEST, _ABSENT = float(np.finfo(np.float64).min), float("-inf")
_WIDE = 100  # sums times outputs; above, adding up in lists is quicker than a product of matrices
_LIST = 32


def table_graph(model: TableModel, game: TreeGame, *, interactions: bool) -> tuple[Graph, dict[str, Any]]:
    """The graph of a fitted estimator with the values of a game, on request with the interactions (SII) of all pairs.

    Returns:
        The graph, and what is to be said of it.
    """
    trees, coalitions, names = game.trees, game.coalitions, model.players_.names
    weights = [indices.shares(coalitions)]
    pairs: list[tuple[int, ...]] = []
    if interactions and trees.n_players > 1:
        sets, of_sets = indices.index_weights(coalitions, "SII", 2)
        chosen = [i for i, members in enumerate(sets) if len(members) == 2]
        pairs = [sets[i] for i in chosen]
        weights.append(csr_array(of_sets[:, chosen]))
    of_dividends = game.look_up(csr_array(hstack(weights, format="csr")), full=False)
    merged = MergedTables.of(joined(LookUp.of_values(trees, full=False), of_dividends), trees.n_outputs)

    graph = Graph()
    matrix, inputs = add_columns(graph, model.columns_)
    features, order = features_of(model.columns_)
    player_of = trees.player_of[order]
    owners = {(player, id(column)) for player, column in zip(player_of.tolist(), features, strict=True)}
    matrix = add_presence(graph, matrix, player_of, trees.n_players, alone=len(owners) == trees.n_players)
    places = add_places(graph, matrix, features, np.argsort(order).tolist(), merged)
    sums = add_sums(graph, places, merged, [1, trees.n_players, len(pairs)])
    add_outputs(graph, model, game, sums, len(pairs))
    about: dict[str, Any] = {"inputs": inputs, "players": list(names), "outputs": model.output_names_}
    return graph, about | ({"pairs": [[names[i] for i in pair] for pair in pairs]} if interactions else {})


def number_above(column: Column, threshold: int) -> float:
    """The number that a feature is above just where its bin is above the threshold."""
    if threshold == 0:
        return _ABSENT
    if column.kind == "category":
        return float(threshold)
    place = threshold - column.first
    if place < 0:
        return _LOWEST
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
        known = graph.node("LessOrEqual", graph.node("Abs", each), -_LOWEST)  # neither NaN nor infinity is
        missing = np.array([[_LOWEST if part.missing else _ABSENT] for part in parts])
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
        values = [float(b) if b else _ABSENT for b in bins.values()]
        asked = {"keys_strings": list(bins), "values_floats": values, "default_float": _ABSENT}
        found.append(graph.node("LabelEncoder", text, domain="ai.onnx.ml", **asked))
    return found


def add_presence(graph: Graph, features: str, player_of: Array, n_players: int, alone: bool) -> str:
    """The matrix without absent players, by the optional input `present` and by what is missing.

    Columns of one player are absent together, unless the players are `alone`: then none of them has columns of which
    one could be missing without the others.
    """
    present = graph.present(n_players)
    there = graph.node("Gather", present, player_of.astype(np.int64), axis=1)
    masked = graph.node("Where", there, features, _ABSENT)
    if alone:
        return masked
    missing = graph.cast(graph.node("Equal", masked, _ABSENT), np.float32)
    same = (player_of[:, None] == player_of).astype(np.float32)
    others = graph.node("MatMul", missing, same)
    gone = graph.node("Greater", others, np.float32(0.5))
    return graph.node("Where", gone, _ABSENT, masked)


def joined(first: LookUp, second: LookUp) -> LookUp:
    """Two look-ups about the same states as one: the sums of the first, then those of the second."""
    slots, tables = [], []
    for t in range(len(first.starts)):
        (own, table), (more, more_tables) = first.part(t), second.part(t)
        slots.append(np.append(own, more + first.n_slots))
        tables.append(np.concatenate([table, more_tables]))
    return LookUp.of(first.paths, slots, tables, first.n_slots + second.n_slots)


def add_places(
    graph: Graph, matrix: str, features: Sequence[Column], where: Sequence[int], merged: MergedTables
) -> str:
    """(rows, G) int32: the cell of each table in which a row is; `where` says which feature a coded column is."""
    nodes: list[tuple[Any, ...]] = []
    added: list[Array] = []  # (targets, 4): tree, node, table, what is added
    for tree, (column, cuts) in enumerate(merged.cuts.items()):
        i, (tables, amounts) = where[column], map(np.array, zip(*merged.steps[column], strict=True))
        for number, (cut, above, below) in enumerate(_search(len(cuts))):
            if above:
                nodes.append((tree, number, i, "BRANCH_GT", number_above(features[i], int(cuts[cut])), above, below))
                continue
            nodes.append((tree, number, i, "LEAF", 0.0, 0, 0))
            hit = np.flatnonzero(amounts[:, cut])
            at = np.tile([tree, number], (len(hit), 1))
            added.append(np.column_stack([at, tables[hit], amounts[hit, cut]]))
    trees, numbers, columns, modes, thresholds, above_nodes, below_nodes = zip(*nodes, strict=True)
    targets = np.concatenate(added).T
    tensor = graph.onnx.numpy_helper.from_array
    found = graph.node(
        "TreeEnsembleRegressor", matrix, domain="ai.onnx.ml", n_targets=len(merged.starts),
        nodes_treeids=trees, nodes_nodeids=numbers, nodes_featureids=columns, nodes_modes=modes,
        nodes_values_as_tensor=tensor(np.array(thresholds)),
        nodes_truenodeids=above_nodes, nodes_falsenodeids=below_nodes,
        target_treeids=targets[0].tolist(), target_nodeids=targets[1].tolist(), target_ids=targets[2].tolist(),
        target_weights_as_tensor=tensor(targets[3].astype(np.float64)),
    )  # fmt: skip
    return graph.node("Add", graph.cast(found, np.int32), merged.starts)


def _search(n_cuts: int) -> list[tuple[int, int, int]]:
    """A binary search: (number of the cut, node if above, node if not), or (cuts that it is above, 0, 0)."""
    nodes: list[tuple[int, int, int]] = []

    def grow(low: int, high: int) -> int:
        own = len(nodes)
        nodes.append((low, 0, 0))
        if low < high:
            middle = (low + high + 1) // 2
            above, below = grow(middle, high), grow(low, middle - 1)
            nodes[own] = (middle - 1, above, below)
        return own

    grow(0, n_cuts)
    return nodes


def add_sums(graph: Graph, places: str, merged: MergedTables, parts: Sequence[int]) -> list[str]:
    """What the tables add up to, in parts of so many sums each: (rows, n) with one output, else (rows, n, K).

    A line is what a table adds to one of its sums. Lines times a matrix of zeros and ones are the sums; where that
    matrix would be wide, lines of the same sum are first added up in short lists.
    """
    cells, numbers = merged.cells, merged.sums
    total, k = sum(parts), cells.shape[2]
    wide = total * k > _WIDE
    if wide and numbers.min() >= 0:  # lists are filled up with a line of zeros
        cells = np.pad(cells, ((0, 0), (0, 1), (0, 0)))
        numbers = np.pad(numbers, ((0, 0), (0, 1)), constant_values=-1)
    found = graph.node("Gather", cells.reshape(len(cells), -1), places, axis=0)
    owner = numbers.reshape(-1)
    lines = graph.node("Reshape", found, [-1, len(owner), k])
    if wide:
        lists, owner = _lists(owner)
        taken = graph.node("Gather", lines, lists.reshape(-1), axis=1)
        apart = graph.node("Reshape", taken, [-1, *lists.shape, k])
        lines = graph.node("ReduceSum", apart, [2], keepdims=0)
    if k > 1:
        lines = graph.node("Transpose", lines, perm=[0, 2, 1])
    to = np.zeros((len(owner), total))
    to[np.flatnonzero(owner >= 0), owner[owner >= 0]] = 1.0
    # One product of two matrices: of a batch of them, runtimes do not admit an empty one.
    sums = graph.node("MatMul", graph.node("Reshape", lines, [-1, len(owner)]), to)
    if k > 1:
        sums = graph.node("Transpose", graph.node("Reshape", sums, [-1, k, total]), perm=[0, 2, 1])
    ends = np.cumsum(parts).tolist()
    return [graph.node("Slice", sums, [end - n], [end], [1]) for n, end in zip(parts, ends, strict=True)]


def _lists(owner: Array) -> tuple[Array, Array]:
    """Lines of the same sum in lists of equal length, filled up with a line that no sum has; the sum of each list."""
    nobody, lists, sums = int(np.flatnonzero(owner < 0)[0]), [], []
    for number in np.unique(owner[owner >= 0]).tolist():
        own = np.flatnonzero(owner == number)
        n_lists = -(-len(own) // _LIST)
        lists.append(np.pad(own, (0, n_lists * _LIST - len(own)), constant_values=nobody).reshape(n_lists, _LIST))
        sums += [number] * n_lists
    return np.concatenate(lists), np.array(sums)


def add_outputs(graph: Graph, model: TableModel, game: TreeGame, sums: Sequence[str], n_pairs: int) -> None:
    """From sums to outputs with names."""
    one = game.trees.n_outputs == 1
    base, bias = (each[0] if one else each for each in (game.base, game.trees.base))
    raw = graph.node("Add", graph.node("Squeeze", sums[0], [1]), bias)
    if isinstance(model, HarsanyiClassifier):
        add_classes(graph, model.classes_, raw, one)
    else:
        prediction = graph.node("Exp", raw) if model.loss_.name == "poisson" else raw
        if one and not model.one_target_:
            prediction = graph.node("Unsqueeze", prediction, [1])
        targets = [] if model.one_target_ else [len(model.output_names_)]
        graph.output("prediction", prediction, np.float64, [ROWS, *targets])
    add_values(graph, raw, sums[1], base, game.trees.n_players)
    if n_pairs:
        graph.output("interactions", sums[2], np.float64, [ROWS, n_pairs, *np.shape(base)])


def add_values(graph: Graph, raw: str, values: str, base: Array, n_players: int) -> None:
    """Outputs `shapley`, `base_values` and `raw`; the base is () or (K,)."""
    graph.output("shapley", values, np.float64, [ROWS, n_players, *np.shape(base)])
    graph.output("base_values", base, np.float64, np.shape(base))
    graph.output("raw", raw, np.float64, [ROWS, *np.shape(base)])


def add_classes(graph: Graph, classes: Array, raw: str, one: bool) -> None:
    """Outputs `label` and `probabilities` from logits (rows,) of the second of two classes, or (rows, K)."""
    if one:
        column = graph.node("Unsqueeze", raw, [1])
        both = [graph.node("Sigmoid", graph.node("Neg", column)), graph.node("Sigmoid", column)]
        shares = graph.node("Concat", *both, axis=1)
        chosen = graph.cast(graph.node("Greater", raw, 0.0), np.int64)
    else:
        shares = graph.node("Softmax", raw, axis=1)
        chosen = graph.node("ArgMax", raw, axis=1, keepdims=0)
    known = np.array([str(label) for label in classes], dtype=object)
    if classes.dtype.kind in "iubf":  # in a type that ONNX has
        known = classes.astype({"b": np.bool_, "f": np.float64}.get(classes.dtype.kind, np.int64))
    label = graph.node("Gather", known, chosen, axis=0)
    graph.output("label", label, str if known.dtype == object else known.dtype, [ROWS])
    graph.output("probabilities", shares, np.float64, [ROWS, len(classes)])
