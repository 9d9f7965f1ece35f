"""docs/wire.md: the life of a connection."""

from __future__ import annotations

import re

import pytest

from tests.home import Home
from tests.protocol.raw import framed, frames, request, say

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_initialize(client):
    """initialize answers who is there, what is served, and our own capabilities."""
    result = client.call("initialize", clientInfo={"name": "probe"}, capabilities={}, processId=None, rootUri=None)
    assert result["serverInfo"]["name"] == "sessiond"
    assert result["serverInfo"]["version"] == client.call("daemon/hello")["version"]
    ours = result["capabilities"]["experimental"]["sessiond"]
    assert ours["protocolVersion"] == 1
    assert "jsonl" in ours["formats"]
    assert {"text", "regex"} <= set(ours["searchModes"])
    assert ours["limits"]["messageBytes"] == 64 * 1024 * 1024
    assert ours["limits"]["headerBytes"] == 8 * 1024
    assert ours["limits"]["connections"] == 1024
    assert client.call("daemon/status")["limits"] == ours["limits"]


def test_the_client_is_remembered(client, other, session):
    """`clientInfo.name` is the origin of what the connection changes; without it there is another word."""
    client.call("initialize", clientInfo={"name": "probe"}, capabilities={})
    sid = session("one")
    other.call("session/open", sessionId=sid)
    client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "two"}])
    origin = other.notification("session/changed")["origin"]
    assert origin["client"] == "probe"
    assert isinstance(origin["connection"], int)


def test_lsp_waits_for_initialize(client):
    """LSP's own methods answer -32002 before initialize, ours work."""
    for method in ("textDocument/documentSymbol", "workspace/symbol", "workspace/executeCommand", "shutdown"):
        error = client.fails(method)
        assert (error["code"], error["data"]["kind"]) == (-32002, "notInitialized"), method
    assert client.call("session/list")["sessions"] is not None


def test_initialize_twice(client):
    """A second initialize is an invalid request; the connection continues."""
    client.call("initialize", capabilities={})
    assert client.fails("initialize", capabilities={})["code"] == -32600
    assert client.call("daemon/hello")["protocolVersion"] == 1


def test_shutdown_and_exit_end_the_connection_only(home, other):
    """After shutdown only exit is left; exit closes this connection and leaves the daemon."""
    talk = (
        framed(request(1, "initialize", params={"capabilities": {}}))
        + framed(request(2, "shutdown"))
        + framed(request(3, "daemon/hello"))
        + framed({"jsonrpc": "2.0", "method": "exit"})
        + framed(request(4, "daemon/hello"))
    )
    answers = {one["id"]: one for one in frames(say(home.connect(), talk))}
    assert answers[2]["result"] is None
    assert answers[3]["error"]["code"] == -32600
    assert 4 not in answers
    assert other.call("daemon/hello")["pid"] == home.process.pid


def test_hello(client, home):
    """daemon/hello has exactly its four fields."""
    hello = client.call("daemon/hello")
    assert set(hello) == {"protocolVersion", "version", "pid", "instanceId"}
    assert (hello["protocolVersion"], hello["pid"]) == (1, home.process.pid)


def test_status(client, home):
    """daemon/status has every field of the contract."""
    status = client.call("daemon/status")
    named = {
        "version", "pid", "instanceId", "startedAt", "dataDir", "socket", "tcp", "ws", "stores", "connections", "openSessions",
        "dirtySessions", "journal", "readOnly", "limits",
    }  # fmt: skip
    assert named <= set(status)
    assert TIME.fullmatch(status["startedAt"])
    assert status["dataDir"] == str(home.path / "data")
    assert (status["tcp"], status["ws"], status["readOnly"]) == (None, None, None)
    [store] = status["stores"]
    assert (store["name"], store["format"], store["path"]) == (
        "default",
        "jsonl",
        str(home.path / "data" / "sessions"),
    )
    assert isinstance(store["sessions"], int)
    assert {"bytes", "lsn"} <= set(status["journal"])


def test_counts_in_status(client, other, session):
    """Connections and open sessions count who is there now."""
    before = client.call("daemon/status")
    sid = session("one")
    other.call("session/open", sessionId=sid)
    after = client.call("daemon/status")
    assert after["openSessions"] == before["openSessions"] + 1
    assert after["connections"] >= 2


def test_every_method_is_a_command(client, session):
    """workspace/executeCommand does what the request does, errors included."""
    sid = session("one")
    client.call("initialize", capabilities={})
    told = client.call("workspace/executeCommand", command="sessiond.session.read", arguments=[{"sessionId": sid}])
    assert [one["content"] for one in told["messages"]] == ["one"]
    error = client.fails("workspace/executeCommand", command="sessiond.session.read", arguments=[{"sessionId": "none"}])
    assert error["data"]["kind"] == "sessionNotFound"
    assert client.fails("workspace/executeCommand", command="sessiond.none")["code"] == -32602
    assert client.call("workspace/executeCommand", command="sessiond.daemon.hello")["protocolVersion"] == 1


METHODS = (
    "session/new session/open session/close session/append session/extend session/finish session/read session/update session/clear"
    " session/truncate session/fork session/delete session/restore session/save session/list session/search session/export"
    " session/import note/append note/list state/set state/get state/clear session/move store/adopt daemon/listen daemon/backup"
    " daemon/hello daemon/status daemon/stop"
).split()


def test_commands_are_announced(client):
    """Every request of the contract is in executeCommandProvider."""
    provider = client.call("initialize", capabilities={})["capabilities"]["executeCommandProvider"]
    assert {"sessiond." + method.replace("/", ".") for method in METHODS} <= set(provider["commands"])


def test_cancel(client):
    """$/cancelRequest of something unknown or done is ignored, and the connection continues."""
    number = client.send("session/list")
    client.notify("$/cancelRequest", {"id": number})
    answer = client.answer(number)
    assert "result" in answer or answer["error"]["data"]["kind"] == "cancelled"
    client.notify("$/cancelRequest", {"id": 999})
    client.notify("$/cancelRequest", {})
    assert client.call("daemon/hello")


@pytest.mark.parametrize("method", ["$/whatever", "something/else", "session/nonsense"])
def test_unknown_notifications_are_ignored(client, method):
    """An unknown notification gets no answer and ends nothing."""
    client.notify(method, {"a": 1})
    assert client.call("daemon/hello")
    assert client.notifications == []


def test_stop(tmp_path):
    """daemon/stop answers {}, saves everything, and the process ends with 0."""
    with Home(tmp_path) as home:
        client = home.client()
        client.call("session/new", sessionId="a", messages=[{"role": "user", "content": "kept"}])
        assert client.call("daemon/stop") == {}
        assert home.process.wait(20) == 0
        assert "kept" in (tmp_path / "data" / "sessions" / "a.jsonl").read_text()
