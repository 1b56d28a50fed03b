"""A model of a table as an ONNX graph: columns -> features -> cells of merged tables -> sums -> named outputs.

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
from harsanyinet.serving.column_graphs import Feature, add_columns, add_presence, features_of
from harsanyinet.serving.merged_tables import MergedTables
from harsanyinet.serving.onnx_graphs import ROWS, Graph
from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables.look_ups import LookUp
from harsanyinet.tables.tree_games import TreeGame

Array = NDArray[Any]
TableModel = HarsanyiClassifier | HarsanyiRegressor
RESERVED = ("present", "probabilities", "prediction", "label", "shapley", "base_values", "raw", "interactions")
_NODE = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
_TARGET = ("treeids", "nodeids", "ids", "weights")
_WIDE = 100  # sums times outputs; above, adding up in lists is quicker than a product of matrices
_LIST = 32


def table_graph(model: TableModel, game: TreeGame, *, interactions: bool) -> tuple[Graph, dict[str, Any]]:
    """The graph of a fitted estimator, and what is to be said of it.

    Args:
        model: Fitted.
        game: Whose values are wanted.
        interactions: Whether the interactions (SII) of all pairs are an output, too.
    """
    trees, coalitions = game.trees, game.coalitions
    weights, pairs = [indices.shares(coalitions)], list[tuple[int, ...]]()
    if interactions:
        pairs, more = pair_weights(coalitions)
        weights.append(more)
    values = LookUp.of_values(trees, full=False)
    planned = joined(values, game.look_up(csr_array(hstack(weights, format="csr")), full=False))
    merged = MergedTables.of(planned, trees.n_outputs)

    graph = Graph(RESERVED)
    matrix, inputs = add_columns(graph, model.columns_)
    features = features_of(model.columns_)
    player_of = trees.player_of[[feature.coded for feature in features]]
    owners = {(player, id(feature.column)) for player, feature in zip(player_of.tolist(), features, strict=True)}
    matrix = add_presence(graph, matrix, player_of, trees.n_players, alone=len(owners) == trees.n_players)
    places = add_places(graph, matrix, features, merged)
    sums = add_sums(graph, places, merged, [1, trees.n_players, len(pairs)])
    add_outputs(graph, model, game, sums, len(pairs))
    names = model.players_.names
    about: dict[str, Any] = {"inputs": inputs, "players": list(names), "outputs": model.output_names_}
    if interactions:
        about["pairs"] = [[names[i] for i in pair] for pair in pairs]
    return graph, about


def joined(first: LookUp, second: LookUp) -> LookUp:
    """Two look-ups about the same states as one: the sums of the first, then those of the second."""
    slots, tables = [], []
    for t, n_states in enumerate(first.paths.n_states.tolist()):
        parts = []
        for each in (first, second):
            own = slice(int(each.slot_ends[t - 1]) if t else 0, int(each.slot_ends[t]))
            start = int(each.starts[t])
            table = each.table[start : start + (own.stop - own.start) * n_states].reshape(-1, n_states)
            parts.append((each.slots[own], table))
        slots.append(np.concatenate([parts[0][0], parts[1][0] + first.n_slots]))
        tables.append(np.concatenate([parts[0][1], parts[1][1]]))
    return LookUp.of(first.paths, slots, tables, first.n_slots + second.n_slots)


def pair_weights(coalitions: Array) -> tuple[list[tuple[int, ...]], csr_array]:
    """All pairs that some coalition contains, and the weights (C, pairs) of the dividends in their interactions."""
    if coalitions.shape[1] < 2:
        return [], csr_array((len(coalitions), 0))
    sets, weights = indices.index_weights(coalitions, "SII", 2)
    chosen = [i for i, members in enumerate(sets) if len(members) == 2]
    return [sets[i] for i in chosen], csr_array(weights[:, chosen])


def add_places(graph: Graph, matrix: str, features: Sequence[Feature], merged: MergedTables) -> str:
    """(rows, G) int32: the cell of each table in which a row is."""
    where = {feature.coded: i for i, feature in enumerate(features)}
    nodes: dict[str, list[Any]] = {name: [] for name in _NODE}
    added: dict[str, list[Any]] = {name: [] for name in _TARGET}
    steps: dict[int, list[tuple[int, list[int]]]] = {}
    for column, table, each in merged.steps:
        steps.setdefault(column, []).append((table, each.tolist()))
    for tree, (column, cuts) in enumerate(merged.cuts.items()):
        feature = features[where[column]]
        for number, (cut, above, below) in enumerate(_search(len(cuts))):
            is_leaf = above < 0
            threshold = 0.0 if is_leaf else feature.above(int(cuts[cut]))
            line = (tree, number, where[column], "LEAF" if is_leaf else "BRANCH_GT", threshold)
            for name, value in zip(nodes, (*line, max(above, 0), max(below, 0)), strict=True):
                nodes[name].append(value)
            for table, step in steps[column] if is_leaf else ():
                if step[cut]:
                    for name, value in zip(added, (tree, number, table, float(step[cut])), strict=True):
                        added[name].append(value)
    attributes: dict[str, Any] = {f"nodes_{name}": values for name, values in nodes.items() if name != "values"}
    attributes |= {f"target_{name}": values for name, values in added.items() if name != "weights"}
    found = graph.node(
        "TreeEnsembleRegressor", [matrix], domain="ai.onnx.ml", n_targets=len(merged.starts), **attributes,
        nodes_values_as_tensor=graph.tensor(np.array(nodes["values"], dtype=np.float64)),
        target_weights_as_tensor=graph.tensor(np.array(added["weights"], dtype=np.float64)),
    )  # fmt: skip
    return graph.node("Add", [graph.cast(found, np.int32), graph.constant(merged.starts)])


def _search(n_cuts: int) -> list[tuple[int, int, int]]:
    """A binary search: (number of the cut, node if above, node if not), or (cuts that it is above, -1, -1)."""
    nodes: list[tuple[int, int, int]] = []

    def grow(low: int, high: int) -> int:
        own = len(nodes)
        nodes.append((low, -1, -1))
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
    found = graph.node("Gather", [graph.constant(cells.reshape(len(cells), -1)), places], axis=0)
    owner = numbers.reshape(-1)
    lines = graph.node("Reshape", [found, graph.constant([-1, len(owner), k], np.int64)])
    if wide:
        lists, owner = _lists(owner)
        taken = graph.node("Gather", [lines, graph.constant(lists.reshape(-1), np.int64)], axis=1)
        apart = graph.node("Reshape", [taken, graph.constant([-1, *lists.shape, k], np.int64)])
        lines = graph.node("ReduceSum", [apart, graph.constant([2], np.int64)], keepdims=0)
    if k > 1:
        lines = graph.node("Transpose", [lines], perm=[0, 2, 1])
    to = np.zeros((len(owner), total))
    to[np.flatnonzero(owner >= 0), owner[owner >= 0]] = 1.0
    # One product of two matrices: of a batch of them, runtimes do not admit an empty one.
    flat = graph.node("Reshape", [lines, graph.constant([-1, len(owner)], np.int64)])
    sums = graph.node("MatMul", [flat, graph.constant(to)])
    if k > 1:
        each = graph.node("Reshape", [sums, graph.constant([-1, k, total], np.int64)])
        sums = graph.node("Transpose", [each], perm=[0, 2, 1])
    used = [part for part in parts if part]
    return graph.nodes("Split", [sums, graph.constant(used, np.int64)], len(used), axis=1)


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
    k: list[str | int] = [] if one else [game.trees.n_outputs]
    empty, base = game.base, game.trees.base
    graph.node("Identity", [graph.constant(empty[0] if one else empty, np.float64)], name="base_values")
    total = graph.node("Squeeze", [sums[0], graph.constant([1], np.int64)])
    raw = graph.node("Add", [total, graph.constant(base[0] if one else base, np.float64)], name="raw")
    if isinstance(model, HarsanyiClassifier):
        add_classes(graph, model.classes_, raw, one)
    else:
        add_prediction(graph, model, raw, one)
    graph.node("Identity", [sums[1]], name="shapley")
    graph.output("shapley", np.float64, [ROWS, game.trees.n_players, *k])
    graph.output("base_values", np.float64, k)
    graph.output("raw", np.float64, [ROWS, *k])
    if n_pairs:
        graph.node("Identity", [sums[2]], name="interactions")
        graph.output("interactions", np.float64, [ROWS, n_pairs, *k])


def add_classes(graph: Graph, classes: Array, raw: str, one: bool) -> None:
    """Outputs `label` and `probabilities` from logits (rows,) of the second of two classes, or (rows, K)."""
    if one:
        column = graph.node("Unsqueeze", [raw, graph.constant([1], np.int64)])
        positive = graph.node("Sigmoid", [column])
        negative = graph.node("Sigmoid", [graph.node("Neg", [column])])
        graph.node("Concat", [negative, positive], axis=1, name="probabilities")
        zero = graph.constant(0.0, np.float64)
        chosen = graph.cast(graph.node("Greater", [raw, zero]), np.int64)
    else:
        graph.node("Softmax", [raw], axis=1, name="probabilities")
        chosen = graph.node("ArgMax", [raw], axis=1, keepdims=0)
    known = labels_of(classes)
    graph.node("Gather", [graph.constant(known), chosen], axis=0, name="label")
    graph.output("label", str if known.dtype == object else known.dtype, [ROWS])
    graph.output("probabilities", np.float64, [ROWS, len(classes)])


def labels_of(classes: Array) -> Array:
    """Labels in a type that ONNX has: whole numbers, doubles, booleans, or text."""
    if classes.dtype.kind in "iub" or classes.dtype.kind == "f":
        return classes.astype({"b": np.bool_, "f": np.float64}.get(classes.dtype.kind, np.int64))
    return np.array([str(label) for label in classes], dtype=object)


def add_prediction(graph: Graph, model: HarsanyiRegressor, raw: str, one: bool) -> None:
    """The output `prediction`, (rows,) or (rows, K)."""
    operator = "Exp" if model.loss_.name == "poisson" else "Identity"
    if one and not model.one_target_:
        wide = graph.node("Unsqueeze", [raw, graph.constant([1], np.int64)])
        graph.node(operator, [wide], name="prediction")
        graph.output("prediction", np.float64, [ROWS, 1])
        return
    graph.node(operator, [raw], name="prediction")
    graph.output("prediction", np.float64, [ROWS] if one else [ROWS, len(model.output_names_)])
