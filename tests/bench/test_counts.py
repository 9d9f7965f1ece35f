"""Operations that must not become more: counted, so that the machine's load does not matter. The benchmarks measure times."""

from __future__ import annotations

import asyncio
import collections
import json
import platform
import re
import subprocess
import sys
import threading

import pytest

from sessiond.fs import RealFileSystem
from sessiond.journal.writer import JournalWriter
from sessiond.limits import Limits
from tests.bench.durable import can_trace, line_to
from tests.bench.measure import QUIET, Row
from tests.bench.run import BENCHES, line, write
from tests.home import Home

APPENDS = 100


class _Log:
    """A log whose first sync waits for a word, and which counts."""

    def __init__(self, log, counts, go):
        self._log, self._counts, self._go = log, counts, go

    def __getattr__(self, name):
        return getattr(self._log, name)

    def write(self, data):
        self._counts["write"] += 1
        self._log.write(data)

    def sync(self):
        self._go.wait(30)
        self._counts["sync"] += 1
        self._log.sync()


class _Counting(RealFileSystem):
    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()
        self.go = threading.Event()
        self.go.set()

    def open_log(self, path, mode=0o600):
        return _Log(super().open_log(path, mode), self.counts, self.go)


async def test_what_waits_is_written_and_synced_once(tmp_path):
    """However many changes gather while the disk works, the next batch is one write and one sync."""
    fs = _Counting()
    writer, _ = await JournalWriter.recover(fs, str(tmp_path / "journal"), Limits(reserve_bytes=0))
    fs.counts.clear()
    fs.go.clear()
    first = writer.commit("default", "s", 1, b"[]")
    while not fs.counts["write"]:
        await asyncio.sleep(0.001)
    rest = [writer.commit("default", "s", seq, b"[]") for seq in range(2, 300)]
    fs.go.set()
    await asyncio.gather(first, *rest)
    assert fs.counts == {"write": 2, "sync": 2}
    await writer.close()


def test_bytes_written_for_an_append(tmp_path):
    """A message of 500 bytes costs the journal its text and no more than 260 bytes next to it."""
    with Home(tmp_path, QUIET) as home:
        client = line_to(home, "s", "x" * 500)
        asking = home.client()
        client.round_trip()
        before = asking.call("daemon/status")["journal"]["bytes"]
        for _ in range(APPENDS):
            client.round_trip()
        assert asking.call("daemon/status")["journal"]["bytes"] - before <= APPENDS * 760
        client.socket.close()


def test_bytes_on_disk_after_a_save(tmp_path):
    """What many appends and one save leave in the store's folder is 1.4 times their text: no second copy of it remains."""
    with Home(tmp_path, QUIET) as home:
        client = home.client()
        client.call("session/new", sessionId="s")
        text = "".join(chr(33 + n * 7 % 90) for n in range(500))
        for n in range(4):
            messages = [{"role": "user", "content": f"{n}{k}{text[k:]}{text[:k]}"} for k in range(100)]
            client.call("session/append", sessionId="s", messages=messages)
        client.call("session/save", sessionId="s")
        files = [path for path in (home.path / "data" / "sessions").rglob("*") if path.is_file()]
        sizes = {path.name: path.stat().st_size for path in files}
    assert 0 < sizes["s.json"] < 2000
    assert 200_000 < sum(sizes.values()) < 1.4 * 200_000


@pytest.mark.skipif(not can_trace(), reason="no strace, or it may not trace here")
def test_system_calls_for_an_append(tmp_path):
    """The loop's thread needs no more than one read and three polls: the journal's thread writes the answer and does not wake it. The
    disk is written and synced once.
    """
    with Home(tmp_path, QUIET) as home:
        client = line_to(home, "s", "x" * 500)
        client.round_trip()
        trace = tmp_path / "trace"
        strace = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", str(trace), "-p", str(home.process.pid)], stderr=subprocess.DEVNULL
        )
        while not trace.exists() or "epoll_wait" not in trace.read_text():
            client.round_trip()
        before = _calls(trace, home.process.pid)
        for _ in range(APPENDS):
            client.round_trip()
        strace.terminate()
        strace.wait()
        after = _calls(trace, home.process.pid)
        client.socket.close()
    done = after - before
    slack = 12  # what was under way when the counting began, and timers
    assert done["fdatasync"] <= APPENDS + slack
    assert done["main recvfrom"] <= 2 * APPENDS + slack  # the message, and that there is no more of it
    assert done["main sendto"] + done["main write"] <= slack
    assert done["main epoll_wait"] <= 3 * APPENDS + slack
    assert done["write"] <= 2 * APPENDS + slack  # the record and the answer


