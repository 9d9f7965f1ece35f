"""The list of commands, and `sessiond --tcp` / `--ws`."""

from __future__ import annotations

from importlib import import_module

import click

import sessiond
from sessiond.cli.examples import epilog

COMMANDS = {
    "status": "status",
    "stop": "stop",
    "doctor": "doctor",
    "serve": "serve",
    "list": "list",
    "show": "show",
    "new": "new",
    "append": "append",
    "tail": "tail",
    "answer": "answer",
    "search": "search",
    "stats": "stats",
    "rename": "rename",
    "tag": "tag",
    "archive": "archive",
    "fork": "fork",
    "resume": "resume",
    "rm": "rm",
    "restore": "restore",
    "export": "export",
    "import": "import_",
    "follow": "follow",
    "adopt": "adopt",
    "store": "store",
    "mv": "mv",
    "backup": "backup",
    "gc": "gc",
    "setup": "setup",
    "mcp": "mcp",
    "service": "service",
    "web": "web",
    "completion": "completion",
    "docs": "docs",
    "help": "help",
    "acp": "acp",
    "repl": "repl",
    "demo": "demo",
}
"""Command -> the module of this package that holds it, in the order of `--help`."""
HIDDEN = {"welcome": "welcome", "hook": "hook"}
"""What `sessiond` without arguments runs in a terminal, and what agents run. They are not listed."""


class LazyGroup(click.Group):
    """Imports a command's module only when that command is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name) or HIDDEN.get(cmd_name)
        if module is None:
            return None
        command = import_module(f"sessiond.cli.{module}").command
        assert isinstance(command, click.Command)
        _add_examples(cmd_name, command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            close = difflib.get_close_matches(args[0], list(COMMANDS), n=1)
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from None


def _add_examples(name: str, command: click.Command) -> None:
    """Put the examples under the help of a command, or of each of its subcommands."""
    if isinstance(command, click.Group):
        for inner, one in command.commands.items():
            _add_examples(f"{name} {inner}", one)
    elif command.epilog is None:
        command.epilog = epilog(name)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Without a command, sessiond speaks JSON-RPC on standard input and output, as editors do.",
)
@click.option("--stdio", is_flag=True, help="Speak JSON-RPC on standard input and output (the default).")
@click.option("--clientProcessId", "client_pid", type=int, metavar="N", help="Exit when process N exits.")
@click.option(
    "--tcp", metavar="[HOST:]PORT", help="Have the daemon listen on TCP while this runs. Port 0: any free port."
)
@click.option("--ws", metavar="[HOST:]PORT", help="The same for WebSocket.")
@click.option("--ahp", metavar="[HOST:]PORT", help="The same for windows of VS Code (Agent Host Protocol), which read.")
@click.option(
    "--write",
    is_flag=True,
    help="With --ahp: windows may also write, in new sessions too, rename, archive, cut and delete.",
)
@click.version_option(sessiond.__version__, message="%(prog)s %(version)s")
@click.pass_context
def cli(
    ctx: click.Context,
    stdio: bool,
    client_pid: int | None,
    tcp: str | None,
    ws: str | None,
    ahp: str | None,
    write: bool,
) -> int:
    """One daemon that keeps all your conversations with models, for all your tools."""
    if ctx.invoked_subcommand is not None:
        return 0
    wanted = [(kind, address) for kind, address in (("tcp", tcp), ("ws", ws), ("ahp", ahp)) if address is not None]
    if write and ahp is None:
        raise click.UsageError("--write goes with --ahp: clients of --tcp and --ws may write anyway")
    if wanted:
        from sessiond.cli.listen import listen

        return listen(wanted, write=write)
    from sessiond import relay

    return relay.main(["--stdio"] if client_pid is None else [f"--clientProcessId={client_pid}"])
