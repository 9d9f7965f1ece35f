"""Folders for a while: what a killed process left there is removed by the next daemon or backup, and nothing else is."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from sessiond.fs.scratch import left_behind, remove_left_behind, scratch_folder
from sessiond.hub.keys import file_of, new_key
from tests.shell import Shell, wait_until

HOLDER = """
import os, sys
from sessiond.fs.scratch import scratch_folder
with scratch_folder() as folder:
    open(f"{folder}/words", "w").write("A MARKER")
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder(env: dict[str, str]) -> tuple[subprocess.Popen[str], Path]:
    """A process that has such a folder, and the folder."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=pipe, stdout=pipe, text=True, env=env)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def killed(env: dict[str, str]) -> Path:
    """The folder of a process that was killed."""
    process, folder = holder(env)
    with process:
        process.kill()
    assert (folder / "words").exists()
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def there(shell: Shell, temporary: Path) -> Shell:
    """Commands and the daemon have the same folder for temporary files."""
    shell.env["TMPDIR"] = str(temporary)
    return shell


def test_it_is_private_and_goes(temporary: Path) -> None:
    """At the end, even after an error."""
    with suppress(ValueError), scratch_folder() as folder:
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        Path(folder, "words").write_text("text")
        assert list(left_behind()) == []
        raise ValueError
    assert list(temporary.iterdir()) == []


def test_a_killed_process_leaves_its_folder_to_the_next(temporary: Path) -> None:
    """Those of the living, of another home, of anything else, and what a link leads to, stay."""
    env = dict(os.environ)
    process, living = holder(env)
    with process:
        left = killed(env)
        elsewhere = killed({**env, "SESSIOND_HOME": "/somewhere/else"})
        other = temporary / "sessiond-notes"
        other.mkdir()
        link = temporary / f"{left.name}-link"
        link.symlink_to(other)
        assert list(left_behind()) == [str(left)]
        remove_left_behind()
        assert set(temporary.iterdir()) == {living, elsewhere, other, link}
        process.communicate("")
    assert not living.exists()


def test_one_that_is_removed_before_it_is_locked_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may take a new folder for one that was left."""
    make, made = tempfile.mkdtemp, list[str]()

    def taken_away(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            remove_left_behind()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", taken_away)
    with scratch_folder() as folder:
        assert [folder] == made[1:]
        assert list(temporary.iterdir()) == [Path(folder)]


def test_without_locks_nothing_is_taken_for_left(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some disks have none: the folder can be used there, and nobody else removes it."""

    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with scratch_folder() as folder:
        remove_left_behind()
        assert os.path.isdir(folder)
    assert list(temporary.iterdir()) == []


def test_the_start_of_a_daemon_removes_what_was_left(there: Shell) -> None:
    """Doctor names it until then."""
    left = killed(there.env)
    assert f"PROBLEM  {left}" in there("doctor").out
    assert there("list").code == 0
    assert not left.exists()
    assert there("doctor").code == 0
    left = killed(there.env)
    assert there("stop").code == 0
    assert str(left) in there("doctor", "--repair").out
    assert not left.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_backup_that_a_signal_ends_leaves_nothing_to_read(
    there: Shell, temporary: Path, tmp_path: Path, number: int
) -> None:
    """What SIGKILL leaves, the next backup removes."""
    key, file = str(tmp_path / "my.key"), str(tmp_path / "all.sealed")
    Path(key).write_bytes(file_of([new_key()]))
    Path(key).chmod(0o600)
    with there.client() as client:
        client.new(id="one").append("user", "A MARKER")
        client.save()
    os.mkfifo(waits := tmp_path / "waits")
    (tmp_path / "sitecustomize.py").write_text(f"import tarfile\ntarfile.open = lambda **_: open({str(waits)!r})\n")
    there.env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(tmp_path), there.env.get("PYTHONPATH"))))
    process = there.start("backup", file, "--encrypt", "--key-file", key)
    wait_until(lambda: list(temporary.glob("*/backup/SHA256SUMS")) != [])
    process.send_signal(number)
    process.wait(30)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGKILL:
        assert list(temporary.iterdir()) != []
        assert there("backup", str(tmp_path / "another")).code == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_while_things_are_removed(number: int) -> None:
    """It is told again at the end. A second one changes nothing."""
    code = """
import os, sys
from sessiond.cli.ending import OrderlyEnd
number = int(sys.argv[1])
with OrderlyEnd() as end:
    try:
        with end.interruptible():
            os.kill(os.getpid(), number)
            print("not interrupted")
    except KeyboardInterrupt:
        os.kill(os.getpid(), number)
        print("removed", flush=True)
print("lived on")
"""
    done = subprocess.run([sys.executable, "-c", code, str(int(number))], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-number, "removed\n")
    code = """
import os, sys
from sessiond.cli.ending import OrderlyEnd
with OrderlyEnd() as end:
    os.kill(os.getpid(), int(sys.argv[1]))
    print("made", flush=True)
    with end.interruptible():
        print("used")
"""
    done = subprocess.run([sys.executable, "-c", code, str(int(number))], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-number, "made\n")
