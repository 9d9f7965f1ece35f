"""The Emacs client, in a real Emacs against a real daemon. The tests are in clients/emacs/test."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.programs import need
from tests.shell import ROOT, Shell, wait_until

CLIENT = ROOT / "clients" / "emacs"
SOURCES = sorted(path for path in CLIENT.glob("sessiond*.el") if path.name != "sessiond-autoloads.el")
SUITES = sorted(path.stem for path in (CLIENT / "test").glob("*-test.el"))
SUITE_S = 90
LINTED_AWAY = ("Homepage or URL header", "uninstallable in all released Emacs")
"""What package-lint says of any package without a home page, and of any that needs Emacs 28."""


class Emacs:
    """Batch Emacs with the client, in one home."""

    def __init__(self, shell: Shell, load_path: Path) -> None:
        self.home = shell
        self.load_path = load_path
        program = shell.path / "sessiond"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sessiond "$@"\n')
        program.chmod(0o755)
        self.env = {
            **shell.env,
            "SESSIOND": str(program),
            "SESSIOND_WIRE": str(ROOT / "tests" / "wire"),
            "LC_ALL": "C.UTF-8",
        }

    def command(self, library: str, form: str) -> list[str]:
        paths = ["-L", str(self.load_path), "-L", str(CLIENT / "test")]
        return ["timeout", str(SUITE_S), need("emacs"), "-Q", "--batch", *paths, "-l", library, "--eval", form]

    def start(self, form: str, library: str = "sessiond-live") -> subprocess.Popen[str]:
        # With SIGPIPE ignored, as an Emacs with a display ignores it: in batch mode one that writes to a relay that was killed just
        # then would die.
        return subprocess.Popen(
            self.command(library, form), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.env, cwd="/", encoding="utf-8", restore_signals=False,
        )  # fmt: skip

    def run(self, form: str, library: str = "sessiond-live") -> str:
        return ended(self.start(form, library))


def ended(process: subprocess.Popen[str]) -> str:
    """Returns its output; fails with all of it unless the program succeeded."""
    out, err = process.communicate(timeout=SUITE_S + 10)
    assert process.returncode == 0, out + (err or "")
    return out


def quoted(text: str) -> str:
    """A string as Emacs Lisp reads it."""
    return json.dumps(text, ensure_ascii=False)


def batch(*arguments: str, cwd: Path | str = "/") -> subprocess.CompletedProcess[str]:
    """`emacs --batch ARGUMENTS`, waited for."""
    command = [need("emacs"), "--batch", *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=60, cwd=cwd, check=False
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder with the client, byte-compiled with every warning an error."""
    folder = tmp_path_factory.mktemp("elc")
    for source in SOURCES:
        shutil.copy(source, folder)
    files = [str(folder / source.name) for source in SOURCES]
    strict = "(setq byte-compile-error-on-warn t)"
    done = batch("-Q", "-L", str(folder), "--eval", strict, "-f", "batch-byte-compile", *files)
    assert done.returncode == 0, done.stderr
    return folder


def test_23_the_tests_compile_without_a_warning(compiled, tmp_path):
    """As the client itself does."""
    sources = sorted((SOURCES[0].parent / "test").glob("*.el"))
    for source in sources:
        shutil.copy(source, tmp_path)
    strict = "(setq byte-compile-error-on-warn t)"
    files = [str(tmp_path / source.name) for source in sources]
    folders = ["-L", str(compiled), "-L", str(tmp_path)]
    with_home = f'(setenv "SESSIOND_HOME" "{tmp_path}")'  # the files want to know that nobody's own home is meant
    done = batch("-Q", *folders, "--eval", strict, "--eval", with_home, "-f", "batch-byte-compile", *files)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def emacs(shell, compiled):
    return Emacs(shell, compiled)


@pytest.mark.parametrize("suite", SUITES)
def test_suite(emacs, suite):
    """Every ERT test passes; none is missing."""
    out = ended(
        subprocess.Popen(
            emacs.command(suite, "(ert-run-tests-batch-and-exit)"), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=emacs.env, cwd="/", encoding="utf-8",
        )
    )  # fmt: skip
    ran = re.search(r"^Ran (\d+) tests, (\d+) results as expected", out, re.MULTILINE)
    assert ran, out
    assert 0 < int(ran[1]) == int(ran[2]), out


