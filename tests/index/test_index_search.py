"""Text search: exactly what brute force finds, ranked, shown, with totals."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond.errors import InvalidParams, TooLarge
from sessiond.index.index import Index
from sessiond.index.values import IndexedInfo
from sessiond.limits import DEFAULT, Limits
from tests.index.feeding import all_hits, at, info, key, message, note, opened, search
from tests.index.reference import Asked, Cond, Corpus, Term, camel, words

ITEMS = [
    "alpha",
    "beta",
    "Gamma",
    "alphabet",
    "getUserName",
    "getUser",
    "get_user",
    "user",
    "HTTPServer",
    "naïve",
    "NAIVE",
    "foo.bar()",
    "src/app/main.py",
    "日本語",
    "日本",
    "本",
    "検索する",
    "ﾃｽﾄ",
    "テスト",
    "Pythonで",
    "안녕하세요",
    "녕하",
    "x2Y",
    "aB",
    "don't",
    "→",
    "🎉",
    "a",
    "Straße",
    "strasse",
]
INSIDE = ["us", "alph", "server", "serv", "語", "する", "py", "userName", "2"]


def joined(items: list[str], between: list[str]) -> str:
    return "".join(itertools.chain(*zip(items, between, strict=True)))


BETWEEN = st.lists(st.sampled_from([" ", "\n", "", ", ", "_", "-"]), min_size=6, max_size=6)
TEXT = st.builds(
    lambda items, between: joined(items, between[: len(items)]),
    st.lists(st.sampled_from(ITEMS), min_size=1, max_size=6),
    BETWEEN,
)
BLOCKS = st.lists(TEXT.map(lambda text: {"type": "text", "text": text}), max_size=2)
CALLS = TEXT.map(lambda text: [{"id": "1", "name": "getUser", "arguments": {"q": text}}])
MESSAGE = st.fixed_dictionaries(
    {"content": st.one_of(TEXT, BLOCKS), "role": st.sampled_from(["user", "assistant", "tool"])},
    optional={"thinking": TEXT, "toolCalls": CALLS},
)
SESSION = st.fixed_dictionaries(
    {
        "name": st.one_of(st.none(), TEXT),
        "tags": st.lists(st.sampled_from(["work", "Home", "my tag"]), unique=True),
        "model": st.sampled_from([None, "opus", "other"]),
        "cwd": st.sampled_from([None, "/home/me/proj", "/tmp"]),
        "store": st.sampled_from(["default", "lisp"]),
        "archived": st.sampled_from([False, False, True]),
        "deleted": st.sampled_from([False, False, False, True]),
        "messages": st.lists(MESSAGE, max_size=5),
        "notes": st.lists(TEXT, max_size=1),
    }
)


def prefixed(text: str, prefix: bool, negated: bool) -> Term:
    return Term(text, prefix=prefix and text[-1].isalnum(), negated=negated)


TERM = st.builds(prefixed, st.sampled_from(ITEMS + INSIDE), st.booleans(), st.sampled_from([False, False, True]))
PHRASE = st.builds(
    Term, TEXT.filter(lambda text: any(c.isalnum() for c in text)), quoted=st.just(True), negated=st.booleans()
)
CONDITIONS = [
    ("role", "user"),
    ("role", "tool"),
    ("tag", "work"),
    ("tag", "home"),
    ("tag", "my tag"),
    ("in", "name"),
    ("model", "opus"),
]
CONDITIONS += [("store", "lisp"), ("cwd", "proj"), ("cwd", "nowhere"), ("before", at(3)), ("after", at(3))]
COND = st.builds(lambda pair, negated: Cond(*pair, negated=negated), st.sampled_from(CONDITIONS), st.booleans())
GROUP = st.lists(st.one_of(TERM, TERM, PHRASE, COND), min_size=1, max_size=3).map(tuple)
ASKED = st.builds(
    Asked, st.lists(GROUP, min_size=1, max_size=3).map(tuple), thinking=st.booleans(), tools=st.booleans()
)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.run_until_complete(made.shutdown_default_executor())
    made.close()


def corpus_of(drawn: list[dict[str, object]]) -> Corpus:
    corpus = Corpus()
    for number, session in enumerate(drawn):
        fields = dict(session)
        messages, notes = fields.pop("messages"), fields.pop("notes")
        session_id = f"s{number}"
        corpus.infos[session_id] = info(session_id, minutes=number, **fields)
        made = [
            message(
                seq + 1,
                m["content"],
                m["role"],
                minutes=seq,
                **{k: v for k, v in m.items() if k in ("thinking", "toolCalls")},
            )
            for seq, m in enumerate(messages)  # type: ignore[arg-type, var-annotated]
        ]
        corpus.messages[session_id] = made
        corpus.notes[session_id] = [note(len(made) + 1 + i, "heading", text) for i, text in enumerate(notes)]  # type: ignore[arg-type, var-annotated]
    return corpus


def feed(index: Index, corpus: Corpus) -> None:
    for session_id, known in corpus.infos.items():
        index.put_session(known, corpus.messages[session_id], corpus.notes[session_id])


async def check(index: Index, corpus: Corpus, asked: Asked) -> None:
    typed = asked.typed()
    for archived in (False, True):
        wanted = {"archived": True} if archived else None
        expected = corpus.found(asked, archived=archived)
        hits = await all_hits(index, typed, limit=4, filter=wanted)
        assert sorted(map(str, map(key, hits))) == sorted(map(str, expected)), typed
        assert (await search(index, typed, limit=1, filter=wanted)).total == len(expected), typed


def test_as_brute_force(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    """Every generated query over every generated set of sessions finds exactly what brute force finds, page by page, total and all."""

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(SESSION, min_size=1, max_size=4), st.lists(ASKED, min_size=1, max_size=12))
    def run(drawn: list[dict[str, object]], queries: list[Asked]) -> None:
        corpus = corpus_of(drawn)

        async def go() -> None:
            for gone in range(4):
                if f"s{gone}" not in corpus.infos:
                    index.remove(f"s{gone}")
            feed(index, corpus)  # over what an earlier example left: most of it is replaced
            await index.settled()
            for asked in queries:
                await check(index, corpus, asked)

        loop.run_until_complete(go())

    manager = opened(tmp_path)
    index = loop.run_until_complete(manager.__aenter__())
    try:
        run()
    finally:
        loop.run_until_complete(manager.__aexit__(None, None, None))


def _texts(value: object) -> Iterator[str]:
    """Whatever text lies anywhere in a record."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _records(path: Path) -> Iterator[list[str]]:
    """The texts of a transcript of any tool, record by record, read without the importers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from ([part] for part in text.split("\n\n"))
    elif path.suffix == ".jsonl":
        yield from (list(_texts(json.loads(line))) for line in text.splitlines() if line.strip())
    else:
        yield from (list(_texts(one)) for one in json.loads(text)["messages"])


TOOLS = ("aider", "claude-code", "cline", "codex", "pi")


def _real(folder: Path) -> Corpus:
    """The beginnings of the first records of every file of every tool."""
    corpus = Corpus()
    for tool in TOOLS:
        paths = sorted(path for path in (folder / tool).iterdir() if path.suffix in (".md", ".jsonl", ".json"))
        assert paths, tool
        for number, path in enumerate(paths):
            session_id = f"{tool}-{number}"
            texts = itertools.islice(filter(None, ("\n".join(found)[:1200] for found in _records(path))), 40)
            corpus.infos[session_id] = info(session_id)
            corpus.messages[session_id] = [message(seq, text) for seq, text in enumerate(texts, 1)]
            corpus.notes[session_id] = []
    return corpus


def _places(corpus: Corpus) -> dict[tuple[str, ...], set[tuple[str, int | None]]]:
    """Where every word and every run of parts of one is: what `Term` looks at, for all words at once."""
    found: dict[tuple[str, ...], set[tuple[str, int | None]]] = {}
    for session_id, messages in corpus.messages.items():
        for one in messages:
            for word in set(words(str(one.content))):
                parts = camel(word)
                runs = {tuple(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)}
                for run in {(word.casefold(),)} | (runs if len(parts) > 1 else set()):
                    found.setdefault(run, set()).add((session_id, one.seq))
    return found


async def test_real_transcripts_as_brute_force(tmp_path: Path) -> None:
    """Over real transcripts of five tools, every word of their first records, and pairs of words, are found exactly where
    brute force finds them.
    """
    folder = Path(os.environ.get("SESSIOND_CORPUS", "../shared/corpus"))
    if not folder.is_dir():
        pytest.skip(f"no corpus at {folder}")
    corpus = _real(folder)
    places = _places(corpus)
    vocabulary = sorted({word for said in corpus.messages.values() for m in said for word in words(str(m.content))})
    assert len(vocabulary) > 1000
    queries = [Asked(((Term(word),),)) for word in vocabulary[::100]]
    queries += [
        Asked(((Term(a),), (Term(b, negated=True),))) for a, b in zip(vocabulary[::90], vocabulary[1::90], strict=False)
    ]
    queries += [Asked(((Term(text),),)) for text in ("の", "して", "テスト", "tsx", "useState", "node_modules")]
    async with opened(tmp_path) as index:
        feed(index, corpus)
        await index.settled()
        for word in vocabulary:
            expected = places[(word.casefold(),)] | places.get(tuple(camel(word)), set())
            page = await search(index, f'"{word}"', limit=1000)
            assert {key(hit) for hit in page.hits} == expected, word
            assert page.total == len(expected), word
        for asked in queries:
            hits = await all_hits(index, asked.typed(), limit=1000)
            assert {key(hit) for hit in hits} == corpus.found(asked), asked.typed()
            for hit in hits:
                assert all(0 <= start < end <= len(hit.snippet) for start, end in hit.ranges)
                assert hit.ranges, (asked.typed(), hit.snippet)


async def test_hit_says_where_it_is(tmp_path: Path) -> None:
    """A hit of a message, a note and a name carry what the protocol names, the ranges in code points of the snippet."""
    async with opened(tmp_path) as index:
        index.put_info(info("lisp/s", name="needle work", store="lisp", minutes=9))
        index.add_messages("lisp/s", [message(1, "日本の needle だ", "assistant", minutes=1)])
        index.add_note("lisp/s", note(2, "needle", "x"))
        await index.settled()
        page = await search(index, "needle")
        name, *others = page.hits
        by_seq = {hit.seq: hit for hit in others}
        assert page.total == 3
        assert (name.message_id, name.seq, name.role, name.timestamp) == (None, None, None, at(9))
        assert (name.session_id, name.name, name.snippet, name.ranges) == (
            "lisp/s",
            "needle work",
            "needle work",
            [[0, 6]],
        )
        assert (by_seq[1].message_id, by_seq[1].role, by_seq[1].timestamp) == ("m-1", "assistant", at(1))
        assert (by_seq[1].snippet, by_seq[1].ranges) == ("日本の needle だ", [[4, 10]])
        assert (by_seq[2].message_id, by_seq[2].role) == (None, None)
        assert name.score > max(hit.score for hit in others)


async def test_order(tmp_path: Path) -> None:
    """Names come first; then what says it oftener, was said by a person, and lately; tool output comes last."""
    async with opened(tmp_path) as index:
        index.put_info(info("s", name="about needle"))
        filler = " lorem ipsum dolor" * 5
        index.add_messages(
            "s",
            [
                message(1, "needle" + filler, "tool", minutes=0),
                message(2, "needle" + filler, "user", minutes=-60 * 24 * 90),
                message(3, "needle" + filler, "user", minutes=0),
                message(4, "needle needle needle", "user", minutes=0),
            ],
        )
        await index.settled()
        assert [hit.seq for hit in (await search(index, "needle")).hits] == [None, 4, 3, 2, 1]


async def test_thinking_only_when_asked(tmp_path: Path) -> None:
    """Thoughts are found, and shown, only with in:thinking."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(1, "said", thinking="secret plan")])
        await index.settled()
        assert (await search(index, "secret")).total == 0
        page = await search(index, "secret in:thinking")
        assert page.hits[0].snippet == "secret plan"


