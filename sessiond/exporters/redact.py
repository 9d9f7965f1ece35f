"""Blanks private data: keys and tokens, home folders, user names. Reports what it blanked.

It guesses by shape and promises nothing: read a session before you share it. It works on values, so every export is redacted
alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import JsonObject

_KEY = r"[A-Za-z0-9_-]"
_NAMES = r"(?:api[_-]?key|secret|token(?!i[sz])|passw(?:or)?[dt]|passphrase|private[_-]?key|credential)"
"""Names of secrets, in texts and as keys."""
_NAMED = rf"[a-z0-9_.-]{{0,40}}{_NAMES}(?!s)[a-z0-9_]{{0,20}}"
_SECRET_KEY = re.compile(rf"(?i){_NAMES}|^(?:proxy-)?authorization$|^(?:set-)?cookie$")
_SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "private key",
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    ),
    ("API key", re.compile(rf"\b(?:sk|pk|rk)-(?:ant-|proj-|or-|live-|test-)?{_KEY}{{16,}}")),
    ("API key", re.compile(r"\b[sprw]k_(?:live|test)_[A-Za-z0-9]{10,}")),
    ("API key", re.compile(r"\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{20,}")),
    ("API key", re.compile(rf"\b(?:hf|gsk|xai|nvapi|pplx|dop_v1|npm|shpat|lin_api|figd|sbp)[_-]{_KEY}{{20,}}")),
    ("AWS key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("GitHub token", re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}")),
    ("GitLab token", re.compile(rf"\bgl(?:pat|ptt|dt|rt|cbt)-{_KEY}{{16,}}")),
    ("Slack token", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("package index token", re.compile(rf"\bpypi-{_KEY}{{30,}}")),
    ("web token", re.compile(rf"\beyJ{_KEY}{{8,}}\.{_KEY}{{8,}}\.{_KEY}*")),
)
_PARTIAL: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("authorization", re.compile(r"(?i)\b((?:bearer|basic|token)\s+)([A-Za-z0-9._~+/-]{16,}=*)")),
    ("password in a URL", re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@]+:)([^\s/@]+)(?=@)")),
    (
        "cookie",
        re.compile(
            r"(?i)((?:\bcookie\\*[\"']?\s*:|--cookie[\s=])\s*\\*[\"']?)"
            r"(?=[^\"'`\r\n]{6})([^\s=;,\"'`(){}\\]{1,200}=[^\s;\"'`\\]*(?:;[ \t]*[^\s;\"'`\\]+)*)"
        ),
    ),
    # A word after an equals sign in code is not a secret; one in quotes or with a digit in it may be. Backslashes: JSON
    # inside a JSON string.
    ("secret", re.compile(rf"(?i)\b({_NAMED}\\*[\"']?\s*(?:=|:|=>)\s*\\*[\"'])([^\"'`\n]{{6,200}}?)(?=\\*[\"'])")),
    (
        "secret",
        re.compile(rf"(?i)\b({_NAMED}\s*(?:=|:)\s*)((?=[^\s]{{0,200}}\d)[A-Za-z0-9_~+/=!@#%^&*.-]{{8,}})(?![(.\w])"),
    ),
)
_HOMES = re.compile(
    r"(?:/home/|/Users/|/var/home/|\b[A-Za-z]:\\{1,2}Users\\{1,2}|\b[A-Za-z]:/Users/)"
    r"([A-Za-z0-9._][A-Za-z0-9._-]*?)(?=[/\\\"'`\s:;,)\]}>]|\.?$)"
)
_ROOTS_HOME = re.compile(r"(?:(?<=file://)|(?<![\w./~$}-]))(?:/var)?/root(?=[/\\\"'`\s:;,)\]}>]|\.?$)")
_COMMON = frozenset(
    """root user users admin administrator runner ubuntu debian vagrant home shared public guest default node docker git ec2-user
    app dev test demo example name username you me""".split()  # noqa: SIM905  # a list of words
)
_BLANK = "[redacted]"
_HOME = "~"
_USER = "[user]"


class Redactor:
    """Blanks values one after another; `found` counts what it blanked, by kind.

    `users`: names to blank wherever they are a word. `learn` finds more in the names of home folders; it should see
    everything before the first value is blanked.
    """

    def __init__(self, users: Iterable[str] = ()) -> None:
        self.found: Counter[str] = Counter()
        self._users = {user for user in users if _is_telling(user)}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, value: object) -> None:
        """Remember the names of home folders in a JSON value."""
        if isinstance(value, str):
            if "ome/" in value or "sers" in value:
                self._users |= {name for name in _HOMES.findall(value) if _is_telling(name)}
        elif isinstance(value, dict):
            for key, item in value.items():
                self.learn(key)
                self.learn(item)
        elif isinstance(value, list):
            for item in value:
                self.learn(item)

    def value(self, value: object) -> Any:
        """A JSON value with every string in it (keys too) blanked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self._member(key, item) for key, item in value.items()}
        return value

    def _member(self, key: str, item: object) -> object:
        """Blanks a value whose key says that it is a secret, whatever it looks like."""
        if _SECRET_KEY.search(key) is None:
            return self.value(item)
        if isinstance(item, list):
            return [self._member(key, one) for one in item]
        if isinstance(item, str) and len(item) >= 6:
            self.found["secret"] += 1
            return _BLANK
        return self.value(item)

    def text(self, text: str) -> str:
        for kind, pattern in _SECRETS:
            text = self._replace(kind, pattern, _BLANK, text)
        for kind, pattern in _PARTIAL:
            text = self._replace(kind, pattern, rf"\g<1>{_BLANK}", text)
        text = self._replace("home folder", _HOMES, _HOME, text)
        text = self._replace("home folder", _ROOTS_HOME, _HOME, text)
        if self._users and (self._pattern is None or self._pattern.groups != len(self._users)):
            names = sorted(self._users, key=lambda name: (-len(name), name))
            self._pattern = re.compile(
                "|".join(rf"(?<![A-Za-z0-9])({re.escape(name)})(?![A-Za-z0-9])" for name in names)
            )
        return self._replace("user name", self._pattern, _USER, text) if self._pattern is not None else text

    def _replace(self, kind: str, pattern: re.Pattern[str], by: str, text: str) -> str:
        out, count = pattern.subn(by, text)
        self.found[kind] += count
        return out

    def report(self) -> dict[str, int]:
        """Return how many of each kind were blanked; kinds that were not found are left out."""
        return {kind: count for kind, count in sorted(self.found.items()) if count}


