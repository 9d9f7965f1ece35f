"""Opens hubs for a daemon and the commands. asyncpg is imported here, when the first hub is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from sessiond.errors import ConfigError
from sessiond.hub.address import HubAddress
from sessiond.hub.port import Hub
from sessiond.installation import add_command
from sessiond.shared_config import HubConfig

if TYPE_CHECKING:
    from sessiond.hub.setup import Owner

T = TypeVar("T")


def address_of(config: HubConfig) -> HubAddress:
    return HubAddress(config.store, config.url, config.service, config.password_file, config.listen_url)


def open_hub(address: HubAddress, replica: str | None, key_file: str | None = None) -> Hub:
    """The hub at `address`, as `replica` (32 hexadecimal digits). None: only to read. Does no I/O: what needs the key reads its file.

    ConfigError: the extra is not installed.
    """
    need_extra()
    from sessiond.hub.postgres import PostgresHub

    if key_file is None:
        return PostgresHub(address, replica, sealed=False)
    from sessiond.hub.keys import read_keys
    from sessiond.hub.sealing import SealedHub, Sealer

    sealer = Sealer(partial(read_keys, key_file), key_file)
    return SealedHub(PostgresHub(address, replica, sealed=True), sealer, replica or "")


def ask_hub(address: HubAddress, work: Callable[[Hub], Awaitable[T]], key_file: str | None = None) -> T:
    """Return what `work` finds out on a hub that is opened only for it and only read. Without a key, contents stay sealed."""
    need_extra()
    from sessiond.hub.postgres import PostgresHub

    async def run() -> T:
        hub = PostgresHub(address, None) if key_file is None else open_hub(address, None, key_file)
        try:
            if key_file is not None:
                await hub.welcome()  # before anything is done without the key
            return await work(hub)
        finally:
            await hub.close()

    return asyncio.run(run())


def open_as_owner(address: HubAddress) -> Owner:
    """The hub at `address`, for whoever runs it. Does no I/O. ConfigError: the extra is not installed."""
    need_extra()
    from sessiond.hub.setup import Owner

    return Owner(address)


def need_extra() -> None:
    """ConfigError unless what a shared store needs is installed."""
    missing = [name for name in ("asyncpg", "cryptography") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"a shared store needs {' and '.join(missing)}", hint=f"run {add_command('postgres')}")


def own_hub(address: HubAddress, work: Callable[[Owner], Awaitable[T]]) -> T:
    """Carry out `work` as the owner of the hub."""

    async def run() -> T:
        async with open_as_owner(address) as owner:
            return await work(owner)

    return asyncio.run(run())
