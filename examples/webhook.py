"""A web hook: what is posted to /SESSION becomes a message of that session, and 200 means that it is on the disk.

    python examples/webhook.py [PORT]
    curl --data "The build is green" -H "Idempotency-Key: build-41" http://127.0.0.1:8800/builds

A sender that repeats a request with the same Idempotency-Key adds nothing.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sessiond.client import AlreadyExists, SessiondError, connect

sessiond = connect(name="webhook")


class Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode("utf-8", "replace")
        try:
            with suppress(AlreadyExists):
                sessiond.new(id=self.path.strip("/"), name=f"Hook {self.path}")
            seq = sessiond.session(self.path.strip("/")).append("user", text, id=self.headers["Idempotency-Key"]).seq
            status, body = 200, f"{seq}\n"
        except SessiondError as error:
            status, body = 400, f"{error.kind}: {error.message}\n"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8800), Hook)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
