"""`sessiond repl`: at a real terminal (tmux), and with lines in and lines out."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import re
import signal
import sys
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sessiond.client import connect
from sessiond.errors import DaemonUnreachable
from tests.clients.tmux import Terminal
from tests.hostile.harm import standing_still
from tests.shell import ROOT, Shell, wait_until

CLIENT = str(ROOT / "clients" / "repl")
ID = re.compile(r"new session (\S+)")


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = Shell(PYTHONPATH=os.pathsep.join((str(ROOT), CLIENT)))
    yield made
    made.close()


@pytest.fixture
def repl(shell):
    """Starts `sessiond repl ARGUMENTS` at a terminal."""
    terminals = []

    def start(*arguments: str) -> Terminal:
        folder = shell.path / f"t{len(terminals)}"
        folder.mkdir()
        terminals.append(Terminal(shell.command("repl", *arguments), shell.env, folder))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


@pytest.fixture
def other(shell):
    """Another tool, connected to the same daemon."""
    with shell.client(name="vim") as client:
        yield client


def new_id(terminal):
    terminal.shows(":0]")  # the prompt is there
    return ID.search(terminal.screen)[1]


def read(home, session_id):
    """The result of session/open, from a separate connection. A daemon runs, or is being started."""
    answers = []

    def answered() -> bool:
        with contextlib.suppress(DaemonUnreachable), connect(home=str(home.path), start=False) as client:
            answers.append(client.call("session/open", {"sessionId": session_id}))
        return bool(answers)

    wait_until(answered)
    return answers[0]


def said(home, session_id):
    return [message["content"] for message in read(home, session_id)["messages"]]


def last(home, session_id):
    return read(home, session_id)["messages"][-1]


def agent(home, script):
    """A command that plays the assistant, in Python."""
    path = home.path / "agent.py"
    path.write_text("import json, signal, sys, time\n" + script)
    return f"{sys.executable} {path}"


# Lines in, lines out


def test_lines(shell):
    """Without a terminal every line is said, and the last words are the id and how to continue."""
    done = shell("repl", stdin="hello こんにちは 😀\nand\\\nmore\n//slash\n")
    session_id = ID.search(done.out)[1]
    assert done.code == 0
    assert done.out.endswith(f"to resume: sessiond repl --session-id {session_id}\n")
    assert said(shell, session_id) == ["hello こんにちは 😀", "and\nmore", "/slash"]


def test_resume_by_lines(shell):
    """A session that is resumed shows what was said, and continues."""
    first = ID.search(shell("repl", stdin="初めまして\n").out)[1]
    done = shell("repl", "--session-id", first, stdin="again\n")
    assert "初めまして" in done.out
    assert said(shell, first) == ["初めまして", "again"]


def test_commands_by_lines(shell):
    """Every command does what it says."""
    script = [
        "日本語の話", "/name 私の chat", "/tag a b", "/tag -a", "/tag", "/name", "/notes Plan: 猫を撮る", "/notes",
        "/save", "/search 日本語", "/sessions", "/export", "/export org", "/fork 別の道", "/archive", "/archive off", "/help",
    ]  # fmt: skip
    done = shell("repl", stdin="\n".join(script))
    assert done.code == 0, done
    out = done.out
    for expected in (
        "name: 私の chat", "tags: b", "note Plan: 猫を撮る", "* Plan\n猫を撮る", "── saved ", "»日本語«の話", "1 found", "# 私の chat",
        "#+TITLE: 私の chat", "別の道", "── archived", "── not archived", "/load ID\t",
    ):  # fmt: skip
        assert expected.casefold() in out.casefold(), (expected, out)
    listed = {info["name"]: info for info in shell("list", "--json").json["sessions"]}
    assert listed["私の chat"]["tags"] == ["b"]
    assert listed["別の道"]["parent"]["sessionId"] == listed["私の chat"]["sessionId"]


def test_load_saves_first(shell):
    """/load saves the session that is left; one that is not there leaves all as it is."""
    first = ID.search(shell("repl", stdin="one\n").out)[1]
    done = shell("repl", stdin=f"two\n/load nothing\nthree\n/load {first}\nfour\n")
    second = ID.search(done.out)[1]
    assert done.code == 1
    assert "nothing" in done.err
    assert said(shell, second) == ["two", "three"]
    assert said(shell, first) == ["one", "four"]
    assert "three" in (shell.data / "sessions" / f"{second}.jsonl").read_text()


def test_reset(shell, other):
    """/reset empties the session under the same id; what was there can be had back."""
    done = shell("repl", stdin="before\n/reset\nafter\n")
    session_id = ID.search(done.out)[1]
    assert said(shell, session_id) == ["after"]
    deleted = other.call("session/list", {"filter": {"deleted": True}})["sessions"]
    assert deleted[0]["sessionId"].startswith(f"{session_id}.was-")


def test_new(shell):
    """/new begins another session and leaves the first one as it was."""
    done = shell("repl", stdin="one\n/new second one\ntwo\n")
    first, second = ID.findall(done.out)
    assert (said(shell, first), said(shell, second)) == (["one"], ["two"])
    assert read(shell, second)["session"]["name"] == "second one"


def test_export_to_a_file(shell):
    """/export writes a file in the format of its ending, and over an existing one only when told to."""
    path = shell.path / "out 1.md"
    done = shell("repl", stdin=f"hello\n/export {path}\n/export {path}\n/export text {path} --overwrite\n")
    assert done.code == 1
    assert "already" in done.err
    assert "hello" in path.read_text()
    assert not path.read_text().startswith("# ")


def test_export_by_a_short_name(shell):
    """As for `sessiond export`: md and txt are formats, and not files."""
    done = shell("repl", stdin="/name short\nhello\n/export md\n/export txt\n", cwd=str(shell.path))
    assert done.code == 0 and "# short" in done.out, done
    assert not [name for name in ("md", "txt") if (shell.path / name).exists()]


def test_older(shell, other):
    """A session of 20,000 messages opens with its newest ones, the others come on demand."""
    other.call("session/new", {"sessionId": "long"})
    for part in range(2):
        messages = [{"role": "user", "content": f"message {part * 10_000 + nth}."} for nth in range(10_000)]
        other.call("session/append", {"sessionId": "long", "messages": messages})
    done = shell("repl", "--session-id", "long", stdin="/older\n/older 30\n")
    shown = [int(nth) for nth in re.findall(r"message (\d+)\.", done.out)]
    assert shown == [*range(19980, 20000), *range(19960, 19980), *range(19930, 19960)]
    assert "19980 older messages" in done.out


def test_no_older(shell, other):
    """At the beginning of a session /older says so."""
    messages = [{"role": "user", "content": f"message {nth}."} for nth in range(25)]
    other.call("session/new", {"sessionId": "short", "messages": messages})
    done = shell("repl", "--session-id", "short", stdin="/older\n/older\n")
    assert re.findall(r"message (\d+)\.", done.out) == [str(nth) for nth in (*range(5, 25), *range(5))]
    assert "this is the beginning" in done.out
    assert "there are no older messages" in done.out


def test_bad_lines(shell):
    """An unknown command, a note without a text, bytes that are not UTF-8: one line on stderr each, the rest continues."""
    process = shell.start("repl")
    out, err = process.communicate(b"/nope\n/notes x\n\xff\xfe\nfine\n", timeout=30)
    assert process.returncode == 1
    assert len(err.splitlines()) == 3
    assert said(shell, ID.search(out.decode())[1]) == ["fine"]


def test_no_such_session(shell):
    """A session id that names nothing ends it at once, with what is wrong."""
    done = shell("repl", "--session-id", "nothing")
    assert done.code == 1
    assert "nothing" in done.err
    assert done.out == ""


def test_no_daemon(shell):
    """Where no daemon can be started the exit code says so."""
    shell.write_config("[nonsense]\n")
    done = shell("repl", stdin="lost\n")
    assert done.code == 69
    assert "nonsense" in done.err


@pytest.mark.parametrize("stopped", [None, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_left_while_more_may_be_typed(shell, stopped):
    """It ends in good order although standard input stays open."""
    process = shell.start("repl")
    process.stdin.write(b"hello\n" if stopped else b"hello\n/quit\n")
    process.stdin.flush()
    if stopped:
        session_id = ID.search(process.stdout.readline().decode())[1]
        wait_until(lambda: said(shell, session_id) == ["hello"])
        process.send_signal(stopped)
    assert process.wait(30) == 0, process.stderr.read()
    assert b"to resume" in process.stdout.read()


# The agent


def test_agent_by_lines(shell):
    """The command gets the transcript as JSON Lines, and what it prints is the reply."""
    command = agent(
        shell,
        """
