"""`sessiond resume`: what it says, what it refuses, and that a refusal leaves nothing behind."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts import resume_table
from sessiond.cli.resume import TOOLS
from sessiond.importers.record import MessageRecord, open_source
from sessiond.importers.registry import BY_NAME
from sessiond.resume.targets import NAMES
from tests.clients.tmux import Terminal
from tests.shell import Shell, wait_until

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Which lock is first?"},
    {"role": "assistant", "content": "Let me look.", "thinking": "hm", "toolCalls": [{"id": "c1", "name": "ls", "arguments": {}}]},
    {"role": "tool", "content": "a lock", "toolCallId": "c1"},
    {"role": "assistant", "content": "The journal's."},
    {"role": "user", "content": "Always?"},
    {"role": "assistant", "content": "Always."},
]  # fmt: skip
PROGRAM = '#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n'


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    """With a `claude` that says where it was started, and how."""
    path = tmp_path / "a home"
    (path / "bin").mkdir(parents=True)
    (path / "work").mkdir()
    (path / "bin" / "claude").write_text(PROGRAM)
    (path / "bin" / "claude").chmod(0o755)
    return path


@pytest.fixture
def shell(user_home: Path) -> Iterator[Shell]:
    made = Shell(HOME=str(user_home), PATH=f"{user_home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    yield made
    made.close()


def new(shell: Shell, messages: list[dict[str, Any]], **info: Any) -> str:
    with shell.client() as client:
        return str(client.call("session/new", {"messages": messages, **info})["session"]["sessionId"])


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def written(home: Path) -> list[str]:
    """What is in the home, programs aside."""
    return sorted(str(one.relative_to(home)) for one in home.rglob("*") if "bin" not in one.parts)


def test_the_command_names_every_target() -> None:
    """The command's own list costs no import; it is the same."""
    assert TOOLS == NAMES


def test_a_shell_completes_tools(shell: Shell, user_home: Path) -> None:
    """Those that are not installed say so where the shell shows it."""
    shell.env |= {
        "_SESSIOND_COMPLETE": "zsh_complete",
        "COMP_WORDS": "sessiond resume x --in c",
        "COMP_CWORD": "4",
        "PATH": str(user_home / "bin"),
    }
    parts = shell().out.split("\n")
    assert list(zip(parts[1::3], parts[2::3], strict=False)) == [
        ("claude", "_"), ("codex", "not installed"), ("cline", "not installed"),
    ]  # fmt: skip


def test_the_document(shell: Shell, user_home: Path) -> None:
    session_id = new(shell, MESSAGES, name="Locks", cwd=str(user_home / "work"))
    done = shell("resume", session_id, "--in", "claude", "--json")
    assert done.code == 0, done
    found = done.json
    assert found.keys() == {"sessionId", "tool", "id", "path", "cwd", "command", "lost", "messages"}
    assert (found["sessionId"], found["tool"], found["cwd"]) == (session_id, "claude", str(user_home / "work"))
    assert found["command"] == ["claude", "--resume", found["id"]]
    assert found["lost"] == [{"what": "system prompts", "count": 1}, {"what": "thinking", "count": 1}]
    assert found["messages"] == 6
    assert Path(found["path"]).stat().st_mode & 0o777 == 0o600
    again = shell("resume", session_id, "--in", "claude", "--json").json
    assert again["path"] != found["path"]
    said = shell("resume", session_id, "--in", "claude")
    assert said.out.startswith("claude --resume ")
    assert "not copied: 1 × thinking\n" in said.err


def test_run_starts_the_program_in_the_folder(shell: Shell, user_home: Path) -> None:
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    place, *arguments = shell("resume", session_id, "--in", "claude", "--run").out.splitlines()
    assert place == str(user_home / "work")
    assert arguments[0] == "--resume"


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def test_run_asks_before_a_picture_is_left_out(shell: Shell, user_home: Path, tmp_path: Path) -> None:
    """In a terminal, before anything is written: the tool takes the screen, and what was said on it is gone. `-y`, or a
    session without such a loss, starts it at once."""
    (user_home / "bin" / "cline").write_text('#!/bin/sh\necho "started: $1"\n')
    (user_home / "bin" / "cline").chmod(0o755)
    session_id = new(shell, [{"role": "user", "content": [text("See this."), PICTURE]}], cwd=str(user_home / "work"))
    plain = new(shell, MESSAGES, cwd=str(user_home / "work"))
    before = written(user_home)
    for turn, (arguments, answer, ends) in enumerate(
        [
            ([session_id], "n", "nothing was copied"),
            ([session_id], "", "started: --id"),
            ([session_id, "-y"], None, "started: --id"),
            ([plain], None, "started: --id"),
        ]
    ):
        place = tmp_path / str(turn)
        place.mkdir()
        terminal = Terminal(shell.command("resume", "--in", "cline", "--run", *arguments), shell.env, place)
        try:
            if answer is not None:
                terminal.shows("not copied: 1 × pictures")
                terminal.shows("Go on in cline without that? [Y/n]")
                assert written(user_home) == before
                terminal.say(answer)
            terminal.shows(ends)
            assert ("without that?" in terminal.screen) == (answer is not None)
        finally:
            terminal.close()
        assert (written(user_home) == before) == (answer == "n")
        for path in (user_home / ".cline").rglob("*.json"):
            path.unlink()
        before = written(user_home)


