"""What all tests share: an empty home folder, and the fixtures of `tests/fixtures.py`."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fixtures import home, mounted, shell, zygote
from tests.suite import explore, hang, selection

__all__ = ["home", "mounted", "shell", "zygote"]

# How long an example takes is the machine's mood, and no claim of any test. Without a seed of their own, examples are always the same.
settings.register_profile("untimed", deadline=None, derandomize=not explore.SEED)
settings.load_profile("untimed")

# Whoever runs one test with pytest itself sees what `tests/run` sees: a program of ours must not need what this machine sets.
for _name in [name for name in os.environ if name.startswith("PYTHON") and name not in ("PYTHONPATH", "PYTHONHOME")]:
    del os.environ[_name]

_OWN_HOME = "SESSIOND_TESTS_HOME"


def pytest_addoption(parser: pytest.Parser) -> None:
    selection.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """All tests share an empty home with a blank in its name: nothing in the home of whoever runs them is read or changed.
    What is installed once for all runs remains where it is.
    """
    config.pluginmanager.register(selection.Selection(config))
    config.pluginmanager.register(hang)
    if _OWN_HOME in os.environ:  # a worker's: the first process made it
        return
    real = Path(os.environ.get("HOME") or tempfile.gettempdir())
    os.environ.setdefault("SESSIOND_CACHE", str(real / ".cache" / "sessiond-tests"))
    os.environ.setdefault("PIP_CACHE_DIR", str(real / ".cache" / "pip"))
    os.environ.setdefault("PYENV_ROOT", str(real / ".pyenv"))  # where `python3` is one of its shims
    home = os.environ["HOME"] = os.environ[_OWN_HOME] = tempfile.mkdtemp(prefix="a home ")
    # Of two Neovims that make its folder for logs at once, one fails, and would log to the folder that it runs in: the project's.
    os.environ["NVIM_LOG_FILE"] = str(Path(home, "nvim.log"))


def pytest_unconfigure() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ and (made := os.environ.pop(_OWN_HOME, None)):
        shutil.rmtree(made, ignore_errors=True)


# What a shell starts in the background ignores Ctrl-C, what nohup starts ignores that the terminal goes, and so would all the programs
# that tests send these to.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
