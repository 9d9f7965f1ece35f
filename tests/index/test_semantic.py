"""Search by meaning: it finds what words do not, and only what is there."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from sessiond.errors import Cancelled, InvalidParams, Unavailable
from sessiond.index import embedding, semantic, semantic_worker
from sessiond.index import index as index_module
from sessiond.index import passages as passage_module
from sessiond.index.index import Index
from sessiond.index.meaning import can_find_meaning
from sessiond.index.passages import MOST, PASSAGE_CHARS, passages
from sessiond.index.query import wording
from sessiond.index.readers import Ticket
from sessiond.index.semantic import MEANT, fused
from sessiond.index.semantic_worker import WaitingDocuments, refuse_network
from sessiond.index.values import SearchPage
from tests import inside
from tests.index.feeding import info, message, note, opened, search

PARAPHRASES = {
    "How do I sign in to my account?": "The login page asks for an e-mail and a password; after three attempts the user is locked out.",
    "make the program quicker": "Profiling showed that most of its time went into parsing; caching cut the latency in half.",
    "my laptop loses power too fast": "The battery drains within two hours because the graphics chip never sleeps.",
    "undo what I committed": "git reset --soft HEAD~1 takes back the last revision and keeps all changes staged.",
    "cheap places to eat": "There is an inexpensive noodle restaurant around the corner, lunch costs six dollars.",
    "the server refuses connections": "nginx answered 502 since the upstream socket was closed; restarting gunicorn fixed it.",
    "saving money for when I am old": "Put part of your salary into a pension fund every month, compound interest does its work.",
    "my kid is ill and hot": "Our daughter has a fever of 39 degrees, should we call a doctor?",
    "two threads must not write at once": "Guard the shared buffer with a mutex, so that writers are serialized.",
    "remove duplicates": "Use DISTINCT, or GROUP BY all columns, so repeated records vanish.",
    "trip to Japan": "We booked a flight to Tokyo and a hotel in Kyoto for the cherry blossom season.",
    "what should I cook tonight": "Here is a recipe for a quick dinner: pasta, tomatoes, garlic and basil.",
}
"""Question -> what answers it without any of its words beside little ones."""

OTHERS = """\
The meeting was moved to Thursday because the room is taken.
Please review the pull request when you have time; it renames two modules.
The cat slept on the keyboard and wrote three pages of the letter j.
Our garden needs rain; the roses look tired and the grass has gone yellow.
He plays the violin in an orchestra and teaches children on weekends.
The contract ends in March, so the landlord wants to know whether we stay.
Add an index on the foreign key, the planner scans the whole table now.
The docs say that the option was removed in version three.
She ran a marathon in under four hours despite the heat.
A black hole bends light so strongly that nothing gets out.
The museum opens at ten and is closed on Mondays.
Paint the wall twice and let it dry overnight in between.
The unit tests fail on Windows because of the path separator.
I would rather take the train than drive through the city.
Her thesis is about the grammar of medieval Icelandic.
The election results will be announced on Sunday evening.
Use a smaller font and wider margins on the title page.
The compiler warns about an unused variable in the parser.
Bees find their way back by the position of the sun.
The invoice was sent twice, please ignore the second one.""".splitlines()


def skip_reason() -> str | None:
    return None if can_find_meaning() else "the extra `semantic` is not installed"


pytestmark = pytest.mark.skipif(skip_reason() is not None and os.environ.get("CI") != "true", reason=str(skip_reason()))


async def found(index: Index, query: str, **fields: object) -> SearchPage:
    """The whole answer, once all vectors are made."""
    while True:
        page = await search(index, query, mode="semantic", **fields)
        if not page.incomplete:
            return page


async def seqs(index: Index, query: str, **fields: object) -> list[int | None]:
    return [hit.seq for hit in (await found(index, query, **fields)).hits]


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[Index]:
    """Session `s`: the answers to all questions, as messages 1 to 12, and others."""
    async with opened(tmp_path) as made:
        texts = [*PARAPHRASES.values(), *OTHERS]
        made.put_session(info("s"), [message(seq, text) for seq, text in enumerate(texts, 1)], [])
        made.incomplete = False
        await made.settled()
        yield made


async def test_paraphrases_are_found_that_words_do_not_find(index: Index) -> None:
    """Each question has its answer among the first three, and text search has none."""
    missed = {}
    for seq, question in enumerate(PARAPHRASES, 1):
        assert (await search(index, question)).total == 0, question
        first = (await seqs(index, question))[:3]
        if seq not in first:
            missed[question] = first
    assert not missed


async def test_what_says_the_same_and_means_the_same_comes_first(index: Index) -> None:
    """A message that both lists have outranks those of one, and shows the words."""
    page = await found(index, "pasta recipe")
    assert page.hits[0].seq == 12
    shown = page.hits[0].snippet
    assert {shown[start:end] for start, end in page.hits[0].ranges} == {"pasta", "recipe"}
    assert page.hits[0].score > page.hits[1].score
    assert [hit.ranges for hit in page.hits[1:]] == [[]] * (len(page.hits) - 1)


async def test_filters_and_exclusions_hold(index: Index) -> None:
    """Those of the request and those in the query; nothing that they keep out is found, however near."""
    question = "my kid is ill and hot"
    index.put_session(info("other", model="opus"), [message(1, "The child is sick and has a temperature.", "tool")], [])
    index.put_session(info("old", archived=True), [message(1, "The child is sick.")], [])
    assert {hit.session_id for hit in (await found(index, question)).hits} >= {"s", "other"}
    for query, fields in (
        (question, {"filter": {"sessionId": "other"}}),
        (question, {"filter": {"model": "opus"}}),
        (f"{question} role:tool", {}),
        (f"model:opus {question}", {}),
        (f"{question} -doctor child", {"filter": {"role": "tool"}}),
    ):
        assert {hit.session_id for hit in (await found(index, query, **fields)).hits} == {"other"}, query
    assert {hit.session_id for hit in (await found(index, question, filter={"archived": True})).hits} == {"old"}
    assert 8 not in await seqs(index, f"{question} -fever")


async def test_a_narrow_filter_is_looked_through_as_a_whole(tmp_path: Path) -> None:
    """What it lets through is found though thousands of others are nearer."""
    async with opened(tmp_path) as made:
        many = [message(seq, f"The child is sick and has a fever, day {seq}.") for seq in range(1, 2600)]
        made.put_session(info("many"), many, [])
        made.put_session(info("one"), [message(1, "A doctor visits ill people.")], [])
        made.incomplete = False
        await made.settled()
        page = await found(made, "my kid is ill", filter={"sessionId": "one"})
        assert [hit.session_id for hit in page.hits] == ["one"]
        assert (await found(made, "my kid is ill")).total == MEANT


async def test_what_is_gone_is_not_found(index: Index, tmp_path: Path) -> None:
    """Truncated, changed, cleared and deleted messages are out at once, and their vectors soon after."""
    question = "my kid is ill and hot"
    assert (await seqs(index, question))[0] == 8
    index.add_messages("s", [message(8, "The dentist pulled two of her teeth.")])
    await index.settled()
    assert 8 not in (await seqs(index, question))[:3]
    assert (await seqs(index, "a tooth was removed"))[0] == 8
    index.drop_after("s", 5)
    await index.settled()
    assert set(await seqs(index, "trip to Japan")) <= set(range(1, 6))
    index.remove("s")
    await index.settled()
    assert await seqs(index, question) == []
    db = sqlite3.connect(tmp_path / "vectors.db")
    while db.execute("SELECT count(*) FROM passage").fetchone() != (0,):
        await found(index, question)
    db.close()


async def test_pages_are_one_order(index: Index) -> None:
    """By cursor, whatever is fed meanwhile: every hit once, `total` is their number."""
    question = "what should I cook tonight"
    whole = await found(index, question)
    assert whole.total == len(whole.hits) > 3
    first = await search(index, question, mode="semantic", limit=3)
    index.add_messages("s", [message(99, "Dinner: fry an onion, add rice.")])
    await index.settled()
    rest = await search(index, question, mode="semantic", limit=1000, cursor=first.next_cursor)
    assert [hit.seq for hit in first.hits + rest.hits] == [hit.seq for hit in whole.hits]
    assert (first.total, rest.total, rest.next_cursor) == (whole.total, whole.total, None)
    with pytest.raises(InvalidParams):
        await search(index, "another question", mode="semantic", cursor=first.next_cursor)


async def test_notes_names_and_tools_output(index: Index) -> None:
    """All of them have a meaning; thoughts are left out."""
    index.put_session(info("x", name="Medical advice for children"), [
        message(1, [{"type": "tool_result", "content": "pulse high, the infant is unwell"}], "tool"),
        message(2, "Yes.", thinking="a feverish toddler"),
    ], [note(3, "Health", "the little boy caught a cold")])  # fmt: skip
    await index.settled()
    page = await found(index, "sick child", filter={"sessionId": "x"})
    assert {hit.seq for hit in page.hits} == {None, 1, 3}


async def test_a_long_text_is_found_by_each_of_its_parts(index: Index) -> None:
    """And the snippet is the part that is near."""
    filler = " ".join(OTHERS * 8)
    text = f"{filler} {PARAPHRASES['trip to Japan']} {filler}"
    index.put_session(info("long"), [message(1, text)], [])
    await index.settled()
    [hit] = (await found(index, "a journey through Asia", filter={"sessionId": "long"})).hits
    assert "Tokyo" in hit.snippet


async def test_its_process_may_die_and_its_file_may_go(index: Index, tmp_path: Path) -> None:
    """kill -9, a deleted, a damaged and a foreign file: the next question is answered, in the end as before."""
    question = "trip to Japan"
    wanted = await seqs(index, question)
    worker = inside.semantic_worker(index)
    for harm in ("kill", "delete", "damage", "version"):
        assert worker._process is not None
        pid = worker._process.pid
        os.kill(pid, signal.SIGKILL)
        worker._process.wait()
        path = tmp_path / "vectors.db"
        if harm == "delete":
            for one in tmp_path.glob("vectors.db*"):
                one.unlink()
        elif harm == "damage":
            path.write_bytes(b"\xff" * path.stat().st_size)
        elif harm == "version":
            db = sqlite3.connect(path)
            db.execute("PRAGMA user_version = 99")
            db.close()
        assert await seqs(index, question) == wanted, harm


async def test_vectors_survive_and_belong_to_their_index(tmp_path: Path) -> None:
    """They are there after reopening; for another index they are made again."""
    async with opened(tmp_path) as made:
        made.put_session(info("s"), [message(1, "a recipe for dinner")], [])
        made.incomplete = False
        await made.settled()
        assert await seqs(made, "cooking") == [1]
    before = (tmp_path / "vectors.db").stat().st_ino
    async with opened(tmp_path) as made:
        assert await seqs(made, "cooking") == [1]
    assert (tmp_path / "vectors.db").stat().st_ino == before
    (tmp_path / "index.db").unlink()
    async with opened(tmp_path) as made:
        made.put_session(info("t"), [message(1, "the cat sleeps")], [])
        made.incomplete = False
        await made.settled()
        assert await seqs(made, "cooking") == []
        assert await seqs(made, "a sleeping animal") == [1]


async def test_the_loop_waits_for_none_of_it(tmp_path: Path) -> None:
    """Starting the process, asking it, ending it: no blocking call on the loop."""
    async with opened(tmp_path) as made:
        made.put_session(info("s"), [message(1, "a recipe for dinner")], [])
        made.incomplete = False
        await made.settled()
        with blockbuster_ctx("sessiond"):
            assert await seqs(made, "cooking") == [1]


async def test_a_process_that_fails_is_an_error_that_says_so(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """No half answer, no hanging; the next question has a fresh process."""
    await found(index, "cooking")
    worker = inside.semantic_worker(index)
    worker.kill()
    monkeypatch.setattr("sessiond.index.semantic._WORKER", "/nonexistent.py")
    with pytest.raises(Unavailable, match="search by meaning failed"):
        await search(index, "cooking", mode="semantic")
    monkeypatch.undo()
    assert 12 in await seqs(index, "cooking")


async def test_while_whole_sessions_come_in_no_vectors_are_made(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import has the processors for itself: the process is told of what came once the index is no longer behind."""
    search = index._semantic
    assert search is not None
    told = asyncio.Event()
    behind = [True, True, False]
    monkeypatch.setattr(semantic, "START_S", 0.0)
    monkeypatch.setattr(semantic, "TELL_S", 0.0)
    monkeypatch.setattr(search, "_is_behind", lambda: behind.pop(0))
    monkeypatch.setattr(search, "_tell", told.set)
    search.changed(gone=False)
    await told.wait()
    assert behind == []


