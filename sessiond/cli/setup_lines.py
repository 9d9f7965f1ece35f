"""The configuration lines of each editor, and the file in which each looks for them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from sessiond import installation
from sessiond.cli import vscode
from sessiond.endpoint import APP, client_folder, user_home

EMACS = """\
;; Emacs 28.1 or later: M-x sessiond-new, sessiond-switch, sessiond-search
{program}(load "{folder}/sessiond-autoloads" nil t)
;; Keep gptel chats too:
;; (add-hook 'gptel-mode-hook #'sessiond-gptel-mode)
;; Emacs 29 or later, eglot: session files get outline, diagnostics and search
;; (with-eval-after-load 'eglot
;;   (add-to-list 'eglot-server-programs '((org-mode json-mode js-json-mode) . {command})))
"""
VIM = """\
" :SessiondNew, :SessiondSwitch, :SessiondSearch
{program}{runtimepath}
filetype plugin on
"""
NEOVIM = """\
-- Neovim 0.7 or later: :SessiondNew, :SessiondSwitch, :SessiondSearch
{program}vim.opt.runtimepath:prepend('{folder}')
-- Neovim 0.11 or later, the stock client: session files get outline, diagnostics and search
-- vim.lsp.config('sessiond', {{ cmd = {command}, filetypes = {{ 'json', 'jsonl', 'org' }} }})
-- vim.lsp.enable('sessiond')
"""
LISP = """\
;; SBCL: (asdf:load-system "sessiond") (sessiond:start-repl)
(require :asdf)
(push (uiop:parse-native-namestring "{folder}/") asdf:*central-registry*)
{program}"""
BROWSER = """\
// For a web application's own conversations: ES modules with types, no build step. Copy the folder, or point your bundler at it:
//   {folder}
import {{ Connection }} from "{folder}/sessiond.js"
import {{ StorageService }} from "{folder}/storage-service.js"
const connection = new Connection({{ url: "ws://127.0.0.1:8712", token }})
const storage = new StorageService({{ connection, sessionId: "my-chat" }})
// The daemon accepts the applications that config.toml lists:  [daemon] allowed_origins = ["http://localhost:5173"]
// It listens as long as this runs:  sessiond --ws 8712
// A ready-made page with all sessions, with nothing to set up:  sessiond web
"""
VSCODE = """\
# The extension "sessiond"; codium, cursor and code-server take the same.
{install}
# For session files alone, any generic LSP client extension works; set its server command to: {command}
"""
LINES = {"browser": BROWSER, "emacs": EMACS, "vim": VIM, "neovim": NEOVIM, "lisp": LISP, "vscode": VSCODE}
FILES = {
    "lisp": ["~/.sbclrc"],
    "emacs": ["~/.emacs", "~/.emacs.el", "~/.emacs.d/init.el", "$XDG_CONFIG_HOME/emacs/init.el"],
    "vim": ["~/.vimrc", "~/.vim/vimrc"],
    "neovim": ["$XDG_CONFIG_HOME/nvim/init.lua", "$XDG_CONFIG_HOME/nvim/init.vim"],
}
"""Where `--write` adds them: the first file that exists, in the order in which the editor looks. A new file earlier in that
order would hide it."""
MADE = {"emacs": "~/.emacs.d/init.el"}
"""Which file is created if none exists, if not the first."""
NEW = {"vim": "source $VIMRUNTIME/defaults.vim\n"}
"""What a newly created file begins with: Vim loads these defaults only if there is no such file."""


def lines_for(editor: str, folder: str | None = None) -> str:
    """The lines, with the client's folder quoted as the editor's language needs it, and with this installation's program where
    an editor does not find it by its name.
    """
    folder = folder or client_folder(editor)
    words = (APP,) if installation.is_on_path(os.environ) else installation.command()
    for part in (folder, *words):
        if "\n" in part:
            raise click.ClickException(f"{part!r} contains a line break, which a configuration file cannot express")
    return LINES[editor].format(
        folder=_IN_STRING.get(editor, str)(folder),
        runtimepath=_runtimepath(folder),
        install=vscode.install_lines(),
        command=_WORDS.get(editor, shlex.join)(words),
        program=_PROGRAM[editor](words) if editor in _PROGRAM and words != (APP,) else "",
    )


def missing_lines(editor: str, lines: bytes, there: bytes) -> bytes:
    """Return what the configuration `there` lacks of the lines: all of them, those that do something, or nothing.

    Comments do not count, and neither does where a line stands, so that nothing is added twice that a person moved.
    """
    present = {line.strip() for line in there.splitlines()}
    kept = lines.splitlines(keepends=True)
    active = [line for line in kept if line.strip() and not line.startswith(_COMMENTS[editor])]
    absent = [line for line in active if line.strip() not in present]
    return lines if absent == active else b"".join(absent)


def _escaped(characters: str) -> Callable[[str], str]:
    """Puts a backslash before each of the characters."""
    return lambda folder: re.sub(f"[{re.escape(characters)}]", lambda found: "\\" + found[0], folder)


_IN_RUNTIMEPATH = "\\,'`*?[]{}$"
"""To Vim these end a folder's name or make a pattern."""
_IN_STRING: dict[str, Callable[[str], str]] = {
    "emacs": _escaped('\\"'),
    "lisp": _escaped('\\"'),
    "browser": _escaped('\\"'),
    "neovim": lambda folder: _escaped("\\'")(_escaped(_IN_RUNTIMEPATH)(folder)),
}


