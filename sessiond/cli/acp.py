"""`sessiond acp -- AGENT [ARGS]`."""

from __future__ import annotations

import click

from sessiond.cli.output import say


@click.command("acp", short_help="Record what an editor and an agent say to each other.")
@click.argument("agent", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--replay",
    type=click.Choice(["auto", "agent", "sessiond"]),
    default="auto",
    help="Who repeats an earlier conversation to the editor. auto: the agent if it can, and sessiond adds what is missing; "
    "agent: only the agent; sessiond: always sessiond.",
)
@click.option(
    "--join",
    "joined",
    metavar="ID",
    help="Be a second editor of a conversation that runs: it is repeated here, and goes on in both.",
)
@click.option("--recover", is_flag=True, help="Bring in what could not be recorded while no daemon was reached.")
def command(agent: tuple[str, ...], replay: str, joined: str | None, recover: bool) -> int:
    """Run AGENT, which speaks the Agent Client Protocol on its standard input and output, and record the conversation.

    Put this command where an editor's configuration has the agent's: sessiond acp -- AGENT ARGS. What is said passes, and the
    exit status is the agent's. It becomes a session that other tools see live. If no daemon can be reached, it is kept in a
    file, and the next `sessiond acp` brings it in.

    An agent that cannot list, load or resume sessions is made to: the editor gets the conversation again, and the agent is told
    once what was said. With --join, this is a second editor of an agent that runs: prompts wait for the turn of another
    editor, and the first answer to a question counts.
    """
    if recover:
        from sessiond.acp import recorder, start

        code = recorder.main([start.folder()])
        if code:
            raise click.ClickException(
                "some conversations could not be recorded yet and are still kept; is the daemon reachable (sessiond status)?"
            )
        say("everything is recorded")
        return 0
    if joined is not None:
        return _join(joined)
    if not agent:
        raise click.UsageError("name the agent's command: sessiond acp -- AGENT ARGS")
    from sessiond.acp import start

    try:
        start.connect(agent, replay)
    except FileNotFoundError as error:
        raise click.ClickException(f"{agent[0]} was not found ({error.strerror})") from None
    except PermissionError as error:
        raise click.ClickException(f"{agent[0]} cannot be run ({error.strerror})") from None


def _join(name: str) -> int:
    from sessiond.acp import start
    from sessiond.acp.joined import NobodyThereError

    try:
        start.join(name)
    except NobodyThereError as error:
        if error.running.count(name) > 1:
            raise click.ClickException(f"several conversations that run are called {name}; close one of them") from None
        others = f"; these do: {', '.join(error.running)}" if error.running else ""
        raise click.ClickException(f"no conversation called {name} runs{others}") from None
    return 0
