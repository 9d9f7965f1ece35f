r"""Names of folders, for comparing. A folder of Windows has many: `C:\src`, `c:/src`, `/mnt/c/src`, `\\?\C:\src`, `/c:/src`."""

from __future__ import annotations

import re
from functools import lru_cache

_DRIVE = re.compile(r"(?:[\\/]{2}[?.][\\/]|/)?([A-Za-z]):(?=[\\/]|$)")
_MOUNTED = re.compile(r"/mnt/([A-Za-z])(?=/|$)")
_SHARE = re.compile(r"(?:\\\\|//)(?:[?.][\\/]UNC[\\/])?([^\\/?.][^\\/]*)[\\/]+([^\\/]+)")
_SLASHES = re.compile(r"[\\/]+")
_WSL = ("wsl$", "wsl.localhost")


@lru_cache(4096)
def folder_key(path: str) -> str:
    r"""Return what two names of one folder have in common. Made for comparing only; what is stored stays as its tool wrote it.

    A folder of a Windows drive is compared as WSL mounts it (`/mnt/c/...`), a share as `//host/share/...`, both without
    regard to case. What Windows calls `\\wsl.localhost\Ubuntu\home\me` is `/home/me`. Case counts in any other folder.
    """
    if drive := _DRIVE.match(path) or _MOUNTED.match(path):
        return f"/mnt/{drive[1]}{_rest(path, drive.end())}".lower()
    if share := _SHARE.match(path):
        rest = _rest(path, share.end())
        if share[1].lower() in _WSL:
            return folder_key(rest or "/")
        return f"//{share[1]}/{share[2]}{rest}".lower()
    return path.rstrip("/") or "/"


def is_windows(path: str) -> bool:
    r"""Return whether a path is a name that Windows uses: such as `C:\src`, `//host/share`, or `\\wsl$\Ubuntu`; not `/mnt/c/src`."""
    return (_DRIVE.match(path) or _SHARE.match(path)) is not None


def is_within(folder: str, asked: str) -> bool:
    """Return whether a folder is the one that is asked for, or in it. An absolute path is that folder, anything else any folder with that
    name (or the last parts of it). Case makes no difference.
    """
    inside = f"/{folder_key(folder).removeprefix('/').rstrip('/')}/".casefold()
    if is_windows(asked) or asked.startswith("/"):
        return inside.startswith(f"{folder_key(asked).rstrip('/')}/".casefold())
    bare = (asked.replace("\\", "/") if is_windows(folder) or _MOUNTED.match(folder) else asked).strip("/").casefold()
    return f"/{bare}/" in inside if bare else True


def _rest(path: str, begin: int) -> str:
    """Return what follows the drive or the share: empty, or from its slash on, without one at the end."""
    return _SLASHES.sub("/", path[begin:]).rstrip("/")
