"""The address of a hub: where it is, how it is spoken to, and which words about it may be shown.

A URL of PostgreSQL, or the name of a service in `pg_service.conf`. It never holds the password, which would then be in `config.toml`,
`ps` and reports. The password comes from pgpass, from a file, or from PGPASSWORD.

TLS: a host that is not this machine needs it, and gets `sslmode=verify-full` unless the URL says `require` or `verify-ca`.
"""

from __future__ import annotations

import configparser
import ipaddress
import os
import ssl
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from sessiond.errors import ConfigError

SCHEMES = ("postgresql", "postgres")
_TLS_MODES = ("require", "verify-ca", "verify-full")
_MODES = ("disable", "allow", "prefer", *_TLS_MODES)


class HubAddress(msgspec.Struct, frozen=True):
    """The way to reach one shared store. Paths are absolute.

    `url` or `service` is set. `store` is its name on the hub. `password_file` holds the password in its first line. `listen_url` is a
    direct way to the server where `url` leads to a pooler.
    """

    store: str
    url: str | None = None
    service: str | None = None
    password_file: str | None = None
    listen_url: str | None = None

    def shown(self) -> str:
        """For people: where it is, without a password."""
        return redacted(self.url) if self.url else f"service {self.service}"


def check_url(url: str) -> None:
    """Raise ConfigError unless the URL can be used: its scheme, its sslmode, and that it has no password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(
            f"the hub's URL is not valid: {error}", hint="write postgresql://ROLE@HOST/DATABASE"
        ) from None
    del port
    if parts.scheme not in SCHEMES:
        raise ConfigError(
            f"the hub's URL begins with {parts.scheme or 'no scheme'!r}", hint="write postgresql://ROLE@HOST/DATABASE"
        )
    query = dict(parse_qsl(parts.query))
    if parts.password is not None or "password" in query:
        raise ConfigError(
            "the hub's URL holds a password",
            hint="put it into ~/.pgpass, a file (password_file) or PGPASSWORD; the URL is shown and stored",
        )
    mode = query.get("sslmode")
    if mode is not None and mode not in _MODES:
        raise ConfigError(f"sslmode is {mode!r}", hint=f"it must be one of {', '.join(_MODES)}")
    if mode is not None and mode not in _TLS_MODES and not is_here(hosts(url)):
        raise ConfigError(
            f"sslmode={mode} would send sessions to {' '.join(hosts(url))} in the clear",
            hint="leave sslmode out (verify-full), or use require or verify-ca",
        )


def redacted(url: str) -> str:
    """The URL without a password, wherever it has one."""
    try:
        parts = urlsplit(url)
        query = urlencode(
            [(key, value) for key, value in parse_qsl(parts.query) if key not in ("password", "passfile")], safe="/"
        )
        user, at, place = parts.netloc.rpartition("@")
        return _joined(parts.scheme, f"{user.partition(':')[0]}{at}{place}", parts.path, query)
    except ValueError:
        return "a URL that is not valid"


def _joined(scheme: str, place: str, path: str, query: str) -> str:
    """`urlunsplit` leaves out the slashes of a URL without a host."""
    return f"{scheme}://{place}{path}{'?' if query else ''}{query}"


def hosts(url: str) -> list[str]:
    """The hosts and socket folders of a URL, or else those of PGHOST; empty means this machine."""
    parts = urlsplit(url)
    named = [host for key, value in parse_qsl(parts.query) if key == "host" for host in value.split(",")]
    for place in parts.netloc.rpartition("@")[2].split(","):
        name = place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]
        if name:
            named.append(unquote(name))
    return named or [name for name in os.environ.get("PGHOST", "").split(",") if name]


def is_here(names: list[str]) -> bool:
    """Return whether all are sockets of this machine or loopback addresses."""
    return all(name.startswith(("/", "@")) or name == "localhost" or _loopback(name) for name in names)


def _loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def arguments(address: HubAddress, url: str | None = None) -> dict[str, object]:
    """Keyword arguments for `asyncpg.connect`. `url` takes the place of the address's own. ConfigError."""
    found: dict[str, object] = {}
    url = url or address.url
    if url is None:
        url, password = _of_service(address.service or "")
        if password is not None:
            found["password"] = password
    check_url(url)
    found |= _of_url(url)
    if address.password_file is not None:
        found["password"] = _password(address.password_file)
    return found


def _of_service(name: str) -> tuple[str, str | None]:
    """A service of libpq's file as a URL, and its password. ConfigError."""
    path = os.environ.get("PGSERVICEFILE") or os.path.expanduser("~/.pg_service.conf")
    reader = configparser.RawConfigParser()
    found: list[str] = []
    try:
        found = reader.read(path, encoding="utf-8")
        entries = dict(reader[name])
    except (configparser.Error, UnicodeDecodeError, KeyError):
        reason = f"is not in {path}" if found else f"is not known: {path} does not exist"
        raise ConfigError(f"service {name!r} {reason}") from None
    query = {key: value for key, value in entries.items() if key in ("host", "port", "sslmode", "sslrootcert", "user")}
    return f"postgresql:///{quote(entries.get('dbname', ''))}?{urlencode(query, safe='/')}", entries.get("password")


def _of_url(url: str) -> dict[str, object]:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    here = is_here(hosts(url))
    mode = query.pop("sslmode", "prefer" if here else "verify-full")
    roots = query.pop("sslrootcert", None)
    bare = _joined(parts.scheme, parts.netloc, parts.path, urlencode(query, safe="/"))
    if mode not in _TLS_MODES:
        return {"dsn": bare, "ssl": mode}
    return {"dsn": bare, "ssl": _context(mode, roots)}


def _context(mode: str, roots: str | None) -> ssl.SSLContext:
    """Return a context for one of libpq's modes, as libpq means it, except that without a file of roots the system's are taken."""
    usual = os.path.expanduser("~/.postgresql/root.crt")
    if roots is None and os.path.exists(usual):
        roots = usual
    try:
        context = ssl.create_default_context(cafile=None if roots in (None, "system") else os.path.expanduser(roots))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"sslrootcert {roots} cannot be used: {error}") from None
    if mode != "verify-full":
        context.check_hostname = False
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    return context


def _password(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o077
            line = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"password_file {path} cannot be read: {reason}") from None
    if mode:
        raise ConfigError(f"password_file {path} can be read by others", hint=f"chmod 600 {path}")
    return line
