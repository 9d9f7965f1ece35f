"""Exports for `sessiond export`: the daemon provides the content, and this process writes the file, with the user's own rights."""

from __future__ import annotations

import getpass
import os
import shlex
from collections import Counter
from collections.abc import Callable

from sessiond.cli.paths import here
from sessiond.cli.whole_export import whole_export
from sessiond.client.blocking import Sessiond
from sessiond.client.types import Exported
from sessiond.endpoint import places
from sessiond.errors import AlreadyExists, InvalidParams
from sessiond.exporters import SUFFIXES

_HINT = "--overwrite replaces it"


def single(path: str) -> Callable[[str], str]:
    return lambda _session_id: path


class ExportFolder:
    """Session id -> a file in the folder, which is made if needed. Sessions of other stores than the default one go into
    a subfolder per store.
    """

    def __init__(self, path: str, form: str) -> None:
        self._path = path
        self._suffix = SUFFIXES[form]

    def __call__(self, session_id: str) -> str:
        path = os.path.join(self._path, *session_id.split("/")) + self._suffix
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path


class Exporter:
    """Exports one session at a time. `blanked` counts what was blanked, by kind."""

    def __init__(self, client: Sessiond, form: str, *, redact: bool, overwrite: bool) -> None:
        self.blanked: Counter[str] = Counter()
        self._client = client
        self._form = form
        self._redact = redact
        self._overwrite = overwrite
        self._ours: list[str] = []

    def export(self, session_id: str, path: str | None) -> Exported:
        """With `path` and `bytes`, or without a path with `content`. SessiondError, OSError."""
        content = (
            self._redacted(session_id).encode() if self._redact else whole_export(self._client, session_id, self._form)
        )
        return Exported(content=content.decode()) if path is None else self._write(path, content)

    def _redacted(self, session_id: str) -> str:
        """Made here from the complete document, so that what is blanked was never in the file."""
        import msgspec

        from sessiond.exporters import export
        from sessiond.exporters.document import session_of
        from sessiond.exporters.redact import redact

        session = session_of(msgspec.json.decode(whole_export(self._client, session_id, "json")))
        session.local_id = session_id.rpartition("/")[2]
        twin, report = redact(session, _users())
        self.blanked.update(report)
        return "".join(export(twin, twin.messages(), self._form))

    def _write(self, path: str, content: bytes) -> Exported:
        from sessiond.fs import RealFileSystem, atomic_write

        self._check(path)
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            if os.path.exists(folder):
                raise InvalidParams(f"{folder} is not a folder", hint="choose another place")
            raise InvalidParams(
                f"the folder {folder} does not exist", hint=f"create it with `mkdir -p {shlex.quote(folder)}`"
            )
        fs = RealFileSystem()
        there = fs.stat(path)
        if there is not None and not there.is_file and not there.is_dir:
            with open(path, "wb") as file:  # a device or a pipe is written into, as cp does; nothing takes its place
                file.write(content)
        elif self._overwrite:
            atomic_write(fs, path, content, there.mode & 0o777 if there is not None else _mode())
        else:
            try:
                fs.create(path, content, _mode())
            except FileExistsError:
                raise AlreadyExists(f"{path} already exists", hint=_HINT) from None
            fs.sync_dir(os.path.dirname(path))
        return Exported(path=path, bytes=len(content))

    def _check(self, path: str) -> None:
        """Refuse to write into a folder that the daemon manages, as the daemon itself does."""
        if not self._ours:
            where = places()
            stores = self._client.status().stores
            ours = [where.data, where.config, where.cache, *(here(store.path) for store in stores)]
            self._ours = [os.path.realpath(folder) for folder in ours]
        real = os.path.realpath(path)
        for folder in self._ours:
            if real.startswith(folder.rstrip("/") + "/"):
                raise InvalidParams(f"{real} is in {folder}, which sessiond manages", hint="choose another folder")


def _mode() -> int:
    """The mode of a new file under the user's umask, which the daemon does not know."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _users() -> list[str]:
    try:
        return [getpass.getuser()]
    except (KeyError, OSError):
        return []
