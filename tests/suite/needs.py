"""What must be installed for the tests that somebody wants to run: `python -m tests.suite.needs [arguments of pytest]`.

Prints words for `tests/run`: `apt:PACKAGE`, `extra:NAME` of this project, and names of the installers that it knows. Only the
standard library, because nothing is installed yet.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def _apt(*packages: str) -> set[str]:
    return {f"apt:{package}" for package in packages}


_EMACS = _apt("emacs-nox", "elpa-eglot", "elpa-package-lint")
_VIM = {*_apt("vim", "vim-ale", "neovim"), "neovim"}
_LISP = _apt("sbcl", "cl-yason", "cl-trivial-gray-streams", "cl-usocket", "cl-bordeaux-threads")
_NODE = _apt("nodejs", "npm")
_CHROMIUM = _apt("chromium")
_POSTGRES = _apt("postgresql-common", "postgresql", "pgbouncer")
_SEMANTIC = {"extra:semantic", *_apt("ripgrep")}

ALWAYS = {"apt:git", "extra:dev"}

# The longest beginning of a path that is here decides.
NEEDS: dict[str, set[str]] = {
    "tests": set(),
    "tests/adapters": {*_NODE, "ai"},
    "tests/agent_host": {*_NODE, *_CHROMIUM, "vscode"},
    "tests/agents": {*_NODE, *_EMACS, *_apt("tmux"), "agents"},
    "tests/autostart": _apt("systemd"),
    "tests/bench": {*_POSTGRES, *_SEMANTIC, *_NODE, *_CHROMIUM, *_apt("strace", "emacs-nox", "vim")},
    "tests/cli": {*_EMACS, *_VIM, *_LISP, *_POSTGRES},
    "tests/clients": {
        *_EMACS, *_VIM, *_LISP, *_NODE, *_CHROMIUM, *_apt("firefox-esr", "tmux", "netcat-openbsd"), "vscode",
    },
    "tests/exporters": _EMACS,
    "tests/faults": _apt("strace", "faketime", "e2fsprogs"),
    "tests/formats": {*_EMACS, *_LISP, *_NODE},
    "tests/hub": _POSTGRES,
    "tests/index": _SEMANTIC,
    "tests/mcp": {*_NODE, "extra:semantic", "inspector"},
    "tests/planted": {*_POSTGRES, *_SEMANTIC, *_EMACS, *_LISP, *_NODE, *_apt("strace")},
    "tests/scenarios": {*_EMACS, *_LISP, *_NODE},
    "tests/scripts": {*_NODE, *_apt("man-db", "zsh", "fish", "bash-completion"), "extra:docs", "vscode"},
    "tests/shared": {*_POSTGRES, *_CHROMIUM, *_EMACS, *_VIM, *_LISP, *_NODE, *_apt("faketime")},
    "tests/site": {*_CHROMIUM, *_POSTGRES, "extra:docs"},
    "tests/surroundings": _apt("locales", "xfsprogs", "btrfs-progs", "bindfs", "e2fsprogs"),
}  # fmt: skip


def needed(paths: Iterable[str]) -> set[str]:
    """Words, for files, folders and tests. None: for all."""
    paths = list(paths)
    if not paths or "tests" in paths:
        return ALWAYS.union(*NEEDS.values())
    return ALWAYS.union(*map(_needed, paths))


def _needed(path: str) -> set[str]:
    name = path.partition("::")[0].rstrip("/")
    while name not in NEEDS:
        name = name.rpartition("/")[0] or "tests"
    return NEEDS[name]


def main(arguments: Sequence[str]) -> int:
    print("\n".join(sorted(needed(one for one in arguments if one.startswith("tests")))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