async def test_folders(tmp_path: Path) -> None:
    """`cwd:` with a path from the root is that folder and all below it, the root too; without, any folder of that name."""
    async with opened(tmp_path) as index:
        for session_id, cwd in (
            ("a", "/src/app"),
            ("b", "/src/app/lib"),
            ("c", "/src/application"),
            ("d", "/"),
            ("e", None),
        ):
            index.put_info(info(session_id, cwd=cwd))
            index.add_messages(session_id, [message(1, "word", "user")])
        await index.settled()
        for folder, expected in (
            ("/src/app", "ab"), ("/src/app/", "ab"), ("app", "ab"), ("/src", "abc"), ("lib", "b"), ("/app", ""), ("/", "abcd"),
        ):  # fmt: skip
            found = {key(hit)[0] for hit in (await search(index, f'word cwd:"{folder}"')).hits}
            assert found == set(expected), folder


async def test_filters_of_the_request(tmp_path: Path) -> None:
    """`filter` narrows as in session/list, and by role and session; deleted sessions are found by nothing."""
    async with opened(tmp_path) as index:
        index.put_info(info("a", name="First", model="m1", cwd="/x/", tags=["t", "u"], minutes=1))
        index.put_info(info("b", name="second", store="lisp", minutes=5))
        index.put_info(info("c", archived=True))
        index.put_info(info("d", deleted=True))
        for session_id in "abcd":
            index.add_messages(session_id, [message(1, "word", "user"), message(2, "word", "tool")])
        await index.settled()

        async def sessions(**wanted: object) -> set[tuple[str, int | None]]:
            return {key(hit) for hit in (await search(index, "word", filter=wanted)).hits}

        a, b, c = ({(s, 1), (s, 2)} for s in "abc")
        assert await sessions() == a | b
        assert await sessions(archived=True) == c
        assert await sessions(archived=False) == a | b
        assert await sessions(deleted=True) == set()
        assert await sessions(role="tool") == {("a", 2), ("b", 2)}
        assert await sessions(sessionId="b", role=None) == b
        assert await sessions(sessionId="d") == set()
        assert await sessions(store="lisp") == b
        assert await sessions(tags=["u", "t"]) == a
        assert await sessions(tags=["t", "v"]) == set()
        assert await sessions(model="m1") == a
        assert await sessions(cwd="/x") == a
        assert await sessions(since=at(5)) == b
        assert await sessions(until=at(5)) == a
        assert await sessions(name="FIR") == a
        assert {key(h) for h in (await search(index, "", filter={"sessionId": "b"})).hits} == b | {("b", None)}


