"""The steps of a release. All of them happen in a worktree, so a release that fails leaves the checkout as it was.

checks                      a clean checkout, a later version, something to say in the changelog, the tools
version, changelog          and a golden data folder, which every later version must open
VS Code extension, site     which the wheel carries
sdist                       the wheel is built from the sdist, so nothing is missing there
wheel, tried out            in an empty environment, by the README's first command
commit, tag, dist/          left out by --dry-run
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from scripts import changelog, version, vsix

ROOT = Path(__file__).resolve().parent.parent
IN_WHEEL = (
    f"sessiond/{vsix.PACKAGE}",
    "sessiond/site/index.html",
    "sessiond/docs/how-to/keep-your-history.md",
    "/data/share/man/man1/sessiond.1",
    "/data/share/bash-completion/completions/sessiond",
    "/data/share/zsh/site-functions/_sessiond",
    "/data/share/fish/vendor_completions.d/sessiond.fish",
)
"""The ends of names that a build leaves out silently if an earlier step did not make the files."""


class Failed(Exception):
    """The release cannot be made; the text says why."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/release", description="Make a release of this checkout.")
    parser.add_argument("version", metavar="VERSION", help="MAJOR.MINOR.PATCH")
    parser.add_argument("--dry-run", action="store_true", help="do everything, and keep nothing")
    options = parser.parse_args(arguments)
    try:
        release(ROOT, options.version, dry_run=options.dry_run, day=datetime.datetime.now(datetime.UTC).date())
    except (Failed, ValueError, RuntimeError) as error:
        print(f"scripts/release: {error}", file=sys.stderr)
        return 1
    return 0


def release(root: Path, new: str, *, dry_run: bool, day: datetime.date) -> None:
    """Make the release and put it into `dist/`. Failed, ValueError or RuntimeError, and then the checkout is unchanged."""
    check(root, new, day)
    with worktree(root) as copy:
        step(f"set the version to {new} and write the changelog")
        write_texts(copy, new, day)
        step("build the VS Code extension")
        vsix.build(copy)
        step("build the site")
        build_site(copy)
        step("build the sdist, and from it the wheel")
        wheel = build(copy)
        step("install the wheel in an empty environment and run the demo")
        try_out(wheel, new, (copy / "README.md").read_text("utf-8"))
        if dry_run:
            print(f"{new} can be released. This was a dry run: nothing was kept.")
            return
        step("commit, tag and copy to dist/")
        keep(root, copy, new)
    print(f"released {new}. To publish it: git push --follow-tags, then upload dist/sessiond-{new}*")


def check(root: Path, new: str, day: datetime.date) -> None:
    """Fails before anything is made: a checkout that is not clean, a version that is not new, an empty changelog, missing tools."""
    old = version.read(root)
    if version.parse(new) < version.parse(old):
        raise Failed(f"version {new} is lower than the current {old}")
    changes = git(root, "status", "--porcelain").splitlines()
    if changes:
        raise Failed(f"the checkout is not clean; commit or remove: {', '.join(line[3:] for line in changes[:5])}")
    if git(root, "tag", "--list", f"v{new}"):
        raise Failed(f"the tag v{new} already exists")
    changelog.release((root / changelog.FILE).read_text("utf-8"), changelog.fragments(root), new, day)
    for package in ("build", "mkdocs"):
        if find_spec(package) is None:
            raise Failed(
                f"the package `{package}` is not installed in {sys.executable}; run: pip install -e '.[dev,docs]'"
            )
    vsix.check_node()


@contextlib.contextmanager
def worktree(root: Path) -> Iterator[Path]:
    """A copy of the checkout's last commit, in a folder with a blank, that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="sessiond release ") as folder:
        copy = Path(folder) / "copy"
        git(root, "worktree", "add", "--quiet", "--detach", str(copy))
        try:
            yield copy
        finally:
            git(root, "worktree", "remove", "--force", str(copy))


def write_texts(copy: Path, new: str, day: datetime.date) -> None:
    """The version in all files, the changelog with its fragments, and this version's golden data."""
    version.write(copy, new)
    fragments = changelog.fragments(copy)
    path = copy / changelog.FILE
    path.write_text(changelog.release(path.read_text("utf-8"), fragments, new, day), "utf-8")
    for fragment in fragments:
        fragment.path.unlink()
    if not (copy / "tests" / "golden_data" / f"v{new}").exists():
        run([sys.executable, "-m", "tests.golden_data.make"], copy, {**os.environ, "PYTHONPATH": str(copy)})


def build_site(copy: Path) -> None:
    """The documentation in `site/`. Failed if a link leads nowhere, or a page is in no part of the navigation."""
    run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"], copy)


def build(copy: Path) -> Path:
    """The wheel, next to the sdist from which it is built. Failed if it lacks a file."""
    run([sys.executable, "-m", "build", "--outdir", "dist"], copy)
    (wheel,) = (copy / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    missing = [name for name in IN_WHEEL if not any(one.endswith(name) for one in names)]
    if missing:
        raise Failed(f"{wheel.name} does not contain {', '.join(missing)}")
    return wheel


def try_out(wheel: Path, new: str, readme: str) -> None:
    """Run the README's first command with the wheel in place of the checkout, without this environment's Python settings."""
    line = readme.partition("```sh\n")[2].partition("\n")[0]
    command = line.replace("pip install -q .", f"pip install -q {shlex.quote(str(wheel))}")
    if command == line or "sessiond demo" not in line:
        raise Failed(f"the README's first command is not an installation and the demo: {line}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SESSIOND_", "PYTHON"))}
    with tempfile.TemporaryDirectory(prefix="sessiond trial ") as folder:
        run(["sh", "-c", command], Path(folder), kept)
        said = run([f"{folder}/.venv/bin/sessiond", "--version"], Path(folder), kept).strip()
    if said != f"sessiond {new}":
        raise Failed(f"the installed command says {said!r}, not 'sessiond {new}'")


def keep(root: Path, copy: Path, new: str) -> None:
    """Commit what changed, move the branch there, tag it, and copy the built files to `dist/`."""
    git(copy, "add", "--all")
    git(copy, "commit", "--quiet", "--message", f"Release {new}")
    commit = git(copy, "rev-parse", "HEAD").strip()
    git(root, "merge", "--quiet", "--ff-only", commit)
    git(root, "tag", "--annotate", "--message", f"sessiond {new}", f"v{new}", commit)
    (root / "dist").mkdir(exist_ok=True)
    for path in (copy / "dist").iterdir():
        shutil.copy(path, root / "dist")


def git(folder: Path, *arguments: str) -> str:
    return run(["git", *arguments], folder)


def run(command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> str:
    """What the command prints. Failed, with everything that it said, if it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise Failed(f"`{shlex.join(command)}` ended with {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def step(text: str) -> None:
    print(f"- {text}", flush=True)
