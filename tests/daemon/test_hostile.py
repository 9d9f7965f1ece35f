"""Hostile folders, ids, paths and peers, against the real daemon."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import sessiond.rpc.handlers  # noqa: F401 - fills the registry
from sessiond.rpc.methods import METHODS
from tests.home import Home
from tests.shell import wait_until

SECRET = "hunter2-the-secret"
HOSTILE = "\x1b[31m\x1b]0;owned\x07\n2026-01-11T14:30:22.000Z ERROR   sessiond: forged\u202e"
IDS = [
    "..", ".", "", "/", "../x", "../../x", "a/../../x", "/etc/passwd", "a/b/c", "default/../x", "default/..", "a\0b", "a\nb", "x" * 300, "%2e%2e%2fx",
    "..%2fx", "~", "~root", "-rf", "a b", "A\u0301", "\u202ex", ".hidden", ".sessiond/x", "con\\..\\x", "file:///etc/passwd", "trash/../x", "x/",
]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with Home(tmp_path_factory.mktemp("h")) as home:
        client = home.client()
        client.call("session/new", sessionId="a", messages=[{"role": "user", "content": "hello"}])
        client.call("session/save")
        yield home


def tree(path: Path) -> set[str]:
    """Names of everything outside the folders that the daemon writes by itself all the time."""
    return {str(one.relative_to(path)) for one in path.rglob("*") if not {"log", "cache", "run"} & set(one.parts)}


def with_session_id() -> list[str]:
    return [
        name for name, method in METHODS.items()
        if any(field.encode_name == "sessionId" for field in msgspec.structs.fields(method.params)) and name != "session/search"
    ]  # fmt: skip


REST: dict[str, Any] = {
    "messages": [{"role": "user", "content": "x"}], "messageId": "m", "text": "t", "afterSeq": 0, "format": "text", "heading": "h", "content": "c",
    "values": {"k": 1}, "store": "default",
}  # fmt: skip


@pytest.mark.parametrize("method", with_session_id())
def test_no_id_leads_out_of_its_store(home: Home, method: str) -> None:
    """Whatever is in `sessionId`, of any method: an error of a kind that says so, and no file anywhere but in the store."""
    client = home.client()
    before = tree(home.path.parent)
    params = {field.encode_name for field in msgspec.structs.fields(METHODS[method].params)}
    for hostile in IDS:
        rest = {key: value for key, value in REST.items() if key in params}
        answer = client.answer(client.send(method, {**rest, "sessionId": hostile}))
        assert "error" in answer, (method, hostile, answer)
        assert answer["error"]["data"]["kind"] in ("invalidParams", "sessionNotFound"), (hostile, answer)
    assert tree(home.path.parent) == before
    client.close()


def test_an_export_goes_where_it_may(home: Home) -> None:
    """Absolute, outside the daemon's own folders, also by `..` and by links; over nothing that is there."""
    client = home.client()
    outside = home.path.parent / "exports"
    outside.mkdir()
    (outside / "link").symlink_to(home.path / "data")
    (outside / "there").write_text("precious")
    (outside / "to-there").symlink_to(outside / "there")
    os.mkfifo(outside / "pipe")
    for path in (
        "relative", str(home.path / "data" / "sessions" / "b.jsonl"), f"{outside}/../{home.path.name}/data/x", f"{outside}/link/x",
        f"{home.path}/config/config.toml", f"{outside}/\0x",
    ):  # fmt: skip
        kind = client.fails("session/export", sessionId="a", format="text", path=path)["data"]["kind"]
        assert kind == "invalidParams", path
    for name in ("there", "to-there", "pipe"):
        assert (
            client.fails("session/export", sessionId="a", format="text", path=f"{outside}/{name}")["data"]["kind"]
            == "alreadyExists"
        )
    assert (outside / "there").read_text() == "precious"
    client.close()


def test_what_is_no_file_is_not_imported(home: Home) -> None:
    """A FIFO, a device, a folder of links in a circle, a name with NUL: an answer at once, nothing hangs."""
    client = home.client()
    place = home.path.parent / "imports"
    place.mkdir()
    os.mkfifo(place / "pipe.jsonl")
    (place / "circle").symlink_to(place)
    for path in (f"{place}/pipe.jsonl", "/dev/zero", f"{place}/circle", f"{place}/\0", "relative", str(place)):
        answer = client.answer(client.send("session/import", {"path": path}))
        assert "error" in answer or not answer["result"]["sessions"], (path, answer)
    for path in (
        "/",
        "relative",
        f"{place}/pipe.jsonl",
        str(home.path / "data"),
        str(home.path / "data" / "sessions"),
    ):
        assert client.fails("store/adopt", path=path)["data"]["kind"], path
    client.close()


PLACES = [
    "data/lock", "data/endpoint", "data/token", "data/journal/00000001.journal", "data/journal/reserve", "data/trash/default",
    "data/sessions/.sessiond", "log/sessiond.log", "log/start.log", "config/config.toml", "cache/index.sqlite3", "run/sessiond.sock",
]  # fmt: skip
FOLDERS = ["data/lock", "data/journal/00000001.journal", "config/config.toml", "run/sessiond.sock"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, kind) for name in PLACES for kind in ("fifo", "link")), *((name, "folder") for name in FOLDERS)],
)
def test_something_else_lies_in_a_place_of_ours(tmp_path: Path, name: str, kind: str) -> None:
    """The daemon starts without it, or says what is wrong and ends; it never waits for it, and writes through no link."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    home = tmp_path / "home"
    planted = home / name
    planted.parent.mkdir(parents=True, mode=0o700)
    for folder in planted.parents:
        if folder.is_relative_to(home):
            folder.chmod(0o700)
    if kind == "fifo":
        os.mkfifo(planted)
    elif kind == "link":
        planted.symlink_to(victim)
    else:
        planted.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "sessiond", "new", "--json", "--id", "x"], env={**os.environ, "SESSIOND_HOME": str(home)},
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "sessiond", "stop"], env={**os.environ, "SESSIOND_HOME": str(home)}, capture_output=True, timeout=60,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1, 69), done
    assert "Traceback" not in done.stderr
    assert "not ready yet" not in done.stderr, "it waits"
    assert done.returncode == 0 or done.stderr.strip(), "it says why"
    if name not in MAY_FOLLOW:
        assert victim.read_text() == "precious", name


MAY_FOLLOW = {"cache/index.sqlite3"}
"""Derived, in a private folder of ours: a link there is the user's own, who has put the cache elsewhere, say."""


