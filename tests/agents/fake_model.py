"""A model that runs on 127.0.0.1 and answers by rule, so that real agents run without a network: OpenAI's chat completions
and responses, Anthropic's messages, and Google's contents.

The newest prompt says what to answer. `RUN <command>` in it makes the model say a sentence and call the agent's shell, and
`SEARCH <word>` the search of `sessiond mcp`; once the result is there, and for all other prompts, it says `Answer N: <prompt>`, where N counts the prompts. If the agent
itself asks for a summary, it gives one. The model remembers what it was sent. `hold` makes it fall silent in the middle of what it says, until it may go on.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

PROMPT = re.compile(r"(?:First|Second|Third|Fourth|Fifth|Sixth) prompt[^\n\"<]*")
"""The prompts that the tests type. Everything else that an agent sends under the user's role is the agent's own."""
RUN = re.compile(r"RUN ([a-z. ]+)")
SEARCH = re.compile(r"SEARCH ([a-z]+)")
_SHELLS = ("exec_command", "shell_command", "shell", "Bash", "bash", "run_shell_command")
LOOKING = "I shall look."
SUMMARY = "<summary><state_snapshot>There was a talk about apples.</state_snapshot></summary>"
"""In the words that one agent or another looks for in it."""
_SUMMARIES = re.compile(
    r"<state_snapshot>|CONTEXT CHECKPOINT COMPACTION|<summary>|^<conversation>|^# Conversation$|^Here is the conversation",
    re.MULTILINE,
)
_FINDER, _FOUND = "ToolSearch", "mcp__sessiond__search"
"""Claude Code tells its model only the names of the tools that servers have; this tool gives their schemas."""

Item: TypeAlias = tuple[str, ...]
"""`("user", text)`, `("assistant", text)`, `("call", name, arguments as JSON)` or `("result", text)`."""
Json: TypeAlias = dict[str, Any]


class Request:
    """What the model was sent, in order, and what it answered."""

    def __init__(self, items: list[Item], tools: dict[str, Json], body: Json) -> None:
        self.items = items
        self.tools = tools
        self.body = body
        self.answer: list[Item] = []

    @property
    def prompts(self) -> list[str]:
        return [item[1] for item in self.items if item[0] == "user"]


class FakeModel:
    """Use it as a context manager. `requests`: in the order of their answers. `sent`: how many tokens each request had."""

    def __init__(self) -> None:
        self.sent = 100
        self.requests: list[Request] = []
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._lock = threading.Lock()
        self._calls = 0
        self._turnstile = threading.Condition()
        self._passed = 0
        self._most: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FakeModel:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self._server.shutdown()
        self._server.server_close()

    def hold(self, after: int) -> None:
        """From now on, say that many pieces (words, mostly), and then nothing."""
        with self._turnstile:
            self._passed, self._most = 0, after

    @property
    def held(self) -> bool:
        """Whether it has come to that point."""
        with self._turnstile:
            return self._most is not None and self._passed > self._most

    def go_on(self) -> None:
        with self._turnstile:
            self._most = None
            self._turnstile.notify_all()

    def pass_piece(self) -> None:
        """Returns when the next piece may be said."""
        with self._turnstile:
            self._passed += 1
            while self._most is not None and self._passed > self._most:
                self._turnstile.wait()

    def conversation(self, first: str) -> list[Item]:
        """The whole conversation that began with the prompt `first`: the longest one that was sent, and its answer. What an agent
        adds before the first prompt, and its own questions about the conversation, are left out.
        """
        found = [one for one in self.requests if one.prompts[:1] == [first] and _shell(one.tools)]
        asked = [one for one in found if one.items[-1][0] in ("user", "result")]
        assert asked, [one.prompts for one in self.requests]
        last = max(asked, key=lambda one: len(one.items))
        return last.items[last.items.index(("user", first)) :] + last.answer

    def turn(self, prompt: str) -> list[Item]:
        """A prompt and all that was sent and answered after it, until the agent was done with it."""
        found = [one for one in self.requests if one.prompts[-1:] == [prompt] and _shell(one.tools)]
        asked = [one for one in found if one.items[-1] == ("user", prompt) or one.items[-1][0] == "result"]
        assert asked, [one.prompts for one in self.requests]
        last = asked[-1]
        return last.items[len(last.items) - 1 - last.items[::-1].index(("user", prompt)) :] + last.answer

    def answer(self, request: Request) -> tuple[str, tuple[str, Json, str] | None]:
        """The text, and a call: the shell's name, its arguments and an id."""
        prompts = request.prompts
        newest = prompts[-1] if prompts else ""
        positions = [n for n, item in enumerate(request.items) if item == ("user", newest)]
        after = request.items[positions[-1] + 1 :] if positions else []
        wanted = _wanted(newest, request.tools, after)
        call = None
        text = SUMMARY if _asks_for_a_summary(request.body) else f"Answer {len(prompts)}: {newest}"
        with self._lock:
            if wanted:
                self._calls += 1
                call = (*wanted, f"call_{self._calls:08d}")
                text = LOOKING
            request.answer = [("assistant", text)]
            if call is not None:
                request.answer.append(("call", call[0], json.dumps(call[1], sort_keys=True)))
            self.requests.append(request)
        return text, call


