"""A backup is a consistent copy, complete or not there, that can be verified and started as a home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from sessiond.backups.copying import SUMS, BackupTree, decode_sums
from sessiond.backups.verify import prove
from sessiond.client import Progress
from sessiond.errors import SessiondError
from sessiond.fs import RealFileSystem
from sessiond.store.move_guard import MoveGuard
from tests.fakes.crashfs import Crash, CrashFS
from tests.home import Client, Home
from tests.shell import Shell, wait_until

MARIA = b'{"role":"user","content":"already here","timestamp":"2026-01-11T14:30:22.000Z"}\n'


def problems(backup: Path) -> list[str]:
    return [f"{one.what}: {one.problem}" for one in prove(RealFileSystem(), str(backup)) if one.problem is not None]


def said(text: str, number: int) -> dict[str, str]:
    return {"id": f"{text}-{number}", "role": "user", "content": f"{text} {number}"}


def ids(client: Client, session_id: str) -> list[str]:
    found = []
    page = client.call("session/read", sessionId=session_id, since=0, limit=1000)
    found += [one["id"] for one in page["messages"]]
    while page["hasMore"]:
        page = client.call("session/read", sessionId=session_id, since=page["messages"][-1]["seq"], limit=1000)
        found += [one["id"] for one in page["messages"]]
    return found


class Writer(threading.Thread):
    """Appends to its session until told to stop; `acknowledged` grows with each answer."""

    def __init__(self, client: Client, session_id: str) -> None:
        super().__init__()
        self.client = client
        self.session_id = session_id
        self.acknowledged: list[str] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stopped.is_set():
            message = said(self.session_id.replace("/", "-"), number)
            self.client.call("session/append", sessionId=self.session_id, messages=[message])
            self.acknowledged.append(message["id"])
            number += 1


class Mover(threading.Thread):
    """Deletes sessions and takes them back, all the time."""

    def __init__(self, client: Client, sessions: list[str]) -> None:
        super().__init__()
        self.client = client
        self.sessions = sessions
        self.stopped = threading.Event()
        self.rounds = 0

    def run(self) -> None:
        while not self.stopped.is_set():
            for session_id in self.sessions:
                self.client.call("session/delete", sessionId=session_id)
                self.client.call("session/restore", sessionId=session_id)
            self.rounds += 1


def put_in_place(backup: Path, home: Path, stores: dict[str, Path]) -> None:
    """What docs/backup.md says."""
    for name in ("data", "config"):
        shutil.copytree(backup / name, home / name)
    for name, folder in stores.items():
        shutil.copytree(backup / "stores" / name, folder, dirs_exist_ok=True)


def test_a_copy_made_while_everybody_writes_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    """Four writers, one that deletes and restores, two stores: whatever was answered before the backup began is in each of three copies,
    none of its sessions is lost between store and trash, and each copy proves itself and starts as a home that survives kill -9.
    """
    transcripts = tmp_path / "base" / "transcripts" / "helper"
    transcripts.mkdir(parents=True)
    (transcripts / "transcript.jsonl").write_bytes(MARIA)
    home_path = tmp_path / "home"
    home_path.mkdir()
    config = f'[stores.mine]\npath = "{tmp_path}/base"\nformat = "cortex"\n[autosave]\nidle_s = 0.05\n'
    copies: list[tuple[Path, dict[str, list[str]]]] = []
    with Home(home_path, config) as home:
        client = home.client()
        names = ["a", "b", "c"]
        for name in names:
            client.call("session/new", sessionId=name)
        moved = [f"moved{number}" for number in range(6)]
        for name in moved:
            client.call("session/new", sessionId=name, name=name, tags=["kept"], messages=[said(name, 0)])
        client.call("session/delete", sessionId="moved0")
        client.call("state/set", sessionId="moved1", values={"plan": [1, 2]})
        client.call("session/save")
        threads = [Writer(home.client(), name) for name in (*names, "mine/helper")]
        mover = Mover(home.client(), moved[2:])
        for thread in (*threads, mover):
            thread.start()
        try:
            for number in range(3):
                target = tmp_path / f"copy{number}"
                wait_until(lambda floor=40 * (number + 1): all(len(one.acknowledged) > floor for one in threads))
                before = {one.session_id: list(one.acknowledged) for one in threads}
                lsn = client.call("daemon/status")["journal"]["lsn"]
                result = client.call("daemon/backup", path=str(target))
                assert set(result) == {"files", "bytes", "lsn"}
                assert result["lsn"] >= lsn
                copies.append((target, before))
        finally:
            for thread in (*threads, mover):
                thread.stopped.set()
                thread.join()
        assert mover.rounds
    for target, before in copies:
        assert problems(target) == []
        again = tmp_path / f"again-{target.name}"
        again.mkdir()
        shutil.rmtree(tmp_path / "base")
        put_in_place(target, again, {"mine": tmp_path / "base"})
        with Home(again) as home:
            home.kill()
            home.start()
            client = home.client()
            for session_id, acknowledged in before.items():
                there = ids(client, session_id)
                assert len(there) == len(set(there))
                wanted = [one for one in there if one in set(acknowledged)]
                assert wanted == acknowledged
            listed = {one["sessionId"] for one in client.call("session/list", limit=1000)["sessions"]}
            deleted = client.call("session/list", limit=1000, filter={"deleted": True})["sessions"]
            gone = {one["sessionId"] for one in deleted}
            assert {"a", "b", "c", "mine/helper", "moved1"} <= listed
            assert "moved0" in gone
            assert set(moved[2:]) <= listed | gone
            assert client.call("state/get", sessionId="moved1")["values"] == {"plan": [1, 2]}
            assert client.call("session/open", sessionId="moved1")["session"]["tags"] == ["kept"]
            assert client.call("session/restore", sessionId="moved0")["session"]["messageCount"] == 1
            assert ids(client, "mine/helper")[0] != "mine-helper-0"  # what was there before us comes first


def test_a_home_in_which_nothing_was_saved(tmp_path: Path) -> None:
    """What only the journal holds is in the copy's journal: saved, cleared, streamed and blank sessions are as they were."""
    home_path = tmp_path / "home"
    home_path.mkdir()
    with Home(home_path, "[autosave]\ninterval_s = 0\nidle_s = 0\n") as home:
        client = home.client()
        client.call("session/new", sessionId="words", messages=[said("w", 1), said("w", 2)])
        client.call(
            "session/new",
            sessionId="open",
            messages=[{"id": "r", "role": "assistant", "content": "a", "status": "streaming"}],
        )
        client.call("session/extend", sessionId="open", messageId="r", text="b")
        client.call("note/append", sessionId="words", heading="H", content="n")
        client.call("session/new", sessionId="cleared", messages=[said("c", 1)])
        client.call("session/clear", sessionId="cleared")
        client.call("session/new", sessionId="blank")
        assert (
            client.call("daemon/backup", path=str(tmp_path / "copy"))["lsn"]
            == client.call("daemon/status")["journal"]["lsn"]
        )
    assert problems(tmp_path / "copy") == []
    assert not (tmp_path / "copy" / "data" / "sessions" / "words.jsonl").exists()
    # A backup is a home: SESSIOND_HOME may lead to it (here to a copy of it, so that it remains what it was).
    shutil.copytree(tmp_path / "copy", tmp_path / "again")
    with Home(tmp_path / "again") as home:
        client = home.client()
        assert ids(client, "words") == ["w-1", "w-2"]
        assert [one["content"] for one in client.call("note/list", sessionId="words")["notes"]] == ["n"]
        opened = client.call("session/open", sessionId="open")["messages"]
        assert [(one["content"], one["status"]) for one in opened] == [("ab", "interrupted")]
        assert client.call("session/open", sessionId="cleared")["session"]["messageCount"] == 0
        assert client.call("session/open", sessionId="blank")["session"]["messageCount"] == 0
    assert problems(tmp_path / "copy") == []


