"""The planted bugs: what is put wrong in a copy of the program, and which few tests must notice it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """`old`, which stands exactly once in `file`, becomes `new`; then one of `tests` must fail. The name says what is wrong."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


MUTATIONS = [
    # The journal and the disk
    Planted(
        "a new segment's folder is not synced",
        "journal/segments.py",
        "            log.sync()\n            self._fs.sync_dir(self._folder)\n",
        "            log.sync()\n",
        ("tests/journal/test_crashes.py", "-k", "every_crash_image"),
    ),
    Planted(
        "a new segment's header is not synced",
        "journal/segments.py",
        "            log.write(encode_segment_header(header))\n            log.sync()\n",
        "            log.write(encode_segment_header(header))\n",
        ("tests/journal/test_crashes.py", "-k", "every_crash_image"),
    ),
    Planted(
        "no folder sync after a rename",
        "fs/atomic.py",
        "    fs.sync_dir(folder)\n    return stat",
        "    return stat",
        ("tests/test_fs.py", "-k", "atomic_write_survives"),
    ),
    Planted(
        "no file sync before a rename",
        "fs/real.py",
        "            _write_all(fd, data)\n            _sync_file(fd, path)\n",
        "            _write_all(fd, data)\n",
        ("tests/test_fs.py", "-k", "failed"),
    ),
    Planted(
        "a session's folder is not synced after its file was made",
        "store/files.py",
        "                self.fs.remove(fresh)\n                self.fs.sync_dir(folder)\n                return _print(stat)\n",
        "                self.fs.remove(fresh)\n                return _print(stat)\n",
        ("tests/store/test_crash.py", "-k", "theia"),
    ),
    Planted(
        "acknowledged before the sync",
        "journal/segments.py",
        "        if sync:\n            self._sync(log)\n",
        "",
        ("tests/journal/test_writer.py", "-k", "nothing_is_acknowledged"),
    ),
    Planted(
        "a failed sync is tried again",
        "journal/segments.py",
        '            self.fail(error)\n            raise _indeterminate("the disk failed while this was being made durable", error) from error\n',
        "            log.sync()\n",
        ("tests/journal/test_segments.py", "-k", "failed_sync or final"),
    ),
    Planted(
        "writing goes on after a failed sync",
        "journal/segments.py",
        "        self.state = ReadOnlyState(_reason(error), self._now(), final=True)",
        "        self.state = ReadOnlyState(_reason(error), self._now(), final=False)",
        ("tests/journal/test_segments.py", "-k", "failed_sync or final"),
    ),
    Planted(
        "a failed write is not cut off",
        "journal/segments.py",
        "            log.truncate(start)\n            log.sync()\n",
        "            log.sync()\n",
        ("tests/journal/test_segments.py", "-k", "cut_off"),
    ),
    Planted(
        "a torn tail is not cut",
        "journal/recovery.py",
        "            fresh = encode_segment(SegmentHeader(likely.journal_id, number, first_lsn), found.records, through)\n",
        "",
        ("tests/journal/test_segments.py", "-k", "torn_end"),
    ),
    Planted(
        "damaged bytes are cut without a copy",
        "journal/recovery.py",
        "            self.contents.repairs.append(Copy(copy, kept))\n",
        "",
        ("tests/journal/test_segments.py", "-k", "torn_end or broken_middle"),
    ),
    Planted(
        "a length is trusted before its sum",
        "journal/record.py",
        '    if crc32(data[offset + _HEADER.size : offset + HEADER_BYTES], seed) != header_sum:\n        return "bad header sum"\n',
        "",
        ("tests/journal/test_record.py",),
    ),
    Planted(
        "a body's sum is not looked at",
        "journal/record.py",
        '    if crc32(body, seed) != body_sum:\n        return "bad body sum"\n',
        "",
        ("tests/journal/test_record.py",),
    ),
    Planted(
        "a record of a recycled block counts",
        "journal/record.py",
        "        return crc32(_SEGMENT_REST.pack(self.journal_id, self.number, 0))",
        "        return 0",
        ("tests/journal/test_record.py",),
    ),
    Planted(
        "the journal is trimmed while a session needs it",
        "journal/replay.py",
        "        return segment in self._needed",
        "        return False",
        ("tests/journal/test_replay.py", "tests/journal/test_crashes.py"),
    ),
    Planted(
        "the journal is trimmed while a backup copies it",
        "journal/segments.py",
        "len(self._files) > 1 and not self._holds and",
        "len(self._files) > 1 and",
        ("tests/journal/test_hold.py",),
    ),
    Planted(
        "a permanent delete leaves words in the journal",
        "journal/purge.py",
        "                yield file, Rewrite(file.path, encode_segment(header, kept, found.last_lsn))",
        "                yield file, Rewrite(file.path, encode_segment(header, found.records, found.last_lsn))",
        ("tests/journal/test_segments.py", "-k", "purge"),
    ),
    Planted(
        "a short write is not continued",
        "fs/real.py",
        "    yield count\n    if count == len(data):\n        return\n",
        "    yield count\n    return\n",
        ("tests/test_fs.py", "-k", "short_writes"),
    ),
    Planted(
        "a failed append stays in the file",
        "fs/real.py",
        "        if os.fstat(fd).st_size == before + written:\n            os.ftruncate(fd, before)\n            return\n",
        "        if os.fstat(fd).st_size == before + written:\n            return\n",
        ("tests/test_fs.py", "-k", "failed_append"),
    ),
    Planted(
        "a symlink is followed where a file is made",
        "fs/real.py",
        "_BASE | os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)",
        "_BASE | os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)",
        ("tests/test_fs.py", "-k", "link or taken"),
    ),
    Planted(
        "the lock is not taken",
        "fs/real.py",
        "            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "            pass\n",
        ("tests/test_fs.py", "-k", "one_lock"),
    ),
    Planted(
        "files are as open as the umask lets them",
        "fs/real.py",
        "        os.fchmod(fd, mode)  # exact",
        "        pass  # exact",
        ("tests/test_fs.py", "-k", "mode"),
    ),
    # Sessions and their files
    Planted(
        "replay is not idempotent",
        "store/merge.py",
        "        if change.seq <= decoded.through and (change.seq > 0 or decoded.through > 0):\n            continue\n        fresh = _without_known(session, change) if change.seq == 0 or not decoded.holds(change) else None\n",
        "        fresh = change\n",
        ("tests/store/test_crash.py", "-k", "jsonl"),
    ),
    Planted(
        "an append that is there in part is appended again",
        "store/merge.py",
        '            new = [wire for wire in change.messages if session.message(wire["id"]) is None]\n',
        "            new = list(change.messages)\n",
        ("tests/store/test_merge.py",),
    ),
    Planted(
        "a torn line of a session file is not cut",
        "store/sync.py",
        "        position = torn_at(side, content)\n",
        "        position = None\n",
        ("tests/store/test_crash.py", "-k", "jsonl or cortex"),
    ),
    Planted(
        "the journal forgets before the file is synced",
        "store/sync.py",
        "        written = await self._perform(writes, expected)\n",
        "        self.marks.note_saved(self.store, tracked.local_id, session.seq)\n        written = await self._perform(writes, expected)\n",
        ("tests/store/test_crash.py", "-k", "jsonl"),
    ),
    Planted(
        "somebody else's write is written over",
        "store/files.py",
        "            if self.print_of(write.path) != wanted:\n                raise OutsideChange(write.path)\n            if write.how",
        "            if write.how",
        ("tests/store/test_folder.py", "-k", "same_length"),
    ),
    Planted(
        "what an edit took away is not kept",
        "store/sync.py",
        "        if removed_messages(old, new):\n",
        "        if False:\n",
        ("tests/store/test_folder.py", "-k", "outside"),
    ),
    Planted(
        "a malformed line is dropped by a rewrite",
        "formats/jsonl.py",
        '        if kind == "strange":\n',
        '        if kind == "none":\n',
        ("tests/store/test_folder.py", "-k", "malformed"),
    ),
    Planted(
        "a put displaces a session that somebody made just now",
        "store/making.py",
        "    if main in before.files:\n",
        "    if False:\n",
        ("tests/store/test_making.py", "-k", "makes_first"),
    ),
    Planted(
        "a save that never got its turn is called done",
        "store/sync.py",
        '        raise Unavailable(\n            f"{self.files.path(self.format.main_path(tracked.local_id))} is being',
        '        return None\n        raise Unavailable(\n            f"{self.files.path(self.format.main_path(tracked.local_id))} is being',
        ("tests/store/test_edges.py", "-k", "never_stands_still"),
    ),
    Planted(
        "the trash is emptied too early",
        "store/expiry.py",
        "int(self._limits.trash_days * _DAY_MS)",
        "int(self._limits.trash_days * 3600 * 1000)",
        ("tests/store/test_expiry.py", "-k", "not daemon"),
    ),
    Planted(
        "a restore loses the session where the disk is full",
        "store/folder.py",
        "            await self._run(self._trash.remove, trash_id, mark)\n            return await self.load(new_id)\n        fresh",
        "            return await self.load(new_id)\n        fresh",
        ("tests/store/test_folder.py", "-k", "restore"),
    ),
    Planted(
        "a decayed file is not noticed",
        "formats/seal.py",
        "    return None if zlib.crc32(memoryview(main)[:size]) == expected and len(main) >= size else Unlike(size, expected)",
        "    return None",
        ("tests/store/test_decay.py",),
    ),
    Planted(
        "an append blesses what decayed before it",
        "formats/sidecar_file.py",
        "        before=whole,\n        after=None if whole is None else zlib.crc32(data, whole),\n",
        "",
        ("tests/store/test_decay.py",),
    ),
    Planted(
        "a deletion does not wait for a backup",
        "store/moves.py",
        "        while self._stopped:\n            await self._free.wait()\n        self._under_way += 1\n",
        "        self._under_way += 1\n",
        ("tests/test_backup.py", "-k", "deletions_wait"),
    ),
    Planted(
        "a backup gets its name before it is synced",
        "store/copying.py",
        "        for folder in sorted(self._folders, reverse=True):\n            self._fs.sync_dir(folder)\n",
        "",
        ("tests/test_backup.py", "-k", "power_failure"),
    ),
    # Clients
    Planted(
        "expectedSeq is ignored",
        "service/planning.py",
        "        if seq is not None and seq != self.seq:\n",
        "        if False:\n",
        ("tests/service/test_sessions.py", "-k", "expected_seq"),
    ),
    Planted(
        "a duplicate id is appended twice",
        "service/planning.py",
        "            kept = None if message_id is None else fresh.get(message_id) or self._message(message_id)\n",
        "            kept = None\n",
        ("tests/service/test_sessions.py", "-k", "retry"),
    ),
    Planted(
        "published before it is durable",
        "service/room.py",
        "            await self.store.commit(self.session, draft.changes)\n",
        "            self.audience.changed(draft.seq, self.wires(draft.changes), None)\n"
        "            await self.store.commit(self.session, draft.changes)\n",
        ("tests/service/test_sessions.py", "-k", "durable"),
    ),
    Planted(
        "a slow client is not told what it missed",
        "service/live.py",
        "        if not one.peer.notify(method, params):\n            one.lagging = True\n",
        "        one.peer.notify(method, params)\n",
        ("tests/service/test_sessions.py", "-k", "slow_reader"),
    ),
    Planted(
        "the author is told of his own change",
        "service/live.py",
        "            if (origin is not None and one.peer.id == origin.id) or seq <= one.since:\n",
        "            if seq <= one.since:\n",
        ("tests/service/test_sessions.py", "-k", "append_is_told"),
    ),
    Planted(
        "a truncated message is still in the index",
        "service/catalog.py",
        "                self.index.drop_after(wire_id, one.drop_after)\n",
        "                pass\n",
        ("tests/service/test_catalog_cuts.py",),
    ),
    # Doors
    Planted(
        "Content-Length is not bounded",
        "transports/framing.py",
        "            return self._too_long(length) or (length, usual.end() - self._start)\n",
        "            return length, usual.end() - self._start\n",
        ("tests/transports/test_framing.py", "-k", "limit"),
    ),
    Planted(
        "any text that int() takes is a length",
        "transports/framing.py",
        "        if not field[2].isdigit():\n",
        "        if False:\n",
        ("tests/transports/test_framing.py", "-k", "digits"),
    ),
    Planted(
        "the token is not compared",
        "rpc/server.py",
        "        return hmac.compare_digest(token.encode(), self._token.encode())",
        "        return True",
        ("tests/rpc/test_errors_on_the_wire.py", "-k", "unauthorized"),
    ),
    Planted(
        "Origin is not looked at",
        "transports/ws_http.py",
        "        if origins and not (len(origins) == 1 and self._may_ask(origins[0].lower(), host)):\n",
        "        if False:\n",
        ("tests/transports/test_ws_transport.py", "-k", "origins"),
    ),
    Planted(
        "Host is not looked at",
        "transports/ws_http.py",
        "        if not (_is_loopback(_name_of(host)) or host in self._hosts or _name_of(host) in self._hosts):\n",
        "        if False:\n",
        ("tests/transports/test_ws_transport.py", "-k", "hosts"),
    ),
    Planted(
        "another user's process is let in",
        "transports/unix.py",
        "        return peer_uid(sock) == os.getuid()\n",
        "        return True\n",
        ("tests/transports/test_listeners.py", "-k", "other_user"),
    ),
    Planted(
        "the socket is unlinked and then bound",
        "transports/unix.py",
        "        sock.bind(temporary)\n        try:\n            os.chmod(temporary, 0o600)\n            sock.listen(BACKLOG)\n            os.rename(temporary, path)\n",
        "        with contextlib.suppress(OSError):\n            os.unlink(path)\n        sock.bind(path)\n        try:\n"
        "            os.chmod(path, 0o600)\n            sock.listen(BACKLOG)\n",
        ("tests/transports/test_listeners.py", "-k", "never_gone"),
    ),
    Planted(
        "what was said is written to the log",
        "service/sessions.py",
        "        checked = self._check_messages(messages)\n        room = await self.rooms.get(session_id, whole=False)\n",
        "        checked = self._check_messages(messages)\n        __import__('logging').getLogger('sessiond').warning('%s', messages)\n"
        "        room = await self.rooms.get(session_id, whole=False)\n",
        ("tests/test_daemon.py", "-k", "log_holds_no_words"),
    ),
    Planted(
        "depth is not bounded",
        "rpc/envelope.py",
        '    if message.count(b"{") + message.count(b"[") > MAX_JSON_DEPTH and depth(message) > MAX_JSON_DEPTH:\n',
        "    if False:\n",
        ("tests/rpc/test_envelope.py", "tests/rpc/test_errors_on_the_wire.py"),
    ),
    Planted(
        "a second name of a file outlives its session",
        "store/files.py",
        "            self._leftovers.setdefault(write.path, []).append(displaced)\n            if self.fs.stat(fresh) is not None:\n",
        "            if self.fs.stat(fresh) is not None:\n",
        ("tests/store/test_edges.py", "-k", "rename_that_failed"),
    ),
    Planted(
        "the journal forgets what a failed sync left in doubt",
        "store/sync.py",
        "        if not self.doubtful:\n",
        "        if True:\n",
        ("tests/store/test_edges.py", "-k", "in_doubt"),
    ),
    # Glances
    Planted(
        "a save does not wait until the whole file was read",
        "store/sync.py",
        "            if tracked.dirty and session.absent:  # nothing is written before all that is there was read\n",
        "            if False:\n",
        ("tests/store/test_glance.py", "-k", "save_comes_after"),
    ),
    Planted(
        "a glance believes a file of any length",
        "formats/glance.py",
        '    if size != intent.size + intent.length or not end.endswith(b"\\n"):\n',
        '    if not end.endswith(b"\\n"):\n',
        ("tests/store/test_glance.py", "-k", "in_doubt"),
    ),
    Planted(
        "what a glance showed is not compared with the whole",
        "store/sync.py",
        "            if unseen and sound and len(pending) == len(tracked.pending) and old.agrees(decoded.session):\n",
        "            if unseen and sound and len(pending) == len(tracked.pending):\n",
        ("tests/store/test_glance.py", "-k", "lies"),
    ),
    Planted(
        "damage that the whole shows is kept quiet after a glance",
        "store/sync.py",
        "            sound = decoded.unlike is None and not (decoded.problems or decoded.renumbered or decoded.incomplete)\n",
        "            sound = True\n",
        ("tests/store/test_glance.py", "-k", "damage"),
    ),
    Planted(
        "a message that is missing between those of a glance is passed over",
        "formats/glance.py",
        "        if seq not in found:\n            break\n",
        "        if seq not in found:\n            continue\n",
        ("tests/store/test_glance.py", "-k", "between"),
    ),
    Planted(
        "an id that is in the file is taken for a new one",
        "store/glances.py",
        "    if lacking:\n",
        "    if True:\n",
        ("tests/store/test_glance.py", "-k", "looked_for"),
    ),
    Planted(
        "what a failed sync left in the page cache is trusted after a kill",
        "store/sync.py",
        "            await self._write_anew(tracked, snapshot)\n",
        "            pass\n",
        ("tests/store/test_edges.py", "-k", "written_anew"),
    ),
    # Finding
    Planted(
        "a cursor is off by one",
        "index/catalogue.py",
        '        conditions.add(f"({keys}.{column}, s.no) {beyond} (?, ?)", after.key, after.no)\n',
        '        conditions.add(f"({keys}.{column}, s.no) {beyond}= (?, ?)", after.key, after.no)\n',
        ("tests/index/test_index_cursors.py",),
    ),
]
