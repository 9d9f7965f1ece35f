"""The journal on a disk that fills up, fails or decays."""

from __future__ import annotations

import contextlib
import errno
import posixpath
import struct
from zlib import crc32

import pytest

from sessiond.errors import BadFile, Indeterminate, ReadOnly
from sessiond.journal.record import SEGMENT_HEADER_BYTES, SegmentHeader, encode_segment_header
from sessiond.journal.recovery import Contents
from sessiond.journal.replay import replay
from sessiond.journal.segments import Segments
from sessiond.limits import Limits
from tests.fakes.crashfs import Crash, CrashFS
from tests.journal.builders import ID, changes, gone, saved

FOLDER = "/journal"
FIRST = f"{FOLDER}/00000001.journal"
SECOND = f"{FOLDER}/00000002.journal"


def opened(fs: CrashFS, **limits: int) -> tuple[Segments, Contents]:
    segments = Segments(
        fs, FOLDER, Limits(**{"reserve_bytes": 0, "segment_step_bytes": 1, **limits}), lambda: 1_768_141_822.0
    )
    return segments, segments.recover(lambda: ID)


def pending(fs: CrashFS) -> dict[str, list[int]]:
    """What the next start finds, session -> seqs."""
    twin = CrashFS()  # a start repairs what it finds
    for path, data in fs.tree().items():
        twin.make_dirs(posixpath.dirname(path))
        twin.create(path, data)
    _, contents = opened(twin)
    found = replay(record for _, record in contents.records)
    return {session: [record.entry.seq for record in records] for (_, session), records in found.items()}


def names(fs: CrashFS) -> list[str]:
    """All but the hint, which comes and goes as it likes."""
    return sorted(name for path in fs.tree() if (name := path.removeprefix(FOLDER + "/")) != "synced")


@pytest.fixture
def fs() -> CrashFS:
    return CrashFS()


# A write fails


@pytest.mark.parametrize(
    ("error", "through"), [(errno.ENOSPC, 0), (errno.ENOSPC, 30), (errno.EFBIG, 45), (errno.EIO, 3)]
)
def test_a_failed_write_is_cut_off_and_the_journal_goes_on(fs: CrashFS, error: int, through: int) -> None:
    """A write that fails halfway leaves nothing, on no disk that a crash may leave; the next one that works is taken."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    before = fs.read(FIRST)
    fs.fail("write", error, written=through)
    with pytest.raises(ReadOnly) as caught:
        segments.write([changes("a", 2), changes("b", 1)], sync=True)
    assert caught.value.data["reason"]
    assert {image.read(FIRST) for image in fs.crash_images()} == {before}
    assert segments.state is not None
    assert not segments.state.final
    assert segments.state.since == "2026-01-11T14:30:22.000Z"
    assert segments.write([changes("a", 2)], sync=True) == 2
    assert segments.state is None
    assert pending(fs) == {"a": [1, 2]}


def test_a_full_disk_that_has_room_again_is_noticed_though_nobody_writes(fs: CrashFS) -> None:
    """A new segment shows it; a disk that is still full stays as it is."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    fs.fail("write", errno.ENOSPC, times=2)
    with pytest.raises(ReadOnly):
        segments.write([changes("a", 2)], sync=True)
    with pytest.raises(ReadOnly):
        segments.try_again()
    assert segments.state is not None
    segments.try_again()
    assert segments.state is None
    segments.write([changes("a", 2)], sync=True)
    assert pending(fs) == {"a": [1, 2]}


def test_a_failed_disk_is_not_tried_again(fs: CrashFS) -> None:
    segments, _ = opened(fs)
    fs.fail("sync", errno.EIO)
    with pytest.raises(Indeterminate):
        segments.write([changes("a", 1)], sync=True)
    steps = fs.steps
    segments.try_again()
    assert fs.steps == steps
    assert segments.state is not None


