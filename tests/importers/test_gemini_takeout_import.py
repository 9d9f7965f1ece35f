"""Gemini in Google Takeout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import read, recognised

from tests.importers.tools import imported_twice, told


def activity(title: str, time: str, *html: str, **more: Any) -> dict[str, Any]:
    shown = {"safeHtmlItem": [{"html": one} for one in html]} if html else {}
    return {"header": "Gemini Apps", "title": title, "time": time, "products": ["Gemini Apps"], **shown, **more}


HTML = "<p>They are <b>red</b>.</p><ul><li>or\n  green</li><li>or &amp; so</li></ul><pre>a = 1\n  b</pre>"
ACTIVITIES = [
    activity("Gave feedback: Good response", "2025-03-02T08:00:00.123Z"),
    activity("Prompted And pears?", "2025-03-01T23:59:59.000Z", "<p>Green.</p>", attachedFiles=["pear.png"]),
    activity("Prompted\u00a0What colour are apples?", "2025-03-01T10:00:00.000Z", HTML),
    activity("Prompted hello", "2025-03-01T10:00:00.000Z"),
]


def takeout(folder: Path, value: Any = ACTIVITIES) -> Path:
    path = folder / "MyActivity.json"
    path.write_text(json.dumps(value))
    return path


def test_a_day_is_a_session(tmp_path: Path) -> None:
    """Prompts and answers come oldest first; an answer's HTML becomes text, and is kept in the metadata."""
    path = takeout(tmp_path)
    assert recognised(path) == "gemini-takeout"
    stream = read(path)
    assert told(stream.messages["2025-03-01"]) == [
        ("user", "hello"),
        ("user", "What colour are apples?"),
        ("assistant", "They are red.\n\n- or green\n\n- or & so\n\na = 1\n  b"),
        ("user", "And pears?"),
        ("assistant", "Green."),
    ]
    _, _, answer, asked, _ = stream.messages["2025-03-01"]
    assert answer["metadata"] == {"html": [HTML]}
    assert asked["metadata"] == {"attachedFiles": ["pear.png"]}
    assert told(stream.messages["2025-03-02"]) == [("system", "Gave feedback: Good response")]
    assert stream.info["2025-03-01"]["name"] == "Gemini, 2025-03-01"
    assert stream.messages["2025-03-02"][0]["timestamp"] == "2025-03-02T08:00:00.123Z"


def test_damage_costs_an_activity(tmp_path: Path) -> None:
    """An activity without a time, and a cut at the end, are reported."""
    path = takeout(tmp_path, [{**ACTIVITIES[0], "time": "?"}, 5, *ACTIVITIES[1:]])
    path.write_text(path.read_text()[:-30])
    stream = read(path)
    assert [len(messages) for messages in stream.messages.values()] == [4]
    assert [one.reason for one in stream.skipped] == [
        "not an activity: it needs a time",
        "not an activity: it needs a time",
        "cut off in the middle",
    ]


def test_another_activity_is_not_recognised(tmp_path: Path) -> None:
    """Takeout has such files for every product."""
    assert (
        recognised(takeout(tmp_path, [{"header": "Search", "title": "Searched", "time": "x", "products": ["Search"]}]))
        is None
    )


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", takeout(tmp_path), 6)
