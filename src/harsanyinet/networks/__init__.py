"""Networks: from children to receptive fields, from units to outputs and exact values. Needs torch.

blocks: child selection, AND gates and the dense blocks. structure: children -> receptive fields -> coalitions. base:
HarsanyiNet, what every network shares. mlp: HarsanyiMLP. attribution: captum's interface. Nothing about images or
tables as people have them, no fit loop, no plot.
"""

from harsanyinet.extras import need_torch

need_torch()
