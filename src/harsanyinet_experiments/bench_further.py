"""`harsanyinet bench further`: our defaults on 72 tables of public packages on which nothing was chosen.

The cells and the summary are those of `bench_defaults`.
"""

from __future__ import annotations

from functools import partial

from harsanyinet_experiments import bench_defaults
from harsanyinet_experiments.development_tables import FURTHER

run = partial(bench_defaults.run, samples=False, sources=FURTHER, name="further")
