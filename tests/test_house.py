"""Rules about the shape of the code."""

from __future__ import annotations

import ast
import functools
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "sessiond").rglob("*.py"))
MAX_LINES = 520
MAX_LINES_WITH_A_THEORY = 700
"""Of a file that opens with what it owns, its states and what must not happen: it is read as one thing, and halves of it are not."""
THEORY_LINES = 8
MAX_FUNCTION_LINES = 70
ENTRY_POINTS = {
    "sessiond.__main__",
    "sessiond.acp.recorder",
    "sessiond.rpc.reference",
    "sessiond.adapters.claude_agent_sdk",
    "sessiond.adapters.langchain",
    "sessiond.adapters.openai_agents",
    "sessiond.index.regex_worker",
    "sessiond.index.semantic_worker",
    "sessiond.index.vocabulary_worker",
    "sessiond.index.preparing_worker",
}
PURE = ("model", "formats")
PURE_FILES = ("journal/record.py", "journal/scanner.py", "journal/replay.py", "transports/framing.py")
NOT_PURE = {
    "os",
    "io",
    "time",
    "asyncio",
    "logging",
    "socket",
    "threading",
    "pathlib",
    "shutil",
    "tempfile",
    "random",
    "secrets",
    "subprocess",
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def most_lines(path: Path) -> int:
    theory = (ast.get_docstring(parsed(path)) or "").count("\n") >= THEORY_LINES
    return MAX_LINES_WITH_A_THEORY if theory else MAX_LINES


def test_a_file_has_one_subject_and_a_function_fits_a_screen():
    """No module grows beyond what can be read at once, and no function beyond a screen."""
    long = [name_of(path) for path in MODULES if path.read_text().count("\n") > most_lines(path)]
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = node.end_lineno - node.lineno + 1
                long += [f"{name_of(path)}.{node.name}"] if lines > MAX_FUNCTION_LINES else []
    assert not long


def test_every_module_says_what_it_is_for():
    """A docstring at the top of every file that holds anything."""
    assert not [name_of(path) for path in MODULES if (tree := parsed(path)).body and not ast.get_docstring(tree)]


_SAME_THING = {
    "Message": "a message as it is kept, as it is on the wire, and as the client gives it",
    "Session": "what the daemon keeps, and a client's hand on it",
    "SessionInfo": "what a list shows, as it is kept, as it is on the wire, and as the client gives it",
}
"""Names of more than one class, and why they are the same thing."""
_OF_ANOTHER_PROTOCOL = {"Origin", "Question", "ToolCall", "Turn"}
"""What `agent_host/shapes.py` must call as the Agent Host Protocol does."""
_READ_LENIENTLY = {f"sessiond.client.{name}" for name in ("types", "daemon_types", "changes", "usage")}
"""Types of the wire as the client reads them, each with the name that the daemon gives it."""


def test_no_two_classes_have_the_same_name():
    """A public name says which class is meant, in whatever file it is read."""
    found: dict[str, list[str]] = {}
    for path in MODULES:
        if name_of(path) not in _READ_LENIENTLY:
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(name_of(path))
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    theirs = {name for name in _OF_ANOTHER_PROTOCOL if "sessiond.agent_host.shapes" in twice.get(name, [])}
    assert theirs == _OF_ANOTHER_PROTOCOL
    assert twice.keys() - theirs == _SAME_THING.keys()


def test_no_docstring_begins_with_a_fragment():
    """Functions say what to do or what they return ("Return whether ..."), and classes and modules name a thing."""
    fragments = re.compile(r"(?:As|How|Of|What|When|Where|Whether|Which|Who|Whose|Why)\b")
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [
        f"{name_of(path)}: {text}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, kinds) and fragments.match(text := ast.get_docstring(node) or "")
    ]
    assert not found


def test_no_module_is_dead():
    """Every module is imported by another one, by name or through its package, or is a known entry point."""
    everything = set[str]().union(*(imports(path) for path in MODULES))
    lazily = "".join(path.read_text() for path in MODULES)
    for path in MODULES:
        name = name_of(path)
        if name in ENTRY_POINTS or path.name in ("__init__.py", "__main__.py"):
            continue
        short = name.rpartition(".")[2]
        assert name in everything or f'"{short}"' in lazily or f'"{name}"' in lazily or f"{name}:" in lazily, name


def test_the_core_does_no_io():
    """Model, formats, journal records and framing import nothing that could touch a disk, a clock, a log or a loop."""
    core = [path for path in MODULES if path.parts[len(ROOT.parts) + 1] in PURE or str(path).endswith(PURE_FILES)]
    for path in core:
        tops = {name.partition(".")[0] for name in imports(path)}
        assert not tops & NOT_PURE, path


def test_only_the_door_changes_files():
    """No module but fs writes: neither open for writing nor the calls of os that change a name."""
    allowed = ("sessiond/fs/", "sessiond/index/", "sessiond/daemon/log.py")
    changing = {"rename", "replace", "remove", "unlink", "rmdir", "truncate", "symlink", "link"}
    for path in MODULES:
        relative = str(path.relative_to(ROOT))
        if relative.startswith(allowed):
            continue
        for node in ast.walk(parsed(path)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
            ):
                assert not (node.func.value.id == "os" and node.func.attr in changing) or relative in DOORS, (
                    relative,
                    node.lineno,
                )


DOORS = {
    # A socket's name in the run folder is not a file of the data folder.
    "sessiond/transports/unix.py",
    "sessiond/reach.py",
    "sessiond/relay.py",
    "sessiond/acp/door.py",
    "sessiond/acp/joined.py",
    # Spools are the recorder's own files: the daemon does not know them.
    "sessiond/acp/recorder.py",
    "sessiond/acp/spool.py",
    "sessiond/acp/start.py",
    # A copy of somebody's database in the temporary folder, which goes when it was read.
    "sessiond/importers/database.py",
}


def test_struct_types_are_looked_at_before_threads_use_them():
    """A type that a module decodes to by `type=`, or converts to, is named in its `ready(...)`: msgspec's first look at a struct
    type is not safe on several threads, and took daemons away by a segmentation fault.
    """
    for path in MODULES:
        used, named = types_decoded_to(path)
        structs = {one for one in used if one.lstrip("_")[:1].isupper()}
        assert structs <= named, path


def types_decoded_to(path: Path) -> tuple[set[str], set[str]]:
    """The expressions that name such types, and those in `ready(...)`."""
    used: set[str] = set()
    named: set[str] = set()
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called == "ready":
            named |= {ast.unparse(one) for one in node.args}
        elif called == "msgspec.convert":
            used |= {ast.unparse(one) for one in node.args[1:2]}
        elif called == "cursors.decode":
            used |= {ast.unparse(one) for one in node.args[3:4]}
        elif called.endswith("decode"):
            used |= {ast.unparse(one.value) for one in node.keywords if one.arg == "type"}
    return used, named


_TRANSLATED = re.compile(
    "|".join(
        (
            r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b)",
            r"(?<![Tt]here )\b(?:is|are) none\b",
            r"\banswers that\b",
            r"\bnobody came\b",
            r"\b(?:[Tt]ill|[Aa]new)\b",
            r"\b(?:he|his|him)\b",
            r"\b(?:by|for|from|of|to) who\b",
            r"\bbe it\b",
            r"\bout of reach\b",
            r"\bput(?:s|ting)? right\b",
            r"\bsees? to it\b",
            r"\b(?:take|takes|taken|taking) away\b",
            r"\b(?:lie|lies|lay|lain) (?:at|beside|elsewhere|in|on|there|under)\b",
            r"\bstands? (?:at|beside|first|in|there|under)\b",
            r"\blook(?:s|ed)? through\b",
            r"\bat (?:one stroke|the most)\b",
            r"\bfaults? of ours\b",
        )
    )
)


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of everything in a module that people read."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_no_text_reads_as_if_translated():
    """Messages, docstrings and comments say "is not a", "is missing", "returns", "until", "is in"."""
    found = [
        f"{path}:{line}: {match.group(0)}"
        for path in MODULES
        for line, text in texts_of(path)
        for match in _TRANSLATED.finditer(" ".join(text.split()))
    ]
    assert found == []


