"""The storage service of a chat in the browser, in a program with its own origin: the immortality test and possible faults."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.clients.browsers import PATIENCE_MS, Elsewhere, Web, browser, say, until
from tests.clients.test_emacs import Emacs, ended
from tests.shell import ROOT, Shell

__all__ = ["browser"]
pytestmark = pytest.mark.timeout(300)

expect.set_options(timeout=PATIENCE_MS)

CHAT = """<!doctype html><meta charset="utf-8"><title>chat</title>
<ol id="chat"></ol><ol id="plan"></ol><p id="said"></p>
<script type="module">
import { Connection } from '/sessiond.js'
import { StorageService } from '/storage-service.js'

const options = JSON.parse(decodeURIComponent(location.hash.slice(1)))
const connection = new Connection({ ...options.connection, backoffMs: 20, maxBackoffMs: 200 })
window.events = []
const eventBus = { emit: (event) => { window.events.push(event.type); listeners.forEach((listener) => listener(event)) } }
const listeners = []
const list = (id, items) => document.getElementById(id).replaceChildren(...items.map((text) => Object.assign(document.createElement('li'), { textContent: text })))

// The chat's and the plan's panels know nothing of each other; each repaints by its own event.
listeners.push(({ type, payload }) => {
  if (type === 'AGENT_SESSION_RESTORED' || type === 'AGENT_SESSION_CHANGED') list('chat', payload.state.messages.map((one) => one.content))
  if (type === 'AGENT_PLAN_CREATED') list('plan', payload.plan.steps.map((one) => `${one.text}: ${one.status}`))
  if (type === 'STORAGE_PROBLEM') document.getElementById('said').textContent = `${payload.error.message}: ${payload.error.hint}`
})
window.storage = new StorageService({ connection, eventBus, ...options.storage })
window.connection = connection
connection.connect().catch(() => {})
window.state = { messages: [] }
window.turn = async (content, more = {}) => {
  state = { ...state, ...more, messages: [...state.messages, { role: 'user', content }] }
  await storage.saveState(state)
  list('chat', state.messages.map((one) => one.content))
}
window.loaded = (async () => {
  if (options.wait !== false) await connection.connect()
  const saved = await storage.loadState()
  if (saved !== null) state = saved
  return saved
})()
</script>"""

PLAN = {"steps": [{"text": "Create file secret.txt", "status": "pending"}]}


class Chat:
    """A daemon that lets a program of another origin in, and tabs of that program."""

    def __init__(self, path: Path, browser: Browser, store: str = "") -> None:
        self.elsewhere = Elsewhere({"/": CHAT})
        config = f'[daemon]\nallowed_origins = ["{self.elsewhere.origin}"]\n{store}'
        self.web = Web(path, browser, config)

    def tab(self, context: BrowserContext | None = None, *, wait: bool = True, **storage: Any) -> Page:
        page = self.web.tab(context)
        options = {
            "connection": {"url": self.web.url.replace("http", "ws"), "token": self.web.token},
            "storage": storage,
            "wait": wait,
        }
        page.goto(f"{self.elsewhere.origin}/#{json.dumps(options)}")
        until(page, "window.loaded !== undefined")
        page.evaluate("loaded")
        return page

    def restart(self) -> None:
        Web.__mro__[1].start(self.web)
        self.web.listen()

    def messages(self, session_id: str = "theia-agent") -> list[str]:
        return [
            one["content"]
            for one in self.web.client().call("session/read", sessionId=session_id, last=1000)["messages"]
        ]


@pytest.fixture
def chat(tmp_path: Path, browser: Browser) -> Iterator[Chat]:
    made = Chat(tmp_path, browser)
    with made.web:
        yield made
    made.elsewhere.close()


def turn(page: Page, text: str, **more: Any) -> None:
    page.evaluate("([text, more]) => turn(text, more)", [text, more])


def settled(page: Page) -> None:
    assert page.evaluate("storage.settled()")


def lines(page: Page, panel: str) -> list[str]:
    return page.locator(f"#{panel} li").all_text_contents()


def test_immortality(chat: Chat) -> None:
    """Say something, make a plan, hard refresh: chat and plan are back, each in its own panel, by one event."""
    page = chat.tab()
    assert page.evaluate("storage.hasSavedState()") is False
    assert page.evaluate("events") == []
    turn(page, "My secret code is 777.")
    turn(page, "Create file secret.txt", plan=PLAN, context={"view": "diff"}, unknown="not persisted")
    settled(page)
    page.reload()
    until(page, "window.loaded !== undefined")
    saved = page.evaluate("loaded")
    assert lines(page, "chat") == ["My secret code is 777.", "Create file secret.txt"]
    assert lines(page, "plan") == ["Create file secret.txt: pending"]
    assert page.evaluate("events") == ["AGENT_SESSION_RESTORED", "AGENT_PLAN_CREATED"]
    assert (saved["context"], "unknown" in saved) == ({"view": "diff"}, False)
    assert saved["savedAt"].startswith("20")
    assert page.evaluate("storage.hasSavedState()") is True
    turn(page, "And what was my code?")
    settled(page)
    assert chat.messages() == ["My secret code is 777.", "Create file secret.txt", "And what was my code?"]


def test_in_the_systems_own_format(tmp_path: Path, browser: Browser) -> None:
    """In a store of format `theia` the blob on disk is what the system itself would read."""
    folder = tmp_path / "states"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    made = Chat(tmp_path / "home", browser, f'[stores.theia]\npath = "{folder}"\nformat = "theia"\n')
    with made.web:
        page = made.tab(sessionId="pr-12", store="theia")
        turn(page, "hello", plan=PLAN)
        settled(page)
        made.web.client().call("session/save", sessionId="theia/pr-12")
        blob = json.loads((folder / "pr-12.json").read_text())
        assert [(one["role"], one["content"]) for one in blob["messages"]] == [("user", "hello")]
        assert blob["plan"] == PLAN
        page.reload()
        until(page, "window.loaded !== undefined")
        page.evaluate("loaded")
        assert lines(page, "chat") == ["hello"]
    made.elsewhere.close()


def test_many_sessions_side_by_side(chat: Chat) -> None:
    """Each id is a conversation of its own; clearing one leaves the others alone."""
    context = chat.web.context()
    one, two = chat.tab(context, sessionId="pr-1"), chat.tab(context, sessionId="pr-2")
    turn(one, "about one")
    turn(two, "about two", plan=PLAN)
    settled(one)
    settled(two)
    assert (chat.messages("pr-1"), chat.messages("pr-2")) == (["about one"], ["about two"])
    two.evaluate("storage.clearState()")
    settled(two)
    assert two.evaluate("storage.hasSavedState()") is False
    two.reload()
    until(two, "window.loaded !== undefined")
    assert two.evaluate("loaded") is None
    assert chat.messages("pr-1") == ["about one"]
    assert chat.web.client().call("state/get", sessionId="pr-2")["values"] == {}


def test_twelve_megabytes(chat: Chat) -> None:
    """A state of 12 MB, beyond any localStorage, survives a refresh and a kill of the daemon."""
    page = chat.tab()
    page.evaluate("turn('large', {context: {diff: 'äöü '.repeat(2000000)}, plan: {steps: []}})")
    settled(page)
    chat.web.kill()
    chat.restart()
    page.reload()
    until(page, "window.loaded !== undefined")
    assert page.evaluate("loaded.then(({context}) => [context.diff.length, context.diff.slice(-4)])") == [
        8_000_000,
        "äöü ",
    ]
    assert (
        len(chat.web.client().call("state/get", sessionId="theia-agent")["values"]["context"]["diff"].encode())
        == 14_000_000
    )


def test_while_the_daemon_is_away(chat: Chat) -> None:
    """What is saved meanwhile is kept over a refresh and sent when the daemon is back: in order, once."""
    context = chat.web.context()
    page = chat.tab(context)
    turn(page, "one")
    settled(page)
    chat.web.kill()
    until(page, "connection.state === 'waiting'")
    turn(page, "two", plan=PLAN)
    turn(page, "three", plan={"steps": [{"text": "later", "status": "done"}]})
    page.close()
    again = chat.tab(context, wait=False)
    assert lines(again, "chat") == ["one", "two", "three"]
    assert lines(again, "plan") == ["later: done"]
    turn(again, "four")
    chat.restart()
    until(again, "connection.state === 'open'")
    settled(again)
    assert chat.messages() == ["one", "two", "three", "four"]
    client = chat.web.client()
    assert client.call("state/get", sessionId="theia-agent")["values"]["plan"]["steps"][0]["text"] == "later"
    for _ in range(2):
        again.reload()
        until(again, "window.loaded !== undefined")
        again.evaluate("loaded")
        until(again, "connection.state === 'open'")  # which this page does not wait for
        settled(again)
    assert chat.messages() == ["one", "two", "three", "four"]


def test_an_answer_that_was_lost(chat: Chat) -> None:
    """A request whose answer never came is sent again and is there once."""
    page = chat.tab()
    page.evaluate("""() => {
      const send = WebSocket.prototype.send
      WebSocket.prototype.send = function (text) {
        send.call(this, text)
        if (text.includes('session/append')) { WebSocket.prototype.send = send; this.onmessage = null; setTimeout(() => this.close()) }
      }
    }""")
    turn(page, "said once")
    until(page, "connection.state === 'open'")
    until(page, "storage.settled()")
    assert chat.messages() == ["said once"]


def test_two_tabs(chat: Chat) -> None:
    """The other tab repaints what one tab saves, and continues from it."""
    context = chat.web.context()
    first, second = chat.tab(context), chat.tab(context)
    turn(first, "from the first")
    expect(second.locator("#chat li")).to_have_text(["from the first"])
    second.evaluate("storage.loadState().then((saved) => { state = saved })")
    turn(second, "from the second", plan=PLAN)
    expect(first.locator("#chat li")).to_have_text(["from the first", "from the second"])
    settled(second)
    assert chat.messages() == ["from the first", "from the second"]
    turn(first, "from one who has not listened")  # its list and its plan are older, and take nothing away
    settled(first)
    assert chat.messages() == ["from the first", "from the second", "from one who has not listened"]
    assert chat.web.client().call("state/get", sessionId="theia-agent")["values"] == {"plan": PLAN}


def test_two_tabs_and_an_emacs(browser: Browser, shell: Shell) -> None:
    """Two tabs of the page and an Emacs talk in one session; each shows all of it, once."""
    emacs = Emacs(shell, ROOT / "clients" / "emacs")
    with Web(shell.path, browser) as web:
        client = web.client()
        client.call("session/new", sessionId="s", name="Shared")
        context = web.context()
        tabs = [web.open(context), web.open(context)]
        for page in tabs:
            web.show(page, "s")
        running = emacs.start('(sessiond-live-exchange "s" "from Emacs" "from the second tab")')
        tabs[0].fill("#say", "from the first tab")
        tabs[0].keyboard.press("Control+Enter")
        for page in tabs:
            expect(page.locator(".message", has_text="from Emacs")).to_have_count(1)
        tabs[1].fill("#say", "from the second tab")
        tabs[1].keyboard.press("Control+Enter")
        out = ended(running)
        for text in ("from the first tab", "from Emacs", "from the second tab"):
            assert text in out
            for page in tabs:
                expect(page.locator(".message", has_text=text)).to_have_count(1)
        assert web.errors == []


OLD = {
    "messages": [{"role": "user", "content": "old words"}, {"role": "assistant", "content": "old answer"}],
    "plan": PLAN,
    "savedAt": "2026-01-10T00:00:00Z",
}


def with_old_data(chat: Chat, value: str | None = None) -> BrowserContext:
    context = chat.web.context()
    page = context.new_page()
    page.goto(chat.elsewhere.origin + "/sessiond.js")
    page.evaluate("text => localStorage.setItem('THEIA_AGENT_STATE_V1', text)", value or json.dumps(OLD))
    page.close()
    return context


def test_local_storage_is_taken_over_once(chat: Chat) -> None:
    """What earlier versions kept is there at the first start, also when two tabs start at once, and is taken once."""
    context = with_old_data(chat)
    first, second = chat.tab(context), chat.tab(context)
    assert lines(first, "chat") == ["old words", "old answer"]
    assert lines(first, "plan") == ["Create file secret.txt: pending"]
    settled(first)
    settled(second)
    assert first.evaluate("localStorage.getItem('THEIA_AGENT_STATE_V1')") is None
    turn(first, "new words")
    settled(first)
    for _ in range(2):
        first.reload()
        until(first, "window.loaded !== undefined")
        first.evaluate("loaded")
    assert chat.messages() == ["old words", "old answer", "new words"]


def test_local_storage_beside_another_conversation(chat: Chat) -> None:
    """Where the session holds something else already, the old data gets a separate session: nothing is mixed or lost."""
    client = chat.web.client()
    client.call("session/new", sessionId="theia-agent")
    say(client, "theia-agent", "another conversation")
    page = chat.tab(with_old_data(chat))
    settled(page)
    assert chat.messages() == ["another conversation"]
    [other] = [one for one in client.call("session/list")["sessions"] if one["sessionId"] != "theia-agent"]
    assert chat.messages(other["sessionId"]) == ["old words", "old answer"]


def test_local_storage_that_cannot_be_read(chat: Chat) -> None:
    """Broken data is said and left where it is."""
    page = chat.tab(with_old_data(chat, '{"messages": ['))
    expect(page.locator("#said")).to_contain_text("cannot be read")
    assert page.evaluate("localStorage.getItem('THEIA_AGENT_STATE_V1')") == '{"messages": ['
    assert page.evaluate("loaded") is None


def test_messages_taken_back(chat: Chat) -> None:
    """A program that shortens or changes its list of messages has that list in the session, and the trash has the other one."""
    page = chat.tab()
    for text in ("one", "two", "three"):
        turn(page, text)
    page.evaluate("state = {...state, messages: state.messages.slice(0, 2)}; storage.saveState(state)")
    turn(page, "instead")
    settled(page)
    assert chat.messages() == ["one", "two", "instead"]
    page.evaluate("state.messages[0] = {role: 'user', content: 'changed'}; storage.saveState(state)")
    settled(page)
    assert chat.messages() == ["changed", "two", "instead"]
    deleted = chat.web.client().call("session/list", filter={"deleted": True})["sessions"]
    assert len(deleted) == 2


def test_deleted_meanwhile(chat: Chat) -> None:
    """A deletion is reported; the next save creates the whole session again."""
    page = chat.tab()
    turn(page, "one")
    settled(page)
    chat.web.client().call("session/delete", sessionId="theia-agent")
    expect(page.locator("#said")).to_contain_text("deleted elsewhere")
    turn(page, "two")
    settled(page)
    assert chat.messages() == ["one", "two"]


def test_deleted_while_the_daemon_was_away(chat: Chat) -> None:
    """Messages waiting for a session that is gone by then are not lost: the session is created again with all of them."""
    page = chat.tab()
    turn(page, "one")
    settled(page)
    chat.web.kill()
    until(page, "connection.state === 'waiting'")
    turn(page, "two")
    Web.__mro__[1].start(chat.web)
    chat.web.client().call("session/delete", sessionId="theia-agent")
    chat.web.listen()
    until(page, "connection.state === 'open'")
    until(page, "storage.settled()")
    assert chat.messages() == ["one", "two"]


@pytest.mark.parametrize("what", ["clear", "shorten"])
def test_what_others_said_meanwhile_remains(chat: Chat, what: str) -> None:
    """What the program clears or takes back while the daemon is away is what it knew of."""
    page = chat.tab()
    for text in ("one", "two"):
        turn(page, text)
    settled(page)
    chat.web.kill()
    until(page, "connection.state === 'waiting'")
    if what == "clear":
        page.evaluate("storage.clearState()")
    else:
        page.evaluate("state = {...state, messages: state.messages.slice(0, 1)}; storage.saveState(state)")
    Web.__mro__[1].start(chat.web)
    said = [{"role": "user", "content": "said in an editor"}]
    chat.web.client().call("session/append", sessionId="theia-agent", messages=said)
    chat.web.listen()
    until(page, "connection.state === 'open'")
    until(page, "storage.settled()")
    assert chat.messages() == ([] if what == "clear" else ["one"]) + ["said in an editor"]


@pytest.mark.parametrize("newer", [True, False])
def test_of_two_values_the_newer_one_remains(chat: Chat, newer: bool) -> None:
    """While the daemon is away the program sets a value that somebody else sets before or after that."""
    page = chat.tab()
    turn(page, "one")
    settled(page)
    theirs = {"steps": [{"text": "theirs"}]}
    chat.web.kill()
    if not newer:
        Web.__mro__[1].start(chat.web)
        chat.web.client().call("state/set", sessionId="theia-agent", values={"plan": theirs})
        chat.web.kill()
    page.evaluate("state = {...state, plan: {steps: [{text: 'mine'}]}}; storage.saveState(state)")
    Web.__mro__[1].start(chat.web)
    if newer:
        chat.web.client().call("state/set", sessionId="theia-agent", values={"plan": theirs})
    chat.web.listen()
    until(page, "connection.state === 'open'")
    until(page, "storage.settled()")
    kept = chat.web.client().call("state/get", sessionId="theia-agent")["values"]["plan"]["steps"][0]["text"]
    assert kept == ("theirs" if newer else "mine")


def test_a_conversation_that_was_moved_goes_on_there(tmp_path: Path, browser: Browser) -> None:
    (tmp_path / "other").mkdir()
    chat = Chat(tmp_path, browser, f'[stores.other]\npath = "{tmp_path}/other"\nformat = "jsonl"\n')
    with chat.web:
        page = chat.tab()
        turn(page, "one")
        settled(page)
        chat.web.client().call("session/move", sessionId="theia-agent", store="other")
        expect(page.locator("#said")).to_contain_text("it is other/theia-agent now")
        turn(page, "two")
        settled(page)
        assert chat.messages("other/theia-agent") == ["one", "two"]
        chat.web.client().fails("session/read", sessionId="theia-agent")
    chat.elsewhere.close()


def test_the_browser_has_no_room(chat: Chat) -> None:
    """If IndexedDB is full that is reported, and saved changes are still sent."""
    context = chat.web.context()
    context.add_init_script(
        "const full = () => { throw new DOMException('full', 'QuotaExceededError') }; IDBObjectStore.prototype.add = full; IDBObjectStore.prototype.put = full"
    )
    page = chat.tab(context)
    chat.web.kill()
    until(page, "connection.state === 'waiting'")
    turn(page, "one")
    turn(page, "two")
    expect(page.locator("#said")).to_contain_text("no room")
    chat.restart()
    until(page, "connection.state === 'open'")
    until(page, "storage.settled()")
    assert chat.messages() == ["one", "two"]


def test_the_page_for_programs_runs_as_it_stands(chat: Chat) -> None:
    """The pieces of code in docs/editors/browser.md do what they say."""
    text = (ROOT / "docs" / "editors" / "browser.md").read_text()
    pieces = re.findall(r"^```js\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(pieces) == 2
    for piece in pieces:
        page = chat.web.tab()
        said: list[str] = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.goto(f"{chat.elsewhere.origin}/sessiond.js")
        ready = piece.replace("ws://127.0.0.1:8712", chat.web.url.replace("http", "ws")).replace(
            "TOKEN", json.dumps(chat.web.token)
        )
        ready = re.sub(
            r"^import (\{.*?\}) from '\./(.*?)'$", r"const \1 = await import('/\2')", ready, flags=re.MULTILINE
        )
        kept = "if (typeof storage !== 'undefined') await storage.settled()"
        page.evaluate(f"async () => {{ {ready}; await connection.connect(); {kept} }}")
        assert any(line in ("open undefined undefined", "AGENT_SESSION_RESTORED") for line in said), said
    assert chat.messages("pr-12") == ["My secret code is 777."]
    sessions = chat.web.client().call("session/list", filter={"name": "A plan"})["sessions"]
    assert chat.messages(sessions[0]["sessionId"]) == ["Hello"]
