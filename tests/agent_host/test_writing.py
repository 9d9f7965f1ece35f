"""What windows change: a real daemon, and windows that may write. What others see of it is what they see of any change."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from sessiond.agent_host import shapes
from sessiond.agent_host.hosted import SETTLE_S
from tests.agent_host.reducers import open_questions
from tests.agent_host.window import Answered, Host, Window, by_command
from tests.home import Client, Home
from tests.shell import Shell, wait_until

CHAT, SESSION = shapes.chat_uri("a"), shapes.session_uri("a")


@pytest.fixture
def client(home: Home) -> Client:
    return home.client()


@pytest.fixture
def host(client: Client) -> Host:
    return Host(client.call("daemon/listen", kind="ahp", write=True))


@pytest.fixture
def window(client: Client, host: Host) -> Window:
    """It has a session open in which somebody asked and was answered."""
    said = [{"role": "user", "content": "Which lock?"}, {"role": "assistant", "content": "The first."}]
    client.call("session/new", sessionId="a", name="Locks", messages=said)
    return opened(host)


def opened(host: Host) -> Window:
    made = Window(host)
    made.initialize()
    made.open("a")
    return made


def started(text: str, turn: str = "t1") -> dict[str, Any]:
    return {"type": "chat/turnStarted", "turnId": turn, "message": {"text": text, "origin": {"kind": "user"}}}


def confirmed(window: Window, action: dict[str, Any], channel: str = CHAT) -> dict[str, Any]:
    """The echo of what the window does."""
    number = len(window.echoes) + 1
    window.dispatch(channel, number, action)
    window.until(lambda: len(window.echoes) == number)
    assert window.echoes[-1]["origin"] == {"clientId": "w", "clientSeq": number}
    return window.echoes[-1]


def kept(client: Client, session_id: str = "a") -> list[tuple[str, Any]]:
    messages = client.call("session/read", sessionId=session_id)["messages"]
    return [(one["role"], one["content"]) for one in messages]


def test_a_typed_message_is_answered_by_whoever_is_attached(
    home: Home, client: Client, host: Host, window: Window
) -> None:
    """One of those that answer is asked, the one that came last; the message is in the store before the window is told."""
    first, answering = home.client(), home.client()
    for one in (first, answering):
        one.call("session/open", sessionId="a", answers=True)
    other = opened(host)
    echo = confirmed(window, started("And then?"))
    assert "rejectionReason" not in echo
    assert kept(client)[2:] == [("user", "And then?")]
    asked = answering.notification("session/asked")
    assert asked == {"sessionId": "a", "messageId": "t1"}
    answering.call(
        "session/append",
        sessionId="a",
        messages=[{"id": "r", "role": "assistant", "content": "The se", "status": "streaming"}],
    )
    answering.call("session/extend", sessionId="a", messageId="r", text="cond.")
    answering.call("session/finish", sessionId="a", messageId="r")
    for one in (window, other):
        one.until(lambda one=one: "The second." in one.words(CHAT) and "activeTurn" not in one.states[CHAT])
        assert one.words(CHAT).endswith("> And then?\nThe second.")
    assert "session/asked" not in [method for method, _ in first.heard_by_now()]


def test_that_nobody_answers_is_said_and_what_comes_later_is_shown(client: Client, host: Host, window: Window) -> None:
    """Also after a restart of the host, which knows then that this turn has ended."""
    confirmed(window, started("And then?"))
    window.until(lambda: "activeTurn" not in window.states[CHAT])
    last = window.states[CHAT]["turns"][-1]
    assert (last["id"], last["state"]) == ("t1", "error")
    assert "Nobody is here who answers" in last["responseParts"][0]["error"]["message"]
    client.call("session/append", sessionId="a", messages=[{"role": "assistant", "content": "The second."}])
    window.until(lambda: "The second." in window.words(CHAT))
    assert "chat/truncated" not in window.kinds
    window.until(lambda: "activeTurn" not in window.states[CHAT])
    fresh = opened(host)
    assert fresh.states[CHAT]["turns"] == window.states[CHAT]["turns"]


def test_a_message_that_is_sent_again_is_there_once(client: Client, window: Window) -> None:
    confirmed(window, started("And then?"))
    assert "rejectionReason" in confirmed(window, started("And then?"))
    assert kept(client)[2:] == [("user", "And then?")]


def test_what_is_typed_while_a_text_streams_in_waits_and_is_kept(client: Client, host: Host, window: Window) -> None:
    client.call(
        "session/append",
        sessionId="a",
        messages=[
            {"role": "user", "content": "Go on"},
            {"id": "r", "role": "assistant", "content": "We", "status": "streaming"},
        ],
    )
    window.until(lambda: "We" in window.words(CHAT))
    said = {"text": "Shorter!", "origin": {"kind": "user"}}
    confirmed(window, {"type": "chat/pendingMessageSet", "kind": "queued", "id": "q1", "message": said})
    assert kept(client)[-1] == ("user", "Shorter!")
    assert [one["id"] for one in window.states[CHAT]["queuedMessages"]] == ["q1"]
    client.call("session/extend", sessionId="a", messageId="r", text="ll")
    client.call("session/finish", sessionId="a", messageId="r")
    window.until(lambda: "queuedMessages" not in window.states[CHAT])
    assert "> Go on\nWell\n> Shorter!" in window.words(CHAT)


def test_what_cannot_be_kept_stays_with_the_reason(client: Client, window: Window) -> None:
    text = "x" * 900_000
    assert "rejectionReason" not in confirmed(window, started("hello", turn=""))  # not an id
    window.until(lambda: "activeTurn" not in window.states[CHAT])
    last = window.states[CHAT]["turns"][-1]
    assert (last["message"]["text"], last["state"]) == ("hello", "error")
    assert "This was not kept" in last["responseParts"][0]["error"]["message"]
    assert "rejectionReason" not in confirmed(window, started(text, "t2"))
    window.until(lambda: window.states[CHAT]["turns"][-1]["id"] == "t2")
    assert kept(client)[2:] == [("user", text)]


def test_names_and_the_archive(client: Client, host: Host, window: Window) -> None:
    """As VS Code sends them: on the chat's channel."""
    other = opened(host)
    other.rows()
    assert "rejectionReason" not in confirmed(window, {"type": "session/titleChanged", "title": "Order"})
    assert client.call("session/list")["sessions"][0]["name"] == "Order"
    assert "rejectionReason" not in confirmed(window, {"type": "session/isArchivedChanged", "isArchived": True})
    other.until(lambda: other.states[SESSION]["title"] == "Order" and other.states[SESSION]["status"] & shapes.ARCHIVED)
    assert "rejectionReason" in confirmed(window, {"type": "session/titleChanged", "title": "x" * 5000})
    client.call("session/new", sessionId="b", messages=[{"role": "user", "content": "hi"}])
    of_a_row = shapes.session_uri("b")  # which the window has not opened
    assert "rejectionReason" not in confirmed(
        window, {"type": "session/isArchivedChanged", "isArchived": True}, of_a_row
    )
    archived = client.call("session/list", filter={"archived": True})["sessions"]
    assert {one["sessionId"] for one in archived} == {"a", "b"}


