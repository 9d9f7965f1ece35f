"""A short life of a real daemon on each file system that this machine can mount, and what is reported about those without
guarantees.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond.fs.network import file_system_of, unpromised
from tests.home import Home
from tests.programs import need

LOOPS = {
    "ext4": (32, ("mkfs.ext4", "-q", "-F")),
    "xfs": (320, ("mkfs.xfs", "-q", "-f")),
    "btrfs": (128, ("mkfs.btrfs", "-q", "-f")),
}
"""File system -> (least size of a device in MiB, what makes it)."""
CONFIG = "[autosave]\nidle_s = 0.05\n"
Mount = Callable[..., Path]


def placed(kind: str, top: Path, mounted: Mount) -> Path:
    """A folder on a fresh file system of that kind."""
    at = top / "place"
    if kind == "tmpfs":
        return mounted("-t", "tmpfs", "-o", "size=32m,mode=700", "tmpfs", at=at)
    if kind == "bind":
        (top / "real").mkdir()
        return mounted("--bind", str(top / "real"), at=at)
    if kind == "overlay":
        layers = mounted("-t", "tmpfs", "tmpfs", at=top / "layers")  # an overlay cannot be on an overlay
        for name in ("lower", "upper", "work"):
            (layers / name).mkdir()
        options = f"lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work"
        return mounted("-t", "overlay", "-o", options, "overlay", at=at)
    if f"\t{kind}\n" not in Path("/proc/filesystems").read_text():
        pytest.skip(f"this kernel has no {kind}")
    size, make = LOOPS[kind]
    image = top / "image"
    with open(image, "wb") as file:
        file.truncate(size << 20)
    subprocess.run([need(make[0]), *make[1:], str(image)], check=True, capture_output=True)
    return mounted("-o", "loop", str(image), at=at)


@pytest.mark.parametrize("kind", ["tmpfs", "bind", "overlay", *LOOPS])
def test_a_life_on_each_file_system(kind: str, tmp_path: Path, mounted: Mount) -> None:
    """Home and store on it: append, save, kill -9, restart, trash, restore, and a move to another file system and back."""
    place = placed(kind, tmp_path, mounted)
    (place / "home").mkdir()
    (tmp_path / "elsewhere").mkdir()
    stores = {"here": place / "chats", "elsewhere": tmp_path / "elsewhere"}
    stores["here"].mkdir()
    config = CONFIG + "".join(f'[stores.{name}]\npath = "{path}"\nformat = "jsonl"\n' for name, path in stores.items())
    home = Home(place / "home", config)
    with home:
        client = home.client()
        for session, store in (("a", None), ("here/a", "here")):
            client.call("session/new", sessionId="a", **({"store": store} if store else {}))
            say(client, session, "saved")
            client.call("session/save", sessionId=session)
            say(client, session, "waits")
        home.kill()
        home.start()
        client = home.client()
        assert texts(client, "a") == texts(client, "here/a") == ["saved", "waits"]
        client.call("session/move", sessionId="here/a", store="elsewhere")
        client.call("session/move", sessionId="elsewhere/a", store="here")
        client.call("session/delete", sessionId="here/a")
        client.call("session/restore", sessionId="here/a")
        client.call("session/save")
        assert texts(client, "here/a") == ["saved", "waits"]
        assert client.call("daemon/status")["readOnly"] is None
    assert "waits" in (stores["here"] / "a.jsonl").read_text()
    told = doctor(home)
    assert told["healthy"], told


def say(client, session: str, text: str) -> None:
    client.call("session/append", sessionId=session, messages=[{"role": "user", "content": text}])


def texts(client, session: str) -> list[str]:
    return [one["content"] for one in client.call("session/read", sessionId=session)["messages"]]


def doctor(home: Home) -> dict:
    command = [sys.executable, "-m", "sessiond", "doctor", "--json"]
    return json.loads(subprocess.run(command, env=home.env, capture_output=True, check=False, timeout=60).stdout)


MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:40 / /home/ada rw,relatime shared:5 - nfs4 server:/export rw
31 30 0:41 / /home/ada/my\\040chats rw - fuse.sshfs host: rw
32 30 0:42 / /home/ada/local rw - xfs /dev/vdb rw
33 27 0:43 / /mnt rw - ext4 /dev/vdc rw
34 27 0:44 / /mnt rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "named"),
    [
        ("/home/ada/.local", "nfs4", True),
        ("/home/ada", "nfs4", True),
        ("/home/adam", "ext4", False),
        ("/home/ada/my chats/x", "fuse.sshfs", True),
        ("/home/ada/local/x", "xfs", False),
        ("/mnt/x", "cifs", True),
        ("/", "ext4", False),
    ],
)
def test_which_file_system_a_path_lies_on(tmp_path: Path, path: str, kind: str, named: bool) -> None:
    """By the longest mount point above it, of several at one place the last; blanks are escaped there."""
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert file_system_of(path, str(tmp_path / "mountinfo")) == kind
    assert unpromised(path, str(tmp_path / "mountinfo")) == (kind if named else None)


def test_a_system_that_names_no_mounts_says_nothing(tmp_path: Path) -> None:
    assert unpromised("/", str(tmp_path / "none")) is None


def test_a_fuse_file_system_is_named_by_status_and_doctor(tmp_path: Path) -> None:
    """A store on a real one: `status` and `doctor` say that nothing is guaranteed there; it still works, and is not reported
    as a problem.
    """
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no FUSE here")
    if subprocess.run(["which", "bindfs"], capture_output=True, check=False).returncode:
        pytest.skip("bindfs is not installed")
    real, at = tmp_path / "real", tmp_path / "chats"
    (tmp_path / "home").mkdir()
    real.mkdir()
    at.mkdir()
    done = subprocess.run(["bindfs", str(real), str(at)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine does not mount FUSE: {done.stderr.strip()}")
    try:
        home = Home(tmp_path / "home", f'{CONFIG}[stores.far]\npath = "{at}"\nformat = "jsonl"\n')
        with home:
            client = home.client()
            client.call("session/new", sessionId="a", store="far")
            say(client, "far/a", "word")
            client.call("session/save", sessionId="far/a")
            for command in (["status"], ["doctor"]):
                told = subprocess.run(
                    [sys.executable, "-m", "sessiond", *command],
                    env=home.env,
                    capture_output=True,
                    text=True,
                    check=True,
                )
                assert f"{at} is on fuse" in told.stdout
        assert "word" in (real / "a.jsonl").read_text()
    finally:
        subprocess.run(["umount", "-l", str(at)], check=False, capture_output=True)
