"""Training: one fit loop for any module, its settings and its checkpoints. Needs torch; knows no network.

config: settings and learning rates. rows: batches, and masks of absent players. steps: optimizers and one epoch.
checkpoint: the file of an interrupted training. loop: `fit_module`, which calls them. What a network is trained on, and
how good it is then, is said elsewhere.
"""

from harsanyinet.extras import need_torch

need_torch()

from harsanyinet.training.config import History, TrainingConfig
from harsanyinet.training.loop import fit_module
from harsanyinet.training.rows import Batch

__all__ = ["Batch", "History", "TrainingConfig", "fit_module"]
