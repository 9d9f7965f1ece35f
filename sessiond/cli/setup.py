"""`sessiond setup EDITOR`: the lines for an editor's configuration."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from sessiond.endpoint import client_folder

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
set runtimepath^={folder}
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
(push #p"{folder}/" asdf:*central-registry*)
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
    lines = LINES[editor].format(folder=client_folder(editor), install=vscode_install())
    if not write:
        print(lines, end="")
        return 0
    if editor not in FILES:
        raise click.UsageError(
            f"no configuration file of {editor} is known; print the lines and put them where they belong"
        )
    path = configuration_file(editor)
    if path.suffix == ".vim":
        lines = VIM.format(folder=client_folder(editor))
    before = path.read_text() if path.exists() else NEW.get(editor, "")
    if lines in before:
        print(f"{path} has them already")
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    # Appended, so that a link stays a link, and what somebody else writes at the same time stays.
    with path.open("a") as file:
        file.write("" if path.stat().st_size else before)
        file.write(("\n" if before and not before.endswith("\n") else "") + lines)
    print(f"added to {path}")
    return 0


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
    paths = [Path(name.replace("$XDG_CONFIG_HOME", config)).expanduser() for name in names]
    return next((path for path in paths if path.exists()), paths[-1])
