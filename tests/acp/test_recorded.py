"""What editor and agent say becomes a session."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sessiond.acp.pump import MOST_STARTS
from sessiond.client import Appended, Extended, SessionNotFound
from tests.acp.editor import AGENT, Editor, Peer, recorded, spools
from tests.shell import Shell, wait_until
from tests.suite.explore import seeds

_KILLS = seeds(few=1, usual=1)


_LONG = [f"long {n} " + "".join(f"{k} " for k in range(1000)) for n in range(3)]


def _replies(shell: Shell) -> list[str]:
    return [one.text for one in recorded(shell) if one.role == "assistant"]


def test_a_turn_with_everything(shell: Shell) -> None:
    """Prompt, thought, text, tool call with arguments, permission with what was chosen, result and stop reason are messages of
    a session, and the agent's messages are valid by the protocol's own types.
    """
    editor = Editor(shell, check=True)
    editor.begin()
    number = editor.prompt("think plan tool ask now")
    while editor.read().get("method") != "session/request_permission":
        pass
    editor.send({"id": 900, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}})
    assert editor.until(number)["result"] == {"stopReason": "end_turn"}
    editor.end()
    messages = recorded(shell)
    assert [(one.role, one.text, one.status) for one in messages] == [
        ("user", "think plan tool ask now", None),
        ("assistant", "I shall look.", "done"),
        ("assistant", "", "done"),
        ("system", "Permission asked for ls (Allow, Reject): Allow", "done"),
        ("tool", "apple.txt", None),
        ("assistant", "think plan tool ask now ", "done"),
    ]
    assert messages[1].thinking == "Let me think."
    (call,) = messages[2].tool_calls or []
    assert (call.id, call.name, call.arguments) == ("c1", "ls", {"command": "ls"})
    assert messages[4].tool_call_id == "c1"
    assert (messages[3].metadata or {})["acp"]["permission"]["outcome"]["optionId"] == "yes"
    assert (messages[5].metadata or {})["acp"] == {"stopReason": "end_turn"}
    with shell.client() as client:
        info = client.session("acp-s1").info()
        assert (info.name, info.model, info.cwd) == ("think plan tool ask now", "m-1", "/tmp")
        assert info.metadata["acp"]["agent"] == "rule"
        assert client.session("acp-s1").state("acp.plan")["acp.plan"][0]["content"] == "Do it"


def test_others_see_a_reply_grow(shell: Shell) -> None:
    """While the agent still speaks, another client gets its words; a cancelled turn is kept as interrupted."""
    editor = Editor(shell)
    editor.begin()
    number = editor.prompt("please wait")
    with shell.client() as client:
        wait_until(lambda: any(one.session_id == "acp-s1" for one in client.sessions()))
        with client.session("acp-s1").changes(since=0) as changes:
            seen = ""
            while "wait" not in seen.replace("please wait", "", 1) or not seen.endswith("wait "):
                change = changes.wait(20)
                assert change is not None
                if isinstance(change, Appended):
                    seen += "".join(one.text for one in change.messages)
                elif isinstance(change, Extended):
                    seen += change.text
        editor.send({"method": "session/cancel", "params": {"sessionId": "s1"}})
        assert editor.until(number)["result"]["stopReason"] == "cancelled"
    editor.end()
    last = recorded(shell)[-1]
    assert (last.text, last.status) == ("please wait ", "interrupted")


_EDITOR = """
import json, subprocess, sys
agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "long wait"}]}
for n, (method, params) in enumerate((("initialize", {}), ("session/new", {}), ("session/prompt", prompt))):
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}).encode() + b"\\n")
    agent.stdin.flush()
    sys.stdout.buffer.write(agent.stdout.readline())
while line := agent.stdout.readline():
    sys.stdout.buffer.write(line)
    sys.stdout.flush()
