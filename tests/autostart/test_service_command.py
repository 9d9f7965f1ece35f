"""`sessiond service` in a home with a blank, with a service manager that records what it is told."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.autostart import Definition, install, remove
from sessiond.autostart.launchd import Launchd
from tests.shell import Shell, wait_until

linux = pytest.mark.skipif(sys.platform != "linux", reason="systemd is a part of Linux")


class User:
    """A home with a blank, and a `systemctl` whose answers a file decides."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.home = shell.path / "a home"
        self.home.mkdir()
        self.unit = self.home / ".config" / "systemd" / "user" / "sessiond.service"
        self.told = shell.path / "told"
        self._bin = shell.path / "bin"
        self._bin.mkdir()
        shell.env["HOME"] = str(self.home)
        shell.env["PATH"] = f"{self._bin}:/bin"
        shell.env.pop("XDG_CONFIG_HOME", None)
        self.manager("exit 0")

    def manager(self, script: str) -> None:
        """What `systemctl` does from now on, after it recorded its arguments."""
        path = self._bin / "systemctl"
        path.write_text(f"#!/bin/sh\necho \"$*\" >>'{self.told}'\n{script}\n")
        path.chmod(0o755)
        self.told.write_text("")

    def commands(self) -> list[str]:
        """What `systemctl` was told, without questions."""
        return [line for line in self.told.read_text().splitlines() if "is-active" not in line]


@pytest.fixture
def account() -> Iterator[User]:
    shell = Shell()
    yield User(shell)
    shell.close()


def started(user: User) -> None:
    user.manager("case $2 in is-active) echo active;; esac")


@linux
def test_install_once_and_again(account: User) -> None:
    """The first time the file is written and the service started; then there is nothing to write."""
    done = account.shell("service", "install")
    assert done.code == 0, done
    assert done.out == f"wrote {account.unit}\nthe daemon runs now, and will start at every login\n"
    assert account.commands() == [
        "--user daemon-reload",
        "--user enable sessiond.service",
        "--user restart sessiond.service",
    ]
    assert oct(account.unit.stat().st_mode & 0o777) == "0o644"
    started(account)
    before = account.unit.stat()
    again = account.shell("service", "install", "--json").json
    assert (again["changed"], again["started"], again["problem"]) == (False, True, None)
    assert again["command"][-3:] == ["serve", "--idle-exit", "0"]
    assert account.commands()[-1] == "--user start sessiond.service"
    assert account.unit.stat().st_mtime_ns == before.st_mtime_ns


@linux
def test_what_the_unit_runs(account: User) -> None:
    """Its command, with its variables and nothing else of this shell, is the daemon that this home's clients find."""
    assert account.shell("service", "install").code == 0
    lines = [line.partition("=") for line in account.unit.read_text().splitlines()]
    (command,) = [shlex.split(value) for name, _, value in lines if name == "ExecStart"]
    variables = dict(shlex.split(value)[0].split("=", 1) for name, _, value in lines if name == "Environment")
    assert variables == {"SESSIOND_HOME": str(account.shell.path)}
    env = {"HOME": str(account.home), "PATH": os.defpath, **variables}
    process = subprocess.Popen(command, env=env, cwd="/", stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: account.shell("status", "--json").json["running"])
        assert account.shell.pid() == process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@linux
def test_a_file_of_somebody_else(account: User) -> None:
    """It is neither replaced nor removed, unless that is asked for."""
    account.unit.parent.mkdir(parents=True)
    account.unit.write_text("[Service]\nExecStart=/bin/true\n")
    for action in ("install", "remove"):
        done = account.shell("service", action)
        assert done.code == 1
        assert done.err == (
            f"sessiond: {account.unit} was not written by sessiond; use --force to replace or remove it\n"
        )
        assert account.commands() == []
    assert account.shell("service", "status", "--json").json["file"] == "foreign"
    assert account.unit.read_text() == "[Service]\nExecStart=/bin/true\n"
    assert account.shell("service", "install", "--force").code == 0
    assert account.shell("service", "status", "--json").json["file"] == "current"


@linux
def test_remove(account: User) -> None:
    """The service is stopped, and its file is gone; the second time there is nothing to remove."""
    assert account.shell("service", "install", "--no-start").code == 0
    assert account.commands() == []
    assert account.shell("service", "remove").out == f"removed {account.unit}\n"
    assert account.commands() == ["--user disable --now sessiond.service", "--user daemon-reload"]
    assert not account.unit.exists()
    assert account.shell("service", "remove").out == "the service is not installed\n"
    assert account.shell("service", "remove", "--json").json["removed"] is False


