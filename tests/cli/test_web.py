"""`sessiond web`: the page is opened, and gets the token safely."""

from __future__ import annotations

import json
import os
import re
import stat
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Shell, wait_until

LINK = re.compile(r"(http://127\.0\.0\.1:(\d+)/)#code=([\w.-]+)")


def with_browser(shell: Shell) -> Path:
    """A browser that notes what it is asked to open, and with which environment that could be seen."""
    program = shell.path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {shell.path}/asked\n')
    program.chmod(0o755)
    shell.env["BROWSER"] = f"{program} %s"
    return shell.path / "asked"


def line_of(process: Any) -> str:
    return str(process.stdout.readline())


def token_for(url: str, code: str) -> str:
    request = urllib.request.Request(url + "token", headers={"Authorization": f"Code {code}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(json.load(answer)["token"])


def link_in(text: str) -> tuple[str, str]:
    found = LINK.search(text)
    assert found is not None, text
    return found[1], found[3]


def test_the_browser_is_given_a_private_file(shell: Shell) -> None:
    """Neither token nor code is in a command line: the browser opens a file of 0600 that leads on; its code gives the token
    once.
    """
    asked = with_browser(shell)
    process = shell.start("web", "--port", "0", text=True)
    said = line_of(process)
    wait_until(asked.exists)
    [uri] = asked.read_text().split()
    assert uri.startswith("file:///")
    file = Path(uri.removeprefix("file://"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = (shell.data / "token").read_text().strip()
    assert token not in file.read_text() and token not in said and "code=" not in said
    url, code = link_in(file.read_text())
    assert url in said
    assert token_for(url, code) == token
    with pytest.raises(urllib.error.HTTPError) as spent:
        token_for(url, code)
    assert spent.value.code == 401
    spent.value.close()


def test_print(shell: Shell) -> None:
    """`--print` opens nothing and prints an address that works once."""
    asked = with_browser(shell)
    process = shell.start("web", "--port", "0", "--print", text=True)
    url, code = link_in(line_of(process))
    assert token_for(url, code)
    with urllib.request.urlopen(url, timeout=20) as page:
        assert b"/page/app.js" in page.read()
    assert not asked.exists()


def test_a_second_one_uses_the_first_ones_port(shell: Shell) -> None:
    """Two of them do not listen twice; old files that lead to the page are removed."""
    with_browser(shell)
    first = shell.start("web", "--port", "0", "--print", text=True)
    url, _ = link_in(line_of(first))
    (shell.path / "run" / "open-old.html").write_text("stale")
    second = shell("web", "--print")
    assert second.code == 0, second
    assert link_in(second.out)[0] == url
    assert "works as long as that one runs" in second.out
    assert not list((shell.path / "run").glob("open-*"))


def test_without_any_browser(shell: Shell) -> None:
    """Where none can be started the address is printed instead."""
    shell.env.update(BROWSER="/none/there %s", PATH="/none")
    process = shell.start("web", "--port", "0", text=True)
    assert "could not start a browser" in line_of(process)
    assert link_in(line_of(process))


def test_the_daemon_is_killed(shell: Shell) -> None:
    """After a crash the daemon is started again and listens on the same port with the same token, so that an open page continues."""
    process = shell.start("web", "--port", "0", "--print", text=True)
    url, code = link_in(line_of(process))
    token_for(url, code)
    before = shell.kill()
    assert "starting it again" in line_of(process)

    def listens() -> bool:
        address = shell("status", "--json").json.get("ws")
        return address is not None and str(address["port"]) in url

    wait_until(listens)
    assert shell.pid() != before
    assert process.poll() is None


def test_the_daemon_is_stopped(shell: Shell) -> None:
    """`sessiond stop` is obeyed: nothing is started again."""
    process = shell.start("web", "--port", "0", "--print", text=True)
    line_of(process)
    assert shell("stop").code == 0
    assert process.wait(30) == 69
    assert "stopped" in process.stderr.read()
    assert not shell.held()


def test_a_taken_port(shell: Shell) -> None:
    """A named port that another program has is an error; the usual one gives way to another."""
    first = shell.start("web", "--port", "0", "--print", text=True)
    taken = link_in(line_of(first))[0].rsplit(":", 1)[1].rstrip("/")
    other = Shell()
    try:
        refused = other("web", "--port", taken, "--print")
        assert refused.code == 1
        assert "taken" in refused.err
    finally:
        other.close()


def test_setup(shell: Shell) -> None:
    """`sessiond setup browser` names files that are there."""
    done = shell("setup", "browser")
    assert done.code == 0
    for file in re.findall(r'from "(.+?)"', done.out):
        assert os.path.isfile(file), file
