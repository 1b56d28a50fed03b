"""`harsanyinet bench subsets`: one model with columns absent, against models retrained on each subset of the columns.

Beside it what the values mean: how much of the output comes from single columns and pairs, and whether two seeds agree,
also where there are few rows. A cell is one model on one subset, and so is what is said of our whole model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.datasets import Table
from harsanyinet.explanations.certificate import versions
from harsanyinet_experiments import results, scoring
from harsanyinet_experiments.bench_accuracy import DATASETS
from harsanyinet_experiments.bench_defaults import DRAWS, SAMPLE_SIZES
from harsanyinet_experiments.development_tables import FILES, development_tables
from harsanyinet_experiments.models import catboost, harsanyinet, lightgbm
from harsanyinet_experiments.runner import Cell, Ledger, Record, loaded

N_SUBSETS = 30
TABLES = ("census", "california", "tv_news", "churn", "diamonds")
OURS = "harsanyinet"
RIVALS = {"lightgbm": lightgbm, "catboost": catboost}
WHAT = (
    "random subsets of columns, sizes 1 to P - 1; ours is one model with the other columns absent, the others are "
    "retrained on each subset; ratio: of the mean losses over subsets; orders_1_and_2: their share of the sum of "
    "|dividends|; seeds_correlation: of all Shapley values of two seeds; both on 1,000 test rows; samples: the latter, "
    "for five draws of so many rows of each of the development files"
)


def run(out: Path, *, quick: bool = False, threads: int = 1) -> str:
    """Goes on with what is not yet done, writes the summary and returns it as a table."""
    out = results.place(out, quick)
    cells_run = ledger(out)
    left = cells_run.to_do(cells(quick))
    tables = loaded(dict.fromkeys(cell["dataset"] for cell in left), _loaders())

    @lru_cache(maxsize=1)  # the cells of a table follow each other and share one model of ours
    def rows_of(dataset: str, rows: int | None, seed: int) -> _Rows:
        return _Rows(dataset, tables[dataset], quick, threads, rows, seed)

    cells_run.run(
        [cell for cell in left if cell["dataset"] in tables],
        lambda cell: rows_of(cell["dataset"], cell["rows"], cell["seed"]).measure(cell["model"], cell["subset"]),
    )
    records = [record for record in cells_run.records() if record.get("rows") is None]
    drawn = [record for record in cells_run.records() if record.get("rows") is not None]
    summary = {d: _summary(mine) for d in TABLES if (mine := [record for record in records if record["dataset"] == d])}
    results.write(out, {
        "command": "harsanyinet bench subsets", "what": WHAT, "threads": threads, "versions": versions(),
        "summary": summary, "samples": _samples(drawn), "rows": [*records, *drawn],
    })  # fmt: skip
    return "\n".join(f"{d}: {s}" for d, s in (summary | _samples(drawn)).items()) + f"\nwritten to {out}"


def ledger(out: Path) -> Ledger:
    """Where the cells are kept."""
    return Ledger(out.with_suffix(".jsonl"), ("dataset", "model", "subset", "rows", "seed"))


def cells(quick: bool = False) -> list[Cell]:
    """All cells; the subset None stands for our whole model."""
    subsets = range(3 if quick else N_SUBSETS)
    each = [(OURS, None), *((model, subset) for model in (OURS, *RIVALS) for subset in subsets)]
    split = {"rows": None, "seed": None}
    return [
        *({"dataset": d, "model": model, "subset": subset} | split for d in TABLES for model, subset in each),
        *(
            {"dataset": d, "model": OURS, "subset": None, "rows": rows, "seed": seed}
            for d in (list(FILES)[:1] if quick else FILES)
            for rows in SAMPLE_SIZES
            for seed in range(DRAWS)
        ),
    ]


def _loaders() -> dict[str, Callable[[], Table]]:
    return development_tables() | {name: load for name, (load, _) in DATASETS.items()}


class _Rows:
    """The first of a table's folds or splits, or a draw of so many of its rows, and models of it."""

    def __init__(
        self, dataset: str, table: Table, quick: bool, threads: int, rows: int | None = None, seed: int | None = None
    ) -> None:
        if dataset in DATASETS:
            train, test = scoring.folds(dataset, table, DATASETS[dataset][1])[0]
        else:
            train, test = scoring.split(table, rows, seed or 0)
        if quick:
            train, test = train[:2000], test[:1000]
        y = scoring.target(table)
        self.task, self.threads, self.options = table.task, threads, {"max_iter": 50} if quick else {}
        self.x, self.x_test = (table.x.iloc[some].reset_index(drop=True) for some in (train, test))
        self.y, self.truth = y[train], y[test]

    @cached_property
    def ours(self) -> Any:
        """Our one model."""
        return harsanyinet(self.x, self.y, self.task, self.threads, **self.options).model

    def measure(self, model: str, subset: int | None) -> Record:
        """The scores of a model on one subset; of None the meaning of our whole model."""
        if subset is None:
            return self._meaning()
        rng, n = np.random.default_rng(subset), self.x.shape[1]
        present = np.isin(np.arange(n), rng.choice(n, rng.integers(1, n), replace=False))
        names = self.x.columns[present]
        if model == OURS:
            predict = self.ours.predict_proba if self.task == "classification" else self.ours.predict
            predicted = predict(self.x_test, present=present)
        else:
            predicted = RIVALS[model](self.x[names], self.y, self.task, self.threads)(self.x_test[names])
        return {"columns": list(names), "scores": self._scores(predicted)}

    def _scores(self, predicted: NDArray[Any]) -> dict[str, float]:
        every = scoring.scores(self.truth, np.asarray(predicted, dtype=np.float64))
        return {name: value for name, value in every.items() if name != "auc"}

    def _meaning(self) -> Record:
        other = harsanyinet(self.x, self.y, self.task, self.threads, random_state=1, **self.options).model
        ex, again = self.ours.explain(self.x_test[:1000]), other.explain(self.x_test[:1000])
        spectrum = ex.order_spectrum()
        return {
            "order_spectrum": [round(float(share), 4) for share in np.trim_zeros(spectrum, "b")],
            "orders_1_and_2": float(spectrum[1:3].sum()),
            "seeds_correlation": _correlation(ex.values.ravel(), again.values.ravel()),
        }


