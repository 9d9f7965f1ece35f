"""The door to `rpc.lsp`, and so to pygls: loaded on a thread at the first LSP feature of the process.

Messages that arrive meanwhile wait here, in order; everything else of this connection and of all others continues.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from sessiond.rpc.documents import Documents
    from sessiond.rpc.lsp import LspSession

Notify = Callable[[str, bytes], bool]


class LspGate:
    """LSP's features for one connection. `initialize` are the raw params that the client began with."""

    def __init__(self, documents: Documents | None, notify: Notify, initialize: bytes) -> None:
        self._documents = documents
        self._notify = notify
        self._initialize = initialize
        self._session: LspSession | None = None
        self._failure: Exception | None = None
        self._loaded = asyncio.Event()
        self._loading: asyncio.Task[None] | None = None

    async def call(self, method: str, params: msgspec.Raw, is_request: bool) -> object:
        """The result as plain data, None for a notification. Raises SessiondError."""
        if self._session is None:
            if self._loading is None:
                self._loading = asyncio.create_task(self._load())
            await self._loaded.wait()
        if self._session is None:
            raise self._failure or RuntimeError("the connection has ended")
        if is_request:
            return await self._session.request(method, params)
        self._session.notification(method, params)
        return None

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
        self._loaded.set()

    async def _load(self) -> None:
        try:
            lsp = await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "sessiond.rpc.lsp")
            if not self._loaded.is_set():
                self._session = lsp.LspSession(self._documents, self._notify, self._initialize)
        except Exception as error:  # anything that an import may raise; every waiting request gets it
            self._failure = error
        finally:
            self._loaded.set()
