"""A recorded conversation -> what an agent would repeat of it, and what an agent is told of it. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import msgspec

from sessiond.acp.content import listed, mapped, word
from sessiond.client.types import Message, ToolCall

_BLOCKS = frozenset(("text", "image", "audio", "resource", "resource_link"))
_TOLD_RESULT_CHARS = 2000
_NOTES = {
    "user_message_chunk": re.compile(r"\[Requestinterruptedbyuser(?:fortooluse)?\]"),
    "agent_message_chunk": re.compile(r"Noresponserequested\."),
}
"""What Claude Code repeats of a turn that was cancelled or killed as if somebody had said it, without blanks."""
_LEFT_OUT = "(Older messages are left out here.)"


def updates(messages: Iterable[Message], *, plan: object = None) -> Iterator[dict[str, object]]:
    """The updates of `session/load`, oldest first: texts, thoughts, calls and results."""
    ended: set[str] = set()
    begun: dict[str, Message] = {}
    said = list(messages)
    for one in said:
        if one.role == "tool" and one.tool_call_id:
            ended.add(one.tool_call_id)
    for one in said:
        if one.role == "user":
            yield from _chunks("user_message_chunk", one)
        elif one.role == "assistant":
            if one.thinking:
                yield _chunk("agent_thought_chunk", one.id, {"type": "text", "text": one.thinking})
            yield from _chunks("agent_message_chunk", one)
            for call in one.tool_calls or ():
                begun[call.id] = one
                yield _call(call, "in_progress" if call.id in ended else "failed")
        elif one.role == "tool":
            yield from _result(one, one.tool_call_id in begun)
    if isinstance(plan, list) and plan:
        yield {"sessionUpdate": "plan", "entries": plan}


def notifications(key: str, made: Iterable[dict[str, object]]) -> Iterator[bytes]:
    """Updates as lines, for the agent's session `key`."""
    for update in made:
        params = {"sessionId": key, "update": update}
        yield msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params}) + b"\n"


def newest(lines: Iterable[bytes], most: int) -> list[bytes]:
    """Lines of together at most `most` bytes, those at the end."""
    taken: list[bytes] = []
    length = 0
    for line in reversed(list(lines)):
        length += len(line)
        if length > most:
            break
        taken.append(line)
    return taken[::-1]


def healed(repeated: list[dict[str, object]], stored: list[dict[str, object]]) -> bool:
    """Return whether `stored` has all that the agent `repeated`, in its order, and more. Thoughts do not count.

    The two never look the same: agents cut texts at other places, and leave out calls. So texts are compared without blanks and
    one speaker at a time: each piece that the agent repeats must come in what is stored of that speaker, after the one before.
    """
    more = False
    for kind in ("user_message_chunk", "agent_message_chunk"):
        theirs, ours = _pieces(repeated, kind), "".join(_pieces(stored, kind))
        at = 0
        for piece in theirs:
            found = ours.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        more = more or sum(map(len, theirs)) < len(ours)
    calls, known = _calls(repeated), _calls(stored)
    return calls <= known and (more or calls < known)


def mended(repeated: list[dict[str, object]], stored: list[dict[str, object]]) -> list[dict[str, object]] | None:
    """Return what an editor is shown instead of what the agent `repeated`; None: the agent left nothing out.

    Each of the two may know what the other does not: an agent that was killed has lost what it had said, and one whose
    editor was killed may have gone on without it. Then each turn is taken from the side that has more of it. An agent that
    repeats a prompt that was never stored knows another conversation, and is believed.
    """
    theirs = [one for one in repeated if not _is_note(one)]
    if healed(theirs, stored):
        return stored
    known = _turns(stored)
    made: list[dict[str, object]] = []
    at, ours = 0, False
    for prompt, turn in _turns(theirs):
        found = next((n for n in range(at, len(known)) if known[n][0] == prompt), None)
        if found is None:
            if prompt:
                return None
            made += turn  # before the first prompt
            continue
        left_out = [update for _, missed in known[at:found] for update in missed]
        better = healed(turn, known[found][1])
        ours = ours or better or bool(left_out)
        made += left_out + (known[found][1] if better else turn)
        at = found + 1
    made += [update for _, missed in known[at:] for update in missed]
    return made if ours or at < len(known) else None