lines = [json.loads(line) for line in sys.stdin]
print("heard", len(lines), lines[-1]["role"], lines[-1]["content"])
print()
print("終わり")
""",
    )
    done = shell("repl", "--agent", command, stdin="質問\nsecond\n")
    session_id = ID.search(done.out)[1]
    assert done.code == 0, done
    assert "heard 1 user 質問" in done.out
    messages = read(shell, session_id)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    assert messages[1]["content"] == "heard 1 user 質問\n\n終わり"
    assert messages[3]["content"] == "heard 3 user second\n\n終わり"
    assert messages[1]["status"] == "done"


def test_agent_fails(shell):
    """An exit code other than 0 makes the reply an error, which keeps what was printed and why."""
    done = shell("repl", "--agent", "echo some; echo 'out of tea' >&2; exit 7", stdin="go\n")
    message = last(shell, ID.search(done.out)[1])
    assert done.code == 1
    assert "out of tea" in done.err
    assert (message["content"], message["status"]) == ("some", "error")
    assert message["metadata"] == {"exitCode": 7, "stderr": "out of tea"}


def test_agent_that_reads_nothing(shell, other):
    """A command that closes its input, and prints half a character at its end, causes no trouble."""
    other.call("session/new", {"sessionId": "big", "messages": [{"role": "user", "content": "x" * 1_000_000}]})
    done = shell("repl", "--session-id", "big", "--agent", r"exec <&-; printf 'ok \343\201'", stdin="go\n")
    assert done.code == 0, done
    assert said(shell, "big")[-1] == "ok �"


def test_agent_survives_the_daemon(shell):
    """A reply that is being written while the daemon is killed continues with the next one, nothing lost, nothing twice."""
    go = shell.path / "go"
    command = agent(
        shell,
        f"""
