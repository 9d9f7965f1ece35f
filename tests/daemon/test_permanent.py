"""`permanent` leaves nothing behind: random lives of sessions in every format with unique words, deleted for ever; then
every file of the daemon is searched, byte by byte. The daemon is a real one; it is also killed midway.
"""

from __future__ import annotations

import base64
import random
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from sessiond.index.chunks import decompress
from tests.home import Client, Home
from tests.suite.explore import seeds

FORMATS = ("jsonl", "cortex", "amacs", "agent-q", "theia", "sibyl")
SEEDS = seeds(few=1, usual=1)
_LETTERS = "bcdfghjkmnpqrstvwxz"


class Life:
    """One session, and what was ever said in it. `kept`: words that another session has by right."""

    def __init__(self, rng: random.Random, client: Client, home: Home, fmt: str, number: int) -> None:
        self.rng, self.client, self.home, self.fmt = rng, client, home, fmt
        self.words: set[str] = set()
        self.kept: set[str] = set()
        self.id = f"{fmt}/s{number}" if fmt != "jsonl" else f"s{number}"
        self.streamed = 0
        self.alive = True
        words = {"name": self.word(), "tags": [self.word()], "metadata": {self.word(): self.word()}}
        self.call("session/new", sessionId=f"s{number}", store=None if fmt == "jsonl" else fmt, **words)

    def call(self, method: str, **params: Any) -> Any:
        return self.client.call(method, **params)

    def info(self) -> dict[str, Any]:
        told: dict[str, Any] = self.call("session/open", sessionId=self.id)["session"]
        self.call("session/close", sessionId=self.id)
        return told

    def word(self) -> str:
        """A unique word: an identifier, or rare characters."""
        text = "".join(self.rng.choices(_LETTERS, k=12))
        if self.rng.random() < 0.2:
            text = "".join(chr(self.rng.randrange(0x3400, 0x4DB0)) for _ in range(5))
        self.words.add(text)
        return text if self.rng.random() < 0.7 else text.capitalize()

    def said(self, count: int = 1) -> list[dict[str, str]]:
        return [{"role": "user", "content": f"say {self.word()} or {self.word()}"} for _ in range(count)]

    def live(self, steps: int) -> None:
        for _ in range(steps):
            kinds = [
                "append",
                "append",
                "append",
                "save",
                "stream",
                "truncate",
                "clear",
                "rename",
                "state",
                "note",
                "fork",
            ]
            kind = self.rng.choice([*kinds, "restore", "edit", "archive", "find", "bring"])
            if not (self.fmt == "amacs" and kind == "note"):  # there a note belongs to all sessions of the folder
                getattr(self, kind)()
        self.append()  # at least these words nobody else has

    def append(self) -> None:
        self.call("session/append", sessionId=self.id, messages=self.said(self.rng.choice((1, 3, 20))))

    def save(self) -> None:
        self.call("session/save", sessionId=self.id)

    def stream(self) -> None:
        self.streamed += 1
        message_id = f"{self.id.replace('/', '-')}-{self.streamed}"
        begun = {"id": message_id, "role": "assistant", "content": self.word(), "status": "streaming"}
        self.call("session/append", sessionId=self.id, messages=[begun])
        self.call("session/extend", sessionId=self.id, messageId=message_id, text=f" and {self.word()}")
        if self.rng.random() < 0.7:
            self.call("session/finish", sessionId=self.id, messageId=message_id)

    def truncate(self) -> None:
        seq = self.info()["seq"]
        self.call("session/truncate", sessionId=self.id, afterSeq=self.rng.randrange(seq + 1))

    def clear(self) -> None:
        self.call("session/clear", sessionId=self.id)

    def rename(self) -> None:
        self.call("session/update", sessionId=self.id, name=self.word(), tags=[self.word()], summary=self.word())

    def archive(self) -> None:
        self.call("session/update", sessionId=self.id, archived=self.rng.random() < 0.5)

    def state(self) -> None:
        self.call("state/set", sessionId=self.id, values={"plan": self.word()})

    def note(self) -> None:
        self.call("note/append", sessionId=self.id, heading="plan", content=self.word())

    def find(self) -> None:
        self.call("session/search", query=self.rng.choice(sorted(self.words)))

    def fork(self) -> None:
        self.call("session/fork", sessionId=self.id)
        self.kept |= self.words

    def restore(self) -> None:
        self.call("session/delete", sessionId=self.id)
        if self.rng.random() < 0.8:
            self.call("session/restore", sessionId=self.id)
        else:  # another life of the same id
            self.call(
                "session/new", sessionId=self.id.rpartition("/")[2], store=None if self.fmt == "jsonl" else self.fmt
            )
            self.append()

    def bring(self) -> None:
        """An import: the same words come back by a file that is the user's."""
        content = self.call("session/export", sessionId=self.id, format="jsonl")["content"]
        source = self.home.path.parent / "user" / f"{len(self.words)}-{self.rng.random()}.jsonl"
        source.write_text(content)
        store = None if self.fmt == "jsonl" else self.fmt
        for made in self.call("session/import", path=str(source), store=store, format="jsonl")["sessions"]:
            if made["sessionId"] != self.id:
                self.client.call("session/delete", sessionId=made["sessionId"], permanent=True)

    def edit(self) -> None:
        """Another program removes the last lines of the file, or puts strange bytes into it."""
        self.save()
        path = Path(self.info()["path"])
        if self.fmt in ("jsonl", "cortex") and path.exists():
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(
                b"".join(lines[:-1] if len(lines) > 2 else [*lines, b"strange " + self.word().encode() + b"\n"])
            )
            self.info()


