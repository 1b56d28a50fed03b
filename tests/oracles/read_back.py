"""Columns of a model, and a file as they read it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from harsanyinet.batch.tablefiles import read_rows_for
from harsanyinet.tables.columns import Column

COLUMNS = [
    Column("n", "number"),
    Column("c", "category", levels=("1", "01", "2", "x", "007"), level_bins=np.ones((5, 1), dtype=np.uint8)),
    Column("t", "number", boolean=True),
]


def read(path, rows=2, columns=COLUMNS, **options):
    return pd.concat(read_rows_for(columns, path, rows=rows, **options))
