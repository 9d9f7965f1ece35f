"""Valid JSON in which one value is of another type, or beyond all bounds: what no tool writes, and anybody may."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

ODD = (
    "null", "true", "false", "0", "1", "-1", "0.5", "-0.0", "1e999", "-1e999", "NaN", "9" * 400, "18446744073709551616", "9223372036854775807",
    '""', '"odd"', f'"{"x" * 70_000}"', '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\u2028"', '"1e999"', '"2026-13-45T99:99:99Z"',
    '"-0001-01-01T00:00:00Z"', '"/"', '"../.."', "[]", "[[]]", "[null]", "[1e999]", '["x"]', "{}", '{"": null}', '{"type": ["x"]}',
    '{"type": {"x": 1}}', '[{"type": ["x"]}]', '{"text": ["x"]}', '[{"type": "text", "text": 5}]', '{"role": []}', "[" * 150 + "]" * 150,
    '{"a":' * 150 + "1" + "}" * 150,
)  # fmt: skip
"""As they are written in a file."""
_HERE = "\x1fhere\x1f"
_WRITTEN = json.dumps(_HERE)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value, itself included."""
    yield path
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(one, (*path, key))


def put(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """A copy with another value at a place."""
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], odd)
    return copy


def written(value: Any, chance: random.Random) -> str:
    """The JSON of a value, with something odd at a random place, sometimes as a further member of an object."""
    path = chance.choice(list(places(value)))
    here: Any = value
    for key in path:
        here = here[key]
    if isinstance(here, dict) and chance.random() < 0.2:
        value = put(value, path, {**here, chance.choice(("type", "id", "tokens", "content", "role")): _HERE})
    else:
        value = put(value, path, _HERE)
    return json.dumps(value).replace(_WRITTEN, chance.choice(ODD), 1)


def text(whole: str, chance: random.Random, *, by_line: bool) -> str | None:
    """A JSON document, or JSON Lines, with one to three odd values. None: it is not JSON."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        lines = whole.splitlines() if by_line else [whole]
        nth = chance.randrange(len(lines)) if lines else 0
        try:
            lines[nth : nth + 1] = [written(json.loads(lines[nth]), chance)]
        except (ValueError, IndexError, RecursionError):
            return None
        whole = "\n".join(lines) + ("\n" if by_line else "")
    return whole
