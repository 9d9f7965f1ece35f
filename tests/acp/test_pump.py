"""Bytes pass between editor and agent as they are."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import spools
from tests.shell import Shell, wait_until
from tests.suite.explore import tries

_MESSAGES = tries(few=2000, usual=10000)
_ECHO = "import os\nwhile d := os.read(0, 65536):\n w = memoryview(d)\n while w: w = w[os.write(1, w):]\n"


def _generated(seed: int) -> bytes:
    """Messages of a conversation, many of them broken, of all lengths, the last one without an end."""
    dice = random.Random(seed)
    made = []
    for n in range(_MESSAGES):
        text = "".join(chr(dice.choice((65, 0, 10, 0xE9, 0x1F600, 34))) for _ in range(dice.randrange(40)))
        message = b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"%s"}]}}' % (
            n, text.encode(),
        )  # fmt: skip
        kind = dice.randrange(8)
        if kind == 0:
            message = message[: dice.randrange(len(message))]
        elif kind == 1:
            message = dice.randbytes(dice.randrange(200))
        elif kind == 2 and n % 500 == 0:
            message += b"x" * dice.randrange(300_000)
        made.append(message + dice.choice((b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"")))
    return b"".join(made) + b'{"jsonrpc":'


def _cut(data: bytes, seed: int) -> list[bytes]:
    dice = random.Random(seed)
    at, pieces = 0, []
    while at < len(data):
        step = dice.choice((1, 3, 100, 5000, 70_000))
        pieces.append(data[at : at + step])
        at += step
    return pieces


def _close_stdin(process: subprocess.Popen[Any]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None  # nobody flushes it again


@pytest.mark.parametrize("seed", [1, 2])
def test_every_byte_passes(shell: Shell, seed: int) -> None:
    """Ten thousand generated messages, whole and broken, cut at random places, come out as they went in, both ways."""
    data = _generated(seed)
    process = shell.start("acp", "--", sys.executable, "-c", _ECHO)

    def feed() -> None:
        for piece in _cut(data, seed):
            process.stdin.write(piece)  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        _close_stdin(process)

    feeding = threading.Thread(target=feed)
    feeding.start()
    out = process.stdout.read()  # type: ignore[union-attr]
    feeding.join()
    assert out == data
    assert process.wait(30) == 0
    wait_until(lambda: not spools(shell))


def test_a_large_line_passes_and_memory_stays_small(shell: Shell) -> None:
    """A line of 64 MB passes, and the process that passes it holds at most a few pieces of it."""
    process = shell.start("acp", "--", sys.executable, "-c", _ECHO)
    data = b"x" * 64_000_000 + b"\n"
    feeding = threading.Thread(target=lambda: (process.stdin.write(data), process.stdin.flush()))  # type: ignore[union-attr]
    feeding.start()
    got = 0
    while got < len(data):
        got += len(process.stdout.read1())  # type: ignore[union-attr]
    feeding.join()
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        (peak,) = (int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        assert peak < 64 * 1024, f"{peak} KiB"
    _close_stdin(process)
    assert process.wait(30) == 0


def test_a_slow_editor_slows_the_agent(shell: Shell, tmp_path: Path) -> None:
    """An agent that writes without end is stopped by an editor that does not read, as by a pipe."""
    count = tmp_path / "count"
    script = f"import os\nn = 0\nwhile 1:\n n += os.write(1, b'x' * 65536)\n open({str(count)!r}, 'w').write(str(n))\n"
    process = shell.start("acp", "--", sys.executable, "-c", script, stderr=subprocess.DEVNULL)
    wait_until(lambda: count.exists() and time.time() - count.stat().st_mtime > 1)
    assert int(count.read_text()) < 2_000_000
    process.stdout.close()  # type: ignore[union-attr]
    process.stdout = None
    assert process.wait(30) != 0


@pytest.mark.parametrize(("script", "code"), [("raise SystemExit(37)", 37), ("import os; os.kill(os.getpid(), 9)", -9)])
def test_the_exit_status_is_the_agents(shell: Shell, script: str, code: int) -> None:
    """The editor sees the agent's exit status, or the signal that ended it, and what it wrote to stderr."""
    script = "import sys; sys.stderr.buffer.write(b'\\x00\\xffnoise'); sys.stderr.flush(); " + script
    process = shell.start("acp", "--", sys.executable, "-c", script)
    _, noise = process.communicate(timeout=30)
    assert (process.returncode, noise) == (code, b"\x00\xffnoise")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_agent(shell: Shell, number: signal.Signals) -> None:
    """A signal that is sent to the recorder is the agent's to handle."""
    script = (
        "import os, signal, time\nsignal.signal(%d, lambda *_: (os.write(1, b'got\\n'), os._exit(5)))\n"
        "os.write(1, b'ready\\n')\nwhile 1: time.sleep(1)\n" % number
    )
    process = shell.start("acp", "--", sys.executable, "-c", script)
    assert process.stdout.readline() == b"ready\n"  # type: ignore[union-attr]
    process.send_signal(number)
    got = process.stdout.read()  # type: ignore[union-attr]
    assert (got, process.wait(30), process.stderr.read()) == (b"got\n", 5, b"")  # type: ignore[union-attr]
    assert process.wait(30) == 5


def test_it_passes_bytes_where_nothing_can_be_recorded(shell: Shell) -> None:
    """A data folder that cannot be written costs the recording, never the conversation."""
    (shell.path / "data").write_text("not a folder")
    process = shell.start("acp", "--", sys.executable, "-c", _ECHO)
    out, error = process.communicate(b"hello\n", timeout=30)
    assert (out, process.returncode) == (b"hello\n", 0)
    assert b"nothing is recorded" in error
    os.unlink(shell.path / "data")


def test_an_agent_that_is_not_there(shell: Shell) -> None:
    """A command that does not exist is one clear line, and leaves no spool."""
    done = shell("acp", "--", "/nonexistent/agent")
    assert done.code == 1
    assert done.err.startswith("sessiond: /nonexistent/agent was not found")
    assert not spools(shell)
    assert shell("acp").code == 2


def test_a_folder_that_was_removed(shell: Shell, tmp_path: Path) -> None:
    """The folder is named as the reason, not the agent's command, and no spool is left."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = ["sh", "-c", 'rmdir "$0" && exec "$@"', str(gone), *shell.command("acp", "--", "cat")]
    done = subprocess.run(command, cwd=gone, env=shell.env, input=b"", capture_output=True, timeout=30, check=False)
    told = b"sessiond: the folder in which this was started was removed; start it again in a folder that exists\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert not spools(shell)


def test_what_an_editor_waits_for_imports_little() -> None:
    """The recorder's parts that an editor waits for import neither asyncio nor msgspec."""
    code = (
        "import sys; from sessiond.acp import start; print(*sorted({'asyncio', 'msgspec', 'acp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
