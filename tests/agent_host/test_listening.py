"""`[ahp]` in `config.toml`: where windows of VS Code find a daemon from its start to its end."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.agent_host.window import Host, Window
from tests.home import Client, Home
from tests.shell import Shell, wait_until


@pytest.fixture
def port() -> int:
    """One that nobody uses, and that the system gives to nobody who asks for any."""
    while True:
        found = random.randint(20_000, 29_999)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", found))
            return found


def configure(home: Home, *listen: str, more: str = "") -> Client:
    """A daemon with this configuration, which looks after its listeners four times a second."""
    home.stop()
    home.configure(f"[daemon]\nidle_exit_s = 1\n[ahp]\nlisten = {list(listen)}\n{more}")
    home.start()
    return home.client()


def status(client: Client) -> Any:
    return client.call("daemon/status")["ahp"]


def listeners(client: Client, count: int = 1) -> list[dict[str, Any]]:
    """Once there are that many."""
    found: list[list[dict[str, Any]]] = []

    def there() -> bool:
        found.append((status(client) or {"listeners": []})["listeners"])
        return len(found[-1]) == count

    wait_until(there)
    return found[-1]


def rows(where: dict[str, Any]) -> list[str]:
    """What a window lists."""
    window = Window(Host(where))
    window.initialize()
    titles = [row["title"] for row in window.rows().values()]
    window.close()
    return titles


def test_windows_find_it_from_the_start(home: Home, port: int) -> None:
    client = configure(home, "socket", str(port))
    client.call("session/new", sessionId="a", name="Order of locks")
    by_socket, by_port = listeners(client, 2)
    assert rows(by_socket) == rows(by_port) == ["Order of locks"]
    assert by_port["port"] == port
    with pytest.raises(InvalidStatus):
        Window(Host(by_port), token="wrong")
    found = os.stat(by_socket["socket"])
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(by_socket["socket"])).st_mode) == 0o700


def test_the_socket_comes_back(home: Home) -> None:
    """Temp cleaners remove sockets; what a window has open goes on."""
    client = configure(home, "socket")
    (there,) = listeners(client)
    window = Window(Host(there))
    window.initialize()
    Path(there["socket"]).unlink()
    wait_until(lambda: Path(there["socket"]).exists())
    assert rows(there) == []
    assert window.rows() == {}


def test_it_stays_for_windows_that_may_come(home: Home) -> None:
    """It does not exit for want of clients, which it does after a second here."""
    client = configure(home, "socket")
    (there,) = listeners(client)
    client.close()
    with pytest.raises(AssertionError):
        wait_until(lambda: not Path(there["socket"]).exists(), deadline_s=2.5)
    assert rows(there) == []


def test_nothing_is_left_when_it_ends(home: Home) -> None:
    client = configure(home, "socket")
    (there,) = listeners(client)
    window = Window(Host(there))
    window.initialize()
    home.stop()
    assert not Path(there["socket"]).exists()
    with pytest.raises(ConnectionClosed):
        window.rows()


def test_a_port_that_is_taken_is_tried_again(home: Home, port: int) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        client = configure(home, str(port))
        wait_until(lambda: status(client) is not None)
        (problem,) = status(client)["problems"]
        assert problem == f"{port}: 127.0.0.1:{port} is taken by another program"
        assert f"PROBLEM: {problem}" in Shell(SESSIOND_HOME=str(home.path))("status").out
    assert rows(listeners(client)[0]) == []
    assert status(client)["problems"] == []


@pytest.mark.parametrize("writes", [False, True])
def test_the_right_to_write_is_in_the_file(home: Home, port: int, writes: bool) -> None:
    client = configure(home, "socket", str(port), more=f"write = {str(writes).lower()}\n")
    for one in listeners(client, 2):
        assert one["write"] == writes
        window = Window(Host(one))
        (agent,) = window.initialize()["snapshots"][0]["state"]["agents"]
        assert bool(agent["models"]) == writes
        window.close()


def test_a_client_that_asks_for_the_same_gets_it(home: Home, port: int) -> None:
    """`sessiond --ahp PORT`: it goes on when the client ends. With other rights it is refused."""
    client = configure(home, str(port))
    (there,) = listeners(client)
    other = home.client()
    address = other.call("daemon/listen", kind="ahp", port=port)
    assert (address["port"], address["tokenFile"]) == (port, there["tokenFile"])
    refused = other.fails("daemon/listen", kind="ahp", port=port, write=True)
    assert "by [ahp] in" in refused["message"]
    assert "change `write` there, which is false" in refused["data"]["hint"]
    other.close()
    assert listeners(client) == [there]
    assert rows(there) == []


def test_an_odd_address_harms_no_other(home: Home) -> None:
    """A name with a part that is too long cannot even be looked up; the daemon's own socket is looked after all the same."""
    client = configure(home, f"{'x' * 64}.example:8714", "socket")
    (there,) = listeners(client)
    assert rows(there) == []
    (problem,) = status(client)["problems"]
    assert "is not an address" in problem
    home.socket_path.unlink()
    wait_until(home.socket_path.exists)
    refused = client.fails("daemon/listen", kind="ahp", host=f"{'x' * 64}.example")
    assert "is not an address" in refused["message"]


def test_a_client_that_asks_at_once_gets_the_same(home: Home, port: int) -> None:
    """Before the daemon has come to listen by itself, and by another name for it."""
    client = configure(home, str(port))
    assert client.call("daemon/listen", kind="ahp", port=port)["port"] == port
    assert home.client().call("daemon/listen", kind="ahp", host="localhost", port=port)["port"] == port
    assert len(listeners(client)) == 1
    refused = client.fails("daemon/listen", kind="ahp", port=port, write=True)
    assert "by [ahp] in" in refused["message"]


def test_a_right_without_a_place_is_said_to_do_nothing(home: Home) -> None:
    client = configure(home, more="write = true\n")
    assert status(client)["problems"] == ["write = true under [ahp] does nothing without listen"]
