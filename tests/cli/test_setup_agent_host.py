"""`sessiond setup vscode --agent-host`: the lines, where they go, and what is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shell import Shell, wait_until

OPTION = "agent-host-bridge-path="


def code_server(user: Shell, text: str) -> Path:
    path = user.path / ".config" / "code-server" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def settings(user: Shell) -> Path:
    return user.path / "config" / "config.toml"


def test_the_lines_say_what_is_found(user: Shell) -> None:
    said = user("setup", "vscode", "--agent-host").out
    assert "code-server (not found)" in said
    assert f"# {settings(user)}:" in said
    assert 'listen = ["socket"]' in said
    assert "Remote-SSH, WSL, containers (not found)" in said
    code_server(user, "")
    (user.path / ".vscode-server").mkdir()
    said = user("setup", "vscode", "--agent-host").out
    assert "code-server (found)" in said
    assert f"(found: {user.path / '.vscode-server'})" in said
    assert not settings(user).exists()


def test_they_are_added_once(user: Shell) -> None:
    """Everything else in the files stays, and a daemon that is started then listens where they say."""
    path = code_server(user, "auth: none\n# mine")
    settings(user).parent.mkdir(parents=True)
    settings(user).write_text("[autosave]\nidle_s = 3\n")
    done = user("setup", "vscode", "--agent-host", "--write")
    assert (done.code, done.out) == (0, f"added to {settings(user)}\nadded to {path}\n")
    assert "start code-server again" in done.err
    assert "set write = true under [ahp]" in done.err
    text = path.read_text()
    assert text.startswith("auth: none\n# mine\nvscode-option:\n  - ")
    assert settings(user).read_text() == '[autosave]\nidle_s = 3\n\n[ahp]\nlisten = ["socket"]\n'
    with user.client() as client:
        wait_until(lambda: client.status().ahp is not None)
        (there,) = client.status().ahp.listeners
    assert f"{OPTION}{there.socket}\n" in text
    again = user("setup", "vscode", "--agent-host", "--write")
    assert again.out == f"{settings(user)} already has it\n{path} already has it\n"
    assert path.read_text() == text


def test_a_daemon_that_does_not_listen_yet_is_named(user: Shell) -> None:
    with user.client():
        assert "run `sessiond stop`" in user("setup", "vscode", "--agent-host", "--write").err


def test_ports_that_are_there_stay(user: Shell) -> None:
    settings(user).parent.mkdir(parents=True)
    settings(user).write_text('[ahp]\nwrite = true\n# the Agents window:\nlisten = ["8714"]\n')
    done = user("setup", "vscode", "--agent-host", "--write")
    assert settings(user).read_text() == '[ahp]\nwrite = true\n# the Agents window:\nlisten = ["8714", "socket"]\n'
    assert "code-server was not found" in done.err
    assert "write = true" not in done.err


@pytest.mark.parametrize("text", ["vscode-option:\n  - agents=true\n", "vscode-option: agents=true\n"])
def test_other_options_of_code_server_are_left_alone(user: Shell, text: str) -> None:
    path = code_server(user, text)
    done = user("setup", "vscode", "--agent-host", "--write")
    assert done.code == 1
    assert f"{path} has vscode-option already" in done.err
    assert f"add this to its list: {OPTION}/" in done.err
    assert path.read_text() == text


def test_an_option_that_somebody_added_is_known(user: Shell) -> None:
    option = next(
        line.strip(" -")
        for line in user("setup", "vscode", "--agent-host").out.splitlines()
        if line.startswith("  - " + OPTION)
    )
    path = code_server(user, f'vscode-option:\n  - agents=true\n  - "{option}"\n')
    assert user("setup", "vscode", "--agent-host", "--write").out.endswith(f"{path} already has it\n")


def test_it_goes_with_vscode_alone(user: Shell) -> None:
    assert "--agent-host goes with vscode alone" in user("setup", "emacs", "--agent-host").err
    assert "--agent-host needs vscode" in user("setup", "--agent-host").err
