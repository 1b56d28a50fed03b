"""Imports go one way: between rooms along the graph below, which CONTRIBUTING shows, and in no circle of modules.

Read from the source: imports at the top, inside functions and for types alone, and names of modules in strings, which
is how `cli` and the front door import what not everybody needs.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("harsanyinet", "harsanyinet_experiments")
BASE = {"extras", "files", "games", "progress", "threads"}
ALLOWED: dict[str, set[str]] = {
    "extras": set(),
    "files": set(),
    "progress": set(),
    "threads": set(),
    "games": {"progress"},
    "datasets": {"files", "progress"},
    "training": {"extras", "files", "progress"},
    "explanations": BASE,
    "tables": BASE | {"explanations"},
    "networks": BASE | {"training", "explanations"},
    "images": BASE | {"training", "explanations", "networks", "datasets"},
    "loading": BASE | {"tables", "networks", "images"},
    "plots": BASE | {"explanations", "tables", "networks", "images"},
    "peers": BASE | {"training", "explanations", "networks", "images"},
    "batch": BASE | {"explanations", "tables", "networks", "images", "loading"},
    "serving": BASE | {"explanations", "tables", "networks", "images", "loading"},
    "demos": BASE | {"explanations", "tables", "networks", "images", "loading", "datasets", "plots"},
    "cli": BASE | {"batch", "serving", "demos", "harsanyinet_experiments"},
}
ROOMS = set(ALLOWED)
ALLOWED["harsanyinet_experiments"] = ROOMS  # on top of everything


def modules(root: Path = ROOT / "src") -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def front_door(tree: ast.Module) -> dict[str, str]:
    """The public names of the package and where they come from, as its `__init__` says."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_LATER":
            names: dict[str, str] = ast.literal_eval(node.value)
            return names
    raise AssertionError("harsanyinet/__init__.py has no table of names")


def imported(tree: ast.Module, known: Mapping[str, Path], names: Mapping[str, str]) -> Iterator[str]:
    """Every module of ours that a module names: in an import statement wherever it stands, or in a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in known:
                    yield whole
                elif node.module == "harsanyinet" and alias.name in names:
                    yield names[alias.name]
                elif node.module in known:
                    yield str(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = re.fullmatch(r"(harsanyinet(?:_experiments)?(?:\.\w+)*)\.?(?::\w+)?", node.value)
            if named and (named[1] in known or node.value.endswith(".")) and named[1] != "harsanyinet":
                yield named[1]


def edges(root: Path = ROOT / "src") -> set[tuple[str, str]]:
    known = modules(root)
    names = front_door(ast.parse(known["harsanyinet"].read_text()))
    found = set()
    for module, path in known.items():
        for target in imported(ast.parse(path.read_text()), known, names):
            found.add((module, target))
    return found


def room(module: str) -> str:
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] or package if package == "harsanyinet" else package


def wrong(found: set[tuple[str, str]]) -> list[str]:
    """Edges that the graph does not have. The front door names everything; from it only the version is taken."""
    return sorted(
        f"{module} imports {target}"
        for module, target in found
        if room(module) != "harsanyinet" and room(target) not in (room(module), "harsanyinet")
        and room(target) not in ALLOWED.get(room(module), set())
    )  # fmt: skip


def circle(found: set[tuple[str, str]]) -> list[str]:
    """A circle of modules, or nothing. A room's `__init__` may hand on names of its own modules."""
    after: dict[str, set[str]] = {}
    for module, target in found:
        if module != "harsanyinet" and target != "harsanyinet":
            after.setdefault(module, set()).add(target)
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module not in done:
            for target in sorted(after.get(module, ())):
                if found_circle := walk(target, [*path, module]):
                    return found_circle
            done.add(module)
        return []

    return next((c for module in sorted(after) if (c := walk(module, []))), [])


def test_rooms_import_one_way() -> None:
    found = edges()
    assert len(found) > 150  # it reads something
    assert {room(module) for module in modules()} <= {*ALLOWED, "harsanyinet"}
    assert wrong(found) == []


