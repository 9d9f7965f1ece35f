"""Agent-Q's files and a real Emacs: its system reads what the daemon writes, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond.formats import agent_q
from sessiond.formats.sexp import Dialect, read
from sessiond.formats.sexp_values import SexpText
from sessiond.model.session import Session
from sessiond.model.values import epoch_ms, timestamp
from tests.formats.lisp_sessions import NASTY, load, message, plain, save, session_of, sessions, written
from tests.programs import need, run

SYSTEM = Path(__file__).parent / "systems" / "agent-q.el"
UTF8 = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}


def emacs(call: str, *, env: dict[str, str] | None = None) -> None:
    run([need("emacs"), "-Q", "--batch", "-l", str(SYSTEM), "--eval", call], env=env or UTF8)


def lisp(path: Path) -> str:
    return f'"{path}"'


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def report(folder: Path, *, env: dict[str, str] | None = None) -> list[dict[str, Any]]:
    out = folder / "report.json"
    emacs(f"(aq-report {lisp(folder)} {lisp(out)})", env=env)
    found: list[dict[str, Any]] = json.loads(out.read_text("utf-8"))
    out.unlink()
    return found


def as_json(printed: str) -> Any:
    return SexpText(printed, Dialect.EMACS).json(read(printed, Dialect.EMACS))


def check_report(told: dict[str, Any], session: Session) -> None:
    """Emacs' report of a session agrees with the session."""
    assert told["id"] == session.local_id
    assert (told["name"], told["model"]) == (session.name, session.model)
    assert (told["created"], told["updated"]) == (epoch_ms(session.created_at), epoch_ms(session.updated_at))
    assert [one["content"] for one in told["messages"]] == [one.text() for one in session.messages()]
    assert [one["time"] for one in told["messages"]] == [epoch_ms(one.timestamp) for one in session.messages()]
    assert [one["id"] for one in told["messages"]] == [one.id for one in session.messages()]
    if session.name:
        assert told["listed"][0] is not None
        assert "\n" not in told["listed"][0]


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_emacs_reads_what_we_write(tmp_path: Path, locale: str) -> None:
    """Every text that a message can hold is the same text in Emacs, whatever its locale."""
    conversation = [message(n, ["user", "assistant"][n % 2], text) for n, text in enumerate(NASTY, 1)]
    session = session_of(
        *conversation, name='Auth "bug"\nLocal Variables:', model="claude-sonnet-4-5", metadata={"a": [1, {"b": "ü"}]}
    )
    put(tmp_path, save(agent_q, session))
    (told,) = report(tmp_path, env={"LC_ALL": locale, "TZ": "UTC"})
    check_report(told, session)
    assert told["listed"] == ['Auth "bug" Local  Variables:', "2026-01-11 14:40:00"]
    assert as_json(told["metadata"]) == session.metadata


