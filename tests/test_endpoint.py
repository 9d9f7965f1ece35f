"""Where files are."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from sessiond import endpoint
from sessiond.endpoint import Endpoint, Places, places, prepare_socket_path


def bare_env(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"], **more}


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="other systems ask platformdirs itself")
@pytest.mark.parametrize(
    "names",
    [
        (),
        ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
        ("XDG_STATE_HOME",) if sys.platform == "linux" else (),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_same_folders_as_platformdirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
    """Without SESSIOND_HOME every folder is where platformdirs puts it, though the relay does not import that."""
    for name in [name for name in os.environ if name.startswith(("XDG_", "SESSIOND_", "TMP"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in names:
        folder = tmp_path / name.lower()
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(folder))
    theirs = platformdirs.PlatformDirs("sessiond", appauthor=False)
    ours = places()
    assert ours.data == theirs.user_data_dir
    assert ours.config == theirs.user_config_dir
    assert ours.cache == theirs.user_cache_dir
    assert ours.log == theirs.user_log_dir
    if "XDG_RUNTIME_DIR" in names:  # platformdirs' fallback warns, and looks at folders of this very machine
        assert ours.run == theirs.user_runtime_dir
    assert ours.home is None


def test_a_relative_xdg_variable_counts_as_unset(tmp_path: Path) -> None:
    """The XDG specification ignores relative paths, and so do we."""
    assert places(bare_env(tmp_path, XDG_DATA_HOME="here")).data == f"{tmp_path}/.local/share/sessiond"


def test_home_puts_everything_below_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SESSIOND_HOME rules over all XDG variables; a relative one is taken from the current folder."""
    monkeypatch.chdir(tmp_path)
    where = places(bare_env(tmp_path, SESSIOND_HOME="h", XDG_DATA_HOME="/elsewhere"))
    home = f"{tmp_path}/h"
    assert (where.data, where.config, where.cache, where.run, where.log) == tuple(
        f"{home}/{name}" for name in ("data", "config", "cache", "run", "log")
    )


def home(path: Path | str) -> Places:
    return places({"HOME": "/", "SESSIOND_HOME": str(path)})


def test_run_folder_of_others_is_not_taken(tmp_path: Path) -> None:
    """An XDG_RUNTIME_DIR that others may enter is skipped."""
    tmp_path.chmod(0o755)
    assert not places(bare_env(tmp_path, XDG_RUNTIME_DIR=str(tmp_path))).run.startswith(str(tmp_path))


def test_socket_lies_in_the_run_folder(tmp_path: Path) -> None:
    """The socket's folder is made with mode 0700, and a laxer one of ours is tightened."""
    short = home(f"/tmp/sd-test-{os.getpid()}")
    try:
        Path(short.run).mkdir(parents=True, mode=0o755)
        assert prepare_socket_path(short) == f"{short.run}/sessiond.sock"
        assert stat.S_IMODE(os.stat(short.run).st_mode) == 0o700
    finally:
        subprocess.run(["rm", "-r", short.home], check=True)


def test_long_run_folder_gives_way_to_a_short_private_one(tmp_path: Path) -> None:
    """A path that no socket address holds gives way to one under /tmp that is ours, named for the data folder."""
    long, other = home(tmp_path / ("x" * 100)), home(tmp_path / ("y" * 100))
    path = prepare_socket_path(long)
    assert len(os.fsencode(path)) <= endpoint.MAX_SOCKET_PATH_BYTES
    assert endpoint.privacy_problem(os.path.dirname(path)) is None
    assert path == prepare_socket_path(long) != prepare_socket_path(other)


