"""Writes a whole new session a part at a time, so that its length costs no memory.

It is written under a dot-name, which is cleaned up after a crash, and gets its real name when it is complete: nobody ever
sees half of it. Synchronous; the folder store calls it on a thread.
"""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from sessiond.errors import AlreadyExists
from sessiond.formats.base import InParts
from sessiond.limits import MIB
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.shield import shielded
from sessiond.store.context import Run
from sessiond.store.files import MARK, StoreFiles
from sessiond.store.port import SavedSession

_READ_BYTES = 1 * MIB


class Receiving:
    """Takes messages by `add`, in order; then call `finish` or `abandon`. All may raise OSError; after that, call `abandon`."""

    def __init__(self, files: StoreFiles, local_id: str, parts: InParts, glanced_from: int) -> None:
        self._files = files
        self._glanced_from = glanced_from
        self._local_id = local_id
        self._parts = parts
        self._main = files.format.main_path(local_id)
        self.path = files.path(self._main)
        folder, name = posixpath.split(self.path)
        self._folder = folder
        self._temporary = posixpath.join(folder, f".{name}{MARK}{secrets.token_hex(4)}.new")
        self._begun = False

    def add(self, messages: Sequence[Message]) -> None:
        self._append(self._parts.messages(messages))

    def _append(self, data: bytes) -> None:
        with self._files.held():
            if self._begun:
                self._files.fs.append(self._temporary, data)
            else:
                self._files.fs.create(self._temporary, self._parts.beginning + data)
                self._begun = True

    def finish(self, session: Session) -> int:
        """Give it its name. `session`: everything except the messages. Returns the file's size. AlreadyExists."""
        self._append(self._parts.ending(session))
        fs = self._files.fs
        with self._files.held(), self._files.own.writing(self._main):
            try:
                fs.link(self._temporary, self.path)
            except FileExistsError:
                raise AlreadyExists(f"{self.path} already exists") from None
            made = self._files.print_of(self._main)
            if made is not None:
                self._files.own.wrote(self._main, made)
            fs.remove(self._temporary)
            fs.sync_dir(self._folder)
        self._files.perform(self._parts.beside(session, self._glanced_from), {})
        stat = fs.stat(self.path)
        return stat.size if stat else 0

    def abandon(self) -> None:
        """Remove everything that was written."""
        if self._files.fs.stat(self._temporary) is not None:
            self._files.fs.remove(self._temporary)

    def messages(self) -> Iterator[list[Message]]:
        """Read back what was written, a part at a time. OSError; ValueError if the file was changed since."""
        offset, rest = 0, b""
        while chunk := self._files.fs.read(self.path, offset, _READ_BYTES):
            offset += len(chunk)
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline and (found := self._parts.read(whole)):
                yield found


class BulkWrite:
    """The same for the service, off the loop. ReadOnly if the disk fails; then only `abandon` may follow."""

    def __init__(
        self,
        receiving: Receiving,
        run: Run,
        guard: Callable[[str], AbstractContextManager[None]],
        take: Callable[[Receiving, Session], Awaitable[SavedSession]],
    ) -> None:
        self._receiving = receiving
        self._run = run
        self._guard = guard
        self._take = take

    async def add(self, messages: Sequence[Message]) -> None:
        with self._guard(f"{self._receiving.path} cannot be written"):
            await shielded(self._run(self._receiving.add, messages))

    async def finish(self, session: Session) -> SavedSession:
        with self._guard(f"{self._receiving.path} cannot be written"):
            return await shielded(self._take(self._receiving, session))

    async def abandon(self) -> None:
        with self._guard(f"{self._receiving.path} cannot be removed"):
            await shielded(self._run(self._receiving.abandon))

    async def messages(self) -> AsyncIterator[list[Message]]:
        parts = self._receiving.messages()
        while part := await self._run(next, parts, None):
            yield part
