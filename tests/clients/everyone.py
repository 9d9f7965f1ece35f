"""Every client as people use it, at a terminal, and what a test must know about each to treat all alike."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest

from tests.clients.tmux import Terminal
from tests.clients.vims import ROOT, House, neovim, neovims, vim
from tests.programs import need


@dataclass(frozen=True)
class Hands:
    """How a person uses one client. `command` opens the session of that id."""

    name: str
    command: Callable[[House, str], list[str]]
    begin_typing: tuple[str, ...] = ()
    """Keys that lead to where a message is typed."""
    send: tuple[str, ...] = ("Enter",)
    """Keys that send what was typed."""
    draft: str = ""
    """The key of its drafts."""


def emacs(at: House, session: str) -> list[str]:
    """Emacs in the terminal, with the lines of `sessiond setup emacs`; what waits for the daemon is written down."""
    path = at.path / "init.el"
    path.write_text(EMACS_INIT.format(client=ROOT / "clients" / "emacs", waits=at.path / "waits"))
    form = f'(sessiond-chat-open "{session}")'
    return [need("emacs"), "-nw", "-Q", "-l", str(path), "--eval", form, "--eval", "(write-down-waits)"]


EMACS_INIT = """\
(setq inhibit-startup-screen t)
(setq native-comp-deferred-compilation nil native-comp-jit-compilation nil) ; it waits for its compilers
(set-language-environment "UTF-8")
(load "{client}/sessiond-autoloads" nil t)
(autoload 'sessiond-chat-open "sessiond-chat")
(defun write-down-waits ()
  "From here on, waiting for a process leaves a line in a file."
  (dolist (function '(accept-process-output sleep-for))
    (advice-add function :before
                (lambda (&rest _)
                  (let ((callers (delq nil (mapcar (lambda (frame) (and (symbolp (cadr frame)) (cadr frame)))
                                                   (backtrace-frames)))))
                    ;; Emacs compiles what makes this advice hold in built-in code, and waits for that.
                    (unless (memq 'comp-accept-and-process-async-output callers)
                      (write-region (format "waited: %s\\n" callers) nil "{waits}" t 'silent)))))))
"""


def in_vim(at: House, session: str) -> list[str]:
    """Vim; its channels' log goes where waits are written down, and has a line for each blocking read."""
    log = f"call ch_logfile('{at.path / 'channel.log'}', 'a')"
    need("vim")
    return vim(at, "--cmd", log, f"sessiond://{session}")


def in_neovim(nvim: str) -> Callable[[House, str], list[str]]:
    def command(at: House, session: str) -> list[str]:
        path = at.path / "waits.lua"
        path.write_text(NEOVIM_WAITS.format(waits=at.path / "waits"))
        return neovim(at, need(nvim), "--cmd", f"luafile {path}", f"sessiond://{session}")

    return command


NEOVIM_WAITS = """\
local wait = vim.wait
vim.wait = function(...)
  local file = assert(io.open('{waits}', 'a'))
  file:write('waited\\n')
  file:close()
  return wait(...)
end
"""


def terminal(at: House, session: str) -> list[str]:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "clients" / "repl")))
    command = [sys.executable, "-m", "sessiond", "repl", "--session-id", session]
    return ["env", f"PYTHONPATH={paths}", *command]


def lisp(at: House, session: str) -> list[str]:
    """SBCL with the system loaded, in `start-repl`."""
    return [*lisp_command(at), "--eval", f'(sessiond:start-repl :session-id "{session}")', "--quit"]


def lisp_command(at: House) -> list[str]:
    """SBCL with the system loaded."""
    folder = ROOT / "clients" / "lisp"
    return [
        "env", f"XDG_CACHE_HOME={_lisp_cache()}", need_lisp(), "--noinform", "--no-userinit", "--disable-debugger",
        "--eval", "(require :asdf)", "--eval", f'(push #p"{folder}/" asdf:*central-registry*)',
        "--eval", '(let ((*standard-output* (make-broadcast-stream))) (asdf:load-system "sessiond"))',
    ]  # fmt: skip


def need_lisp() -> str:
    """The path of SBCL. Skips where it, or what the client depends on, is not installed; fails under CI=true."""
    sbcl = need("sbcl")
    if not _has_systems(sbcl):
        reason = "cl-yason and cl-bordeaux-threads are not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return sbcl


@cache
def _has_systems(sbcl: str) -> bool:
    wanted = '(sb-ext:exit :code (if (every (lambda (name) (asdf:find-system name nil)) (list "yason" "bordeaux-threads")) 0 1))'
    command = [sbcl, "--noinform", "--non-interactive", "--eval", "(require :asdf)", "--eval", wanted]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def _lisp_cache() -> str:
    """One for all tests, so that the system is compiled once; asdf sees what has changed."""
    path = ROOT / ".pytest_cache" / "lisp"
    path.mkdir(parents=True, exist_ok=True)
    return str(path)


EMACS = Hands("emacs", emacs, (), ("C-c", "C-c"), "draft:emacs")
VIM = Hands("vim", in_vim, ("i",), ("Escape", "Enter"), "draft:vim")
TERMINAL = Hands("terminal", terminal, draft="draft:repl")
LISP = Hands("lisp", lisp, draft="draft:lisp")


def neovim_hands() -> list[Hands]:
    """One for each Neovim that is there."""
    return [
        Hands(f"neovim-{version}", in_neovim(path), ("i",), ("Escape", "Enter"), "draft:neovim")
        for path, version in neovims()
    ]


def everyone() -> list[Hands]:
    """All clients, Neovim in every version that is there."""
    return [EMACS, VIM, *(neovim_hands() or [Hands("neovim", in_neovim("nvim"))]), TERMINAL, LISP]


def parametrized(hands: list[Hands]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("hands", hands, ids=lambda one: one.name)


def opened(at: House, hands: Hands, session: str, label: str) -> Terminal:
    """The client at a terminal, with that session shown: `label` is what its status line says."""
    need("tmux")
    made = at.terminal(*hands.command(at, session))
    made.shows(label)
    return made


def type_text(hands: Hands, at: Terminal, text: str) -> None:
    at.type("", *hands.begin_typing)
    at.type(text)


def say(hands: Hands, at: Terminal, text: str) -> None:
    """Type it and send it."""
    type_text(hands, at, text)
    at.type("", *hands.send)
