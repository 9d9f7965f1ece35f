"""Says where files are, and where the daemon can be reached. The relay imports this: only `os` and `sys` at the top.

Two facts shape this file. A client and a daemon may disagree about XDG_RUNTIME_DIR and TMPDIR (as an editor and tmux do), so
the socket's real path is in a record in the *data folder*, which depends on neither. And a socket's path has at most about a
hundred bytes, so a short private folder replaces a long run folder.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

APP = "sessiond"
PROTOCOL_VERSION = 1
MAX_SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
_RECORD_BYTES = 4096
GREETING, GREETED = b"?", b"!"
"""The first byte of a connection that wants to know whether a daemon has it, and what a daemon says before it reads on. No message
begins with either.
"""


class NoHome(Exception):
    """The place of this user's files is unknown; the text says what would determine it."""


class Places:
    """The five folders, absolute. `home` is SESSIOND_HOME, or None if the platform decides."""

    __slots__ = ("cache", "config", "data", "home", "log", "run")

    def __init__(self, *, data: str, config: str, cache: str, run: str, log: str, home: str | None = None) -> None:
        self.data = data
        self.config = config
        self.cache = cache
        self.run = run
        self.log = log
        self.home = home

    @property
    def lock_file(self) -> str:
        return self.data + "/lock"

    @property
    def endpoint_file(self) -> str:
        return self.data + "/endpoint"

    @property
    def index_file(self) -> str:
        """The index of this data folder: outside SESSIOND_HOME several may share one cache folder."""
        return f"{self.cache}/index.sqlite3" if self.home else f"{self.cache}/index-{_digest(self.data)}.sqlite3"

    @property
    def start_log(self) -> str:
        """The stderr of a daemon before its log is open; relays show the end of it after a failed start."""
        return self.log + "/start.log"


class Endpoint:
    """The record that a running daemon keeps about itself in the data folder. It was true at the moment of writing, but may not be now.
    `greets`: whether it knows the greeting.
    """

    __slots__ = ("greets", "instance", "pid", "protocol", "socket", "version")

    def __init__(
        self, socket: str, protocol: int, pid: int, version: str, instance: str, *, greets: bool = False
    ) -> None:
        self.greets = greets
        self.socket = socket
        self.protocol = protocol
        self.pid = pid
        self.version = version
        self.instance = instance

    def encode(self) -> bytes:
        """One `key=value` per line, so that reading it back does not need to import a parser."""
        lines = [f"{name}={getattr(self, name)}" for name in ("socket", "protocol", "pid", "version", "instance")]
        lines += ["greets=1"] if self.greets else []
        return os.fsencode("\n".join(lines) + "\n")


def places(environ: Mapping[str, str] | None = None) -> Places:
    """The folders for this user: below SESSIOND_HOME if that is set, otherwise those of platformdirs for "sessiond". NoHome."""
    env = os.environ if environ is None else environ
    home = env.get("SESSIOND_HOME")
    if home:
        home = _absolute(os.path.expanduser(home))
        return Places(home=home, **{name: f"{home}/{name}" for name in ("data", "config", "cache", "run", "log")})
    if sys.platform == "darwin":
        return _macos(env)
    if os.name == "posix":
        return _xdg(env)
    return _elsewhere()


def client_folder(client: str) -> str:
    """Return where a client's own files are: inside the installed package, or next to it in a checkout."""
    package = os.path.dirname(os.path.abspath(__file__))
    installed = f"{package}/clients/{client}"
    return installed if os.path.isdir(installed) else f"{os.path.dirname(package)}/clients/{client}"


def _xdg(env: Mapping[str, str]) -> Places:
    user = user_home(env)
    return Places(
        data=_xdg_dir(env, "XDG_DATA_HOME", user + "/.local/share"),
        config=_xdg_dir(env, "XDG_CONFIG_HOME", user + "/.config"),
        cache=_xdg_dir(env, "XDG_CACHE_HOME", user + "/.cache"),
        run=_runtime_dir(env),
        log=_xdg_dir(env, "XDG_STATE_HOME", user + "/.local/state") + "/log",
    )


def _macos(env: Mapping[str, str]) -> Places:
    library = user_home(env) + "/Library"
    run = env.get("XDG_RUNTIME_DIR", "")
    private = os.path.isabs(run) and privacy_problem(run, exact=True) is None
    return Places(
        data=_xdg_dir(env, "XDG_DATA_HOME", library + "/Application Support"),
        config=_xdg_dir(env, "XDG_CONFIG_HOME", library + "/Application Support"),
        cache=_xdg_dir(env, "XDG_CACHE_HOME", library + "/Caches"),
        run=f"{run if private else library + '/Caches/TemporaryItems'}/{APP}",
        log=f"{library}/Logs/{APP}",
    )


def _elsewhere() -> Places:
    import platformdirs  # slow, but right everywhere: for systems other than those above

    dirs = platformdirs.PlatformDirs(APP, appauthor=False)
    return Places(
        data=dirs.user_data_dir,
        config=dirs.user_config_dir,
        cache=dirs.user_cache_dir,
        run=dirs.user_runtime_dir,
        log=dirs.user_log_dir,
    )


