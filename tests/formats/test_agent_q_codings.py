"""Agent-Q's files in other codings than UTF-8: Emacs decodes them after an append as before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessiond.formats import agent_q
from tests.formats.lisp_sessions import load, perform, written
from tests.programs import need, run

ID = "session-20260111-143022"
JAPANESE = '日本語 💬 \\ "x" é'
CODINGS = {
    "latin-1": ("", "Grüße, café"),
    "latin-1 by a cookie": (";; -*- mode: emacs-lisp; coding: latin-1 -*-\n", "Grüße, café"),
    "cp1252 by a cookie": (";; -*- coding: cp1252-unix -*-\n", "“Grüße” – 5 €"),
    "euc-jp by a cookie": (";; -*- coding: euc-jp; lexical-binding: t -*-\n", "こんにちは"),
    "sjis by a cookie": (";; -*- coding: sjis -*-\n", "こんにちは"),
    "iso-2022-jp by a cookie": (";; -*- coding: iso-2022-jp -*-\n", "こんにちは"),
    "koi8-r by a cookie": (";; -*- coding: koi8-r -*-\n", "привет"),
    "latin-1 by local variables": ("", "Grüße, café"),
    "utf-8": ("", "Grüße, こんにちは"),
    "utf-8 by a cookie": (";; -*- coding: utf-8-unix -*-\n", "Grüße, こんにちは"),
}
_READ = """
(with-temp-buffer
  (insert-file-contents (car command-line-args-left))
  (goto-char (point-min))
  (let ((form (read (current-buffer))) (coding-system-for-write 'utf-8-unix))
    (with-temp-file (cadr command-line-args-left)
      (insert (json-encode (vconcat (mapcar (lambda (one) (plist-get one :content)) (plist-get form :messages))))))))
"""


def _file(header: str, text: str, end: str) -> str:
    first = f'(:id "m1" :role user :content "{text}" :timestamp (26000 0 0 0) :context-snapshot nil :metadata nil)'
    top = f'(:version 1 :id "{ID}" :name nil :created-at (26000 0 0 0) :updated-at (26000 0 0 0) :model nil'
    return f"{header};; Agent-Q Session\n;; Created: 2026-01-11 14:30:22\n\n{top}\n :messages ({first})\n :metadata nil)\n{end}"


def _emacs_reads(folder: Path) -> list[str]:
    (folder / "read.el").write_text(f"(require 'json)\n{_READ}")
    file, out = folder / f"{ID}.el", folder / "out.json"
    run(["timeout", "60", need("emacs"), "-Q", "--batch", "-l", str(folder / "read.el"), str(file), str(out)],
        env={"LC_ALL": "C.UTF-8"})  # fmt: skip
    told: list[str] = json.loads(out.read_text("utf-8"))
    return told


@pytest.mark.parametrize("coding", CODINGS)
def test_10_emacs_decodes_the_file_as_before(tmp_path: Path, coding: str) -> None:
    """Text of every script is appended, the name changes, a role and a key are Japanese: all of it comes back, in Emacs and here."""
    header, text = CODINGS[coding]
    end = "\n;; Local Variables:\n;; coding: latin-1\n;; End:\n" if "variables" in coding else ""
    raw = _file(header, text, end).encode(coding.partition(" ")[0])
    main = agent_q.main_path(ID)
    (tmp_path / main).write_bytes(raw)
    assert _emacs_reads(tmp_path) == [text]
    decoded = load(agent_q, {main: raw})
    session, files = decoded.session, written({main: raw}, agent_q.adopt_numbering(decoded, {main: raw}))
    metadata = {"metadata": {"鍵": [1, "値"]}, "thinking": "…"}
    perform(
        session, ("append", [("user", JAPANESE, {}), ("ユーザー", "x\u2028y", metadata), ("assistant", "\u00a0", {})])
    )
    perform(session, ("update", {"name": "名前", "model": "模型", "metadata": {"キー": "値"}}))
    files = written(files, agent_q.encode(session, files))
    (tmp_path / main).write_bytes(files[main])
    assert _emacs_reads(tmp_path) == [text, JAPANESE, "x\u2028y", "\u00a0"]
    again = load(agent_q, files).session
    assert [one.wire() for one in again.messages()] == [one.wire() for one in session.messages()]
    assert (again.name, again.model, again.metadata) == ("名前", "模型", {"キー": "値"})
    if "utf-8" not in coding:
        assert bytes(sorted(set(files[main]) - set(range(128)))) == bytes(sorted(set(raw) - set(range(128))))
    assert written(files, agent_q.encode(again, files)) == files