async def test_without_the_extra_it_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not among the modes, and asking for it is an error that says what to install."""
    monkeypatch.setattr(index_module, "can_find_meaning", lambda: False)
    async with opened(tmp_path) as made:
        assert made.modes == ("text", "regex")
        with pytest.raises(InvalidParams) as caught:
            await search(made, "x", mode="semantic")
        assert "'numpy>=" in str(caught.value.hint)


def test_the_model_lies_inside_the_package() -> None:
    """Weights and tokenizer came with the wheel."""
    spec = importlib.util.find_spec("wordllama")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent
    assert (folder / "weights" / "l2_supercat_256.safetensors").stat().st_size > 10_000_000
    assert (folder / "tokenizers" / "l2_supercat_tokenizer_config.json").exists()


_ALONE = """
import asyncio, pathlib, sys
sys.path.insert(0, sys.argv[1])
from tests.index.feeding import info, message, opened, search
async def main():
    async with opened(pathlib.Path(sys.argv[2])) as index:
        index.put_session(info("s"), [message(1, "a recipe for dinner")], [])
        index.incomplete = False
        await index.settled()
        page = await search(index, "cooking", mode="semantic")
        while page.incomplete:
            page = await search(index, "cooking", mode="semantic")
        assert [hit.seq for hit in page.hits] == [1], page
