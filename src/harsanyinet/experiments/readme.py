"""Puts the tables of result files into README.md: `python -m harsanyinet.experiments.readme`, as `make bench` does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from harsanyinet import files

SECTION = re.compile(r"(<!-- (results/(\w+)\.json) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str, root: Path) -> str:
    """README's text with every marked section made anew from its result file."""
    return SECTION.sub(lambda m: m[1] + TABLES[m[3]](json.loads((root / m[2]).read_text())) + "\n" + m[4], text)


def exactness(result: dict[str, Any]) -> str:
    """The paper's Census configuration beside the paper's figures."""
    lines = [
        "| Census, the paper's configuration | accuracy | error (RMSE) float32 | float64 | max abs(logit) |",
        "| --- | --- | --- | --- | --- |",
        f"| the paper | {result['paper']['accuracy']} % | {result['paper']['rmse']:.2e} | | |",
    ]
    for name, ours in result["ours"].items():
        lines.append(
            f"| ours, {name} | {ours['accuracy']:.2f} % | {ours['rmse_float32']:.2e} | {ours['rmse_float64']:.2e} | "
            f"{ours['max_logit']:.1f} |"
        )
    return "\n".join(lines)


def core(result: dict[str, Any]) -> str:
    """Ratios at the largest batch."""
    lines = [
        "| players | network | prediction / plain MLP | explanation / prediction | us per explained row | peak MiB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in result["rows"]:
        if "peak_mib" in row:
            lines.append(
                f"| {row['case']['n']:,} | {row['label']} | {row['forward/plain']:.2f} | "
                f"{row['explain/forward']:.2f} | {row['explain_us_per_row']:.1f} | {row['peak_mib']['explain']} |"
            )
    return "\n".join(lines)


TABLES = {"bench_core": core, "bench_exactness": exactness}

if __name__ == "__main__":
    readme = Path("README.md")
    files.write_beside(readme, fill(readme.read_text(), readme.parent).encode())
