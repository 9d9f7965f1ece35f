"""What installers put next to the command: manual pages, and completions that real shells use."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import man_pages
from sessiond.cli.group import COMMANDS
from tests.programs import need, run
from tests.shell import ROOT, Shell

SHARE = ROOT / "share"
DEADLINE_S = 30.0


def test_the_pages_are_current() -> None:
    """Each command has its page, with the words of its help."""
    found = {path.name: path.read_text() for path in man_pages.FOLDER.iterdir()}
    assert found == man_pages.pages(), "run: python -m scripts.man_pages"
    assert set(found) == {"sessiond.1", *(f"sessiond-{name}.1" for name in COMMANDS)}


@pytest.mark.parametrize("path", sorted(man_pages.FOLDER.iterdir()), ids=lambda path: path.name)
def test_man_shows_the_page(path: Path) -> None:
    """Without a warning of troff, and without a mark of it in the text."""
    env = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MAN_KEEP_FORMATTING": "", "MANPAGER": "cat"}
    done = subprocess.run(
        [need("man"), "--warnings", "--local-file", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "SYNOPSIS" in done.stdout
    assert not re.search(r"\\[-e&f(]|^\.[A-Z]{2}", done.stdout, re.MULTILINE)


def test_the_words_of_troff() -> None:
    """A backslash, quotes and a full stop at the beginning of a line are shown as they are."""
    lines = [".start `x`", "\\n 'quoted' -o", "'begin"]
    body = "\n".join(man_pages.escaped(line) for line in lines)
    page = f'.TH "X" "1"\n.SH "NAME"\n.nf\n{body}\n.fi\n'
    env = {**os.environ, "LC_ALL": "C.UTF-8", "MANPAGER": "cat"}
    command = [need("man"), "--warnings", "--local-file", "-"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, env=env, check=False)
    assert done.stderr == ""
    shown = [line.strip().replace("’", "'") for line in done.stdout.splitlines()]
    assert [line for line in lines if line not in shown] == []


@pytest.fixture
def user() -> Iterator[Shell]:
    """Somebody with `sessiond` on the PATH, and our folder among those that shells look into."""
    shell = Shell()
    folder = shell.path / "bin"
    folder.mkdir()
    (folder / "sessiond").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sessiond "$@"\n')
    (folder / "sessiond").chmod(0o755)
    shell.env |= {
        "HOME": str(shell.path),
        "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin",
        "XDG_DATA_DIRS": f"{SHARE}:/usr/share",
        "LC_ALL": "C.UTF-8",
    }
    yield shell
    shell.close()


def test_bash(user: Shell) -> None:
    """bash-completion loads the file for the command's name, and the function finds a command and a session."""
    need("bash")
    assert user("new", "--id", "lock-order").code == 0
    library = Path("/usr/share/bash-completion/bash_completion")
    if not library.exists():
        need("bash-completion")  # a folder, not a program: skips, or fails with CI=true
    script = f"""
        . {library}
        _completion_loader sessiond
        complete -p sessiond
        for words in "sessiond statu" "sessiond show lock"; do
            COMP_WORDS=($words) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMPREPLY=()
            _sessiond_completion sessiond
            echo "${{COMPREPLY[@]}}"
        done
    """
    said = run(["bash", "--norc", "-c", script], env=user.env).splitlines()
    assert said[0].endswith("-F _sessiond_completion sessiond")
    assert said[1:] == ["status", "lock-order"]


def test_fish(user: Shell) -> None:
    """fish finds the file by itself."""
    fish = need("fish")
    assert user("new", "--id", "lock-order").code == 0
    for line, expected in (("sessiond statu", "status"), ("sessiond show lock", "lock-order")):
        said = run([fish, "--private", "-c", f"complete -C '{line}'"], env=user.env)
        assert [one.split("\t")[0] for one in said.splitlines()] == [expected]


def test_zsh(user: Shell) -> None:
    """zsh finds the file in its path of functions; the first Tab already completes, and so does the second."""
    zsh = need("zsh")
    ours, theirs = pty.openpty()
    env = {**user.env, "TERM": "dumb"}
    process = subprocess.Popen([zsh, "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd="/")
    os.close(theirs)

    def type_until(keys: str, expected: str) -> None:
        os.write(ours, keys.encode())
        shown, deadline = "", time.monotonic() + DEADLINE_S
        while expected not in shown:
            assert select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0], shown
            shown += os.read(ours, 4096).decode("utf-8", "replace")

    try:
        functions = SHARE / "zsh" / "site-functions"
        type_until(
            f"PS1='> ' fpath=('{functions}' $fpath); autoload -U compinit; compinit -D -u; echo rea''dy\n", "ready"
        )
        type_until("sessiond statu\t", "sessiond status")
        type_until("\x15sessiond comple\t", "sessiond completion")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
