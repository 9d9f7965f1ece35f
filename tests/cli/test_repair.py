"""`doctor --repair` repairs what it can, keeps a copy of what it changes, says what was done, and refuses to work while a daemon runs."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from tests.shell import Shell

BACK_S = 3600.0


@pytest.fixture
def stopped(shell: Shell) -> Shell:
    """A home with a session of three messages and one in the trash, everything saved, no daemon."""
    shell("new", "--id", "x", "--name", "Name")
    for word in ("first words", "second words", "third words"):
        shell("append", "x", word)
    shell("new", "--id", "gone", "--name", "G")
    shell("append", "gone", "deleted words")
    assert shell("rm", "gone").code == 0
    shell("stop")
    assert not shell.held()
    return shell


def repaired(shell: Shell) -> dict[str, str]:
    """The repairs: problem -> what was done. Afterwards nothing is left to do, and a second run finds nothing."""
    done = shell("doctor", "--repair", "--json")
    assert done.code == 0, done
    found = {f"{one['what']}: {one['problem']}": one["mended"] for one in done.json["findings"] if one["problem"]}
    assert shell("doctor", "--repair").code == 0
    assert "MENDED" not in shell("doctor", "--repair").out
    assert shell("doctor").code == 0
    return found


def words(shell: Shell, session_id: str = "x") -> list[str]:
    return [one["content"] for one in shell("show", session_id, "--json").json["messages"]]


def damage(path: Path, old: bytes, new: bytes) -> bytes:
    """As a disk does it, without a new time. Answers what the file was."""
    stat, before = path.stat(), path.read_bytes()
    assert before.count(old) >= 1
    path.write_bytes(before.replace(old, new, 1))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return before


def copies(shell: Shell) -> dict[str, bytes]:
    folder = shell.data / "trash" / "default" / ".damaged"
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def test_it_refuses_while_a_daemon_runs(shell: Shell) -> None:
    """It names the command that ends the daemon, changes nothing, and without --repair keeps looking."""
    shell("new", "--id", "x", "--name", "X")
    done = shell("doctor", "--repair")
    assert (done.code, done.out) == (1, "")
    assert "`sessiond stop`" in done.err
    assert shell("doctor").code == 0
    assert shell.held()


def test_it_waits_for_the_end_of_a_daemon(stopped: Shell) -> None:
    """One that could not start holds the lock until it is gone: seen on a busy machine, right after a command that had failed."""
    with open(stopped.data / "lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ending = threading.Timer(1.0, fcntl.flock, (file, fcntl.LOCK_UN))
        ending.start()
        done = stopped("doctor", "--repair")
        ending.join()
    assert done.code == 0, done


def test_a_home_where_nothing_was_yet(shell: Shell) -> None:
    """Nothing is made and nothing is wrong."""
    assert shell("doctor", "--repair").code == 0
    assert not shell.data.exists()


def test_one_flipped_bit(stopped: Shell) -> None:
    """In a text, and where it makes a line unreadable: noticed by the daemon as a warning, turned back by doctor, the damaged file kept."""
    path = stopped.data / "sessions" / "x.jsonl"
    for old, new in ((b"second", b"secone"), (b'"role"', b'"rold"'), (b"\n", b"\x0b")):
        before = damage(path, old, new)
        done = stopped("doctor")
        assert done.code == 1
        assert f"PROBLEM  {path}" in done.out and "doctor --repair" in done.out
        damaged = path.read_bytes()
        assert any("flipped the bit back" in one for one in repaired(stopped).values())
        assert path.read_bytes() == before
        assert damaged in copies(stopped).values()
    damage(path, b"second", b"secone")
    with stopped.client() as client:
        [warning] = client.call("session/open", {"sessionId": "x"})["warnings"]
        assert (warning["path"], warning["line"]) == (str(path), 3)
        assert "one bit" in warning["message"]
    assert stopped("stop").code == 0
    assert repaired(stopped)
    assert words(stopped) == ["first words", "second words", "third words"]


def test_more_than_one_bit_cannot_be_turned_back(stopped: Shell) -> None:
    """It is named, with what to do; --repair leaves it and exits with 1; `touch` takes the file as it is."""
    path = stopped.data / "sessions" / "x.jsonl"
    damage(path, b"second", b"sXcXnd")
    damaged = path.read_bytes()
    done = stopped("doctor", "--repair")
    assert done.code == 1
    assert "from a backup" in done.out and "touch" in done.out
    assert path.read_bytes() == damaged
    path.touch()
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime + BACK_S))
    assert words(stopped) == ["first words", "sXcXnd words", "third words"]
    stopped("stop")
    assert stopped("doctor").code == 0


def test_lines_that_are_no_json(stopped: Shell) -> None:
    """They are taken out of a native file, which is kept as it was; the rest is the session."""
    path = stopped.data / "sessions" / "x.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"{broken\n", *lines[2:], b"\0\0\0\n"]))
    before = path.read_bytes()
    found = repaired(stopped)
    assert len(found) == 2
    assert path.read_bytes() == b"".join(lines)
    assert copies(stopped) == {"x.jsonl": before}
    assert words(stopped) == ["first words", "second words", "third words"]


def test_a_wrong_line_below_a_line_that_stays(stopped: Shell) -> None:
    """A header that names another id is only told; the line that cannot be read goes, and nothing else does."""
    path = stopped.data / "sessions" / "x.jsonl"
    before = path.read_bytes().replace(b'"id":"x"', b'"id":"other"', 1)
    assert b'"id":"other"' in before
    path.write_bytes(before + b"no json\n")
    done = stopped("doctor", "--repair", "--json")
    mended = {one["problem"]: one["mended"] for one in done.json["findings"] if one["problem"] and one.get("mended")}
    assert [one.split(";")[0] for one in mended.values()] == ["removed"], done
    assert path.read_bytes() == before
    assert "names another id" in stopped("doctor").out


def test_a_file_of_nuls(stopped: Shell) -> None:
    """It is put aside, its id is free, and the words say where a good one may come from."""
    path = stopped.data / "sessions" / "x.jsonl"
    path.write_bytes(b"\0" * 512)
    [said] = repaired(stopped).values()
    assert "from a backup" in said
    assert not path.exists()
    assert copies(stopped) == {"x.jsonl": b"\0" * 512}
    assert stopped("new", "--id", "x", "--name", "again").code == 0


def test_a_file_of_a_newer_version_is_left(stopped: Shell) -> None:
    """It is not damage: nothing puts it aside."""
    path_of_old = stopped.data / "sessions" / "x.jsonl"
    path = stopped.data / "sessions" / "later.jsonl"
    content = b'{"sessiond":2,"id":"later","createdAt":"2026-01-11T14:30:22.000Z"}\n' + path_of_old.read_bytes()
    path.write_bytes(content)
    done = stopped("doctor", "--repair")
    assert done.code == 1
    assert "update sessiond" in done.out
    assert "format is unknown" not in done.out, "one line is told once"
    assert path.read_bytes() == content


def test_a_damaged_sidecar(stopped: Shell) -> None:
    """It is put aside and the session is read without it."""
    side = stopped.data / "sessions" / ".sessiond" / "x.json"
    content = side.read_bytes()[:-20]
    side.write_bytes(content)
    [said] = repaired(stopped).values()
    assert "put aside as" in said
    assert content in copies(stopped).values()
    assert words(stopped) == ["first words", "second words", "third words"]


def test_a_damaged_journal(shell: Shell) -> None:
    """A bad record among good ones: the segment is kept, written again, and all other changes are in the sessions."""
    shell.write_config("[autosave]\ninterval_s = 0\nidle_s = 0\n")
    shell("new", "--id", "x", "--name", "X")
    with shell.client() as client:
        client.call("session/open", {"sessionId": "x"})
        for number in range(9):
            client.call(
                "session/append", {"sessionId": "x", "messages": [{"role": "user", "content": f"word {number}"}]}
            )
        shell.kill()
    segment = max((shell.data / "journal").glob("*.journal"))
    damage(segment, b"word 4", b"word X")
    before = segment.read_bytes()
    done = shell("doctor", "--repair", "--json")
    assert done.code == 1, "what is lost has to be known to somebody"
    [said] = [one["mended"] for one in done.json["findings"] if one.get("mended")]
    assert shell("doctor", "--acknowledge").code == 0
    assert repaired(shell) == {}
    [copy] = (one for one in (shell.data / "journal" / "damaged").iterdir() if one.suffix != ".json")
    assert str(copy) in said
    assert copy.read_bytes() == before
    assert words(shell) == [f"word {number}" for number in range(9) if number != 4]


def test_a_damaged_entry_of_the_trash(stopped: Shell) -> None:
    """Its description is recreated from the session next to it, and it can be restored."""
    meta = stopped.data / "trash" / "default" / "gone" / "meta.json"
    meta.write_bytes(b"{")
    [said] = repaired(stopped).values()
    assert "recreated" in said
    assert stopped("restore", "gone").code == 0
    assert words(stopped, "gone") == ["deleted words"]


def test_a_damaged_index(stopped: Shell) -> None:
    """It is removed, and everything is found again."""
    path = stopped.path / "cache" / "index.sqlite3"
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    with pytest.raises(sqlite3.DatabaseError), sqlite3.connect(path) as database:
        database.execute("PRAGMA integrity_check").fetchall()[0][0] == "ok" or database.execute("SELECT nothing")
    database.close()
    [said] = repaired(stopped).values()
    assert "removed" in said
    assert stopped("search", "second", "--json").json["total"] == 1


@pytest.mark.parametrize(
    ("wrong", "out"),
    [
        ("[autosav]\ninterval_s = 1\n", [1, 2]),
        ("[autosave]\nintervl_s = 1\nidle_s = 3\n", [2]),
        ('[autosave]\nidle_s = "soon"\n', [2]),
        ("[autosave\nidle_s = 3\n", [1, 2]),
        ("[autosave]\nidle_s = \n", [2]),
        ('[stores.a]\npath = "relative"\nformat = "jsonl"\n', [1, 2, 3]),
        ('[stores.a]\npath = "/nowhere"\nformat = "xml"\n', None),
        ('[stores.a]\npath = "/nowhere"\n', [1, 2]),
        ('[stores.default]\npath = "/nowhere"\nformat = "jsonl"\n', [2]),
        ('[stores.a]\npath = 3\nformat = "jsonl"\n', [1, 2, 3]),
        ("[limits]\nmessage_bytes = 0\n", [2]),
        ("[autosave]\nidle_s = 3\n# caf\xe9\n", None),
    ],
)
def test_a_configuration_that_cannot_be_used(shell: Shell, wrong: str, out: list[int] | None) -> None:
    """The wrong lines become comments, the others stay, the file as it was is kept, and the daemon starts."""
    shell.write_config("")
    path = shell.path / "config" / "config.toml"
    path.write_bytes(wrong.encode("latin-1"))
    assert shell("list").code != 0
    done = shell("doctor", "--repair", "--json")
    [said] = [one["mended"] for one in done.json["findings"] if one["what"] == "configuration"]
    if out is not None:
        assert said.split("(")[1].split(")")[0] == ", ".join(map(str, out))
    assert (path.parent / "config.toml.damaged-1").read_bytes() == wrong.encode("latin-1")
    assert path.read_text().replace("# taken out by doctor: ", "").count("\n") == wrong.count("\n")
    assert shell("list").code == 0


def test_what_the_environment_says_is_not_repaired(stopped: Shell) -> None:
    """A wrong variable is named; the file is not touched for it."""
    stopped.write_config("[autosave]\nidle_s = 1\n")
    stopped.env["SESSIOND_AUTOSAVE_IDLE_S"] = "soon"
    done = stopped("doctor", "--repair")
    assert done.code == 1
    assert "SESSIOND_AUTOSAVE_IDLE_S" in done.out
    assert (stopped.path / "config" / "config.toml").read_text() == "[autosave]\nidle_s = 1\n"


def test_an_open_folder_is_closed(stopped: Shell) -> None:
    """A data folder that others may read has mode 0700 afterwards."""
    os.chmod(stopped.data, 0o755)
    assert repaired(stopped)
    assert stopped.data.stat().st_mode & 0o777 == 0o700


def test_an_adopted_file_is_only_explained(shell: Shell, tmp_path: Path) -> None:
    """Another system's file is never changed: an unreadable one is named with what to do, and so is one that decayed despite
    our mark.
    """
    (tmp_path / "lisp").mkdir()
    shell.write_config(f'[stores.lisp]\npath = "{tmp_path}/lisp"\nformat = "agent-q"\n')
    shell("new", "--id", "session-20260111-143022", "--store", "lisp", "--name", "N")
    shell("append", "lisp/session-20260111-143022", "words that decay")
    shell("stop")
    assert shell("doctor").code == 0
    path = tmp_path / "lisp" / "session-20260111-143022.el"
    side = tmp_path / "lisp" / ".sessiond" / "session-20260111-143022.json"
    os.utime(path, ns=(side.stat().st_mtime_ns, side.stat().st_mtime_ns))
    damage(path, b"decay", b"de?ay")
    done = shell("doctor", "--repair")
    assert done.code == 1
    assert f"PROBLEM  {path}" in done.out and "from a backup" in done.out
    (tmp_path / "lisp" / "session-1.el").write_bytes(b"((((")
    done = shell("doctor", "--repair")
    assert str(tmp_path / "lisp" / "session-1.el") in done.out
    assert (tmp_path / "lisp" / "session-1.el").read_bytes() == b"(((("
    assert b"de?ay" in path.read_bytes()
