"""Where messages are in a file: what an outline leads to and what folds."""

from __future__ import annotations

import pytest

from sessiond.formats import registry
from sessiond.formats.locations import places
from sessiond.model.message import Message

AMACS = """\
#+TITLE: agent chat

* Tick 1
:PROPERTIES:
:TIMESTAMP: 2026-01-11T14:30:22.000Z
:SESSIOND_HUMAN: {"id":"m1","seq":1}
:SESSIOND_AGENT: {"id":"m2","seq":2}
:END:

** Human
one
two

** Agent
three
*** below
four

* Ideas
a

* Tick 2
** Human
a
"""

JSONL = """\
{"sessiond":1,"id":"a","createdAt":"2026-01-11T14:30:22.000Z"}
{"id":"m1","seq":1,"role":"user","content":"a","timestamp":"2026-01-11T14:30:22.000Z"}
{"id":"m2","seq":2,"role":"user","content":"a","timestamp":"2026-01-11T14:30:23.000Z"}
"""

AGENT_Q = """\
;; Agent-Q Session
(:version 1 :id "session-1" :name nil :created-at (26979 46078) :messages
          ((:id "x-1" :role user :content "one
two" :timestamp (26979 46078))
           (:id "x-2" :role assistant :content "one" :timestamp (26979 46079))))
"""


@pytest.mark.parametrize(
    ("fmt", "local_id", "text", "wanted"),
    [
        ("amacs", "agent-chat", AMACS, [(9, 11), (13, 16), (22, 23)]),
        ("jsonl", "a", JSONL, [(1, 1), (2, 2)]),
        ("agent-q", "session-1", AGENT_Q, [(2, 3), (4, 4)]),
    ],
)
def test_lines_of_every_message(fmt: str, local_id: str, text: str, wanted: list[tuple[int, int]]) -> None:
    """From where a turn begins for whoever reads the file to its last line; nothing beyond the end."""
    found = registry.get(fmt)
    path = next(path for path in found.paths(local_id) if not path.startswith(".sessiond/"))
    decoded = found.decode(local_id, {path: text.encode()})
    assert decoded.fatal is None
    shown = places(text, decoded.session.messages())
    assert [(place.start_line, place.end_line) for place in shown] == wanted


def test_a_message_that_is_not_in_the_text_has_no_place() -> None:
    """Those around it have theirs."""
    messages = [
        Message(id=f"m{n}", seq=n, role="user", content=content, timestamp="2026-01-11T14:30:22.000Z")
        for n, content in enumerate(("first", "nowhere", "", "last"), 1)
    ]
    found = places("first\nmore\nlast\n", messages)
    assert [(one.message.id, one.start_line, one.end_line) for one in found] == [("m1", 0, 1), ("m4", 2, 2)]
