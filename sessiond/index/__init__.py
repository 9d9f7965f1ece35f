"""The catalogue of all sessions and the full-text index over them: one SQLite file in the cache folder.

Derived from the sessions, versioned, and disposable: it may be deleted or damaged at any time, and is then filled again
from the stores. The public class is `sessiond.index.index.Index`. This package's `__init__` imports nothing, because the
regex worker (`regex_worker.py`) runs in a bare interpreter and shares the pure modules with the daemon.

    text       the searchable texts of a message        (pure)
    tokens     text -> words, parts and characters      (pure)
    query      what people type -> a query              (pure)
    match      where a query matches in a text          (pure)
    snippets   which piece of a text is shown           (pure)
    chunks     texts <-> stored bytes                   (pure)
    filters    filters of a request -> SQL conditions   (pure)
    functions  what these may call, for each connection
    cursors    opaque cursors and the pages they hold
    schema     the file: creating, checking, replacing it
    prepared   messages -> everything that is written for them  (pure)
    narrowing  which words a regular expression needs           (pure)
    sieve      which bytes may match a regular expression       (pure)
    vocabulary     which words there are, and which have a part (pure);  vocabulary_builder: has them read (vocabulary_worker)
    scanning       searches chunks of texts for a pattern       (pure)
    preparer   prepares, in a process while there is much (preparing_worker)
    feed_queue     steps that wait to be written;  writer: the writing thread;  batch: one of its transactions;
                   documents, sessions: its tables
    checkpointer   copies committed data from the log into the file
    readers        the reading threads
    session_list   session/list
    search, ranking    mode text;  plan: its SQL;  hits: what is shown
    regex      mode regex, in processes that can be killed (regex_processes, regex_worker)
    semantic   mode semantic, which asks semantic_worker: a process with the model (embedding), the passages and the vectors
"""
