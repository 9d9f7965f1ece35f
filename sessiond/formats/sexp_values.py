"""The meaning of the data of an S-expression: strings, symbols, numbers, property lists, and their JSON.

Conversion to JSON rejects nothing: what JSON cannot express becomes its source text. A writer that does not change such
a value leaves the source as it is, so nothing is lost.

| Lisp | JSON |
| --- | --- |
| string, integer of 64 bits, finite float | the same |
| `t`; `:false`, `:json-false`; `:null`, `:json-null` | `true`; `false`; `null` |
| `nil` | `null` in Emacs, `false` in Common Lisp, as in their JSON libraries |
| list that alternates distinct keywords and values | object; the key is the keyword without its colon |
| list of distinct `("key" . value)` (in Emacs also `(symbol . atom)`) | object |
| any other list, vector | array |
| symbol, keyword, character, ratio, ... | string |
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from sessiond.formats.sexp import Dialect, Kind, Node
from sessiond.formats.sexp_strings import common_char, common_string, emacs_char, emacs_string, without_surrogates
from sessiond.limits import INT64_MIN, MAX_JSON_DEPTH, UINT64_MAX
from sessiond.model.values import Json

_INTEGER = re.compile(r"[+-]?[0-9]{1,25}\.?")
_EMACS_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*e[+-]?[0-9]+|[0-9]*\.[0-9]+(?:e[+-]?[0-9]+)?)", re.IGNORECASE)
_COMMON_FLOAT = re.compile(
    r"[+-]?(?:[0-9]*\.[0-9]+(?:[esfdl][+-]?[0-9]+)?|[0-9]+(?:\.[0-9]*)?[esfdl][+-]?[0-9]+)", re.IGNORECASE
)
_COMMON_NUMBER = re.compile(r"[+-]?[0-9]+(?:/[0-9]+|\.)?")
_EMACS_NUMBER = re.compile(r"[+-]?[0-9]+\.?|[+-]?[0-9.]+e\+(?:INF|NaN)")


class SexpText(msgspec.Struct, frozen=True):
    """A text and its dialect."""

    text: str
    dialect: Dialect

    def raw(self, node: Node) -> str:
        return self.text[node.start : node.end]

    @property
    def common(self) -> bool:
        return self.dialect is Dialect.COMMON

    def string(self, node: Node) -> str | None:
        """The text of a string, or None for anything else."""
        if node.kind is not Kind.STRING:
            return None
        literal = self.raw(node.items[0] if node.items else node)
        return common_string(literal) if self.common else emacs_string(literal)

    def number(self, node: Node) -> int | float | None:
        """An integer or float that JSON can hold, or None for anything else."""
        if node.kind is Kind.CHAR and not self.common:
            return emacs_char(self.raw(node))
        if node.kind is not Kind.ATOM:
            return None
        text = self.raw(node)
        if _INTEGER.fullmatch(text):
            value = int(text.rstrip("."))
            return value if INT64_MIN <= value <= UINT64_MAX else None
        if (_COMMON_FLOAT if self.common else _EMACS_FLOAT).fullmatch(text):
            number = float(re.sub("[sfdlSFDL]", "e", text) if self.common else text)
            return number if math.isfinite(number) else None
        return None

    def symbol(self, node: Node) -> str | None:
        """A symbol's name, keywords with their colon, or None for anything else.

        Common Lisp names in all upper case (as its reader makes them) are returned in lower case, without their package.
        """
        if node.kind is not Kind.ATOM:
            return None
        text = self.raw(node)
        if (_COMMON_NUMBER if self.common else _EMACS_NUMBER).fullmatch(text) or self.number(node) is not None:
            return None
        if self.common:
            return _common_symbol(text)
        if text == "##":
            return ""
        return without_surrogates(re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text)

    def is_nil(self, node: Node) -> bool:
        return (node.kind is Kind.LIST and not node.items) or (node.kind is Kind.ATOM and self.symbol(node) == "nil")

    def proper_list(self, node: Node | None) -> Sequence[Node] | None:
        """The items of a list without a dot; () for nil; None for anything else."""
        if node is None or self.is_nil(node):
            return ()
        return node.items if node.kind is Kind.LIST and node.tail is None else None

    def pairs(self, node: Node) -> Iterator[tuple[str | None, Node, Node]]:
        """For each pair of a property list: the keyword (None if it is something else), its node and its value's node.
        An odd last item is left out.
        """
        for index in range(0, len(node.items) - 1, 2):
            name = self.symbol(node.items[index])
            yield name if name and name.startswith(":") else None, node.items[index], node.items[index + 1]

    def plist(self, node: Node) -> dict[str, Node]:
        """Keyword -> value's node. The first of equal keywords counts, as for `plist-get` and `getf`."""
        found: dict[str, Node] = {}
        for name, _, value in self.pairs(node):
            if name is not None:
                found.setdefault(name, value)
        return found

    def json(self, node: Node, depth: int = 0) -> Json:
        if depth >= MAX_JSON_DEPTH - 10:
            return without_surrogates(self.raw(node))
        match node.kind:
            case Kind.STRING:
                return self.string(node)
            case Kind.ATOM | Kind.CHAR:
                return self._atom(node)
            case Kind.VECTOR:
                return [self.json(item, depth + 1) for item in node.items]
            case Kind.LIST if node.tail is None:
                return self._list(node.items, depth)
        return without_surrogates(self.raw(node))

    @property
    def _nil(self) -> Json:
        return False if self.common else None

    def _atom(self, node: Node) -> Json:
        number = self.number(node)
        if number is not None:
            return number
        if node.kind is Kind.CHAR:
            return common_char(self.raw(node))
        name = self.symbol(node)
        if name == "nil":
            return self._nil
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        return without_surrogates(self.raw(node)) if name is None else name

    def _list(self, items: Sequence[Node], depth: int) -> Json:
        if not items:
            return self._nil
        found = self._keyword_object(items, depth)
        found = self._pair_object(items, depth) if found is None else found
        return [self.json(item, depth + 1) for item in items] if found is None else found

    def _keyword_object(self, items: Sequence[Node], depth: int) -> dict[str, Json] | None:
        if len(items) % 2 or any(item.kind is not Kind.ATOM for item in items[::2]):
            return None
        keys = [self.symbol(item) for item in items[::2]]
        if any(key is None or not key.startswith(":") for key in keys) or len(set(keys)) < len(keys):
            return None
        values = [self.json(item, depth + 1) for item in items[1::2]]
        return {(key or "")[1:]: value for key, value in zip(keys, values, strict=True)}

    def _pair_object(self, items: Sequence[Node], depth: int) -> dict[str, Json] | None:
        if any(item.kind is not Kind.LIST or not item.items for item in items):
            return None
        found: dict[str, Json] = {}
        for item in items:
            key = self._key(item)
            if key is None or key in found:
                return None
            found[key] = self._rest(item, depth + 1)
        return found

    def _key(self, item: Node) -> str | None:
        if item.items[0].kind is Kind.STRING:
            return self.string(item.items[0])
        symbol_pair = not self.common and item.tail is not None and len(item.items) == 1
        return self.symbol(item.items[0]) if symbol_pair else None

    def _rest(self, item: Node, depth: int) -> Json:
        """The cdr of a pair, however it is written."""
        if item.tail is not None and len(item.items) == 1:
            return self.json(item.tail, depth)
        rest = item.items[1:]
        if item.tail is not None:
            return without_surrogates(self.text[rest[0].start : item.tail.end])
        return self._list(rest, depth)


