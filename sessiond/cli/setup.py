"""`sessiond setup EDITOR`: the lines for an editor's configuration."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click

from sessiond.endpoint import client_folder, user_home

EMACS = """\
;; Emacs 28.1 or later: M-x sessiond-new, sessiond-switch, sessiond-search
(load "{folder}/sessiond-autoloads" nil t)
;; Keep gptel chats too:
;; (add-hook 'gptel-mode-hook #'sessiond-gptel-mode)
;; Emacs 29 or later, eglot: session files get outline, diagnostics and search
;; (with-eval-after-load 'eglot
;;   (add-to-list 'eglot-server-programs '((org-mode json-mode js-json-mode) . ("sessiond"))))
"""
VIM = """\
" :SessiondNew, :SessiondSwitch, :SessiondSearch
{runtimepath}
filetype plugin on
"""
NEOVIM = """\
-- Neovim 0.7 or later: :SessiondNew, :SessiondSwitch, :SessiondSearch
vim.opt.runtimepath:prepend('{folder}')
-- Neovim 0.11 or later, the stock client: session files get outline, diagnostics and search
-- vim.lsp.config('sessiond', {{ cmd = {{ 'sessiond' }}, filetypes = {{ 'json', 'jsonl', 'org' }} }})
-- vim.lsp.enable('sessiond')
"""
LISP = """\
;; SBCL: (asdf:load-system "sessiond") (sessiond:start-repl)
(require :asdf)
(push (uiop:parse-native-namestring "{folder}/") asdf:*central-registry*)
"""
BROWSER = """\
// A web application's own conversations: ES modules without a build step, with types. Copy the folder, or let your bundler take it from there:
//   {folder}
import {{ Connection }} from "{folder}/sessiond.js"
import {{ StorageService }} from "{folder}/storage-service.js"
const connection = new Connection({{ url: "ws://127.0.0.1:8712", token }})
const storage = new StorageService({{ connection, sessionId: "my-chat" }})
// The daemon lets the application in that config.toml names:  [daemon] allowed_origins = ["http://localhost:5173"]
// and listens as long as this runs:  sessiond --ws 8712
// All sessions as a page of our own, with nothing to set up:  sessiond web
"""
VSCODE = """\
# The extension "sessiond"; codium, cursor and code-server take the same.
{install}
# Any generic LSP client extension does for session files alone; its server's command is: sessiond
"""
LINES = {"browser": BROWSER, "emacs": EMACS, "vim": VIM, "neovim": NEOVIM, "lisp": LISP, "vscode": VSCODE}
FILES = {
    "lisp": ["~/.sbclrc"],
    "emacs": ["~/.emacs", "~/.emacs.el", "~/.emacs.d/init.el", "$XDG_CONFIG_HOME/emacs/init.el"],
    "vim": ["~/.vimrc", "~/.vim/vimrc"],
    "neovim": ["$XDG_CONFIG_HOME/nvim/init.lua", "$XDG_CONFIG_HOME/nvim/init.vim"],
}
"""Where `--write` adds them: the first that is there, in the order in which the editor looks. One that was made before it in
that order would hide it."""
MADE = {"emacs": "~/.emacs.d/init.el"}
"""Which of them is made where none is there, if not the first."""
NEW = {"vim": "source $VIMRUNTIME/defaults.vim\n"}
"""What goes first into a file that is made: without any, Vim has these defaults."""


@click.command("setup", short_help="The lines for an editor's configuration.")
@click.argument("editor", type=click.Choice(sorted(LINES)))
@click.option("--write", is_flag=True, help="Add them to the configuration file, unless they are there.")
def command(editor: str, write: bool) -> int:
    """Print the lines for an editor's configuration, or add them with --write."""
    lines = lines_for(editor)
    if not write:
        print(lines, end="")
        return 0
    if editor not in FILES:
        raise click.UsageError(
            f"no configuration file of {editor} is known; print the lines and put them where they belong"
        )
    path = configuration_file(editor)
    if path.suffix == ".vim":
        lines = lines_for("vim", client_folder(editor))
    # As bytes: a configuration file may be in any encoding, and so may a path.
    added = os.fsencode(lines)
    before = path.read_bytes() if path.exists() else NEW.get(editor, "").encode()
    if added in before:
        print(f"{path} has them already")
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    # Appended, so that a link stays a link, and what somebody else writes at the same time stays.
    with path.open("ab") as file:
        file.write(b"" if path.stat().st_size else before)
        file.write((b"\n" if before and not before.endswith(b"\n") else b"") + added)
    print(f"added to {path}")
    return 0


def lines_for(editor: str, folder: str | None = None) -> str:
    """The lines, the client's folder in them as the editor's language writes a string."""
    folder = folder or client_folder(editor)
    if "\n" in folder:
        raise click.ClickException(f"{folder!r} holds a line break, which no configuration file can name")
    return LINES[editor].format(
        folder=_IN_STRING.get(editor, str)(folder), runtimepath=_runtimepath(folder), install=vscode_install()
    )


def _escaped(characters: str) -> Callable[[str], str]:
    """A backslash before each of them, as in a string of that language."""
    return lambda folder: re.sub(f"[{re.escape(characters)}]", lambda found: "\\" + found[0], folder)


_IN_RUNTIMEPATH = "\\,'`*?[]{}$"
"""Vim takes them for the end of a folder, or for a pattern."""
_IN_STRING: dict[str, Callable[[str], str]] = {
    "emacs": _escaped('\\"'),
    "lisp": _escaped('\\"'),
    "browser": _escaped('\\"'),
    "neovim": lambda folder: _escaped("\\'")(_escaped(_IN_RUNTIMEPATH)(folder)),
}


def _runtimepath(folder: str) -> str:
    """Vim's line. `:set` is what people know, and cannot take every path."""
    if re.fullmatch(r"[\w/.+@~-]+", folder, re.ASCII):
        return f"set runtimepath^={folder}"
    quoted = _escaped(_IN_RUNTIMEPATH)(folder).replace("'", "''")
    return f"let &runtimepath = '{quoted},' . &runtimepath"


def vscode_install() -> str:
    """The commands that install the VS Code extension: from the package that was built, else building it first."""
    folder = Path(client_folder("vscode"))
    package = folder / "sessiond.vsix"
    if package.is_file():
        return f"code --install-extension {shlex.quote(str(package))}"
    where = shlex.quote(str(folder)) if folder.is_dir() else "clients/vscode  # in sessiond's sources"
    return f"cd {where}\nnpm install && npm run package  # Node 22 or later\ncode --install-extension sessiond.vsix"


def configuration_file(editor: str) -> Path:
    """The file that the editor of this user reads, or will read once it is made."""
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    names = [*FILES[editor], MADE.get(editor, FILES[editor][0])]
    home = user_home(os.environ)
    paths = [Path(re.sub("^~", lambda _: home, name.replace("$XDG_CONFIG_HOME", config))) for name in names]
    return next((path for path in paths if path.exists()), paths[-1])
