"""Whatever comes in, its exports for models are what a model may be sent: every source that these tests write, the corpus, and
the inputs of reported cases where they are there.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from older_sources import OLDER
from sources import FILES, TEXTS

from tests.exporters.api_rules import anthropic_faults, openai_faults, tools_words
from tests.importers.collected import CORPUS
from tests.service.test_intake import Served

CASES = CORPUS.parent / "cases"
WRITERS: dict[str, Callable[[Path], Path]] = {name: write for name, (_, write) in FILES.items()} | TEXTS | OLDER
CHECKS = {"openai": openai_faults, "anthropic": anthropic_faults}


async def exported(home: Path, source: Path) -> list[tuple[str, dict[str, Any]]]:
    """Format and body of each session's exports, after they were checked."""
    served = await Served(home).start()
    found = []
    try:
        await served.bring(source)
        infos = (await served.service.list())["sessions"]
        assert infos, f"nothing came in of {source}"
        for info in infos:
            whole = json.loads((await served.service.export(info["sessionId"], "json"))["content"])
            for format_, faults in CHECKS.items():
                body = json.loads((await served.service.export(info["sessionId"], format_))["content"])
                assert faults(body) == [], (info["sessionId"], format_)
                assert tools_words(whole["session"], whole["messages"], body) == [], (info["sessionId"], format_)
                found.append((format_, body))
    finally:
        await served.close()
    return found


@pytest.mark.parametrize("name", WRITERS)
async def test_each_source_of_these_tests(tmp_path: Path, name: str) -> None:
    (tmp_path / "source").mkdir()
    await exported(tmp_path / "home", WRITERS[name](tmp_path / "source"))


@pytest.mark.parametrize("name", ["aider", "claude-code", "cline", "codex", "pi"])
async def test_each_file_of_the_corpus(tmp_path: Path, name: str) -> None:
    if not (CORPUS / name).exists():
        pytest.skip(f"no corpus at {CORPUS}")
    await exported(tmp_path / "home", CORPUS / name)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.glob("[0-9]*")) or ["none"])
async def test_each_reported_case(tmp_path: Path, case: str) -> None:
    source = CASES / case / "input"
    if not source.exists():
        pytest.skip(f"no cases at {CASES}")
    scripts = sorted(source.glob("*.sql"))
    for script in scripts:
        made = tmp_path / "source" / f"{script.stem}.db"
        made.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(made)) as db:
            db.executescript(script.read_text())
    await exported(tmp_path / "home", tmp_path / "source" if scripts else source)