async def test_what_goes_is_not_found(tmp_path: Path) -> None:
    """Truncated, cleared, removed, deleted and archived: gone from the results; restored: back, without being fed again."""
    async with opened(tmp_path) as index:
        index.put_info(info("s", name="word name"))
        index.add_messages("s", [message(seq, f"word {seq}") for seq in (1, 2, 3)])
        index.add_note("s", note(4, "word", "noted"))

        async def found() -> list[int | None]:
            await index.settled()
            return sorted((hit.seq or 0 for hit in await all_hits(index, "word")), key=int)

        assert await found() == [0, 1, 2, 3, 4]
        index.drop_after("s", 1)
        assert await found() == [0, 1, 4]
        index.put_info(info("s", name="word name", deleted=True))
        assert await found() == []
        index.put_info(info("s", name="other name"))
        assert await found() == [1, 4]
        index.drop_after("s", 0)
        index.add_messages("s", [message(5, "word again")])
        assert await found() == [4, 5]
        index.remove("s")
        assert await found() == []
        assert await index.info("s") is None


async def test_new_content_of_a_message(tmp_path: Path) -> None:
    """A streamed message is found by what it says now, once, whether it grew within one transaction or over several."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        for text in ("one", "one two", "one two three"):
            index.add_messages("s", [message(1, text)])
        await index.settled()
        index.add_messages("s", [message(1, "two three four")])
        await index.settled()
        assert (await search(index, "one")).total == 0
        assert [hit.snippet for hit in (await search(index, "three")).hits] == ["two three four"]


async def test_messages_before_their_session(tmp_path: Path) -> None:
    """What is fed of a session that is not known yet is found, and the session listed, once it is."""
    async with opened(tmp_path) as index:
        index.add_messages("s", [message(1, "word")])
        await index.settled()
        assert (await search(index, "word")).total == 0
        assert (await search(index, "role:user")).total == 0
        assert await index.info("s") is None
        index.put_info(info("s"))
        await index.settled()
        assert (await search(index, "word")).total == 1


SYNTAX = [
    '"',
    "NEAR(a b)",
    "a AND",
    "foo:bar",
    "*",
    "-",
    "\0",
    'a" OR "',
    "(a",
    "a)",
    "{body}: a",
    "^a",
    "a + b",
    "'",
    "%",
    "\ud83c",
]


@pytest.mark.parametrize("query", SYNTAX)
async def test_typed_syntax_is_literal(tmp_path: Path, query: str) -> None:
    """Nothing that is typed is an error, nor syntax of SQLite's."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(1, "near a b foo bar"), message(2, "x" * 100_000 + " y\0z")])
        await index.settled()
        assert (await search(index, query)).total >= 0
        assert (await search(index, "y")).total == 1
        assert (await search(index, "x" * 999)).total == 0


