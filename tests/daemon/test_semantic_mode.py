"""Search by meaning over the wire and in the shell, with the extra and without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiond.index.meaning import can_find_meaning
from tests.home import Home
from tests.shell import Shell

pytestmark = pytest.mark.skipif(
    not can_find_meaning() and os.environ.get("CI") != "true", reason="the extra `semantic` is not installed"
)


def modes(home: Home) -> list[str]:
    params = {"processId": None, "rootUri": None, "capabilities": {}}
    result = home.client().call("initialize", **params)
    return result["capabilities"]["experimental"]["sessiond"]["searchModes"]


def test_found_by_meaning(shell: Shell) -> None:
    """`sessiond search --semantic` finds the paraphrase, a deleted session not; --json is the request's result."""
    shell("new", "--id", "med", "--name", "Health")
    shell("append", "med", "Our daughter has a fever of 39 degrees, should we call a doctor?")
    shell("new", "--id", "food")
    shell("append", "food", "Pasta with tomatoes, garlic and basil is a quick dinner.")
    found = shell("search", "--semantic", "my kid is ill", "--json")
    while found.json.get("incomplete"):  # on a machine that is very busy
        found = shell("search", "--semantic", "my kid is ill", "--json")
    assert found.json["hits"][0]["sessionId"] == "med"
    assert found.json["total"] == len(found.json["hits"])
    assert shell("search", "-q", "my kid is ill").code == 1
    assert shell("search", "--mode", "semantic", "-l", "something to cook").out.startswith("food\n")
    shell("rm", "med")
    assert "med" not in shell("search", "--semantic", "-l", "my kid is ill").out


def test_advertised_and_answered(tmp_path: Path) -> None:
    """Where it is advertised it works, from the first request on."""
    with Home(tmp_path) as home:
        assert modes(home) == ["text", "regex", "semantic"]
        client = home.client()
        client.call(
            "session/new", sessionId="a", messages=[{"role": "user", "content": "The battery drains too fast."}]
        )
        page = client.call("session/search", query="my laptop loses power", mode="semantic")
        while page.get("incomplete"):
            page = client.call("session/search", query="my laptop loses power", mode="semantic")
        assert [hit["sessionId"] for hit in page["hits"]] == ["a"]


def test_without_the_extra(tmp_path: Path) -> None:
    """Not advertised, a clear error, and everything else as ever. (A package without the model hides the real one.)"""
    hidden = tmp_path / "hidden" / "wordllama"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('never imported')\n")
    path = os.pathsep.join(filter(None, (str(hidden.parent), os.environ.get("PYTHONPATH"))))
    folder = tmp_path / "home"
    folder.mkdir()
    with Home(folder, env={"PYTHONPATH": path}) as home:
        assert modes(home) == ["text", "regex"]
        error = home.client().fails("session/search", query="x", mode="semantic")
        assert (error["code"], error["data"]["kind"], error["data"]["field"]) == (-32602, "invalidParams", "mode")
        assert "'numpy>=" in error["data"]["hint"]
        assert home.client().call("session/search", query="x")["hits"] == []
