"""What stands between the markers of the documents: Markdown made from result files. Nothing is measured or written.

A table or sentence is a function of one result file. `TABLES` says which one stands behind which marker: `NAME` for
`<!-- results/NAME.json -->`, and `NAME, in short` for `<!-- results/NAME.json, in short -->`.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from harsanyinet_experiments import image_paper, reproduce
from harsanyinet_experiments.image_tables import NAMES


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
    """Ratios at the largest batch, and the time of a single row."""
    lines = [
        "| players | network | prediction / plain MLP | explanation / prediction | us per explained row | "
        "of a single row | peak MiB |",
        "| --- " * 7 + "|",
    ]
    single = {(r["case"]["n"], r["label"]): r["explain_us_per_row"] for r in result["rows"] if r["batch"] == 1}
    for row in result["rows"]:
        if "peak_mib" in row:
            one = single[row["case"]["n"], row["label"]]
            lines.append(
                f"| {row['case']['n']:,} | {row['label']} | {row['forward/plain']:.2f} | "
                f"{row['explain/forward']:.2f} | {row['explain_us_per_row']:.1f} | {one:,.0f} | "
                f"{row['peak_mib']['explain']} |"
            )
    return "\n".join(lines)


def accuracy(result: dict[str, Any]) -> str:
    """Accuracy or R2 of every model on every dataset, mean ranks, and losses relative to those of others."""
    from harsanyinet_experiments.bench_accuracy import DATASETS

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
    name = "harsanyinet: predict + values"
    own = {b: t for row in result["rows"] if row["name"].endswith(name) for b, t in row.get("us", {}).items()}
    lines = [
        "| Census, us per row | batch of 1 | batch of 4,096 | times ours |",
        "| --- | --- | --- | --- |",
    ]
    for row in result["rows"]:
        if "seconds" in row:
            lines.append(f"| {row['name']} | | {row['seconds']:.1f} s | |")
        if "megabytes" in row:
            sizes = ", ".join(f"{form} {size:.1f} MB" for form, size in row["megabytes"].items())
            lines.append(f"| {row['name']} | | {sizes} | |")
        if "us" in row:
            us = row["us"]
            one = f"{us['1']:,.0f}" if "1" in us else ""
            size = next((batch for batch in ("4096", "1000000", "2", "1") if batch in us), "1")
            shown = "" if size == "1" else f"{us[size]:,.1f}" + (" (2 rows)" if size == "2" else "")
            times = us[size] / own["4096" if size == "2" else size]
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
    lines.append("")
    for rows, agree in result["samples"].items():
        lines.append(
            f"- Values of two seeds on {agree['draws']} draws of {rows} rows: correlation {agree['mean']:.3f} in the "
            f"mean, median {agree['median']:.3f}, worst {agree['worst']:.3f}."
        )
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
    cases = list(dict.fromkeys(row["case"] for row in result["rows"]))
    for row in sorted(result["rows"], key=lambda row: (cases.index(row["case"]), row["model"] != "harsanyinet")):
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
        for method in (name for name in ("default", "masked", "paper", "residual") if name in methods):
            row = methods[method]
            lines.append(
                f"| {image_paper.DATASETS[dataset]} | {NAMES[method]}, {row['size']} | {published[0]} | "
                f"{row['accuracy']:.2f} | {row['accuracy_half_hidden']:.2f} | {published[1]} | "
                f"{row['rmse_float32']:.2e} | {row['rmse_float64']:.2e} | "
                f"{' x '.join(map(str, row['pixels_per_cell']))} | {row['train_seconds'] / 60:.2g} |"
            )
    return "\n".join(lines)


# Sentences ----------------------------------------------------------------------------------------------------------

SHOWN = {
    "catboost": "CatBoost",
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "hist_gradient_boosting": "HistGradientBoosting",
    "realmlp": "RealMLP",
    "mlp": "a plain MLP",
    "ebm": "EBM",
    "ebm_one_bag": "EBM (one bag)",
}
"""The other models as text and pictures call them."""


def loss_ratios(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Our loss divided by that of others, by model and table, where both have run on all folds of the table."""
    to_catboost = {m: row["by_table"] for m, row in result["loss_ratios"]["to catboost"].items()}
    ours, tables = to_catboost.pop("harsanyinet"), result["datasets"]

    def whole(model: str, table: str) -> bool:
        return bool(tables[table][model]["folds"] == tables[table]["harsanyinet"]["folds"])

    ratios = {"catboost": dict(ours)}
    for model, theirs in to_catboost.items():
        ratios[model] = {t: ours[t] / theirs[t] for t in ours if t in theirs and whole(model, t)}
    return ratios


