"""The folders of a life: a home, stores of all formats, other people's files around them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

from sessiond.formats import registry
from sessiond.formats.sidecar import sidecar_path
from sessiond.model.changes import Appended
from sessiond.model.session import Session
from tests.hostile.plan import Life

AUTOSAVE = """\
[autosave]
idle_s = 0.03
interval_s = 0.2
[limits]
settle_s = 0.02
look_around_s = 0.05
segment_bytes = 65536
journal_bytes = 262144
reserve_bytes = 65536
"""
"""Small and hasty, so that harm meets saves, rotations and trims."""
NAMES = tuple(f"session-{number}" for number in range(1, 5))
AT = "2026-01-11T14:30:22.000Z"


class Folder:
    """The folder of one store. `root`: its path in the configuration. `real`: where its files can be reached whatever stands
    at that path now.
    """

    def __init__(self, name: str, fmt: str, base: Path, *, mounted: bool) -> None:
        self.name = name
        self.mounted = mounted
        self.format = registry.get(fmt)
        self.base = base
        self.root = base / "point" if mounted else base / "chats"
        self.real = base / "disk" / "chats" if mounted else base / "chats"
        self.others = base / "disk"
        """Of the same file system: what is nobody's business of the daemon."""
        self.away: str | None = None
        """Why it is not at its path now."""

    def make(self) -> None:
        self.others.mkdir(parents=True)
        if self.mounted:
            mount("-t", "tmpfs", "-o", "size=3m,mode=755", "tmpfs", at=self.others)
        self.real.mkdir(parents=True)
        self.real.chmod(0o755)
        self._decoys()
        self._other_store()
        (self.others / "aside").mkdir()
        if self.mounted:
            self.root.mkdir()
            mount("--bind", str(self.real), at=self.root)

    def _decoys(self) -> None:
        for number, text in enumerate(('{"theirs": true}\n', "theirs\n", "")):
            path = self.others / "decoys" / f"file-{number}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        (self.others / "decoys" / "inner").mkdir()
        (self.others / "decoys" / "inner" / "file").write_text("theirs, too\n")

    def _other_store(self) -> None:
        """What is at the path when another disk is mounted there: a store with sessions of the same names."""
        other = self.others / "other"
        (other / ".sessiond").mkdir(parents=True)
        (other / ".sessiond" / "store.json").write_text('{"id": "another", "sessiond": 1}\n')
        (other / ".sessiond" / "lock").touch()
        for local_id in NAMES[:2]:
            session = Session(local_id, AT)
            wire = {"id": "o", "seq": 1, "role": "user", "content": "of another disk", "timestamp": AT}
            session.apply(Appended(seq=1, at=AT, messages=[wire]))
            for one in self.format.encode(session, {}):
                path = other / one.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(one.data)

    def session(self, local_id: str) -> Path:
        return self.real / self.format.main_path(local_id)

    def beside(self, local_id: str) -> Path:
        return self.real / sidecar_path(local_id)

    def wire(self, local_id: str) -> str:
        return local_id if self.name == "default" else f"{self.name}/{local_id}"


class Ground:
    """`top`: a fresh folder. `mounts`: whether anything can be mounted here."""

    def __init__(self, top: Path, plan: Life, *, mounts: bool) -> None:
        self.top = top
        self.mounts = mounts
        disk = top / "homes"
        disk.mkdir()
        self.small_data = mounts and "data" in plan.mounted
        if self.small_data:
            mount("-t", "tmpfs", "-o", "size=16m,mode=755", "tmpfs", at=disk)
        self.home = disk / "home"
        (self.home / "config").mkdir(parents=True)
        (disk / "aside").mkdir()
        self.folders = {
            name: Folder(name, fmt, top / name, mounted=mounts and name in plan.mounted)
            for name, fmt in plan.stores.items()
        }
        for folder in self.folders.values():
            if folder.name == "default":
                folder.root = folder.real = self.home / "data" / "sessions"
                folder.others = disk / "default"
                folder.others.mkdir()
                folder._decoys()
                (folder.others / "aside").mkdir()
            else:
                folder.make()
        self.config = AUTOSAVE + "".join(
            f"[stores.{one.name}]\npath = {json.dumps(str(one.root))}\nformat = {json.dumps(plan.stores[one.name])}\n"
            for one in self.folders.values()
            if one.name != "default"
        )
        self.before = self.watched()

    @property
    def trash(self) -> Path:
        return self.home / "data" / "trash"

    def watched(self) -> dict[str, str]:
        """What only its owner may change: kind and content of everything that is not one of our stores."""
        found: dict[str, str] = {}
        for folder in self.folders.values():
            for below in ("decoys", "other"):
                found |= _prints(folder.others / below)
        return found

    def changed(self) -> list[str]:
        """Other people's files that have changed."""
        now = self.watched()
        wrong = [path for path in sorted(now.keys() | self.before.keys()) if now.get(path) != self.before.get(path)]
        return [f"CHANGED {path}, which is not ours" for path in wrong]

    def unmount(self) -> None:
        """Take everything apart."""
        for folder in self.folders.values():
            if folder.mounted:
                unmount(folder.root)
                unmount(folder.others)
        if self.small_data:
            unmount(self.top / "homes")


def _prints(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
        content = path.read_bytes() if kind == "file" else b""
        found[str(path)] = f"{kind} {path.lstat().st_mode:o} {hashlib.sha256(content).hexdigest()}"
    return found


def mount(*arguments: str, at: Path) -> None:
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", *arguments, str(at)], check=True, capture_output=True)


def unmount(at: Path) -> None:
    """All that is mounted there, also while somebody uses it."""
    while os.path.ismount(at) or _is_bound(at):
        subprocess.run(["umount", "-l", str(at)], check=True, capture_output=True)


def _is_bound(at: Path) -> bool:
    """A folder of the same file system that is mounted there is the same device."""
    with open("/proc/self/mountinfo") as file:
        return any(line.split()[4] == str(at) for line in file)
