"""The settings and their sources: a flag beats the environment, which beats `config.toml`, which beats the default.

The settings are listed in `settings.py`; stores are set only in the file. Every mistake is a ConfigError that names the
place and the key and says what to write instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from sessiond.endpoint import Places
from sessiond.errors import AlreadyExists, ConfigError, InvalidParams
from sessiond.fs import FileSystem, atomic_write
from sessiond.limits import Limits
from sessiond.settings import NOT_IN_LIMITS, SETTINGS, Value, Values, checked, from_text

if TYPE_CHECKING:
    from sessiond.shared_config import HubConfig

STORE_FORMATS = ("jsonl", "amacs", "cortex", "agent-q", "theia", "sibyl")
DEFAULT_STORE = "default"
STORE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NAME_HINT = "use a-z, 0-9, - and _, beginning with a letter or digit"

Table: TypeAlias = dict[str, object]
"""As TOML has it, not checked yet."""
Source = str
"""`"default"`, `"flag"`, `"environment"`, or the path of the file."""


class StoreConfig(msgspec.Struct, frozen=True):
    """A store to mount. `path` is absolute, with `~` expanded and links not resolved. `hub`: it is shared, and `path` is the replica."""

    name: str
    path: str
    """The folder with the sessions; it begins with `/` or `~/`."""
    format: str
    """How the sessions are written there: `jsonl`, `amacs`, `cortex`, `agent-q`, `theia` or `sibyl`."""
    hub: HubConfig | None = None


class Config(msgspec.Struct, frozen=True):
    """Everything that can be configured, with its final values."""

    file: str
    autosave_interval_s: float
    """0: no timer."""
    autosave_idle_s: float
    """0: off."""
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    ahp_listen: tuple[str, ...]
    """`"socket"`, `"PORT"` or `"HOST:PORT"`."""
    ahp_write: bool
    follow_tools: tuple[str, ...]
    stores: tuple[StoreConfig, ...]
    """The default one first, the others in the file's order."""
    limits: Limits
    values: Values
    sources: dict[str, Source]
    """For every setting in `values`, where its value came from."""

    def explained(self) -> dict[str, tuple[Value, Source]]:
        """Setting name -> value and source, of the settings that are not at their default."""
        return {
            name: (value, self.sources[name]) for name, value in self.values.items() if self.sources[name] != "default"
        }


def load(
    fs: FileSystem,
    where: Places,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Read `config.toml`, the environment and `flags` (setting name -> value). Raises ConfigError."""
    path = where.config + "/config.toml"
    return settle(path, _read(fs, path), where, os.environ if environ is None else environ, flags or {})


def settle(path: str, text: str, where: Places, environ: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """The same, given the file's text. Resolves links on disk, and changes nothing."""
    tables = _parse(path, text)
    values: Values = {name: setting.default for name, setting in SETTINGS.items()}
    sources: dict[str, Source] = dict.fromkeys(SETTINGS, "default")
    given = [(path, _from_file(path, tables)), ("environment", _from_environment(environ))]
    given.append(("flag", {name: checked(SETTINGS[name], value, "flag") for name, value in flags.items()}))
    for source, found in given:
        values.update(found)
        sources.update(dict.fromkeys(found, source))
    limits = {name.partition(".")[2]: value for name, value in values.items() if name.startswith("limits.")}
    return Config(
        file=path,
        autosave_interval_s=values["autosave.interval_s"],
        autosave_idle_s=values["autosave.idle_s"],
        allowed_hosts=values["daemon.allowed_hosts"],
        allowed_origins=values["daemon.allowed_origins"],
        ahp_listen=values["ahp.listen"],
        ahp_write=values["ahp.write"],
        follow_tools=values["follow.tools"],
        stores=_stores(path, tables.get("stores", {}), where),
        limits=Limits(**limits, daemon_idle_exit_s=values["daemon.idle_exit_s"]),
        values=values,
        sources=sources,
    )


def _read(fs: FileSystem, path: str) -> str:
    try:
        if fs.stat(path) is None:
            return ""
        return fs.read(path).decode("utf-8-sig")  # editors of Windows write a byte order mark
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", path=path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid UTF-8 (byte {error.start})", path=path) from None


def _parse(path: str, text: str) -> dict[str, Table]:
    if not text:
        return {}
    import tomllib  # most users do not have the file, and a daemon should start fast

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = "the file's format is TOML: https://toml.io"
        raise ConfigError(f"{path}: {error}", hint=hint, path=path, line=_line_of(error)) from None
    known = [*dict.fromkeys(setting.table for setting in SETTINGS.values()), "stores"]
    for name, table in tables.items():
        if name not in known:
            homes = [setting for setting in SETTINGS.values() if setting.key == name]
            hint = f"it belongs under [{homes[0].table}]" if homes else _nearest(name, known, "the tables are")
            raise ConfigError(f"{path}: unknown key {name!r}", hint=hint, path=path, key=name)
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {name} must be a table", hint=f"write [{name}]", path=path, key=name)
    return tables


