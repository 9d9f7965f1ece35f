"""Random commands in random surroundings: never a traceback, never a hang, and always a documented exit code."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.shell import Shell
from tests.suite.explore import seeds
from tests.surroundings.strangers import stranger

COMMANDS_EACH = 6
CODES = (0, 1, 2, 69)
COMMANDS = (
    "list", "list --json", "status", "status --json", "doctor", "new --id s", "new --json", "append s words", "append s", "show s", "show none",
    "search words", "search --json w*", "rename s 'a b'", "tag s x", "fork s", "export s", "export s -o out.md --overwrite", "export --all --json",
    "import .", "import none", "adopt .", "gc", "backup copy", "setup vim --write", "setup emacs", "--help", "--version", "list --none", "", "--stdio",
    "rm s", "restore s", "completion bash", "stop",
)  # fmt: skip
HOMES = ("home", "./home", "a home", "日本 é", "it's", "deep/" * 25 + "home", os.fsdecode(b"no\xfftext"))
LOCALES = ({}, {"LANG": "C"}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "no_SUCH.locale"})  # fmt: skip
REDIRECTED = (
    "",
    "",
    "",
    "<&-",
    ">&-",
    "2>&-",
    "<&- >&- 2>&-",
    ">/dev/full",
    "2>/dev/full",
    "| true",
    "2>&1 | head -c 1",
)


@pytest.mark.parametrize("seed", seeds(few=2, usual=6))
def test_no_surroundings_are_too_odd(seed: int) -> None:
    """A home, a locale, an umask, and for each command its redirections, with homes that turn read-only in between."""
    rng = random.Random(seed)
    shell = stranger()
    outer = shell.path
    name = rng.choice(HOMES)
    shell.path = Path(f"{outer}/{name}")
    shell.path.mkdir(parents=True, mode=0o700)
    shell.env |= {"SESSIOND_HOME": name if rng.random() < 0.5 else str(shell.path), **rng.choice(LOCALES)}
    if rng.random() < 0.3:
        del shell.env["HOME"]
    mask = rng.choice(("022", "077", "0", "027"))
    try:
        for _ in range(COMMANDS_EACH):
            one_command(shell, rng, mask, cwd=str(outer), told=f"seed {seed}")
    finally:
        shell.env["SESSIOND_HOME"] = str(shell.path)
        shell("stop")
        shell.close()
        shell.path = outer
        shell.close()


def one_command(shell: Shell, rng: random.Random, mask: str, *, cwd: str, told: str) -> None:
    command, redirected = rng.choice(COMMANDS), rng.choice(REDIRECTED)
    if "HOME" not in shell.env:  # the system names the home of whoever runs the tests
        command = command.removesuffix(" --write")
    line = f"umask {mask}; {shlex.join(shell.command())} {command}"
    # In a pipe the command's own code counts.
    line = f"{{ {line}; echo $? >code; }} {redirected}" if "|" in redirected else f"{line} {redirected}; echo $? >code"
    frozen = rng.random() < 0.2
    if frozen:
        shell.path.chmod(0o500)
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", line], env=shell.env, cwd=cwd, input=b"", capture_output=True, timeout=90, check=False
        )
    finally:
        shell.path.chmod(0o700)
    said = done.stdout + done.stderr
    context = f"{told}: {command} {redirected} {shell.env} {said!r}"
    assert b"Traceback" not in said, context
    assert b"Exception ignored" not in said, context
    assert int(Path(cwd, "code").read_text()) in CODES, context