@linux
def test_without_a_service_manager(account: User) -> None:
    """In a session without one the file is written and removed all the same, and the error says how to go on."""
    account.manager("echo Failed to connect to bus >&2; exit 1")
    done = account.shell("service", "install")
    assert done.code == 1
    assert done.out == f"wrote {account.unit}\n"
    assert done.err == (
        "sessiond: the service was not started: `systemctl --user daemon-reload` failed: Failed to connect to bus; "
        "in a login session, run: systemctl --user enable --now sessiond.service\n"
    )
    done = account.shell("service", "status")
    assert done.out.endswith("systemd cannot be reached, so it is unknown whether the service runs\n")
    done = account.shell("service", "remove")
    assert (done.code, done.out) == (1, f"removed {account.unit}\n")
    assert "the service manager was not told: `systemctl --user disable --now" in done.err
    assert not account.unit.exists()


@linux
def test_status(account: User) -> None:
    """Whether there is a file, whether it is for this installation and home, and whether the service runs."""
    assert account.shell("service", "status").out == "not installed; install it with: sessiond service install\n"
    assert account.shell("service", "install").code == 0
    started(account)
    assert account.shell("service", "status").out == f"{account.unit} is up to date\nrunning\n"
    expected = {"manager": "systemd", "path": str(account.unit), "file": "current", "running": True}
    assert account.shell("service", "status", "--json").json == expected
    account.unit.write_text(account.unit.read_text().replace("--idle-exit 0", "--idle-exit 5"))
    account.manager("case $2 in is-active) echo inactive; exit 3;; esac")
    assert account.shell("service", "status").out == (
        f"{account.unit} is for another installation or home; update it with: sessiond service install\n"
        "not running; start it with: systemctl --user enable --now sessiond.service\n"
    )


@linux
def test_a_daemon_of_a_client(account: User) -> None:
    """A service cannot take the data folder from a daemon that runs: the message says when it takes over, and how it does now."""
    assert account.shell("list").code == 0
    pid = account.shell.pid()
    done = account.shell("service", "install")
    assert done.code == 0, done
    assert done.out.splitlines()[1:] == [
        f"a client has already started a daemon (pid {pid}), so the service takes over at the next login",
        "to let it take over now, run: sessiond stop && systemctl --user enable --now sessiond.service",
    ]
    assert account.shell("service", "install", "--json").json["otherDaemon"] == pid


@linux
def test_a_command_that_works_only_in_this_shell(account: User, tmp_path: Path) -> None:
    """Nothing is written for a program that would fail at the next login."""
    script = tmp_path / "sessiond"
    script.write_text(
        f"#!{sys.executable}\nimport os, sys\nassert 'SESSIOND_HOME' in os.environ, 'only here'\n"
        "from sessiond.__main__ import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    done = subprocess.run(
        [script, "service", "install"],
        env=account.shell.env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 1
    assert f"{script} does not run outside this shell: AssertionError: only here; install sessiond" in done.stderr
    assert not account.unit.exists()


def test_launchd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new agent is loaded, a changed one is loaded again, one that runs is left alone, and a removed one is unloaded."""
    told, loaded = tmp_path / "told", tmp_path / "loaded"
    tool = tmp_path / "launchctl"
    tool.write_text(
        f"#!/bin/sh\necho \"$*\" >>'{told}'\ncase $1 in\n"
        f"bootstrap) test -e \"$3\" && touch '{loaded}';;\n"
        f"bootout) rm '{loaded}';;\n"
        f"print) test -e '{loaded}' && echo '	state = running';;\nesac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    agent = Launchd({"HOME": str(tmp_path / "a home")})
    domain = f"gui/{os.getuid()}"

    def orders() -> list[str]:
        lines = [line for line in told.read_text().splitlines() if not line.startswith("print")]
        told.write_text("")
        return lines

    first = Definition(("/bin/sessiond", "serve"), {})
    assert agent.running() is False
    assert install(agent, first, force=False, start=True) == (True, None)
    assert orders() == [f"bootstrap {domain} {agent.path}"]
    assert agent.running() is True
    assert install(agent, first, force=False, start=True) == (False, None)
    assert orders() == []
    assert install(agent, Definition(("/bin/sessiond",), {}), force=False, start=True) == (True, None)
    assert orders() == [f"bootout {domain}/sessiond", f"bootstrap {domain} {agent.path}"]
    assert remove(agent, force=False) == (True, None)
    assert orders() == [f"bootout {domain}/sessiond"]
    assert not Path(agent.path).exists()