import os
print("first 一", flush=True)
while not os.path.exists({str(go)!r}):
    time.sleep(0.01)
print("second 二")
""",
    )
    process = shell.start("repl", "--agent", command, text=True, encoding="utf-8")
    session_id = ID.search(process.stdout.readline())[1]
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith("── assistant")
    wait_until(lambda: "first 一" in said(shell, session_id)[-1])
    shell.kill()
    go.touch()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    message = last(shell, session_id)
    assert (message["content"], message["status"]) == ("first 一\nsecond 二", "done")
    assert out.count("first") == out.count("second") == 1


# At a terminal


def test_say_and_resume(shell, repl):
    """What is typed is kept; /quit says how to come back; --session-id shows it again."""
    first = repl()
    session_id = new_id(first)
    first.say("hello 日本語 😀")
    wait_until(lambda: said(shell, session_id) == ["hello 日本語 😀"])
    first.shows(f"[{session_id}:1]")
    first.say("/quit")
    first.shows(f"to resume: sessiond repl --session-id {session_id}")
    wait_until(lambda: first.ended)
    second = repl("--session-id", session_id)
    second.shows("hello 日本語")


def test_live(shell, repl, other):
    """Other tools' messages appear during typing, and the typed text remains; a reply grows before it ends."""
    terminal = repl()
    session_id = new_id(terminal)
    terminal.type("half a tho")
    terminal.shows("> half a tho")
    other.call("session/append", {"sessionId": session_id, "messages": [{"role": "user", "content": "from afar 遠く"}]})
    terminal.shows("from afar 遠く")
    terminal.shows("· vim")
    reply = {"id": "r", "role": "assistant", "content": "Once", "status": "streaming"}
    other.call("session/append", {"sessionId": session_id, "messages": [reply]})
    terminal.shows("Once")
    other.call("session/extend", {"sessionId": session_id, "messageId": "r", "text": " upon\na ti"})
    terminal.shows("a ti")
    other.call("session/extend", {"sessionId": session_id, "messageId": "r", "text": "me"})
    other.call("session/finish", {"sessionId": session_id, "messageId": "r"})
    terminal.type("ught")
    terminal.shows("> half a thought")
    assert terminal.shows("Once upon\na time").count("Once upon") == 1
    terminal.type("", "Enter")
    wait_until(lambda: said(shell, session_id)[-1] == "half a thought")


