"""LSP's lifecycle and features, and the details of pygls that rpc/lsp.py relies on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from rpc_fakes import World, world

from sessiond.errors import BadFile
from sessiond.limits import Limits
from sessiond.rpc import lifecycle
from sessiond.rpc.documents import Action, DocumentProblem, Hover, OutlineNode, Symbol
from sessiond.rpc.lsp import LspSession
from sessiond.rpc.methods import METHODS
from tests import inside

URI = "file:///store/s.jsonl"


class FakeDocuments:
    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.started = asyncio.Event()

    async def outline(self, uri: str, text: str | None) -> Sequence[OutlineNode]:
        if uri.endswith("bad"):
            raise BadFile("the file is all zeros", path="/bad", line=3)
        if uri.endswith("boom"):
            raise ZeroDivisionError("secret")
        self.texts.append(text)
        tool = OutlineNode(name="", kind="tool", start_line=2, end_line=2)
        return [
            OutlineNode(name="one\n\x1b[31mtwo\u202e\u2028three\ud800", kind="user", start_line=0, end_line=0),
            OutlineNode(name="x" * 500, kind="assistant", detail="a\tb", start_line=1, end_line=4, children=[tool]),
        ]

    async def hover(self, uri: str, text: str | None, line: int) -> Hover | None:
        return Hover(markdown="**user**", start_line=line, end_line=line) if line < 5 else None

    async def diagnostics(self, uri: str, text: str | None) -> Sequence[DocumentProblem]:
        self.started.set()
        await self.gate.wait()
        self.texts.append(text)
        return [DocumentProblem(line=len(text or ""), message="no JSON", severity="error")]

    async def actions(self, uri: str, text: str | None, start_line: int, end_line: int) -> Sequence[Action]:
        return [Action(title="Save", method="session/save", params={"sessionId": "s"})]

    async def symbols(self, query: str) -> Sequence[Symbol]:
        return [Symbol(name=query, kind="user", container="a\nb", uri=URI, line=7)]


def lines(start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": start, "character": 0}, "end": {"line": end + 1, "character": 0}}


def document(uri: str = URI, **more: Any) -> dict[str, Any]:
    return {"textDocument": {"uri": uri, **more}}


def open_params(text: str, uri: str = URI) -> dict[str, Any]:
    return document(uri, languageId="jsonl", version=1, text=text)


async def test_initialize() -> None:
    """initialize says who is there and what is really served; the client's name and folders are remembered."""
    async with world() as w:
        client = await w.client()
        result = await client.initialize(
            clientInfo={"name": "ed", "version": "1"}, workspaceFolders=[{"uri": "file:///a", "name": "a"}]
        )
        assert result["serverInfo"] == {"name": "sessiond", "version": "0.0.test"}
        ours = result["capabilities"]["experimental"]["sessiond"]
        assert (ours["protocolVersion"], ours["formats"], ours["limits"]["messageBytes"]) == (1, ["jsonl"], 64 * 2**20)
        assert "hoverProvider" not in result["capabilities"]
        await client.call("session/new", {"sessionId": "s"})
        peer = w.service.attached["s"][0]
        assert (peer.client, peer.folders) == ("ed", ["file:///a"])


async def test_order_of_life() -> None:
    """LSP's methods wait for initialize, which comes once; after shutdown only exit is left; ours need no initialize."""
    async with world() as w:
        client = await w.client()
        await client.call("session/list")
        for method in ("shutdown", "textDocument/hover", "workspace/executeCommand", "workspace/nothing"):
            error = await client.fail(method, {})
            assert (error["code"], error["data"]["kind"]) == (-32002, "notInitialized")
        client.notify("textDocument/didOpen", open_params("x"))
        client.notify("initialized")
        await client.initialize()
        error = await client.fail("initialize", {"capabilities": {}})
        assert (error["code"], error["data"]["kind"]) == (-32600, "invalidRequest")
        client.notify("initialized")
        client.notify("$/setTrace", {"value": "off"})
        assert (await client.fail("textDocument/rename", {}))["code"] == -32601
        assert await client.call("shutdown") is None
        for method in ("session/list", "shutdown", "textDocument/hover", "no/such"):
            assert (await client.fail(method))["code"] == -32600
        client.notify("session/extend", {})
        client.notify("exit")
        assert await client.at_end() == b""


