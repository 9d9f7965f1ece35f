"""Bytes over a socket, and what comes back."""

from __future__ import annotations

import json
import socket
from typing import Any


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def framed(message: Any, header: str = "Content-Length: {}\r\n\r\n") -> bytes:
    body = json.dumps(message).encode()
    return header.format(len(body)).encode() + body


def request(number: Any, method: str, **extra: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **extra}


def until_end(sock: socket.socket) -> bytes:
    """Everything until the other side closes."""
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    return b"".join(parts)


def say(sock: socket.socket, data: bytes) -> bytes:
    """Send, close the sending half, and read to the end."""
    with sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        return until_end(sock)


def lines(data: bytes) -> list[Any]:
    assert not data or data.endswith(b"\n")
    return [json.loads(one) for one in data.splitlines()]


def frames(data: bytes) -> list[Any]:
    found = []
    while data:
        header, _, data = data.partition(b"\r\n\r\n")
        size = int(header.removeprefix(b"Content-Length: "))
        found.append(json.loads(data[:size]))
        data = data[size:]
    return found
