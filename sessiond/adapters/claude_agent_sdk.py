"""The Claude Agent SDK's `SessionStore`: `ClaudeAgentOptions(session_store=SessiondStore())`. Extra: `claude-agent-sdk`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from sessiond.adapters import clients, transcript
from sessiond.adapters.extras import missing
from sessiond.adapters.items import arguments, is_text, item_in, readable, session_id_of, whole
from sessiond.client import Conflict, NewMessage, Parent, SessionInfo, SessionNotFound, ToolCall, requests

try:
    from claude_agent_sdk import SessionStore, fold_session_summary
except ImportError as error:
    raise missing("claude-agent-sdk", error) from error

if TYPE_CHECKING:
    from claude_agent_sdk import SessionKey, SessionListSubkeysKey, SessionStoreEntry, SessionStoreListEntry
    from claude_agent_sdk.types import SessionSummaryEntry

KEY = "claude-agent-sdk"
"""In a message's metadata: the transcript's entry. In a session's: `projectKey`, `sessionId` and `subpath`. In its state: the summary."""
_SUMMARIES_AT_A_TIME = 16
_LONGEST_ID = 200


class SessiondStore(SessionStore):
    """Each transcript is a session, a subagent's too. `store`: the name of the store they go to. `home`: another SESSIOND_HOME.

    Entries are known by their `uuid`: one that is there already is not added again, whatever it says.
    """

    def __init__(self, *, store: str | None = None, home: str | None = None) -> None:
        self._store = store
        self._home = home

    def session_id(self, key: SessionKey) -> str:
        """The session for a transcript, as other clients see it."""
        place = "/".join((key["project_key"], key["session_id"], key.get("subpath") or ""))
        digest = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        name = session_id_of(f"claude-{key['session_id']}")[:100]
        return f"{self._store}/{name}-{digest}" if self._store else f"{name}-{digest}"

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries, durably and in order. TooLarge, ReadOnly."""
        if not entries:
            return
        client = await clients.aclient(self._home)
        session_id = self.session_id(key)
        messages = _first_of_each(requests.with_id(message_of(one)) for one in entries)
        about = _about(entries)
        fields = {**about, "tags": [KEY], "metadata": {"source": {"tool": KEY}, KEY: _described(key)}}
        if key.get("subpath") is not None:
            main = {"project_key": key["project_key"], "session_id": key["session_id"]}
            fields["parent"] = Parent(session_id=self.session_id(cast("SessionKey", main)))
        while messages:
            try:
                await transcript.aappend(client, session_id, messages, **fields)
                break
            except Conflict:  # an entry that is there with other content
                there = {one.id for one in await client.session(session_id).messages()}
                fresh = [one for one in messages if one.id not in there]
                if len(fresh) == len(messages):
                    raise
                messages = fresh
        if about.keys() - {"cwd"}:
            await client.session(session_id).update(**about)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """The entries; None if there are none. Messages that other clients wrote are left out: they have no place in the tree."""
        client = await clients.aclient(self._home)
        try:
            messages = await client.session(self.session_id(key)).messages()
        except SessionNotFound:
            return None
        found = [entry for one in messages if (entry := item_in(one, KEY)) is not None]
        return cast("list[SessionStoreEntry]", found) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The main transcripts of a project. Archived ones are left out."""
        return [
            {"session_id": described["sessionId"], "mtime": _milliseconds(info.updated_at)}
            async for info, described in self._of_project(project_key)
            if described.get("subpath") is None
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summaries of the main transcripts. Entries that came since a summary was kept are folded in first."""
        main = [found async for found in self._of_project(project_key) if found[1].get("subpath") is None]
        summed: list[SessionSummaryEntry] = []
        for start in range(0, len(main), _SUMMARIES_AT_A_TIME):
            some = main[start : start + _SUMMARIES_AT_A_TIME]
            summed += [
                one for one in await asyncio.gather(*(self._summary(*found) for found in some)) if one is not None
            ]
        return summed

    async def delete(self, key: SessionKey) -> None:
        """Move a transcript to the trash; a main one with those of its subagents."""
        client = await clients.aclient(self._home)
        doomed = [self.session_id(key)]
        if key.get("subpath") is None:
            doomed += [info.session_id async for info, _ in self._subagents(key)]
        for session_id in doomed:
            try:
                await client.session(session_id).delete()
            except SessionNotFound:
                continue

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session's subagents."""
        return [described["subpath"] async for _, described in self._subagents(key)]

    async def _subagents(
        self, key: SessionKey | SessionListSubkeysKey
    ) -> AsyncIterator[tuple[SessionInfo, Mapping[str, Any]]]:
        async for info, described in self._of_project(key["project_key"]):
            if described.get("subpath") is not None and described["sessionId"] == key["session_id"]:
                yield info, described

    async def _of_project(self, project_key: str) -> AsyncIterator[tuple[SessionInfo, Mapping[str, Any]]]:
        client = await clients.aclient(self._home)
        async for info in client.sessions(tags=[KEY], store=self._store):
            described = info.metadata.get(KEY)
            if isinstance(described, Mapping) and described.get("projectKey") == project_key:
                yield info, described

    async def _summary(self, info: SessionInfo, described: Mapping[str, Any]) -> SessionSummaryEntry | None:
        """The fold of all entries; None if the session was deleted meanwhile. It is kept in the session's state, which leaves alone
        when the session was written last, with the seq that it covers: two writers that fold the same entries write the same,
        and one that folded fewer is corrected by the next.
        """
        session = (await clients.aclient(self._home)).session(info.session_id)
        try:
            kept = (await session.state(KEY)).get(KEY) or {}
            covered = kept.get("summarySeq") or 0
            known = covered + 1 if kept else 0  # keeping it had a seq, too
            newer = await session.messages(since=covered) if info.seq > known else []
            entries = [entry for one in newer if (entry := item_in(one, KEY)) is not None]
            key: Any = {"project_key": described["projectKey"], "session_id": described["sessionId"]}
            summed: Any = {"session_id": described["sessionId"], "mtime": 0, "data": kept.get("summary") or {}}
            summed = fold_session_summary(summed, key, entries)
            if entries:
                await session.set_state({KEY: {"summary": summed["data"], "summarySeq": newer[-1].seq}})
        except SessionNotFound:
            return None
        summed["mtime"] = _milliseconds(info.updated_at)
        return cast("SessionSummaryEntry", summed)


def message_of(given: SessionStoreEntry) -> NewMessage:
    """The message for an entry of a transcript."""
    entry = cast("dict[str, Any]", given)
    uuid = entry.get("uuid")
    known = uuid if isinstance(uuid, str) and 0 < len(uuid) <= _LONGEST_ID and is_text(uuid) else None
    metadata = whole(KEY, entry)
    message = entry.get("message")
    if entry.get("type") not in ("user", "assistant") or not isinstance(message, dict):
        names = ("customTitle", "aiTitle", "summary", *(("content",) if entry.get("type") == "system" else ()))
        shown = next((one for name in names if (one := entry.get(name))), None)
        text = readable(shown) or f"[{readable(entry.get('type'))}]"
        return NewMessage(role="system", content=text, id=known, metadata={**metadata, "injected": True})
    content = message.get("content")
    blocks: list[dict[str, Any]] = (
        [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    )
    results = [one for one in blocks if one.get("type") == "tool_result"]
    calls = [
        ToolCall(
            id=readable(one.get("id")) or "call", name=readable(one.get("name")), arguments=arguments(one.get("input"))
        )
        for one in blocks
        if one.get("type") == "tool_use"
    ]
    thinking = [
        readable(one.get("thinking")) for one in blocks if one.get("type") == "thinking" and one.get("thinking")
    ]
    if entry.get("isMeta") is True:
        metadata["injected"] = True
    metadata |= _tokens(message, entry)
    return NewMessage(
        role="tool" if results else str(entry["type"]),
        content=_text(content),
        id=known,
        tool_calls=calls or None,
        tool_call_id=(readable(results[0].get("tool_use_id")) or None) if results else None,
        thinking="\n".join(thinking) or None,
        metadata=metadata,
    )


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return readable(content)
    shown = [
        one.get("content") if isinstance(one, dict) and one.get("type") == "tool_result" else one
        for one in content
        if not (isinstance(one, dict) and one.get("type") in ("thinking", "redacted_thinking", "tool_use"))
    ]
    return "\n".join(text for one in shown if (text := readable(one if isinstance(one, str | list) else [one])))


def _tokens(message: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return {}
    names = {
        "input": "input_tokens",
        "output": "output_tokens",
        "cacheRead": "cache_read_input_tokens",
        "cacheWrite": "cache_creation_input_tokens",
    }
    counts = {ours: usage[theirs] for ours, theirs in names.items() if isinstance(usage.get(theirs), int)}
    request = ":".join(one for one in (message.get("id"), entry.get("requestId")) if isinstance(one, str))
    more = {"model": message.get("model"), "request": request or None}
    told = {**counts, **{name: one for name, one in more.items() if isinstance(one, str) and is_text(one)}}
    return {"tokens": told} if counts else {}


def _first_of_each(messages: Iterable[NewMessage]) -> list[NewMessage]:
    """Without the later ones of messages that have the same id."""
    found: dict[str | None, NewMessage] = {}
    for one in messages:
        found.setdefault(one.id, one)
    return list(found.values())


def _about(entries: Sequence[Any]) -> dict[str, Any]:
    """The session's title, folder and model, as far as these entries say them."""
    found: dict[str, Any] = {}
    for entry in entries:
        message = entry.get("message")
        model = message.get("model") if isinstance(message, dict) else None
        said = {"cwd": entry.get("cwd"), "model": model, "name": entry.get("customTitle") or entry.get("aiTitle")}
        found |= {name: one for name, one in said.items() if isinstance(one, str) and one and is_text(one)}
    if "name" in found:
        found["name"] = found["name"][:_LONGEST_ID]
    if found.get("model") == "<synthetic>":
        del found["model"]
    return found


def _described(key: SessionKey) -> dict[str, Any]:
    described: dict[str, Any] = {"projectKey": key["project_key"], "sessionId": key["session_id"]}
    return {**described, "subpath": key["subpath"]} if key.get("subpath") is not None else described


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