"""


@pytest.mark.parametrize("seed", _KILLS)
def test_an_editor_that_is_killed(shell: Shell, seed: int) -> None:
    """After kill -9 of the editor's process in the middle of a reply, all that it had shown is in the session, once, the reply has
    ended, and nothing is left running.
    """
    command = shell.command("acp", "--", sys.executable, str(AGENT), "s1")
    editor = subprocess.Popen([sys.executable, "-c", _EDITOR, *command], stdout=subprocess.PIPE, env=shell.env, cwd="/")
    assert editor.stdout is not None
    shown = [editor.stdout.readline() for _ in range(2 + random.Random(seed).randrange(900))]
    recorder = int(Path(f"/proc/{editor.pid}/task/{editor.pid}/children").read_text())
    editor.kill()
    shown += editor.stdout.readlines()
    editor.stdout.close()
    editor.wait()
    updates = [json.loads(line) for line in shown[2:] if line.endswith(b"\n")]
    said = "".join(one["params"]["update"]["content"]["text"] for one in updates)
    messages = recorded(shell)
    assert [one.role for one in messages] == ["user", "assistant"]
    assert messages[1].status == "interrupted"
    assert messages[1].text.startswith(said)
    wait_until(lambda: not Path(f"/proc/{recorder}").exists())


@pytest.mark.parametrize("seed", _KILLS)
@pytest.mark.parametrize("who", ["editor", "recorder", "agent"])
def test_a_kill_at_any_moment(shell: Shell, who: str, seed: int) -> None:
    """Whoever is killed in the middle of a reply, all that reached the editor is in the session, once, and the reply has ended."""
    editor = Editor(shell)
    editor.begin()
    editor.prompt("long wait")
    for _ in range(random.Random(seed).randrange(900)):
        editor.read()
    children = Path(f"/proc/{editor.process.pid}/task/{editor.process.pid}/children").read_text().split()
    if who == "editor":
        editor.process.stdin.close()  # type: ignore[union-attr]
        editor.process.stdout.close()  # type: ignore[union-attr]
        editor.process.stdin = editor.process.stdout = None
    else:
        os.kill(editor.process.pid if who == "recorder" else int(children[0]), signal.SIGKILL)
        while True:
            try:
                editor.read()
            except (EOFError, ValueError):
                break
    editor.process.wait(30)
    messages = recorded(shell)
    assert [one.role for one in messages] == ["user", "assistant"]
    assert messages[1].status == "interrupted"
    whole = "long wait " + "".join(f"{n} " for n in range(1000))
    assert whole.startswith(messages[1].text)
    assert messages[1].text.startswith(editor.said)


def test_a_daemon_that_is_away(shell: Shell) -> None:
    """While no daemon can be reached the conversation goes on; what was said is kept, for its owner only, and brought in
    later, once.
    """
    socket_folder = shell.path / "run"
    socket_folder.write_text("not a folder")
    shell.write_config("[nonsense]\nx = 1\n")
    editor = Editor(shell)
    editor.begin()
    editor.until(editor.prompt("tool now"))
    (spool,) = spools(shell)
    assert spool.stat().st_mode & 0o777 == 0o600
    os.kill(editor.process.pid, signal.SIGKILL)  # and the recorder with it, before it delivered anything
    editor.process.wait()
    wait_until(lambda: shell("acp", "--recover").code == 1)
    assert spools(shell) == [spool]
    socket_folder.unlink()
    (shell.path / "config" / "config.toml").unlink()
    wait_until(lambda: shell("acp", "--recover").code == 0 and not spools(shell))
    assert [one.text for one in recorded(shell)] == ["tool now", "I shall look.", "", "apple.txt", "tool now "]


def test_a_daemon_that_is_killed_again_and_again(shell: Shell) -> None:
    """A daemon that is killed while a reply streams costs no word of it and doubles none."""
    editor = Editor(shell)
    editor.begin()
    for n in range(3):
        number = editor.prompt(f"long {n}")
        for _ in range(300):
            editor.read()
        if shell.held():
            shell.kill()
        editor.until(number)
    editor.end()
    assert _replies(shell) == _LONG


def test_two_agents_that_count_from_one(shell: Shell) -> None:
    """Two agents that both call their session `s1` have sessions of their own."""
    for text in ("first", "second"):
        editor = Editor(shell)
        editor.begin()
        editor.until(editor.prompt(text))
        editor.end()
        wait_until(lambda: not spools(shell))
    with shell.client() as client:
        sessions = {one.name: one.session_id for one in client.sessions()}
        assert set(sessions) == {"first", "second"}
        assert all(len(client.session(one).messages()) == 2 for one in sessions.values())


def _recorders(shell: Shell) -> list[int]:
    """The processes that record for this home."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"sessiond.acp.recorder" in words and os.fsencode(shell.data / "acp") in words:
                found.append(int(path.parent.name))
    return found


def test_a_recorder_that_is_killed_is_started_again(shell: Shell) -> None:
    """If the process that records is killed, the conversation goes on, and another one records all of it, once."""
    editor = Editor(shell)
    editor.begin()
    for n in range(3):
        number = editor.prompt(f"long {n}")
        for _ in range(200):
            editor.read()
        wait_until(lambda: len(_recorders(shell)) == 1)
        os.kill(_recorders(shell)[0], signal.SIGKILL)
        editor.until(number)
    editor.end()
    # A recorder that dies at the same moment as the connection has nobody to start another: the next one brings it in.
    wait_until(lambda: shell("acp", "--recover").code == 0 and not spools(shell))
    assert _replies(shell) == _LONG


