"""`sessiond setup vscode --agent-host`: what windows of VS Code need to show all sessions without an extension."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from sessiond import config as configuration
from sessiond.cli.client import connect
from sessiond.cli.output import note
from sessiond.cli.settings import replace
from sessiond.client.daemon_types import Status
from sessiond.endpoint import agent_host_socket, places, prepare_socket_path, read_endpoint, user_home
from sessiond.errors import DaemonUnreachable, SessiondError
from sessiond.fs import RealFileSystem
from sessiond.settings import SETTINGS, SOCKET

_PORT = 8714
"""An example, for windows that take an address."""
_OPTION = "agent-host-bridge-path"
_OLD_OPTION = re.compile(r"agent-host-bridge-\S+")
_WITHOUT_COMMENTS = re.compile(r"(^|\s)#.*")
_MEMBER = re.compile(r"[A-Za-z][\w-]*\s*:(\s|$)", re.ASCII)
_OPTIONS = re.compile(r"^[\"']?vscode-option[\"']?\s*:", re.MULTILINE)
_LINES = """\
# {config}: the daemon listens as long as it runs, and does not exit when it is idle
[ahp]
listen = ["socket"]
# write = true  # windows may also write, answer, rename, archive and delete

# code-server ({code_server}): {yaml}
vscode-option:
  - {quoted}

# A server of VS Code that you start yourself (server-main.js): on its command line
# {words}

# The Agents window of the desktop ({desktop}; needs "chat.remoteAgentHostsEnabled": true):
# listen = ["socket", "{port}"] in {config}, then the command "Add Remote Agent Host..." with
# ws://127.0.0.1:{port}?tkn=TOKEN, where TOKEN is in {token}

# Remote-SSH, WSL, containers ({remote}) and other windows: they have no setting for this; use the extension
"""


def run(*, write: bool) -> int:
    """Print the lines and which windows are here, or add the lines for those. The exit code. SessiondError, OSError."""
    return _write() if write else _print()


def _print() -> int:
    where, option = places(), _option(_running())
    print(
        _LINES.format(
            config=where.config + "/config.toml",
            code_server="found" if has_code_server(os.environ) else "not found",
            yaml=code_server_file(os.environ),
            words=shlex.quote(f"--{option}"),
            quoted=json.dumps(option, ensure_ascii=False),
            desktop=_named([name for name in ("code", "code-insiders") if shutil.which(name)]),
            port=_PORT,
            token=f"{where.data}/agent-host-token, and for windows that may write {where.data}/agent-host-write-token",
            remote=_named([str(folder) for folder in _remote_servers(os.environ)]),
        ),
        end="",
    )
    return 0


def _write() -> int:
    fs, where = RealFileSystem(), places()
    config = configuration.load(fs, where)
    if SOCKET not in config.ahp_listen:
        configuration.with_names(fs, where, config, "ahp.listen", [*config.ahp_listen, SOCKET])
        print(f"added to {config.file}")
    elif config.sources["ahp.listen"] == config.file:
        print(f"{config.file} already has it")
    else:
        print(f"{SETTINGS['ahp.listen'].variable} already says so, for daemons that are started with it")
    status = _running()
    try:
        if has_code_server(os.environ):
            _write_code_server(code_server_file(os.environ), _option(status))
        else:
            note("code-server was not found here; `sessiond setup vscode --agent-host` prints what other windows need")
    finally:  # config.toml has changed by now, whatever became of code-server's file
        if status is not None and _listening(status) is None:
            note("the daemon does not listen there yet: run `sessiond stop`; the next command starts it again")
        if not config.ahp_write:
            note("windows will read; so that they may also write, set write = true under [ahp]")
    return 0


def _write_code_server(path: Path, option: str) -> None:
    """Add the option at the end. SessiondError for a file that has options already, or is not one that we can add a line to."""
    before = path.read_bytes() if path.exists() else b""
    text = before.decode("utf-8", "surrogateescape")
    if re.search(rf"(?<![\w-]){re.escape(option)}(?![^\s\"'\],])", _WITHOUT_COMMENTS.sub("", text)):
        print(f"{path} already has it")
        return
    line = json.dumps(option, ensure_ascii=False)  # as YAML writes it, too
    if (old := _OLD_OPTION.search(text)) is not None:
        raise SessiondError(f"{path} leads elsewhere: {old[0]}", hint=f"replace that by {line}")
    if _OPTIONS.search(text):
        raise SessiondError(f"{path} has vscode-option already", hint=f"add this to its list: {line}")
    if not _is_plain(text):
        raise SessiondError(
            f"{path} has a form to which nothing can be added safely", hint=f"add to vscode-option there: {line}"
        )
    end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text or text.endswith("\n") else end
    replace(path, before, before + f"{gap}vscode-option:{end}  - {line}{end}".encode("utf-8", "surrogateescape"))
    print(f"added to {path}")
    note("start code-server again")


def _is_plain(text: str) -> bool:
    """Return whether a text is a mapping at the left margin, so that another member can be written after it."""
    lines = [one for one in text.splitlines() if one.strip() and not one.lstrip().startswith("#")]
    return all(one[0].isspace() or _MEMBER.match(one) for one in lines) and not (lines and lines[0][0].isspace())


def _option(status: Status | None) -> str:
    """`status`: of the daemon, if one runs."""
    return f"{_OPTION}={(status and _listening(status)) or _socket()}"


def _socket() -> str:
    """Return where the daemon will listen: beside its own socket, wherever that was the last time."""
    where = places()
    record = read_endpoint(where.data)
    try:
        return agent_host_socket(record.socket if record is not None else prepare_socket_path(where))
    except OSError as error:
        raise SessiondError(str(error.strerror), hint="set XDG_RUNTIME_DIR to a short private folder") from None


def _running() -> Status | None:
    """Return the status of the daemon, or None if none runs."""
    try:
        with connect(start=False) as client:
            return client.status()
    except DaemonUnreachable:
        return None


def _listening(status: Status) -> str | None:
    """The socket for windows, if the daemon listens there."""
    found = [] if status.ahp is None else status.ahp.listeners
    return next((one.socket for one in found if one.socket is not None), None)


def has_code_server(environ: Mapping[str, str]) -> bool:
    return shutil.which("code-server") is not None or code_server_file(environ).exists()


def code_server_file(environ: Mapping[str, str]) -> Path:
    """Return where code-server looks for its options."""
    config = environ.get("CODE_SERVER_CONFIG")
    if config:
        return Path(config)
    return Path(environ.get("XDG_CONFIG_HOME") or Path(user_home(environ)) / ".config") / "code-server" / "config.yaml"


def _remote_servers(environ: Mapping[str, str]) -> list[Path]:
    """Return the folders that windows elsewhere installed here."""
    folders = [Path(user_home(environ)) / name for name in (".vscode-server", ".vscode-server-insiders")]
    return [folder for folder in folders if folder.is_dir()]


def _named(found: list[str]) -> str:
    return f"found: {', '.join(found)}" if found else "not found"
