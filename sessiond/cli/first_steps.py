"""The next steps for somebody who has just begun."""

from __future__ import annotations

from sessiond import installation

NO_MODEL = (
    "No model answers in sessiond itself: your editors and tools bring theirs, or a command does: sessiond repl --agent"
)


def first_steps(*, imported: bool = False) -> list[str]:
    """Lines to print: each a command as it can be typed here, and what it does. `imported`: there are sessions already."""
    program = installation.as_typed()
    steps = [
        ("import", "bring in what your tools have kept on this machine"),
        ("follow on", "keep what they write from now on"),
        ("search WORDS", "find what was said, anywhere"),
        ("web", "read and write all sessions on a page in the browser"),
    ][1 if imported else 0 :]
    width = max(len(words) for words, _ in steps)
    return [f"  {program} {words:<{width}}  {what}" for words, what in steps]
