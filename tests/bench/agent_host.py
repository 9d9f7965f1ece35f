"""Windows of VS Code: the list, a long session, and a word on its way, beside our own wire."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from tests.agent_host.window import Host, Window
from tests.bench.measure import (
    QUIET,
    Ratio,
    Row,
    Scale,
    fill,
    house,
    interleaved,
    middle,
    ms,
    p50,
    scratch,
    timed,
)
from tests.bench.reading import started_with
from tests.bench.report import until_quiet
from tests.bench.start import _until_indexed
from tests.home import Client


def windows(scale: Scale) -> Iterator[Row]:
    yield _list(scale)
    yield _long(scale)
    yield _word(scale)
    yield _nobody_looks(scale)


def _window(client: Client) -> Window:
    made = Window(Host(client.call("daemon/listen", kind="ahp")))
    made.initialize()
    return made


def _list(scale: Scale) -> Row:
    """A window that just came asks for all of them."""
    count = 5 * scale.sessions
    with scratch() as folder:
        home = started_with(folder, count)
        try:
            client = home.client()
            _until_indexed(client, count)
            assert home.process is not None
            until_quiet(home.process.pid)
            times = []
            for _ in range(scale.rounds):
                one = _window(client)
                times += timed(one.rows, 1)
                one.close()
        finally:
            home.stop()
    return Row(f"all {count:,} sessions listed in a window, p50", ms(p50(times)), "", "", "<= 2 s", p50(times) <= 2.0)


def _long(scale: Scale) -> Row:
    """A session that no window has had, opened for one: many turns beside as many as are shown."""
    few, many = 200, max(400, scale.long_session)
    times: dict[int, list[float]] = {few: [], many: []}
    with house(QUIET) as home:
        client = home.client()
        one = _window(client)
        for no in range(scale.rounds):
            for turns, taken in times.items():
                name = f"s{turns}-{no}"
                client.call("session/new", sessionId=name)
                fill(client, name, 2 * turns, 500)
                taken += timed(lambda name=name: one.open(name), 1)  # type: ignore[misc]
                one.states.clear()
    ratio = Ratio(tuple(b / a for a, b in zip(times[few], times[many], strict=True)))
    return Row(
        f"a session of {many:,} turns opened in a window",
        ms(p50(times[many])),
        f"one of {few} turns {ms(p50(times[few]))}",
        str(ratio),
        "<= 2",
        ratio.median <= 2,
    )


def _word(scale: Scale) -> Row:
    """From `session/extend` until a window has the word, beside a client of our own wire that has the session open, too."""
    count = scale.calls * scale.blocks
    with house(QUIET) as home:
        client = home.client()
        client.call("session/new", sessionId="s")
        fill(client, "s", 200, 500)
        client.call(
            "session/append",
            sessionId="s",
            messages=[{"id": "r", "role": "assistant", "content": "", "status": "streaming"}],
        )
        one, other = _window(client), home.client()
        chat = one.open("s")
        one.states.clear()  # no time for reducing
        other.call("session/open", sessionId="s")
        times: dict[str, list[float]] = {"window": [], "wire": []}

        def listen(which: str) -> None:
            for _ in range(count):
                while which == "window" and one.hear().get("params", {}).get("channel") != chat:
                    pass
                if which == "wire":
                    other.notification("session/changed")
                times[which].append(time.perf_counter())

        threads = [threading.Thread(target=listen, args=(which,)) for which in times]
        for thread in threads:
            thread.start()
        for at in range(count):
            client.call("session/extend", sessionId="s", messageId="r", text="word ", offset=5 * at)
            time.sleep(0.005)
        for thread in threads:
            thread.join()
    later = [window - wire for window, wire in zip(times["window"], times["wire"], strict=True)]
    return Row(
        "a word in a window, after it is at a client of our wire, p50",
        ms(p50(later)),
        "",
        "",
        "<= 1 ms",
        p50(later) <= 0.001,
    )


def _nobody_looks(scale: Scale) -> Row:
    """An append to a session that no window has open, while one is connected, beside a daemon without windows."""
    with house(QUIET) as with_window, house(QUIET) as without:
        clients = [with_window.client(), without.client()]
        one = _window(clients[0])
        measures = []
        for client in clients:
            client.call("session/new", sessionId="s")

            def append(client: Client = client) -> object:
                return client.call("session/append", sessionId="s", messages=[{"role": "user", "content": "x" * 500}])

            measures.append(lambda calls, append=append: timed(append, calls))
        ours, bare = interleaved(scale, *measures)
        one.close()
    ratio = Ratio(tuple(p50(a) / p50(b) for a, b in zip(ours, bare, strict=True)))
    return Row(
        "an append beside a window that has another session",
        ms(middle(ours)),
        f"without windows {ms(middle(bare))}",
        str(ratio),
        "<= 1.05",
        ratio.median <= 1.05,
    )
