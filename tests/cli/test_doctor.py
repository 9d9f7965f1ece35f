"""`doctor` names what is wrong, changes nothing, and reports by its exit code."""

from __future__ import annotations

import os

from tests.shell import Shell


def problems(home: Shell) -> list[str]:
    done = home("doctor", "--json")
    found = [f"{finding['what']}: {finding['problem']}" for finding in done.json["findings"] if finding["problem"]]
    assert done.json["healthy"] == (not found)
    assert done.code == (1 if found else 0)
    return found


def test_a_healthy_home(home: Shell) -> None:
    """With and without a daemon all is well."""
    home("new", "--id", "x", "--name", "X")
    assert problems(home) == []
    home("stop")
    assert problems(home) == []
    assert not home.held()


def test_unreadable_files_are_named_and_left_alone(home: Shell) -> None:
    """NULs, a broken line and a folder in a file's place are named with their path, and nothing is touched."""
    home("new", "--id", "good", "--name", "Good")
    home("stop")
    sessions = home.data / "sessions"
    (sessions / "nuls.jsonl").write_bytes(b"\0" * 4096)
    lines = (sessions / "good.jsonl").read_bytes() + b'{"id": broken\n'
    (sessions / "good.jsonl").write_bytes(lines)
    (sessions / "folder.jsonl").mkdir()
    found = problems(home)
    assert any(f"{sessions}/nuls.jsonl" in one for one in found)
    assert any(f"{sessions}/good.jsonl:2" in one for one in found)
    assert any("folder.jsonl" in one for one in found)
    assert (sessions / "good.jsonl").read_bytes() == lines
    (sessions / "folder.jsonl").rmdir()


def test_open_folders_are_named(home: Shell) -> None:
    """A data folder that others may read is named with the command that mends it."""
    home("list")
    home("stop")
    os.chmod(home.data, 0o755)
    done = home("doctor")
    assert done.code == 1
    assert f"PROBLEM  data folder {home.data}: {home.data} has mode 0755, not 0700; chmod 700 {home.data}" in done.out


def test_a_wrong_configuration_is_named(home: Shell) -> None:
    """It is the first thing looked at, for nothing else can be without it."""
    home.write_config("[autosav]\n")
    assert problems(home) == [f"configuration: {home.path}/config/config.toml: unknown key 'autosav'"]


def test_a_damaged_journal_is_named(home: Shell) -> None:
    """Bytes in the middle that are not a record are damage; doctor says where."""
    home.write_config("[autosave]\ninterval_s = 0\nidle_s = 0\n")
    home("new", "--id", "x", "--name", "X")
    with home.client() as client:
        client.call("session/open", {"sessionId": "x"})
        for number in range(20):
            client.call(
                "session/append", {"sessionId": "x", "messages": [{"role": "user", "content": f"{number}" * 50}]}
            )
        home.kill()
    segment = max((home.data / "journal").glob("*.journal"))
    content = bytearray(segment.read_bytes())
    content[len(content.rstrip(b"\0")) // 2] ^= 0xFF
    segment.write_bytes(content)
    assert any(str(segment) in one for one in problems(home))


def last_line(home: Shell, *options: str) -> str:
    return home("doctor", *options).out.splitlines()[-1]


def test_the_last_line_says_what_to_do(home: Shell) -> None:
    """All is well; or how many problems there are, and what to do about the first."""
    home("new", "--id", "good", "--name", "Good")
    assert last_line(home) == "All is well."
    home("stop")
    (home.data / "sessions" / "nuls.jsonl").write_bytes(b"\0" * 4096)
    assert last_line(home).startswith("1 problem: ")
    os.chmod(home.data, 0o755)
    assert last_line(home).startswith("2 problems: run `sessiond stop`, then `sessiond doctor --repair`")
    assert last_line(home, "--repair") == "All is well."


def test_json_has_no_sentence(home: Shell) -> None:
    """With --json there is the document and nothing else."""
    assert home("doctor", "--json").json["healthy"] is True
