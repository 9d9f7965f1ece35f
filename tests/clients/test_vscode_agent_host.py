"""The real VS Code, without an extension, with our daemon as its agent host."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent_host.window import Host, by_command
from tests.clients import vscodes
from tests.daemon.test_follow import ON, add, claude, turn
from tests.shell import Shell, wait_until
from tests.suite.explore import seeds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(vscodes.RUN_S + 60)]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder that the window has open."""
    vscodes.installed()
    made = tmp_path / "my work"
    made.mkdir()
    return made


@pytest.fixture
def at(shell: Shell) -> Shell:
    return shell


def append(client: Any, *messages: dict[str, Any]) -> None:
    client.call("session/append", {"sessionId": "locks", "messages": list(messages)})


def shows(page: Any, text: str) -> None:
    """Blanks may be no-break spaces."""
    page.wait_for_function(
        "text => document.querySelector('.monaco-workbench').innerText.replaceAll('\\u00a0', ' ').includes(text)",
        arg=text,
        timeout=40_000,
    )


def hides(page: Any, text: str) -> None:
    page.wait_for_function(
        "text => !document.querySelector('.monaco-workbench').innerText.includes(text)", arg=text, timeout=40_000
    )


def rests(page: Any) -> None:
    """Nothing is shown as going on. What was announced to screen readers stays in the page, and is not looked at."""
    page.wait_for_function(
        """() => !document.querySelector(".agent-sessions-viewer").innerText.includes("Working")
            && [...document.querySelectorAll(".interactive-input-part .codicon-stop-circle")].every(one => !one.offsetParent)""",
        timeout=40_000,
    )


def seed_locks(at: Shell, work: Path) -> None:
    """A session of the folder, in which somebody asked and was answered."""
    with at.client() as client:
        client.call("session/new", {"sessionId": "locks", "name": "Order of locks", "cwd": str(work)})
        append(client, {"role": "user", "content": "Which lock is first?"}, {"role": "assistant", "content": "Ours."})


def open_locks(page: Any, name: str = "Order of locks") -> None:
    page.locator(".agent-sessions-viewer .monaco-list-row", has_text=name).first.click()
    page.mouse.move(400, 400)  # while it is over a row, the list stays as it is
    shows(page, "Ours.")


def test_every_window_shows_every_session(at: Shell, work: Path) -> None:
    """Listed, opened, live, killed in the middle of a turn, and whole again after a turn that came and went meanwhile."""
    with at.client() as client:
        client.call("session/new", {"sessionId": "locks", "name": "Order of locks", "cwd": str(work)})
        client.call("session/new", {"sessionId": "elsewhere", "name": "Somewhere else", "cwd": "/elsewhere"})
        append(
            client,
            {"role": "user", "content": "Which lock is first?"},
            {"role": "assistant", "content": "The **journal's**."},
        )
    host, listening = by_command(at)
    with vscodes.agents(at, work, host.port, host.token) as page:
        shows(page, "Order of locks")
        assert "Somewhere else" not in page.inner_text(".monaco-workbench")
        page.locator(".agent-sessions-viewer .monaco-list-row", has_text="Order of locks").first.click()
        page.mouse.move(400, 400)  # while it is over a row, the list stays as it is
        shows(page, "The journal's.")
        shows(page, "read-only")
        with at.client(start=False) as client:
            append(client, {"role": "user", "content": "And then?"})
            shows(page, "And then?")
            append(client, {"id": "r", "role": "assistant", "content": "Then the ", "status": "streaming"})
            shows(page, "Then the")
            client.call("session/extend", {"sessionId": "locks", "messageId": "r", "text": "session's."})
            shows(page, "Then the session's.")
            client.call("session/finish", {"sessionId": "locks", "messageId": "r"})
            append(
                client,
                {"role": "user", "content": "Is it long?"},
                {"id": "h", "role": "assistant", "content": "Half of", "status": "streaming"},
            )
            shows(page, "Half of")
        os.kill(at.pid(), signal.SIGKILL)
        listening.wait(20)
        with at.client() as client:
            append(
                client,
                {"role": "user", "content": "Said while it was away"},
                {"role": "assistant", "content": "Answered while it was away."},
            )
        by_command(at, port=host.port)
        shows(page, "Answered while it was away.")
        with at.client(start=False) as client:
            append(client, {"role": "user", "content": "Live again?"}, {"role": "assistant", "content": "Yes, live."})
            client.call("session/new", {"sessionId": "new", "name": "Made just now", "cwd": str(work)})
            shows(page, "Yes, live.")
            shows(page, "Made just now")
            client.call("session/update", {"sessionId": "new", "name": "Named by another"})
            shows(page, "Named by another")
        rests(page)