def needles(words: set[str]) -> list[bytes]:
    """As the files may have them: as they are, folded, escaped, and in UTF-16. Their ends alone, for a word may stand behind what
    it has in common with the one before it.
    """
    found = []
    for word in sorted(words):
        found += [word.encode(), word.encode("utf-16-le"), word.encode("utf-16-be")]
        if word.isascii():
            found.append(word[3:].encode())
        else:
            found += ["".join(f"\\u{ord(char):04{x}}" for char in word).encode().lower() for x in "xX"]
    return found


def left_in(folders: list[Path], words: set[str]) -> list[str]:
    pattern = re.compile(b"|".join(map(re.escape, needles(words))))
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            if pattern.search(str(path).encode().lower()):
                found.append(str(path))
            if path.is_file():
                data = path.read_bytes()
                for part in (data, data.lower(), *packed(path, data)):
                    hit = pattern.search(part)
                    if hit:
                        found.append(f"{path}: {hit[0]!r} in {part[max(0, hit.start() - 60) : hit.end() + 20]!r}")
    return found


def packed(path: Path, data: bytes) -> list[bytes]:
    """What no search for bytes sees: the compressed texts of the index, and what sidecars hold in base64."""
    parts = []
    if path.name == "index.sqlite3":
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            parts += [decompress(row[0]).lower() for row in db.execute("SELECT data FROM chunk")]
            parts += [str(row).lower().encode() for row in db.execute("SELECT * FROM role")]
        db.close()
    for text in re.findall(rb'"([A-Za-z0-9+/]{40,}=*)"', data):
        if len(text) % 4 == 0:
            parts.append(base64.b64decode(text).lower())
    return parts


class House:
    """A home with a folder of each format, a temporary folder of its own, and one of the user's, which is not searched."""

    def __init__(self, folder: Path) -> None:
        for name in ("home", "tmp", "stores", "user"):
            (folder / name).mkdir()
        self.folders = [folder / name for name in ("home", "tmp", "stores")]
        self.home = Home(folder / "home", env={"TMPDIR": str(folder / "tmp")})
        self.home.start()
        client = self.home.client()
        for fmt in FORMATS[1:]:
            (folder / "stores" / fmt).mkdir()
            client.call("store/adopt", path=str(folder / "stores" / fmt), name=fmt, format=fmt)


@pytest.mark.parametrize("seed", SEEDS)
def test_11_nothing_is_left_of_the_words(tmp_path: Path, seed: int) -> None:
    """Of sessions that were changed in every way, some in the trash already; beside others, which lose nothing."""
    rng = random.Random(seed)
    house = House(tmp_path)
    try:
        client = house.home.client()
        for number, fmt in enumerate(FORMATS):
            life, other = Life(rng, client, house.home, fmt, number), Life(rng, client, house.home, fmt, number + 100)
            other.append()
            life.live(9)
            if rng.random() < 0.3:
                client.call("session/delete", sessionId=life.id)
            client.call("session/delete", sessionId=life.id, permanent=True)
            left = left_in(house.folders, life.words - life.kept)
            assert not left, (fmt, left[:5])
            [first, *_] = client.call("session/read", sessionId=other.id)["messages"]
            assert client.call("session/search", query=first["content"].split()[1])["total"] == 1
    finally:
        house.home.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_11_a_daemon_that_is_killed_in_the_midst_is_asked_again(tmp_path: Path, seed: int) -> None:
    """Whatever the second one answers, nothing is left then."""
    rng = random.Random(f"kill {seed}")
    house = House(tmp_path)
    try:
        for number, fmt in enumerate(rng.sample(FORMATS, 3)):
            client = house.home.client()
            life = Life(rng, client, house.home, fmt, number)
            life.live(6)
            client.send("session/delete", {"sessionId": life.id, "permanent": True})
            until = time.monotonic() + rng.choice((0.0, 0.003, 0.01, 0.03))
            while time.monotonic() < until:
                pass
            house.home.kill()
            house.home.forget_clients()
            house.home.start()
            client = house.home.client()
            answer = client.answer(client.send("session/delete", {"sessionId": life.id, "permanent": True}))
            assert "result" in answer or answer["error"]["data"]["kind"] == "sessionNotFound", answer
            left = left_in(house.folders, life.words - life.kept)
            assert not left, (fmt, left[:5])
    finally:
        house.home.stop()


def test_11_an_earlier_state_of_a_living_session_goes_for_ever(tmp_path: Path) -> None:
    """What was truncated is in the trash by itself, and in the journal with what the session still says."""
    house = House(tmp_path)
    try:
        client = house.home.client()
        client.call("session/new", sessionId="a", messages=[{"role": "user", "content": "kept"}])
        seq = client.call("session/open", sessionId="a")["session"]["seq"]
        client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "xqzjvkwpdhgb"}])
        client.call("session/truncate", sessionId="a", afterSeq=seq)
        [entry] = client.call("session/list", filter={"deleted": True})["sessions"]
        client.call("session/delete", sessionId=entry["sessionId"], permanent=True)
        assert not left_in(house.folders, {"xqzjvkwpdhgb"})
        assert [one["content"] for one in client.call("session/read", sessionId="a")["messages"]] == ["kept"]
    finally:
        house.home.stop()
