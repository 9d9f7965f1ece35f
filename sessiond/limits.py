"""Every bound in one place, each with its unit. `config.toml` may change those in `Limits`.

A queue, message, file or wait without a limit here is a mistake.
"""

from __future__ import annotations

import msgspec

KIB = 1024
MIB = 1024 * KIB

MAX_JSON_DEPTH = 100
MAX_SEXP_DEPTH = 1000
MAX_SEXP_NODES = 4_000_000
"""Nodes in one S-expression. A message has about 20."""
INT64_MIN = -(2**63)
UINT64_MAX = 2**64 - 1
MAX_HEADER_LINES = 64
"""Fields before one message. The base protocol has two; each costs more than its bytes."""
SAVES_AT_A_TIME = 16
"""Saves of small sessions. Each waits for the disk four times, and one sync of the disk serves all that wait; more
saves at a time would not make more files durable in a second.
"""
SAVING_THREADS = 6
"""Fewer than saves at a time, so that a thread that has saved one finds the next and need not be woken. Each thread that runs
makes every other one wait for the interpreter: with 16 of them a list took four times as long.
"""
FOREIGN_THREADS = 6
"""For reading on disks that are not ours, for each group in `fs/asynchronous.py`, such as one adopted store."""
IMPORT_THREADS, IMPORT_PLACES_AT_ONCE = 4, 32
"""For each folder that clients import from, and for how many folders at once; further ones share `FOREIGN_THREADS`."""
STUCK_S = 30.0
"""A disk that is not ours, from which nothing has come back for so long, takes no more than so many callers; further ones
get `unavailable` at once.
"""
WAITING_CALLS = 256
STORE_PATIENCE_S = 2.0
"""How long a start, or an adoption, waits for the folder of a store. It goes on without: the store is `unavailable` until
its disk answers.
"""
LARGE_SAVES_AT_A_TIME = 4
"""Saves of sessions with `LARGE_SAVE_BYTES` or more in memory, which cost memory and time rather than syncs."""
LARGE_SAVE_BYTES = 256 * KIB
LEAVING_AT_A_TIME = 16
"""Sessions that a connection leaves at once after its end."""
MESSAGES_AT_A_TIME = 32
"""Messages of one connection in a turn of the loop. A client that sends hundreds at once does not keep others waiting for all of them."""
ACP_LINE_BYTES = 64 * MIB
"""A message between an editor and an agent that is longer is passed on, and not recorded. What is held while it
passes has its limits in `acp/bounds.py`, which an editor waits for less than for this file."""
ACP_CONTEXT_CHARS = 100_000
"""What an agent is told of an earlier conversation; of a longer one, the oldest messages are left out."""
ACP_THOUGHT_CHARS = 4 * MIB
"""How much an agent's thoughts may hold in one message; more is left out."""
ACP_PRINTED_CHARS = 4 * MIB
"""How much a command's output may hold that an agent tells piece by piece; more is left out."""
MAX_SOCKET_PATH_BYTES = 107
"""The size of `sun_path` on Linux, without its NUL. macOS has 103; `endpoint.py` uses that there."""
COPY_BYTES = 64 * MIB
"""The most of a copy of a session for another tool (`sessiond resume`), which the command writes itself."""
HUB_PAGE_BYTES = 4 * MIB
"""About this much of a session's operations is fetched from a hub at a time."""
HUB_HEADS = 500
"""Sessions on a page of what has changed on a hub."""
HUB_LISTING_BYTES = 2048
"""What a hub keeps of a session for lists, compressed."""
HUB_PULLS_AT_A_TIME = 4
HUB_MIRRORS_AT_A_TIME = 2
"""Of these, how many may fetch what nobody asked for."""
HUB_MIRROR_PAGE_BYTES = MIB // 16
"""About this much of such a session is fetched at a time: less than that of others, because they may come in between."""
HUB_LOOK_S = 15.0
"""How often the list of changed sessions is read although no hint came."""
HUB_CONNECTIONS = 6
"""From one daemon to the hub of one store, besides the one that listens."""
HUB_PUSHES_AT_A_TIME = 2
"""Transactions of one daemon that are under way on a hub. Pushes that come meanwhile share the next one."""
HUB_PUSH_BYTES = 8 * MIB
HUB_PUSH_OPERATIONS = 2000
"""A transaction takes more pushes until it has this much."""
HUB_BODY_BYTES = 96 * MIB
"""One operation, before it is compressed and after; a field in PostgreSQL has at most 1 GiB."""
HUB_WAITING_PUSHES = 10_000
HUB_PAUSE_S = 0.25
"""Between two looks at a session that another machine changes, unless a client has it open here."""
HUB_GATHER_S = 0.1
"""How long text of a streamed message is gathered before it goes to a hub as one operation."""
HUB_GATHER_CHARS = 65_536
"""So much of it goes at once."""
HUB_CONNECT_S = 5.0
HUB_ANSWER_S = 20.0
"""A hub that takes longer for one answer counts as lost."""
HUB_HEARTBEAT_S = 10.0
HUB_POLL_S = 0.25
"""How often changes are asked for where the hub cannot tell of them."""
HUB_NEWS_S = 1.0
"""How often clients are told at most how many changes wait for a hub; that it is lost or back they are told at once."""
HUB_RETRY_S = (0.1, 5.0)
"""The first and the longest pause before a lost hub is tried again."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The limits that `daemon/status` shows as `limits`. Units are in the names."""

    message_bytes: int = 64 * MIB
    """A message of the protocol may have this size; a client that sends a longer one is disconnected."""
    unauthenticated_message_bytes: int = 64 * KIB
    """The same for a client that has not shown the token yet."""
    header_bytes: int = 8 * KIB
    """The header of one message on a socket or on standard input may have this size."""
    http_header_bytes: int = 32 * KIB
    """Request line and headers of a WebSocket handshake or of a request for the page; cookies of other local pages are
    included.
    """
    first_message_s: float = 10.0
    """A connection whose first message takes longer is closed."""
    connections: int = 1024
    """Clients at the same time; further ones are turned away."""
    in_flight_requests: int = 256
    """Unanswered requests of one connection; beyond this its socket is not read until some are answered."""
    batch_requests: int = 1000
    """Requests that one JSON-RPC batch may hold."""
    outgoing_bytes: int = 4 * MIB
    """How much may wait for one slow reader before its notifications are dropped and it is told to resync."""
    linger_s: float = 2.0
    """After a fatal error the answer is sent and input is discarded for this long, so that a reset does not overtake the
    answer.
    """
    close_s: float = 30.0
    """A connection that ends may go on reading its last answers if it reads something within each such period."""
    ping_s: float = 20.0
    """A WebSocket peer is pinged this often; one that sends nothing at all between two pings is gone."""
    page_messages: int = 1000
    """A page of a session has at most this many messages, whatever the client asks for."""
    default_page_messages: int = 200
    """A page of a session has this many messages if the client does not say how many it wants."""
    page_bytes: int = 16 * MIB
    """A page of messages is cut at this size (`hasMore`), well under `message_bytes`."""
    list_page: int = 1000
    """A page of a list or of a search has at most this many entries, whatever the client asks for."""
    default_list_page: int = 50
    """A page of a list or of a search has this many entries if the client does not say how many it wants."""
    append_messages: int = 10_000
    """One append may hold this many messages; one with more is refused."""
    retained_changes: int = 4096
    """Changes kept for each open session, so that `since` can be answered with the changes."""
    name_chars: int = 1000
    """A session's name may have this length."""
    query_bytes: int = 128 * KIB
    """What is searched for may have this size."""
    regex_s: float = 5.0
    """A search for a pattern that takes longer ends as `cancelled`."""
    search_s: float = 10.0
    """A text search or a list that takes longer ends as `cancelled`."""
    held_hits_bytes: int = 16 * MIB
    """Memory for the orders of hits that are kept for cursors; those unused for longest are dropped first, which makes their cursors stale."""
    index_waiting_bytes: int = 16 * MIB
    """How much may wait to be written into the index: more waits for room, or is fed again later if the index's disk is
    full.
    """
    export_bytes: int = 48 * MIB
    """The largest export that is sent in one answer."""
    idle_session_s: float = 60.0
    """A saved session that is not open is dropped from memory after this time."""
    idle_sessions_bytes: int = 16 * MIB
    """How much memory such sessions may use together; beyond this those that were used longest ago are dropped after a second."""
    empty_session_s: float = 600.0
    """A new session without a message is dropped after this time, once no client has it open."""
    hub_patience_s: float = 5.0
    """The hub of a shared store that takes longer for an append counts as lost, and the append waits here."""
    segment_bytes: int = 16 * MIB
    """A file of the journal that would become larger is closed, and the next one begun."""
    segment_step_bytes: int = 256 * KIB
    """How much room such a file takes at once, if the disk has it; 1: it grows with each record."""
    journal_bytes: int = 64 * MIB
    """Above this, sessions are saved so that the journal can be trimmed."""
    record_bytes: int = 80 * MIB
    """A change that is larger is refused, because the journal could not hold it as one record."""
    commit_batch_bytes: int = 8 * MIB
    """About this much of waiting changes is written to the journal with one sync of the disk."""
    reserve_bytes: int = 1 * MIB
    """Room that is kept on the disk, so that when it is full there is room for what was acknowledged."""
    damaged_copies: int = 64
    """Torn ends of the journal that are kept aside; the oldest are removed first."""
    glanced_file_bytes: int = 4 * MIB
    """A native session file of at least this length gets a partial load: its end is read first, the whole file right after."""
    glanced_end_bytes: int = 2 * MIB
    """The length of that end."""
    whole_session_bytes: int = 32 * MIB
    """A session in a native file that takes more memory than this keeps only its newest messages there when nobody reads the others."""
    settle_s: float = 0.5
    """An outside edit is read once size and mtime have not changed for this long."""
    look_around_s: float = 2.0
    """How often to check whether adopted folders are still there, and whether missing ones are back."""
    daemon_idle_exit_s: float = 1800.0
    """What `idle_exit_s` in `[daemon]` sets."""
    shutdown_s: float = 30.0
    """How long a daemon that ends goes on saving; what is not saved by then is in the journal."""
    log_bytes: int = 4 * MIB
    """The log begins a new file at this size."""
    log_files: int = 3
    """Old files of the log that are kept."""
    trash_days: float = 30.0
    """Entries are removed from the trash after this many counted days (time without a daemon counts as a day at most); 0:
    never. Nothing else ever expires.
    """

    @property
    def page_most(self) -> int:
        """Bytes at which a page is cut: well under the largest response, however the limits are set."""
        return min(self.page_bytes, self.message_bytes // 2)


DEFAULT = Limits()