@pytest.mark.parametrize("step", ["truncate", "sync"])
def test_a_cut_that_fails_is_final(fs: CrashFS, step: str) -> None:
    """Where a failed write cannot be cut off for certain, the batch is indeterminate and nothing is written any more."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    fs.fail("write", errno.ENOSPC, written=30)
    fs.fail(step, errno.EIO)
    with pytest.raises(Indeterminate):
        segments.write([changes("a", 2)], sync=True)
    assert segments.state is not None
    assert segments.state.final
    steps = fs.steps
    for entry in (changes("a", 3), saved("a", 1), gone("a")):
        with pytest.raises(ReadOnly):
            segments.write([entry], sync=True)
    with pytest.raises(ReadOnly):
        segments.purge("default", "a")
    segments.trim()
    segments.close()
    assert fs.steps == steps, "nothing is touched any more"
    assert pending(fs)["a"][0] == 1


def test_a_failed_sync_is_never_tried_again(fs: CrashFS) -> None:
    """After one failed sync the batch is indeterminate and no later call reaches the disk, although it would succeed."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    fs.fail("sync", errno.EIO)
    with pytest.raises(Indeterminate):
        segments.write([changes("a", 2)], sync=True)
    steps = fs.steps
    with pytest.raises(ReadOnly, match="read-only"):
        segments.write([changes("a", 3)], sync=True)
    assert fs.steps == steps
    assert segments.state is not None
    assert segments.state.final
    assert segments.lsn == 1


@pytest.mark.parametrize("step", ["make", "write"])
def test_a_rotation_without_room_is_tried_again(fs: CrashFS, step: str) -> None:
    """Without space for a new segment the batch is refused, nothing is lost, and it works later."""
    segments, _ = opened(fs, segment_bytes=150)
    segments.write([changes("a", 1)], sync=True)
    fs.fail(step, errno.ENOSPC, path="00000002", written=20)
    with pytest.raises(ReadOnly):
        segments.write([changes("a", 2, b"x" * 60)], sync=True)
    assert pending(fs) == {"a": [1]}
    segments.write([changes("a", 2, b"x" * 60)], sync=True)
    assert names(fs) == ["00000001.journal", "00000002.journal"]
    assert pending(fs) == {"a": [1, 2]}


def test_a_rotation_begins_afresh_over_what_a_failed_one_left(fs: CrashFS) -> None:
    """Where even the beginnings of a new segment could not be removed, the next attempt starts from nothing."""
    segments, _ = opened(fs, segment_bytes=150)
    segments.write([changes("a", 1)], sync=True)
    fs.fail("write", errno.ENOSPC, path="00000002", written=20)
    fs.fail("remove", errno.EIO)
    with pytest.raises(ReadOnly):
        segments.write([changes("a", 2, b"x" * 60)], sync=True)
    assert len(fs.read(SECOND)) == 20
    segments.write([changes("a", 2, b"x" * 60)], sync=True)
    _, contents = opened(fs)
    assert contents.damage == []
    assert pending(fs) == {"a": [1, 2]}


@pytest.mark.parametrize("step", ["sync", "sync_dir"])
def test_a_rotation_whose_sync_fails_is_final(fs: CrashFS, step: str) -> None:
    """A new segment that cannot be synced, or its name, ends the writing; the batch is not there."""
    segments, _ = opened(fs, segment_bytes=150)
    segments.write([changes("a", 1)], sync=True)
    fs.fail(step, errno.EIO)
    with pytest.raises(ReadOnly):
        segments.write([changes("a", 2, b"x" * 60)], sync=True)
    assert segments.state is not None
    assert segments.state.final
    for image in fs.crash_images():
        assert pending(image) == {"a": [1]}


