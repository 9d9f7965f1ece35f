"""`session/ask` over the wire: it takes as long as a person does."""

from __future__ import annotations

import json

from tests.home import Home


def test_a_question_whose_answer_nobody_would_hear_is_not_asked(home: Home) -> None:
    """As a notification; and a batch would keep its connection busy until somebody answers."""
    client = home.client()
    client.call("session/new", sessionId="a")
    client.notify("session/ask", {"sessionId": "a", "text": "Run it?"})
    asked = {"jsonrpc": "2.0", "id": "q", "method": "session/ask", "params": {"sessionId": "a", "text": "Run it?"}}
    others = {"jsonrpc": "2.0", "id": "r", "method": "session/read", "params": {"sessionId": "a"}}
    client.stream.write(json.dumps([asked, others]).encode() + b"\n")
    client.stream.flush()
    refused, read = json.loads(client.stream.readline())
    assert (refused["id"], refused["error"]["message"]) == ("q", "session/ask takes as long as a person does")
    assert refused["error"]["data"]["hint"] == "send it outside of a batch"
    assert read["result"]["messages"] == []
    assert client.call("session/list", filter={"activity": "waiting"})["sessions"] == []
