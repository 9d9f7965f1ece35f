"""A real daemon, and windows that speak the protocol as VS Code does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sessiond.agent_host import shapes
from tests.agent_host.window import Answered, Host, Window, by_command
from tests.home import Client, Home
from tests.shell import Shell, wait_until

Message = dict[str, Any]


@pytest.fixture
def client(home: Home) -> Client:
    return home.client()


@pytest.fixture
def host(client: Client) -> Host:
    return Host(client.call("daemon/listen", kind="ahp"))


def window(host: Host) -> Window:
    made = Window(host)
    made.initialize()
    return made


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


def append(client: Client, *messages: Message) -> None:
    client.call("session/append", sessionId="a", messages=list(messages))


def extend(client: Client, text: str, offset: int) -> None:
    client.call("session/extend", sessionId="a", messageId="r", text=text, offset=offset)


def finish(client: Client) -> None:
    client.call("session/finish", sessionId="a", messageId="r")


def snapshot(host: Host, chat: str) -> dict[str, object]:
    """What a window that comes now gets."""
    fresh = window(host)
    state: dict[str, object] = fresh.ask("subscribe", channel=chat)["snapshot"]["state"]
    fresh.close()
    return {key: state.get(key) for key in ("turns", "activeTurn")}


def shown(one: Window, chat: str) -> dict[str, object]:
    return {key: one.states[chat].get(key) for key in ("turns", "activeTurn")}


def test_a_window_lists_opens_and_follows(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a", name="Locks", cwd="/home/me/my work", messages=[user("Which lock?")])
    one = window(host)
    row = one.rows()["sessiond:/a"]
    assert (row["title"], row["provider"]) == ("Locks", "sessiond")
    assert row["workingDirectories"] == ["file:///home/me/my%20work"]
    chat = one.open("a")
    assert one.words(chat) == "> Which lock?\n..."
    append(client, assistant("The ", id="r", status="streaming"))
    extend(client, "journal's.", 4)
    one.until(lambda: one.words(chat) == "> Which lock?\nThe journal's.\n...")
    finish(client)
    one.until(lambda: one.words(chat) == "> Which lock?\nThe journal's.")
    assert shown(one, chat) == snapshot(host, chat)


def test_a_tool_is_called_and_answers(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a")
    one = window(host)
    chat = one.open("a")
    append(client, user("List"), assistant("", toolCalls=[{"id": "c", "name": "Bash", "arguments": {"command": "ls"}}]))
    one.until(lambda: "[Bash running]" in one.words(chat))
    append(client, {"role": "tool", "content": "a.txt", "toolCallId": "c"})
    one.until(lambda: "[Bash completed]" in one.words(chat))


def test_an_answer_that_goes_on_is_in_a_turn_of_its_own(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a", messages=[user("Go"), assistant("One.")])
    one = window(host)
    chat = one.open("a")
    one.until(lambda: "activeTurn" not in one.states[chat])
    append(client, assistant("Two."))
    one.until(lambda: one.words(chat) == "> Go\nOne.\n> \nTwo.")
    assert shown(one, chat) == snapshot(host, chat)


def test_the_list_says_what_comes_changes_and_goes(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a")
    one = window(host)
    one.rows()
    client.call("session/new", sessionId="b", name="New")
    one.until(lambda: [told["summary"]["title"] for told in one.told("root/sessionAdded")] == ["New"])
    client.call("session/update", sessionId="a", name="Named", archived=True)
    one.until(lambda: [told["changes"].get("title") for told in one.told("root/sessionSummaryChanged")] == ["Named"])
    client.call("session/delete", sessionId="b")
    one.until(lambda: [told["session"] for told in one.told("root/sessionRemoved")] == ["sessiond:/b"])
    assert set(one.rows()) == {"sessiond:/a"}
    assert one.rows()["sessiond:/a"]["status"] & shapes.ARCHIVED


def test_a_rename_shows_in_an_open_session(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a")
    one = window(host)
    one.open("a")
    client.call("session/update", sessionId="a", name="Named", archived=True)
    states = one.states
    one.until(
        lambda: (states["sessiond:/a"]["title"], states["sessiond:/a"]["chats"][0]["title"]) == ("Named", "Named")
    )
    one.until(lambda: states["sessiond:/a"]["status"] & shapes.ARCHIVED)


def test_a_window_cannot_change_anything(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a", messages=[user("Mine")])
    one = window(host)
    chat = one.open("a")
    one.dispatch(chat, 1, {"type": "chat/truncated"})
    one.dispatch("sessiond:/a", 2, {"type": "session/isReadChanged", "isRead": True})
    one.until(lambda: len(one.echoes) == 2)
    assert [echo["origin"] for echo in one.echoes] == [{"clientId": "w", "clientSeq": no} for no in (1, 2)]
    assert ["rejectionReason" in echo for echo in one.echoes] == [True, False]
    for method in ("createSession", "disposeSession"):
        with pytest.raises(Answered) as refused:
            one.ask(method, channel="sessiond:/a")
        assert refused.value.code == -32009
    assert len(client.call("session/read", sessionId="a")["messages"]) == 1


@pytest.mark.parametrize("killed", [False, True], ids=["away", "killed"])
def test_a_window_that_was_away_is_whole_again(home: Home, client: Client, host: Host, killed: bool) -> None:
    """In the middle of a turn; a whole turn comes and goes meanwhile, and the daemon may be killed."""
    client.call("session/new", sessionId="a", messages=[user("First")])
    one = window(host)
    chat = one.open("a")
    append(client, assistant("Half", id="r", status="streaming"))
    one.until(lambda: "Half" in one.words(chat))
    one.close()
    extend(client, " and more.", 4)
    finish(client)
    append(client, user("Second"), assistant("Done."))
    if killed:
        client, host = again(home)
    back = one.come_back(host)
    # An append is acknowledged as soon as it is durable: what it said may reach the window right after its return.
    back.until(lambda: back.words(chat).removesuffix("\n...") == "> First\nHalf and more.\n> Second\nDone.")
    append(client, user("Third"))
    back.until(lambda: "Third" in back.words(chat))
    assert shown(back, chat) == snapshot(host, chat)


def again(home: Home) -> tuple[Client, Host]:
    """The daemon is killed, and another one listens."""
    home.kill()
    home.start()
    client = home.client()
    return client, Host(client.call("daemon/listen", kind="ahp"))


def test_a_window_that_was_away_has_the_list_again(home: Home, client: Client, host: Host) -> None:
    for name in ("a", "b"):
        client.call("session/new", sessionId=name, messages=[user("Mine")])
    one = window(host)
    one.rows()
    client, host = again(home)
    client.call("session/new", sessionId="c")
    client.call("session/delete", sessionId="b")
    back = one.come_back(host)
    back.until(lambda: "sessiond:/c" in [told["summary"]["resource"] for told in back.told("root/sessionAdded")])
    back.until(lambda: "sessiond:/b" in [told["session"] for told in back.told("root/sessionRemoved")])


def test_what_is_not_known_any_more_is_said(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a", messages=[user("First")])
    chat = window(host).open("a")
    with pytest.raises(Answered) as refused:
        Window(host).ask("reconnect", clientId="another", lastSeenServerSeq=1, subscriptions=[chat])
    assert refused.value.code == -32008


def test_a_session_that_is_gone_is_missing(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a")
    one = window(host)
    channels = [one.open("a"), "sessiond:/a", "other:/x"]
    client.call("session/delete", sessionId="a")
    result = Window(host).ask("reconnect", clientId="w", lastSeenServerSeq=one.seen, subscriptions=channels)
    assert result["missing"] == channels


def test_another_session_with_the_same_id(home: Home, client: Client, host: Host) -> None:
    """A window that was away has turns of the one that was deleted."""
    client.call("session/new", sessionId="a", messages=[user("Mine"), assistant("Yours.")])
    one = window(host)
    chat = one.open("a")
    client, host = again(home)
    client.call("session/delete", sessionId="a")
    time.sleep(0.01)  # it is told from the first by when it was made
    client.call("session/new", sessionId="a", messages=[user("Another"), user("And more")])
    asked = {"lastSeenServerSeq": one.seen, "subscriptions": [chat]}
    with pytest.raises(Answered) as refused:
        Window(host).ask("reconnect", clientId="w", **asked)
    assert refused.value.code == -32008


def test_a_file_that_is_edited_outside(home: Home, client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a", messages=[user("Mine"), assistant("Yours.")])
    (saved,) = client.call("session/save", sessionId="a")["saved"]
    one = window(host)
    chat = one.open("a")
    one.until(lambda: "activeTurn" not in one.states[chat])
    path = Path(saved["path"])
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join([*lines, lines[-1].replace("Yours.", "Added by hand.").replace('"id":"', '"id":"x')]) + "\n"
    )
    one.until(lambda: one.words(chat) == "> Mine\nYours.\n> \nAdded by hand.")
    assert shown(one, chat) == snapshot(host, chat)


def test_versions(client: Client, host: Host) -> None:
    one = Window(host)
    with pytest.raises(Answered) as refused:
        one.ask("initialize", protocolVersions=["1.0.0"], clientId="w")
    assert refused.value.code == -32005
    assert "0.9.0" in refused.value.data["supportedVersions"]
    assert client.call("daemon/status")["ahp"]["refused"] == ["1.0.0"]
    assert one.ask("initialize", protocolVersions=["2.0.0", "0.7.0"], clientId="w")["protocolVersion"] == "0.7.0"


def test_a_wrong_token_or_page_stays_out(host: Host) -> None:
    for options in ({"token": "wrong"}, {"token": ""}, {"origin": "http://evil.example"}):
        with pytest.raises(InvalidStatus) as refused:
            Window(host, **options)
        assert refused.value.response.status_code in (401, 403)
    Window(host, origin="vscode-file://vscode-app").close()


def test_the_tokens_are_two(client: Client, host: Host) -> None:
    """The one of windows gets into process lists."""
    other = Host(client.call("daemon/listen", kind="ws")).token
    assert other != host.token
    with pytest.raises(InvalidStatus):
        Window(host, token=other)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        "null",
        '{"jsonrpc":"2.0"}',
        '{"jsonrpc":"2.0","id":1,"method":"subscribe"}',
        '{"jsonrpc":"2.0","id":[],"method":"ping"}',
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersions":"0.9.0"}}',
        '{"jsonrpc":"2.0","id":1,"method":"nothing"}',
        '{"jsonrpc":"2.0","method":"dispatchAction","params":{"channel":7}}',
        '{"jsonrpc":"2.0","id":1,"method":"reconnect","params":{"clientId":"","lastSeenServerSeq":1e99,"subscriptions":[]}}',
    ],
)
def test_bad_messages_cost_nothing_else(host: Host, frame: str) -> None:
    one = window(host)
    one.socket.send(frame)
    assert one.ask("ping") == {}


def test_requests_in_one_go_are_answered_in_their_order(client: Client, host: Host) -> None:
    """More than wait at a time."""
    client.call("session/new", sessionId="a")
    one = window(host)
    for number in range(1000, 1500):
        one.send(id=number, method="listSessions", params={"channel": "ahp-root://"})
    answers = [one.hear()["id"] for _ in range(500)]
    assert answers == list(range(1000, 1500))


def test_a_large_session_opens(client: Client, host: Host) -> None:
    """Its snapshot is more than may wait for a client."""
    client.call("session/new", sessionId="a", messages=[user("Before"), user("Go")])
    for at in range(30):
        append(client, assistant(f"{at} " + "\u3042" * 300_000))
    one = window(host)
    chat = one.open("a")
    assert "earlier messages are not shown" in one.words(chat)
    assert "\n29 \u3042" in one.words(chat)
    assert one.ask("ping") == {}


def test_a_window_that_saw_more_than_is_known(home: Home, client: Client, host: Host) -> None:
    """The file with the marks is lost."""
    client.call("session/new", sessionId="a", messages=[user("Mine")])
    chat = window(host).open("a")
    with pytest.raises(Answered) as refused:
        Window(host).ask("reconnect", clientId="w", lastSeenServerSeq=2**50, subscriptions=[chat])
    assert refused.value.code == -32008


def test_a_window_that_does_not_read_is_cut_off(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a")
    one = window(host)
    one.open("a")
    text = "x" * 1_000_000
    for at in range(100):
        append(client, user(f"{at} {text}"))
    wait_until(lambda: client.call("daemon/status")["ahp"]["windows"] == 0)
    with pytest.raises(ConnectionClosed):
        one.until(lambda: False)


def test_many_messages_are_cut_where_a_turn_begins(client: Client, host: Host) -> None:
    client.call("session/new", sessionId="a")
    for at in range(0, 400, 50):
        append(
            client, *(one for no in range(at, at + 50) for one in (user(f"user {no}"), assistant(f"assistant {no}")))
        )
    one = window(host)
    chat = one.open("a")
    turns = one.states[chat]["turns"]
    assert "200 earlier messages" in turns[0]["responseParts"][0]["content"]
    assert len(turns) + ("activeTurn" in one.states[chat]) == 301
    assert one.words(chat).removesuffix("\n...").endswith("> user 399\nassistant 399")


def test_the_command_listens_and_the_daemon_stops_with_windows(shell: Shell) -> None:
    host, listening = by_command(shell)
    one = window(host)
    with pytest.raises(Answered):
        Window(host).ask("initialize", protocolVersions=["1.0.0"], clientId="w")
    said = shell("status").out
    assert f"127.0.0.1:{host.port}" in said
    assert "speaks only 1.0.0 of the Agent Host Protocol" in said
    listening.terminate()
    listening.wait(20)
    assert one.ask("ping") == {}
    assert shell("stop").code == 0
    with pytest.raises(ConnectionClosed):
        one.until(lambda: False)
