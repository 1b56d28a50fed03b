"""Maps of Shapley values over images. They draw on matplotlib axes and compute nothing of their own.

Red is for, blue is against; the stronger a cell, the less of the picture shines through. The scale is symmetric about
zero, and one scale serves all maps of a figure, so that colours can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harsanyinet.explanations.explanation import Explanation
from harsanyinet.plots.drawing import new_axes, one_row, values_of_outputs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[Any]
COLOURS = "RdBu_r"  # safe for all eyes


def plot_map(
    ex: Explanation,
    image: ArrayLike,
    row: int = 0,
    output: str | int | None = None,
    *,
    cells: tuple[int, int] | None = None,
    limit: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The Shapley value of every cell for one class, over the image.

    Args:
        ex: An explanation whose players are the cells of an image, row by row.
        image: (height, width) or (height, width, channels), uint8 or floats from 0 to 1.
        row: Position of the image in the explanation.
        output: Name or position of the class; by default the image's largest output.
        cells: Height and width of the map; by default as the cells are named, or square.
        limit: The value at full colour; by default all but one in 200 of the map's values lie below.
        ax: Where to draw.
    """
    values, _, _, k = one_row(ex, row, output)
    ax = new_axes(ax, 3.2, 3.2)
    draw_cells(ax, image, values.reshape(_cells(ex, cells)), colour_limit(values) if limit is None else limit)
    ax.set_title(f"{ex.output_names[k]}: {values.sum():+.2f}", fontsize=10)
    return ax


def plot_maps(
    ex: Explanation,
    images: ArrayLike,
    outputs: Sequence[str | int] | None = None,
    *,
    cells: tuple[int, int] | None = None,
    titles: Sequence[str] | None = None,
) -> Figure:
    """A line per image of an explanation: the picture, then one map per class, all on one scale.

    Arguments as for `plot_map`, for N images; `outputs` are by default all classes, `titles` stand beside the images.
    """
    from matplotlib import pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    pictures = np.asarray(images)
    if len(pictures) != len(ex):
        raise ValueError(f"images must be those of the explanation, {len(ex)}, however: {len(pictures)}")
    chosen = [ex.output_position(o, 0) for o in (ex.output_names if outputs is None else outputs)]
    values = values_of_outputs(ex).astype(np.float64)[:, :, chosen]
    limit, shape = colour_limit(values), _cells(ex, cells)
    size = (1.25 * len(chosen) + 2.05, 1.35 * len(ex) + 0.3)
    figure, axes = plt.subplots(len(ex), len(chosen) + 1, figsize=size, squeeze=False, layout="constrained")
    for i, line in enumerate(axes):
        line[0].imshow(pictures[i].squeeze(), cmap="gray")
        bare(line[0])
        if titles is not None:
            line[0].set_ylabel(titles[i], fontsize=8)
        best = int(ex.outputs.reshape(len(ex), -1)[i].argmax()) if len(ex.output_names) > 1 else -1
        for ax, k, column in zip(line[1:], chosen, values[i].T, strict=True):
            draw_cells(ax, pictures[i], column.reshape(shape), limit)
            weight = "bold" if k == best else "normal"
            ax.set_title(f"{ex.output_names[k]}: {column.sum():+.1f}", fontsize=8, fontweight=weight)
    colours, extend = ScalarMappable(Normalize(-limit, limit), COLOURS), np.abs(values).max() > limit
    scale = figure.colorbar(
        colours, ax=axes, shrink=min(1.0, 2.5 / len(ex) + 0.3), pad=0.01, extend="both" if extend else "neither"
    )
    scale.set_label(f"Shapley value ({ex.scale or 'output'})", fontsize=8)
    scale.ax.tick_params(labelsize=7)
    return figure


def plot_cell_interactions(
    ex: Explanation,
    image: ArrayLike,
    row: int = 0,
    output: str | int | None = None,
    k: int = 6,
    *,
    at_least: int = 2,
    cells: tuple[int, int] | None = None,
) -> Figure:
    """The k strongest interactions of one image: which cells act together, and what they add.

    Arguments as for `plot_map`. Sets of fewer than `at_least` cells are left out; 1 shows what cells add by themselves,
    too.
    """
    from matplotlib import pyplot as plt

    row = ex.row_position(row)
    name = ex.output_names[ex.output_position(output, row)]
    top = ex.top_interactions(row, k, output, at_least=at_least)
    if not top.sets:
        raise ValueError(f"some set must hold at least {at_least} cells, however: none does; pass a smaller at_least")
    shape = _cells(ex, cells)
    limit, n = float(np.abs(top.values).max(initial=1e-300)), len(top.sets)
    figure, axes = plt.subplots(1, n, figsize=(1.7 * n, 2.1), squeeze=False, layout="constrained")
    for ax, members, value in zip(axes[0], top.sets, top.values, strict=True):
        held = np.zeros(ex.n_features)
        held[list(members)] = value
        draw_cells(ax, image, held.reshape(shape), limit)
        ax.set_title(f"{len(members)} cell{'s' * (len(members) > 1)}: {value:+.2f}", fontsize=9)
    figure.suptitle(f"strongest interactions for {name}", fontsize=10)
    return figure


def draw_cells(ax: Axes, image: ArrayLike, values: Array, limit: float) -> None:
    """A picture in grey with one translucent square per cell, (height, width) of values up to the limit."""
    from matplotlib import colormaps

    grey = _grey(image)
    height, width = grey.shape
    ax.imshow(1 - 0.3 * (1 - grey), cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    share = np.clip(values / limit, -1, 1)
    colours = colormaps[COLOURS](0.5 + 0.5 * share)
    colours[..., 3] = 0.85 * np.abs(share) ** 0.6
    ax.imshow(colours, extent=(0, width, height, 0), interpolation="nearest")
    bare(ax)


def bare(ax: Axes) -> None:
    """No ticks, a faint frame."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color("0.8")


def _grey(image: ArrayLike) -> Array:
    """(height, width) from 0 to 1."""
    array = np.asarray(image)
    array = array / 255 if array.dtype.kind in "iu" else array.astype(np.float64)
    if array.ndim == 3:
        array = array.mean(2)
    if array.ndim != 2:
        raise ValueError(f"image must be (height, width) or (height, width, channels), however: {np.shape(image)}")
    return np.asarray(array)


def _cells(ex: Explanation, cells: tuple[int, int] | None) -> tuple[int, int]:
    n = ex.n_features
    if cells is None:
        last = re.fullmatch(r"cell (\d+),(\d+)", ex.feature_names[-1])  # as an image classifier names its cells
        cells = (int(last[1]) + 1, int(last[2]) + 1) if last else (round(n**0.5),) * 2
    height, width = cells
    if height * width != n:
        raise ValueError(f"cells must be the height and width of a map of {n} cells, however: {height} x {width}")
    return height, width


def colour_limit(values: Array) -> float:
    """The value at full colour: a few strong cells must not make all others pale."""
    sizes = np.abs(values).ravel()
    return (float(np.quantile(sizes, 0.995)) or float(sizes.max())) if sizes.any() else 1.0
