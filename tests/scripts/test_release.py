"""A release is one command, and one that fails leaves the checkout as it was."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import releasing, version, vsix
from tests.clients.vscodes import NODE
from tests.programs import need
from tests.shell import ROOT

DAY = datetime.date(2026, 3, 1)
RELEASE_S = 600


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files of this checkout, as they are now, in a repository with one commit, in a folder with a blank."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout")
    copy = tmp_path / "a checkout"
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    git(copy, "init", "--quiet", "--initial-branch=main")
    git(copy, "config", "user.name", "somebody")
    git(copy, "config", "user.email", "somebody@localhost")
    git(copy, "add", "--all")
    git(copy, "commit", "--quiet", "--message", "All of it")
    return copy


@pytest.fixture
def with_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Node that is new enough first on the PATH. Skips where none is installed; fails with CI=true."""
    need("npm")
    if NODE.exists():
        monkeypatch.setenv("PATH", f"{NODE.parent}{os.pathsep}{os.environ['PATH']}")
    try:
        vsix.check_node()
    except RuntimeError as error:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{error}: sh tests/clients/vscode_install")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The slow steps replaced; the list of those that ran."""
    ran: list[str] = []

    def build(copy: Path) -> Path:
        ran.append("build")
        (copy / "dist").mkdir()
        wheel = copy / "dist" / f"sessiond-{version.read(copy)}-py3-none-any.whl"
        wheel.write_bytes(b"PK")
        return wheel

    monkeypatch.setattr(vsix, "check_node", lambda: None)
    monkeypatch.setattr(vsix, "build", lambda copy: ran.append("vsix"))
    monkeypatch.setattr(releasing, "build_site", lambda copy: ran.append("site"))
    monkeypatch.setattr(releasing, "build", build)
    monkeypatch.setattr(releasing, "try_out", lambda *_: ran.append("try out"))
    return ran


@contextlib.contextmanager
def unchanged(checkout: Path) -> Iterator[None]:
    """Neither files, branch, tags nor worktrees are different after the block. Bytecode may be."""

    def state() -> list[str]:
        asked = (["status", "--porcelain"], ["rev-parse", "HEAD"], ["tag"], ["worktree", "list"])
        return [git(checkout, *one) for one in asked]

    before = state()
    yield
    assert state() == before


