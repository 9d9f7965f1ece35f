"""Valid and almost valid requests: every field of a request, with values at and beyond the limits. Params are text, as on
the wire, so that things that our encoders never write can be sent, too.
"""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import strategies as st

from tests.formats.lisp_sessions import NASTY
from tests.formats.saving import ORG
from tests.model.test_timestamps import OTHERS, RFC3339

FORMATS = ["jsonl", "amacs", "cortex", "agent-q", "theia", "sibyl"]
Asked = tuple[str, dict[str, Any]]
"""Method, and params less the session."""

_MORE = [
    "* Tick 9\n:PROPERTIES:\n:SESSIOND_HUMAN: {\"id\":\"x\",\"seq\":1}\n:END:\n** Human\nx", "#+", "# Local Variables:", "\f\n", "\x1a", "\x85",
    ")", "#", "\\N{BELL}", "\\x41\\ ", "%s%n", "{{", "${x}", "---\n", "# heading\n> quote", "<script>", "&amp;", "\ufffd", "e\u0301\u0301", "\u0301",
    "\u202e", "\U0001f1e9\U0001f1ea", "x" * 5000, "語" * 3000, "\n" * 50, "line\n" * 300, "\t* x", ":PROPERTIES:", "<2026-01-01>", "\uffff", "\udfff",
]  # fmt: skip
_CHARS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
texts = st.one_of(
    st.sampled_from([*NASTY, *ORG, *_MORE]),
    _CHARS,
    st.lists(st.sampled_from([*NASTY, *ORG]), max_size=4).map("\n".join),
)
words = st.one_of(st.sampled_from(["messages", "savedAt", "id", "seq", "role", "change", "sessiond", "copy", "", "a b", ":k", "tool-calls", "ß", "nil"]),
                  texts.map(lambda one: one[:300]))  # fmt: skip
numbers = st.one_of(
    st.sampled_from([0, -1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, -(2**63) - 1, 10**40]),
    st.sampled_from([-0.0, 0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e16, 1e22, -1e-7, 1.0, math.nan, math.inf]),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, values, max_size=3)


@st.composite
def deep(draw: st.DrawFn) -> Any:
    """Nested so deep that the whole request is just allowed, or just not."""
    value: Any = draw(scalars)
    for number in range(draw(st.integers(60, 101))):
        value = {"k": value} if draw(st.booleans()) and number % 7 == 0 else [value]
    return value


anything = st.one_of(values, values, values, deep())
times = st.one_of(st.sampled_from([*RFC3339, *OTHERS]), scalars)
ids = st.one_of(
    st.sampled_from(
        ["m", "a" * 256, "b" * 257, "💬" * 256, "", "x" * 255, "M", "id\nwith\nlines", '"', "nil", ":a", "\0"]
    ),
    _CHARS,
    texts,
)
roles = st.one_of(
    st.sampled_from(["user", "assistant", "user", "assistant", "system", "tool", "User", "", "a b", "nil", ":x", "語"]),
    texts,
)
blocks = st.lists(
    st.one_of(
        st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
        st.fixed_dictionaries({"type": texts, "data": anything}),
        anything,
    ),
    max_size=3,
)
contents = st.one_of(texts, texts, blocks, scalars)
calls = st.one_of(
    st.lists(
        st.fixed_dictionaries(
            {"id": texts, "name": texts, "arguments": objects | texts | scalars}, optional={"extra": anything}
        ),
        max_size=2,
    ),
    values,
)
messages = st.fixed_dictionaries(
    {"role": roles, "content": contents},
    optional={
        "id": ids, "timestamp": times, "status": st.sampled_from(["done", "streaming", "interrupted", "error", None, "x"]), "seq": values,
        "toolCalls": calls, "toolCallId": st.none() | texts | values, "thinking": st.none() | texts | values, "thread": st.none() | texts,
        "tick": st.none() | numbers, "contextSnapshot": anything, "metadata": st.none() | objects | anything, "jsonrpc": anything,
        "sessiond": anything, "change": values, "rest": objects, "name": anything, "tick_": anything, "": values,
    },
)  # fmt: skip
plain = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": texts})
fields: dict[str, st.SearchStrategy[Any]] = {
    "name": st.none() | texts, "model": st.none() | texts, "cwd": st.none() | texts, "tags": st.lists(texts, max_size=3) | values,
    "metadata": objects | anything,
}  # fmt: skip
states = st.dictionaries(words, anything, max_size=3)
asked: st.SearchStrategy[Asked] = st.one_of(
    st.tuples(st.just("session/append"), st.fixed_dictionaries({"messages": st.lists(messages, max_size=2)})),
    st.tuples(st.just("session/append"), st.fixed_dictionaries({"messages": st.lists(messages | plain, min_size=1, max_size=3)})),
    st.tuples(st.just("session/append"), st.fixed_dictionaries({"messages": st.lists(plain, min_size=2, max_size=4)})),
    st.tuples(
        st.just("session/extend"),
        st.fixed_dictionaries({"messageId": st.just("@streaming"), "text": texts}, optional={"offset": numbers}),
    ),
    st.tuples(
        st.just("session/finish"),
        st.fixed_dictionaries(
            {"messageId": st.just("@streaming")},
            optional={"metadata": objects | anything, "toolCalls": calls, "status": st.sampled_from(["done", "error", "x"])},
        ),
    ),
    st.tuples(
        st.just("session/update"),
        st.fixed_dictionaries({}, optional={**fields, "summary": st.none() | texts, "archived": st.booleans() | values}),
    ),
    st.tuples(
        st.just("note/append"),
        st.fixed_dictionaries(
            {"heading": texts, "content": texts},
            optional={"thread": st.none() | texts, "tick": st.none() | numbers, "id": st.none() | ids},
        ),
    ),
    st.tuples(st.just("state/set"), st.fixed_dictionaries({"values": states})),
    st.tuples(st.just("session/truncate"), st.fixed_dictionaries({"afterSeq": st.integers(0, 8) | numbers})),
    st.tuples(st.just("session/move"), st.fixed_dictionaries({"store": st.sampled_from(FORMATS)})),
    st.tuples(
        st.just("session/export"),
        st.fixed_dictionaries({"format": st.sampled_from(["jsonl", "json", "markdown", "org", "html", "text"])}),
    ),
    st.tuples(st.sampled_from(["session/clear", "session/save", "session/fork", "state/clear"]), st.just({})),
)  # fmt: skip
makings = st.fixed_dictionaries(
    {},
    optional={
        **fields, "messages": st.lists(messages, max_size=2),
        "sessionId": st.sampled_from(
            ["a", "A" * 128, "b" * 129, "0._-", "session-", "session-20260111-143022", "scratchpad", "index", "con", "x.json", "a.org", "..",
             ".sessiond", "a/b", "\0", "", "é", "store.json", "store", "session-1.el"]
        ),
    },
)  # fmt: skip


def request(method: str, params: dict[str, Any]) -> bytes:
    """As a client would send it that knows nothing of what it may not."""
    whole = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return json.dumps(whole).encode()
