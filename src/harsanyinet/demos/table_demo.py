"""`harsanyinet demo`: train on real data, check the values by brute force, explain one person in words, draw plots."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from harsanyinet import HarsanyiClassifier
from harsanyinet.datasets import DatasetNotFoundError, TableSplit, load_breast_cancer_table, load_census
from harsanyinet.explanations.certificate import FULL_PLAYERS, Certificate, verify
from harsanyinet.explanations.explanation import Explanation
from harsanyinet.tables.effects import strongest_pairs

Say = Callable[[str], None]


def run_demo(out: Path, *, say: Say, seed: int = 0, quick: bool = False) -> bool:
    """Runs the demonstration and writes its plots, model, rows and certificate to a folder.

    Args:
        out: The folder, created if absent.
        say: Takes the lines for the reader.
        seed: Of the model and of the rows that the plots show.
        quick: A few rows and trees, to see that it runs.

    Returns:
        Whether the values are exact.
    """
    out.mkdir(parents=True, exist_ok=True)
    try:
        split = load_census()
    except DatasetNotFoundError:
        split = load_breast_cancer_table()
    if quick:
        split = _head(split, 2000)
    say(f"Data: {split.name}, {len(split.train):,} rows to train on and {len(split.test):,} to test ({split.source})")
    start = time.perf_counter()
    model = HarsanyiClassifier(max_iter=30 if quick else None, random_state=seed).fit(split.train, split.y_train)
    seconds = time.perf_counter() - start
    accuracy = 100 * model.score(split.test, split.y_test)
    say(f"{len(model.trees_):,} trees in {seconds:.0f} s. Accuracy on the test rows: {accuracy:.2f} %")

    some = split.test[:4096]
    predict, explain = _seconds(lambda: model.decision_function(some)), _seconds(lambda: model.explain(some))
    say(
        f"One pass explains {len(some):,} rows: {1e6 * explain / len(some):.1f} us each, "
        f"{explain / predict:.2f} x the bare prediction"
    )
    certificate = certified(model, split.test, "float64", say, max_rows=1 if quick else 2, seed=seed)
    rows = np.random.default_rng(seed).choice(len(split.test), min(1000, len(split.test)), replace=False)
    shown = split.test.iloc[rows]
    ex = model.explain(shown)
    order = np.argsort(ex.outputs)
    person, other = int(order[int(0.9 * len(ex))]), int(order[int(0.1 * len(ex))])
    for line in describe(ex, person):
        say(line)

    model.save(out / "model.hnet")
    split.test[:20].to_csv(out / "rows.csv", index=False)
    (out / "certificate.json").write_text(certificate.to_json() + "\n")
    drawn = draw(plots_of(model, ex, person, other, shown), out)
    say(f"Wrote to {out}/: {', '.join(['model.hnet', 'rows.csv', 'certificate.json', *drawn])}")
    say("Go on with the model and the rows:")
    for command in ("predict", "explain", "verify"):
        say(f"  harsanyinet {command} {out / 'model.hnet'} {out / 'rows.csv'}")
    return certificate.passed


def certified(model: Any, rows: Any, numbers: str, say: Say, **options: Any) -> Certificate:
    """Checks a model that computes with such numbers by brute force, and says how exact it is."""
    certificate = verify(model, rows, **options)
    tried = f"all {2**n:,} masks" if (n := certificate.n_players) <= FULL_PLAYERS else "sampled masks"
    verdict = f"as exact as {numbers} is" if certificate.passed else "NOT EXACT"
    say(
        f"Against brute force with real predictions over {tried} of each checked row: worst error "
        f"{certificate.worst_error:.1e} of the largest output, {verdict}"
    )
    return certificate


def describe(ex: Explanation, row: int) -> list[str]:
    """One row in words: its prediction, the features and interactions behind it, and the few that decide."""
    probability, cells = expit(ex.outputs[row]), [_words(cell) for cell in np.asarray(ex.data)[row]]
    named = [f"{name} {cell}" for name, cell in zip(ex.feature_names, cells, strict=True)]
    lines = [
        f"One row: probability of '{ex.output_names[0]}' {100 * probability:.0f} %. For (+) and against (-), in logits:"
    ]
    for i in np.argsort(-np.abs(ex.values[row]))[:5]:
        lines.append(f"  {ex.values[row, i]:+.2f}  {ex.feature_names[i]} is {cells[i]}")
    pairs = ex.index("SII", order=2)
    strongest = sorted((abs(v), v, s) for s, v in zip(pairs.sets, pairs.values[row], strict=True) if len(s) == 2)[::-1]
    lines.append("Together more (+) or less (-) than one by one:")
    for _, value, members in strongest[:3]:
        lines.append(f"  {value:+.2f}  " + " with ".join(named[i] for i in members))
    known = " and ".join(named[i] for i in ex.smallest_set(row))
    lines.append(f"Knowing {f'only {known}' if known else 'nothing'}, the decision is the same.")
    return lines


def _words(cell: Any) -> str:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return "not known"
    return f"{cell:,.4g}" if isinstance(cell, float) else str(cell)


def plots_of(
    model: HarsanyiClassifier, ex: Explanation, person: int, other: int, shown: pd.DataFrame
) -> dict[str, Callable[[], Any]]:
    """The plots by the names of their files, not yet drawn."""
    from harsanyinet import plots

    found: dict[str, Callable[[], Any]] = {
        "waterfall.png": lambda: plots.plot_waterfall(ex, person),
        "contrast.png": lambda: plots.plot_contrast(ex, person, other),
        "importance.png": lambda: plots.plot_bar(ex),
        "beeswarm.png": lambda: plots.plot_beeswarm(ex),
        "interactions.png": lambda: plots.plot_interactions(ex, person),
        "network.png": lambda: plots.plot_network(ex, person),
        "order_spectrum.png": lambda: plots.plot_order_spectrum(ex),
        "receptive_fields.png": lambda: plots.plot_fields([ex.coalitions], feature_names=ex.feature_names),
    }
    wanted = [name for name in ex.feature_names if name in ("age", "capital-gain")]
    for name in wanted or [ex.feature_names[int(np.argmax(model.feature_importances_))]]:
        found[f"shape_{name.replace(' ', '-')}.png"] = partial(plots.plot_shape, model, name, shown)
    for pair in strongest_pairs(model, shown, 1):
        found["strongest_pair.png"] = partial(plots.plot_pair, model, *pair.features)
    return found


def draw(plots: Mapping[str, Callable[[], Any]], out: Path) -> list[str]:
    """Draws plots into files of a folder; none without matplotlib. Returns the names of the files."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, plot in plots.items():
        figure = plot().figure
        figure.savefig(out / name, dpi=120, bbox_inches="tight")
        plt.close(figure)
    return list(plots)


def _seconds(call: Callable[[], Any]) -> float:
    """Median time of a call, after one to warm up."""
    return median(timeit.repeat(call, number=1, repeat=8)[1:])


def _head(split: TableSplit, n: int) -> TableSplit:
    """The first rows, of the test part those whose categories are among them."""
    train, test = split.train[:n], split.test[:n]
    known = np.ones(len(test), dtype=bool)
    for name in train.columns:
        if not pd.api.types.is_numeric_dtype(train[name].dtype):
            known &= (test[name].isin(train[name]) | test[name].isna()).to_numpy()
    return replace(
        split, name=f"{split.name} (first rows)", train=train, y_train=split.y_train[:n], test=test[known],
        y_test=split.y_test[:n].loc[known],
    )  # fmt: skip
