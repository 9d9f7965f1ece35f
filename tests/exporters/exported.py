"""Sessions to export, for tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sessiond.exporters import export
from sessiond.model.message import Message, Note
from sessiond.model.session import Session

T = "2026-01-11T14:30:22.000Z"
NASTY = [
    "* heading",
    "# heading",
    "#+begin_src sh :eval yes\nrm -rf /\n#+end_src",
    ":PROPERTIES:",
    ":END:",
    "Local Variables:",
    "# Local Variables:\n# eval: (shell)\n# End:",
    "```",
    "```python\nprint(1)\n```",
    "~~~~",
    "<script>alert(1)</script>",
    "<!-- ",
    "<b onclick=x>",
    "[x](javascript:alert(1))",
    "![i](http://e/x.png)",
    "![i](data:text/html;base64,AAAA)",
    "<http://e/?<script>>",
    "| a | b |\n|---|:-:|\n| 1 | 2 |",
    "- item\n  ```\n  open",
    "> quote\n> ```",
    "    code",
    "[[elisp:(x)][y]]",
    "elisp:(delete)",
    "src_sh{ls}",
    "{{{macro}}}",
    "call_x()",
    "DEADLINE: <2026-01-01>",
    "[fn:1] foot",
    "&amp;<&lt;",
    "\x1b[31mred\x1b[0m",
    "\x00\x07",
    "\u202eright",
    "日本語",
    "[a]: http://e 't'",
    "***",
    "---",
    "===",
    "#+end_example",
    ",* x",
    "\\",
    "`",
    "``x`",
    "$$x$$",
    "\\begin{x}",
    "javascript:alert(1)",
    "</pre></details><img src=x onerror=y>",
    "-*- mode: emacs-lisp; eval: (shell) -*-",
    "1. one",
    "\t* tab",
    "#",
    "*",
    ":a:",
    "",
    "%%(sexp)",
    "<<target>>",
    "@@html:<b>@@",
    "<%\n",
    "<?php",
    "<![CDATA[",
    "<pre>",
    "<style>",
]
TEXTS = st.lists(st.sampled_from(NASTY) | st.text(max_size=30), max_size=5).map("\n".join)


def message(n: int, role: str = "user", content: Any = "hi", **rest: Any) -> Message:
    status = rest.pop("status", None)
    return Message(id=f"m{n}", seq=n, role=role, content=content, timestamp=T, status=status, rest=rest)


def session(*messages: Message, **info: Any) -> Session:
    made = Session("s-1", T)
    made.update({"name": "A name", **info})
    for one in messages:
        made.add_message(one)
    return made


def full() -> Session:
    """Everything that a session can hold."""
    made = session(
        message(1, content="Please *look* at `x`:\n\n```python\nprint('hi')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
        message(
            2,
            "assistant",
            "I do.",
            thinking="hm",
            toolCalls=[{"id": "c1", "name": "run", "arguments": {"cmd": "ls", "script": "a\nb"}}],
        ),
        message(3, "tool", "out\n```\nput", toolCallId="c1", metadata={"isError": True}),
        message(
            4,
            "user",
            [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"media_type": "image/png", "data": "iVBORw0KGgo="}},
                {"type": "file", "path": "p", "content": "x\ny"},
            ],
        ),
        message(5, "assistant", "half", status="interrupted"),
        message(6, "user", "<system-reminder>", metadata={"injected": True}),
        tags=["t1"],
        model="m",
        cwd="/w",
        parent={"sessionId": "s-0", "seq": 3},
        metadata={"gitBranch": "main"},
        summary="sum",
    )
    made.add_note(Note(thread=None, tick=None, id="n1", seq=7, heading="Idea", content="a\n* b", timestamp=T))
    made.state = {"plan": [1]}
    made.seq = 8
    return made


def text(made: Session, fmt: str) -> str:
    return "".join(export(made, made.messages(), fmt))
