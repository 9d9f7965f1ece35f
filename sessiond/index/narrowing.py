"""The words that every text matched by a regular expression must contain, as far as the index can tell. Pure, stdlib only:
the regex worker uses it.

A pattern's literal runs become conditions on words: `def get_user\\(` needs a word that ends with `def`, and the word `get`
before one that begins with `user`. Of a run that may be the inside of a word (`quixotic` may be in `unquixotically`), the
vocabulary says which words it is in. Uncertain conditions are left out: more texts may be searched than necessary, never
fewer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

try:
    from re import _constants as op  # type: ignore[attr-defined]
    from re import _parser as sre  # type: ignore[attr-defined]
except ImportError:  # other internals of Python: nothing is narrowed
    sre = None

from sessiond.index.tokens import spans

MAX_CONDITIONS = 64
"""A pattern with more conditions is narrowed by some of those that must all hold, or not at all."""
_SHORTEST = 2
"""Less of a word is in too many of them."""

# ASCII, and the characters of Chinese and Japanese; only characters with a single spelling.
_SAFE = re.compile("[\x00-\x7f\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff]+")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]$")
"""At the end of a run, kana may be followed by a voicing mark, which makes another character of it."""


class Phrase(NamedTuple):
    """Whole words that follow one another; `prefix`: only the beginning of the last one is known."""

    words: tuple[str, ...]
    prefix: bool


class WordPart(NamedTuple):
    """A word that contains an ASCII token; `ends`: at its end. `dotless`: each `i` of the token may be a dotless one."""

    token: str
    begins: bool
    ends: bool
    dotless: bool


class All(NamedTuple):
    needs: tuple[Need, ...]


class Some(NamedTuple):
    needs: tuple[Need, ...]


Need: TypeAlias = "Phrase | WordPart | All | Some"

NEVER = Some(())
"""No text has it."""


def needed(pattern: re.Pattern[str]) -> Need | None:
    """Return what a text must contain so that `pattern.search` finds something in it. None: nothing is known."""
    if sre is None:
        return None
    try:
        parsed = sre.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
        found = _sequence(parsed, ignore_case=bool(pattern.flags & re.IGNORECASE))
    except (RecursionError, re.error, ValueError, TypeError):  # what its insides look like is not promised
        return None
    return found if found is not None and _count(found) <= MAX_CONDITIONS else None


def in_words(need: Need, holding: Callable[[WordPart], Sequence[str] | None]) -> Need | None:
    """The same without parts of words: `holding` says which words have one, None if that is unknown. NEVER if there are none,
    None if nothing is known of all of it.
    """
    if isinstance(need, Phrase):
        return need
    if isinstance(need, WordPart):
        words = holding(need)
        return None if words is None else _some([Phrase((word,), prefix=False) for word in words])
    inner = [in_words(one, holding) for one in need.needs]
    known = [one for one in inner if one is not None]
    if isinstance(need, Some):
        return _some([one for one in known if one != NEVER]) if len(known) == len(inner) else None
    if NEVER in known:
        return NEVER
    return All(tuple(known)) if known else None


def _some(needs: Sequence[Need]) -> Need:
    return needs[0] if len(needs) == 1 else Some(tuple(needs))


def has_parts(need: Need) -> bool:
    return isinstance(need, WordPart) or (isinstance(need, (All, Some)) and any(map(has_parts, need.needs)))


def match_expression(need: Need) -> str:
    """An FTS5 expression for what `in_words` returns, except NEVER."""
    if isinstance(need, WordPart):
        raise TypeError("parts of words are not in the index")
    if isinstance(need, Phrase):
        return " + ".join(f'"{word}"' for word in need.words) + (" *" if need.prefix else "")
    return (" AND " if isinstance(need, All) else " OR ").join(f"({match_expression(one)})" for one in need.needs)


def _count(need: Need) -> int:
    return sum(map(_count, need.needs)) if isinstance(need, (All, Some)) else 1


def _sequence(items: Iterable[tuple[Any, Any]], *, ignore_case: bool) -> Need | None:
    """Return what all items of a sequence need, with runs of literals joined."""
    needs: list[Need] = []
    run: list[str] = []

    def close() -> None:
        needs.extend(_of_run("".join(run), ignore_case=ignore_case))
        run.clear()

    for kind, value in items:
        if kind is op.LITERAL:
            run.append(chr(value))
            continue
        close()
        inner = _of_item(kind, value, ignore_case=ignore_case)
        if inner is not None:
            needs.append(inner)
    close()
    if len(needs) > MAX_CONDITIONS // 4:
        needs = sorted(needs, key=_count)[: MAX_CONDITIONS // 4]
    return All(tuple(needs)) if needs else None


def _of_item(kind: Any, value: Any, *, ignore_case: bool) -> Need | None:
    if kind is op.SUBPATTERN:
        _, added, removed, items = value
        ignored = (ignore_case or bool(added & re.IGNORECASE)) and not removed & re.IGNORECASE
        return _sequence(items, ignore_case=ignored)
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, _, items = value
        return _sequence(items, ignore_case=ignore_case) if least else None
    if kind is op.ATOMIC_GROUP:
        return _sequence(value, ignore_case=ignore_case)
    if kind is op.ASSERT:
        return _sequence(value[1], ignore_case=ignore_case)
    if kind is op.BRANCH:
        branches = [_sequence(branch, ignore_case=ignore_case) for branch in value[1]]
        known = tuple(branch for branch in branches if branch is not None)
        return Some(known) if len(known) == len(branches) else None
    return None


def _of_run(run: str, *, ignore_case: bool) -> list[Need]:
    needs: list[Need] = []
    for match in _SAFE.finditer(run):
        text = _KANA.sub(" ", match[0])
        tokens = [(word[0].casefold(), word.start() == 0, word.end() == len(text)) for word in spans(text)]
        needs.extend(_of_tokens(tokens, ignore_case=ignore_case))
    return needs


def _of_tokens(tokens: Sequence[tuple[str, bool, bool]], *, ignore_case: bool) -> list[Need]:
    """`tokens`: each with whether it begins and ends where the run does, so that its word may continue there."""
    needs: list[Need] = []
    words: list[str] = []

    def close(prefix: str = "") -> None:
        if words or len(prefix) >= _SHORTEST:
            needs.append(Phrase((*words, prefix) if prefix else tuple(words), bool(prefix)))
        words.clear()

    for token, first, last in tokens:
        open_left, open_right = first and token.isascii(), last and token.isascii()
        # If case is ignored, `i` may match a dotless one, which is another letter for the index.
        sure = token.split("i") if ignore_case and token.isascii() else [token]
        if (open_left or len(sure) > 1) and len(token) >= _SHORTEST:
            needs.append(WordPart(token, begins=not open_left, ends=not open_right, dotless=len(sure) > 1))
        if open_left:
            close()
        elif len(sure) > 1 or open_right:
            close(sure[0])
        else:
            words.append(token)
    close()
    return needs
