"""The interface of every target: where its files are, what it can hold, and how a copy gets there."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from sessiond.errors import TooLarge
from sessiond.exporters.conversation import ExportedTurn
from sessiond.fs.publish import make_folders, publish, withdraw
from sessiond.importers.record import Event, open_source
from sessiond.importers.registry import BY_NAME
from sessiond.limits import COPY_BYTES, MIB
from sessiond.model.values import JsonObject
from sessiond.resume.refusals import cannot_write, not_installed

PICTURES_IN_RESULTS, PICTURES, TEXTS = 2, 1, 0
"""What a target's conversation holds besides texts: pictures anywhere, pictures of the user, or nothing."""

NOT_A_COMMAND = "\u2060"
"""Put before what a user says where a tool would take it for a command of its own. It has no width."""


class SessionCopy(msgspec.Struct):
    """The content of a copy. `parent`: as in a SessionInfo. `moment`: when the copy is made, in milliseconds since 1970."""

    turns: list[ExportedTurn]
    cwd: str
    parent: JsonObject
    moment: int
    name: str | None = None
    model: str | None = None


class Written(msgspec.Struct):
    """`id`: as the tool names the session. `path`: the file that holds it; of a database, the database."""

    id: str
    path: str


class Target:
    """A tool that can go on with a session. `program`: what is run; `importer`: what reads its files."""

    name = ""
    program = ""
    importer = ""
    holds = PICTURES
    urls = False
    """Whether a picture may be elsewhere, behind a URL."""
    calls = True

    def __init__(self, home: str, env: Mapping[str, str]) -> None:
        self.home = home
        self.env = env

    def found(self) -> str | None:
        """The program's path; None if it is not installed."""
        return shutil.which(self.program, path=self.env.get("PATH", os.defpath))

    def check(self) -> None:
        """Unavailable if it is not installed."""
        if self.found() is None:
            raise not_installed(self.program)

    def base(self, cwd: str, variable: str, *otherwise: str) -> str:
        """The tool's own folder: the one that its variable names, which may be relative to where the tool starts, or one in the home."""
        return os.path.join(cwd, self.env.get(variable) or os.path.join(self.home, *otherwise))

    def shaped(self, turns: list[ExportedTurn]) -> list[ExportedTurn]:
        """The turns as the target's files can hold them. Most can hold any."""
        return turns

    def command(self, written: Written) -> list[str]:
        raise NotImplementedError

    def write(self, copy: SessionCopy) -> Written:
        """Write the copy where the tool looks for it, on the disk when this returns. InvalidParams, TooLarge, Unavailable, OSError."""
        raise NotImplementedError

    def read(self, written: Written) -> Iterator[Event]:
        """The copy as the importer reads it."""
        yield from BY_NAME[self.importer].read(written.path, open_source)

    def remove(self, written: Written) -> None:
        """Take a copy back that did not read as it should."""
        raise NotImplementedError


class FileTarget(Target):
    """A target whose session is one file."""

    def __init__(self, home: str, env: Mapping[str, str]) -> None:
        super().__init__(home, env)
        self._folders: list[str] = []

    def document(self, copy: SessionCopy) -> tuple[Written, bytes]:
        """The new session's id and path, and what the file holds."""
        raise NotImplementedError

    def write(self, copy: SessionCopy) -> Written:
        written, data = self.document(copy)
        check_size(len(data))
        self.put(written.path, data)
        return written

    def put(self, path: str, data: bytes) -> None:
        """A new file, in a folder that is made if needed. Unavailable, FileExistsError; then nothing is left."""
        try:
            self._folders += make_folders(os.path.dirname(path))
            publish(path, data)
        except BaseException as error:
            withdraw(None, self._folders)
            if isinstance(error, OSError) and not isinstance(error, FileExistsError):
                raise cannot_write(path, error) from None
            raise

    def remove(self, written: Written) -> None:
        self.withdraw([written.path])

    def withdraw(self, paths: list[str]) -> None:
        """Take files back, and the folders that were made for them."""
        for path in paths:
            withdraw(path, [])
        withdraw(None, self._folders)


def check_size(size: int) -> None:
    if size > COPY_BYTES:
        most, what = COPY_BYTES // MIB, size // MIB
        hint = "--last N or --no-tools makes it smaller"
        raise TooLarge(f"the copy would have {what} MiB; at most {most} MiB", hint=hint, limit=COPY_BYTES)


# Parts of files


def lines(records: list[dict[str, Any]]) -> bytes:
    """Records as JSON Lines."""
    encode = msgspec.json.Encoder().encode
    return b"".join(encode(one) + b"\n" for one in records)


def milliseconds(timestamp: str) -> int:
    """A message's time since 1970; 0 if it has none."""
    return round(datetime.fromisoformat(timestamp).timestamp() * 1000) if timestamp else 0


def timed_uuid(moment: int) -> str:
    """A UUID of version 7, whose order is that of its time."""
    value = (moment & (1 << 48) - 1) << 80 | 7 << 76 | 2 << 62 | uuid.uuid4().int & (1 << 62) - 1
    value |= (uuid.uuid4().int & 0xFFF) << 64
    return str(uuid.UUID(int=value))


def javascript_units(text: str) -> str:
    """A text in which a character beyond U+FFFF is two, as tools written in JavaScript count and replace characters."""
    return "".join(one if ord(one) <= 0xFFFF else one + "\ufffd" for one in text)


def dashed(path: str) -> str:
    """A path with a dash for every character that is not an ASCII letter or digit."""
    return "".join(one if one.isascii() and one.isalnum() else "-" for one in javascript_units(path))


def text_of(blocks: list[dict[str, Any]]) -> str:
    """The texts of a result, which `fitting` made one."""
    return "\n".join(one["text"] for one in blocks if one["type"] == "text")


def pictures_of(blocks: list[JsonObject]) -> list[JsonObject]:
    return [one for one in blocks if one["type"] == "image"]
