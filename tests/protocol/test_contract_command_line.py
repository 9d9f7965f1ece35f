"""The contract of the command line, as scripts use it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess

import pytest


@pytest.mark.parametrize("command", [("status", "--json"), ("stop",), ("doctor",)])
def test_they_start_no_daemon(shell, command):
    """status, stop and doctor never start one."""
    done = shell(*command)
    assert done.code == 0, done
    assert not shell.held()
    if command[0] == "status":
        assert done.json == {"running": False}


def test_exit_codes(shell):
    """0 done, 1 the request failed with one line, 2 wrong usage, 69 no daemon."""
    made = shell("new", "--json")
    assert made.code == 0, made
    failed = shell("show", "nobody")
    assert (failed.code, failed.out, len(failed.err.splitlines())) == (1, "", 1)
    assert shell("show").code == 2
    assert shell("nonsense").code == 2
    assert shell("list", "--nonsense").code == 2
    assert shell("stop").code == 0
    shell.write_config("nonsense = 1\n")
    unreachable = shell("list")
    assert unreachable.code == 69
    assert "nonsense" in unreachable.err


def test_status_finds_the_socket_for_a_shell(shell):
    """The line of the contract works: a request through the socket that `status --json` prints."""
    assert shell("append", shell("new", "--json").json["session"]["sessionId"], "hello").code == 0
    status = shell("status", "--json").json
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(status["socket"])
        sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}\n')
        sock.shutdown(socket.SHUT_WR)
        answer = sock.makefile().read()
    assert json.loads(answer)["result"]["sessions"][0]["messageCount"] == 1


def test_append_reads_standard_input(shell):
    """The text as an argument or on standard input, role user by default."""
    sid = shell("new", "--json").json["session"]["sessionId"]
    assert shell("append", sid, "as argument").code == 0
    assert shell("append", sid, "--role", "assistant", stdin="from a pipe").code == 0
    messages = shell("show", sid, "--json").json["messages"]
    assert [(one["role"], one["content"]) for one in messages] == [
        ("user", "as argument"),
        ("assistant", "from a pipe"),
    ]


def test_doctor_names_what_is_wrong(shell):
    """It exits 1 when a file can not be read, and names it; other files are well."""
    sid = shell("new", "--json").json["session"]["sessionId"]
    shell("append", sid, "x")
    shell("stop")
    assert shell("doctor").code == 0
    (shell.data / "sessions" / "bad.jsonl").write_bytes(b"\0" * 100)
    done = shell("doctor")
    assert done.code == 1
    assert "bad" in done.out + done.err


def test_tcp_in_the_foreground(shell):
    """`--tcp 0` starts the daemon, says where it listens and where the token is, stays until interrupted; the daemon stays."""
    process = shell.start("--tcp", "0", text=True)
    said = ""
    while "token" not in said:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        said += line
    tcp = shell("status", "--json").json["tcp"]
    assert str(tcp["port"]) in said
    assert tcp["tokenFile"] in said
    assert oct(os.stat(tcp["tokenFile"]).st_mode & 0o777) == "0o600"
    process.send_signal(signal.SIGINT)
    process.wait(20)
    assert shell.held()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", tcp["port"]))


def test_json_is_one_document(shell):
    """With --json standard output is one JSON document, whatever the command."""
    sid = shell("new", "--json").json["session"]["sessionId"]
    shell("append", sid, "needle")
    for command in (
        ("list",), ("show", sid), ("search", "needle"), ("rename", sid, "n"), ("tag", sid, "t"), ("archive", sid), ("fork", sid), ("rm", sid), ("status",),
        ("doctor",), ("gc",),
    ):  # fmt: skip
        done = shell(*command, "--json")
        assert done.code == 0, (command, done)
        json.loads(done.out)


def test_no_traceback_ever(shell):
    """Bytes that are not text, a closed pipe, an odd id: one line, no traceback."""
    for command in (
        ["show", "\udcff"],
        ["append", "x/y/z", "text"],
        ["export", "nobody", "--format", "pdf"],
        ["import", "/nonexistent"],
    ):
        done = subprocess.run(
            shell.command(*command),
            env=shell.env,
            capture_output=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode in (1, 2), (command, done)
        assert b"Traceback" not in done.stderr
