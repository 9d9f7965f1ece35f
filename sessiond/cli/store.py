"""`sessiond store`: shared stores, whose hub is a database of PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sessiond import config as configuration
from sessiond.cli.options import NamedFile, as_json
from sessiond.cli.output import print_json, say, table
from sessiond.cli.store_key import key
from sessiond.cli.store_left import set_aside, waiting_in
from sessiond.endpoint import Places, places
from sessiond.errors import ConfigError, Conflict
from sessiond.fs import RealFileSystem
from sessiond.hub.address import HubAddress, check_url
from sessiond.hub.opening import address_of, ask_hub, need_extra, own_hub
from sessiond.shared_config import HubConfig
from sessiond.words import count

if TYPE_CHECKING:
    from sessiond.hub.port import Hub, HubWelcome
    from sessiond.hub.setup import Owner

F = TypeVar("F", bound=Callable[..., Any])
_name = click.argument("name")
_LOOKED_AT = 200
"""At how many sessions `join` looks with the key."""
_OTHER_KEY = "run `sessiond store key show` on a machine that has joined, and add what it prints to the file"


def _where(command: F) -> F:
    """The options that say where a hub is."""
    for option in (
        click.option(
            "--password-file", type=NamedFile(exists=True, dir_okay=False), help="A file with the role's password."
        ),
        click.option("--service", help="Instead of a URL: the name of a service in pg_service.conf."),
        click.option("--url", help="postgresql://ROLE@HOST/DATABASE, without a password."),
    ):
        command = option(command)
    return command


@click.group("store", short_help="Share sessions between machines and people: stores with a hub.")
def command() -> None:
    """Share sessions between machines and people. The hub is a database of PostgreSQL (14 or later).

    Whoever runs the database makes a store with `create` and adds members; each machine then joins with `join`. The extra
    sessiond[postgres] is needed. Passwords come from ~/.pgpass, a file or PGPASSWORD, never from the URL.
    """


command.add_command(key)


@command.command("create", short_help="Make a store on a hub, as the owner of the database.")
@_name
@_where
@click.option("--encrypted", is_flag=True, help="Its contents will be encrypted: machines join with a key file.")
@click.option("--member", "members", multiple=True, metavar="ROLE[=NAME]", help="Add a member; repeat it for several.")
@as_json
def create(
    name: str, url: str | None, service: str | None, password_file: str | None, encrypted: bool, members: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """Make the store NAME, and what a hub needs if the database does not have it yet. The URL's role owns it afterwards.

    A member is a role of PostgreSQL that may log in; NAME is shown as the author of what it says. It can read the store and add to
    it, and neither alter tables nor rewrite history.
    """
    configuration.must_be_name(name)
    address = _address(name, url, service, password_file)
    split = [member.partition("=") for member in members]

    async def work(owner: Owner) -> bool:
        return await owner.make_with([(role, shown or role) for role, _, shown in split], sealed=encrypted)

    fresh = own_hub(address, work)
    if as_json:
        print_json(
            {"store": name, "url": address.shown(), "newHub": fresh, "encrypted": encrypted, "members": len(members)}
        )
        return
    say(f"store {name} is on {address.shown()}, with {count(len(members), 'member')}")
    if not members:
        say(f"add members: sessiond store members {name} --url ... --add ROLE")
    if encrypted:
        say(
            "make a key on one machine: sessiond store key new FILE; copy it to the others over a channel that you trust"
        )
    say(f"on each machine: sessiond store join {name} --url postgresql://ROLE@HOST/DATABASE")


@command.command("members", short_help="Show, add or revoke members, as the owner of the database.")
@_name
@_where
@click.option("--add", multiple=True, metavar="ROLE[=NAME]", help="Add a member, or let a revoked one in again.")
@click.option("--may-erase", is_flag=True, help="Those that are added may delete a session for ever.")
@click.option(
    "--revoke", multiple=True, metavar="NAME", help="Its daemons are refused from now on; what it wrote stays."
)
@as_json
def members(
    name: str, url: str | None, service: str | None, password_file: str | None, add: tuple[str, ...], may_erase: bool,
    revoke: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Show the members of the store NAME, after adding and revoking."""
    address = _address(name, url, service, password_file)

    async def work(owner: Owner) -> list[Any]:
        for member in add:
            role, _, shown = member.partition("=")
            await owner.add_member(role, shown or role, may_erase=may_erase)
        for member in revoke:
            await owner.revoke(member)
        return list(await owner.members())

    found = own_hub(address, work)
    if as_json:
        import msgspec

        print_json({"members": msgspec.to_builtins(found)})
        return
    rows = [(one.name, one.role, "revoked" if one.revoked else "may erase" if one.may_erase else "") for one in found]
    table(("MEMBER", "ROLE", ""), rows)


