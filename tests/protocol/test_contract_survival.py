"""What may happen to a daemon and its disk: nothing acknowledged is lost, and faults are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.home import Home


def said(home_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "SESSIOND_HOME": str(home_path)}
    return subprocess.run(
        [sys.executable, "-m", "sessiond", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def contents(client, session_id: str) -> list[str]:
    return [one["content"] for one in client.call("session/read", sessionId=session_id, limit=1000)["messages"]]


def test_a_stream_that_was_open_at_a_kill(tmp_path):
    """It is there with what was acknowledged, as interrupted, and may be resumed."""
    with Home(tmp_path) as home:
        client = home.client()
        client.call(
            "session/new",
            sessionId="a",
            messages=[{"id": "r", "role": "assistant", "content": "a", "status": "streaming"}],
        )
        client.call("session/extend", sessionId="a", messageId="r", text="b")
        home.kill()
        home.start()
        client = home.client()
        opened = client.call("session/open", sessionId="a")
        assert [(one["content"], one["status"], one["seq"]) for one in opened["messages"]] == [("ab", "interrupted", 1)]
        assert opened["session"]["seq"] == 3
        retry = {"id": "r", "role": "assistant", "content": "a", "status": "streaming"}
        assert client.call("session/append", sessionId="a", messages=[retry])["messages"] == [{"id": "r", "seq": 1}]
        client.call("session/extend", sessionId="a", messageId="r", text="c", offset=2)
        assert client.call("session/finish", sessionId="a", messageId="r")
        assert contents(client, "a") == ["abc"]


def test_cuts_deletes_and_names_survive_a_kill(tmp_path):
    """Clear, truncate, delete, restore, update, fork: each is as it was answered, saved before or not."""
    with Home(tmp_path) as home:
        client = home.client()
        words = [{"role": "user", "content": word} for word in "abc"]
        for name in ("cut", "cleared", "gone", "back", "named", "forever"):
            client.call("session/new", sessionId=name, messages=words)
        client.call("session/save")
        client.call("session/truncate", sessionId="cut", afterSeq=1)
        client.call("session/append", sessionId="cut", messages=[{"role": "user", "content": "d"}])
        client.call("session/clear", sessionId="cleared")
        client.call("session/delete", sessionId="gone")
        client.call("session/delete", sessionId="back")
        client.call("session/restore", sessionId="back")
        client.call("session/delete", sessionId="forever", permanent=True)
        client.call("session/update", sessionId="named", name="n", tags=["t"], archived=True)
        fork = client.call("session/fork", sessionId="named", atSeq=2)["session"]["sessionId"]
        home.kill()
        home.start()
        client = home.client()
        assert contents(client, "cut") == ["a", "d"]
        assert client.call("session/read", sessionId="cut")["seq"] == 5
        assert contents(client, "cleared") == []
        assert (
            client.call("session/append", sessionId="cleared", messages=[{"role": "user", "content": "x"}])["seq"] == 5
        )
        assert contents(client, "back") == ["a", "b", "c"]
        assert contents(client, fork) == ["a", "b"]
        for name in ("gone", "forever"):
            assert client.fails("session/open", sessionId=name)["code"] == -31001
        info = client.call("session/open", sessionId="named")["session"]
        assert (info["name"], info["tags"], info["archived"]) == ("n", ["t"], True)
        assert client.call("session/restore", sessionId="gone")["session"]["messageCount"] == 3
        assert client.fails("session/restore", sessionId="forever")["code"] == -31001


def test_an_empty_session_survives_a_kill(tmp_path):
    """A session that was answered is there after kill -9, empty as it is, and the list says nothing that is not so."""
    with Home(tmp_path) as home:
        home.client().call("session/new", sessionId="blank")
        home.kill()
        home.start()
        client = home.client()
        client.call("session/new", sessionId="other", name="x")
        client.call("session/search", query="nothing")  # the index has looked at everything
        assert {one["sessionId"] for one in client.call("session/list")["sessions"]} == {"blank", "other"}
        assert client.call("session/append", sessionId="blank", messages=[{"role": "user", "content": "x"}])["seq"] == 1


def test_save_after_a_kill(tmp_path):
    """session/save right after the restart brings every file up to date, of sessions that nobody opened too."""
    with Home(tmp_path, "[autosave]\nidle_s = 0\n") as home:
        client = home.client()
        for name in "abc":
            client.call("session/new", sessionId=name, messages=[{"role": "user", "content": name}])
        home.kill()
        home.start()
        client = home.client()
        assert client.call("daemon/status")["dirtySessions"] == 3
        assert {one["sessionId"] for one in client.call("session/save")["saved"]} == {"a", "b", "c"}
        for name in "abc":
            assert f'"content":"{name}"' in (tmp_path / "data" / "sessions" / f"{name}.jsonl").read_text()
        assert client.call("daemon/status")["dirtySessions"] == 0


def test_a_file_of_nuls(tmp_path):
    """badFile with its path; the file is left as it is; others are served; its id is taken."""
    with Home(tmp_path) as home:
        client = home.client()
        path = tmp_path / "data" / "sessions" / "nul.jsonl"
        path.write_bytes(b"\x00" * 4096)
        error = client.fails("session/open", sessionId="nul")
        assert (error["code"], error["data"]["kind"], error["data"]["path"]) == (-31003, "badFile", str(path))
        assert "line" in error["data"]
        assert error["data"]["hint"]
        assert (
            client.fails("session/append", sessionId="nul", messages=[{"role": "user", "content": "x"}])["code"]
            == -31003
        )
        assert client.fails("session/new", sessionId="nul")["code"] == -31007
        assert client.call("session/new", sessionId="fine", name="x")
        assert path.read_bytes() == b"\x00" * 4096
        home.stop()
        assert path.read_bytes() == b"\x00" * 4096


def test_malformed_lines(tmp_path):
    """Skipped, reported with file and line, kept on disk through appends and saves."""
    path = tmp_path / "data" / "sessions" / "m.jsonl"
    path.parent.mkdir(parents=True)
    lines = [
        '{"sessiond":1,"id":"m","createdAt":"2026-01-11T14:30:22.000Z"}', '{"role":"user","content":"one"}', "{broken", "[1,2]", '"text"',
        '{"role":"user"}', "", '{"role":"user","content":"two","id":"x"}', '{"role":7,"content":"no"}', '{"role":"user","content":"three"',
    ]  # fmt: skip
    path.write_text("\n".join(lines))
    with Home(tmp_path) as home:
        client = home.client()
        opened = client.call("session/open", sessionId="m")
        assert [one["content"] for one in opened["messages"]] == ["one", "two"]
        assert [(one["path"], one["line"]) for one in opened["warnings"]] == [
            (str(path), n) for n in (3, 4, 5, 6, 9, 10)
        ]
        assert all(set(one) == {"path", "line", "message"} for one in opened["warnings"])
        ids = [one["id"] for one in opened["messages"]]
        client.call("session/append", sessionId="m", messages=[{"role": "user", "content": "four"}])
        client.call("session/save", sessionId="m")
        assert path.read_text().startswith("\n".join(lines) + "\n")
        home.kill()
        home.start()
        again = home.client().call("session/open", sessionId="m")
        assert [one["content"] for one in again["messages"]] == ["one", "two", "four"]
        assert [one["id"] for one in again["messages"]][:2] == ids


@pytest.mark.parametrize("make", ["fifo", "folder", "dangling"])
def test_no_regular_file(home, client, make):
    """What is not a regular file is badFile at once; nothing hangs, nothing is replaced."""
    path = home.path / "data" / "sessions" / f"{make}.jsonl"
    if make == "fifo":
        os.mkfifo(path)
    elif make == "folder":
        path.mkdir()
    else:
        path.symlink_to("/nonexistent/nowhere")
    for method in ("session/open", "session/read"):
        assert client.fails(method, sessionId=make)["data"]["kind"] == "badFile"
    assert client.fails("session/new", sessionId=make)["code"] == -31007
    assert client.call("session/list")
    assert os.path.lexists(path)


def test_files_and_folders_are_private(home, client, session):
    """The daemon's own files are 0600, its folders 0700."""
    client.call("session/save", sessionId=session("a"))
    for path in [home.path / "data", *(home.path / "data").rglob("*")]:
        if path.is_symlink() or path.is_fifo() or path.name in ("fifo.jsonl", "folder.jsonl"):
            continue
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


