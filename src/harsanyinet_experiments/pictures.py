"""The pictures of the front page, drawn from the result files: `python -m harsanyinet_experiments.pictures`.

Written to docs/pictures: `parts` (a prediction and its parts: the README's own example), `maps` (images and the values
of their cells), `accuracy` and `speed` (wins and losses alike). Nothing is measured here.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harsanyinet.plots import maps, plot_waterfall
from harsanyinet_experiments.document_tables import SHOWN, explanation_speeds, loss_ratios
from harsanyinet_experiments.documents import BLOCK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS, WORSE, OTHERS = "#0072b2", "#d55e00", "#888888"
DPI = 160


def parts(readme: str) -> Figure:
    """The waterfall of the first row that the README's first example explains."""
    code = next(code for language, code, _ in BLOCK.findall(readme) if language == "python")
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "README.md", "exec"), names)
    figure = _figure(7.6, 3.7)
    ax = plot_waterfall(names["ex"], row=0, max_display=7, ax=figure.subplots())
    ax.set_title("one prediction, from what the model says without any column to what it says with all", fontsize=10)
    return figure


def image_maps(result: dict[str, Any]) -> Figure:
    """Images of CIFAR-10 above the exact values of their cells for the true class."""
    masked = result["datasets"]["cifar10"]["masked"]
    figure = _figure(7.6, 3.9)
    lines = figure.subplots(2, len(masked["examples"]))
    for (above, below), image, example in zip(lines.T, masked["images"], masked["examples"], strict=True):
        pixels, values = np.array(image, dtype=np.uint8), np.array(example["values"]["HarsanyiNet"])
        above.imshow(pixels)
        maps.bare(above)
        maps.draw_cells(below, pixels, values.reshape(masked["cells"]), maps.colour_limit(values))
        name = masked["classes"][example["label"]]
        above.set_title(name, fontsize=10)
        base = example["outputs"][example["label"]] - values.sum()
        below.set_title(f"{base:.2f} without any cell\nall cells: {values.sum():+.2f}", fontsize=9)
    return figure


def accuracy(result: dict[str, Any], chosen_on: dict[str, Any]) -> Figure:
    """Our loss divided by that of others on every table; left of the line is better.

    Args:
        result: Of `bench accuracy`, on tables that were looked at last.
        chosen_on: Of `bench defaults`, on tables on which our defaults were chosen, and on samples of few rows.
    """
    figure = _figure(9.0, 5.6)
    left, right = figure.subplots(1, 2)
    _ratios(left, loss_ratios(result), f"{len(result['datasets'])} tables, run at the end")
    ours = chosen_on["models"]["default"]
    against = {peer: ours[f"against_{peer}"] for peer in ("catboost", "lightgbm")}
    few = {
        peer: {f"{size} rows, mean of {one['n_tables']}": one["ratio"] for size, one in row["samples"].items()}
        for peer, row in against.items()
    }
    by_table = {peer: row["by_table"] for peer, row in against.items()}
    _ratios(right, by_table, f"{against['catboost']['n_tables']} tables on which our defaults were chosen", few)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    figure.suptitle("log-loss or RMSE of harsanyinet, divided by that of another model with its defaults", fontsize=11)
    return figure