def test_after_a_file_size_limit_a_new_segment_is_begun(fs: CrashFS) -> None:
    """EFBIG is not a full disk: the next batch goes into a new segment, which is small."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    fs.fail("write", errno.EFBIG, path="00000001", times=99)
    with pytest.raises(ReadOnly):
        segments.write([changes("a", 2)], sync=True)
    assert segments.write([changes("a", 2)], sync=True) == 2
    assert pending(fs) == {"a": [1, 2]}


# A full disk


def test_on_a_full_disk_marks_and_trimming_go_on_and_changes_wait_for_room() -> None:
    """The reserve is given up for marks; changes do not eat it; once there is room all continues and the reserve is back."""
    fs = CrashFS(capacity=2000)
    fs.create("/ballast", bytes(700))
    segments, _ = opened(fs, segment_bytes=400, reserve_bytes=200)
    assert "reserve" in names(fs)
    seq = 0
    while segments.state is None:
        with contextlib.suppress(ReadOnly):
            segments.write([changes("a", seq + 1, b"x" * 40)], sync=True)
            seq += 1
    assert "reserve" not in names(fs)
    with pytest.raises(ReadOnly, match="full"):
        segments.write([changes("a", seq + 1)], sync=True)
    free = fs.free_bytes("/")
    segments.write([saved("a", seq)], sync=False)
    assert segments.state is not None, "a mark that could be written is not a sign of room"
    segments.trim()
    assert fs.free_bytes("/") > free
    segments.write([changes("a", seq + 1)], sync=True)
    assert segments.state is None
    segments.write([changes("a", seq + 2)], sync=True)
    assert "reserve" in names(fs)
    assert pending(fs)["a"][-2:] == [seq + 1, seq + 2]


def test_marks_that_cannot_be_written_still_let_segments_go(fs: CrashFS) -> None:
    """What is saved need not be kept, whether or not there was room to say so."""
    segments, _ = opened(fs, segment_bytes=150)
    for seq in range(1, 5):
        segments.write([changes("a", seq, b"x" * 60)], sync=True)
    assert len(names(fs)) == 4
    fs.fail("write", errno.ENOSPC, times=99)
    with pytest.raises(ReadOnly):
        segments.write([saved("a", 4)], sync=False)
    segments.count_saved([saved("a", 4), gone("b")])
    segments.trim()
    assert names(fs) == ["00000004.journal"]


def test_a_full_disk_at_the_start_serves_what_is_there_and_mends_later() -> None:
    """With no room for mending, the journal comes up read-only with all that was acknowledged, and is mended once there
    is.
    """
    fs = CrashFS()
    segments, _ = opened(fs)
    segments.write([changes("a", 1), changes("b", 1)], sync=True)
    fs.poke(FIRST, fs.read(FIRST) + b"torn")
    fs.capacity = fs.used() + 10
    segments, contents = opened(fs)
    assert [record.entry.session for _, record in contents.records] == ["a", "b"]
    assert segments.state is not None
    assert not segments.state.final
    with pytest.raises(ReadOnly):
        segments.write([changes("a", 2)], sync=True)
    segments.trim()
    segments.close()
    assert fs.read(FIRST).endswith(b"torn"), "not cut before it is kept aside"
    segments, _ = opened(fs)
    fs.capacity = 10_000
    assert segments.write([changes("a", 2)], sync=True) == 3
    assert segments.state is None
    assert pending(fs) == {"a": [1, 2], "b": [1]}


def test_a_segment_that_went_unmended_does_not_come_back() -> None:
    """A segment that waited for space to be repaired and is no longer needed is removed, and not rewritten when there is space."""
    fs = CrashFS()
    segments, _ = opened(fs)
    segments.write([changes("a", 1), changes("a", 2)], sync=True)
    segments.rotate()
    segments.write([changes("b", 1)], sync=True)
    raw = bytearray(fs.read(FIRST))
    raw[-1] ^= 1
    fs.poke(FIRST, bytes(raw))
    fs.capacity = fs.used()
    segments, contents = opened(fs)
    assert len(contents.damage) == 1
    segments.count_saved([saved("a", 2)])
    segments.trim()
    assert "00000001.journal" not in names(fs)
    fs.capacity = None
    segments.write([changes("b", 2)], sync=True)
    assert "00000001.journal" not in names(fs)
    assert pending(fs) == {"b": [1, 2]}


def test_a_disk_that_cannot_be_written_at_all_is_still_read(fs: CrashFS) -> None:
    """On a read-only file system the journal gives what is pending, and says why it takes nothing."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    for step in ("make", "write", "truncate", "rename", "remove"):
        fs.fail(step, errno.EROFS, times=99)
    fs.fail("sync_dir", errno.EIO, times=99)
    segments, contents = opened(fs)
    assert len(contents.records) == 1
    assert segments.state is not None
    with pytest.raises(ReadOnly):
        segments.write([changes("a", 2)], sync=True)


# Trimming


