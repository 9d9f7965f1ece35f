"""One turn of a command that plays the assistant.

It gets the transcript as JSON Lines (one message a line, as the wire has them) on its standard input; what it prints
is the reply, kept as it arrives: append with `streaming`, extend, finish. Exit code 0: `done`; any other: `error`;
stopped by the user: `interrupted`.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import os
import signal
import uuid
from typing import Any, Protocol

from sessiond.cli.output import one_line
from sessiond.errors import SessiondError
from sessiond_repl.view import Screen, View

READ_BYTES = 64 * 1024
PAGE_MESSAGES = 1000
GRACE_S = 2.0
"""Between asking the command to stop and killing it; after the same time again its output is given up."""
STDERR_BYTES = 4096
"""How much of the end of its standard error is kept, and shown if it fails."""


class Conversation(Protocol):
    """What a turn needs from the chat."""

    screen: Screen

    async def call(self, method: str, **params: Any) -> Any: ...

    async def append(self, view: View, message: dict[str, Any]) -> int:
        """Keep one of our messages, which has an id. Returns its seq."""


class Turn:
    """Runs once, for one view, which stays the same even if another session is opened meanwhile."""

    def __init__(self, chat: Conversation, view: View, command: str) -> None:
        self._chat = chat
        self._view = view
        self._command = command
        self._message_id = f"m-{uuid.uuid4()}"
        self._process: asyncio.subprocess.Process | None = None
        self._interrupted = False
        self._given_up = asyncio.Event()
        self._length = 0
        """How many code points of the reply are kept."""

    async def run(self) -> str:
        """Returns the reply's status. SessiondError if it could not be kept, OSError if the command could not be run."""
        messages = await self._transcript()
        message = {"id": self._message_id, "role": "assistant", "content": "", "status": "streaming"}
        self._view.own.add(self._message_id)
        seq = await self._chat.append(self._view, message)
        self._view.stream(self._message_id, f"── assistant #{seq}", seq=seq)
        if self._interrupted:
            return await self._finish("interrupted", {})
        try:
            code, stderr = await self._run(messages)
        except BaseException:
            self._kill(signal.SIGKILL)
            with contextlib.suppress(SessiondError):
                await self._finish("error", {})
            raise
        if self._interrupted:
            return await self._finish("interrupted", {})
        if code == 0:
            return await self._finish("done", {})
        for line in stderr.splitlines()[-5:]:
            self._chat.screen.error(one_line(line))
        self._chat.screen.error(f"the agent exited with code {code}")
        return await self._finish("error", {"exitCode": code, "stderr": stderr})

    def interrupt(self) -> None:
        """Stop. What was printed so far is kept."""
        if self._interrupted:
            self._kill(signal.SIGKILL)
            return
        self._interrupted = True
        self._kill(signal.SIGINT)
        loop = asyncio.get_running_loop()
        loop.call_later(GRACE_S, self._kill, signal.SIGKILL)
        loop.call_later(2 * GRACE_S, self._given_up.set)

    def _kill(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def _transcript(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        more, since = True, 0
        while more:
            page = await self._chat.call(
                "session/read", sessionId=self._view.session_id, since=since, limit=PAGE_MESSAGES
            )
            found += page["messages"]
            more = page["hasMore"]
            since = found[-1]["seq"] if found else 0
        return found

    async def _run(self, messages: list[dict[str, Any]]) -> tuple[int, str]:
        """Run the command to its end. Its exit code, and the end of its standard error."""
        pipe = asyncio.subprocess.PIPE
        self._process = process = await asyncio.create_subprocess_shell(
            self._command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,  # so that Ctrl-C reaches it, and all that it starts, only through us
            env={**os.environ, "SESSIOND_SESSION_ID": self._view.session_id},
        )
        if self._interrupted:
            self._kill(signal.SIGINT)
        feeding = asyncio.create_task(_feed(process, messages))
        listening = asyncio.create_task(_end_of(process.stderr))
        given_up = asyncio.create_task(self._given_up.wait())
        try:
            keeping = asyncio.create_task(self._keep(process.stdout))
            await asyncio.wait({keeping, given_up}, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
                await asyncio.wait({asyncio.create_task(process.wait()), given_up}, return_when=asyncio.FIRST_COMPLETED)
            else:
                keeping.cancel()
        finally:
            for task in (feeding, given_up):
                task.cancel()
        code = process.returncode if process.returncode is not None else -signal.SIGKILL
        done, _ = await asyncio.wait({listening}, timeout=0.2)
        listening.cancel()
        return code, listening.result() if done else ""

    async def _keep(self, stdout: asyncio.StreamReader | None) -> None:
        """Everything it prints goes into the reply, except newlines at the very end."""
        assert stdout is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        held = ""
        while True:
            data = await stdout.read(READ_BYTES)
            text = held + decoder.decode(data, final=not data)
            ended = text.rstrip("\n")
            held = text[len(ended) :]
            if ended:
                self._view.extend(self._message_id, ended, None)
                await self._extend(ended)
            if not data:
                return

    async def _extend(self, text: str) -> None:
        params = {"sessionId": self._view.session_id, "messageId": self._message_id}
        answer = await self._chat.call("session/extend", **params, text=text, offset=self._length)
        self._length += len(text)
        self._view.cursor.take([answer["seq"]])

    async def _finish(self, status: str, metadata: dict[str, Any]) -> str:
        self._view.finish(self._message_id, {"status": status})
        params = {"sessionId": self._view.session_id, "messageId": self._message_id, "status": status}
        answer = await self._chat.call("session/finish", **params, **({"metadata": metadata} if metadata else {}))
        self._view.cursor.take([answer["seq"]])
        return status


async def _feed(process: asyncio.subprocess.Process, messages: list[dict[str, Any]]) -> None:
    """Write the transcript to the command, which may close its standard input or end before reading it."""
    stdin = process.stdin
    assert stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for message in messages:
            stdin.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
            await stdin.drain()
    stdin.close()


async def _end_of(stderr: asyncio.StreamReader | None) -> str:
    assert stderr is not None
    kept = b""
    while data := await stderr.read(READ_BYTES):
        kept = (kept + data)[-STDERR_BYTES:]
    return kept.decode("utf-8", "replace").strip()
