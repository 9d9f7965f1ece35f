"""Commands with one request and its output: what a script gets, what people get, and how each of them fails."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from sessiond import endpoint
from sessiond.cli import (
    adopt,
    append,
    backup,
    doctor,
    follow,
    listen,
    main,
    mv,
    repl,
    rm,
    search,
    session_ids,
    show,
    stats,
    stop,
    tag,
    web,
)
from sessiond.cli import list as listing
from sessiond.cli import status as daemon_status
from sessiond.cli.export_run import Exporter
from sessiond.cli.import_follow import _Shown
from sessiond.cli.pages import sessions
from sessiond.client.daemon_types import Address, Status
from sessiond.client.wire import Incoming
from sessiond.doctor import configuration, running
from sessiond.doctor.finding import Finding
from sessiond.errors import AlreadyExists, ConfigError, Conflict, DaemonUnreachable, InvalidParams, SessionNotFound
from sessiond.fs import RealFileSystem
from tests.fakes.answers import Answers
from tests.shell import Shell


def run(monkeypatch: pytest.MonkeyPatch, module: Any, answers: Answers, *arguments: str) -> Result:
    monkeypatch.setattr(module, "connect", lambda: answers.client)
    monkeypatch.setattr(session_ids, "resolved", lambda names, **_: names)
    command: click.Command = module.command
    done = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done


def test_adopt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The store that was made, how much is in it, and what of it could not be understood."""
    told = {
        "store": {"name": "old", "format": "amacs"},
        "sessions": 3,
        "warnings": [{"path": "/w", "line": None, "message": "bad\x1b[31m"}],
    }
    answers = Answers({"store/adopt": [told]})
    done = run(monkeypatch, adopt, answers, str(tmp_path), "-f", "amacs")
    assert done.output == "store old (amacs): 3 sessions; sessiond list --store old\nwarning: /w: bad[31m\n"
    assert answers.asked == [("store/adopt", {"path": str(tmp_path), "format": "amacs"})]
    assert json.loads(run(monkeypatch, adopt, answers, str(tmp_path), "--json").output) == told


def test_mv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the session is then, and what the other system will not show; a dry run says what would be."""
    told = {"session": {"sessionId": "theia/a"}, "lost": ["its name", "2 notes"]}
    answers = Answers({"session/move": [told]})
    done = run(monkeypatch, mv, answers, "a", "--store", "theia")
    assert done.output == "a is now theia/a\nnot shown there: its name\nnot shown there: 2 notes\n"
    assert run(monkeypatch, mv, answers, "a", "--store", "theia", "--dry-run").output.startswith(
        "a would become theia/a\n"
    )
    assert json.loads(run(monkeypatch, mv, answers, "a", "--store", "theia", "--json").output) == told


def test_tag_tries_again_when_somebody_came_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other client's change is kept; after some tries it gives up with the daemon's error."""
    before, after = (
        {"session": {"sessionId": "s", "tags": tags, "seq": seq}} for tags, seq in ((["a"], 1), (["a", "x"], 2))
    )
    done = {"session": {"sessionId": "s", "tags": ["x", "b"], "seq": 3}}
    answers = Answers({"session/open": [before, after], "session/update": [Conflict("no"), done]})
    assert run(monkeypatch, tag, answers, "s", "b", "--remove", "a").output == "x b\n"
    assert answers.asked[-1][1] == {"sessionId": "s", "tags": ["x", "b"], "expectedSeq": 2}
    never = Answers({"session/open": [before], "session/update": [Conflict("no")]})
    with pytest.raises(Conflict):
        run(monkeypatch, tag, never, "s", "b")
    assert len(never.asked) == 2 * tag._TRIES
    same = Answers({"session/open": [before]})
    assert run(monkeypatch, tag, same, "s", "a").output == "a\n"


@pytest.mark.parametrize("provisional", [False, True])
def test_append_says_what_only_this_machine_has(monkeypatch: pytest.MonkeyPatch, provisional: bool) -> None:
    """In a shared store whose hub cannot be reached."""
    answers = Answers({"session/append": [{"seq": 9, "messages": [], "provisional": provisional}]})
    said = run(monkeypatch, append, answers, "team/x", "hello").output
    assert said.startswith("team/x #9\n")
    assert ("waits on this machine" in said) == provisional


