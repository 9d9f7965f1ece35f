"""Flags beat the environment, the environment beats the file, and every mistake is reported in one line."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sessiond import config
from sessiond.endpoint import Places, places
from sessiond.errors import AlreadyExists, ConfigError, InvalidParams
from sessiond.formats import registry
from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.shared_config import HubConfig

FS = RealFileSystem()


@pytest.fixture
def where(tmp_path: Path) -> Places:
    return places({"HOME": str(tmp_path), "SESSIOND_HOME": str(tmp_path / "home")})


def write(where: Places, text: str) -> str:
    file = Path(where.config) / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return str(file)


def load(where: Places, text: str = "", env: Mapping[str, str] | None = None, **flags: Any) -> config.Config:
    if text:
        write(where, text)
    return config.load(FS, where, env or {}, flags)


def test_nothing_set_is_the_default(where: Places) -> None:
    """Without a file everything has its documented default."""
    settled = load(where)
    assert (settled.autosave_interval_s, settled.autosave_idle_s) == (300, 2)
    assert settled.limits == Limits()
    assert settled.stores == (config.StoreConfig("default", where.data + "/sessions", "jsonl"),)
    assert settled.explained() == {}


def test_flag_beats_environment_beats_file(where: Places) -> None:
    """Each layer wins over the one below, and each value remembers who set it."""
    file = "[autosave]\ninterval_s = 1\nidle_s = 1\n[limits]\nconnections = 1\n"
    env = {"SESSIOND_AUTOSAVE_INTERVAL_S": "2", "SESSIOND_AUTOSAVE_IDLE_S": "2", "SESSIOND_HOME": "/x"}
    settled = load(where, file, env, **{"autosave.interval_s": 3})
    assert settled.explained() == {
        "autosave.interval_s": (3, "flag"),
        "autosave.idle_s": (2, "environment"),
        "limits.connections": (1, where.config + "/config.toml"),
    }
    assert settled.limits.connections == 1


def test_every_limit_can_be_set_under_its_own_name(where: Places) -> None:
    """`[limits]` takes the snake_case names of `Limits`, but for the two that are set elsewhere."""
    names = [name for name in Limits.__struct_fields__ if name not in ("daemon_idle_exit_s", "daemon_start_s")]
    settled = load(where, "[limits]\n" + "".join(f"{name} = 7\n" for name in names) + "[daemon]\nidle_exit_s = 0\n")
    assert all(getattr(settled.limits, name) == 7 for name in names)
    assert settled.limits.daemon_idle_exit_s == 0


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[autosave]\nintervall_s = 3", "unknown key 'intervall_s' in [autosave]", "did you mean 'interval_s'?"),
        ("[autosav]\ninterval_s = 3", "unknown key 'autosav'", "did you mean 'autosave'?"),
        ("interval_s = 3", "unknown key 'interval_s'", "it belongs under [autosave]"),
        ("[limits]\ndaemon_idle_exit_s = 3", "unknown key 'daemon_idle_exit_s'", "write [daemon] idle_exit_s instead"),
        ("[limits]\nconnections = 0", "limits.connections is 0", "a whole number greater than 0"),
        ("[limits]\nconnections = 2.5", "limits.connections is 2.5", "a whole number greater than 0"),
        ("[limits]\nsettle_s = true", "limits.settle_s is True", "a number of seconds greater than 0"),
        ("[autosave]\ninterval_s = '5'", "autosave.interval_s is '5'", "a number of seconds, or 0 to turn it off"),
        ("[autosave]\ninterval_s = nan", "autosave.interval_s is nan", "a number of seconds"),
        ("[autosave]\ninterval_s = -1", "autosave.interval_s is -1", "a number of seconds"),
        ("[daemon]\nallowed_hosts = 'x'", "daemon.allowed_hosts is 'x'", "a list of strings"),
        ("[ahp]\nlisten = 8714", "ahp.listen is 8714", 'a list of "socket", "PORT" and "HOST:PORT"'),
        ("[ahp]\nlisten = ['socket', 'here']", "ahp.listen is ['socket', 'here']", 'a list of "socket"'),
        ("[ahp]\nlisten = ['127.0.0.1:0']", "ahp.listen is ['127.0.0.1:0']", "a list of"),
        ("[ahp]\nlisten = ['a..b:8714']", "ahp.listen is ['a..b:8714']", "a list of"),
        ("[ahp]\nlisten = ['8714', ':8715']", "ahp.listen is", "a list of"),
        ("[ahp]\nlisten = [8714]", "ahp.listen is [8714]", "a list of"),
        ("[ahp]\nwrite = 1", "ahp.write is 1", "true or false"),
        ("autosave = 3", "autosave must be a table", "write [autosave]"),
        ("[autosave\n", "(at line 1, column 10)", "TOML"),
        ("[stores.x]\npath='/a/x'\nformat='agentq'", "unknown format 'agentq'", "did you mean 'agent-q'?"),
        ("[stores.x]\npath='/a/x'", "[stores.x]: format is missing", 'add format = "jsonl"'),
        ("[stores.x]\nformat='jsonl'", "[stores.x]: path is missing", "add path"),
        ("[stores.x]\npath='a/x'\nformat='jsonl'", "'a/x' is not an absolute path", "begin it with / or ~/"),
        ("[stores.x]\npath=3\nformat='jsonl'", "path is 3", "must be a string"),
        ("[stores.x]\npaht='/a'\nformat='jsonl'", "unknown key 'paht'", "did you mean 'path'?"),
        ("[stores.'My Store']\npath='/a'\nformat='jsonl'", "'My Store' is not a valid store name", "a-z, 0-9, - and _"),
        ("[stores]\nx = '/a'", "stores.x must be a table", "write [stores.x]"),
        ("[stores.default]\npath='/a'", "the default store is in", "make a store with another name"),
        ("[stores.default]\nformat='sibyl'", 'has the format "jsonl"', "make a store with another name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_what_to_write(where: Places, text: str, message: str, hint: str) -> None:
    """Every mistake names the file and the key, and says what to write instead."""
    with pytest.raises(ConfigError) as caught:
        load(where, text)
    assert message in caught.value.message
    assert where.config + "/config.toml" in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("[autosave\n", {"line": 1}),
        ("[autosave]\nidle_s = \n", {"line": 2}),
        ("[autosave]\nidle_s = [", {"line": None}),
        ("[autosav]\n", {"key": "autosav"}),
        ("autosave = 3", {"key": "autosave"}),
        ("[autosave]\nidle_s = -1", {"key": "autosave.idle_s"}),
        ("[autosave]\nidl_s = 1", {"key": "autosave.idl_s"}),
        ("[stores.'My Store']", {"key": "stores.My Store"}),
        ("[stores]\nx = 3", {"key": "stores.x"}),
        ("[stores.x]\npaht='/a'", {"key": "stores.x.paht"}),
        ("[stores.x]\npath=3", {"key": "stores.x.path"}),
        ("[stores.x]\npath='/a/x'", {"key": "stores.x"}),
        ("[stores.x]\npath='/a/x'\nformat='xml'", {"key": "stores.x.format"}),
        ("[stores.x]\npath='a/x'\nformat='jsonl'", {"key": "stores.x.path"}),
        ("[stores.default]\npath='/a'", {"key": "stores.default.path"}),
        ("[stores.default]\npath='a'", {"key": "stores.default.path"}),
        ("[stores.default]\nformat='sibyl'", {"key": "stores.default.format"}),
        ("[stores.x]\npath='/'\nformat='jsonl'", {"key": "stores.x.path"}),
    ],
)
def test_where_it_is_wrong_is_told_to_programs_too(where: Places, text: str, data: dict[str, Any]) -> None:
    """The key as TOML names it, or the line where it stops being TOML; a repair needs no more."""
    with pytest.raises(ConfigError) as caught:
        load(where, text)
    assert {name: caught.value.data.get(name, "nothing") for name in data} == data


@pytest.mark.parametrize(
    ("env", "message", "hint"),
    [
        ({"SESSIOND_AUTOSAVE_INTERVAL": "1"}, "SESSIOND_AUTOSAVE_INTERVAL", "mean 'SESSIOND_AUTOSAVE_INTERVAL_S'"),
        ({"SESSIOND_AUTOSAVE_INTERVAL_S": "soon"}, "SESSIOND_AUTOSAVE_INTERVAL_S is 'soon'", "a number of seconds"),
        (
            {"SESSIOND_LIMITS_CONNECTIONS": "1e3"},
            "SESSIOND_LIMITS_CONNECTIONS is '1e3'",
            "a whole number greater than 0",
        ),
        ({"SESSIOND_AHP_WRITE": "yes"}, "SESSIOND_AHP_WRITE is 'yes'", "true or false"),
        ({"SESSIOND_AHP_LISTEN": "socket,here"}, "SESSIOND_AHP_LISTEN is", "a list of"),
    ],
)
def test_the_environment_is_checked_like_the_file(where: Places, env: dict[str, str], message: str, hint: str) -> None:
    """A wrong variable is as much an error as a wrong key."""
    with pytest.raises(ConfigError) as caught:
        load(where, env=env)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_the_trash_can_be_kept_for_ever(where: Places) -> None:
    """0 turns the expiry off; fewer days than none are an error."""
    assert load(where, "[limits]\ntrash_days = 0").limits.trash_days == 0
    with pytest.raises(ConfigError, match=r"limits\.trash_days is -1"):
        load(where, "[limits]\ntrash_days = -1")


def test_lists_in_the_environment_are_split_at_commas(where: Places) -> None:
    """`SESSIOND_DAEMON_ALLOWED_HOSTS=a, b` is a list of two."""
    assert load(where, env={"SESSIOND_DAEMON_ALLOWED_HOSTS": "a, b"}).allowed_hosts == ("a", "b")


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False)]
)
def test_a_switch_in_the_environment_has_usual_words(where: Places, text: str, value: bool) -> None:
    assert load(where, env={"SESSIOND_AHP_WRITE": text}).ahp_write is value


def test_where_windows_connect(where: Places) -> None:
    text = "[ahp]\nlisten = ['socket', '8714', 'host:8714', '[::1]:8714']"
    assert load(where, text).ahp_listen == ("socket", "8714", "host:8714", "[::1]:8714")


def test_nested_stores_are_refused_through_links(where: Places, tmp_path: Path) -> None:
    """Two stores in one folder, or one inside the other, are an error, however the path is spelled."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b")
    for other, how in ((tmp_path / "a", "the same folder as"), (tmp_path / "link", "inside"), (tmp_path, "around")):
        text = f'[stores.one]\npath="{tmp_path}/x/../a"\nformat="jsonl"\n[stores.two]\npath="{other}"\nformat="jsonl"\n'
        with pytest.raises(ConfigError, match=how):
            load(where, text)