_CONSTANTS: dict[str | None, Json] = {
    ":null": None,
    ":json-null": None,
    "t": True,
    ":false": False,
    ":json-false": False,
}


def _common_symbol(text: str) -> str:
    """`:USER`, `:user`, `keyword:user` -> ":user"; `:|User|` -> ":User"; `pkg::sym` -> "sym"."""
    if "\\" not in text and "|" not in text:
        package, colon, name = text.rpartition(":")
        name = name.lower()
        keyword = colon and package.lower() in ("", "keyword", "keyword:")
        return without_surrogates(f":{name}" if keyword else name)
    name, package_end, escaped = "", -1, False
    for match in re.finditer(r"\\(.)|\|((?:[^|\\]|\\.)*)\||([^\\|])", text, re.DOTALL):
        if match[3] == ":":
            package_end = len(name)
        elif match[3] is not None:
            name += match[3].upper()
        else:
            escaped = True
            name += match[1] if match[1] is not None else re.sub(r"\\(.)", r"\1", match[2], flags=re.DOTALL)
    package = name[: max(package_end, 0)]
    name = name[max(package_end, 0) :]
    folded = name.lower() if not escaped or name == name.upper() else name
    return without_surrogates(f":{folded}" if package_end >= 0 and package in ("", "KEYWORD") else folded)