def _ratios(
    ax: Axes, ratios: dict[str, dict[str, float]], title: str, few: dict[str, dict[str, float]] | None = None
) -> None:
    """A line of points per table, and below these a line per number of rows."""
    from matplotlib.ticker import NullLocator

    tables = sorted(ratios["catboost"], key=lambda table: -ratios["catboost"][table])
    lines = [*(few or {}).get("catboost", {}), *tables]
    spread = 0.035 * len(ratios)  # models apart, lines of a table close
    shifts = np.linspace(spread, -spread, len(ratios))
    for shift, (model, by_table) in zip(shifts, ratios.items(), strict=True):
        every = by_table | (few or {}).get(model, {})
        at = [y for y, line in enumerate(lines) if line in every]
        marker, colour = MARKERS[model]
        ax.scatter(
            [every[lines[y]] for y in at], np.array(at) + shift, s=26, marker=marker, color=colour, label=SHOWN[model],
            zorder=3,
        )  # fmt: skip
    low, high = ax.get_xlim()
    ax.set_xscale("log")
    low, high = max(low, 0.1), max(high, 1.16)
    ticks = [t for t in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0) if low < t < high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8.5)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlim(low, high)
    ax.set_ylim(-0.7, len(lines) - 0.3)
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.axvspan(1.0, ax.get_xlim()[1], color=WORSE, alpha=0.1, linewidth=0)
    ax.set_yticks(range(len(lines)), [line.replace("_", " ") for line in lines], fontsize=8.5)
    ax.tick_params(axis="y", length=0)
    for y in range(len(lines)):
        ax.axhline(y, color="0.9", linewidth=0.6, zorder=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_xlabel("ours is better \N{LEFTWARDS ARROW}   \N{RIGHTWARDS ARROW} worse", fontsize=9)
    ax.set_title(title, fontsize=10)
    if few:
        ax.axhline(len(few["catboost"]) - 0.5, color="black", linewidth=0.6, linestyle=":")


MARKERS = {
    "catboost": ("o", "#d55e00"),
    "lightgbm": ("s", "#0072b2"),
    "xgboost": ("^", "#009e73"),
    "ebm": ("D", "#cc79a7"),
    "ebm_one_bag": ("d", "#cc79a7"),
    "hist_gradient_boosting": ("P", "#56b4e9"),
    "realmlp": ("X", "#777777"),
    "mlp": ("x", "#777777"),
}
"""Marker and colour of each model, the colours of Okabe and Ito."""


def speed(result: dict[str, Any]) -> Figure:
    """Microseconds per explained row, many rows at once and a single one, and how many times ours that is."""
    figure = _figure(9.0, 3.9)
    axes = figure.subplots(1, 2, sharey=True)
    explained = explanation_speeds(result)
    many = {name: us["4096" if "4096" in us else "2"] for name, us in explained.items()}  # the slowest: two rows
    names = sorted(explained, key=lambda name: -many[name])
    _times(axes[0], names, many, [name for name, us in explained.items() if "4096" not in us])
    _times(axes[1], names, {name: us["1"] for name, us in explained.items() if "1" in us})
    for ax, title in zip(axes, ("4,096 rows at once", "a single row"), strict=True):
        ax.set_title(title, fontsize=10)
    axes[0].set_yticks(range(len(names)), names, fontsize=8.5)
    axes[0].get_yticklabels()[names.index("harsanyinet")].set_fontweight("bold")
    figure.suptitle("time for a prediction and its parts, Census, one thread, relative to harsanyinet", fontsize=11)
    return figure


def _times(ax: Axes, names: list[str], times: dict[str, float], two_rows: Collection[str] = ()) -> None:
    """A point per method on a logarithmic scale, joined to ours; faster ones in another colour."""
    own = times["harsanyinet"]
    for y, name in enumerate(names):
        if name not in times:
            ax.annotate(
                "not measured", (own, y), (6, 0), textcoords="offset points", va="center", fontsize=8, color="0.6"
            )
            continue
        time, ratio = times[name], times[name] / own
        colour = OURS if name == "harsanyinet" else OTHERS if ratio > 1 else WORSE
        ax.plot([own, time], [y, y], color=colour, linewidth=1.4, zorder=2)
        ax.scatter([time], [y], s=34, color=colour, zorder=3)
        text = f"{time:,.3g} us" if name == "harsanyinet" else f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2g} x"
        text += " (2 rows)" if name in two_rows else ""
        left = ratio < 1
        ax.annotate(
            text, (time, y), (-7 if left else 7, 0), textcoords="offset points", va="center", fontsize=8.5,
            ha="right" if left else "left", color=WORSE if left else "black",
        )  # fmt: skip
    ax.axvline(own, color=OURS, linewidth=0.8, zorder=1)
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.set_xlim(low / 30, high * 60)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8.5)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_xlabel("microseconds per row", fontsize=9)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def draw(root: Path) -> None:
    """Draws all pictures into docs/pictures."""

    def result(name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((root / f"results/{name}.json").read_text())
        return content

    figures = {
        "parts": parts((root / "README.md").read_text()),
        "maps": image_maps(result("reproduce_image_maps")),
        "accuracy": accuracy(result("bench_accuracy"), result("bench_defaults")),
        "speed": speed(result("bench_speed")),
    }
    folder = root / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=DPI, metadata={"Software": None})


if __name__ == "__main__":
    draw(Path())