def test_a_store_never_lies_in_the_daemons_own_folders(where: Places) -> None:
    """Neither inside the data folder nor around it."""
    for path in (where.data + "/sessions", where.data + "/trash", where.home, "/"):
        with pytest.raises(ConfigError, match=r"the daemon's own (data|config) folder"):
            load(where, f'[stores.x]\npath="{path}"\nformat="jsonl"\n')


def test_the_formats_are_those_that_can_be_read() -> None:
    """Configuration lies below the formats and so has a list of its own; the two are the same."""
    assert config.STORE_FORMATS == registry.NAMES


def test_home_is_expanded(where: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` in a store's path is the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    stores = load(where, '[stores.lisp]\npath="~/.emacs.d/s"\nformat="agent-q"\n').stores
    assert stores[1] == config.StoreConfig("lisp", f"{tmp_path}/.emacs.d/s", "agent-q")


def test_a_file_that_cannot_be_read_is_an_error_of_its_own(where: Places) -> None:
    """A folder or bytes that are not UTF-8 in its place give one clear line."""
    file = Path(write(where, ""))
    file.write_bytes(b"# \xff\n")
    with pytest.raises(ConfigError, match="is not valid UTF-8"):
        load(where)
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(where)


def test_adding_a_store_keeps_every_word_of_the_file(where: Places, tmp_path: Path) -> None:
    """The user's text is unchanged above the new entry; the file's mode and a link to it remain."""
    text = "# mine\n[autosave]\ninterval_s = 7 # often"
    real = tmp_path / "dotfiles.toml"
    real.write_text(text)
    real.chmod(0o644)
    link = Path(where.config) / "config.toml"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    odd = str(tmp_path / 'a "quoted" \\ ü')
    grown = config.with_store(FS, where, load(where), config.StoreConfig("lisp", odd, "agent-q"))
    assert real.read_text().startswith(text + "\n\n[stores.lisp]\n")
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o644
    assert grown.stores == load(where).stores
    assert grown.stores[1] == config.StoreConfig("lisp", odd, "agent-q")


@pytest.mark.parametrize("seed", range(100))
def test_setting_names_keeps_everything_else(where: Places, seed: int) -> None:
    """Whatever the file looks like: after it the setting has the value, and every other word is where it was, or the file is
    refused and unchanged.
    """
    chance = random.Random(seed)
    pieces = [
        "# a comment\n",
        "\n",
        "[autosave]\nidle_s = 3 # tools = 1\n",
        "[limits]\n# [follow]\npage_messages = 7\n",
        chance.choice([
            '[follow]\n', '[follow] # here\ntools = ["a"] # mine\n', ' [ follow ]\ntools = [\n  "a", # ]\n  "]b",\n]\n',
            '[follow]\n# tools = []\n\ntools=["x"]', 'follow.tools = ["y"]\n', "", "",
        ]),
        '[daemon]\nallowed_hosts = ["tools = 2"]\n',
    ]  # fmt: skip
    chance.shuffle(pieces)
    text = (
        "".join(pieces)
        if "follow.tools" not in "".join(pieces)
        else 'follow.tools = ["y"]\n' + "".join(piece for piece in pieces if "follow.tools" not in piece)
    )
    try:
        before = load(where, text)
    except ConfigError:
        pytest.skip("not a configuration")
    names = chance.choice([["claude-code", "codex"], [], ['a "b" \\']])
    file = Path(where.config) / "config.toml"
    try:
        after = config.with_names(FS, where, before, "follow.tools", names)
    except InvalidParams:
        assert "follow.tools =" in text
        assert file.read_text() == text
        return
    assert after == load(where)
    assert after.follow_tools == tuple(names)
    assert {**after.values, "follow.tools": None} == {**before.values, "follow.tools": None}
    assert [word for word in ("# mine", "# ]", "# here") if word in text and word not in file.read_text()] == []
    left = iter(file.read_text().splitlines())
    for line in text.splitlines():
        if "tools" not in line and line.strip() not in ("]", '"]b",', '"a", # ]'):
            assert line.strip() in (other.strip() for other in left), line
    assert config.with_names(FS, where, after, "follow.tools", names).follow_tools == tuple(names)


def test_setting_names_keeps_the_ends_of_lines(where: Places) -> None:
    text = '[ahp]\r\nlisten = [\r\n "8714", # the Agents window\r\n] # keep "this"\r\n# and this\r\n'
    config.with_names(FS, where, load(where, text), "ahp.listen", ["8714", "socket"])
    expected = '[ahp]\r\n# the Agents window\r\n# keep "this"\r\nlisten = ["8714", "socket"]\r\n# and this\r\n'
    assert (Path(where.config) / "config.toml").read_bytes().decode() == expected


def test_adding_a_store_that_would_be_wrong_changes_nothing(where: Places, tmp_path: Path) -> None:
    """A taken name, a nested folder or a bad name is refused before the file is touched."""
    before = load(where, f'[stores.one]\npath="{tmp_path}/one"\nformat="jsonl"\n')
    with pytest.raises(AlreadyExists):
        config.with_store(FS, where, before, config.StoreConfig("one", "/elsewhere", "jsonl"))
    with pytest.raises(InvalidParams, match="inside"):
        config.with_store(FS, where, before, config.StoreConfig("two", f"{tmp_path}/one/two", "jsonl"))
    with pytest.raises(InvalidParams, match="is not a valid store name"):
        config.with_store(FS, where, before, config.StoreConfig("Two!", f"{tmp_path}/two", "jsonl"))
    assert load(where) == before


@pytest.mark.parametrize(
    ("entry", "refused"),
    [
        ("", None),
        ('format = "jsonl"', None),
        ('path = "{data}/sessions"', None),
        ('path = "/elsewhere"', "the default store is in"),
        ('format = "amacs"', 'has the format "jsonl"'),
    ],
)
def test_the_default_store_may_be_named_but_not_moved(where: Places, entry: str, refused: str | None) -> None:
    """Its place and its format are the daemon's own; it remains the first."""
    text = f'[stores.default]\n{entry.format(data=where.data)}\n[stores.other]\npath = "/other"\nformat = "amacs"\n'
    if refused is not None:
        with pytest.raises(ConfigError, match=refused):
            load(where, text)
        return
    found = load(where, text).stores
    assert [(store.name, store.format) for store in found] == [("default", "jsonl"), ("other", "amacs")]
    assert found[0].path == config.default_store_path(where)


SHARED = {
    'url = "postgresql://ada@db.example/sessiond"': HubConfig("team", url="postgresql://ada@db.example/sessiond"),
    'service = "s"\noffline = "refuse"\nstore = "other"': HubConfig("other", service="s", offline="refuse"),
    'service = "s"\nmirror = true': HubConfig("team", service="s", mirror=True),
    'url = "postgresql:///d"\nkey_file = "/k/../key"\npassword_file = "/p"\nlisten_url = "postgresql:///e"': HubConfig(
        "team", url="postgresql:///d", key_file="/key", password_file="/p", listen_url="postgresql:///e"
    ),
}


@pytest.mark.parametrize("entry", SHARED)
def test_a_shared_store_has_a_hub(where: Places, entry: str) -> None:
    """Its replica is in the daemon's own folder; its files are JSON Lines."""
    [_, store] = load(where, f"[stores.team]\n{entry}\n").stores
    assert store == config.StoreConfig("team", where.data + "/shared/team", "jsonl", SHARED[entry])


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('url = "postgresql://ada:hunter2@h/d"', "holds a password"),
        ('url = "postgresql://h/d?password=hunter2"', "holds a password"),
        ('url = "postgresql:///d"\nlisten_url = "postgresql://a:hunter2@h/d"', "holds a password"),
        ('url = "postgresql:///d"\nservice = "s"', "both set"),
        ('url = "postgresql:///d"\noffline = "perhaps"', "offline is"),
        ('url = "postgresql:///d"\noffline = true', "wrong type"),
        ('url = "postgresql:///d"\nmirror = "yes"', "wrong type"),
        ("url = 7", "wrong type"),
        ('url = "postgresql:///d"\nkey_file = "relative"', "absolute"),
        ('url = "postgresql:///d"\nkeyfile = "/x"', "unknown key"),
        ('url = "postgresql:///d"\npath = "/x"', "unknown key"),
    ],
)
def test_a_wrong_shared_store_is_refused(where: Places, entry: str, says: str) -> None:
    """With the key, and without a password that was written in the wrong place."""
    with pytest.raises(ConfigError, match=says) as caught:
        load(where, f"[stores.team]\n{entry}\n")
    assert "hunter2" not in str(caught.value) + str(caught.value.hint) + str(caught.value.data)
    with pytest.raises(ConfigError, match="cannot be shared"):
        load(where, '[stores.default]\nurl = "postgresql:///d"\n')


@pytest.mark.parametrize("seed", range(60))
def test_joining_and_leaving_keep_everything_else(where: Places, seed: int) -> None:
    """Whatever the file looks like: after leaving, every other word is where it was before joining, or the file is refused unchanged."""
    chance = random.Random(seed)
    pieces = [
        "# a comment\n", "[autosave]\nidle_s = 3\n", '[follow]\ntools = [\n  "codex",\n]\n',
        '[stores.notes]\npath = "/n"\nformat = "jsonl"\n', '[stores.team-two] # [stores.team]\nservice = "s"\n',
    ]  # fmt: skip
    chance.shuffle(pieces)
    text = "".join(pieces[: chance.randint(0, 5)])
    before = load(where, text)
    file = Path(where.config) / "config.toml"
    entries = {"url": 'postgresql:///a "b"'}
    after = config.with_shared(FS, where, before, "team", entries)
    assert after == load(where)
    [team] = [store for store in after.stores if store.name == "team"]
    assert team.hub == HubConfig("team", url='postgresql:///a "b"')
    with pytest.raises(AlreadyExists):
        config.with_shared(FS, where, after, "team", entries)
    gone = config.without_store(FS, where, after, "team")
    assert gone == load(where)
    assert gone.stores == before.stores
    assert file.read_text().rstrip("\n") == text.rstrip("\n")
    with pytest.raises(InvalidParams):
        config.without_store(FS, where, gone, "team")
    file.write_text('stores = { team = { service = "s" } }\n')
    with pytest.raises(InvalidParams, match="safely"):
        config.without_store(FS, where, load(where), "team")


def test_a_byte_order_mark_is_passed_over(where: Places) -> None:
    """Editors of Windows write one, and nobody sees it."""
    assert load(where, "\ufeff[autosave]\nidle_s = 7\n").autosave_idle_s == 7
