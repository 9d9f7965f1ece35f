"""Two requests at once on one session: in any order both are answered, and nothing acknowledged is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.home import Home


def ask(client, method: str, **params):
    return client.answer(client.send(method, params))


def kinds(answers) -> list[str]:
    return [answer["error"]["data"]["kind"] if "error" in answer else "ok" for answer in answers]


def test_open_while_new(home, sid):
    """A client that opens a session while another creates it gets all of it or sessionNotFound, and hears every later change."""
    for number in range(20):
        maker, guest = home.client(), home.client()
        name = f"{sid}-{number}"
        making = maker.send("session/new", {"sessionId": name, "messages": [{"role": "user", "content": "first"}]})
        opened = ask(guest, "session/open", sessionId=name)
        assert "result" in maker.answer(making)
        if "error" in opened:
            assert opened["error"]["data"]["kind"] == "sessionNotFound"
        else:
            assert opened["result"]["session"]["messageCount"] == 1
            first = maker.send("session/append", {"sessionId": name, "messages": [{"role": "user", "content": "a"}]})
            second = guest.send("session/append", {"sessionId": name, "messages": [{"role": "user", "content": "b"}]})
            seqs = {maker.answer(first)["result"]["seq"], guest.answer(second)["result"]["seq"]}
            assert seqs == {2, 3}
            assert maker.notification("session/changed")["changes"][0]["messages"][0]["content"] == "b"
            assert guest.notification("session/changed")["changes"][0]["messages"][0]["content"] == "a"
        maker.close()
        guest.close()


def test_twelve_make_the_same(home, sid):
    """Of twelve that make one id at once one succeeds, the others are told alreadyExists."""
    clients = [home.client() for _ in range(12)]
    numbers = [client.send("session/new", {"sessionId": sid, "name": str(n)}) for n, client in enumerate(clients)]
    answers = [client.answer(number) for client, number in zip(clients, numbers, strict=True)]
    assert sorted(kinds(answers)) == ["alreadyExists"] * 11 + ["ok"]
    for client in clients:
        client.close()


def test_append_while_delete(home, sid):
    """Each append is answered; what was acknowledged is in the trash or in the session; nobody waits for ever."""
    for number in range(10):
        name = f"{sid}-{number}"
        deleter, writer = home.client(), home.client()
        deleter.call("session/new", sessionId=name, messages=[{"role": "user", "content": "x"}])
        asked = [
            writer.send(
                "session/append", {"sessionId": name, "messages": [{"id": str(n), "role": "user", "content": "y"}]}
            )
            for n in range(20)
        ]
        deleted = deleter.send("session/delete", {"sessionId": name})
        asked += [
            writer.send(
                "session/append", {"sessionId": name, "messages": [{"id": str(n), "role": "user", "content": "y"}]}
            )
            for n in range(20, 40)
        ]
        answers = [writer.answer(one) for one in asked]
        assert "result" in deleter.answer(deleted)
        assert set(kinds(answers)) <= {"ok", "sessionNotFound"}
        acknowledged = {answer["result"]["messages"][0]["id"] for answer in answers if "result" in answer}
        deleter.call("session/restore", sessionId=name)
        kept = {one["id"] for one in deleter.call("session/read", sessionId=name)["messages"]}
        assert acknowledged <= kept
        deleter.close()
        writer.close()


def test_cuts_deletes_and_restores_at_once(home, sid):
    """Clear, truncate, delete, restore, save, fork and new of one session by eight clients at once: every request is answered
    with a result or an honest error, and the session can be used afterwards.
    """
    home.client().call("session/new", sessionId=sid, messages=[{"role": "user", "content": "x"}])
    honest = {"ok", "sessionNotFound", "alreadyExists", "conflict"}

    def hammer(number: int) -> list[str]:
        client, found = home.client(), []
        for turn in range(25):
            method, params = [
                ("session/append", {"messages": [{"role": "user", "content": f"{number}-{turn}"}]}), ("session/clear", {}),
                ("session/truncate", {"afterSeq": 1}), ("session/delete", {}), ("session/restore", {}), ("session/save", {}),
                ("session/open", {"since": 0}), ("session/fork", {}), ("session/close", {}), ("session/update", {"name": str(turn)}),
                ("session/new", {}),
            ][(number * 7 + turn * 3) % 11]  # fmt: skip
            found += kinds([ask(client, method, sessionId=sid, **params)])
        client.close()
        return found

    with ThreadPoolExecutor(8) as pool:
        results = [kind for found in pool.map(hammer, range(8)) for kind in found]
    assert len(results) == 200
    assert set(results) <= honest
    client = home.client()
    if "error" in ask(client, "session/open", sessionId=sid):
        client.call("session/new", sessionId=sid)
    seq = client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "end"}])["seq"]
    seqs = [one["seq"] for one in client.call("session/read", sessionId=sid, limit=1000)["messages"]]
    assert seqs == sorted(set(seqs))
    assert seqs[-1] == seq
    assert client.call("session/save", sessionId=sid)["saved"]
    client.close()


def test_clear_while_a_reply_streams(home, sid):
    """The stream of a message that was cleared ends with invalidParams; the writer's leaving later disturbs nothing."""
    writer, other = home.client(), home.client()
    writer.call(
        "session/new", sessionId=sid, messages=[{"id": "r", "role": "assistant", "content": "", "status": "streaming"}]
    )
    asked = [writer.send("session/extend", {"sessionId": sid, "messageId": "r", "text": "x"}) for _ in range(50)]
    cleared = other.send("session/clear", {"sessionId": sid})
    assert set(kinds(writer.answer(one) for one in asked)) <= {"ok", "invalidParams"}
    assert other.answer(cleared)["result"]["session"]["messageCount"] == 0
    assert writer.fails("session/extend", sessionId=sid, messageId="r", text="x")["code"] == -32602
    writer.close()
    assert (
        other.call("session/append", sessionId=sid, messages=[{"id": "r", "role": "user", "content": "new"}])[
            "messages"
        ][0]["id"]
        == "r"
    )
    assert [one["content"] for one in other.call("session/read", sessionId=sid)["messages"]] == ["new"]
    other.close()


