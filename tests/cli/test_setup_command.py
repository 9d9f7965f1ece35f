"""`sessiond setup EDITOR --write`: writes into the file that the editor reads, once, and then the editor has the client."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sessiond.cli import jsonc
from tests.programs import need
from tests.shell import ROOT, Shell


def write(shell: Shell, editor: str) -> Path:
    """The file that it was added to."""
    done = shell("setup", editor, "--write")
    assert done.code == 0, done
    if editor in ("emacs", "vim", "neovim") and done.out.startswith("added"):
        assert "start it again, then: " in done.err and "switch" in done.err.lower()
    return Path(done.out.removeprefix("added to ").strip())


def ended(shell: Shell, *command: str) -> str:
    done = subprocess.run(
        ["timeout", "60", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=shell.env,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("editor", ["emacs", "vim", "neovim", "lisp"])
def test_once(user, editor):
    """A second time nothing is added, and what was in the file stays."""
    path = write(user, editor)
    text = path.read_text()
    path.write_text("\n" + text + "\n")
    done = user("setup", editor, "--write")
    assert done.out == f"{path} already has them\n"
    assert path.read_text() == "\n" + text + "\n"


@pytest.mark.parametrize(
    ("editor", "there"),
    [
        ("emacs", ".emacs"),
        ("emacs", ".emacs.d/init.el"),
        ("emacs", ".config/emacs/init.el"),
        ("vim", ".vim/vimrc"),
        ("neovim", ".config/nvim/init.vim"),
        ("neovim", ".config/nvim/init.lua"),
    ],
)
def test_the_file_that_is_there(user, editor, there):
    """Where the editor has its configuration in another place, that is where the lines go: none is made that would hide it."""
    path = user.path / there
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    assert write(user, editor) == path
    assert path.read_text().startswith("mine\n")


def test_without_an_editor_it_says_which_are_here(user, tmp_path):
    """Each editor on the PATH has a line that says whether it is set up, or what to run; others have none."""
    for name in ("emacs", "vim", "code"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    user.env["PATH"] = str(tmp_path)
    done = user("setup")
    assert done.code == 0, done
    assert "Emacs    not set up yet: sessiond setup emacs --write\n" in done.out
    assert "sessiond setup vscode --write" in done.out
    assert "Neovim" not in done.out
    write(user, "emacs")
    extension = user.path / ".vscode" / "extensions" / "sessiond.sessiond-0.1.0"
    extension.mkdir(parents=True)
    shown = user("setup").out
    assert "Emacs    is set up\n" in shown
    assert "VS Code  is set up\n" in shown
    assert "sessiond setup vim --write" in shown
    user.env["PATH"] = "/nonexistent"
    assert "No editor that sessiond knows" in user("setup").out
    assert user("setup", "--write").code == 2


def test_no_file_is_known(user):
    """A program in the browser has no configuration file: the command says so and touches nothing."""
    done = user("setup", "browser", "--write")
    assert done.code == 2
    assert not [path for path in user.path.iterdir() if path.name.startswith(".")]


def test_emacs(user):
    """Emacs, started as usual, has the commands."""
    path = write(user, "emacs")
    assert path == user.path / ".emacs.d" / "init.el"
    form = "(unless (commandp 'sessiond-new) (kill-emacs 1))"
    ended(user, need("emacs"), "--batch", "-l", str(path), "--eval", form)


def test_vim(user):
    """Vim, started as usual, has the commands, and still its defaults."""
    assert write(user, "vim") == user.path / ".vimrc"
    test = user.path / "test.vim"
    test.write_text("if exists(':SessiondNew') != 2 || !&incsearch | cquit | endif\nqall!\n")
    ended(user, need("vim"), "-es", "-u", str(user.path / ".vimrc"), "-S", str(test))


@pytest.mark.parametrize("name", ["init.lua", "init.vim"])
def test_neovim(user, name):
    """Neovim, started as usual, has the commands, whichever language its configuration is in."""
    path = user.path / ".config" / "nvim" / name
    path.parent.mkdir(parents=True)
    path.touch()
    assert write(user, "neovim") == path
    check = "if exists(':SessiondNew') != 2 | cquit | endif"
    ended(user, need("nvim"), "--headless", "-i", "NONE", "-c", check, "-c", "qall!")


def test_lisp(user):
    """SBCL, started as usual, finds the system."""
    path = write(user, "lisp")
    assert path == user.path / ".sbclrc"
    need("sbcl")
    form = '(sb-ext:exit :code (if (asdf:find-system "sessiond" nil) 0 1))'
    ended(user, "sbcl", "--noinform", "--non-interactive", "--eval", form)


WORDS = {
    "emacs": [
        "emacs", "--batch", "-l", ".emacs.d/init.el", "--eval", "(require 'sessiond)",
        "--eval", '(write-region (car sessiond-server) nil "program")',
    ],
    "vim": ["vim", "-es", "-u", ".vimrc", "-c", "call writefile(sessiond#client#Command(), 'program')", "-c", "qall!"],
    "neovim": [
        "nvim", "--headless", "-i", "NONE",
        "-c", "call writefile(luaeval('require(\"sessiond.client\").command()'), 'program')", "-c", "qall!",
    ],
    "lisp": [
        "sbcl", "--noinform", "--non-interactive", "--userinit", ".sbclrc",
        "--eval", '(asdf:load-system "sessiond")',
        "--eval", '(with-open-file (out "program" :direction :output) (write-line (uiop:symbol-call :sessiond :program) out))',
    ],
}  # fmt: skip
"""The client of each editor writes into a file which program it would start."""


@pytest.mark.parametrize("editor", WORDS)
def test_the_program_that_is_not_on_the_path(user, editor):
    """The README's installation is in an environment of its own, and editors start from the desktop: the lines say where it is.

    A line that was moved, or that somebody wrote before, is not written twice.
    """
    program, *arguments = WORDS[editor]
    found = need(program)
    script = Path(sys.executable).with_name("sessiond")
    env = {**user.env, "PATH": "/usr/bin:/bin", "VIRTUAL_ENV": str(script.parent.parent)}
    # As after `activate`: only this shell has it on its PATH.
    active = {**env, "PATH": f"{script.parent}:{env['PATH']}"}
    done = subprocess.run([script, "setup", editor, "--write"], env=active, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.removeprefix("added to ").strip())
    assert str(script) in path.read_text()
    done = subprocess.run(
        ["timeout", "60", found, *arguments], cwd=user.path, env=env, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (user.path / "program").read_text().strip() == str(script), done.stdout + done.stderr
    lines = path.read_text().splitlines()
    told = [line for line in lines if str(script) in line and not line.startswith((";", "--"))]
    assert len(told) == 1
    path.write_text("\n".join(reversed(lines)))
    done = subprocess.run([script, "setup", editor, "--write"], env=active, capture_output=True, text=True, check=False)
    assert done.stdout == f"{path} already has them\n"
    path.write_text("\n".join(line for line in lines if line not in told) + "\n")
    subprocess.run([script, "setup", editor, "--write"], env=active, capture_output=True, check=True)
    assert sorted(path.read_text().splitlines()) == sorted(lines)


def installed_in(shell: Shell, name: str) -> None:
    """As if the package were installed in a folder of that name."""
    place = shell.path / name
    place.mkdir()
    shutil.copytree(ROOT / "sessiond", place / "sessiond", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "clients", place / "clients", ignore=shutil.ignore_patterns("node_modules", "*.elc"))
    shell.env["PYTHONPATH"] = str(place)


ODD = ["a b", "it's", 'a "b"', "a,b", "back\\slash", "日本 |x", "a[b]*"]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("editor", ["emacs", "vim", "neovim", "lisp"])
def test_23_any_folder(user, editor, name):
    """The lines hold for a package in a folder of any name: a blank, a quote, a comma, a backslash."""
    installed_in(user, name)
    {"emacs": test_emacs, "vim": test_vim, "neovim": lambda user: test_neovim(user, "init.lua"), "lisp": test_lisp}[
        editor
    ](user)


@pytest.mark.parametrize("content", [b'" Gr\xfc\xdfe\n', b"\xff\xfe", b"no line end \xe9"])
def test_23_a_configuration_in_any_encoding(user, content):
    """The file's content remains, byte by byte."""
    (user.path / ".vimrc").write_bytes(content)
    path = write(user, "vim")
    text = path.read_bytes()
    assert text.startswith(content)
    assert b"runtimepath" in text
    assert user("setup", "vim", "--write").out == f"{path} already has them\n"


