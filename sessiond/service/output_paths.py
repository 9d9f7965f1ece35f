"""Where a client may have the daemon write: nowhere among what the daemon looks after."""

from __future__ import annotations

import os
from collections.abc import Iterable

from sessiond.errors import InvalidParams
from sessiond.store.port import Store


def outside(path: str, homes: Iterable[str], stores: Iterable[Store]) -> str:
    """Where `path` leads. InvalidParams: it is not absolute, or lies in a folder of the daemon's own or in a store."""
    if not os.path.isabs(path) or "\0" in path:
        raise InvalidParams("path: expected an absolute path", field="path")
    real = os.path.realpath(path)
    for home in map(os.path.realpath, homes):
        if real == home or real.startswith(home.rstrip("/") + "/"):
            raise InvalidParams(
                f"path: {real} lies in a folder of sessiond's own", hint="choose a folder of yours", field="path"
            )
    for store in stores:
        root = os.path.realpath(store.path)
        if real == root or real.startswith(root.rstrip("/") + "/"):
            raise InvalidParams(
                f"path: {real} lies in the store {store.name!r}", hint="choose another folder", field="path"
            )
    return real
