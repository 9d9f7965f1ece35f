"""docs/search.md: the meaning of a query in session/search."""

from __future__ import annotations

import pytest

from tests.home import Home

MESSAGES = [
    {"id": "fox", "role": "user", "content": "The quick brown fox; Café Ünïcode naïve"},
    {"id": "code", "role": "assistant", "content": "call getUserName in src/app/main.py, foo.bar() and snake_case too"},
    {"id": "jp", "role": "user", "content": "日本語の検索をPythonで試す🎉 안녕하세요"},
    {"id": "astral", "role": "user", "content": "🎉🎉 zebra 𝒳 zebra"},
    {"id": "call", "role": "assistant", "content": "", "thinking": "secretplan",
     "toolCalls": [{"id": "c", "name": "frobnicate", "arguments": {"path": "wombat.txt", "deep": {"key": "quokka"}}}]},
    {"id": "result", "role": "tool", "toolCallId": "c", "content": "resultword"},
    {"id": "blocks", "role": "user", "content": [{"type": "text", "text": "blockword"}, {"type": "tool_result", "content": "innerresult"}]},
    {"id": "old", "role": "user", "content": "brown bear", "timestamp": "2020-05-05T05:05:05.000Z"},
    {"id": "odd", "role": "user", "content": 'NEAR( foo:bar * " -x OR'},
]  # fmt: skip


@pytest.fixture(scope="module")
def asker(home):
    client = home.client()
    client.call("session/new", sessionId="s", name="Namesake plans", tags=["Work"], model="claude-opus-4", cwd="/home/me/proj", messages=MESSAGES)  # fmt: skip
    client.call("note/append", sessionId="s", heading="Decisions", content="noteword")
    client.call("session/new", sessionId="t", messages=[{"id": "other", "role": "user", "content": "brown bread"}])
    return client


def ids(asker, query, **fields):
    return {hit["messageId"] for hit in asker.call("session/search", query=query, **fields)["hits"]}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("brown", {"fox", "old", "other"}),
        ("brown fox", {"fox"}),
        ("fox brown", {"fox"}),
        ('"brown fox"', {"fox"}),
        ('"fox brown"', set()),
        ("bro*", {"fox", "old", "other"}),
        ("bro", set()),
        ("brown -fox", {"old", "other"}),
        ("fox OR bear", {"fox", "old"}),
        ("brown fox OR bear", {"fox", "old"}),
        ("QUICK", {"fox"}),
        ("cafe unicode NAÏVE", {"fox"}),
        ("getUserName", {"code"}),
        ("username", set()),
        ("user name", {"code"}),
        ("UserName", {"code"}),
        ("main.py", {"code"}),
        ("src/app/main.py", {"code"}),
        ("app", {"code"}),
        ("foo.bar", {"code", "odd"}),
        ("snake_case", {"code"}),
        ("snake", {"code"}),
        ("本", {"jp"}),
        ("語の検", {"jp"}),
        ("日本 python", {"jp"}),
        ("pyth", set()),
        ("녕하", {"jp"}),
        ("frobnicate", {"call"}),
        ("wombat.txt quokka", {"call"}),
        ("resultword", {"result"}),
        ("innerresult blockword", {"blocks"}),
        ("secretplan", set()),
        ("secretplan in:thinking", {"call"}),
        ("resultword OR fox -in:tools", {"fox"}),
        ("brown role:user before:2021", {"old"}),
        ("brown after:2021", {"fox", "other"}),
        ("brown after:2020-05-05 before:2020-05-06", {"old"}),
        ("brown tag:work", {"fox", "old"}),
        ("brown -tag:work", {"other"}),
        ("brown model:opus", {"fox", "old"}),
        ("brown cwd:/home/me", {"fox", "old"}),
        ("brown cwd:proj", {"fox", "old"}),
        ("brown store:default", {"fox", "old", "other"}),
        ("brown store:nowhere", set()),
        ("foo:bar", {"code", "odd"}),
        ("NEAR(", {"odd"}),
        ("namesake in:name", {None}),
        ("fox in:name", set()),
        ("noteword", {None}),
        ("", set()),
        ("* \" ' ( ) -", set()),
    ],
)
def test_text(asker, query, wanted):
    """Every sentence about text search."""
    assert ids(asker, query) == wanted


