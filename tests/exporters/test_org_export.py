"""Org: parsed by Org itself, every turn is a heading, and nothing in it runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from exported import NASTY, full, message, session, text
from hypothesis import given
from hypothesis import strategies as st

from sessiond.exporters.org import _escaped, prose
from sessiond.model.message import Note
from tests.programs import need

PARSE = r"""
(require 'org) (require 'org-element) (require 'json)
(defun turn (headline)
  (list (cons 'level (org-element-property :level headline))
        (cons 'title (substring-no-properties (org-element-property :raw-value headline)))
        (cons 'id (org-element-property :MESSAGE_ID headline))
        (cons 'tags (vconcat (org-element-property :tags headline)))
        (cons 'todo (org-element-property :todo-keyword headline))))
(find-file (car command-line-args-left))
(let* ((tree (org-element-parse-buffer))
       (all (lambda (type fn) (vconcat (org-element-map tree type fn)))))
  (princ (json-encode
    (list (cons 'mode (symbol-name major-mode))
          (cons 'variables (length file-local-variables-alist))
          (cons 'headlines (funcall all 'headline #'turn))
          (cons 'blocks (funcall all '(src-block example-block)
             (lambda (b) (list (cons 'language (org-element-property :language b)) (cons 'parameters (org-element-property :parameters b))
                               (cons 'header (vconcat (org-element-property :header b)))
                               (cons 'value (org-element-property :value b))))))
          (cons 'live (funcall all '(babel-call inline-babel-call inline-src-block macro target radio-target dynamic-block export-block export-snippet
                                     keyword footnote-definition planning diary-sexp latex-environment)
             (lambda (e) (format "%s %s" (org-element-type e) (or (org-element-property :key e) "")))))
          (cons 'links (funcall all 'link (lambda (l) (org-element-property :type l))))
          (cons 'tables (length (org-element-map tree 'table #'identity)))))))
"""

PROPERTIES = r"""
(require 'org) (require 'org-lint) (require 'json)
(find-file (car command-line-args-left))
(let ((got (org-map-entries (lambda () (vconcat (mapcar (lambda (name) (org-entry-get nil name)) '("TIME" "MESSAGE_ID" "ROLE" "SEQ" "THREAD"))))))
      (found (mapcar (lambda (one) (aref (cadr one) 2)) (org-lint))))
  (princ (json-encode (list (cons 'got (vconcat got)) (cons 'lint (vconcat found))))))
"""


def parsed(path: Path, shown: str, script_text: str = PARSE) -> dict[str, list[Any]]:
    """What real Emacs makes of the text."""
    need("emacs")
    script = path / "parse.el"
    script.write_text(script_text)
    (path / "s.org").write_text(shown)
    command = ["timeout", "60", "emacs", "-Q", "--batch", "-l", str(script), str(path / "s.org")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    result: dict[str, list[Any]] = json.loads(done.stdout)
    return result


def test_emacs_finds_every_turn_and_nothing_live(tmp_path: Path) -> None:
    """With every nasty text under every role: one heading a turn with its id, no keyword, macro, call or variable of
    the transcript's."""
    contents = [(role, content) for role in ("user", "tool") for content in NASTY]
    thoughts = [
        message(n + 1, role, content, thinking=NASTY[n % len(NASTY)]) for n, (role, content) in enumerate(contents)
    ]
    calls = [
        message(
            500 + n,
            "assistant",
            content,
            toolCalls=[
                {"id": content, "name": content or "x", "arguments": {"a": content, "b": f"{content}\n{content}"}}
            ],
        )
        for n, content in enumerate(NASTY)
    ]
    tree = parsed(tmp_path, text(session(*thoughts, *calls, name=NASTY[-10], model="* m"), "org"))
    turns = [h for h in tree["headlines"] if h["level"] == 1]
    assert [h["id"] for h in turns] == [m.id for m in (*thoughts, *calls)]
    assert {h["title"] for h in tree["headlines"] if h["level"] == 2} >= {"Thinking", "Said"}
    assert all(not h["tags"] and not h["todo"] for h in tree["headlines"])
    assert sorted(set(tree["live"])) == ["keyword OPTIONS", "keyword TITLE"]
    assert set(tree["links"]) <= {"http", "https"}
    assert all(not b["parameters"] and not b["header"] for b in tree["blocks"])
    assert tree["mode"] == "org-mode"
    assert tree["variables"] == 0


def test_code_tables_and_calls_are_orgs_own(tmp_path: Path) -> None:
    """Fences are source blocks with the code as it was, tables are tables, arguments are in blocks."""
    code = "* not a heading\n#+end_src\n,* comma\nprint(1)"
    made = full()
    made.add_message(message(9, "assistant", f"Look:\n```python\n{code}\n```\nand\n````\n```\ninner\n```\n````"))
    tree = parsed(tmp_path, text(made, "org"))
    values = [(b["language"], b["value"].rstrip("\n")) for b in tree["blocks"]]
    # Org gives a block's value unescaped.
    assert ("python", code) in values
    assert (None, "```\ninner\n```") in values
    assert ("python", "print('hi')") in values
    assert (None, "out\n```\nput") in values
    assert (None, "a\nb") in values
    assert tree["tables"] == 1
    assert "Calls run" in [h["title"] for h in tree["headlines"]]


def test_org_itself_answers_every_property(tmp_path: Path) -> None:
    """None has a name that Org keeps for itself, and Org's own checker finds nothing to say."""
    made = full()
    made.add_note(
        Note(tick=None, id="n", seq=50, heading="H", content="c", thread="t", timestamp="2026-01-11T14:30:22.000Z")
    )
    told = parsed(tmp_path, text(made, "org"), PROPERTIES)
    assert told["lint"] == []
    turns = [[one.timestamp, one.id, one.role, str(one.seq), None] for one in made.messages()]
    assert [one for one in told["got"] if one[1]] == turns
    assert ["2026-01-11T14:30:22.000Z", None, None, None, "t"] in told["got"]


@given(st.text(alphabet="*#+,: ab\n|[]{}", max_size=60))
def test_prose_has_no_line_of_structure(content: str) -> None:
    """No line of a message begins like a heading, keyword, drawer or comment of Org's."""
    for line in prose(content).split("\n"):
        assert not line.startswith(("* ", "** ", "#", ":a:", ": "))
        assert line.lstrip(" \t")[:2] not in ("#+", "# ")


@given(st.text(alphabet="*#+,a\n", max_size=40))
def test_escapes_in_blocks_can_be_undone(code: str) -> None:
    """Org's own rule for taking the commas away gives the code back."""
    escaped = _escaped(code)
    back = [
        line[1:] if line.startswith(",") and line.lstrip(",").startswith(("*", "#+")) else line
        for line in escaped.split("\n")
    ]
    assert "\n".join(back) == code.rstrip("\n")


@pytest.mark.parametrize("language", ["python :eval yes", "sh :results output", "c++", "", "emacs-lisp\u2028:tangle x"])
def test_a_fences_language_brings_no_arguments(language: str) -> None:
    """Only the first word counts, and only its harmless characters."""
    first = prose(f"```{language}\nx\n```").split("\n")[0]
    assert first in (
        "#+begin_src python",
        "#+begin_src sh",
        "#+begin_src c++",
        "#+begin_example",
        "#+begin_src emacs-lisp",
    )
