"""A folder of table files and models, and the path of a file to write."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from shop_files import shop

from harsanyinet.batch.fit_files import fit_file


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A folder with a table, as CSV and Parquet, and models of two classes, of three and of a number."""
    folder = tmp_path_factory.mktemp("store")
    shop().to_csv(folder / "shop.csv", index=False)
    if find_spec("pyarrow"):
        shop().to_parquet(folder / "shop.parquet")
    settings = {"max_iter": 20, "random_state": 0, "n_jobs": 1, "categorical_features": ["zip"], "progress": False}
    for target in ("bought", "kind", "price"):
        drop = [name for name in ("bought", "kind", "price") if name != target]
        fit_file(folder / "shop.csv", target, folder / f"{target}.hnet", drop=drop, **settings)
    return folder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.csv"
