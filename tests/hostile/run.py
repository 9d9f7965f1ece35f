"""Runs one life: a daemon, clients, an adversary; then everything is repaired, and all words are searched for."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.home import Client
from tests.hostile.clients import ANSWER_S, Writer
from tests.hostile.ground import Ground
from tests.hostile.harm import Somebody, Undo, standing_still
from tests.hostile.ledger import Ledger, words_below
from tests.hostile.plan import Life, Step
from tests.zygote import ForkedHome, Zygote

STEP_S = 0.1
"""How long the answers before a step are waited for: refused or not, life continues."""
SETTLE_S = 60.0
NOTICED = ("sessionNotFound", "badFile")
"""Errors of a request that opens a session which say that its files were looked at."""


class Runner:
    def __init__(self, zygote: Zygote, plan: Life, *, mounts: bool) -> None:
        self.plan = plan
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="sd-")))
        self.ground = Ground(self.folder, plan, mounts=mounts)
        self.ledger = Ledger()
        self.somebody = Somebody(plan.seed, self.ground, self.ledger)
        self.home = ForkedHome(zygote, self.ground.home, self.ground.config)
        self.up = threading.Event()
        self.writers = [
            Writer(number, plan.seed, self.home, self.ground, self.ledger, self.up) for number in range(plan.clients)
        ]
        self.undos: list[tuple[int, Undo]] = []
        self.keeper: Client | None = None
        self.stops = 0

    def live(self) -> list[str]:
        """Returns what went wrong. The folder is removed if nothing did."""
        faults = self.ledger.faults
        try:
            self._live()
        except (AssertionError, OSError, ValueError) as error:
            ended = self.home.process.poll() if self.home.process is not None else None
            faults.append(f"BROKEN {error!r}, the daemon's end is {ended}")
        finally:
            self._end_clients()
            with contextlib.suppress(AssertionError):
                self.home.kill()
            faults += self._in_log()
            if faults:  # to be looked at; mounts may go with their namespace
                shutil.copytree(self.ground.home, self.folder / "home-kept", symlinks=True, ignore=_no_pipes)
            self.ground.unmount()
        if not faults:
            shutil.rmtree(self.folder)
        return [f"{fault}  [{self.folder}]" for fault in faults]

    def _live(self) -> None:
        self._start()
        for writer in self.writers:
            writer.start()
        for step in self.plan.steps:
            self._wait(step.answers)
            self._step(step)
            if any(fault.startswith(("HUNG", "DIED")) for fault in self.ledger.faults):
                return
        self._end_clients()
        self._put_right(last=True)
        self._settle()
        self._end("stop")
        self._start()
        self._follow_the_doctor()
        there = self._everything()
        self._end("stop")
        self._doctor("--repair")
        self.ledger.judge(there, words_below(self.ground.trash))
        self._doctor(at_rest=True)
        self.ledger.faults += self.ground.changed()

    def _end_clients(self) -> None:
        for writer in self.writers:
            writer.over = True
        for writer in self.writers:
            if writer.is_alive():
                writer.join(ANSWER_S + 5)

    def _wait(self, answers: int) -> None:
        wanted, deadline = self.ledger.answers + answers, time.monotonic() + STEP_S
        while self.ledger.answers < wanted and time.monotonic() < deadline:
            time.sleep(0.001)

    # Steps

    def _step(self, step: Step) -> None:
        if step.what in ("kill", "stop"):
            self._end(step.what)
            self._start()
        elif step.what == "ask":
            self._ask()
        elif step.what == "doctor":
            self._doctor()
        else:
            with standing_still(self._pid()):
                self._hear()
                undo = self.somebody.do(step, runs=self._pid() is not None)
            if undo is not None:
                self.undos.append((step.number + step.lasts, undo))
        self._put_right(step.number)

    def _put_right(self, number: int = 0, *, last: bool = False) -> None:
        """What is due. At the end all of it: what is in something that is not right comes after that."""
        for _ in range(len(self.undos) + 1):
            for one in reversed(list(self.undos)):
                if last or one[0] <= number:
                    with standing_still(self._pid()):
                        self._hear()
                        if one[1]():
                            self.undos.remove(one)
        assert not last or not self.undos, "something cannot be put right"

    def _pid(self) -> int | None:
        process = self.home.process
        return process.pid if process is not None and process.poll() is None else None

    # The daemon

    def _start(self) -> None:
        self.home.process = self.home.spawn()
        self.ledger.done.append(f"start ({self.home.process.pid})")
        self.keeper = Client(self.home.connect(ANSWER_S))
        self._ask()
        self.up.set()

    def _end(self, how: str) -> None:
        self.up.clear()
        process = self.home.process
        assert process is not None
        if process.poll() is not None:
            self.ledger.fault(f"DIED by itself: {process.poll()}")
        if how == "kill":
            self.home.kill()
        else:
            process.terminate()
            code = process.wait(SETTLE_S)
            self.home.wait_till_nobody_listens()
            if code != 0:
                self.ledger.fault(f"STOPPED with {code}")
        self.ledger.done.append(f"{how} ({process.pid})")
        self.ledger.ended()
        if self.keeper is not None:
            self.keeper.close()
            self.keeper = None

    # Asking

    def _ask(self) -> None:
        """Have all sessions open, and their files compared."""
        client = self.keeper
        assert client is not None
        asked = {session: client.send("session/open", {"sessionId": session, "last": 1}) for session in self._known()}
        for session, number in asked.items():
            answer = client.answer(number)
            kind = answer["error"]["data"]["kind"] if "error" in answer else None
            if kind is None:
                self.ledger.held.add(session)
            if kind is None or kind in NOTICED:
                self.ledger.noticed(session, read=kind is None)

    def _known(self) -> list[str]:
        with self.ledger.lock:
            return sorted(self.ledger.sessions)

    def _hear(self) -> None:
        """Of sessions that went: nobody has them in memory any more."""
        client = self.keeper
        if client is None:
            return
        for method, params in client.heard_by_now():
            if method == "session/deleted":
                self.ledger.held.discard(params["sessionId"])

    # In the end

    def _settle(self) -> None:
        """All stores are back, and all sessions are saved that can be."""
        client = self.keeper
        assert client is not None
        _until(self._is_there, self._status)
        self._ask()
        for session in self._known():
            answer = self._saved(client, session)
            kind = answer["error"]["data"]["kind"] if "error" in answer else None
            if kind not in (None, *NOTICED):
                self.ledger.fault(f"UNSAVED {session}: {answer['error']}")

    def _saved(self, client: Client, session: str) -> dict[str, Any]:
        """The answer to a save, once the daemon has seen that the folder that went is back: until then its own look may come to
        nothing, and is told.
        """
        deadline = time.monotonic() + SETTLE_S
        while True:
            answer = client.answer(client.send("session/save", {"sessionId": session}))
            if "error" not in answer or answer["error"]["data"]["kind"] != "unavailable" or time.monotonic() > deadline:
                return answer
            time.sleep(0.01)

    def _is_there(self) -> bool:
        """A failed save is reported until another one works."""
        problems = [one["problem"] for one in self._status()["stores"]]
        return all(one is None or one["kind"] == "saveFailed" for one in problems)

    def _status(self) -> dict[str, Any]:
        assert self.keeper is not None
        found: dict[str, Any] = self.keeper.call("daemon/status")
        return found

    def _follow_the_doctor(self) -> None:
        """What cannot be read is moved away, as the error says, until all can be read."""
        moved = 0
        while bad := [one for one in self._known() if self._is_moved_away(one, moved)]:
            moved += len(bad)
            self._end("stop")
            self._start()

    def _is_moved_away(self, session: str, number: int) -> bool:
        """Where it is badFile, the file that its error names."""
        client = self.keeper
        assert client is not None
        answer = client.answer(client.send("session/open", {"sessionId": session}))
        if "error" not in answer or answer["error"]["data"]["kind"] != "badFile":
            return False
        error = answer["error"]
        if not error["data"].get("hint"):
            self.ledger.fault(f"NO HINT {session}: {error}")
        path = Path(error["data"]["path"])
        assert os.path.lexists(path), f"{path} is badFile, and is not there"
        self.somebody.done.append(f"moved away, as told: {path}")
        self.ledger.destroyed(words_below(path), session, "cannot be read", runs=False)
        target = self.folder / "moved-away" / f"{number}-{session.replace('/', '-')}"
        target.parent.mkdir(exist_ok=True)
        shutil.move(path, target)
        return True

    def _everything(self) -> dict[str, list[str]]:
        """All texts of all sessions."""
        client = self.keeper
        assert client is not None
        sessions = set(self._known())
        cursor = None
        while True:
            page = client.call("session/list", limit=1000, **({"cursor": cursor} if cursor else {}))
            if page.get("incomplete"):
                continue
            sessions |= {one["sessionId"] for one in page["sessions"]}
            cursor = page["nextCursor"]
            if cursor is None:
                break
        found: dict[str, list[str]] = {}
        for session in sorted(sessions):
            since, more = 0, True
            while more:
                answer = client.answer(
                    client.send("session/read", {"sessionId": session, "since": since, "limit": 1000})
                )
                if "error" in answer:
                    if answer["error"]["data"]["kind"] != "sessionNotFound":
                        self.ledger.fault(f"UNREAD {session}: {answer['error']}")
                    break
                page = answer["result"]
                found.setdefault(session, []).extend(str(one["content"]) for one in page["messages"])
                since, more = (page["messages"][-1]["seq"] if page["messages"] else 0), page["hasMore"]
        return found

    def _doctor(self, *more: str, at_rest: bool = False) -> None:
        """It ends, and says of each thing that it finds what to do."""
        command = [sys.executable, "-m", "sessiond", "doctor", "--json", *more]
        try:
            done = subprocess.run(
                command, env=self.home.env, capture_output=True, text=True, timeout=ANSWER_S, check=False
            )
        except subprocess.TimeoutExpired:
            self.ledger.fault("HUNG: doctor")
            return
        if "Traceback" in done.stderr or done.returncode not in (0, 1):
            self.ledger.fault(f"DOCTOR ended with {done.returncode}: {done.stderr[-2000:]}")
            return
        for problem in re.findall(r"\{[^{}]*\}", done.stdout):
            if '"problem": null' not in problem and '"problem"' in problem and '"hint": null' in problem:
                self.ledger.fault(f"NO HINT by the doctor: {problem}")
        if at_rest and done.returncode:
            self.somebody.done.append(f"doctor: {done.stdout}")

    def _in_log(self) -> list[str]:
        logs = [self.ground.home / "daemon.err", *(self.ground.home / "log").glob("*")]
        said = "".join(one.read_text(errors="replace") for one in logs if one.is_file())
        return [
            f"TRACEBACK {said[max(0, at.start() - 300) : at.start() + 3000]}"
            for at in list(re.finditer("Traceback", said))[:2]
        ]


def _no_pipes(folder: str, names: list[str]) -> list[str]:
    return [one for one in names if not os.path.isfile(f"{folder}/{one}") and not os.path.isdir(f"{folder}/{one}")]


def _until(condition: Callable[[], bool], shown: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not condition():
        assert time.monotonic() < deadline, f"it does not settle: {shown()}"
        time.sleep(0.01)


def live(zygote: Zygote, plan: Life, *, mounts: bool) -> tuple[list[str], list[str]]:
    """Run a life: what went wrong, and what was done."""
    runner = Runner(zygote, plan, mounts=mounts)
    return runner.live(), runner.somebody.done
