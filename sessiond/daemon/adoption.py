"""Adopts another system's folder: recognises it, adds it to config.toml, mounts it at once."""

from __future__ import annotations

import asyncio
import os
import re

from sessiond import config as configuration
from sessiond.config import Config, StoreConfig
from sessiond.endpoint import Places
from sessiond.errors import BadFile, InvalidParams
from sessiond.formats import registry
from sessiond.fs import NAMED, FileSystem, off_loop
from sessiond.shield import through
from sessiond.store.folder import FolderStore
from sessiond.store.mounts import Mounts, recognise


class Adoption:
    """`editing`: held by whoever changes `config.toml`."""

    def __init__(
        self, fs: FileSystem, where: Places, config: Config, mounts: Mounts, editing: asyncio.Lock | None = None
    ) -> None:
        self._fs = fs
        self._where = where
        self._config = config
        self._mounts = mounts
        self._one = editing or asyncio.Lock()
        """A name is free until its folder is mounted, so only one adoption at a time may ask."""

    async def adopt(self, path: str, name: str | None, fmt: str | None) -> FolderStore:
        """InvalidParams, AlreadyExists, BadFile (no format recognises the folder). Once begun, it is completed even if it is
        cancelled. The store has a `problem` if it cannot be used yet.
        """
        folder, fmt = await self._recognised(path, fmt)  # before others have to wait: its disk may hang
        async with self._one:
            return await through(self._adopt(folder, name, fmt))

    async def _recognised(self, path: str, fmt: str | None) -> tuple[str, str]:
        """The folder and its format."""
        folder = os.path.normpath(os.path.expanduser(path))
        if not os.path.isabs(folder) or not await NAMED.run(os.path.isdir, folder):
            raise InvalidParams(f"path: {path} is not a folder", hint="give its absolute path", field="path")
        if fmt is not None and fmt not in registry.NAMES:
            raise InvalidParams(f"format: expected one of {', '.join(registry.NAMES)}", field="format")
        if fmt is None:
            fmt, _ = await NAMED.run(recognise, self._fs, folder)
        if fmt is None:
            raise BadFile(
                f"{folder} contains nothing that a store format recognises",
                hint=f"name the format, one of {', '.join(registry.NAMES)}",
                path=folder,
                line=None,
            )
        return folder, fmt

    async def _adopt(self, folder: str, name: str | None, fmt: str) -> FolderStore:
        known = self._mounts.stores.get(name or "")
        if known is not None and known.path == folder and known.problem is not None:
            await self._mounts.accept(known.name)
            return known
        store = StoreConfig(name or self._free_name(folder, fmt), folder, fmt)
        self._config = await off_loop(configuration.with_store, self._fs, self._where, self._config, store)
        mounted = await self._mounts.mount(store.name, store.path, store.format, accepted=True)
        self._mounts.started(store.name)
        return mounted

    def _free_name(self, folder: str, fmt: str) -> str:
        """The folder's own name if it is valid, otherwise the format's; with a number if that is taken."""
        base = re.sub(r"[^a-z0-9_-]+", "-", os.path.basename(folder).lower()).strip("-_") or fmt
        taken = {store.name for store in self._config.stores}
        name, number = base, 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        return name
