"""The paper's figures on tabular data: convergence of sampling methods, sparse interactions, examples row by row."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harsanyinet.games import brute_force_shapley, evaluate, moebius_transform, zeta_transform
from harsanyinet.peers import curve, deep_shap, model_game, row_errors
from harsanyinet_experiments import paper
from harsanyinet_experiments.against_brute_force import sorted_strengths, true_class
from harsanyinet_experiments.experiment import Experiment, grouped
from harsanyinet_experiments.paper import DATASETS
from harsanyinet_experiments.runner import Cell, Record
from harsanyinet_experiments.scoring import some_rows
from harsanyinet_experiments.tabular_models import NETWORKS, default_model, fast_shap, trained

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")  # Okabe and Ito: safe for all eyes
METHODS = {
    "sampling": "sampling",
    "antithetic": "antithetic sampling",
    "kernel_shap": "KernelSHAP",
    "kernel_shap_paired": "KernelSHAP, paired",
}
EXAMPLE_BUDGETS = (100, 1_000, 10_000)
BUDGETS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)


# Convergence ------------------------------------------------------------------------------------------------------


def _convergence(cell: Cell, models: Path, quick: bool) -> Record:
    dataset, seed, network = cell["dataset"], cell["seed"], cell["network"]
    data = paper.load(dataset, seed, quick)
    rows = some_rows(len(data.x_test), 3 if quick else 20)
    labels, n = data.y_test.numpy()[rows], data.n_players
    if network == "default":
        model = default_model(data, dataset, seed, models, quick)
        values = model.explain(data.split.test.iloc[rows]).values
        games: list[Any] = [model.game(data.split.test.iloc[rows], i) for i in range(len(rows))]
    else:
        net = trained(data, dataset, network, seed, models, quick).double().eval()
        values = net.explain(data.x_test[rows].double()).values
        games = [model_game(net, row) for row in data.x_test[rows].double()]
    budgets = BUDGETS[:4] if quick else BUDGETS
    errors: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    exact = []
    for row, label in enumerate(labels):
        outputs = evaluate(games[row], n, progress=False)  # of all masks, so that none is played twice
        game = _Known(outputs if outputs.ndim == 1 else outputs[:, label])
        exact.append(brute_force_shapley(game, n, progress=False))
        for name in METHODS:
            estimates = curve(name, game, n, budgets, seed=1000 * seed + row)  # type: ignore[arg-type]
            errors[name].append([float(row_errors(estimate.values, exact[-1])) for estimate in estimates])
    ours = row_errors(true_class(values, labels), np.stack(exact))
    return {"budgets": list(budgets), "errors": errors, "harsanyinet": ours.tolist(), "n_players": n}


class _Known:
    """A game whose outputs of all masks are known, (2^n,)."""

    def __init__(self, outputs: NDArray[Any]) -> None:
        self.outputs, self.bits = outputs, 1 << np.arange(len(outputs).bit_length() - 1)

    def __call__(self, masks: NDArray[np.bool_]) -> NDArray[Any]:
        return np.asarray(self.outputs[masks @ self.bits])


def _convergence_summary(records: list[Record]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for (dataset, network), cells in grouped(records, "dataset", "network").items():
        methods = {}
        for name in METHODS:
            each = np.concatenate([np.array(cell["errors"][name]) for cell in cells])  # (rows, budgets)
            low, middle, high = np.quantile(each, [0.1, 0.5, 0.9], axis=0)
            methods[name] = {
                "mean": each.mean(0).tolist(), "median": middle.tolist(), "low": low.tolist(), "high": high.tolist(),
            }  # fmt: skip
        rows.setdefault(dataset, {})[network] = {
            "budgets": cells[0]["budgets"], "n_players": cells[0]["n_players"], "methods": methods,
            "harsanyinet": float(np.mean([error for cell in cells for error in cell["harsanyinet"]])),
        }  # fmt: skip
    return {"datasets": rows}


def _convergence_text(result: dict[str, Any]) -> str:
    first = next(iter(next(iter(result["datasets"].values())).values()))
    budgets = first["budgets"]
    lines = [
        "| dataset | network | method | " + " | ".join(f"{b:,} rows" for b in budgets) + " |",
        "| --- " * (3 + len(budgets)) + "|",
    ]
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            for name, text in METHODS.items():
                cells = " | ".join(f"{error:.1e}" for error in row["methods"][name]["mean"])
                lines.append(f"| {DATASETS[dataset]} | {NETWORKS[network]} | {text} | {cells} |")
            lines.append(
                f"| {DATASETS[dataset]} | {NETWORKS[network]} | HarsanyiNet, one pass: {row['harsanyinet']:.1e} |"
                + " |" * len(budgets)
            )
    return "\n".join(lines)


def _draw_convergence(result: dict[str, Any]) -> dict[str, Any]:
    figures = {}
    for network in next(iter(result["datasets"].values())):
        figure, axes = _panels(len(result["datasets"]), sharey=False)
        for ax, (dataset, networks) in zip(axes, result["datasets"].items(), strict=True):
            row = networks[network]
            lows: list[float] = []
            highs: list[float] = []
            for (name, text), colour in zip(METHODS.items(), COLOURS, strict=False):
                method = row["methods"][name]
                mean, low, high = (np.maximum(method[line], 1e-9) for line in ("mean", "low", "high"))
                lows, highs = [*lows, mean.min()], [*highs, mean.max(), high.max()]
                ax.plot(row["budgets"], mean, color=colour, label=text, marker="o", ms=3)
                ax.fill_between(row["budgets"], low, high, color=colour, alpha=0.12, lw=0)
            lowest = min(lows) / 8
            ax.set(xscale="log", yscale="log", title=DATASETS[dataset], xlabel="rows through the network")
            ax.set(xlim=(0.6, 3e4), ylim=(lowest, 2 * max(highs)))
            ax.plot(1, lowest, "*", ms=15, color=COLOURS[4], label="HarsanyiNet, one pass", clip_on=False, zorder=5)
            ax.annotate(f"{row['harsanyinet']:.0e}", (1, lowest), (9, 6), textcoords="offset points", color=COLOURS[4])
            ax.axvline(2 ** row["n_players"], color="0.6", ls=":", lw=1)
            ax.text(2 ** row["n_players"], 0.97, " all masks", transform=ax.get_xaxis_transform(), color="0.4", size=8)
        axes[0].set_ylabel("error (RMSE): mean, and 10 to 90 % of rows")
        axes[0].legend(fontsize=8, loc="center left")
        figures[f"_{network}"] = figure
    return figures


# Sparsity of ordinary networks ------------------------------------------------------------------------------------


class Perceptron(nn.Module):
    """Five layers of 100 units; residual: every layer but the first and last adds to what it reads."""

    def __init__(self, n_features: int, n_outputs: int, *, residual: bool, width: int = 100) -> None:
        super().__init__()
        self.residual = residual
        sizes = [n_features, *[width] * 4, n_outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """(B, n) -> (B, K)."""
        for i, layer in enumerate(self.layers):
            z = layer(x) if i + 1 == len(self.layers) else torch.relu(layer(x))
            x = x + z if self.residual and z.shape == x.shape else z
        return x


def _sparsity(cell: Cell, models: Path, quick: bool) -> Record:
    data = paper.load(cell["dataset"], cell["seed"], quick)
    with torch.random.fork_rng():
        torch.manual_seed(cell["seed"])
        net = Perceptron(data.n_players, data.n_classes, residual=cell["network"] == "residual MLP")
    paper.fit(net, data, seed=cell["seed"], epochs=1 if quick else 20, optimizer="adamw", learning_rate=1e-3)
    accuracy = paper.accuracy(net, data)
    net = net.double().eval()
    rows = some_rows(len(data.x_test), 3 if quick else 50)
    strengths, salient, needed = [], [], []
    for row, label in zip(rows, data.y_test.numpy()[rows], strict=True):
        game = model_game(net, data.x_test[row].double(), output=int(label))  # absent: the mean, 0 when standardised
        table = evaluate(game, data.n_players, progress=False)
        dividends = moebius_transform(table)
        dividends[0] = 0.0
        strengths.append(strength := sorted_strengths(dividends))
        salient.append(int((strength > 0.05).sum()))
        needed.append(sets_needed(table, dividends))
    mean = np.mean(strengths, axis=0)
    edges = np.concatenate([[0.0], np.logspace(-6, 0, 25)])
    return {
        "accuracy": accuracy, "n_sets": 2**data.n_players, "salient": salient, "needed": needed,
        "curve": mean[np.unique(np.geomspace(1, len(mean), 60).astype(int)) - 1].tolist(),
        "histogram": np.histogram(np.concatenate(strengths), edges)[0].tolist(), "edges": edges.tolist(),
    }  # fmt: skip


def sets_needed(table: NDArray[Any], dividends: NDArray[Any]) -> int:
    """How many of the strongest sets rebuild the outputs of all masks with an R2 of 0.95."""
    order = np.argsort(-np.abs(dividends))
    gains = table - table[0]
    spread = ((gains - gains.mean()) ** 2).sum()
    low, high = 1, len(order)
    while low < high:  # the error need not fall with every set, but it does so in the large
        middle = (low + high) // 2
        kept = np.zeros_like(dividends)
        kept[order[:middle]] = dividends[order[:middle]]
        if ((gains - zeta_transform(kept)) ** 2).sum() <= 0.05 * spread:
            high = middle
        else:
            low = middle + 1
    return low


def _sparsity_summary(records: list[Record]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for (dataset, network), cells in grouped(records, "dataset", "network").items():
        rows.setdefault(dataset, {})[network] = {
            "accuracy": float(np.mean([cell["accuracy"] for cell in cells])),
            "n_sets": cells[0]["n_sets"],
            "salient": float(np.mean([s for cell in cells for s in cell["salient"]])),
            "needed": float(np.mean([s for cell in cells for s in cell["needed"]])),
            "curve": np.mean([cell["curve"] for cell in cells], axis=0).tolist(),
            "histogram": np.sum([cell["histogram"] for cell in cells], axis=0).tolist(),
            "edges": cells[0]["edges"],
        }
    return {"datasets": rows}


def _sparsity_text(result: dict[str, Any]) -> str:
    lines = [
        "| dataset | network | accuracy | sets | above 5 % of the strongest | sets for R2 0.95 on all masks |",
        "| --- " * 6 + "|",
    ]
    for dataset, networks in result["datasets"].items():
        for network, row in networks.items():
            lines.append(
                f"| {DATASETS[dataset]} | {network} | {row['accuracy']:.2f} | {row['n_sets']:,} | "
                f"{row['salient']:.1f} | {row['needed']:.1f} |"
            )
    return "\n".join(lines)


def _draw_sparsity(result: dict[str, Any]) -> dict[str, Any]:
    figure, axes = _panels(len(result["datasets"]))
    for ax, (dataset, networks) in zip(axes, result["datasets"].items(), strict=True):
        for (network, row), colour in zip(networks.items(), COLOURS, strict=False):
            rank = np.unique(np.geomspace(1, row["n_sets"], 60).astype(int))
            ax.plot(rank[:-1], row["curve"][:-1], color=colour, label=network)  # the last is the empty set
        ax.axhline(0.05, color="0.6", ls=":", lw=1)
        ax.set(xscale="log", yscale="log", title=DATASETS[dataset], xlabel="sets, strongest first")
    axes[0].set_ylabel("mean |dividend| / strongest")
    axes[0].legend(fontsize=8)
    histogram, panels = _panels(len(result["datasets"]))
    for ax, (dataset, networks) in zip(panels, result["datasets"].items(), strict=True):
        for (network, row), colour in zip(networks.items(), COLOURS, strict=False):
            edges = np.array(row["edges"])
            edges[0] = edges[1] / 3
            ax.stairs(100 * np.array(row["histogram"]) / sum(row["histogram"]), edges, color=colour, label=network)
        ax.set(xscale="log", title=DATASETS[dataset], xlabel="|dividend| / strongest of the row")
    panels[0].set_ylabel("sets of all rows, per cent")
    panels[0].legend(fontsize=8)
    return {"": figure, "_histogram": histogram}


# Examples ---------------------------------------------------------------------------------------------------------


def _examples(cell: Cell, models: Path, quick: bool) -> Record:
    data = paper.load(cell["dataset"], cell["seed"], quick)
    net = trained(data, cell["dataset"], cell["network"], cell["seed"], models, quick)
    labels = data.y_test.numpy()
    classes = np.argsort(-np.bincount(labels))[: 2 if quick else None]
    rows = np.concatenate([np.flatnonzero(labels == c)[: 1 if quick else 3] for c in classes])
    fast = fast_shap(net.float().eval(), data, data.x.float(), seed=cell["seed"], quick=quick)
    by_fast = fast.explain(data.x_test[rows].float())
    net = net.double().eval()
    x = data.x_test[rows].double()
    budgets = EXAMPLE_BUDGETS[:2] if quick else EXAMPLE_BUDGETS
    examples = []
    for i, row in enumerate(rows):
        outputs = evaluate(model_game(net, x[i], output=int(labels[row])), data.n_players, progress=False)
        game = _Known(outputs)
        one: dict[str, Any] = {
            "truth": brute_force_shapley(game, data.n_players, progress=False).tolist(),
            "HarsanyiNet": net.explain(x[i : i + 1]).values[0, :, labels[row]].tolist(),
            "DeepSHAP": deep_shap(net, x[i : i + 1], output=int(labels[row]))[0].tolist(),
            "FastSHAP": by_fast[i, :, labels[row]].tolist(),
        }
        for name, text in METHODS.items():  # one list per budget
            estimates = curve(name, game, data.n_players, budgets, seed=i)  # type: ignore[arg-type]
            one[text] = [np.asarray(estimate.values).tolist() for estimate in estimates]
        examples.append({"row": int(row), "label": str(data.split.y_test.iloc[row]), "values": one})
    return {"names": [str(c) for c in data.split.test.columns], "budgets": list(budgets), "examples": examples}


def _examples_summary(records: list[Record]) -> dict[str, Any]:
    datasets = {r["cell"]["dataset"]: {k: r[k] for k in ("names", "budgets", "examples")} for r in records}
    for one in datasets.values():
        for example in one["examples"]:
            exact = np.array(example["values"]["truth"])
            example["error"] = {
                name: row_errors(values, exact).tolist()
                for name, values in example["values"].items()
                if name != "truth"
            }
    return {"datasets": datasets}


def _examples_text(result: dict[str, Any]) -> str:
    first = next(iter(result["datasets"].values()))
    heads = []
    for name, error in first["examples"][0]["error"].items():
        heads += [f"{name}, {b:,} rows" for b in first["budgets"]] if isinstance(error, list) else [name]
    lines = [
        "| dataset | class | test rows | " + " | ".join(heads) + " |",
        "| --- " * (3 + len(heads)) + "|",
    ]
    for dataset, one in result["datasets"].items():
        for label in dict.fromkeys(example["label"] for example in one["examples"]):
            some = [example for example in one["examples"] if example["label"] == label]
            means = [np.mean([example["error"][name] for example in some], axis=0) for name in some[0]["error"]]
            errors = " | ".join(f"{error:.1e}" for error in np.hstack(means))
            rows = ", ".join(str(example["row"]) for example in some)
            lines.append(f"| {DATASETS[dataset]} | {label} | {rows} | {errors} |")
    return "\n".join(lines)


def _draw_examples(result: dict[str, Any]) -> dict[str, Any]:
    """One line of panels per row; the exact values are black ticks, budgets are shades of one colour."""
    figures = {}
    for dataset, one in result["datasets"].items():
        labels = list(dict.fromkeys(example["label"] for example in one["examples"]))
        for part in range(0, len(labels), 4):
            some = [example for example in one["examples"] if example["label"] in labels[part : part + 4]]
            suffix = f"_{part // 4 + 1}" if len(labels) > 4 else ""
            figures[f"_{dataset}{suffix}"] = _bars(one["names"], one["budgets"], some)
    return figures


def _bars(names: list[str], budgets: list[int], examples: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    methods = [name for name in examples[0]["values"] if name != "truth"]
    size = (2.3 * len(methods) + 1.2, (0.17 * len(names) + 0.5) * len(examples) + 0.8)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(examples), len(methods), sharey=True, sharex="row", squeeze=False)
    places = np.arange(len(names))
    strengths = np.linspace(0.3, 1.0, len(budgets))
    for line, example in zip(axes, examples, strict=True):
        exact = np.array(example["values"]["truth"])
        for ax, method in zip(line, methods, strict=True):
            values = np.array(example["values"][method])
            if values.ndim == 1:
                ax.barh(places, values, color=np.where(values > 0, COLOURS[4], COLOURS[0]))
            else:
                height = 0.8 / len(values)
                for i, (each, strength) in enumerate(zip(values, strengths, strict=True)):
                    ax.barh(
                        places + (i - (len(values) - 1) / 2) * height, each, height, color=COLOURS[2], alpha=strength
                    )
            ax.plot(exact, places, "|", color="black", ms=7, mew=1.2)
            ax.axvline(0, color="0.3", lw=0.8)
            ax.set_yticks(places, names, fontsize=7)
            ax.tick_params(axis="x", labelsize=7)
            ax.locator_params(axis="x", nbins=4)
            ax.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"{example['label']}, row {example['row']}", fontsize=8)
    axes[0, 0].invert_yaxis()  # shared: the first column of the table on top
    for ax, method in zip(axes[0], methods, strict=True):
        ax.set_title(method.replace(", ", ",\n"), fontsize=9)
    marks = [
        Patch(color=COLOURS[2], alpha=strength, label=f"{budget:,} rows through the network")
        for budget, strength in zip(budgets, strengths, strict=True)
    ]
    figure.legend(
        handles=marks, loc="outside lower right", ncols=len(marks), fontsize=8, title="black ticks: exact values"
    )
    return figure


def _panels(n: int, sharey: bool = True) -> tuple[Any, Any]:
    """A figure of n axes side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * n, 3.6), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, n, sharey=sharey))
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


EXPERIMENTS = {
    "convergence": Experiment(
        "Error of sampling methods against the number of rows put through the network; one row for HarsanyiNet.",
        lambda quick: [
            {"dataset": d, "network": n, "seed": s}
            for d in DATASETS
            for n in NETWORKS
            for s in range(1 if quick else 3)
        ],
        _convergence,
        _convergence_summary,
        _convergence_text,
        _draw_convergence,
    ),
    "sparsity": Experiment(
        "All Harsanyi dividends of ordinary networks, absent columns at their mean, for the logit of the true class.",
        lambda quick: [
            {"dataset": d, "network": n, "seed": s}
            for d in DATASETS
            for n in ("MLP", "residual MLP")
            for s in range(1 if quick else 3)
        ],
        _sparsity,
        _sparsity_summary,
        _sparsity_text,
        _draw_sparsity,
    ),
    "examples": Experiment(
        "Values of every method beside the truth, for three test rows of each class.",
        lambda quick: [{"dataset": d, "network": "code", "seed": 0} for d in DATASETS],
        _examples,
        _examples_summary,
        _examples_text,
        _draw_examples,
    ),
}