def test_no_circle_of_imports() -> None:
    assert circle(edges()) == []


def test_basenames_are_unique() -> None:
    for paths in (modules().values(), (ROOT / "tests").rglob("*.py")):
        names = [path.stem for path in paths if path.stem not in ("__init__", "conftest")]
        assert sorted(set(names)) == sorted(names)
        assert not {"captum", "utils"} & set(names)


def private_names(tree: ast.Module) -> Iterator[str]:
    """Names with an underscore that a module uses and does not define, of ours and of other packages.

    Not counted: what `self` inherits, and the methods of named tuples, which are public.
    """
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            parts = [*str(node.module).split("."), *(alias.name for alias in node.names)]
            yield from (part for part in parts if re.match("_[^_]", part))
        elif (
            isinstance(node, ast.Attribute)
            and re.match("_[^_]", node.attr)
            and node.attr not in {*own, "_replace"}
            and getattr(node.value, "id", "") not in ("self", "cls")
        ):
            yield ast.unparse(node)


def test_private_names_stay_in_their_module() -> None:
    used = {module: list(private_names(ast.parse(path.read_text()))) for module, path in modules().items()}
    assert {module: names for module, names in used.items() if names} == {}
    assert list(private_names(ast.parse("from a import _b\nimport c\nc._d()\n"))) == ["_b", "c._d"]


def test_contributing_names_every_module() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("src/harsanyinet/\n")[2].partition("src/harsanyinet_exp")[0]
    rooms: dict[str, set[str]] = {}
    for line in text.splitlines():
        if named := re.match(r"  (\w+)/ ", line):
            current = rooms.setdefault(named[1], set())
        elif not line.startswith("      "):
            current = rooms.setdefault("", set())
        current |= set(re.findall(r"\w+", line.removeprefix("  ")))
    for module, path in modules().items():
        parts = module.split(".")
        if parts[0] == "harsanyinet" and path.stem != "__init__":
            assert path.stem in rooms[parts[1] if len(parts) == 3 else ""], f"CONTRIBUTING does not name {module}"


def test_every_room_says_what_lives_there() -> None:
    for module, path in modules().items():
        if path.name == "__init__.py":
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            assert len(text) > (80 if module == "harsanyinet" else 150), module


LINES = {
    "at the top": "from harsanyinet.images.cnn import HarsanyiCNN\n",
    "in a function": "def f():\n    from harsanyinet.images import cnn\n",
    "through the front door": "def f():\n    from harsanyinet import HarsanyiCNN\n",
    "by a name in a string": 'WHERE = "harsanyinet.images.cnn:HarsanyiCNN"\n',
    "for types": "if False:\n    import harsanyinet.images.cnn\n",
}


@pytest.mark.parametrize("line", LINES.values(), ids=list(LINES))
def test_an_image_import_in_tables_is_seen(line: str) -> None:
    known = modules()
    names = front_door(ast.parse(known["harsanyinet"].read_text()))
    targets = set(imported(ast.parse(line), known, names))
    assert {"harsanyinet.images.cnn"} == targets
    assert wrong({("harsanyinet.tables.bins", target) for target in targets})


def test_a_circle_by_lazy_imports_is_seen() -> None:
    back = {("harsanyinet.tables.trees", "harsanyinet.tables.estimators")}
    assert circle(edges() | back)[0] == circle(edges() | back)[-1]


def test_importing_the_package_is_cheap() -> None:
    code = (
        "import sys, time; start = time.process_time(); import harsanyinet; seconds = time.process_time() - start;"
        "print(seconds, *{'torch', 'pandas', 'sklearn', 'scipy', 'numba'} & set(sys.modules))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    ]
    assert min(float(run[0]) for run in runs) < 0.15  # seconds of work: others use the machine, too
    assert [run[1:] for run in runs] == [[], [], []]
