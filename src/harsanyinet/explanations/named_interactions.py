"""shapiq's interaction values with the names of the features, which its plots otherwise number. Needs shapiq."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
import shapiq

from harsanyinet.explanations.indices import InteractionIndex


def _named(plot: Callable[..., Any], **usual: Any) -> Callable[..., Any]:
    @wraps(plot)
    def draw(self: Any, feature_names: Sequence[str] | None = None, **options: Any) -> Any:
        names = list(self.feature_names if feature_names is None else feature_names)
        return plot(self, feature_names=names, **usual | options)

    return draw


class NamedInteractionValues(shapiq.InteractionValues):  # type: ignore[misc]
    """As shapiq has them; every plot uses the names unless others are given, and does not abbreviate them."""

    feature_names: list[str]

    plot_network = _named(shapiq.InteractionValues.plot_network)
    plot_si_graph = _named(shapiq.InteractionValues.plot_si_graph)
    plot_stacked_bar = _named(shapiq.InteractionValues.plot_stacked_bar)
    plot_upset = _named(shapiq.InteractionValues.plot_upset)
    plot_force = _named(shapiq.InteractionValues.plot_force, abbreviate=False)
    plot_waterfall = _named(shapiq.InteractionValues.plot_waterfall, abbreviate=False)


def as_shapiq(index: InteractionIndex, base_value: float, feature_names: Sequence[str]) -> NamedInteractionValues:
    """The index of one row and output, (1, sets), and the value of the empty set."""
    interactions = NamedInteractionValues(
        values=np.concatenate([[base_value], index.values[0]]).astype(np.float64),
        index=index.name,
        min_order=0,
        max_order=index.order,
        n_players=index.n_features,
        interaction_lookup={(): 0} | {members: i + 1 for i, members in enumerate(index.sets)},
        estimated=False,
        baseline_value=base_value,
    )
    interactions.feature_names = list(feature_names)
    return interactions
