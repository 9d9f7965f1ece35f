"""The pages that are written from the code are current."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from scripts import reference_pages
from sessiond.client import __all__ as public
from sessiond.config import settle
from sessiond.endpoint import Places, places
from sessiond.settings import SETTINGS
from sessiond.shared_config import HubConfig
from tests.shell import ROOT

CONFIGURATION = reference_pages.pages()["configuration.md"]
ROWS = {
    (table, cells[0].strip("`")): cells[1:]
    for table, body in re.findall(r"^## \[([^]\n]+)\]\n(.*?)(?=^## )", CONFIGURATION, re.MULTILINE | re.DOTALL)
    for cells in (
        [cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| `.*$", body, re.MULTILINE)
    )
}
"""Table and key -> the other cells of the key's row."""
NOT_FOR_USERS = {
    "SESSIOND_NOTES": "a mark in files of cortex",
    "SESSIOND_COMPLETE": "set by the completion of a shell",
    "SESSIOND_TABLE_KEY": "the shape of a name",
}
UNITS = {"seconds", "days", "bytes", "characters", "messages", "requests", "connections", "changes", "files", "entries"}


@pytest.mark.parametrize("name", reference_pages.pages())
def test_the_page_is_current(name: str) -> None:
    """`python -m scripts.reference_pages` would write the same."""
    assert (reference_pages.FOLDER / name).read_text() == reference_pages.pages()[name]


def test_nothing_is_left_out() -> None:
    """Every key of the file has a row; every public name of the client has a section."""
    stores = {("stores.NAME", key) for key in ("path", "format", *HubConfig.__struct_fields__)}
    assert set(ROWS) == {(setting.table, setting.key) for setting in SETTINGS.values()} | stores
    for name in public:
        assert f"\n## {name}\n" in reference_pages.pages()["reference/python.md"]


@pytest.mark.parametrize(("table", "key"), ROWS)
def test_each_key_has_its_words(table: str, key: str) -> None:
    """A type, with its unit if it is a number; a default; and a sentence. Whatever the environment can set has its variable."""
    kind, default, *variable, says = ROWS[table, key]
    what, _, unit = kind.partition(", ")
    assert (what in ("number", "whole number")) == (unit in UNITS)
    assert what in ("number", "whole number", "string", "list of strings", "`true` or `false`")
    assert default
    assert re.fullmatch(r"(?:[A-Z]|`true`: ).{10,}\.", says), says
    assert variable == ([] if table == "stores.NAME" else [f"`SESSIOND_{table}_{key}`".upper()])


def test_the_example_is_a_configuration(tmp_path: Path) -> None:
    """The daemon reads the example without a complaint, and takes each of its values."""
    (example,) = re.findall(r"^```toml\n(.*?)^```", CONFIGURATION, re.MULTILINE | re.DOTALL)
    where = Places(**{name: str(tmp_path / name) for name in ("data", "config", "cache", "run", "log")})
    settled = settle("config.toml", example, where, {}, {})
    assert set(settled.explained()) == {
        "autosave.interval_s", "autosave.idle_s", "follow.tools", "limits.trash_days"
    }  # fmt: skip
    assert [store.name for store in settled.stores] == ["default", "team", "lisp"]


def test_the_file_is_where_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """On each system, and with SESSIOND_HOME."""
    found = {}
    for system in ("linux", "darwin"):
        monkeypatch.setattr(sys, "platform", system)
        found[system] = places({"HOME": "/~"}).config
        assert places({"HOME": "/~", "XDG_CONFIG_HOME": "/c"}).config == "/c/sessiond"
        assert places({"HOME": "/~", "SESSIOND_HOME": "/h"}).config == "/h/config"
    assert found == {"linux": "/~/.config/sessiond", "darwin": "/~/Library/Application Support/sessiond"}
    for folder in ("$XDG_CONFIG_HOME/sessiond", "$SESSIOND_HOME/config", *(one[1:] for one in found.values())):
        assert f"`{folder}/config.toml`" in CONFIGURATION


def test_each_variable_is_on_the_page() -> None:
    """Whatever variable of its own the program reads, unless it is not for users."""
    named = {
        name
        for path in (ROOT / "sessiond").rglob("*.py")
        for name in re.findall(r"SESSIOND_[A-Z][A-Z_]*[A-Z]", path.read_text("utf-8"))
    }
    assert "SESSIOND_HOME" in named
    for name in named - set(NOT_FOR_USERS):
        assert f"`{name}`" in CONFIGURATION, name
