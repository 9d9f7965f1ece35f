"""The process that reads which words there are: it takes seconds for a million messages, and would hold the daemon's
interpreter. Started and ended by `vocabulary_builder.py`; a bare interpreter (`-I -S`).

    arguments   the index file as in a URI, the folder of the compression library
    output      a frame of `sessiond.pipes` for each row of the table `vocabulary`, then an empty one, then one with the newest
                chunk whose words are among them
"""

from __future__ import annotations

import os
import sqlite3
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sessiond.index.vocabulary import packed
from sessiond.pipes import write_frame

_NICE = 19


def main() -> None:
    os.nice(_NICE)
    path, library = sys.argv[1:]
    sys.path.append(library)
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5.0, isolation_level=None)
    db.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, fts, row)")
    db.execute("BEGIN")
    [last] = db.execute("SELECT value - 1 FROM meta WHERE key = 'next_chunk'").fetchone()
    for row in packed(word for (word,) in db.execute("SELECT CAST(term AS BLOB) FROM temp.words")):
        write_frame(sys.stdout.buffer, row)
    write_frame(sys.stdout.buffer, b"")
    write_frame(sys.stdout.buffer, str(last).encode())


if __name__ == "__main__":
    main()
