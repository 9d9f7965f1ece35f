"""The spool: frames that a kill may cut anywhere."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond.acp.erasing import Eraser
from sessiond.acp.spool import AGENT, EDITOR, HEAD, Spool, SpoolReader, head_of, is_locked, locked, waiting

_frames = st.lists(st.tuples(st.sampled_from([EDITOR, AGENT]), st.binary(max_size=20)), max_size=6)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_frames, st.data())
def test_a_cut_frame_is_not_read(tmp_path: Path, frames: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    """Wherever a spool ends, its reader gives the frames that are whole, and goes on with what is added later."""
    spool = Spool.made(str(tmp_path), b"{}")
    ends = [os.fstat(spool.descriptor).st_size]
    for kind, content in frames:
        spool.write(kind, content)
        ends.append(os.fstat(spool.descriptor).st_size)
    whole = Path(spool.path).read_bytes()
    os.close(spool.descriptor)
    cut = data.draw(st.integers(0, len(whole)))
    expected = [(HEAD, b"{}"), *frames]
    with open(tmp_path / "cut", "w+b", buffering=0) as file:
        file.write(whole[:cut])
        reader = SpoolReader(file.fileno())
        first = [(kind, content) for kind, _, content in reader.frames()]
        assert first == expected[: sum(end <= cut for end in ends)]
        file.write(whole[cut:])
        assert first + [(kind, content) for kind, _, content in reader.frames()] == expected
        until = data.draw(st.sampled_from(ends))
        bounded = [(kind, content) for kind, _, content in SpoolReader(file.fileno()).frames(until)]
        assert bounded == expected[: sum(end <= until for end in ends)]


def _said(key: str, number: int) -> list[tuple[bytes, bytes]]:
    """Lines of a session, each with a word of it: a request, its response, and an update; and an answer to the agent."""
    word = f"word of {key} {number}"
    asked: list[tuple[bytes, dict[str, Any]]] = [
        (EDITOR, {"id": number, "method": "session/prompt", "params": {"sessionId": key, "prompt": word}}),
        (AGENT, {"method": "session/update", "params": {"sessionId": key, "update": word}}),
        (AGENT, {"id": number, "method": "fs/read_text_file", "params": {"sessionId": key, "path": word}}),
        (EDITOR, {"id": number, "result": {"content": word}}),
        (AGENT, {"id": number, "result": {"stopReason": "end_turn", "usage": word}}),
    ]
    return [(kind, json.dumps(one).encode() + b"\r\n") for kind, one in asked]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4),
    st.lists(st.integers(1, 90), min_size=8),
    st.booleans(),
)
def test_what_is_erased_is_blank(tmp_path: Path, keys: list[str], cuts: list[int], meanwhile: bool) -> None:
    """Wherever lines are cut, and whether it is erased at the end or all the time: no word of a session stays, each of another
    does, and so does the place of every frame.
    """
    spool = Spool.made(str(tmp_path), b"{}")
    eraser = Eraser(spool.path)
    lines = [one for number, key in enumerate(keys) for one in _said(key, number)]
    lines.append((EDITOR, b'{"id":"l","method":"session/list"}\n'))
    lines.append((AGENT, b'{"id":"l","result":{"sessions":[{"sessionId":"a","title":"word of a"}]}}\n'))
    for number, (kind, line) in enumerate(lines):
        for piece in _two(line, cuts, number):
            spool.write(kind, piece)
            if meanwhile:
                eraser.erase({"a"})
    eraser.erase({"a"})
    frames = [(kind, data) for kind, _, data in SpoolReader(spool.descriptor).frames()][1:]
    os.close(spool.descriptor)
    assert [len(data) for _, data in frames] == [
        len(piece) for n, (_, line) in enumerate(lines) for piece in _two(line, cuts, n)
    ]
    kept = {kind: b"".join(data for of, data in frames if of == kind).split(b"\n") for kind in (EDITOR, AGENT)}
    for kind, found in kept.items():
        expected = [line.rstrip() if b"word of b" in line else b"" for of, line in lines if of == kind]
        assert [line.strip() for line in found] == [*expected, b""]


@pytest.mark.parametrize("failing", ["pwrite", "fsync"])
def test_an_erasure_that_failed_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """Nothing is seen twice: a response is known by its request only once."""
    spool = Spool.made(str(tmp_path), b"{}")
    eraser = Eraser(spool.path)
    lines = [*_said("b", 2), *_said("a", 1)]
    for kind, line in lines[:-1]:
        spool.write(kind, line)
    spool.write(AGENT, lines[-1][1][:10])

    def full(*_: object) -> None:
        raise OSError(errno.EIO, "it failed")

    with monkeypatch.context() as patch:
        patch.setattr(f"sessiond.acp.erasing.os.{failing}", full)
        for _ in range(2):
            with pytest.raises(OSError, match="it failed"):
                eraser.erase({"a"})
    spool.write(AGENT, lines[-1][1][10:])
    eraser.erase({"a"})
    content = Path(spool.path).read_bytes()
    os.close(spool.descriptor)
    assert b"word of a" not in content
    assert content.count(b"word of b") == 5


def test_a_response_goes_that_comes_after_another_session_is_erased(tmp_path: Path) -> None:
    """Its request is blank by then."""
    spool = Spool.made(str(tmp_path), b"{}")
    eraser = Eraser(spool.path)
    *asked, answer = _said("a", 1)
    for kind, line in asked:
        spool.write(kind, line)
    eraser.erase({"a"})
    for kind, line in _said("b", 2):
        spool.write(kind, line)
    eraser.erase({"a", "b"})
    spool.write(*answer)
    eraser.erase({"a", "b"})
    content = Path(spool.path).read_bytes()
    os.close(spool.descriptor)
    assert b"word of" not in content


def test_a_message_goes_whatever_its_id_is(tmp_path: Path) -> None:
    spool = Spool.made(str(tmp_path), b"{}")
    odd = {"id": [1], "method": "session/prompt", "params": {"sessionId": "a", "prompt": "word of a"}}
    spool.write(EDITOR, json.dumps(odd).encode() + b"\n")
    Eraser(spool.path).erase({"a"})
    content = Path(spool.path).read_bytes()
    os.close(spool.descriptor)
    assert b"word of a" not in content


def _two(line: bytes, cuts: list[int], number: int) -> tuple[bytes, bytes]:
    cut = cuts[number % len(cuts)]
    return line[:cut], line[cut:]


def test_spools_are_in_the_order_in_which_they_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spools of one second are brought in in the order in which their connections began, whatever their names are."""
    made = []
    for n, name in enumerate(("ff", "aa", "cc")):
        monkeypatch.setattr("sessiond.acp.spool.os.urandom", lambda size, name=name: bytes.fromhex(name * size))
        monkeypatch.setattr("sessiond.acp.spool.time.time_ns", lambda n=n: (1_000_000_000_000 + n) * 1_000_000)
        made.append(Spool.made(str(tmp_path), b"{}").path)
    assert waiting(str(tmp_path)) == made


def test_the_folders_of_a_spool_are_its_owners(tmp_path: Path) -> None:
    """Also the data folder, if this is the first to make it."""
    os.close(Spool.made(str(tmp_path / "data" / "acp"), b"{}").descriptor)
    assert [(tmp_path / one).stat().st_mode & 0o777 for one in ("data", "data/acp")] == [0o700, 0o700]


def test_a_lock_says_who_has_a_spool(tmp_path: Path) -> None:
    """A spool is locked by who writes it, and by nobody else after that; whose process is gone has ended."""
    spool = Spool.made(str(tmp_path), b'{"pid": %d}' % os.getpid())
    assert is_locked(spool.path)
    assert locked(spool.path) is None
    head = head_of(spool.path)
    assert head is not None
    assert not head.ended
    assert head._replace(about={"pid": 2**22 - 1}).ended  # above what Linux gives by itself
    assert not head._replace(about={}).ended
    os.close(spool.descriptor)
    assert not is_locked(spool.path)
    assert not is_locked(f"{spool.path}.gone")
    assert head_of(f"{spool.path}.gone") is None
