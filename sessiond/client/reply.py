"""A message that streams in, for the blocking client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from sessiond.client import forks, requests
from sessiond.client.link import Link
from sessiond.client.tape import Tape
from sessiond.client.types import ToolCall
from sessiond.errors import SessiondError

LEAVE_S = 5.0
"""The deadline for marking a reply as `interrupted`. The daemon finds out by itself when the connection ends."""


class Reply:
    """Made by `Session.stream`; a context manager. If the block ends normally, the message is `done` and durable; if by an
    exception, it is `interrupted` and keeps what was written.
    """

    def __init__(self, link: Link, session_id: str, message_id: str, seq: int, length: int) -> None:
        self.id = message_id
        self.seq = seq
        self.status = "streaming"
        self._link = link
        self._session_id = session_id
        self._tape = Tape(session_id, message_id, length)
        self._begun = forks.process()

    def write(self, text: str, *, timeout_s: float | None = None) -> None:
        """Add text. Others see it at once; it is durable when `flush` or the end of the `with` block returns.

        Waits only while 32 pieces or a million characters are not acknowledged. The errors of an earlier piece are raised here
        too: Conflict if somebody ended or removed the message, ReadOnly, TooLarge, DaemonUnreachable, NoAnswer. Closed in a
        process that was forked meanwhile: only the one that began the message writes it.
        """
        forks.check_begun(self._begun, "the reply")
        self._tape.add(text)
        self._link.play(self._tape, timeout_s, to_end=False)

    def flush(self, *, timeout_s: float | None = None) -> None:
        """Returns when everything written so far is durable. Errors as for `write`."""
        forks.check_begun(self._begun, "the reply")
        self._link.play(self._tape, timeout_s, to_end=True)

    def finish(
        self,
        status: str = "done",
        *,
        metadata: Mapping[str, Any] | None = None,
        tool_calls: Iterable[ToolCall] = (),
        timeout_s: float | None = None,
    ) -> None:
        """End the message as `done`, `interrupted` or `error`, durably. `metadata` is merged into the message's by key.

        Leaving the `with` block does this by itself; call it to say more. Errors as for `write`.
        """
        if status == "done" or self._tape.refusal is None:
            self.flush(timeout_s=timeout_s)
        request = requests.finish(self._session_id, self.id, status, metadata, tool_calls)
        self._link.call(request, timeout_s)
        self.status = status

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self.status != "streaming" or self._begun is not forks.process():
            return
        if kind is not None:
            self._cut_off()  # the caller hears of what did it
            return
        try:
            self.finish()
        except SessiondError:
            if self._tape.refusal is not None:
                self._cut_off()
            raise

    def _cut_off(self) -> None:
        timeout_s = min(LEAVE_S, self._link.timeout_s)
        with suppress(SessiondError):
            try:
                self.flush(timeout_s=timeout_s)
            except SessiondError:
                if self._tape.refusal is None:
                    raise
            self.finish("interrupted", timeout_s=timeout_s)
