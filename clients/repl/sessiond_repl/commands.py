"""The commands, which begin with a slash. One function each: (chat, rest of the line). Its docstring is its help."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from sessiond.cli.activity import choice_of, in_short
from sessiond.cli.output import clean, in_place, one_line
from sessiond.cli.paths import on_wire
from sessiond.client import InvalidParams
from sessiond.words import local_time
from sessiond_repl.chat import Chat

Command = Callable[[Chat, str], Awaitable[None]]
LISTED = 20
FORMATS = {"jsonl": "jsonl", "json": "json", "md": "markdown", "org": "org", "html": "html", "txt": "text"}
"""File name extension, which is also a short name -> the format to export."""


class Quit(Exception):
    """/quit."""


async def obey(chat: Chat, line: str) -> None:
    """Run the command in a line that begins with a slash. Raises Quit; SessiondError if it fails."""
    name, _, rest = line[1:].partition(" ")
    found = COMMANDS.get(ALIASES.get(name, name))
    if found is None:
        close = [known for known in COMMANDS if name and known.startswith(name)]
        hint = (
            f"did you mean /{close[0]}?" if close else "/help lists them; //text sends a text that begins with a slash"
        )
        raise InvalidParams(f"unknown command /{name}", hint=hint)
    await found[0](chat, rest.strip())


async def _sessions(chat: Chat, rest: str) -> None:
    """[PART OF THE NAME]  lists the newest sessions; --archived, --deleted: those instead"""
    words = rest.split()
    archived, deleted = "--archived" in words or None, "--deleted" in words or None
    name = rest.replace("--archived", "").replace("--deleted", "").strip() or None
    rows: list[list[str]] = []
    more = False
    async for info in chat.sessiond.sessions(archived=archived, deleted=deleted, name=name):
        more = len(rows) == LISTED
        if more:
            break
        here = "* " if info.session_id == chat.session_id else "  "
        changed, tags = local_time(info.updated_at), " ".join(info.tags)
        facts = [info.name or "", in_short(info.activity), changed, str(info.message_count), tags]
        rows.append([here + info.session_id, *facts])
    chat.screen.table(["session", "name", "now", "changed", "messages", "tags"], rows)
    if more:
        chat.screen.info(f"the newest {LISTED}; /sessions PART OF THE NAME shows others")


async def _new(chat: Chat, rest: str) -> None:
    """[NAME]  saves this session and starts another one"""
    await chat.go_on(lambda: chat.new(rest or None))


async def _save(chat: Chat, _rest: str) -> None:
    """saves the session's file now"""
    saved = await chat.session.save()
    chat.screen.info(f"saved {saved.path} ({saved.bytes} bytes)" if saved else "nothing to save")


async def _load(chat: Chat, rest: str) -> None:
    """ID  saves this session and opens that one"""
    session_id = _needed(rest, "/load ID")
    await chat.go_on(lambda: chat.open(session_id))


async def _reset(chat: Chat, _rest: str) -> None:
    """saves this session, then empties it; the id stays"""
    await chat.stop_turn()
    await chat.change(chat.session.clear(), lambda info: info.seq)
    chat.history.clear()
    chat.oldest = 0


async def _name(chat: Chat, rest: str) -> None:
    """[NAME]  gives this session a name, or shows it"""
    if rest:
        await chat.change(chat.session.update(name=rest), lambda info: info.seq)
    else:
        chat.screen.info(f"name: {one_line(chat.view.info.name or '(none)')}")


async def _tag(chat: Chat, rest: str) -> None:
    """[TAG ... -TAG ...]  adds and (with -) removes tags, or shows them"""
    tags = list(chat.view.info.tags)
    for word in rest.split():
        if word.startswith("-"):
            tags = [tag for tag in tags if tag != word[1:]]
        elif word not in tags:
            tags.append(word)
    if tags != chat.view.info.tags:
        await chat.change(chat.session.update(tags=tags), lambda info: info.seq)
    else:
        chat.screen.info(f"tags: {one_line(' '.join(tags) or '(none)')}")


async def _answer(chat: Chat, rest: str) -> None:
    """ANSWER  answers what an agent asks in this session"""
    question = None if chat.activity is None else chat.activity.question
    if question is None:
        chat.screen.info("nothing is asked here; sessiond list --waiting shows which sessions wait for you")
        return
    choice = choice_of(question, _needed(rest, "/answer ANSWER"))
    if not await chat.session.answer(question.id, choice, text=None if choice is not None else rest):
        chat.screen.info("this was answered before, or it is not asked any more")


async def _archive(chat: Chat, rest: str) -> None:
    """[off]  removes this session from the lists; off: brings it back"""
    await chat.change(chat.session.update(archived=rest != "off"), lambda info: info.seq)


