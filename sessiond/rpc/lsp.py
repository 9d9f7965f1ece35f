"""Serves stock LSP clients by means of pygls. The only module that imports pygls and lsprotocol.

pygls is used for what it is good at: LSP's types, its converter, its built-in handling of documents and capabilities. It is
kept away from the stream (framing, JSON, lifetimes are ours) and from our own methods. Features are recorded once, in
`_FEATURES`; every connection gets its own small server whose tables are bound from them, and all share one converter. A
message reaches pygls already structured, and its answer comes back as an object. `tests/rpc/test_lsp.py` checks what this
relies on; pygls is pinned for it.

Content comes from `service.documents`; this module only gives it LSP's shapes. Everything is in whole lines, so positions do
not need an encoding.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import msgspec
from cattrs import Converter, transform_error
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter
from pygls.protocol.json_rpc import RPCMessage

import sessiond
from sessiond.errors import InvalidParams, SessiondError
from sessiond.rpc.envelope import ABSENT, encode_json
from sessiond.rpc.errors import wire_error
from sessiond.rpc.lifecycle import command_of

if TYPE_CHECKING:
    from sessiond.rpc.documents import Documents, OutlineNode

_log = logging.getLogger(__name__)

# `wire_error` logs unexpected errors; pygls would log every error again, and every message.
logging.getLogger("pygls").setLevel(logging.CRITICAL)

Notify = Callable[[str, bytes], bool]
P = TypeVar("P")
R = TypeVar("R")

Feature = Callable[["_Server", P], Coroutine[object, object, R]]

_FEATURES: dict[str, Feature[object, object]] = {}
"""pygls looks up by the method which params a feature gets."""
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}
_KINDS = {
    "session": types.SymbolKind.File,
    "user": types.SymbolKind.Field,
    "assistant": types.SymbolKind.Method,
    "tool": types.SymbolKind.Function,
    "system": types.SymbolKind.Constant,
    "note": types.SymbolKind.Property,
    "thinking": types.SymbolKind.Event,
}
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+")
_NAME_CHARS = 200


class _Protocol(LanguageServerProtocol):
    """pygls' protocol without its stream: answers go to their waiting callers, notifications to the connection."""

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self.waiting: dict[str | int, asyncio.Future[object]] = {}

    # pygls caches these on the method, which would keep every connection's protocol alive for ever.

    def get_message_type(self, method: str) -> type[object] | None:  # type: ignore[override]
        return types.METHOD_TO_TYPES.get(method, (None,))[0]

    def get_result_type(self, method: str) -> type[object] | None:  # type: ignore[override]
        return types.METHOD_TO_TYPES.get(method, (None, None))[1]

    def _send_response(
        self, msg_id: str | int, result: object = None, error: types.ResponseError | None = None
    ) -> None:
        future = self.waiting.pop(msg_id, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(self._converter.unstructure(result))
        else:
            future.set_exception(_Failed(error))

    def _send_data(self, data: object) -> None:
        """A notification of ours. Requests to the client are never made."""
        wire = self._converter.unstructure(data)
        cast(_Server, self._server).send(wire["method"], encode_json(wire.get("params", {})))

    def forget_notifications(self) -> None:
        """pygls keeps the future of every notification that it handled; drop them."""
        for key in [key for key, future in self._request_futures.items() if future.done() and key not in self.waiting]:
            del self._request_futures[key]


class _Failed(Exception):
    """pygls answered with an error."""

    def __init__(self, error: types.ResponseError) -> None:
        super().__init__(error.message)
        self.error = error


class _Server(LanguageServer):
    def __init__(self, documents: Documents | None, send: Notify) -> None:
        super().__init__(
            "sessiond",
            sessiond.__version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            protocol_cls=_Protocol,
            converter_factory=lambda: _converter,
        )
        self.documents = documents
        self.send = send
        self.stale: set[str] = set()
        """Documents that changed while their diagnostics were being computed."""
        self.checking: set[str] = set()
        table = self.protocol.fm.features
        for name, feature in _FEATURES.items():
            table[name] = functools.partial(_guarded, feature, self)

    def report_server_error(self, error: Exception, source: object) -> None:
        _log.warning("a notification of an editor failed: %s", error)

    def text(self, uri: str) -> str | None:
        """The text that the editor has open under this URI."""
        document = self.workspace.text_documents.get(uri)
        return None if document is None else document.source


async def _guarded(feature: Feature[object, object], server: _Server, params: object) -> object:
    """Our errors keep their kind on the way through pygls."""
    try:
        return await feature(server, params)
    except Exception as error:
        told = wire_error(error)
        raise JsonRpcException(told.message, told.code, told.data) from None


class _MakeMessage(Protocol):
    """A type of LSP's messages. Notifications have no `id`."""

    def __call__(self, *, params: object, id: int = ...) -> RPCMessage: ...


class LspSession:
    """pygls for one connection. `initialize`: the raw params that the client began with."""

    def __init__(self, documents: Documents | None, notify: Notify, initialize: bytes) -> None:
        self._server = _Server(documents, notify)
        self._protocol = cast(_Protocol, self._server.protocol)
        self._last_id = 0
        request = types.InitializeRequest(id=0, params=_initialize_params(initialize))
        self._protocol.handle_message(cast(RPCMessage, request))

    @property
    def capabilities(self) -> object:
        """The capabilities as pygls computes them, for the test that compares them with the result of `initialize`."""
        return _converter.unstructure(self._server.server_capabilities)

    async def request(self, method: str, raw: msgspec.Raw) -> object:
        """The result as plain data. Raises SessiondError, or `msgspec`'s errors for results that are not JSON."""
        self._last_id += 1
        number = self._last_id
        message = self._message(method, raw, number)
        answer = self._protocol.waiting[number] = asyncio.get_running_loop().create_future()
        self._protocol.handle_message(message)
        try:
            return await answer
        except _Failed as failed:
            raise _as_ours(failed.error) from None
        finally:
            self._protocol.waiting.pop(number, None)
            handler = self._protocol._request_futures.pop(number, None)
            if handler is not None:
                handler.cancel()

    def notification(self, method: str, raw: msgspec.Raw) -> None:
        self._protocol.handle_message(self._message(method, raw, None))
        self._protocol.forget_notifications()

    def close(self) -> None:
        for future in self._protocol._request_futures.values():
            future.cancel()

    def _message(self, method: str, raw: msgspec.Raw, number: int | None) -> RPCMessage:
        message_type, _result, params_type, _options = types.METHOD_TO_TYPES[method]
        make, kind = cast(_MakeMessage, message_type), cast(type[object], params_type)
        try:
            sent = {} if raw is ABSENT else msgspec.json.decode(raw)
            params = _converter.structure(sent, kind)
        except Exception as error:
            places = transform_error(error)
            raise InvalidParams(f"{method}: {places[0] if places else error}", field="params") from None
        return make(params=params) if number is None else make(id=number, params=params)


def _as_ours(error: types.ResponseError) -> SessiondError:
    data = error.data if isinstance(error.data, dict) else {}
    kind = data.get("kind", "internalError")
    ours = SessiondError(error.message, **{key: value for key, value in data.items() if key not in ("kind", "hint")})
    ours.hint = data.get("hint")
    ours.kind = kind  # type: ignore[misc]  # the class that raised it is lost on the way; what clients decide by is not
    return ours


def _initialize_params(raw: bytes) -> types.InitializeParams:
    """For invalid params: those of a client without capabilities."""
    try:
        return _converter.structure(msgspec.json.decode(raw), types.InitializeParams)
    except Exception as error:
        _log.info("the capabilities of a client could not be understood: %s", error)
        return types.InitializeParams(capabilities=types.ClientCapabilities())


# Features


def _feature(method: str) -> Callable[[Feature[P, R]], Feature[P, R]]:
    def record(function: Feature[P, R]) -> Feature[P, R]:
        _FEATURES[method] = cast(Feature[object, object], function)
        return function

    return record


@_feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
async def _document_symbol(server: _Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    uri = params.text_document.uri
    return [] if server.documents is None else _tree(await server.documents.outline(uri, server.text(uri)))


@_feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
async def _folding_range(server: _Server, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
    uri = params.text_document.uri
    if server.documents is None:
        return []
    nodes = _flat(await server.documents.outline(uri, server.text(uri)))
    folds = dict.fromkeys((node.start_line, node.end_line) for node in nodes if node.end_line > node.start_line)
    return [types.FoldingRange(start, end) for start, end in folds]


@_feature(types.TEXT_DOCUMENT_HOVER)
async def _hover(server: _Server, params: types.HoverParams) -> types.Hover | None:
    uri = params.text_document.uri
    if server.documents is None:
        return None
    found = await server.documents.hover(uri, server.text(uri), params.position.line)
    if found is None:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, found.markdown)
    return types.Hover(content, _lines(found.start_line, found.end_line))


@_feature(types.TEXT_DOCUMENT_CODE_ACTION)
async def _code_action(server: _Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri, where = params.text_document.uri, params.range
    if server.documents is None:
        return []
    found = await server.documents.actions(uri, server.text(uri), where.start.line, where.end.line)
    return [
        types.CodeAction(
            title=_one_line(action.title),
            command=types.Command(
                title=_one_line(action.title), command=command_of(action.method), arguments=[action.params]
            ),
        )
        for action in found
    ]


@_feature(types.WORKSPACE_SYMBOL)
async def _workspace_symbol(server: _Server, params: types.WorkspaceSymbolParams) -> list[types.SymbolInformation]:
    if server.documents is None:
        return []
    return [
        types.SymbolInformation(
            name=_one_line(symbol.name),
            kind=_KINDS.get(symbol.kind, types.SymbolKind.String),
            location=types.Location(symbol.uri, _lines(symbol.line, symbol.line)),
            container_name=_one_line(symbol.container),
        )
        for symbol in await server.documents.symbols(params.query)
    ]


@_feature(types.TEXT_DOCUMENT_DID_OPEN)
async def _did_open(server: _Server, params: types.DidOpenTextDocumentParams) -> None:
    await _publish(server, params.text_document.uri)


@_feature(types.TEXT_DOCUMENT_DID_CHANGE)
async def _did_change(server: _Server, params: types.DidChangeTextDocumentParams) -> None:
    """The editor's text is used only for outline and diagnostics; it never changes a session."""
    await _publish(server, params.text_document.uri)


@_feature(types.TEXT_DOCUMENT_DID_CLOSE)
async def _did_close(server: _Server, params: types.DidCloseTextDocumentParams) -> None:
    if server.documents is not None:
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


async def _publish(server: _Server, uri: str) -> None:
    """Publish diagnostics of an open document; any number of changes during a run cost only one more run."""
    if server.documents is None:
        return
    server.stale.add(uri)
    if uri in server.checking:
        return
    server.checking.add(uri)
    try:
        while uri in server.stale:
            server.stale.discard(uri)
            text = server.text(uri)
            if text is None:
                return
            found = await server.documents.diagnostics(uri, text)
            if server.text(uri) is None:
                return
            problems = [
                types.Diagnostic(
                    range=_lines(problem.line, problem.line),
                    message=problem.message,
                    severity=_SEVERITIES[problem.severity],
                    source="sessiond",
                )
                for problem in found
            ]
            server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, problems))
    finally:
        server.checking.discard(uri)
        server.stale.discard(uri)


# Shapes


def _lines(start: int, end: int) -> types.Range:
    """Whole lines, the last one included."""
    return types.Range(types.Position(start, 0), types.Position(end + 1, 0))


def _one_line(text: str) -> str:
    """Fit for a menu: one line, without control characters, not empty and not too long."""
    clean = " ".join(_UNSHOWABLE.sub(" ", text).split())
    if len(clean) > _NAME_CHARS:
        clean = clean[: _NAME_CHARS - 1] + "…"
    return clean or "(empty)"


def _tree(nodes: Iterable[OutlineNode]) -> list[types.DocumentSymbol]:
    return [
        types.DocumentSymbol(
            name=_one_line(node.name),
            kind=_KINDS.get(node.kind, types.SymbolKind.String),
            range=_lines(node.start_line, node.end_line),
            selection_range=types.Range(types.Position(node.start_line, 0), types.Position(node.start_line, 0)),
            detail=_one_line(node.detail) if node.detail else None,
            children=_tree(node.children) or None,
        )
        for node in nodes
    ]


def _flat(nodes: Sequence[OutlineNode]) -> list[OutlineNode]:
    found = list(nodes)
    for node in nodes:
        found += _flat(node.children)
    return found


def _shared_converter() -> Converter:
    """One converter for all connections. Its hooks are generated at first use, so that happens here, on the thread that
    imports this module.
    """
    converter = cast(Converter, default_converter())  # type: ignore[no-untyped-call]
    document = {"uri": "", "languageId": "", "version": 0, "text": ""}
    converter.structure({"textDocument": document}, types.DidOpenTextDocumentParams)
    converter.structure({"textDocument": document}, types.DocumentSymbolParams)
    converter.structure({"capabilities": {}}, types.InitializeParams)
    return converter


_converter = _shared_converter()
