"""The pictures are of what is there now, whole, and take nothing from elsewhere."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
from PIL import Image

from tests.clients.pictures import FOLDER, GROUPS, RECORD, digest
from tests.clients.terminal_pictures import PROGRAMS
from tests.site.blocks import PAGES, ROOT

SVGS = sorted(FOLDER.glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
READABLE = 4.5
"""The contrast that WCAG (AA) asks of text of this size."""


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG 2 computes it."""
    light, dark = sorted((brightness(one), brightness(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def brightness(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def covers(bar: ET.Element, x: float, y: float) -> bool:
    left, top, width, height = (float(bar.attrib[name]) for name in ("x", "y", "width", "height"))
    return left <= x <= left + width and top <= y <= top + height


@pytest.mark.parametrize("group", GROUPS)
def test_a_picture_is_not_older_than_what_it_shows(group: str) -> None:
    """After a change to what a picture shows, it has to be made again."""
    made = json.loads(RECORD.read_text())
    assert made[group] == digest(GROUPS[group][1]), f"run: python -m tests.clients.pictures {group}"


@pytest.mark.parametrize("path", SVGS, ids=lambda path: path.stem)
def test_a_drawing_is_whole(path) -> None:
    """A drawing of a terminal is XML with text in it, and names no font, style or picture of another machine."""
    text = path.read_text()
    root = ET.fromstring(text)
    assert len("".join(root.itertext()).split()) > 20
    assert not re.findall(r"(?:href|src|url)\s*[=(]\s*[\"']?https?:", text)


@pytest.mark.parametrize("path", SVGS, ids=lambda path: path.stem)
def test_a_drawing_can_be_read(path) -> None:
    """Each text of a drawing stands out from the paper, or from the bar behind it, and ends inside the frame."""
    text, root = path.read_text(), ET.parse(path).getroot()
    colours = dict(re.findall(r"\.(sessiond-\w+-r\d+) \{ fill: (#\w+)", text))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    bars = [one for one in root.iter(f"{SVG}rect") if one.get("shape-rendering") == "crispEdges"]
    paper = next(one.attrib["fill"] for one in root.iter(f"{SVG}rect") if one.get("rx"))
    seen = 0
    for one in root.iter(f"{SVG}text"):
        if "textLength" not in one.attrib or not "".join(one.itertext()).strip():
            continue
        x, y = float(one.attrib["x"]), float(one.attrib["y"])
        behind = [bar.attrib["fill"] for bar in bars if covers(bar, x + 1, y - 4)]
        assert contrast(colours[one.attrib["class"]], [paper, *behind][-1]) >= READABLE, "".join(one.itertext())
        assert x + float(one.attrib["textLength"]) <= width
        assert y <= height
        seen += 1
    assert seen >= 8


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.png")), ids=lambda path: path.stem)
def test_a_screenshot_shows_something(path) -> None:
    """A screenshot is not one colour, and is dark or light as its name says."""
    grey = Image.open(path).convert("L")
    assert len(grey.getcolors(256 * grey.width) or []) > 20
    middle = sorted(grey.resize((64, 64)).tobytes())[64 * 32]
    assert (middle > 128) == (path.stem.rpartition("-")[2] == "light")


def test_every_client_has_both_looks() -> None:
    """Each program has a light and a dark picture, and so has the README's."""
    names = {path.stem for path in FOLDER.iterdir()}
    others = (
        "three-tools",
        "demo",
        "vscode",
        "vscode-agent-host",
        "vscode-agent-host-question",
        "web-session",
        "web-search",
        "web-usage",
        "web-phone",
    )
    for name in (*PROGRAMS, *others):
        assert {f"{name}-light", f"{name}-dark"} <= names


def test_the_recording_is_one() -> None:
    """The asciicast has a head and events whose times do not go backwards."""
    head, *events = [json.loads(line) for line in (FOLDER / "demo.cast").read_text().splitlines()]
    assert head["version"] == 2
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    assert "Everything stopped and removed." in "".join(text for _, _, text in events)


def test_every_picture_is_shown() -> None:
    """No picture is in the folder that no page shows."""
    shown = "".join(path.read_text() for path in PAGES)
    for path in FOLDER.iterdir():
        if path != RECORD:
            assert path.name in shown, path.name
    assert "docs/images/three-tools-light.svg" in (ROOT / "README.md").read_text()