def test_the_oldest_segment_names_those_who_keep_it(fs: CrashFS) -> None:
    """oldest_pending gives the sessions to save; when they are saved the segment goes, and so on to the last one."""
    segments, _ = opened(fs, segment_bytes=150)
    for seq, session in enumerate("abab", 1):
        segments.write([changes(session, seq, b"x" * 60)], sync=True)
    assert segments.oldest_pending() == [("default", "a")]
    segments.write([saved("a", 1)], sync=False)
    segments.trim()
    assert segments.oldest_pending() == [("default", "b")]
    assert names(fs)[0] == "00000002.journal"
    segments.write([saved("a", 3), saved("b", 4)], sync=False)
    segments.trim()
    assert segments.oldest_pending() == []
    assert len(names(fs)) == 1
    assert segments.total_bytes == len(fs.read(f"{FOLDER}/{names(fs)[0]}"))


def test_a_segment_that_will_not_go_goes_later(fs: CrashFS) -> None:
    """A failed removal does no harm and is repeated; none is skipped."""
    segments, _ = opened(fs, segment_bytes=150)
    for seq in range(1, 4):
        segments.write([changes("a", seq, b"x" * 60)], sync=True)
    fs.fail("remove", errno.EBUSY)
    segments.write([saved("a", 3)], sync=False)
    segments.trim()
    assert names(fs)[0] == "00000001.journal"
    segments.trim()
    assert names(fs) == ["00000004.journal"]


def test_a_clean_stop_leaves_an_empty_journal(fs: CrashFS) -> None:
    """When everything is saved, closing leaves one segment without records, and lsns continue."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    segments.write([saved("a", 1)], sync=False)
    segments.close()
    assert names(fs) == ["00000002.journal"]
    assert len(fs.read(SECOND)) == SEGMENT_HEADER_BYTES
    segments, _ = opened(fs)
    assert segments.write([changes("a", 2)], sync=True) == 3


def test_a_stop_with_something_pending_keeps_it_and_syncs_the_marks(fs: CrashFS) -> None:
    """Closing syncs what was only written, and removes nothing that is needed."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1), changes("b", 1)], sync=True)
    segments.write([saved("a", 1)], sync=False)
    segments.close()
    for image in fs.crash_images():
        assert pending(image) == {"b": [1]}


# Decay


def _three(fs: CrashFS) -> bytes:
    segments, _ = opened(fs)
    for seq in (1, 2, 3):
        segments.write([changes("a", seq, b"payload%d" % seq)], sync=True)
    return fs.read(FIRST)


def test_a_torn_end_is_kept_aside_and_cut_before_anything_is_written(fs: CrashFS) -> None:
    """What a crash left at the end is in damaged/, durably, before the segment is written again without it."""
    whole = _three(fs)
    fs.poke(FIRST, whole + b"torn end")
    steps = fs.steps
    _, contents = opened(fs)
    (damage,) = contents.damage
    assert (damage.torn, damage.start, damage.end) == (True, len(whole), len(whole) + 8)
    assert damage.copy is not None
    assert fs.read(damage.copy) == b"torn end"
    assert fs.read(FIRST) == whole
    for step in range(steps, fs.steps):
        twin = CrashFS()
        _three(twin)
        twin.poke(FIRST, whole + b"torn end")
        twin.crash_at = step
        with pytest.raises(Crash):
            opened(twin)
        for image in twin.crash_images():
            assert image.read(FIRST) != whole or b"torn end" in image.tree().values()
    _, contents = opened(fs)
    assert contents.damage == []


def test_zeros_at_the_end_are_cut(fs: CrashFS) -> None:
    """They are room that the last daemon took, and nothing is wrong with them."""
    whole = _three(fs)
    fs.poke(FIRST, whole + bytes(100))
    _, contents = opened(fs)
    assert contents.damage == []
    assert names(fs) == ["00000001.journal"]
    assert fs.read(FIRST) == whole


def test_a_broken_middle_is_kept_told_and_read_around(fs: CrashFS) -> None:
    """Corruption: the whole segment is kept as it was found, the readable records are served, and the next start is
    clean.
    """
    whole = bytearray(_three(fs))
    whole[whole.index(b"payload2")] ^= 1
    fs.poke(FIRST, bytes(whole))
    segments, contents = opened(fs)
    (damage,) = contents.damage
    assert not damage.torn
    assert damage.copy is not None
    assert fs.read(damage.copy) == bytes(whole)
    assert str(damage).endswith(f"bad body sum, something is lost; kept in {damage.copy}")
    assert [record.entry.payload for _, record in contents.records] == [b"payload1", b"payload3"]
    assert segments.write([changes("a", 4)], sync=True) == 4
    segments.close()
    _, contents = opened(fs)
    assert contents.damage == []
    assert pending(fs) == {"a": [1, 3, 4]}