def test_turns_that_are_cut_off_lie_in_the_trash(client: Client, window: Window) -> None:
    """As VS Code does it when an old message is edited: a cut, then the new one."""
    first = window.states[CHAT]["activeTurn"]["id"]
    confirmed(window, started("And then?"))
    window.until(lambda: "activeTurn" not in window.states[CHAT])
    assert "rejectionReason" in confirmed(window, {"type": "chat/truncated", "turnId": "nothing"})
    assert "rejectionReason" not in confirmed(window, {"type": "chat/truncated", "turnId": first})
    confirmed(window, started("Or before?", "t2"))
    assert [text for _, text in kept(client)] == ["Which lock?", "The first.", "Or before?"]
    trash = client.call("session/list", filter={"deleted": True})["sessions"]
    assert [one["sessionId"].partition(".was-")[0] for one in trash] == ["a"]
    confirmed(window, {"type": "chat/truncated"})
    assert kept(client) == []


def test_an_answer_can_be_stopped(home: Home, client: Client, window: Window) -> None:
    """Who answers is asked to; without anybody, the turn that waits is over."""
    stop = {"type": "chat/turnCancelled", "turnId": "t1", "duration": 5}
    answering = home.client()
    answering.call("session/open", sessionId="a", answers=True)
    confirmed(window, started("And then?"))
    answering.notification("session/asked")
    confirmed(window, stop)
    assert answering.notification("session/interrupted") == {"sessionId": "a", "messageId": "t1"}
    window.until(lambda: "activeTurn" not in window.states[CHAT])
    answering.call(
        "session/append",
        sessionId="a",
        messages=[{"id": "r", "role": "assistant", "content": "W", "status": "streaming"}],
    )
    window.until(lambda: "activeTurn" in window.states[CHAT])
    answering.call("session/close", sessionId="a")
    client.call(
        "session/append",
        sessionId="a",
        messages=[{"id": "s", "role": "assistant", "content": "W", "status": "streaming"}],
    )
    window.until(lambda: '"id": "s"' in json.dumps(window.states[CHAT].get("activeTurn")))
    assert "that turn has ended" in confirmed(window, stop)["rejectionReason"]
    now = {**stop, "turnId": window.states[CHAT]["activeTurn"]["id"]}
    assert "nobody" in confirmed(window, now)["rejectionReason"]


