"""The port's promises, on the disk and on the fake; then what only one of them can show."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond.fs import DiskFailed, FileSystem, RealFileSystem, atomic_write, is_temporary, off_loop, on_one_thread
from sessiond.fs import real as real_module
from sessiond.fs.port import Linked
from tests.fakes.crashfs import Crash, CrashFS


@pytest.fixture(params=["real", "fake"])
def fs(request: pytest.FixtureRequest) -> FileSystem:
    return RealFileSystem() if request.param == "real" else CrashFS()


@pytest.fixture
def root(fs: FileSystem, tmp_path: Path) -> str:
    fs.make_dirs(str(tmp_path))
    return str(tmp_path)


def test_a_file_comes_back_as_it_was_made(fs: FileSystem, root: str) -> None:
    """create gives a file with exactly the bytes and the mode, and its stat."""
    made = fs.create(f"{root}/a", b"abc", 0o640)
    assert fs.read(f"{root}/a") == b"abc"
    assert made == fs.stat(f"{root}/a")
    assert (made.size, made.mode, made.is_file, made.is_dir, made.nlink) == (3, 0o640, True, False, 1)


def test_reading_a_part(fs: FileSystem, root: str) -> None:
    """offset and size cut out what is there, and what is beyond the end is empty."""
    fs.create(f"{root}/a", b"0123456789")
    assert fs.read(f"{root}/a", 2, 3) == b"234"
    assert fs.read(f"{root}/a", 8, 100) == b"89"
    assert fs.read(f"{root}/a", 8) == b"89"
    assert fs.read(f"{root}/a", 20) == b""


def test_a_taken_name_is_refused(fs: FileSystem, root: str) -> None:
    """create never writes over anything."""
    fs.create(f"{root}/a", b"first")
    with pytest.raises(FileExistsError):
        fs.create(f"{root}/a", b"second")
    assert fs.read(f"{root}/a") == b"first"


def test_append_makes_and_extends(fs: FileSystem, root: str) -> None:
    """append makes a file that is not there and otherwise adds to its end."""
    assert fs.append(f"{root}/a", b"one").size == 3
    assert fs.append(f"{root}/a", b"two").size == 6
    assert fs.read(f"{root}/a") == b"onetwo"


def test_folders_with_their_parents(fs: FileSystem, root: str) -> None:
    """make_dirs makes what is missing, private, and does not mind what is there."""
    fs.make_dirs(f"{root}/a/b/c")
    fs.make_dirs(f"{root}/a/b/c")
    assert fs.list_dir(f"{root}/a/b") == ["c"]
    made = fs.stat(f"{root}/a/b")
    assert made is not None
    assert (made.is_dir, made.mode) == (True, 0o700)


def test_a_file_in_the_way_of_a_folder(fs: FileSystem, root: str) -> None:
    """make_dirs says so when a parent is a file, whatever the errno."""
    fs.create(f"{root}/a", b"")
    with pytest.raises(OSError, match="a"):
        fs.make_dirs(f"{root}/a/b")


def test_nothing_there(fs: FileSystem, root: str) -> None:
    """stat answers None for what is not there, also below a file; the other calls raise FileNotFoundError."""
    fs.create(f"{root}/a", b"")
    assert fs.stat(f"{root}/nothing") is None
    assert fs.stat(f"{root}/a/nothing") is None
    for call in (fs.read, fs.list_dir, fs.remove):
        with pytest.raises(FileNotFoundError):
            call(f"{root}/nothing")


def test_a_folder_is_no_file(fs: FileSystem, root: str) -> None:
    """Reading or appending to a folder is IsADirectoryError."""
    with pytest.raises(IsADirectoryError):
        fs.read(root)
    with pytest.raises(IsADirectoryError):
        fs.append(root, b"x")


def test_names_move_and_go(fs: FileSystem, root: str) -> None:
    """replace, link and remove change names, not bytes; link refuses a taken name."""
    fs.create(f"{root}/a", b"A")
    fs.create(f"{root}/b", b"B")
    fs.link(f"{root}/a", f"{root}/c")
    with pytest.raises(FileExistsError):
        fs.link(f"{root}/a", f"{root}/b")
    fs.replace(f"{root}/a", f"{root}/b")
    assert sorted(fs.list_dir(root)) == ["b", "c"]
    assert fs.read(f"{root}/b") == b"A"
    fs.remove(f"{root}/b")
    assert fs.list_dir(root) == ["c"]
    assert fs.read(f"{root}/c") == b"A"


def test_a_log_is_written_cut_and_found_again(fs: FileSystem, root: str) -> None:
    """open_log appends, knows its size, cuts back, and goes on at the end when it is opened again."""
    log = fs.open_log(f"{root}/log")
    log.write(b"hello ")
    log.write(b"world")
    log.truncate(6)
    log.sync()
    assert log.size == 6
    log.close()
    log = fs.open_log(f"{root}/log")
    assert log.size == 6
    log.write(b"there")
    log.close()
    assert fs.read(f"{root}/log") == b"hello there"


def test_one_lock_at_a_time(fs: FileSystem, root: str) -> None:
    """A second lock is refused at once, and given after the release."""
    first = fs.lock(f"{root}/lock")
    with pytest.raises(BlockingIOError):
        fs.lock(f"{root}/lock")
    first.release()
    fs.lock(f"{root}/lock").release()


def test_atomic_write_leaves_one_file(fs: FileSystem, root: str) -> None:
    """atomic_write makes and replaces a file, over the leftovers of crashes, and leaves no temporary file of its own."""
    fs.create(f"{root}/.a.0.tmp~", b"left by a crash")
    atomic_write(fs, f"{root}/a", b"one")
    written = atomic_write(fs, f"{root}/a", b"two", 0o644)
    assert written == fs.stat(f"{root}/a")
    assert written.mode == 0o644
    assert fs.read(f"{root}/a") == b"two"
    assert sorted(fs.list_dir(root)) == [".a.0.tmp~", "a"]
    assert is_temporary(".a.0.tmp~")
    assert not is_temporary("a")


def test_the_longest_name_can_be_replaced(fs: FileSystem, root: str) -> None:
    """atomic_write needs no more room in a name than the file itself, in any script."""
    for name in ("n" * 255, "\N{HIRAGANA LETTER A}" * 85):
        atomic_write(fs, f"{root}/{name}", b"x")
        assert fs.read(f"{root}/{name}") == b"x"


async def test_the_same_calls_as_coroutines(fs: FileSystem, root: str) -> None:
    """`off_loop` gives the same results and raises the same errors."""
    await off_loop(fs.make_dirs, f"{root}/d")
    await off_loop(fs.create, f"{root}/d/a", b"a")
    await off_loop(fs.append, f"{root}/d/a", b"b")
    await off_loop(atomic_write, fs, f"{root}/d/b", b"c")
    await off_loop(fs.link, f"{root}/d/a", f"{root}/d/c")
    await off_loop(fs.replace, f"{root}/d/c", f"{root}/d/b")
    await off_loop(fs.sync_dir, f"{root}/d")
    assert await off_loop(fs.read, f"{root}/d/a", 1) == b"b"
    assert await off_loop(fs.stat, f"{root}/d/c") in (None, await off_loop(fs.stat, f"{root}/d/a"))
    assert await off_loop(fs.real_path, f"{root}/d") == os.path.realpath(f"{root}/d")
    assert await off_loop(fs.free_bytes, root) > 0
    (await off_loop(fs.lock, f"{root}/d/lock")).release()
    for name in await off_loop(fs.list_dir, f"{root}/d"):
        await off_loop(fs.remove, f"{root}/d/{name}")
    await off_loop(fs.remove_dir, f"{root}/d")
    with pytest.raises(FileNotFoundError):
        await off_loop(fs.read, f"{root}/d/a")


async def test_what_is_read_in_the_background_has_one_thread() -> None:
    """One call after another on a separate thread; tasks that outlive it continue elsewhere."""

    def thread() -> str:
        return threading.current_thread().name

    outliving = asyncio.Event()

    async def twice() -> tuple[str, str]:
        first = await off_loop(thread)
        await outliving.wait()
        return first, await off_loop(thread)

    with on_one_thread():
        task = asyncio.create_task(twice())
        names = await asyncio.gather(*(off_loop(thread) for _ in range(20)))
    outside = await off_loop(thread)
    outliving.set()
    inside, after = await task
    assert len({*names, inside}) == 1
    assert "background" in inside
    assert "background" not in outside + after


async def test_a_call_begun_as_the_thread_of_its_own_ends_runs_elsewhere() -> None:
    """A task that outlives the block in which it was begun may call at the very moment when the block's thread ends."""
    go: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def outlives() -> int:
        await go
        return await off_loop(int, "7")

    async def block() -> asyncio.Task[int]:
        with on_one_thread():
            task = asyncio.create_task(outlives())
            await asyncio.sleep(0)
            await go  # both go on in the same turn of the loop: the call first, then the end of the block
        return task

    waiting = asyncio.create_task(block())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    go.set_result(None)
    assert await (await waiting) == 7


