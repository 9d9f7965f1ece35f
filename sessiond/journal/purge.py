"""The steps that remove every byte of a session from the closed segments and the copies of damaged ones. Reads only."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from sessiond.fs import FileSystem
from sessiond.journal.damage import Loss, damaged_folder, is_note, missing, note_path
from sessiond.journal.record import SegmentHeader, decode_segment_header, encode_segment
from sessiond.journal.recovery import Copy, RecordLoss, Remove, Repair, Rewrite, SegmentFile, copy_path
from sessiond.journal.replay import Key
from sessiond.journal.scanner import scan


def purge_steps(
    fs: FileSystem, folder: str, closed: Sequence[SegmentFile], key: Key
) -> Iterator[tuple[SegmentFile | None, Repair]]:
    """Oldest first, so that the GONE mark is removed last: a crash in between leaves nothing that could come back.

    A copy of damaged bytes that names the session is removed as a whole, because the rest of it is unknown.
    """
    name = key[1].encode()
    for file in closed:
        data = fs.read(file.path)
        header = decode_segment_header(data)
        if name in data and isinstance(header, SegmentHeader):
            found = scan(data, header, last=False)
            kept = [record for record in found.records if (record.entry.store, record.entry.session) != key]
            for gap in found.gaps:
                copy = copy_path(folder, file.number, gap.start, data[gap.start : gap.end], torn=False)
                if name not in (rotten := data[gap.start : gap.end]):
                    yield None, Copy(copy, rotten)
                lost = missing(found.records, header.first_lsn, found.last_lsn)
                loss = Loss(copy, lost, f"{posixpath.basename(file.path)}: {gap.reason}")
                yield None, RecordLoss(note_path(folder, file.number, loss), loss)
            if found.gaps or len(kept) < len(found.records):
                yield file, Rewrite(file.path, encode_segment(header, kept, found.last_lsn))
    copies = damaged_folder(folder)
    if fs.stat(copies) is not None:
        for entry in sorted(fs.list_dir(copies)):
            path = posixpath.join(copies, entry)
            if not is_note(entry) and name in fs.read(path):
                yield None, Remove(path)
