"""Following a tool in other places than its usual one: named with `--path`, or by a variable that the daemon does not have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.test_follow import add, texts, turn, wait_for
from tests.shell import Shell, wait_until


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "home").mkdir()
    made = Shell(HOME=str(tmp_path / "home"))
    yield made
    made.close()


def profile(tmp_path: Path, name: str, session: str) -> Path:
    path = tmp_path / name / "projects" / "-w" / f"{session}.jsonl"
    path.parent.mkdir(parents=True)
    add(path, turn(1, session))
    return path


def tools(shell: Shell) -> list[str]:
    return list(shell("follow", "status", "--json").json["tools"])


def test_places_that_are_named(shell: Shell, tmp_path: Path) -> None:
    """They are followed beside the usual ones or without them, after a restart too, and end one by one or with their tool."""
    one, two = profile(tmp_path, "one", "s1"), profile(tmp_path, "two", "s2")
    folder, file = str(tmp_path / "one"), str(two)
    done = shell("follow", "on", "claude-code", "--path", folder, "--path", file)
    assert done.code == 0, done
    assert tools(shell) == [f"claude-code:{folder}", f"claude-code:{file}"]
    for path, session in ((one, "s1"), (two, "s2")):
        wait_for(shell, f"claude-code-{session}", ["text 1"])
        add(path, turn(2, session))
        wait_for(shell, f"claude-code-{session}", ["text 1", "text 2"])
    shell("stop")
    add(one, turn(3, "s1"))
    wait_for(shell, "claude-code-s1", ["text 1", "text 2", "text 3"])
    assert shell("follow", "off", "claude-code", "--path", file).code == 0
    assert tools(shell) == [f"claude-code:{folder}"]
    assert shell("follow", "on").code == 0
    assert tools(shell) == [f"claude-code:{folder}", "all"]
    assert shell("follow", "off", "claude-code").code == 0
    assert tools(shell) == ["all"]
    assert shell("follow", "off").code == 0
    assert tools(shell) == []


def test_a_relative_path_is_the_shell_s(shell: Shell, tmp_path: Path) -> None:
    profile(tmp_path, "one", "s1")
    assert shell("follow", "on", "claude-code", "--path", "one", cwd=str(tmp_path)).code == 0
    assert tools(shell) == [f"claude-code:{tmp_path / 'one'}"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("on", "--path", "/x"), "--path belongs to one tool"),
        (("on", "codex", "pi", "--path", "/x"), "--path belongs to one tool"),
        (("on", "codx", "--path", "/x"), "did you mean 'codex'?"),
        (("on", "all", "--path", "/x"), "a place belongs to one tool"),
        (("on", "codex:x"), "is not an absolute path"),
        (("off", "codex", "--path", "/x"), "'codex:/x' is not followed"),
    ],
)
def test_a_place_that_cannot_be_followed(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    done = shell("follow", *arguments)
    assert done.code != 0
    assert words in done.err
    assert tools(shell) == []


def test_places_that_only_this_shell_knows(shell: Shell, tmp_path: Path) -> None:
    """The daemon was started without the variable, as by a service manager: `follow on` names its places."""
    profile(tmp_path, "one", "s1")
    profile(tmp_path, "two", "s2")
    assert shell("list").code == 0
    shell.env["CLAUDE_CONFIG_DIR"] = f"{tmp_path}/one,{tmp_path}/two"
    done = shell("follow", "on", "claude-code", "--json")
    there = {one["path"] for one in json.loads(done.out)["places"]}
    assert there == {f"{tmp_path}/{one}/projects" for one in ("one", "two")}
    wait_until(lambda: texts(shell, "claude-code-s1") == texts(shell, "claude-code-s2") == ["text 1"])