def test_a_reply_that_is_cut_off(shell, repl):
    """Where the writer of a reply goes away the reply ends as interrupted."""
    terminal = repl()
    session_id = new_id(terminal)
    with shell.client() as other:
        reply = {"role": "assistant", "content": "half a", "status": "streaming"}
        other.call("session/append", {"sessionId": session_id, "messages": [reply]})
        terminal.shows("half a")
    terminal.shows("── interrupted")


def test_changes_of_others(shell, repl, other):
    """Another client's changes of name, tags and notes, an undo and the end of a session are reported."""
    terminal = repl()
    session_id = new_id(terminal)
    other.call("session/update", {"sessionId": session_id, "name": "名前", "tags": ["t"]})
    terminal.shows("name: 名前")
    terminal.shows("[名前:0]")
    other.call("note/append", {"sessionId": session_id, "heading": "H", "content": "c"})
    terminal.shows("note H: c")
    other.call("session/append", {"sessionId": session_id, "messages": [{"role": "user", "content": "x"}] * 2})
    terminal.shows("[名前:2]")
    seq = other.call("session/read", {"sessionId": session_id})["messages"][0]["seq"]
    other.call("session/truncate", {"sessionId": session_id, "afterSeq": seq})
    terminal.shows("taken back")
    terminal.shows("[名前:1]")
    other.call("session/delete", {"sessionId": session_id})
    terminal.shows("was deleted")
    terminal.say("still here")
    terminal.shows("> still here", 2)  # it could not be kept, so it is in the input again


def test_kill_while_idle(shell, repl):
    """After the daemon is killed the next one is started, and nothing is shown twice."""
    terminal = repl()
    session_id = new_id(terminal)
    terminal.say("before")
    wait_until(lambda: said(shell, session_id) == ["before"])
    shell.kill()
    wait_until(shell.held)
    terminal.say("after")
    wait_until(lambda: said(shell, session_id) == ["before", "after"])
    shell("append", session_id, "from the shell")
    screen = terminal.shows("from the shell")
    assert screen.count("before") == screen.count("after") == 1


def test_stopped_on_purpose(shell, repl):
    """A daemon that was stopped stays stopped until something is said; meanwhile the status line says so."""
    terminal = repl()
    session_id = new_id(terminal)
    terminal.say("before")
    wait_until(lambda: said(shell, session_id) == ["before"])
    shell("stop")
    terminal.shows("no daemon")
    assert not shell.held()
    terminal.say("after")
    wait_until(lambda: shell.held() and said(shell, session_id) == ["before", "after"])


def test_catching_up(shell, repl):
    """What others said while the connection was gone is shown once, in order."""
    terminal = repl()
    session_id = new_id(terminal)
    terminal.say("here")
    wait_until(lambda: said(shell, session_id) == ["here"])
    os.kill(terminal.pid, signal.SIGSTOP)
    shell("append", session_id, "missed 1")
    shell.kill()
    shell("append", session_id, "missed 2")
    os.kill(terminal.pid, signal.SIGCONT)
    screen = terminal.shows("missed 2")
    assert screen.index("missed 1") < screen.index("missed 2")
    assert screen.count("here") == screen.count("missed 1") == screen.count("missed 2") == 1