def test_emacs_reads_any_session_of_ours(tmp_path: Path) -> None:
    """Emacs takes whatever sessions there can be, and sees their metadata and tool calls as data."""
    wanted: list[Session] = []

    @settings(max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(session=sessions(), number=st.integers(0, 10**9))
    def collect(session: Session, number: int) -> None:
        session.local_id = f"session-{len(wanted):03d}"
        wanted.append(session)

    collect()
    for session in wanted:
        put(tmp_path, save(agent_q, session))
    told = {one["id"]: one for one in report(tmp_path)}
    assert len(told) == len(wanted)
    for session in wanted:
        check_report(told[session.local_id], session)
        files = {agent_q.main_path(session.local_id): save(agent_q, session)[agent_q.main_path(session.local_id)]}
        seen = load(agent_q, files, session.local_id).session.messages()
        for mine, theirs in zip(seen, told[session.local_id]["messages"], strict=True):
            shown = as_json(theirs["metadata"]) or {}
            assert (shown.get("tool-calls") is not None) == bool(mine.tool_calls)
            assert {key: one for key, one in shown.items() if key != "tool-calls"} == mine.metadata


def test_what_emacs_writes_is_adopted(tmp_path: Path) -> None:
    """A folder that the system made itself is read completely, and a save without a change leaves every byte."""
    # Raw NUL and ESC would make Emacs guess another encoding of what it wrote itself; its JSON reader takes no NUL.
    texts = [one for one in NASTY if not set(one) & set("\0\x1b")]
    wires = [
        {"id": f"2026011114{n:04d}-a1b2", "role": ["user", "assistant"][n % 2], "content": text, "time": 1_768_142_400_000 + n * 1001,
         "metadata": "(:tool-calls ((:id \"c1\" :name \"grep\" :arguments (:pattern \"x\"))) :tokens 12)" if n == 1 else "nil"}
        for n, text in enumerate(texts)
    ]  # fmt: skip
    plan = [
        {
            "id": "session-20260111-143022",
            "name": "Auth 調査",
            "model": "m",
            "created": 1_768_142_400_123,
            "messages": wires,
        }
    ]
    (tmp_path / "plan.json").write_text(json.dumps(plan), "utf-8")
    emacs(f"(aq-create {lisp(tmp_path / 'plan.json')} {lisp(tmp_path)})")
    files = {name: data for name, data in files_of(tmp_path).items() if name.endswith(".el")}
    assert agent_q.find(files) == {"session-20260111-143022": "session-20260111-143022.el"}
    decoded = load(agent_q, files)
    session = decoded.session
    assert decoded.problems == []
    assert decoded.renumbered
    assert (session.name, session.model, session.created_at) == ("Auth 調査", "m", timestamp(1_768_142_400_123))
    assert [one.text() for one in session.messages()] == texts
    assert [one.id for one in session.messages()] == [one["id"] for one in wires]
    assert [one.seq for one in session.messages()] == list(range(1, len(texts) + 1))
    assert [epoch_ms(one.timestamp) for one in session.messages()] == [one["time"] for one in wires]
    assert session.messages()[1].tool_calls == [{"id": "c1", "name": "grep", "arguments": {"pattern": "x"}}]
    assert session.messages()[1].metadata == {"tokens": 12}
    adopted = written(files, agent_q.adopt_numbering(decoded, files))
    assert [write.path for write in agent_q.encode(session, adopted)] in (
        [],
        [".sessiond/session-20260111-143022.json"],
    )


def test_both_write_in_turns(tmp_path: Path) -> None:
    """The daemon and Emacs add to the same file in turns: no message is lost, and the order is that of the conversation."""
    session = session_of(message(1), message(2, "assistant", "hi\n\x1b"), name="turns")
    put(tmp_path, save(agent_q, session))
    for turn in range(3):
        add = [
            {
                "id": f"emacs-{turn}",
                "role": "user",
                "content": f"from Emacs {turn} 日本",
                "time": 1_768_150_000_000 + turn * 2000,
            }
        ]
        (tmp_path / "plan.json").write_text(json.dumps([{"id": session.local_id, "messages": add}]), "utf-8")
        emacs(f"(aq-resave {lisp(tmp_path / 'plan.json')} {lisp(tmp_path)})")
        (tmp_path / "plan.json").unlink()
        decoded = load(agent_q, files_of(tmp_path))
        assert not decoded.incomplete
        session = decoded.session
        put(tmp_path, written({}, agent_q.adopt_numbering(decoded, files_of(tmp_path))))
        session.add_message(message(session.seq + 1, "assistant", f"from us {turn}", metadata={"k": [turn]}))
        put(tmp_path, save(agent_q, session, files_of(tmp_path)))
    texts = [
        "text 1",
        "hi\n\x1b",
        *[text for turn in range(3) for text in (f"from Emacs {turn} 日本", f"from us {turn}")],
    ]
    assert [one.text() for one in session.messages()] == texts
    assert plain(load(agent_q, files_of(tmp_path)).session) == plain(session)
    check_report(report(tmp_path)[0], session)


def test_an_old_copy_from_emacs_memory_costs_nothing(tmp_path: Path) -> None:
    """Emacs saves what it loaded before the daemon continued: the daemon's newer messages, and the new name, are put back."""
    session = session_of(message(1), message(2, "assistant"), name="old name", tags=["kept"])
    put(tmp_path, save(agent_q, session))
    stale = tmp_path / "stale"
    put(stale, {name: data for name, data in files_of(tmp_path).items() if name.endswith(".el")})
    session.add_message(message(3, "user", "newer", thinking="hm"))
    session.name = "new name"
    put(tmp_path, save(agent_q, session, files_of(tmp_path)))
    add = [{"id": "emacs-1", "role": "user", "content": "also newer", "time": 1_768_150_000_000}]
    (stale / "plan.json").write_text(json.dumps([{"id": session.local_id, "messages": add}]), "utf-8")
    emacs(f"(aq-resave {lisp(stale / 'plan.json')} {lisp(stale)})")
    files = {**{name: data for name, data in files_of(tmp_path).items() if not name.startswith("stale")},
        agent_q.main_path(session.local_id): (stale / agent_q.main_path(session.local_id)).read_bytes()}  # fmt: skip
    decoded = load(agent_q, files)
    assert decoded.incomplete
    assert [one.text() for one in decoded.session.messages()] == ["text 1", "text 2", "newer", "also newer"]
    assert (decoded.session.name, decoded.session.tags) == ("new name", ["kept"])
    assert decoded.session.messages()[2].rest == {"thinking": "hm"}
    mended = save(agent_q, decoded.session, files)
    again = load(agent_q, mended)
    assert not again.incomplete
    assert plain(again.session) == plain(decoded.session)
