"""An adopted folder that lost its `.sessiond` is adopted again under its name, with everything that waited for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.home import Home

CONFIG = "[autosave]\nidle_s = 60\ninterval_s = 60\n"


@pytest.mark.parametrize("taken_out", [False, True])
def test_what_waited_is_in_its_session(tmp_path: Path, taken_out: bool) -> None:
    """Whether the store is still in the configuration, or was taken out of it meanwhile."""
    folder = tmp_path / "cx"
    file = folder / "transcripts" / "main" / "transcript.jsonl"
    file.parent.mkdir(parents=True)
    lines = [{"role": "user", "content": text, "timestamp": 1_790_000_000_000} for text in ("one", "two")]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "home").mkdir()
    with Home(tmp_path / "home", CONFIG) as home:
        client = home.client()
        client.call("store/adopt", path=str(folder), name="cx")
        client.call("session/append", sessionId="cx/main", messages=[{"role": "user", "content": "three"}])
        client.call("session/save")
        client.call("session/append", sessionId="cx/main", messages=[{"role": "user", "content": "waits"}])
        home.kill()
        shutil.rmtree(folder / ".sessiond")
        if taken_out:
            (home.path / "config" / "config.toml").write_text(CONFIG)
        home.forget_clients()
        home.start()
        client = home.client()
        if not taken_out:
            error = client.fails("session/read", sessionId="cx/main")
            assert "`sessiond adopt" in error["message"]
        client.call("store/adopt", path=str(folder), name="cx")
        read = client.call("session/read", sessionId="cx/main")["messages"]
        assert [message["content"] for message in read] == ["one", "two", "three", "waits"]
        assert "alreadyExists" in str(client.fails("store/adopt", path=str(folder), name="cx"))
