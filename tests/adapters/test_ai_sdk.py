"""The JavaScript in `docs/adapters.md` runs unchanged, with the real AI SDK and a model that it brings for tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

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

TOOL = """
import { jsonSchema, tool } from 'ai'
const tools = { weather: tool({ description: 'asks the page', inputSchema: jsonSchema({ type: 'object' }) }) }
const call = { type: 'tool-call', toolCallId: 'c1', toolName: 'weather', input: '{}' }
"""
TOOL_PAGE = """
import { parseJsonEventStream, readUIMessageStream, uiMessageChunkSchema } from 'ai'
const id = await start('Weather')
let messages = [{ id: 'user-0', role: 'user', parts: [{ type: 'text', text: 'Will it rain in Ulm?' }] }]
async function post() {
  const response = await POST(new Request('http://localhost/', { method: 'POST', body: JSON.stringify({ id, messages }) }))
  let message = messages.at(-1).role === 'assistant' ? messages.pop() : undefined
  const value = new TransformStream({ transform: (chunk, to) => to.enqueue(chunk.value) })
  const stream = parseJsonEventStream({ stream: response.body, schema: uiMessageChunkSchema }).pipeThrough(value)
  const onError = (error) => { throw error }
  for await (message of readUIMessageStream({ message, stream, onError, terminateOnError: true }));
  messages.push(structuredClone(message))
}
await post()
const part = messages[1].parts.find((part) => part.type === 'tool-weather')
part.state = 'output-available'
part.output = { rain: true }
await post()
messages.push({ id: 'user-1', role: 'user', parts: [{ type: 'text', text: 'And tomorrow?' }] })
await post()
console.log(JSON.stringify({ shown: messages, kept: await load(id) }))
connection.close()
"""
"""What `useChat` does where the page runs the tool: the reply goes on in the same message."""


@pytest.fixture
def ai() -> Path:
    """The folder in which the AI SDK is installed. Skips (fails with CI=true) without it."""
    if not (CACHE / "complete").exists():
        reason = "the AI SDK is not installed: sh tests/adapters/ai_install"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return CACHE


def chat(at_home: KilledHome, ai: Path, folder: Path, model: str, page: str) -> Any:
    """Run the documented route with this model and this page. Return what the page prints, as JSON."""
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
    if "const tools" in model:
        program = program.replace("streamText({ model,", "streamText({ model, tools,")
    (folder / "node_modules").symlink_to(ai / "node_modules")
    (folder / "chat.mjs").write_text(model + program + page)
    done = subprocess.run(
        [NODE, folder / "chat.mjs"], capture_output=True, text=True, env=at_home.env, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def words() -> list[tuple[str, str]]:
    """Return role and text of each message of the only session."""
    with connect() as sessiond:
        (info,) = sessiond.sessions()
        return [(one.role, one.text) for one in sessiond.session(info.session_id).messages()]


def test_a_chat_is_kept(at_home: KilledHome, ai: Path, tmp_path: Path) -> None:
    """Two prompts: the model gets what was kept, the session has the words in order, and `load` returns the messages as they were."""
    printed = chat(at_home, ai, tmp_path, MODEL, PAGE)
    assert printed["told"] == [1, 3]
    assert [one["role"] for one in printed["kept"]] == ["user", "assistant", "user", "assistant"]
    assert words() == [
        ("user", "Will it rain in Ulm?"),
        ("assistant", "It rains."),
        ("user", "And tomorrow?"),
        ("assistant", "It rains."),
    ]


def test_a_reply_that_goes_on_after_a_tool_of_the_page_is_kept(at_home: KilledHome, ai: Path, tmp_path: Path) -> None:
    """The SDK extends the message that was saved already. `load` returns what the page shows, and other tools find every word."""
    calls = MODEL.replace(
        "      { type: 'text-start'", "      ...(received.length > 1 ? [] : [call]),\n      { type: 'text-start'"
    )
    calls = calls.replace("'It '", "`${received.length}: It `")
    calls = calls.replace("'stop', raw: 'stop'", "received.length > 1 ? 'stop' : 'tool-calls', raw: ''")
    printed = chat(at_home, ai, tmp_path, TOOL + calls, TOOL_PAGE)
    assert printed["kept"] == printed["shown"]
    assert [one["role"] for one in printed["kept"]] == ["user", "assistant", "user", "assistant"]
    assert words() == [
        ("user", "Will it rain in Ulm?"),
        ("assistant", "1: It rains."),
        ("assistant", "1: It rains.\n2: It rains."),
        ("user", "And tomorrow?"),
        ("assistant", "3: It rains."),
    ]