async def test_query_of_100_kb(tmp_path: Path) -> None:
    """Queries up to the limit are answered exactly, longer ones are tooLarge."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        many = [f"w{number}" for number in range(9000)]
        index.add_messages("s", [message(1, " ".join(many)), message(2, " ".join(many[1:]))])
        await index.settled()
        typed = " ".join(many)
        assert [hit.seq for hit in (await search(index, typed)).hits] == [1]
        assert [hit.seq for hit in (await search(index, f'"{typed}"')).hits] == [1]
        assert (await search(index, " OR ".join(many))).total == 2
        with pytest.raises(TooLarge):
            await search(index, "é" * DEFAULT.query_bytes)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": -3}, "limit"),
        ({"limit": True}, "limit"),
        ({"filter": {"role": 5}}, "filter.role"),
        ({"filter": {"nope": 5}}, "filter.nope"),
        ({"filter": {"since": "yesterday"}}, "filter.since"),
        ({"filter": []}, "filter"),
        ({"cursor": "garbage!"}, "cursor"),
        ({"cursor": "Z2FyYmFnZQ"}, "cursor"),
        ({"mode": "by heart"}, "mode"),
    ],
)
async def test_bad_requests_name_the_field(tmp_path: Path, fields: dict[str, object], field: str) -> None:
    """An invalid request is invalidParams, and names the field."""
    async with opened(tmp_path) as index:
        with pytest.raises(InvalidParams) as caught:
            await search(index, "x", **fields)
        assert caught.value.data["field"] == field


async def test_limit_over_the_maximum_is_cut(tmp_path: Path) -> None:
    """A limit over the maximum gives the maximum."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(seq, "word") for seq in range(1, DEFAULT.list_page + 10)])
        await index.settled()
        page = await search(index, "word", limit=10**9)
        assert (len(page.hits), page.total) == (DEFAULT.list_page, DEFAULT.list_page + 9)