@pytest.mark.timeout(RELEASE_S)
def test_a_release(checkout: Path, with_node: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run does all the work and keeps nothing; the real one leaves a commit, a tag, an sdist, and a wheel that works and has
    the VS Code extension and the site in it.
    """
    for name in ("GIT_DIR", "GIT_WORK_TREE", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    command = [sys.executable, "scripts/release", "7.8.9"]
    with unchanged(checkout):
        dry = subprocess.run([*command, "--dry-run"], cwd=checkout, capture_output=True, text=True, check=False)
        assert dry.returncode == 0, dry.stdout + dry.stderr
        assert dry.stdout.endswith("7.8.9 can be released. This was a dry run: nothing was kept.\n")
    assert not (checkout / "dist").exists()

    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "log", "-1", "--format=%s %D").strip() == "Release 7.8.9 HEAD -> main, tag: v7.8.9"
    changed = set(git(checkout, "show", "--name-only", "--format=", "HEAD").splitlines())
    written = {version.SOURCE, *version.COPIES, "CHANGELOG.md"}
    assert written <= changed
    assert all(name.startswith(("changelog.d/", "tests/golden_data/v7.8.9/")) for name in changed - written)
    assert "\n## [7.8.9] - " in (checkout / "CHANGELOG.md").read_text()
    assert [path.name for path in (checkout / "changelog.d").iterdir()] == ["README.md"]
    assert (checkout / "tests/golden_data/v7.8.9/expected.json").is_file()
    assert {version.read(checkout, name) for name in (version.SOURCE, *version.COPIES)} == {"7.8.9"}
    with zipfile.ZipFile(checkout / "dist/sessiond-7.8.9-py3-none-any.whl") as wheel:
        extension = wheel.read(f"sessiond/{vsix.PACKAGE}")
    with tarfile.open(checkout / "dist/sessiond-7.8.9.tar.gz") as sdist:
        packed = sdist.extractfile(f"sessiond-7.8.9/{vsix.PACKAGE}")
        assert packed is not None
        assert packed.read() == extension


@pytest.mark.timeout(RELEASE_S)
def test_two_builds_of_the_extension_are_equal(
    checkout: Path, with_node: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At another time, in another zone, from files with other modes; with the parts that VS Code looks for."""
    first = vsix.build(checkout).read_bytes()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    (checkout / "clients/vscode/README.md").chmod(0o600)
    os.utime(checkout / "clients/vscode/LICENSE", (1e9, 1e9))
    package = vsix.build(checkout)
    assert package.read_bytes() == first
    with zipfile.ZipFile(package) as file:
        assert file.testzip() is None
        names = set(file.namelist())
    assert {
        "[Content_Types].xml",
        "extension.vsixmanifest",
        "extension/package.json",
        "extension/dist/extension.js",
    } <= names
    assert not [name for name in names if "/src/" in name or "/test/" in name or "node_modules" in name]


def test_the_steps_of_a_release(checkout: Path, quick: list[str]) -> None:
    """The commit holds the version, the changelog and nothing that was built; a second release needs something new to say."""
    releasing.release(checkout, "7.8.9", dry_run=False, day=DAY)
    assert quick == ["vsix", "site", "build", "try out"]
    assert git(checkout, "status", "--porcelain") == ""
    changed = set(git(checkout, "show", "--name-only", "--format=", "HEAD").splitlines())
    assert {version.SOURCE, *version.COPIES, "CHANGELOG.md"} <= changed
    assert not [name for name in changed if name.startswith("dist/")]
    assert "\n## [7.8.9] - 2026-03-01\n" in (checkout / "CHANGELOG.md").read_text()
    assert [path.name for path in (checkout / "dist").iterdir()] == ["sessiond-7.8.9-py3-none-any.whl"]
    with unchanged(checkout), pytest.raises(ValueError, match="nothing to release"):
        releasing.release(checkout, "7.9.0", dry_run=False, day=DAY)


@pytest.mark.parametrize("broken", ["build", "try_out"])
def test_a_step_that_fails_changes_nothing(
    checkout: Path, quick: list[str], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worktree is removed too."""

    def fail(*_: object) -> None:
        raise releasing.Failed("it broke")

    monkeypatch.setattr(releasing, broken, fail)
    with unchanged(checkout), pytest.raises(releasing.Failed, match="it broke"):
        releasing.release(checkout, "7.8.9", dry_run=False, day=DAY)


def test_what_is_refused_at_once(checkout: Path, quick: list[str]) -> None:
    """A lower version, a tag that exists, a file that is not committed."""
    git(checkout, "tag", "v7.8.9")
    with unchanged(checkout):
        with pytest.raises(releasing.Failed, match=r"0\.0\.9 is lower than the current"):
            releasing.release(checkout, "0.0.9", dry_run=True, day=DAY)
        with pytest.raises(releasing.Failed, match=r"the tag v7\.8\.9 already exists"):
            releasing.release(checkout, "7.8.9", dry_run=True, day=DAY)
    (checkout / "left over").touch()
    with unchanged(checkout), pytest.raises(releasing.Failed, match=r"not clean; commit or remove: .*left over"):
        releasing.release(checkout, "8.0.0", dry_run=True, day=DAY)
    assert quick == []


def test_node_must_be_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything is built."""
    (tmp_path / "npm").touch(0o755)
    (tmp_path / "node").write_text("#!/bin/sh\necho v20.20.2\n")
    (tmp_path / "node").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(RuntimeError, match=r"node is v20\.20\.2; the extension needs Node 22 or later"):
        vsix.check_node()


def test_a_wheel_that_lacks_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build itself leaves out an extension that was not built, and says nothing."""

    def built(command: object, folder: Path) -> str:
        (folder / "dist").mkdir()
        with zipfile.ZipFile(folder / "dist" / "sessiond-7.8.9-py3-none-any.whl", "w") as file:
            file.writestr("sessiond/__init__.py", "")
        return ""

    monkeypatch.setattr(releasing, "run", built)
    with pytest.raises(releasing.Failed, match=r"does not contain sessiond/clients/vscode/sessiond\.vsix"):
        releasing.build(tmp_path)


def test_the_wheel_is_tried_by_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's first command, with the wheel in place of the checkout; a README that shows something else is an error."""
    ran: list[list[str]] = []

    def record(command: list[str], folder: Path, env: object) -> str:
        ran.append(command)
        return "sessiond 7.8.9\n"

    monkeypatch.setattr(releasing, "run", record)
    readme = (ROOT / "README.md").read_text()
    releasing.try_out(Path("/a b/x.whl"), "7.8.9", readme)
    assert ran[0][:2] == ["sh", "-c"]
    assert ".venv/bin/pip install -q '/a b/x.whl' && .venv/bin/sessiond demo" in ran[0][2]
    with pytest.raises(releasing.Failed, match=r"says 'sessiond 7\.8\.9', not 'sessiond 9\.0\.0'"):
        releasing.try_out(Path("/x.whl"), "9.0.0", readme)
    with pytest.raises(releasing.Failed, match="the README's first command is not an installation and the demo"):
        releasing.try_out(Path("/x.whl"), "7.8.9", "```sh\npipx install sessiond\n```\n")


def test_the_build_tool_is_needed(checkout: Path, quick: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the Python in which it is missing, and what installs it."""
    monkeypatch.setattr(releasing, "find_spec", lambda name: None)
    with (
        unchanged(checkout),
        pytest.raises(releasing.Failed, match=rf"not installed in {re.escape(sys.executable)}; run: pip"),
    ):
        releasing.release(checkout, "7.8.9", dry_run=True, day=DAY)
    assert quick == []
