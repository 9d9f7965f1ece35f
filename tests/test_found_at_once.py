"""From the answer to an append on, a search finds it, without waiting or a second try."""

from __future__ import annotations

from tests.home import Home

SESSIONS = 5
MESSAGES = 20


def test_the_first_search_after_an_append_finds_it(home: Home) -> None:
    """From the writer or another connection: the first search after the answer to the append finds it."""
    writer, reader = home.client(), home.client()
    for one in range(SESSIONS):
        session_id = writer.call("session/new")["session"]["sessionId"]
        for number in range(MESSAGES):
            word = f"numbat{one}x{number}"
            writer.call("session/append", sessionId=session_id, messages=[{"role": "user", "content": f"a {word}"}])
            asker = reader if number % 2 else writer
            hits = asker.call("session/search", query=word)["hits"]
            assert [(hit["sessionId"], hit["snippet"]) for hit in hits] == [(session_id, f"a {word}")]


def test_a_search_sent_right_behind_many_appends_finds_all(home: Home) -> None:
    """Appends that were answered together are found together by the first search after them."""
    client = home.client()
    session_id = client.call("session/new")["session"]["sessionId"]
    for round_ in range(10):
        sent = [
            client.send(
                "session/append",
                {"sessionId": session_id, "messages": [{"role": "user", "content": f"quokka{round_} {n}"}]},
            )
            for n in range(MESSAGES)
        ]
        for number in sent:
            assert "result" in client.answer(number)
        assert client.call("session/search", query=f"quokka{round_}")["total"] == MESSAGES