def test_a_followed_tool_is_live_in_a_window(at: Shell, work: Path) -> None:
    """Claude Code writes its own file: the session appears in the list, and what is said moves in the open one."""
    at.env["HOME"] = str(at.path)
    file = claude(at.path, "s1")
    at.write_config(ON)

    def says_in_it(number: int, text: str) -> None:
        add(file, turn(number, "s1", text).replace('"cwd": "/w"', f'"cwd": {json.dumps(str(work))}'))

    host, _ = by_command(at)
    with vscodes.agents(at, work, host.port, host.token) as page:
        says_in_it(1, "Which lock is first?")
        shows(page, "Which lock is first?")
        page.locator(".agent-sessions-viewer .monaco-list-row", has_text="Which lock is first?").first.click()
        page.mouse.move(400, 400)
        for number, text in enumerate(("The journal's.", "And then?", "The session's."), 2):
            says_in_it(number, text)
            shows(page, text)
        rests(page)


def says(page: Any, text: str) -> None:
    page.click(".interactive-input-part .monaco-editor")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def kept(client: Any) -> list[tuple[str, Any]]:
    messages = client.call("session/read", {"sessionId": "locks"})["messages"]
    return [(one["role"], one["content"]) for one in messages]


@contextmanager
def answered_by_a_terminal(at: Shell, command: str) -> Iterator[None]:
    with at.client() as client:
        attached = client.call("session/open", {"sessionId": "locks"})["session"]["attached"]
        terminal = at.start("repl", "--agent", command, "--session-id", "locks")
        wait_until(lambda: client.call("session/open", {"sessionId": "locks"})["session"]["attached"] > attached)
        yield
    terminal.communicate(timeout=20)


def test_what_is_typed_in_a_window_is_answered_by_a_terminal(at: Shell, work: Path) -> None:
    """First nobody is there, which is said; then the terminal client with its command is."""
    seed_locks(at, work)
    host, _ = by_command(at, "--write")
    with vscodes.agents(at, work, host.port, host.token) as page, at.client() as client:
        open_locks(page)
        says(page, "And then?")
        shows(page, "Nobody is here who answers")
        assert kept(client)[2:] == [("user", "And then?")]
        with answered_by_a_terminal(at, "echo That of the session."):
            says(page, "Really?")
            shows(page, "That of the session.")
            assert kept(client)[3:] == [("user", "Really?"), ("assistant", "That of the session.")]


def choose(page: Any, title: str, item: str) -> None:
    """From the menu of a session's row."""
    page.locator(".agent-sessions-viewer .monaco-list-row", has_text=title).first.click(button="right")
    page.wait_for_timeout(800)  # the menu opens, and takes no click before it is there
    page.locator(".monaco-menu:visible .action-label", has_text=item).first.click(timeout=10_000)


def delete(page: Any, title: str) -> None:
    choose(page, title, "Delete")
    page.wait_for_selector(".monaco-dialog-box:visible", timeout=10_000)
    page.keyboard.press("Enter")
    page.mouse.move(400, 400)


def test_names_the_archive_and_the_trash(at: Shell, work: Path) -> None:
    """From the menu of a row."""
    with at.client() as client:
        for name in ("locks", "order", "waits"):
            client.call("session/new", {"sessionId": name, "name": f"About {name}", "cwd": str(work)})
            said = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "This."}]
            client.call("session/append", {"sessionId": name, "messages": said})
    host, _ = by_command(at, "--write")
    with vscodes.agents(at, work, host.port, host.token) as page, at.client() as client:

        def row(name: str) -> dict[str, Any]:
            listed = client.call("session/list", {"filter": {"archived": name == "order"}})["sessions"]
            found: dict[str, Any] = next((one for one in listed if one["sessionId"] == name), {})
            return found

        shows(page, "About locks")
        choose(page, "About locks", "Rename")
        page.wait_for_selector(".quick-input-widget input:visible", timeout=10_000)
        page.keyboard.press("Control+A")
        page.keyboard.type("Order of locks")
        page.keyboard.press("Enter")
        wait_until(lambda: row("locks").get("name") == "Order of locks")
        choose(page, "About order", "Mark as Done")
        wait_until(lambda: row("order").get("archived"))
        delete(page, "About waits")
        wait_until(lambda: not row("waits"))
        assert client.call("session/restore", {"sessionId": "waits"})["session"]["name"] == "About waits"
        shows(page, "About waits")