async def test_initialize_in_one_piece_with_what_follows() -> None:
    """A client need not wait for the answer to initialize."""
    async with world() as w:
        client = await w.client()
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}
        second = {"jsonrpc": "2.0", "id": 2, "method": "shutdown"}
        client.raw(client.frame(first) + client.frame(second) + client.frame({"jsonrpc": "2.0", "method": "exit"}))
        assert [(await client.receive())["id"] for _ in range(2)] == [1, 2]
        assert await client.at_end() == b""


@pytest.mark.parametrize("params", [[], {"clientInfo": 5}, {"workspaceFolders": [{"name": "x"}]}])
async def test_odd_initialize(params: Any) -> None:
    """initialize with params of another shape is invalidParams and may be repeated."""
    async with world() as w:
        client = await w.client()
        client.send({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params})
        assert (await client.receive())["error"]["data"]["kind"] == "invalidParams"
        await client.initialize()


async def test_execute_command() -> None:
    """Every method of ours is a command, with its params as the one argument; its errors are the same."""
    async with world() as w:
        client = await w.client()
        commands = (await client.initialize())["capabilities"]["executeCommandProvider"]["commands"]
        assert commands == ["sessiond." + method.replace("/", ".") for method in METHODS]
        run = "workspace/executeCommand"
        await client.call(run, {"command": "sessiond.session.new", "arguments": [{"sessionId": "s"}]})
        message = {"role": "user", "content": {"class": None}}
        appended = {"command": "sessiond.session.append", "arguments": [{"sessionId": "s", "messages": [message]}]}
        assert (await client.call(run, appended))["seq"] == 1
        assert (await client.call(run, {"command": "sessiond.session.list"}))["nextCursor"] is None
        error = await client.fail(run, {"command": "sessiond.session.open", "arguments": [{"sessionId": "none"}]})
        assert error["data"]["kind"] == "sessionNotFound"
        error = await client.fail(run, {"command": "sessiond.session.open", "arguments": [{}]})
        assert error["message"] == "sessionId: required, but missing"
        for wrong in (
            {"command": "rm"},
            {"command": "sessiond.session/new"},
            {"command": "session.new"},
            {"command": "sessiond.session.new", "arguments": [{}, {}]},
            {"command": "sessiond.session.new", "arguments": {}},
            {},
        ):
            assert (await client.fail(run, wrong))["data"]["kind"] == "invalidParams"


async def ready(w: World) -> Any:
    client = await w.client()
    await client.initialize()
    client.notify("initialized")
    return client


async def test_features() -> None:
    """Outline, folding, hover, actions and workspace symbols come from the documents port, fit to be shown."""
    documents = FakeDocuments()
    async with world(documents=documents) as w:
        client = await ready(w)
        first, second = await client.call("textDocument/documentSymbol", document())
        assert first["name"] == "one [31mtwo three"
        assert (first["range"], first["selectionRange"]["end"]) == (lines(0, 0), {"line": 0, "character": 0})
        assert (len(second["name"]), second["detail"]) == (200, "a b")
        assert second["children"][0]["name"] == "(empty)"
        assert documents.texts == [None]
        assert await client.call("textDocument/foldingRange", document()) == [{"startLine": 1, "endLine": 4}]
        hover = {**document(), "position": {"line": 3, "character": 9}}
        assert await client.call("textDocument/hover", hover) == {
            "contents": {"kind": "markdown", "value": "**user**"},
            "range": lines(3, 3),
        }
        hover["position"]["line"] = 5
        assert await client.call("textDocument/hover", hover) is None
        [action] = await client.call(
            "textDocument/codeAction", {**document(), "range": lines(0, 1), "context": {"diagnostics": []}}
        )
        assert action["command"] == {
            "title": "Save",
            "command": "sessiond.session.save",
            "arguments": [{"sessionId": "s"}],
        }
        [symbol] = await client.call("workspace/symbol", {"query": "needle\n"})
        assert symbol["name"] == "needle"
        assert symbol["containerName"] == "a b"
        assert symbol["location"] == {"uri": URI, "range": lines(7, 7)}


