"""Real file systems that fail under the real daemon, and limits of the kernel."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.witness import Witness
from tests.home import Client, Home
from tests.programs import need, run
from tests.shell import Shell
from tests.zygote import ForkedHome, Zygote

CONFIG = "[autosave]\nidle_s = 0.05\n[limits]\nreserve_bytes = 65536\nsegment_bytes = 262144\n"
Mount = Callable[..., Path]


def placed(zygote: Zygote, tmp_path: Path, limits: str = "") -> ForkedHome:
    """A home whose data folder can be mounted before it starts."""
    (tmp_path / "home").mkdir()
    return ForkedHome(zygote, tmp_path / "home", CONFIG + limits)


def begin(home: Home) -> tuple[Client, Witness]:
    home.start()
    client = home.client()
    witness = begun_session(client, "a")
    for _ in range(3):
        assert witness.append(client)
    client.call("session/save")
    return client, witness


def begun_session(client: Client, name: str) -> Witness:
    client.call("session/new", sessionId=name, name="n")
    return Witness(name)


def until_refused(client: Client, witness: Witness, size: int) -> dict[str, Any]:
    """Append until one is not acknowledged; its error."""
    for _ in range(3000):
        if not witness.append(client, size):
            return witness.errors[-1]
    raise AssertionError("the disk never failed")


def fill(path: Path) -> None:
    """Take every byte that is left."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def ext4(tmp_path: Path, size: int, *options: str) -> Path:
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(size)
    run([need("mkfs.ext4"), "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", *options, str(image)])
    return image


def on_a_healthy_disk(home: ForkedHome, witness: Witness, image: Path, data: Path, mounted: Mount) -> None:
    """The machine goes down, the file system is repaired, and the next daemon carries on with all that was acknowledged."""
    home.kill()
    home.forget_clients()
    run(["umount", str(data)])
    subprocess.run([need("e2fsck"), "-fy", str(image)], check=False, capture_output=True)
    mounted("-o", "loop", str(image), at=data)
    home.start()
    witness.check(home.client())
    assert witness.append(home.client())
    home.stop()


@pytest.mark.parametrize(("step", "kinds"), [(1, ["indeterminate"]), (262144, ["indeterminate", "readOnly"])])
def test_a_sync_that_really_fails(zygote: Zygote, tmp_path: Path, mounted: Mount, step: int, kinds: list[str]) -> None:
    """ext4 on a device that has no more blocks to give: its sync fails, and a second one would succeed and mean nothing.
    The first one is final, that of a record or that of room for records; nothing acknowledged is lost when the disk is mended.
    """
    below = mounted("-t", "tmpfs", "-o", "size=24m", "tmpfs", at=tmp_path / "below")
    image = ext4(below, 64 << 20, "-O", "^has_journal")
    home = placed(zygote, tmp_path, f"segment_step_bytes = {step}\n")
    data = mounted("-o", "loop", str(image), at=home.path / "data")
    client, witness = begin(home)
    bystander = home.client()
    bystander.call("session/list")
    fill(below / "ballast")
    error = until_refused(client, witness, 60_000)
    assert error["data"]["kind"] in kinds, error
    assert client.call("daemon/status")["readOnly"]["final"] is True
    assert "read-only" in bystander.notification("window/logMessage")["message"]
    (below / "ballast").unlink()
    assert not witness.append(client), "the disk works again, and is not trusted"
    witness.check(client)
    on_a_healthy_disk(home, witness, image, data, mounted)


def test_a_disk_that_turns_read_only(zygote: Zygote, tmp_path: Path, mounted: Mount) -> None:
    """ext4 gives up and turns read-only, as it does after an error: appends are refused and say why, reading works, also what
    was not read before; the next start, on a disk that can be written again, carries on.
    """
    home = placed(zygote, tmp_path)
    image = ext4(tmp_path, 32 << 20)
    data = mounted("-o", "loop", str(image), at=home.path / "data")
    client, witness = begin(home)
    client.call("session/new", sessionId="closed", messages=[{"role": "user", "content": "early"}])
    client.call("session/save")
    client.call("session/close", sessionId="closed")
    run(["mount", "-o", "remount,abort", str(data)])
    assert not witness.append(client)
    assert witness.errors[-1]["data"]["reason"]
    assert client.call("daemon/status")["readOnly"]
    witness.check(client)
    assert client.call("session/open", sessionId="closed")["messages"][0]["content"] == "early"
    on_a_healthy_disk(home, witness, image, data, mounted)


def test_no_inode_is_left(zygote: Zygote, tmp_path: Path, mounted: Mount) -> None:
    """Room for bytes and none for files: what needs no new file continues, what needs one is refused or saved later; when
    there are inodes again everything is saved.
    """
    home = placed(zygote, tmp_path)
    data = mounted("-o", "loop", str(ext4(tmp_path, 16 << 20, "-N", "64")), at=home.path / "data")
    client, witness = begin(home)
    taken = []
    while os.statvfs(data).f_favail:
        taken.append(data / f"taken-{len(taken)}")
        taken[-1].touch()
    error = until_refused(client, witness, 20_000)  # at the end of the segment, when a new one is needed
    assert (error["data"]["kind"], error["data"]["reason"]) == ("readOnly", "No space left on device")
    witness.check(client)
    for path in taken:
        path.unlink()
    assert witness.append(client)
    assert client.call("daemon/status")["readOnly"] is None
    home.kill()
    home.start()
    witness.check(home.client())
    home.stop()


