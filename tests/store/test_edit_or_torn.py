"""A file that an edit left as a part of our last append is not taken for an append that a crash cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.home import Home

SAVED = [{"id": f"m{n}", "role": "user", "content": f"said {n}"} for n in (1, 2)]


@pytest.mark.parametrize("stays", [0, 1])
def test_an_edit_before_a_kill_keeps_what_it_left(tmp_path: Path, stays: int) -> None:
    """The file is cut to its head, or to the head and a message; then something is acknowledged, and the daemon killed."""
    with Home(tmp_path) as home:
        made = home.client().call("session/new", sessionId="s", name="named", messages=SAVED)["session"]
        home.client().call("session/save", sessionId="s")
        home.stop()
        home.start()
        [file] = (tmp_path / "data" / "sessions").glob("s*")
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[: 1 + stays]))
        home.client().call("session/append", sessionId="s", messages=[{"id": "m3", "role": "user", "content": "later"}])
        home.kill()
        home.forget_clients()
        home.start()
        found = home.client().call("session/open", sessionId="s")
        assert [one["id"] for one in found["messages"]] == [*["m1"][:stays], "m3"]
        assert (found["session"]["name"], found["session"]["createdAt"]) == ("named", made["createdAt"])
