"""The same door for coroutines: every call runs on a thread of the loop's executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from aiofiles.os import wrap

from sessiond.fs.atomic import atomic_write
from sessiond.fs.port import FileSystem, Lock, Stat

P = ParamSpec("P")
T = TypeVar("T")


def _apply(call: Callable[..., T], *args: object, **kwargs: object) -> T:
    return call(*args, **kwargs)


_on_thread = wrap(_apply)


class AsyncFiles:
    """`FileSystem` as coroutines, with the same arguments, results and errors.

    Cancelling the coroutine does not stop the call: it runs to its end, unseen. Whoever must know how it ended
    shields it.
    """

    def __init__(self, fs: FileSystem) -> None:
        self.sync = fs
        """The synchronous door behind this one."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Several synchronous steps as one call on one thread."""
        result: T = await _on_thread(call, *args, **kwargs)
        return result

    async def stat(self, path: str) -> Stat | None:
        return await self.run(self.sync.stat, path)

    async def list_dir(self, path: str) -> list[str]:
        return await self.run(self.sync.list_dir, path)

    async def real_path(self, path: str) -> str:
        return await self.run(self.sync.real_path, path)

    async def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        return await self.run(self.sync.read, path, offset, size)

    async def make_dirs(self, path: str, mode: int = 0o700) -> None:
        await self.run(self.sync.make_dirs, path, mode)

    async def create(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        return await self.run(self.sync.create, path, data, mode)

    async def append(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        return await self.run(self.sync.append, path, data, mode)

    async def atomic_write(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        return await self.run(atomic_write, self.sync, path, data, mode)

    async def replace(self, source: str, target: str) -> None:
        await self.run(self.sync.replace, source, target)

    async def link(self, source: str, target: str) -> None:
        await self.run(self.sync.link, source, target)

    async def remove(self, path: str) -> None:
        await self.run(self.sync.remove, path)

    async def remove_dir(self, path: str) -> None:
        await self.run(self.sync.remove_dir, path)

    async def sync_dir(self, path: str) -> None:
        await self.run(self.sync.sync_dir, path)

    async def lock(self, path: str) -> Lock:
        return await self.run(self.sync.lock, path)

    async def free_bytes(self, path: str) -> int:
        return await self.run(self.sync.free_bytes, path)
