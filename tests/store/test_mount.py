"""Claiming a folder: who may have it, what tells it from an empty mount point, and what is done if it cannot be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sessiond.fs import RealFileSystem
from sessiond.store.mount import MARKER, Mounter, OutOfReach


class Failing(RealFileSystem):
    """Refuses to lock anything below `path` with an error."""

    def __init__(self, error: int) -> None:
        super().__init__()
        self.error = error

    def lock(self, path: str):  # type: ignore[no-untyped-def]
        raise OSError(self.error, os.strerror(self.error), path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    (tmp_path / "data").mkdir()
    return tmp_path


def mounter(root: Path, fs: RealFileSystem | None = None) -> Mounter:
    return Mounter(fs or RealFileSystem(), str(root / "data"))


def test_a_folder_is_marked_and_locked(root: Path) -> None:
    """A second one does not get it while the first holds it; its id remains the same."""
    store = str(root / "store")
    claim = mounter(root).claim("s", store)
    assert claim.writable
    before = (root / "store" / MARKER).read_bytes()
    with pytest.raises(OutOfReach, match="in use by another"):
        mounter(root).claim("s", store)
    claim.release()
    claim.release()
    mounter(root).claim("s", store).release()
    assert (root / "store" / MARKER).read_bytes() == before


def test_an_unmounted_folder_is_known(root: Path) -> None:
    """A folder that had a mark and has none is another one; nothing is made in it. One that is gone is unreachable too."""
    store = root / "store"
    mounter(root).claim("s", str(store)).release()
    store.rename(root / "elsewhere")
    with pytest.raises(OutOfReach, match="is not a folder"):
        mounter(root).claim("s", str(store))
    store.mkdir()
    with pytest.raises(OutOfReach, match="not mounted"):
        mounter(root).claim("s", str(store))
    assert list(store.iterdir()) == []
    (root / "elsewhere" / MARKER).rename(root / "marker")
    store.rmdir()
    (root / "elsewhere").rename(store)
    with pytest.raises(OutOfReach):
        mounter(root).claim("s", str(store))
    (root / "marker").rename(store / MARKER)
    mounter(root).claim("s", str(store)).release()


def test_a_folder_that_cannot_be_written_keeps_its_extras_elsewhere(root: Path) -> None:
    """EROFS: it is read only, and what has no place in it goes under the data folder."""
    claim = mounter(root, Failing(errno.EROFS)).claim("s", str(root / "store"))
    assert not claim.writable
    assert claim.extras == str(root / "data" / "extras" / "s")
    assert os.path.isdir(claim.extras)
    claim.release()


def test_a_folder_whose_disk_fails_is_out_of_reach(root: Path) -> None:
    """EIO does not make it read-only."""
    with pytest.raises(OutOfReach, match="Input/output"):
        mounter(root, Failing(errno.EIO)).claim("s", str(root / "store"))


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b'{"sessiond":1}'])
def test_a_damaged_mark_is_made_anew(root: Path, content: bytes) -> None:
    """In the folder and in the data folder: neither keeps the store from being mounted."""
    store = root / "store"
    mounter(root).claim("s", str(store)).release()
    (store / MARKER).write_bytes(content)
    (root / "data" / "mounts" / "s.json").write_bytes(content)
    mounter(root).claim("s", str(store)).release()
    assert b'"id"' in (store / MARKER).read_bytes()