def _wanted(prompt: str, tools: dict[str, Json], after: list[Item]) -> tuple[str, Json] | None:
    """The tool that a prompt still wants called, and its arguments. `after`: what came after the prompt."""
    run, shell, search = RUN.search(prompt), _shell(tools), SEARCH.search(prompt)
    called = [item[1] for item in after if item[0] == "call"]
    if run and shell and not any(item[0] == "result" for item in after):
        return shell, _arguments(tools[shell], run[1].strip())
    if not search or any(name != _FINDER for name in called):
        return None
    found = [name for name in tools if "sessiond" in name and name.endswith("search")]
    if not found and _FINDER in tools:
        if _FINDER not in called:
            return _FINDER, {"query": f"select:{_FOUND}"}
        found = [_FOUND]  # its schema is in the result
    return (found[0], {"query": search[1]}) if found else None


def _asks_for_a_summary(body: Json) -> bool:
    """Whether the agent, in its own words, asks for what a compaction keeps."""
    messages = body.get("messages") or body.get("input") or body.get("contents") or [{}]
    last = messages[-1]
    content = last.get("content") or last.get("parts") or ""
    text = content if isinstance(content, str) else _text(content[-1])
    return last.get("role") == "user" and _SUMMARIES.search(text) is not None


def _shell(tools: dict[str, Json]) -> str | None:
    return next((name for name in _SHELLS if name in tools), None)


def _arguments(schema: Json, command: str) -> Json:
    """Arguments that the schema of a shell allows."""
    arguments: Json = {}
    properties = schema.get("properties") or {}
    for key in ("command", "cmd"):
        if key in properties:
            listed = "array" in json.dumps(properties[key].get("type", ""))
            arguments[key] = ["bash", "-lc", command] if listed else command
            break
    fillers: Json = {"boolean": False, "number": 10_000, "integer": 10_000, "array": []}
    for key in schema.get("required") or []:
        arguments.setdefault(key, fillers.get(properties.get(key, {}).get("type"), "list the files"))
    return arguments