def told(messages: Iterable[Message], most: int) -> str | None:
    """Return what was said, as a block of text that begins a prompt, of at most about `most` characters. None: nothing was said."""
    lines: list[str] = []
    length = 0
    for one in reversed(list(messages)):
        text = _as_text(one)
        if text is None:
            continue
        length += len(text)
        if length > most:
            lines.append(_LEFT_OUT if lines else text[-most:])
            break
        lines.append(text)
    if not lines:
        return None
    said = "\n\n".join(reversed(lines)).replace("</earlier-conversation>", "<\\/earlier-conversation>")
    return (
        "[From sessiond, not from the user: this conversation was begun earlier, in a process that has ended. What was said is "
        "quoted here once, so that you know it. Do not respond to it, and do not do again what was done; respond only to the "
        f"prompt that follows.]\n<earlier-conversation>\n{said}\n</earlier-conversation>\n"
    )


def _chunks(kind: str, one: Message) -> Iterator[dict[str, object]]:
    if isinstance(one.content, str):
        if one.content:
            yield _chunk(kind, one.id, {"type": "text", "text": one.content})
        return
    for block in one.content:
        yield _chunk(kind, one.id, _block(block))


def _chunk(kind: str, message_id: str, block: dict[str, object]) -> dict[str, object]:
    return {"sessionUpdate": kind, "messageId": message_id, "content": block}


def _block(block: object) -> dict[str, object]:
    """A block of content as the protocol knows it; anything else as its text."""
    given = mapped(block)
    if word(given.get("type")) in _BLOCKS:
        return given
    return {"type": "text", "text": block if isinstance(block, str) else json.dumps(block, ensure_ascii=False)}


def _call(call: ToolCall, status: str) -> dict[str, object]:
    raw = call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
    return {"sessionUpdate": "tool_call", "toolCallId": call.id, "title": call.name, "status": status, "rawInput": raw}


def _result(one: Message, begun: bool) -> Iterator[dict[str, object]]:
    """The end of a call; a whole call if its beginning is not known."""
    known = mapped(mapped(one.metadata).get("acp"))
    more = {name: known[name] for name in ("title", "kind", "locations") if known.get(name) is not None}
    blocks = [one.content] if isinstance(one.content, str) else one.content
    content = [
        mapped(block) if mapped(block).get("type") == "diff" else {"type": "content", "content": _block(block)}
        for block in blocks
        if block != "" and mapped(block).get("type") != "terminal"  # which ended with its process
    ]
    update = {"toolCallId": one.tool_call_id or one.id, "status": known.get("status") or "completed", **more}
    if begun:
        yield {"sessionUpdate": "tool_call_update", "content": content, **update}
    else:
        yield {"sessionUpdate": "tool_call", "content": content, "title": "tool", **update}


def _turns(made: list[dict[str, object]]) -> list[tuple[str, list[dict[str, object]]]]:
    """By prompt, or block of a prompt, without blanks: the updates from it to the next. What comes before the first has none."""
    found: list[tuple[str, list[dict[str, object]]]] = []
    for one in made:
        if one.get("sessionUpdate") == "user_message_chunk" or not found:
            found.append(("".join(_pieces([one], "user_message_chunk")), [one]))
        else:
            found[-1][1].append(one)
    return found


def _is_note(one: dict[str, object]) -> bool:
    """Return whether an agent repeats a note of its own as if it had been said."""
    return any(note.fullmatch(text) for kind, note in _NOTES.items() for text in _pieces([one], kind))


def _pieces(made: list[dict[str, object]], kind: str) -> list[str]:
    """The texts of one speaker without blanks."""
    texts = (mapped(one.get("content")).get("text") for one in made if one.get("sessionUpdate") == kind)
    return ["".join(text.split()) for text in texts if isinstance(text, str)]


def _calls(made: list[dict[str, object]]) -> set[str]:
    found = (one for one in made if one.get("sessionUpdate") in ("tool_call", "tool_call_update"))
    return {name for one in found if (name := word(one.get("toolCallId"))) is not None}


def _as_text(one: Message) -> str | None:
    if one.role == "tool":
        return f"Tool result: {one.text[:_TOLD_RESULT_CHARS]}"
    if one.role == "user":
        return f"User: {_words(one)}"
    if one.role != "assistant":
        return None
    calls = [
        f"Tool call: {call.name} {json.dumps(call.arguments, ensure_ascii=False)}" for call in one.tool_calls or ()
    ]
    said = [f"Assistant: {one.text}"] if one.text else []
    return "\n\n".join(said + calls) or None


def _words(one: Message) -> str:
    """The text of a prompt, and what else was in it."""
    if isinstance(one.content, str):
        return one.content
    parts = []
    for block in listed(one.content):
        given = mapped(block)
        text = given.get("text")
        where = word(given.get("uri")) or word(mapped(given.get("resource")).get("uri"))
        parts.append(text if isinstance(text, str) else f"({where or given.get('type') or 'something'})")
    return "\n".join(parts)
