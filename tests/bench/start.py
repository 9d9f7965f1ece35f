"""From the start to the first answer: the relay, the daemon, a daemon with much data."""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.bench.measure import (
    MB,
    QUIET,
    Row,
    Scale,
    fill,
    house,
    interleaved,
    mb,
    middle,
    ms,
    p50,
    ratio,
    scratch,
    sessions_folder,
    timing,
    write_session,
)
from tests.home import Home

ROOT = Path(__file__).parent.parent.parent


def relay_command() -> list[str]:
    script = Path(sys.executable).with_name("sessiond")
    # An installation compiles what it installs; a checkout may not have been imported yet, or not be allowed to.
    compileall.compile_dir(ROOT / "sessiond", quiet=1)
    return [str(script)] if script.exists() else [sys.executable, "-m", "sessiond"]


def framed(method: str, **params: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def attach(command: list[str], env: dict[str, str]) -> float:
    """Seconds from spawning the relay to its first answer."""
    start = time.perf_counter()
    relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    assert relay.stdin is not None
    assert relay.stdout is not None
    relay.stdin.write(framed("daemon/hello"))
    relay.stdin.flush()
    assert relay.stdout.readline().startswith(b"Content-Length")
    took = time.perf_counter() - start
    relay.stdin.close()
    relay.stdout.read()
    relay.wait()
    return took


def bare() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
    return time.perf_counter() - start


def _measure(call: Callable[[], float]) -> Callable[[int], list[float]]:
    return lambda count: [call() for _ in range(count)]


def spawned(scale: Scale) -> Iterator[Row]:
    """From spawning the relay to its first answer, with a daemon that runs and with none, against Python's own start."""
    command = relay_command()
    few = _fewer(scale, scale.spawns)
    with house() as home:
        warm, python = interleaved(few, _measure(lambda: attach(command, home.env)), _measure(bare))
        aim = ratio(warm, python)
        yield Row(
            "spawn to first answer, daemon running",
            ms(middle(warm)),
            f"python -I -c pass {ms(middle(python))}",
            str(aim),
            "<= 1.6",
            aim.median <= 1.6,
        )
    with scratch() as folder:
        home = Home(folder)

        def cold() -> float:
            took = attach(command, home.env)
            subprocess.run([*command, "stop"], env=home.env, check=True, capture_output=True)
            return took

        none, python = interleaved(_fewer(scale, max(1, scale.spawns // 4)), _measure(cold), _measure(bare))
        aim = ratio(none, python)
        yield Row(
            "spawn to first answer, no daemon",
            ms(middle(none)),
            f"python -I -c pass {ms(middle(python))}",
            str(aim),
            "<= 10",
            aim.median <= 10,
        )


def _fewer(scale: Scale, calls: int) -> Scale:
    import dataclasses

    return dataclasses.replace(scale, calls=calls, blocks=1)


def _first(home: Home, method: str, **params: Any) -> tuple[float, Any]:
    """Start the daemon; returns the seconds until its answer, for a client that dials until it responds."""
    start = time.perf_counter()
    log = open(home.path / "daemon.err", "ab")  # noqa: SIM115  (the process keeps it)
    home.process = subprocess.Popen(
        [sys.executable, "-m", "sessiond", "serve"], env=home.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )
    log.close()
    # The socket's name may be left of a daemon that was killed: the one that counts is newer.
    client = home.client()
    result = client.call(method, **params)
    took = time.perf_counter() - start
    client.close()
    return took, result


_PATIENCE_S = 600.0


def large_file(scale: Scale) -> Iterator[Row]:
    """The last 50 messages of one large session, right after a restart."""
    for times in (1, *(one for one in scale.growth if one <= 10)):
        size = scale.large_file_bytes * times
        opened, hello, appended, oldest = [], [], [], []
        with house() as home:
            client = home.client(_PATIENCE_S)  # a gigabyte takes a while to be saved, and indexed
            client.call("session/new", sessionId="large")
            fill(client, "large", size // 10_000, 10_000)
            client.call("session/save")
            client.call("session/list", limit=1)
            for _ in range(scale.rounds if times == 1 else 2):
                home.stop()
                hello.append(_first(home, "daemon/hello")[0])
                client = home.client(_PATIENCE_S)
                start = time.perf_counter()
                result = client.call("session/open", sessionId="large", last=50)
                opened.append(time.perf_counter() - start)
                start = time.perf_counter()
                sent = [{"id": f"retry-{len(opened)}", "role": "user", "content": "x"}]
                client.call("session/append", sessionId="large", messages=sent)
                appended.append(time.perf_counter() - start)
                start = time.perf_counter()
                client.call("session/read", sessionId="large", before=50, limit=10)
                oldest.append(time.perf_counter() - start)
                assert len(result["messages"]) == min(50, size // 10_000 + len(opened) - 1), result["session"]
        yield Row(
            f"open last 50 of a file of {mb(size)}, right after a restart",
            ms(p50(opened)),
            f"its first answer came after {ms(p50(hello))}",
            "",
            "<= 60 ms" if times == 1 else "",
            p50(opened) <= 0.06 if times == 1 else None,
        )
        yield Row(
            "then an append with an id, which is looked for in the file",
            ms(p50(appended)),
            f"then its oldest messages, which wait for the whole of it, {ms(p50(oldest))}",
        )


def many_bytes(scale: Scale) -> Iterator[Row]:
    """The first answer of a daemon that has a gigabyte of sessions, all of them known to its index."""
    for times in (0.1, 1.0):
        count = max(1, int(scale.all_bytes * times) // MB)
        with scratch() as folder:
            home = Home(folder)
            files = sessions_folder(folder)
            for n in range(count):
                write_session(files, f"s{n:05}", min(scale.all_bytes, MB) // 1000, 900)
            home.start()
            try:
                client = home.client()
                _until_indexed(client, count)
                first, listed = [], []
                for _ in range(max(2, scale.rounds // 2)):
                    home.stop()
                    first.append(_first(home, "daemon/hello")[0])
                    home.stop()
                    took, page = _first(home, "session/list", limit=50)
                    assert len(page["sessions"]) == min(50, count)
                    listed.append(took)
            finally:
                home.stop()
            what = f"first answer after a restart, {count:,} sessions of {mb(scale.all_bytes * times)} in all"
            yield Row(what, ms(p50(first)), f"first list {ms(p50(listed))}", "", "<= 0.5 s", p50(first) <= 0.5)


def _until_indexed(client: Any, count: int) -> float:
    """Seconds until a list knows all."""
    start = time.perf_counter()
    while client.call("daemon/status")["stores"][0]["sessions"] < count:
        time.sleep(0.2)
    return time.perf_counter() - start


def killed(scale: Scale) -> Iterator[Row]:
    """kill -9 with a journal that nothing was saved of. Larger than the first it gets only where a configuration says so."""
    for growth in (1, *(one for one in scale.growth if one <= 10)):
        yield _killed_with(scale, scale.journal_bytes * growth, aimed=growth == 1)


def _killed_with(scale: Scale, size: int, *, aimed: bool) -> Row:
    times = []
    with house(f"{QUIET}[limits]\njournal_bytes = {size * 2}\n") as home:
        client = home.client(_PATIENCE_S)
        count = size // 10_000
        for n in range(10):
            client.call("session/new", sessionId=f"s{n}")
            fill(client, f"s{n}", count // 10, 10_000)
        held = client.call("daemon/status")["journal"]["bytes"]
        for _ in range(scale.rounds):
            home.kill()
            took, result = _first(home, "session/read", sessionId="s3", last=1)
            assert result["seq"] == count // 10
            times.append(took)
    aim = ("<= 2 s", p50(times) <= 2) if aimed else ("", None)
    return Row(
        f"first answer (of a session that waits in it) after kill -9 with {mb(held)} of journal",
        ms(p50(times)),
        "",
        "",
        *aim,
    )


def relayed(scale: Scale) -> Iterator[Row]:
    """A large message there and back, through the relay and on the socket itself; the second is nearly as large as one may be."""
    for times in (1, *(6 for one in scale.growth if one == 10)):
        yield _relayed(scale, scale.relayed_bytes * times, aimed=times == 1)


def _relayed(scale: Scale, size: int, *, aimed: bool) -> Row:
    body = framed("session/append", sessionId="big", messages=[{"role": "user", "content": "x" * size}])
    with house(QUIET) as home:
        home.client().call("session/new", sessionId="big")
        relay = subprocess.Popen(relay_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=home.env)
        assert relay.stdin is not None
        assert relay.stdout is not None
        through = (relay.stdin, relay.stdout)
        stream = home.connect().makefile("rwb", buffering=1 << 20)

        def there_and_back(to: Any, back: Any) -> None:
            to.write(body)
            to.flush()
            _answer(back)
            to.write(framed("session/read", sessionId="big", last=1))
            to.flush()
            assert len(_answer(back)) > size

        few = _fewer(scale, 1)
        ours, direct = interleaved(
            few, timing(lambda: there_and_back(*through)), timing(lambda: there_and_back(stream, stream))
        )
        relay.stdin.close()
        relay.wait()
        share = ratio(direct, ours)
        aim = (">= 0.8", share.median >= 0.8) if aimed else ("", None)
        return Row(
            f"{mb(size)} appended and read again through the relay",
            f"{mb(2 * size / middle(ours))}/s",
            f"on the socket {mb(2 * size / middle(direct))}/s",
            str(share),
            *aim,
        )


def _answer(stream: Any) -> bytes:
    length = int(stream.readline().split(b":")[1])
    stream.readline()
    body = bytes(stream.read(length))
    assert b'"result"' in body[:60], body[:200]
    return body


os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody's installation runs like that