@command.command("join", short_help="Use a shared store on this machine.")
@_name
@_where
@click.option(
    "--as", "local", metavar="NAME", help="What the store is called on this machine; its name on the hub by default."
)
@click.option("--key-file", type=NamedFile(exists=True, dir_okay=False), help="The key of an encrypted store.")
@click.option("--listen-url", help="A direct way to the server, where the URL leads to a pooler such as pgbouncer.")
@click.option(
    "--offline", type=click.Choice(["queue", "refuse"]), default="queue", show_default=True,
    help="What happens to what is said while the hub cannot be reached: it waits here, or is refused.",
)  # fmt: skip
@click.option("--mirror", is_flag=True, help="Fetch all sessions in the background, not only those that are opened.")
@as_json
def join(
    name: str, url: str | None, service: str | None, password_file: str | None, local: str | None, key_file: str | None,
    listen_url: str | None, offline: str, mirror: bool, as_json: bool,
) -> None:  # fmt: skip
    """Add the shared store NAME to config.toml, after a visit to its hub. Nothing is changed if the hub refuses."""
    local = local or name
    fs, where = RealFileSystem(), places()
    config = configuration.load(fs, where)
    configuration.must_be_free(config, local)
    texts = {
        "url": url, "service": service, "store": name if local != name else None,
        "password_file": _absolute(password_file), "listen_url": listen_url, "key_file": _absolute(key_file),
        "offline": offline if offline != "queue" else None,
    }  # fmt: skip
    entries: dict[str, str | bool] = {one: text for one, text in texts.items() if text is not None}
    if mirror:
        entries["mirror"] = True
    address = _address(name, url, service, _absolute(password_file), listen_url)
    welcome = ask_hub(address, _visit, _absolute(key_file))
    if welcome.sealed and key_file is None:
        raise ConfigError(f"the store {name} is encrypted", hint="add --key-file with a copy of its key")
    aside = set_aside(fs, where, local, welcome.identity)
    configuration.with_shared(fs, where, config, local, entries)
    if as_json:
        print_json({"store": local, "member": welcome.member, "encrypted": welcome.sealed})
        return
    if aside is not None:
        say(f"what was fetched of another store that was called {local} is now in {aside}, and is not shared")
    say(f"joined {local} as {welcome.member}; its sessions are {local}/ID")
    say("a daemon that is running learns of it when it starts again: sessiond stop")


@command.command("leave", short_help="Stop using a shared store on this machine.")
@_name
@click.option("--force", is_flag=True, help="Leave even if changes made here were never shared.")
def leave(name: str, force: bool) -> None:
    """Remove the shared store NAME from config.toml. The hub keeps its sessions, and so does the replica on this machine."""
    fs, where = RealFileSystem(), places()
    _configured(where, name)
    replica = where.data + "/shared/" + name
    waiting = 0 if force else waiting_in(replica + ".ledger")
    if waiting:
        raise Conflict(
            f"{count(waiting, 'change')} of {name} wait{'s' if waiting == 1 else ''} here, and nobody else has them",
            hint="let them be shared first (`sessiond status` says when), or add --force",
        )
    configuration.without_store(fs, where, configuration.load(fs, where), name)
    say(f"left {name}; what was fetched is still in {replica}")
    say("a daemon that is running learns of it when it starts again: sessiond stop")


@command.command("status", short_help="Say whether the hub can be reached, and as whom.")
@_name
@as_json
def status(name: str, as_json: bool) -> None:
    """Visit the hub of the store NAME: who we are there, how changes arrive, whether anything is wrong."""
    hub = _configured(places(), name)
    address = address_of(hub)
    welcome = ask_hub(address, _welcome)
    if as_json:
        import msgspec

        print_json({**msgspec.to_builtins(welcome), "url": address.shown()})
        return
    say(f"{name}: {address.shown()} (PostgreSQL {welcome.server}), as {welcome.member}")
    say("encrypted" if welcome.sealed else "not encrypted")
    if welcome.hints == "polling":
        say("a pooler is in between: changes arrive by polling; a direct way in listen_url is faster")
    if welcome.problem:
        say(f"problem: {welcome.problem}")


@command.command("verify", short_help="Read everything on the hub again, and compare.")
@_name
@as_json
def verify(name: str, as_json: bool) -> int:
    """Read every operation of the store NAME on its hub, and compare numbers, digests and seals. Exits with 1 if one is wrong."""
    hub = _configured(places(), name)
    need_extra()
    from sessiond.hub.verifying import verify as verified

    report = ask_hub(address_of(hub), verified, hub.key_file)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(report))
    else:
        for one in report.differences:
            say(f"{one.session}: {one.message} ({one.kind}, number {one.number})")
        wrong = f"{len(report.differences)} wrong" if report.differences else "all right"
        say(
            f"{count(report.sessions, 'session')}, {count(report.operations, 'operation')}, {report.bytes} bytes: {wrong}"
        )
    return 1 if report.differences else 0


async def _welcome(hub: Hub) -> HubWelcome:
    return await hub.welcome()


async def _visit(hub: Hub) -> HubWelcome:
    """ConfigError: nothing of what lists show can be read with the key."""
    welcome = await hub.welcome()
    page = await hub.heads(None, _LOOKED_AT)
    problems = [head.problem for head in page.heads if head.listing is not None or head.problem is not None]
    if problems and None not in problems:
        raise ConfigError(f"this key does not open the store {welcome.store}: {problems[0]}", hint=_OTHER_KEY)
    return welcome


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def _address(
    name: str, url: str | None, service: str | None, password_file: str | None, listen_url: str | None = None
) -> HubAddress:
    if (url is None) == (service is None):
        raise click.UsageError("give either --url or --service")
    for one in (url, listen_url):
        if one is not None:
            check_url(one)
    return HubAddress(name, url, service, password_file, listen_url)


def _configured(where: Places, name: str) -> HubConfig:
    for store in configuration.load(RealFileSystem(), where).stores:
        if store.name == name and store.hub is not None:
            return store.hub
    raise ConfigError(f"{name!r} is not a shared store of this machine", hint="add it with `sessiond store join`")
