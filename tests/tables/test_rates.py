"""The learning rate that quick fits find, where there are more rows than they look at."""

from __future__ import annotations

import numpy as np
import pytest

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables import rates

OPTIONS = {"max_iter": 20, "copies": 0, "random_state": 0, "n_jobs": 1, "progress": False}


@pytest.mark.parametrize(("model", "growth"), [(HarsanyiClassifier, rates.GROWTH), (HarsanyiRegressor, 0.0)])
def test_more_rows_than_quick_fits_look_at_let_a_classifier_go_farther(model, growth, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1200, 3))
    y = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=1200)
    y = (y > 0).astype(int) if model is HarsanyiClassifier else y
    monkeypatch.setattr(rates, "FASTEST", 1e3)
    monkeypatch.setattr(rates, "MOST_ROWS", 600)
    calls = []
    best_distance = rates._best_distance
    monkeypatch.setattr(rates, "_best_distance", lambda *args: calls.append(best_distance(*args)) or calls[-1])
    fitted = model(**OPTIONS).fit(x, y)
    assert fitted.learning_rate_ == pytest.approx(rates.FARTHER * calls[0] * 2**growth / 20, rel=1e-12)