async def test_open_documents() -> None:
    """An opened text serves its own outline and diagnostics until it is closed; a change brings the new text."""
    documents = FakeDocuments()
    async with world(documents=documents) as w:
        client = await ready(w)
        client.notify("textDocument/didOpen", open_params("abc"))
        told = await client.notification("textDocument/publishDiagnostics")
        assert told["uri"] == URI
        assert told["diagnostics"] == [
            {"range": lines(3, 3), "message": "no JSON", "severity": 1, "source": "sessiond"}
        ]
        await client.call("textDocument/documentSymbol", document())
        client.notify("textDocument/didChange", {**document(version=2), "contentChanges": [{"text": "abcde"}]})
        told = await client.notification("textDocument/publishDiagnostics")
        assert told["diagnostics"][0]["range"] == lines(5, 5)
        client.notify("textDocument/didClose", document())
        assert (await client.notification("textDocument/publishDiagnostics"))["diagnostics"] == []
        await client.call("textDocument/documentSymbol", document())
        assert documents.texts == ["abc", "abc", "abcde", None]


async def test_many_changes_cost_one_more_run() -> None:
    """While diagnostics are worked out, any number of changes cost one more run."""
    documents = FakeDocuments()
    documents.gate.clear()
    async with world(documents=documents) as w:
        client = await ready(w)
        client.notify("textDocument/didOpen", open_params(""))
        await asyncio.wait_for(documents.started.wait(), 10)
        for version in range(2, 30):
            client.notify(
                "textDocument/didChange", {**document(version=version), "contentChanges": [{"text": "x" * version}]}
            )
        await client.call("workspace/symbol", {"query": "all arrived"})
        documents.gate.set()
        for length in (0, 29):
            told = await client.notification("textDocument/publishDiagnostics")
            assert told["diagnostics"][0]["range"] == lines(length, length)
        assert documents.texts == ["", "x" * 29]


async def test_errors_of_features() -> None:
    """Errors keep their kind on the way through pygls, wrong params name the field, mistakes remain in the log."""
    async with world(documents=FakeDocuments()) as w:
        client = await ready(w)
        error = await client.fail("textDocument/documentSymbol", document("file:///bad"))
        assert (error["code"], error["data"]) == (-31003, {"kind": "badFile", "path": "/bad", "line": 3})
        error = await client.fail("textDocument/documentSymbol", document("file:///boom"))
        assert (error["code"], error["message"]) == (-32603, "internal error")
        assert "secret" not in json.dumps(error)
        error = await client.fail("textDocument/documentSymbol", {"textDocument": {}})
        assert (error["code"], error["data"]["kind"]) == (-32602, "invalidParams")
        assert "uri" in error["message"]
        client.notify("textDocument/didOpen", {"textDocument": 5})
        assert (await client.notification("window/logMessage"))["type"] == 1
        client.notify("textDocument/didChange", {**document("file:///never-opened", version=1), "contentChanges": []})
        await client.call("workspace/symbol", {"query": ""})


async def test_without_documents() -> None:
    """Without the documents port the features answer empty."""
    async with world() as w:
        client = await ready(w)
        client.notify("textDocument/didOpen", open_params("x"))
        assert await client.call("textDocument/documentSymbol", document()) == []
        assert await client.call("workspace/symbol", {"query": "x"}) == []
        assert await client.call("textDocument/hover", {**document(), "position": {"line": 0, "character": 0}}) is None
        client.notify("textDocument/didClose", document())
        assert await client.call("textDocument/foldingRange", document()) == []


