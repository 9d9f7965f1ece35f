"""Changes of other programs to folders of sessions are listed without a restart: created, renamed, moved in and out, removed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from sessiond.formats import registry
from sessiond.fs import RealFileSystem
from sessiond.model.session import Session
from sessiond.store.files import StoreFiles
from tests.home import Client, Home
from tests.shell import wait_until
from tests.store.conftest import NOW, message
from tests.suite.explore import tries

TRIES = tries(few=2, usual=6)
NAMES = [f"n{number}" for number in range(9)]
ACTIONS = 12


class Tree:
    """A folder in one format, and what somebody does with the folders (or files) of its sessions."""

    def __init__(self, path: Path, fmt: str, seed: int) -> None:
        self.format = registry.get(fmt)
        self.path = path / "store"
        self._aside = path / "aside"
        self._random = random.Random(f"{fmt} {seed}")
        self._made = 0
        for folder in (self.path, self._aside):
            folder.mkdir(parents=True)

    def _unit(self, name: str) -> Path:
        """What is moved with a session: its own folder, or its file if it has no folder."""
        main = self.path / self.format.main_path(name)
        return main if main.parent == self.path else main.parent

    def make(self, name: str) -> None:
        session = Session(name, NOW)
        self._made += 1
        session.add_message(message(1, f"word {self._made}"))
        main = self.path / self.format.main_path(name)
        main.parent.mkdir(parents=True, exist_ok=True)
        main.write_bytes(
            next(one.data for one in self.format.encode(session, {}) if one.path == self.format.main_path(name))
        )

    def act(self) -> None:
        """One step of somebody's."""
        name, other = self._random.sample(NAMES, 2)
        unit, target, aside = self._unit(name), self._unit(other), self._aside / self._random.choice(NAMES)
        step = self._random.choice(("make", "make", "rename", "out", "in", "remove", "swap", "empty", "all away"))
        if step == "make":
            self.make(name)
        elif step == "empty":
            unit.mkdir(parents=True, exist_ok=True) if unit.suffix == "" else None
        elif step == "in" and aside.exists() and not unit.exists():
            unit.parent.mkdir(exist_ok=True)
            aside.rename(unit)
        elif step == "all away":
            self._all_away()
        elif unit.exists():
            if step == "rename" and not target.exists():
                unit.rename(target)
            elif step == "out" and not aside.exists():
                unit.rename(aside)
            elif step == "remove":
                shutil.rmtree(unit) if unit.is_dir() else unit.unlink()
            elif step == "swap" and target.exists():
                unit.rename(self._aside / "swapped")
                target.rename(unit)
                (self._aside / "swapped").rename(target)

    def _all_away(self) -> None:
        """The folder that all are in, where there is one: away, another one in its place, or back."""
        folder, there = self._unit("x").parent, self._aside / "all"
        if folder != self.path and folder.exists():
            there.exists() and shutil.rmtree(there)
            folder.rename(there)
            if self._random.random() < 0.7:
                shutil.copytree(there, folder)
                self.make(self._random.choice(NAMES))

    def scan(self) -> set[str]:
        return set(StoreFiles(RealFileSystem(), str(self.path), self.format).find())


def listed(client: Client, store: str) -> set[str]:
    found = (one["sessionId"].partition("/") for one in client.call("session/list", limit=500)["sessions"])
    return {local_id for name, _, local_id in found if name == store}


def test_17_what_is_done_with_folders_is_listed(home: Home, tmp_path: Path) -> None:
    """Random steps in a folder of each format, as fast as they go: in the end `session/list` is what a scan finds, each time."""
    trees = {name: Tree(tmp_path / name, name, TRIES) for name in registry.NAMES}
    client = home.client()
    for name, tree in trees.items():
        client.call("store/adopt", path=str(tree.path), name=name, format=name)
    for number in range(TRIES):
        for _ in range(ACTIONS):
            for tree in trees.values():
                tree.act()
        for name, tree in trees.items():

            def seen(name: str = name, tree: Tree = tree) -> bool:
                return listed(client, name) == tree.scan()

            try:
                wait_until(seen)
            except AssertionError:
                raise AssertionError((number, name, listed(client, name), tree.scan())) from None