def accuracy_lost(result: dict[str, Any]) -> str:
    """The tables on which another model has a smaller loss or a better accuracy, and by how much."""
    worse = []
    for model, by_table in loss_ratios(result).items():
        lost = [f"{t} ({ratio:.3f} x)" for t, ratio in sorted(by_table.items(), key=lambda r: -r[1]) if ratio > 1]
        if lost:
            worse.append(f"{SHOWN[model]}'s on {_listed(lost)}")
    behind = []
    for table, rows in result["datasets"].items():
        own = rows["harsanyinet"]
        whole = {m: _score(row)["mean"] for m, row in rows.items() if row["folds"] == own["folds"]}
        best = max(whole, key=lambda m: whole[m])
        if whole[best] > _score(own)["mean"]:
            points = 100 * (whole[best] - _score(own)["mean"])
            behind.append(f"{table} ({SHOWN[best]}, +{points:.2f})")
    return (
        f"Our log-loss or RMSE is larger than {'; '.join(worse) or 'no other'}. "
        f"Others have a better accuracy or R2, in points, on {_listed(behind or ['no table'])}."
    )


def defaults_lost(result: dict[str, Any]) -> str:
    """Where the twenty tables on which our defaults were chosen, and samples of them, are lost; the time to fit."""
    catboost, lightgbm = (result["models"]["default"][f"against_{peer}"] for peer in ("catboost", "lightgbm"))
    lost = [row["n_tables"] - row["wins"] for row in (catboost, lightgbm)]
    few = {size: f"{row['ratio']:.3f}" for size, row in catboost["samples"].items()}
    worst = catboost["worst"]
    return (
        f"Of the {catboost['n_tables']} tables on which our defaults were chosen CatBoost's loss is smaller on "
        f"{lost[0]} ({worst['table']}, {worst['ratio']:.3f} x) and LightGBM's on {lost[1]}. On samples of "
        f"{_listed(few)} rows ours is {_listed(few.values())} x CatBoost's. A fit takes "
        f"{lightgbm['fit_time_ratio']:.0f} x LightGBM's time and {catboost['fit_time_ratio']:.2f} x CatBoost's."
    )


def further(result: dict[str, Any]) -> str:
    """The tables on which nothing was chosen: losses relative to those of others, and those that are clearly lost."""
    sentences = []
    for peer in ("catboost", "lightgbm"):
        ratios = result["models"]["default"][f"against_{peer}"]["by_table"]
        lost = sorted((t for t, ratio in ratios.items() if ratio > 1.05), key=lambda t: -ratios[t])
        named = _listed([f"{table} ({ratios[table]:.3f} x)" for table in lost] or ["none"])
        sentences.append(
            f"In the median ours is {median(ratios.values()):.3f} x {SHOWN[peer]}'s, and it is more than five per cent "
            f"larger on {named}."
        )
    return "\n".join([defaults(result), "", *sentences])


def further_in_short(result: dict[str, Any]) -> str:
    """How many of the tables on which nothing was chosen are lost."""
    catboost, lightgbm = (result["models"]["default"][f"against_{peer}"] for peer in ("catboost", "lightgbm"))
    lost, worst = [row["n_tables"] - row["wins"] for row in (catboost, lightgbm)], catboost["worst"]
    return (
        f"On {catboost['n_tables']} further ones, where nothing was chosen, CatBoost's loss is smaller on {lost[0]} "
        f"({worst['table']}, {worst['ratio']:.2f} x), LightGBM's on {lost[1]}."
    )


