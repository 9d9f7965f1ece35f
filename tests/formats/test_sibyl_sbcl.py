"""sibyl's files and a real SBCL: its system reads what the daemon writes, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings

from sessiond.formats import sibyl
from sessiond.formats.sexp import Dialect, read
from sessiond.formats.sexp_print import string
from sessiond.formats.sexp_values import SexpText
from sessiond.model.session import Session
from sessiond.model.values import epoch_ms, timestamp
from tests.formats.lisp_sessions import NASTY, load, message, plain, save, session_of, sessions, written
from tests.programs import need, run

SYSTEM = Path(__file__).parent / "systems" / "sibyl.lisp"
UNIVERSAL = 2_208_988_800
ID = "session-20260111-143022"


def sbcl(*arguments: str) -> None:
    run([need("sbcl"), "--script", str(SYSTEM), *arguments], env={"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"})


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def report(folder: Path, *ids: str) -> list[dict[str, Any]]:
    out = folder / "report.json"
    sbcl("report", str(folder), str(out), *ids)
    found: list[dict[str, Any]] = json.loads(out.read_text("utf-8"))
    out.unlink()
    return found


def arguments_of(printed: str) -> Any:
    return SexpText(printed, Dialect.COMMON).json(read(printed, Dialect.COMMON))


def check_report(told: dict[str, Any], session: Session) -> None:
    """SBCL's report of a session agrees with the session, except for the system messages."""
    shown = [one for one in session.messages() if one.role.lower() != "system"]
    assert told["id"] == session.local_id
    assert told["summary"] == session.summary
    assert told["created"] == max(0, epoch_ms(session.created_at) // 1000 + UNIVERSAL)
    assert [one["content"] for one in told["messages"]] == [one.text() for one in shown]
    assert [one["time"] for one in told["messages"]] == [
        max(0, epoch_ms(one.timestamp) // 1000 + UNIVERSAL) for one in shown
    ]
    for theirs, mine in zip(told["messages"], shown, strict=True):
        assert theirs["answers"] == mine.rest.get("toolCallId")
        assert [(call["id"], call["name"]) for call in theirs["calls"]] == [
            (call["id"], call["name"]) for call in mine.tool_calls
        ]


def test_sbcl_reads_what_we_write(tmp_path: Path) -> None:
    """Every text that a message can hold is the same text in SBCL, and arguments are an association list."""
    conversation = [message(n, ["user", "assistant"][n % 2], text) for n, text in enumerate(NASTY, 1)]
    arguments = {"path": 'a"b', "line": 3, "ratio": 0.1, "all": True, "多": ["x", {"y": 1}]}
    conversation.append(message(99, "assistant", "", toolCalls=[{"id": "c1", "name": "grep", "arguments": arguments}]))
    conversation.append(message(100, "tool", "found", toolCallId="c1"))
    conversation.append(message(101, "system", "never in the file"))
    session = session_of(*conversation, summary='Über "das"')
    put(tmp_path, save(sibyl, session))
    assert b"never in the file" not in (tmp_path / sibyl.main_path(ID)).read_bytes()
    (told,) = report(tmp_path, ID)
    check_report(told, session)
    assert told["messages"][-2]["role"] == "assistant"
    assert arguments_of(told["messages"][-2]["calls"][0]["arguments"]) == arguments


def test_sbcl_reads_any_session_of_ours(tmp_path: Path) -> None:
    """SBCL takes whatever sessions there can be."""
    wanted: list[Session] = []

    @settings(max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(session=sessions())
    def collect(session: Session) -> None:
        session.local_id = f"session-{len(wanted):03d}"
        wanted.append(session)

    collect()
    for session in wanted:
        put(tmp_path, save(sibyl, session))
    told = report(tmp_path, *(one.local_id for one in wanted))
    for one, session in zip(told, wanted, strict=True):
        check_report(one, session)


def plan_of(*messages: str) -> str:
    return " ".join(messages)


def form(role: str, text: str, at: int, more: str = "") -> str:
    return f"(:role :{role} :content {string(text, Dialect.COMMON)} :timestamp {at} {more})"


def test_what_sbcl_writes_is_adopted(tmp_path: Path) -> None:
    """A folder that the system made itself is read completely, and a save without a change leaves every byte."""
    forms = [form("user" if n % 2 else "assistant", text, 3_977_130_622 + n) for n, text in enumerate(NASTY)]
    forms.append(
        form(
            "assistant",
            "",
            3_977_140_000,
            ':tool-calls ((:id "c1" :name "grep" :arguments (("pattern" . "x") ("n" . 3) ("r" . 0.5d0) ("deep" ("a" . 1)))))',
        )
    )
    forms.append(form("tool", "日本語", 3_977_140_001, ':tool-call-id "c1"'))
    (tmp_path / "plan.lisp").write_text(f'(("{ID}" 3977130622 "要約" {plan_of(*forms)}))', "utf-8")
    sbcl("create", str(tmp_path / "plan.lisp"), str(tmp_path))
    (tmp_path / "plan.lisp").unlink()
    files = files_of(tmp_path)
    assert sibyl.find(files) == {ID: f"{ID}/session.lisp"}
    assert b":ROLE :USER" in files[f"{ID}/session.lisp"]
    decoded = load(sibyl, files)
    session = decoded.session
    assert decoded.problems == []
    assert (session.summary, session.created_at) == ("要約", timestamp(1_768_141_822_000))
    assert [one.content for one in session.messages()] == [*NASTY, "", "日本語"]
    assert {one.role for one in session.messages()} == {"user", "assistant", "tool"}
    assert session.messages()[-2].tool_calls == [
        {"id": "c1", "name": "grep", "arguments": {"pattern": "x", "n": 3, "r": 0.5, "deep": {"a": 1}}}
    ]
    assert session.messages()[-1].rest == {"toolCallId": "c1"}
    adopted = written(files, sibyl.adopt_numbering(decoded, files))
    assert [write.path for write in sibyl.encode(session, adopted)] in ([], [f".sessiond/{ID}.json"])
    assert plain(load(sibyl, adopted).session) == plain(session)


def test_both_write_in_turns(tmp_path: Path) -> None:
    """The daemon and SBCL add to the same file in turns: no message is lost, ids and hidden messages remain."""
    session = session_of(
        message(1),
        message(2, "system", "be brief"),
        message(3, "assistant", [{"type": "text", "text": "hi"}], thinking="hm"),
    )
    put(tmp_path, save(sibyl, session))
    for turn in range(3):
        (tmp_path / "plan.lisp").write_text(
            f'(("{ID}" {form("user", f"from SBCL {turn} 日本", 3_977_150_000 + turn)}))', "utf-8"
        )
        sbcl("resave", str(tmp_path / "plan.lisp"), str(tmp_path))
        (tmp_path / "plan.lisp").unlink()
        decoded = load(sibyl, files_of(tmp_path))
        assert not decoded.incomplete
        session = decoded.session
        put(tmp_path, written({}, sibyl.adopt_numbering(decoded, files_of(tmp_path))))
        session.add_message(
            message(
                session.seq + 1,
                "assistant",
                f"from us {turn}",
                toolCalls=[{"id": "c", "name": "n", "arguments": "{raw"}],
            )
        )
        put(tmp_path, save(sibyl, session, files_of(tmp_path)))
    texts = [
        "text 1",
        "be brief",
        "hi",
        *[text for turn in range(3) for text in (f"from SBCL {turn} 日本", f"from us {turn}")],
    ]
    assert [one.text() for one in session.messages()] == texts
    assert [one.id for one in session.messages()][:3] == ["id-1", "id-2", "id-3"]
    assert session.messages()[2].content == [{"type": "text", "text": "hi"}]
    assert session.messages()[-1].tool_calls[0]["arguments"] == "{raw"
    assert plain(load(sibyl, files_of(tmp_path)).session) == plain(session)
