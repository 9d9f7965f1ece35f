"""Two modules never need each other: a module can be understood with those it imports, and they without it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = [(ROOT, "sessiond"), (ROOT / "clients" / "repl", "sessiond_repl")]


def modules(packages: list[tuple[Path, str]]) -> dict[str, Path]:
    """Every module by its name. A package is its `__init__`."""
    found = {}
    for folder, package in packages:
        for path in (folder / package).rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Every import counts, wherever it stands: in a function and under TYPE_CHECKING too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"{path}:{node.lineno} imports relatively"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in known else node.module


def circle(packages: list[tuple[Path, str]]) -> list[str]:
    """The modules of a circle, each imported by the next; empty if there is no circle."""
    known = modules(packages)
    graph = {name: set(imports(path, known)) & known.keys() - {name, "sessiond"} for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other() -> None:
    """Neither at run time nor for types alone. `import sessiond` itself gives the version, and counts for nothing."""
    assert len(modules(PACKAGES)) > 200
    assert circle(PACKAGES) == []


@pytest.mark.parametrize(
    "back",
    [
        "import sessiond.a",
        "from sessiond.a import X",
        "from sessiond import a",
        "def f():\n    from sessiond.a import X",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sessiond.a import X",
    ],
)
def test_a_circle_is_found(tmp_path: Path, back: str) -> None:
    """Over a third module, and however its last import is written."""
    folder = tmp_path / "sessiond"
    folder.mkdir()
    texts = {"__init__": "", "a": "from sessiond import b, __version__", "b": "from sessiond.c import Y", "c": ""}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    assert circle([(tmp_path, "sessiond")]) == []
    (folder / "c.py").write_text(back)
    assert set(circle([(tmp_path, "sessiond")])) == {"sessiond.a", "sessiond.b", "sessiond.c"}


def test_a_shared_store_costs_nothing_until_it_is_used() -> None:
    """The hub's port, its address and its opening import neither asyncpg nor cryptography."""
    code = (
        "import sys, sessiond.hub.port, sessiond.hub.address, sessiond.hub.opening, sessiond.hub.bodies, sessiond.cli, sessiond.daemon\n"
        "print([one for one in ('asyncpg', 'cryptography') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
