"""Files that another program writes at the moment when a daemon starts."""

from __future__ import annotations

from pathlib import Path

from tests.home import Home
from tests.shell import wait_until

SESSION = b"""{"sessiond":1,"id":"early","createdAt":"2026-01-11T14:30:22.000Z"}
{"id":"a","seq":1,"role":"user","content":"early","timestamp":"2026-01-11T14:30:22.000Z"}
"""


def test_a_file_that_comes_between_check_and_watch_is_listed(tmp_path: Path) -> None:
    """The folder is checked at the start and watched a little later; what comes between is found nevertheless."""
    for number in range(6):
        place = tmp_path / str(number)
        place.mkdir()
        with Home(place) as home:
            client = home.client()
            (place / "data" / "sessions" / "early.jsonl").write_bytes(SESSION)
            wait_until(lambda asked=client: [one["sessionId"] for one in asked.call("session/list")["sessions"]])
