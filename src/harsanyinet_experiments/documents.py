"""Puts into the documents what the result files and the examples say: `python -m harsanyinet_experiments.documents`.

Two things are made anew. Between `<!-- results/NAME.json -->` and `<!-- end -->` stands a table or a sentence of that
result file. A `text` block directly below a `python` or `sh` block is what that block prints. All blocks of a page are
run in order, in one folder of their own: python in one namespace, and of `sh` the lines that call harsanyinet.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import shlex
import tempfile
from pathlib import Path
from typing import Any

from harsanyinet import cli, files
from harsanyinet_experiments.document_tables import TABLES

SECTION = re.compile(r"(<!-- results/(\w+)\.json(, [a-z ]+)? -->\n).*?(?=<!-- end -->)", re.DOTALL)
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:^```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
NOT_RUN = ("pip", "make", "python", "harsanyinet demo", "harsanyinet bench", "harsanyinet reproduce")


def pages(root: Path) -> list[Path]:
    """README and all pages under docs."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def fill(text: str, root: Path) -> str:
    """A page with every marked section made anew from its result file."""

    def anew(section: re.Match[str]) -> str:
        head, name, which = section.groups(default="")
        path = root / f"results/{name}.json"
        if not path.exists():
            return f"{head}Not measured yet.\n"
        return f"{head}{TABLES[name + which](json.loads(path.read_text()))}\n"

    return SECTION.sub(anew, text)


def run(text: str, page: str) -> str:
    """Runs the blocks of a page in the current folder; returns the page with what they print now.

    Where that is the same but for rounding, the page keeps what it has.

    Raises:
        RuntimeError: A command failed.
    """
    names: dict[str, Any] = {}

    def anew(block: re.Match[str]) -> str:
        language, code, shown = block.groups()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if language == "python":
                line = text[: block.start(2)].count("\n")
                exec(compile("\n" * line + code, page, "exec"), names)
            else:
                for command in code.splitlines():
                    _call(command)
        if shown is None or same(shown, printed.getvalue()):
            return block[0]
        return f"```{language}\n{code}```\n```text\n{printed.getvalue()}```\n"

    return BLOCK.sub(anew, text)


def _call(command: str) -> None:
    words = shlex.split(command, comments=True)
    if not words or " ".join(words).startswith(NOT_RUN):
        return
    if words[0] != "harsanyinet":
        raise RuntimeError(f"a sh block must call harsanyinet, pip, make or python, however: {command}")
    if code := cli.main(words[1:]):
        raise RuntimeError(f"{command} must end with code 0, however: {code}")


def same(shown: str, printed: str) -> bool:
    """Whether two texts are equal but for the last digits of their numbers and for numbers that are rounding errors."""
    a, b = NUMBER.findall(shown), NUMBER.findall(printed)
    if NUMBER.split(shown) != NUMBER.split(printed):
        return False
    pairs = ((float(x.replace(",", "")), float(y.replace(",", ""))) for x, y in zip(a, b, strict=True))
    return all(math.isclose(x, y, rel_tol=1e-3, abs_tol=1e-11) for x, y in pairs)


def renew(root: Path) -> None:
    """Makes every page anew. A page is written when all of its blocks have run."""
    import matplotlib as mpl

    mpl.use("Agg")
    for page in pages(root.resolve()):
        text = fill(page.read_text(), root)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            text = run(text, page.name)
        files.write_beside(page, text.encode())


if __name__ == "__main__":
    renew(Path())
