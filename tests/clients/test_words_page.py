"""The words that the page shows are those that were said: all of each message, once, in order. In the real Chromium."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from sessiond.exporters.turns import MARKS
from tests.clients.browsers import Web, browser, until, web
from tests.clients.said import Words, called, letters, said
from tests.home import Client
from tests.importers.collected import CORPUS

__all__ = ["browser", "web"]
pytestmark = pytest.mark.timeout(600)

SHOWN = """() => {
  for (const fold of document.querySelectorAll('.message details')) fold.open = true
  return [...document.querySelectorAll('.message')].map((article) => {
    const body = article.querySelector('.body').cloneNode(true)
    for (const result of body.querySelectorAll('.message')) result.remove()
    const calls = [...body.querySelectorAll('.call > summary')].map((one) => one.textContent)
    for (const label of body.querySelectorAll('summary, button')) label.remove()
    return [Number(article.dataset.seq), body.textContent, calls]
  })
}"""
"""The seq, the text and the lines of the calls of each message in the document. Labels of folds and buttons are not words of it,
and a result that stands in its call is a message of its own."""


def differences(page: Page, messages: dict[int, dict[str, Any]]) -> Iterator[str]:
    """What the page shows otherwise than it was said. Messages that it shows are taken out of `messages`, by their seq."""
    page.evaluate(SHOWN)  # the end of a long text is drawn when it is unfolded
    shown = page.evaluate(SHOWN)
    for seq, times in Counter(seq for seq, *_ in shown).items():
        if times > 1:
            yield f"#{seq} is shown {times} times"
    for seq, text, lines in shown:
        message = messages.pop(seq, None)
        if message is None:
            continue
        if letters(text) != said(message):
            yield f"#{seq} {message['role']}\n  said  {said(message)[:300]}\n  shown {letters(text)[:300]}"
        names = called(message)
        if len(names) != len(lines) or not all(line.startswith(name) for name, line in zip(names, lines, strict=True)):
            yield f"#{seq} calls\n  said  {names}\n  shown {lines}"


def told(client: Client, session_id: str) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    more = True
    while more:
        read = client.call("session/read", sessionId=session_id, since=max(found, default=0), limit=500)
        found |= {message["seq"]: message for message in read["messages"]}
        more = read["hasMore"]
    return found


def wrong(web: Web, page: Page, session_id: str) -> list[str]:
    messages = told(web.client(), session_id)
    found: list[str] = []
    while messages:
        first = min(messages)
        web.show(page, session_id, first)
        until(page, "seq => document.querySelector(`.message[data-seq='${seq}']`) !== null", first)
        found += differences(page, messages)
        assert first not in messages
    return [f"{session_id} {one}" for one in found]


def test_what_was_said_is_shown(web: Web) -> None:
    """Every kind of block, call, result, mark and status, and notes and state beside them."""
    client, sessions = web.client(), Words(35).sessions()
    for session_id, messages in sessions.items():
        client.call("session/new", sessionId=session_id)
        client.call("session/append", sessionId=session_id, messages=messages)
    client.call("note/append", sessionId="marks", heading="Remember", content="note1 note2\nnote3")
    client.call("state/set", sessionId="marks", values={"plan": {"steps": ["state1"]}})
    page = web.open()
    found = [one for session_id in sessions for one in wrong(web, page, session_id)]
    assert not found, "\n".join(found)
    web.show(page, "marks")
    page.click(".aside summary")
    beside = page.locator(".aside .inside")
    expect(beside).to_contain_text("state1")
    assert letters(beside.text_content() or "") == letters("Remember note1 note2 note3 plan steps state1")


def test_marks_are_those_of_exports(web: Web) -> None:
    """And what a subagent is asked is not the reader's, and a code block is copied."""
    client = web.client()
    client.call("session/new", sessionId="s", parent={"sessionId": "agent", "seq": None}, metadata={"sidechain": True})
    messages = [{"role": "user", "content": "x", "metadata": {mark: True}} for mark, _ in MARKS]
    messages.append({"role": "tool", "content": "```\nx\n```", "metadata": {"isError": True}})
    messages.append({"role": "assistant", "content": "```\nthe code\n```"})
    client.call("session/append", sessionId="s", messages=messages)
    page = web.open(web.context(permissions=["clipboard-read", "clipboard-write"]))
    web.show(page, "s")
    expect(page.locator(".message .mark")).to_have_text([*(words for _, words in MARKS), "failed"])
    expect(page.locator(".role-user .role").first).to_have_text("Prompt to a subagent")
    expect(page.locator(".session .facts")).to_contain_text("subagent of agent")
    page.get_by_role("button", name="Copy this code").click()
    expect(page.locator("#notice")).to_contain_text("the code is on the clipboard")
    assert page.evaluate("navigator.clipboard.readText()") == "the code\n"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