def _line_of(error: ValueError) -> int | None:
    """The line, from 1, at which TOML stops being valid; None at the end of the document. Before 3.14, only the text of Python's
    error says it.
    """
    found = re.search(r"\(at line (\d+), column \d+\)\Z", str(error))
    return int(found[1]) if found else None


def _nearest(name: str, known: list[str], listing: str) -> str:
    import difflib  # needed only after a mistake

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"{listing} {', '.join(known)}"


def _from_file(path: str, tables: dict[str, Table]) -> Values:
    found: Values = {}
    for table, entries in tables.items():
        if table == "stores":
            continue
        for key, value in entries.items():
            name = f"{table}.{key}"
            if name not in SETTINGS:
                known = [setting.key for setting in SETTINGS.values() if setting.table == table]
                special = NOT_IN_LIMITS.get(key) if table == "limits" else None
                hint = special or _nearest(key, known, f"the keys of [{table}] are")
                raise ConfigError(f"{path}: unknown key {key!r} in [{table}]", hint=hint, path=path, key=name)
            found[name] = checked(SETTINGS[name], value, path)
    return found


def _from_environment(environ: Mapping[str, str]) -> Values:
    by_variable = {setting.variable: setting for setting in SETTINGS.values()}
    tables = tuple(f"SESSIOND_{setting.table}_".upper() for setting in SETTINGS.values())
    found: Values = {}
    for variable, text in environ.items():
        if not variable.startswith(tables):
            continue
        setting = by_variable.get(variable)
        if setting is None:
            hint = _nearest(variable, list(by_variable), "the variables are")
            raise ConfigError(f"unknown environment variable {variable}", hint=hint, key=variable)
        found[setting.name] = checked(setting, from_text(setting, text), variable)
    return found


def _stores(path: str, table: Table, where: Places) -> tuple[StoreConfig, ...]:
    """The configured stores; always includes the default one, which comes first. Raises ConfigError."""
    stores = [StoreConfig(DEFAULT_STORE, default_store_path(where), "jsonl")]
    for name, entry in table.items():
        store = _store(path, name, entry, where)
        if store.name == DEFAULT_STORE:
            stores[0] = store
        else:
            stores.append(store)
    _check_apart(path, stores, where)
    return tuple(stores)


def default_store_path(where: Places) -> str:
    return where.data + "/sessions"


def _store(path: str, name: str, entry: object, where: Places) -> StoreConfig:
    here = f"{path}: [stores.{name}]"
    if STORE_NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{here}: {name!r} is not a valid store name", hint=_NAME_HINT, path=path, key=f"stores.{name}"
        )
    if not isinstance(entry, dict):
        hint = f'write [stores.{name}] with path = "..." and format = "..."'
        raise ConfigError(f"{path}: stores.{name} must be a table", hint=hint, path=path, key=f"stores.{name}")
    if "url" in entry or "service" in entry:
        if name == DEFAULT_STORE:
            hint = "give the shared store another name"
            raise ConfigError(f"{here}: the default store cannot be shared", hint=hint, path=path, key=f"stores.{name}")
        from sessiond.shared_config import parse  # most users share nothing

        return StoreConfig(name, f"{where.data}/shared/{name}", "jsonl", parse(path, name, entry))
    for key, value in entry.items():
        if key not in ("path", "format"):
            hint = _nearest(key, ["path", "format"], "a store has")
            raise ConfigError(f"{here}: unknown key {key!r}", hint=hint, path=path, key=f"stores.{name}.{key}")
        if not isinstance(value, str):
            raise ConfigError(
                f"{here}: {key} is {value!r}", hint="it must be a string", path=path, key=f"stores.{name}.{key}"
            )
    folder, form = entry.get("path"), entry.get("format")
    if name == DEFAULT_STORE:
        return _default_store(here, name, folder, form, where)
    if folder is None or form is None:
        missing, example = ("path", "~/notes/sessions") if folder is None else ("format", "jsonl")
        raise ConfigError(
            f"{here}: {missing} is missing", hint=f'add {missing} = "{example}"', path=path, key=f"stores.{name}"
        )
    if form not in STORE_FORMATS:
        hint = _nearest(form, list(STORE_FORMATS), "the formats are")
        raise ConfigError(f"{here}: unknown format {form!r}", hint=hint, path=path, key=f"stores.{name}.format")
    return StoreConfig(name, _folder(here, name, folder), form)


