"""Lists the editors on this machine, and whether each is set up: `sessiond setup` without an argument."""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

from sessiond.cli.output import say
from sessiond.cli.setup_lines import FILES, configuration_file, lines_for, missing_lines
from sessiond.cli.vscode import EDITORS as VSCODE
from sessiond.cli.vscode import is_installed
from sessiond.endpoint import client_folder


class Editor(NamedTuple):
    """`key` is what `sessiond setup` takes; any of `programs` on the PATH means that the editor is here."""

    key: str
    title: str
    programs: tuple[str, ...]


EDITORS = (
    Editor("emacs", "Emacs", ("emacs",)),
    Editor("vim", "Vim", ("vim", "vi", "gvim")),
    Editor("neovim", "Neovim", ("nvim",)),
    Editor("vscode", "VS Code", VSCODE),
    Editor("lisp", "Common Lisp (SBCL)", ("sbcl",)),
)


def found_editors() -> list[Editor]:
    """Those on the PATH."""
    return [editor for editor in EDITORS if any(shutil.which(program) for program in editor.programs)]


def is_set_up(editor: Editor) -> bool:
    """Return whether its configuration has our lines, or VS Code our extension."""
    if editor.key not in FILES:
        return is_installed()
    path = configuration_file(editor.key)
    language = "vim" if path.suffix == ".vim" else editor.key
    try:
        return not missing_lines(
            language, os.fsencode(lines_for(language, client_folder(editor.key))), path.read_bytes()
        )
    except OSError:
        return False


def overview() -> None:
    """One line for each editor that is here, with what to run."""
    editors = found_editors()
    if not editors:
        say("No editor that sessiond knows is on the PATH. To see its lines all the same: sessiond setup EDITOR")
        say(f"EDITOR is one of {', '.join(editor.key for editor in EDITORS)}, browser.")
        return
    width = max(len(editor.title) for editor in editors) + 2
    for editor in editors:
        told = "is set up" if is_set_up(editor) else f"not set up yet: sessiond setup {editor.key} --write"
        say(f"{editor.title:<{width}}{told}")
    say()
    say("Without --write, `sessiond setup EDITOR` prints the lines, so that you can add them yourself.")
