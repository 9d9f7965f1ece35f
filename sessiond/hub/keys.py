"""The key file of a shared store: who has it can read the store, the hub cannot.

Text, one key a line: `sessiond-key-1 ID SECRET`, with an ID of 8 hexadecimal digits and 32 bytes in base64url. The last one seals, all of
them open, so an old key stays in the file after a rotation. Only its owner may read the file.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets

import msgspec

from sessiond.errors import AlreadyExists, ConfigError

_LINE = re.compile(r"sessiond-key-1 ([0-9a-f]{8}) ([A-Za-z0-9_-]{43})")


class Key(msgspec.Struct, frozen=True):
    """32 random bytes. Its id tells nothing of them but whether two keys are the same."""

    secret: bytes

    @property
    def id(self) -> str:
        return hashlib.sha256(b"sessiond key id" + self.secret).hexdigest()[:8]

    @property
    def line(self) -> str:
        return f"sessiond-key-1 {self.id} {base64.urlsafe_b64encode(self.secret).decode().rstrip('=')}"

    def __repr__(self) -> str:
        return f"Key({self.id})"  # a secret gets into no log


def new_key() -> Key:
    return Key(secrets.token_bytes(32))


def parse_keys(text: str, where: str) -> list[Key]:
    """The keys of a file, oldest first. ConfigError; its message holds nothing of the text."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        key = Key(base64.urlsafe_b64decode(match[2] + "=")) if match else None
        if match is None or key is None or key.id != match[1]:
            raise ConfigError(f"{where}, line {number} is not a key", hint="copy the whole line that `key show` prints")
        found.append(key)
    if not found:
        raise ConfigError(f"{where} holds no key")
    return found


def read_keys(path: str) -> list[Key]:
    """ConfigError: it cannot be read, others can read it, or a line is not a key."""
    try:
        with open(path, encoding="utf-8") as file:
            open_to_others = os.fstat(file.fileno()).st_mode & 0o077
            text = file.read()
    except FileNotFoundError:
        raise ConfigError(
            f"the key file {path} does not exist",
            hint="copy it from another machine; without any copy of it, nobody can read what is on the hub",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"the key file {path} cannot be read: {reason}") from None
    if open_to_others:
        raise ConfigError(f"the key file {path} can be read by others", hint=f"chmod 600 {path}")
    return parse_keys(text, path)


def file_of(keys: list[Key]) -> bytes:
    note = (
        "# Keys of a shared store of sessiond. The last one seals. Whoever has them can read the store; keep a copy.\n"
    )
    return (note + "".join(key.line + "\n" for key in keys)).encode()


def must_be_new(exists: bool, path: str) -> None:
    """AlreadyExists: a key that is overwritten is lost, and with it what it sealed."""
    if exists:
        raise AlreadyExists(f"{path} exists already", hint="`sessiond store key rotate` adds a key to it")
