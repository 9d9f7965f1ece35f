"""Without a terminal: each input line is a message or a command, and output is lines. For pipes, scripts and `M-x shell`."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading

from sessiond.cli.output import one_line
from sessiond.client import InvalidParams, SessiondError
from sessiond_repl.chat import Chat
from sessiond_repl.commands import Quit, obey

EX_FAILED = 1
READ_BYTES = 64 * 1024
PATIENCE_S = 2.0
"""How long the end waits for what is on its way to the daemon."""


class PlainScreen:
    """A Screen on plain streams. Streamed messages are printed line by line."""

    def _print(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    head = text = _print

    def info(self, text: str) -> None:
        self._print(f"── {text}")

    def error(self, text: str) -> None:
        sys.stdout.flush()
        sys.stderr.write(f"sessiond: {one_line(text)}\n")
        sys.stderr.flush()

    def tail(self, text: str) -> None:
        """Shows nothing: incomplete lines wait until they are complete."""

    def table(self, headings: list[str], rows: list[list[str]]) -> None:
        for row in rows:
            self._print("\t".join(one_line(cell) if cell else "" for cell in row))


async def converse(session_id: str | None, agent: str | None) -> int:
    """Run until the end of input. Returns 1 if anything the user asked for failed."""
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    chat = Chat(PlainScreen(), agent)
    stopped = asyncio.Event()
    await chat.begin(session_id)
    _on_signals(chat, stopped)
    lines = _stdin_lines()
    try:
        while not stopped.is_set():
            try:
                text = await _next_text(lines, stopped)
                if text is None:
                    break
                await _take_or_stopped(chat, text, stopped)
                if not stopped.is_set():
                    await chat.turns_over()  # the next line may be about the reply
            except SessiondError as error:
                chat.fail(error)
    except Quit:
        pass
    finally:
        await chat.leave()
    farewell(chat)
    return EX_FAILED if chat.failed else 0


async def take(chat: Chat, text: str) -> None:
    """Handle what was typed: a command or a message. Quit, SessiondError."""
    if text.startswith("/") and not text.startswith("//"):
        await obey(chat, text.rstrip())
    elif text.strip():
        await chat.say(text.removeprefix("/"))


async def _take_or_stopped(chat: Chat, text: str, stopped: asyncio.Event) -> None:
    """Handle what was typed; when we are stopped meanwhile, only for a moment more."""
    doing = asyncio.create_task(take(chat, text))
    end = asyncio.create_task(stopped.wait())
    await asyncio.wait({doing, end}, return_when=asyncio.FIRST_COMPLETED)
    end.cancel()
    if not (await asyncio.wait({doing}, timeout=PATIENCE_S))[0]:
        doing.cancel()
    try:
        await doing
    except asyncio.CancelledError:
        if not doing.cancelled():
            raise
        chat.failed = True
        chat.screen.error(f"the daemon has not answered; it may not have: {one_line(text, 200)}")


def farewell(chat: Chat) -> None:
    """Show the id, and how to resume."""
    chat.screen.info(f"session {chat.session_id}")
    chat.screen.info(f"to resume: sessiond repl --session-id {chat.session_id}")


def _on_signals(chat: Chat, stopped: asyncio.Event) -> None:
    def interrupted() -> None:
        if not chat.interrupt():
            stopped.set()

    def ended() -> None:
        stopped.set()
        chat.interrupt()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended)


async def _next_text(lines: asyncio.Queue[bytes], stopped: asyncio.Event) -> str | None:
    """The next line; a backslash at its end joins the one after it. None at the end."""
    parts: list[str] = []
    while True:
        line = await _or_stopped(lines, stopped)
        if not line:
            return "\n".join(parts) if parts else None
        try:
            text = line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise InvalidParams(f"a line of standard input is not valid UTF-8 (byte {error.start})") from None
        if not text.endswith("\\"):
            return "\n".join((*parts, text))
        parts.append(text[:-1])


async def _or_stopped(lines: asyncio.Queue[bytes], stopped: asyncio.Event) -> bytes:
    line = asyncio.create_task(lines.get())
    end = asyncio.create_task(stopped.wait())
    await asyncio.wait({line, end}, return_when=asyncio.FIRST_COMPLETED)
    end.cancel()
    if line.done():
        return line.result()
    line.cancel()
    return b""


def _stdin_lines() -> asyncio.Queue[bytes]:
    """Lines of standard input, read a few ahead; b"" at the end. A thread reads them, because the loop cannot wait for a file."""
    lines: asyncio.Queue[bytes] = asyncio.Queue(16)
    loop = asyncio.get_running_loop()

    def put(line: bytes) -> None:
        asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()

    def read() -> None:
        begun = bytearray()
        try:
            while chunk := _read():
                *ended, rest = chunk.split(b"\n")
                for end in ended:
                    put(bytes(begun + end + b"\n"))
                    begun.clear()
                begun += rest
            if begun:
                put(bytes(begun))
            put(b"")
        except (RuntimeError, OSError):
            pass  # the loop or the stream is closed: we are leaving

    threading.Thread(target=read, daemon=True, name="stdin").start()
    return lines


def _read() -> bytes:
    """Read what is there; empty at the end. Not through `sys.stdin`: who waits in it holds its lock, without which Python cannot end."""
    while True:
        try:
            return os.read(0, READ_BYTES)
        except BlockingIOError:  # whoever made the pipe set it so
            select.select([0], [], [])
