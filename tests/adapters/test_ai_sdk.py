"""The JavaScript in `docs/adapters.md` runs unchanged, with the real AI SDK and a model that it brings for tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from sessiond.client import connect
from tests.adapters.conftest import KilledHome
from tests.shell import ROOT

CACHE = Path(os.environ.get("SESSIOND_CACHE") or Path.home() / ".cache" / "sessiond-tests") / "ai-6.0.326"
NODE = CACHE / "node_modules" / "node" / "bin" / "node"
MODEL = """
import { MockLanguageModelV3, simulateReadableStream } from 'ai/test'
const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 }
const received = []
const model = new MockLanguageModelV3({
  doStream: async ({ prompt }) => {
    received.push(prompt)
    return { stream: simulateReadableStream({ chunks: [
      { type: 'stream-start', warnings: [] },
      { type: 'text-start', id: '0' },
      { type: 'text-delta', id: '0', delta: 'It ' },
      { type: 'text-delta', id: '0', delta: 'rains.' },
      { type: 'text-end', id: '0' },
      { type: 'finish', finishReason: { unified: 'stop', raw: 'stop' }, usage: { inputTokens: tokens, outputTokens: tokens } },
    ] }) }
  },
})
"""
PAGE = """
const id = await start('Weather')
for (const [number, text] of ['Will it rain in Ulm?', 'And tomorrow?'].entries()) {
  const messages = [...await load(id), { id: `user-${number}`, role: 'user', parts: [{ type: 'text', text }] }]
  const response = await POST(new Request('http://localhost/', { method: 'POST', body: JSON.stringify({ id, messages }) }))
  await response.text()
}
console.log(JSON.stringify({ told: received.map((prompt) => prompt.length), kept: await load(id) }))
connection.close()
"""


@pytest.fixture
def ai() -> Path:
    """The folder in which the AI SDK is installed. Skips (fails with CI=true) without it."""
    if not (CACHE / "complete").exists():
        reason = "the AI SDK is not installed: sh tests/adapters/ai_install"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return CACHE


def test_a_chat_is_kept(at_home: KilledHome, ai: Path, tmp_path: Path) -> None:
    """Two prompts: the model gets what was kept, the session has the words in order, and `load` returns the messages as they were."""
    section = (ROOT / "docs" / "adapters.md").read_text().partition("\n## Vercel AI SDK\n")[2].partition("\n## ")[0]
    (piece,) = re.findall(r"^```js\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    listening = at_home.start("--ws", "0", text=True)
    assert listening.stdout is not None
    said = re.fullmatch(r"listening on ws (\S+), the token is in (.+)\n", listening.stdout.readline())
    assert said is not None
    program = (
        piece.replace("ws://127.0.0.1:8712", f"ws://{said[1]}")
        .replace("TOKEN", json.dumps(Path(said[2]).read_text().strip()))
        .replace("./sessiond.js", (ROOT / "clients" / "browser" / "sessiond.js").as_uri())
    )
    (tmp_path / "node_modules").symlink_to(ai / "node_modules")
    (tmp_path / "chat.mjs").write_text(MODEL + program + PAGE)
    done = subprocess.run(
        [NODE, tmp_path / "chat.mjs"], capture_output=True, text=True, env=at_home.env, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["told"] == [1, 3]
    assert [one["role"] for one in printed["kept"]] == ["user", "assistant", "user", "assistant"]
    with connect() as sessiond:
        (info,) = sessiond.sessions()
        told = [(one.role, one.text) for one in sessiond.session(info.session_id).messages()]
    assert told == [
        ("user", "Will it rain in Ulm?"),
        ("assistant", "It rains."),
        ("user", "And tomorrow?"),
        ("assistant", "It rains."),
    ]
