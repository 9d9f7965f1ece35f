"""Redaction: what looks like a key, a home folder or a user's name is gone from every export, and counted."""

from __future__ import annotations

import pytest
from exported import message, session, text

from sessiond.exporters import FORMATS
from sessiond.exporters.redact import Redactor, redact
from sessiond.model.message import Note

A = "a1B2c3D4" * 5
SECRETS = {
    "API key": ["sk-ant-api03-" + A, "sk-proj-" + A, "AIza" + A[:35], "hf_" + A, "sk_live_" + A],
    "AWS key": ["AKIA" + "ABCDEFGH12345678"],
    "GitHub token": ["ghp_" + A, "github_pat_" + A],
    "GitLab token": ["glpat-" + A],
    "Slack token": ["xoxb-123456789012-" + A],
    "package index token": ["pypi-" + A],
    "web token": ["eyJhbGciOiJI." + A + "." + A],
    "private key": ["-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----"],
    "authorization": ["Bearer " + A],
    "password in a URL": ["postgres://bob:hunter2xyz@db/x"],
    "secret": [
        "OPENAI_API_KEY=abc123def456",
        'password: "correct horse9"',
        "client_secret = 'zzzzzzzz1'",
        r'{"body": "{\"token\": \"abcdefghijkl\"}"}',
    ],
    "cookie": [
        "Cookie: session=abcdef0123456789abcdef",
        "Set-Cookie: sid=abcdefgh; Path=/; HttpOnly\n",
        "curl --cookie 'id=abcdefgh' x",
        '{"Cookie": "session=abcdefgh", "n": 1}',
    ],
}


@pytest.mark.parametrize(("kind", "secret"), [(kind, secret) for kind, many in SECRETS.items() for secret in many])
def test_secrets_are_blanked_and_counted(kind: str, secret: str) -> None:
    """Each kind is found within other words, and the rest of the text stays."""
    redactor = Redactor()
    out = redactor.text(f"before {secret} after")
    assert out.startswith("before ")
    assert out.endswith(" after")
    assert "[redacted]" in out
    assert redactor.report() == {kind: 1}


@pytest.mark.parametrize(
    "text_",
    [
        "contextTokens = calculateContextTokens(x)",
        "const apiKey = config.apiKey",
        "the token was wrong",
        "skip-navigation-links-here",
        "a secret: none",
        "/home",
        "Users can log in",
        "the cookie: a=b",
        "src/root/x.py and https://root/x and /rooted",
        'tokenizer = "cl100k_base"',
    ],
)
def test_ordinary_words_stay(text_: str) -> None:
    """Code that handles keys is not a key."""
    assert Redactor().text(text_) == text_


NAMES = [
    "token",
    "GITHUB_TOKEN",
    "apiKey",
    "client-secret",
    "db_password",
    "passphrase",
    "private_key",
    "credential",
    "Cookie",
]


@pytest.mark.parametrize("fmt", FORMATS)
def test_what_a_key_calls_a_secret_is_blanked_in_every_format(fmt: str) -> None:
    """In a call's arguments, in metadata and in state, however deep and whatever it looks like; numbers and short words stay."""
    kept = {"token": "none", "max_tokens": 4096, "tokenizer": "cl100k_base", "path": "plainword"}
    secrets = {name: f"wordsonly{place}" for place, name in enumerate(NAMES)}
    many = {"tokens": ["wordsonlyfirst", "wordsonlysecond"]}
    calls = [{"id": "c", "name": "http", "arguments": {"headers": secrets, **many, **kept}}]
    made = session(
        message(1, "assistant", "", toolCalls=calls, metadata={"deep": [secrets]}), metadata={"env": secrets}
    )
    made.state = {**secrets, "more": kept}
    assert text(made, fmt).count("wordsonly") >= len(NAMES) + 2, "the format shows it at all"
    twin, report = redact(made)
    assert "wordsonly" not in text(twin, fmt)
    assert report == {"secret": 4 * len(NAMES) + 2}
    assert twin.state["more"] == kept
    [call] = twin.messages()[0].wire()["toolCalls"]
    assert {key: call["arguments"][key] for key in kept} == kept


@pytest.mark.parametrize("place", ["/root/x", "cd /root", '"/root"', "file:///root/x", "host:/root/x", "/var/root/x"])
def test_roots_home_is_a_home(place: str) -> None:
    """The administrator's home is blanked like any other home."""
    redactor = Redactor()
    assert "root" not in redactor.text(place)
    assert redactor.report() == {"home folder": 1}


def test_homes_and_names_are_blanked_everywhere() -> None:
    """A name that a home folder gives away is blanked wherever it stands as a word, before and after that."""
    made = session(
        message(1, content="hello from jdoe42 in /home/jdoe42/src and C:\\Users\\jdoe42\\x"),
        message(2, "tool", "-rw-r--r-- jdoe42 staff; jdoe42x is another", toolCallId="/home/jdoe42"),
        cwd="/Users/jdoe42/w",
        metadata={"source": {"path": "/home/jdoe42/.x/-home-jdoe42-w"}},
        name="jdoe42's talk",
    )
    made.add_note(
        Note(thread=None, tick=None, id="n", seq=3, heading="h", content="/home/jdoe42", timestamp=made.created_at)
    )
    made.state = {"/home/jdoe42/a": "jdoe42"}
    made.metadata["apiKey"] = "whatever it may be"
    twin, report = redact(made)
    for fmt in FORMATS:
        shown = text(twin, fmt).replace("jdoe42x", "")
        # Ids remain as they are: other messages refer to them.
        assert shown.count("jdoe42") == (
            shown.count("_home_jdoe42" if fmt in ("openai", "anthropic") else "/home/jdoe42")
        )
        assert "whatever it may be" not in shown
    assert twin.cwd == "~/w"
    assert twin.name == "[user]'s talk"
    assert set(report) == {"home folder", "secret", "user name"}
    assert made.cwd == "/Users/jdoe42/w", "the session itself is not changed"


def test_named_users_are_blanked_but_common_words_are_not() -> None:
    """A given name counts, unless it is a word like root."""
    redactor = Redactor(["mallory", "root", "me"])
    assert redactor.text("mallory, Mallory and root, me") == "[user], Mallory and root, me"
