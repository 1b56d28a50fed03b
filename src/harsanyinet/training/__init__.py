"""Training: one fit loop for any module, its settings and its checkpoints. Needs torch; knows no network.

What a network is trained on, and how good it is then, is said elsewhere: in `images`, in experiments, by the user.
"""

from harsanyinet.extras import need_torch

need_torch()

from harsanyinet.training.loop import Batch, History, TrainingConfig, fit_module

__all__ = ["Batch", "History", "TrainingConfig", "fit_module"]