def _correlation(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Two models that both say nothing agree; one that says nothing agrees with no other."""
    if a.any() and b.any():
        return float(np.corrcoef(a, b)[0, 1])
    return float(a.any() == b.any())


def _samples(records: list[Record]) -> Record:
    """How far two seeds agree, by the number of rows."""
    found: dict[str, list[float]] = {}
    for record in sorted(records, key=lambda record: record["rows"]):
        found.setdefault(str(record["rows"]), []).append(record["seeds_correlation"])
    return {
        rows: {"mean": float(np.mean(each)), "median": float(np.median(each)), "worst": min(each), "draws": len(each)}
        for rows, each in found.items()
    }


def _summary(records: list[Record]) -> Record:
    """Mean scores, ratios of mean losses, the worst subset, and what is said of our whole model."""
    whole = next((record for record in records if record.get("subset") is None), {})
    summary = {key: value for key, value in whole.items() if key not in ("dataset", "model", "subset", "rows", "seed")}
    by_model: dict[str, dict[int, Record]] = {OURS: {}}  # first, whatever the order of the file
    for record in records:
        if record.get("subset") is not None:
            by_model.setdefault(record["model"], {})[record["subset"]] = record
    mine = by_model[OURS]
    if not mine:
        return summary
    loss = next(name for name in scoring.LOSSES if name in next(iter(mine.values()))["scores"])
    summary |= {"subsets": len(mine), "loss": loss}
    for model, lines in by_model.items():
        each = [line["scores"] for line in lines.values()]
        summary[model] = {score: float(np.mean([one[score] for one in each])) for score in each[0]}
        if model == OURS or lines.keys() != mine.keys():
            continue
        ratios = {s: mine[s]["scores"][loss] / lines[s]["scores"][loss] for s in mine}
        worst = max(ratios, key=lambda s: ratios[s])
        summary[f"against_{model}"] = {
            "ratio": summary[OURS][loss] / summary[model][loss],
            "wins": sum(ratio < 1 for ratio in ratios.values()),
            "worst": {"ratio": ratios[worst], "columns": mine[worst]["columns"]},
        }
    return summary
