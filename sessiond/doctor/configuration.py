"""Repairs a `config.toml` that cannot be used: the wrong lines become comments, and a copy of the file is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sessiond.config import settle
from sessiond.endpoint import Places
from sessiond.errors import ConfigError
from sessiond.fs import FileSystem, atomic_write
from sessiond.words import count

_HEADER = re.compile(r"\s*\[\[?([^\]]+)\]")
_MARK = "# taken out by doctor: "
_ROUNDS = 200


def mend_config(fs: FileSystem, path: str, where: Places, environ: Mapping[str, str]) -> str | None:
    """Repair the file. Returns what was done, for people; None if it is not clear which lines are wrong."""
    before = fs.read(path)
    lines = before.decode("utf-8", "replace").split("\n")
    for number, line in enumerate(lines):
        if "\ufffd" in line:
            lines[number] = _MARK + line
    for _ in range(_ROUNDS):
        try:
            settle(path, "\n".join(lines), where, environ, {})
            break
        except ConfigError as error:
            wrong = _wrong(lines, error)
            if not wrong:
                return None
            for number in wrong:
                lines[number] = _MARK + lines[number]
    else:
        return None
    copy = _copy(fs, path, before)
    stat = fs.stat(path)
    atomic_write(fs, path, "\n".join(lines).encode(), 0o600 if stat is None else stat.mode & 0o777)
    out = [number + 1 for number, line in enumerate(lines) if line.startswith(_MARK)]
    return f"{count(len(out), 'line')} commented out ({', '.join(map(str, out))}); the original file is kept as {copy}"


def _copy(fs: FileSystem, path: str, content: bytes) -> str:
    number = 1
    while fs.has_name(copy := f"{path}.damaged-{number}"):
        number += 1
    fs.create(copy, content)
    fs.sync_dir(path.rpartition("/")[0])
    return copy


def _wrong(lines: list[str], error: ConfigError) -> list[int]:
    """The lines (from 0) that an error is about, as far as it names them."""
    line = error.data.get("line")
    if line is not None:
        number = line - 1
        # An error reported at the start of a line, such as an unterminated value, belongs to the line before.
        while number >= 0 and (number >= len(lines) or not lines[number].strip() or lines[number].startswith("#")):
            number -= 1
        return [number] if number >= 0 else []
    key = str(error.data.get("key", ""))
    return (
        _table(lines, key) or _entry(lines, key) or (_table(lines, key.rpartition(".")[0]) if "stores." in key else [])
    )


def _table(lines: list[str], name: str) -> list[int]:
    """The lines of a table, with its header."""
    found: list[int] = []
    inside = False
    for number, line in enumerate(lines):
        header = _HEADER.match(line)
        if header is not None:
            inside = header[1].strip().replace('"', "") == name
        if inside and line.strip() and not line.startswith("#"):
            found.append(number)
    return found


def _entry(lines: list[str], key: str) -> list[int]:
    """The line of one `key = value`, in its table."""
    table, _, name = key.rpartition(".")
    here = ""
    for number, line in enumerate(lines):
        header = _HEADER.match(line)
        if header is not None:
            here = header[1].strip().replace('"', "")
        elif here == table and re.match(rf"\s*\"?{re.escape(name)}\"?\s*=", line):
            return [number]
    return []