def test_a_new_session_is_made_by_its_first_message(tmp_path: Path, home: Home, client: Client, host: Host) -> None:
    """VS Code makes one as soon as its view opens; until something is said, nobody else sees it."""
    window = Window(host)
    window.initialize()
    uri = "sessiond:/3f2a52c4-8a57-4b8e-9a3f-2f6c3a1d7c11"
    wire_id = shapes.session_of(uri)
    assert wire_id is not None
    folder = (tmp_path / "my work").as_uri()
    window.ask("createSession", channel=uri, provider="sessiond", workingDirectories=[folder])
    with pytest.raises(Answered) as again:
        window.ask("createSession", channel=uri, provider="sessiond")
    assert again.value.code == -32003
    chat = window.open(wire_id)
    assert window.states[chat]["turns"] == []
    assert client.call("session/list")["sessions"] == []
    confirmed(window, started("  Which lock\nis held?"), chat)
    found = client.call("session/list")["sessions"]
    assert [(one["name"], one["cwd"]) for one in found] == [("Which lock is held?", str(tmp_path / "my work"))]
    window.ask("disposeSession", channel=uri)
    assert client.call("session/list")["sessions"] == []
    assert client.call("session/list", filter={"deleted": True})["sessions"][0]["sessionId"] == wire_id
    with pytest.raises(Answered) as gone:
        window.ask("disposeSession", channel=uri)
    assert gone.value.code == -32008


def test_the_right_to_write_is_the_tokens(client: Client, host: Host) -> None:
    """Windows that read show another one, and have no model to send to."""
    reading = Host(client.call("daemon/listen", kind="ahp"))
    assert reading.token != host.token
    for of, token in ((host, reading.token), (reading, host.token)):
        with pytest.raises(InvalidStatus):
            Window(of, token=token)
    client.call("session/new", sessionId="a", messages=[{"role": "user", "content": "hi"}])
    window = Window(reading)
    assert window.initialize()["snapshots"][0]["state"]["agents"][0]["models"] == []
    window.open("a")
    assert window.states[CHAT]["interactivity"] == "read-only"
    assert confirmed(window, started("hello"))["rejectionReason"] == "sessions can only be read here"
    for method, params in (("createSession", {"provider": "sessiond"}), ("disposeSession", {})):
        with pytest.raises(Answered) as refused:
            window.ask(method, channel=SESSION, **params)
        assert refused.value.code == -32009
    assert len(kept(client)) == 1