# Starting


def test_another_daemon_owns_the_folder(home):
    """`serve` says whose it is, in one line, and what to do; the owner continues."""
    done = said(home.path, "serve")
    assert done.returncode != 0
    assert str(home.process.pid) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "sessiond stop" in done.stderr
    assert home.client().call("daemon/hello")["pid"] == home.process.pid


@pytest.mark.parametrize(
    "text",
    [
        "[autosave]\ninterval = 5\n",
        "colour = 1\n",
        "[stores.x]\npath = '/tmp/x'\nformat = 'word'\n",
        "[limits]\nbytes = 1\n",
        "[[[\n",
    ],
)
def test_a_wrong_configuration(tmp_path, text):
    """An unknown key is a clear error at start that names file and key; no daemon, no traceback."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(text)
    done = said(tmp_path, "serve")
    assert done.returncode != 0
    assert str(tmp_path / "config" / "config.toml") in done.stderr
    assert "Traceback" not in done.stderr
    listed = said(tmp_path, "list")
    assert listed.returncode == 69
    assert "config.toml" in listed.stderr
    assert "Traceback" not in listed.stderr


def test_a_long_path(tmp_path):
    """A home whose socket path no address holds still works: status names a shorter one."""
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    made = said(deep, "new", "--json")
    try:
        assert made.returncode == 0, made.stderr
        status = said(deep, "status", "--json")
        assert status.returncode == 0
        import json

        assert len(json.loads(status.stdout)["socket"]) < 104
    finally:
        assert said(deep, "stop").returncode == 0


@pytest.fixture
def tiny():
    """A data folder on a disk of eight mebibytes, of which something else holds five."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="sd-"))
    (path / "data").mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(path / "data")], check=False, capture_output=True
    ).returncode:
        pytest.skip("this machine mounts nothing")
    (path / "data" / "ballast").write_bytes(b"x" * (5 * 1024 * 1024))
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path / "data")], check=True)
        subprocess.run(["rm", "-rf", str(path)], check=True)