@pytest.mark.parametrize("more", [0, 1, 7, 39, 40, 41, 60, 200])
def test_a_file_may_grow_no_further(forked: ForkedHome, more: int) -> None:
    """RLIMIT_FSIZE: a true short write, at any place in a record, then EFBIG. What was half written is taken back, the next
    segment begins small, and no acknowledged message is lost.
    """
    client = forked.client()
    witness = begun_session(client, "a")
    for _ in range(5):
        assert witness.append(client, 300)
    client.call("session/save")
    assert forked.process is not None
    journal = max((forked.path / "data" / "journal").glob("*.journal"))
    before = resource.prlimit(forked.process.pid, resource.RLIMIT_FSIZE)
    written = len(journal.read_bytes().rstrip(b"\0"))
    resource.prlimit(forked.process.pid, resource.RLIMIT_FSIZE, (written + more, before[1]))
    answered = [witness.append(client, 300) for _ in range(6)]
    assert not all(answered), "the limit was met"
    assert any(error["data"]["reason"] == "File too large" for error in witness.errors)
    witness.check(client)
    resource.prlimit(forked.process.pid, resource.RLIMIT_FSIZE, before)
    assert witness.append(client, 300)
    forked.kill()
    forked.start()
    witness.check(forked.client())


def test_no_descriptor_is_left(forked: ForkedHome) -> None:
    """RLIMIT_NOFILE: present clients are served, new ones get an error and are closed, the daemon does not spin; saves that
    cannot open their file are done when they can.
    """
    client = forked.client()
    witness = begun_session(client, "a")
    assert witness.append(client)
    assert forked.process is not None
    pid = forked.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + 3, before[1]))
    crowd = [forked.connect() for _ in range(12)]
    refused = 0
    for sock in crowd:
        sock.settimeout(0.3)
        try:
            refused += b"no file descriptor left" in sock.recv(4096)
        except TimeoutError:
            continue
    assert refused
    used, began = cpu_s(pid), time.monotonic()
    while time.monotonic() < began + 0.5:
        assert witness.append(client)
        time.sleep(0.05)  # a rate, not a wait
    assert cpu_s(pid) - used < 0.4, "it spins"
    for sock in crowd:
        sock.close()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    witness.check(forked.client())
    client.call("session/save")
    forked.stop()
    assert f'"id":"{list(witness.acked)[-1]}"' in (forked.path / "data" / "sessions" / "a.jsonl").read_text()


def test_a_request_that_finds_no_descriptor_says_what_to_do(forked: ForkedHome) -> None:
    """Neither is it a bug in the daemon, nor is the folder gone or the disk full."""
    client = forked.client()
    assert begun_session(client, "a").append(client)
    assert forked.process is not None
    before = resource.prlimit(forked.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(forked.process.pid, resource.RLIMIT_NOFILE, (1, before[1]))
    wanted = [
        ("session/search", {"query": "m.", "mode": "regex"}),
        ("session/fork", {"sessionId": "a"}),
        ("session/clear", {"sessionId": "a"}),
        ("daemon/backup", {"path": str(forked.path / "copy")}),
    ]
    for method, params in wanted:
        error = client.fails(method, **params)
        assert "open" in error["message"] and "`ulimit -n`" in error["data"]["hint"], (method, error)
    resource.prlimit(forked.process.pid, resource.RLIMIT_NOFILE, before)
    for method, params in wanted:
        client.call(method, **params)


def test_the_limit_of_descriptors_is_raised(shell: Shell) -> None:
    """What a shell allows is often less than our clients need."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    process = shell.start(
        "serve", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard)), stderr=subprocess.DEVNULL
    )
    assert shell.pid() == process.pid
    soft, _ = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    assert soft == (10_240 if hard == resource.RLIM_INFINITY else min(hard, 10_240))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_clock_is_set_back(tmp_path: Path) -> None:
    """Two days, while it runs and over a restart: order, seqs, saves and new ids do not care."""
    need("faketime")
    libraries = sorted(Path("/usr/lib").glob("**/libfaketime.so.1")) + sorted(
        Path("/usr/lib").glob("**/libfaketimeMT.so.1")
    )
    clock = tmp_path / "clock"
    clock.write_text("+0")
    env = {
        "LD_PRELOAD": str(libraries[-1]), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    with Home(tmp_path, "[autosave]\nidle_s = 0.05\n", env) as home:
        client = home.client()
        witness = begun_session(client, "a")
        assert witness.append(client)
        first = client.call("session/new")["session"]
        clock.write_text("-2d")
        assert witness.append(client)
        second = client.call("session/new", name="earlier")["session"]
        assert second["createdAt"] < first["createdAt"], "the clock was set back"
        client.call("session/open", sessionId="a")
        assert witness.append(client)
        # None comes where the timer runs on that clock.
        saved = client.notification("session/saved")
        while saved["sessionId"] != "a" or saved["savedAt"] > first["createdAt"]:
            saved = client.notification("session/saved")
        home.kill()
        home.start()
        client = home.client()
        witness.check(client)
        assert witness.append(client)
        names = {client.call("session/new", name="more")["session"]["sessionId"] for _ in range(3)}
        assert len(names | {first["sessionId"], second["sessionId"]}) == 5
        witness.check(client)


def test_a_socket_that_nobody_answers_is_no_reason_to_wait(forked: ForkedHome) -> None:
    """A thousand connections that come and go in between do not cost other clients an answer."""
    client = forked.client()
    witness = begun_session(client, "a")
    for _ in range(20):
        some = [socket.socket(socket.AF_UNIX) for _ in range(50)]
        for sock in some:
            sock.connect(str(forked.socket_path))
        assert witness.append(client)
        for sock in some:
            sock.close()
    witness.check(client)
