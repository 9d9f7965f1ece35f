"""`sessiond tail ID`: follows a session, also across restarts of the daemon."""

from __future__ import annotations

import time
from typing import Any

import click

from sessiond.cli import options
from sessiond.cli.client import Client
from sessiond.cli.output import clean, message_text, one_line, print_json, say
from sessiond.cli.streams import must_be_read

_AGAIN_S = 0.05


@click.command("tail", short_help="Follow a session until interrupted.")
@options.session_id
@click.option(
    "-n", "--last", type=click.IntRange(0), default=10, show_default=True, help="How many messages to begin with."
)
@options.as_json
def command(session_id: str, last: int, as_json: bool) -> None:
    """Follow a session until interrupted, or until nobody reads the output.

    With --json every change is one document on its own line, as in session/changed: {"kind": "appended", "seq": ...,
    "messages": [...]}. The messages to begin with come the same way.
    """
    follower = _Follower(session_id, as_json)
    since: int | None = None
    while True:
        must_be_read()
        with Client.connect() as client:
            try:
                since = follower.follow(client, last, since)
            except ConnectionError:
                since = follower.seq  # the daemon went away: continue from here with the next one
                time.sleep(_AGAIN_S)


class _Follower:
    def __init__(self, session_id: str, as_json: bool) -> None:
        self.session_id = session_id
        self.as_json = as_json
        self.seq = 0
        self.in_stream: str | None = None
        """The message whose text is being printed as it arrives; its line has not ended yet."""

    def follow(self, client: Client, last: int, since: int | None) -> int | None:
        """Until the connection ends (ConnectionError), or a resync is needed: then returns the seq to continue from."""
        self._open(client, last, since)
        for method, params in client.notifications(while_read=True):
            if params.get("sessionId", params.get("session", {}).get("sessionId")) != self.session_id:
                continue
            if method == "session/changed":
                for change in params["changes"]:
                    self.show(change)
            elif method in ("session/resync", "session/reloaded"):
                return self.seq
            elif method == "session/deleted":
                raise click.ClickException(
                    f"{self.session_id} was deleted; to bring it back: sessiond restore {self.session_id}"
                )
        return self.seq

    def _open(self, client: Client, last: int, since: int | None) -> None:
        which = {"last": last} if since is None else {"since": since}
        opened = client.call("session/open", {"sessionId": self.session_id, **which})
        changes = opened.get("changes") if since is not None else None
        if changes is None:
            changes = [{"kind": "appended", "seq": one["seq"], "messages": [one]} for one in opened["messages"]]
        for change in changes:
            self.show(change)
        self.seq = max(self.seq, opened["session"]["seq"])

    def show(self, change: dict[str, Any]) -> None:
        self.seq = max(self.seq, change.get("seq", 0))
        if self.as_json:
            print_json(change)
            return
        kind = change["kind"]
        if kind == "extended":
            self._stream(change["messageId"], change["text"])
            return
        if kind == "finished" and self.in_stream == change.get("messageId"):
            self._end_stream()
            return
        self._end_stream()
        if kind == "appended":
            for message in change["messages"]:
                say(message_text(message))
        elif kind == "note":
            note = change.get("note", {})
            say(one_line(f"── note: {note.get('heading', '')}: {note.get('content', '')}", 200))
        elif kind not in ("state", "finished"):
            say(f"── {kind}")

    def _stream(self, message_id: str, text: str) -> None:
        if self.in_stream != message_id:
            self._end_stream()
            self.in_stream = message_id
        print(clean(text), end="", flush=True)

    def _end_stream(self) -> None:
        if self.in_stream is not None:
            self.in_stream = None
            print()
