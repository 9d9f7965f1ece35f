"""`sessiond export`, for real: one session or many, to a file, a folder or standard output, and blanked."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
from itertools import product
from pathlib import Path

import pytest

from sessiond.exporters import SUFFIXES
from tests.shell import Shell

KEY = "sk-ant-api03-" + "a1B2c3D4" * 5


@pytest.fixture
def talks(shell: Shell) -> Shell:
    """Three sessions: two tagged, one of them archived, one with secrets in it."""
    for name, tag in (("one", "red"), ("two", "red"), ("three", "blue")):
        assert shell("new", "--id", name, "--tag", tag, "--name", f"Talk {name}").code == 0
        assert shell("append", name, f"hello from {name}").code == 0
    assert shell("append", "three", f"my key is {KEY} in /home/mallory42/x, says mallory42").code == 0
    assert shell("archive", "two").code == 0
    return shell


def test_one_goes_where_it_is_told(talks: Shell, tmp_path: Path) -> None:
    """All formats, into a file, into a folder that is there, and to standard output."""
    for form, suffix in SUFFIXES.items():
        target = tmp_path / f"x{suffix}"
        done = talks("export", "one", "-f", form, "-o", str(target))
        assert done.out == f"{target}: {target.stat().st_size} bytes\n"
        assert target.read_text() == talks("export", "one", "-f", form).out
        assert "hello from one" in target.read_text()
        assert talks("export", "one", "-f", form, "-o", str(tmp_path)).code == 0
        assert (tmp_path / f"one{suffix}").read_bytes() == target.read_bytes()
    again = talks("export", "one", "-o", str(tmp_path))
    assert (again.code, again.out) == (1, "")
    assert "--overwrite" in again.err
    assert talks("export", "one", "-o", str(tmp_path), "--overwrite").code == 0


def test_several_go_into_a_folder_or_follow_each_other(talks: Shell, tmp_path: Path) -> None:
    """By their ids or by a filter; a missing one is reported, and the others are exported."""
    folder = tmp_path / "out" / "deep"
    done = talks("export", "one", "nosuch", "three", "-o", str(folder), "-f", "org")
    assert done.code == 1
    assert sorted(os.listdir(folder)) == ["one.org", "three.org"]
    assert "nosuch" in done.err
    assert [line.partition(":")[0] for line in done.out.splitlines()] == [f"{folder}/one.org", f"{folder}/three.org"]
    text = talks("export", "one", "three", "-f", "text").out
    assert text.index("hello from one") < text.index("hello from three")
    red = talks("export", "--tag", "red", "--json").json["sessions"]
    assert [result["sessionId"] for result in red] == ["one"]
    assert talks("export", "--since", "2100-01-01", "--json").json == {"sessions": []}
    everything = talks("export", "--all", "-o", str(tmp_path / "all"), "-f", "jsonl", "--json").json["sessions"]
    assert {Path(result["path"]).name for result in everything} == {"one.jsonl", "two.jsonl", "three.jsonl"}
    other = Shell()
    assert other("import", str(tmp_path / "all")).out == "imported 3 sessions with 4 messages\n"
    other.close()


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_what_follows_each_other_comes_in_as_what_it_was(talks: Shell, tmp_path: Path, form: str) -> None:
    """All sessions in one file are all sessions again elsewhere; the file grown, only what is new comes."""
    target = tmp_path / f"all.{form}"
    target.write_text(talks("export", "--all", "-f", form).out)
    if form == "json":
        assert [one["session"]["sessionId"] for one in json.loads(target.read_text())] == ["one", "three", "two"]
        assert json.loads(talks("export", "one", "-f", "json").out)["session"]["sessionId"] == "one"
        assert talks("export", "--since", "2100-01-01", "-f", "json").out == "[]\n"
    with contextlib.closing(Shell()) as other:
        assert other("import", str(target)).out == "imported 3 sessions with 4 messages\n"
        assert other("export", "--all", "-f", "json").out == talks("export", "--all", "-f", "json").out
        assert other("import", str(target)).out == "imported 0 sessions with 0 messages\n3 sessions had nothing new\n"
        assert talks("append", "three", "later").code == 0
        target.write_text(talks("export", "--all", "-f", form).out)
        grown = other("import", str(target), "--json").json
        assert ([info["sessionId"] for info in grown["sessions"]], grown["skipped"]) == (["three"], 2)
        assert [m["content"] for m in other("show", "three", "--json").json["messages"]][-1] == "later"


def test_what_to_export_must_be_said_once(talks: Shell) -> None:
    """No session, both ways at once, or pages one after another: exit 2."""
    for wrong in ([], ["one", "--all"], ["one", "--tag", "red"], ["--all", "-f", "html"], ["one", "-f", "pdf"]):
        done = talks("export", *wrong)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), wrong


def test_redaction_blanks_and_says_what(talks: Shell, tmp_path: Path) -> None:
    """Keys, home folders and names are in no format any more; what was blanked is on standard error."""
    for form in SUFFIXES:
        done = talks("export", "three", "--redact", "-f", form)
        assert done.err == "blanked: 1 × API key, 1 × home folder, 1 × user name\n"
        assert "hello from three" in done.out
        assert KEY not in done.out
        assert "mallory" not in done.out
    target = tmp_path / "x.json"
    result = talks("export", "three", "--redact", "-f", "json", "-o", str(target), "--json").json
    assert result == {
        "path": str(target),
        "bytes": target.stat().st_size,
        "redacted": {"API key": 1, "home folder": 1, "user name": 1},
    }
    assert json.loads(target.read_text())["session"]["name"] == "Talk three"
    assert talks("export", "three", "--redact", "-f", "json", "-o", str(target)).code == 1
    assert talks("export", "one", "--redact").err == "blanked: nothing\n"
    inside = talks("export", "three", "--redact", "-o", str(talks.data / "sessions" / "x.md"))
    assert inside.code == 1
    assert not (talks.data / "sessions" / "x.md").exists()


def test_a_redacted_session_comes_in_elsewhere(talks: Shell, tmp_path: Path) -> None:
    """The native format, blanked, is still the session with its ids."""
    target = tmp_path / "three.jsonl"
    assert talks("export", "three", "--redact", "-f", "jsonl", "-o", str(target)).code == 0
    other = Shell()
    assert other("import", str(target)).out == "imported 1 session with 2 messages\n"
    there, here = (shell("show", "three", "--json").json["messages"] for shell in (other, talks))
    other.close()
    assert [(m["id"], m["seq"], m["role"], m["timestamp"]) for m in there] == [
        (m["id"], m["seq"], m["role"], m["timestamp"]) for m in here
    ]
    assert there[1]["content"] == "my key is [redacted] in ~/x, says [user]"


def test_23_a_new_file_has_the_mode_that_the_user_gives_to_files(talks: Shell, tmp_path: Path) -> None:
    """By the umask of the shell, not the daemon's; one that is written over keeps its own."""
    ways = product([("077", 0o600), ("027", 0o640), ("022", 0o644)], [(), ("--redact",), ("--overwrite",)])
    for number, ((mask, mode), more) in enumerate(ways):
        target = tmp_path / f"{number}.md"
        line = f'umask {mask}; exec "$@"'
        command = ["sh", "-c", line, "sh", *talks.command("export", "one", "-o", str(target), *more)]
        subprocess.run(command, env=talks.env, cwd="/", check=True, capture_output=True, timeout=60)
        assert stat.S_IMODE(target.stat().st_mode) == mode, (mask, more)
    target.chmod(0o604)
    assert talks("export", "one", "-o", str(target), "--overwrite").code == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_a_dash_is_standard_output(talks: Shell, tmp_path: Path) -> None:
    """For one session and for several, as if no output was named; a file of that name needs a folder before it."""
    for arguments in (
        ("one",),
        ("one", "-f", "json"),
        ("one", "three"),
        ("--all", "-f", "json"),
        ("one", "--json"),
        ("one", "--redact"),
    ):
        plain = talks("export", *arguments)
        dash = talks("export", *arguments, "-o", "-")
        assert (dash.code, dash.out) == (0, plain.out), arguments
        assert "hello from one" in dash.out
    several = talks("export", "one", "three", "-f", "html", "-o", "-")
    assert (several.code, several.out) == (2, "")
    assert "name a folder with --output" in several.err
    named = subprocess.run(
        [*talks.command(), "export", "one", "-o", "./-"],
        env=talks.env,
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert named.stdout.endswith(b" bytes\n")
    assert "hello from one" in (tmp_path / "-").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("import", "-"), ("backup", "-"), ("backup", "x", "--decrypt", "-"), ("backup", "x", "--encrypt", "--key-file", "-"),
        ("stats", "--prices", "-"), ("store", "key", "new", "-"), ("store", "key", "show", "-"), ("adopt", "-"),
        ("store", "join", "x", "--key-file", "-"), ("follow", "on", "codex", "--path", "-"), ("store", "create", "x", "--password-file", "-"),
    ],
)  # fmt: skip
def test_a_dash_that_will_not_do(shell: Shell, arguments: tuple[str, ...]) -> None:
    """Where a stream cannot be read or written, it is refused with what to do."""
    done = shell(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "name a file (./- for one called that)" in " ".join(done.err.split())


def test_the_ending_of_the_file_decides_where_no_format_is_given(talks: Shell, tmp_path: Path) -> None:
    """A format that is given counts before it; a folder has no ending. `md` and `txt` are formats, too."""
    endings = {
        ".md": "markdown", ".markdown": "markdown", ".org": "org", ".html": "html", ".HTM": "html", ".txt": "text",
        ".jsonl": "jsonl", ".json": "json", ".openai.json": "openai", ".anthropic.json": "anthropic", ".other": "markdown", "": "markdown",
    }  # fmt: skip
    for ending, form in endings.items():
        target = tmp_path / f"talk{ending}"
        assert talks("export", "one", "-o", str(target)).code == 0
        assert target.read_text() == talks("export", "one", "-f", form).out, ending
    for short, form in (("md", "markdown"), ("txt", "text")):
        target = tmp_path / f"{short}.html"
        assert talks("export", "one", "-f", short, "-o", str(target)).code == 0
        assert target.read_text() == talks("export", "one", "-f", form).out
    both = talks("export", "one", "three", "-o", str(tmp_path / "all.html"))
    assert both.code == 2
    assert both.err.startswith("sessiond: 2 sessions cannot go into one file: --output names a folder.")
    (tmp_path / "all.html").mkdir()
    assert talks("export", "one", "three", "-o", str(tmp_path / "all.html")).code == 0
    assert sorted(os.listdir(tmp_path / "all.html")) == ["one.md", "three.md"]


@pytest.mark.parametrize("more", [(), ("--overwrite",), ("--redact",)])
def test_a_place_that_is_not_there_is_told_in_words(talks: Shell, tmp_path: Path, more: tuple[str, ...]) -> None:
    """And what to do: a missing folder, a file in its place, and what the system refuses."""
    (tmp_path / "file").write_text("")
    missing = tmp_path / "not here" / "x.md"
    done = talks("export", "one", "-o", str(missing), *more)
    said = f"sessiond: the folder {missing.parent} does not exist; create it with `mkdir -p '{missing.parent}'`\n"
    assert (done.code, done.out, done.err.removeprefix("blanked: nothing\n")) == (1, "", said)
    for wrong, said in (
        (tmp_path / "file" / "x.md", f"{tmp_path / 'file'} is not a folder"),
        (Path("/proc/none.md"), "No such file or directory"),
        (tmp_path / ("n" * 300), "File name too long"),
    ):
        done = talks("export", "one", "-o", str(wrong), *more)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), done
        assert said in done.err and "Errno" not in done.err
    several = talks("export", "one", "three", "-o", str(tmp_path / "file" / "deep"), *more)
    assert (several.code, several.err.count("Not a directory"), "Errno" in several.err) == (1, 2, False)
