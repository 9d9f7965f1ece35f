"""For scripts: with --json, standard output is exactly one JSON document."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Shell, wait_until


@pytest.fixture
def talk(shell: Shell) -> Shell:
    """A home with the session `talk` of two messages."""
    assert shell("new", "--id", "talk", "--name", "A talk").code == 0
    assert shell("append", "talk", "one").code == 0
    assert shell("append", "talk", "two", "--role", "assistant").code == 0
    return shell


def test_every_command_answers_what_its_request_answers(talk: Shell, tmp_path: Path) -> None:
    """The documents are the requests' results, so a script may switch to the wire without reading anew."""
    asked: dict[str, list[str]] = {
        "list": ["sessions", "nextCursor"],
        "show talk": ["session", "messages", "notes", "state", "hasMore", "warnings"],
        "new": ["session"],
        "append talk three": ["seq", "messages"],
        "search one": ["hits", "total", "nextCursor"],
        "rename talk Other": ["session"],
        "tag talk red": ["session"],
        "archive talk": ["session"],
        "archive --undo talk": ["session"],
        "fork talk": ["session"],
        "export talk": ["content"],
        f"export talk -o {tmp_path}/talk.md": ["path", "bytes"],
        "rm talk": ["deleted"],
        "restore talk": ["session"],
        "gc": ["removed", "dryRun"],
        "doctor": ["healthy", "findings"],
        "status": ["running", "version", "pid", "stores", "journal", "limits"],
        "stop": ["stopped", "pid"],
    }
    for command, keys in asked.items():
        done = talk(*command.split(), "--json")
        assert (done.code, done.err) == (0, ""), f"{command}: {done}"
        assert done.out.count("\n") == 1
        assert set(keys) <= done.json.keys(), command


def test_a_failed_request_prints_nothing_on_standard_output(shell: Shell) -> None:
    """Exit code 1 and one line on standard error; a script never parses half a document."""
    done = shell("show", "nosuch", "--json")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)


def test_list_pages_through_everything(shell: Shell) -> None:
    """--all follows the cursors, -n cuts."""
    with shell.client() as client:
        for number in range(75):
            client.call("session/new", {"sessionId": f"s{number}", "name": f"n{number}"})
    assert len(shell("list", "--json").json["sessions"]) == 50
    assert len(shell("list", "-n", "60", "--json").json["sessions"]) == 60
    found = shell("list", "--all", "--json").json
    assert {info["sessionId"] for info in found["sessions"]} == {f"s{number}" for number in range(75)}
    assert found["nextCursor"] is None


def test_odd_text_goes_in_and_comes_out_the_same(shell: Shell) -> None:
    """Control characters, quotes and astral characters in content are the same in JSON, and never reach a terminal raw."""
    odd = 'a"b\\c\t\x1b[31mred\x7f\x9b\u202eevil\u2028 日本 \U0001f600 \x00'.replace("\x00", "\\0")
    shell("new", "--id", "x", "--name", odd)
    assert shell("append", "x", stdin=odd).code == 0
    done = shell("show", "x", "--json")
    assert done.json["messages"][0]["content"] == odd
    assert done.json["session"]["name"] == odd
    for arguments in (["show", "x"], ["list"], ["search", "evil"], ["show", "x", "--json"]):
        raw = shell(*arguments).out
        assert not set(raw) & set("\x1b\x7f\x9b\u202e"), arguments


def test_text_that_is_no_utf8_is_refused(shell: Shell) -> None:
    """Nothing is guessed about bytes that are not UTF-8."""
    shell("new", "--id", "x")
    process = shell.start("append", "x")
    _, err = process.communicate(b"\xff\xfe", timeout=30)
    assert process.returncode == 2
    assert b"standard input is not valid UTF-8 (byte 0)" in err
    assert shell("append", "x", "\udcff").code == 1


def test_one_final_newline_is_the_shells(shell: Shell) -> None:
    """`echo hi | sessiond append` appends "hi"; further newlines are the writer's."""
    shell("new", "--id", "x")
    shell("append", "x", stdin="hi\n")
    shell("append", "x", stdin="hi\n\n")
    shell("append", "x", stdin="")
    assert [message["content"] for message in shell("show", "x", "--json").json["messages"]] == ["hi", "hi\n", ""]


def lines(process: Any, count: int) -> list[dict[str, Any]]:
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def test_tail_follows_over_a_kill(talk: Shell) -> None:
    """`tail --json` prints a document a line, each change once, and continues with the next daemon after a kill -9."""
    tail = talk.start("tail", "talk", "--json", text=True)
    assert [change["messages"][0]["content"] for change in lines(tail, 2)] == ["one", "two"]
    talk("append", "talk", "three")
    assert lines(tail, 1)[0]["messages"][0]["content"] == "three"
    talk.kill()
    talk("append", "talk", "four")
    assert lines(tail, 1)[0]["messages"][0]["content"] == "four"
    talk("rename", "talk", "New")
    change = lines(tail, 1)[0]
    assert (change["kind"], change["session"]["name"]) == ("updated", "New")
    tail.send_signal(signal.SIGINT)
    assert tail.wait(30) == 130