def test_live_with_another_client(emacs, shell):
    """Emacs and a script see each other's messages while both have the session open."""
    with shell.client() as client:
        client.call("session/new", {"sessionId": "shared"})
        process = emacs.start(f'(sessiond-live-exchange "shared" {quoted("Emacsから 😀")} {quoted("返事 ✅")})')
        wait_until(lambda: client.call("session/read", {"sessionId": "shared"})["messages"])
        said = client.call("session/read", {"sessionId": "shared"})["messages"][0]
        assert (said["role"], said["content"]) == ("user", "Emacsから 😀")
        reply = {"role": "assistant", "content": "返事 ✅"}
        client.call("session/append", {"sessionId": "shared", "messages": [reply]})
        shown = ended(process)
    assert shown.index("Emacsから 😀") < shown.index("返事 ✅")


def test_two_emacsen(emacs, shell):
    """Both Emacsen show each other's messages, in the same order."""
    shell("new", "--id", "shared")
    one = emacs.start('(sessiond-live-exchange "shared" "from one" "from two")')
    two = emacs.start('(sessiond-live-exchange "shared" "from two" "from one")')
    texts = [re.findall(r"^from .*", ended(process), re.MULTILINE) for process in (one, two)]
    assert texts[0] == texts[1]
    assert sorted(texts[0]) == ["from one", "from two"]


def draft(shell: Shell, session: str) -> str | None:
    with shell.client() as client:
        return client.call("state/get", {"sessionId": session})["values"].get("draft:emacs")


def test_draft_survives_the_death_of_emacs(emacs, shell):
    """What was typed and not sent is there again after kill -9 of Emacs."""
    shell("new", "--id", "kept")
    text = "まだ送っていない 🚀\nsecond line"
    process = emacs.start(f'(sessiond-live-type "kept" {quoted(text)})')
    wait_until(lambda: draft(shell, "kept") == text)
    os.killpg(process.pid, signal.SIGKILL)  # `timeout` leads a group of its own
    process.communicate()
    assert emacs.run('(sessiond-live-input "kept")') == text


def test_stop_says_that_emacs_is_attached(emacs, shell):
    """And that it may start the daemon again, which it does."""
    shell("new", "--id", "kept")
    process = emacs.start('(sessiond-live-type "kept" "words")')
    wait_until(lambda: draft(shell, "kept") == "words")
    before = shell("status", "--json").json["pid"]
    done = shell("stop")
    assert done.code == 0
    assert re.fullmatch(
        rf"the daemon \(pid {before}\) has stopped; emacs was connected and (may start|has started) it again.*\n",
        done.out,
    )
    wait_until(lambda: shell("status", "--json").json["pid"] != before)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_draft_survives_leaving(emacs, shell):
    """Leaving Emacs keeps the draft without waiting for its timer."""
    shell("new", "--id", "kept")
    emacs.run('(sessiond-live-leave "kept" "typed last")')
    assert draft(shell, "kept") == "typed last"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_checkdoc(source):
    """Checkdoc has nothing to say."""
    done = batch("-Q", "--eval", f"(checkdoc-file {quoted(str(source))})")
    assert done.returncode == 0
    assert "Warning" not in done.stderr, done.stderr


def test_package_lint():
    """package-lint has nothing to say but of the home page."""
    form = '(progn (require (quote package-lint)) (setq package-lint-main-file "sessiond.el"))'
    if batch("--eval", form).returncode:
        missing("package-lint is not installed (Debian: elpa-package-lint)")
    done = batch("--eval", form, "-f", "package-lint-batch-and-exit", *(path.name for path in SOURCES), cwd=CLIENT)
    said = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r": (error|warning): ", line)]
    assert not [line for line in said if not any(known in line for known in LINTED_AWAY)], said


def missing(reason: str) -> NoReturn:
    """As `need` does it: a test that cannot run here is skipped, but not in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def test_autoloads():
    """Loading sessiond-autoloads is all that a configuration needs: it names every autoload there is, and they load."""
    cookies = r";;;###autoload\n\((?:cl-defun|defun|define-minor-mode) (\S+)"
    names = sorted(name for path in SOURCES for name in re.findall(cookies, path.read_text()))
    text = (CLIENT / "sessiond-autoloads.el").read_text()
    assert sorted(re.findall(r"\(autoload '(\S+)", text)) == names
    form = f"(mapc (lambda (f) (autoload-do-load (symbol-function f)) (or (fboundp f) (error f))) '({' '.join(names)}))"
    done = batch("-Q", "-l", str(CLIENT / "sessiond-autoloads"), "--eval", form)
    assert done.returncode == 0, done.stderr