def _is_telling(name: str) -> bool:
    return len(name) >= 3 and name.lower() not in _COMMON


def redact(session: Session, users: Iterable[str] = ()) -> tuple[Session, dict[str, int]]:
    """A copy of the session with private data blanked, and the report. Ids, roles, times and seqs remain."""
    redactor = Redactor(users)
    twin = session.snapshot()
    wires = [message.wire() for message in session.messages()]
    fields = {key: getattr(session, key) for key in ("name", "model", "cwd", "tags", "summary", "metadata", "parent")}
    for value in (*wires, *[note.wire() for note in session.notes], fields, session.state):
        redactor.learn(value)
    for key, value in fields.items():
        setattr(twin, key, redactor.value(value))
    for wire in wires:
        kept: JsonObject = {
            key: wire[key] for key in ("id", "seq", "role", "timestamp", "status", "toolCallId") if key in wire
        }
        twin.replace_message(Message.from_wire({**redactor.value(wire), **kept}))
    twin.notes = [_note(redactor, note) for note in session.notes]
    twin.state = redactor.value(session.state)
    return twin, redactor.report()


def _note(redactor: Redactor, note: Note) -> Note:
    wire = note.wire()
    kept: JsonObject = {key: wire[key] for key in ("id", "seq", "tick", "timestamp")}
    return Note.from_wire({**redactor.value(wire), **kept})
