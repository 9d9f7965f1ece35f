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


def hellos(home: Shell, count: int) -> list[dict[str, object]]:
    """What `count` relays, started at the same instant, are answered."""
    relays = [home.start() for _ in range(count)]
    answers = []
    for relay in relays:
        out, err = relay.communicate(HELLO, timeout=60)
        assert relay.returncode == 0, err
        answers.append(json.loads(out)["result"])
    return answers


def test_twelve_relays_at_once_share_one_daemon(home: Shell) -> None:
    """Twelve editors that start at the same instant on a fresh home get one daemon, and all are served."""
    answers = hellos(home, 12)
    assert len({answer["instanceId"] for answer in answers}) == 1
    assert {answer["protocolVersion"] for answer in answers} == {1}


def test_twelve_relays_at_once_over_a_stale_socket(home: Shell) -> None:
    """The same where a killed daemon left its socket and its record behind."""
    before = hellos(home, 1)[0]
    home.kill()
    assert (home.path / "run" / "sessiond.sock").is_socket()
    answers = hellos(home, 12)
    assert len({answer["instanceId"] for answer in answers} - {before["instanceId"]}) == 1


def test_an_acknowledged_message_survives_kill_9(home: Shell) -> None:
    """What was answered is there after a kill -9, though no file was ever saved."""
    home.write_config("[autosave]\ninterval_s = 0\nidle_s = 0\n")
    assert home("new", "--id", "x").code == 0
    with home.client() as client:  # it stays attached, so that nothing saves the session
        client.call("session/open", {"sessionId": "x"})
        assert home("append", "x", "do not lose me").code == 0
        home.kill()
    assert [message["content"] for message in home("show", "x", "--json").json["messages"]] == ["do not lose me"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_everything(home: Shell, number: int) -> None:
    """SIGTERM and SIGINT end the daemon with exit code 0, and the session file says all that was said."""
    home.write_config("[autosave]\ninterval_s = 0\nidle_s = 0\n")
    serve = home.start("serve")
    wait_until(lambda: home("status", "--json").json["running"])
    with home.client(start=False) as client:
        client.call("session/new", {"sessionId": "x"})
        client.call("session/append", {"sessionId": "x", "messages": [{"role": "user", "content": "keep this"}]})
        assert client.call("daemon/status")["dirtySessions"] == 1
        serve.send_signal(number)
        assert serve.wait(30) == 0
    assert "keep this" in (home.data / "sessions" / "x.jsonl").read_text()
    assert not (home.path / "run" / "sessiond.sock").exists()


def test_a_second_daemon_is_refused(home: Shell) -> None:
    """`serve` on a home that has a daemon says whose it is and exits 75; the first one continues."""
    assert home("list").code == 0
    pid = home.pid()
    second = home("serve")
    assert second.code == 75
    assert f"a daemon (pid {pid}) owns {home.data}; stop it with `sessiond stop` first" in second.err
    assert home.pid() == pid


def test_a_killed_daemon_may_leave_its_lock_for_a_moment(home: Shell) -> None:
    """A process that it was about to start has a copy of the lock until its program is loaded: `serve` waits for that."""
    assert home("list").code == 0
    lock = os.open(endpoint.places(home.env).lock_file, os.O_RDWR)
    os.kill(home.pid(), signal.SIGKILL)
    wait_until(lambda: not home.held())
    fcntl.flock(lock, fcntl.LOCK_EX)
    serve = home.start("serve")
    with pytest.raises(subprocess.TimeoutExpired):
        serve.wait(1)
    os.close(lock)
    wait_until(lambda: home("status", "--json").json["running"])
    serve.send_signal(signal.SIGTERM)
    assert serve.wait(30) == 0


def test_an_idle_daemon_ends_by_itself(home: Shell) -> None:
    """With nobody connected and nothing unsaved for as long as configured, it ends; the next client starts another."""
    home.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "0.4"
    assert home("new", "--id", "x", "--name", "X").code == 0
    wait_until(lambda: not home.held())
    assert "idle for" in (home.path / "log" / "sessiond.log").read_text()
    assert home("show", "x").code == 0


def test_a_connected_client_keeps_it_alive(home: Shell) -> None:
    """However short the idle limit is, a connected client keeps its daemon."""
    home.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "0.05"
    relay = home.start()
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


def test_a_removed_socket_is_put_back(home: Shell) -> None:
    """A temp cleaner that takes the socket costs a moment, not the daemon; so does one that takes its folder."""
    home.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "2"  # it looks four times as often
    home("list")
    with home.client(start=False) as client:
        pid = client.call("daemon/hello")["pid"]
        os.unlink(home.path / "run" / "sessiond.sock")
        os.rmdir(home.path / "run")
        wait_until((home.path / "run" / "sessiond.sock").is_socket)
        assert client.call("daemon/hello")["pid"] == pid  # the old connection did not notice
    assert home.pid() == pid


def test_a_lost_record_is_written_again(home: Shell) -> None:
    """Clients find the daemon by its record; the daemon looks after that too."""
    home.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "2"
    home("list")
    with home.client(start=False) as client:
        pid = client.call("daemon/hello")["pid"]
        os.unlink(home.data / "endpoint")
        wait_until((home.data / "endpoint").exists)
        assert home.pid() == pid


def test_a_relay_waits_for_a_daemon_whose_record_is_lost(home: Shell) -> None:
    """A client at that moment starts one in vain, dials again, and is served by the running one."""
    home.env["SESSIOND_DAEMON_IDLE_EXIT_S"] = "3"  # so it looks after its record more often
    home("list")
    pid = home.pid()
    os.unlink(home.data / "endpoint")
    assert hellos(home, 1)[0]["pid"] == pid


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


def test_an_older_daemon_is_replaced(home: Shell) -> None:
    """A daemon of an earlier protocol is told to stop, and when it has let go of the lock ours takes its place."""
    for name in ("data", "run"):
        (home.path / name).mkdir(mode=0o700)
    arguments = [str(home.data), str(home.path / "run" / "old.sock")]
    older = subprocess.Popen([sys.executable, "-c", textwrap.dedent(OLDER), *arguments], stdout=subprocess.PIPE)
    assert older.stdout is not None
    assert older.stdout.readline() == b"up\n"
    assert hellos(home, 1)[0]["protocolVersion"] == endpoint.PROTOCOL_VERSION
    assert older.wait(10) == 0
    older.stdout.close()


def test_a_failed_start_says_why(home: Shell) -> None:
    """An editor whose daemon cannot start is told the reason in one line, and gets exit code 69."""
    home.write_config("[autosave]\nintervall_s = 3\n")
    relay = home.start()
    _, err = relay.communicate(HELLO, timeout=60)
    assert relay.returncode == 69
    assert err.decode().count("\n") == 1
    assert "unknown key 'intervall_s' in [autosave]; did you mean 'interval_s'?" in err.decode()


def test_a_data_folder_that_is_a_file_says_so(home: Shell) -> None:
    """What the operating system says about it is passed on in one line."""
    (home.path / "data").write_text("")
    done = home("list")
    assert (done.code, done.err.count("\n")) == (69, 1)
    assert str(home.data) in done.err
    (home.path / "data").unlink()


def test_a_deep_home_gets_a_socket_elsewhere(home: Shell) -> None:
    """Where the run folder's path is longer than a socket's may be, a short private one takes its place."""
    deep = home.path / ("d" * 60) / ("e" * 60)
    home.env["SESSIOND_HOME"] = str(deep)
    try:
        status = (home("list"), home("status", "--json"))[1].json
        assert status["running"]
        assert len(status["socket"]) <= endpoint.MAX_SOCKET_PATH_BYTES
        assert status["dataDir"].startswith(str(deep))
    finally:
        assert home("stop").code == 0


AS_A_SERVICE_MANAGER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_sockets_of_a_service_manager_are_used(home: Shell) -> None:
    """With LISTEN_FDS the daemon serves the socket that it was given, and tells clients where that is."""
    given = home.path / "given"
    given.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(given / "s"))
        listening.listen()
        number = listening.fileno()
        command = [sys.executable, "-c", AS_A_SERVICE_MANAGER, str(number), *home.command("serve")]
        serve = subprocess.Popen(command, env=home.env, cwd="/", pass_fds=[number], stderr=subprocess.PIPE)
        try:
            wait_until(home.held)
            answer = hellos(home, 1)[0]
            assert answer["pid"] == serve.pid
            assert home("status", "--json").json["socket"] == str(given / "s")
            assert home("stop").code == 0
            assert serve.wait(30) == 0
        finally:
            serve.kill()
            serve.communicate()
    assert (given / "s").exists()  # it is the service manager's


