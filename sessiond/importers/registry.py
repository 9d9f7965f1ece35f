"""All importers: which one a file belongs to, what can be imported from a folder, and where the tools keep their files."""

from __future__ import annotations

import codecs
import logging
import os
from collections.abc import Iterator, Mapping

import msgspec

from sessiond.importers import exported, places
from sessiond.importers.acpx import Acpx
from sessiond.importers.agent_shell import AgentShell
from sessiond.importers.aider import Aider
from sessiond.importers.amp import Amp
from sessiond.importers.avante import Avante
from sessiond.importers.bytestream import ZSTD, utf8
from sessiond.importers.chatgpt import ChatGpt
from sessiond.importers.claude_ai import ClaudeAi
from sessiond.importers.claude_code import ClaudeCode
from sessiond.importers.cline import Cline
from sessiond.importers.codecompanion import CodeCompanion
from sessiond.importers.codex import Codex
from sessiond.importers.continue_ import Continue
from sessiond.importers.copilot_chat import CopilotChat
from sessiond.importers.copilot_cli import CopilotCli
from sessiond.importers.crush import Crush
from sessiond.importers.cursor import Cursor
from sessiond.importers.cursor_agent import CursorAgent
from sessiond.importers.database import MAGIC
from sessiond.importers.droid import Droid
from sessiond.importers.gemini_cli import GeminiCli
from sessiond.importers.gemini_takeout import GeminiTakeout
from sessiond.importers.goose import Goose
from sessiond.importers.gptel import Gptel
from sessiond.importers.kept_google import is_output
from sessiond.importers.kept_output import fingerprint_beside, transcript_of
from sessiond.importers.kiro import Kiro
from sessiond.importers.librechat import LibreChat
from sessiond.importers.lines import LINE_SUFFIXES, short_lines
from sessiond.importers.llm import Llm
from sessiond.importers.lm_studio import LmStudio
from sessiond.importers.messages import Messages
from sessiond.importers.open_webui import OpenWebUi
from sessiond.importers.opencode import OpenCode
from sessiond.importers.openhands import OpenHands
from sessiond.importers.pi import Pi
from sessiond.importers.qwen import Qwen
from sessiond.importers.record import Event, Importer, Opener, SkippedLine, open_source
from sessiond.importers.roo import KiloCode, RooCode
from sessiond.importers.specstory import SpecStory
from sessiond.importers.tool import Tool, Verified
from sessiond.importers.vibe import Vibe
from sessiond.importers.warp import Warp
from sessiond.importers.windsurf import Windsurf
from sessiond.importers.zed import Zed
from sessiond.misfits import Misfits

HEAD_BYTES = 64 * 1024
_CERTAIN = 80
"""From this score on, a file belongs to its tool, even if the user named another one."""
MAX_FILES = 200_000
MAX_DEPTH = 32
_SUFFIXES = (
    ".jsonl",
    ".ndjson",
    ".json",
    ".md",
    ".markdown",
    ".org",
    ".txt",
    ".db",
    ".sqlite",
    ".sqlite3",
    ".vscdb",
    ".zip",
)
_PACKED = ".zst"
"""Codex packs old rollouts as `.jsonl.zst`."""
_ENDINGS = (".jsonl", ".json", ".md", ".db")
"""A file that was named needs none of its own."""
PASSED_OVER = frozenset({"node_modules", ".git", ".hg", ".svn", "__pycache__", ".venv", ".sessiond"})

NATIVE = "jsonl"
_NATIVE_HEAD = b'{"sessiond":'

