"""Lives in hostile surroundings: somebody renames, unmounts, swaps, links, empties, replaces, closes, fills and truncates what lies
around a running daemon, and puts most of it right again.

Theory of operation
-------------------
There is no model of the daemon. A life keeps a ledger of words. Each message is one word that occurs nowhere else, so it can be found
in any file of any format. In the end everything is put right, all is saved, the daemon starts once more, and then:

- every acknowledged word is in a session, or in the trash (whatever lies there, also copies of damaged files);
- no word is twice in one session;
- no file is changed that is not the daemon's business: what links lead to, the other store that was mounted in between;
- the daemon never ended by itself, answered each request, and has no stack in its log;
- `doctor` ends, and says of each thing what to do. What cannot be read is moved away, as it says, and `--repair` puts aside what stands
  damaged beside a file.

Whose loss it is. Somebody who destroys a file destroys words. They are the daemon's to keep

- while they are not saved: the journal has them, whatever happens to the file;
- while the session is in memory, from the moment on in which the daemon was asked for it after the harm: what went is in the trash.

They are somebody's own loss where they stood in the file, were nowhere else, and no daemon could know: none ran, or it had not the
session in memory, or it ended (kill -9 or a stop) between the harm and the first request for the session. A word that is put back with
its file is the daemon's again. What others write into a session's file is the daemon's from the moment on in which it could read it.

So it must be known what stood in a file when it went. The daemon is stopped (SIGSTOP) while harm is done, at whatever step of its work
it was just then, and goes on when the harm is done. One connection, the keeper, has all sessions open, so it is known which are in memory.

A write that has begun when a folder goes ends in that folder, wherever it is by then: not in the mount point that is left, nor on the
disk that is there now.

An id that has no place in its format stands beside the file. Where somebody destroys that, a client that says something again is not
recognised, and a save that was cut short by a crash neither: such words may be there twice.

What is let pass, too: a store tells of a failed save
till another one works; a link of a user's own to a regular file, in the place of a session's file, is followed.

`plan.py` draws a life from a seed, `ground.py` makes its folders (real mounts where they may be made), `harm.py` is the somebody,
`clients.py` those who talk, `ledger.py` the words, `run.py` the life. `python -m tests.hostile --life SEED --times N` lives one again.
"""