@pytest.fixture
def backup(shell: Shell, tmp_path: Path) -> Path:
    """Of a home with a session, a deleted one and something in the journal."""
    shell.write_config("[autosave]\nidle_s = 0\n")
    shell("new", "--id", "x", "--name", "X")
    shell("append", "x", "saved words")
    with shell.client() as client:
        client.call("session/save")
        client.call("session/new", {"sessionId": "gone", "name": "G"})
        client.call("session/delete", {"sessionId": "gone"})
        client.call("session/append", {"sessionId": "x", "messages": [said("later", 1)]})
    done = shell("backup", str(tmp_path / "copy"), "--json")
    assert done.code == 0, done
    return tmp_path / "copy"


def test_the_proof_finds_every_change(shell: Shell, backup: Path) -> None:
    """A flipped bit in any file, a missing file and one too many are named, each with exit code 1; `sha256sum` agrees."""
    assert shell("backup", "--verify", str(backup)).code == 0
    assert subprocess.run(["sha256sum", "--quiet", "-c", SUMS], cwd=backup, check=False).returncode == 0
    files = [path for path in sorted(backup.rglob("*")) if path.is_file()]
    names = {str(path.relative_to(backup)) for path in files}
    assert {"data/sessions/x.jsonl", "data/sessions/.sessiond/x.json", "data/trash/default/gone/meta.json"} <= names
    assert {"config/config.toml", "manifest.json", SUMS} <= names
    assert not names & {"data/token", "data/lock", "data/endpoint", "data/journal/reserve"}
    for path in files:
        content = path.read_bytes()
        flipped = bytearray(content)
        flipped[len(flipped) // 2] ^= 0x04
        path.write_bytes(flipped)
        assert problems(backup), path
        path.write_bytes(content)
        path.unlink()
        assert problems(backup), path
        path.write_bytes(content)
    assert problems(backup) == []
    (backup / "data" / "sessions" / "more.jsonl").write_bytes(MARIA)
    done = shell("backup", "--verify", str(backup), "--json")
    assert done.code == 1
    found = {one["what"]: one["problem"] for one in done.json["findings"] if one["problem"]}
    assert str(backup / "data" / "sessions" / "more.jsonl") in found
    assert "2 sessions where 1 were copied" in found.values()


def test_what_is_no_backup(shell: Shell, backup: Path, tmp_path: Path) -> None:
    """A folder without sums, and one that a newer version made, are refused by name."""
    (tmp_path / "empty").mkdir()
    assert "is not a backup" in shell("backup", "--verify", str(tmp_path / "empty")).out
    manifest = json.loads((backup / "manifest.json").read_text())
    (backup / "manifest.json").write_text(json.dumps({**manifest, "version": 2}))
    assert "newer sessiond" in shell("backup", "--verify", str(backup)).out


def test_where_a_backup_may_go(shell: Shell, backup: Path, tmp_path: Path) -> None:
    """Absolute, outside what sessiond looks after, into a folder that is there, under a name that is free, a dangling link
    included; what is there remains as it is.
    """
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "into").symlink_to(shell.data / "sessions")
    before = sorted(path.name for path in backup.iterdir())
    wanted = {
        "relative": "invalidParams", f"{shell.data}/b": "invalidParams", f"{shell.data}/sessions/b": "invalidParams",
        f"{tmp_path}/into/b": "invalidParams", f"{tmp_path}/no/b": "invalidParams", f"{shell.path}/config": "invalidParams",
        str(backup): "alreadyExists", f"{tmp_path}/link": "alreadyExists", "/": "invalidParams",
    }  # fmt: skip
    with shell.client() as client:
        for path, kind in wanted.items():
            with pytest.raises(SessiondError) as told:
                client.call("daemon/backup", {"path": path})
            assert told.value.kind == kind, path
    assert sorted(path.name for path in backup.iterdir()) == before
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_a_damaged_session_is_copied_as_it_is_and_told(shell: Shell, tmp_path: Path) -> None:
    """A session file of NULs and a folder in a file's place cost the backup nothing else, and both are named."""
    shell("new", "--id", "good", "--name", "G")
    sessions = shell.data / "sessions"
    (sessions / "nuls.jsonl").write_bytes(b"\0" * 100)
    (sessions / "folder.jsonl").mkdir()
    done = shell("backup", str(tmp_path / "copy"))
    assert done.code == 0
    assert f"{sessions}/nuls.jsonl" in done.err
    assert f"{sessions}/folder.jsonl" in done.err
    (sessions / "folder.jsonl").rmdir()
    assert (tmp_path / "copy" / "data" / "sessions" / "nuls.jsonl").read_bytes() == b"\0" * 100
    assert problems(tmp_path / "copy") == []