IMPORTERS: tuple[Importer, ...] = (
    ClaudeCode(),
    Codex(),
    Pi(),
    Aider(),
    Cline(),
    GeminiCli(),
    Qwen(),
    Continue(),
    Gptel(),
    Llm(),
    Goose(),
    OpenCode(),
    Crush(),
    ChatGpt(),
    RooCode(),
    KiloCode(),
    ClaudeAi(),
    CopilotChat(),
    CopilotCli(),
    Vibe(),
    OpenHands(),
    Cursor(),
    Zed(),
    OpenWebUi(),
    LibreChat(),
    Amp(),
    Droid(),
    SpecStory(),
    AgentShell(),
    CodeCompanion(),
    Avante(),
    Kiro(),
    LmStudio(),
    GeminiTakeout(),
    Windsurf(),
    Warp(),
    CursorAgent(),
    Acpx(),
    Messages(),
)
ZIPPED = ("chatgpt", "claude-ai", "gemini-takeout", "librechat", "open-webui")
"""Those of which people get exports, as ZIP files."""
_ZIPS = (b"PK\x03\x04", b"PK\x05\x06")
BY_NAME: dict[str, Importer] = {importer.name: importer for importer in IMPORTERS}
_failed = Misfits(logging.getLogger(__name__), "failed")
"""Importers that could not look at a file or for their places."""


class LookFault(Exception):
    """No importer recognised the file, and one of them failed. The text says which."""


class Found(msgspec.Struct, frozen=True):
    """A file that an importer can read, or `NATIVE`: a session in sessiond's own format or its JSON export, which the
    service reads itself. `size` in bytes. `sure`: the importer recognised the file; otherwise the user only named the
    importer.
    """

    importer: str
    path: str
    size: int
    sure: bool = True


class FoundPlace(msgspec.Struct, frozen=True):
    """A place on this machine where a tool keeps its sessions; the path exists."""

    tool: str
    path: str


def recognise(path: str) -> Importer | None:
    """The importer that a file belongs to, by its content. Raises OSError if the file cannot be read."""
    return _surest(_scores(path))


def _surest(scores: dict[str, int]) -> Importer | None:
    # Of equal scores, the first in the order of IMPORTERS.
    return BY_NAME[max(scores, key=lambda name: scores[name])] if scores else None


def _scores(path: str, endings: tuple[str, ...] = ("",)) -> dict[str, int]:
    """The scores of the importers that recognise the file, if its name had one of these endings. OSError, LookFault."""
    if not os.path.isfile(path):
        return {}
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(ZSTD):
        with utf8(path, open_source) as unpacked:
            head = unpacked.read(HEAD_BYTES)
    head = head.removeprefix(codecs.BOM_UTF8)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        head = head.decode("utf-16", "ignore").encode()
    if not head:
        return {}
    scores = _scored_as(path, head, endings)
    if not scores and head.startswith(MAGIC) and (log := _log_head(path)):
        # A log has chats as well, which may have the words of another tool's schema. It only counts for a new database.
        scores = _scored_as(path, head + log, endings)
    return scores


def _scored_as(path: str, head: bytes, endings: tuple[str, ...]) -> dict[str, int]:
    """The scores under the first ending with which any importer recognises the file."""
    for ending in endings:
        name = path.removesuffix(_PACKED) + ending
        scores = _scored(name, head)
        if not scores and name.endswith(LINE_SUFFIXES) and len(head) >= HEAD_BYTES // 2:
            scores = _scored(name, short_lines(path, open_source, HEAD_BYTES))
        if scores:
            return scores
    return {}


def _log_head(path: str) -> bytes:
    """The beginning of a database's write-ahead log: a new database has its schema nowhere else."""
    try:
        with open(path + "-wal", "rb") as log:
            return log.read(HEAD_BYTES)
    except FileNotFoundError:
        return b""


def _scored(path: str, head: bytes) -> dict[str, int]:
    found: dict[str, int] = {}
    fault = ""
    for importer in IMPORTERS:
        try:
            found[importer.name] = importer.recognise(path, head)
        except OSError:
            raise
        except Exception as error:  # a bug of ours, with what somebody wrote: the other importers look as well
            _failed.note(f"importer {importer.name}", error)
            fault = f"the importer {importer.name} failed on it: {error!r}"
    scores = {name: score for name, score in found.items() if score > 0}
    if fault and not scores:
        raise LookFault(fault)
    return scores


