"""Figures are drawn into memory, and none is left open."""

from __future__ import annotations

import matplotlib as mpl
import pytest

mpl.use("Agg")

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def tidy():
    """No figure is open before or after a test, and no setting has changed."""
    assert not plt.get_fignums()
    settings, interactive, backend = dict(mpl.rcParams), plt.isinteractive(), mpl.get_backend()
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == settings
    assert (plt.isinteractive(), mpl.get_backend()) == (interactive, backend)
