"""The changes that windows make: messages, names, the archive, cuts, new and deleted sessions. Durable before a window is told so.

A window shows its change at once. If that is refused it takes it back without a word, so a message that cannot be kept stays, with
the reason, as a turn that failed; other changes are only taken back.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Sequence
from typing import NoReturn, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from sessiond.agent_host import shapes
from sessiond.agent_host.confirmations import Confirmation
from sessiond.agent_host.hosted import Hosted
from sessiond.agent_host.shapes import State
from sessiond.errors import AlreadyExists, SessiondError, SessionNotFound
from sessiond.model.values import Json, is_session_id
from sessiond.schema.sessions import AnswerParams
from sessiond.service.sessions import Service

log = logging.getLogger(__name__)
_DRIVE = re.compile(r"/[A-Za-z]:/")
_NAME_CHARS = 60
"""A session that a window made is called what is said first in it, up to here."""


class WindowRefused(Exception):
    """`code`, `data`: where a request is refused. An action is refused with the text alone."""

    def __init__(self, message: str, code: int = shapes.INVALID_PARAMS, data: State | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class _Fields(msgspec.Struct, rename="camel"):
    """Root. Unknown fields are ignored, as the protocol wants it."""


class _Said(_Fields):
    text: str
    attachments: list[Json] = []


class _TurnStarted(_Fields):
    turn_id: str
    message: _Said


class _Pending(_Fields):
    id: str
    message: _Said


class _Cancelled(_Fields):
    turn_id: str


class _Value(_Fields):
    kind: str
    value: Json = None


class _Answer(_Fields):
    value: _Value


class _Completed(_Fields):
    request_id: str
    response: str
    answers: dict[str, _Answer] = {}


class _Truncated(_Fields):
    turn_id: str | None = None


class _Titled(_Fields):
    title: str


class _Archived(_Fields):
    is_archived: bool


class _Created(_Fields):
    channel: str
    working_directories: list[str] = []


_decode_started = msgspec.json.Decoder(_TurnStarted).decode
_decode_pending = msgspec.json.Decoder(_Pending).decode
_decode_cancelled = msgspec.json.Decoder(_Cancelled).decode
_decode_completed = msgspec.json.Decoder(_Completed).decode
_decode_truncated = msgspec.json.Decoder(_Truncated).decode
_decode_titled = msgspec.json.Decoder(_Titled).decode
_decode_archived = msgspec.json.Decoder(_Archived).decode
decode_created = msgspec.json.Decoder(_Created).decode


class Opener(Protocol):
    async def opened_here(self, wire_id: str) -> Hosted:
        """Open for windows. SessiondError."""

    def draft(self, wire_id: str, cwd: str | None) -> bool:
        """Open for windows a session in which nothing was said, so that nobody else has it. Returns whether there was none."""

    def forget_draft(self, wire_id: str) -> bool:
        """Returns whether there was one."""


class Writing:
    """A writer of what windows change. Its changes have no origin, so windows that have the session open hear of them as of any change."""

    def __init__(self, service: Service, opener: Opener) -> None:
        self._service = service
        self._opener = opener

    # Actions

    async def take(self, hosted: Hosted, kind: str, action: bytes, origin: State) -> bool:
        """Do what the action says. Returns whether the window was told of it already. Refused, SessiondError, DecodeError,
        TimeoutError.
        """
        match kind:
            case "chat/turnStarted":
                started = _decode_started(action)
                return await self._say(hosted, started.turn_id, started.message, origin)
            case "chat/pendingMessageSet":
                pending = _decode_pending(action)
                return await self._say(hosted, pending.id, pending.message, origin)
            case "chat/turnCancelled":
                self._stop(hosted, _decode_cancelled(action).turn_id)
            case "chat/inputCompleted":
                return await self._answer(hosted, _decode_completed(action), origin)
            case "chat/truncated":
                return await self._cut(hosted, _decode_truncated(action).turn_id, origin)
            case "session/titleChanged":
                await self._update(hosted, {"name": _decode_titled(action).title})
                return False
            case "session/isArchivedChanged":
                await self._update(hosted, {"archived": _decode_archived(action).is_archived})
                return False
        raise WindowRefused("this cannot be changed here")

    async def _say(self, hosted: Hosted, message_id: str, said: _Said, origin: State) -> bool:
        """The message has the id of its turn, so what is sent again is there once."""
        if not said.text.strip() and not said.attachments:
            raise WindowRefused("nothing was said")
        wire: dict[str, Json] = {"id": message_id, "role": "user", "content": said.text}
        if said.attachments:
            wire["metadata"] = {"attachments": said.attachments}
        confirmation = Confirmation(origin, ("chat/turnStarted", message_id), ("chat/pendingMessageSet", message_id))
        again = hosted.is_past(message_id)
        with hosted.confirmations.expecting(confirmation):
            try:
                seq = await self._keep(hosted, said.text, wire)
            except SessiondError as error:
                hint = f"; {error.hint}" if error.hint else ""
                log.warning("a message to %s could not be kept: %s", hosted.wire_id, error)
                if not hosted.closed:
                    hosted.refuse(message_id, said.text, f"This was not kept: {error}{hint}")
                if confirmation.given:
                    return True
                raise
            # Before anything that may fail or take long: whoever answers is asked for what is kept. One that is sent again was
            # perhaps not asked for before the daemon was killed.
            if not again and not self._service.ask(hosted.wire_id, message_id):
                hosted.nobody_answers(message_id)
            await (hosted.born() if seq is None else hosted.reached(seq))
        if not confirmation.given:
            raise WindowRefused("it was said already")
        return True

    async def _keep(self, hosted: Hosted, text: str, wire: dict[str, Json]) -> int | None:
        """Its seq; None where it is the first message of a session."""
        async with hosted.beginning:
            if hosted.is_draft:
                name = " ".join(text.split())[:_NAME_CHARS] or None
                with contextlib.suppress(AlreadyExists):
                    await self._service.new(
                        None, session_id=hosted.wire_id, name=name, cwd=hosted.folder, messages=[wire]
                    )
                    return None
        seq = (await self._service.append(None, hosted.wire_id, [wire])).seq
        return None if hosted.is_draft else seq

    def _stop(self, hosted: Hosted, turn_id: str) -> NoReturn:
        """Its end is told by itself, because only whoever answers can end a text that streams in."""
        if hosted.now.active is None or hosted.now.active.id != turn_id:
            raise WindowRefused("that turn has ended")
        told = self._service.interrupt(hosted.wire_id, turn_id)
        if not hosted.stop() and not told:
            raise WindowRefused("nobody is here who could stop it")
        raise WindowRefused("it was asked to stop")

    async def _answer(self, hosted: Hosted, given: _Completed, origin: State) -> bool:
        """The first answer counts. A window that gives none leaves the question to the others."""
        question = hosted.asking.asks(given.request_id)
        if question is None:
            raise WindowRefused("that is not asked any more")
        said = given.answers.get(shapes.ANSWER)
        if given.response != "accept" or said is None or not isinstance(said.value.value, str):
            raise WindowRefused("it stays open, because it was not answered")
        params = AnswerParams(session_id=hosted.wire_id, question_id=question.id)
        if said.value.kind == "selected":
            params.choice = said.value.value
        elif said.value.kind == "text":
            params.text = said.value.value
        confirmation = Confirmation(origin, ("chat/inputCompleted", question.id))
        with hosted.confirmations.expecting(confirmation):
            if not self._service.open_sessions.activities.answer(hosted, params):
                raise WindowRefused("it was answered elsewhere")
            value: Json = {"kind": said.value.kind, "value": said.value.value}
            hosted.answered(question.id, {shapes.ANSWER: {"state": "submitted", "value": value}})
        return confirmation.given

    async def _cut(self, hosted: Hosted, turn_id: str | None, origin: State) -> bool:
        """Cut off what comes after a turn, and put it into the trash. Nothing is cut if more has been said than windows were told."""
        cut = hosted.cut(turn_id)
        if cut is None:
            raise WindowRefused("unknown turn")
        told = turn_id or next(iter(hosted.earlier_ids), None)
        confirmation = Confirmation(origin, ("chat/truncated", told))
        with hosted.confirmations.expecting(confirmation):
            try:
                done = await self._service.truncate(None, hosted.wire_id, cut.seq, hosted.seq)
                await hosted.reached(done.session.seq)
                hosted.was_cut(cut)
            except (SessiondError, TimeoutError):
                if not confirmation.given:
                    raise
        if not confirmation.given:
            raise WindowRefused("nothing comes after that turn")
        return True

    async def _update(self, hosted: Hosted, fields: dict[str, Json]) -> None:
        info = await self._service.update(None, hosted.wire_id, fields)
        await hosted.reached(info.seq)

    # Requests

    async def create(self, channel: str, folders: Sequence[str]) -> None:
        """A session that nobody else has before something is said in it: windows ask for one whenever their view opens. Refused,
        SessiondError.
        """
        wire_id = shapes.session_of(channel)
        if wire_id is None or shapes.is_chat(channel) or not is_session_id(wire_id):
            raise WindowRefused(f"{channel} is not a session of this host")
        try:
            await self._opener.opened_here(wire_id)
        except SessionNotFound:
            if self._opener.draft(wire_id, _path(folders[0]) if folders else None):
                return
        raise WindowRefused(f"{channel} exists", shapes.SESSION_EXISTS)

    async def delete(self, channel: str) -> None:
        """Into the trash. Refused, SessiondError."""
        wire_id = shapes.session_of(channel)
        try:
            if wire_id is None or shapes.is_chat(channel):
                raise SessionNotFound(channel)
            if not self._opener.forget_draft(wire_id):
                await self._service.delete(wire_id)
        except SessionNotFound:
            raise WindowRefused(f"{channel} was not found", shapes.NOT_FOUND) from None


def _path(uri: str) -> str | None:
    """None also where it is on another machine."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path:
        return None
    return path[1:] if _DRIVE.match(path) else path
