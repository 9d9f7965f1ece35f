"""Lists what is in the folder of a store; the format then says which of it are sessions."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from sessiond.formats.base import Format
from sessiond.fs import FileSystem


def names(fs: FileSystem, fmt: Format, root: str, sessions_under: Callable[[str], list[str] | None]) -> list[str]:
    """Relative paths, two levels deep; dot-names of the top level are left out. FileNotFoundError."""
    top = sorted(name for name in fs.list_dir(root) if not name.startswith("."))
    # A file whose name says that it is a session's need not be checked for being a folder.
    files = set(fmt.find(top).values())
    found: list[str] = []
    for name in top:
        found.append(name)
        if name not in files and _is_folder(fs, posixpath.join(root, name)):
            found += _below(fs, fmt, root, name, sessions_under)
    return found


def _is_folder(fs: FileSystem, path: str) -> bool:
    stat = fs.stat(path)
    return stat is not None and stat.is_dir


def _below(
    fs: FileSystem, fmt: Format, root: str, folder: str, sessions_under: Callable[[str], list[str] | None]
) -> list[str]:
    path = posixpath.join(root, folder)
    if fs.is_link(path):  # nothing is read through it, and a request for what may be there fails with that reason
        return [fmt.main_path(local_id) for local_id in sessions_under(folder) or ()]
    try:
        inner = sorted(fs.list_dir(path))
    except OSError:
        return []
    found = [f"{folder}/{name}" for name in inner if not name.startswith(".")]
    if (file := fmt.abilities.nested.get(folder)) is not None:
        # Also a dangling link: that counts as a file that cannot be read.
        inside = [f"{name}/{file}" for name in found]
        found += [name for name in inside if fs.has_name(posixpath.join(root, name))]
    return found