def large_lost(result: dict[str, Any]) -> str:
    """On which large tables another model has a smaller loss or is fitted sooner."""
    words = {row["case"]: f"{row[row['case']]:,} {row['case']}" for row in result["rows"]}
    of = {(row["model"], row["case"]): row for row in result["rows"]}

    def behind(field: str, digits: int) -> str:
        worse = []
        for model in dict.fromkeys(model for model, _ in of if model != "harsanyinet"):
            ratios = {c: of["harsanyinet", c][field] / of[model, c][field] for c in words if (model, c) in of}
            lost = [f"{words[case]} ({ratio:.{digits}f} x)" for case, ratio in ratios.items() if ratio > 1]
            worse += [f"{SHOWN[model]}'s on {_listed(lost)}"] if lost else []
        return "; ".join(worse) or "no other"

    return (
        f"Of large made-up tables our log-loss is larger than {behind('log_loss', 3)}, and a fit takes longer than "
        f"{behind('fit_seconds', 1)}."
    )


def speed_lost(result: dict[str, Any]) -> str:
    """Which explanations are faster than ours, for many rows at once and for one."""
    explained = explanation_speeds(result)
    faster = []
    for batch, words in (("4096", "on 4,096 rows at once"), ("1", "on a single row")):
        times = {name: us[batch] for name, us in explained.items() if batch in us}
        own = times.pop("harsanyinet")
        faster += [f"{name} ({own / time:.1f} x, {words})" for name, time in times.items() if time < own]
    times = {row["name"]: row["us"].get("4096") for row in result["rows"] if "us" in row}
    pairs, terms = times["harsanyinet: predict + values, max_order=2"], times["ebm: eval_terms"]
    return (
        f"Explanations faster than ours: {_listed(faster or ['nothing that was measured'])}. With `max_order=2`, pairs "
        f"at most as in EBM, ours take {pairs / terms:.2f} x the time of EBM's terms."
    )


EXPLAINERS = {
    "harsanyinet: predict + values": "harsanyinet",
    "ebm: eval_terms": "EBM's terms",
    "shap tree: one background row": "SHAP's TreeExplainer, one background row",
    "catboost: ShapValues": "CatBoost's ShapValues",
    "woodelf: path-dependent": "WOODELF, path-dependent",
    "shap tree: path-dependent": "SHAP's TreeExplainer, path-dependent",
    "woodelf: all training rows": "WOODELF, all training rows",
    "lightgbm: pred_contrib": "LightGBM's pred_contrib",
    "xgboost: pred_contribs": "XGBoost's pred_contribs",
    "shap kernel, 2^n evaluations at most": "SHAP's KernelExplainer",
    "shap permutation": "SHAP's PermutationExplainer",
}
"""The measurements that return one number per row and column, and what they are called."""


def explanation_speeds(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Microseconds per row of everything that explains rows column by column, by name and size of the batch."""
    rows = {row["name"]: row["us"] for row in result["rows"] if "us" in row}
    return {shown: rows[name] for name, shown in EXPLAINERS.items() if name in rows}


def subsets_lost(result: dict[str, Any]) -> str:
    """How much a prediction from some of the columns loses to models fitted on just these."""
    lost = []
    for table, row in result["summary"].items():
        name = "log_loss" if "log_loss" in row["harsanyinet"] else "rmse"
        ratio = row["harsanyinet"][name] / row["lightgbm"][name]
        if ratio > 1:
            lost.append(f"{table} ({ratio:.3f} times)")
    return (
        "From some of the columns alone, the mean loss is larger than that of LightGBM retrained on just these on "
        f"{_listed(lost or ['no table'])}."
    )


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


TABLES = {
    "bench_core": core,
    "bench_exactness": exactness,
    "bench_accuracy": accuracy,
    "bench_speed": speed,
    "bench_subsets": subsets,
    "bench_large": large,
    "bench_noise": noise,
    "bench_defaults": defaults,
    "bench_further": further,
    "bench_further, in short": further_in_short,
    "reproduce_image_table1, in short": images,
    "bench_accuracy, where we lose": accuracy_lost,
    "bench_defaults, where we lose": defaults_lost,
    "bench_large, where we lose": large_lost,
    "bench_speed, where we lose": speed_lost,
    "bench_subsets, where we lose": subsets_lost,
    **{reproduce.stem(name): experiment.table for name, experiment in reproduce.experiments().items()},
}