@pytest.mark.parametrize(
    "query",
    ["\0", 'a"b"c', "((((", "role:", "before:never", "-", "OR OR", "a" * 100_000, "NOT AND", "🎉" * 1000, "\ufffd*"],
)
def test_whatever_people_type_is_no_error(asker, query):
    """It finds something or nothing."""
    assert "hits" in asker.call("session/search", query=query)


def test_ranges_count_code_points(asker):
    """Of the snippet, end excluded, also after characters outside the BMP."""
    [hit] = asker.call("session/search", query="zebra")["hits"]
    assert [hit["snippet"][start:end] for start, end in hit["ranges"]] == ["zebra", "zebra"]
    [hit] = asker.call("session/search", query="試す")["hits"]
    assert [hit["snippet"][start:end] for start, end in hit["ranges"]] == ["試す"]
    [hit] = asker.call("session/search", query="zebr.", mode="regex")["hits"]
    assert [hit["snippet"][start:end] for start, end in hit["ranges"]] == ["zebra", "zebra"]


def test_fields_of_a_hit(asker):
    """Of a message all; of a name no id, seq or role; of a note no id and no role."""
    [hit] = asker.call("session/search", query="quick")["hits"]
    assert {**hit, "score": 0, "timestamp": ""} == {
        "sessionId": "s", "name": "Namesake plans", "messageId": "fox", "seq": 1, "role": "user", "timestamp": "",
        "snippet": MESSAGES[0]["content"], "ranges": [[4, 9]], "score": 0,
    }  # fmt: skip
    [name] = asker.call("session/search", query="namesake")["hits"]
    assert (name["messageId"], name["seq"], name["role"]) == (None, None, None)
    [note] = asker.call("session/search", query="noteword")["hits"]
    assert (note["sessionId"], note["messageId"], note["role"]) == ("s", None, None)


def test_regex(asker):
    """Case-sensitive unless (?i); thoughts are left out; a bad pattern has its position."""
    assert ids(asker, r"qu\w+k\b", mode="regex") == {"fox"}
    assert ids(asker, "QUICK", mode="regex") == set()
    assert ids(asker, "(?i)QUICK", mode="regex") == {"fox"}
    assert ids(asker, "^brown", mode="regex") == {"old", "other"}
    assert ids(asker, "secretplan", mode="regex") == set()
    error = asker.fails("session/search", query="ab(c", mode="regex")
    assert (error["data"]["kind"], error["data"]["position"]) == ("invalidParams", 2)


def test_a_catastrophic_pattern_disturbs_nobody(tmp_path):
    """It ends as `cancelled`; meanwhile all other requests are answered."""
    with Home(tmp_path, "[limits]\nregex_s = 1.0\n") as home:
        client, other = home.client(), home.client()
        client.call("session/new", sessionId="s", messages=[{"role": "user", "content": "a" * 60 + "!"}])
        number = client.send("session/search", {"query": "(a+)+$", "mode": "regex"})
        for _ in range(20):
            other.call("session/list")
        assert client.answer(number)["error"]["data"]["kind"] == "cancelled"


def test_pages_hold_what_was_there(asker):
    """Totals are exact on every page, and messages that come in between change nothing of what is left."""
    asker.call(
        "session/append", sessionId="t", messages=[{"role": "user", "content": f"marsupial {n}"} for n in range(25)]
    )
    first = asker.call("session/search", query="marsupial", limit=10)
    asker.call(
        "session/append", sessionId="t", messages=[{"role": "user", "content": f"marsupial {n}"} for n in range(7)]
    )
    seen = [hit["seq"] for hit in first["hits"]]
    cursor = first["nextCursor"]
    while cursor:
        page = asker.call("session/search", query="marsupial", limit=10, cursor=cursor)
        assert page["total"] == first["total"] == 25
        seen += [hit["seq"] for hit in page["hits"]]
        cursor = page["nextCursor"]
    assert sorted(seen) == list(range(2, 27))
    assert asker.call("session/search", query="marsupial", limit=10**6)["total"] == 32
    for bad in ({"limit": -1}, {"limit": 0}, {"cursor": "nonsense"}, {"cursor": first["nextCursor"], "mode": "regex"}):
        assert asker.fails("session/search", query="marsupial", **bad)["data"]["kind"] == "invalidParams"
