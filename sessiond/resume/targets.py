"""All targets, by the name that `sessiond resume --in` takes. Each one's module is loaded when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from sessiond.errors import InvalidParams
from sessiond.resume.target import Target

_WHERE = {
    "claude": ("claude", "ClaudeCodeTarget"),
    "codex": ("codex", "CodexTarget"),
    "pi": ("pi", "PiTarget"),
    "gemini": ("gemini", "GeminiTarget"),
    "qwen": ("qwen", "QwenTarget"),
    "opencode": ("opencode", "OpenCodeTarget"),
    "cline": ("cline", "ClineTarget"),
    "llm": ("llm", "LlmTarget"),
    "aider": ("aider", "AiderTarget"),
}
OWN = "sessiond"
"""The session goes on here, in any client."""
NAMES = (*_WHERE, OWN)


def target(name: str, home: str, env: Mapping[str, str]) -> Target:
    """InvalidParams for a name that is not in `NAMES`."""
    if name not in _WHERE:
        raise InvalidParams(f"there is no target {name!r}", hint=f"one of {', '.join(NAMES)}", field="in")
    module, kind = _WHERE[name]
    made = getattr(import_module(f"sessiond.resume.{module}"), kind)(home, env)
    assert isinstance(made, Target)
    return made