def test_tail_for_people_shows_a_reply_as_it_grows(talk: Shell) -> None:
    """The text of a streamed message is printed as it comes."""
    tail = talk.start("tail", "talk", "-n", "0", text=True)
    with talk.client(start=False) as client:
        wait_until(lambda: client.call("session/list")["sessions"][0]["attached"] == 1)
        reply = {"id": "r", "role": "assistant", "content": "Let", "status": "streaming"}
        client.call("session/append", {"sessionId": "talk", "messages": [reply]})
        client.call("session/extend", {"sessionId": "talk", "messageId": "r", "text": " me think."})
        client.call("session/finish", {"sessionId": "talk", "messageId": "r"})
        client.call("session/append", {"sessionId": "talk", "messages": [{"role": "user", "content": "Well?"}]})
    said = [tail.stdout.readline() for _ in range(4)]
    assert said[0].startswith("── assistant #3")
    assert [line.strip() for line in (said[1], said[3])] == ["Let me think.", "Well?"]


def test_commands_start_the_daemon_and_exit_69_if_they_cannot(shell: Shell) -> None:
    """A daemon that cannot be started is exit code 69, with the reason."""
    shell.write_config("[autosave]\nidle_s = 'soon'\n")
    done = shell("list")
    assert (done.code, done.out) == (69, "")
    assert "autosave.idle_s is 'soon'; it must be a number of seconds" in done.err


def test_the_reader_may_leave_early(talk: Shell) -> None:
    """`sessiond show x | head` does not leave a traceback."""
    process = talk.start("show", "talk", "--last", "1000")
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=30)
    assert b"Traceback" not in err


def test_export_writes_what_the_request_gives(talk: Shell, tmp_path: Path) -> None:
    """On standard output or into a file, which is never written over unless asked for."""
    assert "# A talk" in talk("export", "talk").out
    path = tmp_path / "talk.txt"
    assert talk("export", "talk", "-f", "text", "-o", str(path)).code == 0
    assert "two" in path.read_text()
    again = talk("export", "talk", "-f", "text", "-o", str(path))
    assert (again.code, again.out) == (1, "")
    assert talk("export", "talk", "-f", "json", "-o", str(path), "--overwrite").code == 0
    assert json.loads(path.read_text())


def test_a_daemon_that_hangs_is_told_from_none(talk: Shell) -> None:
    """A stopped process owns the home but does not answer: doctor says so, and waits no longer than five seconds."""
    pid = talk.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        done = talk("doctor")
        assert done.code == 1
        assert f"PROBLEM  daemon: a daemon owns {talk.data}, but" in done.out or "did not answer within 5 s" in done.out
    finally:
        os.kill(pid, signal.SIGCONT)


def test_completion_knows_commands_and_sessions(talk: Shell) -> None:
    """A shell completes commands, and the ids of a running daemon's sessions."""
    assert "_SESSIOND_COMPLETE" in talk("completion", "bash").out
    talk.env |= {"_SESSIOND_COMPLETE": "bash_complete", "COMP_WORDS": "sessiond sho", "COMP_CWORD": "1"}
    assert talk().out == "plain,show\n"
    talk.env["COMP_WORDS"] = "sessiond show ta"
    talk.env["COMP_CWORD"] = "2"
    assert talk().out == "plain,talk\n"
    for name in ("_SESSIOND_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        del talk.env[name]


def test_completion_shows_names_as_one_line(shell: Shell) -> None:
    """A name of several lines would read as more ids, and a terminal would obey its control characters."""
    with shell.client() as client:
        client.new(id="red", name="two\nlines \x1b[31mred")
    shell.env |= {"_SESSIOND_COMPLETE": "zsh_complete", "COMP_WORDS": "sessiond show re", "COMP_CWORD": "2"}
    try:
        assert shell().out == "plain\nred\ntwo lines [31mred\n"
    finally:
        for name in ("_SESSIOND_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
            del shell.env[name]


def test_setup_knows_the_editors(shell: Shell) -> None:
    """Each editor's lines lead to client files that are there, or name the one word that it has to start."""
    for editor in ("emacs", "vim", "neovim", "vscode", "lisp"):
        assert "sessiond" in shell("setup", editor).out.lower()


def test_help_is_there_for_every_command(shell: Shell) -> None:
    """`--help` of each command works and ends with 0; so do the group's own and --version."""
    from sessiond.cli.group import COMMANDS

    listed = shell("--help")
    assert all(f"  {name} " in listed.out for name in COMMANDS)
    for name in ("append", "serve", "import", "demo"):
        assert shell(name, "--help").out.startswith(f"Usage: sessiond {name}")
    assert shell("--version").out.startswith("sessiond ")