def test_drafts(shell, repl):
    """What was typed and not sent survives a terminal that is killed, and is gone from the drafts once it is sent."""
    terminal = repl()
    session_id = new_id(terminal)
    terminal.type("下書き not sent")

    def draft():
        return read(shell, session_id)["state"].get("draft:repl")

    wait_until(lambda: draft() == "下書き not sent")
    os.kill(terminal.pid, signal.SIGKILL)
    again = repl("--session-id", session_id)
    again.shows("> 下書き not sent")
    again.type("", "Enter")
    wait_until(lambda: said(shell, session_id) == ["下書き not sent"] and draft() is None)


def test_a_draft_while_there_is_no_daemon(shell, repl):
    """Text typed while no daemon runs is kept as soon as one runs, without another key."""
    terminal = repl()
    session_id = new_id(terminal)
    terminal.say("before")
    wait_until(lambda: said(shell, session_id) == ["before"])
    shell("stop")
    terminal.shows("no daemon")
    terminal.type("typed meanwhile 間")
    terminal.shows("> typed meanwhile 間")
    shell("append", session_id, "from the shell")  # starts one
    wait_until(lambda: read(shell, session_id)["state"].get("draft:repl") == "typed meanwhile 間")


def test_a_message_that_was_taken_back_but_arrived(shell, repl, other):
    """It leaves the input when it is seen in the session, and the same words can be said once more later."""
    terminal = repl()
    session_id = new_id(terminal)
    with standing_still(other.call("daemon/hello")["pid"]):
        terminal.say("yes")
        terminal.shows("Ctrl-C takes the message back")
        terminal.type("", "C-c")
        terminal.shows("interrupted")
        terminal.shows("> yes", 2)
    terminal.shows("the message was added after all")
    terminal.say("yes")
    wait_until(lambda: said(shell, session_id) == ["yes", "yes"])


def test_moved_while_something_is_typed(shell, repl, other):
    """What was typed is said where the session is now, and neither comes back into the input nor stays a draft."""
    shelf = shell.path / "shelf"
    shelf.mkdir()
    other.call("store/adopt", {"path": str(shelf), "name": "shelf", "format": "jsonl"})
    terminal = repl()
    session_id = new_id(terminal)
    terminal.say("one")
    terminal.shows(":1]")
    terminal.type("hello")
    wait_until(lambda: read(shell, session_id)["state"].get("draft:repl") == "hello")
    other.call("session/move", {"sessionId": session_id, "store": "shelf"})
    terminal.shows(f"this session is shelf/{session_id} now")
    terminal.type(" world", "Enter")
    moved = f"shelf/{session_id}"
    wait_until(lambda: said(shell, moved) == ["one", "hello world"])
    wait_until(lambda: read(shell, moved)["state"].get("draft:repl") is None)
    terminal.shows(":2]")
    terminal.say("more")
    wait_until(lambda: said(shell, moved)[2:] == ["more"])


def test_what_a_deleted_session_did_not_take_stands_before_the_draft_of_the_next_one(shell, repl, other):
    """Both are in its input."""
    other.call("session/new", {"sessionId": "next"})
    other.call("state/set", {"sessionId": "next", "values": {"draft:repl": "draft of the next"}})
    terminal = repl()
    session_id = new_id(terminal)
    terminal.say("one")
    terminal.shows(":1]")
    other.call("session/delete", {"sessionId": session_id})
    terminal.shows("was deleted")
    terminal.say("homeless")
    terminal.shows("> homeless", 2)
    terminal.type("", "C-c")
    terminal.say("/load next")
    terminal.shows("draft of the next")
    terminal.type("", "Enter")
    wait_until(lambda: said(shell, "next") == ["homeless\n\ndraft of the next"])


def test_left_by_lines_while_the_daemon_stands_still(monkeypatch, capsys):
    """It ends soon, and names what may not have been kept."""
    monkeypatch.syspath_prepend(CLIENT)
    plain = importlib.import_module("sessiond_repl.plain")
    monkeypatch.setattr(plain, "PATIENCE_S", 0.01)
    chat = types.SimpleNamespace(screen=plain.PlainScreen(), failed=False)

    async def leave_in_the_middle():
        stopped = asyncio.Event()

        async def say(_):
            stopped.set()
            await asyncio.Event().wait()

        chat.say = say
        async with asyncio.timeout(20):
            await plain._take_or_stopped(chat, "precious", stopped)

    asyncio.run(leave_in_the_middle())
    assert chat.failed
    assert "it may not have: precious" in capsys.readouterr().err