def test_outside_edits_while_clients_append(tmp_path):
    """A file that is edited by hand again and again while two clients append: every acknowledged word is there in the end, once."""
    with Home(tmp_path, "[autosave]\nidle_s = 0.05\n[limits]\nsettle_s = 0.05\n") as home:
        client = home.client()
        client.call("session/new", sessionId="a", messages=[{"role": "user", "content": "first"}])
        client.call("session/save", sessionId="a")
        path = tmp_path / "data" / "sessions" / "a.jsonl"
        stop, acknowledged, failed = threading.Event(), [], []

        def write(number: int) -> None:
            mine, count = home.client(), 0
            while not stop.is_set():
                word = f"{number}-{count}"
                count += 1
                answer = ask(
                    mine, "session/append", sessionId="a", messages=[{"id": word, "role": "user", "content": word}]
                )
                (acknowledged if "result" in answer else failed).append(word)

        writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
        for writer in writers:
            writer.start()
        by_hand = []
        for number in range(8):
            with path.open("a") as file:
                file.write('{"role":"user","content":"hand %d"}\n' % number)
            by_hand.append(f"hand {number}")
            while by_hand[-1] not in [
                one["content"] for one in client.call("session/open", sessionId="a", last=1000)["messages"]
            ]:
                pass
        stop.set()
        for writer in writers:
            writer.join()
        assert failed == []
        home.kill()
        home.start()
        client = home.client()
        found, since = [], 0
        while page := client.call("session/read", sessionId="a", since=since, limit=1000)["messages"]:
            found += [one["content"] for one in page]
            since = page[-1]["seq"]
        assert sorted(found) == sorted(["first", *acknowledged, *by_hand])


def test_a_cancelled_new_or_save_leaves_all_in_order(home, sid):
    """$/cancelRequest at any moment: the answer says what is so, and a repetition works."""
    client = home.client()
    for number in range(30):
        name = f"{sid}-{number}"
        made = client.send(
            "session/new", {"sessionId": name, "messages": [{"id": "x", "role": "user", "content": "x"}]}
        )
        client.notify("$/cancelRequest", {"id": made})
        if "error" in client.answer(made):
            assert client.fails("session/open", sessionId=name)["data"]["kind"] == "sessionNotFound"
            client.call("session/new", sessionId=name, messages=[{"id": "x", "role": "user", "content": "x"}])
        saved = client.send("session/save", {"sessionId": name})
        client.notify("$/cancelRequest", {"id": saved})
        assert set(kinds([client.answer(saved)])) <= {"ok", "cancelled"}
        client.call("session/append", sessionId=name, messages=[{"id": "y", "role": "user", "content": "y"}])
        client.call("session/save", sessionId=name)
        content = (home.path / "data" / "sessions" / f"{name}.jsonl").read_text()
        assert (content.count('"content":"x"'), content.count('"content":"y"')) == (1, 1)
    client.close()
