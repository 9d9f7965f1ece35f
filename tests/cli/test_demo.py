"""`sessiond demo` does what it says, and says the same on every machine."""

from __future__ import annotations

import re
from pathlib import Path

from tests.shell import Shell


def test_the_demo_shows_the_main_job(home: Shell) -> None:
    """Real clients, a real kill, everything there afterwards, and nothing left behind."""
    home.env["TMPDIR"] = str(home.path)
    done = home("demo")
    assert (done.code, done.err) == (0, ""), done
    assert "ok  acknowledged before the kill: all there, each under its seq" in done.out
    assert "ok  sent: 303, there: 303, twice: 0" in done.out
    assert "ok  in the order of seq, each client's own order kept" in done.out
    assert "WRONG" not in done.out
    assert done.out.endswith("Everything stopped and removed.\n")
    assert list(home.path.iterdir()) == []


def test_the_demo_prints_the_same_every_time(home: Shell) -> None:
    """But for the times in the file that it shows, so that documents may hold its output."""
    one, two = (re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", home("demo").out) for _ in range(2))
    assert one == two


def test_the_readme_shows_what_the_demo_prints(home: Shell) -> None:
    """Line by line, but for the times in the file that it shows."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = readme.partition("```text\n")[2].partition("```")[0]
    one, two = (re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text) for text in (shown, home("demo").out))
    assert one == two