asyncio.run(main())
"""


def test_it_works_without_any_network(tmp_path: Path) -> None:
    """In a network namespace that has nothing in it, with an empty home: nothing is downloaded."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespaces here")
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "HOME": str(tmp_path)}
    command = [unshare, "-rn", sys.executable, "-c", _ALONE, str(root), str(tmp_path / "index")]
    (tmp_path / "index").mkdir()
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]  # no cache was made


def test_connections_are_refused_in_its_process() -> None:
    """Whatever a library might try."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from sessiond.index.semantic_worker import WaitingDocuments, refuse_network\n"
        "sys.addaudithook(refuse_network)\n"
        "import socket\n"
        "try: socket.create_connection(('127.0.0.1', int(sys.argv[2])))\n"
        "except PermissionError as error: print('refused', error)"
    )
    root = str(Path(__file__).resolve().parents[2])
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", code, root, str(server.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("refused socket."), done.stderr
    with pytest.raises(PermissionError):
        refuse_network("socket.sendto", ())


def test_passages_cover_a_text_in_order() -> None:
    """Whole texts in pieces that end with sentences; tools' output only from its beginning; no thoughts."""
    text = " ".join(OTHERS * 3)
    pieces = list(passages([("thought", "x"), ("text", text), ("tool", text * 5)]))
    mine = [text[p.start : p.end] for p in pieces if p.text == 1]
    assert "".join(mine) == text
    assert all(len(piece) <= PASSAGE_CHARS for piece in mine)
    assert all(piece.rstrip().endswith(".") for piece in mine)
    assert len([p for p in pieces if p.text == 2]) == MOST["tool"]
    assert not [p for p in pieces if p.text == 0]
    assert list(passages([("text", " \n--- ")])) == []
    endless = list(passages([("text", "a" * 10_000)]))
    assert [p.end - p.start for p in endless][:-1] == [PASSAGE_CHARS] * (len(endless) - 1)


