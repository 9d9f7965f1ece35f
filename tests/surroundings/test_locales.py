"""Encodings other than UTF-8: in the locale, in output, in the path of the home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import need
from tests.shell import Shell
from tests.surroundings.strangers import Lines, stranger

LOCALES = {"en_US.ISO-8859-1": "iso8859-1", "ja_JP.EUC-JP": "euc_jp"}
WORDS = "Grüße, 日本 🙂"


@pytest.fixture(scope="session")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the two locales, made here: few systems have them."""
    folder = tmp_path_factory.mktemp("locales")
    program = need("localedef")
    for name in LOCALES:
        language, _, charset = name.partition(".")
        done = subprocess.run([program, "-i", language, "-f", charset, folder / name], capture_output=True, check=False)
        if not (folder / name).is_dir():
            need(f"locale sources ({done.stderr.decode(errors='replace').strip()[:200]})")
    return folder


@pytest.fixture(params=LOCALES)
def shell(request: pytest.FixtureRequest, locales: Path) -> Iterator[Shell]:
    """On a machine with such a locale."""
    made = stranger(LC_ALL=request.param, LOCPATH=str(locales))
    yield made
    made.close()


@pytest.fixture
def utf8() -> Iterator[Shell]:
    made = stranger(LANG="C.UTF-8")
    yield made
    made.close()


def out(shell: Shell, *arguments: str) -> bytes:
    """The output of a command, byte by byte; it must succeed and print nothing else."""
    done = subprocess.run(
        shell.command(*arguments), env=shell.env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def with_words(shell: Shell) -> None:
    """A session named so, which says so."""
    assert shell("new", "--id", "s").code == 0
    client = shell.client()
    client.call("session/update", {"sessionId": "s", "name": WORDS})
    client.call("session/append", {"sessionId": "s", "messages": [{"role": "user", "content": WORDS}]})
    client.close()


def names_in(shell: Shell) -> str:
    return str(shell.env.get("LC_ALL", "utf-8"))


def test_21_what_cannot_be_encoded_is_shown_as_something(shell: Shell) -> None:
    """`list`, `show`, `search`, `tail`: a question mark in its place, and never a traceback."""
    with_words(shell)
    encoding = LOCALES[names_in(shell)]
    for arguments in (("list",), ("show", "s"), ("search", "Grüße", "--no-pager"), ("export", "s", "--format", "text")):
        shown = out(shell, *arguments) if arguments[0] != "search" else out(shell, "search", "role:user")
        assert shown.strip()
    assert WORDS.encode(encoding, "replace") in out(shell, "list")
    assert "🙂" not in out(shell, "show", "s").decode(encoding)
    process = shell.start("tail", "s")
    Lines(process).until("?")


def test_21_json_is_the_same_value_in_every_encoding(shell: Shell) -> None:
    """`--json`: what the encoding does not have is escaped."""
    with_words(shell)
    assert json.loads(out(shell, "list", "--json"))["sessions"][0]["name"] == WORDS
    assert json.loads(out(shell, "search", "--json", "role:user"))["hits"][0]["snippet"] == WORDS
    process = shell.start("tail", "s", "--json")
    assert json.loads(Lines(process).next())["messages"][0]["content"] == WORDS


@pytest.mark.parametrize("how", ["by a client", "in the foreground"])
def test_21_the_locale_of_the_first_client_is_its_own(shell: Shell, how: str) -> None:
    """A daemon that was first started under another encoding opens everybody's paths."""
    if how == "by a client":
        assert shell("list").code == 0
    else:
        Lines(shell.start("serve"), "stderr").until("version ")
    folder = shell.path / "日本 ü"
    folder.mkdir()
    there = dict(shell.env)
    shell.env = {
        **{name: value for name, value in there.items() if name not in ("LC_ALL", "LOCPATH")},
        "LANG": "C.UTF-8",
    }
    (folder / "x.json").write_text(json.dumps([{"role": "user", "content": "words"}]))
    assert shell("import", str(folder / "x.json")).out.startswith("imported 1 session with 1 message")
    assert shell("new", "--id", "s").code == 0
    assert shell("append", "s", "words").code == 0
    assert shell("export", "s", "-o", str(folder / "out.md")).code == 0
    assert "words" in (folder / "out.md").read_text()
    shell.env = there


def test_21_paths_of_another_encoding_lead_where_they_lead(shell: Shell) -> None:
    """A client under another locale names the same bytes as everybody else."""
    folder = shell.path / "日本 ü"
    folder.mkdir()
    (folder / "x.json").write_text(json.dumps([{"role": "user", "content": "words"}]))
    arguments = [os.fsencode(one) for one in shell.command("import", str(folder / "x.json"))]
    done = subprocess.run(arguments, env=shell.env, cwd="/", capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert b"imported 1 session with 1 message" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("status", "--json"), ("doctor",), ("web", "--print", "--port", "0"), ("--tcp", "0")],
    ids=lambda args: args[0],
)
def test_21_a_home_whose_path_is_no_utf8(utf8: Shell, arguments: tuple[str, ...]) -> None:
    """Everything works; what is printed shows U+FFFD for what is not text."""
    outer = utf8.path
    utf8.path = Path(f"{outer}/h\udcff x")
    utf8.path.mkdir(mode=0o700)
    utf8.env |= {"SESSIOND_HOME": str(utf8.path), "HOME": str(utf8.path)}
    try:
        with_words(utf8)
        if arguments[0] in ("web", "--tcp"):
            Lines(utf8.start(*arguments)).until("http://127" if arguments[0] == "web" else "h� x")
        else:
            assert WORDS in utf8("list").out
            assert ("h� x" in utf8(*arguments).out) == (arguments[0] != "list")
            done = utf8("export", "s", "-o", f"{utf8.path}/out.md", cwd=str(utf8.path))
            assert done.code == 0, done
            assert WORDS in Path(f"{utf8.path}/out.md").read_text()
        assert "the name is not valid UTF-8" in utf8("import", str(utf8.path)).err
        assert utf8("stop").code == 0
    finally:
        inner, utf8.path = utf8.path, outer
        utf8.env["SESSIOND_HOME"] = str(outer)
        shutil.rmtree(inner, ignore_errors=True)


def test_21_a_folder_that_was_removed(utf8: Shell) -> None:
    """`new` in it makes a session that is about no folder."""
    gone = utf8.path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *utf8.command("new", "--json")],
        env=utf8.env, cwd=gone, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["session"]["cwd"] is None