def test_a_full_disk(tiny):
    """Appends become readOnly and say why, reading works, cuts and deletes say the same; with room again it continues; a
    start on a full disk reads all; nothing acknowledged is lost.
    """
    with Home(tiny, "[autosave]\nidle_s = 0.2\n") as home:
        client = home.client()
        client.call("session/new", sessionId="a", messages=[{"role": "user", "content": "first"}])
        client.call("session/new", sessionId="b", messages=[{"role": "user", "content": "second"}])
        client.call("session/save")
        kept, error, number = ["first"], None, 0
        while error is None:
            number += 1
            assert number < 2000
            text = f"{number} " + "y" * 20_000
            answer = client.answer(
                client.send("session/append", {"sessionId": "a", "messages": [{"role": "user", "content": text}]})
            )
            error = answer.get("error")
            if error is None:
                kept.append(text)
        assert (error["code"], error["data"]["kind"]) == (-31005, "readOnly")
        assert error["data"]["reason"]
        assert error["data"]["hint"]
        assert contents(client, "a") == kept
        assert client.call("session/open", sessionId="b")["messages"]
        assert client.call("daemon/status")["readOnly"]
        for method, params in (
            ("session/new", {"sessionId": "c", "messages": [{"role": "user", "content": "x" * 100_000}]}), ("session/clear", {"sessionId": "a"}),
            ("session/truncate", {"sessionId": "a", "afterSeq": 0}), ("session/delete", {"sessionId": "a"}), ("session/fork", {"sessionId": "a"}),
        ):  # fmt: skip
            assert client.fails(method, **params)["data"]["kind"] == "readOnly", method
        assert contents(client, "a") == kept
        home.kill()
        home.start()
        client = home.client()
        assert contents(client, "a") == kept
        (tiny / "data" / "ballast").unlink()
        assert client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "room"}])
        kept.append("room")
        assert client.call("daemon/status")["readOnly"] is None
        assert client.call("session/save", sessionId="a")["saved"]
        home.kill()
        home.start()
        assert contents(home.client(), "a") == kept
        assert client is not None


def test_the_reserve_of_a_full_disk(tiny):
    """While there is room a megabyte is kept; on a full disk it is given up, and what was acknowledged is saved with it and the journal
    trimmed, also by a daemon that starts on the full disk; with room again it is kept anew.
    """
    reserve = tiny / "data" / "journal" / "reserve"
    (tiny / "data" / "ballast").unlink()
    with Home(tiny, "[autosave]\ninterval_s = 0\nidle_s = 0\n") as home:
        client = home.client()
        client.call("session/new", sessionId="small", messages=[{"role": "user", "content": "kept"}])
        client.call("session/new", sessionId="large", messages=[{"role": "user", "content": "first"}])
        assert reserve.stat().st_size == 1024 * 1024
        filling = tiny / "data" / "filling"
        with open(filling, "wb", buffering=0) as file:
            try:
                while file.write(b"f" * 65536):
                    pass
            except OSError:
                pass
        error, number = None, 0
        while error is None:
            number += 1
            assert number < 100
            big = {"role": "user", "content": "z" * 200_000}
            error = client.answer(client.send("session/append", {"sessionId": "large", "messages": [big]})).get("error")
        assert error["data"]["kind"] == "readOnly"
        assert not reserve.exists()
        assert client.call("session/save", sessionId="small")["saved"]
        home.kill()
        home.start()
        client = home.client()
        assert contents(client, "small") == ["kept"]
        assert client.call("session/save", sessionId="large")["saved"]
        assert not reserve.exists()
        filling.unlink()
        assert client.call("session/append", sessionId="small", messages=[{"role": "user", "content": "room"}])
        assert client.call("daemon/status")["readOnly"] is None
        assert reserve.stat().st_size == 1024 * 1024
        home.kill()
        home.start()
        assert contents(home.client(), "small") == ["kept", "room"]