async def test_cancel_a_feature() -> None:
    """$/cancelRequest reaches a feature too."""
    documents = FakeDocuments()
    seen = asyncio.Event()

    async def symbols(query: str) -> Sequence[Symbol]:
        if query == "next":
            return []
        try:
            await asyncio.Event().wait()
        finally:
            seen.set()
        raise AssertionError

    documents.symbols = symbols  # type: ignore[method-assign]
    async with world(documents=documents) as w:
        client = await ready(w)
        request_id = client.request("workspace/symbol", {"query": "x"})
        await client.call("workspace/symbol", {"query": "next"})
        client.notify("$/cancelRequest", {"id": request_id})
        assert (await client.answer(request_id))["error"]["data"]["kind"] == "cancelled"
        await asyncio.wait_for(seen.wait(), 10)


async def test_two_editors_have_their_own_documents() -> None:
    """What one editor has open is not what another one sees."""
    documents = FakeDocuments()
    async with world(documents=documents) as w:
        one, two = await ready(w), await ready(w)
        one.notify("textDocument/didOpen", open_params("one"))
        await one.notification("textDocument/publishDiagnostics")
        await two.call("textDocument/documentSymbol", document())
        assert documents.texts == ["one", None]


async def test_capabilities_are_those_of_pygls() -> None:
    """What initialize promises as plain data is what pygls works out from the features that are bound."""
    result = lifecycle.initialize_result(version="0", formats=[], search_modes=[], limits=Limits(), documents=True)
    promised = result["capabilities"]
    session = LspSession(None, lambda method, params: True, b'{"capabilities":{}}')
    computed = session.capabilities
    ignored = {"experimental", "executeCommandProvider", "textDocumentSync", "workspace"}
    assert {key: value for key, value in promised.items() if key not in ignored} == {
        key: value for key, value in computed.items() if key not in ignored
    }
    assert promised["textDocumentSync"] == {key: computed["textDocumentSync"][key] for key in ("openClose", "change")}


async def test_pygls_forgets_notifications() -> None:
    """A long editing session leaves nothing behind in pygls."""
    session = LspSession(FakeDocuments(), lambda method, params: True, b"{}")
    session.notification("textDocument/didOpen", msgspec.Raw(json.dumps(open_params("x")).encode()))
    for version in range(50):
        change = {**document(version=version), "contentChanges": [{"text": "y"}]}
        session.notification("textDocument/didChange", msgspec.Raw(json.dumps(change).encode()))
        for _ in range(5):
            await asyncio.sleep(0)
    assert inside.requests_kept(session) < 5
    assert await session.request("textDocument/foldingRange", msgspec.Raw(json.dumps(document()).encode()))
    assert session._protocol.waiting == {}


def test_pygls_is_loaded_only_for_features() -> None:
    """Neither the daemon's start nor initialize nor our own methods load pygls; the first LSP feature does."""
    script = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from rpc_fakes import world
from tests import inside
from tests import inside

def loaded():
    return sorted(name for name in ("pygls", "lsprotocol", "attrs", "cattrs") if name in sys.modules)

async def main():
    async with world() as w:
        client = await w.client()
        await client.initialize()
        client.notify("initialized")
        await client.call("session/new", {"sessionId": "s"})
        await client.call("workspace/executeCommand", {"command": "sessiond.session.list"})
        print(loaded())
        slow = client.request("workspace/symbol", {"query": "x"})
        other = await w.client()
        answered = 0
        while "pygls.lsp.server" not in sys.modules:
            await other.call("daemon/hello")
            answered += 1
        await client.answer(slow)
        print(answered > 5, "pygls" in loaded())

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, __file__.rpartition("/")[0]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ["[]", "True True"], done.stderr
