"""What models said when `oracles/golden_models.py` was last run, they say today."""

from __future__ import annotations

from pathlib import Path

import golden_models as record
import numpy as np
import pytest

# A rounding step of float64 is 2e-16; another version of BLAS or numpy adds the same numbers in another order, and some
# hundred terms of size 1 then differ by 1e-14 at most. Whatever exceeds 1e-12 is another computation.
TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def recorded() -> dict[str, np.ndarray]:
    with np.load(record.HERE / "said.npz") as stored:
        return dict(stored)


def compare(said: dict[str, np.ndarray], recorded: dict[str, np.ndarray]) -> None:
    for name, now in said.items():
        then = recorded[name]
        assert now.shape == then.shape, name
        assert now.dtype == then.dtype, name
        if name.endswith("coalitions"):
            assert np.array_equal(now, then), name
        else:
            assert np.abs(now - then).max(initial=0) <= TOLERANCE * max(1.0, np.abs(then).max(initial=0)), name


def test_networks_from_seeds_say_what_they_said(recorded: dict[str, np.ndarray]) -> None:
    said = record.said_by_networks()
    assert {name for name in recorded if not name.startswith("file.")} == set(said)
    compare(said, recorded)


def test_stored_models_say_what_they_said(recorded: dict[str, np.ndarray]) -> None:
    said = record.said_by_files(record.HERE)
    assert {name for name in recorded if name.startswith("file.")} == set(said)
    compare(said, recorded)


def test_a_saved_model_is_the_same_file_again(tmp_path: Path) -> None:
    from harsanyinet import load, save

    for name in record.MODEL_FILES:
        save(load(record.HERE / f"{name}.hnet"), tmp_path / name)
        assert record.content(tmp_path / name) == record.content(record.HERE / f"{name}.hnet"), name


def test_the_record_is_no_record_of_zeros(recorded: dict[str, np.ndarray]) -> None:
    for name, then in recorded.items():
        if name.endswith(("outputs", "values", "dividends")) and "base_values" not in name:
            assert (then != 0).mean() > 0.05, name
