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
from torch import nn

from harsanyinet.images.cells import places as neighbours_of
from harsanyinet.images.cells import sizes_of
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import ResidualPair
from harsanyinet.images.image_estimator import HarsanyiImageClassifier
from harsanyinet.networks.base import HarsanyiNet
from harsanyinet.networks.blocks import ActivationBlock, PresenceBlock, SameSetBlock
from harsanyinet.networks.mlp import HarsanyiMLP
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
    present = graph.present(net.n_players)
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


# Gates ---------------------------------------------------------------------------------------------------------------


def numbers(tensor: Any, dtype: Any = None) -> Array:
    """A tensor as an array."""
    return np.array(tensor.detach().cpu().numpy(), dtype=dtype)


def add_soft_and(graph: Graph, block: Any, size: str, sigma: Array, dtype: Any) -> str:
    """(rows, D) -> (rows, U): the soft AND of the children's sizes, exactly zero where a child is."""
    root = np.maximum(sigma.sum(1), 1) if block.mode == "geometric" else np.ones(len(sigma))
    tiny = float(np.finfo(dtype).tiny)
    t = graph.node("Tanh", graph.node("Mul", size, np.array(block.gamma, dtype)))
    logs = graph.node("Log", graph.node("Max", t, np.array(tiny, dtype)))
    dead = graph.cast(graph.node("Less", t, np.array(1.01 * tiny, dtype)), dtype)
    total = graph.node("MatMul", logs, np.array((sigma / root[:, None]).T, dtype))
    n_dead = graph.node("MatMul", dead, np.array(sigma.T, dtype))
    gate = graph.node("Exp", graph.node("Max", total, np.array(0.95 * np.log(tiny), dtype)))
    large = graph.node("Greater", gate, np.array(1.01 * tiny**0.95, dtype))
    opened = graph.node("And", graph.node("Less", n_dead, np.array(0.5, dtype)), large)
    return graph.node("Where", opened, gate, np.array(0.0, dtype))


def all_present(graph: Graph, is_present: str, sigma: Array, dtype: Any) -> str:
    """(rows, U) zeros and ones: whether all children are present."""
    absent = graph.node("Sub", np.array(1.0, dtype), is_present)
    n_absent = graph.node("MatMul", absent, np.array(sigma.T, dtype))
    return graph.cast(graph.node("Less", n_absent, np.array(0.5, dtype)), dtype)


def gated(graph: Graph, units: str, is_present: str, dtype: Any) -> str:
    """(rows, U, channels): zero where a unit is absent."""
    there = graph.cast(graph.node("Unsqueeze", is_present, [2]), np.bool_)
    return graph.node("Where", there, units, np.array(0.0, dtype))


# Dense blocks --------------------------------------------------------------------------------------------------------


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


# Images --------------------------------------------------------------------------------------------------------------


def add_map_units(graph: Graph, model: Any, net: HarsanyiCNN, present: str, dtype: Any) -> list[str]:
    """(rows, units, channels) of every block."""
    if model is net:
        x = graph.input("x", dtype, [ROWS, net.in_channels, *net.image_size])
    else:
        images = graph.input("images", dtype, [ROWS, *model.image_shape_])
        x = graph.node("Transpose", images, perm=[0, 3, 1, 2])
        mean, scale = (np.array(v, dtype=dtype)[:, None, None] for v in (model.mean_, model.scale_))
        x = graph.node("Div", graph.node("Sub", x, mean), scale)
    z0 = add_stem(graph, net.stem, x)
    if net.settings.children == "location":
        return add_location_units(graph, net, z0, present)
    return add_group_units(graph, net, z0, present)


def add_stem(graph: Graph, stem: nn.Module, x: str) -> str:
    """From images to the map z0, layer by layer; a sentence for a layer of another kind."""
    for layer in stem.children() if isinstance(stem, nn.Sequential) else (stem,):
        if isinstance(layer, nn.Sequential):
            x = add_stem(graph, layer, x)
        elif type(layer) is nn.Conv2d and not isinstance(layer.padding, str) and layer.padding_mode == "zeros":
            weights = [numbers(weight) for weight in (layer.weight, layer.bias) if weight is not None]
            x = graph.node(
                "Conv", x, *weights, kernel_shape=list(layer.kernel_size), strides=list(layer.stride),
                pads=[*layer.padding, *layer.padding], dilations=list(layer.dilation), group=layer.groups,
            )  # fmt: skip
        elif type(layer) is nn.MaxPool2d and (layer.padding, layer.dilation, layer.ceil_mode) == (0, 1, False):
            kernel, stride = (np.broadcast_to(size, 2).tolist() for size in (layer.kernel_size, layer.stride))
            x = graph.node("MaxPool", x, kernel_shape=kernel, strides=stride)
        elif type(layer) is nn.BatchNorm2d:
            x = add_norm(graph, layer, x, (-1, 1, 1))
        elif type(layer) is ResidualPair:
            x = graph.node("Relu", graph.node("Add", x, add_stem(graph, layer.inner, x)))
        elif type(layer) is nn.ReLU:
            x = graph.node("Relu", x)
        elif type(layer) is not nn.Identity:
            raise TypeError(
                "a stem must be made of convolutions, max-pooling, batch normalisation and ReLU to be exported, "
                f"however: it has a {type(layer).__name__}"
            )
    return x