_BESIDE = {"base_state.json": "events", "0.json": ".", "meta.json": "journal"}
"""Sources of many files, of which only the first is imported: the folder of the others, relative to it."""
_LOGS = "journal"
"""Such a folder whose files grow, where a folder's own time says nothing of it."""


def source_of(path: str) -> str:
    """The file to import when `path` was written: itself, or the first file of the source that it is part of. Blocks."""
    folder = os.path.dirname(path)
    for first, others in _BESIDE.items():
        if others == ".":
            source = os.path.join(folder, first)
        elif os.path.basename(folder) == others:
            source = os.path.join(os.path.dirname(folder), first)
        else:
            continue
        if os.path.isfile(source):
            return source
    transcript = transcript_of(path)
    return transcript if transcript is not None and os.path.isfile(transcript) else path


def fingerprint(path: str) -> str:
    """Changes whenever the file does: its size and modification time, and those of a log or of other files next to it.
    Raises OSError.
    """
    stat = os.stat(path)
    marks = [f"{stat.st_size}-{stat.st_mtime_ns}"]
    folder, name = os.path.split(path)
    beside = [os.path.join(folder, _BESIDE[name])] if name in _BESIDE else []
    if beside and _BESIDE[name] == _LOGS and os.path.isdir(beside[0]):
        beside += sorted(one.path for one in os.scandir(beside[0]))
    for other in (path + "-wal", *beside):
        try:
            stat = os.stat(other)
        except OSError:
            continue
        marks.append(f"{stat.st_size}-{stat.st_mtime_ns}")
    if outputs := fingerprint_beside(path):
        marks.append(outputs)
    return "+".join(marks)


def walk(path: str, format: str | None = None) -> Iterator[Found | SkippedLine]:  # the wire's word
    """Yield what can be imported at `path`, a file or a folder, in the order of names.

    Links to folders are followed once, so that a loop ends. A file that no importer knows is skipped in a folder, but is a
    SkippedLine if it was named itself. `format` names the only importer to ask.
    """
    named = not os.path.isdir(path)
    for file in candidates(path):
        if isinstance(file, SkippedLine):
            yield file
        elif found := identify(file, format, named=named):
            yield found


def candidates(path: str) -> Iterator[str | SkippedLine]:
    """The file itself, or the files in a folder that, by name, may belong to a tool. Opens none of them."""
    if not os.path.isdir(path):
        yield path
        return
    for seen, file in enumerate(_files(path, set(), 0)):
        if seen >= MAX_FILES and isinstance(file, str):
            yield SkippedLine(path, None, f"more than {MAX_FILES} files; the rest were not looked at")
            return
        yield file


def may_be_known(name: str) -> bool:
    """Return whether a file with this name, found in a folder, is worth a look."""
    return name.lower().removesuffix(_PACKED).endswith(_SUFFIXES)


def _files(folder: str, visited: set[tuple[int, int]], depth: int) -> Iterator[str | SkippedLine]:
    try:
        stat = os.stat(folder)
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return  # it went while we looked
    except OSError as error:
        yield SkippedLine(folder, None, f"cannot be listed: {error.strerror or error}", failed=True)
        return
    if (stat.st_dev, stat.st_ino) in visited or depth > MAX_DEPTH:
        return
    visited.add((stat.st_dev, stat.st_ino))
    for entry in entries:
        try:
            if entry.is_dir():
                if entry.name not in PASSED_OVER:
                    yield from _files(entry.path, visited, depth + 1)
            elif entry.is_file() and may_be_known(entry.name):
                yield entry.path
        except OSError:
            continue


