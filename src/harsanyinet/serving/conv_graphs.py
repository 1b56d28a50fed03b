"""Stems and blocks of image networks as parts of an ONNX graph. Needs torch, for the weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from harsanyinet.images.cells import places as neighbours_of
from harsanyinet.images.cells import sizes_of
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.conv_blocks import ResidualPair
from harsanyinet.serving.onnx_graphs import Graph

Array = NDArray[Any]
_CPU = torch.device("cpu")


def add_stem(graph: Graph, stem: nn.Module, x: str) -> str:
    """From images to the map z0, layer by layer; a sentence for a layer of another kind."""
    for layer in stem.children() if isinstance(stem, nn.Sequential) else (stem,):
        if isinstance(layer, nn.Sequential):
            x = add_stem(graph, layer, x)
        elif type(layer) is nn.Conv2d and not isinstance(layer.padding, str) and layer.padding_mode == "zeros":
            weights = [graph.constant(_array(layer.weight))]
            weights += [] if layer.bias is None else [graph.constant(_array(layer.bias))]
            x = graph.node(
                "Conv", [x, *weights], kernel_shape=list(layer.kernel_size), strides=list(layer.stride),
                pads=[*layer.padding, *layer.padding], dilations=list(layer.dilation), group=layer.groups,
            )  # fmt: skip
        elif type(layer) is nn.MaxPool2d and (layer.padding, layer.dilation, layer.ceil_mode) == (0, 1, False):
            kernel, stride = _pair(layer.kernel_size), _pair(layer.stride)
            x = graph.node("MaxPool", [x], kernel_shape=kernel, strides=stride)
        elif type(layer) is nn.BatchNorm2d:
            x = add_norm(graph, layer, x, (-1, 1, 1))
        elif type(layer) is ResidualPair:
            x = graph.node("Relu", [graph.node("Add", [x, add_stem(graph, layer.inner, x)])])
        elif type(layer) is nn.ReLU:
            x = graph.node("Relu", [x])
        elif type(layer) is not nn.Identity:
            raise TypeError(
                "a stem must be made of convolutions, max-pooling, batch normalisation and ReLU to be exported, "
                f"however: it has a {type(layer).__name__}"
            )
    return x


def add_norm(graph: Graph, norm: nn.BatchNorm2d, x: str, shape: tuple[int, ...]) -> str:
    """Batch normalisation in evaluation: a scale and a shift of each channel."""
    scale, shift = _affine(norm)
    wide = graph.node("Mul", [x, graph.constant(scale.reshape(shape), np.float32)])
    return graph.node("Add", [wide, graph.constant(shift.reshape(shape), np.float32)])


def add_location_units(
    graph: Graph, net: HarsanyiCNN, z0: str, present: str, soft_and: Callable[[Graph, str, Array, Array, Any], str]
) -> list[str]:
    """(rows, cells, channels) of blocks whose children are chosen per location."""
    n, zero = net.n_players, graph.constant(0.0, np.float32)
    where, _ = neighbours_of(net.cells, 1, _CPU)
    places = graph.constant(where.numpy().reshape(-1))
    flat = graph.node("Reshape", [z0, graph.constant([0, 0, n], np.int64)])
    z = graph.node("Transpose", [flat], perm=[0, 2, 1])  # (rows, cells, channels)
    there = graph.node("Unsqueeze", [present, graph.constant([2], np.int64)])
    z = graph.node("Where", [there, z, zero])
    is_present, found = graph.cast(present, np.float32), []
    for block in net.blocks:
        chosen = _array(block.child_mask())  # type: ignore[operator]
        sigma = np.zeros((n, n), dtype=np.float32)
        for k in range(9):
            sigma[np.flatnonzero(chosen[:, k]), where.numpy()[chosen[:, k], k]] = 1.0
        near = graph.node("Gather", [z, places], axis=1)
        weight = _array(block.weight)
        c_in = weight.shape[1] // 9
        near = graph.node("Reshape", [near, graph.constant([-1, n, 9, c_in], np.int64)])
        masked = graph.node("Mul", [near, graph.constant(chosen[:, :, None], np.float32)])
        lines = graph.node("Reshape", [masked, graph.constant([-1, n, 9 * c_in], np.int64)])
        total = graph.node("MatMul", [lines, graph.constant(weight.T)])
        if block.gate == "activation":
            z = _activated(graph, block, z, total, sigma, soft_and)
        else:
            out = graph.node("Relu", [add_norm(graph, block.norm, total, (1, 1, -1))])  # type: ignore[arg-type]
            out = graph.node("Add", [out, z]) if block.residual else out
            absent = graph.node("Sub", [graph.constant(1.0, np.float32), is_present])
            n_absent = graph.node("MatMul", [absent, graph.constant(sigma.T)])
            all_there = graph.node("Less", [n_absent, graph.constant(0.5, np.float32)])
            is_present = graph.cast(all_there, np.float32)
            z = graph.node("Where", [graph.node("Unsqueeze", [all_there, graph.constant([2], np.int64)]), out, zero])
        found.append(z)
    return found


def _activated(
    graph: Graph, block: Any, z: str, total: str, sigma: Array,
    soft_and: Callable[[Graph, str, Array, Array, Any], str],
) -> str:  # fmt: skip
    """The paper's unit on a map: sums times the soft AND of the children's sizes."""
    size = graph.node("ReduceSum", [graph.node("Abs", [z]), graph.constant([2], np.int64)], keepdims=0)
    t = graph.node("Tanh", [graph.node("Mul", [size, graph.constant(block.gamma, np.float32)])])
    root = np.maximum(sigma.sum(1), 1) if block.mode == "geometric" else np.ones(len(sigma))
    gate = soft_and(graph, t, sigma, root, np.float32)
    if block.gate_floor:
        large = graph.node("Greater", [gate, graph.constant(block.gate_floor, np.float32)])
        gate = graph.node("Where", [large, gate, graph.constant(0.0, np.float32)])
    gate = graph.node("Unsqueeze", [gate, graph.constant([2], np.int64)])
    return graph.node("Relu", [graph.node("Mul", [total, gate])])


def add_group_units(graph: Graph, net: HarsanyiCNN, z0: str, present: str) -> list[str]:
    """(rows, cells * groups, channels of a group) of blocks whose children are chosen per group of channels."""
    groups, zero = net.settings.groups, graph.constant(0.0, np.float32)
    there = graph.node("Reshape", [present, graph.constant([-1, 1, *net.cells], np.int64)])
    z = graph.node("Where", [there, z0, zero])
    absent, found = graph.cast(graph.node("Not", [there]), np.float32), []
    for block, (height, width) in zip(net.blocks, sizes_of(net.cells, net.settings.steps), strict=True):
        chosen = _array(block.child_mask()).astype(np.float32)  # type: ignore[operator]
        scale, shift = _affine(block.norm)  # type: ignore[arg-type]
        weight = _array(block.weight)
        kernel = (
            weight * np.repeat(chosen, len(weight) // groups, axis=0).reshape(-1, 1, 3, 3) * scale[:, None, None, None]
        )
        read: dict[str, Any] = {
            "kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [block.stride, block.stride],
            "group": 1 if block.first else groups,
        }  # fmt: skip
        sums = graph.node("Conv", [z, graph.constant(kernel, np.float32), graph.constant(shift, np.float32)], **read)
        out = graph.node("Relu", [sums])
        out = graph.node("Add", [out, z]) if block.residual else out
        n_absent = graph.node("Conv", [absent, graph.constant(chosen.reshape(-1, 1, 3, 3))], **read)  # (rows, G, h, w)
        all_there = graph.node("Less", [n_absent, graph.constant(0.5, np.float32)])
        absent = graph.cast(graph.node("Not", [all_there]), np.float32)
        per_group = len(weight) // groups
        apart = graph.node("Reshape", [out, graph.constant([-1, groups, per_group, height, width], np.int64)])
        gated = graph.node("Where", [graph.node("Unsqueeze", [all_there, graph.constant([2], np.int64)]), apart, zero])
        z = graph.node("Reshape", [gated, graph.constant([-1, groups * per_group, height, width], np.int64)])
        cells = graph.node("Transpose", [gated], perm=[0, 3, 4, 1, 2])
        n_units = math.prod((height, width, groups))
        found.append(graph.node("Reshape", [cells, graph.constant([-1, n_units, per_group], np.int64)]))
    return found


def _affine(norm: nn.BatchNorm2d) -> tuple[Array, Array]:
    """The scale and the shift of each channel in evaluation."""
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("batch normalisation must keep running statistics to be exported, however: it does not")
    scale = 1 / np.sqrt(_array(norm.running_var).astype(np.float64) + norm.eps)
    scale = scale if norm.weight is None else scale * _array(norm.weight)
    shift = -_array(norm.running_mean) * scale
    return scale, shift if norm.bias is None else shift + _array(norm.bias)


def _array(tensor: Any) -> Array:
    return np.array(tensor.detach().cpu().numpy())


def _pair(size: Any) -> list[int]:
    return [size, size] if isinstance(size, int) else list(size)
