"""`daemon/*` and `store/*`."""

from __future__ import annotations

from sessiond.rpc.methods import Call, method
from sessiond.schema import daemon as d
from sessiond.schema.types import Nothing


@method("daemon/hello", Nothing, d.HelloResult, order="free")
async def hello(call: Call, params: Nothing) -> d.HelloResult:
    """Identify the daemon. This method never changes."""
    return call.daemon.hello()


@method("daemon/stop", Nothing, Nothing, order="free")
async def stop(call: Call, params: Nothing) -> Nothing:
    """Save everything and stop the daemon. This method never changes."""
    call.daemon.stop()
    return Nothing()


@method("daemon/status", Nothing, d.StatusResult, order="free")
async def status(call: Call, params: Nothing) -> d.StatusResult:
    """Report what the daemon is doing, where, and any problems."""
    return await call.daemon.status()


@method("daemon/acknowledge", Nothing, d.AcknowledgeResult, "readOnly", order="free")
async def acknowledge(call: Call, params: Nothing) -> d.AcknowledgeResult:
    """Acknowledge all `damage` in the status. The daemon stops reporting it."""
    return d.AcknowledgeResult(acknowledged=await call.daemon.acknowledge())


@method("daemon/reindex", Nothing, d.ReindexResult, order="free")
async def reindex(call: Call, params: Nothing) -> d.ReindexResult:
    """Try again what could not be indexed: the sessions that `index.problem` in the status names, and the others like them."""
    tried = await call.service.reindex()
    return d.ReindexResult(sessions=[d.Reindexed(session_id=one, problem=why) for one, why in tried.items()])


@method("daemon/listen", d.ListenParams, d.Address, "alreadyExists", "unavailable", outlives=False, order="free")
async def listen(call: Call, params: d.ListenParams) -> d.Address:
    """Listen on TCP or WebSocket while the requesting connection is open."""
    return await call.daemon.listen(call.peer, params.kind, params.host, params.port, write=bool(params.write))


@method("daemon/backup", d.BackupParams, d.BackupResult, "alreadyExists", "readOnly", outlives=False, order="after")
async def backup(call: Call, params: d.BackupParams) -> d.BackupResult:
    """Make a consistent copy of everything in a new folder, while the daemon keeps working."""
    progress = None if params.work_done_token is None else call.progress(params.work_done_token, "Copying")
    try:
        return await call.daemon.backup(params.path, None if progress is None else progress.report)
    finally:
        if progress is not None:
            progress.end("")


@method("daemon/follow", d.FollowParams, d.FollowResult, "readOnly", outlives=False, order="after")
async def follow(call: Call, params: d.FollowParams) -> d.FollowResult:
    """Import what other tools write while they write it, now and from every start on. Without parameters, only report."""
    return await call.daemon.follow(params)


@method("store/adopt", d.AdoptParams, d.AdoptResult, "alreadyExists", "badFile", "unavailable", order="barrier")
async def adopt(call: Call, params: d.AdoptParams) -> d.AdoptResult:
    """Mount a folder with another system's sessions. It is added to the configuration and takes effect at once."""
    return await call.service.adopt(params.path, params.name, params.format)
