"""The params and the result of `initialize`, and the methods that are LSP's own. Plain data: answering does not need pygls."""

from __future__ import annotations

import msgspec

from sessiond.limits import Limits
from sessiond.model.values import JsonObject
from sessiond.rpc.envelope import ABSENT
from sessiond.rpc.errors import invalid_params
from sessiond.rpc.methods import METHODS
from sessiond.schema import PROTOCOL_VERSION

COMMAND_PREFIX = "sessiond."

ALWAYS_SERVED = frozenset({"textDocument/didOpen", "textDocument/didChange", "textDocument/didClose"})
DOCUMENT_FEATURES = frozenset(
    {
        "textDocument/documentSymbol",
        "textDocument/foldingRange",
        "textDocument/hover",
        "textDocument/codeAction",
        "workspace/symbol",
    }
)
FEATURES = ALWAYS_SERVED | DOCUMENT_FEATURES
"""What goes to pygls."""

_LSP_PREFIXES = (
    "textDocument/",
    "workspace/",
    "window/",
    "notebookDocument/",
    "callHierarchy/",
    "typeHierarchy/",
    "completionItem/",
    "codeAction/",
    "codeLens/",
    "documentLink/",
    "inlayHint/",
    "workspaceSymbol/",
    "client/",
)
UNNAMED = "unknown"
"""A client that has not said its name."""
_LSP_NAMES = frozenset({"initialize", "initialized", "shutdown", "exit"})


def is_lsp(method: str) -> bool:
    """Return whether a method is one of LSP's own, known or not."""
    return method in _LSP_NAMES or method.startswith(_LSP_PREFIXES)


class _ClientInfo(msgspec.Struct):
    name: str = "unknown"


class _Folder(msgspec.Struct):
    uri: str


class InitializeParams(msgspec.Struct, rename="camel"):
    """The part of LSP's `InitializeParams` that the connection itself needs."""

    client_info: _ClientInfo | None = None
    root_uri: str | None = None
    workspace_folders: list[_Folder] | None = None
    initialization_options: object = None

    @property
    def token(self) -> str | None:
        options = self.initialization_options
        found = options.get("token") if isinstance(options, dict) else None
        return found if isinstance(found, str) else None

    @property
    def client(self) -> str:
        return (self.client_info.name if self.client_info else "") or UNNAMED

    @property
    def folders(self) -> list[str]:
        """URIs."""
        if self.workspace_folders:
            return [folder.uri for folder in self.workspace_folders]
        return [self.root_uri] if self.root_uri else []


_decode = msgspec.json.Decoder(InitializeParams).decode


def decode_initialize(raw: msgspec.Raw) -> InitializeParams:
    """Raises SessiondError for params of another shape."""
    try:
        return _decode(b"{}" if raw is ABSENT or bytes(raw) == b"null" else raw)
    except msgspec.ValidationError as error:
        raise invalid_params(error) from None


def command_of(method: str) -> str:
    """`session/append` -> `sessiond.session.append`."""
    return COMMAND_PREFIX + method.replace("/", ".")


def initialize_result(
    *, version: str, formats: list[str], search_modes: list[str], limits: Limits, documents: bool
) -> JsonObject:
    """The whole result. LSP's capabilities are those that are really served; ours are under `experimental`."""
    capabilities: JsonObject = {
        "positionEncoding": "utf-16",
        "textDocumentSync": {"openClose": documents, "change": 1 if documents else 0},
        "executeCommandProvider": {"commands": [command_of(name) for name in METHODS]},
        "experimental": {
            "sessiond": {
                "protocolVersion": PROTOCOL_VERSION,
                "formats": formats,
                "searchModes": search_modes,
                "limits": msgspec.to_builtins(limits),
            }
        },
    }
    if documents:
        capabilities |= {
            "documentSymbolProvider": True,
            "foldingRangeProvider": True,
            "hoverProvider": True,
            "codeActionProvider": True,
            "workspaceSymbolProvider": {"resolveProvider": False},
        }
    return {"capabilities": capabilities, "serverInfo": {"name": "sessiond", "version": version}}
