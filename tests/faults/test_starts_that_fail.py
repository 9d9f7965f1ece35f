"""A daemon that cannot start says why, at once, and is gone; a socket that was lost is there again as soon as it can be."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond.daemon.process import _in_words
from sessiond.endpoint import Places, places
from sessiond.reach import is_held
from tests.faults.test_disks import fill
from tests.home import Home
from tests.programs import run

Mount = Callable[..., Path]
AT_ONCE_S = 10.0
"""Half of a client's patience with a start; alone, a failed one takes half a second."""


def listed(home: Path) -> subprocess.CompletedProcess[str]:
    """`sessiond list`, as a person calls it."""
    command = [sys.executable, "-m", "sessiond", "list"]
    env = {**os.environ, "SESSIOND_HOME": str(home)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def refused(home: Path) -> str:
    """What a first start that fails says; nobody is left behind."""
    began = time.monotonic()
    done = listed(home)
    assert time.monotonic() - began < AT_ONCE_S
    assert done.returncode not in (0, None), done
    while is_held(where(home)):  # it has said why, and is about to be gone
        assert time.monotonic() - began < 2 * AT_ONCE_S, "a daemon was left behind"
    assert not (home / "run" / "sessiond.sock").exists()
    return done.stderr


def where(home: Path) -> Places:
    return places({"HOME": "/", "SESSIOND_HOME": str(home)})


def test_a_first_start_on_a_full_disk(tmp_path: Path, mounted: Mount) -> None:
    """With room it starts."""
    home = mounted("-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", at=tmp_path / "home")
    fill(home / "ballast")
    assert f"the disk of {home}/data is full" in refused(home)
    (home / "ballast").unlink()
    run(["mount", "-o", "remount,size=16m", str(home)])
    assert listed(home).returncode == 0
    subprocess.run(
        [sys.executable, "-m", "sessiond", "stop"], env={**os.environ, "SESSIOND_HOME": str(home)}, check=True
    )


def test_a_first_start_without_an_inode(tmp_path: Path, mounted: Mount) -> None:
    home = mounted("-t", "tmpfs", "-o", "nr_inodes=8,mode=0700", "tmpfs", at=tmp_path / "home")
    assert "no inodes left" in refused(home)


@pytest.mark.parametrize("folder", ["data", "run"])
def test_a_first_start_in_a_folder_that_is_read_only(tmp_path: Path, mounted: Mount, folder: str) -> None:
    home = tmp_path / "home"
    mounted("-t", "tmpfs", "-o", "ro,mode=0700", "tmpfs", at=home / folder)
    said = refused(home)
    assert f"{home}/{folder}" in said
    assert "is on a file system that is read-only" in said


def test_a_quota_is_named(tmp_path: Path) -> None:
    said, hint = _in_words(OSError(errno.EDQUOT, "Disk quota exceeded", f"{tmp_path}/x"), where(tmp_path))
    assert said == f"{tmp_path}/x could not be written: your quota on its disk is used up"
    assert hint is not None
    assert _in_words(OSError(errno.EIO, "bad"), where(tmp_path)) == ("[Errno 5] bad", None)


def test_a_socket_that_was_lost_comes_back(tmp_path: Path, mounted: Mount) -> None:
    """It is removed, and its folder is read-only until the daemon has tried in vain."""
    with Home(tmp_path) as home:
        home.socket_path.unlink()
        mounted("-t", "tmpfs", "-o", "ro,mode=0700", "tmpfs", at=tmp_path / "run")
        log = tmp_path / "log" / "sessiond.log"
        deadline = time.monotonic() + 60
        while "the socket could not be restored" not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        run(["umount", str(tmp_path / "run")])
        done = listed(tmp_path)
        assert done.returncode == 0, done.stderr
        assert home.socket_path.is_socket()
