"""Plots: what explanations, effects and maps look like. Draws, computes nothing; needs matplotlib.

explanation_plots: Shapley values of rows. interaction_plots: who acts together. effect_plots: what columns and pairs
add. maps: Shapley values over images. drawing: the axes, words and numbers that they share.
"""

from harsanyinet.plots.effect_plots import plot_pair, plot_shape
from harsanyinet.plots.explanation_plots import plot_bar, plot_beeswarm, plot_contrast, plot_waterfall
from harsanyinet.plots.interaction_plots import plot_fields, plot_interactions, plot_network, plot_order_spectrum
from harsanyinet.plots.maps import plot_cell_interactions, plot_map, plot_maps

__all__ = [
    "plot_bar",
    "plot_beeswarm",
    "plot_cell_interactions",
    "plot_contrast",
    "plot_fields",
    "plot_interactions",
    "plot_map",
    "plot_maps",
    "plot_network",
    "plot_order_spectrum",
    "plot_pair",
    "plot_shape",
    "plot_waterfall",
]
