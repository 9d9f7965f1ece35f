"""`sessiond completion SHELL`."""

from __future__ import annotations

import click


@click.command("completion", short_help="Shell completion for bash, zsh or fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the shell code that completes sessiond's commands.

    bash: put eval "$(sessiond completion bash)" into ~/.bashrc. zsh: put eval "$(sessiond completion zsh)" into ~/.zshrc.
    fish: sessiond completion fish > ~/.config/fish/completions/sessiond.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    root = ctx.find_root()
    print(found(root.command, {}, "sessiond", "_SESSIOND_COMPLETE").source())