def test_recorders_that_are_all_killed(shell: Shell) -> None:
    """It is said once where the words are and what brings them in; `doctor` says it too, as long as nobody does."""
    agent = [sys.executable, str(AGENT), "s1"]
    editor = Peer(shell.start("acp", "--", *agent), "s1")
    editor.initialize()
    editor.call("session/new", cwd="/tmp", mcpServers=[])
    for _ in range(MOST_STARTS):
        wait_until(lambda: len(_recorders(shell)) == 1)
        os.kill(_recorders(shell)[0], signal.SIGKILL)
        wait_until(lambda: not _recorders(shell))
        editor.until(editor.prompt("long"))
    assert editor.end() == 7
    [spool] = spools(shell)
    told = editor.process.stderr.read().decode()  # type: ignore[union-attr]
    assert told.count("\n") == 1
    assert f"is kept in {spool}. When this conversation has ended, `sessiond acp --recover` brings it in" in told
    found = [one for one in shell("doctor", "--json").json["findings"] if one["what"] == str(spool)]
    assert ["sessiond acp --recover" in one["hint"] and "is in no session yet" in one["problem"] for one in found] == [
        True
    ]
    assert shell("acp", "--recover").code == 0
    assert shell("doctor").code == 0
    assert len(_replies(shell)) == MOST_STARTS


def _after_a_turn(shell: Shell) -> tuple[Editor, str]:
    """An editor whose first prompt and its reply are recorded, and the id of that session."""
    editor = Editor(shell)
    editor.begin()
    editor.until(editor.prompt("first"))
    with shell.client() as client:
        wait_until(lambda: [info.message_count for info in client.sessions()] == [2])
        [info] = client.sessions()
    return editor, info.session_id


@pytest.mark.parametrize("permanent", [False, True], ids=["to the trash", "for good"])
def test_a_session_that_was_removed_stays_so(shell: Shell, permanent: bool) -> None:
    """The spool has all that it said, and is read again from its beginning when its recorder is killed."""
    editor, one = _after_a_turn(shell)
    with shell.client() as client:
        client.session(one).delete(permanent=permanent)
    wait_until(lambda: len(_recorders(shell)) == 1)
    os.kill(_recorders(shell)[0], signal.SIGKILL)
    wait_until(lambda: not _recorders(shell))
    editor.until(editor.prompt("long second"))  # in many pieces: one of them finds that nobody records
    [spool] = spools(shell)
    if permanent:
        wait_until(lambda: b"second" not in spool.read_bytes())
    editor.end()
    wait_until(lambda: shell("acp", "--recover").code == 0 and not spools(shell))
    with shell.client() as client:
        assert list(client.sessions()) == []
    assert list((shell.data / "acp").glob("*.made")) == []


@pytest.mark.parametrize("by_way_of_trash", [False, True], ids=["at once", "from the trash"])
def test_no_word_stays_of_what_was_deleted_for_good(shell: Shell, by_way_of_trash: bool) -> None:
    """The spool of a connection that is open keeps what other sessions said, and nothing of that one, also of what comes later."""
    editor, one = _after_a_turn(shell)
    [spool] = spools(shell)
    with shell.client() as client:
        if by_way_of_trash:
            client.session(one).delete()
            kept = editor.call("session/new", cwd="/tmp", mcpServers=[])["result"]["sessionId"]
            editor.session, other = kept, editor.session
            editor.until(editor.prompt("other"))
            wait_until(lambda: any(info.message_count == 2 for info in client.sessions()))
            assert b"first" in spool.read_bytes()
            editor.session = other
        client.session(one).delete(permanent=True)
        wait_until(lambda: b"first" not in spool.read_bytes())
    editor.until(editor.prompt("second"))
    wait_until(lambda: b"second" not in spool.read_bytes())
    assert (b"other" in spool.read_bytes()) == by_way_of_trash
    editor.end()
    wait_until(lambda: not spools(shell))


@pytest.mark.parametrize("all_of_it", [False, True], ids=["truncated", "cleared"])
def test_messages_that_were_removed_stay_so(shell: Shell, all_of_it: bool) -> None:
    """The spool has them, and is read again from its beginning when its recorder is killed. What was never recorded is."""
    editor, one = _after_a_turn(shell)
    [made] = (shell.data / "acp").glob("*.made")
    wait_until(lambda: b'["s1", 2]' in made.read_bytes())
    with shell.client() as client:
        session = client.session(one)
        if all_of_it:
            session.clear()
        else:
            session.truncate(session.messages()[0].seq)
    wait_until(lambda: len(_recorders(shell)) == 1)
    os.kill(_recorders(shell)[0], signal.SIGKILL)
    editor.until(editor.prompt("second"))
    editor.end()
    wait_until(lambda: shell("acp", "--recover").code == 0 and not spools(shell))
    assert [message.text for message in recorded(shell)] == [*([] if all_of_it else ["first"]), "second", "second "]
    assert list((shell.data / "acp").glob("*.made")) == []


