"""The places and the verification of importers that are older than `tool.Tool`, which declare neither."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeAlias

from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.tool import Verified, in_config, in_editors
from sessiond.limits import MIB

_LISTING_BYTES = MIB
_Candidates: TypeAlias = Callable[[str, Mapping[str, str]], list[str]]


def _cline(home: str, env: Mapping[str, str]) -> list[str]:
    extension = in_editors(home, env, "globalStorage", "saoudrizwan.claude-dev", "tasks")
    return [os.path.join(home, ".cline", "data"), *extension]


def _llm(home: str, env: Mapping[str, str]) -> list[str]:
    named = [env["LLM_USER_PATH"]] if env.get("LLM_USER_PATH") else []
    return [os.path.join(folder, "logs.db") for folder in [*named, *in_config(home, env, "io.datasette.llm")]]


def _crush(home: str, env: Mapping[str, str]) -> list[str]:
    """Crush keeps a database in each project, and a list of the projects beside its configuration."""
    found = in_config(home, env, "crush", "crush.db")
    for listing in in_config(home, env, "crush", "projects.json"):
        try:
            with open(listing, "rb") as file:
                value, _ = decode(file.read(_LISTING_BYTES))
        except (OSError, NotJson):
            continue
        projects = value.get("projects") if isinstance(value, dict) else value
        for project in projects if isinstance(projects, list) else []:
            if isinstance(project, dict) and isinstance(project.get("path"), str):
                data = project.get("data_dir")
                folder = data if isinstance(data, str) and data else os.path.join(project["path"], ".crush")
                found.append(os.path.join(project["path"], folder, "crush.db"))
    return found


def _named(env: Mapping[str, str], variable: str) -> list[str]:
    """The folders that a variable names: one, or several with commas, as those write it who have several profiles."""
    value = env.get(variable, "")
    return [value] if os.path.isdir(value) else [one for one in value.split(",") if one]


PLACES: dict[str, _Candidates] = {
    "claude-code": lambda home, env: [
        *(os.path.join(one, "projects") for one in _named(env, "CLAUDE_CONFIG_DIR") or [os.path.join(home, ".claude")]),
        os.path.join(home, ".config", "claude", "projects"),
    ],
    "codex": lambda home, env: [
        os.path.join(env.get("CODEX_HOME") or os.path.join(home, ".codex"), name)
        for name in ("sessions", "archived_sessions")
    ],
    "pi": lambda home, env: [
        os.path.join(env.get("PI_CODING_AGENT_DIR") or os.path.join(home, ".pi", "agent"), "sessions")
    ],
    "aider": lambda home, env: [env.get("AIDER_CHAT_HISTORY_FILE") or os.path.join(home, ".aider.chat.history.md")],
    "cline": _cline,
    "gemini-cli": lambda home, env: [os.path.join(home, ".gemini", "tmp")],
    "qwen": lambda home, env: [os.path.join(home, ".qwen", name) for name in ("projects", "tmp")],
    "continue": lambda home, env: [
        os.path.join(env.get("CONTINUE_GLOBAL_DIR") or os.path.join(home, ".continue"), "sessions")
    ],
    "llm": _llm,
    "goose": lambda home, env: in_config(home, env, "goose", "sessions", "sessions.db"),
    "opencode": lambda home, env: [
        *in_config(home, env, "opencode", "opencode.db"),
        *in_config(home, env, "opencode", "storage", "session"),
    ],
    "crush": _crush,
}

VERIFIED: dict[str, Verified] = {
    "claude-code": "run",
    "codex": "run",
    "pi": "run",
    "aider": "real files",
    "cline": "real files",
    "gemini-cli": "run",
    "qwen": "run",
    "continue": "documented",
    "gptel": "documented",
    "llm": "run",
    "goose": "documented",
    "opencode": "run",
    "crush": "documented",
    "chatgpt": "documented",
    "messages": "real files",
}
"""What the older importers' tests show. `messages` belongs to no tool; its files are those of many programs."""
