"""Encrypted backups: what was sealed comes back, and nothing else is taken for it."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import stat
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.backups import sealed
from sessiond.cli.backup_sealed import made
from sessiond.errors import AlreadyExists, BadFile, ConfigError, SessiondError
from sessiond.fs import RealFileSystem
from sessiond.hub.keys import Key, file_of, new_key
from tests.shell import Shell

FS = RealFileSystem()
KEY = Key(b"k" * 32)
HEADER = len(sealed.MAGIC) + 9 + 16


def tree(folder: Path) -> dict[str, bytes | None]:
    """Path below the folder -> contents; None is a folder."""
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def pieces(data: bytes) -> list[bytes]:
    """The sealed pieces of a file, each with its length."""
    found, at = [], HEADER
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        found.append(data[at:end])
        at = end
    return found


def opened(data: bytes, folder: Path, *keys: Key) -> dict[str, bytes | None]:
    path, target = folder / "file", folder / "opened"
    path.write_bytes(data)
    target.mkdir()
    sealed.unseal(str(path), keys or [KEY], str(target))
    return tree(target)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Some three pieces of it."""
    folder = tmp_path / "a source"
    (folder / "data" / "sessions").mkdir(parents=True)
    chance = random.Random(1)
    (folder / "data" / "sessions" / "日本.jsonl").write_bytes(chance.randbytes(2_500_000))
    (folder / "data" / "empty").touch(0o600)
    (folder / "SHA256SUMS").write_text("the sums of all files")
    return folder


@pytest.fixture
def whole(source: Path, tmp_path: Path) -> bytes:
    path = tmp_path / "whole"
    assert sealed.seal_folder(FS, str(source), str(path), KEY) == path.stat().st_size
    return path.read_bytes()


