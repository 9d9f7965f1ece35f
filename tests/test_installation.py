"""The command that adds what an extra needs, in each kind of environment; and whether an editor finds the program."""

from __future__ import annotations

import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from sessiond import installation

EXTRAS = {"mcp": ["mcp"], "semantic": ["numpy", "wordllama"], "postgres": ["asyncpg", "cryptography", "segno"]}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_named_by_its_packages(extra: str) -> None:
    """With the versions that are wanted, each a word of its own for a shell."""
    words = shlex.split(installation.add_command(extra))
    wanted = words[words.index("install") + 1 :]
    named = [found for one in wanted if (found := re.fullmatch(r"([a-z]+)([<>=]\S+)", one))]
    assert [one[1] for one in named] == EXTRAS[extra]


def test_sources_that_are_not_installed_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", unknown)
    assert installation.packages("mcp") == ["sessiond[mcp]"]


def test_each_kind_of_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pip, of uv (which has no pip), of pipx, each made by its own means; the interpreter may be anywhere."""
    python = str(tmp_path / "an environment" / "python")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setattr(installation, "_has_pip", lambda: True)
    assert installation.add_command("mcp").startswith(f"'{python}' -m pip install 'mcp<")
    monkeypatch.setattr(installation, "_has_pip", lambda: False)
    assert installation.add_command("mcp").startswith(f"uv pip install --python '{python}' 'mcp<")
    monkeypatch.setattr(installation, "_has_pip", lambda: True)
    (tmp_path / "uv-receipt.toml").touch()
    assert installation.add_command("mcp").startswith("uv pip install --python")
    (tmp_path / "uv-receipt.toml").unlink()
    (tmp_path / "pipx_metadata.json").touch()
    assert installation.add_command("mcp").startswith("pipx inject sessiond 'mcp<")


def test_an_activated_environment_is_on_the_path_of_its_shell_alone(tmp_path: Path) -> None:
    """Whichever of its folders comes first, and with a folder that is everybody's beside it."""
    for name in ("venv/bin", "everybody"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "sessiond").write_text("#!/bin/sh\n")
        (tmp_path / name / "sessiond").chmod(0o755)
    active, everybody = str(tmp_path / "venv/bin"), str(tmp_path / "everybody")
    env = {"PATH": active, "VIRTUAL_ENV": str(tmp_path / "venv")}
    assert not installation.is_on_path(env)
    assert installation.is_on_path({"PATH": active})
    assert installation.is_on_path({**env, "PATH": f"{active}:{everybody}"})
    assert not installation.is_on_path({"PATH": ""})
