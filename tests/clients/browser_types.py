"""Writes the protocol's types for TypeScript from the OpenRPC document:  python -m tests.clients.browser_types"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "docs" / "openrpc.json"
TARGET = ROOT / "clients" / "browser" / "protocol.d.ts"
PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "array": "unknown[]",
}


def of(schema: dict[str, Any]) -> str:
    """A JSON schema as a type."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " | ".join(dict.fromkeys(of(one) for one in schema[choice]))
    if "enum" in schema:
        return " | ".join("null" if value is None else json.dumps(value) for value in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(of({**schema, "type": one}) for one in kind)
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"Array<{of(schema['items'])}>"
    if kind == "object":
        if "properties" not in schema:
            return "JsonObject"
        needed = schema.get("required", [])
        rows = [row(name, one, name in needed) for name, one in schema["properties"].items()]
        return "{\n" + "".join(rows) + "}"
    return PLAIN.get(kind or "", "unknown")


def row(name: str, schema: dict[str, Any], needed: bool) -> str:
    said = schema.get("description", "")
    comment = f"  /** {one_line(said)} */\n" if said else ""
    return f"{comment}  {name}{'' if needed else '?'}: {of(schema)}\n"


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("*/", "* /").strip()


def text() -> str:
    """The whole file."""
    document = json.loads(SOURCE.read_text())
    parts = []
    parts.append(
        "// The requests, notifications and types of the protocol. Written from docs/openrpc.json by\n"
        "//   python -m tests.clients.browser_types\n\nexport type JsonObject = Record<string, unknown>\n"
    )
    for name, schema in document["components"]["schemas"].items():
        shape = of(schema)
        comment = f"/** {one_line(schema['description'])} */\n" if "description" in schema else ""
        keyword = f"interface {name} {shape}" if shape.startswith("{") else f"type {name} = {shape}"
        parts.append(f"{comment}export {keyword}\n")
    rows = []
    for one in document["methods"]:
        params = of({
            "type": "object", "properties": {p["name"]: p["schema"] for p in one["params"]},
            "required": [p["name"] for p in one["params"] if p.get("required")],
        }) if one["params"] else "{}"  # fmt: skip
        said = one_line(one.get("summary") or one.get("description") or "")
        rows.append(
            f"  /** {said} */\n  '{one['name']}': {{ params: {params}, result: {of(one['result']['schema'])} }}\n"
        )
    parts.append("/** Method -> its params and its result. */\nexport interface Requests {\n" + "".join(rows) + "}\n")
    told = [f"  '{one['name']}': {of(one['params'][0]['schema'] if isinstance(one['params'], list) else one['params'])}\n"
            for one in document["x-notifications"]]  # fmt: skip
    parts.append(
        "/** What the daemon says by itself: method -> params. */\nexport interface Notifications {\n"
        + "".join(told)
        + "}\n"
    )
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.write_text(text())