def editor(shell: Shell, name: str, script: str) -> None:
    """A command on the user's PATH, which has nothing else but the system's programs."""
    folder = shell.path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    shell.env["PATH"] = f"{folder}:/bin"


def packaged(shell: Shell) -> Path:
    """The extension of a package in a folder with a blank."""
    installed_in(shell, "a b")
    path = shell.path / "a b" / "clients" / "vscode" / "sessiond.vsix"
    path.write_bytes(b"PK")
    return path


def test_vscode_gets_the_package(user):
    """The first editor that is there installs it; the output names the command for another one."""
    package = packaged(user)
    editor(user, "codium", 'printf "%s\\n" "$@" >"$HOME/arguments"')
    editor(user, "cursor", "exit 1")
    editor(user, "sessiond", "exit 1")
    done = user("setup", "vscode", "--write")
    assert done.code == 0, done
    assert (user.path / "arguments").read_text() == f"--install-extension\n{package}\n"
    assert not list(user.path.rglob("settings.json"))
    assert done.out.splitlines() == [
        "installed with codium; reload the windows that are open",
        f"for cursor: cursor --install-extension '{package}'",
    ]


SETTINGS = {
    "code": ".config/Code/User/settings.json",
    "codium": ".config/VSCodium/User/settings.json",
    "code-server": ".local/share/code-server/User/settings.json",
}


