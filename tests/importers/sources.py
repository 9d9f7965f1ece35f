"""A source of every importer that extends `Tool`, for tests that try all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import test_acpx_import as acpx
import test_agent_shell_import as agent_shell
import test_amp_import as amp
import test_avante_import as avante
import test_claude_ai_import as claude_ai
import test_codecompanion_import as codecompanion
import test_copilot_chat_import as copilot_chat
import test_copilot_cli_import as copilot_cli
import test_cursor_agent_import as cursor_agent
import test_cursor_import as cursor
import test_droid_import as droid
import test_gemini_takeout_import as gemini_takeout
import test_kilo_import as kilo
import test_kiro_import as kiro
import test_librechat_import as librechat
import test_lm_studio_import as lm_studio
import test_open_webui_import as open_webui
import test_openhands_import as openhands
import test_roo_import as roo
import test_specstory_import as specstory
import test_vibe_import as vibe
import test_warp_import as warp
import test_windsurf_import as windsurf
import test_zed_import as zed

Write = Callable[[Path], Path]


def at(write: Callable[..., Path], name: str) -> Write:
    """A writer that wants the file's path, not its folder."""
    return lambda folder: write(folder / name)


FILES: dict[str, tuple[str, Write]] = {
    "acpx": ("acpx", acpx.document),
    "acpx journal": ("acpx", acpx.journal),
    "amp": ("amp", amp.thread),
    "avante": ("avante", avante.history),
    "avante entries": ("avante", lambda folder: avante.history(folder, messages=[], entries=avante.ENTRIES)),
    "claude-ai": ("claude-ai", claude_ai.export),
    "codecompanion": ("codecompanion", codecompanion.chat),
    "copilot-chat": ("copilot-chat", copilot_chat.session),
    "copilot-chat log": ("copilot-chat", copilot_chat.log),
    "copilot-cli": ("copilot-cli", copilot_cli.session),
    "cursor": ("cursor", at(cursor.state, "state.vscdb")),
    "cursor-agent": ("cursor-agent", cursor_agent.store),
    "droid": ("droid", droid.session),
    "gemini-takeout": ("gemini-takeout", gemini_takeout.takeout),
    "kilo database": ("kilo", kilo.database),
    "kiro": ("kiro", kiro.session),
    "kiro events": ("kiro", kiro.events),
    "kiro database": ("kiro", at(kiro.database, "data.sqlite3")),
    "librechat": ("librechat", at(librechat.export, "x.json")),
    "lm-studio": ("lm-studio", lm_studio.conversation),
    "open-webui": ("open-webui", at(open_webui.database, "webui.db")),
    "openhands": ("openhands", openhands.conversation),
    "kilo": ("kilo", lambda folder: roo.task(folder, "kilocode.kilo-code")),
    "roo": ("roo", roo.task),
    "vibe": ("vibe", vibe.session),
    "vibe store": ("vibe", vibe.store),
    "warp": ("warp", at(warp.database, "warp.sqlite")),
    "windsurf": ("windsurf", windsurf.transcript),
    "zed": ("zed", at(zed.threads, "threads.db")),
}
TEXTS: dict[str, Write] = {"agent-shell": agent_shell.transcript, "specstory": specstory.history}
