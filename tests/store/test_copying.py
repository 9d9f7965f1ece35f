"""A tree of copies: of files that grow, disappear or cannot be read meanwhile, and its list of sums."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.backups import copying
from sessiond.backups.copying import SUMS, BackupTree, CopiedFile, Unreadable, decode_sums, encode_sums, walk
from sessiond.backups.manifest import MANIFEST, Manifest
from sessiond.backups.verify import prove
from sessiond.fs import RealFileSystem
from sessiond.store.move_guard import MoveGuard


class Meddled(RealFileSystem):
    """Lets something happen before reads."""

    def __init__(self) -> None:
        super().__init__()
        self.before_read: list[object] = []

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        if self.before_read:
            self.before_read.pop(0)()  # type: ignore[operator]
        return super().read(path, offset, size)


def refused(path: str, error: OSError) -> None:
    pytest.fail(f"{path}: {error}")


@pytest.fixture
def fs() -> Meddled:
    return Meddled()


@pytest.fixture
def tree(fs: Meddled, tmp_path: Path) -> BackupTree:
    made = BackupTree(fs, str(tmp_path / "copy"), "tag")
    made.begin()
    return made


def test_both_folders_of_a_home_are_there(tree: BackupTree, tmp_path: Path) -> None:
    """Without a config.toml there is a folder for it all the same: docs/backup.md copies both."""
    tree.finish()
    assert (tmp_path / "copy" / "data").is_dir() and (tmp_path / "copy" / "config").is_dir()


def test_a_file_longer_than_a_part(tree: BackupTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is copied a part at a time; only its beginning where that was asked for; an empty one is a file too."""
    monkeypatch.setattr(copying, "_CHUNK_BYTES", 10)
    content = bytes(range(95))
    (tmp_path / "long").write_bytes(content)
    (tmp_path / "empty").write_bytes(b"")
    assert tree.copy(str(tmp_path / "long"), "a/long")
    assert tree.copy(str(tmp_path / "long"), "a/begun", 30)
    assert tree.copy(str(tmp_path / "empty"), "empty")
    tree.finish()
    assert (tmp_path / "copy/a/long").read_bytes() == content
    assert (tmp_path / "copy/a/begun").read_bytes() == content[:30]
    sums = decode_sums((tmp_path / "copy" / SUMS).read_bytes())
    assert sums["a/long"] == hashlib.sha256(content).hexdigest()
    assert sums["empty"] == hashlib.sha256(b"").hexdigest()


def test_a_file_that_is_cut_while_it_is_read(
    tree: BackupTree, fs: Meddled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again until it no longer changes; one that never stops changing is there as it was read, and is copied again next time."""
    monkeypatch.setattr(copying, "_CHUNK_BYTES", 10)
    path = tmp_path / "f"
    path.write_bytes(b"x" * 40)
    fs.before_read = [lambda: None, lambda: path.write_bytes(b"y" * 10)]
    assert tree.copy(str(path), "f")
    assert Path(tree.path("f")).read_bytes() == b"y" * 10
    path.write_bytes(b"z")
    fs.before_read = [lambda n=n: path.write_bytes(b"z" * n) for n in range(2, 200)]
    assert tree.copy(str(path), "f")
    assert tree.copies["f"].version is None
    fs.before_read = []
    assert tree.copy(str(path), "f")
    assert tree.copies["f"].version is not None


def test_a_file_that_goes_while_it_is_read(tree: BackupTree, fs: Meddled, tmp_path: Path) -> None:
    """Neither it nor a copy of it is there."""
    path = tmp_path / "f"
    path.write_bytes(b"x")
    fs.before_read = [path.unlink]
    assert not tree.copy(str(path), "f")
    assert tree.copies == {}
    path.mkdir()
    with pytest.raises(Unreadable):
        tree.copy(str(path), "f")


def test_a_tree_that_somebody_takes_away(tree: BackupTree, tmp_path: Path) -> None:
    """That is the copy's trouble, not the original's."""
    (tmp_path / "f").write_bytes(b"x")
    [hidden] = [name for name in os.listdir(tmp_path) if name.startswith(".")]
    os.rename(tmp_path / hidden, tmp_path / "taken")
    with pytest.raises(FileNotFoundError):
        tree.copy(str(tmp_path / "f"), "f")


def test_a_name_that_was_taken_meanwhile(tree: BackupTree, tmp_path: Path) -> None:
    """The owner of the name remains as it is."""
    tree.put(MANIFEST, b"{}")
    (tmp_path / "copy").mkdir()
    with pytest.raises(FileExistsError):
        tree.finish()
    tree.abandon()
    assert os.listdir(tmp_path) == ["copy"]
    assert os.listdir(tmp_path / "copy") == []


def test_only_files_are_walked(fs: Meddled, tmp_path: Path) -> None:
    """Folders are gone into; FIFOs and links that lead nowhere are passed by; a folder that is not there holds nothing."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("nowhere")
    assert list(walk(fs, str(tmp_path), passed=refused)) == ["sub/a"]
    assert list(walk(fs, str(tmp_path / "no"), passed=refused)) == []


def test_sums_of_odd_names() -> None:
    """Newlines and backslashes come back as they were, in the way of sha256sum; what is not a list of sums is refused."""
    names = ["plain", "with space", "new\nline", "back\\slash", "\\n", "cr\r", "日本"]
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in names}
    encoded = encode_sums({name: CopiedFile(None, 0, digest) for name, digest in sums.items()})
    assert decode_sums(encoded) == sums
    for wrong in (encoded[:-1], b"nothing\n", b"a" * 64 + b" one blank\n", b"a" * 64 + b"  \n", b"a" * 60 + b"  x\n"):
        with pytest.raises(ValueError, match=r"sum|end"):
            decode_sums(wrong)


