"""One thread per test process: with two processes on two cores, more of them only wait for each other."""

from __future__ import annotations

import os

import torch

os.environ.setdefault("MPLBACKEND", "Agg")
torch.set_num_threads(1)