def test_what_was_sealed_comes_back(source: Path, whole: bytes, tmp_path: Path) -> None:
    """All of it, for its owner only; the file shows no name and no text."""
    assert opened(whole, tmp_path, new_key(), KEY) == tree(source)
    assert stat.S_IMODE((tmp_path / "whole").stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "opened").rglob("*") if path.is_dir()} == {0o700}
    for plain in (b"the sums", "日本".encode(), b"SHA256"):
        assert plain not in whole
    assert len(pieces(whole)) == 3


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_harm_is_noticed(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file that was cut, changed in one bit, or whose pieces were left out, repeated or swapped is refused."""
    folder = tmp_path_factory.mktemp("harm")
    (folder / "source").mkdir()
    (folder / "source" / "text").write_bytes(b"x" * data.draw(st.sampled_from([0, 100, sealed.PIECE_BYTES * 2])))
    sealed.seal_folder(FS, str(folder / "source"), str(folder / "whole"), KEY)
    whole = (folder / "whole").read_bytes()
    parts = pieces(whole)
    match data.draw(st.sampled_from(["cut", "bit", "leave out", "repeat", "swap", "more"])):
        case "cut":
            harmed = whole[: data.draw(st.integers(0, len(whole) - 1))]
        case "bit":
            at = data.draw(st.integers(0, len(whole) - 1))
            harmed = whole[:at] + bytes([whole[at] ^ (1 << data.draw(st.integers(0, 7)))]) + whole[at + 1 :]
        case "leave out":
            del parts[data.draw(st.integers(0, len(parts) - 1))]
            harmed = whole[:HEADER] + b"".join(parts)
        case "repeat":
            at = data.draw(st.integers(0, len(parts) - 1))
            harmed = whole[:HEADER] + b"".join([*parts[: at + 1], *parts[at:]])
        case "swap":
            parts.reverse()
            harmed = whole[:HEADER] + b"".join(parts) + (b"" if len(parts) > 1 else b"more")
        case _:
            harmed = whole + b"\x00"
    with pytest.raises((BadFile, ConfigError)):
        opened(harmed, folder)


def test_two_files_share_no_piece(source: Path, whole: bytes, tmp_path: Path) -> None:
    """The same contents under the same key: pieces of one are refused in the other."""
    other = tmp_path / "other"
    sealed.seal_folder(FS, str(source), str(other), KEY)
    mixed = whole[:HEADER] + b"".join([pieces(other.read_bytes())[0], *pieces(whole)[1:]])
    with pytest.raises(BadFile, match="damaged or cut short"):
        opened(mixed, tmp_path)


def test_a_damaged_beginning_is_named(whole: bytes, tmp_path: Path) -> None:
    """With advice for the file that was given: doctor knows nothing of it."""
    with pytest.raises(BadFile, match="is not an encrypted backup, or its beginning is damaged") as caught:
        opened(b"x" + whole[1:], tmp_path)
    assert caught.value.hint == "take another copy of it"


def test_another_key_is_named(whole: bytes, tmp_path: Path) -> None:
    """The message says which key is missing."""
    with pytest.raises(ConfigError, match=f"with the key {KEY.id}"):
        opened(whole, tmp_path, new_key())


def test_nothing_is_written_over(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a file that was there, nor one that comes while this one is made, on a disk with links or without."""
    path = tmp_path / "there"
    path.write_text("mine")
    with pytest.raises(AlreadyExists):
        sealed.seal_folder(FS, str(source), str(path), KEY)
    path.unlink()

    def comes(made: str, target: str) -> None:
        path.write_text("mine")
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(FS, "link", comes)
    with pytest.raises(AlreadyExists):
        sealed.seal_folder(FS, str(source), str(path), KEY)
    assert path.read_text() == "mine"
    path.unlink()
    monkeypatch.setattr(FS, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no links here")))
    sealed.seal_folder(FS, str(source), str(path), KEY)
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".part"] == []


@pytest.mark.parametrize("what", ["words", "pipe", "link", "another backup"])
def test_what_is_beside_it_is_not_written_over(source: Path, tmp_path: Path, what: str) -> None:
    """A file of anybody else where the part that is being written would be, or the part of a backup that is under way."""
    path, part = tmp_path / "there", tmp_path / "there.part"
    holder = None
    if what == "words":
        part.write_text("mine")
    elif what == "pipe":
        os.mkfifo(part)
    elif what == "link":
        (tmp_path / "mine").write_bytes(sealed.MAGIC)
        part.symlink_to(tmp_path / "mine")
    else:
        part.write_bytes(sealed.MAGIC)
        holder = part.open("rb")
        fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(AlreadyExists, match="in the way"):
        sealed.seal_folder(FS, str(source), str(path), KEY)
    assert os.path.lexists(part) and not path.exists()
    assert what in ("pipe", "another backup") or part.read_bytes() in (b"mine", sealed.MAGIC)
    if holder is not None:
        holder.close()
        sealed.seal_folder(FS, str(source), str(path), KEY)
        assert path.read_bytes().startswith(sealed.MAGIC) and not part.exists()


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system does not say which one is full."""
    key, file = tmp_path / "my.key", str(tmp_path / "all.sealed")
    key.write_bytes(file_of([KEY]))
    key.chmod(0o600)

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sealed, "seal_folder", full)
    with pytest.raises(SessiondError, match=f"{file} cannot be written: No space") as caught, made(file, str(key)):
        pass
    assert "free some space" in str(caught.value.hint)


def test_from_a_home_to_a_home(shell: Shell, tmp_path: Path) -> None:
    """Made, verified and put back by the commands; the session is there, and no readable copy is left."""
    key, file, folder = str(tmp_path / "my.key"), str(tmp_path / "all.sealed"), str(tmp_path / "opened")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    shell.env["TMPDIR"] = str(temporary)
    assert shell("store", "key", "new", key).code == 0
    with shell.client() as client:
        client.new(id="one").append("user", "A MARKER")
    done = shell("backup", file, "--encrypt", "--key-file", key)
    assert (done.code, done.err) == (0, ""), done
    assert b"MARKER" not in Path(file).read_bytes()
    assert "exists" in shell("backup", file, "--encrypt", "--key-file", key).err
    verified = shell("backup", "--verify", file, "--key-file", key)
    assert (verified.code, "PROBLEM" in verified.out) == (0, False), verified
    assert shell("backup", file, "--decrypt", folder, "--key-file", key).code == 0
    assert shell("backup", "--verify", folder).code == 0
    other = Shell()
    try:
        os.rename(f"{folder}/data", other.path / "data")
        assert "A MARKER" in other("show", "one").out
    finally:
        other.close()
    assert list(temporary.iterdir()) == []
    assert "key-file" in shell("backup", "--verify", file).err
    assert "key-file" in shell("backup", str(tmp_path / "x"), "--encrypt").err
    damaged = Path(file).read_bytes()[:-1]
    Path(file).write_bytes(damaged)
    done = shell("backup", file, "--decrypt", str(tmp_path / "again"), "--key-file", key)
    assert done.code == 1 and "damaged or cut short" in done.err
    assert not (tmp_path / "again").exists()
