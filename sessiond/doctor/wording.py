"""The problems of the daemon's parts in words, the same ones in `doctor`, in `status` and below the results of a search."""

from __future__ import annotations

from sessiond.client.daemon_types import IndexStatus, StoreStatus
from sessiond.words import count


def problem_of(store: StoreStatus) -> str | None:
    """Say why a store cannot be read or written; None if it can."""
    return None if store.problem is None else store.problem.message or store.problem.kind


def index_problem(index: IndexStatus) -> str | None:
    """Say why searches may not find everything; None if they do."""
    if index.state == "failing":
        return f"the index cannot be written ({index.problem}): new messages may be missing"
    if index.state == "building":
        read = f" ({index.read:,} of {count(index.found, 'session')} read)" if index.found else ""
        return f"the index is still being built{read}, so there may be more"
    return None


def unpromised_in_words(path: str, kind: str) -> str:
    return f"{path} is on {kind}: nothing is promised about network file systems and FUSE"
