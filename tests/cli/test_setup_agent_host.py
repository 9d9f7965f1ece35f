"""`sessiond setup vscode --agent-host`: the lines, where they go, and what is found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

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
    assert text.startswith('auth: none\n# mine\nvscode-option:\n  - "')
    assert settings(user).read_text() == '[autosave]\nidle_s = 3\n\n[ahp]\nlisten = ["socket"]\n'
    with user.client() as client:
        wait_until(lambda: client.status().ahp is not None)
        (there,) = client.status().ahp.listeners
    assert f'"{OPTION}{there.socket}"\n' in text
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
    assert f'add this to its list: "{OPTION}/' in done.err
    assert "set write = true" in done.err
    assert path.read_text() == text


@pytest.mark.parametrize(
    "text", ["{auth: none}\n", "  auth: none\n", "auth: none\n...\n", "---\nauth: none\n", "\ufeffauth: none\n", "[]\n"]
)
def test_a_file_of_another_form_is_left_alone(user: Shell, text: str) -> None:
    """What is added to it would not be YAML, or be something else."""
    path = code_server(user, text)
    done = user("setup", "vscode", "--agent-host", "--write")
    assert done.code == 1
    assert "a form to which nothing can be added safely" in done.err
    assert f'add to vscode-option there: "{OPTION}/' in done.err
    assert path.read_text() == text


@pytest.mark.parametrize(
    "text", ["", "# mine\n", "auth: none\r\ncert: true\r\n", "a:\n  - b\n  # c\nd: |\n  text\n", "a: b"]
)
def test_what_is_added_is_yaml(user: Shell, text: str) -> None:
    path = code_server(user, "")
    path.write_bytes(text.encode())
    assert user("setup", "vscode", "--agent-host", "--write").code == 0
    found = yaml.safe_load(path.read_bytes())
    assert {**(yaml.safe_load(text) or {}), "vscode-option": found["vscode-option"]} == found
    assert path.read_bytes().startswith(text.encode())
    (option,) = found["vscode-option"]
    assert option.startswith(f"{OPTION}{user.path}/")
    assert user("setup", "vscode", "--agent-host", "--write").out.endswith(f"{path} already has it\n")


def test_one_that_leads_elsewhere_is_named(user: Shell) -> None:
    path = code_server(user, "vscode-option:\n  - agent-host-bridge-port=8714\n")
    done = user("setup", "vscode", "--agent-host", "--write")
    assert f"{path} leads elsewhere: agent-host-bridge-port=8714" in done.err
    assert "replace that by" in done.err


def test_the_environment_is_named(user: Shell) -> None:
    user.env["SESSIOND_AHP_LISTEN"] = "socket"
    assert "SESSIOND_AHP_LISTEN already says so" in user("setup", "vscode", "--agent-host", "--write").out
    user.env["SESSIOND_AHP_LISTEN"] = "8714"
    assert "unset SESSIOND_AHP_LISTEN" in user("setup", "vscode", "--agent-host", "--write").err


def test_the_path_is_the_daemons(user: Shell) -> None:
    """It may have been started with another folder for sockets than this command would take."""
    del user.env["SESSIOND_HOME"]
    user.env |= {"XDG_RUNTIME_DIR": str(user.path / "a"), "XDG_DATA_HOME": str(user.path / "data")}
    (user.path / "a").mkdir(mode=0o700)
    (user.path / "b").mkdir(mode=0o700)
    assert user("list").code == 0
    other = {**user.env, "XDG_RUNTIME_DIR": str(user.path / "b")}
    said = subprocess.run(
        user.command("setup", "vscode", "--agent-host"),
        env=other,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert user("stop").code == 0
    assert f"{OPTION}{user.path}/a/" in said
    assert f"{OPTION}{user.path}/b/" not in said


def test_an_option_that_somebody_added_is_known(user: Shell) -> None:
    option = next(
        line.strip(' -"')
        for line in user("setup", "vscode", "--agent-host").out.splitlines()
        if line.startswith('  - "' + OPTION)
    )
    path = code_server(user, f'vscode-option:\n  - agents=true\n  - "{option}"\n')
    assert user("setup", "vscode", "--agent-host", "--write").out.endswith(f"{path} already has it\n")


def test_it_goes_with_vscode_alone(user: Shell) -> None:
    assert "--agent-host goes with vscode alone" in user("setup", "emacs", "--agent-host").err
    assert "--agent-host needs vscode" in user("setup", "--agent-host").err