def test_a_new_session_of_a_window(at: Shell, work: Path) -> None:
    seed_locks(at, work)
    host, _ = by_command(at, "--write")
    with vscodes.agents(at, work, host.port, host.token) as page, at.client() as client:
        open_locks(page)
        page.locator(".auxiliarybar .action-label[aria-label^='New']:visible").first.click()
        hides(page, "Ours.")
        assert len(client.call("session/list")["sessions"]) == 1
        says(page, "Begin with the journal")
        wait_until(lambda: len(client.call("session/list")["sessions"]) == 2)
        made = client.call("session/list")["sessions"][0]
        assert (made["name"], made["cwd"]) == ("Begin with the journal", str(work))


def test_a_window_of_another_version_is_refused_and_named(tmp_path: Path, work: Path) -> None:
    """It shows an empty list and says nothing, so `sessiond status` does."""
    (tmp_path / "newer").mkdir()
    newer = "import sessiond.agent_host.shapes\nsessiond.agent_host.shapes.VERSIONS = ('2.0.0',)\n"
    (tmp_path / "newer" / "sitecustomize.py").write_text(newer)
    with closing(Shell(PYTHONPATH=str(tmp_path / "newer"))) as at:
        seed_locks(at, work)
        host, _ = by_command(at)
        with vscodes.agents(at, work, host.port, host.token) as page:
            wait_until(lambda: "the last one that was refused speaks only 0.9.0" in at("status").out)
            assert "Order of locks" not in page.inner_text(".monaco-workbench")


CHOICES = [{"id": "y", "label": "Allow it once", "kind": "allow"}, {"id": "n", "label": "Deny it", "kind": "deny"}]


def test_permission_is_given_in_a_window(at: Shell, work: Path) -> None:
    """What it closes stays open elsewhere, what is answered elsewhere closes in it, and a question may want words."""
    seed_locks(at, work)
    host, _ = by_command(at, "--write")
    with (
        vscodes.agents(at, work, host.port, host.token) as page,
        at.client() as client,
        at.client() as agent,
        ThreadPoolExecutor(1) as pool,
    ):

        def asked(text: str, **more: Any) -> Future[Any]:
            answer = pool.submit(agent.call, "session/ask", {"sessionId": "locks", "text": text, **more})
            shows(page, text)
            return answer

        open_locks(page)
        append(client, {"role": "user", "content": "Delete the build"})
        shows(page, "Delete the build")
        answer = asked("Run make clean?", waitingFor="permission", choices=CHOICES)
        page.get_by_text("Allow it once").first.click()
        assert answer.result(20) == {"client": "agent host", "choice": "y"}
        hides(page, "Deny it")
        answer = asked("Run make distclean?", waitingFor="permission", choices=CHOICES)
        shows(page, "Deny it")
        (waits,) = client.call("session/list", {"filter": {"activity": "waiting"}})["sessions"]
        question = waits["activity"]["question"]
        client.call("session/answer", {"sessionId": "locks", "questionId": question["id"], "choice": "n"})
        assert answer.result(20)["choice"] == "n"
        hides(page, "Deny it")
        answer = asked("Which port?")
        page.get_by_placeholder("Enter your answer").fill("8080")
        page.get_by_text("Submit", exact=True).click()
        assert answer.result(20) == {"client": "agent host", "text": "8080"}
        answer = asked("Run it at all?", choices=CHOICES)
        shows(page, "Deny it")
        page.locator(".chat-question-close:visible").click()
        hides(page, "Deny it")
        assert not answer.done()
        client.call("session/delete", {"sessionId": "locks"})
        assert answer.exception(20) is not None


