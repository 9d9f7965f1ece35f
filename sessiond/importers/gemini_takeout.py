"""Gemini in Google Takeout: "My Activity" as JSON, an array of prompts with their answers, the newest first. It does not say
which prompts belong together, so a session is one day (UTC).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import groupby
from typing import Any

from sessiond.importers.alone import alone
from sessiond.importers.document import items
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import listed, mapped, rest_of
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_PROMPTED = re.compile(r"Prompted\s")
_USED = ("header", "title", "time", "safeHtmlItem", "products", "activityControls")
_BREAKS = {
    "p": "\n\n",
    "div": "\n",
    "br": "\n",
    "li": "\n- ",
    "tr": "\n",
    "pre": "\n",
    "h1": "\n\n",
    "h2": "\n\n",
    "h3": "\n\n",
}


class GeminiTakeout(Tool):
    name = "gemini-takeout"

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".json") or not head.lstrip().startswith(b"["):
            return 0
        is_activity = b'"header"' in head and b'"title"' in head and b'"products"' in head
        return 88 if is_activity and (b'"Gemini' in head or b'"Bard"' in head) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        found: list[tuple[str, int, JsonObject]] = []
        for item in items(path, open_, frozenset()):
            if isinstance(item, SkippedLine):
                yield item
                continue
            time = moment(item.value.get("time")) if isinstance(item.value, dict) else None
            if item.element and time:
                found.append((time, item.line, item.value))
            else:
                yield SkippedLine(path, item.line, "not an activity: it needs a time")
        # The newest activity is first in the file. The sort keeps the order of activities that have the same time.
        found.reverse()
        found.sort(key=lambda one: one[0])
        for day, activities in groupby(found, key=lambda one: one[0][:10]):
            yield from alone(path, f"the activities of {day}", _day(path, day, list(activities)))


def _day(path: str, day: str, activities: list[tuple[str, int, JsonObject]]) -> Iterator[Event]:
    draft = SessionDraft(GeminiTakeout.name, path, day)
    yield draft.start(name=f"Gemini, {day}", createdAt=activities[0][0])
    for time, line, activity in activities:
        yield from alone(path, "this activity", _activity(draft, time, line, activity), line)
    yield from draft.end()


def _activity(draft: SessionDraft, time: str, line: int, activity: JsonObject) -> Iterator[Event]:
    title = str(activity.get("title") or "")
    asked = _PROMPTED.match(title)
    answer = Turn("assistant")
    for part in listed(activity.get("safeHtmlItem")):
        html = mapped(part).get("html")
        answer.say(_text(html) if isinstance(html, str) else None)
        answer.metadata.setdefault("html", []).append(html if isinstance(html, str) else part)
    prompt = Turn("user" if asked or not answer.is_empty else "system", rest_of(activity, *_USED))
    if prompt.role == "system":
        prompt.metadata["injected"] = True
    prompt.say(title[asked.end() :] if asked else title)
    yield from prompt.events(draft, line=line, time=time)
    if answer.metadata:
        yield from answer.events(draft, line=line, time=time)


def _text(html: str) -> str:
    """The text of a piece of HTML, with its paragraphs and lists."""
    reader = _TextReader()
    reader.feed(html)
    reader.close()
    return re.sub(r"\n{3,}", "\n\n", "".join(reader.pieces)).strip()


class _TextReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._as_it_is = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.pieces.append(_BREAKS.get(tag, ""))
        self._as_it_is += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        self.pieces.append("\n" if tag in _BREAKS and tag != "br" else "")
        self._as_it_is -= tag == "pre" and self._as_it_is > 0

    def handle_data(self, data: str) -> None:
        self.pieces.append(data if self._as_it_is else re.sub(r"\s+", " ", data) if data.strip() else "")
