"""`sessiond setup AGENT --mcp`: one more entry in a configuration, and nothing else changed."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.cli import jsonc

FILES = {
    "claude": (".claude.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "opencode": (".config/opencode/opencode.json", "mcp"),
    "pi": (".pi/agent/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}
AGENTS = pytest.mark.parametrize("agent", sorted(FILES))


def read(path: Path) -> Any:
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else jsonc.loads(text)


@AGENTS
def test_once(user, agent):
    """It is added to a file that is not there yet, with what starts the server; a second time nothing changes. Without --write it
    is printed, and nothing is written.
    """
    name, key = FILES[agent]
    path = user.path / name
    printed = user("setup", agent, "--mcp")
    assert printed.code == 0 and "sessiond" in printed.out and str(path) in printed.out
    assert not path.exists()
    done = user("setup", agent, "--mcp", "--write")
    assert (done.code, done.out) == (0, f"added to {path}\n")
    server = read(path)[key]["sessiond"]
    command = server["command"] if isinstance(server["command"], list) else [server["command"], *server["args"]]
    assert os.path.isabs(command[0]) and command[-1] == "mcp"
    assert (server.get("env") or server.get("environment"))["SESSIOND_HOME"] == str(user.path)
    before = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    again = user("setup", agent, "--mcp", "--write")
    assert (again.code, again.out) == (0, f"{path} already has a server named sessiond; it was left as it is\n")
    assert path.read_bytes() == before
    for line in [line for line in printed.out.splitlines() if not line.startswith(("//", "#"))]:
        assert line.strip() in path.read_text()


COMMENTED = """\
{
    // my theme
    "theme": "One",   /* not Two */
    "url": "http://example.org//x", "%s": { // servers
        "other": {"command": "x"}, // mine
    },
    "list": [1, 2,],
}
"""


@AGENTS
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_everything_else_remains(user, agent, ends):
    """Every line that was there is there, in order, comments too; a link stays a link, and the mode the mode."""
    name, key = FILES[agent]
    real = user.path / "dotfiles" / "settings"
    real.parent.mkdir()
    text = COMMENTED % key if agent != "codex" else '# mine\nmodel = "x" # good\n\n[mcp_servers.other]\ncommand = "x"'
    text = text.replace("\n", ends)
    real.write_bytes(text.encode())
    real.chmod(0o640)
    path = user.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(real, path.parent))
    assert user("setup", agent, "--mcp", "--write").code == 0
    assert path.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    now = real.read_bytes().decode()
    rest = iter(now.split(ends))
    assert all(line in rest for line in text.split(ends)), now
    assert now.count("\n") == now.count(ends)
    found = read(path)
    assert set(found[key]) == {"other", "sessiond"}


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        ("gemini", "{"),
        ("gemini", "[]"),
        ("gemini", '{"mcpServers": 1}'),
        ("gemini", '{"a": 1, "a": 2}'),
        ("gemini", "\udcff{}"),
        ("zed", '{"context_servers": {"x": {}'),
        ("codex", "mcp_servers = {}"),
        ("codex", "model = "),
        ("codex", "[[mcp_servers]]"),
    ],
)
def test_what_cannot_be_changed_safely_is_left_alone(user, agent, text):
    """A file that is not understood stays as it is, byte for byte, and the error says how to get the lines."""
    path = user.path / FILES[agent][0]
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    done = user("setup", agent, "--mcp", "--write")
    assert done.code == 1 and f"`sessiond setup {agent} --mcp` prints the lines" in done.err
    assert path.read_bytes() == text.encode("utf-8", "surrogateescape")
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name]


def test_variables_name_the_folder(user):
    """CLAUDE_CONFIG_DIR, CODEX_HOME and PI_CODING_AGENT_DIR are where these agents look."""
    for agent, variable, name in (
        ("claude", "CLAUDE_CONFIG_DIR", ".claude.json"), ("codex", "CODEX_HOME", "config.toml"), ("pi", "PI_CODING_AGENT_DIR", "mcp.json"),
    ):  # fmt: skip
        user.env[variable] = str(user.path / agent)
        assert user("setup", agent, "--mcp", "--write").out == f"added to {user.path / agent / name}\n"


def test_names_that_are_something_else(user):
    """An agent without --mcp, and an editor that knows no MCP, are told what to do."""
    assert "add --mcp" in user("setup", "claude").err
    assert "but not emacs" in user("setup", "emacs", "--mcp").err


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
GAPS = st.sampled_from(["", " ", "\n", "\r\n  ", "\t", " // a comment {\n", "/* a, \n b: } */", "\n\n"])


@given(st.dictionaries(st.text(max_size=4) | st.just("servers"), VALUES, max_size=4), st.data())
def test_a_member_is_added_to_any_document(value, data):
    """Whatever the layout, comments and trailing commas: the document is read as what it is, and after the addition it is the same
    with one more member; nothing of the text is taken away.
    """
    text = _written(value, data)
    assert jsonc.loads(text) == value
    if not isinstance(value.get("servers", {}), dict) or "x" in value.get("servers", {}):
        with pytest.raises(jsonc.NotJsonc):
            jsonc.with_member(text, ("servers", "x"), {"a": [1]})
        return
    made = jsonc.with_member(text, ("servers", "x"), {"a": [1]})
    assert jsonc.loads(made) == {**value, "servers": {**value.get("servers", {}), "x": {"a": [1]}}}
    rest = iter(made)
    assert all(character in rest for character in text if not character.isspace())


def _written(value: Any, data: st.DataObject) -> str:
    gap = lambda: data.draw(GAPS)  # noqa: E731
    if isinstance(value, dict):
        inner = ",".join(
            f"{gap()}{json.dumps(key)}{gap()}:{gap()}{_written(one, data)}{gap()}" for key, one in value.items()
        )
        return "{" + inner + ("," + gap() if value and data.draw(st.booleans()) else gap()) + "}"
    if isinstance(value, list):
        inner = ",".join(f"{gap()}{_written(one, data)}{gap()}" for one in value)
        return "[" + inner + ("," + gap() if value and data.draw(st.booleans()) else gap()) + "]"
    return json.dumps(value, ensure_ascii=data.draw(st.booleans()))
