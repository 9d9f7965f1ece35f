"""The contract of the command line, as scripts use it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess

import pytest


@pytest.mark.parametrize("command", [("status", "--json"), ("stop",), ("doctor",)])
def test_they_start_no_daemon(home, command):
    """status, stop and doctor never start one."""
    done = home(*command)
    assert done.code == 0, done
    assert not home.held()
    if command[0] == "status":
        assert done.json == {"running": False}


def test_exit_codes(home):
    """0 done, 1 the request failed with one line, 2 wrong usage, 69 no daemon."""
    made = home("new", "--json")
    assert made.code == 0, made
    failed = home("show", "nobody")
    assert (failed.code, failed.out, len(failed.err.splitlines())) == (1, "", 1)
    assert home("show").code == 2
    assert home("nonsense").code == 2
    assert home("list", "--nonsense").code == 2
    assert home("stop").code == 0
    home.write_config("nonsense = 1\n")
    unreachable = home("list")
    assert unreachable.code == 69
    assert "nonsense" in unreachable.err


def test_status_finds_the_socket_for_a_shell(home):
    """The line of the contract works: a request through the socket that `status --json` prints."""
    assert home("append", home("new", "--json").json["session"]["sessionId"], "hello").code == 0
    status = home("status", "--json").json
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(status["socket"])
        sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}\n')
        sock.shutdown(socket.SHUT_WR)
        answer = sock.makefile().read()
    assert json.loads(answer)["result"]["sessions"][0]["messageCount"] == 1


def test_append_reads_standard_input(home):
    """The text as an argument or on standard input, role user by default."""
    sid = home("new", "--json").json["session"]["sessionId"]
    assert home("append", sid, "as argument").code == 0
    assert home("append", sid, "--role", "assistant", stdin="from a pipe").code == 0
    messages = home("show", sid, "--json").json["messages"]
    assert [(one["role"], one["content"]) for one in messages] == [
        ("user", "as argument"),
        ("assistant", "from a pipe"),
    ]


def test_doctor_names_what_is_wrong(home):
    """It exits 1 when a file can not be read, and names it; other files are well."""
    sid = home("new", "--json").json["session"]["sessionId"]
    home("append", sid, "x")
    home("stop")
    assert home("doctor").code == 0
    (home.data / "sessions" / "bad.jsonl").write_bytes(b"\0" * 100)
    done = home("doctor")
    assert done.code == 1
    assert "bad" in done.out + done.err


def test_tcp_in_the_foreground(home):
    """`--tcp 0` starts the daemon, says where it listens and where the token is, stays until interrupted; the daemon stays."""
    process = home.start("--tcp", "0", text=True)
    said = ""
    while "token" not in said:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        said += line
    tcp = home("status", "--json").json["tcp"]
    assert str(tcp["port"]) in said
    assert tcp["tokenFile"] in said
    assert oct(os.stat(tcp["tokenFile"]).st_mode & 0o777) == "0o600"
    process.send_signal(signal.SIGINT)
    process.wait(20)
    assert home.held()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", tcp["port"]))


def test_json_is_one_document(home):
    """With --json standard output is one JSON document, whatever the command."""
    sid = home("new", "--json").json["session"]["sessionId"]
    home("append", sid, "needle")
    for command in (
        ("list",), ("show", sid), ("search", "needle"), ("rename", sid, "n"), ("tag", sid, "t"), ("archive", sid), ("fork", sid), ("rm", sid), ("status",),
        ("doctor",), ("gc",),
    ):  # fmt: skip
        done = home(*command, "--json")
        assert done.code == 0, (command, done)
        json.loads(done.out)


def test_no_traceback_ever(home):
    """Bytes that are not text, a closed pipe, an odd id: one line, no traceback."""
    for command in (
        ["show", "\udcff"],
        ["append", "x/y/z", "text"],
        ["export", "nobody", "--format", "pdf"],
        ["import", "/nonexistent"],
    ):
        done = subprocess.run(
            home.command(*command), env=home.env, capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode in (1, 2), (command, done)
        assert b"Traceback" not in done.stderr
