"""The command line as shell transcripts: a line after `$` is run for real, the following lines are its exact output.

`...` matches anything on its line. Standard error is where it appeared; `[N]` is an exit code other than 0.
"""

from __future__ import annotations

import re
import shlex
import textwrap

from tests.shell import Shell


def follow(shell: Shell, transcript: str) -> None:
    """Run each command and compare."""
    steps = re.split(r"^\$ ", textwrap.dedent(transcript).strip("\n"), flags=re.MULTILINE)[1:]
    for step in steps:
        line, _, wanted = step.partition("\n")
        command, _, stdin = line.partition(" <<< ")
        words = shlex.split(command)
        assert words[0] == "sessiond"
        done = shell(*words[1:], stdin="".join(shlex.split(stdin)))
        shown = done.out + done.err + (f"[{done.code}]\n" if done.code else "")
        # On a terminal these would be a table; piped they are tab-separated.
        shown = shown.replace("\t", "  ")
        pattern = r"[^\n]*".join(map(re.escape, wanted.rstrip("\n").split("...")))
        assert re.fullmatch(pattern, shown.rstrip("\n")), f"$ {line}\n{shown}\n--- wanted\n{wanted}"


def test_a_conversation(shell: Shell) -> None:
    """Make a session, talk in it, look at it, find it."""
    follow(
        shell,
        """
        $ sessiond new --id talk --name "A talk" --tag work --cwd /tmp
        talk
        $ sessiond append talk "Where is the needle?"
        talk #1
        $ sessiond append talk --role assistant <<< 'In the haystack.'
        talk #2
        $ sessiond show talk
        talk  A talk
        2 messages  .../data/sessions/talk.jsonl  work

        ── user #1 ...
        Where is the needle?

        ── assistant #2 ...
        In the haystack.
        $ sessiond show talk --last 1
        talk  A talk
        2 messages  .../data/sessions/talk.jsonl  work
        … for older messages: sessiond show talk --last 2

        ── assistant #2 ...
        In the haystack.
        $ sessiond list
        talk  A talk  2  ...    work  /tmp  default
        $ sessiond search needle
        talk  #1  user  ...  Where is the needle?
        $ sessiond search --regex "hay.t.ck"
        talk  #2  assistant  ...  In the haystack.
        $ sessiond search nothing-of-the-kind
        sessiond: no matches
        [1]
        $ sessiond search -q nothing-of-the-kind
        [1]
        $ sessiond search -l in:name talk
        talk
        """,
    )


def test_housekeeping(shell: Shell) -> None:
    """Names, tags, the archive, forks and the trash."""
    follow(
        shell,
        """
        $ sessiond new --id one
        one
        $ sessiond append one "first"
        one #1
        $ sessiond append one "second"
        one #2
        $ sessiond rename one "The one"
        one is now 'The one'
        $ sessiond tag one red green
        red green
        $ sessiond tag one --remove red blue
        green blue
        $ sessiond tag one
        green blue
        $ sessiond list --tag green --tag blue
        one  The one  2  ...    green blue  ...  default
        $ sessiond list --tag red
        sessiond: no session has the tag 'red'
        $ sessiond archive one
        one is archived; sessiond archive --undo one
        $ sessiond list
        $ sessiond list --archived
        one  The one  2  ...    green blue  ...  default
        $ sessiond archive --undo one
        one is back
        $ sessiond fork one --at 1 --name "The other"
        session-...
        $ sessiond list --name other
        session-...  The other  1  ...    green blue  ...  default
        $ sessiond rm one
        one is in the trash; sessiond restore one
        $ sessiond show one
        sessiond: no session 'one'...
        [1]
        $ sessiond list --deleted
        one  The one  2  ...    green blue  ...  default
        $ sessiond restore one
        one is back, with 2 messages
        $ sessiond rm one --permanent
        one is gone
        $ sessiond list --deleted
        $ sessiond gc
        0 sessions would go to the trash
        """,
    )