class Script:
    """Random steps in two windows and around them. Whatever is said is said once, in words of its own.

    VS Code looks at one turn at a time: while a message of its own waits to be sent it never shows what others say. So a step in which
    something is typed ends when both windows have it, and the daemon comes back before the next one.
    """

    def __init__(self, seed: int, at: Shell, pages: Sequence[Any], host: Host, listening: Any) -> None:
        self._pick = random.Random(seed)
        self._at = at
        self._pages = pages
        self._page = pages[0]
        self._host = host
        self._listening = listening
        self._count = 0
        self.typed: list[str] = []

    def step(self) -> None:
        often = [self.type, self.others]
        seldom = [
            self.stream,
            self.kill,
            self.type_while_away,
            self.rename,
            self.question,
            self.stop,
            self.archive,
            self.delete,
        ]
        self._page = self._pick.choice(self._pages)
        self._pick.choice([*often, *often, *seldom])()

    def _words(self, what: str) -> str:
        self._count += 1
        return f"{what} number {self._count} ends here."

    def _append(self, *messages: dict[str, Any]) -> None:
        with self._at.client() as client:
            append(client, *messages)

    def _shown(self, text: str) -> None:
        for page in self._pages:
            shows(page, text)

    def _in_the_store(self) -> None:
        """What was typed last is."""
        with self._at.client() as client:
            wait_until(lambda: ("user", self.typed[-1]) in kept(client))
        self._shown(self.typed[-1])

    def type(self) -> None:
        self.typed.append(self._words("Typed"))
        says(self._page, self.typed[-1])
        self._in_the_store()

    def others(self) -> None:
        asked = {"role": "user", "content": self._words("Asked")}
        self._append(asked, {"role": "assistant", "content": self._words("Answered")})

    def stream(self) -> None:
        with self._at.client() as client:
            text = self._words("Streamed")
            began = {"id": f"r{self._count}", "role": "assistant", "content": "", "status": "streaming"}
            append(client, {"role": "user", "content": self._words("Asked")}, began)
            for at in range(0, len(text), 7):
                params = {"sessionId": "locks", "messageId": began["id"], "text": text[at : at + 7], "offset": at}
                client.call("session/extend", params)
                self._page.wait_for_timeout(self._pick.choice((0, 0, 30, 200)))
            client.call("session/finish", {"sessionId": "locks", "messageId": began["id"]})

    def stop(self) -> None:
        """What the terminal answers to what was typed in the window, in either of them."""
        half = self._words("Half")
        with answered_by_a_terminal(self._at, f"echo '{half}'; exec sleep 60"):
            self.type()
            self._shown(half)
            self._pick.choice(self._pages).locator(".interactive-input-part .codicon-stop-circle:visible").click()
            with self._at.client() as client:
                last = {"sessionId": "locks", "last": 1}
                wait_until(lambda: client.call("session/read", last)["messages"][0].get("status") == "interrupted")

    def kill(self) -> None:
        self._away(self.others)
        self._shown(f"Answered number {self._count} ")

    def type_while_away(self) -> None:
        """It is sent when the daemon is back."""
        self.typed.append(self._words("Typed"))
        self._away(lambda: says(self._page, self.typed[-1]))
        self._in_the_store()

    def _away(self, what: Callable[[], None]) -> None:
        os.kill(self._at.pid(), signal.SIGKILL)
        self._listening.communicate(timeout=20)
        what()
        with self._at.client():
            _, self._listening = by_command(self._at, "--write", port=self._host.port)

    def rename(self) -> None:
        with self._at.client() as client:
            client.call("session/update", {"sessionId": "locks", "name": self._words("Named")})

    def question(self) -> None:
        """An agent asks in its turn, and a window answers."""
        self._append({"role": "user", "content": self._words("Asked")})
        label = self._words("Allowed")
        params = {"sessionId": "locks", "text": "May I?", "choices": [{"id": "y", "label": label}]}
        with self._at.client() as agent, ThreadPoolExecutor(1) as pool:
            answer = pool.submit(agent.call, "session/ask", params)
            self._shown(label)
            self._page.get_by_text(label).first.click(timeout=30_000)
            assert answer.result(20)["choice"] == "y"
        self._append({"role": "assistant", "content": self._words("Answered")})

    def archive(self) -> None:
        """The session that both have open, and back. VS Code then shows an empty view instead, in both."""
        with self._at.client() as client:
            name = client.call("session/open", {"sessionId": "locks"})["session"]["name"]
            choose(self._page, name, "Mark as Done")
            self._page.mouse.move(400, 400)
            for page in self._pages:
                hides(page, "Ours.")
            archived = {"filter": {"archived": True}}
            wait_until(
                lambda: [one["sessionId"] for one in client.call("session/list", archived)["sessions"]] == ["locks"]
            )
            client.call("session/update", {"sessionId": "locks", "archived": False})
            self._shown(name)
            for page in self._pages:
                open_locks(page, name)

    def delete(self) -> None:
        """Another session, which both list."""
        name = self._words("Another")
        with self._at.client() as client:
            cwd = client.call("session/open", {"sessionId": "locks"})["session"]["cwd"]
            said = [{"role": "user", "content": "Which?"}]
            params = {"sessionId": f"s{self._count}", "name": name, "cwd": cwd, "messages": said}
            client.call("session/new", params)
            self._shown(name)
            delete(self._page, name)
            for page in self._pages:
                hides(page, name)
            deleted = client.call("session/list", {"filter": {"deleted": True}})["sessions"]
            assert name in [one["name"] for one in deleted]


