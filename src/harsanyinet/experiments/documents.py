"""Puts the tables of result files into the documents: `python -m harsanyinet.experiments.documents`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from harsanyinet import files
from harsanyinet.experiments import image_paper, reproduce
from harsanyinet.experiments.image_tables import NAMES

PAGES = ("README.md", "docs/REPRODUCTION.md", "docs/DEPTH.md")
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
    """Accuracy or R2 of every model on every dataset, mean ranks, and losses relative to those of others."""
    from harsanyinet.experiments.bench_accuracy import DATASETS

    ranks, losses = result["mean_rank_by_accuracy_or_r2"], result["mean_rank_by_log_loss_or_rmse"]
    datasets, ratios = result["datasets"], result.get("loss_ratios", {})
    models = list(dict.fromkeys(model for rows in datasets.values() for model in rows))
    whole = {d: {m: row for m, row in rows.items() if row["folds"] == DATASETS[d][1]} for d, rows in datasets.items()}
    best = {d: max((_score(row)["mean"] for row in rows.values()), default=None) for d, rows in whole.items()}
    head = [f"{d}{' (R2)' if 'r2' in next(iter(rows.values())) else ''}" for d, rows in datasets.items()]
    head = ["model", *head, "mean rank", "by loss", *(f"loss, relative {peer}" for peer in ratios)]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
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
        cells += [f"{of[model]:.2f}" if model in of else "" for of in (ranks, losses)]
        cells += [_ratio(of.get(model, {})) for of in ratios.values()]
        lines.append(f"| {' | '.join([model, *cells])} |")
    return "\n".join(lines)


def _score(row: dict[str, Any]) -> dict[str, Any]:
    return next(row[name] for name in ("accuracy", "r2") if name in row)


def _ratio(one: dict[str, Any]) -> str:
    """A ratio of losses with its error."""
    if not one:
        return ""
    return f"{one['ratio']:.3f}" + (f" ± {one['standard_error']:.3f}" if one["standard_error"] is not None else "")


def defaults(result: dict[str, Any]) -> str:
    """What was tried on the tables that are kept for choosing."""
    sizes = list(
        dict.fromkeys(size for row in result["models"].values() for one in row.values() for size in one["samples"])
    )
    head = [
        "loss, relative to",
        "model",
        "whole tables",
        "wins",
        "worst table",
        *(f"{n} rows" for n in sizes),
        "fit time",
    ]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for peer in ("catboost", "lightgbm"):
        for model, row in result["models"].items():
            if one := row.get(f"against_{peer}"):
                cells = [peer, model, _ratio(one), f"{one['wins']} of {one['n_tables']}"]
                cells.append(f"{one['worst']['table']} {one['worst']['ratio']:.3f}")
                cells += [_ratio(one["samples"].get(size, {})) for size in sizes]
                lines.append(f"| {' | '.join([*cells, format(one['fit_time_ratio'], '.2f')])} |")
    return "\n".join(lines)


def speed(result: dict[str, Any]) -> str:
    """Microseconds per row of everything that was timed on Census, and how many times ours that is."""
    own = next(row["us"] for row in result["rows"] if row["name"] == "harsanyinet: predict + values")
    lines = [
        "| Census, us per row | batch of 1 | batch of 4,096 | times ours |",
        "| --- | --- | --- | --- |",
    ]
    for row in result["rows"]:
        if "seconds" in row:
            lines.append(f"| {row['name']} | | {row['seconds']:.1f} s | |")
        if "us" in row:
            us = row["us"]
            one = f"{us['1']:,.0f}" if "1" in us else ""
            large = next((us[batch] for batch in ("4096", "2") if batch in us), None)
            shown = "" if large is None else f"{large:,.1f}" + ("" if "4096" in us else " (2 rows)")
            times = us["1"] / own["1"] if large is None else large / own["4096"]
            times = float(f"{times:.2g}")  # two digits
            lines.append(f"| {row['name']} | {one} | {shown} | {times:,.{0 if times >= 10 else 2}f} |")
    return "\n".join(lines)


def subsets(result: dict[str, Any]) -> str:
    """One model of ours beside models retrained on each subset of the columns, and what its values mean."""
    names = {"lightgbm": "LightGBM", "catboost": "CatBoost"}
    rivals = [name for name in names if all(name in row for row in result["summary"].values())]
    whole = all("orders_1_and_2" in row for row in result["summary"].values())
    head = ["30 random subsets of the columns", "ours, one model"]
    head += [cell for name in rivals for cell in (f"{names[name]}, retrained each time", "ratio")]
    head += ["worst subset", "orders 1 and 2", "values of two seeds, correlation"] if whole else []
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for dataset, row in result["summary"].items():
        loss = "log_loss" if "log_loss" in row["harsanyinet"] else "rmse"
        ours = row["harsanyinet"][loss]
        cells = [f"{dataset}, mean {loss}", _loss(ours)]
        for name in rivals:
            cells += [_loss(row[name][loss]), f"{ours / row[name][loss]:.3f}"]
        if whole:
            worst = row["against_lightgbm"]["worst"]["ratio"]
            cells += [f"{worst:.3f}", f"{100 * row['orders_1_and_2']:.0f} %", f"{row['seeds_correlation']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _loss(value: float) -> str:
    return f"{value:.4f}" if value < 100 else f"{value:.1f}"


def large(result: dict[str, Any]) -> str:
    """Many rows, many columns, many classes: time, memory, files."""
    head = [
        "table", "model", "fit, seconds", "explain, us per row", "peak GiB", "of it data", "file MiB", "log-loss",
        "of the true chances",
    ]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for row in result["rows"]:
        lines.append(
            f"| {row['rows']:,} x {row['columns']:,}, {row['classes']} classes | {row['model']} | "
            f"{row['fit_seconds']:,.0f} | {row['explain_us_per_row']:,.1f} | {row['peak_gib']:.1f} | "
            f"{row['data_gib']:.1f} | {row['file_mib']:.1f} | {row['log_loss']:.4f} | "
            f"{row['log_loss_of_the_true_chances']:.4f} |"
        )
    return "\n".join(lines)


def noise(result: dict[str, Any]) -> str:
    """What columns of noise receive, relative to the strongest column."""

    def shown(row: dict[str, float]) -> str:
        return f"{100 * row['mean']:.1f} ({100 * row['worst']:.1f})"

    lines = [
        "| per cent of the strongest column, mean over seeds (worst) | game | strongest of them | all together |",
        "| --- | --- | --- | --- |",
    ]
    for name, games in result["noise"].items():
        lines += [
            f"| {name} | {g} | {shown(row['strongest'])} | {shown(row['together'])} |" for g, row in games.items()
        ]
    lines += [f"| iris, sepal columns | {game} | {shown(row)} | |" for game, row in result["iris"].items()]
    share = f"{100 * result['stand_in']['worst_share']:.1f} %"
    return "\n".join(
        [
            *lines,
            "",
            f"A column that stands for another reaches alone at least {share} of the R2 of a model "
            "that was fitted on it alone.",
        ]
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
    "bench_noise": noise,
    "bench_defaults": defaults,
    "reproduce_image_table1, in short": images,
    **{reproduce.stem(name): experiment.table for name, experiment in reproduce.experiments().items()},
}

if __name__ == "__main__":
    for page in map(Path, PAGES):
        files.write_beside(page, fill(page.read_text(), Path()).encode())