def test_what_is_in_the_trash_under_an_id_that_is_taken(shell: Shell) -> None:
    """It is said under which id it can be restored, and it can."""
    follow(
        shell,
        """
        $ sessiond new --id one
        one
        $ sessiond append one "the earlier words"
        one #1
        $ sessiond rm one
        one is in the trash; sessiond restore one
        $ sessiond new --id one
        one
        $ sessiond append one "the later words"
        one #1
        $ sessiond restore one
        sessiond: the session 'one' already exists; delete it first: what is in the trash now is 'one.was-1' then, and is restored by that name
        [1]
        $ sessiond rm one
        one is in the trash; sessiond restore one
        $ sessiond restore one.was-1
        one.was-1 is back, with 1 message
        """,
    )


def test_what_is_wrong_is_one_line(shell: Shell) -> None:
    """A wrong command is exit code 2, a failed request 1, each with one line that says what to do."""
    follow(
        shell,
        """
        $ sessiond lst
        sessiond: No such command 'lst'. Did you mean 'list'? sessiond --help
        [2]
        $ sessiond append
        sessiond: Missing argument 'ID'. sessiond append --help
        [2]
        $ sessiond list --since yesteryear
        sessiond: Invalid value for --since: 'yesteryear' is not a time; write 2026-01-11, ...; sessiond list --help
        [2]
        $ sessiond --tcp nonsense
        sessiond: Invalid value for --tcp: 'nonsense' is not [HOST:]PORT...
        [2]
        $ sessiond append nosuch hello
        sessiond: no session 'nosuch'...
        [1]
        $ sessiond new --id "../evil"
        sessiond: sessionId: '../evil' is not a session id; ...
        [1]
        $ sessiond new --id x --store nowhere
        sessiond: store: there is no store 'nowhere'; ...
        [1]
        $ sessiond search --regex "a("
        sessiond: missing ), unterminated subpattern at position 1...
        [1]
        """,
    )


def test_without_a_daemon(shell: Shell) -> None:
    """`status`, `stop` and `doctor` start none, and make no folder."""
    follow(
        shell,
        """
        $ sessiond status
        no daemon is running; the data folder is .../data
        $ sessiond status --json
        {"running":false}
        $ sessiond stop
        no daemon is running
        $ sessiond stop --json
        {"stopped":false,"pid":null}
        $ sessiond doctor
        ok       configuration .../config/config.toml
        ok       no daemon is running
        ok       store default (jsonl) .../data/sessions
        All is well.
        """,
    )
    assert list(shell.path.iterdir()) == []


def test_status_and_stop(shell: Shell) -> None:
    """The running daemon is shown, and ends with everything saved."""
    follow(
        shell,
        """
        $ sessiond new --id x --name X
        x
        $ sessiond status
        daemon       version ..., pid ..., since ...
        data         .../data
        socket       .../run/sessiond.sock
        store        default (jsonl, 1 session) .../data/sessions
        connections  1
        sessions     0 open, ... not saved yet
        journal      ... bytes, lsn ...
        config       .../config/config.toml
        $ sessiond stop
        the daemon (pid ...) has stopped
        $ sessiond status --json
        {"running":false}
        """,
    )
    assert '"X"' in (shell.data / "sessions" / "x.jsonl").read_text()


def test_stores(shell: Shell) -> None:
    """A folder of session files is adopted where it is, and sessions move there."""
    other = shell.path / "other"
    other.mkdir()
    follow(
        shell,
        f"""
        $ sessiond new --id x --name X
        x
        $ sessiond adopt {other} --name mine --format jsonl
        store mine (jsonl): 0 sessions; sessiond list --store mine
        $ sessiond adopt {other} --name again --format jsonl
        sessiond: ...
        [1]
        $ sessiond list --store mine
        $ sessiond new --id y --store mine --name Y
        mine/y
        $ sessiond list --store mine
        mine/y  Y  0  ...  mine
        """,
    )
    assert "[stores.mine]" in (shell.path / "config" / "config.toml").read_text()