@pytest.mark.parametrize("tool", ["cline", "claude-code", "codex", "pi", "aider"])
def test_what_was_said_in_real_sessions_is_shown(web: Web, tool: str) -> None:
    client = web.client()
    imported = client.call("session/import", path=str(CORPUS / tool))["sessions"]
    assert imported
    page = web.open()
    found = [line for one in imported for line in wrong(web, page, one["sessionId"])]
    assert not found, "\n".join(found)


def test_results_are_inside_their_calls(web: Web) -> None:
    """Calls that follow each other are lines of one group; each has its result inside, a failure marked at its line.

    A result has its own address; a message that is drawn again keeps the results of its calls, and one that goes leaves them.
    """

    def call(name: str) -> dict[str, Any]:
        return {"id": f"c-{name}", "name": name, "arguments": {"path": f"{name}.py"}}

    def result(name: str, **fields: Any) -> dict[str, Any]:
        return {"role": "tool", "content": f"out of {name}\n" * 3, "toolCallId": f"c-{name}", **fields}

    client = web.client()
    client.call("session/new", sessionId="s")
    messages = [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": "", "toolCalls": [call("read")]},
        result("read"),
        {"role": "assistant", "content": "", "toolCalls": [call("edit"), call("run")]},
        result("run", metadata={"isError": True}),
        result("edit"),
        result("unknown"),
        {"role": "assistant", "content": "done"},
    ]
    client.call("session/append", sessionId="s", messages=messages)
    page = web.open()
    web.show(page, "s")
    expect(page.locator(".message[data-seq='8']")).to_be_visible()
    lines = page.locator(".messages summary:visible")
    expect(lines).to_have_text(
        ["read  read.py", "edit  edit.py", "run  run.py failed", "Result: out of unknown out of unknown out of unknown"]
    )
    heights = [box["height"] for line in page.locator(".message.quiet:visible").all() if (box := line.bounding_box())]
    assert len(heights) == 3 and max(heights) < 110, heights
    for seq, name in ((3, "read"), (5, "run"), (6, "edit")):
        inside = page.locator(f"details[data-call='c-{name}'] .message[data-seq='{seq}']")
        expect(inside).to_be_hidden()
        web.show(page, "s", seq)
        expect(inside).to_contain_text(f"out of {name}")
        expect(inside).to_be_focused()
    growing = {"id": "m", "role": "assistant", "content": "", "status": "streaming", "toolCalls": [call("late")]}
    client.call("session/append", sessionId="s", messages=[growing])
    client.call("session/append", sessionId="s", messages=[result("late")])
    late = page.locator("details[data-call='c-late'] .message")
    expect(late).to_have_count(1)
    expect(page.locator(".message.streaming")).to_have_count(1)
    client.call("session/finish", sessionId="s", messageId="m")
    expect(page.locator(".message.streaming")).to_have_count(0)
    expect(late).to_have_count(1)
    client.call("session/truncate", sessionId="s", afterSeq=4)
    expect(page.locator(".message")).to_have_count(4)
    expect(page.locator("details[data-call='c-edit'] .message")).to_have_count(0)
    client.call("session/append", sessionId="s", messages=[result("edit")])
    expect(page.locator("details[data-call='c-edit'] .message")).to_have_count(1)