def filled(shell: Shell, count: int) -> None:
    """Many sessions, so that a backup takes a while. Their files are laid down as a program that knows the format would."""
    shell("list")
    folder = shell.data / "sessions"
    for number in range(count):
        header = {"sessiond": 1, "id": f"s{number}", "createdAt": "2026-01-11T14:30:22.000Z"}
        (folder / f"s{number}.jsonl").write_text(json.dumps(header) + "\n" + "x" * 2000 + "\n")


def test_a_cancelled_backup_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    """$/cancelRequest while it runs ends it as `cancelled`, and neither the folder nor a part of it is there."""
    filled(shell, 1500)
    with shell.client() as client:
        begun: list[str] = []

        def told(progress: Progress) -> None:
            if progress.percentage is not None and not begun:
                begun.extend(os.listdir(tmp_path))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            client.backup(str(tmp_path / "copy"), on_progress=told)
        assert [name.partition("-")[0] for name in begun] == [".copy.sessiond"]
        assert os.listdir(tmp_path) == []


def test_a_backup_cut_short_by_kill_9_is_not_there(shell: Shell, tmp_path: Path) -> None:
    """A daemon that is killed while it copies leaves no folder of that name, and the next backup tidies up what it left."""
    filled(shell, 1500)
    running = shell.start("backup", str(tmp_path / "copy"))
    wait_until(lambda: any((tmp_path / name / "data" / "sessions").is_dir() for name in os.listdir(tmp_path)))
    shell.kill()
    assert running.wait(30) != 0
    assert [name.startswith(".copy.") for name in os.listdir(tmp_path)] == [True]
    assert shell("backup", str(tmp_path / "copy")).code == 0
    assert os.listdir(tmp_path) == ["copy"]
    assert problems(tmp_path / "copy") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system of one megabyte")