# The real disk


@pytest.fixture
def disk() -> RealFileSystem:
    return RealFileSystem()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.close()


@pytest.mark.parametrize("make", [_fifo, _socket])
def test_what_is_no_file_never_hangs(disk: RealFileSystem, tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A FIFO or a socket in a file's place is an OSError at once, for every call that opens it."""
    place = tmp_path / "f"
    make(place)
    for call in (disk.read, disk.open_log, disk.lock, lambda path: disk.append(path, b"x")):
        with pytest.raises(OSError, match=r"f|regular"):
            call(str(place))


def test_a_link_is_followed_but_never_made_into_a_file(disk: RealFileSystem, tmp_path: Path) -> None:
    """append and atomic_write write where a link leads and leave the link; a dangling one is not written through."""
    (tmp_path / "target").write_bytes(b"1")
    (tmp_path / "link").symlink_to("target")
    disk.append(str(tmp_path / "link"), b"2")
    assert (tmp_path / "target").read_bytes() == b"12"
    atomic_write(disk, str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    (tmp_path / "dangling").symlink_to("nowhere")
    assert disk.stat(str(tmp_path / "dangling")) is None
    (tmp_path / "itself").symlink_to("itself")
    assert disk.stat(str(tmp_path / "itself")) is None
    for call in (disk.create, disk.append):
        with pytest.raises(FileExistsError):
            call(str(tmp_path / "dangling"), b"x")
    for opener in (disk.open_log, disk.lock):
        with pytest.raises(OSError, match="symbolic"):
            opener(str(tmp_path / "link"))
    assert not (tmp_path / "nowhere").exists()


def test_the_mode_is_exact(disk: RealFileSystem, tmp_path: Path) -> None:
    """The umask takes nothing from a mode that was asked for, and a new file is private by default."""
    before = os.umask(0o077)
    try:
        disk.create(str(tmp_path / "adopted"), b"", 0o664)
        disk.create(str(tmp_path / "own"), b"")
        disk.open_log(str(tmp_path / "log")).close()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"adopted": 0o664, "own": 0o600, "log": 0o600}


def test_no_descriptor_is_inherited(disk: RealFileSystem, tmp_path: Path) -> None:
    """A child of the daemon inherits neither a log nor a lock."""
    log, lock = disk.open_log(str(tmp_path / "log")), disk.lock(str(tmp_path / "lock"))
    listing = "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if n > '2'])"
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc")
    seen = subprocess.run(
        [sys.executable, "-c", listing.replace("os.readlink", "os.path.realpath")],
        close_fds=False,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert str(tmp_path) not in seen
    log.close()
    lock.release()


def test_short_writes_are_continued(disk: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever write() takes at a time, all bytes arrive in order."""
    real_write = os.write
    monkeypatch.setattr(real_module.os, "write", lambda fd, data: real_write(fd, bytes(data)[:3]))
    disk.create(str(tmp_path / "a"), b"0123456789")
    disk.append(str(tmp_path / "a"), b"abcdefg")
    log = disk.open_log(str(tmp_path / "a"))
    log.write(b"ABCDE")
    assert log.size == 22
    log.close()
    assert (tmp_path / "a").read_bytes() == b"0123456789abcdefgABCDE"


def _failing_write(after: int) -> Callable[[int, bytes], int]:
    real_write, left = os.write, [after]

    def write(fd: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "full")
        count = real_write(fd, bytes(data)[: left[0]])
        left[0] -= count
        return count

    return write


def test_a_failed_append_is_cut_off(disk: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full in the middle of an append the file is as it was."""
    (tmp_path / "a").write_bytes(b"before")
    with monkeypatch.context() as patch:
        patch.setattr(real_module.os, "write", _failing_write(4))
        with pytest.raises(OSError, match="full") as caught:
            disk.append(str(tmp_path / "a"), b"0123456789")
    assert not isinstance(caught.value, DiskFailed)
    assert (tmp_path / "a").read_bytes() == b"before"


def test_a_strangers_bytes_are_not_cut_off(
    disk: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When somebody else wrote behind a failed append nothing is cut, and the caller is told that the state is unknown."""
    (tmp_path / "a").write_bytes(b"before")
    failing = _failing_write(4)

    def write(fd: int, data: bytes) -> int:
        try:
            return failing(fd, data)
        except OSError:
            with (tmp_path / "a").open("ab") as other:
                other.write(b"stranger")
            raise

    with monkeypatch.context() as patch:
        patch.setattr(real_module.os, "write", write)
        with pytest.raises(DiskFailed):
            disk.append(str(tmp_path / "a"), b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"before0123stranger"


def test_a_failed_creation_leaves_nothing(
    disk: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """create and atomic_write remove what they could not finish; the old file stays."""
    (tmp_path / "a").write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(real_module.os, "write", _failing_write(4))
        with pytest.raises(OSError, match="full"):
            disk.create(str(tmp_path / "b"), b"0123456789")
        with pytest.raises(OSError, match="full"):
            atomic_write(disk, str(tmp_path / "a"), b"0123456789")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_failed_sync_is_told_apart(disk: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call that syncs raises DiskFailed when the sync fails, so that the caller does not try again."""

    def failing(fd: int) -> None:
        raise OSError(errno.EIO, "sync failed")

    log = disk.open_log(str(tmp_path / "log"))
    monkeypatch.setattr(real_module, "_fdatasync", failing)
    monkeypatch.setattr(real_module, "_FULL_SYNC", None)
    monkeypatch.setattr(real_module.os, "fsync", failing)
    for call in (
        log.sync,
        lambda: disk.create(str(tmp_path / "a"), b"x"),
        lambda: disk.append(str(tmp_path / "log"), b"x"),
        lambda: disk.sync_dir(str(tmp_path)),
        lambda: atomic_write(disk, str(tmp_path / "b"), b"x"),
    ):
        with pytest.raises(DiskFailed) as caught:
            call()
        assert caught.value.errno == errno.EIO
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_file_system_without_folder_sync(
    disk: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EINVAL for the sync of a folder means that it is not supported, as on some network file systems."""

    def unknown(fd: int) -> None:
        raise OSError(errno.EINVAL, "unknown")

    monkeypatch.setattr(real_module.os, "fsync", unknown)
    disk.sync_dir(str(tmp_path))


def test_the_largest_file(tmp_path: Path) -> None:
    """A file-size limit (EFBIG) is an OSError after which the file is as it was; SIGXFSZ kills nobody."""
    program = """
        import resource, sys
        from sessiond.fs import RealFileSystem
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        disk = RealFileSystem()
        disk.create(sys.argv[1], b"x" * 900)
        try:
            disk.append(sys.argv[1], b"y" * 200)
        except OSError as error:
            print(error.errno, len(disk.read(sys.argv[1])))
    """
    run = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "a")]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.EFBIG), "900"]


def test_many_open_files_are_not_needed(disk: RealFileSystem, tmp_path: Path) -> None:
    """No call leaks a descriptor, whether it succeeds or fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 60
    os.mkfifo(tmp_path / "fifo")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 8, hard))
    try:
        for _ in range(20):
            disk.append(str(tmp_path / "a"), b"x")
            for call in (disk.read, disk.open_log, disk.lock):
                with pytest.raises(OSError, match="fifo"):
                    call(str(tmp_path / "fifo"))
            with pytest.raises(FileExistsError):
                disk.create(str(tmp_path / "a"), b"")
            disk.lock(str(tmp_path / "lock")).release()
            disk.sync_dir(str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# The fake disk: it must be able to do harm


def _images(fs: CrashFS) -> list[dict[str, bytes]]:
    return [image.tree() for image in fs.crash_images()]


def test_fake_unsynced_bytes_may_be_anything_but_wrong() -> None:
    """Bytes that were not synced may be there, be cut, be zeros, or be missing; synced ones are there."""
    fs = CrashFS()
    log = fs.open_log("/a")
    log.write(b"safe")
    log.sync()
    fs.sync_dir("/")
    log.write(b"danger")
    contents = {tree["/a"] for tree in _images(fs)}
    assert {b"safe", b"safedanger", b"safe" + b"\0" * 6, b"safed", b"safe\0\0\0ger"} <= contents
    assert all(content.startswith(b"safe") for content in contents)


def test_fake_writes_may_be_reordered() -> None:
    """A later write may be there without an earlier one."""
    fs = CrashFS()
    log = fs.open_log("/a")
    fs.sync_dir("/")
    log.write(b"one")
    log.write(b"two")
    assert b"\0\0\0two" in {tree["/a"] for tree in _images(fs)}


def test_fake_names_need_their_folder_synced() -> None:
    """A new file, a rename and a removal may each be undone until the folder is synced."""
    fs = CrashFS()
    fs.create("/old", b"old")
    fs.sync_dir("/")
    fs.create("/new", b"new")
    fs.replace("/new", "/old")
    trees = _images(fs)
    assert {"/old": b"old"} in trees
    assert {"/old": b"new"} in trees
    assert {"/old": b"new", "/new": b"new"} in trees
    assert all("/old" in tree for tree in trees), "a rename never leaves the target missing"
    fs.sync_dir("/")
    assert _images(fs) == [{"/old": b"new"}]
    fs.remove("/old")
    assert _images(fs) == [{"/old": b"new"}, {}]


def test_fake_rename_without_sync_may_show_an_empty_file() -> None:
    """A rename can reach the disk before the bytes of the file that was renamed."""
    fs = CrashFS()
    fs.create("/a", b"old")
    fs.sync_dir("/")
    log = fs.open_log("/b")
    log.write(b"new")
    fs.replace("/b", "/a")
    fs.sync_dir("/")
    assert {"/a": b""} in _images(fs)


def test_fake_folders_are_names_too() -> None:
    """A file in a folder whose own name was not synced is gone with it."""
    fs = CrashFS()
    fs.crash_at = 2
    with pytest.raises(Crash):
        fs.make_dirs("/d")
    fs.revive()
    fs.create("/d/a", b"x")
    fs.sync_dir("/d")
    assert _images(fs) == [{}, {"/d/a": b"x"}]


def test_fake_a_failed_sync_lies_afterwards() -> None:
    """After a failed sync the next one succeeds, the bytes can be read, and yet a crash may take them."""
    fs = CrashFS()
    log = fs.open_log("/a")
    fs.sync_dir("/")
    log.write(b"word")
    fs.fail("sync", errno.EIO)
    with pytest.raises(DiskFailed):
        log.sync()
    log.sync()
    assert fs.read("/a") == b"word"
    assert {b"", b"\0\0\0\0", b"word"} <= {tree["/a"] for tree in _images(fs)}


def test_fake_crashes_where_told() -> None:
    """The step of that number does not happen, and neither does anything after it, until the process is revived."""
    fs = CrashFS()
    fs.create("/a", b"x")
    assert fs.trace == ["make a", "write a 1", "sync a"]
    fs.crash_at = 4
    with pytest.raises(Crash):
        fs.create("/b", b"y")
    with pytest.raises(Crash):
        fs.read("/a")
    fs.revive()
    assert fs.tree() == {"/a": b"x", "/b": b""}


def test_fake_has_a_size() -> None:
    """A full disk takes what fits, then says ENOSPC."""
    fs = CrashFS(capacity=10)
    log = fs.open_log("/a")
    with pytest.raises(OSError, match="space"):
        log.write(b"0123456789abc")
    assert fs.read("/a") == b"0123456789"
    assert fs.free_bytes("/") == 0
    fs.remove("/a")
    assert fs.free_bytes("/") == 10


def test_a_folder_is_durable_whoever_made_it() -> None:
    """make_dirs returns only when the whole path is durable, also after a kill between making a folder and syncing it."""
    for step in range(10):
        fs = CrashFS()
        fs.crash_at = step
        try:
            fs.make_dirs("/a/b")
        except Crash:
            fs.revive()
            fs.make_dirs("/a/b")
        (image,) = fs.crash_images()
        assert image.stat("/a/b") is not None


def test_atomic_write_survives_every_crash() -> None:
    """At every step of atomic_write, every disk that a crash may leave holds the old file or the new one, whole."""
    step, seen = 0, set()
    while True:
        fs = CrashFS()
        fs.create("/a", b"old content")
        fs.sync_dir("/")
        fs.crash_at = fs.steps + step
        try:
            atomic_write(fs, "/a", b"new")
        except Crash:
            pass
        else:
            assert {tree["/a"] for tree in _images(fs)} == {b"new"}
            break
        seen |= {tree["/a"] for tree in _images(fs)}
        step += 1
    assert seen == {b"old content", b"new"}
    assert step == 5


def test_a_write_that_makes_no_progress_ends(
    disk: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes nothing and says nothing is an error, not a loop."""
    answers = [3, 0]
    monkeypatch.setattr(real_module.os, "write", lambda fd, data: answers.pop(0))
    with pytest.raises(OSError, match="no progress"):
        disk.create(str(tmp_path / "a"), b"0123456789")
    monkeypatch.undo()
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("fails", "synced"),
    [(None, ["full"]), (errno.ENOTSUP, ["full", "plain"]), (errno.EINVAL, ["full", "plain"]), (errno.EIO, ["full"])],
)
def test_the_strongest_sync_that_there_is(
    disk: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int | None, synced: list[str]
) -> None:
    """Where a system has a call that empties the drive's own cache too, that one; the usual one only where the file system does
    not know it. If it fails nothing is taken for synced.
    """
    called = []

    def full(fd: int, command: int) -> None:
        called.append("full")
        if fails is not None:
            raise OSError(fails, os.strerror(fails))

    monkeypatch.setattr(real_module, "_FULL_SYNC", 51)
    monkeypatch.setattr(real_module.fcntl, "fcntl", full)
    monkeypatch.setattr(real_module, "_fdatasync", lambda fd: called.append("plain"))
    log = disk.open_log(str(tmp_path / "a"))
    log.write(b"x")
    called.clear()
    if fails == errno.EIO:
        with pytest.raises(DiskFailed):
            log.sync()
    else:
        log.sync()
    log.close()
    log.close()
    assert called == synced


def test_so_many_leftovers_and_no_more(disk: RealFileSystem, tmp_path: Path) -> None:
    """A taken name is skipped; if all are taken, the error says what to do, and the file is as it was."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    for attempt in range(5):
        (tmp_path / f".a.{attempt}.tmp~").write_bytes(b"half")
    atomic_write(disk, str(path), b"new")
    assert path.read_bytes() == b"new"
    for attempt in range(1000):
        (tmp_path / f".a.{attempt}.tmp~").write_bytes(b"half")
    with pytest.raises(FileExistsError, match="leftover temporary files next to"):
        atomic_write(disk, str(path), b"newer")
    assert path.read_bytes() == b"new"


def test_5_below_a_confined_folder_no_link_is_followed(tmp_path: Path) -> None:
    """Whatever is to be changed: the link is named, and what it leads to remains as it was. The folder itself may be a link."""
    real, outside = tmp_path / "real", tmp_path / "outside"
    for folder in (real, outside / "empty"):
        folder.mkdir(parents=True)
    (outside / "file").write_text("precious")
    (tmp_path / "root").symlink_to(real)
    (real / "link").symlink_to(outside)
    (real / "to-file").symlink_to(outside / "file")
    (real / "inner").mkdir()
    (real / "inner" / "to-file").symlink_to(outside / "file")
    fs, root = RealFileSystem(), str(tmp_path / "root")
    fs.confine(root)
    fs.create(f"{root}/inner/mine", b"x")
    changes = [
        lambda: fs.create(f"{root}/link/new", b"x"),
        lambda: fs.append(f"{root}/link/file", b"x"),
        lambda: fs.append(f"{root}/to-file", b"x"),
        lambda: fs.append(f"{root}/inner/to-file", b"x"),
        lambda: fs.replace(f"{root}/inner/mine", f"{root}/link/file"),
        lambda: fs.replace(f"{root}/link/file", f"{root}/inner/mine"),
        lambda: fs.link(f"{root}/inner/mine", f"{root}/link/new"),
        lambda: fs.remove(f"{root}/link/file"),
        lambda: fs.remove_dir(f"{root}/link/empty"),
        lambda: fs.make_dirs(f"{root}/link/new"),
        lambda: fs.sync_dir(f"{root}/link"),
        lambda: fs.open_log(f"{root}/link/new"),
        lambda: fs.lock(f"{root}/link/new"),
        lambda: atomic_write(fs, f"{root}/link/file", b"x", follow=False),
    ]
    for number, change in enumerate(changes):
        with pytest.raises(OSError, match=r"link|Too many levels|Not a directory") as refused:
            change()
        assert str(refused.value.filename).startswith(root), number
    assert sorted(os.listdir(outside)) == ["empty", "file"]
    assert (outside / "file").read_text() == "precious"
    atomic_write(fs, f"{root}/to-file", b"mine", follow=False)
    assert not (real / "to-file").is_symlink()
    assert (outside / "file").read_text() == "precious"


def test_5_a_folder_that_is_replaced_while_it_is_held(tmp_path: Path) -> None:
    """A link that takes its place leads nowhere. The holder learns that what it wrote is not where it should be."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "inner").mkdir(parents=True)
    outside.mkdir()
    fs = RealFileSystem()
    fs.confine(str(root))

    def write() -> None:
        with fs.hold(str(root)):
            fs.create(f"{root}/inner/one", b"1")
            (root / "inner").rename(root / "moved")
            (root / "inner").symlink_to(outside)
            fs.create(f"{root}/inner/two", b"2")

    with pytest.raises(OSError, match="replaced while") as refused:
        write()
    assert refused.value.filename == f"{root}/inner"
    assert os.listdir(outside) == []
    assert sorted(os.listdir(root / "moved")) == ["one", "two"]
    with pytest.raises(Linked), fs.hold(str(root)):
        fs.create(f"{root}/inner/three", b"3")


def test_5_a_folder_that_is_removed_while_it_is_held(tmp_path: Path) -> None:
    """It is missing at the end, and the holder learns that too."""
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    fs = RealFileSystem()
    fs.confine(str(root))

    def write() -> None:
        with fs.hold(str(root)):
            fs.create(f"{root}/inner/one", b"1")
            (root / "inner").rename(tmp_path / "elsewhere")

    with pytest.raises(FileNotFoundError) as refused:
        write()
    assert refused.value.filename == f"{root}/inner"


def test_5_a_folder_that_is_made_again_while_it_is_held(tmp_path: Path) -> None:
    """What is written goes to the new one, also where the holder itself removed the old one."""
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    fs = RealFileSystem()
    fs.confine(str(root))
    before = len(os.listdir("/dev/fd"))
    with fs.hold(str(root)):
        fs.create(f"{root}/inner/one", b"1")
        shutil.rmtree(root / "inner")
        fs.make_dirs(f"{root}/inner")
        fs.create(f"{root}/inner/two", b"2")
        fs.remove(f"{root}/inner/two")
        fs.remove_dir(f"{root}/inner")
        fs.make_dirs(f"{root}/inner")
        fs.create(f"{root}/inner/three", b"3")
    assert os.listdir(root / "inner") == ["three"]
    assert len(os.listdir("/dev/fd")) == before
