"""One turn of a command that plays the assistant.

It gets the transcript as JSON Lines (one message a line, as the wire has them) on its standard input; what it prints
is the reply, kept as it arrives: append with `streaming`, extend, finish. Exit code 0: `done`; any other: `error`;
stopped by the user: `interrupted`.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import uuid

import msgspec

from sessiond.cli.output import one_line
from sessiond.client import AsyncReply, AsyncSession, Message, SessiondError
from sessiond.model.values import JsonObject
from sessiond_repl.view import Screen, View

READ_BYTES = 64 * 1024
GRACE_S = 2.0
"""Between asking the command to stop and killing it; after the same time again its output is given up."""
STDERR_BYTES = 4096
"""How much of the end of its standard error is kept, and shown if it fails."""


class Turn:
    """Runs once, for one view, which stays the same even if another session is opened meanwhile."""

    def __init__(self, session: AsyncSession, view: View, screen: Screen, command: str) -> None:
        self._session = session
        self._view = view
        self._screen = screen
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._interrupted = False
        self._given_up = asyncio.Event()

    async def run(self) -> str:
        """Returns the reply's status. SessiondError if it could not be kept, OSError if the command could not be run."""
        messages = await self._session.messages()
        message_id = f"m-{uuid.uuid4()}"
        self._view.own.add(message_id)
        async with await self._session.stream("assistant", id=message_id) as reply:
            self._view.stream(message_id, f"── assistant #{reply.seq}", seq=reply.seq)
            if self._interrupted:
                return await self._finish(reply, "interrupted")
            try:
                code, stderr = await self._run(messages, reply)
            except BaseException:
                self._kill(signal.SIGKILL)
                with contextlib.suppress(SessiondError):
                    await self._finish(reply, "error")
                raise
            if self._interrupted:
                return await self._finish(reply, "interrupted")
            if code == 0:
                return await self._finish(reply, "done")
            for line in stderr.splitlines()[-5:]:
                self._screen.error(one_line(line))
            self._screen.error(f"the agent exited with code {code}")
            return await self._finish(reply, "error", {"exitCode": code, "stderr": stderr})

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

    async def _run(self, messages: list[Message], reply: AsyncReply) -> tuple[int, str]:
        """Run the command to its end. Its exit code, and the end of its standard error."""
        pipe = asyncio.subprocess.PIPE
        self._process = process = await asyncio.create_subprocess_shell(
            self._command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,  # so that Ctrl-C reaches it, and all that it starts, only through us
            env={**os.environ, "SESSIOND_SESSION_ID": self._session.id},
        )
        if self._interrupted:
            self._kill(signal.SIGINT)
        feeding = asyncio.create_task(_feed(process, messages))
        listening = asyncio.create_task(_end_of(process.stderr))
        given_up = asyncio.create_task(self._given_up.wait())
        try:
            keeping = asyncio.create_task(self._keep(process.stdout, reply))
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

    async def _keep(self, stdout: asyncio.StreamReader | None, reply: AsyncReply) -> None:
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
                self._view.extend(reply.id, ended, None)
                await reply.write(ended)
            if not data:
                return

    async def _finish(self, reply: AsyncReply, status: str, metadata: JsonObject | None = None) -> str:
        self._view.finish(reply.id, status)
        await reply.finish(status, metadata=metadata)
        return status


async def _feed(process: asyncio.subprocess.Process, messages: list[Message]) -> None:
    """Write the transcript to the command, which may close its standard input or end before reading it."""
    stdin = process.stdin
    assert stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for message in messages:
            stdin.write(msgspec.json.encode(message) + b"\n")
            await stdin.drain()
    stdin.close()


async def _end_of(stderr: asyncio.StreamReader | None) -> str:
    assert stderr is not None
    kept = b""
    while data := await stderr.read(READ_BYTES):
        kept = (kept + data)[-STDERR_BYTES:]
    return kept.decode("utf-8", "replace").strip()
