"""Says where a client may let the daemon write: nowhere in the daemon's own folders and stores."""

from __future__ import annotations

import os
from collections.abc import Iterable

from sessiond.errors import InvalidParams
from sessiond.store.port import Store


def outside(path: str, homes: Iterable[str], stores: Iterable[Store]) -> str:
    """The real path of `path`. InvalidParams if it is not absolute, or is in one of the daemon's own folders or in a store."""
    if not os.path.isabs(path) or "\0" in path:
        raise InvalidParams("path: expected an absolute path", field="path")
    real = os.path.realpath(path)
    for home in map(os.path.realpath, homes):
        if real == home or real.startswith(home.rstrip("/") + "/"):
            raise InvalidParams(
                f"path: {real} is in one of sessiond's own folders", hint="choose another folder", field="path"
            )
    for store in stores:
        root = os.path.realpath(store.path)
        if real == root or real.startswith(root.rstrip("/") + "/"):
            raise InvalidParams(
                f"path: {real} is in the store {store.name!r}", hint="choose another folder", field="path"
            )
    return real