def test_a_proof_looks_behind_the_sums(tree: BackupTree, fs: Meddled, tmp_path: Path) -> None:
    """Sums that fit do not excuse a session that cannot be read, a wrong number of files, or an unknown format."""
    stores = [
        {"name": "default", "format": "jsonl", "path": "/p", "sessions": 1, "unreadable": []},
        {"name": "x", "format": "gone", "path": "/p", "sessions": 0, "unreadable": []},
    ]
    tree.put("data/sessions/a.jsonl", b"\0\0\0")
    tree.put("data/journal/none", b"")
    manifest = {
        "version": 1, "madeBy": "0", "createdAt": "now", "dataDir": "/d", "lsn": 7, "records": 2, "stores": stores, "trash": {"default": 3},
        "files": 9, "bytes": 3,
    }  # fmt: skip
    assert msgspec.convert(manifest, Manifest).lsn == 7
    tree.put(MANIFEST, msgspec.json.encode(manifest))
    tree.finish()
    told = " ".join(f"{one.what}: {one.problem}" for one in prove(fs, str(tmp_path / "copy")) if one.problem)
    for words in (
        "names 3 files where 10",
        "a.jsonl: has no line",
        "store x (gone)",
        "0 entries where 3",
        "not with 7",
        "0 records where 2",
    ):
        assert words in told, told


async def test_two_backups_hold_the_moves_one_after_the_other() -> None:
    """The second waits for the first; several deletions may be under way at once."""
    moves, order = MoveGuard(), []

    async def copy(name: str) -> None:
        async with moves.none():
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    async with moves.one():
        async with moves.one():
            copies = [asyncio.create_task(copy(name)) for name in ("first", "second")]
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == []
    await asyncio.gather(*copies)
    assert order == ["first begins", "first ends", "second begins", "second ends"]


def test_a_proof_tells_what_it_may_not_look_at(
    tree: BackupTree, fs: Meddled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the backup that cannot be listed, or a name in it that cannot be examined, is a problem of its own."""
    tree.put("data/closed/a", b"1")
    tree.put("data/trash/default/x/meta.json", b"{}")
    tree.put("odd", b"2")
    manifest = Manifest(1, "0", "now", "/d", 0, 0, [], {"default": 1}, 3, 4)
    tree.put(MANIFEST, msgspec.json.encode(manifest))
    tree.finish()
    list_dir, stat = fs.list_dir, fs.stat

    def listed(path: str) -> list[str]:
        if path.endswith(("/closed", "/x")):
            raise PermissionError(13, "Permission denied", path)
        return list_dir(path)

    def looked(path: str) -> Any:
        if path.endswith("/odd"):
            raise PermissionError(13, "Permission denied", path)
        return stat(path)

    monkeypatch.setattr(fs, "list_dir", listed)
    monkeypatch.setattr(fs, "stat", looked)
    copy = tmp_path / "copy"
    told = [(one.what, one.problem) for one in prove(fs, str(copy))]
    for name in ("data/closed", "data/trash/default/x", "odd"):
        assert (str(copy / name), "cannot be examined: Permission denied") in told
    assert (str(copy / "data/trash"), "0 entries where 1 were copied") in told
