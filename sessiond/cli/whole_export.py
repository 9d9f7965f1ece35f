"""A session's export from the daemon, however large it is."""

from __future__ import annotations

import os

from sessiond.cli.paths import on_wire
from sessiond.client.blocking import Sessiond
from sessiond.errors import TooLarge
from sessiond.fs.scratch import scratch_folder


def whole_export(client: Sessiond, session_id: str, form: str) -> bytes:
    session = client.session(session_id)
    try:
        return (session.export(form).content or "").encode()
    except TooLarge:
        with scratch_folder() as folder:
            path = os.path.join(folder, "export")
            session.export(form, on_wire(path))
            with open(path, "rb") as file:
                return file.read()
