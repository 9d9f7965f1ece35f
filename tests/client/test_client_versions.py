"""A daemon of protocol 1 may be older or newer than the client; one of another protocol is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sessiond.client import (
    Appended,
    DaemonUnreachable,
    Message,
    OtherChange,
    Reread,
    SessiondError,
    SessionInfo,
    TooLarge,
    connect,
    daemon_types,
    usage,
)
from sessiond.client import changes as client_changes
from sessiond.client import types as client_types
from sessiond.index import values
from sessiond.schema import daemon, notes_state, notifications, sessions, types
from sessiond.store import port
from tests.client.scripted import Raw, Scripted

NEWER_INFO = {
    "sessionId": "s",
    "seq": 2,
    "mood": "blue",
    "parent": {"sessionId": "p", "seq": 1, "why": 1},
    "tags": ["a"],
}
NEWER_MESSAGE = {"id": "m", "seq": 2, "role": "oracle", "content": "x", "status": "pondering", "aura": {"a": [1]}}


def changed(*changes: dict[str, Any]) -> dict[str, Any]:
    params = {
        "sessionId": "s",
        "seq": changes[-1]["seq"],
        "changes": changes,
        "origin": {"client": "c", "via": 1},
        "more": 1,
    }
    return {"method": "session/changed", "params": params}


def test_a_newer_daemon_is_understood() -> None:
    """Members, statuses, roles, kinds of changes, notifications and errors that this client has never heard of."""
    notified = [
        {"method": "daemon/dreams", "params": {"of": "sheep"}},
        {"method": "session/dreamt", "params": {"sessionId": "s"}},
        changed(
            {"kind": "sung", "seq": 3, "song": "la"},
            {"kind": "appended", "seq": 4, "messages": [{**NEWER_MESSAGE, "seq": 4}]},
        ),
    ]
    daemon = Scripted(
        session__update={"session": NEWER_INFO, "more": 1},
        session__read={"messages": [NEWER_MESSAGE], "hasMore": False, "seq": 2, "more": 1},
        session__open=lambda params: [{"session": NEWER_INFO, "messages": [], "more": 1}, *notified],
        session__append=Exception(
            {"code": -31999, "message": "not now", "data": {"kind": "tired", "hint": "tea", "until": "5"}}
        ),
        session__clear=Exception({"code": -31006, "message": "too much", "data": {"kind": "tooLarge", "limit": 1}}),
    )
    with daemon, connect(daemon.address, token="t") as sessiond:
        chat = sessiond.session("s")
        assert (chat.info().parent, chat.info().tags) == (client_types.Parent(session_id="p", seq=1), ["a"])
        assert chat.messages() == [Message(id="m", seq=2, role="oracle", content="x", status="pondering")]
        with chat.changes() as changes:
            sung, appended = next(changes), next(changes)
        assert isinstance(sung, OtherChange) and (sung.kind, sung.members["song"]) == ("sung", "la")
        assert isinstance(appended, Appended) and appended.origin is not None and appended.origin.client == "c"
        with pytest.raises(SessiondError) as tired:
            chat.append("user", "x")
        assert (tired.value.kind, tired.value.hint, tired.value.data["until"]) == ("tired", "tea", "5")
        with pytest.raises(TooLarge) as large:
            chat.clear()
        assert large.value.data["limit"] == 1


def test_an_older_daemon_is_understood() -> None:
    """Only what protocol 1 began with; and nothing is sent that was not asked for."""
    daemon = Scripted(
        session__new={"session": {"sessionId": "s"}},
        session__append={"seq": 1, "messages": [{"id": "m", "seq": 1}]},
        session__list={"sessions": [{"sessionId": "s"}], "nextCursor": None},
        session__search={"hits": [{"sessionId": "s"}], "total": 1, "nextCursor": None},
        session__read={"messages": [{"id": "m", "seq": 1, "role": "user", "content": "x"}], "hasMore": False},
        daemon__status={"version": "0.0.1"},
    )
    with daemon, connect(daemon.address, token="t") as sessiond:
        chat = sessiond.new(name="x")
        assert chat.append("user", "x").seq == 1
        assert list(sessiond.sessions()) == [SessionInfo(session_id="s")]
        assert [hit.session_id for hit in sessiond.search("x")] == ["s"]
        assert chat.messages()[0].text == "x"
        assert sessiond.status().version == "0.0.1"
    new, append = daemon.asked[1]["params"], daemon.asked[2]["params"]
    assert set(new) == {"sessionId", "name"}
    assert set(append) == {"sessionId", "messages"} and set(append["messages"][0]) == {"role", "content", "id"}


@pytest.mark.parametrize("welcome", [{"protocolVersion": 2}, {"protocolVersion": 0}, {}])
def test_another_protocol_is_refused(welcome: dict[str, Any]) -> None:
    """With the two numbers in the text; a peer that is not a sessiond at all is refused the same way."""
    daemon = Scripted(initialize={"capabilities": {"experimental": {"sessiond": welcome}}})
    with daemon, pytest.raises(DaemonUnreachable, match="protocol 1"):
        connect(daemon.address, token="t")


@pytest.mark.parametrize("result", [{"session": {"sessionId": 5}}, {"session": None}, [], "x"])
def test_a_result_of_another_shape_is_an_error_of_ours(result: Any) -> None:
    """Not one of msgspec's, and the connection is as good as before."""
    daemon = Scripted(session__update=result, session__read={"messages": [], "hasMore": False, "seq": 0})
    with daemon, connect(daemon.address, token="t") as sessiond:
        with pytest.raises(DaemonUnreachable, match="shape"):
            sessiond.session("s").info()
        assert sessiond.session("s").messages() == []
    assert len([one for one in daemon.asked if one["method"] == "initialize"]) == 1


