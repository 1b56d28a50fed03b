"""Parts of networks in an ONNX graph: gates, and stems and blocks of image networks. Needs torch, for the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from harsanyinet.images.cells import places as neighbours_of
from harsanyinet.images.cells import sizes_of
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import ResidualPair
from harsanyinet.serving.onnx_graphs import ROWS, Graph

Array = NDArray[Any]


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
