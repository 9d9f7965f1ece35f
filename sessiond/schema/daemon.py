"""`daemon/*` and `store/*`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from sessiond.schema.types import Count, FileWarning, JsonObject, Seq, Wire
from sessiond.store.port import StoreProblem


class HelloResult(Wire):
    """Frozen for ever, so that any later version can recognise any earlier one."""

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


class Address(Wire):
    """Where a client that shows the token may connect."""

    host: str
    port: int
    token_file: str


class JournalStatus(Wire):
    """The daemon-wide journal."""

    bytes: Count
    lsn: Seq
    held: Count
    """Bytes of what cannot be saved for now and was moved out of its way, into `data/held`."""


class Damage(Wire):
    """A stretch of the journal that was durable once and could not be read."""

    path: str
    """Where its bytes are kept."""
    records: Count
    """How many records are known to be lost with it. 0: none, all others could be read."""
    since: str
    """When it was found."""
    reason: str


class ReadOnlyStatus(Wire):
    """Why nothing is written."""

    reason: str
    since: str
    final: bool
    """true: until the daemon is started again. false: the next change tries again."""


class IndexStatus(Wire):
    """The catalogue and the search index."""

    state: Literal["ready", "building", "failing"]
    """`building`: searches may miss something. `failing`: the index cannot be written, and misses what is new."""
    read: Count
    """Sessions that were read again since the last check of the files against the index began, ..."""
    found: Count
    """... of so many that have to be; known as soon as all files were compared, before any is read."""
    problem: str | None
    """Why it is failing."""


class SettingStatus(Wire):
    """A setting that somebody made."""

    value: Any
    source: str
    """`flag`, `environment`, or the file's path."""


class ConfigStatus(Wire):
    """What is configured."""

    file: str
    """The configuration file's path, whether it is there or not."""
    values: dict[str, SettingStatus]
    """By name; settings with their default are left out."""


class StatusResult(Wire):
    """How the daemon is."""

    version: str
    pid: int
    instance_id: str
    started_at: str
    data_dir: str
    socket: str | None
    tcp: Address | None
    ws: Address | None
    stores: list[StoreStatus]
    connections: Count
    open_sessions: Count
    dirty_sessions: Count
    journal: JournalStatus
    damage: list[Damage]
    """Of the journal, as long as nobody has acknowledged it."""
    read_only: ReadOnlyStatus | None
    index: IndexStatus
    limits: JsonObject
    config: ConfigStatus


class AcknowledgeResult(Wire):
    """What was acknowledged."""

    acknowledged: Count
    """How many entries of `damage` there were."""


class ListenParams(Wire):
    """What to listen on."""

    kind: Literal["tcp", "ws"]
    host: str | None = None
    """Loopback if absent."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """0: any free one."""


class BackupParams(Wire):
    """Where to."""

    path: str
    """Absolute, outside all folders that sessiond looks after. Nothing is there yet."""
    work_done_token: int | str | None = None
    """`$/progress` is sent with it."""


class BackupResult(Wire):
    """What was copied."""

    files: Count
    bytes: Count
    lsn: Seq
    """Every change that was answered before the journal's record of this number was written is in the copy."""
    warnings: list[FileWarning] | UnsetType = UNSET
    """What could not be copied, where there is any."""


class AdoptParams(Wire):
    """A folder of one of the source systems."""

    path: str
    name: str | None = None
    """The store's name."""
    format: str | None = None
    """Recognised if absent."""


class AdoptResult(Wire):
    """The store, which takes effect at once."""

    store: StoreStatus
    sessions: Count
    """How many are in it."""
    warnings: list[FileWarning]
