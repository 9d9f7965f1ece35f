"""Files in which one value has another type than the tool would write: an importer reports it, keeps it, or passes it over,
and raises nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import test_agent_shell_import as agent_shell
import test_amp_import as amp
import test_avante_import as avante
import test_claude_ai_import as claude_ai
import test_codecompanion_import as codecompanion
import test_copilot_chat_import as copilot_chat
import test_copilot_cli_import as copilot_cli
import test_cursor_import as cursor
import test_droid_import as droid
import test_gemini_takeout_import as gemini_takeout
import test_kiro_import as kiro
import test_librechat_import as librechat
import test_lm_studio_import as lm_studio
import test_open_webui_import as open_webui
import test_openhands_import as openhands
import test_roo_import as roo
import test_specstory_import as specstory
import test_vibe_import as vibe
import test_warp_import as warp
import test_windsurf_import as windsurf
import test_zed_import as zed
from collected import Stream, read

from sessiond.importers import registry
from sessiond.importers.record import open_source

ODD: tuple[Any, ...] = (None, 5, "odd", [5], {"odd": 1}, True, [], {}, -1.5, [None], [[]], [{}])
ALL = bool(os.environ.get("SESSIOND_ODD_VALUES"))
"""Try every odd value in every place, instead of one in each."""
Write = Callable[[Path], Path]


def at(write: Callable[..., Path], name: str) -> Write:
    """A writer that wants the file's path, not its folder."""
    return lambda folder: write(folder / name)


FILES: dict[str, tuple[str, Write]] = {
    "amp": ("amp", amp.thread),
    "avante": ("avante", avante.history),
    "avante entries": ("avante", lambda folder: avante.history(folder, messages=[], entries=avante.ENTRIES)),
    "claude-ai": ("claude-ai", claude_ai.export),
    "codecompanion": ("codecompanion", codecompanion.chat),
    "copilot-chat": ("copilot-chat", copilot_chat.session),
    "copilot-chat log": ("copilot-chat", copilot_chat.log),
    "copilot-cli": ("copilot-cli", copilot_cli.session),
    "cursor": ("cursor", at(cursor.state, "state.vscdb")),
    "droid": ("droid", droid.session),
    "gemini-takeout": ("gemini-takeout", gemini_takeout.takeout),
    "kiro": ("kiro", kiro.session),
    "kiro database": ("kiro", at(kiro.database, "data.sqlite3")),
    "librechat": ("librechat", at(librechat.export, "x.json")),
    "lm-studio": ("lm-studio", lm_studio.conversation),
    "open-webui": ("open-webui", at(open_webui.database, "webui.db")),
    "openhands": ("openhands", openhands.conversation),
    "roo": ("roo", roo.task),
    "vibe": ("vibe", vibe.session),
    "vibe store": ("vibe", vibe.store),
    "warp": ("warp", at(warp.database, "warp.sqlite")),
    "windsurf": ("windsurf", windsurf.transcript),
    "zed": ("zed", at(zed.threads, "threads.db")),
}
TEXTS: dict[str, Write] = {"agent-shell": agent_shell.transcript, "specstory": specstory.history}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield path
    for key, one in inside:
        yield from places(one, (*path, key))


def with_odd(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_odd(value[path[0]], path[1:], odd)
    return copy


def variants(text: str) -> Iterator[str]:
    """A JSON document with one odd value, in each place. Not JSON: none."""
    with suppress(ValueError):
        value = json.loads(text)
        for nth, path in enumerate(places(value)):
            for odd in ODD if ALL else (ODD[nth % len(ODD)],):
                yield json.dumps(with_odd(value, path, odd))


def documents(file: Path) -> Iterator[None]:
    """Write a file again and again, each time with one odd value. At the end it is as it was."""
    whole = file.read_text()
    if file.suffix == ".jsonl":
        lines = whole.splitlines()
        for nth, line in enumerate(lines):
            for text in variants(line):
                file.write_text("\n".join([*lines[:nth], text, *lines[nth + 1 :]]) + "\n")
                yield
    else:
        for text in variants(whole):
            file.write_text(text)
            yield
    file.write_text(whole)


def rows(file: Path) -> Iterator[None]:
    """The same for the JSON in a database."""
    with closing(sqlite3.connect(file)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            cursor = db.execute(f"SELECT rowid, * FROM {table}")  # the test's own tables
            columns = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                for column, value in zip(columns[1:], row[1:], strict=True):
                    text = value.decode("utf-8", "ignore") if isinstance(value, bytes) else value
                    for other in variants(text) if isinstance(text, str) and text[:1] in "[{" else ():
                        put = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                        db.execute(put, (other, row[0]))
                        db.commit()
                        yield
                        db.execute(put, (value, row[0]))
                        db.commit()


@pytest.mark.parametrize("name", FILES)
def test_an_odd_value_raises_nothing(tmp_path: Path, name: str) -> None:
    """In any file of the source, wherever it is; what comes out can be stored."""
    tool, write = FILES[name]
    path = write(tmp_path)
    expected = len(read(path).messages)
    tried = 0
    for file in sorted(one for one in tmp_path.rglob("*") if one.is_file()):
        for _ in rows(file) if file.read_bytes().startswith(b"SQLite") else documents(file):
            Stream(registry.BY_NAME[tool].read(str(path), open_source))
            tried += 1
    assert tried > 10
    assert len(read(path).messages) == expected


@pytest.mark.parametrize("tool", TEXTS)
def test_a_text_that_is_cut_anywhere_raises_nothing(tmp_path: Path, tool: str) -> None:
    """Each beginning of a text is a session."""
    path = TEXTS[tool](tmp_path)
    whole = path.read_text()
    for end in range(30, len(whole), 1 if ALL else 7):
        path.write_text(whole[:end])
        assert len(Stream(registry.BY_NAME[tool].read(str(path), open_source)).starts) == 1
