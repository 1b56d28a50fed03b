"""`harsanyinet bench subsets`: one model with columns absent, against models retrained on each subset of the columns.

Beside it what the values mean: how much of the output comes from single columns and pairs, and whether two seeds agree.
A cell is a subset, and so is what is said of a whole model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.datasets import Table
from harsanyinet.explanations.certificate import versions
from harsanyinet_experiments import results, scoring
from harsanyinet_experiments.bench_accuracy import DATASETS
from harsanyinet_experiments.development_tables import development_tables
from harsanyinet_experiments.models import catboost, harsanyinet, lightgbm
from harsanyinet_experiments.runner import Cell, Ledger, Record, loaded

N_SUBSETS = 30
TABLES = ("census", "california", "tv_news", "churn", "diamonds")
RIVALS = {"lightgbm": lightgbm, "catboost": catboost}
WHAT = (
    "random subsets of columns, sizes 1 to P - 1; ours is one model with the other columns absent, the others are "
    "retrained on each subset; ratio: of the mean losses over subsets; orders_1_and_2: their share of the sum of "
    "|dividends|; seeds_correlation: of all Shapley values of two seeds; both on 1,000 test rows"
)


def run(out: Path, *, quick: bool = False, threads: int = 1) -> str:
    """Goes on with what is not yet done, writes the summary and returns it as a table."""
    out = results.place(out, quick)
    cells_run = ledger(out)
    left = cells_run.to_do(cells(quick))
    tables = loaded(dict.fromkeys(cell["dataset"] for cell in left), _loaders())

    @lru_cache(maxsize=1)  # the subsets of a table follow each other and share one model of ours
    def fitted(dataset: str) -> _Ours:
        return _Ours(dataset, tables[dataset], quick, threads)

    cells_run.run(
        [cell for cell in left if cell["dataset"] in tables],
        lambda cell: fitted(cell["dataset"]).measure(cell["subset"]),
    )
    records = cells_run.records()
    summary = {d: _summary(mine) for d in TABLES if (mine := [record for record in records if record["dataset"] == d])}
    results.write(out, {
        "command": "harsanyinet bench subsets", "what": WHAT, "threads": threads, "versions": versions(),
        "summary": summary, "rows": records,
    })  # fmt: skip
    return "\n".join(f"{d}: {s}" for d, s in summary.items()) + f"\nwritten to {out}"


def ledger(out: Path) -> Ledger:
    """Where the cells are kept."""
    return Ledger(out.with_suffix(".jsonl"), ("dataset", "subset"))


def cells(quick: bool = False) -> list[Cell]:
    """All cells; the subset None stands for the whole model."""
    subsets = (None, *range(3 if quick else N_SUBSETS))
    return [{"dataset": dataset, "subset": subset} for dataset in TABLES for subset in subsets]


def _loaders() -> dict[str, Callable[[], Table]]:
    return development_tables() | {name: load for name, (load, _) in DATASETS.items()}


class _Ours:
    """Our model of a table, on the first of its folds or splits, and what it is compared with."""

    def __init__(self, dataset: str, table: Table, quick: bool, threads: int) -> None:
        if dataset in DATASETS:
            train, test = scoring.folds(dataset, table, DATASETS[dataset][1])[0]
        else:
            train, test = scoring.split(table, None, 0)
        if quick:
            train, test = train[:2000], test[:1000]
        y = scoring.target(table)
        self.task, self.threads, self.options = table.task, threads, {"max_iter": 50} if quick else {}
        self.x, self.x_test = (table.x.iloc[rows].reset_index(drop=True) for rows in (train, test))
        self.y, self.truth = y[train], y[test]
        self.model = harsanyinet(self.x, self.y, self.task, threads, **self.options).model

    def measure(self, subset: int | None) -> Record:
        """The scores of all models on one subset; of None the meaning of the whole model."""
        if subset is None:
            return self._meaning()
        rng, n = np.random.default_rng(subset), self.x.shape[1]
        present = np.isin(np.arange(n), rng.choice(n, rng.integers(1, n), replace=False))
        names = self.x.columns[present]
        predict = self.model.predict_proba if self.task == "classification" else self.model.predict
        record: Record = {"columns": list(names)}
        record["harsanyinet"] = self._scores(predict(self.x_test, present=present))
        for rival, fit in RIVALS.items():
            record[rival] = self._scores(fit(self.x[names], self.y, self.task, self.threads)(self.x_test[names]))
        return record

    def _scores(self, predicted: NDArray[Any]) -> dict[str, float]:
        every = scoring.scores(self.truth, np.asarray(predicted, dtype=np.float64))
        return {name: value for name, value in every.items() if name != "auc"}

    def _meaning(self) -> Record:
        other = harsanyinet(self.x, self.y, self.task, self.threads, random_state=1, **self.options).model
        ex, again = self.model.explain(self.x_test[:1000]), other.explain(self.x_test[:1000])
        spectrum = ex.order_spectrum()
        return {
            "order_spectrum": [round(float(share), 4) for share in np.trim_zeros(spectrum, "b")],
            "orders_1_and_2": float(spectrum[1:3].sum()),
            "seeds_correlation": float(np.corrcoef(ex.values.ravel(), again.values.ravel())[0, 1]),
        }


def _summary(records: list[Record]) -> Record:
    """Mean scores, ratios of mean losses, the worst subset, and what is said of the whole model."""
    subsets = [record for record in records if record.get("subset") is not None]
    whole = next((record for record in records if record.get("subset") is None), {})
    summary = {key: value for key, value in whole.items() if key not in ("dataset", "subset")}
    if not subsets:
        return summary
    loss = "log_loss" if "log_loss" in subsets[0]["harsanyinet"] else "rmse"
    losses = {name: np.array([line[name][loss] for line in subsets]) for name in ("harsanyinet", *RIVALS)}
    summary |= {"subsets": len(subsets), "loss": loss}
    for name in losses:
        scores = subsets[0][name]
        summary[name] = {score: float(np.mean([line[name][score] for line in subsets])) for score in scores}
    for rival in RIVALS:
        ratios = losses["harsanyinet"] / losses[rival]
        worst = int(ratios.argmax())
        summary[f"against_{rival}"] = {
            "ratio": float(losses["harsanyinet"].mean() / losses[rival].mean()),
            "wins": int((ratios < 1).sum()),
            "worst": {"ratio": float(ratios[worst]), "columns": subsets[worst]["columns"]},
        }
    return summary
