"""Networks: from children to receptive fields, from units to outputs and exact values. Needs torch.

gates: child selection, ANDs and the paper's unit, as functions. blocks: the dense blocks. paper_training: the paper's
block in training. structure: children -> receptive fields -> coalitions, units -> values and dividends.
base: HarsanyiNet, what every network shares. settings, draws: what a network is made with, and its first weights. mlp:
HarsanyiMLP. attribution: captum's interface. Nothing about images or tables as people have them, no fit loop, no plot.
"""

from harsanyinet.extras import need_torch

need_torch()
