"""Writes the protocol's types for TypeScript from the OpenRPC document: python -m scripts.browser_types"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs" / "openrpc.json"
TARGET = ROOT / "clients" / "browser" / "protocol.d.ts"
Schema: TypeAlias = dict[str, Any]
"""A JSON schema, or an object of the OpenRPC document."""
_HEAD = """\
// The requests, notifications and types of the protocol. Written from docs/openrpc.json by
//   python -m scripts.browser_types

export type JsonObject = Record<string, unknown>
"""
_PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "array": "unknown[]",
}


def text() -> str:
    """The whole file."""
    document = json.loads(SOURCE.read_text("utf-8"))
    parts = [_HEAD]
    parts += [_declaration(name, schema) for name, schema in document["components"]["schemas"].items()]
    parts.append(_interface("Requests", "Method -> its params and its result.", map(_request, document["methods"])))
    told = map(_notification, document["x-notifications"])
    parts.append(_interface("Notifications", "What the daemon says by itself: method -> params.", told))
    return "\n".join(parts)


def _declaration(name: str, schema: Schema) -> str:
    shape = _type(schema)
    keyword = f"interface {name} {shape}" if shape.startswith("{") else f"type {name} = {shape}"
    return f"{_comment(schema.get('description'))}export {keyword}\n"


def _interface(name: str, description: str, rows: Iterable[str]) -> str:
    return f"{_comment(description)}export interface {name} {{\n{''.join(rows)}}}\n"


def _request(method: Schema) -> str:
    params = {
        "type": "object",
        "properties": {one["name"]: one["schema"] for one in method["params"]},
        "required": [one["name"] for one in method["params"] if one.get("required")],
    }
    taken = _type(params) if method["params"] else "{}"
    said = _one_line(method.get("summary") or method.get("description") or "")
    return (
        f"  /** {said} */\n  '{method['name']}': {{ params: {taken}, result: {_type(method['result']['schema'])} }}\n"
    )


def _notification(told: Schema) -> str:
    params = told["params"]
    return f"  '{told['name']}': {_type(params[0]['schema'] if isinstance(params, list) else params)}\n"


def _type(schema: Schema) -> str:
    """A JSON schema as a type."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " | ".join(dict.fromkeys(_type(one) for one in schema[choice]))
    if "enum" in schema:
        return " | ".join("null" if value is None else json.dumps(value) for value in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type({**schema, "type": one}) for one in kind)
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"Array<{_type(schema['items'])}>"
    if kind == "object":
        return _object(schema) if "properties" in schema else "JsonObject"
    return _PLAIN.get(kind or "", "unknown")


def _object(schema: Schema) -> str:
    required = schema.get("required", [])
    rows = [
        f"{_comment(one.get('description'), '  ')}  {name}{'' if name in required else '?'}: {_type(one)}\n"
        for name, one in schema["properties"].items()
    ]
    return "{\n" + "".join(rows) + "}"


def _comment(said: str | None, indent: str = "") -> str:
    return f"{indent}/** {_one_line(said)} */\n" if said else ""


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("*/", "* /").strip()


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
