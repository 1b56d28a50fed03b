"""Puts the tables of result files into the documents: `python -m harsanyinet.experiments.documents`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from harsanyinet import files
from harsanyinet.experiments import image_paper, reproduce
from harsanyinet.experiments.image_tables import NAMES

PAGES = ("README.md", "docs/REPRODUCTION.md")
SECTION = re.compile(r"(<!-- results/(\w+)\.json(, in short)? -->\n).*?(?=<!-- end -->)", re.DOTALL)


def fill(text: str, root: Path) -> str:
    """A page with every marked section made anew from its result file."""

    def anew(section: re.Match[str]) -> str:
        head, name, short = section.groups(default="")
        return head + TABLES[name + short](json.loads((root / f"results/{name}.json").read_text())) + "\n"

    return SECTION.sub(anew, text)


def exactness(result: dict[str, Any]) -> str:
    """The paper's Census configuration beside the paper's figures."""
    lines = [
        "| Census, the paper's configuration | accuracy | error (RMSE) float32 | float64 | max abs(logit) |",
        "| --- | --- | --- | --- | --- |",
        f"| the paper | {result['paper']['accuracy']} % | {result['paper']['rmse']:.2e} | | |",
    ]
    for name, ours in result["ours"].items():
        lines.append(
            f"| ours, {name} | {ours['accuracy']:.2f} % | {ours['rmse_float32']:.2e} | {ours['rmse_float64']:.2e} | "
            f"{ours['max_logit']:.1f} |"
        )
    return "\n".join(lines)


def core(result: dict[str, Any]) -> str:
    """Ratios at the largest batch."""
    lines = [
        "| players | network | prediction / plain MLP | explanation / prediction | us per explained row | peak MiB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in result["rows"]:
        if "peak_mib" in row:
            lines.append(
                f"| {row['case']['n']:,} | {row['label']} | {row['forward/plain']:.2f} | "
                f"{row['explain/forward']:.2f} | {row['explain_us_per_row']:.1f} | {row['peak_mib']['explain']} |"
            )
    return "\n".join(lines)


def accuracy(result: dict[str, Any]) -> str:
    """Accuracy or R2 of every model on every dataset, with mean ranks."""
    from harsanyinet.experiments.bench_accuracy import DATASETS

    ranks, losses = result["mean_rank_by_accuracy_or_r2"], result["mean_rank_by_log_loss_or_rmse"]
    datasets = result["datasets"]
    models = list(dict.fromkeys(model for rows in datasets.values() for model in rows))
    whole = {d: {m: row for m, row in rows.items() if row["folds"] == DATASETS[d][1]} for d, rows in datasets.items()}
    best = {d: max((_score(row)["mean"] for row in rows.values()), default=None) for d, rows in whole.items()}
    head = [f"{d}{' (R2)' if 'r2' in next(iter(rows.values())) else ''}" for d, rows in datasets.items()]
    lines = [
        "| " + " | ".join(["model", *head, "mean rank", "by loss"]) + " |",
        "| --- " * (len(datasets) + 3) + "|",
    ]
    for model in sorted(models, key=lambda m: ranks.get(m, 99.0)):
        cells = []
        for dataset, rows in datasets.items():
            if model not in rows:
                cells.append("")
                continue
            score = _score(rows[model])
            text = f"{100 * score['mean']:.2f}" + (
                f" ± {100 * score['standard_error']:.2f}" if score["standard_error"] is not None else ""
            )
            if model not in whole[dataset]:
                text += f" ({rows[model]['folds']} of {DATASETS[dataset][1]} folds)"
            cells.append(f"**{text}**" if model in whole[dataset] and score["mean"] == best[dataset] else text)
        rank = [f"{of[model]:.2f}" if model in of else "" for of in (ranks, losses)]
        lines.append("| " + " | ".join([model, *cells, *rank]) + " |")
    return "\n".join(lines)


def _score(row: dict[str, Any]) -> dict[str, Any]:
    return next(row[name] for name in ("accuracy", "r2") if name in row)


def speed(result: dict[str, Any]) -> str:
    """Microseconds per row of everything that was timed on Census, and how many times ours that is."""
    us = {row["name"]: row["us"] for row in result["rows"] if "us" in row}
    own = us["harsanyinet: predict + values"]
    lines = [
        "| Census, us per row | batch of 1 | batch of 4,096 | times ours |",
        "| --- | --- | --- | --- |",
    ]
    for name, times in us.items():
        large = times.get("4096", times.get("2"))
        shown = f"{large:,.1f}" + ("" if "4096" in times else " (2 rows)")
        one = f"{times['1']:,.0f}" if "1" in times else ""
        times_ours = float(f"{large / own['4096']:.2g}")  # two digits
        lines.append(f"| {name} | {one} | {shown} | {times_ours:,.{0 if times_ours >= 10 else 2}f} |")
    return "\n".join(lines)


def subsets(result: dict[str, Any]) -> str:
    """One model of ours beside models retrained on each subset of the columns."""
    lines = [
        "| 30 random subsets of the columns | ours, one model | LightGBM, retrained each time | ratio |",
        "| --- | --- | --- | --- |",
    ]
    for dataset, row in result["summary"].items():
        loss = "log_loss" if "log_loss" in row["harsanyinet"] else "rmse"
        ours, theirs = row["harsanyinet"][loss], row["lightgbm"][loss]
        lines.append(f"| {dataset}, mean {loss} | {ours:.4f} | {theirs:.4f} | {row[f'{loss} ratio']:.3f} |")
    return "\n".join(lines)


def large(result: dict[str, Any]) -> str:
    """A million rows."""
    seconds, threads = result["seconds"], result["threads"]
    return (
        f"{result['rows']:,} made-up rows of {result['columns']} columns on {threads} thread{'s' * (threads > 1)}: "
        f"fitted in {seconds['fit']:,.0f} s, all rows explained in {seconds['explain all rows']:.0f} s, "
        f"{result['peak_gib']:.1f} GiB at the peak; log-loss {result['log_loss']:.4f} on new rows, where knowing the "
        f"true chances gives {result['log_loss_of_the_true_chances']:.4f}."
    )


def images(result: dict[str, Any]) -> str:
    """What the image networks reach, without the rivals."""
    lines = [
        "| dataset | network | accuracy, paper | ours | half of the cells hidden | error, paper | float32 | float64 | "
        "pixels per cell | minutes to train |",
        "| --- " * 10 + "|",
    ]
    for dataset, methods in result["datasets"].items():
        published = result["paper"][dataset]["harsanyinet"]
        for method in (name for name in ("default", "masked", "paper") if name in methods):
            row = methods[method]
            lines.append(
                f"| {image_paper.DATASETS[dataset]} | {NAMES[method]}, {row['size']} | {published[0]} | "
                f"{row['accuracy']:.2f} | {row['accuracy_half_hidden']:.2f} | {published[1]} | "
                f"{row['rmse_float32']:.2e} | {row['rmse_float64']:.2e} | "
                f"{' x '.join(map(str, row['pixels_per_cell']))} | {row['train_seconds'] / 60:.2g} |"
            )
    return "\n".join(lines)


TABLES = {
    "bench_core": core,
    "bench_exactness": exactness,
    "bench_accuracy": accuracy,
    "bench_speed": speed,
    "bench_subsets": subsets,
    "bench_large": large,
    "reproduce_image_table1, in short": images,
    **{reproduce.stem(name): experiment.table for name, experiment in reproduce.experiments().items()},
}

if __name__ == "__main__":
    for page in map(Path, PAGES):
        files.write_beside(page, fill(page.read_text(), Path()).encode())
