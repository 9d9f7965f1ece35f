"""The main promise, on a real daemon: kill -9 at a random moment, and every acknowledged word is there once, in order."""

from __future__ import annotations

import os
import random
import threading
import time

from tests.home import Client, Home

ROUNDS = int(os.environ.get("SESSIOND_KILL_ROUNDS", "50"))
WRITERS = 4


def write(client: Client, writer: int, number: int, acknowledged: dict[str, int]) -> None:
    """Append as fast as possible until the daemon is gone; remember what was answered."""
    try:
        while True:
            number += 1
            text = f"{writer}-{number}"
            answer = client.call(
                "session/append", sessionId="s", messages=[{"id": text, "role": "user", "content": text}]
            )
            acknowledged[text] = answer["seq"]
    except (ConnectionError, OSError):
        return


def test_four_writers_and_a_kill_fifty_times_over(tmp_path):
    """After each restart every acknowledged message is there exactly once, under the seq that was answered."""
    home = Home(tmp_path)
    home.start()
    acknowledged: dict[str, int] = {}
    rng = random.Random(7)
    home.client().call("session/new", sessionId="s")
    for turn in range(ROUNDS):
        clients = [home.client() for _ in range(WRITERS)]
        threads = [
            threading.Thread(target=write, args=(client, writer, turn * 1_000_000, acknowledged))
            for writer, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        time.sleep(rng.uniform(0.005, 0.15))  # the moment of the kill, not a wait for anything
        home.kill()
        for thread in threads:
            thread.join()
        home.start()
        check(home.client(), acknowledged)
    home.stop()
    assert len(acknowledged) > ROUNDS


def check(client: Client, acknowledged: dict[str, int]) -> None:
    found: dict[str, int] = {}
    seqs: list[int] = []
    since, more = 0, True
    while more:
        page = client.call("session/read", sessionId="s", since=since, limit=1000)
        for message in page["messages"]:
            assert message["id"] not in found, "twice"
            assert message["content"] == message["id"]
            found[message["id"]] = message["seq"]
            seqs.append(message["seq"])
        more = page["hasMore"]
        since = seqs[-1] if seqs else 0
    assert seqs == sorted(seqs)
    missing = {text: seq for text, seq in acknowledged.items() if found.get(text) != seq}
    assert not missing