def test_reciprocal_rank_fusion() -> None:
    """A hit of both lists beats any of one; ties go to the newer document."""
    order = fused([1, 2], [(2, 0.9, 0, 0, 5), (3, 0.8, 0, 5, 9)])
    assert list(order[::5]) == [2, 1, 3]
    assert list(order[2:5]) == [-1, -1, -1]  # it shows the words
    assert list(order[12:15]) == [0, 5, 9]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ('how do "I sign" in role:user -fast before:2026', "how do I sign in"),
        ("cats OR dogs", "cats dogs"),
        ("role:user", ""),
        ("in:thinking wor* foo:bar", "wor* foo:bar"),
    ],
)
def test_what_a_query_means(typed: str, meant: str) -> None:
    """Without what filters and excludes."""
    assert wording(typed) == meant


async def test_many_ask_at_once(index: Index) -> None:
    """Each gets the answer to its own question."""
    questions = list(PARAPHRASES)
    await found(index, questions[0])
    pages = await asyncio.gather(*(search(index, question, mode="semantic") for question in questions))
    assert all(seq in [hit.seq for hit in page.hits[:3]] for seq, page in enumerate(pages, 1))


MUTE = "import sys\nsys.stdin.read()\n"
HALVES = (
    "import json, sys\nfor line in sys.stdin:\n"
    "    number = json.loads(line)['id']\n"
    "    for piece in ('{\"id\": 0}\\n{\"id\": ', str(number) + '}\\n'):\n"
    "        sys.stdout.write(piece)\n        sys.stdout.flush()\n"
)


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], semantic._Process]]:
    """Its process, with another script in the worker's place."""
    made: list[semantic._Process] = []

    def make(script: str) -> semantic._Process:
        (tmp_path / "worker.py").write_text(script)
        monkeypatch.setattr(semantic, "_WORKER", str(tmp_path / "worker.py"))
        made.append(semantic._Process())
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_a_process_that_hangs_ends_with_the_question(scripted: Callable[[str], semantic._Process]) -> None:
    """The caller gets an error that it took too long, and the next query has a fresh process; a query that was given up
    leaves the process alone.
    """
    process = scripted(MUTE)
    given_up = Ticket(60.0)
    given_up.give_up()
    with pytest.raises(Cancelled):
        process.ask({}, given_up)
    assert process.running
    with pytest.raises(Cancelled, match=r"longer than 0\.2 s"):
        process.ask({}, Ticket(0.2))
    assert not process.running


