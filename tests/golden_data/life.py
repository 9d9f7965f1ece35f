"""The small life in a golden data folder, and what a daemon reports about such a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.home import Client

ROOT_WORD = "@ROOT@"
"""Stands in a golden folder for the place where it lies."""
STORES = {"org": "amacs", "agents": "cortex", "lisp": "agent-q", "theia": "theia", "sibyl": "sibyl", "lines": "jsonl"}
IDS = {"org": "agent-chat", "agents": "helper", "lisp": "session-20260111-143022", "theia": "pr-12", "sibyl": "session-20260111-143022", "lines": "notes"}  # fmt: skip
CONFIG = "[autosave]\ninterval_s = 0\nidle_s = 0\n\n[limits]\ntrash_days = 36500\n"
"""Nothing is saved by itself and the trash is kept: the folder remains what it was made."""


def config() -> str:
    stores = "".join(
        f'\n[stores.{name}]\npath = "{ROOT_WORD}/stores/{name}"\nformat = "{fmt}"\n' for name, fmt in STORES.items()
    )
    return CONFIG + stores


def place(folder: Path) -> None:
    """Make a golden folder, which is in `folder` now, one of that place."""
    for path in (folder / "config" / "config.toml", *(folder / "data" / "mounts").glob("*.json")):
        path.write_text(path.read_text().replace(ROOT_WORD, str(folder)))


def displace(folder: Path) -> None:
    """The reverse."""
    for path in (folder / "config" / "config.toml", *(folder / "data" / "mounts").glob("*.json")):
        path.write_text(path.read_text().replace(str(folder), ROOT_WORD))


def said(name: str, number: int, role: str = "user", **more: Any) -> dict[str, Any]:
    return {
        "id": f"{name}-{number}",
        "role": role,
        "content": f"{name} says {number}: λ, 直して, \U0001f600",
        "timestamp": f"2026-01-11T14:30:{number:02d}.000Z",
        **more,
    }


def live(client: Client) -> None:
    """In every store: what is saved, and then what only the journal has. Besides, the trash and a reply that was cut off."""
    wire_ids = ["plain", *(f"{store}/{local}" for store, local in IDS.items())]
    for wire_id in wire_ids:
        store, _, local = wire_id.rpartition("/")
        made = {"store": store} if store else {}
        client.call("session/new", sessionId=local, name=f"Name of {local}", tags=["kept"], **made)
        call = {"id": "c1", "name": "grep", "arguments": {"pattern": "x"}}
        turns = [said(local, 1), said(local, 2, "assistant", toolCalls=[call]), said(local, 3, "tool", toolCallId="c1")]
        client.call("session/append", sessionId=wire_id, messages=turns)
        client.call("state/set", sessionId=wire_id, values={"plan": {"steps": [1, 2]}, "on": True})
        client.call("note/append", sessionId=wire_id, heading="Heading", content="a note", id=f"{local}-n")
    for name in ("deleted", "cleared", "shortened"):
        client.call("session/new", sessionId=name, messages=[said(name, 1), said(name, 2)])
    client.call("session/save")
    client.call("session/delete", sessionId="deleted")
    client.call("session/clear", sessionId="cleared")
    client.call("session/truncate", sessionId="shortened", afterSeq=1)
    for wire_id in wire_ids:
        local = wire_id.rpartition("/")[2]
        client.call("session/append", sessionId=wire_id, messages=[said(local, 4)])
        client.call("session/update", sessionId=wire_id, summary="only in the journal", archived=wire_id == "plain")
    client.call(
        "session/new",
        sessionId="unsaved",
        messages=[{"id": "r", "role": "assistant", "content": "half a ", "status": "streaming"}],
    )
    client.call("session/extend", sessionId="unsaved", messageId="r", text="reply")


_INFO = (
    "sessionId",
    "name",
    "tags",
    "archived",
    "summary",
    "messageCount",
    "seq",
    "store",
    "format",
    "createdAt",
    "parent",
)


def listing(client: Client) -> dict[str, Any]:
    """All that a daemon says of its sessions, less what depends on the place and the hour."""
    client.call("session/search", query="nothing")  # the index has looked at everything
    infos = []
    for wanted in ({}, {"archived": True}, {"deleted": True}):
        page = client.call("session/list", limit=1000, filter=wanted)
        infos += [
            {**{key: info[key] for key in _INFO}, "list": next(iter(wanted), "usual")} for info in page["sessions"]
        ]
    infos.sort(key=lambda info: (info["list"], info["sessionId"]))
    opened = {}
    for info in infos:
        if info["list"] != "deleted":
            found = client.call("session/open", sessionId=info["sessionId"], last=1000)
            # Opening it ends a reply that was cut off.
            info.update({key: found["session"][key] for key in _INFO})
            opened[info["sessionId"]] = {
                "messages": found["messages"],
                "notes": found["notes"],
                "state": found["state"],
                "warnings": len(found["warnings"]),
            }
    return {"sessions": infos, "opened": opened}