def test_a_daemon_out_of_its_mind_ends_the_connection() -> None:
    """Lines that are not JSON-RPC: the request is sent again over the next connection, and the next one is well."""
    page = {"messages": [], "hasMore": False, "seq": 0}
    said = [[page, Raw("{]")], [page]]
    daemon = Scripted(session__read=lambda params: said.pop(0))
    with daemon, connect(daemon.address, token="t") as sessiond:
        assert sessiond.session("s").messages() == []
    assert not said
    assert len([one for one in daemon.asked if one["method"] == "initialize"]) == 2


def test_changes_that_are_not_known_are_a_stretch() -> None:
    """`changes: null` after a gap: what is newer comes as `Reread`, page by page, and live changes continue after it."""
    opened = [
        {"session": {"sessionId": "s", "seq": 1}, "messages": []},
        {
            "session": {"sessionId": "s", "seq": 9},
            "messages": [{"id": "m5", "seq": 5, "role": "user", "content": "five"}],
            "hasMore": True,
            "changes": None,
        },
    ]
    pages = [{"messages": [{"id": "m7", "seq": 7, "role": "user", "content": "seven"}], "hasMore": False, "seq": 9}]
    late = changed({"kind": "state", "seq": 10, "values": {"a": 1}})

    def open_(params: dict[str, Any]) -> Any:
        return (
            [opened.pop(0), changed({"kind": "state", "seq": 4, "values": {}})] if len(opened) == 2 else opened.pop(0)
        )

    daemon = Scripted(session__open=open_, session__read=lambda params: [pages.pop(0), late])
    with daemon, connect(daemon.address, token="t") as sessiond, sessiond.session("s").changes() as changes:
        first, second, third = next(changes), next(changes), next(changes)
    assert isinstance(first, Reread) and (first.since, [one.text for one in first.messages]) == (1, ["five"])
    assert isinstance(second, Reread) and (second.since, [one.text for one in second.messages]) == (5, ["seven"])
    assert third.seq == 10
    assert [one["params"].get("since") for one in daemon.asked if one["method"] == "session/open"] == [None, 1]


MIRRORS = [
    (types.SessionInfo, client_types.SessionInfo),
    (types.Parent, client_types.Parent),
    (types.Message, client_types.Message),
    (types.NewMessage, client_types.NewMessage),
    (types.ToolCall, client_types.ToolCall),
    (types.Note, client_types.Note),
    (types.FileWarning, client_types.FileWarning),
    (sessions.Hit, client_types.Hit),
    (sessions.AppendedMessage, client_types.AppendedMessage),
    (sessions.ImportResult, client_types.Imported),
    (sessions.ExportResult, client_types.Exported),
    (sessions.ListResult, client_types.ListPage),
    (sessions.SearchResult, client_types.HitPage),
    (sessions.ReadResult, client_types.Page),
    (notes_state.StateResult, client_types.StateResult),
    (daemon.Address, daemon_types.Address),
    (daemon.HelloResult, daemon_types.Hello),
    (daemon.StatusResult, daemon_types.Status),
    (daemon.StoreStatus, daemon_types.StoreStatus),
    (port.HubStatus, daemon_types.HubStatus),
    (daemon.JournalStatus, daemon_types.JournalStatus),
    (daemon.Damage, daemon_types.Damage),
    (daemon.ReadOnlyStatus, daemon_types.ReadOnlyStatus),
    (daemon.IndexStatus, daemon_types.IndexStatus),
    (daemon.ConfigStatus, daemon_types.ConfigStatus),
    (daemon.SettingStatus, daemon_types.SettingStatus),
    (daemon.AcknowledgeResult, daemon_types.Acknowledged),
    (daemon.BackupResult, daemon_types.BackedUp),
    (daemon.AdoptResult, daemon_types.Adopted),
    (sessions.ToolReport, client_types.ToolReport),
    (daemon.FollowResult, daemon_types.Followed),
    (daemon.FollowedPlace, daemon_types.FollowedPlace),
    (values.TokenTotals, usage.TokenTotals),
    (values.ModelUsage, usage.ModelUsage),
    (values.UsageRow, usage.UsageRow),
    (sessions.UsageResult, usage.UsageReport),
    (notifications.Origin, client_types.Origin),
]


@pytest.mark.parametrize(("theirs", "ours"), MIRRORS, ids=lambda it: it.__name__)
def test_the_types_are_those_of_the_wire(theirs: type, ours: type) -> None:
    """Every member that the protocol gives has a field here, and no field is made up."""

    def names(struct: Any) -> set[str]:
        return {one.encode_name for one in msgspec.structs.fields(struct)}

    assert names(theirs) == names(ours)


def test_every_kind_of_change_has_a_type() -> None:
    """With a field for each member that the protocol's one type has for that kind."""
    kinds = msgspec.inspect.type_info(types.Change).fields[0].type.values  # type: ignore[union-attr]
    assert set(kinds) == set(client_changes._KINDS)