def another_window(page: Any) -> Any:
    """Of the same workspace."""
    other = page.context.browser.new_page()
    other.goto(page.url)
    vscodes.open_sessions(other)
    return other


@pytest.mark.parametrize("seed", seeds(few=1, usual=20))
def test_after_random_steps_windows_have_what_the_store_has(at: Shell, work: Path, seed: int) -> None:
    """All words, in the order of the store; what was typed is there once."""
    seed_locks(at, work)
    host, listening = by_command(at, "--write")
    with vscodes.agents(at, work, host.port, host.token) as page:
        pages = [page, another_window(page)]
        for one in pages:
            one.set_viewport_size({"width": 1280, "height": 6000})  # what is not in view is not in the page
            open_locks(one)
        script = Script(seed, at, pages, host, listening)
        for _ in range(12):
            script.step()
        with at.client(start=False) as client:
            texts = [text for _, text in kept(client)]
        assert [texts.count(text) for text in script.typed] == [1] * len(script.typed)
        for one in pages:
            for text in texts[-2:]:
                shows(one, text)
            rests(one)
            one.wait_for_timeout(1000)
            shown = one.inner_text(".interactive-session").replace("\u00a0", " ")
            assert [text for text in texts if shown.count(text) != 1] == []
            assert sorted(texts, key=shown.index) == texts


def test_setup_leads_a_window_here(at: Shell, work: Path) -> None:
    """`sessiond setup vscode --agent-host --write`, and a daemon and code-server that read what it wrote: by a Unix socket, without
    a token. The window comes back when the daemon does.
    """
    options = at.path / "code-server.yaml"
    options.write_text("auth: none\n")
    at.env["CODE_SERVER_CONFIG"] = str(options)
    assert at("setup", "vscode", "--agent-host", "--write").code == 0
    seed_locks(at, work)
    with vscodes.agents(at, work, config=str(options)) as page:
        open_locks(page)
        os.kill(at.pid(), signal.SIGKILL)
        with at.client() as client:
            append(client, {"role": "user", "content": "And the second?"}, {"role": "assistant", "content": "Theirs."})
            shows(page, "Theirs.")
            wait_until(lambda: (ahp := client.status().ahp) is not None and ahp.windows == 1)


def test_two_windows_show_the_same(at: Shell, work: Path) -> None:
    """What is typed in one of them, its queue and its end are in the other."""
    seed_locks(at, work)
    host, _ = by_command(at, "--write")
    with vscodes.agents(at, work, host.port, host.token) as page:
        other = another_window(page)
        for one in (page, other):
            open_locks(one)
        says(page, "Typed in the first")
        shows(other, "Typed in the first")
        shows(other, "Nobody is here who answers")
        says(other, "Typed in the second")
        shows(page, "Typed in the second")
        with at.client(start=False) as client:
            assert [text for role, text in kept(client) if role == "user"] == [
                "Which lock is first?", "Typed in the first", "Typed in the second",
            ]  # fmt: skip
