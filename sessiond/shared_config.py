"""Reads what `config.toml` says of a shared store: a `[stores.NAME]` with a `url` or a `service` instead of a path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

import msgspec

from sessiond.errors import ConfigError

KEYS = ("url", "service", "store", "password_file", "listen_url", "key_file", "offline", "mirror")
_YES_OR_NO = ("mirror",)
OFFLINE = ("queue", "refuse")


class HubConfig(msgspec.Struct, frozen=True):
    """The hub of one shared store. Either `url` or `service` is set. Paths are absolute, with `~` expanded."""

    store: str
    """The store's name on the hub; the name in the heading if it is left out."""
    url: str | None = None
    """The hub's database, such as `postgresql://ada@db.example/sessiond`, without a password."""
    service: str | None = None
    """An entry of `~/.pg_service.conf`, in place of `url`."""
    password_file: str | None = None
    """A file with the hub's password; it begins with `/` or `~/`."""
    listen_url: str | None = None
    """Another way to the hub for its notifications, where `url` leads through a pooler."""
    key_file: str | None = None
    """The key with which sessions are encrypted before they leave this machine; it begins with `/` or `~/`."""
    offline: str = "queue"
    """What becomes of appends while the hub cannot be reached: `queue` keeps them until it can, `refuse` refuses them."""
    mirror: bool = False
    """`true`: all sessions are fetched in the background, not only those that somebody opens."""


def parse(path: str, name: str, entry: Mapping[str, object]) -> HubConfig:
    """`entry` is the table as TOML has it. ConfigError."""
    here = f"{path}: [stores.{name}]"

    def wrong(key: str, message: str, hint: str) -> ConfigError:
        return ConfigError(f"{here}: {message}", hint=hint, path=path, key=f"stores.{name}.{key}")

    for key, value in entry.items():
        if key not in KEYS:
            import difflib  # needed only after a mistake

            close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"a shared store has {', '.join(KEYS)}"
            raise wrong(key, f"unknown key {key!r}", hint)
        if not isinstance(value, bool if key in _YES_OR_NO else str):
            # A URL may hold a password, so it is not repeated.
            hint = "it must be true or false" if key in _YES_OR_NO else "it must be a string"
            raise wrong(key, f"{key} is of the wrong type", hint)
    if "url" in entry and "service" in entry:
        raise wrong("service", "url and service are both set", "remove one of them")
    values = {key: str(entry[key]) for key in KEYS if key in entry and key not in _YES_OR_NO}
    for key in ("url", "listen_url"):
        if key in values and has_password(values[key]):
            raise wrong(key, f"{key} holds a password", "put it into ~/.pgpass, a file (password_file) or PGPASSWORD")
    if values.get("offline", "queue") not in OFFLINE:
        raise wrong("offline", f"offline is {values['offline']!r}", f"it must be {' or '.join(OFFLINE)}")
    for key in ("password_file", "key_file"):
        if key in values:
            values[key] = os.path.normpath(os.path.expanduser(values[key]))
            if not os.path.isabs(values[key]):
                raise wrong(key, f"{key} {values[key]!r} is not an absolute path", "begin it with / or ~/")
    values.setdefault("store", name)
    return HubConfig(**values, mirror=entry.get("mirror") is True)


def has_password(url: str) -> bool:
    """Also where the rest of the URL is not valid."""
    try:
        parts = urlsplit(url)
        return parts.password is not None or any(key == "password" for key, _ in parse_qsl(parts.query))
    except ValueError:
        return False