def test_show_tells_what_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line where that is known."""
    warnings = [{"path": "/a", "line": 3, "message": "m"}, {"path": "/b", "line": None, "message": "n"}]
    info = {"sessionId": "s", "messageCount": 0, "path": "/a"}
    answers = Answers({"session/open": [{"session": info, "messages": [], "warnings": warnings}]})
    assert "warning: /a:3: m\nwarning: /b: n\n" in run(monkeypatch, show, answers, "s").output


def test_rm_goes_on_after_one_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `export` does: the document has what was deleted, and standard error says what was not."""
    gone = SessionNotFound("no session 'b'")
    monkeypatch.setattr(rm, "connect", lambda: Answers({"session/delete": [{}, gone, {}]}).client)
    assert main(["rm", "--json", "a", "b", "c"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out) == {"deleted": ["a", "c"]}
    assert said.err == "sessiond: b: no session 'b'\n"


@pytest.mark.parametrize(
    "command", ["show s -n", "show s --from", "tail s -n", "list -n", "search x -n", "fork s --at"]
)
def test_numbers_that_no_request_can_carry(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "99999999999999999999999"]) == 2
    assert "is too large; the largest number is 9007199254740991" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["on", "off"])
def test_an_empty_path_is_not_followed(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As from a variable of a shell that is not set: it would be the whole current folder."""
    assert main(["follow", what, "codex", "--path", ""]) == 2
    assert "--path is empty" in capsys.readouterr().err


def test_show_gets_as_many_messages_as_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that do not fit into the first page, so that the way to older messages leads there."""

    def page(*seqs: int, more: bool) -> dict[str, Any]:
        return {"messages": [{"seq": n, "role": "user", "content": f"said {n}"} for n in seqs], "hasMore": more}

    info = {"sessionId": "s", "seq": 9, "messageCount": 6, "path": "/a"}

    def answers() -> Answers:
        opened = [{"session": info, **page(5, 6, more=True)}]
        return Answers({"session/open": opened, "session/read": [page(3, 4, more=True), page(2, more=True)]})

    asked = answers()
    done = run(monkeypatch, show, asked, "s", "--last", "5")
    assert re.findall("said .", done.output) == [f"said {n}" for n in range(2, 7)]
    assert "… for older messages: sessiond show s --last 6\n" in done.output
    assert [(one["before"], one["limit"]) for method, one in asked.asked if method == "session/read"] == [
        (5, 3),
        (3, 1),
    ]
    told = json.loads(run(monkeypatch, show, answers(), "s", "--last", "5", "--json").output)
    assert ([one["seq"] for one in told["messages"]], told["hasMore"]) == ([2, 3, 4, 5, 6], True)


def test_show_goes_on_to_the_next_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a message on, and as many as were asked for: a page has fewer."""

    def page(*seqs: int, more: bool) -> dict[str, Any]:
        messages = [{"seq": n, "role": "user", "content": f"said {n}"} for n in seqs]
        return {"messages": messages, "hasMore": more, "seq": 9, "mood": "blue"}

    info = {"sessionId": "s", "seq": 9, "messageCount": 9, "path": "/a"}

    def answers() -> Answers:
        read = [page(2, 3, more=True), page(4, 5, more=True), page(6, more=True)]
        return Answers({"session/open": [{"session": info}], "session/read": read})

    asked = answers()
    done = run(monkeypatch, show, asked, "s", "--from", "2", "--last", "5")
    assert re.findall("said .", done.output) == [f"said {n}" for n in range(2, 7)]
    assert "… for newer messages: sessiond show s --from 7\n" in done.output
    assert [(one["since"], one["limit"]) for method, one in asked.asked if method == "session/read"] == [
        (1, 5),
        (3, 3),
        (5, 1),
    ]
    told = json.loads(run(monkeypatch, show, answers(), "s", "--from", "2", "--last", "5", "--json").output)
    assert told == page(2, 3, 4, 5, 6, more=True)


def test_a_pipe_of_the_shell_is_not_imported(capsys: pytest.CaptureFixture[str]) -> None:
    """As of `sessiond import <(command)`: the daemon has other descriptors, so nobody asks it."""
    reading, writing = os.pipe()
    try:
        assert main(["import", f"/dev/fd/{reading}"]) == 1
    finally:
        os.close(reading)
        os.close(writing)
    said = f"sessiond: /dev/fd/{reading}: a pipe cannot be imported; write it to a file, and import that\n"
    assert capsys.readouterr() == ("", said)


def test_rows_that_cannot_be_shown_have_a_way_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """`stats --all` asks for as many rows as a request may have, so --all does not lead to the rest."""
    totals = dict.fromkeys(("requests", "input", "cacheWrite", "cacheRead", "output", "reasoning", "priced"), 1)
    row = {"key": "a", "name": None, "sessions": 1, "total": {**totals, "cost": 0.0}}
    report = {"rows": [row], "omitted": 7, "sessions": 8, "total": row["total"], "models": [], "timeZone": "UTC"}
    done = run(monkeypatch, stats, Answers({"session/usage": [report]}), "--all")
    said = "there are 7 more rows; --since, --until and the filters lead to them, --json to their total"
    assert done.stderr == f"sessiond: {said}\n"


def test_backup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """How much was copied, and on standard error what was not as it should be."""
    told = {"files": 2, "bytes": 1234, "warnings": [{"path": "/a", "message": "torn"}]}
    answers = Answers({"daemon/backup": [told]})
    answers.progress = [{"percentage": 5, "message": "half\x1b[31m"}, {"message": "begun"}]
    done = run(monkeypatch, backup, answers, str(tmp_path / "b"))
    assert done.stdout == f"2 files, 1,234 bytes in {tmp_path / 'b'}\n"
    assert done.stderr == "warning: /a: torn\n"
    assert json.loads(run(monkeypatch, backup, answers, str(tmp_path / "b"), "--json").stdout) == told


@pytest.mark.parametrize(
    ("there", "words"), [(True, "the backup was already complete"), (False, "nothing is left of the backup")]
)
def test_an_interrupted_backup_is_stopped_and_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], there: bool, words: str
) -> None:
    """What is left of it is examined, not guessed."""
    if there:
        (tmp_path / "b").mkdir()
    answers = Answers({"daemon/backup": [KeyboardInterrupt()]})
    with pytest.raises(click.Abort):
        backup._make(answers.client, str(tmp_path / "b"), lambda progress: None)
    assert capsys.readouterr().err == f"interrupted; {words}\n"


def test_a_backup_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--verify` fails and names what is missing, for people and for scripts."""
    tmp_path.joinpath("b").mkdir()
    assert backup._verify(str(tmp_path / "b"), as_json=False) == 1
    assert "PROBLEM" in capsys.readouterr().out
    assert backup._verify(str(tmp_path / "b"), as_json=True) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["sound"] is False and told["findings"]


def test_a_search_by_meaning_waits_for_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the answer is incomplete it is asked again, but not for ever, and then that is said next to the data."""
    some = {"hits": [], "total": 0, "nextCursor": None, "incomplete": True}
    answers = Answers(
        {"session/search": [some, some, {**some, "incomplete": False}], "daemon/status": [{"stores": []}]}
    )
    said = run(monkeypatch, search, answers, "x", "--mode", "semantic").stderr
    assert re.fullmatch(r"sessiond: no matches: you have no sessions yet; to get started, run `.* import`\n", said)
    assert len(answers.asked) == 3 + 1
    ready = {"index": {"state": "ready", "read": 0, "found": 0, "problem": None}}
    never = Answers({"session/search": [some], "daemon/status": [ready]})
    done = run(monkeypatch, search, never, "x", "--mode", "semantic")
    assert len(never.asked) == 1 + search._TRIES + 1
    assert done.stderr == "sessiond: the index was still being built, so there may be more; search again\n"
    monkeypatch.setattr(search, "_PATIENCE_S", -1.0)
    impatient = Answers({"session/search": [some], "daemon/status": [ready]})
    run(monkeypatch, search, impatient, "x", "--mode", "semantic")
    assert len(impatient.asked) == 2


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (
            ("building", 340, 1143, None),
            "the index is still being built (340 of 1,143 sessions read), so there may be more",
        ),
        (("building", 0, 0, None), "the index is still being built, so there may be more"),
        (
            ("failing", 0, 0, "database or disk is full"),
            "the index cannot be written (database or disk is full): new messages may be missing",
        ),
    ],
)
def test_what_may_be_missing_is_said(monkeypatch: pytest.MonkeyPatch, index: tuple[Any, ...], said: str) -> None:
    """Why a search may not have found everything, and how far the index is."""
    status = {"index": dict(zip(("state", "read", "found", "problem"), index, strict=True))}
    some = {"hits": [], "total": 0, "nextCursor": None, "incomplete": True}
    done = run(monkeypatch, search, Answers({"session/search": [some], "daemon/status": [status]}), "x")
    assert done.stderr == f"sessiond: {said}\n"


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    """`export` puts no file in the place of a pipe or a device, also where a link leads to it, and needs no --overwrite."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    client = Answers({"daemon/status": [{"stores": []}]}).client
    for path, overwrite in product((pipe, link), (False, True)):
        exporter = Exporter(client, "text", redact=False, overwrite=overwrite)
        assert exporter._write(str(path), b"words\n").bytes == 6
        assert os.read(reader, 100) == b"words\n"
    os.close(reader)
    assert pipe.is_fifo() and link.is_symlink()
    with pytest.raises(IsADirectoryError):
        exporter._write(str(tmp_path), b"words\n")


def test_a_list_says_that_it_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, with how far the index is; for a script in the document. What must have all sessions asks again, from
    the beginning.
    """
    status = {"index": {"state": "building", "read": 3, "found": 7, "problem": None}}
    info = {
        "sessionId": "a",
        "messageCount": 1,
        "updatedAt": "2026-01-11T14:30:22.000Z",
        "store": "default",
        "name": None,
    }
    some = {"sessions": [info], "nextCursor": None, "incomplete": True}
    done = run(monkeypatch, listing, Answers({"session/list": [some], "daemon/status": [status]}))
    assert done.stdout.startswith("a\t")
    assert done.stderr == "sessiond: the index is still being built (3 of 7 sessions read), so there may be more\n"
    done = run(monkeypatch, listing, Answers({"session/list": [some]}), "--json")
    assert json.loads(done.stdout) == some and done.stderr == ""
    pages = [
        {"sessions": [{**info, "sessionId": "early"}], "nextCursor": "1"}, some, {"sessions": [info], "nextCursor": "1"},
        {"sessions": [{**info, "sessionId": "b"}], "nextCursor": None},
    ]  # fmt: skip
    whole = sessions(Answers({"session/list": pages}).client, None, None, {}, whole=True)
    assert [one.session_id for one in whole.sessions] == ["a", "b"] and "incomplete" not in whole.plain


def test_conditions_on_words_do_not_go_with_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would become a part of the pattern and find nothing."""
    with pytest.raises(click.UsageError, match="--since and --until"):
        run(monkeypatch, search, Answers({}), "x.", "--mode", "regex", "--no-tools")


def test_an_empty_list_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """People are told how to begin, or that nothing fits what they asked for; a script gets no sessions."""
    answers = Answers({"session/list": [{"sessions": [], "nextCursor": None}]})
    assert run(monkeypatch, listing, answers).output == ""
    monkeypatch.setattr(listing, "for_people", lambda: True)
    assert "sessiond import (what your tools have kept)" in run(monkeypatch, listing, answers).output
    assert run(monkeypatch, listing, answers, "--tag", "x").stdout == "no matching sessions\n"


def test_folders_of_ones_own_are_short_and_more_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home is a tilde, also by itself, but not where another folder only begins like it."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(listing, "for_people", lambda: True)
    infos = [
        {"sessionId": f"s{n}", "name": "N", "updatedAt": "", "messageCount": 1, "store": "default", "cwd": cwd}
        for n, cwd in enumerate(("/home/me", "/home/me/w", "/home/men"))
    ]
    answers = Answers({"session/list": [{"sessions": infos, "nextCursor": "more"}]})
    lines = run(monkeypatch, listing, answers, "-n", "3", "--no-pager").output.splitlines()
    assert [line.split()[-1] for line in lines[1:4]] == ["~", "~/w", "/home/men"]
    assert lines[4].startswith("there are more")


class Repl:
    """It has no client of its own to exchange."""

    connect = None
    command = repl.command


# import --follow


def word(*session_ids: str, warnings: Sequence[dict[str, Any]] = ()) -> Incoming:
    """A `session/imported` as the daemon sends it."""
    sessions = [{"sessionId": one, "messageCount": 2, "name": "N"} for one in session_ids]
    params = {"sessions": sessions, "skipped": 0, "warnings": warnings}
    return Incoming(method="session/imported", params=msgspec.Raw(msgspec.json.encode(params)))


def test_what_was_imported_is_told_in_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    """As a script it gets what the daemon sent."""
    shown = _Shown(as_json=False)
    shown.told(word("s1"))
    shown.told(word())
    assert capsys.readouterr().out == "s1 2 messages N\n"
    _Shown(as_json=True).told(word("s1"))
    assert [one["sessionId"] for one in json.loads(capsys.readouterr().out)["sessions"]] == ["s1"]


def test_a_warning_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be read is tried again and again."""
    shown = _Shown(as_json=False)
    for line in (None, 2, None):
        shown.told(word(warnings=[{"path": "/a.jsonl", "line": line, "message": "it is broken"}]))
    assert capsys.readouterr().err == "warning: /a.jsonl: it is broken\nwarning: /a.jsonl:2: it is broken\n"


# follow


def test_a_place_that_is_asked_for_by_a_command_is_still_to_be_configured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`follow on` names a place of this shell's that only a command has followed until now. The status says so."""
    mine = tmp_path / "mine" / "projects"
    mine.mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(mine.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = {"tool": "claude-code", "path": str(mine), "sessions": 2, "asked": True}
    answers = Answers({"daemon/follow": [{"tools": ["claude-code"], "places": [asked], "behind": 0}]})
    run(monkeypatch, follow, answers, "on", "claude-code")
    assert [[*params["add"]] for _, params in answers.asked] == [["claude-code"], [f"claude-code:{mine}"]]
    answers = Answers({"daemon/follow": [{"tools": [], "places": [asked], "behind": 0}]})
    told = run(monkeypatch, follow, answers, "status").output
    assert "following only what commands ask for\n" in told
    assert "1 place only as long as a command runs, such as sessiond import --follow\n" in told


# doctor


def test_doctor_and_status_name_what_is_not_indexed() -> None:
    """Although the index is ready: whoever misses a message there learns why."""
    where = endpoint.places({"HOME": "/", "SESSIOND_HOME": "/nowhere"})
    problem = "not everything could be indexed of work-1"
    told = {"version": "1", "pid": 7, "index": {"state": "ready", "read": 1, "found": 1, "problem": problem}}
    found = [(one.what, one.problem) for one in running.examine_daemon(where, msgspec.convert(told, Status))]
    assert found[1:] == [("search index", problem)]
    assert ("INDEX", problem) in daemon_status._lines(msgspec.convert(told, Status))


def test_doctor_names_what_cannot_be_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places without a problem need no word. An older daemon follows nothing, which is no problem."""
    fine = {"tool": "codex", "path": "/c", "sessions": 1, "lastAt": None, "problem": None}
    told = {"tools": ["all"], "places": [fine, fine | {"tool": "qwen", "problem": "/q: it is broken"}], "behind": 1}
    answers = Answers({"daemon/follow": [told]})
    assert [(one.what, one.problem) for one in running.examine_followed(answers.answer)] == [
        ("following qwen", "/q: it is broken")
    ]

    def older(*_: object) -> None:
        raise InvalidParams("unknown method")

    assert [one.problem for one in running.examine_followed(older)] == [None]


def test_what_doctor_says_of_a_daemon_in_trouble() -> None:
    """That nothing can be written, and which store has what problem, each with what to do."""
    where = endpoint.places({"HOME": "/", "SESSIOND_HOME": "/nowhere"})
    stores = [{"name": "a", "path": "/a", "problem": {"message": "out of reach"}}, {"name": "b", "path": "/b"}]
    index = {"state": "failing", "read": 0, "found": 0, "problem": "disk full"}
    told = {
        "version": "1",
        "pid": 7,
        "socket": "/s",
        "readOnly": {"reason": "the disk is full"},
        "stores": stores,
        "index": index,
    }
    findings = [
        (one.what, one.problem, one.hint) for one in running.examine_daemon(where, msgspec.convert(told, Status))
    ]
    assert findings[1:] == [
        (
            "journal",
            "read-only: the disk is full",
            "free some disk space; writing resumes by itself",
        ),
        ("store a", "out of reach", "check /a"),
        (
            "search index",
            "the index cannot be written (disk full): new messages may be missing",
            "free disk space for /nowhere/cache, or make it writable; indexing then resumes by itself",
        ),
    ]


def test_how_doctor_tells_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    """What is in order, what was repaired, and what was not, with what to do; a repair that fails is reported as not repaired."""
    findings = [
        (Finding("the disk"), None),
        (Finding("the index", "is broken"), "removed"),
        (Finding("the lock", "is odd", "look at it"), None),
        (Finding("the key", "is gone"), None),
    ]
    assert [doctor._in_words(*one) for one in findings] == [
        "ok       the disk",
        "MENDED   the index: is broken; removed",
        "PROBLEM  the lock: is odd; look at it",
        "PROBLEM  the key: is gone",
    ]

    def fails() -> str:
        raise OSError("the disk is full")

    assert doctor._mended(Finding("the index", "is broken", None, fails)) is None
    assert "could not repair the index: the disk is full" in capsys.readouterr().err
    assert doctor._mended(Finding("the index", "is broken")) is None


def test_which_lines_of_a_configuration_are_wrong() -> None:
    """An error at the beginning of a line, or after the end of the file, belongs to the last line that is not empty."""

    def wrong(line: int | None, *lines: str) -> list[int]:
        return configuration._wrong(list(lines), ConfigError("words that nobody reads (at line 1)", line=line))

    assert wrong(2, "a 1", "", "# words") == [0]
    assert wrong(3, "# words", "") == []
    assert wrong(9, "a = 1", "b =", "") == [1]
    assert wrong(None, "a = 1") == []


def test_copies_of_a_damaged_configuration_are_numbered(tmp_path: Path) -> None:
    """An earlier one is never written over."""
    path = str(tmp_path / "config.toml")
    copies = [configuration._copy(RealFileSystem(), path, b"%d" % n) for n in range(3)]
    assert copies == [f"{path}.damaged-{n}" for n in (1, 2, 3)]
    assert [Path(copy).read_bytes() for copy in copies] == [b"0", b"1", b"2"]


# stop, listen, setup


def test_a_daemon_that_does_not_stop_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked, and is still there when its time is over."""
    answers = Answers({"daemon/hello": [{"pid": 7}], "daemon/stop": [None]})
    monkeypatch.setattr(stop, "connect_if_running", lambda where: answers)
    monkeypatch.setattr(stop, "is_held", lambda where: True)
    monkeypatch.setattr(stop, "_GRACE_S", -1e9)
    with pytest.raises(DaemonUnreachable, match=r"\(pid 7\) was told to stop but is still running"):
        stop.stop()
    assert [method for method, _ in answers.asked] == ["daemon/hello", "daemon/stop"]


def test_listening_ends_with_the_daemon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints where, even for an address with many colons; other messages of the daemon are ignored."""
    where = {"host": "::1", "port": 80, "tokenFile": "/t"}
    answers = Answers({"daemon/listen": [where]}, [("session/saved", {})])
    monkeypatch.setattr(listen, "connect_once", lambda: answers)
    with pytest.raises(DaemonUnreachable, match="has stopped"):
        listen.listen([("ws", "[::1]:80")])
    assert capsys.readouterr().out == "listening on ws [::1]:80, the token is in /t\n"
    assert answers.asked == [("daemon/listen", {"kind": "ws", "host": "::1", "port": 80})]


def test_a_taken_port_is_avoided_unless_it_was_asked_for() -> None:
    """The usual port may be in use by another; one that was named is taken or refused."""
    free = {"host": "127.0.0.1", "port": 4711}
    answers: Any = Answers({"daemon/listen": [AlreadyExists("taken"), free]})
    assert web._listen(answers, None) == Address(host="127.0.0.1", port=4711)
    assert [params["port"] for _, params in answers.asked] == [web.PORT, 0]
    taken: Any = Answers({"daemon/listen": [AlreadyExists("taken")]})
    with pytest.raises(AlreadyExists):
        web._listen(taken, 5000)
    assert [params["port"] for _, params in taken.asked] == [5000]


def test_a_group_without_a_command_shows_its_help(shell: Shell) -> None:
    """With its lines, on standard error: nothing was done."""
    for group in ("follow", "store", "service"):
        done = shell(group)
        assert (done.code, done.out) == (2, "")
        assert done.err == shell(group, "--help").out