_COMMENTS = {"emacs": b";", "vim": b'"', "neovim": b"--", "lisp": b";"}


def _listed(opening: str, between: str, closing: str, quoted: Callable[[str], str]) -> Callable[[Sequence[str]], str]:
    """A list of strings as a language writes it."""
    return lambda words: opening + between.join(map(quoted, words)) + closing


def _in_single(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"


def _in_lua(word: str) -> str:
    return "'" + _escaped("\\'")(word) + "'"


def _in_double(word: str) -> str:
    return '"' + _escaped('\\"')(word) + '"'


_WORDS: dict[str, Callable[[Sequence[str]], str]] = {
    "emacs": _listed("(", " ", ")", _in_double),
    "vim": _listed("[", ", ", "]", _in_single),
    "neovim": _listed("{ ", ", ", " }", _in_lua),
}
_PROGRAM: dict[str, Callable[[Sequence[str]], str]] = {
    "emacs": lambda words: f"(setq sessiond-server '{_WORDS['emacs'](words)})\n",
    "vim": lambda words: f"let g:sessiond_command = {_WORDS['vim'](words)}\n",
    "neovim": lambda words: f"vim.g.sessiond_command = {_WORDS['neovim'](words)}\n",
    # Its client takes a program without arguments.
    "lisp": lambda words: f'(setf (uiop:getenv "SESSIOND") {_in_double(words[0])})\n' if len(words) == 1 else "",
}
"""The line that tells a client which program to start."""


def _runtimepath(folder: str) -> str:
    """Vim's line. `:set` is what people know, but it cannot take every path."""
    if re.fullmatch(r"[\w/.+@~-]+", folder, re.ASCII):
        return f"set runtimepath^={folder}"
    quoted = _escaped(_IN_RUNTIMEPATH)(folder).replace("'", "''")
    return f"let &runtimepath = '{quoted},' . &runtimepath"


def configuration_file(editor: str) -> Path:
    """The file that this user's editor reads, or will read once it exists."""
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    names = [*FILES[editor], MADE.get(editor, FILES[editor][0])]
    home = user_home(os.environ)
    paths = [Path(re.sub("^~", lambda _: home, name.replace("$XDG_CONFIG_HOME", config))) for name in names]
    return next((path for path in paths if path.exists()), paths[-1])
