"""The methods that HarsanyiNet is measured against: estimators of Shapley values for any game, and other networks.

`sampling`, `antithetic`, `kernel_shap`, `kernel_shap_paired` and `unbiased_kernel_shap` take any callable of a mask
matrix; `deep_shap` and `FastSHAP` take networks; the ShapNets, for tables and for images, are networks of their own.
"""

from harsanyinet.extras import need_torch

need_torch()

from harsanyinet.peers.deep import deep_shap, deep_shap_as_is
from harsanyinet.peers.estimates import (
    Estimate,
    antithetic,
    curve,
    equal_split,
    kernel_shap,
    kernel_shap_paired,
    rmse,
    row_errors,
    sampling,
    unbiased_kernel_shap,
    zero,
)
from harsanyinet.peers.fast import FastSHAP
from harsanyinet.peers.row_games import CountingGame, model_game
from harsanyinet.peers.shapnet import DeepShapNet, ShallowShapNet
from harsanyinet.peers.shapnet_image import DeepConvShapNet, ShallowConvShapNet

__all__ = [
    "CountingGame",
    "DeepConvShapNet",
    "DeepShapNet",
    "Estimate",
    "FastSHAP",
    "ShallowConvShapNet",
    "ShallowShapNet",
    "antithetic",
    "curve",
    "deep_shap",
    "deep_shap_as_is",
    "equal_split",
    "kernel_shap",
    "kernel_shap_paired",
    "model_game",
    "rmse",
    "row_errors",
    "sampling",
    "unbiased_kernel_shap",
    "zero",
]
