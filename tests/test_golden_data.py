"""Every version opens the data of earlier ones; data of a newer one is refused and not touched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sessiond.daemon.data_version import FORMAT
from sessiond.journal.record import SegmentHeader, encode_segment_header
from tests.golden_data.life import IDS, listing, place
from tests.home import Home
from tests.shell import Shell

GOLDEN = Path(__file__).parent / "golden_data"
VERSIONS = sorted(path.name for path in GOLDEN.glob("v*"))


def private(folder: Path) -> None:
    """A checkout has other modes."""
    folder.chmod(0o700)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_of_every_version_is_opened(tmp_path: Path, version: str) -> None:
    """Every format, the journal's pending changes, trash and state: all that it held is said, before and after everything is saved."""
    folder = tmp_path / "home"
    shutil.copytree(GOLDEN / version, folder, ignore=shutil.ignore_patterns("expected.json"))
    private(folder / "data")
    place(folder)
    expected = json.loads((GOLDEN / version / "expected.json").read_text())
    assert {one["format"] for one in expected["sessions"]} >= {"jsonl", "amacs", "cortex", "agent-q", "theia", "sibyl"}
    assert len(expected["opened"]) >= len(IDS) + 4
    with Home(folder, env={"TZ": "UTC"}) as home:
        client = home.client()
        assert client.call("daemon/status")["dirtySessions"] > len(IDS)
        assert listing(client) == expected
        client.call("session/save")
        home.stop()
        home.start()
        client = home.client()
        assert client.call("daemon/status")["dirtySessions"] == 0
        assert listing(client) == expected
        assert client.call("session/restore", sessionId="deleted")["session"]["messageCount"] == 2


def test_this_version_has_its_folder() -> None:
    """A version that is released without one would break what it left without anybody knowing."""
    import sessiond

    assert f"v{sessiond.__version__}" in VERSIONS


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def refused(shell: Shell, *words: str) -> None:
    """The daemon does not start, says why in one line, and every byte is as before; doctor says the same and repairs nothing."""
    before = contents(shell.data)
    done = subprocess.run(
        shell.command("serve"), env=shell.env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr
    listed = shell("list")
    assert listed.code == 69
    assert all(word in listed.err for word in words), listed
    doctor = shell("doctor", "--repair")
    assert doctor.code == 1
    assert "newer" in doctor.out
    assert contents(shell.data) == before


@pytest.fixture
def left(shell: Shell) -> Shell:
    shell("new", "--id", "x", "--name", "X")
    shell("append", "x", "words")
    assert shell("stop").code == 0
    return shell


def test_a_folder_of_a_newer_layout_is_refused(left: Shell) -> None:
    """The number in `data/format` says so."""
    assert (left.data / "format").read_text() == f"{FORMAT}\n"
    (left.data / "format").write_text(f"{FORMAT + 1}\n")
    refused(left, "newer", f"format {FORMAT + 1}")
    (left.data / "format").write_text(f"{FORMAT}\n")
    assert left("list").code == 0


def test_a_journal_of_a_newer_version_is_refused(left: Shell) -> None:
    """Its segments' headers say so."""
    last = max((left.data / "journal").glob("*.journal"))
    header = bytearray(encode_segment_header(SegmentHeader(b"j" * 16, int(last.name[:8]) + 1, 1)))
    header[12] = 2
    from zlib import crc32

    header[8:12] = crc32(bytes(header[12:])).to_bytes(4, "little")
    newer = last.with_name(f"{int(last.name[:8]) + 1:08d}.journal")
    newer.write_bytes(bytes(header))
    refused(left, "newer", "version 2")
    newer.unlink()
    assert left("list").code == 0


def test_a_session_of_a_newer_version_is_a_bad_file(left: Shell) -> None:
    """The others are served; that one is named, and remains as it is."""
    path = left.data / "sessions" / "later.jsonl"
    path.write_bytes(b'{"sessiond":2,"id":"later","createdAt":"2026-01-11T14:30:22.000Z"}\n')
    before = path.read_bytes()
    done = left("append", "later", "words")
    assert done.code == 1
    assert "newer" in done.err
    assert left("show", "x").code == 0
    assert path.read_bytes() == before


def test_the_maker_never_writes_over_a_folder() -> None:
    """What was released is kept as it was."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden_data.make"],
        cwd=GOLDEN.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "is there already" in done.stderr