def _calls(trace, main):
    found = collections.Counter()
    for one in trace.read_text().splitlines():
        match = re.match(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed)", one)
        if match and "resumed" not in one:
            found[match[2]] += 1
            if int(match[1]) == main:
                found[f"main {match[2]}"] += 1
    return found


def test_imports_of_the_relay():
    """An editor waits for these besides Python itself: three modules of ours, two of Python's."""
    code = "import sys; bare = set(sys.modules); import sessiond.relay; print(sorted(set(sys.modules) - bare))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert set(json.loads(out.replace("'", '"'))) <= {
        "__future__", "_socket", "select", "sessiond", "sessiond.endpoint", "sessiond.reach", "sessiond.relay",
    }  # fmt: skip


def test_imports_of_a_daemon_that_a_client_starts(tmp_path):
    """It loads neither what the command line needs, nor importers, nor what speaks LSP, searches or makes backups, before somebody
    asks for it; and of our own modules, each of which costs a quarter of a millisecond, no more than 167.
    """
    code = (
        "import sys; sys.argv = ['sessiond', 'serve', '--ready-fd', '-1']\n"
        "import sessiond.daemon.process as process\n"
        "process.main = lambda flags, ready: print(sorted(sys.modules)) or sys.exit()\n"
        "import sessiond.daemon.core, sessiond.config, sessiond.daemon.log\n"
        "import sessiond.__main__ as entry; entry.main()"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = set(json.loads(out.replace("'", '"')))
    assert "sessiond.daemon.parts" in loaded
    assert not loaded & {
        "click", "rich", "pygls", "lsprotocol", "sessiond.importers.registry", "tomllib", "watchfiles", "difflib", "json",
        "sessiond.daemon.backup", "sessiond.index.search", "sessiond.index.regex", "sessiond.index.semantic",
    }  # fmt: skip
    assert sum(name.startswith("sessiond") for name in loaded) <= 167


@pytest.mark.skipif(not can_trace(), reason="no strace, or it may not trace here")
def test_syncs_of_a_start(tmp_path):
    """A daemon whose folders are there waits for the disk no more than eight times before it answers: for five folders, for
    the journal's first segment with its folder, and for the record of where it listens with its own.
    """
    with Home(tmp_path, QUIET) as home:
        home.stop()
        trace = tmp_path / "trace"
        command = ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fsync,fdatasync,write"]
        command += [sys.executable, "-m", "sessiond", "serve"]
        home.process = subprocess.Popen(command, env=home.env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        home.client().call("daemon/hello")
        lines = trace.read_text().splitlines()
        home.client().call("daemon/stop")
        home.process.wait(30)
    assert 0 < sum("sync(" in one for one in lines) <= 8


@pytest.mark.timeout(400)
@pytest.mark.slow
def test_every_benchmark_runs(tmp_path):
    """`--smoke` measures each row once on next to nothing and writes them into the page."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- tests.bench.run: begin -->\n<!-- tests.bench.run: end -->\nafter\n")
    command = [sys.executable, "-m", "tests.bench.run", "--smoke", "--write", str(page)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    optional = {"real"} | (set() if can_trace() else {"slow-disk"})
    assert {name for name in BENCHES if f"| {name} | " in text} >= set(BENCHES) - optional


def test_a_part_that_is_measured_again_takes_the_place_of_the_old_one(tmp_path):
    """`--only X --write` leaves every other row as it is."""
    page = tmp_path / "page.md"
    page.write_text("a<!-- tests.bench.run: begin -->\n<!-- tests.bench.run: end -->z")
    one, two, three = (
        line("append", Row("one", "1 ms")),
        line("disk", Row("two", "2 MB")),
        line("append", Row("three", "3 ms", met=True)),
    )
    write(page, {"append": [one], "disk": [two]})
    write(page, {"append": [three]})
    rows = [row for row in page.read_text().splitlines() if row.startswith(("| append", "| disk"))]
    assert rows == [three, two]


def test_the_page_names_the_pythons_that_were_measured(tmp_path):
    """Its head has the one that runs the benchmarks, and each whose rows are in the table."""
    page = tmp_path / "page.md"
    page.write_text("<!-- tests.bench.run: begin -->\n<!-- tests.bench.run: end -->")
    other = "| append | one, Python 3.99.1 | 1 ms |  |  |  |  | 0 |"
    write(page, {"append": [line("append", Row("one", "1 ms")), other]})
    assert f"\nPython {platform.python_version()}, 3.99.1, " in page.read_text()


def test_an_append_makes_few_calls(tmp_path):
    """From the bytes on the socket to the answer, fewer than 160 of our own Python calls run on the loop: 150, and on a busy machine up to
    156, because what the daemon does besides falls between them more often. There were 122 while three more rounds of the loop lay
    between them, each of which took as long as all that was added since.
    """
    command = [sys.executable, "-m", "tests.bench.walk", str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert float(done.stdout) < 160
