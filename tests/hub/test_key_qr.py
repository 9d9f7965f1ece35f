"""`sessiond store key show --qr` draws what a camera reads as the key."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import zxingcpp

from sessiond.cli.store_key import _qr
from sessiond.errors import ConfigError, Unavailable
from tests.shell import Shell

_HALVES = {"█": (255, 255), "▀": (255, 0), "▄": (0, 255), " ": (0, 0)}
"""A character of a dark terminal -> its upper and lower half."""


def seen(drawn: str) -> str:
    """The text of the code, as a program finds it in a picture of the terminal."""
    rows = [[_HALVES[one][half] for one in line] for line in drawn.splitlines() for half in (0, 1)]
    picture = np.kron(np.array(rows, dtype=np.uint8), np.ones((4, 4), dtype=np.uint8))
    # Of this kind only: a random code's rows may be a bar code by chance.
    [code] = zxingcpp.read_barcodes(picture, formats=zxingcpp.BarcodeFormat.QRCode)
    return str(code.text)


def test_the_code_says_what_show_prints(shell: Shell, tmp_path: Path) -> None:
    """One key, and several after rotations."""
    key = str(tmp_path / "team.key")
    assert shell("store", "key", "new", key).code == 0
    for _ in range(3):
        drawn, lines = shell("store", "key", "show", key, "--qr"), shell("store", "key", "show", key)
        assert (drawn.code, drawn.err) == (0, "")
        assert seen(drawn.out) == lines.out.rstrip("\n")
        assert shell("store", "key", "rotate", key).code == 0


def test_too_much_for_a_code_is_refused() -> None:
    """With what to do instead."""
    with pytest.raises(ConfigError, match="more keys than fit") as raised:
        _qr("x" * 3000)
    assert "copy the file" in str(raised.value.hint)


def test_without_segno_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the command works without it."""
    monkeypatch.setitem(sys.modules, "segno", None)
    with pytest.raises(Unavailable, match="segno") as raised:
        _qr("x")
    assert "'asyncpg>=" in str(raised.value.hint)