def test_two_windows_begin_one_session(home: Home, client: Client, host: Host) -> None:
    """One makes it; both have it open, and both say the first word at once."""
    uri = "sessiond:/3f2a52c4"
    chat = shapes.chat_uri("3f2a52c4")
    windows = [Window(host), Window(host)]
    for one in windows:
        one.initialize()
        one.send(id=90, method="createSession", params={"channel": uri, "provider": "sessiond"})
    answers = []
    for one in windows:
        while (message := one.hear()).get("id") != 90:
            pass
        answers.append(message.get("error", {}).get("code"))
    assert sorted(answers, key=str) == [-32003, None]
    for one in windows:
        one.open("3f2a52c4")
    for nth, one in enumerate(windows):
        one.dispatch(chat, 1, started(f"First {nth}", f"t{nth}"))
    for one in windows:
        one.until(lambda one=one: all(f"> First {nth}" in one.words(chat) for nth in (0, 1)))
    assert sorted(text for _, text in kept(client, "3f2a52c4")) == ["First 0", "First 1"]
    assert windows[0].states[chat]["turns"] == windows[1].states[chat]["turns"]


def test_a_draft_outlives_the_daemon(shell: Shell) -> None:
    """A window that comes back has it, and its first message is kept. One that was disposed of is gone."""
    host, listening = by_command(shell, "--write")
    window = Window(host)
    window.initialize()
    for name in ("draft", "other"):
        window.ask("createSession", channel=f"sessiond:/{name}", provider="sessiond")
    window.open("draft")
    window.ask("disposeSession", channel="sessiond:/other")
    with pytest.raises(Answered):
        window.ask("subscribe", channel="sessiond:/other")
    shell.kill()
    listening.communicate(timeout=20)
    with shell.client():
        host, _ = by_command(shell, "--write", port=host.port)
        back = window.come_back(host)
        chat = shapes.chat_uri("draft")
        assert "rejectionReason" not in confirmed(back, started("Hello again"), chat)
        back.close()
        again = back.come_back(host)  # the numbers of the draft are the session's
        assert "> Hello again" in again.words(chat)
        again.close()


def test_what_is_refused_is_there_once_under_an_id_of_its_own(client: Client, window: Window) -> None:
    """Sent again, or with the id of a message that says something else."""
    for _ in range(2):
        window.dispatch(CHAT, 1, started("not an id", turn="x" * 1000))
    window.dispatch(CHAT, 2, started("another", turn="m1"))
    client.call("session/append", sessionId="a", messages=[{"id": "q1", "role": "user", "content": "mine"}])
    window.until(lambda: "> mine" in window.words(CHAT))
    window.dispatch(CHAT, 3, started("edited", turn="q1"))
    window.until(lambda: len(window.echoes) == 4)
    client.call("session/append", sessionId="a", messages=[{"role": "assistant", "content": "Yes."}])
    window.until(lambda: "> edited" in window.words(CHAT) and "activeTurn" not in window.states[CHAT])
    ids = [turn["id"] for turn in window.states[CHAT]["turns"]]
    assert len(ids) == len(set(ids))
    assert window.words(CHAT).count("> not an id") == 1
    assert sorted(text for _, text in kept(client)) == ["The first.", "Which lock?", "Yes.", "another", "mine"]


def test_who_answers_is_asked_once_for_each_message(home: Home, client: Client, host: Host, window: Window) -> None:
    """Also if the window loses its connection before it hears that the message is kept, and sends it again."""
    answering = home.client()
    answering.call("session/open", sessionId="a", answers=True)
    window.dispatch(CHAT, 1, started("And then?"))
    window.close()
    assert answering.notification("session/asked")["messageId"] == "t1"
    back = window.come_back(host)
    back.dispatch(CHAT, 1, started("And then?"))
    back.until(lambda: back.echoes)
    assert "session/asked" not in [method for method, _ in answering.heard_by_now()]
    assert [text for _, text in kept(client)].count("And then?") == 1


