"""Puts a planted bug into a copy of the program, even if the code around it was reformatted, renamed or moved.

A bug names an expression and the function that contains it. Both are looked up in the source as `ast.unparse` writes it: without
comments, one statement to a line, and with parentheses that depend on what the code means and on the version of Python, not on the
length of a line. So neither the layout nor the kind of quotes matters. If the function was renamed or moved, the expression is
looked up in the whole file, and then in the whole program, and has to occur exactly once.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LEXEME = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Planted:
    """`old`, which stands once in the function of `place`, becomes `new`; then one of `tests` must fail. The name says what is wrong.

    `place`: the file, from `sessiond/` or as `clients/...`, and after `::` the function with its classes; a file alone where it stands in none. Later lines of
    `new` are indented from where the first one begins.
    """

    name: str
    place: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def file(self) -> str:
        return self.place.partition("::")[0]

    @property
    def path(self) -> str:
        """The file, from the root of the project."""
        return self.file if self.file.startswith("clients/") else f"sessiond/{self.file}"

    @property
    def function(self) -> str:
        """`Class.method`; empty where it stands in none."""
        return self.place.partition("::")[2]


class UprootedError(Exception):
    """The expression of a bug was not found, or was found more than once."""


@dataclass(frozen=True)
class Site:
    """Where a bug goes: characters `start` to `end` of a file of the program, as `ast` writes it."""

    file: Path
    start: int
    end: int


def site(bug: Planted, program: Path) -> Site:
    """`program`: the folder of the package, which `clients/` is beside. Raises `UprootedError`."""
    named = program.parent / bug.file if bug.path == bug.file else program / bug.file
    if named.exists():
        for begin, end in (_span(_text(named), bug.function), (0, len(_text(named)))):
            found = _found(named, bug.old, begin, end)
            if len(found) == 1:
                return found[0]
            if len(found) > 1:
                raise UprootedError(f"{bug.name!r}: {bug.old!r} stands {len(found)} times in {bug.place}")
    found = [one for file in sorted(program.rglob(f"*{named.suffix}")) for one in _found(file, bug.old)]
    if len(found) != 1:
        raise UprootedError(f"{bug.name!r}: {bug.old!r} is not in {bug.place}; it occurs {len(found)} times elsewhere")
    return found[0]


def plant(bug: Planted, program: Path) -> tuple[Path, str]:
    """The file that has the bug, and its text with it, as `ast` writes it. Nothing is written. Raises `UprootedError`."""
    where = site(bug, program)
    text = _text(where.file)
    line = text[text.rfind("\n", 0, where.start) + 1 : where.start]
    indent = line[: len(line) - len(line.lstrip())]
    return where.file, text[: where.start] + bug.new.replace("\n", "\n" + indent) + text[where.end :]


def _found(file: Path, old: str, begin: int = 0, end: int | None = None) -> list[Site]:
    text = _text(file)
    sites = []
    for match in _pattern(old).finditer(text, begin, len(text) if end is None else end):
        start, stop = match.span()
        opened = (match[0].count("(") - match[0].count(")")) - (old.count("(") - old.count(")"))
        for _ in range(opened):  # "not a" was found in "(not a)" without its end
            stop += text.startswith(")", stop)
        for _ in range(-opened):
            start -= text.endswith("(", 0, start)
        sites.append(Site(file, start, stop))
    return sites


@cache
def _pattern(old: str) -> re.Pattern[str]:
    """`old`, with any blanks and more parentheses between its words and signs, and with either kind of quotes."""
    lexemes = _LEXEME.findall(old)
    parts = []
    for before, lexeme in zip(["", *lexemes], lexemes, strict=False):
        words = _is_word(before[-1:]) and _is_word(lexeme[:1])
        parts.append((r"[\s()]+" if words else r"[\s()]*?") * bool(before))
        parts.append("[\"']" if lexeme in "\"'" else re.escape(lexeme))
    return re.compile("".join(parts))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _text(file: Path) -> str:
    text = file.read_text()
    return _written_by_ast(text) if file.suffix == ".py" else text


@cache
def _written_by_ast(text: str) -> str:
    return ast.unparse(ast.parse(text))


@cache
def _span(text: str, function: str) -> tuple[int, int]:
    """Where a function with its decorators starts and ends in `text`; (0, 0) if the text does not define it."""
    if not function:
        return 0, len(text)
    lines = [f"{line}\n" for line in text.split("\n")]
    nodes: list[ast.stmt] = ast.parse(text).body
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None = None
    for part in function.split("."):
        node = next((one for one in _definitions(nodes) if one.name == part), None)
        if node is None:
            return 0, 0
        nodes = node.body
    assert node is not None
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return sum(map(len, lines[: first - 1])), sum(map(len, lines[: node.end_lineno]))


def _definitions(nodes: list[ast.stmt]) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those in `nodes`, also under an `if` or a `try`, but in no other definition."""
    found: list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef] = []
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node)
        else:
            found += _definitions([one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)])
    return found