def identify(path: str, format: str | None, *, named: bool) -> Found | SkippedLine | None:
    """Find the importer that the file belongs to. If none: None, or a SkippedLine if the file was `named`, not found in a folder."""
    try:
        if not os.path.isfile(path):
            # A pipe, a device, or nothing at all: opening it might block for ever.
            return SkippedLine(path, None, "not a regular file" if os.path.exists(path) else "no such file")
        if format in (None, NATIVE) and _is_native(path):
            return Found(NATIVE, path, os.path.getsize(path))
        if not named and (is_output(path) or source_of(path) == transcript_of(path)):
            return None  # an output of a tool's, whatever it looks like
        if _is_zip(path):
            return _in_zip(path, format, named=named)
        scores = _scores(path)
        # Under another ending, a record of JSON Lines that is being written would pass for a document.
        if named and not scores and not path.removesuffix(_PACKED).endswith(LINE_SUFFIXES):
            scores = _scores(path, _ENDINGS)
        size = os.path.getsize(path)
    except OSError as error:
        return SkippedLine(path, None, f"cannot be read: {error.strerror or error}", failed=True)
    except LookFault as error:
        return SkippedLine(path, None, str(error), failed=True)
    surest = _surest(scores)
    if surest is not None and scores[surest.name] < _CERTAIN and (tool := _whose_part(path)):
        return SkippedLine(path, None, f"only a part of what {tool} wrote") if named else None
    if format is not None and named:
        if surest is not None and format not in scores and scores[surest.name] >= _CERTAIN:
            return SkippedLine(path, None, f"is a {surest.name} file, not a {format} file")
        return Found(format, path, size, sure=format in scores)
    # In a folder of mixed files, a named format takes only its own.
    if surest is not None and format in (None, surest.name):
        return Found(surest.name, path, size)
    return SkippedLine(path, None, "not a file of any known tool") if named else None


def _is_zip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) in _ZIPS


def _in_zip(path: str, format: str | None, *, named: bool) -> Found | SkippedLine | None:
    """The same for a ZIP file: whose export is in it. Raises OSError."""
    from sessiond.importers import zipped  # few imports are of one

    tools = [name for name in ZIPPED if format in (None, name)]
    try:
        inside = zipped.look(path, [BY_NAME[name] for name in tools])
    except zipped.ArchiveRefused as error:
        return SkippedLine(path, None, str(error)) if named else None
    if inside is not None:
        return Found(inside.tool, path, inside.size)
    whose = format if format in ZIPPED else "any known tool"
    reason = f"a ZIP file without an export of {whose}; unpack it, and import the folder"
    return SkippedLine(path, None, reason) if named else None


def read(importer: str, path: str, open_: Opener) -> Iterator[Event]:
    """Read a file, or an export's ZIP file, with the importer. Raises OSError."""
    if importer in ZIPPED and os.path.isfile(path) and _is_zip(path):
        from sessiond.importers import zipped

        return zipped.read(BY_NAME[importer], path, open_)
    return BY_NAME[importer].read(path, open_)


def _whose_part(path: str) -> str | None:
    """The tool that the file belongs to as a part of a source. Another file is the one to import."""
    return next((one.name for one in IMPORTERS if isinstance(one, Tool) and one.is_part(path)), None)


def _is_native(path: str) -> bool:
    with open(path, "rb") as file:
        head = file.read(exported.HEAD_BYTES)
    if head.startswith(_NATIVE_HEAD) or exported.is_export(head):
        return True
    # A damaged line costs only itself, even if it is the first.
    return path.endswith(LINE_SUFFIXES) and any(line.startswith(_NATIVE_HEAD) for line in head.split(b"\n"))


def verified(name: str) -> Verified:
    """Return how an importer was verified."""
    importer = BY_NAME[name]
    return importer.verified if isinstance(importer, Tool) else places.VERIFIED[name]


def known_places(home: str, env: Mapping[str, str]) -> list[FoundPlace]:
    """The places that exist, each once, in the order of `IMPORTERS`. Tools that keep their files in projects have no place
    here.
    """
    found: list[FoundPlace] = []
    for importer in IMPORTERS:
        with _failed.apart(f"importer {importer.name}"):
            for path in _candidates(importer, home, env):
                place = FoundPlace(importer.name, path)
                if os.path.exists(path) and place not in found:
                    found.append(place)
    return found


def _candidates(importer: Importer, home: str, env: Mapping[str, str]) -> list[str]:
    if isinstance(importer, Tool):
        return importer.places(home, env)
    older = places.PLACES.get(importer.name)
    return older(home, env) if older else []