def test_that_nobody_answers_what_is_queued_is_said_when_its_turn_begins(client: Client, window: Window) -> None:
    streamed = {"id": "r", "role": "assistant", "content": "We", "status": "streaming"}
    client.call("session/append", sessionId="a", messages=[streamed])
    window.until(lambda: "We" in window.words(CHAT))
    said = {"text": "Shorter!", "origin": {"kind": "user"}}
    confirmed(window, {"type": "chat/pendingMessageSet", "kind": "queued", "id": "q1", "message": said})
    client.call("session/finish", sessionId="a", messageId="r")
    window.until(lambda: "activeTurn" not in window.states[CHAT] and "queuedMessages" not in window.states[CHAT])
    assert "Nobody is here" in json.dumps(window.states[CHAT]["turns"][-1])


def test_a_cut_by_a_window_that_was_away_cuts_nothing_that_it_did_not_see(
    client: Client, host: Host, window: Window
) -> None:
    first = window.states[CHAT]["activeTurn"]["id"]
    window.close()
    client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "Unseen"}])
    back = window.come_back(host)
    echo = confirmed(back, {"type": "chat/truncated", "turnId": first})
    assert echo["rejectionReason"] == "more was said since then"
    assert kept(client)[-1] == ("user", "Unseen")


def test_a_cut_of_all_that_is_shown(client: Client, host: Host) -> None:
    """What is not shown remains, and all windows show the same."""
    many = [{"role": role, "content": f"{role} {nth}"} for nth in range(600) for role in ("user", "assistant")]
    client.call("session/new", sessionId="a", messages=many)
    window, other = opened(host), opened(host)
    assert "rejectionReason" not in confirmed(window, {"type": "chat/truncated"})
    assert kept(client)[-1] == ("assistant", "assistant 299")
    for one in (window, other):
        one.until(lambda one=one: [turn["id"] for turn in one.states[CHAT]["turns"]] == ["earlier"])


def test_a_python_program_answers(shell: Shell) -> None:
    """It is asked once, also after the daemon was killed and it has connected again."""
    with shell.client() as client:
        client.call("session/new", {"sessionId": "a", "messages": [{"role": "user", "content": "hi"}]})
        changes = client.session("a").changes(answers=True)
        for turn in ("t1", "t2"):
            host, listening = by_command(shell, "--write")
            window = Window(host)
            window.initialize()
            window.open("a")
            assert changes.wait(1) is None  # it connects again while it waits
            window.dispatch(CHAT, 1, started("One", turn))
            told = [changes.wait(20), changes.wait(20)]
            assert [type(one).__name__ for one in told] == ["Appended", "Asked"]
            assert getattr(told[1], "message_id", None) == turn
            window.dispatch(CHAT, 2, {"type": "chat/turnCancelled", "turnId": turn, "duration": 5})
            assert type(changes.wait(20)).__name__ == "Interrupted"
            assert changes.wait(0.2) is None
            window.close()
            shell.kill()
            listening.communicate(timeout=20)
        changes.close()


def test_the_terminal_answers_each_message_once_and_can_be_stopped(shell: Shell) -> None:
    host, _ = by_command(shell, "--write")
    with shell.client() as client:
        client.call("session/new", {"sessionId": "a", "messages": [{"role": "user", "content": "hi"}]})
        command = """grep -q slowly && { echo begun; exec sleep 60; } || echo "An answer." """
        terminal = shell.start("repl", "--agent", command, "--session-id", "a")
        wait_until(lambda: client.call("session/open", {"sessionId": "a"})["session"]["attached"] > 2)
        window = Window(host)
        window.initialize()
        window.open("a")
        window.dispatch(CHAT, 1, started("One", "t1"))
        window.until(lambda: window.words(CHAT).endswith("> One\nAn answer."))
        window.dispatch(CHAT, 2, started("Now slowly", "t2"))
        window.until(lambda: "begun" in window.words(CHAT))
        window.dispatch(CHAT, 3, {"type": "chat/turnCancelled", "turnId": "t2", "duration": 5})
        window.until(lambda: "activeTurn" not in window.states[CHAT])
        assert window.states[CHAT]["turns"][-1]["state"] == "cancelled"
        messages = client.call("session/read", {"sessionId": "a"})["messages"]
        assert [(one["role"], one.get("status")) for one in messages[1:]] == [
            ("user", None), ("assistant", "done"), ("user", None), ("assistant", "interrupted"),
        ]  # fmt: skip
        terminal.communicate(timeout=20)
        window.close()


