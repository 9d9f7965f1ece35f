"""`sessiond setup vscode --agent-host`: what windows of VS Code need to show all sessions without an extension."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from sessiond import config as configuration
from sessiond.cli.client import connect
from sessiond.cli.output import note
from sessiond.cli.settings import replace
from sessiond.endpoint import agent_host_socket, places, user_home
from sessiond.errors import DaemonUnreachable, SessiondError
from sessiond.fs import RealFileSystem
from sessiond.settings import SOCKET

_PORT = 8714
"""For what takes an address: any free one would do."""
_OPTION = "agent-host-bridge-path"
_OPTIONS = re.compile(r"^[\"']?vscode-option[\"']?\s*:", re.MULTILINE)
_LINES = """\
# {config}: the daemon listens as long as it runs, and does not exit when it is idle
[ahp]
listen = ["socket"]
# write = true  # windows may also write, answer, rename, archive and delete

# code-server ({code_server}): {yaml}
vscode-option:
  - {option}

# A server of VS Code that you start yourself (server-main.js): on its command line
# --{option}

# The Agents window of the desktop ({desktop}; needs "chat.remoteAgentHostsEnabled": true):
# listen = ["socket", "{port}"] in {config}, then the command "Add Remote Agent Host..." with
# ws://127.0.0.1:{port}?tkn=TOKEN, where TOKEN is in {token}

# Remote-SSH, WSL, containers ({remote}) and other windows: no setting is known that leads them here; take the extension
"""


def run(*, write: bool) -> int:
    """Print the lines and what of VS Code is here, or add them for what is here. The exit code. SessiondError, OSError."""
    return _write() if write else _print()


def _print() -> int:
    where = places()
    print(
        _LINES.format(
            config=where.config + "/config.toml",
            code_server="found" if has_code_server(os.environ) else "not found",
            yaml=code_server_file(os.environ),
            option=_option(),
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
    if SOCKET in config.ahp_listen:
        print(f"{config.file} already has it")
    else:
        configuration.with_names(fs, where, config, "ahp.listen", [*config.ahp_listen, SOCKET])
        print(f"added to {config.file}")
    if has_code_server(os.environ):
        _write_code_server(code_server_file(os.environ), _option())
    else:
        note("code-server was not found here; `sessiond setup vscode --agent-host` prints what other windows need")
    if not _listens():
        note("the daemon that runs does not listen there yet: run `sessiond stop`; the next command starts it again")
    if not config.ahp_write:
        note("windows will read; so that they may also write, set write = true under [ahp]")
    return 0


def _write_code_server(path: Path, option: str) -> None:
    before = path.read_bytes() if path.exists() else b""
    text = before.decode("utf-8", "surrogateescape")
    if re.search(rf"^\s*(- |\[)?\s*[\"']?{re.escape(option)}[\"']?\s*$", text, re.MULTILINE):
        print(f"{path} already has it")
        return
    if _OPTIONS.search(text):
        raise SessiondError(f"{path} has vscode-option already", hint=f"add this to its list: {option}")
    added = f"{'' if not text or text.endswith(chr(10)) else chr(10)}vscode-option:\n  - {option}\n"
    replace(path, before, before + added.encode("utf-8", "surrogateescape"))
    print(f"added to {path}")
    note("start code-server again")


def _option() -> str:
    try:
        return f"{_OPTION}={_listening() or agent_host_socket(places())}"
    except OSError as error:
        raise SessiondError(str(error.strerror), hint="set XDG_RUNTIME_DIR to a short private folder") from None


def _listening() -> str | None:
    """The socket of the daemon that runs."""
    try:
        with connect(start=False) as client:
            status = client.status()
    except DaemonUnreachable:
        return None
    found = [] if status.ahp is None else status.ahp.listeners
    return next((one.socket for one in found if one.socket is not None), None)


def _listens() -> bool:
    """False: a daemon runs, and does not listen."""
    try:
        connect(start=False).close()
    except DaemonUnreachable:
        return True
    return _listening() is not None


def has_code_server(environ: Mapping[str, str]) -> bool:
    return shutil.which("code-server") is not None or code_server_file(environ).exists()


def code_server_file(environ: Mapping[str, str]) -> Path:
    """Where code-server looks for its options."""
    config = environ.get("CODE_SERVER_CONFIG")
    if config:
        return Path(config)
    return Path(environ.get("XDG_CONFIG_HOME") or Path(user_home(environ)) / ".config") / "code-server" / "config.yaml"


def _remote_servers(environ: Mapping[str, str]) -> list[Path]:
    """What windows elsewhere installed here."""
    folders = [Path(user_home(environ)) / name for name in (".vscode-server", ".vscode-server-insiders")]
    return [folder for folder in folders if folder.is_dir()]


def _named(found: list[str]) -> str:
    return f"found: {', '.join(found)}" if found else "not found"