def test_hard_links_are_no_way_in(home: Home) -> None:
    """A session file that has a second name is written as any other; the second name keeps what it had."""
    client = home.client()
    client.call("session/new", sessionId="hard", messages=[{"role": "user", "content": "one"}])
    client.call("session/save", sessionId="hard")
    path = home.path / "data" / "sessions" / "hard.jsonl"
    other = home.path.parent / "other-name"
    os.link(path, other)
    before = other.read_bytes()
    client.call("session/append", sessionId="hard", messages=[{"role": "user", "content": "two"}])
    client.call("session/save", sessionId="hard")
    assert '"content":"two"' in path.read_text()
    assert other.read_bytes() == before
    client.call("session/truncate", sessionId="hard", afterSeq=0)
    client.call("session/save", sessionId="hard")
    assert "one" in other.read_text(), "a rewrite makes a new file"
    assert '"content":"one"' not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    client.close()


def test_the_log_is_one_line_a_message_and_knows_no_secrets(tmp_path: Path) -> None:
    """Neither content, names nor tokens are in it, whatever went wrong; file names cannot forge lines or colour terminals."""
    with Home(tmp_path) as home:
        folder = tmp_path / "data" / "sessions"
        (folder / f"evil{HOSTILE}.jsonl").write_bytes(b"\0" * 100)
        client = home.client()
        token_file = client.call("daemon/listen", kind="tcp", host="127.0.0.1", port=0)["tokenFile"]
        port = client.call("daemon/status")["tcp"]["port"]
        message = {"id": "m", "role": "user", "content": SECRET}
        client.call("session/new", sessionId="s", name=SECRET, messages=[message], metadata={"k": SECRET})
        client.fails("session/append", sessionId="s", messages=[{**message, "content": SECRET + "x"}])
        client.fails("session/append", sessionId="s", messages=[{"role": SECRET, "content": 7}])
        client.fails("session/open", sessionId=SECRET + "/" + SECRET)
        client.fails("session/search", query=SECRET + "(", mode="regex")
        client.notify("session/extend", {"sessionId": "s", "messageId": SECRET, "text": SECRET})
        client.call("session/search", query="x")
        log = tmp_path / "log" / "sessiond.log"
        wait_until(lambda: "evil" in log.read_text())
        for odd in client.call("session/list")["sessions"]:
            client.answer(client.send("session/open", {"sessionId": odd["sessionId"]}))
        (folder / "s.jsonl").write_bytes(b"\0" * 50)
        client.answer(client.send("session/open", {"sessionId": "s"}))
        wrong = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"initializationOptions": {"token": SECRET}},
        }
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(json.dumps(wrong).encode() + b"\n")
            assert b"unauthorized" in sock.recv(65536)
        token = Path(token_file).read_text().strip()
        with socket.create_connection(("127.0.0.1", port)) as sock:
            wrong["params"] = {"initializationOptions": {"token": token}}
            sock.sendall(json.dumps(wrong).encode() + b"\n")
            assert b"serverInfo" in sock.recv(65536)
    logged = (tmp_path / "log" / "sessiond.log").read_text() + (tmp_path / "daemon.err").read_text()
    assert "evil" in logged, "something was said of it"
    assert SECRET not in logged
    assert token not in logged
    assert not any(bad in logged for bad in ("\x1b", "\x07", "\u202e"))
    assert not any("forged" in line and line.startswith("2026-01-11") for line in logged.splitlines())


def test_one_guess_a_connection(home: Home) -> None:
    """A wrong token ends the connection, so it cannot be used for a second guess, and a token has 256 bits."""
    client = home.client()
    listening = client.call("daemon/listen", kind="tcp", host="127.0.0.1", port=0)
    right = Path(listening["tokenFile"]).read_text().strip()
    assert len(right) >= 43
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"initializationOptions": {"token": right[:-1] + "?"}},
    }
    with socket.create_connection(("127.0.0.1", listening["port"])) as sock:
        sock.sendall(json.dumps(initialize).encode() + b"\n")
        initialize["params"] = {"initializationOptions": {"token": right}}
        sock.sendall(json.dumps(initialize).encode() + b"\n" + b'{"jsonrpc":"2.0","id":2,"method":"session/list"}\n')
        sock.shutdown(socket.SHUT_WR)
        said = b""
        while part := sock.recv(65536):
            said += part
    [answer] = said.splitlines()
    assert json.loads(answer)["error"]["data"]["kind"] == "unauthorized"
    client.close()


def test_wire_ids_are_typed_everywhere() -> None:
    """The list of methods above is complete: every string that names a session is called sessionId."""
    for name, method in METHODS.items():
        for field in msgspec.structs.fields(method.params):
            if "session" in field.encode_name.lower() and str in (field.type, *get_args(field.type)):
                assert field.encode_name == "sessionId", name
