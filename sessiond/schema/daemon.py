"""`daemon/*` and `store/*`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from sessiond.schema.types import Count, FileWarning, JsonObject, Seq, Wire
from sessiond.store.port import HubStatus, StoreProblem


class HelloResult(Wire):
    """Never changes, so that any later version can recognise any earlier one."""

    protocol_version: int
    version: str
    pid: int
    instance_id: str


class StoreStatus(Wire):
    """One mounted store."""

    name: str
    path: str
    format: str
    sessions: Count
    problem: StoreProblem | None
    hub: HubStatus | UnsetType = UNSET
    """Of a shared store."""


class Address(Wire):
    """The address at which a client that shows the token may connect."""

    host: str
    port: int
    token_file: str


class AgentHostAddress(Wire):
    """A place where windows of VS Code connect: a Unix socket, which takes this user's programs without a token, or a port."""

    write: bool
    """Whether they may write."""
    socket: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    port: int | UnsetType = UNSET
    token_file: str | UnsetType = UNSET


class AgentHostStatus(Wire):
    """The agent host, which shows sessions to windows of VS Code (Agent Host Protocol)."""

    listeners: list[AgentHostAddress]
    problems: list[str]
    """Why the daemon does not listen where `[ahp] listen` in `config.toml` says; it tries again."""
    windows: Count
    """How many are connected."""
    refused: list[str]
    """The versions that the last window offered which was refused; it shows an empty list, and says nothing. Empty: none was."""


class JournalStatus(Wire):
    """The daemon-wide journal."""

    bytes: Count
    lsn: Seq
    held: Count
    """Bytes of what cannot be saved for now. They were moved to `data/held`, so that the journal can be trimmed."""


class Damage(Wire):
    """A part of the journal that was durable once and cannot be read."""

    path: str
    """Where its bytes are kept."""
    records: Count
    """How many records are known to be lost with it. 0: all others could be read."""
    since: str
    """When it was found."""
    reason: str


class ReadOnlyStatus(Wire):
    """The reason why the daemon writes nothing."""

    reason: str
    since: str
    final: bool
    """true: until the daemon is started again. false: the next change tries again."""


class IndexStatus(Wire):
    """The catalogue and the search index."""

    state: Literal["ready", "building", "failing"]
    """`building`: searches may miss something. `failing`: the index cannot be written, and misses what is new."""
    read: Count
    """How many sessions have been read since the last check of the files against the index began, ..."""
    found: Count
    """... of this many that must be; known as soon as all files have been compared, before any is read."""
    problem: str | None
    """Why it is failing; otherwise which sessions have something that cannot be indexed, if any has."""


class SettingStatus(Wire):
    """A setting that is not the default."""

    value: Any
    source: str
    """`flag`, `environment`, or the file's path."""


class ConfigStatus(Wire):
    """The configuration."""

    file: str
    """The configuration file's path, whether it is there or not."""
    values: dict[str, SettingStatus]
    """Settings by name; defaults are left out."""


class StatusResult(Wire):
    """The state of the daemon."""

    version: str
    pid: int
    instance_id: str
    started_at: str
    data_dir: str
    socket: str | None
    tcp: Address | None
    ws: Address | None
    ahp: AgentHostStatus | None
    stores: list[StoreStatus]
    connections: Count
    clients: dict[str, int]
    """The name that a client gave with `initialize` -> how many connections have it."""
    open_sessions: Count
    dirty_sessions: Count
    journal: JournalStatus
    damage: list[Damage]
    """To the journal, until it is acknowledged."""
    read_only: ReadOnlyStatus | None
    index: IndexStatus
    limits: JsonObject
    config: ConfigStatus


class AcknowledgeResult(Wire):
    """The damage that was acknowledged."""

    acknowledged: Count
    """How many entries of `damage` there were."""


class Reindexed(Wire):
    """A session of which something could not be indexed, and was tried again."""

    session_id: str
    problem: str | None
    """Why something of it still cannot be found. Null: all of it is searchable now."""


class ReindexResult(Wire):
    """The sessions that were tried again."""

    sessions: list[Reindexed]


class ListenParams(Wire):
    """The address to listen on."""

    kind: Literal["tcp", "ws", "ahp"]
    """`ahp`: for windows of VS Code, which speak the Agent Host Protocol; see docs/editors/vscode-agent-host.md."""
    host: str | None = None
    """Defaults to loopback."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """0: any free one."""
    write: bool | None = None
    """With `ahp`: windows may write as well. They show another token then."""


class BackupParams(Wire):
    """The place to write the copy to."""

    path: str
    """Absolute, and outside all folders that sessiond manages. It must not exist yet."""
    work_done_token: int | str | None = None
    """`$/progress` notifications carry this token."""


class BackupResult(Wire):
    """A summary of what was copied."""

    files: Count
    bytes: Count
    lsn: Seq
    """The copy has every change that was acknowledged before the journal wrote the record of this number."""
    warnings: list[FileWarning] | UnsetType = UNSET
    """Files that could not be copied, if any."""


class FollowParams(Wire):
    """The tools whose histories to import while they are written: exactly `tools`, or those that are followed already, changed."""

    tools: list[str] | None = None
    """Names of importers, `all`, or `NAME:PATH`, a tool's sessions in another folder or file; empty: none. Null: those that are
    followed already.
    """
    add: list[str] = field(default_factory=list)
    """To follow as well."""
    remove: list[str] = field(default_factory=list)
    """To follow no more. Each must be followed. A tool's name also ends its other places."""


class FollowedPlace(Wire):
    """A folder or file in which a tool keeps its sessions."""

    tool: str
    path: str
    sessions: Count
    """How many were new or have changed since the daemon began to follow it."""
    last_at: str | None
    """When the last of them came."""
    problem: str | None
    """Why it is not watched, why its last file could not be read, or what shows that the tool writes more than is read."""
    waiting: Count = 0
    """Files that were written and are still to be read."""
    waiting_bytes: Count | None = None
    """How much of these files was not read yet; of a database that is read where it is, nothing counts. None if the place does
    not answer at once.
    """
    waiting_seconds: float = 0.0
    """For how long the first of them has waited."""
    reading_seconds: float = 0.0
    """How long reading has taken since the daemon began to follow the place."""
    asked: bool = False
    """Whether it is followed only for a client, by `session/follow`, and as long as that stays."""


class FollowResult(Wire):
    """Everything that is followed. The tools are kept in the configuration."""

    tools: list[str]
    places: list[FollowedPlace]
    """Those that exist."""
    behind: Count
    """Files that were written while nobody followed them, and that are still to be read."""


class AdoptParams(Wire):
    """A folder of one of the supported systems."""

    path: str
    name: str | None = None
    """The store's name."""
    format: str | None = None
    """Detected if absent."""


class AdoptResult(Wire):
    """The new store. It takes effect at once."""

    store: StoreStatus
    sessions: Count
    """How many are in it."""
    warnings: list[FileWarning]
