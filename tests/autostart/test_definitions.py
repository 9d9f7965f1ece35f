"""What is written for systemd and launchd, and that they would run it."""

from __future__ import annotations

import os
import plistlib
import subprocess
from pathlib import Path

import pytest

from sessiond.autostart import manager_of
from sessiond.autostart.definition import WRITTEN, Definition
from sessiond.autostart.launchd import Launchd
from sessiond.autostart.systemd import Systemd, quoted
from sessiond.errors import SessiondError
from tests.programs import need

NAMES = ["plain", "a b", "it's", 'a "b"', "back\\slash", "100 %i", "$HOME ${x}", "日本", "semi;colon #x"]


def program(folder: Path) -> str:
    """An executable in that folder."""
    folder.mkdir()
    path = folder / "sessiond"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("name", NAMES)
def test_systemd_accepts_the_unit(tmp_path: Path, name: str) -> None:
    """`systemd-analyze verify` finds the program, and has nothing to say about any line."""
    need("systemd-analyze")
    found = Systemd({"HOME": str(tmp_path / "a home")})
    command = (program(tmp_path / name), "serve", "--idle-exit", "0")
    text = found.text(Definition(command, {"SESSIOND_HOME": str(tmp_path / name / "home")}))
    # The manual is that of an installed package.
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("Documentation="))
    unit = tmp_path / "sessiond.service"
    unit.write_text(text)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    verify = ["systemd-analyze", "--user", "--man=no", "verify", str(unit)]
    done = subprocess.run(verify, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "sessiond" in line]) == (0, [])


def test_systemd_would_refuse_another_path(tmp_path: Path) -> None:
    """So the test above can fail: without quotes the program is not found."""
    need("systemd-analyze")
    path = program(tmp_path / "a b")
    unit = tmp_path / "sessiond.service"
    unit.write_text(f"[Service]\nExecStart={path} serve\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    verify = ["systemd-analyze", "--user", "--man=no", "verify", str(unit)]
    assert subprocess.run(verify, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/usr/bin/sessiond", "/usr/bin/sessiond"),
        ("/a b", '"/a b"'),
        ('/a"b\\c', '"/a\\"b\\\\c"'),
        ("/100%i", "/100%%i"),
        ("", '""'),
        ("/it's", '"/it\'s"'),
    ],
)
def test_words_of_a_unit(word: str, written: str) -> None:
    """Quoted where systemd would split or unescape; a percent sign is never a specifier."""
    assert quoted(word) == written


def test_a_dollar_sign_in_an_argument_is_no_variable() -> None:
    """systemd expands variables in arguments, not in the program's path or in Environment=."""
    text = Systemd({"HOME": "/h"}).text(Definition(("/a$b", "-m", "$x"), {"SESSIOND_HOME": "/h$x"}))
    assert 'ExecStart="/a$b" -m "$$x"\n' in text
    assert 'Environment="SESSIOND_HOME=/h$x"\n' in text


@pytest.mark.parametrize("name", NAMES)
def test_the_agent_says_what_runs(name: str) -> None:
    """A property list needs no quoting; the program and the home come back as they were."""
    command = (f"/{name}/sessiond", "serve", "--idle-exit", "0")
    text = Launchd({"HOME": "/Users/a b"}).text(Definition(command, {"SESSIOND_HOME": f"/{name}"}))
    agent = plistlib.loads(text.encode())
    assert agent["Label"] == "sessiond"
    assert agent["ProgramArguments"] == list(command)
    assert agent["EnvironmentVariables"] == {"SESSIOND_HOME": f"/{name}"}
    assert agent["RunAtLoad"] is True
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert f"<!-- {WRITTEN} -->" in text


@pytest.mark.parametrize("manager", [Systemd, Launchd])
@pytest.mark.parametrize("path", ["/a\nb", "/a\tb", "/\udcff"])
def test_a_path_that_cannot_be_written(manager: type[Systemd] | type[Launchd], path: str) -> None:
    """A line break would begin another setting; bytes that are not UTF-8 would name another file."""
    with pytest.raises(SessiondError, match="control character or is not valid UTF-8"):
        manager({"HOME": "/h"}).text(Definition((path, "serve"), {}))


def test_a_program_whose_path_systemd_refuses() -> None:
    """A shell starts it, and becomes it."""
    text = Systemd({"HOME": "/h"}).text(Definition(("/it's", "serve"), {}))
    assert 'ExecStart=/bin/sh -c "exec \\"$$0\\" \\"$$@\\"" "/it\'s" serve\n' in text


def test_where_the_files_are() -> None:
    """In the folder that the manager reads; a relative XDG_CONFIG_HOME counts as unset."""
    assert manager_of("linux", {"HOME": "/h"}).path == "/h/.config/systemd/user/sessiond.service"
    assert manager_of("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/c/"}).path == "/c/systemd/user/sessiond.service"
    assert (
        manager_of("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "c"}).path == "/h/.config/systemd/user/sessiond.service"
    )
    assert manager_of("darwin", {"HOME": "/h"}).path == "/h/Library/LaunchAgents/sessiond.plist"


def test_another_system_is_an_error() -> None:
    """It says which are supported, and what to run instead."""
    with pytest.raises(SessiondError, match="services on freebsd14 are not supported") as caught:
        manager_of("freebsd14", {"HOME": "/h"})
    assert caught.value.hint == "have your service manager run: sessiond serve --idle-exit 0"
