"""Some of the public tables; `python tests/public_tables.py` runs all of them."""

from __future__ import annotations

import pytest
from public_tables import TABLES, check


@pytest.mark.parametrize("table", [table for table in TABLES if "/" not in table.file][:4], ids=lambda t: t.name)
def test_a_table_of_scikit_learn(table, tmp_path):
    check(table, tmp_path)


@pytest.mark.parametrize("table", [table for table in TABLES if table.file.startswith("shapiq/")], ids=lambda t: t.name)
@pytest.mark.needs("shapiq")
def test_a_table_of_shapiq(table, tmp_path):
    check(table, tmp_path)


def test_there_are_thirty():
    assert len({table.file for table in TABLES}) >= 30
    assert {"semicolon", "gz", "bom", "latin-1", "duplicate header", "missing as ?", "as it is"} <= {
        table.dress for table in TABLES
    }
