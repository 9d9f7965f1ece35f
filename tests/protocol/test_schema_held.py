"""tests/contract.py: what every test client refuses."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests import contract
from tests.home import Client

ANSWER: dict[str, Any] = {"result": {"seq": 1, "messages": [{"id": "m1", "seq": 1}]}}
CHANGED: dict[str, Any] = {
    "sessionId": "s",
    "seq": 1,
    "changes": [
        {
            "kind": "appended",
            "seq": 1,
            "messages": [{"id": "m", "seq": 1, "role": "user", "content": "x", "timestamp": "t", "of-the-user": 1}],
        }
    ],
    "origin": {"client": "c", "connection": 1},
}


def test_what_fits_is_let_through():
    """A message may have keys of its own."""
    contract.check_answer("session/append", ANSWER)
    contract.check_notification("session/changed", CHANGED)
    contract.check_answer("session/append", {"error": {"code": -31002, "data": {"kind": "conflict"}}})


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("result", "more"), 1, "does not name more"),
        (("result", "messages", 0, "more"), 1, "does not name messages.0.more"),
        (("result", "seq"), "1", "Expected `int`"),
        (("result", "seq"), -1, "Expected `int` >= 0"),
        (("result", "messages"), None, "Expected `array`"),
    ],
)
def test_another_shape_of_a_result_is_not(path, value, said):
    """An unknown key at any depth, and another type."""
    answer: Any = deepcopy(ANSWER)
    inner = answer
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(AssertionError, match=said):
        contract.check_answer("session/append", answer)


def test_a_missing_key_is_not():
    """Of a result and of a notification."""
    with pytest.raises(AssertionError, match="missing required field `messages`"):
        contract.check_answer("session/append", {"result": {"seq": 1}})
    with pytest.raises(AssertionError, match="missing required field `origin`"):
        contract.check_notification("session/changed", {key: CHANGED[key] for key in CHANGED if key != "origin"})


def test_an_undeclared_error_is_not():
    """Nor one with another code."""
    with pytest.raises(AssertionError, match="does not declare the error 'alreadyExists'"):
        contract.check_answer("session/append", {"error": {"code": -31007, "data": {"kind": "alreadyExists"}}})
    with pytest.raises(AssertionError, match="conflict has another code"):
        contract.check_answer("session/append", {"error": {"code": -31007, "data": {"kind": "conflict"}}})


def test_test_clients_check():
    """Every test that speaks to a daemon does so by way of this."""
    assert Client.checked
