"""Growth, and the work of many clients at once, remain bounded."""

from __future__ import annotations

from tests.home import Home

WORDS = "w" * 20_000


def test_an_empty_session_does_not_hold_the_journal(tmp_path):
    """While somebody has an empty session open, the journal is trimmed nevertheless."""
    config = "[autosave]\nidle_s = 0.1\n[limits]\njournal_bytes = 300000\nsegment_bytes = 65536\n"
    with Home(tmp_path, config) as home:
        panel, client = home.client(), home.client()
        panel.call("session/new", sessionId="panel")
        client.call("session/new", sessionId="a")
        for _ in range(100):
            client.call("session/append", sessionId="a", messages=[{"role": "user", "content": WORDS}])
        client.call("session/save")
        while client.call("daemon/status")["journal"]["bytes"] > 1_000_000:
            assert home.process.poll() is None
        assert panel.call("session/append", sessionId="panel", messages=[{"role": "user", "content": "x"}])["seq"] == 1
        home.kill()
        home.start()
        client = home.client()
        assert client.call("session/read", sessionId="panel")["messages"][0]["content"] == "x"
        assert client.call("session/read", sessionId="a", limit=1000)["messages"][-1]["seq"] == 100


def test_large_appends_at_once(tmp_path):
    """Appends that are each within the limits are all taken, however many come at the same instant."""
    with Home(tmp_path, "[limits]\nmessage_bytes = 450000\nrecord_bytes = 600000\n") as home:
        clients = [home.client() for _ in range(4)]
        clients[0].call("session/new", sessionId="a")
        text = "x" * 400_000
        asked = [
            (
                client,
                client.send(
                    "session/append",
                    {"sessionId": "a", "messages": [{"id": f"{n}-{turn}", "role": "user", "content": text}]},
                ),
            )
            for turn in range(4)
            for n, client in enumerate(clients)
        ]
        answers = [client.answer(number) for client, number in asked]
        assert [answer.get("error") for answer in answers] == [None] * 16
        assert sorted(answer["result"]["seq"] for answer in answers) == list(range(1, 17))