@pytest.mark.skipif(sys.platform == "darwin", reason="the settings are elsewhere there")
@pytest.mark.parametrize("name", SETTINGS)
def test_vscode_learns_where_the_program_is(user, name):
    """Where it is not on the PATH: one more setting, and the rest of the file as it was; what a person set stays."""
    packaged(user)
    editor(user, name, "exit 0")
    path = user.path / SETTINGS[name]
    path.parent.mkdir(parents=True)
    path.write_text('{\n    // mine\n    "a": 1,\n}\n')
    done = user("setup", "vscode", "--write")
    assert done.code == 0, done
    assert f"{path} says where the program is" in done.out
    assert jsonc.loads(path.read_text()) == {
        "a": 1, "sessiond.path": sys.executable, "sessiond.arguments": ["-m", "sessiond", "--stdio"]
    }  # fmt: skip
    assert '    // mine\n    "a": 1,\n}\n' in path.read_text()
    path.write_text('{"sessiond.path": "~/mine"}')
    assert user("setup", "vscode", "--write").code == 0
    assert path.read_text() == '{"sessiond.path": "~/mine"}'
    path.write_text("[")
    done = user("setup", "vscode", "--write")
    assert done.code == 1
    assert "cannot be changed safely" in done.err and "sessiond.path" in done.err
    assert path.read_text() == "["


def test_vscode_says_why_not(user):
    """No editor, an editor that fails, and a package that was never built are errors that say what to do."""
    package = packaged(user)
    user.env["PATH"] = "/bin"
    done = user("setup", "vscode", "--write")
    assert done.code == 1
    assert "none of code, codium" in done.err
    assert f"choose {package}" in done.err
    editor(user, "code", "echo the disk is full >&2; exit 3")
    done = user("setup", "vscode", "--write")
    assert (done.code, done.err) == (1, "sessiond: code could not install the extension: the disk is full\n")
    package.unlink()
    done = user("setup", "vscode", "--write")
    assert done.code == 1
    assert "does not contain the built extension; `sessiond setup vscode` prints how to build it" in done.err
