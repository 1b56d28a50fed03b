"""Loops over rows, compiled by numba: histograms, states, gradients, look-ups. Imported only where there are many rows.

Columns stand outside and rows inside. Every kernel releases the interpreter and takes a range of rows or columns, so
that a pool of threads can share the work; sums over rows are taken in chunks of fixed size and added in their order,
which makes the bits independent of the number of threads.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BLOCK = 512  # rows whose states are held at a time

SQUARED, BINARY, POISSON, ABSOLUTE, QUANTILE, MULTICLASS = range(6)


def _compiled(function: Any) -> Any:
    """Compiles without the interpreter's lock; the result is kept beside the package, in a temporary folder, or not.

    Division by zero is numpy's, not an error: a loop that could raise does not take many rows at a time.
    """
    how: Any = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(**how, cache=True)(function)
    except RuntimeError:  # nowhere to keep it: neither the package nor the home folder can be written
        pass
    before = numba.config.CACHE_DIR
    try:
        owner = os.getuid() if hasattr(os, "getuid") else 0
        place = Path(tempfile.gettempdir(), f"harsanyinet-{owner}")
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.stat()
        if found.st_uid != owner or found.st_mode & 0o022:  # what others can write is not to be run
            raise OSError(f"{place} is not ours alone")
        numba.config.CACHE_DIR = str(place)
        return numba.njit(**how, cache=True)(function)
    except (OSError, RuntimeError):
        return numba.njit(**how)(function)
    finally:
        numba.config.CACHE_DIR = before


# Choosing splits -----------------------------------------------------------------------------------------------------


@_compiled
def split_scores(
    bins: Array, columns: Array, first: int, last: int, rows: Array, leaf: Array, stats: Array, n_leaves: int,
    n_bins: Array, l2: float, monotone: Array, scores: Array,
) -> None:  # fmt: skip
    """Gain of every split of columns[first:last]: the sum over leaves of G^2 / (H + l2) of its parts.

    Of the bins (all columns, all rows) those of `rows` (m,) count, each in its leaf (m,), with its statistics
    (m, 1 + G): a weight or second derivative, and gradients. Absent rows, in bin 0, are a part of their own. A split
    against the sign that `monotone` has for a column gains nothing in that leaf. The result is written to `scores`
    (len(columns), most bins), where the split is "bin > position".
    """
    m, q = stats.shape
    g = q - 1
    for at in range(first, last):
        column = columns[at]
        nb = n_bins[column]
        histogram = np.zeros((n_leaves, nb, q))
        own = bins[column]
        if q == 2:
            for i in range(m):
                cell = histogram[leaf[i], own[rows[i]]]
                cell[0] += stats[i, 0]
                cell[1] += stats[i, 1]
        else:
            for i in range(m):
                cell = histogram[leaf[i], own[rows[i]]]
                for k in range(q):
                    cell[k] += stats[i, k]
        sums = np.empty((q, nb))  # of the bins up to one
        gain = np.empty(nb)
        least = max(l2, 1e-300)  # without l2 a part that is empty is worth nothing, too
        sign = monotone[column]
        scores[at] = 0.0
        for u in range(n_leaves):
            absent = 0.0
            for k in range(q):
                total = 0.0
                for t in range(1, nb):
                    total += histogram[u, t, k]
                    sums[k, t] = total
                if k:
                    absent += histogram[u, 0, k] * histogram[u, 0, k]
            absent /= histogram[u, 0, 0] + least
            gain[:] = absent
            below, all_weight = sums[0], sums[0, nb - 1]
            for k in range(1, q):
                own_sums, all_sum = sums[k], sums[k, nb - 1]
                for t in range(1, nb - 1):
                    low, high = own_sums[t], all_sum - own_sums[t]
                    above = all_weight - below[t]
                    above = above if above > 0.0 else 0.0
                    gain[t] += low * low / (below[t] + least) + high * high / (above + least)
            if sign != 0 and g == 1:
                total = sums[1, nb - 1]
                for t in range(1, nb - 1):
                    above = max(all_weight - below[t], 0.0) + least
                    if sign * ((total - sums[1, t]) / above - sums[1, t] / (below[t] + least)) > 0:
                        # gradients rise where values fall: against the constraint, so no gain in this leaf
                        gain[t] = absent + total * total / (all_weight + least)
            for t in range(1, nb - 1):
                scores[at, t] += gain[t]


@_compiled
def best_split(
    scores: Array, columns: Array, n_bins: Array, asked: Array, least: float, noise: float, normals: Array, offset: int
) -> tuple[int, int]:
    """Position and threshold of the highest square root of a score plus noise; position -1 if none is above `least`.

    The columns, and the scores that `split_scores` found for them; `asked` (n, 2) are columns and thresholds that are
    not to be chosen again. Noise is so many times the standard normal numbers (N,) from `offset` on.
    """
    best, where, threshold = -np.inf, -1, -1
    at = offset % len(normals)
    for i in range(len(columns)):
        for t in range(1, n_bins[columns[i]] - 1):
            at += 1
            if at == len(normals):
                at = 0
            if scores[i, t] <= least:
                continue
            root = np.sqrt(scores[i, t])
            if noise > 0.0:
                root += noise * normals[at]
            if root <= best:
                continue
            known = False
            for n in range(len(asked)):
                known |= asked[n, 0] == columns[i] and asked[n, 1] == t
            if not known:
                best, where, threshold = root, i, t
    return where, threshold


@_compiled
def descend(own: Array, threshold: int, rows: Array, leaf: Array) -> int:
    """Moves rows (m,) to the leaves (m,) below a split "bin > threshold", in place; returns how many leaves there are.

    `own` are the bins of the split's column in all rows.
    """
    most = 0
    for i in range(len(rows)):
        most = max(most, leaf[i])
    number = np.zeros(3 * (most + 1), dtype=np.int64)
    for i in range(len(rows)):
        b = own[rows[i]]
        number[3 * leaf[i] + (0 if b == 0 else 2 if b > threshold else 1)] = 1
    n = 0
    for k in range(len(number)):
        if number[k]:
            number[k] = n
            n += 1
    for i in range(len(rows)):
        b = own[rows[i]]
        leaf[i] = number[3 * leaf[i] + (0 if b == 0 else 2 if b > threshold else 1)]
    return n


# States of one tree --------------------------------------------------------------------------------------------------


@_compiled
def tree_states(
    bins: Array, start: int, stop: int, columns: Array, thresholds: Array, steps: Array, state: Array
) -> None:
    """The state of rows start to stop in one tree: the sum of the steps of its questions "bin > threshold"."""
    for begin in range(start, stop, BLOCK):
        n = min(BLOCK, stop - begin)
        found = state[begin : begin + n]
        for r in range(n):
            found[r] = 0
        for level in range(len(columns)):
            own = bins[columns[level], begin : begin + n]
            threshold, step = thresholds[level], steps[level]
            for r in range(n):
                if own[r] > threshold:
                    found[r] += step


@_compiled
def sums_by_state(state: Array, weight: Array, gradient: Array, curvature: Array, out: Array) -> None:
    """Adds weight, gradients and curvatures (rows, K) of the rows into out (states, 1 + 2 K)."""
    k = gradient.shape[1]
    for r in range(len(state)):
        cell = out[state[r]]
        cell[0] += weight[r]
        for j in range(k):
            cell[1 + j] += gradient[r, j]
            cell[1 + k + j] += curvature[r, j]


@_compiled
def average_absent(total: Array, weight: Array, sizes: Array) -> None:
    """Fills the states with an absent digit by sums over all present ones, in place.

    Totals (states, K) and weights (states,) are known where no digit is 0; the last axis runs fastest.
    """
    stride = 1
    n, k = total.shape
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        for s in range(n):
            digit = (s // stride) % size
            if digit:
                to = s - digit * stride
                weight[to] += weight[s]
                for j in range(k):
                    total[to, j] += total[s, j]
        stride *= size


@_compiled
def add_values(state: Array, values: Array, output: Array) -> None:
    """output (rows, K) += values[state]."""
    for r in range(len(state)):
        for j in range(values.shape[1]):
            output[r, j] += values[state[r], j]


@_compiled
def _exp(x: float) -> float:
    """exp(x) of -40 <= x <= 40 to 1e-12 of itself; no branch and no call, so that loops take many rows at a time."""
    r = x * (1.0 / 256.0)
    e = 1.0 + r / 11.0
    e = 1.0 + e * r * (1.0 / 10.0)
    e = 1.0 + e * r * (1.0 / 9.0)
    e = 1.0 + e * r * (1.0 / 8.0)
    e = 1.0 + e * r * (1.0 / 7.0)
    e = 1.0 + e * r * (1.0 / 6.0)
    e = 1.0 + e * r * (1.0 / 5.0)
    e = 1.0 + e * r * (1.0 / 4.0)
    e = 1.0 + e * r * (1.0 / 3.0)
    e = 1.0 + e * r * (1.0 / 2.0)
    e = 1.0 + e * r
    for _ in range(8):  # e is exp(x / 256)
        e *= e
    return e


@_compiled
def gradients(
    loss: int, quantile: float, output: Array, y: Array, weight: Array, gradient: Array, curvature: Array
) -> None:
    """First and second derivatives of the loss by the outputs, (rows, K), times the weights of the rows.

    A binary loss has one output. Targets of several classes are class numbers (rows, 1) or chances (rows, K).
    """
    n, k = output.shape
    if loss == BINARY:
        f, t, g, h = output.reshape(-1), y.reshape(-1), gradient.reshape(-1), curvature.reshape(-1)
        for r in range(len(f)):
            x = -40.0 if f[r] < -40.0 else f[r]
            x = 40.0 if x > 40.0 else x
            p = 1.0 / (1.0 + _exp(-x))
            g[r] = weight[r] * (p - t[r])
            h[r] = weight[r] * p * (1.0 - p)
        return
    if loss == MULTICLASS:
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            for r in range(begin, end):
                most = output[r, 0]
                for j in range(1, k):
                    most = max(most, output[r, j])
                for j in range(k):
                    gradient[r, j] = output[r, j] - most
            e = gradient.reshape(-1)[begin * k : end * k]
            for i in range(len(e)):
                e[i] = _exp(-40.0 if e[i] < -40.0 else e[i])
            for r in range(begin, end):
                total = 0.0
                for j in range(k):
                    total += gradient[r, j]
                for j in range(k):
                    p = gradient[r, j] / total
                    wanted = y[r, j] if y.shape[1] == k else 1.0 if y[r, 0] == j else 0.0
                    gradient[r, j] = weight[r] * (p - wanted)
                    curvature[r, j] = weight[r] * p * (1.0 - p)
        return
    for r in range(n):
        w = weight[r]
        for j in range(k):
            f = output[r, j]
            if loss == SQUARED:
                gradient[r, j] = w * (f - y[r, j])
                curvature[r, j] = w
            elif loss == POISSON:
                mean = np.exp(f)
                gradient[r, j] = w * (mean - y[r, j])
                curvature[r, j] = w * mean
            else:
                share = 0.5 if loss == ABSOLUTE else quantile
                above = y[r, j] > f
                gradient[r, j] = -w * share if above else w * (1.0 - share)
                curvature[r, j] = w


# Many trees ----------------------------------------------------------------------------------------------------------


@_compiled
def look_up(
    bins: Array, start: int, stop: int, level_ends: Array, columns: Array, thresholds: Array, steps: Array,
    slot_ends: Array, slots: Array, table_starts: Array, n_states: Array, table: Array, out: Array,
) -> None:  # fmt: skip
    """Adds what every tree says about rows start to stop: out[slot, row] += its table at the row's state.

    The bins are (columns, rows) uint8; all else but `out` is what `Paths` and `LookUp` hold.
    """
    state = np.empty(BLOCK, dtype=np.uint16)
    for begin in range(start, stop, BLOCK):
        n = min(BLOCK, stop - begin)
        level, slot = 0, 0
        for t in range(len(level_ends)):
            for r in range(n):
                state[r] = 0
            while level < level_ends[t]:
                own = bins[columns[level], begin : begin + n]
                threshold, step = thresholds[level], steps[level]
                for r in range(n):
                    if own[r] > threshold:
                        state[r] += step
                level += 1
            at = table_starts[t]
            while slot < slot_ends[t]:
                to = out[slots[slot], begin : begin + n]
                own_table = table[at : at + n_states[t]]
                for r in range(n):
                    to[r] += own_table[state[r]]
                at += n_states[t]
                slot += 1


@_compiled
def look_up_folded(
    bins: Array, start: int, stop: int, columns: Array, maps: Array, slot_ends: Array, slots: Array,
    table_starts: Array, n_states: Array, table: Array, out: Array,
) -> None:  # fmt: skip
    """As `look_up`, of tables over the cells of two columns: a cell is the sum of two numbers that bins stand for.

    The bins are (columns, rows) uint8; all else but `out` is what `Folded` holds.
    """
    state = np.empty(8 * BLOCK, dtype=np.int32)
    for begin in range(start, stop, 8 * BLOCK):
        n = min(8 * BLOCK, stop - begin)
        slot = 0
        for g in range(len(columns)):
            one, two = bins[columns[g, 0], begin : begin + n], bins[columns[g, 1], begin : begin + n]
            first, second = maps[g, 0], maps[g, 1]
            for r in range(n):
                state[r] = first[one[r]] + second[two[r]]
            at = table_starts[g]
            while slot < slot_ends[g]:
                to = out[slots[slot], begin : begin + n]
                own_table = table[at : at + n_states[g]]
                for r in range(n):
                    to[r] += own_table[state[r]]
                at += n_states[g]
                slot += 1


@_compiled
def count_states(
    bins: Array, start: int, stop: int, level_ends: Array, columns: Array, thresholds: Array, steps: Array,
    state_starts: Array, counts: Array,
) -> None:  # fmt: skip
    """Adds rows start to stop to the counts of their states in every tree."""
    state = np.empty(BLOCK, dtype=np.uint16)
    for begin in range(start, stop, BLOCK):
        n = min(BLOCK, stop - begin)
        level = 0
        for t in range(len(level_ends)):
            for r in range(n):
                state[r] = 0
            while level < level_ends[t]:
                own = bins[columns[level], begin : begin + n]
                threshold, step = thresholds[level], steps[level]
                for r in range(n):
                    if own[r] > threshold:
                        state[r] += step
                level += 1
            for r in range(n):
                counts[state_starts[t] + state[r]] += 1


@_compiled
def find_bins(values: Array, borders: Array, shift: int, missing: int, out: Array) -> None:
    """The bin of each number: shift + how many borders lie below the number; `missing` for NaN."""
    n = len(borders)
    for r in range(len(values)):
        x = values[r]
        if x != x:
            out[r] = missing
            continue
        low = 0
        length = n
        while length > 0:  # the number of borders < x
            half = length >> 1
            if borders[low + half] < x:
                low += half + 1
                length -= half + 1
            else:
                length = half
        out[r] = shift + low