def user_home(env: Mapping[str, str]) -> str:
    """HOME, or the home that the system knows. NoHome."""
    user = env.get("HOME", "")
    if not os.path.isabs(user):  # an empty or relative HOME does not count
        import pwd

        try:
            user = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            raise NoHome(
                f"HOME is not set, and no user has the number {os.getuid()}; set SESSIOND_HOME to a folder"
            ) from None
    return user.rstrip("/")


def _absolute(path: str) -> str:
    """Relative to the folder that we were started in. Processes that we start have another one."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise NoHome("SESSIOND_HOME is relative to a folder that was removed; make it absolute") from None


def _xdg_dir(env: Mapping[str, str], name: str, default: str) -> str:
    value = env.get(name, "")
    return os.path.join(value if os.path.isabs(value) else default, APP)


def _runtime_dir(env: Mapping[str, str]) -> str:
    """The first that is a private folder of ours: XDG_RUNTIME_DIR, /run/user/UID; otherwise one in the temporary folder."""
    uid = os.geteuid()
    for base in (env.get("XDG_RUNTIME_DIR", ""), f"/run/user/{uid}"):
        if os.path.isabs(base) and privacy_problem(base, exact=True) is None:
            return os.path.join(base, APP)
    for name in ("TMPDIR", "TEMP", "TMP"):
        base = env.get(name, "")
        if os.path.isabs(base) and os.path.isdir(base):  # a relative one means another folder for each process
            break
    else:
        base = "/tmp"  # noqa: S108  the folder made there is checked to be ours and private
    return f"{os.path.normpath(base)}/runtime-{uid}/{APP}"


def privacy_problem(path: str, *, exact: bool = False) -> str | None:
    """Say why `path` is not a private folder of ours; None if it is one. With `exact` its mode must be exactly 0700."""
    try:
        info = os.lstat(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    if info.st_mode & 0o170000 != 0o040000:
        return f"{path} is not a folder"  # nor may it be a link, which could be redirected
    if info.st_uid != os.geteuid():
        return f"{path} belongs to uid {info.st_uid}, not to {os.geteuid()}"
    mode = info.st_mode & 0o777
    if mode & 0o077 or (exact and mode != 0o700):
        return f"{path} has mode {mode:04o}, not 0700"
    return None


def make_private_dir(path: str) -> None:
    """Make `path` a folder of ours with mode 0700, with its parents if they are missing. OSError says why not."""
    parent = os.path.dirname(path)
    if parent not in ("", "/") and not os.path.isdir(parent):
        make_private_dir(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        info = os.lstat(path)
        if info.st_mode & 0o170000 == 0o040000 and info.st_uid == os.geteuid() and info.st_mode & 0o077:
            os.chmod(path, 0o700)
    problem = privacy_problem(path)
    if problem is not None:
        raise PermissionError(1, problem, path)
    above = os.stat(parent or "/")
    shared = above.st_mode & 0o022 and not above.st_mode & 0o1000
    if above.st_uid not in (0, os.geteuid()) or shared:
        raise PermissionError(1, f"{parent} lets others replace {path}", path)


def prepare_socket_path(where: Places) -> str:
    """Return where the daemon binds: in the run folder, or in /tmp/sessiond-UID if that is too long or cannot be ours.

    Creates the folder. Outside SESSIOND_HOME several data folders may share one run folder, so the name contains a digest of
    the data folder. OSError if no folder can be used; its text names each and what is wrong with it.
    """
    problems = []
    digest = _digest(where.data)
    name = f"{APP}.sock" if where.home else f"{APP}-{digest}.sock"
    fallback = f"/tmp/{APP}-{os.geteuid()}"  # noqa: S108  checked to be ours and private
    for folder, leaf in ((where.run, name), (fallback, f"{digest}.sock")):
        path = f"{folder}/{leaf}"
        if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES or "\n" in path:
            problems.append(f"{folder} is too long for a socket")
            continue
        try:
            make_private_dir(folder)
        except OSError as error:
            what = str(error.strerror)
            problems.append(what if what.startswith("/") else f"{folder}: {what}")
            continue
        return path
    raise OSError(1, "no folder for the socket: " + "; ".join(problems))


def agent_host_socket(path: str) -> str:
    """The socket for windows of VS Code, beside the one of the daemon at `path`."""
    return path.removesuffix(".sock") + "-ahp.sock"


def _digest(data: str) -> str:
    import hashlib  # only the daemon needs it

    return hashlib.sha256(os.fsencode(os.path.realpath(data))).hexdigest()[:12]


def read_endpoint(data: str) -> Endpoint | None:
    """The record in the data folder, or None if it cannot be read."""
    try:
        fd = os.open(data + "/endpoint", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        raw = os.read(fd, _RECORD_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
    fields = dict(line.partition("=")[::2] for line in os.fsdecode(raw).split("\n"))
    try:
        return Endpoint(
            socket=fields["socket"],
            protocol=int(fields["protocol"]),
            pid=int(fields["pid"]),
            version=fields.get("version", ""),
            instance=fields.get("instance", ""),
            greets=fields.get("greets") == "1",
        )
    except (KeyError, ValueError):
        return None
