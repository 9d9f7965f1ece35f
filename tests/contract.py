"""Compares what a daemon sends with its schema, key by key. Every test client of a daemon uses it."""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

import sessiond.rpc.handlers  # noqa: F401  (fills the registry)
from sessiond.rpc.errors import ANY_METHOD_ERRORS, CODES
from sessiond.rpc.methods import METHODS
from sessiond.schema.notifications import NOTIFICATIONS
from sessiond.schema.types import PLAIN_OBJECTS, MessageBody, ToolCall

Path = tuple[str | int, ...]


def check_answer(method: str, answer: dict[str, Any]) -> None:
    """An answer to a request for one of our own methods. AssertionError."""
    known = METHODS.get(method)
    if known is None:
        return
    if "result" in answer:
        check(known.result, answer["result"], f"the result of {method}")
        return
    error = answer["error"]
    kind = error.get("data", {}).get("kind")
    assert kind is None or error["code"] == CODES[kind], f"{method}: {kind} has another code: {error}"
    declared = {*known.errors, *ANY_METHOD_ERRORS}
    assert kind in declared, f"{method} does not declare the error {kind!r}: {error}"


def check_notification(method: str, params: dict[str, Any]) -> None:
    known = NOTIFICATIONS.get(method)
    if known is not None:
        check(known, params, method)


def check(kind: Any, value: Any, what: str) -> None:
    """The value is of the type, and has no key that the type does not name. AssertionError."""
    try:
        msgspec.convert(value, kind, strict=True)
        found = unnamed(kind, value)
    except msgspec.ValidationError as error:
        raise AssertionError(f"{what}: {error}: {str(value)[:2000]}") from None
    for path in found:
        raise AssertionError(f"{what}: the schema does not name {'.'.join(map(str, path))}: {str(value)[:2000]}")


def unnamed(kind: Any, value: Any, path: Path = ()) -> list[Path]:
    """Keys of a value that fits the type, which the type does not name. ValidationError for a plain object that is not what it says."""
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *metas = get_args(kind)
        for title in [one.title for one in metas if isinstance(one, msgspec.Meta)]:
            if title in PLAIN_OBJECTS:
                msgspec.convert(value, PLAIN_OBJECTS[title], strict=True)
                inner = PLAIN_OBJECTS[title]
        return unnamed(inner, value, path)
    if origin in (Union, types.UnionType):
        fitting = [one for one in get_args(kind) if _fits(one, value)]
        return min((unnamed(one, value, path) for one in fitting), key=len, default=[])
    if origin is list and isinstance(value, list):
        (inner,) = get_args(kind)
        return [found for number, one in enumerate(value) for found in unnamed(inner, one, (*path, number))]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        fields = _fields(kind)
        open_ended = issubclass(kind, MessageBody | ToolCall)  # a client's own keys are kept in messages, at any depth
        found = [(*path, key) for key in value if key not in fields and not open_ended]
        for key, inner in fields.items():
            if key in value:
                found += unnamed(inner, value[key], (*path, key))
        return found
    return []


def _fits(kind: Any, value: Any) -> bool:
    if kind is msgspec.UnsetType:
        return False
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        return False
    return True


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(kind)}