def _default_store(here: str, name: str, folder: str | None, form: str | None, where: Places) -> StoreConfig:
    """Its folder and format are fixed by the daemon; for anything else, make a store with another name."""
    path = default_store_path(where)
    if folder is not None and os.path.realpath(_folder(here, name, folder)) != os.path.realpath(path):
        raise ConfigError(
            f"{here}: the default store is in {path}",
            hint="for another folder, make a store with another name; SESSIOND_HOME or XDG_DATA_HOME moves everything",
            key=f"stores.{name}.path",
        )
    if form not in (None, "jsonl"):
        raise ConfigError(
            f'{here}: the default store has the format "jsonl", not {form!r}',
            hint=f'make a store with another name, a path, and format = "{form}"',
            key=f"stores.{name}.format",
        )
    return StoreConfig(DEFAULT_STORE, path, "jsonl")


def _folder(here: str, name: str, text: str) -> str:
    expanded = os.path.expanduser(text)
    if not os.path.isabs(expanded) or "\0" in expanded:
        hint = "begin it with / or ~/"
        raise ConfigError(f"{here}: {text!r} is not an absolute path", hint=hint, key=f"stores.{name}.path")
    return os.path.normpath(expanded)


def _check_apart(path: str, stores: list[StoreConfig], where: Places) -> None:
    """No store may be inside another one, or inside or around one of the daemon's own folders."""
    own = [(f"the daemon's own {name} folder", getattr(where, name)) for name in ("data", "config", "cache", "log")]
    taken = [(folder, os.path.realpath(folder), label) for label, folder in own]
    for store in stores:
        real = os.path.realpath(store.path)
        for folder, other, label in taken:
            if store.name != DEFAULT_STORE and store.hub is None and (_within(real, other) or _within(other, real)):
                how = "the same folder as" if real == other else "inside" if _within(real, other) else "around"
                raise ConfigError(
                    f"{path}: [stores.{store.name}] path {store.path} is {how} {folder} ({label})",
                    hint="stores cannot share a folder; choose another folder, or remove one of the two",
                    key=f"stores.{store.name}.path",
                )
        taken.append((store.path, real, f"[stores.{store.name}]"))


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def with_store(fs: FileSystem, where: Places, config: Config, store: StoreConfig) -> Config:
    """Add a `[stores.NAME]` at the end of `config.toml`, keep everything else in it, and settle again.

    Raises AlreadyExists (the name is taken), InvalidParams (the result would be wrong), ConfigError (the file as it is
    cannot be used), OSError.
    """
    if any(known.name == store.name for known in config.stores):
        raise AlreadyExists(f"store {store.name!r} already exists", hint="choose another name")
    file = config.file
    text = _read(fs, file)
    _parse(file, text)
    name = store.name if STORE_NAME.fullmatch(store.name) else _toml(store.name)
    table = f"[stores.{name}]\npath = {_toml(store.path)}\nformat = {_toml(store.format)}\n"
    try:
        return _rewritten(fs, where, config, _with_table(text, table))
    except ConfigError as error:
        raise InvalidParams(error.message, hint=error.hint, **error.data) from None


def must_be_free(config: Config, name: str) -> None:
    """Raise AlreadyExists or ConfigError unless a store may be added under this name."""
    if any(known.name == name for known in config.stores):
        raise AlreadyExists(f"store {name!r} already exists", hint="choose another name")
    must_be_name(name)


def must_be_name(name: str) -> None:
    """Raise ConfigError unless a store can have this name."""
    if STORE_NAME.fullmatch(name) is None:
        raise ConfigError(f"{name!r} is not a valid store name", hint=_NAME_HINT)


def with_shared(fs: FileSystem, where: Places, config: Config, name: str, entries: Mapping[str, str | bool]) -> Config:
    """Add a shared store: `[stores.NAME]` with `entries`. Errors as in `with_store`."""
    must_be_free(config, name)
    text = _read(fs, config.file)
    lines = [
        f"{key} = {'true' if one is True else _toml(str(one))}\n" for key, one in entries.items() if one is not False
    ]
    return _rewritten(fs, where, config, _with_table(text, f"[stores.{name}]\n{''.join(lines)}"))