def test_a_closed_segment_that_lost_its_end_is_corruption(fs: CrashFS) -> None:
    """Records that vanished from the end of a closed segment, without a broken byte, are told too."""
    segments, _ = opened(fs, segment_bytes=150)
    for seq in (1, 2, 3):
        segments.write([changes("a", seq, b"x" * 20)], sync=True)
    assert names(fs) == ["00000001.journal", "00000002.journal", "00000003.journal"]
    fs.poke(SECOND, fs.read(SECOND)[:SEGMENT_HEADER_BYTES])
    segments, contents = opened(fs)
    assert [(damage.path, damage.reason, damage.torn) for damage in contents.damage] == [
        (SECOND, "records 2 to 2 are missing", False)
    ]
    assert pending(fs) == {"a": [1, 3]}


def test_a_missing_segment_is_told(fs: CrashFS) -> None:
    """A segment missing in the middle is corruption, and the others are served."""
    segments, _ = opened(fs, segment_bytes=150)
    for seq in (1, 2, 3):
        segments.write([changes("a", seq, b"x" * 20)], sync=True)
    fs.remove(SECOND)
    _, contents = opened(fs)
    assert [damage.reason for damage in contents.damage] == ["records 2 to 2 are missing"]


@pytest.mark.parametrize("siblings", [0, 1])
def test_a_broken_segment_header_costs_no_record(fs: CrashFS, siblings: int) -> None:
    """Records are found although their segment's header is broken, with or without another segment to tell the id."""
    segments, _ = opened(fs)
    for seq in (1, 2):
        segments.write([changes("a", seq)], sync=True)
    if siblings:
        segments.rotate()
        segments.write([changes("a", 3)], sync=True)
    raw = bytearray(fs.read(FIRST))
    raw[20 if siblings else 45] ^= 1
    fs.poke(FIRST, bytes(raw))
    segments, contents = opened(fs)
    assert [damage.reason for damage in contents.damage] == ["bad segment header"]
    assert [record.entry.seq for _, record in contents.records] == [1, 2, 3][: 2 + siblings]
    assert segments.write([changes("a", 4)], sync=True) == 3 + siblings
    segments.close()
    _, contents = opened(fs)
    assert contents.damage == []


def test_a_segment_of_nulls_is_kept_and_told(fs: CrashFS) -> None:
    """A whole segment of zeros longer than a header is a loss that is reported, and the journal continues."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    segments.rotate()
    segments.write([changes("a", 2)], sync=True)
    fs.poke(SECOND, bytes(len(fs.read(SECOND))))
    segments, contents = opened(fs)
    assert all(not damage.torn for damage in contents.damage)
    segments.write([changes("a", 3)], sync=True)
    segments.close()
    assert pending(fs) == {"a": [1, 3]}


def test_a_segment_that_cannot_be_read_is_left_alone(fs: CrashFS) -> None:
    """An I/O error costs the segment for this start only: nothing of it is touched, and writing continues behind it."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    before = fs.read(FIRST)
    fs.fail("read", errno.EIO, path="00000001", times=2)
    segments, contents = opened(fs)
    assert [damage.reason for damage in contents.damage] == ["cannot be read: Input/output error"]
    assert segments.write([changes("a", 2)], sync=True) > 1
    segments.close()
    assert fs.read(FIRST) == before
    assert pending(fs) == {"a": [1, 2]}


def test_a_segment_that_was_being_made_is_removed(fs: CrashFS) -> None:
    """A last segment without a whole header held nothing: it goes, without a word of damage."""
    for start in (b"", b"sess", bytes(SEGMENT_HEADER_BYTES)):
        fs = CrashFS()
        whole = _three(fs)
        fs.create(SECOND, start)
        _, contents = opened(fs)
        assert contents.damage == []
        assert names(fs) == ["00000001.journal"]
        assert fs.read(FIRST) == whole


