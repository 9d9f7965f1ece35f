"""An output in a file of its own, through the service: it may come after its record, and go before it."""

from __future__ import annotations

import shutil
from typing import Any

from tests.importers.test_kept_output import OUTPUT, S, kept, shown, transcript
from tests.service.test_intake import Served, served  # noqa: F401, a fixture


async def result(served: Served) -> dict[str, Any]:  # noqa: F811
    found = (await served.service.read(f"claude-code-{S}"))["messages"]
    [message] = [one for one in found if one["role"] == "tool"]
    return message


async def test_an_output_that_comes_late_and_goes_again(served, tmp_path):  # noqa: F811
    """The record says nothing new either time. What was once here stays."""
    place = tmp_path / "projects"
    file = place / S / "tool-results" / "toolu_1.txt"
    path = transcript(place / f"{S}.jsonl", str(file))
    await served.bring(path)
    assert (await result(served))["content"] == shown(str(file))
    kept(place / S)
    await served.bring(path)
    whole = await result(served)
    assert whole["content"] == f"{shown(str(file))}\n\n{OUTPUT}"
    shutil.rmtree(place / S)
    await served.bring(path)
    there = await result(served)
    assert (there["content"], there["metadata"]) == (whole["content"], {**whole["metadata"], "shortened": True})
    kept(place / S)
    await served.bring(path)
    assert (await result(served))["content"] == whole["content"]
    assert "shortened" not in (await result(served))["metadata"]
