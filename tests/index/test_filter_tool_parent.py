"""The filters `tool` and `parent` over the socket, compared with what every session says of itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.shell import Shell, wait_until

SOURCES: list[Any] = [
    None,
    {"tool": "codex"},
    {"tool": "claude-code"},
    {"tool": ""},
    {"tool": 5},
    {"tool": None},
    "codex",
    ["codex"],
    {"tool": "sessiond"},
]


def tool(info: dict[str, Any]) -> str:
    """What the documentation says: the source's tool if that is a name, else `sessiond`."""
    source = info["metadata"].get("source")
    named = source.get("tool") if isinstance(source, dict) else None
    return named if isinstance(named, str) and named else "sessiond"


@pytest.mark.parametrize("seed", range(3))
def test_a_filter_finds_what_it_says(shell: Shell, seed: int) -> None:
    """For random sessions, each value of each filter gives exactly those sessions, right after they were made and after a restart."""
    chance = random.Random(seed)
    with shell.client() as client:
        ids: list[str] = []
        for number in range(30):
            if ids and chance.random() < 0.4:
                made = client.call("session/fork", {"sessionId": chance.choice(ids)})["session"]
            else:
                source = chance.choice(SOURCES)
                metadata = {} if source is None else {"source": source}
                made = client.call("session/new", {"name": f"n{number} word", "metadata": metadata})["session"]
            ids.append(made["sessionId"])
            compare(client, ids)
    shell("stop")
    with shell.client() as client:
        compare(client, ids)


def compare(client: Any, ids: list[str]) -> None:
    sessions = {one["sessionId"]: one for one in client.call("session/list", {"limit": 1000})["sessions"]}
    assert set(sessions) == set(ids)

    def listed(**wanted: str) -> set[str]:
        return {one["sessionId"] for one in client.call("session/list", {"limit": 1000, "filter": wanted})["sessions"]}

    for name in ("codex", "claude-code", "sessiond", "pi"):
        assert listed(tool=name) == {key for key, one in sessions.items() if tool(one) == name}
    for parent in [*ids[:4], "nobody"]:
        assert listed(parent=parent) == {
            key for key, one in sessions.items() if (one["parent"] or {}).get("sessionId") == parent
        }


def test_searches_are_narrowed_too(shell: Shell) -> None:
    """A word that two tools' sessions have is found in the one that was asked for, in each mode."""
    with shell.client() as client:
        for name in ("codex", "pi"):
            messages = [{"role": "user", "content": "needle in here"}]
            client.call(
                "session/new", {"sessionId": name, "metadata": {"source": {"tool": name}}, "messages": messages}
            )

        def found(mode: str) -> set[str]:
            hits = client.call("session/search", {"query": "needle", "mode": mode, "filter": {"tool": "codex"}})["hits"]
            return {hit["sessionId"] for hit in hits}

        wait_until(lambda: found("text") == {"codex"})
        assert found("regex") == {"codex"}
    assert shell("list", "--tool", "pi").out.split("\t")[0] == "pi"
    assert shell("search", "--tool", "pi", "-l", "needle").out.split()[0] == "pi"