async def _search(chat: Chat, rest: str) -> None:
    """WORDS  finds messages in all sessions"""
    found = await chat.sessiond.search_page(_needed(rest, "/search WORDS"), limit=LISTED)
    for hit in found.hits:
        where = hit.session_id if hit.message_id is None else f"{hit.session_id} #{hit.seq}"
        facts = (where, hit.name, hit.role, local_time(hit.timestamp))
        chat.screen.head(one_line("── " + "  ".join(fact for fact in facts if fact)))
        chat.screen.text(_marked(hit.snippet, hit.ranges))
    chat.screen.info(f"{found.total} found" + (", the index is still being built" if found.incomplete else ""))


def _marked(snippet: str, ranges: list[list[int]]) -> str:
    """Puts the matches between »«, because a screen may have no colours."""
    out, end = [], 0
    for start, stop in ranges:
        out += [snippet[end:start], "»", snippet[start:stop], "«"]
        end = stop
    return in_place("".join((*out, snippet[end:]))).strip()


async def _fork(chat: Chat, rest: str) -> None:
    """[NAME]  continues in a copy of this session"""
    await chat.stop_turn()
    made = await chat.session.fork(name=rest or None)
    await chat.go_on(lambda: chat.open(made.id))


async def _notes(chat: Chat, rest: str) -> None:
    """[HEADING: TEXT]  shows this session's notes, or adds one under a heading"""
    if rest:
        heading, colon, text = (part.strip() for part in rest.partition(":"))
        if not (heading and colon and text):
            raise InvalidParams("a note needs a heading and a text", hint="/notes HEADING: TEXT")
        await chat.change(chat.session.note(heading, text), lambda note: note.seq)
        return
    notes = await chat.session.notes()
    heading = ""
    for note in notes:
        if note.heading != heading:
            heading = note.heading
            chat.screen.head(one_line(f"* {heading}"))
        chat.screen.text(clean(note.content))
    if not notes:
        chat.screen.info("no notes; /notes HEADING: TEXT adds one")


async def _export(chat: Chat, rest: str) -> None:
    """[FORMAT] [FILE] [--overwrite]  markdown, org, html, text, json or jsonl; without FILE to the screen"""
    words = rest.split()
    overwrite = "--overwrite" in words
    words = [word for word in words if word != "--overwrite"]
    form = None
    if words and words[0] in (*FORMATS, *FORMATS.values()):
        given = words.pop(0)
        form = FORMATS.get(given, given)
    path = os.path.abspath(os.path.expanduser(" ".join(words))) if words else None
    if form is None:
        form = FORMATS.get(path.rpartition(".")[2], "markdown") if path else "markdown"
    done = await chat.session.export(form, on_wire(path) if path else None, overwrite=overwrite)
    if path:
        chat.screen.info(f"{done.path} ({done.bytes} bytes)")
    else:
        chat.screen.text(clean(done.content or "").rstrip("\n"))


async def _older(chat: Chat, rest: str) -> None:
    """[N]  shows the N messages (20) before the oldest one on the screen"""
    count = int(rest) if rest.isdecimal() and rest.isascii() else LISTED
    if not chat.oldest:
        chat.screen.info("there are no older messages")
        return
    # One more than is shown says whether there are more.
    found = await chat.session.messages(last=count + 1, before=chat.oldest)
    shown = found[-count:]
    chat.view.messages(shown)
    more = len(found) > len(shown)
    chat.oldest = shown[0].seq if more else 0
    chat.screen.info("more: /older" if more else "this is the beginning of the session")


async def _help(chat: Chat, _rest: str) -> None:
    """shows this list"""
    rows = []
    for name, (_, about) in COMMANDS.items():
        arguments, gap, what = about.partition("  ")
        rows.append([f"/{name} {arguments if gap else ''}".strip(), what if gap else about])
    chat.screen.table(["command", "does"], rows)
    chat.screen.info("anything else is sent as a message; a backslash at the end of a line continues it on the next")
    chat.screen.info("at a terminal: Alt-Enter: new line; Tab: complete; Up: earlier messages; Ctrl-C: stop a reply")


async def _quit(_chat: Chat, _rest: str) -> None:
    """saves, leaves, and says how to resume"""
    raise Quit


def _needed(rest: str, usage: str) -> str:
    if not rest:
        raise InvalidParams("missing argument", hint=f"usage: {usage}")
    return rest


ALIASES = {"exit": "quit", "q": "quit", "?": "help"}
COMMANDS: dict[str, tuple[Command, str]] = {
    function.__name__[1:]: (function, function.__doc__ or "")
    for function in (
        _sessions,
        _new,
        _save,
        _load,
        _reset,
        _name,
        _tag,
        _answer,
        _archive,
        _search,
        _fork,
        _notes,
        _export,
        _older,
        _help,
        _quit,
    )
}
"""Name -> its function, and its text in `/help`."""