def test_a_full_target_is_told_and_left_empty(shell: Shell, tmp_path: Path) -> None:
    """The error says where the disk is full; nothing is left there, and the daemon is not read-only."""
    filled(shell, 1000)
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(small)], check=False, capture_output=True
    ).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        done = shell("backup", str(small / "copy"))
        assert done.code == 1
        assert "No space left on device" in done.err and str(small / "copy") in done.err
        assert os.listdir(small) == []
        assert shell("status", "--json").json["readOnly"] is None
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_power_failure_leaves_all_of_it_or_none() -> None:
    """Whatever the disk keeps of a backup that a crash ended: what has the name is whole, by its own sums."""
    steps, whole = 0, 0
    while True:
        fs = CrashFS(seed=steps)
        fs.make_dirs("/d")
        for name in ("a", "b"):
            fs.append(f"/d/{name}", name.encode() * 10)
        fs.sync_dir("/d")
        fs.crash_at = fs.steps + steps
        tree = BackupTree(fs, "/t", "x")
        try:
            tree.begin()
            tree.copy("/d/a", "data/a")
            tree.copy("/d/b", "data/sub/b")
            tree.put("manifest.json", b"{}")
            tree.finish()
            ended = True
        except Crash:
            ended = False
        for image in fs.crash_images(64):
            if image.has_name("/t"):
                whole += 1
                sums = decode_sums(image.read(f"/t/{SUMS}"))
                assert set(sums) == {"data/a", "data/sub/b", "manifest.json"}
                assert image.read("/t/data/a") == b"a" * 10
                assert image.read("/t/data/sub/b") == b"b" * 10
                assert image.read("/t/manifest.json") == b"{}"
            else:
                assert not ended
        steps += 1
        if ended:
            break
    assert steps > 10 and whole


async def test_deletions_wait_for_the_moment_of_a_backup() -> None:
    """A backup waits for those that are under way, and new ones continue until its moment comes; in that moment they wait
    for it. A waiting one that is cancelled harms nobody.
    """
    import asyncio

    moves, order = MoveGuard(), []

    async def delete(name: str, pause: asyncio.Event) -> None:
        async with moves.one():
            order.append(f"{name} begins")
            await pause.wait()
            order.append(f"{name} ends")

    first, second = asyncio.Event(), asyncio.Event()
    second.set()
    one = asyncio.create_task(delete("first", first))
    await asyncio.sleep(0)
    entered = asyncio.Event()
    leave = asyncio.Event()

    async def copy() -> None:
        async with moves.none():
            order.append("copy")
            entered.set()
            await leave.wait()

    backup = asyncio.create_task(copy())
    await asyncio.sleep(0)
    await delete("between", second)
    first.set()
    await entered.wait()
    assert order == ["first begins", "between begins", "between ends", "first ends", "copy"]
    two = asyncio.create_task(delete("second", second))
    cancelled = asyncio.create_task(delete("never", second))
    await asyncio.sleep(0)
    cancelled.cancel()
    leave.set()
    await asyncio.gather(one, backup, two)
    assert order[5:] == ["second begins", "second ends"]
    async with moves.none():
        order.append("again")