def test_the_command_says_that_windows_may_write(shell: Shell, home: Home) -> None:
    host, process = by_command(shell, "--write")
    try:
        window = Window(host)
        assert window.initialize()["snapshots"][0]["state"]["agents"][0]["models"] != []
        assert "windows may write" in shell("status").out
    finally:
        process.terminate()
        process.wait(10)
    assert "--write goes with --ahp" in shell("--write").err
    wait_until(lambda: json.loads(shell("status", "--json").out)["ahp"] is None)


def asking(home: Home, **more: Any) -> Callable[[], Any]:
    """A program asks; what is returned waits for its answer."""
    made = home.client()
    number = made.send("session/ask", {"sessionId": "a", "text": "Run it?", **more})
    return lambda: made.answer(number)["result"]


CHOICES = [{"id": "y", "label": "Allow", "kind": "allow"}, {"id": "n", "label": "Deny", "kind": "deny"}]


def completed(request: str, **value: str) -> dict[str, Any]:
    answers = {"answers": {"answer": {"state": "submitted", "value": value}}} if value else {}
    response = "accept" if value else "cancel"
    return {"type": "chat/inputCompleted", "requestId": request, "response": response, **answers}


def question(window: Window) -> dict[str, Any]:
    """The one that is open in the chat."""
    window.until(lambda: open_questions(window.states[CHAT].get("activeTurn") or {"responseParts": []}))
    ((_, part),) = open_questions(window.states[CHAT]["activeTurn"]).items()
    request: dict[str, Any] = part["request"]
    return request


def closed(window: Window) -> str:
    """How the last question ended."""
    window.until(lambda: not open_questions(window.states[CHAT]["activeTurn"]))
    parts = [one for one in window.states[CHAT]["activeTurn"]["responseParts"] if one["kind"] == "inputRequest"]
    return str(parts[-1]["response"])


def test_a_question_is_answered_in_a_window(home: Home, client: Client, host: Host, window: Window) -> None:
    """The first answer counts, and every window sees it. One that gives none leaves it to the others."""
    client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "Go"}])
    other = opened(host)
    program = asking(home, waitingFor="permission", choices=CHOICES)
    shown = question(window)
    assert shown["questions"] == [
        {
            "id": "answer",
            "kind": "single-select",
            "message": "Run it?",
            "required": True,
            "options": [{"id": "y", "label": "Allow"}, {"id": "n", "label": "Deny"}],
            "allowFreeformInput": False,
        }
    ]
    assert question(other) == shown
    declined = {**completed(shown["id"], kind="selected", value="y"), "response": "decline"}
    for nothing in (completed(shown["id"]), declined):
        assert "stays open" in confirmed(window, nothing)["rejectionReason"]
    assert (
        "expected one of y, n"
        in confirmed(window, completed(shown["id"], kind="selected", value="x"))["rejectionReason"]
    )
    answer = completed(shown["id"], kind="selected", value="n")
    answer["answers"] |= {"more": {"state": "submitted", "value": {"kind": "text", "value": "private"}}}
    assert "rejectionReason" not in confirmed(window, answer)
    assert program() == {"client": "agent host", "choice": "n"}
    for one in (window, other):
        assert closed(one) == "accept"
        assert '"value": "n"' in json.dumps(one.states[CHAT]["activeTurn"])
        assert "private" not in json.dumps(one.states[CHAT]["activeTurn"])
        one.until(lambda one=one: one.states[SESSION]["chats"][0]["status"] & shapes.ACTIVITY == shapes.IN_PROGRESS)
    assert (
        "not asked any more" in confirmed(other, completed(shown["id"], kind="selected", value="y"))["rejectionReason"]
    )


