"""`harsanyinet demo`: train on real data, check the values by brute force, explain one person in words, draw plots."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from harsanyinet import storage
from harsanyinet.certificate import verify
from harsanyinet.datasets import DatasetNotFoundError, TableSplit, load_breast_cancer_table, load_census
from harsanyinet.experiments.census import Coding, classes
from harsanyinet.explanation import Explanation
from harsanyinet.mlp import HarsanyiMLP
from harsanyinet.training import TrainingConfig, fit_module

Say = Callable[[str], None]


def run_demo(out: Path, *, say: Say, seed: int = 0, quick: bool = False) -> dict[str, Any]:
    """Runs the demonstration and writes its plots, model and certificate to a folder.

    Args:
        out: The folder, created if absent.
        say: Takes the lines for the reader.
        seed: Of the network, the training and the plots' rows.
        quick: A few rows and epochs, to see that it runs.

    Returns:
        The numbers that were printed.
    """
    out.mkdir(parents=True, exist_ok=True)
    try:
        split = load_census()
    except DatasetNotFoundError:
        split = load_breast_cancer_table()
    if quick:
        split = _head(split, 2000)
    say(f"Data: {split.name}, {len(split.train):,} rows to train on and {len(split.test):,} to test ({split.source})")
    coding = Coding.fit(split.train)
    x, x_test = coding.transform(split.train), coding.transform(split.test)
    y, y_test = classes(split.y_train, split), classes(split.y_test, split)
    n = len(coding.names)
    net = HarsanyiMLP(
        x.shape[1], 1, n_blocks=2, width=4 * n, gate="presence", columns=coding.columns, dropout=0.1, seed=seed,
        set_sizes=(2, 2, 3),
    )  # fmt: skip
    config = TrainingConfig(
        epochs=2 if quick else 8, batch_size=512, learning_rate=4e-3, schedule="onecycle", weight_decay=1e-2,
        clip_norm=1.0, patience=4, validation_share=0.1, masked_share=0.3,
    )  # fmt: skip
    history = fit_module(net, x, y.float(), loss=_cross_entropy, config=config, n_players=n, seed=seed)
    with torch.no_grad():
        logits = net(x_test)[:, 0]
    accuracy = float(((logits > 0) == (y_test == 1)).float().mean())
    positive = sorted(set(split.y_train))[1]
    say(f"Trained in {history.seconds:.0f} s. Accuracy on the test rows: {100 * accuracy:.2f} %")

    some = x_test[:4096]
    forward, explain = _seconds(lambda: _forward(net, some)), _seconds(lambda: net.explain(some))
    say(
        f"One pass explains {len(some):,} rows: {1e6 * explain / len(some):.1f} us each, "
        f"{explain / forward:.2f} x the bare prediction"
    )
    checked = 1 if quick else 3
    certificate = verify(net, x_test[:checked])
    storage.save(net, out / "model.hnet")
    np.savetxt(out / "rows.csv", x_test[:20].numpy(), delimiter=",", fmt="%.9g")
    (out / "certificate.json").write_text(certificate.to_json() + "\n")
    tried = f"all {2**n:,} masks" if n <= 16 else "sampled masks"
    verdict = "as exact as float32 is" if certificate.passed else "NOT EXACT"
    say(
        f"Against brute force with real forward passes over {tried} of {checked} rows: worst error "
        f"{certificate.worst_error:.1e} of the largest output, {verdict}"
    )

    rows = np.random.default_rng(seed).choice(len(x_test), min(1000, len(x_test)), replace=False)
    ex = net.explain(
        x_test[rows], feature_names=coding.names, output_names=[positive], data=split.test.iloc[rows].to_numpy(object)
    )
    person = int(np.argsort(ex.outputs)[int(0.9 * len(ex))])
    for line in describe(ex, person, positive):
        say(line)

    drawn = _draw(ex, person, net, coding.names, out)
    say(f"Wrote to {out}/: {', '.join(['model.hnet', 'rows.csv', 'certificate.json', *drawn])}")
    say(f"Check it yourself: harsanyinet verify {out / 'model.hnet'} {out / 'rows.csv'}")
    return {
        "accuracy": accuracy,
        "error": certificate.worst_error,
        "explain_over_forward": explain / forward,
        "passed": certificate.passed,
    }


def describe(ex: Explanation, row: int, label: str) -> list[str]:
    """One row in words: its prediction, the features and interactions behind it, and the few that decide."""
    probability = 1 / (1 + np.exp(-ex.outputs[row]))
    cells = dict(zip(ex.feature_names, (_words(c) for c in ex.data[row]), strict=True)) if ex.data is not None else {}
    lines = [f"One row: probability of '{label}' {100 * probability:.0f} %. For (+) and against (-), in logits:"]
    for i in np.argsort(-np.abs(ex.values[row]))[:5]:
        name = ex.feature_names[i]
        lines.append(f"  {ex.values[row, i]:+.2f}  {name} is {cells.get(name, '?')}")
    pairs = ex.index("SII", order=2)
    strongest = sorted((abs(v), v, s) for s, v in zip(pairs.sets, pairs.values[row], strict=True) if len(s) == 2)[::-1]
    lines.append("Together more (+) or less (-) than one by one:")
    for _, value, members in strongest[:3]:
        names = [ex.feature_names[i] for i in members]
        lines.append(f"  {value:+.2f}  " + " with ".join(f"{name} {cells.get(name, '?')}" for name in names))
    kept = ex.smallest_set(row)
    known = " and ".join(f"{ex.feature_names[i]} {cells.get(ex.feature_names[i], '?')}" for i in kept)
    lines.append(
        f"Knowing only {known}, the decision is the same." if kept else "Knowing nothing, the decision is the same."
    )
    return lines


def _words(cell: Any) -> str:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return "not known"
    return f"{cell:,.4g}" if isinstance(cell, float) else str(cell)


def _draw(ex: Explanation, person: int, net: HarsanyiMLP, names: list[str], out: Path) -> list[str]:
    """The plots, or none without the plotting packages."""
    try:
        import matplotlib
    except ImportError:
        return []
    from harsanyinet import plots

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawings: dict[str, Callable[[], Any]] = {
        "waterfall.png": lambda: plots.plot_waterfall(ex, person),
        "importance.png": lambda: plots.plot_bar(ex),
        "beeswarm.png": lambda: plots.plot_beeswarm(ex),
        "interactions.png": lambda: plots.plot_interactions(ex, person),
        "network.png": lambda: plots.plot_network(ex, person),
        "order_spectrum.png": lambda: plots.plot_order_spectrum(ex),
        "receptive_fields.png": lambda: plots.plot_fields(net, feature_names=names),
    }
    for name, draw in drawings.items():
        figure = draw().figure
        figure.savefig(out / name, dpi=120, bbox_inches="tight")
        plt.close(figure)
    return list(drawings)


def _cross_entropy(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(outputs[:, 0], y, reduction="none")


def _forward(net: HarsanyiMLP, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = net(x)
    return out


def _seconds(call: Callable[[], Any], repeats: int = 7) -> float:
    """Median time of a call, after one to warm up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


def _head(split: TableSplit, n: int) -> TableSplit:
    return TableSplit(
        name=f"{split.name} (first rows)", train=split.train[:n], y_train=split.y_train[:n], test=split.test[:n],
        y_test=split.y_test[:n], source=split.source, description=split.description,
    )  # fmt: skip