def test_status_says_who_decided(home: Shell) -> None:
    """A flag beats the environment, that beats the file, and `status` names the winner."""
    home.write_config("[autosave]\ninterval_s = 1\nidle_s = 1\n[limits]\nconnections = 9\n")
    home.env |= {"SESSIOND_AUTOSAVE_INTERVAL_S": "2", "SESSIOND_AUTOSAVE_IDLE_S": "2"}
    home.start("serve", "--autosave-interval", "3")
    wait_until(lambda: home("status", "--json").json["running"])
    status = home("status", "--json").json
    assert status["config"]["values"] == {
        "autosave.interval_s": {"value": 3, "source": "flag"},
        "autosave.idle_s": {"value": 2, "source": "environment"},
        "limits.connections": {"value": 9, "source": str(home.path / "config" / "config.toml")},
    }
    assert status["limits"]["connections"] == 9
    assert "autosave.interval_s = 3.0 (flag)" in home("status").out


def test_everything_of_ours_is_private_and_the_log_holds_no_words(home: Shell) -> None:
    """Files are 0600 and folders 0700; what people say and the token are in no log."""
    home("new", "--id", "x", "--name", "secret name")
    home("append", "x", "secret words")
    listening = home.start("--tcp", "0")
    assert listening.stdout is not None
    listening.stdout.readline()
    home("append", "nosuch", "secret words")
    home("stop")
    token = (home.data / "token").read_text().strip()
    assert len(token) >= 32
    for path in home.path.rglob("*"):
        mode = path.lstat().st_mode & 0o777
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path} {mode:o}"
    log = "".join(path.read_text() for path in (home.path / "log").iterdir())
    assert "version" in log
    assert "secret" not in log
    assert token not in log


def test_tcp_listens_as_long_as_it_was_asked_to(home: Shell) -> None:
    """`--tcp` starts the daemon, says where and with which token, and the port is closed with it, not the daemon."""
    listening = home.start("--tcp", "127.0.0.1:0", text=True)
    assert listening.stdout is not None
    line = listening.stdout.readline()
    where = home("status", "--json").json["tcp"]
    assert line == f"listening on tcp 127.0.0.1:{where['port']}, the token is in {where['tokenFile']}\n"
    token = Path(where["tokenFile"]).read_text().strip()
    assert tcp_initialize(where["port"], token)["serverInfo"]["name"] == "sessiond"
    assert tcp_initialize(where["port"], "wrong" + token)["data"]["kind"] == "unauthorized"
    again = home("--tcp", f"127.0.0.1:{where['port']}")
    assert again.code == 1
    assert "is taken by another program" in again.err
    listening.send_signal(signal.SIGINT)
    assert listening.wait(30) == 130
    wait_until(lambda: home("status", "--json").json["tcp"] is None)
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
