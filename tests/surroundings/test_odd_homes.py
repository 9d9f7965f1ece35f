"""Homes that are relative, unknown, or cannot be written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import sessiond
from tests.shell import Shell
from tests.surroundings.strangers import as_nobody, stranger


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = stranger()
    yield made
    made.close()


@pytest.mark.parametrize("where", ["here", "./here/../here", "here/"])
def test_20_a_relative_home_is_that_of_whoever_named_it(shell: Shell, where: str) -> None:
    """The daemon that a client starts has the client's home, and makes nothing in the folder that it starts in."""
    beside = sorted(os.listdir(Path(sessiond.__file__).parent.parent))
    absolute = shell.env["SESSIOND_HOME"]
    cwd = shell.path
    shell.path = shell.path / "here"
    shell.path.mkdir()
    shell.env["SESSIOND_HOME"] = where
    try:
        assert shell("new", "--id", "s", cwd=str(cwd)).code == 0
        assert shell("append", "s", "words", cwd=str(cwd)).code == 0
        assert (shell.path / "data" / "journal").is_dir()
        shell.env["SESSIOND_HOME"] = str(shell.path)
        assert "words" in shell("show", "s").out
        assert shell("stop").code == 0
    finally:
        shell.path = cwd
        shell.env["SESSIOND_HOME"] = absolute
    assert sorted(os.listdir(Path(sessiond.__file__).parent.parent)) == beside


def test_20_a_relay_with_a_relative_home(shell: Shell) -> None:
    """An editor's, too."""
    shell.env["SESSIOND_HOME"] = "."
    message = '{"jsonrpc":"2.0","id":1,"method":"daemon/status"}\n'
    done = subprocess.run(
        shell.command(),
        input=message,
        capture_output=True,
        text=True,
        cwd=shell.path,
        env=shell.env,
        timeout=60,
        check=True,
    )
    shell.env["SESSIOND_HOME"] = str(shell.path)
    assert f'"dataDir":"{shell.data}"' in done.stdout


def test_20_a_relative_temporary_folder_is_none(shell: Shell) -> None:
    """It would be another one for the daemon."""
    del shell.env["SESSIOND_HOME"]
    (shell.path / "t").mkdir()
    shell.env["TMPDIR"] = "t"
    try:
        assert shell("new", cwd=str(shell.path)).code == 0
        assert list((shell.path / "t").iterdir()) == []
    finally:
        assert shell("stop").code == 0


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("status",), ("--stdio",), ("serve",), ("doctor",), ("setup", "vim", "--write")],
    ids=lambda args: args[0],
)
def test_22_nobody_knows_where_home_is(shell: Shell, arguments: tuple[str, ...]) -> None:
    """No HOME, and a user without an entry: one line that says what would help."""
    del shell.env["HOME"], shell.env["SESSIOND_HOME"]
    done = subprocess.run(
        as_nobody(shell.command(*arguments)), env=shell.env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 69)
    assert done.stderr.startswith("sessiond: ")
    assert done.stderr.count("\n") == 1
    assert "SESSIOND_HOME" in done.stderr or "HOME" in done.stderr


def test_22_a_home_that_cannot_be_written_is_told(shell: Shell) -> None:
    """`doctor` names it before anything is lost; other commands end with one line."""
    bare = shell.path / "bare"
    bare.mkdir(mode=0o755)
    shell.path.chmod(0o755)
    env = {**shell.env, "SESSIOND_HOME": str(bare)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            as_nobody(shell.command(*arguments)), env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    done = run("doctor")
    assert done.returncode == 1
    assert f"PROBLEM  data folder {bare}/data: sessions cannot be saved: {bare} is not writable" in done.stdout
    for arguments in (("list",), ("new",), ("--stdio",), ("--tcp", "0"), ("serve",)):
        done = run(*arguments)
        assert done.returncode in (1, 69), done
        assert done.stderr.startswith("sessiond: ")
        assert done.stderr.count("\n") == 1, done.stderr
        assert str(bare) in done.stderr
