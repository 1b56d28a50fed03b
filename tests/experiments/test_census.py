"""Census as the paper codes it."""

from __future__ import annotations

import pytest

from harsanyinet.datasets import load_census
from harsanyinet_experiments.census import label_coded


def test_census_in_numbers():
    x_train, y_train, x_test, _ = label_coded(load_census(rows="complete"))
    assert x_train.shape == (30_162, 12)
    assert x_test.shape == (15_060, 12)
    assert float(x_train.mean(0).abs().max()) < 1e-12
    assert not bool(x_test.isnan().any())
    assert y_train.float().mean().item() == pytest.approx(0.249, abs=1e-3)
