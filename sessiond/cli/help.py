"""`sessiond help [TOPIC]`: a command's help, or a page of the documentation in the terminal."""

from __future__ import annotations

import difflib

import click

from sessiond.cli.guides import GUIDES, Guide, folder
from sessiond.cli.output import clean, for_people


@click.command("help", short_help="Explain a topic or a command.")
@click.argument("words", metavar="[TOPIC|COMMAND]", nargs=-1)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show a page of the documentation, or a command's help; without an argument, list both.

    `sessiond docs` shows the whole documentation in a browser.
    """
    if not words:
        _list(ctx)
    elif len(words) == 1 and words[0] in GUIDES:
        _show(GUIDES[words[0]])
        if words[0] in _names(ctx):
            print(f"\nThe command of that name: sessiond {words[0]} --help")
    else:
        print(_help_of(ctx, words))


def _list(ctx: click.Context) -> None:
    width = max(map(len, GUIDES)) + 2
    print("Topics, for sessiond help TOPIC:\n")
    for name, guide in GUIDES.items():
        print(f"  {name:<{width}}{guide.says}")
    print("\nCommands, for sessiond help COMMAND:\n")
    group = _group(ctx)
    for name in _names(ctx):
        found = group.get_command(ctx, name)
        assert found is not None
        print(f"  {name:<{width}}{found.get_short_help_str(80)}")


def _help_of(ctx: click.Context, words: tuple[str, ...]) -> str:
    """The help of a command or subcommand, as its --help prints it."""
    found: click.Command = _group(ctx)
    inner = ctx.find_root()
    for word in words:
        following = found.get_command(inner, word) if isinstance(found, click.Group) else None
        if following is None:
            raise click.UsageError(_unknown(ctx, " ".join(words)), ctx)
        found = following
        inner = click.Context(found, info_name=word, parent=inner)
    return found.get_help(inner)


def _unknown(ctx: click.Context, words: str) -> str:
    close = difflib.get_close_matches(words, [*GUIDES, *_names(ctx)], n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    return f"There is no topic or command {clean(words)!r}.{meant} `sessiond help` lists them."


def _group(ctx: click.Context) -> click.Group:
    group = ctx.find_root().command
    assert isinstance(group, click.Group)
    return group


def _names(ctx: click.Context) -> list[str]:
    return _group(ctx).list_commands(ctx)


def _show(guide: Guide) -> None:
    """The page, drawn on a terminal and as it is elsewhere."""
    text = (folder() / guide.page).read_text("utf-8")
    if not for_people():
        print(text, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False), width=min(console.width, 100))
