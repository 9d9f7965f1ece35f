"""rpc/reference.py, and that docs/ has its output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from sessiond.rpc import reference
from sessiond.rpc.jobs import IncomingRequest
from sessiond.rpc.methods import METHODS, Order
from sessiond.schema.notifications import NOTIFICATIONS

DOCS = Path(__file__).parents[2] / "docs"

PROTOCOL_1 = {
    "session": "new open close append extend finish read update clear truncate fork delete restore save list search export import move",
    "note": "append list",
    "state": "set get clear",
    "store": "adopt",
    "daemon": "hello stop status listen backup acknowledge",
}


@pytest.mark.parametrize("name", sorted(reference.files()))
def test_not_stale(name: str) -> None:
    """docs/ holds exactly what the types say now. If this fails: python -m sessiond.rpc.reference --write docs"""
    assert (DOCS / name).read_text(encoding="utf-8") == reference.files()[name]


ADDED = {
    "daemon/follow", "daemon/reindex", "session/activity", "session/answer", "session/ask", "session/follow", "session/listChanged", "session/usage",
}  # fmt: skip
"""Methods that came later. An older daemon says that it does not know them."""


def test_version_1_is_whole() -> None:
    """Every method of protocol version 1 is there, and nothing else but what was added since."""
    first = {f"{group}/{name}" for group, names in PROTOCOL_1.items() for name in names.split()}
    assert set(METHODS) == first | ADDED


def test_everything_has_words() -> None:
    """Every method, type and notification has a docstring."""
    for method in METHODS.values():
        assert reference._doc(method.handler).endswith(".")
    for kind in reference._reachable(
        [*(m.params for m in METHODS.values()), *(m.result for m in METHODS.values()), *NOTIFICATIONS.values()]
    ):
        assert "__doc__" in vars(kind), kind
        assert kind.__doc__


def test_every_order_is_told() -> None:
    """The reference says what each order means, what each may overtake, and which order each method has."""
    orders = list(get_args(Order))
    assert list(reference._ORDERS) == list(reference._OVERTAKES) == orders
    assert all(list(row) == orders for row in reference._OVERTAKES.values())
    sections = reference.markdown().split("\n### ")
    by_name = {section.split("`")[1]: section for section in sections if section.startswith("`")}
    documented = {method["name"]: method["x-order"] for method in reference.openrpc()["methods"]}
    for method in METHODS.values():
        assert f"\nOrder: [`{method.order}`](#order).\n" in by_name[method.name]
        assert documented[method.name] == method.order


def test_what_waits_is_told_as_it_is() -> None:
    """A request that concerns many sessions waits for those that the table names, and for no others."""
    for method in METHODS.values():
        earlier = IncomingRequest(b"1", method.name, outlives=method.outlives, order=method.order)
        for later in ("after", "barrier"):
            told = reference._OVERTAKES[later][method.order]
            assert told == (reference._WAITS if earlier.does_something else reference._MAY), (later, method.name)


def test_links_lead_somewhere() -> None:
    """Every link within the reference has its heading."""
    text = reference.markdown()
    headings = {
        line.lstrip("# ").strip("`").lower().replace("/", "") for line in text.splitlines() if line.startswith("#")
    }
    links = {part.partition(")")[0] for part in text.split("](#")[1:]}
    assert links <= headings


def test_openrpc_references_resolve() -> None:
    """Every $ref of the OpenRPC document leads to something in it."""
    document = reference.openrpc()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            target = value.get("$ref")
            if isinstance(target, str):
                found = document
                for part in target.removeprefix("#/").split("/"):
                    found = found[part]
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(document)
    assert json.loads(json.dumps(document)) == document
    by_name = {method["name"]: method for method in document["methods"]}
    append = {param["name"]: param for param in by_name["session/append"]["params"]}
    assert append["messages"]["schema"]["items"] == {"$ref": "#/components/schemas/NewMessage"}
    assert append["expectedSeq"]["required"] is False


def test_it_writes_both_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command writes both files and names them."""
    assert reference.main(["--write", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(reference.files())
    assert "protocol.md" in capsys.readouterr().out
    assert msgspec.json.decode((tmp_path / "openrpc.json").read_bytes())["openrpc"] == "1.3.2"
