"""On a terminal: our tables and colours, and only our control characters."""

from __future__ import annotations

from pathlib import Path

from sessiond.cli.output import clean, in_place, one_line
from sessiond.words import count, local_time
from tests.shell import Shell, on_terminal

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202eevil\x7f"


def shown_on_terminal(shell: Shell, *arguments: str) -> str:
    code, shown = on_terminal(shell, *arguments)
    assert code == 0, shown
    return shown


def test_tables_and_hostile_names(shell: Shell) -> None:
    """A heading and a row; what a name contains cannot colour, retitle or turn the terminal round."""
    shell("new", "--id", "x", "--name", HOSTILE)
    shell("append", "x", f"needle {HOSTILE}")
    listed = shown_on_terminal(shell, "list")
    assert "messages" in listed
    assert "evil" in listed
    found = shown_on_terminal(shell, "search", "needle")
    assert "1 found" in found
    shown = shown_on_terminal(shell, "show", "x")
    for text in (listed, found, shown):
        assert not any(bad in text for bad in ("\x1b[31m", "\x1b]0", "\x9b", "\u202e", "\x7f", "\x07"))


def test_import_shows_progress_and_a_summary(shell: Shell, tmp_path: Path) -> None:
    """The bar comes and goes; what stays is the summary."""
    source = tmp_path / "history.json"
    source.write_text('[{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]')
    assert "imported 1 session with 2 messages" in shown_on_terminal(shell, "import", str(source))
    assert "1 session had nothing new" in shown_on_terminal(shell, "import", str(source))


def test_text_for_people() -> None:
    """The small functions behind all that is printed."""
    assert clean("a\tb\nc" + HOSTILE) == "a\tb\nc[31mred]0;title2Jevil"
    assert one_line("  a \n b\u2028c ") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert in_place("a\x1b\nb") == "a  b"
    assert (count(1, "session"), count(1200, "session")) == ("1 session", "1,200 sessions")
    assert local_time("not a time") == "not a time"
