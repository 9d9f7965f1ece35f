"""The protocol's own examples: a state, actions, and the state after them. They are those of 0.6.0, which windows offer, and
VS Code's reducers of 0.9.0 make the same of them, but for one. `vectors/LICENSE` is theirs.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent_host.reducers import reduced
from tests.clients import vscodes

_VECTORS = [
    msgspec.json.decode(line)
    for line in Path(__file__).with_name("vectors").joinpath("0.6.0.jsonl").read_bytes().splitlines()
]
_NEVER_SENT = {
    "errors within a turn: since 0.9.0 they are parts of it": ["016"],
    "steering messages": ["008", "039", "040", "041", "042", "052"],
    "calls that wait for a confirmation, or were given one later": ["024", "026", "029", "111", "112", "127"],
    "the server that a call is for, and what it may do harm to": ["163", "241", "242"],
    "a cursor to turns that are not there": ["234"],
}
"""What our actions have no use for: a feature, and the numbers of the vectors that show it."""
_OF_OURS = {
    *("session/titleChanged", "session/isArchivedChanged", "session/activityChanged", "session/chatUpdated"),
    *("chat/turnStarted", "chat/turnComplete", "chat/turnCancelled", "chat/error", "chat/truncated", "chat/usage"),
    *("chat/responsePart", "chat/delta", "chat/reasoning", "chat/pendingMessageSet", "chat/pendingMessageRemoved"),
    *(
        "chat/toolCallStart",
        "chat/toolCallReady",
        "chat/toolCallComplete",
        "chat/inputRequested",
        "chat/inputCompleted",
    ),
}
_APPLICABLE = [
    vector
    for vector in _VECTORS
    if all(action["type"] in _OF_OURS for action in vector["actions"])
    and vector["name"][:3] not in {number for numbers in _NEVER_SENT.values() for number in numbers}
]


@pytest.mark.parametrize("vector", _APPLICABLE, ids=lambda vector: vector["name"])
def test_our_reducers_do_what_the_protocol_says(vector: dict[str, Any]) -> None:
    """The main property in `test_actions.py` rests on them."""
    found = reduced(_plain(vector["initial"]), _plain(vector["actions"]))
    assert _plain(found) == _plain(vector["expected"])


def test_every_action_of_ours_is_in_one() -> None:
    assert {action["type"] for vector in _APPLICABLE for action in vector["actions"]} | {"chat/error"} == _OF_OURS


def test_vs_code_does_what_the_protocol_says() -> None:
    """With the reducers inside the real VS Code: so what the examples say counts for the version that it prefers, too."""
    vscodes.installed()
    chats = [vector for vector in _VECTORS if vector["reducer"] == "chat"]
    asked = [
        msgspec.json.encode({"state": vector["initial"], "actions": vector["actions"]}) for vector in map(_plain, chats)
    ]
    command = [str(vscodes.NODE), str(Path(__file__).with_name("vscode_reducers.mjs")), str(vscodes.WORKBENCH)]
    done = subprocess.run(command, input=b"\n".join(asked), capture_output=True, check=True, timeout=100)
    made = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    differ = [
        vector["name"][:3]
        for vector, found in zip(chats, made, strict=True)
        if _plain(found) != _plain(vector["expected"])
    ]
    assert differ == ["016"]


def _plain(value: Any) -> Any:
    """Without what is absent, which the vectors write as null, and without when a chat was changed."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one is not None and key != "modifiedAt"}
    return [_plain(one) for one in value] if isinstance(value, list) else value