def test_a_newer_version_is_left_alone(fs: CrashFS) -> None:
    """A journal of a later version is refused with a word on what to do, and not one byte is changed."""
    fs.make_dirs(FOLDER)
    header = bytearray(encode_segment_header(SegmentHeader(ID, 1, 1)))
    header[12] = 2
    header[8:12] = struct.pack("<I", crc32(header[12:]))
    fs.create(FIRST, bytes(header))
    steps = fs.steps
    with pytest.raises(BadFile, match="version 2"):
        opened(fs)
    assert fs.tree() == {FIRST: bytes(header)}
    assert fs.steps == steps + 1, "one folder sync, no more"


def test_leftovers_of_crashes_are_tidied_up(fs: CrashFS) -> None:
    """Temporary files go; of torn ends only as many are kept as the limit says; other files are nobody's business."""
    _three(fs)
    fs.make_dirs(f"{FOLDER}/damaged")
    for number in range(1, 6):
        fs.create(f"{FOLDER}/damaged/0000000{number}-torn-100-aaaaaaaa", b"x")
    fs.create(f"{FOLDER}/damaged/00000001-corrupt-0-aaaaaaaa", b"x")
    fs.create(f"{FOLDER}/.00000001.journal.0.tmp~", b"x")
    fs.create(f"{FOLDER}/README", b"mine")
    opened(fs, damaged_copies=2)
    assert names(fs) == [
        "00000001.journal",
        "README",
        "damaged/00000001-corrupt-0-aaaaaaaa",
        "damaged/00000004-torn-100-aaaaaaaa",
        "damaged/00000005-torn-100-aaaaaaaa",
    ]


# Deleting for ever


def test_purge_takes_every_byte_of_a_session_and_of_nobody_else(fs: CrashFS) -> None:
    """After purge no file of the journal holds the session's words or name, copies of damaged bytes included."""
    segments, _ = opened(fs, segment_bytes=300)
    for seq in range(1, 6):
        segments.write([changes("secret", seq, b"<secret word>"), changes("b", seq, b"<kept>")], sync=True)
    segments.write([saved("secret", 5)], sync=False)
    fs.make_dirs(f"{FOLDER}/damaged")
    fs.create(f"{FOLDER}/damaged/00000001-torn-9-00000000", b"...defaultsecret<secr")
    fs.create(f"{FOLDER}/damaged/00000001-torn-8-00000000", b"...defaultb<kept>")
    segments.purge("default", "secret")
    for image in fs.crash_images():
        assert not any(b"secret" in data for data in image.tree().values())
        assert pending(image) == {"b": [1, 2, 3, 4, 5]}
    assert segments.total_bytes == sum(len(data) for name, data in fs.tree().items() if name.endswith(".journal"))
    assert "damaged/00000001-torn-8-00000000" in names(fs)
    segments.write([changes("secret", 1)], sync=True)
    assert pending(fs) == {"b": [1, 2, 3, 4, 5], "secret": [1]}


def test_a_purge_that_fails_may_be_repeated(fs: CrashFS) -> None:
    """Without room for the rewriting, purge says so; nothing comes back; repeated, it is done."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1, b"<secret>"), changes("b", 1)], sync=True)
    fs.fail("write", errno.ENOSPC, path="tmp")
    with pytest.raises(ReadOnly):
        segments.purge("default", "a")
    assert pending(fs) == {"b": [1]}
    segments.purge("default", "a")
    assert not any(b"<secret>" in data for data in fs.tree().values())
    assert pending(fs) == {"b": [1]}


def test_6_an_older_hint_calls_nothing_damage(fs: CrashFS) -> None:
    """After a power failure `synced` may be that of an earlier life, while segments that it counted on have been trimmed."""
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    segments.close()
    for disk in fs.crash_images():
        segments, _ = opened(disk)
        for seq in range(2, 6):
            segments.write([changes("a", seq)], sync=True)
            segments.rotate()
            segments.write([saved("a", seq)], sync=True)
            segments.trim()
        for image in disk.crash_images(limit=200):
            assert [damage for damage in opened(image)[1].damage if not damage.torn] == [], image.story