def test_a_question_without_choices_is_answered_in_words(home: Home, client: Client, window: Window) -> None:
    client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "Go"}])
    program = asking(home)
    shown = question(window)
    assert shown["questions"][0]["kind"] == "text"
    confirmed(window, completed(shown["id"], kind="text", value="Only the tests"))
    assert program() == {"client": "agent host", "text": "Only the tests"}


def test_a_question_waits_for_its_turn_and_ends_with_it(home: Home, client: Client, window: Window) -> None:
    """A turn that has ended takes none; the next one has it. Answered elsewhere, it is closed in every window."""
    window.until(lambda: "activeTurn" not in window.states[CHAT])
    asking(home, choices=CHOICES)
    window.until(lambda: window.states[SESSION]["chats"][0]["status"] & shapes.ACTIVITY == shapes.INPUT_NEEDED)
    assert "activeTurn" not in window.states[CHAT]
    client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "Go"}])
    first = question(window)
    client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "Go on"}])
    window.until(lambda: "> Go on" in window.words(CHAT))
    assert "? Run it? cancel\n> Go on" in window.words(CHAT)
    assert question(window) == first
    client.call("session/answer", sessionId="a", questionId=first["id"], choice="y")
    assert closed(window) == "accept"
    withdrawn = home.client()
    number = withdrawn.send("session/ask", {"sessionId": "a", "text": "Or that?"})
    question(window)
    withdrawn.notify("$/cancelRequest", {"id": number})
    assert closed(window) == "cancel"


def test_a_question_that_was_answered_while_a_window_was_away_is_closed(
    home: Home, client: Client, host: Host, window: Window
) -> None:
    """Also if its turn has ended since, and it asks something else by then."""
    client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "Go"}])
    asking(home, choices=CHOICES)
    shown = question(window)
    window.close()
    client.call("session/answer", sessionId="a", questionId=shown["id"], choice="y")
    client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "Go on"}])
    asking(home)
    back = window.come_back(host)
    assert question(back)["questions"][0]["kind"] == "text"
    assert "? Run it? accept\n> Go on\n? Run it?\n..." in back.words(CHAT)


def test_a_question_of_before_a_restart_is_closed(shell: Shell) -> None:
    """Nobody waits for its answer any more."""
    with shell.client() as client:
        client.call("session/new", {"sessionId": "a", "messages": [{"role": "user", "content": "Go"}]})
        host, listening = by_command(shell, "--write")
        window = Window(host)
        window.initialize()
        window.open("a")
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(client.session("a").ask, "Run it?")
            shown = question(window)["id"]
            shell.kill()
            listening.communicate(timeout=20)
            assert answer.exception(20) is not None
    with shell.client():
        host, _ = by_command(shell, "--write", port=host.port)
        back = window.come_back(host)
        assert closed(back) == "cancel"
        late = confirmed(back, completed(shown, kind="text", value="yes"))
        assert late["rejectionReason"] == "that is not asked any more"
        back.close()


def test_a_turn_goes_on_while_somebody_works_in_it(client: Client, window: Window) -> None:
    """Text that comes late is in the turn; it ends when the program says that it has done."""
    said = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": "I look."}]
    client.call("session/activity", sessionId="a", state="working")
    client.call("session/append", sessionId="a", messages=said)
    window.until(lambda: "I look." in window.words(CHAT))
    time.sleep(SETTLE_S + 0.5)
    client.call("session/append", sessionId="a", messages=[{"role": "assistant", "content": "Found."}])
    window.until(lambda: "Found." in window.words(CHAT))
    assert window.words(CHAT).endswith("> Go\nI look.\nFound.\n...")
    client.call("session/activity", sessionId="a", state="idle")

    def status() -> int:
        return int(window.states[SESSION]["chats"][0]["status"] & shapes.ACTIVITY)

    window.until(lambda: "activeTurn" not in window.states[CHAT] and status() == shapes.IDLE)
    client.call("session/activity", sessionId="a", state="working")  # what has ended does not go on again
    window.until(lambda: status() == shapes.IN_PROGRESS)
    assert "chat/truncated" not in window.kinds
