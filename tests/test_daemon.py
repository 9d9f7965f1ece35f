"""The daemon's life, with real processes: one per home, started on demand, ended in an orderly way."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sessiond import endpoint
from tests.shell import Shell, wait_until

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"daemon/hello"}\n'


def hellos(shell: Shell, count: int) -> list[dict[str, object]]:
    """What `count` relays, started at the same instant, are answered."""
    relays = [shell.start() for _ in range(count)]
    answers = []
    for relay in relays:
        out, err = relay.communicate(HELLO, timeout=60)
        assert relay.returncode == 0, err
        answers.append(json.loads(out)["result"])
    return answers


def test_twelve_relays_at_once_share_one_daemon(shell: Shell) -> None:
    """Twelve editors that start at the same instant on a fresh home get one daemon, and all are served."""
    answers = hellos(shell, 12)
    assert len({answer["instanceId"] for answer in answers}) == 1
    assert {answer["protocolVersion"] for answer in answers} == {1}


def test_twelve_relays_at_once_over_a_stale_socket(shell: Shell) -> None:
    """The same where a killed daemon left its socket and its record behind."""
    before = hellos(shell, 1)[0]
    shell.kill()
    assert (shell.path / "run" / "sessiond.sock").is_socket()
    answers = hellos(shell, 12)
    assert len({answer["instanceId"] for answer in answers} - {before["instanceId"]}) == 1


def test_an_acknowledged_message_survives_kill_9(shell: Shell) -> None:
    """What was answered is there after a kill -9, though no file was ever saved."""
    shell.write_config("[autosave]\ninterval_s = 0\nidle_s = 0\n")
    assert shell("new", "--id", "x").code == 0
    with shell.client() as client:  # it stays attached, so that nothing saves the session
        client.call("session/open", {"sessionId": "x"})
        assert shell("append", "x", "do not lose me").code == 0
        shell.kill()
    assert [message["content"] for message in shell("show", "x", "--json").json["messages"]] == ["do not lose me"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_everything(shell: Shell, number: int) -> None:
    """SIGTERM and SIGINT end the daemon with exit code 0, and the session file says all that was said."""
    shell.write_config("[autosave]\ninterval_s = 0\nidle_s = 0\n")
    serve = shell.start("serve")
    wait_until(lambda: shell("status", "--json").json["running"])
    with shell.client(start=False) as client:
        client.call("session/new", {"sessionId": "x"})
        client.call("session/append", {"sessionId": "x", "messages": [{"role": "user", "content": "keep this"}]})
        assert client.call("daemon/status")["dirtySessions"] == 1
        serve.send_signal(number)
        assert serve.wait(30) == 0
    assert "keep this" in (shell.data / "sessions" / "x.jsonl").read_text()
    assert not (shell.path / "run" / "sessiond.sock").exists()


def test_a_second_daemon_is_refused(shell: Shell) -> None:
    """`serve` on a home that has a daemon says whose it is and exits 75; the first one continues."""
    assert shell("list").code == 0
    pid = shell.pid()
    second = shell("serve")
    assert second.code == 75
    assert f"a daemon (pid {pid}) owns {shell.data}; stop it with `sessiond stop` first" in second.err
    assert shell.pid() == pid


def test_a_killed_daemon_may_leave_its_lock_for_a_moment(shell: Shell) -> None:
    """A process that it was about to start has a copy of the lock until its program is loaded: `serve` waits for that."""
    assert shell("list").code == 0
    lock = os.open(endpoint.places(shell.env).lock_file, os.O_RDWR)
    os.kill(shell.pid(), signal.SIGKILL)
    wait_until(lambda: not shell.held())
    fcntl.flock(lock, fcntl.LOCK_EX)
    serve = shell.start("serve")
    with pytest.raises(subprocess.TimeoutExpired):
        serve.wait(1)
    os.close(lock)
    wait_until(lambda: shell("status", "--json").json["running"])
    serve.send_signal(signal.SIGTERM)
    assert serve.wait(30) == 0


def test_an_idle_daemon_ends_by_itself(shell: Shell) -> None:
    """With nobody connected and nothing unsaved for as long as configured, it ends; the next client starts another."""
    shell.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "0.4"
    assert shell("new", "--id", "x", "--name", "X").code == 0
    wait_until(lambda: not shell.held())
    assert "idle for" in (shell.path / "log" / "sessiond.log").read_text()
    assert shell("show", "x").code == 0


def test_a_connected_client_keeps_it_alive(shell: Shell) -> None:
    """However short the idle limit is, a connected client keeps its daemon."""
    shell.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "0.05"
    relay = shell.start()
    assert relay.stdin is not None
    assert relay.stdout is not None
    relay.stdin.write(HELLO)
    relay.stdin.flush()
    first = json.loads(relay.stdout.readline())["result"]["instanceId"]
    with pytest.raises(subprocess.TimeoutExpired):
        relay.wait(1.5)
    relay.stdin.write(HELLO)
    relay.stdin.flush()
    assert json.loads(relay.stdout.readline())["result"]["instanceId"] == first


def test_a_removed_socket_is_put_back(shell: Shell) -> None:
    """A temp cleaner that takes the socket costs a moment, not the daemon; so does one that takes its folder."""
    shell.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "2"  # it looks four times as often
    shell("list")
    with shell.client(start=False) as client:
        pid = client.call("daemon/hello")["pid"]
        os.unlink(shell.path / "run" / "sessiond.sock")
        os.rmdir(shell.path / "run")
        wait_until((shell.path / "run" / "sessiond.sock").is_socket)
        assert client.call("daemon/hello")["pid"] == pid  # the old connection did not notice
    assert shell.pid() == pid


def test_a_lost_record_is_written_again(shell: Shell) -> None:
    """Clients find the daemon by its record; the daemon looks after that too."""
    shell.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "2"
    shell("list")
    with shell.client(start=False) as client:
        pid = client.call("daemon/hello")["pid"]
        os.unlink(shell.data / "endpoint")
        wait_until((shell.data / "endpoint").exists)
        assert shell.pid() == pid


def test_a_relay_waits_for_a_daemon_whose_record_is_lost(shell: Shell) -> None:
    """A client at that moment starts one in vain, dials again, and is served by the running one."""
    shell.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "3"  # so it looks after its record more often
    shell("list")
    pid = shell.pid()
    os.unlink(shell.data / "endpoint")
    assert hellos(shell, 1)[0]["pid"] == pid


OLDER = """
    import fcntl, os, socket, sys, json
    data, path = sys.argv[1:]
    lock = open(data + "/lock", "w"); fcntl.flock(lock, fcntl.LOCK_EX)
    listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen()
    open(data + "/endpoint", "w").write(f"socket={path}\\nprotocol=0\\npid={os.getpid()}\\n")
    print("up", flush=True)
    while True:
        connection, _ = listener.accept()
        for line in connection.makefile("rb"):
            request = json.loads(line)
            result = {} if request["method"] == "daemon/stop" else {"protocolVersion": 0, "version": "0", "pid": 1}
            connection.sendall(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\\n")
            if request["method"] == "daemon/stop":
                os.unlink(path)
                sys.exit()
"""


def test_an_older_daemon_is_replaced(shell: Shell) -> None:
    """A daemon of an earlier protocol is told to stop, and when it has let go of the lock ours takes its place."""
    for name in ("data", "run"):
        (shell.path / name).mkdir(mode=0o700)
    arguments = [str(shell.data), str(shell.path / "run" / "old.sock")]
    older = subprocess.Popen([sys.executable, "-c", textwrap.dedent(OLDER), *arguments], stdout=subprocess.PIPE)
    assert older.stdout is not None
    assert older.stdout.readline() == b"up\n"
    assert hellos(shell, 1)[0]["protocolVersion"] == endpoint.PROTOCOL_VERSION
    assert older.wait(10) == 0
    older.stdout.close()


def test_a_failed_start_says_why(shell: Shell) -> None:
    """An editor whose daemon cannot start is told the reason in one line, and gets exit code 69."""
    shell.write_config("[autosave]\nintervall_s = 3\n")
    relay = shell.start()
    _, err = relay.communicate(HELLO, timeout=60)
    assert relay.returncode == 69
    assert err.decode().count("\n") == 1
    assert "unknown key 'intervall_s' in [autosave]; did you mean 'interval_s'?" in err.decode()


def test_a_data_folder_that_is_a_file_says_so(shell: Shell) -> None:
    """What the operating system says about it is passed on in one line."""
    (shell.path / "data").write_text("")
    done = shell("list")
    assert (done.code, done.err.count("\n")) == (69, 1)
    assert str(shell.data) in done.err
    (shell.path / "data").unlink()


def test_a_deep_home_gets_a_socket_elsewhere(shell: Shell) -> None:
    """Where the run folder's path is longer than a socket's may be, a short private one takes its place."""
    deep = shell.path / ("d" * 60) / ("e" * 60)
    shell.env["SESSIOND_HOME"] = str(deep)
    try:
        status = (shell("list"), shell("status", "--json"))[1].json
        assert status["running"]
        assert len(status["socket"]) <= endpoint.MAX_SOCKET_PATH_BYTES
        assert status["dataDir"].startswith(str(deep))
    finally:
        assert shell("stop").code == 0


AS_A_SERVICE_MANAGER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_sockets_of_a_service_manager_are_used(shell: Shell) -> None:
    """With LISTEN_FDS the daemon serves the socket that it was given, and tells clients where that is."""
    given = shell.path / "given"
    given.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(given / "s"))
        listening.listen()
        number = listening.fileno()
        command = [sys.executable, "-c", AS_A_SERVICE_MANAGER, str(number), *shell.command("serve")]
        serve = subprocess.Popen(command, env=shell.env, cwd="/", pass_fds=[number], stderr=subprocess.PIPE)
        try:
            wait_until(shell.held)
            answer = hellos(shell, 1)[0]
            assert answer["pid"] == serve.pid
            assert shell("status", "--json").json["socket"] == str(given / "s")
            assert shell("stop").code == 0
            assert serve.wait(30) == 0
        finally:
            serve.kill()
            serve.communicate()
    assert (given / "s").exists()  # it is the service manager's


def test_status_says_who_decided(shell: Shell) -> None:
    """A flag beats the environment, that beats the file, and `status` names the winner."""
    shell.write_config("[autosave]\ninterval_s = 1\nidle_s = 1\n[limits]\nconnections = 9\n")
    shell.env |= {"SESSIOND_AUTOSAVE_INTERVAL_S": "2", "SESSIOND_AUTOSAVE_IDLE_S": "2"}
    shell.start("serve", "--autosave-interval", "3")
    wait_until(lambda: shell("status", "--json").json["running"])
    status = shell("status", "--json").json
    assert status["config"]["values"] == {
        "autosave.interval_s": {"value": 3, "source": "flag"},
        "autosave.idle_s": {"value": 2, "source": "environment"},
        "limits.connections": {"value": 9, "source": str(shell.path / "config" / "config.toml")},
    }
    assert status["limits"]["connections"] == 9
    lines = shell("status").out.splitlines()
    assert lines[-3].strip() == "limits.connections = 9"
    assert lines[-2].split(maxsplit=1) == ["overrides", "autosave.interval_s = 3.0 (flag)"]
    assert lines[-1].strip() == "autosave.idle_s = 2.0 (environment)"


def test_everything_of_ours_is_private_and_the_log_holds_no_words(shell: Shell) -> None:
    """Files are 0600 and folders 0700; what people say and the token are in no log."""
    shell("new", "--id", "x", "--name", "secret name")
    shell("append", "x", "secret words")
    listening = shell.start("--tcp", "0")
    assert listening.stdout is not None
    listening.stdout.readline()
    shell("append", "nosuch", "secret words")
    shell("stop")
    token = (shell.data / "token").read_text().strip()
    assert len(token) >= 32
    for path in shell.path.rglob("*"):
        mode = path.lstat().st_mode & 0o777
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path} {mode:o}"
    log = "".join(path.read_text() for path in (shell.path / "log").iterdir())
    assert "version" in log
    assert "secret" not in log
    assert token not in log


def test_tcp_listens_as_long_as_it_was_asked_to(shell: Shell) -> None:
    """`--tcp` starts the daemon, says where and with which token, and the port is closed with it, not the daemon."""
    listening = shell.start("--tcp", "127.0.0.1:0", text=True)
    assert listening.stdout is not None
    line = listening.stdout.readline()
    where = shell("status", "--json").json["tcp"]
    assert line == f"listening on tcp 127.0.0.1:{where['port']}, the token is in {where['tokenFile']}\n"
    token = Path(where["tokenFile"]).read_text().strip()
    assert tcp_initialize(where["port"], token)["serverInfo"]["name"] == "sessiond"
    assert tcp_initialize(where["port"], "wrong" + token)["data"]["kind"] == "unauthorized"
    again = shell("--tcp", f"127.0.0.1:{where['port']}")
    assert again.code == 1
    assert "is taken by this daemon" in again.err
    listening.send_signal(signal.SIGINT)
    assert listening.wait(30) == 130
    wait_until(lambda: shell("status", "--json").json["tcp"] is None)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", where["port"]), timeout=5)


def tcp_initialize(port: int, token: str) -> dict[str, dict[str, str]]:
    """The result, or the error."""
    params = {"capabilities": {}, "initializationOptions": {"token": token}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as stream:
            answer = json.loads(stream.readline())
    return answer.get("result") or answer["error"]