def test_two_data_folders_never_share_a_socket(tmp_path: Path) -> None:
    """With one XDG_RUNTIME_DIR and two XDG_DATA_HOMEs each daemon gets a path of its own, for its index too."""
    tmp_path.chmod(0o700)
    run = f"/tmp/sd-run-{os.getpid()}"
    os.mkdir(run, 0o700)
    try:
        one, two = (
            prepare_socket_path(places(bare_env(tmp_path, XDG_RUNTIME_DIR=run, XDG_DATA_HOME=f"{tmp_path}/{name}")))
            for name in "ab"
        )
        assert one != two
        a, b = (places(bare_env(tmp_path, XDG_DATA_HOME=f"{tmp_path}/{name}")).index_file for name in "ab")
        assert a != b
        assert os.path.dirname(a) == os.path.dirname(b)
        assert os.path.dirname(one) == os.path.dirname(two) == f"{run}/sessiond"
    finally:
        subprocess.run(["rm", "-r", run], check=True)


def test_a_link_is_no_private_folder(tmp_path: Path) -> None:
    """A link in place of the socket's folder could be turned elsewhere by whoever made it."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    assert endpoint.privacy_problem(str(tmp_path / "real")) is None
    assert "is not a folder" in (endpoint.privacy_problem(str(tmp_path / "link")) or "")
    with pytest.raises(PermissionError, match="is not a folder"):
        endpoint.make_private_dir(str(tmp_path / "link"))


def test_a_folder_whose_parent_others_may_change_is_refused(tmp_path: Path) -> None:
    """A user who may rename our folder may put another in its place."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="lets others replace"):
        endpoint.make_private_dir(str(tmp_path / "open" / "run"))


def test_record_comes_back_as_written(tmp_path: Path) -> None:
    """What a daemon writes into its record is what a client reads, odd bytes of a path included."""
    record = Endpoint(os.fsdecode(b"/run/\xff=x/sessiond.sock"), 1, 4711, "0.1.0", "abc")
    (tmp_path / "endpoint").write_bytes(record.encode())
    back = endpoint.read_endpoint(str(tmp_path))
    assert back is not None
    assert all(getattr(back, name) == getattr(record, name) for name in Endpoint.__slots__)


@pytest.mark.parametrize("content", [b"", b"\0" * 200, b"socket=/x\n", b"socket=/x\nprotocol=one\npid=2\n", None])
def test_a_broken_record_is_no_record(tmp_path: Path, content: bytes | None) -> None:
    """Whatever is there, reading the record gives a record or None: even a FIFO does not hang."""
    if content is None:
        os.mkfifo(tmp_path / "endpoint")
    else:
        (tmp_path / "endpoint").write_bytes(content)
    assert endpoint.read_endpoint(str(tmp_path)) is None


def test_a_home_that_is_none_is_looked_up(tmp_path: Path) -> None:
    """An empty or relative HOME counts as none: the password file says where it is."""
    known = places({"HOME": os.path.expanduser("~" + pwd.getpwuid(os.getuid()).pw_name)})
    assert [places({"HOME": home}).data for home in ("", "relative")] == [known.data] * 2


def test_sockets_may_lie_in_the_temporary_folder(tmp_path: Path) -> None:
    """If they have no folder, the first existing temporary one is used."""
    found = places(bare_env(tmp_path, TMPDIR=str(tmp_path / "none"), TEMP=str(tmp_path), TMP="/"))
    assert found.run == f"{tmp_path}/runtime-{os.geteuid()}/sessiond" or found.run.startswith("/run/user/")


def test_a_folder_of_somebody_elses_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names its owner."""
    tmp_path.chmod(0o700)
    assert endpoint.privacy_problem(str(tmp_path)) is None
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert endpoint.privacy_problem(str(tmp_path)) == f"{tmp_path} belongs to uid {mine}, not to 12345"


def test_where_no_folder_will_do_each_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with every one of them."""
    where = places(bare_env(tmp_path, SESSIOND_HOME=str(tmp_path / "home")))
    monkeypatch.setattr(endpoint, "MAX_SOCKET_PATH_BYTES", 5)
    with pytest.raises(
        OSError, match=r"no folder for the socket: .* is too long for a socket; /tmp/sessiond-\d+ is too long"
    ):
        prepare_socket_path(where)
