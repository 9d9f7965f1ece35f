"""Every request of the protocol has its order in the table of methods, and all pairs, sent in one write, have the same
effect as one by one.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sessiond.rpc.handlers  # noqa: F401  (it fills the table)
from sessiond.rpc.methods import METHODS
from tests.order.conftest import STILL
from tests.order.pipeline import Pipeline, ids, kinds, on, user
from tests.order.walk import APART, PATIENCE_S, ROWS, Twins, Walker, in_bursts, make, twins, until_indexed
from tests.zygote import ForkedHome, Zygote

CONFIG = """\
[stores.other]
path = "{other}"
format = "jsonl"
[limits]
idle_session_s = 900
idle_sessions_bytes = 1073741824
"""
GLANCED = "glanced_file_bytes = 65536\nglanced_end_bytes = 32768\n"
"""So that a session of 70 KiB is read as one of 4 MiB is: its end first."""
ALL = list(itertools.product(ROWS, ROWS))
BEGIN = ("new", "new, id made", "import", "restore")
"""What may come first to an id that nobody has."""
LARGE = ("open", "append", "clear", "truncate", "save", "delete")
"""Reading, changing and removing, for sessions that cost four megabytes each."""
ORDERS = ("session", "after", "barrier", "free")

pytestmark = pytest.mark.timeout(400)


class House:
    """A home for the sessions of one walk."""

    def __init__(self, zygote: Zygote, path: Path, limits: str = "") -> None:
        self._path = path
        self._seq = 0
        for name in ("h", "other", "elsewhere"):
            (path / name).mkdir(parents=True)
        self._elsewhere = path / "elsewhere"
        self.home = ForkedHome(zygote, path / "h", STILL + CONFIG.format(other=path / "other") + limits)
        self.home.start()

    def connect(self) -> Pipeline:
        client = Pipeline(self.home, PATIENCE_S)
        self.home._clients.append(client)
        return client

    def place(self, walked: list[Twins]) -> None:
        """Put small sessions where the daemon finds them at its next start."""
        maker = self.connect()
        self._seq = make(maker, ["t00000t"])
        self.home.forget_clients()
        self.home.stop()
        folder = self.home.path / "data" / "sessions"
        content = (folder / "t00000t.jsonl").read_bytes()
        for session in sessions(walked):
            (folder / f"{session}.jsonl").write_bytes(content.replace(b"t00000t", session.encode()))

    def make(self, walked: list[Twins], count: int, size: int) -> None:
        """Have long sessions written by the daemon, and stop it."""
        self._seq = make(self.connect(), sessions(walked), count, size)
        self.home.forget_clients()
        self.home.stop()

    def walk(self, walked: list[Twins], first: Callable[[Pipeline, list[str]], object] | None = None) -> list[str]:
        """Start the daemon, do `first` with all sessions, then walk and compare. What is wrong."""
        self.home.start()
        client = self.connect()
        until_indexed(client)
        if first is not None:
            first(client, sessions(walked))
        walker = Walker(client, self._seq, self._elsewhere)
        walker.walk(walked)
        return walker.compare(walked)

    def end(self) -> None:
        self.home.forget_clients()
        self.home.kill()
        shutil.rmtree(self._path)


def sessions(walked: list[Twins]) -> list[str]:
    return [session for one in walked for session in (one.piped, one.plain)]


def check(wrong: list[str]) -> None:
    if wrong:
        names = "; ".join(report.splitlines()[0].removeprefix("=== ") for report in wrong)
        pytest.fail(f"{len(wrong)} pairs: {names}\n" + "\n".join(wrong), pytrace=False)


@pytest.fixture
def build(zygote: Zygote) -> Iterator[Callable[..., House]]:
    """Makes a house; the one before it goes. What is on a disk is not what these tests are about, so they are in memory
    where that can be.
    """
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="sd-", dir=memory if memory.is_dir() else None))
    houses: list[House] = []

    def make(limits: str = "") -> House:
        if houses:
            houses[-1].end()
        houses.append(House(zygote, folder / str(len(houses)), limits))
        return houses[-1]

    yield make
    if houses:
        houses[-1].end()
    shutil.rmtree(folder)


def of_each(method: str, **params: bool) -> Callable[[Pipeline, list[str]], object]:
    return lambda client, names: list(in_bursts(client, [on(name, method, **params) for name in names]))


def test_every_request_is_in_the_table() -> None:
    """Every method says what it may overtake, and each that is not free to is in a row of the walk, or has a test of its own."""
    assert {method.order for method in METHODS.values()} <= set(ORDERS)
    bound = {name for name, method in METHODS.items() if method.order != "free"}
    assert bound == {method for method, _ in ROWS.values()} | set(APART)
    assert {name for name, method in METHODS.items() if method.order == "barrier"} == {"session/import", "store/adopt"}
    assert {name for name, method in METHODS.items() if method.order == "free"} == {
        "daemon/hello", "daemon/status", "daemon/acknowledge", "daemon/listen", "daemon/reindex", "daemon/stop",
        "session/ask", "session/answer", "session/follow",
    }  # fmt: skip


def test_pairs_on_a_loaded_session(build: Callable[..., House]) -> None:
    """All pairs, on sessions that were read just before."""
    house, walked = build(), twins(ALL)
    house.place(walked)
    check(house.walk(walked, of_each("session/read")))


def test_pairs_on_a_session_that_is_not_loaded(build: Callable[..., House]) -> None:
    """All pairs, the first request of which is the first that anybody sends about the session."""
    house, walked = build(), twins(ALL)
    house.place(walked)
    check(house.walk(walked))


def test_pairs_on_a_session_that_is_read_in_two_steps(build: Callable[..., House]) -> None:
    """All pairs, on sessions that are not loaded and long enough that their end is read first (here from 64 KiB on)."""
    house, walked = build(GLANCED), twins(ALL)
    house.make(walked, 8, 9000)
    check(house.walk(walked))


def test_pairs_on_a_large_session(build: Callable[..., House]) -> None:
    """Pairs of what reads, changes and removes, on sessions of more than 4 MiB that are not loaded."""
    wrong = []
    for first in LARGE:  # one after another, so that they need no gigabyte
        house, walked = build(), twins((first, second) for second in LARGE)
        house.make(walked, 90, 50_000)
        wrong += house.walk(walked)
    check(wrong)


def test_pairs_on_a_session_that_is_not_there(build: Callable[..., House]) -> None:
    """Pairs that begin with what makes a session."""
    house, walked = build(), twins(itertools.product(BEGIN, ROWS))
    house.place(walked)
    check(house.walk(walked, of_each("session/delete", permanent=True)))


def test_pairs_on_a_session_in_the_trash(build: Callable[..., House]) -> None:
    """Pairs that begin with what makes a session, or empties the trash of it."""
    house, walked = build(), twins(itertools.product((*BEGIN, "delete for ever"), ROWS))
    house.place(walked)
    check(house.walk(walked, of_each("session/delete")))


def test_an_adoption_holds_up_what_comes_after_it(connect: Callable[[], Pipeline], tmp_path: Path) -> None:
    """Requests that name the new store, in one write with its `store/adopt`, find it."""
    client = connect()
    for number in range(5):
        folder, store = tmp_path / f"f{number}", f"f{number}"
        folder.mkdir()
        (folder / "a.jsonl").write_text('{"sessiond":1,"id":"a","createdAt":"2026-01-11T14:30:22.000Z"}\n')
        answers = client.burst(
            ("store/adopt", {"path": str(folder), "name": store, "format": "jsonl"}),
            on(f"{store}/a", "session/append", messages=[user("m1")]),
            ("session/new", {"sessionId": "b", "store": store, "name": f"of {store}"}),
            on(f"{store}/a", "session/read"),
            ("session/list", {"filter": {"store": store}}),
        )
        assert kinds(answers) == ["ok"] * 5
        assert ids(answers[3]["result"]["messages"]) == ["m1"]
        assert {one["sessionId"] for one in answers[4]["result"]["sessions"]} == {f"{store}/a", f"{store}/b"}


def test_a_backup_holds_what_came_before_it(connect: Callable[[], Pipeline], tmp_path: Path) -> None:
    """A `daemon/backup` in one write with appends has them, in a file or in its journal."""
    client = connect()
    client.call("session/new", sessionId="a")
    for number in range(5):
        copy = tmp_path / f"copy{number}"
        answers = client.burst(
            on("a", "session/append", messages=[user(f"m{number}")]),
            on(f"b{number}", "session/new", messages=[user(f"n{number}")]),
            ("daemon/backup", {"path": str(copy)}),
        )
        assert kinds(answers) == ["ok"] * 3
        content = b"".join(path.read_bytes() for path in copy.rglob("*") if path.is_file())
        assert f'"m{number}"'.encode() in content
        assert f'"n{number}"'.encode() in content
