"""`doctor` names the sessions that could not be indexed, and `--repair` tries them again, with and without a daemon."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from click.testing import CliRunner

from sessiond import endpoint
from sessiond.cli import doctor
from sessiond.config import load
from sessiond.doctor import index as doctor_index
from sessiond.errors import InvalidParams
from sessiond.formats import registry
from sessiond.fs import RealFileSystem
from sessiond.index import prepared
from sessiond.index.index import Index
from sessiond.index.text import Texts, searchable
from sessiond.limits import Limits
from sessiond.model.message import Message
from sessiond.store.files import StoreFiles
from tests.fakes.answers import Answers
from tests.shell import Shell


def spoilt(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """There is a bug in what finds the words of such a message."""

    def buggy(one: Message) -> Texts:
        if word in str(one.content):
            raise TypeError("planted")
        return searchable(one)

    monkeypatch.setattr(prepared, "searchable", buggy)


@pytest.fixture
def half(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A home without a daemon, whose index lacks one message of `x` and nothing of `y`."""
    for name in ("x", "y"):
        shell("new", "--id", name, "--name", name.upper())
        for word in ("first", "second"):
            shell("append", name, f"{word} words of {name}")
    shell("stop")
    where = endpoint.places(shell.env)

    async def feed() -> None:
        index = Index(where.index_file, Limits())
        await index.open()
        known = await index.info("x")
        assert known is not None
        files = StoreFiles(RealFileSystem(), str(shell.data / "sessions"), registry.get("jsonl")).read("x").files
        said = registry.get("jsonl").decode("x", files).session.messages()
        index.put_session(known, said, [])
        await index.settled()
        assert index.left_out == ["x"]
        await index.close()

    with monkeypatch.context() as patch:
        spoilt(patch, "second words of x")
        asyncio.run(feed())
    return shell


def test_without_a_daemon(half: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and only it. While it is still spoilt, `--repair` does not say that it is searchable."""
    done = half("doctor", "--json")
    [one] = [one for one in done.json["findings"] if one["problem"]]
    assert (done.code, one["what"]) == (1, "search index: session x")
    assert "without its words" in one["problem"]
    assert "doctor --repair" in one["hint"]
    where, fs = endpoint.places(half.env), RealFileSystem()
    with monkeypatch.context() as patch:
        spoilt(patch, "second words of x")
        [finding] = doctor_index.examine_unfinished(fs, where, load(fs, where, half.env))
        assert finding.problem is not None and finding.problem.endswith("TypeError: planted")
        assert finding.mend is not None and finding.mend() is None
    done = half("doctor", "--repair")
    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.startswith("MENDED")] == [
        f"MENDED   search index: session x: {one['problem']}; it is searchable now"
    ]
    assert half("doctor").code == 0
    assert half("search", "second words of x", "--json").json["total"] == 1


def test_an_index_that_cannot_be_read_is_told_once(half: Shell) -> None:
    """And one of another version, or none, is nothing to tell of here."""
    where, fs = endpoint.places(half.env), RealFileSystem()
    config = load(fs, where, half.env)
    fs.remove(where.index_file)
    assert list(doctor_index.examine_unfinished(fs, where, config)) == []
    fs.create(where.index_file, b"SQLite format 3\0 and nothing else")
    assert list(doctor_index.examine_unfinished(fs, where, config)) == []


@pytest.mark.parametrize("as_json", [False, True])
def test_through_a_running_daemon(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """For each session whether it is searchable now; the exit code says whether all are."""
    still = {"sessionId": "b", "problem": "message b1: TypeError: planted"}
    answers = Answers({"daemon/reindex": [{"sessions": [{"sessionId": "a", "problem": None}, still]}]})
    monkeypatch.setattr(doctor, "ask_if_running", lambda _, request: answers.answer(request))
    done = CliRunner().invoke(doctor.command, ["--repair", *(["--json"] if as_json else [])])
    if as_json:
        found = msgspec.json.decode(done.output)
        assert [one.get("mended") for one in found["findings"]] == ["it is searchable now", None]
        assert found["healthy"] is False
    else:
        assert "MENDED   search index: session a: " in done.output
        assert "PROBLEM  search index: session b: message b1: TypeError: planted" in done.output


def test_an_older_daemon_is_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not know the request: `--repair` says what it always said."""

    def older(*_: object) -> None:
        raise InvalidParams("unknown method")

    assert doctor_index.index_again(endpoint.places({"HOME": "/", "SESSIOND_HOME": "/nowhere"}), older) == []
