"""`doctor` names what is wrong, changes nothing, and reports by its exit code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sessiond.doctor.index import examine_index
from sessiond.endpoint import places
from sessiond.fs import RealFileSystem
from tests.shell import Shell

_READ_ONLY = """
mount --bind "$SESSIOND_HOME" "$SESSIOND_HOME" && mount -o remount,ro,bind "$SESSIOND_HOME" || exit 77
"$0" -m sessiond doctor; "$0" -m sessiond doctor --repair
"""


def problems(shell: Shell) -> list[str]:
    done = shell("doctor", "--json")
    found = [f"{finding['what']}: {finding['problem']}" for finding in done.json["findings"] if finding["problem"]]
    assert done.json["healthy"] == (not found)
    assert done.code == (1 if found else 0)
    return found


def test_a_healthy_home(shell: Shell) -> None:
    """With and without a daemon all is well."""
    shell("new", "--id", "x", "--name", "X")
    assert problems(shell) == []
    shell("stop")
    assert problems(shell) == []
    assert not shell.held()


def test_unreadable_files_are_named_and_left_alone(shell: Shell) -> None:
    """NULs, a broken line and a folder in a file's place are named with their path, and nothing is touched."""
    shell("new", "--id", "good", "--name", "Good")
    shell("stop")
    sessions = shell.data / "sessions"
    (sessions / "nuls.jsonl").write_bytes(b"\0" * 4096)
    lines = (sessions / "good.jsonl").read_bytes() + b'{"id": broken\n'
    (sessions / "good.jsonl").write_bytes(lines)
    (sessions / "folder.jsonl").mkdir()
    found = problems(shell)
    assert any(f"{sessions}/nuls.jsonl" in one for one in found)
    assert any(f"{sessions}/good.jsonl:2" in one for one in found)
    assert any("folder.jsonl" in one for one in found)
    assert (sessions / "good.jsonl").read_bytes() == lines
    (sessions / "folder.jsonl").rmdir()


def test_open_folders_are_named(shell: Shell) -> None:
    """A data folder that others may read is named with the command that mends it."""
    shell("list")
    shell("stop")
    os.chmod(shell.data, 0o755)
    done = shell("doctor")
    assert done.code == 1
    assert (
        f"PROBLEM  data folder {shell.data}: {shell.data} has mode 0755, not 0700; chmod 700 {shell.data}" in done.out
    )


def test_a_home_that_is_mounted_read_only_is_called_so(shell: Shell) -> None:
    """Its index is sound, and nothing there could be repaired."""
    shell("new", "--id", "x", "--name", "X")
    shell("stop")
    apart = ["unshare", "-m" if os.geteuid() == 0 else "-rm"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    command = [*apart, "sh", "-c", _READ_ONLY, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, env=shell.env, timeout=60, check=False)
    if done.returncode == 77:
        pytest.skip("this machine lets nobody mount")
    assert f"ok       index {places(shell.env).index_file}" in done.stdout
    *_, verdict = done.stdout.splitlines()
    assert verdict.endswith(": mount that file system so that it can be written to; then run `sessiond doctor` again.")
    assert "is on a file system that is read-only; mount" in done.stderr


def test_an_index_with_a_log_is_not_judged_where_nothing_can_be_written(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the log cannot be read there, and without it the file may look damaged."""
    shell("new", "--id", "x", "--name", "X")
    shell("stop")
    where = places(shell.env)
    Path(where.index_file + "-wal").write_bytes(b"")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    (found,) = examine_index(RealFileSystem(), where)
    assert found.problem is None
    assert "can only be examined" in found.what


def test_a_wrong_configuration_is_named(shell: Shell) -> None:
    """It is the first thing looked at, for nothing else can be without it."""
    shell.write_config("[autosav]\n")
    assert problems(shell) == [f"configuration: {shell.path}/config/config.toml: unknown key 'autosav'"]


def test_a_damaged_journal_is_named(shell: Shell) -> None:
    """Bytes in the middle that are not a record are damage; doctor says where."""
    shell.write_config("[autosave]\ninterval_s = 0\nidle_s = 0\n")
    shell("new", "--id", "x", "--name", "X")
    with shell.client() as client:
        client.call("session/open", {"sessionId": "x"})
        for number in range(20):
            client.call(
                "session/append", {"sessionId": "x", "messages": [{"role": "user", "content": f"{number}" * 50}]}
            )
        shell.kill()
    segment = max((shell.data / "journal").glob("*.journal"))
    content = bytearray(segment.read_bytes())
    content[len(content.rstrip(b"\0")) // 2] ^= 0xFF
    segment.write_bytes(content)
    assert any(str(segment) in one for one in problems(shell))


def last_line(shell: Shell, *options: str) -> str:
    return shell("doctor", *options).out.splitlines()[-1]


def test_the_last_line_says_what_to_do(shell: Shell) -> None:
    """All is well; or how many problems there are, and what to do about the first."""
    shell("new", "--id", "good", "--name", "Good")
    assert last_line(shell) == "All is well."
    shell("stop")
    (shell.data / "sessions" / "nuls.jsonl").write_bytes(b"\0" * 4096)
    assert last_line(shell).startswith("1 problem: ")
    os.chmod(shell.data, 0o755)
    assert last_line(shell).startswith("2 problems: run `sessiond stop`, then `sessiond doctor --repair`")
    assert last_line(shell, "--repair") == "All is well."


def test_json_has_no_sentence(shell: Shell) -> None:
    """With --json there is the document and nothing else."""
    assert shell("doctor", "--json").json["healthy"] is True


def test_a_linked_trash_is_named(shell: Shell) -> None:
    """Nothing can be deleted or restored as long as it is there."""
    with shell.client() as client:
        client.new(id="a").append("user", "word")
        client.session("a").delete()
        (shell.data / "trash").rename(shell.path / "elsewhere")
        (shell.data / "trash").symlink_to(shell.path / "elsewhere")
    assert "is a link" in shell("restore", "a").err
    done = shell("doctor")
    assert (done.code, f"{shell.data}/trash is a link" in done.out) == (1, True)
    assert shell("list").out == ""
