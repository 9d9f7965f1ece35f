"""An error of ours with one record or session of a source costs that one only, in every importer, and it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from older_sources import OLDER
from sources import FILES

from sessiond.importers import registry
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, MessageRecord, SessionEnd, SessionStart, SkippedLine, open_source

SOURCES = FILES | {name: (name, write) for name, write in OLDER.items()}
MOST_LOST = 4
"""Messages that one record of these sources has at most."""


class Planted:
    """The call of a draft's method with this number fails."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str) -> None:
        self.bad, self.calls = -1, 0
        real = getattr(SessionDraft, name)

        def planted(draft: SessionDraft, *args: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls - 1 == self.bad:
                raise KeyError("planted")
            return real(draft, *args, **named)

        patch.setattr(SessionDraft, name, planted)

    def read(self, tool: str, path: Path, bad: int = -1) -> list[Event]:
        self.bad, self.calls = bad, 0
        found = list(registry.BY_NAME[tool].read(str(path), open_source))
        begun: set[str] = set()
        for event in found:
            if isinstance(event, SessionStart):
                begun.add(event.source_id)
            elif isinstance(event, (MessageRecord, SessionEnd)):
                assert event.source_id in begun, "a session goes on that did not begin"
        return found


def said(events: list[Event], without: str = "") -> list[tuple[str, str, Any]]:
    messages = (one for one in events if isinstance(one, MessageRecord) and one.source_id != without)
    return [(one.source_id, one.message["role"], one.message["content"]) for one in messages]


def sessions(events: list[Event], kind: type[SessionStart] | type[SessionEnd]) -> list[str]:
    return [one.source_id for one in events if isinstance(one, kind)]


def told(events: list[Event]) -> str:
    [one] = [one for one in events if isinstance(one, SkippedLine) and one.failed]
    return one.reason


def each(planted: Planted, tool: str, path: Path) -> Iterator[tuple[list[Event], int]]:
    whole = planted.read(tool, path)
    assert planted.calls, "the table is out of date"
    for bad in range(planted.calls):
        yield whole, bad


@pytest.mark.parametrize("name", SOURCES)
def test_a_message_costs_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whichever it is: what comes before and after it is read, and its session to the end."""
    tool, write = SOURCES[name]
    path, planted = write(tmp_path), Planted(monkeypatch, "message")
    for whole, bad in each(planted, tool, path):
        found = planted.read(tool, path, bad)
        before, after = said(whole), said(found)
        lost = len(before) - len(after)
        assert lost <= MOST_LOST
        assert any(after == before[:at] + before[at + lost :] for at in range(len(after) + 1)), "more than one place"
        assert sessions(found, SessionEnd) == sessions(whole, SessionEnd)
        assert "planted" in told(found)


@pytest.mark.parametrize("name", SOURCES)
def test_a_session_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The other sessions of its source are read whole. Where a file is one session, the service tells of the file."""
    tool, write = SOURCES[name]
    path, planted = write(tmp_path), Planted(monkeypatch, "start")
    for whole, bad in each(planted, tool, path):
        began = sessions(whole, SessionStart)
        try:
            found = planted.read(tool, path, bad)
        except KeyError:
            assert len(began) == 1
            continue
        assert said(found, began[bad]) == said(whole, began[bad])
        assert set(sessions(found, SessionEnd)) >= set(began) - {began[bad]}
        assert "planted" in told(found)