def test_ended_while_a_message_is_on_its_way(repl, other):
    """SIGTERM ends it although the daemon stands still."""
    terminal = repl()
    new_id(terminal)
    with standing_still(other.call("daemon/hello")["pid"]):
        terminal.say("precious")
        terminal.shows("Ctrl-C takes the message back")
        os.kill(terminal.pid, signal.SIGTERM)
        wait_until(lambda: terminal.ended)


def test_editing(shell, repl):
    """Alt-Enter, a backslash and a paste make more than one line; Up brings back what was said; Ctrl-C empties the line."""
    terminal = repl()
    session_id = new_id(terminal)
    terminal.type("one", "M-Enter")
    terminal.type("two\\", "Enter")
    terminal.paste("three\nfour")
    terminal.type("", "Enter")
    wait_until(lambda: said(shell, session_id) == ["one\ntwo\nthree\nfour"])
    terminal.say("last")
    wait_until(lambda: len(said(shell, session_id)) == 2)
    terminal.shows(":2]")
    terminal.type("", "Up")
    terminal.shows("> last", 2)
    terminal.type("ing", "Enter")
    wait_until(lambda: said(shell, session_id)[-1] == "lasting")
    terminal.shows(":3]")
    terminal.type("not this", "C-c")
    terminal.say("but this")
    wait_until(lambda: said(shell, session_id)[-1] == "but this")


def test_completion(shell, repl, other):
    """/load offers sessions by name, with their count and tags; commands complete."""
    params = {
        "sessionId": "old-one",
        "name": "日記",
        "tags": ["private"],
        "messages": [{"role": "user", "content": "dear"}],
    }
    other.call("session/new", params)
    terminal = repl()
    new_id(terminal)
    terminal.type("/lo")
    terminal.shows("/load")
    terminal.type("ad 日記")
    terminal.shows("old-one")
    terminal.shows("1 messages private")
    terminal.type("", "Tab", "Enter", "Enter")
    terminal.shows("[日記:1]")
    terminal.shows("dear")


def test_agent_is_interrupted(shell, repl):
    """Ctrl-C stops the reply, keeps what came, and the conversation continues."""
    command = agent(
        shell,
        """
text = [json.loads(line)["content"] for line in sys.stdin][-1]
print("thinking about", text, flush=True)
if text == "long":
    time.sleep(60)
""",
    )
    terminal = repl("--agent", command)
    session_id = new_id(terminal)
    terminal.say("long")
    terminal.shows("thinking about long")
    terminal.shows("Ctrl-C stops it")
    terminal.type("", "C-c")
    terminal.shows("── interrupted")
    message = last(shell, session_id)
    assert (message["content"], message["status"]) == ("thinking about long", "interrupted")
    terminal.say("short")
    terminal.shows("thinking about short")
    wait_until(lambda: last(shell, session_id)["status"] == "done")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_it_ends_the_agent(shell, number):
    """A reply that is being written does not hold it up; what had come is kept as interrupted."""
    process = shell.start("repl", "--agent", "echo begun; exec sleep 100")
    process.stdin.write(b"go\n")
    process.stdin.flush()
    session_id = ID.search(process.stdout.readline().decode())[1]
    wait_until(lambda: said(shell, session_id)[-1:] == ["begun"])
    process.send_signal(number)
    assert process.wait(30) == 0, process.stderr.read()
    assert last(shell, session_id)["status"] == "interrupted"


def test_agent_that_does_not_listen(shell, repl):
    """A command that ignores the interrupt is killed by the second one."""
    command = agent(shell, "signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)")
    terminal = repl("--agent", command)
    session_id = new_id(terminal)
    terminal.say("go")
    terminal.shows("deaf")
    terminal.type("", "C-c", "C-c")
    terminal.shows("── interrupted")
    assert last(shell, session_id)["status"] == "interrupted"


