"""`sessiond setup EDITOR`: the lines for an editor's configuration."""

from __future__ import annotations

import click

LINES = {
    "emacs": """\
;; Emacs 29 or later, eglot: any session file then has outline, diagnostics and search over all sessions.
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '((org-mode json-mode js-json-mode) . ("sessiond"))))
""",
    "vim": """\
" Vim 9 with a language client such as yegappan/lsp:
call LspAddServer([#{name: 'sessiond', filetype: ['json', 'jsonl', 'org'], path: 'sessiond', args: []}])
""",
    "neovim": """\
-- Neovim 0.11 or later:
vim.lsp.config('sessiond', { cmd = { 'sessiond' }, filetypes = { 'json', 'jsonl', 'org' } })
vim.lsp.enable('sessiond')
""",
    "vscode": """\
// With any generic LSP client extension: the server's command, spoken to over standard input and output.
"command": ["sessiond"]
""",
    "helix": """\
# ~/.config/helix/languages.toml
[language-server.sessiond]
command = "sessiond"
""",
}


@click.command("setup", short_help="The lines for an editor's configuration.")
@click.argument("editor", type=click.Choice(sorted(LINES)))
def command(editor: str) -> None:
    """Print the lines for an editor's configuration."""
    print(LINES[editor], end="")