def test_a_session_that_was_moved_goes_on_where_it_is(shell: Shell) -> None:
    """Whether its recorder lives on or another one reads the spool again."""
    (shell.path / "other").mkdir()
    shell.write_config(f'[stores.other]\npath = "{shell.path / "other"}"\nformat = "jsonl"\n')
    editor, one = _after_a_turn(shell)
    with shell.client() as client:
        client.session(one).move("other")
        editor.until(editor.prompt("second"))
        wait_until(lambda: len(client.session(f"other/{one}").messages()) == 4)
        wait_until(lambda: len(_recorders(shell)) == 1)
        os.kill(_recorders(shell)[0], signal.SIGKILL)
        editor.until(editor.prompt("third"))
        editor.end()
        wait_until(lambda: shell("acp", "--recover").code == 0 and not spools(shell))
        said = [message.text for message in client.session(f"other/{one}").messages() if message.role == "user"]
        assert said == ["first", "second", "third"]
        assert [info.session_id for info in client.sessions()] == [f"other/{one}"]


def test_a_session_that_is_refused_holds_up_no_other(shell: Shell) -> None:
    """While the store of one is away, what is said in another of the same connection is recorded; the rest comes later, once."""
    other, aside = shell.path / "other", shell.path / "aside"
    other.mkdir()
    shell.write_config(f'[stores.other]\npath = "{other}"\nformat = "jsonl"\n')
    editor, one = _after_a_turn(shell)
    with shell.client() as client:

        def said(session: str) -> list[str]:
            with contextlib.suppress(SessionNotFound):  # not yet
                return [message.text for message in client.session(session).messages()]
            return []

        moved = client.session(one).move("other").id
        wait_until(lambda: not client.save() and (other / f"{one}.jsonl").exists())
        other.rename(aside)
        wait_until(lambda: client.status().stores[-1].problem is not None)
        editor.until(editor.prompt("second"))
        editor.session = editor.call("session/new", cwd="/tmp", mcpServers=[])["result"]["sessionId"]
        editor.until(editor.prompt("third"))
        wait_until(lambda: said("acp-s1x2") == ["third", "third "])
        aside.rename(other)
        wait_until(lambda: client.status().stores[-1].problem is None)
        wait_until(lambda: said(moved) == ["first", "first ", "second", "second "])
    editor.end()
    wait_until(lambda: not spools(shell))


def test_a_name_that_a_person_gave_stays(shell: Shell) -> None:
    """The agent's title takes the place of the first prompt and of its own earlier title, and of nothing else."""
    editor = Editor(shell)
    editor.begin()
    with shell.client() as client:

        def name_is(wanted: str) -> bool:
            return [info.name for info in client.sessions()] == [wanted]

        editor.until(editor.prompt("first"))
        wait_until(lambda: name_is("first"))
        for word in ("one", "two"):
            editor.until(editor.prompt(f"entitle {word}"))
            wait_until(lambda word=word: name_is(f"The agent's {word}"))
        [session] = [client.session(info.session_id) for info in client.sessions()]
        session.update(name="Mine")
        editor.until(editor.prompt("entitle three"))
        wait_until(lambda: len(session.messages()) == 8)
        editor.end()
        wait_until(lambda: not spools(shell))
        assert name_is("Mine")


def _descendants(number: int) -> list[int]:
    below = [int(one) for one in Path(f"/proc/{number}/task/{number}/children").read_text().split()]
    return [*below, *(deeper for one in below for deeper in _descendants(one))]


def test_an_editor_that_kills_what_descends_from_the_agent(shell: Shell) -> None:
    """acpx ends every process that descends from the one that it started, in whatever session it is. The recorder does not: what was
    said is in the session, without another connection that brings it in.
    """
    editor = Editor(shell)
    editor.begin()
    editor.prompt("long wait")
    wait_until(lambda: len(_recorders(shell)) == 1)
    for _ in range(500):
        editor.read()
    for number in (*_descendants(editor.process.pid), editor.process.pid):
        os.kill(number, signal.SIGKILL)
    editor.process.wait(30)
    _, reply = recorded(shell)
    assert reply.status == "interrupted"
    assert reply.text.startswith(editor.said)


def test_a_conversation_that_the_agent_repeats_is_there_once(shell: Shell) -> None:
    """A session that is loaded again in another process goes on in the session that it was."""
    for text in ("first", "second"):
        editor = Editor(shell)
        if text == "first":
            editor.begin()
        else:
            editor.until(editor.request("session/load", sessionId="s1", cwd="/tmp", mcpServers=[]))
        editor.until(editor.prompt(text))
        editor.end()
        texts = [one.text for one in recorded(shell)]
    assert texts == ["first", "first ", "second", "second "]