def test_a_killed_terminal_interrupts_its_reply(shell, repl):
    """Where the terminal dies in the middle of a reply, what had come is kept as interrupted."""
    pid = shell.path / "agent.pid"
    terminal = repl("--agent", f"echo begun; echo $$ >{pid}; exec sleep 60")
    session_id = new_id(terminal)
    terminal.say("go")
    terminal.shows("begun")
    wait_until(lambda: said(shell, session_id)[-1] == "begun")
    os.kill(terminal.pid, signal.SIGKILL)
    wait_until(lambda: last(shell, session_id)["status"] == "interrupted")
    os.kill(int(pid.read_text()), signal.SIGKILL)  # nobody is there any more to end it


def test_it_says_that_no_model_answers(repl):
    """Unless a command does."""
    repl().shows("no model answers: --agent")
    other = repl("--agent", "cat")
    new_id(other)
    assert "no model" not in other.screen


def test_two_terminals(shell, repl):
    """Two terminals on one session see each other's words, and control characters do no harm."""
    one = repl()
    session_id = new_id(one)
    two = repl("--session-id", session_id)
    two.shows(f"session {session_id}")
    one.say("from one 一")
    two.shows("from one 一")
    two.say("from two 二")
    one.shows("from two 二")
    shell("append", session_id, "evil \x1b[2J\x1b]0;title\x07 text")
    one.shows("evil [2J]0;title text")


def test_two_terminals_have_one_draft(shell, repl, other):
    """Who sends what was typed leaves what was typed in the other terminal."""
    one = repl()
    session_id = new_id(one)
    two = repl("--session-id", session_id)
    two.shows(":0]")

    def draft():
        return other.call("state/get", {"sessionId": session_id})["values"].get("draft:repl")

    one.type("a long thought")
    wait_until(lambda: draft() == "a long thought")
    other.call("session/append", {"sessionId": session_id, "messages": [{"role": "user", "content": "meanwhile"}]})
    two.shows(":1]")  # so it has heard of the draft too
    two.type("hi")
    wait_until(lambda: draft() == "a long thought\n\nhi")
    two.type("", "Enter")
    wait_until(lambda: said(shell, session_id) == ["meanwhile", "hi"] and draft() == "a long thought")


def test_transcript_lines_are_json(shell):
    """Each line that the agent reads is one message as the wire has it."""
    command = agent(shell, "sys.stdout.write(sys.stdin.read())")
    done = shell("repl", "--agent", command, stdin="a\u2028b \\n\n")
    text = said(shell, ID.search(done.out)[1])[-1]
    message = json.loads(text)
    assert message["content"] == "a\u2028b \\n"
    assert {"id", "seq", "role", "timestamp"} <= message.keys()


def test_replies_come_before_the_next_line(shell):
    """The conversation of a pipe waits for each reply before it takes the next line."""
    done = shell("repl", "--agent", "cat >/dev/null; sleep 0.1; echo yes", stdin="a\nb\n/export text\n")
    assert done.out.count("yes") == 4


def test_a_question_is_shown_and_answered(shell, other):
    """When the session is opened, and with the choices; one that is not offered is refused with what may be said."""
    other.call("session/new", {"sessionId": "build", "name": "Build"})
    choices = [{"id": "y", "label": "Allow"}, {"id": "n", "label": "Deny"}]
    with ThreadPoolExecutor(1) as pool, shell.client(name="agent") as agent:
        asking = {"sessionId": "build", "text": "Run it?", "choices": choices, "waitingFor": "permission"}
        answer = pool.submit(agent.call, "session/ask", asking)
        wait_until(lambda: other.call("session/list", {"filter": {"activity": "waiting"}})["sessions"])
        script = "/sessions\n/answer perhaps\n/answer deny\n/answer y\n"
        done = shell("repl", "--session-id", "build", stdin=script)
        assert answer.result(60) == {"client": "repl", "choice": "n"}
    for expected in ("agent waits: permission: Run it?", "/answer y: Allow | n: Deny", "waits: permission"):
        assert expected in done.out, (expected, done)
    assert "'perhaps' cannot be chosen" in done.err
    assert "nothing is asked here" in done.out or "answered before" in done.out
