"""What random lives in hostile surroundings found, each reduced to the few steps that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.home import Client
from tests.hostile.__main__ import MODES_COUNT
from tests.hostile.ground import AUTOSAVE
from tests.hostile.ledger import words_below
from tests.zygote import ForkedHome, Zygote

QUIET = AUTOSAVE.replace("interval_s = 0.2", "interval_s = 0").replace("idle_s = 0.03", "idle_s = 0")
"""Nothing is saved by itself."""
MAINS = {
    "jsonl": "a.jsonl", "theia": "a.json", "sibyl": "a/session.lisp", "agent-q": "session-a.el", "amacs": "a.org",
    "cortex": "transcripts/a/transcript.jsonl",
}  # fmt: skip


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """For root, daemons to which modes mean something."""
    made = Zygote(MODES_COUNT if os.geteuid() == 0 and shutil.which("setpriv") else ())
    yield made
    made.close()


class Place(ForkedHome):
    """A home with an adopted folder `disk`, and one session in it."""

    def __init__(self, zygote: Zygote, top: Path, fmt: str) -> None:
        (top / "home").mkdir()
        self.disk = top / "disk"
        self.disk.mkdir()
        config = f'{QUIET}[stores.disk]\npath = "{self.disk}"\nformat = "{fmt}"\n'
        super().__init__(zygote, top / "home", config)
        self.session = "disk/session-a" if fmt == "agent-q" else "disk/a"
        self.main = self.disk / MAINS[fmt]
        self.trash = self.path / "data" / "trash"

    def begin(self) -> Client:
        self.start()
        client = self.client()
        client.call("session/new", sessionId=self.session.partition("/")[2], store="disk")
        return client

    def say(self, client: Client, number: int) -> str:
        word = f"t0x{number}z"
        client.call("session/append", sessionId=self.session, messages=[message(number)])
        return word

    def found(self, client: Client) -> list[str]:
        return [one["content"] for one in client.call("session/read", sessionId=self.session)["messages"]]

    def until_store(self, client: Client, kind: str | None, name: str = "disk", says: str = "") -> None:
        """Wait until `status` says so of a store."""
        while True:
            [one] = [one for one in client.call("daemon/status")["stores"] if one["name"] == name]
            problem = one["problem"] or {"kind": None, "message": ""}
            if problem["kind"] == kind and says in problem["message"]:
                return


def message(number: int) -> dict[str, Any]:
    return {"id": f"m{number}", "role": "user", "content": f"t0x{number}z"}


@pytest.fixture
def place(zygote: Zygote, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    made = Place(zygote, tmp_path, getattr(request, "param", "jsonl"))
    yield made
    made.forget_clients()
    if made.process is not None:
        made.kill()
    subprocess.run(["chmod", "-R", "u+rwx", str(tmp_path)], check=True)


@pytest.mark.parametrize(
    ("place", "how"),
    [("theia", "nonsense"), ("sibyl", "nonsense"), ("agent-q", "folder"), ("cortex", "fifo")],
    indirect=["place"],
)
def test_what_cannot_be_understood_any_more_lies_in_the_trash(place: Place, how: str) -> None:
    """A file is emptied, or something else takes its place, while the session is in memory: what was in it goes into the trash
    once, at the latest when somebody asks for the session, so that kill -9 takes nothing away.
    """
    client = place.begin()
    word = place.say(client, 1)
    client.call("session/save", sessionId=place.session)
    if how == "nonsense":
        os.truncate(place.main, 0)
    else:
        place.main.unlink()
        place.main.mkdir() if how == "folder" else os.mkfifo(place.main)
    for _ in range(3):
        assert client.fails("session/open", sessionId=place.session)["data"]["kind"] == "badFile"
    place.kill()
    assert word in words_below(place.trash)
    assert len(list((place.trash / "disk").iterdir())) == 1


def test_what_waits_for_a_folder_is_not_forgotten_by_whoever_asks_meanwhile(place: Place) -> None:
    """A daemon starts while the folder is away, and a client asks for the session. When the folder is back, what the journal holds
    for the session is in it, and is saved.
    """
    client = place.begin()
    words = [place.say(client, 1)]
    client.call("session/save", sessionId=place.session)
    words.append(place.say(client, 2))
    place.kill()
    place.disk.rename(place.path / "aside")
    place.start()
    client = place.client()
    assert client.fails("session/open", sessionId=place.session)["data"]["kind"] == "unavailable"
    (place.path / "aside").rename(place.disk)
    place.until_store(client, None)
    words.append(place.say(client, 3))
    client.call("session/save", sessionId=place.session)
    place.kill()
    place.start()
    assert place.found(place.client()) == words
    assert set(words) <= words_below(place.main)


def test_the_default_folder_without_its_permission_is_unavailable(place: Place) -> None:
    """The daemon starts, refuses what it cannot do with an error, and continues when the permission is back."""
    client = place.begin()
    client.call("session/new", sessionId="b", messages=[message(1)])
    place.kill()
    sessions = place.path / "data" / "sessions"
    sessions.chmod(0)
    place.start()
    client = place.client()
    for method in ("session/new", "session/open", "session/append"):
        params = {"sessionId": "b", "messages": [message(2)]} if method == "session/append" else {"sessionId": "b"}
        assert client.fails(method, **params)["data"]["kind"] == "unavailable"
    sessions.chmod(0o700)
    place.until_store(client, None, "default")
    client.call("session/append", sessionId="b", messages=[message(2)])
    client.call("session/save")
    assert words_below(sessions) == {"t0x1z", "t0x2z"}


def test_a_folder_that_could_only_be_read_is_written_when_it_can_be(place: Place) -> None:
    """Without a restart; and which store it is was not forgotten: another one in its place is unavailable."""
    client = place.begin()
    words = [place.say(client, 1)]
    client.call("session/save", sessionId=place.session)
    place.kill()
    inner = place.disk / ".sessiond"
    for folder in (inner, place.disk):
        folder.chmod(0o500)
    (inner / "lock").chmod(0o400)
    place.start()
    client = place.client()
    place.until_store(client, "readOnly")
    place.disk.rename(place.path / "aside")
    inner.mkdir(parents=True)
    (inner / "store.json").write_text('{"id": "another", "sessiond": 1}\n')
    place.until_store(client, "unavailable", says="different store")
    place.disk.rename(place.path / "other")
    (place.path / "aside").rename(place.disk)
    place.until_store(client, "readOnly")
    for folder in (place.disk, inner):
        folder.chmod(0o700)
    (inner / "lock").chmod(0o600)
    place.until_store(client, None)
    words.append(place.say(client, 2))
    client.call("session/save", sessionId=place.session)
    assert set(words) == words_below(place.main)


def test_what_a_crash_left_on_a_disk_that_can_only_be_read_keeps_no_daemon_from_starting(place: Place) -> None:
    """A temporary file of ours remains where it is; the folder is served."""
    client = place.begin()
    words = [place.say(client, 1)]
    client.call("session/save", sessionId=place.session)
    place.kill()
    (place.disk / ".a.jsonl.sessiond-01234567.new").touch()
    place.disk.chmod(0o500)
    place.start()
    assert place.found(place.client()) == words


def test_a_side_folder_without_its_permission_hides_no_other_session(place: Place) -> None:
    """`.sessiond` cannot be looked into: sessions are listed, the log has no stack."""
    client = place.begin()
    place.say(client, 1)
    client.call("session/save", sessionId=place.session)
    place.kill()
    (place.disk / ".sessiond").chmod(0)
    place.start()
    client = place.client()
    assert client.fails("session/open", sessionId=place.session)["data"]["kind"] in ("badFile", "unavailable")
    place.kill()
    assert "Traceback" not in (place.path / "daemon.err").read_text()


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("place", ["amacs"], indirect=True)
def test_a_copy_beside_a_file_that_was_removed_goes_into_the_trash(place: Place, waits: bool) -> None:
    """A message that its format has no place for stands next to the file alone. Somebody removes the file while no daemon
    runs: whoever asks for the session, or makes one of its name, does not have those words removed for good. The id is free
    at once, also where something `waits` in the journal to be saved; or the session is there again, where kill -9 came
    before the journal was told that it had been saved.
    """
    client = place.begin()
    wire = {"id": "m1", "role": "tool", "content": "t0x1z", "toolCallId": "c"}
    client.call("session/append", sessionId=place.session, messages=[wire])
    client.call("session/save", sessionId=place.session)
    later = [place.say(client, 2)] if waits else []
    place.kill()
    assert "t0x1z" in words_below(place.disk / ".sessiond")
    place.main.unlink()
    place.start()
    client = place.client()
    answer = client.answer(client.send("session/new", {"sessionId": "a", "store": "disk"}))
    if "error" in answer:
        assert answer["error"]["data"]["kind"] == "alreadyExists"
        assert place.found(client) == ["t0x1z", *later]
    else:
        assert {"t0x1z", *later} <= words_below(place.trash)


@pytest.mark.parametrize("place", ["theia"], indirect=True)
def test_what_waits_for_a_file_that_cannot_be_read_outlives_its_deletion(place: Place) -> None:
    """After a restart the file is badFile and the journal has a message for it. Deleted, both are in the trash."""
    client = place.begin()
    saved = place.say(client, 1)
    client.call("session/save", sessionId=place.session)
    waits = place.say(client, 2)
    place.kill()
    os.truncate(place.main, place.main.stat().st_size // 2)
    place.start()
    client = place.client()
    assert client.fails("session/open", sessionId=place.session)["data"]["kind"] == "badFile"
    client.call("session/delete", sessionId=place.session)
    assert waits in words_below(place.trash), saved


@pytest.mark.parametrize("place", ["sibyl"], indirect=True)
def test_a_restore_of_a_file_that_cannot_be_read_takes_nothing_out_of_the_trash(place: Place) -> None:
    """Deleted while somebody had just cut the file, restored, and badFile: what was in memory is still in the trash."""
    client = place.begin()
    word = place.say(client, 1)
    client.call("session/save", sessionId=place.session)
    os.truncate(place.main, place.main.stat().st_size - 3)
    numbers = [client.send(f"session/{what}", {"sessionId": place.session}) for what in ("delete", "restore", "open")]
    for number in numbers:
        client.answer(number)
    place.kill()
    assert word in words_below(place.trash)


def test_an_id_is_not_taken_from_a_session_that_somebody_removed_a_moment_ago(place: Place) -> None:
    """The file is gone, the session is in memory, and the next request makes one of its name: the old one is in the trash."""
    client = place.begin()
    word = place.say(client, 1)
    client.call("session/save", sessionId=place.session)
    place.main.unlink()
    answer = client.answer(client.send("session/new", {"sessionId": "a", "store": "disk"}))
    assert "result" in answer or answer["error"]["data"]["kind"] == "alreadyExists"
    place.kill()
    assert word in words_below(place.trash)


@pytest.mark.parametrize("place", ["theia", "sibyl"], indirect=True)
def test_a_delete_that_fails_does_not_make_an_emptied_file_the_session(place: Place) -> None:
    """Somebody empties the file, something more is said, and the folder cannot be written while the session is to be deleted. The next
    save neither takes the empty file for the session nor the copy out of the trash.
    """
    client = place.begin()
    words = {place.say(client, 1)}
    client.call("session/save", sessionId=place.session)
    os.truncate(place.main, 0)
    words.add(place.say(client, 2))
    place.main.parent.chmod(0o555)
    assert client.fails("session/delete", sessionId=place.session)["data"]["kind"] == "readOnly"
    place.main.parent.chmod(0o755)
    assert client.fails("session/save", sessionId=place.session)["data"]["kind"] == "badFile"
    place.kill()
    place.start()
    place.client().fails("session/open", sessionId=place.session)
    place.main.rename(place.path / "moved-away")
    place.client().fails("session/open", sessionId=place.session)
    place.kill()
    assert words <= words_below(place.trash)


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("place", ["amacs"], indirect=True)
def test_what_only_a_damaged_sidecar_has_is_not_written_over(place: Place, runs: bool) -> None:
    """Messages that their format has no place for stand next to the file alone. Somebody truncates that: what a daemon has
    in memory it writes again, and otherwise the next save puts the damaged file into the trash first.
    """
    client = place.begin()
    for number in (1, 2):
        wire = {"id": f"m{number}", "role": "tool", "content": f"t0x{number}z", "toolCallId": "c"}
        client.call("session/append", sessionId=place.session, messages=[wire])
    client.call("session/save", sessionId=place.session)
    if not runs:
        # After this the journal knows that all is saved, and brings nothing back.
        client.call("session/new", sessionId="elsewhere")
        place.kill()
    beside = place.disk / ".sessiond" / "a.json"
    os.truncate(beside, beside.stat().st_size - 20)
    if not runs:
        place.start()
        client = place.client()
    client.call("session/open", sessionId=place.session)
    if not runs:
        place.say(client, 3)
    client.call("session/save", sessionId=place.session)
    place.kill()
    assert {"t0x1z", "t0x2z"} <= words_below(beside if runs else place.trash)
    place.start()
    assert ("t0x2z" in place.found(place.client())) == runs
