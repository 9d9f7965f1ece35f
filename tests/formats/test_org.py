"""Org text: what looks like structure is escaped and comes back; drawers and times are read as Org reads them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.formats import org
from tests.formats.lisp_sessions import NASTY, text
from tests.formats.saving import ORG

lines = st.lists(
    st.sampled_from([*ORG, *NASTY, ",", "#", "+", ":a:", "*", " ", "\n", "\u200b", "<%%(", "Local Variables:"]) | text,
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(parts=lines)
def test_escaping_is_exact(parts: list[str]) -> None:
    """Unescaping gives back what was escaped, whatever it was."""
    for whole in ("".join(parts), "\n".join(parts)):
        assert org.unescape(org.escape(whole)) == whole
        shown = org.show(whole)
        assert shown.exact() == whole
        assert org.body_text(f"\n{shown.text}\n\n".encode(), crlf=False) == shown.text


@settings(max_examples=200, deadline=None)
@given(parts=lines)
def test_escaped_text_is_one_section(parts: list[str]) -> None:
    """No heading, no drawer and nothing that Emacs evaluates is in an escaped text, a title or a property."""
    whole = "\n".join(parts)
    for shown in (org.show(whole).text, f"x {org.one_line(whole)}", org.property_json([whole, {whole: 1}])):
        assert len(org.sections(f"\n{shown}\n".encode())) == 1
        assert "local variables:" not in shown.lower()
        assert "<%%(" not in shown
        assert not any(line.lstrip().startswith(("#+", "%%(", ":END:", ":PROPERTIES:")) for line in shown.split("\n"))
    assert "-*-" not in org.one_line(whole)
    assert "\n" not in org.property_json(whole)


@pytest.mark.parametrize(
    ("plain", "escaped"),
    [
        ("* x", ",* x"),
        (",* x", ",,* x"),
        ("*bold*", "*bold*"),
        ("  #+end_src", "  ,#+end_src"),
        (":END:", ",:END:"),
        ("Local Variables:", "Local Variables\u200b:"),
        ("local variables\u200b:", "local variables\u200b\u200b:"),
        ("- x\n# comment\n| a |", "- x\n# comment\n| a |"),
    ],
)
def test_only_what_must_be_is_escaped(plain: str, escaped: str) -> None:
    """A comma, or a zero-width space, stands where Org or Emacs would look."""
    assert org.escape(plain) == escaped


def test_drawers() -> None:
    """A drawer counts directly under its heading, after planning too; of equal keys the first; not when it never ends."""
    raw = (
        b"* A\r\nDEADLINE: <2025-01-01>\r\n:properties:\r\n:A: 1\r\n:a: 2\r\n:B:\r\n:c:d: x\r\n:end:\r\nbody\r\n"
        b"* B\n\n:PROPERTIES:\n:A: 1\n:END:\n"
        b"* C\n:PROPERTIES:\n:A: 1\n"
    )
    _, a, b, c = org.sections(raw)
    assert (a.properties, a.body) == ({"A": "1", "B": "", "C:D": "x"}, b"body\r\n")
    assert (b.properties, b.drawer) == ({}, None)
    assert (c.properties, c.body) == ({}, b":PROPERTIES:\n:A: 1\n")
    assert b"".join(section.raw for section in org.sections(raw)) == raw


@pytest.mark.parametrize(
    ("written", "time"),
    [
        ("2025-01-02T14:30:00Z", "2025-01-02T14:30:00.000Z"),
        ("2025-01-02T14:30:00+01:00", "2025-01-02T13:30:00.000Z"),
        ("yesterday", None),
        ("", None),
        ("[2025-13-02 Thu 14:30]", None),
    ],
)
def test_times(written: str, time: str | None) -> None:
    """A time is RFC 3339, or none."""
    assert org.time_of(written) == time


def test_org_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Org's own timestamps are local time."""
    assert org.time_of("[2025-01-02 Thu 14:30]") == org.time_of("2025-01-02T14:30:00")
    assert org.time_of("<2025-01-02>") == org.time_of("2025-01-02T00:00:00")
    assert org.time_of("<2025-01-02 木 9:05 +1w>") == org.time_of("2025-01-02T09:05:00")