def add_norm(graph: Graph, norm: nn.BatchNorm2d, x: str, shape: tuple[int, ...]) -> str:
    """Batch normalisation in evaluation: a scale and a shift of each channel."""
    scale, shift = _affine(norm)
    wide = graph.node("Mul", x, np.array(scale.reshape(shape), np.float32))
    return graph.node("Add", wide, np.array(shift.reshape(shape), np.float32))


def add_location_units(graph: Graph, net: HarsanyiCNN, z0: str, present: str) -> list[str]:
    """(rows, cells, channels) of blocks whose children are chosen per location."""
    n = net.n_players
    where = neighbours_of(net.cells, 1, torch.device("cpu"))[0].numpy()
    flat = graph.node("Reshape", z0, [0, 0, n])
    is_present, found = graph.cast(present, np.float32), []
    z = gated(graph, graph.node("Transpose", flat, perm=[0, 2, 1]), is_present, np.float32)
    for block in net.blocks:
        chosen = numbers(block.child_mask())  # type: ignore[operator]
        sigma = np.zeros((n, n), dtype=np.float32)
        for k in range(9):
            sigma[np.flatnonzero(chosen[:, k]), where[chosen[:, k], k]] = 1.0
        weight = numbers(block.weight)
        near = graph.node("Gather", z, where, axis=1)  # (rows, cells, 9, channels)
        masked = graph.node("Mul", near, np.array(chosen[:, :, None], np.float32))
        lines = graph.node("Reshape", masked, [-1, n, weight.shape[1]])
        total = graph.node("MatMul", lines, weight.T)
        if block.gate == "activation":
            size = graph.node("ReduceSum", graph.node("Abs", z), [2], keepdims=0)
            gate = add_soft_and(graph, block, size, sigma, np.float32)
            if block.gate_floor:
                large = graph.node("Greater", gate, np.array(block.gate_floor, np.float32))
                gate = graph.node("Where", large, gate, np.float32(0.0))
            gate = graph.node("Unsqueeze", gate, [2])
            z = graph.node("Relu", graph.node("Mul", total, gate))
        else:
            out = graph.node("Relu", add_norm(graph, block.norm, total, (1, 1, -1)))  # type: ignore[arg-type]
            out = graph.node("Add", out, z) if block.residual else out
            is_present = all_present(graph, is_present, sigma, np.float32)
            z = gated(graph, out, is_present, np.float32)
        found.append(z)
    return found


def add_group_units(graph: Graph, net: HarsanyiCNN, z0: str, present: str) -> list[str]:
    """(rows, cells * groups, channels of a group) of blocks whose children are chosen per group of channels."""
    groups, zero = net.settings.groups, np.float32(0.0)
    there = graph.node("Reshape", present, [-1, 1, *net.cells])
    z = graph.node("Where", there, z0, zero)
    found = []
    for block, (height, width) in zip(net.blocks, sizes_of(net.cells, net.settings.steps), strict=True):
        chosen = numbers(block.child_mask(), np.float32).reshape(-1, 1, 3, 3)  # type: ignore[operator]
        scale, shift = _affine(block.norm)  # type: ignore[arg-type]
        weight = numbers(block.weight)
        per_group = len(weight) // groups
        kernel = weight * np.repeat(chosen, per_group, axis=0) * scale[:, None, None, None]
        read: dict[str, Any] = {
            "kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [block.stride, block.stride],
            "group": 1 if block.first else groups,
        }  # fmt: skip
        sums = graph.node("Conv", z, np.array(kernel, np.float32), np.array(shift, np.float32), **read)
        out = graph.node("Relu", sums)
        out = graph.node("Add", out, z) if block.residual else out
        absent = graph.cast(graph.node("Not", there), np.float32)
        n_absent = graph.node("Conv", absent, chosen, **read)  # (rows, G, h, w)
        there = graph.node("Less", n_absent, np.float32(0.5))
        apart = graph.node("Reshape", out, [-1, groups, per_group, height, width])
        each = graph.node("Where", graph.node("Unsqueeze", there, [2]), apart, zero)
        z = graph.node("Reshape", each, [-1, groups * per_group, height, width])
        cells = graph.node("Transpose", each, perm=[0, 3, 4, 1, 2])
        found.append(graph.node("Reshape", cells, [-1, height * width * groups, per_group]))
    return found


def _affine(norm: nn.BatchNorm2d) -> tuple[Array, Array]:
    """The scale and the shift of each channel in evaluation."""
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("batch normalisation must keep running statistics to be exported, however: it does not")
    scale = 1 / np.sqrt(numbers(norm.running_var).astype(np.float64) + norm.eps)
    scale = scale if norm.weight is None else scale * numbers(norm.weight)
    shift = -numbers(norm.running_mean) * scale
    return scale, shift if norm.bias is None else shift + numbers(norm.bias)


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