def test_a_dry_run_writes_nothing_and_needs_no_program(shell: Shell, user_home: Path) -> None:
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    before = written(user_home)
    for tool in NAMES:
        found = shell("resume", session_id, "--in", tool, "--dry-run", "--json").json
        assert (found["id"], found["path"], found["command"]) == (None, None, [])
    assert written(user_home) == before
    assert len(shell("list", "--json").json["sessions"]) == 1


def test_parts_of_a_session(shell: Shell, user_home: Path) -> None:
    """`--at`, `--last` and `--no-tools` copy less, and say so."""
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))

    def copied(*arguments: str) -> tuple[list[str], dict[str, int]]:
        found = shell("resume", session_id, "--in", "claude", "--json", *arguments).json
        events = BY_NAME["claude-code"].read(found["path"], open_source)
        texts = [one.message["content"] for one in events if isinstance(one, MessageRecord)]
        return texts, {one["what"]: one["count"] for one in found["lost"]}

    texts, lost = copied("--at", "2")
    assert texts == ["Which lock is first?"]
    assert lost["messages after --at"] == 5
    texts, lost = copied("--last", "2")
    assert texts == ["Always?", "Always."]
    assert lost["messages before the last ones"] == 4
    texts, lost = copied("--last", "4")  # from the result on: its call comes with it
    assert texts[1:] == ["Let me look.", "a lock", "The journal's.", "Always?", "Always."]
    texts, lost = copied("--no-tools")
    assert texts == ["Which lock is first?", [text("Let me look."), text("The journal's.")], "Always?", "Always."]
    assert lost["calls of tools, with their results"] == 1


def test_a_folder_of_another_machine_is_mapped(shell: Shell, user_home: Path) -> None:
    session_id = new(shell, MESSAGES, cwd="/no/such/folder")
    before = written(user_home)
    refused = shell("resume", session_id, "--in", "claude")
    assert refused.code == 1
    assert "/no/such/folder: no such folder here; --cwd DIR names the folder to work in" in refused.err
    assert written(user_home) == before
    (user_home / "link").symlink_to(user_home / "work")
    found = shell("resume", session_id, "--in", "claude", "--cwd", str(user_home / "link"), "--json").json
    assert found["cwd"] == str(user_home / "work")
    bare = new(shell, MESSAGES)
    assert shell("resume", bare, "--in", "claude", "--json", cwd=str(user_home / "work")).json["cwd"] == str(
        user_home / "work"
    )


@pytest.mark.parametrize("tool", ["claude", "sessiond"])
def test_a_reply_that_is_being_written(shell: Shell, user_home: Path, tool: str) -> None:
    """It is refused, and what was said before it is not."""
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    with shell.client() as client, client.session(session_id).stream("assistant") as reply:
        reply.write("a piece")
        before = written(user_home)
        refused = shell("resume", session_id, "--in", tool)
        assert refused.code == 1
        assert "a reply is still being written; wait until it has ended" in refused.err
        assert written(user_home) == before
        assert shell("resume", session_id, "--in", tool, "--at", "7").code == 0
    assert shell("resume", session_id, "--in", tool).code == 0


