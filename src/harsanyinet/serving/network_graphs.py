"""Networks as ONNX graphs: images or rows -> units of every block -> raw outputs and Shapley values. Needs torch.

The graph has the network's own weights and children, with what evaluation leaves constant folded into them. Whoever
adds a kind of block to the networks adds it here, or the file is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.image_estimator import HarsanyiImageClassifier
from harsanyinet.networks.base import HarsanyiNet
from harsanyinet.networks.blocks import ActivationBlock, PresenceBlock, SameSetBlock
from harsanyinet.networks.mlp import HarsanyiMLP
from harsanyinet.serving.column_graphs import add_present
from harsanyinet.serving.conv_graphs import add_map_units, add_soft_and, all_present, gated, numbers
from harsanyinet.serving.onnx_graphs import ROWS, Graph
from harsanyinet.serving.table_graphs import add_classes, add_values

Array = NDArray[Any]


class Below(NamedTuple):
    """What a dense block of the graph reads.

    Attributes:
        values: (rows, candidates, channels), or (rows, columns) below the first block.
        is_present: (rows, candidates) zeros and ones; empty in the activation gate.
        has_field: (candidates,) zero for one with an empty receptive field.
    """

    values: str
    is_present: str
    has_field: Array


def network_graph(model: Any, *, interactions: bool) -> tuple[Graph, dict[str, Any]]:
    """The graph of a network or of the image classifier, and what is to be said of it."""
    net = model.network_ if isinstance(model, HarsanyiImageClassifier) else model
    if interactions:
        raise ValueError("interactions are exported for models of tables, however: this is a network")
    net.check_mode()
    dtype = numbers(net.base).dtype
    if dtype not in (np.float32, np.float64) or (dtype == np.float64 and not isinstance(net, HarsanyiMLP)):
        raise ValueError(f"convolutions are exported in float32, however: {dtype}; call .float() on a copy first")
    graph = Graph()
    present = add_present(graph, net.n_players)
    if isinstance(net, HarsanyiMLP):
        x = graph.input("x", dtype, [ROWS, net.n_features])
        units = add_dense_units(graph, net, x, present)
    else:
        units = add_map_units(graph, model, net, present, dtype)
    add_answers(graph, model, net, units)
    inputs, outputs = {"input": "x", "takes": "rows, (rows, columns)"}, [f"output {k}" for k in range(net.n_outputs)]
    players = [f"x{i}" for i in range(net.n_players)]
    if isinstance(net, HarsanyiCNN):
        inputs["takes"] = "images, (rows, channels, height, width)"
        players = [f"cell {i},{j}" for i, j in np.ndindex(net.cells)]
    if model is not net:
        inputs = {"input": "images", "takes": "images, (rows, height, width, channels), from 0 to 1"}
        outputs = [str(label) for label in (model.classes_[1:] if net.n_outputs == 1 else model.classes_)]
    return graph, {"inputs": [inputs], "players": players, "outputs": outputs}


def add_dense_units(graph: Graph, net: HarsanyiMLP, x: str, present: str) -> list[str]:
    """(rows, units, channels) of every block."""
    dtype, columns = numbers(net.base).dtype, numbers(net.columns, np.int64)
    there = present
    if net.gate == "presence":  # NaN is absence, and columns of one player are absent together
        holes = graph.cast(graph.node("IsNaN", x), np.float32)
        owner = np.eye(net.n_players, dtype=np.float32)[columns]
        whole = graph.node("Less", graph.node("MatMul", holes, owner), np.float32(0.5))
        there = graph.node("And", present, whole)
    shifted = graph.node("Sub", x, numbers(net.baseline))
    seen = graph.node("Gather", there, columns, axis=1)
    z = graph.node("Where", seen, shifted, np.array(0.0, dtype))
    is_present = graph.cast(there, dtype) if net.gate == "presence" else ""
    below, found = Below(z, is_present, np.ones(net.n_players)), list[Below]()
    for block in net.blocks:
        if found:
            below = joined(graph, found) if net.connect == "all" else found[-1]
        if type(block) not in _BLOCKS:
            raise TypeError(f"blocks that can be exported are those of HarsanyiMLP, however: {type(block).__name__}")
        found.append(_BLOCKS[type(block)](graph, block, below, dtype))
    return [state.values for state in found]


def joined(graph: Graph, states: Sequence[Below]) -> Below:
    """The candidates of several blocks side by side."""
    values = graph.node("Concat", *[state.values for state in states], axis=1)
    is_present = graph.node("Concat", *[state.is_present for state in states], axis=1) if states[0].is_present else ""
    return Below(values, is_present, np.concatenate([state.has_field for state in states]))


def add_activation_block(graph: Graph, block: Any, below: Below, dtype: Any) -> Below:
    """The paper's unit: sums times the soft AND of the children, as `blocks.paper_unit` has it."""
    sigma = numbers(block.child_mask(), dtype)
    n_units, n_below = sigma.shape
    z = graph.node("Reshape", below.values, [-1, n_below])
    gate = add_soft_and(graph, block, graph.node("Abs", z), sigma, dtype)
    total = graph.node("MatMul", z, (numbers(block.weight) * sigma).T)
    units = graph.node("Relu", graph.node("Mul", total, gate))
    return Below(graph.node("Unsqueeze", units, [2]), "", np.ones(n_units))