def test_subjects_of_new_commits_are_short():
    """At most 60 characters, beginning with a capital, without a full stop. New: not yet in the repository that this one was cloned from."""
    log = ["git", "log", "--no-merges", "--format=%s", "origin/HEAD..HEAD"]
    done = subprocess.run(log, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a clone of another repository")
    for subject in done.stdout.splitlines():
        assert len(subject) <= 60, subject
        assert subject[:1].isupper() and not subject.endswith("."), subject


def fixtures() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
                "fixture" in ast.unparse(decorator) for decorator in node.decorator_list
            ):
                yield path, node


def test_each_kind_of_home_has_one_name():
    """The table of `tests/fixtures.py`: whoever reads `shell` in a test knows what it is."""
    table = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", (ROOT / "tests" / "fixtures.py").read_text(), re.MULTILINE)
    kinds = dict(table)
    assert kinds["home"] == "Home"
    for path, node in fixtures():
        made = ast.unparse(node.returns) if node.returns else "nothing that it says"
        wanted = kinds.get(node.name)
        assert wanted in (
            None,
            made,
            made.removeprefix("Iterator[").removeprefix("AsyncIterator[").removesuffix("]"),
        ), f"{path.relative_to(ROOT)}: the fixture {node.name} gives {made}, and elsewhere {wanted}"


def test_the_inside_of_others_is_named_in_one_place():
    """`a._b._c` only in `tests/inside.py`. A class may reach into another of its own file."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        tree = parsed(path)
        own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        reached = [
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and all(is_private(name) for name in (node.attr, node.value.attr))
            and node.attr not in own
        ]
        assert not reached or path.name == "inside.py", (
            f"{path.relative_to(ROOT)}: {reached}; tests/inside.py is for such"
        )


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_what_is_not_looked_at_is_rare() -> None:
    """Values of other programs are `Json` or `JsonObject`, which mypy lets nobody use before somebody has looked. `Any` says that
    this was done, or that it is nobody's business here.
    """
    lines = [
        line
        for path in MODULES
        for line in path.read_text("utf-8").split("\n")
        if re.search(r"\b(Any|WireObject)\b", line) and not re.match(r"\s*(from|import)\b", line)
    ]
    assert len(lines) < 600
