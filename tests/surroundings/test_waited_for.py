"""Output that a reader waits for arrives when it is printed, through a pipe, whatever Python's variables say."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell import ROOT, Shell
from tests.surroundings.strangers import Lines, stranger


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = stranger()
    yield made
    made.close()


def codex_line(text: str) -> str:
    content = [{"type": "input_text", "text": text}]
    payload = {"type": "message", "role": "user", "content": content}
    return json.dumps({"timestamp": "2026-01-11T14:30:23.000Z", "type": "response_item", "payload": payload}) + "\n"


def codex(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "rollout-2026-01-11T14-30-22-0199c0de-0000-7000-8000-000000000001.jsonl"
    meta = {"id": "0199c0de-0000-7000-8000-000000000001", "timestamp": "2026-01-11T14:30:22.000Z", "cwd": "/x"}
    path.write_text(
        json.dumps({"timestamp": meta["timestamp"], "type": "session_meta", "payload": meta}) + "\n" + codex_line("one")
    )
    return path


@pytest.mark.parametrize("kind", ["tcp", "ws"])
def test_18_the_address_that_is_listened_on(shell: Shell, kind: str) -> None:
    """`--tcp` and `--ws` print it and stay: it does not wait in a buffer for their end."""
    line = Lines(shell.start(f"--{kind}", "0")).next()
    assert re.fullmatch(rf"listening on {kind} 127\.0\.0\.1:\d+, the token is in .+/token", line)


def test_18_both_addresses(shell: Shell) -> None:
    """Each on a line of its own."""
    lines = Lines(shell.start("--tcp", "0", "--ws", "0"))
    assert [lines.next().split()[2] for _ in range(2)] == ["tcp", "ws"]


@pytest.mark.parametrize("arguments", [("--print",), ()], ids=["print", "no browser"])
def test_18_the_address_of_the_page(shell: Shell, arguments: tuple[str, ...]) -> None:
    """`web` says where the page is while it serves it."""
    shell.env["BROWSER"] = "/bin/false"
    line = Lines(shell.start("web", "--port", "0", *arguments)).until("http://")
    url = line.partition("http://")[2].partition("#")[0]
    with urllib.request.urlopen(f"http://{url}", timeout=20) as page:
        assert page.status == 200


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
def test_18_what_is_said_in_a_session(shell: Shell, as_json: bool) -> None:
    """`tail` shows what was there, and each word as it is said."""
    shell("new", "--id", "s")
    shell("append", "s", "first")
    lines = Lines(shell.start("tail", "s", *(["--json"] if as_json else [])))
    lines.until("first")
    shell("append", "s", "second")
    lines.until("second")


def test_18_text_that_streams_in(shell: Shell) -> None:
    """`tail` shows a part of a line before the line ends."""
    shell("new", "--id", "s")
    client = shell.client()
    message = {"id": "m", "role": "assistant", "content": "Hel", "status": "streaming"}
    client.call("session/append", {"sessionId": "s", "messages": [message]})
    lines = Lines(shell.start("tail", "s"))
    lines.until("assistant")
    lines.begun("Hel")
    client.call("session/extend", {"sessionId": "s", "messageId": "m", "text": "lo"})
    lines.begun("lo")
    client.close()


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
def test_18_what_an_import_takes_in(shell: Shell, as_json: bool) -> None:
    """`import --follow` says what was there, that it follows, and what came in since."""
    path = codex(shell.path / "rollouts")
    lines = Lines(shell.start("import", "--follow", str(path.parent), *(["--json"] if as_json else [])))
    lines.until('"sessions":' if as_json else "following 1 place")
    with path.open("a") as file:
        file.write(codex_line("two"))
    assert "2" in lines.until('"messageCount":2' if as_json else "2 messages")


def test_18_the_demo(shell: Shell) -> None:
    """Each of its steps is shown when it is done."""
    shell.env["TMPDIR"] = str(shell.path)
    process = shell.start("demo")
    lines = Lines(process)
    for step in ("A throwaway home", "1. ", "2. ", "3. ", "4. ", "Everything stopped and removed."):
        lines.until(step)
    assert process.wait(30) == 0


def test_18_the_log_of_a_daemon_in_the_foreground(shell: Shell) -> None:
    """`serve` says on standard error that it is there."""
    Lines(shell.start("serve"), "stderr").until("version ")


def test_18_the_tests_run_in_nobodys_environment(tmp_path: Path) -> None:
    """`tests/run` passes on where programs are, the knobs of the tests, and what reaches an index; nothing else."""
    mine = {
        "PYTHONUNBUFFERED": "1",
        "XDG_RUNTIME_DIR": "/x",
        "EDITOR": "e",
        "SESSIOND_HOME": "/x",
        "LC_ALL": "C",
        "TERM": "t",
    }
    kept = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/my home",
        "CI": "true",
        "SESSIOND_FUZZ": "3",
        "https_proxy": "a b",
        "PIP_INDEX_URL": "u",
    }
    assert "\n. tests/clean_environment\n" in (ROOT / "tests" / "run").read_text().partition("exec pytest")[0]
    done = subprocess.run(
        ["/bin/sh", "-euc", ". tests/clean_environment; exec env"], cwd=ROOT, env={**mine, **kept}, capture_output=True, text=True, check=True
    )  # fmt: skip
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert {name: value for name, value in seen.items() if name not in ("PWD", "OLDPWD", "_", "SHLVL")} == {
        **kept,
        "LANG": "C.UTF-8",
    }
