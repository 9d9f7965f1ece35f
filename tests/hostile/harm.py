"""An adversary that changes the folders around a daemon, knows what it destroys, and repairs what can be repaired.

The daemon is stopped meanwhile (SIGSTOP), at whatever step it was: so it is certain what was in a file when it was removed,
and still the moment is random.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sessiond.formats import registry
from tests.hostile.ground import AT, Folder, Ground, mount, unmount
from tests.hostile.ledger import Ledger, last_words, words_below
from tests.hostile.plan import FOR_GOOD, Step

Undo = Callable[[], bool]
"""Puts it right; False where that cannot be done yet, for something above it is not right."""
UndoAt = Callable[[Path], bool]
"""The same of one thing, which may have another path by then."""


@contextlib.contextmanager
def standing_still(pid: int | None) -> Iterator[None]:
    """None: nobody runs."""
    if pid is None:
        yield
        return
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 20
    while not all(_is_stopped(Path(f"/proc/{pid}/task/{thread}/stat")) for thread in os.listdir(f"/proc/{pid}/task")):
        assert time.monotonic() < deadline, "it does not stop"
        os.kill(pid, signal.SIGSTOP)  # the kernel lets stopped processes go on when their group becomes an orphan
        time.sleep(0.0005)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _is_stopped(stat: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return stat.read_text().rpartition(")")[2].split()[0] in ("T", "t", "Z", "X")
    return True


class Somebody:
    def __init__(self, seed: str, ground: Ground, ledger: Ledger) -> None:
        self.ground = ground
        self.ledger = ledger
        self.done = ledger.done
        self._seed = seed
        self._number = 0
        self._harmed: set[tuple[str, Path]] = set()
        """Things that are to be repaired: they are not harmed again before."""
        self._aside: set[tuple[int, int]] = set()
        """What lies aside: device and inode."""
        self._said = 0
        self._runs = False
        self._rng = random.Random(seed)

    def do(self, step: Step, *, runs: bool) -> Undo | None:
        """Carry out the step if its target exists and it is possible; None if nothing needs to be repaired."""
        self._rng = random.Random(f"{self._seed} {step.number}")
        self._runs = runs
        folder = self.ground.folders[step.store]
        if step.target == "root":
            return getattr(self, f"_root_{step.how.replace('-', '_')}")(folder)
        found = self._find(step.target, folder)
        if found is None:
            return None
        path, session = found
        if step.how == "written":
            if step.target == "session":
                self._write(folder, path, session)
            return None
        before = words_below(path)
        undo = self._harm(step, path, folder)
        left = words_below(path)
        if step.how == "truncated" and path.is_file():
            left -= set(last_words(path.read_bytes()))  # the text is there, its message may be cut
        gone = before - left
        if undo is not None or step.how in FOR_GOOD:
            self.done.append(f"{step.number}: {step.how} {path}, with {len(gone)} words")
            self._destroyed(step, folder, session, gone)
        return undo and self._putting_right(step, folder, path, session, gone, undo)

    def _destroyed(self, step: Step, folder: Folder, session: str, gone: set[str]) -> None:
        what = _name(step, folder, session)
        # What was cleared or cut away is in the trash alone, also of a session that is in memory.
        self.ledger.destroyed(gone, session, what, runs=self._runs and step.target not in ("trash", "entry"))
        if step.target in ("beside", "hidden") and folder.format.name != "jsonl":
            self.ledger.without_ids(session, folder.name, what)

    def _putting_right(
        self, step: Step, folder: Folder, path: Path, session: str, gone: set[str], undo: Callable[[Path], bool]
    ) -> Callable[[], bool]:
        base = folder.real if path.is_relative_to(folder.real) else self.ground.home
        relative = path.relative_to(base)
        key = self._key(folder, path)
        self._harmed.add(key)
        around = _identity(path.parent) if step.target in ("beside", "marker") else None

        def put_right() -> bool:
            path = (folder.real if base != self.ground.home else base) / relative  # the store may have gone elsewhere
            above = next(one for one in path.parents if os.path.lexists(one))
            if _is_reachable(above):
                path.parent.mkdir(parents=True, exist_ok=True)
            if not _is_reachable(path.parent) or around in self._aside:
                return False  # the folder that it was in is not back yet
            before = words_below(path)
            if not undo(path):
                return False
            self._harmed.discard(key)
            self.done.append(f"{step.number}: {path} put right")
            now = words_below(path)
            self.ledger.found(now & gone, _name(step, folder, session))
            self._destroyed(step, folder, session, before - now)
            return True

        return put_right

    def _find(self, target: str, folder: Folder) -> tuple[Path, str] | None:
        """(what is to be harmed, the session that it belongs to)."""
        choices: list[tuple[Path, str]] = []
        if target == "session":
            choices = [(folder.session(name), folder.wire(name)) for name in self._names(folder)]
        elif target == "beside":
            choices = [(folder.beside(name), folder.wire(name)) for name in self._names(folder)]
        elif target == "marker":
            choices = [(folder.real / ".sessiond" / "store.json", "")]
        elif target == "hidden":
            choices = [(folder.real / ".sessiond", "")]
        elif target == "trash":
            choices = [(self.ground.trash, ""), (self.ground.trash / folder.name, "")]
        elif target == "entry" and _is_reachable(self.ground.trash / folder.name):
            choices = [(one, "") for one in sorted((self.ground.trash / folder.name).glob("[!.]*"))]
        choices = [one for one in choices if _is_reachable(one[0].parent) and os.path.lexists(one[0])]
        # What was harmed already is left as it is: a FIFO, a link, a folder where a file was.
        choices = [one for one in choices if not one[0].is_symlink() and (one[0].is_dir() or one[0].is_file())]
        choices = [one for one in choices if self._key(folder, one[0]) not in self._harmed]
        # Nor what is a second name of somebody's file: he would harm that.
        choices = [one for one in choices if one[0].is_dir() or one[0].stat().st_nlink == 1]
        return self._rng.choice(choices) if choices else None

    def _key(self, folder: Folder, path: Path) -> tuple[str, Path]:
        base = folder.real if path.is_relative_to(folder.real) else self.ground.home
        return folder.name, path.relative_to(base)

    def _names(self, folder: Folder) -> list[str]:
        if not _is_reachable(folder.real):
            return []
        wires = sorted(self.ledger.sessions)
        mine = [one for one in wires if (one.rpartition("/")[0] or "default") == folder.name]
        return [one.rpartition("/")[2] for one in mine]

    # One thing

    def _harm(self, step: Step, path: Path, folder: Folder) -> UndoAt | None:
        how = step.how
        if how == "removed":
            _remove(path)
        elif how == "emptied" and path.is_dir():
            for one in path.iterdir():
                _remove(one)
        elif how in ("emptied", "truncated"):
            if path.is_file():
                os.truncate(path, 0 if how == "emptied" else self._rng.randint(0, path.stat().st_size))
        elif how == "unreadable":
            return self._close(path, 0)
        elif how == "twin" and not path.is_file():
            return None
        else:
            return self._replace(path, how, folder, step.target)
        return None

    def _close(self, path: Path, mode: int) -> UndoAt:
        held = os.open(path, os.O_PATH)  # it may be somewhere else by then, or gone
        before = os.fstat(held).st_mode & 0o7777
        path.chmod(mode)

        def undo(path: Path) -> bool:
            os.chmod(f"/proc/self/fd/{held}", before)
            if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o7777 == mode:
                path.chmod(before)  # written again meanwhile, with the mode that it had
            os.close(held)
            return True

        return undo

    def _replace(self, path: Path, how: str, folder: Folder, target: str) -> UndoAt:
        """Something else in its place, or nothing; the thing itself lies aside meanwhile."""
        others = self.ground.home.parent if target in ("trash", "entry") else folder.others
        self._number += 1
        number = self._number
        aside = others / "aside" / str(number)
        path.rename(aside)
        identity = _identity(aside)
        self._aside.add(identity)
        decoys = folder.others / "decoys"
        if how == "folder":
            path.mkdir()
        elif how == "fifo":
            os.mkfifo(path)
        elif how == "link":
            files = () if target == "session" else (decoys / "file-0", decoys / "file-2")  # that is a user's right
            path.symlink_to(self._rng.choice((*files, decoys / "inner", decoys / "none")))
        elif how == "twin":
            os.link(decoys / f"file-{self._rng.randint(0, 2)}", path)

        def undo(path: Path) -> bool:
            if aside.is_dir() and path.is_dir() and not path.is_symlink():
                if target == "entry":
                    path.rename(path.with_name(f"{path.name}.between-{number}"))
                else:
                    _merge(path, aside, 1 if path == self.ground.trash else 0)
            if os.path.lexists(path):
                _remove(path)
            aside.rename(path)
            self._aside.discard(identity)
            return True

        return undo

    def _write(self, folder: Folder, path: Path, session: str) -> None:
        if folder.format.name not in ("jsonl", "cortex") or not path.is_file():
            return
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            return
        self._said += 1
        word = f"t9x{self._said}{'y' * self._rng.randint(0, 9)}z"
        wire = {"role": "user", "content": word, "timestamp": AT}
        line = wire if folder.format is registry.get("cortex") else {"id": word, **wire}
        with open(path, "ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
        self.ledger.unread.add(word)
        self.ledger.acknowledged([word], session)
        self.done.append(f"{word} written into {path}")

    # The whole folder of a store

    def _away(self, folder: Folder, why: str, undo: Undo) -> Undo:
        folder.away = why
        self.done.append(f"{folder.root} is {why}")

        def put_right() -> bool:
            if not undo():
                return False
            folder.away = None
            self.done.append(f"{folder.root} is gone {why}")
            return True

        return put_right

    def _root_gone(self, folder: Folder) -> Undo | None:
        if folder.away is not None or not folder.root.is_dir():
            return None
        if folder.mounted:
            unmount(folder.root)

            def undo() -> bool:
                mount("--bind", str(folder.real), at=folder.root)
                return True

            return self._away(folder, "gone", undo)
        return self._moved(folder, leave=folder.name != "default" and self._rng.random() < 0.5)

    def _moved(self, folder: Folder, *, leave: bool) -> Undo:
        before, folder.real = folder.root, folder.others / "aside" / "root"
        before.rename(folder.real)
        if leave:
            before.mkdir()

        def undo() -> bool:
            if before.exists():
                left = sorted(str(one) for one in before.rglob("*"))
                if left and folder.name != "default":
                    self.ledger.fault(f"STRAY {left[:3]}, in an empty mount point")
                for name in self._names_in(folder, before):
                    words = words_below(before / folder.format.main_path(name))
                    self.ledger.destroyed(words, folder.wire(name), "its store came back", runs=self._runs)
                shutil.rmtree(before)
            folder.real.rename(before)
            folder.real = before
            return True

        return self._away(folder, "renamed", undo)

    def _names_in(self, folder: Folder, where: Path) -> list[str]:
        return [name for name in self._names(folder) if (where / folder.format.main_path(name)).exists()]

    def _root_swapped(self, folder: Folder) -> Undo | None:
        if folder.away is not None or folder.name == "default" or not folder.root.is_dir():
            return None
        if folder.mounted:
            unmount(folder.root)
            mount("--bind", str(folder.others / "other"), at=folder.root)

            def undo() -> bool:
                unmount(folder.root)
                mount("--bind", str(folder.real), at=folder.root)
                return True

            return self._away(folder, "swapped", undo)
        other = folder.others / "other"
        back = self._moved(folder, leave=False)
        other.rename(folder.root)

        def undo_move() -> bool:
            folder.root.rename(other)
            return back()

        return self._away(folder, "swapped", undo_move)

    def _root_closed(self, folder: Folder) -> Undo | None:
        return self._with_mode(folder, 0, "closed")

    def _root_read_only(self, folder: Folder) -> Undo | None:
        if not folder.mounted:
            return self._with_mode(folder, 0o555, "read-only")
        if folder.away is not None:
            return None
        unmount(folder.root)
        mount("--bind", str(folder.real), at=folder.root)
        mount("-o", "remount,bind,ro", at=folder.root)

        def undo() -> bool:
            unmount(folder.root)
            mount("--bind", str(folder.real), at=folder.root)
            return True

        return self._away(folder, "read-only", undo)

    def _with_mode(self, folder: Folder, mode: int, why: str) -> Undo | None:
        if folder.away is not None or not folder.real.is_dir():
            return None
        open_again = self._close(folder.real, mode)
        return self._away(folder, why, lambda: open_again(folder.real))

    def _root_full(self, folder: Folder) -> Undo | None:
        small = folder.mounted or (folder.name == "default" and self.ground.small_data)
        ballast = folder.others / "ballast"
        if not small or ballast.exists():
            return None
        with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)
        self.done.append(f"the disk of {folder.name} is full")

        def undo() -> bool:
            ballast.unlink()
            self.done.append(f"the disk of {folder.name} has room")
            return True

        return undo


def _name(step: Step, folder: Folder, session: str) -> str:
    return f"{step}, in {session or folder.name}"


def _identity(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino


def _is_reachable(folder: Path) -> bool:
    """A real folder, and every step to it."""
    return folder.is_dir() and Path(os.path.realpath(folder)) == folder


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _merge(fresh: Path, into: Path, depth: int) -> None:
    """What came to be in a folder while another one lay aside goes into that, under names that are free. `depth`: how many folders
    deep what belongs together lies.
    """
    for one in sorted(fresh.iterdir()):
        target = into / one.name
        if depth and target.is_dir() and one.is_dir():
            _merge(one, target, depth - 1)
            continue
        number = 0
        while os.path.lexists(target):
            number += 1
            target = into / f"{one.name}.between-{number}"
        one.rename(target)
