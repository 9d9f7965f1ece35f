"""Somebody who has the README, types what stands there, word for word, at a terminal, and looks at the clock.

Needs only Python: it runs on a machine that has nothing else. Prints the seconds of each step, and what is there at the end.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time

PROMPT = "\x02ready\x03"
PATIENCE_S = 600
COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Terminal:
    """A shell at a terminal of 100 columns."""

    def __init__(self) -> None:
        pid, self._end = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm-256color", LANG="C.UTF-8", VIRTUAL_ENV_DISABLE_PROMPT="1")
            os.execvp("bash", ["bash", "--norc", "-i"])
        self._said = ""
        self.types(r"PS1=$'\x02ready\x03'; stty -echo cols 100 rows 40; bind 'set enable-bracketed-paste off'")
        self.types("")

    def types(self, line: str) -> str:
        """What is shown until the prompt is back. A question is answered with yes; a page that is served is left with ^C."""
        self._said = ""
        os.write(self._end, line.encode() + b"\n")
        deadline, served = time.monotonic() + PATIENCE_S, False
        while PROMPT not in self._said:
            assert time.monotonic() < deadline, f"{line}: no prompt after {PATIENCE_S} s: {self._said[-2000:]}"
            if not select.select([self._end], [], [], 1)[0]:
                continue
            self._said += COLOURS.sub("", os.read(self._end, 65536).decode("utf-8", "replace"))
            if self._said.rstrip().endswith("[y/N]:"):
                self._said += " y\n"
                os.write(self._end, b"y\n")
            if "/#code=" in self._said and not served:
                served = True
                os.write(self._end, b"\x03")
        return self._said.replace(PROMPT, "")


def typed(readme: str) -> list[str]:
    """The commands of the README up to its minute's end, in order; the second one, which runs the tests, is left out."""
    blocks = re.findall(r"^```(sh|console)\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    lines = [
        line for language, text in blocks for line in text.splitlines() if language == "sh" or line.startswith("$ ")
    ]
    return [line.removeprefix("$ ") for line in lines if line.strip() and line != "sh tests/run"]


def main() -> int:
    with open("README.md", encoding="utf-8") as file:
        commands = typed(file.read())
    terminal, began, failed = Terminal(), time.monotonic(), 0
    for whole in commands:
        line, _, comment = whole.partition("  #")
        steps = [line.strip()]
        if extra := re.search(r"pip install '[^']+'", comment):  # as the comment asks
            steps = [extra[0], "sessiond stop", *steps]
        if "PATH" in comment:
            steps.append("sessiond import ~/work")
        if "adopt" in line and not os.path.isdir(os.path.expanduser(line.split()[-1])):
            continue  # the README says "if you have one"
        for step in steps:
            started = time.monotonic()
            said = terminal.types(step)
            code = terminal.types("echo code=$?").rpartition("code=")[2].strip()
            good = code == ("130" if step == "sessiond web" else "0")
            # The README's words need not be in these histories; `grep` ends so as well.
            good |= step.startswith("sessiond search") and code == "1" and "no matches" in said
            failed += not good
            print(f"{time.monotonic() - started:7.1f} s  {step}" + ("" if good else f"   FAILED ({code})"))
            print(
                "".join(f"             | {shown[:160]}\n" for shown in said.strip().splitlines()[-6:]),
                end="",
                flush=True,
            )
    print(f"{time.monotonic() - began:7.1f} s  in all")
    for check, wanted in (
        ("sessiond list --json --limit 1000 | grep -o '\"sessionId\"' | wc -l", r"\d"),
        ("sessiond search --count orchestrator", r"\d"),
        ("sessiond show $ID", "remember the milk"),
        ("sessiond doctor | tail -n 1", "All is well"),
    ):
        said = terminal.types(check).strip()
        failed += not re.search(wanted, said)
        print(
            f"           {check}\n" + "".join(f"             | {shown}\n" for shown in said.splitlines()[-4:]), end=""
        )
    terminal.types("kill %1; sessiond stop")
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(main())
