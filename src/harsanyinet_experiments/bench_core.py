"""`harsanyinet bench core`: forward and explain against a plain MLP of the same widths, and peak memory."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from harsanyinet.explanations.certificate import versions
from harsanyinet.networks.mlp import HarsanyiMLP
from harsanyinet.networks.settings import Gate
from harsanyinet_experiments import results

N_OUTPUTS = 2
BATCHES = (1, 64, 4096)


@dataclass(frozen=True)
class Case:
    """A network to measure."""

    n: int
    gate: Gate
    width: int
    n_blocks: int
    options: dict[str, Any]

    @property
    def label(self) -> str:
        """Gate and how children are found."""
        kind = "" if self.gate == "activation" else " learned" if self.options["learn_children"] else " fixed"
        return f"{self.gate}{kind}"

    def network(self) -> HarsanyiMLP:
        """The Harsanyi network."""
        return HarsanyiMLP(
            self.n,
            N_OUTPUTS,
            width=self.width,
            n_blocks=self.n_blocks,
            gate=self.gate,
            **self.options,
        ).eval()

    def plain(self) -> PlainMLP:
        """The ordinary network with as many hidden values in each block."""
        return PlainMLP(self.n, self.width * self.options.get("channels", 1), self.n_blocks).eval()


class PlainMLP(nn.Module):
    """The comparable network: dense layers, ReLU, a linear readout of every layer."""

    def __init__(self, n: int, width: int, n_blocks: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(n if level == 0 else width, width) for level in range(n_blocks)])
        self.readouts = nn.ModuleList([nn.Linear(width, N_OUTPUTS, bias=False) for _ in range(n_blocks)])

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        out = x.new_zeros(N_OUTPUTS)
        for layer, readout in zip(self.layers, self.readouts, strict=True):
            x = F.relu(layer(x))
            out = out + readout(x)
        return out


def cases(quick: bool) -> list[Case]:
    """The paper's widths for up to 64 players; 4,096 units in all for 1,000."""
    networks = []
    for n in (8, 12) if quick else (8, 12, 64, 1000):
        width, n_blocks, channels = (100, 3, 8) if n < 1000 else (1024, 4, 1)
        networks += [
            Case(n, "activation", width, n_blocks, {}),
            Case(n, "presence", width, n_blocks, {"channels": channels, "learn_children": False}),
            Case(n, "presence", width, n_blocks, {"channels": 1, "learn_children": True}),
        ]
    return networks


def run(out: Path, *, quick: bool = False) -> str:
    """Measures all cases, writes the result file and returns a readable table."""
    results.prepare(out)
    measured: list[dict[str, Any]] = []
    all_cases = cases(quick)
    for case in tqdm(all_cases, desc="networks", leave=False):
        memory = {what: peak_memory(case, what) for what in ("plain", "forward", "explain")}
        for batch in BATCHES:
            times = measure(case, batch, 5 if quick else 9 if case.n == 1000 else 41)
            measured.append(
                {"case": asdict(case), "label": case.label, "batch": batch, **times}
                | ({"peak_mib": memory} if batch == BATCHES[-1] else {})
            )
    result = {
        "command": "harsanyinet bench core" + (" --quick" if quick else ""),
        "what": "milliseconds per batch, medians of interleaved calls; peak_mib: growth of resident memory by one call",
        "aims_at_batch_4096": {
            "explain/forward": 1.10,
            "activation forward/plain": 2.5,
            "presence forward/plain": 1.2,
            "ms per row, 1,000 players": 1.0,
        },
        "machine": {"threads": torch.get_num_threads(), "cpu": _cpu(), **versions()},
        "rows": measured,
    }
    results.write(out, result)
    return table(measured) + f"\nwritten to {out}"


def measure(case: Case, batch: int, repeats: int) -> dict[str, float]:
    """Median milliseconds of the plain network, forward and explain, called in turn."""
    net, plain = case.network(), case.plain()
    x = torch.randn(batch, case.n, generator=torch.Generator().manual_seed(0))
    calls: dict[str, Callable[[], Any]] = {
        "plain_ms": lambda: plain(x), "forward_ms": lambda: net(x), "explain_ms": lambda: net.explain(x)
    }  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in calls}
    with torch.no_grad():
        for repeat in range(-3, repeats):
            for name, call in calls.items():
                start = time.perf_counter()
                call()
                if repeat >= 0:
                    times[name].append(1e3 * (time.perf_counter() - start))
    medians = {name: median(values) for name, values in times.items()}
    ratios = {
        "forward/plain": medians["forward_ms"] / medians["plain_ms"],
        "explain/forward": medians["explain_ms"] / medians["forward_ms"],
        "explain_us_per_row": 1e3 * medians["explain_ms"] / batch,
    }
    return {name: round(value, 4) for name, value in (medians | ratios).items()}


def peak_memory(case: Case, what: str) -> float | None:
    """MiB by which one call on the largest batch raises the resident memory of a fresh process; None off Linux."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    code = f"from harsanyinet_experiments.bench_core import Case, growth; print(growth({case!r}, {what!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return round(float(done.stdout), 1)


def growth(case: Case, what: str) -> float:
    """MiB by which one call raises the resident memory of this process at its peak."""
    net: Any = case.plain() if what == "plain" else case.network()
    call = net.explain if what == "explain" else net
    x = torch.randn(BATCHES[-1], case.n)
    with torch.no_grad():
        call(x[:2])  # what is loaded or cached once is not counted
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = _status("VmRSS")
        kept = call(x)
        peak = _status("VmHWM")
    del kept
    return (peak - before) / 1024


def _status(field: str) -> int:
    """Resident memory of this process in KiB: now (VmRSS) or at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def table(rows: list[dict[str, Any]]) -> str:
    """One line per network and batch."""
    lines = [
        "players  network           batch    plain ms  forward ms  explain ms  forward/plain  explain/forward  us/row  "
        "peak MiB plain/forward/explain"
    ]
    for row in rows:
        memory = "/".join("?" if m is None else f"{m:.0f}" for m in row.get("peak_mib", {}).values())
        lines.append(
            f"{row['case']['n']:>7}  {row['label']:<16}  {row['batch']:>5}  {row['plain_ms']:>10.3f}  "
            f"{row['forward_ms']:>10.3f}  {row['explain_ms']:>10.3f}  {row['forward/plain']:>13.2f}  "
            f"{row['explain/forward']:>15.2f}  {row['explain_us_per_row']:>6.1f}  {memory}"
        )
    return "\n".join(lines)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