async def test_foreign_infos_do_no_harm(tmp_path: Path) -> None:
    """Invalid timestamps and lone surrogates are fed without an error."""
    async with opened(tmp_path) as index:
        index.put_info(IndexedInfo(session_id="s", created_at="", updated_at="no time", name="word"))
        index.add_messages("s", [message(1, "word \ud800 é")])
        await index.settled()
        assert (await search(index, "word")).total == 2
        assert index.problem is None


async def test_a_rebuild_keeps_nobody_waiting(tmp_path: Path) -> None:
    """While many whole sessions wait to be written, a live message is found first, and room is waited for without blocking."""
    async with opened(tmp_path, Limits(index_waiting_bytes=200_000)) as index:
        for number in range(60):
            index.put_session(info(f"s{number}"), [message(seq, f"bulk {seq} " * 20) for seq in range(1, 51)], [])
        index.put_info(info("live"))
        index.add_messages("live", [message(1, "now")])
        index.add_messages("s59", [message(51, "bulk too")])
        await index.settled(patience_s=0)
        assert (await search(index, "now")).total == 1
        await index.room()
        await index.settled()
        assert (await search(index, "bulk")).total == 60 * 50 + 1


async def test_tools_can_be_left_out(tmp_path: Path) -> None:
    """Input and output of tools, in any role and shape, is neither found nor shown with -in:tools."""
    result = [
        {"type": "tool_result", "content": "the needleCase lay there"},
        {"type": "text", "text": "and I wrote hay"},
    ]
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        index.add_messages("s", [
            message(1, "needle of the role", "tool"),
            message(2, result, "user"),
            message(3, "x", "assistant", toolCalls=[{"id": "c", "name": "getNeedle", "arguments": {"a": "needle"}}]),
            message(4, "a needle that somebody wrote"),
        ])  # fmt: skip
        await index.settled()
        assert {hit.seq for hit in await all_hits(index, "needle")} == {1, 2, 3, 4}
        assert [hit.seq for hit in await all_hits(index, "needle -in:tools")] == [4]
        assert [hit.snippet for hit in await all_hits(index, "hay -in:tools")] == ["and I wrote hay"]