def add_presence_block(graph: Graph, block: Any, below: Below, dtype: Any) -> Below:
    """Channels of units over their children, zero where one of these is absent."""
    sigma = numbers(block.child_mask(), dtype)
    n_units, channels = len(sigma), block.channels
    weight = numbers(block.weight).reshape(n_units, channels, -1) * sigma[:, numbers(block.owner, np.int64)][:, None]
    has_field = (sigma @ below.has_field > 0).astype(dtype)
    flat = graph.node("Reshape", below.values, [-1, weight.shape[2]])
    sums = graph.node("MatMul", flat, weight.reshape(n_units * channels, -1).T)
    sums = graph.node("Add", sums, np.array(numbers(block.bias) * np.repeat(has_field, channels), dtype))
    units = add_activation(graph, sums, block.activation, dtype)
    shaped = graph.node("Reshape", units, [-1, n_units, channels])
    is_present = all_present(graph, below.is_present, sigma, dtype)
    return Below(gated(graph, shaped, is_present, dtype), is_present, has_field)


def add_same_set_block(graph: Graph, block: Any, below: Below, dtype: Any) -> Below:
    """Units that read the units of the same number in the blocks below."""
    n, channels = block.n_units, block.channels
    parts = graph.node("Reshape", below.values, [-1, block.n_below, n, channels])
    parts = graph.node("Transpose", parts, perm=[0, 2, 1, 3])
    own = graph.node("Reshape", parts, [-1, n, block.n_below * channels])
    has_field = below.has_field[-n:]
    sums = graph.node("Einsum", own, numbers(block.weight), equation="bul,ulc->buc")
    sums = graph.node("Add", sums, np.array(numbers(block.bias) * has_field[:, None], dtype))
    units = add_activation(graph, sums, block.activation, dtype)
    is_present = graph.node("Slice", below.is_present, [-n], [2**31], [1])  # of the units below, the last n
    return Below(gated(graph, units, is_present, dtype), is_present, has_field)


_BLOCKS: dict[type, Callable[[Graph, Any, Below, Any], Below]] = {
    ActivationBlock: add_activation_block,
    PresenceBlock: add_presence_block,
    SameSetBlock: add_same_set_block,
}


def add_activation(graph: Graph, x: str, activation: Callable[..., Any], dtype: Any) -> str:
    """ReLU, tanh, SiLU or GELU."""
    if activation is torch.relu_:
        return graph.node("Relu", x)
    if activation is torch.tanh:
        return graph.node("Tanh", x)
    if activation is torch.nn.functional.silu:
        return graph.node("Mul", x, graph.node("Sigmoid", x))
    if activation is torch.nn.functional.gelu and dtype == np.float32:
        part = graph.node("Erf", graph.node("Mul", x, np.array(0.5**0.5, dtype)))
        both = graph.node("Add", part, np.array(1.0, dtype))
        return graph.node("Mul", graph.node("Mul", x, both), np.array(0.5, dtype))
    name = getattr(activation, "__name__", str(activation))
    raise ValueError(f"activations are exported as relu, tanh, silu, or gelu in float32, however: {name} in {dtype}")


def add_answers(graph: Graph, model: Any, net: HarsanyiNet, units: Sequence[str]) -> None:
    """Raw outputs and Shapley values from the units of all blocks (Theorems 2 and 3), as doubles."""
    structure, k = net.structure(), net.n_outputs
    totals, values = [], []
    for level, (z, readout) in enumerate(zip(units, net.readout_weights(), strict=True)):
        added = graph.node("Einsum", z, numbers(readout), equation="buc,kuc->bku")
        totals.append(graph.node("ReduceSum", added, [2], keepdims=0))
        shares = numbers(structure.shares(level, readout.dtype))
        values.append(graph.node("MatMul", added, shares.T))  # (rows, K, P)
    base, one = numbers(net.base, np.float64), k == 1
    total, spread = (graph.cast(graph.node("Sum", *parts), np.float64) for parts in (totals, values))
    raw = graph.node("Add", total, base)
    if one:
        raw, spread = graph.node("Squeeze", raw, [1]), graph.node("Squeeze", spread, [1])
    else:
        spread = graph.node("Transpose", spread, perm=[0, 2, 1])
    if model is not net:
        add_classes(graph, model.classes_, raw, one)
    else:
        graph.output("prediction", raw, np.float64, [ROWS] if one else [ROWS, k])
    add_values(graph, raw, spread, base[0] if one else base, net.n_players)
