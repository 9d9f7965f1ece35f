"""What an idle daemon costs: memory, CPU, bytes on the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.measure import Row, Scale, Words, house, mb, scratch, sessions_folder, write_session
from tests.bench.report import until_quiet
from tests.home import Client, Home

KB = 1024


def memory(home: Home) -> tuple[int, int]:
    """(resident, proportional) bytes of the daemon: what it shares with other processes counts in the second one in part."""
    assert home.process is not None
    text = Path(f"/proc/{home.process.pid}/smaps_rollup").read_text()
    figures = {line.split(":")[0]: line.split()[1] for line in text.splitlines()[1:]}
    return int(figures["Rss"]) * KB, int(figures["Pss"]) * KB


def cpu(home: Home) -> float:
    """Seconds of processor time that the daemon has used."""
    assert home.process is not None
    fields = Path(f"/proc/{home.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _row(what: str, home: Home, limit_mb: int | None) -> Row:
    resident, proportional = memory(home)
    aim = ("", None) if limit_mb is None else (f"<= {limit_mb} MB", proportional <= limit_mb * 1e6)
    return Row(what, f"PSS {mb(proportional)}, RSS {mb(resident)}", "", "", *aim)


def resident(scale: Scale) -> Iterator[Row]:
    """Memory: fresh, with an LSP client, after many sessions were opened and closed."""
    with house() as home:
        home.client().call("daemon/hello")
        home.client().call("session/list")
        yield _row("memory idle, before any LSP client", home, 45)
        editor = home.client()
        editor.call("initialize", capabilities={}, processId=None, rootUri=None)
        editor.notify("initialized", {})
        editor.call("workspace/symbol", query="x")
        yield _row("memory idle, with one LSP client", home, 80)
    for times in (1, *(one for one in scale.growth if one <= 10)):
        yield from _opened_and_closed(scale, scale.opened_bytes * times, 150 if times == 1 else None)


def _opened_and_closed(scale: Scale, size: int, limit_mb: int | None) -> Iterator[Row]:
    with scratch() as folder, Home(folder) as home:
        home.stop()
        for n in range(scale.opened):
            write_session(sessions_folder(folder), f"s{n}", size // 1000, 900)
        home.start()
        assert home.process is not None
        until_quiet(home.process.pid)
        client = home.client()
        for n in range(scale.opened):
            client.call("session/open", sessionId=f"s{n}", last=50)
            client.call("session/close", sessionId=f"s{n}")
        time.sleep(scale.idle_s / 2)
        yield _row(f"memory after {scale.opened} sessions of {mb(size)} were opened and closed", home, limit_mb)


def idle(scale: Scale) -> Iterator[Row]:
    """Processor time while clients have a session open and do nothing."""
    for times in (1, *(one for one in scale.growth if one <= 10)):
        yield _idle_with(scale, 10 * times)


def _idle_with(scale: Scale, count: int) -> Row:
    with house() as home:
        clients: list[Client] = [home.client() for _ in range(count)]
        for n, client in enumerate(clients):
            client.call("session/new", sessionId=f"s{n}", messages=[{"role": "user", "content": "hello"}])
        client.call("session/save")
        time.sleep(3 if scale.idle_s > 1 else 0)
        before, start = cpu(home), time.monotonic()
        time.sleep(scale.idle_s)
        share = (cpu(home) - before) / (time.monotonic() - start)
        tick = 1 / os.sysconf("SC_CLK_TCK") / scale.idle_s
        aim = ("<= 0.4%", share <= 0.004) if count == 10 else ("", None)
        return Row(f"CPU while idle with {count} clients", f"{share:.2%} of a core (known to {tick:.2%})", "", "", *aim)


def disk(scale: Scale) -> Iterator[Row]:
    """All bytes under the home after appends one by one and a save, against the text in them."""
    for times in (1, *(one for one in scale.growth if one <= 10)):
        yield from _on_disk(scale.appends * times)


def _on_disk(appends: int) -> Iterator[Row]:
    with house() as home:
        client = home.client()
        client.call("session/new", sessionId="s")
        words = Words()
        for _ in range(appends):
            client.call("session/append", sessionId="s", messages=[{"role": "user", "content": words.text(500)}])
        client.call("session/save")
        assert home.process is not None
        until_quiet(home.process.pid)
        client.call("session/search", query="unlikely")
        sizes = {name: _bytes(home.path / name) for name in ("data/sessions", "data/journal", "cache")}
        reserve = home.path / "data" / "journal" / "reserve"
        kept = reserve.stat().st_size if reserve.exists() else 0
        whole = sum(sizes.values()) - kept
        content = appends * 500
        told = f"files {mb(sizes['data/sessions'])}, journal {mb(sizes['data/journal'] - kept)}, index {mb(sizes['cache'])}; beside them a reserve of {mb(kept)}"
        share = (sizes["data/sessions"] + sizes["data/journal"] - kept) / content
        yield Row(f"bytes on disk after {appends:,} appends and a save, files and journal", mb(share * content), told, f"{share:.2f} of the text",
                  "<= 1.6", share <= 1.6)  # fmt: skip
        yield Row(
            f"after {appends:,}, with the index, which may be deleted",
            mb(whole),
            "",
            f"{whole / content:.2f} of the text",
        )


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
