"""The results of `daemon/*`, which a daemon says of itself, read as leniently as the other types."""

from __future__ import annotations

from typing import Any

from msgspec import field

from sessiond.client.types import FileWarning, Value
from sessiond.ready import ready


class Address(Value, frozen=True, kw_only=True):
    """The address where a client that shows the token in `token_file` may connect."""

    host: str
    port: int
    token_file: str = ""


class StoreProblem(Value, frozen=True, kw_only=True):
    """The reason why a store cannot be reached or written. `kind`: `unavailable`, `readOnly`, `saveFailed`, or another word."""

    kind: str = ""
    message: str = ""


class HubStatus(Value, frozen=True, kw_only=True):
    """A shared store's view of its hub. `state`: `online` or `offline`."""

    state: str = ""
    since: str | None = None
    """Since when it is in this state."""
    pending: int = 0
    """Changes that are durable here and not on the hub."""
    lag: int = 0
    """Changes that are on the hub and not here, as far as is known."""
    problem: str | None = None


class StoreStatus(Value, frozen=True, kw_only=True):
    """A store, and how many sessions it has. `problem` is None if it can be read and written."""

    name: str = ""
    path: str = ""
    format: str = ""
    sessions: int = 0
    problem: StoreProblem | None = None
    hub: HubStatus | None = None
    """Of a shared store."""


class JournalStatus(Value, frozen=True, kw_only=True):
    """The daemon's journal."""

    bytes: int = 0
    lsn: int = 0
    held: int = 0
    """Bytes of changes that cannot be saved for now."""


class Damage(Value, frozen=True, kw_only=True):
    """A part of the journal that was durable and cannot be read any more. `path`: where its bytes are kept."""

    path: str = ""
    records: int = 0
    since: str = ""
    reason: str = ""


class ReadOnlyStatus(Value, frozen=True, kw_only=True):
    """The reason why the daemon writes nothing. `final`: until it is started again."""

    reason: str = ""
    since: str = ""
    final: bool = False


class IndexStatus(Value, frozen=True, kw_only=True):
    """The catalogue and the search index. `state`: `ready`, `building` or `failing`. `problem`: why it is failing, or which sessions have
    something that cannot be indexed.
    """

    state: str = "ready"
    read: int = 0
    """How many sessions have been read, ..."""
    found: int = 0
    """... of how many that must be."""
    problem: str | None = None


class SettingStatus(Value, frozen=True, kw_only=True):
    """A setting that is not the default, and where it comes from."""

    value: Any = None
    source: str = ""


class ConfigStatus(Value, frozen=True, kw_only=True):
    """The configuration file, whether it is there or not, and the settings that are not the default."""

    file: str = ""
    values: dict[str, SettingStatus] = field(default_factory=dict)


class AgentHostAddress(Value, frozen=True, kw_only=True):
    """The address where windows of VS Code connect: a Unix socket, or a port."""

    write: bool = False
    """Whether they may write."""
    socket: str | None = None
    host: str | None = None
    port: int | None = None
    token_file: str | None = None


class AgentHostStatus(Value, frozen=True, kw_only=True):
    """The agent host, which shows sessions to windows of VS Code (Agent Host Protocol)."""

    listeners: list[AgentHostAddress] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why the daemon does not listen where `[ahp] listen` in `config.toml` says; it tries again."""
    windows: int = 0
    refused: list[str] = field(default_factory=list)
    """The versions of the last window that was refused."""


class Status(Value, frozen=True, kw_only=True):
    """The state of the daemon."""

    version: str = ""
    pid: int = 0
    instance_id: str = ""
    started_at: str = ""
    data_dir: str = ""
    socket: str | None = None
    tcp: Address | None = None
    ws: Address | None = None
    ahp: AgentHostStatus | None = None
    connections: int = 0
    clients: dict[str, int] = field(default_factory=dict)
    """The name that a client gave -> how many connections have it."""
    open_sessions: int = 0
    dirty_sessions: int = 0
    read_only: ReadOnlyStatus | None = None
    """Set if the disk failed or is full."""
    limits: dict[str, Any] = field(default_factory=dict)
    stores: list[StoreStatus] = field(default_factory=list)
    journal: JournalStatus = JournalStatus()
    damage: list[Damage] = field(default_factory=list)
    """To the journal, until it is acknowledged."""
    index: IndexStatus = IndexStatus()
    config: ConfigStatus = ConfigStatus()


class Hello(Value, frozen=True, kw_only=True):
    """The facts that daemons of all versions say of themselves."""

    protocol_version: int = 0
    version: str = ""
    pid: int = 0
    instance_id: str = ""


class Acknowledged(Value, frozen=True, kw_only=True):
    """The amount of damage to the journal that was acknowledged."""

    acknowledged: int = 0


class ReindexedSession(Value, frozen=True, kw_only=True):
    """A session that was tried again. `problem` None: all of it is searchable now."""

    session_id: str = ""
    problem: str | None = None


class Reindexed(Value, frozen=True, kw_only=True):
    """The sessions of which something could not be indexed, and was tried again."""

    sessions: list[ReindexedSession] = field(default_factory=list)


class Adopted(Value, frozen=True, kw_only=True):
    """A folder of another system that is a store now, and how many sessions it has."""

    store: StoreStatus = StoreStatus()
    sessions: int = 0
    warnings: list[FileWarning] = field(default_factory=list)


class FollowedPlace(Value, frozen=True, kw_only=True):
    """A folder or file in which a tool keeps its sessions. `sessions`: how many came in since it is followed. `waiting`: files that
    are still to be read, `waiting_bytes` (None: the place does not answer) of them; the first has waited for `waiting_seconds`.
    `reading_seconds`: how long reading has taken.
    """

    tool: str = ""
    path: str = ""
    sessions: int = 0
    last_at: str | None = None
    problem: str | None = None
    waiting: int = 0
    waiting_bytes: int | None = None
    waiting_seconds: float = 0.0
    reading_seconds: float = 0.0
    asked: bool = False
    """Whether it is followed only as long as a client that asked for it stays."""


class Followed(Value, frozen=True, kw_only=True):
    """The tools whose histories are imported while they are written. `behind`: files that are still to be read."""

    tools: list[str] = field(default_factory=list)
    places: list[FollowedPlace] = field(default_factory=list)
    behind: int = 0


class BackedUp(Value, frozen=True, kw_only=True):
    """The result of a backup: what it copied. It has every change that was acknowledged before the journal wrote record `lsn`."""

    files: int = 0
    bytes: int = 0
    lsn: int = 0
    warnings: list[FileWarning] = field(default_factory=list)


# Several threads may decode to these.
ready(Acknowledged, Address, Adopted, BackedUp, Followed, Hello, Reindexed, Status)