def test_a_process_that_is_still_starting(
    scripted: Callable[[str], semantic._Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search does not wait for it for long and says that it may miss something; one that never gets ready is a failure."""
    monkeypatch.setattr(semantic, "_BEGIN_S", 0.0)
    process = scripted(MUTE)
    answer = process.ask({}, Ticket(60.0))
    assert (answer.behind, answer.found) == (True, [])
    assert process.running
    monkeypatch.setattr(semantic, "_BEGUN_S", -1.0)
    with pytest.raises(Unavailable, match="has not responded for"):
        process.ask({}, Ticket(60.0))
    assert not process.running


def test_answers_that_come_in_pieces(scripted: Callable[[str], semantic._Process]) -> None:
    """They are put together, and one to an earlier question is skipped."""
    process = scripted(HALVES)
    assert [process.ask({}, Ticket(60.0)).id for _ in range(3)] == [1, 2, 3]


async def test_a_question_without_words_means_nothing(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is near to what is only left out: it is answered by the words, and the process is not asked."""

    def never(request: object, ticket: Ticket) -> None:
        raise AssertionError("it was asked")

    monkeypatch.setattr(inside.semantic_worker(index), "ask", never)
    found = await seqs(index, "-recipe")
    assert found and 12 not in found


def test_without_its_packages_it_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither without the model nor without what it computes with."""
    found = importlib.util.find_spec
    for missing in ("wordllama", "numpy"):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, missing=missing: None if name == missing else found(name)
        )
        assert can_find_meaning.__wrapped__() is False
    monkeypatch.undo()
    assert can_find_meaning.__wrapped__() is True


def test_what_waits_for_vectors_takes_little_memory() -> None:
    """A million messages wait for minutes until they have vectors: 32 bytes each, and they come in the order of the index."""
    count = 20_000
    tracemalloc.start()
    try:
        waiting = WaitingDocuments((1_000_000 + n, 2_000_000 + n // 7, 3 * n, 400_000_000 + n) for n in range(count))
        assert tracemalloc.get_traced_memory()[1] < 60 * count
    finally:
        tracemalloc.stop()
    assert len(waiting) == count
    found = [one for first in range(0, count, 64) for one in waiting.some(first, 64)]
    assert found == [(1_000_000 + n, 2_000_000 + n // 7, 3 * n, 400_000_000 + n) for n in range(count)]
    assert waiting.some(count - 1, 64) == found[-1:] and waiting.some(count, 64) == []


def test_documents_that_are_gone_are_found_by_their_ids(tmp_path: Path) -> None:
    """Those with vectors that the index no longer has, each once, whatever order the index gives."""
    vectors = pytest.importorskip("sessiond.index.vectors")
    import numpy as np

    store = vectors.VectorStore(str(tmp_path / "v.db"), "i")
    rows = [vectors.Row(doc, 1, 0, 0, 1) for doc in (5, 9, 5, 7, 11)]
    store.put([5, 7, 9, 11], rows, np.ones((5, vectors.DIMENSIONS), np.int8), 1)
    store.drop([11])
    assert store.docs_beside(iter([9, 3, 11])) == [5, 7]
    assert store.docs_beside([]) == [5, 7, 9]
    store.close()


async def test_a_document_without_a_vector_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no passages, and what the model fails on, is not found by its meaning; the others are, and its session is named.
    A model that fails on everything is another thing: nothing counts as done.
    """
    async with opened(tmp_path) as index:
        index.put_session(info("s"), [message(1, "the cat sat"), message(2, "odd one"), message(3, "a dog ran")], [])
        index.put_session(info("t"), [message(1, "bad text"), message(2, "the cat slept")], [])
        await index.settled()
    real_embed, real_passages = embedding.Model.embed, passage_module.passages
    broken = {"bad text"}

    def embed(self: embedding.Model, texts: list[str]) -> Any:
        if broken.intersection(texts) or "all" in broken:
            raise ValueError("planted")
        return real_embed(self, texts)

    def some_passages(texts: Any) -> Any:
        if any("odd" in text for _, text in texts):
            raise KeyError("planted")
        return real_passages(texts)

    monkeypatch.setattr(embedding.Model, "embed", embed)
    monkeypatch.setattr(passage_module, "passages", some_passages)
    worker = semantic_worker.Worker(str(tmp_path / "index.db"), str(tmp_path / "vectors.db"))
    wheres = [["1", {}]]
    answer = worker.search({"id": 1, "text": "the cat", "wheres": wheres, "most": 10})
    assert sorted(answer["left_out"]) == ["s", "t"]
    assert len(answer["found"]) >= 2
    broken.add("all")
    other = semantic_worker.Worker(str(tmp_path / "index.db"), str(tmp_path / "other.db"))
    other.step()
    with pytest.raises(ValueError, match="planted"):
        other.step()
    assert len(other._vectors) == 0