def test_what_cannot_be_done(shell: Shell, user_home: Path) -> None:
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    empty = new(shell, [{"role": "system", "content": "Be brief."}], cwd=str(user_home / "work"))
    before = written(user_home)
    for arguments, code, words in [
        (["nobody", "--in", "claude"], 1, "nobody"),
        ([session_id, "--in", "pi"], 1, "pi is not installed, or not on the PATH; install it, or choose another tool"),
        ([session_id, "--in", "vim"], 2, "'vim'"),
        ([session_id], 2, "Which session, and where?"),
        (["--in", "claude"], 2, "Which session, and where?"),
        ([empty, "--in", "claude"], 1, "nothing is said in it"),
        ([session_id, "--in", "claude", "--at", "1"], 1, "nothing is said in it"),
        ([session_id, "--in", "claude", "--run", "--json"], 2, "--run cannot be used with"),
        ([session_id, "--in", "claude", "--cwd", str(user_home / "bin" / "claude")], 1, "is not a folder"),
    ]:  # fmt: skip
        done = shell("resume", *arguments)
        assert done.code == code, (arguments, done)
        assert words in done.err, (arguments, done)
    assert written(user_home) == before


def test_targets(shell: Shell, user_home: Path) -> None:
    found = {one["tool"]: one for one in shell("resume", "--targets", "--json").json["targets"]}
    assert tuple(found) == NAMES
    assert found["claude"] == {
        "tool": "claude",
        "program": "claude",
        "installed": True,
        "path": str(user_home / "bin" / "claude"),
    }
    assert found["pi"]["installed"] is False
    assert found["sessiond"]["installed"] is True
    lines = shell("resume", "--targets").out.splitlines()
    assert lines[0].split() == [
        "claude",
        str(user_home / "bin" / "claude")[: -len(" home/bin/claude")],
        "home/bin/claude",
    ]


def test_here(shell: Shell, user_home: Path) -> None:
    """`--in sessiond`: a fork, or a shorter copy, in which the terminal client goes on; its parent is the session."""
    session_id = new(shell, MESSAGES, name="Locks", cwd=str(user_home / "work"))
    for arguments, count in [((), 7), (("--at", "2"), 2), (("--last", "2"), 2), (("--no-tools",), 4)]:
        found = shell("resume", session_id, "--in", "sessiond", "--json", *arguments).json
        info = shell("show", found["id"], "--json").json["session"]
        assert info["messageCount"] == count, (arguments, info)
        assert info["parent"]["sessionId"] == session_id
        assert info["name"] == "Locks"
        assert found["messages"] == count
    program, *words = found["command"]
    assert program == "sessiond"
    assert shell(*words, "--agent", "cat >/dev/null; echo Still.", stdin="And now?\n").code == 0
    said = [one["content"] for one in shell("show", found["id"], "--json").json["messages"]]
    assert said[-2:] == ["And now?", "Still."]


def test_the_way_through_the_tools(shell: Shell, user_home: Path, tmp_path: Path) -> None:
    """`sessiond show` names the parents, also one that is not here, and ends where parents run in a circle."""
    first = new(shell, MESSAGES, cwd=str(user_home / "work"))
    copied = shell("resume", first, "--in", "claude", "--json").json
    assert shell("import", copied["path"]).code == 0
    second = f"claude-code-{copied['id']}"
    third = shell("resume", second, "--in", "sessiond", "--json").json["id"]
    assert f"goes on from {second} (claude-code) ← {first}\n" in shell("show", third).out
    assert shell("rm", first).code == 0
    assert f"goes on from {second} (claude-code) ← {first} (not here)\n" in shell("show", third).out
    for own, other in [("one", "two"), ("two", "one")]:
        document = json.loads(shell("export", third, "-f", "json").out)
        document["session"] |= {"sessionId": own, "parent": {"sessionId": other, "seq": 1}}
        (tmp_path / f"{own}.json").write_text(json.dumps(document))
        assert shell("import", str(tmp_path / f"{own}.json")).code == 0
    assert "goes on from two (claude-code)\n" in shell("show", "one").out


def test_a_copy_that_is_followed(shell: Shell, user_home: Path) -> None:
    """A daemon that follows the tool brings the copy in by itself, with its parent."""
    (user_home / ".claude" / "projects").mkdir(parents=True)
    assert shell("follow", "on", "claude-code").code == 0
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    copied = shell("resume", session_id, "--in", "claude", "--json").json
    wait_until(lambda: shell("show", f"claude-code-{copied['id']}").code == 0)
    info = shell("show", f"claude-code-{copied['id']}", "--json").json["session"]
    assert info["parent"] == {"sessionId": session_id, "seq": 7}
    assert info["messageCount"] == 6


def test_the_tables_in_the_documentation() -> None:
    """`python -m scripts.resume_table` writes them from the sources of the importers' tests, and from an editor's session."""
    assert resume_table.DOC.read_text() == resume_table.page()
