"""Lives in hostile surroundings: an adversary renames, unmounts, swaps, links, empties, replaces, closes, fills and truncates what
is around a running daemon, and repairs most of it.

Theory of operation
-------------------
There is no model of the daemon. A life keeps a ledger of words. Each message is one unique word, so it can be found in any
file of any format. In the end everything is repaired and saved, the daemon starts again, and then:

- every acknowledged word is in a session, or in the trash (in any file there, also copies of damaged files);
- no word is twice in one session;
- no other file is changed: neither the targets of links, nor the other store that was mounted in between;
- the daemon never ended by itself, answered each request, and has no traceback in its log;
- `doctor` ends, and says what to do about each problem. What cannot be read is moved away, as it says, and `--repair` sets damaged
  sidecars aside.

Whose loss it is. Whoever destroys a file destroys words. The daemon must keep them

- while they are not saved: the journal has them, whatever happens to the file;
- while the session is in memory, from the first request for it after the harm on: what is lost is in the trash.

They are the adversary's own loss if they were only in the file and no daemon could know: no daemon ran, or it did not have the
session in memory, or it ended (kill -9 or a stop) between the harm and the first request for the session. A word that is put back
with its file is the daemon's again. What others write into a session's file is the daemon's from the moment when it could read it.

So it must be known what was in a file when it was removed. The daemon is stopped (SIGSTOP) while harm is done, at whatever step of
its work it is, and continues when the harm is done. One connection, the keeper, has all sessions open, so it is known which are in
memory.

A write that has begun when a folder is moved ends in that folder, wherever it is by then: neither in the mount point that is left,
nor on the disk that is there now.

An id that has no place in its format is in the sidecar. If that is destroyed, neither a client's retry nor a save that was cut short
by a crash is recognised: such words may be there twice.

Also permitted: a store reports a failed save until another one works; the user's own link to a regular file, in the place of a
session's file, is followed.

`plan.py` draws a life from a seed, `ground.py` makes its folders (real mounts where possible), `harm.py` is the adversary,
`clients.py` the clients, `ledger.py` the words, `run.py` the life. `python -m tests.hostile --life SEED --times N` repeats one.
"""
