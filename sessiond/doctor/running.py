"""The findings about a daemon that runs: what it says of itself, and what it cannot follow."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond import program
from sessiond.client import requests
from sessiond.client.daemon_types import Status
from sessiond.doctor.finding import Ask, Finding
from sessiond.doctor.journal import lost
from sessiond.doctor.wording import index_problem, problem_of
from sessiond.endpoint import Places, read_endpoint
from sessiond.errors import SessiondError
from sessiond.journal import Loss


def examine_daemon(where: Places, status: Status | None) -> Iterator[Finding]:
    """Yield what a running daemon reports about itself, or say that none is running."""
    if status is None:
        record = read_endpoint(where.data)
        yield Finding("no daemon is running" + (f" (the last one had pid {record.pid})" if record else ""))
        return
    yield Finding(f"daemon version {status.version}, pid {status.pid}, at {status.socket}")
    if program.is_newer_than(status.started_at):
        yield Finding("daemon", program.UPDATED, program.WHAT_TO_DO)
    if status.read_only is not None:
        hint = "repair the disk, then run `sessiond stop`; the next client starts the daemon again"
        if not status.read_only.final:
            hint = "free some disk space; writing resumes by itself"
        yield Finding("journal", f"read-only: {status.read_only.reason}", hint)
    for damage in status.damage:
        yield lost(Loss(damage.path, damage.records, damage.reason, damage.since))
    for store in status.stores:
        problem = problem_of(store)
        if problem is not None:
            yield Finding(f"store {store.name}", problem, f"check {store.path}")
        # One that is away says so in the status, and comes back by itself.
        if store.hub is not None and store.hub.state == "online" and store.hub.problem is not None:
            hint = f"what is here is safe; `sessiond store status {store.name}` says more"
            yield Finding(f"hub of the store {store.name}", store.hub.problem, hint)
    if status.index.state == "failing":
        hint = f"free disk space for {where.cache}, or make it writable; indexing then resumes by itself"
        yield Finding("search index", index_problem(status.index), hint)
    elif status.index.problem is not None:
        hint = f"the rest is found; {where.log} says why, and `sessiond doctor --repair` tries it again"
        yield Finding("search index", status.index.problem, hint)


def examine_followed(ask: Ask) -> Iterator[Finding]:
    """Yield what the daemon cannot follow now."""
    try:
        answer = ask(requests.follow(None))
    except (SessiondError, OSError) as error:  # an older daemon, for example, follows nothing
        yield Finding(f"note: what the daemon follows is not known ({error})")
        return
    for place in answer.value.places if answer is not None else ():
        if place.problem is not None:
            yield Finding(f"following {place.tool}", place.problem, "it is tried again by itself")
