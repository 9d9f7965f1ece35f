"""docs/protocol.md: session/list, session/search, session/export, session/import."""

from __future__ import annotations

import json

import pytest

from tests.home import Home


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A home with a few sessions that differ in all that a filter can ask for."""
    with Home(tmp_path_factory.mktemp("shelf")) as home:
        client = home.client()
        for number, name in enumerate(["Alpha", "beta", "Gamma", "delta"]):
            words = [
                {"role": "user", "content": f"quokka {name} {n}", "timestamp": f"2026-01-0{number + 1}T00:00:00Z"}
                for n in range(number + 1)
            ]
            tags = ["all", "odd" if number % 2 else "even"]
            client.call(
                "session/new",
                sessionId=name.lower(),
                name=name,
                tags=tags,
                model=f"m{number % 2}",
                cwd=f"/w/{number % 2}",
                messages=words,
            )
        client.call("session/update", sessionId="gamma", archived=True)
        client.call(
            "session/new", sessionId="binned", name="Binned", messages=[{"role": "user", "content": "quokka binned"}]
        )
        client.call("session/delete", sessionId="binned")
        client.close()
        yield home


@pytest.fixture
def asker(shelf):
    made = shelf.client()
    yield made
    made.close()


def ids(result) -> list[str]:
    return [one["sessionId"] for one in result["sessions"]]


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (None, ["alpha", "beta", "delta"]), ({"archived": True}, ["gamma"]), ({"archived": False}, ["alpha", "beta", "delta"]), ({"deleted": True}, ["binned"]),
        ({"tags": ["even"]}, ["alpha"]), ({"tags": ["all", "odd"]}, ["beta", "delta"]), ({"tags": ["all", "none"]}, []), ({"model": "m1"}, ["beta", "delta"]),
        ({"cwd": "/w/0"}, ["alpha"]), ({"name": "ALPH"}, ["alpha"]), ({"name": "TA"}, ["beta", "delta"]), ({"name": "%"}, []), ({"store": "default"}, ["alpha", "beta", "delta"]),
        ({"store": "none"}, []),
    ],
)  # fmt: skip
def test_list_filters(asker, filter_, expected):
    """Each filter of the contract; archived and deleted ones only when asked for."""
    assert ids(asker.call("session/list", sort="name", **({} if filter_ is None else {"filter": filter_}))) == expected


def test_list_by_time(asker):
    """since <= updatedAt < until."""
    times = {one["sessionId"]: one["updatedAt"] for one in asker.call("session/list")["sessions"]}
    middle = times["beta"]
    assert set(ids(asker.call("session/list", filter={"since": middle}))) == {
        key for key, at in times.items() if at >= middle
    }
    assert set(ids(asker.call("session/list", filter={"until": middle}))) == {
        key for key, at in times.items() if at < middle
    }
    assert asker.fails("session/list", filter={"since": "yesterday"})["code"] == -32602


@pytest.mark.parametrize(
    "sort", ["name", "-name", "messageCount", "-messageCount", "createdAt", "-createdAt", "updatedAt", "-updatedAt"]
)
def test_list_sorts_and_pages(asker, sort):
    """Every order, and a cursor that continues where its page ended."""
    whole = asker.call("session/list", sort=sort)
    values = [str(one[sort.removeprefix("-")]).casefold() for one in whole["sessions"]]
    assert values == sorted(values, reverse=sort.startswith("-"))
    pages, cursor = [], None
    while True:
        page = asker.call("session/list", sort=sort, limit=1, **({"cursor": cursor} if cursor else {}))
        pages += ids(page)
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert pages == ids(whole)


def test_list_defaults(asker):
    """-updatedAt, with nextCursor null at the end; an invalid cursor is invalidParams."""
    assert asker.call("session/list") == asker.call("session/list", sort="-updatedAt")
    assert asker.call("session/list")["nextCursor"] is None
    assert asker.fails("session/list", cursor="rubbish")["code"] == -32602


def test_search(asker):
    """Hits with exactly their fields; ranges say where; total is exact; archived and deleted ones are not found."""
    result = asker.call("session/search", query="quokka")
    assert result["total"] == len(result["hits"]) == 7
    assert {hit["sessionId"] for hit in result["hits"]} == {"alpha", "beta", "delta"}
    for hit in result["hits"]:
        assert set(hit) == {"sessionId", "name", "messageId", "seq", "role", "timestamp", "snippet", "ranges", "score"}
        assert [hit["snippet"][start:end].casefold() for start, end in hit["ranges"]] == ["quokka"]
    assert asker.call("session/search", query="quokka", filter={"archived": True})["total"] == 3
    assert asker.call("session/search", query="quokka", filter={"sessionId": "beta"})["total"] == 2
    assert asker.call("session/search", query="quokka", filter={"role": "tool"})["total"] == 0
    assert asker.call("session/search", query="q.okka [A-Z]", mode="regex")["total"] == 1


def test_search_finds_at_once(client, session):
    """A message is found right after the answer to its append (the contract gives it 200 ms)."""
    sid = session("numbat one")
    deadline = 200
    for _ in range(deadline):
        if client.call("session/search", query="numbat")["hits"]:
            break
    assert client.call("session/search", query="numbat")["hits"][0]["sessionId"] == sid


def test_search_that_is_wrong(client):
    """A bad pattern is invalidParams with its position."""
    error = client.fails("session/search", query="a(b", mode="regex")
    assert error["code"] == -32602
    assert "position" in json.dumps(error)


@pytest.mark.parametrize("fmt", ["jsonl", "json", "markdown", "org", "html", "text"])
def test_export(client, session, tmp_path, fmt):
    """In each format, into the answer and into a file, which is not written over unless asked for."""
    sid = session("wombat words")
    content = client.call("session/export", sessionId=sid, format=fmt)["content"]
    assert "wombat words" in content
    path = tmp_path / "out"
    told = client.call("session/export", sessionId=sid, format=fmt, path=str(path))
    assert told == {"path": str(path), "bytes": path.stat().st_size}
    assert path.read_text() == content
    assert client.fails("session/export", sessionId=sid, format=fmt, path=str(path))["code"] == -31007
    assert client.call("session/export", sessionId=sid, format=fmt, path=str(path), overwrite=True) == told


def test_export_never_into_our_own_folders(client, session, home, tmp_path):
    """Neither directly nor by a link or `..`; a path that is not absolute is refused too."""
    sid = session("x")
    (tmp_path / "link").symlink_to(home.path / "data")
    for path in (
        f"{home.path}/data/x",
        f"{home.path}/data/sessions/{sid}.jsonl",
        f"{tmp_path}/link/x",
        f"{home.path}/data/../data/x",
        "x",
        str(tmp_path),
    ):
        error = client.fails("session/export", sessionId=sid, format="text", path=path, overwrite=True)
        assert (error["code"], error["data"]["field"]) == (-32602, "path")


def test_a_native_export_comes_back(client, session, tmp_path):
    """jsonl is lossless: exported, deleted for ever and imported, the session is the same."""
    sid = session("a", "b", name="n", tags=["t"], metadata={"tool-name": None})
    client.call("state/set", sessionId=sid, values={"k": [1]})
    client.call("note/append", sessionId=sid, heading="h", content="c")
    before = client.call("session/open", sessionId=sid)
    path = tmp_path / f"{sid}.jsonl"
    client.call("session/export", sessionId=sid, format="jsonl", path=str(path))
    client.call("session/delete", sessionId=sid, permanent=True)
    [info] = client.call("session/import", path=str(path))["sessions"]
    assert info["sessionId"] == sid
    after = client.call("session/open", sessionId=sid)
    for key in ("messages", "notes", "state"):
        assert after[key] == before[key]
    assert [after["session"][key] for key in ("name", "tags", "metadata", "seq")] == [
        before["session"][key] for key in ("name", "tags", "metadata", "seq")
    ]


def claude_code(path, count: int) -> None:
    records = []
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        message = {
            "role": role,
            "content": f"bilby {number}" if role == "user" else [{"type": "text", "text": f"bilby {number}"}],
        }
        records.append({
            "type": role, "uuid": f"00000000-0000-4000-8000-{number:012d}", "parentUuid": f"00000000-0000-4000-8000-{number - 1:012d}" if number else None,
            "sessionId": "11111111-1111-4111-8111-111111111111", "timestamp": f"2026-01-01T00:00:{number:02d}.000Z", "cwd": "/w", "isSidechain": False,
            "version": "1.0.0", "message": message,
        })  # fmt: skip
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + "{broken\n")


def test_import(client, tmp_path):
    """Made once, grown when the source has grown, no doubles, dry run changes nothing; what was skipped is said."""
    path = tmp_path / "11111111-1111-4111-8111-111111111111.jsonl"
    claude_code(path, 4)
    dry = client.call("session/import", path=str(tmp_path), format="claude-code", dryRun=True)
    assert len(dry["sessions"]) == 1
    sid = dry["sessions"][0]["sessionId"]
    assert client.fails("session/open", sessionId=sid)["code"] == -31001
    first = client.call("session/import", path=str(tmp_path), format="claude-code")
    assert set(first) == {"sessions", "skipped", "warnings"}
    assert [one["messageCount"] for one in first["sessions"]] == [4]
    assert [(one["path"], one["line"]) for one in first["warnings"]] == [(str(path), 5)]
    again = client.call("session/import", path=str(tmp_path), format="claude-code")
    assert (again["sessions"], again["skipped"]) == ([], 1)
    client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "carried on"}])
    claude_code(path, 6)
    grown = client.call("session/import", path=str(tmp_path), format="claude-code")
    assert [one["messageCount"] for one in grown["sessions"]] == [7]
    texts = [json.dumps(one["content"]) for one in client.call("session/read", sessionId=sid)["messages"]]
    assert len(texts) == len(set(texts)) == 7


def test_import_tells_its_progress(client, tmp_path):
    """With a workDoneToken $/progress begins, and ends before the answer."""
    claude_code(tmp_path / "22222222-2222-4222-8222-222222222222.jsonl", 2)
    client.call("session/import", path=str(tmp_path), format="claude-code", workDoneToken="t")
    told = [params for method, params in client.notifications if method == "$/progress"]
    assert {one["token"] for one in told} == {"t"}
    kinds = [one["value"]["kind"] for one in told]
    assert (kinds[0], kinds[-1]) == ("begin", "end")