def _text(content: Any) -> str:
    """The text of a message's content, in any of the three dialects."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_text, content)))
    if isinstance(content, dict):
        return _text(content.get("text", content.get("content", "")))
    return ""


def _said(role: str, text: str) -> Iterator[Item]:
    if role == "user":
        for prompt in PROMPT.findall(text):
            yield "user", prompt.strip()
    elif role == "assistant" and text:
        yield "assistant", text


def _call(name: str, arguments: Any) -> Item:
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    return "call", name, json.dumps(value, sort_keys=True)


def from_chat(body: Json) -> Request:
    items: list[Item] = []
    for message in body.get("messages") or []:
        text = _text(message.get("content"))
        if message["role"] == "tool":
            items.append(("result", text))
        items += _said(message["role"], text)
        items += [
            _call(one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls") or []
        ]
    functions = [tool["function"] for tool in body.get("tools") or []]
    return Request(items, {one["name"]: one.get("parameters") or {} for one in functions}, body)


def from_responses(body: Json) -> Request:
    items: list[Item] = []
    for item in body.get("input") or []:
        kind = item.get("type", "message")
        if kind == "message":
            items += _said(item["role"], _text(item.get("content")))
        elif kind == "function_call":
            items.append(_call(item["name"], item["arguments"]))
        elif kind == "function_call_output":
            items.append(("result", _text(item.get("output"))))
    tools: dict[str, Json] = {}
    for tool in body.get("tools") or []:
        space = f"{tool['name']}/" if str(tool.get("name")).startswith("mcp__") else ""
        for one in tool.get("tools") or [tool]:
            tools[space + str(one.get("name"))] = one.get("parameters") or {}
    return Request(items, tools, body)


def from_anthropic(body: Json) -> Request:
    items: list[Item] = []
    for message in body.get("messages") or []:
        content = message["content"]
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if block["type"] == "tool_use":
                items.append(_call(block["name"], block["input"]))
            elif block["type"] == "tool_result":
                items.append(("result", _text(block.get("content"))))
            else:
                items += _said(message["role"], _text(block))
    tools = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or []}
    return Request(items, tools, body)


def from_google(body: Json) -> Request:
    items: list[Item] = []
    for message in body.get("contents") or []:
        role = "assistant" if message.get("role") == "model" else "user"
        for part in message.get("parts") or []:
            if "functionCall" in part:
                items.append(_call(part["functionCall"]["name"], part["functionCall"].get("args") or {}))
            elif "functionResponse" in part:
                items.append(("result", _text(part["functionResponse"].get("response", {}).get("output", ""))))
            else:
                items += _said(role, _text(part))
    declared = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations") or []]
    tools = {one["name"]: one.get("parametersJsonSchema") or one.get("parameters") or {} for one in declared}
    return Request(items, tools, body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: FakeModel
    of_a_turn = False

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: pytest's output is for people."""

    def do_HEAD(self) -> None:
        self._document({})

    def do_GET(self) -> None:
        models = [{"id": "fake-model", "object": "model", "created": 1, "owned_by": "tests", "slug": "fake-model"}]
        self._document({"object": "list", "data": models, "models": []})

    def do_POST(self) -> None:
        body = json.loads(self._body() or b"{}")
        self.of_a_turn = bool(body.get("tools"))  # others are the agent's own, for titles
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            self._chat(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith("/messages"):
            self._anthropic(body)
        elif path.endswith((":generateContent", ":streamGenerateContent")):
            self._google(body, stream=path.endswith(":streamGenerateContent"))
        else:
            self._document({"input_tokens": 100})

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _document(self, value: Json) -> None:
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("request-id", f"req_{len(self.model.requests)}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _events(self, events: list[tuple[str | None, Json | str]]) -> None:
        """Server-sent events, each with its name if it has one."""
        self.close_connection = True
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the agent was killed, or has cancelled
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("request-id", f"req_{len(self.model.requests)}")  # as Anthropic's
            self.send_header("Connection", "close")
            self.end_headers()
            for name, data in events:
                if self.of_a_turn:
                    self.model.pass_piece()
                head = f"event: {name}\n" if name else ""
                text = data if isinstance(data, str) else json.dumps(data)
                self.wfile.write(f"{head}data: {text}\n\n".encode())
                self.wfile.flush()

    def _chat(self, body: Json) -> None:
        text, call = self.model.answer(from_chat(body))
        sent = self.model.sent
        usage = {"prompt_tokens": sent, "completion_tokens": 10, "total_tokens": sent + 10}
        base = {"id": "chatcmpl-1", "created": 1, "model": "fake-model"}
        calls = []
        if call is not None:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            calls = [{"index": 0, "id": call[2], "type": "function", "function": function}]
        reason = "tool_calls" if calls else "stop"
        if not body.get("stream"):
            message = {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._document({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return

        def chunk(delta: Json, reason: str | None = None) -> tuple[None, Json]:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            return None, {**base, "object": "chat.completion.chunk", "choices": [choice]}

        words = [chunk({"content": word}) for word in re.findall(r"\S+\s*", text)]
        ended = {**base, "object": "chat.completion.chunk", "choices": [], "usage": usage}
        events: list[tuple[str | None, Json | str]] = [chunk({"role": "assistant", "content": ""}), *words]
        events += [chunk({"tool_calls": calls})] if calls else []
        self._events([*events, chunk({}, reason), (None, ended), (None, "[DONE]")])

    def _responses(self, body: Json) -> None:
        text, call = self.model.answer(from_responses(body))
        number = len(self.model.requests)
        part = {"type": "output_text", "text": text, "annotations": []}
        message = {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        output: list[Json] = [message]
        if call is not None:
            space, _, name = call[0].rpartition("/")
            output.append({
                "type": "function_call", "id": f"fc_{number}", "call_id": call[2], "name": name, "status": "completed",
                "arguments": json.dumps(call[1]), **({"namespace": space} if space else {}),
            })  # fmt: skip
        usage = {
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 110,
        }  # fmt: skip
        base = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "fake-model", "output": []}
        done = {**base, "status": "completed", "output": output, "usage": usage}
        events: list[Json] = [{"type": "response.created", "response": {**base, "status": "in_progress"}}]
        for index, item in enumerate(output):
            events.append(
                {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}}
            )
            if item is message:
                place = {"output_index": index, "content_index": 0, "item_id": item["id"]}
                events.append({"type": "response.content_part.added", **place, "part": {**part, "text": ""}})
                events += [
                    {"type": "response.output_text.delta", **place, "delta": word}
                    for word in re.findall(r"\S+\s*", text)
                ]
                events.append({"type": "response.output_text.done", **place, "text": text})
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        events.append({"type": "response.completed", "response": done})
        self._events([(one["type"], {**one, "sequence_number": number}) for number, one in enumerate(events)])

    def _anthropic(self, body: Json) -> None:
        text, call = self.model.answer(from_anthropic(body))
        blocks: list[Json] = [{"type": "text", "text": text}]
        if call is not None:
            blocks.append({"type": "tool_use", "id": f"toolu_{call[2]}", "name": call[0], "input": call[1]})
        reason = "tool_use" if call else "end_turn"
        usage = {
            "input_tokens": 100,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 10,
        }
        message = {
            "id": f"msg_{len(self.model.requests)}", "type": "message", "role": "assistant", "model": "fake-model",
            "content": blocks, "stop_reason": reason, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not body.get("stream"):
            self._document(message)
            return
        events: list[Json] = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        for index, block in enumerate(blocks):
            empty = {**block, "text": ""} if "text" in block else {**block, "input": {}}
            deltas: list[Json] = [{"type": "text_delta", "text": word} for word in re.findall(r"\S+\s*", text)]
            if "input" in block:
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        events.append(
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
        )
        self._events([(one["type"], one) for one in [*events, {"type": "message_stop"}]])

    def _google(self, body: Json, *, stream: bool) -> None:
        text, call = self.model.answer(from_google(body))
        parts: list[Json] = [{"text": text}]
        if call is not None:
            parts.append({"functionCall": {"id": call[2], "name": call[0], "args": call[1]}})
        usage = {
            "promptTokenCount": self.model.sent,
            "candidatesTokenCount": 10,
            "totalTokenCount": self.model.sent + 10,
        }
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, "finishReason": "STOP"}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake-model"}
        if stream:
            self._events([(None, answer)])
        else:
            self._document(answer)
