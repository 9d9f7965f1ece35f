"""Each error message says what to do next."""

from __future__ import annotations

import inspect
import re

import pytest

from sessiond import cli, errors
from sessiond.cli.group import COMMANDS
from sessiond.cli.next_steps import NEXT_STEPS, next_step
from sessiond.errors import SessiondError
from sessiond.rpc.errors import CODES
from tests.shell import Shell


def every_class() -> list[type[SessiondError]]:
    return [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, SessiondError)]


def kinds() -> set[str]:
    """Of the whole tree of errors."""
    return {one.kind for one in every_class()}


def test_all_kinds_have_one() -> None:
    """The table has every kind that the code can raise or the wire can carry, and no other."""
    assert set(NEXT_STEPS) == kinds() | set(CODES)


@pytest.mark.parametrize("kind", NEXT_STEPS)
def test_a_step_is_one_clause(kind: str) -> None:
    """It fits behind a message and a semicolon, and names commands that exist."""
    step = NEXT_STEPS[kind]
    assert step[0].islower() or step[0] == "`"
    assert not step.endswith(".")
    for named in re.findall(r"`sessiond ([a-z]+)", step):
        assert named in COMMANDS


@pytest.mark.parametrize("kind", sorted(kinds() - {"internalError", "daemonUnreachable"}))
def test_the_command_line_prints_it(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An error without a hint gets the step of its kind; one with a hint keeps its own."""
    one = next(c for c in every_class() if c.kind == kind)
    cli._failed(one("it broke"))
    assert capsys.readouterr().err == f"sessiond: it broke; {NEXT_STEPS[kind]}\n"
    cli._failed(one("it broke", hint="mend it"))
    assert capsys.readouterr().err == "sessiond: it broke; mend it\n"


def test_an_unknown_kind_of_a_later_daemon() -> None:
    """A daemon of a later version may have more kinds: its hint is shown, and nothing is made up."""
    assert next_step("somethingNew", "do this") == "do this"
    assert next_step("somethingNew", None) is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("show", "nope"), "sessiond list"),
        (("new", "--id", "../x"), "letters"),
        (("new", "--id", "there"), ""),
        (("search", "--regex", "("), ""),
        (("import", "/nonexistent"), "no such file"),
        (("mv", "there", "--store", "nowhere"), ""),
        (("restore", "nope"), "--deleted"),
        (("fork", "there", "--at", "99"), ""),
        (("lst",), "Did you mean 'list'?"),
        (("list", "--limt", "3"), "--limit"),
    ],
)
def test_a_real_error_ends_with_a_step(shell: Shell, arguments: tuple[str, ...], named: str) -> None:
    """One line on standard error: what happened, then what to do."""
    shell("new", "--id", "there", "--name", "There")
    done = shell(*arguments)
    assert done.code in (1, 2)
    (line,) = done.err.splitlines()
    assert named in line
    assert line.startswith("sessiond: ")
    assert "; " in line or "?" in line or "." in line or arguments[0] == "import"
