"""shapiq's interaction values with the names of the features, which its plots otherwise number. Needs shapiq."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import shapiq


class NamedInteractionValues(shapiq.InteractionValues):  # type: ignore[misc]
    """As shapiq has them; every plot uses the names unless others are given, and does not abbreviate them."""

    feature_names: list[str]

    def plot_network(self, **options: Any) -> Any:
        """Features as nodes, pairs as edges."""
        return super().plot_network(**self._named(options))

    def plot_si_graph(self, **options: Any) -> Any:
        """Features as nodes, sets of any size as edges."""
        return super().plot_si_graph(**self._named(options))

    def plot_stacked_bar(self, **options: Any) -> Any:
        """A bar per feature, divided by the size of the sets."""
        return super().plot_stacked_bar(**self._named(options))

    def plot_upset(self, **options: Any) -> Any:
        """The strongest sets, and who is in them."""
        return super().plot_upset(**self._named(options))

    def plot_force(self, feature_names: Sequence[str] | None = None, **options: Any) -> Any:
        """What pushes up and what pushes down."""
        return super().plot_force(**self._named({"abbreviate": False} | options, feature_names))

    def plot_waterfall(self, feature_names: Sequence[str] | None = None, **options: Any) -> Any:
        """From the base value to the output, set by set."""
        return super().plot_waterfall(**self._named({"abbreviate": False} | options, feature_names))

    def _named(self, options: dict[str, Any], names: Sequence[str] | None = None) -> dict[str, Any]:
        return {"feature_names": list(self.feature_names if names is None else names)} | options
