"""`sessiond completion SHELL`."""

from __future__ import annotations

import click


@click.command("completion", short_help="Completion for bash, zsh or fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print what a shell needs to complete sessiond's commands.

    bash: eval "$(sessiond completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc. fish: sessiond completion fish >
    ~/.config/fish/completions/sessiond.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    root = ctx.find_root()
    print(found(root.command, {}, "sessiond", "_SESSIOND_COMPLETE").source())