def without_store(fs: FileSystem, where: Places, config: Config, name: str) -> Config:
    """Remove `[stores.NAME]` with its entries, keep everything else, and settle again.

    InvalidParams (there is no such store, or the file must be edited by hand), ConfigError, OSError.
    """
    text = _read(fs, config.file)
    before = _parse(config.file, text)
    if name not in before.get("stores", {}):
        raise InvalidParams(f"{config.file} has no store {name!r}")
    lines = text.splitlines(keepends=True)
    head = re.compile(rf'\s*\[\s*stores\s*\.\s*(["\']?){re.escape(name)}\1\s*\]\s*(#.*)?')
    first = next((number for number, line in enumerate(lines) if head.fullmatch(line.rstrip())), len(lines))
    last = next((at for at in range(first + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    changed = "".join([*lines[:first], *lines[last:]])
    stores = {key: value for key, value in before["stores"].items() if key != name}
    wanted = {key: value for key, value in {**before, "stores": stores}.items() if value or key != "stores"}
    if not _says(changed, wanted):
        raise InvalidParams(f"{config.file} cannot be changed safely", hint=f"remove [stores.{name}] by hand")
    return _rewritten(fs, where, config, changed)


def with_names(fs: FileSystem, where: Places, config: Config, name: str, value: Sequence[str]) -> Config:
    """Set a setting that is a list of names in `config.toml`, keep everything else in it, and settle again.

    InvalidParams (a flag or the environment sets it, or the file must be edited by hand), ConfigError, OSError.
    """
    if config.sources[name] == "flag":
        raise InvalidParams(f"{name} is set by a flag of the daemon", hint="start it without that flag")
    if config.sources[name] == "environment":
        variable = SETTINGS[name].variable
        raise InvalidParams(f"{name} is set by {variable}", hint=f"unset {variable}, and try again")
    file = config.file
    text = _read(fs, file)
    before = _parse(file, text)
    table, _, key = name.partition(".")
    written = f"[{', '.join(_toml(one) for one in value)}]"
    changed = _with_entry(text, table, key, written)
    wanted = {**before, table: {**before.get(table, {}), key: list(value)}}
    if not _says(changed, wanted):
        raise InvalidParams(f"{file} cannot be changed safely", hint=f"set {name} there by hand: {key} = {written}")
    return _rewritten(fs, where, config, changed)


def _rewritten(fs: FileSystem, where: Places, config: Config, text: str) -> Config:
    """Settle with `text` as `config.toml`; write it if that succeeds. ConfigError, OSError."""
    flags = {name: config.values[name] for name, source in config.sources.items() if source == "flag"}
    settled = settle(config.file, text, where, os.environ, flags)
    fs.make_dirs(where.config, 0o700)
    before = fs.stat(config.file)
    atomic_write(fs, config.file, text.encode(), 0o600 if before is None else before.mode & 0o777)
    return settled


def _with_table(text: str, table: str) -> str:
    """`text` with `table` at its end, after an empty line."""
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return text + gap + table


def _says(text: str, wanted: Mapping[str, Table]) -> bool:
    import tomllib

    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _with_entry(text: str, table: str, key: str, value: str) -> str:
    """`text` with `key = value` in `[table]`: in place of the entry that is there, whose comments go before it, or else as the
    table's first.
    """
    lines = text.splitlines(keepends=True)
    heads = [
        number for number, line in enumerate(lines) if re.fullmatch(rf"\s*\[\s*{table}\s*\]\s*(#.*)?", line.rstrip())
    ]
    if not heads:
        return _with_table(text, f"[{table}]\n{key} = {value}\n")
    start = heads[0] + 1
    lines[start - 1] = lines[start - 1].rstrip("\n") + "\n"
    for first in range(start, len(lines)):
        if lines[first].lstrip().startswith("["):
            break
        if re.match(rf"\s*{key}\s*=", lines[first]):
            last = _end_of_entry(lines, first)
            end = "\r\n" if lines[first].endswith("\r\n") else "\n"
            comments = [comment + end for comment in _comments("".join(lines[first:last]))]
            return "".join([*lines[:first], *comments, f"{key} = {value}{end}", *lines[last:]])
    return "".join([*lines[:start], f"{key} = {value}\n", *lines[start:]])


def _comments(entry: str) -> list[str]:
    """The comments in an entry; a `#` in a string begins none."""
    found = re.finditer(r"""\"(?:\\.|[^"\\\n])*"|'[^'\n]*'|(#[^\r\n]*)""", entry)
    return [match[1] for match in found if match[1]]


def _end_of_entry(lines: list[str], first: int) -> int:
    """The number after the last line of an entry: a list may have several lines."""
    import tomllib

    for last in range(first + 1, len(lines) + 1):
        try:
            tomllib.loads("".join(lines[first:last]))
        except tomllib.TOMLDecodeError:
            continue
        return last
    return first + 1


def _toml(text: str) -> str:
    """A TOML basic string. TOML's escapes are JSON's, except that DEL must be escaped too."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
