"""`harsanyinet bench exactness`: the paper's Census configuration, trained, against brute force in both precisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from harsanyinet.datasets import load_census
from harsanyinet.explanations.certificate import versions
from harsanyinet.networks.mlp import HarsanyiMLP
from harsanyinet.peers import row_errors
from harsanyinet.training import TrainingConfig, fit_module
from harsanyinet_experiments import results
from harsanyinet_experiments.against_brute_force import true_class, truth
from harsanyinet_experiments.census import label_coded

PAPER = {"accuracy": 84.57, "rmse": 2.18e-8}
CHILDREN: dict[str, float | None] = {
    "paper's text: 10 children": None,
    "authors' first children: 10 % of the inputs": 0.1,
}


def run(out: Path, *, quick: bool = False, seed: int = 0) -> str:
    """Trains, compares with brute force, writes the result file and returns a readable summary."""
    results.prepare(out)
    split = load_census(rows="complete")
    x, y, x_test, y_test = label_coded(split)
    n_rows, epochs = (20, 2) if quick else (200, 100)
    config = TrainingConfig(epochs=epochs, batch_size=128, optimizer="sgd", learning_rate=0.1)
    networks = {}
    for name, initial_children in CHILDREN.items():
        net = HarsanyiMLP(12, 2, beta=10.0, gamma=100.0, initial_children=initial_children, seed=seed)
        history = fit_module(net, x.float(), y, loss=_loss, config=config, seed=seed)
        networks[name] = {"train_seconds": round(history.seconds, 1), **examine(net, x_test, y_test, n_rows)}
    result = {
        "command": "harsanyinet bench exactness" + (" --quick" if quick else ""),
        "what": "Census, 3 blocks of 100 units, beta 10, gamma 100, SGD 0.1, batch 128; rmse: mean over rows of "
        "||phi - phi*|| / sqrt(12), output: the logit of the true class",
        "rows_kept": split.description,
        "epochs": epochs,
        "seed": seed,
        "paper": PAPER,
        "ours": networks,
        "versions": versions(),
    }
    results.write(out, result)
    lines = [f"paper: accuracy {PAPER['accuracy']} %, RMSE {PAPER['rmse']:.2e}"]
    for name, ours in networks.items():
        lines.append(
            f"{name}: accuracy {ours['accuracy']:.2f} %, RMSE {ours['rmse_float32']:.2e} in float32 and "
            f"{ours['rmse_float64']:.2e} in float64 over {n_rows} rows, max |logit| {ours['max_logit']:.2f}; "
            f"share of units ever active by block {ours['share_of_units_ever_active']}"
        )
    return "\n".join([*lines, f"written to {out}"])


def examine(net: HarsanyiMLP, x_test: Tensor, y_test: Tensor, n_rows: int) -> dict[str, Any]:
    """Accuracy, RMSE to brute force in both precisions, and which units and orders act."""
    with torch.no_grad():
        logits = net(x_test.float())
        acting = [float((z != 0).any(0).float().mean()) for z in net.units(x_test.float())]
    some, labels = x_test[:n_rows], y_test[:n_rows].numpy()
    errors = {}
    for dtype in (torch.float32, torch.float64):
        net = net.to(dtype)
        rows = some.to(dtype)
        exact = truth([net.game(rows, r) for r in range(n_rows)], labels, 12)
        errors[dtype] = row_errors(true_class(net.explain(rows).values, labels), exact)
    return {
        "accuracy": 100 * float((logits.argmax(1) == y_test).float().mean()),
        "rmse_float32": float(errors[torch.float32].mean()),
        "rmse_float64": float(errors[torch.float64].mean()),
        "worst_row_float64": float(errors[torch.float64].max()),
        "max_logit": float(logits.abs().max()),
        "share_of_units_ever_active": [round(share, 4) for share in acting],
        "order_spectrum": [round(s, 4) for s in net.explain(x_test.double()[:2000]).order_spectrum().tolist()],
    }


def _loss(outputs: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(outputs, y, reduction="none")
